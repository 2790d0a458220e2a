//! Words of text: `text_token_skip_ops`, and the operators `@@@` and `@@@*`.
use super::text_cases::{quoted, search_words, value, wanted};
use super::{Inside, gives_ranges, live, skips_many};
use crate::encodings::other;
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, same};
use pg_skip_tests::compare::{self, Question, sound};
use pg_skip_tests::session::Session;

on_shared!(as_is = lives("text", "v text_token_skip_ops"));
on_shared!(folded = lives("varchar", "v text_token_skip_ops (fold_case = on)"));
on_shared!(turkish = lives("text COLLATE \"tr-x-icu\"", "v text_token_skip_ops (fold_case = on)"));
on_shared!(fragments = lives("text", "v text_ngram_skip_ops (n = 2)"));
fn lives(database: &Database, kind: &'static str, indexed: &'static str) {
    let mut session = database.session();
    live(&mut session, &Inside { name: "inside::words", kind, indexed, value, search: search_words }, 0);
}

/// A table of 2,000 rows in which each number has one row, indexed with folded words, and as they are.
fn lines(session: &mut Session) {
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text, filler text DEFAULT repeat('x', 200));
         INSERT INTO t (v) SELECT 'Error: number Q' || i || 'z, of (' || md5(i::text) || ')'
            FROM generate_series(1, 2000) i;
         INSERT INTO t (v) VALUES (''), (' - '), ('word'), (NULL), ('größe—weite 日本語 İX');
         CREATE INDEX folded ON t USING skip (v text_token_skip_ops (fold_case = on)) WITH (pages_per_range = 2);
         CREATE INDEX as_is ON t USING skip (v text_token_skip_ops) WITH (pages_per_range = 2); ANALYZE t",
    );
}

on_shared!(operators);
/// What each operator must use, and skip, and find.
fn operators(database: &Database) {
    let mut session = database.session();
    lines(&mut session);
    let hash = session.one("SELECT md5('665')");
    for (predicate, found, serves) in [
        ("v @@@ 'Q701z'", 1, "both"),
        ("v @@@ 'number, Q701z!'", 1, "both"),
        ("v @@@ 'number Q701z Q702z'", 0, "both"),
        ("v @@@ 'Q701'", 0, "both"),
        ("v @@@ 'q701z'", 0, "both"),
        ("v @@@* 'q701Z ERROR'", 1, "folded"),
        ("v @@@ ANY ('{Q701z,Q1801z of,NULL}')", 2, "both"),
        ("(v @@@ 'Q701z' OR v @@@ 'Q1801z')", 2, "both"),
        ("v @@@ '日本語'", 1, "both"),
        ("v @@@* 'ix'", 1, "folded"),
        ("v LIKE '% Q701z,%'", 1, "both"),
        ("v LIKE '%Q701z%'", 1, ""),
        ("v ILIKE '% q701Z,%'", 1, "folded"),
        ("v ^@ 'Error: number Q701z,'", 1, "both"),
        ("v ~ 'number Q701z, of'", 1, "both"),
        ("v ~* 'NUMBER q(701|1801)z, of'", 2, ""),
        ("v = 'word'", 1, "both"),
        ("v IN ('word', 'other word')", 1, "both"),
        ("v IS NOT DISTINCT FROM 'word'", 1, "both"),
        ("v = ''", 1, ""),
        ("v IS NULL", 1, "both"),
        (&format!("v @@@ '{hash}'"), 1, "both"),
        (&format!("v LIKE '%({hash})'"), 1, "both"),
    ] {
        let statement = format!("SELECT id FROM t WHERE {predicate}");
        let count = session.number(&format!("SELECT count(*) FROM t WHERE {predicate}"));
        assert_eq!(count, f64::from(found), "{predicate}");
        for (index, not) in [("folded", "as_is"), ("as_is", "folded")] {
            session.run(&format!("SET pg_skip.ignore_indexes = '{not}'"));
            same(&mut session, &Way::skip_scan(), &Case::using(&statement));
            if serves == "both" || serves == index {
                Way::skip_scan().set(&mut session);
                skips_many(&mut session, &statement);
            }
            session.run("RESET ALL");
        }
        compare::same(&mut session, "t", &Question::any(predicate));
    }
    compare::same(&mut session, "t", &Question::using("folded", "v @@@* 'Q701Z' AND v @@@ 'number'"));
    for index in ["folded", "as_is"] {
        sound(&mut session, index);
    }
}

on_shared!(without_words);
/// Values and searches without words: every text has all of no words.
fn without_words(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE e (id int GENERATED ALWAYS AS IDENTITY, v text, filler text DEFAULT repeat('x', 900));
         INSERT INTO e (v) SELECT NULL FROM generate_series(1, 200);
         CREATE INDEX e_v ON e USING skip (v text_token_skip_ops) WITH (pages_per_range = 1);
         DELETE FROM e WHERE id % 8 = 0",
    );
    session.run("VACUUM e");
    session.run("INSERT INTO e (v) VALUES ('-')");
    for step in ["SELECT 1", "SELECT skip_summarize('e_v')", "VACUUM e", "REINDEX INDEX e_v"] {
        session.run(step);
        for predicate in ["v IS NOT NULL", "v @@@ ''", "v @@@ '...'", "v = '-'", "v LIKE '%'"] {
            let statement = format!("SELECT id FROM e WHERE {predicate}");
            same(&mut session, &Way::skip_scan(), &Case::using(&statement));
            assert_eq!(session.number(&format!("SELECT count(*) FROM e WHERE {predicate}")), 1.0);
            Way::skip_scan().set(&mut session);
            skips_many(&mut session, &statement);
            session.run("RESET ALL");
        }
        sound(&mut session, "e_v");
    }
}

on_shared!(functions);
/// What a word is, and the functions that look words up.
fn functions(database: &Database) {
    let mut session = database.session();
    lines(&mut session);
    for (call, is_so) in [
        ("skip_has_words('disk is full', 'full disk')", "t"),
        ("skip_has_words('disks are full', 'disk')", "f"),
        ("skip_has_words('a_b', 'a b')", "t"),
        ("skip_has_words('Disk', 'disk')", "f"),
        ("skip_has_words_in_any_case('Disk', 'dISK')", "t"),
        ("skip_has_words_in_any_case('ΣΊΣΥΦΟΣ', 'σίσυφος')", "t"),
        ("'x' OPERATOR(public.@@@) ''", "t"),
        ("'' @@@ 'x'", "f"),
        ("('x' @@@* NULL) IS NULL", "t"),
    ] {
        assert_eq!(session.one(&format!("SELECT {call}")), is_so, "{call}");
    }
    gives_ranges(&mut session, 1, "SELECT skip_matching_ranges('folded', 'v', 'Q701z number'::text)");
    let valid = "SELECT bool_and(amvalidate(oid)) FROM pg_opclass WHERE opcname ~ '^text_.*_skip_ops'";
    assert_eq!(session.one(valid), "t");
    let error = session.error("CREATE INDEX ON t USING skip (v text_token_skip_ops (n = 3))");
    assert_eq!(error.code().code(), "22023", "{error:?}");
}

on_shared!(exact);
/// The operator says the same as a regular expression that splits texts into words.
fn exact(database: &Database) {
    let mut session = database.session();
    let mut rng = fastrand::Rng::with_seed(pg_skip_tests::seed());
    let rows: Vec<_> =
        (0..300).map(|_| format!("({}, {})", value(&mut rng), quoted(&wanted(&mut rng)))).collect();
    session.run(&format!("CREATE TABLE t (v text, w text); INSERT INTO t VALUES {}", rows.join(", ")));
    let split = |text: &str| {
        format!(r"array_remove(regexp_split_to_array({text}, '[^A-Za-z0-9\u0080-\U0010FFFF]+'), '')")
    };
    let (values, words) = (split("a.v"), split("b.w"));
    let both = format!("FROM t a, t b WHERE a.v @@@ b.w AND {values} @> {words}");
    assert!(session.number(&format!("SELECT count(*) {both}")) > 300.0);
    let differ =
        format!("SELECT a.v, b.w FROM t a, t b WHERE (a.v @@@ b.w) <> ({values} @> {words}) LIMIT 5");
    assert!(session.rows(&differ).is_empty(), "{:?}", session.rows(&differ));
}

on_shared!(latin1 = encoded("LATIN1", "größe"));
on_shared!(euc_jp = encoded("EUC_JP", "大きさ"));
on_shared!(sql_ascii = encoded("SQL_ASCII", "größe"));
/// In a database that is not UTF-8.
fn encoded(database: &Database, encoding: &str, word: &str) {
    let mut session = other(database, encoding);
    session.run(&format!(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text, filler text DEFAULT repeat('x', 200));
         INSERT INTO t (v) SELECT CASE WHEN i % 500 = 7 THEN '{word}' ELSE 'else' END || ' Q' || i || 'z'
            FROM generate_series(1, 2000) i;
         CREATE INDEX folded ON t USING skip (v text_token_skip_ops (fold_case = on)) WITH (pages_per_range = 1)"
    ));
    for (predicate, found) in [
        (format!("v @@@ '{word}'"), 4),
        (format!("v @@@* '{word} q507Z'"), 1),
        ("v @@@ 'Q507z'".to_owned(), 1),
        (format!("v LIKE '{word} %'"), 4),
    ] {
        same(&mut session, &Way::skip_scan(), &Case::using(format!("SELECT id FROM t WHERE {predicate}")));
        let count = session.number(&format!("SELECT count(*) FROM t WHERE {predicate}"));
        assert_eq!(count, f64::from(found), "{encoding}: {predicate}");
        Way::skip_scan().set(&mut session);
        skips_many(&mut session, &format!("SELECT id FROM t WHERE {predicate}"));
        session.run("RESET ALL");
    }
    sound(&mut session, "folded");
}
