//! Policy `rocksdb`: RocksDB's cache-line local filter, `FastLocalBloom` of format version 5 and later.
//!
//! Key bytes have one 64-bit hash, [`xxph3`](super::xxph3), a preview of XXH3 that RocksDB has frozen. Its lower half
//! picks a line of 512 bits by multiply-shift; its upper half is multiplied by the golden ratio from probe to probe,
//! and the upper 9 bits of it are the position in the line. So a lookup is one cache miss, however many probes there
//! are (bytes of [`BloomFilter`](super::BloomFilter) start on a cache line for it). Hashes from elsewhere may take the
//! place of the key's, if they are as well mixed; RocksDB would not find these keys.
//!
//! Bits a key are counted in thousandths, from 1 to 100; the number of probes is RocksDB's choice by measurement, which
//! is less than `ln 2` a bit, for keys crowd in some lines. For a rate, the fewest thousandths are taken that are
//! expected to reach it over lines as they are then filled.
//!
//! The encoding is the lines and 5 bytes: 255 (newer than the legacy filters), 0 (this implementation of those), the
//! probes in the lower 5 bits with zeros above (lines of 64 bytes), and two zeros in reserve. Anything else matches,
//! and so do the encodings that RocksDB's reader takes as holding no keys (5 bytes and less), since half a filter must
//! not look like one.

use super::bits::{all, are_set, set_bits};
use super::error::PolicyError;
use super::filter_policy::{FilterPolicy, Lookup};
use super::geometry::{Geometry, Limits};
use super::line::{LINE, LINE_BITS, line, lines, walk};
use super::theory::Layout;
use super::xxph3::xxph3;
use std::cell::Cell;

/// The most bytes of a filter in `filter_policy.cc`, as bits.
const MAX_BITS: u64 = 0xffff_ffc0 * 8;
/// The thousandths of a bit per key that `filter_policy.cc` accepts.
const MILLIBITS: std::ops::RangeInclusive<u32> = 1_000..=100_000;

/// The trailer has five bits for the probes, of which `filter_policy.cc` reserves 31.
const MAX_PROBES: u8 = 30;

/// What stands after the lines; the probes go into the third byte.
const TRAILER: [u8; 5] = [255, 0, 0, 0, 0];

/// `FastLocalBloomImpl::ChooseNumProbes`: the most thousandths of a bit a key for 1, 2, … probes. From 25,501 on there
/// is one more probe for every 2,000.
const PROBES_UP_TO: [u32; 12] =
    [2_080, 3_580, 5_100, 6_640, 8_300, 10_070, 11_720, 14_001, 16_050, 18_300, 22_001, 25_501];

/// See the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub struct RocksDb;

/// RocksDB's number of probes for thousandths of a bit a key.
pub fn rocksdb_probes(millibits: u32) -> u8 {
    if let Some(place) = PROBES_UP_TO.iter().position(|&most| millibits <= most) {
        return place as u8 + 1;
    }
    if millibits > 50_000 { 24 } else { ((millibits - 1) / 2_000 - 1) as u8 }
}

/// RocksDB's thousandths, nudged up so that three decimals mean what they say.
fn millibits(bits_per_key: f64) -> u32 {
    (bits_per_key.clamp(1.0, 100.0) * 1_000.0 + 0.500_001) as u32
}

fn geometry(keys: u64, millibits: u32) -> Geometry {
    let bytes = u128::from(keys) * u128::from(millibits);
    let lines = bytes.div_ceil(8_000).div_ceil(LINE as u128).max(1);
    // RocksDB cuts off at its largest filter. Here that is an error, as it is for every other policy.
    let bits = u64::try_from(lines * u128::from(LINE_BITS)).unwrap_or(u64::MAX);
    Geometry { bits, num_probes: rocksdb_probes(millibits), seed: 0 }
}

/// The rate of a filter large enough that its size does not matter.
fn rate(millibits: u32) -> f64 {
    const KEYS: u64 = 512_000;
    let Geometry { bits, num_probes, .. } = geometry(KEYS, millibits);
    Layout { bits, line_bits: LINE_BITS, num_probes }.expected_rate(KEYS)
}

/// The fewest thousandths of a bit a key that reach a rate, above 0.
fn millibits_for(wanted: f64) -> Result<u32, PolicyError> {
    let (mut low, mut high) = (*MILLIBITS.start(), *MILLIBITS.end());
    let lowest = rate(high);
    if lowest > wanted {
        return Err(PolicyError::RateTooLow { policy: "rocksdb", rate: wanted, lowest });
    }
    while low < high {
        let middle = low.midpoint(high);
        if rate(middle) <= wanted {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(high)
}

impl FilterPolicy for RocksDb {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn stored_name(&self) -> &'static str {
        "rocksdb.BuiltinBloomFilter"
    }

    fn code(&self) -> u8 {
        4
    }

    fn limits(&self) -> Limits {
        Limits {
            min_bits: LINE_BITS,
            max_bits: MAX_BITS,
            bits_step: LINE_BITS,
            max_probes: MAX_PROBES,
            seeded: false,
            hash_bits: 64,
            line_bits: Some(LINE_BITS),
        }
    }

    fn promises_rate(&self) -> bool {
        true
    }

    fn hash(&self, _: u64, key: &[u8]) -> u64 {
        xxph3(key)
    }

    fn for_rate(&self, keys: u64, wanted: f64) -> Result<Geometry, PolicyError> {
        thread_local! {
            /// The rate asked for last and its answer: an aggregate asks for one again and again, and half a
            /// millisecond for each group would be too long.
            static LAST: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
        }
        let (known, millibits) = LAST.get();
        if known == wanted.to_bits() {
            return Ok(geometry(keys, millibits));
        }
        let millibits = millibits_for(wanted)?;
        LAST.set((wanted.to_bits(), millibits));
        Ok(geometry(keys, millibits))
    }

    fn for_bits_per_key(&self, keys: u64, bits_per_key: f64) -> Geometry {
        geometry(keys, millibits(bits_per_key))
    }

    fn set(&self, body: &mut [u8], geometry: &Geometry, key: u64) -> u64 {
        let start = line(key, lines(geometry)) * LINE;
        set_bits(&mut body[start..start + LINE], geometry.num_probes, walk(key))
    }

    fn probe(&self, geometry: &Geometry, key: u64, is_set: &mut dyn FnMut(u64) -> bool) -> bool {
        let start = line(key, lines(geometry)) * LINE * 8;
        let mut next = walk(key);
        all(geometry.num_probes, || start + next(), is_set)
    }

    fn test(&self, body: &[u8], geometry: &Geometry, key: u64) -> bool {
        // The array has a known length, so that no position in it need be checked: a quarter to a half of the time.
        match body.as_chunks::<LINE>().0.get(line(key, lines(geometry))) {
            Some(line) => are_set(line, geometry.num_probes, walk(key)),
            None => true,
        }
    }

    fn lookup(&self, geometry: &Geometry) -> Lookup {
        #[cfg(target_arch = "x86_64")]
        if let Some(lookup) = super::wide::lookups(geometry).next() {
            return lookup;
        }
        Lookup::of::<Self>(geometry)
    }

    fn folded(&self, position: u64, _: &Geometry, by: u64) -> Option<u64> {
        Some(position / LINE_BITS / by * LINE_BITS + position % LINE_BITS)
    }

    fn trailer(&self, geometry: &Geometry) -> Vec<u8> {
        let mut trailer = TRAILER;
        trailer[2] = geometry.num_probes;
        trailer.to_vec()
    }

    fn read(&self, encoded: &[u8], _: Option<Geometry>) -> Result<Geometry, PolicyError> {
        let error = |reason| PolicyError::Encoding { policy: "rocksdb", reason };
        let Some((body, &[marker, implementation, num_probes, reserve @ ..])) =
            encoded.split_last_chunk::<5>()
        else {
            return Err(error("shorter than its trailer"));
        };
        if body.is_empty() || !body.len().is_multiple_of(LINE) {
            return Err(error("the bits are not a multiple of 64 bytes long"));
        }
        if (marker, implementation, reserve) != (TRAILER[0], TRAILER[1], [TRAILER[3], TRAILER[4]]) {
            return Err(error("the trailer is that of a legacy filter, a ribbon filter or a later format"));
        }
        if !(1..=MAX_PROBES).contains(&num_probes) {
            return Err(error("the trailer has an unsupported line length or number of probes"));
        }
        Ok(Geometry { bits: body.len() as u64 * 8, num_probes, seed: 0 })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// The examples in RocksDB's comments and tests.
    #[test]
    fn probes_are_those_rocksdb_chooses() {
        let expected = [
            (1_000, 1),
            (2_000, 1),
            (3_000, 2),
            (5_000, 3),
            (8_000, 5),
            (9_000, 6),
            (10_000, 6),
            (10_499, 7),
            (11_000, 7),
            (14_000, 8),
            (16_000, 9),
            (22_001, 11),
            (25_501, 12),
            (25_502, 11),
            (28_000, 12),
            (28_001, 13),
            (50_000, 23),
            (50_001, 24),
            (100_000, 24),
        ];
        for (millibits, num_probes) in expected {
            assert_eq!(rocksdb_probes(millibits), num_probes, "{millibits}");
        }
        for (bits, expected) in [(0.5, 1_000), (1.234, 1_234), (3.456, 3_456), (9.5, 9_500), (21.345, 21_345)]
        {
            assert_eq!(millibits(bits), expected);
            assert_eq!(millibits((bits + 0.5) / 1_234_567.0 * 1_234_567.0 - 0.5), expected, "{bits}");
        }
        assert_eq!((millibits(99.999), millibits(1_234.0)), (99_999, 100_000));
    }

    #[test]
    fn size_for_a_rate_is_the_least() {
        for wanted in [0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-6] {
            let Geometry { bits, .. } = RocksDb.for_rate(512_000, wanted).unwrap();
            let used = (bits as f64 / 512.0).round() as u32;
            assert!(rate(used) <= wanted && rate(used - 2) > wanted * 0.99, "{wanted}: {used}");
        }
        assert!(matches!(RocksDb.for_rate(1, 1e-15), Err(PolicyError::RateTooLow { .. })));
    }
}
