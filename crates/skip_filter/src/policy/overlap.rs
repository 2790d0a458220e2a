//! How many keys two filters of one shape have in common, from the set bits of both and of their union.
//!
//! By inclusion and exclusion: `|a ∩ b| = |a| + |b| − |a ∪ b|`. The bits of `a & b` do not tell it: most of those that
//! are set there come from different keys.
//!
//! With `s` the chance that a key leaves a bit alone, `Z` numbers of zero bits and `z` common keys, the union is
//! expected to have `Za · Zb / (m · s^z)` of them. The estimate solves that for `z`. For the bounds the difference of
//! both sides is measured against its standard deviation. Relative to their means, the zeros of two sets of keys have a
//! covariance that depends on the keys that are in both only ([`Layout::relative_covariance`]), so that the difference
//! has the variance `r(|a ∪ b|) − r(|a|) − r(|b|) + 2 r(z)`. For `a = b` this is the variance of a single filter, and
//! the bounds are its. They are whole numbers, rounded outwards. `tests/policy_overlap.rs` counts how many of them hold
//! the truth.

use super::theory::{Cardinality, Layout, SIGMAS};

/// Steps of a bisection, more than the 53 binary digits of a double.
const STEPS: usize = 64;

/// Number of keys at which the search for an upper bound ends: more than any server stores.
const MOST: f64 = 1e18;

impl Layout {
    /// The number of keys that two filters have in common: from the number of set bits of the one, the other, and of
    /// the bits that are set in any of them.
    pub fn common(self, one: u64, other: u64, any: u64) -> Cardinality {
        let nothing = Cardinality { estimate: 0.0, low: 0.0, high: 0.0 };
        // Keys in common set bits in common.
        if self.num_probes == 0 || one.saturating_add(other) <= any {
            return nothing;
        }
        let (keys, others) = (self.cardinality(one), self.cardinality(other));
        let most = keys.high.min(others.high);
        let seen = self.bits.saturating_sub(any) as f64;
        let expected = ExpectedOverlap::new(self, one, other, (keys.estimate, others.estimate));
        if seen == 0.0 || !expected.is_known() {
            // Every bit is set: nothing is known but how many keys there can be at all.
            let estimate = if expected.is_known() { 0.0 } else { keys.estimate.min(others.estimate) };
            return Cardinality { estimate, low: 0.0, high: most.ceil() };
        }
        let low = first(most, |common| expected.zeros(common, SIGMAS) >= seen).floor();
        let high = first(most, |common| expected.zeros(common, -SIGMAS) > seen).ceil();
        let (low, high) = (low.min(high), high.max(low));
        Cardinality { estimate: expected.common(seen).clamp(low, high), low, high }
    }

    /// The covariance of the numbers of bits that two sets of keys leave zero, as a part of the product of their means,
    /// if they have `common` keys in common.
    fn relative_covariance(self, common: f64) -> f64 {
        if common <= 0.0 {
            return 0.0;
        }
        let (bits, line, lines) = (self.bits as f64, self.line_bits as f64, self.lines());
        let log = |hit: f64| (-hit / lines).ln_1p();
        let one = log(self.hit(1.0));
        let part = |log: f64| (common * log).exp_m1();
        let other_lines = if lines > 1.0 { part(log(2.0 * self.hit(1.0)) - 2.0 * one) } else { 0.0 };
        let same_line = if line > 1.0 { part(log(self.hit(2.0)) - 2.0 * one) } else { 0.0 };
        (part(-one) + (line - 1.0) * same_line + (bits - line) * other_lines) / bits
    }
}

/// What is expected of the union of two filters.
struct ExpectedOverlap {
    layout: Layout,
    /// Logarithm of the number of bits that are zero in the union of filters without a common key.
    apart: f64,
    /// Logarithm of the chance that a key leaves a bit alone.
    one: f64,
    keys: (f64, f64),
}

impl ExpectedOverlap {
    fn new(layout: Layout, one: u64, other: u64, keys: (f64, f64)) -> Self {
        let zeros = |ones: u64| (layout.bits.saturating_sub(ones) as f64).ln();
        Self {
            layout,
            apart: zeros(one) + zeros(other) - (layout.bits as f64).ln(),
            one: (-layout.hit(1.0) / layout.lines()).ln_1p(),
            keys,
        }
    }

    /// Not if a filter is full.
    fn is_known(&self) -> bool {
        self.apart.is_finite() && self.one.is_finite()
    }

    /// The number of common keys for which `zeros` zeros are expected.
    fn common(&self, zeros: f64) -> f64 {
        (self.apart - zeros.ln()) / self.one
    }

    /// The number of zeros that lies `sigmas` standard deviations above what is expected with `common` common keys.
    fn zeros(&self, common: f64, sigmas: f64) -> f64 {
        let mean = (self.apart - common * self.one).exp();
        // Each has those that are common.
        let (keys, others) = (self.keys.0.max(common), self.keys.1.max(common));
        let part = |keys| self.layout.relative_covariance(keys);
        let variance = part(keys + others - common) - part(keys) - part(others) + 2.0 * part(common);
        mean * (1.0 + sigmas * variance.max(0.0).sqrt())
    }
}

/// The least number up to `most` for which a condition holds that holds for all larger ones, else `most`.
fn first(most: f64, holds: impl Fn(f64) -> bool) -> f64 {
    if holds(0.0) {
        return 0.0;
    }
    let mut high = 1.0;
    while !holds(high) {
        if high >= most.min(MOST) {
            return most;
        }
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        *(if holds(middle) { &mut high } else { &mut low }) = middle;
    }
    high.min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUTS: [Layout; 3] = [
        Layout { bits: 9_600, line_bits: 9_600, num_probes: 7 },
        Layout { bits: 64, line_bits: 64, num_probes: 5 },
        Layout { bits: 51_200, line_bits: 512, num_probes: 6 },
    ];

    #[test]
    fn covariance_with_itself_is_the_variance() {
        for layout in LAYOUTS {
            for keys in [1.0, 5.0, 20.0] {
                let (mean, deviation) = layout.zeros(keys);
                let variance = layout.relative_covariance(keys) * mean * mean;
                assert!((variance.sqrt() / deviation - 1.0).abs() < 1e-6, "{layout:?} {keys}");
            }
        }
    }

    #[test]
    fn a_filter_has_all_its_keys_in_common_with_itself() {
        for layout in LAYOUTS {
            let ones = layout.bits / 4;
            let (common, own) = (layout.common(ones, ones, ones), layout.cardinality(ones));
            // Of a single filter it is also counted how many keys its set bits need at least.
            for (of_both, of_one, off) in [
                (common.estimate, own.estimate, 0.5),
                (common.low, own.low, 1.5),
                (common.high, own.high, 1.5),
            ] {
                assert!((of_both - of_one).abs() <= off, "{common:?} {own:?}");
            }
        }
    }

    #[test]
    fn edges() {
        for layout in LAYOUTS {
            let full = layout.bits;
            assert_eq!(layout.common(0, 5, 5).high, 0.0);
            assert_eq!(layout.common(5, 5, 10).high, 0.0);
            let found = layout.common(full, full, full);
            assert!(found.low == 0.0 && found.high.is_infinite() && found.estimate.is_infinite());
            let found = layout.common(full, 7, full);
            assert!(found.low == 0.0 && found.high >= 1.0 && found.estimate <= found.high, "{found:?}");
            let found = layout.common(full - 1, full - 1, full);
            assert!(found.low == 0.0 && found.high > 3.0 && found.estimate <= found.high, "{found:?}");
        }
        assert_eq!(Layout { num_probes: 0, ..LAYOUTS[0] }.common(1, 1, 1).high, 0.0);
    }
}
