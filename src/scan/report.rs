//! skip_explain: for each condition of a query on a column of a skip index, whether the plan looks it up in the index,
//! and if not, why, and what would help. The first expression of ORDER BY counts as one if it is such a column.
//!
//! The query is planned as by EXPLAIN. Meanwhile the planner's hooks report here:
//!
//! | step | what it adds |
//! |---|---|
//! | paths are made for a table ([`table`]) | a row for each skip index of the table and each condition on one of its columns |
//! | a Skip Index Scan is planned ([`chosen`], [`chosen_order`]) | its conditions are used, and its order |
//! | the query has its plan ([`planned`]) | those of the indexes in its bitmap scans are used |
//!
//! Other queries may be planned meanwhile: those of functions that are evaluated for an estimate, for a parameter of
//! EXECUTE, or to leave out partitions. They are not reported, since the user may have no right to know them. Only a
//! planner run that is not within another, and has the text that skip_explain made, is that of the user's query.

use super::matching;
use super::ordered::OrderedPath;
use super::refusal::{self, Refusal};
use crate::hash::keys::ColumnKeys;
use crate::pages::peeked_meta::PeekedMeta;
use crate::pg::clause::Match;
use crate::pg::custom::describe::classes_with;
use crate::pg::custom::expr::{Expr, Leaf};
use crate::pg::custom::ordering::{NoOrder, WantedOrder};
use crate::pg::custom::table::Table;
use crate::pg::result_rows::{ResultRows, result_columns};
use crate::pg::sql_text::Text;
use crate::pg::{boundary, explain_query, settings};
use crate::prune::facts::Facts;
use crate::prune::{HashedClause, Test, hashed};
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use skip_scan::Condition;
use std::cell::RefCell;
use std::ffi::{CStr, CString};

/// A row of the report.
struct ConditionRow {
    table: Oid,
    index: Oid,
    /// As SQL writes it.
    index_name: String,
    column: Option<u16>,
    column_name: Option<String>,
    condition: Option<String>,
    /// Whether it is an order.
    is_order: bool,
    /// The condition's [`Expr::identity`]; 0 if there is none.
    identity: usize,
    is_used: bool,
    reason: Option<String>,
    hint: Option<String>,
    /// What the index has not summarized, if that is a large part of the table.
    unsummarized: Option<Unsummarized>,
}

/// While several sessions insert, they leave this number of blocks at the end of the table without a summary.
const LEFT_BY_INSERTS: u32 = 64;

/// Block ranges that are not summarized, of all.
#[derive(Clone, Copy)]
struct Unsummarized {
    ranges: u32,
    of: u32,
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

/// What is reported while a query is planned.
#[derive(Default)]
struct Findings {
    /// The text that the server is given.
    text: CString,
    /// Number of planner runs that have begun and not ended.
    runs: u32,
    /// Whether the outermost of them has this text.
    is_of_text: bool,
    rows: Vec<ConditionRow>,
}

thread_local! {
    static REPORT: RefCell<Option<Findings>> = const { RefCell::new(None) };
}

/// A planner run.
pub struct PlannerRun;

impl PlannerRun {
    pub fn begin(text: Option<&CStr>) -> Self {
        REPORT.with_borrow_mut(|report| {
            let Some(report) = report else { return };
            if report.runs == 0 {
                report.is_of_text = text == Some(&report.text);
            }
            report.runs += 1;
        });
        Self
    }
}

impl Drop for PlannerRun {
    fn drop(&mut self) {
        let end = |report: &mut Findings| report.runs = report.runs.saturating_sub(1);
        REPORT.with_borrow_mut(|report| report.iter_mut().for_each(end));
    }
}

/// Whether the present planner run is that of a query of skip_explain.
pub fn is_wanted() -> bool {
    REPORT.with_borrow(|report| report.as_ref().is_some_and(|report| report.runs == 1 && report.is_of_text))
}

/// The report that was under way before; it goes on when the new one has ended, also by an error.
struct Suspended(Option<Findings>);

impl Drop for Suspended {
    fn drop(&mut self) {
        REPORT.set(self.0.take());
    }
}

/// The conditions of a query, whose text is in the database's encoding.
fn report(query: &[u8]) -> Vec<ConditionRow> {
    let text = explain_query::text(query);
    let findings = Findings { text: text.clone(), ..Findings::default() };
    let _outer = Suspended(REPORT.replace(Some(findings)));
    explain_query::plan_only(&text);
    let mut rows = merged(REPORT.with_borrow_mut(Option::take).unwrap_or_default().rows);
    for row in rows.iter_mut().filter(|row| row.is_used) {
        let Some(Unsummarized { ranges, of }) = row.unsummarized else { continue };
        row.reason = Some(format!(
            "the query also reads all of the {ranges} of {of} block ranges that are not summarized"
        ));
        let index = row.index_name.replace('\'', "''");
        row.hint = Some(format!("VACUUM the table, or SELECT skip_summarize('{index}')."));
    }
    for row in rows.iter_mut().filter(|row| !row.is_used && row.reason.is_none()) {
        let (reason, hint) = if settings::enable_scan() {
            (
                "by the planner's estimates another plan costs less, or other conditions leave little to rule out",
                format!("To compare: SET pg_skip.force_indexes = '{}'.", row.index_name),
            )
        } else {
            ("pg_skip.enable_scan is off", "SET pg_skip.enable_scan = on.".to_owned())
        };
        (row.reason, row.hint) = (Some(reason.into()), Some(hint));
    }
    rows
}

/// The rows, each condition once: the planner may plan a table several times, for example for min() and max().
fn merged(rows: Vec<ConditionRow>) -> Vec<ConditionRow> {
    let mut merged: Vec<ConditionRow> = Vec::new();
    for row in rows {
        let is_same = |other: &&mut ConditionRow| {
            (other.index, other.column, &other.condition) == (row.index, row.column, &row.condition)
        };
        match merged.iter_mut().find(is_same) {
            Some(other) => other.is_used |= row.is_used,
            None => merged.push(row),
        }
    }
    merged
}

/// Reports the conditions of a table's skip indexes.
pub fn table(table: &Table<'_>) {
    if !is_wanted() {
        return;
    }
    let rows: Vec<ConditionRow> =
        table.skip_indexes().into_iter().flat_map(|index| of_index(table, index)).collect();
    REPORT.with_borrow_mut(|report| {
        if let Some(report) = report {
            report.rows.extend(rows);
        }
    });
}

/// The rows of one index.
fn of_index(table: &Table<'_>, index: Oid) -> Vec<ConditionRow> {
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
        let why = "no condition on the table alone is on a column of the index";
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
            is_order: false,
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
        let of_qual = |expr: Expr<'_>| {
            let Some(condition) = matching::one(self.table, &[self.number], expr) else {
                let refusal = refusal::refusal(self.table, self.number, expr);
                let column = refusal.column?;
                return Some(self.condition(expr, Some(refusal), column));
            };
            let column = condition.leaves().next()?.column;
            Some(self.condition(expr, asks_nothing(self.table, &condition), column))
        };
        self.table.quals().into_iter().filter_map(|qual| of_qual(qual.expr)).collect()
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
            Some(ConditionRow { is_order: true, ..row })
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

/// Reports the conditions that the plan of a Skip Index Scan looks up.
pub fn chosen<'a>(
    table: &Table<'a>,
    order: impl FnOnce() -> Vec<usize>,
    exprs: &[Expr<'a>],
    served: &[bool],
) {
    if !is_wanted() {
        return;
    }
    let order = order();
    let used: Vec<(usize, Oid)> = exprs
        .iter()
        .zip(served)
        .filter(|(_, served)| **served)
        .filter_map(|(&expr, _)| Some((expr, matching::one(table, &order, expr)?)))
        .flat_map(|(expr, condition)| {
            let index = |leaf: &Leaf<'a>| (expr.identity(), table.indexes()[leaf.index].oid());
            condition.leaves().map(index).collect::<Vec<_>>()
        })
        .collect();
    mark(|row| used.contains(&(row.identity, row.index)));
}

/// Reports the order of the plan of a Skip Index Scan: that of a column of an index.
pub fn chosen_order(order: Option<(Oid, u16)>) {
    if let Some((index, column)) = order.filter(|_| is_wanted()) {
        mark(|row| row.is_order && (row.index, row.column) == (index, Some(column)));
    }
}

/// Reports the columns of indexes that the plan's bitmap scans look up.
pub fn planned(bitmaps: &[(Oid, u16)]) {
    let is_read =
        |row: &ConditionRow| row.column.is_some_and(|column| bitmaps.contains(&(row.index, column)));
    mark(|row| !row.is_order && is_read(row));
}

/// Marks rows as used, except those of conditions that rule nothing out or cannot be looked up.
fn mark(is_used: impl Fn(&ConditionRow) -> bool) {
    REPORT.with_borrow_mut(|report| {
        let rows = report.iter_mut().flat_map(|report| &mut report.rows);
        rows.filter(|row| row.reason.is_none() && is_used(row)).for_each(|row| row.is_used = true);
    });
}

/// A sentence of a reason.
fn sentence(reason: &str) -> Text {
    let mut letters = reason.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    // The name of a setting stays as it is.
    let whole = if reason.starts_with("pg_skip.") { reason.to_owned() } else { first + letters.as_str() };
    let end = if reason.ends_with('.') { "" } else { "." };
    Text(whole + end)
}

result_columns! {
    /// Columns of `skip_explain`.
    ConditionColumns {
        table: Oid,
        index: Oid,
        column_name: Option<Text>,
        condition: Option<Text>,
        used: bool,
        reason: Option<Text>,
        hint: Option<Text>,
    }
}

/// One row for each skip index of the query's tables and each condition on one of its columns.
#[pg_extern(sql = false)]
fn skip_explain(query: &[u8]) -> ResultRows<ConditionColumns> {
    boundary::callback(|| {
        let row = |row: ConditionRow| {
            let reason = row.reason.as_deref().map(sentence);
            let (column, condition) = (row.column_name.map(Text), row.condition.map(Text));
            (row.table, row.index, column, condition, row.is_used, reason, row.hint.map(Text))
        };
        ResultRows::new(report(query).into_iter().map(row).collect::<Vec<_>>())
    })
}
