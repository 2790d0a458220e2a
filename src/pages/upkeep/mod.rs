//! Moving data that is already in the index: delta entries into segments ([`fold`]), narrow segments into wide ones
//! ([`merge`]), maps into larger ones ([`merge_maps`]), bounds into larger segments ([`merge_bounds`]), at once or in
//! steps ([`unfinished`]), as far as VACUUM goes or as far as one insert can ([`growth`]); ranges of a segment into a
//! segment of their own ([`copy`]). None of these reads the table. The replacement of segments by new ones that are
//! made from the table is prepared and ended here ([`rescan`]); how full filters are is found by [`fill`], and blocks
//! that a crash has lost by [`lost`]. The caller holds the maintenance lock.

pub mod compact;
pub mod copy;
pub mod fill;
pub mod fold;
pub mod growth;
pub mod lost;
mod map_steps;
mod merge;
mod merge_bounds;
mod merge_maps;
pub mod regions;
pub mod rescan;
mod step;
pub mod unfinished;

use super::directory::{Directory, LiveSegment};
use super::entry::{Rescan, Segment};
use super::meta::Meta;
use crate::pg::{Rel, error::IndexResult};
use std::collections::HashSet;

/// Retires the segments of a column that others cover for all of their keys. A crash leaves them when it interrupts a
/// merge between publishing the wide segment and retiring the narrow ones. This must run before any other change of
/// segments, so that new bits need to be set in one segment only.
///
/// # Errors
/// Damage to the index.
pub fn retire_covered(directory: &mut Directory, column: u16) -> IndexResult<()> {
    live_segments(directory, column).map(|_| ())
}

/// As [`retire_covered`]. Returns the others: the segments that lookups use.
fn live_segments(directory: &mut Directory, column: u16) -> IndexResult<Vec<LiveSegment>> {
    let in_use = directory.in_use(column);
    if in_use.len() != directory.count_of_segments(column) {
        let ids: HashSet<u64> = in_use.iter().map(|s| s.id).collect();
        let all = directory.segments(column);
        let covered: Vec<u64> = all.iter().map(|s| s.id).filter(|id| !ids.contains(id)).collect();
        // Wider segments count as those in use; the ones that a rescan makes are narrower than those that it replaces.
        let is_making =
            |r: &Rescan| r.column == column && r.width > 0 && covered.iter().any(|&id| id >= r.first_id);
        debug_assert!(
            !directory.rescans().iter().any(is_making),
            "segments of a rescan are not retired for old ones"
        );
        directory.retire(&covered)?;
    }
    Ok(in_use)
}

/// Retires maps of ranges that are summarized for some keys only: a crash has interrupted the publication of the maps
/// of all keys. Such ranges match all other keys, and after this, all keys; the table is then read again.
fn retire_incomplete(directory: &mut Directory, live: Vec<LiveSegment>) -> IndexResult<()> {
    let regions = regions::of_live(live);
    let incomplete = regions.iter().filter(|region| region.is_of_maps() && !region.is_complete());
    let ids: Vec<u64> = incomplete.flat_map(|region| region.live.iter().map(|s| s.id)).collect();
    directory.retire(&ids)
}

/// Loads the meta page and the directory for maintenance, and removes what interrupted maintenance left behind.
///
/// # Errors
/// Damage to the index.
pub fn load(index: Rel) -> IndexResult<(Meta, Directory)> {
    let meta = Meta::read(index)?;
    let mut directory = Directory::load(index, &meta)?;
    directory.free_reserved()?;
    rescan::end_interrupted(&mut directory)?;
    for column in 0..meta.columns.len() as u16 {
        let live = live_segments(&mut directory, column)?;
        retire_incomplete(&mut directory, live)?;
    }
    Ok((Meta::read(index)?, directory))
}

/// Merges all segments of a column that are worth merging.
///
/// # Errors
/// Damage to the index.
pub fn merge_column(directory: &mut Directory<'_>, column: u16) -> IndexResult<()> {
    if directory.segments(column).iter().any(Segment::is_of_bounds) {
        merge_bounds::merge_column(directory, column)
    } else if directory.segments(column).iter().any(|s| s.map().is_some()) {
        merge_maps::merge_column(directory, column)
    } else {
        merge::merge_column(directory, column)
    }
}

/// Folds the delta, and merges what that adds to the maps of all columns, so that lookups read few additions. A rescan
/// of maps that is going on is given.
///
/// # Errors
/// Damage to the index.
pub fn fold_and_merge(
    directory: &mut Directory<'_>,
    columns: usize,
    during: Option<&Rescan>,
) -> IndexResult<()> {
    fold::fold(directory, columns)?;
    for column in 0..columns as u16 {
        // The rescan still reads the additions that were there before it.
        let first_id = during.filter(|rescan| rescan.column == column).map_or(0, |rescan| rescan.first_id);
        merge_maps::merge_additions(directory, column, u32::MAX, first_id)?;
    }
    Ok(())
}
