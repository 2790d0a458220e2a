//! Prepared statements: one plan for many values, kept while rows come and go and indexes are made anew beneath it.
use super::conditions::{Column, Condition, Conditions};
use super::generated::Tally;
use super::tables::{TABLES, Tables};
use crate::registry::on_shared;
use crate::shared::{Database, blame};
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way, by_skip_scan, reads_all, skips};
use pg_skip_tests::compare::substituted;
use pg_skip_tests::explain::skip_scan;
use pg_skip_tests::server::has_maps;
use pg_skip_tests::session::{Row, Session, lines};
use pg_skip_tests::{cases, seed};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A statement whose constants are parameters.
struct Prepared {
    sql: String,
    parameters: Vec<Column>,
    sure: bool,
}

impl Prepared {
    fn random(rng: &mut Rng) -> Self {
        let table = *rng.choice(&TABLES).expect("tables");
        let depth = rng.u32(..3);
        let mut conditions = Conditions { parameters: Some(Vec::new()), ..Conditions::new(rng, "x") };
        let Condition { sql: condition, sure } = conditions.tree(depth);
        let parameters = conditions.parameters.unwrap_or_default();
        let sql = match rng.u32(..4) {
            0 => format!("SELECT count(*), sum(x.k), max(x.id) FROM {table} x WHERE {condition}"),
            1 => format!("SELECT x.id FROM {table} x WHERE {condition} ORDER BY x.id LIMIT 20"),
            2 => format!(
                "SELECT v.i, x.id FROM generate_series(1, 2) v (i) JOIN {table} x ON x.k % 2 = v.i - 1
                 WHERE {condition}"
            ),
            _ => format!("SELECT x.id, x.k, x.b FROM {table} x WHERE {condition}"),
        };
        Self { sql, parameters, sure }
    }

    fn prepare(&self, session: &mut Session) {
        let types: Vec<_> = self.parameters.iter().map(|column| column.kind()).collect();
        let types = if types.is_empty() { String::new() } else { format!("({})", types.join(", ")) };
        session.run(&format!("DEALLOCATE ALL; PREPARE question{types} AS {}", self.sql));
    }

    fn values(&self, rng: &mut Rng) -> Vec<String> {
        let value = |column: &Column| match rng.u32(..20) {
            0 => format!("NULL::{}", column.kind()),
            _ => column.value(rng),
        };
        self.parameters.iter().map(value).collect()
    }
}

on_shared!(prepared_statements);
fn prepared_statements(database: &Database) {
    // The plain scans have a session of their own, so that neither way's plans are thrown away by a change of settings.
    let (mut session, mut plain) = (database.session(), database.session());
    let mut tally = Tally::default();
    for round in 0..cases(2) as u64 {
        let seed = seed().wrapping_add(round);
        session.run("RESET ALL");
        let mut tables = Tables::create(&mut session, Rng::with_seed(seed));
        plain.run("SET search_path = made, public");
        Way::plain().set(&mut plain);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..50 {
                executed(&mut session, &mut plain, &mut tables, &mut tally);
            }
        }));
        if let Err(panic) = outcome {
            blame(&*panic, seed, "skip_index_scan::prepared::prepared_statements", &tables.log);
        }
    }
    tally.judge();
}

/// Executes one statement often enough for a generic plan, while the tables change.
fn executed(session: &mut Session, plain: &mut Session, tables: &mut Tables, tally: &mut Tally) {
    let prepared = Prepared::random(&mut tables.rng);
    let mode =
        *tables.rng.choice(&["auto", "auto", "force_generic_plan", "force_custom_plan"]).expect("modes");
    let way = if tables.rng.u32(..5) == 0 { Way::skip_scan().parallel() } else { Way::skip_scan() };
    way.with("plan_cache_mode", mode).set(session);
    prepared.prepare(session);
    let case = Case { must: prepared.sure, ..Case::any(&prepared.sql) };
    for execution in 0..9 {
        if tables.rng.u32(..3) == 0 {
            tables.step(session);
        }
        let values = prepared.values(&mut tables.rng);
        let call = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
        let plan = session.plan(&format!("EXECUTE question{call}"));
        let sorted = |mut rows: Vec<Row>| {
            rows.sort();
            rows
        };
        let told = || {
            format!(
                "{mode}, execution {execution} with {call} of\n{}\n{:?}\nplan: {plan}",
                prepared.sql, values
            )
        };
        let found = session.try_rows(&format!("EXECUTE question{call}"));
        let found = found.map(sorted).unwrap_or_else(|error| panic!("{error:?}\n{}", told()));
        let expected = sorted(plain.rows(&substituted(&prepared.sql, &values)));
        assert_eq!(found, expected, "{}", told());
        assert!(!case.must || !reads_all(&plan), "a Skip Index Scan is possible: {}", told());
        tally.count(&case, skips(&plan));
    }
}

on_shared!(prepared_in_functions);
/// The plans that PL/pgSQL keeps: the same statement meets new rows, an index dropped and made again, and other values.
fn prepared_in_functions(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, v text, filler text DEFAULT repeat('x', 300));
         INSERT INTO t SELECT i, i / 3, i FROM generate_series(1, 3000) i;
         CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 1);
         CREATE FUNCTION ids(key int, word text) RETURNS int[] LANGUAGE plpgsql AS
            'BEGIN RETURN (SELECT array_agg(id ORDER BY id) FROM t WHERE k = key OR v = word); END';
         CREATE FUNCTION change(key int) RETURNS int LANGUAGE plpgsql AS $$
            DECLARE changed int;
            BEGIN
                UPDATE t SET k = k + 10000 WHERE k = key;
                GET DIAGNOSTICS changed = ROW_COUNT;
                UPDATE t SET k = k - 10000 WHERE k = key + 10000;
                RETURN changed;
            END $$",
    );
    Way::skip_scan().set(&mut session);
    let (_, plan) = by_skip_scan(&mut session, "SELECT id FROM t WHERE k = 5 OR v = '5'");
    assert!(plan.contains("t_skip"), "{plan}");
    for (round, step) in [
        "SELECT 1",
        "INSERT INTO t SELECT i, i % 500, 'new' FROM generate_series(5000, 5500) i",
        "VACUUM t",
        "REINDEX INDEX t_skip",
        "DROP INDEX t_skip",
        "CREATE INDEX t_skip ON t USING skip (v, k) WITH (pages_per_range = 3)",
        "ALTER TABLE t ALTER k TYPE bigint",
        "TRUNCATE t",
        "INSERT INTO t SELECT i, i % 500, 'again' FROM generate_series(1, 1000) i",
    ]
    .into_iter()
    .enumerate()
    {
        session.run(step);
        for key in 0..8 {
            let word = if key % 2 == 0 { "new".to_owned() } else { (key * 7).to_string() };
            let found = session.one(&format!("SELECT ids({key}, '{word}')"));
            let plain =
                format!("SELECT array_agg(id ORDER BY id) FROM t WHERE (k = {key} OR v = '{word}') IS TRUE");
            assert_eq!(found, session.one(&plain), "key {key} after step {round}, {step}");
            let count = session.one(&format!("SELECT count(*) FROM t WHERE (k = {key}) IS TRUE"));
            assert_eq!(
                session.one(&format!("SELECT change({key})")),
                count,
                "rows of {key} changed after {step}"
            );
        }
    }
    assert_eq!(lines(&session.rows("SELECT * FROM skip_index_verify('t_skip')")), "");
}

/// A table of which a key is in one range of thousands, with one frequent value besides.
const LARGE: &str = "
    CREATE TABLE t (id int, u uuid, common int, filler text DEFAULT repeat('x', 300));
    INSERT INTO t SELECT i, md5(i::text)::uuid, CASE WHEN i % 2 = 0 THEN 0 ELSE i END FROM generate_series(1, 100000) i;
    CREATE INDEX t_skip ON t USING skip (u, common) WITH (pages_per_range = 4);
    ANALYZE t";

on_shared!(generic_plans_are_taken);
/// The server's plan cache goes over to the generic plan after five executions, and then asks an index once each.
fn generic_plans_are_taken(database: &Database) {
    let mut session = database.session();
    session.run(LARGE);
    session.run("SET max_parallel_workers_per_gather = 0");
    for (parameter, condition, values) in [
        ("uuid", "u = $1", ["md5('%')::uuid", "md5('absent %')::uuid"]),
        ("text", "u = md5($1)::uuid", ["'%'", "'absent %'"]),
        ("uuid[]", "u = ANY ($1)", ["ARRAY[md5('%')::uuid]", "ARRAY[md5('%')::uuid, md5('7%')::uuid]"]),
        (
            "uuid[]",
            "u = ANY ($1)",
            ["string_to_array(repeat(md5('%') || ',', 11) || md5('absent'), ',')::uuid[]"; 2],
        ),
        (
            "uuid",
            "u = $1 OR u = '00000000-0000-0000-0000-000000000000'",
            ["md5('%')::uuid", "md5('absent %')::uuid"],
        ),
    ] {
        session.run(&format!(
            "DEALLOCATE ALL; PREPARE asked ({parameter}) AS SELECT count(*) FROM t WHERE {condition}"
        ));
        let call = |n: usize| format!("EXECUTE asked ({})", values[n % 2].replace('%', &n.to_string()));
        for n in 1..=10 {
            let query = call(n);
            assert!(skips(&session.plan(&query)), "{condition}: {query}");
            session.rows(&query);
        }
        let plans = session
            .rows("SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE name = 'asked'");
        let [generic, custom] = [0, 1].map(|i| plans[0][i].as_deref().unwrap_or("").parse::<u32>().unwrap());
        assert!(generic >= 10 && custom <= 10, "{condition}: {generic} generic plans, {custom} custom ones");
    }
    // Where a value makes a difference, the plan is made for it: the frequent one is in all ranges.
    session.run("DEALLOCATE ALL; PREPARE asked (int) AS SELECT count(*) FROM t WHERE common = $1");
    assert!(reads_all(&session.plan("EXECUTE asked (0)")), "{}", session.plan("EXECUTE asked (0)"));
    assert!(skips(&session.plan("EXECUTE asked (7)")));
}

/// The buffers that planning a query finds in shared memory, when all that a session keeps is there.
fn planning_hits(session: &mut Session, query: &str) -> u32 {
    session.plan(query);
    let json = session.one(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}"));
    let planning = json.split("\"Planning\": {").nth(1).expect("planning");
    let hits = planning.split("\"Shared Hit Blocks\": ").nth(1).expect("hits");
    hits.split(',').next().and_then(|hits| hits.trim().parse::<u32>().ok()).expect("a number")
}

on_shared!(planning_asks_nothing);
/// The index is not asked while a statement is planned for parameters that make no difference.
fn planning_asks_nothing(database: &Database) {
    let mut session = database.session();
    session.run(LARGE);
    session.run(
        "PREPARE asked (uuid) AS SELECT id FROM t WHERE u = $1; SET plan_cache_mode = force_custom_plan",
    );
    let constant = planning_hits(&mut session, "SELECT id FROM t WHERE u = md5('4')::uuid");
    let parameter = planning_hits(&mut session, "EXECUTE asked (md5('4')::uuid)");
    let told = format!("{parameter} buffers for a parameter, {constant} for a constant");
    assert!(parameter < constant, "{told}");
    // Of a map, a constant takes a page or two; the meta page and the directory are remembered.
    assert!(!has_maps() || constant <= parameter + 2, "{told}");
}

on_shared!(known_lengths_of_arrays);
/// What is known of an array's length counts.
fn known_lengths_of_arrays(database: &Database) {
    let mut session = database.session();
    session.run(LARGE);
    session.run("CREATE TABLE wanted AS SELECT md5(i::text)::uuid AS u FROM generate_series(1, 200) i; ANALYZE wanted");
    Way::skip_scan().set(&mut session);
    let expected = |session: &mut Session, list: &str| {
        skip_scan(session, "", &format!("SELECT id FROM t WHERE u = ANY ({list})")).number("Ranges Expected")
    };
    let two = expected(&mut session, "ARRAY[(SELECT u FROM wanted LIMIT 1), (SELECT u FROM wanted LIMIT 1)]");
    assert!((2..5).contains(&two), "two keys in {two} ranges");
    let all = expected(&mut session, "ARRAY(SELECT u FROM wanted)");
    assert!((150..260).contains(&all), "two hundred keys in {all} ranges");
}

on_shared!(planning_many_branches);
/// Planning looks up each branch of an OR by itself, and each lookup reads the whole delta. All these pages count.
fn planning_many_branches(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE many (id int, k int) WITH (fillfactor = 50);
         INSERT INTO many SELECT i, i FROM generate_series(1, 100000) i;
         CREATE INDEX ON many USING skip (k) WITH (layout = filters);
         UPDATE many SET k = k + 1000000 WHERE id % 10 = 0; ANALYZE many",
    );
    let branches: Vec<String> = (1..=300).map(|k| format!("k = {}", k * 37)).collect();
    let query = format!("SELECT id FROM many WHERE {}", branches.join(" OR "));
    session.run("SET pg_skip.plan_probe_pages = 0");
    let without = planning_hits(&mut session, &query);
    session.run("SET pg_skip.plan_probe_pages = 100");
    let read = planning_hits(&mut session, &query);
    // The last lookup may read beyond the bound.
    assert!(read <= without + 150, "planning read {read} buffers, and {without} without lookups");
    session.run("RESET pg_skip.plan_probe_pages");
    assert!(planning_hits(&mut session, &query) > without + 200, "the delta is too small for this test");
}
