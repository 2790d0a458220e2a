//! Equalities of strings under another collation than the index column's. If both are deterministic, the same strings
//! are equal, and the index is used. Else it must not be.
use crate::registry::on_shared;
use crate::shared::Database;
use pg_skip_tests::both_ways::{Case, Way, same, skips};
use pg_skip_tests::session::Session;

/// Columns under a deterministic collation.
const COLUMNS: [&str; 5] = ["s", "d", "b", "n", "v"];

/// Strings that differ in case only, with and without blanks behind them. Returns whether the server has ICU.
fn strings(session: &mut Session) -> bool {
    let icu = session.try_rows(
        "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    );
    let loose = if icu.is_ok() { "any_case" } else { "\"C\"" };
    session.run(&format!(
        "CREATE DOMAIN word AS varchar;
         CREATE TABLE t (id int, s text COLLATE \"C\", d text, b char(12) COLLATE \"POSIX\", n name, v word,
                         i text COLLATE {loose}, filler text DEFAULT repeat('x', 300));
         INSERT INTO t SELECT j, w, w, w, w, w, w
         FROM (SELECT j, (CASE j % 3 WHEN 0 THEN 'word ' WHEN 1 THEN 'Word ' ELSE 'WORD ' END) || j / 7
                         || repeat(' ', j % 2) AS w
               FROM generate_series(1, 3000) j) AS words;
         CREATE INDEX t_skip ON t USING skip (s, d, b, n, v, i) WITH (pages_per_range = 1);
         CREATE TABLE wanted AS SELECT s FROM t WHERE id BETWEEN 100 AND 115;
         ANALYZE t; ANALYZE wanted"
    ));
    icu.is_ok()
}

on_shared!(deterministic);
fn deterministic(database: &Database) {
    let mut session = database.session();
    let has_icu = strings(&mut session);
    let mut collations = vec!["\"C\"", "\"POSIX\"", "ucs_basic", "\"default\""];
    if has_icu {
        collations.push("\"de-x-icu\"");
    }
    for column in COLUMNS {
        for collation in &collations {
            let asked = format!("{column} COLLATE {collation}");
            for condition in [
                format!("{asked} = 'Word 77'"),
                format!("'word 300 ' = {asked}"),
                format!("{asked} = ANY ('{{word 3,WORD 77 ,Word 200}}')"),
                format!("{asked} IS NOT DISTINCT FROM 'Word 204 '"),
                format!("{column} = 'Word 77' COLLATE {collation} OR id = 5 AND {asked} = 'WORD 0 '"),
            ] {
                same(
                    &mut session,
                    &Way::skip_scan(),
                    &Case::using(format!("SELECT id FROM t WHERE {condition}")),
                );
            }
        }
        let join = format!("SELECT id FROM t WHERE {column} COLLATE \"C\" IN (SELECT s FROM wanted)");
        let is_used = same(&mut session, &Way::skip_scan().nested_loop(), &Case::any(join));
        // The comparison with a text casts a char(12).
        assert_eq!(is_used, column != "b", "a join by {column}");
    }
    // A name has the collation "C".
    for column in ["s", "d"] {
        let asked = format!("SELECT id FROM t WHERE {column} = 'Word 77'::name");
        same(&mut session, &Way::skip_scan(), &Case::using(asked));
    }
}

on_shared!(nondeterministic);
fn nondeterministic(database: &Database) {
    let mut session = database.session();
    if !strings(&mut session) {
        println!("this server has no ICU: nondeterministic collations are left out");
        return;
    }
    Way::skip_scan().set(&mut session);
    for (column, collation, is_used) in COLUMNS
        .map(|column| (column, "any_case", false))
        .into_iter()
        .chain([("i", "any_case", true), ("i", "\"C\"", false)])
    {
        let asked = format!("SELECT id FROM t WHERE {column} COLLATE {collation} = 'Word 77'");
        assert_eq!(skips(&session.plan(&asked)), is_used, "{asked}");
        same(&mut session, &Way::skip_scan(), &Case::any(asked));
    }
    let found = session.number("SELECT count(*) FROM t WHERE s COLLATE any_case = 'Word 77'");
    assert_eq!(found, session.number("SELECT count(*) FROM t WHERE lower(s) = 'word 77'"));
}

on_shared!(operators_of_users);
/// An operator of a user's may find other strings under another collation, even if the server's function hashes them.
fn operators_of_users(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE FUNCTION same (text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT
             AS 'BEGIN RETURN texteq($1, $2); END';
         CREATE OPERATOR === (FUNCTION = same, LEFTARG = text, RIGHTARG = text, COMMUTATOR = ===);
         CREATE OPERATOR CLASS same_ops FOR TYPE text USING skip AS
             OPERATOR 1 === (text, text), FUNCTION 1 hashtextextended(text, int8);
         CREATE TABLE t (id int, s text COLLATE \"C\", filler text DEFAULT repeat('x', 300));
         INSERT INTO t SELECT i, 'word ' || i FROM generate_series(1, 3000) i;
         CREATE INDEX ON t USING skip (s same_ops) WITH (pages_per_range = 1); ANALYZE t",
    );
    Way::skip_scan().set(&mut session);
    for (collation, is_used) in [("C", true), ("POSIX", false)] {
        let asked = format!("SELECT id FROM t WHERE s COLLATE \"{collation}\" === 'word 77'");
        assert_eq!(skips(&session.plan(&asked)), is_used, "{asked}");
        same(&mut session, &Way::skip_scan(), &Case::any(asked));
    }
}
