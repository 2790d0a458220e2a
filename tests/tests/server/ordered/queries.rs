//! Scans in order within larger queries: cursors, LATERAL, partitions, views, joins, locks, row security, parameters.
use super::{in_order, is_in_order, log, same_order};
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, same};
use pg_skip_tests::session::Session;

fn prepared(database: &Database, rows: u32) -> Session {
    let mut session = database.session();
    log(&mut session, rows);
    session.run(
        "CREATE INDEX t_at ON t USING skip (at timestamptz_minmax_skip_ops, n int4_minmax_skip_ops, tenant)
            WITH (pages_per_range = 2);
         ANALYZE t",
    );
    session
}

on_shared!(cursors);
/// A cursor is fetched from in pieces, while rows change.
fn cursors(database: &Database) {
    let mut session = prepared(database, 4000);
    let mut other = database.session();
    for (options, order) in
        [("", "at DESC"), ("NO SCROLL", "n NULLS FIRST"), ("SCROLL", "at"), ("", "at, id DESC")]
    {
        // Rows with equal values may come in any order.
        let column =
            if order.contains("id") { "id, at, n" } else { order.split(' ').next().expect("a column") };
        let query = format!("SELECT {column} FROM t WHERE id % 3 > 0 ORDER BY {order}");
        let expected = session.rows(&query);
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
        in_order().set(&mut session);
        session.run(&format!("DECLARE c {options} CURSOR FOR {query}"));
        let mut found = session.rows("FETCH 3 FROM c");
        other.run(
            "INSERT INTO t (at, n) SELECT '2030-01-01', 100000 FROM generate_series(1, 50);
             UPDATE t SET at = at + interval '1 year', n = n + 1 WHERE id % 50 = 7; DELETE FROM t WHERE id % 50 = 8",
        );
        other.run("VACUUM t");
        for count in [1, 0, 40, 700, 100_000] {
            if count > 0 {
                found.extend(session.rows(&format!("FETCH {count} FROM c")));
            }
        }
        assert!(found == expected, "{query}: {} rows, {} expected", found.len(), expected.len());
        assert!(session.rows("FETCH 1 FROM c").is_empty());
        if options == "SCROLL" {
            let last = session.rows("FETCH LAST FROM c");
            assert_eq!(last.first(), expected.last());
            assert_eq!(session.rows("FETCH FIRST FROM c").first(), expected.first());
            assert_eq!(session.rows("FETCH ABSOLUTE 77 FROM c").first(), expected.get(76));
        }
        session.run("COMMIT; RESET ALL");
    }
    // A row that a cursor stands on.
    session.run("BEGIN");
    in_order().set(&mut session);
    session.run("DECLARE c CURSOR FOR SELECT * FROM t ORDER BY at DESC FOR UPDATE");
    session.run("FETCH 2 FROM c; DELETE FROM t WHERE CURRENT OF c; COMMIT; RESET ALL");
    session.run("BEGIN");
    in_order().set(&mut session);
    session.run(
        "DECLARE h CURSOR WITH HOLD FOR SELECT at FROM t ORDER BY at DESC LIMIT 30; FETCH 2 FROM h; COMMIT",
    );
    session.run("RESET ALL");
    let rest = session.rows("FETCH ALL FROM h");
    assert_eq!(rest, session.rows("SELECT at FROM t ORDER BY at DESC LIMIT 28 OFFSET 2"));
}

on_shared!(bounds_change_while_a_cursor_is_open);
/// Bounds are read page by page, as a cursor comes to them. Meanwhile their segments are widened, replaced and merged,
/// and the pages get others.
fn bounds_change_while_a_cursor_is_open(database: &Database) {
    let mut session = database.session();
    log(&mut session, 20_000);
    session.run(
        "CREATE INDEX t_at ON t USING skip (at timestamptz_minmax_skip_ops, n int4_minmax_skip_ops)
            WITH (pages_per_range = 1, delta_limit = 64);
         ANALYZE t",
    );
    let mut other = database.session();
    let segments =
        "SELECT string_agg(segment_id::text, ' ' ORDER BY segment_id) FROM skip_index_segments('t_at')";
    for order in ["at", "n DESC NULLS LAST"] {
        let query = format!("SELECT id, at, n FROM t ORDER BY {order}, id");
        let expected = session.rows(&query);
        let before = session.one(segments);
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
        in_order().set(&mut session);
        session.run(&format!("DECLARE c CURSOR FOR {query}"));
        let mut found = session.rows("FETCH 10 FROM c");
        for round in 0..10 {
            other.run(&format!(
                "UPDATE t SET at = at + interval '9 years', n = n + 70000 WHERE id % 41 = {round};
                 UPDATE t SET at = at - interval '9 years', n = -n WHERE id % 41 = {round} + 20;
                 INSERT INTO t (at, n) SELECT '2020-01-01', i FROM generate_series(1, 700) i"
            ));
            other.run("VACUUM t");
            other.run("SELECT skip_summarize('t_at')");
            found.extend(session.rows("FETCH 2500 FROM c"));
        }
        found.extend(session.rows("FETCH ALL FROM c"));
        assert!(found == expected, "{query}: {} rows, {} expected", found.len(), expected.len());
        session.run("COMMIT; RESET ALL");
        assert_ne!(session.one(segments), before, "segments were replaced");
        other.run("VACUUM t");
    }
}

on_shared!(inner_sides);
/// LATERAL and subqueries run it again and again, with the same keys and with others.
fn inner_sides(database: &Database) {
    let mut session = prepared(database, 5000);
    session.run(
        "CREATE TABLE days (day timestamptz, m int);
         INSERT INTO days SELECT d, extract(day FROM d) FROM generate_series('2024-01-01'::timestamptz, '2024-01-06',
            '12 hours') d;
         INSERT INTO days VALUES (NULL, 3); ANALYZE days",
    );
    for statement in [
        "SELECT day, s.* FROM days, LATERAL (SELECT at FROM t WHERE at < day ORDER BY at DESC LIMIT 3) s
         ORDER BY day, at",
        "SELECT m, s.* FROM days, LATERAL (SELECT at, tenant FROM t WHERE tenant = m ORDER BY at, id LIMIT 4) s
         ORDER BY m, day, at",
        "SELECT day, (SELECT at FROM t WHERE at > day AND n > 100 ORDER BY at LIMIT 1) FROM days ORDER BY day",
        "SELECT day, (SELECT max(n) FROM (SELECT n FROM t ORDER BY n DESC NULLS LAST LIMIT 7) s WHERE n <> m)
         FROM days ORDER BY day, m",
        "SELECT day, ARRAY(SELECT n FROM t WHERE n IS NOT NULL ORDER BY n DESC, id LIMIT m) FROM days ORDER BY day, m",
        "SELECT * FROM (SELECT id, at FROM t ORDER BY at DESC, id LIMIT 9) s JOIN t USING (id) ORDER BY s.at, id",
        "SELECT t.at, m FROM t JOIN days ON day < at ORDER BY t.at DESC, m, day LIMIT 40",
        "SELECT t.at, m FROM t LEFT JOIN days ON m = tenant ORDER BY t.at, t.id, m LIMIT 40",
        "SELECT t.at, m FROM days LEFT JOIN t ON m = tenant AND n > 400 ORDER BY t.at NULLS FIRST, m LIMIT 40",
        "SELECT at, count(*) FROM t GROUP BY at ORDER BY at DESC LIMIT 10",
        "SELECT DISTINCT n FROM t ORDER BY n LIMIT 10",
        "SELECT DISTINCT ON (n) n, at FROM t ORDER BY n DESC, at LIMIT 10",
        "SELECT at, row_number() OVER (ORDER BY at, id) FROM t ORDER BY at, id LIMIT 10",
        "SELECT max(at), min(at), min(n) FROM t",
        "SELECT at FROM t WHERE n = (SELECT max(n) FROM t) ORDER BY at",
        "(SELECT at FROM t ORDER BY at LIMIT 5) UNION ALL (SELECT at FROM t ORDER BY at DESC LIMIT 5) ORDER BY at",
        "SELECT a.at FROM t a JOIN t b ON a.at = b.at ORDER BY a.at DESC, a.id, b.id LIMIT 30",
        "SELECT at FROM t ORDER BY at FETCH FIRST 12 ROWS WITH TIES",
        "SELECT n FROM t WHERE random() < 2 AND id % 2 = 1 ORDER BY n LIMIT 10",
    ] {
        let case = Case { ordered: true, ..Case::any(statement) };
        let nested = in_order().with("enable_sort", "on").nested_loop();
        for way in [in_order(), nested.clone(), nested.with("work_mem", "64kB"), in_order().parallel()] {
            same(&mut session, &way, &case);
        }
    }
    is_in_order(&mut session, "SELECT at FROM t WHERE n = 7 ORDER BY at");
}

on_shared!(partitions);
fn partitions(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, at timestamptz NOT NULL, tenant int,
            filler text DEFAULT repeat('x', 300)) PARTITION BY RANGE (at);
         CREATE TABLE t1 PARTITION OF t FOR VALUES FROM ('2024-01-01') TO ('2024-01-03');
         CREATE TABLE t2 (tenant int, filler text, gone int, at timestamptz NOT NULL, id int NOT NULL);
         ALTER TABLE t2 DROP COLUMN gone;
         ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM ('2024-01-03') TO ('2024-01-05');
         CREATE TABLE t3 PARTITION OF t DEFAULT;
         CREATE INDEX t_at ON t USING skip (at timestamptz_minmax_skip_ops, tenant) WITH (pages_per_range = 1);
         INSERT INTO t (id, at, tenant) OVERRIDING SYSTEM VALUE
            SELECT i, timestamptz '2024-01-01' + i * interval '1 min' + (i * 7919 % 11) * interval '1 min', i % 7
            FROM generate_series(1, 9000) i;
         ANALYZE t",
    );
    let several = "SELECT at, id FROM t ORDER BY at DESC, id LIMIT 20";
    for statement in [
        "SELECT at FROM t ORDER BY at DESC LIMIT 20",
        several,
        "SELECT at, tenant FROM t WHERE tenant = 3 ORDER BY at, id LIMIT 20 OFFSET 900",
        "SELECT at FROM t WHERE at > '2024-01-04' ORDER BY at",
        "SELECT at FROM (SELECT at FROM t1 UNION ALL SELECT at FROM t3) u ORDER BY at DESC LIMIT 9",
    ] {
        same_order(&mut session, statement);
    }
    in_order().set(&mut session);
    // Partitions by ranges of the column are appended one after the other.
    let merged = session
        .plan("SELECT at FROM (SELECT at FROM t1 UNION ALL SELECT at FROM t3) u ORDER BY at DESC LIMIT 9");
    assert!(merged.contains("Merge Append") && merged.matches("Order By: ").count() == 2, "{merged}");
    session.run("RESET ALL");
    session.run(
        "CREATE TABLE h (LIKE t INCLUDING INDEXES); CREATE TABLE h1 (LIKE t INCLUDING INDEXES) INHERITS (h);
        INSERT INTO h SELECT * FROM t WHERE id % 2 = 0; INSERT INTO h1 SELECT * FROM t WHERE id % 2 = 1;
        ANALYZE h, h1",
    );
    for statement in
        ["SELECT at FROM h ORDER BY at LIMIT 20", "SELECT at, id FROM h ORDER BY at DESC, id DESC LIMIT 20"]
    {
        same_order(&mut session, statement);
    }
}

on_shared!(locks_and_rights);
/// Row locks, updates by a subquery, row security and security barriers.
fn locks_and_rights(database: &Database) {
    let mut session = prepared(database, 3000);
    let mut other = database.session();
    other.run("BEGIN; SELECT id FROM t ORDER BY at DESC LIMIT 3 FOR UPDATE");
    let free = "SELECT id FROM t ORDER BY at DESC, id LIMIT 5 FOR UPDATE SKIP LOCKED";
    same_order(&mut session, free);
    other.run("ROLLBACK");
    for change in [
        "UPDATE t SET n = -1 WHERE id IN (SELECT id FROM t WHERE n > 100 ORDER BY at, id LIMIT 40)",
        "DELETE FROM t WHERE id = ANY (ARRAY(SELECT id FROM t ORDER BY at DESC, id LIMIT 40))",
        "WITH gone AS (DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY at DESC, id LIMIT 40) RETURNING at)
         SELECT * FROM gone ORDER BY at",
    ] {
        let after = "SELECT count(*), sum(id), sum(n) FROM t";
        let case = Case { after: after.into(), ..Case::any(change) };
        same(&mut session, &in_order(), &case);
    }
    // What another transaction changes while we wait for it.
    session.run("BEGIN");
    in_order().set(&mut session);
    other.run("BEGIN; UPDATE t SET tenant = 7777 WHERE id = (SELECT id FROM t ORDER BY at DESC, id LIMIT 1)");
    let first = other.one("SELECT id FROM t WHERE tenant = 7777");
    let waiting = std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| session.rows("SELECT id, tenant FROM t ORDER BY at DESC, id LIMIT 1 FOR UPDATE"));
        std::thread::sleep(std::time::Duration::from_millis(300));
        other.run("COMMIT");
        waiting.join().expect("no panic")
    });
    assert_eq!(waiting[0], [Some(first), Some("7777".to_owned())]);
    session.run("COMMIT; RESET ALL");
    session.run(
        "CREATE ROLE reader_of_rows; GRANT SELECT ON t TO reader_of_rows;
         ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY odd ON t USING (tenant % 2 = 1);
         CREATE VIEW v WITH (security_barrier) AS SELECT * FROM t WHERE n % 2 = 0; GRANT SELECT ON v TO reader_of_rows;
         CREATE VIEW w AS SELECT at AS seen, n FROM t WHERE tenant < 10",
    );
    for statement in [
        "SELECT at, id FROM v ORDER BY at DESC LIMIT 7",
        "SELECT at, id FROM v WHERE id > 30 AND length(filler) > 2 ORDER BY at LIMIT 7",
        "SELECT seen FROM w ORDER BY seen DESC LIMIT 7",
    ] {
        // The server does not hand the order on to a subquery with a barrier.
        let case = Case { ordered: true, ..Case::any(statement) };
        same(&mut session, &in_order(), &case);
    }
    session.run("SET ROLE reader_of_rows");
    for statement in
        ["SELECT at, tenant FROM t ORDER BY at DESC, id LIMIT 9", "SELECT at FROM v ORDER BY at, id LIMIT 9"]
    {
        same(&mut session, &in_order(), &Case { ordered: true, ..Case::any(statement) });
    }
    is_in_order(&mut session, "SELECT at, tenant FROM t ORDER BY at DESC LIMIT 9");
    session.run("SET ROLE reader_of_rows");
    session.run("RESET ROLE; DROP OWNED BY reader_of_rows; DROP ROLE reader_of_rows");
}

on_shared!(parameters);
/// Limits and keys that are known only when the query runs.
fn parameters(database: &Database) {
    let mut session = prepared(database, 4000);
    session.run(
        "PREPARE q(timestamptz, int, int) AS
            SELECT at, tenant FROM t WHERE at < $1 ORDER BY at DESC, id LIMIT $2 OFFSET $3",
    );
    let arguments = [
        ("'2024-01-02'", 5, 0),
        ("'2024-01-02'", 0, 0),
        ("NULL", 5, 0),
        ("'2030-01-01'", 700, 3),
        ("'2024-01-01 08:00'", 9000, 1),
    ];
    for mode in ["force_generic_plan", "force_custom_plan"] {
        for (at, limit, offset) in arguments {
            let plain = format!(
                "SELECT at, tenant FROM t WHERE (at < {at}) IS TRUE ORDER BY at DESC, id LIMIT {limit} OFFSET {offset}"
            );
            session.run("SET pg_skip.enable_scan = off");
            let expected = session.rows(&plain);
            session.run("RESET pg_skip.enable_scan");
            in_order().set(&mut session);
            session.run(&format!("SET plan_cache_mode = {mode}"));
            assert_eq!(
                session.rows(&format!("EXECUTE q({at}, {limit}, {offset})")),
                expected,
                "{mode} {plain}"
            );
            session.run("RESET ALL");
        }
    }
    session.run(
        "CREATE TEMP TABLE own AS SELECT * FROM t;
        CREATE INDEX own_at ON own USING skip (at timestamptz_minmax_skip_ops);
        CREATE MATERIALIZED VIEW seen AS SELECT at FROM t;
        CREATE INDEX ON seen USING skip (at timestamptz_minmax_skip_ops);
        CREATE TABLE empty (at timestamptz);
        CREATE INDEX ON empty USING skip (at timestamptz_minmax_skip_ops)",
    );
    same_order(&mut session, "SELECT at FROM own ORDER BY at DESC LIMIT 20");
    same_order(&mut session, "SELECT at FROM seen ORDER BY at DESC LIMIT 20");
    same_order(&mut session, "SELECT at FROM empty ORDER BY at DESC LIMIT 20");
}
