//! Rebuilding: VACUUM and skip_summarize replace filters that have filled up, maps with many pairs of rows that are
//! gone, and segments that varying filter sizes have cut to pieces. No row is lost meanwhile.
use crate::old_snapshots::old_snapshot;
use crate::registry::{alone, on_shared};
use crate::shared::Database;
use crate::standby::{catch_up, replicated};
use pg_skip_tests::cancel::cancelled;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::session::Session;
use std::time::Duration;

const LAYOUTS: [&str; 2] = ["filters", "map"];

/// A table of rows whose keys are 1 to `rows`, and whose pages have room for as many new versions.
fn table(session: &mut Session, rows: u32, layout: &str, options: &str) {
    session.run(&format!(
        "DROP TABLE IF EXISTS t;
         CREATE TABLE t (id int, k int, d int, pad text DEFAULT repeat('x', 60)) WITH (fillfactor = 40);
         INSERT INTO t SELECT i, i, i / 50 FROM generate_series(1, {rows}) i;
         CREATE INDEX t_skip ON t USING skip (k, d) WITH (layout = {layout}, autosummarize = off{options})"
    ));
}

/// The target rate, the expected one of the worst column, and the size of the index in bytes.
fn info(session: &mut Session) -> [f64; 3] {
    let sql = "SELECT max(false_positive_rate), max(expected_false_positive_rate), sum(bytes) FROM skip_index_info('t_skip')";
    let row = session.rows(sql).remove(0);
    [0, 1, 2].map(|place| row[place].as_ref().and_then(|text| text.parse().ok()).expect("a number"))
}

/// The average part of the ranges that the lookups of keys which no row has any more would read.
fn read_in_vain(session: &mut Session, gone: &str) -> f64 {
    let ranges = session.number("SELECT max(ranges) FROM skip_index_info('t_skip')");
    let sql = format!("SELECT count(*) / 100.0 FROM {gone}, skip_matching_ranges('t_skip', 'k', key)");
    session.number(&sql) / ranges
}

#[track_caller]
fn all_found(session: &mut Session) {
    for key in ["1", "17", "40", "1000017", "3000017", "12000017", "-5", "(SELECT max(k) FROM t)"] {
        same(session, "t", &Question::any(format!("k = {key}")));
    }
    for condition in ["d = 7", "d IS NULL", "k IS NOT NULL AND d = 11"] {
        same(session, "t", &Question::any(condition));
    }
    sound(session, "t_skip");
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

on_shared!(bit_by_bit);
/// VACUUM may read only a few pages at a time: each one brings the index nearer to a new one, the last one all the way.
fn bit_by_bit(database: &Database) {
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
            worse += u32::from(if layout == "map" { size > bytes } else { now > expected });
            (expected, bytes) = (now, size);
            all_found(&mut session);
        }
        assert_eq!(worse, 0, "{layout}");
        assert!(expected <= 2.0 * rate, "{layout}: {expected} instead of {rate} after {rounds} times");
        session.run("REINDEX INDEX t_skip");
        let fresh = info(&mut session)[2];
        assert!(
            bytes <= 1.3 * fresh,
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

on_shared!(an_old_key_comes_back_during_the_rescan);
/// The old filter has a key that no row has any more. A row with this key comes to a page that the rescan has read
/// already. An insert that relied on the old filter would add nothing to the delta, and the new filter lacks the key.
fn an_old_key_comes_back_during_the_rescan(database: &Database) {
    for layout in LAYOUTS {
        let (mut session, mut maintainer) = (database.session(), database.session());
        let (mut writer, mut early) = (database.session(), database.session());
        session.run("DROP TABLE IF EXISTS t");
        session.run(
            "CREATE OR REPLACE FUNCTION waiting(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
                 BEGIN
                     IF $1 = -1 THEN PERFORM pg_advisory_xact_lock_shared(77); END IF;
                     RETURN $1;
                 END $$",
        );
        session
            .run("CREATE TABLE t (id int, k int, pad text DEFAULT repeat('x', 100)) WITH (fillfactor = 40)");
        session.run("INSERT INTO t SELECT i, i FROM generate_series(1, 4000) i");
        // The scan waits at the last row.
        session.run("INSERT INTO t VALUES (5000, -1)");
        session.run(&format!(
            "CREATE INDEX t_skip ON t USING skip (waiting(k))
                 WITH (layout = {layout}, pages_per_range = 1, autosummarize = off, delta_limit = 1048576)"
        ));
        session.run("SELECT skip_summarize('t_skip')");
        let on_page = |page: u32| format!("FROM t WHERE ctid >= '({page},0)' AND ctid < '({page},99)'");
        // Keys that the filters of two pages have, and no row will have.
        let [second_key, third_key] =
            [1, 2].map(|page| session.one(&format!("SELECT min(k) {}", on_page(page))));
        for round in 1..=4 {
            session.run(&format!("UPDATE t SET k = {round} * 10000 + id WHERE id <= 4000"));
            session.run("VACUUM (INDEX_CLEANUP off) t");
        }
        // All that maintenance has to do besides: the rescan is the first thing that it does then.
        session.run("SET pg_skip.vacuum_rebuild_pages = 0");
        session.run("VACUUM t");
        session.run("VACUUM t");
        // The first row is on a page of its own: a range with uncommitted rows of an expression keeps its old filter.
        let [first, second, third] =
            [0, 1, 2].map(|page| session.one(&format!("SELECT min(id) {}", on_page(page))));
        let rows =
            format!("SELECT count(*) FROM t WHERE waiting(k) = {second_key} OR waiting(k) = {third_key}");
        let rows = rows.as_str();
        session.run("SELECT pg_advisory_lock(77), pg_advisory_lock(78)");
        let waiting = |session: &mut Session, lock: u32| {
            let sql = format!(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {lock} AND NOT granted
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            );
            session.one(&sql) == "1"
        };
        std::thread::scope(|scope| {
            // A statement that begins before the rescan, and goes on during it.
            let update = scope.spawn(|| {
                early.run(&format!(
                    "UPDATE t SET k = {second_key}::int - (id = {first})::int
                     WHERE id = {first} OR id = {second} AND pg_advisory_xact_lock_shared(78)::text = ''"
                ))
            });
            while !waiting(&mut session, 78) {
                assert!(!update.is_finished(), "the update did not come to the second row");
                std::thread::sleep(Duration::from_millis(10));
            }
            let rebuild = scope.spawn(|| maintainer.run("VACUUM t"));
            while !waiting(&mut session, 77) {
                assert!(!rebuild.is_finished(), "the rescan did not come to the last row");
                std::thread::sleep(Duration::from_millis(10));
            }
            session.run("SELECT pg_advisory_unlock(78)");
            update.join().expect("the update");
            writer.run(&format!(
                "UPDATE t SET k = {third_key} WHERE id = {third}; UPDATE t SET k = id WHERE id > 3990"
            ));
            for (page, key) in [(1, &second_key), (2, &third_key)] {
                let sql = format!("SELECT count(*) {} AND k = {key}", on_page(page));
                assert_eq!(writer.one(&sql), "1", "the row is still on page {page}");
            }
            session.run("SET enable_seqscan = off");
            assert_eq!(session.one(rows), "2", "{layout}, during the rescan");
            session.run("SELECT pg_advisory_unlock(77)");
        });
        assert_eq!(session.one(rows), "2", "{layout}, after the rescan");
        sound(&mut session, "t_skip");
        session.run("SELECT skip_summarize('t_skip')");
        assert_eq!(session.one(rows), "2", "{layout}, after the delta was folded");
        session.run("RESET enable_seqscan");
        for k in [second_key.as_str(), &third_key, "3991", "40013"] {
            same(&mut session, "t", &Question::using("t_skip", format!("waiting(k) = {k}")));
        }
        sound(&mut session, "t_skip");
    }
}

on_shared!(an_old_snapshot_sees_its_rows);
/// The new filters and maps have what only an old snapshot sees; and what is gone for all is not in them.
fn an_old_snapshot_sees_its_rows(database: &Database) {
    let mut session = database.session();
    for layout in LAYOUTS {
        table(&mut session, 3000, layout, ", pages_per_range = 1");
        for round in 1..=4 {
            session.run(&format!("UPDATE t SET k = {round} * 1000000 + id"));
            session.run("VACUUM (INDEX_CLEANUP off) t");
        }
        let mut old = old_snapshot(database);
        session.run("UPDATE t SET k = 5000000 + id WHERE id % 3 = 0; DELETE FROM t WHERE id % 3 = 1");
        let before = session.number("SELECT max(segment_id) FROM skip_index_segments('t_skip')");
        session.run("SELECT skip_summarize('t_skip')");
        session.run("VACUUM t");
        let after = session.number("SELECT max(segment_id) FROM skip_index_segments('t_skip')");
        assert!(after > before, "{layout}: nothing was rebuilt");
        for id in [3, 4, 5, 1500, 1501, 2999] {
            for round in 3..=5 {
                let question = Question::any(format!("k = {round} * 1000000 + {id}"));
                same(&mut old, "t", &question);
                same(&mut session, "t", &question);
            }
        }
        old.run("SET enable_seqscan = off");
        assert_eq!(old.column("SELECT id FROM t WHERE k = 4000003"), ["3"], "{layout}");
        assert_eq!(old.column("SELECT id FROM t WHERE k = 4000004"), ["4"], "{layout}");
        old.run("COMMIT");
        sound(&mut session, "t_skip");
    }
}

alone!(a_standby_with_an_older_snapshot);
fn a_standby_with_an_older_snapshot() {
    let (primary, standby) = replicated(&["max_standby_streaming_delay=-1", "hot_standby_feedback=off"]);
    let mut session = primary.connect("skip_template");
    for layout in LAYOUTS {
        table(&mut session, 3000, layout, ", pages_per_range = 1");
        for round in 1..=4 {
            session.run(&format!("UPDATE t SET k = {round} * 1000000 + id"));
            session.run("VACUUM (INDEX_CLEANUP off) t");
        }
        let mut reader = standby.connect("skip_template");
        catch_up(&mut session, &mut reader);
        reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
        // Nothing may prune the rows: the standby's snapshot would keep its replay waiting.
        session.run("DELETE FROM t WHERE id % 50 < 2");
        session.run("SELECT skip_summarize('t_skip')");
        let segments =
            "SELECT string_agg(segment_id::text, ' ' ORDER BY segment_id) FROM skip_index_segments('t_skip')";
        let mut other = standby.connect("skip_template");
        catch_up(&mut session, &mut other);
        assert_eq!(session.one(segments), other.one(segments));
        reader.run("SET enable_seqscan = off");
        for id in [50, 51, 52, 1500, 1501, 2951] {
            let question = Question::any(format!("k = 4000000 + {id}"));
            same(&mut reader, "t", &question);
            same(&mut other, "t", &question);
            let found = reader.column(&format!("SELECT id FROM t WHERE k = 4000000 + {id}"));
            assert_eq!(found.len(), 1, "{layout}: the standby's old snapshot still sees {id}");
        }
        reader.run("COMMIT");
        sound(&mut session, "t_skip");
        sound(&mut other, "t_skip");
    }
    drop(session);
    standby.finish();
    primary.finish();
}

on_shared!(interrupted);
/// A rebuild that is cancelled anywhere leaves an index that is right, and that the next maintenance completes.
fn interrupted(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    for layout in LAYOUTS {
        table(&mut session, 3000, layout, ", pages_per_range = 1");
        let (mut cut_off, mut pause) = (0, Duration::from_millis(20));
        for round in 1.. {
            session.run(&format!("UPDATE t SET k = {round} * 1000000 + id"));
            session.run("VACUUM (INDEX_CLEANUP off) t");
            session
                .run(&format!("UPDATE t SET k = {round} * 1000000 + id + 500000 WHERE id % 3 = {round} % 3"));
            session.run("VACUUM (INDEX_CLEANUP off) t");
            if cancelled(&mut session, &mut other, "SELECT skip_summarize('t_skip')", pause) {
                cut_off += 1;
                pause = pause * 5 / 4;
            } else {
                pause = pause * 3 / 4;
            }
            sound(&mut session, "t_skip");
            // Keys that the old segments have, while the rescan that was cut off is still in the directory.
            session.run(
                "UPDATE t SET k = id WHERE id % 601 = 0; UPDATE t SET k = 1000000 + id WHERE id % 607 = 0",
            );
            for key in [601, 1202, 1_000_607, 1_001_214, 5] {
                same(&mut session, "t", &Question::using("t_skip", format!("k = {key}")));
            }
            sound(&mut session, "t_skip");
            if round >= 8 && cut_off >= 4 {
                break;
            }
            assert!(round < 80, "only {cut_off} of {round} could be cancelled");
        }
        session.run("SELECT skip_summarize('t_skip')");
        session.run("SELECT skip_summarize('t_skip')");
        let [rate, expected, _] = info(&mut session);
        assert!(expected <= 2.0 * rate, "{layout}: {expected} instead of {rate}");
        all_found(&mut session);
        // No rescan is left in the directory: a value that the index has in its range needs no entry in the delta.
        let ids = session.column(
            "SELECT unnest((array_agg(id))[1:2]) FROM t GROUP BY (ctid::text::point)[0] HAVING count(*) BETWEEN 2 AND 40
             LIMIT 2",
        );
        session.run("VACUUM t");
        session.run(&format!("UPDATE t SET d = -77 WHERE id = {}", ids[0]));
        session.run("SELECT skip_summarize('t_skip')");
        session.run("VACUUM t");
        session.run(&format!("UPDATE t SET d = -77 WHERE id = {}", ids[1]));
        let pages = "SELECT count(DISTINCT (ctid::text::point)[0]) FROM t WHERE d = -77";
        assert_eq!(session.one(pages), "1", "both rows are still on their page");
        assert_eq!(session.one("SELECT sum(delta_entries) FROM skip_index_info('t_skip')"), "0", "{layout}");
    }
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
    session.run(
        "CREATE TABLE broken (k int);
         CREATE FUNCTION same(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
             BEGIN
                 IF EXISTS (SELECT FROM public.broken WHERE k = $1) THEN RAISE 'broken'; END IF;
                 RETURN $1;
             END $$",
    );
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

alone!(free_blocks_are_given_back);
/// What rebuilding leaves free at the end of the index is given back to the file system, unless somebody uses the index
/// at the moment. A standby follows.
fn free_blocks_are_given_back() {
    let (primary, standby) = replicated(&[]);
    let (mut session, mut other) = (primary.connect("skip_template"), primary.connect("skip_template"));
    let mut reader = standby.connect("skip_template");
    session.run(
        "CREATE TABLE t (id int, k int, d int);
         INSERT INTO t SELECT i, i, i + 5 FROM generate_series(1, 200000) i;
         CREATE INDEX t_skip ON t USING skip (k, d)
             WITH (layout = map, pages_per_range = 1, autosummarize = off);
         DELETE FROM t WHERE id % 10 <> 0",
    );
    let pages = "SELECT pg_relation_size('t_skip') / 8192";
    let grown = session.number(pages);
    other.run("BEGIN; SET LOCAL enable_seqscan = off; SELECT count(*) FROM t WHERE k = 5");
    session.run("VACUUM t");
    assert!(session.number(pages) >= grown, "the file was cut off while somebody used it");
    other.run("COMMIT");
    session.run("VACUUM t");
    let after = session.number(pages);
    println!("{grown} pages, {after} after VACUUM");
    assert!(after < grown / 3.0, "{after} pages of {grown}");
    catch_up(&mut session, &mut reader);
    assert_eq!(reader.number(pages), after, "on the standby");
    for session in [&mut session, &mut reader] {
        found_after_delete(session);
    }
    // It grows again.
    session.run("INSERT INTO t SELECT i, i, i + 5 FROM generate_series(200001, 201000) i");
    session.run("VACUUM t");
    catch_up(&mut session, &mut reader);
    for session in [&mut session, &mut reader] {
        found_after_delete(session);
    }
    drop((session, other, reader));
    standby.finish();
    primary.finish();
}

fn found_after_delete(session: &mut Session) {
    for condition in ["k = 10", "k = 11", "d = 199995", "k = 200000", "k = 200500 AND d = 200505"] {
        same(session, "t", &Question::using("t_skip", condition));
    }
    sound(session, "t_skip");
}
