//! Lookups, builds and merges of map segments: a million keys, ranges of 75 rows.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use skip_map::*;
use std::hint::black_box;
use std::time::Duration;

const KEYS: u64 = 1_000_000;
const KEYS_A_RANGE: u64 = 75;
const FINGERPRINT_BITS: u8 = 32;
const RUNS: u64 = 4;

/// A spill that is never used: the budget has room for all.
struct Memory;

impl Spill for Memory {
    type Error = Malformed;

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Malformed> {
        Err(Malformed("the budget is too small"))
    }

    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), Malformed> {
        Err(Malformed("the budget is too small"))
    }
}

/// Key hashes, as good ones are.
fn hash(key: u64) -> u64 {
    let state = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (state ^ state >> 32).wrapping_mul(0xd134_2543_de82_ef95)
}

fn coding(keys: u64) -> Coding {
    Coding::new(FINGERPRINT_BITS, keys.div_ceil(KEYS_A_RANGE) as u32).unwrap()
}

fn sorted(keys: std::ops::Range<u64>) -> Vec<u64> {
    let coding = coding(keys.end - keys.start);
    let mut sorter = Sorter::new(coding, 64 << 20, keys.end - keys.start, Memory);
    for key in keys.clone() {
        sorter.push(hash(key), ((key - keys.start) / KEYS_A_RANGE) as u32).unwrap();
    }
    let mut numbers = vec![];
    let pushed = sorter.finish(|some| {
        numbers.extend_from_slice(some);
        Ok::<(), Malformed>(())
    });
    pushed.map(|()| numbers).unwrap()
}

fn written(numbers: &[u64]) -> Vec<Box<Page>> {
    let mut pages = vec![];
    let mut sink = |page: &Page| {
        pages.push(Box::new(*page));
        Ok::<(), Malformed>(())
    };
    let mut writer = RunWriter::new();
    writer.push_all(numbers, &mut sink).unwrap();
    writer.finish(&mut sink).unwrap();
    pages
}

/// The numbers of a key on a data page.
fn on_page(page: &Page, wanted: std::ops::Range<u64>) -> u64 {
    let mut found = 0;
    let head = Head::parse(&page[..HEAD_BYTES]).unwrap();
    for block in head.blocks(wanted.clone()).unwrap() {
        block.numbers(&page[block.bytes()], wanted.clone(), |span| found += span.end - span.start).unwrap();
    }
    found
}

fn lookups(criterion: &mut Criterion) {
    let coding = coding(KEYS);
    let pages = written(&sorted(0..KEYS));
    let shape = RunShape::of_pages(pages.len() as u32).unwrap();
    let mut group = criterion.benchmark_group("lookup");
    let mut key = KEYS;
    let page = &pages[7];
    let (first, last) = Head::parse(&page[..]).map(|head| (head.first(), head.last())).unwrap();
    let (ranges, mut at) = (u64::from(coding.ranges()), 0u64);
    group.bench_function("a key on one page", |bencher| {
        bencher.iter(|| {
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let start = (first + at % (last - first)) / ranges * ranges;
            on_page(black_box(page), start..start + ranges)
        });
    });
    group.bench_function("an absent key, with its fence page", |bencher| {
        bencher.iter(|| {
            key += 1;
            let wanted = coding.numbers_of(hash(key));
            let root = &pages[shape.root().unwrap() as usize];
            let head = FenceHead::parse(&root[..HEAD_BYTES]).unwrap();
            let entry = head.entry(&root[head.bytes(wanted.start)], wanted.start).unwrap();
            on_page(black_box(&pages[entry]), wanted)
        });
    });
    group.finish();
}

fn builds(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build");
    group.throughput(Throughput::Elements(KEYS)).sample_size(10);
    group.bench_function("sort", |bencher| bencher.iter(|| sorted(0..KEYS).len()));
    let numbers = sorted(0..KEYS);
    group.bench_function("write", |bencher| bencher.iter(|| written(&numbers).len()));
    let pages = written(&numbers);
    let data_pages = &pages[..pages.len() - 1];
    group.bench_function("read", |bencher| {
        bencher.iter(|| {
            let mut sum = 0u64;
            data_pages.iter().try_for_each(|page| read_page(&page[..], |span| sum ^= span.start)).unwrap();
            sum
        });
    });
    group.bench_function("read, all numbers", |bencher| {
        let mut found = vec![];
        bencher.iter(|| {
            found.clear();
            data_pages.iter().for_each(|page| _ = append_page(&page[..], &mut found).unwrap());
            found.len()
        });
    });
    let part = KEYS / RUNS;
    let runs: Vec<Vec<u64>> = (0..RUNS).map(|run| sorted(run * part..(run + 1) * part)).collect();
    group.bench_function("merge four, without reading and writing", |bencher| {
        bencher.iter(|| {
            let sources = runs.iter().enumerate().map(|(run, numbers)| MergeSource {
                coding: coding(part),
                first_range: run as u32 * coding(part).ranges(),
                numbers: numbers.iter().copied().map(Ok::<u64, Malformed>),
            });
            let mut sum = 0;
            let to = coding(KEYS + RUNS * KEYS_A_RANGE);
            merge(sources.collect(), to, 0, |numbers| {
                sum ^= numbers.iter().fold(0, |sum, number| sum ^ number);
                Ok(())
            })
            .unwrap();
            sum
        });
    });
    group.finish();
}

fn short() -> Criterion {
    Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2))
}

criterion_group! { name = all; config = short(); targets = lookups, builds }
criterion_main!(all);
