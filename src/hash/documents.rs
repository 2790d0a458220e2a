//! The scalars of jsonb documents as keys, each with its path ([`skip_jsonb`]).
//!
//! | query | rows that it finds have |
//! |---|---|
//! | `@> '{"a": {"b": 1}}'` | all scalars of the query's document, at their paths |
//! | `= '…'` | the same |
//! | `? 'a'`, `?|`, `?&` | the name, or a string at the root |
//! | `->> 'a' = 'x'` | at the path the string x, or a number, true or false with this text |
//! | `(… ->> 'a')::int = 5` | at the path a number, or a string that may be this number |
//! | `-> 'a' = '…'`, `-> 'a' @> '…'` | all scalars of the query's document, at their paths behind the path |
//! | `@? '$.a ? (@.b == 1)'`, `@@ '$.a == 1'` | what the path asks for by equality ([`skip_jsonb::jsonpath`]) |
//!
//! Names and strings are equal if their bytes are: for strings, jsonb uses the collation of the database, which is
//! deterministic.

use super::key_test::{self, KeyTest};
use crate::pg::clause::{Clause, Strategy};
use crate::pg::datum::{self, Value};
use pgrx::pg_sys;
use skip_jsonb::jsonpath::{self, PathQuery};
use skip_jsonb::keys::KeyMaker;
use skip_jsonb::number::Number;
use skip_jsonb::path;
use skip_scan::Condition;

/// The number of this way of making keys in the meta page.
pub const CANON: u16 = 0x200;

/// How the documents of one column become keys.
pub struct DocumentKeys {
    keys: KeyMaker,
    seed: u64,
}

impl DocumentKeys {
    pub fn new(seed: u64) -> Self {
        Self { keys: KeyMaker::new(seed), seed }
    }

    /// Calls `add` with the keys of a document; if there are none, with the key that says so. False for damage.
    pub fn each_key(&mut self, document: Value<'_>, mut add: impl FnMut(u64)) -> bool {
        let mut is_empty = true;
        let found = document.with_bytes(|bytes| {
            self.keys.of_document(bytes, |key| {
                add(key);
                is_empty = false;
            })
        });
        if is_empty {
            add(key_test::no_keys(self.seed));
        }
        found.is_ok()
    }

    /// What documents satisfy for which the clause's operator holds with a value; None if nothing can be looked up.
    pub fn condition<K>(&mut self, clause: &Clause<K>, value: Value<'_>) -> Option<Condition<KeyTest>> {
        let of_keys = |keys| Condition::Leaf(KeyTest::AnyOf(keys));
        match clause.strategy {
            Strategy::Contains | Strategy::Equal => self.of_scalars(value, path::ROOT),
            Strategy::DocumentAtPath => self.of_scalars(value, clause.path),
            Strategy::PathExists => Some(self.of_path(value, PathQuery::Exists)),
            Strategy::PathIsTrue => Some(self.of_path(value, PathQuery::IsTrue)),
            Strategy::HasName => Some(of_keys(value.with_bytes(|name| self.keys.of_name(name)))),
            Strategy::HasAnyName => Some(of_keys(self.of_names(value)?.concat())),
            Strategy::HasAllNames => {
                let names = self.of_names(value)?.into_iter();
                Some(key_test::some_of(names.map(of_keys)).unwrap_or(Condition::Leaf(KeyTest::NotNull)))
            }
            Strategy::TextAtPath => {
                value.with_bytes(|text| self.keys.of_text(clause.path, text)).map(of_keys)
            }
            Strategy::NumberAtPath => {
                let number = value.with_bytes(|bytes| number(clause.key_type, bytes))?;
                Some(of_keys(self.keys.of_number(clause.path, &number)))
            }
            _ => None,
        }
    }

    fn of_scalars(&mut self, document: Value<'_>, path: u64) -> Option<Condition<KeyTest>> {
        document.with_bytes(|bytes| self.keys.of_scalars(bytes, path)).ok().map(key_test::all_of)
    }

    fn of_path(&mut self, path: Value<'_>, asked: PathQuery) -> Condition<KeyTest> {
        let demand = path.with_bytes(|path| jsonpath::demand(&mut self.keys, path, asked));
        key_test::demanded(&demand, &|&key| key).unwrap_or(Condition::Leaf(KeyTest::NotNull))
    }

    /// For each name of an array that is not NULL its keys; the server ignores NULLs.
    fn of_names(&mut self, names: Value<'_>) -> Option<Vec<Vec<u64>>> {
        let mut keys = Vec::new();
        datum::each_element(names, None, |name| {
            keys.extend(name.map(|name| name.with_bytes(|name| self.keys.of_name(name))));
        })?;
        Some(keys)
    }
}

/// The number that a value of a type is; None for NaN and infinity, and for other types.
fn number(kind: pg_sys::Oid, bytes: &[u8]) -> Option<Number> {
    let integer = match (kind, bytes) {
        (pg_sys::NUMERICOID, _) => return Number::of_numeric(bytes),
        (pg_sys::INT2OID, &[a, b]) => i64::from(i16::from_le_bytes([a, b])),
        (pg_sys::INT4OID, &[a, b, c, d]) => i64::from(i32::from_le_bytes([a, b, c, d])),
        (pg_sys::INT8OID, &[a, b, c, d, e, f, g, h]) => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    };
    Number::of_text(integer.to_string().as_bytes())
}
