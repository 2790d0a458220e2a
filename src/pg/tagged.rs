//! What the server keeps for us from call to call behind a pointer without a type: what a place in a query keeps, and
//! states of aggregates.
//!
//! In front of the value stands a tag that tells its type. It is compared before each loan, and another one while the
//! loan lasts. So what another function made, and a second loan of the same value, end in an error.

use super::error::fail;
use pgrx::{PgMemoryContexts, PgSqlErrorCode, pg_sys};
use std::any::TypeId;
use std::ffi::c_void;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// What tells a type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag(u64);

impl Tag {
    /// The tag of a value that is lent, or was taken. Drawn by lot: what others make hardly begins with it.
    const NOBODYS: Self = Self(0x8e4c_91d7_2b6a_f035);

    /// The tag of a type, or of one that stands for it: what the compiler has made of all that the type is.
    pub(super) fn of<T: 'static>() -> Self {
        let mut word = Word(0);
        TypeId::of::<T>().hash(&mut word);
        Self(word.0)
    }
}

/// Takes the word that a [`TypeId`] hashes.
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

/// A value behind its tag.
#[repr(C)]
pub(super) struct Tagged<T> {
    tag: Tag,
    value: T,
}

impl<T> Tagged<T> {
    pub(super) fn new(tag: Tag, value: T) -> Self {
        Self { tag, value }
    }

    /// Puts the value into a memory context, where it is never dropped.
    ///
    /// # Safety
    /// The context is there, and what the value refers to lives as long as it.
    pub(super) unsafe fn put(self, context: pg_sys::MemoryContext) -> *mut c_void {
        const { assert!(align_of::<Self>() <= 8) };
        // SAFETY: freshly allocated, as large as needed and aligned to 8.
        unsafe {
            let place = pg_sys::MemoryContextAlloc(context, size_of::<Self>()).cast::<Self>();
            place.write(self);
            place.cast()
        }
    }

    /// Puts the value into a memory context, with which it is dropped.
    ///
    /// # Safety
    /// As [`Tagged::put`].
    pub(super) unsafe fn put_and_drop(self, context: pg_sys::MemoryContext) -> *mut c_void {
        PgMemoryContexts::For(context).leak_and_drop_on_delete(self).cast()
    }

    /// Lends the value that a pointer leads to; an error if it is of another type, or lent already.
    ///
    /// # Safety
    /// `place` leads to aligned memory of at least a tag's size, which lives for `'a`. If it begins with this tag, it
    /// is what [`Tagged::put`] or [`Tagged::put_and_drop`] made of a `T`, or of the same with a longer lifetime.
    #[inline]
    pub(super) unsafe fn lend<'a>(place: *mut c_void, tag: Tag) -> Lent<'a, T> {
        // SAFETY: the tag is read alone. Only if it is right, the rest of the value is known to be there. Nobody else
        // has a reference to it: who has one has put another tag there.
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

/// A loan. It ends when this is dropped.
pub struct Lent<'a, T> {
    of: NonNull<Tagged<T>>,
    tag: Tag,
    loan: PhantomData<&'a mut T>,
}

impl<T> Lent<'_, T> {
    /// The value itself. What is left in its place is nobody's.
    pub(super) fn take(self) -> T {
        let of = self.of;
        std::mem::forget(self);
        // SAFETY: as in deref(). Nobody reads it a second time: its tag is not put back.
        unsafe { (&raw mut (*of.as_ptr()).value).read() }
    }
}

impl<T> Deref for Lent<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: lend() has seen that it is a T, and keeps others away from it until the loan ends.
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
        // SAFETY: the memory is there for 'a, whether a panic unwinds or not: the server resets none before the call
        // that the loan was made in is over.
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
