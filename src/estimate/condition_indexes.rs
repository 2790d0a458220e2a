//! The indexes of a condition that is estimated. Their segments and the planner's statistics tell what its tests leave
//! and read.

use crate::pg::Rel;
use crate::pg::clause::{Match, Strategy};
use crate::pg::custom::expr::{Expr, Leaf};
use crate::pg::custom::table::Table;
use crate::pg::planner::ASSUMED_ELEMENTS;
use crate::prune::facts::Facts;
use crate::prune::key_counts;
use crate::prune::{HashedClause, unit};
use skip_scan::Condition;
use skip_scan::estimate::Statistics;
use skip_scan::expected::Over;
use std::rc::Rc;

/// One of the indexes of a condition.
pub struct ConditionIndex {
    /// The number of the index among the table's indexes.
    pub number: usize,
    /// Whether nothing can be looked up in the index: its meta page is damaged, or it is hypothetical.
    is_unreadable: bool,
    /// Assumed ones if nothing can be looked up in the index.
    pub facts: Rc<Facts>,
    /// The clauses that are looked up in it.
    pub clauses: Vec<HashedClause>,
}

impl ConditionIndex {
    fn new(table: &Table<'_>, number: usize) -> Self {
        let index = table.indexes()[number];
        let known = if index.is_hypothetical() { None } else { Facts::known(index.oid()) };
        let facts = known.or_else(|| Facts::of(table.open_index(number)?).ok());
        // The executor will report damage.
        let is_unreadable = facts.is_none();
        let facts = facts.unwrap_or_else(|| Rc::new(Facts::assumed()));
        Self { number, is_unreadable, facts, clauses: Vec::new() }
    }

    /// The index, open as long as the table is; None if nothing can be looked up in it.
    pub fn open<'t>(&self, table: &'t Table<'_>) -> Option<Rel<'t>> {
        if self.is_unreadable { None } else { table.open_index(self.number) }
    }
}

/// The table, and the indexes of a condition.
pub struct ConditionIndexes<'t, 'a> {
    pub table: &'t Table<'a>,
    pub list: Vec<ConditionIndex>,
    /// Blocks of the table.
    pub blocks: u32,
    /// Number of blocks in a unit.
    pub unit: u32,
}

impl<'t, 'a> ConditionIndexes<'t, 'a> {
    pub fn new(table: &'t Table<'a>, condition: &Condition<Leaf<'a>>) -> Self {
        let mut indexes = Self { table, list: Vec::new(), blocks: table.blocks(), unit: 1 };
        for leaf in condition.leaves() {
            if indexes.list.iter().all(|index| index.number != leaf.index) {
                indexes.list.push(ConditionIndex::new(table, leaf.index));
            }
        }
        indexes.unit =
            unit(condition.leaves().map(|leaf| indexes.facts(leaf).meta.pages_per_part(leaf.column)));
        indexes
    }

    /// Number of units in the table.
    pub fn count(&self) -> u32 {
        self.blocks.div_ceil(self.unit)
    }

    /// The most ranges that one of the indexes has: what is ANDed are whole ranges, not the parts that maps tell apart.
    pub fn ranges(&self) -> u32 {
        self.list.iter().map(|index| index.facts.meta.ranges_in(self.blocks)).max().unwrap_or(0)
    }

    /// The position in `list` of a clause's index.
    pub fn position(&self, leaf: &Leaf<'_>) -> usize {
        self.list.iter().position(|index| index.number == leaf.index).unwrap_or(0)
    }

    fn facts(&self, leaf: &Leaf<'_>) -> &Facts {
        &self.list[self.position(leaf)].facts
    }

    /// Whether the index of a test has summarized no range of the table.
    pub fn is_unsummarized(&self, leaf: &Leaf<'_>) -> bool {
        self.facts(leaf).meta.watermark == 0
    }

    /// Whether a test is an equality with one known value of the column's own type, not NULL.
    pub fn has_one_value(&self, leaf: &Leaf<'_>) -> bool {
        let own = self.table.indexes()[leaf.index].input_type(leaf.column);
        (leaf.how, leaf.strategy) == (Match::Value, Strategy::Equal)
            && leaf.key_type == own
            && self.table.known_key(leaf).is_some_and(|clause| !clause.key.is_empty())
    }

    /// What is known of a test without a lookup, on average over keys.
    pub fn statistics(&self, leaf: &Leaf<'a>, over: Over) -> Statistics {
        let facts = self.facts(leaf);
        let (meta, column) = (&facts.meta, leaf.column);
        let ranges = f64::from(meta.parts_in(column, self.blocks)).max(1.0);
        let rows = self.table.rows();
        let keys = self.keys(leaf, over);
        let selectivity = self.selectivity(leaf, keys, over);
        let index = self.table.indexes()[leaf.index];
        // One row is in one range, whatever the order. The statistics of a thousand partitions take time to find.
        let has_order = selectivity * rows > 1.0 && !index.has_keys_within_values(column);
        let attribute = index.attribute(column).filter(|_| has_order);
        Statistics {
            keys,
            pages_of_key: facts.index_reads(column),
            rate: facts.rate(column, (rows / ranges).max(1.0)),
            ranges,
            summarized: meta.summarized_parts(column).min(ranges),
            rows,
            selectivity,
            is_guess: self.is_guess(leaf, over),
            correlation: attribute.map_or(0.0, |attribute| self.table.correlation(attribute)),
            ranges_of_key: self.ranges_of_key(leaf, over),
        }
    }

    /// Whether the selectivity of a test is a constant, because its key is not known and is a part of the column's
    /// values, of which the server has no statistics.
    pub fn is_guess(&self, leaf: &Leaf<'a>, over: Over) -> bool {
        self.table.indexes()[leaf.index].asks_for_part(leaf.column, leaf.strategy)
            && matches!(leaf.how, Match::Value | Match::Array)
            && self.is_unknown(leaf, over)
    }

    fn is_unknown(&self, leaf: &Leaf<'a>, over: Over) -> bool {
        over == Over::AnyKeys || self.table.known_key(leaf).is_none()
    }

    /// The parts of ranges that a key is in, on average, if maps tell it and the key is not known.
    fn ranges_of_key(&self, leaf: &Leaf<'a>, over: Over) -> Option<f64> {
        let is_equality = || self.table.indexes()[leaf.index].has_whole_values(leaf.column);
        let used = &self.list[self.position(leaf)];
        if !matches!(leaf.how, Match::Value | Match::Array) || !self.is_unknown(leaf, over) || !is_equality()
        {
            return None;
        }
        key_counts::of_column(used.open(self.table)?, &used.facts, leaf.column)?.pairs_of_key()
    }

    /// Number of keys of a test that is not looked up.
    fn keys(&self, leaf: &Leaf<'_>, over: Over) -> f64 {
        match (leaf.how, leaf.key.key) {
            (Match::Array, Some(array)) if over == Over::AnyKeys && array.is_constant() => ASSUMED_ELEMENTS,
            (Match::Array, Some(array)) => self.table.array_length(array),
            _ => 1.0,
        }
    }

    /// Fraction of the rows that satisfy a test with this number of keys.
    fn selectivity(&self, leaf: &Leaf<'a>, keys: f64, over: Over) -> f64 {
        let selectivity = match leaf.key.key {
            Some(key) if over == Over::AnyKeys => self.table.selectivity_of_unknown(leaf.key.condition, key),
            _ => self.table.selectivity(leaf.key.condition),
        };
        // The planner's selectivity already takes the elements into account that the query contains.
        let is_assumed =
            |array: Expr<'_>| over == Over::AnyKeys && array.is_constant() || !array.has_elements();
        if leaf.how == Match::Array && leaf.key.key.is_some_and(is_assumed) {
            (selectivity * keys / ASSUMED_ELEMENTS).min(1.0)
        } else {
            selectivity
        }
    }
}
