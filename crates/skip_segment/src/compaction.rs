//! Which segments move into free blocks before them, so that the end of an index can be cut off; and which blocks of
//! an index nothing has ([`gaps`]).

/// Consecutive blocks of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockExtent {
    /// The first block.
    pub first: u32,
    /// Number of blocks.
    pub blocks: u32,
}

impl BlockExtent {
    /// The first block behind it.
    pub fn end(self) -> u32 {
        self.first.saturating_add(self.blocks)
    }
}

/// A segment that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Number of the segment in the list of all.
    pub segment: usize,
    /// The first block of its new place: the first one of a free extent, when the moves before it are done.
    pub to: u32,
}

/// Which segments may slide over the free extent right before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slides {
    /// Those that are not larger than the extent, so that the new place has no block of the old one.
    Disjoint,
    /// All. One that is larger is copied to a third place first.
    Overlapping,
}

/// What is moved, and the first block behind all segments afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// The moves, in their order.
    pub moves: Vec<Move>,
    /// The first block behind all segments, once they are done.
    pub end: u32,
}

/// Moves the last segment into the smallest free extent before it that is large enough, then the segment that is last
/// then, and so on. If no extent is large enough, a smaller segment moves to the beginning of the free extent right
/// before it, which joins that extent to the one behind the segment. The blocks that a segment has left are free for
/// the moves after it. At most `most` blocks are copied.
pub fn to_front(segments: &[BlockExtent], free: &[BlockExtent], most: u64) -> Compaction {
    let (mut places, mut free, mut left) = (segments.to_vec(), joined(free), most);
    let mut moves = Vec::new();
    while let Some(step) = next_move(&places, &free, Slides::Disjoint) {
        let Move { segment, to } = step;
        let from = places[segment];
        let Some(rest) = left.checked_sub(from.blocks.into()) else { break };
        left = rest;
        moves.push(step);
        places[segment].first = to;
        for extent in free.iter_mut().filter(|extent| extent.first == to) {
            *extent = BlockExtent { first: to + from.blocks, blocks: extent.blocks - from.blocks };
        }
        free.push(from);
        free = joined(&free);
    }
    Compaction { moves, end: places.iter().map(|place| place.end()).max().unwrap_or(0) }
}

/// The segment that moves next: the last one, into the smallest free extent before it that is large enough, or else the
/// one that can slide over the first free extent. Each move brings a segment nearer to the front, so there is an end.
pub fn next_move(segments: &[BlockExtent], free: &[BlockExtent], slides: Slides) -> Option<Move> {
    let (segment, last) = segments.iter().enumerate().max_by_key(|(_, place)| place.first)?;
    let before_last = || free.iter().filter(|extent| extent.first < last.first);
    let fitting = before_last().filter(|extent| extent.blocks >= last.blocks);
    if let Some(extent) = fitting.min_by_key(|extent| (extent.blocks, extent.first)) {
        return Some(Move { segment, to: extent.first });
    }
    let sliding = before_last().filter_map(|extent| {
        let fits = |place: &BlockExtent| slides == Slides::Overlapping || place.blocks <= extent.blocks;
        let segment = segments.iter().position(|place| place.first == extent.end() && fits(place))?;
        Some(Move { segment, to: extent.first })
    });
    sliding.min_by_key(|step| step.to)
}

/// The extents by place, neighbours as one.
fn joined(extents: &[BlockExtent]) -> Vec<BlockExtent> {
    let mut sorted = extents.to_vec();
    sorted.sort_unstable();
    let mut joined: Vec<BlockExtent> = Vec::with_capacity(sorted.len());
    for extent in sorted.into_iter().filter(|extent| extent.blocks > 0) {
        match joined.last_mut() {
            Some(last) if last.end() >= extent.first => {
                last.blocks = extent.end().max(last.end()) - last.first
            }
            _ => joined.push(extent),
        }
    }
    joined
}

/// The blocks before `end` that none of the extents has, by place.
pub fn gaps(extents: &[BlockExtent], end: u32) -> Vec<BlockExtent> {
    let (mut gaps, mut first) = (Vec::new(), 0);
    for extent in joined(extents) {
        let next = extent.first.min(end);
        if first < next {
            gaps.push(BlockExtent { first, blocks: next - first });
        }
        first = first.max(extent.end());
    }
    if first < end {
        gaps.push(BlockExtent { first, blocks: end - first });
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn extents(of: &[(u32, u32)]) -> Vec<BlockExtent> {
        of.iter().map(|&(first, blocks)| BlockExtent { first, blocks }).collect()
    }

    fn moved(segments: &[(u32, u32)], free: &[(u32, u32)], most: u64) -> (Vec<(usize, u32)>, u32) {
        let Compaction { moves, end } = to_front(&extents(segments), &extents(free), most);
        (moves.iter().map(|m| (m.segment, m.to)).collect(), end)
    }

    #[test]
    fn neighbouring_extents_are_one() {
        // The map of a queue: the blocks of the one before it, and the delta's spare pages.
        assert_eq!(moved(&[(60, 44)], &[(39, 21), (2, 37)], 1000), (vec![(0, 2)], 46));
        assert_eq!(moved(&[(60, 44)], &[(2, 37)], 1000), (vec![], 104), "it does not fit");
    }

    #[test]
    fn a_small_segment_makes_room_for_the_last_one() {
        // A map and an addition of another round of a queue.
        let (segments, free) = ([(83, 39), (41, 4), (40, 1)], [(2, 38), (45, 38)]);
        assert_eq!(moved(&segments, &free, 1000), (vec![(2, 2), (1, 3), (0, 7)], 46));
        assert_eq!(moved(&segments, &free, 43), (vec![(2, 2), (1, 3)], 122));
        assert_eq!(
            moved(&[(10, 9), (30, 20)], &[(2, 8), (19, 11)], 1000),
            (vec![], 50),
            "it would overlap itself"
        );
    }

    /// One segment moves twice, as it is the last one again.
    #[test]
    fn the_last_one_moves_into_the_smallest_extent_first() {
        let (segments, free) = ([(10, 5), (40, 3), (50, 4)], [(2, 8), (20, 4), (60, 9)]);
        assert_eq!(moved(&segments, &free, 1000), (vec![(2, 20), (1, 2), (2, 5)], 15));
        assert_eq!(moved(&segments, &free, 6), (vec![(2, 20)], 43), "as much as may be copied");
        assert_eq!(moved(&segments, &free, 3), (vec![], 54));
        assert_eq!(moved(&segments, &[(60, 9)], 1000), (vec![], 54), "none is before it");
        assert_eq!(moved(&[], &free, 1000), (vec![], 0));
    }

    #[test]
    fn a_segment_slides_over_fewer_blocks_than_it_has() {
        let (segments, free) = (extents(&[(10, 9), (30, 20)]), extents(&[(19, 11), (2, 8)]));
        assert_eq!(next_move(&segments, &free, Slides::Disjoint), None);
        assert_eq!(next_move(&segments, &free, Slides::Overlapping), Some(Move { segment: 0, to: 2 }));
    }

    proptest! {
        #[test]
        fn gaps_are_what_no_extent_has(of in vec((0u32..60, 0u32..9), 0..12), end in 0u32..70) {
            let all = extents(&of);
            let gaps = gaps(&all, end);
            let has = |extents: &[BlockExtent], block| extents.iter().any(|e| e.first <= block && block < e.end());
            for block in 0..80 {
                prop_assert_eq!(has(&gaps, block), block < end && !has(&all, block), "block {}", block);
            }
            prop_assert!(gaps.windows(2).all(|pair| pair[0].end() < pair[1].first), "joined, by place");
        }

        #[test]
        fn segments_never_overlap_and_the_end_never_rises(
            of in vec((any::<bool>(), 1u32..20, 0u32..3), 0..14),
            most in 0u64..100,
        ) {
            let (mut segments, mut free, mut block) = (Vec::new(), Vec::new(), 2);
            for (is_segment, blocks, gap) in of {
                let extent = BlockExtent { first: block, blocks };
                (if is_segment { &mut segments } else { &mut free }).push(extent);
                block = extent.end() + gap;
            }
            let before = segments.iter().map(|s| s.end()).max().unwrap_or(0);
            let Compaction { moves, end } = to_front(&segments, &free, most);
            prop_assert!(end <= before);
            prop_assert!(moves.iter().map(|m| u64::from(segments[m.segment].blocks)).sum::<u64>() <= most);
            for Move { segment, to } in moves {
                let place = BlockExtent { first: to, ..segments[segment] };
                prop_assert!(place.end() <= segments[segment].first, "it moves forward, and not onto itself");
                segments[segment] = place;
                let overlaps = |other: &&BlockExtent| other.first < place.end() && place.first < other.end();
                prop_assert_eq!(segments.iter().filter(overlaps).count(), 1);
            }
            prop_assert_eq!(segments.iter().map(|s| s.end()).max().unwrap_or(0), end);
        }
    }
}
