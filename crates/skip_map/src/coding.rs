//! A pair of key hash and block range as a number.
//!
//! `number = fingerprint * ranges + range`, where the fingerprint is the upper bits of the mixed hash. All numbers of
//! a key are therefore consecutive candidates: `fingerprint * ranges .. (fingerprint + 1) * ranges`.
//!
//! Invariant: the mixing and the formula are part of the format on disk. They never change.

use std::ops::Range;

/// All numbers are below this.
pub(crate) const NUMBERS_END: u64 = 1 << 63;

/// How pairs become numbers: the fingerprint bits and the number of ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coding {
    fingerprint_bits: u8,
    ranges: u32,
}

/// Key hashes may come from an operator class's own hash function, which may be a poor one. Mixing makes the upper bits
/// depend on all bits. It is a bijection, so it never makes two hashes equal. The constants are those of SplitMix64
/// (Stafford's variant 13).
#[inline]
pub(crate) fn mix(hash: u64) -> u64 {
    let state = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ state >> 31
}

impl Coding {
    /// The most fingerprint bits that a coding may have.
    pub const MOST_FINGERPRINT_BITS: u8 = 40;

    /// None unless there are 1 to 40 fingerprint bits, at least one range, and all numbers are below 2^63.
    pub fn new(fingerprint_bits: u8, ranges: u32) -> Option<Self> {
        let bits_fit = (1..=Self::MOST_FINGERPRINT_BITS).contains(&fingerprint_bits);
        let numbers_fit = bits_fit && u128::from(ranges) << fingerprint_bits <= u128::from(NUMBERS_END);
        (numbers_fit && ranges > 0).then_some(Self { fingerprint_bits, ranges })
    }

    /// Number of fingerprint bits.
    pub fn fingerprint_bits(&self) -> u8 {
        self.fingerprint_bits
    }

    /// Number of ranges.
    pub fn ranges(&self) -> u32 {
        self.ranges
    }

    /// The upper bits of the mixed hash.
    #[inline]
    pub fn fingerprint(&self, hash: u64) -> u64 {
        mix(hash) >> (64 - u32::from(self.fingerprint_bits))
    }

    /// The number of a pair. The range counts from the segment's first one and must be below [`Coding::ranges`].
    #[inline]
    pub fn number(&self, hash: u64, range: u32) -> u64 {
        debug_assert!(range < self.ranges, "a range outside of the segment");
        self.fingerprint(hash) * u64::from(self.ranges) + u64::from(range)
    }

    /// The numbers that the key may have, over all ranges.
    #[inline]
    pub fn numbers_of(&self, hash: u64) -> Range<u64> {
        let start = self.fingerprint(hash) * u64::from(self.ranges);
        start..start + u64::from(self.ranges)
    }

    /// The fingerprint and the range of a number.
    #[inline]
    pub fn split(&self, number: u64) -> (u64, u32) {
        let ranges = u64::from(self.ranges);
        (number / ranges, (number % ranges) as u32)
    }

    /// The end of the numbers that this coding has: 2^fingerprint bits times ranges.
    pub(crate) fn numbers_end(&self) -> u64 {
        u64::from(self.ranges) << self.fingerprint_bits
    }
}

/// The least fingerprint bits with which a key that is nowhere is expected to match at most `false_ranges` ranges, in
/// all, of a segment of `pairs` pairs: `pairs / 2^bits`. At least 8 and at most 40, and not more than a coding of
/// `most_ranges` ranges may have.
pub fn fingerprint_bits_for(pairs: f64, false_ranges: f64, most_ranges: u32) -> u8 {
    const LEAST: u8 = 8;
    let fits = |bits: &u8| Coding::new(*bits, most_ranges.max(1)).is_some();
    let most = (LEAST..=Coding::MOST_FINGERPRINT_BITS).rev().find(fits).unwrap_or(LEAST);
    (LEAST..most).find(|&bits| pairs / (1u64 << bits) as f64 <= false_ranges).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_leave_room_for_all_ranges() {
        assert_eq!(fingerprint_bits_for(1e6, 1.0, 1 << 20), 20);
        assert_eq!(fingerprint_bits_for(0.0, 1.0, 1), 8);
        for (most_ranges, most_bits) in [(u32::MAX, 31), (1 << 28, 35), (1 << 23, 40), (1, 40), (0, 40)] {
            let bits = fingerprint_bits_for(1e15, 1e-6, most_ranges);
            assert_eq!(bits, most_bits, "{most_ranges} ranges");
            assert!(Coding::new(bits, most_ranges.max(1)).is_some());
        }
    }

    #[test]
    fn codings_stay_below_2_to_63() {
        for (bits, ranges, valid) in [
            (0, 1, false),
            (1, 0, false),
            (1, 1, true),
            (40, 1 << 23, true),
            (40, (1 << 23) + 1, false),
            (41, 1, false),
            (31, u32::MAX, true),
            (32, u32::MAX, false),
        ] {
            assert_eq!(Coding::new(bits, ranges).is_some(), valid, "{bits} {ranges}");
        }
    }

    #[test]
    fn numbers_split_into_what_they_were_made_of() {
        let coding = Coding::new(31, u32::MAX).unwrap();
        for hash in [0, 1, 17, u64::MAX] {
            for range in [0, 1, u32::MAX - 1] {
                let number = coding.number(hash, range);
                assert!(coding.numbers_of(hash).contains(&number) && number < coding.numbers_end());
                assert_eq!(coding.split(number), (coding.fingerprint(hash), range));
            }
        }
    }

    #[test]
    fn bits_follow_pairs_and_false_ranges() {
        assert_eq!(fingerprint_bits_for(1e6, 1.0, 1), 20);
        assert_eq!(fingerprint_bits_for(1e6, 0.01, 1), 27);
        assert_eq!(fingerprint_bits_for(1024.0, 1.0, 1), 10);
        assert_eq!(fingerprint_bits_for(1025.0, 1.0, 1), 11);
        assert_eq!(fingerprint_bits_for(0.0, 1.0, 1), 8);
        assert_eq!(fingerprint_bits_for(1e300, 1.0, 1), 40);
        assert_eq!(fingerprint_bits_for(1e6, 0.0, 1), 40);
        assert_eq!(fingerprint_bits_for(f64::NAN, 1.0, 1), 40);
    }
}
