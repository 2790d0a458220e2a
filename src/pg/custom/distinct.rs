//! The hook by which the planner gets a column's number of distinct values from a skip index.
//!
//! ANALYZE estimates that number from a sample of rows, and of a large table it is often wrong by orders of magnitude.
//! The planner then expects the wrong number of rows for each key of a join, and of groups. If an index knows the
//! number, the planner gets a copy of the column's statistics with it.
//!
//! The statistics that ANALYZE made are left alone where the two numbers agree, where ANALYZE has found fewer values
//! and lists them all, where the column's options set a number, and where the current user, or the owner of the view
//! through which the table is read, may not read the whole table: what the planner may then do with statistics is the
//! server's to decide.
//!
//! The structure that the hook fills is not always initialized (brincostestimate): what stands in it is never followed.

use super::table::Table;
use super::{implementation, plan};
use crate::pg::{boundary, catalog, compat, settings};
use pgrx::pg_sys;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static PREVIOUS: OnceLock<pg_sys::get_relation_stats_hook_type> = OnceLock::new();

/// The numbers of ANALYZE and of the index agree if neither is more than this number of times the other: a sample of
/// the index may be wrong by a tenth, and rows that are gone may have a fifth of its pairs.
const AGREE: f64 = 1.5;

/// The least number of rows of a table whose indexes are asked: ANALYZE reads 30,000 rows, by default, and knows enough
/// of tables that are not much larger.
const LEAST_ROWS: f64 = 100_000.0;

/// Installs the hook, which calls the one that was installed before it.
pub(super) fn install() {
    // SAFETY: called from _PG_init, by the only thread.
    unsafe {
        PREVIOUS.get_or_init(|| {
            let previous = pg_sys::get_relation_stats_hook;
            pg_sys::get_relation_stats_hook = Some(get_relation_stats);
            previous
        });
    }
}

/// get_relation_stats_hook: returns whether it has set the statistics of a column.
unsafe extern "C-unwind" fn get_relation_stats(
    root: *mut pg_sys::PlannerInfo,
    rte: *mut pg_sys::RangeTblEntry,
    attribute: pg_sys::AttrNumber,
    data: *mut pg_sys::VariableStatData,
) -> bool {
    boundary::callback(|| {
        // SAFETY: the arguments come from PostgreSQL, whose structures live as long as the planner's run.
        unsafe {
            if let Some(Some(previous)) = PREVIOUS.get()
                && boundary::call(|| previous(root, rte, attribute, data))
            {
                return true;
            }
            if attribute <= 0 || !settings::enable_distinct() || !(*rte).securityQuals.is_null() {
                return false;
            }
            // The costs of a btree ask without an expression, and are left to the server's own statistics. Those of
            // BRIN ask with any value here, valid pointer or not, and use nothing but the correlation of what they get.
            if (*data).var.is_null() {
                return false;
            }
            let Some(table) = table_of(root, rte) else { return false };
            let reader = compat::reader(table.rel, rte);
            let Some(tuple) = statistics_with_distinct(&table, attribute, reader) else {
                return false;
            };
            (*data).statsTuple = tuple;
            (*data).freefunc = Some(free_tuple);
            (*data).acl_ok = true;
            true
        }
    })
}

/// The number of the table that was asked for last: the planner asks for one partition after the other.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// The table of an entry of the query, if it has skip indexes and many rows. The entry may be that of a subquery, whose
/// planner's state is `root` then.
///
/// # Safety
/// The arguments are the planner's.
unsafe fn table_of<'a>(root: *mut pg_sys::PlannerInfo, rte: *mut pg_sys::RangeTblEntry) -> Option<Table<'a>> {
    // SAFETY: both arrays have simple_rel_array_size entries, of which those of rels may be NULL.
    unsafe {
        if (*rte).rtekind != pg_sys::RTEKind::RTE_RELATION || (*root).simple_rte_array.is_null() {
            return None;
        }
        let size = usize::try_from((*root).simple_rel_array_size).unwrap_or(0);
        let is_it = |number: &usize| *(*root).simple_rte_array.add(*number) == rte;
        // A search for each partition would take time in proportion to the square of their number.
        let last = LAST.load(Ordering::Relaxed);
        let guesses = (last..last.saturating_add(2)).filter(|number| (1..size).contains(number));
        let number = guesses.chain(1..size).find(is_it)?;
        LAST.store(number, Ordering::Relaxed);
        let rel = *(*root).simple_rel_array.add(number);
        if rel.is_null() || (*rel).indexlist.is_null() || (*rel).tuples < LEAST_ROWS {
            return None;
        }
        Table::new(root, rel, rte, plan::ours())
    }
}

/// A copy of the statistics of a table's column with the number of distinct values that an index knows, if that is
/// another one. `reader` is the owner of the view through which the table is read, if there is one.
fn statistics_with_distinct(
    table: &Table<'_>,
    attribute: i16,
    reader: pg_sys::Oid,
) -> Option<pg_sys::HeapTuple> {
    // Functions of the view see what the statistics contain.
    let may_read = || {
        catalog::may_read(table.oid())
            && (reader == pg_sys::InvalidOid || catalog::may_be_read_by(table.oid(), reader))
    };
    let is_allowed = || may_read() && !catalog::sets_distinct(table.oid(), attribute);
    // SAFETY: a syscache tuple, which is copied, and released. The copy's fixed part is a pg_statistic row.
    unsafe {
        let tuple = pg_sys::SearchSysCache3(
            pg_sys::SysCacheIdentifier::STATRELATTINH as i32,
            table.oid().into(),
            attribute.into(),
            false.into(),
        );
        if tuple.is_null() {
            return None;
        }
        let collation = catalog::column_collation(table.oid(), attribute);
        let Some(distinct) = implementation().distinct(table, attribute, collation) else {
            pg_sys::ReleaseSysCache(tuple);
            return None;
        };
        let row = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_statistic>();
        let values = table.rows() * (1.0 - f64::from((*row).stanullfrac));
        let distinct = distinct.min(values).max(1.0);
        // Negative: a fraction of the rows.
        let known = match f64::from((*row).stadistinct) {
            fraction if fraction < 0.0 => -fraction * table.rows(),
            number => number,
        };
        let is_less = distinct > known * AGREE && !lists_all_values(tuple, (*row).stanullfrac);
        let differs = is_less || known > distinct * AGREE;
        let copy = (differs && is_allowed()).then(|| {
            let copy = pg_sys::heap_copytuple(tuple);
            let row = pg_sys::GETSTRUCT(copy).cast::<pg_sys::FormData_pg_statistic>();
            (*row).stadistinct = distinct as f32;
            copy
        });
        pg_sys::ReleaseSysCache(tuple);
        copy
    }
}

/// Whether ANALYZE's list of common values has all values of its sample. Then it knows their number, and an index that
/// knows more has keys of rows that are gone.
///
/// # Safety
/// `tuple` is a row of pg_statistic.
unsafe fn lists_all_values(tuple: pg_sys::HeapTuple, null_fraction: f32) -> bool {
    /// A list that ANALYZE has cut short leaves out more.
    const ALL: f32 = 0.999;
    // SAFETY: the slot is filled by the first call if that returns true, and freed once.
    unsafe {
        let mut slot = pg_sys::AttStatsSlot::default();
        let (kind, parts) = (pg_sys::STATISTIC_KIND_MCV as i32, pg_sys::ATTSTATSSLOT_NUMBERS as i32);
        if !pg_sys::get_attstatsslot(&mut slot, tuple, kind, pg_sys::InvalidOid, parts) {
            return false;
        }
        let listed: f32 =
            (0..usize::try_from(slot.nnumbers).unwrap_or(0)).map(|i| *slot.numbers.add(i)).sum();
        pg_sys::free_attstatsslot(&mut slot);
        listed >= ALL * (1.0 - null_fraction)
    }
}

/// Frees the copy, as the planner demands.
unsafe extern "C-unwind" fn free_tuple(tuple: pg_sys::HeapTuple) {
    // SAFETY: the planner passes the tuple that it was given, once.
    boundary::callback(|| unsafe { pg_sys::heap_freetuple(tuple) })
}
