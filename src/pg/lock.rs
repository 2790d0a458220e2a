//! Heavyweight locks. Their order is in [`crate::pages`].

pub use super::relation::Mode;
use super::{Rel, catalog, compat, fail, server};
use pgrx::{PgSqlErrorCode, pg_sys};

/// What a lock of an index is for. Tuple locks of the meta block stand for them, as names only. Page locks
/// would take no part in deadlock detection before PostgreSQL 17, and no other lock may be taken under them there; but
/// maintenance runs index expressions, which may lock anything.
#[derive(Clone, Copy)]
#[repr(u16)]
pub enum LockKind {
    /// All writing except inserts needs it: summarizing, folding, merging.
    Maintenance = 1,
    /// Adding pages to the delta needs it, taking pages out of it, and reading its chains while they must not change.
    DeltaGrowth = 2,
}

/// The block whose tuples stand for the locks.
const META_BLOCK: pg_sys::BlockNumber = 0;

impl LockKind {
    fn tid(self) -> pg_sys::ItemPointerData {
        let mut tid = pg_sys::ItemPointerData::default();
        pgrx::itemptr::item_pointer_set_all(&mut tid, META_BLOCK, self as u16);
        tid
    }

    /// What SET_LOCKTAG_TUPLE makes.
    fn tag(self, index: Rel<'_>) -> pg_sys::LOCKTAG {
        // SAFETY: index is open, so its descriptor stays where it is.
        let id = unsafe { (*index.raw()).rd_lockInfo.lockRelId };
        pg_sys::LOCKTAG {
            locktag_field1: id.dbId.to_u32(),
            locktag_field2: id.relId.to_u32(),
            locktag_field3: META_BLOCK,
            locktag_field4: self as u16,
            locktag_type: pg_sys::LockTagType::LOCKTAG_TUPLE as u8,
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        }
    }

    /// Whether this process has the lock. The server knows, also after errors and rollbacks.
    fn is_held(self, index: Rel<'_>) -> bool {
        compat::is_lock_held(&self.tag(index), Mode::Exclusive.raw())
    }
}

/// A heavyweight lock of an index, held until dropped (or until the transaction aborts).
pub struct IndexLock<'a> {
    index: Rel<'a>,
    kind: LockKind,
}

impl<'a> IndexLock<'a> {
    /// Waits for the lock. Raises an error if this process has it already: maintenance runs users' code, which has then
    /// asked for maintenance of the same index.
    pub fn take(index: Rel<'a>, kind: LockKind) -> Self {
        if kind.is_held(index) {
            is_maintained_already(index);
        }
        // SAFETY: index is open.
        unsafe { pg_sys::LockTuple(index.raw(), &mut kind.tid(), Mode::Exclusive.raw()) };
        Self { index, kind }
    }

    /// Takes the lock if no process has it, not even this one. (The server would grant it to this process again. Then a
    /// row that a user-defined function inserts during maintenance would start maintenance within that maintenance.)
    pub fn try_take(index: Rel<'a>, kind: LockKind) -> Option<Self> {
        if kind.is_held(index) {
            return None;
        }
        // SAFETY: index is open.
        let taken = unsafe { compat::try_lock_tuple(index.raw(), &mut kind.tid(), Mode::Exclusive.raw()) };
        // Not then_some: it would also make, and drop, a guard for a lock that was not taken.
        taken.then(|| Self { index, kind })
    }
}

impl Drop for IndexLock<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: taken in the constructor, released once.
            unsafe { pg_sys::UnlockTuple(self.index.raw(), &mut self.kind.tid(), Mode::Exclusive.raw()) }
        }
    }
}

fn is_maintained_already(index: Rel<'_>) -> ! {
    let name = index.name();
    fail(
        PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
        format!("index \"{name}\" is being maintained by the current session"),
        Some("A function that the maintenance calls asks for maintenance of the same index.".into()),
        Some("Functions of an index must not change its table.".into()),
    )
}

/// A lock that a background worker holds until its process ends. Nobody waits for it.
///
/// It is an advisory lock, because the server releases only those at the end of a process that is in no transaction.
/// The last field of its tag is 1 or 2 for the locks of the SQL functions, so these never take it.
pub struct WorkerLock(pg_sys::LOCKTAG);

impl WorkerLock {
    /// The last field of the tag: "sk".
    const FIELD: u16 = 0x736b;

    /// The lock of the worker of an index.
    pub fn of(index: pg_sys::Oid) -> Self {
        // SAFETY: a plain global of the server.
        let database = unsafe { pg_sys::MyDatabaseId };
        Self::with(database, index.to_u32())
    }

    /// The lock of one of the places that workers of all databases have.
    pub fn of_place(number: u32) -> Self {
        Self::with(pg_sys::InvalidOid, number)
    }

    /// What SET_LOCKTAG_ADVISORY makes.
    fn with(database: pg_sys::Oid, number: u32) -> Self {
        Self(pg_sys::LOCKTAG {
            locktag_field1: database.to_u32(),
            locktag_field2: number,
            locktag_field3: 0,
            locktag_field4: Self::FIELD,
            locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
            locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
        })
    }

    /// Takes the lock until this process ends, if it is free.
    pub fn try_take_for_process(&self) -> bool {
        try_lock(&self.0, Mode::Exclusive.raw(), true)
    }

    /// Whether no process has the lock. Two processes that ask this at the same time do not see each other.
    pub fn is_free(&self) -> bool {
        let (mode, for_session) = (pg_sys::ShareLock as pg_sys::LOCKMODE, false);
        let is_free = try_lock(&self.0, mode, for_session);
        if is_free {
            // SAFETY: taken above.
            unsafe { pg_sys::LockRelease(&self.0, mode, for_session) };
        }
        is_free
    }
}

/// Takes RowExclusive on the database of this process until its transaction ends, if no other process has or waits for
/// a lock that conflicts: it is what a session takes while it connects. DROP DATABASE and CREATE DATABASE ... TEMPLATE
/// then wait for this transaction.
pub fn try_lock_database() -> bool {
    // SAFETY: a plain global of the server.
    let database = unsafe { pg_sys::MyDatabaseId };
    // What SET_LOCKTAG_OBJECT makes for a shared object.
    let tag = pg_sys::LOCKTAG {
        locktag_field1: 0,
        locktag_field2: pg_sys::DatabaseRelationId.to_u32(),
        locktag_field3: database.to_u32(),
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    };
    try_lock(&tag, Mode::RowExclusive.raw(), false)
}

/// Takes a heavyweight lock if that needs no waiting: until the transaction ends, or for the session.
fn try_lock(tag: &pg_sys::LOCKTAG, mode: pg_sys::LOCKMODE, for_session: bool) -> bool {
    let no_wait = true;
    // SAFETY: every LOCKTAG is a valid name of a lock; the server copies it.
    let result = unsafe { pg_sys::LockAcquire(tag, mode, for_session, no_wait) };
    result != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

/// The relation extension lock.
pub struct ExtensionLock<'a>(Rel<'a>);

impl<'a> ExtensionLock<'a> {
    /// Waits for the lock. No heavyweight lock may be requested while it is held.
    pub fn take(rel: Rel<'a>) -> Self {
        // SAFETY: rel is open.
        unsafe { pg_sys::LockRelationForExtension(rel.raw(), Mode::Exclusive.raw()) };
        Self(rel)
    }
}

impl Drop for ExtensionLock<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: taken in the constructor, released once.
            unsafe { pg_sys::UnlockRelationForExtension(self.0.raw(), Mode::Exclusive.raw()) }
        }
    }
}

/// The locks under which no other process uses an index, on a standby neither.
///
/// The table is locked as well, before the index, which is the order of readers. VACUUM may cut the table off in the
/// same transaction. A standby keeps both locks until that ends; if it locked the index first, it could wait for a
/// reader of the table that waits for the index.
pub struct AloneLock<'a> {
    _table: ExclusiveAccess<'a>,
    index: ExclusiveAccess<'a>,
}

impl<'a> AloneLock<'a> {
    /// Takes the locks if no other process uses the table or the index. Not in parallel mode, where they could not be
    /// logged for standbys, which takes a transaction id.
    pub fn try_take(table: Rel<'a>, index: Rel<'a>) -> Option<Self> {
        if catalog::in_parallel_mode() {
            return None;
        }
        Some(Self { _table: ExclusiveAccess::try_take(table)?, index: ExclusiveAccess::try_take(index)? })
    }

    /// Cuts the index's file off behind its first `blocks` blocks, and logs that.
    ///
    /// The WAL of this transaction is flushed first: it has the last changes of the directory. Otherwise a directory
    /// that still names the removed blocks could be on disk after a crash. The server flushes by itself since 15.11,
    /// 16.7 and 17.3; before, only for files with a free space or visibility map. (The end of all WAL cannot be the
    /// position: it may be the start of a WAL page that nobody has begun.)
    pub fn truncate(&self, blocks: u32) {
        let index = self.index.0;
        // SAFETY: the index is open, and locked as the function demands; this process has no block pinned but perhaps
        // the meta page (`meta_pin`), which is the first one and stays. The position is the end of a record of this
        // process, or 0 if it has logged nothing.
        unsafe {
            if index.needs_wal() && pg_sys::XactLastRecEnd != 0 {
                pg_sys::XLogFlush(pg_sys::XactLastRecEnd);
            }
            pg_sys::RelationTruncate(index.raw(), blocks)
        }
    }
}

struct ExclusiveAccess<'a>(Rel<'a>);

impl<'a> ExclusiveAccess<'a> {
    const MODE: pg_sys::LOCKMODE = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;

    fn try_take(rel: Rel<'a>) -> Option<Self> {
        // SAFETY: rel is open.
        unsafe { pg_sys::ConditionalLockRelation(rel.raw(), Self::MODE) }.then(|| Self(rel))
    }
}

impl Drop for ExclusiveAccess<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: taken in try_take, released once. Cutting off a file is not undone by an abort, so the lock need
            // not be held until the transaction ends; VACUUM releases that of a table as well.
            unsafe { pg_sys::UnlockRelation(self.0.raw(), Self::MODE) }
        }
    }
}

/// Records for a serializable transaction's conflict detection that the whole table, or index, is read. Has no effect
/// in other transactions.
///
/// An insert checks for the record of the table when it puts the row on its page, and for that of the index when it
/// adds the keys ([`check_conflict_in`]). A reader that rules the row's range out in between has recorded the index
/// before it reads that.
pub fn predicate_lock_relation(rel: Rel, snapshot: pg_sys::Snapshot) {
    // Not among pgrx's bindings. SAFETY: the signature of predicate.h in every supported version.
    unsafe extern "C-unwind" {
        fn PredicateLockRelation(relation: pg_sys::Relation, snapshot: pg_sys::Snapshot);
    }
    // SAFETY: an open relation and the execution's snapshot; an error (no memory for the lock) becomes a panic here.
    // The isolation level is a plain global; a parallel worker has a copy of its leader's.
    unsafe {
        if !compat::KEEPS_ISOLATION_LEVEL || pg_sys::XactIsoLevel >= pg_sys::XACT_SERIALIZABLE as i32 {
            pg_sys::ffi::pg_guard_ffi_boundary(|| PredicateLockRelation(rel.raw(), snapshot))
        }
    }
}

/// Checks, in a serializable transaction, for transactions that have read the index without the keys that were just
/// added to it. The server checks before it calls aminsert, and a reader may come between the two.
pub fn check_conflict_in(index: Rel) {
    // SAFETY: an open index, which is not a row and not a page.
    unsafe {
        let (no_row, no_page) = (std::ptr::null_mut(), pg_sys::InvalidBlockNumber);
        server::CheckForSerializableConflictIn(index.raw(), no_row, no_page);
    }
}
