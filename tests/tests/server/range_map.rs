//! skip_range_map: the picture of a table, against a layout that is known, and against what SQL says of it.
use crate::registry::on_shared;
use crate::shared::{self, Database, wait_until};
use fastrand::Rng;
use pg_skip_tests::seed;
use pg_skip_tests::session::Session;
use pg_skip_tests::values::{TYPES, Type, Value};

/// So low that a false positive in a test is out of the question.
const OPTIONS: &str = "pages_per_range = 1, false_positive_rate = 1e-9, autosummarize = off";

/// A table of one row a block, with these keys.
fn one_row_a_block(session: &mut Session, keys: &str) {
    session.run(
        "CREATE TABLE t (k int, pad text DEFAULT repeat('x', 6000));
         ALTER TABLE t ALTER pad SET STORAGE PLAIN",
    );
    append(session, keys);
}

fn append(session: &mut Session, keys: &str) {
    session.run(&format!("INSERT INTO t SELECT unnest(ARRAY[{keys}]::int[])"));
}

fn index(session: &mut Session, columns: &str) {
    session.run(&format!("CREATE INDEX t_skip ON t USING skip ({columns}) WITH ({OPTIONS})"));
}

#[track_caller]
fn map(session: &mut Session, arguments: &str) -> String {
    session.one(&format!("SELECT skip_range_map('t_skip', {arguments})"))
}

on_shared!(a_known_layout);
fn a_known_layout(database: &Database) {
    let mut session = database.session();
    one_row_a_block(&mut session, "1, 7, 2, NULL, 7, 3, 7");
    index(&mut session, "k");
    session.run("DELETE FROM t WHERE ctid = '(4,1)'");
    append(&mut session, "7, 8");
    let expected = [
        ("7", ".#..o.##?"),
        ("1", "#......??"),
        ("99", ".......??"),
        ("NULL::int", "...#...??"),
        ("8", ".......?#"),
        ("7::bigint", ".#..o.##?"),
        ("3::smallint", ".....#.??"),
        ("99999999999", ".......??"),
    ];
    for (value, line) in &expected {
        assert_eq!(map(&mut session, &format!("'k', {value}")), *line, "{value}");
    }
    session.run("SELECT skip_summarize('t_skip')");
    for (value, line) in &expected {
        assert_eq!(map(&mut session, &format!("'k', {value}")), line.replace('?', "."), "{value}");
    }
    session.run("VACUUM t");
    // Deleted values stay in a filter; a new row comes in by the delta, before the filter has it.
    session.run("UPDATE t SET k = 5 WHERE ctid = '(0,1)'");
    assert_eq!(map(&mut session, "'k', 7"), ".#..o.##.");
    assert_eq!(map(&mut session, "'k', 5").matches('#').count(), 1);
    session.run("REINDEX INDEX t_skip");
    assert_eq!(map(&mut session, "'k', 99").matches(|c| c != '.').count(), 0);
}

on_shared!(cells_cover_ranges);
fn cells_cover_ranges(database: &Database) {
    let mut session = database.session();
    one_row_a_block(&mut session, "1, 7, 2, 2, 7, 3, 9, 9, 9, 9");
    index(&mut session, "k");
    session.run("DELETE FROM t WHERE ctid IN ('(4,1)', '(6,1)')");
    append(&mut session, "8, 9");
    assert_eq!(map(&mut session, "'k', 7, 12"), ".#..o.....??");
    assert_eq!(map(&mut session, "'k', 7, 100000"), ".#..o.....??");
    assert_eq!(map(&mut session, "'k', 7, 6"), "#.o..?");
    assert_eq!(map(&mut session, "'k', 7, 3"), "#o?");
    assert_eq!(map(&mut session, "'k', 7, 1"), "#");
    assert_eq!(map(&mut session, "'k', 9, 6"), "...###");
    assert_eq!(map(&mut session, "'k', 8, 2"), ".#");
    assert_eq!(map(&mut session, "'k', 99, 5"), "....?");
    // Longer than the default width, and rows of many cursor batches.
    session.run("TRUNCATE t; INSERT INTO t SELECT 5, 'short' FROM generate_series(1, 30000)");
    session.run("SELECT skip_summarize('t_skip')");
    assert_eq!(map(&mut session, "'k', 5"), "#".repeat(64));
    assert_eq!(map(&mut session, "'k', 6"), ".".repeat(64));
    let ranges = session.number("SELECT pg_relation_size('t') / 8192") as usize;
    assert_eq!(map(&mut session, "'k', 5, 1000"), "#".repeat(ranges));
    session.run("CREATE INDEX t_wide ON t USING skip (k) WITH (pages_per_range = 7)");
    let wide = session.one("SELECT skip_range_map('t_wide', 'k', 5, 1000)");
    assert_eq!(wide, "#".repeat(ranges.div_ceil(7)));
}

on_shared!(empty_and_small_tables);
fn empty_and_small_tables(database: &Database) {
    let mut session = database.session();
    one_row_a_block(&mut session, "");
    index(&mut session, "k");
    assert_eq!(map(&mut session, "'k', 1"), "");
    assert_eq!(map(&mut session, "'k', NULL::int"), "");
    append(&mut session, "1");
    assert_eq!(map(&mut session, "'k', 1"), "#");
    assert_eq!(map(&mut session, "'k', 2"), "?");
    for nothing in ["NULL, 'k', 1", "'t_skip', NULL, 1", "'t_skip', 'k', 1, NULL"] {
        assert_eq!(session.one(&format!("SELECT skip_range_map({nothing})")), "NULL");
    }
    session.run("CREATE TEMP TABLE t2 AS SELECT 1 AS k; CREATE INDEX ON t2 USING skip (k)");
    assert_eq!(session.one("SELECT skip_range_map('t2_k_idx', 'k', 1)"), "#");
}

on_shared!(expressions_and_predicates);
fn expressions_and_predicates(database: &Database) {
    let mut session = database.session();
    one_row_a_block(&mut session, "1, 2, 3, 4, 5, 11");
    index(&mut session, "(k % 10), (CASE WHEN k > 3 THEN 'big' END), k");
    assert_eq!(map(&mut session, "'expr', 1"), "#....#");
    assert_eq!(map(&mut session, "'case', 'big'::text"), "...###");
    assert_eq!(map(&mut session, "'case', NULL::text"), "###...");
    assert_eq!(map(&mut session, "'k', 11"), ".....#");
    session
        .run(&format!("CREATE INDEX t_part ON t USING skip (k) WITH ({OPTIONS}) WHERE k > 2 AND pad <> ''"));
    for (value, line) in [("1", "......"), ("3", "..#..."), ("NULL::int", "......")] {
        assert_eq!(session.one(&format!("SELECT skip_range_map('t_part', 'k', {value})")), line);
    }
    // Rows of a child are not the table's; a partition's index is asked by its own name.
    session.run("CREATE TABLE child () INHERITS (t); INSERT INTO child (k) VALUES (2)");
    assert_eq!(map(&mut session, "'k', 2"), ".#....");
}

on_shared!(every_type);
/// What SQL says of each range must be what the map shows.
fn every_type(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    for (number, kind) in TYPES.iter().enumerate() {
        let mut values = kind.samples(seed() + number as u64);
        let mut rng = Rng::with_seed(seed() + number as u64);
        session.run(&format!(
            "DROP TABLE IF EXISTS t;
             CREATE TABLE t (c {}, filler text DEFAULT repeat('x', 1200))",
            kind.name
        ));
        for _ in 0..2 {
            let rows: Vec<_> = values.iter().map(|value| format!("({})", kind.constant(value))).collect();
            session.run(&format!("INSERT INTO t (c) VALUES {}", rows.join(", ")));
            rng.shuffle(&mut values);
        }
        index(&mut session, "c");
        for value in &values {
            agrees(&mut session, kind, value);
        }
    }
}

#[track_caller]
fn agrees(session: &mut Session, kind: &Type, value: &Value) {
    let constant = kind.constant(value);
    let condition = if value.is_none() { "c IS NULL".into() } else { format!("c = {constant}") };
    let expected = session.one(&format!(
        "WITH holding AS (SELECT (ctid::text::point)[0]::bigint AS r FROM t WHERE ({condition}) IS TRUE),
         matching AS (SELECT r FROM skip_matching_ranges('t_skip', 'c', {constant}) r)
         SELECT coalesce(string_agg(CASE WHEN r IN (SELECT * FROM holding) THEN '#'
             WHEN r IN (SELECT * FROM matching) THEN 'o' ELSE '.' END, '' ORDER BY r), '')
         FROM generate_series(0, pg_relation_size('t') / 8192 - 1) r"
    ));
    let shown = map(session, &format!("'c', {constant}, 1000"));
    assert_eq!(shown, expected, "{} {constant}", kind.name);
    for (cross, text) in kind.cross.iter().zip(std::iter::repeat(value)) {
        let Some(text) = text else { continue };
        let other = format!("'{}'::{cross}", text.replace('\'', "''"));
        // Only where the value is the same in the other type.
        let same = session.try_rows(&format!("SELECT ({constant}) = ({other})"));
        if same.is_ok_and(|rows| rows[0][0].as_deref() == Some("t")) {
            assert_eq!(map(session, &format!("'c', {other}, 1000")), expected, "{} {other}", kind.name);
        }
    }
}

on_shared!(names_and_search_paths);
/// No name needs a search_path, and no operator or function that lies in one leads the map astray.
fn names_and_search_paths(database: &Database) {
    let mut session = database.session();
    session.run(
        r#"CREATE SCHEMA "My ""Schema";
         CREATE TABLE "My ""Schema"."Ünder" ("Kö l" int, "sel" text COLLATE "de-x-icu");
         INSERT INTO "My ""Schema"."Ünder" SELECT i, 'Zeile ' || i FROM generate_series(1, 500) i;
         CREATE FUNCTION "My ""Schema"."F'n"(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1';
         CREATE INDEX "ix " ON "My ""Schema"."Ünder"
             USING skip ("Kö l", ("My ""Schema"."F'n"("Kö l")), "sel") WITH (pages_per_range = 1)
             WHERE "My ""Schema"."F'n"("Kö l") > 0"#,
    );
    session.run(
        "CREATE SCHEMA evil;
         CREATE FUNCTION evil.eq(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT 1 / 0 = 1';
         CREATE FUNCTION evil.eqt(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT 1 / 0 = 1';
         CREATE OPERATOR evil.= (FUNCTION = evil.eq, LEFTARG = int, RIGHTARG = int);
         CREATE OPERATOR evil.= (FUNCTION = evil.eqt, LEFTARG = text, RIGHTARG = text);
         CREATE OPERATOR evil.> (FUNCTION = evil.eq, LEFTARG = int, RIGHTARG = int);
         SET search_path = evil, pg_catalog",
    );
    let function = "public.skip_range_map('\"My \"\"Schema\".\"ix \"'";
    for (column, value) in [("Kö l", "7"), ("F''n", "8"), ("sel", "'Zeile 7'::text")] {
        let line = session.one(&format!("SELECT {function}, '{column}', {value})"));
        assert!(line.starts_with('#') && !line[1..].contains('#'), "{column}: {line}");
    }
    session.run("SET search_path = public");
}

on_shared!(all_rows_are_searched);
/// No policy hides rows from a caller who may read all of them, not even one that restrains the table's owner; and no
/// setting forces another index on the search.
fn all_rows_are_searched(database: &Database) {
    let mut session = database.session();
    let owner = format!("{}_owner", database.name);
    one_row_a_block(&mut session, "1, 7, 2");
    index(&mut session, "k");
    session.run(&format!(
        "CREATE ROLE {owner}; ALTER TABLE t OWNER TO {owner};
         CREATE POLICY p ON t USING (k <> 7); ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    ));
    for setting in ["RESET row_security", "SET row_security = off"] {
        session.run(setting);
        assert_eq!(map(&mut session, "'k', 7"), ".#.", "{setting}");
    }
    session
        .run("CREATE INDEX other_skip ON t USING skip ((k + 1)); SET pg_skip.force_indexes = 'other_skip'");
    assert_eq!(map(&mut session, "'k', 7"), ".#.");
    assert!(!session.rows("SELECT * FROM skip_advise('t')").is_empty());
    assert_eq!(session.error("SELECT * FROM t WHERE k = 7").code().code(), "55000");
    session.run(&format!("REASSIGN OWNED BY {owner} TO postgres; DROP OWNED BY {owner}; DROP ROLE {owner}"));
}

on_shared!(the_snapshot_counts);
fn the_snapshot_counts(database: &Database) {
    let (mut session, mut other) = (database.session(), database.session());
    one_row_a_block(&mut session, "1, 2, 3");
    index(&mut session, "k");
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(map(&mut session, "'k', 2"), ".#.");
    other.run("UPDATE t SET k = 7 WHERE k = 3");
    assert_eq!(map(&mut session, "'k', 7"), "...?");
    assert_eq!(map(&mut session, "'k', 3"), "..#?");
    session.run("COMMIT");
    assert_eq!(map(&mut session, "'k', 7"), "...#");
    assert_eq!(map(&mut session, "'k', 3"), "..o?");
    session.run("BEGIN; DELETE FROM t WHERE k = 1; INSERT INTO t VALUES (2)");
    assert_eq!(map(&mut session, "'k', 1"), "o..??");
    assert_eq!(map(&mut session, "'k', 2"), ".#.?#");
    assert_eq!(map(&mut other, "'k', 1"), "#..??");
    assert_eq!(map(&mut other, "'k', 2"), ".#.??");
    session.run("ROLLBACK");
}

on_shared!(a_layout_chosen_meanwhile);
/// The layout of the column is chosen after skip_range_map has found the ranges without a filter, and before it looks
/// the value up: ranges become single pages in between, and it starts over.
fn a_layout_chosen_meanwhile(database: &Database) {
    let (mut session, mut drawer) = (database.session(), database.session());
    // Only the session that draws waits.
    session.run(
        "CREATE FUNCTION waiting_hash(int, bigint) RETURNS bigint IMMUTABLE STRICT LANGUAGE plpgsql AS $$
             BEGIN
                 IF current_setting('test.waits', true) = 'on' THEN
                     PERFORM pg_advisory_lock_shared(7); PERFORM pg_advisory_unlock_shared(7);
                 END IF;
                 RETURN hashint4extended($1, $2);
             END $$;
         CREATE OPERATOR CLASS waiting_ops FOR TYPE int USING skip AS
             OPERATOR 1 =, FUNCTION 1 waiting_hash(int, bigint), FUNCTION 2 skip_opclass_options(internal);
         CREATE TABLE t (k int, pad text DEFAULT repeat('x', 100));
         CREATE INDEX t_skip ON t USING skip (k waiting_ops (pages_per_range = 1))
             WITH (layout = auto, pages_per_range = 4, autosummarize = off);
         INSERT INTO t SELECT generate_series(1, 2000)",
    );
    let pages = session.number("SELECT pg_relation_size('t') / 8192") as usize;
    let layout = "SELECT layout || ' ' || ranges FROM skip_index_info('t_skip')";
    assert_eq!(session.one(layout), format!("auto {}", pages.div_ceil(4)));
    session.run("SELECT pg_advisory_lock(7)");
    drawer.run("SET test.waits = on");
    let line = std::thread::scope(|scope| {
        let drawing = scope.spawn(move || map(&mut drawer, "'k', 2000, 1000"));
        let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        wait_until("the lookup waits", || session.one(waits) == "1");
        session.run("SELECT skip_summarize('t_skip')");
        assert_eq!(session.one(layout), format!("map {pages}"));
        session.run("SELECT pg_advisory_unlock(7)");
        drawing.join().expect("the map")
    });
    assert_eq!(line, ".".repeat(pages - 1) + "#", "the row is on the last page");
}

on_shared!(wrong_arguments);
fn wrong_arguments(database: &Database) {
    let mut session = database.session();
    one_row_a_block(&mut session, "1, 2, 3");
    index(&mut session, "k");
    session.run("CREATE INDEX t_btree ON t (k)");
    let mut refused = |arguments: &str, code: &str| {
        let error = session.error(&format!("SELECT skip_range_map({arguments})"));
        assert_eq!(error.code().code(), code, "{arguments}: {}", error.message());
        assert!(error.detail().is_some() || error.hint().is_some(), "{arguments}: {}", error.message());
    };
    refused("'t_skip', 'pad', 'x'::text", "42703");
    refused("'t_skip', 'K', 1", "42703");
    for width in ["0", "-1", "100001", "2147483647"] {
        refused(&format!("'t_skip', 'k', 1, {width}"), "22023");
    }
    refused("'t_skip', 'k', '2026-01-01'::date", "42804");
    refused("'t_skip', 'k', 1.5", "42804");
    refused("'t_btree', 'k', 1", "42809");
    refused("'t', 'k', 1", "42809");
}

on_shared!(untyped_literals);
/// A literal, whose type nothing says, stands for a value of the column's type, as in a condition.
fn untyped_literals(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    let mut asked = 0;
    for (number, kind) in TYPES.iter().enumerate() {
        session.run(&format!("DROP TABLE IF EXISTS t; CREATE TABLE t (c {})", kind.name));
        let values = kind.samples(seed() + number as u64);
        let rows: Vec<_> = values.iter().map(|value| format!("({})", kind.constant(value))).collect();
        session.run(&format!("INSERT INTO t (c) VALUES {}", rows.join(", ")));
        index(&mut session, "c");
        for value in values.iter().take(5) {
            let literal = value.as_ref().map_or("NULL".into(), |v| format!("'{}'", v.replace('\'', "''")));
            for function in ["skip_matching_ranges", "skip_range_map"] {
                let typed = format!("SELECT {function}('t_skip', 'c', {})", kind.constant(value));
                let untyped = format!("SELECT {function}('t_skip', 'c', {literal})");
                assert_eq!(session.column(&untyped), session.column(&typed), "{} {literal}", kind.name);
                asked += 1;
            }
        }
    }
    assert!(asked > 100, "{asked} questions");
    // A parameter of unknown type, as drivers send them.
    session.run("DROP TABLE t; CREATE TABLE t (c uuid); INSERT INTO t VALUES (md5('7')::uuid)");
    index(&mut session, "c");
    session.run("PREPARE q AS SELECT skip_range_map('t_skip', 'c', $1)");
    assert_eq!(session.one("EXECUTE q ('8f14e45f-ceea-167a-5a36-dedd4bea2543')"), "#");
    assert_eq!(session.one("EXECUTE q (NULL)"), ".");
    let named = "index => 't_skip', value => '8f14e45f-ceea-167a-5a36-dedd4bea2543', column_name => 'c'";
    assert_eq!(session.one(&format!("SELECT skip_range_map({named}, width => 3)")), "#");
    assert_eq!(session.one(&format!("SELECT skip_matching_ranges({named})")), "0");
    let error = session.error("SELECT skip_range_map('t_skip', 'c', 'no uuid')");
    assert_eq!(error.code().code(), "22P02", "{error:?}");
    // What a domain forbids is in no row; its checks are the owner's code, and not run.
    session.run(
        "CREATE DOMAIN small AS int CHECK (VALUE / (VALUE - 11) < 10);
         CREATE DOMAIN any_word AS varchar CHECK (VALUE <> 'no');
         DROP TABLE t; CREATE TABLE t (c small, w any_word); INSERT INTO t VALUES (3, 'yes')",
    );
    index(&mut session, "c, w");
    for (arguments, line) in [
        ("'c', '3'", "#"),
        ("'c', 3::small", "#"),
        ("'c', '11'", "."),
        ("'w', 'yes'", "#"),
        ("'w', 'no'", "."),
        ("'w', 'yes'::varchar", "#"),
        ("'w', 'yes'::any_word", "#"),
        ("'w', 'yes'::name", "#"),
    ] {
        assert_eq!(map(&mut session, arguments), line, "{arguments}");
    }
    // Nor are they inside of other types: then the caller has to read the literal.
    session.run(
        "CREATE DOMAIN called AS name;
         DROP TABLE t; CREATE TABLE t (c small[], n called); INSERT INTO t VALUES ('{3}', 'yes')",
    );
    index(&mut session, "c, n");
    for function in ["skip_matching_ranges", "skip_range_map"] {
        let error = session.error(&format!("SELECT {function}('t_skip', 'c', '{{11}}')"));
        assert_eq!(error.code().code(), "0A000", "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("'…'::small[]")), "{error:?}");
    }
    for (arguments, line) in [
        ("'c', '{3}'::small[]", "#"),
        ("'c', '{4}'::small[]", "."),
        ("'n', 'yes'::called", "#"),
        ("'n', 'no'::called", "."),
    ] {
        assert_eq!(map(&mut session, arguments), line, "{arguments}");
    }
}

on_shared!(rights);
/// The same rights as for `skip_matching_ranges`; the owner's code runs as the owner.
fn rights(database: &Database) {
    let mut session = database.session();
    let name = &database.name;
    let (owner, reader, nobody) = (format!("{name}_o"), format!("{name}_r"), format!("{name}_n"));
    for role in [&owner, &reader, &nobody] {
        session.run(&format!("CREATE ROLE {role}"));
    }
    one_row_a_block(&mut session, "1, 2, 3");
    session.run("CREATE FUNCTION who(int) RETURNS name IMMUTABLE LANGUAGE sql AS 'SELECT current_user'");
    session.run(&format!("ALTER TABLE t OWNER TO {owner}; GRANT SELECT ON t TO {reader}"));
    index(&mut session, "k, (who(k))");
    assert_eq!(map(&mut session, &format!("'who', '{owner}'::name")), "###");
    session.run(&format!("SET ROLE {reader}"));
    assert_eq!(map(&mut session, "'k', 2"), ".#.");
    assert_eq!(map(&mut session, &format!("'who', '{owner}'::name")), "###");
    assert_eq!(session.one("SELECT current_user"), reader);
    session.run(&format!("RESET ROLE; SET ROLE {nobody}"));
    assert_eq!(session.error("SELECT skip_range_map('t_skip', 'k', 2)").code().code(), "42501");
    session.run(&format!("RESET ROLE; GRANT pg_monitor TO {nobody}; SET ROLE {nobody}"));
    let error = session.error("SELECT skip_range_map('t_skip', 'k', 2)");
    assert_eq!(error.code().code(), "42501", "a monitor sees indexes, not rows");
    session.run("RESET ROLE; ALTER TABLE t ENABLE ROW LEVEL SECURITY");
    session.run(&format!("CREATE POLICY p ON t USING (k <> 2); SET ROLE {reader}"));
    assert_eq!(session.error("SELECT skip_range_map('t_skip', 'k', 2)").code().code(), "42501");
    session.run(&format!("RESET ROLE; REASSIGN OWNED BY {owner} TO postgres"));
    session.run(&format!("DROP OWNED BY {owner}, {reader}, {nobody}; DROP ROLE {owner}, {reader}, {nobody}"));
}
