//! Snapshots that are too old, in 15 and 16. With `old_snapshot_threshold`, the server removes rows that such a
//! snapshot still sees, and raises an error when it reads a page that was changed since. What an index rules out is
//! never read. So the error is raised after a lookup as well. PostgreSQL 17 has no such setting.

use crate::pg::Rel;
use pgrx::pg_sys;

/// Whether the server may remove rows that a snapshot in use sees.
#[cfg(any(feature = "pg15", feature = "pg16"))]
pub fn may_lose_rows() -> bool {
    // SAFETY: a plain global.
    unsafe { pg_sys::old_snapshot_threshold >= 0 }
}

/// Raises the server's error if rows that the snapshot sees may have been removed. The server raises it only for pages
/// that were changed since the snapshot was taken. Here it is raised for any index, changed or not: the setting
/// promises only that queries with newer snapshots do not fail.
///
/// # Safety
/// `snapshot` is a valid snapshot, or NULL.
#[cfg(any(feature = "pg15", feature = "pg16"))]
pub unsafe fn test_for_old_snapshot(index: Rel, snapshot: pg_sys::Snapshot) {
    // SAFETY: as the caller promises; the conditions of TestForOldSnapshot in bufmgr.h, but for the page's. Snapshots
    // have a position in WAL only if the threshold is set.
    unsafe {
        let Some(fields) = snapshot.as_ref().filter(|_| may_lose_rows()) else { return };
        if fields.snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC && fields.lsn != 0 {
            crate::pg::boundary::call(|| raw::TestForOldSnapshot_impl(snapshot, index.raw()));
        }
    }
}

#[cfg(any(feature = "pg15", feature = "pg16"))]
mod raw {
    use pgrx::pg_sys;
    // SAFETY: the signature of bufmgr.h in both versions.
    unsafe extern "C-unwind" {
        pub fn TestForOldSnapshot_impl(snapshot: pg_sys::Snapshot, relation: pg_sys::Relation);
    }
}

/// No snapshot is too old in this version.
///
/// # Safety
/// None is needed.
#[cfg(any(feature = "pg17", feature = "pg18"))]
pub unsafe fn test_for_old_snapshot(_index: Rel, _snapshot: pg_sys::Snapshot) {}
