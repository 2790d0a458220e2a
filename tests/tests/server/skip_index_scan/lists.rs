//! Lists of keys in served conditions: they are looked up by hash, row by row.
use super::keys::{WIDE, comparisons_are_few};
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, by_skip_scan, same, skips};
use pg_skip_tests::session::lines;
use std::time::{Duration, Instant};

on_shared!(lists_that_are_no_constants_are_hashed);
fn lists_that_are_no_constants_are_hashed(database: &Database) {
    let mut session = database.session();
    session.run(WIDE);
    session.run(
        "CREATE TABLE wanted AS SELECT 4 * i AS k FROM generate_series(0, 4999) i;
         SET plan_cache_mode = force_generic_plan",
    );
    Way::skip_scan().set(&mut session);
    session.run(
        "PREPARE by_int (int[]) AS SELECT count(*), sum(id) FROM t WHERE k = ANY ($1);
         PREPARE by_bigint (bigint[]) AS SELECT count(*), sum(id) FROM t WHERE k = ANY ($1);
         PREPARE by_text (text[]) AS SELECT count(*), sum(id) FROM t WHERE v = ANY ($1);
         PREPARE by_cast (text) AS SELECT count(*), sum(id) FROM t WHERE k = ANY (string_to_array($1, ',')::int[]);
         PREPARE in_or (int[]) AS SELECT count(*), sum(id) FROM t WHERE k = ANY ($1) OR v = 'none'",
    );
    let list = session.one("SELECT string_agg(k::text, ',') FROM wanted");
    let expected = session.rows(&format!("SELECT count(*), sum(id) FROM t WHERE k = ANY ('{{{list}}}')"));
    assert_eq!(expected[0][0].as_deref(), Some("10000"));
    for query in [
        format!("EXECUTE by_int ('{{{list}}}')"),
        format!("EXECUTE by_bigint ('{{{list}}}')"),
        format!("EXECUTE by_text ('{{{list}}}')"),
        format!("EXECUTE by_cast ('{list}')"),
        format!("EXECUTE in_or ('{{{list}}}')"),
        "SELECT count(*), sum(id) FROM t WHERE k = ANY (ARRAY(SELECT k FROM wanted))".to_owned(),
    ] {
        let what: String = query.chars().take(60).collect();
        assert!(skips(&session.plan(&query)), "{what}");
        assert_eq!(session.rows(&query), expected, "{what}");
    }
    comparisons_are_few(&mut session);
}

on_shared!(lists_under_loose_collations);
/// The hash function of names ignores the collation, although their operator does not. So lists of them are not hashed
/// under collations in which different bytes may be equal.
fn lists_under_loose_collations(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE COLLATION nd (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE t (id int, d text, n name);
         INSERT INTO t SELECT i, CASE WHEN i % 2 = 0 THEN 'x' || i ELSE 'key' || i END, 'KEY' || i
            FROM generate_series(1, 2000) i;
         CREATE INDEX t_skip ON t USING skip (d) WITH (pages_per_range = 1);
         SET plan_cache_mode = force_generic_plan;
         PREPARE q (text[]) AS SELECT count(*) FROM t
            WHERE d = ANY ($1) AND n COLLATE nd = ANY ($1) OR d = 'x2'",
    );
    let list = (1..40).map(|i| format!("key{i}")).collect::<Vec<_>>().join(",");
    Way::skip_scan().set(&mut session);
    let query = format!("EXECUTE q ('{{{list}}}')");
    assert!(skips(&session.plan(&query)), "{}", session.plan(&query));
    assert_eq!(session.one(&query), "21");
    // Lists of char(n) are: the function that hashes them here leaves out the blanks at the end, in 15 too. (The
    // extended one of 15, by which indexes are made, counts them.)
    session.run(
        "CREATE TABLE b (c char(10) COLLATE nd);
         INSERT INTO b SELECT 'key' || i FROM generate_series(1, 2000) i;
         CREATE INDEX b_skip ON b USING skip (c) WITH (pages_per_range = 1);
         PREPARE blanks (bpchar[]) AS SELECT count(*) FROM b WHERE c = ANY ($1)",
    );
    let query = format!("EXECUTE blanks ('{{{list}}}')");
    assert!(skips(&session.plan(&query)), "{}", session.plan(&query));
    assert_eq!(session.one(&query), "39");
}

/// Types, and an expression that makes values of an integer i; several integers give equal values.
const TYPES: [(&str, &str); 24] = [
    ("smallint", "(i % 50)::smallint"),
    ("integer", "i % 50"),
    ("bigint", "i % 50 + 10000000000"),
    ("oid", "(i % 50)::oid"),
    ("real", "CASE i % 7 WHEN 0 THEN '-0'::real WHEN 1 THEN 0 WHEN 2 THEN 'NaN' ELSE i % 50 / 4.0 END"),
    (
        "double precision",
        "CASE i % 7 WHEN 0 THEN '-0'::float8 WHEN 1 THEN 0 WHEN 2 THEN 'NaN' ELSE i % 50 / 4.0 END",
    ),
    ("numeric", "round(i % 50 / 4.0, i % 5 + 2)"),
    ("text", "repeat('x', i % 50)"),
    ("varchar(60)", "repeat('x', i % 50)"),
    ("char(60)", "repeat('x', i % 50)"),
    (
        "text COLLATE keys_ci",
        "CASE WHEN i % 2 = 0 THEN upper(md5((i % 50)::text)) ELSE md5((i % 50)::text) END",
    ),
    ("name", "('n' || i % 50)::name"),
    ("bytea", "decode(md5((i % 50)::text), 'hex')"),
    ("boolean", "i % 3 = 0"),
    ("uuid", "md5((i % 50)::text)::uuid"),
    ("date", "date '2026-01-01' + i % 50"),
    ("timestamptz", "timestamptz '2026-01-01 00:00Z' + i % 50 * interval '1 hour'"),
    ("time", "time '00:00' + i % 50 * interval '1 minute'"),
    (
        "interval",
        "CASE WHEN i % 2 = 0 THEN i % 50 / 2 * interval '1 day' ELSE i % 50 / 2 * interval '24 hours' END",
    ),
    ("inet", "('10.0.0.' || i % 50)::inet"),
    ("jsonb", "jsonb_build_object('a', i % 50, 'b', ARRAY[i % 2])"),
    ("int4range", "int4range(i % 50, i % 50 + 3)"),
    ("keys_mood", "(ARRAY['sad', 'ok', 'glad'])[i % 3 + 1]::keys_mood"),
    ("macaddr", "('08:00:2b:01:02:' || lpad((i % 50)::text, 2, '0'))::macaddr"),
];

on_shared!(lists_of_all_types);
fn lists_of_all_types(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TYPE keys_mood AS ENUM ('sad', 'ok', 'glad')");
    let icu = session.try_rows(
        "CREATE COLLATION keys_ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    );
    for (kind, value) in TYPES {
        if kind.contains("keys_ci") && icu.is_err() {
            println!("this server has no ICU: nondeterministic collations are left out");
            continue;
        }
        let bare = kind.split(" COLLATE").next().unwrap_or(kind);
        session.run(&format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (id int, c {kind}, filler text DEFAULT repeat('x', 200));
             INSERT INTO t SELECT i, CASE WHEN i % 20 > 0 THEN {value} END FROM generate_series(1, 1500) i;
             CREATE INDEX ON t USING skip (c) WITH (pages_per_range = 1); ANALYZE t"
        ));
        let elements = |condition: &str| {
            format!("ARRAY(SELECT {value} FROM generate_series(1, 300) i WHERE {condition})::{bare}[]")
        };
        for list in [
            elements("i % 50 BETWEEN 3 AND 20"),
            elements("i % 50 BETWEEN 3 AND 20 AND i % 20 > 0") + " || NULL",
            elements("i IN (4, 5)"),
            elements("false"),
            format!("NULL::{bare}[]"),
            format!("array_fill(NULL::{bare}, ARRAY[12])"),
            format!(
                "(SELECT array_agg(a) FROM (SELECT {} AS a FROM generate_series(1, 2)) s)::{bare}[]",
                elements("i < 40")
            ),
        ] {
            let statement = format!("SELECT id FROM t WHERE c = ANY ({list})");
            // A subquery's result is no constant, whatever is in it.
            let subquery = format!("SELECT id FROM t WHERE c = ANY ((SELECT {list})::{bare}[])");
            let [constant, found] = [&statement, &subquery].map(|sql| by_skip_scan(&mut session, sql).0);
            assert_eq!(lines(&found), lines(&constant), "{kind}: {list}");
            same(&mut session, &Way::skip_scan(), &Case::using(&subquery));
        }
    }
}

on_shared!(lists_of_other_types_than_the_column);
fn lists_of_other_types_than_the_column(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, i2 smallint, i4 int, i8 bigint, f4 real, f8 float8, s text, n name, d date);
         INSERT INTO t SELECT i, i % 60, i % 60, i % 60, i % 60 / 4.0, i % 60 / 10.0, i % 60, (i % 60)::text,
                              date '2026-01-01' + i % 60 FROM generate_series(1, 3000) i;
         CREATE INDEX ON t USING skip (i2, i4, i8, f4, f8, s, n, d) WITH (pages_per_range = 1); ANALYZE t",
    );
    let lists = [
        ("int2", "ARRAY(SELECT i::int2 FROM generate_series(5, 30, 2) i)"),
        ("int4", "ARRAY(SELECT i::int4 FROM generate_series(5, 30, 2) i)"),
        ("int8", "ARRAY(SELECT i::int8 + 5000000000 * (i % 3) FROM generate_series(5, 30, 2) i)"),
        ("float4", "ARRAY(SELECT (i / 10.0)::float4 FROM generate_series(5, 60) i)"),
        ("float8", "ARRAY(SELECT (i / 20.0)::float8 FROM generate_series(5, 60) i)"),
        ("text", "ARRAY(SELECT i::text FROM generate_series(5, 30) i)"),
        ("name", "ARRAY(SELECT i::text::name FROM generate_series(5, 30) i)"),
        ("date", "ARRAY(SELECT date '2026-01-01' + i FROM generate_series(5, 30) i)"),
        (
            "timestamp",
            "ARRAY(SELECT timestamp '2026-01-01 00:00' + i * interval '12 hours' FROM generate_series(5, 60) i)",
        ),
    ];
    let mut skipped = 0;
    for column in ["i2", "i4", "i8", "f4", "f8", "s", "n", "d"] {
        for (kind, list) in lists {
            let sql = format!("SELECT id FROM t WHERE {column} = ANY ((SELECT {list})::{kind}[])");
            if session.try_rows(&format!("EXPLAIN {sql}")).is_ok() {
                skipped += u32::from(same(&mut session, &Way::skip_scan(), &Case::any(sql)));
            }
        }
    }
    assert!(skipped >= 20, "{skipped} of them by a Skip Index Scan");
}

on_shared!(lists_that_change);
/// Rescans with other lists, in one process and in parallel ones; NULL and empty lists among them.
fn lists_that_change(database: &Database) {
    let mut session = database.session();
    session.run(WIDE);
    session.run(
        "CREATE TABLE lists (n int, l int[]);
         INSERT INTO lists SELECT i, CASE i WHEN 3 THEN NULL WHEN 5 THEN '{}' WHEN 7 THEN '{4,5}'
             ELSE ARRAY(SELECT i * 100 + j * (i + 1) FROM generate_series(1, 10 * i) j) || NULL::int END
             FROM generate_series(1, 12) i;
         ANALYZE lists",
    );
    let way = Way::skip_scan().nested_loop();
    for sql in [
        "SELECT n, t.id FROM lists, LATERAL (SELECT id FROM t WHERE k = ANY (l)) t",
        "SELECT n, t.id FROM lists, LATERAL (SELECT id FROM t WHERE k = ANY (l || n)) t",
        "SELECT n, (SELECT count(*) FROM t WHERE k = ANY (l)) FROM lists",
        "SELECT n, (SELECT count(*) FROM t WHERE k = ANY (l || 17) OR v = n::text) FROM lists",
        "SELECT n, (SELECT sum(id) FROM t WHERE k = n * 7 + 1) FROM lists",
    ] {
        assert!(same(&mut session, &way, &Case::any(sql)), "{sql}");
    }
    let parallel = Way::skip_scan().parallel();
    for sql in [
        "SELECT count(*), sum(id) FROM t WHERE k = ANY (ARRAY(SELECT i * 3 FROM generate_series(1, 4000) i))",
        "SELECT count(*), sum(id) FROM t WHERE k = ANY (ARRAY(SELECT i * 3 FROM generate_series(1, 4000) i) || 7)",
        "SELECT count(*), sum(id) FROM t WHERE k = (SELECT 40) + 2",
    ] {
        same(&mut session, &parallel, &Case::using(sql));
    }
    // What an execution keeps goes with it: ten thousand lists do not add up.
    session.run("SET work_mem = '64kB'");
    way.set(&mut session);
    let used = "SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name = 'pg_skip keys'";
    let query = format!(
        "SELECT count(*), max(({used} AND n > 0)) FROM generate_series(1, 3000) n,
         LATERAL (SELECT count(*) FROM t WHERE k = ANY (ARRAY[n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, n + 12]::int[])
         AND id < 30) s"
    );
    let bytes = session.rows(&query)[0][1].as_deref().unwrap_or("0").parse::<f64>().unwrap();
    assert!(bytes < 100_000.0, "{bytes} bytes of keys");
}

on_shared!(lists_within_conditions);
/// Lists under AND, OR and NOT, with unknown values on every side.
fn lists_within_conditions(database: &Database) {
    let mut session = database.session();
    session.run(WIDE);
    session.run("UPDATE t SET k = NULL WHERE id % 11 = 0; UPDATE t SET v = NULL WHERE id % 13 = 0");
    let list = "ARRAY(SELECT i * 7 FROM generate_series(1, 40) i)";
    let words = "ARRAY(SELECT (i * 5)::text FROM generate_series(1, 40) i)";
    for condition in [
        format!("k = ANY ({list}) AND v = ANY ({words})"),
        format!("k = ANY ({list}) OR v = ANY ({words})"),
        format!("(k = ANY ({list}) AND id > 300) OR (v = ANY ({words}) AND k IS NULL)"),
        format!("(k = ANY ({list}) AND NOT id = ANY ({list})) OR v IS NULL AND k = 7"),
        format!("k = ANY ({list}) AND (v = ANY ({words}) OR id = ANY ({list}))"),
        format!("k = ANY ({list}) AND NOT (v = ANY ({words}))"),
        format!("k = ANY ({list} || NULL::int) AND (v = ANY ({words} || NULL::text)) IS NOT TRUE"),
        format!("k = ANY ({list}) AND k <> ALL ({list} || 7)"),
    ] {
        same(&mut session, &Way::skip_scan(), &Case::using(format!("SELECT id FROM t WHERE {condition}")));
    }
}

on_shared!(lists_meet_concurrent_updates);
/// EvalPlanQual: the new version of a row is checked with the keys of the statement.
fn lists_meet_concurrent_updates(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    session.run(WIDE);
    Way::skip_scan().set(&mut session);
    session.run("SET plan_cache_mode = force_generic_plan");
    session.run(
        "PREPARE listed (int[]) AS UPDATE t SET v = 'seen' WHERE k = ANY ($1);
         PREPARE computed (int) AS UPDATE t SET v = 'computed' WHERE k = $1 + 1;
         PREPARE locked (int[]) AS SELECT id FROM t WHERE k = ANY ($1 || 5) FOR UPDATE",
    );
    let list = "'{100,101,102,103,104,105,106,107,108,109}'";
    let pid = session.one("SELECT pg_backend_pid()");
    for (statement, expected) in [
        // 100 stays in the list under another number, 102 leaves it; 30001 comes too late to be seen.
        (format!("EXECUTE listed ({list})"), "19"),
        ("EXECUTE computed (101)".to_owned(), "1"),
        (format!("EXECUTE locked ({list})"), "21"),
    ] {
        other.run(
            "BEGIN; UPDATE t SET k = 109 WHERE id = 100; UPDATE t SET k = 50000 WHERE id = 102;
                   UPDATE t SET k = 103 WHERE id = 30001",
        );
        let waiting = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                if statement.contains("locked") {
                    session.run("BEGIN");
                    let rows = session.rows(&statement).len();
                    session.run("COMMIT");
                    rows
                } else {
                    session.run(&statement);
                    0
                }
            });
            let began = Instant::now();
            // Sessions of other tests may wait, too.
            let waits = format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = {pid}");
            while database.session().one(&waits) == "0" {
                assert!(began.elapsed() < Duration::from_secs(60), "nobody waits");
                std::thread::sleep(Duration::from_millis(10));
            }
            other.run("COMMIT");
            waiter.join().expect("the statement")
        });
        let changed = other.one("SELECT count(*) FROM t WHERE v IN ('seen', 'computed')");
        let found = if statement.contains("locked") { waiting.to_string() } else { changed };
        assert_eq!(found, expected, "{statement}");
        other.run(
            "UPDATE t SET k = id % 20000, v = id % 20000 WHERE k <> id % 20000 OR v IN ('seen', 'computed')",
        );
    }
}
