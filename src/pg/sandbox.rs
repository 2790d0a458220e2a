//! Runs maintenance as the table's owner, in a security-restricted operation, with a safe search_path, because index
//! expressions are the owner's code, whoever the caller is. Core's brin_summarize_range and VACUUM do the same.

use super::{Rel, compat};
use pgrx::pg_sys;

/// While it lives, the current user is the table's owner.
pub struct Sandbox {
    user: pg_sys::Oid,
    context: i32,
    guc_level: i32,
}

impl Sandbox {
    /// Becomes the owner of `table`.
    pub fn enter(table: Rel) -> Self {
        Self::enter_with(table, 0)
    }

    /// Becomes the owner of `table`, whom no row security restrains, for a query that must see all rows.
    pub fn enter_to_read_all(table: Rel) -> Self {
        Self::enter_with(table, pg_sys::SECURITY_NOFORCE_RLS as i32)
    }

    fn enter_with(table: Rel, more: i32) -> Self {
        let (mut user, mut context) = (pg_sys::InvalidOid, 0);
        // SAFETY: reads and sets the session's user state; an ERROR resets it at transaction abort.
        unsafe {
            pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
            let restricted = context | pg_sys::SECURITY_RESTRICTED_OPERATION as i32;
            pg_sys::SetUserIdAndSecContext(table.owner(), restricted | more);
            let guc_level = pg_sys::NewGUCNestLevel();
            compat::restrict_search_path();
            Self { user, context, guc_level }
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: undoes what enter() did, in reverse.
            unsafe {
                pg_sys::AtEOXact_GUC(false, self.guc_level);
                pg_sys::SetUserIdAndSecContext(self.user, self.context);
            }
        }
    }
}

/// Whether this server is a standby or still recovering.
pub fn in_recovery() -> bool {
    // SAFETY: reads shared state.
    unsafe { pg_sys::RecoveryInProgress() }
}
