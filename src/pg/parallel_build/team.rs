//! The leader's side of a parallel build: starting and ending workers, and the queues of their messages.

use super::worker::ENTRY;
use super::{
    JobWords, KEY_BUFFER_USAGE, KEY_QUERY, KEY_QUEUES, KEY_SHARED, KEY_WAL_USAGE, QUEUE, SecondPhase,
    SecondWords, SharedBuild,
};
use crate::pg::library::{self, BUILD};
use crate::pg::shared_files::SharedFiles;
use crate::pg::{Rel, compat, memory, server};
use pgrx::pg_sys;
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The leader's side of a build with running workers.
pub struct Team<'a> {
    /// NULL after the end.
    context: *mut pg_sys::ParallelContext,
    shared: &'a SharedBuild,
    /// The queues of the workers that were started; NULL after the worker has left.
    queues: Vec<*mut pg_sys::shm_mq_handle>,
}

/// The result of reading a worker's queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A message.
    Message,
    /// There is no message now.
    Nothing,
    /// The worker has left, and all of its messages have been read.
    Gone,
}

impl<'a> Team<'a> {
    /// Starts at most `workers` workers, which divide `chunks` chunks with the leader. None if none could be started.
    pub fn start(heap: Rel<'a>, index: Rel<'a>, workers: u32, chunks: u64, job: JobWords) -> Option<Self> {
        let library = library::path();
        // SAFETY: the order of calls is that of the server's own builds (_bt_begin_parallel). Parallel mode and the
        // context are ended by end(), or by the abort of the transaction.
        unsafe {
            if workers == 0 || !pg_sys::ActiveSnapshotSet() {
                return None;
            }
            pg_sys::EnterParallelMode();
            let workers = i32::try_from(workers).unwrap_or(i32::MAX);
            let context = pg_sys::CreateParallelContext(library.as_ptr(), ENTRY.as_ptr(), workers);
            let count = usize::try_from((*context).nworkers).unwrap_or(0);
            let query = query_text();
            estimate(context, count, query);
            pg_sys::InitializeParallelDSM(context);
            if (*context).seg.is_null() {
                // There is no free segment, or no worker can be started now.
                leave(context);
                return None;
            }
            let shared = allocate::<SharedBuild>(context, KEY_SHARED, 1);
            shared.write(SharedBuild {
                library: BUILD,
                table: heap.oid(),
                index: index.oid(),
                query_id: compat::query_id(),
                chunks,
                next: AtomicU64::new(0),
                job,
                has_overflowed: AtomicU64::new(0),
                files: UnsafeCell::default(),
                second: SecondPhase {
                    has_begun: AtomicU64::new(0),
                    begins: UnsafeCell::default(),
                    units: AtomicU64::new(0),
                    next: AtomicU64::new(0),
                    job: [const { AtomicU64::new(0) }; 2],
                },
            });
            pg_sys::SharedFileSetInit((*shared).files.get(), (*context).seg);
            pg_sys::ConditionVariableInit((*shared).second.begins.get());
            let queues = make_queues(context, count);
            allocate::<pg_sys::BufferUsage>(context, KEY_BUFFER_USAGE, count);
            allocate::<pg_sys::WalUsage>(context, KEY_WAL_USAGE, count);
            if let Some(query) = query {
                let bytes = query.to_bytes_with_nul();
                let copy = allocate::<u8>(context, KEY_QUERY, bytes.len());
                copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
            pg_sys::LaunchParallelWorkers(context);
            let launched = usize::try_from((*context).nworkers_launched).unwrap_or(0).min(count);
            if launched == 0 {
                leave(context);
                return None;
            }
            // With the worker's handle, a queue also tells when the worker could not be started.
            let attach = |(number, &queue): (usize, &*mut pg_sys::shm_mq)| {
                pg_sys::shm_mq_attach(queue, (*context).seg, (*(*context).worker.add(number)).bgwhandle)
            };
            let queues = queues.iter().take(launched).enumerate().map(attach).collect();
            // The shared memory is removed by end(), which consumes the team.
            Some(Self { context, shared: &*shared, queues })
        }
    }

    /// Number of workers that were started.
    pub fn workers(&self) -> usize {
        self.queues.len()
    }

    /// Whether all workers have left.
    pub fn is_alone(&self) -> bool {
        self.queues.iter().all(|queue| queue.is_null())
    }

    /// Whether a worker has left, and all of its messages have been read.
    pub fn has_left(&self, worker: usize) -> bool {
        self.queues.get(worker).is_none_or(|queue| queue.is_null())
    }

    /// Raises an error if a worker could not be started. Waits until all have started: call this before waiting for
    /// something that only a worker can do.
    pub fn check_started(&self) {
        // SAFETY: the context of start(), which is not ended yet.
        unsafe { server::WaitForParallelWorkersToAttach(self.context) }
    }

    /// Raises the error of a worker that has left early. The worker has sent it before it left, but it may arrive a
    /// moment later.
    pub fn raise_error_of_worker(&self) {
        let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        for _ in 0..10 {
            memory::check_for_interrupts();
            // SAFETY: as in wait().
            unsafe {
                let event = pg_sys::WaitEventIPC::WAIT_EVENT_PARALLEL_CREATE_INDEX_SCAN;
                pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, 10, event);
                pg_sys::ResetLatch(pg_sys::MyLatch);
            }
        }
        memory::check_for_interrupts();
    }

    /// Claims a chunk for the leader; None if all have been claimed.
    pub fn claim(&self) -> Option<u64> {
        self.shared.claim()
    }

    /// Whether a worker has met a range with more values than memory allows.
    pub fn has_overflowed(&self) -> bool {
        self.shared.has_overflowed.load(Ordering::Relaxed) != 0
    }

    /// The files that all processes of the build share.
    pub fn files(&self) -> SharedFiles<'a> {
        self.shared.files()
    }

    /// Begins the second phase, with this number of units.
    pub fn begin_second(&self, units: u64, job: SecondWords) {
        let second = &self.shared.second;
        second.units.store(units, Ordering::Relaxed);
        second.job.iter().zip(job).for_each(|(shared, word)| shared.store(word, Ordering::Relaxed));
        second.has_begun.store(1, Ordering::Release);
        // SAFETY: start() has initialized it.
        unsafe { pg_sys::ConditionVariableBroadcast(second.begins.get()) }
    }

    /// Claims a unit of the second phase for the leader; None if all have been claimed.
    pub fn claim_unit(&self) -> Option<u64> {
        self.shared.claim_unit()
    }

    /// Reads a worker's next message into `message`, without waiting.
    pub fn receive(&mut self, worker: usize, message: &mut Vec<u64>) -> Received {
        let Some(queue) = self.queues.get_mut(worker).filter(|queue| !queue.is_null()) else {
            return Received::Gone;
        };
        let (mut bytes, mut data) = (0, std::ptr::null_mut());
        // SAFETY: the handle of a queue to which this process is attached. The message is valid until the next call.
        unsafe {
            match pg_sys::shm_mq_receive(*queue, &mut bytes, &mut data, true) {
                pg_sys::shm_mq_result::SHM_MQ_SUCCESS => {
                    let words = bytes / size_of::<u64>();
                    message.clear();
                    message.reserve(words);
                    std::ptr::copy_nonoverlapping(data.cast::<u8>(), message.as_mut_ptr().cast(), words * 8);
                    message.set_len(words);
                    Received::Message
                }
                pg_sys::shm_mq_result::SHM_MQ_WOULD_BLOCK => Received::Nothing,
                _ => {
                    pg_sys::shm_mq_detach(*queue);
                    *queue = std::ptr::null_mut();
                    Received::Gone
                }
            }
        }
    }

    /// Waits until a worker has sent something, or has left. All queues must have been read before: what comes after
    /// that ends the wait.
    pub fn wait(&self) {
        let events = pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH;
        // SAFETY: the latch of this process. Senders and interrupts set it.
        unsafe {
            let event = pg_sys::WaitEventIPC::WAIT_EVENT_PARALLEL_CREATE_INDEX_SCAN;
            pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, -1, event);
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
        memory::check_for_interrupts();
    }

    /// Waits until all workers have left, and adds their buffer and WAL usage to that of this process. An error of a
    /// worker is raised here.
    pub fn finish(mut self) {
        // A worker that still sends something would wait for the leader for ever.
        self.detach();
        // SAFETY: the context of start(), which is not ended yet. The arrays have an element for each worker.
        unsafe {
            server::WaitForParallelWorkersToFinish(self.context);
            let toc = (*self.context).toc;
            let buffers = pg_sys::shm_toc_lookup(toc, KEY_BUFFER_USAGE, false).cast::<pg_sys::BufferUsage>();
            let wal = pg_sys::shm_toc_lookup(toc, KEY_WAL_USAGE, false).cast::<pg_sys::WalUsage>();
            for worker in 0..self.queues.len() {
                pg_sys::InstrAccumParallelQuery(buffers.add(worker), wal.add(worker));
            }
        }
    }

    fn detach(&mut self) {
        for queue in &mut self.queues {
            if !queue.is_null() {
                // SAFETY: the handle of a queue, which is not used after this.
                unsafe { pg_sys::shm_mq_detach(*queue) };
                *queue = std::ptr::null_mut();
            }
        }
    }
}

impl Drop for Team<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.detach();
            // SAFETY: made by start(), ended once. Workers that still run are stopped.
            unsafe { leave(self.context) }
        }
    }
}

/// Ends a parallel context, and parallel mode.
///
/// # Safety
/// The context was made after EnterParallelMode(), and is not used after this.
unsafe fn leave(context: *mut pg_sys::ParallelContext) {
    // SAFETY: as the caller promises.
    unsafe {
        pg_sys::DestroyParallelContext(context);
        pg_sys::ExitParallelMode();
    }
}

/// The text of the current command.
fn query_text() -> Option<&'static CStr> {
    // SAFETY: NULL or a NUL-terminated string that lives as long as the command.
    unsafe {
        let text = pg_sys::debug_query_string;
        (!text.is_null()).then(|| CStr::from_ptr(text))
    }
}

/// Announces the parts of the shared memory, in the sizes that are allocated later.
///
/// # Safety
/// `context` has no shared memory yet.
unsafe fn estimate(context: *mut pg_sys::ParallelContext, workers: usize, query: Option<&CStr>) {
    // SAFETY: a valid context. The same as the macros shm_toc_estimate_chunk and shm_toc_estimate_keys.
    let estimator = unsafe { &mut (*context).estimator };
    let parts = [
        size_of::<SharedBuild>(),
        workers * QUEUE,
        workers * size_of::<pg_sys::BufferUsage>(),
        workers * size_of::<pg_sys::WalUsage>(),
    ];
    let query = query.map(|query| query.to_bytes_with_nul().len());
    for bytes in parts.into_iter().chain(query) {
        estimator.space_for_chunks += bytes.next_multiple_of(pg_sys::ALIGNOF_BUFFER as usize);
        estimator.number_of_keys += 1;
    }
}

/// Allocates shared memory for `count` values.
///
/// # Safety
/// `context` has shared memory, with room for the values by estimate().
unsafe fn allocate<T>(context: *mut pg_sys::ParallelContext, key: u64, count: usize) -> *mut T {
    // SAFETY: the server raises an error if there is no room. It aligns by ALIGNOF_BUFFER.
    unsafe {
        let memory = pg_sys::shm_toc_allocate((*context).toc, count * size_of::<T>());
        pg_sys::shm_toc_insert((*context).toc, key, memory);
        memory.cast()
    }
}

/// Makes a queue for each worker, with this process as the receiver.
///
/// # Safety
/// As [`allocate`].
unsafe fn make_queues(context: *mut pg_sys::ParallelContext, workers: usize) -> Vec<*mut pg_sys::shm_mq> {
    // SAFETY: each queue has its own QUEUE bytes.
    unsafe {
        let memory = allocate::<u8>(context, KEY_QUEUES, workers * QUEUE);
        let make = |worker: usize| {
            let queue = pg_sys::shm_mq_create(memory.add(worker * QUEUE).cast(), QUEUE);
            pg_sys::shm_mq_set_receiver(queue, pg_sys::MyProc);
            queue
        };
        (0..workers).map(make).collect()
    }
}
