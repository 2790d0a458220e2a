//! ambuild and ambuildempty: CREATE INDEX, REINDEX, and all other commands that rebuild an index.
//!
//! | file | what it does in a build by several processes |
//! |---|---|
//! | [`parallel`] | starts the processes; the work of a worker |
//! | [`division`] | divides the table |
//! | [`leader`] | puts the contents of ranges into the index |
//! | [`range_message`] | passes the contents of ranges from workers to the leader |
//! | [`pairs`] | passes the pairs of maps from all processes to all processes |
//! | [`parts`] | makes the maps |
//!
//! The options are fixed in the meta page. The pages of a segment do not change after they are written, so each is
//! logged then, and the server writes WAL to disk while the build goes on. The trailing, partial range is summarized
//! too if there are complete ones, so that a table that does not grow is covered to its end.

use super::choose;
use super::collect::{RangeCollector, RangeCollectorOptions, Versions};
use super::indexable;
use super::phase::Phase;
use super::summarize::{self, Caller};
use crate::hash::keys::ColumnKeys;
use crate::pages::directory::{self, Directory};
use crate::pages::meta::{ColumnMeta, FIRST_DIRECTORY_BLOCK, META_BLOCK, Meta, NO_CANON};
use crate::pg::error::or_raise;
use crate::pg::options::Options;
use crate::pg::wal;
use crate::pg::{Rel, am, fail, memory, page};
use pgrx::PgSqlErrorCode;
use skip_filter::Sizing;
use skip_segment::page::NO_BLOCK;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

mod division;
mod leader;
mod pairs;
mod parallel;
mod parts;
mod range_message;

pub use parallel::register;

/// The OID of the index that this process is building. Each insert reads it. The process has one thread; a thread-local
/// variable of a library costs a call for each access.
static IN_PROGRESS: AtomicU32 = AtomicU32::new(0);

/// A build of this process, until dropped; and the index whose build calls a function that builds this one.
struct Build {
    outer: u32,
}

impl Build {
    fn begin(index: Rel) -> Self {
        Self { outer: IN_PROGRESS.swap(index.oid().to_u32(), Relaxed) }
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        IN_PROGRESS.store(self.outer, Relaxed);
    }
}

/// Raises an error if this process is building the index. Rows that come into ranges that the build has read already
/// would be lost.
pub fn refuse_during_build(index: Rel) {
    if IN_PROGRESS.load(Relaxed) == index.oid().to_u32() {
        fail(
            PgSqlErrorCode::ERRCODE_OBJECT_IN_USE,
            format!("index \"{}\" is being built by the current session", index.name()),
            Some("A function that the build calls inserts into the table, or maintains the index.".into()),
            Some("Functions of an index must not change its table.".into()),
        )
    }
}

/// Builds the index, with at most `workers` parallel workers. `is_new` tells whether it was not there before. Returns
/// the table's number of rows, as hint bits tell it, and the number of ranges summarized.
pub fn build(heap: Rel, index: Rel, workers: u32, is_new: bool) -> (f64, f64) {
    check_buildable(heap, index, is_new);
    let _build = Build::begin(index);
    let blocks = heap.blocks();
    let mut meta = new_meta(index, blocks);
    let index = meta.bind(index);
    if blocks >= meta.pages_per_range {
        choose::choose(heap, index, &mut meta, blocks, &sample_options());
    }
    write_empty(index, &meta);
    Phase::Scan.begin();
    am::progress_blocks_total(blocks);
    let result = Directory::load(index, &meta).and_then(|mut directory| {
        let end = summarize::end_of_summarized(&meta, blocks, Caller::Build.takes_partial());
        match parallel::summarize(heap, index, &mut directory, end, workers)? {
            Some(summary) => Ok(summary),
            None => summarize::summarize_to(heap, index, &mut directory, end, Caller::Build),
        }
    });
    let summary = or_raise(index, result);
    // Not for an empty table: see `am::build`.
    let has_few = blocks > 0 && blocks < meta.pages_per_range;
    let rows_left_out = if has_few { try_rows(heap, index, &meta, blocks) } else { 0.0 };
    (summary.live_rows + rows_left_out, summary.ranges as f64)
}

/// Evaluates and hashes the rows of a table smaller than one range, which gets no filter yet: an expression that fails
/// must fail now, not in a later INSERT of another user. Returns the number of rows.
fn try_rows(heap: Rel, index: Rel, meta: &Meta, blocks: u32) -> f64 {
    let mut collector = RangeCollector::new(heap, index, meta, &sample_options());
    collector.collect(0..blocks);
    collector.live_rows
}

/// How a small part of the table is read.
fn sample_options() -> RangeCollectorOptions {
    RangeCollectorOptions {
        bulk: false,
        in_vacuum: false,
        memory: memory::maintenance_work_mem(),
        versions: Versions::All,
        may_fail: false,
    }
}

/// Writes the init fork of an unlogged index: the pages of an empty index.
pub fn build_empty(index: Rel) {
    let meta = new_meta(index, 0);
    let index = meta.bind(index);
    wal::append_init_page(index, META_BLOCK, meta.image());
    wal::append_init_page(index, FIRST_DIRECTORY_BLOCK, directory::empty_page(0));
}

fn check_buildable(heap: Rel, index: Rel, is_new: bool) {
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
        indexable::check(index, column, is_new);
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

/// The meta page of a new index over a table of `blocks` blocks.
fn new_meta(index: Rel, blocks: u32) -> Meta {
    let options = Options::of(index);
    let seed = memory::random_seed();
    let columns = (0..index.key_columns()).map(|column| {
        let layout = choose::at_first(index, &options, column);
        let rate = choose::rate_at_first(index, &options, column, layout, blocks);
        let sizing = Sizing::for_rate(rate).unwrap_or(Sizing { bits_per_row: 19, num_probes: 13 });
        let canon = ColumnKeys::of_column(index, column, seed).map_or(NO_CANON, |keys| keys.canon());
        ColumnMeta { canon, sizing, rate, layout, sample: None }
    });
    Meta::new(seed, options.pages_of_index(index), columns.collect())
}

/// Writes the meta page and an empty directory.
fn write_empty(index: Rel, meta: &Meta) {
    let first = page::extend(index, FIRST_DIRECTORY_BLOCK + 1);
    debug_assert!(first == META_BLOCK && first != NO_BLOCK);
    meta.write_new(index);
    wal::write_page(index, FIRST_DIRECTORY_BLOCK, directory::empty_page(0));
}
