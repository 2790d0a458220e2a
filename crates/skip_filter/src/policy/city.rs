//! CityHash64 of version 1.0.2, the one ClickHouse has frozen in its formats (later versions hash otherwise).
//!
//! By Geoff Pike and Jyrki Alakuijala (2011, MIT licence). The hash without a seed is that of the crate
//! `ch_cityhash102`; the seed is mixed in here, because seeds cost little when the hash without one is at hand. All
//! arithmetic is modulo 2^64. `tests/policy_vectors.rs` compares every branch with ClickHouse's values.

use ch_cityhash102::cityhash64;

/// `k2` of CityHash 1.0.2 (city.cc).
const K2: u64 = 0x9ae1_6a3b_2f90_404f;
/// `kMul` of its `Hash128to64` (city.h).
const MIX: u64 = 0x9ddf_ea08_eb38_2d69;

/// `CityHash64`.
pub fn city64(bytes: &[u8]) -> u64 {
    cityhash64(bytes)
}

/// `CityHash64WithSeed`.
pub fn city64_with_seed(bytes: &[u8], seed: u64) -> u64 {
    with_seed(city64(bytes), seed)
}

/// The seeded hash from the one without a seed.
pub fn with_seed(hash: u64, seed: u64) -> u64 {
    mix(hash.wrapping_sub(K2), seed)
}

fn shift_mix(value: u64) -> u64 {
    value ^ value >> 47
}

/// 128 bits to 64.
fn mix(low: u64, high: u64) -> u64 {
    let a = shift_mix((low ^ high).wrapping_mul(MIX));
    shift_mix((high ^ a).wrapping_mul(MIX)).wrapping_mul(MIX)
}
