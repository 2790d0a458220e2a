//! Errors that others raise while pg_skip is loaded, or below a Skip Index Scan, or in what an index calls, keep all
//! their fields: they are compared with the same errors of a session without the library, or of a plan without the
//! index.
use crate::registry::{alone, on_shared};
use crate::shared::{Database, prepare};
use pg_skip_tests::both_ways::{Way, skips};
use pg_skip_tests::server::Server;
use pg_skip_tests::session::{Session, fields};
use std::time::{Duration, Instant};

/// A function that raises an error with everything that an error can have, in two frames.
const FUNCTIONS: &str = "
    CREATE FUNCTION raiser(what text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
    BEGIN
        IF what NOT LIKE 'bad%' THEN RETURN length(what); END IF;
        RAISE EXCEPTION 'no good: %', what USING ERRCODE = 'P7777', DETAIL = 'a detail', HINT = 'a hint',
            SCHEMA = 'a schema', TABLE = 'a table', COLUMN = 'a column', DATATYPE = 'a type',
            CONSTRAINT = 'a constraint';
    END $$;
    CREATE FUNCTION outer_raiser(what text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
    BEGIN RETURN public.raiser(what); END $$;
    CREATE FUNCTION stable_raiser(what text) RETURNS int STABLE LANGUAGE plpgsql AS $$
    BEGIN RETURN public.outer_raiser(what); END $$;
    CREATE FUNCTION volatile_raiser(what text) RETURNS int VOLATILE LANGUAGE plpgsql AS $$
    BEGIN RETURN public.outer_raiser(what); END $$;
    CREATE FUNCTION bad_query() RETURNS int STABLE LANGUAGE plpgsql AS $$
    BEGIN RETURN (SELECT no_such_column FROM pg_class); END $$;
    CREATE DOMAIN small AS int CONSTRAINT is_small CHECK (VALUE < 10)";

fn table(session: &mut Session) {
    session.run(FUNCTIONS);
    session.run(
        "CREATE TABLE t (id int, word text, n int);
         INSERT INTO t SELECT i, 'word ' || i, i FROM generate_series(1, 3000) i;
         CREATE INDEX t_skip ON t USING skip (id, word) WITH (pages_per_range = 1)",
    );
}

/// A session that has the library, and one that has not.
fn with_and_without(database: &Database) -> [Session; 2] {
    let mut with = database.session();
    with.run("LOAD 'pg_skip'");
    [with, database.session()]
}

/// Fails with the same error in both sessions; that it has all the fields it should is seen in the second.
#[track_caller]
fn same_error([with, without]: &mut [Session; 2], sql: &str) -> String {
    let (with, without) = (fields(&with.error(sql)), fields(&without.error(sql)));
    assert_eq!(with, without, "with the library, and without it: {sql}");
    without
}

on_shared!(while_planning);
fn while_planning(database: &Database) {
    let mut setup = database.session();
    setup.run(FUNCTIONS);
    let mut sessions = with_and_without(database);
    for sql in [
        "SELECT outer_raiser('bad')",
        "SELECT * FROM pg_class WHERE reltuples = stable_raiser('bad')",
        "SELECT * FROM pg_class WHERE relname = 'pg_class' AND relpages / 0 > stable_raiser('bad')",
        "SELECT bad_query()",
        "SELECT 1 / 0",
        "SELECT 'x'::int",
        "SELECT 11::small",
        "DO $$ BEGIN PERFORM outer_raiser('bad'); END $$",
        "PREPARE p AS SELECT outer_raiser($1); EXECUTE p('bad')",
        "WITH q AS (SELECT volatile_raiser('bad') AS a) SELECT * FROM q",
    ] {
        same_error(&mut sessions, sql);
    }
    let all = same_error(&mut sessions, "SELECT outer_raiser('bad')");
    for field in
        ["SCHEMA NAME: a schema", "CONSTRAINT NAME: a constraint", "CONTEXT: PL/pgSQL function raiser"]
    {
        assert!(all.contains(field), "{field} expected in {all}");
    }
    let all = same_error(&mut sessions, "SELECT bad_query()");
    assert!(
        all.contains("POSITION") && all.contains(" of SELECT") || all.contains("of ("),
        "no inner query in {all}"
    );
}

on_shared!(below_a_skip_scan);
fn below_a_skip_scan(database: &Database) {
    let mut setup = database.session();
    table(&mut setup);
    let (mut skipping, mut plain) = (database.session(), database.session());
    Way::skip_scan().set(&mut skipping);
    Way::plain().set(&mut plain);
    let mut sessions = [skipping, plain];
    for sql in [
        "SELECT * FROM t WHERE id = 7 AND volatile_raiser('bad ' || word) = 1",
        "SELECT volatile_raiser('bad ' || word) FROM t WHERE id = 7",
        "SELECT n / (n - 7) FROM t WHERE id = 7",
        "SELECT (n + 10)::small FROM t WHERE id = 7",
        "SELECT (SELECT bad_query() FROM pg_class LIMIT 1) FROM t WHERE id = 7",
        "SELECT * FROM t WHERE id = (SELECT volatile_raiser('bad') LIMIT 1)",
        "SELECT * FROM t WHERE word = ANY ((SELECT ARRAY[volatile_raiser('bad')::text])::text[])",
        "UPDATE t SET n = volatile_raiser('bad') WHERE id = 7",
    ] {
        let plan = sessions[0].plan(sql);
        assert!(skips(&plan), "no Skip Index Scan for {sql}:\n{plan}");
        same_error(&mut sessions, sql);
    }
    // A key that fails when it is evaluated, which a sequential scan does at the first row.
    for sql in
        ["SELECT * FROM t WHERE id = stable_raiser('bad')", "SELECT * FROM t WHERE id = outer_raiser('bad')"]
    {
        same_error(&mut sessions, sql);
    }
    same_error(
        &mut sessions,
        "SET plan_cache_mode = force_generic_plan;
         PREPARE q (text) AS SELECT * FROM t WHERE id = stable_raiser($1); EXECUTE q('bad')",
    );
}

on_shared!(in_index_expressions);
/// The error of an index's expression, under a skip index and under a btree.
fn in_index_expressions(database: &Database) {
    let mut session = database.session();
    session.run(FUNCTIONS);
    session.run(
        "CREATE TABLE t (word text); INSERT INTO t SELECT 'word ' || i FROM generate_series(1, 3000) i;
         INSERT INTO t VALUES ('bad')",
    );
    let error = |session: &mut Session, sql: &str| fields(&session.error(sql));
    let build = ["skip", "btree"]
        .map(|method| error(&mut session, &format!("CREATE INDEX ON t USING {method} (outer_raiser(word))")));
    assert_eq!(build[0], build[1], "CREATE INDEX on an expression");
    let build = ["skip", "btree"].map(|method| {
        error(&mut session, &format!("CREATE INDEX ON t USING {method} (word) WHERE outer_raiser(word) > 1"))
    });
    assert_eq!(build[0], build[1], "CREATE INDEX with a predicate");
    assert!(build[0].contains("COLUMN NAME: a column"), "{}", build[0]);
}

on_shared!(in_hash_functions);
/// The error of a hash function that a user wrote, called by an index and by itself.
fn in_hash_functions(database: &Database) {
    let mut session = database.session();
    session.run(FUNCTIONS);
    session.run(
        "CREATE FUNCTION own_hash(word text, seed bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE plpgsql AS $$
         BEGIN RETURN hashtextextended(word, seed) + 0 * public.outer_raiser(word); END $$;
         CREATE OPERATOR CLASS own_ops FOR TYPE text USING skip AS OPERATOR 1 = (text, text),
             FUNCTION 1 own_hash(text, bigint);
         CREATE TABLE t (word text); INSERT INTO t SELECT 'word ' || i FROM generate_series(1, 3000) i;
         CREATE INDEX t_skip ON t USING skip (word own_ops) WITH (pages_per_range = 1);",
    );
    let of_itself = fields(&session.error("SELECT own_hash('bad', 0)"));
    Way::skip_scan().set(&mut session);
    for sql in [
        "INSERT INTO t VALUES ('bad')",
        "UPDATE t SET word = 'bad' WHERE word = 'word 1'",
        "SELECT * FROM t WHERE word = 'bad'",
        "SELECT * FROM t WHERE word = (SELECT 'bad' || '' FROM generate_series(1, 1))",
    ] {
        let of_index = fields(&session.error(sql));
        let tail =
            |text: &str| text.split_once("\nDETAIL").map(|(_, tail)| tail.to_owned()).expect("a detail");
        assert_eq!(of_index.lines().next(), of_itself.lines().next(), "{sql}");
        assert_eq!(tail(&of_index), tail(&of_itself), "{sql}");
    }
}

on_shared!(seen_by_handlers);
fn seen_by_handlers(database: &Database) {
    let mut setup = database.session();
    table(&mut setup);
    setup.run(
        "CREATE FUNCTION diagnosed(statement text) RETURNS text LANGUAGE plpgsql AS $$
         DECLARE code text; message text; detail text; hint text; context text; constraint_ text; column_ text;
                 type_ text; table_ text; schema_ text;
         BEGIN
             EXECUTE statement;
             RETURN 'no error';
         EXCEPTION WHEN OTHERS THEN
             GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                 hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT, constraint_ = CONSTRAINT_NAME,
                 column_ = COLUMN_NAME, type_ = PG_DATATYPE_NAME, table_ = TABLE_NAME, schema_ = SCHEMA_NAME;
             RETURN concat_ws('|', code, message, detail, hint, constraint_, column_, type_, table_, schema_, context);
         END $$",
    );
    let (mut skipping, mut plain) = (database.session(), database.session());
    Way::skip_scan().set(&mut skipping);
    Way::plain().set(&mut plain);
    for statement in [
        "SELECT volatile_raiser('bad ' || word) FROM t WHERE id = 7",
        "SELECT outer_raiser('bad')",
        "SELECT (n + 10)::small FROM t WHERE id = 7",
        "SELECT bad_query() FROM t WHERE id = 7",
    ] {
        let sql = format!("SELECT diagnosed($s${statement}$s$)");
        let seen = skipping.one(&sql);
        assert_eq!(seen, plain.one(&sql), "{statement}");
        assert!(seen.contains("PL/pgSQL function"), "{seen}");
        // The session goes on as if nothing had been.
        assert_eq!(skipping.one("SELECT count(*) FROM t WHERE id = 7"), "1");
    }
    let seen = skipping.one("SELECT diagnosed('SELECT (n + 10)::small FROM t WHERE id = 7')");
    assert!(seen.contains("|is_small|"), "the constraint's name is missing: {seen}");
}

alone!(without_backtraces);
/// With RUST_BACKTRACE in the server's environment no error gets a backtrace.
fn without_backtraces() {
    let server = Server::start_with(&[], &[("RUST_BACKTRACE", "1")]);
    prepare(&server);
    let mut session = server.connect("skip_template");
    table(&mut session);
    for sql in [
        "SELECT 1 / 0",
        "SELECT volatile_raiser('bad ' || word) FROM t WHERE id = 7",
        "SELECT skip_summarize('pg_class'::regclass)",
        "SELECT skip_matching_ranges('t_skip', 'none', 1)",
        "SELECT 'nonsense'::bloom",
        "CREATE INDEX ON t USING skip (word) WITH (pages_per_range = 0)",
    ] {
        let error = session.error(sql);
        let said = fields(&error);
        assert!(!said.contains("stack backtrace") && !said.contains("   0:"), "{sql}: {said}");
        assert!(!said.contains(".rs:"), "{sql}: {said}");
    }
    drop(session);
    server.finish();
}

/// The columns of a csvlog that tell of an error, but not of the session that has it.
const LOGGED: [&str; 13] = [
    "command_tag",
    "error_severity",
    "sql_state_code",
    "message",
    "detail",
    "hint",
    "internal_query",
    "internal_query_pos",
    "context",
    "query",
    "query_pos",
    "location",
    "backend_type",
];

alone!(in_csvlog);
/// Errors in the server's log, as csvlog has them: with the library and without it, with a Skip Index Scan and without.
fn in_csvlog() {
    let server = Server::start(&[
        "logging_collector=on",
        "log_destination=csvlog",
        "log_directory=logged",
        "log_filename=errors.log",
        "log_error_verbosity=verbose",
    ]);
    prepare(&server);
    let mut setup = server.connect("skip_template");
    table(&mut setup);
    let session = |name: &str| {
        let mut session = server.connect("skip_template");
        session.run(&format!("SET application_name = '{name}'"));
        session
    };
    let mut sessions = [session("with"), session("without")];
    sessions[0].run("LOAD 'pg_skip'");
    let mut scans = [session("with"), session("without")];
    Way::skip_scan().set(&mut scans[0]);
    Way::plain().set(&mut scans[1]);
    let in_any_plan = [
        "SELECT outer_raiser('bad')",
        "SELECT * FROM pg_class WHERE reltuples = stable_raiser('bad')",
        "SELECT bad_query()",
        "SELECT 1 / 0",
        "SELECT 'x'::int",
        "SELECT 11::small",
        "PREPARE p AS SELECT outer_raiser($1); EXECUTE p('bad')",
    ];
    let in_a_scan = [
        "SELECT * FROM t WHERE id = 7 AND volatile_raiser('bad ' || word) = 1",
        "SELECT n / (n - 7) FROM t WHERE id = 7",
        "SELECT (n + 10)::small FROM t WHERE id = 7",
        "SELECT (SELECT bad_query() FROM pg_class LIMIT 1) FROM t WHERE id = 7",
        "SELECT * FROM t WHERE id = (SELECT volatile_raiser('bad') LIMIT 1)",
        "UPDATE t SET n = volatile_raiser('bad') WHERE id = 7",
    ];
    for sql in in_any_plan {
        same_error(&mut sessions, sql);
    }
    for sql in in_a_scan {
        let plan = scans[0].plan(sql);
        assert!(skips(&plan), "no Skip Index Scan for {sql}:\n{plan}");
        same_error(&mut scans, sql);
    }
    let logged = logged(&server, &mut setup, 2 * (in_any_plan.len() + in_a_scan.len()));
    let of =
        |name: &str| logged.iter().filter(|(by, _)| by == name).map(|(_, error)| error).collect::<Vec<_>>();
    let (with, without) = (of("with"), of("without"));
    assert_eq!(without.len(), in_any_plan.len() + in_a_scan.len());
    assert_eq!(with, without, "errors in the log, with the library and without it");
    for (number, column) in LOGGED.iter().enumerate() {
        assert!(without.iter().any(|error| error[number].is_some()), "no error has the field {column}");
    }
    drop((setup, sessions, scans));
    server.finish();
}

/// The errors in a server's csvlog, as soon as so many are there: the application that had each, and its fields.
fn logged(server: &Server, session: &mut Session, count: usize) -> Vec<(String, Vec<Option<String>>)> {
    // As the server's documentation declares it, from version 14 on.
    session.run(
        "CREATE TABLE log (log_time timestamp(3) with time zone, user_name text, database_name text, process_id integer,
             connection_from text, session_id text, session_line_num bigint, command_tag text,
             session_start_time timestamp with time zone, virtual_transaction_id text, transaction_id bigint,
             error_severity text, sql_state_code text, message text, detail text, hint text, internal_query text,
             internal_query_pos integer, context text, query text, query_pos integer, location text,
             application_name text, backend_type text, leader_pid integer, query_id bigint)",
    );
    let file = server.data().join("logged/errors.csv");
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        // A record that is half written makes COPY fail, and is complete the next time.
        let copied =
            session.try_rows(&format!("TRUNCATE log; COPY log FROM '{}' WITH (FORMAT csv)", file.display()));
        let rows = session.rows(&format!(
            "SELECT application_name, {} FROM log WHERE error_severity = 'ERROR' AND application_name <> ''
             ORDER BY log_time, session_line_num",
            LOGGED.join(", ")
        ));
        if rows.len() >= count || Instant::now() > end {
            assert_eq!(rows.len(), count, "errors in the log; the last COPY: {copied:?}");
            return rows.into_iter().map(|mut row| (row.remove(0).unwrap_or_default(), row)).collect();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
