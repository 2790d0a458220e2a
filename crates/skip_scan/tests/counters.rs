//! The counters of scans: added up over threads, full, tidied, reset, in another build's words.
use skip_scan::counters::{CounterTable, Counts, Key, PLACES, WORDS};
use std::sync::atomic::{AtomicU64, Ordering};

fn words() -> &'static [AtomicU64; WORDS] {
    Box::leak(Box::new([const { AtomicU64::new(0) }; WORDS]))
}

fn table() -> CounterTable {
    CounterTable::attach(words()).unwrap_or_else(|| unreachable!("new words"))
}

fn key(database: u32, index: u32) -> Key {
    Key { database, index }
}

fn counts(n: u64) -> Counts {
    Counts { scans: n, checked: 10 * n, skipped: 8 * n, full_positives: 2 * n, true_positives: n }
}

#[test]
fn each_index_has_its_own() {
    let table = table();
    table.add(key(5, 100), &counts(1));
    table.add(key(5, 100), &counts(2));
    table.add(key(5, 101), &counts(4));
    table.add(key(6, 100), &counts(8));
    let found = table.of_database(5);
    assert_eq!((found.len(), found.get(&100), found.get(&101)), (2, Some(&counts(3)), Some(&counts(4))));
    assert_eq!(table.of_database(6).get(&100), Some(&counts(8)));
    assert!(table.of_database(7).is_empty() && !table.is_full());
}

#[test]
fn the_same_words_are_the_same_table() {
    let words = words();
    let (one, other) = (CounterTable::attach(words), CounterTable::attach(words));
    one.iter().for_each(|table| table.add(key(1, 1), &counts(1)));
    assert_eq!(other.map(|table| table.of_database(1).len()), Some(1));
}

#[test]
fn another_layout_is_left_alone() {
    let words = words();
    words[0].store(7, Ordering::SeqCst);
    assert!(CounterTable::attach(words).is_none());
    assert_eq!(words[0].load(Ordering::SeqCst), 7);
}

#[test]
fn threads_lose_nothing() {
    let table = table();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20_000u32).for_each(|i| table.add(key(1, i % 3000), &counts(1))));
        }
    });
    let found = table.of_database(1);
    assert_eq!(found.len(), 3000);
    assert_eq!(found.values().map(|counts| counts.scans).sum::<u64>(), 8 * 20_000);
    assert!(found.values().all(|c| *c == counts(c.scans)));
}

#[test]
fn a_full_table_turns_away_until_it_is_tidied() {
    let table = table();
    let all = PLACES as u32;
    (0..all).for_each(|i| table.add(key(1, i), &counts(1)));
    assert!(table.is_full() && !table.wants_tidying(1_000, 100));
    table.add(key(2, 1), &counts(1));
    assert!(table.of_database(2).is_empty());
    table.add(key(1, 7), &counts(1)); // who has a place keeps it
    assert_eq!(table.of_database(1).get(&7), Some(&counts(2)));

    assert!(table.wants_tidying(1_000, 100), "one is told to tidy");
    assert!(!table.wants_tidying(1_050, 100), "the others are not, for a while");
    table.tidy(|key| key.index % 2 == 1);
    assert_eq!(table.of_database(1).len(), PLACES / 2);
    assert!(!table.is_full() && !table.wants_tidying(9_000, 100));
    table.add(key(2, 1), &counts(1));
    assert_eq!(table.of_database(2).get(&1), Some(&counts(1)));
    table.add(key(1, 7), &counts(1));
    assert_eq!(table.of_database(1).get(&7), Some(&counts(3)), "found behind places given back");
    table.add(key(1, 8), &counts(1));
    assert_eq!(table.of_database(1).get(&8), Some(&counts(1)), "begins at zero");
}

#[test]
fn a_reset_is_noted() {
    let table = table();
    assert_eq!(table.reset_at(), None);
    table.add(key(1, 1), &counts(3));
    table.reset(42);
    assert_eq!(table.of_database(1).get(&1), Some(&Counts::default()));
    assert_eq!(table.reset_at(), Some(42));
    table.add(key(1, 1), &counts(2));
    assert_eq!(table.of_database(1).get(&1), Some(&counts(2)));
}

#[test]
fn tidying_under_load_loses_nothing() {
    let table = table();
    let (dropped, live, scans) = (3_000u32, 1_000u32, 20_000u32);
    (0..dropped).for_each(|i| table.add(key(2, i), &counts(1)));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..scans).for_each(|i| table.add(key(1, i % live), &counts(1))));
        }
        // Bit by bit, so that places are given back all along.
        scope.spawn(|| {
            (0..=dropped).step_by(10).for_each(|end| table.tidy(|k| k.database == 1 || k.index >= end));
        });
    });
    let found = table.of_database(1);
    assert_eq!(found.len(), live as usize);
    assert!(found.values().all(|c| *c == counts(u64::from(4 * scans / live))), "{found:?}");
    assert!(table.of_database(2).is_empty());
}
