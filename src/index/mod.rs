//! The access method `skip`: a row's journey into the index, one file for each group of callbacks.
//!
//! | file | PostgreSQL's callbacks |
//! |---|---|
//! | [`handler`] | the handler function and the table of callbacks |
//! | [`build`] | ambuild, ambuildempty |
//! | [`insert`], [`delta_writer`], [`autosummarize`] | aminsert; the entries that it adds; its maintenance |
//! | [`background`] | (background worker) the same maintenance without aminsert |
//! | [`concurrent_build`] | ambulkdelete, as CREATE INDEX CONCURRENTLY calls it |
//! | [`vacuum`] | amvacuumcleanup, and skip_summarize |
//! | [`bitmap_scan`] | amgetbitmap |
//! | [`cost`] | amcostestimate |
//! | [`validate`] | amvalidate |
//! | [`inspect`] | skip_index_info, skip_index_segments, skip_matching_ranges |
//! | [`range_map`] | skip_range_map |
//! | [`verify`], [`verify_contents`] | skip_index_verify: the structure, the contents |
//! | [`alter`] | (object_access_hook) |
//! | [`advise`], [`advise_inside`], [`advise_sample`] | skip_advise: whole values, their parts, the sample |
//!
//! Shared code: [`choose`] chooses the layout of columns from a sample of the table. [`collect`] reads block ranges of
//! the table; [`contents`] is what it finds of one column. [`place`] makes segments of them: filters
//! ([`place_filters`]), a map ([`place_map`]) or bounds ([`place_bounds`]). [`summarize`] does both in an order that is
//! safe, and [`close`] closes the ranges that it had to leave open. [`rebuild`] replaces what rows that are gone have
//! left, in filters ([`rebuild_filters`]), maps ([`rebuild_maps`]) and bounds ([`rebuild_bounds`]); [`rebuild_work`]
//! reads the table for all three. [`map_check`] compares maps with the table. [`indexable`] refuses columns that cannot
//! be indexed. [`target`] opens the index that a function is given, and [`steady`] reads one that may change meanwhile.
//! [`phase`] names the phases of CREATE INDEX.

mod advise;
mod advise_inside;
mod advise_sample;
mod alter;
mod autosummarize;
mod background;
mod bitmap_scan;
mod build;
mod choose;
mod close;
mod collect;
mod concurrent_build;
mod contents;
mod cost;
mod delta_writer;
mod handler;
mod indexable;
mod insert;
mod inspect;
mod map_check;
mod phase;
mod place;
mod place_bounds;
mod place_filters;
mod place_map;
mod range_map;
mod rebuild;
mod rebuild_bounds;
mod rebuild_filters;
mod rebuild_maps;
mod rebuild_work;
mod refine;
mod steady;
mod summarize;
mod target;
mod vacuum;
mod validate;
mod verify;
mod verify_contents;

/// Registers callbacks with the server; called once per process, when the library is loaded.
pub fn register() {
    alter::register();
    background::register();
    build::register();
}
