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

/// A source, and its place in it.
struct Cursor<I> {
    source: MergeSource<I>,
    ranges: Divisor,
    /// All numbers that come are this or above.
    least: u64,
    /// The first number that the current fingerprint may have: in the source, and in the merged run.
    start: u64,
    merged_start: u64,
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

/// Behind all numbers.
const END: u64 = u64::MAX;

impl<E: From<Malformed>, I: Iterator<Item = Result<u64, E>>> Cursor<I> {
    fn new(source: MergeSource<I>) -> Self {
        let ranges = Divisor::new(source.coding.ranges());
        Self { source, ranges, least: 0, start: 0, merged_start: 0 }
    }

    /// The next number, as the merged run has it, or [`END`].
    #[inline]
    fn next(&mut self, to: Coding, first_range: u32) -> Result<u64, E> {
        for number in self.source.numbers.by_ref() {
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
                Some(range) if range < u64::from(to.ranges()) => return Ok(self.merged_start + range),
                _ => {}
            }
        }
        Ok(END)
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
    Merged::new(sources, to, first_range)?.try_for_each(|number| each(number?))
}

/// The numbers of several runs as those of one, ascending and distinct: [`merge`] as an iterator.
pub struct Merged<I> {
    cursors: Vec<Cursor<I>>,
    heads: Vec<u64>,
    to: Coding,
    first_range: u32,
    /// The source that is read, as long as it is not above the lowest of the others.
    current: usize,
    others: u64,
    last: Option<u64>,
}

impl<E: From<Malformed>, I: Iterator<Item = Result<u64, E>>> Merged<I> {
    /// The numbers of `sources` as those of a run with the coding `to`, whose ranges start with the index's range
    /// `first_range`.
    ///
    /// # Errors
    /// The fingerprint bits of the runs differ, or an error of a source.
    pub fn new(sources: Vec<MergeSource<I>>, to: Coding, first_range: u32) -> Result<Self, E> {
        if sources.iter().any(|source| source.coding.fingerprint_bits() != to.fingerprint_bits()) {
            return Err(Malformed("runs have different fingerprint bits").into());
        }
        let mut cursors: Vec<Cursor<I>> = sources.into_iter().map(Cursor::new).collect();
        let mut heads = Vec::with_capacity(cursors.len());
        for cursor in &mut cursors {
            heads.push(cursor.next(to, first_range)?);
        }
        let (current, others) = lowest(&heads).unwrap_or((0, END));
        Ok(Self { cursors, heads, to, first_range, current, others, last: None })
    }

    fn step(&mut self) -> Result<Option<u64>, E> {
        loop {
            let Some(&head) = self.heads.get(self.current) else { return Ok(None) };
            if head > self.others || head == END {
                let Some((current, others)) = lowest(&self.heads) else { return Ok(None) };
                (self.current, self.others) = (current, others);
                continue;
            }
            self.heads[self.current] = self.cursors[self.current].next(self.to, self.first_range)?;
            if self.last.replace(head) != Some(head) {
                return Ok(Some(head));
            }
        }
    }
}

impl<E: From<Malformed>, I: Iterator<Item = Result<u64, E>>> Iterator for Merged<I> {
    type Item = Result<u64, E>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// The place of the lowest head, and the lowest of the others. None if all are at their end.
#[inline]
fn lowest(heads: &[u64]) -> Option<(usize, u64)> {
    let (mut place, mut lowest, mut others) = (0, END, END);
    for (index, &head) in heads.iter().enumerate() {
        // No branches, because nothing foretells which head is the lowest.
        place = if head < lowest { index } else { place };
        others = others.min(head.max(lowest));
        lowest = head.min(lowest);
    }
    (lowest != END).then_some((place, others))
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
