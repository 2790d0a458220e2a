//! skip_map: the coding of a map segment, pg_skip's second kind of index segment, without PostgreSQL.
//!
//! A filter tells whether a key may be in a given range. A *map* tells in which ranges a key may be. For every distinct
//! pair of key hash and block range it holds one number, `fingerprint * ranges + range`, the fingerprint being the
//! upper bits of the mixed hash. The numbers are sorted and Elias-Fano coded. A lookup reads those from `fingerprint *
//! ranges` up to `(fingerprint + 1) * ranges`.
//!
//! Numbers are written as a *run*: data pages, and fence pages above them that lead to the data page of a number.
//!
//! | step | module | what it gives |
//! |---|---|---|
//! | a pair becomes a number | [`coding`] | [`Coding`] |
//! | numbers come in any order and are sorted | [`sorter`], [`spill`] | [`Sorter`], [`Spill`] |
//! | or come from runs that become one | [`mod@merge`], [`source`] | [`merge()`], [`NumberSource`] |
//! | or are compared with pairs | [`cursor`] | [`RunCursor`] |
//! | a portion of the pages at a time | [`portion`] | [`merge_portion()`] |
//! | numbers are coded, up to 256 at a time | [`block`] | [`Block`] |
//! | blocks lie on a page, behind a directory | [`page`] | [`Head`], [`read_page`] |
//! | ascending numbers become the pages of a run | [`writer`] | [`RunWriter`] |
//! | above them lie pages of fences | [`fence`] | [`FenceHead`], [`fence_entry`], [`check_fence`] |
//! | the number of pages tells which is which | [`shape`] | [`RunShape`] |
//! | and has a bound | [`size`] | [`most_pages`] |
//! | the lookup of one key may start with a guess | [`guess`] | [`Guess`] |
//! | a large run is divided by key | [`key_part`] | [`KeyPart`], [`KeySet`] |
//! | what a range is in a map is chosen by counts | [`choice`] | [`PairCounts`] |
//! | how many distinct keys there are, by a sample | [`key_count`] | [`KeyCounts`] |
//!
//! Pages are given and taken as payloads of [`PAGE_BYTES`] bytes; frames, checksums and ids are the caller's. Where a
//! payload is verified in quarters of [`HEAD_BYTES`], a lookup needs only the first quarter of a page and those with
//! the bytes that [`Block::bytes`] and [`FenceHead::bytes`] name.
//!
//! Bytes that contradict themselves are [`Malformed`]. They never cause a panic, a long loop, or an allocation of a
//! size that they say. Everything is little-endian. The layout and the mixing of hashes are frozen by
//! `tests/golden.rs`.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod bits;
pub mod block;
pub mod choice;
pub mod coding;
pub mod cursor;
pub mod fence;
pub mod guess;
pub mod key_count;
pub mod key_part;
pub mod malformed;
pub mod merge;
pub mod page;
mod partitions;
pub mod portion;
mod radix;
pub mod shape;
pub mod size;
pub mod sorter;
pub mod source;
pub mod spill;
pub mod writer;

pub use block::Block;
pub use choice::PairCounts;
pub use coding::{Coding, fingerprint_bits_for};
pub use cursor::RunCursor;
pub use fence::{FenceHead, check_fence, fence_entry, write_fence};
pub use guess::{EvenSpread, Guess, Side, Start};
pub use key_count::KeyCounts;
pub use key_part::{KeyPart, KeySet};
pub use malformed::Malformed;
pub use merge::{MergeSource, Merged, merge};
pub use page::{HEAD_BYTES, Head, PAGE_BYTES, Page, append_page, read_page};
pub use portion::{Portion, merge_portion};
pub use shape::RunShape;
pub use size::{most_pages, most_pages_in_parts};
pub use sorter::Sorter;
pub use source::{Each, NumberSource};
pub use spill::Spill;
pub use writer::{RunWriter, Written};
