//! Index columns of heap tuples the slow way: expressions, predicates, values that are not in the tuple.

use super::{
    Rel,
    datum::{Repr, Value},
    fail,
    heap::Tuple,
    server,
};
use pgrx::{PgSqlErrorCode, pg_sys};

/// The most columns an index has.
const MAX_KEYS: usize = pg_sys::INDEX_MAX_KEYS as usize;

/// Forms index rows from heap tuples as the executor would.
pub struct Evaluator<'a> {
    heap: Rel<'a>,
    index: Rel<'a>,
    info: *mut pg_sys::IndexInfo,
    estate: *mut pg_sys::EState,
    slot: *mut pg_sys::TupleTableSlot,
    predicate: *mut pg_sys::ExprState,
    values: [pg_sys::Datum; MAX_KEYS],
    nulls: [bool; MAX_KEYS],
}

/// A row of an index. By-reference values live until the next row is formed.
#[derive(Clone, Copy)]
pub struct IndexRow<'a> {
    index: Rel<'a>,
    values: &'a [pg_sys::Datum],
    nulls: &'a [bool],
}

impl<'a> IndexRow<'a> {
    /// What PostgreSQL handed to aminsert.
    ///
    /// # Safety
    /// Both point to as many elements as the index has key columns, formed for these, which live for `'a`.
    pub(super) unsafe fn from_raw(index: Rel<'a>, values: *const pg_sys::Datum, nulls: *const bool) -> Self {
        let count = index.key_columns();
        // SAFETY: `count` elements each, which nobody changes while the server waits for aminsert to come back.
        unsafe {
            Self {
                index,
                values: std::slice::from_raw_parts(values, count),
                nulls: std::slice::from_raw_parts(nulls, count),
            }
        }
    }

    /// The value of column `column` (0-based); None for NULL. Raises an error if the column's values lie otherwise than
    /// `repr` says.
    pub fn value(&self, column: usize, repr: Repr) -> Option<Value<'a>> {
        let (value, is_null) = (self.values.get(column)?, self.nulls.get(column)?);
        if *is_null {
            return None;
        }
        if !self.index.stores_as(column, repr) {
            other_repr(self.index, column);
        }
        // SAFETY: FormIndexDatum made the value for this column, whose representation was just compared.
        Some(unsafe { Value::new(*value, repr) })
    }
}

fn other_repr(index: Rel<'_>, column: usize) -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
        format!(
            "column \"{}\" of index \"{}\" has an unexpected type",
            index.column_name(column),
            index.name()
        ),
        None,
        None,
    )
}

impl<'a> Evaluator<'a> {
    /// An evaluator for an index of `heap`.
    pub fn new(heap: Rel<'a>, index: Rel<'a>) -> Self {
        // SAFETY: the slot lives in the current memory context; released in Drop, or with the context.
        let slot = unsafe {
            pg_sys::MakeSingleTupleTableSlot((*heap.raw()).rd_att, &raw const pg_sys::TTSOpsHeapTuple)
        };
        let (info, estate, predicate) = prepare(index);
        let (values, nulls) = ([pg_sys::Datum::null(); MAX_KEYS], [true; MAX_KEYS]);
        Self { heap, index, info, estate, slot, predicate, values, nulls }
    }

    /// Starts anew after an ERROR, which was rolled back since, has left expressions in the middle of their work: no
    /// function is told that its expression ends, as the rollback has taken from it what it would give back.
    pub fn restart_after_error(&mut self) {
        use super::list::list;
        // SAFETY: the executor state and its expression contexts, each freed once; nothing else refers to them, but the
        // IndexInfo and the predicate, which are made again. The slot is not theirs.
        unsafe {
            while let Some(context) = list::<pg_sys::ExprContext>((*self.estate).es_exprcontexts).next() {
                pg_sys::FreeExprContext(context, false);
            }
            pg_sys::FreeExecutorState(self.estate);
        }
        (self.info, self.estate, self.predicate) = prepare(self.index);
    }

    /// The table columns (1-based) that the index has; None when it has an expression or a predicate, so that rows
    /// must be formed by [`Evaluator::form`].
    pub fn plain_columns(&self) -> Option<Vec<usize>> {
        // SAFETY: info was made in new().
        let info = unsafe { &*self.info };
        let count = usize::try_from(info.ii_NumIndexKeyAttrs).unwrap_or(0).min(MAX_KEYS);
        let columns = info.ii_IndexAttrNumbers[..count].iter();
        let plain: Option<Vec<usize>> =
            columns.map(|&c| usize::try_from(c).ok().filter(|&c| c > 0)).collect();
        if info.ii_Predicate.is_null() { plain } else { None }
    }

    /// The index row of a tuple; None when a partial index does not want the tuple.
    pub fn form<'r>(&'r mut self, tuple: &Tuple<'r>, block: u32) -> Option<IndexRow<'r>> {
        // SAFETY: the tuple is whole and aligned as on its page. The slot points to its bytes, which the result
        // borrows; after that the slot is only told to forget them.
        unsafe {
            let mut heap_tuple = pg_sys::HeapTupleData {
                t_len: tuple.bytes.len() as u32,
                t_tableOid: self.heap.oid(),
                t_data: tuple.bytes.as_ptr().cast_mut().cast(),
                ..Default::default()
            };
            pgrx::itemptr::item_pointer_set_all(&mut heap_tuple.t_self, block, tuple.offset);
            let mut context = (*self.estate).es_per_tuple_exprcontext;
            if context.is_null() {
                context = pg_sys::MakePerTupleExprContext(self.estate);
            }
            pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
            (*context).ecxt_scantuple = self.slot;
            pg_sys::ExecStoreHeapTuple(&mut heap_tuple, self.slot, false);
            let wanted = server::satisfies(self.predicate, context);
            if wanted {
                let (values, nulls) = (self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
                server::FormIndexDatum(self.info, self.slot, self.estate, values, nulls);
            }
            wanted.then_some(IndexRow { index: self.index, values: &self.values, nulls: &self.nulls })
        }
    }
}

/// What evaluating the expressions and the predicate of an index needs, in the current memory context.
fn prepare(index: Rel) -> (*mut pg_sys::IndexInfo, *mut pg_sys::EState, *mut pg_sys::ExprState) {
    // SAFETY: index is an open index relation.
    unsafe {
        let info = server::BuildIndexInfo(index.raw());
        let estate = pg_sys::CreateExecutorState();
        (info, estate, server::ExecPrepareQual((*info).ii_Predicate, estate))
    }
}

impl Drop for Evaluator<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: made in new(), released once. Nobody else has the IndexInfo, whose prepared expressions go
            // with the executor state.
            unsafe {
                pg_sys::ExecDropSingleTupleTableSlot(self.slot);
                pg_sys::FreeExecutorState(self.estate);
            }
        }
    }
}
