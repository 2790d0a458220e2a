//! SQL functions that need to know how they are called: argument types, collation, aggregates, what they keep from call
//! to call.
//!
//! Three lifetimes meet here. An argument lives for the call. What a place in a query keeps ([`Call::site`]) lives as
//! long as the function's lookup there: the server's executor looks functions up once a query, others may for each
//! row. An aggregate's state ([`Aggregate::place`]) lives in the memory of its group. So a state owns what it refers
//! to, or has it kept for all states in that memory ([`Aggregate::keep`]); it refers to nothing that a place in a query
//! keeps.

use super::aggregate::{Aggregate, StatePointer, put};
use super::alloc::ContextAllocator;
use super::datum::{self, Repr, Value};
use super::list::list;
use super::varlena::Flat;
use super::{Report, catalog, compat, handover, plan_tree, types};
use pgrx::callconv::{Arg, ArgAbi};
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::{PgMemoryContexts, pg_sys};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::thread::LocalKey;

/// Sites that last as long as the process, by type and collation: as many as there are functions declared with such
/// types, and collations that the server comes with.
pub struct Lasting<T>(RefCell<HashMap<(pg_sys::Oid, pg_sys::Oid), *mut T>>);

impl<T> Default for Lasting<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> Lasting<T> {
    fn get(&self, key: (pg_sys::Oid, pg_sys::Oid), make: impl FnOnce() -> T) -> *mut T {
        if let Some(&known) = self.0.borrow().get(&key) {
            return known;
        }
        let made = Box::into_raw(Box::new(make()));
        self.0.borrow_mut().insert(key, made);
        made
    }
}

/// Whether an object comes with the server, or is none: its OID is never given to another one.
fn is_built_in(oid: pg_sys::Oid) -> bool {
    oid.to_u32() < pg_sys::FirstNormalObjectId
}

/// What stands for a state ([`Call::hand_on`]).
pub type Token = [u8; size_of::<u64>()];

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
    pub fn value(&self, number: usize, repr: Repr) -> Option<Value<'_>> {
        // SAFETY: the caller knows the declared type; arguments live as long as the call.
        self.datum(number).map(|datum| unsafe { Value::new(datum, repr) })
    }

    /// The elements of an array that are not NULL.
    pub fn elements(&self, number: usize) -> Option<Vec<Value<'_>>> {
        // SAFETY: the argument is declared as anyarray.
        self.datum(number).map(|array| unsafe { datum::elements(array) })
    }

    /// An argument of a variable-length type.
    pub fn varlena(&self, number: usize) -> Option<Flat<'_>> {
        // SAFETY: the argument is declared with such a type.
        self.datum(number).map(|datum| unsafe { Flat::new(datum) })
    }

    /// The contents of a bytea argument of a deserialization function, for a state that lives in the current memory.
    /// The server's own executor combines such a state in the step that deserializes it, on one row of its input, which
    /// the argument is in: there it is lent. Nobody knows what other callers do: they get a copy in the current memory.
    pub fn bytes_for_state(&self, number: usize) -> Option<&'static [u8]> {
        let is_lent = self.aggregate().combines();
        // SAFETY: a bytea; made flat in the current memory if it is not. What is not lent is copied there.
        self.datum(number).map(|datum| unsafe {
            let value = datum.cast_mut_ptr();
            let mut flat = pg_sys::pg_detoast_datum_packed(value);
            if !is_lent && flat == value {
                flat = pg_sys::pg_detoast_datum_copy(value);
            }
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

    /// The actual type of an argument: as the call's expression says, if it has one, else as the function is declared;
    /// None where nobody knows.
    pub fn type_of(&self, number: usize) -> Option<pg_sys::Oid> {
        // SAFETY: reads the call's expression, if it has one.
        let oid = unsafe { pg_sys::get_fn_expr_argtype(self.info().flinfo, number as i32) };
        if oid != pg_sys::InvalidOid { Some(oid) } else { self.declared_type_of(number) }
    }

    /// The type that an argument of an aggregate's step function has before a cast that nobody wrote, if a user made
    /// that type. With an aggregate for text, SQL casts citext to it, in silence; but keys of that type are equal where
    /// texts are not. An error where that cannot be known.
    pub fn type_before_cast(&self, number: usize) -> Option<pg_sys::Oid> {
        let aggregate = self.aggregate();
        let types = if aggregate.is_nodes_own() {
            // SAFETY: the node that calls the function for an aggregate of its own, whose arguments are behind the
            // state.
            unsafe {
                let aggref = pg_sys::AggGetAggref(self.0).as_ref()?;
                let argument = list::<pg_sys::TargetEntry>(aggref.args).nth(number.checked_sub(1)?)?;
                vec![plan_tree::type_before_cast((*aggregate.node).ss.ps.plan, (*argument).expr.cast())]
            }
        } else {
            self.types_in_window(number)
        };
        // All built-in types that are cast to one that an aggregate is for are equal by its rules.
        let made_by_users = types.into_iter().map(|oid| oid.map(|oid| (!is_built_in(oid)).then_some(oid)));
        let made_by_users: Vec<Option<Option<pg_sys::Oid>>> = made_by_users.collect();
        let (first, others) = made_by_users.split_first()?;
        let Some(first) = first.filter(|_| others.iter().all(|other| other == first)) else {
            super::fail(
                pgrx::PgSqlErrorCode::ERRCODE_INDETERMINATE_DATATYPE,
                "could not determine the type of the keys of a bloom filter".into(),
                Some(
                    "The values may be cast from another type, which may have a different operator =.".into(),
                ),
                Some("Cast the values explicitly to the type of the keys.".into()),
            )
        };
        first
    }

    /// The types before casts of an argument of all calls of the function's aggregates in a window node: it does not
    /// tell which call this is. None if the function is not called by a window node.
    fn types_in_window(&self, number: usize) -> Vec<Option<pg_sys::Oid>> {
        let node = self.info().context;
        // SAFETY: a node's tag says what it is; a window node's list has the states of its functions.
        unsafe {
            if node.is_null() || (*node).type_ != pg_sys::NodeTag::T_WindowAggState {
                return Vec::new();
            }
            let node = node.cast::<pg_sys::WindowAggState>();
            let step = (*self.info().flinfo).fn_oid;
            list::<pg_sys::WindowFuncExprState>((*node).funcs)
                .map(|state| (*state).wfunc)
                .filter(|&function| catalog::step_function_of((*function).winfnoid) == Some(step))
                .map(|function| {
                    let argument = list::<pg_sys::Node>((*function).args).nth(number.checked_sub(1)?)?;
                    plan_tree::type_before_cast((*node).ss.ps.plan, argument)
                })
                .collect()
        }
    }

    /// The type that the function is declared with; None if it takes values of several.
    fn declared_type_of(&self, number: usize) -> Option<pg_sys::Oid> {
        // SAFETY: a catalog lookup of the function that is being called; the array has `count` elements, and is freed.
        unsafe {
            let (mut declared, mut count) = (std::ptr::null_mut(), 0i32);
            pg_sys::get_func_signature((*self.info().flinfo).fn_oid, &mut declared, &mut count);
            let oid = (number < usize::try_from(count).unwrap_or(0)).then(|| *declared.add(number));
            pg_sys::pfree(declared.cast());
            oid.filter(|&oid| !types::is_pseudo(oid))
        }
    }

    /// [`Call::site`] of a function that makes its site from the type of an argument, and the collation. Where the
    /// function is looked up for each row, without an expression, it would be made for each row: what follows from a
    /// built-in type and collation alone never changes, and is made once for the process.
    #[allow(clippy::mut_from_ref, reason = "as in site()")]
    pub fn typed_site<T: 'static>(
        &self,
        number: usize,
        lasting: &'static LocalKey<Lasting<T>>,
        make: impl FnOnce(Option<pg_sys::Oid>) -> T,
    ) -> &mut T {
        // SAFETY: fn_extra is the function's own, as in site().
        let look_up = unsafe { &mut *self.info().flinfo };
        if look_up.fn_extra.is_null() && look_up.fn_expr.is_null() {
            let declared = self.declared_type_of(number);
            let key = declared.filter(|&oid| is_built_in(oid)).map(|oid| (oid, self.collation()));
            if let Some(key) = key.filter(|&(_, collation)| is_built_in(collation)) {
                // SAFETY: lasts as long as the process does.
                let memory = SiteMemory(unsafe { pg_sys::TopMemoryContext });
                look_up.fn_extra =
                    lasting.with(|lasting| lasting.get(key, || memory.run(|| make(declared)))).cast();
                // SAFETY: made for this one function, as in site(); types that are built in run no code of users', so
                // nobody comes here a second time meanwhile.
                return unsafe { &mut *look_up.fn_extra.cast::<T>() };
            }
        }
        self.site(|| make(self.type_of(number)))
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
        // SAFETY: the lookup of the function that is being called.
        SiteMemory(unsafe { (*self.info().flinfo).fn_mcxt })
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
                "this function is part of an aggregate and cannot be called directly".into(),
                None,
                None,
            );
        }
        let is_plain = kind == pg_sys::AGG_CONTEXT_AGGREGATE as i32;
        let node = if is_plain { self.info().context.cast() } else { std::ptr::null_mut() };
        // SAFETY: the lookup of the function that is being called.
        Aggregate { context, node, look_up: unsafe { (*self.info().flinfo).fn_mcxt } }
    }

    /// An argument that is a state which [`Aggregate::place`] or [`Call::pass`] made.
    #[allow(clippy::mut_from_ref, reason = "each state is one argument of one call at a time")]
    pub fn state<T>(&self, number: usize) -> Option<&mut T> {
        // SAFETY: no user can make a value of type internal, so it is a pointer that our functions returned, and the
        // aggregate's definition says of which type.
        self.datum(number).map(|pointer| unsafe { &mut *pointer.cast_mut_ptr::<T>() })
    }

    /// A token for a state of a partial aggregate, by which [`Call::handed_on`] finds it; None unless it is certain
    /// that the same process asks, and before the state's memory is reset.
    pub fn hand_on(&self, number: usize) -> Option<Token> {
        let aggregate = self.aggregate();
        let state = self.pointer(number).filter(|_| aggregate.keeps_what_it_hands_on())?;
        // SAFETY: a node without groups has its state in this context.
        Some(unsafe { handover::offer(aggregate.context, state) }.to_ne_bytes())
    }

    /// The state of a token, for the combination that follows; None if it is gone, or another process's.
    pub fn handed_on<T>(&self, token: Token) -> Option<&'static mut T> {
        if !self.aggregate().combines() {
            return None; // nobody knows whose bytes these are
        }
        // SAFETY: the state is there, as its offer is; it is combined before its memory is reset
        // (`keeps_what_it_hands_on`), and its own node does nothing with it any more. The aggregate's definition says
        // of which type it is.
        handover::take(u64::from_ne_bytes(token)).map(|state| unsafe { &mut *state.cast::<T>() })
    }

    /// A string that an input function is called with.
    pub fn text(&self, number: usize) -> Option<&CStr> {
        // SAFETY: the argument is declared as cstring.
        self.datum(number).map(|datum| unsafe { CStr::from_ptr(datum.cast_mut_ptr()) })
    }

    /// Fails an input function: leaves the error with the caller and comes back, if the caller wants that; else raises
    /// it.
    pub fn reject(&self, report: Report) {
        // SAFETY: the context of this call.
        if !unsafe { compat::save_error(self.info().context, &report) } {
            report.raise();
        }
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
