//! Policy `leveldb`: the filters of LevelDB's `NewBloomFilterPolicy`, `leveldb.BuiltinBloomFilter2` in its tables.
//!
//! Key bytes have a 32-bit hash of LevelDB's own, like Murmur's; its 32 bits are all that the filter sees. They are the
//! lower half of the key hash. The upper half is one of XXH3, for counting only: LevelDB sizes a filter by its keys,
//! and of 100,000 keys two are likely to share LevelDB's hash. Counted by that, the filter would be a byte shorter than
//! LevelDB's, with all positions different. Both halves together count as well as 64 bits of one hash, unless somebody
//! makes keys that share the lower half on purpose, and take no more memory. Probe `i` is `(h + i · d) mod m`, all of
//! it in 32 bits, with `h` LevelDB's hash and `d` the same rotated right by 17. There is no seed. A filter is `m` bits,
//! at least 64 and whole bytes, and one byte with the number of probes; more than 30 are LevelDB's reserve for
//! encodings to come, and match.
//!
//! No rate is promised. For millions of keys the hash is short (with 5 million, 0.1 % of absent keys share one), double
//! hashing fails small filters, and numbers that follow each other are hard for the hash: `tests/policy_rates.rs`
//! measures up to 1.7 times the expected rate. LevelDB has whole bits a key only; the formulas below take a fraction as
//! it is, which readers cannot tell.
//!
//! Compared with a filter made by LevelDB itself: repeated keys count once here, twice there. An encoding of less than
//! 9 bytes is none that LevelDB makes: it matches here, where LevelDB's reader answers no below 2.

use super::bits::{all, are_set, set_bits};
use super::error::PolicyError;
use super::filter_policy::{FilterPolicy, Lookup};
use super::geometry::{Geometry, Limits};
use super::load::u32_at;
use super::sizing::{bits_for, optimal_bits_per_key};
use crate::hash::hash_bytes;

/// The seed of the hash in `util/bloom.cc`.
const SEED: u32 = 0xbc9f_1d34;
/// The smallest filter of `util/bloom.cc`: "for small n, we can see a very high false positive rate".
const MIN_BITS: u64 = 64;
/// ln 2 as `util/bloom.cc` writes it.
const PROBES_PER_BIT: f64 = 0.69;
/// The most probes that `util/bloom.cc` makes.
const MAX_PROBES: u8 = 30;

/// A position is a 32-bit number modulo the number of bits: more of them would never be set.
const MAX_BITS: u64 = 1 << 32;

/// The half of a key hash that [`hash_bytes`] sets.
const UPPER_HALF: u64 = !(u32::MAX as u64);

/// The multiplier `m` of `util/hash.cc`.
const MULTIPLIER: u32 = 0xc6a4_a793;

/// See the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub struct LevelDb;

/// LevelDB's hash of bytes, `Hash` in `util/hash.cc`.
pub fn leveldb_hash(bytes: &[u8], seed: u32) -> u32 {
    let mut hash = seed ^ (bytes.len() as u32).wrapping_mul(MULTIPLIER);
    let whole = bytes.len() & !3;
    for at in (0..whole).step_by(4) {
        hash = hash.wrapping_add(u32_at(bytes, at)).wrapping_mul(MULTIPLIER);
        hash ^= hash >> 16;
    }
    let rest = &bytes[whole..];
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        hash = hash.wrapping_add(word).wrapping_mul(MULTIPLIER);
        hash ^= hash >> 24;
    }
    hash
}

/// Gives the positions of a key.
fn walk(key: u64, geometry: &Geometry) -> impl FnMut() -> usize {
    let (mut hash, bits) = (key as u32, geometry.bits);
    let step = hash.rotate_right(17);
    move || {
        let position = u64::from(hash) % bits;
        hash = hash.wrapping_add(step);
        position as usize
    }
}

impl FilterPolicy for LevelDb {
    fn name(&self) -> &'static str {
        "leveldb"
    }

    fn stored_name(&self) -> &'static str {
        "leveldb.BuiltinBloomFilter2"
    }

    fn code(&self) -> u8 {
        2
    }

    fn limits(&self) -> Limits {
        Limits {
            min_bits: MIN_BITS,
            max_bits: MAX_BITS,
            bits_step: 8,
            max_probes: MAX_PROBES,
            seeded: false,
            hash_bits: 32,
            line_bits: None,
        }
    }

    fn promises_rate(&self) -> bool {
        false
    }

    /// LevelDB's hash in the lower half; the upper half tells keys apart that share it.
    fn hash(&self, _: u64, key: &[u8]) -> u64 {
        hash_bytes(0, key) & UPPER_HALF | u64::from(leveldb_hash(key, SEED))
    }

    fn for_rate(&self, keys: u64, rate: f64) -> Result<Geometry, PolicyError> {
        Ok(self.for_bits_per_key(keys, optimal_bits_per_key(rate).max(1.0).ceil()))
    }

    fn for_bits_per_key(&self, keys: u64, bits_per_key: f64) -> Geometry {
        let num_probes = (bits_per_key * PROBES_PER_BIT).clamp(1.0, f64::from(MAX_PROBES)) as u8;
        let bits = bits_for(keys, bits_per_key, MIN_BITS).checked_next_multiple_of(8).unwrap_or(u64::MAX);
        Geometry { bits, num_probes, seed: 0 }
    }

    fn set(&self, body: &mut [u8], geometry: &Geometry, key: u64) -> u64 {
        set_bits(body, geometry.num_probes, walk(key, geometry))
    }

    fn probe(&self, geometry: &Geometry, key: u64, is_set: &mut dyn FnMut(u64) -> bool) -> bool {
        all(geometry.num_probes, walk(key, geometry), is_set)
    }

    fn test(&self, body: &[u8], geometry: &Geometry, key: u64) -> bool {
        are_set(body, geometry.num_probes, walk(key, geometry))
    }

    fn lookup(&self, geometry: &Geometry) -> Lookup {
        Lookup::of::<Self>(geometry)
    }

    fn folded(&self, position: u64, geometry: &Geometry, by: u64) -> Option<u64> {
        Some(position % (geometry.bits / by))
    }

    fn trailer(&self, geometry: &Geometry) -> Vec<u8> {
        vec![geometry.num_probes]
    }

    fn read(&self, encoded: &[u8], _: Option<Geometry>) -> Result<Geometry, PolicyError> {
        let error = |reason| PolicyError::Encoding { policy: "leveldb", reason };
        match encoded.split_last() {
            Some((&num_probes, _)) if num_probes > MAX_PROBES => {
                Err(error("more than 30 probes mark a later encoding"))
            }
            Some((&num_probes, body)) if body.len() as u64 * 8 >= MIN_BITS => {
                Ok(Geometry { bits: body.len() as u64 * 8, num_probes, seed: 0 })
            }
            _ => Err(error("shorter than 9 bytes")),
        }
    }
}
