//! Rows are compared byte by byte on their page, where that is possible: the answers are those of the operator, for
//! values and rows of every form.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::Way;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::explain::executed;
use pg_skip_tests::session::Session;

/// Checks a list of keys of a column, as constants and as parameters of a type.
fn check(session: &mut Session, table: &str, conditions: &[String]) {
    session.run("SET plan_cache_mode = force_generic_plan");
    for condition in conditions {
        same(session, table, &Question::any(condition.clone()));
    }
}

/// A column with lists of these values, as a constant and as an array that is not one: all values, every other one, all
/// and many that no row has, a few in two dimensions, with NULLs.
fn lists(column: &str, kind: &str, values: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = values.iter().map(|value| format!("'{}'", value.replace('\'', "''"))).collect();
    let every_other: Vec<String> = quoted.iter().step_by(2).cloned().collect();
    let pairs: Vec<String> = quoted.chunks_exact(2).map(|pair| format!("[{}]", pair.join(", "))).collect();
    let mut arrays = vec![
        format!("ARRAY[{}]::{kind}[]", quoted.join(", ")),
        format!("ARRAY[NULL, {}]::{kind}[]", every_other.join(", ")),
        format!("ARRAY[{}]::{kind}[]", pairs.join(", ")),
    ];
    if ["smallint", "int", "bigint", "text"].contains(&kind) {
        let others = format!("ARRAY(SELECT (n * 7)::{kind} FROM generate_series(1, 2000) n)");
        arrays.push(format!("(ARRAY[{}]::{kind}[] || {others})", quoted.join(", ")));
    }
    let constant = arrays.iter().map(|array| format!("{column} = ANY ({array})"));
    let others = arrays.iter().map(|array| format!("{column} = ANY (coalesce((SELECT {array}), NULL))"));
    constant.chain(others).collect()
}

on_shared!(integers_of_all_widths);
fn integers_of_all_widths(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, s smallint, i int, b bigint, o oid, d date, f text);
         INSERT INTO t SELECT n, n % 70 - 35, (n % 90 - 45) * 47721858, (n % 110 - 55) * 167521998867902353::bigint,
             (n % 50 * 85899345::bigint)::oid, '2026-01-01'::date + n % 40, repeat('x', n % 100)
             FROM generate_series(1, 3000) n;
         INSERT INTO t VALUES (0, -32768, -2147483648, -9223372036854775808, 4294967295, 'infinity'),
             (-1, 32767, 2147483647, 9223372036854775807, 0, '-infinity'), (-2, 0, 0, 0, 0, NULL),
             (-3, NULL, NULL, NULL, NULL, NULL);
         CREATE INDEX t_skip ON t USING skip (s, i, b, o, d) WITH (pages_per_range = 2)",
    );
    let numbers = [
        "0",
        "1",
        "-1",
        "-35",
        "34",
        "32767",
        "-32768",
        "32768",
        "65501",
        "-65536",
        "2147483647",
        "-2147483648",
        "2147483648",
        "4294967295",
        "4294967296",
        "-47721858",
        "47721858",
        "-9223372036854775808",
        "9223372036854775807",
        "167521998867902353",
        "-167521998867902353",
    ];
    let mut conditions = Vec::new();
    for column in ["s", "i", "b"] {
        for number in numbers {
            let value: i128 = number.parse().expect("a number");
            for (name, bits) in [("smallint", 15), ("int", 31), ("bigint", 63)] {
                if (-(1i128 << bits)..1 << bits).contains(&value) {
                    conditions.push(format!("{column} = '{number}'::{name}"));
                    conditions.push(format!("'{number}'::{name} = {column}"));
                }
            }
        }
    }
    for column in ["s", "i", "b"] {
        for (name, bits) in [("smallint", 15), ("int", 31), ("bigint", 63)] {
            let fits = |number: &&str| {
                let value: i128 = number.parse().expect("a number");
                (-(1i128 << bits)..1 << bits).contains(&value)
            };
            let numbers: Vec<&str> = numbers.into_iter().filter(fits).collect();
            conditions.extend(lists(column, name, &numbers));
        }
    }
    conditions.extend(lists("o", "oid", &["0", "85899345", "4294967295", "7"]));
    conditions.extend(lists("d", "date", &["2026-01-07", "infinity", "-infinity", "1999-01-01"]));
    conditions.extend(["0", "85899345", "4294967295", "7"].map(|oid| format!("o = '{oid}'::oid")));
    conditions
        .extend(["2026-01-07", "infinity", "-infinity", "1999-01-01"].map(|day| format!("d = '{day}'")));
    check(&mut session, "t", &conditions);
    sound(&mut session, "t_skip");
}

on_shared!(texts_of_all_forms);
/// Short ones and long ones, of which the header's first byte is zero; compressed and out of line; with and without
/// padding before them; under a collation that takes different bytes as equal.
fn texts_of_all_forms(database: &Database) {
    let mut session = database.session();
    session.run("CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)");
    let lengths =
        "(ARRAY[0, 1, 2, 59, 60, 61, 123, 124, 125, 126, 127, 128, 188, 252, 316, 1000, 2100])[1 + n % 17]";
    for (before, kind, storage) in [
        ("id int", "text", "extended"),
        ("id int", "text", "plain"),
        ("id int, c \"char\" DEFAULT 'x'", "varchar(3000)", "extended"),
        ("id int, c smallint DEFAULT 7", "text", "plain"),
        ("id int, c bool DEFAULT true", "bytea", "plain"),
        ("id int, c bigint DEFAULT 7", "bytea", "extended"),
        ("id int", "text", "external"),
        ("id int", "text", "main"),
        ("id int", "text COLLATE loose", "plain"),
    ] {
        session.run(&format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t ({before}, v {kind});
             ALTER TABLE t ALTER v SET STORAGE {storage};
             INSERT INTO t (id, v) SELECT n, repeat(chr(97 + n % 26), {lengths})::{plain}
                 FROM generate_series(1, 442) n;
             INSERT INTO t (id, v) SELECT n, left(repeat(md5(n::text), 70), {lengths})::{plain}
                 FROM generate_series(443, 900) n;
             INSERT INTO t (id, v) VALUES (-1, NULL), (-2, ''), (-3, 'A'), (-4, 'a'), (-5, 'a ');
             ALTER TABLE t ADD added int DEFAULT 5;
             INSERT INTO t (id, v) VALUES (-6, 'late');
             CREATE INDEX t_skip ON t USING skip (v) WITH (pages_per_range = 2)",
            plain = kind.split(' ').next().expect("a type")
        ));
        let is_text = !kind.starts_with("bytea");
        let plain = kind.split([' ', '(']).next().expect("a type");
        let mut conditions: Vec<String> =
            ["", "a", "A", "a ", "late", "absent"].map(|value| format!("v = '{value}'::{plain}")).into();
        conditions.extend(lists("v", plain, &["", "a", "A", "a ", "late", "absent"]));
        for from in [0, 1, 300, 700] {
            let others = "SELECT v FROM t AS other WHERE other.id";
            conditions
                .push(format!("v = ANY (ARRAY({others} BETWEEN {from} AND {} ORDER BY id))", from + 40));
            conditions.push(format!("v = ANY (ARRAY({others} < {from}))"));
        }
        for number in (1..900).step_by(29) {
            conditions.push(format!("v = (SELECT v FROM t AS other WHERE other.id = {number})"));
            let one = session.one(&format!("SELECT v FROM t WHERE id = {number}"));
            conditions.push(format!("'{one}' = v"));
            conditions.push(format!("v = '{one}{}'", if is_text { "x" } else { "00" }));
        }
        check(&mut session, "t", &conditions);
        sound(&mut session, "t_skip");
    }
}

on_shared!(columns_that_came_and_went);
/// A column that was dropped before the one that is compared leaves NULL in new rows; one that was added is not in old
/// rows.
fn columns_that_came_and_went(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, gone int, k int, v text);
         INSERT INTO t SELECT i, i, i % 300, 'v' || i % 300 FROM generate_series(1, 3000) i;
         ALTER TABLE t DROP gone; ALTER TABLE t ADD n int DEFAULT 12, ADD w text DEFAULT 'added';
         INSERT INTO t SELECT i, i % 300, 'v' || i % 300, i % 7, 'w' || i % 7 FROM generate_series(3001, 4000) i;
         CREATE INDEX t_skip ON t USING skip (k, v, n, w) WITH (pages_per_range = 1)",
    );
    let conditions =
        ["k = 7", "k = 299", "k = 300", "v = 'v7'", "v = 'v'", "n = 12", "n = 6", "w = 'added'", "w = 'w3'"];
    check(&mut session, "t", &conditions.map(String::from));
    check(&mut session, "t", &lists("k", "int", &["7", "299", "300", "12"]));
    check(&mut session, "t", &lists("v", "text", &["v7", "v", "v299", "added"]));
    check(&mut session, "t", &lists("n", "bigint", &["12", "6", "0", "7"]));
    check(&mut session, "t", &lists("w", "text", &["added", "w3", "w", "v7"]));
    sound(&mut session, "t_skip");
}

on_shared!(rows_with_nulls);
/// NULLs before a column move it, NULLs behind it make the row's header longer: in each byte of the bitmap.
fn rows_with_nulls(database: &Database) {
    let mut session = database.session();
    // Rows have all of the columns, all but one, the first ones, or some by chance.
    let columns: Vec<String> = (1..=17).map(|number| format!("c{number} int")).collect();
    let value = |number: u32| {
        format!(
            "CASE WHEN n % 40 = {number} OR n % 3 = 0 AND n / 3 % 19 < {number}
                       OR n % 5 = 1 AND hashint4(n * 32 + {number}) % 2 = 0
             THEN NULL ELSE (n * {number}) % 700 END"
        )
    };
    let values: Vec<String> = (1..=17).map(value).collect();
    session.run(&format!(
        "CREATE TABLE t ({}, v text, id int);
         INSERT INTO t SELECT {}, CASE WHEN n % 7 > 0 THEN 'v' || n % 700 END, n FROM generate_series(1, 4000) n;
         CREATE INDEX t_skip ON t USING skip (c1, c2, c8, c9, c10, c16, c17, v)
             WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT {}, 'v' || n, n FROM generate_series(4001, 4300) n",
        columns.join(", "),
        values.join(", "),
        values.join(", "),
    ));
    let mut conditions = Vec::new();
    for column in ["c1", "c2", "c8", "c9", "c10", "c16", "c17"] {
        for number in [0, 1, 7, 350, 693, 699, 700] {
            conditions.push(format!("{column} = {number}"));
        }
        conditions.push(format!("{column} IS NULL"));
        conditions.push(format!("{column} IN (3, 350, 999)"));
    }
    conditions.extend(["v = 'v0'", "v = 'v350'", "v = 'v4100'", "v = 'v'", "v IS NULL"].map(String::from));
    // Pages are known from the third time on.
    for _ in 0..3 {
        check(&mut session, "t", &conditions);
    }
    sound(&mut session, "t_skip");
}

on_shared!(known_rows_with_nulls);
/// Pages become known although the columns behind the one that is looked up are NULL, or the column itself is.
fn known_rows_with_nulls(database: &Database) {
    let mut session = database.session();
    let columns = |from: u32, to: u32| {
        (from..=to).map(|number| format!("c{number} int")).collect::<Vec<_>>().join(", ")
    };
    session.run(&format!(
        "CREATE TABLE t (id int, {}, k int, v text, {});
         CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t (id, {}, k, v, c12)
             SELECT n, {}, CASE WHEN n % 4 > 0 THEN n % 500 END, CASE WHEN n % 3 > 0 THEN 'v' || n % 500 END,
                    CASE WHEN n % 2 = 0 THEN n END
             FROM generate_series(1, 3000) n",
        columns(1, 8),
        columns(9, 18),
        columns(1, 8).replace(" int", ""),
        ["n"; 8].join(", "),
    ));
    let conditions =
        ["k = 7", "k = 8", "k = 499", "k = 500", "v = 'v7'", "v = 'v8'", "v = 'v9'", "v = 'v500'"];
    for _ in 0..4 {
        check(&mut session, "t", &conditions.map(String::from));
    }
    sound(&mut session, "t_skip");
}

on_shared!(pages_that_are_left_early);
/// Neither NULLs nor columns of variable length keep a lookup from leaving a page early: then rows are counted that
/// look live, although their inserter rolled back. A column that rows do not have does.
fn pages_that_are_left_early(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    Way::skip_scan().set(&mut session);
    for (columns, row, condition) in [
        ("k int, after int", "n, n, n", "k = 1000"),
        ("k int, after int", "n, n, NULL", "k = 1000"),
        ("k int, after int", "n, NULL, n", "k = 1000"),
        ("k int, after int", "NULL, n, n", "k = 1000"),
        ("k int, after int", "NULL, n, NULL", "id = 1000"),
        ("t text, k int", "n, n, n", "k = 1000"),
        ("t text, k text", "n, repeat('t', n::int), 'k' || n", "k = 'k'"),
        ("t text, a int[], k int", "n, NULL, ARRAY[n], n", "k = 1000"),
        ("t text, k int DEFAULT 7, l int", "n", "k = 1000"),
        // Where the NULL would be, the next column has the value.
        ("k int, after int", "n, NULL, 1000", "k = 1000"),
        ("t text, k int, after int", "n, 't', NULL, 1000", "k = 1000"),
    ] {
        session.run(&format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (id int, {columns});
             CREATE INDEX t_skip ON t USING skip (k, id) WITH (autosummarize = off)"
        ));
        other.run(&format!("BEGIN; INSERT INTO t SELECT {row} FROM generate_series(1, 50) n; ROLLBACK"));
        let node = executed(&mut session, &format!("SELECT id FROM t WHERE {condition}"));
        assert_eq!(node.number("Rows Removed by Index Recheck"), 50, "({row}): {condition}");
    }
    // Rows that are older than the column have the value that the catalog has.
    other.run("BEGIN; INSERT INTO t SELECT n FROM generate_series(1, 50) n; ROLLBACK");
    session.run("ALTER TABLE t ADD added int DEFAULT 7; CREATE INDEX t_added ON t USING skip (added)");
    let node = executed(&mut session, "SELECT id FROM t WHERE added = 1000");
    assert_eq!(node.number("Rows Removed by Index Recheck"), 0);
}

on_shared!(versions_that_only_some_see);
/// A page whose only tuple with the key is one that is being inserted, was updated, deleted or rolled back, or is old.
fn versions_that_only_some_see(database: &Database) {
    let (mut session, mut writer, mut old) = (database.session(), database.session(), database.session());
    session.run(
        "CREATE TABLE t (id int, k int, v text) WITH (autovacuum_enabled = off);
         INSERT INTO t SELECT i, i, 'v' || i FROM generate_series(1, 3000) i;
         CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 1)",
    );
    let questions = [
        "k = 77",
        "k = -77",
        "v = 'v77'",
        "v = 'new'",
        "k = 78",
        "k = 9000",
        "k IN (77, 9000)",
        "k IN (-77, 78, 1500)",
        "v IN ('new', 'v1500')",
    ];
    let all = |session: &mut Session| {
        for question in questions {
            same(session, "t", &Question::using("t_skip", question));
        }
    };
    old.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t");
    for (change, end) in [
        ("UPDATE t SET k = -77, v = 'new' WHERE k = 77", "ROLLBACK"),
        ("UPDATE t SET k = -77, v = 'new' WHERE k = 77", "COMMIT"),
        ("DELETE FROM t WHERE k = 78", "ROLLBACK"),
        ("DELETE FROM t WHERE k = 78", "COMMIT"),
        ("INSERT INTO t VALUES (9000, 9000, 'new')", "ROLLBACK"),
        ("INSERT INTO t VALUES (9000, 9000, 'new')", "COMMIT"),
        ("UPDATE t SET k = 77, v = 'v77' WHERE k = -77", "COMMIT"),
    ] {
        writer.run(&format!("BEGIN; {change}"));
        all(&mut session);
        all(&mut writer);
        writer.run(end);
        all(&mut session);
        all(&mut old);
    }
    old.run("COMMIT");
    session.run("VACUUM t");
    all(&mut session);
    sound(&mut session, "t_skip");
}

on_shared!(lists_that_change_between_executions);
/// The inner side of a join gets another list, or none, for each outer row, also beside a list that stays the same.
fn lists_that_change_between_executions(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k bigint, v uuid);
         INSERT INTO t SELECT i, i % 700, md5((i % 600)::text)::uuid FROM generate_series(1, 6000) i;
         CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 1);
         CREATE TABLE asked AS
             SELECT n, ARRAY(SELECT (n * 31 + i * 7) % 800 FROM generate_series(1, n % 13) i)::int[] AS ks,
                 CASE WHEN n % 5 > 0 THEN ARRAY(SELECT md5(((n * 17 + i) % 650)::text)::uuid
                     FROM generate_series(1, n % 29) i) END AS vs
             FROM generate_series(1, 200) n;
         ANALYZE t, asked",
    );
    for condition in
        ["t.k = ANY (ks)", "t.v = ANY (vs)", "t.k = ANY (ks || 5) AND t.k IN (1, 2, 5, 31, 62, 69, 100, 693)"]
    {
        let question = |condition: &str| {
            format!(
                "SELECT n, count(t.id), sum(t.id) FROM asked LEFT JOIN t ON {condition} GROUP BY n ORDER BY n"
            )
        };
        Way::skip_scan().set(&mut session);
        session.run("SET enable_material = off");
        let plan = session.plan(&question(condition));
        assert!(plan.contains("Skip Index Scan"), "{plan}");
        let found = session.rows(&question(condition));
        session.run("RESET ALL");
        let expected = session.rows(&question(&format!("({condition}) IS TRUE")));
        assert_eq!(found, expected, "{condition}");
    }
}
