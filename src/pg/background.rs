//! A background worker that does upkeep of one index, so that inserts need not.
//!
//! A session starts it ([`start`]) for an index of its database. The worker ([`UpkeepWorker`]) does its work in
//! transactions of its own, and ends when there is nothing left to do. It is connected as the bootstrap superuser, as
//! autovacuum is, and works as the owner of the table ([`super::sandbox`]).
//!
//! **Errors.** An error ends the worker; the server logs it.
//!
//! **Locks.** A worker waits for no lock. Until it ends it holds two [`WorkerLock`]s: that of its index, so that an
//! index has one worker at most; and that of one of `pg_skip.max_workers` numbered places, which bounds the number of
//! workers. In a transaction it has RowExclusive on the database, the table and the index. Between transactions it has
//! no other lock, and no snapshot.

use super::lock::{self, WorkerLock};
use super::relation::{self, OpenRel, Rel};
use super::sandbox::Sandbox;
use super::{boundary, catalog, compat, library, memory, settings};
use pgrx::pg_sys;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_long};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a worker that was started may take until it has its lock.
const STARTING: Duration = Duration::from_secs(1);
/// A worker that ends before this time has failed, or found that it can do nothing: it would wait that long for work.
const SHORTEST_LIFE: Duration = Duration::from_millis(1400);
/// After that, a process starts no worker for the index for this time. Its inserts do the work.
const NO_WORKER: Duration = Duration::from_secs(60);

thread_local! {
    /// The indexes for which this process has started a worker lately.
    static STARTED: RefCell<Vec<StartedWorker>> = const { RefCell::new(Vec::new()) };
}

/// A worker that this process has started.
struct StartedWorker {
    index: pg_sys::Oid,
    at: Instant,
    has_failed: bool,
}

/// The function that workers run.
static WORK: OnceLock<fn(&UpkeepWorker)> = OnceLock::new();

/// Sets the function that workers run. Called when the library is loaded, in workers too.
pub fn register(work: fn(&UpkeepWorker)) {
    let _ = WORK.set(work);
}

/// Whether an index has a worker, which is started if it has none. False if the server has no room for another worker
/// (pg_skip.max_workers, max_worker_processes), if the last one has failed, or if the worker could not see the index:
/// of a temporary table, or created in this transaction.
pub fn ensure_worker(table: Rel, index: Rel) -> bool {
    let is_out_of_sight = |rel: Rel| rel.is_temporary() || rel.is_created_in_transaction();
    if is_out_of_sight(index) || is_out_of_sight(table) {
        return false;
    }
    if !WorkerLock::of(index.oid()).is_free() {
        return true;
    }
    if let Some(is_starting) = STARTED.with_borrow_mut(|started| is_starting(started, index.oid())) {
        return is_starting;
    }
    let free = places().filter(WorkerLock::is_free).count();
    let is_started = free > STARTED.with_borrow(|started| without_place(started)) && start(index);
    if is_started {
        let start = StartedWorker { index: index.oid(), at: Instant::now(), has_failed: false };
        STARTED.with_borrow_mut(|started| started.push(start));
    }
    is_started
}

/// Of an index whose worker lock is free: whether this process has started a worker that has not taken it yet. False if
/// the worker has failed; None if another one may be started.
fn is_starting(started: &mut Vec<StartedWorker>, index: pg_sys::Oid) -> Option<bool> {
    started.retain(|start| {
        let remembered = if start.has_failed { NO_WORKER } else { SHORTEST_LIFE };
        start.at.elapsed() < remembered
    });
    let start = started.iter_mut().find(|start| start.index == index)?;
    start.has_failed |= start.at.elapsed() >= STARTING;
    Some(!start.has_failed)
}

/// The number of workers that this process has started and that may not have taken a place yet.
fn without_place(started: &[StartedWorker]) -> usize {
    started
        .iter()
        .filter(|start| start.at.elapsed() < STARTING && WorkerLock::of(start.index).is_free())
        .count()
}

/// The places that workers of all databases have.
fn places() -> impl Iterator<Item = WorkerLock> {
    (0..settings::max_workers()).map(WorkerLock::of_place)
}

/// Starts a worker. Returns false if the server has no room for it.
fn start(index: Rel) -> bool {
    let mut worker = pg_sys::BackgroundWorker {
        bgw_flags: (pg_sys::BGWORKER_SHMEM_ACCESS | pg_sys::BGWORKER_BACKEND_DATABASE_CONNECTION) as i32,
        bgw_start_time: pg_sys::BgWorkerStartTime::BgWorkerStart_RecoveryFinished,
        bgw_restart_time: pg_sys::BGW_NEVER_RESTART,
        bgw_main_arg: index.oid().into(),
        ..Default::default()
    };
    // The server copies ASCII only.
    let path = library::path();
    let is_set = path.to_bytes().is_ascii() && write(&mut worker.bgw_library_name, &path)
        || write(&mut worker.bgw_library_name, library::NAME);
    let is_set = is_set && write(&mut worker.bgw_function_name, ENTRY) && write(&mut worker.bgw_type, TYPE);
    // SAFETY: a plain global of the server.
    let database = unsafe { pg_sys::MyDatabaseId }.to_u32();
    let texts = [
        (&mut worker.bgw_name[..], format!("pg_skip worker for index {}", index.oid().to_u32())),
        (&mut worker.bgw_extra[..], database.to_string()),
    ];
    let is_set =
        is_set && texts.into_iter().all(|(to, text)| CString::new(text).is_ok_and(|text| write(to, &text)));
    // SAFETY: the description is complete, and the server copies it. Nobody asks for a handle.
    is_set && unsafe { pg_sys::RegisterDynamicBackgroundWorker(&mut worker, std::ptr::null_mut()) }
}

/// Writes a text with its NUL. Returns false if there is no room for it.
fn write(to: &mut [c_char], text: &CStr) -> bool {
    let bytes = text.to_bytes_with_nul();
    let is_room = bytes.len() <= to.len();
    if is_room {
        to.iter_mut().zip(bytes).for_each(|(to, &byte)| *to = byte as c_char);
    }
    is_room
}

/// What the server calls the kind of process.
const TYPE: &CStr = c"pg_skip worker";
/// Name of the function below.
const ENTRY: &CStr = c"pg_skip_upkeep_worker";

// SAFETY: the signature of tcopprot.h. As a signal handler it must not be behind pgrx's guard, as pg_sys::die is.
unsafe extern "C-unwind" {
    /// Has the process end at its next check for interrupts.
    fn die(signal: c_int);
}

/// The function with which a worker begins. The server finds it in the library by its name.
///
/// # Safety
/// Called by the server in a background worker that [`start`] has registered.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pg_skip_upkeep_worker(index: pg_sys::Datum) {
    boundary::callback(|| {
        // SAFETY: the order of calls is that of the server's own workers (ParallelWorkerMain). The entry's text was
        // written by start(), with its NUL.
        let database = unsafe {
            compat::set_signal_handler(pg_sys::SIGTERM as i32, die);
            pg_sys::BackgroundWorkerUnblockSignals();
            CStr::from_ptr((*pg_sys::MyBgworkerEntry).bgw_extra.as_ptr())
        };
        let database = database.to_str().ok().and_then(|text| text.parse::<u32>().ok());
        let (Some(database), Some(work)) = (database, WORK.get()) else { return };
        // SAFETY: the process is not connected yet. Without a role it is connected as the bootstrap superuser.
        unsafe {
            pg_sys::BackgroundWorkerInitializeConnectionByOid(database.into(), pg_sys::InvalidOid, 0);
        }
        let index = pg_sys::Oid::from(index.value() as u32);
        override_settings();
        let worker = UpkeepWorker { index, is_in_the_way: Cell::new(false) };
        // A session that asks whether the lock is free has it for a moment.
        for _ in 0..TRIES {
            if in_transaction(|| take_locks(index)) {
                return work(&worker);
            }
            worker.pause(Duration::from_millis(5));
        }
    })
}

/// How often a worker tries to take its locks.
const TRIES: u32 = 3;

/// Takes a worker's locks until its process ends, if they are free. It may take one of two; then the process ends soon,
/// or takes the other one too.
fn take_locks(index: pg_sys::Oid) -> bool {
    WorkerLock::of(index).try_take_for_process() && places().any(|place| place.try_take_for_process())
}

/// Overrides settings of the server and the database that would end a transaction early, as autovacuum does.
fn override_settings() {
    for name in [c"statement_timeout", c"lock_timeout", c"transaction_timeout"] {
        // SAFETY: names and values are NUL-terminated. A setting that this version of the server does not have is left
        // out.
        unsafe {
            if !pg_sys::GetConfigOption(name.as_ptr(), true, false).is_null() {
                let (context, source) = (pg_sys::GucContext::PGC_SUSET, pg_sys::GucSource::PGC_S_OVERRIDE);
                pg_sys::SetConfigOption(name.as_ptr(), c"0".as_ptr(), context, source);
            }
        }
    }
}

/// Runs a transaction. The process is connected, and in none.
fn in_transaction<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: as PostgreSQL's example worker_spi does it. Values that are stored out of line are read with the
    // snapshot.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        // Whatever the default of the database is: upkeep should neither fail nor wait for other transactions.
        pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as i32;
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, ACTIVITY.as_ptr());
    }
    let result = body();
    // SAFETY: begun above; `body` leaves the stack of snapshots as it was.
    unsafe {
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null());
    }
    result
}

/// A background worker, in its own process.
pub struct UpkeepWorker {
    index: pg_sys::Oid,
    is_in_the_way: Cell<bool>,
}

impl UpkeepWorker {
    /// Calls `work` with the table and the index in a transaction. None if the index is gone, or if another process has
    /// locked one of them, or the database, so that this one would have to wait.
    pub fn in_transaction<R>(&self, work: impl FnOnce(Rel, Rel) -> R) -> Option<R> {
        in_transaction(|| {
            self.is_in_the_way.set(!lock::try_lock_database());
            (!self.is_in_the_way.get()).then(|| self.with_open(work)).flatten()
        })
    }

    /// Whether another process had locked the database when the last transaction began, to drop or to copy it. That
    /// process waits for 5 seconds until no other one is connected to the database, and then fails.
    pub fn is_in_the_way(&self) -> bool {
        self.is_in_the_way.get()
    }

    fn with_open<R>(&self, work: impl FnOnce(Rel, Rel) -> R) -> Option<R> {
        // The table is locked first, as everywhere.
        let table = relation::table_of(self.index).and_then(OpenRel::if_free)?;
        let index = OpenRel::if_free(self.index)?;
        // The index may have been dropped, and its OID been given to another one, before it was locked.
        let is_of_table = relation::table_of(self.index) == Some(table.rel().oid());
        let method = relation::kind_and_method(self.index).map(|(_, method, _)| method);
        let is_skip = method.is_some() && method == catalog::access_method_oid("skip");
        let result = (is_of_table && is_skip).then(|| {
            let _sandbox = Sandbox::enter(table.rel());
            work(table.rel(), index.rel())
        });
        index.keep_lock();
        table.keep_lock();
        result
    }

    /// Sleeps. Ends the process if it is told to.
    pub fn pause(&self, time: Duration) {
        let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        let time = c_long::try_from(time.as_millis()).unwrap_or(c_long::MAX);
        // SAFETY: the latch of this process.
        unsafe {
            pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, time, pg_sys::PG_WAIT_EXTENSION);
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
        memory::check_for_interrupts();
    }
}

/// What pg_stat_activity shows while a worker is in a transaction.
const ACTIVITY: &CStr = c"summarizing block ranges";
