//! The sorter gives every number once, in order, whatever the budget.

use crate::common::pairs;
use proptest::prelude::*;
use skip_map::key_part::{KeyPart, MOST_DEPTH};
use skip_map::*;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Bytes in memory that stand for a file; it fails when it would be longer than it may be.
#[derive(Clone)]
struct Bytes {
    bytes: Rc<RefCell<Vec<u8>>>,
    most: usize,
}

#[derive(Debug, PartialEq)]
struct NoRoom;

impl Bytes {
    fn new(most: usize) -> Self {
        Self { bytes: Rc::default(), most }
    }
}

impl Spill for Bytes {
    type Error = NoRoom;

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), NoRoom> {
        let mut all = self.bytes.borrow_mut();
        assert_eq!(at, all.len() as u64, "written at the end");
        all.extend_from_slice(bytes);
        if all.len() > self.most { Err(NoRoom) } else { Ok(()) }
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), NoRoom> {
        bytes.copy_from_slice(&self.bytes.borrow()[at as usize..at as usize + bytes.len()]);
        Ok(())
    }
}

/// The sorted numbers, and how many bytes were spilled before sorting and in all.
fn sorted(coding: Coding, budget: usize, expected: u64, pairs: &[(u64, u32)]) -> (Vec<u64>, u64, usize) {
    let file = Bytes::new(usize::MAX);
    let mut sorter = Sorter::new(coding, budget, expected, file.clone());
    for &(hash, range) in pairs {
        sorter.push(hash, range).unwrap();
    }
    let spilled = sorter.spilled_bytes();
    assert_eq!(spilled, file.bytes.borrow().len() as u64);
    let mut numbers = vec![];
    sorter
        .finish(|some| {
            numbers.extend_from_slice(some);
            Ok::<(), NoRoom>(())
        })
        .unwrap();
    let all = file.bytes.borrow().len();
    (numbers, spilled, all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn gives_the_set_of_numbers(
        (coding, pairs) in pairs(5000),
        budget in prop_oneof![Just(0usize), Just(1), 100..5000usize, 5000..100_000usize, Just(1 << 24)],
        expected in prop_oneof![Just(0u64), 1..100_000u64, Just(u64::MAX)],
    ) {
        let numbers: BTreeSet<u64> = pairs.iter().map(|&(hash, range)| coding.number(hash, range)).collect();
        let (found, spilled, _) = sorted(coding, budget, expected, &pairs);
        prop_assert_eq!(found, numbers.into_iter().collect::<Vec<_>>());
        prop_assert!(budget < 1 << 24 || spilled == 0);
    }

    #[test]
    fn sorts_each_key_part_by_itself(
        (coding, pairs) in pairs(3000),
        depth in 0..=MOST_DEPTH,
        budget in prop_oneof![Just(0usize), 100..5000usize, Just(1 << 24)],
        expected in 0..10_000u64,
    ) {
        let depth = depth.min(coding.fingerprint_bits());
        let of_all: BTreeSet<u64> = pairs.iter().map(|&(hash, range)| coding.number(hash, range)).collect();
        let mut found = vec![];
        for part in KeyPart::all(depth) {
            let file = Bytes::new(usize::MAX);
            let mut sorter = Sorter::of_part(coding, part, budget, expected, file);
            for &number in of_all.iter().rev().filter(|&number| part.numbers(coding).contains(number)) {
                sorter.push_number(number).unwrap();
            }
            sorter.finish(|some| { found.extend_from_slice(some); Ok::<(), NoRoom>(()) }).unwrap();
        }
        prop_assert_eq!(found, of_all.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn spills_only_what_the_budget_has_no_room_for() {
    let coding = Coding::new(32, 1000).unwrap();
    let pairs: Vec<(u64, u32)> = (0..200_000u64).map(|key| (key, (key / 200) as u32)).collect();
    let (in_memory, _, all) = sorted(coding, 4 << 20, 200_000, &pairs);
    assert_eq!((in_memory.len(), all), (200_000, 0));
    let (outside, spilled, all) = sorted(coding, 400 << 10, 200_000, &pairs);
    assert_eq!(outside, in_memory);
    // Every number is written once.
    assert!(spilled > 800_000 && all == 1_600_000, "{spilled} {all}");
}

#[test]
fn one_key_in_all_ranges_is_divided_until_it_fits() {
    let coding = Coding::new(32, 300_000).unwrap();
    let pairs: Vec<(u64, u32)> = (0..300_000).rev().map(|range| (7, range)).collect();
    let (found, _, _) = sorted(coding, 100_000, 1_000_000, &pairs);
    assert_eq!(found, coding.numbers_of(7).collect::<Vec<_>>());
}

#[test]
fn errors_are_passed_on() {
    let coding = Coding::new(32, 10).unwrap();
    let mut sorter = Sorter::new(coding, 1000, 10_000, Bytes::new(5000));
    let pushed = (0..10_000).try_for_each(|key| sorter.push(key, 0));
    assert_eq!(pushed, Err(NoRoom));
    let mut sorter = Sorter::new(coding, 1000, 10_000, Bytes::new(usize::MAX));
    (0..1000).try_for_each(|key| sorter.push(key, 0)).unwrap();
    let mut left = 10;
    let stopped = sorter.finish(|_| {
        left -= 1;
        if left > 0 { Ok(()) } else { Err(NoRoom) }
    });
    assert_eq!(stopped, Err(NoRoom));
}
