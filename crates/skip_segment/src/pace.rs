//! How far behind the newest block range of a growing table its inserts summarize, and how many ranges at a time.
//!
//! Ranges that are not summarized are read by every query. Small batches leave few of them, and cost more: each makes
//! a segment, which is merged with others again and again. Three facts decide:
//!
//! - A segment of filters has a byte of each slice for 8 ranges ([`FILTER_BATCH`]), used or not. A map has no such
//!   unit, but one of fewer than [`MAP_BLOCKS`] blocks of the table fills little of a page.
//! - A statement that inserts many rows does so in batches that grow with what it has inserted
//!   ([`Inserting::ranges`]), and summarizes the rest at its transaction's commit.
//! - Rows that come into a range after it was summarized take a detour through the delta. While several processes
//!   insert, each fills a block of its own, and the server adds up to 64 blocks to the table at a time. So complete
//!   ranges are left out ([`MOST_LAG`]), and batches are larger ([`BESIDE_OTHERS`]). Where the table has no block
//!   behind the one that a row came into, one process inserts, and no complete range is left out.

/// Ranges of a batch if a column has filters.
pub const FILTER_BATCH: u32 = 8;
/// Blocks of a batch if all columns have maps, at least: a range of the default size.
pub const MAP_BLOCKS: u32 = 16;
/// The least number of such batches at a time while several processes insert.
const BESIDE_OTHERS: u32 = 2;
/// The most ranges of a batch: with ranges of 16 pages 8 MB of the table, which take some ten milliseconds.
pub const MOST_BATCH: u32 = 64;
/// The part of the ranges that a statement has inserted that its next batch may have. With a quarter, a statement of
/// two million rows (1,700 ranges) has some 40 batches instead of 200 of eight ranges.
const BULK_PART: u32 = 4;
/// The most complete ranges that are left out.
const MOST_LAG: u32 = 4;

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
    /// Whether the new block is the table's last one.
    pub is_last_block: bool,
}

/// How many ranges are summarized at a time, and left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Ranges of a batch, at least 1.
    pub batch: u32,
    /// Complete ranges left out behind the newest one.
    pub lag: u32,
}

impl Inserting {
    /// Whether the statement has inserted so many rows that its batches grow.
    pub fn is_large(self) -> bool {
        self.ranges / BULK_PART > FILTER_BATCH.max(self.unit())
    }

    /// The number of ranges of which batches are multiples in a table that is not small.
    fn unit(self) -> u32 {
        let times = if self.is_last_block { 1 } else { BESIDE_OTHERS };
        if self.has_filters { FILTER_BATCH } else { MAP_BLOCKS.div_ceil(self.pages_per_range.max(1)) * times }
    }

    /// The pace now. Batches are smaller in a small table, of which they would leave out much; those of filters have
    /// two ranges at least, because a batch takes about the same number of pages for any number of ranges up to 8.
    pub fn pace(self) -> Pace {
        let unit = self.unit();
        let usual = (self.summarized / 2).clamp(if self.has_filters { 2 } else { 1 }, unit);
        let bulk = (self.ranges / BULK_PART).min(MOST_BATCH) / unit * unit;
        let lag = if self.is_last_block { 0 } else { (self.summarized / 8).clamp(1, MOST_LAG) };
        Pace { batch: usual.max(bulk), lag }
    }
}

impl Pace {
    /// The end of the next batch, or of several, when a row came into the range `newest` of a table of which the ranges
    /// below `summarized` are summarized; `summarized` itself while there are too few ranges for a batch.
    pub fn end_of_batch(self, summarized: u32, newest: u32) -> u32 {
        let complete = newest.saturating_sub(self.lag).saturating_sub(summarized);
        summarized + complete / self.batch.max(1) * self.batch.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: Inserting = Inserting {
        summarized: 10_000,
        ranges: 1,
        pages_per_range: 16,
        has_filters: false,
        is_last_block: true,
    };

    #[test]
    fn small_tables_have_small_batches_of_filters() {
        let filters = Inserting { has_filters: true, is_last_block: false, ..MAPS };
        let pace = |summarized| Inserting { summarized, ..filters }.pace();
        assert_eq!(pace(0), Pace { batch: 2, lag: 1 });
        assert_eq!(pace(12), Pace { batch: 6, lag: 1 });
        assert_eq!(pace(24), Pace { batch: 8, lag: 3 });
        assert_eq!(pace(u32::MAX), Pace { batch: 8, lag: 4 });
    }

    #[test]
    fn maps_have_smaller_batches_than_filters() {
        assert_eq!(MAPS.pace(), Pace { batch: 1, lag: 0 });
        assert_eq!(Inserting { summarized: 0, ..MAPS }.pace(), Pace { batch: 1, lag: 0 });
        assert_eq!(Inserting { has_filters: true, ..MAPS }.pace(), Pace { batch: 8, lag: 0 });
        assert_eq!(Inserting { is_last_block: false, ..MAPS }.pace(), Pace { batch: 2, lag: 4 });
        let of_pages = |pages_per_range| Inserting { pages_per_range, ..MAPS }.pace().batch;
        assert_eq!([0, 1, 3, 8, 15, 16, 17, u32::MAX].map(of_pages), [16, 16, 6, 2, 2, 1, 1, 1]);
        assert_eq!(Inserting { summarized: 5, pages_per_range: 1, ..MAPS }.pace().batch, 2);
    }

    #[test]
    fn batches_of_a_large_statement_grow() {
        let batch = |ranges, has_filters| Inserting { ranges, has_filters, ..MAPS }.pace().batch;
        assert_eq!([0, 8, 15, 50, 255, 256, u32::MAX].map(|n| batch(n, false)), [1, 2, 3, 12, 63, 64, 64]);
        assert_eq!([0, 32, 100, u32::MAX].map(|n| batch(n, true)), [8, 8, 24, 64]);
        for has_filters in [false, true] {
            // A statement of two million rows.
            let (mut ranges, mut batches) = (0, 0);
            while ranges < 1_667 {
                ranges += batch(ranges, has_filters);
                batches += 1;
            }
            assert!(batches <= 47, "{batches}");
        }
    }

    #[test]
    fn only_whole_batches_behind_the_lag_are_summarized() {
        let pace = Pace { batch: 8, lag: 4 };
        assert_eq!(pace.end_of_batch(100, 111), 100);
        assert_eq!(pace.end_of_batch(100, 112), 108);
        assert_eq!(pace.end_of_batch(100, 129), 124);
        assert_eq!(pace.end_of_batch(100, 5), 100, "an older range");
        assert_eq!(pace.end_of_batch(0, u32::MAX), (u32::MAX - 4) / 8 * 8);
    }
}
