//! Folding the delta into segments.
//!
//! The last delta page is sealed, then sealed stretches are read from the head on. Their entries are written as bits of
//! the segments' filters, or published as pairs of an addition for maps. Only then is the head moved past the stretch:
//! at every moment, and after every crash, each value is in the delta or in its segment. Entries of ranges without a
//! segment are dropped: such a range matches anyway, and whoever summarizes it later scans the table after this, where
//! the tuple still is if any snapshot can see it.

use super::{rescan, unfinished};
use crate::pages::bounds::{self, Widening};
use crate::pages::delta::{self, DeltaEntry};
use crate::pages::directory::Directory;
use crate::pages::entry::{Segment, SegmentKind};
use crate::pages::map::{self, Map, NULL_KEY, VALUE_KEY};
use crate::pages::meta::MapForm;
use crate::pages::miss::Miss;
use crate::pages::segment::{self, Bit};
use crate::pg::{Damage, Rel, error::IndexResult, memory};
use skip_bounds::Bounds;
use skip_scan::RangeSet;
use skip_segment::{NULLS_SLICE, VALUES_SLICE};
use std::ops::Range;

/// Delta pages folded at once: with 508 entries per page and 20 probes per entry, some 10 MB of bits to sort.
const PAGES_AT_ONCE: usize = 64;

/// Folds the whole delta. Returns the number of entries.
///
/// # Errors
/// Damage to the index.
pub fn fold(directory: &mut Directory<'_>, columns: usize) -> IndexResult<u64> {
    let index = directory.index();
    let segments: Vec<Vec<Segment>> = (0..columns).map(|c| directory.segments(c as u16)).collect();
    let mut folded = 0;
    let end = delta::seal(index)?;
    while let Some(mut sealed) = delta::read_sealed(index, PAGES_AT_ONCE, end)? {
        memory::check_for_interrupts();
        folded += sealed.entries.len() as u64;
        fold_entries(directory, &segments, &mut sealed.entries)?;
        delta::drop_sealed(index, &sealed)?;
    }
    Ok(folded)
}

fn fold_entries(
    directory: &mut Directory<'_>,
    segments: &[Vec<Segment>],
    entries: &mut [DeltaEntry],
) -> IndexResult<()> {
    let index = directory.index();
    entries.sort_unstable_by_key(|e| (e.column, e.part));
    for same_column in entries.chunk_by(|a, b| a.column == b.column) {
        let column = usize::from(same_column[0].column);
        let Some(segments) = segments.get(column) else {
            return Err(Damage::new(
                crate::pages::meta::META_BLOCK,
                "a delta entry has a column that the index does not have",
            ));
        };
        for (copy, pages) in unfinished::copies(directory, same_column[0].column) {
            let parts = copy.part_span();
            let inside = |e: &&DeltaEntry| parts.contains(&e.part.into());
            let entries: Vec<DeltaEntry> = same_column.iter().filter(inside).copied().collect();
            fold_into(index, &copy, pages, &entries)?;
        }
        let mut rest = same_column;
        let mut of_maps: Vec<(MapForm, Vec<DeltaEntry>)> = Vec::new();
        for segment in segments {
            let parts = segment.part_span();
            let before = rest.partition_point(|e| u64::from(e.part) < parts.start);
            let inside = rest.partition_point(|e| u64::from(e.part) < parts.end);
            match segment.kind {
                _ if before >= inside => {}
                SegmentKind::Filters(_) => fold_into(index, segment, u32::MAX, &rest[before..inside])?,
                SegmentKind::Bounds => widen(index, segment, &rest[before..inside])?,
                SegmentKind::Map(size) | SegmentKind::Addition(size) => {
                    let entries = &rest[before..inside];
                    match of_maps.last_mut().filter(|(form, _)| *form == size.form) {
                        Some((_, of_form)) => of_form.extend_from_slice(entries),
                        None => of_maps.push((size.form, entries.to_vec())),
                    }
                }
            }
            rest = &rest[inside..];
        }
        for (form, entries) in of_maps {
            add_to_maps(directory, form, &entries)?;
        }
    }
    Ok(())
}

/// Publishes an addition of a column's entries, which are sorted by part; maps of this form summarize their ranges.
fn add_to_maps(directory: &mut Directory<'_>, form: MapForm, entries: &[DeltaEntry]) -> IndexResult<()> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
    let column = first.column;
    let first_range = first.part / form.parts;
    let width = last.part / form.parts - first_range + 1;
    let coding = map::coding(form, width)?;
    let first_part = first_range * form.parts;
    let mut numbers: Vec<u64> = entries
        .iter()
        .map(|entry| coding.number(entry.hash.unwrap_or(NULL_KEY), entry.part - first_part))
        .collect();
    let end = last.part + 1;
    let with_values = if rescan::is_active(directory, column) {
        RangeSet::empty(end.into())
    } else {
        parts_with_values(directory, column, first_part..end)?
    };
    let is_new = |entry: &&DeltaEntry| entry.hash.is_some() && !with_values.contains(entry.part.into());
    numbers.extend(entries.iter().filter(is_new).map(|e| coding.number(VALUE_KEY, e.part - first_part)));
    numbers.sort_unstable();
    numbers.dedup();
    map::add(directory, column, form, (first_range, width), &numbers)
}

/// The parts that have a value according to the maps of a column that have some of these parts.
fn parts_with_values(directory: &Directory<'_>, column: u16, parts: Range<u32>) -> IndexResult<RangeSet> {
    let mut found = RangeSet::empty(parts.end.into());
    for segment in directory.segments(column).iter().chain(&directory.additions(column)) {
        let of_segment = segment.part_span();
        let has_some = of_segment.start < parts.end.into() && u64::from(parts.start) < of_segment.end;
        if segment.map().is_some() && has_some {
            let map = Map::of(directory.index(), segment)?;
            map.look_up(&[VALUE_KEY], |from, to| found.insert_span(from, to)).map_err(Miss::into_damage)?;
        }
    }
    Ok(found)
}

/// Widens bounds by entries, which are sorted by range.
fn widen(index: Rel, segment: &Segment, entries: &[DeltaEntry]) -> IndexResult<()> {
    let of_range = |entries: &[DeltaEntry]| Widening {
        range: entries[0].part,
        with: entries.iter().fold(Bounds::EMPTY, |all, entry| all.union(Bounds::of(entry.hash))),
        closes: false,
    };
    let widenings: Vec<Widening> = entries.chunk_by(|a, b| a.part == b.part).map(of_range).collect();
    bounds::widen(index, segment, &widenings)
}

/// Adds entries to the first `pages` pages of a segment of filters.
fn fold_into(index: Rel, segment: &Segment, pages: u32, entries: &[DeltaEntry]) -> IndexResult<()> {
    let shape = segment.shape()?;
    let num_probes = segment.filters()?.num_probes;
    let mut bits = Vec::with_capacity(entries.len() * (usize::from(num_probes) + 1));
    for entry in entries {
        let range = entry.part - segment.first_range; // filters do not divide ranges
        match entry.hash {
            None => bits.push(Bit::new(&shape, NULLS_SLICE, range)),
            Some(hash) => {
                bits.push(Bit::new(&shape, VALUES_SLICE, range));
                bits.extend(Bit::of_key(&shape, num_probes, hash, range));
            }
        }
    }
    bits.retain(|bit| bit.page() < pages);
    segment::set_bits(index, segment, &mut bits)
}
