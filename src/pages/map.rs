//! Map segments: for each key the ranges that may hold it.
//!
//! A map is a *run* of the crate [`skip_map`]: the sorted numbers of all distinct pairs of a key's fingerprint and a
//! block range. Its pages have the same frame and the same checks as those of filters ([`super::segment`]). A lookup
//! goes from the root fence page down to a data page, and reads the few blocks there that may hold numbers of its key.
//! NULL and "has a value" are keys of their own. What a pair names is a part of a range, if the column's ranges are
//! divided ([`super::meta`]), else a whole range.
//!
//! A map never changes. Pairs that come into its ranges afterwards are published as *additions*, maps of their own that
//! only add to the answer. Ranges that could not be hashed are *open stretches* of the directory, which match every
//! lookup. So the answer of a column is spread over several entries of the directory, and a reader must not see only a
//! part of a change:
//!
//! - an entry is taken out only after its replacement was published and the generation was raised;
//! - a segment is published only after its open stretches were published and the generation was raised;
//! - a reader uses what it found in the directory only if the generation did not rise meanwhile
//!   ([`super::directory::live`]).
//!
//! A reader may miss an entry because it had already passed the entry's slot when the entry was published. If it also
//! misses what the entry replaces, the generation was raised while it read.

use super::directory::Directory;
use super::entry::{MapSize, Segment, SegmentKind};
use super::meta::{self, MapForm};
use super::miss::{Fetch, Miss};
use super::segment;
use crate::pg::page::{self, PinnedPage};
use crate::pg::{Damage, Rel, error::Read, memory, wal::Logging};
use skip_map::{
    Coding, FenceHead, HEAD_BYTES, Head, Malformed, PAGE_BYTES, Page, RunShape, RunWriter, check_fence,
    fence_entry, read_page,
};
use std::ops::Range;

/// The key for NULL, and [`VALUE_KEY`] for "has a value". A value whose hash is one of them makes a superfluous range
/// match, but loses none.
pub const NULL_KEY: u64 = u64::from_le_bytes(*b"NULL\0\0\0\0");
pub const VALUE_KEY: u64 = u64::from_le_bytes(*b"VALUE\0\0\0");

/// How the pairs of a stretch of `width` ranges are coded as numbers.
///
/// # Errors
/// The meta page has an invalid number of fingerprint bits, or the stretch is too wide for it.
pub fn coding(form: MapForm, width: u32) -> Read<Coding> {
    let what = "a map with an invalid number of fingerprint bits was requested";
    Coding::new(form.fingerprint_bits, parts_of(form, width))
        .ok_or_else(|| Damage::new(meta::META_BLOCK, what))
}

/// Number of parts of `width` ranges. A table has fewer blocks, and so fewer parts, than `u32::MAX`, though its last
/// range may have more.
fn parts_of(form: MapForm, width: u32) -> u32 {
    width.saturating_mul(form.parts)
}

/// A map, for reading.
pub struct Map<'a> {
    index: Rel<'a>,
    segment: Segment,
    coding: Coding,
    /// None for a map without pairs, which has no pages.
    shape: Option<RunShape>,
}

/// The numbers that the pairs of a key may have.
type Wanted = Range<u64>;

impl<'a> Map<'a> {
    /// The map that a directory entry names.
    ///
    /// # Errors
    /// The directory entry is invalid: reported as damage to the segment's first block.
    pub fn of(index: Rel<'a>, segment: &Segment) -> Read<Self> {
        let impossible = || Damage::new(segment.first_block, "the directory describes an invalid map");
        let size = segment.map().ok_or_else(impossible)?;
        let coding = Coding::new(size.form.fingerprint_bits, parts_of(size.form, segment.width))
            .ok_or_else(impossible)?;
        let shape = match segment.blocks {
            0 => None,
            blocks => Some(RunShape::of_pages(blocks).ok_or_else(impossible)?),
        };
        Ok(Self { index, segment: *segment, coding, shape })
    }

    /// How its pairs are coded as numbers.
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// The first part that it covers, counted from the table's first one.
    pub fn first_part(&self) -> u64 {
        self.segment.part_span().start
    }

    /// Number of pairs in the map. If it is more than the directory can store, the pairs are counted.
    ///
    /// # Errors
    /// As [`Map::look_up`].
    pub fn pairs(&self) -> Fetch<u64> {
        let known = self.segment.map().map_or(0, |size| size.pairs);
        if known < u32::MAX {
            return Ok(known.into());
        }
        self.numbers().try_fold(0, |count, number| number.map(|_| count + 1))
    }

    /// Number of pages that the lookup of one key reads.
    pub fn pages_of_key(&self) -> u64 {
        self.shape.as_ref().map_or(0, |shape| u64::from(shape.levels()) + 1)
    }

    /// Calls `each` with spans of parts that may hold one of the keys: the first part, and the first one behind the
    /// span, counted from the table's first part. Returns the number of pages read.
    ///
    /// # Errors
    /// Damage, or a page that does not belong to the segment any more.
    pub fn look_up(&self, keys: &[u64], mut each: impl FnMut(u64, u64)) -> Fetch<u64> {
        let mut wanted: Vec<Wanted> = keys.iter().map(|&key| self.coding.numbers_of(key)).collect();
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
        let Some(shape) = &self.shape else { return Ok(0) };
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
        if part >= self.coding.ranges() {
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

    /// Number of its data pages.
    pub fn data_pages(&self) -> u32 {
        self.shape.as_ref().map_or(0, RunShape::data_pages)
    }

    /// Calls `each` with the numbers on one of its data pages, in spans.
    ///
    /// # Errors
    /// As [`Map::look_up`].
    pub fn numbers_of_page(&self, page: u32, each: impl FnMut(Range<u64>)) -> Fetch<()> {
        self.read_data(page, each)
    }

    /// All numbers, ascending. Every page that is read is verified as a whole.
    pub fn numbers(&self) -> Numbers<'_, 'a> {
        Numbers { map: self, page: 0, spans: Vec::new().into_iter(), current: 0..0 }
    }

    /// The numbers from the page on that may have this one, ascending.
    ///
    /// # Errors
    /// As [`Map::look_up`].
    pub fn numbers_from(&self, number: u64) -> Fetch<Numbers<'_, 'a>> {
        let mut page = self.shape.as_ref().and_then(RunShape::root).unwrap_or(0);
        while let Some(shape) = self.shape.as_ref().filter(|shape| shape.is_fence(page)) {
            let entry = self.read(page, |bytes| fence_entry(bytes, number))?;
            let entry = entry.map_err(|what| self.malformed(page, &what))?;
            let child = shape.child(page, entry).filter(|&child| child < page);
            page = child.ok_or_else(|| self.damage(page, "a fence page leads to no page"))?;
        }
        Ok(Numbers { page, ..self.numbers() })
    }

    /// Checks the fence pages against the data pages, and that the data pages ascend.
    ///
    /// # Errors
    /// The first problem that was found.
    pub fn verify(&self) -> Fetch<()> {
        let counted = self.segment.map().map_or(0, |size| size.pairs);
        let Some(shape) = &self.shape else {
            let problem = || self.damage(0, "a map without pages has pairs, as the directory says").into();
            return if counted == 0 { Ok(()) } else { Err(problem()) };
        };
        let mut firsts = Vec::with_capacity(shape.data_pages() as usize);
        let mut last = None;
        let mut pairs = 0u64;
        for page in 0..shape.data_pages() {
            memory::check_for_interrupts();
            let (mut first, mut is_ascending) = (None, true);
            self.read_data(page, |numbers| {
                first = first.or(Some(numbers.start));
                is_ascending &= last.is_none_or(|last| last < numbers.start);
                last = Some(numbers.end.saturating_sub(1));
                pairs += numbers.end - numbers.start;
            })?;
            let Some(first) = first.filter(|_| is_ascending) else {
                return Err(self.damage(page, "the pages of a map are not in order").into());
            };
            firsts.push(first);
        }
        if u32::try_from(pairs).unwrap_or(u32::MAX) != counted {
            return Err(self.damage(0, "a map has another number of pairs than the directory says").into());
        }
        for page in shape.data_pages()..shape.pages() {
            memory::check_for_interrupts();
            let unfit = || self.damage(page, "a fence page of a map does not fit its pages");
            let children = shape.children(page).ok_or_else(unfit)?;
            let of = children.start as usize..children.end as usize;
            let below: Vec<Option<u64>> =
                firsts.get(of).unwrap_or_default().iter().copied().map(Some).collect();
            self.read(page, |bytes| check_fence(bytes, &below))?
                .map_err(|what| self.malformed(page, &what))?;
            firsts.push(below.first().copied().flatten().ok_or_else(unfit)?);
        }
        Ok(())
    }

    /// Calls `read` with a page, which is verified as a whole.
    fn read<R>(&self, page: u32, read: impl FnOnce(&[u8]) -> R) -> Fetch<R> {
        segment::read_part(self.index, &self.segment, page, 0..PAGE_BYTES, read)
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

    fn read_data(&self, page: u32, each: impl FnMut(Range<u64>)) -> Fetch<()> {
        let read = self.read(page, |bytes| read_page(bytes, each))?;
        read.map_err(|malformed| self.malformed(page, &malformed).into())
    }

    fn damage(&self, page: u32, what: &str) -> Damage {
        Damage::new(self.segment.first_block + page, what)
    }

    fn malformed(&self, page: u32, what: &Malformed) -> Damage {
        Damage::new(self.segment.first_block + page, what.to_string())
    }
}

/// Numbers that cannot be coded are an error in the code that makes them. The map is then not published.
impl From<Malformed> for Damage {
    fn from(malformed: Malformed) -> Self {
        Damage::new(meta::META_BLOCK, malformed.to_string())
    }
}

impl From<Malformed> for Miss {
    fn from(malformed: Malformed) -> Self {
        Miss::Damage(malformed.into())
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

/// The numbers of a map, read page by page.
pub struct Numbers<'m, 'a> {
    map: &'m Map<'a>,
    page: u32,
    spans: std::vec::IntoIter<Range<u64>>,
    current: Range<u64>,
}

impl Iterator for Numbers<'_, '_> {
    type Item = Fetch<u64>;

    fn next(&mut self) -> Option<Fetch<u64>> {
        loop {
            if let Some(number) = self.current.next() {
                return Some(Ok(number));
            }
            if let Some(span) = self.spans.next() {
                self.current = span;
                continue;
            }
            let pages = self.map.shape.as_ref().map_or(0, RunShape::data_pages);
            if self.page >= pages {
                return None;
            }
            memory::check_for_interrupts();
            let mut spans = Vec::new();
            if let Err(miss) = self.map.read_data(self.page, |numbers| spans.push(numbers)) {
                self.page = pages;
                return Some(Err(miss));
            }
            self.page += 1;
            self.spans = spans.into_iter();
        }
    }
}

/// The column and ranges of a new map, and how it is written.
#[derive(Clone, Copy)]
pub struct NewMap {
    pub column: u16,
    pub first_range: u32,
    pub width: u32,
    pub form: MapForm,
    pub is_addition: bool,
    /// Number of pages to reserve. None in a build, when no other process adds blocks to the index: pages are then
    /// added one by one.
    pub most_pages: Option<u32>,
    pub logging: Logging,
}

/// Writes a map. Its numbers are pushed in ascending order.
pub struct MapWriter<'d, 'a> {
    directory: &'d mut Directory<'a>,
    new: NewMap,
    segment: Segment,
    run: RunWriter,
    /// Number of pages written.
    pages: u32,
}

impl<'d, 'a> MapWriter<'d, 'a> {
    /// Reserves the pages for a map.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn new(directory: &'d mut Directory<'a>, new: NewMap) -> Read<Self> {
        let index = directory.index();
        let first_block = match new.most_pages {
            Some(0) => 0,
            Some(pages) => directory.allocate(pages)?,
            None => index.blocks(),
        };
        let size = MapSize { form: new.form, pairs: 0 };
        let segment = Segment {
            column: new.column,
            first_range: new.first_range,
            width: new.width,
            kind: if new.is_addition { SegmentKind::Addition(size) } else { SegmentKind::Map(size) },
            first_block,
            blocks: 0,
            id: meta::take_segment_id(index)?,
        };
        Ok(Self { directory, new, segment, run: RunWriter::new(), pages: 0 })
    }

    /// Adds a number.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn push(&mut self, number: u64) -> Read<()> {
        let Self { directory, new, segment, run, pages } = self;
        run.push(number, &mut |page| write(directory.index(), new, segment, pages, page))
    }

    /// Writes the last pages and publishes the map. Reserved pages that it does not need become free.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn finish(self) -> Read<Segment> {
        let Self { directory, new, mut segment, run, mut pages } = self;
        let index = directory.index();
        let written = run.finish(&mut |page| write(index, &new, &segment, &mut pages, page))?;
        let size = MapSize { form: new.form, pairs: u32::try_from(written.numbers).unwrap_or(u32::MAX) };
        segment.kind = if new.is_addition { SegmentKind::Addition(size) } else { SegmentKind::Map(size) };
        segment.blocks = pages;
        if pages == 0 && new.most_pages.is_none() {
            segment.first_block = 0;
        }
        directory.publish_part(segment, new.most_pages.unwrap_or(pages))?;
        Ok(segment)
    }
}

/// Publishes an addition of a column over `width` ranges from sorted, distinct numbers in their [`coding`], whose parts
/// are counted from that of `first_range`.
///
/// # Errors
/// Damage to the index.
pub fn add(
    directory: &mut Directory<'_>,
    column: u16,
    form: MapForm,
    (first_range, width): (u32, u32),
    numbers: &[u64],
) -> Read<()> {
    let new = NewMap {
        column,
        first_range,
        width,
        form,
        is_addition: true,
        most_pages: Some(skip_map::most_pages(coding(form, width)?, numbers.len() as u64)),
        logging: Logging::EachPage,
    };
    let mut writer = MapWriter::new(directory, new)?;
    numbers.iter().try_for_each(|&number| writer.push(number))?;
    writer.finish().map(|_| ())
}

fn write(index: Rel, new: &NewMap, segment: &Segment, pages: &mut u32, page: &Page) -> Read<()> {
    memory::check_for_interrupts();
    let has_room = match new.most_pages {
        Some(most) => *pages < most,
        None => page::extend(index, 1) == segment.first_block + *pages,
    };
    if !has_room {
        return Err(Damage::new(segment.first_block, "a map needs more pages than it can have"));
    }
    segment::write_page(index, segment, *pages, new.logging, |out| out.copy_from_slice(page));
    *pages += 1;
    Ok(())
}
