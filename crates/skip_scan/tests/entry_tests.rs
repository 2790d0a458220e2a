//! Looking an entry up among many tests gives what asking each of them gives.
use skip_scan::{EntryTest, EntryTests};
use std::time::Instant;

/// A small generator: the same numbers each time.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

fn satisfies(test: &EntryTest<'_>, hash: Option<u64>) -> bool {
    match (test, hash) {
        (EntryTest::Keys(keys), Some(hash)) => keys.contains(&hash),
        (EntryTest::IsNull, None) | (EntryTest::IsNotNull, Some(_)) => true,
        _ => false,
    }
}

#[test]
fn as_asking_each_test() {
    let mut next = numbers(7);
    for round in 0..300 {
        let lists: Vec<Vec<u64>> =
            (0..round % 40).map(|_| (0..next(6)).map(|_| next(50)).collect()).collect();
        let tests: Vec<(u16, EntryTest<'_>)> = lists
            .iter()
            .map(|list| {
                let test = match next(5) {
                    0 => EntryTest::IsNull,
                    1 => EntryTest::IsNotNull,
                    _ => EntryTest::Keys(list),
                };
                (next(4) as u16, test)
            })
            .collect();
        let ready = EntryTests::new(tests.iter().copied());
        for hash in (0..51).map(Some).chain([None]) {
            for column in 0..6 {
                let mut found: Vec<usize> = ready.satisfied(column, hash).collect();
                found.sort_unstable();
                let expected: Vec<usize> = (0..tests.len())
                    .filter(|&n| tests[n].0 == column && satisfies(&tests[n].1, hash))
                    .collect();
                assert_eq!(found, expected, "column {column}, {hash:?} of {tests:?}");
            }
        }
    }
}

#[test]
fn the_price_does_not_grow_with_the_tests() {
    let mut next = numbers(11);
    let keys: Vec<u64> = (0..200_000).map(|_| next(u64::MAX)).collect();
    let entries: Vec<u64> = (0..200_000).map(|_| next(u64::MAX)).collect();
    let time = |count: usize| {
        let tests = keys[..count].iter().map(|key| (0, EntryTest::Keys(std::slice::from_ref(key))));
        let ready = EntryTests::new(tests);
        let start = Instant::now();
        let found: usize = entries.iter().map(|&hash| ready.satisfied(0, Some(hash)).count()).sum();
        assert!(found <= entries.len() * count);
        start.elapsed()
    };
    let (few, many) = (time(20), time(20_000));
    // Asking each test would take a thousand times as long.
    assert!(
        many < few * 100 + std::time::Duration::from_millis(50),
        "{few:?} for 20 tests, {many:?} for 20,000"
    );
}
