//! Operators and functions: what they give, and what they refuse.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::seed;

const POLICIES: [&str; 4] = ["skip", "leveldb", "clickhouse", "rocksdb"];

on_shared!(put_filters_together);
fn put_filters_together(database: &Database) {
    let mut session = database.session();
    for policy in POLICIES {
        let agg = |from: u32, upto: u32| {
            format!("(SELECT bloom_agg(i, 0.01, 3000, '{policy}') FROM generate_series({from}, {upto}) i)")
        };
        let (one, other, both) = (agg(1, 2000), agg(1001, 3000), agg(1, 3000));
        assert_eq!(
            session.one(&format!("SELECT ({one} | {other}) = {both} AND ({other} | {one}) = {both}")),
            "t"
        );
        let cut = format!("({one} & {other})");
        assert_eq!(
            session.one(&format!("SELECT count(*) FROM generate_series(1001, 2000) i WHERE NOT {cut} @> i")),
            "0"
        );
        assert!(
            session.number(&format!("SELECT count(*) FROM generate_series(1, 1000) i WHERE {cut} @> i"))
                < 100.0
        );
        let mut added = format!("bloom_empty('int', 3000, 0.01, '{policy}')");
        for key in ["7", "8::bigint", "9::smallint"] {
            added = format!("bloom_add({added}, {key})");
        }
        assert_eq!(session.one(&format!("SELECT {added} = {}", agg(7, 9))), "t", "{policy}");
        let empty = format!("bloom_empty('int', 3000, 0.01, '{policy}')");
        assert_eq!(
            session.one(&format!("SELECT ({empty} | {one}) = {one} AND ({empty} & {one}) = {empty}")),
            "t"
        );
        assert_eq!(session.one(&format!("SELECT {empty} @> 5")), "f");
    }
    for (one, other, what) in [
        ("bloom_empty('int', 10)", "bloom_empty('int', 100)", "bits"),
        ("bloom_empty('int', 10)", "bloom_empty('text', 10)", "type (bigint and text)"),
        (
            "bloom_empty('int', 10)",
            "bloom_empty('int', 10, policy => 'leveldb')",
            "policy (skip and leveldb)",
        ),
        ("bloom_empty('int', 10)", "bloom_empty('int', 10, policy => 'skip(seed=3)')", "seed (0 and 3)"),
        ("bloom_empty('int', 1, 0.5)", "bloom_empty('int', 1, 0.01)", "probes"),
    ] {
        for operator in ["|", "&"] {
            let error = session.error(&format!("SELECT {one} {operator} {other}"));
            assert_eq!(error.code().code(), "42804");
            assert!(error.detail().is_some_and(|detail| detail.contains(what)), "{error:?}");
        }
    }
}

on_shared!(contains_any);
fn contains_any(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TABLE f AS SELECT bloom_agg(i, 1e-9) AS b FROM generate_series(1, 100) i");
    for (array, expected) in [
        ("ARRAY[500, 3]", "t"),
        ("ARRAY[500, 600]", "f"),
        ("ARRAY[NULL, 3]::bigint[]", "t"),
        ("ARRAY[NULL, 300]::smallint[]", "f"),
        ("ARRAY[NULL]::int[]", "f"),
        ("'{}'::int[]", "f"),
        ("'{{1000, 2000}, {3000, 5}}'::int[]", "t"),
        ("NULL::int[]", "NULL"),
    ] {
        assert_eq!(
            session.one(&format!("SELECT bloom_contains_any(b, {array}) FROM f")),
            expected,
            "{array}"
        );
    }
    assert_eq!(session.error("SELECT bloom_contains_any(b, ARRAY['a']) FROM f").code().code(), "42804");
}

on_shared!(cardinality);
/// The truth lies within the bounds, and the estimate near it.
fn cardinality(database: &Database) {
    let mut session = database.session();
    let (mut inside, mut all) = (0, 0);
    for (number, keys) in [1u32, 3, 10, 100, 1_000, 20_000].into_iter().cycle().take(60).enumerate() {
        let policy = ["skip", "rocksdb"][number / 6 % 2];
        let salt = seed() % 1_000_000 * 100 + number as u64;
        let row = &session.rows(&format!(
            "SELECT bloom_cardinality(b), low, high, bloom_false_positive_rate(b)
             FROM (SELECT bloom_agg({salt} || ' ' || i, 0.01, {keys}, '{policy}') AS b
             FROM generate_series(1, {keys}) i) f,
                 bloom_cardinality_bounds(b)"
        ))[0];
        let of =
            |field: usize| row[field].as_deref().and_then(|text| text.parse::<f64>().ok()).expect("a number");
        let truth = f64::from(keys);
        all += 1;
        inside += i32::from(of(1) <= truth && truth <= of(2));
        assert!((of(0) - truth).abs() < 1.0 + 0.2 * truth, "{policy} {keys}: {row:?}");
        assert!(of(3) > 0.0 && of(3) < 0.05, "{policy} {keys}: {row:?}");
    }
    assert!(inside * 100 >= all * 85, "{inside} of {all} intervals hold the truth");
    assert_eq!(session.one("SELECT bloom_cardinality(bloom_empty('int', 10))"), "0");
    let full = "(SELECT bloom_agg(i, 0.5, 1) FROM generate_series(1, 1000) i)";
    assert_eq!(session.one(&format!("SELECT bloom_cardinality({full})")), "Infinity");
    assert_eq!(session.one(&format!("SELECT bloom_false_positive_rate({full})")), "1");
}

on_shared!(common_keys);
/// How many keys two filters have in common; the bits of `a & b` say something else.
fn common_keys(database: &Database) {
    let mut session = database.session();
    for policy in ["skip", "rocksdb"] {
        session.run(&format!(
            "DROP TABLE IF EXISTS f;
             CREATE TABLE f AS SELECT s, bloom_agg(i, 0.01, 1000, '{policy}') AS b
             FROM generate_series(0, 1000, 500) s, generate_series(s + 1, s + 1000) i GROUP BY s"
        ));
        for (one, other, truth) in [(0, 1000, 0.0), (0, 500, 500.0), (0, 0, 1000.0)] {
            let row = &session.rows(&format!(
                "SELECT estimate, low, high, bloom_cardinality(one.b & other.b)
                 FROM f one, f other, bloom_intersection_cardinality(one.b, other.b)
                 WHERE one.s = {one} AND other.s = {other}"
            ))[0];
            let of = |field: usize| {
                row[field].as_deref().and_then(|text| text.parse::<f64>().ok()).expect("a number")
            };
            // Keys and bits are always the same; intervals are 30 to 60 wide.
            assert!(of(1) - 40.0 <= truth && truth <= of(2) + 40.0, "{policy} {one} {other}: {row:?}");
            assert!(
                of(1) <= of(0) && of(0) <= of(2) && of(2) - of(1) < 70.0,
                "{policy} {one} {other}: {row:?}"
            );
            assert!(of(3) > truth + 100.0 || one == other, "{policy} {one} {other}: {row:?}");
        }
    }
    let error = session
        .error("SELECT bloom_intersection_cardinality(bloom_empty('int', 10), bloom_empty('int', 100))");
    assert_eq!(error.code().code(), "42804");
    assert!(error.detail().is_some_and(|detail| detail.contains("bits")), "{error:?}");
}

on_shared!(nulls);
fn nulls(database: &Database) {
    let mut session = database.session();
    for expression in [
        "NULL::bloom @> 5",
        "bloom_empty('int', 5) @> NULL::int",
        "NULL::bloom | bloom_empty('int', 5)",
        "bloom_add(NULL, 5)",
        "bloom_empty(NULL, 5)",
        "bloom_empty('int', NULL)",
        "bloom_cardinality(NULL)",
        "(SELECT low FROM bloom_intersection_cardinality(bloom_empty('int', 5), NULL))",
        "bloom_export(NULL)",
        "bloom_import(NULL, 'leveldb', 'int')",
    ] {
        assert_eq!(session.one(&format!("SELECT {expression}")), "NULL", "{expression}");
    }
    assert_eq!(
        session.one("SELECT bloom_add(bloom_empty('int', 5), NULL::int) = bloom_empty('int', 5)"),
        "t"
    );
    assert_eq!(session.error("SELECT bloom_empty('int', -1)").code().code(), "22023");
}

on_shared!(comments);
/// Whatever the extension makes says what it is.
fn comments(database: &Database) {
    let mut session = database.session();
    let silent = session.column(
        "SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
         WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
             AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_skip')
             AND coalesce(obj_description(objid, classid::regclass::text::name), '') = ''
             AND NOT (classid = 'pg_type'::regclass AND objid IN (SELECT typarray FROM pg_type UNION SELECT reltype
             FROM pg_class))",
    );
    assert!(silent.is_empty(), "without a comment: {silent:?}");
}
