//! Ascending numbers as a block: the first number, a form, and a body in that form.
//!
//! | form | body |
//! |---|---|
//! | consecutive numbers | none: the directory has the first number and the count |
//! | bitmap | bit `number - first` is set; no bytes behind the one of the last number |
//! | Elias-Fano | for each number the lower `low_bits` bits of `number - first`, then bytes in which bit `high + i` is set for the number `i` with the upper bits `high` |
//!
//! Invariants: the first number is the one that the directory has, so its distance is 0; the last byte of a body is not
//! zero; bits of the body that belong to no number are zero. A block may end far before the next one starts; its bits
//! and numbers never reach into the next one.

use crate::bits::{MOST_FIELD_BITS, append_fields, field, low_mask, select, word};
use crate::malformed::Malformed;
use std::ops::Range;

/// Most numbers of a block in Elias-Fano form: its descriptor has 8 bits for their number.
pub(crate) const MOST_NUMBERS: usize = 256;

/// How the numbers of a block are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockForm {
    Consecutive { count: u64 },
    Bitmap,
    EliasFano { count: usize, low_bits: u8 },
}

impl BlockForm {
    /// The form that takes the fewest bytes for `count` numbers, at least one, whose last is `span` above the first;
    /// and the bytes of its body. Never more than `count * (2 + log2(span / count)) + 15` bits, unless `span / count`
    /// is above 2^56.
    pub(crate) fn smallest(count: usize, span: u64) -> (Self, usize) {
        let numbers = count as u64;
        if span == numbers - 1 {
            return (Self::Consecutive { count: numbers }, 0);
        }
        let even = (span / numbers).checked_ilog2().unwrap_or(0) as u8;
        let candidates = [even.saturating_sub(1), even, even + 1].map(|bits| bits.min(MOST_FIELD_BITS));
        let bytes_with = |low_bits: u8| {
            (count * usize::from(low_bits)).div_ceil(8) + (count + (span >> low_bits) as usize).div_ceil(8)
        };
        let mut best = (Self::Bitmap, usize::try_from(span / 8 + 1).unwrap_or(usize::MAX));
        for low_bits in candidates {
            let bytes = bytes_with(low_bits);
            if bytes < best.1 {
                best = (Self::EliasFano { count, low_bits }, bytes);
            }
        }
        best
    }

    /// Appends the body of these numbers in this form.
    pub(crate) fn encode(self, numbers: &[u64], out: &mut Vec<u8>) {
        let start = out.len();
        let Some(&first) = numbers.first() else { return };
        match self {
            Self::Consecutive { .. } => {}
            Self::Bitmap => {
                for number in numbers {
                    set_bit(out, start, (number - first) as usize);
                }
            }
            Self::EliasFano { low_bits, .. } => {
                let lows = numbers.iter().map(|number| (number - first) & low_mask(low_bits));
                append_fields(lows, low_bits, out);
                let place = |index: usize, number: u64| ((number - first) >> low_bits) as usize + index;
                let last = numbers.last().map_or(0, |&last| place(numbers.len() - 1, last));
                let start = out.len();
                out.resize(start + last / 8 + 1, 0);
                let highs = &mut out[start..];
                for (index, &number) in numbers.iter().enumerate() {
                    let bit = place(index, number);
                    highs[bit / 8] |= 1 << (bit % 8);
                }
            }
        }
    }
}

/// Sets a bit of the bytes from `start` on, which grow up to it.
pub(crate) fn set_bit(out: &mut Vec<u8>, start: usize, bit: usize) {
    let at = start + bit / 8;
    if at >= out.len() {
        out.resize(at + 1, 0);
    }
    out[at] |= 1 << (bit % 8);
}

/// A block of a page, as the page's directory describes it.
#[derive(Clone, Debug)]
pub struct Block {
    pub(crate) first: u64,
    /// All numbers are below this: the first number of the next block, or the end of the page's numbers.
    pub(crate) end: u64,
    pub(crate) form: BlockForm,
    pub(crate) body: Range<usize>,
}

impl Block {
    /// Place of the body in the page. It is empty where the directory says everything.
    pub fn bytes(&self) -> Range<usize> {
        self.body.clone()
    }

    /// The most numbers that it may have; of a bitmap the directory does not say how many there are.
    pub(crate) fn most_numbers(&self) -> u64 {
        match self.form {
            BlockForm::Consecutive { count } => count,
            BlockForm::EliasFano { count, .. } => count as u64,
            BlockForm::Bitmap => 8 * self.body.len() as u64,
        }
    }

    /// Calls `each` with the numbers inside `wanted`, as ascending spans of consecutive numbers. `body` is the part of
    /// the page that [`Block::bytes`] names.
    ///
    /// # Errors
    /// The body contradicts the directory. `each` may have been called before.
    #[inline]
    pub fn numbers(
        &self,
        body: &[u8],
        wanted: Range<u64>,
        mut each: impl FnMut(Range<u64>),
    ) -> Result<(), Malformed> {
        if body.len() != self.body.len() {
            return Err(Malformed("the body of a block has a wrong length"));
        }
        let wanted = wanted.start.max(self.first)..wanted.end.min(self.end);
        if wanted.is_empty() {
            return Ok(());
        }
        match self.form {
            BlockForm::Consecutive { count } => {
                if count > self.end - self.first {
                    return Err(Malformed("consecutive numbers reach into the next block"));
                }
                let span = wanted.start..wanted.end.min(self.first + count);
                if !span.is_empty() {
                    each(span);
                }
                Ok(())
            }
            BlockForm::Bitmap => {
                self.spans_of_bitmap(body, wanted, each);
                Ok(())
            }
            BlockForm::EliasFano { count, low_bits } => {
                self.spans_of_elias_fano(body, count, low_bits, wanted, each)
            }
        }
    }

    /// Appends all numbers. The body [is sound](Self::check).
    ///
    /// # Errors
    /// The numbers do not ascend below the block's end.
    pub(crate) fn append(&self, body: &[u8], into: &mut Vec<u64>) -> Result<(), Malformed> {
        let before = into.len();
        match self.form {
            BlockForm::Consecutive { count } => into.extend(self.first..self.first.saturating_add(count)),
            BlockForm::Bitmap => {
                for (place, word) in words(body) {
                    let mut rest = word;
                    while rest != 0 {
                        into.push(self.first + place + u64::from(rest.trailing_zeros()));
                        rest &= rest - 1;
                    }
                }
            }
            BlockForm::EliasFano { count, low_bits } => {
                self.append_elias_fano(body, (count, low_bits), into)?;
            }
        }
        let new = into.get(before..).unwrap_or_default();
        let ascend = new.is_sorted_by(|one, next| one < next);
        if ascend && new.last().is_some_and(|&last| last < self.end) {
            Ok(())
        } else {
            Err(Malformed("the numbers of a block do not ascend to its end"))
        }
    }

    #[inline]
    fn append_elias_fano(
        &self,
        body: &[u8],
        (count, low_bits): (usize, u8),
        into: &mut Vec<u64>,
    ) -> Result<(), Malformed> {
        let low_bytes = (count * usize::from(low_bits)).div_ceil(8);
        let (lows, highs) = body.split_at_checked(low_bytes).ok_or(TOO_SHORT)?;
        let before = into.len();
        into.resize(before + count, 0);
        let mut numbers = into[before..].iter_mut().enumerate();
        let mut high = 0;
        for (place, word) in words(highs) {
            let mut rest = word;
            while rest != 0 {
                let Some((index, number)) = numbers.next() else { return Err(TOO_SHORT) };
                high = place + u64::from(rest.trailing_zeros()) - index as u64;
                // What does not fit 64 bits is above the greatest upper bits, which are compared below.
                let number_above = high << low_bits | field(lows, index * usize::from(low_bits), low_bits);
                *number = self.first.wrapping_add(number_above);
                rest &= rest - 1;
            }
        }
        // Upper bits ascend, so these are the greatest.
        let fits = high <= (self.end - 1 - self.first) >> low_bits;
        if numbers.next().is_none() && fits { Ok(()) } else { Err(TOO_SHORT) }
    }

    fn spans_of_bitmap(&self, bits: &[u8], wanted: Range<u64>, mut each: impl FnMut(Range<u64>)) {
        let to = (wanted.end - self.first).min(bits.len() as u64 * 8);
        let mut at = wanted.start - self.first;
        while at < to {
            let in_word = 64 - at % 64;
            let rest = word(bits, (at / 64 * 8) as usize) >> (at % 64);
            if rest == 0 {
                at += in_word;
                continue;
            }
            let start = at + u64::from(rest.trailing_zeros());
            let ones = (!(rest >> (start - at))).trailing_zeros();
            let end = (start + u64::from(ones)).min(to);
            if start < end {
                each(self.first + start..self.first + end);
            }
            at = start + u64::from(ones);
        }
    }

    #[inline]
    fn spans_of_elias_fano(
        &self,
        body: &[u8],
        count: usize,
        low_bits: u8,
        wanted: Range<u64>,
        mut each: impl FnMut(Range<u64>),
    ) -> Result<(), Malformed> {
        let low_bytes = (count * usize::from(low_bits)).div_ceil(8);
        let (lows, highs) = body.split_at_checked(low_bytes).ok_or(TOO_SHORT)?;
        let most_high = (self.end - 1 - self.first) >> low_bits;
        let Some((mut at, mut index)) = after_zeros(highs, (wanted.start - self.first) >> low_bits) else {
            // So few upper bits are left only if all numbers lie below.
            return if ones(highs) == count { Ok(()) } else { Err(TOO_SHORT) };
        };
        // The rest of the word of 64 upper bits that `at` lies in; what lies before it is done.
        let mut rest = word(highs, at / 64 * 8) & u64::MAX << (at % 64);
        at = at / 64 * 8;
        while index < count {
            while rest == 0 {
                at += 8;
                if at >= highs.len() {
                    return Err(TOO_SHORT);
                }
                rest = word(highs, at);
            }
            let high = (at * 8 + rest.trailing_zeros() as usize - index) as u64;
            rest &= rest - 1;
            if high > most_high {
                return Err(Malformed("a number reaches into the next block"));
            }
            let number =
                self.first + (high << low_bits | field(lows, index * usize::from(low_bits), low_bits));
            if number >= wanted.end {
                let inside = number < self.end;
                return if inside { Ok(()) } else { Err(Malformed("a number reaches into the next block")) };
            }
            if number >= wanted.start {
                each(number..number + 1);
            }
            index += 1;
        }
        Ok(())
    }

    /// Checks what [`Block::numbers`] of all numbers does not: that the body has nothing but the numbers, and begins
    /// with the first.
    pub(crate) fn check(&self, body: &[u8]) -> Result<(), Malformed> {
        let damaged = Err(Malformed("the body of a block contradicts the directory"));
        let ends_well = body.last().is_some_and(|&byte| byte != 0);
        match self.form {
            BlockForm::Consecutive { .. } if body.is_empty() => Ok(()),
            BlockForm::Consecutive { .. } => damaged,
            BlockForm::Bitmap => {
                let last =
                    body.len() as u64 * 8 - 1 - u64::from(body.last().map_or(0, |byte| byte.leading_zeros()));
                let inside = ends_well && last < self.end - self.first;
                if inside && body.first().is_some_and(|byte| byte & 1 == 1) { Ok(()) } else { damaged }
            }
            BlockForm::EliasFano { count, low_bits } => {
                let low_end = count * usize::from(low_bits);
                let Some((lows, highs)) = body.split_at_checked(low_end.div_ceil(8)) else { return damaged };
                let starts_well =
                    highs.first().is_some_and(|byte| byte & 1 == 1) && field(lows, 0, low_bits) == 0;
                let padded_well =
                    low_end % 8 == 0 || lows.last().is_none_or(|byte| byte >> (low_end % 8) == 0);
                if ends_well && starts_well && padded_well && ones(highs) == count { Ok(()) } else { damaged }
            }
        }
    }
}

const TOO_SHORT: Malformed = Malformed("the body of a block has fewer numbers than the directory says");

/// Number of bits that are set.
fn ones(bits: &[u8]) -> usize {
    bits.iter().map(|byte| byte.count_ones() as usize).sum()
}

/// The words of 64 bits, and the places of their first bits.
#[inline]
fn words(bits: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    (0..bits.len()).step_by(8).map(|at| (8 * at as u64, word(bits, at)))
}

/// The place behind `zeros` zero bits, and the number of set bits before it. None if there are fewer zeros.
#[inline]
fn after_zeros(bits: &[u8], zeros: u64) -> Option<(usize, usize)> {
    let mut left = zeros;
    let mut at = 0;
    while left > 0 {
        if at >= bits.len() {
            return None;
        }
        let unset = !word(bits, at);
        let here = u64::from(unset.count_ones());
        if left <= here {
            let bit = at * 8 + select(unset, left as u32 - 1) as usize + 1;
            return Some((bit, bit - zeros as usize));
        }
        left -= here;
        at += 8;
    }
    Some((0, 0))
}
