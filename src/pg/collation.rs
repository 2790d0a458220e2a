//! What the catalog says of collations: whether they compare strings byte by byte, and how an ICU collation is defined.

use super::{compat, text};
use pgrx::pg_sys::{self, Oid};

/// The providers of pg_collation and pg_database.
const LIBC: u8 = b'c';
const DATABASE: u8 = b'd';
/// Since version 17. All of its collations compare bytes: the order of UTF-8 is that of characters.
const BUILTIN: u8 = b'b';

/// Whether a collation compares strings by their bytes, a shorter one being less than one that continues it.
pub fn is_bytewise(collation: Oid) -> bool {
    if collation == pg_sys::C_COLLATION_OID {
        return true;
    }
    // SAFETY: reads the columns of a tuple of pg_collation, whose row struct is FormData_pg_collation; if that says so,
    // of one of pg_database. Tuples are released after that.
    unsafe {
        let row = |cache, oid: Oid| pg_sys::SearchSysCache1(cache, oid.into());
        let tuple = row(pg_sys::SysCacheIdentifier::COLLOID as i32, collation);
        if tuple.is_null() {
            return false;
        }
        let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_collation>();
        let (provider, is_deterministic) = (form.collprovider as u8, form.collisdeterministic);
        let column = pg_sys::Anum_pg_collation_collcollate as i32;
        let is_of_bytes =
            is_bytewise_by(provider, || is_c(pg_sys::SysCacheIdentifier::COLLOID as i32, tuple, column));
        pg_sys::ReleaseSysCache(tuple);
        if provider != DATABASE {
            return is_deterministic && is_of_bytes;
        }
        let tuple = row(pg_sys::SysCacheIdentifier::DATABASEOID as i32, pg_sys::MyDatabaseId);
        if tuple.is_null() {
            return false;
        }
        let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
        let column = pg_sys::Anum_pg_database_datcollate as i32;
        let is_of_bytes = is_bytewise_by(form.datlocprovider as u8, || {
            is_c(pg_sys::SysCacheIdentifier::DATABASEOID as i32, tuple, column)
        });
        pg_sys::ReleaseSysCache(tuple);
        is_of_bytes
    }
}

fn is_bytewise_by(provider: u8, is_c: impl FnOnce() -> bool) -> bool {
    match provider {
        LIBC => is_c(),
        BUILTIN => true,
        _ => false,
    }
}

/// Whether a column of a tuple has the name of the C locale.
///
/// # Safety
/// As [`text_of`].
unsafe fn is_c(cache: i32, tuple: pg_sys::HeapTuple, column: i32) -> bool {
    // SAFETY: as the caller promises.
    let name = unsafe { text_of(cache, tuple, column) };
    name.is_some_and(|name| matches!(name.as_str(), "C" | "POSIX"))
}

/// The locale of an ICU collation, and its rules if it has any: two collations for which these and the version of ICU
/// are the same take the same strings as equal. Empty for other collations.
pub fn definition(collation: Oid) -> String {
    let cache = pg_sys::SysCacheIdentifier::COLLOID as i32;
    let (locale, rules) = compat::collation_columns();
    // SAFETY: reads columns of type text of a tuple of pg_collation, which is released after that.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(cache, collation.into());
        if tuple.is_null() {
            return String::new();
        }
        let locale = text_of(cache, tuple, locale as i32).unwrap_or_default();
        let rules = rules.and_then(|rules| text_of(cache, tuple, rules as i32));
        pg_sys::ReleaseSysCache(tuple);
        match rules {
            Some(rules) => format!("{locale}, rules {rules}"),
            None => locale,
        }
    }
}

/// The text in a column of a tuple; None for NULL.
///
/// # Safety
/// `tuple` is one of the cache, and `column` a column of type text.
unsafe fn text_of(cache: i32, tuple: pg_sys::HeapTuple, column: i32) -> Option<String> {
    // SAFETY: as the caller promises; the string is palloc'd.
    unsafe {
        let mut is_null = false;
        let value = pg_sys::SysCacheGetAttr(cache, tuple, column as _, &mut is_null);
        (!is_null).then(|| text::of_server(pg_sys::text_to_cstring(value.cast_mut_ptr())))
    }
}
