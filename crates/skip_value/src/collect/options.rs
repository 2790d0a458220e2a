//! What is collected, and within which bounds.

use crate::header::MOST_MEMBERS;
use skip_filter::policy::{FilterPolicy, PolicyError, Shape, Size};
use thiserror::Error;

/// The most bytes of all filters of a value: a server's values end at 1 GB, and the header must fit, too.
pub(super) const MOST_BYTES: u64 = (1 << 30) - (1 << 16);

/// What a collector is to make. The same for all groups of an aggregate, and in all of its processes.
#[derive(Clone, Copy, Debug)]
pub struct CollectorOptions {
    /// The policy of the filter.
    pub policy: &'static dyn FilterPolicy,
    /// How big it shall be.
    pub size: Size,
    /// What keys are hashed under.
    pub seed: u64,
    /// The expected number of distinct keys: the filter is made for it. Else, it is made for those that come.
    pub expected: Option<u64>,
    /// Bytes that exact hashes may take.
    pub bound: usize,
    /// An estimate of the number of rows that will come, over all processes.
    pub guess: u64,
    /// Whether other processes collect other parts of the keys.
    pub is_partial: bool,
    /// Orders exact hashes in memory. A random number, which nobody can know who chooses keys; each process has its
    /// own.
    pub secret: u64,
}

impl PartialEq for CollectorOptions {
    /// What may differ between parts that are to be combined is left out.
    fn eq(&self, other: &Self) -> bool {
        let of = |options: &Self| (options.policy.code(), options.size, options.seed, options.expected);
        of(self) == of(other)
    }
}

/// All that tells options from others, for maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OptionsKey {
    policy: u8,
    size: (u8, u64, u8),
    seed: u64,
    expected: Option<u64>,
    bound: usize,
    guess: u64,
    is_partial: bool,
    secret: u64,
}

impl CollectorOptions {
    /// The same for the same options only.
    pub fn key(&self) -> OptionsKey {
        let size = match self.size {
            Size::Rate(rate) => (0, rate.to_bits(), 0),
            Size::BitsPerKey(bits) => (1, bits.to_bits(), 0),
            Size::Fixed { bytes, num_probes } => (2, bytes, num_probes),
        };
        let &Self { seed, expected, bound, guess, is_partial, secret, .. } = self;
        OptionsKey { policy: self.policy.code(), size, seed, expected, bound, guess, is_partial, secret }
    }

    /// The filter's shape where it does not depend on the keys.
    ///
    /// # Errors
    /// As [`shape_for`](Self::shape_for).
    pub fn fixed_shape(&self) -> Result<Option<Shape>, CollectError> {
        match (self.size, self.expected) {
            (Size::Fixed { .. }, _) => self.shape_for(0).map(Some),
            (_, Some(expected)) => self.shape_for(expected).map(Some),
            _ => Ok(None),
        }
    }

    /// The shape of a filter for `keys` keys.
    ///
    /// # Errors
    /// The filter would be too large, or the policy has none of this size or rate.
    pub fn shape_for(&self, keys: u64) -> Result<Shape, CollectError> {
        let shape = Shape::for_keys(self.policy, keys, self.size, self.seed)?;
        if shape.body_bytes() > MOST_BYTES { Err(CollectError::TooLarge { keys }) } else { Ok(shape) }
    }

    /// The rate that is promised.
    pub(super) fn rate(&self) -> Result<f64, CollectError> {
        const MANY: u64 = 100_000;
        match self.size {
            Size::Rate(rate) => Ok(rate),
            _ => Ok(Shape::for_keys(self.policy, MANY, self.size, self.seed)?.expected_rate(MANY)),
        }
    }
}

/// Keys cannot be collected as asked.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum CollectError {
    /// The policy cannot do it.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The filter would be larger than a value can be.
    #[error("a filter for {keys} keys would be larger than 1 GB")]
    TooLarge {
        /// The number of keys it would be for.
        keys: u64,
    },
    /// Parts have become filters of more sizes than a value can have members.
    #[error("the parts have become filters of more than {MOST_MEMBERS} different sizes")]
    TooManySizes,
    /// States of different options cannot be combined.
    #[error("parts of one filter were collected with different parameters")]
    Options,
    /// States of keys of different types or collations cannot be combined.
    #[error("parts of one filter have keys of different types or collations")]
    Keys,
    /// Bytes that are no state.
    #[error("bytes that are no state of this aggregate")]
    Wire,
}
