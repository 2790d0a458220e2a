//! Insides of jsonb documents: containment, existence of keys, and comparisons of parts.
use super::{gives_ranges, skips_many};
use crate::registry::on_shared;
use crate::shared::{self, Database};
use pg_skip_tests::both_ways::{self, Case, Way, same, skips};
use pg_skip_tests::compare::{self, Question, sound};
use pg_skip_tests::session::Session;

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
         INSERT INTO t (v) VALUES ('{\"outer\": {\"inner\": 1}}'),
            ('{\"flag\": true, \"odd\": \"1e1\", \"text\": \" 11 \"}');
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
        // The document has the name of the outermost step at its top, not the others.
        ("v -> 'outer' ->> 'inner' IS NOT NULL", 1),
        ("v #>> '{outer,inner}' IS NOT NULL", 1),
        ("v['outer']['inner'] IS NOT NULL", 1),
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
