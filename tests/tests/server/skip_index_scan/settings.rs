//! The extension's settings: each does what it says, wherever it is set from.
use super::table_of_uuids;
use crate::registry::on_shared;
use crate::shared::{Database, server};
use pg_skip_tests::both_ways::{Way, reads_all, skips};
use pg_skip_tests::explain::skip_scan;
use pg_skip_tests::session::Session;

/// Large enough for the planner to choose a Skip Index Scan for `u`, and a sequential scan for `everywhere`.
const TABLE: &str = "
    CREATE TABLE t AS SELECT i AS id, md5(i::text)::uuid AS u, i % 5 AS everywhere, i / 1000 AS stretch,
        repeat('x', 100) AS filler FROM generate_series(1, 40000) i;
    CREATE INDEX t_skip ON t USING skip (u, everywhere);
    CREATE INDEX t_stretch ON t USING skip (stretch);
    CREATE TABLE o AS SELECT * FROM t WHERE id <= 5000;
    CREATE INDEX o_skip ON o USING skip (u)";

const FIND: &str = "SELECT id FROM t WHERE u = md5('77')::uuid";

fn table(database: &Database) -> Session {
    let mut session = database.session();
    session.run(TABLE);
    session.run("VACUUM ANALYZE t");
    session.run("VACUUM ANALYZE o");
    session
}

on_shared!(enable_scan);
fn enable_scan(database: &Database) {
    let mut session = table(database);
    assert_eq!(session.one("SHOW pg_skip.enable_scan"), "on");
    assert!(skips(&session.plan(FIND)));
    session.run("SET pg_skip.enable_scan = off");
    let plan = session.plan(FIND);
    assert!(plan.contains("Bitmap Index Scan on t_skip"), "the bitmap path stays:\n{plan}");
    session.run("SET enable_bitmapscan = off");
    assert!(reads_all(&session.plan(FIND)));
    session.run("RESET pg_skip.enable_scan; SET enable_seqscan = off");
    assert!(skips(&session.plan(FIND)));
    let settings = session.rows(
        "SELECT name, setting, boot_val, context, vartype, length(short_desc) > 10 FROM pg_settings
         WHERE name LIKE 'pg_skip.%' ORDER BY name",
    );
    let settings: Vec<Vec<&str>> = settings
        .iter()
        .map(|row| row.iter().map(|value| value.as_deref().unwrap_or("NULL")).collect())
        .collect();
    for expected in [
        ["pg_skip.enable_distinct", "on", "on", "user", "bool", "t"],
        ["pg_skip.enable_scan", "on", "on", "user", "bool", "t"],
        ["pg_skip.force_indexes", "", "", "user", "string", "t"],
        ["pg_skip.ignore_indexes", "", "", "user", "string", "t"],
        ["pg_skip.key_part_pages", "32", "32", "user", "integer", "t"],
        // The shared server of the tests has its own.
        ["pg_skip.max_workers", "16", "3", "sighup", "integer", "t"],
        ["pg_skip.merge_pages", "32", "32", "user", "integer", "t"],
        ["pg_skip.plan_probe_pages", "2048", "2048", "user", "integer", "t"],
        ["pg_skip.vacuum_rebuild_pages", "-1", "-1", "user", "integer", "t"],
    ] {
        assert!(settings.iter().any(|row| row[..] == expected), "{expected:?} is not in {settings:?}");
    }
    for bad in [
        "pg_skip.enable_scan = perhaps",
        "pg_skip.merge_pages = 0",
        "pg_skip.plan_probe_pages = -1",
        "pg_skip.plan_probe_pages = 1000001",
        "pg_skip.vacuum_rebuild_pages = -2",
    ] {
        assert_eq!(session.error(&format!("SET {bad}")).code().code(), "22023", "{bad}");
    }
}

/// Index pages that were read or found in the cache, up to now.
fn touched(session: &mut Session) -> f64 {
    session.run("SELECT pg_stat_force_next_flush()");
    session.number(
        "SELECT idx_blks_read + idx_blks_hit FROM pg_statio_user_indexes WHERE indexrelname = 't_skip'",
    )
}

on_shared!(plan_probe_pages);
fn plan_probe_pages(database: &Database) {
    let mut session = table(database);
    assert_eq!(skip_scan(&mut session, "", FIND).text("Ranges Expected Exactly"), "true");
    let before = touched(&mut session);
    session.plan(FIND);
    assert!(touched(&mut session) > before, "planning asks the index");
    session.run("SET pg_skip.plan_probe_pages = 0");
    let before = touched(&mut session);
    for _ in 0..5 {
        let plan = session.plan(FIND);
        assert!(skips(&plan) && plan.contains("(average)"), "{plan}");
        session.plan("SELECT id FROM t WHERE everywhere = 3");
    }
    // Each kind of path looks at the meta page, which says how large the ranges are, but asks nothing.
    let read = touched(&mut session) - before;
    assert!(read <= 3.0 * 10.0, "{read} pages were read by ten plans that must not ask the index");
    assert_eq!(skip_scan(&mut session, "", FIND).text("Ranges Expected Exactly"), "false");
    session.run("SET pg_skip.enable_scan = off");
    let before = touched(&mut session);
    session.plan(FIND);
    let read = touched(&mut session) - before;
    assert!(read <= 2.0, "{read} pages were read for the bitmap path");
    assert_eq!(session.one(FIND), "77");
    // Too few for a long list: an average is taken for it, and the answer is the same.
    session.run("RESET pg_skip.enable_scan; SET pg_skip.plan_probe_pages = 3");
    let keys: Vec<_> = (0..500).map(|i| format!("md5('{i}')::uuid")).collect();
    let many = format!("SELECT count(*) FROM t WHERE u IN ({})", keys.join(", "));
    session.run("SET enable_seqscan = off; SET enable_bitmapscan = off");
    let before = touched(&mut session);
    let plan = session.plan(&many);
    assert!(skips(&plan) && plan.contains("(average)"), "{plan}");
    let read = touched(&mut session) - before;
    // Beside the pages asked there is what says where they are.
    assert!(read <= 3.0 + 5.0, "{read} pages were read for planning");
    assert_eq!(session.one(&many), "499");
}

on_shared!(force_indexes);
fn force_indexes(database: &Database) {
    let mut session = table(database);
    let everywhere = "SELECT count(*) FROM t WHERE everywhere = 3";
    assert!(reads_all(&session.plan(everywhere)));
    session.run("SET pg_skip.force_indexes = 't_skip'");
    let plan = session.plan(everywhere);
    assert!(skips(&plan) && plan.contains("t_skip"), "{plan}");
    assert_eq!(session.one(everywhere), "8000");
    // Cheaper plans stand back.
    session.run("SET pg_skip.force_indexes = ''; CREATE INDEX t_btree ON t (u)");
    assert!(!skips(&session.plan(FIND)));
    session.run("SET pg_skip.force_indexes = 't_skip'");
    assert!(skips(&session.plan(FIND)), "{}", session.plan(FIND));
    session.run("DROP INDEX t_btree");
    // The conditions must be the table's own and the index's.
    for sql in [
        "SELECT count(*) FROM t",
        "SELECT count(*) FROM t WHERE id = 7",
        "SELECT count(*) FROM t WHERE stretch = 7",
        "SELECT count(*) FROM t WHERE u = md5('7')::uuid OR id = 7",
        "SELECT count(*) FROM t WHERE everywhere > 3",
        "UPDATE t SET id = 0 WHERE id = 7",
        "DELETE FROM t WHERE id = 7",
        "SELECT count(*) FROM o WHERE EXISTS (SELECT FROM t WHERE t.id = 9)",
    ] {
        let error = session.error(sql);
        assert_eq!(
            (error.code().code(), error.message()),
            ("55000", "index \"t_skip\" is not used"),
            "{sql}"
        );
    }
    // Other tables are free, and so is what only names the table.
    session.run("INSERT INTO t (id) VALUES (0)");
    assert_eq!(session.one("SELECT count(*) FROM o WHERE id = 7"), "1");
    for sql in [
        "UPDATE t SET id = 0 WHERE u = md5('7')::uuid RETURNING id",
        "DELETE FROM t WHERE u = md5('7')::uuid RETURNING id",
    ] {
        assert!(skips(&session.plan(sql)));
        assert_eq!(session.one(sql), "0");
    }
    // Names as SQL writes them.
    session.run(
        "CREATE SCHEMA \"Other, one\";
         CREATE TABLE \"Other, one\".x AS SELECT i AS id, i AS k FROM generate_series(1, 100) i;
         CREATE INDEX \"Index, two\" ON \"Other, one\".x USING skip (k)",
    );
    for (names, error) in [
        ("public.t_skip", true),
        ("PUBLIC.T_SKIP", true),
        (" t_stretch , t_skip ", true),
        ("\"t_skip\"", true),
        ("\"Other, one\".\"Index, two\"", false),
        ("", false),
    ] {
        session.run(&format!("SET pg_skip.force_indexes = '{names}'"));
        let outcome = session.try_rows("SELECT count(*) FROM t WHERE id = 7");
        assert_eq!(outcome.is_err(), error, "{names}: {outcome:?}");
    }
    // A name of no index (the session is warned of it) forces none; what is no name is an error.
    for names in ["\"T_SKIP\"", "\"Other, one\".t_skip", "nothing"] {
        session.run(&format!("SET pg_skip.force_indexes = '{names}'"));
        session.run("SELECT id FROM t WHERE id = 7");
    }
    for names in ["t_skip,", "t skip", "\"t_skip", "t..skip", ", t_skip"] {
        let error = session.error(&format!("SET pg_skip.force_indexes = '{names}'"));
        assert_eq!(error.code().code(), "22023", "{names}: {error:?}");
    }
    session.run("SET pg_skip.force_indexes = '\"Other, one\".\"Index, two\"'");
    assert!(skips(&session.plan("SELECT id FROM \"Other, one\".x WHERE k = 7")));
    assert_eq!(session.error("SELECT id FROM \"Other, one\".x").code().code(), "55000");
    // Two at once: each must be used.
    session.run("SET pg_skip.force_indexes = 't_skip, t_stretch'");
    let plan = session.plan("SELECT id FROM t WHERE stretch = 20 AND everywhere = 3");
    assert!(skips(&plan) && plan.contains("t_skip") && plan.contains("t_stretch"), "{plan}");
    let error = session.error("SELECT id FROM t WHERE everywhere = 3");
    assert_eq!(error.message(), "index \"t_stretch\" is not used");
}

on_shared!(ignore_indexes);
fn ignore_indexes(database: &Database) {
    let mut session = table(database);
    session.run("SET enable_seqscan = off; SET enable_bitmapscan = on");
    let both = "SELECT id FROM t WHERE u = md5('20077')::uuid AND stretch = 20";
    for names in ["t_skip", "public.t_skip", "\"t_skip\"", "t_skip,o_skip", " o_skip , t_skip "] {
        session.run(&format!("SET pg_skip.ignore_indexes = '{names}'"));
        let plan = session.plan(FIND);
        assert!(!plan.contains("t_skip") && reads_all(&plan), "{names}:\n{plan}");
        let plan = session.plan(both);
        assert!(!plan.contains("t_skip") && plan.contains("t_stretch"), "{names}:\n{plan}");
        session.run("SET pg_skip.enable_scan = off");
        let plan = session.plan(FIND);
        assert!(!plan.contains("t_skip"), "{names}, by a bitmap:\n{plan}");
        session.run("RESET pg_skip.enable_scan");
        assert_eq!(session.one(both), "20077");
    }
    assert!(!session.plan("SELECT id FROM o WHERE u = md5('7')::uuid").contains("o_skip"));
    for names in ["o_skip", ""] {
        session.run(&format!("SET pg_skip.ignore_indexes = '{names}'"));
        assert!(skips(&session.plan(FIND)), "{names}");
    }
    for (names, is_used) in
        [("T_skipp", true), ("\"T_SKIP\"", true), ("nothing, t_skip", false), ("no_such.t_skip", true)]
    {
        session.run(&format!("SET pg_skip.ignore_indexes = '{names}'"));
        assert_eq!(session.plan(FIND).contains("t_skip"), is_used, "{names}");
    }
    // Whatever search_path is where the query is planned.
    session.run(
        "SET pg_skip.ignore_indexes = 't_skip, nothing';
         CREATE FUNCTION elsewhere() RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog AS
             'BEGIN RETURN (SELECT count(*) FROM public.t WHERE u = md5(''7'')::uuid); END'",
    );
    assert_eq!(session.one("SELECT elsewhere()"), "1");
    // Rows written meanwhile are in the index all the same.
    session.run("SET pg_skip.ignore_indexes = 't_skip'; INSERT INTO t (id, u) VALUES (-1, md5('new')::uuid)");
    session.run("RESET pg_skip.ignore_indexes");
    Way::skip_scan().set(&mut session);
    let find = "SELECT id FROM t WHERE u = md5('new')::uuid";
    assert!(skips(&session.plan(find)));
    assert_eq!(session.one(find), "-1");
}

on_shared!(warnings_of_names);
/// Names of no index are warned of when they are set, and nothing else is.
fn warnings_of_names(database: &Database) {
    let _ = table(database);
    let (mut session, heard) = server().connect_hearing(&database.name);
    let said = |session: &mut Session, sql: &str| {
        session.run(sql);
        session.rows("SELECT 1");
        std::mem::take(&mut *heard.lock().unwrap())
    };
    let none: [&str; 0] = [];
    assert_eq!(said(&mut session, FIND), none, "the first query, which loads the library");
    assert_eq!(said(&mut session, "SET pg_skip.force_indexes = 't_skip, public.o_skip'"), none);
    let warned = said(&mut session, "SET pg_skip.ignore_indexes = 't_skip, \"T\"'");
    assert_eq!(warned, ["WARNING: index \"T\" does not exist"]);
    assert_eq!(said(&mut session, "SET pg_skip.force_indexes = ''; RESET pg_skip.ignore_indexes"), none);
    assert_eq!(said(&mut session, FIND), none);
}

on_shared!(settings_of_a_database);
/// Settings that are there before the library is, for a session, a database, or by ALTER ROLE … IN DATABASE.
fn settings_of_a_database(database: &Database) {
    let mut session = table(database);
    let name = &database.name;
    assert!(skips(&database.session().plan(FIND)), "the first query of a session");
    let mut fresh = database.session();
    fresh.run("SET pg_skip.enable_scan = off"); // of a library that is not loaded yet
    assert!(!skips(&fresh.plan(FIND)));
    assert_eq!(fresh.one("SHOW pg_skip.enable_scan"), "off");
    for (alter, value) in [
        (format!("ALTER DATABASE {name}"), "off"),
        (format!("ALTER ROLE postgres IN DATABASE {name}"), "off"),
    ] {
        session.run(&format!("{alter} SET pg_skip.enable_scan = {value}"));
        let mut fresh = database.session();
        let plan = fresh.plan(FIND);
        assert!(!skips(&plan), "{alter}:\n{plan}");
        assert_eq!(fresh.one("SHOW pg_skip.enable_scan"), value);
        fresh.run("SET pg_skip.enable_scan = on");
        assert!(skips(&fresh.plan(FIND)));
        session.run(&format!("{alter} RESET pg_skip.enable_scan"));
        assert!(skips(&database.session().plan(FIND)), "after RESET by {alter}");
    }
    session.run(&format!("ALTER DATABASE {name} SET pg_skip.ignore_indexes = 't_skip'"));
    session.run(&format!("ALTER DATABASE {name} SET pg_skip.plan_probe_pages = 0"));
    let mut fresh = database.session();
    assert!(!fresh.plan(FIND).contains("t_skip"));
    assert_eq!(fresh.one("SHOW pg_skip.plan_probe_pages"), "0");
    // What cannot be a value is warned of when the library comes, and the default holds.
    session.run(&format!("ALTER DATABASE {name} RESET ALL"));
    let mut fresh = database.session();
    fresh.run("SET pg_skip.plan_probe_pages = 'many'");
    assert!(skips(&fresh.plan(FIND)));
    assert_eq!(fresh.one("SHOW pg_skip.plan_probe_pages"), "2048");
    // A function's own settings end with it.
    session.run(
        "CREATE FUNCTION plain_plan() RETURNS SETOF text LANGUAGE plpgsql SET pg_skip.enable_scan = off AS
            $$BEGIN RETURN QUERY EXECUTE 'EXPLAIN SELECT id FROM t WHERE u = md5(''77'')::uuid'; END$$",
    );
    assert!(!skips(&session.column("SELECT plain_plan()").join("\n")));
    assert!(skips(&session.plan(FIND)));
}

on_shared!(names_in_a_schema_of_others);
/// A setting may name an index in a schema that the user may not use, also when the session begins with the setting.
fn names_in_a_schema_of_others(database: &Database) {
    let mut session = table(database);
    let (name, user) = (&database.name, format!("{}_bob", database.name));
    session.run(&format!(
        "CREATE SCHEMA private; CREATE TABLE private.p (k int); CREATE INDEX p_skip ON private.p USING skip (k);
         CREATE TEMP TABLE own (k int); CREATE INDEX own_skip ON own USING skip (k);
         CREATE ROLE {user}; GRANT SELECT ON t TO {user};
         ALTER DATABASE {name} SET pg_skip.ignore_indexes = 'private.p_skip'"
    ));
    let (mut other, heard) = server().connect_hearing(name);
    other.run(&format!("SET ROLE {user}"));
    assert!(skips(&other.plan(FIND)));
    other.run("SET pg_skip.ignore_indexes = 'private.p_skip, public.t_skip'");
    assert!(!other.plan(FIND).contains("t_skip"));
    assert_eq!(*heard.lock().unwrap(), Vec::<String>::new());
    other.run("SET pg_skip.ignore_indexes = 'private.q_skip, nowhere.p_skip'");
    other.rows("SELECT 1");
    assert_eq!(heard.lock().unwrap().len(), 2, "{heard:?}");
    let none = session.try_rows("SET pg_skip.ignore_indexes = 'pg_temp.own_skip'");
    assert!(none.is_ok(), "{none:?}");
    drop(other);
    session.run(&format!("ALTER DATABASE {name} RESET ALL; DROP OWNED BY {user}; DROP ROLE {user}"));
}

on_shared!(the_probe_budget_is_of_one_planning);
/// Hundreds of plannings in one statement each have the whole budget.
fn the_probe_budget_is_of_one_planning(database: &Database) {
    let mut session = database.session();
    table_of_uuids(&mut session);
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
