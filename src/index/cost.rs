//! amcostestimate: the costs of a path, from a lookup in the index if the keys are known.
//!
//! If the keys are known, the planner looks them up in the index, within a bound on pages, and counts the block ranges
//! that survive. The result is used for costs only; a plan never contains it. If keys are unknown, or there are too
//! many, or the index is damaged (the executor will report that), the estimate is the average over keys
//! ([`surviving_ranges`]). It takes the rows of one key as scattered, which is right for ids and too high for clustered
//! values.
//!
//! PostgreSQL computes the table's part of a bitmap scan's cost from the selectivity given here, as if rows were
//! scattered one by one (Mackert and Lohman's formula): pages = 2TN / (2T + N) for N rows in T pages. A scan of whole
//! ranges reads fewer pages for its rows. Therefore the selectivity returned is the one for which the formula gives the
//! number of pages that will be read, and the CPU cost of the other rows on these pages is added to the index's cost.

use crate::pg::Rel;
use crate::pg::planner::{Costs, IndexPathView, PathCondition};
use crate::prune::facts::Facts;
use crate::prune::{hashed, probe};
use skip_scan::cost::rows_for_blocks;
use skip_scan::expected::{OTHER_PAGES, Over, is_little, surviving_ranges};

/// What a lookup reads, and how much of the table survives.
struct IndexEstimate {
    /// Heap blocks that survive.
    heap_blocks: f64,
    /// Index pages read.
    index_pages: f64,
    /// Words of 64 ranges to AND.
    words: f64,
}

/// Costs of an index path.
pub fn cost(path: &IndexPathView) -> Costs {
    let conditions = path.conditions();
    let facts = path.open_index().and_then(|index| Some((Facts::of(index.rel()).ok()?, index)));
    let estimate = match facts {
        Some((facts, index)) => estimate(path, index.rel(), &facts, &conditions),
        None => average(path, &conditions, Over::TheseKeys, &Facts::assumed()),
    };
    let (table_blocks, rows) = (path.table_blocks().max(1.0), path.table_rows().max(1.0));
    let surviving = estimate.heap_blocks.clamp(0.0, table_blocks);
    let fetched = rows_for_blocks(table_blocks, surviving).min(rows);
    let examined = (rows / table_blocks * surviving).max(fetched);

    // Repeated runs share pages.
    let slices = estimate.index_pages / path.loop_count().sqrt();
    let consult = path.prices().lookup(slices, path.index_blocks(), estimate.words);
    let unseen_rows = (examined - fetched) * path.cost_of_row();
    Costs {
        startup: consult,
        total: consult + unseen_rows + path.prices().pages(surviving),
        selectivity: (fetched / rows).clamp(0.0, 1.0),
        index_pages: estimate.index_pages,
    }
}

/// Number of keys of a condition.
fn keys(condition: &PathCondition<'_>, over: Over) -> f64 {
    match over {
        Over::TheseKeys => condition.key_count,
        Over::AnyKeys => condition.key_count.max(condition.any_count),
    }
    .max(1.0)
}

fn estimate(
    path: &IndexPathView,
    index: Rel,
    facts: &Facts,
    conditions: &[PathCondition<'_>],
) -> IndexEstimate {
    let usual = average(path, conditions, Over::TheseKeys, facts);
    // As for the Skip Index Scan: where it makes no difference, a plan for these parameters gets the same estimate as
    // one for any parameters.
    if probe::pages_left() == 0 {
        return usual;
    }
    if path.has_parameters() {
        let any = average(path, conditions, Over::AnyKeys, facts);
        if is_little(any.heap_blocks, any.index_pages, path.table_blocks()) {
            return any;
        }
    }
    let meta = &facts.meta;
    let clause = |c: &PathCondition| c.clause.as_ref().and_then(|clause| hashed::clause(index, meta, clause));
    let blocks = path.table_blocks() as u32;
    if let Some(clauses) = conditions.iter().map(clause).collect::<Option<Vec<_>>>()
        && let Some(pruned) = probe::probe(index, facts, clauses, blocks)
    {
        let heap_blocks = pruned.ranges.count() as f64 * f64::from(pruned.pages_per_range);
        return IndexEstimate {
            heap_blocks,
            index_pages: pruned.slices as f64 + OTHER_PAGES,
            words: pruned.slices as f64 * (f64::from(meta.ranges_in(blocks)) / 64.0),
        };
    }
    usual
}

fn average(
    path: &IndexPathView,
    conditions: &[PathCondition<'_>],
    over: Over,
    facts: &Facts,
) -> IndexEstimate {
    let all = |over: Over| conditions.iter().map(|c| keys(c, over)).sum::<f64>().max(1.0);
    let rows = path.row_selectivity() * path.table_rows() * all(over) / all(Over::TheseKeys);
    let meta = &facts.meta;
    let surviving_blocks = |c: &PathCondition| {
        let pages = f64::from(meta.pages_per_part(c.column));
        let ranges = (path.table_blocks() / pages).ceil().max(1.0);
        let summarized = meta.summarized_parts(c.column).min(ranges);
        let false_positives = (keys(c, over) * facts.rate(c.column, path.table_rows() / ranges)).min(1.0);
        surviving_ranges(ranges, summarized, false_positives, rows) * pages
    };
    // A range must pass all conditions, so the strictest condition determines the estimate.
    let heap_blocks = conditions.iter().map(surviving_blocks).reduce(f64::min);
    let slices: f64 = conditions.iter().map(|c| keys(c, over) * facts.slices(c.column)).sum();
    let index_pages = slices + OTHER_PAGES;
    let words = path.table_blocks() / f64::from(meta.pages_per_range) / 64.0;
    IndexEstimate {
        heap_blocks: heap_blocks.unwrap_or(path.table_blocks()),
        index_pages,
        words: index_pages * words,
    }
}
