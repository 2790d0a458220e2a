//! SQL functions that need to know how they are called: argument types, collation, aggregates, and data that they keep
//! from call to call.
//!
//! There are three lifetimes. An argument lives for the call. The data of a call site ([`Call::site`]) lives as long as
//! the function's lookup there; the server's executor looks functions up once a query, other callers may for each row.
//! The state of an aggregate ([`Call::with_group`]) lives in the memory of its group. Therefore a state owns the data
//! that it refers to, or has it kept for all states in that memory ([`Aggregate::keep`]); it never refers to data of a
//! call site. The compiler enforces this: `'m` is the lifetime of the group's memory, and nothing else has that
//! lifetime.
//!
//! `sql/` declares the functions, and so ensures that an argument has the type as which a method here reads it; only a
//! superuser can declare a function of this library. For arguments of type internal, SQL ensures nothing more. Such an
//! argument is lent only if its tag is right ([`super::tagged`]).

use super::aggregate::{Aggregate, StateFamily, StatePointer, Token};
use super::alloc::ContextAllocator;
use super::datum::{self, Repr, Value};
use super::list::list;
use super::parallel_memory::{Found, SharedPlace};
use super::tagged::{Lent, Tag, Tagged};
use super::varlena::Varlena;
use super::{Report, catalog, compat, handover, memory, plan_tree, types};
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

/// Call-site data that lives as long as the process, by type and collation. Its number is limited by the functions that
/// are declared with built-in types, and the collations that come with the server.
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

/// A call of an SQL function.
pub struct Call<'fcx> {
    raw: pg_sys::FunctionCallInfo,
    call: PhantomData<&'fcx ()>,
}

// SAFETY: stands for the whole call, as FunctionCallInfo itself does, and not for an argument.
unsafe impl<'fcx> ArgAbi<'fcx> for Call<'fcx> {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: whatever the argument, this returns the call's own struct, which lives for 'fcx.
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
        // SAFETY: it lives for 'fcx. During the call, only the function's result changes it, at the end.
        unsafe { &*self.raw }
    }

    /// Number of arguments.
    pub fn count(&self) -> usize {
        usize::try_from(self.info().nargs).unwrap_or(0)
    }

    /// An argument; None for NULL, or if there are fewer arguments.
    fn datum(&self, number: usize) -> Option<pg_sys::Datum> {
        if number >= self.count() {
            return None;
        }
        // SAFETY: there are `count` arguments at the end of the struct.
        let argument = unsafe { &*self.info().args.as_ptr().add(number) };
        (!argument.isnull).then_some(argument.value)
    }

    /// An argument of a type with this representation; None for NULL.
    pub fn value(&self, number: usize, repr: Repr) -> Option<Value<'_>> {
        // SAFETY: the caller knows the declared type; arguments live as long as the call.
        self.datum(number).map(|datum| unsafe { Value::new(datum, repr) })
    }

    /// The elements of an array argument that are not NULL.
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

    /// A pointer of the server, as an argument of type internal.
    pub(super) fn pointer(&self, number: usize) -> Option<*mut std::ffi::c_void> {
        self.datum(number).map(|datum| datum.cast_mut_ptr())
    }

    /// The rest of the message that is the argument of a receive function.
    pub fn message(&self, number: usize) -> Vec<u8> {
        let Some(buffer) = self.pointer(number) else { return Vec::new() };
        // SAFETY: the argument of a receive function is a StringInfo with a cursor; the rest of it is read.
        unsafe {
            let buffer = &mut *buffer.cast::<pg_sys::StringInfoData>();
            let (start, end) = (buffer.cursor.max(0) as usize, buffer.len.max(0) as usize);
            buffer.cursor = buffer.len;
            let length = end.saturating_sub(start);
            let mut message = memory::buffer(length);
            message
                .extend_from_slice(std::slice::from_raw_parts(buffer.data.cast::<u8>().add(start), length));
            message
        }
    }

    /// The actual type of an argument: the type in the call's expression, if there is one, otherwise the declared type.
    /// None if neither tells it.
    pub fn type_of(&self, number: usize) -> Option<pg_sys::Oid> {
        // SAFETY: reads the call's expression, if it has one.
        let oid = unsafe { pg_sys::get_fn_expr_argtype(self.info().flinfo, number as i32) };
        if oid != pg_sys::InvalidOid { Some(oid) } else { self.declared_type_of(number) }
    }

    /// The type that an argument of an aggregate's step function has before an implicit cast, if that type is
    /// user-defined. For an aggregate of text, SQL casts citext implicitly; but two keys of citext may be equal
    /// although the texts are not. Raises an error if the type cannot be determined.
    pub fn type_before_cast(&self, number: usize) -> Option<pg_sys::Oid> {
        let aggregate = self.aggregate();
        let types_before = if aggregate.is_nodes_own() {
            // SAFETY: the node calls the function for an aggregate of its own. The aggregate's arguments follow the
            // state.
            unsafe {
                let aggref = pg_sys::AggGetAggref(self.raw).as_ref()?;
                let argument = list::<pg_sys::TargetEntry>(aggref.args).nth(number.checked_sub(1)?)?;
                vec![plan_tree::type_before_cast((*aggregate.node).ss.ps.plan, (*argument).expr.cast())]
            }
        } else {
            self.types_in_window(number)
        };
        // Built-in types that are cast implicitly to the type of an aggregate have the same equality as that type, and
        // a domain has that of its base type.
        let made_by_users = |oid| Some(types::base_type(oid)).filter(|&oid| !catalog::is_built_in(oid));
        let made_by_users: Vec<Option<Option<pg_sys::Oid>>> =
            types_before.into_iter().map(|oid| oid.map(made_by_users)).collect();
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

    /// The types before casts of an argument, for all calls of the function's aggregates in a window node, because the
    /// node does not tell which call this is. Empty if the function is not called by a window node.
    fn types_in_window(&self, number: usize) -> Vec<Option<pg_sys::Oid>> {
        let node = self.info().context;
        // SAFETY: a node's tag tells its type; a window node's list has the states of its functions.
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

    /// The type with which the argument is declared; None for a polymorphic type.
    fn declared_type_of(&self, number: usize) -> Option<pg_sys::Oid> {
        // SAFETY: a catalog lookup of the called function; the array has `count` elements, and is freed.
        unsafe {
            let (mut declared, mut count) = (std::ptr::null_mut(), 0i32);
            pg_sys::get_func_signature((*self.info().flinfo).fn_oid, &mut declared, &mut count);
            let oid = (number < usize::try_from(count).unwrap_or(0)).then(|| *declared.add(number));
            pg_sys::pfree(declared.cast());
            oid.filter(|&oid| !types::is_pseudo(oid))
        }
    }

    /// [`Call::site`] for data that is made from the type of an argument, and the collation. If a caller looks the
    /// function up for each row, without an expression, the data would be made for each row. Data that depends only on
    /// a built-in type and collation never changes, so it is made once for the process.
    pub fn typed_site<T: 'static>(
        &self,
        number: usize,
        lasting: &'static LocalKey<Lasting<T>>,
        make: impl FnOnce(Option<pg_sys::Oid>) -> T,
    ) -> Lent<'_, T> {
        let look_up = self.info().flinfo;
        // SAFETY: the lookup of the called function.
        if unsafe { (*look_up).fn_extra.is_null() && (*look_up).fn_expr.is_null() } {
            let declared = self.declared_type_of(number);
            let key = declared.filter(|&oid| catalog::is_built_in(oid)).map(|oid| (oid, self.collation()));
            if let Some(key) = key.filter(|&(_, collation)| catalog::is_built_in(collation)) {
                // SAFETY: this context lives as long as the process.
                let memory = unsafe { SiteMemory::new(pg_sys::TopMemoryContext) };
                let kept = lasting.with(|lasting| lasting.get(key, || memory.run(|| make(declared))));
                // SAFETY: fn_extra is for the function's own use. Data in `lasting` is never freed.
                return unsafe {
                    (*look_up).fn_extra = kept.cast();
                    Tagged::lend(kept.cast(), Tag::of::<T>())
                };
            }
        }
        self.site(|| make(self.type_of(number)))
    }

    /// The collation of the call.
    pub fn collation(&self) -> pg_sys::Oid {
        self.info().fncollation
    }

    /// The data that this call site keeps from call to call; `make` makes it at the first call. A function keeps data
    /// of only one type.
    pub fn site<T: 'static>(&self, make: impl FnOnce() -> T) -> Lent<'_, T> {
        let (look_up, tag) = (self.info().flinfo, Tag::of::<T>());
        // SAFETY: fn_extra is for the use of the function that was looked up, which is ours. It is NULL, or was set by
        // this function or typed_site(). It is freed with fn_mcxt, which also contains the lookup.
        unsafe {
            if (*look_up).fn_extra.is_null() {
                let memory = (*look_up).fn_mcxt;
                let made = SiteMemory::new(memory).run(make);
                (*look_up).fn_extra = Tagged::new(tag, made).put_and_drop(memory);
            }
            Tagged::lend((*look_up).fn_extra, tag)
        }
    }

    /// The memory in which [`Call::site`] keeps data.
    pub fn site_memory(&self) -> SiteMemory<'_> {
        // SAFETY: the lookup of the called function is in this context.
        unsafe { SiteMemory::new((*self.info().flinfo).fn_mcxt) }
    }

    /// The aggregate for which the function is called; an error if there is none.
    pub fn aggregate(&self) -> Aggregate<'_> {
        // SAFETY: the group's memory lives for the call.
        unsafe { self.aggregate_for() }
    }

    /// # Safety
    /// `'m` is not longer than the lifetime of the group's memory.
    unsafe fn aggregate_for<'m>(&self) -> Aggregate<'m> {
        let mut context = std::ptr::null_mut();
        // SAFETY: sets the context.
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
        // SAFETY: the lookup of the called function.
        let look_up = unsafe { (*self.info().flinfo).fn_mcxt };
        Aggregate { context, node, look_up, group: PhantomData }
    }

    /// Lends the state that is an argument, for the lifetime of the memory that it is in.
    ///
    /// # Safety
    /// `'m` is not longer than the lifetime of that memory. Nothing with a shorter lifetime is put into the state.
    unsafe fn lend<'m, S: StateFamily>(&self, number: usize) -> Option<Lent<'m, S::In<'m>>> {
        // SAFETY: no user can make a value of type internal. So it is a pointer that a function of ours has returned;
        // or, in an aggregate that a superuser has defined, a pointer of another function, also to palloc'd memory.
        self.datum(number).map(|state| unsafe { Tagged::lend(state.cast_mut_ptr(), Tag::of::<S>()) })
    }

    /// Calls `look` with the state that is an argument.
    pub fn with_state<S: StateFamily, R>(
        &self,
        number: usize,
        look: impl for<'m> FnOnce(&mut S::In<'m>) -> R,
    ) -> Option<R> {
        // SAFETY: the memory of an argument lives for the call. `look` is generic over the lifetime that it sees, so
        // the only data with that lifetime comes from the state.
        unsafe { self.lend::<S>(number) }.map(|mut state| look(&mut state))
    }

    /// Calls `use_up` with the state that is an argument and was made by [`Call::pass`].
    pub fn with_passed<S: StateFamily, R>(
        &self,
        number: usize,
        use_up: impl for<'m> FnOnce(S::In<'m>) -> R,
    ) -> Option<R> {
        // SAFETY: as in with_state().
        unsafe { self.lend::<S>(number) }.map(|state| use_up(state.take()))
    }

    /// Calls `work` with the state of the group, argument 0, if there is one. If it returns a state, that becomes the
    /// group's state; otherwise the old one stays.
    pub fn with_group<S: StateFamily>(
        &self,
        work: impl for<'m> FnOnce(Option<&mut S::In<'m>>, StateGroup<'_, 'm>) -> Option<S::In<'m>>,
    ) -> StatePointer {
        // SAFETY: the state is in the group's memory, because this function has returned it before, unless a superuser
        // has defined another aggregate. `work` is generic over that lifetime, and only the group and its data have it.
        let new = unsafe {
            let mut state = self.lend::<S>(0);
            work(state.as_deref_mut(), StateGroup { call: self, memory: PhantomData })
        };
        let Some(new) = new else { return self.same(0) };
        // SAFETY: the data to which the state refers is also in the group's memory.
        StatePointer(Some(unsafe { Tagged::new(Tag::of::<S>(), new).put(self.aggregate().context) }.into()))
    }

    /// A token for a state of a partial aggregate, by which [`Aggregate::take_handed_on`] finds it. None unless it is
    /// certain that the same process takes the state, before its memory is reset.
    pub fn hand_on(&self, number: usize) -> Option<Token> {
        let aggregate = self.aggregate();
        let state = self.pointer(number).filter(|_| aggregate.keeps_what_it_hands_on())?;
        // SAFETY: a node without groups has its state in this context.
        Some(unsafe { handover::offer(aggregate.context, state) }.to_ne_bytes())
    }

    /// The memory that a worker shared, to be combined by this call; None if it is not of this query.
    pub fn shared(&self, place: SharedPlace) -> Option<Found<'_>> {
        let aggregate = self.aggregate();
        if !aggregate.combines() {
            return None; // the place may come from anywhere
        }
        // SAFETY: the node that combines is above the Gather from which the place came. That Gather is open while it
        // returns tuples, and this call is for one of them.
        unsafe { Found::find(aggregate.node.cast(), place) }
    }

    /// The string argument of an input function.
    pub fn text(&self, number: usize) -> Option<&CStr> {
        // SAFETY: the argument is declared as cstring.
        self.datum(number).map(|datum| unsafe { CStr::from_ptr(datum.cast_mut_ptr()) })
    }

    /// Fails an input function: passes the error to the caller and returns, if the caller accepts that; otherwise
    /// raises it.
    pub fn reject(&self, report: Report) {
        // SAFETY: the context is that of this call.
        if !unsafe { compat::save_error(self.info().context, &report) } {
            report.raise();
        }
    }

    /// Returns the state that is this argument.
    pub fn same(&self, number: usize) -> StatePointer {
        StatePointer(self.datum(number))
    }

    /// Returns a state that lives in the current memory context until another function has used it up; NULL if `make`
    /// returns none. For deserialization functions: the server's own executor combines such a state in the step that
    /// deserializes it, on one row of its input.
    pub fn pass<S: StateFamily>(
        &self,
        make: impl for<'m> FnOnce(Passing<'_, 'm>) -> Option<S::In<'m>>,
    ) -> StatePointer {
        let state = make(Passing { call: self, memory: PhantomData });
        // SAFETY: results of the call live in the current memory context. So does the data to which this one refers, or
        // it is lent as long as it is used.
        StatePointer(state.map(|state| unsafe {
            Tagged::new(Tag::of::<S>(), state).put(pg_sys::CurrentMemoryContext).into()
        }))
    }
}

/// The group of a call of an aggregate's function; its memory lives for `'m`.
pub struct StateGroup<'c, 'm> {
    call: &'c Call<'c>,
    /// Invariant in `'m`: nothing else has this lifetime.
    memory: PhantomData<fn(&'m ()) -> &'m ()>,
}

impl<'m> StateGroup<'_, 'm> {
    /// The aggregate; an error if there is none.
    pub fn aggregate(&self) -> Aggregate<'m> {
        // SAFETY: with_group() chooses 'm so.
        unsafe { self.call.aggregate_for() }
    }
}

/// A call of a deserialization function. Its result is used for `'m`.
pub struct Passing<'c, 'm> {
    call: &'c Call<'c>,
    memory: PhantomData<fn(&'m ()) -> &'m ()>,
}

impl<'m> Passing<'_, 'm> {
    /// The memory of the state.
    pub fn memory(&self) -> ContextAllocator<'m> {
        // SAFETY: the current memory context is that of results: the caller of a function keeps it until the result was
        // used.
        unsafe { ContextAllocator::new(pg_sys::CurrentMemoryContext) }
    }

    /// The contents of a bytea argument. The server's own executor keeps the argument as long as the state (see
    /// [`Call::pass`]), so it is lent there. Other callers may not, so they get a copy in the current memory context.
    pub fn bytes(&self, number: usize) -> Option<&'m [u8]> {
        let is_lent = self.call.aggregate().combines();
        // SAFETY: a bytea, detoasted in the current memory context if need be. If it is not lent, it is copied there.
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

/// Memory that lives as long as the data of a call site: only for use by that data.
#[derive(Clone, Copy)]
pub struct SiteMemory<'a> {
    context: pg_sys::MemoryContext,
    call: PhantomData<&'a ()>,
}

impl SiteMemory<'_> {
    /// # Safety
    /// The context exists for `'a`.
    unsafe fn new(context: pg_sys::MemoryContext) -> Self {
        Self { context, call: PhantomData }
    }

    /// Runs `make` with this memory as the current memory context, for allocations that outlive `make`.
    pub fn run<R>(self, make: impl FnOnce() -> R) -> R {
        // SAFETY: the context exists for 'a; after an ERROR nothing here runs, and the server sets its own context.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(self.context);
            let made = make();
            pg_sys::MemoryContextSwitchTo(before);
            made
        }
    }
}
