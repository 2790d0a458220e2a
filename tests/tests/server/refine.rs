//! New ranges of a table that has grown get lower rates: longer fingerprints, larger filters. What is there stays as it
//! is, so one column has segments of several forms, which are looked up, merged, folded into, rebuilt and verified
//! beside each other.
//!
//! With default rates that happens from ten gigabytes on. Here an index is mostly built with a high rate, which is then
//! reset.
use crate::lost_blocks::lengthened;
use crate::rebuild::FAILING;
use crate::registry::{alone, on_shared};
use crate::rescan::{WAITING, wait_for};
use crate::shared::{self, Database};
use fastrand::Rng;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::seed;
use pg_skip_tests::server::{Server, install};
use pg_skip_tests::session::Session;
use std::fs::File;

/// `k` is unique, each value of `d` is in 40 rows after each other, and `n` in one of 50 rows anywhere.
fn table(session: &mut Session, layout: &str, rate: &str) {
    session.run(&format!(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, d int, n int) WITH (fillfactor = 60);
         SET pg_skip.merge_pages = 6;
         CREATE INDEX t_skip ON t USING skip (k, d, n)
             WITH (layout = {layout}, false_positive_rate = {rate}, pages_per_range = 4, autosummarize = on)"
    ));
}

fn insert(session: &mut Session, first: u32, count: u32) {
    session.run(&format!(
        "INSERT INTO t (k, d, n) SELECT i, i / 40, nullif(i * 7919 % 50, 0)
         FROM generate_series({first}, {first} + {count} - 1) i"
    ));
}

/// Inserts by statements of varying size, until there are `rows` rows.
fn grow(session: &mut Session, rng: &mut Rng, rows: std::ops::Range<u32>) {
    let mut first = rows.start;
    while first < rows.end {
        let count = rng.u32(1..4000).min(rows.end - first);
        insert(session, first, count);
        first += count;
    }
}

fn ask(session: &mut Session, rng: &mut Rng, rows: u32) {
    let mut key = || rng.u32(..rows);
    let list = |keys: [u32; 4]| keys.map(|key| key.to_string()).join(", ");
    for condition in [
        format!("k = {}", key()),
        format!("k = {}", rows + key()),
        format!("k IN ({})", list([key(), key(), key(), rows + key()])),
        format!("k = ANY ('{{{}, {}}}'::int[]) AND d > 0", list([key(), key(), 7, 8]), list([9; 4])),
        format!("d = {}", key() / 40),
        format!("d IN ({}) AND n = {}", list([key() / 40, key() / 40, key() / 40, 1]), key() % 50),
        format!("n = {} AND d = {}", key() % 50, key() / 40),
        format!("n IS NULL AND d = {}", key() / 40),
    ] {
        same(session, "t", &Question::using("t_skip", condition));
    }
}

/// What the segments of a column have, one for each form.
fn forms(session: &mut Session, what: &str, column: u32) -> Vec<String> {
    session.column(&format!(
        "SELECT DISTINCT {what} AS form FROM skip_index_segments('t_skip') WHERE attnum = {column} ORDER BY form"
    ))
}

fn segments(session: &mut Session) -> f64 {
    session.number("SELECT max(segments) FROM skip_index_info('t_skip')")
}

/// The rest of a life of a table that has grown: rows are changed everywhere, and go.
fn live_on(session: &mut Session, rng: &mut Rng, rows: u32) {
    session.run("SET pg_skip.vacuum_rebuild_pages = 0");
    for round in 1..=3 {
        session.run(&format!("UPDATE t SET k = k + {rows}, d = d + 100000 WHERE id % 7 = {round}"));
        ask(session, rng, rows * 2);
        session.run("VACUUM t");
        ask(session, rng, rows * 2);
        sound(session, "t_skip");
    }
    session.run("RESET pg_skip.vacuum_rebuild_pages; DELETE FROM t WHERE id % 3 = 0");
    session.run("VACUUM t");
    ask(session, rng, rows * 2);
    sound(session, "t_skip");
    session.run("SELECT skip_summarize('t_skip')");
    ask(session, rng, rows * 2);
    sound(session, "t_skip");
}

on_shared!(fingerprints_get_longer);
fn fingerprints_get_longer(database: &Database) {
    let (mut session, mut rng) = (database.session(), Rng::with_seed(seed()));
    table(&mut session, "map", "0.1");
    insert(&mut session, 0, 4000);
    session.run("ALTER INDEX t_skip RESET (false_positive_rate)");
    for rows in [4000..40_000, 40_000..120_000, 120_000..240_000] {
        grow(&mut session, &mut rng, rows.clone());
        ask(&mut session, &mut rng, rows.end);
        sound(&mut session, "t_skip");
    }
    let lengths = forms(&mut session, "fingerprint_bits", 1);
    assert!(lengths.len() >= 3, "fingerprints of {lengths:?} bits");
    let new = session.one("SELECT fingerprint_bits FROM skip_index_info('t_skip') WHERE attnum = 1");
    assert_eq!(lengths.last(), Some(&new), "new maps are made as the meta page says");
    // A lookup reads about a page in vain of each form, in place of a tenth of 8,000 pages. A batch is added before the
    // fingerprints get longer.
    let vain = "SELECT expected_false_positive_rate * summarized * pages_per_range
        FROM skip_index_info('t_skip') WHERE attnum = 1";
    let read = session.number(vain);
    assert!(read <= 1.2 * lengths.len() as f64, "{read} pages are read in vain");
    assert!(segments(&mut session) <= 13.0, "{} segments", segments(&mut session));
    live_on(&mut session, &mut rng, 240_000);
    assert_eq!(forms(&mut session, "fingerprint_bits", 1), lengths, "maps of each form stay");
    let apart = session.column(
        "SELECT fingerprint_bits FROM skip_index_segments('t_skip')
         WHERE attnum = 1 AND kind = 'map' ORDER BY first_range",
    );
    let mut sorted = apart.clone();
    sorted.sort_by_key(|bits| bits.parse::<u32>().expect("a number"));
    assert_eq!(apart, sorted, "older maps come first");
    session.run("REINDEX INDEX t_skip");
    assert_eq!(forms(&mut session, "fingerprint_bits", 1).len(), 1);
    ask(&mut session, &mut rng, 480_000);
}

on_shared!(filters_get_larger);
fn filters_get_larger(database: &Database) {
    let (mut session, mut rng) = (database.session(), Rng::with_seed(seed()));
    table(&mut session, "filters", "0.1");
    insert(&mut session, 0, 4000);
    session.run("ALTER INDEX t_skip RESET (false_positive_rate)");
    grow(&mut session, &mut rng, 4000..240_000);
    ask(&mut session, &mut rng, 240_000);
    sound(&mut session, "t_skip");
    assert_eq!(forms(&mut session, "num_probes", 1), ["3", "14"], "probes of filters");
    let rate = "SELECT false_positive_rate FROM skip_index_info('t_skip') WHERE attnum = 1";
    assert_eq!(session.one(rate), "0.0001", "the default, as the table is small");
    // 128 pages are a tenth of 320 ranges of 4 pages.
    let old = "SELECT sum(width) FROM skip_index_segments('t_skip') WHERE attnum = 1 AND num_probes = 3";
    let old = session.number(old);
    assert!((300.0..=330.0).contains(&old), "{old} ranges have the old rate");
    live_on(&mut session, &mut rng, 240_000);
    // Those with the rate that was reset are far above the default: VACUUM makes them anew.
    assert_eq!(forms(&mut session, "num_probes", 1), ["14"]);
}

alone!(filters_of_ten_gigabytes);
/// With default options: 128 pages of 10.2 GB would be read in vain. Most of the table is holes in its files.
fn filters_of_ten_gigabytes() {
    const BLOCKS_OF_FILE: u64 = 131_072;
    let server = Server::start(&["autovacuum=off"]);
    shared::prepare(&server);
    let mut session = server.connect("skip_template");
    let insert =
        |from: u32, to: u32| format!("INSERT INTO t SELECT i, i FROM generate_series({from}, {to}) i");
    session.run(
        "CREATE TABLE t (id int, k int);
         CREATE INDEX t_skip ON t USING skip (k) WITH (layout = filters, pages_per_range = 128)",
    );
    session.run(&insert(1, 40_000));
    let blocks = session.number("SELECT pg_relation_size('t') / 8192") as u64;
    lengthened(&server, session, "t", BLOCKS_OF_FILE - blocks);
    // Further files of the table.
    let add_files = |numbers: std::ops::Range<u64>| {
        let path = server.connect("skip_template").one("SELECT pg_relation_filepath('t')");
        server.stop();
        for number in numbers {
            let file = server.data().join(format!("{path}.{number}"));
            File::create(&file)
                .and_then(|file| file.set_len(BLOCKS_OF_FILE * 8192))
                .expect("a file of the table");
            install().own(&file);
        }
        server.restart();
        let mut session = server.connect("skip_template");
        session.run("SELECT skip_summarize('t_skip')");
        session
    };
    let rate = "SELECT false_positive_rate FROM skip_index_info('t_skip')";
    let mut session = add_files(1..9);
    assert_eq!(session.one(rate), "0.0001", "118 pages are read in vain");
    drop(session);
    let mut session = add_files(9..10);
    session.run(&insert(40_001, 80_000));
    session.run("SELECT skip_summarize('t_skip')");
    let (lower, blocks) = (session.number(rate), session.number("SELECT pg_relation_size('t') / 8192"));
    assert!((0.9..1.1).contains(&(12.8 / blocks / lower)), "{lower} for {blocks} blocks");
    assert_eq!(forms(&mut session, "num_probes", 1), ["14", "17"]);
    let older = session.number("SELECT sum(width) FROM skip_index_segments('t_skip') WHERE num_probes = 14");
    assert_eq!(older * 128.0, (9 * BLOCKS_OF_FILE) as f64, "blocks with the old rate");
    let pending = "SELECT pending_options FROM skip_index_info('t_skip')";
    assert_eq!(session.one(&format!("SELECT ({pending}) IS NULL")), "t");
    for key in [1, 40_000, 40_001, 80_000, 80_001] {
        same(&mut session, "t", &Question::using("t_skip", format!("k = {key}")));
    }
    sound(&mut session, "t_skip");
    drop(session);
    server.finish();
}

on_shared!(a_rate_that_is_set_stays);
fn a_rate_that_is_set_stays(database: &Database) {
    let (mut session, mut rng) = (database.session(), Rng::with_seed(seed()));
    for (layout, what) in [("map", "fingerprint_bits"), ("filters", "num_probes")] {
        session.run("DROP TABLE IF EXISTS t");
        table(&mut session, layout, "0.1");
        insert(&mut session, 0, 4000);
        let before = forms(&mut session, what, 1);
        grow(&mut session, &mut rng, 4000..60_000);
        session.run("VACUUM t");
        assert_eq!(forms(&mut session, what, 1), before, "{layout}");
    }
}

on_shared!(each_column_has_its_rate);
/// A column's own rate stays when that of the index is reset.
fn each_column_has_its_rate(database: &Database) {
    let (mut session, mut rng) = (database.session(), Rng::with_seed(seed()));
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, d int, n int);
         CREATE INDEX t_skip ON t USING skip (k int4_skip_ops (false_positive_rate = 0.05, pages_per_range = 2), n,
             d int4_skip_ops (pages_per_range = 1))
             WITH (layout = map, false_positive_rate = 0.2, pages_per_range = 4)",
    );
    insert(&mut session, 0, 4000);
    session.run("ALTER INDEX t_skip RESET (false_positive_rate)");
    grow(&mut session, &mut rng, 4000..120_000);
    let lengths = [1, 2, 3].map(|column| forms(&mut session, "fingerprint_bits", column).len());
    assert!(lengths[0] == 1 && lengths[2] >= 2, "{lengths:?} forms");
    ask(&mut session, &mut rng, 120_000);
    sound(&mut session, "t_skip");
    live_on(&mut session, &mut rng, 120_000);
}

on_shared!(open_ranges_of_older_maps_are_closed);
/// What closes them has the form of the maps there, so it becomes a part of these.
fn open_ranges_of_older_maps_are_closed(database: &Database) {
    let mut session = database.session();
    session.run(&format!(
        "{FAILING} CREATE TABLE t (id int, k int);
         CREATE INDEX t_skip ON t USING skip (same(k))
             WITH (layout = map, pages_per_range = 1, false_positive_rate = 0.1, autosummarize = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 20000) i;
         SELECT skip_summarize('t_skip');
         INSERT INTO t SELECT i, i FROM generate_series(20001, 40000) i;
         INSERT INTO broken SELECT generate_series(20001, 40000, 3); ANALYZE broken;
         SELECT skip_summarize('t_skip');
         ALTER INDEX t_skip RESET (false_positive_rate);
         INSERT INTO t SELECT i, i FROM generate_series(40001, 80000) i;
         SELECT skip_summarize('t_skip')"
    ));
    assert_eq!(forms(&mut session, "fingerprint_bits", 1).len(), 2);
    let open = "SELECT max(ranges - summarized) FROM skip_index_info('t_skip')";
    assert!(session.number(open) > 50.0, "{open}");
    session.run("TRUNCATE broken");
    session.run("VACUUM t");
    assert_eq!(session.number(open), 0.0);
    let additions = "SELECT count(*) FROM skip_index_segments('t_skip') WHERE kind = 'addition'";
    assert_eq!(session.number(additions), 0.0);
    for key in [1, 20_000, 20_001, 30_000, 40_000, 40_001, 80_000, 80_001] {
        same(&mut session, "t", &Question::using("t_skip", format!("same(k) = {key}")));
    }
    sound(&mut session, "t_skip");
}

on_shared!(values_of_several_keys);
/// A search for an element may read 2,000 pages in vain. Fragments keep their rate. A row fills a page.
fn values_of_several_keys(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, tags int[], s text, filler text DEFAULT repeat('x', 6500));
         ALTER TABLE t ALTER filler SET STORAGE PLAIN;
         CREATE INDEX t_skip ON t USING skip (tags array_element_skip_ops, s text_ngram_skip_ops)
             WITH (layout = map, pages_per_range = 1, false_positive_rate = 0.2, autosummarize = off)",
    );
    let insert = |from: u32, to: u32| {
        format!(
            "INSERT INTO t SELECT i, ARRAY(SELECT i * 64 + j FROM generate_series(0, 60) j), md5(i::text)
             FROM generate_series({from}, {to}) i"
        )
    };
    session.run(&insert(1, 100));
    session.run("SELECT skip_summarize('t_skip')");
    session.run("ALTER INDEX t_skip RESET (false_positive_rate)");
    let vain =
        "SELECT expected_false_positive_rate * summarized FROM skip_index_info('t_skip') WHERE attnum = 1";
    let mut counted = Vec::new();
    for (from, to) in [(101, 13_000), (13_001, 21_000)] {
        session.run(&insert(from, to));
        session.run("SELECT skip_summarize('t_skip')");
        counted.push([1, 2].map(|column| forms(&mut session, "fingerprint_bits", column).len()));
        println!("{} pages in vain of {to}", session.number(vain));
    }
    assert_eq!(counted, [[1, 1], [2, 1]], "forms of maps of elements and fragments");
    assert!((1000.0..2000.0).contains(&session.number(vain)), "{} pages", session.number(vain));
    for condition in
        ["tags @> '{640}'", "tags @> '{1280000, 1280001}'", "s LIKE '%c4ca4238a0%'", "tags @> '{63}'"]
    {
        same(&mut session, "t", &Question::using("t_skip", condition));
    }
    sound(&mut session, "t_skip");
}

on_shared!(each_form_is_rebuilt);
/// Pairs of rows that are gone leave the maps of all forms, not only the first ones, in steps of a few pages too.
fn each_form_is_rebuilt(database: &Database) {
    let (mut session, mut rng) = (database.session(), Rng::with_seed(seed()));
    table(&mut session, "map", "0.1");
    insert(&mut session, 0, 4000);
    session.run("ALTER INDEX t_skip RESET (false_positive_rate)");
    grow(&mut session, &mut rng, 4000..120_000);
    let of_forms = "SELECT fingerprint_bits, sum(pairs) FROM skip_index_segments('t_skip')
        WHERE attnum = 1 GROUP BY 1 ORDER BY 1";
    let pairs = |session: &mut Session| -> Vec<f64> {
        let number =
            |row: &Vec<Option<String>>| row[1].as_ref().and_then(|n| n.parse().ok()).expect("a number");
        session.rows(of_forms).iter().map(number).collect()
    };
    let fresh = pairs(&mut session);
    assert!(fresh.len() >= 2, "{fresh:?}");
    session.run("SET pg_skip.vacuum_rebuild_pages = 0");
    for _ in 0..3 {
        session.run("UPDATE t SET k = k + 1000000");
        session.run("VACUUM t");
    }
    let bits = forms(&mut session, "fingerprint_bits", 1);
    let full = pairs(&mut session);
    session.run("SET pg_skip.vacuum_rebuild_pages = 500");
    for _ in 0..30 {
        session.run("VACUUM t");
        let key = 3_000_000 + rng.u32(..120_000);
        same(&mut session, "t", &Question::using("t_skip", format!("k IN ({key}, {})", key - 1_000_000)));
    }
    let rebuilt = pairs(&mut session);
    assert_eq!(forms(&mut session, "fingerprint_bits", 1), bits);
    println!("{fresh:?} pairs, {full:?} after updates, {rebuilt:?} rebuilt");
    let is_less = |(full, rebuilt): (&f64, &f64)| *rebuilt < 0.7 * full;
    assert!(full.len() == fresh.len() && full.iter().zip(&rebuilt).all(is_less), "{full:?}, {rebuilt:?}");
    sound(&mut session, "t_skip");
    ask(&mut session, &mut rng, 3_120_000);
}

on_shared!(maps_change_while_others_are_rebuilt);
/// Before the maps of the first form are rebuilt, the delta is folded, and additions to those of the second form are
/// merged, while VACUUM waits in its sample of the table. What VACUUM then finds of the second form must not come from
/// pages that are free. This test seldom tells, as they are not used again so soon; `key_part_races.rs` does with some
/// seeds.
fn maps_change_while_others_are_rebuilt(database: &Database) {
    let (mut session, mut maintainer) = (database.session(), database.session());
    session.run(WAITING);
    session.run(
        "CREATE TABLE t (id int, k int, pad text DEFAULT repeat('x', 100)) WITH (fillfactor = 40);
         CREATE INDEX t_skip ON t USING skip (waiting(k)) WITH (layout = map, false_positive_rate = 0.1,
             pages_per_range = 1, autosummarize = off, delta_limit = 1048576);
         INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;
         INSERT INTO t VALUES (0, -1);
         INSERT INTO t SELECT i, i FROM generate_series(101, 6000) i;
         SELECT skip_summarize('t_skip');
         ALTER INDEX t_skip RESET (false_positive_rate);
         INSERT INTO t SELECT i, i FROM generate_series(6001, 40000) i",
    );
    session.run("SELECT skip_summarize('t_skip')");
    assert_eq!(forms(&mut session, "fingerprint_bits", 1).len(), 2);
    session.run("SET pg_skip.vacuum_rebuild_pages = 0");
    for round in 1..=5 {
        session.run(&format!("UPDATE t SET k = {round} * 100000 + id WHERE id > 0"));
        session.run("VACUUM t");
    }
    // An addition, which does not become a part of the maps below it.
    session.run("UPDATE t SET k = 600000 + id WHERE id % 4 = 1 AND id > 6000");
    session.run("VACUUM t");
    let additions = "SELECT count(*) FROM skip_index_segments('t_skip') WHERE kind = 'addition'";
    assert_eq!(session.number(additions), 1.0);
    session.run("SELECT pg_advisory_lock(77)");
    std::thread::scope(|scope| {
        let rebuild = scope.spawn(|| maintainer.try_rows("VACUUM t"));
        wait_for(&mut session, 77, || !rebuild.is_finished());
        session.run("UPDATE t SET k = 700000 + id WHERE id % 4 = 3");
        session.run("SELECT pg_advisory_unlock(77)");
        let outcome = rebuild.join().expect("a thread that only asks");
        assert!(outcome.is_ok(), "{:?}", outcome.err());
    });
    for key in [700_003, 705_999, 706_003, 739_999, 639_997, -1] {
        same(&mut session, "t", &Question::using("t_skip", format!("waiting(k) = {key}")));
    }
    sound(&mut session, "t_skip");
}

on_shared!(distinct_keys_are_known);
/// The planner takes the number of distinct keys from the maps of the form that has the most pairs.
fn distinct_keys_are_known(database: &Database) {
    let (mut session, mut rng) = (database.session(), Rng::with_seed(seed()));
    table(&mut session, "map", "0.1");
    insert(&mut session, 0, 4000);
    session.run("ALTER INDEX t_skip RESET (false_positive_rate)");
    grow(&mut session, &mut rng, 4000..160_000);
    for column in [1, 2] {
        assert!(forms(&mut session, "fingerprint_bits", column).len() >= 2);
    }
    // Statistics of few rows, which find `n` distinct and `d` not.
    session
        .run("ALTER TABLE t ALTER id SET STATISTICS 1, ALTER k SET STATISTICS 1, ALTER d SET STATISTICS 1");
    session.run("ALTER TABLE t ALTER n SET STATISTICS 1; SELECT setseed(0.5); ANALYZE t");
    for (column, distinct) in [("k", 160_000.0), ("d", 4_000.0)] {
        let plan = session.plan(&format!("SELECT {column} FROM t GROUP BY {column}"));
        let (_, rows) = plan.split_once("rows=").expect("a number of rows");
        let found: f64 = rows.split(' ').next().and_then(|rows| rows.parse().ok()).expect("a number");
        assert!(
            (0.4..2.5).contains(&(found / distinct)),
            "{found} distinct values of {column}, not {distinct}"
        );
    }
}
