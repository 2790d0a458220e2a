//! Segments of bounds: for each range the least and the greatest order key, whether it holds NULLs, and whether it is
//! open.
//!
//! The pages are those of [`skip_bounds::page`], in the frame of other segment pages ([`super::segment`]): bounds of
//! ranges, and in front of them, if they are several, a page with a summary of each.
//!
//! Bounds of a published segment are only ever made wider, in place ([`widen`]), with one exception in a safe order:
//! an open range is closed in the same record that gives it its bounds. Each page is changed by one WAL record, so a
//! reader, and a crash, find the bounds of a range as they were before or as they are after. The summary is widened
//! first, then the page, and only then is what was added dropped from the delta. So a summary never excludes what its
//! page has: an insert that finds its value within the bounds of the page makes no entry in the delta, and a reader
//! that has only the summary must not rule that value out. Where a range is closed, the summary is first widened as if
//! the range stayed open, and narrowed after the page.
//!
//! Widening needs the maintenance lock, so the pages cannot be recycled meanwhile. Bounds that have become too wide are
//! replaced by those of a new segment ([`super::upkeep::rescan`]).

use super::entry::Segment;
use super::meta;
use super::miss::{Fetch, Miss};
use super::segment;
use crate::pages::directory::Directory;
use crate::pages::entry::SegmentKind;
use crate::pg::{Damage, Rel, error::IndexResult, memory, page, wal::PageEdit};
use skip_bounds::page::{self as layout, RANGES_PER_PAGE};
use skip_bounds::{Bounds, BoundsShape, PageSummary};
use skip_map::key_part::KeyPart;
use skip_segment::page::{PageImage, PageKind, SLICE_BYTES};
use std::ops::Range;

const _: () = assert!(layout::PAGE_BYTES == SLICE_BYTES as usize);

/// Data pages prefetched ahead of the one being read, where a lookup reads many.
const READ_AHEAD: u32 = 32;

/// Whether the bounds of a range have a value, or, for None, NULL. That the range is open does not count.
///
/// # Errors
/// As [`segment::read_page`].
pub fn has_entry(index: Rel, segment: &Segment, range: u32, key: Option<u64>) -> Fetch<bool> {
    let shape = segment.bounds_shape()?;
    let (number, place) = shape.locate(range - segment.first_range);
    let quarter = layout::quarter_of(place);
    segment::read_part(index, segment, shape.page_of(number), quarter, |bytes| {
        layout::get_in_quarter(bytes, place).holds(key)
    })
}

/// The summaries of a segment's data pages. A segment of one page has none: its page must be read.
///
/// # Errors
/// As [`segment::read_page`].
pub fn summaries(index: Rel, segment: &Segment) -> Fetch<Option<Vec<PageSummary>>> {
    let shape = segment.bounds_shape()?;
    if !shape.has_summaries() {
        return Ok(None);
    }
    let all = |page: &[u8]| (0..shape.data_pages()).map(|number| layout::get_summary(page, number)).collect();
    segment::read_page(index, segment, 0, all).map(Some)
}

/// The bounds of the ranges of data page `number`, in their order.
///
/// # Errors
/// As [`segment::read_page`].
pub fn of_page(index: Rel, segment: &Segment, shape: &BoundsShape, number: u32) -> Fetch<Vec<Bounds>> {
    let count = shape.ranges_of(number).len() as u32;
    segment::read_page(index, segment, shape.page_of(number), |bytes| {
        (0..count).map(|place| layout::get(bytes, place)).collect()
    })
}

/// Calls `each` with the number and the bounds of each range of the data pages that are `wanted`, as their summaries
/// tell. Returns the number of pages read.
///
/// # Errors
/// As [`segment::read_page`].
pub fn each(
    index: Rel,
    segment: &Segment,
    mut wanted: impl FnMut(Range<u32>, Option<&PageSummary>) -> bool,
    mut each: impl FnMut(u32, Bounds),
) -> Fetch<u64> {
    let shape = segment.bounds_shape()?;
    let summaries = summaries(index, segment)?;
    let ranges = |number: u32| {
        let of_page = shape.ranges_of(number);
        segment.first_range + of_page.start..segment.first_range + of_page.end
    };
    let summary = |number: u32| summaries.as_ref().and_then(|all| all.get(number as usize));
    let wanted: Vec<u32> =
        (0..shape.data_pages()).filter(|&number| wanted(ranges(number), summary(number))).collect();
    for batch in wanted.chunks(READ_AHEAD as usize) {
        memory::check_for_interrupts();
        if batch.len() > 1 {
            // Up to the first page that is in memory: then the others are likely to be, too.
            let is_cached =
                |&number: &u32| page::prefetch(index, segment.first_block + shape.page_of(number));
            let _ = batch.iter().any(is_cached);
        }
        for &number in batch {
            let first = ranges(number).start;
            for (place, bounds) in (0u32..).zip(of_page(index, segment, &shape, number)?) {
                each(first + place, bounds);
            }
        }
    }
    Ok(wanted.len() as u64 + u64::from(shape.has_summaries()))
}

/// The bounds of at most `count` of the ranges around block `page` of a segment.
///
/// # Errors
/// As [`segment::read_page`].
pub fn sample(index: Rel, segment: &Segment, page: u32, count: u32) -> Fetch<Vec<Bounds>> {
    let shape = segment.bounds_shape()?;
    let all = of_page(index, segment, &shape, page.min(shape.data_pages() - 1))?;
    let step = all.len().div_ceil(count.max(1) as usize).max(1);
    Ok(all.into_iter().step_by(step).collect())
}

/// What is added to the bounds of a range, which is counted from the table's first.
#[derive(Clone, Copy)]
pub struct Widening {
    pub range: u32,
    /// What the range has besides; an open one makes it open.
    pub with: Bounds,
    /// Whether the range is closed then.
    pub closes: bool,
}

/// Widens bounds of ranges of a segment, in the order of the ranges, with one WAL record for the summary of each page
/// that changes, and then one for the page. The caller holds the maintenance lock.
///
/// # Errors
/// Damage to a page.
pub fn widen(index: Rel, segment: &Segment, widenings: &[Widening]) -> IndexResult<()> {
    let shape = segment.bounds_shape()?;
    let inside = |range: u32| (segment.first_range..segment.end_range()).contains(&range);
    if !widenings.iter().all(|widening| inside(widening.range)) {
        return Err(Damage::new(
            segment.first_block,
            "bounds of a range of another segment were to be widened",
        ));
    }
    let number = |widening: &Widening| shape.locate(widening.range - segment.first_range).0;
    for of_page in widenings.chunk_by(|one, other| number(one) == number(other)) {
        memory::check_for_interrupts();
        let number = number(&of_page[0]);
        if shape.has_summaries() {
            // What is closed below still counts as open.
            let opens = |widening: &Widening| Widening { closes: false, ..*widening };
            let still_open: Vec<Widening> = of_page.iter().map(opens).collect();
            let mut all = self::of_page(index, segment, &shape, number).map_err(Miss::into_damage)?;
            apply(segment, &shape, &mut all, &still_open);
            write_summary(index, segment, number, &PageSummary::of(all))?;
        }
        let summary = widen_page(index, segment, &shape, number, of_page)?;
        if shape.has_summaries() && of_page.iter().any(|widening| widening.closes) {
            write_summary(index, segment, number, &summary)?;
        }
    }
    Ok(())
}

/// Widens the bounds of ranges of one data page. Returns its summary.
fn widen_page(
    index: Rel,
    segment: &Segment,
    shape: &BoundsShape,
    number: u32,
    widenings: &[Widening],
) -> IndexResult<PageSummary> {
    let mut edit = start_edit(index, segment, shape.page_of(number))?;
    let mut all: Vec<Bounds> = {
        let bytes = edit.before()?.payload();
        (0..shape.ranges_of(number).len() as u32).map(|place| layout::get(bytes, place)).collect()
    };
    for place in apply(segment, shape, &mut all, widenings) {
        put(edit.image(), place, all[place as usize]);
    }
    edit.commit();
    Ok(PageSummary::of(all))
}

/// Widens the bounds of ranges of one data page, which are `all` of that page. Returns the places of those that change.
fn apply(segment: &Segment, shape: &BoundsShape, all: &mut [Bounds], widenings: &[Widening]) -> Vec<u32> {
    let mut places = Vec::with_capacity(widenings.len());
    for widening in widenings {
        let (_, place) = shape.locate(widening.range - segment.first_range);
        let Some(bounds) = all.get_mut(place as usize) else { continue };
        let mut wider = bounds.union(widening.with);
        wider.open &= !widening.closes;
        wider.widened |= wider != *bounds && !widening.closes;
        if wider != *bounds {
            *bounds = wider;
            places.push(place);
        }
    }
    places
}

fn put(image: &mut PageImage, place: u32, bounds: Bounds) {
    let at = layout::bytes_of(place);
    image.put(at.keys, &layout::keys(bounds));
    image.change_byte(at.open, |byte| layout::with_bit(byte, at.mask, bounds.open));
    image.change_byte(at.nulls, |byte| layout::with_bit(byte, at.mask, bounds.nulls));
    image.change_byte(at.widened, |byte| layout::with_bit(byte, at.mask, bounds.widened));
}

fn write_summary(index: Rel, segment: &Segment, number: u32, summary: &PageSummary) -> IndexResult<()> {
    let mut edit = start_edit(index, segment, 0)?;
    if layout::get_summary(edit.before()?.payload(), number) != *summary {
        edit.image().put(layout::summary_at(number).start, &summary.encode());
    }
    edit.commit();
    Ok(())
}

fn start_edit<'a>(index: Rel<'a>, segment: &Segment, page: u32) -> IndexResult<PageEdit<'a>> {
    let block = segment.first_block + page;
    let edit = PageEdit::start(index, block, PageKind::Segment)?;
    let view = edit.before()?;
    if view.owner() != segment.id || view.place() != page {
        return Err(Damage::new(block, "the page does not belong to the segment that the directory names"));
    }
    Ok(edit)
}

/// Writes and publishes a segment with the bounds of neighbouring ranges, at most [`layout::MOST_RANGES`].
///
/// # Errors
/// Damage to the index.
pub fn publish(
    directory: &mut Directory<'_>,
    column: u16,
    first_range: u32,
    bounds: &[Bounds],
) -> IndexResult<()> {
    let index = directory.index();
    let width = u32::try_from(bounds.len()).unwrap_or(u32::MAX);
    let shape = BoundsShape::new(width).ok_or_else(|| {
        Damage::new(meta::META_BLOCK, "a segment of bounds with an invalid width was requested")
    })?;
    let new = Segment {
        column,
        first_range,
        width,
        key_part: KeyPart::WHOLE,
        kind: SegmentKind::Bounds,
        first_block: directory.allocate(shape.pages())?,
        blocks: shape.pages(),
        id: meta::take_segment_id(index)?,
    };
    let pages = || bounds.chunks(RANGES_PER_PAGE as usize);
    if shape.has_summaries() {
        segment::write_page(index, &new, 0, |out| {
            for (number, of_page) in (0u32..).zip(pages()) {
                let at = layout::summary_at(number);
                if let Some(target) = out.get_mut(at) {
                    target.copy_from_slice(&PageSummary::of(of_page.iter().copied()).encode());
                }
            }
        });
    }
    for (number, of_page) in (0u32..).zip(pages()) {
        memory::check_for_interrupts();
        segment::write_page(index, &new, shape.page_of(number), |out| {
            (0u32..).zip(of_page).for_each(|(place, &bounds)| layout::put(out, place, bounds));
        });
    }
    directory.publish(new)
}

/// Adds the bounds of ranges to the segment right before them, if there is room on its last page. Returns whether there
/// was. The page is written first, then its summary, then the directory has the new width. Until then no reader looks
/// at the new bounds, and a crash leaves nothing to be undone.
///
/// # Errors
/// Damage to the index.
pub fn append(
    directory: &mut Directory<'_>,
    column: u16,
    first_range: u32,
    bounds: &[Bounds],
) -> IndexResult<bool> {
    let index = directory.index();
    let ends_there = |s: &Segment| s.is_of_bounds() && s.end_range() == first_range;
    let Some(segment) = directory.segments(column).into_iter().find(ends_there) else { return Ok(false) };
    let shape = segment.bounds_shape()?;
    let (number, first_place) = shape.locate(segment.width);
    let room = RANGES_PER_PAGE - first_place;
    if number >= shape.data_pages() || bounds.len() > room as usize {
        return Ok(false);
    }
    let mut edit = start_edit(index, &segment, shape.page_of(number))?;
    let mut all: Vec<Bounds> = {
        let bytes = edit.before()?.payload();
        (0..first_place).map(|place| layout::get(bytes, place)).collect()
    };
    all.extend_from_slice(bounds);
    (first_place..).zip(bounds).for_each(|(place, &bounds)| put(edit.image(), place, bounds));
    edit.commit();
    if shape.has_summaries() {
        write_summary(index, &segment, number, &PageSummary::of(all))?;
    }
    directory.set_width(&segment, segment.width + bounds.len() as u32)?;
    Ok(true)
}

/// All bounds of a segment, in the order of its ranges. The caller holds the maintenance lock.
///
/// # Errors
/// Damage to a page.
pub fn all(index: Rel, segment: &Segment) -> IndexResult<Vec<Bounds>> {
    let mut all = Vec::with_capacity(segment.width as usize);
    each(index, segment, |_, _| true, |_, bounds| all.push(bounds)).map_err(Miss::into_damage)?;
    Ok(all)
}

/// The data pages of a segment whose summaries exclude what the pages have: there must be none.
///
/// # Errors
/// As [`segment::read_page`].
pub fn wrong_summaries(index: Rel, segment: &Segment) -> Fetch<Vec<u32>> {
    let shape = segment.bounds_shape()?;
    let Some(summaries) = summaries(index, segment)? else { return Ok(Vec::new()) };
    let mut wrong = Vec::new();
    for (number, summary) in (0u32..).zip(summaries) {
        memory::check_for_interrupts();
        if !summary.covers(&PageSummary::of(of_page(index, segment, &shape, number)?)) {
            wrong.push(number);
        }
    }
    Ok(wrong)
}
