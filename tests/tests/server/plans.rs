//! What the planner makes of the index's bitmap scans: they are chosen where they help and left where they do not,
//! estimates are near the truth, and the ranges that survive are those of the rows and hardly any more.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::compare::{Question, same};
use pg_skip_tests::likely::likely;
use pg_skip_tests::session::Session;

/// A key that no row of `big` has.
pub const ABSENT: &str = "'00000000-0000-0000-0000-00000000dead'";

/// 300,000 rows: a random uuid, a value that is everywhere, and one that comes in stretches.
pub fn big(session: &mut Session) {
    session.run(
        "CREATE TABLE big AS SELECT i AS id, md5(i::text)::uuid AS u, i % 5 AS everywhere, i / 1000 AS stretch
         FROM generate_series(1, 300000) i",
    );
    session.run("CREATE INDEX big_skip ON big USING skip (u, everywhere, stretch)");
    session.run("VACUUM ANALYZE big");
}

/// The estimated total cost and rows of a plan's top node.
fn estimate(plan: &str) -> (f64, f64) {
    let number = |start: &str, end: char| {
        let (_, rest) = plan.split_once(start).expect("a plan");
        rest.split(end).next().and_then(|text| text.parse::<f64>().ok()).expect("a number")
    };
    (number("..", ' '), number("rows=", ' '))
}

on_shared!(before_anything_is_summarized);
/// Then a key may be anywhere, so the index is not used; but of a list without a key it knows that nothing matches.
fn before_anything_is_summarized(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, pad text DEFAULT repeat('x', 100));
         CREATE INDEX t_skip ON t USING skip (k) WITH (autosummarize = off);
         INSERT INTO t SELECT i, i FROM generate_series(1, 100000) i; ANALYZE t;
         SET max_parallel_workers_per_gather = 0",
    );
    for (predicate, is_used) in
        [("k = 5", false), ("k = 5 OR k = 7", false), ("k = ANY ('{}')", true), ("k = ANY ('{NULL}')", true)]
    {
        let plan = session.plan(&format!("SELECT * FROM t WHERE {predicate}"));
        assert_eq!(plan.contains("t_skip"), is_used, "{predicate}:\n{plan}");
        same(&mut session, "t", &Question::any(predicate.to_owned()));
    }
    // What planning remembers of an index is not that of a file which this transaction has replaced.
    session.run("BEGIN");
    assert!(!session.plan("SELECT * FROM t WHERE k = 5").contains("t_skip"));
    session.run("REINDEX INDEX t_skip");
    assert!(session.plan("SELECT * FROM t WHERE k = 5").contains("t_skip"));
    session.run("ROLLBACK");
    assert!(!session.plan("SELECT * FROM t WHERE k = 5").contains("t_skip"));
}

on_shared!(lookups_for_partitions);
/// Keys are looked up for the costs of 16 partitions. For the others, averages are taken.
fn lookups_for_partitions(database: &Database) {
    let mut session = database.session();
    session
        .run("CREATE TABLE t (part int, k int, id int, pad text DEFAULT repeat('x', 500)) PARTITION BY LIST (part)");
    for part in 0..70 {
        session.run(&format!("CREATE TABLE t_{part} PARTITION OF t FOR VALUES IN ({part})"));
    }
    session.run(
        "INSERT INTO t SELECT i % 70, i, i FROM generate_series(1, 70 * 300) i;
         CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 4); ANALYZE t;
         SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_partition_pruning = off;
         SET max_parallel_workers_per_gather = 0",
    );
    let plan = session.plan("SELECT * FROM t WHERE k = 777");
    let expected = |line: &&str| line.contains("Ranges Expected");
    assert_eq!(plan.lines().filter(expected).count(), 70, "{plan}");
    assert_eq!(plan.lines().filter(|line| line.contains("(average)")).count(), 70 - 16, "{plan}");
    same(&mut session, "t", &Question::any("k = 777".to_owned()));
}

on_shared!(index_or_not);
fn index_or_not(database: &Database) {
    let mut session = database.session();
    big(&mut session);
    session.run("SET pg_skip.enable_scan = off; SET max_parallel_workers_per_gather = 0");
    let (whole, _) = estimate(&session.plan("SELECT * FROM big WHERE (id = 1) IS TRUE"));
    let chosen = |session: &mut Session, predicate: &str, limit: f64| {
        let plan = session.plan(&format!("SELECT * FROM big WHERE {predicate}"));
        assert!(plan.contains("big_skip"), "the index should serve {predicate}:\n{plan}");
        let (cost, rows) = estimate(&plan);
        assert!(cost < whole * limit, "{predicate} is estimated at {cost} of {whole}:\n{plan}");
        rows
    };
    let rows = chosen(&mut session, &format!("u = {ABSENT}"), 0.05);
    assert!(rows <= 10.0, "{rows} rows are expected of a key that is not there");
    chosen(&mut session, "u = md5('77')::uuid", 0.1);
    chosen(&mut session, &format!("u IN ({ABSENT}, '00000000-0000-0000-0000-00000000beef')"), 0.05);
    let absent: Vec<_> = (0..100).map(|i| format!("'00000000-0000-0000-0000-0000000{i:05}'")).collect();
    chosen(&mut session, &format!("u IN ({})", absent.join(", ")), 0.3);
    chosen(&mut session, "stretch = 77", 0.2);
    chosen(&mut session, "stretch = 77 AND everywhere = 3", 0.2);
    chosen(&mut session, "u IS NULL", 0.05);
    for predicate in ["everywhere = 3", "everywhere IN (1, 2)", "u IS NOT NULL"] {
        let plan = session.plan(&format!("SELECT * FROM big WHERE {predicate}"));
        assert!(plan.contains("Seq Scan"), "{predicate} is in every range:\n{plan}");
    }
    // A plan that does not know the key counts on an average one.
    session.run(
        "SET plan_cache_mode = force_generic_plan; PREPARE generic(uuid) AS SELECT * FROM big WHERE u = $1",
    );
    let plan = session.plan(&format!("EXECUTE generic({ABSENT})"));
    assert!(plan.contains("big_skip"), "{plan}");
    // The rows of an average value of a clustered column are in few ranges, as the Skip Index Scan estimates as well.
    session.run("PREPARE clustered(int) AS SELECT * FROM big WHERE stretch = $1");
    let plan = session.plan("EXECUTE clustered(77)");
    let (cost, _) = estimate(&plan);
    assert!(plan.contains("big_skip") && cost < whole * 0.2, "estimated at {cost} of {whole}:\n{plan}");
    session.run("RESET plan_cache_mode");
    // Few buffers for all of it.
    let sql = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING off) SELECT * FROM big WHERE u = {ABSENT}");
    let plan = session.column(&sql).join("\n");
    let (_, index) = plan.split_once("Bitmap Index Scan").expect("a bitmap scan");
    let (_, buffers) = index.split_once("Buffers: shared ").expect("buffers");
    let buffers =
        buffers.lines().next().expect("a line").split(['=', ' ']).filter_map(|word| word.parse::<u32>().ok());
    let buffers: u32 = buffers.sum();
    assert!(buffers <= 64, "the consult takes {buffers} buffers:\n{plan}");
}

on_shared!(together_with_a_btree);
fn together_with_a_btree(database: &Database) {
    let mut session = database.session();
    big(&mut session);
    session.run("CREATE INDEX big_btree ON big (id)");
    let both = format!("u = {ABSENT} OR id = 77");
    session.run("SET enable_seqscan = off; SET enable_indexscan = off");
    let plan = session.plan(&format!("SELECT * FROM big WHERE {both}"));
    assert!(plan.contains("BitmapOr") && plan.contains("big_skip") && plan.contains("big_btree"), "{plan}");
    session.run("RESET enable_seqscan; RESET enable_indexscan");
    for predicate in [
        both.as_str(),
        "u = md5('77')::uuid OR id = 78",
        "u = md5('77')::uuid AND id = 77",
        "stretch = 20 AND id BETWEEN 20300 AND 20310",
        "(stretch = 20 OR stretch = 30) AND id % 100 = 7",
        "stretch IN (20, 30) AND id IN (20300, 30300, 40300)",
        "id < 1000 AND everywhere = 3 OR u = md5('299999')::uuid",
    ] {
        same(&mut session, "big", &Question::any(predicate));
    }
}

on_shared!(surviving_ranges);
/// The ranges that `skip_matching_ranges` gives are the rows' and few others: as few as the index expects.
fn surviving_ranges(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS SELECT i AS id, md5(i::text)::uuid AS u, i AS k FROM generate_series(1, 200000) i;
         CREATE INDEX t_skip ON t USING skip (u, k) WITH (pages_per_range = 4, false_positive_rate = 0.01)",
    );
    for (column, present, absent) in [("u", "md5(i::text)::uuid", "md5('-' || i)::uuid"), ("k", "i", "-i")] {
        let info = session.rows(&format!(
            "SELECT ranges, summarized, expected_false_positive_rate FROM skip_index_info('t_skip')
             WHERE column_name = '{column}'"
        ));
        let number =
            |at: usize| info[0][at].as_ref().and_then(|text| text.parse::<f64>().ok()).expect("a number");
        let (ranges, summarized, expected) = (number(0), number(1), number(2));
        assert!(ranges > 300.0 && ranges == summarized, "{summarized} of {ranges} ranges are summarized");
        assert!(expected <= 0.012, "{column}: a rate of {expected} is expected for 0.01");
        let missing = session.number(&format!(
            "SELECT count(*) FROM generate_series(1, 200000, 997) i JOIN t ON t.id = i
             WHERE (t.ctid::text::point)[0]::bigint / 4
                NOT IN (SELECT skip_matching_ranges('t_skip', '{column}', {present}))"
        ));
        assert_eq!(missing, 0.0, "{column}: ranges of rows that are there are missing");
        let counts = session.column(&format!(
            "SELECT (SELECT count(*) FROM skip_matching_ranges('t_skip', '{column}', {absent}))
             FROM generate_series(1, 200) i"
        ));
        let counts = counts.iter().map(|count| count.parse::<f64>().expect("a number"));
        let rate = counts.sum::<f64>() / (200.0 * ranges);
        // Some 80,000 filters asked: five standard deviations are a tenth of the rate. A map has a key that is in all
        // ranges: "has a value". Of its 2^16 fingerprints here, one of 200 absent keys may have the same, in 0.3 % of
        // all seeds: then the rate is too high by half.
        likely(rate < 0.0115, || {
            format!("{column}: {rate} of the ranges match keys that are nowhere, {expected} expected")
        });
        assert!(rate > 0.003, "{column}: {rate} is too good for filters of 0.01, so they are too big");
    }
}
