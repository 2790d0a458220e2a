//! skip_advise: what it recommends, whether its figures come true, and what it may be asked by whom.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::explain::executed;
use pg_skip_tests::session::Session;

/// A table of 20,000 rows on some 2,500 pages: id is in the table's order, k unique and scattered, few has five values,
/// group_of_ten stands ten times on one page each, point has no operator class.
fn table(session: &mut Session) {
    session.run(
        "CREATE TABLE t AS SELECT i AS id, md5(i::text)::uuid AS k, i % 5 AS few, i / 10 AS group_of_ten,
             i % 400 AS scattered, point(i, i) AS \"Point\", nullif(i % 9, 0) AS \"a \"\"quoted\"\" name\",
             repeat('x', 900) AS pad FROM generate_series(1, 20000) i;
         ANALYZE t",
    );
}

fn best(session: &mut Session, column: &str) -> String {
    session.one(&format!("SELECT method FROM skip_advise('t', '{column}') WHERE recommended"))
}

on_shared!(by_the_data);
fn by_the_data(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    assert_eq!(best(&mut session, "k"), "skip");
    assert_eq!(best(&mut session, "id"), "brin (minmax)");
    assert_eq!(best(&mut session, "few"), "none");
    assert_eq!(best(&mut session, "Point"), "none");
    // Each column has exactly one recommendation, and it comes first.
    let firsts = session.column(
        "SELECT DISTINCT recommended = (place = min(place) OVER (PARTITION BY column_name))
         FROM skip_advise('t') WITH ORDINALITY a(column_name, method, recommended, b, c, d, e, f, place)",
    );
    assert_eq!(firsts, ["t"]);
    assert_eq!(session.one("SELECT count(DISTINCT column_name) FROM skip_advise('t')"), "8");
    session.run("CREATE TABLE small AS SELECT 1 AS k");
    assert_eq!(session.one("SELECT method FROM skip_advise('small') WHERE recommended"), "none");
    session.run("CREATE TABLE none (k int)");
    assert_eq!(session.one("SELECT method FROM skip_advise('none') WHERE recommended"), "none");
}

on_shared!(the_figures_come_true);
fn the_figures_come_true(database: &Database) {
    let mut session = database.session();
    session.run(
        "SET pg_skip.default_layout = auto;
         CREATE TABLE t AS SELECT md5(i::text)::uuid AS k, i / 20 AS run FROM generate_series(1, 300000) i;
         ANALYZE t",
    );
    for column in ["k", "run"] {
        for method in ["skip", "btree", "brin (bloom)"] {
            let row = format!("FROM skip_advise('t', '{column}') WHERE method = '{method}'");
            let advised = session.number(&format!("SELECT index_bytes {row}"));
            let statement = session.one(&format!("SELECT statement {row}"));
            session.run(&statement.replace("INDEX ON", "INDEX made ON"));
            let real = session.number("SELECT pg_relation_size('made')");
            assert!(
                advised < real * 1.5 + 65536.0 && advised > real / 1.5 - 65536.0,
                "{column}, {method}: {advised} bytes expected, {real} in fact"
            );
            session.run("DROP INDEX made");
        }
    }
    // The ranges that a build chooses are those that the advice counts with.
    session.run("CREATE INDEX made ON t USING skip (k, run)");
    for column in ["k", "run"] {
        let pages = session.number(&format!(
            "SELECT pages_per_range FROM skip_index_info('made') WHERE column_name = '{column}'"
        ));
        let advised = session
            .number(&format!("SELECT table_pages FROM skip_advise('t', '{column}') WHERE method = 'skip'"));
        assert!((pages..=3.0 * pages).contains(&advised), "{column}: {advised} pages, ranges of {pages}");
    }
}

on_shared!(searches_inside_values);
/// The reason names the operator classes that find parts of a column's values, users' own too.
fn searches_inside_values(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE FUNCTION price_keys(price money) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT
             RETURN ARRAY[price::numeric::text];
         CREATE FUNCTION price_keys(price money, strategy int) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT
             RETURN ARRAY[price::numeric::text];
         CREATE OPERATOR CLASS of_users FOR TYPE money USING skip AS OPERATOR 2 = (money, money),
             FUNCTION 4 price_keys(money), FUNCTION 5 (money, money) price_keys(money, int);
         CREATE DOMAIN code AS text;
         CREATE TABLE t (n int, tags text[], doc jsonb, line varchar, code code, bytes bytea, words tsvector,
                         fixed char(4), price money);
         INSERT INTO t SELECT 1, '{a}', '{}', 'a', 'a', 'a', 'a', 'a', '7'",
    );
    let of_text = "text_ngram_skip_ops, text_prefix_skip_ops, text_token_skip_ops";
    for (column, classes) in [
        ("n", ""),
        ("tags", "array_element_skip_ops"),
        ("doc", "jsonb_path_skip_ops"),
        ("line", of_text),
        ("code", of_text),
        ("bytes", "bytea_prefix_skip_ops"),
        ("words", "tsvector_skip_ops"),
        ("fixed", ""),
        ("price", "of_users"),
    ] {
        let reasons = session.column(&format!("SELECT reason FROM skip_advise('t', '{column}')"));
        let found =
            reasons[0].split_once("; parts of the values are found with ").map_or("", |(_, names)| names);
        assert_eq!(found, classes, "{column}: {reasons:?}");
        assert!(!reasons[1..].iter().any(|reason| reason.contains("parts of the values")), "{reasons:?}");
        // CREATE INDEX takes them.
        for class in found.split(", ").filter(|class| !class.is_empty()) {
            session.run(&format!("CREATE INDEX ON t USING skip ({column} {class})"));
        }
    }
    let reasons = session.column("SELECT reason FROM skip_advise('t', 'words')");
    assert!(reasons[0].contains("has no default operator class"), "{reasons:?}");
    // A class of users has no row: its functions do not run.
    let methods = session.column("SELECT method FROM skip_advise('t', 'price') WHERE method LIKE 'skip (%'");
    assert!(methods.is_empty(), "{methods:?}");
}

on_shared!(columns_that_cannot_be_indexed);
/// No statement is given that CREATE INDEX refuses because of the column's type.
fn columns_that_cannot_be_indexed(database: &Database) {
    let mut session = database.session();
    let has_virtual = session.number("SHOW server_version_num") >= 180_000.0;
    session.run(
        "CREATE TYPE pair AS (a int, b int); CREATE TYPE mood AS ENUM ('sad', 'happy');
         CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE t (points point[], pairs pair[], bits bit(3)[], documents json[], moods mood[],
             caseless text COLLATE any_case, filler text DEFAULT repeat('x', 400))",
    );
    if has_virtual {
        session.run("ALTER TABLE t ADD made text[] GENERATED ALWAYS AS (ARRAY[filler]) VIRTUAL");
    }
    session.run(
        "INSERT INTO t SELECT ARRAY[point(i, i)], ARRAY[ROW(i, i)::pair], ARRAY[i::bit(3)], ARRAY[to_json(i)],
             ARRAY['sad'::mood], 'c' || i FROM generate_series(1, 30000) i",
    );
    session.run("ANALYZE t");
    for column in ["points", "pairs", "bits", "documents"] {
        assert_eq!(
            session.one(&format!("SELECT count(*) FROM skip_advise('t', '{column}')")),
            "1",
            "{column}"
        );
        assert_eq!(best(&mut session, column), "none");
    }
    let methods = |session: &mut Session, column: &str| {
        session.column(&format!("SELECT method FROM skip_advise('t', '{column}')"))
    };
    assert!(methods(&mut session, "moods").contains(&"skip (array_element_skip_ops)".to_owned()));
    assert!(!methods(&mut session, "caseless").iter().any(|method| method.starts_with("skip (")));
    let statements = session.column("SELECT statement FROM skip_advise('t') WHERE statement IS NOT NULL");
    for statement in statements {
        session.run(&format!("BEGIN; {statement}; ROLLBACK"));
    }
    if has_virtual {
        let reason = session.one("SELECT reason FROM skip_advise('t', 'made')");
        assert!(reason.contains("virtual generated column"), "{reason}");
    }
}

on_shared!(large_values);
/// Of large values some are read; of values that are much longer than they are stored, few.
fn large_values(database: &Database) {
    let mut session = database.session();
    session.run(
        "SET pg_skip.default_layout = auto;
         CREATE TABLE t (id int, l int[], bomb text); ALTER TABLE t ALTER l SET STORAGE EXTERNAL;
         CREATE TABLE seed AS SELECT repeat('x', 170000) AS bomb;
         INSERT INTO t SELECT i, (SELECT array_agg(i * 500 + n) FROM generate_series(1, 600) n), bomb
             FROM generate_series(1, 8000) i, seed",
    );
    session.run("VACUUM ANALYZE t");
    let row = "FROM skip_advise('t', 'l') WHERE method = 'skip (array_element_skip_ops)'";
    let advised = session.number(&format!("SELECT index_bytes {row}"));
    assert_eq!(session.one(&format!("SELECT recommended {row}")), "t");
    session.run("CREATE INDEX made ON t USING skip (l array_element_skip_ops)");
    let real = session.number("SELECT pg_relation_size('made')");
    assert!(advised > real / 2.0 && advised < real * 2.0, "{advised} bytes expected, {real} in fact");
    // Each of the values takes a millisecond: all of the sample would take many seconds.
    session.run("SET statement_timeout = '20s'");
    assert!(session.rows("SELECT * FROM skip_advise('t', 'bomb')").len() > 5);
}

on_shared!(extension_in_a_schema_of_its_own);
fn extension_in_a_schema_of_its_own(database: &Database) {
    let mut session = database.session();
    session.run(
        "DROP EXTENSION pg_skip CASCADE; CREATE SCHEMA elsewhere; CREATE EXTENSION pg_skip SCHEMA elsewhere;
         CREATE TABLE t AS SELECT ARRAY['t' || i] AS tags FROM generate_series(1, 1000) i",
    );
    let statements = "SELECT statement FROM elsewhere.skip_advise('t') WHERE method LIKE 'skip (%'";
    let statements = session.column(statements);
    assert_eq!(statements, ["CREATE INDEX ON public.t USING skip (tags elsewhere.array_element_skip_ops)"]);
    session.run(&statements[0]);
}

on_shared!(partitions);
/// The largest partition stands for a partitioned table.
fn partitions(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k uuid, tags text[], filler text) PARTITION BY RANGE (id);
         CREATE TABLE t_small PARTITION OF t FOR VALUES FROM (0) TO (100);
         CREATE TABLE t_parts PARTITION OF t FOR VALUES FROM (100) TO (1000000) PARTITION BY RANGE (id);
         CREATE TABLE t_large (tags text[], filler text, dropped int, k uuid, id int);
         ALTER TABLE t_large DROP dropped;
         ALTER TABLE t_parts ATTACH PARTITION t_large FOR VALUES FROM (100) TO (500000);
         INSERT INTO t SELECT i, md5(i::text)::uuid, ARRAY['t' || i], repeat('x', 400) FROM generate_series(1, 40000) i;
         CREATE ROLE advised; GRANT SELECT ON t TO advised",
    );
    session.run("ANALYZE t");
    for (column, method) in
        [("k", "skip"), ("tags", "skip (array_element_skip_ops)"), ("id", "brin (minmax)")]
    {
        let row = format!("FROM skip_advise('t', '{column}') WHERE recommended");
        assert_eq!(session.one(&format!("SELECT method {row}")), method, "{column}");
        let statement = session.one(&format!("SELECT statement {row}"));
        assert!(statement.starts_with("CREATE INDEX ON public.t USING"), "{statement}");
        session.run(&statement);
    }
    let bytes = "SELECT index_bytes FROM skip_advise('t', 'k') WHERE method = 'skip'";
    let of_largest = session.number(&bytes.replace("'t'", "'t_large'"));
    assert_eq!(session.number(bytes), of_largest);
    session.run("SET ROLE advised");
    let error = session.error("SELECT skip_advise('t')");
    assert_eq!((error.code().code(), error.message()), ("42501", "permission denied for table t_large"));
}

on_shared!(parts_of_values);
/// An index that finds parts of values is recommended where that is usual, and its figures come true.
fn parts_of_values(database: &Database) {
    let mut session = database.session();
    session.run(
        "SET pg_skip.default_layout = auto; SET enable_seqscan = off; SET enable_bitmapscan = off;
         CREATE TABLE t AS SELECT i AS id, ARRAY['t' || i % 5000, 'u' || i, 'all'] AS tags,
             jsonb_build_object('session', md5(i::text), 'n', i % 5000, 'all', 1) AS doc,
             to_tsvector('simple', 'all w' || i % 5000 || ' v' || i) AS words,
             'all: ' || md5(i::text) || ' took ' || i % 5000 || ' ms' AS line,
             CASE WHEN i % 10 = 0 THEN ARRAY['all'] ELSE ARRAY['one', 'all'] END AS few, repeat('x', 300) AS filler
         FROM generate_series(1, 60000) i",
    );
    session.run("VACUUM ANALYZE t");
    for (column, recommended) in [
        ("tags", "skip (array_element_skip_ops)"),
        ("doc", "skip (jsonb_path_skip_ops)"),
        ("words", "skip (tsvector_skip_ops)"),
        ("line", "skip"),
        ("few", "none"),
    ] {
        assert_eq!(best(&mut session, column), recommended, "{column}");
        let firsts = "SELECT recommended FROM skip_advise('t', '";
        let rows = session.column(&format!("{firsts}{column}')"));
        assert_eq!(rows[0], "t", "{column}");
        assert!(rows[1..].iter().all(|row| row == "f"), "{column}: {rows:?}");
    }
    for (column, class, search) in [
        ("tags", "array_element_skip_ops", "tags @> '{u777}'"),
        ("doc", "jsonb_path_skip_ops", "doc ->> 'session' = md5('777')"),
        ("words", "tsvector_skip_ops", "words @@ 'v777'"),
        ("line", "text_token_skip_ops", "line @@@ md5('777')"),
        ("line", "text_ngram_skip_ops", "line LIKE '%' || md5('777') || '%'"),
        ("line", "text_prefix_skip_ops", "line ^@ ('all: ' || md5('777'))"),
    ] {
        let row = format!("FROM skip_advise('t', '{column}') WHERE method = 'skip ({class})'");
        let statement = session.one(&format!("SELECT statement {row}"));
        session.run(&statement.replace("INDEX ON", "INDEX made ON"));
        let advised = session.number(&format!("SELECT index_bytes {row}"));
        let real = session.number("SELECT pg_relation_size('made')");
        assert!(
            advised < real * 1.7 + 65536.0 && advised > real / 1.7 - 65536.0,
            "{class}: {advised} bytes expected, {real} in fact"
        );
        let node = executed(&mut session, &format!("SELECT id FROM t WHERE {search}"));
        assert_eq!(node.rows(), 1.0, "{search}: {node:?}");
        let pages = session.rows(&format!("SELECT table_pages {row}"))[0][0].clone();
        let pages = pages.map(|pages| pages.parse::<f64>().expect("a number"));
        assert_eq!(pages.is_none(), class == "text_ngram_skip_ops", "{class}");
        let all = session.number("SELECT relpages FROM pg_class WHERE oid = 't'::regclass");
        assert!(pages.is_none_or(|pages| pages >= 1.0 && pages < all / 10.0), "{class}: {pages:?} of {all}");
        session.run("DROP INDEX made");
    }
}

on_shared!(code_of_others_does_not_run);
fn code_of_others_does_not_run(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TYPE mood AS ENUM ('sad', 'happy');
         CREATE FUNCTION caught(mood) RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE ''caught''; END';
         CREATE CAST (mood AS text) WITH FUNCTION caught(mood);
         CREATE TABLE t (m mood, big text);
         INSERT INTO t SELECT 'sad', repeat(md5(i::text), 200) FROM generate_series(1, 2000) i",
    );
    assert!(session.error("SELECT m::text FROM t").message().contains("caught"));
    session.run(
        "CREATE TYPE pair AS (a mood, b int);
         CREATE FUNCTION hash_caught(pair, bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT AS
             'BEGIN RAISE ''caught''; END';
         CREATE FUNCTION pairs_equal(pair, pair) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN ($1).b = ($2).b;
         CREATE OPERATOR === (LEFTARG = pair, RIGHTARG = pair, FUNCTION = pairs_equal, HASHES);
         CREATE OPERATOR CLASS pairs DEFAULT FOR TYPE pair USING hash AS OPERATOR 1 ===,
             FUNCTION 2 hash_caught(pair, bigint), FUNCTION 1 hash_record(record);
         ALTER TABLE t ADD pairs pair[]; UPDATE t SET pairs = ARRAY[ROW('sad', 1)::pair]",
    );
    assert_ne!(session.one("SELECT count(*) FROM skip_advise('t')"), "0");
}

on_shared!(names_and_rights);
fn names_and_rights(database: &Database) {
    let mut session = database.session();
    table(&mut session);
    let statement =
        session.one("SELECT statement FROM skip_advise('t', 'a \"quoted\" name') WHERE method = 'btree'");
    session.run(&statement);
    assert!(statement.contains(r#"("a ""quoted"" name")"#), "{statement}");
    for (sql, code) in [
        ("SELECT skip_advise('t', 'nothing')", "42703"),
        ("SELECT skip_advise('pg_class_oid_index'::regclass)", "42809"),
        ("CREATE TABLE p (k int) PARTITION BY HASH (k); SELECT skip_advise('p')", "55000"),
    ] {
        assert_eq!(session.error(sql).code().code(), code, "{sql}");
    }
    session.run(
        "CREATE TABLE mine (k int, secret int); INSERT INTO mine SELECT i, i FROM generate_series(1, 100) i",
    );
    session.run("SET ROLE pg_monitor");
    assert_eq!(session.error("SELECT skip_advise('mine')").code().code(), "42501");
    session.run("RESET ROLE; GRANT SELECT ON mine TO pg_monitor; SET ROLE pg_monitor");
    assert_eq!(session.one("SELECT method FROM skip_advise('mine', 'k') WHERE recommended"), "none");
    session.run("RESET ROLE");
    // Strangers' objects in the search path change nothing.
    session.run(
        "CREATE SCHEMA other; CREATE FUNCTION other.hashtextextended(text, bigint) RETURNS bigint
             LANGUAGE sql AS 'SELECT 1 / 0::bigint';
         SET search_path = other, pg_catalog, public",
    );
    assert_eq!(best(&mut session, "k"), "skip");
}

on_shared!(values_next_to_each_other);
/// Rows of a value next to each other are no random sample of the table: the sample has all of them, or none. The table
/// has seven times the pages of the sample.
fn values_next_to_each_other(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS SELECT md5((i / 5)::text)::uuid AS k, repeat('x', 900) AS pad
             FROM generate_series(1, 60000) i; ANALYZE t",
    );
    assert!(session.number("SELECT pg_relation_size('t') / 8192") > 7000.0);
    for method in ["skip", "btree"] {
        let pages = session
            .number(&format!("SELECT table_pages FROM skip_advise('t', 'k') WHERE method = '{method}'"));
        assert!((1.0..=3.0).contains(&pages), "{method}: {pages} pages for five rows");
    }
}

on_shared!(rows_in_the_wrong_place);
/// One row in a hundred has a value from anywhere: ANALYZE still finds a correlation of 0.98, but each range of BRIN
/// has such a row.
fn rows_in_the_wrong_place(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t AS SELECT CASE WHEN i % 100 = 0 THEN i * 7919 % 200000 ELSE i END AS id,
             repeat('x', 60) AS pad FROM generate_series(1, 200000) i; ANALYZE t",
    );
    let correlation =
        session.number("SELECT correlation FROM pg_stats WHERE tablename = 't' AND attname = 'id'");
    assert!((0.97..0.999).contains(&correlation), "{correlation}");
    assert_eq!(best(&mut session, "id"), "skip");
}

on_shared!(statements_can_be_executed);
/// The types have operator classes of skip, but some have none of BRIN.
fn statements_can_be_executed(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TYPE mood AS ENUM ('sad', 'happy');
         CREATE TABLE t AS SELECT ARRAY[i, i + 1] AS ids, i % 2 = 0 AS flag, 'sad'::mood AS mood,
             jsonb_build_object('k', i) AS document, int4multirange(int4range(i, i + 5)) AS ranges,
             i::text::xid8 AS transaction, NULL::int AS nothing, repeat('x', 300) AS pad
             FROM generate_series(1, 60000) i; ANALYZE t",
    );
    assert_eq!(best(&mut session, "nothing"), "none");
    assert_eq!(best(&mut session, "ids"), "skip (array_element_skip_ops)");
    let statements = session.column("SELECT statement FROM skip_advise('t') WHERE statement IS NOT NULL");
    assert!(statements.len() > 15, "{statements:?}");
    for statement in statements {
        session.run(&format!("BEGIN; {statement}; ROLLBACK"));
    }
}
