//! Bad input: each mistake is a clear error with its SQLSTATE, and with a detail or a hint where this extension is
//! the one to speak; none leaves anything broken behind.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::likely::likely;
use pg_skip_tests::session::Session;
use std::time::{Duration, Instant};

/// Fails with one of these codes, and says something beyond the message if `more`.
#[track_caller]
fn refused(session: &mut Session, sql: &str, codes: &[&str], more: bool) -> String {
    let error = session.error(sql);
    let (detail, hint) = (error.detail().unwrap_or_default(), error.hint().unwrap_or_default());
    let said = format!("{} {}\nDETAIL: {detail}\nHINT: {hint}", error.code().code(), error.message());
    assert!(codes.contains(&error.code().code()), "{sql}: one of {codes:?} expected, not {said}");
    assert!(!more || !detail.is_empty() || !hint.is_empty(), "{sql}: no detail, no hint in {said}");
    assert!(!said.contains("panicked") && !said.contains(".rs"), "{sql}: a panic's text in {said}");
    said
}

fn table(session: &mut Session) {
    session.run(
        "CREATE TABLE t (id int, a int, b text, c uuid, p point, filler text DEFAULT repeat('x', 500));
         INSERT INTO t (id, a, b) SELECT i, i, i FROM generate_series(1, 200) i;
         CREATE INDEX t_skip ON t USING skip (a, b) WITH (pages_per_range = 1)",
    );
}

on_shared!(options_out_of_bounds);
fn options_out_of_bounds(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    for option in [
        "pages_per_range = 0",
        "pages_per_range = -1",
        "pages_per_range = 131073",
        "pages_per_range = 99999999999",
        "pages_per_range = many",
        "false_positive_rate = 0",
        "false_positive_rate = 0.99e-9",
        "false_positive_rate = 0.2001",
        "false_positive_rate = 1",
        "false_positive_rate = -0.1",
        "false_positive_rate = NaN",
        "false_positive_rate = low",
        "delta_limit = -1",
        "delta_limit = lots",
        "autosummarize = perhaps",
    ] {
        let more = !option.contains("many") && !option.contains("lo");
        // What is no number at all is PostgreSQL's to refuse, in one line.
        let more = more && !option.contains("NaN");
        let more = more && !option.contains("99999");
        refused(&mut session, &format!("CREATE INDEX ON t USING skip (a) WITH ({option})"), &["22023"], more);
        refused(&mut session, &format!("ALTER INDEX t_skip SET ({option})"), &["22023"], more);
    }
    for rate in ["0", "0.3", "1e-10", "NaN", "x"] {
        let sql = format!("CREATE INDEX ON t USING skip (a int4_skip_ops (false_positive_rate = '{rate}'))");
        refused(&mut session, &sql, &["22023"], !["NaN", "x"].contains(&rate));
    }
    refused(&mut session, "CREATE INDEX ON t USING skip (a) WITH (fillfactor = 50)", &["22023"], false);
    refused(&mut session, "CREATE INDEX ON t USING skip (a) WITH (nonsense = 1)", &["22023"], false);
    refused(&mut session, "CREATE INDEX ON t USING skip (a int4_skip_ops (nonsense = 1))", &["22023"], false);
    refused(&mut session, "ALTER INDEX t_skip SET (nonsense = 1)", &["22023"], false);
    let indexes = session.number("SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass");
    assert_eq!(indexes, 1.0, "a refused index is not there");
    sound(&mut session, "t_skip");
}

on_shared!(options_at_their_bounds);
fn options_at_their_bounds(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    for options in [
        "pages_per_range = 1, false_positive_rate = 1e-9",
        "pages_per_range = 131072, false_positive_rate = 0.2",
        "pages_per_range = 131072, false_positive_rate = 1e-9, autosummarize = on",
        "autosummarize = off",
        "autosummarize",
        "autosummarize = false",
        "autosummarize = Background",
        "autosummarize = auto",
        "delta_limit = 64",
        "delta_limit = 1048576",
    ] {
        session
            .run(&format!("DROP INDEX t_skip; CREATE INDEX t_skip ON t USING skip (a, b) WITH ({options})"));
        session.run("INSERT INTO t (id, a, b) SELECT i, i, i FROM generate_series(1, 200) i");
        session.run("SELECT skip_summarize('t_skip')");
        for predicate in ["a = 77", "b = '77'", "a IN (1, 2, 300) AND b = '2'", "a = 777"] {
            same(&mut session, "t", &Question::using("t_skip", predicate));
        }
        sound(&mut session, "t_skip");
    }
    // Options set later are for the next build; until then the index goes on as it was built.
    session.run("ALTER INDEX t_skip SET (pages_per_range = 3, false_positive_rate = 0.05)");
    same(&mut session, "t", &Question::using("t_skip", "a = 77"));
    session.run("INSERT INTO t (id, a) VALUES (1000, 1000)");
    same(&mut session, "t", &Question::using("t_skip", "a = 1000"));
    let pages = "SELECT DISTINCT pages_per_range FROM skip_index_info('t_skip')";
    assert_ne!(session.one(pages), "3", "the geometry is the build's");
    session.run("REINDEX INDEX t_skip");
    assert_eq!(session.one(pages), "3", "the geometry after REINDEX");
    session.run("ALTER INDEX t_skip RESET (pages_per_range)");
    sound(&mut session, "t_skip");
}

on_shared!(unsupported_kinds_of_index);
fn unsupported_kinds_of_index(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    for sql in [
        "CREATE UNIQUE INDEX ON t USING skip (a)",
        "CREATE INDEX ON t USING skip (a) INCLUDE (b)",
        "CREATE INDEX ON t USING skip (a DESC)",
        "CREATE INDEX ON t USING skip (a NULLS FIRST)",
        "ALTER TABLE t CLUSTER ON t_skip",
        "CLUSTER t USING t_skip",
    ] {
        refused(&mut session, sql, &["0A000"], false);
    }
    // EXCLUDE needs amgettuple, and says so.
    refused(&mut session, "ALTER TABLE t ADD EXCLUDE USING skip (a WITH =)", &["0A000"], false);
    refused(&mut session, "CREATE INDEX ON t USING skip (nowhere)", &["42703"], false);
    refused(&mut session, "CREATE INDEX ON t USING skip (a text_skip_ops)", &["42804"], false);
    sound(&mut session, "t_skip");
}

on_shared!(types_without_a_hash_operator_class);
fn types_without_a_hash_operator_class(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    for expression in ["p", "(p::text::json)", "(b::tsvector)", "(a::bit(8))", "(a::money)"] {
        let sql = format!("CREATE INDEX ON t USING skip ({expression})");
        // The last ones, without an operator class, also have casts that are not immutable.
        refused(&mut session, &sql, &["42704", "42P17"], false);
    }
    let said = refused(&mut session, "CREATE INDEX ON t USING skip (p)", &["42704"], true);
    assert!(said.contains("point"), "{said}");
    // An array's operator class takes any array; whether its elements can be hashed must be asked at once, not at the
    // first INSERT.
    session.run("CREATE TYPE pair AS (x point, y int); CREATE TYPE prices AS RANGE (subtype = money)");
    session.run("CREATE TABLE e (a point[], b pair[], c box[], d int[], r prices)");
    for column in ["a", "b", "c", "r"] {
        let sql = format!("CREATE INDEX ON e USING skip ({column})");
        refused(&mut session, &sql, &["42704", "42883", "0A000"], true);
    }
    session.run("CREATE INDEX ON e USING skip (d)");
    session.run("INSERT INTO e VALUES (NULL, NULL, NULL, '{1}')");
}

on_shared!(tables_that_are_no_heap);
/// Another name for the heap's handler is the only other table access method that a plain server can have.
fn tables_that_are_no_heap(database: &Database) {
    let mut session = database.session();
    session.run("CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler");
    session.run(
        "CREATE TABLE o (id int, a int) USING other;
         INSERT INTO o SELECT i, i FROM generate_series(1, 5000) i",
    );
    match session.try_rows("CREATE INDEX o_skip ON o USING skip (a) WITH (pages_per_range = 1)") {
        Ok(_) => {
            same(&mut session, "o", &Question::using("o_skip", "a = 7"));
            sound(&mut session, "o_skip");
        }
        Err(error) => {
            let error = error.as_db_error().expect("an error of the server's");
            assert_eq!(error.code().code(), "0A000", "{error:?}");
            assert!(error.detail().is_some() || error.hint().is_some(), "{error:?}");
        }
    }
    session.run("CREATE VIEW v AS SELECT 1 AS a");
    refused(&mut session, "CREATE INDEX ON v USING skip (a)", &["42809"], false);
}

const FUNCTIONS: [&str; 5] = [
    "SELECT skip_summarize('X')",
    "SELECT * FROM skip_index_info('X')",
    "SELECT * FROM skip_index_segments('X')",
    "SELECT skip_matching_ranges('X', 'a', 1)",
    "SELECT * FROM skip_index_verify('X')",
];

on_shared!(functions_on_something_else);
fn functions_on_something_else(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run(
        "CREATE INDEX t_btree ON t (a); CREATE VIEW v AS SELECT 1; CREATE SEQUENCE s;
         CREATE TABLE parts (a int) PARTITION BY LIST (a); CREATE INDEX parts_skip ON parts USING skip (a);
         CREATE TABLE part_1 PARTITION OF parts FOR VALUES IN (1)",
    );
    for function in FUNCTIONS {
        for name in ["t", "t_btree", "v", "s", "pg_class", "pg_class_oid_index"] {
            refused(&mut session, &function.replace('X', name), &["42809"], true);
        }
        // A partitioned index has no ranges; its partitions' indexes do.
        let partitioned = function.replace('X', "parts_skip");
        if function.contains("ranges") {
            refused(&mut session, &partitioned, &["42809"], true);
        } else {
            session.rows(&partitioned);
        }
        refused(&mut session, &function.replace('X', "part_1_a_idx_gone"), &["42P01"], false);
        refused(
            &mut session,
            &function.replace("'X'", "4294967295::regclass"),
            &["42P01", "42809", "42704", "XX000"],
            false,
        );
        // NULL for the index is no index: nothing, or an error, but no crash.
        let _ = session.try_rows(&function.replace("'X'", "NULL"));
        session.rows(&function.replace('X', "part_1_a_idx"));
        session.rows(&function.replace('X', "t_skip"));
    }
    // An index that a failed CREATE INDEX CONCURRENTLY left behind.
    session.run("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't_skip'::regclass");
    for function in FUNCTIONS {
        let call = function.replace('X', "t_skip");
        match function {
            // Rows may be missing in it.
            _ if function.contains("matching_ranges") => drop(refused(&mut session, &call, &["55000"], true)),
            _ if function.contains("verify") => {
                let problems = session.rows(&call);
                assert!(problems.len() == 1 && format!("{problems:?}").contains("not valid"), "{problems:?}");
            }
            _ => drop(session.rows(&call)),
        }
    }
    session.run("UPDATE pg_index SET indisvalid = true WHERE indexrelid = 't_skip'::regclass");
    sound(&mut session, "t_skip");
    // Another session's temporary index is out of reach: its pages are in that session's memory.
    let mut other = database.session();
    other.run(
        "CREATE TEMP TABLE x (a int); INSERT INTO x VALUES (1); CREATE INDEX x_skip ON x USING skip (a)",
    );
    let name = other.one("SELECT 'x_skip'::regclass::oid");
    for function in FUNCTIONS {
        let codes = ["0A000", "42809", "55000"];
        refused(&mut session, &function.replace("'X'", &format!("{name}::regclass")), &codes, false);
    }
    sound(&mut other, "x_skip");
}

on_shared!(functions_on_an_index_that_is_not_built);
/// CREATE INDEX CONCURRENTLY is cancelled while it waits for other transactions: the file of the index is empty, which
/// is no damage.
fn functions_on_an_index_that_is_not_built(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    session.run("CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 1000)");
    other.run("BEGIN; INSERT INTO t VALUES (1001)");
    session.run("SET statement_timeout = '1s'");
    refused(&mut session, "CREATE INDEX CONCURRENTLY t_skip ON t USING skip (a)", &["57014"], false);
    session.run("RESET statement_timeout");
    other.run("COMMIT");
    assert_eq!(session.one("SELECT pg_relation_size('t_skip')"), "0");
    for function in FUNCTIONS {
        let call = function.replace('X', "t_skip");
        match function {
            _ if function.contains("verify") => {
                let problems = session.rows(&call);
                assert!(problems.len() == 1 && format!("{problems:?}").contains("not valid"), "{problems:?}");
            }
            _ if function.contains("summarize") => assert_eq!(session.one(&call), "0"),
            _ => drop(refused(&mut session, &call, &["55000"], true)),
        }
    }
    session.run("REINDEX INDEX t_skip");
    sound(&mut session, "t_skip");
}

on_shared!(functions_by_someone_else);
fn functions_by_someone_else(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    let role = &database.name;
    session.run(&format!("CREATE ROLE {role} LOGIN; GRANT USAGE, CREATE ON SCHEMA public TO {role}"));
    let mut other = database.session();
    other.run(&format!("SET ROLE {role}"));
    for function in FUNCTIONS {
        refused(&mut other, &function.replace('X', "t_skip"), &["42501"], false);
    }
    // Reading the table is no right to maintain it.
    session.run(&format!("GRANT SELECT ON t TO {role}"));
    refused(&mut other, "SELECT skip_summarize('t_skip')", &["42501"], false);
    // Its owner may do all of it.
    other.run(
        "CREATE TABLE mine (id int, a int); INSERT INTO mine SELECT i, i FROM generate_series(1, 5000) i",
    );
    other.run("CREATE INDEX mine_skip ON mine USING skip (a)");
    for function in FUNCTIONS {
        other.rows(&function.replace('X', "mine_skip"));
    }
    drop(other);
    session.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

on_shared!(matching_ranges_arguments);
fn matching_ranges_arguments(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    for (sql, codes) in [
        ("SELECT skip_matching_ranges('t_skip', 'nowhere', 1)", &["42703"][..]),
        ("SELECT skip_matching_ranges('t_skip', 'c', 1)", &["42703"]),
        ("SELECT skip_matching_ranges('t_skip', '', 1)", &["42703"]),
        ("SELECT skip_matching_ranges('t_skip', 'a', date '2026-01-01')", &["42804"]),
        ("SELECT skip_matching_ranges('t_skip', 'b', 1)", &["42804"]),
        ("SELECT skip_matching_ranges('t_skip', 'a', point '(1,1)')", &["42804"]),
    ] {
        let said = refused(&mut session, sql, codes, true);
        assert!(!said.is_empty());
    }
    // Types that the operator family knows are as good as the column's own.
    for value in ["7::int2", "7", "7::int8"] {
        let ranges = session.column(&format!("SELECT skip_matching_ranges('t_skip', 'a', {value})"));
        assert!(ranges.contains(&"0".to_owned()), "{value}: {ranges:?}");
    }
    let ranges = session.column("SELECT skip_matching_ranges('t_skip', 'a', NULL::int)");
    likely(ranges.len() < 2, || format!("no range but the last can have NULLs: {ranges:?}"));
}

on_shared!(bad_operator_classes_are_invalid);
/// `amvalidate` says what is wrong with an operator class instead of approving everything.
fn bad_operator_classes_are_invalid(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE OPERATOR CLASS no_function FOR TYPE int4 USING skip AS OPERATOR 1 =(int4, int4);
         CREATE OPERATOR CLASS no_operator FOR TYPE int4 USING skip AS FUNCTION 1 hashint4extended(int4, int8);
         CREATE OPERATOR CLASS not_equality FOR TYPE int4 USING skip
            AS OPERATOR 1 <(int4, int4), FUNCTION 1 hashint4extended(int4, int8)",
    );
    for class in ["no_function", "no_operator"] {
        let valid = session.one(&format!("SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = '{class}'"));
        assert_eq!(valid, "f", "amvalidate of {class}");
    }
    session.run("CREATE TABLE t (id int, a int); INSERT INTO t SELECT i, i FROM generate_series(1, 100) i");
    // With a class that lacks something the index is refused, or it is right all the same.
    for class in ["no_function", "no_operator", "not_equality"] {
        if let Err(error) = session.try_rows(&format!("CREATE INDEX t_{class} ON t USING skip (a {class})")) {
            let code = error.as_db_error().map(|error| error.code().code().to_owned());
            assert!(
                code.is_some_and(
                    |code| ["42883", "42P17", "42704", "0A000", "XX000"].contains(&code.as_str())
                )
            );
            continue;
        }
        for predicate in ["a = 7", "a < 7", "a IN (1, 2, 999)", "a IS NULL"] {
            same(&mut session, "t", &Question::any(predicate));
        }
        session.run(&format!("DROP INDEX t_{class}"));
    }
    for clause in ["OPERATOR 99 =(int8, int8)", "OPERATOR 0 =(int8, int8)", "FUNCTION 9 hashint8(int8)"] {
        let sql = format!("CREATE OPERATOR CLASS out_of_range FOR TYPE int8 USING skip AS {clause}");
        refused(&mut session, &sql, &["42P17"], false);
    }
}

on_shared!(failing_expressions);
/// An expression that fails for some row fails CREATE INDEX and INSERT with its own error, and breaks nothing.
fn failing_expressions(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (id int, a int, filler text DEFAULT repeat('x', 900))");
    session.run("INSERT INTO t SELECT i, i % 50 FROM generate_series(1, 200) i");
    refused(&mut session, "CREATE INDEX t_skip ON t USING skip ((100 / a))", &["22012"], false);
    // Dead rows are still on their pages, but the expression is not for them.
    session.run("DELETE FROM t WHERE a = 0");
    // Transactions of other tests may still hold them for recently dead, and those are evaluated by any index.
    let sql = "CREATE INDEX t_skip ON t USING skip ((100 / a)) WITH (pages_per_range = 1)";
    let end = Instant::now() + Duration::from_secs(20);
    while let Err(error) = session.try_rows(sql) {
        let code = error.as_db_error().map(|error| error.code().code().to_owned());
        assert!(code.as_deref() == Some("22012") && Instant::now() < end, "{error:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    refused(&mut session, "INSERT INTO t VALUES (0, 0)", &["22012"], false);
    session.run("SELECT skip_summarize('t_skip')");
    session.run("VACUUM t");
    for value in [100, 2, 9, 1000] {
        same(&mut session, "t", &Question::using("t_skip", format!("100 / a = {value}")));
    }
    sound(&mut session, "t_skip");
}
