//! Data pages: a directory of blocks, and their bodies.
//!
//! ```text
//! 0      kind u16 | 2 number of blocks u16 | 4 end of the last body u16 | 6 zero u16
//! 8      last number u64
//! 16     for each block its first number u64
//!        for each block a descriptor u32
//!        the bodies, one behind the other; then zeros
//!
//! descriptor of a block, from its lowest bit
//!        form, 6 bits     0 to 56: Elias-Fano with this number of low bits; 62: bitmap; 63: consecutive numbers
//!        Elias-Fano       count - 1, 8 bits | zero, 5 bits | place of the body in the page, 13 bits
//!        bitmap           zero, 13 bits | place of the body, 13 bits
//!        consecutive      count - 1, 26 bits
//! ```
//!
//! A body ends where the next one starts. Invariants: first numbers ascend; the bodies follow the directory without
//! gaps; the directory ends within the first quarter of the page. There is at least one block.

use crate::bits::{MOST_FIELD_BITS, half, short, word};
use crate::block::{Block, BlockForm};
use crate::coding::NUMBERS_END;
use crate::malformed::Malformed;
use std::ops::Range;

/// Bytes of a page: the payload of a segment page, which has headers and checks around it.
pub const PAGE_BYTES: usize = 8128;
/// The head of a page lies within its first bytes, of this number: the quarter of the page that has a check of its own.
pub const HEAD_BYTES: usize = 2032;
/// The bytes of a page of a run.
pub type Page = [u8; PAGE_BYTES];

pub(crate) const KIND_AT: usize = 0;
pub(crate) const COUNT_AT: usize = 2;
/// Says that a page is a data page.
const KIND: u16 = 0xFA11;
const END_AT: usize = 4;
const LAST_AT: usize = 8;
const FIRSTS_AT: usize = 16;
const BYTES_A_BLOCK: usize = 8 + 4;
/// Most blocks of a page: the directory is within the head.
pub(crate) const MOST_BLOCKS: usize = (HEAD_BYTES - FIRSTS_AT) / BYTES_A_BLOCK;
/// Bytes of a page for blocks, both their part of the directory and their bodies.
pub(crate) const ROOM: usize = PAGE_BYTES - FIRSTS_AT;
/// Bytes of the directory for each block.
pub(crate) const DIRECTORY_BYTES: usize = BYTES_A_BLOCK;

/// Forms of a block beside Elias-Fano, whose forms are 0 to [`MOST_FIELD_BITS`].
const BITMAP: u8 = 62;
const CONSECUTIVE: u8 = 63;
const FORM_BITS: u32 = 6;
const BODY_SHIFT: u32 = 19;
/// Most consecutive numbers of one block: what the descriptor has bits for.
pub(crate) const MOST_CONSECUTIVE: u64 = 1 << (u32::BITS - FORM_BITS);

const _: () = assert!(PAGE_BYTES < 1 << (u32::BITS - BODY_SHIFT) && MOST_FIELD_BITS < BITMAP);

/// The head of a data page: its first and last number, and where its blocks are.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    bytes: &'a [u8],
    count: usize,
    end: usize,
    last: u64,
}

impl<'a> Head<'a> {
    /// Reads the first [`HEAD_BYTES`] of a data page; it may be given more.
    ///
    /// # Errors
    /// The bytes are not the head of a data page.
    #[inline]
    pub fn parse(first_quarter: &'a [u8]) -> Result<Self, Malformed> {
        let bytes = first_quarter.get(..HEAD_BYTES).ok_or(Malformed("a data page is too short"))?;
        if short(bytes, KIND_AT) != KIND {
            return Err(Malformed("the page is not a data page"));
        }
        let (count, end) = (usize::from(short(bytes, COUNT_AT)), usize::from(short(bytes, END_AT)));
        let (last, rest) = (word(bytes, LAST_AT), short(bytes, END_AT + 2));
        let directory_end = FIRSTS_AT + BYTES_A_BLOCK * count;
        let head = Self { bytes, count, end, last };
        if count == 0
            || count > MOST_BLOCKS
            || !(directory_end..=PAGE_BYTES).contains(&end)
            || last >= NUMBERS_END
            || head.first() > last
            || rest != 0
        {
            return Err(Malformed("the head of a data page is damaged"));
        }
        Ok(head)
    }

    /// The first number of the page.
    #[inline]
    pub fn first(&self) -> u64 {
        self.first_of(0)
    }

    /// The last number of the page.
    #[inline]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// A bound of the number of numbers on the page: bitmaps count as if all of their bits were set.
    ///
    /// # Errors
    /// The directory contradicts itself.
    pub fn most_numbers(&self) -> Result<u64, Malformed> {
        (0..self.count).try_fold(0, |sum, index| Ok(sum + self.block(index)?.most_numbers()))
    }

    /// The blocks that may hold numbers of this interval, in order.
    ///
    /// # Errors
    /// The directory contradicts itself.
    #[inline]
    pub fn blocks(&self, numbers: Range<u64>) -> Result<impl Iterator<Item = Block> + use<'a>, Malformed> {
        let nothing = numbers.is_empty() || numbers.start > self.last;
        let from = if nothing { self.count } else { self.blocks_up_to(numbers.start).saturating_sub(1) };
        let mut to = from;
        while to < self.count && self.first_of(to) < numbers.end {
            self.check_block(to)?;
            to += 1;
        }
        let head = *self;
        // All of them have just been found to be well.
        Ok((from..to).filter_map(move |index| head.block(index).ok()))
    }

    /// Number of blocks whose first number is not above this.
    #[inline]
    fn blocks_up_to(&self, number: u64) -> usize {
        let firsts = self.bytes.get(FIRSTS_AT..FIRSTS_AT + 8 * self.count).unwrap_or(&[]);
        firsts.as_chunks::<8>().0.partition_point(|first| u64::from_le_bytes(*first) <= number)
    }

    #[inline]
    fn first_of(&self, index: usize) -> u64 {
        word(self.bytes, FIRSTS_AT + 8 * index)
    }

    #[inline]
    fn descriptor(&self, index: usize) -> u32 {
        half(self.bytes, FIRSTS_AT + 8 * self.count + 4 * index)
    }

    /// Where the body of a block starts. None if it has none.
    #[inline]
    fn body_start(&self, index: usize) -> Option<usize> {
        let descriptor = self.descriptor(index);
        (form_of(descriptor) != CONSECUTIVE).then_some((descriptor >> BODY_SHIFT) as usize)
    }

    #[inline]
    fn block(&self, index: usize) -> Result<Block, Malformed> {
        let damaged = Malformed("the directory of a data page is damaged");
        let (first, descriptor) = (self.first_of(index), self.descriptor(index));
        let end = if index + 1 < self.count { self.first_of(index + 1) } else { self.last + 1 };
        let form = match form_of(descriptor) {
            CONSECUTIVE => BlockForm::Consecutive { count: u64::from(descriptor >> FORM_BITS) + 1 },
            BITMAP if descriptor >> FORM_BITS & 0x1fff == 0 => BlockForm::Bitmap,
            low_bits if low_bits <= MOST_FIELD_BITS && descriptor >> 14 & 0x1f == 0 => {
                BlockForm::EliasFano { count: (descriptor >> FORM_BITS & 0xff) as usize + 1, low_bits }
            }
            _ => return Err(damaged),
        };
        let body = match self.body_start(index) {
            None => 0..0,
            Some(start) => {
                let next = (index + 1..self.count).find_map(|index| self.body_start(index));
                start..next.unwrap_or(self.end)
            }
        };
        let has_body = !matches!(form, BlockForm::Consecutive { .. });
        let directory_end = FIRSTS_AT + BYTES_A_BLOCK * self.count;
        // Above NUMBERS_END, a sum of `first` and what the body has could be more than a u64 holds.
        let is_span = first < end && end <= NUMBERS_END;
        if !is_span || has_body && (body.start < directory_end || body.is_empty() || body.end > self.end) {
            return Err(damaged);
        }
        Ok(Block { first, end, form, body })
    }

    #[inline]
    fn check_block(&self, index: usize) -> Result<(), Malformed> {
        self.block(index).map(|_| ())
    }
}

#[inline]
fn form_of(descriptor: u32) -> u8 {
    (descriptor & 0x3f) as u8
}

/// Calls `each` with all numbers of a data page, as ascending spans of consecutive numbers, and checks everything that
/// can be checked.
///
/// # Errors
/// What is wrong. `each` may have been called before.
pub fn read_page(page: &[u8], mut each: impl FnMut(Range<u64>)) -> Result<(), Malformed> {
    read_blocks(page, |block, body| {
        let mut numbers_end = block.first;
        let mut ascending = true;
        block.numbers(body, 0..NUMBERS_END, |span| {
            ascending &= numbers_end <= span.start;
            numbers_end = span.end;
            if ascending {
                each(span);
            }
        })?;
        if ascending { Ok(numbers_end) } else { Err(DESCENDING) }
    })
}

/// Most consecutive numbers of a block that [`append_page`] appends: so a page of 168 blocks never takes much memory.
const MOST_APPENDED: u64 = 1024;

/// Appends all numbers of a data page, which ascend, and checks everything that can be checked. Returns false, with
/// nothing appended, if a block has too many consecutive numbers: [`read_page`] gives these as spans.
///
/// # Errors
/// What is wrong. Numbers may have been appended before.
pub fn append_page(page: &[u8], into: &mut Vec<u64>) -> Result<bool, Malformed> {
    let head = Head::parse(page)?;
    for index in 0..head.count {
        if let BlockForm::Consecutive { count } = head.block(index)?.form
            && count > MOST_APPENDED
        {
            return Ok(false);
        }
    }
    read_blocks(page, |block, body| {
        block.append(body, into)?;
        Ok(into.last().map_or(block.first, |last| last + 1))
    })?;
    Ok(true)
}

const DESCENDING: Malformed = Malformed("the numbers of a block are not ascending");

/// Calls `read` with each block of a data page and its body. It checks the numbers, which begin with the block's first
/// one and ascend below its end, and returns the last one plus 1. Checks everything else that can be checked.
fn read_blocks(
    page: &[u8],
    mut read: impl FnMut(&Block, &[u8]) -> Result<u64, Malformed>,
) -> Result<(), Malformed> {
    if page.len() != PAGE_BYTES {
        return Err(Malformed("a data page has a wrong length"));
    }
    let head = Head::parse(page)?;
    let mut bodies_end = FIRSTS_AT + BYTES_A_BLOCK * head.count;
    let mut numbers_end = 0;
    for index in 0..head.count {
        let block = head.block(index)?;
        if !block.body.is_empty() {
            if block.body.start != bodies_end {
                return Err(Malformed("there is a gap between the bodies of two blocks"));
            }
            bodies_end = block.body.end;
        }
        let body = page.get(block.bytes()).ok_or(Malformed("a block lies outside of its page"))?;
        block.check(body)?;
        numbers_end = read(&block, body)?;
    }
    if numbers_end != head.last + 1 {
        return Err(Malformed("the last number of a page is not the one that its head says"));
    }
    if bodies_end != head.end || page[bodies_end..].iter().any(|&byte| byte != 0) {
        return Err(Malformed("a data page has bytes behind its blocks"));
    }
    Ok(())
}

/// A data page that is being filled.
#[derive(Debug, Default)]
pub(crate) struct PageBuilder {
    firsts: Vec<u64>,
    /// As on the page, but for the places of bodies, which count from the start of the first one.
    descriptors: Vec<u32>,
    bodies: Vec<u8>,
    last: u64,
}

impl PageBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }

    /// Bytes that the body of one more block may have. None if there is no room for a block.
    pub(crate) fn room(&self) -> Option<usize> {
        let taken = BYTES_A_BLOCK * (self.firsts.len() + 1) + self.bodies.len();
        if self.firsts.len() < MOST_BLOCKS { ROOM.checked_sub(taken) } else { None }
    }

    /// Adds a block of these numbers. The caller has made sure that there is room.
    pub(crate) fn add(&mut self, numbers: &[u64], form: BlockForm) {
        let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else { return };
        let place = (self.bodies.len() as u32) << BODY_SHIFT;
        let descriptor = match form {
            BlockForm::Consecutive { .. } => return self.add_consecutive(first..last + 1),
            BlockForm::Bitmap => u32::from(BITMAP) | place,
            BlockForm::EliasFano { count, low_bits } => {
                u32::from(low_bits) | (count as u32 - 1) << FORM_BITS | place
            }
        };
        form.encode(numbers, &mut self.bodies);
        self.push(first, last, descriptor);
    }

    /// Adds a block of at most [`MOST_CONSECUTIVE`] consecutive numbers.
    pub(crate) fn add_consecutive(&mut self, numbers: Range<u64>) {
        let count = (numbers.end - numbers.start) as u32;
        self.push(numbers.start, numbers.end - 1, u32::from(CONSECUTIVE) | (count - 1) << FORM_BITS);
    }

    fn push(&mut self, first: u64, last: u64, descriptor: u32) {
        self.firsts.push(first);
        self.descriptors.push(descriptor);
        self.last = last;
    }

    /// Bytes that the bitmap that the page ends with would have if it went on to this number, and that it has.
    /// None if the page does not end with a bitmap.
    pub(crate) fn longer_bitmap(&self, last: u64) -> Option<(usize, usize)> {
        let (&first, &descriptor) = (self.firsts.last()?, self.descriptors.last()?);
        if form_of(descriptor) != BITMAP {
            return None;
        }
        let now = self.bodies.len() - (descriptor >> BODY_SHIFT) as usize;
        let then = usize::try_from((last - first) / 8 + 1).ok()?;
        Some((then, now))
    }

    /// Adds numbers to the bitmap that the page ends with.
    pub(crate) fn extend_bitmap(&mut self, numbers: &[u64]) {
        let (Some(&first), Some(descriptor)) = (self.firsts.last(), self.descriptors.last()) else { return };
        let start = (descriptor >> BODY_SHIFT) as usize;
        for number in numbers {
            crate::block::set_bit(&mut self.bodies, start, (number - first) as usize);
        }
        self.last = numbers.last().copied().unwrap_or(self.last);
    }

    /// Writes the page, which has a block at least, and starts over. Gives the first number of the page.
    pub(crate) fn finish(&mut self, page: &mut Page) -> u64 {
        let (first, count) = (self.firsts.first().copied().unwrap_or(0), self.firsts.len());
        let bodies_at = FIRSTS_AT + BYTES_A_BLOCK * count;
        let end = bodies_at + self.bodies.len();
        page.fill(0);
        page[KIND_AT..COUNT_AT].copy_from_slice(&KIND.to_le_bytes());
        page[COUNT_AT..END_AT].copy_from_slice(&(count as u16).to_le_bytes());
        page[END_AT..END_AT + 2].copy_from_slice(&(end as u16).to_le_bytes());
        page[LAST_AT..FIRSTS_AT].copy_from_slice(&self.last.to_le_bytes());
        let (firsts, descriptors) = page[FIRSTS_AT..bodies_at].split_at_mut(8 * count);
        for (bytes, first) in firsts.as_chunks_mut::<8>().0.iter_mut().zip(self.firsts.drain(..)) {
            *bytes = first.to_le_bytes();
        }
        for (bytes, descriptor) in
            descriptors.as_chunks_mut::<4>().0.iter_mut().zip(self.descriptors.drain(..))
        {
            let has_body = form_of(descriptor) != CONSECUTIVE;
            let place = if has_body { (bodies_at as u32) << BODY_SHIFT } else { 0 };
            *bytes = (descriptor + place).to_le_bytes();
        }
        page[bodies_at..end].copy_from_slice(&self.bodies);
        self.bodies.clear();
        first
    }
}
