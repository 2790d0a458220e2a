//! Which block ranges a column's segments cover: gaps between them, and runs of them to merge.

use crate::segment::SegmentShape;

/// What a segment covers, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First block range.
    pub first_range: u32,
    /// Number of block ranges.
    pub width: u32,
    /// Bits of each range's filter.
    pub filter_bits: u32,
    /// Probes per key.
    pub num_probes: u8,
}

impl Span {
    /// The first range behind it.
    pub fn end_range(&self) -> u32 {
        self.first_range.saturating_add(self.width)
    }
}

/// The stretches of ranges below `end`, as (first, end), that no span covers. Spans are sorted by their first range.
pub fn gaps(spans: impl IntoIterator<Item = Span>, end: u32) -> Vec<(u32, u32)> {
    let mut gaps = Vec::new();
    let mut covered = 0;
    for span in spans {
        if span.first_range.min(end) > covered {
            gaps.push((covered, span.first_range.min(end)));
        }
        covered = covered.max(span.end_range());
    }
    if covered < end {
        gaps.push((covered, end));
    }
    gaps
}

/// Where the run to merge starts that ends with the last of `spans`, on pages with `page_bytes` bytes of payload, of
/// which a merge may write `most_pages`. Neighbours with the same filters are merged, backwards, as long as one is not
/// twice as wide as all behind it together: each bit is then moved a logarithmic number of times in all, and O(log n)
/// spans remain.
pub fn start_of_run(spans: &[Span], page_bytes: u32, most_pages: u32) -> usize {
    let Some(mut start) = spans.len().checked_sub(1) else { return 0 };
    let mut width = spans[start].width;
    let mut chosen = start;
    while start > 0 {
        let (before, after) = (&spans[start - 1], &spans[start]);
        let alike = (before.filter_bits, before.num_probes) == (after.filter_bits, after.num_probes);
        if !alike || before.end_range() != after.first_range || before.width >= width.saturating_mul(2) {
            break;
        }
        let total = width + before.width;
        let shape =
            SegmentShape::new(total, before.filter_bits, page_bytes).filter(|s| s.pages() <= most_pages);
        let Some(shape) = shape else { break };
        start -= 1;
        width = total;
        // Some widths pack badly (a slice of 60 % of a page leaves 40 % unused): go on, but do not stop there.
        if shape.slices_per_page() * shape.stride() >= page_bytes / 8 * 7 {
            chosen = start;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u32 = 8128;

    fn row(widths: &[u32]) -> Vec<Span> {
        let mut first_range = 0;
        let span = |&width: &u32| {
            let span = Span { first_range, width, filter_bits: 1000, num_probes: 7 };
            first_range += width;
            span
        };
        widths.iter().map(span).collect()
    }

    #[test]
    fn gaps_lie_before_between_and_behind() {
        let mut spans = row(&[5, 5, 5]);
        spans.remove(1);
        spans.iter_mut().for_each(|span| span.first_range += 2);
        assert_eq!(gaps(spans.clone(), 30), [(0, 2), (7, 12), (17, 30)]);
        assert_eq!(gaps(spans.clone(), 9), [(0, 2), (7, 9)]);
        assert_eq!(gaps(spans, 1), [(0, 1)]);
        assert_eq!(gaps(row(&[4]), 4), []);
        assert_eq!(gaps([], 0), []);
    }

    #[test]
    fn spans_that_overlap_leave_no_gap() {
        let mut spans = row(&[8, 8]);
        spans[1].first_range = 4; // a merge was cut off
        assert_eq!(gaps(spans, 12), []);
    }

    #[test]
    fn narrow_neighbours_are_merged_and_wide_ones_left_alone() {
        assert_eq!(start_of_run(&row(&[8, 8, 8]), PAGE, u32::MAX), 0);
        assert_eq!(start_of_run(&row(&[4096, 8, 8]), PAGE, u32::MAX), 1);
        assert_eq!(start_of_run(&row(&[8]), PAGE, u32::MAX), 0);
        assert_eq!(start_of_run(&[], PAGE, u32::MAX), 0);
    }

    #[test]
    fn others_filters_gaps_and_costs_end_a_run() {
        let mut spans = row(&[8, 8, 8, 8]);
        spans[1].filter_bits = 900;
        assert_eq!(start_of_run(&spans, PAGE, u32::MAX), 2);
        let mut spans = row(&[8, 8, 8, 8]);
        spans[1].width = 7;
        assert_eq!(start_of_run(&spans, PAGE, u32::MAX), 2);
        assert_eq!(start_of_run(&row(&[64, 64]), PAGE, 0), 1, "no page may be written");
    }

    #[test]
    fn a_run_does_not_stop_at_a_width_that_packs_badly() {
        // Slices of 4,872 bytes waste 40 % of a page; so many that two fit a page waste none.
        assert_eq!(start_of_run(&row(&[19_488, 19_488]), PAGE, u32::MAX), 1);
        assert_eq!(start_of_run(&row(&[16_256, 16_256]), PAGE, u32::MAX), 0);
    }
}
