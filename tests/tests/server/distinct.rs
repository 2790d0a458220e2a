//! What the planner learns from a map of a column: the number of its distinct values, and in how many ranges a key is.
//! ANALYZE finds both wrong here, because it reads 300 rows only, and the values of neighbouring rows are not ordered.
//! It reads as many rows as the column with the largest target needs, so all columns have the same target.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::explain::skip_scan;
use pg_skip_tests::server::install;
use pg_skip_tests::session::Session;

/// Half of the rows have one of 50 values of `k`, the others one of their own; 40 rows in a row have the same `c`.
const TABLE: &str = "CREATE TABLE t (id int, k bigint, c uuid, s text);
    ALTER TABLE t ALTER id SET STATISTICS 1, ALTER k SET STATISTICS 1, ALTER c SET STATISTICS 1,
        ALTER s SET STATISTICS 1;
    INSERT INTO t SELECT i, k, md5((i / 40)::text)::uuid, k FROM
        (SELECT i, CASE WHEN i % 2 = 0 THEN i % 100 ELSE 1000000 + i END AS k FROM generate_series(1, 200000) i) AS i;
    SELECT setseed(0.5); ANALYZE t";
const DISTINCT: f64 = 100_050.0;
const INDEX: &str = "CREATE INDEX t_skip ON t USING skip (k, c) WITH (layout = map, autosummarize = off)";

/// The planner's number of groups.
#[track_caller]
fn groups(session: &mut Session, sql: &str) -> f64 {
    let plan = session.plan(sql);
    let (_, rows) = plan.split_once("rows=").expect("a number of rows");
    rows.split(' ').next().and_then(|rows| rows.parse().ok()).expect("a number")
}

const GROUPS: &str = "SELECT k FROM t GROUP BY k";

/// Whether the planner knows the number of distinct values.
#[track_caller]
fn knows(session: &mut Session, sql: &str) -> bool {
    let found = groups(session, sql);
    let is_right = (found / DISTINCT - 1.0).abs() < 0.3;
    assert!(is_right || found < DISTINCT / 2.0, "{found} is neither the number, nor what ANALYZE found");
    is_right
}

on_shared!(known_from_a_map);
fn known_from_a_map(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    assert!(!knows(&mut session, GROUPS), "without an index");
    session.run(INDEX);
    assert!(knows(&mut session, GROUPS));
    for sql in [
        "SELECT DISTINCT k FROM t",
        "SELECT k FROM t AS other (a, k) GROUP BY k",
        "SELECT k FROM (SELECT k FROM t OFFSET 0) AS inner_query GROUP BY k",
        "WITH w AS MATERIALIZED (SELECT k, id FROM t) SELECT k FROM w GROUP BY k",
    ] {
        // Older planners do not look into a WITH query that stays one.
        if sql.starts_with("WITH") && install().version < 17 {
            continue;
        }
        let sql = sql.replace("other (a, k)", "other (a, k, c, s)");
        assert!(knows(&mut session, &sql), "{sql}");
    }
    // The rows of a key in a join: the server divides by the number of distinct values.
    session
        .run("CREATE TABLE few AS SELECT 1000001 + 2 * i AS k FROM generate_series(1, 100) i; ANALYZE few");
    let joined = groups(&mut session, "SELECT * FROM few JOIN t USING (k)");
    assert!((100.0..400.0).contains(&joined), "{joined} rows for 100 keys of two rows on average");
    session.run("SET pg_skip.enable_distinct = off");
    assert!(!knows(&mut session, GROUPS), "switched off");
    session.run("RESET pg_skip.enable_distinct");
    // Values and indexes change.
    session.run("INSERT INTO t SELECT * FROM t; SELECT skip_summarize('t_skip')");
    assert!(knows(&mut session, GROUPS), "twice the rows, the same values");
    session.run("UPDATE t SET k = k % 50; ANALYZE t");
    session.run("VACUUM t");
    session.run("REINDEX INDEX t_skip");
    let found = groups(&mut session, GROUPS);
    assert!(found < 100.0, "{found} groups of 50 values");
}

on_shared!(follows_changes);
/// The values change, while the sizes of the table and the index, or the number of pairs, stay as they were. ANALYZE
/// finds nearly all values of its sample different.
fn follows_changes(database: &Database) {
    let mut session = database.session();
    let rows = |k: &str| format!("INSERT INTO t SELECT i, {k} FROM generate_series(1, 150000) i;");
    session.run(&format!(
        "CREATE TABLE t (id int, k bigint); ALTER TABLE t ALTER id SET STATISTICS 1, ALTER k SET STATISTICS 1; {}
         CREATE INDEX t_skip ON t USING skip (k) WITH (layout = map); ANALYZE t",
        rows("i")
    ));
    // By chance, ANALYZE differs from the index by less than the factor 1.5 from which the planner takes the index's
    // number; and that is from a sample too, and may be some percent off.
    let right = 1.0 / 1.8..1.8;
    let mut expect = |sql: &str, distinct: f64| {
        sql.split(';').for_each(|step| session.run(step));
        let found = groups(&mut session, GROUPS);
        assert!(right.contains(&(found / distinct)), "{found} after {sql}");
    };
    expect("SELECT 1", 150_000.0);
    expect(&format!("TRUNCATE t; {} REINDEX INDEX t_skip; VACUUM ANALYZE t", rows("i % 15000")), 15_000.0);
    expect("UPDATE t SET k = id; VACUUM ANALYZE t", 150_000.0);
    expect("UPDATE t SET k = id % 12000; VACUUM ANALYZE t", 12_000.0);
}

on_shared!(values_that_are_gone);
/// ANALYZE lists all values of a column. The index has old ones as well, until VACUUM.
fn values_that_are_gone(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k bigint) WITH (autovacuum_enabled = off);
         INSERT INTO t SELECT i, CASE WHEN i % 4 = 0 THEN NULL WHEN i % 2 = 0 THEN i % 100 ELSE i END
             FROM generate_series(1, 200000) i;
         CREATE INDEX t_skip ON t USING skip (k) WITH (layout = map); UPDATE t SET k = k % 50; ANALYZE t",
    );
    let found = groups(&mut session, GROUPS);
    assert!(found < 60.0, "{found} groups of 50 values");
}

on_shared!(not_known);
/// Where an index cannot know the number, or the user may not, the planner has what ANALYZE found.
fn not_known(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    for index in [
        "t USING skip (k) WITH (layout = filters)",
        "t USING skip (k) WITH (layout = map) WHERE id > 0",
        "t USING skip ((k + 0)) WITH (layout = map)",
        "t USING skip (c) WITH (layout = map)",
    ] {
        session.run(&format!("CREATE INDEX t_other ON {index}"));
        assert!(!knows(&mut session, GROUPS), "{index}");
        session.run("DROP INDEX t_other");
    }
    // Another equality than that of the column.
    let of_text = "SELECT s FROM t GROUP BY s";
    session.run("CREATE INDEX t_other ON t USING skip (s COLLATE \"C\") WITH (layout = map)");
    assert!(!knows(&mut session, of_text), "another collation");
    session.run("DROP INDEX t_other; CREATE INDEX t_other ON t USING skip (s) WITH (layout = map)");
    assert!(knows(&mut session, of_text), "the same collation");
    session.run("DROP INDEX t_other");

    session.run(INDEX);
    session.run("ALTER TABLE t ALTER k SET (n_distinct = 777); ANALYZE t");
    assert_eq!(groups(&mut session, GROUPS), 777.0, "the user knows better");
    session
        .run("ALTER TABLE t ALTER k RESET (n_distinct), ALTER k SET (n_distinct_inherited = 777); ANALYZE t");
    assert!(knows(&mut session, GROUPS), "an option that is not about this table alone");
    let mut fresh = database.session();
    fresh.run("SET pg_skip.plan_probe_pages = 0");
    assert!(!knows(&mut fresh, GROUPS), "no page may be read");
    fresh.run("RESET pg_skip.plan_probe_pages");
    assert!(knows(&mut fresh, GROUPS));

    let role = format!("{}_role", database.name);
    session.run(&format!("CREATE ROLE {role}; GRANT SELECT (k) ON t TO {role}; SET ROLE {role}"));
    assert!(!knows(&mut session, GROUPS), "a role that may read one column");
    // The owner of a view could have functions in it that see the statistics.
    session.run(&format!("RESET ROLE; CREATE VIEW v AS SELECT k FROM t; ALTER VIEW v OWNER TO {role}"));
    assert!(!knows(&mut session, "SELECT k FROM v GROUP BY k"), "a view of a role that may read one column");
    session.run(&format!("GRANT SELECT ON t TO {role}"));
    assert!(knows(&mut session, "SELECT k FROM v GROUP BY k"));
    session.run(&format!("DROP VIEW v; SET ROLE {role}"));
    assert!(knows(&mut session, GROUPS));
    session.run(&format!(
        "RESET ROLE; ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (id > 0); SET ROLE {role}"
    ));
    let found = groups(&mut session, GROUPS);
    assert!(found < DISTINCT / 2.0, "{found} groups under row security");
    session.run(&format!("RESET ROLE; ALTER TABLE t DISABLE ROW LEVEL SECURITY; DROP OWNED BY {role}"));
    session.run(&format!("DROP ROLE {role}"));

    // Half of the table is not in the index yet.
    session.run("INSERT INTO t SELECT id, -k, c, s FROM t; SELECT setseed(0.5); ANALYZE t");
    let found = groups(&mut session, GROUPS);
    assert!(found < DISTINCT / 2.0, "{found} groups");
}

on_shared!(ranges_of_an_unknown_key);
/// The rows of each key are beside each other, though the keys are in no order: ANALYZE's correlation does not tell.
fn ranges_of_an_unknown_key(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    session.run(INDEX);
    session.run(
        "PREPARE one(uuid) AS SELECT * FROM t WHERE c = $1;
         PREPARE list(uuid[]) AS SELECT * FROM t WHERE c = ANY ($1);
         SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off",
    );
    let key = "md5('17')::uuid";
    let node = skip_scan(&mut session, "", &format!("EXECUTE one({key})"));
    assert_eq!(node.text("Ranges Expected Exactly"), "false", "{node:?}");
    let expected = node.number("Ranges Expected");
    assert!((1..=2).contains(&expected), "{expected} ranges for 40 rows in a row");
    let node = skip_scan(&mut session, "", &format!("EXECUTE list(ARRAY[{key}])"));
    let expected = node.number("Ranges Expected");
    assert!((10..=20).contains(&expected), "{expected} ranges for ten keys, which the server assumes");
    // A known key is looked up.
    session.run("RESET plan_cache_mode");
    let node = skip_scan(&mut session, "", &format!("SELECT * FROM t WHERE c = {key}"));
    assert_eq!(node.text("Ranges Expected Exactly"), "true", "{node:?}");
}

on_shared!(beside_brin);
/// For the costs of a BRIN index, the server calls the hook with a structure that it has not initialized: what stands
/// there is left over from other calls. The queries are different ones, so that it is not always the same.
fn beside_brin(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE p (a int, b text, c uuid) PARTITION BY RANGE (a);
         DO $$ BEGIN
             FOR i IN 0..9 LOOP
                 EXECUTE format('CREATE TABLE p%s PARTITION OF p FOR VALUES FROM (%s) TO (%s)',
                                i, i * 100, i * 100 + 100);
             END LOOP;
         END $$;
         INSERT INTO p SELECT i, i, md5(i::text)::uuid FROM generate_series(0, 999) AS i;
         CREATE INDEX p_b ON p USING brin (b);
         CREATE INDEX p_bc ON p USING brin (b, c);
         CREATE INDEX p_a ON p USING brin (a);
         CREATE INDEX p_skip ON p USING skip (b, c)",
    );
    let conditions = [
        "b = '7'",
        "a > 3 AND b = '7'",
        "b > '7' AND c = md5('7')::uuid",
        "(a, b) = (7, '7')",
        "b IN ('7', '8') AND a BETWEEN 1 AND 700",
        "b::text || '' = '7' AND b LIKE '7%' AND a = 7",
    ];
    for settings in ["", "SET enable_seqscan = off", "ANALYZE p"] {
        session.run(settings);
        for condition in conditions {
            for sql in [
                format!("SELECT * FROM p WHERE {condition}"),
                format!("SELECT b, count(*) FROM p WHERE {condition} GROUP BY b"),
                format!("SELECT * FROM (SELECT * FROM p WHERE {condition} OFFSET 0) AS q JOIN p USING (b)"),
                format!(
                    "SELECT *, (SELECT count(*) FROM p WHERE c = outside.c) FROM p AS outside WHERE {condition}"
                ),
            ] {
                assert!(session.plan(&sql).contains("cost="), "{sql}");
            }
        }
    }
}
