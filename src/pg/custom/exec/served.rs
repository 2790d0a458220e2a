//! The conditions that the indexes serve, as the node checks them on each row.
//!
//! A key has one value for a whole execution. Where it is more than a constant or a parameter, the conditions refer to
//! the value instead of the expression that gives it: values lie in a slot of the node's own, which stands where a join
//! has its outer row, and a condition's key has become a column of that. So conditions are made ready once, however
//! often keys change.
//!
//! `column = ANY (array)` is checked by the server with a hash table, but only if the array is a constant. Here one is
//! made for the others: the rows' and the elements' hashes are those of the operator's own hash functions, as in a hash
//! join, and the operator itself compares a row with the few elements that have its hash.

use super::super::super::list::list;
use super::super::raw::{Place, RawTest};
use crate::pg::{Rel, server};
use pgrx::{is_a, pg_sys};
use skip_core::members::Members;

/// From so many elements on a hash table is made: the server's own bound.
const LEAST_HASHED: i32 = 9;

/// Served conditions and their keys.
pub(super) struct Served {
    /// What the server checks.
    plain: *mut pg_sys::ExprState,
    /// Conditions with lists of keys.
    lists: Vec<Check>,
    /// The key expressions, and what they give in this execution.
    keys: Vec<*mut pg_sys::ExprState>,
    values: Vec<pg_sys::NullableDatum>,
    /// Where conditions find values; NULL if they need none.
    slot: *mut pg_sys::TupleTableSlot,
    /// For each key its column in the slot, if it has one.
    columns: Vec<Option<usize>>,
    /// What values live in; emptied when keys change.
    memory: pg_sys::MemoryContext,
    are_known: bool,
    /// One of the conditions as a test of bytes: where, and the number of the key.
    place: Option<(Place, usize)>,
    raw: Option<RawTest>,
}

/// A condition with a list of keys somewhere in it.
enum Check {
    All(Vec<Check>),
    Any(Vec<Check>),
    Server(*mut pg_sys::ExprState),
    List(List),
}

/// `left operator ANY (list)`.
struct List {
    /// Number of the key that is the list.
    key: usize,
    left: *mut pg_sys::ExprState,
    left_hash: Hash,
    element_hash: Hash,
    /// The left side compared with one element, which stands in this column of the slot.
    equals: *mut pg_sys::ExprState,
    column: usize,
    /// The whole condition, as the server checks it.
    whole: *mut pg_sys::ExprState,
    elements: Elements,
}

/// What is known of a list in this execution.
enum Elements {
    Unknown,
    /// So few that the server's way is as good.
    Few,
    /// By hash, and the elements.
    Hashed(Members, *const pg_sys::Datum),
}

/// A hash function and the call of it.
struct Hash(pg_sys::FunctionCallInfo);

impl Hash {
    /// # Safety
    /// `function` is a hash function; the current memory context lives as long as the node.
    unsafe fn new(function: pg_sys::Oid, collation: pg_sys::Oid) -> Self {
        let size = size_of::<pg_sys::FunctionCallInfoBaseData>() + size_of::<pg_sys::NullableDatum>();
        // SAFETY: zeroed memory for the call and its one argument.
        unsafe {
            let info = pg_sys::palloc0(size_of::<pg_sys::FmgrInfo>()).cast::<pg_sys::FmgrInfo>();
            pg_sys::fmgr_info(function, info);
            let call = pg_sys::palloc0(size).cast::<pg_sys::FunctionCallInfoBaseData>();
            (*call).flinfo = info;
            (*call).fncollation = collation;
            (*call).nargs = 1;
            Self(call)
        }
    }

    /// Calls the function without a guard, once a row. No value with a destructor may be alive around it.
    ///
    /// # Safety
    /// `value` is of the function's argument type, and not NULL.
    #[inline]
    unsafe fn of(&self, value: pg_sys::Datum) -> u32 {
        // SAFETY: by the caller's promise; new() made room for the argument.
        unsafe {
            *(*self.0).args.as_mut_ptr() = pg_sys::NullableDatum { value, isnull: false };
            (*self.0).isnull = false;
            (*(*self.0).flinfo).fn_addr.map_or(0, |function| function(self.0).value() as u32)
        }
    }
}

impl List {
    /// Whether the row satisfies the condition.
    ///
    /// # Safety
    /// As [`Check::holds`].
    unsafe fn holds(&mut self, context: *mut pg_sys::ExprContext, served: &Values) -> bool {
        // SAFETY: by the caller's promise; the column is one of the slot's.
        unsafe {
            let list = *served.values.add(self.key);
            if list.isnull {
                return false;
            }
            if let Elements::Unknown = self.elements {
                self.elements = self.hashed(list.value, served.memory);
            }
            let Elements::Hashed(members, elements) = &self.elements else {
                return is_true(self.whole, context);
            };
            let mut is_null = false;
            let Some(evaluate) = (*self.left).evalfunc else { return false };
            let left = evaluate(self.left, context, &mut is_null);
            if is_null {
                return false;
            }
            let (place, is_null) =
                ((*served.slot).tts_values.add(self.column), (*served.slot).tts_isnull.add(self.column));
            *is_null = false;
            members.with_hash(self.left_hash.of(left)).any(|number| {
                *place = *elements.add(number as usize);
                is_true(self.equals, context)
            })
        }
    }

    /// # Safety
    /// `list` is an array of the type that the node was made for; `memory` is emptied when it changes.
    unsafe fn hashed(&self, list: pg_sys::Datum, memory: pg_sys::MemoryContext) -> Elements {
        // SAFETY: by the caller's promise. While hash functions run, nothing here has a destructor.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(memory);
            let array = pg_sys::pg_detoast_datum_copy(list.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
            let element = (*array).elemtype;
            let (mut len, mut by_value, mut align) = (0i16, false, Default::default());
            pg_sys::get_typlenbyvalalign(element, &mut len, &mut by_value, &mut align);
            let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0i32);
            pg_sys::deconstruct_array(
                array,
                element,
                len.into(),
                by_value,
                align,
                &mut values,
                &mut nulls,
                &mut count,
            );
            if count < LEAST_HASHED {
                pg_sys::MemoryContextSwitchTo(before);
                return Elements::Few;
            }
            let count = count as usize;
            let hashes = pg_sys::palloc(count * size_of::<u32>()).cast::<u32>();
            let mut present = 0;
            for i in 0..count {
                pgrx::check_for_interrupts!();
                // Nothing equals NULL.
                if !*nulls.add(i) {
                    *values.add(present) = *values.add(i);
                    *hashes.add(present) = self.element_hash.of(*values.add(i));
                    present += 1;
                }
            }
            pg_sys::MemoryContextSwitchTo(before);
            Elements::Hashed(Members::new(std::slice::from_raw_parts(hashes, present)), values)
        }
    }
}

/// Where checks find the values of keys.
struct Values {
    values: *const pg_sys::NullableDatum,
    slot: *mut pg_sys::TupleTableSlot,
    memory: pg_sys::MemoryContext,
}

impl Check {
    /// # Safety
    /// The node's context, with a row in it and keys evaluated; the row's memory is the current one.
    unsafe fn holds(&mut self, context: *mut pg_sys::ExprContext, served: &Values) -> bool {
        // SAFETY: by the caller's promise.
        unsafe {
            match self {
                Check::All(parts) => parts.iter_mut().all(|part| part.holds(context, served)),
                Check::Any(parts) => parts.iter_mut().any(|part| part.holds(context, served)),
                Check::Server(state) => is_true(*state, context),
                Check::List(list) => list.holds(context, served),
            }
        }
    }

    /// The keys have changed.
    fn forget(&mut self) {
        match self {
            Check::All(parts) | Check::Any(parts) => parts.iter_mut().for_each(Check::forget),
            Check::Server(_) => {}
            Check::List(list) => list.elements = Elements::Unknown,
        }
    }
}

/// Evaluates a condition, as ExecQual does but without a guard: it runs once a row. An error in it leaves by a jump to
/// the server's handler; between there and here are no values with destructors.
///
/// # Safety
/// A state made by ExecInitQual, and its context; the row's memory is the current one.
#[inline]
unsafe fn is_true(state: *mut pg_sys::ExprState, context: *mut pg_sys::ExprContext) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        let Some(evaluate) = state.as_ref().and_then(|state| state.evalfunc) else { return true };
        let mut is_null = false;
        evaluate(state, context, &mut is_null).value() != 0
    }
}

impl Served {
    /// Makes conditions and keys ready.
    ///
    /// # Safety
    /// Expressions of the node's plan, in BeginCustomScan; the current memory context is the query's.
    pub(super) unsafe fn new(
        conditions: &[*mut pg_sys::Node],
        keys: &[*mut pg_sys::Node],
        scan: *mut pg_sys::ScanState,
    ) -> Self {
        // SAFETY: a node whose table the server has opened.
        let planstate = unsafe { &raw mut (*scan).ps };
        let mut binding = Binding { keys, columns: vec![None; keys.len()], types: Vec::new(), planstate };
        let mut plain = std::ptr::null_mut();
        let mut lists = Vec::new();
        // SAFETY: by the caller's promise.
        unsafe {
            for &condition in conditions {
                match binding.check(condition) {
                    Some(check) => lists.push(check),
                    None => plain = pg_sys::lappend(plain, binding.bound(condition).cast()),
                }
            }
            Self {
                plain: server::ExecInitQual(plain, planstate),
                lists,
                keys: keys.iter().map(|&key| server::ExecInitExpr(key.cast(), planstate)).collect(),
                values: vec![
                    pg_sys::NullableDatum { value: pg_sys::Datum::null(), isnull: true };
                    keys.len()
                ],
                slot: binding.slot(),
                columns: binding.columns,
                memory: pg_sys::AllocSetContextCreateInternal(
                    pg_sys::CurrentMemoryContext,
                    c"pg_skip keys".as_ptr(),
                    pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                    pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                    pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
                ),
                are_known: false,
                place: conditions.iter().find_map(|&condition| place(condition, keys, scan)),
                raw: None,
            }
        }
    }

    /// A test that rows must pass to satisfy the conditions.
    #[inline]
    pub(super) fn raw_test(&self) -> Option<&RawTest> {
        self.raw.as_ref()
    }

    /// The keys have changed: they are evaluated again when they are needed.
    pub(super) fn forget(&mut self) {
        self.are_known = false;
    }

    /// Evaluates the keys, if that was not done since they changed.
    ///
    /// # Safety
    /// The node's context, in an execution.
    pub(super) unsafe fn evaluate_keys(&mut self, context: *mut pg_sys::ExprContext) {
        if self.are_known {
            return;
        }
        // SAFETY: by the caller's promise. What lists had of the old keys goes before the memory that it was in.
        unsafe {
            self.lists.iter_mut().for_each(Check::forget);
            pg_sys::MemoryContextReset(self.memory);
            let before = pg_sys::MemoryContextSwitchTo(self.memory);
            for (number, &state) in self.keys.iter().enumerate() {
                let value = server::evaluate(state, context);
                let (value, is_null) = (value.unwrap_or(pg_sys::Datum::null()), value.is_none());
                self.values[number] = pg_sys::NullableDatum { value, isnull: is_null };
                if let Some(column) = self.columns[number] {
                    *(*self.slot).tts_values.add(column) = value;
                    *(*self.slot).tts_isnull.add(column) = is_null;
                }
            }
            pg_sys::MemoryContextSwitchTo(before);
            if !self.slot.is_null() {
                (*context).ecxt_outertuple = self.slot;
            }
            self.raw = self.place.and_then(|(place, key)| self.value(key).map(|value| place.equals(value)));
        }
        self.are_known = true;
    }

    /// The value of a key, None if it is NULL.
    pub(super) fn value(&self, key: usize) -> Option<pg_sys::Datum> {
        self.values.get(key).filter(|value| !value.isnull).map(|value| value.value)
    }

    /// Whether the row in the context satisfies all conditions.
    ///
    /// # Safety
    /// The node's context, keys evaluated. The row's memory is reset before, as ExecScan does between its rows.
    #[inline]
    pub(super) unsafe fn hold(&mut self, context: *mut pg_sys::ExprContext) -> bool {
        // SAFETY: by the caller's promise.
        unsafe {
            let memory = (*context).ecxt_per_tuple_memory;
            if !(*memory).isReset {
                pg_sys::MemoryContextReset(memory);
            }
            let before = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = memory;
            let mut result = is_true(self.plain, context);
            if result && !self.lists.is_empty() {
                let values = Values { values: self.values.as_ptr(), slot: self.slot, memory: self.memory };
                result = self.lists.iter_mut().all(|list| list.holds(context, &values));
            }
            pg_sys::CurrentMemoryContext = before;
            result
        }
    }
}

/// What is being made ready.
struct Binding<'k> {
    keys: &'k [*mut pg_sys::Node],
    /// For each key its column in the slot, if a condition refers to it.
    columns: Vec<Option<usize>>,
    /// Types of the slot's columns, with their modifiers.
    types: Vec<(pg_sys::Oid, i32)>,
    planstate: *mut pg_sys::PlanState,
}

impl Binding<'_> {
    /// Another column of the slot, and an expression that gives its value.
    ///
    /// # Safety
    /// As [`Served::new`].
    unsafe fn column(
        &mut self,
        kind: pg_sys::Oid,
        typmod: i32,
        collation: pg_sys::Oid,
    ) -> (usize, *mut pg_sys::Node) {
        self.types.push((kind, typmod));
        (self.types.len() - 1, self.value_of(self.types.len() - 1, collation))
    }

    fn value_of(&self, column: usize, collation: pg_sys::Oid) -> *mut pg_sys::Node {
        let (kind, typmod) = self.types[column];
        // A query has far fewer keys than 32,767.
        let number = i16::try_from(column + 1).unwrap_or(i16::MAX);
        // SAFETY: a palloc'd node.
        unsafe { pg_sys::makeVar(pg_sys::OUTER_VAR, number, kind, typmod, collation, 0).cast() }
    }

    /// The number of the key that an expression is.
    ///
    /// # Safety
    /// As [`Served::new`].
    unsafe fn key(&self, node: *mut pg_sys::Node) -> Option<usize> {
        // SAFETY: valid expressions.
        self.keys.iter().position(|&key| unsafe { pg_sys::equal(key.cast(), node.cast()) })
    }

    /// What stands for an argument of a comparison: the value of the key that it is, if evaluating it is any work.
    ///
    /// # Safety
    /// As [`Served::new`].
    unsafe fn argument(&mut self, node: *mut pg_sys::Node) -> *mut pg_sys::Node {
        // SAFETY: by the caller's promise.
        unsafe {
            let mut plain = node;
            while is_a(plain, pg_sys::NodeTag::T_RelabelType) {
                plain = (*plain.cast::<pg_sys::RelabelType>()).arg.cast();
            }
            let is_cheap = [pg_sys::NodeTag::T_Var, pg_sys::NodeTag::T_Const, pg_sys::NodeTag::T_Param];
            if is_cheap.iter().any(|&tag| is_a(plain, tag)) {
                return node;
            }
            let Some(key) = self.key(node) else { return node };
            let collation = pg_sys::exprCollation(node);
            if let Some(column) = self.columns[key] {
                return self.value_of(column, collation);
            }
            let (column, value) = self.column(pg_sys::exprType(node), pg_sys::exprTypmod(node), collation);
            self.columns[key] = Some(column);
            value
        }
    }

    /// The condition with values in the place of keys: a new node, or the same if there is nothing to replace.
    ///
    /// # Safety
    /// As [`Served::new`].
    unsafe fn bound(&mut self, node: *mut pg_sys::Node) -> *mut pg_sys::Node {
        // SAFETY: a node's tag says what it is; a copy's list of arguments is replaced as a whole.
        unsafe {
            pg_sys::check_stack_depth();
            match (*node).type_ {
                pg_sys::NodeTag::T_BoolExpr => {
                    let args = (*node.cast::<pg_sys::BoolExpr>()).args;
                    match self.arguments(args, Self::bound) {
                        Some(args) => {
                            let copy = copy_of(node).cast::<pg_sys::BoolExpr>();
                            (*copy).args = args;
                            copy.cast()
                        }
                        None => node,
                    }
                }
                // IS DISTINCT FROM is the same struct under another tag.
                pg_sys::NodeTag::T_OpExpr | pg_sys::NodeTag::T_DistinctExpr => {
                    let args = (*node.cast::<pg_sys::OpExpr>()).args;
                    match self.arguments(args, Self::argument) {
                        Some(args) => {
                            let copy = copy_of(node).cast::<pg_sys::OpExpr>();
                            (*copy).args = args;
                            copy.cast()
                        }
                        None => node,
                    }
                }
                pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                    let args = (*node.cast::<pg_sys::ScalarArrayOpExpr>()).args;
                    match self.arguments(args, Self::argument) {
                        Some(args) => {
                            let copy = copy_of(node).cast::<pg_sys::ScalarArrayOpExpr>();
                            (*copy).args = args;
                            copy.cast()
                        }
                        None => node,
                    }
                }
                _ => node,
            }
        }
    }

    /// A list of arguments, each replaced; None if all stay as they are.
    ///
    /// # Safety
    /// As [`Served::new`].
    unsafe fn arguments(
        &mut self,
        args: *mut pg_sys::List,
        replace: unsafe fn(&mut Self, *mut pg_sys::Node) -> *mut pg_sys::Node,
    ) -> Option<*mut pg_sys::List> {
        let (mut new, mut is_new): (*mut pg_sys::List, _) = (std::ptr::null_mut(), false);
        // SAFETY: a list of expressions.
        unsafe {
            for arg in list::<pg_sys::Node>(args) {
                let replaced = replace(self, arg);
                is_new |= replaced != arg;
                new = pg_sys::lappend(new, replaced.cast());
            }
        }
        is_new.then_some(new)
    }

    /// A condition that has a list of keys in it; None for one that is best left to the server.
    ///
    /// # Safety
    /// As [`Served::new`].
    unsafe fn check(&mut self, node: *mut pg_sys::Node) -> Option<Check> {
        // SAFETY: a node's tag says what it is.
        unsafe {
            pg_sys::check_stack_depth();
            if is_a(node, pg_sys::NodeTag::T_ScalarArrayOpExpr) {
                return self.list(node.cast()).map(Check::List);
            }
            if !is_a(node, pg_sys::NodeTag::T_BoolExpr) {
                return None;
            }
            let node = node.cast::<pg_sys::BoolExpr>();
            if (*node).boolop == pg_sys::BoolExprType::NOT_EXPR {
                return None; // unknown is not false here
            }
            let parts: Vec<_> = list::<pg_sys::Node>((*node).args).collect();
            let checks: Vec<_> = parts.iter().map(|&part| self.check(part)).collect();
            if checks.iter().all(Option::is_none) {
                return None;
            }
            let checks = checks.into_iter().zip(parts);
            let checks =
                checks.map(|(check, part)| check.unwrap_or_else(|| Check::Server(self.server(part))));
            let checks = checks.collect();
            let is_and = (*node).boolop == pg_sys::BoolExprType::AND_EXPR;
            Some(if is_and { Check::All(checks) } else { Check::Any(checks) })
        }
    }

    /// The state of a condition that the server checks.
    ///
    /// # Safety
    /// As [`Served::new`].
    unsafe fn server(&mut self, node: *mut pg_sys::Node) -> *mut pg_sys::ExprState {
        // SAFETY: a list of one condition.
        unsafe {
            let bound = self.bound(node);
            server::ExecInitQual(pg_sys::lappend(std::ptr::null_mut(), bound.cast()), self.planstate)
        }
    }

    /// # Safety
    /// As [`Served::new`].
    unsafe fn list(&mut self, node: *mut pg_sys::ScalarArrayOpExpr) -> Option<List> {
        // SAFETY: two arguments, the second an array. The left side is evaluated twice, so there must be no harm in
        // that.
        unsafe {
            let args: Vec<*mut pg_sys::Node> = list((*node).args).collect();
            let &[left, array] = args.as_slice() else { return None };
            if !(*node).useOr || is_a(array, pg_sys::NodeTag::T_Const) {
                return None; // the server has a hash table for these
            }
            let key = self.key(array)?;
            let (mut of_left, mut of_element) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
            let is_hashable = pg_sys::get_op_hash_functions((*node).opno, &mut of_left, &mut of_element)
                && pg_sys::op_hashjoinable((*node).opno, pg_sys::exprType(left))
                && pg_sys::op_strict((*node).opno)
                && pg_sys::func_strict(of_left)
                && pg_sys::func_strict(of_element);
            if !is_hashable || pg_sys::contain_volatile_functions(left) || pg_sys::contain_subplans(left) {
                return None;
            }
            let element = pg_sys::get_base_element_type(pg_sys::exprType(array));
            if element == pg_sys::InvalidOid {
                return None;
            }
            let collation = pg_sys::exprCollation(array);
            let (column, value) = self.column(element, -1, collation);
            let equals = pg_sys::make_opclause(
                (*node).opno,
                pg_sys::BOOLOID,
                false,
                left.cast(),
                value.cast(),
                pg_sys::InvalidOid,
                (*node).inputcollid,
            );
            (*equals.cast::<pg_sys::OpExpr>()).opfuncid = (*node).opfuncid;
            Some(List {
                key,
                left: server::ExecInitExpr(left.cast(), self.planstate),
                left_hash: Hash::new(of_left, (*node).inputcollid),
                element_hash: Hash::new(of_element, (*node).inputcollid),
                equals: server::ExecInitQual(
                    pg_sys::lappend(std::ptr::null_mut(), equals.cast()),
                    self.planstate,
                ),
                column,
                whole: self.server(node.cast()),
                elements: Elements::Unknown,
            })
        }
    }

    /// The slot for the values, all NULL yet; NULL if conditions refer to none.
    ///
    /// # Safety
    /// As [`Served::new`].
    unsafe fn slot(&self) -> *mut pg_sys::TupleTableSlot {
        if self.types.is_empty() {
            return std::ptr::null_mut();
        }
        // SAFETY: a descriptor with as many columns as there are types; the slot lives in the query's memory and pins
        // nothing.
        unsafe {
            let desc = pg_sys::CreateTemplateTupleDesc(self.types.len() as i32);
            for (number, &(kind, typmod)) in (1..).zip(&self.types) {
                pg_sys::TupleDescInitEntry(desc, number, std::ptr::null(), kind, typmod, 0);
            }
            let slot = pg_sys::MakeSingleTupleTableSlot(desc, &raw const pg_sys::TTSOpsVirtual);
            for column in 0..self.types.len() {
                *(*slot).tts_values.add(column) = pg_sys::Datum::null();
                *(*slot).tts_isnull.add(column) = true;
            }
            pg_sys::ExecStoreVirtualTuple(slot)
        }
    }
}

/// Where a condition's column lies in rows, and the number of its key, if the condition compares bytes.
///
/// # Safety
/// As [`Served::new`].
unsafe fn place(
    condition: *mut pg_sys::Node,
    keys: &[*mut pg_sys::Node],
    scan: *mut pg_sys::ScanState,
) -> Option<(Place, usize)> {
    // SAFETY: a node's tag says what it is; an operator has two arguments here, or is none of these.
    unsafe {
        if !is_a(condition, pg_sys::NodeTag::T_OpExpr) {
            return None;
        }
        let operator = condition.cast::<pg_sys::OpExpr>();
        let args: Vec<*mut pg_sys::Node> = list((*operator).args).collect();
        let &[left, right] = args.as_slice() else { return None };
        let (column, key) = if is_a(left, pg_sys::NodeTag::T_Var) { (left, right) } else { (right, left) };
        if !is_a(column, pg_sys::NodeTag::T_Var) {
            return None;
        }
        let column = column.cast::<pg_sys::Var>();
        let relid = (*(*scan).ps.plan.cast::<pg_sys::Scan>()).scanrelid;
        if u32::try_from((*column).varno) != Ok(relid) {
            return None;
        }
        let key = keys.iter().position(|&known| pg_sys::equal(known.cast(), key.cast()))?;
        let table = Rel::from_raw((*scan).ss_currentRelation);
        Some((Place::of(table, (*column).varattno, (*operator).opfuncid)?, key))
    }
}

/// # Safety
/// A valid node.
unsafe fn copy_of(node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: by the caller's promise.
    unsafe { pg_sys::copyObjectImpl(node.cast_const().cast()).cast() }
}
