//! The pin of the meta page that a statement's inserts keep: it is given back however the statement ends, and what is
//! read by it is never out of date. The server's log tells of pins that are left (see `Server::trouble`).
use crate::registry::{alone, on_shared};
use crate::shared::{self, Database, wait_until};
use libtest_mimic::Completion;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server::Server;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TABLES: &str = "
    CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, filler text DEFAULT repeat('x', 270));
    CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1);
    CREATE TABLE log (id int GENERATED ALWAYS AS IDENTITY, k int);
    CREATE INDEX log_skip ON log USING skip (k) WITH (pages_per_range = 1);
    CREATE TABLE parts (id int, k int) PARTITION BY LIST (k);
    CREATE INDEX parts_skip ON parts USING skip (id);
    CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO log (k) SELECT NEW.k + i FROM generate_series(0, 2) i;
        BEGIN
            INSERT INTO log (k) SELECT 7 / (5 - i) FROM generate_series(1, 9) i;
        EXCEPTION WHEN division_by_zero THEN NULL;
        END;
        RETURN NEW;
    END $$;
    CREATE FUNCTION inserted(first int) RETURNS int LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO log (k) SELECT i FROM generate_series(first, first + 3) i;
        RETURN first;
    END $$";

/// Statements that insert several rows into indexed tables, and end in all ways.
const STATEMENTS: [(&str, bool); 14] = [
    ("INSERT INTO t (k) SELECT i FROM generate_series(1, 500) i", true),
    ("INSERT INTO t (k) SELECT 7 / (400 - i) FROM generate_series(1, 500) i", false),
    ("BEGIN; SAVEPOINT s; INSERT INTO t (k) SELECT i FROM generate_series(1, 50) i; RELEASE s; COMMIT", true),
    (
        "BEGIN; SAVEPOINT s; INSERT INTO t (k) SELECT i FROM generate_series(1, 50) i; ROLLBACK TO s; COMMIT",
        true,
    ),
    ("BEGIN; INSERT INTO t (k) SELECT i FROM generate_series(1, 50) i; ROLLBACK", true),
    // Other statements insert in between, in subtransactions too.
    ("INSERT INTO t (k) SELECT inserted(i) FROM generate_series(1, 50) i", true),
    ("CREATE TRIGGER noted BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION noted()", true),
    ("INSERT INTO t (k) SELECT inserted(i) FROM generate_series(1, 50) i", true),
    ("INSERT INTO t (k) SELECT inserted(7 / (20 - i)) FROM generate_series(1, 50) i", false),
    ("DROP TRIGGER noted ON t", true),
    ("UPDATE t SET k = k + 1000 WHERE k < 100", true),
    // More indexes than pins are kept.
    ("INSERT INTO parts SELECT i, i % 10 FROM generate_series(1, 2000) i", true),
    ("INSERT INTO parts SELECT 7 / (1500 - i), i % 10 FROM generate_series(1, 2000) i", false),
    // Both insert into an index without an executor.
    ("CREATE INDEX CONCURRENTLY t_second ON t USING skip (k, id); REINDEX INDEX CONCURRENTLY t_skip", true),
];

on_shared!(are_given_back_however_a_statement_ends);
fn are_given_back_however_a_statement_ends(database: &Database) {
    let mut session = database.session();
    session.run(TABLES);
    for part in 0..10 {
        session.run(&format!("CREATE TABLE part_{part} PARTITION OF parts FOR VALUES IN ({part})"));
    }
    session
        .run("INSERT INTO t (k) SELECT -i FROM generate_series(1, 200) i; SELECT skip_summarize('t_skip')");
    for (statements, succeeds) in STATEMENTS {
        for statement in statements.split("; ") {
            if succeeds { session.run(statement) } else { drop(session.error(statement)) }
        }
    }
    let rows: String = (0..400).map(|k| format!("{k}\n")).collect();
    session.copy("COPY t (k) FROM STDIN", &mut rows.as_bytes());
    // The portal of COPY ends before its transaction does.
    session.run("BEGIN");
    session.copy("COPY t (k) FROM STDIN", &mut rows.as_bytes());
    session.run("SAVEPOINT s");
    session.copy("COPY t (k) FROM STDIN", &mut rows.as_bytes());
    session.run("ROLLBACK TO s; SAVEPOINT s");
    session.copy("COPY t (k) FROM STDIN", &mut rows.as_bytes());
    session.run("RELEASE s; SELECT 1; COMMIT");
    let bad = format!("{rows}no number\n");
    let mut writer = session.0.copy_in("COPY t (k) FROM STDIN").expect("COPY");
    std::io::copy(&mut bad.as_bytes(), &mut writer).expect("rows");
    assert!(writer.finish().is_err(), "a row is malformed");
    for index in ["t_skip", "log_skip", "t_second", "parts_skip"] {
        sound(&mut session, index);
    }
    for key in [1, 49, 399, 500, 1042] {
        same(&mut session, "t", &Question::any(format!("k = {key}")));
        same(&mut session, "log", &Question::any(format!("k = {key}")));
        same(&mut session, "parts", &Question::any(format!("id = {key}")));
    }
}

on_shared!(are_given_back_by_portals);
/// A portal of INSERT … RETURNING that is fetched in parts, closed before its end, or left to the transaction's end.
fn are_given_back_by_portals(database: &Database) {
    let mut session = database.session();
    session.run(TABLES);
    for (fetched, commits) in [(10, true), (10, false), (1000, true)] {
        let mut transaction = session.0.transaction().expect("a transaction");
        let statement = "INSERT INTO t (k) SELECT i FROM generate_series(1, 100) i RETURNING k";
        let portal = transaction.bind(statement, &[]).expect("a portal");
        let rows = transaction.query_portal(&portal, fetched).expect("rows");
        assert_eq!(rows.len(), fetched.min(100) as usize);
        if commits { transaction.commit() } else { transaction.rollback() }.expect("the end");
    }
    session.run("BEGIN; INSERT INTO t (k) SELECT 1 FROM generate_series(1, 10); COMMIT");
    same(&mut session, "t", &Question::any("k = 100"));
    sound(&mut session, "t_skip");
}

on_shared!(do_not_stop_truncate);
/// A function's COPY keeps its memory until the query ends that calls the function. The pin stayed as long; TRUNCATE of
/// a table whose file was created in the same transaction then ended in a panic of the server.
fn do_not_stop_truncate(database: &Database) {
    let mut session = database.session();
    let directory = session.one("SHOW data_directory");
    let file = format!("{directory}/{}.rows", session.one("SELECT current_database()"));
    session.run(&format!("COPY (SELECT i, i FROM generate_series(1, 100) i) TO '{file}'"));
    session.run("SET allow_in_place_tablespaces = on");
    session.run("CREATE TABLESPACE meta_pins LOCATION ''");
    for (kind, options) in
        [("TABLE", ""), ("UNLOGGED TABLE", ""), ("TEMP TABLE", ""), ("TEMP TABLE", "ON COMMIT DELETE ROWS")]
    {
        session.run(&format!(
            "CREATE {kind} staged (id int, k int) {options};
             CREATE INDEX staged_skip ON staged USING skip (k) WITH (pages_per_range = 1);
             CREATE FUNCTION load() RETURNS void LANGUAGE sql AS
                 $$ TRUNCATE staged; COPY staged FROM '{file}'; TRUNCATE staged; COPY staged FROM '{file}' $$;
             CREATE FUNCTION move_and_load() RETURNS void LANGUAGE sql AS
                 $$ COPY staged FROM '{file}'; ALTER TABLE staged SET TABLESPACE meta_pins;
                    COPY staged FROM '{file}'; TRUNCATE staged; COPY staged FROM '{file}' $$"
        ));
        session.run("SELECT load()");
        session.run("BEGIN; SELECT load(); SAVEPOINT s; SELECT load(); ROLLBACK TO s; SELECT load(); COMMIT");
        session.run("BEGIN; SELECT move_and_load(); ROLLBACK");
        session.run("SELECT move_and_load()");
        let rows = if options.is_empty() { "100" } else { "0" };
        assert_eq!(session.one("SELECT count(*) FROM staged"), rows, "{kind} {options}");
        session.run("BEGIN; SELECT load()");
        same(&mut session, "staged", &Question::using("staged_skip", "k = 77"));
        session.run("COMMIT");
        sound(&mut session, "staged_skip");
        session.run("DROP FUNCTION load, move_and_load; DROP TABLE staged");
    }
    session.run("DROP TABLESPACE meta_pins");
    std::fs::remove_file(file).expect("the file of rows");
}

on_shared!(show_what_other_sessions_have_summarized);
/// A statement stops between two rows. Meanwhile another session summarizes the block that it fills. The rows after
/// that need entries in the delta.
fn show_what_other_sessions_have_summarized(database: &Database) {
    let (mut session, mut holder) = (database.session(), database.session());
    session.run(
        "CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 100)) WITH (autovacuum_enabled = off);
         ALTER TABLE t ALTER filler SET STORAGE PLAIN;
         CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1, autosummarize = off);
         CREATE FUNCTION waited(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
         BEGIN
             IF i = 12 THEN PERFORM pg_advisory_lock_shared(7); PERFORM pg_advisory_unlock_shared(7); END IF;
             RETURN i;
         END $$",
    );
    holder.run("SELECT pg_advisory_lock(7)");
    std::thread::scope(|scope| {
        let mut inserting = database.session();
        let running = scope.spawn(move || {
            inserting.run("INSERT INTO t SELECT i, waited(i) FROM generate_series(10, 30) i");
        });
        let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        wait_until("the insert waits", || holder.column(waits) == ["1"]);
        // Rows too large for the first block, which keeps its room.
        holder.run("INSERT INTO t SELECT i, i, repeat('x', 7900) FROM generate_series(100, 110) i");
        holder.run("SELECT skip_summarize('t_skip')");
        let summarized = holder.number("SELECT summarized FROM skip_index_info('t_skip')");
        assert!(summarized > 1.0, "{summarized} ranges are summarized");
        holder.run("SELECT pg_advisory_unlock(7)");
        running.join().expect("the insert");
    });
    let entries = session.number("SELECT delta_entries FROM skip_index_info('t_skip')");
    assert!(entries >= 10.0, "{entries} entries in the delta");
    for key in 10..=30 {
        same(&mut session, "t", &Question::using("t_skip", format!("k = {key}")));
    }
    sound(&mut session, "t_skip");
}

alone!(are_given_back_by_prepare_transaction);
fn are_given_back_by_prepare_transaction() {
    let server = Server::start(&["max_prepared_transactions=2"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session.run(TABLES);
    session.run("BEGIN; INSERT INTO t (k) SELECT i FROM generate_series(1, 300) i; PREPARE TRANSACTION 'p'");
    session.run("COMMIT PREPARED 'p'");
    same(&mut session, "t", &Question::any("k = 300"));
    sound(&mut session, "t_skip");
    drop(session);
    server.finish();
}

alone!(are_given_back_by_logical_replication);
/// The worker that applies changes inserts with executor states of its own.
fn are_given_back_by_logical_replication() {
    let server = Server::start(&["wal_level=logical"]);
    shared::prepare(&server);
    let mut publisher = server.connect("postgres");
    let mut subscriber = server.connect("skip_template");
    publisher.run("CREATE TABLE t (id int PRIMARY KEY, k int); CREATE PUBLICATION p FOR TABLE t");
    subscriber.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int);
         CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1)",
    );
    publisher.run("SELECT pg_create_logical_replication_slot('s', 'pgoutput')");
    let sockets = subscriber.one("SHOW unix_socket_directories");
    subscriber.run(&format!(
        "CREATE SUBSCRIPTION s CONNECTION 'host={sockets} port=5432 user=postgres dbname=postgres'
         PUBLICATION p WITH (create_slot = false, slot_name = 's')"
    ));
    publisher.run("INSERT INTO t SELECT i, i FROM generate_series(1, 2000) i");
    publisher.run("UPDATE t SET k = k + 5000 WHERE id <= 500");
    publisher.run("BEGIN; SAVEPOINT s; INSERT INTO t SELECT i, i FROM generate_series(3001, 3100) i; COMMIT");
    wait_until("the changes are applied", || {
        subscriber.one("SELECT count(*) || ' ' || max(k) FROM t") == "2100 5500"
    });
    for key in [500, 501, 5001, 3100] {
        same(&mut subscriber, "t", &Question::any(format!("k = {key}")));
    }
    sound(&mut subscriber, "t_skip");
    subscriber.run("ALTER SUBSCRIPTION s DISABLE");
    subscriber.run("ALTER SUBSCRIPTION s SET (slot_name = NONE)");
    subscriber.run("DROP SUBSCRIPTION s");
    drop((publisher, subscriber));
    server.finish();
}

on_shared!(do_not_stop_a_move_of_the_index);
/// ALTER INDEX … SET TABLESPACE locks the index only, which another session's COPY has closed: a pin that is left makes
/// it wait, in a loop that nothing cancels, until the portal of COPY is closed.
fn do_not_stop_a_move_of_the_index(database: &Database) -> Completion {
    let mut session = database.session();
    if session.number("SHOW server_version_num") < 170_000.0 {
        return Completion::ignored_with("access methods are not told when the server closes an index");
    }
    let file = format!("{}/{}.moved", session.one("SHOW data_directory"), database.name);
    session.run(&format!("COPY (SELECT i, i FROM generate_series(1, 100) i) TO '{file}'"));
    session.run("SET allow_in_place_tablespaces = on");
    session.run("CREATE TABLESPACE moved_index LOCATION ''");
    session.run(
        "CREATE TABLE staged (id int, k int);
         CREATE INDEX staged_skip ON staged USING skip (k) WITH (pages_per_range = 1);
         INSERT INTO staged SELECT i, i FROM generate_series(1, 2000) i;
         SELECT skip_summarize('staged_skip')",
    );
    let mut other = database.session();
    let is_moved = AtomicBool::new(false);
    let copy = || {
        let mut transaction = other.0.transaction().expect("a transaction");
        // Without parameters too, this is a portal of its own, which stays until the transaction ends.
        transaction.execute(&format!("COPY staged FROM '{file}'"), &[]).expect("COPY");
        let until = Instant::now() + Duration::from_secs(20);
        while !is_moved.load(Ordering::Relaxed) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let in_time = is_moved.load(Ordering::Relaxed);
        transaction.commit().expect("the end");
        assert!(in_time, "the index could not be moved while the transaction was open");
    };
    let moves = || {
        let idle = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND state = 'idle in transaction' AND query LIKE 'COPY%'";
        wait_until("the rows are copied", || session.number(idle) == 1.0);
        session.run("ALTER INDEX staged_skip SET TABLESPACE moved_index");
        is_moved.store(true, Ordering::Relaxed);
    };
    shared::together(vec![Box::new(copy), Box::new(moves)]);
    session.run("INSERT INTO staged SELECT i, i FROM generate_series(3000, 3100) i");
    same(&mut session, "staged", &Question::using("staged_skip", "k = 3077"));
    sound(&mut session, "staged_skip");
    session.run("DROP TABLE staged");
    session.run("DROP TABLESPACE moved_index");
    Completion::Completed
}
