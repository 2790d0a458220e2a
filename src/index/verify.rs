//! skip_index_verify: reads the whole index and reports what is wrong.
//!
//! The structure is checked first: every page's checksum and kind, each segment's pages, extents that overlap. Then the
//! contents ([`verify_contents`]).

use super::steady::{has_moved, steady};
use super::target::{self, Target};
use super::verify_contents;
use crate::pages::bounds;
use crate::pages::delta;
use crate::pages::directory::Directory;
use crate::pages::entry::{Segment, SegmentKind};
use crate::pages::map::Map;
use crate::pages::meta::{META_BLOCK, Meta};
use crate::pages::miss::Miss;
use crate::pg::boundary;
use crate::pg::error::IndexResult;
use crate::pg::lock::{IndexLock, LockKind};
use crate::pg::page::SharedPage;
use crate::pg::result_rows::{ResultRows, result_columns};
use crate::pg::sql_text::Text;
use crate::pg::{Damage, Rel, memory, sandbox};
use pgrx::pg_sys;
use pgrx::prelude::*;
use skip_segment::page::PageKind;

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
    let _maintenance = (!sandbox::in_recovery()).then(|| IndexLock::take(index, LockKind::Maintenance));
    if !index.is_ready_index() {
        return vec![Damage::new(META_BLOCK, NOT_VALID)]; // some of its pages may be there already
    }
    if let Err(damage) = Meta::read(index) {
        return vec![if index.is_valid_index() { damage } else { Damage::new(META_BLOCK, NOT_VALID) }];
    }
    let mut previous: Vec<Damage> = Vec::new();
    steady(index, || {
        let before = Meta::read(index)?;
        let mut problems = Vec::new();
        check_pages(index, &mut problems);
        if !index.is_valid_index() {
            problems.push(Damage::new(META_BLOCK, NOT_VALID));
        } else if problems.is_empty() {
            match verify_contents::check(table, index) {
                Ok(missing) => problems.extend(missing),
                Err(Miss::Damage(damage)) => problems.push(damage),
                // Only on a standby, where nothing keeps replay from recycling pages during the check.
                Err(miss) if sandbox::in_recovery() => return Err(miss),
                Err(miss) => problems.push(miss.into_damage()),
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

fn check_structure(index: Rel, meta: &Meta, blocks: u32, problems: &mut Vec<Damage>) -> IndexResult<()> {
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
    delta::scan(index, meta, |_| ()).map_err(Miss::into_damage)
}

fn check_segment(index: Rel, meta: &Meta, segment: &Segment, blocks: u32) -> IndexResult<()> {
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
            Map::of(index, segment)?.verify().map_err(Miss::into_damage)
        }
    }
}

/// Checks that the summaries of a segment of bounds exclude nothing that its pages have.
fn check_summaries(index: Rel, segment: &Segment) -> IndexResult<()> {
    let wrong = bounds::wrong_summaries(index, segment).map_err(Miss::into_damage)?;
    let Some(number) = wrong.first() else { return Ok(()) };
    let what = format!("the summary of page {number} of a segment of bounds does not fit the page");
    Err(Damage::new(segment.first_block, what))
}
