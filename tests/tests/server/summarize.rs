//! Summarizing, by skip_summarize and by VACUUM: beside transactions in progress, over expressions that fail, cut off
//! in the middle, and over rows that are gone or were changed in place.
use crate::concurrency::{settled, table};
use crate::registry::on_shared;
use crate::shared::{Database, server};
use pg_skip_tests::cancel::cancelled;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server::install;
use std::time::Duration;

on_shared!(toasted_values_vacuumed_away);
/// A dead version whose toasted value VACUUM may have removed already must not be read (BRIN: "missing chunk").
fn toasted_values_vacuumed_away(database: &Database) {
    let mut session = database.session();
    let long = |seed: u32| {
        format!("(SELECT string_agg(md5((j * {seed})::text), '') FROM generate_series(1, 200) j)")
    };
    session.run("CREATE TABLE t (id int, a text, n int) WITH (fillfactor = 40)");
    session.run(&format!("INSERT INTO t SELECT i, {} || i, 0 FROM generate_series(1, 40) i", long(1)));
    session.run("CREATE INDEX t_skip ON t USING skip (a) WITH (pages_per_range = 1)");
    session.run(&format!("UPDATE t SET a = {} || id WHERE id % 3 = 0", long(2)));
    session.run("DELETE FROM t WHERE id % 3 = 1");
    session.run("VACUUM t");
    session.run("BEGIN; UPDATE t SET n = 1; ROLLBACK");
    session.run(&format!("BEGIN; UPDATE t SET a = {} || id; ROLLBACK", long(3)));
    let toast = session.one("SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 't'::regclass");
    session.run(&format!("VACUUM {toast}"));
    for step in ["SELECT skip_summarize('t_skip')", "REINDEX INDEX t_skip", "VACUUM t", "REINDEX TABLE t"] {
        session.run(step);
        for key in [2, 3, 4, 33] {
            for seed in [1, 2, 3] {
                same(&mut session, "t", &Question::any(format!("a = {} || {key}", long(seed))));
            }
        }
        sound(&mut session, "t_skip");
    }
}

on_shared!(hot_update_of_a_predicate);
/// A HOT update that changes only the predicate's column makes a row come into, or leave, a partial index.
fn hot_update_of_a_predicate(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, a int, live bool, filler text DEFAULT repeat('x', 500))
         WITH (fillfactor = 50)",
    );
    session.run("INSERT INTO t (id, a, live) SELECT i, i, i % 2 = 0 FROM generate_series(1, 100) i");
    session.run("CREATE INDEX t_skip ON t USING skip (a) WITH (pages_per_range = 1) WHERE live");
    session.run("UPDATE t SET live = true WHERE id IN (1, 51)");
    session.run("UPDATE t SET live = false WHERE id IN (2, 52)");
    for step in ["SELECT 1", "VACUUM t", "SELECT skip_summarize('t_skip')", "REINDEX TABLE t"] {
        session.run(step);
        for id in [1, 2, 3, 4, 51, 52] {
            same(&mut session, "t", &Question::using("t_skip", format!("a = {id} AND live")));
            same(&mut session, "t", &Question::any(format!("a = {id}")));
        }
        sound(&mut session, "t_skip");
    }
}

on_shared!(foreign_inserts_out_of_line);
/// Values out of line of a transaction that may yet fail cannot be relied on: the range stays open until that is known.
fn foreign_inserts_out_of_line(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    session.run(
        "CREATE TABLE t (id int, v text);
         ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
         CREATE INDEX t_skip ON t USING skip (v) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i",
    );
    other.run("BEGIN");
    other.run("INSERT INTO t VALUES (2000, repeat('long', 2000))");
    session.run("SELECT skip_summarize('t_skip')");
    let open = "SELECT coalesce(sum(open_ranges), 0) FROM skip_index_segments('t_skip')";
    assert_eq!(session.one(open), "1", "the range that the other session writes to");
    other.run("ROLLBACK");
    session.run("VACUUM t");
    assert_eq!(session.one(open), "0", "closed by VACUUM");
    same(&mut session, "t", &Question::using("t_skip", "v = '77'"));
    sound(&mut session, "t_skip");
}

on_shared!(summarize_with_an_insert_in_progress);
/// PostgreSQL's own isolation test of BRIN (summarization-and-inprogress-insertion), both permutations.
fn summarize_with_an_insert_in_progress(database: &Database) {
    for summarize in ["SELECT skip_summarize('t_skip')", "VACUUM t"] {
        let mut session = database.session();
        session.run("DROP TABLE IF EXISTS t");
        session.run(
            "CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 900)) WITH (fillfactor = 90)",
        );
        session
            .run("CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 1, autosummarize = off)");
        session.run("INSERT INTO t (id, k) SELECT i, i FROM generate_series(1, 60) i");
        session.run("DELETE FROM t WHERE id BETWEEN 20 AND 25");
        session.run("VACUUM (INDEX_CLEANUP off) t"); // room in the middle of the table; nothing summarized, as it may
        let (mut writer, mut reader) = (database.session(), database.session());
        writer.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        writer.run("INSERT INTO t (id, k) SELECT i, i FROM generate_series(1000, 1003) i");
        reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        session.run(summarize);
        same(&mut writer, "t", &Question::any("k = 1000"));
        writer.run("INSERT INTO t (id, k) SELECT i, i FROM generate_series(1004, 1008) i");
        writer.run("COMMIT");
        for key in [1, 22, 40, 1000, 1003, 1004, 1008] {
            same(&mut reader, "t", &Question::any(format!("k = {key}")));
            same(&mut session, "t", &Question::using("t_skip", format!("k = {key}")));
        }
        reader.run("COMMIT");
        same(&mut reader, "t", &Question::using("t_skip", "k = 1000"));
        let found = session.number("SELECT count(*) FROM t WHERE k IN (1000, 1008)");
        assert_eq!(found, 2.0);
        sound(&mut session, "t_skip");
    }
}

on_shared!(interrupted_maintenance);
/// Maintenance cancelled anywhere leaves an index that is sound, and that the next maintenance completes.
fn interrupted_maintenance(database: &Database) {
    let mut session = database.session();
    table(&mut session, "pages_per_range = 1, autosummarize = off");
    let mut other = database.session();
    let (mut interrupted, mut pause) = (0, Duration::from_millis(4));
    for round in 0.. {
        session.run("INSERT INTO t (k, v) SELECT i, i FROM generate_series(1, 2000) i");
        session.run(&format!("UPDATE t SET k = k + 1 WHERE id % 41 = {round}"));
        let sql = if round % 3 == 0 { "VACUUM t" } else { "SELECT skip_summarize('t_skip')" };
        // In the middle, as near as can be: later when it was cut off the last time, else sooner.
        if cancelled(&mut session, &mut other, sql, pause) {
            interrupted += 1;
            pause = pause * 3 / 2;
        } else {
            pause = (pause / 2).max(Duration::from_micros(50));
        }
        for key in [1, 777, 2000, 2001, 5000] {
            same(&mut session, "t", &Question::using("t_skip", format!("k = {key}")));
        }
        sound(&mut session, "t_skip");
        if round >= 24 && interrupted >= 10 {
            break;
        }
        assert!(round < 100, "only {interrupted} of {round} runs could be cancelled");
    }
    session.run("SELECT skip_summarize('t_skip')");
    let open = session.number("SELECT max(ranges - summarized) FROM skip_index_info('t_skip')");
    assert!(open <= 1.0, "{open} ranges have no filter after a complete run");
    settled(&mut session);
}

/// A function that fails for 7 once there is a row in `broken`.
pub const BREAKING: &str = "CREATE TABLE broken ();
     CREATE FUNCTION breaking(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
        BEGIN
            IF $1 = 7 AND EXISTS (SELECT FROM public.broken) THEN RAISE 'no value for %', $1; END IF;
            RETURN $1;
        END $$";

on_shared!(expression_fails_later);
fn expression_fails_later(database: &Database) {
    let (mut session, heard) = server().connect_hearing(&database.name);
    session.run(BREAKING);
    session.run(
        "CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 300));
         CREATE INDEX t_skip ON t USING skip (breaking(k)) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 500) i;
         INSERT INTO broken DEFAULT VALUES",
    );
    for upkeep in ["VACUUM t", "SELECT skip_summarize('t_skip')", "VACUUM t"] {
        heard.lock().unwrap().clear();
        session.run(upkeep);
        let warnings = heard.lock().unwrap().clone();
        assert_eq!(warnings.len(), 1, "{upkeep}: {warnings:?}");
        let warning = &warnings[0];
        for part in ["WARNING", "t_skip", "block 0 ", "table \"t\"", "no value for 7"] {
            assert!(warning.contains(part), "{upkeep}: {warning}");
        }
        let open = "SELECT sum(open_ranges) FROM skip_index_segments('t_skip')";
        assert_eq!(session.one(open), "1", "{upkeep}");
        let summarized = "SELECT ranges - summarized <= 2 FROM skip_index_info('t_skip')";
        assert_eq!(session.one(summarized), "t", "{upkeep}: the others have their filter");
    }
    // Others go on: inserts summarize, too, and meet the row again.
    session.run("ALTER INDEX t_skip SET (autosummarize = on)");
    session.run("INSERT INTO t SELECT i, i + 10 FROM generate_series(501, 3000) i");
    session.run("UPDATE t SET k = 1 WHERE id % 97 = 0");
    who_may_not_read_is_not_told(database);
    session.run("TRUNCATE broken");
    heard.lock().unwrap().clear();
    session.run("VACUUM t");
    assert_eq!(*heard.lock().unwrap(), Vec::<String>::new(), "nothing fails any more");
    assert_eq!(session.one("SELECT sum(open_ranges) FROM skip_index_segments('t_skip')"), "0");
    for key in [7, 8, 1, 2000] {
        same(&mut session, "t", &Question::using("t_skip", format!("breaking(k) = {key}")));
    }
    sound(&mut session, "t_skip");
}

/// Who may insert, but not read, is warned without the words of the error, which may quote the row.
fn who_may_not_read_is_not_told(database: &Database) {
    let (mut session, heard) = server().connect_hearing(&database.name);
    let writer = format!("{}_writer", database.name);
    session.run(&format!(
        "CREATE ROLE {writer}; CREATE TABLE w (LIKE t);
         CREATE INDEX w_skip ON w USING skip (breaking(k)) WITH (pages_per_range = 1);
         GRANT INSERT ON w TO {writer}; GRANT SELECT ON broken TO {writer}; TRUNCATE broken;
         INSERT INTO w VALUES (7, 7); INSERT INTO broken DEFAULT VALUES; SET ROLE {writer}"
    ));
    session.run("INSERT INTO w SELECT 1, 1, repeat('x', 300) FROM generate_series(1, 1000)");
    let warnings = heard.lock().unwrap().clone();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("block 0") && !warnings[0].contains("no value for 7"), "{warnings:?}");
    // Nor is who may only maintain the table told, in whose name a row is read.
    if install().version >= 17 {
        session.run(&format!("RESET ROLE; GRANT MAINTAIN ON w TO {writer}; SET ROLE {writer}"));
        for upkeep in ["VACUUM w", "SELECT skip_summarize('w_skip')"] {
            heard.lock().unwrap().clear();
            session.run(upkeep);
            let warnings = heard.lock().unwrap().clone();
            assert_eq!(warnings.len(), 1, "{upkeep}: {warnings:?}");
            assert!(!warnings[0].contains("no value for 7"), "{upkeep}: {warnings:?}");
        }
    }
    session.run(&format!("RESET ROLE; DROP OWNED BY {writer}; DROP ROLE {writer}"));
}

on_shared!(hash_function_fails_later);
fn hash_function_fails_later(database: &Database) {
    let (mut session, heard) = server().connect_hearing(&database.name);
    session.run(BREAKING);
    session.run(
        "CREATE FUNCTION breaking_hash(int, bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE sql
            AS 'SELECT hashint4extended(public.breaking($1), $2)';
         CREATE OPERATOR CLASS breaking_ops FOR TYPE int USING skip AS OPERATOR 1 =,
         FUNCTION 1 breaking_hash(int, bigint);
         CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 300));
         CREATE INDEX t_skip ON t USING skip (k breaking_ops) WITH (pages_per_range = 1);
         INSERT INTO t SELECT i, i FROM generate_series(1, 20) i; INSERT INTO broken DEFAULT VALUES",
    );
    session.run("INSERT INTO t SELECT i, i FROM generate_series(21, 1000) i");
    session.run("VACUUM t");
    assert!(heard.lock().unwrap().iter().any(|warning| warning.contains("no value for 7")));
    same(&mut session, "t", &Question::using("t_skip", "k = 8"));
    session.run("TRUNCATE broken");
    session.run("VACUUM t");
    assert_eq!(session.one("SELECT sum(open_ranges) FROM skip_index_segments('t_skip')"), "0");
    same(&mut session, "t", &Question::using("t_skip", "k = 7"));
    sound(&mut session, "t_skip");
}

on_shared!(cancelled_in_an_expression);
/// A cancelled VACUUM is cancelled, and not a row that failed.
fn cancelled_in_an_expression(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE slow ();
         CREATE FUNCTION slowly(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
            BEGIN IF EXISTS (SELECT FROM public.slow) THEN PERFORM pg_sleep(60); END IF; RETURN $1; END $$;
         CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 300));
         CREATE INDEX t_skip ON t USING skip (slowly(k)) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 500) i; INSERT INTO slow DEFAULT VALUES",
    );
    for upkeep in ["VACUUM t", "SELECT skip_summarize('t_skip')"] {
        session.run("SET statement_timeout = 500");
        assert_eq!(session.error(upkeep).code().code(), "57014", "{upkeep}");
        session.run("SET statement_timeout = 60000");
    }
    session.run("TRUNCATE slow");
    session.run("VACUUM t");
    same(&mut session, "t", &Question::using("t_skip", "slowly(k) = 8"));
}

on_shared!(inserts_fill_a_large_gap);
/// A cancelled VACUUM leaves ranges below the watermark without a filter. An insert that comes upon them summarizes a
/// usual batch, no more: a larger one may take longer than statement_timeout allows, each time anew.
fn inserts_fill_a_large_gap(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE slow ();
         CREATE FUNCTION slowly(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
            BEGIN IF k = 2500 AND EXISTS (SELECT FROM public.slow) THEN PERFORM pg_sleep(60); END IF; RETURN k; END $$;
         CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 900));
         CREATE INDEX t_skip ON t USING skip (public.slowly(k))
             WITH (layout = filters, pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i; INSERT INTO slow DEFAULT VALUES;
         SET statement_timeout = 500",
    );
    assert_eq!(session.error("VACUUM t").code().code(), "57014");
    session.run("SET statement_timeout = 60000; TRUNCATE slow; ALTER INDEX t_skip SET (autosummarize = on)");
    let summarized = "SELECT summarized FROM skip_index_info('t_skip')";
    assert_eq!(session.one(summarized), "0");
    let (mut before, mut most) = (0.0, 0.0f64);
    for id in 3001..3200 {
        session.run(&format!("INSERT INTO t VALUES ({id}, {id})"));
        let now = session.number(summarized);
        most = most.max(now - before);
        before = now;
    }
    assert!(before > 375.0, "{before} ranges are summarized after 24 new blocks");
    // The one that comes to the end of the gap also summarizes what is behind it.
    assert!((1.0..64.0).contains(&most), "one insert summarized {most} ranges");
    same(&mut session, "t", &Question::using("t_skip", "slowly(k) = 2500"));
    sound(&mut session, "t_skip");
}

on_shared!(ranges_with_too_many_keys);
/// An index that is older than its rows chooses its layout, although the ranges of one column have more keys than
/// memory allows: the other column gets its map, and the user is told.
fn ranges_with_too_many_keys(database: &Database) {
    let (mut session, heard) = server().connect_hearing(&database.name);
    session.run("SET maintenance_work_mem = '1MB'"); // 16,384 keys of a range, of which 28,928 rows fit into one
    session.run(
        "CREATE TABLE t (id int, d int);
         CREATE INDEX t_skip ON t USING skip (id, d) WITH (pages_per_range = 128, autosummarize = off);
         INSERT INTO t SELECT i, i / 10000 FROM generate_series(1, 200000) i",
    );
    for upkeep in ["VACUUM t", "SELECT skip_summarize('t_skip')"] {
        heard.lock().unwrap().clear();
        session.run(upkeep);
        let told = heard.lock().unwrap().concat();
        assert!(told.contains("more distinct values than maintenance_work_mem allows"), "{upkeep}: {told}");
    }
    let summarized = "SELECT summarized FROM skip_index_info('t_skip') WHERE column_name = 'd'";
    assert_ne!(session.one(summarized), "0");
    same(&mut session, "t", &Question::using("t_skip", "d = 7"));
    same(&mut session, "t", &Question::using("t_skip", "id = 77777"));
    assert_eq!(session.one("SELECT count(*) <= 2 FROM skip_matching_ranges('t_skip', 'd', 7)"), "t");
    sound(&mut session, "t_skip");
}
