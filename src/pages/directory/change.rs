//! The directory as the holder of the maintenance lock reads and changes it.
//!
//! Owns the order of single changes: each is one WAL record of one page, and after a crash every prefix of them is
//! right.

use super::live::{LiveSegment, in_use};
use super::{ENTRIES_AT, ENTRIES_PER_PAGE, check_extents, empty_page, walk};
use crate::pages::entry::{ENTRY_BYTES, Entry, OpenStretch, Rescan, Segment, Unfinished};
use crate::pages::meta::{self, Meta};
use crate::pg::{
    Damage, Rel,
    error::IndexResult,
    page::{self, KnownBlocks},
    wal::{self, PageEdit},
};
use skip_segment::page::{PageKind, VERSION_BOUNDS, VERSION_KEY_PARTS, get_u32};

/// The directory, as the holder of the maintenance lock reads and changes it.
pub struct Directory<'a> {
    pub(super) index: Rel<'a>,
    pub(super) slots: Vec<(u32, usize, Entry)>,
    pages: Vec<u32>,
}

impl<'a> Directory<'a> {
    /// Reads the whole directory.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn load(index: Rel<'a>, meta: &Meta) -> IndexResult<Self> {
        let index = meta.bind(index);
        let mut slots = Vec::new();
        let each = |block, slot, entry| slots.push((block, slot, entry));
        let pages = walk(index, meta, |_| true, each)?.iter().map(|page| page.block).collect();
        let directory = Self { index, slots, pages };
        check_extents(&mut KnownBlocks::new(index), &directory.all_segments().collect::<Vec<_>>())?;
        Ok(directory)
    }

    /// The segments of a column that summarize ranges, by first range, overlapping ones included.
    pub fn segments(&self, column: u16) -> Vec<Segment> {
        self.sorted(|s| s.column == column && s.summarizes())
    }

    /// Number of segments of a column that summarize ranges.
    pub fn count_of_segments(&self, column: u16) -> usize {
        self.all_segments().filter(|s| s.column == column && s.summarizes()).count()
    }

    /// The additions of a column, by first range.
    pub fn additions(&self, column: u16) -> Vec<Segment> {
        self.sorted(|s| s.column == column && !s.summarizes())
    }

    /// The segments of a column that summarize ranges, as lookups use them.
    pub fn in_use(&self, column: u16) -> Vec<LiveSegment> {
        in_use(self.segments(column))
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
    pub fn put_rescan(&mut self, before: Option<Rescan>, now: Option<Rescan>) -> IndexResult<()> {
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

    /// The index, bound to its seed.
    pub fn index(&self) -> Rel<'a> {
        self.index
    }

    /// The directory's own pages.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }

    /// Publishes a segment whose pages are written; its entry replaces the reservation.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn publish(&mut self, segment: Segment) -> IndexResult<()> {
        match self.slot_of_new(segment.first_block).filter(|_| segment.blocks > 0) {
            Some(at) => self.replace(at, Entry::Segment(segment)),
            None => self.add(Entry::Segment(segment)),
        }
    }

    /// Changes the number of ranges of a segment whose pages have them already.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn set_width(&mut self, segment: &Segment, width: u32) -> IndexResult<()> {
        match self.slots.iter().position(|slot| slot.2 == Entry::Segment(*segment)) {
            Some(at) => self.replace(at, Entry::Segment(Segment { width, ..*segment })),
            None => Ok(()),
        }
    }

    /// Sets how far an unfinished segment is written. Its blocks were reserved, or are those of its older state.
    /// `surplus` blocks behind them become free.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn set_unfinished(&mut self, unfinished: Unfinished, surplus: u32) -> IndexResult<()> {
        match self.slot_of_new(unfinished.first_block) {
            Some(at) => self.replace(at, Entry::Unfinished(unfinished))?,
            None => self.add(Entry::Unfinished(unfinished))?,
        }
        if surplus == 0 {
            return Ok(());
        }
        // A crash before this loses the blocks.
        self.add_free([(unfinished.first_block + unfinished.blocks, surplus)])
    }

    /// Gives the blocks of an unfinished segment to the free extents.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn abandon(&mut self, unfinished: &Unfinished) -> IndexResult<()> {
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
    pub fn add_open(&mut self, stretch: OpenStretch) -> IndexResult<()> {
        self.add(Entry::Open(stretch))
    }

    /// Takes an open stretch out after the contents of its ranges were published; the stretches in `rest` replace it.
    /// The generation is raised after that publication and before the stretch is taken out.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn replace_open(&mut self, stretch: OpenStretch, rest: &[OpenStretch]) -> IndexResult<()> {
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
    pub fn raise_generation(&self) -> IndexResult<()> {
        meta::update(self.index, |meta| meta.generation += 1)
    }

    /// Takes segments out of the directory and gives their blocks to the free extents. If there are maps among them,
    /// the generation is raised before that, so that a reader that missed their replacement starts over. In any case it
    /// is raised afterwards, so that inserts read the directory again.
    ///
    /// # Errors
    /// Damage to a directory page or the meta page.
    pub fn retire(&mut self, ids: &[u64]) -> IndexResult<()> {
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

    pub(super) fn replace(&mut self, at: usize, entry: Entry) -> IndexResult<()> {
        let (block, slot, _) = self.slots[at];
        let mut edit = PageEdit::start(self.index, block, PageKind::Directory)?;
        put(&mut edit, slot, &entry);
        edit.commit();
        self.slots[at].2 = entry;
        Ok(())
    }

    pub(super) fn add(&mut self, entry: Entry) -> IndexResult<()> {
        if let Some(at) = self.slots.iter().position(|(_, _, e)| *e == Entry::Empty) {
            return self.replace(at, entry);
        }
        let Some(&last) = self.pages.last() else {
            return Err(Damage::new(meta::META_BLOCK, "the index has no directory"));
        };
        let mut edit = PageEdit::start(self.index, last, PageKind::Directory)?;
        let slot = get_u32(edit.before()?.payload(), 4) as usize;
        if slot < ENTRIES_PER_PAGE {
            put(&mut edit, slot, &entry);
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
    fn add_page(&mut self, last: u32) -> IndexResult<()> {
        let block = page::extend(self.index, 1);
        wal::write_page(self.index, block, empty_page(self.pages.len() as u32));
        let mut edit = PageEdit::start(self.index, last, PageKind::Directory)?;
        edit.image().put(0, &block.to_le_bytes());
        edit.commit();
        self.pages.push(block);
        Ok(())
    }
}

/// Puts an entry on a page. From its first segment of a part of the keys, or of bounds, on, the page has another format
/// version.
fn put(edit: &mut PageEdit, slot: usize, entry: &Entry) {
    edit.image().put(ENTRIES_AT + slot * ENTRY_BYTES, &entry.encode());
    if entry.has_key_part() {
        edit.image().raise_version(VERSION_KEY_PARTS);
    }
    if matches!(entry, Entry::Segment(segment) if segment.is_of_bounds()) {
        edit.image().raise_version(VERSION_BOUNDS);
    }
}
