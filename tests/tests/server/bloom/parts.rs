//! Parts of a filter on their way to where they are combined: by bytes from workers, by address within a process.
//! Whoever takes part, the filter is that of all rows.
use super::aggregate::make_parallel;
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::server::install;
use pg_skip_tests::session::Session;

/// With exact hashes and an expected number, bytes must be the same; of the others, every row must be found.
const FORMS: [&str; 4] = [
    "bloom_agg(k)",
    "bloom_agg(k, 0.01, 30000)",
    "bloom_agg(k, 0.02, NULL, 'rocksdb')",
    "bloom_agg(k, 0.1, 9)",
];

fn table(session: &mut Session) {
    session.run(
        "CREATE TABLE t AS SELECT i, md5(i::text)::uuid AS k FROM generate_series(1, 30000) i; ANALYZE t;
         CREATE FUNCTION lost(b bloom) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t WHERE NOT b @> k'",
    );
}

on_shared!(of_whoever_takes_part);
/// The leader alone, workers alone, and both; with exact hashes and, in little memory, filters.
fn of_whoever_takes_part(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    let debug = if install().version < 16 { "force_parallel_mode" } else { "debug_parallel_query" };
    for form in FORMS {
        session.run("SET max_parallel_workers_per_gather = 0");
        let query = format!("SELECT {form} FROM t");
        let serial = session.one(&query);
        make_parallel(&mut session);
        for setting in [
            "max_parallel_workers = 0",
            "max_parallel_workers_per_gather = 1",
            "max_parallel_workers_per_gather = 3",
            "parallel_leader_participation = off",
            &format!("{debug} = on"),
        ] {
            session.run(&format!("SET {setting}"));
            assert!(session.plan(&query).contains("Partial"), "{setting}");
            assert!(session.one(&query) == serial, "{form}, {setting}");
            session.run("SET work_mem = '64kB'");
            assert_eq!(session.one(&format!("SELECT lost(({query}))")), "0", "{form}, {setting}");
            session.run(&format!("RESET work_mem; RESET {}", setting.split(' ').next().unwrap_or_default()));
            make_parallel(&mut session);
        }
    }
}

fn partitioned(session: &mut Session) {
    session.run(
        "CREATE TABLE p (i int, k uuid) PARTITION BY RANGE (i);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (3000);
         CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (3000) TO (20000);
         CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20000) TO (40000);
         CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (40000) TO (50000);
         INSERT INTO p SELECT * FROM t; ANALYZE p;
         SET enable_partitionwise_aggregate = on",
    );
}

on_shared!(of_partitions);
/// A part for each partition, all within one process, and beside workers.
fn of_partitions(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    partitioned(&mut session);
    for form in FORMS {
        session.run("SET max_parallel_workers_per_gather = 0");
        let serial = session.one(&format!("SELECT {form} FROM t"));
        let query = format!("SELECT {form} FROM p");
        for is_parallel in [false, true] {
            if is_parallel {
                make_parallel(&mut session);
            }
            assert!(session.plan(&query).matches("Partial").count() > 1, "{}", session.plan(&query));
            assert!(session.one(&query) == serial, "{form}, {is_parallel}");
            session.run("SET work_mem = '64kB'");
            assert_eq!(session.one(&format!("SELECT lost(({query}))")), "0", "{form}, {is_parallel}");
            session.run("RESET work_mem");
        }
    }
}

on_shared!(of_many_partitions_keep_the_rate);
/// Far more parts than there are processes, of all sizes, each beyond its memory: their filters have one size, that of
/// the whole.
fn of_many_partitions_keep_the_rate(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE m (part int, k bigint) PARTITION BY LIST (part);
         DO $$BEGIN FOR i IN 1..90 LOOP
             EXECUTE format('CREATE TABLE m%s PARTITION OF m FOR VALUES IN (%s)', i, i);
         END LOOP; END$$;
         INSERT INTO m SELECT i, i * 1000000::bigint + j
             FROM generate_series(1, 90) i, generate_series(1, CASE WHEN i < 12 THEN 12000 + 2000 * i
             ELSE 6500 + 9 * i END) j;
         ANALYZE m;
         SET work_mem = '64kB'; SET enable_partitionwise_aggregate = on",
    );
    for (name, workers) in [("serial", 0), ("parallel", 2)] {
        make_parallel(&mut session);
        session.run(&format!("SET max_parallel_workers_per_gather = {workers}"));
        let query = "SELECT bloom_agg(k) FROM m";
        assert!(session.plan(query).matches("Partial").count() >= 90, "{}", session.plan(query));
        session.run(&format!("CREATE TABLE {name} AS SELECT ({query}) AS b"));
        assert_eq!(session.one(&format!("SELECT count(*) FROM m, {name} WHERE NOT b @> k")), "0", "{name}");
        let found =
            format!("SELECT count(*) FROM generate_series(1, 200000) i, {name} WHERE b @> -i::bigint");
        let found = session.number(&found);
        assert!(found < 200_000.0 * 0.0105 + 150.0, "{name}: {found} of 200000, 1 % promised");
        let filters = session.one(&format!("SELECT filters FROM {name}, bloom_info(b)"));
        assert_eq!(filters, "1", "{name}");
    }
}

on_shared!(plans_that_are_run_again);
/// Plans that are run again, with other rows each time, and parts that had none.
fn plans_that_are_run_again(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    partitioned(&mut session);
    session.run("SET max_parallel_workers_per_gather = 0");
    for memory in ["4MB", "64kB"] {
        session.run(&format!("SET work_mem = '{memory}'"));
        for form in FORMS {
            let query = |table: &str| {
                format!(
                    "SELECT n, (SELECT {form} FROM {table} WHERE i % 7 < n AND i < n * 6000 OFFSET 0)::text
                     FROM generate_series(-1, 6) n ORDER BY n"
                )
            };
            let (parts, whole) = (query("p"), query("t"));
            assert!(session.plan(&parts).contains("Partial"), "{}", session.plan(&parts));
            // In little memory, the guess for a partition is not that for the table.
            if memory == "4MB" || form.contains("30000") {
                assert!(session.rows(&parts) == session.rows(&whole), "{form}");
            }
            let lost = format!(
                "SELECT count(*) FROM ({parts}) f (n, b), t WHERE i % 7 < n AND i < n * 6000 AND i % 31 = 0
                 AND NOT b::bloom @> k"
            );
            assert_eq!(session.one(&lost), "0", "{form}");
        }
    }
}

on_shared!(shared_by_aggregates);
/// Aggregates that are alike but for their last step have one state between them.
fn shared_by_aggregates(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    partitioned(&mut session);
    session.run(
        "CREATE AGGREGATE twin (anyelement) (SFUNC = bloom_agg_step, STYPE = internal, FINALFUNC = bloom_agg_final,
             COMBINEFUNC = bloom_agg_combine, SERIALFUNC = bloom_agg_serialize, DESERIALFUNC = bloom_agg_deserialize,
             PARALLEL = SAFE)",
    );
    for memory in ["4MB", "64kB"] {
        session.run(&format!("SET work_mem = '{memory}'"));
        for table in ["t", "p"] {
            for workers in [0, 2] {
                make_parallel(&mut session);
                session.run(&format!("SET max_parallel_workers_per_gather = {workers}"));
                let query =
                    format!("SELECT lost(bloom_agg(k)), lost(twin(k)), lost(bloom_agg(k)) FROM {table}");
                let lost = session.rows(&query).concat();
                assert!(lost.iter().all(|lost| lost.as_deref() == Some("0")), "{table} {workers}: {lost:?}");
            }
        }
    }
}

on_shared!(in_shared_memory);
/// Parts too long for the queue of tuples: of several aggregates, of plans that are run again, of cursors.
fn in_shared_memory(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    let forms = "bloom_agg(k)::text, bloom_agg(k, 0.0001, 600000)::text, bloom_agg(i)::text,
         bloom_agg(k, 0.01, 300000, 'rocksdb')::text, bloom_agg(k) FILTER (WHERE i % 2 = 0)::text";
    let query = format!("SELECT {forms} FROM t");
    let again = format!("SELECT * FROM (VALUES (1), (2), (3)) v (x) LEFT JOIN ({query}) s ON true");
    session.run("SET max_parallel_workers_per_gather = 0");
    let serial = session.rows(&again);
    make_parallel(&mut session);
    session.run("SET enable_material = off");
    for leader in ["on", "off"] {
        session.run(&format!("SET parallel_leader_participation = {leader}"));
        let plan = session.column(&format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {again}")).join("\n");
        assert!(plan.contains("Partial") && plan.contains("Gather (actual rows"), "{plan}");
        assert!(plan.contains("loops=3"), "{plan}");
        assert!(session.rows(&again) == serial, "leader {leader}");
        session.run(&format!("BEGIN; DECLARE c CURSOR FOR {again}"));
        for expected in &serial {
            assert!(session.rows("FETCH c") == [expected.clone()], "leader {leader}");
        }
        session.run("COMMIT");
    }
}

on_shared!(in_shared_memory_when_queries_fail);
/// Queries that fail before or after parts are combined, and subtransactions that go on.
fn in_shared_memory_when_queries_fail(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    make_parallel(&mut session);
    session.run(
        "CREATE FUNCTION attempts(query text) RETURNS TABLE (b bloom, failed int) LANGUAGE plpgsql AS $$
         BEGIN
             failed := 0;
             FOR i IN 1..6 LOOP
                 BEGIN
                     EXECUTE query INTO b USING i;
                 EXCEPTION WHEN division_by_zero THEN failed := failed + 1;
                 END;
             END LOOP;
             RETURN NEXT;
         END$$",
    );
    for (query, failed) in [
        ("SELECT bloom_agg(k, 0.001, 900000) FROM t HAVING 1 / ($1 % 2) > 0", "3"),
        ("SELECT bloom_agg(k) FROM t HAVING 1 / ($1 % 2) > 0", "3"),
        ("SELECT bloom_agg(k, 0.001, 900000) FROM t WHERE 1 / (i + $1 - 30003) IS NOT NULL", "4"),
    ] {
        let row = session.rows(&format!("SELECT lost(b), failed FROM attempts($q$ {query} $q$)")).concat();
        assert_eq!(row, [Some("0".to_owned()), Some(failed.to_owned())], "{query}");
    }
}

on_shared!(combined_in_workers);
/// Whole aggregates within a worker, which makes their parts, too.
fn combined_in_workers(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    partitioned(&mut session);
    let query = "SELECT bloom_agg(k)::text FROM p UNION ALL SELECT bloom_agg(k, 0.0001, 600000)::text FROM p
         UNION ALL SELECT bloom_agg(i)::text FROM p";
    session.run("SET max_parallel_workers_per_gather = 0");
    let serial = session.rows(query);
    make_parallel(&mut session);
    session.run(
        "SET parallel_setup_cost = 100; SET min_parallel_table_scan_size = '1GB';
         ALTER TABLE p1 SET (parallel_workers = 0);
         ALTER TABLE p2 SET (parallel_workers = 0); ALTER TABLE p3 SET (parallel_workers = 0);
         ALTER TABLE p4 SET (parallel_workers = 0)",
    );
    for leader in ["on", "off"] {
        session.run(&format!("SET parallel_leader_participation = {leader}"));
        let plan = session.plan(query);
        assert!(plan.contains("Parallel Append") && plan.contains("Partial"), "{plan}");
        assert!(plan.find("Gather") < plan.find("Finalize"), "{plan}");
        let mut found = session.rows(query);
        found.sort_by_key(|row| serial.iter().position(|other| other == row));
        assert!(found == serial, "leader {leader}");
    }
}
