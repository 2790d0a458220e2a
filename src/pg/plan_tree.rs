//! Facts about a running aggregate, from the plan that contains it; the indexes of a plan's bitmap scans.

use super::list::list;
use pgrx::pg_sys::{self, Agg, Append, BitmapAnd, BitmapOr, MergeAppend, NodeTag, Plan, SubqueryScan};

/// AGGSPLITOP_COMBINE and AGGSPLITOP_SKIPFINAL of nodes.h: the node combines partial states; the node returns partial
/// states.
pub(super) const COMBINE: u32 = 0x01;
pub(super) const SKIP_FINAL: u32 = 0x02;

/// The plan nodes directly below a node, of the kinds that can contain aggregates or bitmap scans.
///
/// # Safety
/// `plan` is a valid plan.
unsafe fn children(plan: *mut Plan) -> Vec<*mut Plan> {
    // SAFETY: a node's tag tells its type.
    unsafe {
        let mut children = vec![(*plan).lefttree, (*plan).righttree];
        match (*plan).type_ {
            NodeTag::T_Append => children.extend(list::<Plan>((*plan.cast::<Append>()).appendplans)),
            NodeTag::T_MergeAppend => children.extend(list::<Plan>((*plan.cast::<MergeAppend>()).mergeplans)),
            NodeTag::T_BitmapAnd => children.extend(list::<Plan>((*plan.cast::<BitmapAnd>()).bitmapplans)),
            NodeTag::T_BitmapOr => children.extend(list::<Plan>((*plan.cast::<BitmapOr>()).bitmapplans)),
            NodeTag::T_SubqueryScan => children.push((*plan.cast::<SubqueryScan>()).subplan),
            _ => {}
        }
        children.retain(|child| !child.is_null());
        children
    }
}

/// The plan as an aggregate, if it is one whose aggsplit has this flag.
///
/// # Safety
/// `plan` is a valid plan.
unsafe fn as_aggregate(plan: *mut Plan, split: u32) -> Option<*mut Agg> {
    // SAFETY: the tag tells the type.
    unsafe {
        let agg = plan.cast::<Agg>();
        ((*plan).type_ == NodeTag::T_Agg && (*agg).aggsplit & split != 0).then_some(agg)
    }
}

/// The node that combines the states of `part`, or `above` if that node is not in the tree; None if `part` is not in
/// the tree.
///
/// # Safety
/// `tree` is a valid plan tree.
unsafe fn whole_of(tree: *mut Plan, part: *mut Plan, above: *mut Plan) -> Option<*mut Plan> {
    if tree == part {
        return Some(above);
    }
    // SAFETY: plan nodes of the running query, which keeps them to its end; children() leaves out NULL.
    unsafe {
        let above = as_aggregate(tree, COMBINE).map_or(above, |agg| agg.cast());
        children(tree).into_iter().find_map(|child| whole_of(child, part, above))
    }
}

/// # Safety
/// `tree` is a valid plan tree.
unsafe fn any(tree: *mut Plan, test: fn(&Plan) -> bool) -> bool {
    // SAFETY: as in whole_of().
    unsafe { test(&*tree) || children(tree).into_iter().any(|child| any(child, test)) }
}

/// The number of rows that the partial aggregates of a tree read, over all processes.
///
/// # Safety
/// `tree` is a valid plan tree.
unsafe fn rows_of_parts(tree: *mut Plan) -> f64 {
    // SAFETY: as in whole_of().
    unsafe {
        if as_aggregate(tree, SKIP_FINAL).is_none() {
            return children(tree).into_iter().map(|child| rows_of_parts(child)).sum();
        }
        let rows = children(tree).first().map_or(0.0, |input| (**input).plan_rows);
        let is_shared = any(tree, |plan| plan.parallel_aware);
        rows * if is_shared { parallel_divisor() } else { 1.0 }
    }
}

/// The number of rows that the planner expects for a partial aggregate and all others that are combined with it: those
/// of partitions, and of other processes. A worker has only the plan below its Gather.
///
/// # Safety
/// `part` is an aggregate of `statement`, which is running.
pub(super) unsafe fn rows_of_whole(statement: *mut pg_sys::PlannedStmt, part: *mut Plan) -> f64 {
    // SAFETY: the statement is running, and keeps its plans; plans of subqueries are in a list of their own. NULL is
    // left out.
    unsafe {
        let trees = std::iter::once((*statement).planTree).chain(list::<Plan>((*statement).subplans));
        let mut trees = trees.filter(|tree| !tree.is_null());
        let whole = trees.find_map(|tree| whole_of(tree, part, tree));
        rows_of_parts(whole.unwrap_or(part))
    }
}

/// A column (0-based) of an index for which a bitmap scan has a condition.
pub struct BitmapColumn {
    pub index: pg_sys::Oid,
    pub column: u16,
    /// The name that the query has for the table.
    pub alias: String,
    /// Whether the bitmap is united with others.
    pub is_in_or: bool,
}

/// The columns for which the bitmap scans of a plan have conditions.
///
/// # Safety
/// `statement` is a valid plan, or NULL.
pub(super) unsafe fn bitmap_columns(statement: *mut pg_sys::PlannedStmt) -> Vec<BitmapColumn> {
    let mut found = Vec::new();
    // SAFETY: a plan and those of its subqueries, none of which is NULL here. A scan has the number of its table.
    unsafe {
        if statement.is_null() {
            return found;
        }
        let tables: Vec<_> = list::<pg_sys::RangeTblEntry>((*statement).rtable).collect();
        let trees = std::iter::once((*statement).planTree).chain(list::<Plan>((*statement).subplans));
        let mut waiting: Vec<(*mut Plan, bool)> =
            trees.filter(|tree| !tree.is_null()).map(|tree| (tree, false)).collect();
        while let Some((plan, is_in_or)) = waiting.pop() {
            let unites = is_in_or || (*plan).type_ == NodeTag::T_BitmapOr;
            waiting.extend(children(plan).into_iter().map(|child| (child, unites)));
            if (*plan).type_ == NodeTag::T_BitmapIndexScan {
                let scan = plan.cast::<pg_sys::BitmapIndexScan>();
                let table = ((*scan).scan.scanrelid as usize).checked_sub(1).and_then(|at| tables.get(at));
                let alias = table.map_or_else(String::new, |&table| alias_of(table));
                let of_column = |column| {
                    let (index, alias) = ((*scan).indexid, alias.clone());
                    BitmapColumn { index, column, alias, is_in_or }
                };
                found.extend(variables((*scan).indexqual).into_iter().map(of_column));
            }
        }
    }
    found
}

/// The name that a query has for one of its tables.
///
/// # Safety
/// A valid table of a query.
pub(super) unsafe fn alias_of(table: *mut pg_sys::RangeTblEntry) -> String {
    // SAFETY: the parser gives each table a name.
    unsafe { super::text::of_server((*(*table).eref).aliasname) }
}

/// The columns (0-based) of an index in conditions on it.
///
/// # Safety
/// A list of expressions of an index scan.
unsafe fn variables(conditions: *mut pg_sys::List) -> Vec<u16> {
    // SAFETY: these expressions have no aggregates and no placeholders: the list has variables only.
    unsafe {
        let variables = pg_sys::pull_var_clause(conditions.cast(), 0);
        let number = |var: *mut pg_sys::Var| u16::try_from((*var).varattno - 1).ok();
        list::<pg_sys::Var>(variables)
            .filter(|&var| (*var).varno == pg_sys::INDEX_VAR)
            .filter_map(number)
            .collect()
    }
}

/// The number by which core divides the rows of a parallel plan that has the maximum number of workers. Neither a
/// worker nor the plan below a Gather knows the actual number (get_parallel_divisor of costsize.c).
fn parallel_divisor() -> f64 {
    // SAFETY: plain globals of the server.
    let (workers, leader) = unsafe {
        (f64::from(pg_sys::max_parallel_workers_per_gather), pg_sys::parallel_leader_participation)
    };
    let of_leader = if leader { (1.0 - 0.3 * workers).max(0.0) } else { 0.0 };
    (workers + of_leader).max(1.0)
}

/// The type of a node's expression before an implicit cast that changes no byte, such as citext's to text. For a
/// variable, the expression in the node below is examined; None if that cannot be found, or if branches of an Append
/// differ.
///
/// # Safety
/// `plan` is a valid plan, and `expression` one of its expressions.
pub(super) unsafe fn type_before_cast(
    plan: *mut Plan,
    mut expression: *mut pg_sys::Node,
) -> Option<pg_sys::Oid> {
    // SAFETY: a node's tag tells its type.
    unsafe {
        while (*expression).type_ == NodeTag::T_RelabelType {
            let cast = &*expression.cast::<pg_sys::RelabelType>();
            if cast.relabelformat != pg_sys::CoercionForm::COERCE_IMPLICIT_CAST {
                return Some(cast.resulttype);
            }
            expression = cast.arg.cast();
        }
        if (*expression).type_ != NodeTag::T_Var {
            return Some(pg_sys::exprType(expression));
        }
        let var = &*expression.cast::<pg_sys::Var>();
        let sources = match var.varno {
            pg_sys::OUTER_VAR | pg_sys::INNER_VAR => outputs_below(plan, var.varno),
            pg_sys::INDEX_VAR => vec![(plan, scanned_columns(plan))],
            _ => return Some(var.vartype),
        };
        let mut types = sources.into_iter().map(|(plan, columns)| {
            let column =
                list::<pg_sys::TargetEntry>(columns).find(|&column| (*column).resno == var.varattno)?;
            type_before_cast(plan, (*column).expr.cast())
        });
        // A branch of an Append may have the cast, and another one none.
        let first = types.next()??;
        types.all(|other| other == Some(first)).then_some(first)
    }
}

/// The plans whose output columns a variable of this node can refer to, with these columns.
///
/// # Safety
/// `plan` is a valid plan.
unsafe fn outputs_below(plan: *mut Plan, varno: i32) -> Vec<(*mut Plan, *mut pg_sys::List)> {
    // SAFETY: a node's tag tells its type.
    unsafe {
        let plans: Vec<*mut Plan> = match (*plan).type_ {
            NodeTag::T_Append => list((*plan.cast::<Append>()).appendplans).collect(),
            NodeTag::T_MergeAppend => list((*plan.cast::<MergeAppend>()).mergeplans).collect(),
            _ if varno == pg_sys::INNER_VAR => vec![(*plan).righttree],
            _ => vec![(*plan).lefttree],
        };
        plans.into_iter().filter(|plan| !plan.is_null()).map(|plan| (plan, (*plan).targetlist)).collect()
    }
}

/// The columns that a scan reads from something other than a table: an index, a foreign server, a custom scan provider.
///
/// # Safety
/// `plan` is a valid plan.
unsafe fn scanned_columns(plan: *mut Plan) -> *mut pg_sys::List {
    // SAFETY: a node's tag tells its type.
    unsafe {
        match (*plan).type_ {
            NodeTag::T_IndexOnlyScan => (*plan.cast::<pg_sys::IndexOnlyScan>()).indextlist,
            NodeTag::T_ForeignScan => (*plan.cast::<pg_sys::ForeignScan>()).fdw_scan_tlist,
            NodeTag::T_CustomScan => (*plan.cast::<pg_sys::CustomScan>()).custom_scan_tlist,
            _ => std::ptr::null_mut(),
        }
    }
}
