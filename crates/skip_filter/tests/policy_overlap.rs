//! How many keys two filters have in common, as their bits tell it, against the truth: 95 of 100 intervals hold it.

use skip_filter::hash_i64;
use skip_filter::policy::*;
use std::ops::RangeInclusive;

/// Pairs of filters for each case.
const PAIRS: u64 = 400;

/// So many of them must hold the truth: 95 %, and three standard deviations of that less. They are rounded outwards, so
/// with few keys it may be all of them.
const ENOUGH: u64 = 366;

/// A filter of these keys, in a world of keys of its own for each run.
fn filter(shape: Shape, run: u64, keys: RangeInclusive<u64>) -> BloomFilter {
    let mut filter = BloomFilter::new(shape);
    keys.for_each(|key| _ = filter.insert_hash(hash_i64(77, (run << 32 | key) as i64)));
    filter
}

/// Counts the intervals that hold the truth: the keys of one filter alone, of the other alone, and of both.
fn check(shape: Shape, alone: u64, others: u64, both: u64) {
    let (mut inside, mut sum, mut width) = (0, 0.0, 0.0);
    for run in 0..PAIRS {
        let one = filter(shape, run, 1..=alone + both);
        let other = filter(shape, run, alone + 1..=alone + both + others);
        let found = one.common(&other).unwrap();
        assert!(found.low <= found.estimate && found.estimate <= found.high, "{found:?}");
        assert_eq!(other.common(&one).unwrap(), found);
        inside += u64::from((found.low..=found.high).contains(&(both as f64)));
        sum += found.estimate;
        width += found.high - found.low;
    }
    let (mean, width) = (sum / PAIRS as f64, width / PAIRS as f64);
    let name = shape.policy().name();
    println!(
        "{name} {} bits, {alone} + {others} + {both}: {inside} inside, mean {mean:.1}, width {width:.1}",
        shape.geometry().bits
    );
    assert!(inside >= ENOUGH, "{name} {alone} {others} {both}: {inside} of {PAIRS}");
    // No interval may be honest by being of no use: the deviation of the mean is below a quarter of the width.
    let off = (mean - both as f64).abs();
    assert!(off <= 0.5 + width / 4.0, "{name} {alone} {others} {both}: mean {mean}, width {width}");
    assert!(width <= 12.0 + 0.5 * (alone + others + both) as f64, "{name} {alone} {others} {both}: {width}");
}

#[test]
fn intervals_hold_the_truth() {
    for name in ["skip", "rocksdb"] {
        let shape =
            |keys, bits| Shape::for_keys(by_name(name).unwrap(), keys, Size::BitsPerKey(bits), 0).unwrap();
        for bits in [10.0, 20.0] {
            for (alone, others, both) in [
                (1_000, 1_000, 0),
                (1_000, 1_000, 1),
                (990, 990, 10),
                (900, 900, 100),
                (500, 500, 500),
                (0, 0, 1_000),
                (0, 900, 100),
                (100, 0, 900),
                (10, 990, 10),
                (0, 1_000, 1),
                (50, 50, 5),
            ] {
                check(shape(1_000, bits), alone, others, both);
            }
        }
        // Few keys; many; filters with three times the keys that they were made for.
        for (alone, others, both) in [(10, 10, 0), (5, 5, 5), (1, 1, 1), (0, 0, 10), (20, 20, 10)] {
            check(shape(20, 10.0), alone, others, both);
        }
        check(shape(20_000, 10.0), 15_000, 15_000, 5_000);
        check(shape(1_000, 10.0), 3_000, 3_000, 0);
        check(shape(1_000, 10.0), 2_500, 2_500, 500);
    }
}

/// The bits of `a & b` say something else.
#[test]
fn filters_without_a_common_key() {
    let shape = Shape::for_keys(by_name("skip").unwrap(), 1_000, Size::Rate(0.01), 0).unwrap();
    let (one, other) = (filter(shape, 1, 1..=1_000), filter(shape, 1, 1_001..=2_000));
    let mut cut = one.clone();
    cut.intersection(&other).unwrap();
    assert!(cut.cardinality().low > 300.0);
    let found = one.common(&other).unwrap();
    assert!(found.low == 0.0 && found.high < 60.0, "{found:?}");
    let wider = Shape::for_keys(by_name("skip").unwrap(), 2_000, Size::Rate(0.01), 0).unwrap();
    assert!(one.common(&BloomFilter::new(wider)).is_err());
}
