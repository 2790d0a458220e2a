//! Filter policies: the arithmetic of sizes and rates.

pub mod sizing;
pub mod theory;
