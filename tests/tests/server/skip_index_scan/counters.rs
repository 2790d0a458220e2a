//! What EXPLAIN counts is what there is to count: every number of a Skip Index Scan against the same number by other
//! means.
use super::table_of_uuids;
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, same, skips};
use pg_skip_tests::explain::{Node, executed, skip_scan, skip_scans};
use pg_skip_tests::session::Session;

/// High rates, so that there are ranges read in vain; a tail without filters; updates in the delta; dead rows.
const TABLE: &str = "
    CREATE TABLE t (id int, k int, n int, b boolean, filler text DEFAULT repeat('x', 300)) WITH (fillfactor = 80);
    INSERT INTO t SELECT i, i / 3, i % 400, i % 1000 = 0 FROM generate_series(1, 6000) i;
    CREATE INDEX t_k ON t USING skip (k) WITH (pages_per_range = 3, false_positive_rate = 0.2, autosummarize = off);
    CREATE INDEX t_n ON t USING skip (n, b) WITH (pages_per_range = 2, false_positive_rate = 0.1, autosummarize = off)";

const CHANGES: &str = "
    UPDATE t SET k = 7 WHERE id % 1500 = 1;
    DELETE FROM t WHERE id BETWEEN 300 AND 330 OR n = 399;
    INSERT INTO t SELECT i, i / 3, i % 400 FROM generate_series(6001, 6300) i";

fn table(session: &mut Session) {
    session.run(TABLE);
    session.run(CHANGES);
    // Hint bits and pruning are done with, and the numbers of blocks settled.
    session.run("SELECT count(*) FROM t");
    Way::skip_scan().set(session);
}

/// Numbers by hand about the condition on one column of one index.
struct Hand {
    blocks: u64,
    pages_per_range: u64,
    ranges: u64,
    survivors: Vec<u64>,
    without_filter: u64,
    holding: u64,
    rows_there: u64,
    matching: u64,
}

impl Hand {
    fn count(session: &mut Session, index: &str, column: &str, key: &str) -> Self {
        Way::plain().set(session);
        let mut number = |sql: &str| session.number(sql) as u64;
        let blocks = number("SELECT pg_relation_size('t') / 8192");
        let info = |what: &str| {
            format!("SELECT {what} FROM skip_index_info('{index}') WHERE column_name = '{column}'")
        };
        let pages_per_range = number(&info("pages_per_range"));
        let ranges = blocks.div_ceil(pages_per_range);
        let without_filter = ranges - number(&info("summarized"));
        let range = format!("(ctid::text::point)[0]::bigint / {pages_per_range}");
        let condition = if key == "NULL" { format!("{column} IS NULL") } else { format!("{column} = {key}") };
        let surviving = format!(
            "SELECT skip_matching_ranges('{index}', '{column}', {key}::{})",
            if column == "b" { "boolean" } else { "int" }
        );
        let plain = |what: &str, rest: &str| format!("SELECT {what} FROM t WHERE {rest}");
        let holding = number(&plain(&format!("count(DISTINCT {range})"), &condition));
        let matching = number(&plain("count(*)", &condition));
        let rows_there = number(&plain("count(*)", &format!("{range} IN ({surviving})")));
        let survivors = session.column(&format!("{surviving} ORDER BY 1"));
        let survivors = survivors.iter().map(|range| range.parse().expect("a range")).collect();
        Way::skip_scan().set(session);
        Self { blocks, pages_per_range, ranges, survivors, without_filter, holding, rows_there, matching }
    }

    /// Heap blocks of the surviving ranges.
    fn heap_blocks(&self) -> u64 {
        let blocks = |&range: &u64| self.pages_per_range.min(self.blocks - range * self.pages_per_range);
        self.survivors.iter().map(blocks).sum()
    }
}

fn buffers(node: &Node) -> u64 {
    node.number("Shared Hit Blocks") + node.number("Shared Read Blocks")
}

on_shared!(counts_of_one_key);
fn counts_of_one_key(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    // In turn: as it is, all summarized, new filters.
    for step in
        ["SELECT 1", "SELECT skip_summarize('t_k'), skip_summarize('t_n')", "VACUUM t", "REINDEX TABLE t"]
    {
        session.run(step);
        session.run("SELECT count(*) FROM t WHERE (id = 0) IS TRUE");
        let mut vain = 0;
        for (index, column, key) in [
            ("t_k", "k", "7"),
            ("t_k", "k", "1000"),
            ("t_k", "k", "105"),
            ("t_k", "k", "2050"),
            ("t_k", "k", "99999"),
            ("t_k", "k", "NULL"),
            ("t_n", "n", "0"),
            ("t_n", "n", "399"),
            ("t_n", "n", "5000"),
            ("t_n", "b", "NULL"),
            ("t_n", "b", "true"),
        ] {
            let condition =
                if key == "NULL" { format!("{column} IS NULL") } else { format!("{column} = {key}") };
            let sql = format!("SELECT id FROM t WHERE {condition}");
            executed(&mut session, &sql); // catalogs and index are in the session's caches then
            let node = executed(&mut session, &sql);
            let hand = Hand::count(&mut session, index, column, key);
            let scanned = hand.survivors.len() as u64;
            let told = format!("{condition} after {step}: {node:?}");
            assert_eq!(node.number("Ranges Total"), hand.ranges, "{told}");
            assert_eq!(node.number("Ranges Expected Of"), hand.ranges, "{told}");
            assert_eq!(node.number("Ranges Scanned"), scanned, "{told}");
            assert_eq!(node.number("Ranges Expected"), scanned, "{told}");
            assert_eq!(node.text("Ranges Expected Exactly"), "true", "{told}");
            assert_eq!(node.number("Ranges Skipped"), hand.ranges - scanned, "{told}");
            assert_eq!(node.number("Ranges Unsummarized"), hand.without_filter, "{told}");
            // Rows may be in ranges without a filter as well.
            let in_filtered = session.number(&filtered_holding(index, column, &condition)) as u64;
            assert_eq!(
                node.number("Ranges False Positives"),
                scanned - hand.without_filter - in_filtered,
                "{told}"
            );
            assert!(hand.holding <= scanned && in_filtered <= hand.holding, "{told}");
            assert_eq!(
                node.number("Rows Removed by Index Recheck"),
                hand.rows_there - hand.matching,
                "{told}"
            );
            let pages = node.number("Index Pages Read");
            let size = session.number(&format!("SELECT pg_relation_size('{index}') / 8192")) as u64;
            assert!((1..=size + 8).contains(&pages), "{pages} index pages of {size}: {told}");
            // Planning has read some of the index pages, if its answer was used again.
            let read = buffers(&node).checked_sub(hand.heap_blocks());
            assert!(read.is_some_and(|read| (1..=pages).contains(&read)), "{read:?} of {pages}: {told}");
            vain += node.number("Ranges False Positives");
        }
        // A map of a given rate is nearly always better than that.
        let least = if pg_skip_tests::server::has_maps() { 0 } else { 10 };
        assert!(
            vain > least,
            "only {vain} ranges read in vain at these rates: the counter was hardly tested"
        );
    }
}

/// Counts the ranges that have a filter and hold rows of the condition. Ranges are summarized from the first on.
fn filtered_holding(index: &str, column: &str, condition: &str) -> String {
    format!(
        "SELECT count(DISTINCT (ctid::text::point)[0]::bigint / pages_per_range)
         FROM t, skip_index_info('{index}')
         WHERE ({condition}) IS TRUE AND column_name = '{column}'
            AND (ctid::text::point)[0]::bigint / pages_per_range < summarized"
    )
}

on_shared!(counts_of_conditions);
/// What is expected is what is then scanned, and what the ranges of the single conditions combine to.
fn counts_of_conditions(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    let hit = |index: &str, column: &str, key: &str| {
        let pages = if index == "t_k" { 3 } else { 2 };
        format!("block / {pages} IN (SELECT skip_matching_ranges('{index}', '{column}', {key}))")
    };
    let (k, n) = (|key: &str| hit("t_k", "k", key), |key: &str| hit("t_n", "n", key));
    let b = |key: &str| hit("t_n", "b", key);
    for step in ["SELECT 1", "SELECT skip_summarize('t_k')", "VACUUM t", "REINDEX TABLE t"] {
        session.run(step);
        let blocks = session.number("SELECT pg_relation_size('t') / 8192");
        for (condition, survives, pages) in [
            ("k = 7", k("7"), 3),
            ("k IN (7, 1000, 99999)", format!("({} OR {} OR {})", k("7"), k("1000"), k("99999")), 3),
            ("k = ANY ('{1, 2, NULL}')", format!("({} OR {})", k("1"), k("2")), 3),
            ("k = 7 OR k = 1500", format!("({} OR {})", k("7"), k("1500")), 3),
            ("n = 7", n("7"), 2),
            ("n IN (7, 8) AND b", format!("({} OR {}) AND {}", n("7"), n("8"), b("true")), 2),
            ("n = 0 AND b IS TRUE", format!("{} AND {}", n("0"), b("true")), 2),
            ("k = 7 AND n = 21", format!("{} AND {}", k("7"), n("21")), 1),
            (
                "k = 7 AND n IN (21, 22, 300)",
                format!("{} AND ({} OR {} OR {})", k("7"), n("21"), n("22"), n("300")),
                1,
            ),
            ("k = 7 OR n = 7", format!("({} OR {})", k("7"), n("7")), 1),
            (
                "(k = 7 AND n = 21) OR (k = 900 AND b)",
                format!("({} AND {}) OR ({} AND {})", k("7"), n("21"), k("900"), b("true")),
                1,
            ),
            (
                "(k, n) IN ((7, 21), (100, 301))",
                format!("({} AND {}) OR ({} AND {})", k("7"), n("21"), k("100"), n("301")),
                1,
            ),
        ] {
            let by_hand = session.number(&format!(
                "SELECT count(DISTINCT block / {pages}) FROM generate_series(0, {blocks} - 1) block WHERE {survives}"
            )) as u64;
            let sql = format!("SELECT id FROM t WHERE {condition}");
            force_both(&mut session, pages == 1);
            let planned = skip_scan(&mut session, "", &sql);
            let node = executed(&mut session, &sql);
            let told = format!("{condition} after {step}: {node:?}");
            assert_eq!(node.number("Ranges Scanned"), by_hand, "{told}");
            assert_eq!(planned.number("Ranges Expected"), by_hand, "{told}");
            assert_eq!(planned.text("Ranges Expected Exactly"), "true", "{told}");
            assert_eq!(node.number("Ranges Total"), (blocks as u64).div_ceil(pages), "{told}");
            assert_eq!(
                node.number("Ranges Total"),
                node.number("Ranges Scanned") + node.number("Ranges Skipped"),
                "{told}"
            );
            let indexes = node.text("Skip Indexes");
            let both = condition.contains('k') && (condition.contains('n') || condition.contains('b'));
            assert_eq!(indexes.contains("t_k"), condition.contains('k'), "{told}");
            assert!(!both || pages != 1 || indexes.contains("t_n"), "{told}");
            assert!(!planned.has("Ranges Scanned") && !planned.has("Index Pages Read"), "{planned:?}");
        }
    }
}

/// One index alone may be as cheap as both: which is cheaper depends on the seeds of their hashes, new in every run.
fn force_both(session: &mut Session, is_forced: bool) {
    session.run(&format!("SET pg_skip.force_indexes = '{}'", if is_forced { "t_k, t_n" } else { "" }));
}

/// The counters that add up over scans.
const SUMS: [&str; 5] = [
    "Ranges Total",
    "Ranges Skipped",
    "Ranges Scanned",
    "Ranges False Positives",
    "Rows Removed by Index Recheck",
];

on_shared!(counts_of_rescans);
fn counts_of_rescans(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run(
        "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
         SET enable_memoize = off",
    );
    let keys = [7, 1000, 99999, 105, 2050];
    let single: Vec<Node> =
        keys.iter().map(|key| executed(&mut session, &format!("SELECT id FROM t WHERE k = {key}"))).collect();
    let values = keys.map(|key| format!("({key})")).join(", ");
    for sql in [
        format!("SELECT v.k, t.id FROM (VALUES {values}) v (k) LEFT JOIN t ON t.k = v.k"),
        format!("SELECT (SELECT count(*) FROM t WHERE t.k = v.k) FROM (VALUES {values}) v (k)"),
    ] {
        let node = executed(&mut session, &sql);
        assert_eq!(node.number("Actual Loops"), keys.len() as u64, "{node:?}");
        for property in SUMS.into_iter().chain(["Ranges Unsummarized"]) {
            let sum: u64 = single.iter().map(|node| node.number(property)).sum();
            assert_eq!(node.number(property), sum, "{property} of {sql}\n{node:?}");
        }
        // A rescan may know pages already that the scan before it has read.
        let sum: u64 = single.iter().map(|node| node.number("Index Pages Read")).sum();
        assert!((1..=sum).contains(&node.number("Index Pages Read")), "{node:?}");
        assert_eq!(node.text("Ranges Expected Exactly"), "false", "{node:?}");
    }
    // A key that is NULL is nowhere; only ranges without a filter may be looked into.
    let sql = "SELECT (SELECT count(*) FROM t WHERE t.k = v.k) FROM (VALUES (NULL::int), (NULL)) v (k)";
    let node = skip_scans(&mut session, "ANALYZE, BUFFERS, TIMING off,", sql);
    for node in &node {
        assert!(node.number("Ranges Scanned") <= node.number("Ranges Unsummarized"), "{node:?}");
    }
}

on_shared!(counts_of_workers);
fn counts_of_workers(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    for condition in
        ["k = 7", "n = 7", "n IN (1, 2, 3, 4, 5)", "n = 7 OR k = 1000", "n = 7 AND k = 1000", "b IS NULL"]
    {
        let sql = format!("SELECT id FROM t WHERE {condition}");
        force_both(&mut session, condition.contains("n =") && condition.contains("k ="));
        session.run(&format!("BEGIN; {}", Way::skip_scan().local()));
        executed(&mut session, &sql);
        let serial = executed(&mut session, &sql);
        session.run("COMMIT");
        let way = Way::skip_scan().parallel();
        for leader in ["on", "off"] {
            session.run(&format!(
                "BEGIN; {}",
                way.clone().with("parallel_leader_participation", leader).local()
            ));
            let plan = session.plan(&sql);
            let parallel = executed(&mut session, &sql);
            session.run("COMMIT");
            for property in SUMS.into_iter().chain(["Ranges Unsummarized"]) {
                let (one, many) = (serial.number(property), parallel.number(property));
                assert_eq!(one, many, "{property} of {condition}, leader {leader}\n{plan}\n{parallel:?}");
            }
            // Each process looks its keys up by itself.
            let (one, many) = (serial.number("Index Pages Read"), parallel.number("Index Pages Read"));
            assert!((one..=3 * one).contains(&many), "{many} index pages in parallel, {one} alone\n{plan}");
            let wide = condition.contains("IN") || condition.contains("NULL");
            assert!(!wide || plan.contains("Parallel Custom Scan (Skip Index Scan)"), "{condition}\n{plan}");
        }
    }
}

on_shared!(counts_of_workers_rescanned);
/// Workers that are sent through the table again and again: the outer side must stay with the leader, so that what is
/// gathered is the inner side alone.
fn counts_of_workers_rescanned(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    for (condition, loops) in [("n IN (1, 2, 3, 4, 5)", 3), ("n = 7 OR k = 1000", 4), ("k = 99999", 2)] {
        let serial = executed(&mut session, &format!("SELECT id FROM t WHERE {condition}"));
        let sql = format!(
            "SELECT v.i, t.id FROM (SELECT i, random() AS r FROM generate_series(1, {loops}) i) v
             LEFT JOIN t ON ({condition}) AND v.r < 2 AND t.id % 2 <= v.i"
        );
        let way = Way::skip_scan().parallel().nested_loop();
        assert!(same(&mut session, &way, &Case::using(&sql)));
        session.run(&format!("BEGIN; {}", way.local()));
        let plan = session.plan(&sql);
        let parallel = executed(&mut session, &sql);
        session.run("COMMIT");
        let (_, inner) = plan.split_once("Gather").unwrap_or_else(|| panic!("nothing is gathered:\n{plan}"));
        assert!(skips(inner), "{plan}");
        for property in SUMS.into_iter().chain(["Ranges Unsummarized"]) {
            let (one, all) = (serial.number(property), parallel.number(property));
            assert_eq!(loops * one, all, "{property} of {condition}, {loops} times\n{plan}\n{parallel:?}");
        }
    }
}

on_shared!(counts_with_a_limit);
fn counts_with_a_limit(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    let whole = executed(&mut session, "SELECT id FROM t WHERE n = 7");
    let node = executed(&mut session, "SELECT id FROM t WHERE n = 7 LIMIT 1");
    let (scanned, all) = (node.number("Ranges Scanned"), whole.number("Ranges Scanned"));
    assert!(scanned < all / 2, "{scanned} of {all} ranges for one row: {node:?}");
    assert_eq!(node.number("Ranges Skipped"), whole.number("Ranges Skipped"), "{node:?}");
    assert_eq!(node.number("Ranges Total"), whole.number("Ranges Total"), "{node:?}");
    assert!(node.number("Ranges False Positives") < scanned, "the last range has the row: {node:?}");
    assert!(buffers(&node) < buffers(&whole), "{node:?}");
    assert_eq!(node.rows(), 1.0, "{node:?}");
    // A condition of nobody's index is a filter, counted by itself.
    let node = executed(&mut session, "SELECT id FROM t WHERE n = 7 AND id % 2 = 0");
    let even = session.number("SELECT count(*) FROM t WHERE (n = 7) IS TRUE AND id % 2 = 0") as u64;
    let odd = session.number("SELECT count(*) FROM t WHERE (n = 7) IS TRUE AND id % 2 = 1") as u64;
    assert!(node.text("Filter").contains("id % 2"), "{node:?}");
    assert!(!node.text("Filter").contains("n = 7"), "{node:?}");
    assert!(!node.text("Index Cond").contains("id"), "{node:?}");
    assert_eq!(node.number("Rows Removed by Filter"), odd, "{node:?}");
    assert_eq!(node.rows(), even as f64, "{node:?}");
    let removed = "Rows Removed by Index Recheck";
    assert_eq!(node.number(removed), whole.number(removed), "{node:?}");
}

on_shared!(counts_with_a_limit_in_parallel);
/// A limit stops workers wherever they are, and starts them again for the next row of the other side.
fn counts_with_a_limit_in_parallel(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    let condition = "n IN (1, 2, 3, 4, 5)";
    let whole = executed(&mut session, &format!("SELECT id FROM t WHERE {condition}"));
    let (all, rows) = (whole.number("Ranges Scanned"), whole.rows());
    for leader in ["on", "off"] {
        // Rows that cost something are worth sharing, whatever the hashes' seeds leave over.
        let way = Way::skip_scan().parallel().with("cpu_tuple_cost", "1");
        let way = way.with("parallel_leader_participation", leader);
        session.run(&format!("BEGIN; {}", way.local()));
        for limit in [0, 1, 5, 1000] {
            let sql = format!("SELECT id FROM t WHERE {condition} LIMIT {limit}");
            let plan = session.plan(&sql);
            assert!(plan.contains("Parallel Custom Scan (Skip Index Scan)"), "{plan}");
            let node = executed(&mut session, &sql);
            let told = format!("LIMIT {limit}, leader {leader}: {node:?}");
            // Without a row to be had, nothing is started.
            let total = if limit == 0 { 0 } else { whole.number("Ranges Total") };
            assert_eq!(node.number("Ranges Total"), total, "{told}");
            let (scanned, skipped) = (node.number("Ranges Scanned"), node.number("Ranges Skipped"));
            assert!(scanned + skipped <= total && skipped <= whole.number("Ranges Skipped"), "{told}");
            assert!(scanned <= all && (limit == 0 || scanned >= 1), "{told}");
            assert!(limit < 1000 || scanned == all && skipped == whole.number("Ranges Skipped"), "{told}");
            assert!(
                node.number("Ranges False Positives") <= whole.number("Ranges False Positives"),
                "{told}"
            );
        }
        // The greatest first: workers of later executions stop at the first's limit, in sequential scans as well (seen
        // in PostgreSQL 18.6 without pg_skip: ExecParallelReinitialize leaves the tuples_needed of the first).
        let limits = "(VALUES (1000), (1), (0), (7), (1000), (2)) v (most)";
        let sql = format!(
            "SELECT (SELECT count(*) FROM (SELECT FROM t WHERE {condition} LIMIT v.most) s) FROM {limits}"
        );
        let plan = session.plan(&sql);
        assert!(plan.contains("Parallel Custom Scan (Skip Index Scan)"), "{plan}");
        let counts = session.column(&sql);
        session.run("COMMIT");
        let expected = [rows as u64, 1, 0, 7, rows as u64, 2].map(|count| count.to_string());
        assert_eq!(counts, expected, "leader {leader}");
    }
}

on_shared!(keys_that_are_scans);
/// The pages that a key's own Skip Index Scan reads are not counted for the scan that it is a key of.
fn keys_that_are_scans(database: &Database) {
    let mut session = database.session();
    table_of_uuids(&mut session);
    Way::skip_scan().set(&mut session);
    let alone = executed(&mut session, "SELECT id FROM t WHERE u = md5('77')::uuid");
    let pages = alone.number("Index Pages Read");
    let both = "SELECT id FROM t WHERE u = (SELECT u FROM t WHERE u = md5('77')::uuid)";
    let nodes = skip_scans(&mut session, "ANALYZE,", both);
    let counted: Vec<u64> = nodes.iter().map(|node| node.number("Index Pages Read")).collect();
    assert_eq!(counted, [pages, pages]);
}
