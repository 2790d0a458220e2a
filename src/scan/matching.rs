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
type ColumnMatch<'f> = dyn Fn(&Index<'_>, u16) -> Option<(Strategy, Oid)> + 'f;

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
    let search = ColumnSearch { table, order, expr };
    match expr.kind() {
        ExprKind::And(parts) => Condition::all(parts.into_iter().filter_map(inner).collect()),
        ExprKind::Or(parts) => {
            let parts: Option<Vec<_>> = parts.into_iter().map(inner).collect();
            Condition::any(parts?)
        }
        ExprKind::Not(arg) => match arg.kind() {
            ExprKind::Distinct(c) => search.comparison(c, Match::ValueOrNull),
            _ => search.truth(arg, false),
        },
        ExprKind::Operator(c) => search.comparison(c, Match::Value).or_else(|| search.truth(expr, true)),
        ExprKind::AnyOf(c) => search.comparison(c, Match::Array),
        ExprKind::Rows(c) => search.rows(c),
        ExprKind::IsNull(arg) => search.null_test(arg, Match::IsNull),
        ExprKind::IsNotNull(arg) => {
            search.null_test(arg, Match::IsNotNull).or_else(|| search.existence_of_part(arg))
        }
        ExprKind::Truth(arg, [true, true, false]) => search.null_test(arg, Match::IsNotNull),
        ExprKind::Truth(arg, [may_be_true, may_be_false, may_be_null]) => {
            let parts = [
                may_be_true.then(|| search.truth(arg, true)),
                may_be_false.then(|| search.truth(arg, false)),
                may_be_null.then(|| search.null_test(arg, Match::IsNull)),
            ];
            Condition::any(parts.into_iter().flatten().collect::<Option<_>>()?)
        }
        ExprKind::Distinct(_) => None,
        ExprKind::Other => search.truth(expr, true),
    }
}

/// A search for the index columns that can look an expression up.
struct ColumnSearch<'t, 'a> {
    table: &'t Table<'a>,
    /// The numbers of the table's indexes, preferred ones first.
    order: &'t [usize],
    expr: Expr<'a>,
}

impl<'a> ColumnSearch<'_, 'a> {
    /// The condition by those columns of indexes that have the values of `arg`, and can answer what `asks` asks.
    fn find(
        &self,
        arg: Expr<'a>,
        asks: &ColumnMatch<'_>,
        how: Match,
        key: Option<Expr<'a>>,
    ) -> Option<Condition<Leaf<'a>>> {
        let leaf = |(number, index, column): (usize, Index<'a>, u16)| {
            let (strategy, key_type) =
                if index.is_column(arg, column) { asks(&index, column)? } else { return None };
            let key = Source { key, condition: self.expr };
            Some((index, Leaf { index: number, column, key_type, strategy, path: 0, how, key }))
        };
        chosen(columns(self.table, self.order).filter_map(leaf))
    }

    fn comparison(&self, c: Comparison<'a>, how: Match) -> Option<Condition<Leaf<'a>>> {
        self.straight(c, how)
            .or_else(|| self.turned(c, how))
            .or_else(|| of_part(self.table, self.order, self.expr, &c, how))
    }

    /// A comparison with the column on the left.
    fn straight(&self, c: Comparison<'a>, how: Match) -> Option<Condition<Leaf<'a>>> {
        let found = self.find(c.left, &compares(c.operator, c.collation), how, Some(c.right));
        // It costs more to find out whether the other side is a key, and most comparisons fail before that is needed.
        found.filter(|_| self.table.is_key(c.right))
    }

    /// A comparison with the column on the right.
    fn turned(&self, c: Comparison<'a>, how: Match) -> Option<Condition<Leaf<'a>>> {
        if !self.table.may_be_column(c.right) {
            return None;
        }
        let found = if how == Match::Array {
            // A list of keys can only be on the right. So the column itself is the array.
            let array = c.right.without_relabels();
            let has_element = |index: &Index<'_>, column| {
                let fits = index.has_collation(column, c.collation);
                if fits { index.element_comparison(column, c.operator, array) } else { None }
            };
            self.find(array, &has_element, Match::Value, Some(c.left))
        } else {
            self.find(c.right, &compares(c.commutator()?, c.collation), how, Some(c.left))
        };
        found.filter(|_| self.table.is_key(c.left))
    }

    /// A comparison of rows. `(a, b) < (x, y)` is true only if `a <= x`.
    fn rows(&self, first: Comparison<'a>) -> Option<Condition<Leaf<'a>>> {
        let side = |column, key, operator| {
            let of_operator = compares(operator, first.collation);
            let or_equal = |index: &Index<'_>, column| {
                let (strategy, key_type) = of_operator(index, column)?;
                let or_equal = match strategy {
                    Strategy::Less | Strategy::LessOrEqual => Strategy::LessOrEqual,
                    Strategy::Greater | Strategy::GreaterOrEqual => Strategy::GreaterOrEqual,
                    _ => return None,
                };
                Some((or_equal, key_type))
            };
            self.find(column, &or_equal, Match::Value, Some(key)).filter(|_| self.table.is_key(key))
        };
        side(first.left, first.right, first.operator)
            .or_else(|| side(first.right, first.left, first.commutator()?))
    }

    /// A test whether a part of a document is there: the document has the name of the part, or of one that the part is
    /// in, outermost.
    fn existence_of_part(&self, part: Expr<'a>) -> Option<Condition<Leaf<'a>>> {
        columns(self.table, self.order).find_map(|(number, index, column)| {
            let has_names = index.has_paths(column);
            let name = if has_names { index.name_within(part, column)? } else { return None };
            let key = Source { key: Some(self.table.constant_text(&name)), condition: self.expr };
            let (strategy, key_type) = (Strategy::HasName, pgrx::pg_sys::TEXTOID);
            let how = Match::Value;
            Some(Condition::Leaf(Leaf { index: number, column, key_type, strategy, path: 0, how, key }))
        })
    }

    /// A test of a boolean expression for one of the two values.
    fn truth(&self, arg: Expr<'a>, value: bool) -> Option<Condition<Leaf<'a>>> {
        let is_bool = |index: &Index<'_>, column| {
            let equal = Oid::from(pgrx::pg_sys::BooleanEqualOperator);
            index.comparison(column, equal).filter(|_| index.is_boolean(column))
        };
        if !self.order.iter().any(|&number| self.table.indexes()[number].has_boolean()) {
            return None;
        }
        self.find(arg, &is_bool, Match::Value, Some(self.table.constant_bool(value)))
    }

    /// A test whether an expression is NULL, or is not.
    fn null_test(&self, arg: Expr<'a>, how: Match) -> Option<Condition<Leaf<'a>>> {
        let any_type = |_: &Index<'_>, _| Some((Strategy::Equal, Oid::INVALID));
        self.find(arg, &any_type, how, None)
    }
}

/// Asks a column whether it can look up an operator under a collation.
fn compares(operator: Oid, collation: Oid) -> impl Fn(&Index<'_>, u16) -> Option<(Strategy, Oid)> {
    move |index, column| {
        let comparison = index.comparison(column, operator);
        comparison.filter(|&(strategy, _)| index.compares_under(column, operator, strategy, collation))
    }
}

/// The columns of a table's indexes, preferred indexes first: number of the index, index, column.
fn columns<'a>(table: &Table<'a>, order: &[usize]) -> impl Iterator<Item = (usize, Index<'a>, u16)> {
    order.iter().flat_map(|&number| {
        let index = table.indexes()[number];
        (0..index.columns()).map(move |column| (number, index, column))
    })
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
    let (index, column, steps) = columns(table, order).find_map(|(number, info, column)| {
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
