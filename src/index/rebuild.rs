//! Rebuilding what rows that are gone have left: filters that have filled up, pairs of maps that no row has any more,
//! bounds that are too wide; and neighbouring segments of filters whose sizes vary so much that they cannot be merged.
//!
//! VACUUM and skip_summarize find the ranges that are worth it, read them from the table again, and replace their
//! segments by new ones ([`rebuild_filters`], [`rebuild_maps`], [`rebuild_bounds`]). The order of steps that makes this
//! safe beside inserts and readers is in [`crate::pages::upkeep::rescan`]. REINDEX is not needed for upkeep.
//!
//! VACUUM reads a bounded part of the table again in each call; the next one goes on. Of filters it takes the fullest
//! ranges first. A range that was read again is not full any more, so the calls make progress. Of maps, which do not
//! tell which ranges their superfluous pairs are in, it takes the ranges in turn, and the directory has a note of where
//! to go on.
//!
//! A range that cannot be hashed at present keeps what it has: that is too much, but together with the delta it is
//! right. The caller holds the maintenance lock.

use super::collect::Failure;
use super::rebuild_work::RebuildWork;
use super::summarize::Caller;
use super::{rebuild_bounds, rebuild_filters, rebuild_maps};
use crate::pages::directory::Directory;
use crate::pages::meta::Meta;
use crate::pg::{Rel, error::IndexResult, settings};

/// Unless `pg_skip.vacuum_rebuild_pages` is set, one VACUUM reads at most 1/4 of the table again for each column with a
/// map, 1/4 for all columns with filters together, and 1/4 for all columns with bounds together. So no kind of segment
/// waits for another one. Not tuned.
const BUDGET_DIVISOR: u32 = 4;
/// Each of these budgets has at least this number of blocks: 128 MB.
const LEAST_BLOCKS: u32 = 16_384;

/// Rebuilds what is worth it, within the caller's budget. Returns the first failure of users' code. The caller holds
/// the maintenance lock and has folded the delta, but for a few entries.
///
/// # Errors
/// Damage to the index.
pub fn rebuild<'a>(
    heap: Rel<'a>,
    directory: &mut Directory<'a>,
    meta: &Meta,
    caller: Caller,
) -> IndexResult<Option<Failure>> {
    // An index that is not valid is still being compared with the table, or will be dropped.
    if !directory.index().is_valid_index() || !meta.hashes_match() {
        return Ok(None);
    }
    let blocks = match caller {
        Caller::Vacuum => {
            let share = || (heap.blocks() / BUDGET_DIVISOR).max(LEAST_BLOCKS);
            settings::vacuum_rebuild_pages().unwrap_or_else(share)
        }
        Caller::Function => u32::MAX,
        Caller::Build | Caller::Insert | Caller::Worker => 0,
    };
    if blocks == 0 {
        return Ok(None);
    }
    let mut work = RebuildWork::new(heap, meta, caller == Caller::Vacuum);
    rebuild_filters::rebuild(directory, &mut work, blocks)?;
    rebuild_bounds::rebuild(directory, &mut work, blocks)?;
    // Last, because it alone needs temporary files, and much free space in the index.
    rebuild_maps::rebuild(directory, &mut work, blocks)?;
    Ok(work.failure)
}
