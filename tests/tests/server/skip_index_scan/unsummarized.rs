//! Tables without rows, and ranges without filters.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, same, skips};

on_shared!(empty_and_unsummarized);
fn empty_and_unsummarized(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 300));
         CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 4, autosummarize = off)",
    );
    for step in [
        "SELECT 1",
        "INSERT INTO t SELECT i, i / 5 FROM generate_series(1, 3000) i",
        "SELECT skip_summarize('t_skip')",
        "INSERT INTO t SELECT i, i / 5 FROM generate_series(3001, 3500) i",
        "DELETE FROM t WHERE id > 1000",
        "VACUUM t",
        "DELETE FROM t",
        "VACUUM t",
        "INSERT INTO t SELECT i, NULL FROM generate_series(1, 100) i",
        "TRUNCATE t",
    ] {
        session.run(step);
        for condition in ["k = 7", "k = 500", "k = 9999", "k IN (1, 650, 699)", "k IS NULL", "k IS NOT NULL"]
        {
            for way in [Way::skip_scan(), Way::skip_scan().parallel()] {
                let sql = format!("SELECT id, k FROM t WHERE {condition}");
                assert!(same(&mut session, &way, &Case::using(&sql)), "{sql} after {step}");
            }
        }
        let plan = session.plan("SELECT * FROM t WHERE (k = 7) IS TRUE");
        assert!(!skips(&plan), "no index serves this:\n{plan}");
    }
}
