//! Statistics of Skip Index Scans: what the view pg_skip_stats shows.
//!
//! Counters per (database, index), shared by all backends where the server can give them memory ([`shared`]), else of
//! the session. The table itself is [`skip_scan::counters`]; this module
//! owns which memory it is in, and what SQL sees of it. No locks.
//!
//! An entry is known by OIDs only:
//!
//! - The view shows entries of indexes that are there, so those of dropped ones do not show. Their places are given
//!   back when places run out, and at a reset.
//! - An index or a database that gets the OID of a dropped one, after billions of others, goes on with its counters.
//! - REINDEX CONCURRENTLY makes an index with another OID, which begins at zero.
//!
//! What is counted is not undone by a rollback, and is gone when the server restarts.

use crate::pg::{boundary, catalog, error, relation, shared};
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys;
use pgrx::prelude::*;
use skip_scan::counters::{CounterTable, Key, WORDS};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

pub use skip_scan::counters::Counts;

/// The shared memory's name; another one for each layout, so that two builds of the library do not meet.
const NAME: &std::ffi::CStr = c"pg_skip statistics 1";
/// Places are given back at most so often, in microseconds: it takes some catalog lookups.
const TIDYING_PAUSE: i64 = 60_000_000;

/// Where a backend counts.
struct Counters {
    table: CounterTable,
    /// What the view calls it: "server" or "session".
    scope: &'static str,
}

/// The counters of a backend without shared ones. Untouched, it takes no memory.
static SESSION: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static COUNTERS: OnceLock<Option<Counters>> = OnceLock::new();

/// Reserves what must be reserved while the server starts; once per process, when the library is loaded.
pub fn register() {
    shared::reserve::<WORDS>(NAME);
}

/// Makes ready for [`add`]; called where a scan starts. May allocate, take a subtransaction and look into catalogs the
/// first time; cheap then.
pub fn attach() {
    let counters = COUNTERS.get_or_init(|| {
        let server = shared::words::<WORDS>(NAME).and_then(CounterTable::attach);
        let server = server.map(|table| Counters { table, scope: "server" });
        server.or_else(|| Some(Counters { table: CounterTable::attach(&SESSION)?, scope: "session" }))
    });
    if let Some(Counters { table, .. }) = counters
        && table.wants_tidying(shared::now(), TIDYING_PAUSE)
    {
        table.tidy(is_there);
    }
}

/// Adds to an index's counters. Never raises an error; without [`attach`] before, and when all places are taken,
/// nothing is counted. Of a scan that parallel processes share, the leader counts; of one that a worker runs by itself,
/// the worker, which is lost where counters are of the session.
pub fn add(index: pg_sys::Oid, counts: &Counts) {
    if let Some(Some(Counters { table, .. })) = COUNTERS.get() {
        table.add(Key { database: catalog::current_database().to_u32(), index: index.to_u32() }, counts);
    }
}

/// The counters, ready for use.
fn attached() -> &'static Counters {
    attach();
    match COUNTERS.get() {
        Some(Some(counters)) => counters,
        _ => error::fail(
            PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
            "statistics of skip indexes are not available".into(),
            None,
            None,
        ),
    }
}

/// Whether an entry's index may still be there: of other databases only themselves can be seen.
fn is_there(key: Key) -> bool {
    if key.database == catalog::current_database().to_u32() {
        catalog::relation_exists(key.index.into())
    } else {
        catalog::database_exists(key.database.into())
    }
}

fn shown(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// One row for each entry of the current database.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity, reason = "the row type of the SQL function")]
fn pg_skip_stats_counters() -> TableIterator<
    'static,
    (
        name!(indexrelid, pg_sys::Oid),
        name!(scans, i64),
        name!(ranges_checked, i64),
        name!(ranges_skipped, i64),
        name!(full_positives, i64),
        name!(true_positives, i64),
    ),
> {
    boundary::callback(|| {
        let found = attached().table.of_database(catalog::current_database().to_u32());
        // How often conditions were true tells of rows.
        let may_see = |index: u32| relation::table_of(index.into()).is_some_and(catalog::may_read);
        let is_shown = |&(index, _): &(u32, Counts)| catalog::is_monitor() || may_see(index);
        let row = |(index, counts): (u32, Counts)| {
            let [scans, checked, skipped, full, true_] = counts.to_array().map(shown);
            (index.into(), scans, checked, skipped, full, true_)
        };
        TableIterator::new(found.into_iter().filter(is_shown).map(row).collect::<Vec<_>>())
    })
}

/// Whose counters these are, whether there is room for more indexes, and the time of the last reset.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity, reason = "the row type of the SQL function")]
fn pg_skip_stats_state() -> TableIterator<
    'static,
    (name!(scope, &'static str), name!(is_full, bool), name!(stats_reset, Option<TimestampWithTimeZone>)),
> {
    boundary::callback(|| {
        let Counters { table, scope } = attached();
        let reset_at = table.reset_at().and_then(|at| TimestampWithTimeZone::try_from(at).ok());
        TableIterator::once((*scope, table.is_full(), reset_at))
    })
}

/// Zeroes all counters.
#[pg_extern(sql = false)]
fn pg_skip_stats_reset() {
    boundary::callback(|| {
        let Counters { table, .. } = attached();
        table.reset(shared::now());
        table.tidy(is_there);
    })
}
