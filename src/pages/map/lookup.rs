//! Lookups in a map: from the root fence page down to a data page, and the few blocks there that may hold numbers of a
//! key. The lookup of one key starts with the page that is likely to lead to it, or to have it, and goes to the root
//! only if it does not ([`skip_map::guess`]).

use super::{Map, VALUE_KEY, Wanted};
use crate::pages::miss::{Fetch, Miss};
use crate::pages::segment;
use crate::pg::memory;
use crate::pg::page;
use crate::pg::page::PinnedPage;
use skip_map::{
    EvenSpread, FenceHead, Guess, HEAD_BYTES, Head, Malformed, PAGE_BYTES, RunShape, Side, Start, fence_entry,
};
use std::ops::Range;

/// A page to start the lookup of one key with, instead of the root.
#[derive(Clone, Copy)]
enum Likely {
    Fence(u32),
    Data(u32),
}

/// Why a data page is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Fence pages or the page before led to it.
    Found,
    /// It is likely to have the key.
    Guessed,
}

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
        if let [key] = wanted
            && let Some(likely) = self.likely_page(key)
            && walk.start_at_likely(likely, key, each)?
        {
            return Ok(walk.pages);
        }
        if let Some(root) = shape.root() {
            walk.start_at_page(root, wanted, each)?;
        }
        Ok(walk.pages)
    }

    fn likely_page(&self, key: &Wanted) -> Option<Likely> {
        let (shape, spread) = (self.shape.as_ref()?, self.spread()?);
        let level = shape.guess_level(&spread)?;
        let page = shape.likely_page(level, &spread, key.start)?;
        Some(if level == 0 { Likely::Data(page) } else { Likely::Fence(page) })
    }

    /// How its numbers are spread. Those of [`VALUE_KEY`] are consecutive in nearly all maps, and take no room.
    fn spread(&self) -> Option<EvenSpread> {
        let (pairs, part) = (u64::from(self.segment.map()?.pairs), self.segment.key_part);
        let of_values = if part.has(VALUE_KEY) { self.coding.ranges().into() } else { 0 };
        Some(EvenSpread { of: part.numbers(self.coding), numbers: pairs.saturating_sub(of_values) })
    }

    /// Prefetches the data page that is likely to have a key, if there is one. Returns whether it is cached. Fence
    /// pages are nearly always cached.
    pub fn prefetch(&self, key: u64) -> Option<bool> {
        let page = match self.likely_page(&self.coding.numbers_of(key)) {
            Some(Likely::Data(page)) => page,
            Some(Likely::Fence(_)) => return None,
            None => self.shape.as_ref().filter(|shape| shape.data_pages() == 1).map(|_| 0)?,
        };
        Some(page::prefetch(self.index, self.segment.first_block + page))
    }

    /// Number of pages that the lookup of one key is likely to read.
    pub fn likely_pages_of_key(&self) -> u64 {
        let level =
            self.shape.as_ref().zip(self.spread()).and_then(|(shape, spread)| shape.guess_level(&spread));
        level.map_or_else(|| self.pages_of_key(), |level| u64::from(level) + 1)
    }

    /// Number of pages that the lookup of one key reads from the root on, if all of its numbers are on one data page.
    pub fn pages_of_key(&self) -> u64 {
        self.shape.as_ref().map_or(0, |shape| u64::from(shape.levels()) + 1)
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

    /// For each key the number of the entry of a fence page that leads to it.
    fn fence_entries(&self, page: u32, wanted: &[Wanted]) -> Fetch<Vec<usize>> {
        if let [key] = wanted {
            return Ok(vec![self.fence_entry(page, key)?.0]);
        }
        let all =
            |bytes: &[u8]| wanted.iter().map(|key| fence_entry(bytes, key.start)).collect::<Result<_, _>>();
        self.read(page, all)?.map_err(|what: Malformed| self.malformed(page, &what).into())
    }

    /// The number of the entry of a fence page that leads to a key, and whether it does so even if the page was
    /// guessed. Only the quarters of the page that it needs are read and verified.
    fn fence_entry(&self, page: u32, key: &Wanted) -> Fetch<(usize, bool)> {
        let malformed = |what: Malformed| Miss::from(self.malformed(page, &what));
        let shared = PinnedPage::read(self.index, self.segment.first_block + page).lock();
        let head = segment::part_of(&shared, &self.segment, page, 0..HEAD_BYTES)?;
        let head = FenceHead::parse(head).map_err(malformed)?;
        let bytes = segment::part_of(&shared, &self.segment, page, head.bytes(key.start))?;
        let entry = head.entry(bytes, key.start).map_err(malformed)?;
        Ok((entry, head.encloses(key.start, entry)))
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
            let child = self.child(page, same[0])?;
            self.start_at_page(child, keys, each)?;
        }
        Ok(())
    }

    fn child(&self, page: u32, entry: usize) -> Fetch<u32> {
        let child = self.shape.child(page, entry);
        Ok(child.ok_or_else(|| self.map.damage(page, "a fence page leads to no page"))?)
    }

    /// Looks up one key from the page on that is likely to lead to it. False, and nothing was found, if it does not.
    fn start_at_likely(
        &mut self,
        likely: Likely,
        key: &Wanted,
        each: &mut impl FnMut(&Wanted, Range<u64>),
    ) -> Fetch<bool> {
        let wanted = std::slice::from_ref(key);
        let page = match likely {
            Likely::Data(page) => page,
            Likely::Fence(page) => {
                self.pages += 1;
                let (entry, is_certain) = self.map.fence_entry(page, key)?;
                if is_certain {
                    let child = self.child(page, entry)?;
                    self.start_at_page(child, wanted, each)?;
                }
                return Ok(is_certain);
            }
        };
        let mut last = 0;
        let start = Guess::new(self.shape, page).find(|page| {
            self.pages += 1;
            let side;
            (side, last) = self.data_page(page, wanted, Trust::Guessed, each)?;
            Ok::<_, Miss>(side)
        })?;
        match start {
            Start::Here(page) if key.end <= last.saturating_add(1) || page + 1 >= self.shape.data_pages() => {
            }
            Start::Here(page) => self.data(page + 1, wanted, each)?,
            Start::At(page) => self.data(page, wanted, each)?,
            Start::Nowhere => {}
            Start::Root => return Ok(false),
        }
        Ok(true)
    }

    fn start_at_page(
        &mut self,
        page: u32,
        wanted: &[Wanted],
        each: &mut impl FnMut(&Wanted, Range<u64>),
    ) -> Fetch<()> {
        if self.shape.is_fence(page) { self.fence(page, wanted, each) } else { self.data(page, wanted, each) }
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
            let (_, last) = self.data_page(page, wanted, Trust::Found, each)?;
            page += 1;
            // Keys are sorted: those whose numbers may continue behind this page are the last ones.
            let done = wanted.partition_point(|key| key.end <= last.saturating_add(1));
            wanted = &wanted[done..];
            if wanted.is_empty() || page >= self.shape.data_pages() {
                return Ok(());
            }
        }
    }

    /// Looks up keys in a data page; in a guessed page only if the lookup starts there. Returns on which side of the
    /// page the lookup of the first key starts, and the page's last number.
    fn data_page(
        &self,
        page: u32,
        wanted: &[Wanted],
        trust: Trust,
        each: &mut impl FnMut(&Wanted, Range<u64>),
    ) -> Fetch<(Side, u64)> {
        let map = self.map;
        let malformed = |what: Malformed| Miss::from(map.malformed(page, &what));
        // For a single key only the quarters that it needs are read and verified. Several keys need most of the page.
        let checked = if wanted.len() > 1 { PAGE_BYTES } else { HEAD_BYTES };
        let pinned = PinnedPage::read(map.index, map.segment.first_block + page);
        let shared = pinned.lock();
        let bytes = segment::part_of(&shared, &map.segment, page, 0..checked)?;
        let head = Head::parse(&bytes[..HEAD_BYTES]).map_err(malformed)?;
        let side = wanted.first().map_or(Side::Here, |key| head.side_of(key.start));
        if trust == Trust::Guessed && side != Side::Here {
            return Ok((side, head.last()));
        }
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
        Ok((side, head.last()))
    }
}
