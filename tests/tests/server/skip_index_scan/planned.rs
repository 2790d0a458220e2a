//! The executor uses the answer that planning has found for the same key, unless something has changed since.
//!
//! EXPLAIN plans a query and leaves such an answer. A prepared statement that is not planned again then asks for the
//! same key, after whatever other sessions have done.
use crate::registry::on_shared;
use crate::shared::Database;
use fastrand::Rng;
use pg_skip_tests::explain::executed;
use pg_skip_tests::session::Session;
use pg_skip_tests::{cases, seed};

/// Half of each page is free, so that rows come into ranges that are summarized.
const TABLE: &str = "
    CREATE TABLE t (id int, k int, filler text DEFAULT repeat('x', 150))
        WITH (autovacuum_enabled = off, fillfactor = 50);
    INSERT INTO t SELECT i, i % 1000 FROM generate_series(1, 5000) i;
    CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 2)";

/// A session whose statement `by_key` is planned once, and always by a Skip Index Scan.
fn with_statement(database: &Database) -> Session {
    let mut session = database.session();
    session.run(
        "SET plan_cache_mode = force_generic_plan; SET pg_skip.force_indexes = 't_skip';
         PREPARE by_key (int) AS SELECT id FROM t WHERE k = $1; EXECUTE by_key (-1)",
    );
    session
}

fn plan(session: &mut Session, key: i32) {
    session.run(&format!("EXPLAIN SELECT id FROM t WHERE k = {key}"));
}

on_shared!(an_answer_is_used_again);
/// Once, and only for its key; the index pages that it took are told as if the executor had read them.
fn an_answer_is_used_again(database: &Database) {
    let mut session = database.session();
    session.run(TABLE);
    let mut session = with_statement(database);
    let mut execute = |planned: Option<i32>| {
        if let Some(key) = planned {
            plan(&mut session, key);
        }
        let node = executed(&mut session, "EXECUTE by_key (7)");
        (
            node.number("Shared Hit Blocks") + node.number("Shared Read Blocks"),
            node.number("Index Pages Read"),
        )
    };
    execute(None);
    let (anew, pages) = execute(None);
    let (again, told) = execute(Some(7));
    assert!(again < anew, "{again} blocks read again, {anew} anew");
    assert_eq!(told, pages, "index pages");
    assert_eq!(execute(None), (anew, pages), "the second time");
    assert_eq!(execute(Some(8)), (anew, pages), "another key");
}

on_shared!(a_table_cut_off_and_grown_again);
/// The table has as many blocks as when the query was planned, but the last ones are new.
fn a_table_cut_off_and_grown_again(database: &Database) {
    let mut other = database.session();
    other.run(TABLE);
    let mut session = with_statement(database);
    let blocks = "SELECT pg_relation_size('t') / 8192";
    let before = other.number(blocks);
    plan(&mut session, -5);
    other.run("DELETE FROM t WHERE id > 2500");
    other.run("VACUUM t");
    assert!(other.number(blocks) < before * 0.6, "the table was not cut off");
    other.run("INSERT INTO t SELECT i, -5 FROM generate_series(2501, 5000) i");
    assert_eq!(other.number(blocks), before, "blocks");
    assert_eq!(session.column("EXECUTE by_key (-5)").len(), 2500);
}

on_shared!(changes_since_planning_0 = changes(0));
on_shared!(changes_since_planning_1 = changes(1));
/// Rows that came between planning and execution are found.
fn changes(database: &Database, number: u64) {
    let mut other = database.session();
    other.run(TABLE);
    let mut session = with_statement(database);
    let mut rng = Rng::with_seed(seed() ^ (number + 0x706c_616e));
    for round in 0..cases(400) {
        let key = rng.i32(0..30);
        plan(&mut session, key);
        let changes: Vec<String> = (0..rng.usize(..3)).map(|_| change(&mut rng, key, round)).collect();
        changes.iter().for_each(|change| other.run(change));
        let sorted = |mut ids: Vec<String>| {
            ids.sort_unstable();
            ids
        };
        let found = sorted(session.column(&format!("EXECUTE by_key ({key})")));
        let there = format!("SELECT id FROM t WHERE k + 0 = {key}");
        assert_eq!(found, sorted(other.column(&there)), "round {round}, key {key}, after {changes:?}");
    }
    pg_skip_tests::compare::sound(&mut other, "t_skip");
}

/// Most changes touch the key. The row gets it in a block where it was not before, or where it is already.
fn change(rng: &mut Rng, key: i32, round: usize) -> String {
    let id = rng.i32(1..5000);
    match rng.u32(..14) {
        0..=4 => format!("UPDATE t SET k = {key} WHERE id = {id}"),
        5 => format!("UPDATE t SET k = {key} WHERE k = {} ", rng.i32(30..1000)),
        6 => format!("UPDATE t SET k = id % 1000 WHERE k = {key}"),
        7 => format!("BEGIN; UPDATE t SET k = {key} WHERE id = {id}; ROLLBACK"),
        8 => format!("INSERT INTO t SELECT {}, {key} FROM generate_series(1, 3)", 10_000 + round),
        9 => format!("DELETE FROM t WHERE k = {key} AND id % 2 = 0"),
        10 => "VACUUM t".into(),
        11 => "SELECT skip_summarize('t_skip')".into(),
        // What was added since planning is moved from the delta into segments.
        12 => format!("UPDATE t SET k = {key} WHERE id = {id}; SELECT skip_summarize('t_skip')"),
        _ => "REINDEX INDEX t_skip".into(),
    }
}
