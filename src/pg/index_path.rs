//! An index path as amcostestimate gets it, as safe functions.

use super::clause::{Match, Strategy};
use super::custom::expr::{Expr, ExprKind, Leaf, Source};
use super::custom::table::Table;
use super::list::list;
use super::planner;
use pgrx::pg_sys;
use skip_scan::Condition;
use skip_scan::cost::Prices;

/// An index path whose cost is estimated.
pub struct IndexPathView<'a> {
    table: Table<'a>,
    path: &'a pg_sys::IndexPath,
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

impl<'a> IndexPathView<'a> {
    /// # Safety
    /// `root` is the planner's state and `path` one of its index paths. Both live for `'a`.
    pub(super) unsafe fn new(
        root: *mut pg_sys::PlannerInfo,
        path: *mut pg_sys::IndexPath,
        loop_count: f64,
    ) -> Self {
        // SAFETY: the path's index is in the list of its base relation, for which the planner makes the path.
        unsafe { Self { table: Table::of_index(root, (*path).indexinfo), path: &*path, loop_count } }
    }

    /// The table, with the path's index only.
    pub fn table(&self) -> &Table<'a> {
        &self.table
    }

    /// Blocks of the table, by the planner's estimate.
    pub fn table_blocks(&self) -> f64 {
        f64::from(self.table.rel().pages)
    }

    /// The expected number of runs of the path.
    pub fn loop_count(&self) -> f64 {
        self.loop_count.max(1.0)
    }

    /// The planner's cost parameters for the index.
    pub fn prices(&self) -> Prices {
        // SAFETY: the planner's entry for the index lives as long as its state.
        planner::prices(unsafe { (*self.path.indexinfo).reltablespace })
    }

    /// Cost of a row in a sequential scan: the row itself and the table's restrictions on it.
    pub fn cost_of_row(&self) -> f64 {
        let table = self.table.rel();
        // SAFETY: lists of valid planner nodes. The costs of the path's join conditions, which are not among those of
        // the table, are added. The rest are plain globals.
        unsafe {
            let joins = list::<pg_sys::IndexClause>(self.path.indexclauses)
                .map(|clause| (*clause).rinfo)
                .filter(|&condition| !pg_sys::list_member_ptr(table.baserestrictinfo, condition.cast()))
                .map(|condition| self.table.cost_of(Expr::new(condition.cast())));
            pg_sys::cpu_tuple_cost + table.baserestrictcost.per_tuple + joins.sum::<f64>()
        }
    }

    /// The path's conditions, which must all hold; None if it has none that the index can look up.
    pub fn condition(&self) -> Option<Condition<Leaf<'a>>> {
        let mut leaves = Vec::new();
        // SAFETY: lists of valid planner nodes, which live as long as the planner's state.
        unsafe {
            for clause in list::<pg_sys::IndexClause>(self.path.indexclauses) {
                let column = u16::try_from((*clause).indexcol).unwrap_or(u16::MAX);
                for qual in list::<pg_sys::RestrictInfo>((*clause).indexquals) {
                    leaves.extend(self.leaf(Expr::new((*qual).clause.cast()), column));
                }
            }
        }
        Condition::all(leaves.into_iter().map(Condition::Leaf).collect())
    }

    /// The clause of a condition, which the planner has turned so that the index column is on its left.
    fn leaf(&self, condition: Expr<'a>, column: u16) -> Option<Leaf<'a>> {
        let &[index] = self.table.indexes() else { return None };
        let nothing = (Strategy::Equal, pg_sys::InvalidOid);
        let (how, (strategy, key_type), key) = match condition.kind() {
            ExprKind::IsNull(_) => (Match::IsNull, nothing, None),
            ExprKind::IsNotNull(_) => (Match::IsNotNull, nothing, None),
            ExprKind::Operator(c) => (Match::Value, index.comparison(column, c.operator)?, Some(c.right)),
            ExprKind::AnyOf(c) => (Match::Array, index.comparison(column, c.operator)?, Some(c.right)),
            _ => return None,
        };
        Some(Leaf { index: 0, column, key_type, strategy, path: 0, how, key: Source { key, condition } })
    }
}
