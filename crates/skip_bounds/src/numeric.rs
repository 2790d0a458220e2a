//! The order key of a numeric, from the server's own form of it.
//!
//! ```text
//! 0 header u16: upper two bits 00 positive, 01 negative, 10 short, 11 not a number (then with the next two bits:
//!               1100 NaN, 1101 infinity, 1111 minus infinity)
//!   short: bit 13 negative, bit 6 sign of the weight, bits 0 to 5 the weight
//!   else:  2 weight i16
//! then digits of base 10,000, i16 each; the first one counts 10,000 ^ weight
//! ```
//!
//! The server strips leading zeros, so of two positive numbers the one with the higher weight is greater, and of equal
//! weights the digits decide. The key has the weight in 16 bits and the first four digits, some 14 of their decimal
//! digits, in 47 bits. What follows is cut off, which keeps the order.

const SHORT: u16 = 0x8000;
const SPECIAL: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const MINUS_INFINITY: u16 = 0xF000;
const NEGATIVE: u16 = 0x4000;
const SHORT_NEGATIVE: u16 = 0x2000;
const SHORT_WEIGHT_SIGN: u16 = 0x0040;
const SHORT_WEIGHT: u16 = 0x003F;

const ZERO: u64 = 1 << 63;
/// Bits of the digits in a key. Four digits, less than 2^54, are cut to them.
const DIGIT_BITS: u32 = 47;
const CUT: u32 = 54 - DIGIT_BITS;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The key of a numeric with these bytes behind its header; None if it is damaged.
pub fn key(bytes: &[u8]) -> Option<u64> {
    let header = u16_at(bytes, 0)?;
    if header & SPECIAL == SPECIAL {
        return Some(match header & 0xF000 {
            INFINITY => u64::MAX - 1,
            MINUS_INFINITY => 0,
            _ => u64::MAX,
        });
    }
    let (is_negative, weight, digits) = if header & SPECIAL == SHORT {
        // The sign of the weight is extended.
        let weight = header & SHORT_WEIGHT | if header & SHORT_WEIGHT_SIGN != 0 { !SHORT_WEIGHT } else { 0 };
        (header & SHORT_NEGATIVE != 0, weight.cast_signed(), bytes.get(2..)?)
    } else {
        (header & SPECIAL == NEGATIVE, u16_at(bytes, 2)?.cast_signed(), bytes.get(4..)?)
    };
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |place: usize| u16_at(digits, place * 2).map_or(0, u64::from);
    // The server writes no leading zeros; if there were some, they would be skipped.
    let count = digits.len() / 2;
    let Some(first) = (0..count).find(|&place| digit(place) != 0) else { return Some(ZERO) };
    let mut number = 0;
    for place in first..first + 4 {
        let digit = if place < count { digit(place) } else { 0 };
        if digit >= 10_000 {
            return None;
        }
        number = number * 10_000 + digit;
    }
    let weight = i32::from(weight) - i32::try_from(first).ok()?;
    let weight = (weight + 0x8000).clamp(0, 0xFFFF) as u64;
    let positive = ZERO | weight << DIGIT_BITS | number >> CUT;
    Some(if is_negative { !positive } else { positive })
}
