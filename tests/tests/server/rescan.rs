//! While a rebuild reads the table again: rows that come meanwhile, snapshots older than it, and a rebuild that is cut
//! off. No row is lost.
use crate::old_snapshots::old_snapshot;
use crate::rebuild::{LAYOUTS, all_found, info, table};
use crate::registry::{alone, on_shared};
use crate::shared::Database;
use crate::standby::{catch_up, replicated};
use pg_skip_tests::cancel::cancelled;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::session::Session;
use std::time::Duration;

/// A function that waits for the advisory lock 77 if its argument is -1.
pub const WAITING: &str =
    "CREATE OR REPLACE FUNCTION waiting(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
     BEGIN
         IF $1 = -1 THEN PERFORM pg_advisory_xact_lock_shared(77); END IF;
         RETURN $1;
     END $$";

/// Waits until a statement waits for an advisory lock, while `goes_on`.
pub fn wait_for(session: &mut Session, lock: u32, goes_on: impl Fn() -> bool) {
    let waits = format!(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {lock} AND NOT granted
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    );
    while session.one(&waits) != "1" {
        assert!(goes_on(), "nothing came to lock {lock}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

on_shared!(an_old_key_comes_back_in_filters = an_old_key_comes_back("filters"));
on_shared!(an_old_key_comes_back_in_maps = an_old_key_comes_back("map"));
/// The old filter has a key that no row has any more. A row with this key comes to a page that the rescan has read
/// already. An insert that relied on the old filter would add nothing to the delta, and the new filter lacks the key.
fn an_old_key_comes_back(database: &Database, layout: &str) {
    let (mut session, mut maintainer) = (database.session(), database.session());
    let (mut writer, mut early) = (database.session(), database.session());
    session.run("DROP TABLE IF EXISTS t");
    session.run(WAITING);
    session.run("CREATE TABLE t (id int, k int, pad text DEFAULT repeat('x', 100)) WITH (fillfactor = 40)");
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
    let [second_key, third_key] = [1, 2].map(|page| session.one(&format!("SELECT min(k) {}", on_page(page))));
    for round in 1..=4 {
        session.run(&format!("UPDATE t SET k = {round} * 10000 + id WHERE id <= 4000"));
        session.run("VACUUM (INDEX_CLEANUP off) t");
    }
    // All that maintenance has to do besides: the rescan is the first thing that it does then.
    session.run("SET pg_skip.vacuum_rebuild_pages = 0");
    session.run("VACUUM t");
    session.run("VACUUM t");
    // One range is read again, and a note is left of where to go on. So the next VACUUM need not find out whether maps
    // are worth it, which would wait, too.
    session.run("SET pg_skip.vacuum_rebuild_pages = 1");
    session.run("VACUUM t");
    // The first row is on a page of its own: a range with uncommitted rows of an expression keeps its old filter.
    let [first, second, third] =
        [0, 1, 2].map(|page| session.one(&format!("SELECT min(id) {}", on_page(page))));
    let rows = format!("SELECT count(*) FROM t WHERE waiting(k) = {second_key} OR waiting(k) = {third_key}");
    let rows = rows.as_str();
    session.run("SELECT pg_advisory_lock(77), pg_advisory_lock(78)");
    std::thread::scope(|scope| {
        // A statement that begins before the rescan, and goes on during it.
        let update = scope.spawn(|| {
            early.run(&format!(
                "UPDATE t SET k = {second_key}::int - (id = {first})::int
                 WHERE id = {first} OR id = {second} AND pg_advisory_xact_lock_shared(78)::text = ''"
            ))
        });
        wait_for(&mut session, 78, || !update.is_finished());
        let rebuild = scope.spawn(|| maintainer.run("VACUUM t"));
        wait_for(&mut session, 77, || !rebuild.is_finished());
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

on_shared!(goes_on_where_it_was_cut_off);
/// The note of where to go on stays when the rescan from there is cut off: the next VACUUM does not read the table from
/// its start, nor a sample of it.
fn goes_on_where_it_was_cut_off(database: &Database) {
    let (mut session, mut maintainer) = (database.session(), database.session());
    // Each time the row on the first page is read, the sequence counts it.
    session.run(
        "CREATE SEQUENCE reads_of_first_page;
         CREATE FUNCTION waiting(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
             BEGIN
                 IF $1 = -1 THEN PERFORM pg_advisory_xact_lock_shared(77); END IF;
                 IF $1 = -3 THEN PERFORM nextval('public.reads_of_first_page'); END IF;
                 RETURN $1;
             END $$;
         CREATE TABLE t (id int, k int, pad text DEFAULT repeat('x', 100)) WITH (fillfactor = 40);
         INSERT INTO t VALUES (0, -3);
         INSERT INTO t SELECT i, i FROM generate_series(1, 4000) i;
         INSERT INTO t VALUES (5000, -1);
         CREATE INDEX t_skip ON t USING skip (waiting(k))
             WITH (layout = map, pages_per_range = 1, autosummarize = off, delta_limit = 1048576);
         SELECT skip_summarize('t_skip');
         SET pg_skip.vacuum_rebuild_pages = 0",
    );
    for round in 1..=6 {
        session.run(&format!("UPDATE t SET k = {round} * 10000 + id WHERE id BETWEEN 1 AND 4000"));
        session.run("VACUUM t");
    }
    session.run("VACUUM t");
    session.run("SET pg_skip.vacuum_rebuild_pages = 1");
    session.run("VACUUM t");
    let pairs = "SELECT sum(pairs) FROM skip_index_segments('t_skip')";
    let reads = "SELECT last_value FROM reads_of_first_page";
    let (pairs_before, reads_before) = (session.number(pairs), session.number(reads));
    let pid = maintainer.one("SELECT pg_backend_pid()");
    for _ in 0..2 {
        session.run("SELECT pg_advisory_lock(77)");
        std::thread::scope(|scope| {
            let rebuild = scope.spawn(|| maintainer.try_rows("VACUUM t"));
            wait_for(&mut session, 77, || !rebuild.is_finished());
            session.run(&format!("SELECT pg_cancel_backend({pid})"));
            assert!(rebuild.join().expect("a thread that only asks").is_err());
        });
        session.run("SELECT pg_advisory_unlock(77)");
    }
    session.run("RESET pg_skip.vacuum_rebuild_pages");
    session.run("VACUUM t");
    assert_eq!(session.number(reads), reads_before, "the first page was read again");
    assert!(session.number(pairs) < pairs_before / 2.0, "nothing was rebuilt");
    // The end of the table was reached, so the next one looks at a sample of the whole table.
    session.run("VACUUM t");
    assert!(session.number(reads) > reads_before);
    for k in ["60001", "64000", "10001", "-3"] {
        same(&mut session, "t", &Question::using("t_skip", format!("waiting(k) = {k}")));
    }
    sound(&mut session, "t_skip");
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

on_shared!(a_cancelled_rebuild_leaves_a_correct_index);
/// A rebuild that is cancelled anywhere leaves an index that is right, and that the next maintenance completes.
fn a_cancelled_rebuild_leaves_a_correct_index(database: &Database) {
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
