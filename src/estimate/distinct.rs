//! The number of distinct values of a column, as the maps of an index know it ([`key_counts`]).
//!
//! The planner asks for it several times for each query: answers are kept until the planner run ends. What was read of
//! the index is kept longer, by [`key_counts`]. It is used for estimates only.

use crate::pg::custom::table::Table;
use crate::prune::facts::Facts;
use crate::prune::key_counts;
use pgrx::pg_sys::Oid;
use std::cell::RefCell;

/// The least part of the table that the index must have summarized.
const LEAST_SUMMARIZED: f64 = 0.9;

/// A table's column: its OID, its number, and the collation by which values are compared.
type Column = (Oid, i16, Oid);

thread_local! {
    /// The answers of this planner run, which are few.
    static KNOWN: RefCell<Vec<(Column, Option<f64>)>> = RefCell::default();
}

/// Forgets the answers of a planner run.
pub(super) fn forget() {
    KNOWN.with_borrow_mut(Vec::clear);
}

/// The number of distinct values, without NULL, of a column that is compared under a collation. None if no index knows
/// it: it must have maps of whole values of the column, and of all rows.
pub fn distinct(table: &Table<'_>, attribute: i16, collation: Oid) -> Option<f64> {
    let column = (table.oid(), attribute, collation);
    let is_same = |known: &&(Column, Option<f64>)| known.0 == column;
    if let Some(known) = KNOWN.with_borrow(|known| known.iter().find(is_same).map(|known| known.1)) {
        return known;
    }
    // Nothing is borrowed here: reading may raise an error.
    let distinct = find(table, attribute, collation);
    KNOWN.with_borrow_mut(|known| known.push((column, distinct)));
    distinct
}

fn find(table: &Table<'_>, attribute: i16, collation: Oid) -> Option<f64> {
    table.indexes().iter().enumerate().find_map(|(number, index)| {
        let column = (0..index.columns()).find(|&column| index.attribute(column) == Some(attribute))?;
        let is_suitable = !index.is_partial()
            && index.has_whole_values(column)
            && index.has_equality_of_type(column, collation);
        is_suitable.then(|| of_index(table, number, column)).flatten()
    })
}

fn of_index(table: &Table<'_>, number: usize, column: u16) -> Option<f64> {
    let oid = table.indexes()[number].oid();
    let facts = match Facts::known(oid) {
        Some(facts) => facts,
        None => Facts::of(table.open_index(number)?).ok()?,
    };
    let parts = f64::from(facts.meta.parts_in(column, table.blocks()));
    if facts.meta.summarized_parts(column) < LEAST_SUMMARIZED * parts {
        return None;
    }
    let counts = match key_counts::remembered(oid, &facts, column) {
        Some(counts) => counts,
        None => key_counts::of_column(table.open_index(number)?, &facts, column)?,
    };
    counts.distinct()
}
