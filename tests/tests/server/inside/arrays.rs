//! Elements of arrays: `@>`, `&&`, `=` and `value = ANY (column)`.
use super::{Inside, Search, gives_ranges, live, skips_many};
use crate::registry::on_shared;
use crate::shared::{self, Database};
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way, same};
use pg_skip_tests::compare;
use pg_skip_tests::compare::{Question, sound};
use pg_skip_tests::session::Session;

on_shared!(texts);
fn texts(database: &Database) {
    let mut session = database.session();
    live(
        &mut session,
        &Inside {
            name: "inside::arrays::texts",
            kind: "text[]",
            indexed: "v array_element_skip_ops",
            value: |rng| array(rng, "text"),
            search: |rng| search(rng, "text"),
        },
        0,
    );
}

on_shared!(integers);
fn integers(database: &Database) {
    let mut session = database.session();
    live(
        &mut session,
        &Inside {
            name: "inside::arrays::integers",
            kind: "int4[]",
            indexed: "v array_element_skip_ops",
            value: |rng| array(rng, "int4"),
            search: |rng| search(rng, "int4"),
        },
        0,
    );
}

on_shared!(numerics);
fn numerics(database: &Database) {
    let mut session = database.session();
    live(
        &mut session,
        &Inside {
            name: "inside::arrays::numerics",
            kind: "numeric[]",
            indexed: "v array_element_skip_ops",
            value: |rng| array(rng, "numeric"),
            search: |rng| search(rng, "numeric"),
        },
        0,
    );
}

/// One of many values, of which a few are frequent.
fn element(rng: &mut Rng, kind: &str) -> String {
    let number = if rng.bool() { rng.u32(..6) } else { rng.u32(..400) };
    match kind {
        "text" => format!("'w{number}'"),
        "numeric" if rng.bool() => format!("{number}.00"),
        _ => number.to_string(),
    }
}

fn array(rng: &mut Rng, kind: &str) -> String {
    let mut elements = |most: usize| -> Vec<String> {
        let count = rng.usize(..=most);
        let one = |rng: &mut Rng| if rng.u32(..8) == 0 { "NULL".to_owned() } else { element(rng, kind) };
        (0..count).map(|_| one(rng)).collect()
    };
    let first = elements(4).join(", ");
    if first.len() % 5 == 1 {
        let row = first.replace('w', "x");
        return format!("ARRAY[[{first}], [{row}]]::{kind}[]").replace("'x", "'w");
    }
    if first.len() % 7 == 3 {
        return format!(
            "('[3:3]=' || ARRAY[{}]::{kind}[]::text)::{kind}[]",
            first.split(", ").next().unwrap_or("1")
        );
    }
    format!("ARRAY[{first}]::{kind}[]")
}

fn search(rng: &mut Rng, kind: &str) -> Search {
    let of = |predicate: &str, kind: String, value: String, is_served| Search {
        predicate: predicate.into(),
        kind,
        value,
        is_served,
    };
    let list = format!("{kind}[]");
    match rng.u32(..12) {
        0..=2 => of("$1 = ANY (v)", kind.into(), element(rng, kind), true),
        3..=4 => of("v @> $1", list.clone(), array(rng, kind), true),
        5 => of("v @> $1", list.clone(), format!("ARRAY[{}]::{list}", element(rng, kind)), true),
        6 => of("v && $1", list.clone(), array(rng, kind), true),
        7 => of("$1 <@ v", list.clone(), array(rng, kind), true),
        8 => of("v = $1", list.clone(), array(rng, kind), true),
        9 => of("v IS NOT DISTINCT FROM $1", list.clone(), array(rng, kind), true),
        10 => {
            let (one, two) = (element(rng, kind), element(rng, kind));
            of(
                &format!("(v @> ARRAY[{one}]::{list} OR {two} = ANY (v)) AND $1 <> ALL (v)"),
                kind.into(),
                two,
                true,
            )
        }
        _ => {
            let tests = [
                "v IS NULL",
                "v IS NOT NULL",
                "v <@ '{1,2,3}'",
                "NOT v @> '{}'",
                "1::text <> ANY (v::text[])",
            ];
            of(tests[rng.usize(..tests.len())], kind.into(), "NULL".into(), false)
        }
    }
}

/// A table of 2,000 rows in which each word `w1`, `w2`, … is in one row, and `all` in every one.
fn words(session: &mut Session) {
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text[], n int4[], filler text DEFAULT repeat('x', 200));
         INSERT INTO t (v, n) SELECT ARRAY['all', 'w' || i], ARRAY[i, -i] FROM generate_series(1, 2000) i;
         INSERT INTO t (v, n) VALUES ('{}', '{}'), ('{NULL}', '{NULL}'), (NULL, NULL),
            ('{{w1,NULL},{w2,w3}}', '{{1,2}}');
         CREATE INDEX t_v ON t USING skip (v array_element_skip_ops, n array_element_skip_ops)
         WITH (pages_per_range = 2); ANALYZE t",
    );
}

on_shared!(operators);
/// What each operator must use, and skip, and find.
fn operators(database: &Database) {
    let mut session = database.session();
    words(&mut session);
    for (predicate, found) in [
        ("v @> '{w700}'", 1),
        ("v @> '{w700,all}'", 1),
        ("v @> '{w700,w701}'", 0),
        ("v && '{w700,w1500,absent}'", 2),
        ("'w700' = ANY (v)", 1),
        ("'w2' = ANY (v)", 2),
        ("v = '{all,w700}'", 1),
        ("v @> '{all,NULL}'", 0),
        ("v && '{NULL}'", 0),
        ("v && '{}'", 0),
        ("v = '{}'", 1),
        ("v = '{NULL}'", 1),
        ("700 = ANY (n)", 1),
        ("700::bigint = ANY (n)", 1),
        ("(-700)::smallint = ANY (n)", 1),
        ("n @> '{700}' AND v @> '{w700}'", 1),
        ("n @> '{700}' AND v @> '{w701}'", 0),
        ("(700 = ANY (n) OR v @> '{w900}')", 2),
        ("v IS NULL", 1),
    ] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        same(&mut session, &Way::skip_scan(), &Case::using(&statement));
        let count = session.number(&format!("SELECT count(*) FROM t WHERE {predicate}"));
        assert_eq!(count, f64::from(found), "{predicate}");
        Way::skip_scan().set(&mut session);
        skips_many(&mut session, &statement);
        session.run("RESET ALL");
    }
    // All but the NULL.
    for predicate in ["v @> '{}'", "v IS NOT NULL"] {
        compare::same(&mut session, "t", &Question::using("t_v", predicate));
        assert_eq!(
            session.number(&format!("SELECT count(*) FROM t WHERE {predicate}")),
            2003.0,
            "{predicate}"
        );
    }
    for predicate in ["v @> '{w700}'", "v && '{w5,w6}'", "v = '{all,w700}'", "'{w9}' <@ v"] {
        compare::same(&mut session, "t", &Question::using("t_v", predicate));
    }
    sound(&mut session, "t_v");
}

on_shared!(rows_inserted_into_summarized_ranges);
/// Rows that came into summarized ranges: also those whose arrays have no keys.
fn rows_inserted_into_summarized_ranges(database: &Database) {
    let mut session = database.session();
    words(&mut session);
    session.run("DELETE FROM t WHERE id BETWEEN 100 AND 400");
    session.run("VACUUM t");
    session.run(
        "INSERT INTO t (v, n) SELECT ARRAY['new', 'n' || i], '{}' FROM generate_series(1, 50) i;
         INSERT INTO t (v, n) VALUES ('{}', '{}'), ('{NULL}', '{NULL}'), (NULL, '{5000}')",
    );
    for step in ["SELECT 1", "SELECT skip_summarize('t_v')", "VACUUM t"] {
        session.run(step);
        for predicate in [
            "v @> '{n7}'",
            "v @> '{new,n7}'",
            "'new' = ANY (v)",
            "v @> '{}'",
            "v = '{}'",
            "n = '{}'",
            "v IS NULL AND 5000 = ANY (n)",
            "n IS NOT NULL AND v && '{n9,n10}'",
        ] {
            same(
                &mut session,
                &Way::skip_scan(),
                &Case::using(format!("SELECT id FROM t WHERE {predicate}")),
            );
        }
        sound(&mut session, "t_v");
    }
    // A partial table: the only value of a range is an array without elements.
    session.run(
        "CREATE TABLE e (id int GENERATED ALWAYS AS IDENTITY, v int[], filler text DEFAULT repeat('x', 900));
         INSERT INTO e (v) SELECT NULL FROM generate_series(1, 200);
         CREATE INDEX e_v ON e USING skip (v array_element_skip_ops) WITH (pages_per_range = 1);
         DELETE FROM e WHERE id % 8 = 0",
    );
    session.run("VACUUM e");
    session.run("INSERT INTO e (v) VALUES ('{}')");
    for step in ["SELECT 1", "SELECT skip_summarize('e_v')", "VACUUM e", "REINDEX INDEX e_v"] {
        session.run(step);
        for predicate in ["v IS NOT NULL", "v @> '{}'", "v = '{}'"] {
            same(
                &mut session,
                &Way::skip_scan(),
                &Case::using(format!("SELECT id FROM e WHERE {predicate}")),
            );
            assert_eq!(session.number(&format!("SELECT count(*) FROM e WHERE {predicate}")), 1.0);
        }
        sound(&mut session, "e_v");
    }
}

on_shared!(element_types);
/// Element types of every width and way of hashing, under collations, and domains over arrays and over elements.
fn element_types(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    session.run(
        "CREATE DOMAIN short_name AS name; CREATE DOMAIN tag AS text CHECK (VALUE <> ''); CREATE DOMAIN tags AS tag[];
         CREATE DOMAIN numbers AS int[]; CREATE TYPE hue AS ENUM ('v1', 'v2', 'v3')",
    );
    for (kind, cast, value) in [
        ("bool[]", "bool", "# % 3 = 0"),
        ("int2[]", "int2", "#"),
        ("int8[]", "int8", "#"),
        ("float4[]", "float4", "#"),
        ("float8[]", "float8", "CASE WHEN # % 2 = 0 THEN -0.0 ELSE # END"),
        ("date[]", "date", "date '2020-01-01' + #"),
        ("uuid[]", "uuid", "md5(#::text)::uuid"),
        ("\"char\"[]", "\"char\"", "chr(65 + # % 20)::\"char\""),
        ("char(5)[]", "bpchar", "'v' || #"),
        ("varchar[]", "varchar", "'v' || #"),
        ("varchar(9)[]", "text", "'v' || #"),
        ("name[]", "name", "'v' || #"),
        ("short_name[]", "name", "'v' || #"),
        ("short_name[]", "short_name", "'v' || #"),
        ("tag[]", "tag", "'v' || #"),
        ("tags", "tag", "'v' || #"),
        ("numbers", "int", "#"),
        ("numbers", "bigint", "#"),
        ("int4range[]", "int4range", "int4range(#, # + 2)"),
        ("hue[]", "hue", "('v' || 1 + # % 3)"),
        ("text[] COLLATE nocase", "text", "'v' || #"),
        ("varchar[] COLLATE nocase", "varchar", "'v' || #"),
        ("bytea[]", "bytea", "('v' || #)::bytea"),
        ("jsonb[]", "jsonb", "to_jsonb(#)"),
        ("inet[]", "inet", "'10.0.0.0'::inet + #"),
        ("interval[]", "interval", "# * interval '1 month'"),
    ] {
        let of_row = value.replace('#', "i");
        session.run(&format!(
            "DROP TABLE IF EXISTS t;
             CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v {kind}, filler text DEFAULT repeat('x', 300));
             INSERT INTO t (v) SELECT ARRAY[({of_row})::{cast}, NULL, ({of_row})::{cast}]
                FROM generate_series(1, 200) i;
             CREATE INDEX t_v ON t USING skip (v array_element_skip_ops) WITH (pages_per_range = 1);
             INSERT INTO t (v) SELECT ARRAY[({of_row})::{cast}] FROM generate_series(1, 20) i"
        ));
        for i in [1, 2, 7, 199, 5000] {
            let element = format!("({})::{cast}", value.replace('#', &i.to_string()));
            for predicate in [
                format!("{element} = ANY (v)"),
                format!("v @> ARRAY[{element}]::{}", kind.replace(" COLLATE nocase", "")),
                format!("v && ARRAY[{element}, NULL]::{}", kind.replace(" COLLATE nocase", "")),
            ] {
                let way = Way::skip_scan();
                same(&mut session, &way, &Case::any(format!("SELECT id FROM t WHERE {predicate}")));
                compare::same(&mut session, "t", &Question::any(predicate.clone()));
            }
        }
        sound(&mut session, "t_v");
    }
}

on_shared!(collations);
/// A comparison under another collation than the index's cannot be looked up; one under the same can.
fn collations(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text[] COLLATE nocase,
            filler text DEFAULT repeat('x', 300));
         INSERT INTO t (v) SELECT ARRAY['v' || i] FROM generate_series(1, 300) i;
         CREATE INDEX t_v ON t USING skip (v array_element_skip_ops) WITH (pages_per_range = 1)",
    );
    for predicate in ["'V7' = ANY (v)", "v @> '{V7}'", "v && '{V7,V8}'", "v = '{V7}'"] {
        let case = Case::using(format!("SELECT id FROM t WHERE {predicate}"));
        assert!(same(&mut session, &Way::skip_scan(), &case), "{predicate}");
        assert!(session.number(&format!("SELECT count(*) FROM t WHERE {predicate}")) > 0.0, "{predicate}");
    }
    for predicate in ["'V7' COLLATE \"C\" = ANY (v)", "v @> '{V7}'::text[] COLLATE \"C\""] {
        let case = Case::any(format!("SELECT id FROM t WHERE {predicate}"));
        assert!(!same(&mut session, &Way::skip_scan(), &case), "{predicate}");
    }
}

on_shared!(joins);
/// The value comes from another table, or from a subquery.
fn joins(database: &Database) {
    let mut session = database.session();
    words(&mut session);
    session.run(
        "CREATE TABLE o (w text, ws text[]);
         INSERT INTO o SELECT 'w' || i * 100, ARRAY['w' || i, NULL] FROM generate_series(1, 9) i;
         INSERT INTO o VALUES (NULL, NULL); ANALYZE o",
    );
    for statement in [
        "SELECT t.id, w FROM o JOIN t ON w = ANY (v)",
        "SELECT t.id, w FROM o JOIN t ON v @> ARRAY[w]",
        "SELECT t.id, w FROM o JOIN t ON v && ws",
        "SELECT id FROM t WHERE (SELECT max(w) FROM o) = ANY (v)",
        "SELECT id FROM t WHERE v && ARRAY(SELECT w FROM o)",
    ] {
        same(&mut session, &Way::skip_scan().nested_loop(), &Case::any(statement));
        same(&mut session, &Way::skip_scan().parallel(), &Case::any(statement));
    }
}

on_shared!(inspection_functions_ask_as_contains);
/// The functions that look a value up ask as `@>` does.
fn inspection_functions_ask_as_contains(database: &Database) {
    let mut session = database.session();
    words(&mut session);
    gives_ranges(&mut session, 1, "SELECT skip_matching_ranges('t_v', 'v', ARRAY['w700'])");
    gives_ranges(&mut session, 0, "SELECT skip_matching_ranges('t_v', 'v', '{w700,w1700}'::text)");
    let map = session.one("SELECT skip_range_map('t_v', 'v', ARRAY['w700'], 10000)");
    let found = session.one("SELECT skip_range_map('t_v', 'v', ARRAY['absent'], 10000)");
    assert_ne!(map, found);
    assert_eq!(session.error("SELECT skip_matching_ranges('t_v', 'n', 5)").code().code(), "42804");
    assert_eq!(
        session
            .one("SELECT bool_and(amvalidate(oid)) FROM pg_opclass WHERE opcname = 'array_element_skip_ops'"),
        "t"
    );
    let error =
        session.error("CREATE TABLE p (v point[]); CREATE INDEX ON p USING skip (v array_element_skip_ops)");
    assert_eq!(error.code().code(), "42883", "{error:?}");
}
