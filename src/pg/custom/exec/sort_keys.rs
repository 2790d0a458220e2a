//! Rows that a scan in order keeps until their turn comes, and the order of their values.

use super::super::ordering::{OrderedColumn, SortColumn};
use crate::pg::alloc::new_context;
use crate::pg::datum::{Repr, Value};
use crate::pg::{Rel, compat, fail, server};
use pgrx::{PgSqlErrorCode, pg_sys};
use skip_bounds::ordered::{Rank, SortOrder};

/// A row that was read and not returned yet.
#[derive(Clone, Copy)]
pub(super) struct KeptRow {
    pub(super) rank: Rank,
    /// The value of the column, of no meaning for NULL.
    pub(super) value: pg_sys::Datum,
    /// Block, and number on its page.
    pub(super) place: (u32, u16),
}

/// The order of values.
#[derive(Clone, Copy)]
pub(super) struct SortKeys {
    pub(super) sort: SortColumn,
    pub(super) order: SortOrder,
    compare: *mut pg_sys::FmgrInfo,
    repr: Repr,
    /// The type of the column, and the length of its values (typlen).
    pub(super) kind: pg_sys::Oid,
    pub(super) len: i16,
    pub(super) is_by_value: bool,
    /// Memory of the scan.
    pub(super) memory: pg_sys::MemoryContext,
}

impl SortKeys {
    /// Prepares the comparison of values of a table's column, in a memory context below the current one.
    ///
    /// # Safety
    /// `sort` is the order of a plan for the table. The current memory context is the query's.
    pub(super) unsafe fn new(table: Rel, sort: SortColumn, is_exact: bool) -> Self {
        // SAFETY: the table is open, and has the column. The function is that of an operator class.
        unsafe {
            let place = usize::try_from(sort.attribute - 1).unwrap_or(0);
            let column = compat::attribute((*table.raw()).rd_att, place);
            let (kind, len, is_by_value) = ((*column).atttypid, (*column).attlen, (*column).attbyval);
            let memory = new_context(pg_sys::CurrentMemoryContext, c"pg_skip order");
            let compare = pg_sys::MemoryContextAllocZero(memory, size_of::<pg_sys::FmgrInfo>());
            let compare = compare.cast::<pg_sys::FmgrInfo>();
            pg_sys::fmgr_info_cxt(sort.compare, compare, memory);
            Self {
                sort,
                order: sort.order(is_exact),
                compare,
                repr: Repr::of_type(pg_sys::getBaseType(kind)),
                kind,
                len,
                is_by_value,
                memory,
            }
        }
    }

    /// Whether one row comes before another one. False for two that are equal.
    ///
    /// # Safety
    /// Both have values of the column. The current memory context is a short-lived one.
    #[inline]
    pub(super) unsafe fn is_before(&self, one: &KeptRow, other: &KeptRow) -> bool {
        if one.rank != other.rank || self.order.is_exact || !one.rank.is_of_values() {
            return one.rank < other.rank;
        }
        // SAFETY: the comparison of the operator class takes two values of the column, and gives an integer.
        let compared = unsafe {
            server::FunctionCall2Coll(self.compare, self.sort.collation, one.value, other.value).value()
                as i32
        };
        if self.sort.descends { compared > 0 } else { compared < 0 }
    }

    /// The rank of a value, None for NULL.
    ///
    /// # Safety
    /// A value of the column. The current memory context is a short-lived one.
    pub(super) unsafe fn rank(&self, column: &OrderedColumn, value: Option<pg_sys::Datum>) -> Rank {
        let Some(value) = value else { return self.order.rank(None) };
        // SAFETY: as the caller promises.
        let Some(key) = (column.key)(unsafe { Value::new(value, self.repr) }) else {
            let code = PgSqlErrorCode::ERRCODE_DATA_CORRUPTED;
            let hint = "Find it with amcheck: SELECT * FROM verify_heapam('table').";
            fail(code, "a value of the column to sort by is damaged".into(), None, Some(hint.into()))
        };
        self.order.rank(Some(key))
    }

    /// Bytes of memory that a value behind a pointer takes. The server rounds small pieces of memory up to powers of
    /// two, and puts a header of up to 16 bytes before each.
    ///
    /// # Safety
    /// A value of the column.
    pub(super) unsafe fn size(&self, value: pg_sys::Datum) -> usize {
        const HEADER: usize = 16;
        // SAFETY: the header of a varlena tells its length.
        let bytes =
            usize::try_from(self.len).unwrap_or_else(|_| unsafe { pgrx::varsize_any(value.cast_mut_ptr()) });
        let is_small = bytes <= pg_sys::ALLOCSET_SEPARATE_THRESHOLD as usize;
        HEADER + if is_small { bytes.next_power_of_two() } else { bytes }
    }
}

/// The value of a column of the row in a slot; None for NULL.
///
/// # Safety
/// The slot has a row with this column, which counts from 1.
#[inline]
pub(super) unsafe fn attribute(slot: *mut pg_sys::TupleTableSlot, number: i16) -> Option<pg_sys::Datum> {
    // SAFETY: this is slot_getattr, an inline function of tuptable.h.
    unsafe {
        if (*slot).tts_nvalid < number {
            pg_sys::slot_getsomeattrs_int(slot, number.into());
        }
        let place = usize::try_from(number - 1).unwrap_or(0);
        (!*(*slot).tts_isnull.add(place)).then(|| *(*slot).tts_values.add(place))
    }
}
