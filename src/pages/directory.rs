//! The directory: which segments are live, which blocks are free.
//!
//! A chain of pages of unordered 32-byte entries. Each change is one entry of one page, so one WAL record.
//! Readers need no picture of all pages at one moment:
//!
//! - a range without an entry has no filter and matches;
//! - a range with two entries (a merge between its two steps) has two right filters, and either will do;
//! - an entry whose blocks were recycled is found out at the first page read ([`super::segment`]).
//!
//! A segment's entry is published after its pages were written. Until then its blocks are reserved; what is still
//! reserved when the next maintenance starts was left by one that was cut off, and becomes free again. An entry
//! becomes free space in place, so blocks are not in two places when a crash comes between.
//!
//! Only the holder of the maintenance lock changes the directory.
//!
//! ```text
//! page:  0 next directory block u32 | 4 entries u32 | 8 entries of 32 bytes
//! entry: 0 kind u8 (0 empty, 1 segment, 2 free extent, 3 reserved) | 1 hashes u8 | 2 column u16 | 4 first range u32
//!        8 width u32 | 12 filter bits u32 | 16 first block u32 | 20 blocks u32 | 24 segment id u64
//! ```

use super::delta::spare_page;
use super::meta::{self, Meta};
use crate::pg::{
    Damage, Rel,
    error::Read,
    page::{self, KnownBlocks, SharedPage},
    wal::{self, Logging, PageEdit},
};
use skip_segment::SegmentShape;
use skip_segment::page::{NO_BLOCK, PageImage, PageKind, PageView, SLICE_BYTES, get_u16, get_u32, get_u64};
use skip_segment::spans::Span;

const ENTRIES_AT: usize = 8;
const ENTRY_BYTES: usize = 32;
/// Entries that a page holds: (8144 - 8) / 32.
pub const ENTRIES_PER_PAGE: usize =
    (skip_segment::page::PAYLOAD_END - skip_segment::page::PAYLOAD_START - ENTRIES_AT) / ENTRY_BYTES;

/// A live segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// 0-based index column.
    pub column: u16,
    /// First block range covered.
    pub first_range: u32,
    /// Ranges covered.
    pub width: u32,
    /// Bits of each range's filter (m).
    pub filter_bits: u32,
    /// Probes per key (k).
    pub num_probes: u8,
    /// First index block.
    pub first_block: u32,
    /// Index blocks.
    pub blocks: u32,
    /// Unique for the life of the index.
    pub id: u64,
}

impl Segment {
    /// The first range behind the segment.
    pub fn end_range(&self) -> u32 {
        self.first_range.saturating_add(self.width)
    }

    /// What it covers.
    pub fn span(&self) -> Span {
        let Self { first_range, width, filter_bits, num_probes, .. } = *self;
        Span { first_range, width, filter_bits, num_probes }
    }

    /// How the slices lie on the pages.
    ///
    /// # Errors
    /// A directory entry that cannot be: as damage to the segment's first block.
    pub fn shape(&self) -> Read<SegmentShape> {
        SegmentShape::new(self.width, self.filter_bits, SLICE_BYTES)
            .filter(|shape| shape.pages() == self.blocks)
            .ok_or_else(|| Damage::new(self.first_block, "the directory describes an invalid segment"))
    }
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Empty,
    Segment(Segment),
    Free {
        first_block: u32,
        blocks: u32,
    },
    /// Allocated for a segment that is being written.
    Reserved {
        first_block: u32,
        blocks: u32,
    },
}

impl Entry {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (first_block, blocks) = (get_u32(bytes, 16), get_u32(bytes, 20));
        match bytes[0] {
            0 => Some(Entry::Empty),
            1 => Some(Entry::Segment(Segment {
                column: get_u16(bytes, 2),
                first_range: get_u32(bytes, 4),
                width: get_u32(bytes, 8),
                filter_bits: get_u32(bytes, 12),
                num_probes: bytes[1],
                first_block,
                blocks,
                id: get_u64(bytes, 24),
            })),
            2 => Some(Entry::Free { first_block, blocks }),
            3 => Some(Entry::Reserved { first_block, blocks }),
            _ => None,
        }
    }

    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut b = [0u8; ENTRY_BYTES];
        match *self {
            Entry::Empty => {}
            Entry::Segment(s) => {
                (b[0], b[1]) = (1, s.num_probes);
                b[2..4].copy_from_slice(&s.column.to_le_bytes());
                b[4..8].copy_from_slice(&s.first_range.to_le_bytes());
                b[8..12].copy_from_slice(&s.width.to_le_bytes());
                b[12..16].copy_from_slice(&s.filter_bits.to_le_bytes());
                b[16..20].copy_from_slice(&s.first_block.to_le_bytes());
                b[20..24].copy_from_slice(&s.blocks.to_le_bytes());
                b[24..].copy_from_slice(&s.id.to_le_bytes());
            }
            Entry::Free { first_block, blocks } | Entry::Reserved { first_block, blocks } => {
                b[0] = if matches!(self, Entry::Free { .. }) { 2 } else { 3 };
                b[16..20].copy_from_slice(&first_block.to_le_bytes());
                b[20..24].copy_from_slice(&blocks.to_le_bytes());
            }
        }
        b
    }
}

/// An empty directory page.
pub fn empty_page(place: u32) -> PageImage {
    let mut image = PageImage::fresh(PageKind::Directory, 0, place);
    image.put(0, &NO_BLOCK.to_le_bytes());
    image.put(4, &0u32.to_le_bytes());
    image
}

/// Calls `each` with every entry's page, slot and contents, and `visit` with every page's block.
fn walk(
    index: Rel,
    first: u32,
    mut each: impl FnMut(u32, usize, Entry),
    mut visit: impl FnMut(u32),
) -> Read<()> {
    let mut known = KnownBlocks::new(index);
    let mut block = first;
    let mut place = 0;
    while block != NO_BLOCK {
        visit(block);
        known.check(block.saturating_add(1))?;
        let page = SharedPage::read(index, block);
        let view = page.view(PageKind::Directory)?;
        if view.place() != place {
            return Err(Damage::new(block, "the chain of directory pages is broken"));
        }
        for (slot, entry) in entries(&view, block)?.enumerate() {
            let entry = entry.ok_or_else(|| Damage::new(block, "a directory entry has an unknown kind"))?;
            each(block, slot, entry);
        }
        block = get_u32(view.payload(), 0);
        place += 1;
    }
    Ok(())
}

fn entries<'a>(view: &PageView<'a>, block: u32) -> Read<impl Iterator<Item = Option<Entry>> + use<'a>> {
    let payload = view.payload();
    let count = get_u32(payload, 4) as usize;
    if payload.len() < ENTRIES_AT + count * ENTRY_BYTES {
        return Err(Damage::new(block, "the directory page counts more entries than it holds"));
    }
    Ok(payload[ENTRIES_AT..ENTRIES_AT + count * ENTRY_BYTES].chunks_exact(ENTRY_BYTES).map(Entry::decode))
}

/// The live segments of the columns that `wanted` accepts, by column and first range; of two that overlap
/// (a merge was under way) the one that reaches further stays.
///
/// # Errors
/// Damage to a directory page.
pub fn segments(index: Rel, meta: &Meta, wanted: impl Fn(u16) -> bool) -> Read<Vec<Segment>> {
    let mut found = Vec::new();
    let collect = |_, _, entry| match entry {
        Entry::Segment(s) if wanted(s.column) => found.push(s),
        _ => {}
    };
    walk(meta.bind(index), meta.directory, collect, |_| ())?;
    check_extents(index, &found)?;
    found.sort_unstable_by_key(|s| (s.column, s.first_range, std::cmp::Reverse(s.width)));
    let mut covered: Option<(u16, u32)> = None;
    found.retain(|s| {
        let inside = covered.is_some_and(|(column, end)| s.column == column && s.end_range() <= end);
        if !inside {
            covered = Some((s.column, s.end_range()));
        }
        !inside
    });
    Ok(found)
}

/// Checks that the segments' blocks exist.
fn check_extents<'a>(index: Rel, segments: impl IntoIterator<Item = &'a Segment>) -> Read<()> {
    let mut known = KnownBlocks::new(index);
    segments.into_iter().try_for_each(|s| known.check(s.first_block.saturating_add(s.blocks)))
}

/// The directory in the hands of the maintenance lock's holder.
pub struct Directory<'a> {
    index: Rel<'a>,
    slots: Vec<(u32, usize, Entry)>,
    pages: Vec<u32>,
}

impl<'a> Directory<'a> {
    /// Reads all of it.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn load(index: Rel<'a>, meta: &Meta) -> Read<Self> {
        let index = meta.bind(index);
        let mut slots = Vec::new();
        let mut pages = Vec::new();
        walk(
            index,
            meta.directory,
            |block, slot, entry| slots.push((block, slot, entry)),
            |block| pages.push(block),
        )?;
        let directory = Self { index, slots, pages };
        check_extents(index, &directory.all_segments().collect::<Vec<_>>())?;
        Ok(directory)
    }

    /// The live segments of a column by first range, overlapping ones included.
    pub fn segments(&self, column: u16) -> Vec<Segment> {
        let mut found: Vec<Segment> = self.all_segments().filter(|s| s.column == column).collect();
        found.sort_unstable_by_key(|s| (s.first_range, s.id));
        found
    }

    /// All live segments, in no order.
    pub fn all_segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.slots.iter().filter_map(|(_, _, entry)| match entry {
            Entry::Segment(s) => Some(*s),
            _ => None,
        })
    }

    /// The free extents as (first block, blocks).
    pub fn free_extents(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.slots.iter().filter_map(|(_, _, entry)| match entry {
            Entry::Free { first_block, blocks } => Some((*first_block, *blocks)),
            _ => None,
        })
    }

    /// The index, bound to its seed.
    pub fn index(&self) -> Rel<'a> {
        self.index
    }

    /// The directory's own pages.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Reserves blocks in one piece: from the free extents, else from the end of the relation. The first extent that
    /// is big enough is taken.
    ///
    /// # Errors
    /// Damage to a directory page or the meta page.
    pub fn allocate(&mut self, blocks: u32) -> Read<u32> {
        let fitting = self.slots.iter().enumerate().find_map(|(at, (_, _, entry))| match *entry {
            Entry::Free { first_block, blocks: have } if have >= blocks => Some((at, first_block, have)),
            _ => None,
        });
        let Some((at, first_block, have)) = fitting else {
            let first_block = page::extend(self.index, blocks);
            self.log_extension(first_block + blocks - 1);
            self.add(Entry::Reserved { first_block, blocks })?;
            return Ok(first_block);
        };
        // A reader may still go by a directory in which these blocks are a segment: it must be able to tell.
        meta::update(self.index, |meta| meta.generation += 1)?;
        if have == blocks {
            self.replace(at, Entry::Reserved { first_block, blocks })?;
        } else {
            self.replace(at, Entry::Free { first_block: first_block + blocks, blocks: have - blocks })?;
            self.add(Entry::Reserved { first_block, blocks })?;
        }
        Ok(first_block)
    }

    /// Has WAL know how long the file is, before an entry names blocks at its end. Adding blocks is not in WAL: on a
    /// standby, or after a crash, the file would end before them, and what next adds a block to it, an insert for the
    /// delta, would get one that the directory gives to a segment as well.
    fn log_extension(&self, last_block: u32) {
        wal::write_page(self.index, last_block, spare_page(NO_BLOCK), Logging::EachPage);
    }

    /// Publishes a segment whose pages are written, in the place of its reservation.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn publish(&mut self, segment: Segment) -> Read<()> {
        let reserved = |entry: &Entry| matches!(entry, Entry::Reserved { first_block, .. } if *first_block == segment.first_block);
        match self.slots.iter().position(|(_, _, entry)| reserved(entry)) {
            Some(at) => self.replace(at, Entry::Segment(segment)),
            None => self.add(Entry::Segment(segment)),
        }
    }

    /// Frees what a maintenance that was cut off had reserved.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn free_reserved(&mut self) -> Read<()> {
        for at in 0..self.slots.len() {
            if let Entry::Reserved { first_block, blocks } = self.slots[at].2 {
                self.replace(at, Entry::Free { first_block, blocks })?;
            }
        }
        Ok(())
    }

    /// Takes segments out of the directory and gives their blocks to the free extents, then raises the generation, so
    /// that inserts look at the directory again.
    ///
    /// # Errors
    /// Damage to a directory page or the meta page.
    pub fn retire(&mut self, ids: &[u64]) -> Read<()> {
        let mut freed = Vec::new();
        for at in 0..self.slots.len() {
            if let Entry::Segment(s) = self.slots[at].2
                && ids.contains(&s.id)
            {
                self.replace(at, Entry::Free { first_block: s.first_block, blocks: s.blocks })?;
                freed.push(at);
            }
        }
        if !freed.is_empty() {
            meta::update(self.index, |meta| meta.generation += 1)?;
            self.join_free_extents()?;
        }
        Ok(())
    }

    /// Joins free extents that lie side by side, so that big segments find room.
    fn join_free_extents(&mut self) -> Read<()> {
        let mut free: Vec<(u32, u32, usize)> = Vec::new();
        for (at, (_, _, entry)) in self.slots.iter().enumerate() {
            if let Entry::Free { first_block, blocks } = entry {
                free.push((*first_block, *blocks, at));
            }
        }
        free.sort_unstable();
        let mut grown: Option<(u32, u32, usize)> = None;
        for (first, blocks, at) in free {
            match grown {
                Some((start, have, into)) if start + have == first => {
                    // The swallowed entry goes first: a crash between the two loses blocks, never doubles them.
                    self.replace(at, Entry::Empty)?;
                    self.replace(into, Entry::Free { first_block: start, blocks: have + blocks })?;
                    grown = Some((start, have + blocks, into));
                }
                _ => grown = Some((first, blocks, at)),
            }
        }
        Ok(())
    }

    fn replace(&mut self, at: usize, entry: Entry) -> Read<()> {
        let (block, slot, _) = self.slots[at];
        let mut edit = PageEdit::start(self.index, block, PageKind::Directory)?;
        edit.image().put(ENTRIES_AT + slot * ENTRY_BYTES, &entry.encode());
        edit.commit();
        self.slots[at].2 = entry;
        Ok(())
    }

    fn add(&mut self, entry: Entry) -> Read<()> {
        if let Some(at) = self.slots.iter().position(|(_, _, e)| *e == Entry::Empty) {
            return self.replace(at, entry);
        }
        let Some(&last) = self.pages.last() else {
            return Err(Damage::new(meta::META_BLOCK, "the index has no directory"));
        };
        let mut edit = PageEdit::start(self.index, last, PageKind::Directory)?;
        let slot = get_u32(edit.before()?.payload(), 4) as usize;
        if slot < ENTRIES_PER_PAGE {
            edit.image().put(ENTRIES_AT + slot * ENTRY_BYTES, &entry.encode());
            edit.image().put(4, &(slot as u32 + 1).to_le_bytes());
            edit.commit();
            self.slots.push((last, slot, entry));
            return Ok(());
        }
        drop(edit);
        self.add_page(last)?;
        self.add(entry)
    }

    /// The new page is written before the chain leads to it.
    fn add_page(&mut self, last: u32) -> Read<()> {
        let block = page::extend(self.index, 1);
        wal::write_page(self.index, block, empty_page(self.pages.len() as u32), Logging::EachPage);
        let mut edit = PageEdit::start(self.index, last, PageKind::Directory)?;
        edit.image().put(0, &block.to_le_bytes());
        edit.commit();
        self.pages.push(block);
        Ok(())
    }
}
