//! What skip_explain says of one index of a table: a row for each condition on one of its columns, for those that join
//! the table to others too, and one for an order that its bounds have. [`super::report`] asks for the rows while the
//! query is planned, and finds out later which of them the plan uses.

use super::matching;
use super::ordered::OrderedPath;
use super::refusal::{self, Refusal};
use crate::hash::keys::ColumnKeys;
use crate::pages::peeked_meta::PeekedMeta;
use crate::pg::clause::{Match, Strategy};
use crate::pg::custom::describe::classes_with;
use crate::pg::custom::expr::{Expr, ExprKind, Leaf};
use crate::pg::custom::ordering::{NoOrder, WantedOrder};
use crate::pg::custom::table::Table;
use crate::prune::facts::Facts;
use crate::prune::{HashedClause, Test, hashed};
use pgrx::pg_sys::Oid;
use skip_scan::Condition;

/// A row of the report.
pub(super) struct ConditionRow {
    pub table: Oid,
    pub index: Oid,
    /// As SQL writes it.
    pub index_name: String,
    pub column: Option<u16>,
    pub column_name: Option<String>,
    pub condition: Option<String>,
    pub kind: RowKind,
    pub place: BitmapPlace,
    /// The name that the query has for the table.
    pub alias: String,
    /// The condition's [`Expr::identity`]; 0 if there is none.
    pub identity: usize,
    pub is_used: bool,
    pub reason: Option<String>,
    pub hint: Option<String>,
    /// What the index has not summarized, if that is a large part of the table.
    pub unsummarized: Option<Unsummarized>,
}

/// Where the conditions of a row may be in a plan that looks them up by bitmap scans.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BitmapPlace {
    /// The server makes no bitmap scan of them.
    Nowhere,
    /// In a scan.
    Anywhere,
    /// In scans whose bitmaps are united.
    InOr,
}

/// What a row is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    /// A condition on the table alone.
    Condition,
    /// An OR on the table alone with a branch that no skip index can look up; a bitmap scan can, with an index of
    /// another kind.
    Or,
    /// A condition that compares with values of other tables.
    Join,
    /// The first expression of ORDER BY.
    Order,
}

/// While several sessions insert, they leave this number of blocks at the end of the table without a summary.
const LEFT_BY_INSERTS: u32 = 64;

/// Block ranges that are not summarized, of all.
#[derive(Clone, Copy)]
pub(super) struct Unsummarized {
    pub ranges: u32,
    pub of: u32,
}

impl Unsummarized {
    /// None if they are less than a twentieth of the table, or so few blocks that inserts leave them.
    fn of(table: &Table<'_>, number: usize) -> Option<Self> {
        let PeekedMeta { watermark, pages_per_range, .. } =
            PeekedMeta::read(table.open_index(number)?).ok()?;
        let blocks = table.blocks();
        let left = blocks.saturating_sub(watermark.saturating_mul(pages_per_range));
        let of = blocks.div_ceil(pages_per_range);
        let is_much = left > (blocks / 20).max(LEFT_BY_INSERTS.max(pages_per_range));
        is_much.then(|| Self { ranges: of.saturating_sub(watermark), of })
    }
}

/// The rows of one index.
pub(super) fn of_index(table: &Table<'_>, index: Oid) -> Vec<ConditionRow> {
    if let Some(why) = table.why_unusable(index) {
        return vec![ConditionRow::without_condition(table, index, why)];
    }
    let Some(number) = table.indexes().iter().position(|usable| usable.oid() == index) else {
        return Vec::new();
    };
    let its = IndexReport { table, index, number };
    let mut rows = its.conditions();
    rows.extend(its.held_back());
    rows.extend(its.orders());
    let unsummarized = Unsummarized::of(table, number);
    rows.iter_mut().for_each(|row| row.unsummarized = unsummarized);
    if rows.is_empty() {
        let why = "no condition is on a column of the index";
        rows.push(ConditionRow::without_condition(table, index, why));
    }
    rows
}

impl ConditionRow {
    /// A row of an index that no condition is on.
    fn without_condition(table: &Table<'_>, index: Oid, why: &str) -> Self {
        Self {
            table: table.oid(),
            index,
            index_name: Table::quoted_name_of(index),
            column: None,
            column_name: None,
            condition: None,
            kind: RowKind::Condition,
            place: BitmapPlace::Anywhere,
            alias: table.alias(),
            identity: 0,
            is_used: false,
            reason: Some(why.into()),
            hint: None,
            unsummarized: None,
        }
    }
}

/// What is said of an index of a table, the one with this number.
struct IndexReport<'a, 't> {
    table: &'a Table<'t>,
    index: Oid,
    number: usize,
}

impl IndexReport<'_, '_> {
    fn row(
        &self,
        column: u16,
        condition: String,
        (reason, hint): (Option<String>, Option<String>),
    ) -> ConditionRow {
        let table = self.table;
        ConditionRow {
            column: Some(column),
            column_name: Some(table.index_column_name(&table.indexes()[self.number], column)),
            condition: Some(condition),
            reason,
            hint,
            ..ConditionRow::without_condition(table, self.index, "")
        }
    }

    fn condition(&self, expr: Expr<'_>, refusal: Option<Refusal>, column: u16) -> ConditionRow {
        let why = refusal.map_or((None, None), |refusal| (Some(refusal.why), refusal.hint));
        let row = self.row(column, self.table.condition_text(expr), why);
        ConditionRow { identity: expr.identity(), ..row }
    }

    /// Conditions that the planner may give to the index.
    fn conditions(&self) -> Vec<ConditionRow> {
        let own = self.table.quals().into_iter().map(|qual| (qual.expr, RowKind::Condition));
        let joins = self.table.join_exprs().into_iter().map(|expr| (expr, RowKind::Join));
        own.chain(joins).filter_map(|(expr, kind)| self.of_condition(expr, kind)).collect()
    }

    /// A condition that the index, alone or with others of the table, looks up or could look up.
    fn of_condition(&self, expr: Expr<'_>, kind: RowKind) -> Option<ConditionRow> {
        let of_index = |leaf: &&Leaf<'_>| leaf.index == self.number;
        let alone = matching::one(self.table, &[self.number], expr);
        let with_others = || {
            let all: Vec<usize> = (0..self.table.indexes().len()).collect();
            matching::one(self.table, &all, expr)
                .filter(|condition| condition.leaves().any(|leaf| of_index(&leaf)))
        };
        if let Some(condition) = alone.or_else(with_others) {
            let leaf = condition.leaves().find(of_index)?;
            let row = self.condition(expr, asks_nothing(self.table, &condition), leaf.column);
            return Some(ConditionRow { kind, place: place_of(&condition, leaf), ..row });
        }
        let refusal = refusal::refusal(self.table, self.number, expr);
        let is_or = matches!(expr.kind(), ExprKind::Or(_));
        let inside = || self.table.column_inside(&self.table.indexes()[self.number], expr).filter(|_| is_or);
        let column = refusal.column.or_else(inside)?;
        let kind = if is_or && kind == RowKind::Condition { RowKind::Or } else { kind };
        let place = if is_or { BitmapPlace::InOr } else { BitmapPlace::Nowhere };
        Some(ConditionRow { kind, place, ..self.condition(expr, Some(refusal), column) })
    }

    /// Conditions that must not be checked before others, which hide rows from the user.
    fn held_back(&self) -> impl Iterator<Item = ConditionRow> {
        let index = &self.table.indexes()[self.number];
        self.table.held_back().into_iter().filter_map(move |expr| {
            let column = self.table.column_inside(index, expr)?;
            let why = "a condition of a security barrier view or of row security is checked before it";
            let hint = "Use operators whose functions are leakproof.";
            let refusal = Refusal { why: why.into(), hint: Some(hint.into()), column: Some(column) };
            Some(self.condition(expr, Some(refusal), column))
        })
    }

    /// The order of the query, if the index has a column of it.
    fn orders(&self) -> impl Iterator<Item = ConditionRow> {
        let columns = self.table.indexes()[self.number].columns();
        (0..columns).filter_map(|column| {
            let (text, found) = self.table.sorted_by(self.number, column)?;
            let row = self.row(column, text, no_order(self.table, found).unzip());
            Some(ConditionRow { kind: RowKind::Order, place: BitmapPlace::Nowhere, ..row })
        })
    }
}

/// Why an index column does not give the order of the query, and what would help; None if it can.
fn no_order(table: &Table<'_>, found: Result<WantedOrder, NoOrder>) -> Option<(String, String)> {
    let with_bounds =
        |classes: String| format!("Add the column to a skip index with the operator class {classes}.");
    let (why, hint) = match found {
        Ok(order) if OrderedPath::of(table, order, None).is_some() => return None,
        Ok(_) => (
            "the index was made by a version that makes keys of the column differently, or is damaged",
            "REINDEX the index.".into(),
        ),
        Err(NoOrder::HasNoBounds(operator)) => (
            "the index keeps no bounds of the column",
            classes_with(operator).map_or_else(|| "A btree has the order.".into(), with_bounds),
        ),
        Err(NoOrder::IsOther) => (
            "the query sorts by another collation or another operator than the index's bounds",
            "Sort as the column's default btree operator class does, by the collation of the index column."
                .into(),
        ),
        Err(NoOrder::IsOfLabels) => (
            "the bounds of an enum do not tell the place of labels that were put between others",
            "A btree has the order.".into(),
        ),
        Err(NoOrder::LeavesRowsOut) => (
            "the index is partial, and the query's conditions on the table alone do not imply its predicate",
            "Add the predicate of the index to the query.".into(),
        ),
    };
    Some((why.to_owned(), hint))
}

/// Why an index would look nothing up for a condition that it serves, if that is known now.
fn asks_nothing(table: &Table<'_>, condition: &Condition<Leaf<'_>>) -> Option<Refusal> {
    let mut found = None;
    let rules_out = condition.try_map(&mut |leaf| {
        if matches!(leaf.how, Match::IsNull | Match::IsNotNull) {
            return Some(());
        }
        let Some(index) = table.open_index(leaf.index) else { return Some(()) };
        // The executor will report damage.
        let Ok(facts) = Facts::of(index) else { return Some(()) };
        let Some(key) = table.known_key(leaf) else { return Some(()) };
        let condition = hashed::one(index, &facts.meta, &key);
        let looks_up = |clause: &HashedClause| (clause.test != Test::IsNotNull).then_some(());
        if condition.is_some_and(|condition| condition.try_map(&mut |clause| looks_up(clause)).is_some()) {
            return Some(());
        }
        let keys = ColumnKeys::of_index(index, &facts.meta, usize::from(leaf.column));
        let (why, hint) = keys.map_or_else(
            || {
                let why = "the index was made by a version that hashes the column differently";
                (why.to_owned(), "REINDEX the index.".to_owned())
            },
            |keys| keys.why_nothing(leaf.strategy),
        );
        found = Some(Refusal { why, hint: Some(hint), column: Some(leaf.column) });
        None
    });
    found.filter(|_| rules_out.is_none())
}

/// Where a condition may be, one of whose tests this is. The access method gets tests of its operators and
/// for NULL; comparisons of rows, and of parts of documents, only the Skip Index Scan looks up.
fn place_of(condition: &Condition<Leaf<'_>>, one: &Leaf<'_>) -> BitmapPlace {
    let is_of_method = |leaf: &Leaf<'_>| match leaf.key.condition.kind() {
        ExprKind::Rows(_) => false,
        ExprKind::IsNotNull(_) => leaf.key.key.is_none(),
        _ => leaf.strategy as i16 <= Strategy::MOST,
    };
    if !condition.leaves().all(is_of_method) {
        return BitmapPlace::Nowhere;
    }
    let is_of_columns = condition.leaves().any(|leaf| (leaf.index, leaf.column) != (one.index, one.column));
    if is_of_columns && matches!(condition, Condition::Or(_)) {
        BitmapPlace::InOr
    } else {
        BitmapPlace::Anywhere
    }
}

/// The row of a condition that the plan looks up in an index of the table.
pub(super) fn used(table: &Table<'_>, expr: Expr<'_>, leaf: &Leaf<'_>) -> ConditionRow {
    let its = IndexReport { table, index: table.indexes()[leaf.index].oid(), number: leaf.index };
    ConditionRow { is_used: true, ..its.condition(expr, None, leaf.column) }
}
