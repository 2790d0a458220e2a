//! The parts of texts as keys: `LIKE`, `ILIKE`, `~`, `~*`, `^@`, `@@@` and `=`.
//!
//! The crate `skip_text` cuts values, and says what a query demands of the keys of every value that it finds. Here the
//! keys become hashes, and a demand becomes a condition. Operators that search in text find no NULL, so a query that
//! demands no key demands a value at least. A text without words has a key that says so.
//!
//! Of a type that compares texts in a way of its own, as citext does, LIKE and regular expressions are looked up as if
//! they ignored case. Operators that do not ignore it find some of these rows only.
//!
//! Under a nondeterministic collation strings with different bytes are equal, so nothing is demanded there.
//!
//! The number of the canonical form, which is frozen in the index, has all that the keys depend on:
//!
//! | bits | what |
//! |---|---|
//! | 12 to 15 | the kind of keys |
//! | 11 | case is folded |
//! | 10 | characters are bytes, not UTF-8 |
//! | 0 to 8 | characters of a fragment or prefix |

use super::key_test::{self, KeyTest};
use crate::pg::clause::Strategy;
use crate::pg::datum::{self, Value};
use crate::pg::key_kind::KeyKind;
use crate::pg::text_options::TextOptions;
use crate::pg::{Rel, text};
use pgrx::pg_sys::{self, Oid};
use skip_filter::hash_bytes;
use skip_scan::Condition;
use skip_text::{Demand, Encoding, KeyCase, Matching, RecentFragments, TextKeyKind, TextKeys, TextQuery};

// The kind of keys in the number of the canonical form.
const WORDS: u16 = 4 << 12;
const FRAGMENTS: u16 = 5 << 12;
const PREFIX: u16 = 6 << 12;
const FOLDED: u16 = 1 << 11;
const BYTES: u16 = 1 << 10;
const LENGTH: u16 = (1 << 9) - 1;

/// The buffer for folded values is not kept if it is larger than this, in bytes.
const MOST_KEPT: usize = 1 << 20;

/// How texts of one column become keys.
pub struct TextColumnKeys {
    keys: TextKeys,
    canon: u16,
    /// The type of the values, and of the texts of queries.
    input: Oid,
    /// Whether strings with different bytes are different.
    is_deterministic: bool,
    /// Whether the type compares texts in a way of its own. Its operators may ignore case then.
    is_caseless: bool,
    seed: u64,
    /// The value with its case folded.
    folded: Vec<u8>,
}

impl TextColumnKeys {
    /// The keys of an index column of this kind; None if they cannot be made.
    pub fn of_column(index: Rel, column: usize, kind: KeyKind, seed: u64) -> Option<Self> {
        let class = index.column_class(column);
        Self::new(kind, TextOptions::of_column(index, column)?, (class.input, class.collation), seed)
    }

    /// The keys of values of a class's input type under a collation; None if they cannot be made.
    pub fn new(
        kind: KeyKind,
        TextOptions { length, fold_case }: TextOptions,
        (input, collation): (Oid, Oid),
        seed: u64,
    ) -> Option<Self> {
        if !kind.can_cut(input) {
            return None;
        }
        let (kind, number) = match kind {
            KeyKind::Fragments => (TextKeyKind::Ngrams(length), FRAGMENTS + u16::try_from(length).ok()?),
            KeyKind::Words => (TextKeyKind::Words, WORDS),
            KeyKind::Prefix => (TextKeyKind::Prefix(length), PREFIX + u16::try_from(length).ok()?),
            _ => return None,
        };
        let (case, folded) = if fold_case { (KeyCase::Folded, FOLDED) } else { (KeyCase::AsIs, 0) };
        let (encoding, bytes) = if input != pg_sys::BYTEAOID && text::is_utf8() {
            (Encoding::Utf8, 0)
        } else {
            (Encoding::Bytes, BYTES)
        };
        Some(Self {
            keys: TextKeys::new(kind, case, encoding).ok()?,
            canon: number + folded + bytes,
            input,
            is_deterministic: datum::is_deterministic(collation),
            is_caseless: ![pg_sys::TEXTOID, pg_sys::BYTEAOID].contains(&input),
            seed,
            folded: Vec::new(),
        })
    }

    pub fn canon(&self) -> u16 {
        self.canon
    }

    pub fn input(&self) -> Oid {
        self.input
    }

    /// Why a condition asks for none of the keys, and what would help.
    pub fn why_nothing(&self, strategy: Strategy) -> (String, String) {
        let length = self.canon & LENGTH;
        let ignores_case = matches!(
            self.taken_as(strategy),
            Strategy::LikeIgnoreCase
                | Strategy::RegexIgnoreCase
                | Strategy::HasWordsIgnoreCase
                | Strategy::EqualIgnoreCase
        );
        let case = if ignores_case && self.canon & FOLDED == 0 {
            " Letters are not looked up where case is ignored: create the index with fold_case = on."
        } else {
            ""
        };
        let (why, hint) = match self.keys.kind() {
            TextKeyKind::Words => (
                "no whole word is known to stand in every match".to_owned(),
                "Search for words with @@@, or with what stands around them in the pattern.".to_owned(),
            ),
            TextKeyKind::Ngrams(_) => (
                format!("no {length} characters in a row are known to stand in every match"),
                format!(
                    "Search for at least {length} characters in a row, or create the index with a smaller n."
                ),
            ),
            TextKeyKind::Prefix(_) => (
                format!("the first {length} characters of a match are not known"),
                format!(
                    "Search for a start of at least {length} characters, or create the index with a smaller length."
                ),
            ),
        };
        (why, hint + case)
    }

    /// Calls `add` with the keys of a value.
    pub fn each_key(&mut self, value: Value<'_>, mut add: impl FnMut(u64)) {
        let Self { keys, seed, folded, .. } = self;
        value.with_bytes(|bytes| {
            let mut is_empty = true;
            for key in keys.keys(bytes, folded) {
                add(hash_bytes(*seed, key));
                is_empty = false;
            }
            if is_empty {
                add(key_test::no_keys(*seed));
            }
        });
        self.release_buffer();
    }

    /// Whether the keys are fragments, of which a value has many, and a block range the same many times.
    pub fn are_fragments(&self) -> bool {
        matches!(self.keys.kind(), TextKeyKind::Ngrams(_))
    }

    /// Calls `add` with the fragments of a value. Those that were given since `recent` was cleared may be left out.
    pub fn each_new_fragment(
        &mut self,
        value: Value<'_>,
        recent: &mut RecentFragments,
        mut add: impl FnMut(u64),
    ) {
        let Self { keys, seed, folded, .. } = self;
        value.with_bytes(|bytes| {
            keys.each_new_key(bytes, folded, recent, |fragment| add(hash_bytes(*seed, fragment)));
        });
        self.release_buffer();
    }

    fn release_buffer(&mut self) {
        if self.folded.capacity() > MOST_KEPT {
            self.folded = Vec::new();
        }
    }

    /// The strategy by which the keys are asked.
    fn taken_as(&self, strategy: Strategy) -> Strategy {
        match strategy {
            Strategy::Like if self.is_caseless => Strategy::LikeIgnoreCase,
            Strategy::Regex if self.is_caseless => Strategy::RegexIgnoreCase,
            _ => strategy,
        }
    }

    /// What texts satisfy for which an operator holds with the text of a query.
    pub fn condition(&self, strategy: Strategy, text: Value<'_>) -> Option<Condition<KeyTest>> {
        let of = |text: &[u8]| {
            let like = |matching| TextQuery::Like { pattern: text, escape: Some('\\'), matching };
            let query = match self.taken_as(strategy) {
                Strategy::LikeIgnoreCase => like(Matching::IgnoreCase),
                Strategy::RegexIgnoreCase => TextQuery::Regex(text, Matching::IgnoreCase),
                Strategy::HasWordsIgnoreCase => TextQuery::HasWords(text, Matching::IgnoreCase),
                Strategy::EqualIgnoreCase => TextQuery::Equals(text, Matching::IgnoreCase),
                _ if self.is_caseless => return None,
                Strategy::Equal => TextQuery::Equals(text, Matching::Exact),
                Strategy::Like => like(Matching::Exact),
                Strategy::Regex => TextQuery::Regex(text, Matching::Exact),
                Strategy::StartsWith => TextQuery::StartsWith(text, Matching::Exact),
                Strategy::HasWords => TextQuery::HasWords(text, Matching::Exact),
                _ => return None,
            };
            Some(if self.is_deterministic { self.keys.demand(&query) } else { Demand::Anything })
        };
        let demand = text.with_bytes(of)?;
        let asked = key_test::demanded(&demand, &|key: &Vec<u8>| hash_bytes(self.seed, key));
        Some(asked.unwrap_or(Condition::Leaf(KeyTest::NotNull)))
    }
}
