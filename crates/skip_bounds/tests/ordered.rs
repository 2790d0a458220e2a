//! Rows in the order of a column, read range by range, against a plain sort.

use proptest::prelude::*;
use skip_bounds::Bounds;
use skip_bounds::PageSummary;
use skip_bounds::ordered::{
    ExpectedRead, Next, RangeSample, Rank, RowHeap, SortOrder, UnreadRanges, expected_read,
};

/// Values have twice the numbers of their keys if keys are not exact: two values share a key.
fn key_of(value: u64, is_exact: bool) -> u64 {
    if is_exact { value } else { value / 2 }
}

fn order() -> impl Strategy<Value = SortOrder> {
    any::<(bool, bool, bool)>().prop_map(|(descends, nulls_first, is_exact)| SortOrder {
        descends,
        nulls_first,
        is_exact,
    })
}

/// The values of a range, None for NULL, and whether its bounds are wider than they need be, or open.
type Range = (Vec<Option<u64>>, u8);

fn range() -> impl Strategy<Value = Range> {
    let value = prop_oneof![6 => (0..40u64).prop_map(Some), 1 => Just(None), 1 => Just(Some(u64::MAX))];
    (prop::collection::vec(value, 0..6), 0..10u8)
}

fn bounds_of((values, kind): &Range, is_exact: bool) -> Bounds {
    let mut bounds = Bounds::EMPTY;
    for value in values {
        bounds = bounds.union(Bounds::of(value.map(|value| key_of(value, is_exact))));
    }
    match kind {
        0 => Bounds { open: true, ..bounds },
        // Open, and nothing is known of it.
        1 => Bounds { open: true, ..Bounds::EMPTY },
        2 => bounds.union(Bounds::of(None)),
        3 => bounds.union(Bounds::of(Some(0))).union(Bounds::of(Some(30))),
        _ => bounds,
    }
}

/// A number by which rows are sorted.
fn place(order: &SortOrder, value: Option<u64>) -> i128 {
    match value {
        Some(value) if order.descends => -i128::from(value),
        Some(value) => value.into(),
        None if order.nulls_first => i128::MIN,
        None => i128::MAX,
    }
}

type Row = (Rank, Option<u64>);

/// The rows in order, each with the number of ranges that were read before it was returned.
fn returned(order: &SortOrder, ranges: &[Range]) -> Vec<(Option<u64>, usize)> {
    let is_before = |one: &Row, other: &Row| {
        one.0 < other.0 || one.0 == other.0 && place(order, one.1) < place(order, other.1)
    };
    // Groups of three ranges; some ranges are known before, by a part of their values.
    let bounds: Vec<Bounds> = ranges.iter().map(|range| bounds_of(range, order.is_exact)).collect();
    let groups: Vec<Bounds> =
        bounds.chunks(3).map(|group| PageSummary::of(group.iter().copied()).bounds()).collect();
    let known = |(range, (values, kind)): (u32, &Range)| {
        let value = values.first().filter(|_| kind % 2 == 0)?;
        Some((range, Bounds::of(value.map(|value| key_of(value, order.is_exact)))))
    };
    let known: Vec<(u32, Bounds)> = (0u32..).zip(ranges).filter_map(known).collect();
    let mut unread = UnreadRanges::new(order, &groups, &known);
    let (mut rows, mut read, mut found) = (RowHeap::default(), 0, Vec::new());
    loop {
        match rows.first() {
            Some(&(rank, value)) if order.may_return(rank, unread.first()) => {
                assert_eq!(rows.pop(is_before), Some((rank, value)));
                found.push((value, read));
            }
            _ => {
                let range = match unread.take() {
                    None => return found,
                    Some(Next::Group(group)) => {
                        let first = 3 * group;
                        let of_group = bounds.iter().copied().skip(first as usize).take(3);
                        unread.add(order, (first..).zip(of_group));
                        continue;
                    }
                    Some(Next::Range(range)) => range,
                };
                read += 1;
                for &value in &ranges[range as usize].0 {
                    rows.push(
                        (order.rank(value.map(|value| key_of(value, order.is_exact))), value),
                        is_before,
                    );
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn rows_come_in_order(order in order(), ranges in prop::collection::vec(range(), 0..12)) {
        let mut expected: Vec<Option<u64>> = ranges.iter().flat_map(|range| range.0.clone()).collect();
        expected.sort_by_key(|&value| place(&order, value));
        let found: Vec<Option<u64>> = returned(&order, &ranges).into_iter().map(|(value, _)| value).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn no_range_is_read_without_need(order in order(), ranges in prop::collection::vec(range(), 1..12)) {
        for (value, read) in returned(&order, &ranges) {
            // Before a row is returned, only ranges may be read that could hold a row before it, or an equal one.
            let rank = order.rank(value.map(|value| key_of(value, order.is_exact)));
            let needed = ranges.iter().filter(|range| {
                order.ranks(&bounds_of(range, order.is_exact)).is_some_and(|(first, _)| first <= rank)
            });
            prop_assert!(read <= needed.count());
        }
    }

    #[test]
    fn a_heap_gives_rows_in_order(numbers in prop::collection::vec(0..50u32, 0..60), taken in 0..60usize) {
        let mut heap = RowHeap::default();
        let mut left = numbers.clone();
        numbers.iter().for_each(|&number| heap.push(number, |one, other| one < other));
        left.sort_unstable();
        let first: Vec<u32> = (0..taken).map_while(|_| heap.pop(|one, other| one < other)).collect();
        let rest = left.split_off(first.len());
        prop_assert_eq!(first, left);
        prop_assert_eq!(heap.len(), rest.len());
        let mut all = heap.take_all();
        all.sort_unstable();
        prop_assert_eq!(all, rest);
    }
}

fn range_of(least: u64, greatest: u64) -> Bounds {
    Bounds::of(Some(least)).union(Bounds::of(Some(greatest)))
}

/// What is expected to be read of ranges with the same number of rows, in groups of ten; groups are unknown inside if
/// `are_known` is false.
fn expected(order: &SortOrder, ranges: &[Bounds], wanted: f64, are_known: bool) -> ExpectedRead {
    let share = 1.0 / ranges.len().max(1) as f64;
    let sample = |group: &[Bounds]| RangeSample {
        bounds: PageSummary::of(group.iter().copied()).bounds(),
        share: share * group.len() as f64,
        ranges: group.len() as u32,
    };
    let groups: Vec<RangeSample> = ranges.chunks(10).map(sample).collect();
    let ranges_of = |group: u32| match are_known {
        true => ranges.chunks(10).nth(group as usize).unwrap().iter().map(|&b| sample(&[b])).collect(),
        false => vec![groups[group as usize]],
    };
    expected_read(order, &groups, ranges_of, wanted)
}

#[test]
fn ranges_in_order_are_read_one_by_one() {
    for nulls_first in [false, true] {
        let order = SortOrder { descends: true, nulls_first, is_exact: true };
        let ranges: Vec<_> = (0..100).map(|i| range_of(i * 1000, i * 1000 + 999)).collect();
        let one = expected(&order, &ranges, 0.0001, true);
        assert_eq!((one.ranges, one.groups), (1, 1));
        assert_eq!(expected(&order, &ranges, 0.095, true).ranges, 10);
        assert_eq!(expected(&order, &ranges, 0.095, false).ranges, 10);
        assert_eq!(expected(&order, &ranges, 2.0, true).ranges, 100);
        assert_eq!(expected(&order, &ranges, 0.5, false).share, 0.5);
        assert_eq!(expected(&order, &[], 0.5, true).ranges, 0);
    }
}

#[test]
fn ranges_that_overlap_are_read_together() {
    let order = SortOrder { descends: false, nulls_first: false, is_exact: true };
    // Each reaches over the next nine.
    let rough: Vec<_> = (0..100).map(|i| range_of(i * 1000, i * 1000 + 9999)).collect();
    let one = expected(&order, &rough, 0.0001, true).ranges;
    assert!(one <= 2, "{one}");
    let ten = expected(&order, &rough, 0.01, true).ranges;
    assert!((3..=10).contains(&ten), "{ten}");
    let all_alike: Vec<_> = (0..100).map(|i| range_of(i, 1_000_000 - i)).collect();
    assert_eq!(expected(&order, &all_alike, 0.01, true).ranges, 100);
    // A few NULLs do not make a range reach further.
    let with_nulls: Vec<_> = rough.iter().map(|&range| range.union(Bounds::of(None))).collect();
    let order = SortOrder { nulls_first: true, ..order };
    assert_eq!(expected(&order, &with_nulls, 0.01, true).ranges, 100, "all may have NULLs, which come first");
}

#[test]
fn large_keys_are_told_apart() {
    let order = SortOrder { descends: false, nulls_first: false, is_exact: true };
    // Integers are moved up by 2^63.
    let ranges: Vec<_> = (0..100).map(|i| range_of((1 << 63) + i * 10, (1 << 63) + i * 10 + 9)).collect();
    assert_eq!(expected(&order, &ranges, 0.045, true).ranges, 5);
}

#[test]
fn open_ranges_are_read_first() {
    let order = SortOrder { descends: true, nulls_first: false, is_exact: true };
    let open = Bounds { open: true, ..Bounds::EMPTY };
    let mut ranges: Vec<_> = (0..98).map(|i| range_of(i * 1000, i * 1000 + 999)).collect();
    ranges.extend([open, open]);
    assert_eq!(expected(&order, &ranges, 0.0001, true).ranges, 3);
}
