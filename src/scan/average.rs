//! The average result of a lookup: from statistics and from the sizes of the index's filters, without a lookup.
//!
//! The formulas are in [`skip_scan::expected`]. Tests with unknown keys count as independent.

use super::matching::Leaf;
use crate::pg::Rel;
use crate::pg::clause::Match;
use crate::pg::custom::expr::Expr;
use crate::pg::custom::table::Table;
use crate::pg::options::PAGES_PER_RANGE;
use crate::pg::planner::ASSUMED_ELEMENTS;
use crate::prune::facts::Facts;
use crate::prune::{Ask, HashedClause, unit};
use skip_scan::Condition;
use skip_scan::expected::{OTHER_PAGES, Over, ranges_with_rows, surviving_ranges};
use std::rc::Rc;

/// A test and what is known for its estimate.
pub struct LeafEstimate<'l, 'a> {
    pub leaf: &'l Leaf<'a>,
    /// Set when the key is known and will be looked up.
    pub ask: Option<Ask>,
    /// The fraction of the ranges that survive, where something better than the average is known. The average takes
    /// lookups in the planner's statistics, which most estimates do not need.
    pub fraction: Option<f64>,
    /// Slices that a lookup of the test would read, if it is not looked up.
    pub slices: f64,
}

/// One of the indexes of a condition.
pub struct IndexInSight<'t> {
    /// The number of the index among the table's indexes.
    pub number: usize,
    pub index: Rel<'t>,
    /// None if its meta page is damaged.
    pub facts: Option<Rc<Facts>>,
    pub clauses: Vec<HashedClause>,
}

/// The table, and the indexes of a condition.
pub struct Sight<'t, 'a> {
    pub table: &'t Table<'a>,
    pub asked: Vec<IndexInSight<'t>>,
    /// Blocks of the table.
    pub blocks: u32,
    /// Number of blocks in a unit.
    unit: u32,
}

impl<'t, 'a> Sight<'t, 'a> {
    pub fn new(table: &'t Table<'a>, condition: &Condition<Leaf<'a>>) -> Self {
        let mut asked: Vec<IndexInSight<'_>> = Vec::new();
        let mut sizes = Vec::new();
        for leaf in condition.leaves() {
            if asked.iter().all(|a| a.number != leaf.index) {
                let index = table.open_index(leaf.index);
                let facts = Facts::of(index).ok();
                asked.push(IndexInSight { number: leaf.index, index, facts, clauses: Vec::new() });
            }
            let facts = asked.iter().find(|a| a.number == leaf.index).and_then(|a| a.facts.as_ref());
            let size = facts.map_or(PAGES_PER_RANGE.2 as u32, |f| f.meta.pages_per_part(leaf.column));
            sizes.push(size);
        }
        Self { table, asked, blocks: table.blocks(), unit: unit(sizes.into_iter()) }
    }

    /// Number of blocks in a unit.
    pub fn unit(&self) -> u32 {
        self.unit
    }

    /// The most ranges that one of the indexes has: what is ANDed are whole ranges, not the parts that maps tell apart.
    pub fn ranges(&self) -> u32 {
        let of = |asked: &IndexInSight<'_>| Some(asked.facts.as_ref()?.meta.ranges_in(self.blocks));
        self.asked.iter().filter_map(of).max().unwrap_or(0)
    }

    /// Number of units in the table.
    pub fn count(&self) -> u32 {
        self.blocks.div_ceil(self.unit)
    }

    fn facts(&self, leaf: &Leaf<'_>) -> Option<&Facts> {
        self.asked.iter().find(|a| a.number == leaf.index).and_then(|a| a.facts.as_deref())
    }

    /// A condition without lookups: all of its leaves are estimated.
    pub fn unasked<'l>(
        &self,
        condition: &'l Condition<Leaf<'a>>,
        over: Over,
    ) -> Condition<LeafEstimate<'l, 'a>> {
        let all = |parts: &'l [_]| parts.iter().map(|part| self.unasked(part, over)).collect();
        match condition {
            Condition::And(parts) => Condition::And(all(parts)),
            Condition::Or(parts) => Condition::Or(all(parts)),
            Condition::Leaf(leaf) => {
                let slices = self.slices(leaf, over);
                Condition::Leaf(LeafEstimate { leaf, ask: None, fraction: None, slices })
            }
        }
    }

    /// Number of keys of a test that is not looked up.
    fn keys(&self, leaf: &Leaf<'_>, over: Over) -> f64 {
        match (leaf.how, leaf.key.key) {
            (Match::Array, Some(array)) if over == Over::AnyKeys && array.is_constant() => ASSUMED_ELEMENTS,
            (Match::Array, Some(array)) => self.table.array_length(array),
            _ => 1.0,
        }
    }

    /// Slices that the lookup of a test reads on average.
    pub fn slices(&self, leaf: &Leaf<'_>, over: Over) -> f64 {
        self.keys(leaf, over) * self.facts(leaf).map_or(1.0, |facts| facts.slices(leaf.column)) + OTHER_PAGES
    }

    /// The fraction of the ranges that survive a test, on average over keys.
    pub fn average(&self, part: &LeafEstimate<'_, '_>, over: Over) -> f64 {
        let leaf = part.leaf;
        let (Some(facts), None) = (self.facts(leaf), part.fraction) else {
            return part.fraction.unwrap_or(1.0);
        };
        let table = self.table;
        let meta = &facts.meta;
        let ranges = f64::from(meta.parts_in(leaf.column, self.blocks)).max(1.0);
        let summarized = meta.summarized_parts(leaf.column).min(ranges);
        let keys = self.keys(leaf, over);
        let mut selectivity = match leaf.key.key {
            Some(key) if over == Over::AnyKeys => table.selectivity_of_unknown(leaf.key.condition, key),
            _ => table.selectivity(leaf.key.condition),
        };
        // The planner's selectivity already takes the elements into account that the query contains.
        let is_assumed =
            |array: Expr<'_>| over == Over::AnyKeys && array.is_constant() || !array.has_elements();
        if leaf.how == Match::Array && leaf.key.key.is_some_and(is_assumed) {
            selectivity = (selectivity * keys / ASSUMED_ELEMENTS).min(1.0);
        }
        let rows = selectivity * table.rows();
        let rows_a_range = (table.rows() / ranges).max(1.0);
        let attribute = table.indexes()[leaf.index].attribute(leaf.column);
        let correlation = attribute.map_or(0.0, |attribute| table.correlation(attribute));
        let with_rows = ranges_with_rows(rows, rows_a_range, correlation, ranges);
        let false_positives = keys * facts.rate(leaf.column, rows_a_range);
        (surviving_ranges(ranges, summarized, false_positives, with_rows) / ranges).clamp(0.0, 1.0)
    }

    /// The fraction of the ranges that survive a condition, by averages. Tests that are looked up are included only if
    /// `with_known` is set, because otherwise the lookup has counted them already.
    pub fn fraction(&self, condition: &Condition<LeafEstimate<'_, '_>>, with_known: bool, over: Over) -> f64 {
        match condition {
            Condition::And(parts) => parts.iter().map(|part| self.fraction(part, with_known, over)).product(),
            Condition::Or(parts) => {
                let is_counted = condition.leaves().iter().all(|part| part.ask.is_some());
                if is_counted && !with_known {
                    return 1.0;
                }
                1.0 - parts.iter().map(|part| 1.0 - self.fraction(part, true, over)).product::<f64>()
            }
            Condition::Leaf(part) if part.ask.is_some() && !with_known => 1.0,
            Condition::Leaf(part) => self.average(part, over),
        }
    }
}
