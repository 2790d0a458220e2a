//! Micro-benchmarks of the filter policies: what a key costs to hash, to add, and to ask for.
//!
//! `small` filters (20,000 keys) stay in the nearest caches, `large` ones (20 million) in none. Lookups are for keys
//! that are there, which make all probes, and for keys that are not. Rates are in keys a second. `asking.rs` compares
//! lookups with those of other crates.
//!
//! Run with `cargo bench -p skip_value`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use skip_filter::policy::*;

/// Keys a step: so many that loops and calls do not count.
const STEP: usize = 4_096;

/// A mix of a number that is as good as a hash, for policies that take them from elsewhere.
fn hash(number: u64) -> u64 {
    let mixed = |number: u64| {
        let number = (number ^ number >> 32).wrapping_mul(0xd134_2543_de82_ef95);
        (number ^ number >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    mixed(number)
}

fn bench_hash(c: &mut Criterion) {
    let mut group = c.benchmark_group("hash of 16 bytes");
    group.throughput(Throughput::Elements(STEP as u64));
    for policy in POLICIES {
        let mut next = 0u128;
        group.bench_function(policy.name(), |b| {
            b.iter(|| {
                next += STEP as u128;
                (0..STEP as u128).fold(0, |sum, i| sum ^ policy.hash(0, &(next + i).to_le_bytes()))
            })
        });
    }
    group.finish();
}

fn bench_filters(c: &mut Criterion) {
    for (size, keys) in [("small", 20_000u64), ("large", 20_000_000)] {
        let mut group = c.benchmark_group(size);
        group.throughput(Throughput::Elements(STEP as u64)).sample_size(20);
        for policy in POLICIES {
            let shape = Shape::for_keys(*policy, keys, Size::BitsPerKey(10.0), 0).unwrap();
            let mut filter = BloomFilter::new(shape);
            let all: Vec<u64> = (0..keys).map(hash).collect();
            let mut steps = all.chunks_exact(STEP).cycle();
            group.bench_function(format!("{}, add", policy.name()), |b| {
                b.iter(|| filter.insert_hashes(steps.next().unwrap()))
            });
            filter.insert_hashes(&all);
            let count = |filter: &BloomFilter, keys: &[u64]| {
                keys.iter().filter(|&&key| filter.may_contain_hash(key)).count()
            };
            group.bench_function(format!("{}, ask, there", policy.name()), |b| {
                b.iter(|| count(&filter, steps.next().unwrap()))
            });
            let absent: Vec<u64> = (0..keys.min(1 << 20)).map(|i| hash(keys + i)).collect();
            let mut steps = absent.chunks_exact(STEP).cycle();
            group.bench_function(format!("{}, ask, not there", policy.name()), |b| {
                b.iter(|| count(&filter, steps.next().unwrap()))
            });
        }
        group.finish();
    }
}

criterion_group!(benches, bench_hash, bench_filters);
criterion_main!(benches);
