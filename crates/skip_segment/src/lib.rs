//! Bit-sliced segments: the filters of many block ranges side by side, and the pages they lie on.
//!
//! | step | module | what it gives |
//! |---|---|---|
//! | sizes of filters are chosen so that segments get wide | [`size`] | [`size::choose_sizes`] |
//! | ranges are filled row by row, 64 at a time | [`builder`] | [`SegmentBuilder`] |
//! | and turned into slices | [`transpose`] | [`transpose64`] |
//! | which lie on pages | [`segment`] | [`SegmentShape`] |
//! | and pages get their checksums | [`page`] | [`page::PageImage`], [`page::PageView`] |
//! | gaps between segments are found, and runs to merge | [`spans`] | [`spans::gaps`], [`spans::runs_to_merge`] |
//! | and those to merge while a table grows | [`growth`] | [`growth::Rule`] |
//! | which can be simulated for any size of table | [`growing`] | [`growing::GrowthSimulation`] |
//! | how many ranges inserts summarize at a time | [`pace`] | [`pace::Inserting`] |
//! | free blocks are gathered at the end of the index | [`compaction`] | [`compaction::to_front`] |
//! | narrow segments are put side by side | [`merge`] | [`copy_bits`] |
//! | a lookup ANDs and ORs slices | [`lookup`] | [`and_slice`], [`or_slice`] |
//!
//! Of `skip_filter` this crate uses the hash scheme only: which bits a key hash sets, and the checksum. A
//! [`skip_filter::Filter`] is what a segment of width 1 holds, and the reference that wide ones are tested against.
//!
//! What reaches a disk is frozen: the order of bits in a slice, the geometry of a segment, the layout of pages.
//! `tests/golden.rs` and `tests/page.rs` hold their bytes. Everything is little-endian and gives the same result on
//! every CPU.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod builder;
pub mod compaction;
pub mod growing;
pub mod growth;
pub mod lookup;
pub mod merge;
pub mod pace;
pub mod page;
pub mod segment;
pub mod size;
pub mod spans;
pub mod transpose;

pub use builder::{RangeState, SegmentBuilder};
pub use lookup::{and_slice, or_slice};
pub use merge::copy_bits;
pub use segment::{FIRST_PROBE_SLICE, NULLS_SLICE, OPEN_SLICE, SegmentShape, VALUES_SLICE};
pub use transpose::transpose64;
