//! What reading costs, in the planner's units: formulas over its cost parameters.

/// CPU cost per page that a scan is told to read, in units of `operator`. It lets a sequential scan win where hardly
/// anything is skipped.
const OPERATORS_A_PAGE: f64 = 20.0;
/// CPU cost of a bitmap, in units of `operator`: as much as a page of a sequential scan. Measured: the inner side of a
/// nested loop, which finds a row on one page, takes 8.4 microseconds by a bitmap scan, and 5.1 by a scan that
/// needs no bitmap. The price is somewhat above the difference, because both scans read the same.
const OPERATORS_A_BITMAP: f64 = 400.0;
/// CPU cost per word of 64 ranges that is ANDed, in units of `operator`: one instruction of the many that an operator
/// call takes.
const OPERATORS_A_WORD: f64 = 0.1;

/// The planner's cost parameters.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    /// A page from anywhere (random_page_cost).
    pub random: f64,
    /// The page behind the one before (seq_page_cost).
    pub sequential: f64,
    /// One operator or function call (cpu_operator_cost).
    pub operator: f64,
}

impl Prices {
    /// Looking into an index: `slices` slices, of which it has no more than `index_blocks` different pages, and `words`
    /// words of 64 ranges ANDed. Meta and directory pages are nearly always cached; slices lie scattered, but close
    /// together.
    pub fn lookup(&self, slices: f64, index_blocks: f64, words: f64) -> f64 {
        slices.min(index_blocks) * self.random.min(self.sequential * 2.0)
            + words * self.operator * OPERATORS_A_WORD
    }

    /// Reading `blocks` blocks of a table of `table_blocks` in `runs` runs of consecutive ones: the first of each run
    /// at random. The more runs there are, the closer together they are, and the cheaper is a run's first block, as in
    /// the server's cost of a bitmap heap scan.
    pub fn blocks(&self, blocks: f64, runs: f64, table_blocks: f64) -> f64 {
        let runs = runs.min(blocks);
        let closeness = if runs >= 2.0 { (runs / table_blocks.max(runs)).sqrt() } else { 0.0 };
        let first = self.random - (self.random - self.sequential) * closeness;
        runs * first + (blocks - runs) * self.sequential
    }

    /// Handing on `blocks` blocks to the scan that reads them: prefetching them, or adding them to a bitmap.
    pub fn pages(&self, blocks: f64) -> f64 {
        OPERATORS_A_PAGE * self.operator * blocks
    }

    /// Making a bitmap, and giving it up.
    pub fn bitmap(&self) -> f64 {
        OPERATORS_A_BITMAP * self.operator
    }

    /// Going through `blocks` blocks with `rows_a_block` rows each, where a row costs `per_row`, or at least one
    /// operator.
    pub fn rows(&self, blocks: f64, rows_a_block: f64, per_row: f64) -> f64 {
        per_row.max(self.operator) * rows_a_block * blocks + self.pages(blocks)
    }
}

/// How many of `blocks` blocks the server does not expect a bitmap scan to read, because it rounds the number of rows,
/// `rows` of them in a table of `table_blocks` blocks.
pub fn blocks_rounded_off(table_blocks: f64, blocks: f64, rows: f64) -> f64 {
    let rounded = rows.round().max(1.0);
    let expected = 2.0 * table_blocks * rounded / (2.0 * table_blocks + rounded);
    (blocks - expected).max(0.0)
}

/// The number of rows for which the planner expects a bitmap scan of a table of `table_blocks` blocks to read `blocks`
/// of them: the inverse of Mackert and Lohman's `blocks = 2TN / (2T + N)` for N rows and T blocks.
pub fn rows_for_blocks(table_blocks: f64, blocks: f64) -> f64 {
    2.0 * table_blocks * blocks / (2.0 * table_blocks - blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices = Prices { random: 4.0, sequential: 1.0, operator: 0.0025 };

    fn is_near(one: f64, other: f64) -> bool {
        (one - other).abs() <= 1e-9 * other.abs().max(1.0)
    }

    #[test]
    fn the_server_rounds_rows() {
        let of = |blocks: f64| blocks_rounded_off(1000.0, blocks, rows_for_blocks(1000.0, blocks));
        assert!((0.4..0.5).contains(&of(1.45)), "{}", of(1.45));
        assert_eq!(of(1.6), 0.0, "it expects two rows");
        assert_eq!(of(0.2), 0.0, "it expects one row");
    }

    #[test]
    fn a_slice_costs_two_sequential_pages_or_a_random_one() {
        assert!(is_near(PRICES.lookup(10.0, 100.0, 0.0), 20.0));
        assert!(is_near(Prices { random: 1.1, ..PRICES }.lookup(10.0, 100.0, 0.0), 11.0));
        assert!(is_near(PRICES.lookup(1000.0, 100.0, 0.0), 200.0), "no more pages than the index has");
        assert!(is_near(PRICES.lookup(0.0, 100.0, 4000.0), 1.0));
    }

    #[test]
    fn the_first_block_of_a_run_is_random() {
        assert!(is_near(PRICES.blocks(100.0, 1.0, 1e6), 4.0 + 99.0));
        assert!(is_near(PRICES.blocks(100.0, 100.0, 1e4), 370.0));
        assert!(is_near(PRICES.blocks(100.0, 100.0, 100.0), 100.0), "the whole table is read in sequence");
        assert!(is_near(PRICES.blocks(1.0, 100.0, 100.0), 4.0), "no more runs than blocks");
        assert!(is_near(PRICES.blocks(0.0, 0.0, 0.0), 0.0));
    }

    #[test]
    fn a_row_costs_an_operator_at_least() {
        assert!(is_near(PRICES.rows(10.0, 100.0, 0.01), 10.0 * (1.0 + 0.05)));
        assert!(is_near(PRICES.rows(10.0, 100.0, -1.0), 10.0 * (0.25 + 0.05)));
    }

    #[test]
    fn the_formula_of_bitmap_scans_gives_the_blocks_back() {
        for (table, blocks) in [(1000.0, 1.0), (1000.0, 500.0), (1000.0, 1000.0), (1.0, 1.0), (7.0, 0.0)] {
            let rows = rows_for_blocks(table, blocks);
            assert!(is_near(2.0 * table * rows / (2.0 * table + rows), blocks), "{blocks} of {table}");
        }
    }
}
