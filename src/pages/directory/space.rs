//! The free blocks of an index: how the directory gives them out and takes them back.
//!
//! Blocks are free extents, reserved for a segment that is being written, or new at the end of the file. Extending the
//! file is not in WAL: its new length is put there before an entry names blocks at its end.

use super::Directory;
use crate::pages::delta::spare_page;
use crate::pages::entry::Entry;
use crate::pages::meta;
use crate::pg::{Damage, error::IndexResult, page, wal};
use skip_segment::compaction::BlockExtent;
use skip_segment::page::NO_BLOCK;

impl Directory<'_> {
    /// The free extents as (first block, blocks).
    pub fn free_extents(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.slots.iter().filter_map(|(_, _, entry)| match entry {
            Entry::Free { first_block, blocks } => Some((*first_block, *blocks)),
            _ => None,
        })
    }

    /// The blocks of all entries, free ones among them, as (first block, blocks).
    pub fn extents(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.slots.iter().filter_map(|(_, _, entry)| entry.extent())
    }

    /// Reserves consecutive blocks: of the smallest free extent that is large enough, else at the end of the relation.
    ///
    /// # Errors
    /// Damage to a directory page or the meta page.
    pub fn allocate(&mut self, blocks: u32) -> IndexResult<u32> {
        self.allocate_first(blocks, |first, have| (have, first))
    }

    /// As [`Directory::allocate`], of the next free extent from block `from` on that is large enough, or of the first
    /// one in the file. The parts of a map are put in order so: when it is merged part by part, the blocks that become
    /// free are neighbours, and have room for a part that is larger.
    ///
    /// # Errors
    /// As [`Directory::allocate`].
    pub fn allocate_from(&mut self, blocks: u32, from: u32) -> IndexResult<u32> {
        self.allocate_first(blocks, |first, _| (u32::from(first < from), first))
    }

    fn allocate_first(&mut self, blocks: u32, order: impl Fn(u32, u32) -> (u32, u32)) -> IndexResult<u32> {
        let fitting = self.free_extents().filter(|&(_, have)| have >= blocks);
        let Some((first_block, _)) = fitting.min_by_key(|&(first, have)| order(first, have)) else {
            return self.extend(blocks);
        };
        self.reserve(first_block, blocks)?;
        Ok(first_block)
    }

    /// Reserves blocks at the end of the relation, free ones that are there among them.
    fn extend(&mut self, blocks: u32) -> IndexResult<u32> {
        let end = self.index.blocks();
        let tail = self.free_extents().find(|&(first, have)| first + have == end && have < blocks);
        let (tail_at, have) = tail.unwrap_or((end, 0));
        let first_new = page::extend(self.index, blocks - have);
        self.log_extension(first_new + (blocks - have) - 1);
        if have > 0 && first_new == end {
            self.reserve_with(tail_at, have, blocks)?;
            return Ok(tail_at);
        }
        // There is no such tail, or the delta has got a block behind it meanwhile.
        if have > 0 {
            self.add(Entry::Free { first_block: first_new, blocks: blocks - have })?;
            let first_block = page::extend(self.index, blocks);
            self.log_extension(first_block + blocks - 1);
            self.add(Entry::Reserved { first_block, blocks })?;
            return Ok(first_block);
        }
        self.add(Entry::Reserved { first_block: first_new, blocks })?;
        Ok(first_new)
    }

    /// Reserves a free extent of `have` blocks together with those behind it, `blocks` in all.
    fn reserve_with(&mut self, first_block: u32, have: u32, blocks: u32) -> IndexResult<()> {
        self.raise_generation()?; // as in [`Directory::reserve`]
        match self.slots.iter().position(|slot| slot.2 == Entry::Free { first_block, blocks: have }) {
            Some(at) => self.replace(at, Entry::Reserved { first_block, blocks }),
            None => Ok(()),
        }
    }

    /// Reserves the first blocks of a free extent, which begins with `first_block` and has at least `blocks` blocks.
    ///
    /// # Errors
    /// Damage to a directory page or the meta page.
    pub fn reserve(&mut self, first_block: u32, blocks: u32) -> IndexResult<()> {
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
    /// A crash in between loses blocks ([`crate::pages::upkeep::lost`]).
    ///
    /// # Errors
    /// Damage to a directory page or the meta page.
    pub fn free_spare_pages(&mut self, mut pages: Vec<u32>) -> IndexResult<()> {
        meta::update(self.index, |meta| meta.spare = NO_BLOCK)?;
        pages.sort_unstable();
        let runs = pages.chunk_by(|one, next| one + 1 == *next);
        self.add_free(runs.map(|run| (run[0], run.len() as u32)))
    }

    /// Makes lost blocks of a file of so many blocks free extents.
    ///
    /// # Errors
    /// Damage to a directory page or the meta page.
    pub fn add_lost(&mut self, lost: &[BlockExtent], blocks: u32) -> IndexResult<()> {
        let Some(last) = lost.last() else { return Ok(()) };
        if last.end() == blocks {
            // A reader with an older directory that names the last block must be able to detect that it has changed.
            self.raise_generation()?;
            self.log_extension(blocks - 1);
        }
        self.add_free(lost.iter().map(|extent| (extent.first, extent.blocks)))
    }

    /// Makes blocks that nothing refers to free extents, given as (first block, blocks).
    ///
    /// # Errors
    /// Damage to a directory page.
    pub(super) fn add_free(&mut self, extents: impl IntoIterator<Item = (u32, u32)>) -> IndexResult<()> {
        for (first_block, blocks) in extents {
            self.add(Entry::free(first_block, blocks))?;
        }
        self.join_free_extents()
    }

    /// Takes out the free extents that begin at block `end` or behind it, before the file is cut off there.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn remove_free_from(&mut self, end: u32) -> IndexResult<()> {
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
        wal::write_page(self.index, last_block, spare_page(NO_BLOCK));
    }

    /// Frees the blocks that an interrupted maintenance had reserved.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn free_reserved(&mut self) -> IndexResult<()> {
        for at in 0..self.slots.len() {
            if let Entry::Reserved { first_block, blocks } = self.slots[at].2 {
                self.replace(at, Entry::Free { first_block, blocks })?;
            }
        }
        Ok(())
    }

    /// Joins adjacent free extents, so that large segments find room.
    ///
    /// # Errors
    /// Damage to a directory page.
    pub fn join_free_extents(&mut self) -> IndexResult<()> {
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
}
