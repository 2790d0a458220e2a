//! The geometry of segments: nothing straddles, nothing overlaps, little is wasted.

use proptest::prelude::*;
use skip_segment::{FIRST_PROBE_SLICE, SegmentShape};

/// Payload of an 8 kB page, more or less.
const PAGE: u32 = 8_152;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn slices_neither_straddle_nor_overlap(
        width in prop_oneof![1..200u32, 1..70_000u32],
        filter_bits in 1..5_000u32,
        page_bytes in prop_oneof![0..200u32, 1000..33_000u32],
    ) {
        let Some(shape) = SegmentShape::new(width, filter_bits, page_bytes) else {
            prop_assert!(width > SegmentShape::max_width(page_bytes));
            return Ok(());
        };
        prop_assert!(width <= SegmentShape::max_width(page_bytes));
        prop_assert_eq!((shape.width(), shape.filter_bits()), (width, filter_bits));
        prop_assert_eq!(shape.slices(), filter_bits + FIRST_PROBE_SLICE);
        prop_assert!(width <= shape.stride() * 8);
        prop_assert!(shape.words() * 8 >= shape.stride() as usize);
        prop_assert!(shape.words() as u32 <= shape.stride().div_ceil(8));
        let mut next = (0, 0);
        for slice in 0..shape.slices() {
            let (page, offset) = shape.locate(slice);
            prop_assert!((page, offset) >= next, "slice {} overlaps the one before", slice);
            prop_assert!(offset + shape.stride() <= page_bytes, "slice {} straddles", slice);
            prop_assert!(page < shape.pages());
            next = (page, offset + shape.stride());
        }
        prop_assert_eq!(next.0, shape.pages() - 1, "an empty page at the end");
    }

    #[test]
    fn good_width_makes_progress(remaining in 0..200_000u32, page_bytes in prop_oneof![0..300u32, 300..40_000u32]) {
        let width = SegmentShape::good_width(remaining, page_bytes);
        prop_assert!(width <= remaining.min(SegmentShape::max_width(page_bytes)));
        prop_assert_eq!(width == 0, remaining == 0 || page_bytes == 0);
        if width > 0 {
            prop_assert!(SegmentShape::new(width, 64, page_bytes).is_some());
            prop_assert!(width == remaining || width.is_multiple_of(64) || page_bytes < 8);
        }
    }
}

/// Splitting greedily: one segment or two beside full ones, at most a quarter of the space lost, on average a tenth.
#[test]
fn greedy_splitting_wastes_little() {
    let (mut all_segments, mut all_cost, mut tried) = (0, 0.0, 0);
    for remaining in (64..200_000).step_by(7) {
        let (mut left, mut segments, mut cost) = (remaining, 0, 0.0);
        while left > 0 {
            let width = SegmentShape::good_width(left, PAGE);
            let shape = SegmentShape::new(width, 64, PAGE).unwrap();
            cost += 1.0 / f64::from(shape.slices_per_page()); // pages for each slice
            segments += 1;
            left -= width;
        }
        let full = remaining / SegmentShape::max_width(PAGE);
        assert!(segments <= full + 2, "{remaining}: {segments} segments");
        let needed = f64::from(remaining.next_multiple_of(64)) / 8.0 / f64::from(PAGE);
        assert!(cost <= needed * 4.0 / 3.0, "{remaining}: {cost} {needed}");
        if full == 0 {
            (all_segments, all_cost, tried) = (all_segments + segments, all_cost + cost / needed, tried + 1);
        }
    }
    assert!(all_cost <= 1.1 * f64::from(tried), "{all_cost} of {tried}");
    assert!(10 * all_segments <= 14 * tried, "{all_segments} of {tried}");
}

#[test]
fn strides() {
    let stride = |width| SegmentShape::new(width, 64, PAGE).unwrap().stride();
    for (width, expected) in [
        (1, 1),
        (8, 1),
        (9, 2),
        (16, 2),
        (17, 4),
        (32, 4),
        (33, 8),
        (64, 8),
        (65, 16),
        (128, 16),
        (8_384, 1_048),
    ] {
        assert_eq!(stride(width), expected, "{width}");
    }
    assert_eq!(SegmentShape::max_width(PAGE), 65_216);
    assert_eq!(stride(65_216), 8_152);
}

#[test]
fn shapes_that_cannot_be() {
    assert_eq!(SegmentShape::new(0, 64, PAGE), None);
    assert_eq!(SegmentShape::new(1, 0, PAGE), None);
    assert_eq!(SegmentShape::new(1, 64, 0), None);
    assert_eq!(SegmentShape::new(65_217, 64, PAGE), None);
    assert_eq!(SegmentShape::new(u32::MAX, 64, PAGE), None);
    assert_eq!(SegmentShape::new(1, u32::MAX - 2, PAGE), None);
    let most = SegmentShape::new(1, u32::MAX - 3, PAGE).unwrap();
    assert_eq!(most.slices(), u32::MAX);
    assert_eq!(most.locate(u32::MAX - 1).0, most.pages() - 1);
    assert!(SegmentShape::good_width(u32::MAX, u32::MAX) > u32::MAX / 2);
    assert!(SegmentShape::new(u32::MAX, 64, u32::MAX).is_some());
}
