//! Random regular expressions, written in the syntax that PostgreSQL and the crate `regex` share, with random values.
//! Whatever the crate says matches must be found. Syntax that only PostgreSQL has is in `postgres.rs`.

use crate::common::{Asked, Dice, all_cuts, assert_found};
use skip_text::{Encoding, Matching, TextQuery};

/// How many pairs that match are tried.
const ROUNDS: usize = 60_000;

const CHARS: &[&str] = &[
    "a", "b", "ab", "c", "A", "B", " ", "-", "1", "é", "É", "k", "K", "s", "ж", "Ж", "語", "\n", "foo",
    "\u{307}",
];

/// An expression, and a text that it is meant to match.
fn expression(dice: &mut Dice, level: usize) -> (String, String) {
    let (mut pattern, mut sample) = (String::new(), String::new());
    for _ in 0..=dice.below(4) {
        let (atom, text) = match dice.below(16) {
            0 => (dice.one(&[".", r"\w", "[^b]"]).to_owned(), "a".to_owned()),
            1 => (dice.one(&["[ab]", "[b-c]", r"[\x62-d]", "[-b]", "[1b]"]).to_owned(), "b".to_owned()),
            2 => {
                pattern.push_str(dice.one(&["^", "$", r"\A"]));
                continue;
            }
            3 => (r"\u0061".to_owned(), "a".to_owned()),
            4 | 5 if level > 0 => {
                let (first, sample) = expression(dice, level - 1);
                let second = if dice.in_hundred(50) {
                    format!("|{}", expression(dice, level - 1).0)
                } else {
                    String::new()
                };
                let open = dice.one(&["(", "(?:"]);
                (format!("{open}{first}{second})"), sample)
            }
            _ => {
                let text = dice.one(CHARS);
                (text.to_owned(), text.to_owned())
            }
        };
        pattern.push_str(&atom);
        let (quantifier, copies) = dice.one(&[
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("", 1),
            ("*", 0),
            ("*", 2),
            ("+", 1),
            ("+", 3),
            ("?", 0),
            ("?", 1),
            ("{0}", 0),
            ("{2}", 2),
            ("{1,3}", 2),
            ("{0,2}", 1),
            ("{0,3}", 2),
            ("{2,}", 3),
            ("+?", 2),
            ("*?", 1),
        ]);
        pattern.push_str(quantifier);
        // A quantifier is for the last character only, if there are several.
        let last = text.chars().next_back().filter(|_| !atom.starts_with(['(', '[', '\\', '.']));
        match last {
            Some(last) if copies == 0 => sample.push_str(&text[..text.len() - last.len_utf8()]),
            Some(last) => {
                sample.push_str(&text);
                sample.extend((1..copies).map(|_| last));
            }
            None => (0..copies).for_each(|_| sample.push_str(&text)),
        }
    }
    (pattern, sample)
}

#[test]
fn whatever_matches_is_found() {
    let cuts: Vec<_> = [Encoding::Utf8, Encoding::Bytes].into_iter().flat_map(all_cuts).collect();
    let (mut dice, mut matched) = (Dice(41), 0);
    let mut asked = [Asked::default(); 2];
    while matched < ROUNDS {
        let lines = dice.in_hundred(20);
        let (pattern, sample) = expression(&mut dice, 2);
        let ignore_case = dice.in_hundred(40);
        // `.` matches a newline, as is PostgreSQL's default; `^` and `$` are for lines or not.
        let options = format!("(?s{}{})", if lines { "m" } else { "" }, if ignore_case { "i" } else { "" });
        let Ok(independent) = regex::Regex::new(&format!("{options}{pattern}")) else { continue };
        let (matching, own) = match (ignore_case, dice.in_hundred(30)) {
            (true, true) => (Matching::Exact, "i"),
            (true, false) => (Matching::IgnoreCase, ""),
            (false, true) => (Matching::IgnoreCase, "c"),
            (false, false) => (Matching::Exact, ""),
        };
        let own = match (lines, own) {
            (false, "") => pattern.clone(),
            (lines, own) => format!("(?{}{own}){pattern}", if lines { "w" } else { "" }),
        };
        let mut values = vec![sample.clone(), sample.to_uppercase(), sample.to_lowercase()];
        for _ in 0..3 {
            let mut noise = || (0..dice.below(4)).map(|_| dice.one(CHARS)).collect::<String>();
            values.push(format!("{}{sample}{}", noise(), noise()));
            values.push(noise());
            values.push(sample.replace('k', "\u{212A}").replace('s', "ſ"));
        }
        for value in values.iter().filter(|value| independent.is_match(value)) {
            matched += 1;
            let query = TextQuery::Regex(own.as_bytes(), matching);
            let cut = &cuts[dice.below(cuts.len())];
            assert_found(cut, &query, value.as_bytes(), &mut asked[usize::from(ignore_case)]);
        }
    }
    let [exact, ignoring] = asked;
    assert!(exact.share() > 0.08 && ignoring.share() > 0.04, "{exact:?} {ignoring:?}");
}
