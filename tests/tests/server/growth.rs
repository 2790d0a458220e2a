//! A table that grows by inserts: segments are merged in steps, few remain, and nothing is lost while a merge is
//! unfinished. The steps are made small, so that small tables have merges of many steps.
use crate::concurrency;
use crate::registry::{alone, on_shared};
use crate::shared::{self, Database, together};
use fastrand::Rng;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::seed;
use pg_skip_tests::server::{Server, has_maps};
use pg_skip_tests::session::Session;
use std::fs;
use std::time::{Duration, Instant};

/// Some 110 rows a page, so a batch of eight single pages makes a page of segments.
const TABLE: &str =
    "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, v text) WITH (fillfactor = 50);
    CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 1, delta_limit = 16384)";

/// So few pages that merges take several steps, and enough for the bound: a batch of maps takes twice as many as one of
/// filters.
fn settings() -> &'static str {
    if has_maps() { "SET pg_skip.merge_pages = 6" } else { "SET pg_skip.merge_pages = 3" }
}

/// The bound that `skip_segment::growth` states.
fn bound(ranges: f64) -> f64 {
    let of_maps = if has_maps() { 1.0 } else { 0.0 };
    2.0 * (ranges.log(8.0).floor().max(2.0) + of_maps) + 5.0
}

/// An unfinished segment, as the directory page says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unfinished {
    first_range: u32,
    width: u32,
    pages: u32,
}

/// The unfinished segments of `t_skip`, read from its file.
fn unfinished(server: &Server, session: &mut Session) -> Vec<Unfinished> {
    session.run("CHECKPOINT");
    let file = server.data().join(session.one("SELECT pg_relation_filepath('t_skip')"));
    let bytes = fs::read(file).expect("the index");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let directories = (0..bytes.len()).step_by(8192).filter(|page| word(page + 8188) >> 16 == 0xFA02);
    let entries = directories
        .flat_map(|page| (0..word(page + 24 + 4) as usize).map(move |slot| page + 24 + 8 + 32 * slot));
    let unfinished = entries.filter(|&at| bytes[at] == 7);
    unfinished
        .map(|at| Unfinished { first_range: word(at + 4), width: word(at + 8), pages: word(at + 12) })
        .collect()
}

/// Rows whose keys nothing else has.
fn insert(session: &mut Session, first: u32, count: u32) {
    session.run(&format!(
        "INSERT INTO t (k, v) SELECT i, 'v' || i FROM generate_series({first}, {first} + {count} - 1) i"
    ));
}

on_shared!(few_segments_remain);
fn few_segments_remain(database: &Database) {
    let mut session = database.session();
    session.run(&format!("{TABLE}; {}", settings()));
    let (mut rows, mut most, mut in_steps) = (0, 0.0f64, 0);
    let mut rng = Rng::with_seed(seed());
    while rows < 120_000 {
        let count = rng.u32(1..3000);
        insert(&mut session, rows, count);
        rows += count;
        let row = session.rows("SELECT ranges, segments FROM skip_index_info('t_skip')");
        for numbers in row {
            let number = |at: usize| numbers[at].as_ref().and_then(|n| n.parse().ok()).unwrap_or(f64::NAN);
            let (ranges, segments) = (number(0), number(1));
            assert!(segments <= bound(ranges), "{segments} segments of {ranges} ranges");
            most = most.max(segments);
        }
        in_steps += unfinished(shared::server(), &mut session).len();
        if rng.u32(..8) == 0 {
            for key in [rng.u32(..rows), rows - 1, rows + 1] {
                same(&mut session, "t", &Question::using("t_skip", format!("k = {key}")));
                same(&mut session, "t", &Question::using("t_skip", format!("v = 'v{key}'")));
            }
        }
    }
    println!("at most {most} segments, {in_steps} unfinished ones seen");
    assert!(in_steps > 0, "no merge was done in steps");
    sound(&mut session, "t_skip");
    session.run("VACUUM t");
    assert_eq!(unfinished(shared::server(), &mut session), []);
    sound(&mut session, "t_skip");
}

on_shared!(maps_have_a_segment_more);
/// Fewer than 512 ranges: two segments of filters are kept, and three maps.
fn maps_have_a_segment_more(database: &Database) {
    let mut session = database.session();
    for (layout, kept) in [("filters", 2.0), ("map", 3.0)] {
        session.run("DROP TABLE IF EXISTS t");
        session.run(&format!("SET pg_skip.default_layout = {layout}; {TABLE}"));
        let mut most = 0.0f64;
        for first in (0..40_000).step_by(250) {
            insert(&mut session, first, 250);
            most = most.max(session.number("SELECT max(segments) FROM skip_index_info('t_skip')"));
        }
        assert_eq!(most, kept, "segments of {layout}");
    }
}

on_shared!(few_segments_of_many_keys_remain);
/// A value has 300 keys, so each block of the table gives some fifteen times as many as one of ordinary values.
fn few_segments_of_many_keys_remain(database: &Database) {
    let mut session = database.session();
    session.run(&format!(
        "{}; CREATE TABLE t (id int, a int[]);
         CREATE INDEX t_skip ON t USING skip (a array_element_skip_ops)
             WITH (pages_per_range = 1, delta_limit = 16384, autosummarize = on)",
        settings()
    ));
    let (mut rows, mut most) = (0, 0.0f64);
    let mut rng = Rng::with_seed(seed());
    while rows < 12_000 {
        let count = rng.u32(1..200);
        session.run(&format!(
            "INSERT INTO t SELECT i, ARRAY(SELECT i * 300 + n FROM generate_series(1, 300) n)
             FROM generate_series({rows}, {rows} + {count} - 1) i"
        ));
        rows += count;
        let ranges = session.number("SELECT ranges FROM skip_index_info('t_skip')");
        let segments = session.number("SELECT segments FROM skip_index_info('t_skip')");
        println!("{rows} {ranges} {segments}");
        assert!(segments <= bound(ranges), "{segments} segments of {ranges} ranges");
        most = most.max(segments);
    }
    println!("at most {most} segments");
    let key = rng.u32(..rows) * 300 + 17;
    same(&mut session, "t", &Question::using("t_skip", format!("a @> ARRAY[{key}]")));
    sound(&mut session, "t_skip");
}

on_shared!(values_that_come_during_a_merge);
/// Values come into ranges whose segments are being merged, some pages of which are copied already.
fn values_that_come_during_a_merge(database: &Database) {
    let mut session = database.session();
    session.run(&format!("{TABLE}; {}", settings()));
    let mut rng = Rng::with_seed(seed());
    let (mut rows, mut met) = (0, 0);
    while met < 12 && rows < 300_000 {
        insert(&mut session, rows, 500);
        rows += 500;
        let begun = unfinished(shared::server(), &mut session);
        let Some(merge) = begun.iter().find(|merge| merge.pages > 0) else { continue };
        met += 1;
        // Updated rows stay on their pages, which are half empty. Their values are folded, at the latest with the last.
        let (first, end) = (merge.first_range, merge.first_range + merge.width);
        let key = rng.u32(1..1000) * 1_000_000;
        session.run(&format!(
            "UPDATE t SET k = {key} + id, v = 'u' || {key} + id
             WHERE ctid >= '({first},0)' AND ctid < '({end},0)' AND id % 2 = {}",
            rng.u32(..2)
        ));
        session.run("ALTER INDEX t_skip SET (delta_limit = 8192)");
        session.run(&format!(
            "UPDATE t SET k = k + 1 WHERE ctid >= '({first},0)' AND ctid < '({end},0)' AND id % 31 = 0"
        ));
        session.run("ALTER INDEX t_skip SET (delta_limit = 16384)");
        if met % 4 == 0 {
            sound(&mut session, "t_skip");
        }
    }
    assert_eq!(met, 12, "merges in steps");
    // Those merges are published.
    insert(&mut session, rows, 20_000);
    rows += 20_000;
    sound(&mut session, "t_skip");
    for _ in 0..20 {
        let id = rng.u32(1..rows);
        let key = session.one(&format!("SELECT k FROM t WHERE id = {id}"));
        same(&mut session, "t", &Question::using("t_skip", format!("k = {key}")));
    }
}

on_shared!(inserters_and_readers_during_merges);
fn inserters_and_readers_during_merges(database: &Database) {
    let mut session = database.session();
    session.run(&format!("ALTER DATABASE {} SET pg_skip.merge_pages = 2", database.name));
    session.run(&format!("ALTER DATABASE {} SET pg_skip.key_part_pages = 3", database.name));
    concurrency::table(&mut session, "pages_per_range = 1, delta_limit = 8192");
    let (seed, until) = (seed(), Instant::now() + Duration::from_secs(6));
    let grow = |number: u64| {
        let (mut session, mut rng) = (database.session(), Rng::with_seed(seed + number));
        while Instant::now() < until {
            let key = rng.u32(..3000);
            session.run(&format!(
                "INSERT INTO t (k, v) SELECT ({key} + i * 7) % 3000, i FROM generate_series(1, 400) i"
            ));
        }
    };
    together(vec![
        Box::new(|| grow(0)),
        Box::new(|| grow(1)),
        Box::new(|| concurrency::write(database, seed + 2, until)),
        Box::new(|| concurrency::read(database, seed + 3, until)),
        Box::new(|| concurrency::read(database, seed + 4, until)),
        Box::new(|| concurrency::maintain(database, &["SELECT pg_sleep(1)", "VACUUM t"], until)),
    ]);
    concurrency::settled(&mut session);
}

alone!(crash_during_a_merge);
/// A server that is killed while a merge is unfinished goes on with it.
fn crash_during_a_merge() {
    let server =
        Server::start(&["checkpoint_timeout=1h", "pg_skip.merge_pages=3", "pg_skip.key_part_pages=3"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    session.run(TABLE);
    let (mut rows, mut met) = (0, 0);
    while met < 4 && rows < 300_000 {
        insert(&mut session, rows, 1000);
        rows += 1000;
        if unfinished(&server, &mut session).iter().any(|merge| merge.pages > 0) {
            met += 1;
            insert(&mut session, rows, 1500);
            session.run("UPDATE t SET k = -k WHERE id % 97 = 0");
            rows += 1500;
            drop(session);
            server.stop_immediately();
            server.restart();
            session = server.connect("skip_template");
            sound(&mut session, "t_skip");
        }
    }
    assert_eq!(met, 4, "merges in steps");
    insert(&mut session, rows, 20_000);
    sound(&mut session, "t_skip");
    drop(session);
    server.finish();
}
