//! Several runs become one, in one pass and without the table.
//!
//! The runs may cover different ranges, so a number stands for another range in the merged run. Ranges are renumbered
//! key by key, which keeps the order.

use crate::coding::Coding;
use crate::malformed::Malformed;
use crate::source::{BATCH, Each, NumberSource};

/// A run to be merged.
#[derive(Clone, Debug)]
pub struct MergeSource<S> {
    /// How its pairs are numbers.
    pub coding: Coding,
    /// The index's range that is the run's first one.
    pub first_range: u32,
    /// Its numbers, ascending.
    pub numbers: S,
}

/// A source, and the next of its numbers, as the merged run has them.
struct Cursor<S> {
    source: MergeSource<S>,
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

impl<S: NumberSource> Cursor<S> {
    fn new(source: MergeSource<S>) -> Self {
        let ranges = Divisor::new(source.coding.ranges());
        let taken = Vec::with_capacity(BATCH);
        Self { source, ranges, least: 0, start: 0, merged_start: 0, taken, at: 0, is_over: false }
    }

    /// The numbers that are not merged yet.
    fn rest(&self) -> &[u64] {
        self.taken.get(self.at..).unwrap_or_default()
    }

    /// Takes more numbers if all are merged.
    fn refill(&mut self, to: Coding, first_range: u32) -> Result<(), S::Error> {
        while !self.is_over && self.at >= self.taken.len() {
            self.taken.clear();
            self.at = 0;
            self.source.numbers.read(&mut self.taken)?;
            self.is_over = self.taken.is_empty();
            self.renumber(to, first_range)?;
        }
        Ok(())
    }

    /// Makes the numbers that were taken those of the merged run, and drops those that it does not have.
    fn renumber(&mut self, to: Coding, first_range: u32) -> Result<(), Malformed> {
        let end = self.source.coding.numbers_end();
        let (ranges, merged_ranges) = (self.ranges.divisor, u64::from(to.ranges()));
        // What is added to a range: below 0 if the merged run begins behind the source.
        let shift = u64::from(self.source.first_range).wrapping_sub(first_range.into());
        let (mut least, mut start, mut merged_start) = (self.least, self.start, self.merged_start);
        let mut is_sound = true;
        let mut kept = 0;
        for at in 0..self.taken.len() {
            let number = self.taken[at];
            is_sound &= number >= least && number < end;
            least = number.wrapping_add(1);
            let mut range = number.wrapping_sub(start);
            if range >= ranges {
                let fingerprint = self.ranges.divide(number);
                start = fingerprint * ranges;
                merged_start = fingerprint.wrapping_mul(merged_ranges);
                range = number - start;
            }
            let range = range.wrapping_add(shift);
            self.taken[kept] = merged_start.wrapping_add(range);
            kept += usize::from(range < merged_ranges);
        }
        if !is_sound {
            return Err(Malformed("the numbers of a run are not ascending"));
        }
        self.taken.truncate(kept);
        (self.least, self.start, self.merged_start) = (least, start, merged_start);
        Ok(())
    }
}

/// Calls `each` with the numbers of all sources, ascending and distinct, as those of a run with the coding `to`, whose
/// ranges start with the index's range `first_range`: many at a time. Pairs of ranges that it does not have are left
/// out.
///
/// # Errors
/// The fingerprint bits of the runs differ, or the numbers of a source are not ascending or not of its coding; or an
/// error of a source or of `each`.
pub fn merge<S: NumberSource>(
    sources: Vec<MergeSource<S>>,
    to: Coding,
    first_range: u32,
    mut each: impl FnMut(&[u64]) -> Result<(), S::Error>,
) -> Result<(), S::Error> {
    let mut merged = Merged::new(sources, to, first_range)?;
    let mut ready = Vec::with_capacity(BATCH * merged.cursors.len());
    loop {
        ready.clear();
        merged.read(&mut ready)?;
        if ready.is_empty() {
            return Ok(());
        }
        each(&ready)?;
    }
}

/// The numbers of several runs as those of one, ascending and distinct: [`merge`] as a source.
pub struct Merged<S> {
    cursors: Vec<Cursor<S>>,
    to: Coding,
    first_range: u32,
    /// The last number that was given out, once there was one.
    last: Option<u64>,
}

impl<S: NumberSource> Merged<S> {
    /// The numbers of `sources` as those of a run with the coding `to`, whose ranges start with the index's range
    /// `first_range`.
    ///
    /// # Errors
    /// The fingerprint bits of the runs differ.
    pub fn new(sources: Vec<MergeSource<S>>, to: Coding, first_range: u32) -> Result<Self, S::Error> {
        if sources.iter().any(|source| source.coding.fingerprint_bits() != to.fingerprint_bits()) {
            return Err(Malformed("runs have different fingerprint bits").into());
        }
        let cursors = sources.into_iter().map(Cursor::new).collect();
        Ok(Self { cursors, to, first_range, last: None })
    }

    /// The numbers one by one.
    pub fn each(self) -> Each<Self> {
        Each::of(self)
    }
}

impl<S: NumberSource> NumberSource for Merged<S> {
    type Error = S::Error;

    /// Merges more numbers.
    ///
    /// All numbers are merged that no source can have anything before: those up to the least of the sources' last
    /// numbers. They are sorted runs, one behind the other, which the standard library's stable sort finds and merges
    /// faster than comparing the heads of all sources for each number does.
    fn read(&mut self, into: &mut Vec<u64>) -> Result<(), S::Error> {
        for cursor in &mut self.cursors {
            cursor.refill(self.to, self.first_range)?;
        }
        let lasts = self.cursors.iter().filter(|cursor| !cursor.is_over);
        let bound = lasts.filter_map(|cursor| cursor.taken.last()).min().copied().unwrap_or(u64::MAX);
        let (before, mut runs) = (into.len(), 0);
        for cursor in &mut self.cursors {
            let count = cursor.rest().partition_point(|&number| number <= bound);
            into.extend_from_slice(&cursor.rest()[..count]);
            cursor.at += count;
            runs += usize::from(count > 0);
        }
        let Some(new) = into.get_mut(before..) else { return Ok(()) };
        if runs > 1 {
            new.sort();
            let distinct = dedup(new);
            into.truncate(before + distinct);
        }
        // Equal numbers of several sources are at or before the same bound; of one source numbers ascend.
        debug_assert!(into.get(before).is_none_or(|&first| self.last.is_none_or(|last| last < first)));
        self.last = into.last().copied().or(self.last);
        Ok(())
    }
}

/// Moves the distinct ones of sorted numbers to the front. Returns how many there are.
fn dedup(numbers: &mut [u64]) -> usize {
    let mut distinct = 0;
    for at in 0..numbers.len() {
        let number = numbers[at];
        if at == 0 || number != numbers[distinct - 1] {
            numbers[distinct] = number;
            distinct += 1;
        }
    }
    distinct
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
