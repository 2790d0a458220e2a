//! Planner hooks: they add paths to a table, and make a plan of the chosen path.
//!
//! A path contains the expected number of ranges, for EXPLAIN, the order of its rows, and the conditions that it does
//! not look up (in custom_private: two lists of integers, then these conditions). The keys are determined again from
//! the conditions that the planner passes when it makes the plan, because conditions are translated for child tables.
//! The plan never contains an answer of the index.
//!
//! custom_exprs of the plan holds first the conditions that the index serves (Index Cond), then the key expressions.
//! The server adjusts both like those of its own nodes. For custom_private see [`super::Planned`].

use super::super::list::{integers, list};
use super::expr::Expr;
use super::joins::Outer;
use super::ordering::{SortColumn, WantedOrder};
use super::table::{Qual, Table};
use super::{Planned, encode_private, implementation};
use crate::pg::{boundary, plan_tree, planner, server, settings};
use pgrx::pg_sys;
use skip_scan::cost::Prices;
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Address of the access method's amcostestimate, by which the hooks recognize a skip index in the planner's
/// structures.
static COST_ESTIMATE: AtomicUsize = AtomicUsize::new(0);

/// Makes the access method known to the hooks.
pub(in crate::pg) fn announce(cost_estimate: usize) {
    COST_ESTIMATE.store(cost_estimate, Ordering::Relaxed);
}

/// Address of the access method's amcostestimate.
pub(super) fn ours() -> usize {
    COST_ESTIMATE.load(Ordering::Relaxed)
}

static PREVIOUS_PATHS: OnceLock<pg_sys::set_rel_pathlist_hook_type> = OnceLock::new();
static PREVIOUS_INFO: OnceLock<pg_sys::get_relation_info_hook_type> = OnceLock::new();
static PREVIOUS_PLANNER: OnceLock<pg_sys::planner_hook_type> = OnceLock::new();

/// Installs the hooks; each calls the one that was installed before it.
pub(super) fn install() {
    // SAFETY: called from _PG_init, by the only thread.
    unsafe {
        PREVIOUS_PATHS.get_or_init(|| {
            let previous = pg_sys::set_rel_pathlist_hook;
            pg_sys::set_rel_pathlist_hook = Some(set_rel_pathlist);
            previous
        });
        PREVIOUS_INFO.get_or_init(|| {
            let previous = pg_sys::get_relation_info_hook;
            pg_sys::get_relation_info_hook = Some(get_relation_info);
            previous
        });
        PREVIOUS_PLANNER.get_or_init(|| {
            let previous = pg_sys::planner_hook;
            pg_sys::planner_hook = Some(planner);
            previous
        });
    }
}

/// planner_hook: one run of the planner. Runs may be nested, because functions are evaluated while a query is planned.
/// If the library is loaded during a run, the hook is not called for that run.
unsafe extern "C-unwind" fn planner(
    query: *mut pg_sys::Query,
    text: *const std::ffi::c_char,
    options: std::ffi::c_int,
    params: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    boundary::callback(|| {
        // SAFETY: the server passes the text of the query that it plans, or NULL.
        let query_text = unsafe { (!text.is_null()).then(|| CStr::from_ptr(text)) };
        let _run = implementation().planning(query_text);
        // SAFETY: the arguments come from PostgreSQL; the result is a plan.
        unsafe {
            let planned = match PREVIOUS_PLANNER.get() {
                Some(Some(previous)) => boundary::call(|| previous(query, text, options, params)),
                _ => server::standard_planner(query, text, options, params),
            };
            if implementation().is_explaining() {
                implementation().planned(&plan_tree::bitmap_columns(planned));
            }
            planned
        }
    })
}

unsafe extern "C-unwind" fn set_rel_pathlist(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    rti: pg_sys::Index,
    rte: *mut pg_sys::RangeTblEntry,
) {
    boundary::callback(|| {
        // SAFETY: the arguments come from PostgreSQL; the previous hook may raise an error.
        unsafe {
            if let Some(Some(previous)) = PREVIOUS_PATHS.get() {
                boundary::call(|| previous(root, rel, rti, rte));
            }
            if let Some(table) = Table::new(root, rel, rte, ours()) {
                implementation().add_paths(&table);
            }
        }
    })
}

/// get_relation_info_hook: removes the indexes that are to be ignored from the planner's list.
unsafe extern "C-unwind" fn get_relation_info(
    root: *mut pg_sys::PlannerInfo,
    table: pg_sys::Oid,
    is_parent: bool,
    rel: *mut pg_sys::RelOptInfo,
) {
    boundary::callback(|| {
        // SAFETY: the arguments come from PostgreSQL; only this planner run uses the list's entries.
        unsafe {
            if let Some(Some(previous)) = PREVIOUS_INFO.get() {
                boundary::call(|| previous(root, table, is_parent, rel));
            }
            let is_ours = |info: &*mut pg_sys::IndexOptInfo| {
                (**info).amcostestimate.is_some_and(|f| f as usize == ours())
            };
            let mut skip = list::<pg_sys::IndexOptInfo>((*rel).indexlist).filter(is_ours).peekable();
            if skip.peek().is_none() {
                return;
            }
            let ignored = settings::ignored_indexes();
            for info in
                skip.filter(|&info| settings::is_listed(&ignored, (*info).indexoid)).collect::<Vec<_>>()
            {
                (*rel).indexlist = pg_sys::list_delete_ptr((*rel).indexlist, info.cast());
            }
        }
    })
}

/// A path to add.
pub struct NewPath<'a> {
    /// Tables whose values the keys need.
    pub outer: Option<Outer<'a>>,
    pub startup: f64,
    pub total: f64,
    /// The part of the total cost that the processes share.
    pub shared: f64,
    /// Workers besides the leader; 0 for a path without parallelism.
    pub workers: i32,
    pub expected: Expected,
    /// Conditions that could be looked up in indexes but will not be, and those that cannot.
    pub left_out: &'a [Qual<'a>],
    /// The order in which the path returns rows.
    pub order: Option<&'a WantedOrder>,
}

/// The expected number of ranges that a scan reads, for EXPLAIN.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    /// Ranges, and ranges of the table.
    pub ranges: u32,
    pub of: u32,
    /// Whether the number comes from lookups of all keys in the index.
    pub is_exact: bool,
}

impl<'a> Table<'a> {
    /// Workers that a scan of `blocks` blocks would get.
    pub fn workers(&self, blocks: f64) -> i32 {
        if !self.rel().consider_parallel || !self.rel().lateral_relids.is_null() {
            return 0;
        }
        // SAFETY: the planner keeps `rel` for 'a; the other is a plain global.
        unsafe {
            let most = pg_sys::max_parallel_workers_per_gather;
            pg_sys::compute_parallel_worker(self.rel, blocks, -1.0, most)
        }
    }

    /// Drops all paths that were added before.
    pub fn drop_paths(&self) {
        // SAFETY: the planner keeps `rel` for 'a, and does not use the lists until the hook has returned.
        unsafe {
            (*self.rel).pathlist = std::ptr::null_mut();
            (*self.rel).partial_pathlist = std::ptr::null_mut();
        }
    }

    /// Tables whose values every path of this table needs (LATERAL).
    pub fn lateral(&self) -> Outer<'a> {
        // SAFETY: a set of the planner, which is complete before paths are made.
        unsafe { Outer::new(self.rel().lateral_relids) }
    }

    /// CPU cost of checking the conditions of a path: at startup, and for each row.
    fn qual_costs(&self, outer: Option<Outer<'_>>) -> (f64, f64) {
        let base = self.rel().baserestrictcost;
        let (mut startup, mut per_tuple) = (base.startup, base.per_tuple);
        if let Some(outer) = outer {
            let mut more = pg_sys::QualCost::default();
            // SAFETY: the planner makes (or finds) the struct; costs are added to `more`.
            unsafe {
                let info = server::get_baserel_parampathinfo(self.root, self.rel, outer.raw());
                if !info.is_null() {
                    pg_sys::cost_qual_eval(&mut more, (*info).ppi_clauses, self.root);
                }
            }
            startup += more.startup;
            per_tuple += more.per_tuple;
        }
        (startup, per_tuple)
    }

    /// Costs of reading rows: at startup, and for each row.
    pub fn row_costs(&self, outer: Option<Outer<'_>>) -> (f64, f64) {
        let (startup, per_tuple) = self.qual_costs(outer);
        // SAFETY: a plain global.
        (startup, per_tuple + unsafe { pg_sys::cpu_tuple_cost })
    }

    /// The planner's cost parameters for the table.
    pub fn prices(&self) -> Prices {
        planner::prices(self.rel().reltablespace)
    }

    /// Adds a path; the planner drops it if others are better.
    pub fn add(&self, new: &NewPath<'_>) {
        // SAFETY: a palloc'd node, zeroed except for its tag, filled as in create_seqscan_path. It is not touched after
        // the call of add_path, which may free it.
        unsafe {
            let path = pg_sys::palloc0(size_of::<pg_sys::CustomPath>()).cast::<pg_sys::CustomPath>();
            let base = &mut (*path).path;
            base.type_ = pg_sys::NodeTag::T_CustomPath;
            base.pathtype = pg_sys::NodeTag::T_CustomScan;
            base.parent = self.rel;
            base.pathtarget = self.rel().reltarget;
            let outer = new.outer.map_or(std::ptr::null_mut(), |outer| outer.raw());
            base.param_info = server::get_baserel_parampathinfo(self.root, self.rel, outer);
            base.rows = if base.param_info.is_null() { self.rel().rows } else { (*base.param_info).ppi_rows };
            base.parallel_aware = new.workers > 0;
            base.parallel_safe = self.rel().consider_parallel;
            base.parallel_workers = new.workers;
            let divisor = parallel_divisor(new.workers);
            base.rows = (base.rows / divisor).max(1.0).round();
            let target = &(*base.pathtarget).cost;
            base.startup_cost = new.startup + target.startup;
            base.total_cost =
                new.total - new.shared + new.shared / divisor + target.startup + target.per_tuple * base.rows;
            (*path).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
            if new.order.is_none() {
                (*path).flags |= pg_sys::CUSTOMPATH_SUPPORT_BACKWARD_SCAN;
            }
            let expected = super::encode_expected(&new.expected);
            let mut private = pg_sys::lappend(std::ptr::null_mut(), expected.cast());
            let mut order = std::ptr::null_mut();
            if let Some(wanted) = new.order {
                base.pathkeys = pg_sys::lappend(std::ptr::null_mut(), wanted.pathkey.cast());
                order = super::int_list(&wanted.sort.encode());
            }
            private = pg_sys::lappend(private, order.cast());
            for qual in new.left_out {
                private = pg_sys::lappend(private, qual.raw().cast());
            }
            (*path).custom_private = private;
            (*path).methods = super::path_methods();
            if new.workers > 0 {
                pg_sys::add_partial_path(self.rel, path.cast());
            } else {
                pg_sys::add_path(self.rel, path.cast());
            }
        }
    }
}

/// The number of processes that share the work: the workers, and the part of the leader that they do not keep busy (the
/// server's get_parallel_divisor).
fn parallel_divisor(workers: i32) -> f64 {
    // SAFETY: a plain global.
    let leader = unsafe { pg_sys::parallel_leader_participation };
    let part = if workers > 0 && leader { 1.0 - 0.3 * f64::from(workers) } else { 0.0 };
    if workers > 0 { f64::from(workers) + part.max(0.0) } else { 1.0 }
}

/// PlanCustomPath.
pub(super) unsafe extern "C-unwind" fn plan(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::CustomPath,
    tlist: *mut pg_sys::List,
    clauses: *mut pg_sys::List,
    _custom_plans: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    boundary::callback(|| {
        // SAFETY: PostgreSQL passes a path of ours, and the conditions that it must enforce in the order of evaluation.
        unsafe {
            let table = Table::of_path(root, rel, ours());
            let quals = table.as_ref().map(|table| table.usable(clauses)).unwrap_or_default();
            let exprs: Vec<Expr<'_>> = quals.iter().map(|qual| qual.expr).collect();
            // Left-out conditions that were translated for a child table since are not found here. They are looked up.
            let mut private = list::<pg_sys::Node>((*path).custom_private);
            let expected = private.next().map_or(std::ptr::null_mut(), |node| node.cast());
            let order: *mut pg_sys::List = private.next().map_or(std::ptr::null_mut(), |node| node.cast());
            let left_out: Vec<*mut pg_sys::Node> = private.collect();
            let left_out: Vec<bool> =
                quals.iter().map(|qual| left_out.contains(&qual.raw().cast())).collect();
            let sort = SortColumn::decode(&integers(order));
            let by = sort.map(|sort| (sort.index, sort.column));
            let mut planned = table
                .as_ref()
                .map(|table| implementation().plan(table, &exprs, &left_out, by))
                .unwrap_or_default();
            if let Some(sort) = sort
                && !planned.indexes.contains(&sort.index)
            {
                planned.indexes.push(sort.index);
            }
            let served: Vec<_> = quals
                .iter()
                .zip(&planned.served)
                .filter(|(_, served)| **served)
                .map(|(q, _)| q.raw())
                .collect();
            let mut others: *mut pg_sys::List = std::ptr::null_mut();
            for rinfo in list::<pg_sys::RestrictInfo>(clauses).filter(|rinfo| !served.contains(rinfo)) {
                others = pg_sys::lappend(others, rinfo.cast());
            }
            let scan = pg_sys::palloc0(size_of::<pg_sys::CustomScan>()).cast::<pg_sys::CustomScan>();
            (*scan).scan.plan.type_ = pg_sys::NodeTag::T_CustomScan;
            (*scan).scan.plan.targetlist = tlist;
            // The node checks a served condition itself, to learn whether a range was read in vain.
            (*scan).scan.plan.qual = pg_sys::extract_actual_clauses(others, false);
            (*scan).scan.scanrelid = (*rel).relid;
            (*scan).flags = (*path).flags;
            (*scan).custom_exprs = expressions(&served, &planned);
            (*scan).custom_private = encode_private(expected, served.len(), &planned, order);
            (*scan).methods = super::scan_methods();
            scan.cast()
        }
    })
}

/// # Safety
/// `served` are valid RestrictInfos.
unsafe fn expressions(served: &[*mut pg_sys::RestrictInfo], planned: &Planned<'_>) -> *mut pg_sys::List {
    let mut exprs: *mut pg_sys::List = std::ptr::null_mut();
    // SAFETY: expressions are copied, because the server changes those of a plan in place.
    unsafe {
        let conditions = served.iter().map(|&rinfo| (*rinfo).clause.cast::<pg_sys::Node>());
        for node in conditions.chain(planned.keys.iter().map(|key| key.raw())) {
            exprs = pg_sys::lappend(exprs, pg_sys::copyObjectImpl(node.cast()));
        }
    }
    exprs
}
