//! A test of a row in the form in which it is on its page, before it becomes a row of the executor.
//!
//! Hardly any row of a range that is read for one key, or for a list of keys, has such a key. If values are equal
//! exactly if their bytes are, a few instructions show that a row has another value. For a list they look into a bitmap
//! of hashes. The server checks the rows that pass, and the rows in which the column is not found
//! ([`super::column_offset`]).

use super::column_offset::{ColumnOffset, StartInRow};
use crate::pg::datum::{self, ArrayElements, Repr, Value};
use crate::pg::heap::{HeapPage, T_INFOMASK, T_INFOMASK2};
use crate::pg::{Rel, cache, heap};
use pgrx::pg_sys;
use skip_filter::hash_bytes;
use skip_scan::known_pages::short_hash;
use skip_scan::members::HashBits;

/// The functions of `=` operators that compare integers, or what is stored as one; and the bytes of both sides.
const INTEGERS: [(u32, usize, usize); 16] = [
    (pg_sys::F_INT2EQ, 2, 2),
    (pg_sys::F_INT24EQ, 2, 4),
    (pg_sys::F_INT28EQ, 2, 8),
    (pg_sys::F_INT42EQ, 4, 2),
    (pg_sys::F_INT4EQ, 4, 4),
    (pg_sys::F_INT48EQ, 4, 8),
    (pg_sys::F_INT82EQ, 8, 2),
    (pg_sys::F_INT84EQ, 8, 4),
    (pg_sys::F_INT8EQ, 8, 8),
    (pg_sys::F_OIDEQ, 4, 4),
    (pg_sys::F_XID8EQ, 8, 8),
    (pg_sys::F_PG_LSN_EQ, 8, 8),
    (pg_sys::F_DATE_EQ, 4, 4),
    (pg_sys::F_TIME_EQ, 8, 8),
    (pg_sys::F_TIMESTAMP_EQ, 8, 8),
    (pg_sys::F_TIMESTAMPTZ_EQ, 8, 8),
];

/// Bytes of the header of a row without NULLs: SizeofHeapTupleHeader (23), aligned to 8.
const USUAL_HEADER: usize = 24;

/// How a column's values are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RawComparison {
    /// An integer of so many bytes with one of so many.
    Integer {
        column: usize,
        key: usize,
    },
    Uuid,
    /// Values of variable length, byte by byte.
    Varlena,
}

impl RawComparison {
    /// That of an operator's function; None if other values than those with equal bytes may be equal.
    fn of(function: pg_sys::Oid, collation: pg_sys::Oid, column_is_left: bool) -> Option<Self> {
        match function.to_u32() {
            pg_sys::F_UUID_EQ => Some(Self::Uuid),
            pg_sys::F_BYTEAEQ => Some(Self::Varlena),
            pg_sys::F_TEXTEQ => datum::is_deterministic(collation).then_some(Self::Varlena),
            other => {
                let (_, left, right) = INTEGERS.into_iter().find(|&(known, ..)| known == other)?;
                let (column, key) = if column_is_left { (left, right) } else { (right, left) };
                Some(Self::Integer { column, key })
            }
        }
    }

    /// pg_attribute.attlen of such columns.
    fn len(self) -> i16 {
        match self {
            Self::Integer { column, .. } => column as i16,
            Self::Uuid => 16,
            Self::Varlena => -1,
        }
    }
}

/// The operator of a condition on a column.
#[derive(Clone, Copy)]
pub struct Operator {
    pub function: pg_sys::Oid,
    pub collation: pg_sys::Oid,
    /// Whether the column is on its left side.
    pub column_is_left: bool,
}

/// The place of a column in rows, and how its values are compared.
#[derive(Clone)]
pub struct ColumnPlace {
    offset: ColumnOffset,
    comparison: RawComparison,
}

impl ColumnPlace {
    /// The place of column `number` (from 1) of a table, if the operator compares its bytes.
    pub fn of(table: Rel, number: i16, operator: Operator) -> Option<Self> {
        let Operator { function, collation, column_is_left } = operator;
        let comparison = RawComparison::of(function, collation, column_is_left)?;
        let number = usize::try_from(number).ok().filter(|&number| number > 0)?;
        let columns = datum::column_layouts(table, number);
        let is_whole = columns.len() == number && columns.last()?.len == comparison.len();
        is_whole.then_some(Self { offset: ColumnOffset::of_last(&columns)?, comparison })
    }

    /// Whether the column is found without a walk over the columns before it.
    pub fn is_fixed(&self) -> bool {
        self.offset.is_fixed()
    }

    /// The test for a value of the key.
    ///
    /// # Safety
    /// `value` is a value of the type on the other side of the operator, not NULL.
    pub unsafe fn equals(&self, value: pg_sys::Datum) -> RawTest {
        let wanted = match self.comparison {
            RawComparison::Integer { column, key } => WantedValue::Integer(as_stored(value, column, key)),
            RawComparison::Uuid => {
                // SAFETY: a uuid is passed by reference.
                WantedValue::Uuid(unsafe { value.cast_mut_ptr::<[u8; 16]>().read_unaligned() })
            }
            // SAFETY: text and bytea are varlenas.
            RawComparison::Varlena => WantedValue::Varlena(unsafe {
                Value::new(value, Repr::Varlena).with_bytes(|bytes| bytes.into())
            }),
        };
        RawTest { place: self.clone(), wanted }
    }

    /// The test for the elements of an array. NULL equals nothing.
    ///
    /// # Safety
    /// `array` is an array of values of the type on the other side of the operator, neither compressed nor out of line.
    pub unsafe fn equals_any(&self, array: pg_sys::Datum) -> RawTest {
        // SAFETY: both vectors have `count` elements; those that are not NULL are values of the array's type.
        unsafe {
            let ArrayElements { values, nulls, count, .. } = ArrayElements::of(array.cast_mut_ptr());
            let mut members = HashBits::new(count);
            for number in (0..count).filter(|&number| !*nulls.add(number)) {
                let value = *values.add(number);
                members.insert(match self.comparison {
                    RawComparison::Integer { column, key } => as_stored(value, column, key),
                    RawComparison::Uuid => hash_uuid(value.cast_mut_ptr::<[u8; 16]>().read_unaligned()),
                    RawComparison::Varlena => Value::new(value, Repr::Varlena).with_bytes(hash_varlena),
                });
            }
            RawTest { place: self.clone(), wanted: WantedValue::OneOf(members) }
        }
    }
}

/// A number of `key` bytes as a column of `column` bytes stores it. The sign of a shorter number fills a longer one. Of
/// a longer one that the column cannot have, a row may have the lower bytes; the server finds that it is another
/// number.
fn as_stored(value: pg_sys::Datum, column: usize, key: usize) -> u64 {
    let (unused, kept) = (64 - 8 * key as u32, u64::MAX >> (64 - 8 * column));
    ((value.value() as i64) << unused >> unused).cast_unsigned() & kept
}

/// Both halves count: in some kinds of uuid the values of a table differ in one only.
#[inline]
fn hash_uuid(uuid: [u8; 16]) -> u64 {
    let uuid = u128::from_le_bytes(uuid);
    (uuid as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F) ^ (uuid >> 64) as u64
}

#[inline]
fn hash_varlena(bytes: &[u8]) -> u64 {
    hash_bytes(0, bytes)
}

/// What a row must have.
enum WantedValue {
    /// The column's bytes as a number.
    Integer(u64),
    Uuid([u8; 16]),
    Varlena(Box<[u8]>),
    /// The hash of a value, as each comparison makes it.
    OneOf(HashBits),
}

/// Rows that are prefetched into the processor's cache ahead of the row that is tested. Each row of a page is on its
/// own cache lines, and waiting for them was a sixth of a lookup's time; a processor can have some ten loads in flight.
pub const ROWS_AHEAD: usize = 12;

/// A column's value, to be compared with rows.
pub struct RawTest {
    place: ColumnPlace,
    wanted: WantedValue,
}

impl RawTest {
    /// Prefetches the bytes of a row that the test reads into the processor's cache.
    #[inline]
    pub fn prefetch(&self, row: *const u8) {
        cache::prefetch_line(row.wrapping_add(T_INFOMASK2));
        // Most rows have a header of this size; for the others, this may prefetch the wrong cache line.
        cache::prefetch_line(row.wrapping_add(USUAL_HEADER + self.place.offset.fixed_part()));
    }

    /// The number of a page's tuples that look live by their hint bits, if no tuple, visible or not, may have the
    /// value; else the offset number of the first that may have it.
    ///
    /// # Safety
    /// A page of the table, under a share lock at least.
    pub unsafe fn rules_out(&self, page: HeapPage) -> Result<u64, u16> {
        let (mut rows, mut ahead) = (0, page.items());
        ahead.by_ref().take(ROWS_AHEAD).for_each(|(row, ..)| self.prefetch(row));
        for (row, len, number) in page.items() {
            if let Some((row, ..)) = ahead.next() {
                self.prefetch(row);
            }
            // SAFETY: the item is within the page, and not shorter than a tuple's header.
            unsafe {
                if self.may_hold(row, len) {
                    return Err(number);
                }
                rows += u64::from(heap::looks_live(row.add(T_INFOMASK).cast::<u16>().read_unaligned()));
            }
        }
        Ok(rows)
    }

    /// Whether a row may have the value: false only if it certainly has a different one, or NULL.
    ///
    /// # Safety
    /// `row` is a whole tuple of the table, `len` bytes long, on a pinned page.
    #[inline]
    pub unsafe fn may_hold(&self, row: *const u8, len: usize) -> bool {
        // SAFETY: as the caller promises; values are checked to be within the row. What is found is not made a value of
        // its own before it is compared: that takes nearly twice the time.
        unsafe {
            let start = match self.place.offset.start_in(row, len) {
                StartInRow::At(start) => start,
                StartInRow::Null => return false, // no operator of these kinds is true of NULL
                StartInRow::Unknown => return true,
            };
            let is_within = |bytes: usize| start + bytes <= len;
            match self.place.comparison {
                RawComparison::Integer { column, .. } if is_within(column) => {
                    let found = integer_at(row.add(start), column);
                    match &self.wanted {
                        WantedValue::Integer(wanted) => *wanted == found,
                        WantedValue::OneOf(members) => members.may_contain(found),
                        _ => true,
                    }
                }
                RawComparison::Uuid if is_within(16) => {
                    let found = row.add(start).cast::<[u8; 16]>().read_unaligned();
                    match &self.wanted {
                        WantedValue::Uuid(wanted) => *wanted == found,
                        WantedValue::OneOf(members) => members.may_contain(hash_uuid(found)),
                        _ => true,
                    }
                }
                RawComparison::Varlena => bytes_of(row, start, len).is_none_or(|found| match &self.wanted {
                    WantedValue::Varlena(wanted) => **wanted == *found,
                    WantedValue::OneOf(members) => members.may_contain(hash_varlena(found)),
                    _ => true,
                }),
                _ => true,
            }
        }
    }

    /// The short hash of the value; None for a list of values.
    pub fn short_hash(&self) -> Option<u16> {
        match &self.wanted {
            WantedValue::Integer(number) => Some(short_hash(*number)),
            WantedValue::Uuid(uuid) => Some(short_hash(hash_uuid(*uuid))),
            WantedValue::Varlena(bytes) => Some(short_hash(hash_varlena(bytes))),
            WantedValue::OneOf(_) => None,
        }
    }

    /// The short hash of the value in a row, or that it is NULL. None if the column is not found in the row, or the
    /// value is compressed or out of line.
    ///
    /// # Safety
    /// As [`RawTest::may_hold`].
    pub unsafe fn short_hash_of(&self, row: *const u8, len: usize) -> Option<Option<u16>> {
        // SAFETY: as in may_hold.
        unsafe {
            let start = match self.place.offset.start_in(row, len) {
                StartInRow::At(start) => start,
                StartInRow::Null => return Some(None),
                StartInRow::Unknown => return None,
            };
            let is_within = |bytes: usize| start + bytes <= len;
            let hash = match self.place.comparison {
                RawComparison::Integer { column, .. } => {
                    is_within(column).then(|| integer_at(row.add(start), column))
                }
                RawComparison::Uuid => {
                    is_within(16).then(|| hash_uuid(row.add(start).cast::<[u8; 16]>().read_unaligned()))
                }
                RawComparison::Varlena => bytes_of(row, start, len).map(hash_varlena),
            };
            hash.map(|hash| Some(short_hash(hash)))
        }
    }

    /// What tells the column, and the form of its values, from others of the table.
    pub fn column_code(&self) -> u64 {
        let ColumnPlace { offset, comparison } = &self.place;
        let (number, at) = (u64::from(offset.number()), offset.fixed_part() as u64);
        // A row's header and its columns of fixed length are within a page.
        number << 32 | (at & 0xFFFF) << 16 | u64::from(comparison.len().cast_unsigned())
    }
}

/// The integer of so many bytes at an address.
///
/// # Safety
/// The bytes are readable.
#[inline(always)]
unsafe fn integer_at(value: *const u8, bytes: usize) -> u64 {
    // SAFETY: as the caller promises.
    unsafe {
        match bytes {
            2 => value.cast::<u16>().read_unaligned().into(),
            4 => value.cast::<u32>().read_unaligned().into(),
            _ => value.cast::<u64>().read_unaligned(),
        }
    }
}

/// The bytes of the varlena at `start` in a row. None if they are compressed or out of line.
///
/// # Safety
/// `row` is a whole tuple, `len` bytes long; it lives as long as the result.
#[inline]
unsafe fn bytes_of<'a>(row: *const u8, start: usize, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the bytes are checked to be within the row.
    unsafe {
        if start >= len {
            return None;
        }
        let head = *row.add(start);
        let (from, end) = if head & 1 == 1 {
            // A header of one byte; 1 alone says that the value is out of line.
            if head == 1 {
                return None;
            }
            (start + 1, start + usize::from(head >> 1))
        } else {
            // Padding bytes are zero, and a row's data starts aligned.
            let aligned = if head == 0 { start.next_multiple_of(4) } else { start };
            if aligned + 4 > len {
                return None;
            }
            let word = row.add(aligned).cast::<u32>().read_unaligned();
            if word & 3 != 0 {
                return None;
            }
            (aligned + 4, aligned + (word >> 2) as usize)
        };
        (end <= len && end >= from).then(|| std::slice::from_raw_parts(row.add(from), end - from))
    }
}
