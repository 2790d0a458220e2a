//! Reading of PostgreSQL's lists.

use pgrx::pg_sys;

/// # Safety
/// `list` is NULL or a list that outlives the iterator.
unsafe fn cells(list: *mut pg_sys::List) -> impl Iterator<Item = pg_sys::ListCell> {
    // SAFETY: the list is not NULL, so it has a length.
    let count = if list.is_null() { 0 } else { unsafe { (*list).length } };
    // SAFETY: i is below the list's length.
    (0..count).map(move |i| unsafe { *(*list).elements.add(i as usize) })
}

/// The elements of a list of pointers.
///
/// # Safety
/// `list` is NULL or a pointer list of `T` that outlives the iterator.
pub(super) unsafe fn list<T>(list: *mut pg_sys::List) -> impl Iterator<Item = *mut T> {
    // SAFETY: the cells of such a list hold pointers, and callers know their type: each list of the server's structures
    // holds only one type.
    unsafe { cells(list).map(|cell| cell.ptr_value.cast::<T>()) }
}

/// The elements of a list of OIDs.
///
/// # Safety
/// `list` is NULL or a list of OIDs.
pub(super) unsafe fn oids(list: *mut pg_sys::List) -> Vec<pg_sys::Oid> {
    // SAFETY: the cells of such a list hold OIDs.
    unsafe { cells(list).map(|cell| cell.oid_value).collect() }
}

/// The elements of a list of integers.
///
/// # Safety
/// `list` is NULL or a list of integers.
pub(super) unsafe fn integers(list: *mut pg_sys::List) -> Vec<i32> {
    // SAFETY: the cells of such a list hold integers.
    unsafe { cells(list).map(|cell| cell.int_value).collect() }
}
