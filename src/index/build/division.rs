//! How a build by several processes divides the table, and what each process needs to collect a range.

use super::super::collect::{self, RangeCollector};
use super::super::summarize::{self, Caller};
use crate::pages::meta::Meta;
use crate::pg::parallel_build::JobWords;
use crate::pg::{Rel, memory};
use std::ops::Range;

/// MaxHeapTuplesPerPage of pages of 8 kB: a page has no more tuples.
const MOST_ROWS_PER_PAGE: u64 = 291;
/// Bytes per value in a set of distinct hashes that has just grown.
const SET_BYTES: u64 = 32;
/// Bytes that one value takes in a message, and while it waits in the leader.
pub const MESSAGE_BYTES: u64 = size_of::<u64>() as u64;
/// Pages of a chunk. Reading larger chunks is no faster; smaller ones only cost more claims and messages.
const MOST_PAGES: u64 = 1024;
/// Even in a small table, a chunk has this number of pages, or one range.
const LEAST_PAGES: u64 = 16;
/// The table is divided into this number of chunks per process, unless they would be too small or too large. At the
/// end of a build, processes wait at most as long as one chunk takes.
const CHUNKS_PER_PROCESS: u64 = 32;

/// How the ranges of a table are divided: the job of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// The first range that is not summarized.
    pub end: u32,
    /// Size of the table in blocks.
    pub blocks: u32,
    ranges_per_chunk: u32,
    /// Number of processes that build together, at most.
    pub processes: u32,
}

impl Division {
    /// Divides the ranges below `end` between `processes` processes. `waiting` is the memory for contents that wait.
    pub fn new(meta: &Meta, end: u32, blocks: u32, processes: u32, waiting: u64) -> Self {
        let pages_per_range = u64::from(meta.pages_per_range);
        let pages =
            (u64::from(blocks) / (u64::from(processes) * CHUNKS_PER_PROCESS)).clamp(LEAST_PAGES, MOST_PAGES);
        let affordable = waiting / 2 / (values_per_range(meta, blocks) * MESSAGE_BYTES).max(1);
        let ranges = (pages / pages_per_range).min(affordable).max(1);
        Self { end, blocks, ranges_per_chunk: u32::try_from(ranges).unwrap_or(u32::MAX), processes }
    }

    /// Number of chunks.
    pub fn chunks(&self) -> u64 {
        self.end.div_ceil(self.ranges_per_chunk).into()
    }

    /// The ranges of a chunk.
    pub fn ranges_of(&self, chunk: u64) -> Range<u32> {
        let first = chunk * u64::from(self.ranges_per_chunk);
        let end = (first + u64::from(self.ranges_per_chunk)).min(self.end.into());
        // Both are at most `end`, which is an u32.
        first.min(end) as u32..end as u32
    }

    /// The division as the leader passes it to workers.
    pub fn to_words(self) -> JobWords {
        let Self { end, blocks, ranges_per_chunk, processes } = self;
        [end, blocks, ranges_per_chunk, processes].map(u64::from)
    }

    /// The division of the words of [`Division::to_words`].
    pub fn of_words(words: JobWords) -> Self {
        // They were u32.
        let [end, blocks, ranges_per_chunk, processes] = words.map(|word| word as u32);
        Self { end, blocks, ranges_per_chunk, processes }
    }

    /// Collects a range. Returns its number of rows that look live.
    pub fn collect(&self, collector: &mut RangeCollector<'_>, meta: &Meta, range: u32) -> u64 {
        let before = collector.live_rows;
        collector.collect(meta.blocks_of(range, self.blocks));
        (collector.live_rows - before) as u64
    }
}

/// A collector of ranges. It has the settings of the leader's session in workers, too.
pub fn collector<'a>(heap: Rel<'a>, index: Rel<'a>, meta: &Meta) -> RangeCollector<'a> {
    let options = summarize::collector_options(Caller::Build, collect::memory_of_column(meta));
    RangeCollector::new(heap, index, meta, &options)
}

/// The most values that the columns of a range can have.
fn values_per_range(meta: &Meta, blocks: u32) -> u64 {
    u64::from(meta.pages_per_range.min(blocks)) * MOST_ROWS_PER_PAGE * meta.columns.len() as u64
}

/// Memory for the sets of distinct hashes of all processes, and for contents that wait in the leader, each.
pub fn quarter_of_memory() -> u64 {
    memory::maintenance_work_mem() as u64 / 4
}

/// The most processes whose sets of distinct hashes fit into memory.
pub fn most_processes(meta: &Meta, blocks: u32) -> u64 {
    quarter_of_memory() / (values_per_range(meta, blocks) * SET_BYTES).max(1)
}
