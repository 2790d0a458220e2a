//! amvacuumcleanup and skip_summarize: everything that maintenance can do, in one pass under the maintenance
//! lock.
//!
//! 1. Give back what lies behind the table's end, when VACUUM has cut it short (it does so after this callback, so at
//!    the next VACUUM, or at an insert before that).
//! 2. Fold the delta.
//! 3. Close ranges that stayed open because they held tuples that could not be hashed.
//! 4. Summarize new ranges, and gaps that a crash left.
//! 5. Merge neighbouring segments.

use super::summarize::{self, Caller, Summary};
use super::target::{self, Target};
use crate::index::collect::{self, Failure, RangeCollector, RangeCollectorOptions, Versions};
use crate::pages::directory::{Directory, Segment};
use crate::pages::meta::Meta;
use crate::pages::segment::{self, Bit, Miss};
use crate::pages::upkeep::{self, fold, merge};
use crate::pg::error::{Read, or_raise};
use crate::pg::lock::{Part, PartLock};
use crate::pg::sandbox::Sandbox;
use crate::pg::{Rel, attempt, boundary, memory};
use pgrx::pg_sys;
use pgrx::prelude::*;
use skip_segment::{NULLS_SLICE, OPEN_SLICE, VALUES_SLICE};

/// VACUUM is done with the table: summarize complete ranges and tidy up.
pub fn vacuum_cleanup(heap: Rel, index: Rel) {
    let caller = Caller::Vacuum;
    let _maintenance = PartLock::take(index, Part::Maintenance);
    or_raise(index, maintain(heap, index, caller));
}

/// Summarizes all ranges of an index that are not summarized yet, the trailing partial one too, folds the delta
/// and merges segments. Of a partitioned index, those of all partitions. Returns the number of ranges newly summarized.
#[pg_extern(sql = false)]
fn skip_summarize(index: pg_sys::Oid) -> i64 {
    boundary::callback(|| target::for_maintenance(index).map(|target| summarize_one(target) as i64).sum())
}

fn summarize_one(target: Target) -> u64 {
    if !target.index.rel().is_valid_index() {
        return 0;
    }
    let caller = Caller::Function;
    let ranges = {
        let _sandbox = Sandbox::enter(target.table.rel());
        let _maintenance = PartLock::take(target.index.rel(), Part::Maintenance);
        or_raise(target.index.rel(), maintain(target.table.rel(), target.index.rel(), caller)).ranges
    };
    target.keep_locks();
    ranges
}

fn maintain(heap: Rel, index: Rel, caller: Caller) -> Read<Summary> {
    let (_, mut directory) = upkeep::load(index)?;
    let meta = summarize::forget_behind_end(heap, index, &mut directory)?;
    fold::fold(&directory, meta.columns.len())?;
    let mut summary = Summary::default();
    // Users' code that fails must not fail VACUUM. In parallel mode that cannot be helped before PostgreSQL 17: the
    // ranges wait for autovacuum, or inserts, or skip_summarize.
    if attempt::is_possible() || !collect::runs_user_code(heap, index) {
        let (closed, failure) = close_open_ranges(heap, &directory, &meta, caller)?;
        let end = summarize::end_of_summarized(&meta, heap.blocks(), caller.takes_partial());
        summary = summarize::summarize_to(heap, index, &mut directory, end, caller)?;
        summary.ranges += closed;
        summarize::warn_of_failure(heap, index, failure.or(summary.failure.take()));
    }
    for column in 0..meta.columns.len() {
        merge::merge_column(&mut directory, column as u16, u32::MAX)?;
    }
    Ok(summary)
}

/// Summarizes the ranges whose open bit is set, in place: first all bits, then the open bit is cleared. Returns
/// the number of ranges closed, and what failed first.
fn close_open_ranges(
    heap: Rel,
    directory: &Directory,
    meta: &Meta,
    caller: Caller,
) -> Read<(u64, Option<Failure>)> {
    let index = directory.index();
    let mut collector: Option<RangeCollector> = None;
    let mut closed = 0;
    let blocks = heap.blocks();
    for segment in directory.all_segments() {
        let shape = segment.shape()?;
        let mut open = vec![0u64; shape.words()];
        segment::read_slice(index, &segment, &shape, OPEN_SLICE, |slice| {
            skip_segment::or_slice(&mut open, slice)
        })
        .map_err(Miss::not_recycled)?;
        let is_open = |r: &u32| open[(r / 64) as usize] >> (r % 64) & 1 != 0;
        for range in (0..segment.width).filter(is_open) {
            let options = RangeCollectorOptions {
                bulk: false,
                in_vacuum: caller == Caller::Vacuum,
                // What the segment's filter was made for, with room: more would only fill it up.
                most_hashes: memory::maintenance_work_mem() / 64,
                versions: Versions::All,
                may_fail: true,
            };
            let collector = collector.get_or_insert_with(|| RangeCollector::new(heap, index, meta, &options));
            let first = u64::from(segment.first_range + range) * u64::from(meta.pages_per_range);
            let end = first + u64::from(meta.pages_per_range);
            collector.collect(first.min(blocks.into()) as u32, end.min(blocks.into()) as u32);
            closed += u64::from(close_range(index, &segment, range, collector)?);
        }
    }
    Ok((closed, collector.and_then(|mut collector| collector.failure.take())))
}

fn close_range(index: Rel, segment: &Segment, range: u32, collector: &RangeCollector) -> Read<bool> {
    let contents = &collector.columns[usize::from(segment.column)];
    // A range that is open because of its many values would only fill the filter up.
    let most = u64::from(segment.filter_bits);
    if contents.state.open || contents.hashes.len() as u64 > most {
        return Ok(false);
    }
    let shape = segment.shape()?;
    let mut bits = Vec::new();
    bits.extend(contents.state.nulls.then(|| Bit::new(&shape, NULLS_SLICE, range)));
    bits.extend(contents.state.values.then(|| Bit::new(&shape, VALUES_SLICE, range)));
    for hash in contents.hashes.iter() {
        bits.extend(Bit::of_key(&shape, segment.num_probes, hash, range));
    }
    segment::set_bits(index, segment, &mut bits)?;
    segment::clear_bit(index, segment, Bit::new(&shape, OPEN_SLICE, range))?;
    Ok(true)
}
