//! A value of any type becomes key bytes, and these become a hash.
//!
//! Key bytes are the bytes that another system has to hash to find the key in an exported filter:
//!
//! | types | key bytes |
//! |---|---|
//! | int2, int4, int8 | 8, as int8, little-endian: equal numbers of different types are one key |
//! | float4, float8 | 8, as float8, little-endian; -0 as 0, one NaN |
//! | oid and its aliases, xid8, pg_lsn | 8, little-endian |
//! | date, time, timestamp, timestamptz | 8, little-endian: days or microseconds, as the server has them |
//! | bool, "char", uuid, macaddr, macaddr8, bytea | as they are |
//! | text, varchar; name | the bytes of the string, in the database's encoding |
//! | char(n) | those of the string without trailing blanks |
//! | enums | the label: its OID differs between databases |
//! | everything else that can be hashed | 8, little-endian: the type's extended hash function under seed 0 |
//!
//! A filter knows the type of its keys, and only values of that type can be looked up in it. Integers of all widths are
//! one type, so are floats of both widths, and so are text and varchar. Strings of char(n) and of type name are types
//! of their own, because their `=` with another type depends on that type: `'a'::char(2)` equals `'a '::varchar`, but
//! not `'a '::text`.
//!
//! Values that are equal by `=` of the type's default operator class for hashing must have equal key bytes. A domain is
//! treated as its base type. The last row of the table includes strings under a nondeterministic collation. Then the
//! collation, its version and its definition are stored in the filter, because strings that are equal under it may
//! differ under another one. The results of extended hash functions are the same on all servers of the same major
//! version and byte order; core relies on the same for hash partitions.
//!
//! Types that contain enums inside of others are refused, because their hash functions hash the enums' OIDs. Refused
//! are also rows, whose hash changes when a column is added to their type; ranges of strings with a nondeterministic
//! collation of their own; and names under such a collation, which core hashes without regard to the collation.

use crate::hash::Canon;
use crate::pg::datum::{self, HashFunction, Repr, Value};
use crate::pg::{catalog, collation, fail, types};
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use skip_filter::policy::FilterPolicy;
use skip_value::{Collation, KeyType, Keys};

/// How values become key bytes.
enum Form {
    Canonical(Canon),
    /// Without trailing blanks.
    Trimmed,
    /// The label of an enum's value. It is not cached between rows, because it may be renamed.
    Label,
    Hashed(HashFunction),
}

/// Reads the keys of one type.
pub struct KeyReader {
    form: Form,
    repr: Repr,
    key_type: KeyType,
    collation: Option<Collation>,
}

impl KeyReader {
    /// The reader for values that a call is given; an error also if the server could not derive a collation for them.
    pub fn of_argument(input: Oid, collation: Oid) -> Self {
        if collation == pg_sys::InvalidOid && types::has_collation(types::base_type(input)) {
            no_collation(input);
        }
        Self::new(input, collation)
    }

    /// The reader for values of a type under a collation; an error for types that cannot be hashed.
    pub fn new(input: Oid, collation: Oid) -> Self {
        if !types::exists(input) {
            no_type(&format!("with OID {}", input.to_u32()));
        }
        let input = types::base_type(input);
        let key_type = key_type_of(input);
        let repr = Repr::of_type(input);
        if types::is_enum(input) {
            return Self { form: Form::Label, repr, key_type, collation: None };
        }
        refuse_unsafe(input, collation);
        let function = types::hash_class(input).and_then(|(family, class_input)| {
            let function = datum::extended_hash_of(family, class_input)?;
            // A type that is hashed as another type (varchar as text, regclass as oid) counts as that type.
            let same = if types::is_pseudo(class_input) { input } else { class_input };
            Some((function, same))
        });
        let function = function.filter(|_| !types::is_pseudo(input));
        let Some((function, hashed_as)) = function else { unsupported(input) };
        // A type without a class of its own is hashed as a type to which it is binary-coercible. Its own `=`, in a
        // class for sorting, may take values as equal that are different ones there.
        if hashed_as != input
            && let Some(equality) = types::own_equality(input)
            && !types::hash_class(input).is_some_and(|(family, _)| catalog::is_in_family(equality, family))
        {
            unsupported(input)
        }
        let deterministic = datum::is_deterministic(collation);
        let form = match Canon::choose(hashed_as, collation, function) {
            Canon::Extended if hashed_as == pg_sys::BPCHAROID && deterministic => Form::Trimmed,
            Canon::Extended | Canon::Blankless => Form::Hashed(HashFunction::new(function, collation)),
            canon => Form::Canonical(canon),
        };
        // Only hash functions of types with a collation use it. A number may come with the collation of another
        // argument.
        let is_collated = !deterministic && matches!(form, Form::Hashed(_)) && types::has_collation(input);
        Self { form, repr, key_type, collation: is_collated.then(|| identity_of(collation)) }
    }

    /// The representation of the values in memory.
    pub fn repr(&self) -> Repr {
        self.repr
    }

    /// The description of such keys in a filter.
    pub fn keys(&self, policy: &'static dyn FilterPolicy, seed: u64) -> Keys {
        Keys { policy, seed, key_type: self.key_type.clone(), collation: self.collation.clone() }
    }

    /// Raises an error if a filter has keys of a different type or collation.
    pub fn must_fit(&self, keys: &Keys) {
        if keys.key_type != self.key_type || keys.collation != self.collation {
            let collation =
                self.collation.as_ref().map_or("a deterministic collation".into(), Collation::to_string);
            super::problem::other_type(keys, &self.key_type, collation);
        }
    }

    /// The hash of a value's key.
    #[inline]
    pub fn hash(&mut self, value: Value<'_>, policy: &dyn FilterPolicy, seed: u64) -> u64 {
        match &mut self.form {
            Form::Canonical(canon) => {
                value.with_bytes(|bytes| canon.with_key_bytes(bytes, |key| policy.hash(seed, key)))
            }
            Form::Trimmed => {
                value.with_bytes(|bytes| policy.hash(seed, datum::without_trailing_blanks(bytes)))
            }
            Form::Label => {
                let oid =
                    value.with_bytes(|bytes| bytes.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b)));
                policy.hash(seed, &types::enum_label(oid.into()).unwrap_or_default())
            }
            Form::Hashed(function) => policy.hash(seed, &function.hash(value, 0).to_le_bytes()),
        }
    }
}

/// The longest definition of a collation that is stored as it is, in bytes. Its name and version are stored beside it,
/// and have at most 1024 bytes in a filter's header; rules may be longer.
const LONGEST_DEFINITION: usize = 512;

/// What tells a nondeterministic collation from others, in which other strings are equal: its name, the version of ICU,
/// and its definition, which is stored with the version. A collation of the same name may be made anew with another
/// definition, and may have another one on the next server.
fn identity_of(collation: Oid) -> Collation {
    let (name, version) = types::collation_name(collation).unwrap_or_default();
    let mut definition = collation::definition(collation);
    if definition.len() > LONGEST_DEFINITION {
        definition = format!("definition {:016x}", skip_filter::hash_bytes(0, definition.as_bytes()));
    }
    Collation { name, version: format!("{version} ({definition})") }
}

/// The key type of a type: one for all types whose values can be equal to each other.
fn key_type_of(input: Oid) -> KeyType {
    let input = match input {
        pg_sys::INT2OID | pg_sys::INT4OID => pg_sys::INT8OID,
        pg_sys::FLOAT4OID => pg_sys::FLOAT8OID,
        other => match types::hash_class(other) {
            Some((_, hashed_as)) if !types::is_pseudo(hashed_as) => hashed_as,
            _ => other,
        },
    };
    if input.to_u32() < pg_sys::FirstNormalObjectId {
        return KeyType::BuiltIn(input.to_u32());
    }
    let (schema, name) = types::qualified_name(input).unwrap_or_default();
    KeyType::Named { schema, name }
}

/// The OID of a filter's key type; an error if this database has no such type.
pub fn type_of_key(key_type: &KeyType) -> Oid {
    let oid = match key_type {
        KeyType::BuiltIn(oid) => Some(Oid::from(*oid)),
        KeyType::Named { schema, name } => types::by_qualified_name(schema, name),
    };
    oid.unwrap_or_else(|| no_type(&format!("{key_type}, the key type of the bloom filter")))
}

/// Whether filters can have this key type in this form. They cannot have pseudo-types or rows, int4 (its key type is
/// int8), or built-in types by name. A type that this database does not have is accepted here, and left to the lookup.
pub fn is_key_type(key_type: &KeyType) -> bool {
    match key_type {
        coded if coded.has_code() => true,
        KeyType::BuiltIn(oid) => {
            let oid = Oid::from(*oid);
            let is_canonical = || {
                types::base_type(oid) == oid
                    && !types::is_row(oid)
                    && types::hash_class(oid).is_some()
                    && key_type_of(oid) == *key_type
            };
            !types::exists(oid) || !types::is_pseudo(oid) && is_canonical()
        }
        KeyType::Named { schema, name } => types::by_qualified_name(schema, name)
            .is_none_or(|oid| oid.to_u32() >= pg_sys::FirstNormalObjectId),
    }
}

fn no_type(what: &str) -> ! {
    let hint = "Create the type, or the extension that it belongs to, in this database.";
    fail(
        PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
        format!("there is no type {what}"),
        None,
        Some(hint.into()),
    )
}

/// Raises the error that the server's own functions raise for strings of several collations.
fn no_collation(input: Oid) -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_INDETERMINATE_COLLATION,
        format!("could not determine which collation to use for keys of type {}", types::display_name(input)),
        Some(
            "The arguments have different collations, and strings that are equal under one may differ under another."
                .into(),
        ),
        Some("Use the COLLATE clause to set the collation explicitly.".into()),
    )
}

/// Raises an error for types whose filters would lose keys eventually.
fn refuse_unsafe(input: Oid, collation: Oid) {
    let detail = if types::any_part(input, &types::is_row) {
        "The hash of a row changes when a column is added to its type: keys added earlier would not be found."
    } else if types::any_part(input, &types::is_enum) {
        "The type contains an enum. OIDs of enum values differ between databases: a filter would not survive a dump."
    } else if types::any_part(input, &types::has_nondeterministic_part) {
        "The type contains strings with a nondeterministic collation of their own; a filter does not store its version."
    } else if types::has_ranges_in_users_order(input) {
        "The type contains ranges in a user-defined order: ranges that are equal in it may have different hashes."
    } else if types::hashes_against_collation(input, collation) {
        "PostgreSQL ignores the collation when it hashes type name, and the collation is nondeterministic."
    } else if types::is_hashed_with_blanks(input, collation) {
        "This version of PostgreSQL hashes the trailing blanks of character(n) in this type, but its operator = ignores them."
    } else {
        return;
    };
    fail(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        format!("values of type {} cannot be keys of a bloom filter", types::display_name(input)),
        Some(detail.into()),
        Some("Build the key from the parts of the value, as text, an array or jsonb.".into()),
    )
}

fn unsupported(input: Oid) -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_UNDEFINED_FUNCTION,
        format!("values of type {} cannot be keys of a bloom filter", types::display_name(input)),
        Some("The type has no default operator class with an extended hash function.".into()),
        Some("Cast the value to a type that has one, such as text.".into()),
    )
}
