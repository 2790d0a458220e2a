//! Types and collations: their parts and their names.

use super::datum::{Repr, Value};
use super::server;
use super::text::{of_server as text, to_server};
use pgrx::prelude::*;
use pgrx::{direct_function_call, pg_sys};
use std::ffi::CStr;

/// The base type of a domain; any other type itself.
pub fn base_type(oid: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::getBaseType(oid) }
}

/// Whether a type is an enum.
pub fn is_enum(oid: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::type_is_enum(oid) }
}

/// Whether a type exists.
pub fn exists(oid: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::get_typtype(oid) != 0 }
}

/// Whether a type is a row type.
pub fn is_row(oid: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::type_is_rowtype(oid) }
}

/// Whether reading a literal of a type runs no code that its owner may change, and always gives the same value, under
/// all settings. This holds for base types with an immutable input function, because only a superuser can make base
/// types; for enums; and for arrays and built-in ranges of such types. It does not hold for domains, which have CHECKs.
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
    /// The input function of a type. The lookup lives in the current memory context, which must outlive the result.
    pub fn of(oid: pg_sys::Oid) -> Self {
        let (mut function, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
        let mut info = Box::<pg_sys::FmgrInfo>::default();
        // SAFETY: sets its arguments; raises an error for a missing type.
        unsafe {
            pg_sys::getTypeInputInfo(oid, &mut function, &mut parameter);
            pg_sys::fmgr_info(function, &mut *info);
        }
        Self { info, parameter, repr: Repr::of_type(oid) }
    }

    /// Calls `take` with the value of a literal; an error if the literal is invalid.
    pub fn read<R>(&mut self, literal: &CStr, take: impl FnOnce(Value<'_>) -> R) -> R {
        // SAFETY: input functions only read the literal. The value is of the type, and is in the current memory
        // context, which does not change until the call of `take` has ended.
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

/// Bytes to multiples of which values of a type are aligned; 0 for an alignment that is not known.
pub fn alignment(oid: pg_sys::Oid) -> usize {
    let (mut len, mut by_value, mut align) = (0, false, 0);
    // SAFETY: a catalog lookup that raises an error for a missing type.
    unsafe { pg_sys::get_typlenbyvalalign(oid, &mut len, &mut by_value, &mut align) };
    match align as u8 {
        pg_sys::TYPALIGN_CHAR => 1,
        pg_sys::TYPALIGN_SHORT => 2,
        pg_sys::TYPALIGN_INT => 4,
        pg_sys::TYPALIGN_DOUBLE => 8,
        _ => 0,
    }
}

/// Whether a type is a range type.
pub fn is_range(oid: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::type_is_range(oid) }
}

/// The range type of a multirange type.
pub fn range_of(oid: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a catalog lookup.
    let range = unsafe { pg_sys::get_multirange_range(oid) };
    (range != pg_sys::InvalidOid).then_some(range)
}

/// How a range type orders its bounds.
pub struct RangeOrder {
    /// The type of the bounds.
    pub subtype: pg_sys::Oid,
    /// The collation under which they are compared.
    pub collation: pg_sys::Oid,
    /// Whether the order is the usual one of the type.
    pub is_usual: bool,
    /// Whether the function that compares bounds is a user's, and not the usual one of the type.
    pub is_of_users: bool,
}

/// The order of a range type's bounds.
pub fn range_order(range: pg_sys::Oid) -> RangeOrder {
    // SAFETY: catalog lookups; entries of the type cache are never freed. The first one is that of a range type, and so
    // has a type of bounds.
    unsafe {
        let range = &*pg_sys::lookup_type_cache(range, pg_sys::TYPECACHE_RANGE_INFO as i32);
        let subtype = (*range.rngelemtype).type_id;
        let usual = &*pg_sys::lookup_type_cache(subtype, pg_sys::TYPECACHE_CMP_PROC as i32);
        let compare = range.rng_cmp_proc_finfo.fn_oid;
        let is_usual = usual.cmp_proc == compare;
        let is_of_users = !is_usual && compare.to_u32() >= pg_sys::FirstNormalObjectId;
        RangeOrder { subtype, collation: range.rng_collation, is_usual, is_of_users }
    }
}

/// Whether values of a type are ranges, or contain some, of which equal ones may have different hashes: bounds are
/// compared by a function of users, but hashed by the usual function of their type. Orders of the server, such as
/// text_pattern_ops, find no more bounds equal than the usual ones.
pub fn has_ranges_in_users_order(oid: pg_sys::Oid) -> bool {
    any_part(oid, &|part| is_range(part) && range_order(part).is_of_users)
}

/// Types and collations of a row type's fields; empty for other types.
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

/// The types of the parts of a type's values: elements, bounds or fields.
fn parts(oid: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    // SAFETY: catalog lookups.
    let inner = unsafe {
        [pg_sys::get_element_type(oid), pg_sys::get_range_subtype(oid), pg_sys::get_multirange_range(oid)]
    };
    let fields = fields(oid).into_iter().map(|(field, _)| field);
    // Dropped columns have no type.
    inner.into_iter().chain(fields).filter(|&part| part != pg_sys::InvalidOid).collect()
}

/// The collations that a type itself sets for strings in its values: in fields of row types and bounds of ranges.
fn own_collations(oid: pg_sys::Oid) -> impl Iterator<Item = pg_sys::Oid> {
    // SAFETY: a catalog lookup.
    let of_range = unsafe { pg_sys::get_range_collation(oid) };
    fields(oid).into_iter().map(|(_, collation)| collation).chain([of_range])
}

/// Whether values of a type contain strings, at any depth, under a nondeterministic collation set by a type.
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

/// Family of the default operator class of a type for sorting.
pub fn btree_family(oid: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: catalog lookups.
    unsafe {
        let class = pg_sys::GetDefaultOpClass(oid, pg_sys::BTREE_AM_OID);
        (class != pg_sys::InvalidOid).then(|| pg_sys::get_opclass_family(class))
    }
}

/// The `=` of a type in an operator class for hashing or sorting, if the type has one of its own and does not use
/// another type's.
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

/// Whether a type is polymorphic (anyarray, anyenum…), or is the type of any row.
pub fn is_pseudo(oid: pg_sys::Oid) -> bool {
    // The most common types of ids, without a look at the catalog.
    const NO_PSEUDO_TYPES: [pg_sys::Oid; 5] =
        [pg_sys::UUIDOID, pg_sys::INT8OID, pg_sys::INT4OID, pg_sys::TEXTOID, pg_sys::BYTEAOID];
    // SAFETY: a catalog lookup.
    !NO_PSEUDO_TYPES.contains(&oid) && unsafe { pg_sys::get_typtype(oid) as u8 == pg_sys::TYPTYPE_PSEUDO }
}

/// Whether values of a type contain some of a domain, at any depth. The type itself may be a domain.
pub fn contains_domain(oid: pg_sys::Oid) -> bool {
    let is_domain = |part: pg_sys::Oid| {
        // SAFETY: a catalog lookup.
        unsafe { pg_sys::get_typtype(part) as u8 == pg_sys::TYPTYPE_DOMAIN }
    };
    any_part(oid, &|part| parts(part).into_iter().any(is_domain))
}

/// Whether a condition holds for a type or for any part of its values, at any depth; a domain counts as its base type.
pub fn any_part(oid: pg_sys::Oid, holds: &dyn Fn(pg_sys::Oid) -> bool) -> bool {
    /// Limit of the depth. A type cannot contain itself except through an array, and no real type has more levels.
    const LEVELS: usize = 32;
    fn search(oid: pg_sys::Oid, holds: &dyn Fn(pg_sys::Oid) -> bool, levels: usize) -> bool {
        let oid = base_type(oid);
        holds(oid) || levels > 0 && parts(oid).into_iter().any(|part| search(part, holds, levels - 1))
    }
    search(oid, holds, LEVELS)
}

/// Whether core's hash function of a type gives equal values different hashes under a collation: that of `name` ignores
/// collations, although its `=` does not.
pub fn hashes_against_collation(oid: pg_sys::Oid, collation: pg_sys::Oid) -> bool {
    let is_name = |part| part == pg_sys::NAMEOID;
    any_part(oid, &is_name)
        && (!super::datum::is_deterministic(collation) || any_part(oid, &has_nondeterministic_part))
}

/// Whether values of a type are strings of char(n), or contain some, and are compared under a nondeterministic
/// collation. Then equality ignores trailing blanks, but the hash functions of some versions of PostgreSQL include
/// them.
pub fn has_uncounted_blanks(oid: pg_sys::Oid, collation: pg_sys::Oid) -> bool {
    any_part(oid, &|part| part == pg_sys::BPCHAROID)
        && (!super::datum::is_deterministic(collation) || any_part(oid, &has_nondeterministic_part))
}

/// Whether this server's hash function gives equal values of a type different hashes because of trailing blanks. This
/// concerns strings of char(n) within other values, where the blanks cannot be removed before.
pub fn is_hashed_with_blanks(oid: pg_sys::Oid, collation: pg_sys::Oid) -> bool {
    use super::datum::hashes_trailing_blanks;
    base_type(oid) != pg_sys::BPCHAROID
        && any_part(oid, &|part| part == pg_sys::BPCHAROID)
        && (hashes_trailing_blanks(collation)
            || any_part(oid, &|part| own_collations(part).any(hashes_trailing_blanks)))
}

/// The label of an enum value.
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

/// A type's name in SQL, for messages.
pub fn display_name(oid: pg_sys::Oid) -> String {
    // SAFETY: a palloc'd string; "???" for a missing type.
    unsafe { text(pg_sys::format_type_extended(oid, -1, pg_sys::FORMAT_TYPE_ALLOW_INVALID as u16 as _)) }
}

/// Whether values of a type are texts, also of one that compares them in another way than text does, as citext does.
pub fn is_like_text(oid: pg_sys::Oid) -> bool {
    oid == pg_sys::TEXTOID || super::catalog::is_binary_coercible(oid, pg_sys::TEXTOID)
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

/// Whether values of a type have a collation: strings, and arrays of them.
pub fn has_collation(oid: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::get_typcollation(oid) != pg_sys::InvalidOid }
}

/// A collation's qualified name, and its actual version on this server; in UTF-8.
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
    // SAFETY: the function with this name takes a collation's OID and returns text or NULL.
    let version =
        unsafe { direct_function_call::<String>(pg_sys::pg_collation_actual_version, &[oid.into_datum()]) };
    Some((name, version.unwrap_or_default()))
}
