//! pg_skip: data-skipping indexes for PostgreSQL, and Bloom filters as values.
//!
//! Two journeys lead through the code, and the folders are their stations.
//!
//! *A row becomes bits.* PostgreSQL calls the access method ([`index`]: build, insert, vacuum); the row's values
//! become key hashes ([`hash`]), the hashes of a block range a filter (the crate `skip_filter`), 64 filters and
//! more a bit-sliced segment (`skip_segment`), segments pages ([`pages`]).
//!
//! *A clause becomes block ranges.* The executor or the planner asks ([`index`]: scan, cost); the clause's keys
//! become hashes ([`hash`]), these slices to read, and what is left of the slices a set of ranges ([`prune`]). The Skip
//! Index Scan ([`scan`], and the crate `skip_scan`) plans with them and reads them.
//!
//! What scans found is counted ([`stats`]).
//!
//! The type `bloom` ([`bloom`]) is independent of the index: its values (the crate `skip_value`) are Bloom filters that
//! can be stored, combined and exchanged. It shares [`hash`], [`pg`] and the crate `skip_filter` with the index.
//!
//! [`pg`] is the boundary: nothing outside of it touches server memory. Imports point down this list:
//! index, scan and bloom; prune; hash; pages and stats; pg.
//!
//! The SQL objects are in `sql/`, readable as users get them.

mod bloom;
mod hash;
mod index;
mod pages;
mod pg;
mod prune;
mod scan;
mod stats;

use pgrx::prelude::*;

::pgrx::pg_module_magic!(name, version);

extension_sql_file!("../sql/access_method.sql", name = "access_method", bootstrap);
extension_sql_file!("../sql/opclasses.sql", name = "opclasses", requires = ["access_method"]);
extension_sql_file!("../sql/functions.sql", name = "functions", requires = ["access_method"]);
extension_sql_file!("../sql/bloom.sql", name = "bloom", requires = ["access_method"]);
extension_sql_file!("../sql/statistics.sql", name = "statistics", requires = ["access_method"]);

/// Called by PostgreSQL when it loads the library.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    pg::boundary::quiet_panics();
    pg::options::register();
    pg::settings::register();
    index::register();
    scan::register();
    stats::register();
}
