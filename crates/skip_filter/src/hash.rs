//! Key hashes and probe sequences: the frozen hash scheme.
//!
//! A *key hash* is 64 bits: XXH3 over a canonical little-endian form of the value, under the index's seed. A key
//! hash gives `k` *probes*, positions in `0..m`, by a linear congruential sequence and multiply-shift.
//!
//! Invariant: everything here is part of the on-disk format. The same input gives the same output in every build
//! and on every CPU, or an index would lose rows. A change is a new [`HASH_SCHEME`].
//!
//! # The probe sequence
//!
//! `x = (h ^ h >> 32) * MULTIPLIER; x = x ^ x >> 32`, then for each probe the position `(x * m) >> 64` and a step
//! `x = x * MULTIPLIER + INCREMENT` (mod 2^64). One multiplication a probe to place it and one to move on, no division.
//!
//! What it needs to come near the textbook rate, which assumes independent probes:
//!
//! - Two keys that share one position must share others only by chance. Let `d` be the difference of their
//!   states; it moves on as `d * MULTIPLIER^i`, whatever the increment. Sharing a position means that `d` is
//!   small, so what counts is that multiples of small numbers are spread well: the spectral test. The multiplier
//!   is from Steele and Vigna, "Computationally easy, spectrally good multipliers for congruential pseudorandom
//!   number generators" (2021), for 64 bits.
//! - No short cycle: a multiplier that is 1 mod 4 with an odd increment has the full period of 2^64. (Without the
//!   increment, zero would stay zero and states with many factors of two would go round short cycles.)
//! - The state must not be the hash as it came: a type's own hash function may be a poor one. Folding its upper half
//!   into its lower makes hashes count that differ only in upper bits. The second fold, of a product, breaks lines:
//!   without it, hashes that are consecutive numbers lay so evenly that the rate was a quarter above theory.
//!
//! `tests/rate.rs` measures the outcome: within a percent of theory from 0.1 to below 1e-4.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Version of everything in this module. It stands in an index's meta page.
pub const HASH_SCHEME: u16 = 1;

/// See the module's text. 5 mod 8.
const MULTIPLIER: u64 = 0xd134_2543_de82_ef95;

/// Any odd number will do; this one is 2^64 divided by the golden ratio.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// The one NaN that stands for all: quiet, positive, no payload.
const CANONICAL_NAN: u64 = 0x7ff8_0000_0000_0000;

/// The key hash of a string of bytes: XXH3-64 under `seed`.
#[inline]
pub fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// The key hash of an integer: that of its 8 little-endian bytes. Narrower integers are widened first, so that
/// equal numbers of different widths hash equal.
#[inline]
pub fn hash_i64(seed: u64, value: i64) -> u64 {
    hash_bytes(seed, &value.to_le_bytes())
}

/// The key hash of a float: that of its 8 little-endian bytes, after -0 became 0 and every NaN the same NaN,
/// because SQL's `=` takes these as equal.
#[inline]
pub fn hash_f64(seed: u64, value: f64) -> u64 {
    hash_bytes(seed, &canonical_f64(value))
}

/// The 8 bytes that stand for a float: see [`hash_f64`].
#[inline]
pub fn canonical_f64(value: f64) -> [u8; 8] {
    let bits = if value.is_nan() {
        CANONICAL_NAN
    } else if value == 0.0 {
        0
    } else {
        value.to_bits()
    };
    bits.to_le_bytes()
}

/// Checksum of a page or any other bytes: XXH3-64 under `seed`.
#[inline]
pub fn checksum(bytes: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}

/// The state a key's probes start with.
#[inline]
pub(crate) fn first_state(hash: u64) -> u64 {
    let state = (hash ^ hash >> 32).wrapping_mul(MULTIPLIER);
    state ^ state >> 32
}

/// The state after this one.
#[inline]
pub(crate) fn next_state(state: u64) -> u64 {
    state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT)
}

/// The position that a state stands for in a filter of `filter_bits` bits.
#[inline]
pub(crate) fn position(state: u64, filter_bits: u32) -> u32 {
    ((u128::from(state) * u128::from(filter_bits)) >> 64) as u32
}

/// The positions of one key in a filter, in probe order. They need not differ from each other.
#[derive(Clone, Debug)]
pub struct Probes {
    state: u64,
    filter_bits: u32,
    left: u8,
}

/// The `num_probes` positions, each in `0..filter_bits`, of a key in a filter. A filter of no bits gives zeros.
#[inline]
pub fn probes(hash: u64, filter_bits: u32, num_probes: u8) -> Probes {
    Probes { state: first_state(hash), filter_bits, left: num_probes }
}

impl Iterator for Probes {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let state = self.state;
        self.state = next_state(state);
        Some(position(state, self.filter_bits))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for Probes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_that_are_equal_hash_equal() {
        assert_eq!(hash_f64(7, -0.0), hash_f64(7, 0.0));
        let nans = [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001), f64::from_bits(u64::MAX)];
        for nan in nans {
            assert_eq!(hash_f64(7, nan), hash_f64(7, f64::NAN));
        }
        assert_ne!(hash_f64(7, f64::INFINITY), hash_f64(7, f64::NAN));
        assert_ne!(hash_f64(7, 1.0), hash_f64(7, -1.0));
        assert_ne!(hash_f64(7, f64::from_bits(1)), hash_f64(7, 0.0));
    }

    #[test]
    fn integers_are_their_bytes() {
        assert_eq!(hash_i64(3, -2), hash_bytes(3, &[0xfe, 255, 255, 255, 255, 255, 255, 255]));
        assert_ne!(hash_i64(3, 1), hash_i64(4, 1));
    }

    #[test]
    fn probes_stay_within_the_filter() {
        for filter_bits in [0, 1, 2, 63, 64, 65, 24_000, u32::MAX] {
            for hash in [0, 1, u64::MAX, 1 << 32, 1 << 63, 0x0123_4567_89ab_cdef] {
                let found: Vec<u32> = probes(hash, filter_bits, 64).collect();
                assert_eq!(found.len(), 64);
                assert!(found.iter().all(|&position| position < filter_bits.max(1)));
            }
        }
        assert_eq!(probes(1, 64, 0).next(), None);
        assert_eq!(probes(1, 64, 9).len(), 9);
    }

    #[test]
    fn constants_give_the_full_period() {
        assert_eq!(MULTIPLIER % 8, 5);
        assert_eq!(INCREMENT % 2, 1);
    }
}
