//! Values of variable length: arguments, plain or stored out of line, and results.

use super::datum::{Repr, Value};
use super::fail;
use pgrx::PgSqlErrorCode;
use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::pg_sys;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use skip_value::collect::Sink;
use std::mem::MaybeUninit;

/// VARTAG_ONDISK of postgres.h.
const ON_DISK: u8 = 18;

/// VARLENA_EXTSIZE_MASK of varatt.h: the bits of an out-of-line value's stored length. The upper bits are the
/// compression method.
const SIZE_MASK: u32 = (1 << 30) - 1;

/// Bytes of a 1-byte header and its tag, before the pointer to an out-of-line value.
const EXTERNAL_HEADER: usize = 2;

/// An argument of variable length, not NULL.
pub struct Varlena<'a>(Value<'a>);

/// The identifier of an out-of-line value. Two pointers with the same identifier lead to the same bytes, while a query
/// runs: the number of a deleted value is used again only after four billion others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredId {
    relation: pg_sys::Oid,
    value: pg_sys::Oid,
    size: i32,
}

impl<'a> Varlena<'a> {
    /// Wraps a datum.
    ///
    /// # Safety
    /// `datum` is a non-null value of a type of variable length, which lives for `'a`.
    pub(super) unsafe fn new(datum: pg_sys::Datum) -> Self {
        // SAFETY: such values are varlenas.
        Self(unsafe { Value::new(datum, Repr::Varlena) })
    }

    /// The TOAST pointer; None if the value is not stored in a table's TOAST relation.
    fn pointer(&self) -> Option<pg_sys::varatt_external> {
        // SAFETY: a varlena; a 1-byte header with a tag says that it is a pointer, which may be unaligned.
        unsafe {
            let bytes = self.0.pointer();
            if !pgrx::varatt_is_1b_e(bytes.cast()) || *bytes.add(1) != ON_DISK {
                return None;
            }
            Some(bytes.add(EXTERNAL_HEADER).cast::<pg_sys::varatt_external>().read_unaligned())
        }
    }

    /// The identifier of the out-of-line value; None if it is not stored in a table's TOAST relation.
    pub fn stored_id(&self) -> Option<StoredId> {
        self.pointer().map(|pointer| StoredId {
            relation: pointer.va_toastrelid,
            value: pointer.va_valueid,
            size: pointer.va_rawsize,
        })
    }

    /// The length of an out-of-line value of which [`fetch`](Self::fetch) can fetch parts: an uncompressed one.
    pub fn length_in_parts(&self) -> Option<usize> {
        let pointer = self.pointer()?;
        let length = usize::try_from(pointer.va_rawsize).ok()?.checked_sub(pg_sys::VARHDRSZ)?;
        let stored = (pointer.va_extinfo & SIZE_MASK) as usize;
        (stored == length).then_some(length)
    }

    /// Copies a part of such a value.
    pub fn fetch(&self, offset: usize, into: &mut [u8]) {
        // SAFETY: a varlena; the result is a copy in the current memory context, of the length in its header.
        let fetched = unsafe {
            let part =
                pg_sys::pg_detoast_datum_slice(self.0.pointer().cast(), offset as i32, into.len() as i32);
            let length = pgrx::varsize_any_exhdr(part).min(into.len());
            into.as_mut_ptr().copy_from_nonoverlapping(pgrx::vardata_any(part).cast(), length);
            pg_sys::pfree(part.cast());
            length
        };
        if fetched != into.len() {
            fail(
                PgSqlErrorCode::ERRCODE_DATA_CORRUPTED,
                "a stored value is shorter than expected".into(),
                Some(format!("Expected {} bytes at offset {offset}, found {fetched}.", into.len())),
                Some("Restore the row from a backup, or delete it.".into()),
            );
        }
    }

    /// Calls `read` with the contents, fetched and decompressed if need be.
    pub fn with_bytes<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        self.0.with_bytes(read)
    }
}

/// A new value of variable length, in the current memory context.
pub struct Made(*mut pg_sys::varlena);

impl Made {
    /// A value of `length` zero bytes.
    pub fn zeros(length: usize) -> Self {
        let whole = length + pg_sys::VARHDRSZ;
        // SAFETY: raises an error above 1 GB; the memory is zeroed, and of the length that its header then has.
        unsafe {
            let memory = pg_sys::palloc0(whole).cast::<pg_sys::varlena>();
            pgrx::set_varsize_4b(memory, whole as i32);
            Self(memory)
        }
    }

    /// A copy of these bytes.
    pub fn copy(bytes: &[u8]) -> Self {
        let whole = bytes.len() + pg_sys::VARHDRSZ;
        // SAFETY: as zeros(), but not zeroed: all of it is written here.
        unsafe {
            let memory = pg_sys::palloc(whole).cast::<u8>();
            pgrx::set_varsize_4b(memory.cast(), whole as i32);
            let contents = memory.add(pg_sys::VARHDRSZ);
            contents.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            Self(memory.cast())
        }
    }

    /// The contents.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: made above with this length.
        unsafe {
            let length = pgrx::varsize_any_exhdr(self.0);
            std::slice::from_raw_parts_mut(pgrx::vardata_any(self.0).cast_mut().cast(), length)
        }
    }
}

/// Memory that is being written piece by piece.
pub(super) struct Room<'a> {
    memory: &'a mut [MaybeUninit<u8>],
    length: usize,
}

impl Room<'_> {
    /// Memory of `capacity` bytes, none of them written yet.
    ///
    /// # Safety
    /// The memory exists, and nothing else uses it, for `'a`.
    pub(super) unsafe fn new(memory: *mut u8, capacity: usize) -> Self {
        // SAFETY: the bytes may be uninitialized.
        Self { memory: unsafe { std::slice::from_raw_parts_mut(memory.cast(), capacity) }, length: 0 }
    }

    /// Number of bytes that were written.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// The memory for the next `length` bytes; None if there is not enough.
    fn next(&mut self, length: usize) -> Option<&mut [MaybeUninit<u8>]> {
        self.memory.get_mut(self.length..)?.get_mut(..length)
    }
}

impl Sink for Room<'_> {
    fn write(&mut self, piece: &[u8]) -> Option<()> {
        self.next(piece.len())?.write_copy_of_slice(piece);
        self.length += piece.len();
        Some(())
    }

    fn zeros(&mut self, length: usize) -> Option<&mut [u8]> {
        let start = self.length;
        self.next(length)?.fill(MaybeUninit::new(0));
        self.length += length;
        // SAFETY: fill() above initialized them.
        Some(unsafe { self.memory[start..self.length].assume_init_mut() })
    }
}

/// A value of variable length that is being written piece by piece.
pub struct Growing {
    made: Made,
    /// The memory of its contents, which lives as long as the value itself.
    room: Room<'static>,
}

impl Growing {
    /// An empty value with memory for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        // SAFETY: raises an error above 1 GB; the contents, after the header, are written before they are read.
        unsafe {
            let memory = pg_sys::palloc(capacity + pg_sys::VARHDRSZ).cast::<u8>();
            let room = Room::new(memory.add(pg_sys::VARHDRSZ), capacity);
            Self { made: Made(memory.cast()), room }
        }
    }

    /// The value with the contents that were written.
    pub fn finish(self) -> Made {
        // SAFETY: this number of bytes was written after the header.
        unsafe { pgrx::set_varsize_4b(self.made.0, (self.room.length() + pg_sys::VARHDRSZ) as i32) };
        self.made
    }
}

impl Sink for Growing {
    fn write(&mut self, piece: &[u8]) -> Option<()> {
        self.room.write(piece)
    }

    fn zeros(&mut self, length: usize) -> Option<&mut [u8]> {
        self.room.zeros(length)
    }
}

// SAFETY: a varlena in the memory context in which the function was called.
unsafe impl BoxRet for Made {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        // SAFETY: the function is declared to return such a type.
        unsafe { fcinfo.return_raw_datum(pg_sys::Datum::from(self.0)) }
    }
}

// SAFETY: the extension's SQL is written by hand, not generated from this.
unsafe impl SqlTranslatable for Made {
    const TYPE_IDENT: &'static str = "pg_skip::pg::varlena::Made";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("bloom"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("bloom")));
}
