//! A merged run has the pairs of its sources, renumbered, and no others.

use crate::common::Run;
use proptest::prelude::*;
use skip_map::*;
use std::collections::{BTreeMap, BTreeSet};

/// A run: its first range, the number of its ranges, and its pairs of hash and absolute range.
#[derive(Clone, Debug)]
struct Given {
    first_range: u32,
    ranges: u32,
    pairs: Vec<(u64, u32)>,
}

fn given() -> impl Strategy<Value = Given> {
    let ranges = prop_oneof![Just(1u32), 1..50u32, Just(5000)];
    let hashes = prop_oneof![0..20u64, any::<u64>(), any::<u64>().prop_map(|hash| hash | 0xffff_ffff << 32)];
    let first_range = prop_oneof![Just(0u32), 0..100u32, Just(50_000)];
    (first_range, ranges, prop::collection::vec((hashes, any::<u32>()), 0..400), any::<bool>()).prop_map(
        |(first_range, ranges, mut pairs, everywhere)| {
            if everywhere {
                pairs.extend((0..ranges).map(|range| (5, range)));
            }
            let pairs = pairs.into_iter().map(|(hash, range)| (hash, first_range + range % ranges)).collect();
            Given { first_range, ranges, pairs }
        },
    )
}

/// The numbers of what was given, as a run has them, read from its pages.
fn source(given: &Given, bits: u8) -> MergeSource<impl Iterator<Item = Result<u64, Malformed>> + use<>> {
    let coding = Coding::new(bits, given.ranges).unwrap();
    let pairs = given.pairs.iter();
    let numbers: BTreeSet<u64> =
        pairs.map(|&(hash, range)| coding.number(hash, range - given.first_range)).collect();
    let numbers = Run::of(numbers).all();
    MergeSource { coding, first_range: given.first_range, numbers: numbers.into_iter().map(Ok) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn has_all_pairs(
        runs in prop::collection::vec(given(), 1..=8),
        bits in 8..=40u8,
        cut in prop_oneof![3 => Just(0u32), 1 => 1..60u32],
    ) {
        let first_range = runs.iter().map(|run| run.first_range).min().unwrap() + cut;
        let end = runs.iter().map(|run| run.first_range + run.ranges).max().unwrap().saturating_sub(cut);
        let to = Coding::new(bits, end.saturating_sub(first_range).max(1)).unwrap();
        let inside = first_range..first_range + to.ranges();
        let mut merged = vec![];
        let sources = runs.iter().map(|run| source(run, bits)).collect();
        merge(sources, to, first_range, |numbers| { merged.extend_from_slice(numbers); Ok(()) }).unwrap();
        prop_assert!(merged.is_sorted_by(|one, next| one < next));

        let mut expected: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for &(hash, range) in runs.iter().flat_map(|run| &run.pairs) {
            if inside.contains(&range) {
                expected.entry(to.fingerprint(hash)).or_default().insert(range);
            }
        }
        let mut found: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for number in merged {
            let (fingerprint, range) = to.split(number);
            found.entry(fingerprint).or_default().insert(first_range + range);
        }
        prop_assert_eq!(found, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn portions_are_the_same_as_all_at_once(
        runs in prop::collection::vec(given(), 1..=4),
        keys in 0..20_000u64,
        bits in 16..=40u8,
        most_pages in 1..4u32,
    ) {
        // One run is large enough for several pages, and has keys of others.
        let spread = |key: u64| key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let pairs = (0..keys).map(|key| (spread(key / 2), 7 + (key % 90) as u32)).collect();
        let mut runs = runs;
        runs.push(Given { first_range: 7, ranges: 90, pairs });
        let first_range = runs.iter().map(|run| run.first_range).min().unwrap();
        let end = runs.iter().map(|run| run.first_range + run.ranges).max().unwrap();
        let to = Coding::new(bits, end - first_range).unwrap();
        let mut expected = vec![];
        let sources = runs.iter().map(|run| source(run, bits)).collect();
        merge(sources, to, first_range, |numbers| { expected.extend_from_slice(numbers); Ok(()) }).unwrap();

        let (mut found, mut count, mut pages) = (vec![], 0, 0);
        loop {
            let after = found.last().copied();
            let sources = runs.iter().map(|run| {
                let source = source(run, bits);
                let start = after.map_or(0, |after| portion::start_in(source.coding, to, after));
                let numbers: Vec<_> =
                    source.numbers.filter(|number| number.as_ref().is_ok_and(|number| *number >= start)).collect();
                MergeSource { coding: source.coding, first_range: source.first_range, numbers: numbers.into_iter() }
            });
            let sink = |page: &Page| read_page(page, |numbers| found.extend(numbers));
            let portion =
                merge_portion(sources.collect(), (to, first_range), after, most_pages, sink).unwrap();
            prop_assert!(portion.pages <= most_pages && (portion.pages == most_pages || portion.is_last));
            pages += portion.pages;
            count += portion.numbers;
            prop_assert_eq!(count, found.len() as u64);
            if portion.is_last {
                break;
            }
        }
        prop_assert_eq!(&found, &expected);
        prop_assert!(pages <= skip_map::most_pages(to, expected.len() as u64) + 1);
    }
}

fn merged(sources: Vec<Vec<u64>>) -> Result<Vec<u64>, Malformed> {
    let coding = Coding::new(8, 100).unwrap();
    let sources = sources.into_iter();
    let sources =
        sources.map(|numbers| MergeSource { coding, first_range: 0, numbers: numbers.into_iter().map(Ok) });
    let mut merged = vec![];
    merge(sources.collect(), coding, 0, |numbers| {
        merged.extend_from_slice(numbers);
        Ok(())
    })?;
    Ok(merged)
}

#[test]
fn small_cases() {
    assert_eq!(merged(vec![]), Ok(vec![]));
    assert_eq!(merged(vec![vec![], vec![]]), Ok(vec![]));
    assert_eq!(merged(vec![vec![1, 5], vec![], vec![1, 2, 5, 6]]), Ok(vec![1, 2, 5, 6]));
}

#[test]
fn damaged_sources_are_errors() {
    assert!(merged(vec![vec![2, 1]]).is_err());
    assert!(merged(vec![vec![2, 2]]).is_err());
    assert!(merged(vec![vec![25_600]]).is_err());
    assert_eq!(merged(vec![vec![25_599]]), Ok(vec![25_599]));
    let (coding, other) = (Coding::new(8, 100).unwrap(), Coding::new(9, 100).unwrap());
    let numbers = [Ok::<u64, Malformed>(1)].into_iter();
    assert!(
        merge(vec![MergeSource { coding: other, first_range: 0, numbers }], coding, 0, |_| Ok(())).is_err()
    );
    let numbers = [Ok(1), Err(Malformed("a page is damaged"))].into_iter();
    let sources = vec![MergeSource { coding, first_range: 0, numbers }];
    assert_eq!(merge(sources, coding, 0, |_| Ok(())), Err(Malformed("a page is damaged")));
}
