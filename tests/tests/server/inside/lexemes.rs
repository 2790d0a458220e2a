//! Lexemes of tsvectors: `tsvector_skip_ops`, and `to_tsvector()` as an indexed expression.
use super::{Inside, Search, gives_ranges, live, skips_many};
use crate::registry::on_shared;
use crate::shared::Database;
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way, same};
use pg_skip_tests::compare::sound;
use pg_skip_tests::session::Session;

on_shared!(random_0 = random(0));
on_shared!(random_1 = random(1));
fn random(database: &Database, number: u64) {
    let mut session = database.session();
    let inside = Inside {
        name: "inside::lexemes::random_0",
        kind: "tsvector",
        indexed: "v tsvector_skip_ops",
        value,
        search,
    };
    live(&mut session, &inside, number << 32);
}

const WORDS: [&str; 14] =
    ["cat", "cats", "dog", "do", "d", "a", "été", "日本", "it''s", "x y", "\\\\\\\\", "C", "1", "catalogue"];

fn word(rng: &mut Rng) -> String {
    match rng.u32(..4) {
        0 => format!("w{}", rng.u32(..400)),
        _ => WORDS[rng.usize(..WORDS.len())].to_owned(),
    }
}

fn lexeme(rng: &mut Rng) -> String {
    format!("''{}''", word(rng).replace("''", "''''"))
}

/// With and without positions and weights, and empty.
fn value(rng: &mut Rng) -> String {
    let lexemes: Vec<_> = (0..rng.usize(..7))
        .map(|_| {
            let positions: Vec<_> = (0..rng.usize(..3))
                .map(|_| format!("{}{}", rng.u32(1..9), ["", "A", "B", "C", "D"][rng.usize(..5)]))
                .collect();
            let colon = if positions.is_empty() { "" } else { ":" };
            format!("{}{colon}{}", lexeme(rng), positions.join(","))
        })
        .collect();
    format!("E'{}'::tsvector", lexemes.join(" "))
}

/// A query of all operators. Outside of phrases and within them.
fn query(rng: &mut Rng, depth: u32) -> String {
    let choice = if depth == 0 { 9 } else { rng.u32(..9) };
    let operator = match choice {
        0..=1 => "&",
        2 => "|",
        3 => "<->",
        4 => "<2>",
        5 => return format!("!{}", query(rng, depth - 1)),
        _ => "",
    };
    if !operator.is_empty() {
        return format!("({} {operator} {})", query(rng, depth - 1), query(rng, depth - 1));
    }
    let suffix = match rng.u32(..8) {
        0 => ":*",
        1 => ":A",
        2 => ":BC",
        3 => ":*D",
        _ => "",
    };
    format!("{}{suffix}", lexeme(rng))
}

fn search(rng: &mut Rng) -> Search {
    let of = |predicate: &str, kind: &str, value: String| Search {
        predicate: predicate.into(),
        kind: kind.into(),
        value,
        is_served: true,
    };
    let depth = rng.u32(..4);
    let asked = |rng: &mut Rng| match rng.u32(..12) {
        0 => "''::tsquery".to_owned(),
        _ => format!("E'{}'::tsquery", query(rng, depth)),
    };
    match rng.u32(..10) {
        0..=5 => of("v @@ $1", "tsquery", asked(rng)),
        6 => of("$1 @@ v", "tsquery", asked(rng)),
        7 => {
            let list: Vec<_> = (0..rng.usize(1..4)).map(|_| asked(rng)).collect();
            of("v @@ ANY ($1)", "tsquery[]", format!("ARRAY[{}, NULL]", list.join(", ")))
        }
        8 => of("v = $1", "tsvector", value(rng)),
        _ => of("(v @@ $1 OR v IS NULL)", "tsquery", asked(rng)),
    }
}

/// 2,000 messages, each with a word of its own.
fn messages(session: &mut Session) {
    session.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, body text, v tsvector,
            filler text DEFAULT repeat('x', 200));
         INSERT INTO t (body, v) SELECT body, to_tsvector('english', body) FROM (
            SELECT 'The engines of ship number' || i || ' are running' AS body FROM generate_series(1, 2000) i
            UNION ALL VALUES (''), ('the'), (NULL)) bodies",
    );
    session.run(
        "CREATE INDEX t_v ON t USING skip (v tsvector_skip_ops) WITH (pages_per_range = 2);
         CREATE INDEX t_body ON t USING skip (to_tsvector('english', body) tsvector_skip_ops)
            WITH (pages_per_range = 2);
         ANALYZE t",
    );
}

on_shared!(operators);
/// What each condition must use, and skip, and find; on a column and on an expression.
fn operators(database: &Database) {
    let mut session = database.session();
    messages(&mut session);
    for (query, found, skips) in [
        ("'number700'::tsquery", 1, true),
        ("to_tsquery('english', 'engine & Number700')", 1, true),
        ("plainto_tsquery('english', 'the engines of ship number700')", 1, true),
        ("websearch_to_tsquery('english', '\"ship number700\" or number900')", 2, true),
        ("phraseto_tsquery('english', 'number700 ship')", 0, true),
        ("to_tsquery('english', 'number700 <-> are <-> run')", 1, true),
        ("to_tsquery('english', 'number700 & !absent')", 1, true),
        ("to_tsquery('english', 'number700:A')", 0, true),
        ("to_tsquery('english', 'number700:D & eng:*')", 1, true),
        ("to_tsquery('english', 'number70:*')", 11, false),
        ("to_tsquery('english', 'number700 | number1:*')", 1112, false),
        ("to_tsquery('english', '!ship')", 2, false),
        ("''::tsquery", 0, true),
        ("(SELECT to_tsquery('english', 'number' || 700))", 1, true),
    ] {
        for (column, index) in [("v", "t_v"), ("to_tsvector('english', body)", "t_body")] {
            let statement = format!("SELECT id FROM t WHERE {column} @@ {query}");
            same(&mut session, &Way::skip_scan(), &Case::using(&statement));
            let count = session.number(&format!("SELECT count(*) FROM t WHERE {column} @@ {query}"));
            assert_eq!(count, f64::from(found), "{query}");
            if skips {
                Way::skip_scan().set(&mut session);
                skips_many(&mut session, &statement);
                session.run("RESET ALL");
            }
            session.run("SET enable_seqscan = off; SET pg_skip.enable_scan = off");
            assert!(session.plan(&statement).contains(&format!("Bitmap Index Scan on {index}")), "{query}");
            session.run("RESET ALL");
        }
    }
    for (index, column) in [("t_v", "v"), ("t_body", "to_tsvector")] {
        sound(&mut session, index);
        let call = format!("SELECT skip_matching_ranges('{index}', '{column}', 'number700'::text)");
        gives_ranges(&mut session, 1, &call);
    }
    let told = session.one(
        "SELECT reason FROM skip_explain($$SELECT * FROM t WHERE v @@ 'number70:*'::tsquery$$)
         WHERE column_name = 'v'",
    );
    assert!(told.contains("No lexeme"), "{told}");
    assert_eq!(
        session.one("SELECT bool_and(amvalidate(oid)) FROM pg_opclass WHERE opcname = 'tsvector_skip_ops'"),
        "t"
    );
    let error = session.error("CREATE INDEX ON t USING skip (body tsvector_skip_ops)");
    assert_eq!(error.code().code(), "42804", "{error:?}");
}

on_shared!(long_queries);
/// Queries of thousands of lexemes, and values with as many.
fn long_queries(database: &Database) {
    let mut session = database.session();
    messages(&mut session);
    session.run(
        "INSERT INTO t (v) SELECT array_to_tsvector(array_agg('number' || i)) FROM generate_series(1, 20000) i;
         SELECT skip_summarize('t_v')",
    );
    for (operator, found) in [("&", 1), ("|", 2001)] {
        let all = format!(
            "(SELECT string_agg('number' || i, ' {operator} ')::tsquery FROM generate_series(1, 5000) i)"
        );
        let statement = format!("SELECT count(*) FROM t WHERE v @@ {all}");
        assert_eq!(session.number(&statement), f64::from(found), "{operator}");
        let few = all.replace("5000", "300");
        session.run("SET pg_skip.force_indexes = 't_v'");
        let forced = session.number(&format!("SELECT count(*) FROM t WHERE v @@ {few}"));
        assert_eq!(forced, if operator == "&" { 1.0 } else { 301.0 });
        session.run("RESET ALL");
    }
}
