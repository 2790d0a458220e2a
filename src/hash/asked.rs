//! What a query asks of the keys of a value.

use skip_bounds::KeySpans;
use skip_filter::hash_bytes;
use skip_scan::Condition;

/// What the keys of a value must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTest {
    /// One of the keys is one of these. Empty: no value satisfies it.
    AnyOf(Vec<u64>),
    /// The key is in one of these spans. Empty: no value satisfies it.
    Within(KeySpans),
    /// The value is not NULL.
    NotNull,
}

/// The most keys of one value of a query that must all be there. Further ones would hardly rule out more.
const MOST_KEYS: usize = 16;
/// The key of a value that has no others.
pub fn no_keys(seed: u64) -> u64 {
    hash_bytes(seed, b"a value without keys")
}

/// All of these keys.
pub fn all_of(mut keys: Vec<u64>) -> Condition<KeyTest> {
    keys.sort_unstable();
    keys.dedup();
    // Hashes are sorted, so the first ones are a random sample.
    let leaves = keys.into_iter().take(MOST_KEYS).map(|key| Condition::Leaf(KeyTest::AnyOf(vec![key])));
    Condition::all(leaves.collect()).unwrap_or(Condition::Leaf(KeyTest::NotNull))
}
