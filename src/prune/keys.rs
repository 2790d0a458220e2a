//! What a query compares columns with becomes what an index can be asked: keys become key hashes.

use super::{Clause, Test};
use crate::hash::KeyHasher;
use crate::pages::meta::Meta;
use crate::pg::Rel;
use crate::pg::scankey::{Key, KeyTest};

/// Keys as clauses. A key that cannot be looked up (its type hashes otherwise than the column) rules nothing out
/// and is left out.
pub fn clauses(index: Rel, meta: &Meta, keys: &[Key]) -> Vec<Clause> {
    keys.iter().filter_map(|key| clause(index, meta, key)).collect()
}

/// A key as a clause; None if it cannot be looked up, so that any range may have it.
pub fn clause(index: Rel, meta: &Meta, key: &Key) -> Option<Clause> {
    let column = usize::from(key.column);
    let frozen = meta.columns.get(column)?;
    // A column that this build hashes otherwise is not kept up by inserts either, not even its NULLs.
    if !meta.hashes_match() || KeyHasher::of_column(index, column, meta.seed).canon() != frozen.canon {
        return None;
    }
    let test = match &key.test {
        KeyTest::IsNull => Test::IsNull,
        KeyTest::IsNotNull => Test::IsNotNull,
        KeyTest::AnyOf(values) => {
            let mut hasher = KeyHasher::of_key(index, column, key.key_type, meta.seed)?;
            Test::keys(values.iter().map(|&value| hasher.hash(value)).collect())
        }
    };
    Some(Clause { column: key.column, test })
}
