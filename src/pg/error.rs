//! Errors and reports, and damage found in an index.

use super::ereport::{self, Report, Texts};
use super::{Rel, boundary};
use pgrx::{PgLogLevel, PgSqlErrorCode};
use std::ffi::c_int;

/// Damage found in an index: which block, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Block number in the index's main fork.
    pub block: u32,
    /// The problem; completes the message "index … block …: ".
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
            Some(format!("To rebuild the index from the table: REINDEX INDEX {};", index.qualified_name())),
        )
    }
}

impl From<std::convert::Infallible> for Damage {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// Result of reading index pages.
pub type IndexResult<T> = Result<T, Damage>;

/// Raises the damage, if any, as an error of `index`.
pub fn or_raise<T>(index: Rel, result: IndexResult<T>) -> T {
    match result {
        Ok(value) => value,
        Err(damage) => damage.raise(index),
    }
}

/// Raises an ERROR.
#[track_caller]
pub fn fail(code: PgSqlErrorCode, message: String, detail: Option<String>, hint: Option<String>) -> ! {
    Report::new(code, message, detail, hint).raise()
}

/// Reports at a level below ERROR, and returns.
#[track_caller]
pub fn report(
    level: PgLogLevel,
    code: PgSqlErrorCode,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
) {
    let texts = Texts::of(&Report::new(code, message, detail, hint));
    // SAFETY: the texts outlive the call; the server copies them, and may process an interrupt.
    unsafe { boundary::call(|| ereport::emit(level as c_int, &texts)) }
}
