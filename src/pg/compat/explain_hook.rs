//! The hook with which EXPLAIN calls extensions for each node of a plan (18 and later).

use pgrx::pg_sys;
use std::ffi::c_char;

/// Called with a node, its ancestors, its relationship to its parent, the name of its plan, and EXPLAIN's state.
pub type NodeHook = unsafe extern "C-unwind" fn(
    *mut pg_sys::PlanState,
    *mut pg_sys::List,
    *const c_char,
    *const c_char,
    *mut pg_sys::ExplainState,
);

/// Installs a hook. Returns the one that was installed before.
///
/// # Safety
/// Called from _PG_init, by the only thread.
#[cfg(feature = "pg18")]
pub unsafe fn install_explain_hook(hook: NodeHook) -> Option<NodeHook> {
    // SAFETY: as the caller promises.
    unsafe {
        let previous = pg_sys::explain_per_node_hook;
        pg_sys::explain_per_node_hook = Some(hook);
        previous
    }
}

/// Does nothing: this server has no such hook.
///
/// # Safety
/// None is needed.
#[cfg(not(feature = "pg18"))]
pub unsafe fn install_explain_hook(hook: NodeHook) -> Option<NodeHook> {
    let _ = hook;
    None
}
