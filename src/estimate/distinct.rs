//! The number of distinct values of a column, as the maps of an index know it ([`key_counts`]).
//!
//! The planner asks for it several times for each query. So answers are kept for a session, by the sizes of the table
//! and of its indexes, which the planner has at hand: while these stand still, the number changes little. It is used
//! for estimates only.

use crate::pg::custom::index::Index;
use crate::pg::custom::table::Table;
use crate::prune::facts::Facts;
use crate::prune::key_counts;
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use std::collections::HashMap;

/// The least number of rows of a table whose indexes are read for this: ANALYZE reads 30,000 rows, by default, and
/// knows enough of tables that are not much larger.
const LEAST_ROWS: f64 = 100_000.0;
/// The least part of the table that the index must have summarized.
const LEAST_SUMMARIZED: f64 = 0.9;
/// The most columns whose answers are kept: some hundred kilobytes in each session.
const MOST_COLUMNS: usize = 4096;

/// A table's column: its OID, its number, and the collation by which values are compared.
type Column = (Oid, i16, Oid);

/// Blocks of the table, and OID and blocks of each index.
#[derive(PartialEq)]
struct Sizes {
    table: u32,
    indexes: Vec<(Oid, u32)>,
}

impl Sizes {
    fn are_of(&self, table: &Table<'_>) -> bool {
        let now = table.indexes().iter().map(size_of_index);
        self.table == table.blocks() && self.indexes.iter().copied().eq(now)
    }
}

fn size_of_index(index: &Index<'_>) -> (Oid, u32) {
    (index.oid(), index.blocks() as u32)
}

thread_local! {
    static KNOWN: RefCell<HashMap<Column, (Sizes, Option<f64>)>> = RefCell::default();
}

/// The number of distinct values, without NULL, of a column that is compared under a collation. None if no index knows
/// it: it must have maps of whole values of the column, and of all rows.
pub fn distinct(table: &Table<'_>, attribute: i16, collation: Oid) -> Option<f64> {
    if table.rows() < LEAST_ROWS {
        return None;
    }
    let column = (table.oid(), attribute, collation);
    let known = |known: &HashMap<Column, (Sizes, Option<f64>)>| {
        known.get(&column).filter(|(sizes, _)| sizes.are_of(table)).map(|&(_, distinct)| distinct)
    };
    if let Some(distinct) = KNOWN.with_borrow(known) {
        return distinct;
    }
    // Nothing is borrowed here: reading may raise an error.
    let distinct = table.indexes().iter().enumerate().find_map(|(number, index)| {
        let column = (0..index.columns()).find(|&column| index.attribute(column) == Some(attribute))?;
        let is_suitable = !index.is_partial()
            && index.has_whole_values(column)
            && index.has_equality_of_type(column, collation);
        is_suitable.then(|| of_index(table, number, column)).flatten()
    });
    if distinct.is_none() && !key_counts::may_read() {
        return None; // perhaps the next planner run finds it
    }
    let sizes = Sizes { table: table.blocks(), indexes: table.indexes().iter().map(size_of_index).collect() };
    KNOWN.with_borrow_mut(|known| {
        if known.len() >= MOST_COLUMNS {
            known.clear();
        }
        known.insert(column, (sizes, distinct));
    });
    distinct
}

fn of_index(table: &Table<'_>, number: usize, column: u16) -> Option<f64> {
    let index = table.open_index(number)?;
    let facts = Facts::of(index).ok()?;
    let parts = f64::from(facts.meta.parts_in(column, table.blocks()));
    let is_summarized = facts.meta.summarized_parts(column) >= LEAST_SUMMARIZED * parts;
    is_summarized.then(|| key_counts::of_column(index, &facts, column))??.distinct()
}
