//! Micro-benchmarks of the two hot paths: building filters, and asking all ranges about one key.
//!
//! `build/*` is in elements a second, an element being a key: hash, exact distinct set, filter, transposition.
//! `lookup/*` is for one key over all 8,384 ranges of a segment (a table of 20 million keys). The others are the
//! parts and the neighbours of these: `part/*`.
//!
//! Run with `cargo bench -p skip_segment`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use skip_filter::*;
use skip_segment::*;

/// Keys in a block range: 32 pages of a table of some 75 rows a page.
const KEYS: u64 = 2_400;
/// Ranges of a table of 20 million keys.
const RANGES: u64 = 8_384;
/// Payload of an 8 kB page.
const PAGE: u32 = 8_152;
/// The sizings of the design's figures.
const SIZINGS: [Sizing; 2] =
    [Sizing { bits_per_row: 10, num_probes: 7 }, Sizing { bits_per_row: 20, num_probes: 13 }];

const VALUES: RangeState = RangeState { open: false, nulls: false, values: true };

fn name(sizing: Sizing) -> String {
    format!("{} bits, {} probes", sizing.bits_per_row, sizing.num_probes)
}

/// Goes on with `ranges` ranges of keys from `first` on, as a build does.
fn build(builder: &mut SegmentBuilder, distinct: &mut DistinctHashes, first: u64, ranges: u64) {
    for range in 0..ranges {
        distinct.clear();
        for key in 0..KEYS {
            distinct.insert(hash_i64(7, (first + range * KEYS + key) as i64));
        }
        builder.push(VALUES, distinct.iter());
    }
}

fn bench_build(c: &mut Criterion) {
    let mut group = c.benchmark_group("build");
    for sizing in SIZINGS {
        let filter_bits = sizing.filter_bits(KEYS) as u32;
        let mut distinct = DistinctHashes::new();
        let mut first = 0;
        group.throughput(Throughput::Elements(64 * KEYS));
        group.bench_function(name(sizing), |b| {
            b.iter(|| {
                let mut builder = SegmentBuilder::new(filter_bits, sizing.num_probes);
                build(&mut builder, &mut distinct, first, 64);
                first += 64 * KEYS;
                builder
            })
        });
    }
    group.finish();
}

fn bench_parts(c: &mut Criterion) {
    let mut group = c.benchmark_group("part");
    let mut distinct = DistinctHashes::new();
    let mut first = 0;
    group.throughput(Throughput::Elements(KEYS));
    group.bench_function("hash", |b| {
        b.iter(|| {
            first += KEYS;
            (0..KEYS).fold(0, |sum, key| sum ^ hash_i64(7, (first + key) as i64))
        })
    });
    group.bench_function("hash of 16 bytes", |b| {
        b.iter(|| {
            first += KEYS;
            (0..KEYS).fold(0, |sum, key| sum ^ hash_bytes(7, &u128::from(first + key).to_le_bytes()))
        })
    });
    group.bench_function("hash, distinct", |b| {
        b.iter(|| {
            first += KEYS;
            distinct.clear();
            for key in 0..KEYS {
                distinct.insert(hash_i64(7, (first + key) as i64));
            }
            distinct.len()
        })
    });
    for sizing in SIZINGS {
        let mut filter = Filter::new(sizing.filter_bits(KEYS) as u32, sizing.num_probes);
        group.bench_function(format!("filter, {}", name(sizing)), |b| {
            b.iter(|| {
                filter.clear();
                filter.insert_all(distinct.iter());
            })
        });
    }
    group.throughput(Throughput::Elements(1));
    let mut block: [u64; 64] = std::array::from_fn(|row| hash_i64(1, row as i64));
    group.bench_function("transpose64", |b| b.iter(|| transpose64(black_box(&mut block))));
    group.finish();
}

/// All pages of a segment, one after another.
fn pages(builder: &SegmentBuilder) -> (SegmentShape, Vec<u8>) {
    let shape = builder.shape(PAGE).unwrap();
    let mut bytes = vec![0; shape.pages() as usize * PAGE as usize];
    for (page, out) in bytes.chunks_exact_mut(PAGE as usize).enumerate() {
        builder.write_page(&shape, page as u32, out);
    }
    (shape, bytes)
}

fn slice<'a>(shape: &SegmentShape, bytes: &'a [u8], slice: u32) -> &'a [u8] {
    let (page, offset) = shape.locate(slice);
    &bytes[page as usize * PAGE as usize + offset as usize..][..shape.stride() as usize]
}

fn bench_lookup(c: &mut Criterion) {
    let mut group = c.benchmark_group("lookup");
    for sizing in SIZINGS {
        let mut builder = SegmentBuilder::new(sizing.filter_bits(KEYS) as u32, sizing.num_probes);
        build(&mut builder, &mut DistinctHashes::new(), 0, RANGES);
        let (shape, bytes) = pages(&builder);
        let mut acc = vec![0u64; shape.words()];
        let mut key = 0;
        group.bench_function(name(sizing), |b| {
            b.iter(|| {
                key -= 1; // never inserted
                acc.fill(u64::MAX);
                for position in probes(hash_i64(7, key), shape.filter_bits(), sizing.num_probes) {
                    if !and_slice(&mut acc, slice(&shape, &bytes, FIRST_PROBE_SLICE + position)) {
                        break;
                    }
                }
                acc.iter().map(|word| word.count_ones()).sum::<u32>()
            })
        });
        let mut out = vec![0; PAGE as usize];
        let mut page = 0;
        group.bench_function(format!("write_page, {}", name(sizing)), |b| {
            b.iter(|| {
                page = (page + 1) % shape.pages();
                builder.write_page(&shape, page, &mut out);
            })
        });
    }
    group.finish();
}

/// A batch so small that it does not fill a group: what summarizing a growing table makes.
fn bench_narrow(c: &mut Criterion) {
    let mut group = c.benchmark_group("narrow");
    let sizing = SIZINGS[0];
    for width in [1, 4, 16, 40] {
        let mut distinct = DistinctHashes::new();
        let mut first = 0;
        group.throughput(Throughput::Elements(width * KEYS));
        group.bench_function(format!("build and write {width}"), |b| {
            b.iter(|| {
                let mut builder = SegmentBuilder::new(sizing.filter_bits(KEYS) as u32, sizing.num_probes);
                build(&mut builder, &mut distinct, first, width);
                first += width * KEYS;
                pages(&builder)
            })
        });
    }
    group.finish();
}

fn bench_merge(c: &mut Criterion) {
    let mut group = c.benchmark_group("merge");
    let src: Vec<u8> = (0..1024).map(|i| hash_i64(3, i) as u8).collect();
    let mut dst = vec![0; 1024];
    for (what, dst_bit, src_bit) in [("aligned", 64, 0), ("by bytes", 8, 24), ("by bits", 5, 0)] {
        group.bench_function(format!("copy_bits 960 bytes, {what}"), |b| {
            b.iter(|| copy_bits(black_box(&mut dst), dst_bit, black_box(&src), src_bit, 960 * 8))
        });
    }
    group.bench_function("copy_bits 8 bits, by bits", |b| {
        b.iter(|| copy_bits(black_box(&mut dst), 13, black_box(&src), 8, 8))
    });
    group.finish();
}

criterion_group!(benches, bench_build, bench_parts, bench_lookup, bench_narrow, bench_merge);
criterion_main!(benches);
