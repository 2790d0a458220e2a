//! ambuild and ambuildempty: CREATE INDEX, REINDEX, and all that rebuilds an index.
//!
//! The segments are written without WAL; at the end the whole relation is logged at once. The options are frozen
//! into the meta page. The trailing, partial range is summarized too when there are complete ones, so that a
//! table that does not grow is covered to its end.

use super::summarize::{self, Plan};
use crate::hash::KeyHasher;
use crate::pages::directory::{self, Directory};
use crate::pages::meta::{ColumnMeta, FIRST_DIRECTORY_BLOCK, META_BLOCK, Meta};
use crate::pg::error::or_raise;
use crate::pg::options::Options;
use crate::pg::wal::{self, Logging};
use crate::pg::{Rel, am, catalog, datum, fail, memory, page, types};
use pgrx::PgSqlErrorCode;
use skip_core::Sizing;
use skip_core::page::NO_BLOCK;
use std::ffi::CStr;

// Phases 0 and 1 are PostgreSQL's own: 1 is "initializing".
const PHASE_SCAN: i64 = 2;
const PHASE_LOG: i64 = 3;

/// Names of the phases in pg_stat_progress_create_index.
pub fn phase_name(phase: i64) -> Option<&'static CStr> {
    match phase {
        1 => Some(c"initializing"),
        PHASE_SCAN => Some(c"summarizing block ranges"),
        PHASE_LOG => Some(c"writing WAL"),
        _ => None,
    }
}

/// Builds the index; returns the table's rows as far as hint bits tell, and the ranges summarized.
pub fn build(heap: Rel, index: Rel) -> (f64, f64) {
    check_buildable(heap, index);
    let meta = new_meta(index);
    let index = meta.bind(index);
    write_empty(index, &meta);
    let blocks = heap.blocks();
    am::progress_phase(PHASE_SCAN);
    am::progress_blocks_total(blocks);
    let plan =
        Plan { logging: Logging::AtEnd, partial: true, in_vacuum: false, progress: true, most: u32::MAX };
    let result = Directory::open(index, &meta).and_then(|mut directory| {
        let end = summarize::end_of_summarized(&meta, blocks, plan.partial);
        summarize::summarize_to(heap, index, &mut directory, end, plan)
    });
    let summary = or_raise(index, result);
    am::progress_phase(PHASE_LOG);
    wal::log_whole(index);
    (summary.live_rows + rows_behind(heap, &meta, blocks, summary.live_rows), summary.ranges as f64)
}

/// Rows in the blocks that were not scanned (a table smaller than one range), as many as elsewhere or, where
/// nothing was scanned, counted.
fn rows_behind(heap: Rel, meta: &Meta, blocks: u32, rows: f64) -> f64 {
    if rows > 0.0 || blocks >= meta.pages_per_range {
        return 0.0;
    }
    let mut reader = crate::pg::heap::HeapReader::new(heap, false);
    let mut live = 0u32;
    for block in 0..blocks {
        memory::check_for_interrupts();
        reader.load(block, None);
        live += reader.tuples().filter(|tuple| tuple.looks_live()).count() as u32;
    }
    live.into()
}

/// The init fork of an unlogged index: what an empty index looks like.
pub fn build_empty(index: Rel) {
    let meta = new_meta(index);
    let index = meta.bind(index);
    wal::append_init_page(index, META_BLOCK, meta.image());
    wal::append_init_page(index, FIRST_DIRECTORY_BLOCK, directory::empty_page(0));
}

fn check_buildable(heap: Rel, index: Rel) {
    if !heap.is_heap() {
        fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("access method \"skip\" cannot index table \"{}\"", heap.name()),
            Some("The table does not use the heap table access method.".into()),
            Some("skip indexes summarize ranges of heap blocks; use another index on this table.".into()),
        );
    }
    for column in 0..index.key_columns() {
        check_hashable(index, column);
    }
    if index.blocks() != 0 {
        fail(
            PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
            format!("index \"{}\" already contains data", index.name()),
            None,
            None,
        );
    }
}

/// An operator class may lack its hash function, and one for any array or range says nothing of the elements: whether
/// they can be hashed is asked now, not at the first row.
fn check_hashable(index: Rel, column: usize) {
    let class = index.column_class(column);
    let hashable = datum::hash_function_of(class.family, class.input).is_some()
        && (!types::is_pseudo(class.input) || catalog::has_extended_hash(index.column_type(column)));
    let own = index.column_type(column);
    if types::hashes_against_collation(own, class.collation) {
        fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("access method \"skip\" does not support type {} with nondeterministic collations", types::display_name(own)),
            Some("The type's hash function does not heed the collation, so equal values would hash differently.".into()),
            Some("Index the column cast to text.".into()),
        );
    }
    if types::is_pseudo(class.input) && types::any_part(own, &types::is_row) {
        fail(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("access method \"skip\" does not support type {}, which contains rows", types::display_name(own)),
            Some("Rows have another hash when a column is added to their type: the index would not find what was there before.".into()),
            Some("Index an expression of the rows' columns, or use an operator class with a hash function of your own.".into()),
        );
    }
    if !hashable {
        let type_name = types::display_name(index.column_type(column));
        fail(
            PgSqlErrorCode::ERRCODE_UNDEFINED_FUNCTION,
            format!("could not identify an extended hash function for type {type_name}"),
            Some(format!("Column \"{}\" of the index cannot be hashed.", index.column_name(column))),
            Some("Index an expression of a type that can be hashed, or use an operator class with support function 1.".into()),
        );
    }
}

fn new_meta(index: Rel) -> Meta {
    let options = Options::of(index);
    let seed = memory::random_seed();
    let columns = (0..index.key_columns()).map(|column| {
        let rate = options.rate_of(index, column);
        let sizing = Sizing::for_rate(rate).unwrap_or(Sizing { bits_per_row: 19, hashes: 13 });
        ColumnMeta { canon: KeyHasher::of_column(index, column, seed).canon(), sizing, rate }
    });
    Meta::new(seed, options.pages_per_range, columns.collect())
}

/// The two pages that are changed in place during the build are logged as they are made: a change in WAL must find a
/// page to change, on a standby too.
fn write_empty(index: Rel, meta: &Meta) {
    let first = page::extend(index, FIRST_DIRECTORY_BLOCK + 1);
    debug_assert!(first == META_BLOCK && first != NO_BLOCK);
    meta.write_new(index, Logging::EachPage);
    wal::write_page(index, FIRST_DIRECTORY_BLOCK, directory::empty_page(0), Logging::EachPage);
}
