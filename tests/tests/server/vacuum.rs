//! VACUUM: workers of it that meet a failing expression, and tables that it cuts short.
use crate::ddl::works;
use crate::registry::on_shared;
use crate::shared::Database;
use crate::summarize::BREAKING;
use pg_skip_tests::compare::{Question, same, sound};

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
