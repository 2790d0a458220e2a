//! The columns of a table, and which operator classes their types have.

use super::key_kind::KeyKind;
use super::operator_class::{self, OperatorClass};
use super::{Rel, catalog, compat, datum, text, types};
use pgrx::pg_sys;

/// `pg_attribute.attgenerated` of a column that is computed when it is read (ATTRIBUTE_GENERATED_VIRTUAL of PostgreSQL
/// 18).
const ATTRIBUTE_GENERATED_VIRTUAL: u8 = b'v';

/// A column of a table.
pub struct TableColumn {
    /// Its place in the table's row, from 0.
    pub place: usize,
    pub name: String,
    /// The name as SQL needs it, with quotes if necessary.
    pub quoted_name: String,
    pub type_name: String,
    /// Whether its values are not stored, so that no index can have them.
    pub is_virtual: bool,
    /// Whether its type has a default operator class of the access method skip, and can be indexed with it.
    pub has_class: bool,
    /// The same of btree.
    pub has_btree: bool,
    /// Whether BRIN's default operator class for the type has a minimum and a maximum.
    pub has_minmax: bool,
    /// BRIN's operator class of Bloom filters for the type, if it has one.
    pub bloom_class: Option<String>,
    /// Its type and its collation.
    pub values: (pg_sys::Oid, pg_sys::Oid),
    /// The operator classes of the access method skip that find parts of its values, in the order of their names.
    pub inside_classes: Vec<InsideClass>,
    /// The operator class of the access method skip that keeps bounds of its values.
    pub minmax_class: Option<String>,
}

/// An operator class of the access method skip that finds parts of values.
pub struct InsideClass {
    pub name: String,
    /// As [`OperatorClass::in_sql`].
    pub in_sql: String,
    pub kind: KeyKind,
    pub input: pg_sys::Oid,
}

/// The columns of a table that are not dropped.
pub fn columns(table: Rel) -> Vec<TableColumn> {
    let skip = catalog::access_method_oid("skip").unwrap_or(pg_sys::InvalidOid);
    // SAFETY: the tuple descriptor of an open relation; the strings made are NUL-terminated and live in the current
    // memory context.
    unsafe {
        let row = (*table.raw()).rd_att;
        let columns = (0..(*row).natts as usize).filter_map(|place| {
            let attribute = &*compat::attribute(row, place);
            if attribute.attisdropped {
                return None;
            }
            let name = attribute.attname.data.as_ptr();
            let has_class =
                |method| pg_sys::GetDefaultOpClass(attribute.atttypid, method) != pg_sys::InvalidOid;
            Some(TableColumn {
                place,
                name: text::of_server(name),
                quoted_name: text::of_server(pg_sys::quote_identifier(name)),
                type_name: text::of_server(pg_sys::format_type_be(attribute.atttypid)),
                is_virtual: attribute.attgenerated as u8 == ATTRIBUTE_GENERATED_VIRTUAL,
                has_class: has_class(skip) && can_be_hashed(attribute.atttypid),
                has_btree: has_class(pg_sys::BTREE_AM_OID) && catalog::has_order(attribute.atttypid),
                has_minmax: minmax_stem(attribute.atttypid).is_some(),
                bloom_class: bloom_class(attribute.atttypid),
                values: (attribute.atttypid, attribute.attcollation),
                inside_classes: inside_classes(skip, attribute.atttypid, attribute.attcollation),
                minmax_class: minmax_class(skip, attribute.atttypid),
            })
        });
        columns.collect()
    }
}

/// The name of BRIN's default operator class for a type, without its ending. None if it has no minimum and maximum:
/// that of `inet` and ranges has a value that includes all others.
fn minmax_stem(of: pg_sys::Oid) -> Option<String> {
    // SAFETY: catalog lookups.
    let class = unsafe { pg_sys::GetDefaultOpClass(pg_sys::getBaseType(of), pg_sys::BRIN_AM_OID) };
    operator_class_name(class)?.strip_suffix("_minmax_ops").map(str::to_owned)
}

/// BRIN's operator class of Bloom filters for a type: PostgreSQL calls it after the type.
fn bloom_class(of: pg_sys::Oid) -> Option<String> {
    // SAFETY: catalog lookups; NUL-terminated, palloc'd strings.
    unsafe {
        let name = format!("{}_bloom_ops", minmax_stem(of)?);
        let class = text::to_server(&name);
        let names =
            pg_sys::lappend(std::ptr::null_mut(), pg_sys::makeString(class.as_ptr().cast_mut()).cast());
        let found = pg_sys::get_opclass_oid(pg_sys::BRIN_AM_OID, names, true);
        (found != pg_sys::InvalidOid).then_some(name)
    }
}

/// Whether CREATE INDEX finds hash functions for the parts that values of an array or range type consist of.
fn can_be_hashed(of: pg_sys::Oid) -> bool {
    let of = types::base_type(of);
    let has_parts = types::element(of).is_some() || types::is_range(of);
    !has_parts || catalog::extended_hash(of).is_some() && !types::any_part(of, &types::is_row)
}

/// The operator classes of the access method skip that find parts of a type's values. A type of users that is stored as
/// text is, such as citext, has classes of its own only: CREATE INDEX refuses others for it.
fn inside_classes(skip: pg_sys::Oid, of: pg_sys::Oid, collation: pg_sys::Oid) -> Vec<InsideClass> {
    let of = types::base_type(of);
    let is_possible = |kind: KeyKind| match kind {
        KeyKind::Elements => can_be_hashed(of),
        _ if kind.cuts_text() => datum::is_deterministic(collation),
        _ => kind.finds_parts(),
    };
    let is_cast = catalog::is_built_in(of) || types::element(of).is_some();
    let takes = |input| input == of || is_cast && catalog::is_binary_coercible(of, input);
    let mut classes = operator_class::of_method(skip);
    classes.retain(|class| takes(class.input));
    let with_kind = classes.into_iter().map(|OperatorClass { name, in_sql, family, input }| {
        let kind = KeyKind::of_class(family, input);
        InsideClass { name, in_sql, kind, input }
    });
    let mut found: Vec<InsideClass> = with_kind.filter(|class| is_possible(class.kind)).collect();
    found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    found
}

/// The operator class of the access method skip that keeps bounds of a type's values.
fn minmax_class(skip: pg_sys::Oid, of: pg_sys::Oid) -> Option<String> {
    let of = types::base_type(of);
    let has_bounds = |class: &OperatorClass| {
        class.input == of && KeyKind::of_class(class.family, class.input) == KeyKind::Order
    };
    operator_class::of_method(skip).into_iter().find(has_bounds).map(|class| class.name)
}

fn operator_class_name(class: pg_sys::Oid) -> Option<String> {
    // SAFETY: a syscache tuple, released after its contents were copied.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::CLAOID as i32, class.into());
        if tuple.is_null() {
            return None;
        }
        let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_opclass>();
        let name = text::of_server(form.opcname.data.as_ptr());
        pg_sys::ReleaseSysCache(tuple);
        Some(name)
    }
}
