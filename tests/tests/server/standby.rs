//! A streaming standby: every page it replays is compared with the primary's, and queries there agree with a plain
//! scan while the primary inserts, folds its delta and merges segments; promoted, it goes on as a primary.
use crate::registry::alone;
use crate::shared::{self, together};
use fastrand::Rng;
use pg_skip_tests::both_ways::{self, Case, Way, by_skip_scan};
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::explain::executed;
use pg_skip_tests::seed;
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;
use std::time::{Duration, Instant};

/// A primary with the database `skip_template`, and a standby that checks every replayed page of generic WAL
/// against what the primary wrote; both with these settings.
pub fn replicated(settings: &[&str]) -> (Server, Server) {
    // The standby has no slot: WAL that it has not received yet must not be removed.
    let mut all = vec![
        "wal_level=replica",
        "max_wal_senders=4",
        "wal_keep_size=4GB",
        "wal_consistency_checking=generic",
    ];
    all.extend(settings);
    let primary = Server::start(&all);
    shared::prepare(&primary);
    let standby = primary.standby(&all);
    (primary, standby)
}

/// Waits until the standby has replayed all that the primary has written.
#[track_caller]
pub fn catch_up(primary: &mut Session, standby: &mut Session) {
    // Its commit flushes what VACUUM and the like have written; without a record of its own it would not.
    primary.run("SELECT pg_logical_emit_message(true, 'pg_skip', '')");
    let target = primary.one("SELECT pg_current_wal_flush_lsn()");
    let end = Instant::now() + Duration::from_secs(60);
    while standby.one(&format!("SELECT pg_last_wal_replay_lsn() >= '{target}'")) != "t" {
        assert!(Instant::now() < end, "the standby does not catch up");
        std::thread::sleep(Duration::from_millis(10));
    }
}

alone!(queries_during_replay_and_promotion);
fn queries_during_replay_and_promotion() {
    // Nothing cancels a query here: replay waits for it instead.
    let (primary, standby) = replicated(&["max_standby_streaming_delay=-1", "full_page_writes=on"]);
    let mut session = primary.connect("skip_template");
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, v text, filler text DEFAULT repeat('x', 200))
            WITH (fillfactor = 70);
         INSERT INTO t (k, v) SELECT i, i FROM generate_series(1, 1000) i;
         CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 1, delta_limit = 64)",
    );
    let mut reader = standby.connect("skip_template");
    catch_up(&mut session, &mut reader);
    refused_on_a_standby(&mut reader);
    let until = Instant::now() + Duration::from_secs(8);
    together(vec![
        Box::new(|| write(&primary, until)),
        Box::new(|| ask(&standby, 1, until)),
        Box::new(|| ask(&standby, 2, until)),
    ]);
    catch_up(&mut session, &mut reader);
    all_found(&mut session);
    all_found(&mut reader);
    let info = "SELECT skip_index_info('t_skip')";
    assert_eq!(session.column(info), reader.column(info), "the index is the same on both");
    let segments = "SELECT skip_index_segments('t_skip')";
    skip_scans(&mut session, &mut reader);
    assert_eq!(session.column(segments), reader.column(segments), "the segments are the same on both");
    // The primary goes, in the middle of something.
    session.run("BEGIN; UPDATE t SET k = k + 1 WHERE id % 3 = 0");
    session.run("SELECT skip_summarize('t_skip')");
    drop(session);
    primary.stop_immediately();
    assert_eq!(reader.one("SELECT pg_promote()"), "t", "promotion");
    for step in [
        "INSERT INTO t (k, v) SELECT i, i FROM generate_series(1, 2000) i",
        "UPDATE t SET k = k + 1 WHERE id % 7 = 0",
        "SELECT skip_summarize('t_skip')",
        "VACUUM t",
        "REINDEX INDEX t_skip",
    ] {
        reader.run(step);
        all_found(&mut reader);
    }
    drop(reader);
    standby.finish();
}

/// What writes is refused while in recovery, and says why.
fn refused_on_a_standby(reader: &mut Session) {
    let error = reader.error("SELECT skip_summarize('t_skip')");
    assert!(["55000", "25006"].contains(&error.code().code()), "{error:?}");
    assert!(error.hint().is_some() || error.detail().is_some(), "{error:?}");
    for function in
        ["skip_index_info('t_skip')", "skip_index_verify('t_skip')", "skip_index_segments('t_skip')"]
    {
        reader.rows(&format!("SELECT * FROM {function}"));
    }
    let ranges = reader.column("SELECT skip_matching_ranges('t_skip', 'k', 1)");
    assert!(ranges.contains(&"0".to_owned()), "{ranges:?}");
}

/// Skip Index Scans in hot standby: planned, executed and counted as on the primary.
fn skip_scans(session: &mut Session, reader: &mut Session) {
    for condition in ["k = 7", "k = 123456", "k IN (7, 2000) AND v IS NOT NULL", "k = 70 OR v = '700'"] {
        let sql = format!("SELECT id FROM t WHERE {condition}");
        let (rows, plan) = by_skip_scan(reader, &sql);
        assert_eq!(rows, by_skip_scan(session, &sql).0, "{condition}\n{plan}");
        for way in [Way::skip_scan(), Way::skip_scan().parallel()] {
            both_ways::same(reader, &way, &Case::using(&sql));
        }
        let counted = [&mut *session, &mut *reader].map(|session| {
            Way::skip_scan().set(session);
            let node = executed(session, &sql);
            session.run("RESET ALL");
            ["Ranges Expected", "Ranges Total", "Ranges Skipped", "Ranges Scanned", "Ranges Unsummarized"]
                .map(|property| node.number(property))
        });
        assert_eq!(counted[0], counted[1], "{condition}: counts of primary and standby");
    }
}

fn write(primary: &Server, until: Instant) {
    let mut session = primary.connect("skip_template");
    let mut rng = Rng::with_seed(seed());
    while Instant::now() < until {
        let (key, count) = (rng.u32(..3000), rng.u32(1..200));
        match rng.u32(..12) {
            0..=3 => session.run(&format!(
                "INSERT INTO t (k, v) SELECT ({key} + i) % 3000, {key} FROM generate_series(1, {count}) i"
            )),
            4..=6 => session.run(&format!("UPDATE t SET k = {key} WHERE id % 101 = {}", key % 101)),
            7 => session.run(&format!("DELETE FROM t WHERE id % 53 = {}", key % 53)),
            8 => session.run("BEGIN; INSERT INTO t (k) SELECT i FROM generate_series(1, 100) i; ROLLBACK"),
            9 => session.run("VACUUM t"),
            10 => session.run("SELECT skip_summarize('t_skip')"),
            _ if rng.u32(..4) == 0 => session.run("REINDEX INDEX t_skip"),
            _ => session.run("CHECKPOINT"),
        }
    }
}

fn ask(standby: &Server, number: u64, until: Instant) {
    let mut session = standby.connect("skip_template");
    let mut rng = Rng::with_seed(seed() + number);
    let mut asked = 0;
    while Instant::now() < until {
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
        for _ in 0..rng.u32(1..8) {
            let (one, two) = (rng.u32(..3000), rng.u32(..3000));
            let predicate = match rng.u32(..4) {
                0..=1 => format!("k = {one}"),
                2 => format!("k IN ({one}, {two}) AND v IS NOT NULL"),
                _ => format!("v = '{one}'"),
            };
            same(&mut session, "t", &Question::any(predicate));
            asked += 1;
        }
        session.run("COMMIT");
    }
    assert!(asked > 20, "only {asked} questions: the reader was kept waiting");
}

fn all_found(session: &mut Session) {
    for key in (0..3002).step_by(61) {
        same(session, "t", &Question::using("t_skip", format!("k = {key}")));
        same(session, "t", &Question::using("t_skip", format!("v = '{key}'")));
    }
    sound(session, "t_skip");
}

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
