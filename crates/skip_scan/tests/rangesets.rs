//! `RangeSet` against a `BTreeSet`.

use proptest::prelude::*;
use skip_scan::RangeSet;
use std::collections::BTreeSet;

/// One change to a set, with numbers that also lie past its end.
#[derive(Clone, Debug)]
enum Change {
    Insert(u64),
    Span(u64, u64),
    Bits(u64, Vec<u64>, u64),
    Union(u64, Vec<u64>),
    Intersect(u64, Vec<u64>),
    Subtract(u64, Vec<u64>),
}

fn change() -> impl Strategy<Value = Change> {
    let number = 0..400u64;
    // Few numbers are a list, many a bitset.
    let few = prop::collection::vec(0..400u64, 0..6);
    let numbers = prop_oneof![few, prop::collection::vec(0..400u64, 0..200)].boxed();
    let words = prop::collection::vec(any::<u64>(), 0..6);
    prop_oneof![
        number.clone().prop_map(Change::Insert),
        (number.clone(), number.clone()).prop_map(|(start, end)| Change::Span(start, end)),
        (number.clone(), words, 0..420u64)
            .prop_map(|(offset, words, bits)| Change::Bits(offset, words, bits)),
        (number.clone(), numbers.clone()).prop_map(|(len, numbers)| Change::Union(len, numbers)),
        (number.clone(), numbers.clone()).prop_map(|(len, numbers)| Change::Intersect(len, numbers)),
        (number, numbers).prop_map(|(len, numbers)| Change::Subtract(len, numbers)),
    ]
}

/// A set of those numbers that are below `len`, and its model.
fn both(len: u64, numbers: &[u64]) -> (RangeSet, BTreeSet<u64>) {
    let mut set = RangeSet::empty(len);
    numbers.iter().for_each(|&number| set.insert(number));
    (set, numbers.iter().copied().filter(|&number| number < len).collect())
}

fn apply(set: &mut RangeSet, model: &mut BTreeSet<u64>, change: Change) {
    match change {
        Change::Insert(number) => {
            set.insert(number);
            model.insert(number);
        }
        Change::Span(start, end) => {
            set.insert_span(start, end);
            model.extend(start..end);
        }
        Change::Bits(offset, words, bits) => {
            set.or_bits(offset, &words, bits);
            let has =
                |&bit: &u64| words.get(bit as usize / 64).is_some_and(|word| word >> (bit % 64) & 1 != 0);
            model.extend((0..bits).filter(has).map(|bit| offset + bit));
        }
        Change::Union(len, numbers) => {
            let (other, other_model) = both(len, &numbers);
            set.union_with(&other);
            model.extend(other_model);
        }
        Change::Intersect(len, numbers) => {
            let (other, other_model) = both(len, &numbers);
            set.intersect_with(&other);
            model.retain(|number| other_model.contains(number));
        }
        Change::Subtract(len, numbers) => {
            let (other, other_model) = both(len, &numbers);
            set.subtract(&other);
            model.retain(|number| !other_model.contains(number));
        }
    }
    model.retain(|&number| number < set.universe());
}

/// Runs of consecutive numbers, the slow way.
fn runs(model: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = vec![];
    for &number in model {
        match runs.last_mut() {
            Some((_, end)) if *end == number => *end += 1,
            _ => runs.push((number, number + 1)),
        }
    }
    runs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn rangeset_is_a_set(len in 0..400u64, full in any::<bool>(), changes in prop::collection::vec(change(), 0..12)) {
        let mut set = if full { RangeSet::full(len) } else { RangeSet::empty(len) };
        let mut model: BTreeSet<u64> = if full { (0..len).collect() } else { BTreeSet::new() };
        for change in changes {
            apply(&mut set, &mut model, change);
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.runs().collect::<Vec<_>>(), runs(&model));
            prop_assert_eq!(set.count(), model.len() as u64);
            prop_assert_eq!(set.is_empty(), model.is_empty());
            prop_assert!((0..500).all(|number| set.contains(number) == model.contains(&number)));
            prop_assert_eq!(set.universe(), len);
        }
    }

    #[test]
    fn parts_of_a_rangeset(len in 0..400u64, numbers in prop::collection::vec(0..400u64, 0..200), factor in 1..9u64) {
        let (set, model) = both(len, &numbers);
        for (start, end) in [(0, 400), (3, 64), (64, 128), (100, 70), (63, 65), (130, 390)] {
            let inside = model.iter().filter(|&&number| number >= start && number < end).count();
            prop_assert_eq!(set.count_in(start, end), inside as u64);
            prop_assert_eq!(set.any_in(start, end), inside > 0);
        }
        for from in 0..420 {
            prop_assert_eq!(set.next_in(from), model.range(from..).next().copied());
            prop_assert_eq!(set.last_in(from), model.range(..from).next_back().copied());
        }
        // A cut `factor` times as fine, whose last pieces may be missing, and back again.
        let fine_len = (len * factor).saturating_sub(factor / 2);
        let fine = set.refined(factor, fine_len);
        for number in 0..fine_len {
            prop_assert_eq!(fine.contains(number), model.contains(&(number / factor)));
        }
        prop_assert_eq!(&fine.coarsened(factor, len), &set);
        let coarse_len = len.div_ceil(factor);
        let coarse = set.coarsened(factor, coarse_len);
        for number in 0..coarse_len {
            prop_assert_eq!(coarse.contains(number), set.any_in(number * factor, (number + 1) * factor));
        }
    }
}

#[test]
fn numbers_near_the_largest() {
    let mut set = RangeSet::empty(100);
    set.insert(u64::MAX);
    set.insert_span(u64::MAX - 1, u64::MAX);
    set.insert_span(90, u64::MAX);
    set.or_bits(u64::MAX, &[u64::MAX], u64::MAX);
    set.or_bits(64, &[1], u64::MAX);
    assert!(!set.contains(u64::MAX));
    assert_eq!(set.runs().collect::<Vec<_>>(), [(64, 65), (90, 100)]);
}
