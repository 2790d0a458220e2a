//! Conditions of a query become a condition that can be looked up in indexes.

use crate::pg::clause::{Match, Strategy};
use crate::pg::custom::document::PartComparison;
use crate::pg::custom::expr::{Comparison, Expr, ExprKind, Leaf, Source};
use crate::pg::custom::index::Index;
use crate::pg::custom::table::Table;
use pgrx::pg_sys::Oid;
use skip_jsonb::path;
use skip_scan::{Condition, MOST_LEVELS};

/// The most columns that one expression is looked up in.
const MOST_COLUMNS: usize = 4;

/// What an expression asks of an index column, and the type of the key; None if the column cannot answer it.
type Asks<'f> = dyn Fn(&Index<'_>, u16) -> Option<(Strategy, Oid)> + 'f;

/// Whether any index can look up an expression.
pub fn can_serve(table: &Table<'_>, order: &[usize], expr: Expr<'_>) -> bool {
    one(table, order, expr).is_some()
}

/// The condition by one of the columns that can look an expression up, preferred ones first. Columns of text that is
/// cut differ in what they make of a pattern, which may be known only when the query runs: so all of them are asked,
/// and those with bounds, unless another column looks up whole values.
fn chosen<'a>(columns: impl Iterator<Item = (Index<'a>, Leaf<'a>)>) -> Option<Condition<Leaf<'a>>> {
    let mut coarse = Vec::new();
    for (index, leaf) in columns {
        if leaf.key.key.is_none() || !index.is_coarse(leaf.column) {
            return Some(Condition::Leaf(leaf));
        }
        coarse.push(Condition::Leaf(leaf));
    }
    coarse.truncate(MOST_COLUMNS);
    Condition::all(coarse)
}

/// The condition that indexes can look up for an expression; None if there is none. `order` has the numbers of the
/// table's indexes, preferred ones first.
pub fn one<'a>(table: &Table<'a>, order: &[usize], expr: Expr<'a>) -> Option<Condition<Leaf<'a>>> {
    at_level(table, order, expr, 0)
}

/// As [`one`], for an expression at `level` of nested ANDs and ORs. An expression that is nested more than
/// [`MOST_LEVELS`] deep cannot be looked up.
fn at_level<'a>(
    table: &Table<'a>,
    order: &[usize],
    expr: Expr<'a>,
    level: usize,
) -> Option<Condition<Leaf<'a>>> {
    let inner = |part| if level < MOST_LEVELS { at_level(table, order, part, level + 1) } else { None };
    let find = |arg: Expr<'a>, asks: &Asks<'_>, how, key| {
        let indexes = order.iter().flat_map(|&number| {
            let index = table.indexes()[number];
            (0..index.columns()).map(move |column| (number, index, column))
        });
        let columns = indexes.into_iter().filter_map(|(index, info, column)| {
            let (strategy, key_type) =
                if info.is_column(arg, column) { asks(&info, column)? } else { return None };
            let key = Source { key, condition: expr };
            Some((info, Leaf { index, column, key_type, strategy, path: 0, how, key }))
        });
        chosen(columns)
    };
    let compare = |c: Comparison<'a>, how| {
        let asks = |operator| {
            move |info: &Index<'_>, column| {
                let asked = info.comparison(column, operator);
                asked.filter(|&(strategy, _)| info.compares_under(column, operator, strategy, c.collation))
            }
        };
        // It costs more to find out whether the other side is a key, and most comparisons fail before that is needed.
        let straight = find(c.left, &asks(c.operator), how, Some(c.right));
        straight.filter(|_| table.is_key(c.right)).or_else(|| {
            if !table.may_be_column(c.right) {
                return None;
            }
            let turned = if how == Match::Array {
                // A list of keys can only be on the right. So the column itself is the array.
                let array = c.right.without_relabels();
                let has_element = |info: &Index<'_>, column| {
                    let fits = info.has_collation(column, c.collation);
                    if fits { info.element_comparison(column, c.operator, array) } else { None }
                };
                find(array, &has_element, Match::Value, Some(c.left))
            } else {
                find(c.right, &asks(c.commutator()?), how, Some(c.left))
            };
            turned.filter(|_| table.is_key(c.left))
        })
    };
    let any_type = |_: &Index<'_>, _| Some((Strategy::Equal, Oid::INVALID));
    let is_bool = |info: &Index<'_>, column| {
        let equal = Oid::from(pgrx::pg_sys::BooleanEqualOperator);
        info.comparison(column, equal).filter(|_| info.is_boolean(column))
    };
    let has_bool = || order.iter().any(|&number| table.indexes()[number].has_boolean());
    let truth = |arg, value| {
        if has_bool() { find(arg, &is_bool, Match::Value, Some(table.constant_bool(value))) } else { None }
    };
    let nothing = |arg, how| find(arg, &any_type, how, None);
    let compare = |c: Comparison<'a>, how| compare(c, how).or_else(|| of_part(table, order, expr, &c, how));
    match expr.kind() {
        ExprKind::And(parts) => Condition::all(parts.into_iter().filter_map(inner).collect()),
        ExprKind::Or(parts) => {
            let parts: Option<Vec<_>> = parts.into_iter().map(inner).collect();
            Condition::any(parts?)
        }
        ExprKind::Not(arg) => match arg.kind() {
            ExprKind::Distinct(c) => compare(c, Match::ValueOrNull),
            _ => truth(arg, false),
        },
        ExprKind::Operator(c) => compare(c, Match::Value).or_else(|| truth(expr, true)),
        ExprKind::AnyOf(c) => compare(c, Match::Array),
        ExprKind::IsNull(arg) => nothing(arg, Match::IsNull),
        ExprKind::IsNotNull(arg) => nothing(arg, Match::IsNotNull),
        ExprKind::Truth(arg, [true, true, false]) => nothing(arg, Match::IsNotNull),
        ExprKind::Truth(arg, which) => {
            let wanted = [(which[0], true), (which[1], false)];
            let mut parts: Vec<_> = wanted
                .into_iter()
                .filter(|(wanted, _)| *wanted)
                .map(|(_, value)| truth(arg, value))
                .collect();
            if which[2] {
                parts.push(nothing(arg, Match::IsNull));
            }
            Condition::any(parts.into_iter().collect::<Option<_>>()?)
        }
        ExprKind::Distinct(_) => None,
        ExprKind::Other => truth(expr, true),
    }
}

/// The condition for a comparison of a part of a document. Several paths may lead to the part.
fn of_part<'a>(
    table: &Table<'a>,
    order: &[usize],
    condition: Expr<'a>,
    c: &Comparison<'a>,
    how: Match,
) -> Option<Condition<Leaf<'a>>> {
    match how {
        // Both sides may be parts of documents, of two tables.
        Match::Value => {
            let on_the_left =
                c.of_part().and_then(|part| of_its_document(table, order, condition, &part, how));
            on_the_left.or_else(|| of_its_document(table, order, condition, &c.turned()?.of_part()?, how))
        }
        Match::Array => of_its_document(table, order, condition, &c.of_part()?, how),
        // The part may be NULL where the document is not.
        Match::ValueOrNull | Match::IsNull | Match::IsNotNull => None,
    }
}

/// The condition for a comparison of a part with a value, if the document is in an index column.
fn of_its_document<'a>(
    table: &Table<'a>,
    order: &[usize],
    condition: Expr<'a>,
    part: &PartComparison<'a>,
    how: Match,
) -> Option<Condition<Leaf<'a>>> {
    let columns = order.iter().flat_map(|&number| {
        let index = table.indexes()[number];
        (0..index.columns()).map(move |column| (number, index, column))
    });
    let (index, column, steps) = columns.into_iter().find_map(|(number, info, column)| {
        let documents = if info.has_paths(column) { part.documents.as_slice() } else { &[] };
        let found = documents.iter().find(|(document, _)| info.is_column(*document, column));
        found.map(|(_, steps)| (number, column, steps))
    })?;
    if !table.is_key(part.key) {
        return None;
    }
    let leaf = |path| {
        let key = Source { key: Some(part.key), condition };
        let (key_type, strategy) = (part.key_type, part.strategy);
        Condition::Leaf(Leaf { index, column, key_type, strategy, path, how, key })
    };
    Condition::any(path::paths(steps)?.into_iter().map(leaf).collect())
}
