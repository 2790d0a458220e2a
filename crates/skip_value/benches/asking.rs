//! Lookups in a stored filter of 6 MB, against the crates `fastbloom` and `sbbf-rs`: a table of
//! docs/bloom-benchmarks.md.
//!
//! `fastbloom` has plain filters, `sbbf-rs` split blocks of 32 bytes, as in Parquet. All filters have ten bits a key
//! and the same keys, and are asked for hashes. A round measures all contenders one after the other, so that a
//! disturbance of the machine meets all of them, and asks each for other keys before, so that its filter is in the
//! caches. Reported are medians over the rounds with the first and third quartile, and the medians of the ratios within
//! a round.
//!
//! *Back to back*: the CPU may look up several keys at a time. *One by one*: the key to look up depends on the answer
//! of the lookup before.
//!
//! Run with `cargo bench -p skip_value --bench asking`. ROUNDS=… for other than 15 rounds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use skip_filter::policy::{POLICIES, Shape, Size};
use skip_value::{KeptValue, KeyType, Keys, StoredFilter, empty};
use std::hint::black_box;
use std::time::Instant;

/// Keys of the filters.
const KEYS: u64 = 5_000_000;

/// Lookups in one measurement.
const ASKED: usize = 1 << 19;

/// A lookup of many keys, in one of the two ways.
type Ask = Box<dyn Fn(&[u64], bool) -> u64>;

/// A mix of a number that is as good as a hash.
fn hash(number: u64) -> u64 {
    let number = (number ^ number >> 32).wrapping_mul(0xd134_2543_de82_ef95);
    let number = (number ^ number >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number ^ number >> 32
}

/// The lookups of a filter.
fn ask(contains: impl Fn(u64) -> bool + 'static) -> Ask {
    let nothing = black_box(0);
    Box::new(move |keys, one_by_one| {
        if one_by_one {
            let step = |(last, sum), &key| {
                let found = u64::from(contains(key ^ last & nothing));
                (found, sum + found)
            };
            keys.iter().fold((0, 0), step).1
        } else {
            keys.iter().map(|&key| u64::from(contains(key))).sum()
        }
    })
}

/// The filters: name, lookups.
fn contenders(all: &[u64]) -> Vec<(&'static str, Ask)> {
    let mut made: Vec<(&'static str, Ask)> = Vec::new();
    for policy in POLICIES {
        let shape = Shape::for_keys(*policy, KEYS, Size::BitsPerKey(10.0), 0).unwrap();
        let kind = Keys { policy: *policy, seed: 0, key_type: KeyType::BuiltIn(20), collation: None };
        let mut bytes = empty(&kind, &[shape]);
        let mut value = StoredFilter::decode_mut(&mut bytes).unwrap();
        all.iter().for_each(|&key| value.insert_hash(key));
        let kept = KeptValue::copy(&bytes).unwrap();
        let contains = move |key| kept.may_contain_hash(key);
        made.push((policy.name(), ask(contains)));
    }
    let mut plain = fastbloom::BloomFilter::with_num_bits(KEYS as usize * 10).expected_items(KEYS as usize);
    all.iter().for_each(|&key| _ = plain.insert_hash(key));
    made.push(("fastbloom", ask(move |key| plain.contains_hash(key))));
    let mut blocks = sbbf_rs_safe::Filter::new(10, KEYS as usize);
    all.iter().for_each(|&key| _ = blocks.insert_hash(key));
    made.push(("sbbf-rs", ask(move |key| blocks.contains_hash(key))));
    made
}

/// The first quartile, the median and the third quartile.
fn quartiles(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| numbers[(numbers.len() - 1) * quarter / 4])
}

fn main() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(15);
    let all: Vec<u64> = (0..KEYS).map(hash).collect();
    let absent: Vec<u64> = (0..KEYS).map(|i| hash(KEYS + i)).collect();
    let contenders = contenders(&all);
    println!(
        "| policy or crate | keys | lookups | ns a key: median (quartiles) | times fastbloom | times sbbf-rs |"
    );
    println!("|---|---|---|---|---|---|");
    for (which, keys) in [("present", &all), ("absent", &absent)] {
        for (way, one_by_one) in [("back to back", false), ("one by one", true)] {
            let mut times = vec![Vec::new(); contenders.len()];
            for round in 0..rounds {
                let from = (round * ASKED) % (KEYS as usize - ASKED);
                for ((_, ask), times) in contenders.iter().zip(&mut times) {
                    let others = (from + ASKED) % (KEYS as usize - ASKED);
                    black_box(ask(&keys[others..others + ASKED], one_by_one)); // the filter comes into the caches
                    let began = Instant::now();
                    black_box(ask(black_box(&keys[from..from + ASKED]), one_by_one));
                    times.push(began.elapsed().as_secs_f64() * 1e9 / ASKED as f64);
                }
            }
            let place = |name| contenders.iter().position(|contender| contender.0 == name).unwrap();
            for ((name, _), own) in contenders.iter().zip(&times) {
                let [low, median, high] = quartiles(own.clone());
                let ratio = |peer| {
                    let ratios = own.iter().zip(&times[place(peer)]).map(|(own, peer)| own / peer);
                    quartiles(ratios.collect())[1]
                };
                let (plain, blocks) = (ratio("fastbloom"), ratio("sbbf-rs"));
                println!(
                    "| {name} | {which} | {way} | {median:.1} ({low:.1} to {high:.1}) | {plain:.2} | {blocks:.2} |"
                );
            }
        }
    }
}
