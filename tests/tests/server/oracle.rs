//! Random tables, random histories, random questions: the skip index and a plain scan give the same rows.
//!
//! Now and then a second session takes a snapshot, sleeps through part of the history, and asks then: rows that are
//! long gone for others must still be found for it.
use crate::history::{Column, Table};
use crate::registry::on_shared;
use crate::shared::{self, Database, blame};
use fastrand::Rng;
use pg_skip_tests::compare::{Form, Question, difference};
use pg_skip_tests::session::Session;
use pg_skip_tests::values::{Value, constant};
use pg_skip_tests::{cases, seed, server};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

on_shared!(batch_0 = batch(0));
on_shared!(batch_1 = batch(1));
on_shared!(batch_2 = batch(2));
on_shared!(batch_3 = batch(3));
on_shared!(batch_4 = batch(4));
on_shared!(batch_5 = batch(5));
/// A batch of tables, one after another; the seed of each says all about it.
fn batch(database: &Database, number: u64) {
    let first = seed().wrapping_add(number << 32);
    let mut session = database.session();
    shared::prepare_types(&mut session);
    let asked = AtomicUsize::new(0);
    for number in 0..cases(20) as u64 {
        let seed = first + number;
        let name = format!("t{number}");
        let mut table = Table::create(&mut session, &name, Rng::with_seed(seed));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            live(&mut table, &mut session, database, &asked);
        }));
        if let Err(panic) = outcome {
            blame(&*panic, seed, "oracle::batch_0", &table.log);
        }
        session.run(&format!("DROP TABLE {name}"));
    }
    println!("{} comparisons", asked.into_inner());
}

/// A table's life, asked about after every step.
fn live(table: &mut Table, session: &mut Session, database: &Database, asked: &AtomicUsize) {
    let mut old: Option<Session> = None;
    let own = table.temporary; // other sessions do not see it
    for _ in 0..14 {
        table.step(session);
        for _ in 0..4 {
            ask(table, session, true, asked);
        }
        match &mut old {
            None if !own && table.rng.u32(..4) == 0 => {
                let mut reader = database.session();
                // The snapshot is taken, but no lock: the table's own session goes on as it likes.
                reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
                old = Some(reader);
            }
            Some(reader) if !table.open && table.rng.u32(..4) == 0 => {
                table.log.push("-- here the old snapshot asks".into());
                for _ in 0..20 {
                    ask(table, reader, false, asked);
                }
                old = None;
            }
            _ => {}
        }
    }
    if table.open {
        table.step(session);
    }
    table.verify(session);
}

fn ask(table: &mut Table, session: &mut Session, sure: bool, asked: &AtomicUsize) {
    let mut question = Asker { rng: &mut table.rng, columns: &table.columns }.question();
    if !sure {
        question.index = None; // an index that is younger than the snapshot is not used, and need not be
    }
    asked.fetch_add(1, Ordering::Relaxed);
    if let Some(problem) = difference(session, &table.name, &question) {
        panic!("{problem}");
    }
}

/// Makes questions about the columns of a table.
struct Asker<'a> {
    rng: &'a mut Rng,
    columns: &'a [Column],
}

impl Asker<'_> {
    fn question(&mut self) -> Question {
        let column = self.rng.usize(..self.columns.len());
        let other = self.rng.usize(..self.columns.len());
        match self.rng.u32(..20) {
            0..=9 => self.simple(column),
            10..=12 => {
                let (one, two) = (self.simple(column), self.simple(other));
                // Two constants for one column may contradict each other, and the planner sees it.
                let together = one.index == two.index && column != other;
                let index = if together { one.index } else { None };
                let predicate = format!("{} AND {}", one.predicate, two.predicate);
                Question { predicate, form: Form::Plain, index }
            }
            13..=14 => {
                let (one, two) = (self.simple(column), self.simple(other));
                let index = if two.index.is_some() { one.index } else { None };
                Question {
                    predicate: format!("({} OR {})", one.predicate, two.predicate),
                    form: Form::Plain,
                    index,
                }
            }
            15..=17 => self.prepared(column),
            _ => self.other(column),
        }
    }

    /// A value that the column has had, or another.
    fn value(&mut self, column: usize) -> Value {
        let Column { kind, pool, .. } = &self.columns[column];
        match self.rng.u32(..4) {
            0 => kind.value(self.rng),
            _ => self.rng.choice(pool.iter()).cloned().unwrap_or_default(),
        }
    }

    fn values(&mut self, column: usize, count: usize) -> Vec<Value> {
        (0..count).map(|_| self.value(column)).collect()
    }

    /// The column's index, if questions about it must use it.
    fn index(&self, column: usize) -> Option<String> {
        let Column { kind, index, .. } = &self.columns[column];
        // Before 16 the planner takes `b = true` for `b`, which only the built-in operator families can serve.
        if kind.name == "boolean" && server::install().version < 16 { None } else { index.clone() }
    }

    /// A predicate on one column that its index must serve.
    fn simple(&mut self, column: usize) -> Question {
        let Column { name, kind, .. } = &self.columns[column];
        let mut index = self.index(column);
        let predicate = match self.rng.u32(..10) {
            0 => format!("{name} IS NULL"),
            1 => format!("{name} IS NOT NULL"),
            2..=4 => {
                let value = self.value(column);
                if value.is_none() {
                    index = None; // never true, and the planner knows
                }
                format!("{name} = {}", kind.constant(&value))
            }
            5 if !kind.cross.is_empty() => {
                let cast = *self.rng.choice(kind.cross).expect("not empty");
                let value = self.value(column).and_then(|text| fitting(text, cast));
                // Against a name the comparison's collation is "C", which need not be the column's.
                if value.is_none() || cast == "name" {
                    index = None;
                }
                format!("{name} = {}", constant(&value, cast))
            }
            _ => {
                let count = self.rng.usize(..12);
                let values = self.values(column, count);
                let known = values.iter().any(Option::is_some);
                if !known {
                    index = None;
                }
                let values: Vec<_> = values.iter().map(|value| kind.constant(value)).collect();
                let values = values.join(", ");
                match self.rng.u32(..3) {
                    0 if kind.in_array => format!("{name} = ANY (ARRAY[{values}]::{}[])", kind.cast),
                    _ if values.is_empty() => format!("{name} IS NULL"),
                    _ => format!("{name} IN ({values})"),
                }
            }
        };
        Question { predicate, form: Form::Plain, index }
    }

    /// The same with parameters.
    fn prepared(&mut self, column: usize) -> Question {
        let Column { name, kind, .. } = &self.columns[column];
        let mode = *self.rng.choice(&["auto", "force_custom_plan", "force_generic_plan"]).expect("three");
        let (predicate, types, values, known) = match self.rng.u32(..3) {
            0 if kind.in_array => {
                let count = self.rng.usize(..9);
                let values = self.values(column, count);
                let items: Vec<_> = values.iter().map(|value| kind.constant(value)).collect();
                let array = format!("ARRAY[{}]::{}[]", items.join(", "), kind.cast);
                let (array, known) = match self.rng.u32(..8) {
                    0 => (format!("NULL::{}[]", kind.cast), false),
                    _ => (array, values.iter().any(Option::is_some)),
                };
                (format!("{name} = ANY ($1)"), vec![format!("{}[]", kind.cast)], vec![array], known)
            }
            1 => {
                let values = self.values(column, 2);
                let known = values.iter().all(Option::is_some);
                let values = values.iter().map(|value| kind.constant(value)).collect();
                (format!("{name} IN ($1, $2)"), vec![kind.cast.to_owned(); 2], values, known)
            }
            _ => {
                let value = self.value(column);
                let known = value.is_some();
                (format!("{name} = $1"), vec![kind.cast.to_owned()], vec![kind.constant(&value)], known)
            }
        };
        // PostgreSQL 15 knows `b = $1` as no boolean special case, but a custom plan makes a constant of it.
        let index = if known { self.index(column) } else { None };
        Question { predicate, form: Form::Prepared(types, values, mode), index }
    }

    /// Predicates that the index may or may not serve.
    fn other(&mut self, column: usize) -> Question {
        let Column { name, kind, .. } = &self.columns[column];
        let value = self.value(column);
        let value = kind.constant(&value);
        let predicate = match self.rng.u32(..8) {
            0 => format!("{name} <> {value}"),
            1 => format!("{name} IS DISTINCT FROM {value}"),
            2 => format!("{name} IS NOT DISTINCT FROM {value}"),
            3 => format!("NOT {name} = {value}"),
            4 => format!("{name} = (SELECT {value})"),
            5 => format!("{name} = {value} AND {name} IS NOT NULL AND id % 5 <> 0"),
            6 => format!("{name} = {value} AND filler IS NOT NULL OR {name} IS NULL"),
            _ if TEXTUAL.contains(&kind.cast) => format!("{name} = {value} COLLATE \"POSIX\""),
            _ => format!("{value} = {name}"),
        };
        Question::any(predicate)
    }
}

const TEXTUAL: [&str; 3] = ["text", "varchar", "word"];

/// The text, if it is a value of the type.
fn fitting(text: String, cast: &str) -> Option<String> {
    match cast {
        "int2" => text.parse::<i16>().is_ok().then_some(text),
        "int4" => text.parse::<i32>().is_ok().then_some(text),
        _ => Some(text),
    }
}
