//! Errors that are raised in a hook which was there before pg_skip's keep all their fields on the way through ours.
use crate::c_library;
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::session::{Session, fields};

/// A session in which the hooks of another library are called by pg_skip's, and one in which the server calls them.
fn with_and_without(database: &Database) -> [Session; 2] {
    let library = c_library::build("hooks");
    let [mut with, mut without] = [database.session(), database.session()];
    for session in [&mut with, &mut without] {
        session.run(&format!("LOAD '{}'", library.display()));
    }
    with.run("LOAD 'pg_skip'");
    [with, without]
}

on_shared!(errors_pass_through);
fn errors_pass_through(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, n int); INSERT INTO t SELECT i, i % 7 FROM generate_series(1, 3000) i;
         CREATE INDEX t_skip ON t USING skip (id, n) WITH (pages_per_range = 1); ANALYZE t",
    );
    let [mut with, mut without] = with_and_without(database);
    for (hook, sql) in [
        ("planner", "SELECT * FROM t WHERE id = 7"),
        ("paths", "SELECT * FROM t WHERE id = 7"),
        ("relation_info", "SELECT * FROM t WHERE id = 7"),
        ("relation_stats", "SELECT count(*) FROM t GROUP BY n"),
        ("object_access", "ALTER INDEX t_skip SET (pages_per_range = 2)"),
    ] {
        // What a hook of ours does before it calls the other one is not undone by the error either: twice.
        for _ in 0..2 {
            let errors = [&mut with, &mut without].map(|session| {
                session.run(&format!("SET hooks.raise_in = '{hook}'"));
                let error = fields(&session.error(sql));
                session.run("RESET hooks.raise_in");
                error
            });
            assert_eq!(errors[0], errors[1], "with pg_skip, and without it: {hook}");
            for field in ["a detail", "a hint", "a schema", "a constraint", "in the hook", "a query"] {
                assert!(errors[1].contains(field), "{field} expected in {}", errors[1]);
            }
        }
        // Without an error, both hooks do their work.
        assert_eq!(with.one("SELECT count(*) FROM t WHERE id = 7"), "1");
    }
    with.run("SET enable_seqscan = off");
    let plan = with.plan("SELECT * FROM t WHERE id = 7");
    assert!(pg_skip_tests::both_ways::skips(&plan), "{plan}");
}
