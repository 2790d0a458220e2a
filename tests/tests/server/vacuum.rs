//! VACUUM: workers of it that meet a failing expression, functions that insert while it calls them, and tables that it
//! cuts short.
use crate::ddl::works;
use crate::registry::on_shared;
use crate::shared::{self, Database, wait_until};
use crate::summarize::BREAKING;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::likely::likely;
use pg_skip_tests::server::has_maps;
use std::sync::atomic::{AtomicBool, Ordering};

on_shared!(expression_fails_in_parallel_vacuum);
/// In parallel VACUUM a subtransaction cannot be had everywhere; VACUUM must not fail for all that.
fn expression_fails_in_parallel_vacuum(database: &Database) {
    let mut session = database.session();
    session.run(BREAKING);
    session.run(
        "CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 300));
         CREATE INDEX t_skip ON t USING skip (breaking(k)) WITH (pages_per_range = 1, autosummarize = off);
         CREATE INDEX t_id ON t (id); CREATE INDEX t_k ON t (k); CREATE INDEX t_both ON t (id, k);
         INSERT INTO t SELECT i, i FROM generate_series(1, 2000) i;
         INSERT INTO broken DEFAULT VALUES",
    );
    session.run("SET min_parallel_index_scan_size = 0; SET max_parallel_maintenance_workers = 4");
    for _ in 0..2 {
        session.run("VACUUM (PARALLEL 4) t");
        session.run("DELETE FROM t WHERE id % 10 = 3");
        session.run("VACUUM (PARALLEL 4, INDEX_CLEANUP ON) t");
    }
    session.run("TRUNCATE broken");
    session.run("VACUUM (PARALLEL 4) t");
    session.run("VACUUM (PARALLEL 0) t");
    assert_eq!(session.one("SELECT sum(open_ranges) FROM skip_index_segments('t_skip')"), "0");
    for key in [7, 8, 1999] {
        same(&mut session, "t", &Question::using("t_skip", format!("breaking(k) = {key}")));
    }
    sound(&mut session, "t_skip");
}

on_shared!(an_index_that_was_left_behind);
/// A failed CREATE INDEX CONCURRENTLY leaves an index that is not valid. VACUUM does not complete it, which may need
/// temporary files, but processes the table.
fn an_index_that_was_left_behind(database: &Database) {
    let mut session = database.session();
    session.run(
        "SET maintenance_work_mem = '1MB';
         CREATE TABLE t (id int, k int);
         INSERT INTO t SELECT i, i FROM generate_series(1, 150000) i;
         CREATE INDEX t_skip ON t USING skip (k) WITH (layout = map, pages_per_range = 1, autosummarize = off);
         UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't_skip'::regclass;
         DELETE FROM t WHERE id % 10 = 3;
         SET temp_file_limit = 0",
    );
    let frozen = "SELECT relfrozenxid FROM pg_class WHERE oid = 't'::regclass";
    let before = session.one(frozen);
    for parallel in [0, 2] {
        session.run(&format!("VACUUM (FREEZE, INDEX_CLEANUP ON, PARALLEL {parallel}) t"));
        session.run("DELETE FROM t WHERE id % 10 = 4");
    }
    assert_ne!(session.one(frozen), before, "the table was not vacuumed");
    session.run("RESET temp_file_limit; REINDEX INDEX t_skip");
    for key in [4711, 4712, 4714] {
        same(&mut session, "t", &Question::using("t_skip", format!("k = {key}")));
    }
    sound(&mut session, "t_skip");
}

on_shared!(tables_cut_short_grow_again);
/// VACUUM cuts a table short after it has called the index. When the table grows again its ranges are new ones: neither
/// do all rows come through the delta, nor are filters of the old rows left to fill up.
fn tables_cut_short_grow_again(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t (id int, a int, filler text DEFAULT repeat('x', 100))");
    session.run("CREATE INDEX t_skip ON t USING skip (a) WITH (pages_per_range = 2)");
    let grow = "INSERT INTO t SELECT i, i % 20011 FROM generate_series(1, 40000) i";
    for keep in [0, 500, 30_000] {
        session.run(grow);
        session.run("SELECT skip_summarize('t_skip')");
        session.run(&format!("DELETE FROM t WHERE ctid >= '({},0)'", keep / 60));
        session.run("VACUUM t");
        works(&mut session, "t", "t_skip", "a");
        session.run(grow);
        works(&mut session, "t", "t_skip", "a");
        let entries = session.number("SELECT delta_entries FROM skip_index_info('t_skip')");
        assert!(entries < 15_000.0, "{entries} delta entries after growing again from {keep} rows");
        session.run("VACUUM t");
        works(&mut session, "t", "t_skip", "a");
        session.run("TRUNCATE t");
    }
}

/// `f` inserts rows into the table when it meets a key, once. It says that it is immutable, and is not.
pub const INSERTING: &str =
    "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, filler text DEFAULT repeat('x', 270))
        WITH (autovacuum_enabled = off);
    CREATE FUNCTION insert_into_t() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
        BEGIN
            IF current_setting('my.inserts', true) = 'on' THEN
                PERFORM set_config('my.inserts', 'off', false);
                INSERT INTO public.t (k) SELECT i FROM generate_series(2, 15000, 2) i;
            END IF;
        END $$;
    CREATE FUNCTION f(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
        BEGIN
            IF k = 19001 THEN PERFORM public.insert_into_t(); END IF;
            RETURN k;
        END $$;
    CREATE INDEX t_skip ON t USING skip (f(k)) WITH (pages_per_range = 1, delta_limit = 64);
    INSERT INTO t (k) SELECT i FROM generate_series(1, 20000) i";

on_shared!(functions_that_insert_are_not_maintenance);
/// Rows that come while maintenance calls a function of the same index do not maintain it as well: that would change it
/// under the maintenance.
fn functions_that_insert_are_not_maintenance(database: &Database) {
    let mut session = database.session();
    session.run(INSERTING);
    session.run("VACUUM t");
    // VACUUM meets the key when it rebuilds a map from the table. Filters are not rebuilt here; it meets the key in a
    // range that is not summarized yet.
    if !has_maps() {
        session.run("INSERT INTO t (k) SELECT 19001 UNION ALL SELECT * FROM generate_series(21001, 21099)");
    }
    session.run("DELETE FROM t WHERE k % 2 = 0");
    session.run("VACUUM (INDEX_CLEANUP OFF) t");
    let before = session.number("SELECT count(*) FROM t");
    session.run("SET my.inserts = on");
    session.run("VACUUM t");
    session.run("SET my.inserts = off");
    assert_eq!(session.number("SELECT count(*) FROM t"), before + 7500.0, "the function has inserted");
    for key in (2..15000).step_by(250).chain([19001, 19002]) {
        same(&mut session, "t", &Question::using("t_skip", format!("f(k) = {key}")));
    }
    sound(&mut session, "t_skip");
    session.run("VACUUM t");
    sound(&mut session, "t_skip");
}

on_shared!(maintenance_of_an_index_that_is_being_maintained);
fn maintenance_of_an_index_that_is_being_maintained(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int) WITH (autovacuum_enabled = off);
         CREATE FUNCTION summarize() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
             BEGIN
                 IF current_setting('my.summarizes', true) = 'on' THEN
                     PERFORM public.skip_summarize('public.t_skip');
                 END IF;
             END $$;
         CREATE FUNCTION f(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
             BEGIN IF k = 500 THEN PERFORM public.summarize(); END IF; RETURN k; END $$;
         CREATE INDEX t_skip ON t USING skip (f(k)) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i; SET my.summarizes = on",
    );
    // The range is left open with a warning, like each whose expression fails.
    session.run("VACUUM t");
    assert!(session.number("SELECT sum(open_ranges) FROM skip_index_segments('t_skip')") > 0.0);
    session.run("SET my.summarizes = off");
    session.run("VACUUM t");
    assert_eq!(session.one("SELECT sum(open_ranges) FROM skip_index_segments('t_skip')"), "0");
    sound(&mut session, "t_skip");
}

on_shared!(values_are_deleted_while_vacuum_reads_them);
/// VACUUM's snapshot keeps no value of a row that another transaction deletes, even if the row was live when VACUUM
/// read its page. Reading such a value must not end VACUUM.
fn values_are_deleted_while_vacuum_reads_them(database: &Database) {
    const ROWS: u32 = 60;
    let mut session = database.session();
    let mut other = database.session();
    let mut met = 0;
    for workers in [0, 0, 2] {
        session.run("DROP TABLE IF EXISTS t");
        session.run("CREATE TABLE t (id int, a text, b text) WITH (vacuum_truncate = off)");
        session.run("ALTER TABLE t ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL");
        let index = |column: &str| {
            format!(
                "CREATE INDEX t_{column} ON t USING skip ({column} text_ngram_skip_ops)
                 WITH (pages_per_range = 1, autosummarize = off)"
            )
        };
        session.run("SET min_parallel_index_scan_size = 0");
        session.run(&index("a"));
        session.run(&index("b"));
        // All rows are on one page, beside which there is a second one.
        session.run(&format!(
            "INSERT INTO t SELECT i, 'q' || i || repeat(md5(i::text), 20000), 'r' || i || repeat(md5(i::text), 9000)
             FROM generate_series(1, {ROWS}) i;
             INSERT INTO t SELECT 1000 + i, repeat('x', 1800), '' FROM generate_series(1, 8) i"
        ));
        let toast = session.one("SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 't'::regclass");
        let is_over = AtomicBool::new(false);
        let deletes = || {
            wait_until("VACUUM reads values", || {
                let reads = "SELECT count(*) FROM pg_stat_progress_vacuum
                    WHERE datname = current_database() AND phase = 'cleaning up indexes'";
                let does_read = other.number(reads) >= 1.0;
                met += u32::from(does_read);
                does_read || is_over.load(Ordering::Relaxed)
            });
            for last in [ROWS - 1, ROWS] {
                other.run(&format!("DELETE FROM t WHERE id = {last}"));
                other.run(&format!("VACUUM {toast}"));
            }
        };
        let vacuum = || {
            session.run(&format!("VACUUM (PARALLEL {workers}) t"));
            is_over.store(true, Ordering::Relaxed);
        };
        shared::together(vec![Box::new(vacuum), Box::new(deletes)]);
        for step in ["SELECT 1", "VACUUM t"] {
            session.run(step);
            for id in [1, ROWS - 2, ROWS - 1, ROWS] {
                same(&mut session, "t", &Question::any(format!("a LIKE 'q{id}%'")));
                same(&mut session, "t", &Question::any(format!("b LIKE 'r{id}%'")));
            }
            sound(&mut session, "t_a");
            sound(&mut session, "t_b");
        }
    }
    likely(met > 0, || "VACUUM was never met while it read values".into());
}
