//! Bugs that were found once: each test fails without its fix.
use crate::registry::{alone, on_shared};
use crate::shared::{self, Database};
use crate::standby::catch_up;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server::Server;

alone!(standby_without_full_page_writes);
/// The build changed its first two pages in WAL before it had logged them: a standby had no page to change, and died.
fn standby_without_full_page_writes() {
    let settings = ["wal_level=replica", "max_wal_senders=4", "wal_keep_size=4GB", "full_page_writes=off"];
    let primary = Server::start(&settings);
    shared::prepare(&primary);
    let standby = primary.standby(&settings);
    let (mut session, mut reader) = (primary.connect("skip_template"), standby.connect("skip_template"));
    session.run("CREATE TABLE t (id int, a int); INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i");
    session.run("CREATE INDEX t_skip ON t USING skip (a) WITH (pages_per_range = 2)");
    session.run("REINDEX INDEX t_skip");
    session.run("INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i");
    session.run("VACUUM t");
    catch_up(&mut session, &mut reader);
    for reader in [&mut session, &mut reader] {
        for key in [1, 777, 20000, 20001] {
            same(reader, "t", &Question::using("t_skip", format!("a = {key}")));
        }
        sound(reader, "t_skip");
    }
    drop((session, reader));
    standby.finish();
    primary.finish();
}

on_shared!(names_under_loose_collations);
/// `name`'s hash function ignores the collation that its equality heeds.
fn names_under_loose_collations(database: &Database) {
    let mut session = database.session();
    session.run("CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)");
    session.run(
        "CREATE TABLE t (id int, n name COLLATE ci, m name[] COLLATE ci, x text COLLATE ci, y text[] COLLATE ci);
         INSERT INTO t SELECT i, 'abc' || i, ARRAY['abc' || i]::name[], 'abc' || i, ARRAY['abc' || i]
         FROM generate_series(1, 5000) i",
    );
    for column in ["n", "m"] {
        let error = session.error(&format!("CREATE INDEX ON t USING skip ({column})"));
        assert_eq!(error.code().code(), "0A000", "{error:?}");
    }
    session.run("CREATE INDEX t_skip ON t USING skip (x, y) WITH (pages_per_range = 1)");
    same(&mut session, "t", &Question::using("t_skip", "x = 'ABC77'"));
    same(&mut session, "t", &Question::using("t_skip", "y = ARRAY['aBc77']"));
    assert_eq!(session.one("SELECT count(*) FROM t WHERE x = 'ABC77'"), "1");
}

on_shared!(rows_in_arrays);
/// Rows have another hash when a column is added to their type, which an array of them allows: the index lost them.
fn rows_in_arrays(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TYPE one AS (a int); CREATE TYPE ones AS RANGE (subtype = one);
         CREATE TABLE t (id int, v one[], r ones, n int[]);
         INSERT INTO t SELECT i, ARRAY[ROW(i)::one], ones(ROW(i)::one, ROW(i + 1)::one), ARRAY[i] FROM generate_series(1, 9) i",
    );
    for column in ["v", "r", "(ARRAY[v[1]])"] {
        let error = session.error(&format!("CREATE INDEX ON t USING skip ({column})"));
        assert_eq!(error.code().code(), "0A000", "{column}: {error}");
        assert!(error.detail().is_some() && error.hint().is_some());
    }
    session.run("CREATE INDEX t_skip ON t USING skip (n, (v[1].a))");
    for condition in ["n = ARRAY[3]", "v[1].a = 3"] {
        same(&mut session, "t", &Question::using("t_skip", condition));
    }
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

on_shared!(an_insert_does_not_mend_all);
/// Summarizing that was cut off left one gap, and the next insert filled all of it.
fn an_insert_does_not_mend_all(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, a text, filler text DEFAULT repeat('x', 7000));
         ALTER TABLE t ALTER filler SET STORAGE PLAIN;
         CREATE INDEX t_skip ON t USING skip (a) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 6000) i",
    );
    let summarized = "SELECT summarized FROM skip_index_info('t_skip')";
    session.run("SET statement_timeout = '3ms'");
    let _ = session.try_rows("SELECT skip_summarize('t_skip')");
    while session.try_rows("RESET statement_timeout").is_err() {}
    session.run("ALTER INDEX t_skip SET (autosummarize = on)");
    for i in 0..20 {
        let before = session.number(summarized);
        session.run(&format!("INSERT INTO t VALUES ({i}, 'new {i}')")); // a block, and so a chance, for each
        let more = session.number(summarized) - before;
        assert!(more <= 64.0, "one row summarized {more} ranges");
    }
    sound(&mut session, "t_skip");
    session.run("SELECT skip_summarize('t_skip')");
    same(&mut session, "t", &Question::using("t_skip", "a = '4000'"));
    sound(&mut session, "t_skip");
}

on_shared!(foreign_inserts_out_of_line);
/// Values out of line of a transaction that may yet fail cannot be relied on: the range stays open until that is known.
fn foreign_inserts_out_of_line(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    session.run(
        "CREATE TABLE t (id int, v text);
         ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
         CREATE INDEX t_skip ON t USING skip (v) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i",
    );
    other.run("BEGIN");
    other.run("INSERT INTO t VALUES (2000, repeat('long', 2000))");
    session.run("SELECT skip_summarize('t_skip')");
    let open = "SELECT coalesce(sum(open_ranges), 0) FROM skip_index_segments('t_skip')";
    assert_eq!(session.one(open), "1", "the range that the other session writes to");
    other.run("ROLLBACK");
    session.run("VACUUM t");
    assert_eq!(session.one(open), "0", "closed by VACUUM");
    same(&mut session, "t", &Question::using("t_skip", "v = '77'"));
    sound(&mut session, "t_skip");
}

on_shared!(row_security);
/// Which ranges a value may be in tells of rows that row security hides.
fn row_security(database: &Database) {
    let mut session = database.session();
    let role = &database.name;
    session.run(&format!(
        "CREATE TABLE t (id int, a int); INSERT INTO t SELECT i, i FROM generate_series(1, 5000) i;
         CREATE INDEX t_skip ON t USING skip (a) WITH (pages_per_range = 1);
         CREATE ROLE {role}; GRANT SELECT ON t TO {role}"
    ));
    let ask = "SELECT skip_matching_ranges('t_skip', 'a', 77)";
    let as_role = |session: &mut pg_skip_tests::session::Session| {
        session.run(&format!("SET ROLE {role}"));
        let answer = session.try_rows(ask);
        session.run("RESET ROLE");
        answer.map_err(|error| error.code().map(|code| code.code().to_owned()).unwrap_or_default())
    };
    assert!(as_role(&mut session).is_ok_and(|rows| !rows.is_empty()), "without row security");
    session.run("ALTER TABLE t ENABLE ROW LEVEL SECURITY");
    assert_eq!(as_role(&mut session).err().as_deref(), Some("42501"), "with row security");
    session.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}
