//! Random texts, and searches in them, for the operator classes that cut text.
use super::Search;
use fastrand::Rng;

/// What texts are made of, beside numbers: words, characters that have odd cases or a meaning in patterns, and blanks.
const PIECES: [&str; 26] = [
    "error",
    "Error",
    "disk",
    "full",
    "timeout",
    "GET",
    "a",
    "ab",
    "abc",
    "abcd",
    "Straße",
    "ſtreet",
    "İstanbul",
    "ılık",
    "Kelvin",
    "cafe\u{301}",
    "café",
    "Ελλάς",
    "日本語",
    "😀",
    "100%",
    "a_b",
    "c:\\dir",
    "'",
    "(x)",
    "",
];

/// A piece of text.
fn piece(rng: &mut Rng) -> String {
    match rng.u32(..4) {
        0 => format!("w{}", rng.u32(..400)),
        _ => PIECES[rng.usize(..PIECES.len())].to_owned(),
    }
}

/// A text.
fn text(rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..rng.usize(..7) {
        text.push_str(&piece(rng));
        text.push_str(["", " ", " ", ", ", "-", "\n"][rng.usize(..6)]);
    }
    text
}

/// A value, as a constant; a few are so long that they are stored out of line.
pub fn value(rng: &mut Rng) -> String {
    let mut text = text(rng);
    if rng.u32(..40) == 0 {
        text.extend((0..3000).map(|_| char::from(rng.alphanumeric() as u8)));
    }
    quoted(&text)
}

/// The text as a constant.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The text with another case.
fn in_case(text: &str, rng: &mut Rng) -> String {
    match rng.u32(..3) {
        0 => text.to_uppercase(),
        1 => text.to_lowercase(),
        _ => text.to_owned(),
    }
}

/// What a search looks for: some pieces.
pub fn wanted(rng: &mut Rng) -> String {
    let mut text = piece(rng);
    for _ in 0..rng.usize(..3) {
        text.push_str(["", " ", ", "][rng.usize(..3)]);
        text.push_str(&piece(rng));
    }
    text
}

/// A pattern of LIKE.
fn like(rng: &mut Rng) -> String {
    let mut pattern = ["", "%", "%", "%", "_", "_%"][rng.usize(..6)].to_owned();
    for _ in 0..rng.usize(1..3) {
        for c in wanted(rng).chars() {
            match c {
                '%' | '_' | '\\' => pattern.extend(['\\', c]),
                _ if rng.u32(..20) == 0 => pattern.push('_'),
                _ if rng.u32(..30) == 0 => pattern.extend(['\\', c]),
                _ => pattern.push(c),
            }
        }
        pattern.push_str(["", "%", "%", "%", "%_", " "][rng.usize(..6)]);
    }
    pattern
}

/// A regular expression that matches a text and no other.
fn regex_literal(rng: &mut Rng) -> String {
    let escape = |c: char| if c.is_ascii_punctuation() { vec!['\\', c] } else { vec![c] };
    wanted(rng).chars().flat_map(escape).collect()
}

/// A regular expression.
fn regex(rng: &mut Rng) -> String {
    let (one, two) = (regex_literal(rng), regex_literal(rng));
    match rng.u32(..9) {
        0 => one,
        1 => format!("^{one}"),
        2 => format!("{one}$"),
        3 => format!("({one}|{two})"),
        4 => format!("{one}.*{two}"),
        5 => format!("{one}[a-z ]{two}"),
        6 => format!("(?:{one})+"),
        7 => format!("({one})?{two}"),
        _ => format!("\\m{one}"),
    }
}

/// A search with an operator between the column and a text, or any of several.
fn operator(operator: &str, rng: &mut Rng, text: fn(&mut Rng) -> String) -> Search {
    if rng.u32(..5) == 0 {
        let texts: Vec<_> = (0..rng.usize(1..4)).map(|_| quoted(&text(rng))).collect();
        let null = if rng.bool() { ", NULL" } else { "" };
        let value = format!("ARRAY[{}{null}]", texts.join(", "));
        return Search {
            predicate: format!("v {operator} ANY ($1)"),
            kind: "text[]".into(),
            value,
            is_served: true,
        };
    }
    let value = quoted(&text(rng));
    Search { predicate: format!("v {operator} $1"), kind: "text".into(), value, is_served: true }
}

/// A search by one of the operators that every class has, in a value or part of one.
pub fn search(rng: &mut Rng) -> Search {
    match rng.u32(..12) {
        0..=2 => operator("LIKE", rng, like),
        3..=4 => operator("ILIKE", rng, |rng| {
            let pattern = like(rng);
            in_case(&pattern, rng)
        }),
        5 => operator("=", rng, text),
        6 => operator("=", rng, piece),
        other => {
            let (one, two) = (quoted(&like(rng)), quoted(&like(rng)));
            let of = |predicate: String, is_served| Search {
                predicate,
                kind: "text".into(),
                value: two.clone(),
                is_served,
            };
            match other {
                7 => of("v IS NOT DISTINCT FROM $1".into(), true),
                8 => of(format!("(v LIKE {one} OR v ILIKE $1)"), true),
                9 => of(format!("v LIKE {one} AND v NOT LIKE $1"), true),
                10 => of(format!("$1 LIKE v OR v LIKE {one}"), false),
                _ => of(format!("v NOT LIKE $1 OR NOT v = {one}"), false),
            }
        }
    }
}

/// A search by words, mostly.
pub fn search_words(rng: &mut Rng) -> Search {
    match rng.u32(..8) {
        0..=1 => operator("@@@", rng, wanted),
        2 => operator("@@@", rng, piece),
        3 => operator("@@@*", rng, |rng| {
            let text = wanted(rng);
            in_case(&text, rng)
        }),
        4 => search_parts(rng),
        _ => search(rng),
    }
}

/// The text as a pattern of LIKE.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('%', r"\%").replace('_', r"\_")
}

/// A pattern of LIKE for how a text begins.
fn start(rng: &mut Rng) -> String {
    format!("{}%", escaped(&wanted(rng)))
}

/// A search for how a text begins, mostly.
pub fn search_start(rng: &mut Rng) -> Search {
    match rng.u32(..8) {
        0 => operator("LIKE", rng, start),
        1 => operator("ILIKE", rng, |rng| {
            let pattern = start(rng);
            in_case(&pattern, rng)
        }),
        2 => operator("^@", rng, wanted),
        3 => {
            let value = quoted(&wanted(rng));
            Search { predicate: "starts_with(v, $1)".into(), kind: "text".into(), value, is_served: true }
        }
        4 => operator("~", rng, |rng| format!("^({}|{})", regex_literal(rng), regex_literal(rng))),
        5 => search_parts(rng),
        _ => search(rng),
    }
}

/// The constant of a text as one of bytea.
fn bytes_of(text: &str) -> String {
    format!("convert_to({}, 'UTF8')", quoted(text))
}

/// A value of bytea.
pub fn bytes(rng: &mut Rng) -> String {
    bytes_of(&text(rng))
}

/// A search in bytes.
pub fn search_bytes(rng: &mut Rng) -> Search {
    let (predicate, value) = match rng.u32(..5) {
        0..=1 => ("v LIKE $1", bytes_of(&start(rng))),
        2 => ("v LIKE $1", bytes_of(&like(rng))),
        3 => ("v = $1", bytes_of(&piece(rng))),
        _ => ("v = ANY (ARRAY[NULL, $1])", bytes_of(&text(rng))),
    };
    Search { predicate: predicate.into(), kind: "bytea".into(), value, is_served: true }
}

/// A search by one of the operators for fragments and prefixes.
pub fn search_parts(rng: &mut Rng) -> Search {
    match rng.u32(..6) {
        0 => operator("~", rng, regex),
        1 => operator("~*", rng, |rng| {
            // Escapes have a case of their own.
            let pattern = regex(rng);
            if pattern.contains("\\m") { pattern } else { in_case(&pattern, rng) }
        }),
        2 => operator("^@", rng, wanted),
        _ => search(rng),
    }
}

/// A search in citext, whose operators ignore case.
pub fn search_caseless(rng: &mut Rng) -> Search {
    let (predicate, value) = match rng.u32(..8) {
        0..=3 => {
            let pattern = like(rng);
            (if rng.bool() { "v LIKE $1" } else { "v ILIKE $1" }, in_case(&pattern, rng))
        }
        4..=5 => {
            let value = if rng.bool() { text(rng) } else { piece(rng) };
            ("v = $1", in_case(&value, rng))
        }
        6 => {
            let value = text(rng);
            ("v = ANY (ARRAY[NULL, $1])", in_case(&value, rng))
        }
        _ => (if rng.bool() { "v ~ $1" } else { "v ~* $1" }, regex(rng)),
    };
    let value = format!("{}::citext", quoted(&value));
    Search { predicate: predicate.into(), kind: "citext".into(), value, is_served: true }
}
