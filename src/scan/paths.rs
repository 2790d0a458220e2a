//! Paths for a table, and the plan of the one that was chosen.
//!
//! The base path uses every condition of the query on the table that some skip index serves. Parameterised ones use the
//! conditions that join it to other tables besides: one path for each set of tables that such a condition needs, and one
//! for all of them. An index that the session forces is in the condition, or the query fails.

use super::estimate::{self, Estimate};
use super::matching::{self, Leaf};
use super::survivors::{self, Test};
use crate::pg::custom::expr::Expr;
use crate::pg::custom::plan::NewPath;
use crate::pg::custom::table::{Outer, Table};
use crate::pg::custom::{KeySource, Planned, SkipScan};
use crate::pg::{fail, settings};
use crate::prune::probe;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::Oid;
use skip_core::Condition;

/// Sets of other tables that parameterised paths are made for, at most: a query that joins dozens of tables to one column
/// is not planned for each of them.
const MOST_OUTER: usize = 8;

/// Adds paths to a table.
pub fn add<S: SkipScan>(table: &Table<'_>) {
    let forced: Vec<Oid> = settings::forced_indexes()
        .into_iter()
        .filter(|&(_, of)| of == table.oid())
        .map(|(index, _)| index)
        .collect();
    if table.indexes().is_empty() && forced.is_empty() {
        return;
    }
    if settings::enable_scan() || !forced.is_empty() {
        let quals: Vec<Expr<'_>> = table.quals().iter().map(|qual| qual.expr).collect();
        let (condition, _) = conditions(table, &quals, &forced);
        check_forced(table, condition.as_ref(), &forced);
        if let Some(condition) = &condition {
            if !forced.is_empty() {
                table.drop_paths();
            }
            let lateral = table.lateral();
            add_path::<S>(table, condition, (!lateral.is_empty()).then_some(lateral));
        }
        if forced.is_empty() {
            add_parameterised::<S>(table);
        }
    }
    probe::forget();
}

/// The numbers of the table's indexes, those to be preferred first: forced ones, then those with most columns, so that
/// few indexes serve many conditions.
fn order(table: &Table<'_>, forced: &[Oid]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..table.indexes().len()).collect();
    let rank = |&number: &usize| {
        let index = table.indexes()[number];
        (!forced.contains(&index.oid()), std::cmp::Reverse(index.columns()), index.oid().to_u32())
    };
    order.sort_by_key(rank);
    order
}

/// What can be asked about conditions, and which of them are part of that.
fn conditions<'a>(
    table: &Table<'a>,
    exprs: &[Expr<'a>],
    forced: &[Oid],
) -> (Option<Condition<Leaf<'a>>>, Vec<bool>) {
    let (condition, served) = matching::all(table, &order(table, forced), exprs);
    let mut parts: Vec<_> = condition.into_iter().collect();
    for (number, index) in table.indexes().iter().enumerate() {
        let is_used = parts.iter().any(|part| part.leaves().iter().any(|leaf| leaf.index == number));
        if forced.contains(&index.oid()) && !is_used {
            parts.extend(matching::all(table, &[number], exprs).0);
        }
    }
    (Condition::all(parts), served)
}

fn check_forced(table: &Table<'_>, condition: Option<&Condition<Leaf<'_>>>, forced: &[Oid]) {
    for &index in forced {
        let is_used = |leaf: &&Leaf<'_>| table.indexes()[leaf.index].oid() == index;
        if settings::enable_scan() && condition.is_some_and(|c| c.leaves().iter().any(is_used)) {
            continue;
        }
        let (why, hint) = if settings::enable_scan() {
            (
                "No condition of the query on the table alone can be looked up in it.",
                "RESET pg_skip.force_indexes, or compare a column of the index with =, IN or IS NULL.",
            )
        } else {
            ("Skip Scans are switched off by pg_skip.enable_scan.", "SET pg_skip.enable_scan = on.")
        };
        fail(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("index \"{}\" is not used", Table::name_of(index)),
            Some(format!("pg_skip.force_indexes names it. {why}")),
            Some(hint.into()),
        );
    }
}

fn add_parameterised<S: SkipScan>(table: &Table<'_>) {
    let order = order(table, &[]);
    let is_wanted = |table: &Table<'_>, expr: Expr<'_>| {
        // Only whether it matches: the expression is as good as any of this table's planner run.
        matching::can_serve(table, &order, expr)
    };
    let mut outers = table.join_conditions(&is_wanted);
    if outers.len() > 1 {
        outers.push(Table::union(&outers));
    }
    for outer in outers.into_iter().rev().take(MOST_OUTER) {
        let outer = Table::union(&[outer, table.lateral()]);
        if table.needs_itself(outer) {
            continue;
        }
        let quals: Vec<Expr<'_>> = table.quals_with(outer).iter().map(|qual| qual.expr).collect();
        if let (Some(condition), _) = matching::all(table, &order, &quals) {
            add_path::<S>(table, &condition, Some(outer));
        }
    }
}

fn add_path<S: SkipScan>(table: &Table<'_>, condition: &Condition<Leaf<'_>>, outer: Option<Outer>) {
    let estimate = estimate::estimate(table, condition);
    let cost = estimate::cost(table, &estimate, outer);
    let Estimate { expected, heap_blocks, .. } = estimate;
    let path = |workers, shared| NewPath {
        outer,
        startup: cost.startup,
        total: cost.total,
        shared,
        workers,
        expected,
    };
    table.add::<S>(&path(0, 0.0));
    let workers = if outer.is_none() { table.workers(heap_blocks) } else { 0 };
    if workers > 0 {
        table.add::<S>(&path(workers, cost.shared));
    }
}

/// What a plan with these conditions keeps for the executor.
pub fn plan<'a>(table: &Table<'a>, exprs: &[Expr<'a>]) -> Planned<'a> {
    let forced: Vec<Oid> = settings::forced_indexes().into_iter().map(|(index, _)| index).collect();
    let (condition, served) = conditions(table, exprs, &forced);
    let mut planned = Planned { served, ..Default::default() };
    let Some(condition) = condition else { return planned };
    let tests = condition.try_map(&mut |leaf| {
        let oid = table.indexes()[leaf.index].oid();
        let known = planned.indexes.iter().position(|&index| index == oid);
        let index = known.unwrap_or_else(|| {
            planned.indexes.push(oid);
            planned.indexes.len() - 1
        });
        let expr = leaf.key.map(|key| {
            planned.keys.push(key);
            u16::try_from(planned.keys.len() - 1).unwrap_or(u16::MAX)
        });
        // More keys than can be numbered: their tests are left out.
        if expr == Some(u16::MAX) {
            return None;
        }
        let source = KeySource { column: leaf.column, key_type: leaf.key_type, how: leaf.how, expr };
        Some(Test { index, source })
    });
    if let Some(tests) = tests {
        survivors::encode(&tests, &mut planned.code);
    }
    planned
}
