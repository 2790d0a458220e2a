//! The second half of skip_index_verify: rows that some snapshot may see are looked up in the index. Rows that are only
//! recently dead are left out if they have values out of line, which may be gone.
//!
//! The table is read range by range. What a map lacks is found at the end, when the keys of all ranges are sorted. What
//! is neither in a segment nor in the delta, which is read last, is lost: queries do not find the row.

use super::collect::{RangeCollector, RangeCollectorOptions, Versions};
use super::contents::ColumnContents;
use super::map_check::{self, Lacking, MapCheck};
use crate::pages::bounds;
use crate::pages::delta::{self, DeltaEntry};
use crate::pages::directory::{self, Live, LiveSegment};
use crate::pages::entry::{Segment, SegmentKind};
use crate::pages::meta::Meta;
use crate::pages::miss::Fetch;
use crate::pages::segment::{self, Group};
use crate::pg::{Damage, Rel, memory, sandbox};
use skip_bounds::Bounds;
use skip_map::key_part::KeySet;
use skip_segment::{NULLS_SLICE, OPEN_SLICE};
use std::collections::HashSet;

/// The most entries that are gathered, and pairs of each column. Some of them may be in the delta.
const MOST_MISSING: usize = 10_000;

/// How many times maintenance_work_mem the keys of a column in one range may take: more than a build has for them,
/// because equal values with different bytes are looked up too.
const MEMORY_FACTOR: usize = 4;

/// The problems of an index that lacks contents of the table.
///
/// # Errors
/// Damage, or pages recycled meanwhile.
pub fn check(table: Rel, index: Rel) -> Fetch<Vec<Damage>> {
    let _sandbox = sandbox::Sandbox::enter(table);
    // The watermark is read before the table: rows that are inserted meanwhile are in the delta, which is read later.
    let meta = Meta::read(index)?;
    let options = RangeCollectorOptions {
        bulk: true,
        in_vacuum: false,
        // A build with the same setting leaves a range open whose values need more. A range that was built with a
        // larger one is reported as not checked.
        memory: memory::maintenance_work_mem().saturating_mul(MEMORY_FACTOR),
        versions: Versions::Visible,
        may_fail: false,
    };
    let mut collector = RangeCollector::new(table, index, &meta, &options);
    let blocks = table.blocks();
    let mut search = Search::new(meta.bind(index), &meta)?;
    for range in 0..meta.ranges_in(blocks).min(meta.watermark) {
        collector.collect(meta.blocks_of(range, blocks));
        search.look_up(range, &collector.columns)?;
        if search.missing.len() > MOST_MISSING {
            break;
        }
    }
    search.finish()
}

/// The search for what the index lacks.
struct Search<'a> {
    index: Rel<'a>,
    live: Live,
    /// Of each column with filters the 64 ranges that were looked up last: segment, number of the group, bits.
    groups: Vec<Option<(u64, u32, Group)>>,
    /// Of each column with bounds the segment that was looked up last.
    bounds: Vec<Option<(u64, Vec<Bounds>)>>,
    maps: Vec<Option<MapCheck>>,
    /// What filters and bounds lack, each with a block of the segment.
    missing: Vec<(DeltaEntry, u32)>,
    /// Of each column the ranges that have more keys than memory allows, so that most of them are not looked up.
    unchecked: Vec<Unchecked>,
}

/// Ranges of a column that are not checked: their number, and a block of the first one's segment.
#[derive(Clone, Copy, Default)]
struct Unchecked {
    ranges: u32,
    block: u32,
}

impl Unchecked {
    /// Counts a range that a segment summarizes, and is not open there, if its keys are not all known.
    fn count(&mut self, contents: &ColumnContents, segment: &Segment) {
        if !contents.is_full {
            return;
        }
        if self.ranges == 0 {
            self.block = segment.first_block;
        }
        self.ranges += segment.parts();
    }

    /// The problem of column `c`.
    fn problem(self, c: usize) -> Option<Damage> {
        let Self { ranges, block } = self;
        let what = format!(
            "block ranges of column {} that were not checked: {ranges} (a range's keys need more than {MEMORY_FACTOR} \
             times maintenance_work_mem)",
            c + 1
        );
        (ranges > 0).then(|| Damage::new(block, what))
    }
}

impl<'a> Search<'a> {
    fn new(index: Rel<'a>, meta: &Meta) -> Fetch<Self> {
        Ok(Self {
            index,
            live: directory::live(index, meta, |_| KeySet::ALL)?,
            groups: meta.columns.iter().map(|_| None).collect(),
            bounds: meta.columns.iter().map(|_| None).collect(),
            maps: map_check::of_columns(meta)?,
            missing: Vec::new(),
            unchecked: vec![Unchecked::default(); meta.columns.len()],
        })
    }

    /// Looks up the contents of a range.
    fn look_up(&mut self, range: u32, columns: &[ColumnContents]) -> Fetch<()> {
        self.add_to_maps(range, columns);
        self.look_up_in_bounds(range, columns)?;
        self.look_up_in_filters(range, columns)
    }

    fn add_to_maps(&mut self, range: u32, columns: &[ColumnContents]) {
        for (c, check) in self.maps.iter_mut().enumerate() {
            let Some(check) = check else { continue };
            let has_it =
                |column: u16, first: u32, end: u32| usize::from(column) == c && (first..end).contains(&range);
            let summary = self.live.segments.iter().find(|s| has_it(s.column, s.first_range, s.end_range()));
            let Some(segment) = summary else { continue };
            if self.live.open.iter().any(|o| has_it(o.column, o.first_range, o.end_range())) {
                continue;
            }
            self.unchecked[c].count(&columns[c], segment);
            check.push(range, columns[c].contents());
        }
    }

    fn look_up_in_bounds(&mut self, range: u32, columns: &[ColumnContents]) -> Fetch<()> {
        for (c, known) in self.bounds.iter_mut().enumerate() {
            let covers =
                |s: &&LiveSegment| s.is_of_bounds() && (s.first_range..s.end_range()).contains(&range);
            let Some(segment) = self.live.of_column(c as u16).iter().find(covers) else { continue };
            let all = match known {
                Some((id, bounds)) if *id == segment.id => bounds,
                other => &other.insert((segment.id, every_bounds(self.index, segment)?)).1,
            };
            let of_range = all.get((range - segment.first_range) as usize);
            let Some(bounds) = of_range.filter(|bounds| !bounds.open) else { continue };
            self.unchecked[c].count(&columns[c], segment);
            let contents = columns[c].contents();
            let null = contents.state.nulls.then_some(None);
            let keys = contents.hashes.iter().copied().map(Some).chain(null);
            for hash in keys.filter(|&key| !bounds.holds(key)) {
                let entry = DeltaEntry { part: range, column: segment.column, hash };
                self.missing.push((entry, segment.first_block));
            }
        }
        Ok(())
    }

    fn look_up_in_filters(&mut self, range: u32, columns: &[ColumnContents]) -> Fetch<()> {
        let of_filters = self.live.segments.iter().filter(|s| matches!(s.kind, SegmentKind::Filters(_)));
        for segment in of_filters.filter(|s| (s.first_range..s.end_range()).contains(&range)) {
            let place = range - segment.first_range;
            let (id, number) = (segment.id, place / 64);
            let c = usize::from(segment.column);
            let known = &mut self.groups[c];
            let group = match known {
                Some((i, n, group)) if (*i, *n) == (id, number) => group,
                other => {
                    let group = Group::read(self.index, segment, &segment.shape()?, number)?;
                    &mut other.insert((id, number, group)).2
                }
            };
            if group.has_bit(OPEN_SLICE, place) {
                continue;
            }
            self.unchecked[c].count(&columns[c], segment);
            let contents = columns[c].contents();
            let null = (contents.state.nulls && !group.has_bit(NULLS_SLICE, place)).then_some(None);
            let hashes = contents.hashes.iter().filter(|&&hash| !group.has_key(hash, place));
            for hash in null.into_iter().chain(hashes.map(|&hash| Some(hash))) {
                let entry = DeltaEntry { part: range, column: segment.column, hash };
                self.missing.push((entry, segment.first_block));
            }
        }
        Ok(())
    }

    /// The problems found.
    fn finish(self) -> Fetch<Vec<Damage>> {
        let Self { index, live, maps, mut missing, unchecked, .. } = self;
        let mut problems = missing_in_maps(index, maps, &live)?;
        problems.extend(unchecked.iter().enumerate().filter_map(|(c, of_column)| of_column.problem(c)));
        if !missing.is_empty() {
            drop_those_in_delta(index, &mut missing)?;
            drop_those_folded(index, &mut missing)?;
            problems.extend(missing.into_iter().map(|(entry, block)| lost(&entry, block)));
        }
        Ok(problems)
    }
}

/// Problems for the pairs of the table that are neither in a map nor in the delta. The delta is read after the maps.
fn missing_in_maps(index: Rel, checks: Vec<Option<MapCheck>>, live: &Live) -> Fetch<Vec<Damage>> {
    let mut problems = Vec::new();
    for (c, check) in checks.into_iter().enumerate() {
        let Some(check) = check else { continue };
        let (coding, mut lacking) = (check.coding(), Vec::new());
        // A range that no map with the key summarizes matches the key.
        let parts = check.form().parts;
        let is_summarized = |pair: &Lacking| {
            let (range, keys) = (pair.part / parts, KeySet::of_number(coding, pair.number));
            let covers = |s: &&LiveSegment| (s.first_range..s.end_range()).contains(&range);
            live.of_column(c as u16).iter().filter(covers).any(|s| s.keys.intersects(keys))
        };
        let maps = live.segments.iter().map(|live| &live.segment).chain(&live.additions);
        check.lacking(index, maps, |pair| {
            if lacking.len() < MOST_MISSING && is_summarized(&pair) {
                lacking.push(pair);
            }
            Ok(())
        })?;
        if lacking.is_empty() {
            continue;
        }
        let mut in_delta = HashSet::new();
        delta::scan(index, &Meta::read(index)?, |entry| {
            if usize::from(entry.column) == c && entry.part < coding.ranges() {
                in_delta.extend(map_check::numbers_of_entry(coding, &entry));
            }
        })?;
        let block = live.segments.iter().find(|s| usize::from(s.column) == c).map_or(0, |s| s.first_block);
        problems.extend(lacking.iter().filter(|pair| !in_delta.contains(&pair.number)).map(|pair| {
            let what = format!("a key of column {} in block range {} is not in the index", c + 1, pair.part);
            Damage::new(block, what)
        }));
    }
    Ok(problems)
}

fn lost(entry: &DeltaEntry, block: u32) -> Damage {
    let what = if entry.hash.is_some() { "a value" } else { "a NULL" };
    Damage::new(
        block,
        format!("{what} of column {} in block range {} is not in the index", entry.column + 1, entry.part),
    )
}

fn every_bounds(index: Rel, segment: &Segment) -> Fetch<Vec<Bounds>> {
    let mut all = Vec::with_capacity(segment.width as usize);
    bounds::each(index, segment, |_, _| true, |_, bounds| all.push(bounds))?;
    Ok(all)
}

fn drop_those_in_delta(index: Rel, missing: &mut Vec<(DeltaEntry, u32)>) -> Fetch<()> {
    let key = |e: &DeltaEntry| (e.part, e.column, e.hash);
    let mut in_delta = HashSet::new();
    let meta = Meta::read(index)?;
    delta::scan(index, &meta, |entry| {
        in_delta.insert(key(&entry));
    })?;
    missing.retain(|(entry, _)| !in_delta.contains(&key(entry)));
    Ok(())
}

/// Removes entries that were folded meanwhile: on a standby the delta may have been folded between reading the filters
/// and reading the delta.
fn drop_those_folded(index: Rel, missing: &mut Vec<(DeltaEntry, u32)>) -> Fetch<()> {
    if !sandbox::in_recovery() {
        return Ok(());
    }
    let meta = Meta::read(index)?;
    let index = meta.bind(index);
    let segments = directory::live(index, &meta, |_| KeySet::ALL)?.segments;
    let mut still = Vec::new();
    for (entry, block) in missing.drain(..) {
        let covers = |s: &&LiveSegment| {
            s.column == entry.column && (s.first_range..s.end_range()).contains(&entry.part)
        };
        let found = match segments.iter().find(covers) {
            Some(segment) if segment.is_of_bounds() => {
                bounds::has_entry(index, segment, entry.part, entry.hash)?
            }
            Some(segment) => segment::has_entry(index, segment, entry.part, entry.hash)?,
            None => true,
        };
        if !found {
            still.push((entry, block));
        }
    }
    *missing = still;
    Ok(())
}
