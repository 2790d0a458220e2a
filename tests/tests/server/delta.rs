//! A long delta: many tests of it find what they should, and a query that reads it can be cancelled. Entries are
//! looked up among the tests by `skip_scan::EntryTests`.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::cancel::cancelled;
use pg_skip_tests::likely::likely;
use pg_skip_tests::session::Session;
use std::collections::BTreeSet;
use std::time::Duration;

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

on_shared!(many_tests_of_a_long_delta);
fn many_tests_of_a_long_delta(database: &Database) {
    let mut session = database.session();
    table(&mut session, 20_000);
    session.run("SET enable_seqscan = off; SET enable_bitmapscan = off; SET pg_skip.plan_probe_pages = 0");
    // Pairs, which no version of the server makes one array of.
    let pairs = |count: u32| {
        let pairs: Vec<String> =
            (0..count).map(|i| format!("(a = {0} AND b = {0})", -1 - 5 * i64::from(i))).collect();
        format!("SELECT count(*) FROM t WHERE {}", pairs.join(" OR "))
    };
    let (few, many) = (pairs(2), pairs(400));
    assert!(session.plan(&many).contains("Skip Index Scan"), "{}", session.plan(&few));
    let both = |session: &mut Session| [&few, &many].map(|sql| session.one(sql));
    let with_delta = both(&mut session);
    assert_eq!(with_delta, ["2", "400"]);
    session.run("SELECT skip_summarize('t_skip')");
    assert_eq!(with_delta, both(&mut session), "before the delta was folded, and after");
}

on_shared!(cancelled_in_a_long_delta);
/// A query is cut off anywhere in the delta, not only before it or behind it: the numbers of pages that it has read
/// until then, beyond whole passes, differ from one time to the next.
fn cancelled_in_a_long_delta(database: &Database) {
    let mut session = database.session();
    table(&mut session, 40_000);
    // It reads the delta and little else.
    let pass = "PERFORM delta_entries FROM skip_index_info('t_skip')";
    let endless = format!("DO $$ BEGIN LOOP {pass}; END LOOP; END $$");
    let pages = |session: &mut Session| {
        session.run("SELECT pg_stat_force_next_flush()");
        session.number("SELECT pg_stat_get_blocks_fetched('t_skip'::regclass)") as u64
    };
    session.run(&format!("DO $$ BEGIN {pass}; END $$"));
    let before = pages(&mut session);
    session.run(&format!("DO $$ BEGIN {pass}; END $$"));
    let of_pass = pages(&mut session) - before;
    assert!(of_pass > 300, "a pass reads {of_pass} pages");
    let mut other = database.session();
    let mut beyond = BTreeSet::new();
    for round in 0..20 {
        let before = pages(&mut session);
        let is_cut_off = cancelled(&mut session, &mut other, &endless, Duration::from_millis(5 + round));
        assert!(is_cut_off, "an endless loop came to an end");
        beyond.insert((pages(&mut session) - before) % of_pass);
    }
    likely(beyond.len() >= 8, || format!("cut off after {beyond:?} of {of_pass} pages"));
    let info = "SELECT delta_entries FROM skip_index_info('t_skip')";
    assert_eq!(session.column(info).len(), COLUMNS.len());
}
