//! Micro-benchmarks of the filter policies: what a key costs to hash, to add, and to ask for.
//!
//! `small` filters (20,000 keys) stay in the nearest caches, `large` ones (20 million) in none. Lookups are for keys
//! that are there, which make all probes, and for keys that are not. Rates are in keys a second.
//!
//! The group `6 MB` compares asking a stored filter, as SQL does it, with the crates `fastbloom` (a plain filter, with
//! the number of probes that it chooses) and `sbbf-rs` (split blocks, as in Parquet), all with ten bits a key and from
//! hashes. `next`: each key waits for the answer about the one before, as rows of a query nearly do; else, the CPU may
//! ask for several at a time.
//!
//! Run with `cargo bench -p skip_value`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use skip_filter::policy::*;
use skip_value::{KeyType, Keys, Outline, Value, empty};
use std::hint::black_box;

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

/// Keys of the filters of 6 MB, and how they are asked.
const KEYS: u64 = 5_000_000;

fn bench_asking(c: &mut Criterion) {
    let all: Vec<u64> = (0..KEYS).map(hash).collect();
    let absent: Vec<u64> = (0..1 << 20).map(|i| hash(KEYS + i)).collect();
    let keys = [("there", &all[..1 << 20]), ("not there", &absent)];
    for policy in POLICIES {
        let shape = Shape::for_keys(*policy, KEYS, Size::BitsPerKey(10.0), 0).unwrap();
        let kind = Keys { policy: *policy, seed: 0, key_type: KeyType::BuiltIn(20), collation: None };
        let mut bytes = empty(&kind, &[shape]);
        let mut value = Value::decode_mut(&mut bytes).unwrap();
        all.iter().for_each(|&key| value.insert_hash(key));
        let outline = Outline::read(&bytes, bytes.len() as u64).unwrap();
        ask(c, policy.name(), &keys, |key| outline.is_of(&bytes) && outline.may_contain_hash(&bytes, key));
    }
    let mut fast = fastbloom::BloomFilter::with_num_bits(KEYS as usize * 10).expected_items(KEYS as usize);
    all.iter().for_each(|&key| _ = fast.insert_hash(key));
    ask(c, "fastbloom", &keys, |key| fast.contains_hash(key));
    let mut blocks = sbbf_rs_safe::Filter::new(10, KEYS as usize);
    all.iter().for_each(|&key| _ = blocks.insert_hash(key));
    ask(c, "sbbf-rs", &keys, |key| blocks.contains_hash(key));
}

/// Asks for keys one by one, and each after the one before.
fn ask(c: &mut Criterion, name: &str, keys: &[(&str, &[u64]); 2], contains: impl Fn(u64) -> bool) {
    let mut group = c.benchmark_group("6 MB");
    group.throughput(Throughput::Elements(STEP as u64)).sample_size(20);
    for (which, keys) in keys {
        let mut steps = keys.chunks_exact(STEP).cycle();
        group.bench_function(format!("{name}, {which}"), |b| {
            b.iter(|| steps.next().unwrap().iter().filter(|&&key| contains(key)).count())
        });
        let nothing = black_box(0);
        group.bench_function(format!("{name}, {which}, next"), |b| {
            b.iter(|| {
                let step = steps.next().unwrap();
                step.iter().fold(0, |last, &key| u64::from(contains(key ^ last & nothing)))
            })
        });
    }
    group.finish();
}

criterion_group!(benches, bench_hash, bench_filters, bench_asking);
criterion_main!(benches);
