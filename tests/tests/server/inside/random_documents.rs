//! Insides of jsonb documents: generated documents and searches, in tables with a history.
use super::{Inside, Search, live};
use crate::registry::on_shared;
use crate::shared::Database;
use fastrand::Rng;
use pg_skip_tests::server;

on_shared!(random_0 = random(0));
on_shared!(random_1 = random(1));
fn random(database: &Database, number: u64) {
    let mut session = database.session();
    let inside = Inside {
        name: "inside::random_documents::random_0",
        kind: "jsonb",
        indexed: "v jsonb_path_skip_ops",
        value: |rng| constant(&document(rng)),
        search,
    };
    live(&mut session, &inside, number << 32);
}

/// Strings that are hard to tell from something else.
const STRINGS: [&str; 22] = [
    "",
    "x",
    "y",
    "1",
    "1.0",
    " 1 ",
    "+1",
    "true",
    "false",
    "null",
    "a",
    "b",
    "{}",
    "[]",
    "{\"a\": 1}",
    "[1]",
    "-1",
    "0",
    "1e2",
    "é",
    "日本",
    "\"quoted\"",
];
const NUMBERS: [&str; 14] = [
    "0",
    "-0",
    "0.0",
    "1",
    "1.0",
    "1.00",
    "-1",
    "100",
    "1e2",
    "1E+2",
    "0.1",
    "1e-1",
    "123456789012345678901234.5",
    "7",
];
const NAMES: [&str; 8] = ["a", "b", "c", "0", "1", "-1", "", "é"];

fn scalar(rng: &mut Rng) -> String {
    match rng.u32(..8) {
        0..=2 => format!("\"{}\"", STRINGS[rng.usize(..STRINGS.len())].replace('"', "\\\"")),
        3..=4 => NUMBERS[rng.usize(..NUMBERS.len())].to_owned(),
        5 => ["true", "false", "null"][rng.usize(..3)].to_owned(),
        6 => format!("\"s{}\"", rng.u32(..300)),
        _ => rng.u32(..300).to_string(),
    }
}

fn value(rng: &mut Rng, depth: u32) -> String {
    match rng.u32(..6) {
        0 if depth > 0 => {
            let parts: Vec<_> = (0..rng.usize(..4)).map(|_| value(rng, depth - 1)).collect();
            format!("[{}]", parts.join(", "))
        }
        1..=2 if depth > 0 => object(rng, depth - 1, ""),
        _ => scalar(rng),
    }
}

fn object(rng: &mut Rng, depth: u32, more: &str) -> String {
    let mut parts: Vec<_> = (0..rng.usize(..4))
        .map(|_| format!("\"{}\": {}", NAMES[rng.usize(..NAMES.len())], value(rng, depth)))
        .collect();
    if !more.is_empty() {
        parts.push(more.to_owned());
    }
    format!("{{{}}}", parts.join(", "))
}

/// The name `n` has what can be read as an integer, and `d` as a number; both only in the outermost object.
fn document(rng: &mut Rng) -> String {
    let later = server::install().version >= 16;
    let integers: &[&str] = if later {
        &[
            "5",
            "\"5\"",
            "\" 5 \"",
            "\"+5\"",
            "\"005\"",
            "6",
            "\"-6\"",
            "null",
            "\"0x5\"",
            "\"0b101\"",
            "\"1_0\"",
            "10",
        ]
    } else {
        &["5", "\"5\"", "\" 5 \"", "\"+5\"", "\"005\"", "6", "\"-6\"", "null", "10"]
    };
    let decimals = [
        "5",
        "5.0",
        "\"5.00\"",
        "\"5e0\"",
        "\"50e-1\"",
        "\".5\"",
        "0.50",
        "\"5.\"",
        "\"NaN\"",
        "-0.0",
        "\"-0\"",
    ];
    let integer = format!("\"n\": {}", integers[rng.usize(..integers.len())]);
    let decimal = format!("\"d\": {}", decimals[rng.usize(..decimals.len())]);
    match rng.u32(..10) {
        0 => value(rng, 3),
        1..=3 => object(rng, 2, &integer),
        4..=5 => object(rng, 2, &decimal),
        _ => object(rng, 3, ""),
    }
}

fn constant(document: &str) -> String {
    format!("'{document}'::jsonb")
}

/// A quoted text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn name(rng: &mut Rng) -> String {
    quoted(NAMES[rng.usize(..NAMES.len())])
}

/// What `->>` may give.
fn shown(rng: &mut Rng) -> String {
    match rng.u32(..6) {
        0..=1 => quoted(STRINGS[rng.usize(..STRINGS.len())]),
        2 => quoted(NUMBERS[rng.usize(..NUMBERS.len())]),
        3 => quoted(&format!("s{}", rng.u32(..300))),
        4 => quoted(&rng.u32(..300).to_string()),
        _ => format!("({} ->> 0)", constant(&format!("[{}]", value(rng, 2)))),
    }
}

/// An expression for a part of `v`, without its last step, and the last step.
fn part(rng: &mut Rng) -> (String, String) {
    let mut base = "v".to_owned();
    for _ in 0..rng.usize(..3) {
        let step = match rng.u32(..6) {
            0 => format!("-> {}", rng.i32(-2..3)),
            1 => format!("#> ARRAY[{}, {}]", name(rng), name(rng)),
            2 => format!("[{}]", name(rng)),
            3 => format!("[{}]", rng.i32(-2..3)),
            _ => format!("-> {}", name(rng)),
        };
        base = if step.starts_with('[') { format!("({base}){step}") } else { format!("({base} {step})") };
    }
    let last = match rng.u32(..4) {
        0 => rng.i32(-2..3).to_string(),
        _ => name(rng),
    };
    (base, last)
}

fn search(rng: &mut Rng) -> Search {
    let of = |predicate: String, kind: &str, value: String| {
        // A path of many steps, each of which may be a name or the number of an element, is not looked up.
        let digits = predicate.replace("$1", "").matches(|c: char| c.is_ascii_digit()).count();
        Search { predicate, kind: kind.into(), value, is_served: digits <= 3 }
    };
    let (base, last) = part(rng);
    let list = |rng: &mut Rng, one: fn(&mut Rng) -> String, kind: &str| {
        let mut parts: Vec<_> = (0..rng.usize(..4)).map(|_| one(rng)).collect();
        if rng.u32(..5) == 0 {
            parts.push("NULL".into());
        }
        format!("ARRAY[{}]::{kind}[]", parts.join(", "))
    };
    // What an element of an array may be is not looked up.
    let is_of_name = base == "v" && last.starts_with('\'');
    match rng.u32(..22) {
        20 => Search {
            is_served: is_of_name,
            ..of(format!("{base} ->> {last} IS NOT NULL"), "text", String::new())
        },
        21 => {
            let part = format!("({base} #>> ARRAY[{}, {}])", name(rng), name(rng));
            let one =
                [format!("{base} -> {last}"), format!("({base})[{last}]"), part][rng.usize(..3)].clone();
            let found = of(format!("{one} IS NOT NULL"), "text", String::new());
            Search { is_served: is_of_name && one.contains("->"), ..found }
        }
        0..=1 => of("v @> $1".into(), "jsonb", constant(&document(rng))),
        2 => of("v @> $1".into(), "jsonb", constant(&value(rng, 1))),
        3 => of("$1 <@ v".into(), "jsonb", constant(&object(rng, 1, ""))),
        4 => of("v @> ANY ($1)".into(), "jsonb[]", list(rng, |rng| constant(&value(rng, 1)), "jsonb")),
        5 => of("v = $1".into(), "jsonb", constant(&document(rng))),
        6 => of("v ? $1".into(), "text", name(rng)),
        7 => of("v ?| $1".into(), "text[]", list(rng, name, "text")),
        8 => of("v ?& $1".into(), "text[]", list(rng, name, "text")),
        9..=11 => of(format!("{base} ->> {last} = $1"), "text", shown(rng)),
        12 => of(format!("{base} ->> {last} = ANY ($1)"), "text[]", list(rng, shown, "text")),
        13 => of(format!("$1 = {base} #>> ARRAY[{}, {}]", name(rng), name(rng)), "text", shown(rng)),
        14 => of(format!("({base})[{last}] = $1"), "jsonb", constant(&value(rng, 1))),
        15 => of(format!("{base} -> {last} @> $1"), "jsonb", constant(&value(rng, 1))),
        16 => {
            let kind = ["int", "bigint", "smallint"][rng.usize(..3)];
            let value = ["5", "-6", "10", "6"][rng.usize(..4)].to_owned();
            of(format!("(v ->> 'n')::{kind} = $1"), ["int", "bigint", "smallint"][rng.usize(..3)], value)
        }
        17..=18 => {
            let value = ["5", "0.5", "0", "5.00", "'NaN'"][rng.usize(..5)];
            of("(v ->> 'd')::numeric = $1".into(), "numeric", format!("{value}::numeric"))
        }
        _ => of(format!("({base} ->> {last} = $1 OR v ? 'c') AND v IS NOT NULL"), "text", shown(rng)),
    }
}
