//! Lookups in a map: from the root fence page down to a data page, and the few blocks there that may hold numbers of a
//! key.

use super::{Map, Wanted};
use crate::pages::miss::{Fetch, Miss};
use crate::pages::segment;
use crate::pg::memory;
use crate::pg::page::PinnedPage;
use skip_map::{FenceHead, HEAD_BYTES, Head, Malformed, PAGE_BYTES, RunShape, fence_entry};
use std::ops::Range;

impl Map<'_> {
    /// Calls `each` with spans of parts that may hold one of the keys: the first part, and the first one behind the
    /// span, counted from the table's first part. Returns the number of pages read.
    ///
    /// # Errors
    /// Damage, or a page that does not belong to the segment any more.
    pub fn look_up(&self, keys: &[u64], mut each: impl FnMut(u64, u64)) -> Fetch<u64> {
        let own = keys.iter().filter(|&&key| self.segment.key_part.has(key));
        let mut wanted: Vec<Wanted> = own.map(|&key| self.coding.numbers_of(key)).collect();
        wanted.sort_unstable_by_key(|wanted| wanted.start);
        wanted.dedup();
        let first = self.first_part();
        self.look_up_numbers(&wanted, &mut |key: &Wanted, numbers: Range<u64>| {
            each(first + (numbers.start - key.start), first + (numbers.end - key.start));
        })
    }

    /// Calls `each` with the numbers of the map that are wanted, which are sorted, and those that wanted them. Returns
    /// the number of pages read.
    fn look_up_numbers(&self, wanted: &[Wanted], each: &mut impl FnMut(&Wanted, Range<u64>)) -> Fetch<u64> {
        let Some(shape) = self.shape.as_ref().filter(|_| !wanted.is_empty()) else { return Ok(0) };
        let mut walk = Walk { map: self, shape, pages: 0 };
        match shape.root().filter(|&root| shape.is_fence(root)) {
            Some(root) => walk.fence(root, wanted, each)?,
            None => walk.data(0, wanted, each)?,
        }
        Ok(walk.pages)
    }

    /// Whether the map has the pair of a key and a part.
    ///
    /// # Errors
    /// As [`Map::look_up`].
    pub fn has(&self, key: u64, part: u32) -> Fetch<bool> {
        let Some(part) = u64::from(part).checked_sub(self.first_part()) else { return Ok(false) };
        let Ok(part) = u32::try_from(part) else { return Ok(false) };
        if part >= self.coding.ranges() || !self.segment.key_part.has(key) {
            return Ok(false);
        }
        // Only this number: a key that is everywhere has numbers on many pages.
        let number = self.coding.number(key, part);
        let mut found = false;
        let wanted = number..number + 1;
        let wanted = std::slice::from_ref(&wanted);
        self.look_up_numbers(wanted, &mut |_: &Wanted, _: Range<u64>| found = true)?;
        Ok(found)
    }

    /// For each key the number of the entry of a fence page that leads to it. For a single key only the quarters of the
    /// page that it needs are read and verified.
    fn fence_entries(&self, page: u32, wanted: &[Wanted]) -> Fetch<Vec<usize>> {
        let malformed = |what: Malformed| Miss::from(self.malformed(page, &what));
        let [key] = wanted else {
            let all = |bytes: &[u8]| {
                wanted.iter().map(|key| fence_entry(bytes, key.start)).collect::<Result<_, _>>()
            };
            return self.read(page, all)?.map_err(malformed);
        };
        let shared = PinnedPage::read(self.index, self.segment.first_block + page).lock();
        let head = segment::part_of(&shared, &self.segment, page, 0..HEAD_BYTES)?;
        let head = FenceHead::parse(head).map_err(malformed)?;
        let bytes = segment::part_of(&shared, &self.segment, page, head.bytes(key.start))?;
        Ok(vec![head.entry(bytes, key.start).map_err(malformed)?])
    }
}

/// One lookup, which goes down through the pages.
struct Walk<'m, 'a> {
    map: &'m Map<'a>,
    shape: &'m RunShape,
    pages: u64,
}

impl Walk<'_, '_> {
    fn fence(
        &mut self,
        page: u32,
        wanted: &[Wanted],
        each: &mut impl FnMut(&Wanted, Range<u64>),
    ) -> Fetch<()> {
        memory::check_for_interrupts();
        self.pages += 1;
        let entries = self.map.fence_entries(page, wanted)?;
        let mut from = 0;
        for same in entries.chunk_by(|a, b| a == b) {
            let keys = &wanted[from..from + same.len()];
            from += same.len();
            let child = self.shape.child(page, same[0]);
            let child = child.ok_or_else(|| self.map.damage(page, "a fence page leads to no page"))?;
            if self.shape.is_fence(child) {
                self.fence(child, keys, each)?;
            } else {
                self.data(child, keys, each)?;
            }
        }
        Ok(())
    }

    /// Looks up keys from a data page on: the numbers of a key may continue on the next pages.
    fn data(
        &mut self,
        page: u32,
        wanted: &[Wanted],
        each: &mut impl FnMut(&Wanted, Range<u64>),
    ) -> Fetch<()> {
        let (mut page, mut wanted) = (page, wanted);
        loop {
            memory::check_for_interrupts();
            self.pages += 1;
            let last = self.data_page(page, wanted, each)?;
            page += 1;
            // Keys are sorted: those whose numbers may continue behind this page are the last ones.
            let done = wanted.partition_point(|key| key.end <= last.saturating_add(1));
            wanted = &wanted[done..];
            if wanted.is_empty() || page >= self.shape.data_pages() {
                return Ok(());
            }
        }
    }

    /// Looks up keys in a data page. Returns the page's last number.
    fn data_page(
        &self,
        page: u32,
        wanted: &[Wanted],
        each: &mut impl FnMut(&Wanted, Range<u64>),
    ) -> Fetch<u64> {
        let map = self.map;
        let malformed = |what: Malformed| Miss::from(map.malformed(page, &what));
        // For a single key only the quarters that it needs are read and verified. Several keys need most of the page.
        let checked = if wanted.len() > 1 { PAGE_BYTES } else { HEAD_BYTES };
        let pinned = PinnedPage::read(map.index, map.segment.first_block + page);
        let shared = pinned.lock();
        let bytes = segment::part_of(&shared, &map.segment, page, 0..checked)?;
        let head = Head::parse(&bytes[..HEAD_BYTES]).map_err(malformed)?;
        for key in wanted {
            for block in head.blocks(key.clone()).map_err(malformed)? {
                let body = block.bytes();
                let body = if wanted.len() > 1 {
                    bytes
                        .get(body)
                        .ok_or_else(|| map.damage(page, "a block of a map is outside of its page"))?
                } else {
                    segment::part_of(&shared, &map.segment, page, body)?
                };
                block.numbers(body, key.clone(), |numbers| each(key, numbers)).map_err(malformed)?;
            }
        }
        Ok(head.last())
    }
}
