//! Policy `skip`: the filters of this crate, [`Filter`](crate::Filter) as bytes.
//!
//! Bits are those of a segment of width 1: [`hash_bytes`] under a seed, [`probes`], any number of bits
//! in steps of 64. Bit `p` is bit `p % 8` of byte `p / 8`. Keys may also enter as 64-bit hashes from elsewhere, good
//! or poor: the probe sequence mixes them (see [`hash`](crate::hash)).
//!
//! Sizes for a rate are [`Sizing::for_rate`]: ClickHouse's table, and the optimum below its floor.
//!
//! The encoding is frozen. After the bits, little-endian:
//!
//! | bytes | holds |
//! |---|---|
//! | 8 | the seed |
//! | 2 | the hash scheme ([`HASH_SCHEME`]) |
//! | 1 | probes a key |
//! | 1 | version of the encoding: 1 |

use super::bits::{are_set, set_bits};
use super::error::PolicyError;
use super::filter_policy::{FilterPolicy, Lookup};
use super::geometry::{Geometry, Limits};
use super::load::u64_at;
use super::scatter;
use super::sizing::{bits_for, whole_probes};
use crate::hash::{HASH_SCHEME, Probes, first_state, hash_bytes, next_state, position, probes};
use crate::params::{MIN_FILTER_BITS, Sizing};

/// Version of the encoding: its last byte.
const VERSION: u8 = 1;

/// Bytes behind the bits: see the layout at the head of this file.
const TRAILER: usize = 12;

/// Positions are 32 bits wide.
const MAX_BITS: u64 = u32::MAX as u64 & !63;

/// 2^-64: two keys may always have one hash.
const LOWEST_RATE: f64 = 1.0 / (1u128 << 64) as f64;

/// More probes than a rate of 2^-64 wants, which is what 64-bit hashes can do.
const MAX_PROBES: u8 = 64;

/// See the module's text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Skip;

#[inline(always)]
fn positions(key: u64, geometry: &Geometry) -> Probes {
    probes(key, geometry.bits as u32, geometry.num_probes)
}

/// Gives the positions of a key.
#[inline(always)]
fn walk(key: u64, geometry: &Geometry) -> impl FnMut() -> usize {
    let bits = geometry.bits as u32;
    let mut state = first_state(key);
    move || {
        let position = position(state, bits);
        state = next_state(state);
        position as usize
    }
}

impl FilterPolicy for Skip {
    fn name(&self) -> &'static str {
        "skip"
    }

    fn code(&self) -> u8 {
        1
    }

    fn limits(&self) -> Limits {
        Limits {
            min_bits: MIN_FILTER_BITS,
            max_bits: MAX_BITS,
            bits_step: 64,
            max_probes: MAX_PROBES,
            seeded: true,
            hash_bits: 64,
            line_bits: None,
        }
    }

    fn promises_rate(&self) -> bool {
        true
    }

    fn hash(&self, seed: u64, key: &[u8]) -> u64 {
        hash_bytes(seed, key)
    }

    fn for_rate(&self, keys: u64, rate: f64) -> Result<Geometry, PolicyError> {
        let sizing = Sizing::for_rate(rate).ok_or(PolicyError::Rate(rate))?;
        if rate < LOWEST_RATE {
            return Err(PolicyError::RateTooLow { policy: "skip", rate, lowest: LOWEST_RATE });
        }
        Ok(Geometry { bits: sizing.filter_bits(keys), num_probes: sizing.num_probes, seed: 0 })
    }

    fn for_bits_per_key(&self, keys: u64, bits_per_key: f64) -> Geometry {
        let bits = bits_for(keys, bits_per_key, MIN_FILTER_BITS);
        let bits = bits.checked_next_multiple_of(64).unwrap_or(u64::MAX);
        Geometry { bits, num_probes: whole_probes(bits_per_key, MAX_PROBES), seed: 0 }
    }

    fn set(&self, body: &mut [u8], geometry: &Geometry, key: u64) -> u64 {
        set_bits(body, geometry.num_probes, walk(key, geometry))
    }

    fn set_all(&self, body: &mut [u8], geometry: &Geometry, keys: &[u64], memory: &mut [u32]) -> u64 {
        scatter::set_all(body, geometry, keys, memory, positions)
    }

    fn room(&self, geometry: &Geometry, keys: usize) -> usize {
        scatter::room(geometry, keys)
    }

    fn probe(&self, geometry: &Geometry, key: u64, is_set: &mut dyn FnMut(u64) -> bool) -> bool {
        positions(key, geometry).map(u64::from).all(is_set)
    }

    fn test(&self, body: &[u8], geometry: &Geometry, key: u64) -> bool {
        are_set(body, geometry.num_probes, walk(key, geometry))
    }

    fn lookup(&self, geometry: &Geometry) -> Lookup {
        Lookup::of::<Self>(geometry)
    }

    fn folded(&self, position: u64, _: &Geometry, by: u64) -> Option<u64> {
        Some(position / by) // floor(floor(x * m) / d) is floor(x * (m / d))
    }

    fn trailer(&self, geometry: &Geometry) -> Vec<u8> {
        let mut trailer = geometry.seed.to_le_bytes().to_vec();
        trailer.extend(HASH_SCHEME.to_le_bytes());
        trailer.extend([geometry.num_probes, VERSION]);
        trailer
    }

    fn read(&self, encoded: &[u8], _: Option<Geometry>) -> Result<Geometry, PolicyError> {
        let error = |reason| PolicyError::Encoding { policy: "skip", reason };
        let Some((body, &[seed @ .., low, high, num_probes, version])) =
            encoded.split_last_chunk::<TRAILER>()
        else {
            return Err(error("shorter than its trailer"));
        };
        if version != VERSION {
            return Err(error("unknown version"));
        }
        if u16::from_le_bytes([low, high]) != HASH_SCHEME {
            return Err(error("unknown hash scheme"));
        }
        Ok(Geometry { bits: body.len() as u64 * 8, num_probes, seed: u64_at(&seed, 0) })
    }
}
