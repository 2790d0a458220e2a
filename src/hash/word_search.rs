//! The word search of SQL, for every text, with an index or without: the operators `@@@` and `@@@*`.
//!
//! What a word is, and how case is folded, is the rule by which an index cuts words ([`super::texts`]). So the
//! operators find the same under every collation.

use crate::pg::{boundary, text};
use pgrx::prelude::*;
use skip_text::Matching::{self, Exact, IgnoreCase};
use skip_text::{Encoding, keys};

/// Whether a text has all words of another.
fn has_words(value: &[u8], words: &[u8], matching: Matching) -> bool {
    let encoding = if text::is_utf8() { Encoding::Utf8 } else { Encoding::Bytes };
    keys::has_words(value, words, matching, encoding)
}

#[pg_extern(sql = false)]
fn skip_has_words(value: &[u8], words: &[u8]) -> bool {
    boundary::callback(|| has_words(value, words, Exact))
}

#[pg_extern(sql = false)]
fn skip_has_words_in_any_case(value: &[u8], words: &[u8]) -> bool {
    boundary::callback(|| has_words(value, words, IgnoreCase))
}
