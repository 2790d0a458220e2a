//! Summarizing block ranges: used by CREATE INDEX, VACUUM, skip_summarize and autosummarize.
//!
//! The order of steps makes it safe while inserts continue (see [`crate::pages::meta`]): raise the watermark, in WAL;
//! then scan the heap; then write the segments; then publish them. Until then the ranges have no filter and match. A
//! crash or error in between leaves a gap in the directory, which the next maintenance fills. Callers hold the
//! maintenance lock, but for CREATE INDEX, whose index no other process uses.

use super::choose::{self, LayoutChoice};
use super::collect::{Failure, RangeCollector, RangeCollectorOptions, Versions, memory_of_column};
use super::phase::Phase;
use super::place::{ColumnPlacer, Neighbours, PlacerSettings};
use super::refine;
use crate::pages::directory::Directory;
use crate::pages::entry::Segment;
use crate::pages::meta::{self, Meta};
use crate::pages::upkeep::regions::{self, Region};
use crate::pg::error::{IndexResult, report};
use crate::pg::{Rel, am, catalog, memory};
use pgrx::{PgLogLevel, PgSqlErrorCode};
use skip_segment::pace::{most_batch, most_left};
use skip_segment::spans;

/// The caller of summarizing, which determines how it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// CREATE INDEX and REINDEX: no other process uses the index yet.
    Build,
    /// VACUUM, also by autovacuum.
    Vacuum,
    /// An insert, after ranges behind its own have filled up.
    Insert,
    /// The background worker of an index.
    Worker,
    /// skip_summarize.
    Function,
}

impl Caller {
    /// Whether the trailing range that is not complete yet is summarized too. VACUUM and inserts summarize it later.
    pub fn takes_partial(self) -> bool {
        matches!(self, Caller::Build | Caller::Function)
    }

    /// Whether progress is reported as that of CREATE INDEX.
    fn shows_progress(self) -> bool {
        self == Caller::Build
    }

    /// Whether the table is read through a small ring of buffers.
    fn reads_in_bulk(self) -> bool {
        matches!(self, Caller::Build | Caller::Vacuum)
    }

    /// The most ranges to scan. One insert scans many batches of a small statement, so that inserts catch up after a
    /// time without maintenance, but not more. The worker does the same in one transaction.
    fn most_ranges(self, meta: &Meta) -> u32 {
        let is_bounded = matches!(self, Caller::Insert | Caller::Worker);
        if is_bounded { most_batch(meta.pages_per_range) } else { u32::MAX }
    }

    /// The most ranges to scan of those that an earlier attempt left, because it was cancelled or failed. For an insert
    /// a usual batch: after a larger one, statement_timeout may end each insert that tries. Nobody waits for the
    /// worker.
    fn most_left(self, meta: &Meta) -> u32 {
        if self == Caller::Insert {
            most_left(meta.pages_per_range, meta.has_filters())
        } else {
            self.most_ranges(meta)
        }
    }
}

/// The number of ranges by which the watermark is raised at a time. When summarizing is interrupted, at most this
/// number of ranges is left without a filter although their rows go through the delta. It is also the most that
/// segments are wide before they are merged, except in a build: a quarter of a page of bits per slice.
const STEP: u32 = 16_256;

/// The result of summarizing.
#[derive(Default)]
pub struct Summary {
    /// Ranges newly summarized.
    pub ranges: u64,
    /// Of these, the ranges that stayed open, counted in each column.
    pub open: u64,
    /// Number of rows that look live in these ranges.
    pub live_rows: f64,
    /// The first failure in users' code; its range is open.
    pub failure: Option<Failure>,
}

impl Summary {
    fn add(&mut self, more: Self) {
        self.ranges += more.ranges;
        self.open += more.open;
        self.live_rows += more.live_rows;
        self.failure = self.failure.take().or(more.failure);
    }
}

/// The gaps in the segments of each column: the ranges below `end` without a filter, as (first, end).
pub fn gaps(directory: &Directory, columns: usize, end: u32) -> Vec<Vec<(u32, u32)>> {
    (0..columns)
        .map(|column| spans::gaps(directory.segments(column as u16).iter().map(Segment::span), end))
        .collect()
}

/// Summarizes at most `most` ranges below `end` that have no filter yet. The watermark has been raised to `end` before,
/// and the table's size is read only now: a block that was added before the watermark rose must be scanned. The caller
/// holds the maintenance lock, or the index is new.
///
/// # Errors
/// Damage to the index.
fn fill_gaps(
    heap: Rel,
    index: Rel,
    directory: &mut Directory,
    end: u32,
    most: u32,
    caller: Caller,
) -> IndexResult<Summary> {
    let blocks = heap.blocks();
    let meta = Meta::read(index)?;
    let index = meta.bind(index);
    let gaps = gaps(directory, meta.columns.len(), end);
    let stretches = spans::stretches(&gaps);
    if stretches.is_empty() {
        return Ok(Summary::default());
    }
    let options = collector_options(caller, memory_of_column(&meta));
    let mut filler = GapFiller {
        collector: RangeCollector::new(heap, index, &meta, &options),
        placers: placers(index, &meta, caller),
        meta: &meta,
        blocks,
        shows_progress: caller.shows_progress(),
    };
    let (mut ranges, mut open) = (0, 0);
    for stretch in stretches {
        let left = u64::from(most).saturating_sub(ranges) as u32;
        let span = (stretch.first, stretch.end.min(stretch.first.saturating_add(left)));
        if span.0 == span.1 {
            break;
        }
        open += filler.fill(directory, &stretch.columns, span)?;
        ranges += u64::from(span.1 - span.0);
    }
    let mut collector = filler.collector;
    if collector.overflowed {
        warn_of_overflow(index);
    }
    Ok(Summary { ranges, open, live_rows: collector.live_rows, failure: collector.failure.take() })
}

/// How ranges are collected for a caller. The values of a range and column take at most `memory` bytes.
pub fn collector_options(caller: Caller, memory: usize) -> RangeCollectorOptions {
    RangeCollectorOptions {
        bulk: caller.reads_in_bulk(),
        in_vacuum: caller == Caller::Vacuum,
        memory,
        versions: Versions::All,
        // CREATE INDEX fails if users' code fails, as with any access method.
        may_fail: caller != Caller::Build,
    }
}

/// The placers of all columns.
pub fn placers<'a>(index: Rel<'a>, meta: &Meta, caller: Caller) -> Vec<ColumnPlacer<'a>> {
    let place = PlacerSettings {
        index,
        is_build: caller == Caller::Build,
        memory: memory_of_column(meta) / 2,
        pages_per_range: meta.pages_per_range,
    };
    let columns = meta.columns.iter().enumerate();
    columns.map(|(c, column)| ColumnPlacer::new(&place, c as u16, column)).collect()
}

/// Scans ranges of the table, and makes segments of what they hold.
struct GapFiller<'a> {
    collector: RangeCollector<'a>,
    placers: Vec<ColumnPlacer<'a>>,
    meta: &'a Meta,
    /// Number of blocks of the table.
    blocks: u32,
    shows_progress: bool,
}

impl GapFiller<'_> {
    /// Fills a gap, which these columns have in common. Returns the number of ranges that stay open, counted in each
    /// column.
    fn fill(
        &mut self,
        directory: &mut Directory,
        columns: &[usize],
        (from, to): (u32, u32),
    ) -> IndexResult<u64> {
        for &c in columns {
            let segments = directory.segments(c as u16);
            let before = segments.iter().rfind(|s| s.end_range() <= from).copied();
            let after = segments.iter().find(|s| s.first_range >= to).copied();
            self.placers[c].start_at(from, to, Neighbours { before, after })?;
        }
        let mut open = 0;
        for range in from..to {
            let of_range = self.meta.blocks_of(range, self.blocks);
            let is_partial = self.meta.is_partial(range, self.blocks);
            self.collector.collect(of_range.clone());
            for &c in columns {
                let contents = self.collector.columns[c].contents();
                self.placers[c].push(directory, contents, is_partial)?;
                open += u64::from(contents.state.open);
            }
            if self.shows_progress {
                am::progress_blocks_done(of_range.end);
            }
        }
        if self.shows_progress {
            Phase::Write.begin();
        }
        for &c in columns {
            self.placers[c].finish(directory)?;
        }
        Ok(open)
    }
}

/// Warns of ranges with too many values.
pub fn warn_of_overflow(index: Rel) {
    report(
        PgLogLevel::WARNING,
        PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        format!(
            "some block ranges of index \"{}\" have more distinct values than maintenance_work_mem allows",
            index.name()
        ),
        Some("These ranges are left open: every query reads them.".into()),
        Some("Raise maintenance_work_mem, or choose a smaller pages_per_range, and REINDEX.".into()),
    );
}

/// Warns of a row for which users' code failed: maintenance has continued without it.
pub fn warn_of_failure(heap: Rel, index: Rel, failure: Option<Failure>) {
    let Some(Failure { block, message }) = failure else { return };
    // The message may quote the row to a user who inserts another row, or runs VACUUM, and may not read this one.
    let may_read = catalog::may_be_read_by(heap.oid(), catalog::outer_user());
    let message =
        if may_read { message } else { "the error is shown only to roles that may read the table".into() };
    report(
        PgLogLevel::WARNING,
        PgSqlErrorCode::ERRCODE_WARNING,
        format!(
            "index \"{}\" could not be updated for a row in block {block} of table \"{}\": {message}",
            index.name(),
            heap.name()
        ),
        Some("The block range of the row is left open: every query reads it.".into()),
        Some("Correct the row, or the function that the index calls, and run VACUUM.".into()),
    );
}

/// The first range that summarizing a table of `blocks` blocks leaves out. The trailing partial range is included only
/// if `partial` is set and there are complete ranges, from which it takes its filter size.
pub fn end_of_summarized(meta: &Meta, blocks: u32, partial: bool) -> u32 {
    let complete = blocks / meta.pages_per_range;
    if partial && complete > 0 { meta.ranges_in(blocks) } else { complete }
}

/// Summarizes all ranges below `end` that have no filter: first the gaps below the watermark, then the ranges above it,
/// step by step; each step raises the watermark before its scan. Nothing is summarized as long as nothing is known of
/// the values, by which the layout is chosen. The caller holds the maintenance lock.
///
/// # Errors
/// Damage to the index.
pub fn summarize_to(
    heap: Rel,
    index: Rel,
    directory: &mut Directory,
    end: u32,
    caller: Caller,
) -> IndexResult<Summary> {
    let how = collector_options(caller, memory::maintenance_work_mem() / 2);
    if end > 0
        && let LayoutChoice::PutOff(failure) = choose::choose_late(heap, index, &how)?
    {
        return Ok(Summary { failure, ..Summary::default() });
    }
    let meta = Meta::read(index)?;
    let (mut watermark, most_ranges) = (meta.watermark, caller.most_ranges(&meta));
    if !spans::stretches(&gaps(directory, meta.columns.len(), watermark)).is_empty() {
        // An earlier call may have failed after it took a segment out here, and before it raised the generation.
        // Inserts must not take the filters of that segment for those that are made now.
        directory.raise_generation()?;
    }
    let most_left = caller.most_left(&meta);
    let mut summary = fill_gaps(heap, index, directory, watermark, most_left, caller)?;
    if summary.ranges >= most_left.into() {
        return Ok(summary); // there may be more such ranges, which come first
    }
    while watermark < end && summary.ranges < u64::from(most_ranges) {
        let left = most_ranges.saturating_sub(summary.ranges.min(u32::MAX.into()) as u32);
        // No other process uses an index that is being built: one step makes the widest segments.
        let step = if caller == Caller::Build { u32::MAX } else { STEP };
        let next = end.min(watermark.saturating_add(step.min(left)));
        if caller != Caller::Build {
            refine::follow_growth(heap, index, directory, next - watermark)?;
        }
        watermark = next;
        meta::update(index, |meta| meta.watermark = meta.watermark.max(watermark))?;
        summary.add(fill_gaps(heap, index, directory, watermark, left, caller)?);
    }
    Ok(summary)
}

/// Whether the table has less than half of the summarized ranges, so that an insert should remove the segments behind
/// its end.
pub fn is_cut_short(watermark: u32, ranges: u32) -> bool {
    watermark / 2 > ranges
}

/// After VACUUM has truncated the table: retires segments of which less than half is still inside the table, and lowers
/// the watermark to the table's end, or to that of the last segment left. So the next ranges of the table are new ones,
/// and not old ones whose rows all go through the delta. The caller holds the maintenance lock.
///
/// This order is safe, because a range without a filter matches. A reader that begins after the watermark was lowered
/// cannot find the retired segments any more, and an insert that still has the old watermark writes at worst a
/// superfluous delta entry. Ranges below the watermark that are left without a filter are gaps, which the next
/// maintenance fills.
///
/// # Errors
/// Damage to the index.
pub fn retire_behind_end(heap: Rel, index: Rel, directory: &mut Directory) -> IndexResult<Meta> {
    let meta = Meta::read(index)?;
    let end = meta.ranges_in(heap.blocks());
    if meta.watermark <= end {
        return Ok(meta);
    }
    let is_behind =
        |region: &Region| end.saturating_sub(region.first_range) < region.width() / 2 + region.width() % 2;
    let columns = 0..meta.columns.len() as u16;
    let regions = columns.flat_map(|column| regions::of_column(directory, column)).filter(is_behind);
    let behind: Vec<u64> = regions.flat_map(|region| region.live).map(|s| s.id).collect();
    directory.retire(&behind)?;
    // Additions are retired after the maps, and only those that add to none of the maps left. Rows may already be
    // inserted into the ranges behind the end again, and get no delta entry because an addition has their keys: if a
    // map stayed without the addition, it would lose them. A range without a map matches.
    let is_needed = |addition: &Segment| {
        let covers =
            |s: &Segment| s.first_range < addition.end_range() && addition.first_range < s.end_range();
        directory.segments(addition.column).iter().any(covers)
    };
    let needless: Vec<u64> =
        directory.all_segments().filter(|s| !s.summarizes() && !is_needed(s)).map(|s| s.id).collect();
    directory.retire(&needless)?;
    let covered = directory
        .all_segments()
        .filter(Segment::summarizes)
        .map(|s| s.end_range())
        .max()
        .unwrap_or(0)
        .max(end);
    meta::update(index, |meta| {
        if meta.watermark > covered {
            // Inserts that know segments behind the end read the directory again, even if an error has ended an earlier
            // retire() before it told them. These ranges will be new ones.
            meta.generation += 1;
            meta.watermark = covered;
        }
    })?;
    Meta::read(index)
}
