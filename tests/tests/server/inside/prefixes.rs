//! Prefixes of text and of bytea: `text_prefix_skip_ops` and `bytea_prefix_skip_ops`.
use super::text_cases::{bytes, search_bytes, search_start, value};
use super::{Inside, Search, live, skips_many};
use crate::encodings::other;
use crate::registry::on_shared;
use crate::shared::{self, Database};
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way, same};
use pg_skip_tests::compare::{self, Question, sound};
use pg_skip_tests::session::Session;

on_shared!(as_is = lives("text", "v text_prefix_skip_ops (length = 3)", value, search_start));
on_shared!(
    folded = lives("varchar", "v text_prefix_skip_ops (length = 4, fold_case = on)", value, search_start)
);
on_shared!(
    turkish = lives(
        "text COLLATE \"tr-x-icu\"",
        "v text_prefix_skip_ops (length = 1, fold_case = on)",
        value,
        search_start
    )
);
on_shared!(long = lives("text COLLATE \"C\"", "v text_prefix_skip_ops (length = 256)", value, search_start));
on_shared!(binary = lives("bytea", "v bytea_prefix_skip_ops (length = 3)", bytes, search_bytes));
fn lives(
    database: &Database,
    kind: &'static str,
    indexed: &'static str,
    value: fn(&mut Rng) -> String,
    search: fn(&mut Rng) -> Search,
) {
    let mut session = database.session();
    live(&mut session, &Inside { name: "inside::prefixes", kind, indexed, value, search }, 0);
}

/// A table of 2,000 rows in which each start of 5 characters has one row.
fn paths(session: &mut Session) {
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text, b bytea,
            filler text DEFAULT repeat('x', 200));
         INSERT INTO t (v, b) SELECT 'P' || 1000 + i || '/and more', decode(lpad(to_hex(i), 6, '0') || '00ff', 'hex')
            FROM generate_series(1, 2000) i;
         INSERT INTO t (v, b) VALUES ('', ''), ('P2', '\\x01'), (NULL, NULL), ('İx_%path', '\\xff5c25')",
    );
    session.run(
        "CREATE INDEX folded ON t USING skip (v text_prefix_skip_ops (length = 5, fold_case = on))
         WITH (pages_per_range = 2);
         CREATE INDEX as_is ON t USING skip
            (v text_prefix_skip_ops (length = 5), b bytea_prefix_skip_ops (length = 3))
         WITH (pages_per_range = 2); ANALYZE t",
    );
}

on_shared!(operators);
/// What each operator must use, and skip, and find.
fn operators(database: &Database) {
    let mut session = database.session();
    paths(&mut session);
    for (predicate, found, serves) in [
        ("v LIKE 'P1701%'", 1, "both"),
        ("v LIKE 'P1701/a%e'", 1, "both"),
        ("v LIKE ANY ('{P1701%,P2701%,NULL}')", 2, "both"),
        ("(v LIKE 'P1701%' OR v LIKE 'P2701%')", 2, "both"),
        ("v LIKE 'P170%'", 10, ""),
        ("v LIKE '%1701%'", 1, ""),
        ("v LIKE 'P_701%'", 2, ""),
        ("v ILIKE 'p1701%'", 1, "folded"),
        ("v ^@ 'P1701/'", 1, "both"),
        ("v ^@ ANY ('{P1701,P2701}')", 2, "both"),
        ("starts_with(v, 'P1701')", 1, "both"),
        ("starts_with(v, 'P1701') IS TRUE", 1, ""),
        ("starts_with(v, 'P17')", 100, ""),
        ("v ~ '^P1701'", 1, "both"),
        ("v ~ '^(P1701|P2701)'", 2, "both"),
        ("v ~* '^p1701/'", 1, "folded"),
        ("v = 'P1701/and more'", 1, "both"),
        ("v = 'P2'", 1, "both"),
        ("v LIKE 'P2'", 1, "both"),
        ("v IN ('', 'P2')", 2, "both"),
        ("v LIKE 'İx\\_\\%p%'", 1, "both"),
        ("v IS NULL", 1, "both"),
        ("b = '\\x0002bd00ff'", 1, "as_is"),
        ("b LIKE '\\x0002bd25'::bytea", 1, "as_is"),
        ("b LIKE '\\xff5c5c5c2525'::bytea", 1, "as_is"),
        ("b = '\\x01'", 1, "as_is"),
        ("b IN ('', '\\x0002bd00ff')", 2, "as_is"),
    ] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        let count = session.number(&format!("SELECT count(*) FROM t WHERE {predicate}"));
        assert_eq!(count, f64::from(found), "{predicate}");
        for (index, not) in [("folded", "as_is"), ("as_is", "folded")] {
            session.run(&format!("SET pg_skip.ignore_indexes = '{not}'"));
            same(&mut session, &Way::skip_scan(), &Case::any(&statement));
            if serves == "both" || serves == index {
                Way::skip_scan().set(&mut session);
                skips_many(&mut session, &statement);
            }
            session.run("RESET ALL");
        }
        compare::same(&mut session, "t", &Question::any(predicate));
    }
    compare::same(&mut session, "t", &Question::using("as_is", "b LIKE '\\x0002bd25'::bytea"));
    for index in ["folded", "as_is"] {
        sound(&mut session, index);
    }
}

on_shared!(parameters);
/// The start comes from another table, or from a parameter.
fn parameters(database: &Database) {
    let mut session = database.session();
    paths(&mut session);
    session.run(
        "CREATE TABLE o (p text); INSERT INTO o SELECT 'P' || 1000 + i * 100 FROM generate_series(1, 9) i;
         INSERT INTO o VALUES (NULL), (''), ('P2'); ANALYZE o",
    );
    for statement in [
        "SELECT t.id, p FROM o JOIN t ON starts_with(v, p)",
        "SELECT t.id, p FROM o JOIN t ON v LIKE p || '%'",
        "SELECT t.id, p FROM o JOIN t ON starts_with(p, v)",
        "SELECT id FROM t WHERE starts_with(v, (SELECT max(p) FROM o))",
        "SELECT id FROM t WHERE NOT starts_with(v, 'P1')",
    ] {
        same(&mut session, &Way::skip_scan().nested_loop(), &Case::any(statement));
        same(&mut session, &Way::skip_scan().parallel(), &Case::any(statement));
    }
    session.run("PREPARE q(text) AS SELECT id FROM t WHERE starts_with(v, $1)");
    for mode in ["force_generic_plan", "force_custom_plan"] {
        Way::skip_scan().set(&mut session);
        session.run(&format!("SET plan_cache_mode = {mode}"));
        assert_eq!(session.column("EXECUTE q('P1701')"), ["701"]);
        assert_eq!(session.column("EXECUTE q('P2701/a')"), ["1701"]);
        assert_eq!(session.column("EXECUTE q(NULL)").len(), 0);
        skips_many(&mut session, "EXECUTE q('P1701')");
    }
}

on_shared!(options);
/// Options out of bounds, columns that cannot be cut, and the functions that look a value up.
fn options(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    paths(&mut session);
    for (indexed, code) in [
        ("v text_prefix_skip_ops (length = 0)", "22023"),
        ("v text_prefix_skip_ops (length = 257)", "22023"),
        ("v text_prefix_skip_ops (n = 3)", "22023"),
        ("b bytea_prefix_skip_ops (fold_case = on)", "22023"),
        ("v COLLATE nocase text_prefix_skip_ops", "0A000"),
        ("b text_prefix_skip_ops", "42804"),
    ] {
        let error = session.error(&format!("CREATE INDEX ON t USING skip ({indexed})"));
        assert_eq!(error.code().code(), code, "{indexed}: {error:?}");
    }
    let found = session.column("SELECT skip_matching_ranges('folded', 'v', 'P1701'::text)");
    assert_eq!(found.len(), 1, "{found:?}");
    let found = session.column("SELECT skip_matching_ranges('as_is', 'b', '\\x0002bd'::bytea)");
    assert_eq!(found.len(), 1, "{found:?}");
    let valid = "SELECT bool_and(amvalidate(oid)) FROM pg_opclass WHERE opcname ~ 'prefix_skip_ops'";
    assert_eq!(session.one(valid), "t");
}

on_shared!(latin1 = encoded("LATIN1", "größe"));
on_shared!(euc_jp = encoded("EUC_JP", "大きさ"));
/// In a database that is not UTF-8, the length is in bytes.
fn encoded(database: &Database, encoding: &str, word: &str) {
    let mut session = other(database, encoding);
    session.run(&format!(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text, filler text DEFAULT repeat('x', 200));
         INSERT INTO t (v) SELECT CASE WHEN i % 500 = 7 THEN '{word}' ELSE 'else' || i END || ' Q' || i || 'z'
            FROM generate_series(1, 2000) i;
         CREATE INDEX t_v ON t USING skip (v text_prefix_skip_ops (length = 4, fold_case = on))
         WITH (pages_per_range = 1)"
    ));
    for (predicate, found) in [
        (format!("v LIKE '{word}%'"), 4),
        (format!("starts_with(v, '{word}')"), 4),
        (format!("v ^@ '{word} Q507'"), 1),
    ] {
        same(&mut session, &Way::skip_scan(), &Case::using(format!("SELECT id FROM t WHERE {predicate}")));
        let count = session.number(&format!("SELECT count(*) FROM t WHERE {predicate}"));
        assert_eq!(count, f64::from(found), "{encoding}: {predicate}");
        Way::skip_scan().set(&mut session);
        skips_many(&mut session, &format!("SELECT id FROM t WHERE {predicate}"));
        session.run("RESET ALL");
    }
    sound(&mut session, "t_v");
}
