//! The handler of the access method: the table of callbacks, each in its own file.

use super::insert;
use super::insert::InsertStatement;
use super::{bitmap_scan, build, concurrent_build, cost, phase, vacuum, validate};
use crate::pg::am::{InsertCache, TupleAddress};
use crate::pg::clause::{Clause, Values};
use crate::pg::evaluate::IndexRow;
use crate::pg::index_path::{Costs, IndexPathView};
use crate::pg::{Rel, am, boundary};
use pgrx::prelude::*;
use pgrx::{PgBox, pg_sys};
use std::ffi::CStr;

/// The access method.
struct SkipMethod;

impl am::AccessMethod for SkipMethod {
    fn build(heap: Rel, index: Rel, workers: u32, is_new: bool) -> (f64, f64) {
        build::build(heap, index, workers, is_new)
    }

    fn build_empty(index: Rel) {
        build::build_empty(index);
    }

    type InsertState = InsertStatement;

    fn insert(
        heap: Rel,
        index: Rel,
        row: &IndexRow<'_>,
        place: TupleAddress,
        cache: InsertCache<'_, InsertStatement>,
    ) {
        insert::insert(heap, index, row, place, cache);
    }

    fn before_valid(heap: Rel, index: Rel, has: &mut dyn FnMut(TupleAddress)) {
        concurrent_build::add_missed_rows(heap, index, has);
    }

    fn vacuum_cleanup(heap: Rel, index: Rel) {
        vacuum::vacuum_cleanup(heap, index);
    }

    fn bitmap(heap: Rel, index: Rel, clauses: &[Clause<Values<'_>>], add: &mut dyn FnMut(u64, u64)) -> i64 {
        bitmap_scan::bitmap(heap, index, clauses, add)
    }

    fn cost(path: &IndexPathView<'_>) -> Costs {
        cost::cost(path)
    }

    fn validate(class: pg_sys::Oid) -> bool {
        validate::validate(class)
    }

    fn phase_name(phase: i64) -> Option<&'static CStr> {
        phase::name(phase)
    }
}

/// The handler function of `CREATE ACCESS METHOD skip`.
#[pg_extern(sql = false)]
fn skip_handler(_fcinfo: pg_sys::FunctionCallInfo) -> PgBox<pg_sys::IndexAmRoutine> {
    boundary::callback(am::routine::<SkipMethod>)
}
