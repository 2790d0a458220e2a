//! The keys of a query's clauses become key hashes, which can be looked up in an index.

use super::{HashedClause, Test};
use crate::hash::KeyHasher;
use crate::pages::meta::Meta;
use crate::pg::Rel;
use crate::pg::clause::{Clause, Match, Values};

/// Clauses with hashed keys. A clause whose key cannot be looked up (its type is hashed differently than the column)
/// rules nothing out and is left out.
pub fn clauses(index: Rel, meta: &Meta, clauses: &[Clause<Values<'_>>]) -> Vec<HashedClause> {
    clauses.iter().filter_map(|one| clause(index, meta, one)).collect()
}

/// A clause with hashed keys; None if its key cannot be looked up, so that it rules no range out.
pub fn clause(index: Rel, meta: &Meta, clause: &Clause<Values<'_>>) -> Option<HashedClause> {
    let column = usize::from(clause.column);
    let frozen = meta.columns.get(column)?;
    // A column that this build hashes differently gets no entries from inserts either, not even its NULLs.
    if !meta.hashes_match() {
        return None;
    }
    let own = KeyHasher::of_column(index, column, meta.seed);
    if own.canon() != frozen.canon {
        return None;
    }
    let test = match clause.how {
        Match::IsNull => Test::IsNull,
        Match::IsNotNull => Test::IsNotNull,
        Match::Value | Match::ValueOrNull | Match::Array => {
            let mut hasher = own.for_key(index, column, clause.key_type)?;
            Test::keys(clause.key.iter().map(|&value| hasher.hash(value)).collect())
        }
    };
    Some(HashedClause { column: clause.column, test })
}
