//! Runs hold the numbers that were written, and lookups find exactly those of their interval.

use crate::common::{Run, numbers, pairs};
use proptest::prelude::*;
use skip_map::*;
use std::collections::{BTreeMap, BTreeSet};

/// A pseudorandom sequence.
fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 31
    }
}

/// A generic pages-bound check: the coding in which the numbers are, at least, valid.
fn coding_of(numbers: &[u64]) -> Coding {
    let end = numbers.last().map_or(1, |last| last + 1);
    let bits = 1 + (end >> 1).checked_ilog2().unwrap_or(0).min(39);
    let ranges = end.div_ceil(1 << bits).max(1);
    Coding::new(bits as u8, ranges as u32).unwrap()
}

fn check(numbers: &[u64]) {
    let mut pages = vec![];
    let mut writer = RunWriter::new();
    for some in numbers.chunks(700) {
        writer
            .push_all(some, &mut |page: &Page| {
                pages.push(Box::new(*page));
                Ok::<(), Malformed>(())
            })
            .unwrap();
    }
    writer
        .finish(&mut |page: &Page| {
            pages.push(Box::new(*page));
            Ok::<(), Malformed>(())
        })
        .unwrap();
    assert_eq!(pages, Run::of(numbers.iter().copied()).pages, "one by one or many at a time");
    let run = Run::of(numbers.iter().copied());
    assert_eq!(run.written.numbers, numbers.len() as u64);
    assert_eq!(run.all(), numbers);
    let most = most_pages(coding_of(numbers), numbers.len() as u64);
    assert!(run.written.shape.pages() <= most, "{} > {most}", run.written.shape.pages());
    let mut next = random(numbers.len() as u64);
    for _ in 0..200 {
        let from = match numbers.get(next() as usize % (numbers.len() + 1)) {
            Some(number) => (number + next() % 3).saturating_sub(1),
            None => next() >> 1,
        };
        let end = from + [0, 1, 2, 100, 5000, 1 << 40][next() as usize % 6];
        let (low, high) = (numbers.partition_point(|&n| n < from), numbers.partition_point(|&n| n < end));
        assert_eq!(run.lookup(from..end), &numbers[low..high], "{from}..{end}");
        // Whatever the numbers are thought to be spread over: a guess loses nothing.
        for of in [0..1 << 40, numbers[0]..numbers[numbers.len() - 1] + 1, 0..u64::MAX, from..from] {
            for level in 0..=1 {
                if let Some((found, _)) = run.lookup_by_guess(&of, level, &(from..end)) {
                    assert_eq!(found, &numbers[low..high], "{from}..{end} of {of:?}, level {level}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn numbers_come_back(numbers in numbers(6000)) {
        check(&numbers);
    }

    #[test]
    fn spans_and_repeated_numbers_make_the_same_run(numbers in numbers(3000), seed in any::<u64>()) {
        let mut spans: Vec<std::ops::Range<u64>> = vec![];
        let mut next = random(seed);
        for &number in &numbers {
            match spans.last_mut() {
                Some(span) if span.end == number && !next().is_multiple_of(50) => span.end += 1,
                _ => spans.push(number..number + 1),
            }
            if next().is_multiple_of(8) {
                spans.push(number..number + 1);
            }
        }
        let (one, other) = (Run::of_spans(spans), Run::of(numbers));
        prop_assert_eq!(one.pages, other.pages);
        prop_assert_eq!(one.written, other.written);
    }

    #[test]
    fn runs_of_key_parts_have_a_bound((coding, pairs) in pairs(3000), depth in 0..=6u8) {
        let numbers: BTreeSet<u64> = pairs.iter().map(|&(hash, range)| coding.number(hash, range)).collect();
        let mut pages = 0;
        for part in KeyPart::all(depth) {
            let of_part: Vec<u64> = numbers.range(part.numbers(coding)).copied().collect();
            let run = Run::of(of_part.iter().copied());
            let most = most_pages_in_parts(coding, part, depth, of_part.len() as u64);
            prop_assert!(run.written.shape.pages() <= most, "{:?}", part);
            pages += run.written.shape.pages();
        }
        prop_assert!(pages <= most_pages_in_parts(coding, KeyPart::WHOLE, depth, numbers.len() as u64));
    }

    #[test]
    fn heads_bound_the_numbers_of_their_pages(numbers in numbers(6000)) {
        let run = Run::of(numbers.iter().copied());
        for page in &run.pages[..run.written.shape.data_pages() as usize] {
            let mut count = 0;
            read_page(&page[..], |span| count += span.end - span.start).unwrap();
            let most = Head::parse(&page[..HEAD_BYTES]).unwrap().most_numbers().unwrap();
            prop_assert!((count..=8 * count + 64).contains(&most), "{} of {}", most, count);
        }
    }

    #[test]
    fn keys_have_their_ranges((coding, pairs) in pairs(2000)) {
        let numbers: BTreeSet<u64> = pairs.iter().map(|&(hash, range)| coding.number(hash, range)).collect();
        let run = Run::of(numbers.iter().copied());
        prop_assert!(run.written.shape.pages() <= most_pages(coding, numbers.len() as u64));
        let mut ranges_of: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for &(hash, range) in &pairs {
            ranges_of.entry(hash).or_default().insert(range);
        }
        for (hash, ranges) in ranges_of.iter().take(300) {
            let wanted = coding.numbers_of(*hash);
            let found = run.lookup(wanted.clone());
            prop_assert_eq!(&found, &numbers.range(wanted).copied().collect::<Vec<_>>());
            let found: BTreeSet<u32> = found.into_iter().map(|number| coding.split(number).1).collect();
            prop_assert!(found.is_superset(ranges));
        }
    }
}

#[test]
fn no_numbers_are_no_pages() {
    let run = Run::of([]);
    assert_eq!((run.pages.len(), run.written.numbers), (0, 0));
    assert_eq!(run.lookup(0..u64::MAX), []);
    assert_eq!(most_pages(Coding::new(20, 10).unwrap(), 0), 0);
}

#[test]
fn every_count_of_numbers_with_every_kind_of_gap() {
    for count in 1..=600u64 {
        for gap in [1, 2, 3, 5, 17, 1000, 1 << 33] {
            let numbers: Vec<u64> = (0..count).map(|i| 7 + i * gap).collect();
            let run = Run::of(numbers.iter().copied());
            assert_eq!(run.all(), numbers);
            for (number, neighbour) in [(0, 1), (count / 2, count / 3), (count - 1, 255)] {
                let number = 7 + number * gap;
                assert_eq!(run.lookup(number..number + 1), [number]);
                assert_eq!(
                    run.lookup(7 + neighbour.min(count - 1) * gap..number).last().is_some(),
                    number > 7 + neighbour.min(count - 1) * gap
                );
            }
        }
    }
}

/// The last byte of a bitmap has room for numbers that the next block holds: they must be found there.
#[test]
fn a_bitmap_that_ends_within_a_byte_hides_nothing_of_the_next_block() {
    for seed in 0..40 {
        let mut next = random(seed);
        let mut numbers = vec![next() % 100];
        // Half of all numbers, so all blocks are bitmaps; blocks start anywhere.
        while numbers.len() < 5000 {
            numbers.push(numbers[numbers.len() - 1] + 1 + next() % 2);
        }
        let run = Run::of(numbers.iter().copied());
        assert!(run.bytes() < 3 * PAGE_BYTES);
        for (index, &number) in numbers.iter().enumerate() {
            assert_eq!(run.lookup(number..number + 1), [number], "number {index} of seed {seed}");
            // Over the end of a block, and from within its last byte.
            for wanted in [number..number + 12, number.saturating_sub(5)..number + 1] {
                let within = |limit: u64| numbers.partition_point(|&number| number < limit);
                let expected = &numbers[within(wanted.start)..within(wanted.end)];
                assert_eq!(run.lookup(wanted), expected, "around number {index} of seed {seed}");
            }
        }
        let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
        let absent = (first..last).filter(|number| numbers.binary_search(number).is_err());
        assert!(absent.into_iter().all(|number| run.lookup(number..number + 1).is_empty()));
    }
}

#[test]
fn a_key_in_all_ranges_takes_one_block() {
    let coding = Coding::new(30, 266_667).unwrap();
    let mut numbers: BTreeSet<u64> = (0..100).map(|key| coding.number(key, key as u32)).collect();
    let alone = Run::of(numbers.iter().copied());
    numbers.extend(coding.numbers_of(1000));
    let run = Run::of(numbers.iter().copied());
    assert_eq!((alone.pages.len(), run.pages.len()), (1, 1));
    assert_eq!(run.lookup(coding.numbers_of(1000)).len(), 266_667);
    let end = |run: &Run| u16::from_le_bytes([run.pages[0][4], run.pages[0][5]]);
    assert!(end(&run) - end(&alone) < 80);
}

/// The count of a long block of consecutive numbers stands where another block has the place of its body.
#[test]
fn a_bitmap_after_many_consecutive_numbers() {
    for count in [8191, 8192, 8193, 70_000, 1 << 20] {
        let dense = (0..2000u64).filter(|i| i % 3 != 0).map(|i| count + 10 + i);
        let numbers: Vec<u64> = (0..count).chain(dense).collect();
        let run = Run::of(numbers.iter().copied());
        assert_eq!(run.all(), numbers, "{count}");
    }
}

#[test]
fn more_consecutive_numbers_than_a_block_can_have() {
    let spans = [5..6, 100..100 + (1 << 27) + 3, (1 << 40)..(1 << 40) + 1];
    let run = Run::of_spans(spans.clone());
    let mut found = vec![];
    read_page(&run.pages[0][..], |span| found.push(span)).unwrap();
    assert_eq!(append_page(&run.pages[0][..], &mut vec![]), Ok(false), "too many to be appended");
    assert_eq!(
        found,
        [
            5..6,
            100..100 + (1 << 26),
            100 + (1 << 26)..100 + (1 << 27),
            100 + (1 << 27)..spans[1].end,
            spans[2].clone()
        ]
    );
    assert_eq!(run.lookup(100 + (1 << 26) - 1..100 + (1 << 26) + 1).len(), 2);
}

#[test]
fn numbers_far_apart() {
    let numbers: Vec<u64> = (0..63).map(|bit| 1 << bit).chain([(1 << 63) - 1]).collect();
    check(&numbers);
    check(&[0, (1 << 63) - 1]);
    let distant: Vec<u64> = (0..127).map(|i| i << 56).collect();
    check(&distant);
    let mixed: Vec<u64> = (0..300)
        .flat_map(|i| (0..40).map(move |j| i * ((1 << 54) - 77) + j * 3))
        .filter(|&n| n < 1 << 63)
        .collect();
    let mixed: Vec<u64> = mixed.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    check(&mixed);
}

#[test]
fn wrong_orders_and_great_numbers_are_errors() {
    let sink = &mut |_: &Page| Ok::<(), Malformed>(());
    let mut writer = RunWriter::new();
    writer.push(10, sink).unwrap();
    writer.push(10, sink).unwrap();
    assert!(writer.push(9, sink).is_err());
    assert!(writer.push_span(8..20, sink).is_err());
    writer.push_span(10..12, sink).unwrap();
    writer.push_span(30..30, sink).unwrap();
    assert!(writer.push(1 << 63, sink).is_err());
    assert!(writer.push(u64::MAX, sink).is_err());
    writer.push((1 << 63) - 1, sink).unwrap();
    assert_eq!(writer.finish(sink).unwrap().numbers, 3);
}

#[test]
fn an_error_of_the_sink_is_passed_on() {
    #[derive(Debug, PartialEq)]
    struct Full;
    impl From<Malformed> for Full {
        fn from(_: Malformed) -> Self {
            panic!("nothing is malformed")
        }
    }
    let sink = &mut |_: &Page| Err(Full);
    let mut writer = RunWriter::new();
    let pushed = (0..10_000u64).try_for_each(|number| writer.push(number << 20, sink));
    assert_eq!(pushed, Err(Full));
}

/// Unique keys: the size is what theory says, and the bound is near it.
#[test]
fn size_of_unique_keys() {
    for (bits, ranges, per_range) in [
        (28u8, 2000u32, 75u32),
        (24, 100, 1000),
        (20, 4000, 50),
        (32, 8000, 20),
        (32, 1, 100_000),
        (18, 500, 300),
    ] {
        let coding = Coding::new(bits, ranges).unwrap();
        let mut next = random(u64::from(bits));
        let keys: BTreeSet<u64> = (0..ranges)
            .flat_map(|range| (0..per_range).map(move |_| range))
            .map(|range| coding.number(next(), range))
            .collect();
        let run = Run::of(keys.iter().copied());
        let pairs = keys.len() as f64;
        // But for the root and the last page, which is not full: few among more pages.
        let taken = ((run.pages.len() - 2) * PAGE_BYTES) as f64 * 8.0 / pairs;
        let target = f64::from(bits) + 2.5 - f64::from(per_range).log2();
        assert!(taken <= target, "{bits} bits, {per_range} a range: {taken} > {target}");
        let most = f64::from(most_pages(coding, keys.len() as u64)) / run.pages.len() as f64;
        println!(
            "{bits} bits, {ranges} ranges, {per_range} a range: {taken:.2} bits, target {target:.2}, bound {most:.3}"
        );
        assert!((1.0..1.18).contains(&most), "the bound is {most} times what was needed");
    }
}

/// Keys in many ranges, among others that are in one.
#[test]
fn size_of_dense_keys() {
    let coding = Coding::new(32, 266_667).unwrap();
    for (of_1000, most_bits) in
        [(1000, 0.02), (999, 0.5), (990, 1.5), (900, 1.4), (500, 2.2), (250, 4.4), (100, 6.3), (10, 13.0)]
    {
        let mut next = random(of_1000);
        let mut numbers: Vec<u64> = (0..1000).map(|key| coding.number(key, key as u32)).collect();
        numbers.sort_unstable();
        let alone = Run::of(numbers.iter().copied()).pages.len();
        for key in 0..10 {
            numbers.extend(coding.numbers_of(next() ^ key).filter(|_| next() % 1000 < of_1000));
        }
        let count = numbers.len() - 1000;
        numbers.sort_unstable();
        let run = Run::of(numbers.iter().copied());
        assert!(run.all() == numbers);
        let bits = ((run.pages.len() - alone) * PAGE_BYTES * 8) as f64 / count as f64;
        println!("a key in {of_1000} of 1000 ranges: {bits:.2} bits a pair");
        assert!(bits < most_bits, "a key in {of_1000} of 1000 ranges: {bits} bits a pair");
    }
}

/// Keys of a skewed distribution, the most frequent ones in all ranges.
#[test]
fn size_of_skewed_keys() {
    let coding = Coding::new(26, 5000).unwrap();
    let mut next = random(3);
    let mut numbers = BTreeSet::new();
    for range in 0..5000 {
        for _ in 0..100 {
            let uniform = (next() >> 11) as f64 / (1u64 << 53) as f64;
            numbers.insert(coding.number((1e6f64).powf(uniform) as u64, range)); // Zipf, nearly
        }
    }
    let numbers: Vec<u64> = numbers.into_iter().collect();
    check(&numbers);
    let run = Run::of(numbers.iter().copied());
    let bits = run.bytes() as f64 * 8.0 / numbers.len() as f64;
    let least = least_bits(coding, &numbers) / numbers.len() as f64;
    println!("{bits:.2} bits a pair; any coding of such keys takes {least:.2}");
    assert!(bits < least + 5.0, "{bits} bits a pair");
}

/// What any coding needs: the fingerprints as a set, and for each its ranges as a set.
fn least_bits(coding: Coding, numbers: &[u64]) -> f64 {
    let of_set = |all: f64, chosen: f64| {
        let rest = all - chosen;
        let part = |count: f64| if count > 0.0 { count * (all / count).log2() } else { 0.0 };
        part(chosen) + part(rest)
    };
    let keys = numbers.chunk_by(|&one, &other| coding.split(one).0 == coding.split(other).0);
    let counts: Vec<usize> = keys.map(<[u64]>::len).collect();
    let fingerprints = of_set((1u64 << coding.fingerprint_bits()) as f64, counts.len() as f64);
    fingerprints + counts.iter().map(|&count| of_set(f64::from(coding.ranges()), count as f64)).sum::<f64>()
}

/// Numbers made to fill directories and pages badly still stay within the bound.
#[test]
fn most_pages_holds_for_awkward_numbers() {
    let mut awkward: Vec<Vec<u64>> = vec![];
    for (run, hole) in [(128, 2), (128, 1 << 20), (129, 2), (127, 2), (64, 1 << 30), (1, 3), (2, 9)] {
        awkward.push((0..60_000u64).map(|i| i + i / run * hole).collect());
    }
    // One number, then as many consecutive ones as make a block.
    awkward.push((0..60_000u64).map(|i| i + i.div_ceil(129) * 2 + i / 129 * 5).collect());
    // Close numbers and one that is far away, so that no block fits what is left of a page.
    awkward.push((0..30_000u64).map(|i| i * 3 + (i / 200) * (1 << 45)).collect());
    awkward.push((0..30_000u64).map(|i| i * 700 + (i / 64) * (1 << 40)).collect());
    for numbers in awkward {
        let numbers: Vec<u64> = numbers.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        check(&numbers);
    }
}

/// Numbers of `pairs` random keys, each in `ranges_of_key` of 1000 ranges.
fn run_of_keys(pairs: usize, ranges_of_key: usize, part: KeyPart) -> (Run, Coding, Vec<u64>) {
    let coding = Coding::new(32, 1000).unwrap();
    let mut next = random(7);
    let mut hashes = vec![];
    let mut numbers = BTreeSet::new();
    while numbers.len() < pairs {
        let hash = next();
        if part.has(hash) {
            hashes.push(hash);
            numbers.extend((0..ranges_of_key).map(|_| coding.number(hash, next() as u32 % 1000)));
        }
    }
    (Run::of(numbers), coding, hashes)
}

#[test]
fn guesses_save_the_fence_pages() {
    let part = KeyPart::new(6, 37).unwrap();
    for (pairs, of, ranges_of_key, most) in [
        (12_000, KeyPart::WHOLE, 1, 1.05),
        (120_000, part, 1, 1.1),
        (500_000, KeyPart::WHOLE, 1, 1.2),
        (120_000, part, 20, 1.5),
    ] {
        let (run, coding, hashes) = run_of_keys(pairs, ranges_of_key, of);
        let shape = run.written.shape;
        let spread = EvenSpread { of: of.numbers(coding), numbers: run.written.numbers };
        assert!(shape.levels() == 1 && shape.guess_level(&spread) == Some(0), "{shape:?}");
        let mut next = random(8);
        let absent = std::iter::from_fn(|| Some(next())).filter(|&hash| of.has(hash)).take(3000);
        let keys: Vec<u64> = hashes.iter().copied().take(3000).chain(absent).collect();
        let mut pages = 0;
        for &key in &keys {
            let wanted = coding.numbers_of(key);
            let guessed = run.lookup_by_guess(&spread.of, 0, &wanted);
            // A wrong guess is one page or two for nothing.
            pages += guessed.as_ref().map_or(4, |(_, looks)| *looks);
            if let Some((found, _)) = guessed {
                assert_eq!(found, run.lookup(wanted));
            }
        }
        let average = f64::from(pages) / keys.len() as f64;
        assert!(average <= most, "{average} pages of {pairs} pairs, {ranges_of_key} for each key");
    }
}

#[test]
fn keys_in_many_ranges_are_not_guessed() {
    let (run, coding, _) = run_of_keys(150_000, 300, KeyPart::WHOLE);
    let spread = EvenSpread { of: KeyPart::WHOLE.numbers(coding), numbers: run.written.numbers };
    assert!(run.written.shape.levels() == 1 && run.written.shape.guess_level(&spread).is_none());
}

#[test]
fn guesses_of_fence_pages_lose_nothing() {
    // Close numbers, then distant ones: whatever they are thought to be spread over is wrong for most.
    let mut next = random(9);
    let mut numbers: Vec<u64> = (0..300_000).map(|n| 3000 * n + 1).collect();
    numbers.extend((0..2_000_000).map(|_| (1 << 40) + next() % (1 << 62)));
    numbers.sort_unstable();
    numbers.dedup();
    let run = Run::of(numbers.iter().copied());
    assert!(run.written.shape.levels() == 2, "{:?}", run.written.shape);
    let (mut right, mut asked) = (0, 0);
    let spreads = [0..1 << 61, 0..1 << 62, 0..1 << 63, 1 << 40..(1 << 62) + (1 << 40), 1 << 61..1 << 62];
    for of in spreads {
        for index in (0..numbers.len()).step_by(997) {
            let wanted = numbers[index] - 1..numbers[index] + 1;
            asked += 1;
            if let Some((found, _)) = run.lookup_by_guess(&of, 1, &wanted) {
                assert!(found.contains(&numbers[index]));
                right += 1;
            }
        }
    }
    assert!((asked / 4..asked * 9 / 10).contains(&right), "{right} of {asked}");
}
