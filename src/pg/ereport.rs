//! The server's ereport: an error with SQLSTATE, message, detail and hint, converted to the database's encoding. Errors
//! of our own are panics with a [`Report`] until [`super::boundary::callback`] raises them.

use super::text;
use pgrx::pg_sys::panic::CaughtError;
use pgrx::{PgLogLevel, PgSqlErrorCode, pg_sys};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io::Write;
use std::panic::Location;

/// An error before it is raised.
#[derive(Debug)]
pub struct Report {
    /// Its SQLSTATE.
    pub code: PgSqlErrorCode,
    /// What happened.
    pub message: String,
    /// Facts.
    pub detail: Option<String>,
    /// Advice.
    pub hint: Option<String>,
    /// Source file and line where it was raised.
    pub place: Option<(String, u32)>,
}

impl Report {
    /// A report of an error that is raised here.
    #[track_caller]
    pub fn new(code: PgSqlErrorCode, message: String, detail: Option<String>, hint: Option<String>) -> Self {
        let place = Location::caller();
        Self { code, message, detail, hint, place: Some((place.file().to_owned(), place.line())) }
    }

    /// A bug: an error with an internal SQLSTATE.
    pub(super) fn internal(message: String) -> Self {
        Self { code: PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, message, detail: None, hint: None, place: None }
    }

    /// Raises it as an ERROR: a panic that [`super::boundary::callback`] passes to the server.
    pub fn raise(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }
}

/// The report of an error that pgrx's guard caught, or that pgrx itself raised.
pub(super) fn of_pgrx(caught: &CaughtError) -> Report {
    let (CaughtError::PostgresError(error)
    | CaughtError::ErrorReport(error)
    | CaughtError::RustPanic { ereport: error, .. }) = caught;
    Report {
        code: error.sql_error_code(),
        message: error.message().to_owned(),
        detail: error.detail().map(str::to_owned),
        hint: error.hint().map(str::to_owned),
        place: Some((error.file().to_owned(), error.line_number())),
    }
}

/// Raises a report in the server as an ERROR. It leaves by a jump, so no caller's frame may need dropping.
pub(super) fn raise(report: Report) -> ! {
    let texts = Texts::of(&report).palloced();
    drop(report);
    // SAFETY: palloc'd strings, which the server copies; an ERROR does not return.
    unsafe {
        emit(PgLogLevel::ERROR as c_int, &texts);
    }
    std::process::abort()
}

/// Ends the session with a FATAL error, because the system has refused `size` bytes. Allocates nothing, but what the
/// server has reserved for errors.
#[cold]
pub(super) fn end_session_without_memory(size: usize) -> ! {
    const LONGEST: usize = 64;
    let mut detail = [0u8; LONGEST];
    // The text is shorter, and the last byte stays 0.
    let _ = write!(&mut detail[..LONGEST - 1], "pg_skip failed on request of size {size}.");
    let texts = Texts {
        code: PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as c_int,
        message: c"out of memory",
        detail: CStr::from_bytes_until_nul(&detail).ok(),
        hint: Some(c"Lower maintenance_work_mem, work_mem or max_connections."),
        file: c"pg_skip",
        line: 0,
    };
    // SAFETY: NUL-terminated strings. A FATAL error ends the process: no frame is left by a jump.
    unsafe { emit(PgLogLevel::FATAL as c_int, &texts) }
    std::process::abort()
}

/// A report in the database's encoding.
pub(super) struct Texts<T> {
    code: c_int,
    message: T,
    detail: Option<T>,
    hint: Option<T>,
    file: &'static CStr,
    line: c_int,
}

impl Texts<CString> {
    pub fn of(report: &Report) -> Self {
        let (file, line) = report.place.as_ref().map_or((c"pg_skip", 0), |(file, line)| (kept(file), *line));
        Self {
            code: report.code as c_int,
            message: text::to_server(&report.message),
            detail: report.detail.as_deref().map(text::to_server),
            hint: report.hint.as_deref().map(text::to_server),
            file,
            line: i32::try_from(line).unwrap_or(0),
        }
    }

    /// The same in memory of the server, which need not be dropped.
    fn palloced(self) -> Texts<&'static CStr> {
        // SAFETY: copies a NUL-terminated string into ErrorContext, which is reset when the error has been handled.
        let copy = |text: CString| unsafe {
            CStr::from_ptr(pg_sys::MemoryContextStrdup(pg_sys::ErrorContext, text.as_ptr()))
        };
        let Self { code, message, detail, hint, file, line } = self;
        Texts { code, message: copy(message), detail: detail.map(copy), hint: hint.map(copy), file, line }
    }
}

/// A copy of a file's name that is never freed, because the server keeps pointers to the names in errors. There is at
/// most one copy for each source file.
fn kept(file: &str) -> &'static CStr {
    thread_local! {
        static NAMES: RefCell<HashMap<String, &'static CStr>> = RefCell::default();
    }
    let leaked = || &*Box::leak(CString::new(file).unwrap_or_default().into_boxed_c_str());
    NAMES.with_borrow_mut(|names| *names.entry(file.to_owned()).or_insert_with(leaked))
}

// SAFETY: signatures of elog.h.
unsafe extern "C-unwind" {
    fn errstart(level: c_int, domain: *const c_char) -> bool;
    fn errcode(code: c_int) -> c_int;
    fn errmsg_internal(format: *const c_char, ...) -> c_int;
    fn errdetail_internal(format: *const c_char, ...) -> c_int;
    fn errhint(format: *const c_char, ...) -> c_int;
    fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
}

/// The same as the macro ereport.
///
/// # Safety
/// An ERROR leaves by a jump; at lower levels, an interrupt may.
pub(super) unsafe fn emit<T: AsRef<CStr>>(level: c_int, texts: &Texts<T>) {
    const FORMAT: *const c_char = c"%s".as_ptr();
    // SAFETY: NUL-terminated strings for a format of one string.
    unsafe {
        if !errstart(level, std::ptr::null()) {
            return;
        }
        errcode(texts.code);
        errmsg_internal(FORMAT, texts.message.as_ref().as_ptr());
        if let Some(detail) = &texts.detail {
            errdetail_internal(FORMAT, detail.as_ref().as_ptr());
        }
        if let Some(hint) = &texts.hint {
            errhint(FORMAT, hint.as_ref().as_ptr());
        }
        errfinish(texts.file.as_ptr(), texts.line, std::ptr::null());
    }
}
