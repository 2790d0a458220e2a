//! Options: of the index (WITH) and of a column's operator class.

use super::key_kind::KeyKind;
use super::{Rel, compat, fail};
use crate::pg::boundary;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::OnceLock;

/// Bounds of `pages_per_range`, as BRIN's, and the pages of a range if it is not set, from the sweep in
/// docs/options.md.
pub const PAGES_PER_RANGE: (i32, i32, i32) = (1, 131_072, 16);
/// Bounds and default of `false_positive_rate`. ClickHouse's parameters are irregular above 0.2 (see
/// skip_filter::params); below 1e-9 filters would only grow.
pub const FALSE_POSITIVE_RATE: (f64, f64, f64) = (1e-9, 0.2, 0.0001);
/// Bounds and default of `delta_limit`, in kB.
pub const DELTA_LIMIT_KB: (i32, i32, i32) = (64, 1_048_576, 256);
/// Default of `autosummarize`.
pub const AUTOSUMMARIZE: Autosummarize = Autosummarize::Auto;

/// The struct that build_reloptions fills in, as PostgreSQL keeps it in rd_options.
#[repr(C)]
struct RawOptions {
    vl_len: i32,
    pages_per_range: i32,
    false_positive_rate: f64,
    autosummarize: i32,
    delta_limit: i32,
    layout: i32,
}

/// The struct that local_reloptions fills in for a column.
#[repr(C)]
pub(super) struct RawClassOptions {
    vl_len: i32,
    layout: i32,
    pages_per_range: i32,
    false_positive_rate: f64,
}

/// The value of `false_positive_rate` if it is not set.
const RATE_UNSET: f64 = -f64::MAX;
/// The value of `layout` if it is not set.
const LAYOUT_UNSET: i32 = -1;
/// The value of `pages_per_range` if it is not set.
const PAGES_UNSET: i32 = 0;

/// The kind of a column's segments: the option `layout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexLayout {
    /// A filter for each range.
    Filters,
    /// For each key, the ranges that may hold it.
    Map,
    /// Chosen from the data.
    Auto,
}

impl IndexLayout {
    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filters => "filters",
            Self::Map => "map",
            Self::Auto => "auto",
        }
    }

    fn of_raw(raw: i32) -> Option<Self> {
        [Self::Filters, Self::Map, Self::Auto].into_iter().find(|&layout| layout as i32 == raw)
    }
}

/// Who summarizes new block ranges while the table grows: the option `autosummarize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autosummarize {
    /// VACUUM and skip_summarize.
    Off,
    /// Inserts.
    On,
    /// A background worker that inserts start.
    Background,
    /// A background worker if a column has several keys for each value, otherwise inserts: see
    /// [`Options::wants_worker`].
    Auto,
}

impl Autosummarize {
    fn of_raw(raw: i32) -> Self {
        let named = [Self::Off, Self::On, Self::Background];
        named.into_iter().find(|&who| who as i32 == raw).unwrap_or(AUTOSUMMARIZE)
    }
}

/// The values of an option by name, in the server's format: a list that ends with NULL.
struct OptionNames<const N: usize>([pg_sys::relopt_enum_elt_def; N]);

// SAFETY: the names are static, and the list never changes.
unsafe impl<const N: usize> Sync for OptionNames<N> {}

impl<const N: usize> OptionNames<N> {
    /// The list for the server's functions, which only read it.
    fn list(&'static self) -> *mut pg_sys::relopt_enum_elt_def {
        self.0.as_ptr().cast_mut()
    }
}

const fn named(name: &'static std::ffi::CStr, value: i32) -> pg_sys::relopt_enum_elt_def {
    pg_sys::relopt_enum_elt_def { string_val: name.as_ptr(), symbol_val: value }
}

const END_OF_NAMES: pg_sys::relopt_enum_elt_def =
    pg_sys::relopt_enum_elt_def { string_val: std::ptr::null(), symbol_val: 0 };

static LAYOUTS: OptionNames<4> = OptionNames([
    named(c"filters", IndexLayout::Filters as i32),
    named(c"map", IndexLayout::Map as i32),
    named(c"auto", IndexLayout::Auto as i32),
    END_OF_NAMES,
]);

/// This option was a Boolean one. It still accepts the usual words for true and false.
static AUTOSUMMARIZE_NAMES: OptionNames<11> = OptionNames([
    named(c"auto", Autosummarize::Auto as i32),
    named(c"on", Autosummarize::On as i32),
    named(c"off", Autosummarize::Off as i32),
    named(c"background", Autosummarize::Background as i32),
    named(c"true", Autosummarize::On as i32),
    named(c"false", Autosummarize::Off as i32),
    named(c"yes", Autosummarize::On as i32),
    named(c"no", Autosummarize::Off as i32),
    named(c"1", Autosummarize::On as i32),
    named(c"0", Autosummarize::Off as i32),
    END_OF_NAMES,
]);

const LAYOUT_TEXT: &std::ffi::CStr =
    c"Kind of segments: filters, a map from key to block ranges, or chosen from the data";
const LAYOUT_VALUES: &std::ffi::CStr = c"Valid values are \"auto\", \"filters\" and \"map\".";
const AUTOSUMMARIZE_TEXT: &std::ffi::CStr =
    c"Whether new block ranges are summarized while rows are inserted, and by whom";
const AUTOSUMMARIZE_VALUES: &std::ffi::CStr =
    c"Valid values are \"auto\", \"on\", \"off\" and \"background\".";
const PAGES_TEXT: &std::ffi::CStr = c"Number of table pages per block range; not set: chosen from the data";

/// The options of an index.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Heap blocks per range, if it is set; frozen at build.
    pub pages_per_range: Option<u32>,
    /// For all columns without their own rate, if it is set; frozen at build.
    pub false_positive_rate: Option<f64>,
    /// For all columns without their own layout, if it is set; frozen at build.
    pub layout: Option<IndexLayout>,
    /// Who summarizes ranges as the table grows.
    pub autosummarize: Autosummarize,
    /// Bytes of delta pages above which inserts fold the delta.
    pub delta_limit: u64,
}

impl Options {
    /// The current options of an index.
    pub fn of(index: Rel) -> Self {
        // SAFETY: amoptions has made the rd_options of an index of this access method.
        unsafe { Self::from_raw(index.raw_options()) }
    }

    /// The options from the result of amoptions.
    ///
    /// # Safety
    /// `raw` is NULL or a result of amoptions.
    pub(super) unsafe fn from_raw(raw: *mut pg_sys::bytea) -> Self {
        let raw = raw.cast::<RawOptions>();
        if raw.is_null() {
            return Self {
                pages_per_range: None,
                false_positive_rate: None,
                layout: None,
                autosummarize: AUTOSUMMARIZE,
                delta_limit: DELTA_LIMIT_KB.2 as u64 * 1024,
            };
        }
        // SAFETY: not NULL, so build_reloptions has made it, with the size of RawOptions; it is copied before any other
        // call.
        let raw = unsafe { &*raw };
        Self {
            pages_per_range: pages(raw.pages_per_range),
            false_positive_rate: Some(raw.false_positive_rate).filter(|&rate| rate != RATE_UNSET),
            layout: IndexLayout::of_raw(raw.layout),
            autosummarize: Autosummarize::of_raw(raw.autosummarize),
            delta_limit: raw.delta_limit as u64 * 1024,
        }
    }

    /// Whether a background worker summarizes new ranges, if there is room for one.
    ///
    /// With `auto` it does so if a value of some column has several keys. Then summarizing takes a quarter of the time
    /// of inserting or more: docs/inside-benchmarks.md has both. Single keys take a small part of that time, less than
    /// starting a process for a few new blocks.
    pub fn wants_worker(&self, index: Rel) -> bool {
        match self.autosummarize {
            Autosummarize::On | Autosummarize::Off => false,
            Autosummarize::Background => true,
            Autosummarize::Auto => {
                (0..index.key_columns()).any(|column| KeyKind::of_column(index, column).has_several_keys())
            }
        }
    }

    /// The target false-positive rate of a column (0-based). If none is set, it is the default of its kind of keys;
    /// filters of a large table have a lower one.
    pub fn rate_of(&self, index: Rel, column: usize) -> f64 {
        let default = || KeyKind::of_column(index, column).default_rate().unwrap_or(FALSE_POSITIVE_RATE.2);
        self.set_rate_of(index, column).unwrap_or_else(default)
    }

    /// The target false-positive rate of a column (0-based): its operator class's option, or the index's, if one is
    /// set.
    pub fn set_rate_of(&self, index: Rel, column: usize) -> Option<f64> {
        let own = class_options(index, column).map(|own| own.false_positive_rate);
        own.filter(|&rate| rate > 0.0).or(self.false_positive_rate)
    }

    /// Heap blocks per range of a column (0-based): its operator class's option, or the index's, if one is set.
    pub fn pages_of(&self, index: Rel, column: usize) -> Option<u32> {
        class_options(index, column).and_then(|own| pages(own.pages_per_range)).or(self.pages_per_range)
    }

    /// Heap blocks per range of an index. If the option is not set, it is the default, or the smallest multiple of it
    /// that the ranges of all columns divide.
    pub fn pages_of_index(&self, index: Rel) -> u32 {
        let own = || (0..index.key_columns()).filter_map(|column| self.pages_of(index, column));
        self.pages_per_range.unwrap_or_else(|| {
            let all = own().fold(PAGES_PER_RANGE.2 as u64, |all, own| lcm(all, own.into()));
            u32::try_from(all.min(PAGES_PER_RANGE.1 as u64)).unwrap_or(1)
        })
    }

    /// The layout of a column (0-based): its operator class's option, or the index's, if one is set.
    pub fn layout_of(&self, index: Rel, column: usize) -> Option<IndexLayout> {
        class_options(index, column).and_then(|own| IndexLayout::of_raw(own.layout)).or(self.layout)
    }
}

/// A number of pages, if it is set.
fn pages(raw: i32) -> Option<u32> {
    u32::try_from(raw).ok().filter(|&pages| pages > 0)
}

/// The least common multiple of two positive numbers.
fn lcm(a: u64, b: u64) -> u64 {
    (1..=b).map(|times| times.saturating_mul(a)).find(|multiple| multiple.is_multiple_of(b)).unwrap_or(a)
}

/// The options of a column's operator class, if there are any.
pub(super) fn class_options(index: Rel<'_>, column: usize) -> Option<&RawClassOptions> {
    // SAFETY: the relcache holds an array with an entry, NULL or not, for each key column; it lives as long as the
    // index is open. skip_opclass_options defines the entries.
    unsafe {
        let all = pg_sys::RelationGetIndexAttOptions(index.raw(), false);
        let own = if all.is_null() { std::ptr::null_mut() } else { *all.add(column) };
        own.cast::<RawClassOptions>().as_ref()
    }
}

static KIND: OnceLock<u32> = OnceLock::new();

/// Registers the options; called once per process, when the library is loaded.
pub fn register() {
    KIND.get_or_init(|| {
        // SAFETY: called from _PG_init; the strings are static.
        unsafe {
            let kind = pg_sys::add_reloption_kind();
            pg_sys::add_int_reloption(
                kind,
                c"pages_per_range".as_ptr(),
                PAGES_TEXT.as_ptr(),
                PAGES_UNSET,
                PAGES_PER_RANGE.0,
                PAGES_PER_RANGE.1,
                pg_sys::AccessExclusiveLock as i32,
            );
            pg_sys::add_real_reloption(
                kind,
                c"false_positive_rate".as_ptr(),
                c"Target false-positive rate".as_ptr(),
                RATE_UNSET,
                -f64::MAX, // check_rate checks the bounds; the server's message shows only six digits
                f64::MAX,
                pg_sys::AccessExclusiveLock as i32,
            );
            pg_sys::add_enum_reloption(
                kind,
                c"autosummarize".as_ptr(),
                AUTOSUMMARIZE_TEXT.as_ptr(),
                AUTOSUMMARIZE_NAMES.list(),
                AUTOSUMMARIZE as i32,
                AUTOSUMMARIZE_VALUES.as_ptr(),
                pg_sys::ShareUpdateExclusiveLock as i32,
            );
            pg_sys::add_int_reloption(
                kind,
                c"delta_limit".as_ptr(),
                c"Size of the delta, in kilobytes, above which it is folded into the segments".as_ptr(),
                DELTA_LIMIT_KB.2,
                DELTA_LIMIT_KB.0,
                DELTA_LIMIT_KB.1,
                pg_sys::ShareUpdateExclusiveLock as i32,
            );
            pg_sys::add_enum_reloption(
                kind,
                c"layout".as_ptr(),
                LAYOUT_TEXT.as_ptr(),
                LAYOUTS.list(),
                LAYOUT_UNSET,
                LAYOUT_VALUES.as_ptr(),
                pg_sys::AccessExclusiveLock as i32,
            );
            kind
        }
    });
}

/// amoptions.
pub(super) unsafe extern "C-unwind" fn amoptions(
    reloptions: pg_sys::Datum,
    validate: bool,
) -> *mut pg_sys::bytea {
    boundary::callback(|| {
        use pg_sys::relopt_type::{RELOPT_TYPE_ENUM, RELOPT_TYPE_INT, RELOPT_TYPE_REAL};
        let table = [
            compat::relopt(c"pages_per_range", RELOPT_TYPE_INT, offset_of!(RawOptions, pages_per_range)),
            compat::relopt(
                c"false_positive_rate",
                RELOPT_TYPE_REAL,
                offset_of!(RawOptions, false_positive_rate),
            ),
            compat::relopt(c"autosummarize", RELOPT_TYPE_ENUM, offset_of!(RawOptions, autosummarize)),
            compat::relopt(c"delta_limit", RELOPT_TYPE_INT, offset_of!(RawOptions, delta_limit)),
            compat::relopt(c"layout", RELOPT_TYPE_ENUM, offset_of!(RawOptions, layout)),
        ];
        register();
        let kind = KIND.get().copied().unwrap_or_default();
        // SAFETY: the table describes RawOptions.
        unsafe {
            let options: *mut RawOptions = pg_sys::build_reloptions(
                reloptions,
                validate,
                kind,
                size_of::<RawOptions>(),
                table.as_ptr(),
                table.len() as i32,
            )
            .cast();
            if let Some(options) =
                options.as_ref().filter(|options| validate && options.false_positive_rate != RATE_UNSET)
            {
                check_rate(options.false_positive_rate);
            }
            options.cast()
        }
    })
}

/// Raises an error for a false-positive rate out of bounds.
fn check_rate(rate: f64) {
    let (least, most, _) = FALSE_POSITIVE_RATE;
    if !(least..=most).contains(&rate) {
        fail(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("value {} out of bounds for option \"false_positive_rate\"", number(rate)),
            Some(format!("Valid values are between {} and {}.", number(least), number(most))),
            None,
        );
    }
}

/// The number as a user would write it: 1e-9, 0.2.
pub fn number(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 { format!("{value:e}") } else { format!("{value}") }
}

/// Checks a column's options when they are set.
unsafe extern "C-unwind" fn check_class_options(
    _parsed: *mut c_void,
    values: *mut pg_sys::relopt_value,
    count: c_int,
) {
    boundary::callback(|| {
        for i in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the server passes `count` values, each with its definition; a real option has a real value.
            let rate = unsafe {
                let value = &*values.add(i);
                let is_real = (*value.gen_).type_ == pg_sys::relopt_type::RELOPT_TYPE_REAL;
                (value.isset && is_real).then_some(value.values.real_val)
            };
            rate.into_iter().for_each(check_rate);
        }
    })
}

/// Support function 2 of operator classes: the options of every column.
#[pg_extern(sql = false)]
fn skip_opclass_options(options: pgrx::Internal) {
    boundary::callback(|| {
        let Some(datum) = options.into_datum() else { return };
        // SAFETY: PostgreSQL calls this function with a local_relopts, and nothing else can: the argument is internal.
        unsafe { define(datum.cast_mut_ptr(), size_of::<RawClassOptions>()) };
    })
}

/// Defines the options of every column, in a struct of `size` bytes that begins with [`RawClassOptions`].
///
/// # Safety
/// `options` is what PostgreSQL passed to support function 2 of an operator class.
pub(super) unsafe fn define(options: *mut pg_sys::local_relopts, size: usize) {
    // SAFETY: the server fills the list in; the strings are static, and the offsets are those of RawClassOptions.
    unsafe {
        pg_sys::init_local_reloptions(options, size);
        pg_sys::add_local_real_reloption(
            options,
            c"false_positive_rate".as_ptr(),
            c"Target false-positive rate".as_ptr(),
            -1.0, // not set: the index's rate
            -f64::MAX,
            f64::MAX,
            offset_of!(RawClassOptions, false_positive_rate) as i32,
        );
        pg_sys::add_local_enum_reloption(
            options,
            c"layout".as_ptr(),
            LAYOUT_TEXT.as_ptr(),
            LAYOUTS.list(),
            LAYOUT_UNSET,
            LAYOUT_VALUES.as_ptr(),
            offset_of!(RawClassOptions, layout) as i32,
        );
        pg_sys::add_local_int_reloption(
            options,
            c"pages_per_range".as_ptr(),
            PAGES_TEXT.as_ptr(),
            PAGES_UNSET,
            PAGES_PER_RANGE.0,
            PAGES_PER_RANGE.1,
            offset_of!(RawClassOptions, pages_per_range) as i32,
        );
        pg_sys::register_reloptions_validator(options, Some(check_class_options));
    }
}
