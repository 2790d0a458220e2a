//! SQL functions that need to know how they are called: argument types, collation, aggregates, what they keep from call
//! to call.
//!
//! Three lifetimes meet here. An argument lives for the call. What a place in a query keeps ([`Call::site`]) lives as
//! long as the function's lookup there: the server's executor looks functions up once a query, others may for each
//! row. An aggregate's state ([`Call::with_group`]) lives in the memory of its group. So a state owns what it refers
//! to, or has it kept for all states in that memory ([`Aggregate::keep`]); it refers to nothing that a place in a query
//! keeps. The compiler sees to that: `'m` is the lifetime of the group's memory, and nothing else has it.
//!
//! That an argument is of the type that a method here takes it for is what `sql/` declares of the function, and only a
//! superuser can declare a function of this library. Of type internal SQL knows no more: what comes as such is lent if
//! its tag is right ([`super::tagged`]).

use super::aggregate::{Aggregate, StateFamily, StatePointer, Token};
use super::alloc::ContextAllocator;
use super::datum::{self, Repr, Value};
use super::list::list;
use super::parallel_memory::{Found, SharedPlace};
use super::tagged::{Lent, Tag, Tagged};
use super::varlena::Varlena;
use super::{Report, catalog, compat, handover, plan_tree, types};
use pgrx::callconv::{Arg, ArgAbi};
use pgrx::pg_sys;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::thread::LocalKey;

/// Sites that last as long as the process, by type and collation: as many as there are functions declared with such
/// types, and collations that the server comes with.
pub struct Lasting<T>(RefCell<HashMap<(pg_sys::Oid, pg_sys::Oid), *mut Tagged<T>>>);

impl<T> Default for Lasting<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T: 'static> Lasting<T> {
    fn get(&self, key: (pg_sys::Oid, pg_sys::Oid), make: impl FnOnce() -> T) -> *mut Tagged<T> {
        if let Some(&known) = self.0.borrow().get(&key) {
            return known;
        }
        let made = Box::into_raw(Box::new(Tagged::new(Tag::of::<T>(), make())));
        self.0.borrow_mut().insert(key, made);
        made
    }
}

/// Whether an object comes with the server, or is none: its OID is never given to another one.
fn is_built_in(oid: pg_sys::Oid) -> bool {
    oid.to_u32() < pg_sys::FirstNormalObjectId
}

/// A call of an SQL function.
pub struct Call<'fcx> {
    raw: pg_sys::FunctionCallInfo,
    call: PhantomData<&'fcx ()>,
}

// SAFETY: stands for the whole call, as FunctionCallInfo itself does, and for no argument.
unsafe impl<'fcx> ArgAbi<'fcx> for Call<'fcx> {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: whatever the argument, this gives the call's own struct, which is there for 'fcx.
        Self { raw: unsafe { pg_sys::FunctionCallInfo::unbox_arg_unchecked(arg) }, call: PhantomData }
    }

    fn is_virtual_arg() -> bool {
        true
    }
}

// SAFETY: never appears in SQL.
unsafe impl SqlTranslatable for Call<'_> {
    const TYPE_IDENT: &'static str = "pg_skip::pg::function::Call";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::Skip);
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::Skip));
}

impl Call<'_> {
    fn info(&self) -> &pg_sys::FunctionCallInfoBaseData {
        // SAFETY: there for 'fcx. Nobody changes it during the call but the function's result, at its end.
        unsafe { &*self.raw }
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
    pub fn varlena(&self, number: usize) -> Option<Varlena<'_>> {
        // SAFETY: the argument is declared with such a type.
        self.datum(number).map(|datum| unsafe { Varlena::new(datum) })
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
                let aggref = pg_sys::AggGetAggref(self.raw).as_ref()?;
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
    pub fn typed_site<T: 'static>(
        &self,
        number: usize,
        lasting: &'static LocalKey<Lasting<T>>,
        make: impl FnOnce(Option<pg_sys::Oid>) -> T,
    ) -> Lent<'_, T> {
        let look_up = self.info().flinfo;
        // SAFETY: the lookup of the function that is being called.
        if unsafe { (*look_up).fn_extra.is_null() && (*look_up).fn_expr.is_null() } {
            let declared = self.declared_type_of(number);
            let key = declared.filter(|&oid| is_built_in(oid)).map(|oid| (oid, self.collation()));
            if let Some(key) = key.filter(|&(_, collation)| is_built_in(collation)) {
                // SAFETY: lasts as long as the process does.
                let memory = unsafe { SiteMemory::new(pg_sys::TopMemoryContext) };
                let kept = lasting.with(|lasting| lasting.get(key, || memory.run(|| make(declared))));
                // SAFETY: fn_extra is for the function's own use. What is in `lasting` is never freed.
                return unsafe {
                    (*look_up).fn_extra = kept.cast();
                    Tagged::lend(kept.cast(), Tag::of::<T>())
                };
            }
        }
        self.site(|| make(self.type_of(number)))
    }

    /// The collation that the call compares strings with.
    pub fn collation(&self) -> pg_sys::Oid {
        self.info().fncollation
    }

    /// What this place in the query keeps from call to call; `make` makes it at the first one. One function keeps one
    /// type.
    pub fn site<T: 'static>(&self, make: impl FnOnce() -> T) -> Lent<'_, T> {
        let (look_up, tag) = (self.info().flinfo, Tag::of::<T>());
        // SAFETY: fn_extra is for the use of the function that was looked up, which is ours: it is NULL, or what this
        // function or typed_site() has put there. It goes with fn_mcxt, in which the lookup is.
        unsafe {
            if (*look_up).fn_extra.is_null() {
                let memory = (*look_up).fn_mcxt;
                let made = SiteMemory::new(memory).run(make);
                (*look_up).fn_extra = Tagged::new(tag, made).put_and_drop(memory);
            }
            Tagged::lend((*look_up).fn_extra, tag)
        }
    }

    /// The memory that [`Call::site`] keeps things in.
    pub fn site_memory(&self) -> SiteMemory<'_> {
        // SAFETY: the lookup of the function that is being called lies there.
        unsafe { SiteMemory::new((*self.info().flinfo).fn_mcxt) }
    }

    /// The aggregate that the function is called for; an error where there is none.
    pub fn aggregate(&self) -> Aggregate<'_> {
        // SAFETY: the group's memory is there for the call.
        unsafe { self.aggregate_for() }
    }

    /// # Safety
    /// `'m` is not longer than the lifetime of the group's memory.
    unsafe fn aggregate_for<'m>(&self) -> Aggregate<'m> {
        let mut context = std::ptr::null_mut();
        // SAFETY: fills the context.
        let kind = unsafe { pg_sys::AggCheckCallContext(self.raw, &mut context) };
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
        let look_up = unsafe { (*self.info().flinfo).fn_mcxt };
        Aggregate { context, node, look_up, group: PhantomData }
    }

    /// A state that is an argument, lent for as long as the memory of which it is.
    ///
    /// # Safety
    /// `'m` is not longer than the lifetime of that memory. Nothing with a shorter lifetime is put into the state.
    unsafe fn lend<'m, S: StateFamily>(&self, number: usize) -> Option<Lent<'m, S::In<'m>>> {
        // SAFETY: no user can make a value of type internal, so it is a pointer that a function of ours has returned,
        // or, in an aggregate that a superuser has put together, another one's: also of something palloc'd.
        self.datum(number).map(|state| unsafe { Tagged::lend(state.cast_mut_ptr(), Tag::of::<S>()) })
    }

    /// Calls `look` with the state that is an argument.
    pub fn with_state<S: StateFamily, R>(
        &self,
        number: usize,
        look: impl for<'m> FnOnce(&mut S::In<'m>) -> R,
    ) -> Option<R> {
        // SAFETY: the memory of an argument is there for the call. `look` knows nothing of the lifetime that it sees,
        // so it has nothing with that lifetime but what comes from the state.
        unsafe { self.lend::<S>(number) }.map(|mut state| look(&mut state))
    }

    /// Calls `use_up` with the state of [`Call::pass`] that is an argument.
    pub fn with_passed<S: StateFamily, R>(
        &self,
        number: usize,
        use_up: impl for<'m> FnOnce(S::In<'m>) -> R,
    ) -> Option<R> {
        // SAFETY: as in with_state().
        unsafe { self.lend::<S>(number) }.map(|state| use_up(state.take()))
    }

    /// Calls `work` with the state of the group, argument 0, if there is one. If it makes a state, that becomes the
    /// group's, else the old one stays.
    pub fn with_group<S: StateFamily>(
        &self,
        work: impl for<'m> FnOnce(Option<&mut S::In<'m>>, StateGroup<'_, 'm>) -> Option<S::In<'m>>,
    ) -> StatePointer {
        // SAFETY: the state lies in the group's memory, as it was returned by this function before, or is a superuser's
        // doing. `work` knows nothing of the lifetime of that but that the group, and what is in it, has it.
        let new = unsafe {
            let mut state = self.lend::<S>(0);
            work(state.as_deref_mut(), StateGroup { call: self, memory: PhantomData })
        };
        let Some(new) = new else { return self.same(0) };
        // SAFETY: what the state refers to is in the group's memory, too.
        StatePointer(Some(unsafe { Tagged::new(Tag::of::<S>(), new).put(self.aggregate().context) }.into()))
    }

    /// A token for a state of a partial aggregate, by which [`Aggregate::take_handed_on`] finds it; None unless it is
    /// certain that the same process asks, and before the state's memory is reset.
    pub fn hand_on(&self, number: usize) -> Option<Token> {
        let aggregate = self.aggregate();
        let state = self.pointer(number).filter(|_| aggregate.keeps_what_it_hands_on())?;
        // SAFETY: a node without groups has its state in this context.
        Some(unsafe { handover::offer(aggregate.context, state) }.to_ne_bytes())
    }

    /// What a worker shared, to be combined by this call; None if it is not of this query.
    pub fn shared(&self, place: SharedPlace) -> Option<Found<'_>> {
        let aggregate = self.aggregate();
        if !aggregate.combines() {
            return None; // nobody knows who made the place up
        }
        // SAFETY: the node that combines is above the Gather that the place came through, which is open while it gives
        // tuples, one of which this call is for.
        unsafe { Found::find(aggregate.node.cast(), place) }
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

    /// Returns a state that lives in the current memory until another function has used it up; NULL if `make` makes
    /// none. For deserialization functions: the server's own executor combines such a state in the step that
    /// deserializes it, on one row of its input.
    pub fn pass<S: StateFamily>(
        &self,
        make: impl for<'m> FnOnce(Passing<'_, 'm>) -> Option<S::In<'m>>,
    ) -> StatePointer {
        let state = make(Passing { call: self, memory: PhantomData });
        // SAFETY: results of the call live in the current memory, and what this one refers to does so, too, or is lent
        // for as long as it is used.
        StatePointer(state.map(|state| unsafe {
            Tagged::new(Tag::of::<S>(), state).put(pg_sys::CurrentMemoryContext).into()
        }))
    }
}

/// The group of a call of an aggregate's function, whose memory is there for `'m`.
pub struct StateGroup<'c, 'm> {
    call: &'c Call<'c>,
    /// Neither longer nor shorter: nothing else has this lifetime.
    memory: PhantomData<fn(&'m ()) -> &'m ()>,
}

impl<'m> StateGroup<'_, 'm> {
    /// The aggregate; an error where there is none.
    pub fn aggregate(&self) -> Aggregate<'m> {
        // SAFETY: with_group() says so.
        unsafe { self.call.aggregate_for() }
    }
}

/// A call of a deserialization function. What it makes is used as long as `'m`.
pub struct Passing<'c, 'm> {
    call: &'c Call<'c>,
    memory: PhantomData<fn(&'m ()) -> &'m ()>,
}

impl<'m> Passing<'_, 'm> {
    /// The memory that the state is in.
    pub fn memory(&self) -> ContextAllocator<'m> {
        // SAFETY: the current memory is that of results: who calls a function keeps it until the result was used.
        unsafe { ContextAllocator::new(pg_sys::CurrentMemoryContext) }
    }

    /// The contents of a bytea argument. The server's own executor has the argument as long as the state, as
    /// [`Call::pass`] says: there it is lent. Nobody knows what other callers do: they get a copy in the current
    /// memory.
    pub fn bytes(&self, number: usize) -> Option<&'m [u8]> {
        let is_lent = self.call.aggregate().combines();
        // SAFETY: a bytea; made flat in the current memory if it is not. What is not lent is copied there.
        self.call.datum(number).map(|datum| unsafe {
            let value = datum.cast_mut_ptr();
            let mut flat = pg_sys::pg_detoast_datum_packed(value);
            if !is_lent && flat == value {
                flat = pg_sys::pg_detoast_datum_copy(value);
            }
            let length = pgrx::varsize_any_exhdr(flat);
            std::slice::from_raw_parts(pgrx::vardata_any(flat).cast::<u8>(), length)
        })
    }
}

/// Memory that lives as long as what a site keeps: only for use by that.
#[derive(Clone, Copy)]
pub struct SiteMemory<'a> {
    context: pg_sys::MemoryContext,
    call: PhantomData<&'a ()>,
}

impl SiteMemory<'_> {
    /// # Safety
    /// The context is there for `'a`.
    unsafe fn new(context: pg_sys::MemoryContext) -> Self {
        Self { context, call: PhantomData }
    }

    /// Runs `make` with this memory as the current one: for what goes on in what it makes.
    pub fn run<R>(self, make: impl FnOnce() -> R) -> R {
        // SAFETY: the context is there for 'a; after an ERROR nobody comes back, and the server sets its own context.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(self.context);
            let made = make();
            pg_sys::MemoryContextSwitchTo(before);
            made
        }
    }
}
