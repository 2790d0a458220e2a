//! A pin of an index's meta page that the inserts of one statement keep from row to row.
//!
//! Pinning and unpinning a page for each row is most of what an insert behind the watermark costs, and processes that
//! insert at the same time all change the same buffer header for it.
//!
//! A pin belongs to a resource owner, and has to be given back before the server releases that owner: it warns of pins
//! that are left at a commit. The owner is that of the (sub)transaction, which outlives the statement; that of the
//! portal may be released before anything here is told. A [`MetaPin`] lives in the memory context of a statement's
//! IndexInfo. From PostgreSQL 17 on it is dropped when the server closes the index; before, with the IndexInfo: when
//! the executor ends; after COPY with the portal, which a client may keep; in a function with the query that calls the
//! function. Two things may come before that, and leave the value without a pin:
//!
//! - The (sub)transaction fails: the server takes the pin back with its owner.
//! - It commits, after a command that makes an IndexInfo without an executor (CREATE INDEX CONCURRENTLY): pins that are
//!   left are given back right before.
//!
//! So before PostgreSQL 17 a pin may be held after the statement has closed the index. ALTER INDEX … SET TABLESPACE of
//! another session, which needs no lock of the table, then waits until the query with the COPY ends; nothing cancels
//! it. And the server panics if it has to drop a buffer that this process has pinned. It drops buffers before the
//! transaction ends where TRUNCATE cuts off a file of the same transaction: right before TRUNCATE all pins are given
//! back ([`super::alter`]), and no pin is kept of an index whose file was created in this transaction. ON COMMIT DELETE
//! ROWS comes after the pins were given back for the commit.
//!
//! Invariant: [`KEPT`] has exactly the pins that are held.

use super::error::IndexResult;
use super::{Rel, page};
use pgrx::pg_sys;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::rc::Rc;

/// The most pins that a process keeps. The server counts the pins of eight buffers without a search; more pins would
/// slow down everything else. A statement that inserts into more partitions than this pins their pages row by row.
const MOST_KEPT: usize = 4;

/// A pin, while [`KEPT`] has it.
struct KeptPin {
    buffer: pg_sys::Buffer,
    owner: pg_sys::ResourceOwner,
    is_held: Cell<bool>,
}

thread_local! {
    static KEPT: RefCell<Vec<Rc<KeptPin>>> = const { RefCell::new(Vec::new()) };
    /// Whether the server knows the callbacks of this module.
    static IS_REGISTERED: Cell<bool> = const { Cell::new(false) };
}

/// A pin of the meta page of an index.
pub struct MetaPin(Rc<KeptPin>);

impl MetaPin {
    /// Pins the meta page. None if the file was created in this transaction, or the process keeps enough pins already.
    ///
    /// # Errors
    /// Damage: the index has no pages.
    pub fn keep(index: Rel) -> IndexResult<Option<Self>> {
        if index.is_created_in_transaction() || KEPT.with_borrow(Vec::len) >= MOST_KEPT {
            return Ok(None);
        }
        register();
        let owner = transaction_owner();
        let buffer = owned_by(owner, || page::pin_meta(index))?;
        let kept = KeptPin { buffer, owner, is_held: Cell::new(true) };
        let kept = Rc::new(kept);
        KEPT.with_borrow_mut(|all| all.push(Rc::clone(&kept)));
        Ok(Some(Self(kept)))
    }

    /// Words of the page, as [`page::peek_meta`] reads them. None if the pin was given back.
    #[inline]
    pub fn peek<const N: usize>(&self, places: [usize; N]) -> Option<[u32; N]> {
        let Self(kept) = self;
        // SAFETY: the buffer is pinned.
        kept.is_held.get().then(|| unsafe { page::words(kept.buffer, places) })
    }
}

impl Drop for MetaPin {
    fn drop(&mut self) {
        give_back(|kept| Rc::ptr_eq(kept, &self.0));
    }
}

/// The resource owner of the current (sub)transaction.
fn transaction_owner() -> pg_sys::ResourceOwner {
    // SAFETY: a variable of this process, which has one thread.
    unsafe { pg_sys::CurTransactionResourceOwner }
}

/// Runs `body` with this resource owner as the current one. After an ERROR the server sets the current one itself.
fn owned_by<R>(owner: pg_sys::ResourceOwner, body: impl FnOnce() -> R) -> R {
    // SAFETY: a variable of this process, which has one thread.
    unsafe {
        let current = pg_sys::CurrentResourceOwner;
        pg_sys::CurrentResourceOwner = owner;
        let result = body();
        pg_sys::CurrentResourceOwner = current;
        result
    }
}

/// Gives pins back to their owners, which still exist.
fn give_back(which: impl Fn(&Rc<KeptPin>) -> bool) {
    KEPT.with_borrow_mut(|all| {
        all.retain(|kept| {
            if !which(kept) {
                return true;
            }
            kept.is_held.set(false);
            // SAFETY: pinned in `keep`, for this owner, which the server has not released: forget() would have been
            // called. Giving a pin back that an owner has raises no error.
            owned_by(kept.owner, || unsafe { page::unpin(kept.buffer) });
            false
        });
    });
}

fn register() {
    if !IS_REGISTERED.replace(true) {
        // SAFETY: functions of this library, which is never unloaded.
        unsafe {
            pg_sys::RegisterResourceReleaseCallback(Some(forget), std::ptr::null_mut());
            pg_sys::RegisterXactCallback(Some(at_commit), std::ptr::null_mut());
            pg_sys::RegisterSubXactCallback(Some(at_subcommit), std::ptr::null_mut());
        }
    }
}

/// Forgets the pins of a resource owner that the server releases: it has taken them back.
unsafe extern "C-unwind" fn forget(
    phase: pg_sys::ResourceReleasePhase::Type,
    _is_commit: bool,
    _is_top_level: bool,
    _arg: *mut c_void,
) {
    if phase != pg_sys::ResourceReleasePhase::RESOURCE_RELEASE_BEFORE_LOCKS {
        return;
    }
    // SAFETY: a variable of this process. The server calls this with the owner that it releases as the current one.
    let owner = unsafe { pg_sys::CurrentResourceOwner };
    // The list is borrowed if the session ends because there is no memory for it ([`super::allocator`]).
    KEPT.with(|all| {
        let Ok(mut all) = all.try_borrow_mut() else { return };
        all.retain(|kept| {
            let stays = kept.owner != owner;
            kept.is_held.set(stays);
            stays
        });
    });
}

/// Gives all pins back. Statements that go on pin again.
pub fn give_back_all() {
    give_back(|_| true);
}

unsafe extern "C-unwind" fn at_commit(event: pg_sys::XactEvent::Type, _arg: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_PRE_COMMIT, XACT_EVENT_PRE_PREPARE};
    // All statements of the transaction have ended.
    if matches!(event, XACT_EVENT_PRE_COMMIT | XACT_EVENT_PRE_PREPARE) {
        give_back_all();
    }
}

unsafe extern "C-unwind" fn at_subcommit(
    event: pg_sys::SubXactEvent::Type,
    _subtransaction: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _arg: *mut c_void,
) {
    if event == pg_sys::SubXactEvent::SUBXACT_EVENT_PRE_COMMIT_SUB {
        let owner = transaction_owner();
        give_back(|kept| kept.owner == owner);
    }
}
