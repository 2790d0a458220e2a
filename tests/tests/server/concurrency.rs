//! Writers, readers and maintenance side by side: inside any one snapshot the index and a plain scan agree, nothing
//! deadlocks, and the index is sound afterwards.
use crate::registry::on_shared;
use crate::shared::{Database, together};
use fastrand::Rng;
use pg_skip_tests::compare::{Question, same, sound};
use pg_skip_tests::seed;
use pg_skip_tests::session::Session;
use std::time::{Duration, Instant};

/// How many different keys the rows have.
const KEYS: u32 = 3000;

pub fn table(session: &mut Session, options: &str) {
    session.run(&format!(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, k int, v text, filler text DEFAULT repeat('x', 200))
            WITH (fillfactor = 70);
         INSERT INTO t (k, v) SELECT i, i FROM generate_series(1, 2000) i;
         CREATE INDEX t_skip ON t USING skip (k, v) WITH ({options})"
    ));
}

/// Changes rows until the time is up.
pub fn write(database: &Database, seed: u64, until: Instant) {
    let (mut session, mut rng) = (database.session(), Rng::with_seed(seed));
    while Instant::now() < until {
        let (key, other, count) = (rng.u32(..KEYS), rng.u32(..KEYS), rng.u32(1..60));
        match rng.u32(..8) {
            0..=2 => session.run(&format!(
                "INSERT INTO t (k, v) SELECT ({key} + i * 7) % {KEYS}, {other} FROM generate_series(1, {count}) i"
            )),
            3 => {
                let lines: String = (0..count).map(|i| format!("{}\t{other}\n", (key + i) % KEYS)).collect();
                session.copy("COPY t (k, v) FROM STDIN", &mut lines.as_bytes());
            }
            // One row at a time: two writers that lock many rows in different orders deadlock on those.
            4..=5 => session.run(&format!(
                "UPDATE t SET k = {other} WHERE id = (SELECT id FROM t WHERE k = {key} LIMIT 1)"
            )),
            6 => session.run(&format!(
                "DELETE FROM t WHERE id IN (SELECT id FROM t WHERE k = {key}
                 ORDER BY id LIMIT 20 FOR UPDATE SKIP LOCKED)"
            )),
            _ => session.run(&format!(
                "BEGIN; INSERT INTO t (k) VALUES ({key}); SAVEPOINT s; INSERT INTO t (k) VALUES ({other});
                 ROLLBACK TO s; INSERT INTO t (v) VALUES ('{key}'); {}",
                if rng.bool() { "COMMIT" } else { "ROLLBACK" }
            )),
        }
    }
}

/// Compares inside snapshots that are some questions old by the end, until the time is up, but some times at least.
pub fn read(database: &Database, seed: u64, until: Instant) {
    let (mut session, mut rng) = (database.session(), Rng::with_seed(seed));
    let mut asked = 0;
    while Instant::now() < until || asked <= 20 {
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
        for _ in 0..rng.u32(1..12) {
            let (one, two) = (rng.u32(..KEYS), rng.u32(..KEYS));
            let predicate = match rng.u32(..5) {
                0..=1 => format!("k = {one}"),
                2 => format!("v = '{one}'"),
                3 => format!("k IN ({one}, {two}, NULL)"),
                _ => format!("k = {one} AND v IS NOT NULL"),
            };
            same(&mut session, "t", &Question::any(predicate));
            asked += 1;
        }
        session.run("COMMIT");
    }
}

/// Maintains until the time is up.
pub fn maintain(database: &Database, statements: &[&str], until: Instant) {
    let mut session = database.session();
    for sql in statements.iter().cycle() {
        if Instant::now() >= until {
            return;
        }
        session.run(sql);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Two sessions write and two ask, the latter in snapshots that last for several questions, while others maintain.
pub struct SideBySide<'a> {
    pub database: &'a Database,
    pub duration: Duration,
    /// Makes a statement that writes.
    pub write: fn(&mut Rng) -> String,
    /// Asks, and compares the answer.
    pub ask: fn(&mut Session, &mut Rng),
    pub maintenance: &'a [&'a str],
    pub maintainers: usize,
}

impl SideBySide<'_> {
    pub fn run(&self) {
        let until = Instant::now() + self.duration;
        let mut all: Vec<Box<dyn FnOnce() + Send + '_>> = Vec::new();
        for number in 0..2 {
            all.push(Box::new(move || {
                let (mut session, mut rng) = (self.database.session(), Rng::with_seed(seed() + number));
                while Instant::now() < until {
                    session.run(&(self.write)(&mut rng));
                }
            }));
            all.push(Box::new(move || {
                let (mut session, mut rng) = (self.database.session(), Rng::with_seed(seed() + 10 + number));
                let mut asked = 0;
                while Instant::now() < until || asked < 20 {
                    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
                    for _ in 0..rng.u32(1..12) {
                        (self.ask)(&mut session, &mut rng);
                        asked += 1;
                    }
                    session.run("COMMIT");
                }
            }));
        }
        for _ in 0..self.maintainers {
            all.push(Box::new(move || maintain(self.database, self.maintenance, until)));
        }
        together(all);
    }
}

pub fn settled(session: &mut Session) {
    sound(session, "t_skip");
    for key in (0..KEYS).step_by(97) {
        same(session, "t", &Question::using("t_skip", format!("k = {key}")));
        same(session, "t", &Question::using("t_skip", format!("v = '{key}'")));
    }
}

on_shared!(writers_readers_and_maintenance);
fn writers_readers_and_maintenance(database: &Database) {
    for (round, options) in
        ["pages_per_range = 1, delta_limit = 64", "pages_per_range = 4, autosummarize = off"]
            .iter()
            .enumerate()
    {
        let mut session = database.session();
        session.run("DROP TABLE IF EXISTS t");
        table(&mut session, options);
        let until = Instant::now() + Duration::from_secs(6);
        let seed = seed() + 10 * round as u64;
        let maintenance = ["VACUUM t", "SELECT skip_summarize('t_skip')", "SELECT skip_summarize('t_skip')"];
        together(vec![
            Box::new(move || write(database, seed, until)),
            Box::new(move || write(database, seed + 1, until)),
            Box::new(move || read(database, seed + 2, until)),
            Box::new(move || read(database, seed + 3, until)),
            Box::new(move || maintain(database, &maintenance, until)),
            // A second one: two must not run at the same time, and neither may fail.
            Box::new(move || maintain(database, &maintenance[1..], until)),
        ]);
        settled(&mut session);
        session.run("SELECT skip_summarize('t_skip')");
        settled(&mut session);
    }
}

on_shared!(create_and_reindex_concurrently);
fn create_and_reindex_concurrently(database: &Database) {
    let mut session = database.session();
    table(&mut session, "pages_per_range = 2");
    let until = Instant::now() + Duration::from_secs(6);
    let seed = seed() + 100;
    together(vec![
        Box::new(move || write(database, seed, until)),
        Box::new(move || write(database, seed + 1, until)),
        Box::new(move || read(database, seed + 2, until)),
        Box::new(move || {
            let mut session = database.session();
            while Instant::now() < until {
                session.run("DROP INDEX CONCURRENTLY t_skip");
                session.run(
                    "CREATE INDEX CONCURRENTLY t_skip ON t USING skip (k, v) WITH (pages_per_range = 1)",
                );
                sound(&mut session, "t_skip");
                session.run("REINDEX INDEX CONCURRENTLY t_skip");
                sound(&mut session, "t_skip");
                session.run("REINDEX TABLE CONCURRENTLY t");
            }
        }),
    ]);
    settled(&mut session);
    let invalid = session.number("SELECT count(*) FROM pg_index WHERE NOT indisvalid");
    assert_eq!(invalid, 0.0, "nothing half-built is left");
    // Rows that the build has hashed already are handed to the index again; the filter knows them.
    session.run("DROP TABLE t");
    session.run("CREATE TABLE t (id int, k int, v text)");
    session.run("INSERT INTO t SELECT i, i % 3000, i FROM generate_series(1, 20000) i");
    session.run("CREATE INDEX CONCURRENTLY t_skip ON t USING skip (k, v)");
    let entries = session.number("SELECT coalesce(sum(delta_entries), 0) FROM skip_index_info('t_skip')");
    assert!(entries <= 2000.0, "{entries} of 20000 known rows are in the delta");
    settled(&mut session);
}

on_shared!(autosummarize_with_many_inserters);
fn autosummarize_with_many_inserters(database: &Database) {
    let mut session = database.session();
    table(&mut session, "pages_per_range = 2, autosummarize = on");
    let seed = seed() + 200;
    let until = Instant::now() + Duration::from_secs(4);
    let grow = |number: u64| {
        let (mut session, mut rng) = (database.session(), Rng::with_seed(seed + number));
        while Instant::now() < until {
            let key = rng.u32(..KEYS);
            if number.is_multiple_of(2) {
                let lines: String = (0..500).map(|i| format!("{}\t{i}\n", (key + i) % KEYS)).collect();
                session.copy("COPY t (k, v) FROM STDIN", &mut lines.as_bytes());
            } else {
                session.run(&format!("INSERT INTO t (k, v) VALUES ({key}, '{key}')"));
            }
        }
    };
    together(vec![
        Box::new(|| grow(0)),
        Box::new(|| grow(1)),
        Box::new(|| grow(2)),
        Box::new(|| grow(3)),
        Box::new(|| read(database, seed + 9, until)),
    ]);
    settled(&mut session);
    let row = session.rows("SELECT ranges, summarized FROM skip_index_info('t_skip') LIMIT 1").remove(0);
    let number =
        |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<f64>().ok()).unwrap_or(-1.0);
    let (ranges, summarized) = (number(&row[0]), number(&row[1]));
    assert!(
        summarized >= ranges / 2.0,
        "of {ranges} ranges only {summarized} have been summarized on the way"
    );
}

on_shared!(open_cursor);
/// A cursor, by a Skip Index Scan or a bitmap, goes on with what it knows while everything it read is replaced.
fn open_cursor(database: &Database) {
    let mut session = database.session();
    table(&mut session, "pages_per_range = 1");
    let mut reader = database.session();
    reader.run("BEGIN; SET LOCAL enable_seqscan = off");
    let query = "SELECT id FROM t WHERE k IN (5, 500, 900, 1500, 1999)";
    reader.run(&format!("DECLARE c CURSOR FOR {query}"));
    reader.run(&format!("SET LOCAL pg_skip.enable_scan = off; DECLARE d CURSOR FOR {query}"));
    let first = ["c", "d"].map(|cursor| reader.column(&format!("FETCH 1 FROM {cursor}")));
    session.run("UPDATE t SET k = k + 10000 WHERE id <= 1000");
    session.run("SELECT skip_summarize('t_skip')");
    session.run("INSERT INTO t (k) SELECT 500 FROM generate_series(1, 500)");
    session.run("VACUUM t");
    for (cursor, first) in ["c", "d"].into_iter().zip(first) {
        let rest = reader.column(&format!("FETCH ALL FROM {cursor}"));
        let mut all = [first, rest].concat();
        all.sort_by_key(|id| id.parse::<u32>().expect("a number"));
        assert_eq!(all, ["5", "500", "900", "1500", "1999"]);
    }
    reader.run("COMMIT");
    sound(&mut session, "t_skip");
}

on_shared!(serializable);
/// Two transactions that each insert what the other found missing cannot both commit, even though the index made
/// both read nothing of the table.
fn serializable(database: &Database) {
    let mut session = database.session();
    table(&mut session, "pages_per_range = 1");
    let (mut one, mut two) = (database.session(), database.session());
    for (session, key) in [(&mut one, 70001), (&mut two, 70002)] {
        session.run(
            "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL enable_seqscan = off; SET LOCAL pg_skip.enable_scan = off",
        );
        let sql = format!("SELECT count(*) FROM t WHERE k = {key}");
        assert!(session.plan(&sql).contains("Bitmap Index Scan on t_skip"));
        assert_eq!(session.one(&sql), "0");
    }
    let mut outcomes = Vec::new();
    for (session, key) in [(&mut one, 70002), (&mut two, 70001)] {
        outcomes.push(session.try_rows(&format!("INSERT INTO t (k) VALUES ({key})")));
    }
    outcomes.push(one.try_rows("COMMIT"));
    outcomes.push(two.try_rows("COMMIT"));
    let failed = outcomes.into_iter().filter_map(Result::err);
    let codes: Vec<_> =
        failed.filter_map(|error| Some(error.as_db_error()?.code().code().to_owned())).collect();
    assert!(codes.contains(&"40001".to_owned()), "a write skew went unnoticed: {codes:?}");
}
