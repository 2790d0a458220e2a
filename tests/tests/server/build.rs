//! Building an index: rows that come and go while it is built concurrently, expressions that fail, memory, and
//! progress.
use crate::ddl::works;
use crate::lost_blocks::lengthened;
use crate::registry::{alone, on_shared};
use crate::shared::{self, Database, wait_until};
use crate::standby::{catch_up, replicated};
use crate::vacuum::INSERTING;
use pg_skip_tests::compare::{Question, difference, same, sound};
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;

/// A hash function that waits where it meets -1: so the build can be held while it is at the table's end.
pub const WAITING: &str = "CREATE FUNCTION waiting_hash(int, bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE plpgsql
    AS $$
        BEGIN
            IF $1 = -1 THEN PERFORM pg_advisory_lock_shared(7); PERFORM pg_advisory_unlock_shared(7); END IF;
            RETURN hashint4extended($1, $2);
        END $$;
     CREATE OPERATOR CLASS waiting_ops FOR TYPE int USING skip AS OPERATOR 1 =, FUNCTION 1 waiting_hash(int, bigint)";

/// A table of one page with room, so that new rows go there, after the build has read it, and nothing is pruned on the
/// way.
const ROOM: &str = "CREATE TABLE t (id int, k int); INSERT INTO t VALUES (1, 1), (2, 2), (3, -1)";

/// Runs `command`, which builds an index with the waiting hash function, and while that waits: inserts a row, calls
/// `meanwhile`, and deletes the row again.
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
/// A row comes after the build has read its block, a standby's transaction sees it, it is deleted before the index is
/// valid: the transaction on the standby finds it in the index.
fn come_and_gone_while_built_concurrently() {
    // With feedback nothing is pruned that the standby sees: neither the row, nor the catalog's rows that tell of the
    // index. For the primary's snapshots the row is gone all the same.
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
        // The standby cannot replay that the old index is dropped while the reader is there, but it replays that there
        // is another.
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
/// A row that is dead when the index is looked through is not evaluated any more: its range stays open until VACUUM
/// comes.
fn gone_rows_open_their_range(database: &Database) {
    let mut session = database.session();
    session.run(WAITING);
    session.run(ROOM);
    for (column, open) in [("k", "0"), ("(k + 0)", "1")] {
        let command = format!(
            "CREATE INDEX CONCURRENTLY t_skip ON t USING skip ({column} waiting_ops) WITH (pages_per_range = 1)"
        );
        let opened = "SELECT sum(open_ranges) FROM skip_index_segments('t_skip')";
        // A session that another test has just begun may seem to see the row for a moment; then it is evaluated.
        wait_until("the open ranges are as expected", || {
            session.run("DROP INDEX IF EXISTS t_skip");
            session.run("VACUUM t");
            build_while_row_comes_and_goes(&|| database.session(), &command, || ());
            session.one(opened) == open
        });
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

on_shared!(progress_phases);
fn progress_phases(database: &Database) {
    let mut session = database.session();
    let phases = session.column(
        "SELECT pg_indexam_progress_phasename(a.oid, n) FROM pg_am a, generate_series(1, 20) n
         WHERE amname = 'skip' AND pg_indexam_progress_phasename(a.oid, n) IS NOT NULL",
    );
    assert_eq!(phases, ["initializing", "summarizing block ranges", "writing segments"]);
    // While an index is built, its progress can be seen: slowly, by an expression that takes its time.
    session.run(
        "CREATE FUNCTION slow(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
            'BEGIN IF k % 200 = 0 THEN PERFORM pg_sleep(0.02); END IF; RETURN k; END';
         CREATE TABLE t (k int, filler text DEFAULT repeat('x', 500))",
    );
    session.run("INSERT INTO t SELECT generate_series(1, 10000)");
    let mut watcher = database.session();
    let seen = std::thread::scope(|scope| {
        let build = scope.spawn(|| {
            session.run("CREATE INDEX t_skip ON t USING skip (slow(k)) WITH (pages_per_range = 1)")
        });
        let mut seen = Vec::new();
        while !build.is_finished() {
            seen.extend(
                watcher.rows("SELECT phase, blocks_total, blocks_done FROM pg_stat_progress_create_index"),
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        seen
    });
    let own = |phase: &str| phases.iter().any(|name| phase == format!("building index: {name}"));
    assert!(seen.iter().any(|row| row[0].as_deref().is_some_and(own)), "phases {phases:?}, seen {seen:?}");
    let done = |row: &Vec<Option<String>>| row[2].as_ref().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    assert!(seen.iter().map(done).max() > Some(0), "blocks done: {seen:?}");
}

on_shared!(maintenance_work_mem_is_enough);
/// The least memory for a build of the widest ranges at the lowest rate.
fn maintenance_work_mem_is_enough(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (id int, k int, u uuid)");
    session.run("INSERT INTO t SELECT i, i % 1001, md5(i::text)::uuid FROM generate_series(1, 100000) i");
    session.run("SET maintenance_work_mem = '1MB'");
    for options in [
        "pages_per_range = 131072, false_positive_rate = 1e-9",
        "pages_per_range = 1, false_positive_rate = 1e-9",
    ] {
        session.run(&format!("CREATE INDEX t_skip ON t USING skip (k, u) WITH ({options})"));
        works(&mut session, "t", "t_skip", "k");
        same(&mut session, "t", &Question::using("t_skip", "u = md5('777')::uuid"));
        session.run("DROP INDEX t_skip");
    }
}

on_shared!(functions_that_maintain_during_a_build);
/// A function of the index asks for maintenance of the index that is being built. It would take the blocks that the
/// build has written, and that nothing refers to yet, for lost ones.
fn functions_that_maintain_during_a_build(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int);
         INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i;
         CREATE FUNCTION f(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
         BEGIN
             IF k = 19000 AND current_setting('my.summarizes') = 'on' THEN
                 PERFORM public.skip_summarize('public.t_skip');
             END IF;
             RETURN k;
         END $$;
         SET my.summarizes = off;
         CREATE INDEX t_skip ON t USING skip (f(k)) WITH (pages_per_range = 1);
         SET my.summarizes = on",
    );
    for command in [
        "REINDEX INDEX t_skip",
        "DROP INDEX t_skip; CREATE INDEX t_skip ON t USING skip (f(k)) WITH (pages_per_range = 1)",
    ] {
        let error = session.error(command);
        assert_eq!(
            (error.code().code(), error.message()),
            ("55006", "index \"t_skip\" is being built by the current session"),
            "{command}"
        );
    }
    session.run("SET my.summarizes = off");
    same(&mut session, "t", &Question::using("t_skip", "f(k) = 19001"));
    sound(&mut session, "t_skip");
}

on_shared!(functions_that_insert_during_a_build);
/// A function of the index inserts into the table, into pages that the build has read. A table without another index is
/// not known to have one yet, and the server does not ask the new one.
fn functions_that_insert_during_a_build(database: &Database) {
    let mut session = database.session();
    session.run(INSERTING);
    session.run("DROP INDEX t_skip; CREATE INDEX ON t (id); DELETE FROM t WHERE k % 2 = 0");
    session.run("VACUUM t");
    session.run("SET my.inserts = on");
    let error = session.error("CREATE INDEX t_skip ON t USING skip (f(k)) WITH (pages_per_range = 1)");
    assert_eq!(
        (error.code().code(), error.message()),
        ("55006", "index \"t_skip\" is being built by the current session")
    );
    // The transaction was rolled back, so nothing of the build is left.
    session
        .run("SET my.inserts = off; CREATE INDEX t_skip ON t USING skip (f(k)) WITH (pages_per_range = 1)");
    session.run("INSERT INTO t (k) VALUES (4), (6)");
    for key in [1, 4, 6, 8, 19_001] {
        same(&mut session, "t", &Question::using("t_skip", format!("f(k) = {key}")));
    }
    sound(&mut session, "t_skip");
    session.run("DROP INDEX t_skip; SET my.inserts = on");
    session.run("CREATE INDEX CONCURRENTLY t_skip ON t USING skip (f(k)) WITH (pages_per_range = 1)");
    session.run("SET my.inserts = off");
    for key in (2..15_000).step_by(250) {
        same(&mut session, "t", &Question::using("t_skip", format!("f(k) = {key}")));
    }
    sound(&mut session, "t_skip");
}

on_shared!(a_concurrent_build_evaluates_each_row_once_more);
/// To look for rows that the build has missed. The index has all rows then, and the server is told so: it need not
/// insert each of them.
fn a_concurrent_build_evaluates_each_row_once_more(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE SEQUENCE calls;
         CREATE FUNCTION counted(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
             $$ BEGIN PERFORM nextval('public.calls'); RETURN k; END $$;
         CREATE TABLE t WITH (autovacuum_enabled = off) AS SELECT i AS id, i AS k FROM generate_series(1, 20000) i",
    );
    let mut calls = |before: &str, command: &str| {
        session.run(before);
        session.run("ALTER SEQUENCE calls RESTART");
        session.run(command);
        let calls = session.number("SELECT last_value FROM calls");
        for key in [1, 17, 20_000] {
            same(&mut session, "t", &Question::using("t_skip", format!("counted(k) = {key}")));
        }
        sound(&mut session, "t_skip");
        calls
    };
    for layout in ["map", "filters"] {
        let index = format!("t_skip ON t USING skip (counted(k)) WITH (layout = {layout})");
        let drop = "DROP INDEX IF EXISTS t_skip";
        let plain = calls(drop, &format!("CREATE INDEX {index}"));
        let concurrent = calls(drop, &format!("CREATE INDEX CONCURRENTLY {index}"));
        let again = calls("SELECT", "REINDEX INDEX CONCURRENTLY t_skip");
        assert_eq!([concurrent, again], [plain + 20_000.0; 2], "{layout}");
    }
}

on_shared!(rows_that_come_during_a_build_may_fail_it);
/// They are in blocks behind the watermark, because 2,034 rows fill nine blocks. The index evaluates nothing of them,
/// so the command has to.
fn rows_that_come_during_a_build_may_fail_it(database: &Database) {
    let (mut holder, mut builder, mut writer) = (database.session(), database.session(), database.session());
    holder.run(
        "CREATE FUNCTION inverse(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
             $$ BEGIN
                 IF k = 2034 THEN PERFORM pg_advisory_lock_shared(8); PERFORM pg_advisory_unlock_shared(8); END IF;
                 RETURN 1000000 / k;
             END $$;
         CREATE TABLE t (id int, k int) WITH (autovacuum_enabled = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 2034) i;
         SELECT pg_advisory_lock(8)",
    );
    let error = std::thread::scope(|scope| {
        let command =
            "CREATE INDEX CONCURRENTLY t_skip ON t USING skip (inverse(k)) WITH (pages_per_range = 1)";
        let building = scope.spawn(move || builder.error(command));
        let waits = "SELECT count(*) > 0 FROM pg_locks
                     WHERE locktype = 'advisory' AND objid = 8 AND NOT granted
                         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        wait_until("the build waits", || holder.one(waits) == "t");
        writer.run("INSERT INTO t SELECT 0, 0 FROM generate_series(1, 1000)");
        holder.run("SELECT pg_advisory_unlock(8)");
        building.join().expect("the build")
    });
    assert_eq!(error.code().code(), "22012", "{}", error.message());
}

alone!(filters_of_a_large_table);
/// If no rate is set, a lookup in filters reads eight pages in vain on average, however large the table is.
fn filters_of_a_large_table() {
    let server = Server::start(&["autovacuum=off"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session
        .run("CREATE TABLE t (id int, k int); INSERT INTO t SELECT i, i FROM generate_series(1, 100000) i");
    // New pages without rows, which take no room on the disk.
    let blocks = 120_000;
    let before = lengthened(&server, session, "t", blocks);
    let mut session = server.connect("skip_template");
    session.run("CREATE INDEX t_skip ON t USING skip (k) WITH (layout = filters)");
    let facts =
        "SELECT concat_ws(' ', round((false_positive_rate * 1e9)::numeric), num_probes, pending_options)
        FROM skip_index_info('t_skip')";
    let rate = (8e9 / (before + blocks) as f64).round();
    // 21 bits for each key. Of the default rate they would be 20, and 14 probes.
    assert_eq!(session.one(facts), format!("{rate} 15"));
    for key in [1, 50_000, 100_000, 100_001] {
        same(&mut session, "t", &Question::using("t_skip", format!("k = {key}")));
    }
    sound(&mut session, "t_skip");
    session.run("ALTER INDEX t_skip SET (false_positive_rate = 0.0001)");
    assert_eq!(session.one(facts), format!("{rate} 15 false_positive_rate = 1e-4"));
    session.run("ALTER INDEX t_skip RESET (false_positive_rate)");
    assert_eq!(session.one(facts), format!("{rate} 15"));
    session.run("ALTER INDEX t_skip SET (false_positive_rate = 0.000001)");
    session.run("REINDEX INDEX t_skip");
    assert_eq!(session.one(facts), "1000 20");
    session.run("ALTER INDEX t_skip RESET (false_positive_rate)");
    let pending = session.one("SELECT pending_options FROM skip_index_info('t_skip')");
    assert!(pending.starts_with("false_positive_rate = 6.6"), "{pending}");
    sound(&mut session, "t_skip");
    session.run("DELETE FROM t WHERE id > 10000");
    session.run("VACUUM t");
    session.run("REINDEX INDEX t_skip");
    assert_eq!(session.one(facts), "100000 14");
    sound(&mut session, "t_skip");
}

on_shared!(rates_that_are_taken_back);
/// A rate that was set is pending when it is set no more, however near it is to the default.
fn rates_that_are_taken_back(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (k int); INSERT INTO t SELECT generate_series(1, 5000)");
    for layout in ["map", "filters"] {
        for rate in ["0.01", "0.00007", "0.000001"] {
            session.run(&format!(
                "CREATE INDEX t_skip ON t USING skip (k) WITH (layout = {layout}, false_positive_rate = {rate})"
            ));
            let pending = "SELECT pending_options FROM skip_index_info('t_skip')";
            assert_eq!(session.one(&format!("SELECT ({pending}) IS NULL")), "t", "{layout} {rate}");
            session.run("ALTER INDEX t_skip RESET (false_positive_rate)");
            assert_eq!(session.one(pending), "false_positive_rate = 1e-4", "{layout} {rate}");
            session.run("REINDEX INDEX t_skip");
            assert_eq!(session.one(&format!("SELECT ({pending}) IS NULL")), "t", "{layout} {rate}");
            session.run("DROP INDEX t_skip");
        }
    }
}

alone!(wide_filters_that_leave_pages_partly_empty);
/// So many ranges that three slices fill less than four fifths of a page: they are one segment all the same. Rows are
/// in its first and its last ranges; it is merged with what comes behind it, rebuilt, and cut short.
fn wide_filters_that_leave_pages_partly_empty() {
    let server = Server::start(&["autovacuum=off"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session.run("CREATE TABLE t (id int, k int) WITH (fillfactor = 80)");
    session.run("INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i");
    lengthened(&server, session, "t", 17_000);
    let mut session = server.connect("skip_template");
    session.run("INSERT INTO t SELECT i, i FROM generate_series(20001, 40000) i");
    session.run("CREATE INDEX t_skip ON t USING skip (k) WITH (layout = filters, pages_per_range = 1)");
    let widest = "SELECT max(width) FROM skip_index_segments('t_skip')";
    let width = session.number(widest);
    assert!((16_500.0..18_500.0).contains(&width), "{width} ranges");
    let check = |session: &mut Session, when: &str| {
        for key in [1, 10_000, 19_999, 20_001, 39_999, 40_000, 41_000, 45_000, 100_777, -5] {
            let question = Question::using("t_skip", format!("k = {key}"));
            if let Some(problem) = difference(session, "t", &question) {
                panic!("{when}: {problem}");
            }
        }
        sound(session, "t_skip");
    };
    check(&mut session, "built");
    for step in [
        "UPDATE t SET k = k + 100000 WHERE id % 7 = 0",
        "SELECT skip_summarize('t_skip')",
        "INSERT INTO t SELECT i, i FROM generate_series(40001, 50000) i",
        "VACUUM t",
        "UPDATE t SET k = -k",
        "VACUUM t",
        "UPDATE t SET k = -k",
        "VACUUM t",
        "DELETE FROM t WHERE id > 45000",
        "VACUUM t",
    ] {
        session.run(step);
        check(&mut session, step);
    }
    assert!(session.number(widest) > 16_304.0, "the widest segment has {} ranges", session.number(widest));
    server.finish();
}
