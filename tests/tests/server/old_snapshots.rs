//! Old snapshots: filters made meanwhile have the row versions that only such a snapshot sees. PostgreSQL's own BRIN
//! leaves them out, and finds 0 rows instead of 1.
use crate::registry::{alone, on_shared};
use crate::shared::Database;
use crate::standby::{catch_up, replicated};
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server;
use pg_skip_tests::session::Session;

/// A table of 100 rows whose pages have room for updates; ids and values are 1 to 100.
const TABLE: &str =
    "CREATE TABLE t (id int, a int, filler text DEFAULT repeat('x', 500)) WITH (fillfactor = 50)";
const INDEX: &str = "CREATE INDEX t_skip ON t USING skip (a) WITH (pages_per_range = 1, autosummarize = off)";
const ROWS: &str = "INSERT INTO t (id, a) SELECT i, i FROM generate_series(1, 100) i";

/// A session whose snapshot is taken now.
pub fn old_snapshot(database: &Database) -> Session {
    let mut session = database.session();
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
    session
}

/// Makes a HOT chain whose versions differ in the indexed column, where the version allows it; not in the first
/// range, whose filter BRIN makes with the index.
fn hot_update(session: &mut Session) {
    let page = "SELECT (ctid::text::point)[0] FROM t WHERE id = 51";
    let before = session.number(page);
    session.run("UPDATE t SET a = 1001 WHERE id = 51");
    assert_eq!(session.number(page), before, "the new version stays on its page");
    assert!(before > 0.0, "the row is beyond the first range");
    if server::install().version >= 16 {
        session.run("SELECT pg_stat_force_next_flush()");
        let hot = session.number("SELECT pg_stat_get_tuples_hot_updated('t'::regclass)");
        assert_eq!(hot, 1.0, "an index that only summarizes does not prevent HOT updates");
    }
}

/// The old snapshot sees 51, the present 1001, both by the index.
fn both_are_seen(old: &mut Session, now: &mut Session) {
    for value in [51, 1001, 5, 2000] {
        let question = Question::any(format!("a = {value}"));
        same(old, "t", &question);
        same(now, "t", &Question { index: Some("t_skip".into()), ..question });
    }
    old.run("SET enable_seqscan = off");
    let found = old.column("SELECT id FROM t WHERE a = 51");
    assert_eq!(found, ["51"], "the old snapshot's row");
    old.run("COMMIT");
    sound(now, "t_skip");
}

fn summarized(session: &mut Session) {
    let open = session.number("SELECT ranges - summarized FROM skip_index_info('t_skip')");
    assert!(open <= 1.0, "all but the last range are summarized");
}

on_shared!(hot_update_then_summarize);
fn hot_update_then_summarize(database: &Database) {
    let mut session = database.session();
    for sql in [TABLE, INDEX, ROWS] {
        session.run(sql);
    }
    let mut old = old_snapshot(database);
    hot_update(&mut session);
    session.run("SELECT skip_summarize('t_skip')");
    summarized(&mut session);
    both_are_seen(&mut old, &mut session);
}

on_shared!(hot_update_then_vacuum);
fn hot_update_then_vacuum(database: &Database) {
    let mut session = database.session();
    for sql in [TABLE, INDEX, ROWS] {
        session.run(sql);
    }
    let mut old = old_snapshot(database);
    hot_update(&mut session);
    session.run("VACUUM t");
    summarized(&mut session);
    both_are_seen(&mut old, &mut session);
}

on_shared!(hot_update_then_reindex);
fn hot_update_then_reindex(database: &Database) {
    for reindex in ["REINDEX INDEX t_skip", "REINDEX TABLE t"] {
        let mut session = database.session();
        session.run("DROP TABLE IF EXISTS t");
        for sql in [TABLE, ROWS, INDEX] {
            session.run(sql);
        }
        let mut old = old_snapshot(database);
        hot_update(&mut session);
        session.run(reindex);
        both_are_seen(&mut old, &mut session);
    }
}

on_shared!(hot_update_then_create_index);
/// Here the index may be kept from the old snapshot, as PostgreSQL does with any index; the answer is what counts.
fn hot_update_then_create_index(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    session.run(ROWS);
    let mut old = old_snapshot(database);
    session.run("UPDATE t SET a = 1001 WHERE id = 51");
    session.run(INDEX);
    both_are_seen(&mut old, &mut session);
}

on_shared!(delete_then_reindex);
fn delete_then_reindex(database: &Database) {
    let mut session = database.session();
    for sql in [TABLE, ROWS, INDEX] {
        session.run(sql);
    }
    let mut old = old_snapshot(database);
    session.run("DELETE FROM t WHERE id <= 60");
    session.run("VACUUM t");
    session.run("REINDEX INDEX t_skip");
    for id in [1, 30, 60, 61, 100, 101] {
        same(&mut old, "t", &Question::any(format!("a = {id}")));
    }
    old.run("COMMIT");
    sound(&mut session, "t_skip");
}

alone!(standby_with_an_older_snapshot);
/// The primary holds a row for dead that a standby's snapshot still sees: no conflict cancels that snapshot, since
/// nothing has been removed, so a filter made now must still have the value.
fn standby_with_an_older_snapshot() {
    let (primary, standby) = replicated(&["max_standby_streaming_delay=-1", "hot_standby_feedback=off"]);
    let mut session = primary.connect("skip_template");
    for sql in [TABLE, INDEX, ROWS] {
        session.run(sql);
    }
    let mut reader = standby.connect("skip_template");
    catch_up(&mut session, &mut reader);
    for summarize in ["SELECT skip_summarize('t_skip')", "REINDEX INDEX t_skip"] {
        reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class");
        let id = session.number("SELECT min(id) FROM t");
        session.run(&format!("DELETE FROM t WHERE id IN ({id}, {id} + 40)"));
        session.run(summarize);
        let mut other = standby.connect("skip_template");
        catch_up(&mut session, &mut other);
        for key in [id, id + 40.0, id + 1.0, 1000.0] {
            same(&mut reader, "t", &Question::any(format!("a = {key}")));
        }
        reader.run("SET enable_seqscan = off");
        let found = reader.column(&format!("SELECT id FROM t WHERE a = {id}"));
        assert_eq!(found.len(), 1, "the standby's old snapshot still sees the row");
        reader.run("COMMIT");
    }
    sound(&mut session, "t_skip");
    sound(&mut reader, "t_skip");
    drop((session, reader));
    standby.finish();
    primary.finish();
}
