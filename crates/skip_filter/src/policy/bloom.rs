//! A filter of any policy: its shape and its bits.
//!
//! Owns what is the same for all policies: keys go in and are asked for, filters are put together, set bits are counted
//! and read as a number of keys and a rate. The bits may be owned ([`AlignedBytes`], `Vec<u8>`) or borrowed (`&[u8]`,
//! as they lie in a stored value): everything that only reads works on both.
//!
//! Invariants: the body has the length its shape says; bits that no probe can reach are zero.

use super::aligned::AlignedBytes;
use super::error::PolicyError;
use super::filter_policy::FilterPolicy;
use super::geometry::Geometry;
use super::shape::Shape;
use super::theory::Cardinality;
use std::borrow::Cow;

/// A filter. Without parameters, one that owns its bits.
#[derive(Clone, Debug)]
pub struct BloomFilter<B = AlignedBytes> {
    shape: Shape,
    body: B,
}

impl BloomFilter {
    /// An empty filter. Look at [`Shape::body_bytes`] first where the shape comes from outside.
    pub fn new(shape: Shape) -> Self {
        Self { shape, body: AlignedBytes::zeros(shape.body_bytes() as usize) }
    }
}

impl<'a> BloomFilter<Cow<'a, [u8]>> {
    /// The filter that an encoding of a policy holds, where it lies if its body is there as a whole. See
    /// [`FilterPolicy::read`], which judges the length.
    ///
    /// # Errors
    /// The bytes are no filter of the policy, or it does not know their numbers.
    pub fn import(
        policy: &'static dyn FilterPolicy,
        encoded: &'a [u8],
        given: Option<Geometry>,
    ) -> Result<Self, PolicyError> {
        let shape = Shape::new(policy, policy.read(encoded, given)?)?;
        let body = match encoded.get(..shape.body_bytes() as usize) {
            Some(body) => Cow::Borrowed(body),
            None if encoded.len() as u64 == policy.stored_bytes(shape.geometry().bits) => {
                let mut body = encoded.to_vec();
                body.resize(shape.body_bytes() as usize, 0);
                Cow::Owned(body)
            }
            None => Cow::Borrowed(encoded),
        };
        Self::from_parts(shape, body)
    }
}

impl<B: AsRef<[u8]>> BloomFilter<B> {
    /// A filter of these bits, as [`body`](Self::body) gave them.
    ///
    /// # Errors
    /// The number of bytes is not that of the shape, or bits behind the last one are set.
    pub fn from_parts(shape: Shape, body: B) -> Result<Self, PolicyError> {
        let (expected, found) = (shape.body_bytes(), body.as_ref().len() as u64);
        if expected != found {
            return Err(PolicyError::Length { expected, found });
        }
        if body.as_ref()[(shape.geometry().bits / 8) as usize..].iter().any(|&byte| byte != 0) {
            return Err(PolicyError::Encoding {
                policy: shape.policy().name(),
                reason: "bits are set beyond its size",
            });
        }
        Ok(Self { shape, body })
    }

    /// The same filter with bits of its own.
    pub fn to_owned(&self) -> BloomFilter {
        BloomFilter { shape: self.shape, body: self.body().into() }
    }

    /// What the filter is.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The bits.
    pub fn body(&self) -> &[u8] {
        self.body.as_ref()
    }

    /// The filter as the system its policy comes from stores it.
    pub fn export(&self) -> Vec<u8> {
        let (policy, bits) = (self.shape.policy(), self.shape.geometry().bits);
        let trailer = policy.trailer(self.shape.geometry());
        let stored = self.body().get(..policy.stored_bytes(bits) as usize).unwrap_or(self.body());
        // A filter may have a gigabyte: the vector must not grow.
        let mut encoded = Vec::with_capacity(stored.len() + trailer.len());
        encoded.extend_from_slice(stored);
        encoded.extend_from_slice(&trailer);
        encoded
    }

    /// Whether the filter may hold a key: false is certain, true is not.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(self.hash(key))
    }

    /// Whether the filter may hold the key of a hash.
    pub fn may_contain_hash(&self, key: u64) -> bool {
        self.shape.policy().test(self.body(), self.shape.geometry(), key)
    }

    /// The hash of a key in this filter's policy and seed.
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.shape.policy().hash(self.shape.geometry().seed, key)
    }

    /// Number of bits that are set.
    pub fn count_ones(&self) -> u64 {
        let (words, rest) = self.body().as_chunks::<8>();
        let words: u64 = words.iter().map(|word| u64::from(u64::from_le_bytes(*word).count_ones())).sum();
        words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
    }

    /// Number of bits that are set here or in another filter of the same shape.
    pub fn count_ones_with<C: AsRef<[u8]>>(&self, other: &BloomFilter<C>) -> u64 {
        let ((words, rest), (others, other_rest)) =
            (self.body().as_chunks::<8>(), other.body().as_chunks::<8>());
        let both = |(one, other): (&[u8; 8], &[u8; 8])| u64::from_le_bytes(*one) | u64::from_le_bytes(*other);
        let words: u64 = words.iter().zip(others).map(|pair| u64::from(both(pair).count_ones())).sum();
        let rest = rest.iter().zip(other_rest).map(|(one, other)| u64::from((one | other).count_ones()));
        words + rest.sum::<u64>()
    }

    /// Whether no key was ever added.
    pub fn is_empty(&self) -> bool {
        self.body().iter().all(|&byte| byte == 0)
    }

    /// Whether every bit of another filter is set here, too: it may hold all keys of the other, or for certain does
    /// not.
    ///
    /// # Errors
    /// The two have different policies, sizes, numbers of probes or seeds.
    pub fn covers<C: AsRef<[u8]>>(&self, other: &BloomFilter<C>) -> Result<bool, PolicyError> {
        self.shape.must_equal(&other.shape)?;
        Ok(self.body().iter().zip(other.body()).all(|(own, others)| own & others == *others))
    }

    /// The filter that its keys would have made with the `by`-th part of the bits, into `body`, which is zero; None if
    /// there is no filter of that size.
    pub fn fold<C: AsRef<[u8]> + AsMut<[u8]>>(&self, by: u64, mut body: C) -> Option<BloomFilter<C>> {
        let shape = self.shape.folded(by)?;
        let (policy, geometry) = (self.shape.policy(), self.shape.geometry());
        let target = body.as_mut();
        for (word, bytes) in self.body().chunks(8).enumerate() {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            let mut ones = u64::from_le_bytes(wide);
            while ones != 0 {
                let position = word as u64 * 64 + u64::from(ones.trailing_zeros());
                let position = policy.folded(position, geometry, by)? as usize;
                *target.get_mut(position / 8)? |= 1 << (position % 8);
                ones &= ones - 1;
            }
        }
        BloomFilter::from_parts(shape, body).ok()
    }

    /// The number of distinct keys, as the set bits tell it, with bounds. An intersection seems to have more than it
    /// has: see [`common`](Self::common).
    pub fn cardinality(&self) -> Cardinality {
        self.shape.layout().cardinality(self.count_ones())
    }

    /// The number of keys that are in another filter, too, as the set bits of both tell it, with bounds.
    ///
    /// # Errors
    /// The two have different policies, sizes, numbers of probes or seeds.
    pub fn common<C: AsRef<[u8]>>(&self, other: &BloomFilter<C>) -> Result<Cardinality, PolicyError> {
        self.shape.must_equal(&other.shape)?;
        let any = self.count_ones_with(other);
        Ok(self.shape.layout().common(self.count_ones(), other.count_ones(), any))
    }

    /// The rate at which keys match that were never added, as the set bits are now.
    pub fn false_positive_rate(&self) -> f64 {
        let layout = self.shape.layout();
        let num_probes = i32::from(layout.num_probes);
        if layout.line_bits == layout.bits {
            return (self.count_ones() as f64 / layout.bits as f64).powi(num_probes);
        }
        let lines = self.body().chunks_exact((layout.line_bits / 8) as usize);
        let ones = |line: &[u8]| line.iter().map(|byte| byte.count_ones()).sum::<u32>();
        let rate = |line| (f64::from(ones(line)) / layout.line_bits as f64).powi(num_probes);
        lines.map(rate).sum::<f64>() * layout.line_bits as f64 / layout.bits as f64
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> BloomFilter<B> {
    /// Adds a key.
    pub fn insert(&mut self, key: &[u8]) {
        self.insert_hash(self.hash(key));
    }

    /// Adds the key of a hash; returns the number of bits that were not set.
    pub fn insert_hash(&mut self, key: u64) -> u64 {
        self.shape.policy().set(self.body.as_mut(), self.shape.geometry(), key)
    }

    /// Adds the keys of many hashes: the same as one by one, but faster. Returns the number of bits that were not set.
    pub fn insert_hashes(&mut self, keys: &[u64]) -> u64 {
        self.insert_hashes_in(keys, &mut vec![0; self.shape.room(keys.len())])
    }

    /// The same with memory to do it in, for many calls: [`Shape::room`] of it, which may hold anything; with less, or
    /// none, it is not faster.
    pub fn insert_hashes_in(&mut self, keys: &[u64], memory: &mut [u32]) -> u64 {
        self.shape.policy().set_all(self.body.as_mut(), self.shape.geometry(), keys, memory)
    }

    /// Adds all keys of another filter: the result is the filter of the keys of both.
    ///
    /// # Errors
    /// The two have different policies, sizes, numbers of probes or seeds.
    pub fn union<C: AsRef<[u8]>>(&mut self, other: &BloomFilter<C>) -> Result<(), PolicyError> {
        self.shape.must_equal(&other.shape)?;
        self.body.as_mut().iter_mut().zip(other.body()).for_each(|(own, others)| *own |= others);
        Ok(())
    }

    /// Leaves the bits that both filters have: holds every key that is in both, and more false ones than a filter made
    /// of these keys.
    ///
    /// # Errors
    /// The two have different policies, sizes, numbers of probes or seeds.
    pub fn intersection<C: AsRef<[u8]>>(&mut self, other: &BloomFilter<C>) -> Result<(), PolicyError> {
        self.shape.must_equal(&other.shape)?;
        self.body.as_mut().iter_mut().zip(other.body()).for_each(|(own, others)| *own &= others);
        Ok(())
    }
}

impl<B: AsRef<[u8]>, C: AsRef<[u8]>> PartialEq<BloomFilter<C>> for BloomFilter<B> {
    fn eq(&self, other: &BloomFilter<C>) -> bool {
        self.shape == other.shape && self.body() == other.body()
    }
}

impl<B: AsRef<[u8]>> Eq for BloomFilter<B> {}
