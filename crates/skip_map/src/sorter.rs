//! Pairs in any order become ascending distinct numbers, within a budget of memory.
//!
//! Numbers are divided by their upper bits into partitions. Each partition is then sorted by itself, mostly within the
//! processor's cache. Numbers that the budget has no room for are written out and read again once. A partition that is
//! too large to be sorted in memory, because a few keys are in many ranges or because more pairs came than expected, is
//! divided again by its next bits.

use crate::coding::Coding;
use crate::partitions::Partitions;
use crate::radix::RadixSort;
use crate::spill::{Outside, Spill};

/// Numbers that came a short time ago, for leaving out repeated ones: a power of two. They are 32 kB, a first-level
/// cache.
const RECENT: usize = 1 << 12;
/// Numbers of a partition that are sorted within the processor's cache: 512 kB, a second-level cache.
const NUMBERS_A_PARTITION: u64 = 1 << 16;
/// Bits by which a partition that is too large is divided again.
const FINER_BITS: u32 = 8;

/// Gathers pairs of key hash and range.
#[derive(Debug)]
pub struct Sorter<S: Spill> {
    coding: Coding,
    /// Numbers that may be in memory.
    budget: usize,
    partitions: Partitions,
    outside: Outside<S>,
    recent: Vec<u64>,
}

impl<S: Spill> Sorter<S> {
    /// A sorter that takes about `budget_bytes` of memory, and some tens of kilobytes at least. A wrong number of
    /// expected pairs costs time only.
    pub fn new(coding: Coding, budget_bytes: usize, expected_pairs: u64, spill: S) -> Self {
        let bits = u64::BITS - (coding.numbers_end() - 1).leading_zeros();
        let split = (expected_pairs / NUMBERS_A_PARTITION).max(1).ilog2().clamp(4, 10);
        let budget = budget_bytes / size_of::<u64>();
        let partitions = Partitions::new(bits, split, in_chunks(budget));
        // No number is so great.
        let recent = vec![u64::MAX; RECENT];
        Self { coding, budget, partitions, outside: Outside::new(spill), recent }
    }

    /// Adds a pair. The range counts from the segment's first one and must be below [`Coding::ranges`].
    ///
    /// # Errors
    /// An error of the spill.
    #[inline]
    pub fn push(&mut self, hash: u64, range: u32) -> Result<(), S::Error> {
        let number = self.coding.number(hash, range);
        let place = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % RECENT;
        if std::mem::replace(&mut self.recent[place], number) == number {
            return Ok(());
        }
        self.partitions.push(number, &mut self.outside)
    }

    /// Bytes that were written to the spill so far.
    pub fn spilled_bytes(&self) -> u64 {
        self.outside.bytes()
    }

    /// Calls `each` with every number once, in ascending order.
    ///
    /// # Errors
    /// An error of the spill or of `each`.
    pub fn finish<E: From<S::Error>>(mut self, mut each: impl FnMut(u64) -> Result<(), E>) -> Result<(), E> {
        self.recent = vec![];
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
    each: &mut impl FnMut(u64) -> Result<(), E>,
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
        numbers.iter().try_for_each(|&number| each(number))?;
    }
    Ok(())
}
