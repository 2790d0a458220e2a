//! Merging maps of a column into one by one pass over their sorted numbers, without reading the table.
//!
//! VACUUM merges neighbouring maps as it merges segments of filters ([`super::merge`]): as many of the newest ones as
//! gain enough. Additions are merged with each other, starting with the smallest, while the next one is at most twice
//! as large, and into the maps below them when they have grown to a part of those maps' size. So each pair is moved
//! O(log n) times, and a lookup reads O(log n) maps.
//!
//! Maps of different forms stay apart: those of a grown table have more fingerprint bits (`src/index/refine.rs`). An
//! addition has the form of the maps below it, but for rare ones, which stay additions.
//!
//! The new map is published first, then the old ones are retired ([`crate::pages::map`] says what readers see). A large
//! map is written key part by key part. After each of them, the sources all of whose keys are merged are retired. If
//! that is interrupted, the next maintenance goes on with it ([`super::unfinished`]); additions are then left as they
//! are.

use super::regions::{self, Region};
use super::retire_covered;
use crate::pages::directory::Directory;
use crate::pages::entry::Segment;
use crate::pages::map::{self, MapWriter, NewMap, Sources};
use crate::pages::miss::Miss;
use crate::pg::error::IndexResult;
use skip_map::key_part::KeySet;

/// Inserts merge an addition into the maps below it if these have at most this number of times its blocks.
const MOST_RATIO: u64 = 4;
/// VACUUM also merges smaller additions, because it runs seldom: by default when a fifth of a table's rows is new. It
/// writes less than ten pages for each page of the addition, and few maps remain.
const MOST_RATIO_IN_VACUUM: u64 = 8;
/// The run of neighbouring maps to merge ends with the newest one. It is the longest for which one of two conditions
/// holds: each map is less than twice as large as all newer ones of the run together, as in a binary counter; or the
/// largest is less than this number of times as large as all others of the run together.
const RATIO_IN_VACUUM: u64 = 8;

/// Merges the maps and additions of a column that are worth merging in VACUUM.
///
/// # Errors
/// Damage to the index.
pub fn merge_column(directory: &mut Directory<'_>, column: u16) -> IndexResult<()> {
    merge_neighbours(directory, column)?;
    merge_all_additions(directory, column, u32::MAX)
}

/// Merges the additions of a column that are worth merging, with each other and into the maps below them, and writes at
/// most about `most_blocks` blocks per merge.
///
/// # Errors
/// Damage to the index.
pub fn merge_all_additions(directory: &mut Directory<'_>, column: u16, most_blocks: u32) -> IndexResult<()> {
    merge_additions(directory, column, most_blocks, 0)?;
    sink_additions(directory, column, most_blocks)
}

fn blocks(regions: &[Region]) -> u64 {
    regions.iter().map(Region::blocks).sum()
}

fn merge_neighbours(directory: &mut Directory<'_>, column: u16) -> IndexResult<()> {
    let regions = regions::of_column(directory, column);
    let mut end = regions.len();
    while end > 1 {
        let joins = |at: &usize| {
            let (region, next) = (&regions[at - 1], &regions[*at]);
            region.is_of_maps() && region.joins(next)
        };
        let first = (1..end).rev().take_while(joins).last().map_or(end - 1, |at| at - 1);
        let is_small = |at: &usize| regions[*at].blocks() < 2 * blocks(&regions[at + 1..end]).max(1);
        let tail = (first..end - 1).rev().take_while(is_small).last().unwrap_or(end - 1);
        let is_worth = |at: &usize| {
            let largest = regions[*at..end].iter().map(Region::blocks).max().unwrap_or(0);
            largest < RATIO_IN_VACUUM * (blocks(&regions[*at..end]) - largest).max(1)
        };
        let start = (first..tail).find(is_worth).unwrap_or(tail);
        if end - start > 1 {
            merge_run(directory, &regions[start..end], &[])?;
        }
        end = start;
    }
    Ok(())
}

/// Merges the additions of a column with each other whose numbers are `first_id` or more.
///
/// # Errors
/// Damage to the index.
pub fn merge_additions(
    directory: &mut Directory<'_>,
    column: u16,
    most_blocks: u32,
    first_id: u64,
) -> IndexResult<()> {
    let mut additions = directory.additions(column);
    additions.retain(|s| s.id >= first_id);
    additions.sort_unstable_by_key(|s| (s.fingerprint_bits(), s.blocks, s.id));
    additions
        .chunk_by(|one, other| one.fingerprint_bits() == other.fingerprint_bits())
        .try_for_each(|alike| merge_smallest(directory, alike, most_blocks))
}

/// Merges the smallest of some additions, which are sorted by size.
fn merge_smallest(directory: &mut Directory<'_>, additions: &[Segment], most_blocks: u32) -> IndexResult<()> {
    let mut count = additions.len().min(1);
    while let Some(next) = additions.get(count) {
        let gathered = additions[..count].iter().map(|s| u64::from(s.blocks)).sum::<u64>();
        if u64::from(next.blocks) > 2 * gathered || gathered + u64::from(next.blocks) > most_blocks.into() {
            break;
        }
        count += 1;
    }
    if count > 1 { merge_run(directory, &[], &additions[..count]) } else { Ok(()) }
}

/// Merges additions into the maps below them.
fn sink_additions(directory: &mut Directory<'_>, column: u16, most_blocks: u32) -> IndexResult<()> {
    // A merge in steps would have to be abandoned if one of its sources were merged otherwise.
    let unfinished = directory.unfinished(column);
    let is_in_merge = |region: &Region| {
        unfinished.iter().any(|u| u.first_range < region.end && region.first_range < u.end_range())
            || region.next_part().is_some()
    };
    let share = if most_blocks == u32::MAX { MOST_RATIO_IN_VACUUM } else { MOST_RATIO };
    for addition in directory.additions(column) {
        let regions = regions::of_column(directory, column);
        let from = regions.partition_point(|region| region.end <= addition.first_range);
        let to = regions.partition_point(|region| region.first_range < addition.end_range());
        let below = regions.get(from..to).unwrap_or_default();
        let is_whole = below.windows(2).all(|pair| pair[0].end == pair[1].first_range)
            && below.first().is_some_and(|region| region.first_range <= addition.first_range)
            && below.last().is_some_and(|region| region.end >= addition.end_range())
            && below.iter().all(|region| region.is_of_maps() && !is_in_merge(region));
        let is_worth = u64::from(addition.blocks) * share >= blocks(below);
        if is_whole && is_worth && blocks(below) + u64::from(addition.blocks) <= most_blocks.into() {
            merge_run(directory, below, &[addition])?;
        }
    }
    Ok(())
}

/// Merges neighbouring maps, and additions within their ranges, into one map, which is divided by key if it is large;
/// or additions alone into one addition.
///
/// # Errors
/// Damage to the index.
pub fn merge_run(directory: &mut Directory<'_>, maps: &[Region], additions: &[Segment]) -> IndexResult<()> {
    let of_maps: Vec<Segment> = maps.iter().flat_map(Region::segments).collect();
    let all = || of_maps.iter().chain(additions);
    let covering = if maps.is_empty() { additions } else { &of_maps };
    let first_range = covering.iter().map(|s| s.first_range).min().unwrap_or(0);
    let end = covering.iter().map(Segment::end_range).max().unwrap_or(0);
    let Some((column, size)) = all().find_map(|s| Some((s.column, s.map()?))) else { return Ok(()) };
    let form = size.form;
    if all().any(|s| s.map().is_none_or(|size| size.form != form)) {
        return Ok(()); // each of them is correct by itself
    }
    let blocks_of_additions = additions.iter().map(|s| u64::from(s.blocks)).sum::<u64>();
    let depth = match maps {
        [] => 0,
        _ => regions::depth_of(maps).max(map::depth_of(form, blocks(maps) + blocks_of_additions)),
    };
    for key_part in regions::parts_in_order(&of_maps, depth, KeySet::NONE) {
        let new = NewMap {
            column,
            first_range,
            width: end - first_range,
            form,
            is_addition: maps.is_empty(),
            key_part,
            depth,
            from: 0,
            is_build: false,
        };
        let has_its = |s: &&Segment| s.key_part.keys().intersects(key_part.keys());
        write_merged(directory, new, &all().filter(has_its).copied().collect::<Vec<_>>())?;
        // What has all of its keys in the new maps; so the next key part has room there.
        retire_covered(directory, column)?;
    }
    let ids: Vec<u64> = additions.iter().map(|s| s.id).collect();
    directory.retire(&ids)
}

/// Publishes a map of the pairs that some maps have of its keys.
fn write_merged(directory: &mut Directory<'_>, new: NewMap, maps: &[Segment]) -> IndexResult<()> {
    let sources = Sources::of(directory.index(), maps)?;
    let mut writer = MapWriter::new(directory, new)?;
    let (coding, first_part) =
        (map::coding(new.form, new.width)?, new.first_range.saturating_mul(new.form.parts));
    let numbers = sources.of_merge(new.key_part, |_| 0);
    skip_map::merge(numbers, coding, first_part, |numbers| writer.push_all(numbers).map_err(Miss::from))
        .map_err(Miss::into_damage)?;
    writer.finish()
}
