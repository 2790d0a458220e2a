//! skip_index_verify: it finds rows that the index has lost, and says so where it cannot look undisturbed.
use crate::registry::{alone, on_shared};
use crate::shared::{Database, together};
use crate::standby::{catch_up, replicated};
use pg_skip_tests::compare::sound;
use pg_skip_tests::session::Session;
use std::time::{Duration, Instant};

alone!(verifying_what_never_stands_still);
/// The index's expression waits, on the standby, until replay has recycled pages: so no look at the index is
/// undisturbed, and skip_index_verify must say so, not that the index is sound.
fn verifying_what_never_stands_still() {
    // Little WAL, so that much happens in what a look waits for.
    let (primary, standby) = replicated(&["max_standby_streaming_delay=-1", "wal_consistency_checking="]);
    let mut session = primary.connect("skip_template");
    session.run(
        "CREATE FUNCTION waiting(k int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
         DECLARE start pg_lsn;
         BEGIN
             IF k = 1 AND pg_is_in_recovery() THEN
                 start := pg_last_wal_replay_lsn();
                 WHILE pg_last_wal_replay_lsn() - start < 500000 LOOP PERFORM pg_sleep(0.005); END LOOP;
             END IF;
             RETURN k;
         END $$;
         CREATE TABLE t (k int, filler text DEFAULT repeat('x', 1000));
         INSERT INTO t SELECT generate_series(1, 100);
         CREATE INDEX t_skip ON t USING skip (waiting(k)) WITH (pages_per_range = 1, autosummarize = off)",
    );
    // New ranges each time: narrow segments are merged, and their pages used again.
    let grow = |session: &mut Session| {
        session.run("INSERT INTO t SELECT 2 FROM generate_series(1, 7)");
        session.run("SELECT skip_summarize('t_skip')");
    };
    (0..37).for_each(|_| grow(&mut session));
    let mut reader = standby.connect("skip_template");
    catch_up(&mut session, &mut reader);
    let is_asked = std::sync::atomic::AtomicBool::new(false);
    together(vec![
        Box::new(|| {
            let mut session = primary.connect("skip_template");
            let end = Instant::now() + Duration::from_secs(100);
            while !is_asked.load(std::sync::atomic::Ordering::Relaxed) && Instant::now() < end {
                grow(&mut session);
            }
        }),
        Box::new(|| {
            // Now and then the segments have just been merged into wide ones, which stay for a while.
            let verify = "SELECT * FROM skip_index_verify('t_skip')";
            let error = (0..10).find_map(|_| match reader.try_rows(verify) {
                Ok(rows) => rows.is_empty().then_some(()).map_or_else(|| panic!("{rows:?}"), |()| None),
                Err(error) => Some(error),
            });
            is_asked.store(true, std::sync::atomic::Ordering::Relaxed);
            let error = error.expect("a verification without an undisturbed look");
            let db = error.as_db_error().expect("an error of the server's");
            assert_eq!(db.code().code(), "55006", "{db:?}");
            assert!(db.hint().is_some_and(|hint| hint.contains("again")), "{db:?}");
        }),
    ]);
    // When replay has nothing to do, a look is one: the expression waits for WAL that does not concern the index.
    catch_up(&mut session, &mut reader);
    let is_asked = std::sync::atomic::AtomicBool::new(false);
    together(vec![
        Box::new(|| {
            let end = Instant::now() + Duration::from_secs(100);
            while !is_asked.load(std::sync::atomic::Ordering::Relaxed) && Instant::now() < end {
                session.run(
                    "CREATE TABLE other AS SELECT repeat('x', 100) FROM generate_series(1, 5000);
                     DROP TABLE other",
                );
            }
        }),
        Box::new(|| {
            let rows = reader.try_rows("SELECT * FROM skip_index_verify('t_skip')");
            is_asked.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(rows.expect("an undisturbed look").len(), 0);
        }),
    ]);
    drop((session, reader));
    standby.finish();
    primary.finish();
}

on_shared!(verifying_asks_with_other_blanks);
/// A hash function that counts blanks, as PostgreSQL 15's does: the index loses rows, and verifying it says so.
fn verifying_asks_with_other_blanks(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE FUNCTION hash_with_blanks(bpchar, bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE sql
            AS $$ SELECT hashtextextended(convert_from(bpcharsend($1), 'UTF8') COLLATE \"C\", $2) $$;
         CREATE OPERATOR CLASS wrong_ops FOR TYPE bpchar USING skip AS
            OPERATOR 1 =, FUNCTION 1 hash_with_blanks(bpchar, bigint);
         CREATE TABLE t (id int, c char(10));
         INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i;
         CREATE INDEX t_wrong ON t USING skip (c wrong_ops) WITH (pages_per_range = 1);
         CREATE INDEX t_right ON t USING skip (c) WITH (pages_per_range = 1)",
    );
    sound(&mut session, "t_right");
    let problems = session.column("SELECT problem FROM skip_index_verify('t_wrong')");
    assert!(problems.iter().any(|problem| problem.contains("column 1")), "{problems:?}");
}

/// Lets two indexes have each other's files: they lack all that is in the own table only.
fn swap_files(session: &mut Session, one: &str, other: &str) {
    session.run(&format!(
        "UPDATE pg_class AS c SET relfilenode = o.relfilenode FROM pg_class AS o
         WHERE (c.oid, o.oid) IN (('{one}'::regclass, '{other}'::regclass), ('{other}'::regclass, '{one}'::regclass))"
    ));
}

on_shared!(verifying_finds_what_is_missing);
/// An index of each kind that lacks keys, or whose bounds are too narrow. Its pages are sound.
fn verifying_finds_what_is_missing(database: &Database) {
    let mut session = database.session();
    for (class, kind, value) in [
        ("int8_skip_ops", "int8", "i"),
        ("array_element_skip_ops", "text[]", "ARRAY['all', 'n' || i]"),
        ("jsonb_path_skip_ops", "jsonb", "jsonb_build_object('all', 1, 'n', i)"),
        ("tsvector_skip_ops", "tsvector", "to_tsvector('simple', 'all n' || i)"),
        ("text_token_skip_ops", "text", "'all n' || i"),
        ("text_ngram_skip_ops", "text", "'all ' || md5(i::text)"),
        ("text_prefix_skip_ops (length = 6)", "text", "'n' || i"),
        ("int8_minmax_skip_ops", "int8", "i"),
    ] {
        for layout in ["map", "filters"] {
            let with = if class.contains("minmax") {
                "pages_per_range = 1".to_owned()
            } else {
                format!("pages_per_range = 1, layout = {layout}, false_positive_rate = 0.001")
            };
            session.run(&format!(
                "DROP TABLE IF EXISTS a, b;
                 CREATE TABLE a (v {kind}); INSERT INTO a SELECT {value} FROM generate_series(100001, 102000) i;
                 CREATE TABLE b (v {kind}); INSERT INTO b SELECT {value} FROM generate_series(200001, 202000) i;
                 CREATE INDEX a_v ON a USING skip (v {class}) WITH ({with});
                 CREATE INDEX b_v ON b USING skip (v {class}) WITH ({with})"
            ));
            swap_files(&mut session, "a_v", "b_v");
            for index in ["a_v", "b_v"] {
                let problems = session.column(&format!("SELECT problem FROM skip_index_verify('{index}')"));
                let is_named = |problem: &String| problem.contains("column 1");
                assert!(problems.iter().any(is_named), "{class} {layout}: {problems:?}");
            }
            swap_files(&mut session, "a_v", "b_v");
            sound(&mut session, "a_v");
            sound(&mut session, "b_v");
        }
    }
}

on_shared!(verifying_with_too_little_memory);
/// A range with more keys than memory allows is not passed over in silence.
fn verifying_with_too_little_memory(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (v int[]);
         INSERT INTO t SELECT ARRAY[i, -i, i + 1000000, i + 2000000] FROM generate_series(1, 150000) i;
         CREATE TABLE u (v int); INSERT INTO u SELECT generate_series(1, 250000)",
    );
    for (what, options) in [
        ("t USING skip (v array_element_skip_ops)", ", layout = map"),
        ("t USING skip (v array_element_skip_ops)", ", layout = filters"),
        ("u USING skip (v int4_minmax_skip_ops)", ""),
    ] {
        session.run(&format!(
            "RESET maintenance_work_mem; DROP INDEX IF EXISTS an_index;
             CREATE INDEX an_index ON {what} WITH (pages_per_range = 1024{options})"
        ));
        sound(&mut session, "an_index");
        session.run("SET maintenance_work_mem = '1MB'");
        let problems = session.column("SELECT problem FROM skip_index_verify('an_index')");
        let is_told = problems.len() == 1 && problems[0].contains("were not checked: 1 (");
        assert!(is_told, "{what}{options}: {problems:?}");
        // A range of the first two is open if it is built with so little memory: it needs no check.
        if !options.is_empty() {
            session.run("REINDEX INDEX an_index");
            sound(&mut session, "an_index");
        }
    }
}

on_shared!(verifying_names_the_partition);
/// Of a partitioned index, all partitions are verified, and a problem is that of the index that has it.
fn verifying_names_the_partition(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE p (id int, k int) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (2000);
         CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (2000) TO (4000) PARTITION BY RANGE (id);
         CREATE TABLE p2a PARTITION OF p2 FOR VALUES FROM (2000) TO (3000);
         CREATE TABLE p2b PARTITION OF p2 FOR VALUES FROM (3000) TO (4000);
         INSERT INTO p SELECT i, i FROM generate_series(0, 3999) i;
         CREATE TABLE other AS SELECT i AS id, i AS k FROM generate_series(10000, 11000) i;
         CREATE INDEX p_skip ON p USING skip (k) WITH (pages_per_range = 1, layout = map);
         CREATE INDEX other_skip ON other USING skip (k) WITH (pages_per_range = 1, layout = map)",
    );
    let named = "SELECT DISTINCT index::text FROM skip_index_verify('p_skip')";
    for index in ["p1_k_idx", "p2a_k_idx", "p2b_k_idx"] {
        assert!(session.column(named).is_empty());
        swap_files(&mut session, index, "other_skip");
        assert_eq!(session.column(named), [index]);
        swap_files(&mut session, index, "other_skip");
    }
}

on_shared!(verifying_while_inserts_take_spare_pages);
/// Inserts take spare pages for the delta without the lock that verifying holds: a page that is a delta page when
/// verifying comes to it was a spare one when its chain was followed. That is no damage.
fn verifying_while_inserts_take_spare_pages(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, filler text DEFAULT repeat('x', 60)) WITH (fillfactor = 30, autovacuum_enabled = off);
         INSERT INTO t SELECT generate_series(1, 20000);
         CREATE INDEX t_skip ON t USING skip (k)
             WITH (pages_per_range = 1, autosummarize = off, delta_limit = 1048576)",
    );
    let mut looks = 0;
    for _ in 0..8 {
        // New keys in old ranges: the delta grows, and is folded, so that its pages are spare ones.
        session.run("UPDATE t SET k = k + 1000000");
        session.run("SELECT skip_summarize('t_skip')");
        session.run("VACUUM t");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let count = std::sync::atomic::AtomicU32::new(0);
        together(vec![
            Box::new(|| {
                let mut writer = database.session();
                writer.run("UPDATE t SET k = k + 1000000");
                is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            }),
            Box::new(|| {
                let mut reader = database.session();
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let problems = reader.rows("SELECT * FROM skip_index_verify('t_skip')");
                    assert!(problems.is_empty(), "{problems:?}");
                    count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            }),
        ]);
        looks += count.into_inner();
    }
    assert!(looks >= 8, "{looks} looks: nothing was looked at while pages were taken");
    sound(&mut session, "t_skip");
}
