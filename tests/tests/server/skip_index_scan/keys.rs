//! Keys of served conditions: whatever gives them is evaluated once. Lists of keys are in `lists.rs`.
use super::table_of_uuids;
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, same, skips};
use pg_skip_tests::explain::executed;
use pg_skip_tests::session::{Session, lines};

/// Forty thousand rows and an index on k that can rule nothing out: every row is checked.
pub const WIDE: &str = "
    CREATE TABLE t (id int, k int, v text);
    INSERT INTO t SELECT i, i % 20000, i % 20000 FROM generate_series(1, 40000) i;
    CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 4);
    ANALYZE t";

on_shared!(thousands_of_expressions);
/// More keys than a row may have columns, none of which is a constant.
fn thousands_of_expressions(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, v text);
         INSERT INTO t SELECT i, i % 2000, i FROM generate_series(1, 4000) i;
         CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 1);
         SET plan_cache_mode = force_generic_plan",
    );
    let terms =
        |from: u32, to: u32| (from..to).map(|i| format!("k = $1 + {i}")).collect::<Vec<_>>().join(" OR ");
    let condition = format!("{} OR v = 'none' OR {}", terms(0, 900), terms(900, 1800));
    session.run(&format!("PREPARE q (int) AS SELECT count(*), min(k), max(k) FROM t WHERE {condition}"));
    for way in [Way::skip_scan(), Way::plain()] {
        way.set(&mut session);
        assert_eq!(lines(&session.rows("EXECUTE q (100)")), "3600\n100\n1899", "{way:?}");
    }
}

/// A type whose operator counts how often it is called.
const COUNTING: &str = "
    CREATE TYPE num;
    CREATE FUNCTION num_in(cstring) RETURNS num LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
    CREATE FUNCTION num_out(num) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
    CREATE TYPE num (INPUT = num_in, OUTPUT = num_out, LIKE = int4);
    CREATE CAST (int AS num) WITHOUT FUNCTION;
    CREATE CAST (num AS int) WITHOUT FUNCTION;
    CREATE SEQUENCE comparisons;
    CREATE FUNCTION num_eq(num, num) RETURNS boolean IMMUTABLE STRICT LANGUAGE plpgsql AS
        'BEGIN PERFORM nextval(''comparisons''); RETURN $1::int = $2::int; END';
    CREATE FUNCTION num_hash(num) RETURNS int IMMUTABLE STRICT LANGUAGE internal AS 'hashint4';
    CREATE FUNCTION num_hash(num, bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE internal AS 'hashint4extended';
    CREATE OPERATOR = (LEFTARG = num, RIGHTARG = num, FUNCTION = num_eq, HASHES);
    CREATE OPERATOR CLASS num_hash_ops DEFAULT FOR TYPE num USING hash AS
        OPERATOR 1 =, FUNCTION 1 num_hash(num), FUNCTION 2 num_hash(num, bigint);
    CREATE OPERATOR CLASS num_skip_ops DEFAULT FOR TYPE num USING skip AS
        OPERATOR 1 =, FUNCTION 1 num_hash(num, bigint);
    CREATE TABLE n AS SELECT i AS id, (i % 1000)::num AS k FROM generate_series(1, 2000) i;
    CREATE INDEX n_skip ON n USING skip (k) WITH (pages_per_range = 4);
    ANALYZE n (id);
    PREPARE by_num (num[]) AS SELECT count(*) FROM n WHERE k = ANY ($1)";

/// One by one it would be 750,000 comparisons.
pub fn comparisons_are_few(session: &mut Session) {
    session.run(COUNTING);
    let list = session.one("SELECT string_agg((2 * i)::text, ',') FROM generate_series(0, 499) i");
    for query in [
        format!("EXECUTE by_num ('{{{list}}}')"),
        format!("SELECT count(*) FROM n WHERE k = ANY (ARRAY(SELECT unnest('{{{list}}}'::int[])::num))"),
    ] {
        session.run("SELECT setval('comparisons', 1)");
        assert_eq!(session.one(&query), "1000");
        let comparisons = session.number("SELECT last_value FROM comparisons");
        assert!((1000.0..4000.0).contains(&comparisons), "{comparisons} comparisons");
    }
}

on_shared!(settings_change_during_a_query);
/// A subquery starts over for each row without new parameters. A key that depends on a setting has another value then.
fn settings_change_during_a_query(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, d date, pad text DEFAULT repeat('x', 400));
         INSERT INTO t SELECT i, i / 20, date '2020-01-01' + i / 20 % 366 FROM generate_series(1, 20000) i;
         CREATE INDEX t_skip ON t USING skip (k, d, (d + 0) date_minmax_skip_ops) WITH (pages_per_range = 1);
         ANALYZE t",
    );
    for (setting, values, conditions) in [
        ("my.k", "5,500,900", ["k = current_setting('my.k')::int", "k IN (current_setting('my.k')::int, 7)"]),
        (
            "datestyle",
            "ISO,\"ISO, DMY\",SQL",
            ["d = ('02/03' || '/2020')::date", "d + 0 < ('01/03' || '/2020')::date"],
        ),
    ] {
        for condition in conditions {
            let query = format!(
                "SELECT v, (SELECT sum(id) FROM t WHERE {condition} AND v IS NOT NULL)
                 FROM (SELECT set_config('{setting}', x, false) AS v
                       FROM unnest('{{{values}}}'::text[]) AS x OFFSET 0) s"
            );
            let mut answers = Vec::new();
            for (way, has_scan) in [(Way::plain(), false), (Way::skip_scan(), true)] {
                way.set(&mut session);
                session.run("SET my.k = '0'; SET datestyle = 'ISO, MDY'");
                let plan = session.plan(&query);
                assert!(plan.contains("SubPlan") && skips(&plan) == has_scan, "{plan}");
                answers.push(session.rows(&query));
            }
            assert_eq!(answers[0], answers[1], "{condition}");
            assert_ne!(answers[0][0][1], answers[0][1][1], "{condition}: the setting changes nothing");
        }
    }
}

on_shared!(are_evaluated_once);
fn are_evaluated_once(database: &Database) {
    let mut session = database.session();
    session.run(WIDE);
    session.run(
        "CREATE SEQUENCE calls;
         CREATE FUNCTION counted(value int) RETURNS int STABLE LANGUAGE plpgsql AS
            'BEGIN PERFORM nextval(''calls''); RETURN value; END';
         CREATE FUNCTION counted(value int[]) RETURNS int[] STABLE LANGUAGE plpgsql AS
            'BEGIN PERFORM nextval(''calls''); RETURN value; END';
         SET plan_cache_mode = force_generic_plan",
    );
    Way::skip_scan().set(&mut session);
    let ten = "{1,2,3,4,5,6,7,8,9,10}";
    for (parameters, condition, arguments, calls, rows) in [
        ("int", "k = counted($1)", "7".to_owned(), 1, 2),
        ("int", "counted($1) = k", "7".to_owned(), 1, 2),
        ("int", "k = counted($1) OR v = '12'", "7".to_owned(), 1, 4),
        ("int", "k = counted($1) AND v = '7'", "7".to_owned(), 1, 2),
        ("int", "k IS NOT DISTINCT FROM counted($1)", "7".to_owned(), 1, 2),
        ("int, int", "k = counted($1) OR k = counted($2)", "7, 8".to_owned(), 2, 4),
        ("int[]", "k = ANY (counted($1))", "'{7,8}'".to_owned(), 1, 4),
        ("int[]", "k = ANY (counted($1))", format!("'{ten}'"), 1, 20),
        ("int", "k = counted(NULL::int + $1)", "7".to_owned(), 1, 0),
    ] {
        session.run(&format!(
            "DEALLOCATE ALL; PREPARE asked ({parameters}) AS SELECT count(*) FROM t WHERE {condition}"
        ));
        let query = format!("EXECUTE asked ({arguments})");
        assert!(skips(&session.plan(&query)), "{condition}");
        for _ in 0..3 {
            session.run("SELECT setval('calls', 1)");
            assert_eq!(session.number(&query), f64::from(rows), "{condition}");
            let made = session.number("SELECT last_value FROM calls") - 1.0;
            assert_eq!(made, f64::from(calls), "calls for {condition}");
        }
    }
    // Each row of the outer side gives another key: as many evaluations as rows.
    let way = Way::skip_scan().nested_loop();
    way.set(&mut session);
    let query = "SELECT count(*) FROM generate_series(1, 5) AS w (k) JOIN t ON t.k = counted(w.k)";
    let plan = session.plan(query);
    assert!(skips(&plan) && plan.contains("Nested Loop"), "{plan}");
    session.run("SELECT setval('calls', 1)");
    assert_eq!(session.number(query), 10.0);
    assert_eq!(session.number("SELECT last_value FROM calls") - 1.0, 5.0);
}

on_shared!(rows_of_all_shapes);
/// Comparisons of bytes: rows with NULLs before the column, with columns dropped before it, and written before it was
/// added.
fn rows_of_all_shapes(database: &Database) {
    let mut session = database.session();
    for (kind, value) in [
        ("smallint", "(% - 30)::smallint"),
        ("integer", "% - 30"),
        ("bigint", "(% - 30) * 5000000000"),
        ("oid", "(%)::oid"),
        ("date", "date '2000-01-01' - %"),
        ("time", "time '00:00' + % * interval '1 minute'"),
        ("timestamp", "timestamp '2000-01-01 00:00' - % * interval '1 second'"),
        ("timestamptz", "timestamptz '2000-01-01 00:00Z' - % * interval '1 second'"),
        ("uuid", "md5((%)::text)::uuid"),
    ] {
        let value = |i: &str| value.replace('%', i);
        session.run(&format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (a \"char\", gone bigint, b smallint, c {kind}, v text, d {kind});
             INSERT INTO t SELECT 'x', i, i, {0}, 'v' || i, {1} FROM generate_series(1, 300) i;
             INSERT INTO t SELECT NULL, i, i, {0}, NULL, {1} FROM generate_series(1, 300) i;
             ALTER TABLE t DROP gone;
             INSERT INTO t SELECT 'y', i, CASE WHEN i % 9 > 0 THEN {0} END, 'v' || i, {1}
             FROM generate_series(1, 300) i;
             ALTER TABLE t ADD e {kind} DEFAULT {2};
             INSERT INTO t SELECT 'z', NULL, {0}, 'w', {1}, {0} FROM generate_series(1, 300) i;
             CREATE INDEX ON t USING skip (c, d, e) WITH (pages_per_range = 1); ANALYZE t",
            value("i % 60"),
            value("i % 50"),
            value("7"),
        ));
        for column in ["c", "d", "e"] {
            for key in ["0", "7", "31", "59", "1000"] {
                let key = value(key);
                for condition in [format!("{column} = {key}"), format!("{key} = {column} AND length(v) > 1")]
                {
                    let sql = format!("SELECT t.ctid, t FROM t WHERE {condition}");
                    same(&mut session, &Way::skip_scan(), &Case::using(sql));
                }
            }
        }
        let joined = format!(
            "SELECT i, t.ctid FROM generate_series(1, 70) i, LATERAL (SELECT t.ctid FROM t WHERE c = {}) t",
            value("i")
        );
        assert!(same(&mut session, &Way::skip_scan().nested_loop(), &Case::any(joined)), "{kind}");
    }
}

on_shared!(functions_may_free_their_arguments);
/// A key that is an expanded array is kept for all rows, although a PL/pgSQL function frees such an array when it gets
/// one: the operator of another condition has the same key.
fn functions_may_free_their_arguments(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE FUNCTION shares(a text[], b text[]) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT AS
            'BEGIN RETURN a && b; END';
         CREATE OPERATOR &&& (LEFTARG = text[], RIGHTARG = text[], FUNCTION = shares);
         CREATE TABLE t (id int, tags text[], filler text DEFAULT repeat('x', 200));
         INSERT INTO t SELECT i, ARRAY['a' || i / 50, 'b'] FROM generate_series(1, 3000) i;
         CREATE INDEX t_skip ON t USING skip (tags array_element_skip_ops, id) WITH (pages_per_range = 1);
         ANALYZE t; SET my.tags = 'a1,a2'",
    );
    let key = "(string_to_array(current_setting('my.tags'), ',') || 'a31'::text)";
    for condition in
        [format!("(tags && {key} AND tags &&& {key}) OR id = 1"), format!("tags && {key} AND tags &&& {key}")]
    {
        let rows = "SELECT id FROM t WHERE ";
        let found = same(&mut session, &Way::skip_scan(), &Case::using(format!("{rows}{condition}")));
        assert!(found, "{condition}");
    }
}

on_shared!(null_keys_read_nothing);
/// Nothing equals NULL: not even ranges without a filter are read for it.
fn null_keys_read_nothing(database: &Database) {
    let mut session = database.session();
    table_of_uuids(&mut session);
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
