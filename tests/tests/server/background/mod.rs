//! `autosummarize = background`: a background worker summarizes what inserts leave, and no row is lost by that.
mod servers;

use crate::inside::skips_many;
use crate::registry::on_shared;
use crate::shared::{self, Database, wait_until};
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::likely::likely;
use pg_skip_tests::session::Session;
use std::time::{Duration, Instant};

const WITH: &str = "WITH (pages_per_range = 1, autosummarize = background)";
const ROWS: &str = "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, v text,
                                    filler text DEFAULT repeat('x', 270))";

/// A table of which 26 rows fill a block, which is a range.
fn table(session: &mut Session) {
    session.run(&format!("{ROWS}; CREATE INDEX t_skip ON t USING skip (k, v) {WITH}"));
}

fn insert(first: u32, rows: u32) -> String {
    format!("INSERT INTO t (k, v) SELECT i, 'v' || i FROM generate_series({first}, {}) i", first + rows - 1)
}

/// Number of block ranges that are not summarized.
fn tail(session: &mut Session) -> f64 {
    session.number("SELECT max(ranges - summarized) FROM skip_index_info('t_skip')")
}

/// The most ranges that stay without a summary: a batch of 32 blocks but for one, the newest range, and some that the
/// server has added to the table for more rows.
const MOST_TAIL: f64 = 40.0;

fn workers(session: &mut Session) -> f64 {
    session.number(
        "SELECT count(*) FROM pg_stat_activity
         WHERE backend_type = 'pg_skip worker' AND datname = current_database()",
    )
}

fn is_right(session: &mut Session, keys: &[u32]) {
    for key in keys {
        same(session, "t", &Question::any(format!("k = {key}")));
        same(session, "t", &Question::any(format!("v = 'v{key}'")));
    }
    sound(session, "t_skip");
}

on_shared!(a_worker_summarizes_what_is_inserted);
fn a_worker_summarizes_what_is_inserted(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    for round in 0..3 {
        let first = round * 100_000;
        session.run(&insert(first, 40_000));
        wait_until("there is one worker", || workers(&mut session) == 1.0);
        is_right(&mut session, &[first, first + 20_000, first + 39_999, first + 40_000]);
        wait_until("the worker has summarized", || tail(&mut session) <= MOST_TAIL);
        is_right(&mut session, &[first, first + 39_999]);
    }
    // It has merged its segments too.
    let segments = || "SELECT max(segments) FROM skip_index_info('t_skip')";
    wait_until("the worker has merged", || session.number(segments()) <= 13.0);
    wait_until("the worker has ended", || workers(&mut session) == 0.0);
    is_right(&mut session, &[0, 139_999, 239_999]);
    // An insert that does not fill a batch starts none.
    session.run("VACUUM t");
    session.run(&insert(1, 1));
    assert_eq!(workers(&mut session), 0.0);
}

on_shared!(a_worker_fills_a_large_gap);
/// A cancelled VACUUM leaves ranges without a summary. The worker fills the gap, and summarizes what is new.
fn a_worker_fills_a_large_gap(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, v text, filler text DEFAULT repeat('x', 270));
         CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i, 'v' || i FROM generate_series(1, 60000) i",
    );
    leave_a_gap(&mut session);
    session.run("ALTER INDEX t_skip SET (autosummarize = background)");
    session.run("INSERT INTO t SELECT i, i, 'v' || i FROM generate_series(60001, 62000) i");
    wait_until("the worker has filled the gap", || tail(&mut session) <= MOST_TAIL);
    is_right(&mut session, &[1, 30_000, 60_000, 61_999]);
}

/// Cancels a VACUUM of the table `t`, which was not summarized, while it summarizes.
fn leave_a_gap(session: &mut Session) {
    let summarized = "SELECT max(summarized) FROM skip_index_info('t_skip')";
    // The next one finds nothing to do in the table itself.
    session.run("VACUUM (FREEZE, INDEX_CLEANUP off) t");
    session.run("SET vacuum_cost_delay = 10; SET vacuum_cost_limit = 10; SET statement_timeout = 500");
    assert_eq!(session.error("VACUUM t").code().code(), "57014");
    session.run("RESET vacuum_cost_delay; RESET vacuum_cost_limit; RESET statement_timeout");
    assert_eq!(session.one(summarized), "0");
}

on_shared!(by_default_if_values_have_several_keys);
fn by_default_if_values_have_several_keys(database: &Database) {
    let mut session = database.session();
    session.run(&format!("{ROWS}; CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1)"));
    let columns = [
        ("k", false),
        ("v text_prefix_skip_ops (length = 3), k int4_minmax_skip_ops", false),
        ("k, v text_token_skip_ops", true),
        ("v text_ngram_skip_ops (n = 3)", true),
        ("tags array_element_skip_ops", true),
        ("document jsonb_path_skip_ops", true),
        ("words tsvector_skip_ops", true),
    ];
    session.run("ALTER TABLE t ADD tags text[], ADD document jsonb, ADD words tsvector");
    for (number, (columns, has_worker)) in (0u32..).zip(columns) {
        session.run(&format!(
            "DROP INDEX t_skip; CREATE INDEX t_skip ON t USING skip ({columns}) WITH (pages_per_range = 1)"
        ));
        session.run(&insert(number * 20_000, 20_000));
        if has_worker {
            let mut is_seen = false;
            wait_until("the ranges are summarized, or there is a worker", || {
                is_seen = workers(&mut session) == 1.0;
                is_seen || tail(&mut session) <= MOST_TAIL
            });
            // A session does the work itself if its worker takes a second to start, as on a busy machine.
            likely(is_seen, || format!("no worker was seen: {columns}"));
        } else {
            assert_eq!(workers(&mut session), 0.0, "{columns}");
        }
        wait_until("the ranges are summarized", || tail(&mut session) <= MOST_TAIL);
        sound(&mut session, "t_skip");
        session.run("ALTER INDEX t_skip SET (autosummarize = on)");
        wait_until("the worker has ended", || workers(&mut session) == 0.0);
    }
}

on_shared!(the_inserting_transaction_may_fail);
fn the_inserting_transaction_may_fail(database: &Database) {
    let mut session = database.session();
    let mut other = database.session();
    table(&mut session);
    session.run(&format!("BEGIN; {}", insert(0, 30_000)));
    wait_until("the worker has summarized", || tail(&mut other) <= MOST_TAIL);
    is_right(&mut other, &[0, 29_999]);
    session.run("ROLLBACK");
    is_right(&mut session, &[0, 29_999]);
    session.run(&format!(
        "BEGIN; {}; SAVEPOINT s; {}; ROLLBACK TO s; {}; COMMIT",
        insert(0, 10_000),
        insert(10_000, 10_000),
        insert(20_000, 10_000)
    ));
    wait_until("the worker has summarized", || tail(&mut session) <= MOST_TAIL);
    is_right(&mut session, &[0, 9_999, 10_000, 20_000, 29_999]);
}

on_shared!(values_out_of_line_are_summarized_after_the_commit);
/// While their transaction is in progress, their ranges stay open.
fn values_out_of_line_are_summarized_after_the_commit(database: &Database) {
    let mut session = database.session();
    let mut other = database.session();
    table(&mut session);
    session.run("ALTER TABLE t ALTER v SET STORAGE EXTERNAL");
    let long = insert(0, 20_000)
        .replace("'v' || i", "CASE i % 500 WHEN 0 THEN repeat('v' || i, 600) ELSE 'v' || i END");
    session.run(&format!("BEGIN; {long}"));
    // Open ranges are not counted as summarized: 40, one for each long value.
    wait_until("the worker has summarized", || tail(&mut other) <= 45.0 + MOST_TAIL);
    let open = "SELECT coalesce(sum(open_ranges), 0) FROM skip_index_segments('t_skip')";
    assert!(other.number(open) >= 30.0, "ranges are open before the commit");
    session.run("COMMIT");
    wait_until("the worker has closed them", || session.number(open) <= 1.0);
    assert!(tail(&mut session) <= MOST_TAIL);
    let segments =
        "SELECT max(count) FROM (SELECT count(*) FROM skip_index_segments('t_skip') GROUP BY attnum) s";
    wait_until("what was added is merged", || session.number(segments) <= 13.0);
    for key in [0, 500, 19_500] {
        same(&mut session, "t", &Question::any(format!("v = repeat('v{key}', 600)")));
    }
    is_right(&mut session, &[1, 501, 19_999]);
}

on_shared!(what_a_worker_cannot_see);
/// The inserts summarize it themselves: temporary tables, what was created in the same transaction, and what calls
/// users' code.
fn what_a_worker_cannot_see(database: &Database) {
    let mut session = database.session();
    let index = format!("CREATE INDEX t_skip ON t USING skip (k, v) {WITH}");
    let fill = insert(0, 20_000);
    session.run(&format!("BEGIN; {ROWS}; {index}; {fill}; COMMIT"));
    assert!(tail(&mut session) <= MOST_TAIL, "created in the same transaction");
    is_right(&mut session, &[0, 19_999]);
    session.run(&format!("BEGIN; TRUNCATE t; {fill}; COMMIT"));
    assert!(tail(&mut session) <= MOST_TAIL, "a new file");
    is_right(&mut session, &[0, 19_999]);
    session.run(&format!("BEGIN; DROP INDEX t_skip; {index}; {}; COMMIT", insert(20_000, 20_000)));
    assert!(tail(&mut session) <= MOST_TAIL, "an index of the same transaction");
    is_right(&mut session, &[0, 39_999]);

    for (columns, predicate, condition) in
        [("(k + 1), v", "", "k + 1 = 19999"), ("k, v", "WHERE k >= 0", "k = 19999 AND k >= 0")]
    {
        session.run(&format!(
            "DROP TABLE t; {ROWS}; CREATE INDEX t_skip ON t USING skip ({columns}) {WITH} {predicate}"
        ));
        session.run(&fill);
        assert!(tail(&mut session) <= 150.0, "{columns}: most is summarized");
        same(&mut session, "t", &Question::any(condition));
        sound(&mut session, "t_skip");
    }
    session.run(&format!("DROP TABLE t; {}; {index}; {fill}", ROWS.replace("TABLE", "TEMP TABLE")));
    assert!(tail(&mut session) <= MOST_TAIL, "temporary");
    is_right(&mut session, &[0, 19_999]);
    assert_eq!(workers(&mut session), 0.0);
}

on_shared!(a_worker_is_in_nobodys_way);
fn a_worker_is_in_nobodys_way(database: &Database) {
    let mut session = database.session();
    for ddl in [
        "DROP INDEX t_skip",
        "DROP TABLE t",
        "TRUNCATE t",
        "VACUUM FULL t",
        "REINDEX INDEX CONCURRENTLY t_skip",
        "ALTER TABLE t ALTER k TYPE bigint",
        "ALTER INDEX t_skip SET (autosummarize = on)",
        "SELECT skip_summarize('t_skip')",
        "VACUUM t",
    ] {
        session.run("DROP TABLE IF EXISTS t");
        table(&mut session);
        session.run(&insert(0, 20_000));
        session.run("SET lock_timeout = '20s'");
        session.run(ddl);
        if !ddl.starts_with("DROP") {
            is_right(&mut session, &[0, 19_999]);
            session.run(&insert(20_000, 20_000));
            wait_until("all is summarized", || tail(&mut session) <= MOST_TAIL);
            is_right(&mut session, &[0, 19_999, 20_000, 39_999]);
        }
    }
    // The worker ends when it is told to, and another one continues.
    session.run(&insert(50_000, 5_000));
    session.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE backend_type = 'pg_skip worker' AND datname = current_database()",
    );
    wait_until("the worker has ended", || workers(&mut session) == 0.0);
    std::thread::sleep(Duration::from_millis(1100));
    session.run(&insert(60_000, 20_000));
    wait_until("all is summarized", || tail(&mut session) <= MOST_TAIL);
    is_right(&mut session, &[0, 50_000, 54_999, 79_999]);
}

on_shared!(a_locked_table_is_not_waited_for);
fn a_locked_table_is_not_waited_for(database: &Database) {
    let mut session = database.session();
    let mut other = database.session();
    table(&mut session);
    session
        .run(&format!("SET deadlock_timeout = '100ms'; BEGIN; LOCK t IN SHARE MODE; {}", insert(0, 20_000)));
    is_right(&mut other, &[0, 19_999]);
    session.run("COMMIT");
    // The commit has started a worker, if the first one had given up.
    wait_until("all is summarized", || tail(&mut session) <= MOST_TAIL);
    is_right(&mut session, &[0, 19_999]);
}

on_shared!(defaults_of_the_database);
/// With them a worker would wait for a safe snapshot as long as another transaction writes, or not come far.
fn defaults_of_the_database(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    table(&mut session);
    let mut settings = vec![
        "default_transaction_isolation = serializable",
        "default_transaction_read_only = on",
        "default_transaction_deferrable = on",
    ];
    if session.number("SHOW server_version_num") >= 170_000.0 {
        settings.push("transaction_timeout = 1");
    }
    for setting in settings {
        session.run(&format!("ALTER DATABASE {} SET {setting}", database.name));
    }
    session.run(&format!("BEGIN ISOLATION LEVEL SERIALIZABLE; {}", insert(0, 20_000)));
    wait_until("the worker has summarized", || tail(&mut other) <= MOST_TAIL);
    session.run("COMMIT");
    is_right(&mut session, &[0, 19_999]);
}

on_shared!(many_sessions_insert);
fn many_sessions_insert(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    let until = Instant::now() + Duration::from_secs(4);
    let grow = |number: u32| {
        let mut session = database.session();
        let mut most = 0.0f64;
        for round in 0.. {
            if Instant::now() > until {
                break;
            }
            let first = number * 1_000_000 + round * 500;
            session.run(&insert(first, 500));
            session.run(&format!(
                "DELETE FROM t WHERE k = {}; UPDATE t SET k = k WHERE k = {}",
                first + 3,
                first + 4
            ));
            most = most.max(workers(&mut session));
            for key in [first, first + 3, first + 4, first + 499] {
                same(&mut session, "t", &Question::any(format!("v = 'v{key}'")));
            }
        }
        assert!((1.0..=8.0).contains(&most), "{most} workers at a time");
    };
    let mut vacuumer = database.session();
    let grow = &grow;
    shared::together(vec![
        Box::new(move || grow(1)),
        Box::new(move || grow(2)),
        Box::new(move || grow(3)),
        Box::new(move || {
            while Instant::now() < until {
                vacuumer.run("VACUUM t");
                std::thread::sleep(Duration::from_millis(300));
            }
        }),
    ]);
    wait_until("the worker has ended", || workers(&mut session) == 0.0);
    // Blocks without rows are waited for, up to 512 of them: skip_segment::pace::MOST_EMPTY.
    let left = tail(&mut session);
    assert!(left <= 512.0, "{left} ranges are left");
    is_right(&mut session, &[1_000_000, 1_000_003, 1_000_499, 2_000_000, 3_000_004]);
}

on_shared!(rows_come_into_ranges_that_a_worker_closes);
/// Updates put new values into the same blocks, before, while and after the worker closes their ranges.
fn rows_come_into_ranges_that_a_worker_closes(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    let rows = format!("{ROWS} WITH (fillfactor = 50)");
    session.run(&format!("{rows}; CREATE INDEX t_skip ON t USING skip (k, v) {WITH}"));
    session.run("ALTER TABLE t ALTER v SET STORAGE EXTERNAL");
    let long = |first| {
        insert(first, 10_000)
            .replace("'v' || i", "CASE i % 50 WHEN 0 THEN repeat('v' || i, 600) ELSE 'v' || i END")
    };
    session.run(&long(0));
    for round in 1..4 {
        session.run(&format!("BEGIN; {}", long(round * 10_000)));
        wait_until("the worker has left ranges open", || {
            // There may be no segment yet.
            other.number("SELECT coalesce(sum(open_ranges), 0) FROM skip_index_segments('t_skip')") >= 100.0
        });
        session.run("COMMIT");
        for part in 0..40 {
            session.run(&format!(
                "UPDATE t SET v = 'w{round}-' || k WHERE k % 40 = {part} AND k BETWEEN {} AND {}",
                round * 10_000,
                round * 10_000 + 9_999
            ));
        }
        for key in [0, 1, 50, 4_999, 9_999].map(|key| round * 10_000 + key) {
            same(&mut session, "t", &Question::any(format!("v = 'w{round}-{key}'")));
        }
        sound(&mut session, "t_skip");
    }
    wait_until("the worker has ended", || workers(&mut session) == 0.0);
    is_right(&mut session, &[0, 9_999, 19_999, 39_999]);
}

on_shared!(another_index_is_built_concurrently);
fn another_index_is_built_concurrently(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run(&insert(0, 20_000));
    let mut other = database.session();
    shared::together(vec![
        Box::new(|| (1..15).for_each(|round| session.run(&insert(round * 20_000, 3_000)))),
        Box::new(|| other.run(&format!("CREATE INDEX CONCURRENTLY u_skip ON t USING skip (v, k) {WITH}"))),
    ]);
    is_right(&mut session, &[0, 19_999, 20_000, 282_999]);
    sound(&mut session, "u_skip");
    session.run("DROP INDEX t_skip");
    for key in [0, 19_999, 20_000, 282_999] {
        same(&mut session, "t", &Question::any(format!("v = 'v{key}'")));
    }
}

on_shared!(nothing_is_chosen_of_values_that_cannot_be_read);
/// The first rows of a table come in one transaction, and all of their values are out of line: for other processes they
/// cannot be hashed until it has committed. Layout and filter sizes are not chosen by that.
fn nothing_is_chosen_of_values_that_cannot_be_read(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    let rows = |first: u32| {
        format!(
            "INSERT INTO t (k, v) SELECT i, 'w' || i || 'w ' || (SELECT string_agg(md5((i * 77 + j)::text), ' ')
                FROM generate_series(1, 70) j)
             FROM generate_series({first}, {}) i",
            first + 2999
        )
    };
    for (layout, summarizes) in [
        ("", ""),
        ("", "VACUUM t"),
        ("", "SELECT skip_summarize('t_skip')"),
        (", layout = filters", ""),
        (", layout = filters", "VACUUM t"),
    ] {
        session.run("DROP TABLE IF EXISTS t");
        session.run(&format!(
            "{ROWS}; ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
             CREATE INDEX t_skip ON t USING skip (v text_token_skip_ops)
             WITH (pages_per_range = 1, autosummarize = background{layout})"
        ));
        session.run("BEGIN");
        session.run(&rows(0));
        if summarizes.is_empty() {
            std::thread::sleep(Duration::from_millis(300));
        } else {
            other.run(summarizes);
        }
        session.run("COMMIT");
        wait_until("the worker has ended", || workers(&mut session) == 0.0);
        session.run("VACUUM ANALYZE t");
        let told = format!("{layout} {summarizes}");
        let open = session.number("SELECT sum(open_ranges) FROM skip_index_segments('t_skip')");
        assert_eq!(open, 0.0, "{told}: open ranges");
        let rate = session.number("SELECT max(expected_false_positive_rate) FROM skip_index_info('t_skip')");
        assert!(rate < 0.01, "{told}: {rate} of the ranges are read in vain");
        same(&mut session, "t", &Question::using("t_skip", "v @@@ 'w1700w'"));
        session.run("SET enable_seqscan = off; SET enable_bitmapscan = off");
        skips_many(&mut session, "SELECT id FROM t WHERE v @@@ 'w1700w'");
        session.run("RESET ALL");
        sound(&mut session, "t_skip");
    }
}
