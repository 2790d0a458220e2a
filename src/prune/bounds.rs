//! A lookup in a segment of bounds, and the bounds of all ranges of a column.

use super::Test;
use crate::pages::bounds;
use crate::pages::delta;
use crate::pages::directory;
use crate::pages::entry::Segment;
use crate::pages::meta::{Meta, SegmentLayout};
use crate::pages::miss::{Fetch, Miss};
use crate::pg::{Rel, error::IndexResult, memory};
use skip_bounds::{Bounds, PageSummary, Verdict};
use skip_map::key_part::KeySet;
use skip_scan::RangeSet;
use std::ops::Range;

/// What a lookup of bounds tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundsDetail {
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
    detail: BoundsDetail,
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
        match (verdict, detail) {
            (Verdict::None, _) => return false,
            (Verdict::Read, BoundsDetail::Ranges) => return true,
            (Verdict::Read, BoundsDetail::Summaries) if summary.is_none() => return true,
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

/// A range of which nothing is known.
const UNKNOWN: Bounds = Bounds { open: true, ..Bounds::EMPTY };

/// The bounds of groups of ranges of a column; the bounds of the single ranges of a group can be read later.
///
/// Each row that is visible to a snapshot taken before this was made is within the bounds of its range, or of an
/// addition to the range, unless the range is open. A range that is not summarized is open. The table's size must have
/// been read after the snapshot was taken.
///
/// The bounds of groups, and the delta, are read at first. The bounds of single ranges are read when they are wanted,
/// perhaps much later. Their pages still have the bounds of rows that were there before, unless the pages were
/// recycled: then the ranges count as open.
pub struct GroupedBounds {
    /// The bounds of each group.
    pub groups: Vec<Bounds>,
    places: Vec<RangeGroup>,
    /// Bounds of what the delta has of some ranges, each once.
    pub delta_bounds: Vec<(u32, Bounds)>,
    /// Heap blocks per range.
    pub pages_per_range: u32,
    /// Pages of bounds that were read.
    pub pages: u64,
    seed: u64,
}

/// Ranges of a group, and the data page of a segment with their bounds; None if nothing is known of them.
struct RangeGroup {
    ranges: Range<u32>,
    page: Option<(Segment, u32)>,
}

impl GroupedBounds {
    /// The bounds of the ranges of a group, with their numbers.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn ranges_of(&self, index: Rel, group: u32) -> IndexResult<Vec<(u32, Bounds)>> {
        let Some(RangeGroup { ranges, page }) = self.places.get(group as usize) else {
            return Ok(Vec::new());
        };
        let read = |(segment, number): &(Segment, u32)| {
            bounds::of_page(index.salted(self.seed), segment, &segment.bounds_shape()?, *number)
        };
        let found = match page.as_ref().map(read) {
            Some(Ok(found)) => found,
            Some(Err(Miss::Damage(damage))) => return Err(damage),
            Some(Err(Miss::Recycled(_))) | None => vec![UNKNOWN; ranges.len()],
        };
        Ok(ranges.clone().zip(found).collect())
    }

    /// The ranges of a group.
    pub fn span(&self, group: u32) -> Range<u32> {
        self.places.get(group as usize).map_or(0..0, |group| group.ranges.clone())
    }
}

/// The bounds of a column of a table of `blocks` blocks. None if the column has no bounds, or this build makes order
/// keys differently.
///
/// # Errors
/// Damage to the index.
pub fn of_column(index: Rel, column: u16, blocks: u32) -> IndexResult<Option<GroupedBounds>> {
    for _ in 0..super::MOST_RESTARTS {
        memory::check_for_interrupts();
        let meta = Meta::read(index)?;
        let keys = crate::hash::keys::ColumnKeys::of_index(index, &meta, column.into());
        let layout = meta.columns.get(usize::from(column)).map(|column| column.layout);
        if layout != Some(SegmentLayout::Bounds) || keys.is_none_or(|keys| !keys.are_ordered()) {
            return Ok(None);
        }
        let block = match try_of_column(index, &meta, column, blocks) {
            Ok(found) => return Ok(Some(found)),
            Err(Miss::Damage(damage)) => return Err(damage),
            Err(Miss::Recycled(block)) => block,
        };
        if !meta.may_be_recycled(&Meta::read(index)?) {
            return Err(super::wrong_owner(block));
        }
    }
    let mut unknown = Collected::default();
    let meta = Meta::read(index)?;
    unknown.add_unknown(0..meta.ranges_in(blocks));
    Ok(Some(unknown.grouped(&meta, Vec::new())))
}

/// Groups while they are collected.
#[derive(Default)]
struct Collected {
    groups: Vec<Bounds>,
    places: Vec<RangeGroup>,
    pages: u64,
}

/// The most ranges of which nothing is known in a group: as many as a page has bounds of.
const MOST_UNKNOWN: usize = skip_bounds::page::RANGES_PER_PAGE as usize;

impl Collected {
    fn add(&mut self, bounds: Bounds, ranges: Range<u32>, page: Option<(Segment, u32)>) {
        if !ranges.is_empty() {
            self.groups.push(bounds);
            self.places.push(RangeGroup { ranges, page });
        }
    }

    fn add_unknown(&mut self, ranges: Range<u32>) {
        let end = ranges.end;
        for first in ranges.step_by(MOST_UNKNOWN) {
            self.add(UNKNOWN, first..first.saturating_add(MOST_UNKNOWN as u32).min(end), None);
        }
    }

    fn grouped(self, meta: &Meta, delta_bounds: Vec<(u32, Bounds)>) -> GroupedBounds {
        let Self { groups, places, pages } = self;
        GroupedBounds {
            groups,
            places,
            delta_bounds,
            pages_per_range: meta.pages_per_range,
            pages,
            seed: meta.seed,
        }
    }
}

fn try_of_column(index: Rel, meta: &Meta, column: u16, blocks: u32) -> Fetch<GroupedBounds> {
    let index = meta.bind(index);
    let count = meta.ranges_in(blocks);
    let mut added: Vec<(u32, Bounds)> = Vec::new();
    delta::scan(index, meta, |entry| {
        if entry.column == column && entry.part < count {
            added.push((entry.part, Bounds::of(entry.hash)));
        }
    })?;
    added.sort_unstable_by_key(|&(range, _)| range);
    let union = |of_range: &[(u32, Bounds)]| {
        let all = of_range.iter().fold(Bounds::EMPTY, |all, (_, bounds)| all.union(*bounds));
        (of_range[0].0, all)
    };
    let delta_bounds = added.chunk_by(|one, other| one.0 == other.0).map(union).collect();
    let live = directory::live(index, meta, |c| if c == column { KeySet::ALL } else { KeySet::NONE })?;
    let mut found = Collected::default();
    let mut covered = 0;
    for segment in live.of_column(column) {
        let (shape, first) = (segment.bounds_shape()?, segment.first_range);
        if first > covered {
            found.add_unknown(covered..first.min(count));
        }
        covered = covered.max(segment.end_range());
        let summaries = bounds::summaries(index, segment)?;
        found.pages += 1;
        for number in 0..shape.data_pages() {
            let of_page = shape.ranges_of(number);
            let ranges = first + of_page.start..(first + of_page.end).min(count);
            let summary = match summaries.as_ref().and_then(|all| all.get(number as usize)) {
                Some(summary) => *summary,
                None => PageSummary::of(bounds::of_page(index, segment, &shape, number)?),
            };
            found.add(summary.bounds(), ranges, Some((segment.segment, number)));
        }
    }
    found.add_unknown(covered.min(count)..count);
    for stretch in live.open.iter().filter(|stretch| stretch.column == column) {
        found.add_unknown(stretch.first_range.min(count)..stretch.end_range().min(count));
    }
    Ok(found.grouped(meta, delta_bounds))
}
