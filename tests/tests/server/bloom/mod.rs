//! The type `bloom`: no key is ever lost, whatever its type and however its filter was made, moved or put together.
mod aggregate;
mod engine;
mod exchange;
mod growth;
mod io;
mod keys;
mod operators;
mod parts;
mod planner;
mod stored;

use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    [
        growth::trials,
        aggregate::trials,
        parts::trials,
        engine::trials,
        keys::trials,
        io::trials,
        operators::trials,
        exchange::trials,
        planner::trials,
        stored::trials,
    ]
    .iter()
    .flat_map(|topic| topic())
    .collect()
}
