//! Errors on their way between the server and Rust.
//!
//! The server raises an error by a jump to the nearest handler. Rust code has destructors to run, so a jump must become
//! a panic where it enters Rust, and a jump again where it leaves.
//!
//! | | |
//! |---|---|
//! | [`call`] | around a call into the server: an error becomes a panic |
//! | [`callback`] | around what the server calls: a panic becomes an error |
//! | [`fail`](super::fail) | an error of our own: a panic with a [`Report`] |
//!
//! An error that the server raised stays where it is, on the server's stack of errors, while the panic unwinds, and is
//! raised again as it was: context, position, names of constraints, bytes of any encoding. That is why code that others
//! wrote (other extensions' hooks, functions of users, the executor below us) is called through [`super::server`],
//! which uses [`call`]. pgrx's own guard, which is around everything in `pg_sys`, copies an error's message, detail and
//! hint, and drops the rest. That is enough for what the server itself says of a page or a lock.
//!
//! Invariant: between [`call`] and the [`callback`] around it nobody catches a panic but [`super::attempt`], which ends
//! the error's stay.

use super::ereport::{self, Report};
use super::text;
use cee_scape::{SigJmpBufFields, call_with_sigsetjmp};
use pgrx::pg_sys;
use pgrx::pg_sys::panic::{CaughtError, ErrorReport};
use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

// SAFETY: signatures of elog.h. They leave by a jump.
unsafe extern "C-unwind" {
    fn pg_re_throw() -> !;
    fn ReThrowError(error: *mut pg_sys::ErrorData) -> !;
    fn CopyErrorData() -> *mut pg_sys::ErrorData;
}

/// The panic that stands for an error of the server's.
pub(super) enum Thrown {
    /// It is the topmost on the server's stack of errors.
    OnStack,
    /// It was taken from there; the copy lives in the memory of the subtransaction's surroundings.
    Copied(*mut pg_sys::ErrorData),
}

// SAFETY: a panic's payload must be Send; the server has one thread.
unsafe impl Send for Thrown {}

/// Calls the server; an error that it raises unwinds as a panic from here.
///
/// # Safety
/// `body` does nothing but call the server: it has no values with destructors, and does not panic.
#[inline]
pub(super) unsafe fn call<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: what PG_TRY does, and in its order: the handlers are the caller's again before anything else is done.
    unsafe {
        let context = pg_sys::CurrentMemoryContext;
        let handler = pg_sys::PG_exception_stack;
        let contexts = pg_sys::error_context_stack;
        let mut result = MaybeUninit::uninit();
        let jumped = call_with_sigsetjmp(false, |buffer| {
            pg_sys::PG_exception_stack = std::ptr::from_ref::<SigJmpBufFields>(buffer).cast_mut().cast();
            result.write(body());
            0
        });
        pg_sys::PG_exception_stack = handler;
        pg_sys::error_context_stack = contexts;
        if jumped == 0 {
            return result.assume_init();
        }
        pg_sys::CurrentMemoryContext = context;
    }
    resume_unwind(Box::new(Thrown::OnStack))
}

/// What the server calls; a panic in it leaves as an error. It is the whole body of a function that the server has a
/// pointer to, or of an SQL function: frames above it have nothing to drop, so the jump may pass them.
#[inline]
pub fn callback<R>(body: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => raise(payload),
    }
}

#[cold]
fn raise(payload: Box<dyn Any + Send>) -> ! {
    let payload = match payload.downcast::<Thrown>() {
        Ok(thrown) => {
            let thrown = *thrown; // the box is freed before the jump
            // SAFETY: the error is on the stack, or a copy of one that lives; nothing here needs dropping.
            unsafe {
                match thrown {
                    Thrown::OnStack => {
                        // Handlers expect the memory that errfinish left to be current.
                        pg_sys::CurrentMemoryContext = pg_sys::ErrorContext;
                        pg_re_throw()
                    }
                    Thrown::Copied(error) => ReThrowError(error),
                }
            }
        }
        Err(payload) => payload,
    };
    ereport::raise(report_of(payload))
}

/// What a panic says, that is not an error of the server's.
fn report_of(payload: Box<dyn Any + Send>) -> Report {
    let payload = match payload.downcast::<Report>() {
        Ok(report) => return *report,
        Err(payload) => payload,
    };
    let payload = match payload.downcast::<CaughtError>() {
        Ok(caught) => return ereport::of_pgrx(&caught),
        Err(payload) => payload,
    };
    let payload = match payload.downcast::<ErrorReport>() {
        Ok(report) => return Report::internal(report.message().to_owned()),
        Err(payload) => payload,
    };
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
    Report::internal(text.unwrap_or_else(|| "an error without a message".into()))
}

/// What [`super::attempt`] caught: the error is off the server's stack afterwards.
pub(super) struct Caught {
    payload: Box<dyn Any + Send>,
    /// Its SQLSTATE, as elog.h packs it.
    pub code: i32,
    /// Its message.
    pub message: String,
}

impl Caught {
    /// Takes a panic's error from the server's stack. The memory context that is current keeps the copy.
    pub fn new(payload: Box<dyn Any + Send>) -> Self {
        if !payload.is::<Thrown>() {
            let report = report_of(payload);
            let (code, message) = (report.code as i32, report.message.clone());
            return Self { payload: Box::new(report), code, message };
        }
        // SAFETY: the topmost error of the stack is the one that was caught; its message is NUL-terminated, or NULL.
        unsafe {
            let copy = CopyErrorData();
            pg_sys::FlushErrorState();
            let message = text::of_server((*copy).message);
            Self { payload: Box::new(Thrown::Copied(copy)), code: (*copy).sqlerrcode, message }
        }
    }

    /// Lets it go on.
    pub fn rethrow(self) -> ! {
        resume_unwind(self.payload)
    }
}

/// Keeps pgrx's hook from taking a backtrace of each error, which it would add to the error's detail.
pub fn quiet_panics() {
    static QUIET: std::sync::Once = std::sync::Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| ())));
}
