//! The planner's statistics for a restriction estimator: how many rows an operator matches.

use super::datum::{Repr, Value};
use super::function::Call;
use super::varlena::Varlena;
use pgrx::pg_sys;

/// STATISTIC_KIND_MCV and STATISTIC_KIND_HISTOGRAM of pg_statistic.h.
const MOST_COMMON: i32 = 1;
const HISTOGRAM: i32 = 2;

/// A column and the constant with which it is compared.
pub struct Known<'a> {
    /// The constant.
    pub constant: Varlena<'a>,
    pub column_type: pg_sys::Oid,
    pub collation: pg_sys::Oid,
    /// The column's most common values and their frequencies, as fractions of the rows; empty if the user may not see
    /// them.
    pub common: Vec<(Value<'a>, f64)>,
    /// The bounds of the histogram of the other values; empty if the values have no order.
    pub sample: Vec<Value<'a>>,
    /// Number of distinct values.
    pub distinct: f64,
    pub null_fraction: f64,
}

/// The arguments of a restriction estimator, if they are a column and a constant of variable length.
pub fn restriction<'a>(call: &'a Call<'_>) -> Option<Known<'a>> {
    let (root, arguments) = (call.pointer(0)?, call.pointer(2)?);
    let relation = call.integer(3)? as i32;
    let mut column = pg_sys::VariableStatData::default();
    let (mut other, mut is_left) = (std::ptr::null_mut(), false);
    // SAFETY: the planner's arguments of a restriction estimator: root, operator, arguments, relation.
    let found = unsafe {
        pg_sys::get_restriction_variable(
            root.cast(),
            arguments.cast(),
            relation,
            &mut column,
            &mut other,
            &mut is_left,
        )
    };
    if !found {
        return None;
    }
    // SAFETY: set above; released below.
    let known = unsafe { known(call, &mut column, other) };
    // SAFETY: the same as ReleaseVariableStats.
    unsafe {
        if let (false, Some(free)) = (column.statsTuple.is_null(), column.freefunc) {
            free(column.statsTuple);
        }
    }
    known
}

/// # Safety
/// `column` has the statistics that the planner found, and `other` is the expression with which the column is compared.
unsafe fn known<'a>(
    call: &'a Call<'_>,
    column: &mut pg_sys::VariableStatData,
    other: *mut pg_sys::Node,
) -> Option<Known<'a>> {
    // SAFETY: get_restriction_variable has set `column`, and `other` is a node of the query. restriction() frees the
    // statistics tuple, if there is one, after this call.
    unsafe {
        if !pgrx::is_a(other, pg_sys::NodeTag::T_Const) {
            return None;
        }
        let constant = &*other.cast::<pg_sys::Const>();
        if constant.constisnull || constant.constlen != -1 {
            return None;
        }
        let mut is_default = false;
        let distinct = pg_sys::get_variable_numdistinct(column, &mut is_default);
        let (mut common, mut sample, mut null_fraction) = (Vec::new(), Vec::new(), 0.0);
        if !column.statsTuple.is_null() {
            let statistics = &*pg_sys::GETSTRUCT(column.statsTuple).cast::<pg_sys::FormData_pg_statistic>();
            null_fraction = f64::from(statistics.stanullfrac);
            if column.acl_ok {
                common = values(column, MOST_COMMON);
                sample = values(column, HISTOGRAM).into_iter().map(|(value, _)| value).collect();
            }
        }
        Some(Known {
            constant: Varlena::new(constant.constvalue),
            column_type: column.vartype,
            collation: call.collation(),
            common,
            sample,
            distinct,
            null_fraction,
        })
    }
}

/// The values in the statistics, and their frequencies if the statistics have them.
///
/// # Safety
/// The column has statistics.
unsafe fn values<'a>(column: &pg_sys::VariableStatData, kind: i32) -> Vec<(Value<'a>, f64)> {
    let mut slot = pg_sys::AttStatsSlot::default();
    let numbers = if kind == MOST_COMMON { pg_sys::ATTSTATSSLOT_NUMBERS } else { 0 };
    let flags = (pg_sys::ATTSTATSSLOT_VALUES | numbers) as i32;
    // SAFETY: known() has checked that there is a statistics tuple. The values are copies in the planner's memory, and
    // stay valid because the slot is not freed.
    unsafe {
        if !pg_sys::get_attstatsslot(&mut slot, column.statsTuple, kind, pg_sys::InvalidOid, flags) {
            return Vec::new();
        }
        let count = usize::try_from(slot.nvalues).unwrap_or(0);
        let frequencies = usize::try_from(slot.nnumbers).unwrap_or(0);
        let repr = Repr::of_type(slot.valuetype);
        let frequency = |i| if i < frequencies { f64::from(*slot.numbers.add(i)) } else { 0.0 };
        (0..count).map(|i| (Value::new(*slot.values.add(i), repr), frequency(i))).collect()
    }
}
