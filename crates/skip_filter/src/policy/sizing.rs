//! The formulas of the literature between keys, bits, probes and false-positive rate, in both directions.
//!
//! Terms: `n` keys, `m` bits, `k` probes, `p` the false-positive rate, `b = m / n` bits a key.
//!
//! | wanted | formula | function |
//! |---|---|---|
//! | rate | `p = (1 - e^(-kn/m))^k` | [`theoretical_rate`](crate::theoretical_rate) |
//! | probes | `k = m/n · ln 2` | [`optimal_probes`], [`whole_probes`] |
//! | bits | `m = -n · ln p / ln² 2` | [`optimal_bits`], [`optimal_bits_per_key`] |
//! | keys | `n = -m · ln² 2 / ln p` | [`capacity`] |
//!
//! Bloom (1970) for the filter; the forms used here are in Broder and Mitzenmacher, "Network applications of Bloom
//! filters" (2004), section 2. Pure arithmetic: what the four policies make of it is in their own files, and what
//! the formulas leave out (small filters, cache lines) in [`theory`](super::theory).

use std::f64::consts::LN_2;

/// Probes with the lowest rate for `b` bits per key: `b · ln 2`.
pub fn optimal_probes(bits_per_key: f64) -> f64 {
    bits_per_key * LN_2
}

/// The whole number of probes next to the optimum, within `1..=most`.
pub fn whole_probes(bits_per_key: f64, most: u8) -> u8 {
    optimal_probes(bits_per_key).round().clamp(1.0, f64::from(most.max(1))) as u8
}

/// Bits a key for a rate, with the optimal number of probes: `-ln p / ln² 2`.
pub fn optimal_bits_per_key(rate: f64) -> f64 {
    -rate.ln() / (LN_2 * LN_2)
}

/// Bits of a filter for `n` keys at rate `p`: `-n · ln p / ln² 2`, not rounded.
pub fn optimal_bits(keys: u64, rate: f64) -> f64 {
    keys as f64 * optimal_bits_per_key(rate)
}

/// Keys that a filter of `bits` bits can take in before its rate is above `rate`, not rounded.
pub fn capacity(bits: u64, rate: f64) -> f64 {
    bits as f64 / optimal_bits_per_key(rate)
}

/// `bits_per_key · keys` rounded up, at least `least`. Saturates.
pub(crate) fn bits_for(keys: u64, bits_per_key: f64, least: u64) -> u64 {
    // Exact up to 2^53 bits, far above every policy's limit; `as` saturates.
    ((keys as f64 * bits_per_key).ceil() as u64).max(least)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::theoretical_rate;

    /// Bits and probes as the documentation of Redis has them, for 1, 0.1 and 0.01 percent.
    #[test]
    fn bits_and_probes_of_common_rates() {
        for (rate, bits, num_probes) in [(0.01, 9.585, 7), (0.001, 14.378, 10), (0.0001, 19.170, 13)] {
            assert!((optimal_bits_per_key(rate) - bits).abs() < 6e-4, "{rate}");
            assert_eq!(whole_probes(optimal_bits_per_key(rate), 30), num_probes, "{rate}");
        }
    }

    /// ClickHouse's worked example: 4,300 n-grams at 1e-4 want 10,304 bytes and 13 functions.
    #[test]
    fn a_worked_example() {
        let bits = optimal_bits(4_300, 1e-4);
        assert_eq!((bits / 8.0).ceil(), 10_304.0);
        assert_eq!(whole_probes(bits / 4_300.0, 30), 13);
        assert_eq!(capacity(10_304 * 8, 1e-4).floor(), 4_300.0);
    }

    /// From rate to bits and probes and back: with k not rounded, the rate is met exactly.
    #[test]
    fn there_and_back() {
        for rate in [0.3f64, 0.1, 0.01, 1e-3, 1e-6] {
            let bits = optimal_bits_per_key(rate);
            let num_probes = optimal_probes(bits);
            let back = (-(-num_probes / bits).exp_m1()).powf(num_probes);
            assert!((back / rate - 1.0).abs() < 1e-9, "{rate}: {back}");
            assert!((capacity(optimal_bits(1_000_000, rate) as u64, rate) - 1e6).abs() < 1.0);
        }
    }

    /// `(1 - e^(-kn/m))^k`: Fan et al., "Summary cache" (2000), table 1: m/n = 8 and 4 hash functions give 0.0240,
    /// m/n = 10 and 7 give 0.00819, m/n = 16 and 11 give 0.000459.
    #[test]
    fn rates_of_a_published_table() {
        for (bits, num_probes, rate) in [(8.0, 4, 0.0240), (10.0, 7, 0.00819), (16.0, 11, 0.000459)] {
            assert!((theoretical_rate(bits, num_probes) / rate - 1.0).abs() < 2e-3, "{bits} {num_probes}");
        }
    }

    #[test]
    fn rounding_and_edges() {
        assert_eq!(whole_probes(0.1, 30), 1);
        assert_eq!(whole_probes(100.0, 30), 30);
        assert_eq!(whole_probes(10.0, 0), 1);
        assert_eq!(bits_for(0, 10.0, 64), 64);
        assert_eq!(bits_for(7, 9.5, 1), 67);
        assert_eq!(bits_for(u64::MAX, 100.0, 64), u64::MAX);
    }
}
