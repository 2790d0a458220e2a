//! Maintenance by inserts, or by the background worker that they start, within bounds: they summarize ranges that have
//! filled up, fold a delta that is too long, and retire segments behind the table's end after VACUUM has truncated it.
//!
//! Each of these takes the maintenance lock only if it is free: an insert does not wait until maintenance ends. It may
//! wait for one step: if it needs a new page for the delta while maintenance reads the list of the delta's pages.

use super::close;
use super::summarize::{self, Caller, Summary};
use crate::pages::meta::Meta;
use crate::pages::peeked_meta::PeekedMeta;
use crate::pages::upkeep::{self, fold, growth};
use crate::pg::error::{IndexResult, or_raise};
use crate::pg::lock::{IndexLock, LockKind};
use crate::pg::memory::{self, Scratch};
use crate::pg::options::{Autosummarize, Options};
use crate::pg::sandbox::{Sandbox, in_recovery};
use crate::pg::{Rel, heap};
use skip_segment::pace::{Inserting, MOST_EMPTY, Pace, may_get_rows};

/// New blocks of the table from one step of merges to the next: so few that the steps can be small, and so many that
/// loading the directory for each costs little.
const BLOCKS_A_STEP: u32 = 16;

/// Whether a step of merges is due at the first row of a new block.
pub fn is_step(block: u32) -> bool {
    block.is_multiple_of(BLOCKS_A_STEP)
}

/// The number of steps of merges for so many new blocks.
pub fn steps_of(blocks: u32) -> u32 {
    blocks / BLOCKS_A_STEP
}

/// Whether new ranges are summarized without VACUUM: not if the option is off, and not in an index that takes inserts
/// before it is complete.
fn is_wanted(index: Rel) -> bool {
    Options::of(index).autosummarize != Autosummarize::Off && !in_recovery() && index.is_valid_index()
}

/// Whether a column has filters.
///
/// # Errors
/// Damage to the index.
pub fn has_filters(index: Rel) -> IndexResult<bool> {
    Ok(Meta::read(index)?.has_filters())
}

/// Summarizes ranges behind the block that a row was just inserted into, at this pace, and merges segments. None if
/// there are too few ranges for a batch. Does nothing if another process holds the maintenance lock. The numbers of
/// ranges and of blocks written are bounded. The caller is an insert or the worker.
///
/// # Errors
/// Damage to the index.
pub fn autosummarize(
    heap: Rel,
    index: Rel,
    block: u32,
    pace: Pace,
    caller: Caller,
) -> IndexResult<Option<Summary>> {
    if !is_wanted(index) {
        return Ok(Some(Summary::default()));
    }
    let meta = PeekedMeta::read(index)?;
    let complete = complete_ranges(heap, &meta, block, pace);
    if pace.end_of_batch(meta.watermark, complete) == meta.watermark {
        return Ok(None);
    }
    let Some(_maintenance) = IndexLock::try_take(index, LockKind::Maintenance) else {
        return Ok(Some(Summary::default()));
    };
    let sandbox = Sandbox::enter(heap);
    let scratch = Scratch::new();
    let mut summary = scratch.run(|| -> IndexResult<_> {
        let (meta, mut directory) = upkeep::load(index)?;
        let end = pace.end_of_batch(meta.watermark, complete);
        if end == meta.watermark {
            return Ok(Summary::default());
        }
        let summary = summarize::summarize_to(heap, index, &mut directory, end, caller)?;
        growth::merge_some(&mut directory, &meta, pace.is_bulk)?;
        Ok(summary)
    })?;
    drop(sandbox);
    summarize::warn_of_failure(heap, index, summary.failure.take());
    Ok(Some(summary))
}

/// The first range that may still get rows, if `newest` is the newest block of the table. It is the watermark if a
/// block of the next batch may still get some.
fn complete_ranges(heap: Rel, meta: &PeekedMeta, newest: u32, pace: Pace) -> u32 {
    let PeekedMeta { watermark, pages_per_range, .. } = *meta;
    let from = watermark.saturating_mul(pages_per_range).max(newest.saturating_sub(MOST_EMPTY));
    let batch_end = watermark.saturating_add(pace.batch).saturating_mul(pages_per_range);
    let batch_end = batch_end.min(newest).max(from);
    let may_get = |&block: &u32| may_get_rows(heap::fill(heap, block), newest - block);
    // The newest blocks are the likeliest to get rows. While several processes fill blocks, this is asked for each new
    // block until the batch is complete, and mostly one or two blocks answer it.
    if (from..batch_end).rev().any(|block| may_get(&block)) {
        return watermark;
    }
    (batch_end..newest).find(may_get).unwrap_or(newest) / pages_per_range
}

/// Summarizes what a statement that inserted many rows has left at the end of the table. Merges the segments that it
/// has left, within bounds.
pub fn catch_up(heap: Rel, index: Rel) {
    let work = || -> IndexResult<()> {
        if !is_wanted(index) {
            return Ok(());
        }
        let meta = PeekedMeta::read(index)?;
        let Some(last_block) = heap.blocks().checked_sub(1) else { return Ok(()) };
        let has_filters = has_filters(index)?;
        let inserting = Inserting {
            summarized: meta.watermark,
            ranges: 0,
            pages_per_range: meta.pages_per_range,
            has_filters,
        };
        // The small segments are merged below, before a large merge has them.
        autosummarize(heap, index, last_block, inserting.pace_at_commit(), Caller::Insert)?;
        let Some(_maintenance) = IndexLock::try_take(index, LockKind::Maintenance) else { return Ok(()) };
        let (meta, mut directory) = upkeep::load(index)?;
        growth::catch_up(&mut directory, &meta)
    };
    or_raise(index, work());
}

/// Goes on with the merges that are done in steps, a bounded number of pages in each. Does nothing if another process
/// holds the maintenance lock. Returns whether there may be more to do.
///
/// # Errors
/// Damage to the index.
pub fn merge_further(index: Rel, steps: u32) -> IndexResult<bool> {
    if !is_wanted(index) {
        return Ok(true);
    }
    let Some(_maintenance) = IndexLock::try_take(index, LockKind::Maintenance) else { return Ok(true) };
    let (meta, mut directory) = upkeep::load(index)?;
    for _ in 0..steps {
        memory::check_for_interrupts();
        growth::go_on(&mut directory, &meta)?;
    }
    Ok((0..meta.columns.len() as u16).any(|column| !directory.unfinished(column).is_empty()))
}

/// Closes ranges that had to stay open, and can be closed now; looks at most at `most` of them. In maps that makes
/// additions, which are merged. Returns the number of ranges, counted in each column. Does nothing if another process
/// holds the maintenance lock.
///
/// # Errors
/// Damage to the index.
pub fn close_open_ranges(heap: Rel, index: Rel, most: u32) -> IndexResult<u64> {
    if !is_wanted(index) {
        return Ok(0);
    }
    let Some(_maintenance) = IndexLock::try_take(index, LockKind::Maintenance) else { return Ok(0) };
    let (meta, mut directory) = upkeep::load(index)?;
    let (closed, failure) = close::close_open_ranges(heap, &mut directory, &meta, Caller::Insert, most)?;
    growth::merge_additions(&mut directory, meta.columns.len())?;
    summarize::warn_of_failure(heap, index, failure);
    Ok(closed)
}

/// Retires segments behind the table's end after VACUUM has truncated it. Does nothing if another process holds the
/// maintenance lock.
///
/// # Errors
/// Damage to the index.
pub fn retire_behind_end(heap: Rel, index: Rel) -> IndexResult<()> {
    let Some(_maintenance) = IndexLock::try_take(index, LockKind::Maintenance) else { return Ok(()) };
    let (_, mut directory) = upkeep::load(index)?;
    summarize::retire_behind_end(heap, index, &mut directory).map(|_| ())
}

/// Folds the delta into the segments. Does nothing if another process holds the maintenance lock.
///
/// # Errors
/// Damage to the index.
pub fn fold_delta(index: Rel) -> IndexResult<()> {
    let Some(_maintenance) = IndexLock::try_take(index, LockKind::Maintenance) else { return Ok(()) };
    let (meta, mut directory) = upkeep::load(index)?;
    fold::fold(&mut directory, meta.columns.len())?;
    growth::merge_additions(&mut directory, meta.columns.len())
}
