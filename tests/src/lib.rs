//! What the server tests stand on: servers that start and stop themselves, sessions whose failures name the
//! statement, values of every supported type, and the comparison of an index with a plain scan.
//!
//! The tests themselves are in `tests/server/`, one file a topic. Run them with
//! `PG_SKIP_PG_CONFIG=/path/to/pg_config cargo test -p pg_skip_tests [filter]`, against a server that has the
//! extension installed. `PG_SKIP_SEED` and `PG_SKIP_CASES` choose and scale the random cases.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod both_ways;
pub mod cancel;
pub mod compare;
pub mod explain;
pub mod likely;
pub mod server;
pub mod session;
pub mod values;

/// The seed of the random tests: fixed, so that a run can be repeated, unless `PG_SKIP_SEED` says otherwise.
pub fn seed() -> u64 {
    env_number("PG_SKIP_SEED").unwrap_or(20_240_917)
}

/// `default` random cases, or as many as `PG_SKIP_CASES` (a percentage: 100 is the default run) makes of them.
pub fn cases(default: usize) -> usize {
    let percent = env_number("PG_SKIP_CASES").unwrap_or(100) as usize;
    (default * percent).div_ceil(100)
}

fn env_number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}
