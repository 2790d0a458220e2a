//! The version of the library that the server has loaded. It may be another than that of the extension's SQL objects:
//! after an upgrade of the package, until ALTER EXTENSION … UPDATE.

use crate::pg::boundary;
use pgrx::prelude::*;

/// The version in Cargo.toml.
#[pg_extern(sql = false)]
fn skip_library_version() -> &'static str {
    boundary::callback(|| env!("CARGO_PKG_VERSION"))
}
