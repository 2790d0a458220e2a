//! Building and upkeep where something is in the way: rows that come and go while an index is built concurrently, expressions that
//! fail, inserts that were rolled back, tables with a few pages.
use crate::registry::{alone, on_shared};
use crate::shared::Database;
use crate::standby::{catch_up, replicated};
use pg_skip_tests::compare::{Question, difference, same, sound};
use pg_skip_tests::session::Session;
use std::time::{Duration, Instant};

/// A hash function that waits where it meets -1: so the build can be held while it is at the table's end.
const WAITING: &str = "CREATE FUNCTION waiting_hash(int, bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE plpgsql AS $$
        BEGIN
            IF $1 = -1 THEN PERFORM pg_advisory_lock_shared(7); PERFORM pg_advisory_unlock_shared(7); END IF;
            RETURN hashint4extended($1, $2);
        END $$;
     CREATE OPERATOR CLASS waiting_ops FOR TYPE int USING skip AS OPERATOR 1 =, FUNCTION 1 waiting_hash(int, bigint)";

/// A table of one page with room, so that new rows go there, after the build has read it, and nothing is pruned on the way.
const ROOM: &str = "CREATE TABLE t (id int, k int); INSERT INTO t VALUES (1, 1), (2, 2), (3, -1)";

/// Runs `command`, which builds an index with the waiting hash function, and while that waits: inserts a row, calls `meanwhile`,
/// and deletes the row again.
fn build_while_row_comes_and_goes(connect: &dyn Fn() -> Session, command: &str, meanwhile: impl FnOnce()) {
    let (mut holder, mut builder, mut writer) = (connect(), connect(), connect());
    holder.run("SELECT pg_advisory_lock(7)");
    std::thread::scope(|scope| {
        let building = scope.spawn(move || builder.run(command));
        let waits = "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        wait_until("the build waits", || holder.one(waits) == "t");
        writer.run("INSERT INTO t VALUES (1000, 4242)");
        meanwhile();
        writer.run("DELETE FROM t WHERE id = 1000");
        holder.run("SELECT pg_advisory_unlock(7)");
        building.join().expect("the build");
    });
}

alone!(come_and_gone_while_built_concurrently);
/// A row comes after the build has read its block, a standby's transaction sees it, it is deleted before the index is valid: the
/// transaction on the standby finds it in the index.
fn come_and_gone_while_built_concurrently() {
    // With feedback nothing is pruned that the standby sees: neither the row, nor the catalog's rows that tell of the index. For the
    // primary's snapshots the row is gone all the same.
    let settings =
        ["max_standby_streaming_delay=-1", "hot_standby_feedback=on", "wal_receiver_status_interval=1s"];
    let (primary, standby) = replicated(&settings);
    let connect = || primary.connect("skip_template");
    let mut session = connect();
    session.run(WAITING);
    session.run(ROOM);
    let feedback = "SELECT count(backend_xmin) FROM pg_stat_replication";
    wait_until("the standby gives feedback", || session.one(feedback) == "1");
    for (column, command) in [
        ("k", "CREATE INDEX CONCURRENTLY t_skip ON t USING skip (k waiting_ops) WITH (pages_per_range = 1)"),
        ("k", "REINDEX INDEX CONCURRENTLY t_skip"),
        (
            "(k + 0)",
            "CREATE INDEX CONCURRENTLY t_skip ON t USING skip ((k + 0) waiting_ops) WITH (pages_per_range = 1)",
        ),
    ] {
        if command.starts_with("CREATE") {
            session.run("DROP INDEX IF EXISTS t_skip");
        }
        let mut reader = standby.connect("skip_template");
        catch_up(&mut session, &mut reader);
        let index = "SELECT coalesce(to_regclass('t_skip')::oid, 0)";
        let before = session.one(index);
        build_while_row_comes_and_goes(&connect, command, || {
            catch_up(&mut connect(), &mut reader);
            reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
            assert_eq!(reader.one("SELECT count(*) FROM t WHERE id = 1000"), "1");
        });
        session.run("SELECT txid_current()");
        reader.run("SET enable_seqscan = off");
        // The standby cannot replay that the old index is dropped while the reader is there, but it replays that there is another.
        wait_until("the reader uses the new index", || {
            // A lock taken anew makes the session heed what other sessions have changed.
            reader.run("SELECT pg_relation_size('pg_am')");
            let plan = reader.plan(&format!("SELECT id FROM t WHERE {column} = 4242"));
            reader.one(index) != before && plan.contains("t_skip")
        });
        let question = Question::using("t_skip", format!("{column} = 4242"));
        let problem = difference(&mut reader, "t", &question);
        assert_eq!(problem, None, "{command}");
        assert_eq!(reader.column("SELECT id FROM t WHERE (k = 4242) IS TRUE"), ["1000"], "{command}");
        reader.run("COMMIT");
    }
    sound(&mut session, "t_skip");
    drop(session);
    standby.finish();
    primary.finish();
}

on_shared!(gone_rows_open_their_range);
/// A row that is dead when the index is looked through is not evaluated any more: its range stays open until VACUUM comes.
fn gone_rows_open_their_range(database: &Database) {
    let mut session = database.session();
    session.run(WAITING);
    session.run(ROOM);
    for (column, open) in [("k", "0"), ("(k + 0)", "1")] {
        session.run("DROP INDEX IF EXISTS t_skip");
        session.run("VACUUM t");
        let command = format!(
            "CREATE INDEX CONCURRENTLY t_skip ON t USING skip ({column} waiting_ops) WITH (pages_per_range = 1)"
        );
        build_while_row_comes_and_goes(&|| database.session(), &command, || ());
        let opened = "SELECT sum(open_ranges) FROM skip_index_segments('t_skip')";
        assert_eq!(session.one(opened), open, "{column}");
        let matching = session.column(
            "SELECT skip_matching_ranges('t_skip', (SELECT attname FROM pg_attribute
            WHERE attrelid = 't_skip'::regclass), 4242)",
        );
        assert_eq!(matching, ["0"], "{column}: who still saw the row would find it");
        session.run("VACUUM t");
        assert_eq!(session.one(opened), "0", "{column}");
        same(&mut session, "t", &Question::using("t_skip", format!("{column} = 50")));
        sound(&mut session, "t_skip");
    }
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what}: not so after a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

on_shared!(expressions_are_tried_when_built);
/// As with any index: who makes it learns of rows that cannot be in it, not who inserts other rows later.
fn expressions_are_tried_when_built(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int); INSERT INTO t VALUES (1, 1), (2, 0), (3, 3);
         CREATE TABLE gone (id int, k int); INSERT INTO gone VALUES (1, 1), (2, 0)",
    );
    for make in [
        "CREATE INDEX t_skip ON t USING skip ((1 / k))",
        "CREATE INDEX t_skip ON t USING skip (id) WHERE 1 / k > 0",
    ] {
        assert_eq!(session.error(make).code().code(), "22012", "{make}");
        let concurrently = make.replace("INDEX", "INDEX CONCURRENTLY");
        assert_eq!(session.error(&concurrently).code().code(), "22012", "{concurrently}");
        session.run("DROP INDEX IF EXISTS t_skip");
    }
    session.run(
        "CREATE FUNCTION odd_hash(int, bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE sql AS 'SELECT $2 / $1';
         CREATE OPERATOR CLASS odd_ops FOR TYPE int USING skip AS OPERATOR 1 =, FUNCTION 1 odd_hash(int, bigint)",
    );
    assert_eq!(session.error("CREATE INDEX ON t USING skip (k odd_ops)").code().code(), "22012");
    // A row that is gone is nobody's concern.
    session.run("DELETE FROM gone WHERE k = 0");
    // A session that another test has just begun may seem to see it for a moment.
    let make = "CREATE INDEX gone_skip ON gone USING skip ((1 / k)) WITH (pages_per_range = 1)";
    wait_until("the row is gone for all", || session.try_rows(make).is_ok());
    session.run("INSERT INTO gone SELECT i, i FROM generate_series(1, 5000) i");
    session.run("VACUUM gone");
    same(&mut session, "gone", &Question::using("gone_skip", "1 / k = 1"));
}

/// A function that fails for 7 once there is a row in `broken`.
const BREAKING: &str = "CREATE TABLE broken ();
     CREATE FUNCTION breaking(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
        BEGIN
            IF $1 = 7 AND EXISTS (SELECT FROM public.broken) THEN RAISE 'no value for %', $1; END IF;
            RETURN $1;
        END $$";

on_shared!(expression_fails_later);
fn expression_fails_later(database: &Database) {
    let (mut session, heard) = crate::shared::server().connect_hearing(&database.name);
    session.run(BREAKING);
    session.run(
        "CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 300));
         CREATE INDEX t_skip ON t USING skip (breaking(k)) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 500) i;
         INSERT INTO broken DEFAULT VALUES",
    );
    for upkeep in ["VACUUM t", "SELECT skip_summarize('t_skip')", "VACUUM t"] {
        heard.lock().unwrap().clear();
        session.run(upkeep);
        let warnings = heard.lock().unwrap().clone();
        assert_eq!(warnings.len(), 1, "{upkeep}: {warnings:?}");
        let warning = &warnings[0];
        for part in ["WARNING", "t_skip", "block 0 ", "table \"t\"", "no value for 7"] {
            assert!(warning.contains(part), "{upkeep}: {warning}");
        }
        let open = "SELECT sum(open_ranges) FROM skip_index_segments('t_skip')";
        assert_eq!(session.one(open), "1", "{upkeep}");
        let summarized = "SELECT ranges - summarized <= 2 FROM skip_index_info('t_skip')";
        assert_eq!(session.one(summarized), "t", "{upkeep}: the others have their filter");
    }
    // Others go on: inserts summarize, too, and meet the row again.
    session.run("ALTER INDEX t_skip SET (autosummarize = on)");
    session.run("INSERT INTO t SELECT i, i + 10 FROM generate_series(501, 3000) i");
    session.run("UPDATE t SET k = 1 WHERE id % 97 = 0");
    who_may_not_read_is_not_told(database);
    session.run("TRUNCATE broken");
    heard.lock().unwrap().clear();
    session.run("VACUUM t");
    assert_eq!(*heard.lock().unwrap(), Vec::<String>::new(), "nothing fails any more");
    assert_eq!(session.one("SELECT sum(open_ranges) FROM skip_index_segments('t_skip')"), "0");
    for key in [7, 8, 1, 2000] {
        same(&mut session, "t", &Question::using("t_skip", format!("breaking(k) = {key}")));
    }
    sound(&mut session, "t_skip");
}

/// Who may insert, but not read, is warned without the words of the error, which may quote the row.
fn who_may_not_read_is_not_told(database: &Database) {
    let (mut session, heard) = crate::shared::server().connect_hearing(&database.name);
    session.run(
        "CREATE ROLE writer; CREATE TABLE w (LIKE t);
         CREATE INDEX w_skip ON w USING skip (breaking(k)) WITH (pages_per_range = 1);
         GRANT INSERT ON w TO writer; GRANT SELECT ON broken TO writer; TRUNCATE broken;
         INSERT INTO w VALUES (7, 7); INSERT INTO broken DEFAULT VALUES; SET ROLE writer",
    );
    session.run("INSERT INTO w SELECT 1, 1, repeat('x', 300) FROM generate_series(1, 1000)");
    let warnings = heard.lock().unwrap().clone();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("block 0") && !warnings[0].contains("no value for 7"), "{warnings:?}");
    session.run("RESET ROLE; DROP OWNED BY writer; DROP ROLE writer");
}

on_shared!(hash_function_fails_later);
fn hash_function_fails_later(database: &Database) {
    let (mut session, heard) = crate::shared::server().connect_hearing(&database.name);
    session.run(BREAKING);
    session.run(
        "CREATE FUNCTION breaking_hash(int, bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE sql
            AS 'SELECT hashint4extended(public.breaking($1), $2)';
         CREATE OPERATOR CLASS breaking_ops FOR TYPE int USING skip AS OPERATOR 1 =, FUNCTION 1 breaking_hash(int, bigint);
         CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 300));
         CREATE INDEX t_skip ON t USING skip (k breaking_ops) WITH (pages_per_range = 1);
         INSERT INTO t SELECT i, i FROM generate_series(1, 20) i; INSERT INTO broken DEFAULT VALUES",
    );
    session.run("INSERT INTO t SELECT i, i FROM generate_series(21, 1000) i");
    session.run("VACUUM t");
    assert!(heard.lock().unwrap().iter().any(|warning| warning.contains("no value for 7")));
    same(&mut session, "t", &Question::using("t_skip", "k = 8"));
    session.run("TRUNCATE broken");
    session.run("VACUUM t");
    assert_eq!(session.one("SELECT sum(open_ranges) FROM skip_index_segments('t_skip')"), "0");
    same(&mut session, "t", &Question::using("t_skip", "k = 7"));
    sound(&mut session, "t_skip");
}

on_shared!(expression_fails_in_parallel_vacuum);
/// In parallel VACUUM a subtransaction cannot be had everywhere; VACUUM must not fail for all that.
fn expression_fails_in_parallel_vacuum(database: &Database) {
    let mut session = database.session();
    session.run(BREAKING);
    session.run(
        "CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 300));
         CREATE INDEX t_skip ON t USING skip (breaking(k)) WITH (pages_per_range = 1, autosummarize = off);
         CREATE INDEX t_id ON t (id); CREATE INDEX t_k ON t (k); CREATE INDEX t_both ON t (id, k);
         INSERT INTO t SELECT i, i FROM generate_series(1, 2000) i;
         INSERT INTO broken DEFAULT VALUES",
    );
    session.run("SET min_parallel_index_scan_size = 0; SET max_parallel_maintenance_workers = 4");
    for _ in 0..2 {
        session.run("VACUUM (PARALLEL 4) t");
        session.run("DELETE FROM t WHERE id % 10 = 3");
        session.run("VACUUM (PARALLEL 4, INDEX_CLEANUP ON) t");
    }
    session.run("TRUNCATE broken");
    session.run("VACUUM (PARALLEL 4) t");
    session.run("VACUUM (PARALLEL 0) t");
    assert_eq!(session.one("SELECT sum(open_ranges) FROM skip_index_segments('t_skip')"), "0");
    for key in [7, 8, 1999] {
        same(&mut session, "t", &Question::using("t_skip", format!("breaking(k) = {key}")));
    }
    sound(&mut session, "t_skip");
}

on_shared!(cancelled_in_an_expression);
/// A cancelled VACUUM is cancelled, and not a row that failed.
fn cancelled_in_an_expression(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE slow ();
         CREATE FUNCTION slowly(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
            BEGIN IF EXISTS (SELECT FROM public.slow) THEN PERFORM pg_sleep(60); END IF; RETURN $1; END $$;
         CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 300));
         CREATE INDEX t_skip ON t USING skip (slowly(k)) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 500) i; INSERT INTO slow DEFAULT VALUES",
    );
    for upkeep in ["VACUUM t", "SELECT skip_summarize('t_skip')"] {
        session.run("SET statement_timeout = 500");
        assert_eq!(session.error(upkeep).code().code(), "57014", "{upkeep}");
        session.run("SET statement_timeout = 60000");
    }
    session.run("TRUNCATE slow");
    session.run("VACUUM t");
    same(&mut session, "t", &Question::using("t_skip", "slowly(k) = 8"));
}

on_shared!(rolled_back_rows_leave_no_open_range);
/// Rows of a transaction that failed keep no range open: nobody ever sees them.
fn rolled_back_rows_leave_no_open_range(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, v text, filler text DEFAULT repeat('x', 300));
         ALTER TABLE t ALTER v SET STORAGE external;
         CREATE INDEX t_skip ON t USING skip ((k + 1)) WITH (pages_per_range = 1, autosummarize = off);
         CREATE INDEX t_toast ON t USING skip (v) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i, repeat('y', 10) FROM generate_series(1, 500) i",
    );
    session.run(
        "BEGIN; INSERT INTO t SELECT i, i, repeat('z' || i, 1500) FROM generate_series(501, 1000) i; ROLLBACK",
    );
    session.run("INSERT INTO t SELECT i, i, repeat('y', i % 9) FROM generate_series(1001, 1500) i");
    for index in ["t_skip", "t_toast"] {
        session.run(&format!("SELECT skip_summarize('{index}')"));
        let open = session.one(&format!("SELECT sum(open_ranges) FROM skip_index_segments('{index}')"));
        assert_eq!(open, "0", "{index}");
        sound(&mut session, index);
    }
    for key in [8, 600, 1400] {
        same(&mut session, "t", &Question::using("t_skip", format!("k + 1 = {key}")));
    }
}

on_shared!(small_tables_are_summarized_early);
/// A table of a few ranges is not left without filters until it is large.
fn small_tables_are_summarized_early(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k uuid DEFAULT gen_random_uuid());
         CREATE INDEX t_skip ON t USING skip (k);
         CREATE TABLE p (id int, k int) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (20000);
         CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (20000) TO (40000);
         CREATE INDEX p_skip ON p USING skip (k)",
    );
    session.run("INSERT INTO t SELECT i FROM generate_series(1, 33000) i");
    let info = "SELECT ranges, summarized FROM skip_index_info('t_skip')";
    let row = session.rows(info).remove(0);
    let number = |at: usize| row[at].as_ref().and_then(|text| text.parse::<u32>().ok()).expect("a number");
    assert!(number(1) * 2 >= number(0), "{} of {} ranges are summarized", number(1), number(0));
    for id in [1, 20000, 33000] {
        let key = session.one(&format!("SELECT k FROM t WHERE id = {id}"));
        same(&mut session, "t", &Question::using("t_skip", format!("k = '{key}'")));
    }
    session.run("INSERT INTO p SELECT i, i FROM generate_series(0, 39999) i");
    for partition in ["p1_k_idx", "p2_k_idx"] {
        let late = session.number(&format!("SELECT ranges - summarized FROM skip_index_info('{partition}')"));
        assert!(late <= 3.0, "{partition}: {late} ranges late");
        sound(&mut session, partition);
    }
    sound(&mut session, "t_skip");
}
