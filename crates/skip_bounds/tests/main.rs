//! All tests of the crate in one program, which is compiled and linked once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod bounds;
mod golden;
mod order;
mod ordered;
