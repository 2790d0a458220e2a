//! Errors with SQLSTATE, message, detail and hint.

use super::Rel;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

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
}

impl Report {
    /// Raises it as an ERROR.
    pub fn raise(self) -> ! {
        fail(self.code, self.message, self.detail, self.hint)
    }
}

/// Raises an ERROR.
pub fn fail(code: PgSqlErrorCode, message: String, detail: Option<String>, hint: Option<String>) -> ! {
    report(PgLogLevel::ERROR, code, message, detail, hint);
    // report() does not come back from ERROR.
    std::process::abort()
}

/// Reports at any level; comes back for levels below ERROR.
pub fn report(
    level: PgLogLevel,
    code: PgSqlErrorCode,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
) {
    let mut error = ErrorReport::new(code, message, "pg_skip");
    if let Some(detail) = detail {
        error = error.set_detail(detail);
    }
    if let Some(hint) = hint {
        error = error.set_hint(hint);
    }
    error.report(level);
}
