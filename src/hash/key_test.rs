//! What a query asks of the keys of a value.

use skip_bounds::OrderKeyIntervals;
use skip_filter::hash_bytes;
use skip_scan::Condition;
use skip_text::Demand;

/// What the keys of a value must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTest {
    /// One of the keys is one of these. Empty: no value satisfies it.
    AnyOf(Vec<u64>),
    /// The key is in one of these intervals. Empty: no value satisfies it.
    Within(OrderKeyIntervals),
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

/// All of some of these conditions; None if there are none.
pub fn some_of(all: impl ExactSizeIterator<Item = Condition<KeyTest>>) -> Option<Condition<KeyTest>> {
    let chosen: Vec<usize> = spread(all.len()).collect();
    let is_chosen = |(place, _): &(usize, _)| chosen.binary_search(place).is_ok();
    Condition::all(all.enumerate().filter(is_chosen).map(|(_, condition)| condition).collect())
}

/// The places of the parts that are looked up, of `count` that must all hold. They are evenly spread: those of a text
/// in a row have much in common.
fn spread(count: usize) -> impl Iterator<Item = usize> {
    let taken = count.min(MOST_KEYS);
    (0..taken).map(move |number| number * (count - 1) / (taken - 1).max(1))
}

/// A demand as a condition over the keys' hashes; None if anything meets it.
pub fn demanded<K>(demand: &Demand<K>, hash: &impl Fn(&K) -> u64) -> Option<Condition<KeyTest>> {
    match demand {
        Demand::Anything => None,
        Demand::Never => Some(Condition::Leaf(KeyTest::AnyOf(Vec::new()))),
        Demand::Key(key) => Some(Condition::Leaf(KeyTest::AnyOf(vec![hash(key)]))),
        Demand::All(parts) => {
            let chosen = spread(parts.len()).filter_map(|place| parts.get(place));
            Condition::all(chosen.filter_map(|part| demanded(part, hash)).collect())
        }
        Demand::Any(parts) => {
            let (mut keys, mut others) = (Vec::new(), Vec::new());
            for part in parts {
                match part {
                    Demand::Key(key) => keys.push(hash(key)),
                    other => others.push(demanded(other, hash)?),
                }
            }
            if !keys.is_empty() {
                others.push(Condition::Leaf(KeyTest::AnyOf(keys)));
            }
            Condition::any(others)
        }
    }
}
