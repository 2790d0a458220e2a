//! Insides of jsonb documents: containment, existence of keys, and comparisons of parts.
use super::{Inside, Search, gives_ranges, live, skips_many};
use crate::registry::on_shared;
use crate::shared::{self, Database};
use fastrand::Rng;
use pg_skip_tests::both_ways::{self, Case, Way, same, skips};
use pg_skip_tests::compare::{self, Question, sound};
use pg_skip_tests::server;
use pg_skip_tests::session::Session;

on_shared!(random_0 = random(0));
on_shared!(random_1 = random(1));
fn random(database: &Database, number: u64) {
    let mut session = database.session();
    let inside = Inside {
        name: "inside::documents::random_0",
        kind: "jsonb",
        indexed: "v jsonb_path_skip_ops",
        value: |rng| constant(&document(rng)),
        search,
    };
    live(&mut session, &inside, number << 32);
}

/// Strings that are hard to tell from something else.
const STRINGS: [&str; 22] = [
    "",
    "x",
    "y",
    "1",
    "1.0",
    " 1 ",
    "+1",
    "true",
    "false",
    "null",
    "a",
    "b",
    "{}",
    "[]",
    "{\"a\": 1}",
    "[1]",
    "-1",
    "0",
    "1e2",
    "é",
    "日本",
    "\"quoted\"",
];
const NUMBERS: [&str; 14] = [
    "0",
    "-0",
    "0.0",
    "1",
    "1.0",
    "1.00",
    "-1",
    "100",
    "1e2",
    "1E+2",
    "0.1",
    "1e-1",
    "123456789012345678901234.5",
    "7",
];
const NAMES: [&str; 8] = ["a", "b", "c", "0", "1", "-1", "", "é"];

fn scalar(rng: &mut Rng) -> String {
    match rng.u32(..8) {
        0..=2 => format!("\"{}\"", STRINGS[rng.usize(..STRINGS.len())].replace('"', "\\\"")),
        3..=4 => NUMBERS[rng.usize(..NUMBERS.len())].to_owned(),
        5 => ["true", "false", "null"][rng.usize(..3)].to_owned(),
        6 => format!("\"s{}\"", rng.u32(..300)),
        _ => rng.u32(..300).to_string(),
    }
}

fn value(rng: &mut Rng, depth: u32) -> String {
    match rng.u32(..6) {
        0 if depth > 0 => {
            let parts: Vec<_> = (0..rng.usize(..4)).map(|_| value(rng, depth - 1)).collect();
            format!("[{}]", parts.join(", "))
        }
        1..=2 if depth > 0 => object(rng, depth - 1, ""),
        _ => scalar(rng),
    }
}

fn object(rng: &mut Rng, depth: u32, more: &str) -> String {
    let mut parts: Vec<_> = (0..rng.usize(..4))
        .map(|_| format!("\"{}\": {}", NAMES[rng.usize(..NAMES.len())], value(rng, depth)))
        .collect();
    if !more.is_empty() {
        parts.push(more.to_owned());
    }
    format!("{{{}}}", parts.join(", "))
}

/// The name `n` has what can be read as an integer, and `d` as a number; both only in the outermost object.
fn document(rng: &mut Rng) -> String {
    let later = server::install().version >= 16;
    let integers: &[&str] = if later {
        &[
            "5",
            "\"5\"",
            "\" 5 \"",
            "\"+5\"",
            "\"005\"",
            "6",
            "\"-6\"",
            "null",
            "\"0x5\"",
            "\"0b101\"",
            "\"1_0\"",
            "10",
        ]
    } else {
        &["5", "\"5\"", "\" 5 \"", "\"+5\"", "\"005\"", "6", "\"-6\"", "null", "10"]
    };
    let decimals = [
        "5",
        "5.0",
        "\"5.00\"",
        "\"5e0\"",
        "\"50e-1\"",
        "\".5\"",
        "0.50",
        "\"5.\"",
        "\"NaN\"",
        "-0.0",
        "\"-0\"",
    ];
    let integer = format!("\"n\": {}", integers[rng.usize(..integers.len())]);
    let decimal = format!("\"d\": {}", decimals[rng.usize(..decimals.len())]);
    match rng.u32(..10) {
        0 => value(rng, 3),
        1..=3 => object(rng, 2, &integer),
        4..=5 => object(rng, 2, &decimal),
        _ => object(rng, 3, ""),
    }
}

fn constant(document: &str) -> String {
    format!("'{document}'::jsonb")
}

/// A quoted text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn name(rng: &mut Rng) -> String {
    quoted(NAMES[rng.usize(..NAMES.len())])
}

/// What `->>` may give.
fn shown(rng: &mut Rng) -> String {
    match rng.u32(..6) {
        0..=1 => quoted(STRINGS[rng.usize(..STRINGS.len())]),
        2 => quoted(NUMBERS[rng.usize(..NUMBERS.len())]),
        3 => quoted(&format!("s{}", rng.u32(..300))),
        4 => quoted(&rng.u32(..300).to_string()),
        _ => format!("({} ->> 0)", constant(&format!("[{}]", value(rng, 2)))),
    }
}

/// An expression for a part of `v`, without its last step, and the last step.
fn part(rng: &mut Rng) -> (String, String) {
    let mut base = "v".to_owned();
    for _ in 0..rng.usize(..3) {
        let step = match rng.u32(..6) {
            0 => format!("-> {}", rng.i32(-2..3)),
            1 => format!("#> ARRAY[{}, {}]", name(rng), name(rng)),
            2 => format!("[{}]", name(rng)),
            3 => format!("[{}]", rng.i32(-2..3)),
            _ => format!("-> {}", name(rng)),
        };
        base = if step.starts_with('[') { format!("({base}){step}") } else { format!("({base} {step})") };
    }
    let last = match rng.u32(..4) {
        0 => rng.i32(-2..3).to_string(),
        _ => name(rng),
    };
    (base, last)
}

fn search(rng: &mut Rng) -> Search {
    let of = |predicate: String, kind: &str, value: String| {
        // A path of many steps, each of which may be a name or the number of an element, is not looked up.
        let digits = predicate.replace("$1", "").matches(|c: char| c.is_ascii_digit()).count();
        Search { predicate, kind: kind.into(), value, is_served: digits <= 3 }
    };
    let (base, last) = part(rng);
    let list = |rng: &mut Rng, one: fn(&mut Rng) -> String, kind: &str| {
        let mut parts: Vec<_> = (0..rng.usize(..4)).map(|_| one(rng)).collect();
        if rng.u32(..5) == 0 {
            parts.push("NULL".into());
        }
        format!("ARRAY[{}]::{kind}[]", parts.join(", "))
    };
    // What an element of an array may be is not looked up.
    let is_of_name = base == "v" && last.starts_with('\'');
    match rng.u32(..22) {
        20 => Search {
            is_served: is_of_name,
            ..of(format!("{base} ->> {last} IS NOT NULL"), "text", String::new())
        },
        21 => {
            let part = format!("({base} #>> ARRAY[{}, {}])", name(rng), name(rng));
            let one =
                [format!("{base} -> {last}"), format!("({base})[{last}]"), part][rng.usize(..3)].clone();
            let found = of(format!("{one} IS NOT NULL"), "text", String::new());
            Search { is_served: is_of_name && one.contains("->"), ..found }
        }
        0..=1 => of("v @> $1".into(), "jsonb", constant(&document(rng))),
        2 => of("v @> $1".into(), "jsonb", constant(&value(rng, 1))),
        3 => of("$1 <@ v".into(), "jsonb", constant(&object(rng, 1, ""))),
        4 => of("v @> ANY ($1)".into(), "jsonb[]", list(rng, |rng| constant(&value(rng, 1)), "jsonb")),
        5 => of("v = $1".into(), "jsonb", constant(&document(rng))),
        6 => of("v ? $1".into(), "text", name(rng)),
        7 => of("v ?| $1".into(), "text[]", list(rng, name, "text")),
        8 => of("v ?& $1".into(), "text[]", list(rng, name, "text")),
        9..=11 => of(format!("{base} ->> {last} = $1"), "text", shown(rng)),
        12 => of(format!("{base} ->> {last} = ANY ($1)"), "text[]", list(rng, shown, "text")),
        13 => of(format!("$1 = {base} #>> ARRAY[{}, {}]", name(rng), name(rng)), "text", shown(rng)),
        14 => of(format!("({base})[{last}] = $1"), "jsonb", constant(&value(rng, 1))),
        15 => of(format!("{base} -> {last} @> $1"), "jsonb", constant(&value(rng, 1))),
        16 => {
            let kind = ["int", "bigint", "smallint"][rng.usize(..3)];
            let value = ["5", "-6", "10", "6"][rng.usize(..4)].to_owned();
            of(format!("(v ->> 'n')::{kind} = $1"), ["int", "bigint", "smallint"][rng.usize(..3)], value)
        }
        17..=18 => {
            let value = ["5", "0.5", "0", "5.00", "'NaN'"][rng.usize(..5)];
            of("(v ->> 'd')::numeric = $1".into(), "numeric", format!("{value}::numeric"))
        }
        _ => of(format!("({base} ->> {last} = $1 OR v ? 'c') AND v IS NOT NULL"), "text", shown(rng)),
    }
}

/// A table of 2,000 documents, and some odd ones.
fn events(session: &mut Session) {
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v jsonb, filler text DEFAULT repeat('x', 200));
         INSERT INTO t (v) SELECT jsonb_build_object('user', 'u' || i, 'n', i, 'kind', 'k' || i % 3,
            'in', jsonb_build_object('id', i, 'tags', jsonb_build_array('all', 't' || i, i)))
            FROM generate_series(1, 2000) i;
         INSERT INTO t (v) VALUES ('{}'), ('[]'), (NULL), ('null'), ('\"u7\"'), ('[\"u7\", [\"deep\"]]'), ('5'),
            ('{\"only\": {}}'), ('{\"n\": \" 700\"}'), ('{\"n\": 700.00}');
         INSERT INTO t (v) SELECT '{\"row\": 0}' FROM generate_series(1, 100);
         INSERT INTO t (v) VALUES ('{\"flag\": true, \"odd\": \"1e1\", \"text\": \" 11 \"}');
         CREATE INDEX t_v ON t USING skip (v jsonb_path_skip_ops) WITH (pages_per_range = 2); ANALYZE t",
    );
}

on_shared!(operators);
/// What each condition must use, and skip, and find.
fn operators(database: &Database) {
    let mut session = database.session();
    events(&mut session);
    for (predicate, found) in [
        ("v @> '{\"user\": \"u700\"}'", 1),
        ("v @> '{\"in\": {\"id\": 700.0}}'", 1),
        ("v @> '{\"in\": {\"tags\": [\"t700\", \"all\"]}}'", 1),
        ("v @> '{\"in\": {\"tags\": \"t700\"}}'", 0),
        ("v @> '{\"user\": \"t700\"}'", 0),
        ("v @> '\"u7\"'", 2),
        ("v @> '[[\"deep\"]]'", 1),
        ("v @> ANY (ARRAY['{\"user\": \"u700\"}', '{\"n\": 9}']::jsonb[])", 2),
        ("v ? 'only'", 1),
        ("v ? 'u7'", 2),
        ("v ?| '{only,u7,NULL}'", 3),
        ("v ?| '{}'", 0),
        ("v ?& '{only,user}'", 0),
        ("v ->> 'user' = 'u700'", 1),
        ("'u700' = v ->> 'user'", 1),
        ("v ->> 'user' IN ('u700', 'u1700', 'absent')", 2),
        ("v ->> 'user' = ANY (ARRAY(SELECT 'u' || i FROM generate_series(700, 702) i))", 3),
        ("v -> 'in' ->> 'id' = '700'", 1),
        ("v #>> '{in,id}' = '700'", 1),
        ("v #>> '{in,tags,1}' = 't700'", 1),
        ("v -> 'in' -> 'tags' ->> 1 = 't700'", 1),
        ("v #> '{in,tags}' -> 2 = '700'", 1),
        ("v['user'] = '\"u700\"'", 1),
        ("v['in']['id'] = '700'", 1),
        ("v['in']['tags'][1] = '\"t700\"'", 1),
        ("v -> 'in' @> '{\"id\": 700}'", 1),
        ("v ->> 'n' = '700'", 1),
        ("(v ->> 'n')::int = 700", 0),
        ("(v ->> 'n')::bigint = 701", 0),
        ("(v ->> 'n')::numeric = 700", 3),
        ("(v ->> 'n')::numeric IN (700, 9)", 4),
        ("v ->> 'flag' = 'true'", 1),
        ("(v ->> 'odd')::numeric = 10", 1),
        ("(v ->> 'text')::int = 11", 1),
        ("(v ->> 'user' = 'u700' OR v -> 'in' ->> 'id' = '900')", 2),
        ("v ->> 'user' = 'u700' AND v ->> 'n' = '701'", 0),
        ("jsonb_extract_path_text(v, 'in', 'id') = '700'", 1),
        ("v = '{\"only\": {}}'", 1),
        ("v = '5.0'", 1),
        ("v IS NULL", 1),
        ("v ->> 'only' IS NOT NULL", 1),
        ("v -> 'flag' IS NOT NULL", 1),
        ("v -> 'only' ->> 'x' IS NOT NULL", 0),
        ("v #>> '{flag}' IS NOT NULL", 1),
        ("v['text'] IS NOT NULL AND v ->> 'odd' IS NOT NULL", 1),
        ("NOT v ->> 'text' IS NULL", 1),
        ("(v ->> 'odd')::numeric IS NOT NULL", 1),
    ] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        // 700.00 and the text with a blank cannot both be read as integers.
        let is_readable = !predicate.contains("'n')::") || predicate.contains("numeric");
        if is_readable {
            same(&mut session, &Way::skip_scan(), &Case::using(&statement));
            let count = session.number(&format!("SELECT count(*) FROM t WHERE {predicate}"));
            assert_eq!(count, f64::from(found), "{predicate}");
        }
        if is_readable && !predicate.contains("'{\"only\": {}}'") {
            Way::skip_scan().set(&mut session);
            skips_many(&mut session, &statement);
            session.run("RESET ALL");
        }
    }
    for predicate in ["v @> '{}'", "v ?& '{NULL}'", "v @> '[]'", "v IS NOT NULL"] {
        compare::same(&mut session, "t", &Question::using("t_v", predicate));
    }
    for predicate in ["v @> '{\"user\": \"u700\"}'", "v ? 'only'", "v ?| '{only,u7}'", "v = '[]'"] {
        compare::same(&mut session, "t", &Question::using("t_v", predicate));
    }
    sound(&mut session, "t_v");
}

on_shared!(not_served);
/// What resembles a served condition but does not follow from keys must not be looked up.
fn not_served(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    events(&mut session);
    for predicate in [
        "v ->> 'user' = 'U700' COLLATE nocase",
        "v ->> 'user' IS NOT DISTINCT FROM NULL",
        "NOT v ->> 'user' = 'u700'",
        "v ->> 'user' <> 'u700'",
        "v ->> 'user' LIKE 'u70_'",
        "v ->> filler = 'u700'",
        "v ->> filler IS NOT NULL",
        "v ->> 'user' IS NULL",
        "v #>> '{0}' IS NOT NULL",
        "v['1'] IS NOT NULL",
        "v ->> 0 IS NOT NULL",
        "v #>> '{}' IS NOT NULL",
        "(v ->> 'n')::numeric(6, 1) = 700",
        "(v -> 'n')::int = 700",
        "v <@ '{\"user\": \"u700\"}'",
        "v::text = '{}'",
        "v - 'user' = '{}'",
        "(v || '{\"user\": \"u1\"}') ->> 'user' = 'u1'",
    ] {
        let case = Case::any(format!(
            "SELECT id FROM t WHERE v IS NOT NULL AND jsonb_typeof(v) = 'object' AND v ? 'user' AND {predicate}"
        ));
        same(&mut session, &Way::skip_scan(), &case);
        Way::skip_scan().set(&mut session);
        let plan = session.plan(&format!("SELECT id FROM t WHERE {predicate}"));
        session.run("RESET ALL");
        assert!(!skips(&plan), "{predicate}: {plan}");
    }
}

on_shared!(large_deep_and_compressed_documents);
/// Large and deep documents, out of line and compressed; other spellings of names; generic plans.
fn large_deep_and_compressed_documents(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v jsonb);
         INSERT INTO t (v) SELECT jsonb_build_object('k' || i, i, 'list',
            (SELECT jsonb_agg(md5(i || '.' || j)) FROM generate_series(1, 20 * i) j)) FROM generate_series(1, 60) i;
         INSERT INTO t (v) SELECT jsonb_build_object('deep', (repeat('[', 1500) || i || repeat(']', 1500))::jsonb)
            FROM generate_series(1, 30) i;
         INSERT INTO t (v) SELECT jsonb_object_agg('name' || i, i) FROM generate_series(1, 5000) i;
         INSERT INTO t (v) SELECT jsonb_build_object('text', repeat('abc', 10000) || i) FROM generate_series(1, 30) i;
         CREATE INDEX t_v ON t USING skip (v jsonb_path_skip_ops) WITH (pages_per_range = 1);
         INSERT INTO t (v) SELECT jsonb_build_object('k' || i, i, 'list',
            (SELECT jsonb_agg(md5(i || '.' || j)) FROM generate_series(1, 20 * i) j)) FROM generate_series(61, 90) i",
    );
    for predicate in [
        "v @> jsonb_build_object('list', jsonb_build_array(md5('50.999')))",
        "v @> jsonb_build_object('list', jsonb_build_array(md5('80.1'), md5('80.2')))",
        "v ->> 'k7' = '7'",
        "v ->> 'name4999' = '4999'",
        "v ->> 'text' = repeat('abc', 10000) || 7",
        "v @> ('{\"deep\": ' || repeat('[', 1500) || 7 || repeat(']', 1500) || '}')::jsonb",
        "v -> 'deep' -> 0 -> 0 @> '[[]]'",
        "v ? 'name17'",
    ] {
        for way in [Way::skip_scan(), Way::skip_scan().with("plan_cache_mode", "force_generic_plan")] {
            let statement = format!("SELECT id FROM t WHERE {predicate}");
            same(&mut session, &way, &Case::using(&statement));
        }
        assert!(session.number(&format!("SELECT count(*) FROM t WHERE {predicate}")) > 0.0, "{predicate}");
    }
    // So many steps are not followed.
    let long = format!("SELECT id FROM t WHERE v -> 'deep'{} @> '[[]]'", " -> 0".repeat(1400));
    assert!(!same(&mut session, &Way::skip_scan(), &Case::any(&long)));
    sound(&mut session, "t_v");
    assert_eq!(
        session.one("SELECT bool_and(amvalidate(oid)) FROM pg_opclass WHERE opcname = 'jsonb_path_skip_ops'"),
        "t"
    );
}

on_shared!(expressions);
/// A column of the index that is a part of a document itself, and a domain; and what the functions look up.
fn expressions(database: &Database) {
    let mut session = database.session();
    events(&mut session);
    session.run(
        "DROP INDEX t_v; CREATE INDEX t_in ON t USING skip ((v -> 'in') jsonb_path_skip_ops) WITH (pages_per_range = 2);
         CREATE DOMAIN document AS jsonb CHECK (VALUE IS NOT NULL);
         CREATE TABLE d (id int GENERATED ALWAYS AS IDENTITY, v document, filler text DEFAULT repeat('x', 200));
         INSERT INTO d (v) SELECT v FROM t WHERE v IS NOT NULL;
         CREATE INDEX d_v ON d USING skip (v jsonb_path_skip_ops) WITH (pages_per_range = 2)",
    );
    for (table, predicate, found) in [
        ("t", "v -> 'in' ->> 'id' = '700'", 1),
        ("t", "v -> 'in' -> 'tags' ->> 1 = 't700'", 1),
        ("t", "v -> 'in' @> '{\"id\": 700}'", 1),
        ("t", "(v -> 'in') ->> 'id' IN ('1', '2')", 2),
        ("d", "v -> 'in' ->> 'id' = '700'", 1),
        ("d", "v @> '{\"user\": \"u700\"}'", 1),
        ("d", "v['user'] = '\"u700\"'", 1),
    ] {
        same(
            &mut session,
            &Way::skip_scan(),
            &Case::using(format!("SELECT id FROM {table} WHERE {predicate}")),
        );
        let count = session.number(&format!("SELECT count(*) FROM {table} WHERE {predicate}"));
        assert_eq!(count, f64::from(found), "{predicate}");
    }
    sound(&mut session, "t_in");
    sound(&mut session, "d_v");
    for value in ["'{\"user\": \"u700\"}'::jsonb", "'{\"user\": \"u700\"}'::text"] {
        gives_ranges(&mut session, 1, &format!("SELECT skip_matching_ranges('d_v', 'v', {value})"));
    }
    assert_eq!(session.error("SELECT skip_matching_ranges('d_v', 'v', 5)").code().code(), "42804");
}

on_shared!(all_of_many_names);
/// Of many names that must all be in a document, some are looked up.
fn all_of_many_names(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, v jsonb, filler text DEFAULT repeat('x', 200));
         INSERT INTO t SELECT i, (SELECT jsonb_object_agg('k' || k, 1) FROM generate_series(i % 7, i % 7 + i % 60) k)
             FROM generate_series(1, 3000) i;
         CREATE INDEX t_skip ON t USING skip (v jsonb_path_skip_ops) WITH (pages_per_range = 1)",
    );
    for names in [0, 1, 2, 15, 16, 17, 18, 31, 40, 59, 60, 5000] {
        let all = format!("ARRAY(SELECT 'k' || k FROM generate_series(7, {} + 6) k)", names);
        compare::same(&mut session, "t", &Question::using("t_skip", format!("v ?& {all}")));
    }
}

on_shared!(joins);
/// The value that a part of a document is compared with comes from another table.
fn joins(database: &Database) {
    let mut session = database.session();
    events(&mut session);
    // No integer, on which the casts below fail.
    session.run("DELETE FROM t WHERE v::text = '{\"n\": 700.00}'");
    session.run(
        "CREATE TABLE o (name text, n int, big bigint, exact numeric, j jsonb);
         INSERT INTO o SELECT 'u' || i, i, i, i, to_jsonb('u' || i) FROM generate_series(300, 2600, 300) i;
         INSERT INTO o VALUES (NULL, NULL, NULL, NULL, NULL), ('u7', 700, 700, 700.000, '{\"user\": \"u9\"}');
         ANALYZE o",
    );
    for condition in [
        "t.v ->> 'user' = o.name",
        "o.name = t.v ->> 'user'",
        "(t.v ->> 'n')::int = o.n",
        "o.big = (t.v ->> 'n')::bigint",
        "(t.v ->> 'n')::numeric = o.exact",
        "t.v -> 'user' = o.j",
        "t.v['user'] = o.j",
        "t.v -> 'in' ->> 'id' = o.n::text",
        "t.v #>> '{in,id}' = o.n::text AND t.v ->> 'user' = o.name",
        "o.j ->> 'user' = t.v ->> 'user'",
        "t.v ->> 'user' = o.j ->> 'user'",
    ] {
        for join in ["JOIN", "LEFT JOIN"] {
            let query = format!("SELECT o.*, t.id FROM o {join} t ON {condition}");
            let way = Way::skip_scan().nested_loop();
            let skips = both_ways::compare(&mut session, &way, &Case::any(query)).unwrap();
            assert!(skips, "{join} {condition}");
        }
    }
    // Several parts, one of which is compared in a way that is not served.
    session.run(
        "CREATE TABLE r (role name, kind text); INSERT INTO r VALUES ('u9', 'k1'), ('u300', 'k0'); ANALYZE r",
    );
    let unserved = "t.v ->> 'user' = r.role";
    for [one, other] in [
        [unserved, "t.v ->> 'user' = o.name"],
        [unserved, "t.v = o.j"],
        ["t.v ->> 'kind' = r.kind", "t.v -> 'user' = o.j"],
    ] {
        for conditions in [format!("{one} AND {other}"), format!("{other} AND {one}")] {
            let query = format!("SELECT o.*, r.*, t.id FROM r, o, t WHERE {conditions}");
            let way = Way::skip_scan().nested_loop();
            let skips = both_ways::compare(&mut session, &way, &Case::any(query)).unwrap();
            assert!(skips, "{conditions}");
        }
    }
    // Parts of documents that are not in the index.
    session.run("CREATE TABLE p (v jsonb); INSERT INTO p SELECT v FROM t LIMIT 10; ANALYZE p");
    let query = "SELECT p.v, t.id FROM p JOIN t ON p.v ->> 'user' = t.v ->> 'user'";
    same(&mut session, &Way::skip_scan().nested_loop(), &Case::any(query));
}
