//! The leader of a build by several processes, until all ranges are collected.

use super::super::collect::RangeCollector;
use super::super::contents::RangeContents;
use super::super::phase::Phase;
use super::super::place::{ColumnPlacer, Neighbours};
use super::super::place_map::{add_open, publish_open};
use super::super::summarize::{self, Caller, Summary};
use super::division::{self, Division, MESSAGE_BYTES};
use super::pairs::{PairColumn, PairFiles};
use super::parts;
use super::range_message::{self, SentRange};
use crate::pages::directory::Directory;
use crate::pages::entry::OpenStretch;
use crate::pages::meta::Meta;
use crate::pg::error::{IndexResult, report};
use crate::pg::parallel_build::{Received, Team};
use crate::pg::{Rel, am, fail, memory};
use pgrx::{PgLogLevel, PgSqlErrorCode};
use std::collections::BTreeMap;
use std::ops::Range;

/// What the leader makes of the contents of a column.
enum LeaderColumn<'a> {
    /// Segments, of contents in the order of ranges.
    Placed(Box<ColumnPlacer<'a>>),
    /// The open ranges of a map. Its pairs are in shared files.
    Map(Vec<OpenStretch>),
}

impl LeaderColumn<'_> {
    fn push(
        &mut self,
        directory: &mut Directory<'_>,
        (number, range): (usize, u32),
        contents: RangeContents<'_>,
        is_partial: bool,
    ) -> IndexResult<()> {
        match self {
            Self::Placed(placer) => placer.push(directory, contents, is_partial)?,
            Self::Map(open) if contents.state.open => add_open(open, number as u16, range),
            Self::Map(_) => {}
        }
        Ok(())
    }
}

/// The leader of a build.
pub struct Leader<'a, 'd, 'i> {
    division: Division,
    index: Rel<'a>,
    collector: RangeCollector<'a>,
    columns: Vec<LeaderColumn<'a>>,
    pair_columns: Vec<PairColumn>,
    /// Pairs of the ranges that the leader collects. Fields are dropped in order: files before their set, in the team.
    pairs: PairFiles<'a>,
    team: Team<'a>,
    /// Of each column with maps the number of pairs of the workers that have ended.
    counted: Vec<u64>,
    /// Whether each worker has sent its end.
    ended: Vec<bool>,
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

impl<'a, 'd, 'i> Leader<'a, 'd, 'i> {
    /// The leader of a team that has been started.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn new(
        heap: Rel<'a>,
        index: Rel<'a>,
        meta: &'d Meta,
        directory: &'d mut Directory<'i>,
        team: Team<'a>,
        division: Division,
    ) -> IndexResult<Self> {
        let pair_columns = PairColumn::all(meta, division.end)?;
        let mut columns = Vec::with_capacity(meta.columns.len());
        for placer in summarize::placers(index, meta, Caller::Build) {
            columns.push(match placer {
                ColumnPlacer::Map(_) => LeaderColumn::Map(Vec::new()),
                mut placer => {
                    placer.start_at(0, division.end, Neighbours::default())?;
                    LeaderColumn::Placed(Box::new(placer))
                }
            });
        }
        Ok(Self {
            messages: vec![Vec::new(); team.workers()],
            ended: vec![false; team.workers()],
            pairs: PairFiles::new(team.files(), &pair_columns, 0, division.processes),
            counted: vec![0; pair_columns.len()],
            pair_columns,
            team,
            division,
            index,
            collector: division::collector(heap, index, meta),
            columns,
            directory,
            meta,
            next: 0,
            own: 0..0,
            waiting: BTreeMap::new(),
            waiting_words: 0,
            most_words: (division::quarter_of_memory() / MESSAGE_BYTES) as usize,
            live_rows: 0,
            from_workers: 0,
        })
    }

    /// Collects all ranges, together with the workers, and writes the index.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn build(mut self) -> IndexResult<Summary> {
        while !self.is_collected() {
            memory::check_for_interrupts();
            if self.take_messages()? || self.collect_one()? {
                continue;
            }
            self.team.check_started();
            if self.team.is_alone() || self.has_lost_pairs() {
                self.team.raise_error_of_worker();
                lost(self.index);
            }
            self.team.wait();
        }
        self.finish()
    }

    /// Whether a worker has left before its files of pairs were complete.
    fn has_lost_pairs(&self) -> bool {
        let has_failed = |(worker, &has_ended): (usize, &bool)| !has_ended && self.team.has_left(worker);
        !self.pair_columns.is_empty() && self.ended.iter().enumerate().any(has_failed)
    }

    /// Whether all ranges are in the index, but for pairs, and all files of pairs are complete.
    fn is_collected(&self) -> bool {
        let have_ended = || self.pair_columns.is_empty() || self.ended.iter().all(|&has| has);
        self.next >= self.division.end && have_ended()
    }

    /// Takes what workers have sent. Returns whether there was anything.
    fn take_messages(&mut self) -> IndexResult<bool> {
        let mut any = false;
        for worker in 0..self.messages.len() {
            loop {
                let mut message = std::mem::take(&mut self.messages[worker]);
                if message.is_empty() && self.team.receive(worker, &mut message) != Received::Message {
                    break;
                }
                if let Some(pairs) = range_message::of_end(&message) {
                    self.counted.iter_mut().zip(pairs).for_each(|(all, pairs)| *all += pairs);
                    self.ended[worker] = true;
                    any = true;
                    continue;
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
    fn take(&mut self, message: &[u64]) -> IndexResult<()> {
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
        range_message::read(message, self.columns.len()).unwrap_or_else(|| lost(self.index))
    }

    fn put_aside(&mut self, range: u32, contents: Vec<u64>) {
        self.waiting_words += contents.len();
        if range < self.next || self.waiting.insert(range, contents).is_some() {
            lost(self.index);
        }
    }

    /// Collects a range, unless all are claimed or too many wait. Returns whether it did.
    fn collect_one(&mut self) -> IndexResult<bool> {
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
            let mut message = Vec::new();
            let contents = self.pairs.take(range, &self.collector.columns);
            range_message::write(range, live_rows, &contents, &mut message);
            self.put_aside(range, message);
            return Ok(true);
        }
        let is_partial = self.begin_next(live_rows);
        let contents = self.pairs.take(range, &self.collector.columns);
        for (c, (to, contents)) in self.columns.iter_mut().zip(contents).enumerate() {
            to.push(self.directory, (c, range), contents, is_partial)?;
        }
        self.place_waiting()?;
        Ok(true)
    }

    /// Puts the contents that were waiting for the range before them into the index.
    fn place_waiting(&mut self) -> IndexResult<()> {
        while let Some(contents) = self.waiting.remove(&self.next) {
            self.waiting_words -= contents.len();
            let (sent, _) = self.read(&contents);
            self.place(sent)?;
        }
        Ok(())
    }

    /// Puts a range, which is the next one, into the index.
    fn place(&mut self, sent: SentRange<'_>) -> IndexResult<()> {
        let is_partial = self.begin_next(sent.live_rows);
        for (c, (to, column)) in self.columns.iter_mut().zip(&sent.columns).enumerate() {
            to.push(self.directory, (c, sent.range), column.contents(), is_partial)?;
        }
        Ok(())
    }

    /// Counts the next range as one in the index. Returns whether it is a trailing range that is not complete.
    fn begin_next(&mut self, live_rows: u64) -> bool {
        let (range, blocks) = (self.next, self.division.blocks);
        am::progress_blocks_done(self.meta.blocks_of(range, blocks).end);
        self.live_rows += live_rows;
        self.next += 1;
        self.meta.is_partial(range, blocks)
    }

    /// Writes the unfinished segments and the maps, and ends the workers.
    fn finish(mut self) -> IndexResult<Summary> {
        Phase::Write.begin();
        for column in self.columns {
            match column {
                LeaderColumn::Placed(mut placer) => placer.finish(self.directory)?,
                LeaderColumn::Map(open) => publish_open(self.directory, open)?,
            }
        }
        let own = self.pairs.finish();
        let pairs = self.counted.into_iter().zip(own).map(|(workers, own)| workers + own);
        let maps = self.pair_columns.into_iter().zip(pairs).collect();
        let (parts_of_workers, parts) = parts::lead(&mut self.team, self.directory, maps, self.division)?;
        let (workers, ranges) = (self.team.workers(), u64::from(self.division.end));
        let has_overflowed = self.collector.overflowed || self.team.has_overflowed();
        self.team.finish();
        if has_overflowed {
            summarize::warn_of_overflow(self.index);
        }
        report(
            PgLogLevel::DEBUG1,
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            format!(
                "{workers} parallel workers collected {} of {ranges} block ranges, and made {parts_of_workers} of \
                 {parts} key parts, of index \"{}\"",
                self.from_workers,
                self.index.name()
            ),
            None,
            None,
        );
        Ok(Summary { ranges, live_rows: self.live_rows as f64, ..Summary::default() })
    }
}

/// Raises an error: all workers have left, or sent something else than what is missing. A worker that fails sends its
/// error, which is raised before, so this is a bug.
fn lost(index: Rel) -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
        format!("parallel workers did not collect all block ranges of index \"{}\"", index.name()),
        None,
        Some("Set max_parallel_maintenance_workers to 0, and build the index again.".into()),
    )
}
