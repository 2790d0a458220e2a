//! Cursors: a Skip Index Scan that stops and goes on, goes back, survives its transaction, or is cut off with a
//! savepoint, against the same moves over the list of its rows.
use super::queries::Asker;
use super::tables::Tables;
use crate::registry::on_shared;
use crate::shared::{Database, blame};
use fastrand::Rng;
use pg_skip_tests::both_ways::{Way, by_skip_scan, skips};
use pg_skip_tests::session::{Row, Session};
use pg_skip_tests::{cases, seed};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Where a cursor over some rows is: 0 before the first, then on each, at last one past them.
struct Position<'a> {
    rows: &'a [Row],
    at: usize,
}

impl Position<'_> {
    fn forward(&mut self, count: usize) -> Vec<Row> {
        let end = (self.at + count).min(self.rows.len());
        let rows = self.rows.get(self.at..end).unwrap_or_default().to_vec();
        self.at = (self.at + count).min(self.rows.len() + 1);
        rows
    }

    fn backward(&mut self, count: usize) -> Vec<Row> {
        let first = self.at.saturating_sub(count);
        let rows = (first.max(1)..self.at).rev().map(|at| self.rows[at - 1].clone()).collect();
        self.at = first;
        rows
    }

    fn jump(&mut self, to: i64) -> Vec<Row> {
        self.at = to.clamp(0, self.rows.len() as i64 + 1) as usize;
        self.rows.get(self.at.wrapping_sub(1)).into_iter().cloned().collect()
    }

    /// One random move: its words, and the rows it comes upon.
    fn step(&mut self, rng: &mut Rng, scroll: bool) -> (String, Vec<Row>) {
        let count = rng.usize(1..12);
        let (at, length) = (self.at as i64, self.rows.len() as i64);
        match rng.u32(..if scroll { 11 } else { 4 }) {
            0 => ("NEXT".into(), self.forward(1)),
            1..=2 => (format!("FORWARD {count}"), self.forward(count)),
            3 => (format!("RELATIVE {count}"), self.jump(at + count as i64)),
            4 => ("PRIOR".into(), self.backward(1)),
            5..=6 => (format!("BACKWARD {count}"), self.backward(count)),
            7 => (format!("ABSOLUTE {count}"), self.jump(count as i64)),
            8 => (format!("ABSOLUTE -{count}"), self.jump((length + 1 - count as i64).max(0))),
            9 => ("LAST".into(), self.jump(if length > 0 { length } else { 1 })),
            _ => (format!("RELATIVE -{count}"), self.jump(at - count as i64)),
        }
    }
}

on_shared!(cursors);
fn cursors(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    let mut used = 0;
    let rounds = cases(2) as u64;
    for round in 0..rounds {
        let seed = seed().wrapping_add(round);
        let mut tables = Tables::create(&mut session, Rng::with_seed(seed));
        other.run("SET search_path = made, public");
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..60 {
                tables.step(&mut session);
                used += usize::from(one_cursor(&mut session, &mut other, &mut tables));
            }
        }));
        if let Err(panic) = outcome {
            blame(&*panic, seed, "skip_index_scan::cursors::cursors", &tables.log);
        }
    }
    println!("{used} of {} cursors were Skip Index Scans", rounds * 60);
    assert!(
        used as u64 * 10 >= rounds * 60 * 6,
        "only {used} of {} cursors used a Skip Index Scan",
        rounds * 60
    );
}

/// Opens a cursor over a random condition and moves about in it; whether it was a Skip Index Scan.
fn one_cursor(session: &mut Session, other: &mut Session, tables: &mut Tables) -> bool {
    let rng = &mut tables.rng;
    let mut asker = Asker { rng };
    let (table, condition) = (asker.table(), asker.condition("x").sql);
    let order = if asker.rng.bool() { "ORDER BY x.id" } else { "" };
    let query = format!("SELECT x.id, x.ctid, x.k FROM {table} x WHERE {condition} {order}");
    let options = ["SCROLL", "NO SCROLL", ""][rng.usize(..3)];
    let hold = rng.u32(..4) == 0;
    let declare = format!("DECLARE c {options} CURSOR {} FOR {query}", if hold { "WITH HOLD" } else { "" });
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    session.run(&Way::plain().local());
    let expected = session.rows(&query);
    session.run(&Way::skip_scan().local());
    let plan = session.plan(&declare);
    session.run(&declare);
    let is_skip_scan = plan.starts_with("Custom Scan (Skip Index Scan)");
    assert!(!is_skip_scan || !plan.contains("Materialize"), "{plan}");
    // Without an option, a cursor may move back if its plan can do so.
    let scroll = options == "SCROLL" || (options.is_empty() && is_skip_scan);
    // Ranges are read from the first to the last, and so are partitions: the rows come as a sequential scan has them.
    let mut position = Position { rows: &expected, at: 0 };
    for number in 0..14 {
        if number == 5 {
            // Neither this transaction's changes nor another's are the cursor's business.
            session
                .run(&format!("SAVEPOINT s; UPDATE {table} SET k = k + 1 WHERE id % 50 = 1; ROLLBACK TO s"));
            if !hold {
                other.run(&format!(
                    "INSERT INTO {table} (id, k, s, n, t) SELECT i, i, 1, i, 'w7'
                     FROM generate_series(90000, 90030) i"
                ));
            }
        }
        if number == 9 && hold {
            session.run("COMMIT");
            session.run(&format!("DELETE FROM {table} WHERE id % 97 = 1"));
        }
        let (words, rows) = position.step(rng, scroll);
        if rng.u32(..4) == 0 {
            session.run(&format!("MOVE {words} IN c"));
            continue;
        }
        let found = session.rows(&format!("FETCH {words} FROM c"));
        assert_eq!(found, rows, "move {number}, {words}, of {declare}\nplan: {plan}");
    }
    session.run("CLOSE c");
    session.run("COMMIT");
    skips(&plan)
}

fn table(session: &mut Session) {
    session.run(
        "CREATE TABLE t (id int, k int, v int DEFAULT 0, filler text DEFAULT repeat('x', 400));
         INSERT INTO t SELECT i, i % 7 FROM generate_series(1, 1000) i;
         CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 2)",
    );
}

on_shared!(cursors_and_savepoints);
/// Scans that are open while savepoints are rolled back, and scans that go with their savepoint.
fn cursors_and_savepoints(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    let ids: Vec<String> = (1..=1000).filter(|i| i % 7 == 3).map(|i| i.to_string()).collect();
    for end in ["COMMIT", "ROLLBACK"] {
        session.run(&format!("BEGIN; {}", Way::skip_scan().local()));
        session.run("DECLARE outer_one CURSOR FOR SELECT id FROM t WHERE k = 3");
        assert!(skips(&session.plan("DECLARE c CURSOR FOR SELECT id FROM t WHERE k = 3")));
        let mut found = session.column("FETCH 10 FROM outer_one");
        for _ in 0..5 {
            session.run("SAVEPOINT s");
            found.extend(session.column("FETCH 10 FROM outer_one"));
            session.run("DECLARE inner_one CURSOR FOR SELECT id FROM t WHERE k = 4");
            assert_eq!(session.column("FETCH 3 FROM inner_one"), ["4", "11", "18"]);
            session.run("UPDATE t SET k = 3 WHERE k = 5");
            assert_eq!(session.error("SELECT 1 / 0 FROM t WHERE k = 4").code().code(), "22012");
            session.run("ROLLBACK TO s");
            assert_eq!(session.error("FETCH 1 FROM inner_one").code().code(), "34000", "the cursor is gone");
            session.run("ROLLBACK TO s");
        }
        session.run("SAVEPOINT s; DECLARE kept CURSOR FOR SELECT id FROM t WHERE k = 6; RELEASE s");
        assert_eq!(session.column("FETCH 2 FROM kept"), ["6", "13"]);
        found.extend(session.column("FETCH ALL FROM outer_one"));
        assert_eq!(found, ids);
        // One is left open for the end of the transaction to close.
        session.run(end);
        assert_eq!(session.one("SELECT count(*) FROM t WHERE k = 3"), ids.len().to_string());
    }
    session.run("VACUUM FREEZE t");
    session.run("DROP TABLE t");
}

on_shared!(back_and_forth);
/// Cursors without an option, in SQL and in PL/pgSQL, turn on the first and the last row, between pages and ranges, and
/// without any row.
fn back_and_forth(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run("DELETE FROM t WHERE id BETWEEN 300 AND 420");
    for condition in ["k = 3", "k = 3 AND id % 2 = 0", "k = 77", "k IN (1, 3)"] {
        let query = format!("SELECT id FROM t WHERE {condition}");
        let expected = session.column(&query);
        session.run(&format!("BEGIN; {}; DECLARE c CURSOR FOR {query}", Way::skip_scan().local()));
        assert!(skips(&session.plan(&query)), "{query}");
        let backward = || expected.iter().rev().cloned().collect::<Vec<_>>();
        for _ in 0..2 {
            assert_eq!(session.column("FETCH ALL FROM c"), expected, "{query}");
            assert!(session.column("FETCH NEXT FROM c").is_empty());
            assert_eq!(session.column("FETCH BACKWARD ALL FROM c"), backward(), "{query}");
            assert!(session.column("FETCH PRIOR FROM c").is_empty());
        }
        for (at, id) in expected.iter().enumerate() {
            assert_eq!(session.one("FETCH NEXT FROM c"), *id);
            if at > 0 {
                assert_eq!(session.one("FETCH PRIOR FROM c"), expected[at - 1]);
                assert_eq!(session.one("FETCH NEXT FROM c"), *id);
            }
        }
        let last = session.column("FETCH LAST FROM c");
        assert_eq!(last.first(), expected.last(), "{query}");
        session.run("COMMIT");
    }
    Way::skip_scan().set(&mut session);
    session.run(
        "CREATE FUNCTION last_two(wanted int) RETURNS int[] LANGUAGE plpgsql AS $$
         DECLARE c CURSOR FOR SELECT id FROM t WHERE k = wanted; found int[] = '{}'; one int;
         BEGIN
            OPEN c;
            FETCH LAST FROM c INTO one; found = found || one;
            FETCH PRIOR FROM c INTO one; found = found || one;
            RETURN found;
         END $$",
    );
    assert_eq!(session.one("SELECT last_two(3)"), "{997,990}");
    // A cursor that may move back needs no Materialize, and so a row can be changed where it stands.
    session.run("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE k = 3");
    session.run("MOVE LAST FROM c; MOVE PRIOR FROM c");
    assert_eq!(session.one("UPDATE t SET v = 9 WHERE CURRENT OF c RETURNING id"), "990");
    assert_eq!(session.one("FETCH NEXT FROM c"), "997");
    session.run("COMMIT; DROP TABLE t CASCADE");
}

on_shared!(current_of);
/// `WHERE CURRENT OF` a cursor that is a Skip Index Scan, or that is not while the table has a Skip Index Scan's index.
fn current_of(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run(
        "CREATE TABLE p (id int, k int, v int DEFAULT 0) PARTITION BY HASH (id);
         CREATE TABLE p_0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE TABLE p_1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1);
         INSERT INTO p SELECT i, i % 7 FROM generate_series(1, 1000) i;
         CREATE INDEX p_skip ON p USING skip (k) WITH (pages_per_range = 1)",
    );
    for (query, table) in [
        ("SELECT id FROM t WHERE k = 3", "t"),
        ("SELECT id FROM t WHERE k = 3 FOR UPDATE", "t"),
        ("SELECT id FROM t WHERE k IN (3, 4) AND id % 2 = 0", "t"),
        ("SELECT id FROM p WHERE k = 3 FOR UPDATE", "p"),
        ("SELECT id FROM p WHERE k = 3", "p"),
    ] {
        let (rows, _) = by_skip_scan(&mut session, query);
        for change in [format!("UPDATE {table} SET v = 1, k = 5"), format!("DELETE FROM {table}")] {
            session.run(&format!("BEGIN; {}", Way::skip_scan().local()));
            session.run(&format!("DECLARE c CURSOR FOR {query}"));
            for at in [1, 2, 17, 18] {
                let row = session.rows(&format!("FETCH RELATIVE {} FROM c", if at == 17 { 15 } else { 1 }));
                assert_eq!(row, rows[at - 1..at], "{query}");
                let changed = session.rows(&format!("{change} WHERE CURRENT OF c RETURNING id"));
                assert_eq!(changed, row, "{change} of {query}");
                let again = session.rows(&format!("{change} WHERE CURRENT OF c RETURNING id"));
                assert!(again.is_empty() || !change.contains("DELETE"), "deleted twice: {again:?}");
            }
            let plan = session.plan(&format!("{change} WHERE CURRENT OF c"));
            assert!(!skips(&plan), "the row is fetched by its address:\n{plan}");
            session.run("ROLLBACK");
        }
    }
}
