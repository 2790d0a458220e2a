//! What the fuzz targets of `skip_filter`, `skip_jsonb`, `skip_map` and `skip_value` share.
//!
//! A target proves by running: it panics where a promise is broken. [`allocations`] counts what is allocated, [`facts`]
//! looks at estimates, [`wire`] and [`script`] are two ways to states of a collector, [`document`] makes documents.

pub mod allocations;
pub mod document;
pub mod facts;
pub mod script;
pub mod wire;
