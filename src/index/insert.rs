//! aminsert: adds a new row to the index.
//!
//! A tuple in a range that is not summarized yet needs no entry. That is the common append, and it reads only the meta
//! page. A tuple in a summarized range goes to the delta, column by column, unless the filter has its value already
//! ([`super::insert_state`]). The watermark is read after the tuple is on its heap page, and again for each tuple: see
//! [`crate::pages::meta::Progress`].
//!
//! The first tuple of a heap block, and an insert that makes the delta too long, do maintenance ([`autosummarize`]).

use super::insert_state::InsertState;
use super::{autosummarize, summarize};
use crate::pages::delta;
use crate::pages::meta::Progress;
use crate::pg::Rel;
use crate::pg::am::{InsertCache, TuplePlace};
use crate::pg::error::or_raise;
use crate::pg::evaluate::IndexRow;
use crate::pg::options::Options;
use skip_segment::page::PAGE;

/// Adds a new row to the index, if its range is summarized.
pub fn insert(
    heap: Rel,
    index: Rel,
    row: &IndexRow<'_>,
    place: TuplePlace,
    mut cache: InsertCache<'_, InsertState>,
) {
    let mut progress = or_raise(index, Progress::read(index));
    let range = place.block / progress.pages_per_range;
    if range < progress.watermark && place.offset == 1 {
        let ranges = heap.blocks().div_ceil(progress.pages_per_range);
        if summarize::is_cut_short(progress.watermark, ranges) {
            or_raise(index, autosummarize::forget_behind_end(heap, index));
            progress = or_raise(index, Progress::read(index));
        }
    }
    if range >= progress.watermark {
        let (batch, lag) = autosummarize::pace(progress.watermark);
        if place.offset == 1 && range - progress.watermark >= batch + lag {
            or_raise(index, autosummarize::autosummarize(heap, index, range));
        } else if place.offset == 1 && autosummarize::is_step(place.block) {
            or_raise(index, autosummarize::merge_further(index));
        }
        return;
    }
    let state = cache.get_or_init(|| or_raise(index, InsertState::new(index)));
    let missing = or_raise(
        index,
        state
            .refresh(index, progress.generation)
            .and_then(|()| state.missing_entries(index, row, place.block)),
    );
    if missing.is_empty() {
        return;
    }
    let pages = or_raise(index, delta::append(index, &missing));
    if pages * PAGE as u64 > Options::of(index).delta_limit {
        or_raise(index, autosummarize::fold_delta(index));
    }
}
