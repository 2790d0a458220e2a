//! Micro-benchmarks of collecting exact hashes, in keys a second: one large group, one whose keys come again and again,
//! and many small groups.
//!
//! Run with `cargo bench -p skip_value --bench collect`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use allocator_api2::alloc::Global;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use skip_filter::hash_i64;
use skip_filter::policy::{Size, by_name};
use skip_value::collect::{Collector, CollectorOptions};

/// Keys of a group, how many of them are distinct, and groups.
const CASES: [(&str, u64, u64, u64); 4] = [
    ("1,000,000 keys", 1_000_000, 1_000_000, 1),
    ("1,000,000 keys, 100,000 distinct", 1_000_000, 100_000, 1),
    ("1,000 groups of 1,000 keys", 1_000, 1_000, 1_000),
    ("100,000 groups of 10 keys", 10, 10, 100_000),
];

fn bench_collect(c: &mut Criterion) {
    let policy = by_name("skip").unwrap();
    let secret = 0x0123_4567_89ab_cdef;
    let size = Size::Rate(0.01);
    let options = CollectorOptions {
        policy,
        size,
        seed: 0,
        expected: None,
        bound: 1 << 30,
        guess: 0,
        is_partial: false,
        secret,
    };
    let mut group = c.benchmark_group("collect");
    group.sample_size(20);
    for (name, keys, distinct, groups) in CASES {
        let hashes: Vec<u64> =
            (0..keys * groups).map(|i| hash_i64(7, (i / keys * distinct + i % distinct) as i64)).collect();
        group.throughput(Throughput::Elements(keys * groups));
        group.bench_function(name, |b| {
            b.iter(|| {
                let collect = |hashes: &[u64]| {
                    let mut state = Collector::new_in(&options, Global);
                    hashes.iter().for_each(|&hash| state.insert(hash, &Global).unwrap());
                    state
                };
                hashes.chunks(keys as usize).map(collect).collect::<Vec<_>>()
            })
        });
    }
    group.finish();
}

criterion_group!(benches, bench_collect);
criterion_main!(benches);
