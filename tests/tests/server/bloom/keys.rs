//! Values of every type as keys.
use super::engine::NOCASE;
use crate::registry::on_shared;
use crate::shared::{self, Database};
use pg_skip_tests::seed;
use pg_skip_tests::session::Session;
use pg_skip_tests::values::{TYPES, Type, Value};

const POLICIES: [&str; 4] = ["skip", "leveldb", "clickhouse", "rocksdb"];

on_shared!(every_type);
/// Every value is found in a filter of all, by every form of question, under every policy, and after a journey as text.
/// What SQL takes as equal is one key.
fn every_type(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    for (number, kind) in TYPES.iter().enumerate() {
        let values = kind.samples(seed() + number as u64);
        session.run(&format!("DROP TABLE IF EXISTS t, f; CREATE TABLE t (c {})", kind.name));
        let rows: Vec<_> = values.iter().map(|value| format!("({})", kind.constant(value))).collect();
        session.run(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
        session.run("CREATE TABLE f (policy text, b bloom)");
        for policy in POLICIES {
            session.run(&format!(
                "INSERT INTO f SELECT '{policy}', bloom_agg(c, 0.001, NULL, '{policy}') FROM t"
            ));
        }
        session.run("INSERT INTO f SELECT policy || ' as text', b::text::bloom FROM f");
        let lost = session.rows(
            "SELECT policy, c::text FROM f, t
             WHERE c IS NOT NULL AND NOT (b @> c AND c <@ b AND bloom_contains(b, c)) OR (b @> c) IS NULL
             AND c IS NOT NULL",
        );
        assert!(lost.is_empty(), "{}: {lost:?}", kind.name);
        if kind.in_array {
            let lost = session.rows(
                "SELECT policy, c::text FROM f, t WHERE c IS NOT NULL AND NOT bloom_contains_any(b, ARRAY[NULL, c])",
            );
            assert!(lost.is_empty(), "{} in an array: {lost:?}", kind.name);
        }
        assert_eq!(session.one("SELECT count(*) FROM f, t WHERE c IS NULL AND (b @> c) IS NOT NULL"), "0");
        let apart = session.rows(
            "SELECT policy, a.c::text, b.c::text FROM t a JOIN t b ON a.c = b.c, unnest(ARRAY['skip', 'leveldb']) policy
             WHERE NOT (SELECT bloom_agg(x, 1e-6, NULL, policy) FROM (SELECT a.c) s (x)) @> b.c",
        );
        assert!(apart.is_empty(), "{}: equal, but not found: {apart:?}", kind.name);
        crossing(&mut session, kind, &values);
    }
}

/// Constants of other types that SQL takes as equal are found as well.
#[track_caller]
fn crossing(session: &mut Session, kind: &Type, values: &[Value]) {
    for (cross, value) in kind.cross.iter().flat_map(|cross| values.iter().map(move |value| (cross, value))) {
        let Some(text) = value else { continue };
        if [kind.name, cross].contains(&"name") {
            continue; // another type of key
        }
        let other = format!("'{}'::{cross}", text.replace('\'', "''"));
        let same = session.try_rows(&format!("SELECT ({}) = ({other})", kind.constant(value)));
        if same.is_ok_and(|rows| rows[0][0].as_deref() == Some("t")) {
            let found = session.one(&format!("SELECT bool_and(b @> {other} AND {other} <@ b) FROM f"));
            assert_eq!(found, "t", "{} {other}", kind.name);
        }
    }
}

on_shared!(a_value_of_another_type_is_an_error);
/// A value of another type is an error that says so, never "no".
fn a_value_of_another_type_is_an_error(database: &Database) {
    let mut session = database.session();
    for (key, value, names) in [
        ("1", "'1'::text", ["bigint", "text"]),
        ("'a'::text", "'\\x61'::bytea", ["text", "bytea"]),
        ("1::smallint", "1::numeric", ["bigint", "numeric"]),
        ("1", "1::float4", ["bigint", "double precision"]),
        ("1::oid", "1", ["oid", "bigint"]),
        // `=` of these is now that of the one, now that of the other.
        ("'a'::char(2)", "'a '::varchar", ["character", "text"]),
        ("'a'::char(2)", "'a'::text", ["character", "text"]),
        ("'a'::name", "'a'::text", ["name", "text"]),
        ("date '2026-01-01'", "timestamp '2026-01-01'", ["date", "timestamp without time zone"]),
        ("ARRAY[1]", "1", ["integer[]", "bigint"]),
        ("ARRAY[1]", "ARRAY[1::bigint]", ["integer[]", "bigint[]"]),
        ("'{}'::jsonb", "'{}'::text", ["jsonb", "text"]),
    ] {
        for form in [
            "bloom_agg({key}) @> {value}",
            "{value} <@ bloom_agg({key})",
            "bloom_add(bloom_agg({key}), {value}) IS NULL",
        ] {
            let question = form.replace("{key}", key).replace("{value}", value);
            let error = session.error(&format!("SELECT {question}"));
            assert_eq!(error.code().code(), "42804", "{question}: {error}");
            let text = format!("{} {:?}", error.message(), error.hint());
            assert!(names.iter().all(|name| text.contains(name)), "{question}: {text}");
        }
    }
    // Aliases and domains are their types.
    session.run("CREATE DOMAIN small AS int CHECK (value < 10); CREATE DOMAIN smaller AS small");
    for (key, value) in [
        ("3::small", "3"),
        ("3", "3::smaller"),
        ("'pg_class'::regclass", "1259::oid"),
        ("'10.0.0.0/8'::cidr", "'10.0.0.0/8'::inet"),
        ("'ab'::char(5)", "'ab'::char(9)"),
        ("'ab'::varchar(3)", "'ab'::text"),
    ] {
        assert_eq!(session.one(&format!("SELECT bloom_agg({key}) @> {value}")), "t", "{key} {value}");
    }
    // Also as elements of arrays: the end of a name is its first NUL.
    session.run("CREATE DOMAIN called AS name");
    for array in ["ARRAY['a'::called]", "ARRAY['b', 'a']::called[]", "ARRAY['a'::name]"] {
        let question = format!("SELECT bloom_contains_any(bloom_agg('a'::name), {array})");
        assert_eq!(session.one(&question), "t", "{array}");
    }
    // A literal of no type is read as the filter's type, as it is beside a column.
    let uuid = "0f0e0d0c-0b0a-0908-0706-050403020100";
    let long = "x".repeat(77);
    for (key, literal, found) in [
        (format!("'{uuid}'::uuid"), uuid, "t"),
        (format!("'{uuid}'::uuid"), "00000000-0b0a-0908-0706-050403020100", "f"),
        ("'a b'::text".into(), "a b", "t"),
        ("5::smallint".into(), " 5 ", "t"),
        ("2.50".into(), "2.5", "t"),
        ("int4range(1, 5)".into(), "[1,4]", "t"),
        ("3::small".into(), "3", "t"),
        ("ARRAY[1, 2]".into(), "{1,2}", "t"),
        ("ARRAY['a', 'b']".into(), "{a,b}", "t"),
        ("'ab'::char(5)".into(), "ab  ", "t"),
        ("'ab  '::char(5)".into(), "ab", "t"),
        ("repeat('x', 80)::name".into(), &long, "t"),
    ] {
        let filter = format!("bloom_agg({key}, 1e-9)");
        assert_eq!(session.one(&format!("SELECT {filter} @> '{literal}'")), found, "{key}");
        assert_eq!(session.one(&format!("SELECT '{literal}' <@ {filter}")), found, "{key}");
        assert_eq!(
            session.one(&format!("SELECT bloom_add({filter}, '{literal}') @> '{literal}'")),
            "t",
            "{key}"
        );
    }
    assert_eq!(session.error("SELECT bloom_agg(5) @> 'five'").code().code(), "22P02");
    // Which value these are depends on settings, or on what a domain's owner makes of its CHECK: whoever stored the
    // filter.
    session.run("CREATE TYPE span AS RANGE (subtype = int)");
    for (key, literal) in [
        ("date '2026-01-01'", "2026-01-01"),
        ("timestamptz '2026-01-01 00:00+00'", "2026-01-01"),
        ("interval '1 day'", "1 day"),
        ("ARRAY[timestamptz '2026-01-01 00:00+00']", "{2026-01-01}"),
        ("tstzrange('2026-01-01', '2026-01-02')", "[2026-01-01,2026-01-02)"),
        ("'pg_class'::regclass", "pg_class"),
        ("ARRAY[3::small]", "{3}"),
        ("span(1, 5)", "[1,5)"),
    ] {
        for form in ["bloom_agg({key}) @> '{literal}'", "bloom_add(bloom_agg({key}), '{literal}') IS NULL"] {
            let question = form.replace("{key}", key).replace("{literal}", literal);
            let (code, found) = match session.try_rows(&format!("SELECT {question}")) {
                Ok(rows) => (String::new(), format!("{rows:?}")),
                Err(error) => {
                    (error.code().map(|code| code.code().to_owned()).unwrap_or_default(), String::new())
                }
            };
            // regclass is oid.
            let expected = if key.contains("regclass") { "22P02" } else { "42P18" };
            assert_eq!(code, expected, "{question} {found}");
        }
        let typed = format!("SELECT bloom_agg({key}) @> {key}");
        assert_eq!(session.one(&typed), "t", "{typed}");
    }
    // 0.1::real is another number than 0.1::float8: which one is meant?
    assert_eq!(session.error("SELECT bloom_agg(0.1::real) @> '0.1'").code().code(), "42P18");
    assert_eq!(session.one("SELECT bloom_agg(0.1::real) @> 0.1::real"), "t");
    assert_eq!(session.one("SELECT bloom_agg(5) @> NULL"), "NULL");
}

on_shared!(under_collations);
fn under_collations(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    session.run("CREATE COLLATION other (provider = icu, locale = 'und-u-ks-level1', deterministic = false)");
    session.run(
        "CREATE TABLE f AS SELECT bloom_agg(c COLLATE nocase) AS b FROM unnest(ARRAY['Straße', 'abc']) c",
    );
    assert_eq!(session.one("SELECT b @> ('ABC' COLLATE nocase) FROM f"), "t");
    assert_eq!(session.one("SELECT b @> ('ABD' COLLATE nocase) FROM f"), "f");
    for collation in ["\"C\"", "\"default\"", "other"] {
        let error = session.error(&format!("SELECT b @> ('abc' COLLATE {collation}) FROM f"));
        assert_eq!(error.code().code(), "42P21", "{error}");
        assert!(error.detail().is_some_and(|detail| detail.contains("nocase")), "{error:?}");
    }
    let stored = session.one("SELECT key_collation FROM f, bloom_info(b)");
    assert!(
        stored.starts_with("public.nocase version ") && stored.ends_with(" (und-u-ks-level2)"),
        "{stored}"
    );
    // All deterministic ones tell strings apart by their bytes.
    assert_eq!(session.one("SELECT bloom_agg('x'::text COLLATE \"C\") @> ('x' COLLATE \"de-x-icu\")"), "t");
    let empty = "bloom_empty('text', 10, policy => 'skip' COLLATE nocase)";
    assert_eq!(
        session.one(&format!("SELECT bloom_add({empty}, 'A' COLLATE nocase) @> ('a' COLLATE nocase)")),
        "t"
    );
}

on_shared!(under_several_collations);
/// Without a collation it is not known which strings are equal.
fn under_several_collations(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    session.run(
        "CREATE TABLE s (one text COLLATE nocase, other text COLLATE \"C\");
         INSERT INTO s VALUES ('a', 'b');
         CREATE TABLE f AS SELECT bloom_agg('ab'::text) AS b",
    );
    for query in [
        "SELECT bloom_agg(one || other) FROM s",
        "SELECT b @> (one || other) FROM f, s",
        "SELECT b @> ARRAY[one, other] FROM f, s",
        "SELECT bloom_add(b, one || other) FROM f, s",
    ] {
        let error = session.error(query);
        assert_eq!(error.code().code(), "42P22", "{query}: {error}");
    }
    assert_eq!(session.one("SELECT b @> ((one || other) COLLATE \"C\") FROM f, s"), "t");
    // A collation that is not the default wins over it.
    assert_eq!(session.one("SELECT bloom_agg(one, NULL, NULL, 'skip') @> ('A' COLLATE nocase) FROM s"), "t");
}

on_shared!(under_a_collation_that_is_made_anew);
/// The name and the version of ICU stay the same, but other strings are equal. Without a check of the definition, a key
/// that is in the filter would not be found.
fn under_a_collation_that_is_made_anew(database: &Database) {
    let mut session = database.session();
    session.run("CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level1', deterministic = false)");
    session.run("CREATE TABLE f AS SELECT bloom_agg('é'::text COLLATE ci) AS b");
    assert_eq!(session.one("SELECT b @> ('E'::text COLLATE ci) FROM f"), "t");
    let has_rules = session.number("SHOW server_version_num") >= 160_000.0;
    let mut definitions = vec!["locale = 'und'", "locale = 'und-u-ks-level2'"];
    if has_rules {
        definitions.push("locale = 'und-u-ks-level1', rules = '&a < é'");
    }
    for definition in definitions {
        session.run(&format!(
            "DROP COLLATION ci; CREATE COLLATION ci (provider = icu, {definition}, deterministic = false)"
        ));
        let error = session.error("SELECT b @> ('é'::text COLLATE ci) FROM f");
        assert_eq!(error.code().code(), "42P21", "{definition}: {error}");
        let error = session.error("SELECT b | bloom_agg('x'::text COLLATE ci) FROM f GROUP BY b");
        assert_eq!(error.code().code(), "42804", "{definition}: {error}");
    }
    if has_rules {
        // Rules longer than a filter stores.
        let rules: String =
            ('a'..='z').map(|c| format!("&{c} < '{c}-{c}-{c}-{c}-{c}-{c}-{c}-{c}-{c}' ")).collect();
        session.run(&format!(
            "DROP COLLATION ci; DROP TABLE f;
             CREATE COLLATION ci (provider = icu, locale = 'und', rules = '{}', deterministic = false);
             CREATE TABLE f AS SELECT bloom_agg('é'::text COLLATE ci) AS b",
            rules.replace('\'', "''")
        ));
        assert_eq!(session.one("SELECT b @> ('é'::text COLLATE ci) FROM f"), "t");
        assert!(session.one("SELECT key_collation FROM f, bloom_info(b)").contains("(definition "));
    }
}

on_shared!(without_a_collation);
/// The collation of another argument, such as the policy, is no part of numbers.
fn without_a_collation(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    session.run(
        "CREATE TABLE s AS SELECT i, 'skip'::text COLLATE nocase AS policy FROM generate_series(1, 9) i",
    );
    for kind in ["numeric", "int[]", "interval"] {
        let key = if kind == "int[]" { "ARRAY[i]" } else { "i::text" };
        let found = session.one(&format!(
            "SELECT bloom_agg({key}::{kind}, NULL, NULL, policy) @> (SELECT {key}::{kind} FROM s WHERE i = 5) FROM s"
        ));
        assert_eq!(found, "t", "{kind}");
    }
}

on_shared!(of_a_type_with_an_equality_of_its_own);
/// The type has no hash function, and the server would hash it as text. But values that are different texts are equal.
fn of_a_type_with_an_equality_of_its_own(database: &Database) {
    let mut session = database.session();
    session.run(NOCASE);
    session.run("CREATE TABLE t (c nocase); INSERT INTO t VALUES ('A')");
    assert_eq!(session.one("SELECT bloom_agg(c) @> (SELECT c FROM t) FROM t"), "t");
    session.run("DROP OPERATOR FAMILY nocase_hash_ops USING hash CASCADE");
    assert_eq!(session.one("SELECT c = 'a' FROM t"), "t");
    for query in ["SELECT bloom_agg(c) FROM t", "SELECT bloom_agg('x'::text) @> c FROM t GROUP BY c"] {
        let error = session.error(query);
        assert_eq!(error.code().code(), "42883", "{query}: {error}");
    }
}

on_shared!(of_enums);
/// Labels, not the numbers behind them: a filter is understood where the same type was made in another order.
fn of_enums(database: &Database) {
    let mut session = database.session();
    session.run("CREATE TYPE color AS ENUM ('red', 'green', 'blue')");
    let filter = session.one("SELECT bloom_agg(c, 1e-6) FROM unnest(ARRAY['red', 'blue']::color[]) c");
    session.run(
        "DROP TYPE color; CREATE TYPE unrelated AS ENUM ('x');
         CREATE TYPE color AS ENUM ('blue', 'green', 'red')",
    );
    for (label, found) in [("red", "t"), ("blue", "t"), ("green", "f")] {
        assert_eq!(session.one(&format!("SELECT '{filter}'::bloom @> '{label}'::color")), found, "{label}");
    }
    // A label that is renamed meanwhile, in one place of one query.
    session.run(
        "CREATE FUNCTION asks(f bloom, c color) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN f @> c; END';
         CREATE FUNCTION made(c text) RETURNS bloom LANGUAGE plpgsql AS
             'DECLARE b bloom; BEGIN EXECUTE format(''SELECT bloom_agg(%L::color, 1e-9)'', c) INTO b; RETURN b; END'",
    );
    let answers = session.0.simple_query(
        "BEGIN; SELECT asks(made('red'), 'red'); ALTER TYPE color RENAME VALUE 'red' TO 'crimson';
         SELECT asks(made('crimson'), 'crimson'); COMMIT",
    );
    let answers = answers.expect("two answers").into_iter().filter_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    assert_eq!(answers.collect::<Vec<_>>(), ["t", "t"]);
    session.run(
        "CREATE TYPE pair AS (number int, c color);
         CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TYPE pair_of_words AS (number int, word text COLLATE nocase);
         CREATE TYPE words AS RANGE (subtype = text, collation = nocase);
         CREATE TYPE plain AS (number int)",
    );
    for value in [
        "ARRAY['blue'::color]",
        "ROW(1, 'blue')::pair",
        "ROW(1, 2)",
        // ALTER TYPE … ADD ATTRIBUTE gives the same rows another hash.
        "ROW(1)::plain",
        "ARRAY[ROW(1)::plain]",
        "(SELECT c FROM pg_class c LIMIT 1)",
        "ARRAY[ROW(1, 'blue')::pair]",
        "ROW(1, 'a')::pair_of_words",
        "words('a', 'b')",
        "ARRAY[words('a', 'b')]",
        "'a'::name COLLATE nocase",
        "ARRAY['a'::name] COLLATE nocase",
    ] {
        let error = session.error(&format!("SELECT bloom_agg({value})"));
        assert_eq!(error.code().code(), "0A000", "{value}: {error}");
    }
}

on_shared!(of_types_by_name);
/// Types of the user's own are known by their names, which are the same after a dump.
fn of_types_by_name(database: &Database) {
    let mut session = database.session();
    session.run(r#"CREATE SCHEMA "My schema"; CREATE TYPE "My schema"."Größe" AS RANGE (subtype = int)"#);
    let filter =
        session.one(r#"SELECT bloom_agg("My schema"."Größe"(i, i + 1)) FROM generate_series(1, 9) i"#);
    session.run(
        r#"DROP TYPE "My schema"."Größe"; CREATE TYPE "My schema"."Größe" AS RANGE (subtype = int);
           CREATE TYPE other AS RANGE (subtype = int)"#,
    );
    let ask = |value: &str| format!("SELECT '{filter}'::bloom @> {value}");
    assert_eq!(session.one(&ask(r#""My schema"."Größe"(3, 4)"#)), "t");
    let error = session.error(&ask("other(3, 4)"));
    assert!(error.message().contains("Größe") && error.message().contains("other"), "{error}");
    assert!(session.one(&format!("SELECT key_type FROM bloom_info('{filter}')")).contains("Größe"));
    session.run(r#"DROP TYPE "My schema"."Größe""#);
    assert!(session.one(&format!("SELECT key_type FROM bloom_info('{filter}')")).contains("Größe"));
}

on_shared!(refused);
fn refused(database: &Database) {
    let mut session = database.session();
    for value in ["point '(1,2)'", "'{}'::json", "'a'::tsvector"] {
        let error = session.error(&format!("SELECT bloom_agg({value})"));
        assert_eq!(error.code().code(), "42883", "{value}: {error}");
        assert!(error.hint().is_some());
    }
    for nobody in ["0", "99999"] {
        let error = session.error(&format!("SELECT bloom_empty({nobody}::oid::regtype, 3)"));
        assert_eq!(error.code().code(), "42704", "{error}");
    }
    for nothing in ["point", "anyarray", "anyenum", "anyelement", "cstring"] {
        assert_eq!(
            session.error(&format!("SELECT bloom_empty('{nothing}', 3)")).code().code(),
            "42883",
            "{nothing}"
        );
    }
}

on_shared!(own_hash_functions_give_64_bits);
/// Types that are hashed by their own functions: the extended ones. With 32 bits, two of 100,000 numbers were one key.
fn own_hash_functions_give_64_bits(database: &Database) {
    let mut session = database.session();
    session.run("SET work_mem = '256MB'");
    for cast in ["numeric", "interval", "jsonb", "text COLLATE nocase"] {
        session.run(
            "DROP COLLATION IF EXISTS nocase;
             CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        );
        let value = if cast == "interval" { "make_interval(secs => i)" } else { &format!("i::text::{cast}") };
        let found = session.one(&format!(
            "SELECT count(*) FROM generate_series(200001, 600000) i,
                 (SELECT bloom_agg({value}, 1e-9) AS b FROM generate_series(1, 200000) i) f
             WHERE b @> {value}"
        ));
        assert_eq!(found, "0", "{cast}"); // of 32-bit hashes, some eighteen
    }
    let own = "bloom_export(bloom_agg(1.5::numeric, NULL, NULL, 'rocksdb(bits_per_key=20)'))";
    let bytes =
        "decode(string_agg(lpad(to_hex(get_byte(int8send(hash_numeric_extended(1.5, 0)), 7 - n)), 2, '0'), ''
        ORDER BY n), 'hex')";
    let hashed = format!(
        "(SELECT bloom_export(bloom_agg(k, NULL, NULL, 'rocksdb(bits_per_key=20)')) FROM (SELECT {bytes} AS k
         FROM generate_series(0, 7) n) s)"
    );
    assert_eq!(session.one(&format!("SELECT {own} = {hashed}")), "t");
}
