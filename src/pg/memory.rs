//! Memory contexts for repeated work, memory limits, checks for interrupts, and random seeds.

use super::{allocator, server};
use pgrx::{PgSqlErrorCode, pg_sys};
use skip_value::sharable;
use std::sync::OnceLock;

/// A memory context of its own, deleted when dropped.
pub struct Scratch(pg_sys::MemoryContext);

impl Scratch {
    /// A child of the current context.
    pub fn new() -> Self {
        // SAFETY: creates a context below the current one; the name is a static string as the API demands.
        Self(unsafe {
            pg_sys::AllocSetContextCreateInternal(
                pg_sys::CurrentMemoryContext,
                c"pg_skip scratch".as_ptr(),
                pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            )
        })
    }

    /// Runs `work` with this context as the current one.
    pub fn run<R>(&self, work: impl FnOnce() -> R) -> R {
        // SAFETY: the context lives as long as self.
        let before = unsafe { pg_sys::MemoryContextSwitchTo(self.0) };
        let result = work();
        // SAFETY: the context that was current before. After an ERROR this is not reached, and the abort resets the
        // context.
        unsafe { pg_sys::MemoryContextSwitchTo(before) };
        result
    }

    /// Frees all allocations in it.
    pub fn reset(&self) {
        // SAFETY: the context lives as long as self.
        unsafe { pg_sys::MemoryContextReset(self.0) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: created in new(), deleted once.
            unsafe { pg_sys::MemoryContextDelete(self.0) }
        }
    }
}

/// An empty buffer with room for `length` bytes, outside of the server's memory. Raises an error if there is not so
/// much memory: without that, the session would end.
pub fn buffer(length: usize) -> Vec<u8> {
    allocator::bytes(length).unwrap_or_else(|| {
        let detail = format!("Failed on request of size {length}.");
        super::fail(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, "out of memory".into(), Some(detail), None)
    })
}

/// Processes a pending cancel or shutdown. Must not be called under a buffer lock.
pub fn check_for_interrupts() {
    // SAFETY: a plain global of the server, which signal handlers set. Errors pass unchanged: one of a parallel worker
    // has a context and other fields that pgrx's guard would drop.
    unsafe {
        if std::ptr::read_volatile(&raw const pg_sys::InterruptPending) != 0 {
            server::ProcessInterrupts();
        }
    }
}

/// maintenance_work_mem in bytes.
pub fn maintenance_work_mem() -> usize {
    // SAFETY: a plain global of the server, in kB.
    usize::try_from(unsafe { pg_sys::maintenance_work_mem }).unwrap_or(65_536) * 1024
}

/// work_mem in bytes.
pub fn work_mem() -> usize {
    // SAFETY: a plain global of the server, in kB.
    usize::try_from(unsafe { pg_sys::work_mem }).unwrap_or(4_096) * 1024
}

/// Whether `bytes` bytes of dynamic shared memory may be allocated. The server fails a query if there is not enough,
/// and containers often have only 64 MB. The free size is known only where POSIX shared memory is a file system
/// (shm_open(3)).
pub fn may_share(bytes: usize) -> bool {
    // SAFETY: plain globals of the server.
    let (kind, workers) = unsafe { (pg_sys::dynamic_shared_memory_type, pg_sys::max_worker_processes) };
    if !cfg!(target_os = "linux") || kind != pg_sys::DSM_IMPL_POSIX as i32 {
        return false;
    }
    let mut of = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: fills the struct if it returns 0.
    let (total, free) = unsafe {
        if libc::statvfs(c"/dev/shm".as_ptr(), of.as_mut_ptr()) != 0 {
            return false;
        }
        let of = of.assume_init();
        (of.f_blocks.saturating_mul(of.f_frsize), of.f_bavail.saturating_mul(of.f_frsize))
    };
    bytes as u64 <= sharable(total, free, u64::try_from(workers).unwrap_or(0))
}

/// A random seed for a new index, so that no user can prepare keys that collide in it.
pub fn random_seed() -> u64 {
    let mut seed = [0u8; 8];
    // SAFETY: fills exactly 8 bytes. If it fails, the seed stays 0, which is a valid seed.
    unsafe { pg_sys::pg_strong_random(seed.as_mut_ptr().cast(), seed.len()) };
    u64::from_le_bytes(seed)
}

/// A random number of this process, for hash tables against which no user may be able to prepare keys.
pub fn process_secret() -> u64 {
    static SECRET: OnceLock<u64> = OnceLock::new();
    *SECRET.get_or_init(random_seed)
}
