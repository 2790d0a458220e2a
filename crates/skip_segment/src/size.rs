//! The choice of filter sizes: which neighbouring ranges get filters of the same number of bits.
//!
//! A segment needs ranges of equal size, and wide segments make fast lookups. So a size is *sticky*: ranges keep the
//! size of those before them as long as it is enough for them and not more than twice too large. A group of ranges gets
//! the size that its largest one needs, unless that wastes too much; then the group is halved. A new size gets some
//! headroom, so that noise in the number of keys does not start a new segment with every other group.

use skip_filter::MIN_FILTER_BITS;
use std::cmp::max;

/// A group is not halved if it has fewer than twice as many ranges: a segment narrower than a byte wastes bits.
const SMALLEST_GROUP: usize = 8;
/// A group may take this number of times the bits that its ranges need, each for itself.
const MOST_WASTE: u64 = 2;
/// A size is kept if it is at most this number of times what is needed.
pub const MOST_EXCESS: u64 = 2;
/// A new size has 1/16 more bits than needed, so that small differences in the counts do not divide an index into many
/// segments.
const HEADROOM: u64 = 16;
/// Sizes are multiples of this: a word.
const STEP: u64 = MIN_FILTER_BITS;
/// The largest size: a directory entry has 32 bits for it.
const MAX_FILTER_BITS: u32 = u32::MAX / STEP as u32 * STEP as u32;

/// What one range needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeNeed {
    /// Bits of its filter, for the keys that it has.
    pub filter_bits: u64,
    /// Whether the range is not complete: it is expected to need as much as its neighbours when it is.
    pub is_partial: bool,
}

/// Consecutive ranges that get filters of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizedRanges {
    /// How many.
    pub count: usize,
    /// Bits of each one's filter: at least [`MIN_FILTER_BITS`], and a multiple of it if it is a new size.
    pub filter_bits: u32,
}

/// Chooses sizes for a group of consecutive ranges; `current` is the size of the filters before them, if there are any.
/// The counts of the result add up to the number of ranges, in their order.
pub fn choose_sizes(group: &[RangeNeed], current: Option<u32>) -> Vec<SizedRanges> {
    let mut chosen = Vec::new();
    choose(group, current, &mut chosen);
    chosen
}

fn choose(group: &[RangeNeed], before: Option<u32>, chosen: &mut Vec<SizedRanges>) {
    let current = chosen.last().map(|ranges| ranges.filter_bits).or(before);
    let needs = || group.iter().map(|range| expected_bits(range, group, current));
    let Some(largest) = needs().max() else { return };
    let wasted = largest.saturating_mul(group.len() as u64);
    let most = needs().fold(0, u64::saturating_add).saturating_mul(MOST_WASTE);
    if wasted > most && group.len() >= 2 * SMALLEST_GROUP {
        let (first, second) = group.split_at(group.len() / 2);
        choose(first, before, chosen);
        choose(second, before, chosen);
    } else {
        chosen.push(SizedRanges { count: group.len(), filter_bits: choose_size(largest, current) });
    }
}

/// Bits that a range is expected to need. One that is not complete is taken to need what the others do, and those
/// before them.
fn expected_bits(range: &RangeNeed, group: &[RangeNeed], current: Option<u32>) -> u64 {
    if !range.is_partial {
        return range.filter_bits;
    }
    let complete = group.iter().filter(|other| !other.is_partial).map(|other| other.filter_bits).max();
    range.filter_bits.max(complete.unwrap_or(0)).max(current.unwrap_or(0).into())
}

/// The size to go on with: the current one if it is enough and not too large.
fn choose_size(need: u64, current: Option<u32>) -> u32 {
    let need = max(need, MIN_FILTER_BITS);
    match current {
        Some(size) if u64::from(size) >= need && u64::from(size) <= need.saturating_mul(MOST_EXCESS) => size,
        // What needs a word only has few keys.
        _ if need == MIN_FILTER_BITS => MIN_FILTER_BITS as u32,
        _ => roomy(need),
    }
}

/// A new size, in bits, for ranges that need `need` bits.
pub fn roomy(need: u64) -> u32 {
    let roomy = need.saturating_add(need / HEADROOM).checked_next_multiple_of(STEP);
    roomy.and_then(|bits| u32::try_from(bits).ok()).unwrap_or(MAX_FILTER_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn complete(bits: &[u64]) -> Vec<RangeNeed> {
        bits.iter().map(|&filter_bits| RangeNeed { filter_bits, is_partial: false }).collect()
    }

    fn chosen(group: &[RangeNeed], current: Option<u32>) -> Vec<(usize, u32)> {
        choose_sizes(group, current).iter().map(|ranges| (ranges.count, ranges.filter_bits)).collect()
    }

    #[test]
    fn a_new_size_has_headroom_in_whole_words() {
        assert_eq!(chosen(&complete(&[1600; 3]), None), [(3, 1728)], "1,700 bits, rounded up");
        assert_eq!(chosen(&complete(&[64]), None), [(1, 64)], "a filter of a word has none");
        assert_eq!(chosen(&complete(&[1]), None), [(1, 64)]);
        assert_eq!(chosen(&complete(&[]), Some(640)), []);
    }

    #[test]
    fn a_size_is_kept_if_it_is_enough_and_not_twice_too_large() {
        assert_eq!(chosen(&complete(&[640]), Some(640)), [(1, 640)]);
        assert_eq!(chosen(&complete(&[640]), Some(1280)), [(1, 1280)]);
        assert_eq!(chosen(&complete(&[640]), Some(1281)), [(1, 704)]);
        assert_eq!(chosen(&complete(&[704]), Some(640)), [(1, 768)]);
        assert_eq!(chosen(&complete(&[64]), Some(128)), [(1, 128)]);
        assert_eq!(chosen(&complete(&[64]), Some(192)), [(1, 64)]);
    }

    /// 64 ranges, of which the last eight need much more: halves are taken apart until they waste little.
    #[test]
    fn a_group_that_would_waste_too_much_is_halved() {
        let mut bits = vec![640; 56];
        bits.extend([64_000; 8]);
        assert_eq!(chosen(&complete(&bits), None), [(32, 704), (16, 704), (16, 68_032)]);
        assert_eq!(chosen(&complete(&bits), Some(1000)), [(32, 1000), (16, 1000), (16, 68_032)]);
    }

    #[test]
    fn a_small_group_is_not_halved() {
        let mut bits = vec![64; 14];
        bits.push(6400);
        assert_eq!(chosen(&complete(&bits), None), [(15, 6848)]);
        bits.push(6400);
        assert_eq!(chosen(&complete(&bits), None), [(8, 64), (8, 6848)]);
    }

    #[test]
    fn a_partial_range_takes_its_neighbours_size() {
        let mut group = complete(&[640, 700]);
        group.push(RangeNeed { filter_bits: 64, is_partial: true });
        assert_eq!(chosen(&group, None), [(3, 768)]);
        assert_eq!(chosen(&group[2..], Some(1280)), [(1, 1280)]);
        assert_eq!(chosen(&group[2..], None), [(1, 64)]);
        group[2].filter_bits = 7000;
        assert_eq!(chosen(&group, None), [(3, 7488)], "and more if it needs more already");
    }

    proptest! {
        #[test]
        fn every_range_gets_what_it_needs(
            needs in prop::collection::vec((1..100_000u64, any::<bool>()), 0..65),
            current in prop::option::of(1..2000u32),
        ) {
            let group: Vec<RangeNeed> =
                needs.iter().map(|&(filter_bits, is_partial)| RangeNeed { filter_bits, is_partial }).collect();
            let sizes = choose_sizes(&group, current.map(|words| words * 64));
            let each: Vec<u32> =
                sizes.iter().flat_map(|ranges| vec![ranges.filter_bits; ranges.count]).collect();
            prop_assert_eq!(each.len(), group.len());
            for (range, bits) in group.iter().zip(each) {
                prop_assert!(u64::from(bits) >= range.filter_bits && bits % 64 == 0);
            }
        }
    }

    #[test]
    fn sizes_end_at_what_a_filter_can_have() {
        let sizes = chosen(&complete(&[u64::MAX; 20]), None);
        assert_eq!(sizes.iter().map(|&(count, _)| count).sum::<usize>(), 20);
        assert!(sizes.iter().all(|&(_, bits)| bits == MAX_FILTER_BITS));
        assert!(u64::from(MAX_FILTER_BITS) > u64::from(u32::MAX) - STEP);
    }
}
