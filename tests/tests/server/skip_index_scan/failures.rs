//! What goes wrong in a Skip Index Scan goes wrong as in any scan: errors of the query's own expressions, cancelled and
//! terminated statements. Nothing is left behind; the server would warn of pins and locks that are.
use super::blocked::outcome;
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Way, skips};
use pg_skip_tests::session::{Row, Session};
use std::time::{Duration, Instant};

const TABLE: &str = "
    CREATE TABLE t (id int, k int, v text, filler text DEFAULT repeat('x', 300));
    INSERT INTO t SELECT i, i % 90, i FROM generate_series(1, 6000) i;
    CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 1)";

on_shared!(errors_in_keys);
fn errors_in_keys(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    session.run(
        "PREPARE divided(int) AS SELECT id FROM t WHERE k = 100 / $1;
         PREPARE parsed(text) AS SELECT id FROM t WHERE k = $1::int;
         PREPARE listed(int[]) AS SELECT id FROM t WHERE k = ANY ($1 || 1 / cardinality($1))",
    );
    for (sql, expected) in [
        ("EXECUTE divided(0)", "22012"),
        ("EXECUTE parsed('x')", "22P02"),
        ("EXECUTE listed('{}')", "22012"),
        ("SELECT id FROM t WHERE k = (SELECT 1 / (count(*) - 1) FROM (SELECT 1) q)", "22012"),
        ("SELECT t.id FROM (VALUES (1), (0)) w (x) JOIN t ON t.k = 10 / w.x", "22012"),
        ("SELECT (SELECT count(*) FROM t WHERE k = 10 / w.x) FROM (VALUES (1), (0)) w (x)", "22012"),
        ("SELECT id FROM t WHERE k = current_setting('no.such')::int", "42704"),
        ("UPDATE t SET k = 1 WHERE k = (SELECT 1 / (count(*) - 1) FROM (SELECT 1) q)", "22012"),
        ("SELECT 1 / (k - 7) FROM t WHERE k = 7", "22012"),
        ("SELECT id FROM t WHERE k = 7 AND 1 / (id - id) > 0", "22012"),
    ] {
        for mode in ["force_custom_plan", "force_generic_plan"] {
            for way in [Way::skip_scan(), Way::skip_scan().nested_loop(), Way::plain()] {
                session.run(&format!("BEGIN; {}", way.with("plan_cache_mode", mode).local()));
                assert_eq!(outcome(&mut session, sql), Err(expected.to_owned()), "{sql}, {mode}");
                session.run("ROLLBACK");
            }
        }
    }
    // The same statements with good values, after all that.
    Way::skip_scan().set(&mut session);
    session.run("SET plan_cache_mode = force_generic_plan");
    assert!(skips(&session.plan("EXECUTE divided(2)")));
    assert_eq!(session.rows("EXECUTE divided(2)"), session.rows("SELECT id FROM t WHERE (k = 50) IS TRUE"));
    assert_eq!(session.rows("EXECUTE divided(NULL)"), Vec::<Row>::new());
    assert_eq!(session.rows("EXECUTE listed(NULL)"), Vec::<Row>::new());
}

/// Statements that take their time, as Skip Index Scans.
const SLOW: [&str; 6] = [
    "SELECT count(*) FROM t WHERE k = 7 AND slow(id)",
    "SELECT count(*) FROM t WHERE k IN (SELECT i FROM generate_series(1, 40) i) AND slow(id)",
    "SELECT count(*) FROM (VALUES (7), (8), (9)) w (x) JOIN t ON t.k = w.x AND slow(t.id)",
    "UPDATE t SET v = 'new' WHERE k = 7 AND slow(id)",
    "SELECT id FROM t WHERE k = 7 AND slow(id) FOR UPDATE",
    "WITH c AS MATERIALIZED (SELECT * FROM t WHERE k IN (7, 8, 9)) SELECT count(*) FROM c, t WHERE t.k = c.k
     AND slow(t.id)",
];

fn slow(session: &mut Session) {
    session.run(TABLE);
    session.run(
        "CREATE FUNCTION slow(id int) RETURNS boolean PARALLEL SAFE LANGUAGE plpgsql AS
            'BEGIN IF id % 4 = 0 THEN PERFORM pg_sleep(0.001); END IF; RETURN true; END'",
    );
}

on_shared!(cancelled);
fn cancelled(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    slow(&mut session);
    let expected = session.column("SELECT count(*) FROM t WHERE (k = 7) IS TRUE");
    let mut interrupted = 0;
    for round in 0..48 {
        let way = Way::skip_scan();
        let way = match round / SLOW.len() % 3 {
            0 => way,
            1 => way.nested_loop(),
            _ => way.parallel(),
        };
        way.set(&mut session);
        let sql = SLOW[round % SLOW.len()];
        assert!(skips(&session.plan(sql)), "{}", session.plan(sql));
        session.run(&format!("SET statement_timeout = '{}ms'", 1 + round % 23));
        let ended = outcome(&mut session, sql);
        while session.try_rows("RESET statement_timeout").is_err() {}
        if let Err(code) = ended {
            assert_eq!(code, "57014", "{sql}");
            interrupted += 1;
        }
        let held = "SELECT count(*) FROM pg_locks WHERE relation IN ('t'::regclass, 't_skip'::regclass)";
        assert_eq!(other.one(held), "0", "locks are left by {sql}");
        assert_eq!(session.column("SELECT count(*) FROM t WHERE k = 7"), expected);
        session.run("RESET ALL");
    }
    println!("{interrupted} of 48 statements were cancelled");
    assert!(interrupted >= 10, "only {interrupted} of 48 statements were cancelled");
    // A buffer that is still pinned would stop one of these.
    other.run("SET lock_timeout = '10s'");
    for sql in
        ["VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) t", "REINDEX INDEX t_skip", "VACUUM FULL t", "DROP TABLE t"]
    {
        other.run(sql);
    }
}

on_shared!(terminated);
/// The server goes on when a session is ended in the middle of a scan.
fn terminated(database: &Database) {
    let mut other = database.session();
    slow(&mut other);
    for (round, sql) in SLOW.iter().enumerate() {
        let mut session = database.session();
        let way = if round % 2 == 0 { Way::skip_scan().parallel() } else { Way::skip_scan() };
        way.set(&mut session);
        let pid = session.one("SELECT pg_backend_pid()");
        let query = format!(
            "SELECT count(*) FROM pg_locks WHERE relation = 't_skip'::regclass AND pid = {pid} AND granted"
        );
        std::thread::scope(|scope| {
            // Again and again, so that it is not over before the end comes.
            let running = scope.spawn(|| {
                let mut last = Ok(Vec::new());
                while last.is_ok() {
                    last = outcome(&mut session, sql);
                }
                last
            });
            let end = Instant::now() + Duration::from_secs(30);
            while other.one(&query) == "0" && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            other.run(&format!("SELECT pg_terminate_backend({pid})"));
            let ended = running.join().expect("a thread that only asks");
            assert!(ended.is_err(), "{sql} ends well in a session that was ended");
        });
    }
    let end = Instant::now() + Duration::from_secs(30);
    while other.one("SELECT count(*) FROM pg_locks WHERE relation = 't'::regclass") != "0" {
        assert!(Instant::now() < end, "locks are left");
        std::thread::sleep(Duration::from_millis(5));
    }
    other.run("VACUUM FULL t");
    other.run("DROP TABLE t");
}
