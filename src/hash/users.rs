//! Keys that an operator class of users makes by its own functions ([`crate::pg::user_keys`]).
//!
//! A value without keys has one that says so.

use super::key_test::{self, KeyTest};
use crate::pg::clause::Strategy;
use crate::pg::datum::{Repr, Value};
use crate::pg::relation::ColumnClass;
use crate::pg::user_keys::UserFunction;
use pgrx::pg_sys::{self, Oid};
use skip_filter::hash_bytes;
use skip_scan::Condition;
use skip_text::Demand;

/// The number of this way of making keys in the meta page.
pub const CANON: u16 = 8 << 12;

/// How the values of one column become keys.
pub struct UserKeys {
    class: ColumnClass,
    function: UserFunction,
    seed: u64,
}

impl UserKeys {
    /// The keys of a column; None if its class has no function of the right signature for them.
    pub fn of_class(class: ColumnClass, seed: u64) -> Option<Self> {
        let function = UserFunction::of_values(class.family, class.input, class.collation)?;
        Some(Self { class, function, seed })
    }

    /// The memory representation of the column's values.
    pub fn repr(&self) -> Repr {
        self.function.repr()
    }

    /// Calls `add` with the keys of a value.
    pub fn each_key(&mut self, value: Value<'_>, mut add: impl FnMut(u64)) {
        let mut is_empty = true;
        self.function.each_key(value, |key| {
            add(hash_bytes(self.seed, key));
            is_empty = false;
        });
        if is_empty {
            add(key_test::no_keys(self.seed));
        }
    }

    /// What values satisfy for which an operator holds with one of the values of a query, which are of type `query`.
    pub fn conditions<'a>(
        &self,
        strategy: Strategy,
        query: Oid,
        values: impl Iterator<Item = Value<'a>>,
    ) -> Option<Vec<Condition<KeyTest>>> {
        let query = if query == pg_sys::InvalidOid { self.class.input } else { query };
        let ColumnClass { family, input, collation, .. } = self.class;
        let mut function = UserFunction::of_queries(family, input, query, collation)?;
        let condition = |value| {
            let rows = function.demanded(value, strategy as i32).unwrap_or_default();
            let demand =
                Demand::all(rows.into_iter().map(|keys| Demand::any(keys.into_iter().map(Demand::Key))));
            key_test::demanded(&demand.bounded(), &|key: &Vec<u8>| hash_bytes(self.seed, key))
                .unwrap_or(Condition::Leaf(KeyTest::NotNull))
        };
        Some(values.map(condition).collect())
    }
}
