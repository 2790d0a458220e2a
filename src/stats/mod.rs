//! Statistics of Skip Index Scans, which the view pg_skip_stats shows.
//!
//! There are counters for each database and index. All backends share them where the server can allocate shared memory
//! ([`shared`]); otherwise each session has its own. The table of counters is [`skip_scan::counters`]; this module
//! decides in which memory it is, and what SQL shows of it. It takes no locks.
//!
//! An entry is identified by OIDs only:
//!
//! - The view shows entries of existing indexes, not those of dropped ones. The places of dropped indexes are given
//!   back when the table is full, and at a reset.
//! - An index or a database that gets the OID of a dropped one, which takes billions of others in between, continues
//!   its counters.
//! - REINDEX CONCURRENTLY makes an index with a different OID, whose counters begin at zero.
//!
//! A rollback does not undo counts, and a restart of the server removes them.

use crate::pg::result_rows::{ResultRows, result_columns};
use crate::pg::{boundary, catalog, error, relation, shared};
use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys;
use pgrx::prelude::*;
use skip_scan::counters::{CounterTable, Key, WORDS};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

pub use skip_scan::counters::Counts;

/// The shared memory's name. Each layout has a different name, so that two builds of the library do not share memory.
const NAME: &std::ffi::CStr = c"pg_skip statistics 1";
/// The least time between two attempts to give back places, in microseconds: an attempt takes some catalog lookups.
const TIDYING_PAUSE: i64 = 60_000_000;

/// The counters that a backend uses.
struct Counters {
    table: CounterTable,
    /// The scope, as the view shows it: "server" or "session".
    scope: &'static str,
}

/// The counters of a backend without shared memory. They take no memory until they are used.
static SESSION: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static COUNTERS: OnceLock<Option<Counters>> = OnceLock::new();

/// Reserves shared memory while the server starts; called once per process, when the library is loaded.
pub fn register() {
    shared::reserve::<WORDS>(NAME);
}

/// Prepares for [`add`]; called when a scan starts. The first call may allocate, start a subtransaction and read
/// catalogs; later ones are cheap. The leader of a parallel query cannot start one: a scan that it begins then, as the
/// first one of its session, is not counted.
pub fn attach() {
    if COUNTERS.get().is_none() && catalog::leads_parallel_query() {
        return;
    }
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

/// Adds to an index's counters. Never raises an error. Nothing is counted without [`attach`] before, or when the table
/// is full. For a scan that parallel processes share, the leader counts; for a scan that a worker runs by itself, the
/// worker does, and its counts are lost if counters are per session.
pub fn add(index: pg_sys::Oid, counts: &Counts) {
    if let Some(Some(Counters { table, .. })) = COUNTERS.get() {
        table.add(Key { database: catalog::current_database().to_u32(), index: index.to_u32() }, counts);
    }
}

/// The counters, after [`attach`]; an error if there are none.
fn attached() -> &'static Counters {
    attach();
    match COUNTERS.get() {
        Some(Some(counters)) => counters,
        _ => error::fail(
            PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
            "statistics of skip indexes are not available".into(),
            Some("A session that leads a parallel query cannot attach to them for the first time.".into()),
            Some("Read them by a query of their own, or SET max_parallel_workers_per_gather = 0.".into()),
        ),
    }
}

/// Whether an entry's index may still exist. For other databases, only the existence of the database can be checked.
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

result_columns! {
    /// Columns of `pg_skip_stats_counters`.
    CounterColumns {
        indexrelid: pg_sys::Oid,
        scans: i64,
        ranges_checked: i64,
        ranges_skipped: i64,
        full_positives: i64,
        true_positives: i64,
    }
}

/// One row for each entry of the current database.
#[pg_extern(sql = false)]
fn pg_skip_stats_counters() -> ResultRows<CounterColumns> {
    boundary::callback(|| {
        let found = attached().table.of_database(catalog::current_database().to_u32());
        // The numbers tell how often conditions were true, which depends on the rows.
        let may_see = |index: u32| relation::table_of(index.into()).is_some_and(catalog::may_read);
        let is_shown = |&(index, _): &(u32, Counts)| catalog::is_monitor() || may_see(index);
        let row = |(index, counts): (u32, Counts)| {
            let [scans, checked, skipped, full, true_] = counts.to_array().map(shown);
            (index.into(), scans, checked, skipped, full, true_)
        };
        ResultRows::new(found.into_iter().filter(is_shown).map(row).collect::<Vec<_>>())
    })
}

result_columns! {
    /// Columns of `pg_skip_stats_state`.
    StateColumns {
        scope: &'static str,
        is_full: bool,
        stats_reset: Option<TimestampWithTimeZone>,
    }
}

/// The scope of the counters, whether the table of counters is full, and the time of the last reset.
#[pg_extern(sql = false)]
fn pg_skip_stats_state() -> ResultRows<StateColumns> {
    boundary::callback(|| {
        let Counters { table, scope } = attached();
        let reset_at = table.reset_at().and_then(|at| TimestampWithTimeZone::try_from(at).ok());
        ResultRows::once((*scope, table.is_full(), reset_at))
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
