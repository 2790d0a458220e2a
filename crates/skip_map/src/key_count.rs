//! How many distinct keys maps have, and in how many ranges a key is on average, from a sample of fingerprints.
//!
//! Fingerprints are the upper bits of a mixed hash, so the keys in an interval of fingerprints are a random sample of
//! all keys. [`windows`] gives a few such intervals; in every map of a column with fingerprints of one length the pairs
//! of these are read, and counted by [`KeyCounts`]. A key that is in several maps is counted once.

use std::ops::Range;

/// Number of intervals. With several of them, one that holds a key of a great many pairs can be left out.
const WINDOWS: u64 = 4;
/// Pairs that an interval should hold, on average: those of a fifth of a page.
const PAIRS_OF_WINDOW: u64 = 512;
/// An interval with more pairs than this is not counted: a key is in nearly every range, and reading its pairs would
/// take too long.
pub const MOST_PAIRS_OF_WINDOW: usize = 8192;
/// The least number of keys from which averages are taken: their number is then known within a tenth, as one standard
/// deviation.
const LEAST_KEYS: u64 = 100;

/// Intervals of fingerprints, of maps that have so many pairs in all.
pub fn windows(fingerprint_bits: u8, pairs: u64) -> impl Iterator<Item = Range<u64>> {
    let all = 1u64 << fingerprint_bits.min(63);
    let width = (u128::from(all) * u128::from(PAIRS_OF_WINDOW)).div_ceil(u128::from(pairs.max(1)));
    let count = WINDOWS.min(all);
    let width = width.min((all / count).into()) as u64;
    (0..count).map(move |i| all / count * i).map(move |start| start..start + width)
}

/// Counts of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// Number of pairs, and of distinct fingerprints that these have.
    pairs: u64,
    keys: u64,
    /// Number of fingerprints in the intervals that were counted.
    fingerprints: u64,
}

impl KeyCounts {
    /// Counts an interval. `found` has the pairs in it, as fingerprint and range, in any order. Pairs that several maps
    /// have, because one is the others merged, are counted once.
    pub fn add(&mut self, window: &Range<u64>, found: &mut Vec<(u64, u64)>) {
        found.sort_unstable();
        found.dedup();
        self.pairs += found.len() as u64;
        self.keys += found.chunk_by(|a, b| a.0 == b.0).count() as u64;
        self.fingerprints += window.end - window.start;
    }

    /// Pairs of a key on average; None if too few keys were counted.
    pub fn pairs_of_key(&self) -> Option<f64> {
        (self.keys >= LEAST_KEYS).then(|| self.pairs as f64 / self.keys as f64)
    }

    /// The number of distinct keys of all maps; None if too few keys were counted, or if there are so many for the bits
    /// of a fingerprint that fingerprints do not tell them apart.
    pub fn distinct(&self, fingerprint_bits: u8) -> Option<f64> {
        // The least part of the fingerprints that no key may have. With fewer, the formula below magnifies errors.
        const LEAST_UNUSED: f64 = 0.1;
        let used = self.keys as f64 / self.fingerprints.max(1) as f64;
        let all = f64::from(fingerprint_bits).exp2();
        // Keys fall on fingerprints at random: of n fingerprints, n * (1 - exp(-keys / n)) are used.
        (self.keys >= LEAST_KEYS && used <= 1.0 - LEAST_UNUSED).then(|| -(1.0 - used).ln() * all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Coding;

    /// Counts of maps that have pairs of these keys, each twice, the key at place i with range i.
    fn counts(bits: u8, keys: impl Iterator<Item = u64> + Clone) -> KeyCounts {
        let coding = Coding::new(bits, 1).unwrap();
        let mut counts = KeyCounts::default();
        for window in windows(bits, keys.clone().count() as u64) {
            let pairs = (0..).zip(keys.clone()).map(|(range, key)| (coding.fingerprint(key), range));
            let twice = pairs.clone().chain(pairs);
            counts.add(&window, &mut twice.filter(|pair| window.contains(&pair.0)).collect());
        }
        counts
    }

    #[test]
    fn windows_hold_as_many_pairs_as_wanted() {
        for (bits, pairs) in [(30, 1_000_000), (40, 1 << 33), (20, 100_000), (8, 3), (8, 0), (1, 1 << 40)] {
            let windows: Vec<_> = windows(bits, pairs).collect();
            let width: u64 = windows.iter().map(|w| w.end - w.start).sum();
            let held = width as f64 * pairs as f64 / f64::from(bits).exp2();
            let wanted = (pairs as f64).min((WINDOWS * PAIRS_OF_WINDOW) as f64);
            assert!(held >= wanted * 0.99, "{bits} bits, {pairs} pairs: {held}");
            assert!(width <= 1 << bits && windows.is_sorted_by(|a, b| a.end <= b.start));
            let least = windows.len() as f64 * pairs as f64 / f64::from(bits).exp2();
            assert!(held <= (wanted + least) * 1.01, "{bits} bits, {pairs} pairs: {held}");
        }
    }

    #[test]
    fn keys_of_several_pairs() {
        for (distinct, copies) in [(100_000u64, 1), (20_000, 7), (500, 3)] {
            let counts = counts(31, (0..distinct * copies).map(|i| i % distinct));
            assert_eq!(counts.pairs_of_key(), Some(copies as f64));
            let found = counts.distinct(31).unwrap();
            // 100 keys or more: within four standard deviations.
            assert!((found / distinct as f64 - 1.0).abs() < 0.4, "{found} instead of {distinct}");
        }
    }

    #[test]
    fn keys_that_share_fingerprints_are_counted() {
        // 300,000 keys and 262,144 fingerprints, of which 68 percent are used.
        let found = counts(18, 0..300_000).distinct(18).unwrap();
        assert!((found / 300_000.0 - 1.0).abs() < 0.2, "{found}");
        assert_eq!(counts(18, 0..3_000_000).distinct(18), None, "all fingerprints are used");
    }

    #[test]
    fn few_keys_tell_nothing() {
        let counts = counts(31, (0..50_000).map(|i| i % 99));
        assert_eq!((counts.pairs_of_key(), counts.distinct(31)), (None, None));
        assert_eq!(KeyCounts::default().distinct(31), None);
    }
}
