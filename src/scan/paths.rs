//! Paths for a table, and the plan for the chosen path.
//!
//! The base path serves every condition of the query on the table that some skip index can look up. Parameterised paths
//! also serve the conditions that join the table to other tables: there is one path for each set of tables that such a
//! condition needs, and one for all of them. A condition that rules out next to nothing is not looked up if another one
//! rules out more, because its lookup would only cost reads. An index that the session forces is in the condition, or
//! the query fails.

use super::cost;
use super::matching;
use super::ordered::OrderedPath;
use super::refusal;
use super::report;
use super::survivors;
use crate::estimate;
use crate::pg::custom::Planned;
use crate::pg::custom::expr::{Expr, Leaf};
use crate::pg::custom::joins::Outer;
use crate::pg::custom::plan::{Expected, NewPath};
use crate::pg::custom::table::{Qual, Table};
use crate::pg::{catalog, fail, query, settings};
use crate::prune::planner_lookup;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use skip_scan::Condition;

/// The most sets of other tables for which parameterised paths are made: a query that joins dozens of tables to one
/// column is not planned for each of them. The server's own bound for parameterised paths of a table is ten times the
/// number of its join clauses; each path here costs an estimate with a lookup in statistics.
const MOST_OUTER: usize = 8;

/// The condition that is looked up in the indexes, and which of the query's conditions it serves.
struct Choice<'a> {
    condition: Option<Condition<Leaf<'a>>>,
    served: Vec<bool>,
}

/// Adds paths to a table.
pub fn add(table: &Table<'_>) {
    report::table(table);
    let forced = forced(table);
    if table.indexes().is_empty() && forced.is_empty() {
        return;
    }
    if settings::enable_scan() || !forced.is_empty() {
        let lateral = table.lateral();
        let outer = (!lateral.is_empty()).then_some(lateral);
        let has_path = add_path(table, &table.quals(), &forced, outer);
        if forced.is_empty() && (has_path || !table.indexes().is_empty()) {
            add_parameterised(table);
        }
    }
    estimate::remembered::forget();
    planner_lookup::forget();
}

/// The table's indexes that the session forces. None for the server's own queries that check foreign keys, and for
/// those of pg_skip's functions.
fn forced(table: &Table<'_>) -> Vec<Oid> {
    let names = settings::forced_indexes();
    if names.is_empty() || catalog::in_foreign_key_check() || query::is_running() {
        return Vec::new();
    }
    table.all_indexes().into_iter().filter(|&index| settings::is_listed(&names, index)).collect()
}

/// The numbers of the table's indexes, preferred ones first: forced ones, then those with the most columns, so that few
/// indexes serve many conditions.
fn order(table: &Table<'_>, forced: &[Oid]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..table.indexes().len()).collect();
    let rank = |&number: &usize| {
        let index = table.indexes()[number];
        (!forced.contains(&index.oid()), std::cmp::Reverse(index.columns()), index.oid().to_u32())
    };
    order.sort_by_key(rank);
    order
}

/// Chooses what to look up for conditions. `is_worth_it` tells whether a condition that can be looked up is worth it.
fn choose<'a>(
    table: &Table<'a>,
    exprs: &[Expr<'a>],
    forced: &[Oid],
    is_worth_it: impl Fn(usize, &Condition<Leaf<'a>>) -> bool,
) -> Choice<'a> {
    let order = order(table, forced);
    let mut parts: Vec<_> = exprs.iter().map(|&expr| matching::one(table, &order, expr)).collect();
    if forced.is_empty() && parts.iter().flatten().count() > 1 {
        let worth: Vec<bool> =
            parts.iter().enumerate().map(|(i, p)| p.as_ref().is_some_and(|p| is_worth_it(i, p))).collect();
        // If none is worth it, all are kept: the choice does not matter.
        if worth.contains(&true) {
            parts.iter_mut().zip(worth).filter(|(_, worth)| !worth).for_each(|(part, _)| *part = None);
        }
    }
    let served = parts.iter().map(Option::is_some).collect();
    let mut parts: Vec<_> = parts.into_iter().flatten().collect();
    for (number, index) in table.indexes().iter().enumerate() {
        let is_used = parts.iter().any(|part| part.leaves().any(|leaf| leaf.index == number));
        if forced.contains(&index.oid()) && !is_used {
            parts.extend(exprs.iter().filter_map(|&expr| matching::one(table, &[number], expr)));
        }
    }
    Choice { condition: Condition::all(parts), served }
}

fn check_forced(
    table: &Table<'_>,
    exprs: &[Expr<'_>],
    condition: Option<&Condition<Leaf<'_>>>,
    ordered: Option<&OrderedPath>,
    forced: &[Oid],
) {
    for &index in forced {
        let is_used = |leaf: &Leaf<'_>| table.indexes()[leaf.index].oid() == index;
        let is_of_order = ordered.is_some_and(|path| path.is_of(table, index));
        let is_of_condition = condition.is_some_and(|c| c.leaves().any(is_used));
        if settings::enable_scan() && (is_of_condition || is_of_order) {
            continue;
        }
        let (why, hint) = if settings::enable_scan() {
            refusal::explain(table, index, exprs)
        } else {
            let why = "Skip Index Scans are switched off by pg_skip.enable_scan.";
            (why.to_owned(), "SET pg_skip.enable_scan = on.".to_owned())
        };
        fail(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("index \"{}\" is not used", Table::name_of(index)),
            Some(format!("pg_skip.force_indexes names the index. {why}")),
            Some(hint),
        );
    }
}

fn add_parameterised(table: &Table<'_>) {
    let order = order(table, &[]);
    let is_wanted = |table: &Table<'_>, expr: Expr<'_>| {
        // Only checks whether the expression matches. It belongs to the same planner run as the table's own conditions.
        matching::can_serve(table, &order, expr)
    };
    let mut outers = table.join_conditions(&is_wanted);
    if outers.len() > 1 {
        outers.push(table.union(&outers));
    }
    for outer in outers.into_iter().rev().take(MOST_OUTER) {
        let outer = table.union(&[outer, table.lateral()]);
        if !table.needs_itself(outer) {
            add_path(table, &table.quals_with(outer), &[], Some(outer));
        }
    }
}

/// Adds the paths that enforce these conditions: one with all indexes that rule something out, and one with each of
/// them alone, which may be cheaper. False if no condition can be looked up in an index.
fn add_path(table: &Table<'_>, quals: &[Qual<'_>], forced: &[Oid], outer: Option<Outer<'_>>) -> bool {
    let exprs: Vec<Expr<'_>> = quals.iter().map(|qual| qual.expr).collect();
    let choice = choose(table, &exprs, forced, |_, part| estimate::rules_out(table, part));
    // The server takes no notice of the order of a path that needs the values of other tables.
    let has_orders = outer.is_none() && table.wants_order();
    let by_preference = if has_orders { order(table, forced) } else { Vec::new() };
    let mut orders = table.wanted_orders(&by_preference);
    let ordered = orders.find_map(|order| OrderedPath::of(table, order, choice.condition.as_ref()));
    check_forced(table, &exprs, choice.condition.as_ref(), ordered.as_ref(), forced);
    if !forced.is_empty() {
        table.drop_paths();
    }
    if let Some(path) = &ordered {
        path.add(table, &left_out(quals, &choice.served));
    }
    let Some(condition) = &choice.condition else { return false };
    add_choice(table, quals, condition, &choice.served, outer);
    let mut indexes: Vec<usize> = condition.leaves().map(|leaf| leaf.index).collect();
    indexes.sort_unstable();
    indexes.dedup();
    if forced.is_empty() && indexes.len() > 1 {
        for index in indexes {
            let is_of_it = |part: &Condition<Leaf<'_>>| part.leaves().all(|leaf| leaf.index == index);
            let alone = choose(table, &exprs, forced, |i, part| choice.served[i] && is_of_it(part));
            if let Some(condition) = &alone.condition
                && alone.served != choice.served
            {
                add_choice(table, quals, condition, &alone.served, outer);
            }
        }
    }
    true
}

fn add_choice(
    table: &Table<'_>,
    quals: &[Qual<'_>],
    condition: &Condition<Leaf<'_>>,
    served: &[bool],
    outer: Option<Outer<'_>>,
) {
    let estimate = estimate::estimate(table, condition);
    let cost = cost::cost(table, condition, &estimate, outer);
    let left_out = left_out(quals, served);
    let path = |workers, shared| NewPath {
        outer,
        startup: cost.startup,
        total: cost.total,
        shared,
        workers,
        expected: Expected { ranges: estimate.ranges, of: estimate.count, is_exact: estimate.is_exact },
        left_out: &left_out,
        order: None,
    };
    table.add(&path(0, 0.0));
    let workers = if outer.is_none() { table.workers(estimate.heap_blocks) } else { 0 };
    if workers > 0 {
        table.add(&path(workers, cost.shared));
    }
}

/// The conditions that are not served.
fn left_out<'a>(quals: &[Qual<'a>], served: &[bool]) -> Vec<Qual<'a>> {
    quals.iter().zip(served).filter(|(_, served)| !**served).map(|(&qual, _)| qual).collect()
}

/// The part of a plan with these conditions that the executor needs. `left_out` says which of them the path does not
/// serve.
pub fn plan<'a>(table: &Table<'a>, exprs: &[Expr<'a>], left_out: &[bool]) -> Planned<'a> {
    let is_worth_it = |i: usize, _: &_| !left_out.get(i).copied().unwrap_or(false);
    let Choice { condition, served } = choose(table, exprs, &forced(table), is_worth_it);
    let mut planned = Planned { served, ..Default::default() };
    report::chosen(table, || order(table, &forced(table)), exprs, &planned.served);
    let Some(condition) = condition else { return planned };
    let clauses = condition.try_map(&mut |leaf| {
        let oid = table.indexes()[leaf.index].oid();
        let known = planned.indexes.iter().position(|&index| index == oid);
        let index = known.unwrap_or_else(|| {
            planned.indexes.push(oid);
            planned.indexes.len() - 1
        });
        let expr = leaf.key.key.map(|key| {
            planned.keys.push(key);
            u16::try_from(planned.keys.len() - 1).unwrap_or(u16::MAX)
        });
        // A key beyond those that a u16 can number: its clause is left out.
        if expr == Some(u16::MAX) {
            return None;
        }
        Some(leaf.with(index, expr))
    });
    if let Some(clauses) = clauses {
        survivors::encode(&clauses, &mut planned.code);
    }
    planned
}
