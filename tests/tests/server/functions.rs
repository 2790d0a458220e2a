//! Functions and settings that take an index: the indexes of partitions, shards' names, options that wait for a build,
//! and what a session says before the library is loaded.
use crate::registry::on_shared;
use crate::shared::{Database, server};
use pg_skip_tests::compare::sound;
use pg_skip_tests::server::install;
use pg_skip_tests::session::Session;
use std::sync::{Arc, Mutex};

on_shared!(of_partitioned_indexes);
fn of_partitioned_indexes(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE p (id int, k int) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000);
         CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (1000) TO (2000) PARTITION BY RANGE (id);
         CREATE TABLE p2a PARTITION OF p2 FOR VALUES FROM (1000) TO (1500);
         CREATE TABLE p2b PARTITION OF p2 FOR VALUES FROM (1500) TO (2000);
         CREATE INDEX p_skip ON p USING skip (id, k) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO p SELECT i, i FROM generate_series(1, 1999) i",
    );
    let leaves = "SELECT relid::text FROM pg_partition_tree('p_skip') WHERE isleaf ORDER BY 1";
    let leaves = session.column(leaves);
    assert_eq!(leaves.len(), 3);
    let summarized: f64 = session.number(
        "SELECT sum(pg_relation_size(oid) / 8192) FROM pg_class WHERE relname IN ('p1', 'p2a', 'p2b')",
    );
    assert_eq!(session.number("SELECT skip_summarize('p_skip')"), summarized);
    assert_eq!(session.number("SELECT skip_summarize('p_skip')"), 0.0);
    let named = |function: &str| format!("SELECT DISTINCT index::text FROM {function}('p_skip') ORDER BY 1");
    assert_eq!(session.column(&named("skip_index_info")), leaves);
    assert_eq!(session.column(&named("skip_index_segments")), leaves);
    assert_eq!(session.number("SELECT count(*) FROM skip_index_info('p_skip')"), 6.0);
    assert_eq!(session.rows("SELECT * FROM skip_index_verify('p_skip')").len(), 0);
    // Of a part of them, and of one alone.
    let middle = session.one("SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'p2'::regclass");
    let of = |index: &str| format!("SELECT count(*) FROM skip_index_info('{index}')");
    assert_eq!(session.number(&of(&middle)), 4.0);
    assert_eq!(session.number(&of(&leaves[0])), 2.0);
    assert_eq!(
        session.one(&format!("SELECT DISTINCT index FROM skip_index_info('{}')", leaves[0])),
        leaves[0]
    );
    // Ranges are numbered for each partition: which, has to be said.
    for function in ["skip_matching_ranges", "skip_range_map"] {
        let error = session.error(&format!("SELECT {function}('p_skip', 'k', 7)"));
        assert_eq!(error.code().code(), "42809", "{error:?}");
    }
    // None at all.
    session.run("CREATE TABLE e (k int) PARTITION BY RANGE (k); CREATE INDEX e_skip ON e USING skip (k)");
    assert_eq!(session.number("SELECT skip_summarize('e_skip')"), 0.0);
    assert_eq!(session.rows("SELECT * FROM skip_index_info('e_skip')").len(), 0);
}

on_shared!(names_of_partitions_and_shards);
fn names_of_partitions_and_shards(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE p (id int, k int) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (2000);
         CREATE INDEX p_skip ON p USING skip (k) WITH (pages_per_range = 1);
         INSERT INTO p SELECT i, i FROM generate_series(1, 1999) i;
         CREATE TABLE s_102040 AS SELECT i AS k FROM generate_series(1, 2000) i;
         CREATE INDEX s_skip_102040 ON s_102040 USING skip (k) WITH (pages_per_range = 1);
         CREATE TABLE d AS TABLE s_102040;
         CREATE INDEX d_skip_102040 ON d USING skip (k) WITH (pages_per_range = 1);
         SET enable_seqscan = off; SET enable_bitmapscan = off",
    );
    session.run("ANALYZE");
    // Table, the name that is set, whether it means the table's index.
    for (table, name, is_meant) in [
        ("p", "p_skip", true),
        ("p1", "p_skip", true),
        ("p1", "p1_k_idx", true),
        ("s_102040", "s_skip", true),
        ("s_102040", "public.s_skip", true),
        ("s_102040", "other.s_skip", false),
        ("s_102040", "s_skip_102040", true),
        ("s_102040", "s", false),
        // The table is no shard.
        ("d", "d_skip", false),
        ("d", "d_skip_102040", true),
    ] {
        let query = format!("SELECT count(*) FROM {table} WHERE k = 7");
        session.run(&format!("SET pg_skip.ignore_indexes = '{name}'"));
        assert_eq!(session.plan(&query).contains("Skip Index Scan"), !is_meant, "ignoring {name} on {table}");
        session.run(&format!("RESET pg_skip.ignore_indexes; SET pg_skip.force_indexes = '{name}'"));
        let outcome = session.try_rows(&format!("SELECT count(*) FROM {table}"));
        assert_eq!(outcome.is_err(), is_meant, "forcing {name} on {table}: {outcome:?}");
        assert_eq!(session.one(&query), "1");
        session.run("RESET pg_skip.force_indexes");
    }
}

/// What the server has said beside answers since the last time.
fn said(session: &mut Session, heard: &Arc<Mutex<Vec<String>>>, sql: &str) -> Vec<String> {
    session.run(sql);
    session.rows("SELECT 1");
    std::mem::take(&mut *heard.lock().unwrap())
}

on_shared!(options_that_wait_for_reindex);
fn options_that_wait_for_reindex(database: &Database) {
    let (mut session, heard) = server().connect_hearing(&database.name);
    session.run(
        "CREATE TABLE t (k int, v text); INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;
         CREATE INDEX t_skip ON t USING skip (k int4_skip_ops (false_positive_rate = 0.01), v)
         WITH (pages_per_range = 2)",
    );
    let nothing: [&str; 0] = [];
    let notice = ["NOTICE: changed options of index \"t_skip\" take effect at the next REINDEX"];
    let pending = "SELECT coalesce(pending_options, '-') FROM skip_index_info('t_skip') ORDER BY attnum";
    let in_force =
        "SELECT pages_per_range || ' ' || false_positive_rate FROM skip_index_info('t_skip') ORDER BY attnum";
    assert_eq!(session.column(pending), ["-", "-"]);
    // A session that has not seen the index before.
    let (mut fresh, fresh_heard) = server().connect_hearing(&database.name);
    assert_eq!(said(&mut fresh, &fresh_heard, "ALTER INDEX t_skip SET (pages_per_range = 4)"), notice);
    for (sql, expected, of_k, of_v) in [
        ("SET (pages_per_range = 4)", &nothing[..], "pages_per_range = 4", "pages_per_range = 4"),
        ("SET (pages_per_range = 2)", &nothing[..], "-", "-"),
        ("SET (false_positive_rate = 1e-7)", &notice[..], "-", "false_positive_rate = 1e-7"),
        ("SET (autosummarize = off)", &nothing[..], "-", "false_positive_rate = 1e-7"),
        (
            "SET (pages_per_range = 3)",
            &notice[..],
            "pages_per_range = 3",
            "pages_per_range = 3, false_positive_rate = 1e-7",
        ),
        (
            "RENAME TO other; ALTER INDEX other RENAME TO t_skip",
            &nothing[..],
            "pages_per_range = 3",
            "pages_per_range = 3, false_positive_rate = 1e-7",
        ),
        ("RESET (false_positive_rate)", &nothing[..], "pages_per_range = 3", "pages_per_range = 3"),
        ("RESET (pages_per_range)", &notice[..], "pages_per_range = 16", "pages_per_range = 16"),
        ("SET (pages_per_range = 8)", &notice[..], "pages_per_range = 8", "pages_per_range = 8"),
    ] {
        // Setting what is not in force anyway, and was set before, is no news; nor is what is in force.
        let heard_now = said(&mut session, &heard, &format!("ALTER INDEX t_skip {sql}"));
        let expected: Vec<&str> =
            if sql.starts_with("RESET (false") { notice.to_vec() } else { expected.to_vec() };
        assert_eq!(heard_now, expected, "{sql}");
        assert_eq!(session.column(pending), [of_k, of_v], "{sql}");
        assert_eq!(session.column(in_force), ["2 0.01", "2 0.0001"], "{sql}");
    }
    assert_eq!(said(&mut session, &heard, "REINDEX INDEX t_skip"), nothing);
    assert_eq!(session.column(pending), ["-", "-"]);
    assert_eq!(session.column(in_force), ["8 0.01", "8 0.0001"]);
    // Other kinds of relations, and other commands.
    let others = "CREATE TABLE o (k int); CREATE INDEX o_btree ON o (k); ALTER INDEX o_btree SET (fillfactor = 50);
         ALTER TABLE o SET (fillfactor = 50); ALTER TABLE o ADD COLUMN v text; ALTER TABLE t OWNER TO postgres";
    assert_eq!(said(&mut session, &heard, others), nothing);
}

on_shared!(bounds_as_one_writes_them);
fn bounds_as_one_writes_them(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (k int); CREATE INDEX t_skip ON t USING skip (k)");
    for sql in [
        "CREATE INDEX ON t USING skip (k) WITH (false_positive_rate = 0.5)",
        "ALTER INDEX t_skip SET (false_positive_rate = 0.5)",
        "CREATE INDEX ON t USING skip (k int4_skip_ops (false_positive_rate = 0.5))",
    ] {
        let error = session.error(sql);
        assert_eq!(error.message(), "value 0.5 out of bounds for option \"false_positive_rate\"", "{sql}");
        assert_eq!(error.detail(), Some("Valid values are between 1e-9 and 0.2."), "{sql}");
        assert_eq!(error.code().code(), "22023", "{sql}");
    }
    let error = session.error("ALTER INDEX t_skip SET (false_positive_rate = 1e-10)");
    assert_eq!(error.message(), "value 1e-10 out of bounds for option \"false_positive_rate\"");
    session
        .run("CREATE INDEX ON t USING skip (k int4_skip_ops, k int4_skip_ops (false_positive_rate = 1e-9))");
}

on_shared!(settings_in_a_fresh_session);
/// What the documentation says of settings in a session that has not used a skip index yet.
fn settings_in_a_fresh_session(database: &Database) {
    database.session().run("CREATE TABLE t (k int); CREATE INDEX t_skip ON t USING skip (k)");
    let name = &database.name;
    let unknown = "42704";
    for (sql, works) in [
        ("SET pg_skip.enable_scan = off".to_owned(), true),
        ("SET pg_skip.plan_probe_pages = 100".to_owned(), true),
        ("SET LOCAL pg_skip.force_indexes = 't_skip'".to_owned(), true),
        ("SELECT set_config('pg_skip.ignore_indexes', 't_skip', false)".to_owned(), true),
        (format!("ALTER DATABASE {name} SET pg_skip.enable_scan = on"), true),
        (format!("ALTER ROLE postgres IN DATABASE {name} SET pg_skip.enable_scan = on"), true),
        (
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET pg_skip.enable_scan = off AS 'SELECT 1'"
                .to_owned(),
            true,
        ),
        ("SHOW pg_skip.plan_probe_pages".to_owned(), false),
        ("SELECT current_setting('pg_skip.plan_probe_pages')".to_owned(), false),
        ("ALTER SYSTEM SET pg_skip.plan_probe_pages = 2048".to_owned(), install().version >= 17),
    ] {
        let mut fresh = database.session();
        let outcome = fresh.try_rows(&sql);
        let code = outcome.as_ref().err().and_then(|error| error.code()).map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), (!works).then_some(unknown), "fresh: {sql}");
        // Loading it makes everything known, and so does a look at any skip index.
        for load in ["LOAD 'pg_skip'", "SELECT skip_index_info('t_skip')"] {
            let mut loaded = database.session();
            loaded.run(load);
            let known = loaded.number("SELECT count(*) FROM pg_settings WHERE name LIKE 'pg\\_skip.%'");
            assert_eq!(known, 10.0, "after {load}");
            if let Err(error) = loaded.try_rows(&sql) {
                assert!(sql.contains("CREATE FUNCTION"), "after {load}: {sql}: {error:?}");
            }
        }
    }
    database.session().run("LOAD 'pg_skip'");
    let mut session = database.session();
    session.run("LOAD 'pg_skip'");
    session.run("ALTER SYSTEM RESET pg_skip.plan_probe_pages");
    session
        .run(&format!("ALTER DATABASE {name} RESET ALL; ALTER ROLE postgres IN DATABASE {name} RESET ALL"));
    // As README advises.
    session.run(&format!("ALTER DATABASE {name} SET session_preload_libraries = 'pg_skip'"));
    assert_eq!(database.session().one("SHOW pg_skip.plan_probe_pages"), "2048");
    session.run(&format!("ALTER DATABASE {name} RESET ALL"));
}

on_shared!(null_arguments);
/// A NULL column name ended the server.
fn null_arguments(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (id int, a int); CREATE INDEX t_skip ON t USING skip (a)");
    for arguments in ["'t_skip', NULL, 1", "NULL, 'a', 1", "NULL, NULL, NULL::int"] {
        assert!(session.rows(&format!("SELECT skip_matching_ranges({arguments})")).is_empty(), "{arguments}");
    }
    for function in ["skip_summarize", "skip_index_info", "skip_index_segments", "skip_index_verify"] {
        session.rows(&format!("SELECT {function}(NULL)"));
    }
}

on_shared!(open_ranges_are_counted_once);
/// A range with more keys than a build has memory for stays open. CREATE INDEX CONCURRENTLY finds it open twice: when
/// it builds, and when it adds what was inserted meanwhile.
fn open_ranges_are_counted_once(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS SELECT i AS id, ARRAY(SELECT CASE WHEN i < 3000 THEN i * 1000 + n ELSE i END
             FROM generate_series(1, 300) n) AS tags FROM generate_series(1, 4000) i",
    );
    let of = |session: &mut Session, column: &str| {
        session.number(&format!("SELECT {column} FROM skip_index_info('t_tags')"))
    };
    session.run("SET maintenance_work_mem = '1MB'");
    session.run(
        "CREATE INDEX CONCURRENTLY t_tags ON t USING skip (tags array_element_skip_ops)
         WITH (pages_per_range = 64, layout = map, autosummarize = off)",
    );
    let (ranges, summarized) = (of(&mut session, "ranges"), of(&mut session, "summarized"));
    assert!(summarized > 0.0 && summarized < ranges / 2.0, "{summarized} of {ranges}");
    let open = "SELECT sum(open_ranges) FROM skip_index_segments('t_tags')";
    let in_segments = session.number("SELECT sum(width) FROM skip_index_segments('t_tags')");
    assert!(session.number(open) > 0.0 && session.number(open) < in_segments, "of {in_segments}");
    sound(&mut session, "t_tags");
    session.run("RESET maintenance_work_mem; SELECT skip_summarize('t_tags')");
    assert_eq!(session.number(open), 0.0);
    assert!(of(&mut session, "summarized") >= ranges - 1.0, "all but the last range, which is not full");
}
