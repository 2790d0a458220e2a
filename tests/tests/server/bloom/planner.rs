//! How many rows the planner expects of `@>`.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::session::Session;

/// Rows that the planner expects of a condition on t.
#[track_caller]
fn expected(session: &mut Session, condition: &str) -> f64 {
    expected_of(session, "t", condition)
}

#[track_caller]
fn expected_of(session: &mut Session, table: &str, condition: &str) -> f64 {
    let plan = session.plan(&format!("SELECT * FROM {table} WHERE {condition}"));
    let rows = plan.split("rows=").nth(1).and_then(|rest| rest.split_whitespace().next());
    rows.and_then(|rows| rows.parse().ok()).unwrap_or_else(|| panic!("{plan}"))
}

on_shared!(estimates);
fn estimates(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS
             SELECT i AS id, CASE WHEN i % 2 = 0 THEN 7 WHEN i % 4 = 1 THEN i % 1000 END AS k
             FROM generate_series(1, 100000) i;
         -- A thousand values of the histogram: a hundred would be a third off now and then.
         ALTER TABLE t ALTER id SET STATISTICS 1000; ANALYZE t",
    );
    for (filter, column) in [
        ("SELECT bloom_agg(i) FROM generate_series(1, 1000) i", "id"),
        ("SELECT bloom_agg(i, 0.3) FROM generate_series(1, 1000) i", "id"),
        ("SELECT bloom_agg(i) FROM generate_series(1, 60000) i", "id"),
        ("SELECT bloom_agg(i) FROM generate_series(7, 7) i", "k"),
        ("SELECT bloom_agg(i) FROM generate_series(1, 500) i WHERE i <> 7", "k"),
        ("SELECT bloom_agg(i) FROM generate_series(1, 2000) i", "k"),
    ] {
        let constant = session.one(filter);
        for condition in
            [format!("'{constant}'::bloom @> {column}"), format!("{column} <@ '{constant}'::bloom")]
        {
            let guess = expected(&mut session, &condition);
            let truth = session.number(&format!("SELECT count(*) FROM t WHERE {condition}"));
            let error = f64::max(guess / truth, truth / guess);
            assert!(error < 1.35, "{filter} on {column}: {guess} expected, {truth} found");
        }
    }
    // Unknown filters, other types, damaged and NULL ones: some estimate, and no error in planning.
    for condition in
        ["(SELECT bloom_agg(1)) @> id", "NULL::bloom @> id", "bloom_add(bloom_empty('int', 5), id) @> 5"]
    {
        expected(&mut session, condition);
    }
    let text = session.one("SELECT bloom_agg('x'::text)");
    expected(&mut session, &format!("'{text}'::bloom @> id"));
    session.run(&format!(
        "PREPARE p (bloom) AS SELECT * FROM t WHERE $1 @> id;
         SET plan_cache_mode = force_generic_plan; EXPLAIN EXECUTE p ('{text}')"
    ));
}

on_shared!(leaks_nothing);
/// Without the right to read the column, its common values are not asked.
fn leaks_nothing(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE secret AS SELECT CASE WHEN i % 2 = 0 THEN 7 ELSE i END AS k FROM generate_series(1, 10000) i;
         ANALYZE secret;
         CREATE VIEW t WITH (security_barrier) AS SELECT k FROM secret WHERE k > 0;
         GRANT SELECT ON t TO PUBLIC",
    );
    session.run("DO $$BEGIN CREATE ROLE bloom_reader; EXCEPTION WHEN duplicate_object THEN NULL; END$$");
    let [seven, eight] = [7, 8].map(|key| session.one(&format!("SELECT bloom_agg({key}, 1e-6)")));
    let asked = |filter: &str| format!("'{filter}'::bloom @> k");
    let open = [&seven, &eight].map(|filter| expected_of(&mut session, "secret", &asked(filter)));
    assert!(open[0] > 10.0 * open[1], "{open:?}");
    session.run("SET ROLE bloom_reader");
    let closed = [&seven, &eight].map(|filter| expected(&mut session, &asked(filter)));
    assert!(closed[0] < 1.2 * closed[1], "{closed:?}");
}
