//! Paths in the order of a column, `ORDER BY column LIMIT n`.
//!
//! Such a path reads ranges in the order of their bounds, and stops when nobody requests more rows. What it reads until
//! then depends on how far the ranges overlap. So planning looks at the bounds as the executor will do, page by page,
//! and finds how many ranges must be read for the rows that the query wants ([`expected_read`]). For a table in rough
//! order that is one or two, for one without order most of them. The planner takes the cost of a part of the rows to be
//! that part of the total, beside the cost of starting up. The startup cost is therefore chosen so that the cost of the
//! rows that the query wants is right.
//!
//! If planning may read no more pages, the fraction of the ranges that overlap with others is used instead, as found
//! from some pages ([`Facts`]).

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
use crate::prune::bounds::{self, GroupedBounds};
use crate::prune::facts::Facts;
use crate::prune::planner_lookup;
use pgrx::pg_sys::Oid;
use skip_bounds::Bounds;
use skip_bounds::ordered::{ExpectedRead, RangeSample, SortOrder, expected_read};
use skip_bounds::page::RANGES_PER_PAGE;
use skip_scan::cost::Prices;
use skip_scan::{Condition, RangeSet};
use skip_segment::page::PAGE;
use std::ops::Range;

/// The most pages of bounds, besides those of summaries, that are read to plan one table: a millisecond's work.
const MOST_PAGES: u64 = 64;
/// With fewer groups of ranges than this, single ranges are read to estimate how many rows wait to be returned.
const LEAST_GROUPS: usize = 4;
/// CPU cost of a group of ranges, or of a range in a group that is read, in units of cpu_operator_cost.
const OPERATORS_A_RANGE: f64 = 0.5;
/// CPU cost of keeping a row and fetching it again, in units of cpu_operator_cost, beside the comparisons.
const OPERATORS_A_ROW: f64 = 20.0;
/// Bytes of a row that is kept, for the estimate.
const BYTES_A_ROW: f64 = 48.0;

/// What an index column knows of the order of a table's rows; None if nothing.
pub fn column(index: Rel, column: u16, blocks: u32) -> Option<OrderedColumn> {
    let found = or_raise(index, bounds::of_column(index, column, blocks))?;
    let meta = or_raise(index, Meta::read(index));
    let keys = match ColumnKeys::of_index(index, &meta, column.into())? {
        ColumnKeys::Order(keys) if keys.are_ranks() => keys,
        _ => return None,
    };
    Some(OrderedColumn {
        groups: found.groups.clone(),
        delta_bounds: found.delta_bounds.clone(),
        pages_per_range: found.pages_per_range,
        is_exact: keys.is_exact(),
        ranges_of: Box::new(move |index, group, is_wanted| {
            if !is_wanted(&found.span(group)) {
                return Vec::new();
            }
            let mut ranges = or_raise(index, found.ranges_of(index, group));
            ranges.retain(|&(range, _)| is_wanted(&(range..range + 1)));
            ranges
        }),
        key: Box::new(move |value| keys.key(value)),
    })
}

/// The path in an order that looks a condition up, if there is one.
pub struct OrderedPath {
    order: WantedOrder,
    cost: ScanCost,
    expected: Expected,
}

impl OrderedPath {
    /// None if the index cannot give the order: it is damaged, or its column was given up.
    pub fn of(
        table: &Table<'_>,
        order: WantedOrder,
        condition: Option<&Condition<Leaf<'_>>>,
    ) -> Option<Self> {
        let whole = condition.map(|condition| {
            let estimate = estimate::estimate(table, condition);
            let cost = cost::cost(table, condition, &estimate, None);
            (estimate, cost)
        });
        let read = Reads::of(table, &order, condition, whole.as_ref().map(|(estimate, _)| estimate))?;
        let cost = read.cost(table, whole.as_ref().map(|(_, cost)| cost));
        let expected = Expected { ranges: read.expected.ranges, of: read.of, is_exact: false };
        Some(Self { order, cost, expected })
    }

    /// Whether the order is that of an index of the table.
    pub fn is_of(&self, table: &Table<'_>, index: Oid) -> bool {
        table.indexes()[self.order.index].oid() == index
    }

    pub fn add(&self, table: &Table<'_>, left_out: &[Qual<'_>]) {
        table.add(&NewPath {
            outer: None,
            startup: self.cost.startup,
            total: self.cost.total,
            shared: 0.0,
            workers: 0,
            expected: self.expected,
            left_out,
            order: Some(&self.order),
        });
    }
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
        if !keys.are_ranks() {
            return None;
        }
        let table_blocks = table.blocks();
        let blocks = whole.map_or(table_blocks.into(), |estimate| estimate.heap_blocks);
        let wanted = (table.rows_wanted().unwrap_or(1.0) / table.rows_left()).min(1.0);
        let known = if planner_lookup::pages_left() > 0 {
            bounds::of_column(index, order.column, table_blocks).ok()?
        } else {
            None
        };
        let of = facts.meta.ranges_in(table_blocks);
        let (expected, waiting, pages) = match known {
            Some(known) => {
                let surviving = condition.and_then(|condition| estimate::surviving(table, condition));
                let looked_at = LookedAt { index, known: &known, table_blocks, surviving };
                looked_at.expected(&order.order(keys.is_exact()), wanted)
            }
            None => {
                let overlap = facts.rate(order.column, 1.0);
                let share = (wanted + overlap + 1.0 / f64::from(of.max(1))).min(1.0);
                let ranges = (share * f64::from(of)).ceil() as u32;
                (ExpectedRead { ranges, share, groups: 1 }, overlap, 1)
            }
        };
        let index_blocks = index.blocks().into();
        Some(Self {
            of,
            blocks,
            table_blocks: table_blocks.into(),
            pages: pages as f64 + f64::from(expected.groups),
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
        let looked_at = self.pages * f64::from(RANGES_PER_PAGE);
        let words = looked_at.min(self.of.into()) * OPERATORS_A_RANGE * prices.operator;
        let consult = prices.lookup(self.pages, self.index_blocks, 0.0) + words;
        let before = consult + whole.map_or(startup, |cost| cost.startup);
        let rows_a_page = table.rows() / self.table_blocks.max(1.0);
        let ranges = self.of.min(self.blocks.ceil() as u32);
        // `share` is the fraction of all rows that is read, `waiting` that which is kept at a time.
        let read = |share: f64, ranges: u32, returned: f64, waiting: f64| {
            let (blocks, rows) = (self.blocks * share, table.rows_left());
            prices.blocks(blocks, ranges.into(), self.table_blocks)
                + prices.rows(blocks, rows_a_page, per_row)
                + kept(&prices, rows * share, rows * waiting)
                + table.pages_fetched_again(self.blocks * waiting, rows * returned) * prices.random
        };
        let total = before + read(1.0, ranges, 1.0, self.waiting);
        let ExpectedRead { ranges, share, .. } = self.expected;
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

/// The bounds of a column while a query is planned.
struct LookedAt<'a> {
    index: Rel<'a>,
    known: &'a GroupedBounds,
    table_blocks: u32,
    /// The ranges, in units, that a condition leaves, and the blocks of each.
    surviving: Option<(RangeSet, u32)>,
}

impl LookedAt<'_> {
    /// What is expected to be read for the fraction of the rows that is wanted; the fraction of all rows that are read
    /// and not returned yet, when half of them are returned; and pages of bounds that are read in any case.
    fn expected(&self, order: &SortOrder, wanted: f64) -> (ExpectedRead, f64, u64) {
        let all = self.blocks(0..u32::MAX).max(1.0);
        let sample = |bounds: Bounds, ranges: Range<u32>| RangeSample {
            bounds,
            share: self.blocks(ranges.clone()) / all,
            ranges: ranges.len() as u32,
        };
        let spans = (0..).map(|group| self.known.span(group));
        let groups: Vec<RangeSample> =
            self.known.groups.iter().zip(spans).map(|(&bounds, ranges)| sample(bounds, ranges)).collect();
        planner_lookup::spend(self.known.pages);
        let mut left = planner_lookup::pages_left().min(MOST_PAGES);
        let ranges_of = |group: u32| {
            let known = if left > 0 { self.known.ranges_of(self.index, group).ok() } else { None };
            left = left.saturating_sub(1);
            planner_lookup::spend(u64::from(known.is_some()));
            let ranges = known.map(|known| {
                let one = |(range, bounds)| sample(bounds, range..range + 1);
                known.into_iter().map(one).filter(|range| range.share > 0.0).collect()
            });
            ranges.unwrap_or_else(|| groups.get(group as usize).copied().into_iter().collect())
        };
        let expected = expected_read(order, &groups, ranges_of, wanted);
        let total: f64 = groups.iter().map(|group| group.share).sum();
        // Many groups tell enough of how far ranges overlap.
        let ranges_of = |group: u32| {
            let whole = || groups.get(group as usize).copied().into_iter().collect();
            let known =
                if groups.len() < LEAST_GROUPS { self.known.ranges_of(self.index, group).ok() } else { None };
            known.map_or_else(whole, |known| {
                known.into_iter().map(|(range, bounds)| sample(bounds, range..range + 1)).collect()
            })
        };
        let half = expected_read(order, &groups, ranges_of, total / 2.0).share;
        (expected, (half - total / 2.0).clamp(0.0, 1.0), self.known.pages)
    }

    /// Blocks of some ranges that the condition leaves.
    fn blocks(&self, ranges: Range<u32>) -> f64 {
        let pages = u64::from(self.known.pages_per_range);
        let end = (u64::from(ranges.end) * pages).min(self.table_blocks.into());
        let start = (u64::from(ranges.start) * pages).min(end);
        match &self.surviving {
            Some((left, unit)) => {
                let unit = u64::from(*unit);
                (left.count_in(start / unit, end.div_ceil(unit)) * unit) as f64
            }
            None => (end - start) as f64,
        }
    }
}
