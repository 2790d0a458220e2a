//! Conversion of errors between the server and Rust.
//!
//! The server raises an error by a jump to the nearest handler. Rust code has destructors to run. Therefore a jump
//! becomes a panic where it enters Rust, and the panic becomes a jump where it leaves Rust.
//!
//! | | |
//! |---|---|
//! | [`call`] | around a call into the server: an error becomes a panic |
//! | [`callback`] | around a function that the server calls: a panic becomes an error |
//! | [`fail`](super::fail) | an error of our own: a panic with a [`Report`] |
//!
//! While the panic unwinds, an error of the server stays on the server's error stack. It is then raised again
//! unchanged, with its context, position, names of constraints, and bytes of any encoding. Therefore code of others
//! (hooks of other extensions, functions of users, the executor below us) is called through [`super::server`], which
//! uses [`call`]. pgrx's own guard, which is around every function in `pg_sys`, copies an error's message, detail and
//! hint, and drops the rest. That is enough for the server's own errors about a page or a lock.
//!
//! Invariant: between [`call`] and the [`callback`] around it, only [`super::attempt`] catches a panic, and it takes
//! the error from the stack.

use super::alloc::new_context;
use super::ereport::{self, Report};
use super::text;
use cee_scape::{SigJmpBufFields, call_with_sigsetjmp};
use pgrx::pg_sys;
use pgrx::pg_sys::panic::{CaughtError, ErrorReport};
use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

// SAFETY: the signatures of elog.h. These functions leave by a jump.
unsafe extern "C-unwind" {
    fn pg_re_throw() -> !;
    fn ReThrowError(error: *mut pg_sys::ErrorData) -> !;
    fn CopyErrorData() -> *mut pg_sys::ErrorData;
}

/// The panic payload for an error of the server.
pub(super) enum Thrown {
    /// The error is the topmost one on the server's error stack.
    OnStack,
    /// The error was taken from the stack; the copy lives in a memory context of its own, outside of the
    /// subtransaction.
    Copied(ErrorCopy),
}

/// A copy of an error, and its memory context.
#[derive(Clone, Copy)]
pub(super) struct ErrorCopy {
    error: *mut pg_sys::ErrorData,
    memory: pg_sys::MemoryContext,
}

// SAFETY: a panic's payload must be Send, and the server has one thread.
unsafe impl Send for Thrown {}

/// Calls the server; an error that it raises becomes a panic here.
///
/// # Safety
/// `body` only calls the server: it has no values with destructors, and does not panic.
#[inline]
pub(super) unsafe fn call<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: the same steps as PG_TRY, in the same order: the caller's handlers are restored before anything else is
    // done.
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

/// Runs the body of a function that the server calls; a panic in it leaves as an error. This must be the whole body of
/// a function that the server has a pointer to, or of an SQL function. The frames above it have nothing to drop, so the
/// jump may skip them.
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
            // SAFETY: the error is on the stack, or is a copy that still exists; no value here has a destructor.
            unsafe {
                match thrown {
                    Thrown::OnStack => {
                        // Handlers expect ErrorContext as the current memory context, as errfinish sets it.
                        pg_sys::CurrentMemoryContext = pg_sys::ErrorContext;
                        pg_re_throw()
                    }
                    Thrown::Copied(copy) => ReThrowError(copy.error),
                }
            }
        }
        Err(payload) => payload,
    };
    ereport::raise(report_of(payload))
}

/// The report of a panic that is not an error of the server.
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

/// An error that [`super::attempt`] caught; it is not on the server's error stack any more.
pub(super) struct Caught {
    payload: Box<dyn Any + Send>,
    /// The copy of an error of the server.
    copy: Option<ErrorCopy>,
    /// Its SQLSTATE, in the packed form of elog.h.
    pub code: i32,
    /// Its message.
    pub message: String,
    /// Whether the server, or users' code, raised it; otherwise it is an error of this library.
    pub is_of_server: bool,
}

impl Caught {
    /// Takes a panic's error from the server's error stack, unless an attempt within this one has done so. The copy is
    /// made in a child of the current memory context: FreeErrorData leaves parts of it behind.
    pub fn new(payload: Box<dyn Any + Send>) -> Self {
        let copy = match payload.downcast_ref::<Thrown>() {
            None => {
                let is_of_server =
                    matches!(payload.downcast_ref::<CaughtError>(), Some(CaughtError::PostgresError(_)));
                let report = report_of(payload);
                let (code, message) = (report.code as i32, report.message.clone());
                return Self { payload: Box::new(report), copy: None, code, message, is_of_server };
            }
            Some(&Thrown::Copied(copy)) => copy,
            // SAFETY: the topmost error of the stack is the caught one.
            Some(Thrown::OnStack) => unsafe {
                let memory = new_context(pg_sys::CurrentMemoryContext, c"pg_skip caught error");
                let before = pg_sys::MemoryContextSwitchTo(memory);
                let error = CopyErrorData();
                pg_sys::MemoryContextSwitchTo(before);
                pg_sys::FlushErrorState();
                ErrorCopy { error, memory }
            },
        };
        // SAFETY: the copy still exists; its message is NUL-terminated, or NULL.
        let (code, message) = unsafe { ((*copy.error).sqlerrcode, text::of_server((*copy.error).message)) };
        let payload = Box::new(Thrown::Copied(copy));
        Self { payload, copy: Some(copy), code, message, is_of_server: true }
    }

    /// Ends the error here: returns its SQLSTATE and its message.
    pub fn end(self) -> (i32, String) {
        if let Some(copy) = self.copy {
            // SAFETY: made in new(), deleted once, because the payload goes no further.
            unsafe { pg_sys::MemoryContextDelete(copy.memory) };
        }
        (self.code, self.message)
    }

    /// Lets the error continue.
    pub fn rethrow(self) -> ! {
        resume_unwind(self.payload)
    }
}

/// Stops pgrx's panic hook from taking a backtrace of each error and adding it to the error's detail.
pub fn quiet_panics() {
    static QUIET: std::sync::Once = std::sync::Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| ())));
}
