//! A value becomes a key hash.
//!
//! Values that the operator finds equal must have equal hashes, in every build, on every CPU, under every major
//! version. So types whose equality is equality of the value get our own seeded hash over a canonical form:
//!
//! | canon | types | bytes hashed |
//! |---|---|---|
//! | Integer | int2, int4, int8, date, time, timestamp, timestamptz | as int8, so that `int8 = int4` works |
//! | Unsigned | oid, xid8, pg_lsn | as 8 bytes |
//! | Float | float4, float8 | as float8; -0 as 0, one NaN |
//! | Bytes | bool, "char", uuid, macaddr, macaddr8, bytea, name; text and varchar under a deterministic collation | unchanged |
//! | Extended | everything else | no bytes: the type's extended hash function is called |
//! | Blankless | char(n) under a nondeterministic collation, and arrays and ranges of it | as Extended, on strings without trailing blanks |
//!
//! [`keys`] tells how a value with several keys is taken apart, and what a query asks of them.
//!
//! The canonical form of each column is fixed in the meta page at build. If this build would choose a different one
//! (for example because an operator class was replaced), the column rules nothing out.

pub mod documents;
pub mod elements;
mod key_test;
pub mod keys;
mod lexemes;
pub mod order;
mod order_times;
mod texts;
mod users;
mod word_search;

use crate::pages::meta::Meta;
use crate::pg::datum::{self, HashFunction, Repr, Value};
use crate::pg::heap::Field;
use crate::pg::key_kind::KeyKind;
use crate::pg::types;
use crate::pg::user_keys;
use crate::pg::{Rel, catalog};
use keys::ColumnKeys;
use pgrx::pg_sys::{self, Oid};
use skip_filter::{canonical_f64, hash_bytes};

/// The canonical form: how a value becomes the bytes that are hashed. The numbers are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Canon {
    Integer = 1,
    Unsigned = 2,
    Float = 3,
    Bytes = 4,
    Extended = 5,
    /// As Extended, without trailing blanks. It has a number of its own, so that an index whose strings were hashed
    /// with their blanks rules nothing out.
    Blankless = 6,
}

impl Canon {
    /// The canonical form of values of `input` in an operator family whose hash function for it is `function`. For an
    /// array, a range or a multirange, `input` is its actual type and not the pseudo-type of the operator class.
    pub fn choose(input: Oid, collation: Oid, function: Oid) -> Self {
        // A user's own operator class may treat other values as equal than the built-in ones do.
        if !catalog::is_built_in(function) {
            return Canon::Extended;
        }
        match input {
            pg_sys::INT2OID | pg_sys::INT4OID | pg_sys::INT8OID | pg_sys::DATEOID => Canon::Integer,
            pg_sys::TIMEOID | pg_sys::TIMESTAMPOID | pg_sys::TIMESTAMPTZOID => Canon::Integer,
            pg_sys::OIDOID | pg_sys::XID8OID | pg_sys::PG_LSNOID => Canon::Unsigned,
            pg_sys::FLOAT4OID | pg_sys::FLOAT8OID => Canon::Float,
            pg_sys::BOOLOID | pg_sys::CHAROID | pg_sys::UUIDOID | pg_sys::MACADDROID => Canon::Bytes,
            pg_sys::MACADDR8OID | pg_sys::BYTEAOID | pg_sys::NAMEOID => Canon::Bytes,
            pg_sys::TEXTOID | pg_sys::VARCHAROID if datum::is_deterministic(collation) => Canon::Bytes,
            _ if types::has_uncounted_blanks(input, collation) => Canon::Blankless,
            _ => Canon::Extended,
        }
    }

    /// Whether values are hashed by a hash function of their type.
    fn is_of_function(self) -> bool {
        matches!(self, Canon::Extended | Canon::Blankless)
    }
}

impl Canon {
    /// Calls `hash` with the canonical form of a value whose own bytes are `bytes`.
    #[inline]
    pub fn with_key_bytes<R>(self, bytes: &[u8], hash: impl FnOnce(&[u8]) -> R) -> R {
        match (self, bytes) {
            (Canon::Integer, &[a, b]) => hash(&i64::from(i16::from_le_bytes([a, b])).to_le_bytes()),
            (Canon::Integer, &[a, b, c, d]) => {
                hash(&i64::from(i32::from_le_bytes([a, b, c, d])).to_le_bytes())
            }
            (Canon::Float, &[a, b, c, d]) => hash(&canonical_f64(f32::from_le_bytes([a, b, c, d]).into())),
            (Canon::Float, &[a, b, c, d, e, f, g, h]) => {
                hash(&canonical_f64(f64::from_le_bytes([a, b, c, d, e, f, g, h])))
            }
            (Canon::Unsigned, &[a, b, c, d]) => {
                hash(&u64::from(u32::from_le_bytes([a, b, c, d])).to_le_bytes())
            }
            // 8-byte integers, unsigned or not, are their own canonical form.
            _ => hash(bytes),
        }
    }
}

/// Hashes the values of one type for one index column.
pub struct KeyHasher {
    canon: Canon,
    repr: Repr,
    seed: u64,
    function: Option<HashFunction>,
    /// Whether the values are strings of type char(n).
    has_blanks: bool,
}

impl KeyHasher {
    /// The hasher for an index column's own values.
    pub fn of_column(index: Rel, column: usize, seed: u64) -> Self {
        let class = index.column_class(column);
        let is_any = types::is_pseudo(class.input);
        let values = if is_any { index.column_type(column) } else { class.input };
        Self::new(class.family, class.input, values, class.collation, seed).unwrap_or(Self {
            // An operator class without its hash function cannot be created. If there is one nevertheless, all values
            // of its column get the same hash: nothing is ruled out, nothing is lost.
            canon: Canon::Extended,
            repr: Repr::of_type(class.input),
            seed,
            function: None,
            has_blanks: false,
        })
    }

    /// Turns the hasher of an index column into the one for keys of type `input` that are compared with the column;
    /// None when the two types are hashed differently, so that the key cannot be looked up.
    pub fn for_key(self, index: Rel, column: usize, input: Oid) -> Option<Self> {
        let class = index.column_class(column);
        if input == pg_sys::InvalidOid || input == class.input {
            return Some(self);
        }
        let other = Self::new(class.family, input, input, class.collation, self.seed)?;
        (other.canon == self.canon && other.is_comparable(class.input, input)).then_some(other)
    }

    /// Whether equal values of two types have equal hashes. Where they are hashed by functions of their types, a family
    /// that has functions for both types promises it, unless one of them ignores a collation that the other takes into
    /// account.
    fn is_comparable(&self, column: Oid, key: Oid) -> bool {
        !self.canon.is_of_function() || (column != pg_sys::NAMEOID && key != pg_sys::NAMEOID)
    }

    /// `values` is the type of the values, `input` the type by which the operator family lists its hash function.
    fn new(family: Oid, input: Oid, values: Oid, collation: Oid, seed: u64) -> Option<Self> {
        let function = datum::hash_function_of(family, input)?;
        let canon = Canon::choose(values, collation, function);
        let function = canon.is_of_function().then(|| HashFunction::new(function, collation));
        let has_blanks = input == pg_sys::BPCHAROID;
        Some(Self { canon, repr: Repr::of_type(input), seed, function, has_blanks })
    }

    /// The number of the canonical form, as the meta page stores it.
    pub fn canon(&self) -> u16 {
        self.canon as u16
    }

    /// The memory representation of the hasher's values.
    pub fn repr(&self) -> Repr {
        self.repr
    }

    /// Hashes a value of the hasher's type.
    pub fn hash(&mut self, value: Value<'_>) -> u64 {
        match (&mut self.function, self.canon) {
            (Some(function), _) => function.hash(value, self.seed),
            (None, canon) if canon.is_of_function() => 0,
            (None, canon) => value.with_bytes(|bytes| hash_canonical(canon, self.seed, bytes)),
        }
    }

    /// Hashes an equal value with different bytes, if there is one for the type: it must have the same hash.
    pub fn hash_of_equal(&mut self, value: Value<'_>) -> Option<u64> {
        self.has_blanks.then(|| datum::with_another_blank(value, |equal| self.hash(equal)))
    }

    /// Hashes a value found in a heap tuple. None for NULL, and for a value stored out of line, which the caller has to
    /// fetch first.
    pub fn hash_field(&mut self, field: &Field<'_>) -> Option<u64> {
        match *field {
            _ if self.canon.is_of_function() => field.value(self.repr).map(|value| self.hash(value)),
            Field::Fixed(bytes) if self.repr == Repr::Name => {
                Some(hash_bytes(self.seed, datum::until_nul(bytes)))
            }
            Field::Fixed(bytes) => Some(hash_canonical(self.canon, self.seed, bytes)),
            Field::Plain(whole, header) => Some(hash_canonical(self.canon, self.seed, &whole[header..])),
            Field::Compressed(_) => field.value(self.repr).map(|value| self.hash(value)),
            Field::Null | Field::External => None,
        }
    }
}

#[inline]
fn hash_canonical(canon: Canon, seed: u64, bytes: &[u8]) -> u64 {
    canon.with_key_bytes(bytes, |key| hash_bytes(seed, key))
}

/// Whether the function that hashes or takes apart the values of some column is defined by a user.
pub fn is_of_users(index: Rel) -> bool {
    any_function(index, &|function| !catalog::is_built_in(function))
}

/// Whether the keys of some column are made by a function of its operator class.
pub fn has_user_keys(index: Rel) -> bool {
    (0..index.key_columns()).any(|column| KeyKind::of_column(index, column) == KeyKind::Users)
}

/// Whether these functions of all columns may run in parallel workers.
pub fn is_parallel_safe(index: Rel) -> bool {
    !any_function(index, &|function| !catalog::is_parallel_safe(function))
}

/// Whether a condition holds for a function that hashing for an index may call.
fn any_function(index: Rel, holds: &dyn Fn(Oid) -> bool) -> bool {
    // The hash functions of arrays, ranges and rows call those of their parts.
    let of_part = |part| catalog::extended_hash(part).is_some_and(holds);
    (0..index.key_columns()).any(|column| {
        let class = index.column_class(column);
        datum::hash_function_of(class.family, class.input).is_some_and(holds)
            || user_keys::value_function(class.family, class.input).is_some_and(holds)
            || types::any_part(index.column_type(column), &of_part)
    })
}

/// How the columns of an index become keys; None for a column whose keys this build would make differently than the
/// index.
pub fn column_keys(index: Rel, meta: &Meta) -> Vec<Option<ColumnKeys>> {
    (0..meta.columns.len()).map(|column| ColumnKeys::of_index(index, meta, column)).collect()
}
