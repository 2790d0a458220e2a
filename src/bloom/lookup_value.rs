//! A value that is to be looked up in a filter, or added to one.
//!
//! Its type must be that of the filter's keys. Only a literal of unknown type (`filter @> 'abc'`) is read as the
//! filter's type, like a literal that is compared with a column. This is not allowed for all types. A column's type
//! comes from its table, but a filter's type comes from whoever made the filter; and the functions are immutable,
//! whatever the time zone setting is.

use super::keys::{KeyReader, type_of_key};
use crate::pg::datum::{Repr, Value};
use crate::pg::fail;
use crate::pg::function::{Call, SiteMemory};
use crate::pg::types::{self, InputFunction};
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use skip_value::Keys;

/// How values become hashes.
pub enum LookupValue {
    Typed(KeyReader),
    /// A literal, with the keys as which it was last read, and the functions that read it.
    Literal {
        collation: Oid,
        reading: Option<Box<(Keys, InputFunction, KeyReader)>>,
    },
}

impl LookupValue {
    /// Reads values of an argument's type.
    pub fn argument(call: &Call<'_>, number: usize) -> Self {
        match call.type_of(number) {
            Some(pg_sys::UNKNOWNOID) => {
                // SQL derives no collation for an argument that is not known to be a string.
                let given = call.collation();
                let collation =
                    if given == pg_sys::InvalidOid { pg_sys::DEFAULT_COLLATION_OID } else { given };
                Self::Literal { collation, reading: None }
            }
            Some(input) => Self::Typed(KeyReader::of_argument(input, call.collation())),
            None => undetermined(),
        }
    }

    /// Reads elements of an array argument.
    pub fn elements(call: &Call<'_>, number: usize) -> Self {
        let array = call.type_of(number).map(types::base_type);
        match array.and_then(types::element) {
            Some(input) => Self::Typed(KeyReader::of_argument(input, call.collation())),
            None => undetermined(),
        }
    }

    /// The representation of the values in memory.
    pub fn repr(&self) -> Repr {
        match self {
            Self::Typed(reader) => reader.repr(),
            Self::Literal { .. } => Repr::CString,
        }
    }

    /// The hash of a value in a filter of these keys; an error if they are of a different type. `memory` is that of the
    /// call site that keeps this.
    pub fn hash(&mut self, value: Value<'_>, keys: &Keys, memory: SiteMemory<'_>) -> u64 {
        match self {
            Self::Typed(reader) => {
                reader.must_fit(keys);
                reader.hash(value, keys.policy, keys.seed)
            }
            Self::Literal { collation, reading } => {
                if reading.as_ref().is_none_or(|known| known.0 != *keys) {
                    let oid = type_of_key(&keys.key_type);
                    refuse_ambiguous(oid);
                    refuse_unsafe(oid);
                    let (input, reader) =
                        memory.run(|| (InputFunction::of(oid), KeyReader::new(oid, *collation)));
                    reader.must_fit(keys);
                    *reading = Some(Box::new((keys.clone(), input, reader)));
                }
                let (Some(reading), Some(literal)) = (reading, value.c_str()) else { undetermined() };
                let (_, input, reader) = &mut **reading;
                input.read(literal, |value| reader.hash(value, keys.policy, keys.seed))
            }
        }
    }
}

/// Refuses literals for floats. `0.1` is a different key as float4 and as float8, and the filter does not know which
/// type its values had.
fn refuse_ambiguous(oid: Oid) {
    if oid == pg_sys::FLOAT8OID {
        fail(
            PgSqlErrorCode::ERRCODE_INDETERMINATE_DATATYPE,
            "a literal to look up in a bloom filter of floats must have a type".into(),
            Some("The same digits are different keys as real and as double precision.".into()),
            Some(
                "Write 0.1::real or 0.1::double precision, according to the type of the added values.".into(),
            ),
        );
    }
}

/// Refuses literals whose value depends on settings, or whose input function runs code of a user.
fn refuse_unsafe(oid: Oid) {
    if !types::is_read_alike(oid) {
        let name = types::display_name(oid);
        fail(
            PgSqlErrorCode::ERRCODE_INDETERMINATE_DATATYPE,
            format!("a literal to look up in a bloom filter of type {name} must have a type"),
            Some(
                "The value of such a literal depends on settings, or on functions of the type's owner."
                    .into(),
            ),
            Some(format!("Write '...'::{name}.")),
        );
    }
}

fn undetermined() -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_INDETERMINATE_DATATYPE,
        "could not determine the type of the value to look up".into(),
        None,
        Some("Write the value with its type, for example '...'::uuid.".into()),
    )
}
