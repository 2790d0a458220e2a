//! The keys of jsonb documents: what a document becomes in an index of its insides, and what a search asks of it.
//!
//! A key is the hash of a *path* and a scalar at its end. A path is the object keys from the root to the scalar. Arrays
//! leave no trace in it: a scalar of an array has the path of the array. So has jsonb's containment it, which asks only
//! whether an array has an element somewhere.
//!
//! | key | of |
//! |---|---|
//! | string | the path and the string |
//! | number | the path and the number, however it is written; also of strings that are plain decimal numbers |
//! | odd number | the path, of strings that some type of number might accept in another notation (`0x10`, `1e3`) |
//! | true, false, null | the path |
//! | name | an object key of the outermost object |
//!
//! | module | content |
//! |---|---|
//! | [`container`] | reads the binary form that PostgreSQL stores |
//! | [`number`] | numbers in a form that is the same for equal ones |
//! | [`keys`] | the keys of documents, and of searches |
//! | [`jsonpath`] | what a jsonpath asks for |
//!
//! Invariant: the keys are part of the on-disk format, as the key hash is. A document that a search finds has, for each
//! list of keys that the search asks for, one of the list.
#![forbid(unsafe_code)]

pub mod container;
pub mod jsonpath;
pub mod keys;
pub mod number;
pub mod path;

pub use container::NotJsonb;
