//! Where the pages of a run stand: data pages first, then the fence pages level by level, the root last.
//!
//! Each level of fences has one entry for each page of the level below, and ends when one page is left. A run of one
//! data page has no fences. So the number of pages determines everything.

use crate::fence::MOST_ENTRIES;
use std::ops::Range;

/// Pages of one level that a fence page of the next level leads to.
pub(crate) const FAN_OUT: u64 = MOST_ENTRIES as u64;

/// The pages of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunShape {
    data_pages: u32,
}

impl RunShape {
    /// The shape of a run with `data_pages` data pages.
    pub fn of_data_pages(data_pages: u32) -> Self {
        Self { data_pages }
    }

    /// The shape of a run with `total` pages, fence pages included. None if there is no such run.
    pub fn of_pages(total: u32) -> Option<Self> {
        // There are fewer fence pages than a thousandth of the data pages plus one for each of four levels.
        let (mut low, mut high) = (total.saturating_sub(total / 1000 + 5), total);
        while low < high {
            let middle = low + (high - low) / 2;
            if Self::of_data_pages(middle).total() < u64::from(total) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let shape = Self::of_data_pages(low);
        (shape.total() == u64::from(total)).then_some(shape)
    }

    /// Number of pages, data and fences. A run with more than a u32 can count is given as `u32::MAX`; no relation can
    /// hold it.
    pub fn pages(&self) -> u32 {
        u32::try_from(self.total()).unwrap_or(u32::MAX)
    }

    /// Number of data pages.
    pub fn data_pages(&self) -> u32 {
        self.data_pages
    }

    /// Number of fence levels: the fence pages that a lookup goes through from the root to a data page.
    pub fn levels(&self) -> u32 {
        self.fence_levels().count() as u32
    }

    /// The page that a lookup starts with: the topmost fence page, or the only data page. None if there are no pages.
    pub fn root(&self) -> Option<u32> {
        self.pages().checked_sub(1)
    }

    /// Whether a page of the run is a fence page.
    pub fn is_fence(&self, page: u32) -> bool {
        (self.data_pages..self.pages()).contains(&page)
    }

    /// The page that an entry of a fence page refers to. None if there is none.
    pub fn child(&self, fence_page: u32, entry: usize) -> Option<u32> {
        let children = self.children(fence_page)?;
        let child = children.start.checked_add(u32::try_from(entry).ok()?)?;
        children.contains(&child).then_some(child)
    }

    /// The pages that the entries of a fence page refer to, in order. None if the page is no fence page.
    pub fn children(&self, fence_page: u32) -> Option<Range<u32>> {
        let page = u64::from(fence_page);
        let (below, level) = self.fence_levels().find(|(_, level)| level.contains(&page))?;
        let start = below.start + (page - level.start) * FAN_OUT;
        let end = below.end.min(start + FAN_OUT);
        Some(u32::try_from(start).ok()?..u32::try_from(end).ok()?)
    }

    /// For each level of fences, from the lowest: the pages of the level below, and its own.
    pub(crate) fn fence_levels(&self) -> impl Iterator<Item = (Range<u64>, Range<u64>)> {
        let mut below = 0..u64::from(self.data_pages);
        std::iter::from_fn(move || {
            let pages = below.end - below.start;
            let level = below.end..below.end + pages.div_ceil(FAN_OUT);
            (pages > 1).then(|| (std::mem::replace(&mut below, level.clone()), level))
        })
    }

    fn total(&self) -> u64 {
        self.fence_levels().last().map_or(u64::from(self.data_pages), |(_, level)| level.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_tell_the_shape() {
        let fan_out = FAN_OUT as u32;
        let sizes =
            (0..3000).chain([fan_out * fan_out - 1, fan_out * fan_out, fan_out * fan_out + 1, 4 << 28]);
        for data_pages in sizes {
            let shape = RunShape::of_data_pages(data_pages);
            assert_eq!(RunShape::of_pages(shape.pages()), Some(shape), "{data_pages}");
            assert_eq!(shape.data_pages(), data_pages);
            assert_eq!(shape.root(), shape.pages().checked_sub(1));
        }
        assert_eq!(RunShape::of_pages(2), None);
        assert_eq!(RunShape::of_pages(fan_out + 2), None); // the second fence page would need a root
        assert_eq!(RunShape::of_data_pages(u32::MAX).pages(), u32::MAX);
    }

    #[test]
    fn every_page_but_the_root_is_the_child_of_one_entry() {
        for data_pages in [0, 1, 2, 1011, 1012, 1013, 2024, 2025, 30_000] {
            let shape = RunShape::of_data_pages(data_pages);
            let fences = (0..shape.pages()).filter(|&page| shape.is_fence(page));
            let mut children = vec![];
            for page in fences {
                children.extend((0..MOST_ENTRIES).map_while(|entry| shape.child(page, entry)));
                assert_eq!(shape.child(page, MOST_ENTRIES), None);
            }
            assert_eq!(children, (0..shape.pages().saturating_sub(1)).collect::<Vec<u32>>());
            assert_eq!(
                shape.levels(),
                [0, 1, 2][usize::from(data_pages > 1) + usize::from(data_pages > 1012)]
            );
            assert!((0..data_pages).all(|page| shape.children(page).is_none()));
            assert!(!shape.is_fence(shape.pages()));
        }
    }
}
