//! The seam where kinds of filter plug in: what a policy is.
//!
//! After LevelDB's `FilterPolicy`, but cut finer. There, a policy turns keys into bytes and asks bytes for a key. Here
//! it says how a key is hashed, which bits a hash means, how a filter's size follows from the keys, and how a filter
//! is written where it comes from. Collecting, merging and estimating are done once, for all policies, above it.
//!
//! Invariants every policy keeps: [`set`](FilterPolicy::set) and [`probe`](FilterPolicy::probe) depend on nothing but
//! their arguments, in every build and on every CPU; what was set is found, whatever was set besides; where
//! [`test`](FilterPolicy::test) is another implementation, because it is faster, its answers are those of `probe`;
//! [`read`](FilterPolicy::read) refuses what it does not know for certain.

use std::fmt;

use super::bits::is_set;
use super::error::PolicyError;
use super::geometry::{Geometry, Limits};

/// A lookup in filters of one geometry: [`FilterPolicy::test`], with what depends on the geometry alone computed
/// before.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// What it needs of the CPU is there: see the constructors.
    test: CpuTest,
    prepared: Prepared,
}

/// Whether the key of a hash may be in a body, which has the geometry's length.
pub type BodyTest = fn(&[u8], &Prepared, u64) -> bool;

/// The same by instructions that not every CPU has. Called directly: a function of type [`BodyTest`] that calls it
/// would make a lookup of 4 ns 3 % longer.
pub(super) type CpuTest = unsafe fn(&[u8], &Prepared, u64) -> bool;

/// What lookups in filters of one geometry know beforehand.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The geometry.
    pub geometry: Geometry,
    /// A number of the policy's own.
    pub number: u64,
    /// Numbers of the policy's own, one for each of the first probes.
    pub factors: [u32; 8],
}

impl Lookup {
    /// A lookup by this function, which gets what is prepared.
    pub fn new(test: BodyTest, prepared: Prepared) -> Self {
        Self { test, prepared }
    }

    /// A lookup by a function that needs instructions of this CPU.
    ///
    /// # Safety
    /// This CPU has them, and the function needs nothing else.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    pub(super) unsafe fn for_this_cpu(test: CpuTest, prepared: Prepared) -> Self {
        Self { test, prepared }
    }

    /// The lookup of a policy that has no faster one.
    pub fn of<P: FilterPolicy + Default>(geometry: &Geometry) -> Self {
        let test: BodyTest = |body, prepared, key| P::default().test(body, &prepared.geometry, key);
        Self::new(test, Prepared { geometry: *geometry, number: 0, factors: [0; 8] })
    }

    /// Whether the key of a hash may be in a body. The body has the geometry's length; a shorter one may be answered
    /// with yes.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub fn may_contain(&self, body: &[u8], key: u64) -> bool {
        // SAFETY: who made this has given a safe function, or promised that the CPU has what the function needs.
        unsafe { (self.test)(body, &self.prepared, key) }
    }
}

/// A kind of filter.
pub trait FilterPolicy: fmt::Debug + Send + Sync {
    /// What users call it. Stable: filters are stored under it.
    fn name(&self) -> &'static str;

    /// What the system it comes from calls it in its files.
    fn stored_name(&self) -> &'static str {
        self.name()
    }

    /// Its number in stored values (crate `skip_value`): 1 to 30, and never another policy's.
    fn code(&self) -> u8;

    /// What its filters can be.
    fn limits(&self) -> Limits;

    /// Whether measured rates stay within 5 % of what [`theory`](super::theory) expects, from ten keys on.
    fn promises_rate(&self) -> bool;

    /// The hash of a key's bytes, by which distinct keys are counted, too. Policies without a seed ignore it.
    fn hash(&self, seed: u64, key: &[u8]) -> u64;

    /// The numbers, with seed 0, of a filter for `keys` distinct keys and a rate between 0 and 1.
    ///
    /// # Errors
    /// The policy has no filter of this rate.
    fn for_rate(&self, keys: u64, rate: f64) -> Result<Geometry, PolicyError>;

    /// The numbers, with seed 0, of a filter for `keys` distinct keys and `bits_per_key` bits for each, at least 0.5.
    fn for_bits_per_key(&self, keys: u64, bits_per_key: f64) -> Geometry;

    /// Bytes that hold a filter's bits.
    fn body_bytes(&self, bits: u64) -> u64 {
        bits.div_ceil(8)
    }

    /// Bytes of its bits in the system it comes from: the first of [`body_bytes`](Self::body_bytes), the rest being
    /// zero.
    fn stored_bytes(&self, bits: u64) -> u64 {
        self.body_bytes(bits)
    }

    /// Sets a key's bits; returns how many of them were not set. The body has the geometry's length.
    fn set(&self, body: &mut [u8], geometry: &Geometry, key: u64) -> u64;

    /// Sets the bits of many keys: the same as one by one, but may be faster, with [`room`](Self::room) for it in
    /// `memory`.
    fn set_all(&self, body: &mut [u8], geometry: &Geometry, keys: &[u64], _memory: &mut [u32]) -> u64 {
        keys.iter().map(|&key| self.set(body, geometry, key)).sum()
    }

    /// The number of words of memory that setting the bits of `keys` keys can make use of.
    fn room(&self, _geometry: &Geometry, _keys: usize) -> usize {
        0
    }

    /// Whether all of a key's bits are set, which `is_set` knows: it is asked for one position after the other, all of
    /// them below the geometry's number of bits, until one is not.
    fn probe(&self, geometry: &Geometry, key: u64, is_set: &mut dyn FnMut(u64) -> bool) -> bool;

    /// The same in a body, which has the geometry's length.
    fn test(&self, body: &[u8], geometry: &Geometry, key: u64) -> bool {
        self.probe(geometry, key, &mut |position| is_set(body, position as usize))
    }

    /// [`test`](Self::test) for whoever looks up many keys in filters of a geometry: the fastest one for this CPU, with
    /// the same answers.
    fn lookup(&self, geometry: &Geometry) -> Lookup;

    /// Where a bit's position goes to when the filter is folded to the `by`-th part of its bits, so that the result is
    /// the filter that all its keys would have made at that size. None if filters of this policy cannot be folded.
    /// Called with sizes within the limits only.
    fn folded(&self, _position: u64, _geometry: &Geometry, _by: u64) -> Option<u64> {
        None
    }

    /// What follows the body where the filter is stored by the system it comes from.
    fn trailer(&self, geometry: &Geometry) -> Vec<u8>;

    /// The numbers of an encoded filter: body and trailer. Its body is the first [`body_bytes`](Self::body_bytes) of
    /// it, or all of it and zeros, if it is shorter. `given` are the numbers from elsewhere, for encodings that do not
    /// hold them; others ignore it.
    ///
    /// # Errors
    /// The bytes are no filter of the policy, or numbers that they need are not given.
    fn read(&self, encoded: &[u8], given: Option<Geometry>) -> Result<Geometry, PolicyError>;
}
