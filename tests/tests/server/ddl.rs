//! Everything else that happens to a table and its indexes: kinds of tables and of indexes, rewrites, definitions,
//! dump and restore, and the extension itself.
use crate::registry::on_shared;
use crate::shared::{Database, server};
use libtest_mimic::Completion;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server::must;
use pg_skip_tests::session::Session;

/// Asks for keys that are there, and one that is not, by the index, and verifies it.
#[track_caller]
pub fn works(session: &mut Session, table: &str, index: &str, column: &str) {
    for key in [1, 7, 500, 999, 1000, 424_242] {
        same(session, table, &Question::using(index, format!("{column} = {key}")));
    }
    same(session, table, &Question::using(index, format!("{column} IN (3, 400, 800, -5)")));
    sound(session, index);
}

const ROWS: &str = "SELECT i, i % 1001 FROM generate_series(1, 5000) i";

on_shared!(temporary_tables);
fn temporary_tables(database: &Database) {
    let mut session = database.session();
    for end in ["PRESERVE ROWS", "DELETE ROWS", "DROP"] {
        session.run("BEGIN");
        session.run(&format!("CREATE TEMP TABLE t (id int, k int) ON COMMIT {end}"));
        session.run("CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1)");
        session.run(&format!("INSERT INTO t {ROWS}"));
        works(&mut session, "t", "t_skip", "k");
        session.run("COMMIT");
        if end == "DROP" {
            continue;
        }
        for _ in 0..3 {
            session.run("BEGIN");
            works(&mut session, "t", "t_skip", "k");
            session.run(&format!("INSERT INTO t {ROWS}"));
            session.run("SELECT skip_summarize('t_skip')");
            works(&mut session, "t", "t_skip", "k");
            session.run("COMMIT");
        }
        if end == "DELETE ROWS" {
            let blocks = session.number("SELECT pg_relation_size('t_skip') / 8192");
            assert!(blocks <= 8.0, "an empty index has {blocks} blocks, made anew at every commit");
        }
        session.run("VACUUM t");
        session.run("DROP TABLE t");
    }
}

on_shared!(logged_and_unlogged);
fn logged_and_unlogged(database: &Database) {
    let mut session = database.session();
    session.run("CREATE UNLOGGED TABLE t (id int, k int)");
    session.run("CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1)");
    session.run(&format!("INSERT INTO t {ROWS}"));
    for step in [
        "VACUUM t",
        "ALTER TABLE t SET LOGGED",
        "SELECT skip_summarize('t_skip')",
        "ALTER TABLE t SET UNLOGGED",
        "REINDEX TABLE t",
        "TRUNCATE t",
    ] {
        session.run(step);
        works(&mut session, "t", "t_skip", "k");
        session.run(&format!("INSERT INTO t {ROWS}"));
        works(&mut session, "t", "t_skip", "k");
    }
}

on_shared!(partitioned_tables);
fn partitioned_tables(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int) PARTITION BY RANGE (id);
         CREATE TABLE t_a PARTITION OF t FOR VALUES FROM (0) TO (2000);
         CREATE TABLE t_b PARTITION OF t FOR VALUES FROM (2000) TO (4000)",
    );
    session.run(
        "CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1, false_positive_rate = 0.001)",
    );
    session.run("CREATE TABLE t_c PARTITION OF t DEFAULT");
    session.run(&format!("INSERT INTO t {ROWS}"));
    // A partition that has its index already, and one that gets it when it is attached.
    session.run("CREATE TABLE t_d (k int, gone text, id int); ALTER TABLE t_d DROP COLUMN gone");
    session.run("INSERT INTO t_d SELECT i % 1001, i FROM generate_series(10000, 12000) i");
    session.run("CREATE INDEX ON t_d USING skip (k) WITH (pages_per_range = 2)");
    session.run("ALTER TABLE t ATTACH PARTITION t_d FOR VALUES FROM (10000) TO (20000)");
    let ask = |session: &mut Session| {
        for key in [0, 1, 500, 1000, 5000] {
            for index in ["t_a_k_idx", "t_b_k_idx", "t_c_k_idx", "t_d_k_idx"] {
                same(session, "t", &Question::using(index, format!("k = {key}")));
            }
            same(session, "t", &Question::using("t_a_k_idx", format!("k = {key} AND id < 100")));
        }
        for index in ["t_a_k_idx", "t_b_k_idx", "t_c_k_idx", "t_d_k_idx"] {
            sound(session, index);
        }
    };
    ask(&mut session);
    session.run("UPDATE t SET id = id + 2000 WHERE id < 1000"); // rows move between partitions
    ask(&mut session);
    session.run("VACUUM t");
    session.run("REINDEX INDEX t_skip");
    ask(&mut session);
    let options = "SELECT reloptions FROM pg_class WHERE relname = 't_c_k_idx'";
    assert_eq!(session.one(options), "{pages_per_range=1,false_positive_rate=0.001}");
    session.run("ALTER TABLE t DETACH PARTITION t_d; DROP TABLE t_b");
    same(&mut session, "t_d", &Question::using("t_d_k_idx", "k = 5"));
    session.run("CREATE INDEX only_skip ON ONLY t USING skip (id)");
    session.run("DROP TABLE t");
}

on_shared!(expressions_and_predicates);
fn expressions_and_predicates(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (id int, k int, v text, j jsonb)");
    session.run(
        "INSERT INTO t SELECT i, i % 1001, 'Name ' || i % 700, jsonb_build_object('a', i % 50, 'b', 'x' || i % 9)
         FROM generate_series(1, 5000) i",
    );
    session.run("CREATE INDEX t_lower ON t USING skip (lower(v), (k + 1)) WITH (pages_per_range = 1)");
    session.run("CREATE INDEX t_json ON t USING skip ((j ->> 'b'), (j -> 'a')) WITH (pages_per_range = 1)");
    session.run(
        "CREATE INDEX t_part ON t USING skip (k) WITH (pages_per_range = 1) WHERE v IS NOT NULL AND id > 100",
    );
    session.run("CREATE INDEX t_all ON t USING skip (id, v, j) WITH (pages_per_range = 2)");
    let ask = |session: &mut Session| {
        for (index, predicate) in [
            ("t_lower", "lower(v) = 'name 5'"),
            ("t_lower", "lower(v) IN ('name 5', 'NAME 6') AND k + 1 = 6"),
            ("t_lower", "k + 1 IS NULL"),
            ("t_json", "j ->> 'b' = 'x3'"),
            ("t_json", "j -> 'a' = '7'"),
            ("t_part", "k = 7 AND v IS NOT NULL AND id > 100"),
            ("t_part", "k = 7 AND v = 'Name 7' AND id > 200"),
            ("t_all", "v = 'Name 7' AND j = '{\"a\": 7, \"b\": \"x7\"}'"),
            ("t_all", "id = 77 AND k = 77"),
            ("t_all", "j = '{\"b\": \"x7\", \"a\": 7.0}'"),
        ] {
            same(session, "t", &Question::using(index, predicate));
        }
        same(session, "t", &Question::any("k = 7 AND id > 50"));
        for index in ["t_lower", "t_json", "t_part", "t_all"] {
            sound(session, index);
        }
    };
    ask(&mut session);
    session.run("UPDATE t SET v = NULL WHERE id % 5 = 0");
    session.run("UPDATE t SET v = 'NAME 5', j = NULL WHERE id % 17 = 0");
    session.run("INSERT INTO t SELECT i, i % 1001, 'new', NULL FROM generate_series(5001, 6000) i");
    ask(&mut session);
    session.run("DELETE FROM t WHERE id % 3 = 0");
    session.run("VACUUM t");
    for index in ["t_lower", "t_json", "t_part", "t_all"] {
        session.run(&format!("SELECT skip_summarize('{index}')"));
    }
    ask(&mut session);
}

on_shared!(rewrites);
fn rewrites(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (id int, k int, v text)");
    session.run("CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1)");
    session.run("CREATE INDEX t_order ON t ((md5(id::text)))");
    session.run(&format!("INSERT INTO t {ROWS}"));
    for step in [
        "VACUUM FULL t",
        "CLUSTER t USING t_order",
        "ALTER TABLE t ALTER COLUMN k TYPE bigint",
        "ALTER TABLE t ALTER COLUMN id TYPE bigint",
        "ALTER TABLE t ALTER COLUMN v TYPE varchar(50)",
        "REINDEX TABLE t",
        "REINDEX TABLE CONCURRENTLY t",
        "REINDEX INDEX CONCURRENTLY t_skip",
        "ALTER TABLE t ALTER COLUMN k TYPE numeric",
        "ALTER TABLE t ALTER COLUMN k TYPE int USING k::int",
        "ALTER TABLE t ADD COLUMN r float8 DEFAULT random()",
        "ALTER TABLE t RENAME COLUMN k TO kk; ALTER TABLE t RENAME COLUMN kk TO k",
        "ALTER INDEX t_skip RENAME TO t_skip2; ALTER INDEX t_skip2 RENAME TO t_skip",
        "TRUNCATE t",
        "BEGIN; TRUNCATE t; INSERT INTO t SELECT 1, 1; ROLLBACK",
        "BEGIN; CREATE TABLE other AS SELECT 1; TRUNCATE t; INSERT INTO t SELECT 1, 1; TRUNCATE t; COMMIT",
    ] {
        session.run(step);
        works(&mut session, "t", "t_skip", "k");
        session.run(&format!("INSERT INTO t {ROWS}"));
        works(&mut session, "t", "t_skip", "k");
    }
    // A rebuild that is rolled back leaves the old index.
    session.run("BEGIN; ALTER TABLE t ALTER COLUMN k TYPE text; ROLLBACK");
    works(&mut session, "t", "t_skip", "k");
    session.run("BEGIN; DROP INDEX t_skip; ROLLBACK");
    works(&mut session, "t", "t_skip", "k");
}

on_shared!(columns_come_and_go);
fn columns_come_and_go(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (a text, id int, b int, k int, c int)");
    session.run("INSERT INTO t SELECT 'a', i, i, i % 1001, i FROM generate_series(1, 5000) i");
    session.run("CREATE INDEX t_skip ON t USING skip (k, c) WITH (pages_per_range = 1)");
    session.run("ALTER TABLE t DROP COLUMN a, DROP COLUMN b");
    works(&mut session, "t", "t_skip", "k");
    session
        .run("ALTER TABLE t ADD COLUMN d int DEFAULT 7, ADD COLUMN e text DEFAULT 'seven', ADD COLUMN f int");
    session.run("CREATE INDEX t_new ON t USING skip (d, e, f) WITH (pages_per_range = 1)");
    session.run("INSERT INTO t (id, k, d) SELECT i, i, i FROM generate_series(1, 1001) i");
    for predicate in ["d = 7", "d = 8", "e = 'seven'", "e = 'six'", "f IS NULL", "f IS NOT NULL", "f = 1"] {
        same(&mut session, "t", &Question::using("t_new", predicate));
    }
    works(&mut session, "t", "t_skip", "k");
    session.run("ALTER TABLE t DROP COLUMN c");
    let left = session.one("SELECT to_regclass('t_skip') IS NULL");
    assert_eq!(left, "t", "an index goes with its column");
    sound(&mut session, "t_new");
}

on_shared!(materialized_views);
fn materialized_views(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (id int, k int)");
    session.run(&format!("INSERT INTO t {ROWS}"));
    session.run("CREATE MATERIALIZED VIEW m AS SELECT * FROM t");
    session.run(
        "CREATE INDEX m_skip ON m USING skip (k) WITH (pages_per_range = 1); CREATE UNIQUE INDEX ON m (id)",
    );
    works(&mut session, "m", "m_skip", "k");
    session.run("UPDATE t SET k = k + 1");
    session.run("REFRESH MATERIALIZED VIEW CONCURRENTLY m");
    works(&mut session, "m", "m_skip", "k");
    session.run("REFRESH MATERIALIZED VIEW m");
    works(&mut session, "m", "m_skip", "k");
}

on_shared!(definitions_survive_a_dump);
fn definitions_survive_a_dump(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (id int, k int, v text)");
    session.run(&format!("INSERT INTO t {ROWS}"));
    session.run(
        "CREATE INDEX t_skip ON t USING skip (k int4_skip_ops (false_positive_rate = '0.001'), lower(v))
         WITH (pages_per_range = 3, false_positive_rate = 1e-05, autosummarize = off, delta_limit = 256) WHERE id > 0",
    );
    let definition = "SELECT pg_get_indexdef('t_skip'::regclass)";
    let before = session.one(definition);
    for part in [
        "USING skip",
        "int4_skip_ops",
        "0.001",
        "pages_per_range",
        "1e-05",
        "autosummarize",
        "delta_limit",
        "WHERE",
    ] {
        assert!(before.contains(part), "{part} is not in {before}");
    }
    session.run("DROP INDEX t_skip");
    session.run(&before);
    assert_eq!(session.one(definition), before);
    let rate = "SELECT false_positive_rate FROM skip_index_info('t_skip') ORDER BY attnum LIMIT 1";
    assert_eq!(session.number(rate), 0.001, "the column's own rate goes before the index's");
    let copy = format!("{}_copy", database.name);
    let script = server().data().join("dump.sql");
    must(server().client("pg_dump").arg("-f").arg(&script).arg(&database.name));
    session.run(&format!("CREATE DATABASE {copy} TEMPLATE template0"));
    must(
        server()
            .client("psql")
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-f"])
            .arg(&script)
            .arg(&copy),
    );
    let mut restored = server().connect(&copy);
    assert_eq!(restored.one(definition), before);
    same(&mut restored, "t", &Question::using("t_skip", "k = 5 AND id > 0"));
    sound(&mut restored, "t_skip");
}

on_shared!(the_extension);
fn the_extension(database: &Database) {
    let mut session = database.session();
    // Every object is explained where psql shows it; operator families stand behind their
    // classes, and row types, which 18 counts too, behind their views.
    let silent = session.column(
        "SELECT pg_describe_object(d.classid, d.objid, 0) FROM pg_depend d
         JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
         WHERE extname = 'pg_skip' AND deptype = 'e' AND d.classid NOT IN ('pg_opfamily'::regclass, 'pg_type'::regclass)
            AND obj_description(d.objid, d.classid::regclass::text::name) IS NULL
         ORDER BY 1",
    );
    assert!(silent.is_empty(), "without a comment: {silent:?}");
    session.run("CREATE TABLE t (id int, k int); CREATE INDEX t_skip ON t USING skip (k)");
    let error = session.error("DROP EXTENSION pg_skip");
    assert_eq!(error.code().code(), "2BP01", "{error:?}");
    session.run("DROP EXTENSION pg_skip CASCADE");
    assert_eq!(session.one("SELECT to_regclass('t_skip') IS NULL"), "t");
    session.run("CREATE SCHEMA elsewhere; CREATE EXTENSION pg_skip SCHEMA elsewhere");
    session.run("CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1)");
    session.run(&format!("INSERT INTO t {ROWS}"));
    session.run("VACUUM t"); // with a search_path that does not have the schema
    session.run("SET search_path = elsewhere, public");
    works(&mut session, "t", "t_skip", "k");
}

on_shared!(on_commit_delete_rows_calls_nothing);
/// At the commit, when no snapshot is there, the server builds the index of the emptied table. No function is called.
fn on_commit_delete_rows_calls_nothing(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE FUNCTION one() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT max(x) FROM (VALUES (1)) v(x)';
         CREATE FUNCTION two() RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN 1 + public.one(); END'",
    );
    for (number, index) in [
        "((a + one()))",
        "((a + two()))",
        "(a) WHERE a > one()",
        "(a); CREATE INDEX ON t USING btree ((a + two()))",
    ]
    .into_iter()
    .enumerate()
    {
        session.run("CREATE TEMP TABLE t (a int) ON COMMIT DELETE ROWS");
        session.run(&format!("CREATE INDEX t_skip ON t USING skip {index}"));
        // Each commit empties the table; the server has not prepared the index's expressions again before.
        session.run(&format!("CREATE TEMP TABLE other_{number} (x int)"));
        session.run("INSERT INTO t SELECT generate_series(1, 5000)");
        assert_eq!(session.one("SELECT count(*) FROM t"), "0", "{index}");
        session.run("DROP TABLE t");
    }
}

on_shared!(a_column_becomes_of_a_type_with_another_equality);
/// ALTER TABLE keeps the index of a text column that becomes citext. Commands that build the index anew work, and say
/// that no query will use it; a new index of this kind is refused.
fn a_column_becomes_of_a_type_with_another_equality(database: &Database) -> Completion {
    let (mut session, heard) = server().connect_hearing(&database.name);
    if session.number("SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'") == 0.0 {
        return Completion::ignored_with("this server has no citext");
    }
    session.run(
        "CREATE EXTENSION citext; CREATE TABLE t (k text); INSERT INTO t SELECT generate_series(1, 5000)",
    );
    session.run("CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1)");
    session.run("ALTER TABLE t ALTER k TYPE citext");
    for command in ["VACUUM FULL t", "REINDEX TABLE t", "TRUNCATE t"] {
        heard.lock().unwrap().clear();
        session.run(command);
        let warned = heard.lock().unwrap().concat();
        assert!(warned.contains("citext has no operator class of its own"), "{command}: {warned}");
    }
    for concurrently in ["", "CONCURRENTLY"] {
        let refused = session.error(&format!("CREATE INDEX {concurrently} t_other ON t USING skip (k)"));
        assert_eq!(refused.code().code(), "42704", "{concurrently}");
    }
    // What CREATE INDEX CONCURRENTLY has left behind is in nobody's way.
    session.run("TRUNCATE t");
    session.run("DROP INDEX t_other");
    session.run("SELECT skip_create_operator_classes(); DROP INDEX t_skip; INSERT INTO t VALUES ('a')");
    session.run("CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1)");
    Completion::Completed
}

on_shared!(owner_of_a_temporary_table);
/// REASSIGN OWNED also gives away a temporary table of another session, whose pages nobody else can read.
fn owner_of_a_temporary_table(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    let role = format!("{}_role", database.name);
    session.run(&format!("CREATE ROLE {role}; GRANT TEMPORARY ON DATABASE {} TO {role}", database.name));
    other.run(&format!(
        "SET ROLE {role}; CREATE TEMPORARY TABLE t (k int); INSERT INTO t SELECT generate_series(1, 10000);
         CREATE INDEX t_skip ON t USING skip (k)"
    ));
    session.run(&format!("REASSIGN OWNED BY {role} TO postgres"));
    other.run("RESET ROLE; ALTER INDEX t_skip RENAME TO renamed");
    sound(&mut other, "renamed");
    other.run("DROP TABLE t");
    session.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}
