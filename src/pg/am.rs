//! The access method's callbacks: they call the safe functions of an [`AccessMethod`].

use super::clause::{Clause, Values};
use super::error::IndexResult;
use super::evaluate::IndexRow;
use super::index_path::{Costs, IndexPathView};
use super::memory::Scratch;
use super::meta_pin::MetaPin;
use super::scankey;
use super::{OpenRel, Rel, boundary, compat, lock, page};
use pgrx::{PgBox, PgMemoryContexts, pg_sys};
use std::ffi::CStr;
use std::marker::PhantomData;

/// What an access method does, as safe functions.
pub trait AccessMethod {
    /// State that the inserts of one statement keep from row to row.
    type InsertState: Default + 'static;

    /// Builds the index, with at most `workers` parallel workers; returns the numbers of table rows and of index
    /// entries. `is_new` tells whether the index was not there before.
    fn build(heap: Rel, index: Rel, workers: u32, is_new: bool) -> (f64, f64);
    /// Writes the init fork of an unlogged index.
    fn build_empty(index: Rel);
    /// Called when a row was inserted into heap block `block` at `offset`.
    fn insert(
        heap: Rel,
        index: Rel,
        row: &IndexRow<'_>,
        place: TupleAddress,
        cache: InsertCache<'_, Self::InsertState>,
    );
    /// Called when CREATE INDEX CONCURRENTLY compares the index with the table, before the index becomes valid. Calls
    /// `has` with the addresses of rows that the index has. The command inserts the others that its snapshot sees.
    fn before_valid(heap: Rel, index: Rel, has: &mut dyn FnMut(TupleAddress));
    /// Called when VACUUM has finished the table.
    fn vacuum_cleanup(heap: Rel, index: Rel);
    /// Calls `add` with every run of heap blocks (first, end) that may hold matching rows, the end excluded; returns an
    /// estimate of the number of rows.
    fn bitmap(heap: Rel, index: Rel, clauses: &[Clause<Values<'_>>], add: &mut dyn FnMut(u64, u64)) -> i64;
    /// Costs of a path.
    fn cost(path: &IndexPathView<'_>) -> Costs;
    /// Checks an operator class.
    fn validate(class: pg_sys::Oid) -> bool;
    /// Name of a phase of building, by number.
    fn phase_name(phase: i64) -> Option<&'static CStr>;
}

/// The place of a row in the table.
#[derive(Clone, Copy)]
pub struct TupleAddress {
    /// Heap block.
    pub block: u32,
    /// Offset number in the block, from 1.
    pub offset: u16,
}

/// A slot for state that lives as long as a statement's IndexInfo (ii_AmCache).
pub struct InsertCache<'a, T> {
    info: *mut pg_sys::IndexInfo,
    state: PhantomData<&'a mut T>,
}

/// The memory context in which the state of an [`InsertCache`] lives.
#[derive(Clone, Copy)]
pub struct StatementMemory<'a> {
    context: pg_sys::MemoryContext,
    statement: PhantomData<&'a ()>,
}

impl StatementMemory<'_> {
    /// Runs `make` with this context as the current one.
    pub fn run<R>(self, make: impl FnOnce() -> R) -> R {
        // SAFETY: ii_Context lives at least until aminsert returns.
        let before = unsafe { pg_sys::MemoryContextSwitchTo(self.context) };
        let made = make();
        // SAFETY: the context that was current before. After an ERROR this is not reached; the handler sets its own.
        unsafe { pg_sys::MemoryContextSwitchTo(before) };
        made
    }
}

/// What is behind ii_AmCache from a statement's second row on.
#[derive(Default)]
struct Cached<T> {
    state: T,
    /// A pin of the index's meta page; None if the process keeps too many.
    pin: Option<MetaPin>,
}

/// What ii_AmCache points to after a statement's first row: many statements have no other, for which a state would be
/// made in vain.
static ONE_ROW: u8 = 0;

impl<T: Default + 'static> InsertCache<'_, T> {
    /// The state, made at the first call, and the memory that it lives in: whatever is put into the state later must be
    /// made in that.
    pub fn state(&mut self) -> (&mut T, StatementMemory<'_>) {
        let memory = StatementMemory { context: self.info().ii_Context, statement: PhantomData };
        (&mut self.cached().state, memory)
    }

    /// Words of the meta page, as [`page::peek_meta`] reads them. From the second row of a statement on, the pin is
    /// kept.
    ///
    /// # Errors
    /// Damage: the index has no pages.
    #[inline]
    pub fn peek_meta<const N: usize>(&mut self, index: Rel, places: [usize; N]) -> IndexResult<[u32; N]> {
        let cache = self.info().ii_AmCache;
        if cache.is_null() {
            self.info().ii_AmCache = (&raw const ONE_ROW).cast_mut().cast();
            return page::peek_meta(index, places);
        }
        let cached = self.cached();
        match cached.pin.as_ref().and_then(|pin| pin.peek(places)) {
            Some(words) => Ok(words),
            None => {
                // The pin is dropped here if it was lost.
                cached.pin = None;
                cached.pin = MetaPin::keep(index)?;
                page::peek_meta(index, places)
            }
        }
    }

    fn info(&mut self) -> &mut pg_sys::IndexInfo {
        // SAFETY: the IndexInfo with which aminsert was called; there is no other InsertCache of it at this time.
        unsafe { &mut *self.info }
    }

    /// Whether the statement has inserted more than one row, so that there is a state.
    fn is_kept(&mut self) -> bool {
        let cache = self.info().ii_AmCache.cast_const();
        !cache.is_null() && cache != (&raw const ONE_ROW).cast()
    }

    fn cached(&mut self) -> &mut Cached<T> {
        let is_kept = self.is_kept();
        let info = self.info();
        if !is_kept {
            let memory = StatementMemory { context: info.ii_Context, statement: PhantomData };
            let cached = memory.run(Cached::<T>::default);
            info.ii_AmCache = PgMemoryContexts::For(info.ii_Context).leak_and_drop_on_delete(cached).cast();
        }
        // SAFETY: only the access method uses ii_AmCache, and it stores a Cached<T> of the one AccessMethod there. That
        // is dropped with ii_Context.
        unsafe { &mut *info.ii_AmCache.cast::<Cached<T>>() }
    }
}

/// The IndexAmRoutine that an access method's handler returns.
pub fn routine<A: AccessMethod>() -> PgBox<pg_sys::IndexAmRoutine> {
    // SAFETY: a palloc'd node, zeroed except for its tag.
    let mut am = unsafe { PgBox::<pg_sys::IndexAmRoutine>::alloc_node(pg_sys::NodeTag::T_IndexAmRoutine) };
    am.amstrategies = super::clause::Strategy::MOST as u16;
    am.amsupport = super::catalog::LAST_FUNCTION as u16;
    am.amoptsprocnum = 2;
    am.amcanmulticol = true;
    am.amoptionalkey = true; // any subset of the columns is usable
    am.amsearcharray = true;
    am.amsearchnulls = true;
    am.amkeytype = pg_sys::InvalidOid;
    am.amparallelvacuumoptions = pg_sys::VACUUM_OPTION_PARALLEL_CLEANUP as u8;
    am.ambuild = Some(build::<A>);
    am.ambuildempty = Some(build_empty::<A>);
    am.aminsert = Some(insert::<A>);
    am.ambulkdelete = Some(bulk_delete::<A>);
    am.amvacuumcleanup = Some(vacuum_cleanup::<A>);
    am.amcostestimate = Some(cost_estimate::<A>);
    super::custom::plan::announce(cost_estimate::<A> as *const () as usize);
    am.amoptions = Some(super::options::amoptions);
    am.ambuildphasename = Some(phase_name::<A>);
    am.amvalidate = Some(validate::<A>);
    am.amadjustmembers = Some(super::catalog::adjust_members);
    am.ambeginscan = Some(begin_scan);
    am.amrescan = Some(rescan);
    am.amgetbitmap = Some(get_bitmap::<A>);
    am.amendscan = Some(end_scan);
    compat::fill_am_routine(&mut am, insert_cleanup::<A>);
    am.into_pg_boxed()
}

unsafe extern "C-unwind" fn build<A: AccessMethod>(
    heap: pg_sys::Relation,
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) -> *mut pg_sys::IndexBuildResult {
    boundary::callback(|| {
        // SAFETY: PostgreSQL passes open relations, and the IndexInfo of the index.
        let (heap_tuples, index_tuples) = unsafe {
            let (heap, index) = (Rel::from_raw(heap), Rel::from_raw(index));
            // ON COMMIT DELETE ROWS builds the index of an empty table, without a snapshot: no user's code may be
            // called.
            let workers = if heap.blocks() > 0 { compat::planned_workers(heap, index, info) } else { 0 };
            // CREATE INDEX CONCURRENTLY builds in a later transaction. (So does REINDEX CONCURRENTLY, of a new index.)
            let is_new = index.is_new() || (*info).ii_Concurrent;
            A::build(heap, index, u32::try_from(workers).unwrap_or(0), is_new)
        };
        // SAFETY: a palloc'd struct for the caller.
        let mut result = unsafe { PgBox::<pg_sys::IndexBuildResult>::alloc0() };
        result.heap_tuples = heap_tuples;
        result.index_tuples = index_tuples;
        result.into_pg()
    })
}

unsafe extern "C-unwind" fn build_empty<A: AccessMethod>(index: pg_sys::Relation) {
    boundary::callback(|| {
        // SAFETY: PostgreSQL passes an open relation.
        A::build_empty(unsafe { Rel::from_raw(index) });
    })
}

/// Gives the pin back when the server closes the index after a statement's last row. Not called before PostgreSQL 17.
unsafe extern "C-unwind" fn insert_cleanup<A: AccessMethod>(
    _index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
) {
    boundary::callback(|| {
        let mut cache = InsertCache::<A::InsertState> { info, state: PhantomData };
        if cache.is_kept() {
            cache.cached().pin = None;
        }
    })
}

#[allow(clippy::too_many_arguments, reason = "PostgreSQL's signature")]
unsafe extern "C-unwind" fn insert<A: AccessMethod>(
    index: pg_sys::Relation,
    values: *mut pg_sys::Datum,
    nulls: *mut bool,
    tid: pg_sys::ItemPointer,
    heap: pg_sys::Relation,
    _check_unique: pg_sys::IndexUniqueCheck::Type,
    _unchanged: bool,
    info: *mut pg_sys::IndexInfo,
) -> bool {
    boundary::callback(|| {
        // SAFETY: open relations, one value and one null flag for each column, a valid item pointer.
        unsafe {
            let index = Rel::from_raw(index);
            let row = IndexRow::from_raw(index, values, nulls);
            let (block, offset) = pgrx::itemptr::item_pointer_get_both(*tid);
            let cache = InsertCache { info, state: PhantomData };
            A::insert(Rel::from_raw(heap), index, &row, TupleAddress { block, offset }, cache);
        }
        false
    })
}

/// ambulkdelete. Deleted rows need no work: their values stay in the filters and cost false positives at most. But
/// CREATE INDEX CONCURRENTLY calls this, too, to learn which rows the index has. An index that such a command has left
/// behind is not valid before it is built anew: VACUUM need not complete it, and must not fail for want of the space
/// for that.
unsafe extern "C-unwind" fn bulk_delete<A: AccessMethod>(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
    callback: pg_sys::IndexBulkDeleteCallback,
    state: *mut std::ffi::c_void,
) -> *mut pg_sys::IndexBulkDeleteResult {
    boundary::callback(|| {
        if !stats.is_null() {
            return stats;
        }
        // SAFETY: a valid IndexVacuumInfo with an open index.
        let index = unsafe { Rel::from_raw((*info).index) };
        if !index.is_valid_index() && !super::catalog::in_vacuum() {
            // The command holds the table's lock already.
            let heap = OpenRel::table(index.table_of_index(), lock::Mode::None);
            A::before_valid(heap.rel(), index, &mut |TupleAddress { block, offset }| {
                let mut tid = pg_sys::ItemPointerData::default();
                pgrx::itemptr::item_pointer_set_all(&mut tid, block, offset);
                if let Some(callback) = callback {
                    // SAFETY: the server's function, with its state; outside of VACUUM it keeps the address.
                    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| callback(&mut tid, state)) };
                }
            });
        }
        // SAFETY: a palloc'd struct for the caller.
        unsafe { PgBox::<pg_sys::IndexBulkDeleteResult>::alloc0().into_pg() }
    })
}

unsafe extern "C-unwind" fn vacuum_cleanup<A: AccessMethod>(
    info: *mut pg_sys::IndexVacuumInfo,
    stats: *mut pg_sys::IndexBulkDeleteResult,
) -> *mut pg_sys::IndexBulkDeleteResult {
    boundary::callback(|| {
        // SAFETY: a valid IndexVacuumInfo with an open index.
        let (info, index) = unsafe { (&*info, Rel::from_raw((*info).index)) };
        if info.analyze_only {
            return stats;
        }
        // VACUUM holds the table's lock already.
        let heap = OpenRel::table(index.table_of_index(), lock::Mode::None);
        A::vacuum_cleanup(heap.rel(), index);
        // SAFETY: stats is NULL or the struct that an earlier callback allocated.
        unsafe {
            let stats = if stats.is_null() {
                PgBox::<pg_sys::IndexBulkDeleteResult>::alloc0().into_pg()
            } else {
                stats
            };
            (*stats).num_pages = index.blocks();
            (*stats).num_index_tuples = info.num_heap_tuples;
            (*stats).estimated_count = true;
            stats
        }
    })
}

unsafe extern "C-unwind" fn begin_scan(
    index: pg_sys::Relation,
    nkeys: std::ffi::c_int,
    norderbys: std::ffi::c_int,
) -> pg_sys::IndexScanDesc {
    boundary::callback(|| {
        // SAFETY: allocates a scan descriptor with room for the keys; nothing else is kept between calls.
        unsafe { pg_sys::RelationGetIndexScan(index, nkeys, norderbys) }
    })
}

unsafe extern "C-unwind" fn rescan(
    scan: pg_sys::IndexScanDesc,
    keys: pg_sys::ScanKey,
    _nkeys: std::ffi::c_int,
    _orderbys: pg_sys::ScanKey,
    _norderbys: std::ffi::c_int,
) {
    boundary::callback(|| {
        // SAFETY: as in every access method, keyData has room for numberOfKeys keys.
        unsafe {
            let count = (*scan).numberOfKeys.max(0) as usize;
            if !keys.is_null() && count > 0 {
                std::ptr::copy(keys, (*scan).keyData, count);
            }
        }
    })
}

/// Blocks that are added to a bitmap without a check for interrupts: less than a millisecond's work.
const BLOCKS_UNINTERRUPTED: u64 = 4096;

unsafe extern "C-unwind" fn get_bitmap<A: AccessMethod>(
    scan: pg_sys::IndexScanDesc,
    bitmap: *mut pg_sys::TIDBitmap,
) -> i64 {
    boundary::callback(|| {
        // SAFETY: a scan descriptor of an open index with its keys copied by rescan.
        unsafe {
            compat::count_index_search(scan);
            let index = Rel::from_raw((*scan).indexRelation);
            let heap = OpenRel::table(index.table_of_index(), lock::Mode::AccessShare);
            // A nested loop calls this once for each row of the outer side, so nothing may stay allocated.
            let estimate = Scratch::new().run(|| {
                let clauses = scankey::decode((*scan).keyData, (*scan).numberOfKeys.max(0) as usize);
                A::bitmap(heap.rel(), index, &clauses, &mut |from, to| {
                    for block in from..to {
                        if (block - from).is_multiple_of(BLOCKS_UNINTERRUPTED) {
                            super::memory::check_for_interrupts();
                        }
                        pg_sys::tbm_add_page(bitmap, block as u32);
                    }
                })
            });
            compat::test_for_old_snapshot(index, (*scan).xs_snapshot);
            estimate
        }
    })
}

unsafe extern "C-unwind" fn end_scan(_scan: pg_sys::IndexScanDesc) {}

#[allow(clippy::too_many_arguments, reason = "PostgreSQL's signature")]
unsafe extern "C-unwind" fn cost_estimate<A: AccessMethod>(
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loop_count: f64,
    startup_cost: *mut pg_sys::Cost,
    total_cost: *mut pg_sys::Cost,
    selectivity: *mut pg_sys::Selectivity,
    correlation: *mut f64,
    pages: *mut f64,
) {
    boundary::callback(|| {
        // SAFETY: a valid planner state and path; the out-parameters belong to the caller.
        unsafe {
            let costs = A::cost(&IndexPathView::new(root, path, loop_count));
            *startup_cost = costs.startup;
            *total_cost = costs.total;
            *selectivity = costs.selectivity;
            *correlation = 0.0;
            *pages = costs.index_pages;
        }
    })
}

unsafe extern "C-unwind" fn validate<A: AccessMethod>(class: pg_sys::Oid) -> bool {
    boundary::callback(|| A::validate(class))
}

unsafe extern "C-unwind" fn phase_name<A: AccessMethod>(phase: i64) -> *mut std::ffi::c_char {
    boundary::callback(|| A::phase_name(phase).map_or(std::ptr::null_mut(), |name| name.as_ptr().cast_mut()))
}

/// Reports a phase of CREATE INDEX.
pub fn progress_phase(phase: i64) {
    progress(pg_sys::PROGRESS_CREATEIDX_SUBPHASE, phase);
}

/// Reports how many heap blocks CREATE INDEX will scan.
pub fn progress_blocks_total(blocks: u32) {
    progress(pg_sys::PROGRESS_SCAN_BLOCKS_TOTAL, blocks.into());
}

/// Reports how many heap blocks CREATE INDEX has scanned.
pub fn progress_blocks_done(blocks: u32) {
    progress(pg_sys::PROGRESS_SCAN_BLOCKS_DONE, blocks.into());
}

fn progress(index: u32, value: i64) {
    // SAFETY: sets a slot of this backend's progress array; without a command that reports progress, this has no
    // effect.
    unsafe { pg_sys::pgstat_progress_update_param(index as i32, value) }
}
