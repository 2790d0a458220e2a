//! amcostestimate: the costs of a path, from the estimate that the Skip Index Scan uses as well ([`crate::estimate`]).
//!
//! PostgreSQL computes the table's part of a bitmap scan's cost from the selectivity given here, as if rows were
//! scattered one by one (Mackert and Lohman's formula): pages = 2TN / (2T + N) for N rows in T pages. A scan of whole
//! ranges reads fewer pages for its rows. Therefore the selectivity returned is the one for which the formula gives the
//! number of pages that will be read, and the CPU cost of the other rows on these pages is added to the index's cost.
//! The cost of the bitmap is added, too, for which the server counts nothing: of two scans that read the same, the Skip
//! Index Scan is chosen, which needs none.

use crate::estimate;
use crate::pg::index_path::{Costs, IndexPathView};
use skip_scan::cost::{blocks_rounded_off, rows_for_blocks};
use skip_scan::expected::OTHER_PAGES;

/// Costs of an index path.
pub fn cost(path: &IndexPathView<'_>) -> Costs {
    let (table_blocks, rows) = (path.table_blocks().max(1.0), path.table().rows());
    let estimate = path.condition().map(|condition| estimate::estimate(path.table(), &condition));
    // Without a condition, all blocks survive, and only the meta page, the directory and the delta are read.
    let (heap_blocks, index_pages, index_blocks, words) = estimate
        .map_or((table_blocks, OTHER_PAGES, OTHER_PAGES, 0.0), |estimate| {
            (estimate.heap_blocks, estimate.index_pages, estimate.index_blocks, estimate.words)
        });
    let surviving = heap_blocks.clamp(0.0, table_blocks);
    let fetched = rows_for_blocks(table_blocks, surviving).min(rows);
    let examined = (rows / table_blocks * surviving).max(fetched);

    // Repeated runs share pages.
    let prices = path.prices();
    let consult = prices.lookup(index_pages / path.loop_count().sqrt(), index_blocks, words);
    let consult = consult + prices.bitmap();
    let unseen_rows = (examined - fetched) * path.cost_of_row();
    let unseen_blocks = blocks_rounded_off(table_blocks, surviving, fetched) * prices.random;
    Costs {
        startup: consult,
        total: consult + unseen_rows + unseen_blocks + prices.pages(surviving),
        selectivity: (fetched / rows).clamp(0.0, 1.0),
        index_pages,
    }
}
