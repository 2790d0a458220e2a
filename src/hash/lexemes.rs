//! The lexemes of tsvectors as keys: `@@` and `=`.
//!
//! The crate `skip_text` reads both types, and says what a tsquery demands. The server compares lexemes by their bytes.
//! A tsvector without lexemes has a key that says so.

use super::key_test::{self, KeyTest};
use crate::pg::clause::Strategy;
use crate::pg::datum::Value;
use skip_filter::hash_bytes;
use skip_scan::Condition;
use skip_text::tsearch;

/// The number of this way of making keys in the meta page.
pub const CANON: u16 = 7 << 12;

/// How the tsvectors of one column become keys.
pub struct LexemeKeys {
    seed: u64,
}

impl LexemeKeys {
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Calls `add` with the keys of a tsvector. False for damage.
    pub fn each_key(&self, vector: Value<'_>, mut add: impl FnMut(u64)) -> bool {
        let mut is_empty = true;
        let read = vector.with_bytes(|bytes| {
            tsearch::each_lexeme(bytes, |lexeme| {
                add(hash_bytes(self.seed, lexeme));
                is_empty = false;
            })
        });
        if is_empty {
            add(key_test::no_keys(self.seed));
        }
        read.is_ok()
    }

    /// What tsvectors satisfy for which an operator holds with a value; None if nothing can be looked up.
    pub fn condition(&self, strategy: Strategy, value: Value<'_>) -> Option<Condition<KeyTest>> {
        match strategy {
            Strategy::Equal => {
                let mut keys = Vec::new();
                self.each_key(value, |key| keys.push(key)).then(|| key_test::all_of(keys))
            }
            Strategy::MatchesQuery => {
                let demand = value.with_bytes(tsearch::demand);
                let asked = key_test::demanded(&demand, &|lexeme: &Vec<u8>| hash_bytes(self.seed, lexeme));
                Some(asked.unwrap_or(Condition::Leaf(KeyTest::NotNull)))
            }
            _ => None,
        }
    }
}
