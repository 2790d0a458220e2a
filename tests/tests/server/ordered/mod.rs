//! `ORDER BY column LIMIT n` by bounds: the Skip Index Scan reads ranges in the order of their bounds. Compared with a
//! sequential scan and a sort.
mod histories;
mod plans;
mod queries;
mod side_by_side;

use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way, same};
use pg_skip_tests::session::Session;

/// A Skip Index Scan that returns rows in order, wherever there can be one.
fn in_order() -> Way {
    Way::skip_scan().with("enable_sort", "off")
}

/// Compares a query whose rows have an order, in full, with a sort; a Skip Index Scan must read the table.
#[track_caller]
fn same_order(session: &mut Session, statement: &str) {
    let case = Case { ordered: true, ..Case::using(statement) };
    same(session, &in_order(), &case);
}

/// Fails unless the plan of a query has a scan in order, which no sort follows.
#[track_caller]
fn is_in_order(session: &mut Session, statement: &str) {
    in_order().set(session);
    let plan = session.plan(statement);
    session.run("RESET ALL");
    let sorts =
        plan.contains("Sort Key:") && !plan.contains("Incremental Sort") && !plan.contains("Merge Append");
    assert!(plan.contains("Order By:") && !sorts, "{statement}:\n{plan}");
}

/// A direction, with a place for NULLs.
fn direction(rng: &mut Rng) -> &'static str {
    ["", " DESC", " NULLS FIRST", " NULLS LAST", " DESC NULLS LAST", " DESC NULLS FIRST"][rng.usize(..6)]
}

/// The end of a query that limits its rows, or does not.
fn limit(rng: &mut Rng) -> String {
    let most = match rng.u32(..8) {
        0 => "LIMIT 0".to_owned(),
        1 => "LIMIT 1".to_owned(),
        2 => "LIMIT ALL".to_owned(),
        3 => "LIMIT NULL".to_owned(),
        4 => "LIMIT 100000".to_owned(),
        _ => format!("LIMIT {}", rng.u32(2..40)),
    };
    if rng.u32(..3) == 0 { format!("{most} OFFSET {}", rng.u32(..60)) } else { most }
}

/// Rows in rough order of time, some 14 on each page, in a table of many ranges.
fn log(session: &mut Session, rows: u32) {
    session.run(&format!(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, at timestamptz, n int, tenant int, code text,
            filler text DEFAULT repeat('x', 450)) WITH (fillfactor = 90);
         INSERT INTO t (at, n, tenant, code)
            SELECT timestamptz '2024-01-01 00:00+00' + i * interval '1 min' + (i * 7919 % 11) * interval '1 min',
                CASE WHEN i % 1000 < 20 THEN NULL ELSE i / 10 END, i * 31 % 50,
                'a prefix that all have ' || lpad((i / 3)::text, 9, '0')
            FROM generate_series(1, {rows}) i"
    ));
}
