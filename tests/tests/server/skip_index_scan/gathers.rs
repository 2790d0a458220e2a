//! Parallel Skip Index Scans that run again: on the inner side of a nested loop, also after a LIMIT has stopped them
//! early, or when no worker could be started.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, same};
use pg_skip_tests::session::Session;

/// Runs a query by each way of sharing the work, and fails unless each is a parallel Skip Index Scan with the answer of
/// a plain scan.
fn by_all_ways(session: &mut Session, sql: &str) {
    for leader in ["on", "off"] {
        for workers in ["8", "0"] {
            let way = Way::skip_scan().parallel().nested_loop().with("enable_memoize", "off");
            let way = way.with("parallel_leader_participation", leader).with("max_parallel_workers", workers);
            assert!(same(session, &way, &Case::using(sql)), "no Skip Index Scan for {sql}");
            session.run("BEGIN");
            session.run(&way.local());
            let plan = session.plan(sql);
            assert!(plan.contains("Gather") && plan.contains("Parallel Custom Scan"), "{plan}");
            session.run("ROLLBACK");
        }
    }
}

on_shared!(run_again);
fn run_again(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, d int, filler text DEFAULT repeat('x', 200)) WITH (fillfactor = 70);
         INSERT INTO t SELECT i, i % 60, i / 500 FROM generate_series(1, 6000) i;
         CREATE INDEX t_k ON t USING skip (k) WITH (pages_per_range = 1);
         CREATE INDEX t_d ON t USING skip (d) WITH (pages_per_range = 4);
         ANALYZE t",
    );
    // An index on another column, with other ranges, is asked too.
    for condition in ["k IN (1, 2, 3)", "d IN (3, 7)", "k IN (1, 2, 3) AND d IN (3, 7, 11)", "k = 5 OR d = 7"]
    {
        for (what, limit) in [("count(*) AS n, sum(id) AS ids", ""), ("count(*) AS n, 0 AS ids", "LIMIT 40")]
        {
            by_all_ways(
                &mut session,
                &format!(
                    "SELECT g, s.n, s.ids
                     FROM generate_series(1, 12) g LEFT JOIN LATERAL
                          (SELECT {what} FROM (SELECT id FROM t WHERE {condition} {limit}) x) s ON true"
                ),
            );
        }
        session.run("UPDATE t SET k = (k + 1) % 60 WHERE id % 97 = 0");
    }
}
