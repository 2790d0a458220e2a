//! `DistinctHashes` against a `HashSet`.

use proptest::prelude::*;
use skip_filter::DistinctHashes;
use std::collections::HashSet;

/// Hashes of every kind: zero, repeated ones, ones that differ in few bits only, random ones.
fn hash() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        0..50u64,
        (0..500u64).prop_map(|n| n << 54),
        (0..500u64).prop_map(|n| n << 32),
        any::<u64>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn distinct_is_a_set(rounds in prop::collection::vec(prop::collection::vec(hash(), 0..2000), 1..4)) {
        let mut set = DistinctHashes::new();
        for round in rounds {
            set.clear();
            let mut model = HashSet::new();
            for hash in round {
                prop_assert_eq!(set.contains(hash), model.contains(&hash));
                prop_assert_eq!(set.insert(hash), model.insert(hash));
            }
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(set.is_empty(), model.is_empty());
            prop_assert_eq!(set.iter().collect::<HashSet<_>>(), model);
            prop_assert_eq!(set.iter().count(), set.len());
            prop_assert_eq!(set.as_slice().len(), set.len());
        }
    }
}

#[test]
fn distinct_grows_and_shrinks_its_work() {
    let mut set = DistinctHashes::default();
    assert!((0..1_000_000u64).all(|hash| set.insert(hash)));
    assert_eq!(set.len(), 1_000_000);
    assert!((0..1_000_000u64).all(|hash| !set.insert(hash)));
    set.clear();
    assert!(set.is_empty() && !set.contains(5));
    // After the one huge set, small ones must not wipe its table each time: that would take a minute here.
    for round in 0..100_000u64 {
        assert!(set.insert(round));
        set.clear();
    }
    assert!(set.memory_bytes() > 16_000_000);
}
