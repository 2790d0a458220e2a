//! Maintenance by inserts, within bounds: they summarize ranges that have filled up, fold a delta that is too long, and
//! retire segments behind the table's end after VACUUM has truncated it.
//!
//! Each of these takes the maintenance lock only if it is free: an insert never waits for maintenance.

use super::summarize::{self, Caller};
use crate::pages::upkeep::{self, fold, growth};
use crate::pg::error::Read;
use crate::pg::lock::{Part, PartLock};
use crate::pg::options::Options;
use crate::pg::sandbox::{Sandbox, in_recovery};
use crate::pg::{Rel, memory::Scratch};

/// The most ranges summarized at a time: 8 ranges are one byte of a slice, so this is the narrowest segment without
/// unused bits. In a small table a batch has fewer ranges, and their segments are merged soon.
const BATCH: u32 = 8;
/// The most complete ranges that are left out behind the newest one: other backends may still be filling them (a
/// backend that extends a table in bulk gets up to 64 blocks at a time). In a small table fewer are left out; rows that
/// come into the summarized ones are soon folded.
const LAG: u32 = 4;

/// New blocks of the table from one step of merges to the next: so few that the steps can be small, and so many that it
/// costs nothing to find out that there is no merge to go on with.
const BLOCKS_A_STEP: u32 = 16;

/// Whether the first row of a new block gives cause for a step of merges.
pub fn is_step(block: u32) -> bool {
    block.is_multiple_of(BLOCKS_A_STEP)
}

/// The number of ranges in a batch, and of complete ranges left out, when `summarized` ranges are summarized. A batch
/// costs the same number of pages for any number of ranges, so batches of one range would cost a small table more than
/// they save.
pub fn pace(summarized: u32) -> (u32, u32) {
    ((summarized / 2).clamp(2, BATCH), (summarized / 8).clamp(1, LAG))
}

/// Summarizes ranges behind the one that a row was just inserted into, and merges segments. Does nothing if another
/// process holds the maintenance lock. The numbers of ranges and of blocks written are bounded.
///
/// # Errors
/// Damage to the index.
pub fn autosummarize(heap: Rel, index: Rel, range: u32) -> Read<()> {
    if !Options::of(index).autosummarize || in_recovery() || !index.is_valid_index() {
        return Ok(());
    }
    let Some(_maintenance) = PartLock::try_take(index, Part::Maintenance) else { return Ok(()) };
    let sandbox = Sandbox::enter(heap);
    let scratch = Scratch::new();
    let failure = scratch.run(|| -> Read<_> {
        let (meta, mut directory) = upkeep::load(index)?;
        let (batch, lag) = pace(meta.watermark);
        let behind = range.saturating_sub(lag).saturating_sub(meta.watermark);
        let end = meta.watermark + behind / batch * batch;
        if end == meta.watermark {
            return Ok(None);
        }
        let summary = summarize::summarize_to(heap, index, &mut directory, end, Caller::Insert)?;
        growth::merge_some(&mut directory, meta.columns.len())?;
        Ok(summary.failure)
    })?;
    drop(sandbox);
    summarize::warn_of_failure(heap, index, failure);
    Ok(())
}

/// Goes on with the merges that are done in steps, a bounded number of pages. Does nothing if another process holds the
/// maintenance lock.
///
/// # Errors
/// Damage to the index.
pub fn merge_further(index: Rel) -> Read<()> {
    if !Options::of(index).autosummarize || in_recovery() || !index.is_valid_index() {
        return Ok(());
    }
    let Some(_maintenance) = PartLock::try_take(index, Part::Maintenance) else { return Ok(()) };
    let (meta, mut directory) = upkeep::load(index)?;
    growth::go_on(&mut directory, meta.columns.len())
}

/// Retires segments behind the table's end after VACUUM has truncated it. Does nothing if another process holds the
/// maintenance lock.
///
/// # Errors
/// Damage to the index.
pub fn forget_behind_end(heap: Rel, index: Rel) -> Read<()> {
    let Some(_maintenance) = PartLock::try_take(index, Part::Maintenance) else { return Ok(()) };
    let (_, mut directory) = upkeep::load(index)?;
    summarize::forget_behind_end(heap, index, &mut directory).map(|_| ())
}

/// Folds the delta into the segments. Does nothing if another process holds the maintenance lock.
///
/// # Errors
/// Damage to the index.
pub fn fold_delta(index: Rel) -> Read<()> {
    let Some(_maintenance) = PartLock::try_take(index, Part::Maintenance) else { return Ok(()) };
    let (meta, mut directory) = upkeep::load(index)?;
    fold::fold(&mut directory, meta.columns.len())?;
    growth::merge_additions(&mut directory, meta.columns.len())
}
