//! Runs work that may fail without failing the query, in a subtransaction like PL/pgSQL's EXCEPTION.

use super::boundary::Caught;
use super::{catalog, compat};
use pgrx::{PgSqlErrorCode, pg_sys};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Whether `attempt` is possible now: before PostgreSQL 17 it is not in parallel mode.
pub fn is_possible() -> bool {
    compat::HAS_PARALLEL_SUBTRANSACTIONS || !catalog::in_parallel_mode()
}

/// The ERROR of an attempt.
pub struct Failed {
    /// Its SQLSTATE, in the packed form of elog.h.
    code: i32,
    /// Its message.
    pub message: String,
}

impl Failed {
    /// Whether the server found data damaged or missing, such as a part of a value out of line.
    pub fn is_data_corrupted(&self) -> bool {
        self.code == PgSqlErrorCode::ERRCODE_DATA_CORRUPTED as i32
    }
}

/// Runs `work`. An ERROR in it is rolled back, and returned. A cancelled query stays cancelled.
///
/// # Errors
/// The ERROR.
pub fn attempt<R>(work: impl FnOnce() -> R) -> Result<R, Failed> {
    catching(work, |code| code != PgSqlErrorCode::ERRCODE_QUERY_CANCELED as i32)
}

/// Runs `work`, whose effects no rollback undoes. In parallel mode the subtransaction is rolled back in any case: to
/// release it would count commands, which a leader must not. It is not rolled back at other times, because deferred
/// triggers run queries while their transaction commits, and a server with assertions stops if a subtransaction is
/// rolled back there. As with every subtransaction that fails, the rollback releases all page locks, and the progress
/// of a command is not reported any further.
///
/// # Errors
/// The ERROR.
pub fn attempt_in_any_mode<R>(work: impl FnOnce() -> R) -> Result<R, Failed> {
    let end = if catalog::in_parallel_mode() { OnSuccess::RollBack } else { OnSuccess::Release };
    in_subtransaction(work, |code| code != PgSqlErrorCode::ERRCODE_QUERY_CANCELED as i32, end)
}

/// Runs `work`, which reads values. An ERROR that data is damaged or missing is rolled back, and returned; any other
/// one ends the query.
///
/// # Errors
/// The ERROR.
pub fn attempt_to_read<R>(work: impl FnOnce() -> R) -> Result<R, Failed> {
    catching(work, |code| code == PgSqlErrorCode::ERRCODE_DATA_CORRUPTED as i32)
}

/// How a subtransaction ends without an ERROR.
enum OnSuccess {
    Release,
    RollBack,
}

/// Runs `work`, and returns its ERROR if `is_caught` says so of the SQLSTATE.
fn catching<R>(work: impl FnOnce() -> R, is_caught: fn(i32) -> bool) -> Result<R, Failed> {
    in_subtransaction(work, is_caught, OnSuccess::Release)
}

fn in_subtransaction<R>(
    work: impl FnOnce() -> R,
    is_caught: fn(i32) -> bool,
    on_success: OnSuccess,
) -> Result<R, Failed> {
    // SAFETY: plain globals of the server, restored below, because beginning and ending a subtransaction change both.
    let (context, owner) = unsafe { (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner) };
    let restore = || {
        // SAFETY: both were current before and outlive the subtransaction.
        unsafe {
            pg_sys::MemoryContextSwitchTo(context);
            pg_sys::CurrentResourceOwner = owner;
        }
    };
    // An error here is not caught: without a subtransaction there is none to roll back.
    // SAFETY: inside a transaction, as every query is; released or rolled back below. The context outlives it.
    unsafe {
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
    }
    let whole = || {
        let result = work();
        // SAFETY: ends the subtransaction that was begun above.
        unsafe {
            match on_success {
                OnSuccess::Release => pg_sys::ReleaseCurrentSubTransaction(),
                OnSuccess::RollBack => pg_sys::RollbackAndReleaseCurrentSubTransaction(),
            }
        }
        restore();
        result
    };
    let payload = match catch_unwind(AssertUnwindSafe(whole)) {
        Ok(result) => return Ok(result),
        Err(payload) => payload,
    };
    // SAFETY: the context outlives the subtransaction; the copy of the error is allocated in it.
    unsafe { pg_sys::MemoryContextSwitchTo(context) };
    let caught = Caught::new(payload);
    // SAFETY: the subtransaction in which the ERROR was raised is the current one.
    unsafe { pg_sys::RollbackAndReleaseCurrentSubTransaction() };
    restore();
    if !is_caught(caught.code) {
        caught.rethrow();
    }
    Err(Failed { code: caught.code, message: caught.message })
}
