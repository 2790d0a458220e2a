//! The phases of CREATE INDEX, as pg_stat_progress_create_index shows them.

use crate::pg::am;
use std::ffi::CStr;

/// A phase of a build. PostgreSQL itself has the numbers 0 and 1.
#[derive(Clone, Copy)]
pub enum Phase {
    /// The table is read. Segments of filters and bounds are written meanwhile.
    Scan = 2,
    /// Maps are sorted and written, and the last segments of filters and bounds.
    Write = 3,
}

impl Phase {
    /// Reports that this phase begins.
    pub fn begin(self) {
        am::progress_phase(self as i64);
    }
}

/// The name of a phase, by number.
pub fn name(phase: i64) -> Option<&'static CStr> {
    const SCAN: i64 = Phase::Scan as i64;
    const WRITE: i64 = Phase::Write as i64;
    match phase {
        1 => Some(c"initializing"),
        SCAN => Some(c"summarizing block ranges"),
        WRITE => Some(c"writing segments"),
        _ => None,
    }
}
