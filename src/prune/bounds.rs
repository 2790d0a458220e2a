//! A lookup in a segment of bounds, and the bounds of all ranges of a column.

use super::Test;
use crate::pages::bounds;
use crate::pages::delta;
use crate::pages::directory;
use crate::pages::entry::Segment;
use crate::pages::meta::{Meta, SegmentLayout};
use crate::pages::miss::{Fetch, Miss};
use crate::pg::{Damage, Rel, error::Read, memory};
use skip_bounds::{Bounds, Verdict};
use skip_map::key_part::KeySet;
use skip_scan::RangeSet;

/// How exact a lookup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Ranges are told apart.
    Ranges,
    /// Of segments with summaries only these are read: for planning.
    Summaries,
}

/// Adds the ranges of a segment that satisfy a test to `matching`, and its open ranges to `unfiltered` too. Pages
/// without candidates, and pages whose summary decides, are not read. Returns the number of pages read.
///
/// # Errors
/// Damage, or pages recycled meanwhile.
pub fn matching_ranges(
    index: Rel,
    segment: &Segment,
    test: &Test,
    depth: Depth,
    candidates: &RangeSet,
    matching: &mut RangeSet,
    unfiltered: &mut RangeSet,
) -> Fetch<u64> {
    let Some(test) = test.of_bounds() else {
        matching.insert_span(segment.first_range.into(), segment.end_range().into());
        return Ok(0);
    };
    let mut whole: Vec<(u64, u64)> = Vec::new();
    let wanted = |ranges: std::ops::Range<u32>, summary: Option<&skip_bounds::PageSummary>| {
        let (from, to) = (u64::from(ranges.start), u64::from(ranges.end));
        if !candidates.any_in(from, to) {
            return false;
        }
        let verdict = summary.map_or(Verdict::Read, |summary| summary.verdict(test));
        match (verdict, depth) {
            (Verdict::None, _) => return false,
            (Verdict::Read, Depth::Ranges) => return true,
            (Verdict::Read, Depth::Summaries) if summary.is_none() => return true,
            _ => whole.push((from, to)),
        }
        false
    };
    let mut run: Option<(u64, u64)> = None;
    let pages = bounds::each(index, segment, wanted, |range, bounds| {
        let range = u64::from(range);
        if bounds.open {
            unfiltered.insert(range);
        }
        if !bounds.matches(test) {
            return;
        }
        match &mut run {
            Some((_, end)) if *end == range => *end += 1,
            other => {
                let before = other.replace((range, range + 1));
                before.into_iter().for_each(|(from, to)| matching.insert_span(from, to));
            }
        }
    })?;
    run.into_iter().chain(whole).for_each(|(from, to)| matching.insert_span(from, to));
    Ok(pages)
}

/// The bounds of all ranges of a column.
pub struct ColumnBounds {
    /// By the numbers of the ranges: the bounds of all values of each range, those in the delta among them. An open
    /// range may hold anything, though some of its values are known.
    pub ranges: Vec<Bounds>,
    /// Heap blocks per range.
    pub pages_per_range: u32,
}

/// A range of which nothing is known.
const UNKNOWN: Bounds = Bounds { open: true, ..Bounds::EMPTY };

/// The bounds of all ranges of a column of a table of `blocks` blocks. A range that is not summarized is open. Every
/// row that a snapshot sees which was taken before is within the bounds of its range, as long as these are not open;
/// the table's size must have been read after the snapshot.
///
/// It reads all bounds of the column, 16 bytes a range. None if the column has no bounds, or this build makes order
/// keys differently.
///
/// # Errors
/// Damage to the index.
pub fn of_column(index: Rel, column: u16, blocks: u32) -> Read<Option<ColumnBounds>> {
    for _ in 0..super::MOST_RESTARTS {
        memory::check_for_interrupts();
        let meta = Meta::read(index)?;
        let keys = crate::hash::keys::ColumnKeys::of_index(index, &meta, column.into());
        if keys.is_none_or(|keys| !keys.are_ordered()) {
            return Ok(None);
        }
        let block = match try_of_column(index, &meta, column, blocks) {
            Ok(found) => {
                return Ok(found.map(|ranges| ColumnBounds { ranges, pages_per_range: meta.pages_per_range }));
            }
            Err(Miss::Damage(damage)) => return Err(damage),
            Err(Miss::Recycled(block)) => block,
        };
        let now = Meta::read(index)?;
        if now.generation == meta.generation && now.delta_head_sequence == meta.delta_head_sequence {
            let what = "the page does not belong to the part of the index that refers to it";
            return Err(Damage::new(block, what));
        }
    }
    let meta = Meta::read(index)?;
    let ranges = vec![UNKNOWN; meta.ranges_in(blocks) as usize];
    Ok(Some(ColumnBounds { ranges, pages_per_range: meta.pages_per_range }))
}

fn try_of_column(index: Rel, meta: &Meta, column: u16, blocks: u32) -> Fetch<Option<Vec<Bounds>>> {
    if meta.columns.get(usize::from(column)).is_none_or(|column| column.layout != SegmentLayout::Bounds) {
        return Ok(None);
    }
    let index = meta.bind(index);
    let mut additions: Vec<(u32, Bounds)> = Vec::new();
    delta::scan(index, meta, |entry| {
        if entry.column == column {
            additions.push((entry.part, Bounds::of(entry.hash)));
        }
    })?;
    let mut found: Vec<Option<Bounds>> = vec![None; meta.ranges_in(blocks) as usize];
    let live = directory::live(index, meta, |c| if c == column { KeySet::ALL } else { KeySet::NONE })?;
    for segment in live.of_column(column) {
        bounds::each(
            index,
            segment,
            |_, _| true,
            |range, bounds| {
                if let Some(place) = found.get_mut(range as usize) {
                    // While a segment is replaced, there are two.
                    *place = Some(place.map_or(bounds, |before: Bounds| before.union(bounds)));
                }
            },
        )?;
    }
    for stretch in live.open.iter().filter(|stretch| stretch.column == column) {
        let ranges = stretch.first_range as usize..stretch.end_range() as usize;
        found.iter_mut().take(ranges.end).skip(ranges.start).for_each(|place| *place = None);
    }
    let mut found: Vec<Bounds> = found.into_iter().map(|bounds| bounds.unwrap_or(UNKNOWN)).collect();
    for (range, addition) in additions {
        if let Some(bounds) = found.get_mut(range as usize) {
            *bounds = bounds.union(addition);
        }
    }
    Ok(Some(found))
}
