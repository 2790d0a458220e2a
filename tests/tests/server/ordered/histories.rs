//! Each type in order, over tables with a history.
use super::{direction, is_in_order, limit, same_order};
use crate::inside::bounds_nested::*;
use crate::inside::bounds_types::*;
use crate::registry::on_shared;
use crate::shared::{Database, blame};
use fastrand::Rng;
use pg_skip_tests::compare::sound;
use pg_skip_tests::session::Session;
use pg_skip_tests::{cases, seed};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A type: its values, and an expression that is the same for values that are equal.
struct Kind {
    /// As a column's type.
    kind: &'static str,
    class: &'static str,
    value: fn(&mut Rng) -> String,
    /// Equal values may differ in their text.
    same: &'static str,
}

fn of<T: Ordered>(kind: &'static str, class: &'static str, same: &'static str) -> Kind {
    Kind { kind, class, value: T::value, same }
}

on_shared!(int2 = live(of::<Integers<2>>("int2", "int2", "v")));
on_shared!(int4 = live(of::<Integers<4>>("int4", "int4", "v")));
on_shared!(int8 = live(of::<Integers<8>>("int8", "int8", "v")));
on_shared!(float8 = live(of::<Float8>("float8", "float8", "v + 0")));
on_shared!(numeric = live(of::<Numeric>("numeric", "numeric", "trim_scale(v)")));
on_shared!(date = live(of::<Date>("date", "date", "v")));
on_shared!(timetz = live(of::<TimeTz>("timetz", "timetz", "v")));
on_shared!(timestamptz = live(of::<TimestampTz>("timestamptz", "timestamptz", "v")));
on_shared!(interval = live(of::<Interval>("interval", "interval", "justify_interval(v)")));
on_shared!(oid = live(of::<Oid>("oid", "oid", "v")));
on_shared!(boolean = live(of::<Bool>("bool", "bool", "v")));
on_shared!(uuid = live(of::<Uuid>("uuid", "uuid", "v")));
on_shared!(macaddr = live(of::<MacAddr>("macaddr", "macaddr", "v")));
on_shared!(bytea = live(of::<Bytea>("bytea", "bytea", "v")));
on_shared!(inet = live(of::<Inet>("inet", "inet", "v")));
on_shared!(text = live(of::<Text>("text COLLATE \"C\"", "text", "v")));
on_shared!(varchar = live(of::<Text>("varchar(40) COLLATE \"C\"", "text", "v")));
on_shared!(blanked = live(of::<Blanked>("char(12) COLLATE \"C\"", "bpchar", "v")));
on_shared!(name = live(of::<Name>("name", "name", "v")));
on_shared!(varbits = live(of::<VarBits>("varbit", "varbit", "v")));
on_shared!(tid = live(of::<Tid>("tid", "tid", "v")));
on_shared!(tsvector = live(of::<TsVector>("tsvector", "tsvector", "v")));
on_shared!(int8_array = live(of::<ArrayOfIntegers>("int8[]", "array", "v")));
on_shared!(tstzrange = live(of::<PointRange>("tstzrange", "range", "v")));
on_shared!(int4multirange = live(of::<IntegerRanges>("int4multirange", "multirange", "v")));
/// A table of values of a type lives, and is asked for them in order after each step.
fn live(database: &Database, kind: Kind) {
    let mut session = database.session();
    for round in 0..cases(2) as u64 {
        DRIFT.set(0);
        let seed = seed().wrapping_add(round);
        let mut log = Vec::new();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            live_once(&mut session, &kind, &mut Rng::with_seed(seed), &mut log);
        }));
        if let Err(panic) = outcome {
            blame(&*panic, seed, "ordered::histories", &log);
        }
    }
}

fn live_once(session: &mut Session, kind: &Kind, rng: &mut Rng, log: &mut Vec<String>) {
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
            kind.kind
        ),
    );
    let pages = rng.choice([1, 2, 4]).unwrap_or(1);
    let autosummarize =
        rng.choice(["", ", autosummarize = off", ", autosummarize = background"]).unwrap_or_default();
    // A column before or after it, whose parts of ranges may be smaller.
    let columns =
        ["v CLASS", "v CLASS, id", "id, v CLASS", "v CLASS, id int4_minmax_skip_ops"][rng.usize(..4)];
    let columns = columns.replace("CLASS", &format!("{}_minmax_skip_ops", kind.class));
    run(
        session,
        format!(
            "CREATE INDEX t_v ON t USING skip ({columns}) WITH (pages_per_range = {pages}{autosummarize});
             {}",
            insert(kind, rng, 150)
        ),
    );
    for _ in 0..10 {
        let step = match rng.u32(..9) {
            0..=2 => insert(kind, rng, 40),
            3 => format!("UPDATE t SET v = {} WHERE id % 7 = {}", (kind.value)(rng), rng.u32(..7)),
            4 => format!("DELETE FROM t WHERE id % 9 = {}", rng.u32(..9)),
            5 => "VACUUM t".to_owned(),
            6 => "SELECT skip_summarize('t_v')".to_owned(),
            7 => format!("BEGIN; {}; ROLLBACK", insert(kind, rng, 10)),
            _ => "REINDEX INDEX t_v; ANALYZE t".to_owned(),
        };
        run(session, step);
        for _ in 0..8 {
            ask(session, kind, rng);
        }
    }
    sound(session, "t_v");
    is_in_order(session, "SELECT v FROM t ORDER BY v LIMIT 3");
    is_in_order(session, "SELECT v FROM t ORDER BY v DESC NULLS LAST");
}

fn insert(kind: &Kind, rng: &mut Rng, rows: usize) -> String {
    let values: Vec<_> = (0..rows)
        .map(|_| if rng.u32(..12) == 0 { "(NULL)".to_owned() } else { format!("({})", (kind.value)(rng)) })
        .collect();
    format!("INSERT INTO t (v) VALUES {}", values.join(", "))
}

fn ask(session: &mut Session, kind: &Kind, rng: &mut Rng) {
    let condition = match rng.u32(..8) {
        0 => format!("WHERE v > {}", (kind.value)(rng)),
        1 => format!("WHERE v <= {} OR id = 77", (kind.value)(rng)),
        2 => format!("WHERE id % 5 = {}", rng.u32(..5)),
        3 => format!("WHERE id > {} AND length(filler) > 3", rng.u32(..300)),
        4 => "WHERE v IS NULL OR id < 100".to_owned(),
        _ => String::new(),
    };
    let (direction, limit) = (direction(rng), limit(rng));
    let statement = match rng.u32(..4) {
        // The order of equal values is that of another column, so that all rows are told apart.
        0 => format!("SELECT id, ctid FROM t {condition} ORDER BY v{direction}, id {limit}"),
        1 => format!("SELECT id, {} FROM t {condition} ORDER BY v{direction}, id DESC", kind.same),
        _ => format!("SELECT {} FROM t {condition} ORDER BY v{direction} {limit}", kind.same),
    };
    same_order(session, &statement);
}
