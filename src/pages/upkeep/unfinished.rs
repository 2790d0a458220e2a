//! Merges in steps: a segment that is made of neighbouring ones by several maintenance runs, some pages in each.
//!
//! Its entry in the directory ([`Unfinished`]) says how many pages are written. It is raised after they were, so a
//! crash only means that some are written again. The segments that it is made of, its *sources*, stay live until it is
//! published, and are then retired, as in any merge. They are those that cover its ranges exactly and have lower ids.
//! If one of them is gone (rebuilt, or behind the table's end), the unfinished segment is abandoned. A source that is
//! gone never comes back, because ids are given out once.
//!
//! Maps never change. What is added to them comes as additions, which a merge of neighbouring maps leaves alone.
//!
//! Filters do change: bits are added, and then the open bit of a range may be cleared. Whoever adds bits to a source
//! therefore adds them to the pages of the unfinished segment that are written already ([`copies`]), before the source
//! of the bits is dropped. Pages that are not written yet are copied later, with these bits. The open slice is on the
//! first page. A range that is closed after that page was written stays open in the new segment, until it is closed
//! there.

use super::{map_steps, merge};
use crate::pages::directory::Directory;
use crate::pages::entry::{Segment, SegmentKind, Unfinished};
use crate::pages::meta;
use crate::pg::error::Read;

/// The sources of an unfinished segment; None if some are gone.
pub fn sources(directory: &Directory<'_>, unfinished: &Unfinished) -> Option<Vec<Segment>> {
    let touches =
        |s: &Segment| s.first_range < unfinished.end_range() && unfinished.first_range < s.end_range();
    let mut sources = directory.segments(unfinished.column);
    sources.retain(touches);
    let mut covered = unfinished.first_range;
    for source in &sources {
        if source.first_range != covered || source.id >= unfinished.id.into() {
            return None;
        }
        covered = source.end_range();
    }
    (!sources.is_empty() && covered == unfinished.end_range()).then_some(sources)
}

/// Unfinished segments of filters of a column, to which bits of their sources must be added too: each as a segment, and
/// the number of its pages that are written.
pub fn copies(directory: &Directory<'_>, column: u16) -> Vec<(Segment, u32)> {
    let copy = |unfinished: &Unfinished| {
        let segment = unfinished.segment(sources(directory, unfinished)?.first()?);
        matches!(segment.kind, SegmentKind::Filters(_)).then_some((segment, unfinished.pages))
    };
    directory.unfinished(column).iter().filter_map(copy).collect()
}

/// Begins to merge neighbouring segments in steps, into one that takes at most `blocks` blocks. Does nothing once the
/// ids are used up that an unfinished segment can have.
///
/// # Errors
/// Damage to the index.
pub fn begin(directory: &mut Directory<'_>, sources: &[Segment], blocks: u32) -> Read<()> {
    let (Some(first), Some(last)) = (sources.first(), sources.last()) else { return Ok(()) };
    let Ok(id) = u32::try_from(meta::take_segment_id(directory.index())?) else { return Ok(()) };
    let unfinished = Unfinished {
        column: first.column,
        first_range: first.first_range,
        width: last.end_range() - first.first_range,
        first_block: directory.allocate(blocks)?,
        blocks,
        pages: 0,
        id,
        pairs: 0,
        has_data: false,
    };
    directory.set_unfinished(unfinished, 0)
}

/// Writes about `most_pages` more pages of an unfinished segment. With the last page it is published, and its sources
/// are retired. Returns the work done, in pages.
///
/// # Errors
/// Damage to the index.
pub fn go_on(directory: &mut Directory<'_>, unfinished: &Unfinished, most_pages: u32) -> Read<u32> {
    let Some(sources) = sources(directory, unfinished) else {
        directory.abandon(unfinished)?;
        return Ok(0);
    };
    let work = match sources[0].kind {
        SegmentKind::Filters(_) => merge::write_pages(directory, unfinished, &sources, most_pages)?,
        _ => map_steps::write_pages(directory, unfinished, &sources, most_pages)?,
    };
    if work.is_done {
        let ids: Vec<u64> = sources.iter().map(|s| s.id).collect();
        directory.retire(&ids)?;
    }
    Ok(work.pages)
}

/// Finishes all unfinished segments.
///
/// # Errors
/// Damage to the index.
pub fn finish_all(directory: &mut Directory<'_>) -> Read<()> {
    while let Some(unfinished) = { directory.all_unfinished().next() } {
        go_on(directory, &unfinished, u32::MAX)?;
    }
    Ok(())
}

/// Abandons all unfinished segments.
///
/// # Errors
/// Damage to a directory page.
pub fn abandon_all(directory: &mut Directory<'_>) -> Read<()> {
    let all: Vec<Unfinished> = directory.all_unfinished().collect();
    all.iter().try_for_each(|unfinished| directory.abandon(unfinished))
}
