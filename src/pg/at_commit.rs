//! Upkeep of indexes that a transaction leaves to its end: right before the commit, in the same transaction.
//!
//! At that moment deferred triggers have run, and pages and catalogs can still be read and written. An error that the
//! work does not catch makes the transaction fail, as one in the insert would have. What is due is forgotten by
//! ROLLBACK and by PREPARE TRANSACTION: it is upkeep, which later inserts or VACUUM do as well.

use super::relation::{self, OpenRel};
use super::{Rel, boundary};
use pgrx::pg_sys;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;

/// Upkeep of an index of a table.
pub type Work = fn(heap: Rel, index: Rel);

thread_local! {
    /// Whether the server knows [`at_end`].
    static IS_REGISTERED: Cell<bool> = const { Cell::new(false) };
    /// The indexes with work due. Reserved when work is added, so that the end of a transaction allocates nothing.
    static DUE: RefCell<Vec<(pg_sys::Oid, Work)>> = const { RefCell::new(Vec::new()) };
}

/// Does `work` on an index before the current transaction commits, once, however often it is asked for.
pub fn before_commit(index: Rel, work: Work) {
    if !IS_REGISTERED.replace(true) {
        // SAFETY: a function of this library, which is never unloaded.
        unsafe { pg_sys::RegisterXactCallback(Some(at_end), std::ptr::null_mut()) }
    }
    DUE.with_borrow_mut(|due| {
        if due.iter().all(|&(oid, other)| oid != index.oid() || !std::ptr::fn_addr_eq(other, work)) {
            due.push((index.oid(), work));
        }
    });
}

unsafe extern "C-unwind" fn at_end(event: pg_sys::XactEvent::Type, _arg: *mut c_void) {
    // It is borrowed if the session ends because there is no memory for it ([`super::allocator`]).
    let due =
        DUE.with(|due| due.try_borrow_mut().map(|mut due| std::mem::take(&mut *due)).unwrap_or_default());
    if due.is_empty() {
        return;
    }
    if event == pg_sys::XactEvent::XACT_EVENT_PRE_COMMIT {
        boundary::callback(|| due.into_iter().for_each(|(index, work)| with_open(index, work)));
    }
}

/// Calls `work` with an index and its table, unless they are gone or somebody else has locked them. A subtransaction
/// that was rolled back may have created the index, or have released the lock that its insert had taken.
fn with_open(index: pg_sys::Oid, work: Work) {
    let Some(index) = OpenRel::if_free(index) else { return };
    let table = relation::table_of(index.rel().oid()).and_then(OpenRel::if_free);
    if let Some(table) = table {
        // Values that are stored out of line are read with a snapshot.
        // SAFETY: the transaction has not ended; the snapshot is popped below, or by the abort.
        unsafe { pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot()) };
        work(table.rel(), index.rel());
        // SAFETY: pushed above; `work` leaves the stack as it was.
        unsafe { pg_sys::PopActiveSnapshot() };
        table.keep_lock();
    }
    index.keep_lock();
}
