//! The blocks that a Skip Index Scan reads, in order, and what is counted on the way.
//!
//! One process takes all ranges. Parallel ones claim them: each has looked into the index by itself, and may have found
//! more or fewer survivors than another, because bits are added all the time. So what is claimed is a stretch of the
//! *whole* table, survivors or not; every range is in exactly one claim, and either answer about it was right. What was
//! ruled out is counted once, by the process with the first claim, as it found it: so it is known even when reading
//! ends early, because there is a `LIMIT`.
//!
//! A scan of one process may turn, for a cursor that moves back and forth: then blocks are fed from the last to the
//! first, or again from the first to the last. From its first turn on no ranges are counted any more, because they are
//! read more than once.
//!
//! The feed of pages runs ahead of the rows. [`Blocks::next_block`] is the feed's side, [`Blocks::entered`] and
//! [`Blocks::found_row`] are the rows' side.

use crate::RangeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What an index left over.
pub struct Survivors {
    /// The ranges to read.
    pub ranges: RangeSet,
    /// Ranges without a filter.
    pub unfiltered: RangeSet,
    /// Heap blocks per range.
    pub pages_per_range: u32,
    /// Index pages read to find out.
    pub index_pages: u64,
}

impl Survivors {
    /// The same survivors of a table of `blocks` blocks, in ranges of another size. Such a range survives if any of its
    /// blocks does.
    fn in_ranges_of(self, pages_per_range: u32, blocks: u32) -> Self {
        let (own, other) = (self.pages_per_range, pages_per_range.max(1));
        if own == other {
            return self;
        }
        let unit = greatest_divisor(own, other);
        let count = |pages: u32| u64::from(blocks.div_ceil(pages));
        let convert = |ranges: &RangeSet| {
            ranges
                .refined(u64::from(own / unit), count(unit))
                .coarsened(u64::from(other / unit), count(other))
        };
        let (ranges, unfiltered) = (convert(&self.ranges), convert(&self.unfiltered));
        Self { ranges, unfiltered, pages_per_range: other, ..self }
    }
}

/// The greatest common divisor of two numbers, of which the second one is not 0.
fn greatest_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// What scans have read; all are sums over executions and parallel processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounters {
    /// How often an index was asked, by however many processes.
    pub scans: u64,
    /// Ranges of the table.
    pub total: u64,
    /// Ranges ruled out.
    pub skipped: u64,
    /// Ranges of which reading began.
    pub scanned: u64,
    /// Summarized ranges read to the end.
    pub full_positives: u64,
    /// Of those, the ones with a visible row that satisfies the index conditions.
    pub true_positives: u64,
    /// Surviving ranges without a filter.
    pub unsummarized: u64,
    /// Visible rows that did not satisfy the index conditions.
    pub removed_rows: u64,
    /// Index pages read.
    pub index_pages: u64,
}

/// Number of fields of [`ScanCounters`].
const COUNTERS: usize = 9;

impl ScanCounters {
    /// Adds others to these.
    pub fn add(&mut self, others: &Self) {
        let mut others = *others;
        for (to, from) in self.fields().into_iter().zip(others.fields()) {
            *to += *from;
        }
    }

    /// Each before those that it bounds: `full_positives` before `true_positives`.
    fn fields(&mut self) -> [&mut u64; COUNTERS] {
        [
            &mut self.scans,
            &mut self.total,
            &mut self.skipped,
            &mut self.scanned,
            &mut self.full_positives,
            &mut self.true_positives,
            &mut self.unsummarized,
            &mut self.removed_rows,
            &mut self.index_pages,
        ]
    }
}

/// What parallel processes share; all zeroes but the blocks when the leader makes it.
#[repr(C)]
#[derive(Default)]
pub struct SharedScan {
    /// Blocks of the table, as the leader found it: the same for all.
    blocks: AtomicU32,
    /// Heap blocks per range; 0 until the first process has asked the index.
    unit: AtomicU32,
    /// The first range that nobody has claimed.
    next: AtomicU64,
    /// What workers have counted.
    counters: [AtomicU64; COUNTERS],
}

impl SharedScan {
    /// For a table of `blocks` blocks.
    pub fn new(blocks: u32) -> Self {
        Self { blocks: AtomicU32::new(blocks), ..Default::default() }
    }

    /// Blocks of the table.
    pub fn blocks(&self) -> u32 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Gives all ranges back, for the next execution.
    pub fn restart(&self) {
        self.next.store(0, Ordering::Relaxed);
    }

    /// What workers have counted so far. They may be counting: what is written last is read first, so that nothing is
    /// seen without that which bounds it.
    pub fn add_to(&self, counters: &mut ScanCounters) {
        for (local, shared) in counters.fields().into_iter().zip(&self.counters).rev() {
            *local += shared.load(Ordering::Acquire);
        }
    }

    fn take(&self, counters: &mut ScanCounters) {
        for (local, shared) in counters.fields().into_iter().zip(&self.counters) {
            shared.fetch_add(std::mem::take(local), Ordering::Release);
        }
    }
}

/// Claims that the survivors are divided into, so that processes finish at about the same time.
const CLAIMS: u64 = 256;
/// Most ranges of a claim: its pages are read in one go by one process.
const MOST_RANGES: u64 = 512;

/// One execution of a scan.
pub struct Blocks {
    survivors: Survivors,
    blocks: u32,
    shared: Option<&'static SharedScan>,
    is_worker: bool,
    /// The claim being fed: ranges from, to.
    claim: (u64, u64),
    /// No claim is left.
    is_done: bool,
    /// The run of blocks being fed.
    run: (u32, u32),
    /// Blocks are fed from the last to the first.
    is_backward: bool,
    /// The scan has changed its direction.
    has_turned: bool,
    /// The range whose rows are being read, and whether one satisfied the index conditions.
    reading: Option<(u64, bool)>,
    /// What was counted, and not handed over to the leader yet.
    pub counters: ScanCounters,
}

impl Blocks {
    /// The blocks of a table of `blocks` blocks that survived. Parallel processes claim ranges of the size that the
    /// first of them has; an index whose layout is chosen meanwhile may have given another one to this process.
    pub fn new(
        mut survivors: Survivors,
        blocks: u32,
        shared: Option<&'static SharedScan>,
        is_worker: bool,
    ) -> Self {
        if let Some(shared) = shared {
            let unit = survivors.pages_per_range;
            let before = shared.unit.compare_exchange(0, unit, Ordering::Relaxed, Ordering::Relaxed);
            if let Err(agreed) = before {
                survivors = survivors.in_ranges_of(agreed, blocks);
            }
        }
        let counters =
            // Of a shared scan the leader counts one, whoever takes part.
            ScanCounters { scans: u64::from(shared.is_none()), index_pages: survivors.index_pages, ..Default::default() };
        Self {
            survivors,
            blocks,
            shared,
            is_worker,
            claim: (0, 0),
            is_done: false,
            run: (0, 0),
            is_backward: false,
            has_turned: false,
            reading: None,
            counters,
        }
    }

    /// Starts over with the same survivors.
    pub fn restart(&mut self) {
        self.leave();
        (self.claim, self.is_done, self.run) = ((0, 0), false, (0, 0));
        (self.is_backward, self.has_turned) = (false, false);
    }

    /// Changes the direction: from now on, the blocks before `block` are fed, from the last to the first, or those
    /// after it, from the first to the last. Without a block, all are. Only for a scan that other processes do not
    /// share.
    pub fn turn(&mut self, is_backward: bool, block: Option<u32>) {
        if !self.is_done {
            self.claim_more(); // counts the survivors
        }
        (self.is_backward, self.has_turned, self.reading) = (is_backward, true, None);
        (self.claim, self.run) = ((0, self.survivors.ranges.universe()), (0, 0));
        let Some(block) = block else { return };
        let unit = u64::from(self.survivors.pages_per_range);
        let range = u64::from(block) / unit;
        if is_backward {
            self.claim.1 = range;
            self.run = ((range * unit) as u32, block);
        } else {
            self.claim.0 = range + 1;
            self.run = (block + 1, self.end_of(range));
        }
    }

    /// The block after the last one of a range.
    fn end_of(&self, range: u64) -> u32 {
        ((range + 1) * u64::from(self.survivors.pages_per_range)).min(self.blocks.into()) as u32
    }

    /// From now on, only the blocks of single ranges of `pages_per_range` blocks are fed, which [`Blocks::choose`]
    /// chooses. What was ruled out is counted. Parallel processes do not share such a scan.
    pub fn read_in_order(&mut self, pages_per_range: u32) {
        let nothing = RangeSet::empty(0);
        let none =
            Survivors { ranges: nothing.clone(), unfiltered: nothing, pages_per_range, index_pages: 0 };
        let unit = greatest_divisor(self.survivors.pages_per_range, pages_per_range.max(1));
        self.survivors = std::mem::replace(&mut self.survivors, none).in_ranges_of(unit, self.blocks);
        (self.claim, self.is_done, self.run) = ((0, 0), true, (0, 0));
        self.count_survivors();
    }

    /// Feeds the blocks of a range of `pages_per_range` blocks next, as far as they survived; false if none did.
    pub fn choose(&mut self, range: u32, pages_per_range: u32) -> bool {
        self.claim = self.units_of(&(range..range + 1), pages_per_range);
        self.run = (0, 0);
        self.survivors.ranges.any_in(self.claim.0, self.claim.1)
    }

    /// Whether a block of these ranges of `pages_per_range` blocks survived.
    pub fn any_of(&self, ranges: &Range<u32>, pages_per_range: u32) -> bool {
        let (from, to) = self.units_of(ranges, pages_per_range);
        self.survivors.ranges.any_in(from, to)
    }

    /// The ranges of the survivors' size that have blocks of these ranges of `pages_per_range` blocks: from, to.
    fn units_of(&self, ranges: &Range<u32>, pages_per_range: u32) -> (u64, u64) {
        let unit = u64::from(self.survivors.pages_per_range);
        let block = |range: u32| u64::from(range) * u64::from(pages_per_range);
        (block(ranges.start) / unit, block(ranges.end).div_ceil(unit))
    }

    /// Whether nothing survived.
    pub fn is_nothing(&self) -> bool {
        self.survivors.ranges.is_empty()
    }

    /// Blocks that survived.
    pub fn count(&self) -> u64 {
        self.survivors.ranges.count() * u64::from(self.survivors.pages_per_range)
    }

    /// The next block to feed.
    pub fn next_block(&mut self) -> Option<u32> {
        while self.run.0 >= self.run.1 {
            match self.next_range() {
                Some(range) => {
                    let start = range * u64::from(self.survivors.pages_per_range);
                    self.run = (start as u32, self.end_of(range));
                }
                None if self.is_done => return None,
                None => self.claim_more(),
            }
        }
        if self.is_backward {
            self.run.1 -= 1;
            return Some(self.run.1);
        }
        self.run.0 += 1;
        Some(self.run.0 - 1)
    }

    /// Takes the next survivor of the claim.
    fn next_range(&mut self) -> Option<u64> {
        let (from, to) = self.claim;
        if self.is_backward {
            let range = self.survivors.ranges.last_in(to).filter(|&range| range >= from)?;
            self.claim.1 = range;
            return Some(range);
        }
        let range = self.survivors.ranges.next_in(from).filter(|&range| range < to)?;
        self.claim.0 = range + 1;
        Some(range)
    }

    fn claim_more(&mut self) {
        let ranges = &self.survivors.ranges;
        let (start, end) = match self.shared {
            None => (0, ranges.universe()),
            Some(shared) => {
                let most = (ranges.count() / CLAIMS).clamp(1, MOST_RANGES);
                let mut start = shared.next.load(Ordering::Relaxed);
                loop {
                    let end = ranges
                        .next_in(start)
                        .map_or(ranges.universe(), |first| (first + most).min(ranges.universe()));
                    let end = end.max(start);
                    let swap = shared.next.compare_exchange(start, end, Ordering::Relaxed, Ordering::Relaxed);
                    match swap {
                        Ok(_) => break (start, end),
                        Err(now) => start = now,
                    }
                }
            }
        };
        self.claim = (start, end);
        self.is_done = end >= ranges.universe();
        if start == 0 {
            self.count_survivors();
            self.hand_over();
        }
    }

    fn count_survivors(&mut self) {
        let ranges = &self.survivors.ranges;
        let mut unsummarized = ranges.clone();
        unsummarized.intersect_with(&self.survivors.unfiltered);
        self.counters.total += ranges.universe();
        self.counters.skipped += ranges.universe() - ranges.count();
        self.counters.unsummarized += unsummarized.count();
    }

    /// The rows of a block come now.
    pub fn entered(&mut self, block: u32) {
        if self.has_turned {
            return;
        }
        let range = u64::from(block / self.survivors.pages_per_range);
        if self.reading.is_none_or(|(before, _)| before != range) {
            self.finish_reading();
            self.reading = Some((range, false));
            self.counters.scanned += 1;
            self.hand_over();
        }
    }

    /// A row satisfied the index conditions.
    #[inline]
    pub fn found_row(&mut self) {
        if let Some((_, found)) = &mut self.reading {
            *found = true;
        }
    }

    /// The rows of the range before are all read.
    pub fn finish_range(&mut self) {
        self.finish_reading();
        self.hand_over();
    }

    fn finish_reading(&mut self) {
        if let Some((range, found)) = self.reading.take()
            && !self.survivors.unfiltered.contains(range)
        {
            self.counters.full_positives += 1;
            self.counters.true_positives += u64::from(found);
        }
    }

    /// Reading ends here, perhaps in the middle of a range.
    pub fn leave(&mut self) {
        self.reading = None;
        self.hand_over();
    }

    /// Adds a worker's counts to the shared ones. With a LIMIT the leader may read these right after it gets a row, so
    /// they must have all that was counted before that row.
    fn hand_over(&mut self) {
        if let Some(shared) = self.shared.filter(|_| self.is_worker) {
            shared.take(&mut self.counters);
        }
    }

    /// The shared state is about to go; a leader takes what the workers have counted. Without shared state nothing
    /// happens: the server says "shut down" between two fetches from a cursor, too.
    pub fn detach(&mut self) {
        if self.shared.is_none() {
            return;
        }
        self.leave();
        if let Some(shared) = self.shared.take()
            && !self.is_worker
        {
            shared.add_to(&mut self.counters);
        }
        // Nothing is left to claim without the others.
        (self.claim, self.is_done, self.run) = ((0, 0), true, (0, 0));
    }
}
