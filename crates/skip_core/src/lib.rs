//! skip_core: everything pg_skip does that needs no PostgreSQL.
//!
//! Two journeys run through this crate.
//!
//! A row becomes part of an index:
//!
//! | step | module | what it gives |
//! |---|---|---|
//! | a value becomes a 64-bit key hash | [`hash`] | [`hash_bytes`], [`hash_i64`], [`hash_f64`] |
//! | a block range's hashes are counted exactly | [`distinct`] | [`DistinctHashes`] |
//! | the count and the wanted rate give the filter's size | [`params`] | [`Sizing`] |
//! | ranges are filled row by row, 64 at a time | [`builder`] | [`SegmentBuilder`] |
//! | and turned into slices | [`transpose`] | [`transpose64`] |
//! | which lie on pages | [`segment`] | [`SegmentShape`] |
//! | narrow segments are put side by side | [`merge`] | [`copy_bits`] |
//! | and pages get their checksums | [`page`] | [`page::PageImage`], [`page::PageView`] |
//!
//! A key becomes a set of ranges to read:
//!
//! | step | module | what it gives |
//! |---|---|---|
//! | a key hash becomes positions in the filter | [`hash`] | [`probes`] |
//! | the slices at these positions are ANDed | [`lookup`] | [`and_slice`], [`or_slice`] |
//! | the delta's entries are looked up among the tests | [`entry_tests`] | [`EntryTests`] |
//! | one bit a range is left, gathered over segments | [`rangeset`] | [`RangeSet`] |
//! | and put together as AND and OR say | [`condition`] | [`Condition`] |
//! | whose blocks are given out to the processes that read them | [`blocks`] | [`blocks::Blocks`] |
//!
//! [`filter`] is one filter by itself, row-major: what a segment of width 1 holds, and the reference the wide
//! ones are tested against. [`policy`] holds kinds of filter, this one and those of other systems, and filters of any
//! of them; [`collect`] gathers the keys of one, and [`value`] is how it is stored. [`mod@picture`] draws a table's
//! ranges; [`counters`] add up what scans found, over all processes; [`members`] tells which of many values a row may
//! equal; [`sharing`] bounds what is taken of the memory that processes share; [`expected`] has the formulas of
//! estimates; [`shard`] knows the names that a distributed engine gives.
//!
//! What reaches a disk is frozen: the hash scheme ([`HASH_SCHEME`]), the probe sequence, the order of bits in a
//! slice, the geometry of a segment. `tests/golden.rs` holds their bytes. Everything is little-endian and gives
//! the same result on every CPU.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod blocks;
pub mod builder;
pub mod collect;
pub mod condition;
pub mod counters;
pub mod distinct;
pub mod entry_tests;
pub mod expected;
pub mod filter;
pub mod hash;
pub mod lookup;
pub mod members;
pub mod merge;
pub mod page;
pub mod params;
pub mod picture;
pub mod policy;
pub mod rangeset;
pub mod segment;
pub mod shard;
pub mod sharing;
pub mod spans;
pub mod transpose;
pub mod value;

pub use builder::{RangeState, SegmentBuilder};
pub use condition::{Condition, Grouped, MOST_LEVELS};
pub use distinct::DistinctHashes;
pub use entry_tests::{EntryTest, EntryTests};
pub use filter::Filter;
pub use hash::{HASH_SCHEME, Probes, canonical_f64, checksum, hash_bytes, hash_f64, hash_i64, probes};
pub use lookup::{and_slice, or_slice};
pub use merge::copy_bits;
pub use params::{MIN_FILTER_BITS, Sizing, calculation_best_practices, rate_at_fill, theoretical_rate};
pub use picture::picture;
pub use rangeset::RangeSet;
pub use segment::{FIRST_PROBE_SLICE, NULLS_SLICE, OPEN_SLICE, SegmentShape, VALUES_SLICE};
pub use shard::shard_of;
pub use sharing::sharable;
pub use transpose::transpose64;
