//! Closing open ranges: those with tuples that could not be hashed when the ranges were summarized. The caller holds
//! the maintenance lock.

use super::collect::{Failure, RangeCollector, RangeCollectorOptions, Versions};
use super::place_bounds::of_contents;
use super::place_map::MapPlacer;
use super::summarize::Caller;
use crate::hash;
use crate::pages::bounds::{self, Widening};
use crate::pages::directory::Directory;
use crate::pages::entry::{FilterSize, Segment, SegmentKind};
use crate::pages::meta::{MapForm, Meta};
use crate::pages::miss::Miss;
use crate::pages::segment::{self, Bit};
use crate::pages::upkeep::unfinished;
use crate::pg::{Rel, error::IndexResult, memory};
use skip_bounds::PageSummary;
use skip_segment::{NULLS_SLICE, OPEN_SLICE, VALUES_SLICE};

/// Summarizes the open ranges of all columns, at most `most` of them, counted in each column; of maps, whole stretches
/// of open ranges. Returns the number of ranges closed, and the first failure. The caller holds the maintenance lock.
///
/// # Errors
/// Damage to the index.
pub fn close_open_ranges<'a>(
    heap: Rel<'a>,
    directory: &mut Directory<'a>,
    meta: &Meta,
    caller: Caller,
    most: u32,
) -> IndexResult<(u64, Option<Failure>)> {
    let options = RangeCollectorOptions {
        bulk: false,
        in_vacuum: caller == Caller::Vacuum,
        memory: memory::maintenance_work_mem() / 2,
        versions: Versions::All,
        may_fail: true,
    };
    // No range can be closed of a column whose keys cannot be made as the build made them.
    let keys = hash::column_keys(directory.index(), meta);
    let may_close = |column: u16| keys.get(usize::from(column)).is_some_and(Option::is_some);
    let mut ranges = Ranges { heap, meta, options, blocks: heap.blocks(), left: most, collector: None };
    let mut closed = 0;
    for segment in directory.all_segments().filter(|segment| may_close(segment.column)) {
        match segment.kind {
            SegmentKind::Filters(_) => closed += close_filters(directory, &segment, &mut ranges)?,
            _ if segment.is_of_bounds() => closed += close_bounds(directory, &segment, &mut ranges)?,
            _ => {}
        }
    }
    for (column, frozen) in (0..).zip(&meta.columns) {
        if let Some(form) = frozen.map().filter(|_| may_close(column)) {
            closed += close_maps(directory, &mut ranges, column, form)?;
        }
    }
    Ok((closed, ranges.collector.and_then(|mut collector| collector.failure.take())))
}

/// Collects single ranges. The collector is made when the first range is collected, because there are seldom any.
struct Ranges<'a, 'm> {
    heap: Rel<'a>,
    meta: &'m Meta,
    options: RangeCollectorOptions,
    blocks: u32,
    /// The number of ranges that may still be collected.
    left: u32,
    collector: Option<RangeCollector<'a>>,
}

impl<'a> Ranges<'a, '_> {
    fn collect(&mut self, index: Rel<'a>, range: u32) -> &RangeCollector<'a> {
        let Self { heap, meta, options, blocks, left, collector } = self;
        *left = left.saturating_sub(1);
        let collector = collector.get_or_insert_with(|| RangeCollector::new(*heap, index, meta, options));
        collector.collect(meta.blocks_of(range, *blocks));
        collector
    }
}

/// Closes open ranges of filters in place: first all bits of a range are set, then its open bit is cleared.
fn close_filters<'a>(
    directory: &Directory<'a>,
    segment: &Segment,
    ranges: &mut Ranges<'a, '_>,
) -> IndexResult<u64> {
    let index = directory.index();
    let shape = segment.shape()?;
    let mut open = vec![0u64; shape.words()];
    segment::read_slice(index, segment, &shape, OPEN_SLICE, |slice| skip_segment::or_slice(&mut open, slice))
        .map_err(Miss::into_damage)?;
    let mut closed = 0;
    for range in (0..segment.width).filter(|r| open[(r / 64) as usize] >> (r % 64) & 1 != 0) {
        if ranges.left == 0 {
            break;
        }
        let collector = ranges.collect(index, segment.first_range + range);
        closed += u64::from(close_range(directory, segment, range, collector)?);
    }
    Ok(closed)
}

/// Closes open ranges of bounds in place: their record has the bounds, and that the range is not open any more.
fn close_bounds<'a>(
    directory: &Directory<'a>,
    segment: &Segment,
    ranges: &mut Ranges<'a, '_>,
) -> IndexResult<u64> {
    let index = directory.index();
    let may_be_open = |_, summary: Option<&PageSummary>| summary.is_none_or(PageSummary::has_open);
    let mut open = Vec::new();
    bounds::each(index, segment, may_be_open, |range, bounds| open.extend(bounds.open.then_some(range)))
        .map_err(Miss::into_damage)?;
    let mut closed = 0;
    open.truncate(ranges.left as usize);
    for range in open {
        let collector = ranges.collect(index, range);
        let contents = collector.columns[usize::from(segment.column)].contents();
        if !contents.state.open {
            let with = of_contents(contents);
            bounds::widen(index, segment, &[Widening { range, with, closes: true }])?;
            closed += 1;
        }
    }
    Ok(closed)
}

/// Closes open ranges of maps: their contents are published as an addition, then they are taken out of the open
/// stretches.
fn close_maps<'a>(
    directory: &mut Directory<'a>,
    ranges: &mut Ranges<'a, '_>,
    column: u16,
    form: MapForm,
) -> IndexResult<u64> {
    let index = directory.index();
    let memory = memory::maintenance_work_mem() / 2;
    let pages_per_range = ranges.meta.pages_per_range;
    let mut closed = 0;
    for stretch in directory.open_stretches(column) {
        if ranges.left < stretch.width {
            continue;
        }
        let mut placer = MapPlacer::new(column, form, false, memory, pages_per_range);
        let has_first = |s: &Segment| (s.first_range..s.end_range()).contains(&stretch.first_range);
        let below = directory.segments(column).into_iter().find(has_first);
        placer.start_at(stretch.first_range, stretch.end_range(), below)?;
        for range in stretch.first_range..stretch.end_range() {
            let collector = ranges.collect(index, range);
            let contents = collector.columns[usize::from(column)].contents();
            placer.push(contents);
            closed += u64::from(!contents.state.open);
        }
        placer.finish_open(directory, stretch)?;
    }
    Ok(closed)
}

fn close_range(
    directory: &Directory<'_>,
    segment: &Segment,
    range: u32,
    collector: &RangeCollector,
) -> IndexResult<bool> {
    let index = directory.index();
    let contents = collector.columns[usize::from(segment.column)].contents();
    let FilterSize { num_probes, .. } = segment.filters()?;
    if contents.state.open {
        return Ok(false);
    }
    // A filter that was made for fewer values rules nothing out, as if the range were open, until it is rebuilt, which
    // is for filters that are too full.
    let absolute = segment.first_range + range;
    let copies = unfinished::copies(directory, segment.column).into_iter();
    let copies = copies.filter(|(copy, _)| (copy.first_range..copy.end_range()).contains(&absolute));
    for (segment, pages) in copies.chain([(*segment, u32::MAX)]) {
        let (shape, range) = (segment.shape()?, absolute - segment.first_range);
        let mut bits = Vec::new();
        bits.extend(contents.state.nulls.then(|| Bit::new(&shape, NULLS_SLICE, range)));
        bits.extend(contents.state.values.then(|| Bit::new(&shape, VALUES_SLICE, range)));
        for &hash in contents.hashes {
            bits.extend(Bit::of_key(&shape, num_probes, hash, range));
        }
        bits.retain(|bit| bit.page() < pages);
        segment::set_bits(index, &segment, &mut bits)?;
    }
    let shape = segment.shape()?;
    segment::clear_bit(index, segment, Bit::new(&shape, OPEN_SLICE, range))?;
    Ok(true)
}
