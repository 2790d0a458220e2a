//! Ascending numbers become the pages of a run.
//!
//! Numbers wait in two places: consecutive ones as a span, which grows without work, others in a list of up to 256. A
//! span that has ended goes to the list if it is short, else it becomes a block of its own. A full list becomes a
//! block, or its first part does: numbers of a key in many ranges lie close together, those of others far apart, and a
//! block of both would spend on the close ones what the distant ones need. A block that does not fit its page is cut so
//! that it fills the page.
//!
//! [`most_pages`](crate::most_pages) rests on these rules.

use crate::block::{BlockForm, MOST_NUMBERS};
use crate::coding::NUMBERS_END;
use crate::fence::{MOST_ENTRIES, write_fence};
use crate::malformed::Malformed;
use crate::page::{DIRECTORY_BYTES, MOST_CONSECUTIVE, PAGE_BYTES, Page, PageBuilder};
use crate::shape::RunShape;
use std::ops::Range;

/// Fewest consecutive numbers that become a block of their own. In a list they take 2 bits each, 32 bytes, against a
/// block of 12 bytes and the end of the list. [`crate::most_pages`] needs at least twice [`LEAST_PART`], less one.
pub(crate) const LEAST_CONSECUTIVE: u64 = 128;
/// Fewest that do so among others that become a bitmap. The bitmap takes a bit for each; ending it takes a block.
const LEAST_AMONG_CLOSE: u64 = 512;
/// A full list may be cut, but not before this number of numbers: a quarter of it.
pub(crate) const LEAST_PART: usize = 64;
/// Distance of the places where cutting a list is tried.
const CUT_STEP: usize = 16;
/// Most bytes of a bitmap that is continued. A lookup may search all of them.
const MOST_BITMAP_BYTES: usize = 512;

const TOO_GREAT: Malformed = Malformed("a number is not below 2^63");

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The pages.
    pub shape: RunShape,
    /// Number of numbers.
    pub numbers: u64,
}

/// Writes a run from ascending numbers. Finished pages are given to the `sink` in the order of their numbers.
#[derive(Debug)]
pub struct RunWriter {
    /// Consecutive numbers, the last that came.
    span: Range<u64>,
    /// Numbers before them that are on no page yet.
    list: Vec<u64>,
    page: PageBuilder,
    bytes: Box<Page>,
    /// The first number of each finished data page.
    firsts: Vec<u64>,
    numbers: u64,
    /// Numbers on pages, the unfinished one among them, and on finished pages.
    placed: u64,
    finished: u64,
}

impl Default for RunWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl RunWriter {
    /// A writer of a new run.
    pub fn new() -> Self {
        Self {
            span: 0..0,
            list: Vec::with_capacity(MOST_NUMBERS),
            page: PageBuilder::default(),
            bytes: Box::new([0; PAGE_BYTES]),
            firsts: vec![],
            numbers: 0,
            placed: 0,
            finished: 0,
        }
    }

    /// Number of numbers on the pages that were given to the sink.
    pub fn numbers_on_pages(&self) -> u64 {
        self.finished
    }

    /// Adds a number. One that equals the last is left out.
    ///
    /// # Errors
    /// The number is lower than the last or not below 2^63; or an error of the sink.
    #[inline]
    pub fn push<E: From<Malformed>>(
        &mut self,
        number: u64,
        sink: &mut impl FnMut(&Page) -> Result<(), E>,
    ) -> Result<(), E> {
        if number >= NUMBERS_END {
            return Err(TOO_GREAT.into());
        }
        self.push_span(number..number + 1, sink)
    }

    /// Adds ascending numbers: the same as one by one, but faster.
    ///
    /// # Errors
    /// As [`RunWriter::push`].
    pub fn push_all<E: From<Malformed>>(
        &mut self,
        numbers: &[u64],
        sink: &mut impl FnMut(&Page) -> Result<(), E>,
    ) -> Result<(), E> {
        for &number in numbers {
            // By far the most common case: neither this number nor the one before it is one of several consecutive
            // ones.
            if number > self.span.end
                && number < NUMBERS_END
                && self.span.end - self.span.start == 1
                && self.list.len() < MOST_NUMBERS
            {
                self.list.push(self.span.start);
                self.numbers += 1;
                self.span = number..number + 1;
            } else {
                self.push(number, sink)?;
            }
        }
        Ok(())
    }

    /// Adds consecutive numbers, those left out that the last ones have. The time does not depend on their count, but
    /// for one block in every 2^26.
    ///
    /// # Errors
    /// As [`RunWriter::push`].
    #[inline]
    pub fn push_span<E: From<Malformed>>(
        &mut self,
        numbers: Range<u64>,
        sink: &mut impl FnMut(&Page) -> Result<(), E>,
    ) -> Result<(), E> {
        if numbers.is_empty() {
            return Ok(());
        }
        if numbers.end > NUMBERS_END {
            return Err(TOO_GREAT.into());
        }
        if numbers.start > self.span.end || self.span.is_empty() {
            self.settle(sink)?;
            self.span = numbers;
        } else if numbers.start >= self.span.end - 1 {
            self.span.end = self.span.end.max(numbers.end);
        } else {
            return Err(Malformed("numbers are not ascending").into());
        }
        Ok(())
    }

    /// Writes what is left on data pages. The fence pages are the caller's ([`crate::fence::write_fence`]).
    ///
    /// # Errors
    /// An error of the sink.
    pub fn finish_data<E>(&mut self, sink: &mut impl FnMut(&Page) -> Result<(), E>) -> Result<(), E> {
        self.settle(sink)?;
        self.put_list(sink)?;
        self.end_page(sink)
    }

    /// Writes what is left, then the fence pages.
    ///
    /// # Errors
    /// An error of the sink.
    pub fn finish<E: From<Malformed>>(
        mut self,
        sink: &mut impl FnMut(&Page) -> Result<(), E>,
    ) -> Result<Written, E> {
        self.finish_data(sink)?;
        let data_pages =
            u32::try_from(self.firsts.len()).map_err(|_| Malformed("a run has too many pages"))?;
        let mut level = self.firsts;
        while level.len() > 1 {
            for entries in level.chunks(MOST_ENTRIES) {
                write_fence(entries, &mut self.bytes);
                sink(&self.bytes)?;
            }
            level = level.chunks(MOST_ENTRIES).filter_map(|entries| entries.first().copied()).collect();
        }
        Ok(Written { shape: RunShape::of_data_pages(data_pages), numbers: self.numbers })
    }

    /// Moves the span to the list, or makes it a block.
    #[inline]
    fn settle<E>(&mut self, sink: &mut impl FnMut(&Page) -> Result<(), E>) -> Result<(), E> {
        let span = std::mem::replace(&mut self.span, 0..0);
        let count = span.end - span.start;
        self.numbers += count;
        if count == 1 && self.list.len() < MOST_NUMBERS {
            self.list.push(span.start); // by far the most common case
            return Ok(());
        }
        if count >= LEAST_CONSECUTIVE && (count >= LEAST_AMONG_CLOSE || !self.is_list_close(span.start)) {
            self.put_list(sink)?;
            return self.put_consecutive(span, sink);
        }
        for number in span {
            while self.list.len() >= MOST_NUMBERS {
                self.put_part(sink)?;
            }
            self.list.push(number);
        }
        Ok(())
    }

    /// Whether the list would become a bitmap, half full or more, up to this number.
    fn is_list_close(&self, next: u64) -> bool {
        self.list.first().is_some_and(|first| next - first <= 2 * self.list.len() as u64)
    }

    fn put_consecutive<E>(
        &mut self,
        mut span: Range<u64>,
        sink: &mut impl FnMut(&Page) -> Result<(), E>,
    ) -> Result<(), E> {
        while !span.is_empty() {
            if self.page.room().is_none() {
                self.end_page(sink)?;
            }
            let end = span.end.min(span.start + MOST_CONSECUTIVE);
            self.page.add_consecutive(span.start..end);
            self.placed += end - span.start;
            span.start = end;
        }
        Ok(())
    }

    /// Puts all of the list on pages.
    fn put_list<E>(&mut self, sink: &mut impl FnMut(&Page) -> Result<(), E>) -> Result<(), E> {
        while !self.list.is_empty() {
            self.put_part(sink)?;
        }
        Ok(())
    }

    /// Puts a part of the list on the page as one block, or nothing if the page is full, and ends a full page.
    fn put_part<E>(&mut self, sink: &mut impl FnMut(&Page) -> Result<(), E>) -> Result<(), E> {
        let count = good_part(&self.list);
        let part = &self.list[..count];
        if self.page.continue_bitmap(part) {
            self.placed += count as u64;
            self.list.drain(..count);
            return Ok(());
        }
        let Some(room) = self.page.room() else { return self.end_page(sink) };
        let fits = |count: usize| smallest(&part[..count]).1 <= room;
        // The most that fit: `taken` always do, `too_many` do not.
        let (mut taken, mut too_many) = if fits(count) { (count, count + 1) } else { (0, count) };
        while taken + 1 < too_many {
            let middle = (taken + too_many) / 2;
            if fits(middle) { taken = middle } else { too_many = middle }
        }
        if taken > 0 {
            self.page.add(&part[..taken], smallest(&part[..taken]).0);
            self.placed += taken as u64;
            self.list.drain(..taken);
        }
        if taken < count { self.end_page(sink) } else { Ok(()) }
    }

    fn end_page<E>(&mut self, sink: &mut impl FnMut(&Page) -> Result<(), E>) -> Result<(), E> {
        if self.page.is_empty() {
            return Ok(());
        }
        self.firsts.push(self.page.finish(&mut self.bytes));
        self.finished = self.placed;
        sink(&self.bytes)
    }
}

impl PageBuilder {
    /// Adds numbers to the bitmap that the page ends with, if that takes no more bytes than a block of their own and
    /// keeps the bitmap short.
    fn continue_bitmap(&mut self, numbers: &[u64]) -> bool {
        let Some((then, now)) = numbers.last().and_then(|&last| self.longer_bitmap(last)) else {
            return false;
        };
        let apart = DIRECTORY_BYTES + smallest(numbers).1;
        let room = self.room().map_or(0, |room| room + DIRECTORY_BYTES);
        let fits = then <= MOST_BITMAP_BYTES && then - now <= apart.min(room);
        if fits {
            self.extend_bitmap(numbers);
        }
        fits
    }
}

/// The smallest form of these numbers, and the bytes of its body.
fn smallest(numbers: &[u64]) -> (BlockForm, usize) {
    match numbers {
        [first, .., last] => BlockForm::smallest(numbers.len(), last - first),
        _ => (BlockForm::Consecutive { count: 1 }, 0),
    }
}

/// How many numbers of the list should become the next block: all, or a part where two blocks take fewer bytes.
fn good_part(list: &[u64]) -> usize {
    let in_two = |&count: &usize| {
        let (one, other) = list.split_at(count);
        DIRECTORY_BYTES + smallest(one).1 + smallest(other).1
    };
    let cuts = (LEAST_PART..list.len()).step_by(CUT_STEP);
    match cuts.min_by_key(in_two) {
        Some(cut) if in_two(&cut) < smallest(list).1 => cut,
        _ => list.len(),
    }
}
