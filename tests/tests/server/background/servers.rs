//! Background workers on servers of their own: limits on their number, workers that fail, databases that are dropped or
//! copied, crashes, prepared transactions and unlogged tables.
use super::{MOST_TAIL, insert, is_right, table, tail, workers};
use crate::registry::alone;
use crate::shared::{self, wait_until};
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;
use std::time::{Duration, Instant};

alone!(inserts_do_the_work_of_a_worker_that_fails);
fn inserts_do_the_work_of_a_worker_that_fails() {
    let server = Server::start(&[]);
    shared::prepare(&server);
    let (mut session, mut postgres) = (server.connect("skip_template"), server.connect("postgres"));
    table(&mut session);
    postgres.run("ALTER DATABASE skip_template ALLOW_CONNECTIONS false");
    // After the first worker had a second to begin.
    let mut first = 0;
    wait_until("the inserts summarize", || {
        session.run(&insert(first, 1000));
        first += 1000;
        tail(&mut session) <= MOST_TAIL && first > 20_000
    });
    is_right(&mut session, &[0, 19_999, first - 1, first]);
    drop((session, postgres));
    server.finish();
}

alone!(a_server_without_room_for_a_worker);
fn a_server_without_room_for_a_worker() {
    let server = Server::start(&["max_worker_processes=0", "max_logical_replication_workers=0"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    table(&mut session);
    session.run(&insert(0, 40_000));
    assert!(tail(&mut session) <= MOST_TAIL, "the insert has summarized");
    is_right(&mut session, &[0, 39_999]);
    drop(session);
    server.finish();
}

alone!(no_more_workers_than_the_setting_says);
fn no_more_workers_than_the_setting_says() {
    let server = Server::start(&[]);
    shared::prepare(&server);
    server.connect("postgres").run("CREATE DATABASE d TEMPLATE skip_template");
    let mut sessions = ["skip_template", "d"].map(|database| server.connect(database));
    sessions.iter_mut().for_each(table);
    // Each has the lock of a place, which is no database's.
    let places = "SELECT count(*) FROM pg_locks
        WHERE locktype = 'advisory' AND database = 0 AND objsubid = 29547 AND mode = 'ExclusiveLock'";
    let mut first = 0;
    for most in [0, 2, 1] {
        let session = &mut sessions[0];
        wait_until("the workers have ended", || session.number(places) == 0.0);
        session.run(&format!("ALTER SYSTEM SET pg_skip.max_workers = {most}"));
        session.run("SELECT pg_reload_conf()");
        for session in &mut sessions {
            wait_until("it is set", || session.number("SHOW pg_skip.max_workers") == f64::from(most));
        }
        let mut running = 0.0f64;
        let until = Instant::now() + Duration::from_secs(2);
        wait_until("all is summarized", || {
            sessions.iter_mut().for_each(|session| session.run(&insert(first, 4000)));
            first += 4000;
            running = running.max(sessions[0].number(places));
            // The first inserts that find no place still expect the worker that they have started.
            sessions.iter_mut().all(|session| tail(session) <= MOST_TAIL) && Instant::now() > until
        });
        assert_eq!(running, f64::from(most));
        sessions.iter_mut().for_each(|session| is_right(session, &[0, first - 4000, first - 1]));
    }
    drop(sessions);
    server.finish();
}

alone!(databases_with_workers);
/// Databases with a worker are dropped and copied, and the server stops and starts.
fn databases_with_workers() {
    let server = Server::start(&["max_worker_processes=3"]);
    shared::prepare(&server);
    let mut postgres = server.connect("postgres");
    for force in ["", "WITH (FORCE)"] {
        postgres.run("CREATE DATABASE d TEMPLATE skip_template");
        let mut session = server.connect("d");
        table(&mut session);
        session.run(&insert(0, 40_000));
        drop(session);
        postgres.run(&format!("DROP DATABASE d {force}"));
    }
    let mut session = server.connect("skip_template");
    table(&mut session);
    session.run(&insert(0, 40_000));
    drop(session);
    postgres.run("CREATE DATABASE d TEMPLATE skip_template");
    let mut session = server.connect("d");
    is_right(&mut session, &[0, 39_999]);
    session.run(&insert(40_000, 60_000));
    drop((session, postgres));
    server.stop();
    server.restart();
    let mut session = server.connect("d");
    is_right(&mut session, &[0, 39_999, 40_000, 99_999]);
    drop(session);
    server.finish();
}

alone!(a_busy_worker_is_not_in_the_way_of_its_database);
/// A database can be copied and dropped, which waits for 5 seconds for a process that is connected to it, although its
/// worker has more to do. Each value has eight times as many keys as characters.
fn a_busy_worker_is_not_in_the_way_of_its_database() {
    let server = Server::start(&[]);
    shared::prepare(&server);
    let mut postgres = server.connect("postgres");
    postgres.run("CREATE DATABASE d TEMPLATE skip_template");
    let mut session = server.connect("d");
    let rows = |first: u32, rows: u32| {
        format!(
            "INSERT INTO t SELECT i, (SELECT string_agg(md5(i + j * 1e6), '') FROM generate_series(1, 12) j)
             FROM generate_series({first}, {}) i",
            first + rows - 1
        )
    };
    let columns = ["v text_ngram_skip_ops"; 8].join(", ");
    session.run(&format!(
        "CREATE FUNCTION md5(numeric) RETURNS text LANGUAGE sql AS 'SELECT md5($1::text)';
         CREATE TABLE t (id int, v text);
         CREATE INDEX t_skip ON t USING skip ({columns}) WITH (autosummarize = off);
         {};
         ALTER INDEX t_skip RESET (autosummarize)",
        rows(0, 150_000)
    ));
    for (first, statement) in [(150_000, "CREATE DATABASE e TEMPLATE d"), (155_000, "DROP DATABASE d")] {
        session.run(&rows(first, 5_000));
        wait_until("there is a worker", || workers(&mut session) == 1.0);
        drop(session);
        postgres.run(statement);
        session = server.connect("e");
        assert!(tail(&mut session) > 0.0, "the worker had no more to do");
        if first == 150_000 {
            let fragment = session.one("SELECT substr(v, 3, 20) FROM t WHERE id = 154999");
            same(&mut session, "t", &Question::any(format!("v LIKE '%{fragment}%'")));
            drop(session);
            session = server.connect("d");
        }
    }
    drop((session, postgres));
    server.finish();
}

alone!(crashes_while_a_worker_works);
fn crashes_while_a_worker_works() {
    let server = Server::start(&["wal_level=replica"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    table(&mut session);
    drop(session);
    for round in 0..6 {
        let mut session = server.connect("skip_template");
        let first = round * 100_000;
        session.run(&insert(first, 30_000));
        session.run("UPDATE t SET v = v WHERE id % 50 = 0");
        // Between nothing and all of what the worker does.
        std::thread::sleep(Duration::from_millis(u64::from(round) * 20));
        drop(session);
        server.kill();
        server.restart();
        let mut session = server.connect("skip_template");
        is_right(&mut session, &[0, first, first + 15_000, first + 29_999]);
        drop(session);
    }
    let mut session = server.connect("skip_template");
    session.run(&insert(900_000, 10_000));
    wait_until("all is summarized", || tail(&mut session) <= MOST_TAIL);
    is_right(&mut session, &[0, 529_999, 900_000, 909_999]);
    drop(session);
    server.finish();
}

alone!(prepared_and_unlogged);
/// Values out of line of a prepared transaction stay open until it ends, also over a crash. Unlogged tables are empty
/// after it.
fn prepared_and_unlogged() {
    let server = Server::start(&["max_prepared_transactions=2"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    table(&mut session);
    session.run("ALTER TABLE t ALTER v SET STORAGE EXTERNAL");
    let long = |first| insert(first, 10_000).replace("'v' || i", "repeat('v' || i, 500)");
    let right = |session: &mut Session| {
        for key in [0, 9_999, 10_000, 19_999] {
            same(session, "t", &Question::any(format!("v = repeat('v{key}', 500)")));
            same(session, "t", &Question::any(format!("k = {key}")));
        }
        sound(session, "t_skip");
    };
    session.run(&format!("BEGIN; {}; PREPARE TRANSACTION 'kept'", long(0)));
    session.run(&format!("BEGIN; {}; PREPARE TRANSACTION 'undone'", long(10_000)));
    wait_until("the worker has ended", || workers(&mut session) == 0.0);
    right(&mut session);
    drop(session);
    server.kill();
    server.restart();
    let mut session = server.connect("skip_template");
    session.run("COMMIT PREPARED 'kept'");
    session.run("ROLLBACK PREPARED 'undone'");
    right(&mut session);
    assert_eq!(session.number("SELECT count(*) FROM t WHERE k = 9999"), 1.0);
    session.run(&insert(50_000, 5_000));
    wait_until("the worker has ended", || workers(&mut session) == 0.0);
    right(&mut session);
    session.run("VACUUM t");
    right(&mut session);

    session.run("TRUNCATE t; ALTER TABLE t SET UNLOGGED");
    session.run(&insert(0, 20_000));
    drop(session);
    server.kill();
    server.restart();
    let mut session = server.connect("skip_template");
    assert_eq!(session.one("SELECT count(*) FROM t"), "0");
    session.run(&insert(0, 20_000));
    wait_until("all is summarized", || tail(&mut session) <= MOST_TAIL);
    is_right(&mut session, &[0, 19_999]);
    drop(session);
    server.finish();
}
