//! A test of a row as it lies on its page, before it becomes a row of the executor.
//!
//! Of the rows of a range that is read for one key, hardly any has the key. Where values are equal exactly if their
//! bytes are, and the column lies at the same place in every row, it takes a few instructions to see that a row has
//! another value. A row that passes, or that looks otherwise than expected, is checked by the server.

use crate::pg::datum;
use crate::pg::heap::{HEAP_HASNULL, HEAP_NATTS_MASK, T_HOFF, T_INFOMASK, T_INFOMASK2};
use crate::pg::{Rel, cache};
use pgrx::pg_sys;

/// Functions of `=` operators that compare bytes, and how many.
const FUNCTIONS: [(u32, usize); 9] = [
    (pg_sys::F_INT2EQ, 2),
    (pg_sys::F_INT4EQ, 4),
    (pg_sys::F_INT8EQ, 8),
    (pg_sys::F_OIDEQ, 4),
    (pg_sys::F_DATE_EQ, 4),
    (pg_sys::F_TIME_EQ, 8),
    (pg_sys::F_TIMESTAMP_EQ, 8),
    (pg_sys::F_TIMESTAMPTZ_EQ, 8),
    (pg_sys::F_UUID_EQ, 16),
];

/// Bytes of the header of a row without NULLs: SizeofHeapTupleHeader, aligned.
const USUAL_HEADER: usize = 24;

/// Where a column lies in a row, and how long it is.
#[derive(Clone, Copy)]
pub struct ColumnPlace {
    /// Number of the column, from 1.
    number: u16,
    /// Behind the row's header.
    at: usize,
    len: usize,
}

impl ColumnPlace {
    /// The place of column `number` (from 1) of a table, if it has one and `function` compares its bytes.
    pub fn of(table: Rel, number: i16, function: pg_sys::Oid) -> Option<Self> {
        let (_, len) = FUNCTIONS.into_iter().find(|&(known, _)| known == function.to_u32())?;
        let number = u16::try_from(number).ok().filter(|&number| number > 0)?;
        let columns = datum::column_layouts(table, number.into());
        let mut at = 0usize;
        let (last, before) = columns.split_last()?;
        for column in before {
            at = at.next_multiple_of(column.align) + usize::try_from(column.len).ok()?;
        }
        let is_whole = columns.len() == usize::from(number) && usize::try_from(last.len) == Ok(len);
        is_whole.then(|| Self { number, at: at.next_multiple_of(last.align), len })
    }

    /// The test for a value of the column.
    ///
    /// # Safety
    /// `value` is a value of the column's type, not NULL.
    pub unsafe fn equals(self, value: pg_sys::Datum) -> RawTest {
        let mut bytes = [0; 16];
        if self.len == 16 {
            // SAFETY: a uuid, behind a pointer.
            bytes = unsafe { value.cast_mut_ptr::<[u8; 16]>().read_unaligned() };
        } else {
            bytes[..self.len].copy_from_slice(&value.value().to_le_bytes()[..self.len]);
        }
        RawTest { place: self, value: u128::from_le_bytes(bytes) }
    }
}

/// A column's value, to be compared with rows.
#[derive(Clone, Copy)]
pub struct RawTest {
    place: ColumnPlace,
    value: u128,
}

impl RawTest {
    /// Asks memory for what the test reads of a row.
    #[inline]
    pub fn prefetch(&self, row: *const u8) {
        cache::prefetch_line(row.wrapping_add(T_INFOMASK2));
        // Most rows have a header without a bitmap of NULLs; of another row, this asks for the wrong line.
        cache::prefetch_line(row.wrapping_add(USUAL_HEADER + self.place.at));
    }

    /// Whether a row may have the value: false only if it certainly has another.
    ///
    /// # Safety
    /// `row` is a whole tuple of the table, `len` bytes long.
    #[inline]
    pub unsafe fn may_hold(&self, row: *const u8, len: usize) -> bool {
        let ColumnPlace { number, at, len: bytes } = self.place;
        // SAFETY: Pages::row() gives a row of a pinned page and its length. A header has more than these bytes, and the
        // value is checked to lie inside.
        unsafe {
            let word = |at: usize| row.add(at).cast::<u16>().read_unaligned();
            let start = usize::from(*row.add(T_HOFF)) + at;
            let is_odd = word(T_INFOMASK) & HEAP_HASNULL != 0
                || word(T_INFOMASK2) & HEAP_NATTS_MASK < number
                || start + bytes > len;
            if is_odd {
                return true;
            }
            let value = row.add(start);
            self.value
                == match bytes {
                    2 => value.cast::<u16>().read_unaligned().into(),
                    4 => value.cast::<u32>().read_unaligned().into(),
                    8 => value.cast::<u64>().read_unaligned().into(),
                    _ => u128::from_le_bytes(value.cast::<[u8; 16]>().read_unaligned()),
                }
        }
    }
}
