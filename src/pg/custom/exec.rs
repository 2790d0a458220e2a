//! The executor node.
//!
//! It looks keys up in the indexes when its first row is requested, because a key may be the result of another part of
//! the plan. A correct answer needs this order: the snapshot was taken; the predicate lock on the whole table is taken
//! (a serializable transaction that finds that every range is ruled out has read nothing else); the table's size is
//! read; then the indexes are read. Their answer is used for this execution only, or for the next one if it has the
//! same keys in the same time zone: both executions have the same snapshot. An answer that planning has found may take
//! its place, if the index, read after the snapshot was taken, proves it ([`crate::prune`], planned.rs).
//!
//! If the plan returns rows in the order of a column, [`ordered`] chooses the ranges and the rows.
//!
//! The node checks the served conditions on each row ([`served`]), and so learns whether a range was read in vain.
//! ExecScan checks all other conditions. For EvalPlanQual, ExecScan provides the row itself and lets the node check the
//! served conditions on it, without regard to ranges.

pub(super) mod binding;
mod lists;
mod ordered;
pub(super) mod parallel;
mod served;
mod sort_keys;
mod sorted;

use super::super::list::list;
use super::heap_rows::Pages;
use super::ordering::OrderedColumn;
use super::{Private, implementation};
use crate::pg::clause::Clause;
use crate::pg::memory::Scratch;
use crate::pg::relation::NodeIndexes;
use crate::pg::time_zone::SessionZone;
use crate::pg::{Rel, boundary, compat, lock, page, server};
use ordered::{Ordered, RowReader};
use pgrx::{PgMemoryContexts, pg_sys};
use served::Served;
use skip_scan::blocks::{Blocks, ScanCounters, SharedScan, Survivors};

/// The node: the server's part, and a pointer to our part.
#[repr(C)]
pub(super) struct Node {
    server: pg_sys::CustomScanState,
    run: *mut Run,
}

/// Blocks to which the feed of pages also has a pointer. Therefore no reference to them is kept during a call that may
/// read pages.
struct SharedBlocks(*mut Blocks);

impl SharedBlocks {
    fn new(blocks: Blocks) -> Self {
        Self(Box::into_raw(Box::new(blocks)))
    }

    /// A reference for the duration of one call.
    #[inline]
    fn get(&mut self) -> &mut Blocks {
        // SAFETY: made in new(), freed in drop(); the feed uses it only while a page is requested from it.
        unsafe { &mut *self.0 }
    }

    fn counters(&self) -> ScanCounters {
        // SAFETY: as in get().
        unsafe { (*self.0).counters }
    }
}

impl Drop for SharedBlocks {
    fn drop(&mut self) {
        // SAFETY: made in new(), freed once. The feed has ended before, or is not used any more because the query
        // failed.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Our part of the node, dropped with the query's memory.
pub(super) struct Run {
    pub(super) private: Private,
    pub(super) indexes: NodeIndexes,
    /// The served conditions, and the keys.
    served: Served,
    /// The blocks that are being read, from the first row on.
    blocks: Option<SharedBlocks>,
    pages: Option<Pages>,
    /// The state of a scan in the order of a column, from the first row on.
    ordered: Option<Ordered>,
    /// What the index knows of the order. It is right for all executions of the node, which have the same snapshot,
    /// whatever their keys are.
    column: Option<OrderedColumn>,
    /// Keys have changed: they must be looked up in the indexes again.
    is_stale: bool,
    /// The time zone in which keys were looked up.
    zone: SessionZone,
    /// The shared state is gone: there are no more rows until the next execution. Continuing without it would repeat
    /// rows.
    is_over: bool,
    shared: Option<&'static SharedScan>,
    is_worker: bool,
    /// Counts of previous executions.
    before: ScanCounters,
}

impl Run {
    /// The counts up to now, of this process and of its workers if they have reported theirs.
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
    // memory, which is freed after the node; before begin() the pointer is NULL. A callback calls this once, and no
    // callback runs within another one of the same node.
    unsafe { (*node.cast::<Node>()).run.as_mut() }
}

/// CreateCustomScanState.
pub(super) unsafe extern "C-unwind" fn create_state(_scan: *mut pg_sys::CustomScan) -> *mut pg_sys::Node {
    boundary::callback(|| {
        // SAFETY: a palloc'd node, zeroed except for its tag and methods.
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
        // SAFETY: a node of ours whose table the server has opened; everything made here lives as long as the query's
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
                // The planner's locks on the indexes do not exist any more if the plan comes from a cache.
                indexes = NodeIndexes::open(&private.indexes, mode);
                implementation().started();
            }
            let run = Run {
                private,
                indexes,
                served,
                blocks: None,
                pages: None,
                ordered: None,
                column: None,
                is_stale: true,
                zone: SessionZone::now(),
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

/// Looks the keys up in the indexes.
///
/// # Safety
/// `node` is in an execution after [`begin`], and `run` is its Run.
unsafe fn survivors(run: &mut Run, node: *mut pg_sys::CustomScanState, blocks: u32) -> Survivors {
    // SAFETY: the executor is running the node, and the node's context lives as long as the node. Values made from keys
    // live in the scratch memory until they are hashed.
    unsafe {
        run.zone = SessionZone::now();
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

/// Takes the predicate locks on the table and on the indexes. This precedes reading the table's size, and using what
/// planning has found: that is used if no key was added since.
fn take_predicate_locks(heap: Rel, run: &Run, snapshot: pg_sys::Snapshot) {
    for &rel in std::iter::once(&heap).chain(run.indexes.rels()) {
        lock::predicate_lock_relation(rel, snapshot);
    }
}

/// Prepares reading rows, unless that was done already.
///
/// # Safety
/// `node` is in an execution after [`begin`].
unsafe fn start(node: *mut pg_sys::CustomScanState, run: &mut Run) {
    if run.blocks.is_some() && !run.is_stale {
        return;
    }
    stop(run);
    // SAFETY: the executor is running the node: its EState with the snapshot, and its open table, exist until the query
    // ends. Scan and stream live in the query's memory.
    unsafe {
        let estate = (*node).ss.ps.state;
        let heap = Rel::from_raw((*node).ss.ss_currentRelation);
        let before = pg_sys::MemoryContextSwitchTo((*estate).es_query_cxt);
        take_predicate_locks(heap, run, (*estate).es_snapshot);
        let size = run.shared.map_or_else(|| heap.blocks(), SharedScan::blocks);
        let survivors = survivors(run, node, size);
        let blocks = Blocks::new(survivors, size, run.shared, run.is_worker);
        if run.shared.is_none() {
            run.indexes.rels().iter().for_each(|&index| compat::count_index_scan(index));
        }
        let mut blocks = SharedBlocks::new(blocks);
        if let Some(sort) = run.private.order {
            let pages = page::pages_read();
            let index = run.indexes.find(sort.index);
            let read = || implementation().ordered_column(index?, sort.column, size);
            let column = run.column.take().or_else(read);
            let ordered = Ordered::new(node, sort, column, size);
            blocks.get().read_in_order(ordered.pages_per_range());
            blocks.get().counters.index_pages += page::pages_read() - pages;
            run.ordered = Some(ordered);
        }
        for &index in run.indexes.rels() {
            compat::test_for_old_snapshot(index, (*estate).es_snapshot);
        }
        // Often there is nothing to read. Then no scan is set up.
        if !blocks.get().is_nothing() {
            let is_ordered = run.ordered.is_some();
            run.pages = Some(Pages::begin(heap, (*estate).es_snapshot, blocks.0, !is_ordered));
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

/// Ends reading and keeps the counts.
fn stop(run: &mut Run) {
    if let Some(ordered) = run.ordered.take() {
        run.column = Some(ordered.end());
    }
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
    // SAFETY: a node after begin(); ExecScan calls the two functions below with it. No value here has a destructor.
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
            let Run { pages, blocks: Some(blocks), served, ordered, indexes, private, .. } = run else {
                return pg_sys::ExecClearTuple(slot);
            };
            let Some(pages) = pages else {
                while blocks.get().next_block().is_some() {} // no survivors: counts the skipped ranges
                return pg_sys::ExecClearTuple(slot);
            };
            if let Some(ordered) = ordered {
                let index = private.order.and_then(|sort| indexes.find(sort.index));
                let found = ordered.next_row(&mut RowReader { node, pages, blocks, served, index });
                return if found { slot } else { pg_sys::ExecClearTuple(slot) };
            }
            // A cursor moves back.
            let is_backward = is_backward((*scan).ps.state);
            if pages.is_backward() != is_backward {
                blocks.get().turn(is_backward, pages.block());
                pages.turn();
            }
            loop {
                let mut removed = 0;
                while pages.step(slot, served.raw_test(), &mut removed) {
                    if served.hold(context) {
                        blocks.get().counters.removed_rows += removed;
                        blocks.get().found_row();
                        return slot;
                    }
                    removed += 1;
                }
                blocks.get().counters.removed_rows += removed;
                // The slot's pin is released before the page's.
                pg_sys::ExecClearTuple(slot);
                let mut removed = 0;
                let next = pages.next_page(served.raw_test(), &mut removed);
                blocks.get().counters.removed_rows += removed;
                match next {
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

/// Whether the plan returns rows from the last to the first.
///
/// # Safety
/// The state of a query that is run.
unsafe fn is_backward(estate: *mut pg_sys::EState) -> bool {
    // SAFETY: as the caller promises.
    unsafe { (*estate).es_direction == pg_sys::ScanDirection::BackwardScanDirection }
}

/// Whether a row from EvalPlanQual satisfies the served conditions.
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
            if let Some(run) = run_of(node) {
                pg_sys::ExecClearTuple((*node).ss.ss_ScanTupleSlot);
                // A key may depend on a setting; other index scans evaluate theirs anew, too. The time zone counts even
                // for immutable keys: comparisons of a date or a time with one of another type depend on it.
                let has_new_keys = !(*node).ss.ps.chgParam.is_null()
                    || run.served.has_mutable_keys()
                    || run.zone != SessionZone::now();
                run.is_stale |= has_new_keys;
                if has_new_keys {
                    run.served.forget();
                }
                run.is_over = false;
                if !run.is_stale
                    && let Some(blocks) = &mut run.blocks
                {
                    blocks.get().restart();
                    if let Some(ordered) = &mut run.ordered {
                        ordered.restart();
                        blocks.get().read_in_order(ordered.pages_per_range());
                    }
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
