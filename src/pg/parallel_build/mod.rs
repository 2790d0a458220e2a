//! Parallel processes that build an index together.
//!
//! The backend that runs the command is the leader. It starts parallel workers, as the server's own index builds do.
//! The work is divided into chunks, which are numbers here. All processes claim chunks from a shared counter, so each
//! is claimed once, in ascending order. A worker sends messages to the leader through a queue of its own, in the order
//! in which it made them. Only the leader writes to the index.
//!
//! A build may have a **second phase**: the leader begins it when all processes have ended the first one. Its work is
//! divided into units, which are claimed in the same way. Files ([`SharedFiles`]) lead from one phase to the other.
//!
//! **Errors.** The server sends an error of a worker to the leader, which raises it at its next check for interrupts,
//! with all of its fields. When the leader fails, the abort of its transaction stops the workers, before it releases
//! any lock.
//!
//! **Locks.** The leader holds the locks of the command to its end. Workers are members of the leader's lock group, so
//! their own locks cannot conflict with those. They take AccessShare only to open the relations.

use super::shared_files::SharedFiles;
use pgrx::pg_sys;
use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

mod team;
mod worker;

pub use team::{Received, Team};
pub use worker::Worker;

/// Numbers that the leader passes to its workers.
pub const JOB: usize = 4;
/// A description of the work, which only the caller understands.
pub type JobWords = [u64; JOB];

/// A description of the second phase, which only the caller understands.
pub type SecondWords = [u64; 2];

/// Bytes of a worker's queue. A worker waits while its queue is full. The leader reads the queues whenever it has
/// processed a block range, so they need not be large.
const QUEUE: usize = 512 * 1024;

/// Keys of the parts of the shared memory.
const KEY_SHARED: u64 = 1;
const KEY_QUEUES: u64 = 2;
const KEY_QUERY: u64 = 3;
const KEY_BUFFER_USAGE: u64 = 4;
const KEY_WAL_USAGE: u64 = 5;

/// What all processes of a build share.
#[repr(C)]
struct SharedBuild {
    /// The leader's [`BUILD`](super::library::BUILD).
    library: i32,
    table: pg_sys::Oid,
    index: pg_sys::Oid,
    query_id: i64,
    chunks: u64,
    /// The first chunk that is not claimed.
    next: AtomicU64,
    job: JobWords,
    /// Whether a process has met a range with more values than memory allows: 0 or 1. A worker sets it before it sends
    /// the range, so the leader sees it when it has all ranges.
    has_overflowed: AtomicU64,
    files: UnsafeCell<pg_sys::SharedFileSet>,
    second: SecondPhase,
}

/// The second phase, as all processes see it.
#[repr(C)]
struct SecondPhase {
    /// Whether the leader has begun it: 0 or 1. What the leader has written before, processes see after that.
    has_begun: AtomicU64,
    begins: UnsafeCell<pg_sys::ConditionVariable>,
    units: AtomicU64,
    /// The first unit that is not claimed.
    next: AtomicU64,
    job: [AtomicU64; 2],
}

/// The first number that is not claimed, if it is below `end`. The counter only divides the work: it orders no other
/// memory.
fn claim(next: &AtomicU64, end: u64) -> Option<u64> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    (number < end).then_some(number)
}

impl SharedBuild {
    fn claim(&self) -> Option<u64> {
        claim(&self.next, self.chunks)
    }

    fn claim_unit(&self) -> Option<u64> {
        claim(&self.second.next, self.second.units.load(Ordering::Relaxed))
    }

    /// The files of the build.
    fn files(&self) -> SharedFiles<'_> {
        // SAFETY: the processes that have this structure are attached to the set as long as they have it.
        unsafe { SharedFiles::of(self.files.get()) }
    }
}

/// The function that workers run.
static WORK: OnceLock<fn(&Worker<'_>)> = OnceLock::new();

/// Sets the function that workers run. Called when the library is loaded, in workers too.
pub fn register(work: fn(&Worker<'_>)) {
    let _ = WORK.set(work);
}
