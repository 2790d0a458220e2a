//! Words of memory that all backends share, known by a name.
//!
//! From 17 on the server hands such memory out whenever it is asked for. Before, room for it must be reserved while the
//! server starts, which only a library in shared_preload_libraries can do; without that there is none.
//!
//! Owns the reservation and the hooks that make it. Invariants: words are zero when they are made, are touched as
//! atomics only, and live as long as the server. No locks: the server's own guard the making.

use super::attempt::attempt;
use super::{boundary, catalog, compat, error};
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// What was reserved, and the hooks that were there before ours.
struct Reservation {
    name: &'static CStr,
    words: usize,
    next_request: pg_sys::shmem_request_hook_type,
    next_startup: pg_sys::shmem_startup_hook_type,
}

static RESERVATION: OnceLock<Reservation> = OnceLock::new();
/// The reserved words, from the server's start (or restart after a crash) on.
static RESERVED: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// Reserves `N` words where that is the only way to have them. Called once, when the library is loaded.
pub fn reserve<const N: usize>(name: &'static CStr) {
    // SAFETY: plain globals of the server, which is starting: there is one process.
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
        // SAFETY: the hook is the place to ask for room, and to call the hook that was there before.
        unsafe {
            if let Some(next) = reservation.next_request {
                boundary::call(|| next());
            }
            pg_sys::RequestAddinShmemSpace(reservation.words * size_of::<AtomicU64>());
        }
    })
}

/// shmem_startup_hook. Only the postmaster comes here where processes are forked, so AddinShmemInitLock, which keeps
/// apart processes that are started anew, is not needed.
unsafe extern "C-unwind" fn start_up() {
    boundary::callback(|| {
        let Some(reservation) = RESERVATION.get() else { return };
        // SAFETY: the hook is the place for ShmemInitStruct, which returns as many bytes as were asked for; nobody else
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

/// The `N` words of a name; None when backends cannot share any. May allocate, and take a subtransaction, so whoever
/// asks keeps the answer.
pub fn words<const N: usize>(name: &'static CStr) -> Option<&'static [AtomicU64; N]> {
    let memory = if compat::HAS_NAMED_SEGMENTS {
        segment::<N>(name)
    } else {
        let fits = RESERVATION.get().is_some_and(|r| r.name == name && r.words == N);
        if fits { RESERVED.load(Ordering::Acquire).cast() } else { std::ptr::null_mut() }
    };
    // SAFETY: null, or the start of N aligned words that live longer than this process and are atomics for everybody.
    unsafe { memory.cast::<[AtomicU64; N]>().as_ref() }
}

/// The named segment; null when the server has no memory left for it. That is no reason to fail a query: it goes to
/// the server's log.
fn segment<const N: usize>(name: &'static CStr) -> *mut c_void {
    // SAFETY: a plain global. A server in single-user mode has no dynamic shared memory.
    if !unsafe { pg_sys::IsUnderPostmaster } {
        return std::ptr::null_mut();
    }
    let bytes = N * size_of::<AtomicU64>();
    // SAFETY: the name stands for one size: callers change it with their layout.
    let ask = || unsafe { compat::named_segment(name, bytes, zero::<N>) };
    if catalog::in_parallel_mode() {
        // There are no subtransactions. The leader has made the segment before it started workers, as a rule.
        return ask();
    }
    match attempt(ask) {
        Ok(memory) => memory,
        Err(message) => {
            error::report(
                PgLogLevel::LOG,
                PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY,
                format!("could not get shared memory \"{}\"", super::text::of_bytes(name.to_bytes())),
                Some(message),
                None,
            );
            std::ptr::null_mut()
        }
    }
}

/// Called with new memory before anybody else can see it.
unsafe extern "C-unwind" fn zero<const N: usize>(memory: *mut c_void) {
    // SAFETY: N words, by named_segment's contract.
    unsafe { memory.cast::<u64>().write_bytes(0, N) }
}

/// The time, as a timestamptz has it: microseconds.
pub fn now() -> i64 {
    // SAFETY: asks the system's clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}
