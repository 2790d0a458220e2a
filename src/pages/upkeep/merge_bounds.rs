//! Merging neighbouring segments of bounds, by putting their ranges side by side.
//!
//! A segment has at most 201 pages, 1.6 MB, so every merge is done at once: some milliseconds, also by an insert. From
//! the newest segment back, one is merged with those gathered before while it is less than twice as wide as they are
//! together. So each range is moved O(log n) times, and few segments remain.
//!
//! The wide segment is published first, then the others are retired, as in a merge of filters ([`super::merge`]).

use crate::pages::bounds;
use crate::pages::directory::Directory;
use crate::pages::entry::Segment;
use crate::pg::error::IndexResult;
use skip_bounds::page::MOST_RANGES;

/// Merges all segments of a column that are worth merging.
///
/// # Errors
/// Damage to the index.
pub fn merge_column(directory: &mut Directory<'_>, column: u16) -> IndexResult<()> {
    let segments = directory.segments(column);
    let mut end = segments.len();
    while end > 1 {
        let mut start = end - 1;
        let mut gathered = segments[start].width;
        while start > 0 {
            let next = &segments[start - 1];
            let is_neighbour = next.is_of_bounds() && next.end_range() == segments[start].first_range;
            if !is_neighbour || next.width / 2 >= gathered || gathered + next.width > MOST_RANGES {
                break;
            }
            gathered += next.width;
            start -= 1;
        }
        if end - start > 1 {
            merge_run(directory, &segments[start..end])?;
        }
        end = start.min(end - 1);
    }
    Ok(())
}

/// Merges neighbouring segments.
///
/// # Errors
/// Damage to the index.
fn merge_run(directory: &mut Directory<'_>, run: &[Segment]) -> IndexResult<()> {
    let Some(first) = run.first() else { return Ok(()) };
    let mut ranges = Vec::new();
    for segment in run {
        ranges.extend(bounds::all(directory.index(), segment)?);
    }
    bounds::publish(directory, first.column, first.first_range, &ranges)?;
    let ids: Vec<u64> = run.iter().map(|segment| segment.id).collect();
    directory.retire(&ids)
}
