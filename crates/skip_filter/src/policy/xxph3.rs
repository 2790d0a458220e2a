//! The 64-bit hash of RocksDB's filters: a preview of XXH3, with seed 0.
//!
//! RocksDB froze its format before XXH3 was final, so its hash is not the one of [`hash_bytes`](crate::hash_bytes):
//! only the secret and the mixing steps are the same (Yann Collet's xxHash, BSD licence). Empty keys differ from the
//! preview too, which gave zero. Owns the secret; pure functions over bytes. Written here because the crate used for
//! XXH3 has the final one only. `tests/policy_rocksdb.rs` compares keys of all lengths to 430 with RocksDB's own
//! values.

use super::load::{u32_at, u64_at};

/// The default secret of XXH3 (xxHash specification, "XXH3 Algorithm Overview").
#[rustfmt::skip] // rows of 16
const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

/// The primes of the specification of xxHash.
const PRIME32_1: u64 = 0x9e37_79b1;
const PRIME32_2: u64 = 0x85eb_ca77;
const PRIME32_3: u64 = 0xc2b2_ae3d;
const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME64_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME64_5: u64 = 0x27d4_eb2f_1656_67c5;

/// Bytes taken in at once by keys of more than 240 bytes.
const STRIPE: usize = 64;
/// How far the secret moves on from stripe to stripe.
const SECRET_STEP: usize = 8;
/// Stripes until the secret is used up and the lanes are scrambled.
const STRIPES: usize = (SECRET.len() - STRIPE) / SECRET_STEP;
/// Where the secret is read for the last stripe, for merging the lanes, and for the second and the last part of keys
/// of 129 to 240 bytes: all odd, so that no read repeats another one.
const LAST_STRIPE_SECRET: usize = SECRET.len() - STRIPE - 7;
const MERGE_SECRET: usize = 11;
const SECOND_SECRET: usize = 3;
const LAST_SECRET: usize = 136 - 17;

/// The hash of a key.
pub fn xxph3(key: &[u8]) -> u64 {
    match key.len() {
        0..=16 => up_to_16(key),
        17..=128 => up_to_128(key),
        129..=240 => up_to_240(key),
        _ => longer(key),
    }
}

fn secret(at: usize) -> u64 {
    u64_at(&SECRET, at)
}

/// 128-bit product, its halves folded into one.
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

fn avalanche(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 37).wrapping_mul(PRIME64_3);
    hash ^ hash >> 32
}

fn up_to_16(key: &[u8]) -> u64 {
    let length = key.len();
    match length {
        0 => fold(secret(0), PRIME64_2),
        1..=3 => {
            let (first, middle, last) = (key[0], key[length / 2], key[length - 1]);
            let combined = u32::from_le_bytes([first, middle, last, length as u8]);
            avalanche((u64::from(combined) ^ u64::from(u32_at(&SECRET, 0))).wrapping_mul(PRIME64_1))
        }
        4..=8 => {
            let both = u64::from(u32_at(key, 0)) | u64::from(u32_at(key, length - 4)) << 32;
            let keyed = both ^ secret(0);
            let mixed = (keyed ^ keyed >> 51).wrapping_mul(PRIME32_1).wrapping_add(length as u64);
            avalanche((mixed ^ mixed >> 47).wrapping_mul(PRIME64_2))
        }
        _ => {
            let (first, last) = (u64_at(key, 0) ^ secret(0), u64_at(key, length - 8) ^ secret(8));
            avalanche((length as u64).wrapping_add(first).wrapping_add(last).wrapping_add(fold(first, last)))
        }
    }
}

/// 16 bytes of the key against 16 of the secret.
fn mix16(key: &[u8], at: usize, secret_at: usize) -> u64 {
    fold(u64_at(key, at) ^ secret(secret_at), u64_at(key, at + 8) ^ secret(secret_at + 8))
}

/// Pairs of 16 bytes from both ends inwards, as many as the length needs.
fn up_to_128(key: &[u8]) -> u64 {
    let length = key.len();
    let pairs = (length - 1) / 32 + 1;
    let sum = (0..pairs).fold((length as u64).wrapping_mul(PRIME64_1), |sum, pair| {
        sum.wrapping_add(mix16(key, 16 * pair, 32 * pair)).wrapping_add(mix16(
            key,
            length - 16 * (pair + 1),
            32 * pair + 16,
        ))
    });
    avalanche(sum)
}

fn up_to_240(key: &[u8]) -> u64 {
    let length = key.len();
    let start = (length as u64).wrapping_mul(PRIME64_1);
    let first = avalanche((0..8).fold(start, |sum, i| sum.wrapping_add(mix16(key, 16 * i, 16 * i))));
    let second = (8..length / 16)
        .fold(first, |sum, i| sum.wrapping_add(mix16(key, 16 * i, 16 * (i - 8) + SECOND_SECRET)));
    avalanche(second.wrapping_add(mix16(key, length - 16, LAST_SECRET)))
}

/// Takes a stripe of 64 bytes into the eight lanes.
fn accumulate(lanes: &mut [u64; 8], stripe: &[u8], secret_at: usize) {
    for (i, lane) in lanes.iter_mut().enumerate() {
        let word = u64_at(stripe, 8 * i);
        let keyed = word ^ secret(secret_at + 8 * i);
        *lane = lane.wrapping_add(word).wrapping_add((keyed & 0xffff_ffff) * (keyed >> 32));
    }
}

fn longer(key: &[u8]) -> u64 {
    let mut lanes = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];
    for block in key.chunks(STRIPE * STRIPES) {
        for (i, stripe) in block.chunks_exact(STRIPE).enumerate() {
            accumulate(&mut lanes, stripe, SECRET_STEP * i);
        }
        if block.len() == STRIPE * STRIPES {
            for (i, lane) in lanes.iter_mut().enumerate() {
                let mixed = *lane ^ *lane >> 47 ^ secret(SECRET.len() - STRIPE + 8 * i);
                *lane = mixed.wrapping_mul(PRIME32_1);
            }
        }
    }
    if !key.len().is_multiple_of(STRIPE) {
        accumulate(&mut lanes, &key[key.len() - STRIPE..], LAST_STRIPE_SECRET);
    }
    let merged = (0..4).fold((key.len() as u64).wrapping_mul(PRIME64_1), |sum, i| {
        let at = MERGE_SECRET + 16 * i;
        sum.wrapping_add(fold(lanes[2 * i] ^ secret(at), lanes[2 * i + 1] ^ secret(at + 8)))
    });
    avalanche(merged)
}
