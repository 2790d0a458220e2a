//! amcostestimate: what a path costs, true because the index is asked.
//!
//! Where the keys are known, the planner consults the index itself, within a bound, and learns how many block
//! ranges really survive. The result is used for costs only; a plan never carries it. Where keys are unknown,
//! or there are too many, or the index is damaged (the executor will say so), the estimate is
//!
//! that of [`probe::average`], with the rows of one key taken as scattered: right for ids, too high for clustered values.
//!
//! PostgreSQL costs the table's side of a bitmap scan from the selectivity given here, as if rows were scattered
//! one by one (Mackert and Lohman's formula): pages = 2TN / (2T + N) for N rows in T pages. Whole ranges are not
//! like that, so the selectivity handed out is the one for which the formula gives the pages that will really be
//! read, and the CPU cost of the other rows on these pages is added to the index's.

use crate::pg::planner::{Condition, Costs, IndexPathView};
use crate::pg::{Rel, error::Read};
use crate::prune::facts::Facts;
use crate::prune::{keys, probe};

/// What a look-up reads, and what it leaves.
struct Estimate {
    /// Heap blocks that survive.
    heap_blocks: f64,
    /// Index pages read.
    index_pages: f64,
    /// Words of 64 ranges ANDed.
    words: f64,
}

/// Pages that a look-up reads besides slices: meta page, directory, delta.
const OTHER_PAGES: f64 = 3.0;

/// Costs of an index path.
pub fn cost(path: &IndexPathView) -> Costs {
    let conditions = path.conditions();
    let unread = || average(path, key_count(&conditions), path.row_selectivity() * path.table_rows(), None);
    let estimate = match path.open_index() {
        Some(index) => estimate(path, *index, &conditions).unwrap_or_else(|_| unread()),
        None => unread(),
    };
    let (table_blocks, rows) = (path.table_blocks().max(1.0), path.table_rows().max(1.0));
    let surviving = estimate.heap_blocks.clamp(0.0, table_blocks);
    // N for which 2TN / (2T + N) is the number of surviving pages.
    let fetched = (2.0 * table_blocks * surviving / (2.0 * table_blocks - surviving)).min(rows);
    let examined = (rows / table_blocks * surviving).max(fetched);

    // Repeated runs share pages.
    let slices = estimate.index_pages / path.loop_count().sqrt();
    let consult = path.prices().consult(slices, path.index_blocks(), estimate.words);
    let unseen_rows = (examined - fetched) * path.cost_of_row();
    Costs {
        startup: consult,
        total: consult + unseen_rows,
        selectivity: (fetched / rows).clamp(0.0, 1.0),
        index_pages: estimate.index_pages,
    }
}

fn key_count(conditions: &[Condition]) -> f64 {
    conditions.iter().map(|c| c.key_count).sum()
}

fn estimate(path: &IndexPathView, index: Rel, conditions: &[Condition]) -> Read<Estimate> {
    let facts = Facts::of(index)?;
    let (count, rows) = (key_count(conditions), path.row_selectivity() * path.table_rows());
    let usual = average(path, count, rows, Some(&facts));
    // As for the Skip Index Scan: where it makes no difference, a plan for these parameters is estimated as one for any.
    if probe::pages_left() == 0 {
        return Ok(usual);
    }
    if path.has_parameters() {
        let most: f64 = conditions.iter().map(|c| c.key_count.max(c.any_count)).sum();
        let any = average(path, most, rows * most / count.max(1.0), Some(&facts));
        if probe::is_little(any.heap_blocks, any.index_pages, path.table_blocks()) {
            return Ok(any);
        }
    }
    let meta = &facts.meta;
    let known = conditions.iter().all(|c| c.key.is_some());
    let known_keys: Vec<_> = conditions.iter().filter_map(|c| c.key.as_ref()).collect();
    let clauses: Vec<_> = known_keys.iter().filter_map(|key| keys::clause(index, meta, key)).collect();
    let complete = known && clauses.len() == conditions.len();
    let blocks = path.table_blocks() as u32;
    if complete && let Some(pruned) = probe::probe(index, meta, clauses, blocks) {
        let heap_blocks = pruned.ranges.count() as f64 * f64::from(pruned.pages_per_range);
        return Ok(Estimate {
            heap_blocks,
            index_pages: pruned.slices as f64 + OTHER_PAGES,
            words: pruned.slices as f64 * (f64::from(meta.ranges_in(blocks)) / 64.0),
        });
    }
    Ok(usual)
}

fn average(path: &IndexPathView, keys: f64, rows: f64, facts: Option<&Facts>) -> Estimate {
    let keys = keys.max(1.0);
    let pages_per_range = facts.map_or(16.0, |facts| f64::from(facts.meta.pages_per_range));
    let ranges = (path.table_blocks() / pages_per_range).ceil().max(1.0);
    let summarized = facts.map_or(ranges, |facts| f64::from(facts.meta.watermark).min(ranges));
    let rate = facts.map_or(0.001, |facts| facts.rate(0, path.table_rows() / ranges));
    let slices = facts.map_or(13.0, |facts| facts.slices(0));
    let surviving = probe::average(ranges, summarized, keys * rate, rows);
    let index_pages = keys * slices + OTHER_PAGES;
    Estimate { heap_blocks: surviving * pages_per_range, index_pages, words: index_pages * ranges / 64.0 }
}
