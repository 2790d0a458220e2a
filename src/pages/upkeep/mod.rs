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

use super::directory::Directory;
use super::entry::Segment;
use super::meta::Meta;
use crate::pg::{Rel, error::Read};
use std::collections::HashSet;

/// Retires the segments of a column that others cover for all of their keys. A crash leaves them when it interrupts a
/// merge between publishing the wide segment and retiring the narrow ones. This must run before any other change of
/// segments, so that new bits need to be set in one segment only.
///
/// # Errors
/// Damage to the index.
pub fn retire_covered(directory: &mut Directory, column: u16) -> Read<()> {
    let in_use: HashSet<u64> = directory.in_use(column).iter().map(|s| s.id).collect();
    let covered: Vec<u64> =
        directory.segments(column).iter().map(|s| s.id).filter(|id| !in_use.contains(id)).collect();
    directory.retire(&covered)
}

/// Retires maps of ranges that are summarized for some keys only: a crash has interrupted the publication of the maps
/// of all keys. Such ranges match all other keys, and after this, all keys; the table is then read again.
fn retire_incomplete(directory: &mut Directory, column: u16) -> Read<()> {
    let regions = regions::of_column(directory, column);
    let incomplete = regions.iter().filter(|region| region.is_of_maps() && !region.is_complete());
    let ids: Vec<u64> = incomplete.flat_map(|region| region.live.iter().map(|s| s.id)).collect();
    directory.retire(&ids)
}

/// Loads the meta page and the directory for maintenance, and removes what interrupted maintenance left behind.
///
/// # Errors
/// Damage to the index.
pub fn load(index: Rel) -> Read<(Meta, Directory)> {
    let meta = Meta::read(index)?;
    let mut directory = Directory::load(index, &meta)?;
    directory.free_reserved()?;
    rescan::end_interrupted(&mut directory)?;
    for column in 0..meta.columns.len() as u16 {
        retire_covered(&mut directory, column)?;
        retire_incomplete(&mut directory, column)?;
    }
    Ok((Meta::read(index)?, directory))
}

/// Merges all segments of a column that are worth merging.
///
/// # Errors
/// Damage to the index.
pub fn merge_column(directory: &mut Directory<'_>, column: u16) -> Read<()> {
    if directory.segments(column).iter().any(Segment::is_of_bounds) {
        merge_bounds::merge_column(directory, column)
    } else if directory.segments(column).iter().any(|s| s.map().is_some()) {
        merge_maps::merge_column(directory, column)
    } else {
        merge::merge_column(directory, column)
    }
}
