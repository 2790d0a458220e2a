//! Bloom filters: how keys are hashed, which bits a hash means, and how large a filter is.
//!
//! | module | what it gives |
//! |---|---|
//! | [`hash`] | a key becomes a 64-bit hash, a hash becomes probes: [`hash_bytes`], [`hash_i64`], [`hash_f64`], [`probes`] |
//! | [`distinct`] | hashes are counted exactly: [`DistinctHashes`] |
//! | [`params`] | a false-positive rate gives the size of a filter: [`Sizing`] |
//! | [`filter`] | the filter of one block range: [`Filter`] |
//! | [`policy`] | filters as values, of this kind and of those of other systems |
//!
//! What reaches a disk is frozen: the hash scheme ([`HASH_SCHEME`]), the probe sequence, the encodings of the policies.
//! `tests/golden.rs` and `tests/policy_vectors.rs` hold their bytes. Everything is little-endian and gives the same
//! result on every CPU.

#![deny(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod distinct;
pub mod filter;
pub mod hash;
pub mod params;
pub mod policy;

pub use distinct::DistinctHashes;
pub use filter::Filter;
pub use hash::{HASH_SCHEME, Probes, canonical_f64, checksum, hash_bytes, hash_f64, hash_i64, probes};
pub use params::{
    MIN_FILTER_BITS, Sizing, calculation_best_practices, rate_at_fill, rate_of_probes, theoretical_rate,
};
