//! A test of a row in the form in which it is on its page, before it becomes a row of the executor.
//!
//! Hardly any row of a range that is read for one key has the key. If values are equal exactly if their bytes are, and
//! the column has the same offset in every row, a few instructions show that a row has another value. The server checks
//! the rows that pass, and the rows that have an unexpected layout.

use crate::pg::datum;
use crate::pg::heap::{HEAP_HASNULL, HEAP_NATTS_MASK, HeapPage, T_HOFF, T_INFOMASK, T_INFOMASK2};
use crate::pg::{Rel, cache, heap};
use pgrx::pg_sys;

/// The functions of `=` operators that compare bytes, and the number of bytes.
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

/// Bytes of the header of a row without NULLs: SizeofHeapTupleHeader (23), aligned to 8.
const USUAL_HEADER: usize = 24;

/// The offset and length of a column in a row.
#[derive(Clone, Copy)]
pub struct ColumnPlace {
    /// Number of the column, from 1.
    number: u16,
    /// Offset from the end of the row's header.
    at: usize,
    len: usize,
}

impl ColumnPlace {
    /// The place of column `number` (from 1) of a table, if it has a fixed offset and `function` compares its bytes.
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
            // SAFETY: a uuid is passed by reference.
            bytes = unsafe { value.cast_mut_ptr::<[u8; 16]>().read_unaligned() };
        } else {
            bytes[..self.len].copy_from_slice(&value.value().to_le_bytes()[..self.len]);
        }
        RawTest { place: self, value: u128::from_le_bytes(bytes) }
    }
}

/// Rows that are prefetched into the processor's cache ahead of the row that is tested. Each row of a page is on its
/// own cache lines, and waiting for them was a sixth of a lookup's time; a processor can have some ten loads in flight.
pub const ROWS_AHEAD: usize = 12;

/// A column's value, to be compared with rows.
#[derive(Clone, Copy)]
pub struct RawTest {
    place: ColumnPlace,
    value: u128,
}

impl RawTest {
    /// Prefetches the bytes of a row that the test reads into the processor's cache.
    #[inline]
    pub fn prefetch(&self, row: *const u8) {
        cache::prefetch_line(row.wrapping_add(T_INFOMASK2));
        // Most rows have a header without a null bitmap; for the others, this prefetches the wrong cache line.
        cache::prefetch_line(row.wrapping_add(USUAL_HEADER + self.place.at));
    }

    /// None if some tuple of a page, visible or not, may have the value; else the number of its tuples that look live by
    /// their hint bits.
    ///
    /// # Safety
    /// A page of the table, under a share lock at least.
    pub unsafe fn rules_out(&self, page: HeapPage) -> Option<u64> {
        let (mut rows, mut ahead) = (0, page.items());
        ahead.by_ref().take(ROWS_AHEAD).for_each(|(row, _)| self.prefetch(row));
        for (row, len) in page.items() {
            if let Some((row, _)) = ahead.next() {
                self.prefetch(row);
            }
            // SAFETY: the item is within the page, and not shorter than a tuple's header.
            unsafe {
                if self.may_hold(row, len) {
                    return None;
                }
                rows += u64::from(heap::looks_live(row.add(T_INFOMASK).cast::<u16>().read_unaligned()));
            }
        }
        Some(rows)
    }

    /// Whether a row may have the value: false only if it certainly has a different one.
    ///
    /// # Safety
    /// `row` is a whole tuple of the table, `len` bytes long.
    #[inline]
    pub unsafe fn may_hold(&self, row: *const u8, len: usize) -> bool {
        let ColumnPlace { number, at, len: bytes } = self.place;
        // SAFETY: Pages::row() returns a row of a pinned page and its length. A header is longer than the bytes read
        // here, and the value is checked to be within the row.
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
