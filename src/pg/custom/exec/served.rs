//! The conditions that the indexes serve, and their check on each row.
//!
//! | file | content |
//! |---|---|
//! | this one | the keys of an execution, and the check of a row |
//! | [`super::binding`] | conditions are prepared when the node begins, so that they refer to the values of keys |
//! | [`super::lists`] | `column = ANY (array)` by hash |
//!
//! A key has one value for a whole execution. If the key is more than a constant or a parameter, the conditions refer
//! to its value instead of its expression. The expression is therefore evaluated once and not for each row.

use super::super::super::list::list;
use super::super::raw::{ColumnPlace, Operator, RawTest};
use super::binding::Binding;
use super::lists::{Check, KeyValues, is_true};
use crate::pg::alloc::new_context;
use crate::pg::{Rel, server};
use pgrx::{is_a, pg_sys};

/// Served conditions and their keys.
pub(super) struct Served {
    /// The conditions that the server checks.
    plain: *mut pg_sys::ExprState,
    /// Conditions with lists of keys.
    lists: Vec<Check>,
    /// The keys; `values` has their values in this execution.
    keys: Vec<KeySource>,
    values: Vec<pg_sys::NullableDatum>,
    /// The slot from which conditions read values; NULL if they need none.
    slot: *mut pg_sys::TupleTableSlot,
    /// For each key its column in the slot, if it has one.
    columns: Vec<Option<usize>>,
    /// The memory of the values, reset when keys change; NULL if all are constants of the plan.
    memory: pg_sys::MemoryContext,
    are_known: bool,
    /// Whether a key depends on something other than the parameters of the plan, such as a setting. It may then have
    /// another value in each execution.
    has_mutable_keys: bool,
    /// One condition that can be checked by comparing bytes.
    on_pages: Option<OnPages>,
    raw: Option<RawTest>,
}

/// A condition that is checked on rows as they are on their pages.
struct OnPages {
    place: ColumnPlace,
    /// The number of the key.
    key: usize,
    /// Whether the key is an array, one element of which a row must have.
    is_list: bool,
}

/// Where the value of a key comes from.
enum KeySource {
    /// A constant of the plan, flat and not compressed.
    Constant(pg_sys::NullableDatum),
    /// Any other one, prepared, and whether its type is a varlena.
    Evaluated(*mut pg_sys::ExprState, bool),
}

impl KeySource {
    /// # Safety
    /// As [`Served::new`].
    unsafe fn new(node: *mut pg_sys::Node, planstate: *mut pg_sys::PlanState) -> Self {
        // SAFETY: a node's tag tells its type.
        unsafe {
            if is_a(node, pg_sys::NodeTag::T_Const) {
                let pg_sys::Const { constvalue: value, constisnull: isnull, constlen, .. } = *node.cast();
                if isnull || constlen != -1 || pgrx::varatt_is_4b_u(value.cast_mut_ptr()) {
                    return Self::Constant(pg_sys::NullableDatum { value, isnull });
                }
            }
            let is_varlena = pg_sys::get_typlen(pg_sys::exprType(node)) == -1;
            Self::Evaluated(server::ExecInitExpr(node.cast(), planstate), is_varlena)
        }
    }
}

impl Served {
    /// Prepares conditions and keys.
    ///
    /// # Safety
    /// The arguments are expressions of the node's plan. Called in BeginCustomScan; the current memory context is the
    /// query's.
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
        // SAFETY: begin() passes expressions of the plan. The query keeps the plan, and what is made from it in its
        // memory here, to its end.
        unsafe {
            for &condition in conditions {
                match binding.check(condition) {
                    Some(check) => lists.push(check),
                    None => plain = pg_sys::lappend(plain, binding.bound(condition).cast()),
                }
            }
            let of_plan = keys;
            let keys: Vec<KeySource> = keys.iter().map(|&key| KeySource::new(key, planstate)).collect();
            let on_pages = on_pages(conditions, of_plan, scan);
            let needs_memory = !lists.is_empty()
                || on_pages.as_ref().is_some_and(|condition| condition.is_list)
                || keys.iter().any(|key| matches!(key, KeySource::Evaluated(..)));
            let memory = match needs_memory {
                true => new_context(pg_sys::CurrentMemoryContext, c"pg_skip keys"),
                false => std::ptr::null_mut(),
            };
            Self {
                plain: server::ExecInitQual(plain, planstate),
                lists,
                values: vec![
                    pg_sys::NullableDatum { value: pg_sys::Datum::null(), isnull: true };
                    keys.len()
                ],
                slot: binding.slot(),
                columns: binding.columns,
                memory,
                are_known: false,
                has_mutable_keys: of_plan.iter().any(|&key| {
                    !is_a(key, pg_sys::NodeTag::T_Const) && pg_sys::contain_mutable_functions(key)
                }),
                on_pages,
                raw: None,
                keys,
            }
        }
    }

    /// A test that rows must pass to satisfy the conditions.
    #[inline]
    pub(super) fn raw_test(&self) -> Option<&RawTest> {
        self.raw.as_ref()
    }

    /// Whether a key may have another value in the next execution although no parameter has changed.
    pub(super) fn has_mutable_keys(&self) -> bool {
        self.has_mutable_keys
    }

    /// Marks the keys as changed: they are evaluated again when they are needed.
    pub(super) fn forget(&mut self) {
        self.are_known = false;
    }

    /// Evaluates the keys, unless that was done since they changed. Varlenas are detoasted once for all rows. That also
    /// makes flat values of expanded ones (arrays of `||`, for instance), which a function may free that it gets them.
    ///
    /// # Safety
    /// `context` is the node's, in an execution.
    pub(super) unsafe fn evaluate_keys(&mut self, context: *mut pg_sys::ExprContext) {
        if self.are_known {
            return;
        }
        // SAFETY: new() made the states for the node that has this context, and a slot with these columns. Lists drop
        // the elements of the old keys before their memory is reset.
        unsafe {
            self.lists.iter_mut().for_each(Check::forget);
            let before = pg_sys::CurrentMemoryContext;
            if !self.memory.is_null() {
                pg_sys::MemoryContextReset(self.memory);
                pg_sys::MemoryContextSwitchTo(self.memory);
            }
            for (number, key) in self.keys.iter().enumerate() {
                let value = match *key {
                    KeySource::Constant(value) => value,
                    KeySource::Evaluated(state, is_varlena) => {
                        let value = server::evaluate(state, context).map(|value| match is_varlena {
                            true => pg_sys::Datum::from(pg_sys::pg_detoast_datum(value.cast_mut_ptr())),
                            false => value,
                        });
                        let isnull = value.is_none();
                        pg_sys::NullableDatum { value: value.unwrap_or(pg_sys::Datum::null()), isnull }
                    }
                };
                self.values[number] = value;
                if let Some(column) = self.columns[number] {
                    *(*self.slot).tts_values.add(column) = value.value;
                    *(*self.slot).tts_isnull.add(column) = value.isnull;
                }
            }
            self.make_raw_test();
            pg_sys::MemoryContextSwitchTo(before);
            if !self.slot.is_null() {
                (*context).ecxt_outertuple = self.slot;
            }
        }
        self.are_known = true;
    }

    /// Makes the test of rows on their pages, unless its key is a constant for which it was made before.
    ///
    /// # Safety
    /// The keys have their values, and the memory of the values is the current context if an array is among them.
    unsafe fn make_raw_test(&mut self) {
        let Some(OnPages { place, key, is_list }) = &self.on_pages else { return };
        if self.raw.is_some() && matches!(self.keys.get(*key), Some(KeySource::Constant(_))) {
            return;
        }
        // SAFETY: the key is of the type on the other side of the operator, and was detoasted.
        let test = |value| unsafe { if *is_list { place.equals_any(value) } else { place.equals(value) } };
        self.raw = self.value(*key).map(test);
    }

    /// The value of a key, None if it is NULL.
    pub(super) fn value(&self, key: usize) -> Option<pg_sys::Datum> {
        self.values.get(key).filter(|value| !value.isnull).map(|value| value.value)
    }

    /// Whether the row in the context satisfies all conditions.
    ///
    /// # Safety
    /// `context` is the node's, and keys are evaluated. This resets the row's memory first, as ExecScan does between
    /// its rows.
    #[inline]
    pub(super) unsafe fn hold(&mut self, context: *mut pg_sys::ExprContext) -> bool {
        // SAFETY: next_row() and recheck() pass the node's context with a row in it, after evaluate_keys(). The
        // previous row is not needed any more, so its memory can be reset.
        unsafe {
            let memory = (*context).ecxt_per_tuple_memory;
            if !(*memory).isReset {
                pg_sys::MemoryContextReset(memory);
            }
            let before = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = memory;
            let mut result = is_true(self.plain, context);
            if result && !self.lists.is_empty() {
                let values = KeyValues { values: self.values.as_ptr(), slot: self.slot, memory: self.memory };
                result = self.lists.iter_mut().all(|list| list.holds(context, &values));
            }
            pg_sys::CurrentMemoryContext = before;
            result
        }
    }
}

/// The condition that is checked on rows as they are on their pages: a single key rather than a list, which lets more
/// rows pass; and a column with the same offset in every row rather than one that is walked to.
///
/// # Safety
/// As [`Served::new`].
unsafe fn on_pages(
    conditions: &[*mut pg_sys::Node],
    keys: &[*mut pg_sys::Node],
    scan: *mut pg_sys::ScanState,
) -> Option<OnPages> {
    // SAFETY: as the caller promises.
    let all = conditions.iter().filter_map(|&condition| unsafe { on_pages_of(condition, keys, scan) });
    all.min_by_key(|condition| (condition.is_list, !condition.place.is_fixed()))
}

/// The same for one condition; None if it does not compare bytes.
///
/// # Safety
/// As [`Served::new`].
unsafe fn on_pages_of(
    condition: *mut pg_sys::Node,
    keys: &[*mut pg_sys::Node],
    scan: *mut pg_sys::ScanState,
) -> Option<OnPages> {
    // SAFETY: a node's tag tells its type; operators with a number of arguments other than two are left out.
    unsafe {
        let (args, function, collation, is_list) = match (*condition).type_ {
            pg_sys::NodeTag::T_OpExpr => {
                let operator = &*condition.cast::<pg_sys::OpExpr>();
                (operator.args, operator.opfuncid, operator.inputcollid, false)
            }
            pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                let operator = &*condition.cast::<pg_sys::ScalarArrayOpExpr>();
                if !operator.useOr {
                    return None;
                }
                (operator.args, operator.opfuncid, operator.inputcollid, true)
            }
            _ => return None,
        };
        let args: Vec<*mut pg_sys::Node> = list(args).collect();
        let &[left, right] = args.as_slice() else { return None };
        // A relabelled value has the same bytes.
        let plain = |mut node: *mut pg_sys::Node| {
            while is_a(node, pg_sys::NodeTag::T_RelabelType) {
                node = (*node.cast::<pg_sys::RelabelType>()).arg.cast();
            }
            node
        };
        // An array is always on the right side. A column there has arrays, of which one element is the key.
        let column_is_left = is_list || is_a(plain(left), pg_sys::NodeTag::T_Var);
        let (column, key) = if column_is_left { (plain(left), right) } else { (plain(right), left) };
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
        let operator = Operator { function, collation, column_is_left };
        Some(OnPages { place: ColumnPlace::of(table, (*column).varattno, operator)?, key, is_list })
    }
}
