//! A worker's side of a parallel build.

use super::{
    JobWords, KEY_BUFFER_USAGE, KEY_QUERY, KEY_QUEUES, KEY_SHARED, KEY_WAL_USAGE, QUEUE, SecondWords,
    SharedBuild, WORK,
};
use crate::pg::relation::Mode;
use crate::pg::shared_files::SharedFiles;
use crate::pg::{OpenRel, Rel, boundary, compat, library, server};
use pgrx::pg_sys;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::Ordering;

/// A worker's side of a build.
pub struct Worker<'a> {
    shared: &'a SharedBuild,
    table: Rel<'a>,
    index: Rel<'a>,
    queue: *mut pg_sys::shm_mq_handle,
}

impl<'a> Worker<'a> {
    /// The table.
    pub fn table(&self) -> Rel<'a> {
        self.table
    }

    /// The index, which the leader is writing.
    pub fn index(&self) -> Rel<'a> {
        self.index
    }

    /// The description of the work.
    pub fn job(&self) -> JobWords {
        self.shared.job
    }

    /// Claims a chunk; None if all have been claimed.
    pub fn claim(&self) -> Option<u64> {
        self.shared.claim()
    }

    /// Tells the leader that a range has more values than memory allows.
    pub fn set_overflowed(&self) {
        self.shared.has_overflowed.store(1, Ordering::Relaxed);
    }

    /// The files that all processes of the build share.
    pub fn files(&self) -> SharedFiles<'a> {
        self.shared.files()
    }

    /// The number of the process, counted from 1. The leader is 0.
    pub fn number(&self) -> u32 {
        // SAFETY: set by the server before the worker starts.
        u32::try_from(unsafe { pg_sys::ParallelWorkerNumber } + 1).unwrap_or(0)
    }

    /// Waits until the leader begins the second phase. Returns its description. The server ends the worker if the
    /// leader fails meanwhile.
    pub fn wait_for_second(&self) -> SecondWords {
        let second = &self.shared.second;
        let event = pg_sys::WaitEventIPC::WAIT_EVENT_PARALLEL_CREATE_INDEX_SCAN;
        // SAFETY: the leader has initialized it. Sleeping checks for interrupts.
        unsafe {
            while second.has_begun.load(Ordering::Acquire) == 0 {
                server::ConditionVariableSleep(second.begins.get(), event);
            }
            pg_sys::ConditionVariableCancelSleep();
        }
        std::array::from_fn(|word| second.job[word].load(Ordering::Relaxed))
    }

    /// Claims a unit of the second phase; None if all have been claimed.
    pub fn claim_unit(&self) -> Option<u64> {
        self.shared.claim_unit()
    }

    /// Sends a message to the leader, and waits while the queue has no room. Returns false if the leader does not read
    /// messages any more.
    pub fn send(&self, message: &[u64]) -> bool {
        // SAFETY: the handle of the queue to which this worker is attached. The server copies the message.
        let result = unsafe {
            let (data, bytes) = (message.as_ptr().cast::<c_void>(), size_of_val(message));
            server::shm_mq_send(self.queue, bytes, data, false, true)
        };
        result == pg_sys::shm_mq_result::SHM_MQ_SUCCESS
    }
}

/// Name of the function below.
pub(super) const ENTRY: &CStr = c"pg_skip_build_worker";

/// The function with which a worker starts. The server finds it in the library by its name.
///
/// # Safety
/// Called by the server in a parallel worker that [`Team::start`] has started.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pg_skip_build_worker(
    segment: *mut pg_sys::dsm_segment,
    toc: *mut pg_sys::shm_toc,
) {
    // SAFETY: the parts of the shared memory that start() has made. It is mapped as long as the worker runs, and the
    // leader does not change what it has written, except for the counter. The numbers of workers are below the length
    // of the arrays.
    boundary::callback(|| unsafe {
        let find = |key| pg_sys::shm_toc_lookup(toc, key, false);
        let query = pg_sys::shm_toc_lookup(toc, KEY_QUERY, true).cast::<c_char>();
        pg_sys::debug_query_string = query;
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, query);
        let shared = find(KEY_SHARED).cast::<SharedBuild>();
        library::check_build((*shared).library);
        let shared = &*shared;
        pg_sys::SharedFileSetAttach(shared.files.get(), segment);
        compat::report_query_id(shared.query_id);
        let number = usize::try_from(pg_sys::ParallelWorkerNumber).unwrap_or(0);
        let queue = find(KEY_QUEUES).cast::<u8>().add(number * QUEUE).cast::<pg_sys::shm_mq>();
        pg_sys::shm_mq_set_sender(queue, pg_sys::MyProc);
        let queue = pg_sys::shm_mq_attach(queue, segment, std::ptr::null_mut());
        let table = OpenRel::table(shared.table, Mode::AccessShare);
        let index = OpenRel::index(shared.index, Mode::AccessShare);
        pg_sys::InstrStartParallelQuery();
        if let Some(work) = WORK.get() {
            work(&Worker { shared, table: table.rel(), index: index.rel(), queue });
        }
        let buffers = find(KEY_BUFFER_USAGE).cast::<pg_sys::BufferUsage>().add(number);
        let wal = find(KEY_WAL_USAGE).cast::<pg_sys::WalUsage>().add(number);
        pg_sys::InstrEndParallelQuery(buffers, wal);
    })
}
