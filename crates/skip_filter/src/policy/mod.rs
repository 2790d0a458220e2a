//! Filter policies: kinds of Bloom filter, each with a stable name, and filters of any of them as values.
//!
//! | policy | a key's hash, from its bytes | a hash's bits | its filters are those of |
//! |---|---|---|---|
//! | [`skip`] | 64 bits: XXH3 under a seed, or from elsewhere | multiply-shift over a linear congruence | this crate |
//! | [`leveldb`] | 32 bits, LevelDB's own | double hashing | LevelDB's tables |
//! | [`clickhouse`] | 64 bits: CityHash, from which its two seeds make two hashes | double hashing and a square | ClickHouse's token and n-gram indexes |
//! | [`rocksdb`] | 64 bits: a preview of XXH3, or from elsewhere | in one line of 512 bits | RocksDB's tables, format version 5 on |
//!
//! **Where bytes end and hashes begin.** A policy hashes key bytes to a 64-bit hash without knowing the filter's size;
//! a filter takes hashes. So keys can be collected as hashes, counted exactly, moved between processes, and become bits
//! when their number is known. A value that has no bytes but a 64-bit hash can go into `skip` as it is; elsewhere, the
//! eight little-endian bytes of that hash can stand for the key, so that every policy takes every value.
//!
//! The journey of a key through this folder:
//!
//! | step | module | what it gives |
//! |---|---|---|
//! | a policy is found by its name, its parameters are read | [`registry`], [`spec`] | [`by_name`], [`POLICIES`], [`Spec`] |
//! | it says what a filter is | [`filter_policy`] | [`FilterPolicy`] |
//! | keys, a rate or bits a key give the size | [`sizing`], [`shape`] | [`Shape::for_keys`] |
//! | keys become hashes, hashes bits | [`bloom`] | [`BloomFilter`] |
//! | filters are put together, and their bits read | [`bloom`], [`theory`], `overlap` | [`BloomFilter::union`], [`BloomFilter::common`], [`Cardinality`] |
//! | or all of it at once, as LevelDB does it (feature `configured`) | `configured`, `prefix` | `ConfiguredPolicy` |
//!
//! ```
//! use skip_filter::policy::{ConfiguredPolicy, Size, by_name, key_may_match};
//!
//! let policy = ConfiguredPolicy::new(by_name("leveldb").unwrap(), Size::BitsPerKey(10.0)).unwrap();
//! let filter = policy.create_filter(["hello", "world"]).unwrap();
//! assert!(policy.key_may_match(b"hello", &filter));
//! assert!(!policy.key_may_match(b"foo", &filter));
//! assert!(key_may_match("a policy to come", b"foo", &filter), "what is not known may match");
//! ```
//!
//! # A new policy
//!
//! is a file here with an implementation of [`FilterPolicy`], declared beside the others, and a line in
//! [`registry::POLICIES`]. Everything else (collecting, merging, estimates, prefixes) works with it as it stands:
//!
//! ```
//! use skip_filter::policy::*;
//!
//! /// One probe in a filter of bytes: hardly a Bloom filter, but a policy.
//! #[derive(Debug, Default)]
//! struct OneByte;
//!
//! impl FilterPolicy for OneByte {
//!     fn name(&self) -> &'static str {
//!         "one_byte"
//!     }
//!     fn code(&self) -> u8 {
//!         30
//!     }
//!     fn limits(&self) -> Limits {
//!         Limits {
//!             min_bits: 8,
//!             max_bits: 1 << 20,
//!             bits_step: 8,
//!             max_probes: 1,
//!             seeded: false,
//!             hash_bits: 64,
//!             line_bits: None,
//!         }
//!     }
//!     fn promises_rate(&self) -> bool {
//!         false // its hash is too poor
//!     }
//!     fn hash(&self, _seed: u64, key: &[u8]) -> u64 {
//!         key.iter().fold(0u64, |hash, &byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
//!     }
//!     fn for_rate(&self, keys: u64, rate: f64) -> Result<Geometry, PolicyError> {
//!         Ok(self.for_bits_per_key(keys, 1.0 / rate)) // with one probe, the rate is the part of the bits that are set
//!     }
//!     fn for_bits_per_key(&self, keys: u64, bits_per_key: f64) -> Geometry {
//!         let bits = ((keys as f64 * bits_per_key) as u64).max(8).next_multiple_of(8);
//!         Geometry { bits, num_probes: 1, seed: 0 }
//!     }
//!     fn set(&self, body: &mut [u8], geometry: &Geometry, key: u64) -> u64 {
//!         let position = (key % geometry.bits) as usize;
//!         let was_set = body[position / 8] >> (position % 8) & 1;
//!         body[position / 8] |= 1 << (position % 8);
//!         u64::from(1 - was_set)
//!     }
//!     fn probe(&self, geometry: &Geometry, key: u64, is_set: &mut dyn FnMut(u64) -> bool) -> bool {
//!         is_set(key % geometry.bits)
//!     }
//!     fn lookup(&self, geometry: &Geometry) -> Lookup {
//!         Lookup::of::<Self>(geometry)
//!     }
//!     fn trailer(&self, _: &Geometry) -> Vec<u8> {
//!         b"1b".to_vec() // so that other bytes are not taken for a filter of this policy
//!     }
//!     fn read(&self, encoded: &[u8], _: Option<Geometry>) -> Result<Geometry, PolicyError> {
//!         let body = encoded.strip_suffix(b"1b");
//!         let body = body.ok_or(PolicyError::Encoding { policy: "one_byte", reason: "no trailer" })?;
//!         Ok(Geometry { bits: body.len() as u64 * 8, num_probes: 1, seed: 0 })
//!     }
//! }
//!
//! let policy = ConfiguredPolicy::new(&OneByte, Size::Rate(0.01)).unwrap();
//! let filter = policy.create_filter(["hello", "world"]).unwrap();
//! assert!(policy.key_may_match(b"world", &filter) && !policy.key_may_match(b"foo", &filter));
//! assert!(policy.key_may_match(b"foo", &filter[..20]), "half a filter may match");
//! ```
//!
//! Encodings and hashes are frozen, as all that reaches a disk: `tests/policy_vectors.rs` holds the bytes of these
//! systems, `tests/policy_rocksdb.rs` the values of RocksDB's own tests.

pub mod aligned;
mod bits;
pub mod bloom;
pub mod city;
pub mod clickhouse;
#[cfg(feature = "configured")]
pub mod configured;
pub mod error;
pub mod filter_policy;
pub mod geometry;
pub mod leveldb;
mod line;
mod load;
mod overlap;
#[cfg(feature = "configured")]
pub mod prefix;
pub mod registry;
pub mod rocksdb;
mod scatter;
pub mod shape;
pub mod sizing;
pub mod skip;
pub mod spec;
pub mod theory;
#[cfg(target_arch = "x86_64")]
mod wide;
pub mod xxph3;

pub use aligned::AlignedBytes;
pub use bloom::BloomFilter;
#[cfg(feature = "configured")]
pub use configured::{ConfiguredPolicy, key_may_match};
pub use error::PolicyError;
pub use filter_policy::{FilterPolicy, Lookup, Prepared};
pub use geometry::{Geometry, Limits, Size};
#[cfg(feature = "configured")]
pub use prefix::{KeyPieces, Prefix};
pub use registry::{POLICIES, by_code, by_name};
pub use scatter::{BATCH, LARGE};
pub use shape::Shape;
pub use spec::Spec;
pub use theory::{Cardinality, Layout};
