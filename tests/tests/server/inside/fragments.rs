//! Fragments of text: `text_ngram_skip_ops`.
use super::text_cases::{quoted, search_parts, value};
use super::{Inside, gives_ranges, live, skips_many};
use crate::encodings::other;
use crate::registry::on_shared;
use crate::shared::{self, Database};
use pg_skip_tests::both_ways::{Case, Way, same};
use pg_skip_tests::compare::{self, Question, sound};
use pg_skip_tests::likely::likely;
use pg_skip_tests::session::Session;

on_shared!(as_is = lives("text", "v text_ngram_skip_ops (n = 3)"));
on_shared!(folded = lives("varchar", "v text_ngram_skip_ops (n = 3, fold_case = on)"));
on_shared!(pairs = lives("text COLLATE \"C\"", "v text_ngram_skip_ops (n = 2, fold_case = on)"));
on_shared!(
    turkish =
        lives("text COLLATE \"tr-x-icu\"", "v text_ngram_skip_ops (fold_case = on, pages_per_range = 1)")
);
on_shared!(lithuanian = lives("text COLLATE \"lt-x-icu\"", "v text_ngram_skip_ops (n = 3, fold_case = on)"));
fn lives(database: &Database, kind: &'static str, indexed: &'static str) {
    let mut session = database.session();
    let name = "inside::fragments";
    live(&mut session, &Inside { name, kind, indexed, value, search: search_parts }, 0);
}

/// A table of 2,000 rows in which each number has one row, indexed with folded fragments of 3 characters, and as they
/// are. At the default rate, about one seed in a hundred gives NULL, or a short value like 'zz', the fingerprint of a
/// fragment that all lines have, and all ranges match.
fn lines(session: &mut Session) {
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text, filler text DEFAULT repeat('x', 200));
         INSERT INTO t (v) SELECT 'Error: number q' || i || 'z of ' || md5(i::text) FROM generate_series(1, 2000) i;
         INSERT INTO t (v) VALUES (''), ('zz'), (NULL), ('100%_\\x'), ('İSTANBUL ſ');
         CREATE INDEX folded ON t USING skip (v text_ngram_skip_ops (n = 3, fold_case = on))
         WITH (pages_per_range = 2, false_positive_rate = 0.0001);
         CREATE INDEX as_is ON t USING skip (v text_ngram_skip_ops)
         WITH (pages_per_range = 2, false_positive_rate = 0.0001); ANALYZE t",
    );
}

on_shared!(operators);
/// What each operator must use, and skip, and find.
fn operators(database: &Database) {
    let mut session = database.session();
    lines(&mut session);
    let hash = session.one("SELECT md5('665')");
    for (predicate, found, serves) in [
        ("v LIKE '%q701z%'", 1, "both"),
        ("v LIKE '%q701z%' AND v LIKE '%number%'", 1, "both"),
        ("v LIKE '%q701z%28c8edde%'", 0, "both"),
        ("v LIKE ANY ('{%q701z%,%q1801z%,NULL}')", 2, "both"),
        ("v LIKE '%q701z%' OR v LIKE '%q1801z%'", 2, "both"),
        ("v ILIKE '%Q701Z%'", 1, "folded"),
        ("v ILIKE ANY ('{%Q701Z%,%Q1801Z%}')", 2, "folded"),
        ("v ILIKE '%istanbul%'", -1, "folded"),
        ("v ~ 'q701z'", 1, "both"),
        ("v ~ 'q(701|1801)z'", 2, "both"),
        ("v ~* 'Q(701|1801)Z'", 2, "folded"),
        ("v ~ '^Error.*q701z.*[0-9a-f]{4}$'", 1, "both"),
        ("v ^@ 'Error: number q701z'", 1, "both"),
        ("v = ''", 1, "both"),
        ("v = 'zz'", 1, "both"),
        ("v LIKE 'zz'", 1, "both"),
        ("v IN ('zz', '', 'Error: number q5z of e4da3b7fbbce2345d7772b0674a318d5')", 3, "both"),
        ("v IS NOT DISTINCT FROM 'zz'", 1, "both"),
        ("v LIKE '%100\\%\\_\\\\x%'", 1, "both"),
        ("v IS NULL", 1, "both"),
        (&format!("v LIKE '%{hash}'"), 1, "both"),
        (&format!("v ILIKE '%{}'", hash.to_uppercase()), 1, "folded"),
    ] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        if found >= 0 {
            let count = session.number(&format!("SELECT count(*) FROM t WHERE {predicate}"));
            assert_eq!(count, f64::from(found), "{predicate}");
        }
        for index in ["folded", "as_is"] {
            session.run(&format!(
                "SET pg_skip.ignore_indexes = '{}'",
                if index == "folded" { "as_is" } else { "folded" }
            ));
            same(&mut session, &Way::skip_scan(), &Case::using(&statement));
            if serves == "both" || serves == index {
                Way::skip_scan().set(&mut session);
                skips_many(&mut session, &statement);
            }
            session.run("RESET ALL");
        }
        compare::same(&mut session, "t", &Question::any(predicate));
    }
    for index in ["folded", "as_is"] {
        sound(&mut session, index);
    }
    for predicate in ["v LIKE '%'", "v LIKE '%a%'", "v ~ ''", "v ^@ ''", "v ~ '(?i)Q701'", "v !~~ '%q701z%'"]
    {
        compare::same(&mut session, "t", &Question::any(predicate));
        same(&mut session, &Way::skip_scan(), &Case::any(format!("SELECT id FROM t WHERE {predicate}")));
    }
}

on_shared!(the_index_that_serves_a_pattern_is_asked);
/// Indexes that make different things of the same pattern: the one that can look it up is asked, whichever comes first.
fn the_index_that_serves_a_pattern_is_asked(database: &Database) {
    let mut session = database.session();
    lines(&mut session);
    session.run(
        "CREATE INDEX a ON t USING skip (v text_prefix_skip_ops, id);
         CREATE INDEX b ON t USING skip (v text_token_skip_ops, id);
         DROP INDEX as_is; CREATE INDEX as_is ON t USING skip (v text_ngram_skip_ops)
         WITH (false_positive_rate = 0.0001)",
    );
    Way::skip_scan().set(&mut session);
    for predicate in ["v LIKE '%q701z%'", "v ILIKE '%Q701Z%'", "v @@@ 'q701z'", "v ~ 'q701z of'", "v = 'zz'"]
    {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        skips_many(&mut session, &statement);
    }
    session.run("CREATE INDEX whole ON t USING skip (v)");
    let plan = session.plan("SELECT id FROM t WHERE v = 'zz'");
    assert!(plan.contains("Skip Indexes: whole"), "whole values are looked up first: {plan}");
}

on_shared!(bitmaps);
/// PostgreSQL itself offers the operators of the class to a bitmap scan, which reads few ranges.
fn bitmaps(database: &Database) {
    let mut session = database.session();
    lines(&mut session);
    session.run(
        "DROP INDEX as_is, folded;
         CREATE INDEX t_v ON t USING skip (v text_ngram_skip_ops (fold_case = on))
             WITH (pages_per_range = 2, false_positive_rate = 0.0001);
         SET enable_seqscan = off; SET pg_skip.enable_scan = off",
    );
    let all = session.number("SELECT pg_relation_size('t') / 8192");
    for predicate in [
        "v LIKE '%q701z%'",
        "v ILIKE '%Q701Z%'",
        "v ~ 'q701z'",
        "v ~* 'Q701Z'",
        "v ^@ 'Error: number q701z'",
        "v = 'zz'",
        "v IN ('zz', 'absent')",
        "v LIKE ANY ('{%q701z%,%q1801z%}')",
    ] {
        let plan = session.column(&format!(
            "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT id FROM t WHERE {predicate}"
        ));
        let heap = plan.iter().find_map(|line| line.trim().strip_prefix("Heap Blocks: lossy="));
        let read: f64 = heap.unwrap_or_else(|| panic!("{predicate}: {plan:?}")).parse().expect("a number");
        likely(read * 4.0 < all, || format!("{predicate} reads {read} of {all} pages"));
    }
}

on_shared!(parameters);
/// Patterns that are known only when the query runs: generic plans, joins, subqueries.
fn parameters(database: &Database) {
    let mut session = database.session();
    lines(&mut session);
    session.run(
        "CREATE TABLE o (p text, ps text[]);
         INSERT INTO o SELECT '%Q' || i * 100 + 1 || 'z%', ARRAY['%q' || i || 'z%', NULL] FROM generate_series(1, 9) i;
         INSERT INTO o VALUES (NULL, NULL), ('%', '{}'), ('zz', '{zz}'); ANALYZE o",
    );
    for statement in [
        "SELECT t.id, p FROM o JOIN t ON v LIKE p",
        "SELECT t.id, p FROM o JOIN t ON v ILIKE p",
        "SELECT t.id, p FROM o JOIN t ON v LIKE ANY (ps)",
        "SELECT t.id, p FROM o JOIN t ON v ^@ replace(p, '%', '')",
        "SELECT id FROM t WHERE v ILIKE (SELECT max(p) FROM o WHERE p LIKE '%8%')",
        "SELECT id FROM t WHERE v LIKE ANY (ARRAY(SELECT p FROM o WHERE p <> '%'))",
    ] {
        same(&mut session, &Way::skip_scan().nested_loop(), &Case::any(statement));
        same(&mut session, &Way::skip_scan().parallel(), &Case::any(statement));
    }
    session
        .run("SET plan_cache_mode = force_generic_plan; PREPARE q(text) AS SELECT id FROM t WHERE v LIKE $1");
    Way::skip_scan().set(&mut session);
    assert_eq!(session.column("EXECUTE q('%q701z%')"), ["701"]);
    assert_eq!(session.column("EXECUTE q('%q1801z%')"), ["1801"]);
    assert_eq!(session.column("EXECUTE q(NULL)").len(), 0);
    skips_many(&mut session, "EXECUTE q('%q701z%')");
}

on_shared!(errors);
/// An invalid pattern is the server's error, with the index and without; options out of bounds, and columns that
/// cannot be cut.
fn errors(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    lines(&mut session);
    for predicate in ["v ~ 'q701z('", "v ~* '[z-a]q701'", "v LIKE '%q701z of%\\'", "v ~ 'x{300}q701z'"] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        Way::plain().set(&mut session);
        let plain = session.error(&statement);
        Way::skip_scan().set(&mut session);
        let skip = session.error(&statement);
        assert_eq!((plain.code(), plain.message()), (skip.code(), skip.message()), "{predicate}");
        session.run("RESET ALL");
    }
    for (indexed, code) in [
        ("v text_ngram_skip_ops (n = 1)", "22023"),
        ("v text_ngram_skip_ops (n = 9)", "22023"),
        ("v text_ngram_skip_ops (n = x)", "22023"),
        ("v text_ngram_skip_ops (fold_case = maybe)", "22023"),
        ("v text_ngram_skip_ops (length = 3)", "22023"),
        ("v text_ngram_skip_ops (false_positive_rate = 2)", "22023"),
        ("v COLLATE nocase text_ngram_skip_ops", "0A000"),
        ("id text_ngram_skip_ops", "42804"),
        ("(v::char(5)) text_ngram_skip_ops", "42804"),
    ] {
        let error = session.error(&format!("CREATE INDEX ON t USING skip ({indexed})"));
        assert_eq!(error.code().code(), code, "{indexed}: {error:?}");
    }
    session.run(
        "CREATE OPERATOR CLASS wrong FOR TYPE int USING skip AS OPERATOR 1 =,
            FUNCTION 2 (int) skip_text_ngram_options(internal), FUNCTION 3 (int) skip_text_ngram_keys(internal);
         CREATE OPERATOR CLASS without_options FOR TYPE text USING skip AS OPERATOR 1 =, OPERATOR 21 ~~,
            FUNCTION 3 skip_text_ngram_keys(internal)",
    );
    assert_eq!(session.error("CREATE INDEX ON t USING skip (id wrong)").code().code(), "42809");
    assert_eq!(session.error("CREATE INDEX ON t USING skip (v without_options)").code().code(), "42809");
    let valid = "SELECT bool_and(amvalidate(oid)) FROM pg_opclass WHERE opcname = 'text_ngram_skip_ops'";
    assert_eq!(session.one(valid), "t");
}

on_shared!(frozen);
/// An index whose keys were made with other options than its column has now rules nothing out.
fn frozen(database: &Database) {
    let mut session = database.session();
    lines(&mut session);
    for (options, skips) in [
        ("n=3,fold_case=on", true),
        ("n=4,fold_case=on", false),
        ("n=3", false),
        ("n=3,fold_case=off", false),
    ] {
        session.run(&format!(
            "UPDATE pg_attribute SET attoptions = '{{{options}}}' WHERE attrelid = 'folded'::regclass"
        ));
        let mut session = database.session();
        session.run("SET pg_skip.ignore_indexes = 'as_is'");
        for predicate in ["v LIKE '%q701z%'", "v ILIKE '%Q701Z%'"] {
            let statement = format!("SELECT id FROM t WHERE {predicate}");
            session
                .run("SET pg_skip.enable_scan = on; SET enable_seqscan = off; SET enable_bitmapscan = off");
            assert_eq!(session.column(&statement), ["701"], "{options}");
            if skips {
                skips_many(&mut session, &statement);
            }
        }
        session.run(&format!("INSERT INTO t (v) VALUES ({})", quoted(options)));
        assert_eq!(session.column(&format!("SELECT count(*) FROM t WHERE v LIKE '%{options}'")), ["1"]);
    }
}

on_shared!(shown);
/// The functions that look a value up take a pattern of LIKE.
fn shown(database: &Database) {
    let mut session = database.session();
    lines(&mut session);
    gives_ranges(&mut session, 1, "SELECT skip_matching_ranges('folded', 'v', '%q701z%'::text)");
    gives_ranges(&mut session, 0, "SELECT skip_matching_ranges('folded', 'v', '%nowhere%'::text)");
    let map = session.one("SELECT skip_range_map('folded', 'v', '%q701z%'::text, 10000)");
    assert_eq!(map.matches('#').count(), 1, "{map}");
}

on_shared!(latin1 = encoded("LATIN1", "größe"));
on_shared!(euc_jp = encoded("EUC_JP", "大きさ"));
on_shared!(sql_ascii = encoded("SQL_ASCII", "größe"));
/// In a database that is not UTF-8, texts are cut by bytes.
fn encoded(database: &Database, encoding: &str, word: &str) {
    let mut session = other(database, encoding);
    session.run(&format!(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text, filler text DEFAULT repeat('x', 200));
         INSERT INTO t (v) SELECT CASE WHEN i % 500 = 7 THEN '{word}' ELSE 'else' END || ' Q' || i || 'z'
            FROM generate_series(1, 2000) i;
         CREATE INDEX folded ON t USING skip (v text_ngram_skip_ops (n = 3, fold_case = on))
         WITH (pages_per_range = 1, false_positive_rate = 0.0001)"
    ));
    let mut predicates = vec![
        (format!("v LIKE '%{word}%'"), 4),
        (format!("v LIKE '{word} Q507z'"), 1),
        (format!("v LIKE '{word}_Q507_'"), 1),
        (format!("v ~ '^{word}.*Q507z'"), 1),
        ("v ILIKE '%Q507Z%'".to_owned(), 1),
        (format!("v ILIKE '%{word} q507z%'"), 1),
        (format!("v ^@ '{word}'"), 4),
        (format!("v = '{word} Q507z'"), 1),
    ];
    if encoding == "LATIN1" {
        // The quantifier is for the last of three characters that are not ASCII.
        predicates.push(("v ~ 'größö{0}e Q507z'".to_owned(), 1));
    }
    for (predicate, found) in predicates {
        same(&mut session, &Way::skip_scan(), &Case::using(format!("SELECT id FROM t WHERE {predicate}")));
        let count = session.number(&format!("SELECT count(*) FROM t WHERE {predicate}"));
        assert_eq!(count, f64::from(found), "{encoding}: {predicate}");
        Way::skip_scan().set(&mut session);
        skips_many(&mut session, &format!("SELECT id FROM t WHERE {predicate}"));
        session.run("RESET ALL");
    }
    sound(&mut session, "folded");
}

on_shared!(values_that_are_not_valid);
/// The server checks what comes in from clients, but not what a cast makes of bytes. `LIKE` compares bytes: a character
/// beside a byte that is part of none is found.
fn values_that_are_not_valid(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE CAST (bytea AS text) WITHOUT FUNCTION;
         CREATE TABLE t (id int, v text, filler text DEFAULT repeat('x', 300));
         INSERT INTO t SELECT i, CASE i WHEN 200 THEN ('\\x616263648065666768'::bytea)::text
                 WHEN 500 THEN ('\\x61626364e28265666768'::bytea)::text
                 WHEN 800 THEN ('\\xff61626364c365666768'::bytea)::text
                 ELSE 'nothing ' || i END
             FROM generate_series(1, 1000) i;
         CREATE INDEX t_fragments ON t USING skip (v text_ngram_skip_ops (fold_case = on))
             WITH (pages_per_range = 1);
         CREATE INDEX t_prefixes ON t USING skip (v text_prefix_skip_ops (length = 4)) WITH (pages_per_range = 1);
         INSERT INTO t SELECT id + 1000, v FROM t",
    );
    for (condition, found) in [
        ("v LIKE '%abcd%'", "6"),
        ("v LIKE 'abcd%'", "4"),
        ("v LIKE '%efgh'", "6"),
        ("v ~ 'abcd'", "6"),
        ("v ~ '^abcd'", "4"),
        ("v ^@ 'abcd'", "4"),
        ("v ILIKE '%ABCD%'", "6"),
    ] {
        compare::same(&mut session, "t", &Question::any(condition));
        assert_eq!(session.one(&format!("SELECT count(*) FROM t WHERE {condition}")), found, "{condition}");
    }
    ["t_fragments", "t_prefixes"].iter().for_each(|index| sound(&mut session, index));
}
