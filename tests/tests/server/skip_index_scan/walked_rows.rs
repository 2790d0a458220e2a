//! The column that is compared on the page stands behind columns of variable length, and behind NULLs: random tables,
//! with columns of every type in random order, some of them dropped or added between the rows.
use crate::registry::on_shared;
use crate::shared::{Database, blame, prepare_types, together};
use fastrand::Rng;
use pg_skip_tests::both_ways::Way;
use pg_skip_tests::compare::{Question, difference, sound};
use pg_skip_tests::session::Session;
use pg_skip_tests::values::{TYPES, Value, constant};
use pg_skip_tests::{cases, seed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Types that are compared on the page.
const COMPARED: [&str; 10] =
    ["int2", "int4", "int8", "oid", "uuid", "text", "varchar", "bytea", "timestamptz", "date"];

/// A column that is filled with random values.
struct Column {
    name: String,
    kind: usize,
    is_dropped: bool,
    is_indexed: bool,
    /// How many of a hundred rows have NULL.
    nulls: u32,
}

impl Column {
    fn random(rng: &mut Rng, number: usize, kind: usize) -> Self {
        let nulls = rng.choice([0, 0, 0, 5, 60]).unwrap_or(0);
        Self { name: format!("c{number}"), kind, is_dropped: false, is_indexed: false, nulls }
    }

    fn declared(&self) -> String {
        format!("{} {}", self.name, TYPES[self.kind].name)
    }

    fn value(&self, rng: &mut Rng) -> String {
        let kind = &TYPES[self.kind];
        let value: Value = if rng.u32(..100) < self.nulls { None } else { kind.value(rng) };
        constant(&value, kind.cast)
    }

    fn is_compared(&self) -> bool {
        !self.is_dropped && COMPARED.contains(&TYPES[self.kind].name)
    }
}

/// A table, and what was done to it.
struct Table {
    rng: Rng,
    columns: Vec<Column>,
    rows: usize,
    log: Vec<String>,
}

impl Table {
    fn create(session: &mut Session, mut rng: Rng) -> Self {
        let others = rng.usize(1..9);
        let mut kinds: Vec<usize> = (0..others).map(|_| rng.usize(..TYPES.len())).collect();
        for _ in 0..3 {
            let name = COMPARED[rng.usize(..COMPARED.len())];
            let at = rng.usize(..=kinds.len());
            kinds.insert(at, TYPES.iter().position(|kind| kind.name == name).expect("one of the types"));
        }
        let columns: Vec<Column> = kinds
            .into_iter()
            .enumerate()
            .map(|(number, kind)| Column::random(&mut rng, number, kind))
            .collect();
        let mut declared: Vec<String> = columns.iter().map(Column::declared).collect();
        declared.push("id int".into());
        let mut table = Self { rng, columns, rows: 0, log: Vec::new() };
        table.run(session, &format!("DROP TABLE IF EXISTS t; CREATE TABLE t ({})", declared.join(", ")));
        for number in 0..table.columns.len() {
            let storage = ["external", "main", "extended"][table.rng.usize(..3)];
            if TYPES[table.columns[number].kind].name.starts_with("text") {
                table.run(session, &format!("ALTER TABLE t ALTER c{number} SET STORAGE {storage}"));
            }
        }
        table
    }

    fn run(&mut self, session: &mut Session, sql: &str) {
        self.log.push(sql.into());
        session.run(sql);
    }

    fn fill(&mut self, session: &mut Session, rows: usize) {
        let live: Vec<&Column> = self.columns.iter().filter(|column| !column.is_dropped).collect();
        let names: Vec<&str> = live.iter().map(|column| column.name.as_str()).collect();
        let mut row = |id: usize| {
            let values: Vec<String> = live.iter().map(|column| column.value(&mut self.rng)).collect();
            format!("({}, {id})", values.join(", "))
        };
        let values: Vec<String> = (self.rows..self.rows + rows).map(&mut row).collect();
        let sql = format!("INSERT INTO t ({}, id) VALUES {}", names.join(", "), values.join(", "));
        self.rows += rows;
        self.run(session, &sql);
    }

    /// Drops a column that is not compared, or adds one with a default.
    fn alter(&mut self, session: &mut Session) {
        let others: Vec<usize> = (0..self.columns.len())
            .filter(|&number| !self.columns[number].is_dropped && !self.columns[number].is_compared())
            .collect();
        if self.rng.bool()
            && let Some(number) = self.rng.choice(others)
        {
            self.columns[number].is_dropped = true;
            self.run(session, &format!("ALTER TABLE t DROP c{number}"));
        } else {
            let (number, kind) = (self.columns.len(), self.rng.usize(..TYPES.len()));
            let mut column = Column::random(&mut self.rng, number, kind);
            // A random value may be too long for the catalog.
            let edge = self.rng.choice(TYPES[kind].edges).map(|edge| edge.to_string());
            let default = constant(&edge, TYPES[kind].cast);
            self.run(session, &format!("ALTER TABLE t ADD {} DEFAULT {default}", column.declared()));
            column.nulls = 30;
            self.columns.push(column);
        }
    }

    /// Values that rows have, and values that may be in none, one at a time and in lists.
    fn check(&mut self, session: &mut Session) {
        for number in 0..self.columns.len() {
            if !self.columns[number].is_compared() {
                continue;
            }
            let (name, is_indexed) = (self.columns[number].name.clone(), self.columns[number].is_indexed);
            let cast = TYPES[self.columns[number].kind].cast;
            let constants: Vec<String> = (0..4).map(|_| self.columns[number].value(&mut self.rng)).collect();
            let question = |constant: &String| {
                let predicate = format!("{name} = {constant}");
                // Nothing is read for NULL.
                if is_indexed && !constant.starts_with("NULL") {
                    Question::using("t_skip", predicate)
                } else {
                    Question::any(predicate)
                }
            };
            let mut questions: Vec<Question> = constants.iter().map(question).collect();
            let list = format!("{name} = ANY (ARRAY[{}]::{cast}[])", constants.join(", "));
            questions.push(Question::any(list));
            for _ in 0..2 {
                let row = self.rng.usize(..100);
                let value = format!("(SELECT {name} FROM t AS other WHERE other.id = {row})");
                questions.push(Question::any(format!("{name} = {value}")));
            }
            // Pages are known from the third time on.
            for question in questions.iter().chain(&questions).chain(&questions) {
                if let Some(problem) = difference(session, "t", question) {
                    panic!("{problem}");
                }
            }
        }
    }
}

on_shared!(walked_rows_0 = walked(0));
on_shared!(walked_rows_1 = walked(1));
fn walked(database: &Database, number: u64) {
    let mut session = database.session();
    prepare_types(&mut session);
    for round in 0..cases(12) as u64 {
        let seed = seed().wrapping_add((number << 32) + round);
        let mut table = Table::create(&mut session, Rng::with_seed(seed));
        let outcome = catch_unwind(AssertUnwindSafe(|| history(&mut table, &mut session)));
        if let Err(panic) = outcome {
            blame(&*panic, seed, "skip_index_scan::walked_rows::walked_rows_0", &table.log);
        }
    }
}

on_shared!(rows_that_move_while_they_are_read);
/// Each key has one row at any time. Updates prune pages and use line pointers again, within a page and across pages,
/// and so does VACUUM, while lookups leave out the rows before the first that may have the key.
fn rows_that_move_while_they_are_read(database: &Database) {
    let (mut writer, mut cleaner) = (database.session(), database.session());
    let readers = [database.session(), database.session()];
    writer.run(
        "CREATE TABLE t (id int, filler text, k int, v text) WITH (fillfactor = 60, autovacuum_enabled = off);
         CREATE INDEX t_skip ON t USING skip (k, v) WITH (autosummarize = off);
         INSERT INTO t SELECT n, repeat('f', n % 90), n, 'value ' || n FROM generate_series(1, 300) n",
    );
    let is_over = AtomicBool::new(false);
    let read = |mut reader: Session, seed: u64| {
        let mut rng = Rng::with_seed(seed);
        Way::skip_scan().set(&mut reader);
        // The writer may fail.
        let end = Instant::now() + Duration::from_secs(60);
        while !is_over.load(Ordering::Acquire) && Instant::now() < end {
            let number = rng.u32(1..=300);
            for condition in [format!("k = {number}"), format!("v = 'value {number}'")] {
                let found = reader.column(&format!("SELECT id FROM t WHERE {condition}"));
                assert_eq!(found, [number.to_string()], "{condition}");
            }
        }
    };
    let [first, second] = readers;
    together(vec![
        Box::new(|| read(first, seed())),
        Box::new(|| read(second, seed() + 1)),
        Box::new(|| {
            while !is_over.load(Ordering::Acquire) {
                cleaner.run("VACUUM t");
            }
        }),
        Box::new(|| {
            let mut rng = Rng::with_seed(seed() + 2);
            for _ in 0..3000 {
                let (number, length) = (rng.u32(1..=300), rng.u32(..90));
                let filler = if length < 9 { "NULL".into() } else { format!("repeat('f', {length})") };
                writer.run(&match rng.u32(..3) {
                    0 => format!(
                        "WITH gone AS (DELETE FROM t WHERE id = {number} RETURNING id, k, v)
                         INSERT INTO t SELECT id, {filler}, k, v FROM gone"
                    ),
                    _ => format!("UPDATE t SET filler = {filler} WHERE id = {number}"),
                });
            }
            is_over.store(true, Ordering::Release);
        }),
    ]);
}

/// Rows of three forms of the table, the last of them not summarized.
fn history(table: &mut Table, session: &mut Session) {
    table.fill(session, 150);
    table.alter(session);
    let mut compared = Vec::new();
    for column in table.columns.iter_mut().filter(|column| column.is_compared()) {
        column.is_indexed = true;
        compared.push(column.name.clone());
    }
    table.run(
        session,
        &format!(
            "CREATE INDEX t_skip ON t USING skip ({}) WITH (pages_per_range = 1, autosummarize = off)",
            compared.join(", ")
        ),
    );
    table.check(session);
    for _ in 0..2 {
        table.fill(session, 60);
        table.alter(session);
        table.check(session);
    }
    sound(session, "t_skip");
}
