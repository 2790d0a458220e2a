//! All tests of the crate in one program, which is compiled and linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod best_practices;
mod common;
mod distinct;
mod filter;
mod golden;
mod policy_overlap;
mod policy_properties;
mod policy_rates;
mod policy_rocksdb;
mod policy_vectors;
