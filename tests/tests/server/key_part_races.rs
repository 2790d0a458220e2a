//! Maps divided by key under everything that happens at once: writers with small and large transactions, upkeep before
//! the commit, VACUUM and skip_summarize, cancelled at any moment, the table cut short and grown again, crashes, and a
//! standby. Inside any one snapshot the index and a plain scan agree, a row that is only moved is always found, and the
//! index is sound after each round.
use crate::registry::alone;
use crate::shared::together;
use crate::standby::{catch_up, replicated};
use fastrand::Rng;
use pg_skip_tests::compare::{Question, difference, same, sound};
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;
use pg_skip_tests::{cases, seed};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KEYS: u32 = 20_000;

/// Ranges of a page, so that maps are large for a small table, and short steps of merges.
const SETTINGS: [&str; 6] = [
    "pg_skip.key_part_pages=1",
    "pg_skip.merge_pages=1",
    "max_standby_streaming_delay=-1",
    "max_wal_size=1GB",
    "deadlock_timeout=100ms",
    "max_prepared_transactions=10",
];

const TABLE: &str = "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, n int, v text,
                                     filler text DEFAULT repeat('x', 60)) WITH (fillfactor = 80);
    INSERT INTO t (k, n, v) SELECT i, nullif(i % 50, 0), 'v' || i FROM generate_series(1, 12000) i;
    CREATE INDEX t_skip ON t USING skip (k, n, v) WITH (layout = map, pages_per_range = 1, delta_limit = 8192)";

/// The same, with maps of another form for the rows that come after a high rate was reset.
const OF_FORMS: &str = "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, n int, v text,
                                        filler text DEFAULT repeat('x', 60)) WITH (fillfactor = 80);
    INSERT INTO t (k, n, v) SELECT i, nullif(i % 50, 0), 'v' || i FROM generate_series(1, 6000) i;
    CREATE INDEX t_skip ON t USING skip (k, n, v)
        WITH (layout = map, pages_per_range = 1, delta_limit = 8192, false_positive_rate = 0.1);
    ALTER INDEX t_skip RESET (false_positive_rate);
    INSERT INTO t (k, n, v) SELECT i, nullif(i % 50, 0), 'v' || i FROM generate_series(6001, 12000) i";

/// Counts what was done, so that a run that does nothing is seen.
#[derive(Debug, Default)]
struct Done {
    written: AtomicU64,
    cancelled: AtomicU64,
    maintained: AtomicU64,
    compared: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Runs a statement that may be cancelled, or be the victim of a deadlock, or lose its server. Returns false if the
/// server is gone.
fn try_run(session: &mut Session, sql: &str, done: &Done, counter: &AtomicU64) -> bool {
    match session.try_rows(sql) {
        Ok(_) => count(counter),
        Err(error) => {
            let Some(code) = error.code().map(|code| code.code().to_owned()) else { return false };
            match code.as_str() {
                "57014" => count(&done.cancelled),
                "40P01" | "40001" | "25P02" => {}
                "57P01" | "57P02" | "57P03" => return false,
                _ => panic!("{sql}: {error:?}"),
            }
            return session.try_rows("ROLLBACK").is_ok() || session.try_rows("ROLLBACK").is_ok();
        }
    }
    true
}

fn write(server: &Server, seed: u64, until: Instant, done: &Done) {
    let Ok(mut session) = server.try_connect("skip_template") else { return };
    let mut rng = Rng::with_seed(seed);
    while Instant::now() < until {
        let (key, other, rows, large) =
            (rng.u32(..KEYS), rng.u32(..KEYS), rng.u32(1..80), rng.u32(500..9000));
        let insert = |key: u32, rows: u32| {
            format!(
                "INSERT INTO t (k, n, v)
                 SELECT ({key} + i * 7) % {KEYS}, nullif(i % 50, 0), 'v' || ({key} + i * 7) % {KEYS}
                 FROM generate_series(1, {rows}) i"
            )
        };
        let end = ["COMMIT", "COMMIT", "ROLLBACK"][rng.usize(..3)];
        let sql = match rng.u32(..12) {
            0..=3 => insert(key, rows),
            4 => format!(
                "BEGIN; {}; SAVEPOINT s; {}; ROLLBACK TO s; {}; {end}",
                insert(key, rows),
                insert(other, large),
                insert(other, rows)
            ),
            5 => format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ; {}; {}; {end}",
                insert(key, large),
                insert(other, 60)
            ),
            6..=8 => format!(
                "UPDATE t SET k = {other}, v = 'v{other}' WHERE id = (SELECT id FROM t WHERE k = {key} LIMIT 1)"
            ),
            9 => format!(
                "UPDATE t SET n = NULL WHERE id IN (SELECT id FROM t WHERE k BETWEEN {key} AND {key} + 20
                          ORDER BY id FOR UPDATE SKIP LOCKED)"
            ),
            10 => format!(
                "DELETE FROM t WHERE id IN (SELECT id FROM t WHERE k BETWEEN {key} AND {key} + 60
                          ORDER BY id FOR UPDATE SKIP LOCKED)"
            ),
            _ => format!(
                "SET pg_skip.merge_pages = {}; SET pg_skip.key_part_pages = {}",
                rng.u32(1..5),
                rng.u32(1..4)
            ),
        };
        if !try_run(&mut session, &sql, done, &done.written) {
            return;
        }
    }
}

fn maintain(server: &Server, seed: u64, until: Instant, done: &Done) {
    let Ok(mut session) = server.try_connect("skip_template") else { return };
    let mut rng = Rng::with_seed(seed);
    while Instant::now() < until {
        let sql = ["VACUUM t", "SELECT skip_summarize('t_skip')", "SELECT skip_summarize('t_skip')"]
            [rng.usize(..3)];
        if !try_run(&mut session, sql, done, &done.maintained) {
            return;
        }
        std::thread::sleep(Duration::from_millis(rng.u64(..150)));
    }
}

/// Cancels whoever writes. A cancel may arrive when the session has gone on to its next statement; readers, which must
/// not meet one, are told apart by the name of their application.
fn cancel(server: &Server, seed: u64, until: Instant) {
    let Ok(mut session) = server.try_connect("skip_template") else { return };
    let mut rng = Rng::with_seed(seed);
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(rng.u64(..40)));
        let sql = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                   WHERE state = 'active' AND pid <> pg_backend_pid() AND application_name <> 'reader'
                       AND query ~ '^(VACUUM|INSERT|BEGIN|UPDATE|SELECT skip)'
                   ORDER BY random() LIMIT 1";
        if session.try_rows(sql).is_err() {
            return;
        }
    }
}

fn question(rng: &mut Rng) -> Question {
    let mut key = || rng.u32(..KEYS + KEYS / 4);
    let (one, two, three) = (key(), key(), key());
    Question::any(match rng.u32(..8) {
        0..=1 => format!("k = {one}"),
        2 => format!("v = 'v{one}'"),
        3 => format!("k IN ({one}, {two}, {three}, NULL)"),
        4 => format!("k = {one} OR v = 'v{two}'"),
        5 => format!("n IS NULL AND k = {one}"),
        6 => format!(
            "k = ANY ('{{{}}}'::int[])",
            (0..60).map(|i| ((one + i * 331) % KEYS).to_string()).collect::<Vec<_>>().join(",")
        ),
        _ => format!("n = {} AND v IN ('v{one}', 'v{two}')", one % 50),
    })
}

fn read(server: &Server, seed: u64, until: Instant, done: &Done) {
    let Ok(mut session) = server.try_connect("skip_template") else { return };
    if session.try_rows("SET application_name = 'reader'").is_err() {
        return;
    }
    let mut rng = Rng::with_seed(seed);
    while Instant::now() < until {
        if session.try_rows("BEGIN ISOLATION LEVEL REPEATABLE READ").is_err() {
            return;
        }
        for _ in 0..rng.u32(1..6) {
            let question = question(&mut rng);
            if let Some(problem) = difference(&mut session, "t", &question) {
                if session.try_rows("ROLLBACK; SELECT 1").is_err() {
                    return; // the server is gone
                }
                panic!("{problem}");
            }
            count(&done.compared);
        }
        if session.try_rows("COMMIT").is_err() {
            return;
        }
    }
}

fn settled(session: &mut Session, rng: &mut Rng, done: &Done) {
    sound(session, "t_skip");
    for _ in 0..20 {
        same(session, "t", &question(rng));
        count(&done.compared);
    }
}

alone!(divided_maps_under_load = under_load(TABLE, 1.0));
alone!(maps_of_several_forms_under_load = under_load(OF_FORMS, 2.0));
/// The maps of a column have so many forms at first.
fn under_load(table: &str, forms: f64) {
    let (primary, standby) = replicated(&SETTINGS);
    let (mut rng, done) = (Rng::with_seed(seed()), Done::default());
    let mut session = primary.connect("skip_template");
    session.run(table);
    let counted =
        "SELECT count(DISTINCT fingerprint_bits) FROM skip_index_segments('t_skip') WHERE attnum = 1";
    assert_eq!(session.number(counted), forms, "forms of maps");
    catch_up(&mut session, &mut standby.connect("skip_template"));
    drop(session);
    let mut crashes = 0;
    for round in 0..cases(3) as u64 {
        let until = Instant::now() + Duration::from_millis(rng.u64(1500..4000));
        let is_crash = round % 3 == 2;
        let has_cancels = round % 2 == 1;
        let base = seed() + 1000 * round;
        let (primary, standby, done) = (&primary, &standby, &done);
        together(vec![
            Box::new(move || write(primary, base + 1, until, done)),
            Box::new(move || write(primary, base + 2, until, done)),
            Box::new(move || write(primary, base + 3, until, done)),
            Box::new(move || maintain(primary, base + 4, until, done)),
            Box::new(move || {
                if has_cancels {
                    cancel(primary, base + 5, until)
                }
            }),
            Box::new(move || read(primary, base + 6, until, done)),
            Box::new(move || read(standby, base + 7, until, done)),
            Box::new(move || {
                if is_crash {
                    std::thread::sleep(until.saturating_duration_since(Instant::now()) / 2);
                    primary.kill();
                }
            }),
        ]);
        if is_crash {
            crashes += 1;
            primary.restart();
        }
        let mut session = primary.connect("skip_template");
        settled(&mut session, &mut rng, done);
        let mut reader = standby.connect("skip_template");
        catch_up(&mut session, &mut reader);
        settled(&mut reader, &mut rng, done);
        if round == 0 {
            assert!(session.number(counted) >= forms, "forms of maps");
        }
        if rng.bool() {
            // The table is cut short at any place.
            let keep = rng.f64();
            session.run(&format!(
                "DELETE FROM t
                 WHERE (ctid::text::point)[0] >= {keep} * (SELECT max((ctid::text::point)[0]) FROM t)"
            ));
            session.run("VACUUM t");
            settled(&mut session, &mut rng, done);
        }
        let parts = session.one(
            "SELECT string_agg(DISTINCT split_part(coalesce(key_part, '1/1'), '/', 2), ' ')
             FROM skip_index_segments('t_skip')",
        );
        let blocks =
            session.one("SELECT pg_relation_size('t') / 8192 || ' ' || pg_relation_size('t_skip') / 8192");
        println!("round {round}: blocks {blocks}, key parts of {parts}");
    }
    println!("{crashes} crashes, {done:?}");
    for counter in [&done.written, &done.maintained, &done.compared] {
        assert!(counter.load(Ordering::Relaxed) > 0, "{done:?}");
    }
    standby.finish();
    primary.finish();
}

/// Inserts rows with new keys, and moves rows with old ones to other blocks.
fn append(server: &Server, seed: u64, until: Instant, next: &AtomicU64, done: &Done) {
    let (mut session, mut rng) = (server.connect("skip_template"), Rng::with_seed(seed));
    while Instant::now() < until {
        let rows = if rng.u32(..40) == 0 { 4000 } else { rng.u64(1..200) };
        let first = next.fetch_add(rows, Ordering::SeqCst);
        let insert = format!(
            "INSERT INTO t (k, n, v)
             SELECT i, nullif(i % 50, 0), 'v' || i FROM generate_series({first}, {first} + {rows} - 1) i"
        );
        // A key that was given out is there in the end, whatever was cancelled.
        loop {
            match session.try_rows(&insert) {
                Ok(_) => break,
                Err(error) if error.code().is_some_and(|code| code.code() == "57014") => {
                    count(&done.cancelled);
                }
                Err(error) => panic!("{insert}: {error:?}"),
            }
        }
        count(&done.written);
        for _ in 0..rng.u32(..4) {
            let old = rng.u64(..first.max(1));
            let sql = format!(
                "UPDATE t SET filler = repeat('y', {}) WHERE k IN (SELECT k FROM t WHERE k BETWEEN {old} AND {old} + 30
                 ORDER BY k FOR UPDATE SKIP LOCKED)",
                rng.u32(1..300)
            );
            try_run(&mut session, &sql, done, &done.written);
        }
    }
}

/// Looks up keys below `most`, all of which have a row each.
fn find(server: &Server, seed: u64, until: Instant, most: &AtomicU64, done: &Done) {
    let (mut session, mut rng) = (server.connect("skip_template"), Rng::with_seed(seed));
    session.run("SET enable_seqscan = off; SET enable_bitmapscan = off");
    while Instant::now() < until {
        let most = most.load(Ordering::SeqCst);
        let size = [1, 3, 20, 100][rng.usize(..4)];
        let keys: BTreeSet<u64> = (0..size).map(|_| rng.u64(..most)).collect();
        let list =
            |prefix: &str| keys.iter().map(|key| format!("{prefix}{key}")).collect::<Vec<_>>().join(",");
        let condition = match rng.bool() {
            true => format!("k = ANY ('{{{}}}'::int[])", list("")),
            false => format!("v = ANY ('{{{}}}')", list("v")),
        };
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        let found = session.number(&sql) as usize;
        if found != keys.len() {
            session.run("SET enable_seqscan = on; SET pg_skip.enable_scan = off");
            let plain = session.number(&sql);
            panic!("{found} of {} rows; a plain scan now finds {plain}: {sql}", keys.len());
        }
        count(&done.compared);
    }
}

alone!(every_key_is_found);
fn every_key_is_found() {
    let (primary, standby) = replicated(&SETTINGS);
    let (mut rng, done) = (Rng::with_seed(seed()), Done::default());
    let mut session = primary.connect("skip_template");
    session.run(TABLE);
    session.run("TRUNCATE t");
    session.run("INSERT INTO t (k, n, v) SELECT i, i % 50, 'v' || i FROM generate_series(0, 11999) i");
    let next = AtomicU64::new(12_000);
    for round in 0..cases(2) as u64 {
        catch_up(&mut session, &mut standby.connect("skip_template"));
        // The keys that are committed, and replayed, when the round begins.
        let most = AtomicU64::new(next.load(Ordering::SeqCst));
        let until = Instant::now() + Duration::from_millis(rng.u64(4000..8000));
        let base = seed() + 1000 * round;
        let has_cancels = round % 2 == 1;
        let (primary, standby, done, next, most) = (&primary, &standby, &done, &next, &most);
        together(vec![
            Box::new(move || append(primary, base + 1, until, next, done)),
            Box::new(move || append(primary, base + 2, until, next, done)),
            Box::new(move || maintain(primary, base + 3, until, done)),
            Box::new(move || {
                if has_cancels {
                    cancel(primary, base + 4, until)
                }
            }),
            Box::new(move || find(primary, base + 5, until, most, done)),
            Box::new(move || find(primary, base + 6, until, most, done)),
            Box::new(move || find(standby, base + 7, until, most, done)),
        ]);
        sound(&mut session, "t_skip");
        let blocks =
            session.one("SELECT pg_relation_size('t') / 8192 || ' ' || pg_relation_size('t_skip') / 8192");
        println!("round {round}: blocks {blocks}, {done:?}");
    }
    drop(session);
    standby.finish();
    primary.finish();
}
