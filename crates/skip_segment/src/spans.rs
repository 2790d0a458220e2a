//! Which block ranges a column's segments cover: gaps between them, and runs of them to merge.
//!
//! Which to merge: from the newest segment back, neighbours with the same filters are gathered as long as the next one
//! is less than twice as wide as all that were gathered, as a binary counter carries; or while the widest of them is
//! less than [`RATIO`] times as wide as the others together. So a wide segment is written again only when the gathered
//! ones have grown to its order of size, each range is moved O(log n) times in all, and O(log n) segments remain.

use crate::segment::SegmentShape;
use std::ops::Range;

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

/// Ranges that some columns lack filters for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// First range.
    pub first: u32,
    /// The first range behind it.
    pub end: u32,
    /// The columns that lack all of these ranges, by number. Never empty; all others lack none of them.
    pub columns: Vec<usize>,
}

/// The gaps of several columns, as [`gaps`] gives them for each, cut into stretches: so each range is in one stretch at
/// most, and is scanned once for all columns that lack it. In ascending order.
pub fn stretches(gaps: &[Vec<(u32, u32)>]) -> Vec<Stretch> {
    let mut edges: Vec<u32> = gaps.iter().flatten().flat_map(|&(first, end)| [first, end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let lacks = |gaps: &[(u32, u32)], first, end| gaps.iter().any(|gap| gap.0 <= first && end <= gap.1);
    let stretch = |edge: &[u32]| {
        let (first, end) = (edge[0], edge[1]);
        let columns = (0..gaps.len()).filter(|&column| lacks(&gaps[column], first, end)).collect();
        Stretch { first, end, columns }
    };
    edges.windows(2).map(stretch).filter(|stretch| !stretch.columns.is_empty()).collect()
}

/// The run of spans to merge ends with the newest one. It is the longest that packs its pages well and for which one of
/// two conditions holds: each span is less than twice as wide as all newer ones of the run together, as in a binary
/// counter; or the widest is less than this number of times as wide as all others of the run together. VACUUM runs
/// seldom, by default when a fifth of a table's rows is new: so it writes less than ten times what is new, and few
/// segments remain.
const RATIO: u32 = 8;

/// The runs of neighbours to merge, the last one first, on pages with `page_bytes` bytes of payload, of which one merge
/// may write `most_pages`. Each is two spans or more.
pub fn runs_to_merge(spans: &[Span], page_bytes: u32, most_pages: u32) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut end = spans.len();
    while end > 1 {
        let start = start_of_run(&spans[..end], page_bytes, most_pages);
        if end - start > 1 {
            runs.push(start..end);
        }
        end = start.min(end - 1);
    }
    runs
}

/// Whether slices of this shape leave little of their pages unused.
pub fn packs_well(shape: &SegmentShape, page_bytes: u32) -> bool {
    shape.slices_per_page() * shape.stride() >= page_bytes / 8 * 7
}

/// Where the run to merge starts that ends with the last of `spans`: that one itself if there is nothing to merge.
fn start_of_run(spans: &[Span], page_bytes: u32, most_pages: u32) -> usize {
    let Some(mut start) = spans.len().checked_sub(1) else { return 0 };
    let mut width = spans[start].width;
    let mut widest = width;
    let mut is_tail = true;
    let mut chosen = start;
    while start > 0 {
        let (before, after) = (&spans[start - 1], &spans[start]);
        let alike = (before.filter_bits, before.num_probes) == (after.filter_bits, after.num_probes);
        if !alike || before.end_range() != after.first_range {
            break;
        }
        is_tail = is_tail && before.width < width.saturating_mul(2);
        let total = width + before.width;
        let shape =
            SegmentShape::new(total, before.filter_bits, page_bytes).filter(|s| s.pages() <= most_pages);
        let Some(shape) = shape else { break };
        start -= 1;
        width = total;
        widest = widest.max(before.width);
        let is_worth = is_tail || widest < (width - widest).saturating_mul(RATIO);
        // Some widths pack badly (a slice of 60 % of a page leaves 40 % unused): go on, but do not stop there.
        if is_worth && packs_well(&shape, page_bytes) {
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
    fn a_stretch_is_what_the_same_columns_lack() {
        let stretch = |first, end, columns: &[usize]| Stretch { first, end, columns: columns.to_vec() };
        assert_eq!(stretches(&[]), []);
        assert_eq!(stretches(&[vec![], vec![(3, 9)]]), [stretch(3, 9, &[1])]);
        assert_eq!(
            stretches(&[vec![(0, 5), (20, 30)], vec![(3, 9), (20, 30)]]),
            [stretch(0, 3, &[0]), stretch(3, 5, &[0, 1]), stretch(5, 9, &[1]), stretch(20, 30, &[0, 1])]
        );
    }

    #[test]
    fn runs_are_found_from_the_last_to_the_first() {
        assert_eq!(runs_to_merge(&[], PAGE, u32::MAX), []);
        assert_eq!(runs_to_merge(&row(&[8]), PAGE, u32::MAX), []);
        assert_eq!(runs_to_merge(&row(&[8, 8, 4096, 16, 8, 8]), PAGE, u32::MAX), [3..6, 0..3]);
        assert_eq!(runs_to_merge(&row(&[4096, 256, 16, 1]), PAGE, u32::MAX), [], "as wide as they should be");
        let mut other = row(&[8, 8, 8, 8]);
        other[..2].iter_mut().for_each(|span| span.num_probes = 5);
        assert_eq!(runs_to_merge(&other, PAGE, u32::MAX), [2..4, 0..2]);
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
        // Slices of 4,872 bytes waste 40 % of a page; of narrower ones, two fit a page, and waste none.
        assert_eq!(start_of_run(&row(&[19_488, 19_488]), PAGE, u32::MAX), 1);
        assert_eq!(start_of_run(&row(&[16_256, 16_256]), PAGE, u32::MAX), 0);
    }
}
