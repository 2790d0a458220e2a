//! Every type with its edge values, one by one: found when the index was built over them, when they were inserted
//! afterwards, and when those inserts have been folded in; by every form of question, and as keys of a nested loop.
use crate::registry::on_shared;
use crate::shared::{self, Database};
use pg_skip_tests::compare::{Form, Question, same, sound};
use pg_skip_tests::session::Session;
use pg_skip_tests::values::{TYPES, Type, Value, constant};
use pg_skip_tests::{seed, server};

on_shared!(every_value_is_found);
fn every_value_is_found(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    for (number, kind) in TYPES.iter().enumerate() {
        let values = kind.samples(seed() + number as u64);
        one_type(&mut session, kind, &values);
    }
}

fn one_type(session: &mut Session, kind: &Type, values: &[Value]) {
    session.run(&format!(
        "DROP TABLE IF EXISTS t;
         CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, c {}, filler text DEFAULT repeat('x', 1200))",
        kind.name
    ));
    let (early, late) = values.split_at(values.len() / 2);
    insert(session, kind, early);
    session.run(
        "CREATE INDEX t_skip ON t USING skip (c) WITH (pages_per_range = 1, false_positive_rate = 0.001)",
    );
    ask_all(session, kind, values);
    insert(session, kind, late);
    // These go into ranges that have their filter already.
    insert_into_the_first_page(session, kind, late);
    ask_all(session, kind, values);
    session.run("SELECT skip_summarize('t_skip')");
    ask_all(session, kind, values);
    matching_ranges_hold_every_row(session, kind, values);
    nested_loop(session, kind, values);
    sound(session, "t_skip");
}

fn insert(session: &mut Session, kind: &Type, values: &[Value]) {
    let rows: Vec<_> = values.iter().map(|value| format!("({})", kind.constant(value))).collect();
    session.run(&format!("INSERT INTO t (c) VALUES {}", rows.join(", ")));
}

/// Frees the first page and fills it again.
fn insert_into_the_first_page(session: &mut Session, kind: &Type, values: &[Value]) {
    session.run("DELETE FROM t WHERE ctid < '(1,0)'");
    session.run("VACUUM t");
    insert(session, kind, values);
}

fn ask_all(session: &mut Session, kind: &Type, values: &[Value]) {
    let certain = kind.name != "boolean" || server::install().version >= 16;
    let known: Vec<_> =
        values.iter().filter(|value| value.is_some()).map(|value| kind.constant(value)).collect();
    let ask = |predicate: String, form| {
        let index = certain.then(|| "t_skip".to_owned());
        Question { predicate, form, index }
    };
    for value in &known {
        same(session, "t", &ask(format!("c = {value}"), Form::Plain));
    }
    let modes = ["force_generic_plan", "force_custom_plan", "auto"];
    for (pair, mode) in known.windows(2).step_by(3).zip(modes.iter().cycle()) {
        let types = vec![kind.cast.to_owned(); 2];
        same(session, "t", &ask("c IN ($1, $2)".into(), Form::Prepared(types, pair.to_vec(), mode)));
    }
    for chunk in known.chunks(7) {
        same(session, "t", &ask(format!("c IN ({}, {})", chunk.join(", "), known[0]), Form::Plain));
        if kind.in_array {
            let array = format!("ARRAY[{}, NULL]::{}[]", chunk.join(", "), kind.cast);
            let types = vec![format!("{}[]", kind.cast)];
            let form = Form::Prepared(types, vec![array], "force_generic_plan");
            same(session, "t", &ask("c = ANY ($1)".into(), form));
        }
    }
    for predicate in ["c IS NULL", "c IS NOT NULL"] {
        same(session, "t", &Question::using("t_skip", predicate));
    }
}

/// What `skip_matching_ranges` gives holds the block of every row with the value.
fn matching_ranges_hold_every_row(session: &mut Session, kind: &Type, values: &[Value]) {
    for value in values {
        let value_sql = kind.constant(value);
        let condition =
            if value.is_none() { "c IS NULL".into() } else { format!("(c = {value_sql}) IS TRUE") };
        let missing = session.column(&format!(
            "SELECT (ctid::text::point)[0]::bigint FROM t WHERE {condition}
             EXCEPT SELECT skip_matching_ranges('t_skip', 'c', {value_sql})"
        ));
        assert!(
            missing.is_empty(),
            "{}: ranges {missing:?} hold {value_sql}, unknown to the index",
            kind.name
        );
    }
}

/// The index on the inner side of a nested loop, asked again for each outer row.
fn nested_loop(session: &mut Session, kind: &Type, values: &[Value]) {
    let outer: Vec<_> =
        values.iter().enumerate().map(|(n, value)| format!("({n}, {})", kind.constant(value))).collect();
    let outer = outer.join(", ");
    // OFFSET keeps the inner query whole, so that the key can only come in as a parameter.
    let with = format!(
        "SELECT n, (SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM t WHERE c = v OFFSET 0) s)
         FROM (VALUES {outer}) o (n, v) ORDER BY n"
    );
    let without = with.replace("c = v", "(c = v) IS TRUE");
    let ways = [("on", "off"), ("off", "on")].map(|(skip_scan, bitmap)| {
        session.run(&format!(
            "SET enable_seqscan = off; SET enable_bitmapscan = {bitmap}; SET pg_skip.enable_scan = {skip_scan}"
        ));
        session.rows(&with)
    });
    session.run("RESET enable_seqscan; SET enable_bitmapscan = off");
    let plain = session.rows(&without);
    for (way, indexed) in ["Skip Index Scans", "bitmaps"].into_iter().zip(ways) {
        assert_eq!(indexed, plain, "{}: a nested loop of {way}", kind.name);
    }
    session.run("RESET enable_bitmapscan; RESET pg_skip.enable_scan");
}

on_shared!(cross_type_constants_use_the_index);
/// `WHERE bigint_column = 5` has an int4 constant: it must be served like any other.
fn cross_type_constants_use_the_index(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    for kind in TYPES.iter().filter(|kind| !kind.cross.is_empty()) {
        session.run(&format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (id int, c {});
             INSERT INTO t SELECT i, (i % 300)::text::{} FROM generate_series(1, 6000) i;
             CREATE INDEX t_skip ON t USING skip (c) WITH (pages_per_range = 1)",
            kind.name, kind.name
        ));
        for cast in kind.cross {
            // With a name the comparison's collation is "C": an index in another collation cannot serve it.
            let collation =
                "SELECT indcollation[0] IN (0, 950) FROM pg_index WHERE indexrelid = 't_skip'::regclass";
            let served = *cast != "name" || session.one(collation) == "t";
            for value in ["0", "7", "299", "300", "-1"] {
                let value = constant(&Some(value.into()), cast);
                let ask = |predicate: String| Question {
                    predicate,
                    form: Form::Plain,
                    index: served.then(|| "t_skip".to_owned()),
                };
                same(&mut session, "t", &ask(format!("c = {value}")));
                same(&mut session, "t", &ask(format!("c IN ({value}, {value}, {value})")));
            }
        }
    }
    // Literals as people write them.
    session.run(
        "CREATE TABLE lit (id int, b bigint, s smallint, f float8);
         INSERT INTO lit SELECT i, i, i % 9, i FROM generate_series(1, 5000) i;
         CREATE INDEX lit_skip ON lit USING skip (b, s, f) WITH (pages_per_range = 1)",
    );
    for predicate in
        ["b = 5", "s = 5", "b IN (5, 6)", "b = 5::smallint", "f = 5", "f = 5.0", "b = 4999 AND s = 4"]
    {
        same(&mut session, "lit", &Question::using("lit_skip", predicate));
    }
    for predicate in ["b = 5.0", "b = 99999999999999999999", "s = 70000", "s = 1000000000000", "b = 5.5"] {
        same(&mut session, "lit", &Question::any(predicate));
    }
}

on_shared!(foreign_collations_are_not_served);
/// A collation other than the index's makes the clause unusable, not wrong.
fn foreign_collations_are_not_served(database: &Database) {
    let mut session = database.session();
    shared::prepare_types(&mut session);
    session.run(
        "CREATE TABLE t (id int, c text, n text COLLATE nocase);
         INSERT INTO t SELECT i, CASE i % 2 WHEN 0 THEN 'word' ELSE 'WORD' END || i / 2,
            CASE i % 2 WHEN 0 THEN 'word' ELSE 'WORD' END || i / 2 FROM generate_series(0, 5000) i;
         CREATE INDEX t_skip ON t USING skip (c, n) WITH (pages_per_range = 1)",
    );
    let found = session.number("SELECT count(*) FROM t WHERE (n = 'Word77') IS TRUE");
    assert_eq!(found, 2.0, "the collation ignores case");
    same(&mut session, "t", &Question::using("t_skip", "n = 'Word77'"));
    same(&mut session, "t", &Question::using("t_skip", "c = 'word77'"));
    for predicate in
        ["c = 'Word77' COLLATE nocase", "n = 'word77' COLLATE \"C\"", "n IN ('WORD1' COLLATE \"C\", 'x')"]
    {
        same(&mut session, "t", &Question::any(predicate));
    }
    session.run(
        "CREATE INDEX t_other ON t USING skip (c COLLATE nocase) WITH (pages_per_range = 1);
         DROP INDEX t_skip",
    );
    same(&mut session, "t", &Question::using("t_other", "c = 'Word77' COLLATE nocase"));
    same(&mut session, "t", &Question::any("c = 'Word77'"));
    sound(&mut session, "t_other");
}

on_shared!(operator_classes_are_valid);
fn operator_classes_are_valid(database: &Database) {
    let mut session = database.session();
    let classes = session.rows(
        "SELECT opcname, amvalidate(c.oid) FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod
         WHERE amname = 'skip' ORDER BY 1",
    );
    assert!(classes.len() >= 25, "only {classes:?}");
    for class in classes {
        assert_eq!(class[1].as_deref(), Some("t"), "amvalidate of {class:?}");
        assert!(class[0].as_ref().is_some_and(|name| name.ends_with("_skip_ops")), "the name of {class:?}");
    }
    // Each type has a default operator class: an index needs no more than the column's name.
    shared::prepare_types(&mut session);
    for kind in TYPES {
        session.run(&format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (c {}); CREATE INDEX ON t USING skip (c)",
            kind.name
        ));
    }
}

on_shared!(nulls_only_and_nothing);
/// All NULL, empty, and all gone are three different things.
fn nulls_only_and_nothing(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, a int, b text, filler text DEFAULT repeat('x', 2000));
         CREATE INDEX t_skip ON t USING skip (a, b) WITH (pages_per_range = 2, autosummarize = off)",
    );
    let ask = |session: &mut Session| {
        for predicate in
            ["a IS NULL", "a IS NOT NULL", "a = 1", "b IS NULL AND a = 1", "a IN (1, NULL)", "b = 'x'"]
        {
            same(session, "t", &Question::using("t_skip", predicate));
        }
        sound(session, "t_skip");
    };
    ask(&mut session);
    session.run("SELECT skip_summarize('t_skip')");
    ask(&mut session);
    session.run("INSERT INTO t (a) SELECT NULL FROM generate_series(1, 100)");
    ask(&mut session);
    session.run("VACUUM t");
    ask(&mut session);
    session.run("INSERT INTO t (a, b) SELECT NULLIF(i % 2, 0), 'x' FROM generate_series(1, 100) i");
    session.run("UPDATE t SET a = 1 WHERE id < 5");
    ask(&mut session);
    session.run("DELETE FROM t");
    ask(&mut session);
    session.run("VACUUM t");
    ask(&mut session);
    session.run("INSERT INTO t (a) VALUES (1), (NULL)");
    session.run("REINDEX INDEX t_skip");
    ask(&mut session);
}
