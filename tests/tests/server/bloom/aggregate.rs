//! `bloom_agg` and `bloom_union_agg` in every place an aggregate can be in, and always the same bytes.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::session::Session;

on_shared!(nulls_and_nothing);
fn nulls_and_nothing(database: &Database) {
    let mut session = database.session();
    for expression in
        ["bloom_agg(i)", "bloom_agg(i, 0.1)", "bloom_agg(i, 0.1, 100)", "bloom_agg(i, NULL, 5, 'rocksdb')"]
    {
        assert_eq!(session.one(&format!("SELECT {expression} FROM generate_series(1, 0) i")), "NULL");
        let nulls = "unnest(ARRAY[NULL, NULL]::int[]) i";
        assert_eq!(session.one(&format!("SELECT {expression} FROM {nulls}")), "NULL");
        let some = "unnest(ARRAY[NULL, 4, NULL]::int[]) i";
        let only = "unnest(ARRAY[4]) i";
        let [mixed, plain] =
            [some, only].map(|rows| session.one(&format!("SELECT {expression} FROM {rows}")));
        assert_eq!(mixed, plain);
    }
    assert_eq!(session.one("SELECT bloom_union_agg(b) FROM (SELECT NULL::bloom AS b) s"), "NULL");
}

const ROWS: &str = "CREATE TABLE t (g int, k int, v text);
    INSERT INTO t SELECT i % 7, i % 900, 'v' || i % 300 FROM generate_series(1, 20000) i;
    INSERT INTO t VALUES (NULL, 5, NULL); ANALYZE t";

on_shared!(the_same_filter_in_every_form_of_aggregate);
/// FILTER, DISTINCT, ORDER BY, GROUPING SETS, hashed and sorted groups.
fn the_same_filter_in_every_form_of_aggregate(database: &Database) {
    let mut session = database.session();
    session.run(ROWS);
    let whole = session.one("SELECT bloom_agg(k) FROM t");
    for same in [
        "SELECT bloom_agg(DISTINCT k) FROM t",
        "SELECT bloom_agg(k ORDER BY v DESC) FROM t",
        "SELECT bloom_agg(k) FILTER (WHERE k IS NOT NULL) FROM t",
        "SELECT bloom_agg(k, 0.01) FROM t",
        "SELECT bloom_agg(k, 0.01, NULL, 'skip') FROM t",
        "SELECT bloom_agg(k::bigint) FROM t",
        "SELECT bloom_agg(k::smallint) FROM (SELECT DISTINCT k FROM t) s",
        "WITH x AS MATERIALIZED (SELECT k FROM t) SELECT bloom_agg(k) FROM x",
        "SELECT (SELECT bloom_agg(k) FROM t)",
    ] {
        assert_eq!(session.one(same), whole, "{same}");
    }
    let odd = session.one("SELECT bloom_agg(k) FROM t WHERE k % 2 = 1");
    assert_eq!(session.one("SELECT bloom_agg(k) FILTER (WHERE k % 2 = 1) FROM t"), odd);
    let grouped = "SELECT g::text, bloom_agg(v, 0.001)::text FROM t GROUP BY g ORDER BY 1";
    session.run("SET enable_sort = off; SET enable_hashagg = on");
    assert!(session.plan(grouped).contains("HashAggregate"));
    let hashed = session.rows(grouped);
    session.run("SET enable_sort = on; SET enable_hashagg = off");
    assert!(session.plan(grouped).contains("GroupAggregate"));
    assert_eq!(session.rows(grouped), hashed);
    assert_eq!(hashed.len(), 8);
    session.run("RESET enable_sort; RESET enable_hashagg");
    let sets = session.rows(
        "SELECT g::text, bloom_agg(v, 0.001)::text FROM t GROUP BY GROUPING SETS ((g), ()) ORDER BY GROUPING(g), 1",
    );
    assert_eq!(sets[..8], hashed[..]);
    let all = session.one("SELECT bloom_agg(v, 0.001) FROM t");
    assert_eq!(sets[8][1].as_deref(), Some(&*all));
    assert_eq!(session.one("SELECT count(*) FROM t, (SELECT bloom_agg(v) b FROM t) f WHERE NOT b @> v"), "0");
}

on_shared!(windows);
/// Every frame's filter is that of an aggregate over the frame's rows, also when frames shrink.
fn windows(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE t AS SELECT i, i * 7919 % 1000 AS k FROM generate_series(1, 120) i");
    for frame in [
        "ROWS UNBOUNDED PRECEDING",
        "ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING",
        "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    ] {
        let wrong = session.rows(&format!(
            "WITH w AS (SELECT i, bloom_agg(k) OVER f AS b, min(i) OVER f AS low, max(i) OVER f AS high
                        FROM t WINDOW f AS (ORDER BY i {frame}))
             SELECT i FROM w WHERE b <> (SELECT bloom_agg(k) FROM t WHERE t.i BETWEEN w.low AND w.high)",
        ));
        assert!(wrong.is_empty(), "{frame}: {wrong:?}");
    }
    // Past the bound, too: the state goes on after it has been looked at.
    session.run("SET work_mem = '64kB'");
    let lost = session.one(
        "WITH w AS (SELECT i, bloom_agg(md5(i::text)) OVER (ORDER BY i / 1000) AS b FROM generate_series(1, 20000) i)
         SELECT count(*) FROM (SELECT DISTINCT ON (i / 1000) i / 1000 AS upto, b FROM w ORDER BY i / 1000) f,
             generate_series(1, 20000, 37) j
         WHERE j / 1000 <= upto AND NOT b @> md5(j::text)",
    );
    assert_eq!(lost, "0");
}

pub fn make_parallel(session: &mut Session) {
    session.run(
        "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
         SET max_parallel_workers_per_gather = 2",
    );
}

on_shared!(parallel);
/// Exact hashes, and an expected number: the same bytes with workers and without.
fn parallel(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS SELECT i % 5 AS g, i, md5(i::text)::uuid AS k FROM generate_series(1, 60000) i; ANALYZE t",
    );
    for expression in [
        "bloom_agg(k)",
        "bloom_agg(k, 0.001)",
        "bloom_agg(k, 0.001, NULL, 'leveldb')",
        "bloom_agg(k, NULL, NULL, 'clickhouse(filter_size=5000, filter_hashes=3, seed=9)')",
        "bloom_agg(k, NULL, NULL, 'rocksdb(bits_per_key=12)')",
        "bloom_agg(k, 0.01, 1000)",
        "bloom_agg(k, 0.01, 500000)",
        "bloom_agg(k, 0.01, 500000, 'rocksdb')",
    ] {
        for query in [
            format!("SELECT {expression}::text FROM t"),
            format!("SELECT {expression}::text FROM t GROUP BY g ORDER BY g"),
        ] {
            session.run("SET max_parallel_workers_per_gather = 0");
            let serial = session.rows(&query);
            make_parallel(&mut session);
            let plan = session.plan(&query);
            assert!(plan.contains("Partial"), "{query}\n{plan}");
            assert!(session.rows(&query) == serial, "{query}");
            if expression.contains("000)") || expression.contains("500000") {
                session.run("SET work_mem = '64kB'");
                assert!(session.rows(&query) == serial, "{query} in little memory");
                session.run("RESET work_mem");
            }
        }
    }
}

on_shared!(spilling);
/// Groups that do not fit into work_mem go to disk and come back the same.
fn spilling(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS SELECT i % 20000 AS g, i AS k FROM generate_series(1, 200000) i; ANALYZE t;
         SET enable_sort = off",
    );
    let query = "SELECT g, bloom_agg(k)::text AS b FROM t GROUP BY g";
    let digest = format!("SELECT md5(string_agg(g || b, '' ORDER BY g)) FROM ({query}) s");
    session.run("SET work_mem = '1GB'");
    let whole = session.one(&digest);
    session.run("SET work_mem = '1MB'; SET hash_mem_multiplier = 1");
    let plan = session.column(&format!("EXPLAIN (ANALYZE, COSTS OFF) {query}")).join("\n");
    let batches = plan.split("Batches: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    assert!(batches.is_some_and(|batches| batches.parse::<u32>().is_ok_and(|batches| batches > 1)), "{plan}");
    assert_eq!(session.one(&digest), whole);
}

on_shared!(small_groups);
/// A group's memory counts, and a value is little more than its filter.
fn small_groups(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS SELECT i / 10 AS g, md5(i::text)::uuid AS k FROM generate_series(1, 200000) i;
         ANALYZE t",
    );
    session.run(
        "SET enable_sort = off; SET work_mem = '4MB'; SET hash_mem_multiplier = 1;
         SET max_parallel_workers_per_gather = 0",
    );
    let plan =
        session.column("EXPLAIN (ANALYZE, COSTS OFF) SELECT g, bloom_agg(k) FROM t GROUP BY g").join("\n");
    let used = plan.split("Memory Usage: ").nth(1).and_then(|rest| rest.split("kB").next());
    let used: f64 = used.and_then(|used| used.parse().ok()).unwrap_or_else(|| panic!("{plan}"));
    // The server looks at its memory after each row, and a block it takes may be twice as large as all before.
    assert!(used < 2.2 * 4096.0, "{plan}");
    // Two bytes of header, and the one that every short value has in a table.
    session.run("CREATE TABLE f AS SELECT g, bloom_agg(k) AS b FROM t GROUP BY g");
    let beyond = "max(pg_column_size(b) - (SELECT bits / 8 FROM bloom_info(b)))";
    assert_eq!(session.one(&format!("SELECT {beyond} FROM f")), "3");
}

on_shared!(parameters);
fn parameters(database: &Database) {
    let mut session = database.session();
    for (arguments, code, what) in [
        ("i, 0", "22023", "between 0 and 1"),
        ("i, 1", "22023", "between 0 and 1"),
        ("i, 'NaN'", "22023", "between 0 and 1"),
        ("i, -1", "22023", "between 0 and 1"),
        ("i, 0.1, -5", "22023", "negative"),
        ("i, 0.1, 5, 'cuckoo'", "22023", "cuckoo"),
        ("i, 0.1, 5, 'leveldb(bits_per_key=10)'", "22023", "exclude"),
        ("i, NULL, 5, 'leveldb(bits_per_key=0.1)'", "22023", "at least 0.5"),
        ("i, NULL, 5, 'leveldb(seed=3)'", "22023", "seed"),
        ("i, 1e-300, 5, 'rocksdb'", "22023", "lowest"),
        ("i, 5e-20", "22023", "lowest"),
        ("i, 0.01, 9000000000", "22023", "bits"),
        ("i, 0.01, 9000000000, 'leveldb'", "22023", "bits"),
        ("i, 0.01, 900000000, 'rocksdb'", "54000", "1 GB"),
        ("i, NULL, NULL, 'clickhouse(filter_size=1073741824, filter_hashes=3)'", "54000", "1 GB"),
        ("i, NULL, NULL, 'clickhouse(filter_size=0, filter_hashes=3)'", "22023", "bits"),
    ] {
        let error = session.error(&format!("SELECT bloom_agg({arguments}) FROM generate_series(1, 3) i"));
        let text = format!("{} {}", error.message(), error.detail().unwrap_or_default());
        assert!(
            error.code().code() == code && text.contains(what),
            "{arguments}: {} {text}",
            error.code().code()
        );
    }
    // A group has one filter: its rows must agree about it. Rows without a value have no say, and other groups another
    // filter.
    for mixed in
        ["i / 4.0", "0.1, i", "0.1, NULLIF(i, 2)", "0.1, 5, CASE i WHEN 2 THEN 'rocksdb' ELSE 'skip' END"]
    {
        let error = session.error(&format!("SELECT bloom_agg(i, {mixed}) FROM generate_series(1, 3) i"));
        assert!(error.message().contains("the same for all rows"), "{mixed}: {error:?}");
        let by_group = format!("SELECT bloom_agg(i, {mixed}) FROM generate_series(1, 3) i GROUP BY i");
        assert_eq!(session.rows(&by_group).len(), 3, "{mixed}");
        let no_say =
            format!("SELECT bloom_agg(CASE i WHEN 1 THEN i END, {mixed}) FROM generate_series(1, 3) i");
        let alone = format!("SELECT bloom_agg(i, {mixed}) FROM generate_series(1, 1) i");
        assert_eq!(session.one(&no_say), session.one(&alone), "{mixed}");
    }
    let agreed =
        "SELECT bloom_agg(i, 0.01, n, p) FROM generate_series(1, 3) i, (VALUES (3, lower('SKIP'))) v (n, p)";
    assert_eq!(session.one(agreed), session.one("SELECT bloom_agg(i, 0.01, 3) FROM generate_series(1, 3) i"));
}

on_shared!(union);
fn union(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS SELECT i, i % 30 AS day FROM generate_series(1, 30000) i;
         CREATE TABLE f AS SELECT day, bloom_agg(i, 0.01, 30000) AS b FROM t GROUP BY day;
         INSERT INTO f VALUES (NULL, NULL); ANALYZE f",
    );
    let whole = session.one("SELECT bloom_agg(i, 0.01, 30000) FROM t");
    assert_eq!(session.one("SELECT bloom_union_agg(b) FROM f"), whole);
    assert_eq!(session.one("SELECT bloom_union_agg(b) OVER () FROM f LIMIT 1"), whole);
    assert_eq!(
        session
            .one("SELECT b FROM (SELECT 1, bloom_union_agg(b ORDER BY day DESC) AS b FROM f GROUP BY 1) s"),
        whole
    );
    make_parallel(&mut session);
    assert!(session.plan("SELECT bloom_union_agg(b) FROM f").contains("Partial"));
    assert_eq!(session.one("SELECT bloom_union_agg(b) FROM f"), whole);
    session.run("INSERT INTO f SELECT 31, bloom_agg(i, 0.01, 40000) FROM t");
    let error = session.error("SELECT bloom_union_agg(b) FROM f");
    assert!(error.detail().is_some_and(|detail| detail.contains("bits")), "{error:?}");
}

on_shared!(parts_are_not_for_users);
/// The parts of an aggregate called by hand are errors, not crashes.
fn parts_are_not_for_users(database: &Database) {
    let mut session = database.session();
    for call in [
        "bloom_agg_step(NULL, 5)",
        "bloom_agg_step(NULL, NULL::int)",
        "bloom_agg_step(NULL, 5, 0.1, 5, 'skip')",
        "bloom_agg_combine(NULL, NULL)",
        "bloom_agg_serialize(NULL)",
        "bloom_agg_deserialize('\\x00', NULL)",
        "bloom_agg_final(NULL)",
        "bloom_union_agg_step(NULL, bloom_empty('int', 5))",
        "bloom_union_agg_combine(NULL, NULL)",
        "bloom_union_agg_deserialize('\\x00', NULL)",
        "bloom_contains_sel(NULL, 1::oid, NULL, 1)",
        "bloom_recv(NULL)",
    ] {
        // NULL or an error: no user can make a value of type internal.
        _ = session.try_rows(&format!("SELECT {call} IS NULL"));
        assert_eq!(session.one("SELECT 1"), "1", "{call}");
    }
}

on_shared!(states_do_not_mix);
/// Aggregates that a superuser puts together from functions of several: an error, not another state's bytes.
fn states_do_not_mix(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE AGGREGATE steps_of_keys (bigint)
             (SFUNC = bloom_agg_step, STYPE = internal, FINALFUNC = bloom_union_agg_final);
         CREATE AGGREGATE steps_of_filters (bloom)
             (SFUNC = bloom_union_agg_step, STYPE = internal, FINALFUNC = bloom_agg_final);
         CREATE AGGREGATE steps_of_others (bigint)
             (SFUNC = int8_avg_accum, STYPE = internal, FINALFUNC = bloom_agg_final)",
    );
    for call in ["steps_of_keys(i)", "steps_of_filters(bloom_empty('bigint', 9))", "steps_of_others(i)"] {
        let error = session.error(&format!("SELECT {call} FROM generate_series(1, 99::bigint) i"));
        assert!(error.message().contains("another aggregate"), "{call}: {error:?}");
    }
}
