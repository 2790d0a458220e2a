//! Merging maps of a column into one by one pass over their sorted numbers, without reading the table.
//!
//! Neighbouring maps are merged as segments of filters are ([`super::merge`]): from the newest one back, while the next
//! one is less than twice as large as those gathered before. Additions are merged with each other by the same rule,
//! starting with the smallest, and into the maps below them when they have grown to a quarter of those maps' size. So
//! each pair is moved O(log n) times, and a lookup reads O(log n) maps.
//!
//! The new map is published first, then the old ones are retired ([`crate::pages::map`] says what readers see).

use crate::pages::directory::Directory;
use crate::pages::entry::Segment;
use crate::pages::map::{self, Map, MapWriter, NewMap};
use crate::pages::miss::Miss;
use crate::pg::{error::Read, wal::Logging};
use skip_map::MergeSource;

/// An addition is merged into the maps below it when those have at most this number of times its blocks.
const LEAST_SHARE: u64 = 4;

/// Merges the maps and additions of a column that are worth merging, and writes at most about `most_blocks` blocks per
/// merge.
///
/// # Errors
/// Damage to the index.
pub fn merge_column(directory: &mut Directory<'_>, column: u16, most_blocks: u32) -> Read<()> {
    merge_neighbours(directory, column, most_blocks)?;
    merge_all_additions(directory, column, most_blocks)
}

/// Merges the additions of a column that are worth merging, with each other and into the maps below them, and writes at
/// most about `most_blocks` blocks per merge.
///
/// # Errors
/// Damage to the index.
pub fn merge_all_additions(directory: &mut Directory<'_>, column: u16, most_blocks: u32) -> Read<()> {
    merge_additions(directory, column, most_blocks)?;
    sink_additions(directory, column, most_blocks)
}

fn blocks(segments: &[Segment]) -> u64 {
    segments.iter().map(|s| u64::from(s.blocks)).sum()
}

fn merge_neighbours(directory: &mut Directory<'_>, column: u16, most_blocks: u32) -> Read<()> {
    let maps = directory.segments(column);
    let mut end = maps.len();
    while end > 1 {
        let mut start = end - 1;
        while start > 0 {
            let (next, gathered) = (&maps[start - 1], blocks(&maps[start..end]));
            let is_neighbour = next.map().is_some() && next.end_range() == maps[start].first_range;
            let is_small = u64::from(next.blocks) < 2 * gathered.max(1);
            if !is_neighbour || !is_small || gathered + u64::from(next.blocks) > most_blocks.into() {
                break;
            }
            start -= 1;
        }
        if end - start > 1 {
            merge_run(directory, &maps[start..end], &[])?;
        }
        end = start.min(end - 1);
    }
    Ok(())
}

fn merge_additions(directory: &mut Directory<'_>, column: u16, most_blocks: u32) -> Read<()> {
    let mut additions = directory.additions(column);
    additions.sort_unstable_by_key(|s| (s.blocks, s.id));
    let mut count = additions.len().min(1);
    while let Some(next) = additions.get(count) {
        let gathered = blocks(&additions[..count]);
        if u64::from(next.blocks) > 2 * gathered || gathered + u64::from(next.blocks) > most_blocks.into() {
            break;
        }
        count += 1;
    }
    if count > 1 { merge_run(directory, &[], &additions[..count]) } else { Ok(()) }
}

/// Merges additions into the maps below them.
fn sink_additions(directory: &mut Directory<'_>, column: u16, most_blocks: u32) -> Read<()> {
    // A merge in steps would have to be abandoned if one of its sources were merged otherwise.
    let unfinished = directory.unfinished(column);
    let is_in_merge =
        |map: &Segment| unfinished.iter().any(|u| (u.first_range..u.end_range()).contains(&map.first_range));
    for addition in directory.additions(column) {
        let maps = directory.segments(column);
        let from = maps.partition_point(|map| map.end_range() <= addition.first_range);
        let to = maps.partition_point(|map| map.first_range < addition.end_range());
        let below = maps.get(from..to).unwrap_or_default();
        let is_whole = below.windows(2).all(|pair| pair[0].end_range() == pair[1].first_range)
            && below.first().is_some_and(|map| map.first_range <= addition.first_range)
            && below.last().is_some_and(|map| map.end_range() >= addition.end_range())
            && below.iter().all(|map| map.map().is_some() && !is_in_merge(map));
        let is_worth = u64::from(addition.blocks) * LEAST_SHARE >= blocks(below);
        if is_whole && is_worth && blocks(below) + u64::from(addition.blocks) <= most_blocks.into() {
            merge_run(directory, below, &[addition])?;
        }
    }
    Ok(())
}

/// Merges neighbouring maps, and additions within their ranges, into one map; or additions alone into one addition.
///
/// # Errors
/// Damage to the index.
pub fn merge_run(directory: &mut Directory<'_>, maps: &[Segment], additions: &[Segment]) -> Read<()> {
    let all = || maps.iter().chain(additions);
    let covering = if maps.is_empty() { additions } else { maps };
    let first_range = covering.iter().map(|s| s.first_range).min().unwrap_or(0);
    let end = covering.iter().map(Segment::end_range).max().unwrap_or(0);
    let Some((column, size)) = all().find_map(|s| Some((s.column, s.map()?))) else { return Ok(()) };
    let form = size.form;
    if all().any(|s| s.map().is_none_or(|size| size.form != form)) {
        return Ok(()); // each of them is correct by itself
    }
    let width = end - first_range;
    let coding = map::coding(form, width)?;
    let sources: Vec<Map<'_>> = all().map(|s| Map::of(directory.index(), s)).collect::<Read<_>>()?;
    let pairs = sources.iter().map(|map| map.pairs().map_err(Miss::not_recycled)).sum::<Read<u64>>()?;
    let most_pages = skip_map::most_pages(coding, pairs);
    let new = NewMap {
        column,
        first_range,
        width,
        form,
        is_addition: maps.is_empty(),
        most_pages: Some(most_pages),
        logging: Logging::EachPage,
    };
    let mut writer = MapWriter::new(directory, new)?;
    let numbers = sources
        .iter()
        .map(|map| MergeSource {
            coding: map.coding(),
            first_range: map.first_part() as u32,
            numbers: map.numbers(),
        })
        .collect();
    let first_part = first_range.saturating_mul(form.parts);
    skip_map::merge(numbers, coding, first_part, |number| writer.push(number).map_err(Miss::from))
        .map_err(Miss::not_recycled)?;
    writer.finish()?;
    let ids: Vec<u64> = all().map(|s| s.id).collect();
    directory.retire(&ids)
}
