//! aminsert.
//!
//! A tuple in a range not summarized yet needs nothing: that is the common append, and it costs one look at
//! the meta page. A tuple in a summarized range goes to the delta, column by column, unless the filter has its
//! value already. The watermark is read after the tuple is on its heap page, for each tuple anew: see
//! [`crate::pages::meta::Progress`].
//!
//! Inserts also keep the index in shape, within bounds: the first tuple of a heap block may summarize ranges
//! that have filled up behind it ([`autosummarize`]), and an insert that makes the delta too long folds it.

use super::summarize::{self, Plan};
use crate::hash::{self, KeyHasher};
use crate::pages::delta::{self, DeltaEntry};
use crate::pages::directory::{self, Segment};
use crate::pages::meta::{Meta, Progress};
use crate::pages::segment::{self, Fetch, Group, Miss};
use crate::pages::upkeep::{self, fold, merge};
use crate::pg::am::{InsertCache, Place};
use crate::pg::error::{Read, or_raise};
use crate::pg::evaluate::IndexRow;
use crate::pg::lock::{Part, PartLock};
use crate::pg::options::Options;
use crate::pg::sandbox::{Sandbox, in_recovery};
use crate::pg::{Rel, memory::Scratch, wal::Logging};
use skip_core::page::PAGE;

/// Ranges summarized at a time: a byte of bits, the narrowest segment that wastes none. A small table takes fewer, which are
/// merged soon.
const BATCH: u32 = 8;
/// Complete ranges left alone behind the newest one: other backends may still be filling them (a backend that
/// extends a table in bulk gets up to 64 blocks at a time). Of a small table fewer: what comes into them is soon folded.
const LAG: u32 = 4;
/// The most ranges that one insert summarizes, however far summarizing is behind.
const MOST_AT_ONCE: u32 = 64;
/// The most blocks that a merge by an insert writes; wider merges are left to VACUUM.
const MOST_MERGED_BLOCKS: u32 = 512;

/// Rows in a row whose values are looked up in the same 64 ranges before those are read as a whole. Reading them
/// costs about as much as looking up some 400 values one by one.
const STREAK: u32 = 256;
/// The most memory for 64 ranges read as a whole, in bytes.
const MOST_GROUP_BYTES: u64 = 8 << 20;

/// What a statement's inserts keep from row to row. None of it is needed for correctness: the watermark is read
/// anew for each row, and an old list of segments is dropped when the generation has risen. Until then a segment
/// in it is live, or its bits have been carried over, or its ranges match everything.
pub struct InsertState {
    meta: Meta,
    hashers: Vec<Option<KeyHasher>>,
    segments: Vec<Segment>,
    /// For each column the 64 ranges that rows came into last: segment, number of the group, rows so far, and
    /// the bits once there were enough of them.
    groups: Vec<Option<RecentGroup>>,
}

struct RecentGroup {
    segment: u64,
    number: u32,
    rows: u32,
    bits: Option<Group>,
}

impl InsertState {
    fn new(index: Rel) -> Read<Self> {
        let meta = Meta::read(index)?;
        let hashers = hash::column_hashers(index, &meta);
        let groups = meta.columns.iter().map(|_| None).collect();
        let mut state = Self { meta, hashers, segments: Vec::new(), groups };
        state.read_segments(index)?;
        Ok(state)
    }

    fn read_segments(&mut self, index: Rel) -> Read<()> {
        self.segments = directory::segments(index, &self.meta, |_| true)?;
        self.groups.iter_mut().for_each(|group| *group = None);
        Ok(())
    }

    /// Reads the segments again if some were retired since.
    fn refresh(&mut self, index: Rel) -> Read<()> {
        let meta = Meta::read(index)?;
        if self.meta.generation != meta.generation {
            self.meta = meta;
            self.read_segments(index)?;
        }
        Ok(())
    }

    /// As [`InsertState::lacking`], in memory that is freed afterwards: hashing may detoast.
    fn hash_row(&mut self, index: Rel, row: &IndexRow<'_>, range: u32) -> Read<Vec<DeltaEntry>> {
        Scratch::new().run(|| self.lacking(index, row, range))
    }

    /// The row's values that the filters do not have yet. Bits of a segment are never taken away while it is live,
    /// and merges carry them over, so what a filter has now it will have.
    fn lacking(&mut self, index: Rel, row: &IndexRow<'_>, range: u32) -> Read<Vec<DeltaEntry>> {
        let mut lacking = Vec::new();
        for column in 0..self.hashers.len() {
            // A column that this build hashes otherwise rules nothing out, so it needs no entries either.
            let Some(hasher) = &mut self.hashers[column] else { continue };
            let hash = row.value(column, hasher.repr()).map(|value| hasher.hash(value));
            let entry = DeltaEntry { range, column: column as u16, hash };
            if !self.is_in_filter(index, &entry)? {
                lacking.push(entry);
            }
        }
        Ok(lacking)
    }

    fn is_in_filter(&mut self, index: Rel, entry: &DeltaEntry) -> Read<bool> {
        let key = (entry.column, entry.range);
        let at = self.segments.partition_point(|s| (s.column, s.first_range) <= key);
        let Some(segment) = at.checked_sub(1).map(|at| self.segments[at]) else { return Ok(false) };
        if segment.column != entry.column || entry.range >= segment.end_range() {
            return Ok(false);
        }
        let index = self.meta.bind(index);
        let found = match self.recent_group(index, &segment, entry.range) {
            Ok(Some(group)) => Ok(group.has_entry(entry.hash, entry.range - segment.first_range)),
            Ok(None) => segment::has_entry(index, &segment, entry.range, entry.hash),
            Err(miss) => Err(miss),
        };
        match found {
            Ok(found) => Ok(found),
            Err(Miss::Recycled(_)) => Ok(false),
            Err(Miss::Damage(damage)) => Err(damage),
        }
    }

    /// The bits of the 64 ranges around `range`, if rows keep coming into them: as with CREATE INDEX CONCURRENTLY,
    /// which hands every row of the table to aminsert.
    fn recent_group(&mut self, index: Rel, segment: &Segment, range: u32) -> Fetch<Option<&Group>> {
        let number = (range - segment.first_range) / 64;
        let recent = &mut self.groups[usize::from(segment.column)];
        if recent.as_ref().is_none_or(|r| (r.segment, r.number) != (segment.id, number)) {
            *recent = Some(RecentGroup { segment: segment.id, number, rows: 0, bits: None });
        }
        let Some(recent) = recent else { return Ok(None) };
        recent.rows = recent.rows.saturating_add(1);
        let shape = segment.shape()?;
        if recent.bits.is_none() && recent.rows > STREAK && u64::from(shape.slices()) * 8 <= MOST_GROUP_BYTES
        {
            recent.bits = Some(Group::read(index, segment, &shape, number)?);
        }
        Ok(recent.bits.as_ref())
    }
}

/// Takes note of a new row.
pub fn insert(heap: Rel, index: Rel, row: &IndexRow<'_>, place: Place, mut cache: InsertCache<InsertState>) {
    let mut progress = or_raise(index, Progress::read(index));
    let range = place.block / progress.pages_per_range;
    if range < progress.watermark && place.offset == 1 {
        let ranges = heap.blocks().div_ceil(progress.pages_per_range);
        if summarize::is_cut_short(progress.watermark, ranges) {
            or_raise(index, forget_behind_end(heap, index));
            progress = or_raise(index, Progress::read(index));
        }
    }
    if range >= progress.watermark {
        let (batch, lag) = pace(progress.watermark);
        if place.offset == 1 && range - progress.watermark >= batch + lag {
            or_raise(index, autosummarize(heap, index, range));
        }
        return;
    }
    let state = cache.get_or_init(|| or_raise(index, InsertState::new(index)));
    let lacking = or_raise(index, state.refresh(index).and_then(|()| state.hash_row(index, row, range)));
    if lacking.is_empty() {
        return;
    }
    let pages = or_raise(index, delta::append(index, &lacking));
    if pages * PAGE as u64 > Options::of(index).delta_limit {
        or_raise(index, fold_delta(index));
    }
}

/// Ranges summarized at a time and ranges left alone, in a table of which so many are summarized. A batch costs as many pages as a
/// full one however few ranges it has, so that batches of one would cost a small table more than they save.
fn pace(summarized: u32) -> (u32, u32) {
    ((summarized / 2).clamp(2, BATCH), (summarized / 8).clamp(1, LAG))
}

/// Summarizes ranges behind the one that a row was just put into, if nobody else is at it, and merges the
/// newest narrow segments. Costs are bounded: so many ranges, so many blocks written.
fn autosummarize(heap: Rel, index: Rel, range: u32) -> Read<()> {
    if !Options::of(index).autosummarize || in_recovery() || !index.is_valid_index() {
        return Ok(());
    }
    let Some(_maintenance) = PartLock::try_take(index, Part::Maintenance) else { return Ok(()) };
    let sandbox = Sandbox::enter(heap);
    let scratch = Scratch::new();
    let failure = scratch.run(|| {
        let (meta, mut directory) = upkeep::open(index)?;
        let (batch, lag) = pace(meta.watermark);
        let behind = range.saturating_sub(lag).saturating_sub(meta.watermark);
        let end = meta.watermark + behind / batch * batch;
        if end == meta.watermark {
            return Ok(None);
        }
        let plan = Plan {
            logging: Logging::EachPage,
            partial: false,
            in_vacuum: false,
            progress: false,
            most: MOST_AT_ONCE,
        };
        let summary = summarize::summarize_to(heap, index, &mut directory, end, plan)?;
        for column in 0..meta.columns.len() {
            merge::merge_column(&mut directory, column as u16, MOST_MERGED_BLOCKS)?;
        }
        Ok(summary.failure)
    })?;
    drop(sandbox);
    summarize::warn_of_failure(heap, index, failure);
    Ok(())
}

/// Forgets what VACUUM cut off the table, if nobody else is at it.
fn forget_behind_end(heap: Rel, index: Rel) -> Read<()> {
    let Some(_maintenance) = PartLock::try_take(index, Part::Maintenance) else { return Ok(()) };
    let (_, mut directory) = upkeep::open(index)?;
    summarize::forget_behind_end(heap, index, &mut directory).map(|_| ())
}

/// Folds the delta into the segments, if nobody else is at it.
fn fold_delta(index: Rel) -> Read<()> {
    let Some(_maintenance) = PartLock::try_take(index, Part::Maintenance) else { return Ok(()) };
    let (meta, directory) = upkeep::open(index)?;
    fold::fold(&directory, meta.columns.len())?;
    Ok(())
}
