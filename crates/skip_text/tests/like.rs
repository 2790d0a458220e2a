//! Equality, `^@` and `LIKE` of random values and patterns, matched by a naive matcher and by models of what collations
//! fold. Whatever matches must be found.

use crate::common::{Asked, Dice, all_cuts, assert_found};
use skip_text::{Demand, Encoding, KeyCase, Matching, TextKeyKind, TextKeys, TextQuery};

/// How many pairs that match are tried, in each test.
const ROUNDS: usize = 60_000;

/// Few letters, so that much matches; those that fold in strange ways; what `LIKE` treats as special.
const CHARS: &[char] = &[
    'a', 'a', 'b', 'b', 'c', 'A', 'B', 'i', 'I', 'İ', 'ı', 'k', 'K', '\u{212A}', 's', 'S', 'ſ', 'ß', 'ẞ',
    'é', 'É', 'σ', 'ς', 'Σ', 'ж', 'Ж', 'Ì', 'ì', 'Í', 'j', 'J', 'Į', '\u{307}', '\u{300}', ' ', ' ', '-',
    '1', '語', '😀', '\\', '%', '_', 'ﬁ', 'ŉ', 'µ', 'Ω', 'ω', '\u{2126}', 'Å', '\u{212B}',
];

fn text(dice: &mut Dice, most: usize) -> String {
    let few = dice.in_hundred(60);
    (0..dice.below(most + 1)).map(|_| dice.one(if few { &CHARS[..9] } else { CHARS })).collect()
}

/// A pattern that often matches the value: some of its characters become wildcards, some change case.
fn pattern_for(value: &str, dice: &mut Dice) -> String {
    let mut pattern = String::new();
    for c in value.chars() {
        match dice.below(12) {
            0 => pattern.push('_'),
            1 => pattern.push('%'),
            2 => pattern.push_str("%%_"),
            3 => pattern.extend(c.to_uppercase()),
            4 => pattern.extend(c.to_lowercase()),
            5 => pattern.push_str(&format!("%\\{c}")),
            6 => pattern.push(dice.one(CHARS)),
            _ if matches!(c, '%' | '_' | '\\') => pattern.push_str(&format!("\\{c}")),
            _ => pattern.push(c),
        }
    }
    if dice.in_hundred(30) {
        pattern.insert(0, '%');
    }
    if dice.in_hundred(30) {
        pattern.push('%');
    }
    pattern
}

/// `LIKE` by definition. None: an error.
fn like(value: &[char], pattern: &[char], escape: Option<char>) -> Option<bool> {
    Some(match pattern {
        [] => value.is_empty(),
        [first, rest @ ..] if Some(*first) == escape => match (value, rest) {
            (_, []) => return None,
            ([v, after @ ..], [p, rest @ ..]) => v == p && like(after, rest, escape)?,
            ([], _) => false,
        },
        ['%', rest @ ..] => {
            for from in 0..=value.len() {
                if like(&value[from..], rest, escape)? {
                    return Some(true);
                }
            }
            false
        }
        ['_', rest @ ..] => !value.is_empty() && like(&value[1..], rest, escape)?,
        [p, rest @ ..] => value.first() == Some(p) && like(&value[1..], rest, escape)?,
    })
}

/// How a collation lowers a text.
#[derive(Clone, Copy, Debug)]
enum Lower {
    C,
    Simple,
    Full,
    Turkish,
    Lithuanian,
}

fn lowered(text: &str, by: Lower) -> String {
    match by {
        Lower::C => text.to_ascii_lowercase(),
        Lower::Simple => text.chars().map(|c| c.to_lowercase().next().unwrap()).collect(),
        Lower::Full => text.to_lowercase(),
        Lower::Turkish => text.replace("I\u{307}", "i").replace('I', "ı").replace('İ', "i").to_lowercase(),
        Lower::Lithuanian => ["I", "J", "Į"]
            .iter()
            .fold(text.replace('Ì', "i\u{307}\u{300}").replace('Í', "i\u{307}\u{301}"), |text, letter| {
                let lower = letter.to_lowercase();
                text.replace(&format!("{letter}\u{300}"), &format!("{lower}\u{307}\u{300}"))
                    .replace(&format!("{letter}\u{307}"), &format!("{lower}\u{307}\u{307}"))
            })
            .to_lowercase(),
    }
}

fn chars(text: &str) -> Vec<char> {
    text.chars().collect()
}

#[test]
fn whatever_like_matches_is_found() {
    let cuts: Vec<_> = [Encoding::Utf8, Encoding::Bytes].into_iter().flat_map(all_cuts).collect();
    let (mut dice, mut asked, mut matched) = (Dice(20_261), Asked::default(), 0);
    while matched < ROUNDS {
        let value = text(&mut dice, 9);
        let pattern = if dice.in_hundred(80) { pattern_for(&value, &mut dice) } else { text(&mut dice, 5) };
        let escape = dice.one(&[Some('\\'), Some('\\'), Some('\\'), None, Some('a'), Some('%'), Some('é')]);
        let query = TextQuery::Like { pattern: pattern.as_bytes(), escape, matching: Matching::Exact };
        if like(&chars(&value), &chars(&pattern), escape) == Some(true) {
            matched += 1;
            let cut = &cuts[dice.below(cuts.len())];
            assert_found(cut, &query, value.as_bytes(), &mut asked);
        }
    }
    assert!(asked.share() > 0.2, "{asked:?}");
}

#[test]
fn whatever_ilike_matches_is_found() {
    let cuts: Vec<_> = [Encoding::Utf8, Encoding::Bytes].into_iter().flat_map(all_cuts).collect();
    let (mut dice, mut asked, mut matched) = (Dice(20_262), Asked::default(), 0);
    while matched < ROUNDS {
        let value = text(&mut dice, 9);
        let pattern = pattern_for(&value, &mut dice);
        let by = dice.one(&[Lower::C, Lower::Simple, Lower::Full, Lower::Turkish, Lower::Lithuanian]);
        let escape = Some('\\');
        if like(&chars(&lowered(&value, by)), &chars(&lowered(&pattern, by)), escape) == Some(true) {
            matched += 1;
            let query =
                TextQuery::Like { pattern: pattern.as_bytes(), escape, matching: Matching::IgnoreCase };
            let cut = &cuts[dice.below(cuts.len())];
            assert_found(cut, &query, value.as_bytes(), &mut asked);
        }
    }
    assert!(asked.share() > 0.1, "{asked:?}");
}

#[test]
fn whatever_is_equal_or_begins_so_is_found() {
    let cuts: Vec<_> = [Encoding::Utf8, Encoding::Bytes].into_iter().flat_map(all_cuts).collect();
    let (mut dice, mut asked) = (Dice(20_263), Asked::default());
    for _ in 0..ROUNDS {
        let value = text(&mut dice, 9);
        let begin = value.chars().take(dice.below(8)).collect::<String>();
        let lower = lowered(&value, dice.one(&[Lower::C, Lower::Simple, Lower::Full, Lower::Turkish]));
        let queries = [
            TextQuery::Equals(value.as_bytes(), Matching::Exact),
            TextQuery::StartsWith(begin.as_bytes(), Matching::Exact),
            // Citext: texts are equal that are lowered to the same.
            TextQuery::Equals(lower.as_bytes(), Matching::IgnoreCase),
        ];
        let cut = &cuts[dice.below(cuts.len())];
        queries.iter().for_each(|query| assert_found(cut, query, value.as_bytes(), &mut asked));
    }
    assert!(asked.share() > 0.5, "{asked:?}");
}

#[test]
fn whatever_has_the_words_is_found() {
    let cuts = [Encoding::Utf8, Encoding::Bytes].map(|encoding| (encoding, all_cuts(encoding)));
    let (mut dice, mut asked, mut matched) = (Dice(20_264), Asked::default(), 0);
    while matched < ROUNDS {
        let value = text(&mut dice, 12);
        // Words of the value, now and then in another case, or others.
        let some =
            value.split([' ', '-', '%', '_', '\\']).filter(|_| dice.in_hundred(50)).collect::<Vec<_>>();
        let wanted = match dice.below(6) {
            0 => text(&mut dice, 4),
            1 => some.join(" ").to_uppercase(),
            2 => some.join("-").to_lowercase(),
            _ => some.join(" ,"),
        };
        let matching = dice.one(&[Matching::Exact, Matching::IgnoreCase]);
        let (encoding, cuts) = &cuts[dice.below(cuts.len())];
        let cut = &cuts[dice.below(cuts.len())];
        if skip_text::keys::has_words(value.as_bytes(), wanted.as_bytes(), matching, *encoding) {
            matched += 1;
            assert_found(
                cut,
                &TextQuery::HasWords(wanted.as_bytes(), matching),
                value.as_bytes(),
                &mut asked,
            );
        }
    }
    assert!(asked.share() > 0.1, "{asked:?}");
}

/// Not only is nothing lost: what does not match is mostly ruled out.
#[test]
fn rare_words_and_fragments_rule_out_other_values() {
    let lines: Vec<String> = (0..2000)
        .map(|i| format!("Request {} from host-{} took {} ms", i * 7919 % 10_007, i % 50, i * 31 % 997))
        .collect();
    let cases = [
        (TextKeyKind::Words, KeyCase::AsIs, "%Request 7919 from%", Matching::Exact, 1),
        (TextKeyKind::Words, KeyCase::Folded, "%REQUEST 7919 FROM%", Matching::IgnoreCase, 1),
        (TextKeyKind::Ngrams(4), KeyCase::Folded, "%HOST-17 t%", Matching::IgnoreCase, 60),
        (TextKeyKind::Ngrams(3), KeyCase::AsIs, "%st-17 took%", Matching::Exact, 60),
        (TextKeyKind::Prefix(12), KeyCase::AsIs, "Request 7919%", Matching::Exact, 1),
    ];
    for (kind, case, pattern, matching, most) in cases {
        let cut = TextKeys::new(kind, case, Encoding::Utf8).unwrap();
        let demand =
            cut.demand(&TextQuery::Like { pattern: pattern.as_bytes(), escape: Some('\\'), matching });
        assert_ne!(demand, Demand::Anything);
        let mut buffer = Vec::new();
        let found = lines.iter().filter(|line| {
            let keys: Vec<Vec<u8>> = cut.keys(line.as_bytes(), &mut buffer).map(<[u8]>::to_vec).collect();
            demand.is_met(&mut |key| keys.contains(key))
        });
        let found = found.count();
        assert!((1..=most).contains(&found), "{pattern} leaves {found} lines, cut by {cut:?}");
    }
}
