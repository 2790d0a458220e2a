//! The keys of a query's clauses become key hashes, which can be looked up in an index.

use super::{ClauseRef, HashedClause, Test};
use crate::hash::keys::{ColumnKeys, KeyTest};
use crate::pages::meta::Meta;
use crate::pg::Rel;
use crate::pg::clause::{Clause, Match, Values};
use skip_scan::Condition;

/// What rows satisfy that satisfy all clauses; None if nothing can be looked up.
pub fn all(index: Rel, meta: &Meta, clauses: &[Clause<Values<'_>>]) -> Option<Condition<HashedClause>> {
    Condition::all(clauses.iter().filter_map(|clause| one(index, meta, clause)).collect())
}

/// What rows satisfy that satisfy a clause, in hashed keys; None if it cannot be looked up, so that it rules no range
/// out: for example if its type is hashed differently than the column.
pub fn one(index: Rel, meta: &Meta, clause: &Clause<Values<'_>>) -> Option<Condition<HashedClause>> {
    // A column that this build hashes differently gets no entries from inserts either, not even its NULLs.
    let keys = ColumnKeys::of_index(index, meta, usize::from(clause.column))?;
    let column = clause.column;
    let condition = match clause.how {
        Match::IsNull => return Some(Condition::Leaf(HashedClause { column, test: Test::IsNull })),
        Match::IsNotNull => Condition::Leaf(KeyTest::NotNull),
        Match::Value | Match::ValueOrNull | Match::Array => keys.condition(index, clause)?,
    };
    let test = |test| match test {
        KeyTest::AnyOf(keys) => Test::keys(keys),
        KeyTest::Within(spans) => Test::Within(spans),
        KeyTest::NotNull => Test::IsNotNull,
    };
    Some(condition.map(&mut |key_test| HashedClause { column, test: test(key_test) }))
}

/// The condition with its clauses added to those of index number `index`.
pub fn numbered(
    condition: Condition<HashedClause>,
    index: usize,
    clauses: &mut Vec<HashedClause>,
) -> Condition<ClauseRef> {
    condition.map(&mut |clause| {
        clauses.push(clause);
        ClauseRef { index, clause: clauses.len() - 1 }
    })
}
