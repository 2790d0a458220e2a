//! pg_skip: data-skipping indexes for PostgreSQL, and Bloom filters as values.
//!
//! Two paths lead through the code. The folders are the steps of these paths.
//!
//! *A row becomes bits.* PostgreSQL calls the access method ([`index`]: build, insert, vacuum). The values of the row
//! become key hashes ([`hash`]). The key hashes of block ranges become a segment: a map (the crate `skip_map`),
//! bit-sliced filters (`skip_filter`, `skip_segment`) or, of order keys, bounds (`skip_bounds`). Segments become pages
//! ([`pages`]).
//!
//! *A clause becomes block ranges.* The executor or the planner calls the access method ([`index`]: bitmap_scan, cost).
//! The keys of the clause become key hashes ([`hash`]). The delta is read, then what the key hashes need of maps,
//! slices or bounds; the result is a set of ranges ([`prune`]). The Skip Index Scan ([`scan`], and the crate
//! `skip_scan`) plans with this set and reads its ranges.
//!
//! The survivors that scans read in vain, and the ranges that they skip, are counted ([`stats`]).
//!
//! The type `bloom` ([`bloom`]) is independent of the index: its values (the crate `skip_value`) are Bloom filters that
//! can be stored, combined and exchanged. It shares [`hash`], [`pg`] and the crate `skip_filter` with the index.
//!
//! [`pg`] is the boundary: no other folder touches server memory. Imports point down this list: index, scan and bloom;
//! estimate; prune; hash; pages and stats; pg.
//!
//! The SQL objects are in `sql/`, in the form in which users get them.

mod bloom;
mod estimate;
mod hash;
mod index;
mod pages;
mod pg;
mod prune;
mod scan;
mod stats;
mod version;

use pgrx::prelude::*;

::pgrx::pg_module_magic!(name, version);

extension_sql_file!("../sql/access_method.sql", name = "access_method", bootstrap);
extension_sql_file!("../sql/opclasses.sql", name = "opclasses", requires = ["access_method"]);
extension_sql_file!("../sql/minmax.sql", name = "minmax", requires = ["access_method"]);
extension_sql_file!("../sql/functions.sql", name = "functions", requires = ["access_method"]);
extension_sql_file!("../sql/bloom.sql", name = "bloom", requires = ["access_method"]);
extension_sql_file!("../sql/statistics.sql", name = "statistics", requires = ["access_method"]);
extension_sql_file!("../sql/extension_types.sql", name = "extension_types", requires = ["access_method"]);

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
