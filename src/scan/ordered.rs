//! Paths in the order of a column, `ORDER BY column LIMIT n`.
//!
//! Such a path reads ranges in the order of their bounds, and stops when nobody requests more rows. What it reads until
//! then depends on how far the ranges overlap. So planning reads the bounds, and finds from them how many ranges must
//! be read for the rows that the query wants ([`expected_read`]). For a table in rough order that is one or two, for
//! one without order most of them. The planner takes the cost of a part of the rows to be that part of the total,
//! beside the cost of starting up. The startup cost is therefore chosen so that the cost of the rows that the query
//! wants is right.
//!
//! If the bounds have too many pages to be read while planning, the part of the ranges that overlap with others is used
//! instead, as found from some pages ([`Facts`]).

use super::cost::{self, ScanCost};
use crate::estimate::{self, Estimate};
use crate::hash::keys::ColumnKeys;
use crate::pages::meta::Meta;
use crate::pg::custom::expr::Leaf;
use crate::pg::custom::ordering::{OrderedColumn, WantedOrder};
use crate::pg::custom::plan::{Expected, NewPath};
use crate::pg::custom::table::{Qual, Table};
use crate::pg::error::or_raise;
use crate::pg::{Rel, memory};
use crate::prune::bounds::{self, ColumnBounds};
use crate::prune::facts::Facts;
use crate::prune::probe;
use skip_bounds::Bounds;
use skip_bounds::ordered::{ExpectedRead, SortOrder, expected_read};
use skip_scan::Condition;
use skip_scan::cost::Prices;
use skip_segment::page::PAGE;

/// The most pages of bounds that are read to plan one table: a millisecond's work.
const MOST_PAGES: u64 = 64;
/// The most ranges from which it is found how many rows wait to be returned.
const MOST_SAMPLED: usize = 256;
/// CPU cost of a range whose bounds are read, in units of cpu_operator_cost.
const OPERATORS_A_RANGE: f64 = 0.5;
/// CPU cost of keeping a row and fetching it again, in units of cpu_operator_cost, beside the comparisons.
const OPERATORS_A_ROW: f64 = 20.0;
/// Bytes of a row that is kept, for the estimate.
const BYTES_A_ROW: f64 = 48.0;

/// What an index column knows of the order of a table's rows; None if nothing.
pub fn column(index: Rel, column: u16, blocks: u32) -> Option<OrderedColumn> {
    let ColumnBounds { ranges, pages_per_range } = or_raise(index, bounds::of_column(index, column, blocks))?;
    let meta = or_raise(index, Meta::read(index));
    let ColumnKeys::Order(keys) = ColumnKeys::of_index(index, &meta, column.into())? else { return None };
    let is_exact = keys.is_exact();
    Some(OrderedColumn {
        bounds: ranges,
        pages_per_range,
        is_exact,
        key: Box::new(move |value| keys.key(value)),
    })
}

/// Adds the path in an order that looks a condition up, if there is one.
pub fn add(
    table: &Table<'_>,
    order: &WantedOrder,
    condition: Option<&Condition<Leaf<'_>>>,
    left_out: &[Qual<'_>],
) {
    let whole = condition.map(|condition| {
        let estimate = estimate::estimate(table, condition);
        let cost = cost::cost(table, condition, &estimate, None);
        (estimate, cost)
    });
    let Some(read) = Reads::of(table, order, condition, whole.as_ref().map(|(estimate, _)| estimate)) else {
        return;
    };
    let cost = read.cost(table, whole.as_ref().map(|(_, cost)| cost));
    table.add(&NewPath {
        outer: None,
        startup: cost.startup,
        total: cost.total,
        shared: 0.0,
        workers: 0,
        expected: Expected { ranges: read.expected.ranges, of: read.of, is_exact: false },
        left_out,
        order: Some(order),
    });
}

/// What a scan in order is expected to read.
struct Reads {
    /// Ranges of the table.
    of: u32,
    /// Blocks that would be read for all rows.
    blocks: f64,
    table_blocks: f64,
    /// Pages of bounds.
    pages: f64,
    index_blocks: f64,
    /// The part of all rows that the query wants.
    wanted: f64,
    /// What is read for them.
    expected: ExpectedRead,
    /// The part of all rows that are read and not returned yet, at half of the scan.
    waiting: f64,
}

impl Reads {
    /// None if the index is damaged.
    fn of(
        table: &Table<'_>,
        order: &WantedOrder,
        condition: Option<&Condition<Leaf<'_>>>,
        whole: Option<&Estimate>,
    ) -> Option<Self> {
        let index = table.open_index(order.index)?;
        let facts = Facts::of(index).ok()?;
        let keys = ColumnKeys::of_index(index, &facts.meta, order.column.into())?;
        let ColumnKeys::Order(keys) = keys else { return None };
        let table_blocks = table.blocks();
        let blocks = whole.map_or(table_blocks.into(), |estimate| estimate.heap_blocks);
        let wanted = (table.rows_wanted().unwrap_or(1.0) / table.rows_left()).min(1.0);
        let pages = facts.bounds_pages(order.column);
        let known = if pages <= probe::pages_left().min(MOST_PAGES) {
            probe::spend(pages);
            bounds::of_column(index, order.column, table_blocks).ok()?
        } else {
            None
        };
        let of = facts.meta.ranges_in(table_blocks);
        let (expected, waiting) = match known {
            Some(known) => {
                let surviving = condition.and_then(|condition| estimate::surviving(table, condition));
                let ranges = shares(&known, table_blocks, surviving);
                let order = order.order(keys.is_exact());
                (expected_read(&order, &ranges, wanted), waiting(&order, &ranges))
            }
            None => {
                let overlap = facts.rate(order.column, 1.0);
                let share = (wanted + overlap + 1.0 / f64::from(of.max(1))).min(1.0);
                (ExpectedRead { ranges: (share * f64::from(of)).ceil() as u32, share }, overlap)
            }
        };
        let index_blocks = index.blocks().into();
        Some(Self {
            of,
            blocks,
            table_blocks: table_blocks.into(),
            pages: pages as f64,
            index_blocks,
            wanted,
            expected,
            waiting,
        })
    }

    /// The costs. `whole` are those of reading all rows that the condition leaves in any order.
    fn cost(&self, table: &Table<'_>, whole: Option<&ScanCost>) -> ScanCost {
        let prices = table.prices();
        let (startup, per_row) = table.row_costs(None);
        let words = f64::from(self.of) * OPERATORS_A_RANGE * prices.operator;
        let consult = prices.lookup(self.pages, self.index_blocks, 0.0) + words;
        let before = consult + whole.map_or(startup, |cost| cost.startup);
        let rows_a_page = table.rows() / self.table_blocks.max(1.0);
        let ranges = self.of.min(self.blocks.ceil() as u32);
        // `share` is the part of all rows that is read, `waiting` that which is kept at a time.
        let read = |share: f64, ranges: u32, returned: f64, waiting: f64| {
            let (blocks, rows) = (self.blocks * share, table.rows_left());
            prices.blocks(blocks, ranges.into(), self.table_blocks)
                + prices.rows(blocks, rows_a_page, per_row)
                + kept(&prices, rows * share, rows * waiting)
                + table.pages_fetched_again(self.blocks * waiting, rows * returned) * prices.random
        };
        let total = before + read(1.0, ranges, 1.0, self.waiting);
        let ExpectedRead { ranges, share } = self.expected;
        let for_wanted = (before + read(share, ranges, self.wanted, share)).min(total);
        // The cost of the rows wanted is `startup + wanted * (total - startup)` for the planner.
        let startup = if self.wanted < 1.0 {
            (for_wanted - self.wanted * total) / (1.0 - self.wanted)
        } else {
            for_wanted
        };
        ScanCost { startup: startup.clamp(before, total), total, shared: 0.0 }
    }
}

/// The cost of keeping rows until they are returned, of which some are waiting at a time: comparisons, as in the
/// server's cost of a sort, and writing those to disk that do not fit in memory.
fn kept(prices: &Prices, rows: f64, waiting: f64) -> f64 {
    let is_spilled = waiting * BYTES_A_ROW > memory::work_mem() as f64;
    let written = if is_spilled { 2.0 * rows * BYTES_A_ROW / PAGE as f64 * prices.sequential } else { 0.0 };
    rows * prices.operator * (OPERATORS_A_ROW + 2.0 * waiting.max(2.0).log2()) + written
}

/// The part of all rows that are read and not returned yet, when half of them are returned. Some ranges stand for all.
fn waiting(order: &SortOrder, ranges: &[(Bounds, f64)]) -> f64 {
    let step = ranges.len().div_ceil(MOST_SAMPLED).max(1);
    let sample: Vec<(Bounds, f64)> = ranges.iter().copied().step_by(step).collect();
    let all: f64 = sample.iter().map(|range| range.1).sum();
    let half = expected_read(order, &sample, all / 2.0).share;
    ((half - all / 2.0) / all.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
}

/// The bounds of the ranges that a condition leaves, and their parts of all rows.
fn shares(
    known: &ColumnBounds,
    table_blocks: u32,
    surviving: Option<(skip_scan::RangeSet, u32)>,
) -> Vec<(Bounds, f64)> {
    let pages = u64::from(known.pages_per_range);
    let blocks_of = |range: u64| match &surviving {
        Some((ranges, unit)) => {
            let unit = u64::from(*unit);
            let count = ranges.count_in(range * pages / unit, ((range + 1) * pages).div_ceil(unit));
            (count * unit) as f64
        }
        None => u64::from(table_blocks).saturating_sub(range * pages).min(pages) as f64,
    };
    let blocks: Vec<f64> = (0..known.ranges.len() as u64).map(blocks_of).collect();
    let all: f64 = blocks.iter().sum::<f64>().max(1.0);
    let left = known.ranges.iter().zip(blocks).filter(|(_, blocks)| *blocks > 0.0);
    left.map(|(&bounds, blocks)| (bounds, blocks / all)).collect()
}
