//! Values with very many keys: an array of a million elements, a document and a text of megabytes.
use super::skips_many;
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, same};
use pg_skip_tests::compare::sound;
use pg_skip_tests::session::Session;

/// The most memory that the session's server process had, in megabytes, but for the memory that it shares.
fn most_memory(session: &mut Session) -> f64 {
    session.number(
        "SELECT (substring(s FROM 'VmHWM:\\s*(\\d+)')::int - substring(s FROM 'RssShmem:\\s*(\\d+)')::int) / 1024
         FROM pg_read_file('/proc/self/status') AS s",
    )
}

on_shared!(inserted);
/// They come to ranges that are summarized: the memory that this takes is bounded, and they are found.
fn inserted(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE large AS SELECT
            (SELECT array_agg(i) FROM generate_series(1, 1000000) i) AS v,
            (SELECT jsonb_object_agg('k' || i, 'value ' || i || repeat('y', 100))
                FROM generate_series(1, 20000) i) AS d,
            (SELECT string_agg('w' || i || repeat(' and more', 10), ' ') FROM generate_series(1, 20000) i) AS w;
         CREATE TABLE t (id int, v int[], d jsonb, w text, filler text DEFAULT repeat('x', 200))
            WITH (fillfactor = 60);
         INSERT INTO t SELECT i, ARRAY[-i], jsonb_build_object('a', i), 'one ' || i FROM generate_series(1, 800) i;
         CREATE INDEX t_v ON t USING skip (v array_element_skip_ops) WITH (pages_per_range = 1);
         CREATE INDEX t_d ON t USING skip (d jsonb_path_skip_ops, w text_token_skip_ops) WITH (pages_per_range = 1)",
    );
    // The value is read and copied without an index first, as in any update.
    let mut other = database.session();
    other.run("CREATE TABLE copy AS SELECT v FROM large; UPDATE copy SET v = large.v || 1 FROM large");
    let before = most_memory(&mut other);
    other.run("UPDATE t SET v = large.v FROM large WHERE id = 7");
    let after = most_memory(&mut other);
    assert!(after - before < 60.0, "{} MB more", after - before);
    session.run(
        "UPDATE t SET d = large.d FROM large WHERE id = 7; UPDATE t SET w = large.w FROM large WHERE id = 7",
    );
    for step in ["SELECT 1", "REINDEX TABLE t"] {
        session.run(step);
        for predicate in [
            "v @> '{1,777777,1000000}'",
            "999999 = ANY (v)",
            "d ? 'k19999'",
            "d ->> 'k12345' = 'value 12345' || repeat('y', 100)",
            "w @@@ 'w19999 w1'",
        ] {
            let statement = format!("SELECT id FROM t WHERE {predicate}");
            same(&mut session, &Way::skip_scan(), &Case::using(&statement));
            assert_eq!(session.column(&statement), ["7"], "{predicate}");
            Way::skip_scan().set(&mut session);
            skips_many(&mut session, &statement);
            session.run("RESET ALL");
        }
    }
    sound(&mut session, "t_v");
    sound(&mut session, "t_d");
}

on_shared!(built);
/// An index of many large values is made in bounded memory: a few values, and maintenance_work_mem.
fn built(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS
            WITH large (d, w) AS (SELECT
                (SELECT jsonb_object_agg('k' || i, 'value ' || i || repeat('y', 100))
                    FROM generate_series(1, 20000) i),
                (SELECT string_agg('w' || i || repeat(' and more', 10), ' ') FROM generate_series(1, 20000) i))
            SELECT i AS id, d || jsonb_build_object('id', i) AS d, w || ' id' || i AS w
            FROM large, generate_series(1, 60) i",
    );
    // The values are read, and written as text, without an index first.
    let mut other = database.session();
    other.run("SELECT sum(length(d::text)) + sum(length(w)) FROM t");
    let before = most_memory(&mut other);
    other.run(
        "SET max_parallel_maintenance_workers = 0; SET maintenance_work_mem = '8MB';
         CREATE INDEX t_skip ON t USING skip (d jsonb_path_skip_ops, w text_token_skip_ops, w text_ngram_skip_ops)
             WITH (pages_per_range = 1)",
    );
    let after = most_memory(&mut other);
    assert!(after - before < 60.0, "{} MB more, for 240 MB of values", after - before);
    for predicate in ["d @> '{\"id\": 47}'", "w @@@ 'id47'", "w LIKE '% id47'"] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        same(&mut session, &Way::skip_scan(), &Case::using(&statement));
        assert_eq!(session.column(&statement), ["47"], "{predicate}");
    }
    sound(&mut session, "t_skip");
}
