//! How far behind the newest block of a growing table its inserts summarize, and how many ranges at a time.
//!
//! Ranges that are not summarized are read by every query. Small batches leave few of them, and cost more: each makes
//! a segment, which is merged with others again and again. Three facts decide:
//!
//! - A segment of filters has a byte of each slice for 8 ranges ([`FILTER_BATCH`]), used or not. A map has no such
//!   unit, but one of fewer than [`MAP_BLOCKS`] blocks of the table does not fill a page.
//! - A statement that inserts many rows does so in batches that grow with what it has inserted
//!   ([`Inserting::ranges`]), and summarizes the rest at its transaction's commit.
//! - Rows that come into a range after it was summarized take a detour through the delta. While several processes
//!   insert, each fills a block of its own, and the server adds many empty blocks to the table at a time. So ranges are
//!   left out from the first block on that may still get rows ([`may_get_rows`]). One process alone fills one block
//!   after another: no complete range is left out.

/// Ranges of a batch if a column has filters.
pub const FILTER_BATCH: u32 = 8;
/// Blocks of a batch if all columns have maps, at least: those whose keys fill a page, if rows have 100 bytes and
/// single keys. A query reads 16 of them on average, each in a third of a microsecond if no row on it has the key. With
/// batches of 16 blocks, 200,000 rows by statements of 1,000 took 4,680 instructions a row for the index, with 32
/// blocks 3,500, and with 64 blocks 3,000 (callgrind; 3,400 for the row itself).
pub const MAP_BLOCKS: u32 = 32;
/// The most ranges of a batch.
const MOST_BATCH: u32 = 64;
/// The most blocks of a batch of several ranges, unless they are fewer than [`FILTER_BATCH`]: 8 MB of the table, which
/// take some ten milliseconds. One row's insert waits for them.
const MOST_BLOCKS: u32 = 1024;
/// The next batch of a statement has at most 1/2 of the ranges that the statement has inserted. So a statement of two
/// million rows (1,700 ranges) has some 35 batches instead of 200 of eight ranges; with 1/4 it has ten more.
const BULK_PART: u32 = 2;
/// A statement is large once it has inserted more than this number of times the ranges of the largest batch that a
/// small statement makes.
const LARGE: u32 = 4;
/// How far behind the newest block a block with some rows is waited for until it is full. More processes seldom insert
/// at the same time; and a process may have ended, so that nobody fills its block before VACUUM has found it.
pub const MOST_FILLING: u32 = 64;
/// The same for empty blocks: the most that the server adds at a time (RelationAddExtraBlocks before version 16, and 64
/// from then on).
pub const MOST_EMPTY: u32 = 512;
/// A block of which 1/8 or less is free counts as full. With a smaller fraction, a block that has room only for an
/// unusually small row would count as one that a process is still filling.
const ROOM: usize = 8;

/// What a block of the table has, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFill {
    /// Size of the block.
    pub size: usize,
    /// Free for rows; what the table's fill factor reserves for updates is not.
    pub free: usize,
    /// Number of rows, dead ones too.
    pub rows: usize,
    /// Size of its rows in all.
    pub used: usize,
}

/// Whether rows are likely to come into a block so many blocks behind the newest one. A block in which two rows of its
/// average size have no room is full.
pub fn may_get_rows(block: BlockFill, behind: u32) -> bool {
    let BlockFill { size, free, rows, used } = block;
    match rows {
        0 => behind <= MOST_EMPTY,
        _ => behind <= MOST_FILLING && free > (size / ROOM).max(2 * used / rows),
    }
}

/// The state of a table, and of the statement that inserts into it, when a row comes into a new block.
#[derive(Clone, Copy, Debug)]
pub struct Inserting {
    /// Ranges of the table that are summarized.
    pub summarized: u32,
    /// Number of ranges for which this statement has begun blocks.
    pub ranges: u32,
    /// Blocks of a range, at least 1.
    pub pages_per_range: u32,
    /// Whether a column of the index has filters.
    pub has_filters: bool,
}

/// How many ranges are summarized at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Ranges of a batch, at least 1.
    pub batch: u32,
    /// Whether the statement is large: many batches will follow, so that merges can wait.
    pub is_bulk: bool,
}

/// The most ranges of a batch, and the most that one insert summarizes.
pub fn most_batch(pages_per_range: u32) -> u32 {
    (MOST_BLOCKS / pages_per_range.max(1)).clamp(FILTER_BATCH, MOST_BATCH)
}

/// Ranges of a batch if all columns have maps, at least.
fn map_batch(pages_per_range: u32) -> u32 {
    MAP_BLOCKS.div_ceil(pages_per_range.max(1))
}

/// The most ranges that one insert summarizes of those that an interrupted maintenance has left. They are as many as a
/// small statement waits for without that.
pub fn most_left(pages_per_range: u32, has_filters: bool) -> u32 {
    map_batch(pages_per_range).max(if has_filters { FILTER_BATCH } else { 1 })
}

impl Inserting {
    /// Whether the statement has inserted so many rows that its batches grow.
    fn is_large(self) -> bool {
        self.ranges / LARGE > FILTER_BATCH.max(self.unit())
    }

    /// The number of ranges of which batches are multiples in a table that is not small.
    fn unit(self) -> u32 {
        if self.has_filters { FILTER_BATCH } else { map_batch(self.pages_per_range) }
    }

    /// The pace now. Batches are smaller in a small table, of which they would leave out much; those of filters have
    /// two ranges at least, because a batch takes about the same number of pages for any number of ranges up to 8.
    pub fn pace(self) -> Pace {
        let unit = self.unit();
        let usual = (self.summarized / 2).clamp(if self.has_filters { 2 } else { 1 }, unit);
        let bulk = (self.ranges / BULK_PART).min(most_batch(self.pages_per_range)) / unit * unit;
        Pace { batch: usual.max(bulk), is_bulk: self.is_large() }
    }

    /// Whether a batch may be due up to this range, or the statement be large, whatever the layouts of the columns are:
    /// that is a first question that needs no page of the index.
    pub fn may_be_due(self, range: u32) -> bool {
        [false, true].into_iter().any(|has_filters| {
            let pace = Self { has_filters, ..self }.pace();
            pace.is_bulk || pace.end_of_batch(self.summarized, range) > self.summarized
        })
    }

    /// The pace of a background worker, when [`Inserting::ranges`] are the ranges that are not summarized. Nobody waits
    /// for it, so a batch has as many of them as one may have.
    pub fn pace_in_background(self) -> Pace {
        let most = most_batch(self.pages_per_range);
        let usual = Self { ranges: 0, ..self }.pace().batch;
        Pace {
            batch: usual.max(self.ranges.min(most) / self.unit() * self.unit()),
            is_bulk: self.ranges >= most,
        }
    }

    /// The pace right before a large statement's transaction commits: of maps, every complete range is summarized. The
    /// small segments are merged right away.
    pub fn pace_at_commit(self) -> Pace {
        let usual = Self { ranges: 0, ..self }.pace().batch;
        Pace { batch: if self.has_filters { usual } else { 1 }, is_bulk: true }
    }
}

impl Pace {
    /// The end of the next batch, or of several, when the ranges below `summarized` are summarized and those below
    /// `complete` will get no more rows; `summarized` itself while there are too few ranges for a batch.
    pub fn end_of_batch(self, summarized: u32, complete: u32) -> u32 {
        let batch = self.batch.max(1);
        summarized + complete.saturating_sub(summarized) / batch * batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: Inserting =
        Inserting { summarized: 10_000, ranges: 1, pages_per_range: 16, has_filters: false };

    #[test]
    fn small_tables_have_small_batches_of_filters() {
        let filters = Inserting { has_filters: true, ..MAPS };
        let batch = |summarized| Inserting { summarized, ..filters }.pace().batch;
        assert_eq!([0, 12, 24, u32::MAX].map(batch), [2, 6, 8, 8]);
    }

    #[test]
    fn maps_have_smaller_batches_than_filters() {
        assert_eq!(MAPS.pace(), Pace { batch: 2, is_bulk: false });
        assert_eq!(Inserting { summarized: 0, ..MAPS }.pace(), Pace { batch: 1, is_bulk: false });
        assert_eq!(Inserting { has_filters: true, ..MAPS }.pace(), Pace { batch: 8, is_bulk: false });
        let of_pages = |pages_per_range| Inserting { pages_per_range, ..MAPS }.pace().batch;
        assert_eq!([0, 1, 3, 8, 16, 31, 32, u32::MAX].map(of_pages), [32, 32, 11, 4, 2, 2, 1, 1]);
        assert_eq!(Inserting { summarized: 5, pages_per_range: 1, ..MAPS }.pace().batch, 2);
    }

    #[test]
    fn batches_of_large_ranges_are_few() {
        assert_eq!([0, 1, 16, 17, 64, 128, 129, u32::MAX].map(most_batch), [64, 64, 64, 60, 16, 8, 8, 8]);
        let batch = |pages_per_range| Inserting { pages_per_range, ranges: 1000, ..MAPS }.pace().batch;
        assert_eq!([16, 64, 1024].map(batch), [64, 16, 8]);
    }

    #[test]
    fn an_insert_fills_a_small_part_of_a_gap() {
        let most = |has_filters| [0, 1, 4, 16, 128].map(|pages| most_left(pages, has_filters));
        assert_eq!(most(false), [32, 32, 8, 2, 1]);
        assert_eq!(most(true), [32, 32, 8, 8, 8]);
    }

    #[test]
    fn batches_of_a_large_statement_grow() {
        let batch = |ranges, has_filters| Inserting { ranges, has_filters, ..MAPS }.pace().batch;
        assert_eq!([0, 8, 15, 50, 255, 256, u32::MAX].map(|n| batch(n, false)), [2, 4, 6, 24, 64, 64, 64]);
        assert_eq!([0, 32, 100, u32::MAX].map(|n| batch(n, true)), [8, 16, 48, 64]);
        for has_filters in [false, true] {
            // A statement of two million rows.
            let (mut ranges, mut batches) = (0, 0);
            while ranges < 1_667 {
                ranges += batch(ranges, has_filters);
                batches += 1;
            }
            assert!(batches <= 37, "{batches}");
        }
    }

    #[test]
    fn a_statement_is_large_after_some_ranges() {
        let is_bulk = |ranges, has_filters| Inserting { ranges, has_filters, ..MAPS }.pace().is_bulk;
        assert_eq!([0, 35, 36].map(|ranges| is_bulk(ranges, false)), [false, false, true]);
        assert_eq!([35, 36].map(|ranges| is_bulk(ranges, true)), [false, true]);
    }

    #[test]
    fn nothing_is_due_before_the_smallest_batch() {
        let is_due = |behind, inserting: Inserting| inserting.may_be_due(inserting.summarized + behind);
        let single_pages = Inserting { pages_per_range: 1, ..MAPS };
        assert_eq!([0, 7, 8].map(|behind| is_due(behind, single_pages)), [false, false, true], "of filters");
        assert_eq!([0, 1, 2].map(|behind| is_due(behind, MAPS)), [false, false, true], "of maps");
        assert!(is_due(0, Inserting { ranges: 36, ..MAPS }), "a large statement");
        let small = Inserting { summarized: 0, ..single_pages };
        assert_eq!([0, 1].map(|behind| is_due(behind, small)), [false, true]);
    }

    #[test]
    fn a_commit_leaves_no_complete_range_of_a_map() {
        let large = Inserting { ranges: 1000, ..MAPS };
        assert_eq!(large.pace_at_commit(), Pace { batch: 1, is_bulk: true });
        assert_eq!(
            Inserting { has_filters: true, ..large }.pace_at_commit(),
            Pace { batch: 8, is_bulk: true }
        );
    }

    #[test]
    fn a_worker_summarizes_all_that_it_may() {
        let pace = |ranges, has_filters| Inserting { ranges, has_filters, ..MAPS }.pace_in_background();
        assert_eq!([0, 3, 63].map(|n| pace(n, false).batch), [2, 2, 62]);
        assert_eq!([0, 3, 63].map(|n| pace(n, true).batch), [8, 8, 56]);
        assert!([0, 3, 63].iter().all(|&n| !pace(n, false).is_bulk && !pace(n, true).is_bulk));
        assert_eq!([64, u32::MAX].map(|n| pace(n, true)), [Pace { batch: 64, is_bulk: true }; 2]);
    }

    #[test]
    fn only_whole_batches_of_complete_ranges_are_summarized() {
        let pace = Pace { batch: 8, is_bulk: false };
        assert_eq!([107, 108, 125].map(|complete| pace.end_of_batch(100, complete)), [100, 108, 124]);
        assert_eq!(pace.end_of_batch(100, 5), 100, "older ranges");
        assert_eq!(pace.end_of_batch(0, u32::MAX), u32::MAX / 8 * 8);
    }

    #[test]
    fn a_block_with_room_is_waited_for_but_not_for_ever() {
        // Rows of 104 bytes.
        let block = |rows| BlockFill { size: 8192, free: 8168 - 108 * rows, rows, used: 104 * rows };
        let waits = |rows, behind| may_get_rows(block(rows), behind);
        assert!(waits(1, 64) && waits(30, 1) && waits(65, 64));
        assert!(!waits(67, 1) && !waits(75, 1) && !waits(30, 65));
        assert!(waits(0, 512) && !waits(0, 513));
        // Four rows of two kilobytes leave room for a smaller one only.
        assert!(!may_get_rows(BlockFill { size: 8192, free: 2500, rows: 3, used: 5600 }, 1));
        assert!(may_get_rows(BlockFill { size: 8192, free: 5000, rows: 2, used: 3000 }, 1));
    }
}
