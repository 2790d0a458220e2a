//! Bounds, summaries of pages and spans of keys against plain lists.

use proptest::prelude::*;
use skip_bounds::overlap::overlap;
use skip_bounds::page::{self, BoundsShape, MOST_RANGES, PAGE_BYTES, RANGES_PER_PAGE};
use skip_bounds::{Bounds, BoundsTest, KeyComparison, OrderKeyIntervals, PageSummary, Verdict};

fn small_key() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..20u64, 1 => Just(u64::MAX), 1 => (u64::MAX - 5)..=u64::MAX]
}

fn range() -> impl Strategy<Value = Bounds> {
    let keys = prop::collection::vec(small_key(), 0..4);
    (keys, any::<(bool, bool)>(), prop::bool::weighted(0.1)).prop_map(|(keys, (nulls, widened), open)| {
        let mut bounds = Bounds { nulls, open, widened, ..Bounds::EMPTY };
        keys.into_iter().for_each(|key| bounds.add(key));
        bounds
    })
}

fn spans() -> impl Strategy<Value = OrderKeyIntervals> {
    let one = (small_key(), 0..5u8, any::<bool>()).prop_map(|(key, comparison, is_exact)| {
        let comparison = [
            KeyComparison::Less,
            KeyComparison::LessOrEqual,
            KeyComparison::Equal,
            KeyComparison::GreaterOrEqual,
            KeyComparison::Greater,
        ][usize::from(comparison)];
        OrderKeyIntervals::of(comparison, key, is_exact)
    });
    prop::collection::vec(one, 0..4).prop_map(OrderKeyIntervals::union)
}

const KEYS: [u64; 10] = [0, 1, 5, 10, 19, 20, 1 << 63, u64::MAX - 5, u64::MAX - 1, u64::MAX];

proptest! {
    #[test]
    fn a_summary_decides_as_the_ranges_do(ranges in prop::collection::vec(range(), 1..20), spans in spans()) {
        let summary = PageSummary::of(ranges.iter().copied());
        prop_assert_eq!(PageSummary::decode(&summary.encode()), summary);
        for test in [BoundsTest::Within(spans.as_slice()), BoundsTest::IsNull, BoundsTest::IsNotNull] {
            let matching = ranges.iter().filter(|range| range.matches(test)).count();
            match summary.verdict(test) {
                Verdict::None => prop_assert_eq!(matching, 0),
                Verdict::All => {
                    prop_assert_eq!(matching, ranges.len());
                    prop_assert!(ranges.iter().all(|range| !range.open));
                }
                Verdict::Read => {}
            }
        }
    }

    #[test]
    fn an_older_summary_excludes_no_older_range(
        ranges in prop::collection::vec((range(), range()), 1..20), spans in spans()
    ) {
        let before = PageSummary::of(ranges.iter().map(|pair| pair.0));
        let after = PageSummary::of(ranges.iter().map(|pair| pair.0.union(pair.1)));
        prop_assert!(after.covers(&before));
        // What matched before matches after; so the older summary says None only of what was not there.
        let test = BoundsTest::Within(spans.as_slice());
        if before.verdict(test) == Verdict::All {
            prop_assert!(ranges.iter().all(|pair| pair.0.union(pair.1).matches(test)));
        }
    }

    #[test]
    fn bounds_match_the_values_that_they_are_of(keys in prop::collection::vec(small_key(), 1..5), spans in spans()) {
        let mut bounds = Bounds::EMPTY;
        keys.iter().for_each(|&key| bounds.add(key));
        if keys.iter().any(|&key| spans.contains(key)) {
            prop_assert!(bounds.matches(BoundsTest::Within(spans.as_slice())));
        }
        prop_assert!(keys.iter().all(|&key| bounds.holds(Some(key))) && !bounds.holds(None));
    }

    #[test]
    fn spans_are_sets(one in spans(), other in spans()) {
        let (union, both) = (OrderKeyIntervals::union([one.clone(), other.clone()]), one.intersection(&other));
        for key in KEYS {
            let (a, b) = (one.contains(key), other.contains(key));
            prop_assert_eq!((union.contains(key), both.contains(key)), (a || b, a && b));
        }
        for set in [&union, &both] {
            prop_assert!(set.as_slice().windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }

    #[test]
    fn a_page_keeps_its_bounds(ranges in prop::collection::vec(range(), RANGES_PER_PAGE as usize)) {
        let mut bytes = vec![0xA5; PAGE_BYTES];
        for (place, &bounds) in (0..).zip(&ranges) {
            page::put(&mut bytes, place, bounds);
        }
        for (place, &bounds) in (0..).zip(&ranges) {
            prop_assert_eq!(page::get(&bytes, place), bounds);
            prop_assert_eq!(page::get_in_quarter(&bytes[page::quarter_of(place)], place), bounds);
        }
    }
}

#[test]
fn comparisons_of_exact_keys_leave_the_key_out() {
    let of = |comparison, key| OrderKeyIntervals::of(comparison, key, true);
    assert_eq!(of(KeyComparison::Less, 0).as_slice(), []);
    assert_eq!(of(KeyComparison::Greater, u64::MAX).as_slice(), []);
    assert_eq!(of(KeyComparison::Less, 5).as_slice(), [(0, 4)]);
    assert_eq!(OrderKeyIntervals::of(KeyComparison::Less, 0, false).as_slice(), [(0, 0)]);
    assert_eq!(OrderKeyIntervals::of(KeyComparison::Greater, 7, false).as_slice(), [(7, u64::MAX)]);
}

#[test]
fn shapes() {
    assert_eq!(BoundsShape::new(0), None);
    assert_eq!(BoundsShape::new(MOST_RANGES + 1), None);
    let pages = |width| BoundsShape::new(width).unwrap().pages();
    assert_eq!(
        (pages(1), pages(RANGES_PER_PAGE), pages(RANGES_PER_PAGE + 1), pages(MOST_RANGES)),
        (1, 1, 3, 201)
    );
    let shape = BoundsShape::new(1000).unwrap();
    assert_eq!((0..3).map(|number| shape.ranges_of(number).len()).sum::<usize>(), 1000);
    assert_eq!(shape.locate(999), (2, 7));
    assert_eq!(page::summary_at(199).end, 3 * 2032 + 50 * 40);
}

#[test]
fn overlap_tells_order_from_chance() {
    let of = |least, greatest| Bounds { least, greatest, ..Bounds::EMPTY };
    let ordered: Vec<Bounds> = (0..50).map(|n| of(n * 10, n * 10 + 9)).collect();
    let mixed: Vec<Bounds> = (0..50).map(|n| of(n % 3, 1000 - n % 7)).collect();
    assert_eq!(overlap(&ordered), Some(0.0));
    assert_eq!(overlap(&mixed), Some(1.0));
    assert_eq!(overlap(&ordered[..1]), None);
}

#[test]
fn a_table_of_a_terabyte_is_consulted_in_ninety_pages() {
    const RANGES: u32 = ((1u64 << 40) / 8192 / 16) as u32;
    const ROWS: u64 = 2000; // of a range
    // The values of a range are up to ten ranges out of order.
    let bounds = |range: u32| {
        let first = u64::from(range) * ROWS;
        let jitter = first.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & 0x7FFF;
        let (least, greatest) =
            (first.saturating_sub(jitter % (10 * ROWS)), first + ROWS + jitter % (5 * ROWS));
        Bounds { least, greatest, ..Bounds::EMPTY }
    };
    let last = u64::from(RANGES) * ROWS;
    for (from, to) in [(last / 3, last / 3 + 5000), (last - 100, u64::MAX), (0, 7)] {
        let spans = [(from, to)];
        let test = BoundsTest::Within(&spans);
        let (mut pages, mut matching) = (0u32, 0u32);
        for segment in (0..RANGES).step_by(MOST_RANGES as usize) {
            let shape = BoundsShape::new((RANGES - segment).min(MOST_RANGES)).expect("a shape");
            pages += u32::from(shape.has_summaries());
            for number in 0..shape.data_pages() {
                let ranges = shape.ranges_of(number);
                let of_page = || ranges.clone().map(|range| bounds(segment + range));
                if PageSummary::of(of_page()).verdict(test) != Verdict::None {
                    pages += 1;
                    matching += of_page().filter(|bounds| bounds.matches(test)).count() as u32;
                }
            }
        }
        assert!(pages <= 90, "{pages} pages for {from} to {to}");
        assert!((1..40).contains(&matching), "{matching} ranges for {from} to {to}");
    }
}
