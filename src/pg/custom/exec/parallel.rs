//! Sharing a scan between parallel processes.
//!
//! The leader makes the shared state before workers start, and takes over their counts before it is removed. Claims are
//! made in [`skip_scan::blocks`]; a rescan makes all ranges available again.

use super::{count_shared, run_of, stop, take_predicate_locks};
use crate::pg::{Rel, boundary};
use pgrx::pg_sys;
use skip_scan::blocks::SharedScan;
use std::ffi::c_void;

/// EstimateDSMCustomScan: bytes of shared memory.
pub(in crate::pg::custom) unsafe extern "C-unwind" fn estimate(
    _node: *mut pg_sys::CustomScanState,
    _context: *mut pg_sys::ParallelContext,
) -> pg_sys::Size {
    boundary::callback(size_of::<SharedScan>)
}

/// InitializeDSMCustomScan: in the leader.
pub(in crate::pg::custom) unsafe extern "C-unwind" fn initialize(
    node: *mut pg_sys::CustomScanState,
    _context: *mut pg_sys::ParallelContext,
    memory: *mut c_void,
) {
    boundary::callback(|| {
        // SAFETY: estimate() bytes of shared memory, aligned to 8; it lives until shutdown() was called.
        unsafe {
            let Some(run) = run_of(node) else { return };
            let shared = memory.cast::<SharedScan>();
            let heap = Rel::from_raw((*node).ss.ss_currentRelation);
            // The first row may be requested much later. A row that another transaction adds behind this size until
            // then must conflict with these locks.
            take_predicate_locks(heap, run, (*(*node).ss.ps.state).es_snapshot);
            shared.write(SharedScan::new(heap.blocks()));
            stop(run);
            (run.is_stale, run.is_over) = (true, false);
            run.shared = Some(&*shared);
            count_shared(run);
        }
    })
}

/// ReInitializeDSMCustomScan: in the leader, before another execution. The workers of the previous execution have
/// exited.
pub(in crate::pg::custom) unsafe extern "C-unwind" fn reinitialize(
    node: *mut pg_sys::CustomScanState,
    _context: *mut pg_sys::ParallelContext,
    _memory: *mut c_void,
) {
    boundary::callback(|| {
        // SAFETY: a node after initialize().
        if let Some(run) = unsafe { run_of(node) }
            && let Some(shared) = run.shared
        {
            shared.restart();
            run.is_over = false;
            count_shared(run);
        }
    })
}

/// InitializeWorkerCustomScan: in a worker.
pub(in crate::pg::custom) unsafe extern "C-unwind" fn initialize_worker(
    node: *mut pg_sys::CustomScanState,
    _toc: *mut pg_sys::shm_toc,
    memory: *mut c_void,
) {
    boundary::callback(|| {
        // SAFETY: the memory that the leader wrote; it lives as long as the worker runs.
        unsafe {
            if let Some(run) = run_of(node) {
                run.shared = Some(&*memory.cast::<SharedScan>());
                run.is_worker = true;
            }
        }
    })
}

/// ShutdownCustomScan: the server is about to remove the shared memory.
pub(in crate::pg::custom) unsafe extern "C-unwind" fn shutdown(node: *mut pg_sys::CustomScanState) {
    boundary::callback(|| {
        // SAFETY: a node after begin().
        let Some(run) = (unsafe { run_of(node) }) else { return };
        let Some(shared) = run.shared.take() else { return };
        match &mut run.blocks {
            Some(blocks) => blocks.get().detach(),
            // The leader read no ranges itself; it may have been busy with its workers' rows.
            None if !run.is_worker => shared.add_to(&mut run.before),
            None => {}
        }
        (run.is_stale, run.is_over) = (true, true);
    })
}
