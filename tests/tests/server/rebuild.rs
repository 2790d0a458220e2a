//! Rebuilding: VACUUM and skip_summarize replace filters that have filled up, maps with many pairs of rows that are
//! gone, and segments that varying filter sizes have cut to pieces. What goes on meanwhile is in `rescan.rs`.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::session::Session;

/// A function that fails for the keys in a table.
pub const FAILING: &str = "CREATE TABLE broken (k int); CREATE INDEX ON broken (k);
    CREATE FUNCTION same(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
        BEGIN
            IF EXISTS (SELECT FROM public.broken WHERE k = $1) THEN RAISE 'broken'; END IF;
            RETURN $1;
        END $$;";

pub const LAYOUTS: [&str; 2] = ["filters", "map"];

/// A table of rows whose keys are 1 to `rows`, and whose pages have room for as many new versions.
pub fn table(session: &mut Session, rows: u32, layout: &str, options: &str) {
    session.run(&format!(
        "DROP TABLE IF EXISTS t;
         CREATE TABLE t (id int, k int, d int, pad text DEFAULT repeat('x', 60)) WITH (fillfactor = 40);
         INSERT INTO t SELECT i, i, i / 50 FROM generate_series(1, {rows}) i;
         CREATE INDEX t_skip ON t USING skip (k, d) WITH (layout = {layout}, autosummarize = off{options})"
    ));
}

/// The target rate, the expected one of the worst column, and the size of the index in bytes.
pub fn info(session: &mut Session) -> [f64; 3] {
    let sql = "SELECT max(false_positive_rate), max(expected_false_positive_rate), sum(bytes)
        FROM skip_index_info('t_skip')";
    let row = session.rows(sql).remove(0);
    [0, 1, 2].map(|place| row[place].as_ref().and_then(|text| text.parse().ok()).expect("a number"))
}

/// The average part of the ranges that the lookups of keys which no row has any more would read. The two worst of the
/// hundred keys do not count: in a map of few pairs, one key in some 30,000 has the fingerprint of the mark that all
/// ranges have, and matches them all.
fn read_in_vain(session: &mut Session, gone: &str) -> f64 {
    let ranges = session.number("SELECT max(ranges) FROM skip_index_info('t_skip')");
    let of_each = format!(
        "SELECT (SELECT count(*) FROM skip_matching_ranges('t_skip', 'k', key)) AS n FROM {gone} ORDER BY n LIMIT 98"
    );
    session.number(&format!("SELECT sum(n) / 98 FROM ({of_each}) AS found")) / ranges
}

#[track_caller]
pub fn all_found(session: &mut Session) {
    for key in ["1", "17", "40", "1000017", "3000017", "12000017", "-5", "(SELECT max(k) FROM t)"] {
        same(session, "t", &Question::any(format!("k = {key}")));
    }
    for condition in ["d = 7", "d IS NULL", "k IS NOT NULL AND d = 11"] {
        same(session, "t", &Question::any(condition));
    }
    sound(session, "t_skip");
}

on_shared!(short_of_disk_space);
/// VACUUM needs temporary files to rebuild maps. If it may not have them, it processes the table all the same, and
/// merges segments; a later one rebuilds the maps.
fn short_of_disk_space(database: &Database) {
    let mut session = database.session();
    session.run("SET maintenance_work_mem = '1MB'");
    table(&mut session, 60_000, "map", ", pages_per_range = 1");
    session.run("SET pg_skip.vacuum_rebuild_pages = 0");
    session.run("VACUUM t");
    session.run("UPDATE t SET k = 1000000 + id, d = d + 1000");
    session.run("VACUUM t");
    session.run("RESET pg_skip.vacuum_rebuild_pages; SET temp_file_limit = 0");
    assert_eq!(session.error("SELECT skip_summarize('t_skip')").code().code(), "53400");
    session.run("RESET temp_file_limit");
    // The rebuild is left as after a crash. Rows that come now go to the delta, and must be in the new maps later.
    session.run("UPDATE t SET k = 12000000 + id, d = 7 WHERE id % 97 = 17");
    session.run("INSERT INTO t SELECT 60000 + i, 3000000 + i, i FROM generate_series(1, 500) i");
    all_found(&mut session);
    let frozen = "SELECT relfrozenxid FROM pg_class WHERE oid = 't'::regclass";
    let before = session.one(frozen);
    session.run("SET temp_file_limit = 0");
    session.run("VACUUM (FREEZE) t");
    session.run("RESET temp_file_limit");
    assert_ne!(session.one(frozen), before, "the table was not vacuumed");
    // A row whose keys its block range has needs no entry in the delta, because no rebuild is left.
    session.run("UPDATE t SET k = 1000017, d = 1000 WHERE id = 16");
    assert_eq!(session.number("SELECT sum(delta_entries) FROM skip_index_info('t_skip')"), 0.0);
    all_found(&mut session);
    session.run("SET temp_file_limit = 0");
    for round in 1..=6 {
        let (first, last) = (60_001 + round * 1000, 61_000 + round * 1000);
        session
            .run(&format!("INSERT INTO t SELECT i, 3000000 + i, i FROM generate_series({first}, {last}) i"));
        session.run("VACUUM t");
    }
    let segments = session.number("SELECT max(segments) FROM skip_index_info('t_skip')");
    assert!(segments <= 4.0, "{segments} segments were not merged");
    session.run("RESET temp_file_limit");
    all_found(&mut session);
    let pairs = "SELECT sum(pairs) FROM skip_index_segments('t_skip')";
    let before = session.number(pairs);
    session.run("VACUUM t");
    let after = session.number(pairs);
    assert!(after < before * 0.75, "{before} pairs, then {after}: the maps were not rebuilt");
    all_found(&mut session);
}

on_shared!(new_ranges_where_old_ones_stay_open);
/// To close many open ranges of a map, VACUUM needs temporary files. If it may not have them, it summarizes the new
/// ranges all the same, and closes the others later.
fn new_ranges_where_old_ones_stay_open(database: &Database) {
    let mut session = database.session();
    session.run(&format!(
        "{FAILING} SET maintenance_work_mem = '1MB';
         CREATE TABLE t (id int, k int, d int);
         CREATE INDEX t_skip ON t USING skip (same(k), d)
             WITH (layout = map, autosummarize = off, pages_per_range = 1);
         INSERT INTO t SELECT i, i, i / 50 FROM generate_series(1, 2000) i"
    ));
    session.run("VACUUM t"); // chooses the maps by what these rows have
    session.run(
        "INSERT INTO t SELECT i, i, i / 50 FROM generate_series(2001, 150000) i;
         INSERT INTO broken SELECT generate_series(1, 150000); ANALYZE broken",
    );
    session.run("VACUUM t");
    let summarized = "SELECT min(summarized) FROM skip_index_info('t_skip')";
    let before = session.number(summarized);
    assert!(before < 20.0, "{before} ranges are not open");
    session.run("TRUNCATE broken; INSERT INTO t SELECT i, i, i / 50 FROM generate_series(200001, 205000) i");
    session.run("SET temp_file_limit = 0");
    session.run("VACUUM t");
    session.run("RESET temp_file_limit");
    let new = session.number(summarized) - before;
    assert!((20.0..40.0).contains(&new), "{new} ranges are summarized");
    let counted = "SELECT count(*) FROM skip_matching_ranges('t_skip', 'd', 4100)";
    let found = session.number(counted);
    let open = session.number("SELECT max(ranges - summarized) FROM skip_index_info('t_skip')");
    assert!(found <= open + 4.0, "{found} ranges are read, {open} are open");
    same(&mut session, "t", &Question::any("same(k) = 203456"));
    session.run("VACUUM t");
    let left = session.number("SELECT max(ranges - summarized) FROM skip_index_info('t_skip')");
    assert!(left <= 1.0, "{left} ranges are still open");
    for condition in ["same(k) = 203456", "same(k) = 77777", "d = 4100", "d = 11"] {
        same(&mut session, "t", &Question::any(condition));
    }
    sound(&mut session, "t_skip");
}

on_shared!(rows_come_while_rebuilds_fail);
/// Another session changes rows while VACUUM begins rebuilds that fail. Each row is found, then and after one succeeds.
fn rows_come_while_rebuilds_fail(database: &Database) {
    let (mut session, mut writer) = (database.session(), database.session());
    session.run("SET maintenance_work_mem = '1MB'");
    table(&mut session, 60_000, "map", ", pages_per_range = 1");
    session.run("SET pg_skip.vacuum_rebuild_pages = 0; UPDATE t SET k = 1000000 + id, d = d + 1000");
    session.run("VACUUM t");
    session.run("RESET pg_skip.vacuum_rebuild_pages; SET temp_file_limit = 0");
    let writing = std::thread::spawn(move || {
        for round in 0..200 {
            let (from, to) = (round * 300, round * 300 + 40);
            writer.run(&format!("UPDATE t SET k = 12000000 + id WHERE id BETWEEN {from} AND {to}"));
            writer.run(&format!("INSERT INTO t SELECT 100000 + {round}, 13000000 + {round}, {round}"));
        }
    });
    let mut failures = 0;
    while !writing.is_finished() {
        session.run("VACUUM t");
        failures += 1;
    }
    writing.join().expect("the writer");
    assert!(failures > 0);
    session.run("RESET temp_file_limit");
    all_found(&mut session);
    for round in [0, 77, 199] {
        let (updated, inserted) = (12_000_000 + round * 300 + 7, 13_000_000 + round);
        for key in [updated, inserted] {
            same(&mut session, "t", &Question::any(format!("k = {key}")));
        }
    }
    session.run("VACUUM t");
    all_found(&mut session);
}

on_shared!(updates_of_every_key);
/// After every key was updated several times, VACUUM alone makes the index as good as a new one.
fn updates_of_every_key(database: &Database) {
    let mut session = database.session();
    for layout in LAYOUTS {
        for rounds in [3, 12] {
            table(&mut session, 8000, layout, ", pages_per_range = 1, false_positive_rate = 0.001");
            session.run("SET pg_skip.vacuum_rebuild_pages = 0");
            for round in 1..=rounds {
                session.run(&format!("UPDATE t SET k = {round} * 1000000 + id, d = d + 1000"));
                session.run("VACUUM t");
            }
            let gone = "(SELECT 1000000 + i * 79 AS key FROM generate_series(1, 100) i) AS gone";
            let before = (info(&mut session), read_in_vain(&mut session, gone));
            session.run("RESET pg_skip.vacuum_rebuild_pages");
            session.run("VACUUM t");
            let after = (info(&mut session), read_in_vain(&mut session, gone));
            all_found(&mut session);
            session.run("REINDEX INDEX t_skip");
            let fresh = (info(&mut session), read_in_vain(&mut session, gone));
            println!("{layout}, {rounds} updates: {before:?}\nVACUUM: {after:?}\nREINDEX: {fresh:?}");
            let [rate, expected, bytes] = after.0;
            assert!(expected <= 2.0 * rate, "{layout}: {expected} instead of {rate}");
            assert!(bytes <= 1.2 * fresh.0[2], "{layout}: {bytes} bytes, {} when built at once", fresh.0[2]);
            assert!(after.1 <= fresh.1 + 0.003, "{layout}: {} of the ranges are read in vain", after.1);
            if layout == "map" {
                assert!(before.0[2] > 1.2 * bytes, "nothing to rebuild");
            } else {
                assert!(before.0[1] > 100.0 * rate, "nothing to rebuild");
            }
        }
    }
}

on_shared!(queue);
/// Rows come and go; each key only once. The index stays as good and as small as a new one.
fn queue(database: &Database) {
    let mut session = database.session();
    for layout in LAYOUTS {
        table(&mut session, 1000, layout, ", pages_per_range = 1");
        for round in 1..=30 {
            let first = round * 1000;
            session.run(&format!(
                "INSERT INTO t SELECT i, i, i / 50 FROM generate_series({first}, {first} + 999) i"
            ));
            session.run(&format!("DELETE FROM t WHERE id < {first}"));
            session.run("VACUUM t");
        }
        let gone = "(SELECT 1000 + i * 197 AS key FROM generate_series(1, 100) i) AS gone";
        let (after, in_vain) = (info(&mut session), read_in_vain(&mut session, gone));
        all_found(&mut session);
        let size = "SELECT pg_relation_size('t_skip') / 8192";
        let pages = session.number(size);
        session.run("REINDEX INDEX t_skip");
        let fresh = (info(&mut session), session.number(size));
        println!("{layout}: {after:?}, {in_vain} in vain, {pages} pages; REINDEX: {fresh:?}");
        assert!(after[1] <= 3.0 * after[0] || layout == "map", "{layout}: {after:?}");
        assert!(in_vain < 0.05, "{layout}: {in_vain} of the ranges are read in vain");
        assert!(
            after[2] <= 2.0 * fresh.0[2],
            "{layout}: {} bytes, {} when built at once",
            after[2],
            fresh.0[2]
        );
        assert!(pages <= fresh.1 + 32.0, "{layout}: {pages} pages, {} when built at once", fresh.1);
    }
}

on_shared!(small_budgets_add_up_to_a_rebuild);
/// VACUUM may read only a few pages at a time: each one brings the index nearer to a new one, the last one all the way.
fn small_budgets_add_up_to_a_rebuild(database: &Database) {
    let mut session = database.session();
    for layout in LAYOUTS {
        table(&mut session, 6000, layout, ", pages_per_range = 1, false_positive_rate = 0.001");
        session.run("SET pg_skip.vacuum_rebuild_pages = 0");
        for round in 1..=4 {
            session.run(&format!("UPDATE t SET k = {round} * 1000000 + id"));
            session.run("VACUUM t");
        }
        session.run("SET pg_skip.vacuum_rebuild_pages = 50");
        let pages = session.number("SELECT pg_relation_size('t') / 8192");
        let [rate, mut expected, mut bytes] = info(&mut session);
        let (mut worse, rounds) = (0, (pages / 50.0).ceil() as usize + 2);
        for _ in 0..rounds {
            session.run("VACUUM t");
            let [_, now, size] = info(&mut session);
            println!("{layout}: {now} {size}");
            // Whether two neighbours are merged may cost a page.
            worse += u32::from(if layout == "map" { size > bytes + 8192.0 } else { now > expected });
            (expected, bytes) = (now, size);
            all_found(&mut session);
        }
        assert_eq!(worse, 0, "{layout}");
        assert!(expected <= 2.0 * rate, "{layout}: {expected} instead of {rate} after {rounds} times");
        session.run("REINDEX INDEX t_skip");
        let fresh = info(&mut session)[2];
        // Where a rebuild ends decides whether two neighbours are merged, which may cost a page.
        assert!(
            bytes <= 1.3 * fresh + 8192.0,
            "{layout}: {bytes} bytes after {rounds} times, {fresh} when built at once"
        );
        session.run("RESET pg_skip.vacuum_rebuild_pages");
    }
}

on_shared!(parts_of_ranges);
/// Maps whose pairs name single pages of a range of several, rebuilt bit by bit and beside filters.
fn parts_of_ranges(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, d int, n int, pad text DEFAULT repeat('x', 60)) WITH (fillfactor = 40);
         INSERT INTO t SELECT i, i, i / 50, nullif(i % 50, 0) FROM generate_series(1, 3000) i;
         CREATE INDEX t_skip ON t USING skip (k int4_skip_ops (layout = map, pages_per_range = 1),
                 d int4_skip_ops (layout = filters), n int4_skip_ops (layout = map, pages_per_range = 2))
             WITH (autosummarize = off, pages_per_range = 4)",
    );
    session.run("SET pg_skip.vacuum_rebuild_pages = 0");
    for round in 1..=4 {
        session.run(&format!("UPDATE t SET k = {round} * 1000000 + id, d = d + 1000, n = nullif(n + 1, 9)"));
        session.run("VACUUM t");
    }
    let pairs = "SELECT sum(pairs) FROM skip_index_segments('t_skip') WHERE attnum = 1";
    let before = session.number(pairs);
    session.run("SET pg_skip.vacuum_rebuild_pages = 37");
    for _ in 0..8 {
        session.run("VACUUM t");
        for condition in
            ["k = 4000017", "k = 3000017", "n IS NULL", "n = 13", "n = 12 AND d = 4003", "d = 4010"]
        {
            same(&mut session, "t", &Question::any(condition));
        }
        sound(&mut session, "t_skip");
    }
    let after = session.number(pairs);
    assert!(after < before / 2.0 && after < 3600.0, "{after} pairs of {before}");
    let key = "SELECT count(*) FROM skip_matching_ranges('t_skip', 'k', 4000017)";
    assert_eq!(session.one(key), "1", "a single page");
}

on_shared!(pieces_of_different_sizes);
/// Neighbours whose filters differ in size cannot be merged. Where one size suits them all, they become one segment.
fn pieces_of_different_sizes(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, d int, pad text DEFAULT repeat('x', 100));
         CREATE INDEX t_skip ON t USING skip (k) WITH (layout = filters, pages_per_range = 4, autosummarize = off)",
    );
    // Each part has more distinct keys in a range than the one before.
    for (part, keys) in [120, 132, 145, 160, 176].into_iter().enumerate() {
        session.run(&format!(
            "INSERT INTO t SELECT i, {part} * 1000000 + i * {keys} / 200, i / 50 FROM generate_series(1, 20000) i"
        ));
        session.run("SET pg_skip.vacuum_rebuild_pages = 0");
        session.run("VACUUM t");
    }
    let segments = "SELECT segments FROM skip_index_info('t_skip')";
    let before = session.number(segments);
    assert!(before >= 4.0, "{before} segments");
    session.run("RESET pg_skip.vacuum_rebuild_pages");
    session.run("VACUUM t");
    let after = session.number(segments);
    assert!(after <= 2.0, "{after} segments of {before}");
    all_found(&mut session);
    let ids = "SELECT string_agg(segment_id::text, ' ') FROM skip_index_segments('t_skip')";
    let before = session.one(ids);
    session.run("VACUUM t");
    assert_eq!(session.one(ids), before, "what is as it should be is not rebuilt");
}

on_shared!(ranges_that_cannot_be_hashed_keep_what_they_have);
/// A function that fails for a row by now: its range keeps the filter that it has, or the pairs, and all others get new
/// ones.
fn ranges_that_cannot_be_hashed_keep_what_they_have(database: &Database) {
    let mut session = database.session();
    session.run(FAILING);
    for layout in LAYOUTS {
        session.run(&format!(
            "DROP TABLE IF EXISTS t; TRUNCATE broken;
             CREATE TABLE t (id int, k int, pad text DEFAULT repeat('x', 60)) WITH (fillfactor = 40);
             INSERT INTO t SELECT i, i FROM generate_series(1, 4000) i;
             CREATE INDEX t_skip ON t USING skip (same(k))
                 WITH (layout = {layout}, autosummarize = off, pages_per_range = 1)"
        ));
        for round in 1..=4 {
            session.run(&format!("UPDATE t SET k = {round} * 1000000 + id"));
            session.run("VACUUM (INDEX_CLEANUP off) t");
        }
        session.run("INSERT INTO broken VALUES (4000700), (4002500)");
        session.run("SELECT skip_summarize('t_skip')");
        let open = session.one("SELECT sum(open_ranges) FROM skip_index_segments('t_skip')");
        assert_eq!(open, "0", "{layout}: the ranges have their filters");
        let matching = |session: &mut Session, key: &str| {
            session.column(&format!("SELECT skip_matching_ranges('t_skip', 'same', {key})"))
        };
        for id in [1, 699, 701, 2499, 2501, 4000] {
            let range = session.one(&format!("SELECT (ctid::text::point)[0]::bigint FROM t WHERE id = {id}"));
            let ranges = matching(&mut session, &format!("4000000 + {id}"));
            assert!(
                ranges.contains(&range) && ranges.len() < 8,
                "{layout}: {id} is in {range}, not in {ranges:?}"
            );
        }
        let range = session.one("SELECT (ctid::text::point)[0]::bigint FROM t WHERE id = 700");
        assert!(matching(&mut session, "4000700").contains(&range), "{layout}: the old filter has the key");
        session.run("TRUNCATE broken");
        sound(&mut session, "t_skip");
        session.run("SELECT skip_summarize('t_skip')");
        sound(&mut session, "t_skip");
    }
}

on_shared!(a_sample_larger_than_memory);
/// Whether a map is worth a rebuild is found with little memory too, from fewer of the pairs.
fn a_sample_larger_than_memory(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k text) WITH (vacuum_truncate = off);
         INSERT INTO t SELECT i, md5(i::text) || md5((-i)::text) FROM generate_series(1, 40000) i;
         CREATE INDEX t_skip ON t USING skip (k text_ngram_skip_ops)
         WITH (layout = map, pages_per_range = 4, false_positive_rate = 0.01)",
    );
    let pairs = "SELECT sum(pairs) FROM skip_index_segments('t_skip')";
    let all = session.number(pairs);
    session.run("SET maintenance_work_mem = '1MB'");
    // Nothing is superfluous.
    session.run("VACUUM t");
    assert_eq!(session.number(pairs), all);
    session.run("DELETE FROM t WHERE id % 4 > 0");
    session.run("VACUUM t");
    let left = session.number(pairs);
    assert!(left < 0.5 * all, "{left} of {all} pairs are left");
    for id in [4, 20_000, 40_000, 3] {
        let key = format!("k LIKE '%' || substr(md5('{id}'), 3, 25) || '%'");
        same(&mut session, "t", &Question::any(key));
    }
    sound(&mut session, "t_skip");
}
