//! The planner's knowledge of an index path, as safe functions.

use super::clause::{Clause, Match, Values};
use super::list::list;
use super::{OpenRel, lock, server};
use pgrx::{is_a, pg_sys};
use skip_scan::cost::Prices;

/// Number of elements that the server assumes for an unknown array (estimate_array_length).
pub const ASSUMED_ELEMENTS: f64 = 10.0;

/// An index path whose cost is estimated.
pub struct IndexPathView {
    root: *mut pg_sys::PlannerInfo,
    path: *mut pg_sys::IndexPath,
    loop_count: f64,
}

/// The cost estimate of a path.
pub struct Costs {
    pub startup: f64,
    pub total: f64,
    /// Estimated fraction of the table's rows that the path fetches.
    pub selectivity: f64,
    pub index_pages: f64,
}

/// The planner's cost parameters for the pages of a tablespace.
pub(super) fn prices(tablespace: pg_sys::Oid) -> Prices {
    let (mut random, mut sequential) = (0.0, 0.0);
    // SAFETY: sets the two numbers; the other is a plain global.
    unsafe {
        pg_sys::get_tablespace_page_costs(tablespace, &mut random, &mut sequential);
        Prices { random, sequential, operator: pg_sys::cpu_operator_cost }
    }
}

/// One condition of a path.
pub struct PathCondition<'a> {
    /// 0-based index column.
    pub column: u16,
    /// The clause, if its keys are known during planning.
    pub clause: Option<Clause<Values<'a>>>,
    /// Number of keys, known or estimated.
    pub key_count: f64,
    /// Number of keys, estimated as if they were unknown.
    pub any_count: f64,
}

impl IndexPathView {
    /// # Safety
    /// Both pointers are valid for as long as the view is used.
    pub(super) unsafe fn new(
        root: *mut pg_sys::PlannerInfo,
        path: *mut pg_sys::IndexPath,
        loop_count: f64,
    ) -> Self {
        Self { root, path, loop_count }
    }

    fn index(&self) -> &pg_sys::IndexOptInfo {
        // SAFETY: the planner calls amcostestimate with the path, and keeps it for its run.
        unsafe { &*(*self.path).indexinfo }
    }

    fn table(&self) -> &pg_sys::RelOptInfo {
        // SAFETY: the relation of the index's entry.
        unsafe { &*self.index().rel }
    }

    /// Blocks of the table, by the planner's estimate.
    pub fn table_blocks(&self) -> f64 {
        f64::from(self.table().pages)
    }

    /// Rows of the table, by the planner's estimate.
    pub fn table_rows(&self) -> f64 {
        self.table().tuples
    }

    /// Blocks of the index.
    pub fn index_blocks(&self) -> f64 {
        f64::from(self.index().pages)
    }

    /// Whether the planner was given parameters.
    pub fn has_parameters(&self) -> bool {
        // SAFETY: the planner calls amcostestimate with its state.
        unsafe { has_parameters(self.root) }
    }

    /// The expected number of runs of the path.
    pub fn loop_count(&self) -> f64 {
        self.loop_count.max(1.0)
    }

    /// Opens the index, which the planner has locked; None for a hypothetical index. The planner has also read the size
    /// of its file, which does not become smaller while the index is locked.
    pub fn open_index(&self) -> Option<OpenRel> {
        let info = self.index();
        let open = || OpenRel::index(info.indexoid, lock::Mode::None).known_to_have(info.pages);
        (!info.hypothetical).then(open)
    }

    /// Fraction of the table's rows that satisfy the path's conditions, by the planner's statistics.
    pub fn row_selectivity(&self) -> f64 {
        // SAFETY: lists of the path; clauselist_selectivity only reads them.
        unsafe {
            let clauses = (*self.path).indexclauses;
            let mut quals: *mut pg_sys::List = std::ptr::null_mut();
            for clause in list::<pg_sys::IndexClause>(clauses) {
                quals = pg_sys::lappend(quals, (*clause).rinfo.cast());
            }
            let rel = (*self.index().rel).relid as i32;
            server::clauselist_selectivity(
                self.root,
                quals,
                rel,
                pg_sys::JoinType::JOIN_INNER,
                std::ptr::null_mut(),
            )
        }
    }

    /// The planner's cost parameters for the index.
    pub fn prices(&self) -> Prices {
        prices(self.index().reltablespace)
    }

    /// Cost of a row in a sequential scan: the row itself and the table's restrictions on it.
    pub fn cost_of_row(&self) -> f64 {
        let restrictions = self.table().baserestrictinfo;
        let mut joins = pg_sys::QualCost::default();
        // SAFETY: lists of valid planner nodes; the costs of the path's join conditions, which are not among those of
        // the table, are added to `joins`. The rest are plain globals.
        unsafe {
            for clause in list::<pg_sys::IndexClause>((*self.path).indexclauses) {
                let condition = (*clause).rinfo;
                if !pg_sys::list_member_ptr(restrictions, condition.cast()) {
                    let mut one = pg_sys::QualCost::default();
                    pg_sys::cost_qual_eval_node(&mut one, condition.cast(), self.root);
                    joins.per_tuple += one.per_tuple;
                }
            }
            pg_sys::cpu_tuple_cost + self.table().baserestrictcost.per_tuple + joins.per_tuple
        }
    }

    /// The path's conditions.
    pub fn conditions(&self) -> Vec<PathCondition<'_>> {
        let mut found = Vec::new();
        // SAFETY: lists of valid planner nodes.
        unsafe {
            for clause in list::<pg_sys::IndexClause>((*self.path).indexclauses) {
                let column = (*clause).indexcol;
                for qual in list::<pg_sys::RestrictInfo>((*clause).indexquals) {
                    found.push(self.condition((*qual).clause.cast(), column));
                }
            }
        }
        found
    }

    /// # Safety
    /// `node` is an indexable expression on column `column`, the index key on its left.
    unsafe fn condition(&self, node: *mut pg_sys::Node, column: i16) -> PathCondition<'_> {
        let column = column.max(0) as u16;
        let unknown = |key_count| PathCondition { column, clause: None, key_count, any_count: key_count };
        // SAFETY: the value of the right side of an operator of the column's family.
        let known = |key_type, how, value| unsafe {
            let clause = Clause { index: 0, column, key_type, how, key: () }.evaluated(value);
            let (key_count, any_count) = match how {
                Match::Array => (clause.key.len() as f64, ASSUMED_ELEMENTS),
                Match::Value => (clause.key.len() as f64, 1.0),
                _ => (1.0, 1.0),
            };
            PathCondition { column, clause: Some(clause), key_count, any_count }
        };
        // SAFETY: the node's tag tells its type; an indexable expression has two arguments.
        unsafe {
            let family = *self.index().opfamily.add(usize::from(column));
            if is_a(node, pg_sys::NodeTag::T_NullTest) {
                let is_null =
                    (*node.cast::<pg_sys::NullTest>()).nulltesttype == pg_sys::NullTestType::IS_NULL;
                return known(
                    pg_sys::InvalidOid,
                    if is_null { Match::IsNull } else { Match::IsNotNull },
                    None,
                );
            }
            if is_a(node, pg_sys::NodeTag::T_OpExpr) {
                let op = node.cast::<pg_sys::OpExpr>();
                let Some(value) = self.constant((*op).args) else { return unknown(1.0) };
                return known(right_type((*op).opno, family), Match::Value, value);
            }
            if is_a(node, pg_sys::NodeTag::T_ScalarArrayOpExpr) {
                let op = node.cast::<pg_sys::ScalarArrayOpExpr>();
                let Some(value) = self.constant((*op).args) else {
                    let array = list::<pg_sys::Node>((*op).args).nth(1);
                    return unknown(array.map_or(1.0, |array| array_length(self.root, array)));
                };
                return known(right_type((*op).opno, family), Match::Array, value);
            }
        }
        unknown(1.0)
    }

    /// The second of two arguments, if the planner may evaluate it to a constant for an estimate: Some(None) is NULL.
    ///
    /// # Safety
    /// `args` is the argument list of an indexable expression.
    unsafe fn constant(&self, args: *mut pg_sys::List) -> Option<Option<pg_sys::Datum>> {
        // SAFETY: the planner matched the expression to the index: it has two arguments.
        unsafe { constant(self.root, list::<pg_sys::Node>(args).nth(1)?) }
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
        let value = server::estimate_expression_value(root, expr);
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

/// The type of an operator's right-hand side as its family declares it.
pub(super) fn right_type(operator: pg_sys::Oid, family: pg_sys::Oid) -> pg_sys::Oid {
    let (mut strategy, mut left, mut right) = (0, pg_sys::InvalidOid, pg_sys::InvalidOid);
    // SAFETY: the operator is a member of the family, otherwise the planner would not have matched it to the index.
    unsafe {
        pg_sys::get_op_opfamily_properties(operator, family, false, &mut strategy, &mut left, &mut right)
    };
    right
}
