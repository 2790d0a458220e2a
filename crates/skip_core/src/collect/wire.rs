//! A state on its way from one process to another.
//!
//! With serde and postcard. (bincode, which would have done as well, has been given up by its authors: RUSTSEC-2025-0141.)
//! Both processes are of the same server, so this is no format that lasts; yet nothing is believed that could do harm.

use super::collector::{Collector, Sink, State};
use super::members::Member;
use super::options::{CollectError, Options};
use super::table::can_hold;
use crate::policy::{BloomFilter, Geometry, Shape, Size, by_code};
use crate::value::header::MOST_MEMBERS;
use allocator_api2::alloc::Allocator;
use postcard::ser_flavors::Flavor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A sink as postcard wants it.
struct Into<S>(S);

impl<S: Sink> Flavor for Into<S> {
    type Output = S;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, piece: &[u8]) -> postcard::Result<()> {
        self.0.write(piece).ok_or(postcard::Error::SerializeBufferFull)
    }

    fn finalize(self) -> postcard::Result<S> {
        Ok(self.0)
    }
}

/// Bytes that are copied as a whole.
#[derive(Debug)]
pub struct Raw<'a>(pub &'a [u8]);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&[u8]>::deserialize(deserializer).map(Self)
    }
}

/// [`Options`] as they are sent.
#[derive(Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as there")]
pub struct WireOptions {
    pub policy: u8,
    pub size: Size,
    pub seed: u64,
    pub expected: Option<u64>,
    pub bound: u64,
    pub guess: u64,
}

/// One of the filters, and how full it may become.
#[derive(Debug, Serialize, Deserialize)]
pub struct WireMember<'a> {
    /// Number of bits.
    pub bits: u64,
    /// Probes a key.
    pub probes: u8,
    /// Number of set bits.
    pub ones: u64,
    /// Number of set bits from which on keys go elsewhere.
    pub full_at: u64,
    /// Number of set bits up to which it may be ORed.
    pub most: u64,
    /// Number of keys that it was made for.
    pub keys: u64,
    /// The bits.
    #[serde(borrow)]
    pub body: Raw<'a>,
}

/// A state as it is sent: hashes or filters.
#[derive(Debug, Serialize, Deserialize)]
pub struct Wire<'a> {
    /// How keys are collected.
    pub options: WireOptions,
    /// Little-endian, 8 bytes each; of a state that has become filters, none.
    #[serde(borrow)]
    pub hashes: Raw<'a>,
    /// The filters; of exact hashes, none.
    pub members: Vec<WireMember<'a>>,
}

/// Bytes for everything but hashes and bits.
const OVERHEAD: usize = 128;

impl<'o, A: Allocator + Clone> Collector<'o, A> {
    /// The state as bytes, in the sink that `allocate` gives for so many bytes or a few less.
    ///
    /// # Errors
    /// That keys which waited could not become bits, or that the sink did not take what was asked for.
    pub fn serialize<S: Sink>(&mut self, allocate: impl FnOnce(usize) -> S) -> Result<S, CollectError> {
        let options = self.options;
        let mut hashes = Vec::new();
        let mut members = Vec::new();
        match &mut self.state {
            State::Exact(table) => {
                hashes.reserve_exact(table.len() * size_of::<u64>());
                table.iter().for_each(|hash| hashes.extend(hash.to_le_bytes()));
            }
            State::Filters(filters) => {
                filters.flush(options)?;
                members.extend(filters.list.iter().map(|member| {
                    let Geometry { bits, probes, .. } = *member.filter.shape().geometry();
                    let (ones, full_at) = (member.ones, member.full_at);
                    let (most, keys) = (member.most, member.keys);
                    WireMember { bits, probes, ones, full_at, most, keys, body: Raw(member.filter.body()) }
                }));
            }
        }
        let bodies: usize = members.iter().map(|member| member.body.0.len() + OVERHEAD).sum();
        let options = WireOptions {
            policy: options.policy.code(),
            size: options.size,
            seed: options.seed,
            expected: options.expected,
            bound: options.bound as u64,
            guess: options.guess,
        };
        let out = allocate(OVERHEAD + hashes.len() + bodies);
        Wire { options, hashes: Raw(&hashes), members }.write(out).ok_or(CollectError::Wire)
    }

    /// The state that another process sent. `keep` gives its options a place to stay, and a secret of this process's.
    ///
    /// # Errors
    /// Bytes that are no state.
    pub fn deserialize(
        bytes: &[u8],
        allocator: &A,
        keep: impl FnOnce(Options) -> &'o Options,
    ) -> Result<Self, CollectError> {
        let wire = Wire::read(bytes)?;
        let options = wire.options()?;
        // Else reading it would make a filter of whatever size its options claim.
        if !can_hold(wire.hashes().filter(|&hash| hash != 0).count(), options.bound) {
            return Err(CollectError::Wire);
        }
        let mut state = Self::new_in(keep(options), allocator.clone());
        state.add(&wire, allocator)?;
        Ok(state)
    }

    /// Adds the keys of a state that another process sent, from where its bytes lie.
    ///
    /// # Errors
    /// Bytes that are no state; different options; no filter for so many keys.
    pub fn combine_sent(&mut self, bytes: &[u8], allocator: &A) -> Result<(), CollectError> {
        let wire = Wire::read(bytes)?;
        if *self.options != wire.options()? {
            return Err(CollectError::Options);
        }
        self.add(&wire, allocator)
    }

    fn add(&mut self, wire: &Wire<'_>, allocator: &A) -> Result<(), CollectError> {
        if wire.members.is_empty() {
            return wire.hashes().try_for_each(|hash| self.insert(hash, allocator));
        }
        let members: Result<Vec<Member<&[u8]>>, CollectError> =
            wire.members.iter().map(|member| member.read(self.options)).collect();
        self.absorb(&members?, allocator)
    }
}

impl<'a> Wire<'a> {
    /// Writes it into a sink; None if that has no room for it.
    pub fn write<S: Sink>(&self, sink: S) -> Option<S> {
        postcard::serialize_with_flavor(self, Into(sink)).ok()
    }

    /// What was written.
    ///
    /// # Errors
    /// Bytes that are no state.
    pub fn read(bytes: &'a [u8]) -> Result<Self, CollectError> {
        let wire: Self = postcard::from_bytes(bytes).map_err(|_| CollectError::Wire)?;
        let both = !wire.hashes.0.is_empty() && !wire.members.is_empty();
        if both || !wire.hashes.0.len().is_multiple_of(size_of::<u64>()) || wire.members.len() > MOST_MEMBERS
        {
            return Err(CollectError::Wire);
        }
        Ok(wire)
    }

    /// The exact hashes.
    pub fn hashes(&self) -> impl Iterator<Item = u64> {
        self.hashes.0.as_chunks().0.iter().map(|hash| u64::from_le_bytes(*hash))
    }

    fn options(&self) -> Result<Options, CollectError> {
        Ok(Options {
            policy: by_code(self.options.policy).ok_or(CollectError::Wire)?,
            size: self.options.size,
            seed: self.options.seed,
            expected: self.options.expected,
            bound: usize::try_from(self.options.bound).unwrap_or(usize::MAX),
            guess: self.options.guess,
            is_partial: false,
            secret: 0,
        })
    }
}

impl<'a> WireMember<'a> {
    fn read(&self, options: &Options) -> Result<Member<&'a [u8]>, CollectError> {
        let geometry = Geometry { bits: self.bits, probes: self.probes, seed: options.seed };
        let filter = BloomFilter::from_parts(Shape::new(options.policy, geometry)?, self.body.0)?;
        let (ones, full_at) = (self.ones, self.full_at);
        Ok(Member { filter, ones, full_at, most: self.most, keys: self.keys })
    }
}
