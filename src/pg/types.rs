//! Types and collations: what they are made of, what they are called.

use super::datum::{Repr, Value};
use super::server;
use super::text::{of_server as text, to_server};
use pgrx::prelude::*;
use pgrx::{direct_function_call, pg_sys};
use std::ffi::CStr;

/// The type below a domain; any other type itself.
pub fn base_type(oid: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::getBaseType(oid) }
}

/// Whether a type is an enum.
pub fn is_enum(oid: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::type_is_enum(oid) }
}

/// Whether there is such a type.
pub fn exists(oid: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::get_typtype(oid) != 0 }
}

/// Whether values of a type are rows.
pub fn is_row(oid: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::type_is_rowtype(oid) }
}

/// Whether reading a literal of a type runs no code that its owner may change, and gives the same value under all
/// settings: so is what only a superuser can make, base types, if they say so; enums; and arrays and built-in ranges of
/// such types. Not domains, which have CHECKs.
pub fn is_read_alike(oid: pg_sys::Oid) -> bool {
    // SAFETY: catalog lookups; raises an error for a type that is not there.
    unsafe {
        match pg_sys::get_typtype(oid) as u8 {
            pg_sys::TYPTYPE_ENUM => true,
            pg_sys::TYPTYPE_BASE => element(oid).map_or_else(
                || {
                    let (mut function, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
                    pg_sys::getTypeInputInfo(oid, &mut function, &mut parameter);
                    pg_sys::func_volatile(function) as u8 == pg_sys::PROVOLATILE_IMMUTABLE
                },
                is_read_alike,
            ),
            pg_sys::TYPTYPE_RANGE | pg_sys::TYPTYPE_MULTIRANGE => {
                oid.to_u32() < pg_sys::FirstNormalObjectId && parts(oid).into_iter().all(is_read_alike)
            }
            _ => false,
        }
    }
}

/// Reads literals of a type.
pub struct InputFunction {
    info: Box<pg_sys::FmgrInfo>,
    parameter: pg_sys::Oid,
    repr: Repr,
}

impl InputFunction {
    /// Of a type. The lookup lives in the current memory context, which must outlive it.
    pub fn of(oid: pg_sys::Oid) -> Self {
        let (mut function, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
        let mut info = Box::<pg_sys::FmgrInfo>::default();
        // SAFETY: fills its arguments; raises an error for a type that is not there.
        unsafe {
            pg_sys::getTypeInputInfo(oid, &mut function, &mut parameter);
            pg_sys::fmgr_info(function, &mut *info);
        }
        Self { info, parameter, repr: Repr::of_type(oid) }
    }

    /// Calls `take` with the value that a literal stands for; an error if it stands for none.
    pub fn read<R>(&mut self, literal: &CStr, take: impl FnOnce(Value<'_>) -> R) -> R {
        // SAFETY: input functions only read the literal. The value is of the type, and lies in the current memory
        // context, which stays the same until the call of `take` is over.
        unsafe {
            let text = literal.as_ptr().cast_mut();
            let read = server::InputFunctionCall(&mut *self.info, text, self.parameter, -1);
            take(Value::new(read, self.repr))
        }
    }
}

/// The type of an array type's elements.
pub fn element(oid: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a catalog lookup.
    let element = unsafe { pg_sys::get_element_type(oid) };
    (element != pg_sys::InvalidOid).then_some(element)
}

/// Types and collations of a row type's fields; of other types, none.
fn fields(oid: pg_sys::Oid) -> Vec<(pg_sys::Oid, pg_sys::Oid)> {
    // SAFETY: catalog lookups; the descriptor is released after its fields were read.
    unsafe {
        if oid == pg_sys::RECORDOID || !pg_sys::type_is_rowtype(oid) {
            return Vec::new();
        }
        let descriptor = pg_sys::lookup_rowtype_tupdesc(oid, -1);
        let field = |number| {
            let attribute = super::compat::attribute(descriptor, number);
            ((*attribute).atttypid, (*attribute).attcollation)
        };
        let fields = (0..usize::try_from((*descriptor).natts).unwrap_or(0)).map(field).collect();
        if (*descriptor).tdrefcount >= 0 {
            pg_sys::DecrTupleDescRefCount(descriptor);
        }
        fields
    }
}

/// What the values of a type consist of: elements, bounds or fields.
fn parts(oid: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    // SAFETY: catalog lookups.
    let inner = unsafe {
        [pg_sys::get_element_type(oid), pg_sys::get_range_subtype(oid), pg_sys::get_multirange_range(oid)]
    };
    let fields = fields(oid).into_iter().map(|(field, _)| field);
    // Fields of columns that were dropped have no type.
    inner.into_iter().chain(fields).filter(|&part| part != pg_sys::InvalidOid).collect()
}

/// The collations that a type brings for strings below others: in fields of row types and bounds of ranges.
fn own_collations(oid: pg_sys::Oid) -> impl Iterator<Item = pg_sys::Oid> {
    // SAFETY: a catalog lookup.
    let of_range = unsafe { pg_sys::get_range_collation(oid) };
    fields(oid).into_iter().map(|(_, collation)| collation).chain([of_range])
}

/// Whether values of a type contain strings, below others, under a nondeterministic collation of their own.
pub fn has_nondeterministic_part(oid: pg_sys::Oid) -> bool {
    own_collations(oid).any(|collation| !super::datum::is_deterministic(collation))
}

/// Family and input type of the default operator class for hashing.
pub fn hash_class(oid: pg_sys::Oid) -> Option<(pg_sys::Oid, pg_sys::Oid)> {
    // SAFETY: catalog lookups.
    unsafe {
        let class = pg_sys::GetDefaultOpClass(oid, pg_sys::HASH_AM_OID);
        (class != pg_sys::InvalidOid)
            .then(|| (pg_sys::get_opclass_family(class), pg_sys::get_opclass_input_type(class)))
    }
}

/// The `=` of a type, if it has one of its own, in an operator class for hashing or sorting, and does not use another
/// type's.
pub fn own_equality(oid: pg_sys::Oid) -> Option<pg_sys::Oid> {
    let methods = [
        (pg_sys::HASH_AM_OID, pg_sys::HTEqualStrategyNumber),
        (pg_sys::BTREE_AM_OID, pg_sys::BTEqualStrategyNumber),
    ];
    methods.into_iter().find_map(|(method, strategy)| {
        // SAFETY: catalog lookups.
        unsafe {
            let class = pg_sys::GetDefaultOpClass(oid, method);
            if class == pg_sys::InvalidOid || pg_sys::get_opclass_input_type(class) != oid {
                return None;
            }
            let family = pg_sys::get_opclass_family(class);
            let operator = pg_sys::get_opfamily_member(family, oid, oid, strategy as i16);
            (operator != pg_sys::InvalidOid).then_some(operator)
        }
    })
}

/// Whether a type is polymorphic (anyarray, anyenum…), or stands for any row.
pub fn is_pseudo(oid: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::get_typtype(oid) as u8 == pg_sys::TYPTYPE_PSEUDO }
}

/// Whether a condition holds of a type or of anything that its values consist of, however deep; domains are what they
/// stand for.
pub fn any_part(oid: pg_sys::Oid, holds: &dyn Fn(pg_sys::Oid) -> bool) -> bool {
    /// A type cannot contain itself but through an array; nobody has more levels.
    const LEVELS: usize = 32;
    fn search(oid: pg_sys::Oid, holds: &dyn Fn(pg_sys::Oid) -> bool, levels: usize) -> bool {
        let oid = base_type(oid);
        holds(oid) || levels > 0 && parts(oid).into_iter().any(|part| search(part, holds, levels - 1))
    }
    search(oid, holds, LEVELS)
}

/// Whether core's hash function of a type gives equal values different hashes under a collation: that of `name` takes
/// no notice of collations, though its `=` does.
pub fn hashes_against_collation(oid: pg_sys::Oid, collation: pg_sys::Oid) -> bool {
    let is_name = |part| part == pg_sys::NAMEOID;
    any_part(oid, &is_name)
        && (!super::datum::is_deterministic(collation) || any_part(oid, &has_nondeterministic_part))
}

/// Whether values of a type are strings of char(n), or contain some, and are compared under a nondeterministic
/// collation: trailing blanks count for nothing then, and some versions of PostgreSQL hash them all the same.
pub fn has_uncounted_blanks(oid: pg_sys::Oid, collation: pg_sys::Oid) -> bool {
    any_part(oid, &|part| part == pg_sys::BPCHAROID)
        && (!super::datum::is_deterministic(collation) || any_part(oid, &has_nondeterministic_part))
}

/// Whether this server's hash function gives equal values of a type different hashes because of trailing blanks:
/// strings of char(n) within others, where nobody can leave the blanks out before.
pub fn is_hashed_with_blanks(oid: pg_sys::Oid, collation: pg_sys::Oid) -> bool {
    use super::datum::hashes_trailing_blanks;
    base_type(oid) != pg_sys::BPCHAROID
        && any_part(oid, &|part| part == pg_sys::BPCHAROID)
        && (hashes_trailing_blanks(collation)
            || any_part(oid, &|part| own_collations(part).any(hashes_trailing_blanks)))
}

/// The label of an enum's value.
pub fn enum_label(value: pg_sys::Oid) -> Option<Vec<u8>> {
    // SAFETY: a syscache tuple, released after the label was copied.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::ENUMOID as i32, value.into());
        if tuple.is_null() {
            return None;
        }
        let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_enum>();
        let label = CStr::from_ptr(form.enumlabel.data.as_ptr()).to_bytes().to_vec();
        pg_sys::ReleaseSysCache(tuple);
        Some(label)
    }
}

/// A type's name as SQL has it, for messages.
pub fn display_name(oid: pg_sys::Oid) -> String {
    // SAFETY: a palloc'd string; "???" for a type that is not there.
    unsafe { text(pg_sys::format_type_extended(oid, -1, pg_sys::FORMAT_TYPE_ALLOW_INVALID as u16 as _)) }
}

/// Schema and name of a type, in UTF-8.
pub fn qualified_name(oid: pg_sys::Oid) -> Option<(String, String)> {
    // SAFETY: a syscache tuple, released after its contents were copied.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::TYPEOID as i32, oid.into());
        if tuple.is_null() {
            return None;
        }
        let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_type>();
        let names = (text(pg_sys::get_namespace_name(form.typnamespace)), text(form.typname.data.as_ptr()));
        pg_sys::ReleaseSysCache(tuple);
        Some(names)
    }
}

/// The OID of a type by schema and name, in UTF-8.
pub fn by_qualified_name(schema: &str, name: &str) -> Option<pg_sys::Oid> {
    if schema.contains('\0') || name.contains('\0') {
        return None;
    }
    let (schema, name) = (to_server(schema), to_server(name));
    // SAFETY: catalog lookups with NUL-terminated names.
    unsafe {
        let schema = pg_sys::get_namespace_oid(schema.as_ptr(), true);
        let oid = pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::TYPENAMENSP as i32,
            pg_sys::Anum_pg_type_oid as _,
            pg_sys::Datum::from(name.as_ptr()),
            schema.into(),
            pg_sys::Datum::null(),
            pg_sys::Datum::null(),
        );
        (oid != pg_sys::InvalidOid).then_some(oid)
    }
}

/// A collation's qualified name, and the version of it that this server has; in UTF-8.
pub fn collation_name(oid: pg_sys::Oid) -> Option<(String, String)> {
    // SAFETY: a syscache tuple, released after its contents were copied; palloc'd strings.
    let name = unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::COLLOID as i32, oid.into());
        if tuple.is_null() {
            return None;
        }
        let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_collation>();
        let schema = pg_sys::get_namespace_name(form.collnamespace);
        let name = text(pg_sys::quote_qualified_identifier(schema, form.collname.data.as_ptr()));
        pg_sys::ReleaseSysCache(tuple);
        name
    };
    // SAFETY: the function of that name takes a collation's OID and returns text or NULL.
    let version =
        unsafe { direct_function_call::<String>(pg_sys::pg_collation_actual_version, &[oid.into_datum()]) };
    Some((name, version.unwrap_or_default()))
}
