//! jsonpath: `@?` and `@@`, and `jsonb_path_exists()` and `jsonb_path_match()`, as far as they ask for equality.
use super::{Inside, Search, live, skips_many};
use crate::registry::on_shared;
use crate::shared::Database;
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way, same};
use pg_skip_tests::compare::sound;

on_shared!(random_0 = random(0));
on_shared!(random_1 = random(1));
on_shared!(random_2 = random(2));
fn random(database: &Database, number: u64) {
    let mut session = database.session();
    live(&mut session, &inside("inside::jsonpaths::random_0", search), number << 32);
}

on_shared!(random_calls_0 = random_calls(0));
on_shared!(random_calls_1 = random_calls(1));
fn random_calls(database: &Database, number: u64) {
    let mut session = database.session();
    live(&mut session, &inside("inside::jsonpaths::random_calls_0", call), number << 32);
}

fn inside(name: &'static str, search: fn(&mut Rng) -> Search) -> Inside {
    let value = |rng: &mut Rng| format!("'{}'::jsonb", value(rng, 3));
    Inside { name, kind: "jsonb", indexed: "v jsonb_path_skip_ops", value, search }
}

const NAMES: [&str; 5] = ["a", "b", "c", "", "é"];

fn one<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.usize(..of.len())]
}

/// As JSON and as jsonpath write it.
fn scalar(rng: &mut Rng) -> String {
    match rng.u32(..8) {
        0..=1 => format!("\"{}\"", one(rng, &["", "x", "y", "1", "true", "null", "日本", "2020-01-01"])),
        2 => format!("\"s{}\"", rng.u32(..200)),
        3..=4 => {
            one(rng, &["0", "1", "1.0", "1.00", "-1", "100", "1e2", "0.1", "123456789012345678901.5"]).into()
        }
        5 => rng.u32(..200).to_string(),
        _ => one(rng, &["true", "false", "null"]).into(),
    }
}

fn value(rng: &mut Rng, depth: u32) -> String {
    let parts = if depth == 0 { 0 } else { rng.usize(..4) };
    match rng.u32(..7) {
        0..=1 if depth > 0 => {
            let parts: Vec<_> = (0..parts).map(|_| value(rng, depth - 1)).collect();
            format!("[{}]", parts.join(", "))
        }
        2..=5 if depth > 0 => {
            let parts: Vec<_> =
                (0..parts).map(|_| format!("\"{}\": {}", one(rng, &NAMES), value(rng, depth - 1))).collect();
            format!("{{{}}}", parts.join(", "))
        }
        _ => scalar(rng),
    }
}

/// A chain of accessors, from the root or the current item of a filter.
fn chain(rng: &mut Rng, depth: u32, in_filter: bool) -> String {
    let mut chain = if in_filter && rng.u32(..4) > 0 { "@".to_owned() } else { "$".to_owned() };
    for _ in 0..rng.usize(..4) {
        match rng.u32(..14) {
            0..=6 => chain += &format!(".\"{}\"", one(rng, &NAMES)),
            7..=8 => chain += "[*]",
            9 => chain += one(rng, &["[0]", "[last]", "[0 to 1]", "[$.size() - 1]", "[-1]"]),
            10 => chain += one(rng, &[".*", ".**", ".**{1}"]),
            11 => chain += one(rng, &[".type()", ".size()", ".double()", ".keyvalue()", ".abs()"]),
            _ if depth > 0 => chain += &format!(" ? ({})", predicate(rng, depth - 1, true)),
            _ => {}
        }
    }
    chain
}

fn operand(rng: &mut Rng, depth: u32, in_filter: bool) -> String {
    match rng.u32(..12) {
        0..=3 => scalar(rng),
        4 => format!("({} + 1)", chain(rng, depth, in_filter)),
        5 => format!("-{}", chain(rng, depth, in_filter)),
        6 => format!("({}).type()", predicate(rng, depth.saturating_sub(1), in_filter)),
        _ => chain(rng, depth, in_filter),
    }
}

fn predicate(rng: &mut Rng, depth: u32, in_filter: bool) -> String {
    let inner = |rng: &mut Rng| predicate(rng, depth.saturating_sub(1), in_filter);
    match if depth == 0 { 9 } else { rng.u32(..16) } {
        0..=1 => format!("({} && {})", inner(rng), inner(rng)),
        2..=3 => format!("({} || {})", inner(rng), inner(rng)),
        4 => format!("!({})", inner(rng)),
        5 => format!("({}) is unknown", inner(rng)),
        6 => format!("exists({})", chain(rng, depth, in_filter)),
        7 => format!("{} starts with \"s1\"", chain(rng, depth, in_filter)),
        8 => format!("{} like_regex \"^s\"", chain(rng, depth, in_filter)),
        _ => {
            let operator = one(rng, &["==", "==", "==", "==", "!=", "<", ">=", "<>"]);
            format!("({} {operator} {})", operand(rng, depth, in_filter), operand(rng, depth, in_filter))
        }
    }
}

/// A comparison of a place and a scalar, which often finds something.
fn equality(rng: &mut Rng) -> String {
    let place = format!(
        "$.{}",
        (0..rng.usize(1..3)).map(|_| one(rng, &["a", "b", "c"])).collect::<Vec<_>>().join(".")
    );
    format!("{place} == {}", scalar(rng))
}

fn search(rng: &mut Rng) -> Search {
    let mode = one(rng, &["", "", "lax ", "strict "]);
    let depth = rng.u32(..4);
    let (operator, path) = match rng.u32(..10) {
        0..=1 => ("@@", equality(rng)),
        2..=3 => ("@@", predicate(rng, depth, false)),
        4 => ("@?", predicate(rng, depth, false)),
        5 => ("@@", chain(rng, depth, false)),
        6 => ("@@", operand(rng, depth, false)),
        7 => (
            "@?",
            format!("$.{} ? (@.{} == {})", one(rng, &["a", "*", "b[*]"]), one(rng, &["a", "b"]), scalar(rng)),
        ),
        _ => ("@?", chain(rng, depth, false)),
    };
    let value = format!("'{mode}{path}'::jsonpath");
    Search { predicate: format!("v {operator} $1"), kind: "jsonpath".into(), value, is_served: true }
}

/// The same search by a function, which suppresses errors, as the operators do. Without that, whether there is an error
/// depends on the rows that are read.
fn call(rng: &mut Rng) -> Search {
    let search = search(rng);
    let function = if search.predicate.contains("@?") { "jsonb_path_exists" } else { "jsonb_path_match" };
    let variables = one(rng, &["'{}'", "'{\"x\": \"s1\"}'"]);
    Search { predicate: format!("{function}(v, $1, {variables}, true)"), ..search }
}

on_shared!(calls);
/// What each call of a function must use, and skip, and find.
fn calls(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v jsonb, filler text DEFAULT repeat('x', 200));
         INSERT INTO t (v) SELECT jsonb_build_object('user', 'u' || i, 'n', i, 'x', '1')
            FROM generate_series(1, 2000) i;
         INSERT INTO t (v) VALUES ('{}'), ('[]'), (NULL), ('{\"user\": [\"u700\", \"u701\"], \"n\": true}');
         CREATE INDEX t_v ON t USING skip (v jsonb_path_skip_ops) WITH (pages_per_range = 2); ANALYZE t;
         CREATE TABLE o (p jsonpath); INSERT INTO o SELECT ('$.n ? (@ == ' || i || ')')::jsonpath
            FROM generate_series(100, 104) i; INSERT INTO o VALUES (NULL); ANALYZE o",
    );
    for (predicate, found, skips) in [
        ("jsonb_path_exists(v, '$.user ? (@ == \"u700\")')", 2, true),
        ("jsonb_path_exists(v, 'strict $.user ? (@ == \"u700\")', silent => true)", 1, true),
        ("jsonb_path_exists(v, '$ ? (@.user == \"u700\" && @.n > $x)', '{\"x\": 5}')", 1, true),
        ("jsonb_path_exists(v, '$ ? (@.user == \"u700\" || @.n == 900)')", 3, true),
        ("jsonb_path_exists(v, (SELECT '$.n ? (@ == 701)')::jsonpath)", 1, true),
        ("jsonb_path_exists(v, '$.user ? (@ == $x)', '{\"x\": \"u700\"}')", 2, false),
        ("jsonb_path_exists(v, '$.n == 701')", 2003, false),
        ("jsonb_path_match(v, '$.user == \"u700\"')", 2, true),
        ("jsonb_path_match(v, '$.n == 701 && $.user == \"u701\"')", 1, true),
        ("jsonb_path_match(v, '$.n', silent => true)", 1, true),
        ("jsonb_path_match(v, '$.user == $x', '{\"x\": \"u700\"}')", 2, false),
        ("jsonb_path_match(v, NULL)", 0, false),
        ("NOT jsonb_path_match(v, '$.user == \"u700\"')", 2001, false),
        ("jsonb_path_exists_tz(v, '$.user ? (@ == \"u700\")')", 2, false),
    ] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        session.run("SET pg_skip.ignore_indexes = 't_v'");
        let count = session.number(&format!("SELECT count(*) FROM t WHERE {predicate}"));
        session.run("RESET ALL");
        assert_eq!(count, f64::from(found), "{predicate}");
        same(&mut session, &Way::skip_scan(), &Case::any(&statement));
        if skips {
            Way::skip_scan().set(&mut session);
            skips_many(&mut session, &statement);
            session.run("RESET ALL");
        }
    }
    let joined = "SELECT t.id, p FROM o JOIN t ON jsonb_path_exists(v, p)";
    same(&mut session, &Way::skip_scan().nested_loop(), &Case::any(joined));
    // Of the rows that are read, one whose n is no truth value raises its error.
    let error = session.error("SELECT id FROM t WHERE jsonb_path_match(v, '$.n')");
    assert_eq!(error.code().code(), "22038", "{error:?}");
    sound(&mut session, "t_v");
}

on_shared!(operators);
/// What each path must use, and skip, and find.
fn operators(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v jsonb, filler text DEFAULT repeat('x', 200));
         INSERT INTO t (v) SELECT jsonb_build_object('user', 'u' || i, 'n', i, 'odd', i % 2 = 1,
            'in', jsonb_build_object('id', i, 'tags', jsonb_build_array('all', 't' || i, i)),
            'list', jsonb_build_array(jsonb_build_object('k', 'a' || i, 'v', i), jsonb_build_object('k', 'b', 'v', 0)))
            FROM generate_series(1, 2000) i;
         INSERT INTO t (v) VALUES ('{}'), ('[]'), (NULL), ('null'), ('\"u7\"'), ('[{\"user\": \"u700\"}]'), ('5'),
            ('{\"n\": 700.00, \"rare\": true}'), ('{\"n\": \"700\", \"gone\": null}');
         CREATE INDEX t_v ON t USING skip (v jsonb_path_skip_ops) WITH (pages_per_range = 2); ANALYZE t",
    );
    for (predicate, found, skips) in [
        ("v @@ '$.user == \"u700\"'", 2, true),
        ("v @@ 'strict $.user == \"u700\"'", 1, true),
        ("v @@ '\"u700\" == $.user'", 2, true),
        ("v @@ '$.n == 700'", 2, true),
        ("v @@ '$.n == \"700\"'", 1, true),
        ("v @@ '$.rare'", 1, true),
        ("v @@ '$.rare == true'", 1, true),
        ("v @@ '$.gone == null'", 1, true),
        ("v @@ '$.in.tags[*] == \"t700\"'", 1, true),
        ("v @@ '$.in.tags[1] == \"t700\"'", 1, true),
        ("v @@ '$.in.tags == \"t700\"'", 1, true),
        ("v @? '$.in.tags[*] ? (@ == \"t700\")'", 1, true),
        ("v @? '$.list[*] ? (@.k == \"a700\")'", 1, true),
        ("v @? '$.list ? (@.k == \"a700\" && @.v == 700).v'", 1, true),
        ("v @? '$.list ? (@.k == \"a700\" && @.v == 701)'", 0, true),
        ("v @? '$.list ? (@.k == \"a700\" || @.k == \"a900\")'", 2, true),
        ("v @@ '$.n == 701 && $.odd == true'", 1, true),
        ("v @@ '$.n == 701 || $.in.id == 900'", 2, true),
        ("v @@ '$.n == 701 && $.n > 5'", 1, true),
        ("v @@ 'exists($.in ? (@.id == 700))'", 1, true),
        ("v @@ '$.in ? (@.id == 700).tags[0] == \"all\"'", 1, true),
        ("v @? '$ ? (@.user == \"u7\").n.type()'", 1, true),
        ("v @@ '$ == \"u7\"'", 1, true),
        ("v @@ (SELECT '$.n == 701')::jsonpath", 1, true),
        ("v @@ '$.n == 701 || $.n > 1999'", 2, false),
        ("v @@ '!($.n == 701)'", 2006, false),
        ("v @? '$.n == 701'", 2008, false),
        ("v @@ '$.* == \"u700\"'", 2, false),
        ("v @@ '$.n + 1 == 701'", 2, false),
    ] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        let count = session.number(&format!("SELECT count(*) FROM t WHERE {predicate}"));
        assert_eq!(count, f64::from(found), "{predicate}");
        same(&mut session, &Way::skip_scan(), &Case::using(&statement));
        if skips {
            Way::skip_scan().set(&mut session);
            skips_many(&mut session, &statement);
        }
        session.run("RESET ALL; SET enable_seqscan = off; SET pg_skip.enable_scan = off");
        assert!(session.plan(&statement).contains("Bitmap Index Scan"), "{predicate}");
        session.run("RESET ALL");
    }
    sound(&mut session, "t_v");
    let told = session.one("SELECT reason FROM skip_explain($$SELECT * FROM t WHERE v @? '$.n == 701'$$)");
    assert!(told.contains("no string, number"), "{told}");
}
