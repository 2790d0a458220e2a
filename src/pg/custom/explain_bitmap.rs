//! EXPLAIN (ANALYZE) of a Bitmap Index Scan: how many block ranges the index has not summarized, all of which were
//! read. Where the server has no hook for that (before 18), skip_explain tells.

use super::implementation;
use super::plan::ours;
use crate::pg::compat::{self, NodeHook};
use crate::pg::{Rel, boundary};
use pgrx::{is_a, pg_sys};
use std::ffi::c_char;
use std::sync::OnceLock;

static PREVIOUS: OnceLock<Option<NodeHook>> = OnceLock::new();

/// Installs the hook.
pub(super) fn install() {
    // SAFETY: called from _PG_init, by the only thread.
    PREVIOUS.get_or_init(|| unsafe { compat::install_explain_hook(explain_node) });
}

unsafe extern "C-unwind" fn explain_node(
    node: *mut pg_sys::PlanState,
    ancestors: *mut pg_sys::List,
    relationship: *const c_char,
    plan_name: *const c_char,
    state: *mut pg_sys::ExplainState,
) {
    boundary::callback(|| {
        // SAFETY: the arguments come from PostgreSQL; the previous hook may raise an error. The index of a node that
        // was executed stays open until the executor ends, which is after EXPLAIN.
        unsafe {
            if let Some(Some(previous)) = PREVIOUS.get() {
                boundary::call(|| previous(node, ancestors, relationship, plan_name, state));
            }
            if !(*state).analyze || !is_a(node.cast(), pg_sys::NodeTag::T_BitmapIndexScanState) {
                return;
            }
            let index = (*node.cast::<pg_sys::BitmapIndexScanState>()).biss_RelationDesc;
            let is_ours = |index: pg_sys::Relation| {
                (*(*index).rd_indam).amcostestimate.is_some_and(|estimate| estimate as usize == ours())
            };
            if index.is_null() || (*index).rd_indam.is_null() || !is_ours(index) {
                return;
            }
            let Some(ranges) = implementation().unsummarized(Rel::from_raw(index)) else { return };
            let label = match (*state).format {
                pg_sys::ExplainFormat::EXPLAIN_FORMAT_TEXT => c"Unsummarized Ranges",
                _ => c"Ranges Unsummarized",
            };
            pg_sys::ExplainPropertyInteger(label.as_ptr(), std::ptr::null(), ranges.into(), state);
        }
    })
}
