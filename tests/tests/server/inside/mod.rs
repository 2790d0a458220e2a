//! Searches inside values: operator classes that make several keys of a value, compared with a plain scan over tables
//! with a history.
mod arrays;
mod bounds;
pub mod bounds_nested;
pub mod bounds_types;
mod bounds_zones;
mod citext;
mod database_locales;
mod default_rates;
mod documents;
mod fragments;
mod jsonpaths;
mod keys_of_users;
mod large_values;
mod lexemes;
mod prefixes;
mod random_documents;
mod text_cases;
mod words;

use crate::shared::blame;
use fastrand::Rng;
use pg_skip_tests::both_ways::{self, Case, Way};
use pg_skip_tests::compare::{Form, Question, difference, sound};
use pg_skip_tests::likely::likely;
use pg_skip_tests::session::Session;
use pg_skip_tests::{cases, seed};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A condition on the column `v` whose value may be a parameter.
pub struct Search {
    /// With `$1` in place of the value.
    pub predicate: String,
    /// The parameter's type.
    pub kind: String,
    /// The value.
    pub value: String,
    /// A Skip Index Scan can serve it.
    pub is_served: bool,
}

/// A column whose insides are searched.
pub struct Inside {
    /// The test's name.
    pub name: &'static str,
    /// The column's type.
    pub kind: &'static str,
    /// The index column: the column and its operator class.
    pub indexed: &'static str,
    /// A value, as a constant.
    pub value: fn(&mut Rng) -> String,
    /// A search, often for what is there.
    pub search: fn(&mut Rng) -> Search,
}

/// Lets tables of such a column live, and searches them after each step. `first` is added to the seed.
pub fn live(session: &mut Session, inside: &Inside, first: u64) {
    for round in 0..cases(2) as u64 {
        let seed = seed().wrapping_add(first + round);
        let mut log = Vec::new();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            live_once(session, inside, &mut Rng::with_seed(seed), &mut log);
        }));
        if let Err(panic) = outcome {
            blame(&*panic, seed, inside.name, &log);
        }
    }
}

fn live_once(session: &mut Session, inside: &Inside, rng: &mut Rng, log: &mut Vec<String>) {
    let mut run = |session: &mut Session, sql: String| {
        session.run(&sql);
        log.push(sql);
    };
    run(
        session,
        format!(
            "DROP TABLE IF EXISTS t;
             CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v {}, filler text DEFAULT repeat('x', 500))
             WITH (fillfactor = 70)",
            inside.kind
        ),
    );
    let pages = rng.choice([1, 2, 4]).unwrap_or(1);
    let autosummarize =
        rng.choice(["", ", autosummarize = off", ", autosummarize = background"]).unwrap_or_default();
    let create = format!(
        "CREATE INDEX t_v ON t USING skip ({}) WITH (pages_per_range = {pages}{autosummarize})",
        inside.indexed
    );
    let is_first = rng.bool();
    if is_first {
        run(session, create.clone());
    }
    run(session, insert(inside, rng, 150));
    if !is_first {
        run(session, create);
    }
    for _ in 0..10 {
        let step = match rng.u32(..9) {
            0..=2 => insert(inside, rng, 40),
            3 => format!("UPDATE t SET v = {} WHERE id % 7 = {}", (inside.value)(rng), rng.u32(..7)),
            4 => format!("DELETE FROM t WHERE id % 9 = {}", rng.u32(..9)),
            5 => "VACUUM t".to_owned(),
            6 => "SELECT skip_summarize('t_v')".to_owned(),
            7 => format!("BEGIN; {}; ROLLBACK", insert(inside, rng, 10)),
            _ => "REINDEX INDEX t_v; ANALYZE t".to_owned(),
        };
        run(session, step);
        for _ in 0..30 {
            ask(session, (inside.search)(rng), rng);
        }
        sound(session, "t_v");
    }
}

fn insert(inside: &Inside, rng: &mut Rng, rows: usize) -> String {
    let values: Vec<_> = (0..rows)
        .map(|_| if rng.u32(..12) == 0 { "(NULL)".to_owned() } else { format!("({})", (inside.value)(rng)) })
        .collect();
    format!("INSERT INTO t (v) VALUES {}", values.join(", "))
}

fn ask(session: &mut Session, search: Search, rng: &mut Rng) {
    let Search { predicate, kind, value, is_served } = search;
    let plain = predicate.replace("$1", &value);
    let question = if predicate.contains("$1") && rng.bool() {
        let mode = *rng.choice(&["force_custom_plan", "force_generic_plan"]).expect("two");
        Question { predicate, form: Form::Prepared(vec![kind], vec![value], mode), index: None }
    } else {
        Question::any(plain.clone())
    };
    if let Some(problem) = difference(session, "t", &question) {
        panic!("{problem}");
    }
    if is_served {
        let case = Case::using(format!("SELECT id FROM t WHERE {plain}"));
        both_ways::compare(session, &Way::skip_scan(), &case).unwrap_or_else(|problem| panic!("{problem}"));
    }
}

/// Fails unless a function gives so many ranges, or up to three more: one range of a thousand is found in vain.
#[track_caller]
pub fn gives_ranges(session: &mut Session, least: usize, call: &str) {
    let found = session.column(call);
    assert!(found.len() >= least, "{call}: {found:?}");
    likely(found.len() <= least + 3, || format!("{call}: {found:?}"));
}

/// Claims as likely that a search skips more than a tenth of the table's ranges. It skips most of them, unless its key
/// has the same fingerprint as a fragment that is in half of them. Of a list, two keys may have that: a quarter is
/// left.
#[track_caller]
pub fn skips_many(session: &mut Session, statement: &str) {
    let node = pg_skip_tests::explain::executed(session, statement);
    let (skipped, total) = (node.number("Ranges Skipped"), node.number("Ranges Total"));
    likely(skipped * 10 > total, || format!("{statement} skips {skipped} of {total} ranges"));
}
