//! Values that the server keeps for us from call to call behind an untyped pointer: data of call sites, and states of
//! aggregates.
//!
//! A tag before the value identifies its type. The tag is compared before each loan, and replaced by another one during
//! the loan. Therefore a value of another function, and a second loan of the same value, end in an error.

use super::error::fail;
use pgrx::{PgMemoryContexts, PgSqlErrorCode, pg_sys};
use std::any::TypeId;
use std::ffi::c_void;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The identifier of a type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(u64);

impl Tag {
    /// The tag of a value that is lent, or was taken. A random number, so that other memory hardly ever begins with it.
    const NOBODYS: Self = Self(0x8e4c_91d7_2b6a_f035);

    /// The tag of a type, or of a type that stands for it: the compiler's TypeId, hashed.
    pub(super) fn of<T: 'static>() -> Self {
        let mut word = Word(0);
        TypeId::of::<T>().hash(&mut word);
        Self(word.0)
    }
}

/// Stores the word that a [`TypeId`] hashes.
struct Word(u64);

impl Hasher for Word {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A value with its tag.
#[repr(C)]
pub(super) struct Tagged<T> {
    tag: Tag,
    value: T,
}

impl<T> Tagged<T> {
    pub(super) fn new(tag: Tag, value: T) -> Self {
        Self { tag, value }
    }

    /// Moves the value into a memory context, where it is never dropped.
    ///
    /// # Safety
    /// The context exists, and the data to which the value refers lives as long as the context.
    pub(super) unsafe fn put(self, context: pg_sys::MemoryContext) -> *mut c_void {
        const { assert!(align_of::<Self>() <= 8) };
        // SAFETY: freshly allocated, as large as needed and aligned to 8.
        unsafe {
            let place = pg_sys::MemoryContextAlloc(context, size_of::<Self>()).cast::<Self>();
            place.write(self);
            place.cast()
        }
    }

    /// Moves the value into a memory context, with which it is dropped.
    ///
    /// # Safety
    /// As [`Tagged::put`].
    pub(super) unsafe fn put_and_drop(self, context: pg_sys::MemoryContext) -> *mut c_void {
        PgMemoryContexts::For(context).leak_and_drop_on_delete(self).cast()
    }

    /// Lends the value at an address; an error if it has another type, or is lent already.
    ///
    /// # Safety
    /// `place` is the address of aligned memory of at least a tag's size, which lives for `'a`. If it begins with this
    /// tag, it was made by [`Tagged::put`] or [`Tagged::put_and_drop`] from a `T`, or from the same type with a longer
    /// lifetime.
    #[inline]
    pub(super) unsafe fn lend<'a>(place: *mut c_void, tag: Tag) -> Lent<'a, T> {
        // SAFETY: only the tag is read. If it matches, the rest of the value exists. There is no other reference to it,
        // because a loan would have replaced the tag.
        unsafe {
            let found = place.cast::<Tag>();
            if place.is_null() || *found != tag {
                refuse(place.is_null() || *found != Tag::NOBODYS);
            }
            *found = Tag::NOBODYS;
            Lent { of: NonNull::new_unchecked(place.cast()), tag, loan: PhantomData }
        }
    }
}

/// A loan of a value, which ends when this is dropped.
pub struct Lent<'a, T> {
    of: NonNull<Tagged<T>>,
    tag: Tag,
    loan: PhantomData<&'a mut T>,
}

impl<T> Lent<'_, T> {
    /// Takes the value out. The memory that it was in cannot be lent again.
    pub(super) fn take(self) -> T {
        let of = self.of;
        std::mem::forget(self);
        // SAFETY: as in deref(). It is not read a second time, because its tag is not restored.
        unsafe { (&raw mut (*of.as_ptr()).value).read() }
    }
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: lend() has checked that it is a T, and prevents other loans until this one ends.
        unsafe { &(*self.of.as_ptr()).value }
    }
}

impl<T> DerefMut for Lent<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in deref().
        unsafe { &mut (*self.of.as_ptr()).value }
    }
}

impl<T> Drop for Lent<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the memory lives for 'a, even if a panic unwinds: the server resets no memory before the call in
        // which the loan was made has ended.
        unsafe { (&raw mut (*self.of.as_ptr()).tag).write(self.tag) }
    }
}

#[cold]
fn refuse(is_anothers: bool) -> ! {
    if is_anothers {
        fail(
            PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
            "the state of an aggregate was made by a function of another aggregate".into(),
            None,
            Some("Do not put an aggregate together from support functions of several.".into()),
        );
    }
    let what = "the state of a function of pg_skip is in use, or was used up";
    fail(PgSqlErrorCode::ERRCODE_OBJECT_IN_USE, what.into(), None, None)
}
