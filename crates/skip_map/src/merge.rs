//! Several runs become one, in one pass and without the table.
//!
//! The runs may cover different ranges, so a number stands for another range in the merged run. Ranges are renumbered
//! key by key, which keeps the order.

use crate::coding::Coding;
use crate::malformed::Malformed;

/// A run to be merged.
#[derive(Clone, Debug)]
pub struct MergeSource<I> {
    /// How its pairs are numbers.
    pub coding: Coding,
    /// The index's range that is the run's first one.
    pub first_range: u32,
    /// Its numbers, ascending.
    pub numbers: I,
}

/// Numbers that are taken from a source at a time. Finding the sorted runs costs more for shorter batches; those of all
/// sources together still fit into the processor's second cache.
const BATCH: usize = 1024;

/// A source, and the next of its numbers, as the merged run has them.
struct Cursor<I> {
    source: MergeSource<I>,
    ranges: Divisor,
    /// All numbers that come are this or above.
    least: u64,
    /// The first number that the current fingerprint may have: in the source, and in the merged run.
    start: u64,
    merged_start: u64,
    /// Numbers that were taken; those before `at` are merged.
    taken: Vec<u64>,
    at: usize,
    /// Whether the source has no numbers behind these.
    is_over: bool,
}

/// A number to divide by, over and over. Multiplying by the reciprocal is several times faster than dividing.
#[derive(Clone, Copy)]
struct Divisor {
    divisor: u64,
    /// 2^64 divided by the divisor, rounded down; the greatest number if that is 1.
    reciprocal: u64,
}

impl Divisor {
    fn new(divisor: u32) -> Self {
        let reciprocal = u64::try_from((1u128 << 64) / u128::from(divisor)).unwrap_or(u64::MAX);
        Self { divisor: u64::from(divisor), reciprocal }
    }

    /// The quotient, rounded down. The reciprocal is too small by 1 at most, so the product is too small by less than
    /// 1, and what is rounded down too small by 1 at most.
    #[inline]
    fn divide(self, number: u64) -> u64 {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = number - quotient * self.divisor;
        quotient + u64::from(rest >= self.divisor)
    }
}

impl<E: From<Malformed>, I: Iterator<Item = Result<u64, E>>> Cursor<I> {
    fn new(source: MergeSource<I>) -> Self {
        let ranges = Divisor::new(source.coding.ranges());
        let taken = Vec::with_capacity(BATCH);
        Self { source, ranges, least: 0, start: 0, merged_start: 0, taken, at: 0, is_over: false }
    }

    /// The numbers that are not merged yet.
    fn rest(&self) -> &[u64] {
        self.taken.get(self.at..).unwrap_or_default()
    }

    /// Takes more numbers if all are merged.
    fn refill(&mut self, to: Coding, first_range: u32) -> Result<(), E> {
        if self.is_over || self.at < self.taken.len() {
            return Ok(());
        }
        self.taken.clear();
        self.at = 0;
        while self.taken.len() < BATCH {
            let Some(number) = self.source.numbers.next() else {
                self.is_over = true;
                break;
            };
            let number = number?;
            if number < self.least || number >= self.source.coding.numbers_end() {
                return Err(Malformed("the numbers of a run are not ascending").into());
            }
            self.least = number + 1;
            if number - self.start >= self.ranges.divisor {
                let fingerprint = self.ranges.divide(number);
                self.start = fingerprint * self.ranges.divisor;
                self.merged_start = fingerprint * u64::from(to.ranges());
            }
            let range = u64::from(self.source.first_range) + (number - self.start);
            match range.checked_sub(u64::from(first_range)) {
                Some(range) if range < u64::from(to.ranges()) => self.taken.push(self.merged_start + range),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Calls `each` with the numbers of all sources, ascending and distinct, as those of a run with the coding `to`, whose
/// ranges start with the index's range `first_range`. Pairs of ranges that it does not have are left out.
///
/// # Errors
/// The fingerprint bits of the runs differ, or the numbers of a source are not ascending or not of its coding; or an
/// error of a source or of `each`.
pub fn merge<E: From<Malformed>, I: Iterator<Item = Result<u64, E>>>(
    sources: Vec<MergeSource<I>>,
    to: Coding,
    first_range: u32,
    mut each: impl FnMut(u64) -> Result<(), E>,
) -> Result<(), E> {
    let mut merged = Merged::new(sources, to, first_range)?;
    while merged.merge_some()? {
        merged.ready.iter().try_for_each(|&number| each(number))?;
    }
    Ok(())
}

/// The numbers of several runs as those of one, ascending and distinct: [`merge`] as an iterator.
pub struct Merged<I> {
    cursors: Vec<Cursor<I>>,
    to: Coding,
    first_range: u32,
    /// Merged numbers, ascending and distinct; those before `at` were given out.
    ready: Vec<u64>,
    at: usize,
    /// The last number of `ready`, once there was one.
    last: Option<u64>,
}

impl<E: From<Malformed>, I: Iterator<Item = Result<u64, E>>> Merged<I> {
    /// The numbers of `sources` as those of a run with the coding `to`, whose ranges start with the index's range
    /// `first_range`.
    ///
    /// # Errors
    /// The fingerprint bits of the runs differ.
    pub fn new(sources: Vec<MergeSource<I>>, to: Coding, first_range: u32) -> Result<Self, E> {
        if sources.iter().any(|source| source.coding.fingerprint_bits() != to.fingerprint_bits()) {
            return Err(Malformed("runs have different fingerprint bits").into());
        }
        let ready = Vec::with_capacity(BATCH * sources.len());
        let cursors = sources.into_iter().map(Cursor::new).collect();
        Ok(Self { cursors, to, first_range, ready, at: 0, last: None })
    }

    /// Merges more numbers. Returns false if there are none left.
    ///
    /// All numbers are merged that no source can have anything before: those up to the least of the sources' last
    /// numbers. They are sorted runs, one behind the other, which the standard library's stable sort finds and merges
    /// faster than comparing the heads of all sources for each number does.
    fn merge_some(&mut self) -> Result<bool, E> {
        for cursor in &mut self.cursors {
            cursor.refill(self.to, self.first_range)?;
        }
        let lasts = self.cursors.iter().filter(|cursor| !cursor.is_over);
        let bound = lasts.filter_map(|cursor| cursor.taken.last()).min().copied().unwrap_or(u64::MAX);
        (self.at, self.last) = (0, self.ready.last().copied().or(self.last));
        self.ready.clear();
        for cursor in &mut self.cursors {
            let count = cursor.rest().partition_point(|&number| number <= bound);
            self.ready.extend_from_slice(&cursor.rest()[..count]);
            cursor.at += count;
        }
        if self.ready.is_empty() {
            return Ok(false);
        }
        if self.cursors.len() > 1 {
            self.ready.sort();
        }
        self.ready.dedup();
        // Equal numbers of several sources are at or before the same bound; of one source numbers ascend.
        debug_assert!(self.last < self.ready.first().copied());
        Ok(true)
    }
}

impl<E: From<Malformed>, I: Iterator<Item = Result<u64, E>>> Iterator for Merged<I> {
    type Item = Result<u64, E>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.ready.len() {
            match self.merge_some() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        let number = self.ready.get(self.at).copied()?;
        self.at += 1;
        Some(Ok(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplying_divides() {
        for (bits, ranges) in [
            (40, 1),
            (40, 2),
            (40, 3),
            (1, u32::MAX),
            (31, u32::MAX),
            (40, 1 << 23),
            (40, 8_388_607),
            (20, 266_667),
        ] {
            assert!(Coding::new(bits, ranges).is_some());
            let divisor = Divisor::new(ranges);
            for fingerprint in [0, 1, 2, 1 << (bits - 1), (1 << bits) - 2, (1 << bits) - 1] {
                let start = fingerprint * u64::from(ranges);
                for number in [start, start + 1, start + u64::from(ranges) - 1] {
                    assert_eq!(divisor.divide(number), number / u64::from(ranges), "{number} of {ranges}");
                }
            }
        }
    }
}
