//! CityHash64 of version 1.0.2, the one ClickHouse has frozen in its formats (later versions hash otherwise).
//!
//! By Geoff Pike and Jyrki Alakuijala (2011, MIT licence). Owns nothing; pure functions over bytes. Written here
//! because a hundred lines of arithmetic that never change are not worth a dependency. All arithmetic is modulo 2^64,
//! all loads are little-endian. `tests/policy_vectors.rs` compares every branch with ClickHouse's values.

use super::load::{u32_at, u64_at};

const K0: u64 = 0xc3a5_c85c_97cb_3127;
const K1: u64 = 0xb492_b66f_be98_f273;
const K2: u64 = 0x9ae1_6a3b_2f90_404f;
const K3: u64 = 0xc949_d7c7_509e_6557;
const MIX: u64 = 0x9ddf_ea08_eb38_2d69;

/// `CityHash64WithSeed`. Seeds cost little when the hash without a seed is at hand: see [`with_seed`].
pub fn city64_with_seed(bytes: &[u8], seed: u64) -> u64 {
    with_seed(city64(bytes), seed)
}

/// The seeded hash from the one without a seed.
pub fn with_seed(hash: u64, seed: u64) -> u64 {
    mix(hash.wrapping_sub(K2), seed)
}

/// `CityHash64`.
pub fn city64(bytes: &[u8]) -> u64 {
    match bytes.len() {
        0..=16 => up_to_16(bytes),
        17..=32 => up_to_32(bytes),
        33..=64 => up_to_64(bytes),
        _ => longer(bytes),
    }
}

fn shift_mix(value: u64) -> u64 {
    value ^ value >> 47
}

/// 128 bits to 64.
fn mix(low: u64, high: u64) -> u64 {
    let a = shift_mix((low ^ high).wrapping_mul(MIX));
    shift_mix((high ^ a).wrapping_mul(MIX)).wrapping_mul(MIX)
}

fn up_to_16(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    match length {
        0 => K2,
        1..=3 => {
            let first = u32::from(bytes[0]) + (u32::from(bytes[length / 2]) << 8);
            let last = length as u32 + (u32::from(bytes[length - 1]) << 2);
            shift_mix(u64::from(first).wrapping_mul(K2) ^ u64::from(last).wrapping_mul(K3)).wrapping_mul(K2)
        }
        4..=8 => {
            let (first, last) = (u64::from(u32_at(bytes, 0)), u64::from(u32_at(bytes, length - 4)));
            mix(length as u64 + (first << 3), last)
        }
        _ => {
            let (first, last) = (u64_at(bytes, 0), u64_at(bytes, length - 8));
            mix(first, last.wrapping_add(length as u64).rotate_right(length as u32)) ^ last
        }
    }
}

fn up_to_32(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let a = u64_at(bytes, 0).wrapping_mul(K1);
    let b = u64_at(bytes, 8);
    let c = u64_at(bytes, length - 8).wrapping_mul(K2);
    let d = u64_at(bytes, length - 16).wrapping_mul(K0);
    let low = a.wrapping_sub(b).rotate_right(43).wrapping_add(c.rotate_right(30)).wrapping_add(d);
    let high = a.wrapping_add((b ^ K3).rotate_right(20)).wrapping_sub(c).wrapping_add(length as u64);
    mix(low, high)
}

/// One half of [`up_to_64`]: 32 bytes from `first` on, of which the last eight are `last`.
fn half(bytes: &[u8], first: usize, start: u64, last: u64) -> (u64, u64) {
    let mut a = start;
    let mut b = a.wrapping_add(last).rotate_right(52);
    let mut c = a.rotate_right(37);
    a = a.wrapping_add(u64_at(bytes, first));
    c = c.wrapping_add(a.rotate_right(7));
    a = a.wrapping_add(u64_at(bytes, first + 8));
    b = b.wrapping_add(a.rotate_right(31)).wrapping_add(c);
    (a.wrapping_add(last), b)
}

fn up_to_64(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let salt = (length as u64).wrapping_add(u64_at(bytes, length - 16)).wrapping_mul(K0);
    let (front, front_sum) = half(bytes, 8, u64_at(bytes, 0).wrapping_add(salt), u64_at(bytes, 24));
    let start = u64_at(bytes, 16).wrapping_add(u64_at(bytes, length - 32));
    let (back, back_sum) = half(bytes, length - 24, start, u64_at(bytes, length - 8));
    let crossed = front
        .wrapping_add(back_sum)
        .wrapping_mul(K2)
        .wrapping_add(back.wrapping_add(front_sum).wrapping_mul(K0));
    shift_mix(shift_mix(crossed).wrapping_mul(K0).wrapping_add(front_sum)).wrapping_mul(K2)
}

/// 32 bytes from `at` on and two seeds, to a weak 128 bits.
fn weak(bytes: &[u8], at: usize, a: u64, b: u64) -> (u64, u64) {
    let [w, x, y, z] = [0, 8, 16, 24].map(|offset| u64_at(bytes, at + offset));
    let first = a.wrapping_add(w);
    let b = b.wrapping_add(first).wrapping_add(z).rotate_right(21);
    let a = first.wrapping_add(x).wrapping_add(y);
    (a.wrapping_add(z), b.wrapping_add(a.rotate_right(44)).wrapping_add(first))
}

/// More than 64 bytes: the state starts from the last 64, then takes in all blocks of 64 from the front.
fn longer(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    let mut x = u64_at(bytes, 0);
    let mut y = u64_at(bytes, length - 16) ^ K1;
    let mut z = u64_at(bytes, length - 56) ^ K0;
    let mut v = weak(bytes, length - 64, length as u64, y);
    let mut w = weak(bytes, length - 32, (length as u64).wrapping_mul(K1), K0);
    z = z.wrapping_add(shift_mix(v.1).wrapping_mul(K1));
    x = z.wrapping_add(x).rotate_right(39).wrapping_mul(K1);
    y = y.rotate_right(33).wrapping_mul(K1);
    for at in (0..(length - 1) & !63).step_by(64) {
        let word = |offset| u64_at(bytes, at + offset);
        x = x.wrapping_add(y).wrapping_add(v.0).wrapping_add(word(16)).rotate_right(37).wrapping_mul(K1);
        y = y.wrapping_add(v.1).wrapping_add(word(48)).rotate_right(42).wrapping_mul(K1);
        x ^= w.1;
        y ^= v.0;
        z = (z ^ w.0).rotate_right(33);
        v = weak(bytes, at, v.1.wrapping_mul(K1), x.wrapping_add(w.0));
        w = weak(bytes, at + 32, z.wrapping_add(w.1), y);
        (z, x) = (x, z);
    }
    mix(
        mix(v.0, w.0).wrapping_add(shift_mix(y).wrapping_mul(K1)).wrapping_add(z),
        mix(v.1, w.1).wrapping_add(x),
    )
}
