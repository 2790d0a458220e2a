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

    /// Whether the disk is full.
    pub fn is_of_full_disk(&self) -> bool {
        self.code == PgSqlErrorCode::ERRCODE_DISK_FULL as i32
    }
}

/// Runs `work`. An ERROR in it is rolled back, and returned. A cancelled query stays cancelled.
///
/// # Errors
/// The ERROR.
pub fn attempt<R>(work: impl FnOnce() -> R) -> Result<R, Failed> {
    catching(work, |caught| caught.code != PgSqlErrorCode::ERRCODE_QUERY_CANCELED as i32)
}

/// Runs `work`, which reads values. An ERROR that data is damaged or missing is rolled back, and returned; any other
/// one ends the query.
///
/// # Errors
/// The ERROR.
pub fn attempt_to_read<R>(work: impl FnOnce() -> R) -> Result<R, Failed> {
    // The server calls some damage internal errors: a compression method that does not exist, a length above 1 GB.
    catching(work, |caught| {
        caught.code == PgSqlErrorCode::ERRCODE_DATA_CORRUPTED as i32
            || caught.is_of_server && caught.code == PgSqlErrorCode::ERRCODE_INTERNAL_ERROR as i32
    })
}

/// Runs `work`. An ERROR that the server is short of something is rolled back, and returned: of disk space, of memory,
/// of what `temp_file_limit` allows, or of transaction IDs (and what else has the same code). Any other one ends the
/// query.
///
/// # Errors
/// The ERROR.
pub fn attempt_within_limits<R>(work: impl FnOnce() -> R) -> Result<R, Failed> {
    /// The class of a SQLSTATE: its first two characters, of 6 bits each (ERRCODE_TO_CATEGORY).
    const CLASS: i32 = (1 << 12) - 1;
    /// The code of GetNewTransactionId.
    const NO_TRANSACTION_ID: i32 = PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED as i32;
    catching(work, |caught| {
        caught.code & CLASS == PgSqlErrorCode::ERRCODE_INSUFFICIENT_RESOURCES as i32 & CLASS
            || caught.code == NO_TRANSACTION_ID
    })
}

/// Runs `work`, and returns its ERROR if `is_caught` says so.
fn catching<R>(work: impl FnOnce() -> R, is_caught: fn(&Caught) -> bool) -> Result<R, Failed> {
    let outcome = if needs_outer() {
        // If the server cannot begin the inner one or end the outer one, the query ends.
        in_subtransaction(|| in_subtransaction(work)).unwrap_or_else(|caught| caught.rethrow())
    } else {
        in_subtransaction(work)
    };
    outcome.map_err(|caught| {
        if !is_caught(&caught) {
            caught.rethrow();
        }
        let (code, message) = caught.end();
        Failed { code, message }
    })
}

/// Runs `work` in a subtransaction. An ERROR in it, or while the subtransaction is released, is rolled back: then the
/// current transaction is the same again as before, as handlers around this one expect.
fn in_subtransaction<R>(work: impl FnOnce() -> R) -> Result<R, Caught> {
    // SAFETY: plain globals of the server, restored below, because beginning and ending a subtransaction change both.
    // It begins inside a transaction, as every query does, and is released or rolled back below. An error here is not
    // caught: without a subtransaction there is none to roll back.
    let (context, owner) = unsafe {
        let before = (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner);
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(before.0);
        before
    };
    let whole = || {
        let result = work();
        // SAFETY: ends the subtransaction that was begun above.
        unsafe { pg_sys::ReleaseCurrentSubTransaction() };
        result
    };
    let outcome = catch_unwind(AssertUnwindSafe(whole)).map_err(|payload| {
        // SAFETY: the context outlives the subtransaction; the copy of the error is allocated in it. The subtransaction
        // in which the ERROR was raised is the current one.
        unsafe {
            pg_sys::MemoryContextSwitchTo(context);
            let caught = Caught::new(payload);
            let shown = ShownProgress::of_command();
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
            if let Some(shown) = shown {
                shown.restore();
            }
            caught
        }
    });
    // SAFETY: both were current before, and outlive the subtransaction.
    unsafe {
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
    }
    outcome
}

/// What the views pg_stat_progress_* show of the command: a subtransaction's rollback ends that, but not the command.
struct ShownProgress {
    command: pg_sys::ProgressCommandType::Type,
    target: pg_sys::Oid,
    params: [i64; pg_sys::PGSTAT_NUM_PROGRESS_PARAM as usize],
}

impl ShownProgress {
    fn of_command() -> Option<Self> {
        // SAFETY: this process's entry, if it has one; only this process changes it.
        let entry = unsafe { pg_sys::MyBEEntry.as_ref()? };
        let command = entry.st_progress_command;
        let (target, params) = (entry.st_progress_command_target, entry.st_progress_param);
        (command != pg_sys::ProgressCommandType::PROGRESS_COMMAND_INVALID).then_some(Self {
            command,
            target,
            params,
        })
    }

    fn restore(&self) {
        let numbers: [i32; pg_sys::PGSTAT_NUM_PROGRESS_PARAM as usize] = std::array::from_fn(|i| i as i32);
        // SAFETY: sets the fields of this process's entry; both arrays have as many elements as the entry.
        unsafe {
            pg_sys::pgstat_progress_start_command(self.command, self.target);
            pg_sys::pgstat_progress_update_multi_param(
                numbers.len() as i32,
                numbers.as_ptr(),
                self.params.as_ptr(),
            );
        }
    }
}

/// Whether a subtransaction must be inside of another one, so that it may be rolled back: deferred triggers, cursors
/// WITH HOLD and [`super::at_commit`] run code while their transaction commits, and a server with assertions does not
/// expect a rollback right below a transaction that does. The server does not tell whether it commits.
fn needs_outer() -> bool {
    // SAFETY: both read the transaction's state.
    let is_outermost =
        unsafe { pg_sys::GetCurrentTransactionNestLevel() == 1 && pg_sys::IsTransactionBlock() };
    is_outermost && !catalog::in_parallel_mode()
}
