//! READ COMMITTED: a Skip Index Scan whose rows another transaction is changing waits, looks at the new version
//! (EvalPlanQual), and does what a sequential scan does. After PostgreSQL's isolation tests eval-plan-qual,
//! partition-key-update, skip-locked and nowait.
use super::blocked::{Outcome, blocked, outcome};
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Way, skips};
use pg_skip_tests::session::Session;

/// `k` is `id % 50`, so that each key has six rows far from each other.
const TABLES: &str = "
    CREATE TABLE t (id int, k int, n int, v int DEFAULT 0, filler text DEFAULT repeat('x', 300));
    CREATE TABLE o (id int, k int, n int, v int DEFAULT 0, filler text DEFAULT repeat('x', 300));
    CREATE TABLE p (id int, part int, k int, v int DEFAULT 0) PARTITION BY LIST (part);
    CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1);
    CREATE TABLE p_2 PARTITION OF p FOR VALUES IN (2);
    CREATE INDEX t_skip ON t USING skip (k, n) WITH (pages_per_range = 1);
    CREATE INDEX o_skip ON o USING skip (k, n) WITH (pages_per_range = 1);
    CREATE INDEX p_skip ON p USING skip (k) WITH (pages_per_range = 1)";

const FILL: &str = "
    TRUNCATE t, o, p;
    INSERT INTO t SELECT i, i % 50, i % 7 FROM generate_series(1, 300) i;
    INSERT INTO o SELECT i, i % 50, i % 7 FROM generate_series(1, 300) i;
    INSERT INTO p SELECT i, 1 + i % 2, i % 50 FROM generate_series(1, 300) i;
    SELECT skip_summarize('t_skip'), skip_summarize('o_skip'), skip_summarize('p_1_k_idx'),
    skip_summarize('p_2_k_idx')";

/// What the first session does to row 5 and others.
const FIRST: [&str; 9] = [
    "UPDATE t SET k = 999 WHERE id = 5",
    "UPDATE t SET v = v + 10 WHERE id = 5",
    "UPDATE t SET v = v + 10, filler = repeat('y', 5000) WHERE id IN (5, 105)",
    "UPDATE t SET k = 5, v = 100 WHERE id IN (5, 6, 7, 299)",
    "UPDATE t SET k = 6, n = 5 WHERE id IN (5, 55)",
    "DELETE FROM t WHERE id = 5",
    "UPDATE t SET k = k + 1 WHERE id IN (5, 55, 105, 155, 205, 255)",
    "WITH more AS (INSERT INTO t SELECT i, 5, 5 FROM generate_series(1000, 1100) i) UPDATE t SET v = 3 WHERE id = 5",
    "SELECT * FROM t WHERE id = 5 FOR UPDATE",
];

/// What the second does meanwhile, by a Skip Index Scan; every one of them needs row 5.
const SECOND: [&str; 14] = [
    "UPDATE t SET v = v + 1 WHERE k = 5 RETURNING id, k, v",
    "UPDATE t SET v = v + 1 WHERE k IN (5, 999) RETURNING id, k, v",
    "UPDATE t SET v = v + 1 WHERE k = 5 OR n = 5 RETURNING id, k, v",
    "UPDATE t SET k = k + 1 WHERE k = 5 AND v = 0 RETURNING id, k",
    "DELETE FROM t WHERE k = 5 RETURNING id, k, v",
    "SELECT id, k, v FROM t WHERE k = 5 FOR UPDATE",
    "SELECT id, k, v FROM t WHERE k = 5 ORDER BY id LIMIT 2 FOR NO KEY UPDATE",
    "UPDATE t SET v = t.v + o.id FROM o WHERE o.k = t.k AND t.k = 5 AND o.id < 50 RETURNING t.id, t.k, t.v, o.id",
    "SELECT t.id, t.k, t.v, o.id FROM t JOIN o ON o.k = t.k WHERE t.n = 5 AND o.n = 5 FOR UPDATE OF t",
    "SELECT t.id, t.k, u.id, u.k FROM t JOIN t u ON u.k = t.k WHERE t.k = 5 AND u.n = t.n FOR UPDATE",
    "UPDATE t SET v = v + 1 WHERE k = (SELECT min(k) + 5 FROM o WHERE k IN (0, 1)) RETURNING id, v",
    "WITH c AS (SELECT id, k FROM t WHERE k = 5 FOR UPDATE)
     UPDATE t SET v = t.v + 1 FROM c WHERE t.id = c.id AND t.k = c.k RETURNING t.id, t.v",
    "MERGE INTO t USING (VALUES (5, 1), (998, 2)) s (k, v) ON t.k = s.k
     WHEN MATCHED AND t.v > 5 THEN DELETE WHEN MATCHED THEN UPDATE SET v = t.v + s.v
     WHEN NOT MATCHED THEN INSERT (id, k) VALUES (1000, s.k)",
    "UPDATE t SET v = v + 1 WHERE k = 5 AND EXISTS (SELECT FROM o WHERE o.k = t.k AND o.n = 6) RETURNING id, k",
];

/// The same where rows are in partitions.
const PARTITIONED: [[&str; 2]; 6] = [
    ["UPDATE p SET part = 1 WHERE id = 5", "UPDATE p SET v = v + 1 WHERE k = 5 RETURNING id"],
    ["UPDATE p SET part = 1 WHERE id = 5", "DELETE FROM p WHERE k = 5 RETURNING id"],
    ["UPDATE p SET part = 1 WHERE id = 5", "SELECT id, part FROM p WHERE k = 5 FOR UPDATE"],
    ["UPDATE p SET k = 999 WHERE id = 5", "UPDATE p SET part = 3 - part WHERE k = 5 RETURNING id, part"],
    ["UPDATE p SET v = 7 WHERE id = 5", "UPDATE p SET part = 3 - part WHERE k = 5 RETURNING id, part, v"],
    [
        "DELETE FROM p WHERE id = 5",
        "UPDATE p SET v = p.v + 1 FROM o WHERE o.k = p.k AND p.k = 5 AND o.id < 50 RETURNING p.id",
    ],
];

struct Sessions {
    one: Session,
    two: Session,
    watcher: Session,
}

impl Sessions {
    /// What the second statement gives that waits for the first's transaction, and all tables afterwards.
    fn play(&mut self, [first, second]: [&str; 2], end: &str, level: &str, way: &Way) -> (Outcome, Outcome) {
        let Self { one, two, watcher } = self;
        watcher.run(FILL);
        one.run("BEGIN");
        one.run(first);
        two.run(&format!("BEGIN ISOLATION LEVEL {level}; {}", way.local()));
        let mut found = blocked(two, second, watcher, || one.run(end));
        found.iter_mut().flatten().for_each(|rows| rows.sort());
        two.run(if found.is_ok() { "COMMIT" } else { "ROLLBACK" });
        let left =
            ["t", "o", "p"].map(|table| format!("SELECT id, k, v FROM {table} ORDER BY id, k, v")).join("; ");
        (found, outcome(watcher, &left))
    }
}

on_shared!(updates_of_rows_waited_for);
fn updates_of_rows_waited_for(database: &Database) {
    let mut sessions =
        Sessions { one: database.session(), two: database.session(), watcher: database.session() };
    sessions.watcher.run(TABLES);
    let crossed = FIRST.iter().flat_map(|&first| SECOND.iter().map(move |&second| [first, second]));
    for (number, pair) in crossed.chain(PARTITIONED).enumerate() {
        // Every pair with its transaction committed; some rolled back, and some at a level that gives up.
        let (end, level) = match number % 5 {
            3 => ("ROLLBACK", "READ COMMITTED"),
            4 => ("COMMIT", "REPEATABLE READ"),
            _ => ("COMMIT", "READ COMMITTED"),
        };
        let way = Way::skip_scan();
        let way = if number % 2 == 0 { way.nested_loop() } else { way };
        let expected = sessions.play(pair, end, level, &Way::plain());
        let found = sessions.play(pair, end, level, &way);
        assert_eq!(found, expected, "{pair:?} {end}, {level}, {way:?}");
        sessions.two.run(&format!("BEGIN; {}", way.local()));
        let plan = sessions.two.plan(pair[1]);
        sessions.two.run("ROLLBACK");
        assert!(skips(&plan), "{}\n{plan}", pair[1]);
    }
}

on_shared!(skip_locked_and_nowait);
/// Locked rows are passed over, or are an error; queues of jobs that are Skip Index Scans hand out each job once.
fn skip_locked_and_nowait(database: &Database) {
    let (mut one, mut two) = (database.session(), database.session());
    one.run(TABLES);
    one.run(FILL);
    for session in [&mut one, &mut two] {
        Way::skip_scan().set(session);
        session.run("BEGIN");
    }
    let next = "SELECT id FROM t WHERE k = 5 ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED";
    assert!(skips(&one.plan(next)));
    assert_eq!(one.column(next), ["5", "55"]);
    assert_eq!(two.column(next), ["105", "155"]);
    let rest = "SELECT id FROM t WHERE k IN (5, 6) AND id < 60 FOR SHARE SKIP LOCKED";
    let mut found = two.column(rest);
    found.sort();
    assert_eq!(found, ["56", "6"]);
    two.run("SAVEPOINT s");
    assert_eq!(two.error("SELECT id FROM t WHERE k = 5 FOR UPDATE NOWAIT").code().code(), "55P03");
    two.run("ROLLBACK TO s");
    one.run("DELETE FROM t WHERE id = 5; COMMIT");
    assert_eq!(two.column(next), ["55", "105"]);
    two.run("COMMIT");
}
