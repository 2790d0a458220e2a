//! Differences between PostgreSQL 15, 16, 17 and 18; `cfg(feature = "pgNN")` is used nowhere else.

mod explain_hook;
mod feed;
mod files;
mod old_snapshot;
mod soft_error;

pub use explain_hook::{NodeHook, install_explain_hook};
pub use feed::{PageFeed, release_page};
pub use files::{
    Locator, are_same_files, created_in_transaction, extend_file, file_number, locator, numbers_of,
    pin_recent, pin_recent_guarded,
};
pub use old_snapshot::test_for_old_snapshot;
use pgrx::pg_sys;
pub use soft_error::save_error;
use std::ffi::{c_int, c_void};

#[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18")))]
compile_error!("pg_skip supports PostgreSQL 15 to 18: choose one of the features pg15 to pg18");

/// The user with whose privileges a query reads a table: the owner of the view through which it does. InvalidOid if
/// that is the current user.
///
/// # Safety
/// The planner's structures for the same table.
pub unsafe fn reader(rel: *mut pg_sys::RelOptInfo, rte: *mut pg_sys::RangeTblEntry) -> pg_sys::Oid {
    // SAFETY: as the caller promises.
    unsafe {
        #[cfg(feature = "pg15")]
        {
            let _ = rel;
            (*rte).checkAsUser
        }
        #[cfg(not(feature = "pg15"))]
        {
            let _ = rte;
            (*rel).userid
        }
    }
}

/// Gives another node for a node of an expression, or NULL for NULL.
pub type Mutator = unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> *mut pg_sys::Node;

/// A copy of a node with what the mutator gives for its children.
///
/// # Safety
/// A valid node of an expression, not NULL; the mutator can be called with the context.
pub unsafe fn mutated(node: *mut pg_sys::Node, mutator: Mutator, context: *mut c_void) -> *mut pg_sys::Node {
    // SAFETY: as the caller says. The headers of 15 declare the mutator without its arguments.
    unsafe {
        #[cfg(feature = "pg15")]
        {
            type Undeclared = unsafe extern "C-unwind" fn() -> *mut pg_sys::Node;
            let mutator = std::mem::transmute::<Mutator, Undeclared>(mutator);
            pg_sys::expression_tree_mutator(node, Some(mutator), context)
        }
        #[cfg(not(feature = "pg15"))]
        {
            pg_sys::expression_tree_mutator_impl(node, Some(mutator), context)
        }
    }
}

/// Column `column` (0-based) of a tuple descriptor.
///
/// # Safety
/// `desc` is a valid descriptor with more than `column` columns.
pub unsafe fn attribute(desc: pg_sys::TupleDesc, column: usize) -> *mut pg_sys::FormData_pg_attribute {
    // SAFETY: callers have the descriptor of an open relation, or hold a reference to it, and count its columns.
    // PostgreSQL 18 put compact attributes before the full ones.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        {
            (*desc).attrs.as_mut_ptr().add(column)
        }
        #[cfg(feature = "pg18")]
        {
            pg_sys::TupleDescAttr(desc, column as i32)
        }
    }
}

/// The server's estimate of the number of an array's elements (from statistics in 17 and later).
///
/// # Safety
/// `root` is the planner's state, and `array` a valid expression.
pub unsafe fn array_length(root: *mut pg_sys::PlannerInfo, array: *mut pg_sys::Node) -> f64 {
    // SAFETY: the planner run of the query with this array has called us, and waits.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        {
            let _ = root;
            f64::from(pg_sys::estimate_array_length(array))
        }
        #[cfg(any(feature = "pg17", feature = "pg18"))]
        {
            pg_sys::estimate_array_length(root, array)
        }
    }
}

/// Whether the current user owns the relation, or may maintain it (17 and later: MAINTAIN).
pub fn may_maintain(index: pg_sys::Oid, table: pg_sys::Oid) -> bool {
    // SAFETY: catalog lookups.
    unsafe {
        let user = pg_sys::GetUserId();
        #[cfg(feature = "pg15")]
        {
            let _ = table;
            pg_sys::pg_class_ownercheck(index, user)
        }
        #[cfg(feature = "pg16")]
        {
            let _ = table;
            pg_sys::object_ownercheck(pg_sys::RelationRelationId, index, user)
        }
        #[cfg(any(feature = "pg17", feature = "pg18"))]
        {
            pg_sys::object_ownercheck(pg_sys::RelationRelationId, index, user)
                || pg_sys::pg_class_aclcheck(table, user, u64::from(pg_sys::ACL_MAINTAIN))
                    == pg_sys::AclResult::ACLCHECK_OK
        }
    }
}

/// Sets search_path to a safe value for maintenance commands, where the server does so itself (17 and later).
pub fn restrict_search_path() {
    // SAFETY: sets a GUC inside the GUC nest level that the caller opened.
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    unsafe {
        pg_sys::RestrictSearchPath();
    }
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    // SAFETY: as above; the value is the one that RestrictSearchPath sets.
    unsafe {
        pg_sys::set_config_option(
            c"search_path".as_ptr(),
            c"pg_catalog, pg_temp".as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
    }
}

/// ConditionalLockTuple with the arguments of each version.
///
/// # Safety
/// `rel` is open and `tid` valid.
pub unsafe fn try_lock_tuple(
    rel: pg_sys::Relation,
    tid: pg_sys::ItemPointer,
    mode: pg_sys::LOCKMODE,
) -> bool {
    // SAFETY: the relation is open, and the server copies the tid.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        {
            pg_sys::ConditionalLockTuple(rel, tid, mode)
        }
        #[cfg(feature = "pg18")]
        {
            pg_sys::ConditionalLockTuple(rel, tid, mode, false)
        }
    }
}

/// Whether this process holds a lock in this very mode.
pub fn is_lock_held(tag: &pg_sys::LOCKTAG, mode: pg_sys::LOCKMODE) -> bool {
    // SAFETY: the server looks the tag up among the locks of this process.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        {
            pg_sys::LockHeldByMe(tag, mode)
        }
        #[cfg(any(feature = "pg17", feature = "pg18"))]
        {
            pg_sys::LockHeldByMe(tag, mode, false)
        }
    }
}

/// Sets the handler of a signal in this process.
///
/// # Safety
/// The function may be called at any time.
pub unsafe fn set_signal_handler(signal: c_int, handler: unsafe extern "C-unwind" fn(c_int)) {
    // SAFETY: as the caller promises.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::pqsignal(signal, Some(handler));
        #[cfg(feature = "pg18")]
        pg_sys::pqsignal_be(signal, Some(handler));
    }
}

/// Whether the options of a table, or else the setting vacuum_truncate (PostgreSQL 18), let VACUUM cut it off.
pub fn allows_truncation(options: Option<&pg_sys::StdRdOptions>) -> bool {
    #[cfg(not(feature = "pg18"))]
    return options.is_none_or(|options| options.vacuum_truncate);
    #[cfg(feature = "pg18")]
    match options {
        Some(options) if options.vacuum_truncate_set => options.vacuum_truncate,
        // SAFETY: a plain global of the server.
        _ => unsafe { pg_sys::vacuum_truncate },
    }
}

/// vacuum_delay_point with the arguments of each version. Must not be called under a buffer lock.
pub fn vacuum_delay_point() {
    // SAFETY: may raise an error for a cancelled query; the caller holds nothing that this could break.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::vacuum_delay_point();
        #[cfg(feature = "pg18")]
        pg_sys::vacuum_delay_point(false);
    }
}

/// The beginning of a statement that plans a query and does not run it. From 16 on the query may have parameters, `$1`.
#[cfg(feature = "pg15")]
pub const EXPLAIN: &std::ffi::CStr = c"EXPLAIN (COSTS OFF) ";
#[cfg(not(feature = "pg15"))]
pub const EXPLAIN: &std::ffi::CStr = c"EXPLAIN (COSTS OFF, GENERIC_PLAN) ";

/// Whether a subtransaction may be begun in parallel mode (17 and later).
pub const HAS_PARALLEL_SUBTRANSACTIONS: bool = cfg!(any(feature = "pg17", feature = "pg18"));

/// Whether a transaction keeps its isolation level. Before 16, RESET changes the level that the server shows of a
/// transaction that has begun, which stays serializable all the same.
pub const KEEPS_ISOLATION_LEVEL: bool = cfg!(not(feature = "pg15"));

/// What the server calls from 17 on when it closes an index after inserts.
pub type InsertCleanup = unsafe extern "C-unwind" fn(pg_sys::Relation, *mut pg_sys::IndexInfo);

/// Sets the fields of the IndexAmRoutine that not all versions have.
pub fn fill_am_routine(am: &mut pg_sys::IndexAmRoutine, insert_cleanup: InsertCleanup) {
    // HOT updates stay possible when an indexed column changes. This is safe because the summarizing scan reads every
    // tuple version on the page (crate::index::collect).
    #[cfg(not(feature = "pg15"))]
    {
        am.amsummarizing = true;
    }
    // The server plans workers for such access methods itself (planned_workers).
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    {
        am.amcanbuildparallel = true;
        am.aminsertcleanup = Some(insert_cleanup);
    }
    #[cfg(feature = "pg15")]
    let _ = am;
    #[cfg(not(any(feature = "pg17", feature = "pg18")))]
    let _ = insert_cleanup;
}

/// The number of parallel workers that the server plans for building an index. From 17 on, it tells the access method;
/// before, it does so for its own btree only, and must be asked.
///
/// # Safety
/// `heap` and `index` are open, and `info` is the IndexInfo with which ambuild was called.
pub unsafe fn planned_workers(
    heap: super::Rel,
    index: super::Rel,
    info: *const pg_sys::IndexInfo,
) -> std::ffi::c_int {
    // Not called through pg_sys: it simplifies the index's expressions, and errors in them must pass unchanged.
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    // SAFETY: the signature of planner.h.
    unsafe extern "C-unwind" {
        fn plan_create_index_workers(table: pg_sys::Oid, index: pg_sys::Oid) -> std::ffi::c_int;
    }
    // SAFETY: as the caller promises; the relations are open and locked.
    unsafe {
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        {
            let _ = info;
            let (table, index) = (heap.oid(), index.oid());
            super::boundary::call(|| plan_create_index_workers(table, index))
        }
        #[cfg(any(feature = "pg17", feature = "pg18"))]
        {
            let _ = (heap, index);
            (*info).ii_ParallelWorkers
        }
    }
}

/// The identifier of the current query, where workers of index builds report it (18 and later).
pub fn query_id() -> i64 {
    #[cfg(feature = "pg18")]
    // SAFETY: reads this backend's state.
    unsafe {
        pg_sys::pgstat_get_my_query_id()
    }
    #[cfg(not(feature = "pg18"))]
    0
}

/// Reports the identifier of the leader's query in a worker (18 and later).
pub fn report_query_id(id: i64) {
    #[cfg(feature = "pg18")]
    // SAFETY: sets this backend's state.
    unsafe {
        pg_sys::pgstat_report_query_id(id, false);
    }
    #[cfg(not(feature = "pg18"))]
    let _ = id;
}

/// Counts one index search for EXPLAIN (18 and later) and for pg_stat_user_indexes.
///
/// # Safety
/// `scan` is a scan descriptor of an open index.
pub unsafe fn count_index_search(scan: pg_sys::IndexScanDesc) {
    // SAFETY: the executor calls amgetbitmap with the descriptor. The index is open as long as its node, and so are the
    // counters, if there are any.
    unsafe {
        #[cfg(feature = "pg18")]
        if !(*scan).instrument.is_null() {
            (*(*scan).instrument).nsearches += 1;
        }
        count_index_scan(super::Rel::from_raw((*scan).indexRelation));
    }
}

/// Counts one scan of an index for pg_stat_user_indexes.
pub fn count_index_scan(index: super::Rel) {
    // SAFETY: an open relation; pgstat_count_index_scan is a macro over these fields.
    unsafe {
        let rel = index.raw();
        let mut info = (*rel).pgstat_info;
        if info.is_null() && (*rel).pgstat_enabled {
            pg_sys::pgstat_assoc_relation(rel);
            info = (*rel).pgstat_info;
        }
        if !info.is_null() {
            #[cfg(feature = "pg15")]
            {
                (*info).t_counts.t_numscans += 1;
            }
            #[cfg(not(feature = "pg15"))]
            {
                (*info).counts.numscans += 1;
            }
        }
    }
}

/// Whether the server provides named memory that backends share at any time (17 and later), not just while it starts.
pub const HAS_NAMED_SEGMENTS: bool = cfg!(any(feature = "pg17", feature = "pg18"));

/// The named memory, which the first caller creates and initializes; null if the server has no such memory.
///
/// # Safety
/// `bytes` and `init` are the same in all calls with this name, and `init` touches at most `bytes` bytes.
pub unsafe fn named_segment(
    name: &'static std::ffi::CStr,
    bytes: usize,
    init: unsafe extern "C-unwind" fn(*mut std::ffi::c_void),
) -> *mut std::ffi::c_void {
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    {
        let mut found = false;
        // SAFETY: the server compares the size with that of an existing segment, and calls `init` with a new one of
        // that many bytes. The mapping is pinned for the backend's life.
        unsafe { pg_sys::GetNamedDSMSegment(name.as_ptr(), bytes, Some(init), &mut found) }
    }
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    {
        let _ = (name, bytes, init);
        std::ptr::null_mut()
    }
}

/// An element of the table of relation options.
pub fn relopt(
    name: &'static std::ffi::CStr,
    kind: pg_sys::relopt_type::Type,
    offset: usize,
) -> pg_sys::relopt_parse_elt {
    pg_sys::relopt_parse_elt {
        optname: name.as_ptr(),
        opttype: kind,
        offset: offset as i32,
        #[cfg(feature = "pg18")]
        isset_offset: 0,
    }
}

/// Whether a sort key of the planner wants the greatest value first.
pub fn descends(pathkey: &pg_sys::PathKey) -> bool {
    #[cfg(not(feature = "pg18"))]
    return pathkey.pk_strategy == pg_sys::BTGreaterStrategyNumber as i32;
    #[cfg(feature = "pg18")]
    return pathkey.pk_cmptype == pg_sys::CompareType::COMPARE_GT;
}

/// Lets the executor node hold tuples in buffers, with their system columns. Before 16 the server makes the scan slot
/// of every custom scan a virtual one, and compiles the node's expressions for it. Therefore both are made again here.
///
/// # Safety
/// Called from BeginCustomScan for a node that scans one table.
pub unsafe fn init_scan_slot(node: *mut pg_sys::CustomScanState, estate: *mut pg_sys::EState) {
    #[cfg(feature = "pg15")]
    // SAFETY: the server has made the node and opened its table before it calls BeginCustomScan. These are the same
    // calls as in its own ExecInitSeqScan. There is no value with a destructor.
    unsafe {
        use super::server::unguarded;
        super::boundary::call(|| {
            let scan = &raw mut (*node).ss;
            let rel = (*scan).ss_currentRelation;
            let ops = unguarded::table_slot_callbacks(rel);
            unguarded::ExecInitScanTupleSlot(estate, scan, (*rel).rd_att, ops);
            unguarded::ExecAssignScanProjectionInfo(scan);
            let plan = (*scan).ps.plan;
            (*scan).ps.qual = unguarded::ExecInitQual((*plan).qual, &raw mut (*scan).ps);
        });
    }
    #[cfg(not(feature = "pg15"))]
    let _ = (node, estate);
}

/// Sets the kind of tuples that the node will hold, before it begins, in versions that have a field for it (16 and
/// later).
pub fn announce_scan_slot(node: &mut pg_sys::CustomScanState) {
    #[cfg(not(feature = "pg15"))]
    {
        node.slotOps = &raw const pg_sys::TTSOpsBufferHeapTuple;
    }
    #[cfg(feature = "pg15")]
    let _ = node;
}

/// The columns of pg_collation with the locale of an ICU collation, and with its rules, which there are since 16.
pub fn collation_columns() -> (u32, Option<u32>) {
    #[cfg(feature = "pg15")]
    return (pg_sys::Anum_pg_collation_colliculocale, None);
    #[cfg(feature = "pg16")]
    return (pg_sys::Anum_pg_collation_colliculocale, Some(pg_sys::Anum_pg_collation_collicurules));
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    (pg_sys::Anum_pg_collation_colllocale, Some(pg_sys::Anum_pg_collation_collicurules))
}
