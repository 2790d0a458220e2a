//! Aggregates as a distributed engine computes them (`tests/engine`): step functions looked up anew for each row,
//! without an expression; states as bytea from one database to another.
use crate::c_library;
use crate::registry::on_shared;
use crate::shared::{self, Database};
use pg_skip_tests::seed;
use pg_skip_tests::session::Session;
use pg_skip_tests::values::TYPES;
use std::path::PathBuf;
use std::sync::LazyLock;

/// The engine's library, built for the server under test.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| c_library::build("engine"));

/// Makes the engine's functions.
fn prepare(session: &mut Session) {
    let sql = include_str!("../../../engine/engine.sql");
    session.run(&sql.replace("ENGINE", LIBRARY.to_str().expect("a path in UTF-8")));
}

/// A statement with a table of partial states `s`, each of the rows with one `part`.
fn combined(aggregate: &str, states: &str) -> String {
    format!("SELECT engine_combine('{aggregate}'::regprocedure, state) FROM ({states}) AS s (state)")
}

on_shared!(states_own_what_they_refer_to);
/// States, options and bytes of parts are used after the memory is gone that functions were looked up in.
fn states_own_what_they_refer_to(database: &Database) {
    let mut session = database.session();
    prepare(&mut session);
    session.run(
        "CREATE TABLE t AS SELECT i, i % 11 AS part, md5(i::text)::uuid AS k FROM generate_series(1, 30000) i;
         ANALYZE t",
    );
    for memory in ["4MB", "64kB"] {
        session.run(&format!("SET work_mem = '{memory}'"));
        for group in ["", "GROUP BY part", "GROUP BY part, i % 50"] {
            let states = format!(
                "SELECT engine_partial_typed('bloom_agg(anyelement)'::regprocedure, k) FROM t {group}"
            );
            session.run(&format!(
                "CREATE TABLE f AS {}",
                combined("bloom_agg(anyelement)", &format!("{states} ORDER BY 1"))
            ));
            let lost = session.one("SELECT count(*) FROM t, f AS f (b) WHERE (b @> k) IS NOT TRUE");
            assert_eq!(lost, "0", "{memory} {group}");
            if memory == "4MB" {
                let whole = session.one("SELECT bloom_agg(k) = (TABLE f) FROM t");
                assert_eq!(whole, "t", "{group}");
            }
            session.run("DROP TABLE f");
        }
    }
}

/// The aggregate of no type in particular, as others are compared with.
const ANY: &str = "CREATE AGGREGATE any_agg(anyelement) (SFUNC = bloom_agg_step, STYPE = internal,
    FINALFUNC = bloom_agg_final, COMBINEFUNC = bloom_agg_combine, SERIALFUNC = bloom_agg_serialize,
    DESERIALFUNC = bloom_agg_deserialize, PARALLEL = SAFE)";

/// The types that there are aggregates for by name, and a value of them made of a number.
const NAMED: [(&str, &str); 21] = [
    ("smallint", "(i % 30000)::smallint"),
    ("integer", "i"),
    ("bigint", "i * 10000000000"),
    ("oid", "i::oid"),
    ("real", "(i / 3.0)::real"),
    ("double precision", "i / 3.0::double precision"),
    ("numeric", "i / 7.0"),
    ("boolean", "i % 2 = 0"),
    ("text", "md5(i::text)"),
    ("character", "i::text::char(9)"),
    ("name", "md5(i::text)::name"),
    ("\"char\"", "(i % 128)::\"char\""),
    ("bytea", "decode(md5(i::text), 'hex')"),
    ("uuid", "md5(i::text)::uuid"),
    ("inet", "'10.0.0.0'::inet + i"),
    ("date", "'2026-01-01'::date + i"),
    ("time", "'00:00'::time + i * interval '7 s'"),
    ("timetz", "'00:00+02'::timetz + i * interval '7 s'"),
    ("timestamp", "'2026-01-01'::timestamp + i * interval '7 s'"),
    ("timestamptz", "'2026-01-01'::timestamptz + i * interval '7 s'"),
    ("interval", "i * interval '7 s'"),
];

on_shared!(steps_know_their_types);
/// Without an expression, a step function has only its own declaration to go by; the filter is the same.
fn steps_know_their_types(database: &Database) {
    let mut session = database.session();
    prepare(&mut session);
    session.run(ANY);
    for (name, value) in NAMED {
        let aggregate = format!("bloom_agg({name})");
        session.run(&format!(
            "DROP TABLE IF EXISTS t;
             CREATE TABLE t AS SELECT i % 3 AS part, {value} AS k FROM generate_series(1, 2000) i"
        ));
        let states = format!(
            "SELECT engine_partial('{aggregate}'::regprocedure, k) FROM t GROUP BY part ORDER BY part"
        );
        let by_engine = session.one(&combined(&aggregate, &states));
        let [own, any] =
            ["bloom_agg(k)", "any_agg(k)"].map(|form| session.one(&format!("SELECT {form} FROM t")));
        assert!(by_engine == own, "{name}: by an engine");
        assert!(any == own, "{name}: of any type");
    }
    // Where neither an expression nor the declaration says it, that is an error.
    let error = session.error("SELECT engine_partial('bloom_agg(anyelement)'::regprocedure, k) FROM t");
    assert_eq!(error.code().code(), "42P18", "{error}");
}

on_shared!(every_number_of_arguments);
fn every_number_of_arguments(database: &Database) {
    let mut session = database.session();
    prepare(&mut session);
    session.run(
        "CREATE TABLE t AS SELECT i % 3 AS part, i AS k, i::text AS v FROM generate_series(1, 20000) i;
         ANALYZE t",
    );
    for memory in ["4MB", "64kB"] {
        session.run(&format!("SET work_mem = '{memory}'"));
        for (types, arguments) in [
            ("double precision", "0.001::float8"),
            ("double precision, bigint", "0.001::float8, 30000::bigint"),
            ("double precision, bigint, text", "NULL::float8, 30000::bigint, 'rocksdb'::text"),
            ("double precision, bigint, text", "0.001::float8, NULL::bigint, 'leveldb'::text"),
        ] {
            for (name, value) in [("integer", "k"), ("text", "v")] {
                let aggregate = format!("bloom_agg({name}, {types})");
                let states = format!(
                    "SELECT engine_partial('{aggregate}'::regprocedure, {value}, {arguments}) FROM t GROUP BY part"
                );
                let combined = combined(&aggregate, &states);
                let lost = session.one(&format!(
                    "SELECT count(*) FROM t, ({combined}) f (b) WHERE (b @> {value}) IS NOT TRUE"
                ));
                assert_eq!(lost, "0", "{aggregate} {memory}");
                if memory == "4MB" || arguments.contains("30000") {
                    let own = format!("SELECT bloom_agg({value}, {arguments}) FROM t");
                    assert!(session.one(&combined) == session.one(&own), "{aggregate} {memory}");
                }
            }
        }
    }
    // A row's parameters count for each row, also where nothing is kept from one to the next.
    let aggregate = "bloom_agg(integer, double precision)";
    let error = session.error(&format!(
        "SELECT engine_partial('{aggregate}'::regprocedure, k, (1.0 / (k + 1))::float8) FROM t"
    ));
    assert!(error.message().contains("the same for all rows"), "{error}");
}

on_shared!(types_by_name);
/// Types and collations are in a state by name: of an enum, each database has another OID.
fn types_by_name(database: &Database) {
    let make = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'numb');
        CREATE FUNCTION mood_step(internal, mood) RETURNS internal
            LANGUAGE c AS '$libdir/pg_skip', 'bloom_agg_step_wrapper';
        CREATE AGGREGATE mood_agg(mood) (SFUNC = mood_step, STYPE = internal, FINALFUNC = bloom_agg_final,
            COMBINEFUNC = bloom_agg_combine, SERIALFUNC = bloom_agg_serialize, DESERIALFUNC = bloom_agg_deserialize);
        CREATE COLLATION ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    let other = Database::new(&format!("{}_other", database.name));
    let (mut here, mut there) = (database.session(), other.session());
    there.run("CREATE TYPE first AS ENUM ('a', 'b', 'c'); CREATE COLLATION first FROM \"C\"");
    for session in [&mut here, &mut there] {
        prepare(session);
        session.run(make);
    }
    let oid = "SELECT 'mood'::regtype::oid";
    assert_ne!(here.one(oid), there.one(oid));
    for (aggregate, of_here, of_there, value, other) in [
        ("mood_agg(mood)", "'sad'::mood", "'happy'::mood", "'{}'::mood", "'ok'::mood"),
        (
            "bloom_agg(text)",
            "'A'::text COLLATE ignore_case",
            "'b'::text COLLATE ignore_case",
            "'{}'::text COLLATE ignore_case",
            "'c'::text COLLATE ignore_case",
        ),
    ] {
        let part = |value: &str| format!("SELECT engine_partial('{aggregate}'::regprocedure, {value})");
        let sent = there.one(&part(of_there));
        let states = format!("{} UNION ALL SELECT '{sent}'::bytea", part(of_here));
        here.run(&format!("DROP TABLE IF EXISTS f; CREATE TABLE f AS {}", combined(aggregate, &states)));
        let found = if aggregate.starts_with("mood") { ["sad", "happy"] } else { ["a", "B"] };
        for key in found {
            let asked = value.replace("{}", key);
            assert_eq!(here.one(&format!("SELECT b @> {asked} FROM f AS f (b)")), "t", "{aggregate} {key}");
        }
        let own = here.one(&format!(
            "SELECT bloom_agg(v) FROM (VALUES ({of_here}), ({})) x (v)",
            value.replace("{}", found[1])
        ));
        assert_eq!(here.one("TABLE f"), own, "{aggregate}");
        assert_eq!(here.one(&format!("SELECT b @> {other} FROM f AS f (b)")), "f", "{aggregate}");
    }
}

on_shared!(parts_are_checked);
/// Bytes from outside are a state or an error; nobody is given this process's memory for them.
fn parts_are_checked(database: &Database) {
    let mut session = database.session();
    prepare(&mut session);
    let good = session
        .one("SELECT engine_partial('bloom_agg(integer)'::regprocedure, i) FROM generate_series(1, 3) i");
    let other = session
        .one("SELECT engine_partial('bloom_agg(text)'::regprocedure, i::text) FROM generate_series(1, 3) i");
    let states = |sent: &[&str]| {
        let rows: Vec<_> = sent.iter().map(|sent| format!("('{sent}'::bytea)")).collect();
        combined("bloom_agg(integer)", &format!("VALUES {}", rows.join(", ")))
    };
    session.run(&states(&[&good, &good]));
    let error = session.error(&states(&[&good, &other]));
    assert_eq!(error.code().code(), "42804", "{error}");
    let cut = &good[..good.len() - 16];
    let no_more = format!("{good}00");
    let sent = ["\\x", "\\x00", "\\x01", "\\x02", "\\x03", cut, &no_more];
    let of_eights = |first: &str, count: usize| format!("\\x{first}{}", "0100000000000000".repeat(count));
    let made_up = [of_eights("01", 3), of_eights("02", 1), of_eights("01", 2), of_eights("00", 3)];
    for sent in sent.into_iter().chain(made_up.iter().map(String::as_str)) {
        let error = session.error(&states(&[sent]));
        assert_eq!(error.code().code(), "XX001", "{sent}: {error}");
    }
}

/// A type as citext is one, which not every server has.
pub const NOCASE: &str = "CREATE TYPE nocase;
    CREATE FUNCTION nocase_in(cstring) RETURNS nocase LANGUAGE internal IMMUTABLE STRICT AS 'textin';
    CREATE FUNCTION nocase_out(nocase) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
    CREATE TYPE nocase (INPUT = nocase_in, OUTPUT = nocase_out, LIKE = text, CATEGORY = 'S', COLLATABLE = true);
    CREATE CAST (nocase AS text) WITHOUT FUNCTION AS IMPLICIT;
    CREATE CAST (text AS nocase) WITHOUT FUNCTION AS ASSIGNMENT;
    CREATE FUNCTION nocase_eq(nocase, nocase) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
        RETURN lower($1::text) = lower($2::text);
    CREATE FUNCTION nocase_lt(nocase, nocase) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
        RETURN lower($1::text) < lower($2::text);
    CREATE FUNCTION nocase_cmp(nocase, nocase) RETURNS integer LANGUAGE sql IMMUTABLE STRICT
        RETURN bttextcmp(lower($1::text), lower($2::text));
    CREATE FUNCTION nocase_hash(nocase) RETURNS integer LANGUAGE sql IMMUTABLE STRICT
        RETURN hashtext(lower($1::text));
    CREATE FUNCTION nocase_hash(nocase, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT
        RETURN hashtextextended(lower($1::text), $2);
    CREATE OPERATOR = (LEFTARG = nocase, RIGHTARG = nocase, FUNCTION = nocase_eq, HASHES, MERGES);
    CREATE OPERATOR < (LEFTARG = nocase, RIGHTARG = nocase, FUNCTION = nocase_lt);
    CREATE OPERATOR CLASS nocase_hash_ops DEFAULT FOR TYPE nocase USING hash AS
        OPERATOR 1 =, FUNCTION 1 nocase_hash(nocase), FUNCTION 2 nocase_hash(nocase, bigint);
    CREATE OPERATOR CLASS nocase_ops DEFAULT FOR TYPE nocase USING btree AS
        OPERATOR 1 <, OPERATOR 3 =, FUNCTION 1 nocase_cmp(nocase, nocase)";

on_shared!(resolves_for_every_type);
/// Every call that was good with one polymorphic aggregate is good beside those by name, and the filter is the same.
fn resolves_for_every_type(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    session.run(ANY);
    for (number, kind) in TYPES.iter().enumerate() {
        let samples = kind.samples(seed() + number as u64);
        let values: Vec<_> = samples.iter().map(|value| format!("({})", kind.constant(value))).collect();
        let rows = format!("(VALUES {}) x (v)", values.join(", "));
        let [own, any] =
            ["bloom_agg(v)", "any_agg(v)"].map(|form| session.one(&format!("SELECT {form} FROM {rows}")));
        assert!(own == any, "{}", kind.name);
    }
    // NULLs of all types that there are, but for the server's internal ones (pg_dependencies …): no two aggregates are
    // equally good for one.
    let names = session.column(
        "SELECT format_type(oid, NULL) FROM pg_type
         WHERE typtype IN ('b', 'e', 'd', 'r', 'm') AND typisdefined AND (typcategory <> 'Z' OR typname = 'char')
         ORDER BY 1",
    );
    for name in names {
        if let Err(error) = session.try_rows(&format!(
            "SELECT bloom_agg(v), bloom_agg(v, 0.1), bloom_agg(v, 0.1, 5) FROM (VALUES (NULL::{name})) x (v)"
        )) {
            let code = error.code().map(|code| code.code().to_owned());
            assert!(matches!(code.as_deref(), Some("42883" | "0A000")), "{name}: {error:?}");
            let of_any = session.try_rows(&format!("SELECT any_agg(NULL::{name})"));
            assert!(of_any.is_err(), "{name}: {error:?}"); // never was a key
        }
    }
    session.run("CREATE DOMAIN digit AS int CHECK (value < 10); CREATE DOMAIN label AS varchar(9)");
    for (call, asked) in [
        ("bloom_agg('x'::varchar)", "'x'::text"),
        ("bloom_agg('literal')", "'literal'::text"),
        ("bloom_agg('literal', 0.001, NULL, 'rocksdb')", "'literal'::varchar"),
        ("bloom_agg(3::digit)", "3"),
        ("bloom_agg('x'::label)", "'x'::text"),
        ("bloom_agg('10.0.0.0/8'::cidr)", "'10.0.0.0/8'::inet"),
        ("bloom_agg('pg_class'::regclass)", "1259::oid"),
    ] {
        assert_eq!(session.one(&format!("SELECT {call} @> {asked}")), "t", "{call}");
    }
    // A type that SQL would cast to text in silence keeps its own equality.
    session.run(NOCASE);
    session.run(
        "CREATE TABLE c AS SELECT ('Key ' || i)::nocase AS k, i FROM generate_series(1, 2000) i; ANALYZE c",
    );
    for form in ["bloom_agg(k)", "bloom_agg(DISTINCT k)", "bloom_agg(k ORDER BY i)", "bloom_agg(k, 0.001)"] {
        for setting in ["max_parallel_workers_per_gather = 0", "enable_hashagg = off"] {
            session.run(&format!("SET {setting}"));
            for query in [
                format!(
                    "SELECT bool_and(b @> 'key 7' AND b @> 'KEY 9'::nocase) FROM (SELECT {form} FROM c) f (b)"
                ),
                format!(
                    "SELECT bool_and(b @> upper('key ' || g)::nocase) FROM (SELECT i % 100, {form} FROM c
                     WHERE i < 100 GROUP BY 1) f (g, b)"
                ),
            ] {
                assert_eq!(session.one(&query), "t", "{query}");
            }
        }
        super::aggregate::make_parallel(&mut session);
        assert_eq!(
            session.one(&format!("SELECT b @> 'key 7' FROM (SELECT {form} FROM c) f (b)")),
            "t",
            "{form}"
        );
    }
    casts_elsewhere(&mut session);
    for call in ["bloom_agg(NULL)", "bloom_agg(NULL, 0.1)", "bloom_agg(NULL, NULL, NULL, NULL)"] {
        assert_eq!(session.one(&format!("SELECT {call}")), "NULL", "{call}");
    }
}

/// The same where the cast is not in the aggregate's own node: computed below, by branches of an Append, and for
/// windows.
fn casts_elsewhere(session: &mut Session) {
    session.run(
        "CREATE TABLE parts (k nocase, t text, i int) PARTITION BY LIST (i);
         CREATE TABLE parts_0 PARTITION OF parts FOR VALUES IN (0);
         CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
         INSERT INTO parts SELECT k, 'Key ' || c.i, c.i % 2 FROM c;
         CREATE INDEX ON parts (k); ANALYZE parts",
    );
    for setting in ["enable_sort = on", "enable_partitionwise_aggregate = on", "enable_hashjoin = off"] {
        session.run(&format!("SET {setting}"));
        for from in [
            "bloom_agg(k) FROM parts",
            "bloom_agg(DISTINCT k) FROM parts",
            "bloom_agg(k ORDER BY k) FROM parts",
            "bloom_agg(k ORDER BY k::text) FROM parts",
            "bloom_agg(k) FROM (SELECT k FROM parts_0 UNION ALL SELECT k FROM parts_1) u",
            "bloom_agg(DISTINCT p.k) FROM parts p JOIN c USING (i)",
            "bloom_agg(k) OVER () FROM parts",
            "bloom_agg(k) OVER (ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM parts",
        ] {
            let query = format!("SELECT DISTINCT b @> 'key 7' FROM (SELECT {from}) f (b) LIMIT 1");
            assert_eq!(session.one(&query), "t", "{setting}: {query}");
        }
        let query = "SELECT b @> 'key 7' OR NOT b @> 'Key 7'
            FROM (SELECT bloom_agg(t) OVER () FROM parts) f (b) LIMIT 1";
        assert_eq!(session.one(query), "f", "texts are keys as they are");
    }
    // One node for keys of two types: it does not say which call is whose.
    let error = session.error("SELECT bloom_agg(k) OVER (), bloom_agg(t) OVER () FROM parts");
    assert_eq!(error.code().code(), "42P18", "{}", error.message());
    // A domain is no type of its own.
    session.run("CREATE DOMAIN label_of_parts AS text");
    let of_domain =
        "SELECT bloom_agg(t::label_of_parts) OVER () @> 'Key 7', bloom_agg(t) OVER () @> 'Key 7' FROM parts";
    assert_eq!(session.one(&format!("SELECT DISTINCT a AND b FROM ({of_domain}) f (a, b)")), "t");
    // Nor does a column of both types say which equality is meant.
    let of_both =
        |one, other| format!("(SELECT {one} FROM parts_0 UNION ALL SELECT {other} FROM parts_1) u (x)");
    for (one, other) in [("k", "t"), ("t", "k")] {
        let error = session.error(&format!("SELECT bloom_agg(x) FROM {}", of_both(one, other)));
        assert_eq!(error.code().code(), "42P18", "{}", error.message());
    }
    let of_texts = of_both("k::text", "t");
    assert_eq!(session.one(&format!("SELECT bloom_agg(x) @> 'Key 7' FROM {of_texts}")), "t");
    session.run("RESET ALL");
}
