//! Bounds of block ranges: what conditions such as `column < value` and `BETWEEN` are looked up in.
//!
//! | step | module | what it gives |
//! |---|---|---|
//! | a value becomes an order key | [`order`] | [`order::OrderKind::key`] |
//! | so does an array or a range of values | [`nested`] | [`nested::ValueOrder::key`] |
//! | the order keys of a range become its bounds | [`bounds`] | [`bounds::Bounds`] |
//! | a query becomes intervals of order keys | [`intervals`] | [`intervals::OrderKeyIntervals`] |
//! | bounds lie on pages | [`page`] | [`page::BoundsShape`] |
//! | a page of bounds is summed up, so that it need not be read | [`summary`] | [`summary::PageSummary`] |
//! | bounds say how many ranges share a value | [`overlap`] | [`overlap::overlap`] |
//! | bounds say which range is read first, for `ORDER BY` | [`ordered`] | [`ordered::UnreadRanges`] |
//!
//! Order keys, and the bytes of pages, are frozen: they are on disk. `tests/golden.rs` holds them. Everything is
//! little-endian and gives the same result on every CPU.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod bounds;
mod bytes;
mod document;
pub mod intervals;
pub mod nested;
mod numeric;
pub mod order;
pub mod ordered;
pub mod overlap;
pub mod page;
pub mod summary;

pub use bounds::{Bounds, BoundsTest};
pub use intervals::{KeyComparison, OrderKeyIntervals};
pub use nested::{Nesting, PartLen, ValueOrder};
pub use order::OrderKind;
pub use page::BoundsShape;
pub use summary::{PageSummary, Verdict};
