//! Search inside text values: which keys a value has, and which keys every value that matches a query has.
//!
//! An index over keys (words, fragments of n characters, or a prefix) answers "which block ranges may hold a value with
//! this key?". This crate cuts values into keys ([`TextKeys::keys`]) and turns the conditions of a query into demands
//! for keys ([`TextKeys::demand`]).
//!
//! | step | module | what it gives |
//! |---|---|---|
//! | characters of an encoding | [`encoding`] | [`Encoding`] |
//! | upper and lower case, under every collation | [`folding`] | [`KeyCase`], [`Matching`] |
//! | a query becomes a list of what stands in every match | [`like`], [`regex`] | [`Template`]s |
//! | of which the certain runs of characters are taken | [`template`] | [`Literal`] |
//! | values and literals are cut | [`words`], [`ngrams`], [`prefixes`] | keys |
//! | fragments that come again and again are left out | [`recent`] | [`RecentFragments`] |
//! | the demands are combined by AND and OR | [`demand`] | [`Demand`] |
//! | a tsvector is read, and a tsquery becomes a demand | [`tsearch`] | lexemes |
//! | all of it for one column | [`keys`] | [`TextKeys`], [`TextQuery`] |
//!
//! **The invariant.** If a value matches a query under PostgreSQL's rules, with any deterministic collation, then the
//! keys of the value meet the demand of the query. A demand may be too weak, never too strong. What is not understood
//! demands nothing ([`Demand::Anything`]).
//!
//! **What the caller sees to.** No demand holds under a nondeterministic collation, where different strings are equal:
//! there the caller asks for none. The caller cuts no values of `char(n)`, whose `=` ignores trailing blanks and whose
//! `LIKE` does not.
//!
//! **Frozen.** The keys of a value are on disk. What a word is, how case is folded and how values that are too short
//! are treated must not change without another name for the kind of key: `tests/frozen.rs` holds them. Nothing here
//! depends on the Unicode tables of the Rust version.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod demand;
pub mod encoding;
pub mod folding;
pub mod keys;
pub mod like;
pub mod ngrams;
pub mod prefixes;
pub mod recent;
pub mod regex;
pub mod template;
pub mod tsearch;
pub mod words;

pub use demand::Demand;
pub use encoding::Encoding;
pub use folding::{KeyCase, Matching};
pub use keys::{CutError, TextKeyIter, TextKeyKind, TextKeys, TextQuery};
pub use recent::RecentFragments;
pub use template::{Literal, Symbol, Template};
