//! The Skip Index Scan: whatever it is part of gives what a plan without it gives, it says of itself what is true, and the
//! planner takes it where it helps.
mod blocked;
mod buffers;
mod changes;
mod choice;
mod conditions;
mod counters;
mod cursors;
mod failures;
mod formats;
mod generated;
mod hooks;
mod isolation;
mod keys;
mod long_delta;
mod prepared;
mod queries;
mod refusals;
mod reviewed;
mod security;
mod serializable;
mod settings;
mod snapshots;
mod special;
mod tables;

use libtest_mimic::Trial;

pub fn trials() -> Vec<Trial> {
    // The long ones first.
    [
        generated::trials,
        hooks::trials,
        buffers::trials,
        prepared::trials,
        keys::trials,
        cursors::trials,
        snapshots::trials,
        isolation::trials,
        long_delta::trials,
        failures::trials,
        choice::trials,
        settings::trials,
        refusals::trials,
        counters::trials,
        formats::trials,
        security::trials,
        serializable::trials,
        special::trials,
        reviewed::trials,
    ]
    .into_iter()
    .flat_map(|topic| topic())
    .collect()
}
