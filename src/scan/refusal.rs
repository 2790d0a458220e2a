//! Why a condition cannot be looked up in an index, and what would help. The error for an index that the session
//! forces says it ([`explain`]), and skip_explain ([`super::report`]).

use super::matching;
use crate::pg::clause::Match;
use crate::pg::custom::expr::{Comparison, Expr, ExprKind};
use crate::pg::custom::index::Index;
use crate::pg::custom::table::Table;
use pgrx::pg_sys::Oid;

/// The most conditions that the message names.
const MOST: usize = 5;

/// Why a condition cannot be looked up, and what would help.
pub struct Refusal {
    pub why: String,
    pub hint: Option<String>,
    /// The column of the index that the condition is on.
    pub column: Option<u16>,
}

impl Refusal {
    fn elsewhere(why: &str) -> Self {
        Self { why: why.into(), hint: None, column: None }
    }

    fn on_index(column: u16, why: String, hint: Option<String>) -> Self {
        Self { why, hint, column: Some(column) }
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
    refusals.sort_by_key(|(_, refusal)| refusal.column.is_none());
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

/// Why a condition cannot be looked up in one of the table's indexes, which does not serve it.
pub fn refusal(table: &Table<'_>, number: usize, expr: Expr<'_>) -> Refusal {
    let index = &table.indexes()[number];
    let tested = |arg| match column_of(index, arg) {
        Some(column) => Refusal::on_index(column, "the index does not support this test".into(), None),
        None => not_a_column(table, index, arg),
    };
    match expr.kind() {
        ExprKind::Operator(c) | ExprKind::Rows(c) => compared(table, index, &c, Match::Value),
        ExprKind::AnyOf(c) => compared(table, index, &c, Match::Array),
        ExprKind::Distinct(c) => match column_of(index, c.left).or(column_of(index, c.right)) {
            Some(column) => Refusal::on_index(
                column,
                "IS DISTINCT FROM excludes a value, and a filter cannot tell which ranges hold other values"
                    .into(),
                None,
            ),
            None => other(table, index, expr),
        },
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
        ExprKind::Other => other(table, index, expr),
    }
}

fn other(table: &Table<'_>, index: &Index<'_>, expr: Expr<'_>) -> Refusal {
    match table.column_inside(index, expr) {
        Some(column) => {
            let why = "it is neither a comparison by equality nor a test for NULL";
            Refusal::on_index(column, why.into(), None)
        }
        None => Refusal::elsewhere("it does not test a column of the index"),
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
        _ => {
            let of_index =
                |&number: &usize| Some(refusal(table, number, part)).filter(|r| r.column.is_some());
            let own = of_index(&number);
            let of_others = || {
                let other = all.iter().find_map(of_index)?;
                Some(Refusal { column: None, ..other })
            };
            own.or_else(of_others).unwrap_or_else(|| Refusal {
                why: "no skip index has the column, and each branch of an OR needs an index".into(),
                hint: Some("Add the column to a skip index.".into()),
                column: None,
            })
        }
    };
    let on = table.columns_of(part).join("\", \"");
    if on.is_empty() {
        return Refusal::elsewhere("a branch of the OR does not test the table");
    }
    Refusal { why: format!("in the OR branch on \"{on}\", {}", inner.why), ..inner }
}

fn compared(table: &Table<'_>, index: &Index<'_>, c: &Comparison<'_>, how: Match) -> Refusal {
    if how == Match::Array
        && let Some(column) = column_of(index, c.right.without_relabels())
    {
        return elements(table, index, column, c);
    }
    let straight = column_of(index, c.left).map(|column| (column, Some(c.operator), c.right));
    let turned = || {
        let column = column_of(index, c.right).filter(|_| how != Match::Array)?;
        Some((column, c.commutator(), c.left))
    };
    let Some((column, operator, other)) = straight.or_else(turned) else {
        return inside(table, index, c, how);
    };
    let name = table.index_column_name(index, column);
    let served = operator.and_then(|operator| Some((operator, index.comparison(column, operator)?.0)));
    let Some((of_column, strategy)) = served else {
        return other_operator(table, index, column, c, operator);
    };
    if !index.compares_under(column, of_column, strategy, c.collation) {
        let (own, wanted) = (index.collation_text(column), c.collation_text());
        let why =
            format!("it uses collation \"{wanted}\", but index column \"{name}\" has collation \"{own}\"");
        let hint = format!("Compare with COLLATE \"{own}\", or create an index with COLLATE \"{wanted}\".");
        return Refusal::on_index(column, why, Some(hint));
    }
    if !table.is_key(other) {
        let why = format!(
            "the value that \"{name}\" is compared with is not the same for all rows: it contains a column of the table, a volatile function, or a subquery that depends on the row"
        );
        return Refusal::on_index(column, why, None);
    }
    Refusal::on_index(column, "it is nested too deeply".into(), None)
}

/// The reason for an operator that the class of the column does not have; `with_column_left` is the operator with the
/// column on its left.
fn other_operator(
    table: &Table<'_>,
    index: &Index<'_>,
    column: u16,
    c: &Comparison<'_>,
    with_column_left: Option<Oid>,
) -> Refusal {
    let (name, text) = (table.index_column_name(index, column), c.operator_text());
    let straight = Comparison { operator: with_column_left.unwrap_or(c.operator), ..*c };
    let (why, hint) = if index.has_operator(column, straight.operator) {
        let why = format!("operator {text} may be true for NULL: its function is not declared STRICT");
        (why, Some("If the function is never true for NULL, declare it STRICT.".into()))
    } else if let Some(classes) = straight.classes_text() {
        let why = format!("operator {text} is not in the operator class of index column \"{name}\"");
        (why, Some(format!("Create an index with an operator class that has it: {classes}.")))
    } else if c.is_called_equal() {
        let why = format!("operator {text} is not in the operator family of index column \"{name}\"");
        (why, Some(format!("Cast the value to the column's type, {}.", index.type_text(column))))
    } else {
        let why = format!(
            "operator {text} is not an equality operator, and no operator class of the access method skip has it"
        );
        (why, None)
    };
    Refusal::on_index(column, why, hint)
}

/// The reason for `value = ANY (column)`.
fn elements(table: &Table<'_>, index: &Index<'_>, column: u16, c: &Comparison<'_>) -> Refusal {
    let (name, text) = (table.index_column_name(index, column), c.operator_text());
    if index.has_elements(column) {
        let why = format!(
            "operator {text} is not the equality by which the elements of \"{name}\" are hashed, or the collations differ, or the value is not the same for all rows"
        );
        return Refusal::on_index(column, why, None);
    }
    let why = format!("it asks for an element of \"{name}\", and the index knows whole arrays");
    let hint = "Create an index with the operator class array_element_skip_ops.";
    Refusal::on_index(column, why, Some(hint.into()))
}

/// The reason for a comparison of which neither side is a column of the index. One side may contain a column, perhaps
/// because the parser cast it to make the types fit.
fn inside(table: &Table<'_>, index: &Index<'_>, c: &Comparison<'_>, how: Match) -> Refusal {
    if let Some(refusal) = part(table, index, c) {
        return refusal;
    }
    let of = |side: Expr<'_>| table.column_inside(index, side).map(|column| (column, side.implicit_cast()));
    let right = || of(c.right).filter(|_| how != Match::Array);
    let Some((column, cast)) = of(c.left).or_else(right) else {
        return not_a_column(table, index, c.left);
    };
    let (name, text) = (table.index_column_name(index, column), c.operator_text());
    let own = index.type_text(column);
    let compared =
        format!("operator {text} compares an expression or a cast of \"{name}\", not the column itself");
    let (why, hint) = match cast.filter(|_| c.is_called_equal()) {
        Some(cast) => (
            format!("{compared}: the server casts \"{name}\" to {cast} because of the type of the value"),
            format!("Compare the column itself with a value of its type, {own}: cast the value."),
        ),
        None if c.is_called_equal() => (
            compared,
            format!(
                "Compare the column itself with a value of its type, {own}, or create an index on the expression."
            ),
        ),
        None => return not_a_column(table, index, if of(c.left).is_some() { c.left } else { c.right }),
    };
    Refusal::on_index(column, why, Some(hint))
}

/// The reason for a comparison of a part of a document whose column the index has; None for others.
fn part(table: &Table<'_>, index: &Index<'_>, c: &Comparison<'_>) -> Option<Refusal> {
    let part = c.of_part().or_else(|| c.turned()?.of_part())?;
    let column = part.documents.iter().find_map(|&(document, _)| column_of(index, document))?;
    let name = table.index_column_name(index, column);
    if index.has_paths(column) {
        let why = format!(
            "the path within \"{name}\" may lead to too many places, or the value is not the same for all rows"
        );
        return Some(Refusal::on_index(column, why, None));
    }
    let why = format!("it asks for a part of \"{name}\", and the index knows whole documents");
    let hint = "Create an index with the operator class jsonb_path_skip_ops.";
    Some(Refusal::on_index(column, why, Some(hint.into())))
}

/// The reason for a comparison or test of something that is not a column of the index.
fn not_a_column(table: &Table<'_>, index: &Index<'_>, arg: Expr<'_>) -> Refusal {
    match table.column_inside(index, arg) {
        Some(column) => {
            let name = table.index_column_name(index, column);
            let why = format!("it tests an expression or a cast of \"{name}\", not the column itself");
            Refusal::on_index(
                column,
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
