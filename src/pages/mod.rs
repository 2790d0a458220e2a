//! What is on disk and how it is read and written.
//!
//! | page | module | holds |
//! |---|---|---|
//! | block 0 | [`meta`] | how new segments are made, the watermark, where the directory and the delta are |
//! | block 0 | [`peeked_meta`] | what an insert reads of it for each row |
//! | directory | [`directory`] | the live segments per column and the free extents |
//! | segment | [`segment`] | bit-sliced filters of consecutive block ranges |
//! | segment | [`map`] | for each key the ranges that may hold it |
//! | segment | [`bounds`] | the least and the greatest value of each range |
//! | delta | [`delta`] | entries for tuples that were inserted into summarized ranges |
//!
//! [`skip_segment::page`] defines the frame of every page, and each module here defines its payload. [`upkeep`] moves
//! data: from the delta into segments, from narrow segments into wide ones. Everything is written by WAL records of a
//! single page each ([`crate::pg::wal`]), so a crash leaves a prefix of them; each writer here says why every prefix is
//! safe.
//!
//! # The read order
//!
//! Readers read **delta, directory, segments**, in this order and without a lock between them. Data moves only in this
//! direction, and is written to its destination before it is dropped from its source. A page whose owner is not the one
//! that the directory names was recycled in between: the reader starts over. This holds on a standby as well.
//!
//! # Lock order
//!
//! 1. relation locks: the table, then the index. A background worker takes them without waiting, and before them its
//!    [`crate::pg::lock::WorkerLock`]
//! 2. heavyweight lock [`crate::pg::lock::LockKind::Maintenance`]: one maintainer at a time. Below it, without waiting,
//!    those of [`crate::pg::lock::AloneLock`]: the table, then the index
//! 3. heavyweight lock [`crate::pg::lock::LockKind::DeltaGrowth`]: one process at a time adds pages to the delta's
//!    chain, takes pages out of it, or reads it while it must not change
//! 4. the relation extension lock, held only while extending
//! 5. buffer locks: one at a time, never while waiting for a heavyweight lock, and never during hashing, heap access or
//!    an interrupt check

pub mod bounds;
pub mod delta;
pub mod directory;
pub mod entry;
pub mod map;
pub mod meta;
pub mod miss;
pub mod peeked_meta;
pub mod segment;
pub mod upkeep;
