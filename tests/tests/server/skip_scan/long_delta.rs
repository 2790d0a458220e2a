//! A long delta: asking many tests about it costs one look-up an entry, and a cancelled query ends in its midst.
use crate::shared::{Database, on_shared};
use libtest_mimic::Trial;
use pg_skip_tests::session::Session;
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    vec![
        on_shared("skip_scan::many_tests_of_a_long_delta", many_tests_of_a_long_delta),
        on_shared("skip_scan::cancelled_in_a_long_delta", cancelled_in_a_long_delta),
    ]
}

const COLUMNS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// A table of which half the rows came into ranges that were summarized before.
fn table(session: &mut Session, rows: u32) {
    let columns = COLUMNS.join(", ");
    let values = COLUMNS.map(|_| "i").join(", ");
    let types = COLUMNS.map(|column| format!("{column} int")).join(", ");
    session.run(&format!(
        "CREATE TABLE t ({types});
         INSERT INTO t SELECT {values} FROM generate_series(1, {rows}) i;
         CREATE INDEX t_skip ON t USING skip ({columns})
             WITH (pages_per_range = 4, autosummarize = off, delta_limit = 1048576);
         DELETE FROM t WHERE a % 2 = 0"
    ));
    session.run("VACUUM t");
    let values = COLUMNS.map(|_| "-i").join(", ");
    session.run(&format!("INSERT INTO t SELECT {values} FROM generate_series(1, {rows} / 2) i"));
    let entries = session.number("SELECT sum(delta_entries) FROM skip_index_info('t_skip')");
    assert!(entries > f64::from(rows) * 3.5, "{entries} entries in the delta");
}

/// The shortest of some runs.
fn shortest(mut run: impl FnMut() -> Duration) -> Duration {
    (0..4).map(|_| run()).min().unwrap_or_default()
}

fn time(session: &mut Session, sql: &str) -> Duration {
    let start = Instant::now();
    session.rows(sql);
    start.elapsed()
}

fn many_tests_of_a_long_delta(database: &Database) {
    let mut session = database.session();
    table(&mut session, 20_000);
    session.run("SET enable_seqscan = off; SET enable_bitmapscan = off; SET pg_skip.plan_probe_pages = 0");
    // Pairs, which no version of the server makes one array of.
    let pairs = |count: u32| {
        let pairs: Vec<String> =
            (0..count).map(|i| format!("(a = {0} AND b = {0})", 1_000_000 + i)).collect();
        format!("SELECT count(*) FROM t WHERE {}", pairs.join(" OR "))
    };
    let (few, many) = (pairs(2), pairs(400));
    assert!(session.plan(&many).contains("Skip Scan"), "{}", session.plan(&few));
    let both = |session: &mut Session| [&few, &many].map(|sql| shortest(|| time(session, sql)));
    let [few_long, many_long] = both(&mut session);
    session.run("SELECT skip_summarize('t_skip')");
    let [few_short, many_short] = both(&mut session);
    let (few, many) = (few_long.saturating_sub(few_short), many_long.saturating_sub(many_short));
    println!("{few:?} for 4 tests, {many:?} for 800");
    // Asking each test about each entry takes 200 times as long for 200 times as many.
    assert!(many < few * 4 + Duration::from_millis(20), "{few:?} for 4 tests, {many:?} for 800");
}

fn cancelled_in_a_long_delta(database: &Database) {
    let mut session = database.session();
    table(&mut session, 40_000);
    // It reads the delta and little else, and has no other place to stop at.
    let info = "SELECT delta_entries FROM skip_index_info('t_skip')";
    let whole = shortest(|| time(&mut session, info));
    session.run("SET statement_timeout = '1ms'");
    let cancelled = shortest(|| {
        let start = Instant::now();
        match session.try_rows(info) {
            Ok(_) => whole,
            Err(_) => start.elapsed(),
        }
    });
    assert!(cancelled < whole / 2, "cancelled after {cancelled:?} of {whole:?}");
    session.run("SET statement_timeout = 0");
    assert_eq!(session.column(info).len(), COLUMNS.len());
}
