//! Moving data that is already in the index: delta entries into segments ([`fold`]), narrow segments into wide ones
//! ([`merge`]), maps into larger ones ([`merge_maps`]), at once or in steps ([`unfinished`]), as far as VACUUM goes or
//! as far as one insert can ([`growth`]); ranges of a segment into a segment of their own ([`copy`]). None of these
//! reads the table. The replacement of segments by new ones that are made from the table is prepared and ended here
//! ([`rescan`]); how full filters are is found by [`fill`]. The caller holds the maintenance lock.

pub mod compact;
pub mod copy;
pub mod fill;
pub mod fold;
pub mod growth;
mod map_steps;
mod merge;
mod merge_maps;
pub mod rescan;
mod step;
pub mod unfinished;

use super::directory::Directory;
use super::entry::Segment;
use super::meta::Meta;
use crate::pg::{Rel, error::Read};

/// Retires segments that another one covers. A crash leaves them when it interrupts a merge between publishing the wide
/// segment and retiring the narrow ones. This must run before any other change of segments, so that new bits need to be
/// set in one segment only.
///
/// # Errors
/// Damage to the index.
pub fn retire_covered(directory: &mut Directory, columns: usize) -> Read<()> {
    let mut covered = Vec::new();
    for column in 0..columns {
        let segments = directory.segments(column as u16);
        for (i, s) in segments.iter().enumerate() {
            let inside = |o: &Segment| {
                o.first_range <= s.first_range
                    && o.end_range() >= s.end_range()
                    && (o.width, o.id) > (s.width, s.id)
            };
            // Sorted by first range: a segment that covers this one starts before it or at the same range.
            let same_start = segments[i..].iter().take_while(|o| o.first_range == s.first_range);
            if segments[..i].iter().rev().chain(same_start).any(inside) {
                covered.push(s.id);
            }
        }
    }
    directory.retire(&covered)
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
    retire_covered(&mut directory, meta.columns.len())?;
    Ok((Meta::read(index)?, directory))
}

/// Merges all segments of a column that are worth merging.
///
/// # Errors
/// Damage to the index.
pub fn merge_column(directory: &mut Directory<'_>, column: u16) -> Read<()> {
    if directory.segments(column).iter().any(|s| s.map().is_some()) {
        merge_maps::merge_column(directory, column, u32::MAX)
    } else {
        merge::merge_column(directory, column)
    }
}
