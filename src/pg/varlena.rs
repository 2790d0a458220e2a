//! Values of variable length: as they come, plain or stored out of line, and as they are made.

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

/// VARLENA_EXTSIZE_MASK of varatt.h: how long a value is where it is stored. What is above says how it is compressed.
const SIZE_MASK: u32 = (1 << 30) - 1;

/// Bytes of a 1-byte header with its tag, before a pointer to a value that is stored out of line.
const EXTERNAL_HEADER: usize = 2;

/// An argument of variable length, not NULL.
pub struct Varlena<'a>(Value<'a>);

/// Which value is stored out of line. Two pointers with the same number lead to the same bytes, for as long as a query
/// runs: the number of a deleted value is given to another one only after four billion others.
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
    /// A non-null value of a type of variable length, which lives for `'a`.
    pub(super) unsafe fn new(datum: pg_sys::Datum) -> Self {
        // SAFETY: such values are varlenas.
        Self(unsafe { Value::new(datum, Repr::Varlena) })
    }

    /// What says where an out-of-line value is; None if it is not stored in a table's TOAST relation.
    fn pointer(&self) -> Option<pg_sys::varatt_external> {
        // SAFETY: a varlena; a 1-byte header with tag says that it is a pointer, which may lie unaligned.
        unsafe {
            let bytes = self.0.pointer();
            if !pgrx::varatt_is_1b_e(bytes.cast()) || *bytes.add(1) != ON_DISK {
                return None;
            }
            Some(bytes.add(EXTERNAL_HEADER).cast::<pg_sys::varatt_external>().read_unaligned())
        }
    }

    /// Which out-of-line value it is; None if it is not stored in a table's TOAST relation.
    pub fn stored_id(&self) -> Option<StoredId> {
        self.pointer().map(|pointer| StoredId {
            relation: pointer.va_toastrelid,
            value: pointer.va_valueid,
            size: pointer.va_rawsize,
        })
    }

    /// The length of an out-of-line value that [`fetch`](Self::fetch) can fetch parts of: one that is not compressed.
    pub fn length_in_parts(&self) -> Option<usize> {
        let pointer = self.pointer()?;
        let length = usize::try_from(pointer.va_rawsize).ok()?.checked_sub(pg_sys::VARHDRSZ)?;
        let stored = (pointer.va_extinfo & SIZE_MASK) as usize;
        (stored == length).then_some(length)
    }

    /// Copies a part of such a value.
    pub fn fetch(&self, offset: usize, into: &mut [u8]) {
        // SAFETY: a varlena; what comes back is a copy in the current memory context, as long as its header says.
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
                None,
            );
        }
    }

    /// Calls `read` with the contents, fetched and decompressed if need be.
    pub fn with_bytes<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        self.0.with_bytes(read)
    }
}

/// A value of variable length in the making, in the current memory context.
pub struct Made(*mut pg_sys::varlena);

impl Made {
    /// So many zero bytes.
    pub fn zeros(length: usize) -> Self {
        let whole = length + pg_sys::VARHDRSZ;
        // SAFETY: raises an error above 1 GB; zeroed and as long as its header then says.
        unsafe {
            let memory = pg_sys::palloc0(whole).cast::<pg_sys::varlena>();
            pgrx::set_varsize_4b(memory, whole as i32);
            Self(memory)
        }
    }

    /// A copy of these bytes.
    pub fn copy(bytes: &[u8]) -> Self {
        let whole = bytes.len() + pg_sys::VARHDRSZ;
        // SAFETY: as zeros(), but for the zeros: all of it is written here.
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

/// Memory that is written piece by piece.
pub(super) struct Room<'a> {
    memory: &'a mut [MaybeUninit<u8>],
    length: usize,
}

impl Room<'_> {
    /// Of so many bytes, nothing written yet.
    ///
    /// # Safety
    /// They are there, and nobody else's, for `'a`.
    pub(super) unsafe fn new(memory: *mut u8, capacity: usize) -> Self {
        // SAFETY: bytes need not have a value here.
        Self { memory: unsafe { std::slice::from_raw_parts_mut(memory.cast(), capacity) }, length: 0 }
    }

    /// Number of bytes that are written.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Where the next bytes go; None if there is no room for them.
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
        // SAFETY: the line before the last gave them a value.
        Some(unsafe { self.memory[start..self.length].assume_init_mut() })
    }
}

/// A value of variable length that is written piece by piece.
pub struct Growing {
    made: Made,
    /// For its contents, as long as the value itself is there.
    room: Room<'static>,
}

impl Growing {
    /// With room for so many bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        // SAFETY: raises an error above 1 GB; the contents, behind the header, are written before they are read.
        unsafe {
            let memory = pg_sys::palloc(capacity + pg_sys::VARHDRSZ).cast::<u8>();
            let room = Room::new(memory.add(pg_sys::VARHDRSZ), capacity);
            Self { made: Made(memory.cast()), room }
        }
    }

    /// What was written.
    pub fn finish(self) -> Made {
        // SAFETY: so many bytes were written behind the header.
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

// SAFETY: a varlena in the memory that the function was called in.
unsafe impl BoxRet for Made {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        // SAFETY: the function is declared to return such a type.
        unsafe { fcinfo.return_raw_datum(pg_sys::Datum::from(self.0)) }
    }
}

// SAFETY: SQL is written by hand.
unsafe impl SqlTranslatable for Made {
    const TYPE_IDENT: &'static str = "pg_skip::pg::varlena::Made";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("bloom"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("bloom")));
}
