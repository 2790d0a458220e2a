//! The false-positive rate that comes out, measured on bit-sliced segments, against theory.
//!
//! Every figure comes from so many answers that its statistical error (one standard deviation) is at most a third
//! of a percent; the tests allow 5 %, and 2 % where the design promises more.

use crate::common::{Segment, VALUES};
use skip_filter::*;
use skip_segment::{FIRST_PROBE_SLICE, SegmentBuilder};

/// Ranges in the segment: so many answers come from one lookup.
const RANGES: u32 = 4_096;

/// What was measured: the rate, and the part of the bits that are set.
struct Measured {
    rate: f64,
    fill: f64,
}

/// Builds a segment of ranges with `keys` keys each, and looks up keys that are in none of them, until there were
/// some 100,000 false positives. `hash` makes key hashes of numbers; the keys looked up are numbers never used before.
fn measure(sizing: Sizing, keys: u64, hash: impl Fn(u64) -> u64) -> Measured {
    let mut builder = SegmentBuilder::new(sizing.filter_bits(keys) as u32, sizing.num_probes);
    for range in 0..u64::from(RANGES) {
        builder.push(VALUES, (range * keys..(range + 1) * keys).map(&hash));
    }
    let segment = Segment::of(&builder, 8_152);
    let expected = theoretical_rate(f64::from(builder.filter_bits()) / keys as f64, sizing.num_probes);
    let lookups = (100_000.0 / expected / f64::from(RANGES)).ceil() as u64;
    let count = |words: Vec<u64>| words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
    let found: u64 = (0..lookups)
        .map(|i| count(segment.matching(hash(u64::from(RANGES) * keys + i), sizing.num_probes)))
        .sum();
    let slices = FIRST_PROBE_SLICE..segment.shape.slices();
    let ones: u64 = slices.map(|slice| count(segment.state(slice))).sum();
    Measured {
        rate: found as f64 / (lookups * u64::from(RANGES)) as f64,
        fill: ones as f64 / f64::from(builder.filter_bits()) / f64::from(RANGES),
    }
}

/// Measures, and compares with theory, which takes the filter's real bits a key.
fn check(sizing: Sizing, keys: u64, tolerance: f64, hash: impl Fn(u64) -> u64) {
    let measured = measure(sizing, keys, hash);
    let bits = sizing.filter_bits(keys) as f64 / keys as f64;
    let theory = theoretical_rate(bits, sizing.num_probes);
    let off = measured.rate / theory - 1.0;
    let by_fill = measured.rate / rate_at_fill(measured.fill, sizing.num_probes) - 1.0;
    println!(
        "{bits:6.2} bits, {:2} probes: {:.4e}, theory {theory:.4e}, {:+.2} %; fill {:.4}, {:+.2} % off fill^k",
        sizing.num_probes,
        measured.rate,
        off * 100.0,
        measured.fill,
        by_fill * 100.0,
    );
    assert!(off.abs() < tolerance, "{sizing:?}: measured {} theory {theory}", measured.rate);
    assert!(by_fill.abs() < tolerance, "{sizing:?}: measured {} fill {}", measured.rate, measured.fill);
}

fn integers(number: u64) -> u64 {
    hash_i64(1, number as i64)
}

#[test]
fn rates_users_ask_for() {
    for rate in [0.1, 0.01, 1e-3, 1e-4] {
        check(Sizing::for_rate(rate).unwrap(), 2_400, 0.05, integers);
    }
}

/// The two of the design.
#[test]
fn optimal_probes() {
    check(Sizing { bits_per_row: 10, num_probes: 7 }, 2_400, 0.02, integers);
    check(Sizing { bits_per_row: 20, num_probes: 13 }, 2_400, 0.02, integers);
}

/// Filters of few keys, where positions have fewer bits to differ in, and odd sizes.
#[test]
fn small_filters() {
    for keys in [333, 1000] {
        check(Sizing { bits_per_row: 10, num_probes: 7 }, keys, 0.05, integers);
        check(Sizing { bits_per_row: 20, num_probes: 13 }, keys, 0.06, integers);
    }
}

/// Strings that differ in a counter only, as identifiers do.
#[test]
fn strings() {
    let hash = |number: u64| hash_bytes(1, format!("device-{number:08}").as_bytes());
    check(Sizing { bits_per_row: 10, num_probes: 7 }, 2_400, 0.02, hash);
}

/// Types whose hash comes from elsewhere may have poor ones: few bits that differ, at either end or in the middle.
/// The probe sequence must make do with them.
#[test]
fn poor_hashes() {
    let sizing = Sizing { bits_per_row: 10, num_probes: 7 };
    for shift in [0, 8, 20, 32, 40] {
        let measured = measure(sizing, 1_000, |number| number << shift);
        println!("hashes that are numbers << {shift}: {:.4e} at fill {:.4}", measured.rate, measured.fill);
        assert!(measured.rate < 1.1 * theoretical_rate(10.0, 7), "<< {shift}: {}", measured.rate);
    }
}
