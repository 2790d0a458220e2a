//! Options of the operator classes that cut text: how long the pieces are, and whether case is folded.
//!
//! The keys of an index depend on them, so they are frozen with the keys ([`crate::hash`]).

use super::key_kind::KeyKind;
use super::options::{self, RawClassOptions};
use super::{Rel, boundary};
use pgrx::pg_sys;
use pgrx::prelude::*;
use skip_text::{ngrams, prefixes};
use std::ffi::CStr;
use std::mem::offset_of;

/// Characters of a fragment if the option `n` is not set.
const FRAGMENT: i32 = 4;
/// Characters of a prefix if the option `length` is not set.
const PREFIX: i32 = 8;

/// The struct that local_reloptions fills in for a column of text. It begins as that of every column.
#[repr(C)]
struct RawTextOptions {
    class: RawClassOptions,
    length: i32,
    fold_case: bool,
}

/// The options of a column whose text is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOptions {
    /// Characters of a fragment or prefix.
    pub length: usize,
    /// Whether keys are made of the value with its case folded.
    pub fold_case: bool,
}

impl TextOptions {
    /// The options of a column for which none are set, in a class of this kind.
    pub fn by_default(kind: KeyKind) -> Self {
        let length = if kind == KeyKind::Prefix { PREFIX } else { FRAGMENT };
        Self { length: length as usize, fold_case: false }
    }

    /// The options of a column (0-based); None if its operator class does not define them.
    pub fn of_column(index: Rel<'_>, column: usize) -> Option<Self> {
        let class = options::class_options(index, column)?;
        // SAFETY: every struct of options begins with its size in a varlena's header. If it is that of RawTextOptions,
        // define_text has defined the struct.
        unsafe {
            let raw: *const RawTextOptions = (&raw const *class).cast();
            if pgrx::varsize_any(raw.cast()) != size_of::<RawTextOptions>() {
                return None;
            }
            Some(Self { length: usize::try_from((*raw).length).ok()?, fold_case: (*raw).fold_case })
        }
    }
}

/// A length that an option sets: its name, its text, the least and the most, and the default.
type Length = (&'static CStr, &'static CStr, std::ops::RangeInclusive<usize>, i32);

/// Defines the options of a class that cuts text.
///
/// # Safety
/// As [`options::define`].
unsafe fn define_text(options: *mut pg_sys::local_relopts, has_case: bool, length: Option<Length>) {
    // SAFETY: as the caller says; the strings are static, and the offsets are those of RawTextOptions.
    unsafe {
        options::define(options, size_of::<RawTextOptions>());
        if has_case {
            pg_sys::add_local_bool_reloption(
                options,
                c"fold_case".as_ptr(),
                c"Keys of the value with its case folded, for searches that ignore case".as_ptr(),
                false,
                offset_of!(RawTextOptions, fold_case) as i32,
            );
        }
        if let Some((name, text, bounds, default)) = length {
            pg_sys::add_local_int_reloption(
                options,
                name.as_ptr(),
                text.as_ptr(),
                default,
                *bounds.start() as i32,
                *bounds.end() as i32,
                offset_of!(RawTextOptions, length) as i32,
            );
        }
    }
}

/// Support function 2 of text_ngram_skip_ops.
#[pg_extern(sql = false)]
fn skip_text_ngram_options(options: pgrx::Internal) {
    boundary::callback(|| {
        let Some(datum) = options.into_datum() else { return };
        let length = (c"n", c"Number of characters of a fragment", ngrams::LENGTHS, FRAGMENT);
        // SAFETY: PostgreSQL calls this function with a local_relopts, and nothing else can: the argument is internal.
        unsafe { define_text(datum.cast_mut_ptr(), true, Some(length)) };
    })
}

/// Support function 2 of text_token_skip_ops.
#[pg_extern(sql = false)]
fn skip_text_token_options(options: pgrx::Internal) {
    boundary::callback(|| {
        let Some(datum) = options.into_datum() else { return };
        // SAFETY: PostgreSQL calls this function with a local_relopts, and nothing else can: the argument is internal.
        unsafe { define_text(datum.cast_mut_ptr(), true, None) };
    })
}

fn prefix() -> Length {
    (c"length", c"Number of characters of the prefix", prefixes::LENGTHS, PREFIX)
}

/// Support function 2 of text_prefix_skip_ops.
#[pg_extern(sql = false)]
fn skip_text_prefix_options(options: pgrx::Internal) {
    boundary::callback(|| {
        let Some(datum) = options.into_datum() else { return };
        // SAFETY: PostgreSQL calls this function with a local_relopts, and nothing else can: the argument is internal.
        unsafe { define_text(datum.cast_mut_ptr(), true, Some(prefix())) };
    })
}

/// Support function 2 of bytea_prefix_skip_ops.
#[pg_extern(sql = false)]
fn skip_bytea_prefix_options(options: pgrx::Internal) {
    boundary::callback(|| {
        let Some(datum) = options.into_datum() else { return };
        // SAFETY: PostgreSQL calls this function with a local_relopts, and nothing else can: the argument is internal.
        unsafe { define_text(datum.cast_mut_ptr(), false, Some(prefix())) };
    })
}
