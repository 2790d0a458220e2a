//! Why a query cannot use an index that the session forces: the conditions that cannot be looked up, and the reason for
//! each.

use super::matching;
use crate::pg::clause::Match;
use crate::pg::custom::expr::{Comparison, Expr, ExprKind};
use crate::pg::custom::index::Index;
use crate::pg::custom::table::Table;
use pgrx::pg_sys::Oid;

/// The most conditions that the message names.
const MOST: usize = 5;

/// Why a condition cannot be looked up, and what would help.
struct Refusal {
    why: String,
    hint: Option<String>,
    /// Whether the condition is on a column of the index.
    is_on_index: bool,
}

impl Refusal {
    fn elsewhere(why: &str) -> Self {
        Self { why: why.into(), hint: None, is_on_index: false }
    }

    fn on_index(why: String, hint: Option<String>) -> Self {
        Self { why, hint, is_on_index: true }
    }
}

/// Detail and hint for an index that none of these conditions can use.
pub fn explain(table: &Table<'_>, index: Oid, exprs: &[Expr<'_>]) -> (String, String) {
    let hint = "RESET pg_skip.force_indexes, or compare a column of the index with =, IN or IS NULL.";
    if let Some(why) = table.why_unusable(index) {
        return (why.into(), "RESET pg_skip.force_indexes.".into());
    }
    let Some(number) = table.indexes().iter().position(|usable| usable.oid() == index) else {
        return (String::new(), hint.into());
    };
    let mut refusals: Vec<(Vec<String>, Refusal)> =
        exprs.iter().map(|&expr| (table.columns_of(expr), refusal(table, number, expr))).collect();
    if refusals.is_empty() {
        return (
            "The query has no condition on this table alone that may be checked before those of a security barrier.".into(),
            hint.into(),
        );
    }
    // Conditions on the index's columns come first: they are the most informative.
    refusals.sort_by_key(|(_, refusal)| !refusal.is_on_index);
    let hint = refusals.iter().find_map(|(_, refusal)| refusal.hint.clone()).unwrap_or_else(|| hint.into());
    let mut sentences: Vec<String> = refusals
        .iter()
        .take(MOST)
        .map(|(columns, refusal)| {
            let on: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
            let on = if on.is_empty() { "without columns".into() } else { format!("on {}", on.join(", ")) };
            format!("The condition {on} cannot be looked up: {}.", refusal.why)
        })
        .collect();
    if refusals.len() > MOST {
        sentences.push(format!("Further conditions that cannot be looked up: {}.", refusals.len() - MOST));
    }
    (sentences.join(" "), hint)
}

fn refusal(table: &Table<'_>, number: usize, expr: Expr<'_>) -> Refusal {
    let index = &table.indexes()[number];
    let tested = |arg| match column_of(index, arg) {
        Some(_) => Refusal::on_index("the index does not support this test".into(), None),
        None => not_a_column(table, index, arg),
    };
    match expr.kind() {
        ExprKind::Operator(c) => compared(table, index, &c, Match::Value),
        ExprKind::AnyOf(c) => compared(table, index, &c, Match::Array),
        ExprKind::Distinct(c) if column_of(index, c.left).or(column_of(index, c.right)).is_some() => {
            Refusal::on_index(
                "IS DISTINCT FROM excludes a value, and a filter cannot tell which ranges hold other values"
                    .into(),
                None,
            )
        }
        ExprKind::Not(arg) => match arg.kind() {
            ExprKind::Distinct(c) => compared(table, index, &c, Match::ValueOrNull),
            _ => not_a_column(table, index, arg),
        },
        ExprKind::Or(parts) => branch(table, number, &parts),
        ExprKind::And(parts) => match parts.first() {
            Some(&part) => refusal(table, number, part),
            None => Refusal::elsewhere("it is empty"),
        },
        ExprKind::IsNull(arg) | ExprKind::IsNotNull(arg) | ExprKind::Truth(arg, _) => tested(arg),
        ExprKind::Distinct(_) | ExprKind::Other => match table.column_inside(index, expr) {
            Some(_) => {
                Refusal::on_index("it is neither a comparison by equality nor a test for NULL".into(), None)
            }
            None => Refusal::elsewhere("it does not test a column of the index"),
        },
    }
}

/// For an OR, the reason of the first branch that no index serves. If every branch is served, other indexes serve them
/// all.
fn branch(table: &Table<'_>, number: usize, parts: &[Expr<'_>]) -> Refusal {
    let all: Vec<usize> = (0..table.indexes().len()).collect();
    let unserved = parts.iter().find(|&&part| !matching::can_serve(table, &all, part));
    let Some(&part) = unserved else {
        return Refusal::elsewhere("no branch of the OR tests a column of the index");
    };
    let inner = match part.kind() {
        // Nested conditions are not explained: one sentence is enough.
        ExprKind::Or(_) | ExprKind::And(_) => Refusal::elsewhere("it combines other conditions"),
        _ => refusal(table, number, part),
    };
    let on = table.columns_of(part).join("\", \"");
    Refusal { why: format!("in the OR branch on \"{on}\", {}", inner.why), ..inner }
}

fn compared(table: &Table<'_>, index: &Index<'_>, c: &Comparison<'_>, how: Match) -> Refusal {
    let straight = column_of(index, c.left).map(|column| (column, Some(c.operator), c.right));
    let turned = || {
        let column = column_of(index, c.right).filter(|_| how != Match::Array)?;
        Some((column, c.commutator(), c.left))
    };
    let Some((column, operator, other)) = straight.or_else(turned) else {
        return inside(table, index, c);
    };
    let name = table.index_column_name(index, column);
    let text = c.operator_text();
    if operator.and_then(|operator| index.comparison(column, operator)).is_none() {
        return if c.is_called_equal() {
            let hint = format!("Cast the value to the column's type, {}.", index.type_text(column));
            let why = format!("operator {text} is not in the operator family of index column \"{name}\"");
            Refusal::on_index(why, Some(hint))
        } else {
            Refusal::on_index(format!("operator {text} is not an equality operator"), None)
        };
    }
    if !index.has_collation(column, c.collation) {
        let (own, asked) = (index.collation_text(column), c.collation_text());
        let why =
            format!("it uses collation \"{asked}\", but index column \"{name}\" has collation \"{own}\"");
        return Refusal::on_index(
            why,
            Some(format!("Compare with COLLATE \"{own}\", or create an index with COLLATE \"{asked}\".")),
        );
    }
    if !table.is_key(other) {
        let why = format!(
            "the value that \"{name}\" is compared with is not the same for all rows: it contains a column of the table, a volatile function, or a subquery that depends on the row"
        );
        return Refusal::on_index(why, None);
    }
    Refusal::on_index("it is nested too deeply".into(), None)
}

/// The reason for a comparison of which neither side is a column of the index. One side may contain a column, perhaps
/// because the parser cast it to make the types fit.
fn inside(table: &Table<'_>, index: &Index<'_>, c: &Comparison<'_>) -> Refusal {
    let column = table.column_inside(index, c.left).or_else(|| table.column_inside(index, c.right));
    let Some(column) = column.filter(|_| c.is_called_equal()) else {
        return not_a_column(table, index, c.left);
    };
    let (name, text) = (table.index_column_name(index, column), c.operator_text());
    let why =
        format!("operator {text} compares an expression or a cast of \"{name}\", not the column itself");
    let hint = format!(
        "Compare the column itself with a value of its type, {}, or create an index on the expression.",
        index.type_text(column)
    );
    Refusal::on_index(why, Some(hint))
}

/// The reason for a comparison or test of something that is not a column of the index.
fn not_a_column(table: &Table<'_>, index: &Index<'_>, arg: Expr<'_>) -> Refusal {
    match table.column_inside(index, arg) {
        Some(column) => {
            let name = table.index_column_name(index, column);
            let why = format!("it tests an expression or a cast of \"{name}\", not the column itself");
            Refusal::on_index(
                why,
                Some("Compare the column itself, or create an index on the expression.".into()),
            )
        }
        None => Refusal::elsewhere("it does not test a column of the index"),
    }
}

fn column_of(index: &Index<'_>, arg: Expr<'_>) -> Option<u16> {
    (0..index.columns()).find(|&column| index.is_column(arg, column))
}
