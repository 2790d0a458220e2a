//! The delta is folded while a rescan of maps reads the table. What comes into additions meanwhile is found during the
//! rescan, after it, and after it was cut off by a cancel or a crash; on a standby too.
use crate::old_snapshots::old_snapshot;
use crate::registry::{alone, on_shared};
use crate::rescan::wait_for;
use crate::shared::{self, Database};
use crate::standby::{catch_up, replicated};
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server::Server;
use pg_skip_tests::session::Session;

/// Rows of the table before the first stop.
const ROWS: u32 = 40_000;

/// A table whose rescan waits at two rows: for lock 77 behind the first ROWS rows, for lock 79 at its end. The old map
/// says that the ranges have keys that no row has any more, and that one page has values, but all rows there have NULL.
/// Returns the number of that page.
fn table_with_two_stops(session: &mut Session) -> u32 {
    session.run(&format!(
        "CREATE FUNCTION waiting(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
             BEGIN
                 IF $1 = -1 THEN PERFORM pg_advisory_xact_lock_shared(77); END IF;
                 IF $1 = -2 THEN PERFORM pg_advisory_xact_lock_shared(79); END IF;
                 RETURN $1;
             END $$;
         CREATE TABLE t (id int, k int, pad text DEFAULT repeat('x', 100)) WITH (fillfactor = 40);
         INSERT INTO t SELECT i, i FROM generate_series(1, {ROWS}) i;
         INSERT INTO t VALUES (100000, -1);
         INSERT INTO t SELECT i, i FROM generate_series(100001, 104000) i;
         INSERT INTO t VALUES (200000, -2);
         CREATE INDEX t_skip ON t USING skip (waiting(k))
             WITH (layout = map, pages_per_range = 1, autosummarize = off, delta_limit = 1048576);
         SELECT skip_summarize('t_skip')"
    ));
    session.run("SET pg_skip.vacuum_rebuild_pages = 0");
    for round in 1..=12 {
        session.run(&format!("UPDATE t SET k = {round} * 100000 + id WHERE id <= {ROWS}"));
        session.run("VACUUM t");
    }
    let page = session.number("SELECT (ctid::text::point)[0] FROM t WHERE id = 2000") as u32;
    session.run(&format!("UPDATE t SET k = NULL {}", on_page(page)));
    // All that maintenance has to do besides. Then one range is read again, and a note is left of where to go on: the
    // next VACUUM begins with the rescan.
    session.run("VACUUM t");
    session.run("VACUUM t");
    session.run("SET pg_skip.vacuum_rebuild_pages = 1");
    session.run("VACUUM t");
    // An addition that is as large as those to come, with pairs of the range that will not be read again.
    session.run("SET pg_skip.vacuum_rebuild_pages = 0");
    session.run(&format!("UPDATE t SET k = 13 * 100000 + id WHERE id <= {ROWS} AND k IS NOT NULL"));
    session.run(&format!("UPDATE t SET k = 666666 WHERE id = (SELECT min(id) FROM t {})", on_page(0)));
    let there = format!("SELECT count(*) FROM t {} AND k = 666666", on_page(0));
    assert_eq!(session.one(&there), "1", "the row is still on page 0");
    session.run("VACUUM t");
    let additions = "SELECT sum(blocks) FROM skip_index_segments('t_skip') WHERE kind = 'addition'";
    assert!(session.number(additions) >= 7.0, "an addition that would be merged with others");
    session.run("SET pg_skip.vacuum_rebuild_pages = -1");
    let of_page = format!("SELECT count(*) FILTER (WHERE k IS NULL), count(k) FROM t {}", on_page(page));
    let row = session.rows(&of_page).remove(0);
    assert!(row[0] != Some("0".to_owned()) && row[1] == Some("0".to_owned()), "page {page}: {row:?}");
    page
}

fn on_page(page: u32) -> String {
    format!("WHERE ctid >= '({page},0)' AND ctid < '({page},200)'")
}

/// Entries of the delta.
const DELTA: &str = "SELECT sum(delta_entries) FROM skip_index_info('t_skip')";

/// Compares searches with a plain scan, and finds the only value of a page.
#[track_caller]
fn check(session: &mut Session, page: u32, when: &str) {
    for predicate in [
        "waiting(k) = 777777",
        "waiting(k) = 666666",
        "waiting(k) = 10300001",
        "waiting(k) = 20000300",
        "waiting(k) = 10300300",
        "waiting(k) IN (2, 3, 100500)",
        "waiting(k) IS NULL",
    ] {
        same(session, "t", &Question::using("t_skip", predicate));
    }
    session.run("SET enable_seqscan = off");
    assert_eq!(session.rows("SELECT id FROM t WHERE waiting(k) = 777777").len(), 1, "{when}");
    let value = format!(
        "SELECT id FROM t WHERE waiting(k) IS NOT NULL AND id = (SELECT min(id) FROM t {})",
        on_page(page)
    );
    assert_eq!(session.rows(&value).len(), 1, "{when}: the only value of its page");
    session.run("RESET enable_seqscan");
}

/// Brings a rescan that has begun, while `session` holds both locks, from its first stop to the second one. At the
/// first one more than 64 pages of delta come; at the second one they are folded, and some updates come after that.
fn to_second_stop(session: &mut Session, writer: &mut Session, page: u32, goes_on: impl Fn() -> bool) {
    wait_for(session, 77, &goes_on);
    writer.run(&format!("UPDATE t SET k = 777777 WHERE id = (SELECT min(id) FROM t {})", on_page(page)));
    let is_there = format!("SELECT count(k) FROM t {}", on_page(page));
    assert_eq!(writer.one(&is_there), "1", "the row is still on page {page}");
    // Once: the pages have room for it, even if another transaction on the server keeps them from being pruned.
    writer.run(&format!("UPDATE t SET k = 10300000 + id WHERE id < {ROWS} AND k <> 777777"));
    assert!(session.number(DELTA) > 64.0 * 508.0, "more than 64 pages");
    check(session, page, "at the first stop");
    session.run("SELECT pg_advisory_unlock(77)");
    wait_for(session, 79, &goes_on);
    assert!(session.number(DELTA) < 508.0, "the delta was folded");
    check(session, page, "at the second stop");
    // A second value for a part that an addition has by now, and a key that only the old maps have.
    writer
        .run("UPDATE t SET k = 20000000 + id WHERE id BETWEEN 300 AND 310; UPDATE t SET k = id WHERE id < 4");
    check(session, page, "after further updates");
}

/// Checks after the rescan, and after each step of the maintenance that follows.
fn check_later(session: &mut Session, page: u32) {
    check(session, page, "after the rescan");
    sound(session, "t_skip");
    for sql in
        ["SELECT skip_summarize('t_skip')", "VACUUM t", "RESET pg_skip.vacuum_rebuild_pages", "VACUUM t"]
    {
        session.run(sql);
        check(session, page, sql);
        sound(session, "t_skip");
    }
}

on_shared!(goes_on = fold_during(false));
on_shared!(is_cut_off = fold_during(true));
fn fold_during(database: &Database, is_cut_off: bool) {
    let (mut session, mut maintainer) = (database.session(), database.session());
    let mut writer = database.session();
    let page = table_with_two_stops(&mut session);
    // It sees the rows as they were before the rescan. While the locks are held, it may not read them all.
    let mut old = old_snapshot(database);
    let pid = maintainer.one("SELECT pg_backend_pid()");
    session.run("SELECT pg_advisory_lock(77), pg_advisory_lock(79)");
    std::thread::scope(|scope| {
        let rebuild = scope.spawn(|| maintainer.try_rows("VACUUM t"));
        to_second_stop(&mut session, &mut writer, page, || !rebuild.is_finished());
        if is_cut_off {
            session.run(&format!("SELECT pg_cancel_backend({pid})"));
        }
        session.run("SELECT pg_advisory_unlock(79)");
        let outcome = rebuild.join().expect("a thread that only asks");
        assert_eq!(outcome.is_err(), is_cut_off, "{:?}", outcome.err());
    });
    old.run("SET enable_seqscan = off");
    for id in [1, 300, 12_345, ROWS] {
        let question = Question::using("t_skip", format!("waiting(k) = 13 * 100000 + {id}"));
        same(&mut old, "t", &question);
    }
    let found = old.column("SELECT id FROM t WHERE waiting(k) = 1312345");
    assert_eq!(found, ["12345"], "a snapshot from before the rescan");
    old.run("COMMIT");
    check_later(&mut session, page);
}

alone!(the_server_is_killed);
/// After the fold, and before the new map is there: the additions are there for the old one.
fn the_server_is_killed() {
    let server = Server::start(&[]);
    shared::prepare(&server);
    let [mut session, mut maintainer, mut writer] = [(); 3].map(|()| server.connect("skip_template"));
    let page = table_with_two_stops(&mut session);
    session.run("SELECT pg_advisory_lock(77), pg_advisory_lock(79)");
    std::thread::scope(|scope| {
        let rebuild = scope.spawn(|| maintainer.try_rows("VACUUM t"));
        to_second_stop(&mut session, &mut writer, page, || !rebuild.is_finished());
        server.kill();
        assert!(rebuild.join().expect("a thread that only asks").is_err());
    });
    server.restart();
    let mut session = server.connect("skip_template");
    check_later(&mut session, page);
    drop(session);
    server.finish();
}

alone!(on_a_standby);
/// A standby finds all rows at the second stop, and after the rescan.
fn on_a_standby() {
    let (primary, standby) = replicated(&["max_standby_streaming_delay=-1", "hot_standby_feedback=off"]);
    let [mut session, mut maintainer, mut writer] = [(); 3].map(|()| primary.connect("skip_template"));
    let page = table_with_two_stops(&mut session);
    session.run("SELECT pg_advisory_lock(77), pg_advisory_lock(79)");
    let mut reader = standby.connect("skip_template");
    std::thread::scope(|scope| {
        let rebuild = scope.spawn(|| maintainer.try_rows("VACUUM t"));
        to_second_stop(&mut session, &mut writer, page, || !rebuild.is_finished());
        catch_up(&mut session, &mut reader);
        check(&mut reader, page, "on the standby, at the second stop");
        sound(&mut reader, "t_skip");
        session.run("SELECT pg_advisory_unlock(79)");
        assert!(rebuild.join().expect("a thread that only asks").is_ok());
    });
    catch_up(&mut session, &mut reader);
    check(&mut reader, page, "on the standby, after the rescan");
    sound(&mut reader, "t_skip");
    drop((session, maintainer, writer, reader));
    standby.finish();
    primary.finish();
}

on_shared!(a_long_delta_before_a_rescan);
/// A delta of several times 64 pages becomes few additions before a rescan, not one for each 64 pages: a lookup reads
/// all of them until the rescan has ended.
fn a_long_delta_before_a_rescan(database: &Database) {
    let (mut session, mut maintainer) = (database.session(), database.session());
    session.run(
        "CREATE FUNCTION waiting(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
             BEGIN
                 IF $1 = -1 THEN PERFORM pg_advisory_xact_lock_shared(77); END IF;
                 RETURN $1;
             END $$;
         CREATE TABLE t (id int, k int, l int, m int, pad text DEFAULT repeat('x', 80)) WITH (fillfactor = 40);
         INSERT INTO t SELECT i, i, i, i FROM generate_series(1, 30000) i;
         INSERT INTO t VALUES (30001, -1, 0, 0);
         CREATE INDEX t_skip ON t USING skip (waiting(k), l, m)
             WITH (layout = map, pages_per_range = 1, autosummarize = off, delta_limit = 1048576);
         SELECT skip_summarize('t_skip')",
    );
    let update = |round: u32| {
        let new = format!("{round} * 100000 + id");
        format!("UPDATE t SET k = {new}, l = {new}, m = {new} WHERE id <= 30000")
    };
    session.run("SET pg_skip.vacuum_rebuild_pages = 0");
    for round in 1..=4 {
        session.run(&update(round));
        session.run("VACUUM t");
    }
    // One range is read again, and a note is left of where to go on: the next VACUUM begins with the rescan.
    session.run("SET pg_skip.vacuum_rebuild_pages = 1");
    session.run("VACUUM t");
    session.run(&update(5));
    let delta = "SELECT max(delta_entries) FROM skip_index_info('t_skip')";
    assert!(session.number(delta) > 20_000.0, "{} entries of a column", session.number(delta));
    let additions = "SELECT coalesce(max(count), 0) FROM
        (SELECT count(*) FROM skip_index_segments('t_skip') WHERE kind = 'addition' GROUP BY attnum) AS of_column";
    let before = session.number(additions);
    session.run("SELECT pg_advisory_lock(77)");
    std::thread::scope(|scope| {
        let rebuild = scope.spawn(|| maintainer.run("VACUUM t"));
        wait_for(&mut session, 77, || !rebuild.is_finished());
        assert!(session.number("SELECT sum(delta_entries) FROM skip_index_info('t_skip')") < 508.0);
        let during = session.number(additions);
        session.run("SELECT pg_advisory_unlock(77)");
        assert!(during <= before + 2.0, "{during} additions of a column, {before} before");
        rebuild.join().expect("VACUUM");
    });
    for k in [500_001, 512_345, 400_001, 1] {
        same(&mut session, "t", &Question::using("t_skip", format!("waiting(k) = {k}")));
        same(&mut session, "t", &Question::using("t_skip", format!("l = {k} AND m = {k}")));
    }
    sound(&mut session, "t_skip");
}
