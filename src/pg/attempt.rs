//! Work that may fail without the query failing: a subtransaction around it, as PL/pgSQL's EXCEPTION has.

use super::boundary::Caught;
use super::{catalog, compat};
use pgrx::{PgSqlErrorCode, pg_sys};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Whether `attempt` can be made here: before PostgreSQL 17 not while processes work in parallel.
pub fn is_possible() -> bool {
    compat::HAS_PARALLEL_SUBTRANSACTIONS || !catalog::in_parallel_mode()
}

/// Runs `work`; an ERROR in it is rolled back and comes back as its message. A cancelled query stays cancelled.
///
/// # Errors
/// The message of the ERROR.
pub fn attempt<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    // SAFETY: plain globals of the server, restored below: beginning and ending a subtransaction change both.
    let (context, owner) = unsafe { (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner) };
    let restore = || {
        // SAFETY: both were current before and outlive the subtransaction.
        unsafe {
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::CurrentResourceOwner = owner;
        }
    };
    // Not part of what is caught: without a subtransaction there is none to roll back.
    // SAFETY: inside a transaction, as every query is; released or rolled back below. The context outlives it.
    unsafe {
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
    }
    let whole = || {
        let result = work();
        // SAFETY: ends what was begun above.
        unsafe { pg_sys::ReleaseCurrentSubTransaction() };
        restore();
        result
    };
    let payload = match catch_unwind(AssertUnwindSafe(whole)) {
        Ok(result) => return Ok(result),
        Err(payload) => payload,
    };
    // SAFETY: the context outlives the subtransaction; it keeps what is known of the error.
    unsafe { pg_sys::MemoryContextSwitchTo(context) };
    let caught = Caught::new(payload);
    // SAFETY: the subtransaction that the ERROR left is the current one.
    unsafe { pg_sys::RollbackAndReleaseCurrentSubTransaction() };
    restore();
    if caught.code == PgSqlErrorCode::ERRCODE_QUERY_CANCELED as i32 {
        caught.rethrow();
    }
    Err(caught.message)
}
