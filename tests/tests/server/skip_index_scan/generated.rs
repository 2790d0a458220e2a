//! Runs the random queries and changes: tables with a history, asked both ways after every few steps of it.
use super::tables::Tables;
use super::{changes, queries};
use crate::registry::on_shared;
use crate::shared::{Database, blame};
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way, compare};
use pg_skip_tests::session::Session;
use pg_skip_tests::{cases, seed};
use std::panic::{AssertUnwindSafe, catch_unwind};

on_shared!(queries_0 = queried(0));
on_shared!(queries_1 = queried(1));
on_shared!(queries_2 = queried(2));
on_shared!(queries_3 = queried(3));
fn queried(database: &Database, number: u64) {
    batch(database, "skip_index_scan::generated::queries_0", number, 13, queries::random);
}

on_shared!(changes_0 = changed(0));
on_shared!(changes_1 = changed(1));
fn changed(database: &Database, number: u64) {
    // Each leaves rows behind that were never committed, and takes its time.
    batch(database, "skip_index_scan::generated::changes_0", number, 7, changes::random);
}

/// Makes something to compare.
type Maker = fn(&mut Rng) -> (Case, Way);

/// Several sets of tables, one after another; the seed of each says all about it.
fn batch(database: &Database, first: &str, number: u64, questions: usize, random: Maker) {
    let mut session = database.session();
    let mut tally = Tally::default();
    for round in 0..cases(3) as u64 {
        let seed = seed().wrapping_add((number << 32) + round);
        let mut tables = Tables::create(&mut session, Rng::with_seed(seed));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..20 {
                tables.step(&mut session);
                for _ in 0..questions {
                    ask(&mut session, random(&mut tables.rng), &mut tally);
                }
            }
        }));
        if let Err(panic) = outcome {
            blame(&*panic, seed, first, &tables.log);
        }
    }
    tally.judge();
}

fn ask(session: &mut Session, (case, way): (Case, Way), tally: &mut Tally) {
    match compare(session, &way, &case) {
        Ok(used) => tally.count(&case, used),
        Err(problem) => panic!("{problem}"),
    }
}

/// What was asked, lest the tests pass by never using a Skip Index Scan.
#[derive(Default)]
pub struct Tally {
    asked: usize,
    must: usize,
    used: usize,
}

impl Tally {
    pub fn count(&mut self, case: &Case, used: bool) {
        self.asked += 1;
        self.must += usize::from(case.must);
        self.used += usize::from(used);
    }

    /// Fails if too few questions were answered by a Skip Index Scan.
    #[track_caller]
    pub fn judge(&self) {
        let Self { asked, must, used } = self;
        println!("{asked} comparisons, {used} by a Skip Index Scan, which {must} had to use");
        assert!(used * 10 >= asked * 6, "only {used} of {asked} statements used a Skip Index Scan");
    }
}
