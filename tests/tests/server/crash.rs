//! Servers killed at random moments under load: after recovery all that was committed is found by the index, and the
//! index is sound.
use crate::registry::alone;
use crate::shared::{self, together};
use fastrand::Rng;
use pg_skip_tests::compare::{Question, difference, same, sound};
use pg_skip_tests::seed;
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

alone!(killed_under_load);
fn killed_under_load() {
    under_load(&["full_page_writes=on", "checkpoint_timeout=30s", "max_wal_size=64MB"], &[true, false, true]);
}

alone!(killed_under_load_without_full_pages);
fn killed_under_load_without_full_pages() {
    under_load(&["full_page_writes=off", "wal_level=replica", "max_wal_size=64MB"], &[false, false]);
}

/// Rounds of load, each ended by SIGKILL (true) or an immediate stop.
fn under_load(settings: &[&str], rounds: &[bool]) {
    let server = Server::start(settings);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session.run(
        "CREATE TABLE t (id bigint, k bigint, filler text DEFAULT repeat('x', 300)) WITH (fillfactor = 80);
         CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1, delta_limit = 64);
         CREATE UNLOGGED TABLE u (id bigint, k bigint);
         CREATE INDEX u_skip ON u USING skip (k) WITH (pages_per_range = 1)",
    );
    drop(session);
    let committed = Mutex::new(Vec::new());
    let next = AtomicU64::new(1);
    let mut rng = Rng::with_seed(seed());
    for (round, kill) in rounds.iter().enumerate() {
        let pause = Duration::from_millis(rng.u64(600..1600));
        let load = |number: u64| load(&server, number, &next, &committed);
        together(vec![
            Box::new(|| load(0)),
            Box::new(|| load(1)),
            Box::new(|| maintain(&server)),
            Box::new(|| {
                std::thread::sleep(pause);
                if *kill { server.kill() } else { server.stop_immediately() }
            }),
        ]);
        server.restart();
        let committed = committed.lock().expect("no writer panicked");
        recovered(&server, &committed, &format!("round {round}, seed {}", seed()));
    }
    server.finish();
}

/// Runs a statement. Returns false if the server is gone. A deadlock between updates is no failure, any other error is.
fn is_done(session: &mut Session, sql: &str) -> bool {
    let Err(error) = session.try_rows(sql) else { return true };
    match error.code().map(|code| code.code()) {
        None | Some("57P01" | "57P02" | "57P03") => false,
        Some("40P01") if sql.starts_with("UPDATE") => true,
        Some(_) => panic!("{sql}: {error:?}"),
    }
}

/// Inserts until the server is gone, noting each committed key.
fn load(server: &Server, number: u64, next: &AtomicU64, committed: &Mutex<Vec<u64>>) {
    let Ok(mut session) = server.try_connect("skip_template") else { return };
    let mut rng = Rng::with_seed(seed() + number);
    loop {
        let (count, old) = (rng.u64(1..40), rng.u64(..2000));
        let first = next.fetch_add(count, Ordering::Relaxed);
        let last = first + count - 1;
        let sql = format!("INSERT INTO t (id, k) SELECT i, i FROM generate_series({first}, {last}) i");
        if !is_done(&mut session, &sql) {
            return;
        }
        committed.lock().expect("no writer panicked").extend(first..=last);
        // Updates that move rows among old ranges, so that the delta has something to hold; the key stays.
        let update =
            format!("UPDATE t SET filler = repeat('y', {}) WHERE id % 997 = {}", rng.u32(1..900), old % 997);
        let more = [update, format!("INSERT INTO u SELECT {first}, {first}")];
        if !more.iter().all(|sql| is_done(&mut session, sql)) {
            return;
        }
    }
}

fn maintain(server: &Server) {
    let Ok(mut session) = server.try_connect("skip_template") else { return };
    for sql in
        ["SELECT skip_summarize('t_skip')", "VACUUM t", "SELECT skip_summarize('t_skip')", "CHECKPOINT"]
            .iter()
            .cycle()
    {
        if !is_done(&mut session, sql) {
            return;
        }
        std::thread::sleep(Duration::from_millis(15));
    }
}

fn recovered(server: &Server, committed: &[u64], when: &str) {
    assert!(!committed.is_empty(), "{when}: nothing was committed");
    let mut session = server.connect("skip_template");
    session.run("SET enable_seqscan = off");
    for chunk in committed.chunks(400) {
        let keys: Vec<_> = chunk.iter().map(u64::to_string).collect();
        let sql = format!("SELECT count(DISTINCT k) FROM t WHERE k = ANY ('{{{}}}')", keys.join(","));
        let found = session.number(&sql) as usize;
        assert_eq!(found, chunk.len(), "{when}: committed keys in {}..={}", chunk[0], chunk[chunk.len() - 1]);
    }
    sound(&mut session, "t_skip");
    sound(&mut session, "u_skip");
    assert_eq!(session.one("SELECT count(*) FROM u"), "0", "{when}: an unlogged table is emptied");
    for step in ["INSERT INTO u VALUES (1, 1)", "SELECT skip_summarize('t_skip')", "VACUUM t", "VACUUM u"] {
        session.run(step);
        for key in committed.iter().step_by(committed.len() / 20 + 1) {
            if let Some(problem) =
                difference(&mut session, "t", &Question::using("t_skip", format!("k = {key}")))
            {
                panic!("{when}, after {step}: {problem}");
            }
        }
        same(&mut session, "u", &Question::using("u_skip", "k = 1"));
    }
    let open = session.number("SELECT max(ranges - summarized) FROM skip_index_info('t_skip')");
    assert!(open <= 1.0, "{when}: {open} ranges stay without a filter after maintenance");
    sound(&mut session, "t_skip");
    println!("{when}: {} keys", committed.len());
}

alone!(minimal_wal);
/// With `wal_level = minimal` what is made in a transaction is not logged but synced: table, rows and index together,
/// in every order, also after TRUNCATE.
fn minimal_wal() {
    for threshold in ["wal_skip_threshold=0", "wal_skip_threshold=1GB"] {
        let server = Server::start(&["wal_level=minimal", "max_wal_senders=0", threshold, "fsync=on"]);
        shared::prepare(&server);
        let mut session = server.connect("skip_template");
        let rows = |table: &str| format!("INSERT INTO {table} SELECT i, i FROM generate_series(1, 5000) i");
        let index = |table: &str| {
            format!("CREATE INDEX {table}_skip ON {table} USING skip (k) WITH (pages_per_range = 1)")
        };
        session.run("CREATE TABLE late (id int, k int); CREATE TABLE emptied (id int, k int)");
        session.run(&rows("emptied"));
        session.run(&index("emptied"));
        session.run("CHECKPOINT");
        let copied = |session: &mut Session, table: &str| {
            let lines: String = (1..=5000).map(|i| format!("{i}\t{i}\n")).collect();
            session.copy(&format!("COPY {table} FROM STDIN"), &mut lines.as_bytes());
        };
        session.run("BEGIN; CREATE TABLE first (id int, k int)");
        copied(&mut session, "first");
        session.run(&index("first"));
        session.run("COMMIT");
        session.run("BEGIN; CREATE TABLE before (id int, k int)");
        session.run(&index("before"));
        copied(&mut session, "before");
        session.run("SELECT skip_summarize('before_skip')");
        session.run(&rows("before"));
        session.run("COMMIT");
        session.run("BEGIN; TRUNCATE emptied");
        copied(&mut session, "emptied");
        session.run("SAVEPOINT s; TRUNCATE emptied");
        session.run(&rows("emptied"));
        session.run("ROLLBACK TO s");
        session.run("COMMIT");
        session.run(&rows("late"));
        session.run(&format!("BEGIN; {}; INSERT INTO late VALUES (6000, 6000); COMMIT", index("late")));
        session.run("BEGIN; CREATE TABLE gone (id int, k int)");
        session.run(&index("gone"));
        session.run(&rows("gone"));
        drop(session); // the transaction is rolled back with its session
        server.stop_immediately();
        server.restart();
        let mut session = server.connect("skip_template");
        for table in ["first", "before", "emptied", "late"] {
            let skip = format!("{table}_skip");
            let count = session.number(&format!("SELECT count(*) FROM {table}"));
            assert!(count >= 5000.0, "{table} has {count} rows");
            for step in ["SELECT 1".to_owned(), rows(table), format!("SELECT skip_summarize('{skip}')")] {
                session.run(&step);
                for key in [1, 2500, 5000, 6000, 7000] {
                    same(&mut session, table, &Question::using(&skip, format!("k = {key}")));
                }
                sound(&mut session, &skip);
            }
        }
        drop(session);
        server.finish();
    }
}

alone!(one_backend_killed);
/// One backend killed makes all others go and memory be rebuilt, without the operating system's help.
fn one_backend_killed() {
    let server = Server::start(&[]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session.run(
        "CREATE TABLE t (id int, k int); CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1)",
    );
    session.run("INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i");
    session.run("SELECT skip_summarize('t_skip')");
    session.run("BEGIN; UPDATE t SET k = k + 1 WHERE id % 50 = 0");
    let pid = session.one("SELECT pg_backend_pid()").parse().expect("a process");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).expect("kill");
    // The postmaster notices, and no session can be had until it has recovered.
    std::thread::sleep(Duration::from_millis(300));
    let mut session = server.connect("skip_template");
    for key in [1, 50, 51, 20000, 20001] {
        same(&mut session, "t", &Question::using("t_skip", format!("k = {key}")));
    }
    sound(&mut session, "t_skip");
    drop(session);
    server.finish();
}

alone!(unlogged_index_after_a_crash);
/// The init fork must be in the log itself: no checkpoint has written it when the server dies.
fn unlogged_index_after_a_crash() {
    let server = Server::start(&["checkpoint_timeout=1h"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session.run("CHECKPOINT");
    session.run("CREATE UNLOGGED TABLE t (id int, a int, filler text DEFAULT repeat('x', 500))");
    session.run("CREATE INDEX t_skip ON t USING skip (a) WITH (pages_per_range = 1)");
    let rows = "INSERT INTO t (id, a) SELECT i, i FROM generate_series(1, 100) i";
    session.run(rows);
    session.run("CREATE UNLOGGED TABLE u (id int, a int)");
    session.run("INSERT INTO u SELECT i, i FROM generate_series(1, 10000) i");
    session.run("CREATE INDEX u_skip ON u USING skip (a) WITH (pages_per_range = 1)");
    drop(session);
    server.stop_immediately();
    server.restart();
    let mut session = server.connect("skip_template");
    assert_eq!(session.one("SELECT count(*) FROM t"), "0", "an unlogged table is empty after a crash");
    same(&mut session, "t", &Question::using("t_skip", "a = 1"));
    session.run(rows);
    session.run("INSERT INTO u SELECT i, i FROM generate_series(1, 10000) i");
    for step in ["SELECT 1", "SELECT skip_summarize('t_skip')", "VACUUM", "REINDEX TABLE t"] {
        session.run(step);
        for value in [1, 50, 100, 101] {
            same(&mut session, "t", &Question::using("t_skip", format!("a = {value}")));
            same(&mut session, "u", &Question::using("u_skip", format!("a = {value}")));
        }
    }
    sound(&mut session, "t_skip");
    sound(&mut session, "u_skip");
    drop(session);
    server.finish();
}
