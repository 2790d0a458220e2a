//! Random statements that change `tables`: what they return, what they leave, and what is then found of it in the same
//! transaction must be the same by a Skip Index Scan.
use super::queries::{Asker, way};
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way};

/// A random change, and a way that suits it.
pub fn random(rng: &mut Rng) -> (Case, Way) {
    let case = change(&mut Asker { rng });
    let (way, strict) = way(rng);
    (Case { must: case.must && strict, ..case }, way)
}

/// All that a table holds, whatever its order.
fn contents(table: &str) -> String {
    format!("SELECT count(*), sum(hashtextextended(x::text, 0)), sum(id) FROM {table} x")
}

fn change(asker: &mut Asker) -> Case {
    let table = asker.table();
    let condition = asker.condition("x");
    let (sql, sure) = statement(asker, table, &condition.sql);
    // The transaction asks by the same way for what it has just written, into ranges with and without filters.
    let again = asker.condition("x");
    let after = format!(
        "{}; SELECT x.id, x.k FROM {table} x WHERE {}; SELECT count(*) FROM {table} x WHERE x.k = 7 OR x.n = 7",
        contents(table),
        again.sql
    );
    Case { after, must: sure && condition.sure, ..Case::any(sql) }
}

/// The statement, and whether the condition on `x` is all that decides how its tables are read.
fn statement(asker: &mut Asker, table: &str, condition: &str) -> (String, bool) {
    let (other, key) = (asker.table(), asker.rng.u32(..200));
    // Some move rows to another partition.
    let set = *asker
        .rng
        .choice(&[
            "k = x.k + 1",
            "k = 7",
            "n = NULL",
            "t = 'w7', u = NULL",
            "id = x.id + 700",
            "b = NOT x.b",
            "s = (x.s + 7) % 20",
            "filler = repeat('y', 500)",
            "(k, n) = (SELECT 7, 7)",
        ])
        .expect("changes");
    let sources = asker.condition("y").sql;
    // A row must not be met by two rows of the other table: which one changes it would be open.
    let source = format!("(SELECT y.k, max(y.id) AS top FROM {other} y WHERE {sources} GROUP BY y.k) y");
    match asker.rng.u32(..14) {
        0..=3 => (format!("UPDATE {table} x SET {set} WHERE {condition} RETURNING x.id, x.k, x.t"), true),
        4..=5 => (format!("DELETE FROM {table} x WHERE {condition} RETURNING x.*"), true),
        6 => (
            format!(
                "UPDATE {table} x SET {set} FROM {source} WHERE x.k = y.k AND ({condition})
                 RETURNING x.id, top"
            ),
            false,
        ),
        7 => (format!("DELETE FROM {table} x USING {source} WHERE x.k = y.k AND ({condition}) RETURNING x.id"), false),
        8 => (
            format!(
                "MERGE INTO {table} x USING {source} ON x.k = y.k AND ({condition})
                 WHEN MATCHED AND x.id % 3 = 0 THEN DELETE
                 WHEN MATCHED AND x.id % 3 = 1 THEN UPDATE SET t = 'merged', n = top
                 WHEN NOT MATCHED THEN INSERT (id, k, s) VALUES (top + 100000, y.k, 7)"
            ),
            false,
        ),
        9 => (
            format!(
                "MERGE INTO {table} x USING (VALUES ({key}), ({key} + 1)) y (k) ON x.k = y.k
                 WHEN MATCHED THEN UPDATE SET u = NULL WHEN NOT MATCHED THEN INSERT (id, k, s) VALUES (-1, y.k, 3)"
            ),
            false,
        ),
        10 => (
            format!(
                "INSERT INTO {table} (id, k, n, s, t, b)
                 SELECT x.id + 50000, x.k, x.n, x.s, x.t, x.b FROM {table} x WHERE {condition} RETURNING id, k"
            ),
            true,
        ),
        11 => (
            format!(
                "WITH gone AS (DELETE FROM {table} x WHERE {condition} RETURNING *)
                 INSERT INTO {other} (id, k, s, t) SELECT id + 70000, k, s, t FROM gone RETURNING id"
            ),
            true,
        ),
        12 => (
            format!(
                "UPDATE {table} x SET {set} WHERE x.ctid = ANY (ARRAY(SELECT x.ctid FROM {table} x WHERE {condition}))
                 RETURNING x.id"
            ),
            false,
        ),
        _ => (
            format!(
                "DELETE FROM {table} x WHERE ({condition}) AND EXISTS (SELECT FROM {other} y WHERE y.k = x.k
                 AND ({sources})) RETURNING x.id"
            ),
            false,
        ),
    }
}
