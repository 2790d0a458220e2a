//! Types whose equality or hash is peculiar: char(n) under nondeterministic collations, domains over ranges, types that
//! the server gives another type's operator class.
use crate::registry::on_shared;
use crate::shared::{self, Database};
use libtest_mimic::Completion;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::server;
use pg_skip_tests::session::Session;

on_shared!(blanks_count_for_nothing);
/// Values of different lengths, with and without blanks before they are padded, and keys with other blanks than the
/// table has.
fn blanks_count_for_nothing(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    for kind in ["char(6)", "bpchar"] {
        session.run(&format!(
            "DROP TABLE IF EXISTS t;
             CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, c {kind} COLLATE nocase,
             filler text DEFAULT repeat('x', 900));
             INSERT INTO t (c) SELECT 'v' || i % 50 || repeat(' ', i % 3) FROM generate_series(1, 300) i;
             CREATE INDEX t_skip ON t USING skip (c) WITH (pages_per_range = 1);
             INSERT INTO t (c) SELECT 'W' || i % 50 FROM generate_series(1, 300) i;
             UPDATE t SET c = 'u' || id || ' ' WHERE id % 60 = 0"
        ));
        ask_blanks(&mut session);
        session.run("SELECT skip_summarize('t_skip')");
        ask_blanks(&mut session);
        session.run("VACUUM t");
        ask_blanks(&mut session);
    }
}

fn ask_blanks(session: &mut Session) {
    let keys = ["v7", "V7", "v7 ", "v7    ", "w8", "W8   ", "u60", "U120  ", "absent", ""];
    for key in keys {
        for kind in ["bpchar", "char(6)", "char(2)", "varchar"] {
            let predicate = format!("c = '{key}'::{kind}");
            same(session, "t", &Question::any(predicate));
        }
        same(session, "t", &Question::using("t_skip", format!("c = '{key}'")));
        same(session, "t", &Question::any(format!("c IN ('{key}', 'v9  '::bpchar)")));
    }
    let found = session.number("SET enable_seqscan = off; SELECT count(*) FROM t WHERE c = 'v7 '::bpchar");
    assert!(found > 0.0, "rows with other trailing blanks than the key");
    session.run("RESET enable_seqscan");
    sound(session, "t_skip");
}

on_shared!(blanks_within_others);
/// Arrays and ranges are hashed by the server alone: right, or refused.
fn blanks_within_others(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    session.run(
        "CREATE TYPE padded AS RANGE (subtype = bpchar, collation = nocase);
         CREATE DOMAIN padded_list AS bpchar[] COLLATE nocase;
         CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, a char(4)[] COLLATE nocase, b bpchar[] COLLATE nocase,
         r padded,
            d padded_list);
         INSERT INTO t (a, b, r, d) SELECT ARRAY['v' || i], ARRAY['v' || i || ' '], padded('a', 'v' || i || ' '),
         ARRAY['v' || i || '  ']
            FROM generate_series(1, 500) i",
    );
    let counted = session.one(
        "SELECT hashbpcharextended('a' COLLATE nocase, 0) <> hashbpcharextended('a ' COLLATE nocase, 0)",
    ) == "t";
    assert_eq!(counted, server::install().version == 15, "later versions do not hash trailing blanks");
    for (column, key) in [
        ("a", "ARRAY['V7'::bpchar]"),
        ("b", "ARRAY['V7   '::bpchar]"),
        ("r", "padded('A', 'V7')"),
        ("d", "ARRAY['V7'::bpchar]"),
    ] {
        let make = format!("CREATE INDEX t_{column} ON t USING skip ({column}) WITH (pages_per_range = 1)");
        if counted {
            let error = session.error(&make);
            assert_eq!(error.code().code(), "0A000", "{error:?}");
            assert!(error.detail().unwrap_or_default().contains("trailing blanks"), "{error:?}");
        } else {
            session.run(&make);
            same(&mut session, "t", &Question::using(&format!("t_{column}"), format!("{column} = {key}")));
            sound(&mut session, &format!("t_{column}"));
        }
    }
    // Under a deterministic collation blanks are no question.
    session.run("CREATE TABLE plain (id int, c char(4)[]); CREATE INDEX ON plain USING skip (c)");
}

on_shared!(ranges_in_users_order);
/// Ranges are equal if their bounds are in the order of their operator class, but the bounds are hashed as usual.
fn ranges_in_users_order(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE FUNCTION in_any_case(text, text) RETURNS int IMMUTABLE STRICT LANGUAGE sql AS
            'SELECT bttextcmp(lower($1), lower($2))';
         CREATE OPERATOR CLASS in_any_case_ops FOR TYPE text USING btree AS FUNCTION 1 in_any_case(text, text);
         CREATE TYPE loose AS RANGE (subtype = text, subtype_opclass = in_any_case_ops,
            multirange_type_name = looses);
         CREATE TYPE bytewise AS RANGE (subtype = text, subtype_opclass = text_pattern_ops);
         CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, r loose, m looses, a loose[], p bytewise);
         INSERT INTO t (r, m, a, p) SELECT r, looses(r), ARRAY[r], bytewise('a', 'b' || i)
            FROM generate_series(1, 500) i, LATERAL (SELECT loose('A', 'V' || i) AS r) v",
    );
    assert_eq!(session.one("SELECT count(*) FROM t WHERE r = loose('a', 'v7')"), "1");
    for column in ["r", "m", "a", "a array_element_skip_ops"] {
        let error = session.error(&format!("CREATE INDEX ON t USING skip ({column})"));
        assert_eq!(error.code().code(), "0A000", "{error:?}");
        assert!(error.message().contains("user-defined order"), "{error:?}");
    }
    for value in ["r", "m", "a"] {
        let error = session.error(&format!("SELECT bloom_agg({value}) FROM t"));
        assert!(error.detail().unwrap_or_default().contains("user-defined order"), "{error:?}");
    }
    // An order of the server's finds the same bounds equal as the usual one.
    session.run("CREATE INDEX t_p ON t USING skip (p) WITH (pages_per_range = 1)");
    same(&mut session, "t", &Question::using("t_p", "p = bytewise('a', 'b7')"));
}

on_shared!(blanks_in_filters);
fn blanks_in_filters(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    let found = session.column(
        "SELECT bool_and(f @> ('V' || i || repeat(' ', i % 4))::bpchar COLLATE nocase)
         FROM (SELECT bloom_agg(('v' || i || repeat(' ', i % 5))::bpchar COLLATE nocase) AS f
         FROM generate_series(1, 100) i) s,
              generate_series(1, 100) i",
    );
    assert_eq!(found, ["t"], "keys with other trailing blanks");
    let list = "SELECT bloom_agg(ARRAY['v '::bpchar] COLLATE nocase)";
    if server::install().version == 15 {
        assert_eq!(session.error(list).code().code(), "0A000");
    } else {
        let found = session.one(
            "SELECT bloom_agg(ARRAY['v '::bpchar] COLLATE nocase) @> (ARRAY['V'::bpchar] COLLATE nocase)",
        );
        assert_eq!(found, "t");
    }
}

on_shared!(domains_over_ranges);
fn domains_over_ranges(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE DOMAIN span AS int4range;
         CREATE DOMAIN checked_span AS span CHECK (NOT isempty(VALUE));
         CREATE DOMAIN spans AS int4multirange;
         CREATE TABLE t (id int, a span, b checked_span, c spans);
         INSERT INTO t SELECT i, int4range(i, i + 2), int4range(i, i + 3), int4multirange(int4range(i, i + 4))
            FROM generate_series(1, 2000) i;
         CREATE INDEX t_skip ON t USING skip (a, b, c) WITH (pages_per_range = 1);
         INSERT INTO t VALUES (0, '[7,9)', '[7,10)', '{[7,11)}')",
    );
    for key in [7, 1500, 9999] {
        for predicate in [
            format!("a = int4range({key}, {})", key + 2),
            format!("b = int4range({key}, {})", key + 3),
            format!("c = int4multirange(int4range({key}, {}))", key + 4),
        ] {
            same(&mut session, "t", &Question::using("t_skip", predicate));
        }
    }
    same(&mut session, "t", &Question::using("t_skip", "a IS NULL"));
    sound(&mut session, "t_skip");
    let found = session
        .one("SELECT bloom_agg(a) @> '[7,9)'::int4range AND NOT bloom_agg(a) @> '[7,19)'::int4range FROM t");
    assert_eq!(found, "t", "filters of a domain over a range");
}

on_shared!(borrowed_operator_classes);
/// As citext does: stored as text, with an `=` of its own.
fn borrowed_operator_classes(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TYPE loud;
         CREATE FUNCTION loud_in(cstring) RETURNS loud IMMUTABLE STRICT LANGUAGE internal AS 'textin';
         CREATE FUNCTION loud_out(loud) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal AS 'textout';
         CREATE TYPE loud (INPUT = loud_in, OUTPUT = loud_out, LIKE = text);
         CREATE CAST (loud AS text) WITHOUT FUNCTION AS IMPLICIT;
         CREATE CAST (text AS loud) WITHOUT FUNCTION AS ASSIGNMENT;
         CREATE TABLE t (id int, c loud);
         INSERT INTO t SELECT i, 'Word' || i FROM generate_series(1, 5000) i",
    );
    // Without an `=` of its own, the type is compared as text, and the index serves it.
    session.run("CREATE INDEX t_skip ON t USING skip (c) WITH (pages_per_range = 1)");
    same(&mut session, "t", &Question::using("t_skip", "c = 'Word77'"));
    session.run(
        "DROP INDEX t_skip;
         CREATE FUNCTION loud_eq(loud, loud) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql
            AS 'BEGIN RETURN upper($1::text) = upper($2::text); END';
         CREATE OPERATOR = (FUNCTION = loud_eq, LEFTARG = loud, RIGHTARG = loud, HASHES);
         CREATE FUNCTION loud_hash(loud) RETURNS int IMMUTABLE STRICT LANGUAGE sql
            AS 'SELECT hashtext(upper($1::text) COLLATE \"C\")';
         CREATE FUNCTION loud_hash_extended(loud, bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE sql
            AS 'SELECT hashtextextended(upper($1::text) COLLATE \"C\", $2)';
         CREATE OPERATOR CLASS loud_ops DEFAULT FOR TYPE loud USING hash AS
            OPERATOR 1 =, FUNCTION 1 loud_hash(loud), FUNCTION 2 loud_hash_extended(loud, bigint)",
    );
    let make = "CREATE INDEX t_skip ON t USING skip (c) WITH (pages_per_range = 1)";
    let error = session.error(make);
    assert_eq!(error.code().code(), "42704", "{error:?}");
    let hint = error.hint().unwrap_or_default().to_owned();
    let (statement, cast) = hint.split_once("; or ").expect("a statement and another way");
    assert!(statement.starts_with("CREATE OPERATOR CLASS loud_skip_ops"), "{hint}");
    assert!(cast.contains("casts the column to text"), "{hint}");
    // The hint does what it says.
    session.run(statement);
    session.run(make);
    for key in ["Word77", "WORD78", "word5000", "absent"] {
        same(&mut session, "t", &Question::using("t_skip", format!("c = '{key}'::loud")));
    }
    session
        .run("DROP INDEX t_skip; CREATE INDEX t_cast ON t USING skip ((c::text)) WITH (pages_per_range = 1)");
    same(&mut session, "t", &Question::using("t_cast", "c::text = 'Word77'"));
}

on_shared!(classes_for_extensions);
/// The operator classes that skip_create_operator_classes() makes, wherever the extension is to be had: in a schema
/// that no search_path names, and once.
fn classes_for_extensions(database: &Database) -> Completion {
    let mut session = database.session();
    session.run("CREATE SCHEMA \"Other types\"; SET search_path = public, \"Other types\"");
    assert_eq!(session.rows("SELECT skip_create_operator_classes()").len(), 0);
    let mut tried = 0;
    let mut missing = Vec::new();
    for (extension, kind, value, equal) in [
        ("citext", "citext", "'Word' || i", "WORD"),
        ("hstore", "hstore", "'k=>' || i", "k => "),
        ("ltree", "ltree", "'top.' || i", "top."),
        ("isn", "ean13", "'978' || lpad((i * 97)::text, 9, '0') || '?'", ""),
    ] {
        let offered = session
            .number(&format!("SELECT count(*) FROM pg_available_extensions WHERE name = '{extension}'"));
        let hashed = extension != "ltree" || server::install().version >= 17;
        if offered == 0.0 || !hashed {
            missing.push(extension);
            continue;
        }
        tried += 1;
        session.run(&format!("CREATE EXTENSION {extension} SCHEMA \"Other types\""));
        session.run("SET search_path = pg_catalog");
        let made = session.column("SELECT public.skip_create_operator_classes()");
        session.run("SET search_path = public, \"Other types\"");
        assert!(made.contains(&format!("public.{kind}_skip_ops")), "{extension}: {made:?}");
        let expected = match extension {
            "citext" => 3,
            "isn" => 8,
            _ => 1,
        };
        assert_eq!(made.len(), expected, "{made:?}");
        assert_eq!(session.rows("SELECT skip_create_operator_classes()").len(), 0, "{extension}");
        session.run(&format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (id int, c {kind});
             INSERT INTO t SELECT i, ({value})::{kind} FROM generate_series(1, 3000) i;
             CREATE INDEX t_skip ON t USING skip (c) WITH (pages_per_range = 1)"
        ));
        let key = match extension {
            "isn" => session.one("SELECT c FROM t WHERE id = 77"),
            _ => format!("{equal}77"),
        };
        same(&mut session, "t", &Question::using("t_skip", format!("c = '{key}'::{kind}")));
        assert_eq!(session.one(&format!("SELECT count(*) FROM t WHERE c = '{key}'::{kind}")), "1");
        sound(&mut session, "t_skip");
        let classes = "SELECT bool_and(amvalidate(c.oid)) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
            AND amname = 'skip'";
        assert_eq!(session.one(classes), "t", "amvalidate of the class for {extension}");
    }
    if tried == 0 {
        return Completion::ignored_with("this server has none of the extensions");
    }
    session.run("DROP TABLE t; DROP EXTENSION pg_skip");
    let left = "SELECT proname FROM pg_proc WHERE proname ~ '^skip_'
        UNION ALL SELECT opcname FROM pg_opclass WHERE opcname ~ '_skip_ops$'";
    assert!(session.column(left).is_empty(), "what DROP EXTENSION leaves: {:?}", session.column(left));
    if !missing.is_empty() {
        println!("skipped: {missing:?}, which this server does not have, or without a hash function");
    }
    Completion::Completed
}

on_shared!(classes_trust_no_name);
/// What others have put in the way of skip_create_operator_classes() is not used, and does not keep it from the rest.
fn classes_trust_no_name(database: &Database) -> Completion {
    let mut session = database.session();
    let offered = "SELECT count(*) FROM pg_available_extension_versions
        WHERE name = 'isn' OR name = 'hstore' AND version = '1.4' OR name = 'citext'";
    if session.number(offered) < 3.0 {
        return Completion::ignored_with("this server does not have the extensions");
    }
    let role = format!("stranger_{}", database.name);
    session.run(&format!(
        "CREATE SCHEMA \"{{skip}} %1$s\"; CREATE EXTENSION citext SCHEMA \"{{skip}} %1$s\";
         CREATE EXTENSION isn; CREATE EXTENSION hstore VERSION '1.4';
         CREATE ROLE {role}; GRANT CREATE ON SCHEMA public TO {role}; SET ROLE {role};
         CREATE FUNCTION skip_hash_upc(upc, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS 'SELECT 0::bigint';
         CREATE FUNCTION hstore_hash_extended(hstore, bigint) RETURNS bigint
            LANGUAGE sql IMMUTABLE STRICT AS 'SELECT 0::bigint';
         RESET ROLE"
    ));
    let call = "SELECT skip_create_operator_classes()";
    let made = session.column(call);
    assert_eq!(made.len(), 3 + 7, "{made:?}");
    assert!(!made.iter().any(|class| class.contains("upc") || class.contains("hstore")), "{made:?}");
    // Not even if the stranger's function is now the server's own: he may replace it.
    session.run(
        "CREATE OR REPLACE FUNCTION skip_hash_upc(upc, bigint) RETURNS bigint
             LANGUAGE internal IMMUTABLE STRICT AS 'hashint8extended'",
    );
    assert!(session.column(call).is_empty());
    session.run("DROP FUNCTION skip_hash_upc");
    assert_eq!(session.column(call), ["public.upc_skip_ops"]);
    // A function of its own is taken again, an operator family that is left is in the way of one class only.
    session
        .run("DROP OPERATOR FAMILY isbn_skip_ops USING skip; DROP OPERATOR CLASS ean13_skip_ops USING skip");
    let made = session.column(call);
    assert!(made.contains(&"public.isbn_skip_ops".to_owned()), "{made:?}");
    let classes = "SELECT bool_and(amvalidate(c.oid)) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
        AND amname = 'skip'";
    assert_eq!(session.one(classes), "t");
    session.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    Completion::Completed
}

on_shared!(names_under_loose_collations);
/// `name`'s hash function ignores the collation that its equality heeds.
fn names_under_loose_collations(database: &Database) {
    let mut session = database.session();
    session.run("CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)");
    session.run(
        "CREATE TABLE t (id int, n name COLLATE ci, m name[] COLLATE ci, x text COLLATE ci, y text[] COLLATE ci);
         INSERT INTO t SELECT i, 'abc' || i, ARRAY['abc' || i]::name[], 'abc' || i, ARRAY['abc' || i]
         FROM generate_series(1, 5000) i",
    );
    for column in ["n", "m"] {
        let error = session.error(&format!("CREATE INDEX ON t USING skip ({column})"));
        assert_eq!(error.code().code(), "0A000", "{error:?}");
    }
    session.run("CREATE INDEX t_skip ON t USING skip (x, y) WITH (pages_per_range = 1)");
    same(&mut session, "t", &Question::using("t_skip", "x = 'ABC77'"));
    same(&mut session, "t", &Question::using("t_skip", "y = ARRAY['aBc77']"));
    assert_eq!(session.one("SELECT count(*) FROM t WHERE x = 'ABC77'"), "1");
}

on_shared!(rows_in_arrays);
/// Rows have another hash when a column is added to their type, which an array of them allows: the index lost them.
fn rows_in_arrays(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TYPE one AS (a int); CREATE TYPE ones AS RANGE (subtype = one);
         CREATE TABLE t (id int, v one[], r ones, n int[]);
         INSERT INTO t SELECT i, ARRAY[ROW(i)::one], ones(ROW(i)::one, ROW(i + 1)::one), ARRAY[i]
         FROM generate_series(1, 9) i",
    );
    for column in ["v", "r", "(ARRAY[v[1]])"] {
        let error = session.error(&format!("CREATE INDEX ON t USING skip ({column})"));
        assert_eq!(error.code().code(), "0A000", "{column}: {error}");
        assert!(error.detail().is_some() && error.hint().is_some());
    }
    session.run("CREATE INDEX t_skip ON t USING skip (n, (v[1].a))");
    for condition in ["n = ARRAY[3]", "v[1].a = 3"] {
        same(&mut session, "t", &Question::using("t_skip", condition));
    }
}
