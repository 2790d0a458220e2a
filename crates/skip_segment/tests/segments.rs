//! Segments against the row-major filters they are made of.

use crate::common::{Segment, VALUES, bit};
use proptest::prelude::*;
use skip_filter::{Filter, hash_i64};
use skip_segment::*;

/// Ranges as the tests make them: the state and the hashes of each.
type Ranges = Vec<(RangeState, Vec<u64>)>;

/// Range `i` gets up to 40 hashes, and a state that is the bits of a hash as well.
fn ranges(seed: u64, width: u32) -> Ranges {
    let range = |range: u32| {
        let dice = hash_i64(seed, -1 - i64::from(range));
        let state = RangeState { open: dice & 1 != 0, nulls: dice & 2 != 0, values: dice & 4 != 0 };
        let hashes =
            (0..dice >> 8 & 31).map(|key| hash_i64(seed, i64::from(range) << 8 | key as i64)).collect();
        (state, hashes)
    };
    (0..width).map(range).collect()
}

fn build(ranges: &[(RangeState, Vec<u64>)], filter_bits: u32, num_probes: u8) -> SegmentBuilder {
    let mut builder = SegmentBuilder::new(filter_bits, num_probes);
    for (state, keys) in ranges {
        builder.push(*state, keys.iter().copied());
    }
    builder
}

fn filters(ranges: &Ranges, filter_bits: u32, num_probes: u8) -> Vec<Filter> {
    let filter = |(_, keys): &(RangeState, Vec<u64>)| {
        let mut filter = Filter::new(filter_bits, num_probes);
        keys.iter().for_each(|&hash| filter.insert(hash));
        filter
    };
    ranges.iter().map(filter).collect()
}

/// Every bit of a segment is that of the range's own filter or state, and there are no others.
fn check_bits(segment: &Segment, ranges: &Ranges, first: u32, num_probes: u8) {
    let (shape, filters) = (&segment.shape, filters(ranges, segment.shape.filter_bits(), num_probes));
    for slice in 0..shape.slices() {
        let bytes = segment.slice(slice);
        for range in 0..shape.stride() * 8 {
            let found = bytes[range as usize / 8] >> (range % 8) & 1 != 0;
            let at = (range + first) as usize;
            let expected = range < shape.width()
                && match slice {
                    OPEN_SLICE => ranges[at].0.open,
                    NULLS_SLICE => ranges[at].0.nulls,
                    VALUES_SLICE => ranges[at].0.values,
                    _ => bit(filters[at].words(), slice - FIRST_PROBE_SLICE),
                };
            assert_eq!(found, expected, "slice {slice} range {range} of {shape:?}");
        }
    }
    let used = |page: usize| {
        let left = shape.slices() - page as u32 * shape.slices_per_page();
        (left.min(shape.slices_per_page()) * shape.stride()) as usize
    };
    for (page, bytes) in segment.bytes.chunks(segment.page_bytes as usize).enumerate() {
        assert!(bytes[used(page)..].iter().all(|&byte| byte == 0), "page {page} has bytes after its slices");
    }
}

/// A lookup in the segment answers for each range what its own filter answers.
fn check_answers(segment: &Segment, ranges: &Ranges, num_probes: u8) {
    let filters = filters(ranges, segment.shape.filter_bits(), num_probes);
    let absent = (0..50).map(|key| hash_i64(99, key));
    for hash in ranges.iter().take(20).flat_map(|(_, keys)| keys.iter().copied()).chain(absent) {
        let found = segment.matching(hash, num_probes);
        for (range, filter) in filters.iter().enumerate() {
            assert_eq!(bit(&found, range as u32), filter.contains(hash));
            assert!(filter.contains(hash) || !ranges[range].1.contains(&hash), "a false negative");
        }
    }
}

#[test]
fn every_width_to_200_and_1000() {
    for width in (1..=200).chain([1000]) {
        let ranges = ranges(u64::from(width), width);
        let (filter_bits, num_probes) = ([64, 100, 192, 1, 257][width as usize % 5], (width % 9 + 1) as u8);
        let builder = build(&ranges, filter_bits, num_probes);
        assert_eq!(builder.width(), width);
        for page_bytes in [128, 1000] {
            let segment = Segment::of(&builder, page_bytes);
            check_bits(&segment, &ranges, 0, num_probes);
            check_answers(&segment, &ranges, num_probes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_segment_is_its_filters(
        seed in any::<u64>(), width in 1..300u32, filter_bits in 1..700u32, num_probes in 0..20u8, page_bytes in 40..900u32,
    ) {
        let ranges = ranges(seed, width);
        let segment = Segment::of(&build(&ranges, filter_bits, num_probes), page_bytes);
        check_bits(&segment, &ranges, 0, num_probes);
        check_answers(&segment, &ranges, num_probes);
    }

    #[test]
    fn a_part_of_a_builder_is_a_segment(
        seed in any::<u64>(), width in 1..300u32, filter_bits in 1..300u32, cut in any::<(u32, u32)>(),
    ) {
        let ranges = ranges(seed, width);
        let first = cut.0 % width;
        let shape = SegmentShape::new(cut.1 % (width - first) + 1, filter_bits, 200).unwrap();
        let segment = Segment::part(&build(&ranges, filter_bits, 5), first, shape, 200);
        check_bits(&segment, &ranges, first, 5);
    }

    /// Segments put side by side by moving bits are the one built wide.
    #[test]
    fn merging_is_building_wide(
        seed in any::<u64>(), widths in prop::collection::vec(1..150u32, 1..6), filter_bits in 1..300u32,
    ) {
        let ranges = ranges(seed, widths.iter().sum());
        let wide = Segment::of(&build(&ranges, filter_bits, 5), 600);
        let mut merged = Segment::empty(wide.shape, 600);
        let mut first = 0;
        for width in widths {
            let narrow = Segment::of(&build(&ranges[first..first + width as usize], filter_bits, 5), 300);
            for slice in 0..wide.shape.slices() {
                copy_bits(merged.slice_mut(slice), first, narrow.slice(slice), 0, width as usize);
            }
            first += width as usize;
        }
        prop_assert!(merged.bytes == wide.bytes);
    }

    #[test]
    fn copy_bits_copies_these_bits_only(
        dst in prop::collection::vec(any::<u8>(), 0..120), src in prop::collection::vec(any::<u8>(), 0..120),
        at in any::<(usize, usize, usize)>(),
    ) {
        let (dst_bit, src_bit) = (at.0 % (dst.len() * 8 + 1), at.1 % (src.len() * 8 + 1));
        let bits = at.2 % ((dst.len() * 8 - dst_bit).min(src.len() * 8 - src_bit) + 1);
        let mut copied = dst.clone();
        copy_bits(&mut copied, dst_bit, &src, src_bit, bits);
        let bit = |bytes: &[u8], i: usize| bytes[i / 8] >> (i % 8) & 1;
        for i in 0..dst.len() * 8 {
            let from_src = (dst_bit..dst_bit + bits).contains(&i);
            let expected = if from_src { bit(&src, i - dst_bit + src_bit) } else { bit(&dst, i) };
            prop_assert_eq!(bit(&copied, i), expected, "bit {}", i);
        }
    }

    #[test]
    fn slices_and_and_or_like_bits(
        acc in prop::collection::vec(any::<u64>(), 0..40), slice in prop::collection::vec(any::<u8>(), 0..330),
    ) {
        let bit_of_slice = |i: usize| slice.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 != 0);
        let (mut anded, mut ored) = (acc.clone(), acc.clone());
        let any = and_slice(&mut anded, &slice);
        or_slice(&mut ored, &slice);
        prop_assert_eq!(any, anded.iter().any(|&word| word != 0));
        for i in 0..acc.len() * 64 {
            prop_assert_eq!(bit(&anded, i as u32), bit(&acc, i as u32) && bit_of_slice(i));
            prop_assert_eq!(bit(&ored, i as u32), bit(&acc, i as u32) || bit_of_slice(i));
        }
    }
}

#[test]
#[should_panic(expected = "past the end")]
fn copy_bits_past_the_end_panics() {
    copy_bits(&mut [0; 8], 60, &[0; 8], 0, 5);
}

/// A page that is not the segment's, and a builder with nothing in it, give zeros.
#[test]
fn pages_that_are_not_there() {
    let mut builder = SegmentBuilder::new(64, 3);
    assert!(builder.shape(100).is_none());
    builder.push(VALUES, [1, 2, 3].into_iter());
    let shape = builder.shape(100).unwrap();
    for page in [1, 2, u32::MAX] {
        let mut out = [0xff; 100];
        builder.write_page(&shape, page, &mut out);
        assert_eq!(out, [0; 100]);
    }
    let mut out = [0xff; 100];
    SegmentBuilder::new(64, 3).write_page(&shape, 0, &mut out);
    assert_eq!(out, [0; 100]);
}

/// The builder's memory is its filters', within a group and some bookkeeping.
#[test]
fn memory_is_accounted_for() {
    let mut builder = SegmentBuilder::new(6400, 3);
    for range in 0..640 {
        builder.push(VALUES, std::iter::once(range));
        let filters = (range as usize + 1) * 800;
        let memory = builder.memory_bytes();
        assert!(memory >= filters && memory < filters + 3 * 64 * 832 + 50_000, "{range}: {memory} {filters}");
    }
}
