//! Transfer of states within this process, by a token instead of bytes.
//!
//! An offer ends when the state's memory is reset, and when the state is taken. So a token leads to an existing state
//! at most once, even if it was kept for a long time. Tokens of other processes lead to nothing.

use pgrx::{PgMemoryContexts, pg_sys};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::hash::{BuildHasher, Hasher, RandomState};

thread_local! {
    /// The open offers: tokens, and the addresses of their states.
    static OFFERS: RefCell<Vec<(u64, *mut c_void)>> = const { RefCell::new(Vec::new()) };
    /// The next token. The first one is random, so that processes have different tokens.
    static NEXT: Cell<u64> = Cell::new(RandomState::new().build_hasher().finish());
}

/// Ends an offer when it is dropped, together with the memory of the state.
struct Offer(u64);

impl Drop for Offer {
    fn drop(&mut self) {
        OFFERS.with_borrow_mut(|offers| offers.retain(|(token, _)| *token != self.0));
    }
}

/// Offers a state, and returns its token.
///
/// # Safety
/// The state is in `context`.
pub(super) unsafe fn offer(context: pg_sys::MemoryContext, state: *mut c_void) -> u64 {
    let token = NEXT.get();
    NEXT.set(token.wrapping_add(1));
    OFFERS.with_borrow_mut(|offers| offers.push((token, state)));
    PgMemoryContexts::For(context).leak_and_drop_on_delete(Offer(token));
    token
}

/// Takes the state of a token, and ends all offers of it.
pub(super) fn take(token: u64) -> Option<*mut c_void> {
    OFFERS.with_borrow_mut(|offers| {
        let &(_, state) = offers.iter().find(|(known, _)| *known == token)?;
        offers.retain(|(_, offered)| *offered != state);
        Some(state)
    })
}
