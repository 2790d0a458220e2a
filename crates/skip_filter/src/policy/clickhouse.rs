//! Policy `clickhouse`: the filters of ClickHouse's `ngrambf_v1`, `tokenbf_v1` and `sparse_grams` indexes, the class
//! `BloomFilter(filter_size, filter_hashes, seed)`.
//!
//! Key bytes have two hashes, [CityHash64 of version 1.0.2](super::city) under the seed and under
//! `845897321 · seed + 217728422`. Both follow from the CityHash64 without a seed, so that is the key hash. Probe `i`
//! is `(h1 + i · h2 + i²) mod 8 · filter_size`, the sum modulo 2^64. Bits lie in 64-bit little-endian words.
//!
//! The class has add, find, is_empty and contains; these are `insert`, `may_contain`, `is_empty` and `covers` of
//! [`BloomFilter`](super::BloomFilter). In memory it has whole words; its index files hold the first `filter_size`
//! bytes of them (`MergeTreeIndexBloomFilterText.cpp`). That is the encoding: what it gives, and either what it reads.
//! `filter_size`, `filter_hashes` and `seed` stand in the table's definition, and must come from elsewhere
//! ([`Size::Fixed`](super::Size::Fixed)).
//!
//! For a rate, bits and probes are those of [`Sizing::for_rate`], after ClickHouse's `calculationBestPractices`, in
//! whole words. (The index type `bloom_filter` takes these, too, but hashes in another way, over hashes of ClickHouse's
//! types.)
//!
//! From 1,000 keys on the rate is the expected one. In small filters pairs of hashes are alike too often (ten keys at 1
//! % have 1.7 times the expected rate), so nothing is [promised](FilterPolicy::promises_rate).

use super::bits::{all, are_set, set_bits};
use super::city::{city64, with_seed};
use super::error::PolicyError;
use super::filter_policy::{BodyTest, FilterPolicy, Lookup, Prepared};
use super::geometry::{Geometry, Limits};
use super::sizing::{bits_for, whole_probes};
use crate::params::Sizing;

/// `SEED_GEN_A` and `SEED_GEN_B` of ClickHouse: the second hash's seed from the first's.
const SECOND_SEED: (u64, u64) = (845_897_321, 217_728_422);

/// Its `MAX_BLOOM_FILTER_SIZE`, in bits.
const MAX_BITS: u64 = 8 << 30;

/// See the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClickHouse;

/// A number that many others are divided by.
///
/// One division for a key instead of one for each probe, or for a filter instead of one for each key.
#[derive(Clone, Copy)]
struct Modulus {
    modulus: u64,
    /// 2^64 - 1 divided by it.
    reciprocal: u64,
}

impl Modulus {
    fn new(modulus: u64) -> Self {
        Self { modulus, reciprocal: u64::MAX / modulus }
    }

    /// The rest of a division. The product of number and reciprocal is less than a 2^64-th of the number below the
    /// true quotient times 2^64, so the quotient is right or one too small.
    #[inline(always)]
    fn rest(&self, number: u64) -> u64 {
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = number - quotient * self.modulus;
        rest.min(rest.wrapping_sub(self.modulus)) // below the modulus, the difference wraps to a large number
    }
}

/// The positions of a key.
#[inline(always)]
fn walk(key: u64, seed: u64, bits: Modulus) -> impl FnMut() -> usize {
    let first = with_seed(key, seed);
    let second = with_seed(key, SECOND_SEED.0.wrapping_mul(seed).wrapping_add(SECOND_SEED.1));
    let mut i = 0u64;
    move || {
        let sum = first.wrapping_add(second.wrapping_mul(i)).wrapping_add(i * i);
        i += 1;
        bits.rest(sum) as usize
    }
}

impl FilterPolicy for ClickHouse {
    fn name(&self) -> &'static str {
        "clickhouse"
    }

    fn code(&self) -> u8 {
        3
    }

    fn limits(&self) -> Limits {
        Limits {
            min_bits: 8,
            max_bits: MAX_BITS,
            bits_step: 8,
            max_probes: u8::MAX,
            seeded: true,
            hash_bits: 64,
            line_bits: None,
        }
    }

    fn promises_rate(&self) -> bool {
        false
    }

    /// Without the seed, which both hashes are made with.
    fn hash(&self, _: u64, key: &[u8]) -> u64 {
        city64(key)
    }

    fn for_rate(&self, keys: u64, rate: f64) -> Result<Geometry, PolicyError> {
        let sizing = Sizing::for_rate(rate).ok_or(PolicyError::Rate(rate))?;
        Ok(Geometry { bits: sizing.filter_bits(keys), num_probes: sizing.num_probes, seed: 0 })
    }

    fn for_bits_per_key(&self, keys: u64, bits_per_key: f64) -> Geometry {
        let bits = bits_for(keys, bits_per_key, 64).checked_next_multiple_of(64).unwrap_or(u64::MAX);
        Geometry { bits, num_probes: whole_probes(bits_per_key, u8::MAX), seed: 0 }
    }

    /// Whole words, although probes may end before.
    fn body_bytes(&self, bits: u64) -> u64 {
        bits.div_ceil(64) * 8
    }

    fn stored_bytes(&self, bits: u64) -> u64 {
        bits / 8
    }

    fn set(&self, body: &mut [u8], geometry: &Geometry, key: u64) -> u64 {
        set_bits(body, geometry.num_probes, walk(key, geometry.seed, Modulus::new(geometry.bits)))
    }

    fn probe(&self, geometry: &Geometry, key: u64, is_set: &mut dyn FnMut(u64) -> bool) -> bool {
        all(geometry.num_probes, walk(key, geometry.seed, Modulus::new(geometry.bits)), is_set)
    }

    fn test(&self, body: &[u8], geometry: &Geometry, key: u64) -> bool {
        are_set(body, geometry.num_probes, walk(key, geometry.seed, Modulus::new(geometry.bits)))
    }

    fn lookup(&self, geometry: &Geometry) -> Lookup {
        let test: BodyTest = |body, prepared, key| {
            let Prepared { geometry: Geometry { bits, num_probes, seed }, number, .. } = *prepared;
            are_set(body, num_probes, walk(key, seed, Modulus { modulus: bits, reciprocal: number }))
        };
        let number = Modulus::new(geometry.bits).reciprocal;
        Lookup::new(test, Prepared { geometry: *geometry, number, factors: [0; 8] })
    }

    fn folded(&self, position: u64, geometry: &Geometry, by: u64) -> Option<u64> {
        Some(position % (geometry.bits / by))
    }

    fn trailer(&self, _: &Geometry) -> Vec<u8> {
        vec![]
    }

    fn read(&self, encoded: &[u8], given: Option<Geometry>) -> Result<Geometry, PolicyError> {
        let error = |reason| PolicyError::Encoding { policy: "clickhouse", reason };
        let given = given.ok_or(PolicyError::SizeNotGiven { policy: "clickhouse" })?;
        let lengths = [self.stored_bytes(given.bits), self.body_bytes(given.bits)];
        if !lengths.contains(&(encoded.len() as u64)) {
            return Err(error("the length does not match the given size"));
        }
        let spare = &encoded[(given.bits / 8) as usize..];
        if spare.iter().any(|&byte| byte != 0) {
            return Err(error("bits are set beyond its size"));
        }
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rests_are_those_of_divisions(number: u64, quotient: u64, modulus in 1..=MAX_BITS) {
            let near = (quotient % (u64::MAX / modulus)) * modulus;
            let numbers = [number, near, near.wrapping_sub(1), near + modulus - 1, u64::MAX, u64::MAX - 1, 0];
            for modulus in [modulus, modulus.next_power_of_two(), modulus % 100 + 1] {
                for number in numbers {
                    prop_assert_eq!(Modulus::new(modulus).rest(number), number % modulus);
                }
            }
        }
    }
}
