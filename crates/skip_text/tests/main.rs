//! All tests of the crate in one program, which is compiled and linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;
mod folding;
mod frozen;
mod like;
mod postgres;
mod regexes;
