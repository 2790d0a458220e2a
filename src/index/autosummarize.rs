//! What an insert does to keep the index in shape, within bounds: it summarizes ranges that have filled up behind it,
//! folds a delta that became too long, and forgets what VACUUM cut off the table.
//!
//! Each takes the maintenance lock only if nobody has it: an insert never waits for maintenance.

use super::summarize::{self, Caller};
use crate::pages::upkeep::{self, fold};
use crate::pg::error::Read;
use crate::pg::lock::{Part, PartLock};
use crate::pg::options::Options;
use crate::pg::sandbox::{Sandbox, in_recovery};
use crate::pg::{Rel, memory::Scratch};

/// Ranges summarized at a time: a byte of bits, the narrowest segment that wastes none. A small table takes fewer,
/// which are merged soon.
const BATCH: u32 = 8;
/// Complete ranges left alone behind the newest one: other backends may still be filling them (a backend that
/// extends a table in bulk gets up to 64 blocks at a time). Of a small table fewer: what comes into them is soon
/// folded.
const LAG: u32 = 4;
/// The most blocks that a merge by an insert writes; wider merges are left to VACUUM.
const MOST_MERGED_BLOCKS: u32 = 512;

/// Ranges summarized at a time and ranges left alone, in a table of which so many are summarized. A batch costs as many
/// pages as a full one however few ranges it has, so that batches of one would cost a small table more than they save.
pub fn pace(summarized: u32) -> (u32, u32) {
    ((summarized / 2).clamp(2, BATCH), (summarized / 8).clamp(1, LAG))
}

/// Summarizes ranges behind the one that a row was just put into, if nobody else is at it, and merges the
/// newest narrow segments. The numbers of ranges and of blocks written are bounded.
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
        for column in 0..meta.columns.len() {
            upkeep::merge_column(&mut directory, column as u16, MOST_MERGED_BLOCKS)?;
        }
        Ok(summary.failure)
    })?;
    drop(sandbox);
    summarize::warn_of_failure(heap, index, failure);
    Ok(())
}

/// Forgets what VACUUM cut off the table, if nobody else is at it.
///
/// # Errors
/// Damage to the index.
pub fn forget_behind_end(heap: Rel, index: Rel) -> Read<()> {
    let Some(_maintenance) = PartLock::try_take(index, Part::Maintenance) else { return Ok(()) };
    let (_, mut directory) = upkeep::load(index)?;
    summarize::forget_behind_end(heap, index, &mut directory).map(|_| ())
}

/// Folds the delta into the segments, if nobody else is at it.
///
/// # Errors
/// Damage to the index.
pub fn fold_delta(index: Rel) -> Read<()> {
    let Some(_maintenance) = PartLock::try_take(index, Part::Maintenance) else { return Ok(()) };
    let (meta, mut directory) = upkeep::load(index)?;
    fold::fold(&mut directory, meta.columns.len())?;
    for (column, _) in meta.columns.iter().enumerate().filter(|(_, column)| column.map.is_some()) {
        upkeep::merge_column(&mut directory, column as u16, MOST_MERGED_BLOCKS)?;
    }
    Ok(())
}
