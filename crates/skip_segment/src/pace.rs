//! How far behind the newest block range of a growing table its inserts summarize, and how many ranges at a time.
//!
//! Ranges that are not summarized are read by every query. Small batches leave few of them, and cost more: each makes
//! a segment, which is merged with others again and again. Three facts decide:
//!
//! - A segment of filters has a byte of each slice for 8 ranges ([`FILTER_BATCH`]), used or not. A map has no such
//!   unit.
//! - A statement that inserts many rows does so in batches that grow with what it has inserted
//!   ([`Inserting::ranges`]), and summarizes the rest at its transaction's commit.
//! - Rows that come into a range after it was summarized take a detour through the delta. While several processes
//!   insert, each fills a block of its own, and the server adds up to 64 blocks to the table at a time. So complete
//!   ranges are left out ([`MOST_LAG`]), and batches are larger ([`BESIDE_OTHERS`]). Where the table has no block
//!   behind the one that a row came into, one process inserts, and no complete range is left out.

/// Ranges of a batch if a column has filters.
pub const FILTER_BATCH: u32 = 8;
/// Ranges of a batch if all columns have maps.
pub const MAP_BATCH: u32 = 1;
/// The least number of ranges of a batch while several processes insert.
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
    /// The pace now. Batches of filters are smaller in a small table, of which they would leave out much, but have two
    /// ranges at least: a batch takes about the same number of pages for any number of ranges up to 8.
    pub fn pace(self) -> Pace {
        let (least, lag) = if self.is_last_block {
            (MAP_BATCH, 0)
        } else {
            (BESIDE_OTHERS, (self.summarized / 8).clamp(1, MOST_LAG))
        };
        let (usual, unit) = if self.has_filters {
            ((self.summarized / 2).clamp(2, FILTER_BATCH), FILTER_BATCH)
        } else {
            (least, least)
        };
        let bulk = (self.ranges / BULK_PART).min(MOST_BATCH) / unit * unit;
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

    const MAPS: Inserting =
        Inserting { summarized: 10_000, ranges: 1, has_filters: false, is_last_block: true };

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
