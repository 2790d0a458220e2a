//! The slow way to form index columns of heap tuples, by the executor's functions: for expressions, predicates, and
//! values that are not in the tuple.

use super::{
    Rel,
    alloc::new_context,
    datum::{Repr, Value},
    fail,
    heap::Tuple,
    server,
};
use pgrx::{PgSqlErrorCode, pg_sys};

/// The most columns of an index.
const MAX_KEYS: usize = pg_sys::INDEX_MAX_KEYS as usize;

/// Forms index rows from heap tuples, as the executor does.
pub struct Evaluator<'a> {
    heap: Rel<'a>,
    index: Rel<'a>,
    expressions: Expressions,
    slot: *mut pg_sys::TupleTableSlot,
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
    /// The values and null flags that PostgreSQL passed to aminsert.
    ///
    /// # Safety
    /// Both point to one element for each key column of the index, formed for these columns; they live for `'a`.
    pub(super) unsafe fn from_raw(index: Rel<'a>, values: *const pg_sys::Datum, nulls: *const bool) -> Self {
        let count = index.key_columns();
        // SAFETY: `count` elements each, which nothing changes until aminsert returns.
        unsafe {
            Self {
                index,
                values: std::slice::from_raw_parts(values, count),
                nulls: std::slice::from_raw_parts(nulls, count),
            }
        }
    }

    /// The value of column `column` (0-based); None for NULL. Raises an error if the representation of the column's
    /// values differs from `repr`.
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
        let (values, nulls) = ([pg_sys::Datum::null(); MAX_KEYS], [true; MAX_KEYS]);
        Self { heap, index, expressions: Expressions::new(index), slot, values, nulls }
    }

    /// Starts again after an ERROR that interrupted the evaluation of expressions and was rolled back. Functions are
    /// not told that their expressions end, because the rollback has already released what they would release.
    pub fn restart_after_error(&mut self) {
        use super::list::list;
        // SAFETY: the executor state's expression contexts, each freed once. Nothing uses them any more.
        unsafe {
            while let Some(context) =
                list::<pg_sys::ExprContext>((*self.expressions.estate).es_exprcontexts).next()
            {
                pg_sys::FreeExprContext(context, false);
            }
        }
        self.expressions = Expressions::new(self.index);
    }

    /// The table columns (1-based) of the index; None if it has an expression or a predicate, so that rows must be
    /// formed by [`Evaluator::form`].
    pub fn plain_columns(&self) -> Option<Vec<usize>> {
        // SAFETY: info was made in new().
        let info = unsafe { &*self.expressions.info };
        let count = usize::try_from(info.ii_NumIndexKeyAttrs).unwrap_or(0).min(MAX_KEYS);
        let columns = info.ii_IndexAttrNumbers[..count].iter();
        let plain: Option<Vec<usize>> =
            columns.map(|&c| usize::try_from(c).ok().filter(|&c| c > 0)).collect();
        if info.ii_Predicate.is_null() { plain } else { None }
    }

    /// The index row of a tuple; None if it does not satisfy the predicate of a partial index.
    pub fn form<'r>(&'r mut self, tuple: &Tuple<'r>, block: u32) -> Option<IndexRow<'r>> {
        // SAFETY: the tuple is complete and aligned as on its page. The slot points to its bytes, which the result
        // borrows; after that the slot is only cleared.
        unsafe {
            let mut heap_tuple = pg_sys::HeapTupleData {
                t_len: tuple.bytes.len() as u32,
                t_tableOid: self.heap.oid(),
                t_data: tuple.bytes.as_ptr().cast_mut().cast(),
                ..Default::default()
            };
            pgrx::itemptr::item_pointer_set_all(&mut heap_tuple.t_self, block, tuple.offset);
            let Expressions { info, estate, predicate, .. } = self.expressions;
            let mut context = (*estate).es_per_tuple_exprcontext;
            if context.is_null() {
                context = pg_sys::MakePerTupleExprContext(estate);
            }
            pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
            (*context).ecxt_scantuple = self.slot;
            pg_sys::ExecStoreHeapTuple(&mut heap_tuple, self.slot, false);
            let wanted = server::satisfies(predicate, context);
            if wanted {
                let (values, nulls) = (self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
                server::FormIndexDatum(info, self.slot, estate, values, nulls);
            }
            wanted.then_some(IndexRow { index: self.index, values: &self.values, nulls: &self.nulls })
        }
    }
}

/// The structures for evaluating the expressions and the predicate of an index, in a memory context of their own: an
/// IndexInfo has copies of both.
struct Expressions {
    context: pg_sys::MemoryContext,
    info: *mut pg_sys::IndexInfo,
    estate: *mut pg_sys::EState,
    predicate: *mut pg_sys::ExprState,
}

impl Expressions {
    /// Makes them, in a child of the current memory context.
    fn new(index: Rel) -> Self {
        // SAFETY: index is an open index relation.
        unsafe {
            let context = new_context(pg_sys::CurrentMemoryContext, c"pg_skip index expressions");
            let before = pg_sys::MemoryContextSwitchTo(context);
            let info = server::BuildIndexInfo(index.raw());
            let estate = pg_sys::CreateExecutorState();
            let predicate = server::ExecPrepareQual((*info).ii_Predicate, estate);
            pg_sys::MemoryContextSwitchTo(before);
            Self { context, info, estate, predicate }
        }
    }
}

impl Drop for Expressions {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: made in new(), released once. The executor state and all else is in the context, which is a child
            // of one that still exists: without an error nothing has reset it.
            unsafe {
                pg_sys::FreeExecutorState(self.estate);
                pg_sys::MemoryContextDelete(self.context);
            }
        }
    }
}

impl Drop for Evaluator<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: made in new(), released once.
            unsafe { pg_sys::ExecDropSingleTupleTableSlot(self.slot) }
        }
    }
}
