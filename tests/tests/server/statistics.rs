//! pg_skip_stats: what Skip Index Scans count, for whom, and until when.
use crate::registry::{alone, on_shared};
use crate::shared::Database;
use crate::skip_index_scan::table_of_uuids;
use pg_skip_tests::both_ways::{Way, skips};
use pg_skip_tests::server::{Server, install};
use pg_skip_tests::session::Session;
use std::time::{Duration, Instant};

/// A server that counts for all sessions; with more settings.
fn server(more: &[&str]) -> Server {
    let preload = if install().version < 17 { &["shared_preload_libraries=pg_skip"][..] } else { &[] };
    let server = Server::start(&[preload, more].concat());
    server.connect("postgres").run("CREATE EXTENSION pg_skip");
    server
}

const ONLY_SKIP_SCANS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off; SET enable_material = off";

/// A session that takes Skip Index Scans where it can.
fn skipping(server: &Server) -> Session {
    let mut session = server.connect("postgres");
    session.run(ONLY_SKIP_SCANS);
    session
}

/// One row a block: six ranges with filters, two without; the second 7 is deleted.
fn known_layout(session: &mut Session) {
    session.run(
        "CREATE TABLE t (k int, b int DEFAULT 1, pad text DEFAULT repeat('x', 6000));
         ALTER TABLE t ALTER pad SET STORAGE PLAIN;
         INSERT INTO t SELECT unnest(ARRAY[1, 7, 2, 7, 3, 7]);
         CREATE INDEX t_skip ON t USING skip (k)
             WITH (pages_per_range = 1, false_positive_rate = 1e-9, autosummarize = off);
         CREATE INDEX t_other ON t USING skip (b)
             WITH (pages_per_range = 1, false_positive_rate = 1e-9, autosummarize = off);
         DELETE FROM t WHERE ctid = '(3,1)';
         INSERT INTO t SELECT unnest(ARRAY[8, 9])",
    );
}

/// Runs a query that must be a Skip Index Scan; returns its first column.
#[track_caller]
fn scan(session: &mut Session, sql: &str) -> Vec<String> {
    let plan = session.plan(sql);
    assert!(plan.contains("Skip Index Scan"), "{sql}\n{plan}");
    session.column(sql)
}

/// scans, checked, skipped, full positives, true positives.
#[track_caller]
fn counts(session: &mut Session, index: &str) -> [u64; 5] {
    let row = session.one(&format!(
        "SELECT concat_ws(' ', scans, ranges_checked, ranges_skipped, full_positives, true_positives)
         FROM pg_skip_stats WHERE indexname = '{index}'"
    ));
    let numbers: Vec<u64> = row.split(' ').map(|n| n.parse().expect("a number")).collect();
    numbers.try_into().expect("five counters")
}

/// What a query adds to the counters of `t_skip`.
#[track_caller]
fn adds(session: &mut Session, sql: &str) -> [u64; 5] {
    let before = counts(session, "t_skip");
    scan(session, sql);
    let after = counts(session, "t_skip");
    std::array::from_fn(|i| after[i] - before[i])
}

alone!(what_is_counted);
fn what_is_counted() {
    let server = server(&[]);
    let mut session = skipping(&server);
    known_layout(&mut session);
    assert_eq!(counts(&mut session, "t_skip"), [0; 5]);
    let rate = "SELECT measured_false_positive_rate FROM pg_skip_stats WHERE indexname = 't_skip'";
    assert_eq!(session.one(rate), "NULL");
    // Three of the six ranges with a filter are skipped; of the other three one holds the deleted row only.
    assert_eq!(adds(&mut session, "SELECT count(*) FROM t WHERE k = 7"), [1, 6, 3, 3, 2]);
    assert_eq!(session.one(rate), "0.25");
    assert_eq!(adds(&mut session, "SELECT count(*) FROM t WHERE k = 99"), [1, 6, 6, 0, 0]);
    assert_eq!(session.one(rate), "0.1");
    assert_eq!(adds(&mut session, "SELECT count(*) FROM t WHERE k IN (1, 2, 99)"), [1, 6, 4, 2, 2]);
    // Other conditions do not make a range a false positive.
    assert_eq!(adds(&mut session, "SELECT count(*) FROM t WHERE k = 2 AND pad = ''"), [1, 6, 5, 1, 1]);
    // A range that a LIMIT leaves is neither.
    assert_eq!(adds(&mut session, "SELECT k FROM t WHERE k = 7 LIMIT 1"), [1, 6, 3, 0, 0]);
    let join = "SELECT count(t.k) FROM (VALUES (1), (7), (99)) v (k) JOIN t ON t.k = v.k";
    assert_eq!(adds(&mut session, join), [3, 18, 5 + 3 + 6, 1 + 3, 1 + 2]);
    // Plain EXPLAIN scans nothing, whatever it reads of the index; nor does an error undo what was scanned.
    session.run("EXPLAIN SELECT count(*) FROM t WHERE k = 7");
    session.run("BEGIN");
    assert_eq!(adds(&mut session, "SELECT count(*) FROM t WHERE k = 3"), [1, 6, 5, 1, 1]);
    session.run("ROLLBACK");
    let [scans, ..] = counts(&mut session, "t_skip");
    assert_eq!(scans, 9);
    assert_eq!(counts(&mut session, "t_other"), [0; 5]);
    session.run("SET pg_skip.force_indexes = 't_skip, t_other'");
    assert_eq!(adds(&mut session, "SELECT count(*) FROM t WHERE k = 7 AND b = 1"), [1, 6, 3, 3, 2]);
    assert_eq!(counts(&mut session, "t_other")[0], 1);
    server.finish();
}

alone!(sessions_add_up);
fn sessions_add_up() {
    let server = server(&[]);
    let (mut one, mut other) = (skipping(&server), skipping(&server));
    known_layout(&mut one);
    assert_eq!(one.one("SELECT DISTINCT scope FROM pg_skip_stats"), "server");
    for session in [&mut one, &mut other] {
        scan(session, "SELECT count(*) FROM t WHERE k = 7");
    }
    assert_eq!(counts(&mut one, "t_skip"), [2, 12, 6, 6, 4]);
    assert_eq!(counts(&mut other, "t_skip"), [2, 12, 6, 6, 4]);
    assert_eq!(counts(&mut server.connect("postgres"), "t_skip"), [2, 12, 6, 6, 4]);
    // Another database's index is another index, even with the same OID.
    one.run("CREATE DATABASE copied");
    let mut copied = server.connect("copied");
    copied.run("CREATE EXTENSION pg_skip");
    known_layout(&mut copied);
    assert_eq!(counts(&mut copied, "t_skip"), [0; 5]);
    drop((one, other, copied));
    server.stop();
    server.restart();
    assert_eq!(counts(&mut server.connect("postgres"), "t_skip"), [0; 5]);
    let mut session = skipping(&server);
    scan(&mut session, "SELECT count(*) FROM t WHERE k = 99");
    assert_eq!(counts(&mut server.connect("postgres"), "t_skip"), [1, 6, 6, 0, 0]);
    drop(session);
    server.finish();
}

alone!(of_a_session_without_preload);
/// Where there is no memory to share.
fn of_a_session_without_preload() {
    let server = Server::start(&[]);
    server.connect("postgres").run("CREATE EXTENSION pg_skip");
    let (mut one, mut other) = (skipping(&server), skipping(&server));
    known_layout(&mut one);
    let is_shared = install().version >= 17;
    let scope = if is_shared { "server" } else { "session" };
    assert_eq!(one.one("SELECT DISTINCT scope FROM pg_skip_stats"), scope);
    if !is_shared {
        scan(&mut one, "SELECT count(*) FROM t WHERE k = 7");
        assert_eq!(counts(&mut one, "t_skip"), [1, 6, 3, 3, 2]);
        assert_eq!(counts(&mut other, "t_skip"), [0; 5]);
        scan(&mut other, "SELECT count(*) FROM t WHERE k = 99");
        other.run("SELECT pg_skip_stats_reset()");
        assert_eq!(counts(&mut other, "t_skip"), [0; 5]);
        assert_eq!(counts(&mut one, "t_skip"), [1, 6, 3, 3, 2]);
        assert_eq!(one.one("SELECT DISTINCT stats_reset FROM pg_skip_stats"), "NULL");
    }
    server.finish();
}

alone!(statistics_start_anew_after_a_reset);
fn statistics_start_anew_after_a_reset() {
    let server = server(&[]);
    let (mut session, mut other) = (skipping(&server), skipping(&server));
    known_layout(&mut session);
    let when = "SELECT DISTINCT stats_reset FROM pg_skip_stats";
    assert_eq!(session.one(when), "NULL");
    scan(&mut other, "SELECT count(*) FROM t WHERE k = 7");
    let before = session.one("SELECT clock_timestamp()");
    session.run("SELECT pg_skip_stats_reset()");
    assert_eq!(counts(&mut other, "t_skip"), [0; 5]);
    let is_then =
        format!("SELECT bool_and(stats_reset BETWEEN '{before}' AND clock_timestamp()) FROM pg_skip_stats");
    assert_eq!(other.one(&is_then), "t");
    assert_eq!(adds(&mut other, "SELECT count(*) FROM t WHERE k = 7"), [1, 6, 3, 3, 2]);
    session.run("CREATE ROLE someone; SET ROLE someone");
    assert_eq!(session.error("SELECT pg_skip_stats_reset()").code().code(), "42501");
    for rows in ["pg_skip_stats", "pg_skip_stats_counters()"] {
        let rows = session.one(&format!("SELECT count(*) FROM {rows}"));
        assert_eq!(rows, "0", "who may not read the table learns nothing of it");
    }
    session.run("RESET ROLE; GRANT SELECT ON t TO someone; SET ROLE someone");
    assert_eq!(counts(&mut session, "t_skip"), [1, 6, 3, 3, 2], "who may read it may look");
    session.run("RESET ROLE; GRANT EXECUTE ON FUNCTION pg_skip_stats_reset() TO someone; SET ROLE someone");
    session.run("SELECT pg_skip_stats_reset()");
    assert_eq!(counts(&mut session, "t_skip"), [0; 5]);
    server.finish();
}

alone!(dropped_indexes);
fn dropped_indexes() {
    let server = server(&[]);
    let mut session = skipping(&server);
    known_layout(&mut session);
    scan(&mut session, "SELECT count(*) FROM t WHERE k = 7");
    session.run("REINDEX INDEX t_skip");
    assert_eq!(counts(&mut session, "t_skip"), [1, 6, 3, 3, 2], "the same index");
    session.run("DROP INDEX t_skip");
    let rows = "SELECT count(*) FROM pg_skip_stats WHERE indexname = 't_skip' OR scans > 0";
    assert_eq!(session.one(rows), "0");
    session.run("CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1)");
    assert_eq!(counts(&mut session, "t_skip"), [0; 5]);
    scan(&mut session, "SELECT count(*) FROM t WHERE k = 7");
    session.run("SELECT pg_skip_stats_reset()");
    let left = "SELECT count(*) FROM pg_skip_stats_counters() c
        WHERE NOT EXISTS (SELECT FROM pg_class WHERE oid = c.indexrelid)";
    assert_eq!(session.one(left), "0", "a reset gives back the places of dropped indexes");
    session.run("DROP TABLE t");
    assert_eq!(session.one("SELECT count(*) FROM pg_skip_stats"), "0");
    server.finish();
}

alone!(parallel_scans);
fn parallel_scans() {
    let server = server(&["max_parallel_workers_per_gather=3", "min_parallel_table_scan_size=0"]);
    let mut session = skipping(&server);
    session.run(
        "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
         CREATE TABLE t (k int, pad text DEFAULT repeat('x', 1000));
         INSERT INTO t SELECT i % 2 FROM generate_series(1, 20000) i;
         CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 4);
         ANALYZE t",
    );
    let ranges = session.number("SELECT ceil(pg_relation_size('t') / 8192 / 4.0)") as u64;
    let query = "SELECT count(*) FROM t WHERE k = 1";
    let plan = session.plan(query);
    assert!(plan.contains("Gather"), "{plan}");
    let [scans, checked, skipped, full, holding] = adds(&mut session, query);
    assert_eq!([scans, skipped], [1, 0]);
    assert_eq!([full, holding], [checked, checked]);
    assert!((ranges - 1..=ranges).contains(&checked), "{checked} of {ranges}");
    server.finish();
}

alone!(measured_rate);
/// Over many keys that are nowhere, the measured rate is the one that the filters' fill lets expect.
fn measured_rate() {
    let server = server(&[]);
    let mut session = skipping(&server);
    session.run(
        "CREATE TABLE t (k int, pad text DEFAULT repeat('x', 60));
         INSERT INTO t SELECT i FROM generate_series(1, 100000) i;
         CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1, false_positive_rate = 0.02)",
    );
    scan(&mut session, "SELECT count(*) FROM t WHERE k = -1");
    session.run(
        "DO $$ BEGIN FOR i IN 1..400 LOOP PERFORM count(*) FROM t WHERE k = 1000000 + i; END LOOP; END $$",
    );
    let expected = session.number("SELECT expected_false_positive_rate FROM skip_index_info('t_skip')");
    let [scans, checked, skipped, full, holding] = counts(&mut session, "t_skip");
    assert_eq!((scans, holding, checked), (401, 0, skipped + full));
    let measured =
        session.number("SELECT measured_false_positive_rate FROM pg_skip_stats WHERE indexname = 't_skip'");
    assert!((measured - full as f64 / checked as f64).abs() < 1e-12);
    assert!((0.7..1.3).contains(&(measured / expected)), "measured {measured}, expected {expected}");
    server.finish();
}

alone!(standbys_count_for_themselves);
fn standbys_count_for_themselves() {
    let server = server(&[]);
    let mut session = skipping(&server);
    known_layout(&mut session);
    scan(&mut session, "SELECT count(*) FROM t WHERE k = 7");
    let preload = if install().version < 17 { &["shared_preload_libraries=pg_skip"][..] } else { &[] };
    let standby = server.standby(preload);
    let mut there = skipping(&standby);
    assert_eq!(counts(&mut there, "t_skip"), [0; 5]);
    scan(&mut there, "SELECT count(*) FROM t WHERE k = 99");
    assert_eq!(counts(&mut there, "t_skip"), [1, 6, 6, 0, 0]);
    assert_eq!(there.one("SELECT DISTINCT scope FROM pg_skip_stats"), "server");
    there.run("SELECT pg_skip_stats_reset()");
    assert_eq!(counts(&mut there, "t_skip"), [0; 5]);
    assert_eq!(counts(&mut session, "t_skip"), [1, 6, 3, 3, 2]);
    drop((session, there));
    standby.finish();
    server.finish();
}

on_shared!(one_row_an_index);
/// One row for each index with storage, whether it was scanned or not.
fn one_row_an_index(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE SCHEMA s;
         CREATE TABLE s.p (k int, v text) PARTITION BY RANGE (k);
         CREATE TABLE s.p_a PARTITION OF s.p FOR VALUES FROM (0) TO (10);
         CREATE TABLE s.p_b PARTITION OF s.p FOR VALUES FROM (10) TO (20);
         CREATE INDEX p_skip ON s.p USING skip (k);
         CREATE INDEX ON s.p_a (k);
         CREATE INDEX ON s.p_a USING brin (k);
         CREATE MATERIALIZED VIEW m AS SELECT * FROM s.p;
         CREATE INDEX m_skip ON m USING skip (v)",
    );
    let rows = session.column(
        "SELECT concat_ws(' ', schemaname, tablename, indexname,
         indexrelid = (schemaname || '.' || indexname)::regclass,
             scans, ranges_checked, ranges_skipped, full_positives, true_positives, measured_false_positive_rate)
         FROM pg_skip_stats ORDER BY 1",
    );
    let zeros = "t 0 0 0 0 0";
    let expected = [
        format!("public m m_skip {zeros}"),
        format!("s p_a p_a_k_idx {zeros}"),
        format!("s p_b p_b_k_idx {zeros}"),
    ];
    assert_eq!(rows, expected);
    let columns = session.one(
        "SELECT string_agg(attname || ' ' || format_type(atttypid, NULL), ', ' ORDER BY attnum)
         FROM pg_attribute WHERE attrelid = 'pg_skip_stats'::regclass AND attnum > 0",
    );
    assert_eq!(
        columns,
        "schemaname name, tablename name, indexname name, indexrelid oid, scans bigint, ranges_checked bigint, \
         ranges_skipped bigint, full_positives bigint, true_positives bigint, \
         measured_false_positive_rate double precision, scope text, stats_reset timestamp with time zone"
    );
}

on_shared!(index_scans_rise);
/// PostgreSQL's own count of index scans: one for each Skip Index Scan, and each rescan that asked again.
fn index_scans_rise(database: &Database) {
    let mut session = database.session();
    session.run(ONLY_SKIP_SCANS);
    known_layout(&mut session);
    scan(&mut session, "SELECT count(*) FROM t WHERE k = 7");
    scan(&mut session, "SELECT count(*) FROM t WHERE k = 99");
    scan(&mut session, "SELECT count(t.k) FROM (VALUES (1), (7), (99)) v (k) JOIN t ON t.k = v.k");
    session.run("SELECT pg_stat_force_next_flush()");
    let end = Instant::now() + Duration::from_secs(30);
    let idx_scan = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 't_skip'";
    while session.one(idx_scan) != "5" {
        assert!(Instant::now() < end, "idx_scan is {}, not 5", session.one(idx_scan));
        std::thread::sleep(Duration::from_millis(50));
    }
}

alone!(workers_count_what_they_scan);
/// A Skip Index Scan that each worker runs for itself, as the inner side of a nested loop, counts in the shared
/// statistics.
fn workers_count_what_they_scan() {
    let server = server(&[]);
    let mut session = server.connect("postgres");
    table_of_uuids(&mut session);
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
    let row = session.rows(counted).concat();
    assert_eq!(row, ["400", "400", "server"].map(|text| Some(text.to_owned())), "{plan}");
    drop(session);
    server.finish();
}
