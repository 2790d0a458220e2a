//! Functions of the server that run code of others: users' functions and expressions, other extensions' hooks, the
//! planner and the executor below us; and those that raise errors of parallel workers. Errors in them pass unchanged
//! ([`boundary::call`]).
//!
//! `pg_sys` has the same functions behind pgrx's guard, which drops most of an error's fields. Use the functions of
//! this file instead.

use super::boundary::call;
use pgrx::pg_sys;
use pgrx::pg_sys::{
    Bitmapset, BlockNumber, Buffer, BufferAccessStrategy, ConditionVariable, Datum, EState,
    ExecScanAccessMtd, ExecScanRecheckMtd, Expr, ExprContext, ExprState, FmgrInfo, ForkNumber, IndexInfo,
    ItemPointer, JoinType, List, Node, Oid, ParallelContext, ParamListInfo, ParamPathInfo, PlanState,
    PlannedStmt, PlannerInfo, Portal, Query, ReadBufferMode, RelOptInfo, Relation, ScanState, Selectivity,
    Snapshot, SpecialJoinInfo, TupleTableSlot, Tuplesortstate, shm_mq_handle, shm_mq_result,
};
use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

macro_rules! passing_errors {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        mod raw {
            use super::*;
            // SAFETY: signatures of the server's headers, the same in all supported versions.
            unsafe extern "C-unwind" {
                $(pub fn $name($($argument: $type),*) $(-> $result)?;)*
            }
        }
        $(
            $(#[$about])*
            ///
            /// As the server's function of the same name.
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "the server's signature")]
            pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
                // SAFETY: the same arguments, under the contract of the server's function. They are plain values: the
                // jump that `call` catches skips no destructor.
                unsafe { call(|| raw::$name($($argument),*)) }
            }
        )*
    };
}

passing_errors! {
    /// Plans a query.
    fn standard_planner(query: *mut Query, text: *const c_char, options: c_int, params: ParamListInfo) -> *mut PlannedStmt;
    /// Evaluates the parts of an expression that may be evaluated for an estimate.
    fn estimate_expression_value(root: *mut PlannerInfo, node: *mut Node) -> *mut Node;
    /// Fraction of the rows that satisfy a condition.
    fn clause_selectivity(
        root: *mut PlannerInfo, clause: *mut Node, relation: c_int, join: JoinType::Type, special: *mut SpecialJoinInfo,
    ) -> Selectivity;
    /// The join conditions and the estimates of a table that gets the values of others.
    fn get_baserel_parampathinfo(
        root: *mut PlannerInfo, rel: *mut RelOptInfo, outer: *mut Bitmapset,
    ) -> *mut ParamPathInfo;
    /// Prepares a list of conditions.
    fn ExecInitQual(qual: *mut List, parent: *mut PlanState) -> *mut ExprState;
    /// Prepares an expression.
    fn ExecInitExpr(expr: *mut Expr, parent: *mut PlanState) -> *mut ExprState;
    /// Prepares a list of conditions that belong to no plan.
    fn ExecPrepareQual(qual: *mut List, estate: *mut EState) -> *mut ExprState;
    /// Describes an index; simplifies its expressions.
    fn BuildIndexInfo(index: Relation) -> *mut IndexInfo;
    /// An index's predicate, simplified.
    fn RelationGetIndexPredicate(index: Relation) -> *mut List;
    /// Forms an index row.
    fn FormIndexDatum(
        info: *mut IndexInfo, slot: *mut TupleTableSlot, estate: *mut EState, values: *mut Datum, nulls: *mut bool,
    );
    /// Calls a function of two arguments.
    fn FunctionCall2Coll(function: *mut FmgrInfo, collation: Oid, first: Datum, second: Datum) -> Datum;
    /// Reads a literal.
    fn InputFunctionCall(function: *mut FmgrInfo, text: *mut c_char, parameter: Oid, modifier: i32) -> Datum;
    /// Parses a text of statements; the mode is 0.
    fn raw_parser(text: *const c_char, mode: c_uint) -> *mut List;
    /// Opens a cursor for a query.
    fn SPI_cursor_open_with_args(
        name: *const c_char, query: *const c_char, count: c_int, types: *mut Oid, values: *mut Datum,
        nulls: *const c_char, read_only: bool, options: c_int,
    ) -> Portal;
    /// Fetches rows from a cursor.
    fn SPI_cursor_fetch(portal: Portal, forward: bool, count: c_long);
    /// Processes a cancel, a shutdown, or messages and errors of parallel workers.
    fn ProcessInterrupts();
    /// Reads a page; processes interrupts while another process reads it.
    fn ReadBufferExtended(
        rel: Relation, fork: ForkNumber::Type, block: BlockNumber, mode: ReadBufferMode::Type,
        strategy: BufferAccessStrategy,
    ) -> Buffer;
    /// Raises an error if a serializable transaction's write conflicts with what other transactions have read.
    fn CheckForSerializableConflictIn(rel: Relation, row: ItemPointer, block: BlockNumber);
    /// Adds a row to a sort; may sort what it has, and compare values.
    fn tuplesort_puttupleslot(sort: *mut Tuplesortstate, slot: *mut TupleTableSlot);
    /// Sorts all rows.
    fn tuplesort_performsort(sort: *mut Tuplesortstate);
    /// Puts the next row of a sort into a slot; merges runs meanwhile.
    fn tuplesort_gettupleslot(
        sort: *mut Tuplesortstate, forward: bool, copy: bool, slot: *mut TupleTableSlot, abbreviated: *mut Datum,
    ) -> bool;
    /// Copies a value.
    fn datumCopy(value: Datum, by_value: bool, len: c_int) -> Datum;
    /// Waits for parallel workers, and raises their errors.
    fn WaitForParallelWorkersToFinish(context: *mut ParallelContext);
    /// Waits until parallel workers have started; raises an error if one cannot.
    fn WaitForParallelWorkersToAttach(context: *mut ParallelContext);
    /// Sleeps until a condition variable is signalled; checks for interrupts.
    fn ConditionVariableSleep(variable: *mut ConditionVariable, event: u32);
    /// Sends a message through a queue; waits, and processes interrupts, while the queue is full.
    fn shm_mq_send(
        queue: *mut shm_mq_handle, bytes: usize, data: *const c_void, nowait: bool, flush: bool,
    ) -> shm_mq_result::Type;
}

/// Evaluates an expression in the current memory context; None for NULL.
///
/// # Safety
/// `state` was prepared, and `context` is that of its node.
pub unsafe fn evaluate(state: *mut ExprState, context: *mut ExprContext) -> Option<Datum> {
    let mut is_null = false;
    let result: *mut bool = &raw mut is_null;
    // SAFETY: ExecInitExpr, ExecInitQual and ExecPrepareQual set the function of the state that they make. It is called
    // with the context of the same node or EState.
    let value = unsafe {
        let function = (*state).evalfunc;
        call(|| function.map(|evaluate| evaluate(state, context, result)))
    };
    value.filter(|_| !is_null)
}

/// Calls a function in the current memory context; None if it returns NULL.
///
/// # Safety
/// `function` was looked up, and the arguments, none of which is NULL, are of the types of its own.
pub unsafe fn call_function(function: *mut FmgrInfo, collation: Oid, arguments: &[Datum]) -> Option<Datum> {
    // SAFETY: the call's struct ends with its arguments, for which there is room. The address was found with the
    // function.
    unsafe {
        let bytes = size_of::<pg_sys::FunctionCallInfoBaseData>()
            + arguments.len() * size_of::<pg_sys::NullableDatum>();
        let info = pg_sys::palloc0(bytes).cast::<pg_sys::FunctionCallInfoBaseData>();
        (*info).flinfo = function;
        (*info).fncollation = collation;
        (*info).nargs = arguments.len() as i16;
        let first = (&raw mut (*info).args).cast::<pg_sys::NullableDatum>();
        for (number, &value) in arguments.iter().enumerate() {
            *first.add(number) = pg_sys::NullableDatum { value, isnull: false };
        }
        let address = (*function).fn_addr;
        let value = call(|| address.map(|address| address(info)));
        value.filter(|_| !(*info).isnull)
    }
}

/// Puts the row at a place of a table into a slot; false if the snapshot does not see it.
///
/// # Safety
/// `rel` is an open table, and `slot` is one for its rows.
pub unsafe fn fetch_row(
    rel: Relation,
    tid: ItemPointer,
    snapshot: Snapshot,
    slot: *mut TupleTableSlot,
) -> bool {
    // SAFETY: the access method of an open table has all functions. This is table_tuple_fetch_row_version, an inline
    // function of tableam.h.
    unsafe {
        let fetch = (*(*rel).rd_tableam).tuple_fetch_row_version;
        call(|| fetch.is_some_and(|fetch| fetch(rel, tid, snapshot, slot)))
    }
}

/// Whether a row satisfies a prepared list of conditions; true for an empty list.
///
/// # Safety
/// As [`evaluate`]; NULL is an empty list.
pub unsafe fn satisfies(state: *mut ExprState, context: *mut ExprContext) -> bool {
    if state.is_null() {
        return true;
    }
    // SAFETY: the context is that of the EState for which the state was made. The same as ExecQual, in the row's
    // memory.
    unsafe {
        let before = pg_sys::CurrentMemoryContext;
        pg_sys::CurrentMemoryContext = (*context).ecxt_per_tuple_memory;
        let value = evaluate(state, context);
        pg_sys::CurrentMemoryContext = before;
        value.is_some_and(|value| value.value() != 0)
    }
}

/// Functions that are called without a guard of their own: for each row, or several within one [`call`]. An error
/// leaves by a jump that skips the caller's frames, which must have no values with destructors.
pub mod unguarded {
    #[cfg(feature = "pg15")]
    pub use super::raw::ExecInitQual;
    use super::{ExecScanAccessMtd, ExecScanRecheckMtd, List, Oid, ScanState, TupleTableSlot};
    use pgrx::pg_sys::{Buffer, HeapTuple};
    #[cfg(feature = "pg15")]
    use pgrx::pg_sys::{EState, Relation, TupleDesc, TupleTableSlotOps};
    use std::ffi::{c_int, c_void};

    // SAFETY: signatures of executor.h, tuptable.h and pg_list.h in every supported version.
    unsafe extern "C-unwind" {
        /// Adds a pointer to a list.
        pub fn lappend(list: *mut List, datum: *mut c_void) -> *mut List;
        /// Adds an integer to a list.
        pub fn lappend_int(list: *mut List, datum: c_int) -> *mut List;
        /// Adds an OID to a list.
        pub fn lappend_oid(list: *mut List, datum: Oid) -> *mut List;
        /// Copies a list, but not what its pointers point to.
        pub fn list_copy(list: *const List) -> *mut List;
        /// Fetches rows until one satisfies the node's filter, and projects it.
        pub fn ExecScan(
            node: *mut ScanState,
            access: ExecScanAccessMtd,
            recheck: ExecScanRecheckMtd,
        ) -> *mut TupleTableSlot;
        /// Puts a row of a page into a slot.
        pub fn ExecStoreBufferHeapTuple(
            tuple: HeapTuple,
            slot: *mut TupleTableSlot,
            buffer: Buffer,
        ) -> *mut TupleTableSlot;
        /// The functions of the slots that hold a table's rows.
        #[cfg(feature = "pg15")]
        pub fn table_slot_callbacks(relation: Relation) -> *const TupleTableSlotOps;
        /// Gives a node the slot for the rows of its table.
        #[cfg(feature = "pg15")]
        pub fn ExecInitScanTupleSlot(
            estate: *mut EState,
            node: *mut ScanState,
            desc: TupleDesc,
            ops: *const TupleTableSlotOps,
        );
        /// Prepares what a node returns of a row.
        #[cfg(feature = "pg15")]
        pub fn ExecAssignScanProjectionInfo(node: *mut ScanState);
    }
}
