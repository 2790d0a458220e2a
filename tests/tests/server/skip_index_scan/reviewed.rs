//! Faults that a review found in Skip Index Scans, each with the case that showed it.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Way, skips};
use pg_skip_tests::explain::{executed, skip_scan};
use pg_skip_tests::session::Session;

fn table(database: &Database) -> Session {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS SELECT i AS id, md5(i::text)::uuid AS u, i % 2 = 0 AS b, i / 500 AS stretch,
             repeat('x', 100) AS filler FROM generate_series(1, 30000) i;
         CREATE INDEX t_u ON t USING skip (u);
         CREATE INDEX t_b ON t USING skip (b, stretch) WITH (pages_per_range = 6)",
    );
    session.run("VACUUM ANALYZE t");
    session
}

on_shared!(the_probe_budget_is_of_one_planning);
/// Hundreds of plannings in one statement each have the whole budget.
fn the_probe_budget_is_of_one_planning(database: &Database) {
    let mut session = table(database);
    session.run("SET pg_skip.plan_probe_pages = 100");
    session.run(
        "CREATE FUNCTION averages() RETURNS bigint LANGUAGE plpgsql AS $$
         DECLARE line text; found bigint := 0;
         BEGIN
             FOR i IN 1..100 LOOP
                 FOR line IN EXECUTE format('EXPLAIN SELECT * FROM t WHERE u = %L', md5(i::text)) LOOP
                     found := found + (line LIKE '%Ranges Expected%(average)%')::int;
                 END LOOP;
             END LOOP;
             RETURN found;
         END $$",
    );
    assert_eq!(session.one("SELECT averages()"), "0");
}

on_shared!(useless_conditions_are_left_out);
/// A condition that rules nothing out is checked on rows, not looked up, while another rules out nearly all.
fn useless_conditions_are_left_out(database: &Database) {
    let mut session = table(database);
    let key = "u = md5('77')::uuid";
    for useless in ["b", "stretch IS NOT NULL", "b IN (true, false)", "NOT b"] {
        let node = skip_scan(&mut session, "", &format!("SELECT id FROM t WHERE {key} AND {useless}"));
        assert!(!node.text("Skip Indexes").contains("t_b"), "{useless} is looked up");
        assert!(node.has("Filter"), "{useless} is not checked");
    }
    let node = skip_scan(&mut session, "", &format!("SELECT id FROM t WHERE {key} AND stretch = 0"));
    assert!(node.text("Skip Indexes").contains("t_b"), "stretch = 0 rules out nearly all, with fewer pages");
    assert_eq!(session.one(&format!("SELECT id FROM t WHERE NOT b AND {key}")), "77");
    // A forced index is asked all the same.
    session.run("SET pg_skip.force_indexes = 't_u, t_b'");
    let node = skip_scan(&mut session, "", &format!("SELECT id FROM t WHERE {key} AND b"));
    assert!(node.text("Skip Indexes").contains("t_b"));
}

on_shared!(workers_count_what_they_scan);
/// A Skip Index Scan that each worker runs for itself, as the inner side of a nested loop, counts in the shared statistics.
fn workers_count_what_they_scan(database: &Database) {
    let mut session = table(database);
    session.run("CREATE TABLE o AS SELECT md5(i::text)::uuid AS u FROM generate_series(1, 400) i");
    session.run("ALTER TABLE o SET (parallel_workers = 2); ANALYZE o");
    Way::skip_scan().parallel().nested_loop().set(&mut session);
    session.run("SET enable_memoize = off; SET enable_seqscan = on; SET parallel_leader_participation = off");
    let query = "SELECT count(*) FROM o JOIN t ON t.u = o.u";
    let plan = session.plan(query);
    assert!(skips(&plan) && plan.contains("Gather"), "{plan}");
    session.run("SELECT pg_skip_stats_reset()");
    assert_eq!(session.one(query), "400");
    let counted = "SELECT scans, true_positives, scope FROM pg_skip_stats WHERE indexname = 't_u'";
    let row = session.rows(counted).remove(0);
    if row[2].as_deref() == Some("server") {
        assert_eq!((row[0].as_deref(), row[1].as_deref()), (Some("400"), Some("400")), "{plan}");
    }
}

on_shared!(forced_indexes_elsewhere);
/// Foreign keys are the server's business; the partitions of a forced index are forced.
fn forced_indexes_elsewhere(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE pk (id int PRIMARY KEY, k int);
         INSERT INTO pk SELECT i, i FROM generate_series(1, 100) i;
         CREATE INDEX pk_skip ON pk USING skip (k);
         CREATE TABLE fk (id int REFERENCES pk);
         CREATE TABLE p (id int, k int) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
         CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200);
         INSERT INTO p SELECT i, i FROM generate_series(0, 199) i;
         CREATE INDEX p_skip ON p USING skip (k)",
    );
    session.run("SET pg_skip.force_indexes = 'pk_skip, p_skip'");
    session.run("INSERT INTO fk VALUES (5)");
    session.run("DELETE FROM pk WHERE k = 7");
    assert_eq!(session.error("SELECT * FROM pk WHERE id = 5").code().code(), "55000");
    let plan = session.plan("SELECT * FROM p WHERE k = 150");
    assert_eq!(plan.matches("(Skip Index Scan)").count(), 2, "{plan}");
    assert_eq!(session.one("SELECT id FROM p WHERE k = 150"), "150");
    assert_eq!(session.error("SELECT * FROM p WHERE id = 5").code().code(), "55000");
    session.run("SET pg_skip.force_indexes = ''; SET pg_skip.ignore_indexes = 'p_skip'");
    Way::skip_scan().set(&mut session);
    let plan = session.plan("SELECT * FROM p WHERE k = 150");
    assert!(!skips(&plan), "{plan}");
}

on_shared!(keys_that_are_scans);
/// The pages that a key's own Skip Index Scan reads are not counted for the scan that it is a key of.
fn keys_that_are_scans(database: &Database) {
    let mut session = table(database);
    Way::skip_scan().set(&mut session);
    let alone = executed(&mut session, "SELECT id FROM t WHERE u = md5('77')::uuid");
    let pages = alone.number("Index Pages Read");
    let both = "SELECT id FROM t WHERE u = (SELECT u FROM t WHERE u = md5('77')::uuid)";
    let nodes = pg_skip_tests::explain::skip_scans(&mut session, "ANALYZE,", both);
    let counted: Vec<u64> = nodes.iter().map(|node| node.number("Index Pages Read")).collect();
    assert_eq!(counted, [pages, pages]);
}

on_shared!(null_keys_read_nothing);
/// Nothing equals NULL: not even ranges without a filter are read for it.
fn null_keys_read_nothing(database: &Database) {
    let mut session = table(database);
    session.run("ALTER INDEX t_u SET (autosummarize = off)");
    session.run("INSERT INTO t SELECT i, md5(i::text)::uuid FROM generate_series(30001, 40000) i");
    Way::skip_scan().set(&mut session);
    session.run("SET plan_cache_mode = force_generic_plan");
    for (of, key) in [("uuid", "u = $1"), ("uuid[]", "u = ANY ($1)")] {
        session.run(&format!("PREPARE find({of}) AS SELECT id FROM t WHERE {key}"));
        let node = executed(&mut session, "EXECUTE find(NULL)");
        assert_eq!((node.number("Ranges Scanned"), node.number("Ranges Unsummarized")), (0, 0), "{key}");
        assert!(node.number("Ranges Total") > 30, "{key}");
        session.run("DEALLOCATE find");
    }
    session.run("PREPARE same(uuid) AS SELECT count(*) FROM t WHERE u IS NOT DISTINCT FROM $1");
    assert_eq!(session.one("EXECUTE same(NULL)"), "0");
    session.run("UPDATE t SET u = NULL WHERE id IN (5, 35000)");
    assert_eq!(session.one("EXECUTE same(NULL)"), "2");
}
