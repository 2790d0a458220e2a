//! The SQL type `bloom`: a Bloom filter as a value.
//!
//! | from a value to a filter and back | module |
//! |---|---|
//! | a value of any type becomes key bytes, which become a hash | [`keys`] |
//! | hashes are collected: `bloom_agg` | [`aggregate`] |
//! | filters are combined: `bloom_union_agg`, `\|`, `&`, `bloom_add`, `bloom_empty` | [`union_aggregate`], [`operators`] |
//! | keys are looked up in a filter: `@>`, `bloom_contains_any` | [`ask`], [`lookup_value`] |
//! | the planner's estimate of the rows that match | [`selectivity`] |
//! | properties of a filter: `bloom_info` and its parts | [`inspect`] |
//! | text, binary, bytea; the formats of other systems | [`io`], [`exchange`] |
//! | sizes that the user did not give; errors | [`size`], [`problem`] |
//!
//! The crates `skip_value` and `skip_filter` define the meaning of a filter's bytes, how keys are collected, and the
//! policies. This folder contains what concerns the server's types, memory and errors.
//!
//! Invariant: a value is never looked up in a filter of a different type or collation. The only answer could be "no",
//! and that could be wrong.

mod aggregate;
mod ask;
mod exchange;
mod inspect;
mod io;
mod keys;
mod lookup_value;
mod operators;
mod problem;
mod selectivity;
mod size;
mod union_aggregate;
