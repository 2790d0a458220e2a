//! A state on its way from one process to another.
//!
//! With serde and postcard. (bincode, which would have done as well, has been given up by its authors: RUSTSEC-2025-0141.)
//! Both processes are of the same server, so this is no format that lasts; yet nothing is believed that could do harm.

use super::collector::{Collector, State};
use super::members::Members;
use super::options::{CollectError, Options};
use super::table::HashTable;
use crate::policy::{Geometry, Shape, Size, by_code};
use crate::value::header::MOST_MEMBERS;
use allocator_api2::alloc::Allocator;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are copied as a whole.
struct Raw<'a>(&'a [u8]);

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

#[derive(Serialize, Deserialize)]
struct WireOptions {
    policy: u8,
    size: Size,
    seed: u64,
    expected: Option<u64>,
    bound: u64,
    guess: u64,
}

#[derive(Serialize, Deserialize)]
struct WireMember<'a> {
    bits: u64,
    probes: u8,
    full_at: u64,
    most: u64,
    keys: u64,
    #[serde(borrow)]
    body: Raw<'a>,
}

#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    options: WireOptions,
    /// Little-endian, 8 bytes each; of a state that has become filters, none.
    #[serde(borrow)]
    hashes: Raw<'a>,
    members: Vec<WireMember<'a>>,
}

/// Bytes for everything but hashes and bits.
const OVERHEAD: usize = 128;

impl<'o, A: Allocator + Clone> Collector<'o, A> {
    /// The state as bytes, in the buffer that `allocate` gives for a number of bytes, and how many were needed of it.
    ///
    /// # Errors
    /// That keys which waited could not become bits, or that the slice was shorter than asked for.
    pub fn serialize<B: AsMut<[u8]>>(
        &mut self,
        allocate: impl FnOnce(usize) -> B,
    ) -> Result<(B, usize), CollectError> {
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
                    let (full_at, most, keys) = (member.full_at, member.most, member.keys);
                    WireMember { bits, probes, full_at, most, keys, body: Raw(member.filter.body()) }
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
        let mut out = allocate(OVERHEAD + hashes.len() + bodies);
        let wire = Wire { options, hashes: Raw(&hashes), members };
        let used = postcard::to_slice(&wire, out.as_mut()).map_err(|_| CollectError::Wire)?.len();
        Ok((out, used))
    }

    /// The state that another process sent. `keep` gives its options a place to stay.
    ///
    /// # Errors
    /// Bytes that are no state.
    pub fn deserialize(
        bytes: &[u8],
        allocator: &A,
        keep: impl FnOnce(Options) -> &'o Options,
    ) -> Result<Self, CollectError> {
        let wire: Wire<'_> = postcard::from_bytes(bytes).map_err(|_| CollectError::Wire)?;
        let policy = by_code(wire.options.policy).ok_or(CollectError::Wire)?;
        let options = keep(Options {
            policy,
            size: wire.options.size,
            seed: wire.options.seed,
            expected: wire.options.expected,
            bound: usize::try_from(wire.options.bound).unwrap_or(usize::MAX),
            guess: wire.options.guess,
            is_partial: false,
        });
        if wire.members.is_empty() {
            let (hashes, rest) = wire.hashes.0.as_chunks::<8>();
            if !rest.is_empty() {
                return Err(CollectError::Wire);
            }
            let mut table = HashTable::new_in(allocator.clone());
            for hash in hashes {
                table.insert(u64::from_le_bytes(*hash), usize::MAX).map_err(|_| CollectError::Wire)?;
            }
            return Ok(Self { options, state: State::Exact(table) });
        }
        if !wire.hashes.0.is_empty() || wire.members.len() > MOST_MEMBERS {
            return Err(CollectError::Wire);
        }
        let mut members = Members::none_in(allocator.clone());
        for member in &wire.members {
            let geometry = Geometry { bits: member.bits, probes: member.probes, seed: options.seed };
            let numbers = (member.full_at, member.most, member.keys);
            members.receive(Shape::new(policy, geometry)?, member.body.0, numbers)?;
        }
        Ok(Self { options, state: State::Filters(members) })
    }
}
