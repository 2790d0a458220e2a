//! The executor node.
//!
//! It looks into the indexes at the first row it is asked for, not before: a key may be the result of another part of
//! the plan. The order is what makes the answer right: the snapshot is there; the predicate lock on the whole table is
//! taken (a serializable transaction that finds everything ruled out has read nothing else); the table's size is read;
//! then the indexes. What they said is used for this execution only, or for the next one with the same keys: both have
//! the same snapshot.
//!
//! The served conditions are checked here ([`served`]), row by row, which tells whether a range was read in vain; all
//! others by ExecScan. For EvalPlanQual ExecScan brings the row itself and asks to check the served conditions on it;
//! ranges play no part in that.

mod binding;
mod lists;
pub(super) mod parallel;
mod served;

use super::super::list::list;
use super::pages::Pages;
use super::{Private, implementation};
use crate::pg::clause::Clause;
use crate::pg::memory::Scratch;
use crate::pg::relation::NodeIndexes;
use crate::pg::{Rel, boundary, compat, fail, lock, server};
use pgrx::{PgMemoryContexts, PgSqlErrorCode, pg_sys};
use served::Served;
use skip_scan::blocks::{Blocks, ScanCounters, SharedScan, Survivors};

/// The node: the server's part, and where ours is.
#[repr(C)]
pub(super) struct Node {
    server: pg_sys::CustomScanState,
    run: *mut Run,
}

/// Blocks that the feed of pages has a pointer to as well: nobody keeps a reference over a call that may read pages.
struct SharedBlocks(*mut Blocks);

impl SharedBlocks {
    fn new(blocks: Blocks) -> Self {
        Self(Box::into_raw(Box::new(blocks)))
    }

    /// For one call.
    #[inline]
    fn get(&mut self) -> &mut Blocks {
        // SAFETY: made in new(), freed in drop(); the feed uses it only while a page is asked for.
        unsafe { &mut *self.0 }
    }

    fn counters(&self) -> ScanCounters {
        // SAFETY: as in get().
        unsafe { (*self.0).counters }
    }
}

impl Drop for SharedBlocks {
    fn drop(&mut self) {
        // SAFETY: made in new(), freed once. The feed has ended before, or is not used any more: the query failed.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Our part of the node, dropped with the query's memory.
pub(super) struct Run {
    pub(super) private: Private,
    pub(super) indexes: NodeIndexes,
    /// The served conditions, and the keys.
    served: Served,
    /// What is being read, from the first row on.
    blocks: Option<SharedBlocks>,
    pages: Option<Pages>,
    /// Keys have changed: the indexes must be asked again.
    is_stale: bool,
    /// The shared state is gone: there are no more rows until the next execution. To go on alone would repeat rows.
    is_over: bool,
    shared: Option<&'static SharedScan>,
    is_worker: bool,
    /// What executions before this one have counted.
    before: ScanCounters,
}

impl Run {
    /// What was counted up to now, in this process and, as far as they have said so, in its workers.
    pub(super) fn counters(&self) -> ScanCounters {
        let mut counters = self.before;
        if let Some(blocks) = &self.blocks {
            counters.add(&blocks.counters());
        }
        counters
    }
}

/// # Safety
/// A node made by [`create_state`].
pub(super) unsafe fn run_of<'a>(node: *mut pg_sys::CustomScanState) -> Option<&'a mut Run> {
    // SAFETY: the server calls with the node that create_state() has made. begin() has put the Run into the query's
    // memory, which goes after the node; NULL before. A callback asks once, and none runs within another of the same
    // node.
    unsafe { (*node.cast::<Node>()).run.as_mut() }
}

/// CreateCustomScanState.
pub(super) unsafe extern "C-unwind" fn create_state(_scan: *mut pg_sys::CustomScan) -> *mut pg_sys::Node {
    boundary::callback(|| {
        // SAFETY: a palloc'd node, zeroed but for its tag and methods.
        unsafe {
            let node = pg_sys::palloc0(size_of::<Node>()).cast::<Node>();
            (*node).server.ss.ps.type_ = pg_sys::NodeTag::T_CustomScanState;
            (*node).server.methods = super::exec_methods();
            compat::announce_scan_slot(&mut (*node).server);
            node.cast()
        }
    })
}

/// BeginCustomScan.
pub(super) unsafe extern "C-unwind" fn begin(
    node: *mut pg_sys::CustomScanState,
    estate: *mut pg_sys::EState,
    eflags: std::ffi::c_int,
) {
    boundary::callback(|| {
        // SAFETY: a node of ours whose table the server has opened; what is made here lives as long as the query's
        // memory.
        unsafe {
            compat::init_scan_slot(node, estate);
            let planstate = &raw mut (*node).ss.ps;
            let scan = (*planstate).plan.cast::<pg_sys::CustomScan>();
            let private = Private::of(scan);
            let is_explained = eflags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as i32 != 0;
            let exprs: Vec<*mut pg_sys::Node> = list((*scan).custom_exprs).collect();
            let (served, keys) = exprs.split_at(private.served.min(exprs.len()));
            let served = Served::new(served, keys, &raw mut (*node).ss);
            let mut indexes = NodeIndexes::default();
            if !is_explained {
                let mode = (*pg_sys::exec_rt_fetch((*scan).scan.scanrelid, estate)).rellockmode;
                // The planner's locks on them are gone when the plan comes from a cache.
                indexes = NodeIndexes::open(&private.indexes, mode);
                implementation().started();
            }
            let run = Run {
                private,
                indexes,
                served,
                blocks: None,
                pages: None,
                is_stale: true,
                is_over: false,
                shared: None,
                is_worker: false,
                before: ScanCounters::default(),
            };
            (*node.cast::<Node>()).run =
                PgMemoryContexts::For((*estate).es_query_cxt).leak_and_drop_on_delete(run);
        }
    })
}

/// Asks the indexes.
///
/// # Safety
/// A node after [`begin`] with its Run, in an execution.
unsafe fn survivors(run: &mut Run, node: *mut pg_sys::CustomScanState, blocks: u32) -> Survivors {
    // SAFETY: the executor is running the node, whose context is there as long as itself. What is made of keys lives in
    // the scratch memory until they are hashed.
    unsafe {
        run.served.evaluate_keys((*node).ss.ps.ps_ExprContext);
        let served = &run.served;
        let mut key = |clause: &Clause<Option<u16>>| {
            let value = clause.key.and_then(|number| served.value(usize::from(number)));
            clause.evaluated(value)
        };
        let indexes = run.indexes.rels();
        Scratch::new().run(|| implementation().survivors(&run.private.code, blocks, indexes, &mut key))
    }
}

/// Gets everything ready for reading rows, if it is not.
///
/// # Safety
/// A node after [`begin`], in an execution.
unsafe fn start(node: *mut pg_sys::CustomScanState, run: &mut Run) {
    if run.blocks.is_some() && !run.is_stale {
        return;
    }
    stop(run);
    // SAFETY: the executor is running the node: its EState, with the snapshot, and its open table are there until the
    // query ends. Scan and stream live in the query's memory.
    unsafe {
        let estate = (*node).ss.ps.state;
        let heap = Rel::from_raw((*node).ss.ss_currentRelation);
        let before = pg_sys::MemoryContextSwitchTo((*estate).es_query_cxt);
        lock::predicate_lock_relation(heap, (*estate).es_snapshot);
        let size = run.shared.map_or_else(|| heap.blocks(), SharedScan::blocks);
        let survivors = survivors(run, node, size);
        let Some(blocks) = Blocks::new(survivors, size, run.shared, run.is_worker) else {
            fail(
                PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
                "parallel workers see different versions of a skip index".into(),
                None,
                None,
            )
        };
        if run.shared.is_none() {
            run.indexes.rels().iter().for_each(|&index| compat::count_index_scan(index));
        }
        let mut blocks = SharedBlocks::new(blocks);
        // Nothing to read is the common case, and not worth setting up a scan for.
        if !blocks.get().is_nothing() {
            run.pages = Some(Pages::begin(heap, (*estate).es_snapshot, blocks.0));
        }
        run.blocks = Some(blocks);
        run.is_stale = false;
        pg_sys::MemoryContextSwitchTo(before);
    }
}

/// Counts an execution that parallel processes share.
fn count_shared(run: &mut Run) {
    run.before.scans += 1;
    run.indexes.rels().iter().for_each(|&index| compat::count_index_scan(index));
}

/// Ends reading, keeping the counts.
fn stop(run: &mut Run) {
    if let Some(pages) = run.pages.take() {
        pages.end();
    }
    if let Some(mut blocks) = run.blocks.take() {
        blocks.get().leave();
        run.before.add(&blocks.get().counters);
    }
}

/// ExecCustomScan.
pub(super) unsafe extern "C-unwind" fn exec(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: a node after begin(); ExecScan calls the two functions below with it. There is nothing here to drop.
    unsafe { server::unguarded::ExecScan(&raw mut (*node).ss, Some(next_row), Some(recheck)) }
}

/// The next row that satisfies the served conditions; an empty slot at the end.
unsafe extern "C-unwind" fn next_row(scan: *mut pg_sys::ScanState) -> *mut pg_sys::TupleTableSlot {
    boundary::callback(|| {
        // SAFETY: the node that exec() passed to ExecScan.
        unsafe {
            let node = scan.cast::<pg_sys::CustomScanState>();
            let slot = (*scan).ss_ScanTupleSlot;
            let Some(run) = run_of(node).filter(|run| !run.is_over) else {
                return pg_sys::ExecClearTuple(slot);
            };
            start(node, run);
            let context = (*scan).ps.ps_ExprContext;
            (*context).ecxt_scantuple = slot;
            let Run { pages, blocks: Some(blocks), served, .. } = run else {
                return pg_sys::ExecClearTuple(slot);
            };
            let Some(pages) = pages else {
                while blocks.get().next_block().is_some() {} // nothing survived: counts what was skipped
                return pg_sys::ExecClearTuple(slot);
            };
            loop {
                let mut removed = 0;
                while pages.next_row(slot, served.raw_test(), &mut removed) {
                    if served.hold(context) {
                        blocks.get().counters.removed_rows += removed;
                        blocks.get().found_row();
                        return slot;
                    }
                    removed += 1;
                }
                blocks.get().counters.removed_rows += removed;
                // The slot's pin goes before the page's.
                pg_sys::ExecClearTuple(slot);
                match pages.next_page() {
                    Some(block) => blocks.get().entered(block),
                    None => {
                        blocks.get().finish_range();
                        return slot;
                    }
                }
            }
        }
    })
}

/// Whether a row that EvalPlanQual brings satisfies the served conditions.
unsafe extern "C-unwind" fn recheck(scan: *mut pg_sys::ScanState, slot: *mut pg_sys::TupleTableSlot) -> bool {
    boundary::callback(|| {
        // SAFETY: the node that exec() passed to ExecScan.
        unsafe {
            let Some(run) = run_of(scan.cast()) else { return false };
            let context = (*scan).ps.ps_ExprContext;
            run.served.evaluate_keys(context);
            (*context).ecxt_scantuple = slot;
            run.served.hold(context)
        }
    })
}

/// ReScanCustomScan.
pub(super) unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    boundary::callback(|| {
        // SAFETY: a node after begin().
        unsafe {
            let has_new_keys = !(*node).ss.ps.chgParam.is_null();
            if let Some(run) = run_of(node) {
                pg_sys::ExecClearTuple((*node).ss.ss_ScanTupleSlot);
                run.is_stale |= has_new_keys;
                if has_new_keys {
                    run.served.forget();
                }
                run.is_over = false;
                if !run.is_stale
                    && let Some(blocks) = &mut run.blocks
                {
                    blocks.get().restart();
                    if let Some(pages) = &mut run.pages {
                        pages.restart();
                    }
                }
            }
            pg_sys::ExecScanReScan(&raw mut (*node).ss);
        }
    })
}

/// EndCustomScan.
pub(super) unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    boundary::callback(|| {
        // SAFETY: a node after begin(), called once.
        unsafe {
            let Some(run) = run_of(node) else { return };
            pg_sys::ExecClearTuple((*node).ss.ss_ScanTupleSlot);
            stop(run);
            if !run.is_worker && run.before.scans > 0 {
                let indexes: Vec<_> = run.indexes.rels().iter().map(|index| index.oid()).collect();
                implementation().finished(&indexes, &run.before);
            }
            std::mem::take(&mut run.indexes).close();
        }
    })
}
