//! From conditions to the blocks that a scan reads: the logic of planning and scanning that needs no server.
//!
//! | step | module | what it gives |
//! |---|---|---|
//! | the tests of a query are combined by AND and OR | [`condition`] | [`Condition`] |
//! | what they let through is estimated | [`estimate`], by formulas of [`expected`] | [`estimate::ExpectedReads`] |
//! | and what reading that costs | [`cost`] | [`cost::Prices`] |
//! | the delta's entries are looked up among the tests | [`entry_tests`] | [`EntryTests`] |
//! | the answers are sets of block ranges | [`rangeset`] | [`RangeSet`] |
//! | whose blocks are given out to the processes that read them | [`blocks`] | [`blocks::Blocks`] |
//! | pages that were read in vain before are known | [`known_pages`] | [`known_pages::KnownPages`] |
//! | rows are checked against long lists of keys | [`members`] | [`members::ElementHashes`] |
//! | what scans found is added up, over all processes | [`counters`] | [`counters::CounterTable`] |
//!
//! [`advice`] compares kinds of index for a column. [`mod@picture`] draws a table's ranges. [`names`] reads the lists
//! of indexes in settings; [`shard`] knows how a distributed engine names the parts of a table.
//!
//! This crate knows nothing of filters, segments and pages: a range is a number here.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod advice;
pub mod blocks;
pub mod condition;
pub mod cost;
pub mod counters;
pub mod entry_tests;
pub mod estimate;
pub mod expected;
pub mod known_pages;
pub mod members;
pub mod names;
pub mod picture;
pub mod rangeset;
pub mod shard;

pub use condition::{Condition, Grouped, MOST_LEVELS};
pub use entry_tests::{EntryTest, EntryTests};
pub use picture::picture;
pub use rangeset::RangeSet;
