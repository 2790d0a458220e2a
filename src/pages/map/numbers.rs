//! The numbers of a map in order, page by page.

use super::Map;
use crate::pages::miss::{Fetch, Miss};
use crate::pages::segment;
use crate::pg::memory;
use skip_map::source::BATCH;
use skip_map::{Each, HEAD_BYTES, Head, NumberSource, RunShape, fence_entry};
use std::ops::Range;

impl<'a> Map<'a> {
    /// All numbers, ascending. Every page that is read is verified as a whole.
    pub fn numbers(&self) -> Numbers<'_, 'a> {
        Numbers { map: self, page: 0, within: 0..u64::MAX, spans: Vec::new().into_iter(), current: 0..0 }
    }

    /// The numbers of an interval, ascending.
    ///
    /// # Errors
    /// As [`Map::look_up`].
    pub fn numbers_within(&self, interval: Range<u64>) -> Fetch<Numbers<'_, 'a>> {
        let (within, page) = match self.part_of(&interval) {
            Some(within) => (within.clone(), self.page_of(within.start)?),
            None => (0..0, self.data_pages()),
        };
        Ok(Numbers { page, within, ..self.numbers() })
    }

    /// A bound of the number of pairs whose numbers are in an interval.
    ///
    /// # Errors
    /// As [`Map::look_up`].
    pub fn most_pairs_within(&self, interval: Range<u64>) -> Fetch<u64> {
        let Some(within) = self.part_of(&interval) else { return Ok(0) };
        let all = self.pairs()?;
        if within == self.segment.key_part.numbers(self.coding) {
            return Ok(all);
        }
        let mut pairs = 0u64;
        for page in self.page_of(within.start)?..self.data_pages() {
            memory::check_for_interrupts();
            let head = segment::read_part(self.index, &self.segment, page, 0..HEAD_BYTES, |bytes| {
                let head = Head::parse(bytes)?;
                Ok((head.first(), head.most_numbers()?))
            })?;
            let (first, most) = head.map_err(|what| self.malformed(page, &what))?;
            if first >= within.end {
                break;
            }
            pairs = pairs.saturating_add(most);
        }
        Ok(pairs.min(all))
    }

    /// Number of data pages that may have numbers of an interval, and the fence pages above them.
    ///
    /// # Errors
    /// As [`Map::look_up`].
    pub fn pages_within(&self, interval: Range<u64>) -> Fetch<u32> {
        let Some(within) = self.part_of(&interval).filter(|_| self.shape.is_some()) else { return Ok(0) };
        let own = self.segment.key_part.numbers(self.coding);
        if within == own {
            return Ok(self.segment.blocks);
        }
        let end = if within.end < own.end { self.page_of(within.end)? } else { self.data_pages() };
        Ok(RunShape::of_data_pages((end + 1).saturating_sub(self.page_of(within.start)?)).pages())
    }

    /// What an interval and the numbers that the map may have are both.
    fn part_of(&self, interval: &Range<u64>) -> Option<Range<u64>> {
        let own = self.segment.key_part.numbers(self.coding);
        let within = interval.start.max(own.start)..interval.end.min(own.end);
        (!within.is_empty()).then_some(within)
    }

    /// The first data page that may have numbers from this one on.
    fn page_of(&self, number: u64) -> Fetch<u32> {
        let mut page = self.shape.as_ref().and_then(RunShape::root).unwrap_or(0);
        if number <= self.segment.key_part.numbers(self.coding).start {
            return Ok(0);
        }
        while let Some(shape) = self.shape.as_ref().filter(|shape| shape.is_fence(page)) {
            let entry = self.read(page, |bytes| fence_entry(bytes, number))?;
            let entry = entry.map_err(|what| self.malformed(page, &what))?;
            let child = shape.child(page, entry).filter(|&child| child < page);
            page = child.ok_or_else(|| self.damage(page, "a fence page leads to no page"))?;
        }
        Ok(page)
    }
}

/// The numbers of a map within an interval, read page by page.
pub struct Numbers<'m, 'a> {
    map: &'m Map<'a>,
    page: u32,
    within: Range<u64>,
    /// What is left of a page with many consecutive numbers: spans of them.
    spans: std::vec::IntoIter<Range<u64>>,
    current: Range<u64>,
}

impl Numbers<'_, '_> {
    /// The numbers one by one.
    pub fn each(self) -> Each<Self> {
        Each::of(self)
    }

    /// Appends the numbers of the next page, or takes its spans.
    fn read_page(&mut self, into: &mut Vec<u64>) -> Fetch<()> {
        memory::check_for_interrupts();
        let before = into.len();
        let page = self.page;
        self.page += 1;
        if self.map.append_data(page, into)? {
            let new = into.get(before..).unwrap_or_default();
            let start = new.partition_point(|&number| number < self.within.start);
            let end = new.partition_point(|&number| number < self.within.end);
            if end < new.len() {
                self.page = u32::MAX;
            }
            into.truncate(before + end);
            into.drain(before..before + start);
            return Ok(());
        }
        let (mut spans, mut is_over) = (Vec::new(), false);
        let within = self.within.clone();
        self.map.read_data(page, |numbers| {
            is_over |= numbers.end > within.end;
            let inside = numbers.start.max(within.start)..numbers.end.min(within.end);
            if !inside.is_empty() {
                spans.push(inside);
            }
        })?;
        if is_over {
            self.page = u32::MAX;
        }
        self.spans = spans.into_iter();
        Ok(())
    }

    /// Appends numbers of the spans that are left, at most [`BATCH`].
    fn read_spans(&mut self, into: &mut Vec<u64>) {
        let end_of_batch = into.len() + BATCH;
        while into.len() < end_of_batch {
            if self.current.is_empty() {
                let Some(span) = self.spans.next() else { return };
                self.current = span;
            }
            let end = self.current.end.min(self.current.start + (end_of_batch - into.len()) as u64);
            into.extend(self.current.start..end);
            self.current.start = end;
        }
    }
}

impl NumberSource for Numbers<'_, '_> {
    type Error = Miss;

    fn read(&mut self, into: &mut Vec<u64>) -> Fetch<()> {
        let before = into.len();
        loop {
            self.read_spans(into);
            if into.len() > before || self.page >= self.map.data_pages() {
                return Ok(());
            }
            if let Err(miss) = self.read_page(into) {
                self.page = u32::MAX;
                return Err(miss);
            }
            if into.len() > before {
                return Ok(());
            }
        }
    }
}
