//! Operator classes that make keys by functions of their own: support functions 4 and 5.
use super::{Inside, Search, gives_ranges, live, skips_many};
use crate::registry::on_shared;
use crate::shared::Database;
use fastrand::Rng;
use libtest_mimic::Completion;
use pg_skip_tests::both_ways::{Case, Way, same};
use pg_skip_tests::compare::{self, Question, sound};
use pg_skip_tests::session::Session;
use std::fs;
use std::path::Path;

/// A class for lists of labels, separated by commas, in SQL and PL/pgSQL. The function of queries is not strict.
const CLASS: &str = r"
    CREATE FUNCTION has_all(list text, labels text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
        RETURN string_to_array(list, ',') @> string_to_array(labels, ',');
    CREATE FUNCTION has_any(list text, labels text[]) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
        RETURN string_to_array(list, ',') && labels;
    CREATE FUNCTION has_number(list text, number integer) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
        RETURN number::text = ANY (string_to_array(list, ','));
    CREATE OPERATOR ?& (LEFTARG = text, RIGHTARG = text, FUNCTION = has_all);
    CREATE OPERATOR ?| (LEFTARG = text, RIGHTARG = text[], FUNCTION = has_any);
    CREATE OPERATOR ? (LEFTARG = text, RIGHTARG = integer, FUNCTION = has_number);
    CREATE FUNCTION label_keys(list text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS
        'BEGIN RETURN CASE WHEN list <> '''' THEN pg_catalog.string_to_array(list, '','') END; END';
    CREATE FUNCTION label_query(labels text, strategy integer) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS
        'BEGIN
             IF strategy NOT IN (1, 6) THEN RAISE ''strategy %'', strategy; END IF;
             RETURN pg_catalog.string_to_array(labels, '','');
         END';
    CREATE FUNCTION label_query(labels text[], strategy integer) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT
        RETURN ARRAY[labels, labels];
    CREATE FUNCTION label_query(number integer, strategy integer) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT
        RETURN CASE WHEN number <> 13 THEN ARRAY[number::text, NULL] END;
    CREATE OPERATOR CLASS labels FOR TYPE text USING skip AS
        OPERATOR 1 =, OPERATOR 5 ?| (text, text[]), OPERATOR 6 ?& (text, text), OPERATOR 4 ? (text, integer),
        FUNCTION 2 skip_opclass_options(internal),
        FUNCTION 4 label_keys(text),
        FUNCTION 5 (text, text) label_query(text, integer),
        FUNCTION 5 (text, text[]) label_query(text[], integer),
        FUNCTION 5 (text, integer) label_query(integer, integer)";

on_shared!(random_0 = random(0));
on_shared!(random_1 = random(1));
fn random(database: &Database, number: u64) {
    let mut session = database.session();
    session.run(CLASS);
    let inside =
        Inside { name: "inside::keys_of_users::random_0", kind: "text", indexed: "v labels", value, search };
    live(&mut session, &inside, number << 32);
}

fn labels(rng: &mut Rng, most: usize) -> Vec<String> {
    let label = |rng: &mut Rng| match rng.u32(..3) {
        0 => ["a", "b", "13", "", "it", "日本"][rng.usize(..6)].to_owned(),
        _ => rng.u32(..300).to_string(),
    };
    (0..rng.usize(..most)).map(|_| label(rng)).collect()
}

fn value(rng: &mut Rng) -> String {
    format!("'{}'", labels(rng, 6).join(","))
}

fn search(rng: &mut Rng) -> Search {
    let of = |predicate: &str, kind: &str, value: String| Search {
        predicate: predicate.into(),
        kind: kind.into(),
        value,
        is_served: true,
    };
    match rng.u32(..6) {
        0..=1 => of("v ?& $1", "text", format!("'{}'", labels(rng, 3).join(","))),
        2 => of("v ?| $1", "text[]", format!("ARRAY[{}]::text[]", quoted(labels(rng, 4)))),
        3 => of("v ? $1", "integer", if rng.bool() { "13".into() } else { rng.u32(..300).to_string() }),
        4 => of("v = $1", "text", value(rng)),
        _ => of("v ?& ANY ($1)", "text[]", format!("ARRAY[{}]::text[]", quoted(labels(rng, 4)))),
    }
}

fn quoted(labels: Vec<String>) -> String {
    labels.iter().map(|label| format!("'{label}'")).collect::<Vec<_>>().join(", ")
}

on_shared!(skips);
/// What is skipped, and that the class is complete.
fn skips(database: &Database) {
    let mut session = database.session();
    session.run(CLASS);
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text, filler text DEFAULT repeat('x', 200));
         INSERT INTO t (v) SELECT 'all,' || i || ',n' || i FROM generate_series(1, 2000) i;
         INSERT INTO t (v) VALUES (''), (NULL), ('13');
         CREATE INDEX t_v ON t USING skip (v labels) WITH (pages_per_range = 2); ANALYZE t",
    );
    for (predicate, found, skips) in [
        ("v ?& 'all,n700'", 1, true),
        ("v ?& 'n700,n701'", 0, true),
        ("v ?| '{n700,n1700,NULL}'", 2, true),
        ("v ? 700", 1, true),
        ("v ? 13", 2, false),
        ("v = 'all,700,n700'", 1, true),
        ("v = ''", 1, false),
    ] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        same(&mut session, &Way::skip_scan(), &Case::using(&statement));
        let count = session.number(&format!("SELECT count(*) FROM t WHERE {predicate}"));
        assert_eq!(count, f64::from(found), "{predicate}");
        if skips {
            Way::skip_scan().set(&mut session);
            skips_many(&mut session, &statement);
            session.run("RESET ALL");
        }
    }
    sound(&mut session, "t_v");
    let told = session.one("SELECT reason FROM skip_explain('SELECT * FROM t WHERE v ? 13')");
    assert!(told.contains("ask for no key"), "{told}");
    gives_ranges(&mut session, 1, "SELECT skip_matching_ranges('t_v', 'v', 'n700'::text)");
    assert_eq!(session.one("SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'labels'"), "t");
}

on_shared!(operators_that_may_be_true_for_null);
/// They find rows that no key tells of. Then the index rules out nothing. (The planner replaces calls of functions in
/// SQL that are not strict by what they do, so these are not.)
fn operators_that_may_be_true_for_null(database: &Database) {
    let mut session = database.session();
    session.run(CLASS);
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text);
         INSERT INTO t (v) SELECT i || ',x' FROM generate_series(1, 3000) i;
         INSERT INTO t (v) VALUES (NULL);
         CREATE INDEX t_v ON t USING skip (v labels) WITH (pages_per_range = 1); ANALYZE t",
    );
    session.run("SET enable_seqscan = off");
    let strict = session.plan("SELECT * FROM t WHERE v ?& '7'");
    assert!(strict.contains("Skip Index Scan"), "{strict}");
    session.run("RESET enable_seqscan");
    session.run(
        "CREATE OR REPLACE FUNCTION has_all(list text, labels text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
             'BEGIN
                  RETURN list IS NULL OR labels IS NULL
                      OR string_to_array(list, '','') @> string_to_array(labels, '','');
              END'",
    );
    for (predicate, found) in [
        ("v ?& NULL", 3001.0),
        ("v ?& '7'", 2.0),
        ("v ?& (SELECT NULL::text)", 3001.0),
        ("v ?& ANY ('{8,NULL}'::text[])", 3001.0),
    ] {
        compare::same(&mut session, "t", &Question::any(predicate));
        session.run("SET enable_seqscan = off");
        assert_eq!(
            session.number(&format!("SELECT count(*) FROM t WHERE {predicate}")),
            found,
            "{predicate}"
        );
        session.run("RESET enable_seqscan");
    }
    let told = session.one("SELECT reason FROM skip_explain('SELECT * FROM t WHERE v ?& ''7''')");
    assert!(told.contains("may be true for NULL"), "{told}");
    sound(&mut session, "t_v");
}

on_shared!(wrong_classes);
/// Classes with wrong or missing functions: an error, or no use of the index; never a lost row.
fn wrong_classes(database: &Database) {
    let mut session = database.session();
    session.run(CLASS);
    session.run(
        "CREATE TABLE t (id int, v text); INSERT INTO t SELECT i, i || ',x' FROM generate_series(1, 3000) i;
         CREATE FUNCTION wrong_value(text) RETURNS integer LANGUAGE sql IMMUTABLE RETURN 1;
         CREATE FUNCTION wrong_query(text, bigint) RETURNS text[] LANGUAGE sql IMMUTABLE RETURN ARRAY['none'];
         CREATE OPERATOR CLASS wrong_value FOR TYPE text USING skip AS OPERATOR 6 ?&, FUNCTION 4 wrong_value(text);
         CREATE OPERATOR CLASS wrong_query FOR TYPE text USING skip AS OPERATOR 6 ?&, FUNCTION 4 label_keys(text),
             FUNCTION 5 wrong_query(text, bigint);
         CREATE OPERATOR CLASS no_query FOR TYPE text USING skip AS OPERATOR 6 ?&, FUNCTION 4 label_keys(text)",
    );
    let error = session.error("CREATE INDEX ON t USING skip (v wrong_value)");
    assert_eq!(error.code().code(), "42P17", "{error:?}");
    for class in ["wrong_value", "wrong_query", "no_query"] {
        let valid = session.one(&format!("SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = '{class}'"));
        assert_eq!(valid, "f", "{class}");
    }
    for class in ["wrong_query", "no_query"] {
        session.run(&format!("CREATE INDEX t_v ON t USING skip (v {class}) WITH (pages_per_range = 1)"));
        compare::same(&mut session, "t", &Question::using("t_v", "v ?& '700,x'"));
        sound(&mut session, "t_v");
        session.run("DROP INDEX t_v");
    }
    let error =
        session.error("CREATE OPERATOR CLASS six FOR TYPE text USING skip AS FUNCTION 6 label_keys(text)");
    assert_eq!(error.code().code(), "42P17", "{error:?}");
    // The functions cannot be dropped while the class is there.
    let error = session.error("DROP FUNCTION label_keys(text)");
    assert_eq!(error.code().code(), "2BP01", "{error:?}");
}

on_shared!(failing_functions);
/// A function that fails for some values: inserts fail; rows that nobody sees do not stop VACUUM.
fn failing_functions(database: &Database) {
    let mut session = database.session();
    session.run(CLASS);
    session.run(
        "CREATE OR REPLACE FUNCTION label_keys(list text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE STRICT AS
            'BEGIN
                 IF list LIKE ''%bad%'' AND pg_catalog.current_setting(''test.strict'', true) = ''on'' THEN
                     RAISE ''no list'' USING ERRCODE = ''22023'';
                 END IF;
                 RETURN pg_catalog.string_to_array(list, '','');
             END';
         CREATE TABLE t (id int, v text, filler text DEFAULT repeat('x', 200)) WITH (autovacuum_enabled = off);
         CREATE INDEX t_v ON t USING skip (v labels) WITH (pages_per_range = 1, autosummarize = off);
         INSERT INTO t SELECT i, i || ',x' FROM generate_series(1, 1000) i;
         INSERT INTO t SELECT 5000, 'bad,' || i FROM generate_series(1, 100) i;
         DELETE FROM t WHERE id = 5000; SET test.strict = on",
    );
    session.run("VACUUM t");
    compare::same(&mut session, "t", &Question::using("t_v", "v ?& '700,x'"));
    compare::same(&mut session, "t", &Question::any("v ?& 'bad'"));
    session.run("SELECT skip_summarize('t_v')");
    let error = session.error("INSERT INTO t VALUES (1, 'bad,list')");
    assert_eq!((error.code().code(), error.message()), ("22023", "no list"), "{error:?}");
    assert_eq!(session.one("SELECT count(*) FROM t WHERE v ?& 'bad'"), "0");
    session.run("REINDEX INDEX t_v");
    session.run("VACUUM t");
    sound(&mut session, "t_v");
}

on_shared!(functions_that_change);
/// An operator family that makes keys in another way for a while: what is inserted then is found afterwards.
fn functions_that_change(database: &Database) {
    let mut session = database.session();
    session.run(CLASS);
    session.run(
        "CREATE OPERATOR CLASS plain FOR TYPE text USING skip AS
             OPERATOR 1 =, FUNCTION 1 hashtextextended(text, bigint);
         CREATE TABLE t (id int, v text, w int, filler text DEFAULT repeat('x', 200))
             WITH (autovacuum_enabled = off, fillfactor = 50);
         INSERT INTO t SELECT i, i || ',x', i FROM generate_series(1, 2000) i;
         CREATE INDEX t_v ON t USING skip (v plain, w) WITH (pages_per_range = 1); ANALYZE t",
    );
    skips_many(&mut session, "SELECT * FROM t WHERE v = '700,x'");
    session.run("ALTER OPERATOR FAMILY plain USING skip ADD FUNCTION 4 (text, text) label_keys(text)");
    let mut other = database.session();
    // A new version of each row, on its own page.
    other.run("UPDATE t SET v = 'new,' || id, w = -id WHERE id % 10 = 0");
    drop(other);
    session.run("ALTER OPERATOR FAMILY plain USING skip DROP FUNCTION 4 (text, text)");
    let mut session = database.session();
    for upkeep in ["SELECT 1", "SELECT skip_summarize('t_v')", "VACUUM t"] {
        session.run(upkeep);
        for predicate in ["v = 'new,700'", "v = '701,x'", "w = -700", "v = 'new,700' AND w = -700"] {
            compare::same(&mut session, "t", &Question::using("t_v", predicate));
        }
        sound(&mut session, "t_v");
    }
    skips_many(&mut session, "SELECT * FROM t WHERE w = -700");
    session.run("REINDEX INDEX t_v");
    skips_many(&mut session, "SELECT * FROM t WHERE v = 'new,700'");
}

on_shared!(documented_hstore);
/// The class for hstore of the documentation, where hstore is to be had.
fn documented_hstore(database: &Database) -> Completion {
    let mut session = database.session();
    if session.number("SELECT count(*) FROM pg_available_extensions WHERE name = 'hstore'") == 0.0 {
        return Completion::ignored_with("this server has no hstore");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operator-classes.md");
    let text = fs::read_to_string(page).expect("the page");
    let start = "```sql ignore\n-- hstore keys\n";
    let from = text.find(start).expect("the class") + start.len();
    session.run("CREATE EXTENSION hstore");
    session.run(text[from..].split("```").next().expect("a block"));
    assert_eq!(
        session.one("SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'hstore_key_skip_ops'"),
        "t"
    );
    let inside = Inside {
        name: "inside::keys_of_users::documented_hstore",
        kind: "hstore",
        indexed: "v hstore_key_skip_ops",
        value: |rng| format!("{}::hstore", pairs(rng)),
        search: |rng| {
            let keys = |rng: &mut Rng| format!("ARRAY[{}]::text[]", quoted(labels(rng, 4)));
            let (predicate, kind, value) = match rng.u32(..5) {
                0..=1 => ("v @> $1", "hstore", format!("{}::hstore", pairs(rng))),
                2 => ("v ? $1", "text", format!("'{}'", rng.u32(..300))),
                3 => ("v ?| $1", "text[]", keys(rng)),
                _ => ("v ?& $1", "text[]", keys(rng)),
            };
            Search { predicate: predicate.into(), kind: kind.into(), value, is_served: true }
        },
    };
    live(&mut session, &inside, 0);
    skips_keys(&mut session);
    Completion::Completed
}

on_shared!(functions_may_free_their_arguments);
/// Functions of a class that free the array that they get, as PL/pgSQL does, and a query that is one for all rows.
fn functions_may_free_their_arguments(database: &Database) {
    let mut session = database.session();
    session.run(CLASS);
    session.run(
        "CREATE OR REPLACE FUNCTION has_any(list text, labels text[]) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT
            AS 'BEGIN RETURN string_to_array(list, '','') && labels; END';
         CREATE OR REPLACE FUNCTION label_query(labels text[], strategy integer) RETURNS text[] LANGUAGE plpgsql
            IMMUTABLE STRICT AS 'BEGIN RETURN ARRAY[labels, labels]; END';
         CREATE TABLE t (id int, v text, filler text DEFAULT repeat('x', 200));
         INSERT INTO t SELECT i, i / 50 || ',all' FROM generate_series(1, 3000) i;
         CREATE INDEX t_v ON t USING skip (v labels) WITH (pages_per_range = 1); ANALYZE t; SET my.labels = '1,2'",
    );
    let query = "v ?| (string_to_array(current_setting('my.labels'), ',') || '31'::text)";
    for condition in [query.to_owned(), format!("{query} OR v = '7,all'")] {
        let found = same(
            &mut session,
            &Way::skip_scan(),
            &Case::using(format!("SELECT id FROM t WHERE {condition}")),
        );
        assert!(found, "{condition}");
    }
}

on_shared!(tests_of_booleans);
/// A class for booleans that does not have their `=`: conditions such as `v` and `NOT v` ask for that, and are not
/// looked up.
fn tests_of_booleans(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE FUNCTION is_same(a boolean, b boolean) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT
            RETURN a IS NOT DISTINCT FROM b;
         CREATE OPERATOR ~== (LEFTARG = boolean, RIGHTARG = boolean, FUNCTION = is_same);
         CREATE FUNCTION flag_keys(boolean) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT RETURN ARRAY[$1::text];
         CREATE FUNCTION flag_query(flag boolean, strategy integer) RETURNS text[] LANGUAGE plpgsql IMMUTABLE STRICT AS
            'BEGIN
                 IF strategy <> 5 THEN RAISE ''strategy %'', strategy; END IF;
                 RETURN ARRAY[flag::text];
             END';
         CREATE OPERATOR CLASS flags FOR TYPE boolean USING skip AS
            OPERATOR 5 ~==, FUNCTION 4 flag_keys(boolean), FUNCTION 5 (boolean, boolean) flag_query(boolean, integer);
         CREATE TABLE t (id int, v boolean, filler text DEFAULT repeat('x', 200));
         INSERT INTO t SELECT i, i / 50 = 30 FROM generate_series(1, 3000) i;
         CREATE INDEX t_v ON t USING skip (v flags) WITH (pages_per_range = 1); ANALYZE t",
    );
    for (condition, is_served) in [
        ("v ~== true", true),
        ("v", false),
        ("NOT v", false),
        ("v IS TRUE", false),
        ("v IS NOT FALSE", false),
    ] {
        let case = Case::any(format!("SELECT id FROM t WHERE {condition}"));
        assert_eq!(same(&mut session, &Way::skip_scan(), &case), is_served, "{condition}");
    }
}

fn skips_keys(session: &mut Session) {
    session.run(
        "CREATE TABLE h (id int, v hstore, filler text DEFAULT repeat('x', 200));
         INSERT INTO h SELECT i, hstore(ARRAY['k' || i, 'all'], ARRAY[i::text, NULL]) FROM generate_series(1, 2000) i;
         CREATE INDEX h_v ON h USING skip (v hstore_key_skip_ops) WITH (pages_per_range = 2); ANALYZE h",
    );
    Way::skip_scan().set(session);
    for (predicate, found) in [
        ("v @> 'k700=>700'", 1),
        ("v @> 'k700=>701'", 0),
        ("v @> 'k700=>700, all=>NULL'", 1),
        ("v ? 'k700'", 1),
        ("v ?| '{k700,k900}'", 2),
        ("v ?& '{k700,all}'", 1),
    ] {
        let statement = format!("SELECT id FROM h WHERE {predicate}");
        assert_eq!(session.rows(&statement).len(), found, "{predicate}");
        skips_many(session, &statement);
    }
    session.run("RESET ALL");
    // A value is looked up by the first operator that the class has.
    let map = session.one("SELECT skip_range_map('h_v', 'v', 'k700=>700'::hstore)");
    assert_eq!(map.matches('#').count(), 1, "{map}");
}

fn pairs(rng: &mut Rng) -> String {
    let pairs: Vec<_> = labels(rng, 5)
        .iter()
        .map(|label| match rng.u32(..3) {
            0 => format!("\"{label}\"=>NULL"),
            1 => format!("\"{label}\"=>\"x\""),
            _ => format!("\"{label}\"=>\"{}\"", rng.u32(..20)),
        })
        .collect();
    format!("'{}'", pairs.join(", "))
}
