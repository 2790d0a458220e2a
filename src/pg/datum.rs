//! Datums: their bytes, arrays, and calls of a type's hash function.

use super::{Rel, compat, family, server};
use pgrx::pg_sys::{self, Datum, Oid};
use std::cell::RefCell;
use std::ffi::CStr;
use std::marker::PhantomData;

/// The representation of a type's values in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// In the datum itself, of this many bytes.
    ByValue(usize),
    /// Behind a pointer, of this many bytes.
    ByReference(usize),
    /// Behind a pointer, with a varlena header; may be compressed or out of line.
    Varlena,
    /// A NUL-terminated name in 64 bytes.
    Name,
    /// Behind a pointer, terminated by a NUL.
    CString,
}

/// pg_type.typlen of NUL-terminated types.
const C_STRING: i16 = -2;

impl Repr {
    /// The representation of a type. A domain over name has that of a name. Those of the server's own types are
    /// remembered: no command changes these types, or gives their OIDs to others.
    pub fn of_type(oid: Oid) -> Self {
        thread_local! {
            /// The types that were asked for in this process, mostly some ten.
            static KNOWN: RefCell<Vec<(Oid, Repr)>> = const { RefCell::new(Vec::new()) };
        }
        let known = |known: &Vec<(Oid, Self)>| known.iter().find(|(of, _)| *of == oid).map(|(_, repr)| *repr);
        if let Some(repr) = KNOWN.with_borrow(known) {
            return repr;
        }
        let repr = Self::from_catalog(oid);
        if oid.to_u32() < pg_sys::FirstNormalObjectId {
            KNOWN.with_borrow_mut(|known| known.push((oid, repr)));
        }
        repr
    }

    fn from_catalog(oid: Oid) -> Self {
        // SAFETY: a catalog lookup that raises an error for a missing type.
        if unsafe { pg_sys::getBaseType(oid) } == pg_sys::NAMEOID {
            return Repr::Name;
        }
        let (mut len, mut by_value) = (0i16, false);
        // SAFETY: a catalog lookup that raises an error for a missing type.
        unsafe { pg_sys::get_typlenbyval(oid, &mut len, &mut by_value) };
        match usize::try_from(len) {
            Ok(len) if by_value => Repr::ByValue(len),
            Ok(len) => Repr::ByReference(len),
            Err(_) if len == C_STRING => Repr::CString,
            Err(_) => Repr::Varlena,
        }
    }

    /// Whether a column's values have this representation.
    pub(super) fn is_of(self, attribute: &pg_sys::FormData_pg_attribute) -> bool {
        let (len, by_value) = (i32::from(attribute.attlen), attribute.attbyval);
        match self {
            Repr::ByValue(bytes) => by_value && usize::try_from(len) == Ok(bytes),
            Repr::ByReference(bytes) => !by_value && usize::try_from(len) == Ok(bytes),
            Repr::Name => !by_value && len == pg_sys::NAMEDATALEN as i32,
            Repr::Varlena => len == -1,
            Repr::CString => attribute.attlen == C_STRING,
        }
    }
}

/// A value that is not NULL, of a type with a known representation, in memory that does not change for `'a`.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    datum: Datum,
    repr: Repr,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> Value<'a> {
    /// Wraps a datum.
    ///
    /// # Safety
    /// `datum` is a non-null value of a type with this representation; if it is a pointer, what it points to lives for
    /// `'a`.
    pub(super) unsafe fn new(datum: Datum, repr: Repr) -> Self {
        Self { datum, repr, memory: PhantomData }
    }

    /// The value with these bytes of a copied heap page; None if their number is not that of the representation.
    pub(super) fn on_page(bytes: &'a [u8], repr: Repr) -> Option<Self> {
        let datum = match repr {
            Repr::ByValue(len) if len == bytes.len() => {
                let mut wide = [0u8; size_of::<Datum>()];
                wide.get_mut(..len)?.copy_from_slice(bytes);
                // fetch_att sign-extends; users of the datum read only its low bytes.
                Datum::from(usize::from_le_bytes(wide))
            }
            Repr::ByReference(len) if len == bytes.len() => Datum::from(bytes.as_ptr()),
            Repr::Name if bytes.len() == pg_sys::NAMEDATALEN as usize => Datum::from(bytes.as_ptr()),
            _ => return None,
        };
        // SAFETY: the number of bytes is that of the representation, and they are borrowed for 'a.
        Some(unsafe { Self::new(datum, repr) })
    }

    /// The datum, for a function of users: it gets an expanded value to read only. Otherwise it may take the value as
    /// its own, and free it, as PL/pgSQL does with arrays.
    pub(super) fn read_only(self) -> Datum {
        if self.repr != Repr::Varlena {
            return self.datum;
        }
        // SAFETY: the representation says that it is a varlena. Any other than an expanded one is returned as it is.
        unsafe {
            if is_plain(self.datum.cast_mut_ptr()) {
                self.datum
            } else {
                pg_sys::MakeExpandedObjectReadOnlyInternal(self.datum)
            }
        }
    }

    /// The address of a value that is behind a pointer.
    pub(super) fn pointer(self) -> *mut u8 {
        self.datum.cast_mut_ptr()
    }

    /// The string, if the value is NUL-terminated.
    pub fn c_str(self) -> Option<&'a CStr> {
        // SAFETY: the representation says that it is NUL-terminated; it lives for 'a.
        (self.repr == Repr::CString).then(|| unsafe { CStr::from_ptr(self.datum.cast_mut_ptr()) })
    }

    /// Calls `read` with the bytes of the value: the contents of a varlena (detoasted if need be), the bytes of a name
    /// before its NUL.
    pub fn with_bytes<R>(self, read: impl FnOnce(&[u8]) -> R) -> R {
        let datum = self.datum;
        // SAFETY: new() was called for a datum of this representation. Its pointer leads to the number of bytes that
        // the representation or the varlena's header says, or to a NUL-terminated string; they live for 'a. This
        // function owns a detoasted copy.
        unsafe {
            match self.repr {
                Repr::ByValue(len) => read(&datum.value().to_le_bytes()[..len.min(8)]),
                Repr::ByReference(len) => read(std::slice::from_raw_parts(datum.cast_mut_ptr::<u8>(), len)),
                Repr::CString => read(CStr::from_ptr(datum.cast_mut_ptr()).to_bytes()),
                Repr::Name => {
                    let bytes =
                        std::slice::from_raw_parts(datum.cast_mut_ptr::<u8>(), pg_sys::NAMEDATALEN as usize);
                    read(until_nul(bytes))
                }
                Repr::Varlena if is_plain(datum.cast_mut_ptr()) => {
                    let (plain, len) = (datum.cast_mut_ptr(), pgrx::varsize_any_exhdr(datum.cast_mut_ptr()));
                    read(std::slice::from_raw_parts(pgrx::vardata_any(plain).cast::<u8>(), len))
                }
                Repr::Varlena => {
                    let flat = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
                    let len = pgrx::varsize_any_exhdr(flat);
                    let result = read(std::slice::from_raw_parts(pgrx::vardata_any(flat).cast::<u8>(), len));
                    if flat != datum.cast_mut_ptr() {
                        pg_sys::pfree(flat.cast());
                    }
                    result
                }
            }
        }
    }
}

/// Calls `read` with a copy of a string that has one more blank at its end: equal as char(n), but with different bytes.
pub fn with_another_blank<R>(string: Value<'_>, read: impl FnOnce(Value<'_>) -> R) -> R {
    let mut longer = string.with_bytes(<[u8]>::to_vec);
    longer.push(b' ');
    // SAFETY: makes a varlena of this length in the current memory context; freed after its use.
    unsafe {
        let copy = pg_sys::cstring_to_text_with_len(longer.as_ptr().cast(), longer.len() as i32);
        let result = read(Value::new(Datum::from(copy), Repr::Varlena));
        pg_sys::pfree(copy.cast());
        result
    }
}

/// Whether a varlena's contents directly follow its header: neither compressed nor out of line. Nearly all do, and need
/// no call of the server.
///
/// # Safety
/// `value` is a varlena.
unsafe fn is_plain(value: *const pg_sys::varlena) -> bool {
    // SAFETY: reads the header.
    unsafe { pgrx::varatt_is_4b_u(value) || pgrx::varatt_is_1b(value) && !pgrx::varatt_is_1b_e(value) }
}

/// The bytes of a name before its NUL.
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// A type's extended hash function, prepared for calls.
pub struct HashFunction {
    info: Box<pg_sys::FmgrInfo>,
    collation: Oid,
    /// Whether trailing blanks are removed from strings before the function is called.
    trims: bool,
}

impl HashFunction {
    /// Looks the function up. The lookup lives in the current memory context, which must outlive the result.
    pub fn new(function: Oid, collation: Oid) -> Self {
        let mut info = Box::<pg_sys::FmgrInfo>::default();
        // SAFETY: fills info, or raises an error for a missing function.
        unsafe { pg_sys::fmgr_info(function, &mut *info) };
        // PostgreSQL 15's function for char(n) hashes trailing blanks under a nondeterministic collation, although its
        // `=` ignores them. For a string without trailing blanks, all versions have the same hash.
        let trims = function.to_u32() == pg_sys::F_HASHBPCHAREXTENDED && !is_deterministic(collation);
        Self { info, collation, trims }
    }

    /// Hashes a value of the function's argument type.
    pub fn hash(&mut self, value: Value<'_>, seed: u64) -> u64 {
        if self.trims && value.with_bytes(|bytes| bytes.last() == Some(&b' ')) {
            return self.hash_trimmed(value, seed);
        }
        self.call(value, seed)
    }

    fn hash_trimmed(&mut self, value: Value<'_>, seed: u64) -> u64 {
        value.with_bytes(|bytes| {
            let string = without_trailing_blanks(bytes);
            // SAFETY: makes a varlena of this length in the current memory context; freed after the call.
            unsafe {
                let copy = pg_sys::cstring_to_text_with_len(string.as_ptr().cast(), string.len() as i32);
                let hash = self.call(Value::new(Datum::from(copy), Repr::Varlena), seed);
                pg_sys::pfree(copy.cast());
                hash
            }
        })
    }

    fn call(&mut self, value: Value<'_>, seed: u64) -> u64 {
        // SAFETY: an extended hash function takes the value and an int8, and returns an int8 (amvalidate and CREATE
        // OPERATOR CLASS check that); a HashFunction is made for the type of the values that it gets.
        let hash = unsafe {
            server::FunctionCall2Coll(&mut *self.info, self.collation, value.read_only(), Datum::from(seed))
        };
        hash.value() as u64
    }
}

/// Whether core's hash function of char(n) includes trailing blanks under a collation, although its `=` ignores them.
/// It does on PostgreSQL 15 if the collation is nondeterministic, unless the collation itself ignores blanks. This
/// calls the function instead of comparing versions, because a minor release may fix it.
pub fn hashes_trailing_blanks(collation: Oid) -> bool {
    if is_deterministic(collation) {
        return false;
    }
    let hash = |string: &CStr| {
        // SAFETY: an immutable function of a palloc'd string and a seed.
        unsafe {
            let string = Datum::from(pg_sys::cstring_to_text(string.as_ptr()));
            let function = Oid::from(pg_sys::F_HASHBPCHAREXTENDED);
            pg_sys::OidFunctionCall2Coll(function, collation, string, Datum::from(0u64))
        }
    };
    hash(c"a").value() != hash(c"a ").value()
}

/// The bytes of a string before its trailing blanks.
pub fn without_trailing_blanks(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    &bytes[..end]
}

/// An array taken apart. The two vectors are in the memory context in which that was done; nothing is freed on drop.
#[derive(Clone, Copy)]
pub(super) struct ArrayElements {
    /// Type of the elements.
    pub(super) element: Oid,
    /// The elements; by reference, they point into the array.
    pub(super) values: *mut Datum,
    /// Which of them are NULL.
    pub(super) nulls: *mut bool,
    /// Length of both vectors.
    pub(super) count: usize,
}

impl ArrayElements {
    /// Takes an array apart.
    ///
    /// # Safety
    /// `array` is an array, neither compressed nor out of line.
    pub(super) unsafe fn of(array: *mut pg_sys::varlena) -> Self {
        // SAFETY: the array names the type of its elements.
        unsafe { Self::with(array, &ElementLayout::of((*array.cast::<pg_sys::ArrayType>()).elemtype)) }
    }

    /// Takes an array with elements of this type apart.
    ///
    /// # Safety
    /// As [`ArrayElements::of`]; `layout` is that of the array's elements.
    unsafe fn with(array: *mut pg_sys::varlena, layout: &ElementLayout) -> Self {
        let array = array.cast::<pg_sys::ArrayType>();
        let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0i32);
        let &ElementLayout { element, len, by_value, align, .. } = layout;
        // SAFETY: deconstruct_array fills two vectors of `count` elements.
        unsafe {
            let (to, is_null) = (&mut values, &mut nulls);
            pg_sys::deconstruct_array(array, element, len.into(), by_value, align, to, is_null, &mut count);
        }
        Self { element, values, nulls, count: usize::try_from(count).unwrap_or(0) }
    }
}

/// How the elements of arrays lie in memory.
pub struct ElementLayout {
    element: Oid,
    len: i16,
    by_value: bool,
    align: std::ffi::c_char,
    repr: Repr,
}

impl ElementLayout {
    /// The layout of elements of a type.
    pub fn of(element: Oid) -> Self {
        let (mut len, mut by_value, mut align) = (0i16, false, Default::default());
        // SAFETY: a catalog lookup, which raises an error for a missing type.
        unsafe { pg_sys::get_typlenbyvalalign(element, &mut len, &mut by_value, &mut align) };
        Self { element, len, by_value, align, repr: Repr::of_type(element) }
    }
}

/// The elements of an array that are not NULL.
///
/// # Safety
/// `array` is a non-null value of an array type. It, and the current memory context, live for `'a`.
pub(super) unsafe fn elements<'a>(array: Datum) -> Vec<Value<'a>> {
    // SAFETY: the array is detoasted first; both vectors have `count` elements, of the array's element type.
    unsafe {
        let all = ArrayElements::of(pg_sys::pg_detoast_datum(array.cast_mut_ptr()));
        let repr = Repr::of_type(all.element);
        let present = (0..all.count).filter(|&i| !*all.nulls.add(i));
        present.map(|i| Value::new(*all.values.add(i), repr)).collect()
    }
}

/// Calls `each` with the elements of a value that is an array, None for NULL. Returns the type of the elements, or None
/// if the value has another representation than an array. `layout` is the usual layout of the elements, which saves
/// lookups. What this allocates is in the current memory context.
pub fn each_element(
    value: Value<'_>,
    layout: Option<&ElementLayout>,
    mut each: impl FnMut(Option<Value<'_>>),
) -> Option<Oid> {
    if value.repr != Repr::Varlena {
        return None;
    }
    // SAFETY: a varlena of an array's column or argument, whose header names the type of its elements; it is detoasted
    // first. Both vectors have `count` elements of that type, and live in the current memory context.
    unsafe {
        let array = pg_sys::pg_detoast_datum(value.datum.cast_mut_ptr());
        let element = (*array.cast::<pg_sys::ArrayType>()).elemtype;
        let other;
        let layout = match layout.filter(|layout| layout.element == element) {
            Some(layout) => layout,
            None => {
                other = ElementLayout::of(element);
                &other
            }
        };
        let all = ArrayElements::with(array, layout);
        let repr = layout.repr;
        for i in 0..all.count {
            each((!*all.nulls.add(i)).then(|| Value::new(*all.values.add(i), repr)));
        }
        Some(all.element)
    }
}

/// Calls `each` with the rows of a value that is an array of two dimensions, or with each element of one of one
/// dimension, as a row. NULL elements are None. What this allocates is in the current memory context.
pub fn each_row(value: Value<'_>, mut each: impl FnMut(&[Option<Value<'_>>])) {
    if value.repr != Repr::Varlena {
        return;
    }
    // SAFETY: an array, detoasted first, whose header names the type of its elements and the number of its dimensions;
    // their lengths follow the header. Both vectors have `count` elements.
    unsafe {
        let array = pg_sys::pg_detoast_datum(value.datum.cast_mut_ptr());
        let dimensions = (*array.cast::<pg_sys::ArrayType>()).ndim;
        let lengths = array.cast::<pg_sys::ArrayType>().add(1).cast::<i32>();
        let width: usize = (1..dimensions.max(1) as usize)
            .map(|dimension| usize::try_from(*lengths.add(dimension)).unwrap_or(1))
            .product();
        let all = ArrayElements::of(array);
        let repr = Repr::of_type(all.element);
        let element = |i: usize| (!*all.nulls.add(i)).then(|| Value::new(*all.values.add(i), repr));
        let elements: Vec<_> = (0..all.count).map(element).collect();
        elements.chunks(width.max(1)).for_each(&mut each);
    }
}

/// Whether strings with different bytes are different under this collation; true for types without collation.
pub fn is_deterministic(collation: Oid) -> bool {
    // SAFETY: a catalog lookup.
    collation == pg_sys::InvalidOid || unsafe { pg_sys::get_collation_isdeterministic(collation) }
}

/// HASHEXTENDED_PROC of hash.h: the number of the extended function in an operator family for hash indexes; number 1 is
/// the 32-bit function. (In families of this extension, the extended function has number 1.)
const EXTENDED: i16 = 2;

/// The extended hash function that an operator family for hash indexes has for a type.
pub fn extended_hash_of(family: Oid, input: Oid) -> Option<Oid> {
    family::support_function(family, input, input, EXTENDED)
}

/// The hash function that an operator family of the access method has for a type.
pub fn hash_function_of(family: Oid, input: Oid) -> Option<Oid> {
    family::support_function(family, input, input, 1)
}

/// Length and alignment of the first `count` columns of a table, as needed to walk a tuple.
pub fn column_layouts(table: Rel, count: usize) -> Vec<ColumnLayout> {
    // SAFETY: the descriptor of an open relation.
    let desc = unsafe { (*table.raw()).rd_att };
    // SAFETY: as above.
    let columns = usize::try_from(unsafe { (*desc).natts }).unwrap_or(0);
    (0..count.min(columns))
        .map(|column| {
            // SAFETY: column is one of the descriptor's.
            let attribute = unsafe { &*compat::attribute(desc, column) };
            ColumnLayout { len: attribute.attlen, align: alignment(attribute.attalign as u8) }
        })
        .collect()
}

/// The alignment in bytes of this pg_type.typalign.
fn alignment(code: u8) -> usize {
    match code {
        b'c' => 1,
        b's' => 2,
        b'i' => 4,
        _ => 8,
    }
}

/// The layout of a column in a heap tuple.
#[derive(Clone, Copy, Debug)]
pub struct ColumnLayout {
    /// pg_attribute.attlen: bytes, or -1 for a varlena.
    pub len: i16,
    /// Alignment in bytes: 1, 2, 4 or 8.
    pub align: usize,
}

impl ColumnLayout {
    /// The first offset from `at` on with the column's alignment. (`usize::next_multiple_of` divides, which takes
    /// longer than the rest of a step over a column.)
    #[inline]
    pub fn aligned(self, at: usize) -> usize {
        (at + self.align - 1) & !(self.align - 1)
    }
}
