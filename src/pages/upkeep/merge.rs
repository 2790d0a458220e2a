//! Merging neighbouring segments of equal filter size into wider ones, by moving bits.
//!
//! [`skip_segment::spans`] chooses the segments for VACUUM and `skip_summarize`, [`super::growth`] those for inserts.
//!
//! The wide segment is written and published first, then the narrow ones are retired. A crash in between leaves both,
//! which are all correct, and the next maintenance retires the covered ones.

use super::super::directory::Directory;
use super::super::entry::{Segment, Unfinished};
use super::super::miss::{Fetch, Miss};
use super::super::segment;
use super::step::StepDone;
use crate::pages::meta;
use crate::pg::{Damage, Rel, error::IndexResult, memory};
use skip_segment::page::SLICE_BYTES;
use skip_segment::spans::{Span, packs_well, runs_to_merge};
use skip_segment::{SegmentShape, copy_bits};
use std::ops::Range;

/// Merges all segments of a column that are worth merging.
///
/// # Errors
/// Damage to the index.
pub fn merge_column(directory: &mut Directory, column: u16) -> IndexResult<()> {
    let segments = directory.segments(column);
    let spans: Vec<Span> = segments.iter().map(Segment::span).collect();
    runs_to_merge(&spans, SLICE_BYTES, u32::MAX)
        .into_iter()
        .try_for_each(|run| merge_run(directory, &segments[run]))
}

/// The blocks of a segment that is made of neighbours with filters of the same size. None if it would be too wide for a
/// page, or leave much of its pages unused.
pub fn blocks_of(run: &[Segment]) -> Option<u32> {
    let (first, last) = (run.first()?, run.last()?);
    let bits = first.filters().ok()?.bits;
    let shape = SegmentShape::new(last.end_range() - first.first_range, bits, SLICE_BYTES)?;
    packs_well(&shape, SLICE_BYTES).then(|| shape.pages())
}

/// Writes more pages of an unfinished segment, and publishes it with the last one.
///
/// # Errors
/// Damage to the index.
pub fn write_pages(
    directory: &mut Directory<'_>,
    unfinished: &Unfinished,
    sources: &[Segment],
    most_pages: u32,
) -> IndexResult<StepDone> {
    let index = directory.index();
    let merged = unfinished.segment(&sources[0]);
    let shape = merged.shape()?;
    let sources: Vec<(Segment, SegmentShape)> =
        sources.iter().map(|s| Ok((*s, s.shape()?))).collect::<IndexResult<_>>()?;
    let end = shape.pages().min(unfinished.pages.saturating_add(most_pages));
    copy_pages(index, &sources, &merged, &shape, unfinished.pages..end)?;
    let is_done = end == shape.pages();
    if is_done {
        directory.publish(merged)?;
    } else {
        directory.set_unfinished(Unfinished { pages: end, ..*unfinished }, 0)?;
    }
    Ok(StepDone { pages: end - unfinished.pages, is_done, lacks_room: false })
}

/// Merges neighbouring segments with filters of the same size.
///
/// # Errors
/// Damage to the index.
pub fn merge_run(directory: &mut Directory, run: &[Segment]) -> IndexResult<()> {
    let index = directory.index();
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
    let width = last.end_range() - first.first_range;
    let impossible = || Damage::new(first.first_block, "neighbouring segments cannot be merged");
    let shape = SegmentShape::new(width, first.filters()?.bits, SLICE_BYTES).ok_or_else(impossible)?;
    let sources: Vec<(Segment, SegmentShape)> =
        run.iter().map(|s| Ok((*s, s.shape()?))).collect::<IndexResult<_>>()?;
    let merged = Segment {
        width,
        first_block: directory.allocate(shape.pages())?,
        blocks: shape.pages(),
        id: meta::take_segment_id(index)?,
        ..*first
    };
    copy_pages(index, &sources, &merged, &shape, 0..shape.pages())?;
    directory.publish(merged)?;
    let ids: Vec<u64> = run.iter().map(|s| s.id).collect();
    directory.retire(&ids)
}

fn copy_pages(
    index: Rel,
    sources: &[(Segment, SegmentShape)],
    merged: &Segment,
    shape: &SegmentShape,
    pages: Range<u32>,
) -> IndexResult<()> {
    for page in pages {
        memory::check_for_interrupts();
        let slices = gather_page(index, sources, shape, page).map_err(Miss::into_damage)?;
        segment::write_page(index, merged, page, |out| out.copy_from_slice(&slices));
    }
    Ok(())
}

/// The slices of one page of the wide segment, gathered from the narrow ones. Slices of one page are consecutive in
/// each source too, so each source page is read once or twice.
fn gather_page(
    index: Rel,
    sources: &[(Segment, SegmentShape)],
    shape: &SegmentShape,
    page: u32,
) -> Fetch<Vec<u8>> {
    let mut out = vec![0u8; SLICE_BYTES as usize];
    let first = page * shape.slices_per_page();
    let end = (first + shape.slices_per_page()).min(shape.slices());
    let mut at_range = 0;
    for (segment, source) in sources {
        let mut slice = first;
        while slice < end {
            let (source_page, _) = source.locate(slice);
            let stop = end.min((source_page + 1) * source.slices_per_page());
            segment::read_page(index, segment, source_page, |bytes| {
                for s in slice..stop {
                    let (from, to) = (source.locate(s).1 as usize * 8, shape.locate(s).1 as usize * 8);
                    copy_bits(&mut out, to + at_range, bytes, from, segment.width as usize);
                }
            })?;
            slice = stop;
        }
        at_range += segment.width as usize;
    }
    Ok(out)
}
