//! Descriptions of conditions for messages: their columns and their operators.

use super::expr::{Comparison, Expr};
use super::index::Index;
use super::table::Table;
use crate::pg::text::of_server;
use crate::pg::{OpenRel, catalog, lock, server};
use pgrx::pg_sys;

impl Table<'_> {
    /// Names of the table's columns in an expression, in order.
    pub fn columns_of(&self, expr: Expr<'_>) -> Vec<String> {
        let table = self.oid();
        let name = |number: i16| {
            // SAFETY: a catalog lookup that returns NULL for a missing column.
            unsafe { of_server(pg_sys::get_attname(table, number, true)) }
        };
        self.attributes_of(expr).into_iter().map(name).collect()
    }

    fn attributes_of(&self, expr: Expr<'_>) -> Vec<i16> {
        let mut found = Vec::new();
        // SAFETY: a valid expression. The members of the set are attribute numbers plus an offset, so that none is
        // negative.
        unsafe {
            let mut set = std::ptr::null_mut();
            pg_sys::pull_varattnos(expr.raw(), self.rel().relid, &mut set);
            let mut member = -1;
            loop {
                member = pg_sys::bms_next_member(set, member);
                if member < 0 {
                    return found;
                }
                found.push((member + pg_sys::FirstLowInvalidHeapAttributeNumber) as i16);
            }
        }
    }

    /// The index column that an expression contains.
    pub fn column_inside(&self, index: &Index<'_>, expr: Expr<'_>) -> Option<u16> {
        let inside = self.attributes_of(expr);
        (0..index.columns()).find(|&c| index.attribute(c).is_some_and(|number| inside.contains(&number)))
    }

    /// The name of an index column, for messages.
    pub fn index_column_name(&self, index: &Index<'_>, column: u16) -> String {
        OpenRel::index(index.oid(), lock::Mode::None).rel().column_name(usize::from(column))
    }

    /// The reason why the planner may not use an index of the table; None if it may.
    pub fn why_unusable(&self, index: pg_sys::Oid) -> Option<&'static str> {
        if self.indexes().iter().any(|usable| usable.oid() == index) {
            return None;
        }
        // SAFETY: an index of the table, which is locked; it is closed again below.
        unsafe {
            let guard = OpenRel::index(index, lock::Mode::AccessShare);
            let open = guard.rel();
            if catalog::access_method_oid("skip") != Some((*(*open.raw()).rd_rel).relam) {
                return Some("The index is not a skip index.");
            }
            if !open.is_valid_index() {
                return Some(
                    "The index is not valid: CREATE INDEX CONCURRENTLY has not finished, or has failed.",
                );
            }
            if !server::RelationGetIndexPredicate(open.raw()).is_null() {
                return Some("The index is partial, and the query's conditions do not imply its predicate.");
            }
        }
        Some(
            "pg_skip.ignore_indexes also names the index, or the index is newer than the transaction's snapshot.",
        )
    }
}

impl Comparison<'_> {
    /// The operator with its types, in the format of regoperator.
    pub fn operator_text(&self) -> String {
        // SAFETY: a catalog lookup; a palloc'd string.
        unsafe { of_server(pg_sys::format_operator(self.operator)) }
    }

    /// Whether the operator's name is `=`.
    pub fn is_called_equal(&self) -> bool {
        // SAFETY: a catalog lookup; NULL or a palloc'd string.
        unsafe { of_server(pg_sys::get_opname(self.operator)) == "=" }
    }

    /// The collation's name.
    pub fn collation_text(&self) -> String {
        collation_text(self.collation)
    }
}

impl Index<'_> {
    /// The name of a column's collation.
    pub fn collation_text(&self, column: u16) -> String {
        collation_text(self.collation(column))
    }

    /// The name of a column's type, for a cast.
    pub fn type_text(&self, column: u16) -> String {
        // SAFETY: a catalog lookup; a palloc'd string.
        unsafe { of_server(pg_sys::format_type_be(self.input_type(column))) }
    }
}

fn collation_text(collation: pg_sys::Oid) -> String {
    // SAFETY: a catalog lookup; NULL or a palloc'd string.
    unsafe { of_server(pg_sys::get_collation_name(collation)) }
}
