//! Operator classes, as the catalog has them: one, those of an access method, and those that have an operator.

use super::{catalog, text};
use pgrx::pg_sys;

/// An operator class.
pub struct OperatorClass {
    pub name: String,
    /// The name as SQL needs it, with the schema if the search path does not find it.
    pub in_sql: String,
    pub family: pg_sys::Oid,
    pub input: pg_sys::Oid,
}

/// Looks an operator class up.
pub fn by_oid(oid: pg_sys::Oid) -> Option<OperatorClass> {
    // SAFETY: a syscache tuple, released after its contents were copied.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::CLAOID as i32, oid.into());
        if tuple.is_null() {
            return None;
        }
        let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_opclass>();
        let class = class_of(form);
        pg_sys::ReleaseSysCache(tuple);
        Some(class)
    }
}

fn class_of(form: &pg_sys::FormData_pg_opclass) -> OperatorClass {
    let name = form.opcname.data.as_ptr();
    // SAFETY: catalog lookups; NUL-terminated strings. A NULL schema is left out.
    unsafe {
        let is_found = pg_sys::OpclassIsVisible(form.oid);
        let schema = if is_found { std::ptr::null() } else { pg_sys::get_namespace_name(form.opcnamespace) };
        let in_sql = text::of_server(pg_sys::quote_qualified_identifier(schema, name));
        OperatorClass { name: text::of_server(name), in_sql, family: form.opcfamily, input: form.opcintype }
    }
}

/// The operator classes of an access method.
pub fn of_method(method: pg_sys::Oid) -> Vec<OperatorClass> {
    // SAFETY: a syscache list of pg_opclass, released after its contents were copied.
    unsafe {
        let none = pg_sys::Datum::null();
        let cache = pg_sys::SysCacheIdentifier::CLAAMNAMENSP as i32;
        let list = pg_sys::SearchSysCacheList(cache, 1, method.into(), none, none);
        let count = usize::try_from((*list).n_members).unwrap_or(0);
        let class = |i| {
            let member = *(*list).members.as_ptr().add(i);
            let form = &*pg_sys::GETSTRUCT(&raw mut (*member).tuple).cast::<pg_sys::FormData_pg_opclass>();
            class_of(form)
        };
        let classes = (0..count).map(class).collect();
        pg_sys::ReleaseCatCacheList(list);
        classes
    }
}

/// Names of the operator classes of an access method that have an operator, in order: those for the operator's left
/// type, or, if there is none, all of their family.
pub fn with_operator(operator: pg_sys::Oid, method: pg_sys::Oid) -> Vec<String> {
    let mut having = of_method(method);
    having.retain(|class| catalog::is_in_family(operator, class.family));
    // CREATE INDEX takes no other class of the family for a column of this type.
    let left = catalog::operator_types(operator).map(|(left, ..)| left);
    if having.iter().any(|class| Some(class.input) == left) {
        having.retain(|class| Some(class.input) == left);
    }
    let mut names: Vec<String> = having.into_iter().map(|class| class.name).collect();
    names.sort_unstable();
    names
}
