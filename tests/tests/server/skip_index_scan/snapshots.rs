//! Old snapshots and busy tables: inside one snapshot a Skip Index Scan and a sequential scan find the same, whatever
//! others do to the rows and to the index.
use crate::concurrency::{maintain, table, write};
use crate::registry::on_shared;
use crate::shared::{Database, together};
use fastrand::Rng;
use pg_skip_tests::both_ways::{Case, Way, same_within};
use pg_skip_tests::compare::sound;
use pg_skip_tests::seed;
use std::time::{Duration, Instant};

on_shared!(old_snapshots);
/// A snapshot after each change, all asked when all is over.
fn old_snapshots(database: &Database) {
    let mut session = database.session();
    session.run(
        "CREATE TABLE t (id int, k int, v text, filler text DEFAULT repeat('x', 300)) WITH (fillfactor = 60);
         INSERT INTO t SELECT i, i / 4, 'v' || i % 100 FROM generate_series(1, 2000) i;
         CREATE INDEX t_skip ON t USING skip (k, v) WITH (pages_per_range = 1, delta_limit = 64, autosummarize = off);
         CREATE INDEX t_other ON t USING skip (v) WITH (pages_per_range = 3)",
    );
    let mut readers = Vec::new();
    for step in [
        "UPDATE t SET k = k + 1000 WHERE id % 2 = 0",
        "VACUUM t",
        "UPDATE t SET v = 'w' || id % 50 WHERE id % 3 = 0",
        "SELECT skip_summarize('t_skip'), skip_summarize('t_other')",
        "DELETE FROM t WHERE id % 5 = 0",
        "VACUUM t",
        "INSERT INTO t SELECT i, i / 4, 'v' || i % 100 FROM generate_series(3000, 4000) i",
        "UPDATE t SET k = 7, v = 'v7' WHERE id % 40 = 0",
        "REINDEX INDEX t_skip",
        "VACUUM (FREEZE) t",
        "DROP INDEX t_other",
        "CREATE INDEX t_other ON t USING skip (v) WITH (pages_per_range = 2)",
        "DELETE FROM t WHERE k = 7",
        "VACUUM t",
    ] {
        let mut reader = database.session();
        // A snapshot, but no lock on the table.
        reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        readers.push((step, reader));
        session.run(step);
    }
    let mut used = 0;
    for (step, mut reader) in readers {
        for key in [1, 7, 77, 250, 499, 750, 1007, 1249, 1300, 5000] {
            for condition in [
                format!("k = {key}"),
                format!("v = 'v{}'", key % 100),
                format!("v = 'w{}' AND k IS NOT NULL", key % 50),
                format!("k IN ({key}, {key} + 1000) OR v = 'v{}'", key % 90),
            ] {
                // An index younger than the snapshot need not be used.
                let case = Case::any(format!("SELECT id, k, v FROM t WHERE {condition}"));
                used += u32::from(same_within(&mut reader, &Way::skip_scan(), &case));
                if key % 10 == 7 {
                    used += u32::from(same_within(&mut reader, &Way::skip_scan().parallel(), &case));
                }
            }
        }
        println!("the snapshot before {step:?} still holds");
        reader.run("COMMIT");
    }
    assert!(used > 0, "no Skip Index Scan for any old snapshot");
    sound(&mut session, "t_skip");
}

/// Asks in shapes that the other tests of concurrency have not, until the time is up, but some times at least.
fn read(database: &Database, seed: u64, until: Instant) {
    let (mut session, mut rng) = (database.session(), Rng::with_seed(seed));
    let (mut asked, mut used) = (0, 0);
    while Instant::now() < until || asked <= 20 {
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
        for _ in 0..rng.u32(1..10) {
            let (one, two) = (rng.u32(..3000), rng.u32(..3000));
            let way = match rng.u32(..6) {
                0 => Way::skip_scan().parallel(),
                1 => Way::skip_scan().nested_loop(),
                _ => Way::skip_scan(),
            };
            let case = Case::any(match rng.u32(..6) {
                0..=1 => format!("SELECT id, k, v FROM t WHERE k = {one}"),
                2 => format!("SELECT id, ctid FROM t WHERE v = '{one}' OR k = {two}"),
                3 => format!("SELECT w.x, t.id FROM (VALUES ({one}), ({two})) w (x) JOIN t ON t.k = w.x"),
                4 => format!(
                    "SELECT a.id, b.id FROM t a JOIN t b ON a.k = b.k AND b.v = '{two}' WHERE a.k IN ({one}, {two})"
                ),
                _ => format!("SELECT count(*) FROM t WHERE (k, v) IN (({one}, '{one}'), ({two}, '{two}'))"),
            });
            used += usize::from(same_within(&mut session, &way, &case));
            asked += 1;
        }
        session.run("COMMIT");
    }
    assert!(used * 10 > asked * 9, "only {used} of {asked} were Skip Index Scans");
}

on_shared!(side_by_side);
fn side_by_side(database: &Database) {
    let mut session = database.session();
    table(&mut session, "pages_per_range = 2, delta_limit = 64, autosummarize = on");
    let until = Instant::now() + Duration::from_secs(5);
    let seed = seed() + 300;
    let maintenance = [
        "SELECT skip_summarize('t_skip')",
        "VACUUM t",
        "SELECT skip_summarize('t_skip')",
        "REINDEX INDEX CONCURRENTLY t_skip",
    ];
    together(vec![
        Box::new(move || write(database, seed, until)),
        Box::new(move || write(database, seed + 1, until)),
        Box::new(move || read(database, seed + 2, until)),
        Box::new(move || read(database, seed + 3, until)),
        Box::new(move || maintain(database, &maintenance, until)),
    ]);
    sound(&mut session, "t_skip");
}
