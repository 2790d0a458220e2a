//! The SQL type `bloom`: a Bloom filter as a value.
//!
//! | from a value to a filter and back | module |
//! |---|---|
//! | a value of any type becomes key bytes, and these a hash | [`keys`] |
//! | hashes are collected: `bloom_agg` | [`aggregate`] |
//! | filters are put together: `bloom_union_agg`, `\|`, `&`, `bloom_add`, `bloom_empty` | [`union_aggregate`], [`operators`] |
//! | a filter is asked: `@>`, `bloom_contains_any`; how often it will say yes | [`ask`], [`asked`], [`selectivity`] |
//! | what a filter is: `bloom_info` and its parts | [`inspect`] |
//! | text, binary, bytea; the formats of other systems | [`io`], [`exchange`] |
//! | sizes that nobody gave; errors | [`size`], [`problem`] |
//!
//! What a filter's bytes mean, how keys are collected and what the policies are is in the crates `skip_value` and
//! `skip_filter`. Here are the server's types, memory and errors.
//!
//! Invariant: a filter that was made for one type and collation is never asked for a value of another: that could only
//! say no.

mod aggregate;
mod ask;
mod asked;
mod exchange;
mod inspect;
mod io;
mod keys;
mod operators;
mod problem;
mod selectivity;
mod size;
mod union_aggregate;
