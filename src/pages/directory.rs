//! The directory: which segments are live, which blocks are free.
//!
//! A chain of pages of unordered 32-byte entries ([`super::entry`]). Each change affects one entry of one page, so it
//! is one WAL record. For columns with filters, readers need no consistent view of all pages:
//!
//! - a range without an entry has no filter and matches;
//! - a range with two entries (a merge between its two steps, or a rescan) has two correct filters, and either may be
//!   used;
//! - an entry whose blocks were recycled is detected when the first page is read ([`super::segment`]).
//!
//! For columns with maps, readers need a consistent view ([`super::map`] says why): the generation must not have risen
//! while the pages were read.
//!
//! A segment's entry is published after its pages were written. Until then its blocks are reserved. Blocks that are
//! still reserved when the next maintenance starts were left by an interrupted one, and become free again. Those of an
//! unfinished segment, which is written in steps, stay its own until it is published or abandoned. An entry is
//! turned into free space in place, so a crash never leaves blocks in two entries.
//!
//! Only the holder of the maintenance lock changes the directory.
//!
//! ```text
//! page: 0 next directory block u32 | 4 entries u32 | 8 entries of 32 bytes
//! ```

use super::delta::spare_page;
use super::entry::{ENTRY_BYTES, Entry, OpenStretch, Rescan, Segment, Unfinished};
use super::meta::{self, ColumnMeta, Meta, SegmentLayout};
use super::miss::{Fetch, Miss};
use crate::pg::{
    Damage, Rel,
    error::Read,
    page::{self, KnownBlocks, SharedPage},
    wal::{self, Logging, PageEdit},
};
use skip_segment::page::{NO_BLOCK, PageImage, PageKind, PageView, get_u32};
use std::cmp::Reverse;

const ENTRIES_AT: usize = 8;
/// Entries that a page holds: (8144 - 8) / 32.
pub const ENTRIES_PER_PAGE: usize =
    (skip_segment::page::PAYLOAD_END - skip_segment::page::PAYLOAD_START - ENTRIES_AT) / ENTRY_BYTES;

/// An empty directory page.
pub fn empty_page(place: u32) -> PageImage {
    let mut image = PageImage::fresh(PageKind::Directory, 0, place);
    image.put(0, &NO_BLOCK.to_le_bytes());
    image.put(4, &0u32.to_le_bytes());
    image
}

/// Calls `each` with the page, the slot and the contents of every entry, and `visit` with the block of every page.
fn walk(
    index: Rel,
    meta: &Meta,
    mut each: impl FnMut(u32, usize, Entry),
    mut visit: impl FnMut(u32),
) -> Read<()> {
    let mut known = KnownBlocks::new(index);
    let mut block = meta.directory;
    let mut place = 0;
    while block != NO_BLOCK {
        visit(block);
        known.check(block.saturating_add(1))?;
        let page = SharedPage::read(index, block);
        let view = page.view(PageKind::Directory)?;
        if view.place() != place {
            return Err(Damage::new(block, "the chain of directory pages is broken"));
        }
        for (slot, entry) in entries(&view, block, meta)?.enumerate() {
            let entry = entry.ok_or_else(|| Damage::new(block, "a directory entry has an unknown kind"))?;
            each(block, slot, entry);
        }
        block = get_u32(view.payload(), 0);
        place += 1;
    }
    Ok(())
}

fn entries<'a>(
    view: &PageView<'a>,
    block: u32,
    meta: &'a Meta,
) -> Read<impl Iterator<Item = Option<Entry>> + use<'a>> {
    let parts = |column: u16| meta.parts(column);
    let payload = view.payload();
    let count = get_u32(payload, 4) as usize;
    if payload.len() < ENTRIES_AT + count * ENTRY_BYTES {
        return Err(Damage::new(block, "the directory page counts more entries than it holds"));
    }
    let entries = payload[ENTRIES_AT..ENTRIES_AT + count * ENTRY_BYTES].chunks_exact(ENTRY_BYTES);
    Ok(entries.map(move |entry| Entry::decode(entry, parts)))
}

/// The live segments and open stretches of some columns.
#[derive(Default)]
pub struct Live {
    /// The segments that summarize ranges, by column and first range. If two overlap (a merge was in progress), only
    /// the one that ends later.
    pub segments: Vec<Segment>,
    /// Additions: maps that add to the answers of those segments.
    pub additions: Vec<Segment>,
    /// Ranges that match every lookup, although maps summarize them.
    pub open: Vec<OpenStretch>,
    /// Ranges whose segments are being replaced. Lookups use the old and the new ones alike; inserts trust neither.
    pub rescans: Vec<Rescan>,
}

/// The live segments and open stretches of the columns that `wanted` accepts. `meta` was read before, and before the
/// delta.
///
/// # Errors
/// Damage to a directory page; or maps were replaced meanwhile, then start over from the meta page.
pub fn live(index: Rel, meta: &Meta, wanted: impl Fn(u16) -> bool) -> Fetch<Live> {
    let mut live = Live::default();
    let collect = |_, _, entry| match entry {
        Entry::Segment(s) if wanted(s.column) && s.summarizes() => live.segments.push(s),
        Entry::Segment(s) if wanted(s.column) => live.additions.push(s),
        Entry::Open(stretch) if wanted(stretch.column) => live.open.push(stretch),
        Entry::Rescan(rescan) if wanted(rescan.column) => live.rescans.push(rescan),
        _ => {}
    };
    walk(meta.bind(index), meta, collect, |_| ())?;
    check_extents(index, live.segments.iter().chain(&live.additions))?;
    // A layout that was not chosen when the meta page was read may be that of a map by now.
    let may_be_map =
        |(c, column): (usize, &ColumnMeta)| column.layout != SegmentLayout::Filters && wanted(c as u16);
    if meta.columns.iter().enumerate().any(may_be_map) && meta::generation(index)? != meta.generation {
        return Err(Miss::Recycled(meta::META_BLOCK));
    }
    // Of two segments with the same ranges the newer one: some of the segments that it was made of may be retired
    // already.
    live.segments.sort_unstable_by_key(|s| (s.column, s.first_range, Reverse((s.width, s.id))));
    let mut covered: Option<(u16, u32)> = None;
    live.segments.retain(|s| {
        let inside = covered.is_some_and(|(column, end)| s.column == column && s.end_range() <= end);
        if !inside {
            covered = Some((s.column, s.end_range()));
        }
        !inside
    });
    Ok(live)
}

/// Checks that the segments' blocks exist.
///
/// # Errors
/// Damage: the index ends before.
pub fn check_extents<'a>(index: Rel, segments: impl IntoIterator<Item = &'a Segment>) -> Read<()> {
    let mut known = KnownBlocks::new(index);
    segments.into_iter().try_for_each(|s| known.check(s.first_block.saturating_add(s.blocks)))
}

/// The directory, as the holder of the maintenance lock reads and changes it.
pub struct Directory<'a> {
    index: Rel<'a>,
    slots: Vec<(u32, usize, Entry)>,
    pages: Vec<u32>,
}

impl<'a> Directory<'a> {
    /// Reads the whole directory.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn load(index: Rel<'a>, meta: &Meta) -> Read<Self> {
        let index = meta.bind(index);
        let mut slots = Vec::new();
        let mut pages = Vec::new();
        walk(index, meta, |block, slot, entry| slots.push((block, slot, entry)), |block| pages.push(block))?;
        let directory = Self { index, slots, pages };
        check_extents(index, &directory.all_segments().collect::<Vec<_>>())?;
        Ok(directory)
    }

    /// The segments of a column that summarize ranges, by first range, overlapping ones included.
    pub fn segments(&self, column: u16) -> Vec<Segment> {
        self.sorted(|s| s.column == column && s.summarizes())
    }

    /// The additions of a column, by first range.
    pub fn additions(&self, column: u16) -> Vec<Segment> {
        self.sorted(|s| s.column == column && !s.summarizes())
    }

    fn sorted(&self, wanted: impl Fn(&Segment) -> bool) -> Vec<Segment> {
        let mut found: Vec<Segment> = self.all_segments().filter(wanted).collect();
        found.sort_unstable_by_key(|s| (s.first_range, s.id));
        found
    }

    /// The open stretches of a column, by first range.
    pub fn open_stretches(&self, column: u16) -> Vec<OpenStretch> {
        let mut found: Vec<OpenStretch> = self
            .slots
            .iter()
            .filter_map(|(_, _, entry)| match entry {
                Entry::Open(stretch) if stretch.column == column => Some(*stretch),
                _ => None,
            })
            .collect();
        found.sort_unstable_by_key(|stretch| stretch.first_range);
        found
    }

    /// The rescans that are in progress or were interrupted, and the ranges from which on the next ones go on.
    pub fn rescans(&self) -> Vec<Rescan> {
        let rescan = |(_, _, entry): &(u32, usize, Entry)| match entry {
            Entry::Rescan(rescan) => Some(*rescan),
            _ => None,
        };
        self.slots.iter().filter_map(rescan).collect()
    }

    /// Adds the entry of a rescan (`before` is None), changes it, or takes it out (`now` is None).
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn put_rescan(&mut self, before: Option<Rescan>, now: Option<Rescan>) -> Read<()> {
        let entry = now.map_or(Entry::Empty, Entry::Rescan);
        let is_it = |slot: &(u32, usize, Entry)| Some(slot.2) == before.map(Entry::Rescan);
        match self.slots.iter().position(is_it) {
            Some(at) => self.replace(at, entry),
            None if entry == Entry::Empty => Ok(()),
            None => self.add(entry),
        }
    }

    /// All live segments, additions among them, in no order.
    pub fn all_segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.slots.iter().filter_map(|(_, _, entry)| match entry {
            Entry::Segment(s) => Some(*s),
            _ => None,
        })
    }

    /// The unfinished segments of a column, by first range.
    pub fn unfinished(&self, column: u16) -> Vec<Unfinished> {
        let mut found: Vec<Unfinished> = self.all_unfinished().filter(|u| u.column == column).collect();
        found.sort_unstable_by_key(|u| u.first_range);
        found
    }

    /// All unfinished segments, in no order.
    pub fn all_unfinished(&self) -> impl Iterator<Item = Unfinished> + '_ {
        self.slots.iter().filter_map(|(_, _, entry)| match entry {
            Entry::Unfinished(unfinished) => Some(*unfinished),
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

    /// Reserves consecutive blocks: of the smallest free extent that is large enough, else new ones at the end of the
    /// relation.
    ///
    /// # Errors
    /// Damage to a directory page or the meta page.
    pub fn allocate(&mut self, blocks: u32) -> Read<u32> {
        let fits = |extent: &(u32, u32)| extent.1 >= blocks;
        let Some((first_block, _)) =
            self.free_extents().filter(fits).min_by_key(|extent| (extent.1, extent.0))
        else {
            let first_block = page::extend(self.index, blocks);
            self.log_extension(first_block + blocks - 1);
            self.add(Entry::Reserved { first_block, blocks })?;
            return Ok(first_block);
        };
        self.reserve(first_block, blocks)?;
        Ok(first_block)
    }

    /// Reserves the first blocks of a free extent, which begins with `first_block` and has at least so many.
    ///
    /// # Errors
    /// Damage to a directory page or the meta page.
    pub fn reserve(&mut self, first_block: u32, blocks: u32) -> Read<()> {
        let found = self.slots.iter().enumerate().find_map(|(at, (_, _, entry))| match *entry {
            Entry::Free { first_block: first, blocks: have } if first == first_block && have >= blocks => {
                Some((at, have))
            }
            _ => None,
        });
        let Some((at, have)) = found else {
            return Err(Damage::new(first_block, "blocks that are not free were to be reserved"));
        };
        // A reader may still use an older directory in which these blocks are a segment: it must be able to detect
        // that.
        self.raise_generation()?;
        if have == blocks {
            self.replace(at, Entry::Reserved { first_block, blocks })
        } else {
            self.replace(at, Entry::Free { first_block: first_block + blocks, blocks: have - blocks })?;
            self.add(Entry::Reserved { first_block, blocks })
        }
    }

    /// Makes all spare pages of the delta free extents. The caller makes sure that no other process changes the delta.
    /// A crash in between loses blocks.
    ///
    /// # Errors
    /// Damage to a directory page or the meta page.
    pub fn free_spare_pages(&mut self, mut pages: Vec<u32>) -> Read<()> {
        meta::update(self.index, |meta| meta.spare = NO_BLOCK)?;
        pages.sort_unstable();
        for run in pages.chunk_by(|one, next| one + 1 == *next) {
            self.add(Entry::Free { first_block: run[0], blocks: run.len() as u32 })?;
        }
        self.join_free_extents()
    }

    /// Takes out the free extents that begin at block `end` or behind it, before the file is cut off there.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn forget_free_from(&mut self, end: u32) -> Read<()> {
        for at in 0..self.slots.len() {
            if matches!(self.slots[at].2, Entry::Free { first_block, .. } if first_block >= end) {
                self.replace(at, Entry::Empty)?;
            }
        }
        Ok(())
    }

    /// Records the new length of the file in WAL, before an entry names blocks at its end. Extending the file is not in
    /// WAL: on a standby, or after a crash, the file would end before these blocks. An insert that then extends the
    /// file for the delta would get a block that the directory also gives to a segment.
    fn log_extension(&self, last_block: u32) {
        wal::write_page(self.index, last_block, spare_page(NO_BLOCK), Logging::EachPage);
    }

    /// Publishes a segment whose pages are written; its entry replaces the reservation.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn publish(&mut self, segment: Segment) -> Read<()> {
        self.publish_part(segment, segment.blocks)
    }

    /// As [`Directory::publish`], for a segment that has fewer than the `reserved` blocks: the others become free.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn publish_part(&mut self, segment: Segment, reserved: u32) -> Read<()> {
        match self.slot_of_new(segment.first_block) {
            Some(at) => self.replace(at, Entry::Segment(segment))?,
            None => self.add(Entry::Segment(segment))?,
        }
        match Entry::free(segment.first_block + segment.blocks, reserved - segment.blocks) {
            Entry::Empty => Ok(()),
            // A crash before this loses the blocks.
            free => self.add(free),
        }
    }

    /// Sets how far an unfinished segment is written. Its blocks were reserved, or are those of its older state.
    /// `surplus` blocks behind them become free.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn set_unfinished(&mut self, unfinished: Unfinished, surplus: u32) -> Read<()> {
        match self.slot_of_new(unfinished.first_block) {
            Some(at) => self.replace(at, Entry::Unfinished(unfinished))?,
            None => self.add(Entry::Unfinished(unfinished))?,
        }
        match Entry::free(unfinished.first_block + unfinished.blocks, surplus) {
            Entry::Empty => Ok(()),
            // A crash before this loses the blocks.
            free => self.add(free),
        }
    }

    /// Gives the blocks of an unfinished segment to the free extents.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn abandon(&mut self, unfinished: &Unfinished) -> Read<()> {
        match self.slot_of_new(unfinished.first_block) {
            Some(at) => self.replace(at, Entry::free(unfinished.first_block, unfinished.blocks)),
            None => Ok(()),
        }
    }

    /// The slot of the reserved or unfinished extent that begins with a block.
    fn slot_of_new(&self, block: u32) -> Option<usize> {
        self.slots.iter().position(|(_, _, entry)| match entry {
            Entry::Reserved { first_block, .. } => *first_block == block,
            Entry::Unfinished(unfinished) => unfinished.first_block == block,
            _ => false,
        })
    }

    /// Marks ranges of maps as open. The caller raises the generation before it publishes the maps.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn add_open(&mut self, stretch: OpenStretch) -> Read<()> {
        self.add(Entry::Open(stretch))
    }

    /// Takes an open stretch out after the contents of its ranges were published; the stretches in `rest` replace it.
    /// The generation is raised after that publication and before the stretch is taken out.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn replace_open(&mut self, stretch: OpenStretch, rest: &[OpenStretch]) -> Read<()> {
        let mut rest = rest.iter();
        // All parts but one are added first, and the last one replaces the stretch: at every moment every range that
        // has to be open is open.
        let in_place = rest.next();
        for part in rest {
            self.add(Entry::Open(*part))?;
        }
        self.raise_generation()?;
        match self.slots.iter().position(|(_, _, entry)| *entry == Entry::Open(stretch)) {
            Some(at) => self.replace(at, in_place.map_or(Entry::Empty, |part| Entry::Open(*part))),
            None => Ok(()),
        }
    }

    /// Tells readers of maps that entries are about to be taken out or published that belong together with other
    /// entries ([`super::map`]).
    ///
    /// # Errors
    /// Damage to the meta page.
    pub fn raise_generation(&self) -> Read<()> {
        meta::update(self.index, |meta| meta.generation += 1)
    }

    /// Frees the blocks that an interrupted maintenance had reserved.
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

    /// Takes segments out of the directory and gives their blocks to the free extents. If there are maps among them,
    /// the generation is raised before that, so that a reader that missed their replacement starts over. In any case it
    /// is raised afterwards, so that inserts read the directory again.
    ///
    /// # Errors
    /// Damage to a directory page or the meta page.
    pub fn retire(&mut self, ids: &[u64]) -> Read<()> {
        let is_retired = |entry: &Entry| matches!(entry, Entry::Segment(s) if ids.contains(&s.id));
        let slots: Vec<usize> = (0..self.slots.len()).filter(|&at| is_retired(&self.slots[at].2)).collect();
        let is_map = |at: &usize| matches!(self.slots[*at].2, Entry::Segment(s) if s.map().is_some());
        if slots.is_empty() {
            return Ok(());
        }
        if slots.iter().any(is_map) {
            self.raise_generation()?;
        }
        for at in slots {
            if let Entry::Segment(s) = self.slots[at].2 {
                self.replace(at, Entry::free(s.first_block, s.blocks))?;
            }
        }
        self.raise_generation()?;
        self.join_free_extents()
    }

    /// Joins adjacent free extents, so that large segments find room.
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
                    // The entry of the appended extent is emptied first: a crash between the two changes loses blocks,
                    // but never lists them twice.
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

    /// Appends a page to the directory. It is written before the chain refers to it.
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
