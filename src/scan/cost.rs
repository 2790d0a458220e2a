//! What a Skip Index Scan costs.
//!
//! An index page costs as much as two sequential ones, because index pages are close together and are often cached; the
//! access method's own estimate has the same price. The first block of each run of ranges is read at random, the others
//! in sequence. Each row on these blocks has a CPU cost.

use crate::estimate::Estimate;
use crate::pg::clause::Match;
use crate::pg::custom::expr::Leaf;
use crate::pg::custom::joins::Outer;
use crate::pg::custom::table::Table;
use skip_scan::Condition;
use skip_scan::cost::Prices;

/// CPU cost per lookup of a row in a list of keys, in units of cpu_operator_cost: hashing a value, and comparing it. A
/// shorter list costs what the planner takes for it.
const OPERATORS_A_LIST: f64 = 2.0;

/// Startup and total cost of a scan.
pub struct ScanCost {
    pub startup: f64,
    pub total: f64,
    /// The part of the total that parallel processes share.
    pub shared: f64,
}

/// The costs of an estimate for a condition, when the path is run once for each row of `outer`.
pub fn cost(
    table: &Table<'_>,
    condition: &Condition<Leaf<'_>>,
    estimate: &Estimate,
    outer: Option<Outer<'_>>,
) -> ScanCost {
    let prices = table.prices();
    let loops = outer.map_or(1.0, |outer| table.loop_count(outer));
    // Repeated runs share pages.
    let consult = prices.lookup(estimate.index_pages / loops.sqrt(), estimate.index_blocks, estimate.words);
    let pages = estimate.heap_blocks;
    let read = if loops > 1.0 { table.pages_fetched(pages * loops) / loops } else { pages }.min(pages);
    let io = prices.blocks(read, estimate.runs, estimate.table_blocks);
    let (startup, per_row) = table.row_costs(outer);
    let rows_a_page = table.rows() / estimate.table_blocks.max(1.0);
    let rows = prices.rows(pages, rows_a_page, per_row - saved_per_row(table, condition, &prices));
    let startup = consult + startup;
    ScanCost { startup, total: startup + io + rows, shared: rows }
}

/// The part of the planner's cost of checking a row that the scan does not have: evaluating keys, which the scan does
/// once, and searching lists of them, where the scan replaces that by a lookup by hash.
fn saved_per_row(table: &Table<'_>, condition: &Condition<Leaf<'_>>, prices: &Prices) -> f64 {
    let by_hash = OPERATORS_A_LIST * prices.operator;
    let saved = |leaf: &Leaf<'_>| match (leaf.how, leaf.key.key) {
        (Match::Array, _) if leaf.key.condition.is_hashed_list() => {
            (table.cost_of(leaf.key.condition) - by_hash).max(0.0)
        }
        (_, Some(key)) if !key.is_constant() => table.cost_of(key),
        _ => 0.0,
    };
    // A condition that is looked up in several columns, or by several paths, has leaves next to each other.
    let mut last = None;
    let is_other = |leaf: &&Leaf<'_>| {
        let condition = Some(leaf.key.condition.identity());
        std::mem::replace(&mut last, condition) != condition
    };
    condition.leaves().filter(is_other).map(saved).sum()
}
