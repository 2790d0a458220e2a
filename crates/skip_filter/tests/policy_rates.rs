//! The false-positive rate of every policy, measured, against what theory expects; and the number of keys that a
//! filter's bits tell, against the truth.
//!
//! Few keys make filters that differ from each other: their rate is the mean over many sets of keys. Every figure comes
//! from so many answers that its statistical error (one standard deviation) is at most some 1 %.

use skip_filter::hash_i64;
use skip_filter::policy::*;
use skip_filter::theoretical_rate;

/// A key of its own for every number: eight bytes.
fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// The rate over filters of `keys` keys each, until there were some `wanted` false positives.
fn measure(shape: Shape, keys: u64, wanted: f64) -> f64 {
    let expected = shape.expected_rate(keys);
    let answers = (wanted / expected).ceil() as u64;
    // As many answers from one filter as it has keys, at least, since making it costs that; but not from few filters.
    let filters = if keys > 10_000 { 1 } else { (answers / (4 * keys)).clamp(20, 50_000) };
    let each = answers.div_ceil(filters);
    let policy = shape.policy();
    let mut number = 0;
    let mut hash = |_| {
        number += 1;
        policy.hash(shape.geometry().seed, &key(number))
    };
    let mut found = 0;
    for _ in 0..filters {
        let mut filter = BloomFilter::new(shape);
        let hashes: Vec<u64> = (0..keys).map(&mut hash).collect();
        filter.insert_hashes(&hashes);
        found += (0..each).map(&mut hash).filter(|&hash| filter.may_contain_hash(hash)).count();
    }
    found as f64 / (filters * each) as f64
}

/// Rates and key counts for which a measurement is compared with theory; the last column is how far a policy that
/// promises nothing may be off.
fn check(policy: &'static dyn FilterPolicy, keys: u64, size: Size, loose: f64) {
    let shape = Shape::for_keys(policy, keys, size, 0).unwrap();
    let (rate, expected) = (measure(shape, keys, 10_000.0), shape.expected_rate(keys));
    let off = rate / expected - 1.0;
    let Geometry { bits, num_probes, .. } = *shape.geometry();
    let textbook = theoretical_rate(bits as f64 / keys as f64, num_probes);
    println!(
        "{:10} {keys:8} keys {size:?}: {bits:9} bits, {num_probes:2} num_probes: {rate:.4e}, expected {expected:.4e} {:+.2} % \
         (textbook {textbook:.4e} {:+.2} %)",
        policy.name(),
        off * 100.0,
        (rate / textbook - 1.0) * 100.0,
    );
    let tolerance = if policy.promises_rate() { 0.05 } else { loose };
    assert!(off.abs() < tolerance, "{} {keys} {size:?}: measured {rate}, expected {expected}", policy.name());
}

fn named(name: &str) -> &'static dyn FilterPolicy {
    by_name(name).unwrap()
}

const COUNTS: [u64; 7] = [10, 33, 100, 1_000, 10_000, 100_000, 1_000_000];

#[test]
fn skip() {
    COUNTS.iter().for_each(|&keys| check(named("skip"), keys, Size::Rate(0.01), 0.0));
    [10, 1_000, 100_000].iter().for_each(|&keys| check(named("skip"), keys, Size::Rate(1e-3), 0.0));
    [10, 1_000, 100_000].iter().for_each(|&keys| check(named("skip"), keys, Size::BitsPerKey(10.0), 0.0));
    check(named("skip"), 10, Size::Rate(0.1), 0.0);
    check(named("skip"), 5_000_000, Size::Rate(0.01), 0.0);
}

#[test]
fn rocksdb() {
    // A filter of ten keys is a line, whatever the size asked for: fewer probes, for a rate that can be measured.
    check(named("rocksdb"), 10, Size::Fixed { bytes: 64, num_probes: 2 }, 0.0);
    COUNTS[1..].iter().for_each(|&keys| check(named("rocksdb"), keys, Size::Rate(0.01), 0.0));
    [1_000, 100_000].iter().for_each(|&keys| check(named("rocksdb"), keys, Size::Rate(1e-3), 0.0));
    check(named("rocksdb"), 5_000_000, Size::BitsPerKey(10.0), 0.0);
}

/// Promises nothing: in small filters pairs of hashes are alike too often.
#[test]
fn clickhouse() {
    for (keys, loose) in [(10, 1.0), (100, 0.2), (1_000, 0.05), (100_000, 0.05), (5_000_000, 0.05)] {
        check(named("clickhouse"), keys, Size::Rate(0.01), loose);
    }
}

/// Promises nothing: besides, numbers that follow each other are hard for its hash.
#[test]
fn leveldb() {
    for keys in [10, 100, 1_000, 100_000, 5_000_000] {
        check(named("leveldb"), keys, Size::BitsPerKey(10.0), 1.0);
    }
}

/// 95 of 100 intervals hold the truth where positions are as good as random, and the estimate is near it everywhere.
#[test]
fn cardinalities() {
    for policy in POLICIES {
        for (keys, capacity) in [(5u64, 100u64), (100, 100), (1_000, 1_000), (3_000, 1_000), (20_000, 10_000)]
        {
            let shape = Shape::for_keys(*policy, capacity, Size::BitsPerKey(10.0), 0).unwrap();
            let (mut inside, mut sum) = (0, 0.0);
            for run in 0..200u64 {
                let mut filter = BloomFilter::new(shape);
                (0..keys).for_each(|i| filter.insert(&hash_i64(3, (run * keys + i) as i64).to_le_bytes()));
                let found = filter.cardinality();
                inside += usize::from((found.low..=found.high).contains(&(keys as f64)));
                sum += found.estimate;
            }
            let mean = sum / 200.0 / keys as f64;
            println!("{} {keys} in {capacity}: {inside} of 200 inside, mean {mean:.4}", policy.name());
            if policy.promises_rate() {
                assert!(inside >= 180, "{} {keys}: {inside} of 200", policy.name());
            }
            assert!((mean - 1.0).abs() < 0.02, "{} {keys}: {mean}", policy.name());
        }
    }
}

/// The rate by the bits that are set now is the rate measured on the same filter.
#[test]
fn rate_by_fill() {
    for name in ["skip", "rocksdb", "clickhouse"] {
        for keys in [500, 1_000, 2_000] {
            let shape = Shape::for_keys(named(name), 1_000, Size::BitsPerKey(10.0), 0).unwrap();
            let mut filter = BloomFilter::new(shape);
            (0..keys).for_each(|i| filter.insert(&key(i)));
            let found = (0..2_000_000).filter(|i| filter.may_contain(&key(1 << 32 | i))).count();
            let (measured, now) = (found as f64 / 2e6, filter.false_positive_rate());
            println!("{name} {keys}: measured {measured:.4e}, by fill {now:.4e}");
            assert!((measured / now - 1.0).abs() < 0.05 + 3.0 / (found as f64).sqrt(), "{name} {keys}");
        }
    }
}
