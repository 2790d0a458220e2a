//! Which parts of ranges a map should tell apart, by counts from a sample of the table.
//!
//! Small parts let a scan read fewer pages of the table for each key, but a key that stands on several pages of a range
//! then takes several pairs. The smallest parts are chosen that take few pairs more than whole ranges do, or few pairs
//! for the rows that there are.

/// Parts may take this number of times the pairs of whole ranges: then a map grows by less than a third, as smaller
/// parts make each pair longer by a few bits too.
const MOST_PAIRS: f64 = 1.25;
/// Besides, parts may take this number of pairs per row: a map of them is a twentieth of that of a unique column.
const FEW_PAIRS: f64 = 0.05;

/// Numbers of pairs in a sample, by the size of parts.
#[derive(Clone, Debug)]
pub struct PairCounts {
    /// Pages of a part, ascending, and the number of pairs with parts of that size.
    by_pages: Vec<(u32, u64)>,
}

impl PairCounts {
    /// Counts for parts of these numbers of pages, ascending. The last one is a whole range.
    pub fn new(sizes: impl IntoIterator<Item = u32>) -> Self {
        Self { by_pages: sizes.into_iter().map(|size| (size.max(1), 0)).collect() }
    }

    /// Counts the pairs of a range, or of its beginning, from the key hashes of each of its pages.
    pub fn add<'h>(&mut self, pages: impl Iterator<Item = &'h [u64]> + Clone) {
        let mut hashes: Vec<u64> = Vec::new();
        for (size, count) in &mut self.by_pages {
            let mut pages = pages.clone().peekable();
            while pages.peek().is_some() {
                hashes.clear();
                pages.by_ref().take(*size as usize).for_each(|page| hashes.extend_from_slice(page));
                hashes.sort_unstable();
                hashes.dedup();
                *count += hashes.len() as u64;
            }
        }
    }

    /// The number of pairs with parts of `pages` pages; that of whole ranges if that size was not counted.
    pub fn of_part(&self, pages: u32) -> u64 {
        self.by_pages.iter().find(|&&(size, _)| size == pages).map_or(self.of_ranges(), |&(_, pairs)| pairs)
    }

    /// The number of pairs with whole ranges.
    pub fn of_ranges(&self) -> u64 {
        self.by_pages.last().map_or(0, |&(_, pairs)| pairs)
    }

    /// The number of pages of the smallest parts that take few pairs. `rows` is the number of rows in the sample.
    pub fn smallest_part(&self, rows: f64) -> u32 {
        let most = self.of_ranges() as f64 * MOST_PAIRS + rows * FEW_PAIRS;
        self.by_pages.iter().find(|&&(_, pairs)| pairs as f64 <= most).map_or(1, |&(pages, _)| pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u32; 5] = [1, 2, 4, 8, 16];

    /// Counts of ranges of 16 pages of 100 rows, with the key that `key` gives for a page and a row.
    fn counts(ranges: u64, key: impl Fn(u64, u64) -> u64) -> PairCounts {
        let mut counts = PairCounts::new(SIZES);
        for range in 0..ranges {
            let pages: Vec<Vec<u64>> =
                (0..16).map(|page| (0..100).map(|row| key(range * 16 + page, row)).collect()).collect();
            counts.add(pages.iter().map(Vec::as_slice));
        }
        counts
    }

    #[test]
    fn unique_keys_are_found_by_single_pages() {
        let counts = counts(4, |page, row| page * 100 + row);
        assert_eq!((counts.of_part(1), counts.of_ranges()), (6400, 6400));
        assert_eq!(counts.smallest_part(6400.0), 1);
    }

    #[test]
    fn keys_that_repeat_on_the_pages_of_a_range_are_found_by_ranges() {
        let counts = counts(4, |page, row| (page * 37 + row * 11) % 150);
        assert!(counts.of_part(1) > 4 * counts.of_ranges(), "{counts:?}");
        assert_eq!(counts.smallest_part(6400.0), 16);
    }

    #[test]
    fn keys_that_repeat_on_neighbouring_pages_are_found_by_those() {
        // 50 keys in each four pages, on all of them.
        let counts = counts(4, |page, row| page / 4 * 1000 + row % 50);
        assert_eq!(counts.smallest_part(6400.0), 4, "{counts:?}");
    }

    #[test]
    fn few_pairs_need_no_larger_parts() {
        // One key on all pages of a range: 16 times the pairs, but one for each hundred rows.
        let counts = counts(4, |page, _| page / 16);
        assert_eq!((counts.of_part(1), counts.of_ranges()), (64, 4));
        assert_eq!(counts.smallest_part(6400.0), 1);
    }

    #[test]
    fn no_sample_and_sizes_that_were_not_counted() {
        assert_eq!(PairCounts::new(SIZES).smallest_part(0.0), 1);
        assert_eq!(PairCounts::new([]).smallest_part(100.0), 1);
        let counts = counts(1, |page, row| page * 100 + row);
        assert_eq!(counts.of_part(3), counts.of_ranges());
    }
}
