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
//! planner run that is not within another, and has the text that skip_explain made, is that of the user's query. For
//! EXECUTE it is the one with the text of the prepared statement, not a copy of it.

use super::index_report::{self, BitmapPlace, ConditionRow, RowKind, Unsummarized};
use super::matching;
use crate::pg::custom::expr::Expr;
use crate::pg::custom::table::Table;
use crate::pg::plan_tree::BitmapColumn;
use crate::pg::result_rows::{ResultRows, result_columns};
use crate::pg::sql_text::Text;
use crate::pg::{boundary, explain_query, settings};
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use std::cell::RefCell;
use std::ffi::{CStr, CString};

/// What is reported while a query is planned.
#[derive(Default)]
struct Findings {
    /// The text that the server is given.
    text: CString,
    /// If that executes a prepared statement: the address of the statement's text, with which the server plans it.
    executed: Option<usize>,
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
                let address = text.map(|text| text.as_ptr().addr());
                report.is_of_text =
                    text == Some(&report.text) || report.executed.is_some() && report.executed == address;
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
    let executed = explain_query::replanned(&text);
    let findings = Findings { text: text.clone(), executed, ..Findings::default() };
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
        let another = concat!(
            "by the planner's estimates another plan costs less, ",
            "or other conditions leave little to rule out"
        );
        let (reason, hint) = match row.kind {
            _ if !settings::enable_scan() => {
                ("pg_skip.enable_scan is off", "SET pg_skip.enable_scan = on.".to_owned())
            }
            RowKind::Join => {
                (another, "To compare: SET enable_hashjoin = off; SET enable_mergejoin = off.".to_owned())
            }
            _ => (another, format!("To compare: SET pg_skip.force_indexes = '{}'.", row.index_name)),
        };
        (row.reason, row.hint) = (Some(reason.into()), Some(hint));
    }
    rows
}

/// The rows, each condition once: the planner may plan a table several times, for example for min() and max(). A
/// condition that joins two tables may be there in several forms, each made from the same equality.
fn merged(rows: Vec<ConditionRow>) -> Vec<ConditionRow> {
    let mut merged: Vec<ConditionRow> = Vec::new();
    for row in rows {
        let is_same = |other: &&mut ConditionRow| {
            (other.index, other.column, &other.condition) == (row.index, row.column, &row.condition)
        };
        match merged.iter_mut().find(is_same) {
            Some(other) if row.is_used => *other = ConditionRow { unsummarized: other.unsummarized, ..row },
            Some(_) => {}
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
        table.skip_indexes().into_iter().flat_map(|index| index_report::of_index(table, index)).collect();
    REPORT.with_borrow_mut(|report| {
        if let Some(report) = report {
            report.rows.extend(rows);
        }
    });
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
    let served = exprs.iter().zip(served).filter(|(_, served)| **served).map(|(&expr, _)| expr);
    for expr in served {
        let Some(condition) = matching::one(table, &order, expr) else { continue };
        for leaf in condition.leaves() {
            let is_its = |row: &ConditionRow| {
                (row.identity, row.index) == (expr.identity(), table.indexes()[leaf.index].oid())
            };
            if mark(is_its) {
                continue;
            }
            // Of an equality the server may have made another condition, with the sides swapped.
            let row = index_report::used(table, expr, leaf);
            let swapped = table.swapped_text(expr);
            let is_swapped = |other: &ConditionRow| {
                other.index == row.index && other.kind == RowKind::Join && other.condition == swapped
            };
            if swapped.is_none() || !mark(is_swapped) {
                add(row);
            }
        }
    }
}

/// Reports the order of the plan of a Skip Index Scan: that of a column of an index.
pub fn chosen_order(order: Option<(Oid, u16)>) {
    if let Some((index, column)) = order.filter(|_| is_wanted()) {
        mark(|row| row.kind == RowKind::Order && (row.index, row.column) == (index, Some(column)));
    }
}

/// Reports the columns of indexes that the plan's bitmap scans look up. Which conditions these are is told by the
/// tables and columns: of a column with conditions on the table alone, those that join it to others do not count.
pub fn planned(bitmaps: &[BitmapColumn]) {
    for BitmapColumn { index, column, alias, is_in_or } in bitmaps {
        let is_its = |row: &ConditionRow| {
            (row.index, row.column, &row.alias) == (*index, Some(*column), alias)
                && (row.place == BitmapPlace::Anywhere || row.place == BitmapPlace::InOr && *is_in_or)
        };
        let is_served = |row: &ConditionRow| row.reason.is_none() && is_its(row);
        let _is_found = mark(|row| row.kind == RowKind::Condition && is_served(row))
            || mark(|row| row.kind == RowKind::Join && is_served(row))
            || mark(|row| row.kind == RowKind::Or && is_its(row));
    }
}

/// Marks rows as used, except those of conditions that rule nothing out or cannot be looked up. A branch of an OR that
/// no skip index looks up, an index of another kind may. False if there are no such rows at all.
fn mark(is_used: impl Fn(&ConditionRow) -> bool) -> bool {
    REPORT.with_borrow_mut(|report| {
        let mut is_there = false;
        let rows = report.iter_mut().flat_map(|report| &mut report.rows);
        for row in rows.filter(|row| is_used(row)) {
            is_there = true;
            if row.kind == RowKind::Or {
                (row.reason, row.hint) = (None, None);
            }
            row.is_used = row.reason.is_none();
        }
        is_there
    })
}

fn add(row: ConditionRow) {
    REPORT.with_borrow_mut(|report| {
        if let Some(report) = report {
            report.rows.push(row);
        }
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
