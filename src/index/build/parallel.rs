//! CREATE INDEX and REINDEX with parallel workers.
//!
//! The ranges to summarize are divided into chunks, which the leader and its workers claim one by one. Each process
//! collects the contents of its ranges: reading the table and hashing its values is most of the work of a build.
//!
//! - **Columns with filters or bounds.** Workers send the contents to the leader, which puts them into the index *in
//!   the order of ranges*. While the contents of the next range are not there yet, the leader collects ranges itself.
//!   Contents of later ranges wait in its memory.
//! - **Columns with maps.** A map is sorted by key, so each process writes its pairs into shared files, divided by key
//!   ([`pairs`](super::pairs)). When all ranges are collected, the second phase begins: each process claims parts of
//!   the maps and makes their pages, which the leader puts into the index in the order of parts
//!   ([`parts`](super::parts)).
//!
//! So the index is the same as the one that a single process builds, and only one process writes to it.
//!
//! **Memory.** `maintenance_work_mem` is for all processes together. A quarter is for the sets of distinct hashes, one
//! set for each column and process. There are only as many workers that the largest possible range of values with one
//! key fits into this quarter in each process: so no range stays open that a single process would have summarized.
//! Another quarter is for contents, or pages, that wait in the leader. A quarter is for pairs that are not in a file
//! yet. The rest is for unfinished segments, as in a build by one process; in the second phase, half of all is for
//! sorting.
//!
//! **No deadlock.** The process that has claimed the next range never waits for the leader for long. A worker sends its
//! ranges in ascending order. If it has the next range, all that it sent before is in the index, so the next message of
//! its queue begins with that range, and the leader takes that message however full its memory is. If the leader has
//! claimed the range, it collects it before it waits. If no process has, all claimed ranges are in the index, so
//! nothing is waiting in memory, and the leader may claim a chunk. The same holds for the parts of the second phase.
//! Workers wait for that phase when all that they have to send is sent.

use super::super::summarize::Summary;
use super::division::{self, Division};
use super::leader::Leader;
use super::pairs::{PairColumn, PairFiles};
use super::{parts, range_message};
use crate::hash;
use crate::pages::directory::Directory;
use crate::pages::meta::{self, Meta};
use crate::pg::Rel;
use crate::pg::error::{IndexResult, or_raise};
use crate::pg::parallel_build::{self, Team, Worker};

/// A worker sends its ranges when they make a message of this number of words, or when its chunk ends.
const MESSAGE_WORDS: usize = 4096;

/// Makes workers able to start; called once per process, when the library is loaded.
pub fn register() {
    parallel_build::register(work);
}

/// Number of workers that are useful and have enough memory, at most `planned`.
fn affordable_workers(index: Rel, meta: &Meta, blocks: u32, planned: u32) -> u32 {
    if planned == 0 || !hash::is_parallel_safe(index) {
        return 0;
    }
    let processes = division::most_processes(meta, blocks).min(u64::from(planned) + 1);
    u32::try_from(processes.saturating_sub(1)).unwrap_or(0)
}

/// Summarizes all ranges below `end` of a new index, with at most `planned` workers. Returns None if there are no
/// workers; then nothing was done.
///
/// # Errors
/// Damage to the index.
pub fn summarize(
    heap: Rel,
    index: Rel,
    directory: &mut Directory<'_>,
    end: u32,
    planned: u32,
) -> IndexResult<Option<Summary>> {
    let meta = Meta::read(index)?;
    let index = meta.bind(index);
    let workers = affordable_workers(index, &meta, heap.blocks(), planned);
    if workers == 0 || end == 0 {
        return Ok(None);
    }
    // As in a build by one process: the watermark rises first, then the size of the table is read.
    meta::update(index, |meta| meta.watermark = meta.watermark.max(end))?;
    let waiting = division::quarter_of_memory();
    let division = Division::new(&meta, end, heap.blocks(), workers + 1, waiting);
    // A worker for which there is no chunk would start in vain.
    let workers = u64::from(workers).min(division.chunks().saturating_sub(1)) as u32;
    let Some(team) = Team::start(heap, index, workers, division.chunks(), division.to_words()) else {
        return Ok(None);
    };
    Leader::new(heap, index, &meta, directory, team, division)?.build().map(Some)
}

/// A worker's work.
fn work(worker: &Worker<'_>) {
    let (heap, index) = (worker.table(), worker.index());
    let division = Division::of_words(worker.job());
    let meta = or_raise(index, Meta::read(index));
    let mut collector = division::collector(heap, meta.bind(index), &meta);
    let columns = or_raise(index, PairColumn::all(&meta, division.end));
    let mut pairs = PairFiles::new(worker.files(), &columns, worker.number(), division.processes);
    let mut message = Vec::new();
    while let Some(chunk) = worker.claim() {
        for range in division.ranges_of(chunk) {
            let live_rows = division.collect(&mut collector, &meta, range);
            if collector.overflowed {
                worker.set_overflowed();
            }
            range_message::write(range, live_rows, &pairs.take(range, &collector.columns), &mut message);
            if message.len() >= MESSAGE_WORDS && !send(worker, &mut message) {
                return;
            }
        }
        if !message.is_empty() && !send(worker, &mut message) {
            return;
        }
    }
    if columns.is_empty() {
        return;
    }
    message = range_message::end(&pairs.finish());
    if send(worker, &mut message) {
        or_raise(index, parts::work(worker, &columns, division.processes));
    }
}

fn send(worker: &Worker<'_>, message: &mut Vec<u64>) -> bool {
    let is_sent = worker.send(message);
    message.clear();
    is_sent
}
