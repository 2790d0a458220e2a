//! A state on its way from one process to another.
//!
//! A small head says what the state is: which keys, how they are collected, and the numbers of its filters. It goes
//! through serde and bincode. Behind it lie the hashes, or the bits of the filters, as they are: there may be many
//! megabytes of them. The processes may be of different servers, if an engine distributes tables over them: so nothing
//! refers to a database, as OIDs do, and nothing is believed that could do harm. It is no format that lasts: a state
//! lives no longer than a query.

use super::collector::{Collector, Sink, State};
use super::members::Member;
use super::options::{CollectError, CollectorOptions};
use super::table::can_hold;
use crate::header::{FIRST_USER_OID, LONGEST_NAME, MOST_MEMBERS};
use crate::{Collation, KeyType, Keys};
use allocator_api2::alloc::Allocator;
use serde::{Deserialize, Serialize};
use skip_filter::policy::{BloomFilter, Geometry, Shape, Size, by_code};

/// Version of the head, its first byte: the next one is another number.
const VERSION: u8 = 1;

/// The most bytes that bincode may read, or reserve memory for, in a head: four names, and the numbers of all members.
const LONGEST_HEAD: usize = 16 << 10;

type Format = bincode::config::Configuration<
    bincode::config::LittleEndian,
    bincode::config::Varint,
    bincode::config::Limit<LONGEST_HEAD>,
>;

const FORMAT: Format = bincode::config::standard().with_limit::<LONGEST_HEAD>();

/// The type of keys, as it is sent.
#[derive(Debug, Serialize, Deserialize)]
pub enum WireType<'a> {
    /// The OID of a built-in one.
    BuiltIn(u32),
    /// Schema and name.
    Named(&'a str, &'a str),
}

/// [`Keys`] as they are sent, but for what [`WireOptions`] have.
#[derive(Debug, Serialize, Deserialize)]
pub struct WireKeys<'a> {
    /// Their type.
    #[serde(borrow)]
    pub key_type: WireType<'a>,
    /// Name and version of their collation.
    #[serde(borrow)]
    pub collation: Option<(&'a str, &'a str)>,
}

/// [`Size`] as it is sent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(remote = "Size")]
#[allow(missing_docs, reason = "as there")]
enum WireSize {
    Rate(f64),
    BitsPerKey(f64),
    Fixed { bytes: u64, num_probes: u8 },
}

/// [`CollectorOptions`] as they are sent.
#[derive(Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as there")]
pub struct WireOptions {
    pub policy: u8,
    #[serde(with = "WireSize")]
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
    pub num_probes: u8,
    /// Number of set bits.
    pub ones: u64,
    /// Number of set bits from which on keys go elsewhere.
    pub full_at: u64,
    /// Number of set bits up to which it may be ORed.
    pub most: u64,
    /// Number of keys that it was made for.
    pub keys: u64,
    /// Bytes of the body.
    pub length: u64,
    /// The bits, behind the head.
    #[serde(skip)]
    pub body: &'a [u8],
}

/// A state as it is sent: hashes or filters.
#[derive(Debug, Serialize, Deserialize)]
pub struct Wire<'a> {
    /// What the keys are.
    #[serde(borrow)]
    pub keys: WireKeys<'a>,
    /// How keys are collected.
    pub options: WireOptions,
    /// The filters; of exact hashes, none.
    pub members: Vec<WireMember<'a>>,
    /// Little-endian, 8 bytes each, behind the head; of a state that has become filters, none.
    #[serde(skip)]
    pub hashes: &'a [u8],
}

impl<'o, A: Allocator + Clone> Collector<'o, A> {
    /// The state as bytes, in the sink that `allocate` gives for their number.
    ///
    /// # Errors
    /// That keys which waited could not become bits, or that the sink did not take what was asked for.
    pub fn serialize<S: Sink>(
        &mut self,
        keys: &Keys,
        allocate: impl FnOnce(usize) -> S,
    ) -> Result<S, CollectError> {
        if let State::Filters(filters) = &mut self.state {
            filters.flush(self.options)?;
        }
        let members = match &self.state {
            State::Exact(_) => Vec::new(),
            State::Filters(filters) => filters.list.iter().map(WireMember::of).collect(),
        };
        let wire =
            Wire { keys: WireKeys::of(keys), options: WireOptions::of(self.options), members, hashes: &[] };
        let State::Exact(table) = &self.state else { return wire.write(allocate) };
        let length = table.len() * size_of::<u64>();
        let head = wire.head(length)?;
        let mut sink = allocate(head.len() + length);
        let room = sink.write(&head).and_then(|()| sink.zeros(length)).ok_or(CollectError::Wire)?;
        for (place, hash) in room.as_chunks_mut().0.iter_mut().zip(table.iter()) {
            *place = hash.to_le_bytes();
        }
        Ok(sink)
    }

    /// The state that another process sent. `keep` gives its options a place to stay, and a secret of this process's.
    ///
    /// # Errors
    /// Bytes that are no state.
    pub fn deserialize(
        bytes: &[u8],
        allocator: &A,
        keep: impl FnOnce(CollectorOptions, Keys) -> &'o CollectorOptions,
    ) -> Result<Self, CollectError> {
        let wire = Wire::read(bytes)?;
        let options = wire.options()?;
        // Else reading it would make a filter of whatever size its options claim.
        if !can_hold(wire.hashes().filter(|&hash| hash != 0).count(), options.bound) {
            return Err(CollectError::Wire);
        }
        let mut state = Self::new_in(keep(options, wire.keys()?), allocator.clone());
        state.add(&wire, allocator)?;
        Ok(state)
    }

    /// Adds the keys of a state that another process sent, from where its bytes lie.
    ///
    /// # Errors
    /// Bytes that are no state; different options or keys; no filter can be made for that number of keys.
    pub fn combine_sent(&mut self, bytes: &[u8], keys: &Keys, allocator: &A) -> Result<(), CollectError> {
        let wire = Wire::read(bytes)?;
        if *self.options != wire.options()? {
            return Err(CollectError::Options);
        }
        if *keys != wire.keys()? {
            return Err(CollectError::Keys);
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
    /// The bytes before `rest` bytes of hashes or bits.
    fn head(&self, rest: usize) -> Result<Vec<u8>, CollectError> {
        bincode::serde::encode_to_vec((VERSION, rest as u64, self), FORMAT).map_err(|_| CollectError::Wire)
    }

    /// Writes it into the sink that `allocate` gives for the number of its bytes.
    ///
    /// # Errors
    /// That the sink did not take what was asked for.
    pub fn write<S: Sink>(&self, allocate: impl FnOnce(usize) -> S) -> Result<S, CollectError> {
        let rest = || self.members.iter().map(|member| member.body).chain([self.hashes]);
        let length = rest().map(<[u8]>::len).sum::<usize>();
        let head = self.head(length)?;
        let mut sink = allocate(head.len() + length);
        let written = [&head[..]].into_iter().chain(rest()).try_for_each(|piece| sink.write(piece));
        written.map(|()| sink).ok_or(CollectError::Wire)
    }

    /// What was written.
    ///
    /// # Errors
    /// Bytes that are no state.
    pub fn read(bytes: &'a [u8]) -> Result<Self, CollectError> {
        let read = bincode::serde::borrow_decode_from_slice::<(u8, u64, Self), _>(bytes, FORMAT);
        let ((version, length, mut wire), head) = read.map_err(|_| CollectError::Wire)?;
        let mut rest = bytes.get(head..).ok_or(CollectError::Wire)?;
        if version != VERSION || length != rest.len() as u64 || wire.members.len() > MOST_MEMBERS {
            return Err(CollectError::Wire);
        }
        for member in &mut wire.members {
            let length = usize::try_from(member.length).unwrap_or(usize::MAX);
            (member.body, rest) = rest.split_at_checked(length).ok_or(CollectError::Wire)?;
        }
        wire.hashes = rest;
        let both = !rest.is_empty() && !wire.members.is_empty();
        if both || !rest.len().is_multiple_of(size_of::<u64>()) {
            return Err(CollectError::Wire);
        }
        Ok(wire)
    }

    /// The exact hashes.
    pub fn hashes(&self) -> impl Iterator<Item = u64> {
        self.hashes.as_chunks().0.iter().map(|hash| u64::from_le_bytes(*hash))
    }

    fn options(&self) -> Result<CollectorOptions, CollectError> {
        Ok(CollectorOptions {
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

    /// What the keys are; only what a stored filter can say of its keys.
    ///
    /// # Errors
    /// That there are no such keys.
    pub fn keys(&self) -> Result<Keys, CollectError> {
        let text = |text: &str| {
            let fits = text.len() <= LONGEST_NAME && !text.contains('\0');
            fits.then(|| text.to_owned()).ok_or(CollectError::Wire)
        };
        let name = |name: &str| if name.is_empty() { Err(CollectError::Wire) } else { text(name) };
        let key_type = match self.keys.key_type {
            WireType::BuiltIn(oid) if (1..FIRST_USER_OID).contains(&oid) => KeyType::BuiltIn(oid),
            WireType::BuiltIn(_) => return Err(CollectError::Wire),
            WireType::Named(schema, of_type) => {
                KeyType::Named { schema: name(schema)?, name: name(of_type)? }
            }
        };
        let collation = self.keys.collation.map(|(of_collation, version)| {
            Ok::<_, CollectError>(Collation { name: name(of_collation)?, version: text(version)? })
        });
        let policy = by_code(self.options.policy).ok_or(CollectError::Wire)?;
        Ok(Keys { policy, seed: self.options.seed, key_type, collation: collation.transpose()? })
    }
}

impl<'a> WireKeys<'a> {
    /// Keys as they are sent.
    pub fn of(keys: &'a Keys) -> Self {
        let key_type = match &keys.key_type {
            KeyType::BuiltIn(oid) => WireType::BuiltIn(*oid),
            KeyType::Named { schema, name } => WireType::Named(schema, name),
        };
        let collation = keys.collation.as_ref();
        Self { key_type, collation: collation.map(|collation| (&*collation.name, &*collation.version)) }
    }
}

impl WireOptions {
    fn of(options: &CollectorOptions) -> Self {
        let &CollectorOptions { policy, size, seed, expected, bound, guess, .. } = options;
        Self { policy: policy.code(), size, seed, expected, bound: bound as u64, guess }
    }
}

impl<'a> WireMember<'a> {
    fn of<B: AsRef<[u8]>>(member: &'a Member<B>) -> Self {
        let Geometry { bits, num_probes, .. } = *member.filter.shape().geometry();
        let &Member { ones, full_at, most, keys, .. } = member;
        let body = member.filter.body();
        Self { bits, num_probes, ones, full_at, most, keys, length: body.len() as u64, body }
    }

    fn read(&self, options: &CollectorOptions) -> Result<Member<&'a [u8]>, CollectError> {
        let geometry = Geometry { bits: self.bits, num_probes: self.num_probes, seed: options.seed };
        let filter = BloomFilter::from_parts(Shape::new(options.policy, geometry)?, self.body)?;
        let (ones, full_at) = (self.ones, self.full_at);
        Ok(Member { filter, ones, full_at, most: self.most, keys: self.keys })
    }
}
