//! From a wanted false-positive rate to the size of a filter.
//!
//! Owns ClickHouse's `calculationBestPractices` with its lookup table, what goes on below the table's floor, and
//! the textbook formulas for the rate of a filter. Pure arithmetic, no state.
//!
//! Terms: `b` is bits per distinct key, `k` the number of probes (hash functions), `p` the false-positive rate:
//! the chance that a filter says "may hold" of a key it does not hold.

use std::f64::consts::LN_2;

/// Smallest filter in bits: one machine word. Below that the textbook rate is far from the real one.
pub const MIN_FILTER_BITS: u64 = 64;

/// Lowest rate ClickHouse's table can give, that of (19, 13). It silently gives no better one when asked.
const TABLE_FLOOR: f64 = 1.09e-4;

/// At and above this rate ClickHouse skips its table, and gives (2, 2).
const TABLE_CEILING: f64 = 0.283;

/// From this rate on its answers are odd ([`calculation_best_practices`]), and above [`TABLE_CEILING`] do not keep the
/// rate.
const ODD_RATES: f64 = 0.221;

/// One more than the most bits per row its search tries.
const MAX_BITS_PER_ROW: usize = 20;

/// No filter over 64-bit hashes can do better: equal hashes cannot be told apart.
const HASH_FLOOR: f64 = 1.0 / 18_446_744_073_709_551_616.0;

/// ClickHouse's `probability_lookup_table` (src/Interpreters/BloomFilterHash.h): the rate by bits per row (index)
/// and number of probes (index in the row, from 0). `(1 - e^(-k/b))^k` to three significant digits, but for
/// `[1][1]` and `[5][3]`, which are as published: the answers depend on the rounding and on these two.
const RATES: [&[f64]; MAX_BITS_PER_ROW] = [
    &[1.0],
    &[1.0, 1.0],
    &[1.0, 0.393, 0.4],
    &[1.0, 0.283, 0.237, 0.253],
    &[1.0, 0.221, 0.155, 0.147, 0.16],
    &[1.0, 0.181, 0.109, 0.092, 0.092, 0.101],
    &[1.0, 0.154, 0.0804, 0.0609, 0.0561, 0.0578, 0.0638],
    &[1.0, 0.133, 0.0618, 0.0423, 0.0359, 0.0347, 0.0364],
    &[1.0, 0.118, 0.0489, 0.0306, 0.024, 0.0217, 0.0216, 0.0229],
    &[1.0, 0.105, 0.0397, 0.0228, 0.0166, 0.0141, 0.0133, 0.0135, 0.0145],
    &[1.0, 0.0952, 0.0329, 0.0174, 0.0118, 0.00943, 0.00844, 0.00819, 0.00846],
    &[1.0, 0.0869, 0.0276, 0.0136, 0.00864, 0.0065, 0.00552, 0.00513, 0.00509],
    &[1.0, 0.08, 0.0236, 0.0108, 0.00646, 0.00459, 0.00371, 0.00329, 0.00314],
    &[1.0, 0.074, 0.0203, 0.00875, 0.00492, 0.00332, 0.00255, 0.00217, 0.00199, 0.00194],
    &[1.0, 0.0689, 0.0177, 0.00718, 0.00381, 0.00244, 0.00179, 0.00146, 0.00129, 0.00121, 0.0012],
    &[1.0, 0.0645, 0.0156, 0.00596, 0.003, 0.00183, 0.00128, 0.001, 0.000852, 0.000775, 0.000744],
    &[
        1.0, 0.0606, 0.0138, 0.005, 0.00239, 0.00139, 0.000935, 0.000702, 0.000574, 0.000505, 0.00047,
        0.000459,
    ],
    &[
        1.0, 0.0571, 0.0123, 0.00423, 0.00193, 0.00107, 0.000692, 0.000499, 0.000394, 0.000335, 0.000302,
        0.000287, 0.000284,
    ],
    &[
        1.0, 0.054, 0.0111, 0.00362, 0.00158, 0.000839, 0.000519, 0.00036, 0.000275, 0.000226, 0.000198,
        0.000183, 0.000176,
    ],
    &[
        1.0, 0.0513, 0.00998, 0.00312, 0.0013, 0.000663, 0.000394, 0.000264, 0.000194, 0.000155, 0.000132,
        0.000118, 0.000111, 0.000109,
    ],
];

/// Number of probes with the lowest rate, by bits per row: ClickHouse's `min_probability_index_each_bits`.
const BEST_PROBES: [usize; MAX_BITS_PER_ROW] =
    [0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 8, 9, 10, 10, 11, 12, 12, 13];

/// ClickHouse's `calculationBestPractices`: `(bits per row, probes)` for a wanted false-positive rate.
///
/// The fewest bits that can reach the rate, then the fewest probes that reach it with so many bits. Two oddities
/// of the original are kept, because agreeing with it is the point: rates in [0.221, 0.237) give (19, 13), and so
/// does everything below 1.09e-4 ([`Sizing::for_rate`] goes on below). A rate that is not a number gives (19, 13).
pub fn calculation_best_practices(rate: f64) -> (u32, u32) {
    if rate >= TABLE_CEILING {
        return (2, 2);
    }
    for (bits, (rates, &best)) in RATES.iter().zip(&BEST_PROBES).enumerate().skip(1) {
        if rates[best] <= rate {
            // Even one probe may do, and then nothing is returned here: that is the (19, 13) oddity.
            if let Some(too_few) = (1..=best).rev().find(|&num_probes| rates[num_probes] > rate) {
                return (bits as u32, too_few as u32 + 1);
            }
        }
    }
    (MAX_BITS_PER_ROW as u32 - 1, BEST_PROBES[MAX_BITS_PER_ROW - 1] as u32)
}

/// How big a filter is: bits for each distinct key, and probes for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// Bits of filter for each distinct key.
    pub bits_per_row: u32,
    /// Probes for each key: bits it sets, and bits that are looked at.
    pub num_probes: u8,
}

impl Sizing {
    /// The sizing for a wanted false-positive rate, or None unless `0 < rate < 1`.
    ///
    /// From 1.09e-4 up to 0.221 it is [`calculation_best_practices`]. Above, where that is odd, it is what that was
    /// meant to be: the fewest bits, and then the fewest probes, that reach the rate. Below, where that stops, the
    /// optimum goes on in closed form: `bits = ceil(-ln p / ln² 2)`, `k = round(bits · ln 2)`; from 2^-64 down it stays
    /// the same, since no filter over 64-bit hashes can reach a lower rate.
    pub fn for_rate(rate: f64) -> Option<Sizing> {
        if !(rate > 0.0 && rate < 1.0) {
            return None;
        }
        if rate >= ODD_RATES {
            return Some(Self::fewest(rate));
        }
        if rate >= TABLE_FLOOR {
            let (bits, num_probes) = calculation_best_practices(rate);
            return Some(Sizing { bits_per_row: bits, num_probes: num_probes as u8 });
        }
        let bits = (-rate.max(HASH_FLOOR).ln() / (LN_2 * LN_2)).ceil();
        let num_probes = (bits * LN_2).round(); // at most 64 by HASH_FLOOR
        Some(Sizing { bits_per_row: bits as u32, num_probes: num_probes as u8 })
    }

    /// The fewest bits, and then the fewest probes, for one of the rates that few bits are enough for.
    fn fewest(rate: f64) -> Sizing {
        let mut few =
            (1..4).flat_map(|bits| (1..=2).map(move |num_probes| Sizing { bits_per_row: bits, num_probes }));
        let reaches =
            |sizing: &Sizing| theoretical_rate(sizing.bits_per_row.into(), sizing.num_probes) <= rate;
        few.find(reaches).unwrap_or(Sizing { bits_per_row: 4, num_probes: 2 })
    }

    /// Bits of a filter for `distinct` keys: `bits_per_row * distinct`, at least [`MIN_FILTER_BITS`], rounded up
    /// to a multiple of 64. Saturates at the largest multiple of 64 in a u64.
    pub fn filter_bits(self, distinct: u64) -> u64 {
        let bits = u64::from(self.bits_per_row).saturating_mul(distinct).max(MIN_FILTER_BITS);
        bits.checked_next_multiple_of(64).unwrap_or(u64::MAX - 63)
    }
}

/// The expected rate of a filter with `bits_per_row` bits a key and `num_probes` probes: `(1 - e^(-k/b))^k`.
pub fn theoretical_rate(bits_per_row: f64, num_probes: u8) -> f64 {
    (-(-f64::from(num_probes) / bits_per_row).exp_m1()).powi(i32::from(num_probes))
}

/// About the rate that filters with so many probes were made for, rather too high: 2^(1.25 - k). At a rate that
/// [`Sizing::for_rate`] has the optimum for, half of the bits are set, and the rate is 2^-k; the number of probes is
/// rounded.
pub fn rate_of_probes(num_probes: u8) -> f64 {
    f64::exp2(1.25 - f64::from(num_probes))
}

/// The rate of a filter of which the part `fill` (0 to 1) of the bits is set: `fill^k`.
pub fn rate_at_fill(fill: f64, num_probes: u8) -> f64 {
    fill.powi(i32::from(num_probes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn rates_out_of_bounds_give_none() {
        for rate in [f64::NAN, 0.0, -0.0, -1.0, 1.0, 2.0, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Sizing::for_rate(rate), None, "{rate}");
        }
    }

    #[test]
    fn below_the_floor_the_closed_form_goes_on() {
        let sizing = |rate| Sizing::for_rate(rate).map(|s| (s.bits_per_row, s.num_probes)).unwrap();
        assert_eq!(sizing(1.09e-4), (19, 13));
        assert_eq!(sizing(1.089e-4), (19, 13));
        assert_eq!(sizing(1e-4), (20, 14));
        assert_eq!(sizing(1e-5), (24, 17));
        assert_eq!(sizing(1e-6), (29, 20));
        assert_eq!(sizing(1e-9), (44, 30));
        assert_eq!(sizing(f64::MIN_POSITIVE), (93, 64));
        assert_eq!(sizing(5e-324), (93, 64));
    }

    /// Every sizing reaches the rate it was asked for, to the three digits of the table.
    #[test]
    fn sizing_reaches_the_rate() {
        for step in 1..20_000 {
            let rate = 10f64.powf(-f64::from(step) / 2000.0);
            let sizing = Sizing::for_rate(rate).unwrap();
            if rate < 0.2 {
                let real = theoretical_rate(f64::from(sizing.bits_per_row), sizing.num_probes);
                assert!(real <= rate * 1.006, "{rate}: {sizing:?} gives {real}");
            }
        }
    }

    #[test]
    fn filter_bits_rounds_and_saturates() {
        let sizing = Sizing { bits_per_row: 10, num_probes: 7 };
        assert_eq!(sizing.filter_bits(0), 64);
        assert_eq!(sizing.filter_bits(1), 64);
        assert_eq!(sizing.filter_bits(6), 64);
        assert_eq!(sizing.filter_bits(7), 128);
        assert_eq!(sizing.filter_bits(2400), 24_000);
        assert_eq!(sizing.filter_bits(2401), 24_064);
        assert_eq!(sizing.filter_bits(u64::MAX), u64::MAX - 63);
        assert_eq!(sizing.filter_bits(u64::MAX / 10), u64::MAX - 63);
    }

    #[test]
    fn rates_by_formula() {
        assert!((theoretical_rate(10.0, 7) - 0.008_194).abs() < 1e-6);
        assert!((theoretical_rate(20.0, 13) - 6.79e-5).abs() < 1e-7);
        assert!((rate_at_fill(0.5, 10) - 1.0 / 1024.0).abs() < 1e-12);
        assert_eq!(rate_at_fill(0.0, 7), 0.0);
        assert_eq!(rate_at_fill(1.0, 7), 1.0);
    }
}
