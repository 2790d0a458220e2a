//! Bounds of ranges: `<`, `<=`, `=`, `>=`, `>`, `BETWEEN`, IS NULL, by the operator classes `…_minmax_skip_ops`.
use super::skips_many;
use crate::concurrency::SideBySide;
use crate::registry::on_shared;
use crate::shared::Database;
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way, same};
use pg_skip_tests::compare::{self, Question, sound};
use pg_skip_tests::explain::executed;
use pg_skip_tests::session::Session;
use std::time::Duration;

/// Rows in rough order of time, some 14 on each page, in a table of many ranges.
fn log(session: &mut Session, rows: u32) {
    session.run(&format!(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, at timestamptz, n int, tenant int,
            filler text DEFAULT repeat('x', 450)) WITH (fillfactor = 90);
         INSERT INTO t (at, n, tenant)
            SELECT timestamptz '2024-01-01 00:00+00' + i * interval '1 min' + (i * 7919 % 11) * interval '1 min',
                CASE WHEN i % 1000 < 20 THEN NULL ELSE i / 10 END, i * 31 % 50
            FROM generate_series(1, {rows}) i"
    ));
}

on_shared!(few_ranges);
/// Comparisons leave few ranges, and read few pages, of a segment of several pages too.
fn few_ranges(database: &Database) {
    let mut session = database.session();
    log(&mut session, 20_000);
    session.run(
        "CREATE INDEX t_at ON t USING skip (at timestamptz_minmax_skip_ops, n int4_minmax_skip_ops, tenant)
         WITH (pages_per_range = 1); ANALYZE t",
    );
    let info = "SELECT min(max_width) FROM skip_index_info('t_at') WHERE layout = 'bounds'";
    assert!(session.number(info) > 1000.0, "a segment of several pages");
    for predicate in [
        "at < timestamptz '2024-01-01 05:00+00'",
        "at >= timestamptz '2024-01-14 15:00+00'",
        "at BETWEEN '2024-01-05 00:00+00' AND '2024-01-05 01:00+00'",
        "at BETWEEN '2024-01-05 00:00+00' AND '2024-01-05 01:00+00' AND tenant = 7",
        "at > now() - interval '1 day'",
        "at = '2024-01-07 03:04:00+00'",
        "at < '2023-01-01' OR at > '2024-01-14 20:00+00'",
        "at = ANY ('{2024-01-07 03:04:00+00,2024-01-02 03:04:00+00,NULL}')",
        "n = 777::bigint",
        "n > 1990 AND at > '2024-01-14'",
        "n < 0::smallint",
        "(at, tenant) < ('2024-01-01 05:00+00', 7)",
        "(at, id) >= ('2024-01-14 15:00+00', 7)",
        "('2024-01-14 15:00+00'::timestamptz, 7) <= (at, tenant)",
        "(n, at) > (1990::bigint, '2024-01-14')",
        "(n, filler, at) < (1, 'y', '2024-01-14')",
        "n IS NULL",
    ] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        Way::skip_scan().set(&mut session);
        skips_many(&mut session, &statement);
        let node = executed(&mut session, &statement);
        let (pages, heap) = (node.number("Shared Hit Blocks"), node.number("Ranges Scanned"));
        // Filters of the other column are read slice by slice.
        assert!(pages < heap + 24, "{predicate}: {pages} pages, {heap} of the table");
        session.run("RESET ALL");
        same(&mut session, &Way::skip_scan(), &Case::using(&statement));
        same(&mut session, &Way::skip_scan().parallel(), &Case::any(&statement));
        // The server has a bitmap scan for comparisons of rows with a btree only.
        let has_rows = predicate.starts_with(['(', '\'']);
        let question = if has_rows { Question::any(predicate) } else { Question::using("t_at", predicate) };
        compare::same(&mut session, "t", &question);
    }
    sound(&mut session, "t_at");
    // Planning that may read few pages reads the summaries.
    Way::skip_scan().set(&mut session);
    session.run("SET pg_skip.plan_probe_pages = 2");
    let hour = "SELECT id FROM t WHERE at BETWEEN '2024-01-05 00:00+00' AND '2024-01-05 01:00+00'";
    let node = executed(&mut session, hour);
    assert_eq!(node.text("Ranges Expected Exactly"), "false");
    assert!(node.number("Ranges Expected") * 2 < node.number("Ranges Total"));
}

on_shared!(growth);
/// A table that grows by inserts, whose segments are merged, is updated in all parts and then cut short.
fn growth(database: &Database) {
    let mut session = database.session();
    log(&mut session, 8000);
    session.run(
        "CREATE INDEX t_at ON t USING skip (at timestamptz_minmax_skip_ops, n int4_minmax_skip_ops)
         WITH (pages_per_range = 1, delta_limit = 8192)",
    );
    let ask = |session: &mut Session| {
        for predicate in [
            "at > '2024-01-08 14:00+00'",
            "at < '2024-01-01 02:00+00'",
            "n BETWEEN 100 AND 103",
            "n < -5",
            "n > 5000000",
            "n IS NULL AND at > '2024-01-04'",
        ] {
            same(session, &Way::skip_scan(), &Case::using(format!("SELECT id FROM t WHERE {predicate}")));
            compare::same(session, "t", &Question::any(predicate));
        }
        sound(session, "t_at");
    };
    for round in 0..8 {
        session.run(&format!(
            "INSERT INTO t (at, n) SELECT '2024-01-06 00:00+00'::timestamptz + ({round} * 900 + i) * interval '1 min', i
                FROM generate_series(1, 900) i;
             UPDATE t SET n = -n WHERE id % 173 = {round};
             UPDATE t SET n = n + 10000000 WHERE id % 179 = {round} AND id < 8000;
             UPDATE t SET n = NULL WHERE id % 181 = {round};
             INSERT INTO t (at, n) SELECT '2025-01-01', 77000000 + {round} FROM generate_series(1, 200)"
        ));
        ask(&mut session);
        let newest = format!("SELECT id FROM t WHERE n = 77000000 + {round}");
        same(&mut session, &Way::skip_scan(), &Case::using(newest));
    }
    let segments = "SELECT max(segments) FROM skip_index_info('t_at')";
    assert!(session.number(segments) < 12.0, "segments are merged, or grow");
    for sql in [
        "VACUUM t",
        "UPDATE t SET at = at - interval '10 years' WHERE id % 97 = 3",
        "SELECT skip_summarize('t_at')",
        "DELETE FROM t WHERE ctid > '(90,0)'",
        "VACUUM t",
        "INSERT INTO t (at, n) SELECT '2030-01-01', i FROM generate_series(1, 3000) i",
        "VACUUM t",
        "REINDEX INDEX CONCURRENTLY t_at",
    ] {
        session.run(sql);
        ask(&mut session);
    }
}

on_shared!(open_ranges);
/// A range with a row of which it is not known whether it stays matches everything, until it is closed.
fn open_ranges(database: &Database) {
    let mut session = database.session();
    let mut other = database.session();
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v bytea, n int);
         ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
         CREATE INDEX t_v ON t USING skip (v bytea_minmax_skip_ops, n int4_minmax_skip_ops)
            WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t (v, n) SELECT int4send(i), i FROM generate_series(1, 4000) i",
    );
    other.run("BEGIN; INSERT INTO t (v, n) VALUES (decode(repeat('ff', 9000), 'hex'), 5000000)");
    session.run("INSERT INTO t (v, n) SELECT int4send(i), i FROM generate_series(4001, 8000) i");
    session.run("SELECT skip_summarize('t_v')");
    let open = "SELECT sum(open_ranges) FROM skip_index_segments('t_v')";
    assert_eq!(session.number(open), 2.0, "one range, of both columns");
    let map = "SELECT skip_range_map('t_v', 'n', 77, 1000)";
    let before = session.one(map);
    session.run("UPDATE t SET n = -n WHERE id % 100 = 7");
    other.run("COMMIT");
    let ask = |session: &mut Session| {
        for predicate in
            ["v > '\\xfe'", "n > 4999999", "n = -107", "v < '\\x00000010'", "n BETWEEN 3900 AND 4100"]
        {
            same(session, &Way::skip_scan(), &Case::using(format!("SELECT id FROM t WHERE {predicate}")));
        }
        sound(session, "t_v");
    };
    ask(&mut session);
    session.run("VACUUM t");
    assert_eq!(session.number(open), 0.0, "closed");
    ask(&mut session);
    assert_ne!(session.one(map), before);
    assert_eq!(session.one("SELECT count(*) FROM skip_matching_ranges('t_v', 'n', 5000000)"), "1");
}

on_shared!(joins_and_parameters);
fn joins_and_parameters(database: &Database) {
    let mut session = database.session();
    log(&mut session, 6000);
    session.run(
        "CREATE INDEX t_at ON t USING skip (at timestamptz_minmax_skip_ops, n int4_minmax_skip_ops)
            WITH (pages_per_range = 2);
         CREATE TABLE days (day timestamptz, until timestamptz, m bigint);
         INSERT INTO days SELECT d, d + interval '2 hours', extract(day FROM d)
            FROM generate_series('2024-01-01'::timestamptz, '2024-01-09', '1 day') d;
         INSERT INTO days VALUES (NULL, '2024-01-03', NULL); ANALYZE t; ANALYZE days",
    );
    for statement in [
        "SELECT t.id, day FROM days JOIN t ON at >= day AND at < until",
        "SELECT t.id, day FROM days JOIN t ON day > at",
        "SELECT t.id, m FROM days JOIN t ON n = m",
        "SELECT id FROM t WHERE at > (SELECT max(day) FROM days) - interval '5 days'",
    ] {
        same(&mut session, &Way::skip_scan().nested_loop(), &Case::any(statement));
        same(&mut session, &Way::skip_scan().parallel(), &Case::any(statement));
    }
    session.run(
        "PREPARE q(timestamptz, int) AS SELECT count(*) FROM t WHERE at >= $1 
            AND at < $1 + $2 * interval '1 hour'",
    );
    for mode in ["force_generic_plan", "force_custom_plan"] {
        Way::skip_scan().set(&mut session);
        session.run(&format!("SET plan_cache_mode = {mode}"));
        let plain = "SELECT count(*) FROM t
            WHERE (at >= '2024-01-02 00:00+00' AND at < '2024-01-02 03:00+00') IS TRUE";
        let expected = session.one(plain);
        assert_eq!(session.one("EXECUTE q('2024-01-02 00:00+00', 3)"), expected, "{mode}");
        assert_eq!(session.one("EXECUTE q(NULL, 3)"), "0");
        skips_many(&mut session, "EXECUTE q('2024-01-02 00:00+00', 3)");
    }
}

on_shared!(refused);
/// Columns that have no bounds, and operator classes that are not valid.
fn refused(database: &Database) {
    let mut session = database.session();
    session
        .run("CREATE TABLE t (v text COLLATE \"en-x-icu\", c char(3) COLLATE \"en-x-icu\", a int[], n int)");
    for (indexed, code) in [
        ("v text_minmax_skip_ops", "0A000"),
        ("c bpchar_minmax_skip_ops", "0A000"),
        ("a int4_minmax_skip_ops", "42804"),
        ("n int8_minmax_skip_ops", "42804"),
        ("n int4_minmax_skip_ops (false_positive_rate = 0.1)", "22023"),
    ] {
        let error = session.error(&format!("CREATE INDEX ON t USING skip ({indexed})"));
        assert_eq!(error.code().code(), code, "{indexed}: {error:?}");
    }
    let error = session.error("CREATE INDEX ON t USING skip (v text_minmax_skip_ops)");
    assert!(error.hint().is_some_and(|hint| hint.contains("COLLATE \"C\"")), "{error:?}");
    session.run("CREATE INDEX ON t USING skip (v COLLATE \"C\" text_minmax_skip_ops)");
    let valid = "SELECT bool_and(amvalidate(oid)) || ' ' || count(*) FROM pg_opclass
        WHERE opcname ~ '_minmax_skip_ops'";
    assert_eq!(session.one(valid), "true 37");
}

on_shared!(beside_others);
/// Bounds beside ordinary columns, in one index and in two, ANDed and ORed.
fn beside_others(database: &Database) {
    let mut session = database.session();
    log(&mut session, 4000);
    session.run(
        "CREATE INDEX one ON t USING skip (n int4_minmax_skip_ops, n, tenant) WITH (pages_per_range = 2);
         CREATE INDEX two ON t USING skip (at timestamptz_minmax_skip_ops) WITH (pages_per_range = 3); ANALYZE t",
    );
    for predicate in [
        "n = 77",
        "n = 77 AND at < '2024-01-02'",
        "n < 20 OR at > '2024-01-03 15:00+00'",
        "n IN (5, 300) OR n > 398",
        "(tenant = 3 AND at < '2024-01-01 03:00+00') OR (n > 390 AND tenant = 4)",
        "n > 10 AND n < 12 AND at BETWEEN '2024-01-01' AND '2024-01-02'",
        "NOT n > 3",
        "n IS NOT DISTINCT FROM 77",
    ] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        same(&mut session, &Way::skip_scan(), &Case::using(&statement));
        Way::skip_scan().set(&mut session);
        skips_many(&mut session, &statement);
        session.run("RESET ALL");
        compare::same(&mut session, "t", &Question::any(predicate));
    }
}

on_shared!(rebuilt);
/// Bounds that rows which are gone have left too wide are found again by VACUUM, once.
fn rebuilt(database: &Database) {
    let mut session = database.session();
    log(&mut session, 8000);
    session.run(
        "CREATE INDEX t_at ON t USING skip (at timestamptz_minmax_skip_ops, n int4_minmax_skip_ops)
         WITH (pages_per_range = 1)",
    );
    let matching =
        "SELECT count(*) FROM skip_matching_ranges('t_at', 'at', timestamptz '2024-01-02 03:00+00')";
    let before = session.number(matching);
    // New versions come into the space of old ones, and go again.
    session.run("UPDATE t SET filler = upper(filler) WHERE id % 40 = 3");
    session.run("VACUUM t");
    session.run(
        "UPDATE t SET at = '2034-01-01' WHERE id % 40 = 1; UPDATE t SET at = '2004-01-01' WHERE id % 40 = 2",
    );
    session.run("SET pg_skip.vacuum_rebuild_pages = 0");
    session.run("VACUUM t");
    let ask = |session: &mut Session| {
        for predicate in ["at > '2030-01-01'", "at < '2010-01-01'", "at < '2024-01-01 02:00+00'", "n > 795"] {
            same(session, &Way::skip_scan(), &Case::using(format!("SELECT id FROM t WHERE {predicate}")));
        }
        sound(session, "t_at");
    };
    ask(&mut session);
    session.run("SELECT skip_summarize('t_at')");
    ask(&mut session);
    session.run("DELETE FROM t WHERE id % 40 IN (1, 2)");
    session.run("VACUUM t");
    ask(&mut session);
    let wide = session.number(matching);
    assert!(wide > before + 50.0, "{wide} ranges after {before}");
    session.run("RESET pg_skip.vacuum_rebuild_pages");
    session.run("VACUUM t");
    let after = session.number(matching);
    assert!(after <= before, "{after} ranges after {wide}");
    ask(&mut session);
    // There is nothing left to read again.
    let written = "SELECT max(segment_id) FROM skip_index_segments('t_at')";
    let last = session.one(written);
    session.run("VACUUM t");
    assert_eq!(session.one(written), last);
}

on_shared!(parallel_build);
/// A build by several processes makes the same bounds.
fn parallel_build(database: &Database) {
    let mut session = database.session();
    log(&mut session, 12_000);
    let index =
        "ON t USING skip (at timestamptz_minmax_skip_ops, n int4_minmax_skip_ops) WITH (pages_per_range = 2)";
    session.run(&format!("SET max_parallel_maintenance_workers = 0; CREATE INDEX one {index}"));
    session.run(&format!(
        "SET max_parallel_maintenance_workers = 2; SET min_parallel_table_scan_size = 0;
         ALTER TABLE t SET (parallel_workers = 2); CREATE INDEX several {index}"
    ));
    for value in ["n 77", "n 2", "n 1199", "at 2024-01-05 01:00+00", "at 2024-01-09 01:00+00"] {
        let (column, value) = value.split_once(' ').expect("a column and a value");
        let ranges =
            |index: &str| format!("SELECT skip_matching_ranges('{index}', '{column}', '{value}'::text)");
        let found = session.column(&ranges("one"));
        assert!(!found.is_empty() && found.len() < 20, "{column} {value}: {found:?}");
        assert_eq!(session.column(&ranges("several")), found, "{column} {value}");
    }
    sound(&mut session, "one");
    sound(&mut session, "several");
}

on_shared!(side_by_side);
/// Writers, readers and maintenance side by side. Rows move to pages of others, so that bounds get wider, and are found
/// again meanwhile.
fn side_by_side(database: &Database) {
    let mut session = database.session();
    log(&mut session, 3000);
    session.run(
        "CREATE INDEX t_n ON t USING skip (n int4_minmax_skip_ops, at timestamptz_minmax_skip_ops)
         WITH (pages_per_range = 1, delta_limit = 64)",
    );
    let write = |rng: &mut Rng| {
        let (id, n) = (rng.u32(1..4000), rng.i32(-500..800));
        match rng.u32(..6) {
            0 => format!("INSERT INTO t (n) SELECT {n} + i FROM generate_series(1, 30) i"),
            1 => format!("DELETE FROM t WHERE id = {id}"),
            2 => format!("BEGIN; UPDATE t SET n = {n} WHERE id = {id}; ROLLBACK"),
            _ => format!("UPDATE t SET n = {n} * 3 WHERE id = {id}"),
        }
    };
    let ask = |session: &mut Session, rng: &mut Rng| {
        let (n, m) = (rng.i32(-1600..2400), rng.i32(0..60));
        let predicate = match rng.u32(..4) {
            0 => format!("n > {}", n.max(600)),
            1 => format!("n BETWEEN {n} AND {}", n + m),
            2 => format!("n = {}", n / 4),
            _ => format!("n < {} OR n IS NULL", n.min(0)),
        };
        compare::same(session, "t", &Question::any(predicate));
    };
    let maintenance = &["VACUUM t", "SELECT skip_summarize('t_n')"];
    SideBySide { database, duration: Duration::from_secs(8), write, ask, maintenance, maintainers: 2 }.run();
    sound(&mut session, "t_n");
    session.run("VACUUM t");
    sound(&mut session, "t_n");
}

on_shared!(merged);
/// Segments of ranges that are summarized at once are merged.
fn merged(database: &Database) {
    let mut session = database.session();
    log(&mut session, 4000);
    session.run(
        "CREATE INDEX t_n ON t USING skip (n int4_minmax_skip_ops)
         WITH (pages_per_range = 1, autosummarize = off)",
    );
    for round in 1..6 {
        session.run(&format!(
            "INSERT INTO t (n) SELECT {round} * 100000 + i FROM generate_series(1, 4000) i;
             SELECT skip_summarize('t_n')"
        ));
        sound(&mut session, "t_n");
        for n in [7, 300, round * 100_000 + 30, round * 100_000 + 3999] {
            let statement = format!("SELECT id FROM t WHERE n = {n}");
            same(&mut session, &Way::skip_scan(), &Case::using(&statement));
            Way::skip_scan().set(&mut session);
            skips_many(&mut session, &statement);
            session.run("RESET ALL");
        }
    }
    let info = "SELECT max_width > 900 AND segments < 4 FROM skip_index_info('t_n')";
    assert_eq!(session.one(info), "t");
}

on_shared!(equal_keys);
/// Values with the same order key, on different sides of a query's value.
fn equal_keys(database: &Database) {
    let mut session = database.session();
    for (kind, class, less, middle, greater) in [
        (
            "text COLLATE \"C\"",
            "text",
            "too long for a key: 1",
            "too long for a key: 2",
            "too long for a key: 3",
        ),
        (
            "char(30) COLLATE \"C\"",
            "bpchar",
            "too long for a key: 1",
            "too long for a key: 2",
            "too long for a key: 3",
        ),
        ("name", "name", "too long for a key: 1", "too long for a key: 2", "too long for a key: 3"),
        ("bytea", "bytea", "\\x00", "\\x0000", "\\x000000"),
        (
            "uuid",
            "uuid",
            "00000000-0000-0000-0000-000000000001",
            "00000000-0000-0000-0000-000000000002",
            "00000000-0000-0000-0000-000000000003",
        ),
        ("numeric", "numeric", "1234567890123456.1", "1234567890123456.2", "1234567890123456.3"),
        ("numeric", "numeric", "-0.12345678901234561", "-0.1234567890123456", "-0.12345678901234559"),
        ("timetz", "timetz", "14:00+02", "13:00+01", "12:00+00"),
        ("inet", "inet", "10.0.0.0/8", "10.0.0.0/9", "10.0.0.1/9"),
        ("interval", "interval", "169000000 years", "170000000 years", "171000000 years"),
    ] {
        session.run(&format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (id int, v {kind});
             INSERT INTO t SELECT i, '{less}' FROM generate_series(1, 500) i;
             CREATE INDEX t_v ON t USING skip (v {class}_minmax_skip_ops) WITH (pages_per_range = 1)"
        ));
        for (value, order) in [(less, 0), (middle, 1), (greater, 2)] {
            session.run(&format!("UPDATE t SET v = '{value}'"));
            session.run("VACUUM FULL t");
            let holds = [
                ("<", order == 0),
                ("<=", order <= 1),
                ("=", order == 1),
                (">=", order >= 1),
                (">", order == 2),
            ];
            for (operator, holds) in holds {
                let predicate = format!("v {operator} '{middle}'");
                Way::skip_scan().set(&mut session);
                let found = session.number(&format!("SELECT count(*) FROM t WHERE {predicate}"));
                session.run("RESET ALL");
                assert_eq!(found > 0.0, holds, "{kind}: {value} {operator} {middle}");
                compare::same(&mut session, "t", &Question::any(&predicate));
            }
        }
    }
}
