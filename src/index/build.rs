//! ambuild and ambuildempty: CREATE INDEX, REINDEX, and all other commands that rebuild an index.
//!
//! The segments are written without WAL; at the end the whole relation is logged at once. The options are fixed in the
//! meta page. The trailing, partial range is summarized too if there are complete ones, so that a table that does not
//! grow is covered to its end.

use super::collect::{RangeCollector, RangeCollectorOptions, Versions};
use super::indexable;
use super::summarize::{self, Caller};
use crate::hash::KeyHasher;
use crate::pages::directory::{self, Directory};
use crate::pages::meta::{ColumnMeta, FIRST_DIRECTORY_BLOCK, META_BLOCK, Meta};
use crate::pg::error::or_raise;
use crate::pg::options::{IndexLayout, Options};
use crate::pg::wal::{self, Logging};
use crate::pg::{Rel, am, fail, memory, page, settings};
use pgrx::PgSqlErrorCode;
use skip_filter::Sizing;
use skip_map::fingerprint_bits_for;
use skip_segment::page::NO_BLOCK;
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

/// Builds the index. Returns the table's number of rows, as hint bits tell it, and the number of ranges summarized.
pub fn build(heap: Rel, index: Rel) -> (f64, f64) {
    check_buildable(heap, index);
    let meta = new_meta(index, heap.estimated_rows());
    let index = meta.bind(index);
    write_empty(index, &meta);
    let blocks = heap.blocks();
    am::progress_phase(PHASE_SCAN);
    am::progress_blocks_total(blocks);
    let result = Directory::load(index, &meta).and_then(|mut directory| {
        let end = summarize::end_of_summarized(&meta, blocks, Caller::Build.takes_partial());
        summarize::summarize_to(heap, index, &mut directory, end, Caller::Build)
    });
    let summary = or_raise(index, result);
    let rows_left_out =
        if blocks < meta.pages_per_range { try_rows(heap, index, &meta, blocks) } else { 0.0 };
    am::progress_phase(PHASE_LOG);
    wal::log_whole(index);
    (summary.live_rows + rows_left_out, summary.ranges as f64)
}

/// Evaluates and hashes the rows of a table smaller than one range, which gets no filter yet: an expression that fails
/// must fail now, not in a later INSERT of another user. Returns the number of rows.
fn try_rows(heap: Rel, index: Rel, meta: &Meta, blocks: u32) -> f64 {
    let options = RangeCollectorOptions {
        bulk: false,
        in_vacuum: false,
        most_hashes: memory::maintenance_work_mem() / 32,
        versions: Versions::All,
        may_fail: false,
    };
    let mut collector = RangeCollector::new(heap, index, meta, &options);
    collector.collect(0, blocks);
    collector.live_rows
}

/// Writes the init fork of an unlogged index: the pages of an empty index.
pub fn build_empty(index: Rel) {
    let meta = new_meta(index, 0.0);
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
            Some(
                "Skip indexes summarize ranges of heap blocks. Use another access method for this table."
                    .into(),
            ),
        );
    }
    for column in 0..index.key_columns() {
        indexable::check(index, column);
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

/// The meta page of a new index. `rows` is the table's estimated number of rows before the build.
fn new_meta(index: Rel, rows: f64) -> Meta {
    let options = Options::of(index);
    let seed = memory::random_seed();
    let columns = (0..index.key_columns()).map(|column| {
        let rate = options.rate_of(index, column);
        let sizing = Sizing::for_rate(rate).unwrap_or(Sizing { bits_per_row: 19, num_probes: 13 });
        let map = (options.layout_of(index, column).unwrap_or_else(settings::default_layout)
            == IndexLayout::Map)
            .then(|| {
                let rate = options.set_rate_of(index, column);
                fingerprint_bits(rows, options.pages_per_range, rate)
            });
        ColumnMeta { canon: KeyHasher::of_column(index, column, seed).canon(), sizing, rate, map }
    });
    Meta::new(seed, options.pages_per_range, columns.collect())
}

/// Fingerprint bits of a new map. A key that is nowhere matches rows / 2^bits ranges. If a rate is set, the bits are
/// chosen so that this is the given fraction of the ranges. Otherwise they are chosen so that less than one page is
/// read in vain, even when the table has grown to ten times its size. A table with fewer than 10 million rows is
/// treated as one of that size, because it may grow.
fn fingerprint_bits(rows: f64, pages_per_range: u32, rate: Option<f64>) -> u8 {
    const GROWTH: f64 = 10.0;
    const LEAST_ROWS: f64 = 10e6;
    /// A page of a table seldom has more rows than this.
    const ROWS_PER_PAGE: f64 = 100.0;
    // The most ranges that a table may have, so that its maps can always be merged into one.
    let most_ranges = (u32::MAX / pages_per_range).saturating_add(1);
    let pages = f64::from(pages_per_range);
    match rate {
        Some(rate) => fingerprint_bits_for(ROWS_PER_PAGE * pages, rate, most_ranges),
        None => fingerprint_bits_for(GROWTH * rows.max(LEAST_ROWS) * pages, 1.0, most_ranges),
    }
}

/// Writes the meta page and an empty directory. The build changes these two pages in place, so they are logged when
/// they are made: a change in WAL must find a page to change, on a standby too.
fn write_empty(index: Rel, meta: &Meta) {
    let first = page::extend(index, FIRST_DIRECTORY_BLOCK + 1);
    debug_assert!(first == META_BLOCK && first != NO_BLOCK);
    meta.write_new(index, Logging::EachPage);
    wal::write_page(index, FIRST_DIRECTORY_BLOCK, directory::empty_page(0), Logging::EachPage);
}
