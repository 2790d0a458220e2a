//! CREATE INDEX and REINDEX with parallel workers.
//!
//! The ranges to summarize are divided into chunks, which the leader and its workers claim one by one. Each process
//! collects the contents of its ranges: reading the table and hashing its values is most of the work of a build.
//! Workers send the contents to the leader, which puts them into the index *in the order of ranges*. So the index is
//! the same as the one that a single process builds, and only one process writes to it. While the contents of the next
//! range are not there yet, the leader collects ranges itself. Contents of later ranges wait in its memory.
//!
//! **Memory.** `maintenance_work_mem` is for all processes together. A quarter is for the sets of distinct hashes, one
//! set for each column and process. There are only as many workers that the largest possible range fits into this
//! quarter in each process: so no range stays open that a single process would have summarized. Another quarter is for
//! contents that wait in the leader. The rest is for unfinished segments, as in a build by one process.
//!
//! **No deadlock.** The process that has claimed the next range never waits for the leader for long. A worker sends its
//! ranges in ascending order. If it has the next range, all that it sent before is in the index, so the next message of
//! its queue begins with that range, and the leader takes that message however full its memory is. If the leader has
//! claimed the range, it collects it before it waits. If no process has, all claimed ranges are in the index, so
//! nothing is waiting in memory, and the leader may claim a chunk.

use super::collect::RangeCollector;
use super::place::ColumnPlacer;
use super::range_message::{self, SentRange};
use super::summarize::{self, Caller, Summary};
use crate::hash;
use crate::pages::directory::Directory;
use crate::pages::meta::{self, Meta};
use crate::pg::error::{Read, or_raise, report};
use crate::pg::parallel_build::{self, JobWords, Received, Team, Worker};
use crate::pg::{Rel, am, fail, memory};
use pgrx::{PgLogLevel, PgSqlErrorCode};
use std::collections::BTreeMap;
use std::ops::Range;

/// MaxHeapTuplesPerPage of pages of 8 kB: a page has no more tuples.
const MOST_ROWS_PER_PAGE: u64 = 291;
/// Bytes per value in a set of distinct hashes that has just grown.
const SET_BYTES: u64 = 32;
/// Bytes that one value takes in a message, and while it waits in the leader.
const MESSAGE_BYTES: u64 = size_of::<u64>() as u64;
/// Pages of a chunk. Reading larger chunks is no faster; smaller ones only cost more claims and messages.
const MOST_PAGES: u64 = 1024;
/// Even in a small table, a chunk has this number of pages, or one range.
const LEAST_PAGES: u64 = 16;
/// The table is divided into this number of chunks per process, unless they would be too small or too large. At the
/// end of a build, processes wait at most as long as one chunk takes.
const CHUNKS_PER_PROCESS: u64 = 32;
/// A worker sends its ranges when they make a message of this number of words, or when its chunk ends.
const MESSAGE_WORDS: usize = 4096;

/// Makes workers able to start; called once per process, when the library is loaded.
pub fn register() {
    parallel_build::register(work);
}

/// How the ranges of a table are divided: the job of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    /// The first range that is not summarized.
    end: u32,
    /// Size of the table in blocks.
    blocks: u32,
    ranges_per_chunk: u32,
}

impl Division {
    /// Divides the ranges below `end` between `processes` processes. `waiting` is the memory for contents that wait.
    fn new(meta: &Meta, end: u32, blocks: u32, processes: u64, waiting: u64) -> Self {
        let pages_per_range = u64::from(meta.pages_per_range);
        let pages = (u64::from(blocks) / (processes * CHUNKS_PER_PROCESS)).clamp(LEAST_PAGES, MOST_PAGES);
        let affordable = waiting / 2 / (values_per_range(meta, blocks) * MESSAGE_BYTES).max(1);
        let ranges = (pages / pages_per_range).min(affordable).max(1);
        Self { end, blocks, ranges_per_chunk: u32::try_from(ranges).unwrap_or(u32::MAX) }
    }

    fn chunks(&self) -> u64 {
        self.end.div_ceil(self.ranges_per_chunk).into()
    }

    fn ranges_of(&self, chunk: u64) -> Range<u32> {
        let first = chunk * u64::from(self.ranges_per_chunk);
        let end = (first + u64::from(self.ranges_per_chunk)).min(self.end.into());
        // Both are at most `end`, which is an u32.
        first.min(end) as u32..end as u32
    }

    fn to_words(self) -> JobWords {
        let Self { end, blocks, ranges_per_chunk } = self;
        [end.into(), blocks.into(), ranges_per_chunk.into()]
    }

    fn of_words([end, blocks, ranges_per_chunk]: JobWords) -> Self {
        // The words are those of to_words().
        Self { end: end as u32, blocks: blocks as u32, ranges_per_chunk: ranges_per_chunk as u32 }
    }

    /// Collects a range. Returns its number of rows that look live.
    fn collect(&self, collector: &mut RangeCollector<'_>, meta: &Meta, range: u32) -> u64 {
        let before = collector.live_rows;
        let (first, last, _) = summarize::blocks_of(meta, range, self.blocks);
        collector.collect(first, last);
        (collector.live_rows - before) as u64
    }
}

/// A collector of ranges. It has the settings of the leader's session in workers, too.
fn collector<'a>(heap: Rel<'a>, index: Rel<'a>, meta: &Meta) -> RangeCollector<'a> {
    let options = summarize::collector_options(Caller::Build, summarize::memory_of_column(meta));
    RangeCollector::new(heap, index, meta, &options)
}

/// The most values that the columns of a range can have.
fn values_per_range(meta: &Meta, blocks: u32) -> u64 {
    u64::from(meta.pages_per_range.min(blocks)) * MOST_ROWS_PER_PAGE * meta.columns.len() as u64
}

/// Memory for the sets of distinct hashes of all processes, and for contents that wait in the leader, each.
fn quarter_of_memory() -> u64 {
    memory::maintenance_work_mem() as u64 / 4
}

/// Number of workers that are useful and have enough memory, at most `planned`.
fn affordable_workers(index: Rel, meta: &Meta, blocks: u32, planned: u32) -> u32 {
    if planned == 0 || !hash::is_parallel_safe(index) {
        return 0;
    }
    let of_each = (values_per_range(meta, blocks) * SET_BYTES).max(1);
    let processes = (quarter_of_memory() / of_each).min(u64::from(planned) + 1);
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
) -> Read<Option<Summary>> {
    let meta = Meta::read(index)?;
    let index = meta.bind(index);
    let workers = affordable_workers(index, &meta, heap.blocks(), planned);
    if workers == 0 || end == 0 {
        return Ok(None);
    }
    // As in a build by one process: the watermark rises first, then the size of the table is read.
    meta::update(index, |meta| meta.watermark = meta.watermark.max(end))?;
    let waiting = quarter_of_memory();
    let division = Division::new(&meta, end, heap.blocks(), u64::from(workers) + 1, waiting);
    // A worker for which there is no chunk would start in vain.
    let workers = u64::from(workers).min(division.chunks().saturating_sub(1)) as u32;
    let Some(team) = Team::start(heap, index, workers, division.chunks(), division.to_words()) else {
        return Ok(None);
    };
    let mut placers = summarize::placers(index, &meta, Caller::Build);
    for placer in &mut placers {
        placer.start_at(0, end, None)?;
    }
    let mut leader = Leader {
        messages: vec![Vec::new(); team.workers()],
        team,
        division,
        index,
        collector: collector(heap, index, &meta),
        placers,
        directory,
        meta: &meta,
        next: 0,
        own: 0..0,
        waiting: BTreeMap::new(),
        waiting_words: 0,
        most_words: (waiting / MESSAGE_BYTES) as usize,
        live_rows: 0,
        from_workers: 0,
    };
    leader.run()?;
    leader.finish().map(Some)
}

/// The leader of a build.
struct Leader<'a, 'd, 'i> {
    team: Team<'a>,
    division: Division,
    index: Rel<'a>,
    collector: RangeCollector<'a>,
    placers: Vec<ColumnPlacer<'a>>,
    directory: &'d mut Directory<'i>,
    meta: &'d Meta,
    /// The first range that is not in the index.
    next: u32,
    /// The ranges of the leader's current chunk that it has not collected.
    own: Range<u32>,
    /// Contents of ranges after `next`, each as a message of one range.
    waiting: BTreeMap<u32, Vec<u64>>,
    waiting_words: usize,
    /// The most words that may wait, except for the rest of a chunk or message.
    most_words: usize,
    /// For each worker, the message that was read but not taken; empty if there is none.
    messages: Vec<Vec<u64>>,
    live_rows: u64,
    /// Number of ranges that workers have collected.
    from_workers: u64,
}

impl Leader<'_, '_, '_> {
    fn run(&mut self) -> Read<()> {
        while self.next < self.division.end {
            memory::check_for_interrupts();
            if self.take_messages()? || self.collect_one()? {
                continue;
            }
            if self.team.is_alone() {
                lost(self.index);
            }
            self.team.wait();
        }
        Ok(())
    }

    /// Takes what workers have sent. Returns whether there was anything.
    fn take_messages(&mut self) -> Read<bool> {
        let mut any = false;
        for worker in 0..self.messages.len() {
            loop {
                let mut message = std::mem::take(&mut self.messages[worker]);
                if message.is_empty() && self.team.receive(worker, &mut message) != Received::Message {
                    break;
                }
                let has_room = self.waiting_words < self.most_words;
                if !has_room && range_message::first_range(&message) != Some(self.next) {
                    self.messages[worker] = message;
                    break;
                }
                self.take(&message)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Takes a message of a worker.
    fn take(&mut self, message: &[u64]) -> Read<()> {
        let mut rest = message;
        while !rest.is_empty() {
            let (sent, after) = self.read(rest);
            self.from_workers += 1;
            if sent.range == self.next {
                self.place(sent)?;
                self.place_waiting()?;
            } else {
                self.put_aside(sent.range, rest[..rest.len() - after.len()].to_vec());
            }
            rest = after;
        }
        Ok(())
    }

    /// The first range of a message, and what comes after it.
    fn read<'m>(&self, message: &'m [u64]) -> (SentRange<'m>, &'m [u64]) {
        range_message::read(message, self.placers.len()).unwrap_or_else(|| lost(self.index))
    }

    fn put_aside(&mut self, range: u32, contents: Vec<u64>) {
        self.waiting_words += contents.len();
        if range < self.next || self.waiting.insert(range, contents).is_some() {
            lost(self.index);
        }
    }

    /// Collects a range, unless all are claimed or too many wait. Returns whether it did.
    fn collect_one(&mut self) -> Read<bool> {
        let has_room = self.waiting_words < self.most_words;
        if self.own.is_empty()
            && has_room
            && let Some(chunk) = self.team.claim()
        {
            self.own = self.division.ranges_of(chunk);
        }
        let Some(range) = self.own.next() else { return Ok(false) };
        let live_rows = self.division.collect(&mut self.collector, self.meta, range);
        if range != self.next {
            let mut contents = Vec::new();
            range_message::write(range, live_rows, &self.collector.columns, &mut contents);
            self.put_aside(range, contents);
            return Ok(true);
        }
        let is_partial = self.begin_next(live_rows);
        for (placer, column) in self.placers.iter_mut().zip(&self.collector.columns) {
            placer.push(self.directory, column.contents(), is_partial)?;
        }
        self.place_waiting()?;
        Ok(true)
    }

    /// Puts the contents that were waiting for the range before them into the index.
    fn place_waiting(&mut self) -> Read<()> {
        while let Some(contents) = self.waiting.remove(&self.next) {
            self.waiting_words -= contents.len();
            let (sent, _) = self.read(&contents);
            self.place(sent)?;
        }
        Ok(())
    }

    /// Puts a range, which is the next one, into the index.
    fn place(&mut self, sent: SentRange<'_>) -> Read<()> {
        let is_partial = self.begin_next(sent.live_rows);
        for (placer, column) in self.placers.iter_mut().zip(&sent.columns) {
            placer.push(self.directory, column.contents(), is_partial)?;
        }
        Ok(())
    }

    /// Counts the next range as one in the index. Returns whether it is a trailing range that is not complete.
    fn begin_next(&mut self, live_rows: u64) -> bool {
        let (_, last, is_partial) = summarize::blocks_of(self.meta, self.next, self.division.blocks);
        am::progress_blocks_done(last);
        self.live_rows += live_rows;
        self.next += 1;
        is_partial
    }

    /// Writes the unfinished segments, and ends the workers.
    fn finish(mut self) -> Read<Summary> {
        for placer in &mut self.placers {
            placer.finish(self.directory)?;
        }
        let (workers, ranges) = (self.team.workers(), u64::from(self.division.end));
        self.team.finish();
        if self.collector.overflowed {
            summarize::warn_of_overflow(self.index);
        }
        report(
            PgLogLevel::DEBUG1,
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            format!(
                "{workers} parallel workers collected {} of {ranges} block ranges of index \"{}\"",
                self.from_workers,
                self.index.name()
            ),
            None,
            None,
        );
        Ok(Summary { ranges, live_rows: self.live_rows as f64, failure: None })
    }
}

/// Raises an error: all workers have left, or sent something else than the ranges that are missing. A worker that fails
/// sends its error, which is raised before, so this is a bug.
fn lost(index: Rel) -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
        format!("parallel workers did not collect all block ranges of index \"{}\"", index.name()),
        None,
        Some("Set max_parallel_maintenance_workers to 0, and build the index again.".into()),
    )
}

/// A worker's work.
fn work(worker: &Worker<'_>) {
    let (heap, index) = (worker.table(), worker.index());
    let division = Division::of_words(worker.job());
    let meta = or_raise(index, Meta::read(index));
    let mut collector = collector(heap, meta.bind(index), &meta);
    let mut message = Vec::new();
    while let Some(chunk) = worker.claim() {
        for range in division.ranges_of(chunk) {
            let live_rows = division.collect(&mut collector, &meta, range);
            range_message::write(range, live_rows, &collector.columns, &mut message);
            if message.len() >= MESSAGE_WORDS && !send(worker, &mut message) {
                return;
            }
        }
        if !message.is_empty() && !send(worker, &mut message) {
            return;
        }
    }
}

fn send(worker: &Worker<'_>, message: &mut Vec<u64>) -> bool {
    let is_sent = worker.send(message);
    message.clear();
    is_sent
}
