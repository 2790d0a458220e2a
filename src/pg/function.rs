//! SQL functions that need to know how they are called: argument types, collation, aggregates, what they keep from call to
//! call.
//!
//! Three lifetimes meet here. An argument lives for the call. What a place in a query keeps ([`Call::site`]) lives as long as
//! the function's look-up there, which is the query's. An aggregate's state ([`Aggregate::place`]) lives in the memory of its
//! group, which is reset before the query's is.

use super::alloc::ContextAllocator;
use super::datum::{self, Repr, Value};
use super::varlena::Flat;
use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::{PgMemoryContexts, pg_sys};

/// AGGSPLITOP_SKIPFINAL of nodes.h: the node makes partial states.
const SKIP_FINAL: u32 = 0x02;

/// Bytes of a place ([`Call::hand_on`]): an address and a process.
pub const PLACE: usize = size_of::<u64>() + size_of::<i32>();

/// A call of an SQL function.
pub struct Call(pg_sys::FunctionCallInfo);

// SAFETY: stands for the whole call, as FunctionCallInfo itself does, and for no argument.
unsafe impl<'fcx> ArgAbi<'fcx> for Call {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: by the caller's promise.
        Self(unsafe { pg_sys::FunctionCallInfo::unbox_arg_unchecked(arg) })
    }

    fn is_virtual_arg() -> bool {
        true
    }
}

// SAFETY: never appears in SQL.
unsafe impl SqlTranslatable for Call {
    const TYPE_IDENT: &'static str = "pg_skip::pg::function::Call";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::Skip);
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::Skip));
}

/// A state of an aggregate on its way back to the server; None is NULL.
pub struct StatePointer(Option<pg_sys::Datum>);

// SAFETY: a pointer, or NULL, of SQL type internal.
unsafe impl BoxRet for StatePointer {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        match self.0 {
            // SAFETY: the function is declared to return internal.
            Some(pointer) => unsafe { fcinfo.return_raw_datum(pointer) },
            None => fcinfo.return_null(),
        }
    }
}

// SAFETY: SQL is written by hand.
unsafe impl SqlTranslatable for StatePointer {
    const TYPE_IDENT: &'static str = "pg_skip::pg::function::StatePointer";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("internal"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> =
        Ok(ReturnsRef::One(SqlMappingRef::literal("internal")));
}

impl Call {
    fn info(&self) -> &pg_sys::FunctionCallInfoBaseData {
        // SAFETY: lives as long as the call.
        unsafe { &*self.0 }
    }

    /// Number of arguments.
    pub fn count(&self) -> usize {
        usize::try_from(self.info().nargs).unwrap_or(0)
    }

    /// An argument; None for NULL or if there are not so many.
    fn datum(&self, number: usize) -> Option<pg_sys::Datum> {
        if number >= self.count() {
            return None;
        }
        // SAFETY: there are `count` of them behind the struct.
        let argument = unsafe { &*self.info().args.as_ptr().add(number) };
        (!argument.isnull).then_some(argument.value)
    }

    /// An argument of a type with this representation.
    pub fn value(&self, number: usize, repr: Repr) -> Option<Value> {
        // SAFETY: the caller knows the declared type; arguments live as long as the call.
        self.datum(number).map(|datum| unsafe { Value::new(datum, repr) })
    }

    /// The elements of an array that are not NULL.
    pub fn elements(&self, number: usize) -> Option<Vec<Value>> {
        // SAFETY: the argument is declared as anyarray.
        self.datum(number).map(|array| unsafe { datum::elements(array) })
    }

    /// An argument of a variable-length type.
    pub fn varlena(&self, number: usize) -> Option<Flat> {
        // SAFETY: the argument is declared with such a type.
        self.datum(number).map(|datum| unsafe { Flat::new(datum) })
    }

    /// The contents of a bytea argument of a deserialization function, for the combination that follows: the server evaluates
    /// both in one step, on one row of its input, which the argument is in.
    pub fn lent_bytes(&self, number: usize) -> Option<&'static [u8]> {
        // SAFETY: a bytea; made flat in memory of the same row if it is not. The lifetime is the caller's promise.
        self.datum(number).map(|datum| unsafe {
            let flat = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
            let length = pgrx::varsize_any_exhdr(flat);
            std::slice::from_raw_parts(pgrx::vardata_any(flat).cast::<u8>(), length)
        })
    }

    /// A float8 argument.
    pub fn float(&self, number: usize) -> Option<f64> {
        self.datum(number).map(|datum| f64::from_bits(datum.value() as u64))
    }

    /// An int8 argument.
    pub fn integer(&self, number: usize) -> Option<i64> {
        self.datum(number).map(|datum| datum.value() as i64)
    }

    /// An argument of type internal that the server gave.
    pub(super) fn pointer(&self, number: usize) -> Option<*mut std::ffi::c_void> {
        self.datum(number).map(|datum| datum.cast_mut_ptr())
    }

    /// The rest of a message, for a receive function, whose argument it is.
    pub fn message(&self, number: usize) -> Vec<u8> {
        let Some(buffer) = self.pointer(number) else { return Vec::new() };
        // SAFETY: the argument of a receive function is a StringInfo with a cursor; all of it is read.
        unsafe {
            let buffer = &mut *buffer.cast::<pg_sys::StringInfoData>();
            let (start, end) = (buffer.cursor.max(0) as usize, buffer.len.max(0) as usize);
            buffer.cursor = buffer.len;
            std::slice::from_raw_parts(buffer.data.cast::<u8>().add(start), end.saturating_sub(start))
                .to_vec()
        }
    }

    /// The actual type of an argument; None where nobody knows.
    pub fn type_of(&self, number: usize) -> Option<pg_sys::Oid> {
        // SAFETY: reads the call's expression, if it has one.
        let oid = unsafe { pg_sys::get_fn_expr_argtype(self.info().flinfo, number as i32) };
        (oid != pg_sys::InvalidOid).then_some(oid)
    }

    /// The collation that the call compares strings with.
    pub fn collation(&self) -> pg_sys::Oid {
        self.info().fncollation
    }

    /// What this place in the query keeps from call to call; `make` makes it at the first one.
    ///
    /// One function keeps one type.
    #[allow(
        clippy::mut_from_ref,
        reason = "the site is the function's alone, and functions ask for it once a call"
    )]
    pub fn site<T: 'static>(&self, make: impl FnOnce() -> T) -> &mut T {
        // SAFETY: fn_extra is the function's own; a T lives there once it is set, and is dropped with fn_mcxt.
        unsafe {
            let look_up = &mut *self.info().flinfo;
            if look_up.fn_extra.is_null() {
                let made = SiteMemory(look_up.fn_mcxt).run(make);
                look_up.fn_extra =
                    PgMemoryContexts::For(look_up.fn_mcxt).leak_and_drop_on_delete(made).cast();
            }
            &mut *look_up.fn_extra.cast::<T>()
        }
    }

    /// The memory that [`Call::site`] keeps things in.
    pub fn site_memory(&self) -> SiteMemory {
        // SAFETY: the look-up of the function that is being called.
        SiteMemory(unsafe { (*self.info().flinfo).fn_mcxt })
    }

    /// Keeps a value for as long as any state of the aggregate that is being called lives.
    pub fn keep<T: 'static>(&self, value: T) -> &'static T {
        // SAFETY: dropped with fn_mcxt, the query's memory. The states that refer to it are in children of that: the
        // server resets these before, and calls no function of the query afterwards.
        unsafe { &*PgMemoryContexts::For((*self.info().flinfo).fn_mcxt).leak_and_drop_on_delete(value) }
    }

    /// The memory that is current, which the result of a deserialization may stay in until it is combined.
    pub fn short_memory(&self) -> ContextAllocator {
        // SAFETY: results of the call live there.
        unsafe { ContextAllocator::new(pg_sys::CurrentMemoryContext) }
    }

    /// The aggregate that the function is called for; an error where there is none.
    pub fn aggregate(&self) -> Aggregate {
        let mut context = std::ptr::null_mut();
        // SAFETY: fills the context.
        let kind = unsafe { pg_sys::AggCheckCallContext(self.0, &mut context) };
        if kind == 0 {
            super::fail(
                pgrx::PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                "this function is part of an aggregate and cannot be called by itself".into(),
                None,
                None,
            );
        }
        let is_plain = kind == pg_sys::AGG_CONTEXT_AGGREGATE as i32;
        Aggregate { context, node: if is_plain { self.info().context.cast() } else { std::ptr::null_mut() } }
    }

    /// An argument that is a state which [`Aggregate::place`] or [`Call::pass`] made.
    #[allow(clippy::mut_from_ref, reason = "each state is one argument of one call at a time")]
    pub fn state<T>(&self, number: usize) -> Option<&mut T> {
        // SAFETY: no user can make a value of type internal, so it is a pointer that our functions returned, and the
        // aggregate's definition says of which type.
        self.datum(number).map(|pointer| unsafe { &mut *pointer.cast_mut_ptr::<T>() })
    }

    /// The place of a state, which [`Call::handed_on`] finds it by; None unless it is certain that the same process asks,
    /// and while the state is there.
    pub fn hand_on(&self, number: usize) -> Option<[u8; PLACE]> {
        let state = self.datum(number).filter(|_| self.aggregate().keeps_what_it_hands_on())?;
        let mut place = [0; PLACE];
        let (address, process) = place.split_at_mut(size_of::<u64>());
        address.copy_from_slice(&(state.value() as u64).to_ne_bytes());
        process.copy_from_slice(&my_process().to_ne_bytes());
        Some(place)
    }

    /// The state at a place, for the combination that follows; None if it is another process's.
    pub fn handed_on<T>(&self, place: &[u8; PLACE]) -> Option<&'static mut T> {
        self.aggregate(); // nobody else has business here
        let (address, process) = place.split_first_chunk()?;
        if process != my_process().to_ne_bytes() {
            return None;
        }
        // SAFETY: in an aggregate such bytes come from `hand_on` only. The node that it was called for has the state as long
        // as the plan is run, but does nothing with it any more, and the aggregate's definition says of which type it is.
        Some(unsafe { &mut *(u64::from_ne_bytes(*address) as usize as *mut T) })
    }

    /// Returns the state of this argument again.
    pub fn same(&self, number: usize) -> StatePointer {
        StatePointer(self.datum(number))
    }

    /// Returns a state that lives in the current memory until another function has used it up.
    pub fn pass<T>(&self, state: T) -> StatePointer {
        // SAFETY: nothing needs dropping that is not in the same memory.
        StatePointer(Some(unsafe { put(pg_sys::CurrentMemoryContext, state) }))
    }

    /// Returns NULL.
    pub fn none(&self) -> StatePointer {
        StatePointer(None)
    }
}

/// Memory that lives as long as what a site keeps: only for use by that.
#[derive(Clone, Copy)]
pub struct SiteMemory(pg_sys::MemoryContext);

impl SiteMemory {
    /// Runs `make` with this memory as the current one: for what goes on in what it makes.
    pub fn run<R>(self, make: impl FnOnce() -> R) -> R {
        // SAFETY: the site's own; after an ERROR nobody comes back, and the server sets its own context.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(self.0);
            let made = make();
            pg_sys::MemoryContextSwitchTo(before);
            made
        }
    }
}

/// Puts a value into a memory context, where it is never dropped.
///
/// # Safety
/// The context lives as long as the value is used.
unsafe fn put<T>(context: pg_sys::MemoryContext, value: T) -> pg_sys::Datum {
    const { assert!(align_of::<T>() <= 8) };
    // SAFETY: by the caller's promise; freshly allocated, large enough and aligned.
    unsafe {
        let place = pg_sys::MemoryContextAlloc(context, size_of::<T>()).cast::<T>();
        place.write(value);
        pg_sys::Datum::from(place)
    }
}

/// An aggregate, or a window function, that is being computed.
pub struct Aggregate {
    context: pg_sys::MemoryContext,
    node: *mut pg_sys::AggState,
}

impl Aggregate {
    /// The memory of the group.
    pub fn memory(&self) -> ContextAllocator {
        // SAFETY: states live there, and nothing else refers to what is in it.
        unsafe { ContextAllocator::new(self.context) }
    }

    /// Puts a state into the memory of the group. It is never dropped: what it owns must be in the same memory.
    pub fn place<T>(&self, state: T) -> StatePointer {
        // SAFETY: the server keeps the context as long as the state.
        StatePointer(Some(unsafe { put(self.context, state) }))
    }

    /// Whether other processes compute other parts.
    pub fn is_partial(&self) -> bool {
        // SAFETY: set for aggregates; lives as long as the call.
        !self.node.is_null() && unsafe { (*self.node).aggsplit } & SKIP_FINAL != 0
    }

    /// Whether a state that this node hands on stays where it is while it is combined, by this process. A node without groups
    /// has one state, until the plan ends or begins anew, and hands it on straight to the node that combines; in a worker,
    /// that node is elsewhere.
    fn keeps_what_it_hands_on(&self) -> bool {
        // SAFETY: as above; a plain global of the server.
        self.is_partial()
            && unsafe {
                (*self.node).aggstrategy == pg_sys::AggStrategy::AGG_PLAIN && pg_sys::ParallelWorkerNumber < 0
            }
    }

    /// The number of rows that the planner expects in a group, over all processes; 0 where there is no telling.
    pub fn expected_rows(&self) -> f64 {
        if self.node.is_null() {
            return 0.0;
        }
        // SAFETY: plan nodes of a running query.
        let (rows, groups) = unsafe {
            let plan = (*self.node).ss.ps.plan.cast::<pg_sys::Agg>();
            let input = (*plan).plan.lefttree;
            if input.is_null() {
                return 0.0;
            }
            ((*input).plan_rows, (*plan).numGroups as f64)
        };
        let rows = if self.is_partial() { rows * parallel_divisor() } else { rows };
        rows / groups.max(1.0)
    }
}

/// The server's process that this is.
fn my_process() -> i32 {
    // SAFETY: a plain global of the server.
    unsafe { pg_sys::MyProcPid }
}

/// By what core divides the rows of a parallel plan, if it has as many workers as it may: neither a worker nor the plan below
/// a Gather knows how many there are (get_parallel_divisor of costsize.c).
fn parallel_divisor() -> f64 {
    // SAFETY: plain globals of the server.
    let (workers, leader) = unsafe {
        (f64::from(pg_sys::max_parallel_workers_per_gather), pg_sys::parallel_leader_participation)
    };
    let of_leader = if leader { (1.0 - 0.3 * workers).max(0.0) } else { 0.0 };
    (workers + of_leader).max(1.0)
}
