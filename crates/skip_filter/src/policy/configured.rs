//! A policy with its parameters: LevelDB's `FilterPolicy` object, from keys to bytes and back.
//!
//! The simplest way in, for filters that are made once from all their keys and then only asked. Whatever is not known
//! (a policy, an encoding, a size that bytes do not tell) answers "may match", never "no".

use super::bloom::BloomFilter;
use super::error::PolicyError;
use super::filter_policy::FilterPolicy;
use super::geometry::{Geometry, Size};
use super::prefix::KeyPieces;
use super::registry::by_name;
use super::shape::Shape;
use crate::DistinctHashes;

/// A policy, how big its filters are, what keys are hashed under, and which parts of them.
#[derive(Clone, Copy, Debug)]
pub struct ConfiguredPolicy {
    policy: &'static dyn FilterPolicy,
    size: Size,
    seed: u64,
    parts: KeyPieces,
}

impl ConfiguredPolicy {
    /// Whole keys, without a seed.
    ///
    /// # Errors
    /// The policy has no filter of this size for one key.
    pub fn new(policy: &'static dyn FilterPolicy, size: Size) -> Result<Self, PolicyError> {
        Self { policy, size, seed: 0, parts: KeyPieces::WHOLE }.checked()
    }

    /// The same with a seed.
    ///
    /// # Errors
    /// The policy has no seed.
    pub fn with_seed(self, seed: u64) -> Result<Self, PolicyError> {
        Self { seed, ..self }.checked()
    }

    /// The same with other parts of keys.
    pub fn with_parts(self, parts: KeyPieces) -> Self {
        Self { parts, ..self }
    }

    fn checked(self) -> Result<Self, PolicyError> {
        Shape::for_keys(self.policy, 1, self.size, self.seed).map(|_| self)
    }

    /// The policy's name.
    pub fn name(&self) -> &'static str {
        self.policy.name()
    }

    /// The filter of these keys, sized by the exact number of distinct parts of them.
    ///
    /// # Errors
    /// The policy has no filter of this size for that number of keys.
    pub fn build<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<BloomFilter, PolicyError> {
        let mut distinct = DistinctHashes::new();
        for key in keys {
            for part in self.parts.to_add(key.as_ref()) {
                distinct.insert(self.policy.hash(self.seed, part));
            }
        }
        let shape = Shape::for_keys(self.policy, distinct.len() as u64, self.size, self.seed)?;
        let mut filter = BloomFilter::new(shape);
        filter.insert_hashes(distinct.as_slice());
        Ok(filter)
    }

    /// The encoded filter of these keys.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn create_filter<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<u8>, PolicyError> {
        Ok(self.build(keys)?.export())
    }

    /// Whether a key may be among those that an encoded filter was made from.
    pub fn key_may_match(&self, key: &[u8], encoded: &[u8]) -> bool {
        self.parts.to_find(key).is_none_or(|part| self.part_may_match(part, encoded))
    }

    /// Whether a key that begins so may be among those that an encoded filter was made from.
    pub fn prefix_may_match(&self, begin: &[u8], encoded: &[u8]) -> bool {
        self.parts.to_find_prefix(begin).is_none_or(|part| self.part_may_match(part, encoded))
    }

    fn part_may_match(&self, part: &[u8], encoded: &[u8]) -> bool {
        BloomFilter::import(self.policy, encoded, self.given(encoded))
            .map_or(true, |filter| filter.may_contain(part))
    }

    /// The numbers of a filter whose encoding does not hold them: the length tells the bits, if they are not fixed.
    fn given(&self, encoded: &[u8]) -> Option<Geometry> {
        let shape = Shape::for_keys(self.policy, 1, self.size, self.seed).ok()?;
        let geometry = *shape.geometry();
        match self.size {
            Size::Fixed { .. } => Some(geometry),
            _ => Some(Geometry { bits: encoded.len() as u64 * 8, ..geometry }),
        }
    }
}

/// Whether a key may be in an encoded filter of the policy with this name: true for names and encodings that this
/// build does not know, and for those that do not tell their numbers.
pub fn key_may_match(policy: &str, key: &[u8], encoded: &[u8]) -> bool {
    by_name(policy).is_none_or(|policy| {
        BloomFilter::import(policy, encoded, None).map_or(true, |filter| filter.may_contain(key))
    })
}
