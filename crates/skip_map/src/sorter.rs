//! Pairs in any order become ascending distinct numbers, within a budget of memory.
//!
//! Numbers are divided by their upper bits into partitions. Each partition is then sorted by itself, mostly within the
//! processor's cache. Numbers that the budget has no room for are written out and read again once. A partition that is
//! too large to be sorted in memory, because a few keys are in many ranges or because more pairs came than expected, is
//! divided again by its next bits.

use crate::coding::Coding;
use crate::key_part::KeyPart;
use crate::partitions::Partitions;
use crate::radix::RadixSort;
use crate::spill::{Outside, Spill};

/// Numbers of a partition that are sorted within the processor's cache: 512 kB, a second-level cache.
const NUMBERS_A_PARTITION: u64 = 1 << 16;
/// Bits by which a partition that is too large is divided again.
const FINER_BITS: u32 = 8;

/// Gathers pairs of key hash and range.
#[derive(Debug)]
pub struct Sorter<S: Spill> {
    coding: Coding,
    /// No number is lower. What is sorted are the differences from it.
    least: u64,
    /// Numbers that may be in memory.
    budget: usize,
    partitions: Partitions,
    outside: Outside<S>,
}

impl<S: Spill> Sorter<S> {
    /// A sorter that takes about `budget_bytes` of memory, and some tens of kilobytes at least. A wrong number of
    /// expected pairs costs time only.
    pub fn new(coding: Coding, budget_bytes: usize, expected_pairs: u64, spill: S) -> Self {
        Self::of_part(coding, KeyPart::WHOLE, budget_bytes, expected_pairs, spill)
    }

    /// As [`Sorter::new`], for the pairs of one key part, which must fit the coding.
    pub fn of_part(
        coding: Coding,
        part: KeyPart,
        budget_bytes: usize,
        expected_pairs: u64,
        spill: S,
    ) -> Self {
        let numbers = part.numbers(coding);
        let width = numbers.end - numbers.start;
        let bits = u64::BITS - width.saturating_sub(1).leading_zeros();
        let split = (expected_pairs / NUMBERS_A_PARTITION).max(1).ilog2().clamp(4, 10);
        let budget = budget_bytes / size_of::<u64>();
        let partitions = Partitions::new(bits, split, in_chunks(budget));
        Self { coding, least: numbers.start, budget, partitions, outside: Outside::new(spill) }
    }

    /// Adds a pair. The range counts from the segment's first one and must be below [`Coding::ranges`].
    ///
    /// # Errors
    /// An error of the spill.
    #[inline]
    pub fn push(&mut self, hash: u64, range: u32) -> Result<(), S::Error> {
        self.push_number(self.coding.number(hash, range))
    }

    /// Adds a pair by its number, which must be one of the key part.
    ///
    /// # Errors
    /// An error of the spill.
    #[inline]
    pub fn push_number(&mut self, number: u64) -> Result<(), S::Error> {
        debug_assert!(number >= self.least, "a number of another key part");
        self.partitions.push(number.wrapping_sub(self.least), &mut self.outside)
    }

    /// Bytes that were written to the spill so far.
    pub fn spilled_bytes(&self) -> u64 {
        self.outside.bytes()
    }

    /// Calls `each` with every number once, in ascending order, many at a time.
    ///
    /// # Errors
    /// An error of the spill or of `each`.
    pub fn finish<E: From<S::Error>>(
        mut self,
        mut each: impl FnMut(&[u64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut each = |numbers: &mut [u64]| {
            numbers.iter_mut().for_each(|number| *number += self.least);
            each(numbers)
        };
        drain(self.partitions, self.budget, &mut self.outside, &mut each)
    }
}

/// Numbers of the budget that may wait in chunks; the others are for sorting.
fn in_chunks(budget: usize) -> usize {
    budget / 4 * 3
}

/// Hands out the numbers of partitions in order. Partitions within partitions are no deeper than a number has bits.
fn drain<S: Spill, E: From<S::Error>>(
    mut partitions: Partitions,
    budget: usize,
    outside: &mut Outside<S>,
    each: &mut impl FnMut(&mut [u64]) -> Result<(), E>,
) -> Result<(), E> {
    partitions.settle(budget, outside)?;
    let bits = partitions.lower_bits;
    let (mut numbers, mut radix, mut some) = (vec![], RadixSort::default(), vec![]);
    for mut part in partitions.parts {
        let too_large = part.count() > budget as u64 / 2 && bits > 0;
        if too_large {
            (numbers, radix) = (vec![], RadixSort::default()); // the memory is needed
            let mut finer = Partitions::new(bits, FINER_BITS, in_chunks(budget));
            loop {
                some.clear();
                part.take_some(outside, &mut some)?;
                if some.is_empty() {
                    break;
                }
                some.iter().try_for_each(|&number| finer.push(number, outside))?;
            }
            drain(finer, budget, outside, each)?;
            continue;
        }
        numbers.clear();
        if bits > 0 {
            numbers.reserve_exact(part.count() as usize);
        }
        loop {
            let before = numbers.len();
            part.take_some(outside, &mut numbers)?;
            if numbers.len() == before {
                break;
            }
            if bits == 0 {
                numbers.truncate(1); // all are equal
            }
        }
        radix.sort(&mut numbers, bits);
        numbers.dedup();
        if !numbers.is_empty() {
            each(&mut numbers)?;
        }
    }
    Ok(())
}
