//! Writing maps.
//!
//! The pages of a map are gathered, so that as many blocks are reserved as it needs; then they are written and
//! published. A build, when no other process adds blocks to the index, appends them one by one instead. If a map is
//! divided by key, it becomes several segments, which are written and published one after the other.

use super::coding;
use crate::pages::directory::Directory;
use crate::pages::entry::{MapSize, Segment, SegmentKind};
use crate::pages::meta::{self, MapForm};
use crate::pages::segment;
use crate::pg::page;
use crate::pg::temp_file::TempFile;
use crate::pg::{Damage, Rel, error::IndexResult, memory};
use skip_map::key_part::KeyPart;
use skip_map::{Coding, PAGE_BYTES, Page, RunWriter};

/// The column, ranges and keys of a new map, and how it is written.
#[derive(Clone, Copy)]
pub struct NewMap {
    pub column: u16,
    pub first_range: u32,
    pub width: u32,
    pub form: MapForm,
    pub is_addition: bool,
    /// The keys that it has.
    pub key_part: KeyPart,
    /// The depth of the key parts that it is divided into, each a segment of its own; at least that of `key_part`.
    pub depth: u8,
    /// Of a map that is divided or is a part itself: the block from which on it should lie.
    pub from: u32,
    /// Whether no other process adds blocks to the index: pages are then appended to it.
    pub is_build: bool,
}

impl NewMap {
    /// The key parts that it is divided into.
    fn key_parts(&self) -> Vec<KeyPart> {
        let is_inside = |part: &KeyPart| self.key_part.keys().contains(part.keys());
        KeyPart::all(self.depth).filter(is_inside).collect()
    }

    fn kind(&self, pairs: u64) -> SegmentKind {
        let size = MapSize { form: self.form, pairs: u32::try_from(pairs).unwrap_or(u32::MAX) };
        if self.is_addition { SegmentKind::Addition(size) } else { SegmentKind::Map(size) }
    }
}

/// Takes the finished pages of a map, one key part behind the other, and publishes the parts.
pub struct PartsWriter<'d, 'a> {
    directory: &'d mut Directory<'a>,
    new: NewMap,
    /// The key parts that come after that which is being written.
    rest: std::vec::IntoIter<KeyPart>,
    /// The part that is being written. Its first block is known in a build only.
    segment: Segment,
    pages: NewPages,
}

impl<'d, 'a> PartsWriter<'d, 'a> {
    /// A writer of a map.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn new(directory: &'d mut Directory<'a>, new: NewMap) -> IndexResult<Self> {
        let mut rest = new.key_parts().into_iter();
        let index = directory.index();
        let segment = Segment {
            column: new.column,
            first_range: new.first_range,
            width: new.width,
            key_part: rest.next().unwrap_or(new.key_part),
            kind: new.kind(0),
            first_block: index.blocks(),
            blocks: 0,
            id: meta::take_segment_id(index)?,
        };
        Ok(Self { directory, new, rest, segment, pages: NewPages::of(&new) })
    }

    /// Adds a page to the part that is being written.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn put(&mut self, page: &Page) -> IndexResult<()> {
        self.pages.put(self.directory.index(), &self.segment, page)
    }

    /// Publishes the part that is being written, whose pages have this number of numbers, and begins the next one.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn end_part(&mut self, numbers: u64) -> IndexResult<()> {
        let next = match self.rest.next() {
            Some(key_part) => {
                let id = meta::take_segment_id(self.directory.index())?;
                Some(Segment { key_part, id, ..self.segment })
            }
            None => None,
        };
        let pages = std::mem::replace(&mut self.pages, NewPages::of(&self.new));
        self.publish(pages, numbers)?;
        if let Some(next) = next {
            // In a build, the directory may have taken a block.
            self.segment = Segment { first_block: self.directory.index().blocks(), ..next };
        }
        Ok(())
    }

    fn publish(&mut self, pages: NewPages, numbers: u64) -> IndexResult<()> {
        let Self { directory, new, .. } = self;
        let index = directory.index();
        let mut segment = Segment { kind: new.kind(numbers), blocks: pages.count(), ..self.segment };
        if segment.blocks == 0 {
            segment.first_block = 0; // a map without pages has no place
        } else if !new.is_build {
            segment.first_block = match segment.key_part.is_whole() {
                true => directory.allocate(segment.blocks)?,
                false => directory.allocate_from(segment.blocks, new.from)?,
            };
            pages.write(index, &segment);
            new.from = segment.first_block + segment.blocks;
        }
        directory.publish(segment)
    }
}

/// Writes a map. Its numbers are pushed in ascending order.
pub struct MapWriter<'d, 'a> {
    parts: PartsWriter<'d, 'a>,
    run: RunWriter,
    coding: Coding,
    /// All numbers of the part that is being written are below this.
    end: u64,
}

impl<'d, 'a> MapWriter<'d, 'a> {
    /// A writer of a map.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn new(directory: &'d mut Directory<'a>, new: NewMap) -> IndexResult<Self> {
        let parts = PartsWriter::new(directory, new)?;
        let coding = coding(new.form, new.width)?;
        let mut writer = Self { parts, run: RunWriter::new(), coding, end: 0 };
        writer.end = writer.end_of_part();
        Ok(writer)
    }

    fn is_last_part(&self) -> bool {
        self.parts.rest.as_slice().is_empty()
    }

    fn end_of_part(&self) -> u64 {
        if self.is_last_part() { u64::MAX } else { self.parts.segment.key_part.numbers(self.coding).end }
    }

    /// Adds a number.
    ///
    /// # Errors
    /// Damage to the index.
    #[inline]
    pub fn push(&mut self, number: u64) -> IndexResult<()> {
        while number >= self.end {
            self.end_part()?;
        }
        self.run.push(number, &mut |page| self.parts.put(page))
    }

    /// Adds ascending numbers.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn push_all(&mut self, mut numbers: &[u64]) -> IndexResult<()> {
        loop {
            let (its, others) = numbers.split_at(numbers.partition_point(|&number| number < self.end));
            self.run.push_all(its, &mut |page| self.parts.put(page))?;
            if others.is_empty() {
                return Ok(());
            }
            self.end_part()?;
            numbers = others;
        }
    }

    /// Writes the last pages of the part that is being written, and begins the next one.
    fn end_part(&mut self) -> IndexResult<()> {
        let run = std::mem::take(&mut self.run);
        let written = run.finish(&mut |page| self.parts.put(page))?;
        self.parts.end_part(written.numbers)?;
        self.end = self.end_of_part();
        Ok(())
    }

    /// Writes the last pages and publishes the map.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn finish(mut self) -> IndexResult<()> {
        while !self.is_last_part() {
            self.end_part()?;
        }
        self.end_part()
    }
}

/// The most pages of a segment that are kept in memory, 8 MB; further ones are in a temporary file.
const MOST_IN_MEMORY: usize = 1024;

/// The pages of a segment that is being written.
enum NewPages {
    /// Written to the end of the index.
    Appended { count: u32 },
    /// Not written yet.
    Gathered { first: Vec<Box<Page>>, rest: TempFile, count: u32 },
}

impl NewPages {
    fn of(new: &NewMap) -> Self {
        match new.is_build {
            true => Self::Appended { count: 0 },
            false => Self::Gathered { first: Vec::new(), rest: TempFile::default(), count: 0 },
        }
    }

    fn count(&self) -> u32 {
        match *self {
            Self::Appended { count, .. } | Self::Gathered { count, .. } => count,
        }
    }

    fn put(&mut self, index: Rel, segment: &Segment, page: &Page) -> IndexResult<()> {
        memory::check_for_interrupts();
        match self {
            Self::Appended { count } => {
                if page::extend(index, 1) != segment.first_block + *count {
                    return Err(Damage::new(
                        segment.first_block,
                        "another process adds blocks to a new index",
                    ));
                }
                segment::write_page(index, segment, *count, |out| out.copy_from_slice(page));
                *count += 1;
            }
            Self::Gathered { first, rest, count } => {
                match first.len() < MOST_IN_MEMORY {
                    true => first.push(Box::new(*page)),
                    false => rest.write(place_in_rest(*count), page),
                }
                *count += 1;
            }
        }
        Ok(())
    }

    /// Writes the pages that are gathered.
    fn write(self, index: Rel, segment: &Segment) {
        let Self::Gathered { first, mut rest, count } = self else { return };
        for number in 0..count {
            memory::check_for_interrupts();
            segment::write_page(index, segment, number, |out| match first.get(number as usize) {
                Some(page) => out.copy_from_slice(&page[..]),
                None => rest.read(place_in_rest(number), out),
            });
        }
    }
}

fn place_in_rest(number: u32) -> u64 {
    (u64::from(number) - MOST_IN_MEMORY as u64) * PAGE_BYTES as u64
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
    ranges: (u32, u32),
    numbers: &[u64],
) -> IndexResult<()> {
    let mut writer = addition(directory, column, form, ranges)?;
    numbers.iter().try_for_each(|&number| writer.push(number))?;
    writer.finish()
}

/// Begins an addition, as [`add`] publishes it.
///
/// # Errors
/// Damage to the index.
pub fn addition<'d, 'a>(
    directory: &'d mut Directory<'a>,
    column: u16,
    form: MapForm,
    (first_range, width): (u32, u32),
) -> IndexResult<MapWriter<'d, 'a>> {
    let new = NewMap {
        column,
        first_range,
        width,
        form,
        is_addition: true,
        key_part: KeyPart::WHOLE,
        depth: 0,
        from: 0,
        is_build: false,
    };
    MapWriter::new(directory, new)
}
