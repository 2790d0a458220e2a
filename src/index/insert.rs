//! aminsert: adds a new row to the index.
//!
//! A tuple in a range that is not summarized yet needs no entry. That is the common append, and it reads only the meta
//! page. A tuple in a summarized range goes to the delta, column by column, unless the filter has its value already
//! ([`super::delta_writer`]). The watermark is read after the tuple is on its heap page, and again for each tuple: see
//! [`crate::pages::peeked_meta::PeekedMeta`].
//!
//! The first tuple of a heap block, and an insert that makes the delta too long, do maintenance ([`autosummarize`]). A
//! statement that inserts many rows summarizes large batches, and the rest right before its transaction commits. If the
//! index wants a background worker, that does all this ([`super::background`]), unless none can be started.

use super::delta_writer::DeltaWriter;
use super::summarize::{self, Caller};
use super::{autosummarize, build, collect};
use crate::pages::meta::Meta;
use crate::pages::peeked_meta::PeekedMeta;
use crate::pg::am::{InsertCache, TupleAddress};
use crate::pg::error::{IndexResult, or_raise};
use crate::pg::evaluate::IndexRow;
use crate::pg::options::{Autosummarize, Options};
use crate::pg::{Rel, at_commit, background};
use skip_segment::pace::Inserting;
use skip_segment::page::PAGE;

/// What the inserts of one statement keep from row to row.
#[derive(Default)]
pub struct InsertStatement {
    /// Number of blocks of the table that it began.
    blocks: u32,
    /// Whether a column of the index has filters, once all layouts are chosen and somebody asked.
    has_filters: Option<bool>,
    /// Whether the rest is summarized, and merged, before its transaction commits; once it has inserted many rows.
    catches_up: Option<bool>,
    /// Whether the index had a background worker when this statement last looked for it.
    has_worker: Option<bool>,
    /// The watermark with which no merge was left to go on with. Merges are begun with batches of ranges, all of which
    /// raise the watermark, whoever summarizes them.
    no_merges_at: Option<u32>,
    /// What it needs for rows in summarized ranges, once there was one.
    rows: Option<DeltaWriter>,
}

/// Adds a new row to the index, if its range is summarized.
pub fn insert(
    heap: Rel,
    index: Rel,
    row: &IndexRow<'_>,
    place: TupleAddress,
    mut cache: InsertCache<'_, InsertStatement>,
) {
    build::refuse_during_build(index);
    let mut meta = or_raise(index, PeekedMeta::of_insert(index, &mut cache));
    let range = place.block / meta.pages_per_range;
    if range < meta.watermark && place.offset == 1 {
        let ranges = heap.blocks().div_ceil(meta.pages_per_range);
        if summarize::is_cut_short(meta.watermark, ranges) {
            or_raise(index, autosummarize::retire_behind_end(heap, index));
            meta = or_raise(index, PeekedMeta::read(index));
        }
    }
    if range >= meta.watermark {
        if place.offset == 1 {
            or_raise(index, begin_block(heap, index, &meta, place.block, cache.state().0));
        }
        return;
    }
    let (statement, memory) = cache.state();
    let rows = &mut statement.rows;
    let rows = rows.get_or_insert_with(|| memory.run(|| or_raise(index, DeltaWriter::new(index))));
    let pages = or_raise(
        index,
        rows.refresh(index, meta.generation).and_then(|()| rows.append_missing(index, row, place.block)),
    );
    if pages * PAGE as u64 > Options::of(index).delta_limit {
        or_raise(index, autosummarize::fold_delta(index));
    }
}

/// Does the maintenance that is due at the first row of a new block.
fn begin_block(
    heap: Rel,
    index: Rel,
    meta: &PeekedMeta,
    block: u32,
    statement: &mut InsertStatement,
) -> IndexResult<()> {
    statement.blocks += 1;
    let range = block / meta.pages_per_range;
    if Options::of(index).autosummarize == Autosummarize::Off {
        return Ok(());
    }
    let inserting = Inserting {
        summarized: meta.watermark,
        ranges: statement.blocks / meta.pages_per_range,
        pages_per_range: meta.pages_per_range,
        has_filters: false,
    };
    if range > meta.watermark && inserting.may_be_due(range) {
        if is_left_to_worker(heap, index, block, statement) {
            return Ok(());
        }
        let inserting = Inserting { has_filters: has_filters(index, statement)?, ..inserting };
        let mut pace = inserting.pace();
        if pace.is_bulk {
            pace.is_bulk = *statement.catches_up.get_or_insert_with(|| prepare_commit(heap, index));
        }
        if pace.end_of_batch(meta.watermark, range) > meta.watermark
            && autosummarize::autosummarize(heap, index, block, pace, Caller::Insert)?.is_some()
        {
            return Ok(());
        }
    }
    // If there is nothing to merge, the next look comes after the watermark has risen. Looking at each step took 2 % of
    // the time of a statement of a million rows.
    let may_merge = statement.has_worker != Some(true) && statement.no_merges_at != Some(meta.watermark);
    if autosummarize::is_step(block) && may_merge && !autosummarize::merge_further(index, 1)? {
        statement.no_merges_at = Some(meta.watermark);
    }
    Ok(())
}

/// Whether a background worker does the maintenance. It is looked for, and started, at some of the new blocks. An index
/// that calls user-defined code has no worker: the worker cannot run it on rows of a transaction that is in progress,
/// and a process that is connected as superuser should not run it.
fn is_left_to_worker(heap: Rel, index: Rel, block: u32, statement: &mut InsertStatement) -> bool {
    let is_known = statement.has_worker.is_some();
    let may_have = match statement.has_worker {
        None => {
            let is_wanted = Options::of(index).wants_worker(index);
            is_wanted && index.is_valid_index() && !collect::runs_user_code(heap, index)
        }
        Some(has_worker) => has_worker,
    };
    if may_have && (!is_known || autosummarize::is_step(block)) {
        statement.has_worker = Some(background::ensure_worker(heap, index));
        if is_known {
            at_commit::before_commit(index, wake_worker);
        }
    }
    *statement.has_worker.get_or_insert(may_have)
}

/// Starts a worker unless there is one: after the commit it can close the ranges that it had to leave open.
fn wake_worker(heap: Rel, index: Rel) {
    background::ensure_worker(heap, index);
}

/// Has the rest of a large statement summarized before its transaction commits, if that calls no users' code: it could
/// do what a committing transaction must not. Returns whether it is summarized then.
fn prepare_commit(heap: Rel, index: Rel) -> bool {
    let is_safe = !collect::runs_user_code(heap, index);
    if is_safe {
        at_commit::before_commit(index, autosummarize::catch_up);
    }
    is_safe
}

fn has_filters(index: Rel, statement: &mut InsertStatement) -> IndexResult<bool> {
    if let Some(known) = statement.has_filters {
        return Ok(known);
    }
    let meta = Meta::read(index)?;
    let has_filters = meta.has_filters();
    if !meta.is_to_choose() {
        statement.has_filters = Some(has_filters);
    }
    Ok(has_filters)
}
