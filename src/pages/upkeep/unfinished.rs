//! Merges in steps: a segment that is made of neighbouring ones by several maintenance runs, some pages in each.
//!
//! Its entry in the directory ([`Unfinished`]) says how many pages are written. It is raised after they were, so a
//! crash only means that some are written again. The segments that it is made of, its *sources*, stay live until it is
//! published, and are then retired, as in any merge. They are those that have its keys, cover its ranges exactly and
//! have lower ids. If ranges are not covered any more (rebuilt, or behind the table's end), the unfinished segment is
//! abandoned. A source that is gone never comes back, because ids are given out once; so what is a source in the last
//! step was one in all steps.
//!
//! A large map is merged key part by key part, in the order in which they lie in the index
//! ([`regions::parts_in_order`]): the next one is begun when the one before is published. No state is stored for that:
//! the directory shows which key parts are merged ([`super::regions`]). A source is retired when all of its keys are
//! merged, and leaves its blocks to the next key part.
//!
//! Maps never change. What is added to them comes as additions, which a merge of neighbouring maps leaves alone.
//!
//! Filters do change: bits are added, and then the open bit of a range may be cleared. Whoever adds bits to a source
//! therefore adds them to the pages of the unfinished segment that are written already ([`copies`]), before the source
//! of the bits is dropped. Pages that are not written yet are copied later, with these bits. The open slice is on the
//! first page. A range that is closed after that page was written stays open in the new segment, until it is closed
//! there.

use super::regions::{self, MergeTarget};
use super::{map_steps, merge};
use crate::pages::directory::Directory;
use crate::pages::entry::{Segment, SegmentKind, Unfinished};
use crate::pages::meta;
use crate::pg::{Damage, error::IndexResult};
use skip_map::key_part::{KeySpan, are_covered};

/// The sources of an unfinished segment; None if some are gone.
pub fn sources(directory: &Directory<'_>, unfinished: &Unfinished) -> Option<Vec<Segment>> {
    let keys = unfinished.key_part.keys();
    let is_source = |s: &Segment| {
        s.id < unfinished.id.into()
            && s.key_part.keys().intersects(keys)
            && s.first_range < unfinished.end_range()
            && unfinished.first_range < s.end_range()
    };
    let mut sources = directory.segments(unfinished.column);
    sources.retain(is_source);
    let is_inside =
        |s: &Segment| unfinished.first_range <= s.first_range && s.end_range() <= unfinished.end_range();
    let spans: Vec<KeySpan> = sources.iter().map(Segment::key_span).collect();
    let is_whole = are_covered(&spans, keys, (unfinished.first_range, unfinished.end_range()));
    // Maps may overlap: all of their pairs are right. Filters are put side by side.
    let fit = |pair: &[Segment]| pair[0].end_range() == pair[1].first_range || pair[0].map().is_some();
    let is_sound = is_whole && sources.iter().all(is_inside) && sources.windows(2).all(fit);
    (is_sound && !sources.is_empty()).then_some(sources)
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

impl Unfinished {
    fn target(&self) -> MergeTarget {
        let Self { column, first_range, key_part, .. } = *self;
        MergeTarget { column, first_range, end: self.end_range(), key_part }
    }
}

/// Begins to merge neighbouring segments in steps, with `blocks` blocks. If that is 0, it is a map, and what it is
/// likely to need is found from its sources. Does nothing once the ids are used up that an unfinished segment can have.
///
/// # Errors
/// Damage to the index.
pub fn begin(directory: &mut Directory<'_>, target: MergeTarget, blocks: u32) -> IndexResult<()> {
    let Ok(id) = u32::try_from(meta::take_segment_id(directory.index())?) else { return Ok(()) };
    let mut unfinished = Unfinished {
        column: target.column,
        first_range: target.first_range,
        width: target.end - target.first_range,
        key_part: target.key_part,
        first_block: 0,
        blocks,
        pages: 0,
        id,
        pairs: 0,
        has_data: false,
    };
    let Some(sources) = sources(directory, &unfinished) else { return Ok(()) };
    if sources[0].map().is_some() && blocks == 0 {
        unfinished.blocks = map_steps::likely_blocks(directory, target, &sources)?;
    }
    unfinished.first_block = match target.key_part.is_whole() {
        true => directory.allocate(unfinished.blocks)?,
        false => directory.allocate_from(unfinished.blocks, 0)?,
    };
    directory.set_unfinished(unfinished, 0)
}

/// Begins the next key parts of the merges of a column that are done so, unless they are begun.
///
/// # Errors
/// Damage to the index.
pub fn begin_next_parts(directory: &mut Directory<'_>, column: u16) -> IndexResult<()> {
    let begun = directory.unfinished(column);
    for region in regions::of_column(directory, column) {
        let is_in = |u: &Unfinished| u.first_range < region.end && region.first_range < u.end_range();
        if let Some(key_part) = region.next_part()
            && !begun.iter().any(is_in)
        {
            let target = MergeTarget { column, first_range: region.first_range, end: region.end, key_part };
            begin(directory, target, 0)?;
        }
    }
    Ok(())
}

/// Writes about `most_pages` more pages of an unfinished segment. With the last page it is published, what it replaces
/// is retired, and the next key part is begun. Returns the work done, in pages.
///
/// # Errors
/// Damage to the index.
pub fn go_on(directory: &mut Directory<'_>, unfinished: &Unfinished, most_pages: u32) -> IndexResult<u32> {
    let Some(sources) = sources(directory, unfinished) else {
        directory.abandon(unfinished)?;
        return Ok(0);
    };
    let work = match sources[0].kind {
        SegmentKind::Filters(_) => merge::write_pages(directory, unfinished, &sources, most_pages)?,
        _ => map_steps::write_pages(directory, unfinished, &sources, most_pages)?,
    };
    if work.lacks_room {
        // Seldom: keys are hashed, so that their parts are about as large as they are expected to be.
        let target = unfinished.target();
        let blocks = map_steps::most_blocks(directory, target, &sources)?;
        if blocks <= unfinished.blocks {
            return Err(Damage::new(unfinished.first_block, "a map needs more pages than it can have"));
        }
        directory.abandon(unfinished)?;
        begin(directory, target, blocks)?;
    }
    if work.is_done {
        super::retire_covered(directory, unfinished.column)?;
        if !unfinished.key_part.is_whole() {
            begin_next_parts(directory, unfinished.column)?;
        }
    }
    Ok(work.pages)
}

/// The work that is left of a merge, in pages: of an unfinished segment, and of the key parts that come after it, which
/// are about as large.
pub fn work_left(directory: &Directory<'_>, unfinished: &Unfinished) -> u64 {
    let is_merged = |s: &Segment| {
        (s.column, s.first_range, s.width) == (unfinished.column, unfinished.first_range, unfinished.width)
            && s.key_part.depth() == unfinished.key_part.depth()
            && s.summarizes()
    };
    let merged = directory.all_segments().filter(is_merged).count() as u64;
    let parts = (1u64 << unfinished.key_part.depth()).saturating_sub(merged + 1);
    u64::from(unfinished.pages_left()) + parts * u64::from(unfinished.blocks)
}

/// Finishes all merges that are done in steps.
///
/// # Errors
/// Damage to the index.
pub fn finish_all(directory: &mut Directory<'_>, columns: usize) -> IndexResult<()> {
    for column in 0..columns as u16 {
        begin_next_parts(directory, column)?;
    }
    while let Some(unfinished) = { directory.all_unfinished().next() } {
        go_on(directory, &unfinished, u32::MAX)?;
    }
    Ok(())
}

/// Abandons all unfinished segments.
///
/// # Errors
/// Damage to a directory page.
pub fn abandon_all(directory: &mut Directory<'_>) -> IndexResult<()> {
    let all: Vec<Unfinished> = directory.all_unfinished().collect();
    all.iter().try_for_each(|unfinished| directory.abandon(unfinished))
}
