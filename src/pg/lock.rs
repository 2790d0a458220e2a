//! Heavyweight locks. Their order is in [`crate::pages`].

use super::Rel;
use pgrx::pg_sys;

/// Page lock under which everything but inserts and reads runs: summarizing, folding, merging.
pub const MAINTENANCE: u32 = 0;
/// Page lock under which delta pages are added.
pub const DELTA_GROWTH: u32 = 1;

/// A lock mode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    None,
    AccessShare,
    ShareUpdateExclusive,
    Exclusive,
}

impl Mode {
    /// PostgreSQL's number for it.
    pub fn raw(self) -> pg_sys::LOCKMODE {
        (match self {
            Mode::None => pg_sys::NoLock,
            Mode::AccessShare => pg_sys::AccessShareLock,
            Mode::ShareUpdateExclusive => pg_sys::ShareUpdateExclusiveLock,
            Mode::Exclusive => pg_sys::ExclusiveLock,
        }) as pg_sys::LOCKMODE
    }
}

/// A heavyweight lock on a page number of an index, held until dropped (or until the transaction aborts).
/// The page number is only a name: the page's buffer is not locked by it.
pub struct PageLock {
    index: Rel,
    page: u32,
}

impl PageLock {
    /// Waits for the lock.
    pub fn take(index: Rel, page: u32) -> Self {
        // SAFETY: index is open.
        unsafe { pg_sys::LockPage(index.raw(), page, Mode::Exclusive.raw()) };
        Self { index, page }
    }

    /// Takes the lock if nobody has it.
    pub fn try_take(index: Rel, page: u32) -> Option<Self> {
        // SAFETY: index is open.
        let taken = unsafe { pg_sys::ConditionalLockPage(index.raw(), page, Mode::Exclusive.raw()) };
        taken.then_some(Self { index, page })
    }
}

impl Drop for PageLock {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: taken in the constructor, released once.
            unsafe { pg_sys::UnlockPage(self.index.raw(), self.page, Mode::Exclusive.raw()) }
        }
    }
}

/// The relation extension lock.
pub struct ExtensionLock(Rel);

impl ExtensionLock {
    /// Waits for the lock. No heavyweight lock may be asked for while it is held.
    pub fn take(rel: Rel) -> Self {
        // SAFETY: rel is open.
        unsafe { pg_sys::LockRelationForExtension(rel.raw(), Mode::Exclusive.raw()) };
        Self(rel)
    }
}

impl Drop for ExtensionLock {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: taken in the constructor, released once.
            unsafe { pg_sys::UnlockRelationForExtension(self.0.raw(), Mode::Exclusive.raw()) }
        }
    }
}
