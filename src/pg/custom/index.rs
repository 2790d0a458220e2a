//! A skip index as the planner sees it.

use super::super::{catalog, datum, family, types};
use super::expr::Expr;
use crate::pg::clause::Strategy;
use crate::pg::key_kind::KeyKind;
use pgrx::pg_sys;
use std::marker::PhantomData;

/// A skip index that the planner may use for the table. If it is partial, the query implies its predicate.
#[derive(Clone, Copy)]
pub struct Index<'a> {
    info: *mut pg_sys::IndexOptInfo,
    planner: PhantomData<&'a ()>,
}

impl Index<'_> {
    /// # Safety
    /// `info` is an entry of the planner's list of a table's indexes, which lives for `'a`.
    pub(in crate::pg) unsafe fn new(info: *mut pg_sys::IndexOptInfo) -> Self {
        Self { info, planner: PhantomData }
    }

    pub(super) fn raw(&self) -> *mut pg_sys::IndexOptInfo {
        self.info
    }

    fn info(&self) -> &pg_sys::IndexOptInfo {
        // SAFETY: an entry of the planner's list, which lives for 'a, as long as the planner's state.
        unsafe { &*self.info }
    }

    /// Whether the index does not exist, and an extension only asks what a query with it would cost.
    pub fn is_hypothetical(&self) -> bool {
        self.info().hypothetical
    }

    pub fn oid(&self) -> pg_sys::Oid {
        self.info().indexoid
    }

    /// Number of key columns.
    pub fn columns(&self) -> u16 {
        u16::try_from(self.info().nkeycolumns).unwrap_or(0)
    }

    /// Blocks of the index.
    pub fn blocks(&self) -> f64 {
        f64::from(self.info().pages)
    }

    /// The number of the table's column that index column `column` (0-based) refers to; None for an expression.
    pub fn attribute(&self, column: u16) -> Option<i16> {
        // SAFETY: one entry for each column.
        let number = unsafe { *self.info().indexkeys.add(usize::from(column)) };
        i16::try_from(number).ok().filter(|&number| number > 0)
    }

    /// Whether any of the index's columns is boolean.
    pub fn has_boolean(&self) -> bool {
        (0..self.columns()).any(|column| self.is_boolean(column))
    }

    /// Whether the expression is index column `column` (0-based).
    pub fn is_column(&self, expr: Expr<'_>, column: u16) -> bool {
        // SAFETY: an Expr's node and the planner's entry for the index live as long as the planner's run.
        unsafe { pg_sys::match_index_to_operand(expr.raw(), column.into(), self.info) }
    }

    /// The collation of an index column.
    pub(super) fn collation(&self, column: u16) -> pg_sys::Oid {
        // SAFETY: one entry for each column.
        unsafe { *self.info().indexcollations.add(usize::from(column)) }
    }

    /// The input type of a column's operator class.
    pub fn input_type(&self, column: u16) -> pg_sys::Oid {
        // SAFETY: one entry for each column.
        unsafe { *self.info().opcintype.add(usize::from(column)) }
    }

    /// Whether the index column can be used for comparisons under a collation.
    pub fn has_collation(&self, column: u16, collation: pg_sys::Oid) -> bool {
        let own = self.collation(column);
        own == pg_sys::InvalidOid || own == collation
    }

    /// Whether the index column can be used for an operator with a strategy under a collation: under its own, or, if
    /// strings are hashed and compared by the server's own functions, under any by which the same strings are equal.
    pub fn compares_under(
        &self,
        column: u16,
        operator: pg_sys::Oid,
        strategy: Strategy,
        collation: pg_sys::Oid,
    ) -> bool {
        let own = self.collation(column);
        let is_string =
            || [pg_sys::TEXTOID, pg_sys::BPCHAROID, pg_sys::NAMEOID].contains(&self.input_type(column));
        // By all deterministic collations the same strings are equal.
        let is_deterministic =
            |collation| collation != pg_sys::InvalidOid && datum::is_deterministic(collation);
        self.has_collation(column, collation)
            || strategy == Strategy::Equal
                && catalog::is_built_in(operator)
                && is_string()
                && self.is_hashed_by_server(column)
                && is_deterministic(own)
                && is_deterministic(collation)
    }

    /// Whether the index column is boolean, so that a bare expression is a comparison.
    pub fn is_boolean(&self, column: u16) -> bool {
        self.input_type(column) == pg_sys::BOOLOID
    }

    /// The operator family of an index column.
    fn family(&self, column: u16) -> pg_sys::Oid {
        // SAFETY: one entry for each column.
        unsafe { *self.info().opfamily.add(usize::from(column)) }
    }

    /// What an operator asks of the column, and the type of its right side, if the operator is in the column's
    /// operator family, and never true for NULL.
    pub fn comparison(&self, column: u16, operator: pg_sys::Oid) -> Option<(Strategy, pg_sys::Oid)> {
        let member = family::member(operator, self.family(column))?;
        let strategy = Strategy::of_number(member.strategy)?;
        (!catalog::may_match_null(operator)).then_some((strategy, member.right))
    }

    /// Whether an operator is in the column's operator family.
    pub fn has_operator(&self, column: u16, operator: pg_sys::Oid) -> bool {
        catalog::is_in_family(operator, self.family(column))
    }

    /// What the keys of the column are.
    pub(super) fn kind(&self, column: u16) -> KeyKind {
        KeyKind::of_class(self.family(column), self.input_type(column))
    }

    /// Whether the index has only rows that satisfy its predicate.
    pub fn is_partial(&self) -> bool {
        !self.info().indpred.is_null()
    }

    /// Whether each value of the column is one key, so that equal values are equal keys and no others.
    pub fn has_whole_values(&self, column: u16) -> bool {
        self.kind(column) == KeyKind::Whole
    }

    /// Whether the keys of the column are parts of its values: their order among the rows, and their frequency, are not
    /// those of the values, of which the server has statistics. A prefix is in the order of the values.
    pub fn has_keys_within_values(&self, column: u16) -> bool {
        !matches!(self.kind(column), KeyKind::Whole | KeyKind::Prefix | KeyKind::Order)
    }

    /// Whether an operator asks for a part of the column's values.
    pub fn asks_for_part(&self, column: u16, strategy: Strategy) -> bool {
        // An equality is of the whole value, mostly of a column whose keys are whole values.
        !matches!(strategy, Strategy::Equal | Strategy::EqualIgnoreCase)
            && !matches!(self.kind(column), KeyKind::Whole | KeyKind::Order)
    }

    /// Whether the column's equality is that of its type under a collation: not if the operator class is a user's.
    pub fn has_equality_of_type(&self, column: u16, collation: pg_sys::Oid) -> bool {
        self.is_hashed_by_server(column) && self.collation(column) == collation
    }

    /// Whether a function of the server's own hashes values of the column.
    fn is_hashed_by_server(&self, column: u16) -> bool {
        let function = datum::hash_function_of(self.family(column), self.input_type(column));
        function.is_some_and(catalog::is_built_in)
    }

    /// Whether the keys of the column are the scalars of documents.
    pub fn has_paths(&self, column: u16) -> bool {
        self.kind(column) == KeyKind::Paths
    }

    /// Whether the keys of the column are the elements of arrays.
    pub fn has_elements(&self, column: u16) -> bool {
        self.kind(column) == KeyKind::Elements
    }

    /// Whether the keys of the column are parts of a text, or it has bounds: another column may rule out more.
    pub fn is_coarse(&self, column: u16) -> bool {
        let kind = self.kind(column);
        kind.cuts_text() || kind == KeyKind::Order
    }

    /// For `value operator ANY (array)`, where `array` is a column whose elements are keys: the strategy, and the type
    /// of the value. None if the operator is not an equality by which the elements are hashed.
    pub fn element_comparison(
        &self,
        column: u16,
        operator: pg_sys::Oid,
        array: Expr<'_>,
    ) -> Option<(Strategy, pg_sys::Oid)> {
        if !self.has_elements(column) {
            return None;
        }
        let element = types::base_type(types::element(types::base_type(array.type_of()))?);
        let (family, _) = types::hash_class(element)?;
        let (left, ..) = catalog::operator_types(operator)?;
        let left = if types::is_pseudo(left) { element } else { left };
        let is_served = catalog::is_in_family(operator, family) && !catalog::may_match_null(operator);
        is_served.then_some((Strategy::HasElement, left))
    }
}
