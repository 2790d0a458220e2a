//! aminsert.
//!
//! A tuple in a range not summarized yet needs nothing: that is the common append, and it costs one look at
//! the meta page. A tuple in a summarized range goes to the delta, column by column, unless the filter has its
//! value already. The watermark is read after the tuple is on its heap page, under the meta page's lock, for each
//! tuple anew: see [`crate::pages::meta`].
//!
//! Inserts also keep the index in shape, within bounds: the first tuple of a heap block may summarize ranges
//! that have filled up behind it ([`autosummarize`]), and an insert that makes the delta too long folds it.

use super::summarize::{self, Plan};
use crate::hash::{self, KeyHasher};
use crate::pages::delta::{self, DeltaEntry};
use crate::pages::directory::{self, Segment};
use crate::pages::meta::{Meta, Progress};
use crate::pages::segment::{self, Miss};
use crate::pages::upkeep::{self, fold, merge};
use crate::pg::error::{Read, or_raise};
use crate::pg::evaluate::IndexRow;
use crate::pg::lock::{MAINTENANCE, PageLock};
use crate::pg::options::Options;
use crate::pg::sandbox::{Sandbox, in_recovery};
use crate::pg::{Rel, memory::Scratch, wal::Logging};
use skip_core::page::PAGE;

/// Ranges summarized at a time: a byte of bits, the narrowest segment that wastes none.
const BATCH: u32 = 8;
/// Complete ranges left alone behind the newest one: other backends may still be filling them (a backend that
/// extends a table in bulk gets up to 64 blocks at a time).
const LAG: u32 = 4;
/// The most ranges that one insert summarizes, however far summarizing is behind.
const MOST_AT_ONCE: u32 = 64;
/// The most blocks that a merge by an insert writes; wider merges are left to VACUUM.
const MOST_MERGED_BLOCKS: u32 = 512;

/// Takes note of a new row.
pub fn insert(heap: Rel, index: Rel, row: &IndexRow<'_>, block: u32, offset: u16) {
    let progress = or_raise(index, Progress::read(index));
    let range = block / progress.pages_per_range;
    if range >= progress.watermark {
        if offset == 1 && range - progress.watermark >= BATCH + LAG {
            or_raise(index, autosummarize(heap, index, range));
        }
        return;
    }
    let scratch = Scratch::new();
    let pages = scratch.run(|| or_raise(index, insert_into_delta(index, row, range)));
    if pages.is_some_and(|pages| pages * PAGE as u64 > Options::of(index).delta_limit) {
        or_raise(index, fold_delta(index));
    }
}

/// Puts the row's values into the delta; returns the number of delta pages, None if the filters had all.
fn insert_into_delta(index: Rel, row: &IndexRow<'_>, range: u32) -> Read<Option<u64>> {
    let meta = Meta::read(index)?;
    let index = meta.bind(index);
    let mut entries = Vec::with_capacity(meta.columns.len());
    for (column, hasher) in hash::column_hashers(index, &meta).into_iter().enumerate() {
        // A column that this build hashes otherwise rules nothing out, so it needs no entries either.
        let Some(mut hasher) = hasher else { continue };
        entries.push(entry(row, column, range, &mut hasher));
    }
    let lacking = lacking_in_filters(index, &meta, &entries)?;
    if lacking.is_empty() {
        return Ok(None);
    }
    delta::append(index, &lacking).map(Some)
}

fn entry(row: &IndexRow<'_>, column: usize, range: u32, hasher: &mut KeyHasher) -> DeltaEntry {
    let hash = row.value(column, hasher.repr()).map(|value| hasher.hash(value));
    DeltaEntry { range, column: column as u16, hash }
}

/// The entries that the filters do not have yet. Bits of a segment are never taken away while it is live, and
/// merges carry them over, so what a filter has now it will have.
fn lacking_in_filters(index: Rel, meta: &Meta, entries: &[DeltaEntry]) -> Read<Vec<DeltaEntry>> {
    let segments = directory::segments(index, meta, |_| true)?;
    let mut lacking = Vec::with_capacity(entries.len());
    for entry in entries {
        let covers =
            |s: &&Segment| s.column == entry.column && (s.first_range..s.end_range()).contains(&entry.range);
        let found = match segments.iter().find(covers) {
            Some(segment) => match segment::has_entry(index, segment, entry.range, entry.hash) {
                Ok(found) => found,
                Err(Miss::Recycled(_)) => false,
                Err(Miss::Damage(damage)) => return Err(damage),
            },
            None => false,
        };
        if !found {
            lacking.push(*entry);
        }
    }
    Ok(lacking)
}

/// Summarizes ranges behind the one that a row was just put into, if nobody else is at it, and merges the
/// newest narrow segments. Costs are bounded: so many ranges, so many blocks written.
fn autosummarize(heap: Rel, index: Rel, range: u32) -> Read<()> {
    if !Options::of(index).autosummarize || in_recovery() || !index.is_valid_index() {
        return Ok(());
    }
    let Some(_maintenance) = PageLock::try_take(index, MAINTENANCE) else { return Ok(()) };
    let _sandbox = Sandbox::enter(heap);
    let scratch = Scratch::new();
    scratch.run(|| {
        let (meta, mut directory) = upkeep::open(index)?;
        let behind = range.saturating_sub(LAG).saturating_sub(meta.watermark);
        let end = meta.watermark + (behind / BATCH * BATCH).min(MOST_AT_ONCE);
        if end == meta.watermark {
            return Ok(());
        }
        let plan = Plan { logging: Logging::EachPage, partial: false, in_vacuum: false, progress: false };
        summarize::summarize_to(heap, index, &mut directory, end, plan)?;
        for column in 0..meta.columns.len() {
            merge::merge_column(&mut directory, column as u16, MOST_MERGED_BLOCKS)?;
        }
        Ok(())
    })
}

/// Folds the delta into the segments, if nobody else is at it.
fn fold_delta(index: Rel) -> Read<()> {
    let Some(_maintenance) = PageLock::try_take(index, MAINTENANCE) else { return Ok(()) };
    let (meta, directory) = upkeep::open(index)?;
    fold::fold(&directory, meta.columns.len())?;
    Ok(())
}
