//! The Skip Index Scan in PostgreSQL's terms: a custom path, a custom plan, an executor node, and the hooks that add
//! them.
//!
//! | file | content |
//! |---|---|
//! | [`table`], [`expr`] | what the planner knows about a table and about the conditions of a query |
//! | [`joins`] | other tables whose values a path needs |
//! | [`describe`] | descriptions of both for messages |
//! | [`plan`] | hooks, paths, plans |
//! | [`distinct`] | the hook that gives the planner the number of distinct values of a column |
//! | [`exec`] | the executor node |
//! | [`ordering`] | the order that a query wants, and a column that has it |
//! | [`heap_rows`] | reading the rows of the surviving pages, in the order of [`skip_scan::blocks`] |
//! | [`raw`] | a test of rows in the form in which they are on a page |
//! | [`explain`] | EXPLAIN |
//!
//! An [`Implementation`] decides what to plan and what to read. This folder translates between it and PostgreSQL.

mod column_offset;
pub mod describe;
mod distinct;
pub mod document;
mod exec;
mod explain;
mod explain_bitmap;
pub mod expr;
mod heap_rows;
pub mod index;
pub mod joins;
mod known_table;
pub mod ordering;
pub mod plan;
mod raw;
pub mod table;

use super::clause::{Clause, Values};
use super::library::{self, BUILD};
use super::list::{integers, list};
use super::server::unguarded;
use super::{Rel, boundary, fail};
use crate::pg::plan_tree::BitmapColumn;
use expr::Expr;
use ordering::{OrderedColumn, SortColumn};
use pgrx::{PgSqlErrorCode, pg_sys};
use plan::Expected;
use skip_scan::blocks::{ScanCounters, Survivors};
use std::any::Any;
use std::ffi::CStr;
use std::sync::OnceLock;
use table::Table;

/// What a Skip Index Scan does, as safe functions.
pub trait Implementation: Sync {
    /// Called when a run of the planner begins, with the text of the query. The result is dropped when the run ends,
    /// also by an error.
    fn planning(&self, text: Option<&CStr>) -> Box<dyn Any>;
    /// Adds paths to a table that is being planned.
    fn add_paths(&self, table: &Table<'_>);
    /// The number of distinct values of a column of the table, which is compared under a collation; None if no index
    /// knows it.
    fn distinct(&self, table: &Table<'_>, attribute: i16, collation: pg_sys::Oid) -> Option<f64>;
    /// Decides which of a plan's conditions the indexes serve, and what the plan keeps for the executor. `left_out`
    /// tells for each condition whether the path was made not to look it up. `order` is the index and its column
    /// (0-based) in whose order the path returns rows.
    fn plan<'a>(
        &self,
        table: &Table<'a>,
        conditions: &[Expr<'a>],
        left_out: &[bool],
        order: Option<(pg_sys::Oid, u16)>,
    ) -> Planned<'a>;
    /// Whether somebody asks why this planner run uses an index or not.
    fn is_explaining(&self) -> bool;
    /// Called, if so, when the run has a plan: with the indexes that its bitmap scans read, and the columns (0-based).
    fn planned(&self, bitmaps: &[BitmapColumn]);
    /// The survivors of a table of `blocks` blocks. `code` and `indexes` come from [`Implementation::plan`]; `key`
    /// evaluates a clause's key.
    fn survivors<'k>(
        &self,
        code: &[i32],
        blocks: u32,
        indexes: &[Rel<'_>],
        key: &mut dyn FnMut(&Clause<Option<u16>>) -> Clause<Values<'k>>,
    ) -> Survivors;
    /// What an index column (0-based) of a table of `blocks` blocks knows of the order of its rows; None if nothing.
    fn ordered_column(&self, index: Rel<'_>, column: u16, blocks: u32) -> Option<OrderedColumn>;
    /// Number of block ranges of its table that an index has not summarized; None if the index is damaged.
    fn unsummarized(&self, index: Rel<'_>) -> Option<u32>;
    /// Called when the executor has started a scan of these indexes.
    fn started(&self);
    /// Called when the scan has ended.
    fn finished(&self, indexes: &[pg_sys::Oid], counters: &ScanCounters);
}

/// The data that a plan keeps for the executor.
///
/// custom_private contains a list of integers (expected ranges, ranges of the table, whether the number is exact,
/// number of served conditions, the library's [`BUILD`]), a list of the indexes' OIDs, a list of integers that only the
/// [`Implementation`] understands, and the order of the rows ([`SortColumn`]; an empty list if they come in no order).
#[derive(Default)]
pub struct Planned<'a> {
    /// For each condition whether the indexes serve it.
    pub served: Vec<bool>,
    /// Key expressions.
    pub keys: Vec<Expr<'a>>,
    pub indexes: Vec<pg_sys::Oid>,
    /// The implementation's encoding of the clauses and how they are combined.
    pub code: Vec<i32>,
}

static REGISTERED: OnceLock<&'static dyn Implementation> = OnceLock::new();

/// Registers hooks and node types; called once per process, when the library is loaded.
pub fn register(implementation: &'static dyn Implementation) {
    REGISTERED.get_or_init(|| {
        // SAFETY: a table that lives as long as the process.
        unsafe { pg_sys::RegisterCustomScanMethods(scan_methods()) };
        plan::install();
        explain_bitmap::install();
        distinct::install();
        implementation
    });
}

/// The registered implementation. Only hooks and nodes call this, which exist after the registration.
fn implementation() -> &'static dyn Implementation {
    let Some(&implementation) = REGISTERED.get() else {
        let code = PgSqlErrorCode::ERRCODE_INTERNAL_ERROR;
        fail(code, "the Skip Index Scan is not registered".into(), None, None)
    };
    implementation
}

const NAME: &std::ffi::CStr = c"Skip Index Scan";

/// A table of callbacks that never changes.
#[repr(transparent)]
struct Methods<T>(T);
// SAFETY: only read, and the server has one thread.
unsafe impl<T> Sync for Methods<T> {}

static PATH: Methods<pg_sys::CustomPathMethods> = Methods(pg_sys::CustomPathMethods {
    CustomName: NAME.as_ptr(),
    PlanCustomPath: Some(plan::plan),
    ReparameterizeCustomPathByChild: None,
});
static SCAN: Methods<pg_sys::CustomScanMethods> = Methods(pg_sys::CustomScanMethods {
    CustomName: NAME.as_ptr(),
    CreateCustomScanState: Some(exec::create_state),
});
static EXEC: Methods<pg_sys::CustomExecMethods> = Methods(pg_sys::CustomExecMethods {
    CustomName: NAME.as_ptr(),
    BeginCustomScan: Some(exec::begin),
    ExecCustomScan: Some(exec::exec),
    EndCustomScan: Some(exec::end),
    ReScanCustomScan: Some(exec::rescan),
    MarkPosCustomScan: None,
    RestrPosCustomScan: None,
    EstimateDSMCustomScan: Some(exec::parallel::estimate),
    InitializeDSMCustomScan: Some(exec::parallel::initialize),
    ReInitializeDSMCustomScan: Some(exec::parallel::reinitialize),
    InitializeWorkerCustomScan: Some(exec::parallel::initialize_worker),
    ShutdownCustomScan: Some(exec::parallel::shutdown),
    ExplainCustomScan: Some(explain::explain),
});

fn path_methods() -> *const pg_sys::CustomPathMethods {
    &PATH.0
}

fn scan_methods() -> *const pg_sys::CustomScanMethods {
    &SCAN.0
}

fn exec_methods() -> *const pg_sys::CustomExecMethods {
    &EXEC.0
}

/// # Safety
/// Only in the planner: the list is allocated in the current memory context.
unsafe fn int_list(numbers: &[i32]) -> *mut pg_sys::List {
    // SAFETY: builds a list. There is nothing to drop.
    unsafe { boundary::call(|| unguarded_int_list(numbers)) }
}

/// As [`int_list`], within a [`boundary::call`]: one for all elements.
unsafe fn unguarded_int_list(numbers: &[i32]) -> *mut pg_sys::List {
    // SAFETY: builds a list.
    numbers.iter().fold(std::ptr::null_mut(), |list, &n| unsafe { unguarded::lappend_int(list, n) })
}

/// # Safety
/// As [`int_list`].
unsafe fn encode_expected(expected: &Expected) -> *mut pg_sys::List {
    // SAFETY: as above. Numbers of ranges are stored as the bits of integers.
    unsafe { int_list(&[expected.ranges as i32, expected.of as i32, expected.is_exact.into()]) }
}

/// # Safety
/// `expected` was made by encode_expected.
unsafe fn encode_private(
    expected: *mut pg_sys::List,
    served: usize,
    planned: &Planned<'_>,
    order: *mut pg_sys::List,
) -> *mut pg_sys::List {
    let (indexes, code) = (planned.indexes.as_slice(), planned.code.as_slice());
    let empty: *mut pg_sys::List = std::ptr::null_mut();
    // SAFETY: builds lists of lists; the path's own list is copied. There is nothing to drop.
    unsafe {
        boundary::call(|| {
            let mut head = unguarded::list_copy(expected);
            head = unguarded::lappend_int(head, i32::try_from(served).unwrap_or(i32::MAX));
            head = unguarded::lappend_int(head, BUILD);
            let indexes = indexes.iter().fold(empty, |all, &oid| unguarded::lappend_oid(all, oid));
            let code = unguarded_int_list(code);
            [head, indexes, code, unguarded::list_copy(order)]
                .iter()
                .fold(empty, |all, &part| unguarded::lappend(all, part.cast()))
        })
    }
}

/// The decoded result of [`encode_private`].
struct Private {
    expected: Expected,
    /// Number of served conditions at the front of custom_exprs; the keys follow them.
    served: usize,
    indexes: Vec<pg_sys::Oid>,
    code: Vec<i32>,
    /// The order of the rows.
    order: Option<SortColumn>,
}

impl Private {
    /// # Safety
    /// A plan made by [`plan::plan`].
    unsafe fn of(scan: *mut pg_sys::CustomScan) -> Self {
        // SAFETY: four lists of integers; the second's are OIDs.
        unsafe {
            let parts: Vec<*mut pg_sys::List> = list((*scan).custom_private).collect();
            let numbers = |part: usize| parts.get(part).map(|&list| integers(list)).unwrap_or_default();
            let head = numbers(0);
            let at = |i: usize| head.get(i).copied().unwrap_or(0);
            library::check_build(at(4));
            Self {
                expected: Expected { ranges: at(0) as u32, of: at(1) as u32, is_exact: at(2) != 0 },
                served: at(3).max(0) as usize,
                indexes: numbers(1).into_iter().map(|oid| pg_sys::Oid::from(oid as u32)).collect(),
                code: numbers(2),
                order: SortColumn::decode(&numbers(3)),
            }
        }
    }
}
