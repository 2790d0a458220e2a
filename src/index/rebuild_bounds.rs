//! Rebuilding bounds that rows which are gone have left too wide.
//!
//! A range is worth reading again if its bounds are much wider than those of most ranges of its segment: in a table in
//! rough order, old rows were updated, or new ones have taken the place of old ones. Ranges to which rows were added
//! since their bounds were computed from the table come first: all of them are read, within the budget. The bounds of
//! the other ranges may be right, so only a few of them are read in each call, at another place each time. A range that
//! cannot be read with certainty keeps its bounds.

use super::collect::RangeCollector;
use super::place_bounds::of_contents;
use super::rebuild_work::RebuildWork;
use crate::pages::bounds;
use crate::pages::directory::Directory;
use crate::pages::entry::Segment;
use crate::pages::meta::SegmentLayout;
use crate::pages::upkeep::rescan::{self, Replaced};
use crate::pg::error::IndexResult;
use skip_bounds::Bounds;

/// Bounds are much wider than most if they are more than this number of times as wide as the median.
const MUCH: u64 = 4;
/// Of ranges to which no rows were added, at most 1/64 of the table is read, but at least [`LEAST_BLOCKS`].
const UNCHANGED_DIVISOR: u32 = 64;
/// The least number of blocks that may be read of such ranges: 8 MB.
const LEAST_BLOCKS: u32 = 1024;
/// Blocks that are read in one rescan: 512 MB. Then its segment is written, of at most 3 MB, and the delta is folded.
const BLOCKS_A_RESCAN: u32 = 65_536;

/// Rebuilds bounds that are worth it, reading at most about `blocks` blocks of the table.
///
/// # Errors
/// Damage to the index.
pub fn rebuild<'a>(
    directory: &mut Directory<'a>,
    work: &mut RebuildWork<'a, '_>,
    blocks: u32,
) -> IndexResult<()> {
    let ranges = |blocks: u32| (blocks / work.meta.pages_per_range).max(1) as usize;
    let mut left = ranges(blocks);
    let mut left_of_others = ranges((work.heap.blocks() / UNCHANGED_DIVISOR).max(LEAST_BLOCKS)).min(left);
    for (column, frozen) in work.meta.columns.iter().enumerate() {
        if frozen.layout != SegmentLayout::Bounds {
            continue;
        }
        let segments = directory.segments(column as u16);
        if segments.windows(2).any(|pair| pair[0].end_range() > pair[1].first_range) {
            continue; // an interrupted merge, which the next maintenance ends
        }
        for segment in segments.iter().filter(|segment| segment.is_of_bounds()) {
            let all = bounds::all(directory.index(), segment)?;
            let (mut worth, mut others): (Vec<usize>, Vec<usize>) =
                too_wide(&all).into_iter().partition(|&place| all[place].widened);
            worth.truncate(left);
            left -= worth.len();
            // Another place each time: the generation rises with each rescan.
            let turn = work.meta.generation % (others.len() as u64).max(1);
            others.rotate_left(turn as usize);
            others.truncate(left.min(left_of_others));
            (left, left_of_others) = (left - others.len(), left_of_others - others.len());
            worth.extend(others);
            worth.sort_unstable();
            for places in worth.chunks(ranges(BLOCKS_A_RESCAN)) {
                work.fold(directory)?;
                // The one that the last rescan has put in its place, if there was one.
                let is_it = |s: &&Segment| s.first_range == segment.first_range && s.width == segment.width;
                let now = directory.segments(column as u16);
                let Some(segment) = now.iter().find(is_it) else { break };
                replace(directory, work, segment, places)?;
            }
        }
    }
    Ok(())
}

/// The places of ranges that may be worth reading again.
fn too_wide(all: &[Bounds]) -> Vec<usize> {
    let mut widths: Vec<u64> = all.iter().filter(|b| b.has_values() && !b.open).map(Bounds::width).collect();
    let middle = widths.len() / 2;
    if widths.is_empty() {
        return Vec::new();
    }
    let (_, &mut median, _) = widths.select_nth_unstable(middle);
    let is_worth = |bounds: &Bounds| !bounds.open && bounds.width() / MUCH > median;
    all.iter().enumerate().filter(|(_, bounds)| is_worth(bounds)).map(|(place, _)| place).collect()
}

/// Reads ranges of a segment from the table, and replaces the segment if that changes anything.
fn replace<'a>(
    directory: &mut Directory<'a>,
    work: &mut RebuildWork<'a, '_>,
    segment: &Segment,
    places: &[usize],
) -> IndexResult<()> {
    let index = directory.index();
    let (column, first_range, end) = (segment.column, segment.first_range, segment.end_range());
    let rescans = rescan::begin(directory, &[Replaced { column, first_range, end }])?;
    // The delta may have been folded into the segment since it was looked at.
    let old = bounds::all(index, segment)?;
    let mut all = old.clone();
    let mut collector = RangeCollector::new(work.heap, index, work.meta, &work.options());
    // The size of the table is read only now, when inserts know of the rescan.
    let blocks = work.heap.blocks();
    for &place in places {
        collector.collect(work.meta.blocks_of(first_range + place as u32, blocks));
        let contents = collector.columns[usize::from(column)].contents();
        if let Some(bounds) = all.get_mut(place).filter(|_| !contents.state.open) {
            *bounds = of_contents(contents);
        }
    }
    let failure = collector.failure.take();
    work.failure = work.failure.take().or(failure);
    if all != old {
        bounds::publish(directory, column, first_range, &all)?;
    }
    rescans.into_iter().try_for_each(|rescan| rescan::end(directory, rescan, None))
}
