//! skip_explain: which conditions of a query are looked up in skip indexes, and why others are not.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::server;
use pg_skip_tests::session::Session;

/// Column, condition, whether it is used, reason and hint, of all rows.
fn explained(session: &mut Session, query: &str) -> Vec<[String; 5]> {
    let call = format!("SELECT column_name, condition, used, reason, hint FROM skip_explain($q${query}$q$)");
    let rows = session.rows(&call);
    rows.into_iter().map(|row| std::array::from_fn(|i| row[i].clone().unwrap_or_default())).collect()
}

fn table(session: &mut Session) {
    session.run(
        "CREATE TABLE t (k bigint, name text COLLATE \"C\", tags text[], doc jsonb,
             filler text DEFAULT repeat('x', 300));
         INSERT INTO t SELECT i, 'name ' || i, ARRAY['t' || i], jsonb_build_object('a', i)
             FROM generate_series(1, 5000) i;
         CREATE INDEX t_skip ON t USING skip (k, name, tags, doc) WITH (pages_per_range = 1);
         CREATE INDEX t_parts ON t USING skip (name text_ngram_skip_ops, tags array_element_skip_ops)
             WITH (pages_per_range = 1);
         ANALYZE t; SET enable_bitmapscan = off",
    );
}

on_shared!(unsummarized_ranges);
/// What a plan reads because no range is summarized, by a Skip Index Scan and by a bitmap scan.
fn unsummarized_ranges(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, filler text DEFAULT repeat('x', 300));
         CREATE INDEX t_skip ON t USING skip (k) WITH (pages_per_range = 2, autosummarize = off);
         INSERT INTO t SELECT generate_series(1, 20000); ANALYZE t; SET enable_seqscan = off",
    );
    let ranges = session.one("SELECT ranges FROM skip_index_info('t_skip')");
    let query = "SELECT * FROM t WHERE k = 7";
    let of_bitmap = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT * FROM t WHERE k = 7";
    let has_hook = session.number("SHOW server_version_num") >= 180_000.0;
    for (scan, bitmap) in [("on", "off"), ("off", "on")] {
        session.run(&format!("SET pg_skip.enable_scan = {scan}; SET enable_bitmapscan = {bitmap}"));
        let told = explained(&mut session, query);
        let all = format!(
            "The query also reads all of the {ranges} of {ranges} block ranges that are not summarized."
        );
        assert_eq!((told[0][2].as_str(), told[0][3].as_str()), ("t", all.as_str()), "{told:?}");
        assert_eq!(told[0][4], "VACUUM the table, or SELECT skip_summarize('t_skip').");
    }
    let plan = session.column(of_bitmap).join("\n");
    assert_eq!(plan.contains(&format!("Unsummarized Ranges: {ranges}")), has_hook, "{plan}");
    session.run("SELECT skip_summarize('t_skip')");
    assert_eq!(explained(&mut session, query)[0][3], "");
    let plan = session.column(of_bitmap).join("\n");
    assert_eq!(plan.contains("Unsummarized Ranges: 0"), has_hook, "{plan}");
}

on_shared!(conditions);
/// For each condition what the rows of one index say.
fn conditions(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    // Indexes have random seeds: with one in some thousand, a fragment shares its hash with one of every name.
    session.run("SET enable_seqscan = off");
    // The index, the condition; the column; whether it is used; what the reason and the hint say.
    for (index, condition, column, is_used, why, hint) in [
        ("t_skip", "k = 7", "k", true, "", ""),
        ("t_skip", "k IN (7, 8)", "k", true, "", ""),
        ("t_skip", "k = 7.0", "k", false, "casts \"k\" to numeric", "its type, bigint"),
        ("t_skip", "k < 7", "k", false, "not in the operator class", "int8_minmax_skip_ops"),
        ("t_skip", "name LIKE '%e 77%'", "name", false, "not in the operator class", "text_ngram_skip_ops"),
        ("t_parts", "name LIKE '%e 77%'", "name", true, "", ""),
        ("t_parts", "name LIKE '%77%'", "name", false, "No 4 characters in a row", "at least 4 characters"),
        ("t_parts", "name ILIKE '%name%'", "name", false, "No 4 characters in a row", "fold_case = on"),
        ("t_skip", "name = 'name 7' COLLATE \"POSIX\"", "name", true, "", ""),
        (
            "t_parts",
            "name LIKE '%e 77%' COLLATE \"POSIX\"",
            "name",
            false,
            "collation \"POSIX\"",
            "COLLATE \"C\"",
        ),
        ("t_skip", "lower(name) = 'name 7'", "name", false, "an expression or a cast", "on the expression"),
        ("t_skip", "'t7' = ANY (tags)", "tags", false, "an element of \"tags\"", "array_element_skip_ops"),
        ("t_parts", "'t7' = ANY (tags)", "tags", true, "", ""),
        ("t_skip", "tags @> '{t7}'", "tags", false, "not in the operator class", "array_element_skip_ops"),
        ("t_parts", "tags @> '{}'", "tags", false, "has no element", "Ask for an element"),
        ("t_skip", "doc ->> 'a' = '7'", "doc", false, "a part of \"doc\"", "jsonb_path_skip_ops"),
        ("t_skip", "doc @> '{\"a\": 7}'", "doc", false, "not in the operator class", "jsonb_path_skip_ops"),
        ("t_skip", "doc ? 'a'", "doc", false, "not in the operator class", "jsonb_path_skip_ops"),
        ("t_skip", "k <> 7", "k", false, "not an equality operator", ""),
        ("t_skip", "k IS DISTINCT FROM 7", "k", false, "excludes a value", ""),
        ("t_parts", "tags && '{t7}' OR k = 7", "tags", true, "", ""),
        ("t_skip", "tags && '{t7}' OR k = 7", "k", true, "", ""),
        ("t_skip", "k = 7 OR filler = 'x'", "k", false, "no skip index has the column", "Add the column"),
        ("t_skip", "k = 7 OR name LIKE '%77%' COLLATE \"POSIX\"", "name", false, "In the OR branch on", ""),
        ("t_skip", "(k, name) > (7, 'x')", "k", false, "not in the operator class", "int8_minmax_skip_ops"),
        ("t_skip", "filler = 'x'", "", false, "No condition is on a column", ""),
    ] {
        let rows = session.rows(&format!(
            "SELECT column_name, condition, used, reason, hint
             FROM skip_explain($q$SELECT * FROM t WHERE {condition}$q$)
             WHERE index = '{index}'::regclass AND \"table\" = 't'::regclass"
        ));
        assert_eq!(rows.len(), 1, "{condition}: {rows:?}");
        let [on, text, used, reason, given]: [String; 5] =
            std::array::from_fn(|i| rows[0][i].clone().unwrap_or_default());
        assert_eq!((on.as_str(), used == "t"), (column, is_used), "{condition}: {rows:?}");
        assert!(reason.contains(why) && reason.is_empty() == is_used, "{condition}: {rows:?}");
        assert!(given.contains(hint), "{condition}: {rows:?}");
        assert_eq!(text.contains(column) && !text.is_empty(), !column.is_empty(), "{condition}: {rows:?}");
        // What is said to be used stands in the plan.
        let plan = session.plan(&format!("SELECT * FROM t WHERE {condition}"));
        assert!(!is_used || plan.contains(index), "{condition}: {plan}");
    }
}

on_shared!(joins);
/// Conditions that join a table to others: whether the chosen plan looks them up, and why not.
fn joins(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run(
        "CREATE TABLE u (id bigint, tag text, n numeric);
         INSERT INTO u SELECT i, 't' || i, i FROM generate_series(1, 9) i; ANALYZE u",
    );
    // The query's join; the index, the condition of its row; whether it is used; what the reason and the hint say.
    for (query, index, condition, is_used, why, hint) in [
        ("u JOIN t ON t.k = u.id", "t_skip", "(t.k = u.id)", true, "", ""),
        ("u AS a JOIN t AS b ON b.k = a.id + 1", "t_skip", "(b.k = (a.id + 1))", true, "", ""),
        ("u JOIN t ON t.tags @> ARRAY[u.tag]", "t_parts", "(t.tags @> ARRAY[u.tag])", true, "", ""),
        (
            "u JOIN t ON t.k = u.n",
            "t_skip",
            "((t.k)::numeric = u.n)",
            false,
            "casts \"k\" to numeric",
            "bigint",
        ),
        (
            "u JOIN t ON t.k + 1 = u.id",
            "t_skip",
            "((t.k + 1) = u.id)",
            false,
            "an expression",
            "on the expression",
        ),
        ("u, LATERAL (SELECT * FROM t WHERE t.k = u.id) s", "t_skip", "(t.k = u.id)", true, "", ""),
        ("u WHERE EXISTS (SELECT FROM t WHERE t.k = u.id)", "t_skip", "(t.k = u.id)", true, "", ""),
        (
            "t AS a JOIN t AS b ON a.k = b.k",
            "t_skip",
            "(a.k = b.k)",
            false,
            "another plan",
            "enable_hashjoin",
        ),
    ] {
        let text = format!("SELECT count(*) FROM {query}");
        let told = format!(
            "SELECT condition, used, coalesce(reason, ''), coalesce(hint, '') FROM skip_explain($q${text}$q$)
             WHERE index = '{index}'::regclass AND condition IS NOT NULL"
        );
        let rows = session.rows(&told);
        // Of a table that is joined to itself there are two rows, if the server makes two conditions.
        let found = rows.iter().find(|row| row[0].as_deref() == Some(condition));
        let Some(found) = found.filter(|_| rows.len() == 1 || query.contains("t AS b ON a.k")) else {
            panic!("{query}: {rows:?}")
        };
        let [is, used, reason, given]: [String; 4] =
            std::array::from_fn(|i| found[i].clone().unwrap_or_default());
        assert_eq!((is.as_str(), used == "t"), (condition, is_used), "{query}: {rows:?}");
        assert!(reason.contains(why) && reason.is_empty() == is_used, "{query}: {rows:?}");
        assert!(given.contains(hint), "{query}: {rows:?}");
        let plan = session.plan(&text);
        assert_eq!(plan.contains(index), is_used, "{query}: {plan}");
    }
}

on_shared!(values_that_the_query_computes);
/// Conditions with values of subqueries and of other tables are written without the plan that computes the values.
fn values_that_the_query_computes(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session
        .run("CREATE TABLE n (a bigint, c text); INSERT INTO n SELECT i, 'n' FROM generate_series(1, 9) i");
    session.run("ANALYZE n");
    for (query, condition, is_used) in [
        ("SELECT * FROM t WHERE k = (SELECT 1)", "(k = $", true),
        ("SELECT * FROM t WHERE k = (SELECT max(a) FROM n)", "(k = $", true),
        ("SELECT * FROM t WHERE k = ANY (ARRAY(SELECT a FROM n))", "(k = ANY ($", true),
        ("SELECT (SELECT name FROM t WHERE t.k = n.a) FROM n", "(k = $", true),
        ("SELECT * FROM n, t WHERE t.k = n.a + (SELECT max(a) FROM n)", "(t.k = (n.a + $", true),
        ("SELECT * FROM n CROSS JOIN LATERAL (SELECT * FROM t WHERE t.k = n.a LIMIT 1) s", "(k = $", true),
        ("SELECT * FROM t WHERE k IN (SELECT a FROM n) OR k = 5", "k", false),
        ("SELECT * FROM t WHERE k NOT IN (SELECT a FROM n) AND k = 5", "(k = 5)", true),
        (
            "SELECT * FROM n JOIN LATERAL (SELECT k FROM t WHERE k = n.a UNION ALL SELECT k FROM t WHERE k = -n.a) u
                 ON true",
            "(k = $",
            true,
        ),
    ] {
        let rows = explained(&mut session, query);
        let found = rows.iter().find(|row| row[1].contains(condition) && (row[2] == "t") == is_used);
        assert!(found.is_some(), "{query}: {rows:?}");
    }
    // A field of a record whose type only the plan tells has no name yet.
    for query in [
        "WITH c AS MATERIALIZED (SELECT row(a, a) r FROM n) SELECT (c.r).f1 FROM c, t WHERE t.k = (c.r).f1",
        "SELECT * FROM (SELECT row(a, a) AS r FROM n OFFSET 0) s,
             LATERAL (SELECT * FROM t WHERE t.k = (s.r).f1 OFFSET 0) x",
    ] {
        let rows = explained(&mut session, query);
        assert!(rows.iter().any(|row| row[0] == "k" && row[1] == "k"), "{query}: {rows:?}");
    }
    // What an outer join may replace by NULL is written as it is.
    let rows = explained(
        &mut session,
        "SELECT * FROM n LEFT JOIN (SELECT 42 AS c, 43 AS d, a FROM n) x ON x.a = n.a
             LEFT JOIN t ON t.k = x.c AND t.k > x.d",
    );
    assert!(rows.iter().any(|row| row[1].contains("t.k > ") || row[1].contains("(k > ")), "{rows:?}");
    let rows =
        explained(&mut session, "SELECT * FROM n LEFT JOIN t ON t.k = n.a AND (n.c IS NULL OR t.name = n.c)");
    assert!(rows.iter().all(|row| !row[3].contains("\"\"")), "{rows:?}");
}

on_shared!(bitmap_scans);
/// What a bitmap scan looks up, and what it does not, although it is on the same column.
fn bitmap_scans(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (k int, j int, doc jsonb);
         INSERT INTO t SELECT i, i % 100, jsonb_build_object('a', i) FROM generate_series(1, 5000) i;
         CREATE INDEX t_skip ON t USING skip (k int4_minmax_skip_ops, j, doc jsonb_path_skip_ops)
             WITH (pages_per_range = 1);
         CREATE TABLE n AS SELECT i AS a, i % 7 AS b FROM generate_series(1, 30) i; ANALYZE t; ANALYZE n;
         SET pg_skip.enable_scan = off; SET enable_seqscan = off",
    );
    let used = |session: &mut Session, query: &str| {
        let rows = explained(session, query);
        let mut told: Vec<_> = rows.into_iter().map(|row| format!("{} {}", row[1], row[2])).collect();
        told.sort();
        told.dedup();
        told.join("; ")
    };
    for (query, expected) in [
        ("SELECT * FROM t WHERE k > 4990 AND (k, j) > (3, 100)", "(ROW(k, j) > ROW(3, 100)) f; (k > 4990) t"),
        (
            "SELECT * FROM t WHERE doc ? 'a' AND doc ->> 'b' IS NOT NULL",
            "((doc ->> 'b'::text) IS NOT NULL) f; (doc ? 'a'::text) t",
        ),
        (
            "SELECT * FROM t WHERE k = 7 AND (k = ANY (ARRAY[7, 8]) OR j = 3)",
            "((k = ANY ('{7,8}'::integer[])) OR (j = 3)) f; (k = 7) t",
        ),
        ("SELECT * FROM t WHERE k = 7 OR j = 3", "((k = 7) OR (j = 3)) t"),
    ] {
        assert_eq!(used(&mut session, query), expected, "{query}\n{}", session.plan(query));
    }
    session.run("SET enable_seqscan = on; SET enable_nestloop = off");
    let found =
        used(&mut session, "SELECT * FROM t t1, n, t t2 WHERE t1.k > 4990 AND n.b > 3 AND t2.k = n.b");
    assert!(found.contains("(k > 4990) t") && found.contains("(t2.k = n.b) f"), "{found}");
}

on_shared!(branches_of_an_or);
/// An OR that a bitmap scan looks up with an index of another kind for one branch.
fn branches_of_an_or(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run("CREATE INDEX t_filler ON t (filler); SET enable_bitmapscan = on");
    let rows = explained(&mut session, "SELECT * FROM t WHERE k = 7 OR filler = 'y'");
    let of_k = rows.iter().find(|row| row[0] == "k").unwrap_or_else(|| panic!("{rows:?}"));
    assert!(of_k[2] == "t" && of_k[3].is_empty(), "{rows:?}");
    let rows = explained(
        &mut session,
        "SELECT * FROM t WHERE k = 8 AND (k = 7 OR tags = '{y}' OR filler LIKE '%y')",
    );
    let of_or = rows.iter().find(|row| row[1].contains("OR")).unwrap_or_else(|| panic!("{rows:?}"));
    assert!(of_or[2] == "f" && of_or[3].contains("\"filler\""), "{rows:?}");
}

on_shared!(prepared);
/// EXECUTE is planned anew each time, for values or for any.
fn prepared(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run(
        "PREPARE q(bigint) AS SELECT * FROM t WHERE k = $1; PREPARE one AS SELECT * FROM t WHERE k = 77",
    );
    let told = |session: &mut Session, text: &str| {
        let rows = explained(session, text);
        let of_k: Vec<_> = rows.into_iter().filter(|row| row[0] == "k").collect();
        let [row] = &of_k[..] else { panic!("{text}: {of_k:?}") };
        assert_eq!(row[2], "t", "{text}: {row:?}");
        row[1].clone()
    };
    for round in 0..3 {
        session.run("SET plan_cache_mode = force_custom_plan");
        assert_eq!(told(&mut session, &format!(" execute q({round})")), format!("(k = '{round}'::bigint)"));
        session.run("SET plan_cache_mode = force_generic_plan");
        assert_eq!(told(&mut session, "EXECUTE q(5);"), "(k = $1)");
        assert_eq!(told(&mut session, "/* again */ EXECUTE one"), "(k = 77)");
        assert_eq!(session.column("EXECUTE one"), ["77"]);
    }
    told(&mut session, "CREATE TABLE made AS EXECUTE one");
    let error = session.error("SELECT 'a text', skip_explain('EXECUTE q(5')");
    assert!(format!("{error:?}").contains("EXPLAIN"), "the position is one in the query: {error:?}");
    assert_eq!(session.error("SELECT skip_explain('EXECUTE absent')").code().code(), "26000");
    assert_eq!(session.error("SELECT skip_explain('EXECUTE q(')").code().code(), "42601");
    session.run("DEALLOCATE q; PREPARE q AS DELETE FROM t WHERE k = 5 RETURNING 'execute'");
    told(&mut session, "EXECUTE q");
    assert_eq!(session.one("SELECT count(*) FROM t"), "5000");
}

on_shared!(plans);
/// Other plans, and several tables and conditions at once.
fn plans(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    let query = "SELECT * FROM t JOIN LATERAL (SELECT * FROM t u WHERE u.name = 'name 3') s ON true
                 WHERE t.k = 7 AND t.k < 9 AND t.doc IS NOT NULL";
    let rows = explained(&mut session, query);
    let of = |text: &str| rows.iter().find(|row| row[1].contains(text)).unwrap_or_else(|| panic!("{rows:?}"));
    assert_eq!(of("(k = 7)")[2], "t", "{rows:?}");
    assert_eq!(of("(k < 9)")[2], "f", "{rows:?}");
    assert_eq!(of("'name 3'")[2], "t", "{rows:?}");
    // The planner plans the table twice for max(): each condition is told of once.
    let rows = explained(&mut session, "SELECT max(k) FROM t WHERE name = 'name 3' AND k IS NOT NULL");
    let of_name = rows.iter().filter(|row| row[1].contains("'name 3'"));
    assert_eq!(of_name.count(), 2, "of two indexes: {rows:?}");
    // A bitmap scan uses it, too; a sequential scan does not.
    session.run("SET enable_bitmapscan = on; SET pg_skip.enable_scan = off; SET enable_seqscan = off");
    let plan = session.plan("SELECT * FROM t WHERE k = 7");
    assert!(plan.contains("Bitmap Index Scan"), "{plan}");
    assert_eq!(explained(&mut session, "SELECT * FROM t WHERE k = 7")[0][2], "t");
    session.run("RESET enable_seqscan; SET enable_bitmapscan = off");
    let rows = explained(&mut session, "SELECT * FROM t WHERE k = 7");
    assert!(rows[0][2] == "f" && rows[0][3].contains("pg_skip.enable_scan is off"), "{rows:?}");
    session.run("SET pg_skip.enable_scan = on; SET pg_skip.ignore_indexes = 't_skip'");
    let rows = explained(&mut session, "SELECT * FROM t WHERE k = 7");
    assert!(rows.iter().any(|row| row[3].contains("pg_skip.ignore_indexes")), "{rows:?}");
    session.run("RESET pg_skip.ignore_indexes");
    // Views, parameters, other commands.
    session.run("CREATE VIEW v AS SELECT k + 0 AS sum, k FROM t; CREATE TABLE other (k int)");
    assert_eq!(explained(&mut session, "SELECT sum FROM v WHERE k = 7;")[0][2], "t");
    assert_eq!(explained(&mut session, "DELETE FROM t WHERE k = 7 RETURNING *")[0][2], "t");
    assert_eq!(explained(&mut session, "SELECT * FROM other WHERE k = 7").len(), 0);
    if server::install().version >= 16 {
        assert_eq!(explained(&mut session, "SELECT * FROM t WHERE k = $1")[0][2], "t");
    } else {
        let error = session.error("SELECT skip_explain('SELECT * FROM t WHERE k = $1')");
        assert_eq!(error.code().code(), "42P02");
    }
}

on_shared!(nothing_runs);
/// The query is planned with the caller's rights, and not run; no text makes it run.
fn nothing_runs(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run("CREATE TABLE log (n int); CREATE SEQUENCE s");
    for query in [
        "DELETE FROM t WHERE k = 7",
        "INSERT INTO log SELECT k FROM t WHERE k = 7",
        "SELECT nextval(''s'') FROM t WHERE k = 7",
        "WITH gone AS (DELETE FROM t WHERE k = 7 RETURNING *) SELECT * FROM gone",
        "CREATE TABLE made AS SELECT * FROM t WHERE k = 7",
    ] {
        session.run(&format!("SELECT skip_explain('{query}')"));
    }
    for query in [
        "ANALYZE DELETE FROM t",
        "(ANALYZE) DELETE FROM t",
        "SELECT 1; DELETE FROM t",
        "; DELETE FROM t",
        "DROP TABLE t",
        "EXPLAIN ANALYZE DELETE FROM t",
        "COMMIT",
        "",
        "SELECT FROM absent",
    ] {
        let error = session.error(&format!("SELECT skip_explain('{query}')"));
        let code = error.code().code();
        assert!(["42601", "42P11", "42P01"].contains(&code), "{query}: {error:?}");
    }
    assert_eq!(session.one("SELECT count(*) FROM t"), "5000");
    assert_eq!(session.one("SELECT count(*) FROM log"), "0");
    assert_eq!(session.one("SELECT is_called FROM s"), "f");
    assert_eq!(session.one("SELECT to_regclass('made') IS NULL"), "t");
    // A query that is planned and run meanwhile, for an estimate, is not told of.
    session.run(
        "CREATE FUNCTION f() RETURNS bigint LANGUAGE plpgsql STABLE AS
            'BEGIN RETURN (SELECT k FROM t WHERE name = ''name 9'' AND k = 9); END'",
    );
    let rows = explained(&mut session, "SELECT * FROM t WHERE k = f()");
    assert!(rows.iter().all(|row| !row[1].contains("name 9")), "{rows:?}");
    assert_eq!(rows[0][2], "t", "{rows:?}");
}

on_shared!(queries_of_functions);
/// A function that is evaluated before the query is planned may plan queries of its own, with the rights of its owner.
fn queries_of_functions(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    session.run(
        "CREATE FUNCTION secret() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS
         $$BEGIN PERFORM count(*) FROM t WHERE k = 77; RETURN 1; END$$;
         PREPARE p(int) AS SELECT $1",
    );
    let rows = session.rows("SELECT condition FROM skip_explain('EXECUTE p(secret())')");
    assert!(rows.is_empty(), "{rows:?}");
    let rows = session.rows("SELECT condition FROM skip_explain('SELECT secret() FROM t WHERE k = 5')");
    assert!(!rows.is_empty() && rows.iter().all(|row| row[0].as_deref() != Some("(k = 77)")), "{rows:?}");
}

on_shared!(orders);
/// ORDER BY by a column of an index has a row, as a condition has.
fn orders(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (at timestamptz, n int, v text COLLATE \"C\", p point, filler text DEFAULT repeat('x', 300));
         INSERT INTO t SELECT timestamptz '2024-01-01 00:00+00' + i * interval '1 min', i, 'v' || i, point(i, i)
             FROM generate_series(1, 5000) i;
         CREATE INDEX t_skip ON t USING skip (at timestamptz_minmax_skip_ops, n, v text_minmax_skip_ops)
             WITH (pages_per_range = 1);
         CREATE INDEX t_part ON t USING skip (n int4_minmax_skip_ops) WHERE v <> ''; ANALYZE t",
    );
    // The end of the query; the index of the row, its text; whether it is used; what reason and hint say.
    for (end, index, text, is_used, why, hint) in [
        ("ORDER BY at LIMIT 5", "t_skip", "ORDER BY at", true, "", ""),
        ("ORDER BY at DESC, n LIMIT 5", "t_skip", "ORDER BY at DESC", true, "", ""),
        ("ORDER BY at NULLS FIRST LIMIT 5", "t_skip", "ORDER BY at NULLS FIRST", true, "", ""),
        ("ORDER BY at DESC NULLS LAST LIMIT 5", "t_skip", "ORDER BY at DESC NULLS LAST", true, "", ""),
        ("ORDER BY v LIMIT 5", "t_skip", "ORDER BY v", true, "", ""),
        ("ORDER BY at", "t_skip", "ORDER BY at", false, "another plan costs less", "force_indexes"),
        ("ORDER BY n LIMIT 5", "t_skip", "ORDER BY n", false, "no bounds", "int4_minmax_skip_ops"),
        ("ORDER BY n LIMIT 5", "t_part", "", false, "do not imply", ""),
        ("WHERE v <> '' ORDER BY n LIMIT 5", "t_part", "ORDER BY n", true, "", ""),
        ("ORDER BY v USING ~<~ LIMIT 5", "t_skip", "ORDER BY v", false, "another operator", "default btree"),
        ("ORDER BY n + 1 LIMIT 5", "t_skip", "", false, "No condition is on a column", ""),
        ("GROUP BY at", "t_skip", "", false, "No condition is on a column", ""),
    ] {
        let group = end.starts_with("GROUP");
        let query = format!("SELECT {} FROM t {end}", if group { "at" } else { "*" });
        let rows = session.rows(&format!(
            "SELECT coalesce(condition, ''), used, coalesce(reason, ''), coalesce(hint, '')
             FROM skip_explain($q${query}$q$) WHERE index = '{index}'::regclass
                 AND (condition IS NULL OR condition LIKE 'ORDER BY %')"
        ));
        assert_eq!(rows.len(), 1, "{query}: {rows:?}");
        let [condition, used, reason, given]: [String; 4] =
            std::array::from_fn(|i| rows[0][i].clone().unwrap_or_default());
        assert_eq!((condition.as_str(), used == "t"), (text, is_used), "{query}: {rows:?}");
        assert!(reason.contains(why) && reason.is_empty() == is_used, "{query}: {rows:?}");
        assert!(given.contains(hint), "{query}: {rows:?}");
        let plan = session.plan(&query);
        assert!(!is_used || plan.contains("Order By:") && plan.contains(index), "{query}: {plan}");
    }
}
