//! What to expect of a filter, and what its set bits say of it.
//!
//! Owns the arithmetic of a filter of `m` bits that is cut into lines of `B` bits: a key picks one line, and `k`
//! positions in it. An ordinary filter is one line (`B = m`), a cache-line local one has many of 512 bits. Both
//! directions: from keys to the expected number of set bits and the rate, from set bits back to keys.
//!
//! With `q_j = (1 - j/B)^k`, the chance that one key of the line leaves `j` given bits alone, and `L = m / B` lines,
//! `n` keys leave one bit zero with probability `(1 - (1 - q_1)/L)^n`, two of a line `(1 - (1 - q_2)/L)^n`, two of
//! different lines `(1 - 2(1 - q_1)/L)^n`. From these follow mean and variance of the number of zeros, exactly.
//! The estimate of `n` solves the first for `n` (Swamidass and Baldi 2007, for one line); its bounds are the numbers
//! of keys for which the bits seen lie [`SIGMAS`] standard deviations off the mean.
//!
//! All of this takes positions as independent of each other. Policies that promise a rate come so near that the
//! difference cannot be seen. Of `clickhouse`, estimates are good to some 2 %, but bounds can be narrower than that. Of
//! `leveldb`, whose 32-bit hashes repeat each other's probes, they are too low: by 3 % at 30,000 keys, by 11 % at
//! 400,000, by 17 % at 3 million.

/// Standard deviations that the bounds of an estimate lie off: 95 % of a normal distribution.
pub const SIGMAS: f64 = 1.959_964;

/// Standard deviations of a line's number of keys that the expected rate sums over. Of a normal distribution, less
/// than 1e-32 lies beyond: nothing in a double.
const TAIL_SIGMAS: f64 = 12.0;

/// A number of distinct keys as a filter's set bits tell it: 95 % of such intervals hold the truth, if the policy
/// promises its rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cardinality {
    /// The most likely number. Infinite if every bit is set.
    pub estimate: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound. Infinite if every bit is set.
    pub high: f64,
}

/// How a filter's bits are filled: lines of `line_bits` bits, and `probes` in one line for every key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Bits of the whole filter; a multiple of `line_bits`.
    pub bits: u64,
    /// Bits of the line that a key's probes lie in.
    pub line_bits: u64,
    /// Probes a key.
    pub num_probes: u8,
}

impl Layout {
    pub(super) fn lines(self) -> f64 {
        self.bits as f64 / self.line_bits as f64
    }

    /// The chance that one key of a line hits one or more of `given` bits of it: `1 - (1 - given/B)^k`.
    pub(super) fn hit(self, given: f64) -> f64 {
        let others = -given / self.line_bits as f64;
        if others <= -1.0 {
            return 1.0; // a line of one or two bits
        }
        -(f64::from(self.num_probes) * others.ln_1p()).exp_m1()
    }

    /// Mean and standard deviation of the number of zero bits in a filter of `keys` keys.
    pub fn zeros(self, keys: f64) -> (f64, f64) {
        let (bits, line, lines) = (self.bits as f64, self.line_bits as f64, self.lines());
        if keys <= 0.0 {
            return (bits, 0.0);
        }
        let log = |hit: f64| (-hit / lines).ln_1p();
        let one = log(self.hit(1.0));
        let zero = (keys * one).exp();
        // Covariances as parts of zero², by expm1: the plain differences would cancel out.
        let same_line = (keys * (log(self.hit(2.0)) - 2.0 * one)).exp_m1();
        let other_line =
            if lines > 1.0 { (keys * (log(2.0 * self.hit(1.0)) - 2.0 * one)).exp_m1() } else { 0.0 };
        let covariances = (line - 1.0) * same_line + (bits - line) * other_line;
        let variance = bits * (zero * (1.0 - zero) + zero * zero * covariances);
        (bits * zero, variance.max(0.0).sqrt())
    }

    /// The number of distinct keys that `ones` set bits stand for.
    pub fn cardinality(self, ones: u64) -> Cardinality {
        if ones == 0 || self.num_probes == 0 {
            return Cardinality {
                estimate: 0.0,
                low: 0.0,
                high: if ones == 0 { 0.0 } else { f64::INFINITY },
            };
        }
        let seen = self.bits.saturating_sub(ones) as f64;
        let one = (-self.hit(1.0) / self.lines()).ln_1p();
        let estimate = if seen > 0.0 { (seen / self.bits as f64).ln() / one } else { f64::INFINITY };
        // A key sets at most `probes` bits.
        let certain = (ones as f64 / f64::from(self.num_probes)).ceil();
        let low = self.solve(|mean, deviation| mean - SIGMAS * deviation <= seen);
        let high = if seen > 0.0 {
            self.solve(|mean, deviation| mean + SIGMAS * deviation <= seen)
        } else {
            f64::INFINITY
        };
        Cardinality {
            estimate: estimate.max(certain),
            low: low.max(certain).min(estimate.max(certain)),
            high: high.max(certain),
        }
    }

    /// The least number of keys, to a part in 10^12, for which the zeros satisfy a condition that holds for all larger.
    fn solve(self, enough: impl Fn(f64, f64) -> bool) -> f64 {
        let holds = |keys| {
            let (mean, deviation) = self.zeros(keys);
            enough(mean, deviation)
        };
        let mut high = 1.0;
        while !holds(high) && high < 1e18 {
            high *= 2.0;
        }
        let mut low = 0.0;
        for _ in 0..64 {
            let middle = (low + high) / 2.0;
            *(if holds(middle) { &mut high } else { &mut low }) = middle;
        }
        high
    }

    /// The expected false-positive rate of a filter of `keys` keys.
    ///
    /// For one line this is `(1 - (1 - 1/m)^(kn))^k` and the next term of its series: the number of set bits varies
    /// from filter to filter, and the power favours the full ones (12 % for 10 keys at 1e-4; nothing for thousands).
    /// For many lines it is the mean over the numbers of keys that a line may have (binomial). RocksDB's own estimate
    /// of the latter takes the mean of one standard deviation up and down.
    pub fn expected_rate(self, keys: u64) -> f64 {
        if keys == 0 {
            return 0.0;
        }
        let lines = self.lines();
        if lines <= 1.0 {
            return self.rate_of_line(keys as f64);
        }
        let (keys, part) = (keys as f64, 1.0 / lines);
        let mean = keys * part;
        let reach = TAIL_SIGMAS * (mean * (1.0 - part)).sqrt() + TAIL_SIGMAS;
        let mode = mean.floor();
        // Weights from the mode outwards by the ratio of neighbours; the mode's own is 1, their sum divides all.
        let (mut sum, mut rates) = (1.0, self.rate_of_line(mode));
        let mut weight = 1.0;
        let mut at = mode;
        while at < keys && at < mode + reach {
            weight *= (keys - at) / (at + 1.0) * part / (1.0 - part);
            at += 1.0;
            sum += weight;
            rates += weight * self.rate_of_line(at);
        }
        weight = 1.0;
        at = mode;
        while at > 0.0 && at > mode - reach {
            weight *= at / (keys - at + 1.0) * (1.0 - part) / part;
            at -= 1.0;
            sum += weight;
            rates += weight * self.rate_of_line(at);
        }
        rates / sum
    }

    /// The expected rate of one line with `keys` keys.
    fn rate_of_line(self, keys: f64) -> f64 {
        let line = Layout { bits: self.line_bits, ..self };
        let (zeros, deviation) = line.zeros(keys);
        let fill = 1.0 - zeros / line.bits as f64;
        if fill <= 0.0 {
            return 0.0;
        }
        let num_probes = f64::from(self.num_probes);
        let spread = deviation / line.bits as f64 / fill;
        (fill.powf(num_probes) * (1.0 + num_probes * (num_probes - 1.0) / 2.0 * spread * spread)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::theoretical_rate;

    fn plain(bits: u64, num_probes: u8) -> Layout {
        Layout { bits, line_bits: bits, num_probes }
    }

    /// The distribution of the number of set bits after `throws` positions, by its recurrence.
    fn distribution(bits: usize, throws: u64) -> Vec<f64> {
        let mut chance = vec![0.0; bits + 1];
        chance[0] = 1.0;
        for _ in 0..throws {
            for set in (0..=bits).rev() {
                let fresh = if set > 0 { chance[set - 1] * (bits - set + 1) as f64 } else { 0.0 };
                chance[set] = (chance[set] * set as f64 + fresh) / bits as f64;
            }
        }
        chance
    }

    #[test]
    fn one_line_agrees_with_the_exact_distribution() {
        for (bits, num_probes, keys) in
            [(64, 7, 6), (128, 5, 10), (256, 14, 10), (512, 6, 51), (1024, 7, 100)]
        {
            let exact = distribution(bits, keys * u64::from(num_probes));
            let layout = plain(bits as u64, num_probes);
            let mean: f64 = exact.iter().enumerate().map(|(set, p)| p * (bits - set) as f64).sum();
            let square: f64 =
                exact.iter().enumerate().map(|(set, p)| p * ((bits - set) as f64).powi(2)).sum();
            let (zeros, deviation) = layout.zeros(keys as f64);
            assert!((zeros / mean - 1.0).abs() < 1e-9, "{bits} {num_probes} {keys}");
            assert!(
                (deviation / (square - mean * mean).sqrt() - 1.0).abs() < 1e-6,
                "{bits} {num_probes} {keys}"
            );
            let fill = |set: usize| set as f64 / bits as f64;
            let rate: f64 =
                exact.iter().enumerate().map(|(set, p)| p * fill(set).powi(i32::from(num_probes))).sum();
            let expected = layout.expected_rate(keys);
            assert!((expected / rate - 1.0).abs() < 0.01, "{bits} {num_probes} {keys}: {expected} {rate}");
        }
    }

    #[test]
    fn large_filters_have_the_textbook_rate() {
        for (bits, num_probes) in [(10, 7), (20, 13), (8, 4), (2, 1)] {
            let rate = plain(bits * 1_000_000, num_probes).expected_rate(1_000_000);
            assert!(
                (rate / theoretical_rate(bits as f64, num_probes) - 1.0).abs() < 1e-4,
                "{bits} {num_probes}"
            );
        }
    }

    /// RocksDB's comments: the best that 512-bit lines can do is 0.9535 % at 10 bits a key and 6 probes; at 16 bits
    /// their 9 probes measured 0.0843 % and 11 probes 0.0884 %.
    #[test]
    fn cache_lines_cost_what_rocksdb_says() {
        let lines = |bits: u64, num_probes| Layout { bits: bits * 512_000, line_bits: 512, num_probes };
        assert!((lines(10, 6).expected_rate(512_000) / 0.009_535 - 1.0).abs() < 0.015);
        assert!((lines(16, 9).expected_rate(512_000) / 0.000_843 - 1.0).abs() < 0.03);
        assert!((lines(16, 11).expected_rate(512_000) / 0.000_884 - 1.0).abs() < 0.03);
    }

    #[test]
    fn estimates_invert_the_expectation() {
        for layout in [
            plain(64, 3),
            plain(9_600, 7),
            plain(1 << 32, 13),
            Layout { bits: 51_200, line_bits: 512, num_probes: 6 },
        ] {
            for part in [0.001, 0.05, 0.3, 0.5, 0.9] {
                let ones = (layout.bits as f64 * part).max(1.0) as u64;
                let found = layout.cardinality(ones);
                assert!(found.low <= found.estimate && found.estimate <= found.high, "{layout:?} {found:?}");
                if found.estimate > 20.0 {
                    let (zeros, _) = layout.zeros(found.estimate);
                    let back = layout.bits as f64 - zeros;
                    assert!((back / ones as f64 - 1.0).abs() < 1e-6, "{layout:?} {ones} {back}");
                }
            }
        }
    }

    #[test]
    fn edges() {
        let layout = plain(128, 7);
        assert_eq!(layout.cardinality(0), Cardinality { estimate: 0.0, low: 0.0, high: 0.0 });
        let full = layout.cardinality(128);
        assert!(full.estimate.is_infinite() && full.high.is_infinite());
        assert!(full.low > 30.0 && full.low < 120.0, "{full:?}");
        assert_eq!(layout.cardinality(1).low, 1.0);
        assert_eq!(layout.expected_rate(0), 0.0);
        assert!(plain(1, 1).expected_rate(1) > 0.99);
        assert!(layout.expected_rate(u64::MAX) > 0.999);
        assert_eq!(plain(64, 0).cardinality(3).high, f64::INFINITY);
    }
}
