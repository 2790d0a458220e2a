//! Errors with SQLSTATE, message, detail and hint.

use super::{Rel, boundary, text};
use pgrx::pg_sys::panic::CaughtError;
use pgrx::{PgLogLevel, PgSqlErrorCode, pg_sys};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::Location;

/// Damage found in an index: which block, and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Damage {
    /// Block number in the index's main fork.
    pub block: u32,
    /// The end of the sentence "index … block …: ".
    pub what: String,
}

impl Damage {
    /// Damage in `block`.
    pub fn new(block: u32, what: impl Into<String>) -> Self {
        Self { block, what: what.into() }
    }

    /// Raises `ERRCODE_INDEX_CORRUPTED`, naming the index and the block.
    #[track_caller]
    pub fn raise(&self, index: Rel) -> ! {
        fail(
            PgSqlErrorCode::ERRCODE_INDEX_CORRUPTED,
            format!("index \"{}\" is damaged at block {}", index.name(), self.block),
            Some(self.what.clone()),
            Some(format!("REINDEX INDEX {}; rebuilds it from the table.", index.qualified_name())),
        )
    }
}

/// Result of reading index pages.
pub type Read<T> = Result<T, Damage>;

/// Raises the damage, if any, as an error of `index`.
pub fn or_raise<T>(index: Rel, result: Read<T>) -> T {
    match result {
        Ok(value) => value,
        Err(damage) => damage.raise(index),
    }
}

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
    /// Where in a program it was raised: file and line.
    pub place: Option<(String, u32)>,
}

impl Report {
    /// A report of an error that is raised here.
    #[track_caller]
    pub fn new(code: PgSqlErrorCode, message: String, detail: Option<String>, hint: Option<String>) -> Self {
        let place = Location::caller();
        Self { code, message, detail, hint, place: Some((place.file().to_owned(), place.line())) }
    }

    /// A mistake in a program.
    pub(super) fn internal(message: String) -> Self {
        Self { code: PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, message, detail: None, hint: None, place: None }
    }

    /// Raises it as an ERROR: a panic, which [`super::boundary::callback`] hands to the server.
    pub fn raise(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }
}

/// Raises an ERROR.
#[track_caller]
pub fn fail(code: PgSqlErrorCode, message: String, detail: Option<String>, hint: Option<String>) -> ! {
    Report::new(code, message, detail, hint).raise()
}

/// Reports at a level below ERROR, and comes back.
#[track_caller]
pub fn report(
    level: PgLogLevel,
    code: PgSqlErrorCode,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
) {
    let texts = Texts::of(&Report::new(code, message, detail, hint));
    // SAFETY: the texts outlive the call; the server copies them, and may answer an interrupt.
    unsafe { boundary::call(|| emit(level as c_int, &texts)) }
}

/// What pgrx's guard kept of an error of the server's, or what pgrx itself raised.
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

/// Hands a report to the server as an ERROR, which leaves by a jump: nothing on the way up may need dropping.
pub(super) fn raise(report: Report) -> ! {
    let texts = Texts::of(&report).palloced();
    drop(report);
    // SAFETY: palloc'd strings, which the server copies; an ERROR does not come back.
    unsafe {
        emit(PgLogLevel::ERROR as c_int, &texts);
    }
    std::process::abort()
}

/// A report in the database's encoding.
struct Texts<T> {
    code: c_int,
    message: T,
    detail: Option<T>,
    hint: Option<T>,
    file: &'static CStr,
    line: c_int,
}

impl Texts<CString> {
    fn of(report: &Report) -> Self {
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

    /// The same in memory of the server's, which need not be dropped.
    fn palloced(self) -> Texts<&'static CStr> {
        // SAFETY: copies a NUL-terminated string into the memory of errors, which is reset when the error was handled.
        let copy = |text: CString| unsafe {
            CStr::from_ptr(pg_sys::MemoryContextStrdup(pg_sys::ErrorContext, text.as_ptr()))
        };
        let Self { code, message, detail, hint, file, line } = self;
        Texts { code, message: copy(message), detail: detail.map(copy), hint: hint.map(copy), file, line }
    }
}

/// A file's name for as long as the process lives: the server keeps pointers to the names in errors. There are as many as
/// source files.
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

/// What the macro ereport does.
///
/// # Safety
/// An ERROR leaves by a jump; below, an interrupt may.
unsafe fn emit<T: AsRef<CStr>>(level: c_int, texts: &Texts<T>) {
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
