//! What inserting does to the index: filters fill up, ranges are summarized on the way, rolled back rows leave nothing.
use crate::build::WAITING;
use crate::registry::on_shared;
use crate::shared::{Database, wait_until};
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::session::Session;

on_shared!(multi_column_defaults_fill_up);
/// BRIN fails in INSERT when two filters outgrow a page; 64 pages of unique values at 1 % are refused outright.
fn multi_column_defaults_fill_up(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (id int, a uuid, b uuid, c uuid)");
    session.run("CREATE INDEX t_skip ON t USING skip (a, b, c) WITH (pages_per_range = 128)");
    session.run(
        "INSERT INTO t SELECT i, md5('a' || i)::uuid, md5('b' || i)::uuid, md5('c' || i)::uuid
         FROM generate_series(1, 40000) i",
    );
    for step in ["SELECT 1", "VACUUM t", "REINDEX TABLE t"] {
        session.run(step);
        for value in ["a1", "b40000", "c7", "x"] {
            let column = &value[..1].replace('x', "a");
            same(&mut session, "t", &Question::using("t_skip", format!("{column} = md5('{value}')::uuid")));
        }
    }
    sound(&mut session, "t_skip");
}

on_shared!(an_insert_does_not_mend_all);
/// Summarizing that was cut off left one gap, and the next insert filled all of it.
fn an_insert_does_not_mend_all(database: &Database) {
    let (mut session, mut holder) = (database.session(), database.session());
    session.run(WAITING);
    session.run(
        "CREATE TABLE t (id int, a text, held int DEFAULT 0, filler text DEFAULT repeat('x', 7000));
         ALTER TABLE t ALTER filler SET STORAGE PLAIN;
         CREATE INDEX t_skip ON t USING skip (a, held waiting_ops) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i, CASE i WHEN 3000 THEN -1 ELSE 0 END FROM generate_series(1, 6000) i",
    );
    let summarized = "SELECT summarized FROM skip_index_info('t_skip') WHERE column_name = 'a'";
    // Held at a row in the middle, and cancelled there.
    holder.run("SELECT pg_advisory_lock(7)");
    std::thread::scope(|scope| {
        let mut summarizing = database.session();
        let running = scope.spawn(move || summarizing.error("SELECT skip_summarize('t_skip')"));
        let cancel = "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        wait_until("summarizing waits", || holder.column(cancel) == ["t"]);
        assert_eq!(running.join().expect("an error").code().code(), "57014");
    });
    holder.run("SELECT pg_advisory_unlock(7)");
    assert_eq!(session.number(summarized), 0.0, "all is left for later");
    session.run("ALTER INDEX t_skip SET (autosummarize = on)");
    for i in 0..20 {
        let before = session.number(summarized);
        session.run(&format!("INSERT INTO t VALUES ({i}, 'new {i}')")); // a block, and so a chance, for each
        let more = session.number(summarized) - before;
        assert!(more <= 64.0, "one row summarized {more} ranges");
    }
    sound(&mut session, "t_skip");
    session.run("SELECT skip_summarize('t_skip')");
    same(&mut session, "t", &Question::using("t_skip", "a = '4000'"));
    sound(&mut session, "t_skip");
}

on_shared!(rolled_back_rows_leave_no_open_range);
/// Rows of a transaction that failed keep no range open: nobody ever sees them.
fn rolled_back_rows_leave_no_open_range(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, v text, filler text DEFAULT repeat('x', 300));
         ALTER TABLE t ALTER v SET STORAGE external;
         CREATE INDEX t_skip ON t USING skip ((k + 1)) WITH (pages_per_range = 1, autosummarize = off);
         CREATE INDEX t_toast ON t USING skip (v) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i, repeat('y', 10) FROM generate_series(1, 500) i",
    );
    session.run(
        "BEGIN; INSERT INTO t SELECT i, i, repeat('z' || i, 1500) FROM generate_series(501, 1000) i; ROLLBACK",
    );
    session.run("INSERT INTO t SELECT i, i, repeat('y', i % 9) FROM generate_series(1001, 1500) i");
    for index in ["t_skip", "t_toast"] {
        session.run(&format!("SELECT skip_summarize('{index}')"));
        let open = session.one(&format!("SELECT sum(open_ranges) FROM skip_index_segments('{index}')"));
        assert_eq!(open, "0", "{index}");
        sound(&mut session, index);
    }
    for key in [8, 600, 1400] {
        same(&mut session, "t", &Question::using("t_skip", format!("k + 1 = {key}")));
    }
}

on_shared!(small_tables_are_summarized_early);
/// A table of a few ranges is not left without filters until it is large.
fn small_tables_are_summarized_early(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k uuid DEFAULT gen_random_uuid());
         CREATE INDEX t_skip ON t USING skip (k);
         CREATE TABLE p (id int, k int) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (20000);
         CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (20000) TO (40000);
         CREATE INDEX p_skip ON p USING skip (k)",
    );
    session.run("INSERT INTO t SELECT i FROM generate_series(1, 33000) i");
    let info = "SELECT ranges, summarized FROM skip_index_info('t_skip')";
    let row = session.rows(info).remove(0);
    let number = |at: usize| row[at].as_ref().and_then(|text| text.parse::<u32>().ok()).expect("a number");
    assert!(number(1) * 2 >= number(0), "{} of {} ranges are summarized", number(1), number(0));
    for id in [1, 20000, 33000] {
        let key = session.one(&format!("SELECT k FROM t WHERE id = {id}"));
        same(&mut session, "t", &Question::using("t_skip", format!("k = '{key}'")));
    }
    session.run("INSERT INTO p SELECT i, i FROM generate_series(0, 39999) i");
    for partition in ["p1_k_idx", "p2_k_idx"] {
        let late = session.number(&format!(
            "SELECT (ranges - summarized) * pages_per_range FROM skip_index_info('{partition}')"
        ));
        assert!(late <= 48.0, "{partition}: {late} pages late");
        sound(&mut session, partition);
    }
    sound(&mut session, "t_skip");
}

on_shared!(rows_of_several_sessions_take_no_detour);
/// Each session fills a block of its own. Ranges are summarized when their blocks are full, so few rows come into
/// summarized ones and need entries in the delta.
fn rows_of_several_sessions_take_no_detour(database: &Database) {
    let mut sessions: Vec<_> = (0..8).map(|_| database.session()).collect();
    sessions[0].run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, filler text DEFAULT repeat('x', 270));
         INSERT INTO t (k) SELECT -i FROM generate_series(1, 2600) i;
         CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1)",
    );
    // So that the sessions' blocks are not full at the same time.
    for (number, session) in sessions.iter_mut().enumerate() {
        session.run(&format!("INSERT INTO t (k) SELECT -i FROM generate_series(1, 3 * {number}) i"));
    }
    for k in 0..2600 {
        sessions[k % 8].run(&format!("INSERT INTO t (k) VALUES ({k})"));
    }
    let session = &mut sessions[0];
    let number = |session: &mut Session, what| {
        session.number(&format!("SELECT {what} FROM skip_index_info('t_skip')"))
    };
    let left = number(session, "ranges - summarized");
    assert!(left < 40.0, "{left} of 100 new ranges are not summarized");
    let entries = number(session, "delta_entries");
    assert!(entries < 130.0, "{entries} entries in the delta");
    same(session, "t", &Question::using("t_skip", "k = 2599 OR k = 1300 OR k = 7"));
    sound(session, "t_skip");
}
