//! Moving segments from the end of the index into free blocks before it ([`compact`]), so that the free blocks are at
//! the end, and giving them back to the file system ([`shorten`]).
//!
//! A segment is copied page by page under a new id and published, then the old one is retired, as in a merge
//! ([`super::merge`]). A crash in between leaves both, which are equal; the next maintenance retires the older one.

use crate::pages::delta;
use crate::pages::directory::Directory;
use crate::pages::entry::Segment;
use crate::pages::meta::{self, Meta};
use crate::pages::miss::Miss;
use crate::pages::segment;
use crate::pg::lock::AloneLock;
use crate::pg::{error::Read, memory, wal::Logging};
use skip_segment::page::SLICE_BYTES;

/// Segments are moved if so many blocks are free, and one of [`SHARE`] blocks of the index.
const LEAST_BLOCKS: u32 = 64;
const SHARE: u64 = 5;
/// The file is cut off if so many blocks at its end are free, and one of so many of the file.
const TAIL_SHARE: u32 = 16;

/// Moves segments if many blocks are free. Blocks of the file that nothing refers to count as used.
///
/// # Errors
/// Damage to the index.
pub fn compact(directory: &mut Directory<'_>) -> Read<()> {
    while let Some((segment, first_block)) = next_move(directory) {
        relocate(directory, &segment, first_block)?;
    }
    Ok(())
}

/// The segment at the end, and the free blocks that it should move to. Each move brings it nearer to the beginning, so
/// there is an end.
fn next_move(directory: &Directory<'_>) -> Option<(Segment, u32)> {
    let free: u64 = directory.free_extents().map(|(_, blocks)| u64::from(blocks)).sum();
    let all = u64::from(directory.index().blocks());
    let last = directory.all_segments().filter(|s| s.blocks > 0).max_by_key(|s| s.first_block)?;
    let before = |extent: &(u32, u32)| extent.0 < last.first_block;
    let free_before: u64 = directory.free_extents().filter(before).map(|(_, blocks)| u64::from(blocks)).sum();
    if free < LEAST_BLOCKS.into() || free * SHARE < all || free_before < u64::from(last.blocks) {
        return None;
    }
    let fits = |extent: &(u32, u32)| before(extent) && extent.1 >= last.blocks;
    let (first_block, _) = directory.free_extents().filter(fits).min_by_key(|extent| (extent.1, extent.0))?;
    Some((last, first_block))
}

fn relocate(directory: &mut Directory<'_>, old: &Segment, first_block: u32) -> Read<()> {
    let index = directory.index();
    directory.reserve(first_block, old.blocks)?;
    let new = Segment { first_block, id: meta::take_segment_id(index)?, ..*old };
    for page in 0..old.blocks {
        memory::check_for_interrupts();
        let mut payload = vec![0u8; SLICE_BYTES as usize];
        segment::read_page(index, old, page, |bytes| payload.copy_from_slice(bytes))
            .map_err(Miss::not_recycled)?;
        segment::write_page(index, &new, page, Logging::EachPage, |out| out.copy_from_slice(&payload));
    }
    directory.publish(new)?;
    directory.retire(&[old.id])
}

/// Gives free blocks at the end of the file back to the file system, if there are many and no other process uses the
/// index at the moment. No reader can have an older directory that names these blocks, since a reader holds a lock on
/// the index from the first page on that it reads of it. On a standby, replay of the lock waits for readers.
///
/// The directory forgets the blocks before the file is cut off. A crash in between leaves blocks at the end that
/// nothing refers to; the next VACUUM cuts them off.
///
/// # Errors
/// Damage to the index.
pub fn shorten(directory: &mut Directory<'_>) -> Read<()> {
    let index = directory.index();
    let blocks = index.blocks();
    let is_worth = |end: u32| blocks.saturating_sub(end) >= LEAST_BLOCKS.max(blocks / TAIL_SHARE);
    if !is_worth(end_of_segments(directory)) {
        return Ok(());
    }
    let Some(alone) = AloneLock::try_take(index) else { return Ok(()) };
    let meta = Meta::read(index)?;
    let end_of = |pages: Vec<u32>| pages.into_iter().max().map_or(0, |last| last + 1);
    let spare = delta::spare_pages(index, &meta)?;
    let mut end = end_of_segments(directory).max(end_of(delta::pages(index, &meta)?));
    if is_worth(end) && end_of(spare.clone()) > end {
        directory.free_spare_pages(spare)?;
    } else {
        end = end.max(end_of(spare));
    }
    if index.blocks() == blocks && is_worth(end) {
        directory.forget_free_from(end)?;
        alone.truncate(end);
    }
    Ok(())
}

/// The first block behind all segments, unfinished ones too, and pages of the directory.
fn end_of_segments(directory: &Directory<'_>) -> u32 {
    let segments = directory.all_segments().map(|s| s.first_block + s.blocks);
    let unfinished = directory.all_unfinished().map(|u| u.first_block + u.blocks);
    let pages = directory.pages().iter().map(|block| block + 1);
    segments.chain(unfinished).chain(pages).max().unwrap_or(0).max(meta::META_BLOCK + 1)
}
