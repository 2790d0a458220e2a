//! What a running aggregate can learn from the plan that it is part of.

use super::list::list;
use pgrx::pg_sys::{self, Agg, Append, MergeAppend, NodeTag, Plan, SubqueryScan};

/// AGGSPLITOP_COMBINE and AGGSPLITOP_SKIPFINAL of nodes.h: the node combines partial states; the node makes some.
pub(super) const COMBINE: u32 = 0x01;
pub(super) const SKIP_FINAL: u32 = 0x02;

/// The plan nodes directly below one, as far as there can be aggregates in them.
///
/// # Safety
/// A plan.
unsafe fn children(plan: *mut Plan) -> Vec<*mut Plan> {
    // SAFETY: a node's tag says what it is.
    unsafe {
        let mut children = vec![(*plan).lefttree, (*plan).righttree];
        match (*plan).type_ {
            NodeTag::T_Append => children.extend(list::<Plan>((*plan.cast::<Append>()).appendplans)),
            NodeTag::T_MergeAppend => children.extend(list::<Plan>((*plan.cast::<MergeAppend>()).mergeplans)),
            NodeTag::T_SubqueryScan => children.push((*plan.cast::<SubqueryScan>()).subplan),
            _ => {}
        }
        children.retain(|child| !child.is_null());
        children
    }
}

/// The aggregate of this split, if a plan is one.
///
/// # Safety
/// A plan.
unsafe fn as_aggregate(plan: *mut Plan, split: u32) -> Option<*mut Agg> {
    // SAFETY: as its tag says.
    unsafe {
        let agg = plan.cast::<Agg>();
        ((*plan).type_ == NodeTag::T_Agg && (*agg).aggsplit & split != 0).then_some(agg)
    }
}

/// The node that combines what `part` makes, or the top of the tree where it is not to be seen; None if `part` is not
/// below.
///
/// # Safety
/// A plan tree.
unsafe fn whole_of(tree: *mut Plan, part: *mut Plan, above: *mut Plan) -> Option<*mut Plan> {
    if tree == part {
        return Some(above);
    }
    // SAFETY: plan nodes of the query that is being run, which keeps them to its end; children() leaves out NULL.
    unsafe {
        let above = as_aggregate(tree, COMBINE).map_or(above, |agg| agg.cast());
        children(tree).into_iter().find_map(|child| whole_of(child, part, above))
    }
}

/// # Safety
/// A plan tree.
unsafe fn any(tree: *mut Plan, test: fn(&Plan) -> bool) -> bool {
    // SAFETY: as in whole_of().
    unsafe { test(&*tree) || children(tree).into_iter().any(|child| any(child, test)) }
}

/// The rows that come to the partial aggregates of a tree, over all processes.
///
/// # Safety
/// A plan tree.
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

/// The rows that the planner expects for a partial aggregate and all others that are combined with it: those of
/// partitions, and of other processes. A worker sees what is below its Gather.
///
/// # Safety
/// `part` is an aggregate of the statement that is being run.
pub(super) unsafe fn rows_of_whole(statement: *mut pg_sys::PlannedStmt, part: *mut Plan) -> f64 {
    // SAFETY: the statement is being run, and keeps its plans; those of subqueries are beside that of the statement.
    // NULL is left out.
    unsafe {
        let trees = std::iter::once((*statement).planTree).chain(list::<Plan>((*statement).subplans));
        let mut trees = trees.filter(|tree| !tree.is_null());
        let whole = trees.find_map(|tree| whole_of(tree, part, tree));
        rows_of_parts(whole.unwrap_or(part))
    }
}

/// By what core divides the rows of a parallel plan, if it has as many workers as it may: neither a worker nor the plan
/// below a Gather knows how many there are (get_parallel_divisor of costsize.c).
fn parallel_divisor() -> f64 {
    // SAFETY: plain globals of the server.
    let (workers, leader) = unsafe {
        (f64::from(pg_sys::max_parallel_workers_per_gather), pg_sys::parallel_leader_participation)
    };
    let of_leader = if leader { (1.0 - 0.3 * workers).max(0.0) } else { 0.0 };
    (workers + of_leader).max(1.0)
}

/// The type that a node's expression has before a cast that nobody wrote and that changes no byte, such as citext's to
/// text. What the nodes below have computed is looked up there; None where that cannot be followed.
///
/// # Safety
/// A plan, and an expression of it.
pub(super) unsafe fn type_before_cast(
    plan: *mut Plan,
    mut expression: *mut pg_sys::Node,
) -> Option<pg_sys::Oid> {
    // SAFETY: a node's tag says what it is.
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
        // Branches of an Append have the same columns; one of another type would be the one with a cast.
        let first = types.next()??;
        types.try_fold(first, |one, other| other.map(|other| if other == var.vartype { one } else { other }))
    }
}

/// The plans whose output columns a variable of this node may be, and these columns.
///
/// # Safety
/// A plan.
unsafe fn outputs_below(plan: *mut Plan, varno: i32) -> Vec<(*mut Plan, *mut pg_sys::List)> {
    // SAFETY: a node's tag says what it is.
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

/// The columns of what a scan reads that is no table: an index, another server, what a provider makes.
///
/// # Safety
/// A plan.
unsafe fn scanned_columns(plan: *mut Plan) -> *mut pg_sys::List {
    // SAFETY: a node's tag says what it is.
    unsafe {
        match (*plan).type_ {
            NodeTag::T_IndexOnlyScan => (*plan.cast::<pg_sys::IndexOnlyScan>()).indextlist,
            NodeTag::T_ForeignScan => (*plan.cast::<pg_sys::ForeignScan>()).fdw_scan_tlist,
            NodeTag::T_CustomScan => (*plan.cast::<pg_sys::CustomScan>()).custom_scan_tlist,
            _ => std::ptr::null_mut(),
        }
    }
}
