//! Checks of conditions with lists of keys on a row.
//!
//! The server checks `column = ANY (array)` with a hash table, but only if the array is a constant. For other arrays
//! this file makes a hash table. The hashes of rows and elements come from the operator's own hash functions, as in a
//! hash join. The operator itself compares a row with the few elements that have the row's hash.

use crate::pg::datum::ArrayElements;
use crate::pg::memory;
use pgrx::pg_sys;
use skip_scan::members::ElementHashes;

/// Least number of elements for which a hash table is made: the server's MIN_ARRAY_SIZE_FOR_HASHED_SAOP.
const LEAST_HASHED: usize = 9;

/// A condition that contains a list of keys.
pub(super) enum Check {
    All(Vec<Check>),
    Any(Vec<Check>),
    Server(*mut pg_sys::ExprState),
    List(List),
}

/// `left operator ANY (list)`.
pub(super) struct List {
    /// Number of the key that is the list.
    pub(super) key: usize,
    pub(super) left: *mut pg_sys::ExprState,
    pub(super) left_hash: Hash,
    pub(super) element_hash: Hash,
    /// The comparison of the left side with one element, which is in this column of the slot.
    pub(super) equals: *mut pg_sys::ExprState,
    pub(super) column: usize,
    /// The whole condition, in the form that the server checks.
    pub(super) whole: *mut pg_sys::ExprState,
    pub(super) elements: Elements,
}

/// The elements of a list in this execution.
pub(super) enum Elements {
    Unknown,
    /// Too few for a hash table; the server checks the condition.
    Few,
    /// The hashes of the elements, and the elements.
    Hashed(ElementHashes, *const pg_sys::Datum),
}

/// A hash function, prepared for calls.
pub(super) struct Hash(pg_sys::FunctionCallInfo);

impl Hash {
    /// # Safety
    /// `function` is a hash function; the current memory context lives as long as the node.
    pub(super) unsafe fn new(function: pg_sys::Oid, collation: pg_sys::Oid) -> Self {
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

    /// Calls the function without a guard, once a row. No value with a destructor may be alive in the callers.
    ///
    /// # Safety
    /// `value` is of the function's argument type, and not NULL.
    #[inline]
    unsafe fn of(&self, value: pg_sys::Datum) -> u32 {
        // SAFETY: new() made room for the argument. The value is not NULL, and of the type of that side of the operator
        // for which get_op_hash_functions returned the function.
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
    pub(super) unsafe fn holds(&mut self, context: *mut pg_sys::ExprContext, served: &KeyValues) -> bool {
        // SAFETY: Served has a value for each key, and its slot a column for each list. The states were made for the
        // node that has this context.
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
    /// `list` is an array of the type for which the node was made; `memory` is reset when the list changes.
    unsafe fn hashed(&self, list: pg_sys::Datum, memory: pg_sys::MemoryContext) -> Elements {
        // SAFETY: holds() has checked that the list is not NULL; it is the array that the operator takes. The copy and
        // the elements stay in `memory` until the keys change, and Elements is dropped before that. While hash
        // functions run, no value here has a destructor.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(memory);
            let copy = pg_sys::pg_detoast_datum_copy(list.cast_mut_ptr());
            let ArrayElements { values, nulls, count, .. } = ArrayElements::of(copy);
            if count < LEAST_HASHED {
                pg_sys::MemoryContextSwitchTo(before);
                return Elements::Few;
            }
            let hashes = pg_sys::palloc(count * size_of::<u32>()).cast::<u32>();
            let mut present = 0;
            for i in 0..count {
                memory::check_for_interrupts();
                // Nothing equals NULL.
                if !*nulls.add(i) {
                    *values.add(present) = *values.add(i);
                    *hashes.add(present) = self.element_hash.of(*values.add(i));
                    present += 1;
                }
            }
            pg_sys::MemoryContextSwitchTo(before);
            Elements::Hashed(ElementHashes::new(std::slice::from_raw_parts(hashes, present)), values)
        }
    }
}

/// The values of keys for checks.
pub(super) struct KeyValues {
    pub(super) values: *const pg_sys::NullableDatum,
    pub(super) slot: *mut pg_sys::TupleTableSlot,
    pub(super) memory: pg_sys::MemoryContext,
}

impl Check {
    /// # Safety
    /// `context` is the node's, with a row in it and keys evaluated; the row's memory is the current memory context.
    pub(super) unsafe fn holds(&mut self, context: *mut pg_sys::ExprContext, served: &KeyValues) -> bool {
        // SAFETY: Served::hold() has made the row's memory the current one, and its callers have put a row into the
        // node's context and evaluated the keys.
        unsafe {
            match self {
                Check::All(parts) => parts.iter_mut().all(|part| part.holds(context, served)),
                Check::Any(parts) => parts.iter_mut().any(|part| part.holds(context, served)),
                Check::Server(state) => is_true(*state, context),
                Check::List(list) => list.holds(context, served),
            }
        }
    }

    /// Drops the elements, because the keys have changed.
    pub(super) fn forget(&mut self) {
        match self {
            Check::All(parts) | Check::Any(parts) => parts.iter_mut().for_each(Check::forget),
            Check::Server(_) => {}
            Check::List(list) => list.elements = Elements::Unknown,
        }
    }
}

/// Evaluates a condition, as ExecQual does but without a guard, because it runs once a row. An error in it jumps to the
/// server's handler; the frames between there and here have no values with destructors.
///
/// # Safety
/// `state` was made by ExecInitQual, with this context; the row's memory is the current memory context.
#[inline]
pub(super) unsafe fn is_true(state: *mut pg_sys::ExprState, context: *mut pg_sys::ExprContext) -> bool {
    // SAFETY: ExecInitQual made the state for the node that has this context; NULL is an empty list.
    unsafe {
        let Some(evaluate) = state.as_ref().and_then(|state| state.evalfunc) else { return true };
        let mut is_null = false;
        evaluate(state, context, &mut is_null).value() != 0
    }
}
