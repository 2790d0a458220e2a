//! PostgreSQL's own word: pairs of a pattern and a value of which a server said that they match.
//!
//! `vectors/matches.tsv` is what `vectors/vectors.sql` gave; its first line says which server. Each pair must be found
//! with every way to cut. Other lists of the same form, as long as one likes, are read from the file that the variable
//! SKIP_TEXT_MATCHES names.

use crate::common::{Asked, all_cuts, assert_found};
use skip_text::{Encoding, Matching, TextQuery};
use std::collections::BTreeMap;

fn text(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn what_the_server_finds_is_found() {
    let file = std::env::var("SKIP_TEXT_MATCHES")
        .unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/matches.tsv").into());
    let list = std::fs::read_to_string(&file).unwrap();
    let cuts: Vec<_> = [Encoding::Utf8, Encoding::Bytes].into_iter().flat_map(all_cuts).collect();
    let mut asked: BTreeMap<&str, Asked> = BTreeMap::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let [operator, pattern, value] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (pattern, value) = (text(pattern), text(value));
        let kind = operator.split(' ').next().unwrap();
        let matching = if matches!(kind, "~*" | "ILIKE") { Matching::IgnoreCase } else { Matching::Exact };
        let query = match kind {
            "~" | "~*" => TextQuery::Regex(&pattern, matching),
            "LIKE" | "ILIKE" => TextQuery::Like { pattern: &pattern, escape: Some('\\'), matching },
            other => panic!("{other}"),
        };
        cuts.iter().for_each(|cut| assert_found(cut, &query, &value, asked.entry(kind).or_default()));
    }
    // That every kind is there, and that something is asked for at all.
    assert_eq!(asked.keys().copied().collect::<Vec<_>>(), ["ILIKE", "LIKE", "~", "~*"]);
    for (kind, asked) in asked {
        println!("{kind}: {} of {} demand keys", asked.some, asked.all);
        assert!(asked.share() > 0.02, "{kind} hardly ever demands a key: {asked:?}");
    }
}
