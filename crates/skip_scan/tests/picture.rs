//! The picture of a table's ranges.
use skip_scan::{RangeSet, picture};

fn set(len: u64, numbers: &[u64]) -> RangeSet {
    let mut set = RangeSet::empty(len);
    numbers.iter().for_each(|&number| set.insert(number));
    set
}

#[test]
fn a_range_is_a_character() {
    let (matching, unfiltered, holding) = (set(8, &[1, 2, 6, 7]), set(8, &[6, 7]), set(8, &[2, 7]));
    assert_eq!(picture(&matching, &unfiltered, &holding, 64), ".o#...?#");
    assert_eq!(picture(&matching, &unfiltered, &holding, 8), ".o#...?#");
}

#[test]
fn a_cell_shows_the_first_that_applies() {
    let (matching, unfiltered, holding) = (set(8, &[1, 2, 6, 7]), set(8, &[6, 7]), set(8, &[2]));
    assert_eq!(picture(&matching, &unfiltered, &holding, 4), "o#.?");
    assert_eq!(picture(&matching, &unfiltered, &holding, 2), "#?");
    assert_eq!(picture(&matching, &unfiltered, &set(8, &[]), 1), "o");
    assert_eq!(picture(&set(8, &[6]), &unfiltered, &set(8, &[]), 1), "?");
    assert_eq!(picture(&set(8, &[]), &unfiltered, &set(8, &[]), 1), "."); // got its filter meanwhile
}

#[test]
fn no_ranges_no_characters() {
    let none = set(0, &[]);
    assert_eq!(picture(&none, &none, &none, 64), "");
}

#[test]
fn every_range_is_in_one_cell() {
    for ranges in [1, 2, 3, 63, 64, 65, 100, 1000] {
        for width in [1, 2, 3, 7, 64, 99, 100, 101, 2000] {
            let nothing = set(ranges, &[]);
            for range in (0..ranges).step_by(7).chain([ranges - 1]) {
                let line = picture(&nothing, &nothing, &set(ranges, &[range]), width);
                assert_eq!(line.len() as u64, width.min(ranges));
                assert_eq!(line.matches('#').count(), 1, "range {range} of {ranges} in {line}");
            }
        }
    }
}

#[test]
fn the_largest_table() {
    let ranges = u64::from(u32::MAX);
    let mut last = RangeSet::empty(ranges);
    last.insert(ranges - 1);
    let line = picture(&last, &RangeSet::empty(ranges), &RangeSet::empty(ranges), 100_000);
    assert_eq!((line.len(), &line[99_998..]), (100_000, ".o"));
}
