//! A policy and a filter's numbers, checked against each other.

use super::error::PolicyError;
use super::filter_policy::FilterPolicy;
use super::geometry::{Geometry, Size};
use super::theory::Layout;

/// What a filter is, without its bits. Invariant: the numbers are within the policy's limits.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    policy: &'static dyn FilterPolicy,
    geometry: Geometry,
}

impl Shape {
    /// The shape of these numbers.
    ///
    /// # Errors
    /// A number that filters of the policy cannot have.
    pub fn new(policy: &'static dyn FilterPolicy, geometry: Geometry) -> Result<Self, PolicyError> {
        let (limits, name) = (policy.limits(), policy.name());
        let Geometry { bits, num_probes, seed } = geometry;
        if !(limits.min_bits..=limits.max_bits).contains(&bits) || !bits.is_multiple_of(limits.bits_step) {
            let allowed = (limits.min_bits, limits.max_bits, limits.bits_step);
            return Err(PolicyError::Bits { policy: name, bits, allowed });
        }
        if !(1..=limits.max_probes).contains(&num_probes) {
            return Err(PolicyError::Probes { policy: name, num_probes, most: limits.max_probes });
        }
        if seed != 0 && !limits.seeded {
            return Err(PolicyError::Seed { policy: name });
        }
        Ok(Self { policy, geometry })
    }

    /// The shape of a filter for `keys` distinct keys.
    ///
    /// # Errors
    /// A rate, or a number of bits per key, that no filter has, or that the policy does not have.
    pub fn for_keys(
        policy: &'static dyn FilterPolicy,
        keys: u64,
        size: Size,
        seed: u64,
    ) -> Result<Self, PolicyError> {
        let geometry = match size {
            Size::Rate(rate) if rate > 0.0 && rate < 1.0 => policy.for_rate(keys, rate)?,
            Size::Rate(rate) => return Err(PolicyError::Rate(rate)),
            Size::BitsPerKey(bits) if bits >= Size::MIN_BITS_PER_KEY && bits.is_finite() => {
                policy.for_bits_per_key(keys, bits)
            }
            Size::BitsPerKey(bits) => return Err(PolicyError::BitsPerKey(bits)),
            Size::Fixed { bytes, num_probes } => Geometry { bits: bytes.saturating_mul(8), num_probes, seed },
        };
        Self::new(policy, Geometry { seed, ..geometry })
    }

    /// The policy.
    pub fn policy(&self) -> &'static dyn FilterPolicy {
        self.policy
    }

    /// The numbers.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Bytes of the bits. Worth a look before a filter of a shape from outside is made.
    pub fn body_bytes(&self) -> u64 {
        self.policy.body_bytes(self.geometry.bits)
    }

    /// The number of words of memory that adding `keys` keys at once can make use of.
    pub fn room(&self, keys: usize) -> usize {
        self.policy.room(&self.geometry, keys)
    }

    /// How the bits are filled.
    pub fn layout(&self) -> Layout {
        let Geometry { bits, num_probes, .. } = self.geometry;
        Layout { bits, line_bits: self.policy.limits().line_bits.unwrap_or(bits), num_probes }
    }

    /// The rate to expect of a filter of `keys` keys: that of the bits, and that of two keys having the same hash.
    pub fn expected_rate(&self, keys: u64) -> f64 {
        let by_bits = self.layout().expected_rate(keys);
        let hashes = f64::from(self.policy.limits().hash_bits).exp2();
        let by_hash = -(-(keys as f64) / hashes).exp_m1();
        by_bits + by_hash - by_bits * by_hash
    }

    /// The shape with the `by`-th part of the bits, if filters can be folded to it.
    pub fn folded(&self, by: u64) -> Option<Self> {
        let whole = by > 0 && self.geometry.bits.is_multiple_of(by);
        let shape =
            Self::new(self.policy, Geometry { bits: self.geometry.bits / by.max(1), ..self.geometry }).ok();
        shape.filter(|_| whole && self.policy.folded(0, &self.geometry, by).is_some())
    }

    /// Compares the shape with another one.
    ///
    /// # Errors
    /// The two differ: the error names both.
    pub fn must_equal(&self, other: &Shape) -> Result<(), PolicyError> {
        let of = |shape: &Shape| (shape.policy.name(), shape.geometry);
        if of(self) == of(other) {
            return Ok(());
        }
        Err(PolicyError::Mismatch { left: of(self), right: of(other) })
    }
}

impl PartialEq for Shape {
    /// Policies are the same if their names are.
    fn eq(&self, other: &Self) -> bool {
        self.must_equal(other).is_ok()
    }
}

impl Eq for Shape {}
