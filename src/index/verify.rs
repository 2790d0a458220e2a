//! skip_index_verify: reads the whole index and reports what is wrong.
//!
//! The structure is checked first: every page's checksum and kind, each segment's pages, extents that overlap. Then the
//! contents: each tuple version that the summarizing scan would hash is looked up in its range. If it is neither there
//! nor in the delta, queries lose that row.

use super::collect::{RangeCollector, RangeCollectorOptions, Versions};
use super::map_check::{self, Lacking, MapCheck};
use super::steady::{has_moved, steady};
use super::target::{self, Target};
use crate::pages::bounds;
use crate::pages::delta::{self, DeltaEntry};
use crate::pages::directory::{self, Directory, Live, LiveSegment};
use crate::pages::entry::{Segment, SegmentKind};
use crate::pages::map::Map;
use crate::pages::meta::{META_BLOCK, Meta};
use crate::pages::miss::{Fetch, Miss};
use crate::pages::segment::{self, Group};
use crate::pg::boundary;
use crate::pg::error::Read;
use crate::pg::lock::{Part, PartLock};
use crate::pg::page::SharedPage;
use crate::pg::result_rows::{ResultRows, result_columns};
use crate::pg::sql_text::Text;
use crate::pg::{Damage, Rel, memory, sandbox};
use pgrx::pg_sys;
use pgrx::prelude::*;
use skip_bounds::Bounds;
use skip_map::key_part::KeySet;
use skip_segment::page::PageKind;
use skip_segment::{NULLS_SLICE, OPEN_SLICE};
use std::collections::HashSet;

/// The most problems reported; a broken index can have so many that further ones are of no use.
const MOST_PROBLEMS: usize = 100;

/// What is said of an index that no query uses. Rows may be missing in it, as in any such index.
const NOT_VALID: &str = "the index is not valid: CREATE INDEX CONCURRENTLY has not finished, or has failed";

result_columns! {
    /// Columns of `skip_index_verify`.
    ProblemColumns {
        index: pg_sys::Oid,
        block: i64,
        problem: Text,
    }
}

/// One row for each problem: the index, the block, and a description. No rows for a sound index, or for a partitioned
/// index whose partitions' indexes are all sound.
#[pg_extern(sql = false)]
fn skip_index_verify(index: pg_sys::Oid) -> ResultRows<ProblemColumns> {
    boundary::callback(|| {
        let rows = |target: Target| {
            let oid = target.index.rel().oid();
            problems_of(target.table.rel(), target.index.rel())
                .into_iter()
                .map(move |p| (oid, i64::from(p.block), p.what.into()))
        };
        ResultRows::new(target::for_verifying(index).flat_map(rows).collect::<Vec<_>>())
    })
}

fn problems_of(table: Rel, index: Rel) -> Vec<Damage> {
    // Prevents merges and folds, so that a value stays in one place while it is looked up; not on a standby, where such
    // locks cannot be taken.
    let _maintenance = (!sandbox::in_recovery()).then(|| PartLock::take(index, Part::Maintenance));
    if let Err(damage) = Meta::read(index) {
        return vec![damage];
    }
    let mut previous: Vec<Damage> = Vec::new();
    steady(index, || {
        let before = Meta::read(index)?;
        let mut problems = Vec::new();
        check_pages(index, &mut problems);
        if !index.is_valid_index() {
            problems.push(Damage::new(META_BLOCK, NOT_VALID));
        } else if problems.is_empty() {
            match check_contents(table, index) {
                Ok(missing) => problems.extend(missing),
                Err(Miss::Damage(damage)) => problems.push(damage),
                // Only on a standby, where nothing keeps replay from recycling pages during the check.
                Err(miss) if sandbox::in_recovery() => return Err(miss),
                Err(miss) => problems.push(miss.not_recycled()),
            }
        }
        // The cause of a problem may be that replay continued, or that an insert took a spare page. On a primary, a
        // page that was taken does not cause a problem in the next attempt, so a problem found twice is real.
        let is_confirmed = !sandbox::in_recovery() && problems.iter().any(|p| previous.contains(p));
        if let Some(first) = problems.first().map(|first| first.block)
            && !is_confirmed
            && has_moved(&before, &Meta::read(index)?)
        {
            previous = problems;
            return Err(Miss::Recycled(first));
        }
        problems.truncate(MOST_PROBLEMS);
        Ok(problems)
    })
}

fn check_pages(index: Rel, problems: &mut Vec<Damage>) {
    let blocks = index.blocks();
    if blocks == 0 {
        problems.push(Damage::new(0, "the index has no pages"));
        return;
    }
    let meta = match Meta::read(index) {
        Ok(meta) => meta,
        Err(damage) => return problems.push(damage),
    };
    let index = meta.bind(index);
    for block in 1..blocks {
        memory::check_for_interrupts();
        if let Err(damage) = SharedPage::read(index, block).any_view() {
            problems.push(damage);
        }
    }
    if let Err(damage) = check_structure(index, &meta, blocks, problems) {
        problems.push(damage);
    }
}

fn check_structure(index: Rel, meta: &Meta, blocks: u32, problems: &mut Vec<Damage>) -> Read<()> {
    let directory = Directory::load(index, meta)?;
    let mut extents: Vec<(u32, u32, &str)> =
        directory.pages().iter().map(|&b| (b, 1, "directory page")).collect();
    for (first, count) in directory.free_extents() {
        extents.push((first, count, "free extent"));
    }
    for unfinished in directory.all_unfinished() {
        extents.push((unfinished.first_block, unfinished.blocks, "unfinished segment"));
    }
    for segment in directory.all_segments() {
        extents.push((segment.first_block, segment.blocks, "segment"));
        if let Err(damage) = check_segment(index, meta, &segment, blocks) {
            problems.push(damage);
        }
    }
    extents.extend(delta::spare_pages(index, meta)?.into_iter().map(|block| (block, 1, "spare page")));
    extents.push((META_BLOCK, 1, "meta page"));
    extents.sort_unstable();
    for pair in extents.windows(2) {
        if pair[0].0.saturating_add(pair[0].1) > pair[1].0 {
            problems.push(Damage::new(pair[1].0, format!("a {} overlaps a {}", pair[0].2, pair[1].2)));
        }
    }
    if let Some(last) = extents.iter().find(|e| e.0.saturating_add(e.1) > blocks) {
        problems.push(Damage::new(last.0, format!("a {} extends past the end of the index", last.2)));
    }
    delta::scan(index, meta, |_| ()).map_err(Miss::not_recycled)
}

fn check_segment(index: Rel, meta: &Meta, segment: &Segment, blocks: u32) -> Read<()> {
    match segment.kind {
        SegmentKind::Filters(_) => _ = segment.shape()?,
        SegmentKind::Bounds => _ = segment.bounds_shape()?,
        SegmentKind::Map(_) | SegmentKind::Addition(_) => {}
    }
    if segment.first_block.saturating_add(segment.blocks) > blocks {
        return Err(Damage::new(segment.first_block, "the segment extends past the end of the index"));
    }
    // Additions stay when the table is truncated.
    let is_behind = segment.summarizes() && segment.end_range() > meta.watermark;
    if usize::from(segment.column) >= meta.columns.len() || is_behind {
        return Err(Damage::new(
            segment.first_block,
            "the segment has a column or ranges that the index does not have",
        ));
    }
    for page in 0..segment.blocks {
        let block = segment.first_block + page;
        let shared = SharedPage::read(index, block);
        let view = shared.view(PageKind::Segment)?;
        if view.owner() != segment.id || view.place() != page {
            return Err(Damage::new(
                block,
                "the page does not belong to the segment that the directory names",
            ));
        }
    }
    match segment.kind {
        SegmentKind::Filters(_) => Ok(()),
        SegmentKind::Bounds => check_summaries(index, segment),
        SegmentKind::Map(_) | SegmentKind::Addition(_) => {
            Map::of(index, segment)?.verify().map_err(Miss::not_recycled)
        }
    }
}

/// Checks that the summaries of a segment of bounds exclude nothing that its pages have.
fn check_summaries(index: Rel, segment: &Segment) -> Read<()> {
    let wrong = bounds::wrong_summaries(index, segment).map_err(Miss::not_recycled)?;
    let Some(number) = wrong.first() else { return Ok(()) };
    let what = format!("the summary of page {number} of a segment of bounds does not fit the page");
    Err(Damage::new(segment.first_block, what))
}

/// Looks up the table's contents in the index.
fn check_contents(table: Rel, index: Rel) -> Fetch<Vec<Damage>> {
    let _sandbox = sandbox::Sandbox::enter(table);
    find_missing(table, index)
}

fn find_missing(table: Rel, index: Rel) -> Fetch<Vec<Damage>> {
    // The watermark is read before the table: rows that are inserted meanwhile are in the delta, which is read later.
    let meta = Meta::read(index)?;
    let options = RangeCollectorOptions {
        bulk: true,
        in_vacuum: false,
        // A range with more values is not checked, so this is more than any range may have in the index.
        memory: memory::maintenance_work_mem().saturating_mul(4),
        versions: Versions::Visible,
        may_fail: false,
    };
    let mut collector = RangeCollector::new(table, index, &meta, &options);
    let blocks = table.blocks();
    let index = meta.bind(index);
    let live = directory::live(index, &meta, |_| KeySet::ALL)?;
    let mut groups: Vec<Option<(u64, u32, Group)>> = meta.columns.iter().map(|_| None).collect();
    let mut of_bounds: Vec<Option<(u64, Vec<Bounds>)>> = meta.columns.iter().map(|_| None).collect();
    let mut checks = map_check::of_columns(&meta)?;
    let mut missing = Vec::new();
    for range in 0..meta.ranges_in(blocks).min(meta.watermark) {
        collector.collect(meta.blocks_of(range, blocks));
        for (c, check) in checks.iter_mut().enumerate() {
            let Some(check) = check else { continue };
            let has_it =
                |column: u16, first: u32, end: u32| usize::from(column) == c && (first..end).contains(&range);
            let is_summarized = live.segments.iter().any(|s| has_it(s.column, s.first_range, s.end_range()));
            if is_summarized && !live.open.iter().any(|o| has_it(o.column, o.first_range, o.end_range())) {
                check.push(range, collector.columns[c].contents());
            }
        }
        for (c, known) in of_bounds.iter_mut().enumerate() {
            let covers =
                |s: &&LiveSegment| s.is_of_bounds() && (s.first_range..s.end_range()).contains(&range);
            let Some(segment) = live.of_column(c as u16).iter().find(covers) else { continue };
            let bounds = match known {
                Some((id, bounds)) if *id == segment.id => bounds,
                other => &other.insert((segment.id, every_bounds(index, segment)?)).1,
            };
            let Some(bounds) = bounds.get((range - segment.first_range) as usize) else { continue };
            check_bounds(segment, range, bounds, &collector, &mut missing);
        }
        let of_filters = live.segments.iter().filter(|s| matches!(s.kind, SegmentKind::Filters(_)));
        for segment in of_filters.filter(|s| (s.first_range..s.end_range()).contains(&range)) {
            let number = (range - segment.first_range) / 64;
            let group = match groups[usize::from(segment.column)].take() {
                Some((id, n, group)) if id == segment.id && n == number => group,
                _ => Group::read(index, segment, &segment.shape()?, number)?,
            };
            check_range(segment, range, &group, &collector, &mut missing);
            groups[usize::from(segment.column)] = Some((segment.id, number, group));
        }
        if missing.len() > 100 * MOST_PROBLEMS {
            break;
        }
    }
    let mut problems = missing_in_maps(index, checks, &live)?;
    if !missing.is_empty() {
        drop_those_in_delta(index, &mut missing)?;
        drop_those_folded(index, &mut missing)?;
        problems.extend(missing.into_iter().map(|(entry, block)| lost(&entry, block)));
    }
    Ok(problems)
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
            if lacking.len() < 100 * MOST_PROBLEMS && is_summarized(&pair) {
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

fn check_range(
    segment: &Segment,
    range: u32,
    group: &Group,
    collector: &RangeCollector,
    missing: &mut Vec<(DeltaEntry, u32)>,
) {
    let place = range - segment.first_range;
    if group.has_bit(OPEN_SLICE, place) {
        return;
    }
    let contents = collector.columns[usize::from(segment.column)].contents();
    let entry = |hash| DeltaEntry { part: range, column: segment.column, hash };
    if contents.state.nulls && !group.has_bit(NULLS_SLICE, place) {
        missing.push((entry(None), segment.first_block));
    }
    for &hash in contents.hashes.iter().filter(|&&hash| !group.has_key(hash, place)) {
        missing.push((entry(Some(hash)), segment.first_block));
    }
}

fn every_bounds(index: Rel, segment: &Segment) -> Fetch<Vec<Bounds>> {
    let mut all = Vec::with_capacity(segment.width as usize);
    bounds::each(index, segment, |_, _| true, |_, bounds| all.push(bounds))?;
    Ok(all)
}

fn check_bounds(
    segment: &Segment,
    range: u32,
    bounds: &Bounds,
    collector: &RangeCollector,
    missing: &mut Vec<(DeltaEntry, u32)>,
) {
    if bounds.open {
        return;
    }
    let contents = collector.columns[usize::from(segment.column)].contents();
    let null = contents.state.nulls.then_some(None);
    for key in contents.hashes.iter().copied().map(Some).chain(null).filter(|&key| !bounds.holds(key)) {
        missing.push((DeltaEntry { part: range, column: segment.column, hash: key }, segment.first_block));
    }
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
