//! How an operator class makes keys of a value: support function 3.
//!
//! A class without the function has one key for each value, its hash. The function only names one of the other kinds.
//! A class with support function 4 makes keys by functions of its own ([`super::user_keys`]).
//! How values of a kind become keys, and a query a condition over keys, is in [`crate::hash`].

use super::clause::Strategy;
use super::{Rel, boundary, catalog, family, types, user_keys};
use pgrx::prelude::*;
use pgrx::{Internal, pg_sys};

pub use super::catalog::KEYS_FUNCTION as NUMBER;

/// What the function of [`KeyKind::Elements`] returns.
const ELEMENTS: i32 = 1;
/// What the function of [`KeyKind::Paths`] returns.
const PATHS: i32 = 2;
/// What the function of [`KeyKind::Lexemes`] returns.
const LEXEMES: i32 = 31;
/// What the function of [`KeyKind::Fragments`] returns.
const FRAGMENTS: i32 = 11;
/// What the function of [`KeyKind::Words`] returns.
const WORDS: i32 = 12;
/// What the function of [`KeyKind::Prefix`] returns.
const PREFIX: i32 = 13;

/// What the function of [`KeyKind::Order`] returns.
const ORDER: i32 = 21;

/// How values become keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// One key: the whole value.
    Whole,
    /// One key for each element of an array that is not NULL.
    Elements,
    /// A key for each scalar of a jsonb document, with the path that leads to it.
    Paths,
    /// One key for each lexeme of a tsvector.
    Lexemes,
    /// What functions of the operator class make.
    Users,
    /// One key for each run of n characters of a text.
    Fragments,
    /// One key for each word of a text.
    Words,
    /// One key: the first characters of a text.
    Prefix,
    /// One key: where the value stands in the order of its type. The index has the bounds of each range.
    Order,
    /// A kind that this build does not know: nothing can be looked up.
    Unknown,
}

impl KeyKind {
    /// The kind of an operator class, by its family and input type.
    pub fn of_class(family: pg_sys::Oid, input: pg_sys::Oid) -> Self {
        let Some(function) = family::support_function(family, input, input, NUMBER) else {
            let of_users = user_keys::value_function(family, input);
            return of_users.map_or(Self::Whole, |_| Self::Users);
        };
        if !has_right_signature(function) {
            return Self::Unknown;
        }
        // SAFETY: a function of one argument of type internal, which returns an integer. Only a superuser can put it
        // into an operator class.
        let kind = unsafe {
            pg_sys::OidFunctionCall1Coll(function, pg_sys::InvalidOid, pg_sys::Datum::from(0usize))
        };
        match kind.value() as i32 {
            ELEMENTS => Self::Elements,
            PATHS => Self::Paths,
            LEXEMES => Self::Lexemes,
            FRAGMENTS => Self::Fragments,
            WORDS => Self::Words,
            PREFIX => Self::Prefix,
            ORDER => Self::Order,
            _ => Self::Unknown,
        }
    }

    /// The kind of an index column.
    pub fn of_column(index: Rel, column: usize) -> Self {
        let class = index.column_class(column);
        Self::of_class(class.family, class.input)
    }

    /// The target false-positive rate of columns for which none is set, where values have several keys; None for other
    /// kinds. From the sweep in docs/inside-sweep.md.
    ///
    /// Such a column has many more keys than rows, so that each bit of a key counts. A search for one key reads at most
    /// a thousandth of the table in vain. A search for a fragment asks for several keys at once, which must all be
    /// there: in vain is read what a power of the rate says.
    pub fn default_rate(self) -> Option<f64> {
        match self {
            Self::Elements | Self::Paths | Self::Lexemes | Self::Words | Self::Users => Some(0.001),
            Self::Fragments => Some(0.05),
            Self::Whole | Self::Prefix | Self::Order | Self::Unknown => None,
        }
    }

    /// Whether a value has several keys, which the built-in functions of the class make.
    pub fn has_several_keys(self) -> bool {
        matches!(self, Self::Elements | Self::Paths | Self::Lexemes | Self::Fragments | Self::Words)
    }

    /// Whether the class finds parts of values.
    pub fn finds_parts(self) -> bool {
        self.has_several_keys() || matches!(self, Self::Prefix | Self::Users)
    }

    /// Whether a search mostly asks for several keys, all of which must be there.
    pub fn asks_for_several(self) -> bool {
        self == Self::Fragments
    }

    /// Whether keys are parts of a text.
    pub fn cuts_text(self) -> bool {
        matches!(self, Self::Fragments | Self::Words | Self::Prefix)
    }

    /// Whether values of a type can be cut into such parts.
    pub fn can_cut(self, input: pg_sys::Oid) -> bool {
        match self {
            Self::Fragments | Self::Words => types::is_like_text(input),
            Self::Prefix => types::is_like_text(input) || input == pg_sys::BYTEAOID,
            Self::Whole
            | Self::Elements
            | Self::Paths
            | Self::Lexemes
            | Self::Users
            | Self::Order
            | Self::Unknown => false,
        }
    }

    /// The operator by which a value of the column's type is looked up.
    pub fn operator(self) -> Strategy {
        match self {
            Self::Whole | Self::Lexemes | Self::Users | Self::Order | Self::Unknown => Strategy::Equal,
            Self::Elements | Self::Paths => Strategy::Contains,
            Self::Fragments => Strategy::Like,
            Self::Words => Strategy::HasWords,
            Self::Prefix => Strategy::StartsWith,
        }
    }
}

/// Whether a function may be support function 3: `(internal) returns integer`.
pub fn has_right_signature(function: pg_sys::Oid) -> bool {
    catalog::signature(function) == (pg_sys::INT4OID, vec![pg_sys::INTERNALOID])
}

/// Support function 3 of array_element_skip_ops.
#[pg_extern(sql = false)]
fn skip_array_element_keys(_nothing: Internal) -> i32 {
    boundary::callback(|| ELEMENTS)
}

/// Support function 3 of jsonb_path_skip_ops.
#[pg_extern(sql = false)]
fn skip_jsonb_path_keys(_nothing: Internal) -> i32 {
    boundary::callback(|| PATHS)
}

/// Support function 3 of tsvector_skip_ops.
#[pg_extern(sql = false)]
fn skip_tsvector_keys(_nothing: Internal) -> i32 {
    boundary::callback(|| LEXEMES)
}

/// Support function 3 of text_ngram_skip_ops.
#[pg_extern(sql = false)]
fn skip_text_ngram_keys(_nothing: Internal) -> i32 {
    boundary::callback(|| FRAGMENTS)
}

/// Support function 3 of text_token_skip_ops.
#[pg_extern(sql = false)]
fn skip_text_token_keys(_nothing: Internal) -> i32 {
    boundary::callback(|| WORDS)
}

/// Support function 3 of text_prefix_skip_ops and bytea_prefix_skip_ops.
#[pg_extern(sql = false)]
fn skip_prefix_keys(_nothing: Internal) -> i32 {
    boundary::callback(|| PREFIX)
}

/// Support function 3 of the operator classes whose columns have bounds, such as int8_minmax_skip_ops.
#[pg_extern(sql = false)]
fn skip_minmax_keys(_nothing: Internal) -> i32 {
    boundary::callback(|| ORDER)
}
