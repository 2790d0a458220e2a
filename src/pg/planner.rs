//! What the planner knows, and how it evaluates expressions for its estimates.

use super::list::list;
use super::server;
use pgrx::{is_a, pg_sys};
use skip_scan::cost::Prices;

/// Number of elements that the server assumes for an unknown array (estimate_array_length).
pub const ASSUMED_ELEMENTS: f64 = 10.0;

/// The planner's cost parameters for the pages of a tablespace.
pub(super) fn prices(tablespace: pg_sys::Oid) -> Prices {
    let (mut random, mut sequential) = (0.0, 0.0);
    // SAFETY: sets the two numbers; the other is a plain global.
    unsafe {
        pg_sys::get_tablespace_page_costs(tablespace, &mut random, &mut sequential);
        Prices { random, sequential, operator: pg_sys::cpu_operator_cost }
    }
}

/// The value of an expression, if the planner may evaluate it to a constant for an estimate: Some(None) is NULL.
///
/// # Safety
/// `root` is the planner's state, and the expression is valid.
pub(super) unsafe fn constant(
    root: *mut pg_sys::PlannerInfo,
    expr: *mut pg_sys::Node,
) -> Option<Option<pg_sys::Datum>> {
    // SAFETY: the planner is running, and the expression belongs to its query. estimate_expression_value changes a
    // copy; it evaluates stable functions, too.
    unsafe {
        let is_constant = is_a(expr, pg_sys::NodeTag::T_Const);
        let value = if is_constant { expr } else { server::estimate_expression_value(root, expr) };
        if !is_a(value, pg_sys::NodeTag::T_Const) {
            return None;
        }
        let value = value.cast::<pg_sys::Const>();
        Some((!(*value).constisnull).then_some((*value).constvalue))
    }
}

/// Whether the planner was given parameters.
///
/// # Safety
/// `root` is the planner's state.
pub(super) unsafe fn has_parameters(root: *mut pg_sys::PlannerInfo) -> bool {
    // SAFETY: the planner is running, and keeps its global state for the run.
    unsafe { !(*(*root).glob).boundParams.is_null() }
}

/// Number of elements of an array: the plan's estimate for a subquery that makes the array, otherwise the server's
/// estimate, which is ten for an unknown array.
///
/// # Safety
/// `root` is the planner's state, and `array` a valid expression of its query.
pub(super) unsafe fn array_length(root: *mut pg_sys::PlannerInfo, array: *mut pg_sys::Node) -> f64 {
    // SAFETY: the planner is running, and the expression belongs to its query. The number of a subplan counts from 1.
    unsafe {
        let mut plain = array;
        while is_a(plain, pg_sys::NodeTag::T_RelabelType) {
            plain = (*plain.cast::<pg_sys::RelabelType>()).arg.cast();
        }
        if is_a(plain, pg_sys::NodeTag::T_Param) {
            let param = plain.cast::<pg_sys::Param>();
            let gives = |plan: &*mut pg_sys::SubPlan| {
                (**plan).subLinkType == pg_sys::SubLinkType::ARRAY_SUBLINK
                    && super::list::integers((**plan).setParam).contains(&(*param).paramid)
            };
            let is_result = (*param).paramkind == pg_sys::ParamKind::PARAM_EXEC;
            let subplan = list::<pg_sys::SubPlan>((*root).init_plans).find(gives).filter(|_| is_result);
            let number = subplan.and_then(|plan| usize::try_from((*plan).plan_id - 1).ok());
            let plan = number.and_then(|number| list::<pg_sys::Plan>((*(*root).glob).subplans).nth(number));
            if let Some(plan) = plan.filter(|plan| !plan.is_null()) {
                return (*plan).plan_rows.max(1.0);
            }
        }
        super::compat::array_length(root, plain).max(1.0)
    }
}
