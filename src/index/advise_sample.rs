//! A sample of the keys of a column, for skip_advise: whole values ([`super::advise`]), or keys of their parts
//! ([`super::advise_inside`]).

use crate::pg::query::{self, StoredValue};
use crate::pg::{Rel, memory, options};
use skip_map::PairCounts;
use skip_scan::advice::{self, ColumnFacts};
use std::collections::{HashMap, HashSet};

/// The most ranges of 16 pages that are sampled, at equal distances: 1,024 pages, some 100,000 rows.
const MOST_RANGES: u32 = 64;

/// Gives the keys of one value that is not NULL: its block, its bytes, and hashes.
pub type AddValue<'s> = dyn FnMut(u32, u32, &mut dyn Iterator<Item = u64>) + 's;

/// A sample of the keys of a column.
pub struct ColumnSample {
    /// Pages of the table, and of the sample.
    pages: f64,
    sampled: f64,
    /// Values in the sample, and their bytes.
    values: f64,
    bytes: f64,
    /// In how many ranges of the sample each key is, by its hash.
    ranges_of: HashMap<u64, u32>,
    pairs: PairCounts,
}

impl ColumnSample {
    /// A sample of whole values: each is a key.
    pub fn of_values(table: Rel, column: usize) -> Self {
        Self::take(table.blocks(), MOST_RANGES, |blocks, add| {
            query::values_in_blocks(table, column, blocks, |StoredValue { block, hash, bytes }| {
                add(block, bytes, &mut std::iter::once(hash));
            });
        })
    }

    /// Samples at most so many ranges of a table of `pages` pages. `read` adds the values in the blocks of one range.
    pub fn take(pages: u32, most_ranges: u32, mut read: impl FnMut((u32, u32), &mut AddValue<'_>)) -> Self {
        let range = options::PAGES_PER_RANGE.2 as u32;
        let ranges = pages.div_ceil(range);
        let count = ranges.min(most_ranges);
        let sizes = (1..=range).filter(|size| range.is_multiple_of(*size));
        let mut sample = Self {
            pages: pages.into(),
            sampled: 0.0,
            values: 0.0,
            bytes: 0.0,
            ranges_of: HashMap::new(),
            pairs: PairCounts::new(sizes),
        };
        for i in 0..count {
            memory::check_for_interrupts();
            let first = (u64::from(i) * u64::from(ranges) / u64::from(count)) as u32 * range;
            let end = first.saturating_add(range).min(pages);
            let mut by_page: Vec<Vec<u64>> = (first..end).map(|_| Vec::new()).collect();
            read((first, end), &mut |block, bytes, hashes| {
                sample.values += 1.0;
                sample.bytes += f64::from(bytes);
                if let Some(page) = block.checked_sub(first).and_then(|at| by_page.get_mut(at as usize)) {
                    page.extend(hashes);
                }
            });
            let of_range: HashSet<u64> = by_page.iter().flatten().copied().collect();
            of_range.into_iter().for_each(|hash| *sample.ranges_of.entry(hash).or_default() += 1);
            sample.sampled += f64::from(end - first);
            sample.pairs.add(by_page.iter().map(Vec::as_slice));
        }
        sample
    }

    /// What the sample says; nothing of what is known of the column's type and of ANALYZE's correlation.
    pub fn facts(&self) -> ColumnFacts {
        let scale = self.pages / self.sampled.max(1.0);
        let sampled = self.pairs.of_ranges() as f64;
        let once = self.ranges_of.values().filter(|&&ranges| ranges == 1).count() as f64;
        let range_pages = self.pairs.smallest_part(self.values);
        ColumnFacts {
            pages: self.pages,
            rows: self.values * scale,
            keys: advice::distinct_values(sampled * scale, sampled, self.ranges_of.len() as f64, once),
            pairs: self.pairs.of_part(1) as f64 * scale,
            range_pages: range_pages.into(),
            range_pairs: self.pairs.of_part(range_pages) as f64 * scale,
            width: self.bytes / self.values.max(1.0),
            rate: None,
            correlation: None,
            has_btree: true,
            has_minmax: true,
        }
    }
}
