//! The column that is compared on the page stands behind columns of variable length, and behind NULLs: random tables,
//! with columns of every type in random order, some of them dropped or added between the rows.
use crate::registry::on_shared;
use crate::shared::{Database, blame, prepare_types};
use fastrand::Rng;
use pg_skip_tests::compare::{Question, difference, sound};
use pg_skip_tests::session::Session;
use pg_skip_tests::values::{TYPES, Value, constant};
use pg_skip_tests::{cases, seed};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Types that are compared on the page.
const COMPARED: [&str; 10] =
    ["int2", "int4", "int8", "oid", "uuid", "text", "varchar", "bytea", "timestamptz", "date"];

/// A column that is filled with random values.
struct Column {
    name: String,
    kind: usize,
    is_dropped: bool,
    /// How many of a hundred rows have NULL.
    nulls: u32,
}

impl Column {
    fn random(rng: &mut Rng, number: usize, kind: usize) -> Self {
        let nulls = rng.choice([0, 0, 0, 5, 60]).unwrap_or(0);
        Self { name: format!("c{number}"), kind, is_dropped: false, nulls }
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
            let name = self.columns[number].name.clone();
            let cast = TYPES[self.columns[number].kind].cast;
            let constants: Vec<String> = (0..4).map(|_| self.columns[number].value(&mut self.rng)).collect();
            let mut predicates: Vec<String> =
                constants.iter().map(|constant| format!("{name} = {constant}")).collect();
            predicates.push(format!("{name} = ANY (ARRAY[{}]::{cast}[])", constants.join(", ")));
            for _ in 0..2 {
                let row = self.rng.usize(..100);
                predicates.push(format!("{name} = (SELECT {name} FROM t AS other WHERE other.id = {row})"));
            }
            // Pages are known from the third time on.
            for predicate in predicates.iter().chain(&predicates).chain(&predicates) {
                if let Some(problem) = difference(session, "t", &Question::any(predicate.clone())) {
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

/// Rows of three forms of the table, the last of them not summarized.
fn history(table: &mut Table, session: &mut Session) {
    table.fill(session, 150);
    table.alter(session);
    let compared: Vec<String> = table
        .columns
        .iter()
        .filter(|column| column.is_compared())
        .map(|column| column.name.clone())
        .collect();
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
