//! Merging while a table grows, by inserts: a bounded number of pages at a time.
//!
//! [`skip_segment::growth`] says which segments are merged, and why few remain. A merge that writes few blocks is done
//! at once. A larger one is begun ([`super::unfinished`]). Each batch of ranges that is summarized, and every sixteenth
//! new block of the table while there are merges, continues the unfinished merges of each column by some pages, first
//! the one that has the least left to write. So small merges do not wait for a large one.
//!
//! The number of pages is the setting `pg_skip.merge_pages`, for a step of a column and for a merge at once. Sixteen
//! blocks of a table give about half a page of a segment, so the default of 32 is 64 times what comes, as the bound in
//! [`skip_segment::growth`] wants it. Steps are larger while a column has more segments than usual; if its values have
//! many keys, in proportion ([`Summarized::step_factor`]).
//!
//! Segments here are [`regions`]: what the lookup of one key meets as one segment.
//!
//! VACUUM and `skip_summarize` finish what was begun, then merge by their own rule ([`super::merge_column`]).

use super::regions::{self, MergeTarget, Region};
use super::{map_steps, merge, merge_bounds, merge_maps, unfinished};
use crate::pages::directory::Directory;
use crate::pages::entry::{Segment, Unfinished};
use crate::pages::meta::Meta;
use crate::pg::{error::IndexResult, settings};
use skip_map::key_part::KeySet;
use skip_segment::SegmentShape;
use skip_segment::growth::{Link, Rule, Summarized};
use skip_segment::page::SLICE_BYTES;

/// The most merges at once that one insert does for a column.
const MOST_MERGES: usize = 4;

/// A merge that a large statement does at once writes at most this number of times the pages of a usual one: with the
/// default setting 8 MB, which takes some 30 milliseconds. For a column whose blocks give more keys than usual it
/// writes more in proportion, as the statement takes longer in proportion.
const BULK_PAGES: u32 = 32;

/// How much a call merges of a column.
struct Effort {
    /// How segments of the column's kind are merged.
    rule: Rule,
    /// The number of segments that may be left, by the column's ranges and its segments in unfinished merges.
    room: fn(Rule, u32, usize) -> usize,
    /// Whether merges may wait for the end of the statement ([`Rule::room_until_commit`]), as long as one merge can
    /// still take all segments then.
    defers: bool,
    /// The most pages of a merge that is done at once.
    at_once: u32,
    /// The same for a large statement.
    bulk_pages: u32,
    /// Whether larger merges are begun as unfinished segments.
    begins: bool,
}

impl Effort {
    /// Of an insert of few rows.
    fn usual(summarized: Summarized) -> Self {
        let (rule, richness) = (summarized.rule, summarized.richness());
        let at_once = settings::merge_pages();
        let bulk_pages = at_once.saturating_mul(BULK_PAGES).saturating_mul(richness);
        Self { rule, room: Rule::room, defers: false, at_once, bulk_pages, begins: true }
    }

    /// Of a large statement at its end.
    fn bulk(summarized: Summarized) -> Self {
        let usual = Self::usual(summarized);
        Self { at_once: usual.bulk_pages, begins: false, ..usual }
    }

    /// The same while such a statement inserts.
    fn during_bulk(self) -> Self {
        Self { room: Rule::room_during_bulk, defers: true, ..self }
    }
}

/// Merges what a batch of new ranges gives cause to merge, in all columns, and goes on with what was begun. If
/// `is_bulk`, many more batches follow, and then [`catch_up`].
///
/// # Errors
/// Damage to the index.
pub fn merge_some(directory: &mut Directory<'_>, meta: &Meta, is_bulk: bool) -> IndexResult<()> {
    if is_bulk {
        // A large merge that is begun keeps the small segments that it has from being merged until it is done.
        merge_all_newest(directory, meta, |summarized| Effort::bulk(summarized).during_bulk())?;
        merge_all_newest(directory, meta, |summarized| Effort::usual(summarized).during_bulk())?;
    } else {
        merge_all_newest(directory, meta, Effort::usual)?;
    }
    go_on(directory, meta)
}

/// Merges the segments that a statement of many rows has left, in all columns.
///
/// # Errors
/// Damage to the index.
pub fn catch_up(directory: &mut Directory<'_>, meta: &Meta) -> IndexResult<()> {
    merge_all_newest(directory, meta, Effort::bulk)
}

fn merge_all_newest(
    directory: &mut Directory<'_>,
    meta: &Meta,
    effort: fn(Summarized) -> Effort,
) -> IndexResult<()> {
    for column in 0..meta.columns.len() as u16 {
        if directory.segments(column).iter().any(Segment::is_of_bounds) {
            merge_bounds::merge_column(directory, column)?;
            continue;
        }
        let effort = effort(summarized(directory, column, meta));
        for _ in 0..MOST_MERGES {
            if !merge_newest(directory, column, &effort)? {
                break;
            }
        }
    }
    Ok(())
}

/// Goes on with what was begun, in all columns.
///
/// # Errors
/// Damage to the index.
pub fn go_on(directory: &mut Directory<'_>, meta: &Meta) -> IndexResult<()> {
    for column in 0..meta.columns.len() as u16 {
        unfinished::begin_next_parts(directory, column)?;
        if directory.unfinished(column).is_empty() {
            continue;
        }
        let factor = summarized(directory, column, meta).step_factor();
        let mut left = settings::merge_pages().saturating_mul(factor);
        while left > 0
            && let Some(next) = least_left(directory, column)
        {
            left = left.saturating_sub(unfinished::go_on(directory, &next, left)?);
        }
    }
    Ok(())
}

/// The sizes of a column's segments, and of the part of the table that they summarize.
fn summarized(directory: &Directory<'_>, column: u16, meta: &Meta) -> Summarized {
    let regions = regions::of_column(directory, column);
    let ranges: u64 = regions.iter().map(|region| u64::from(region.width())).sum();
    let is_of_maps = regions.iter().any(Region::is_of_maps);
    Summarized {
        rule: if is_of_maps { Rule::MAPS } else { Rule::FILTERS },
        segments: regions.iter().map(Region::most_met).sum(),
        end: regions.last().map_or(0, |region| region.end),
        blocks: regions.iter().map(Region::blocks).sum(),
        table_blocks: ranges * u64::from(meta.pages_per_range),
    }
}

fn least_left(directory: &Directory<'_>, column: u16) -> Option<Unfinished> {
    directory.unfinished(column).into_iter().min_by_key(|u| unfinished::work_left(directory, u))
}

/// Merges additions of all columns, within bounds.
///
/// # Errors
/// Damage to the index.
pub fn merge_additions(directory: &mut Directory<'_>, columns: usize) -> IndexResult<()> {
    // A long delta comes less often than a batch of ranges.
    let most = settings::merge_pages().saturating_mul(16);
    for column in 0..columns {
        merge_maps::merge_all_additions(directory, column as u16, most)?;
    }
    Ok(())
}

/// Merges the newest segments of a column, those behind all that are being merged in steps, if there are too many.
/// Returns whether there may be more to merge.
fn merge_newest(directory: &mut Directory<'_>, column: u16, effort: &Effort) -> IndexResult<bool> {
    let regions = regions::of_column(directory, column);
    let end = regions.last().map_or(0, |region| region.end);
    let begun = directory.unfinished(column);
    let is_busy = |region: &Region| {
        begun.iter().any(|u| u.first_range < region.end && region.first_range < u.end_range())
            || region.next_part().is_some()
    };
    let behind = regions.iter().rposition(is_busy).map_or(0, |last| last + 1);
    let busy = regions.iter().filter(|region| is_busy(region)).map(Region::most_met).sum();
    let newest = &regions[behind..];
    // Nothing is merged with a segment that is as large as one can be, nor across it.
    let newest = newest.rsplit(is_full).next().unwrap_or_default();
    let links: Vec<Link> = (0..newest.len()).map(|at| link(newest, at)).collect();
    let most = if effort.begins { u32::MAX } else { effort.at_once };
    let is_good = |run: std::ops::Range<usize>| blocks_of(&newest[run]).is_some_and(|blocks| blocks <= most);
    let Some(run) = effort.rule.run_to_merge(&links, (effort.room)(effort.rule, end, busy), is_good) else {
        return Ok(false);
    };
    let chain = links.iter().rposition(|link| !link.joins).unwrap_or(0);
    if effort.defers
        && links.len() - chain <= effort.rule.room_until_commit(end, busy)
        && can_defer(&newest[chain..], &links[chain..], effort.rule.room(end, busy), effort)
    {
        return Ok(false);
    }
    let run = &newest[run];
    let (Some(blocks), Some(first), Some(last)) = (blocks_of(run), run.first(), run.last()) else {
        return Ok(false);
    };
    let is_of_maps = first.is_of_maps();
    let segments: Vec<Segment> = run.iter().flat_map(Region::segments).collect();
    if blocks > effort.at_once {
        let parts = regions::parts_in_order(&segments, regions::depth_of(run), KeySet::NONE);
        let key_part = parts.first().copied().unwrap_or_default();
        let target = MergeTarget { column, first_range: first.first_range, end: last.end, key_part };
        // How many a map needs of its key part is found from its sources.
        unfinished::begin(directory, target, if is_of_maps { 0 } else { blocks })?;
        return Ok(false);
    }
    match is_of_maps {
        true => merge_maps::merge_run(directory, run, &[])?,
        false => merge::merge_run(directory, &segments)?,
    }
    Ok(true)
}

/// Whether one merge at once will leave no more than `room` of the newest segments, even after two more like the last
/// one have come.
fn can_defer(newest: &[Region], links: &[Link], room: usize, effort: &Effort) -> bool {
    let to_come = newest.last().map_or(0, |last| 2 * last.blocks());
    let is_good = |run: std::ops::Range<usize>| {
        blocks_of(&newest[run]).is_some_and(|blocks| u64::from(blocks) + to_come <= effort.bulk_pages.into())
    };
    effort.rule.run_to_merge(links, 1, is_good).is_some_and(|run| links.len() - run.len() < room)
}

/// Whether a region is so large that it is never merged again.
fn is_full(region: &Region) -> bool {
    region.live.iter().any(|segment| match segment.map() {
        Some(size) => size.pairs == u32::MAX,
        None => u64::from(segment.width) * 8 > 7 * u64::from(SegmentShape::max_width(SLICE_BYTES)),
    })
}

fn link(regions: &[Region], at: usize) -> Link {
    let this = &regions[at];
    let size = if this.is_of_maps() { this.blocks() } else { this.width().into() };
    let before = at.checked_sub(1).map(|before| &regions[before]);
    let joins = before.is_some_and(|before| before.joins(this));
    Link { size, joins }
}

/// The blocks that a segment of all of these needs at most, or several of all key parts; None if it would be too large,
/// or pack its pages badly.
fn blocks_of(run: &[Region]) -> Option<u32> {
    let segments: Vec<Segment> = run.iter().flat_map(Region::segments).collect();
    let first = run.first()?;
    match first.is_of_maps() {
        true => map_steps::most_blocks_of_all(&segments, regions::depth_of(run)),
        false => merge::blocks_of(&segments),
    }
}
