//! amvacuumcleanup and skip_summarize: everything that maintenance can do, in four tasks under the maintenance lock.
//! [`update`] brings what the index has up to date with the table:
//!
//! 1. Retire segments behind the table's end, if VACUUM has truncated the table. (It truncates after this callback, so
//!    this happens at the next VACUUM, or at an insert before that.)
//! 2. Fold the delta, and merge the additions to maps that this makes.
//! 3. Find blocks that a crash has lost.
//! 4. Finish the merges that inserts have begun.
//! 5. Close ranges that are open because they had tuples that could not be hashed.
//!
//! [`extend`] summarizes new ranges, and gaps that a crash left. [`rebuild`] replaces filters that have filled up, and
//! maps with many pairs of rows that are gone. [`tidy`] merges neighbouring segments, and moves segments to the front
//! if much of the index is free.
//!
//! If the server is short of disk space, of memory, of what `temp_file_limit` allows, or of transaction IDs, VACUUM
//! leaves the rest of the task to the next one, with a WARNING: a VACUUM that fails again and again leaves the table's
//! old transaction IDs where they are, until the server takes no more commands. The other tasks are done all the same,
//! as each may need less, and [`tidy`] ends what the task before it has left. Only [`rebuild`] is left out if the disk
//! was full: it reads up to a quarter of the table before it writes. Each step can be interrupted anywhere, as by a
//! crash. (This is about memory of the server. If the system refuses memory to Rust's own code, VACUUM's process ends:
//! `src/pg/allocator.rs`.)
//!
//! VACUUM also cuts off the end of the index, right before it commits ([`cut_off`]). A standby keeps the locks for that
//! until the commit, and other indexes may still be cleaned up for minutes after this one. The locks need a
//! transaction ID, as do the locks with which VACUUM cuts off tables.

use super::summarize::{self, Caller, Summary};
use super::target::{self, Target};
use super::{build, close, collect, rebuild};
use crate::pages::upkeep::{self, compact, lost, unfinished};
use crate::pg::attempt::{self, Failed};
use crate::pg::error::{IndexResult, or_raise, report};
use crate::pg::lock::{IndexLock, LockKind};
use crate::pg::memory::Scratch;
use crate::pg::sandbox::Sandbox;
use crate::pg::{Rel, at_commit, boundary};
use pgrx::pg_sys;
use pgrx::prelude::*;

/// A task of maintenance. Each loads the directory anew, which ends what an interrupted one has left.
type Task = fn(Rel, Rel, Caller) -> IndexResult<Summary>;

/// Maintenance after VACUUM has processed the table: summarizes complete ranges, folds and merges.
pub fn vacuum_cleanup(heap: Rel, index: Rel) {
    let _maintenance = IndexLock::take(index, LockKind::Maintenance);
    let (mut failure, mut failed) = (None, None::<Failed>);
    for (task, reads_first) in [(update as Task, false), (extend, false), (rebuild, true), (tidy, false)] {
        if reads_first && failed.as_ref().is_some_and(Failed::is_of_full_disk) {
            continue;
        }
        match run_task(task, heap, index) {
            Ok(summary) => failure = failure.take().or(summary.failure),
            Err(limit) => failed = failed.take().or(Some(limit)),
        }
    }
    summarize::warn_of_failure(heap, index, failure);
    if let Some(failed) = failed {
        let hint = "Free disk space, raise temp_file_limit, or lower pg_skip.vacuum_rebuild_pages; then VACUUM again.";
        warn_of_limit(
            index,
            &failed,
            "Queries return all rows, but may read more pages than necessary.",
            hint,
        );
    }
}

fn warn_of_limit(index: Rel, failed: &Failed, detail: &str, hint: &str) {
    report(
        PgLogLevel::WARNING,
        PgSqlErrorCode::ERRCODE_WARNING,
        format!("VACUUM could not finish the maintenance of index \"{}\": {}", index.name(), failed.message),
        Some(detail.into()),
        Some(hint.into()),
    );
}

/// Does a task of VACUUM.
///
/// # Errors
/// The server is short of something.
fn run_task(task: Task, heap: Rel, index: Rel) -> Result<Summary, Failed> {
    let work = || or_raise(index, task(heap, index, Caller::Vacuum));
    // A parallel VACUUM cannot catch errors before PostgreSQL 17.
    if !attempt::is_possible() {
        return Ok(work());
    }
    // The memory of a task that failed is not kept until VACUUM ends.
    Scratch::new().run(|| attempt::attempt_within_limits(work))
}

/// Summarizes all ranges of an index that are not summarized yet, including the trailing partial one, folds the delta
/// and merges segments. For a partitioned index, it does so for all partitions. Returns the number of ranges newly
/// summarized, and of open ranges closed, counted in each column.
#[pg_extern(sql = false)]
fn skip_summarize(index: pg_sys::Oid) -> i64 {
    boundary::callback(|| target::for_maintenance(index).map(|target| summarize_one(target) as i64).sum())
}

fn summarize_one(target: Target) -> u64 {
    if !target.index.rel().is_valid_index() {
        return 0;
    }
    let caller = Caller::Function;
    build::refuse_during_build(target.index.rel());
    let ranges = {
        let _sandbox = Sandbox::enter(target.table.rel());
        let _maintenance = IndexLock::take(target.index.rel(), LockKind::Maintenance);
        let run =
            |task: Task| or_raise(target.index.rel(), task(target.table.rel(), target.index.rel(), caller));
        let summaries = [run(update), run(extend), run(rebuild), run(tidy)];
        let ranges = summaries.iter().map(|summary| summary.ranges).sum();
        let failure = summaries.into_iter().find_map(|summary| summary.failure);
        summarize::warn_of_failure(target.table.rel(), target.index.rel(), failure);
        ranges
    };
    target.keep_locks();
    ranges
}

/// Brings what the index has up to date with the table, without reading ranges again that are summarized.
fn update(heap: Rel, index: Rel, caller: Caller) -> IndexResult<Summary> {
    let (_, mut directory) = upkeep::load(index)?;
    let meta = summarize::retire_behind_end(heap, index, &mut directory)?;
    upkeep::fold_and_merge(&mut directory, meta.columns.len(), None)?;
    lost::reclaim(&mut directory)?;
    unfinished::finish_all(&mut directory, meta.columns.len())?;
    if !may_read_rows(heap, index) {
        return Ok(Summary::default());
    }
    let (ranges, failure) = close::close_open_ranges(heap, &mut directory, &meta, caller, u32::MAX)?;
    Ok(Summary { ranges, failure, ..Summary::default() })
}

/// Summarizes what is not summarized.
fn extend(heap: Rel, index: Rel, caller: Caller) -> IndexResult<Summary> {
    if !may_read_rows(heap, index) {
        return Ok(Summary::default());
    }
    let (_, mut directory) = upkeep::load(index)?;
    // The update may have failed before it did this.
    let meta = summarize::retire_behind_end(heap, index, &mut directory)?;
    let end = summarize::end_of_summarized(&meta, heap.blocks(), caller.takes_partial());
    summarize::summarize_to(heap, index, &mut directory, end, caller)
}

/// Users' code that fails must not make VACUUM fail. A parallel VACUUM cannot catch errors before PostgreSQL 17: the
/// ranges are then left to autovacuum, inserts or skip_summarize.
fn may_read_rows(heap: Rel, index: Rel) -> bool {
    attempt::is_possible() || !collect::runs_user_code(heap, index)
}

/// Replaces what rows that are gone have left.
fn rebuild(heap: Rel, index: Rel, caller: Caller) -> IndexResult<Summary> {
    if !may_read_rows(heap, index) {
        return Ok(Summary::default());
    }
    let (meta, mut directory) = upkeep::load(index)?;
    // The update may have failed before it did this, or rows have come since. A fold renews the last page of the delta,
    // which is not worth it for a few entries.
    if meta.delta_pages() > 1 {
        upkeep::fold_and_merge(&mut directory, meta.columns.len(), None)?;
    }
    let failure = rebuild::rebuild(heap, &mut directory, &meta, caller)?;
    Ok(Summary { failure, ..Summary::default() })
}

/// Merges segments, and gives free blocks back.
fn tidy(heap: Rel, index: Rel, caller: Caller) -> IndexResult<Summary> {
    let (meta, mut directory) = upkeep::load(index)?;
    for column in 0..meta.columns.len() {
        upkeep::merge_column(&mut directory, column as u16)?;
    }
    compact::compact(&mut directory)?;
    // A worker of a parallel VACUUM does not commit, and forgets it: then a later VACUUM cuts the index off.
    if caller == Caller::Vacuum && compact::may_shorten(heap, &directory)? {
        at_commit::before_commit(index, cut_off);
    }
    Ok(Summary::default())
}

/// Cuts off the end of an index, unless another process maintains it. An error would undo all that VACUUM has done. So
/// VACUUM must not fail here if no transaction IDs are left: VACUUM is what makes the server assign new ones again.
fn cut_off(heap: Rel, index: Rel) {
    let Some(_maintenance) = IndexLock::try_take(index, LockKind::Maintenance) else { return };
    let shorten =
        || or_raise(index, upkeep::load(index).and_then(|mut all| compact::shorten(heap, &mut all.1)));
    if let Err(failed) = attempt::attempt_within_limits(shorten) {
        let hint = "A later VACUUM gives the free blocks back.";
        warn_of_limit(index, &failed, "The index keeps free blocks at its end.", hint);
    }
}
