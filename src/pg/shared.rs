//! Memory words that all backends share, found by a name.
//!
//! From 17 on the server provides such memory at any time. Before, it must be reserved while the server starts, which
//! only a library in shared_preload_libraries can do; without that there is none.
//!
//! This file owns the reservation and the hooks that make it. Invariants: words are zero when they are made, are
//! accessed only as atomics, and live as long as the server. There are no locks here: the server's own lock protects
//! the creation.

use super::attempt::attempt;
use super::{boundary, compat, error};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The reservation, and the previous hooks.
struct Reservation {
    name: &'static CStr,
    words: usize,
    next_request: pg_sys::shmem_request_hook_type,
    next_startup: pg_sys::shmem_startup_hook_type,
}

static RESERVATION: OnceLock<Reservation> = OnceLock::new();
/// The reserved words; set when the server starts (or restarts after a crash).
static RESERVED: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// Reserves `N` words, if that is the only way to get them. Called once, when the library is loaded.
pub fn reserve<const N: usize>(name: &'static CStr) {
    // SAFETY: plain globals of the server, which is starting: there is only one process.
    unsafe {
        if compat::HAS_NAMED_SEGMENTS || !pg_sys::process_shared_preload_libraries_in_progress {
            return;
        }
        let (next_request, next_startup) = (pg_sys::shmem_request_hook, pg_sys::shmem_startup_hook);
        let reservation = Reservation { name, words: N, next_request, next_startup };
        if RESERVATION.set(reservation).is_ok() {
            pg_sys::shmem_request_hook = Some(request);
            pg_sys::shmem_startup_hook = Some(start_up);
        }
    }
}

/// shmem_request_hook.
unsafe extern "C-unwind" fn request() {
    boundary::callback(|| {
        let Some(reservation) = RESERVATION.get() else { return };
        // SAFETY: shared memory is requested in this hook, and the previous hook is called.
        unsafe {
            if let Some(next) = reservation.next_request {
                boundary::call(|| next());
            }
            pg_sys::RequestAddinShmemSpace(reservation.words * size_of::<AtomicU64>());
        }
    })
}

/// shmem_startup_hook. On platforms with fork only the postmaster runs it. AddinShmemInitLock, which synchronizes
/// processes that are started without fork, is therefore not needed.
unsafe extern "C-unwind" fn start_up() {
    boundary::callback(|| {
        let Some(reservation) = RESERVATION.get() else { return };
        // SAFETY: ShmemInitStruct is called in this hook, and returns the requested number of bytes; no other process
        // knows them yet when they are zeroed.
        unsafe {
            if let Some(next) = reservation.next_startup {
                boundary::call(|| next());
            }
            let mut found = false;
            let bytes = reservation.words * size_of::<AtomicU64>();
            let memory = pg_sys::ShmemInitStruct(reservation.name.as_ptr(), bytes, &mut found);
            if !found {
                memory.write_bytes(0, bytes);
            }
            RESERVED.store(memory.cast(), Ordering::Release);
        }
    })
}

/// The `N` words of a name; None if backends cannot share any. May allocate, and begin a subtransaction, so callers
/// keep the result.
pub fn words<const N: usize>(name: &'static CStr) -> Option<&'static [AtomicU64; N]> {
    let memory = if compat::HAS_NAMED_SEGMENTS {
        segment::<N>(name)
    } else {
        let fits = RESERVATION.get().is_some_and(|r| r.name == name && r.words == N);
        if fits { RESERVED.load(Ordering::Acquire).cast() } else { std::ptr::null_mut() }
    };
    // SAFETY: null, or the start of N aligned words that outlive this process; all processes access them as atomics.
    unsafe { memory.cast::<[AtomicU64; N]>().as_ref() }
}

/// The named segment; null if the server has no memory left for it. That does not fail the query; the error is written
/// to the server's log.
fn segment<const N: usize>(name: &'static CStr) -> *mut c_void {
    // SAFETY: a plain global. A server in single-user mode has no dynamic shared memory.
    if !unsafe { pg_sys::IsUnderPostmaster } {
        return std::ptr::null_mut();
    }
    let bytes = N * size_of::<AtomicU64>();
    // SAFETY: each name has one size: callers change the name with their layout.
    let ask = || unsafe { compat::named_segment(name, bytes, zero::<N>) };
    // In parallel workers, too: all versions with named segments can begin a subtransaction there. The segment, and its
    // place in this process, outlive it.
    match attempt(ask) {
        Ok(memory) => memory,
        Err(failed) => {
            error::report(
                PgLogLevel::LOG,
                PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY,
                format!("could not get shared memory \"{}\"", super::text::of_bytes(name.to_bytes())),
                Some(failed.message),
                None,
            );
            std::ptr::null_mut()
        }
    }
}

/// Initializes new memory before any other process can see it.
unsafe extern "C-unwind" fn zero<const N: usize>(memory: *mut c_void) {
    // SAFETY: N words, by named_segment's contract.
    unsafe { memory.cast::<u64>().write_bytes(0, N) }
}

/// The current time as a timestamptz: microseconds.
pub fn now() -> i64 {
    // SAFETY: reads the system's clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}
