//! What is on disk and how it is read and written.
//!
//! | page | module | holds |
//! |---|---|---|
//! | block 0 | [`meta`] | options frozen at build, the watermark, where the directory and the delta are |
//! | directory | [`directory`] | the live segments per column and the free extents |
//! | segment | [`segment`] | bit-sliced filters of consecutive block ranges |
//! | segment | [`map`] | for each key the ranges that may hold it |
//! | delta | [`delta`] | entries for tuples that came into ranges already summarized |
//!
//! [`skip_segment::page`] gives a page's bytes their meaning, and each module here says what its payload is. [`upkeep`]
//! moves data: delta into segments, narrow segments into wide ones. Everything that writes goes through single-page WAL
//! records ([`crate::pg::wal`]), so a crash leaves a prefix of them; each writer here says why every prefix is safe.
//!
//! # The read order
//!
//! Readers take **delta, directory, segments**, in this order and without a lock between them. Data moves only
//! in this direction, and its destination is written before the source is dropped. A page whose owner is not
//! what the directory said was recycled in between: start over. This holds on a standby as well.
//!
//! # Lock order
//!
//! 1. heavyweight lock [`crate::pg::lock::Part::Maintenance`]: one maintainer at a time
//! 2. heavyweight lock [`crate::pg::lock::Part::DeltaGrowth`]: one process at a time adds delta pages
//! 3. the relation extension lock, held only while extending
//! 4. buffer locks: one at a time, never while asking for a heavyweight lock, never over hashing, heap access
//!    or an interrupt check

pub mod delta;
pub mod directory;
pub mod entry;
pub mod map;
pub mod meta;
pub mod miss;
pub mod segment;
pub mod upkeep;
