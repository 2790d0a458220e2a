//! The boundary: the only folder that touches server memory.
//!
//! Code outside of it uses safe values: [`Rel`], [`page::SharedPage`], [`datum::Value`]… Rules of this folder:
//!
//! - A safe function does not rely on promises of its callers. A value that the server lends, for instance a relation,
//!   carries the lifetime of the loan: no copy outlives the guard or the callback from which it comes. Data that the
//!   server keeps for us behind an untyped pointer has a tag, which is compared ([`tagged`]).
//! - One rule is not in the types: a value made in the current memory context (a [`varlena::Made`], an
//!   [`evaluate::Evaluator`], a [`datum::HashFunction`]) is not used after that context. Outside of this folder, only
//!   [`memory::Scratch`] and [`am::StatementMemory`] change the current context. No value made in the `run` of a
//!   Scratch leaves it; what is made in that of a StatementMemory goes into the state of the statement.
//! - Guards release in `Drop`, but do nothing while a panic unwinds: that panic is a PostgreSQL ERROR on its way to the
//!   transaction's abort, which releases pins, locks and memory itself.
//! - WAL changes are published by an explicit `commit`, never in `Drop`.
//! - Differences between PostgreSQL versions are in [`compat`] only.
//! - No Rust value with a destructor that matters lives across a call that PostgreSQL may leave by longjmp: an ERROR
//!   becomes a panic at every call, so destructors do run ([`boundary`] tells how it becomes an ERROR again).

pub mod aggregate;
pub mod alloc;
mod allocator;
pub mod alter;
pub mod am;
pub mod at_commit;
pub mod attempt;
pub mod background;
pub mod boundary;
pub mod cache;
pub mod catalog;
pub mod clause;
pub mod collation;
pub mod compat;
pub mod custom;
pub mod datum;
mod ereport;
pub mod error;
pub mod evaluate;
pub mod explain_query;
mod family;
pub mod function;
mod handover;
pub mod heap;
pub mod index_path;
pub mod kept;
pub mod key_kind;
mod library;
mod list;
pub mod lock;
pub mod memory;
mod meta_pin;
pub mod operator_class;
pub mod options;
pub mod page;
pub mod parallel_build;
pub mod parallel_memory;
pub mod plan_tree;
pub mod planner;
pub mod query;
pub mod relation;
pub mod relation_changes;
pub mod result_rows;
pub mod sandbox;
pub mod scankey;
pub mod selectivity;
mod server;
pub mod settings;
pub mod shared;
pub mod shared_files;
pub mod sql_text;
pub mod table_columns;
mod tagged;
pub mod temp_file;
pub mod text;
pub mod text_options;
pub mod time_zone;
pub mod types;
pub mod user_keys;
pub mod varlena;
pub mod wal;

pub use ereport::Report;
pub use error::{Damage, fail};
pub use relation::{OpenRel, Rel};
