//! skip_advise: what it recommends, whether its figures come true, and what it may be asked by whom.
use crate::registry::on_shared;
use crate::shared::Database;
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
    assert!(
        session.one("SELECT reason FROM skip_advise('t', 'words')").contains("has no default operator class")
    );
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
        ("CREATE TABLE p (k int) PARTITION BY HASH (k); SELECT skip_advise('p')", "42809"),
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
    assert_eq!(best(&mut session, "ids"), "skip");
    let statements = session.column("SELECT statement FROM skip_advise('t') WHERE statement IS NOT NULL");
    assert!(statements.len() > 15, "{statements:?}");
    for statement in statements {
        session.run(&format!("BEGIN; {statement}; ROLLBACK"));
    }
}
