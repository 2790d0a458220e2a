//! Filters as values: what the SQL type `bloom` holds, and how keys are collected into one.
//!
//! A value is a header ([`header`]) and bits: one filter, or a *series*, several filters of the same keys, which come
//! about where more keys were added than a filter had been made for ([`collect`]). A key may be in a series if it may
//! be in one of its members.
//!
//! | module | what it gives |
//! |---|---|
//! | [`value`] | a value as a whole: [`StoredFilter`] |
//! | [`keys`] | what the keys are: [`Keys`] |
//! | [`header`] | the header's layout |
//! | [`outline`] | the header, read once for many lookups: [`Outline`] |
//! | [`kept`] | a copy of a value for many lookups: [`KeptValue`] |
//! | [`distant`] | a lookup that fetches only the bytes that it needs |
//! | [`mod@seal`] | the checksum of values outside of tables: [`seal()`], [`unseal`] |
//! | [`collect`] | hashes of keys become a value: [`collect::Collector`] |
//! | [`sharing`] | how much of the memory that processes share a state may take: [`sharable`] |
//!
//! Everything that comes from outside is checked before it is believed, and nothing is allocated by what a header says:
//! bits stay where they lie. The version stands for the layout, the hash scheme of every policy and the canonical form
//! of keys. Unknown versions and policies are told apart from malformed ones ([`ValueError::is_unknown`]), because a
//! filter that cannot be read may hold any key.

#![forbid(unsafe_code)]
#![warn(missing_docs, clippy::missing_errors_doc)]

pub mod collect;
pub mod distant;
pub mod error;
pub mod header;
pub mod kept;
pub mod keys;
pub mod outline;
pub mod seal;
pub mod sharing;
pub mod value;

pub use error::ValueError;
pub use kept::KeptValue;
pub use keys::{Collation, KeyType, Keys};
pub use outline::Outline;
pub use seal::{seal, unseal};
pub use sharing::sharable;
pub use value::{StoredFilter, empty};
