//! What the background worker of an index does ([`Options::wants_worker`]): it summarizes the ranges that inserts fill,
//! and merges segments, while the inserts go on.
//!
//! An insert starts the worker instead of doing this itself ([`crate::pg::background::ensure_worker`]). The worker
//! looks for new ranges until there were none for a while. It takes the maintenance lock in each transaction, only if
//! it is free, so VACUUM and skip_summarize may take turns with it. All that keeps readers and inserts right is as with
//! [`autosummarize`], which is what the worker calls.
//!
//! To the worker, the rows of the inserting transaction are those of another transaction in progress. A range with a
//! value out of line stays open then ([`super::collect`]). The worker closes such ranges from time to time. A
//! large statement starts a worker right before its transaction commits, if there is none.

use super::summarize::Caller;
use super::{autosummarize, collect};
use crate::pages::peeked_meta::PeekedMeta;
use crate::pg::Rel;
use crate::pg::background::{self, UpkeepWorker};
use crate::pg::error::{IndexResult, or_raise};
use crate::pg::options::Options;
use skip_segment::pace::{Inserting, MOST_EMPTY, most_batch};
use std::time::{Duration, Instant};

/// From one look at the table to the next, if a batch was small or there was none. In this time, one process inserts
/// some thousand blocks at most, which are a large batch.
const PAUSE: Duration = Duration::from_millis(50);
/// A worker ends after this number of pauses without a new range.
const MOST_IDLE: u32 = 30;
/// From one attempt to close open ranges to the next; twice as long after each that closed none.
const CLOSE_EVERY: Duration = Duration::from_millis(500);
/// An attempt looks at this number of times the ranges of one batch, so that its transaction is short. Wider stretches
/// of open ranges are left to VACUUM.
const CLOSE_BATCHES: u32 = 4;
/// A worker ends after this time, also while rows come in: the next one begins with the server's present settings.
const LIFE: Duration = Duration::from_secs(300);

/// What a worker has found.
enum Outcome {
    /// Ranges were summarized, and there are enough for the next batch.
    More,
    /// Ranges were summarized, and too few are left for another batch.
    LastBatch,
    /// There was nothing to summarize.
    Nothing,
    /// The worker is not wanted any more.
    Unwanted,
}

/// Registers the worker's function with the boundary.
pub fn register() {
    background::register(work);
}

fn work(worker: &UpkeepWorker) {
    let until = Instant::now() + LIFE;
    let mut upkeep = Upkeep::begin();
    while upkeep.idle < MOST_IDLE && Instant::now() < until && !worker.is_in_the_way() {
        let found = worker.in_transaction(|heap, index| or_raise(index, upkeep.summarize(heap, index)));
        match found {
            Some(Outcome::More) => continue,
            Some(Outcome::LastBatch) => upkeep.idle = 0,
            Some(Outcome::Nothing) => {
                if std::mem::take(&mut upkeep.is_to_finish) {
                    worker.in_transaction(finish);
                }
                upkeep.idle += 1;
            }
            Some(Outcome::Unwanted) => return,
            // The index is gone, or another process has locked it or its table.
            None => upkeep.idle += 1,
        }
        if upkeep.is_to_close() {
            worker.in_transaction(|heap, index| or_raise(index, upkeep.close(heap, index)));
        }
        worker.pause(PAUSE);
    }
    if std::mem::take(&mut upkeep.is_to_finish) {
        worker.in_transaction(finish);
    }
}

/// Whether the worker is still wanted: the option says so, and the index calls no users' code.
fn is_wanted(heap: Rel, index: Rel) -> bool {
    Options::of(index).wants_worker(index) && !collect::runs_user_code(heap, index)
}

/// Merges what was left to the end.
fn finish(heap: Rel, index: Rel) {
    if is_wanted(heap, index) {
        autosummarize::catch_up(heap, index);
    }
}

/// What a worker knows of its index.
struct Upkeep {
    /// Pauses without a new range before them.
    idle: u32,
    /// Whether merges were left to the end of the present work.
    is_to_finish: bool,
    /// Ranges that this worker had to leave open, counted in each column.
    open: u64,
    /// Whether the worker before may have left some.
    may_be_open: bool,
    /// When the next attempt to close them is due.
    close_at: Instant,
    /// From the last attempt to the next.
    wait: Duration,
}

impl Upkeep {
    fn begin() -> Self {
        let close_at = Instant::now() + CLOSE_EVERY;
        Self { idle: 0, is_to_finish: false, open: 0, may_be_open: true, close_at, wait: CLOSE_EVERY }
    }

    /// Summarizes a batch, and merges as much as the inserts of its rows would have.
    fn summarize(&mut self, heap: Rel, index: Rel) -> IndexResult<Outcome> {
        if !is_wanted(heap, index) {
            return Ok(Outcome::Unwanted);
        }
        let PeekedMeta { watermark, pages_per_range, .. } = PeekedMeta::read(index)?;
        let Some(last_block) = heap.blocks().checked_sub(1) else { return Ok(Outcome::Nothing) };
        let inserting = Inserting {
            summarized: watermark,
            ranges: (last_block / pages_per_range).saturating_sub(watermark),
            pages_per_range,
            has_filters: autosummarize::has_filters(index)?,
        };
        let pace = inserting.pace_in_background();
        // Blocks that are farther behind the newest one have all rows that they will get; they need not be looked at.
        let end_of_batch =
            watermark.saturating_add(most_batch(pages_per_range)).saturating_mul(pages_per_range);
        let newest = last_block.min(end_of_batch.saturating_add(MOST_EMPTY + 1));
        let summary = autosummarize::autosummarize(heap, index, newest, pace, Caller::Worker)?;
        // Ranges that a cancelled VACUUM has left count too: they come before the new ones.
        let summary = summary.unwrap_or_default();
        self.open += summary.open;
        let summarized = u32::try_from(summary.ranges).unwrap_or(u32::MAX);
        let blocks = summarized.saturating_mul(pages_per_range);
        autosummarize::merge_further(index, autosummarize::steps_of(blocks).max(1))?;
        self.is_to_finish |= summarized > 0 && pace.is_bulk;
        Ok(match summarized {
            0 => Outcome::Nothing,
            _ if pace.is_bulk || summarized >= most_batch(pages_per_range) => Outcome::More,
            _ => Outcome::LastBatch,
        })
    }

    /// Whether open ranges may be closed now. The last attempt is made before the worker ends.
    fn is_to_close(&self) -> bool {
        let is_due = Instant::now() >= self.close_at || self.idle == MOST_IDLE;
        is_due && (self.open > 0 || self.may_be_open)
    }

    /// Closes some ranges. While there are such, the worker goes on.
    fn close(&mut self, heap: Rel, index: Rel) -> IndexResult<()> {
        if !is_wanted(heap, index) {
            return Ok(());
        }
        let most = most_batch(PeekedMeta::read(index)?.pages_per_range) * CLOSE_BATCHES;
        let closed = autosummarize::close_open_ranges(heap, index, most)?;
        self.open = self.open.saturating_sub(closed);
        self.may_be_open = closed > 0;
        if closed > 0 {
            (self.idle, self.wait) = (0, CLOSE_EVERY);
            self.close_at = Instant::now();
        } else {
            self.wait *= 2;
            self.close_at = Instant::now() + self.wait;
        }
        Ok(())
    }
}
