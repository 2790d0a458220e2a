//! What differs between PostgreSQL 15, 16, 17 and 18; `cfg(feature = "pgNN")` stands nowhere else.

mod feed;
mod soft_error;

pub use feed::{PageFeed, release_page};
use pgrx::pg_sys;
pub use soft_error::save_error;

#[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18")))]
compile_error!("pg_skip supports PostgreSQL 15 to 18: choose one of the features pg15 to pg18");

/// Whether the relation's storage was made in this transaction (rd_createSubid, or the relfilenode's).
pub fn created_in_transaction(rel: &pg_sys::RelationData) -> bool {
    #[cfg(feature = "pg15")]
    let storage = rel.rd_firstRelfilenodeSubid;
    #[cfg(not(feature = "pg15"))]
    let storage = rel.rd_firstRelfilelocatorSubid;
    // InvalidSubTransactionId is 0 in all versions.
    rel.rd_createSubid != 0 || storage != 0
}

/// The relation's file number (relfilenode).
pub fn file_number(rel: &pg_sys::RelationData) -> u32 {
    #[cfg(feature = "pg15")]
    return rel.rd_node.relNode.to_u32();
    #[cfg(not(feature = "pg15"))]
    return rel.rd_locator.relNumber.to_u32();
}

/// What names a relation's files.
#[cfg(feature = "pg15")]
type Locator = pg_sys::RelFileNode;
#[cfg(not(feature = "pg15"))]
type Locator = pg_sys::RelFileLocator;

/// Called without pgrx's guard, which would cost aminsert as much as the pin itself. The only error it can raise is
/// that memory for noting the pin is out; that jump skips no destructor: from aminsert's entry down to here there are
/// only plain values.
mod unguarded {
    // SAFETY: the signature of bufmgr.h in every supported version.
    unsafe extern "C-unwind" {
        pub fn ReadRecentBuffer(
            locator: super::Locator,
            fork: pgrx::pg_sys::ForkNumber::Type,
            block: pgrx::pg_sys::BlockNumber,
            recent: pgrx::pg_sys::Buffer,
        ) -> bool;
    }
}

/// Pins a buffer if it still holds this block of the relation's main fork. No value with a destructor may be alive in
/// any frame down to the server.
///
/// # Safety
/// `rel` is open and `buffer` a buffer number that was valid in this backend once.
pub unsafe fn pin_recent(rel: pg_sys::Relation, block: u32, buffer: pg_sys::Buffer) -> bool {
    // SAFETY: an open relation has its locator; a number that this backend was given once is that of a buffer. Whose
    // page is in it the server compares itself.
    unsafe { unguarded::ReadRecentBuffer(locator(rel), pg_sys::ForkNumber::MAIN_FORKNUM, block, buffer) }
}

/// As [`pin_recent`], wherever it is called.
///
/// # Safety
/// As [`pin_recent`].
pub unsafe fn pin_recent_guarded(rel: pg_sys::Relation, block: u32, buffer: pg_sys::Buffer) -> bool {
    // SAFETY: as in pin_recent().
    unsafe { pg_sys::ReadRecentBuffer(locator(rel), pg_sys::ForkNumber::MAIN_FORKNUM, block, buffer) }
}

/// # Safety
/// `rel` is open.
unsafe fn locator(rel: pg_sys::Relation) -> Locator {
    // SAFETY: the entry of an open relation stays where it is.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*rel).rd_node;
        #[cfg(not(feature = "pg15"))]
        return (*rel).rd_locator;
    }
}

/// Column `column` (0-based) of a tuple descriptor.
///
/// # Safety
/// `desc` is a valid descriptor with more than `column` columns.
pub unsafe fn attribute(desc: pg_sys::TupleDesc, column: usize) -> *mut pg_sys::FormData_pg_attribute {
    // SAFETY: callers have the descriptor of an open relation, or hold a reference to it, and count its columns.
    // PostgreSQL 18 put compact attributes in front of the full ones.
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

/// How many elements the server thinks that an array has (from statistics in 17 and later).
///
/// # Safety
/// The planner's state, and a valid expression.
pub unsafe fn array_length(root: *mut pg_sys::PlannerInfo, array: *mut pg_sys::Node) -> f64 {
    // SAFETY: the planner's run that the array is of has called us, and waits.
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

/// Nails search_path down for maintenance commands, where the server does so itself (17 and later).
pub fn restrict_search_path() {
    // SAFETY: sets a GUC inside the GUC nest level that the caller opened.
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    unsafe {
        pg_sys::RestrictSearchPath();
    }
    #[cfg(any(feature = "pg15", feature = "pg16"))]
    // SAFETY: as above; the value is what RestrictSearchPath sets.
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

/// ConditionalLockTuple with each version's arguments.
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

/// vacuum_delay_point with each version's arguments. Never under a buffer lock.
pub fn vacuum_delay_point() {
    // SAFETY: may raise an error for a cancelled query; the caller holds nothing that minds.
    unsafe {
        #[cfg(not(feature = "pg18"))]
        pg_sys::vacuum_delay_point();
        #[cfg(feature = "pg18")]
        pg_sys::vacuum_delay_point(false);
    }
}

/// Whether a subtransaction may be begun while processes work in parallel (17 and later).
pub const HAS_PARALLEL_SUBTRANSACTIONS: bool = cfg!(any(feature = "pg17", feature = "pg18"));

/// Sets the fields of the access method's table that some versions do not have.
pub fn fill_am_routine(am: &mut pg_sys::IndexAmRoutine) {
    // HOT updates stay possible although an indexed column changes: safe because the summarizing scan takes
    // every tuple version that is on the page (crate::index::collect).
    #[cfg(not(feature = "pg15"))]
    {
        am.amsummarizing = true;
    }
    #[cfg(feature = "pg15")]
    let _ = am;
}

/// Counts one index search for EXPLAIN (18 and later) and for pg_stat_user_indexes.
///
/// # Safety
/// `scan` is a scan descriptor of an open index.
pub unsafe fn count_index_search(scan: pg_sys::IndexScanDesc) {
    // SAFETY: the executor calls amgetbitmap with the descriptor, and has the index open and the counters, if any, as
    // long as its node.
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

/// Whether the server hands out named memory that backends share at any time (17 and later), not just while it starts.
pub const HAS_NAMED_SEGMENTS: bool = cfg!(any(feature = "pg17", feature = "pg18"));

/// The named memory, made and initialized by who asks first; null where there is none.
///
/// # Safety
/// `bytes` and `init` are the same wherever this name is asked for, and `init` touches no more than `bytes` bytes.
pub unsafe fn named_segment(
    name: &'static std::ffi::CStr,
    bytes: usize,
    init: unsafe extern "C-unwind" fn(*mut std::ffi::c_void),
) -> *mut std::ffi::c_void {
    #[cfg(any(feature = "pg17", feature = "pg18"))]
    {
        let mut found = false;
        // SAFETY: the server compares the size with that of the segment that is there, and calls `init` with as many
        // bytes. The mapping is pinned for the backend's life.
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

/// Lets the executor node hold tuples in buffers, with their system columns. Before 16 the server makes every custom
/// scan's slot a virtual one and compiles the node's expressions for it: they are made again.
///
/// # Safety
/// Called from BeginCustomScan for a node that scans one table.
pub unsafe fn init_scan_slot(node: *mut pg_sys::CustomScanState, estate: *mut pg_sys::EState) {
    #[cfg(feature = "pg15")]
    // SAFETY: the server has made the node and opened its table when it calls BeginCustomScan; the same calls as its
    // own ExecInitSeqScan makes.
    unsafe {
        let scan = &raw mut (*node).ss;
        let rel = (*scan).ss_currentRelation;
        let ops = pg_sys::table_slot_callbacks(rel);
        pg_sys::ExecInitScanTupleSlot(estate, scan, (*rel).rd_att, ops);
        pg_sys::ExecAssignScanProjectionInfo(scan);
        let plan = (*scan).ps.plan;
        (*scan).ps.qual = super::server::ExecInitQual((*plan).qual, &raw mut (*scan).ps);
    }
    #[cfg(not(feature = "pg15"))]
    let _ = (node, estate);
}

/// Says before the node is started what kind of tuples it will hold, where the server can be told (16 and later).
pub fn announce_scan_slot(node: &mut pg_sys::CustomScanState) {
    #[cfg(not(feature = "pg15"))]
    {
        node.slotOps = &raw const pg_sys::TTSOpsBufferHeapTuple;
    }
    #[cfg(feature = "pg15")]
    let _ = node;
}
