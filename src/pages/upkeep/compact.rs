//! Moving segments into free blocks before them ([`compact`]), so that the free blocks are at the end, and giving those
//! back to the file system ([`shorten`]).
//!
//! The segment at the end moves into free blocks before it. If none of these extents is large enough, a segment slides
//! over the free blocks right before it, so that they join those behind it.
//!
//! A segment is copied page by page under a new id and published, then the old one is retired, as in a merge
//! ([`super::merge`]). A crash in between leaves both, which are equal. The next maintenance retires the older one; of
//! an addition both stay, and lookups read both, until additions are merged. A segment that slides over fewer blocks
//! than it has is copied twice, because the old and the new one must not overlap.

use crate::pages::delta;
use crate::pages::directory::Directory;
use crate::pages::entry::Segment;
use crate::pages::meta::{self, Meta};
use crate::pages::miss::Miss;
use crate::pages::segment;
use crate::pg::lock::{AloneLock, IndexLock, LockKind};
use crate::pg::{Rel, error::IndexResult, memory};
use skip_segment::compaction::{self, BlockExtent, Compaction, Slides};
use skip_segment::page::{NO_BLOCK, SLICE_BYTES};

/// Segments are moved if at least 8 blocks before the last segment are free, and at least 1/24 of the blocks up to its
/// end. The index of a queue of 100,000 rows has 40 blocks. With 1/12 instead of 1/24, the index of five million rows
/// had 2,267 blocks after a VACUUM, of which its segments had 2,014.
const LEAST_BLOCKS: u32 = 8;
const SHARE: u64 = 24;
/// The most blocks copied for each free block. So the work is in proportion to what earlier maintenance has freed.
const MOST_COPIES: u64 = 4;
/// The most blocks copied while no other process can use the table: 4 MB, some milliseconds.
const MOST_COPIES_ALONE: u64 = 512;
/// The file is cut off if at least 8 blocks, and at least 1/16 of its blocks, become free at its end. VACUUM uses the
/// same fraction for tables (REL_TRUNCATE_FRACTION).
const TAIL_SHARE: u32 = 16;
/// If that needs the delta's spare pages: 1/4 of the file's blocks, because the delta would soon need new pages.
const SPARE_SHARE: u32 = 4;

/// Moves segments if many blocks before the last one are free. Lost blocks ([`super::lost`]) count as used.
///
/// # Errors
/// Damage to the index.
pub fn compact(directory: &mut Directory<'_>) -> IndexResult<()> {
    let mut copies = None;
    // What is freed below must not be joined to an extent before the one that was chosen.
    directory.join_free_extents()?;
    while let Some((segment, to)) = next_move(directory) {
        let left = copies.get_or_insert_with(|| MOST_COPIES * free_before(directory, u32::MAX));
        let is_twice = to + segment.blocks > segment.first_block;
        let cost = u64::from(segment.blocks) * if is_twice { 2 } else { 1 };
        if *left < cost {
            break;
        }
        *left -= cost;
        let segment = if is_twice {
            let first_block = directory.allocate(segment.blocks)?;
            copy_to(directory, &segment, first_block)?
        } else {
            segment
        };
        directory.reserve(to, segment.blocks)?;
        copy_to(directory, &segment, to)?;
    }
    Ok(())
}

/// The number of free blocks before block `end`.
fn free_before(directory: &Directory<'_>, end: u32) -> u64 {
    directory.free_extents().filter(|extent| extent.0 < end).map(|(_, blocks)| u64::from(blocks)).sum()
}

/// The segment to be moved next, and the first block of its new place, if many blocks before the last segment are free.
fn next_move(directory: &Directory<'_>) -> Option<(Segment, u32)> {
    let (segments, places) = segments_and_places(directory);
    let last = segments.iter().max_by_key(|s| s.first_block)?;
    let free = free_before(directory, last.first_block);
    if free < LEAST_BLOCKS.into() || free * SHARE < u64::from(last.first_block + last.blocks) {
        return None;
    }
    let step = compaction::next_move(&places, &free_extents(directory), Slides::Overlapping)?;
    segments.get(step.segment).map(|&segment| (segment, step.to))
}

/// The segments that have blocks, and these blocks.
fn segments_and_places(directory: &Directory<'_>) -> (Vec<Segment>, Vec<BlockExtent>) {
    let with_blocks = directory.all_segments().filter(|s| s.blocks > 0);
    with_blocks.map(|s| (s, BlockExtent { first: s.first_block, blocks: s.blocks })).unzip()
}

fn free_extents(directory: &Directory<'_>) -> Vec<BlockExtent> {
    directory.free_extents().map(|(first, blocks)| BlockExtent { first, blocks }).collect()
}

/// Copies a segment into blocks that are reserved for it, and retires the old one.
fn copy_to(directory: &mut Directory<'_>, old: &Segment, first_block: u32) -> IndexResult<Segment> {
    let index = directory.index();
    let new = Segment { first_block, id: meta::take_segment_id(index)?, ..*old };
    for page in 0..old.blocks {
        memory::check_for_interrupts();
        let mut payload = vec![0u8; SLICE_BYTES as usize];
        segment::read_page(index, old, page, |bytes| payload.copy_from_slice(bytes))
            .map_err(Miss::into_damage)?;
        segment::write_page(index, &new, page, |out| out.copy_from_slice(&payload));
    }
    directory.publish(new)?;
    directory.retire(&[old.id])?;
    Ok(new)
}

/// Moves segments to the front, and gives the free blocks at the end of the file back to the file system, if there are
/// many and no other process uses the table or the index at the moment. No reader can have an older directory that
/// names these blocks, since a reader holds a lock on the index from the first page on that it reads of it. On a
/// standby, replay of the lock waits for readers.
///
/// The delta's spare pages are freed, and its last page if it has no entries, because they may lie between segments and
/// free blocks. For their sake the locks are taken only if they are a large part of the file: the delta would get new
/// pages soon.
///
/// The directory forgets the blocks before the file is cut off. A crash in between loses blocks at the end; the next
/// VACUUM cuts them off.
///
/// The lock on the table makes queries of a standby wait, or cancels them. If the table's option `vacuum_truncate` is
/// off, which prevents this for the table itself, the index keeps its free blocks too.
///
/// # Errors
/// Damage to the index.
pub fn shorten(heap: Rel<'_>, directory: &mut Directory<'_>) -> IndexResult<()> {
    let index = directory.index();
    if !may_shorten(heap, directory)? {
        return Ok(());
    }
    let Some(alone) = AloneLock::try_take(heap, index) else { return Ok(()) };
    let of_delta = unused_pages_of_delta(index)?;
    let (segments, plan) = arrangement(directory, &of_delta);
    if of_delta.contains(&Meta::read(index)?.delta_head) {
        delta::remove_empty(index)?;
    }
    directory.free_spare_pages(of_delta)?;
    carry_out(directory, segments, &plan)?;
    let of_delta = delta::pages(index, &Meta::read(index)?)?.into_iter().map(|block| block + 1);
    let end = of_delta.chain([end_of_pages(directory), end_of_segments(directory)]).max().unwrap_or(0);
    if is_worth(index.blocks(), end) {
        directory.remove_free_from(end)?;
        alone.truncate(end);
    }
    Ok(())
}

/// Whether much of the file could be cut off, and may be.
///
/// # Errors
/// Damage to the index.
pub fn may_shorten(heap: Rel<'_>, directory: &Directory<'_>) -> IndexResult<bool> {
    if !heap.allows_truncation() {
        return Ok(false);
    }
    let index = directory.index();
    // Inserts wait for the lock, so it is taken only if they have changed the chains meanwhile.
    let of_delta = match unused_pages_of_delta(index) {
        Ok(pages) => pages,
        Err(_) => {
            let _growth = IndexLock::take(index, LockKind::DeltaGrowth);
            unused_pages_of_delta(index)?
        }
    };
    let end = end_of_pages(directory).max(arrangement(directory, &of_delta).1.end);
    let (blocks, kept) = (index.blocks(), end.saturating_add(of_delta.len() as u32));
    Ok(is_worth(blocks, kept) || blocks.saturating_sub(end) >= LEAST_BLOCKS.max(blocks / SPARE_SHARE))
}

/// The delta's spare pages, and its only page if it has no entries. No other process adds pages to the delta meanwhile.
fn unused_pages_of_delta(index: Rel<'_>) -> IndexResult<Vec<u32>> {
    let meta = Meta::read(index)?;
    let mut pages = delta::spare_pages(index, &meta)?;
    if meta.delta_head != NO_BLOCK && delta::is_empty(index, &meta).map_err(Miss::into_damage)? {
        pages.push(meta.delta_head);
    }
    Ok(pages)
}

/// Whether a file of so many blocks is cut off behind block `end`.
fn is_worth(blocks: u32, end: u32) -> bool {
    blocks.saturating_sub(end) >= LEAST_BLOCKS.max(blocks / TAIL_SHARE)
}

/// All segments, and which of them move if these pages of the delta are free.
fn arrangement(directory: &Directory<'_>, of_delta: &[u32]) -> (Vec<Segment>, Compaction) {
    let (segments, places) = segments_and_places(directory);
    let mut free = free_extents(directory);
    free.extend(of_delta.iter().map(|&first| BlockExtent { first, blocks: 1 }));
    let plan = compaction::to_front(&places, &free, MOST_COPIES_ALONE);
    (segments, plan)
}

/// Moves segments. The free extents are joined.
fn carry_out(
    directory: &mut Directory<'_>,
    mut segments: Vec<Segment>,
    plan: &Compaction,
) -> IndexResult<()> {
    for step in &plan.moves {
        let Some(segment) = segments.get_mut(step.segment) else { break };
        directory.reserve(step.to, segment.blocks)?;
        *segment = copy_to(directory, segment, step.to)?;
    }
    Ok(())
}

/// The first block behind all segments.
fn end_of_segments(directory: &Directory<'_>) -> u32 {
    directory.all_segments().map(|s| s.first_block + s.blocks).max().unwrap_or(0)
}

/// The first block behind what is never moved: unfinished segments, and pages of the meta data and the directory.
fn end_of_pages(directory: &Directory<'_>) -> u32 {
    let unfinished = directory.all_unfinished().map(|u| u.first_block + u.blocks);
    let pages = directory.pages().iter().map(|block| block + 1);
    unfinished.chain(pages).max().unwrap_or(0).max(meta::META_BLOCK + 1)
}
