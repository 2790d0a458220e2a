//! Which segments of a growing column are merged, and when: so that few remain, and each is written few times.
//!
//! A column of `r` block ranges keeps at most [`most_segments`]`(r)`, which is log8 of `r`, rounded down. Nothing is
//! merged before there are more. Then the newest ones are gathered: two at least, and further ones as long as the next
//! is less than [`RATIO`] times as large as those gathered. So small segments are merged often and large ones seldom.
//!
//! Why these numbers: [`crate::growing`] simulates them. Batches of 2,400 rows, which are merged in steps as inserts do
//! it, are written 19 times on average until there are 10 million rows, 23 times until there are 100 million, and 33
//! times until 10,000 million. With [`RATIO`] 5 it is 17, 20 and 27 times, and with 3 it is 22, 29 and 40 times, with
//! no fewer segments. What a merge reads is free afterwards: when the largest segment is merged, an eighth of the index
//! at most with [`RATIO`] 8, and a fifth with 5. The rule of a binary counter, which merges whenever the next segment
//! is less than twice as large, leaves twice as many segments.
//!
//! A merge that is too large for one insert is done in steps, while new segments come. They are merged among
//! themselves, and have to do with less room ([`room`]). With steps of 60 times what comes meanwhile, or more while
//! there are many segments ([`Summarized::step_factor`]), the simulation never had more than [`bound`] in all up to
//! 10,000 million rows, and about [`most_segments`] on average.

use std::ops::Range;

/// A segment is gathered if it is less than so many times as large as those that were gathered before it.
pub const RATIO: u64 = 8;
/// The most segments of a column while a statement inserts many rows: a statement of two million rows has 37 batches.
pub const MOST_OF_BULK: usize = 40;
/// Segments that may stand behind those that are being merged.
const LEAST_ROOM: usize = 4;

/// Blocks of a table of single keys that give one page of a segment.
const USUAL_BLOCKS: u64 = 32;

/// A segment, as far as merging is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its size, in any unit.
    pub size: u64,
    /// Whether it can be merged with the segment before it.
    pub joins: bool,
}

/// The number of segments that a column with so many block ranges keeps: log8, rounded down, but two at least.
pub fn most_segments(ranges: u32) -> usize {
    (ranges.max(1).ilog2() as usize / 3).max(2)
}

/// The number of segments that such a column never exceeds, those that are being merged in steps counted one by one.
pub fn bound(ranges: u32) -> usize {
    2 * most_segments(ranges) + 5
}

/// The number of segments that may stand behind those that are being merged in steps, of which there are `busy`.
pub fn room(ranges: u32, busy: usize) -> usize {
    let most = most_segments(ranges);
    if busy == 0 { most } else { most.saturating_sub(busy).max(LEAST_ROOM) }
}

/// As [`room`], while a statement inserts many rows: as much as [`bound`] allows.
pub fn room_during_bulk(ranges: u32, busy: usize) -> usize {
    bound(ranges).saturating_sub(busy + 1).max(LEAST_ROOM)
}

/// As [`room_during_bulk`], for segments that can all be merged at once before the statement's transaction commits.
/// Until then there may be [`MOST_OF_BULK`] segments if that is more than [`bound`]. So merges write each pair of a
/// statement of two million rows once, not three times. Lookups in between read a page or two of each segment, but
/// many more of the ranges that are not summarized yet.
pub fn room_until_commit(ranges: u32, busy: usize) -> usize {
    bound(ranges).max(MOST_OF_BULK).saturating_sub(busy + 1).max(LEAST_ROOM)
}

/// What a column has of the blocks of its table that are summarized.
#[derive(Clone, Copy, Debug)]
pub struct Summarized {
    /// Number of segments that a lookup of one key meets.
    pub segments: usize,
    /// The first range behind all segments.
    pub end: u32,
    /// Number of blocks of the segments.
    pub blocks: u64,
    /// Number of blocks of the table whose keys these segments have.
    pub table_blocks: u64,
}

impl Summarized {
    /// How many times as many pages as usual the blocks of the table give, which is one for [`USUAL_BLOCKS`] of them.
    /// At least 1. A page of each segment does not count: the smallest segments have one.
    pub fn richness(self) -> u32 {
        let usual = (self.table_blocks / USUAL_BLOCKS).max(1);
        let pages = self.blocks.saturating_sub(self.segments as u64);
        u32::try_from(pages.div_ceil(usual)).unwrap_or(u32::MAX).max(1)
    }

    /// By what the usual number of pages of a step of merges is multiplied: steps follow each sixteen new blocks of the
    /// table, so a column with more pages needs larger ones. But it needs them only from the middle between
    /// [`most_segments`], its average number of segments, and [`bound`] on: no insert shall wait longer than it must.
    /// Then steps are also twice as large, so that there are fewer segments again: in the simulation of 10,000 million
    /// rows there were 17 at most, and 20 otherwise, where [`bound`] is 19.
    pub fn step_factor(self) -> u32 {
        let many = (most_segments(self.end) + bound(self.end)) / 2;
        if self.segments < many { 1 } else { self.richness().saturating_mul(2) }
    }
}

/// The segments to merge, two or more neighbours, if there are more than `most`. `is_good` tells of some whether one
/// segment of all of them would be a good one. The newest segment is the last one.
pub fn run_to_merge(
    links: &[Link],
    most: usize,
    is_good: impl Fn(Range<usize>) -> bool,
) -> Option<Range<usize>> {
    let mut end = if links.len() > most { links.len() } else { 0 };
    while end > 1 {
        let run = run_that_ends(&links[..end], &is_good);
        if run.is_some() {
            return run;
        }
        // The last one can be merged with none: those before it may be.
        end -= 1;
    }
    None
}

fn run_that_ends(links: &[Link], is_good: &impl Fn(Range<usize>) -> bool) -> Option<Range<usize>> {
    let end = links.len();
    let (mut start, mut gathered, mut chosen) = (end - 1, links[end - 1].size, None);
    while start > 0 && links[start].joins {
        let next = links[start - 1].size;
        if chosen.is_some() && next >= gathered.saturating_mul(RATIO) {
            break;
        }
        start -= 1;
        gathered = gathered.saturating_add(next);
        if is_good(start..end) {
            chosen = Some(start);
        }
    }
    chosen.map(|start| start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growing::GrowthSimulation;

    fn links(sizes: &[u64]) -> Vec<Link> {
        sizes.iter().map(|&size| Link { size, joins: true }).collect()
    }

    fn run(sizes: &[u64], most: usize) -> Option<Range<usize>> {
        run_to_merge(&links(sizes), most, |_| true)
    }

    #[test]
    fn the_number_of_segments_is_logarithmic() {
        let most = |ranges| most_segments(ranges);
        assert_eq!([0, 1, 8, 511].map(most), [2; 4]);
        assert_eq!(
            [512, 4095, 4096, 32_767, 32_768, 83_333, 1 << 18, u32::MAX].map(most),
            [3, 3, 4, 4, 5, 5, 6, 10]
        );
        assert_eq!([0, 1, 4].map(|busy| room(83_333, busy)), [5, 4, 4]);
    }

    #[test]
    fn steps_are_larger_for_many_segments_of_many_keys() {
        let of = |segments, blocks| Summarized { segments, end: 4096, blocks, table_blocks: 65_536 };
        let factor = |segments, blocks| of(segments, blocks).step_factor();
        // An average of 4, and 13 at most.
        assert_eq!((most_segments(4096), bound(4096)), (4, 13));
        assert_eq!([7, 8, 20].map(|segments| factor(segments, 2048)), [1, 2, 2], "a usual column");
        assert_eq!([7, 8, 20].map(|segments| factor(segments, 40_000)), [1, 40, 40]);
        assert_eq!(factor(20, 100), 2, "few keys");
        let small = Summarized { segments: 20, end: 20, blocks: 21, table_blocks: 40 };
        assert_eq!(small.step_factor(), 2, "a small table");
    }

    #[test]
    fn a_large_statement_stays_within_its_bound() {
        for ranges in [0, 100, 10_000, 1 << 20, u32::MAX] {
            // One more than there is room for, and those that are being merged.
            for busy in 0..=most_segments(ranges) {
                let most = bound(ranges).max(MOST_OF_BULK);
                assert!(room_until_commit(ranges, busy) + 1 + busy <= most, "{ranges}, {busy}");
                assert!(room_until_commit(ranges, busy) >= room(ranges, busy), "{ranges}, {busy}");
            }
        }
    }

    /// What [`room_until_commit`] says of a statement of two million rows into a table of twenty million.
    #[test]
    fn a_large_statement_writes_each_pair_once() {
        let written = |room: fn(u32, usize) -> usize| {
            let (mut sizes, mut done, mut moved) = (vec![16_667u64], 0u32, 0u64);
            let mut merge = |sizes: &mut Vec<u64>, most| {
                while let Some(run) = run(&sizes[1..], most) {
                    let all = sizes[1..][run.clone()].iter().sum();
                    moved += all;
                    sizes.splice(run.start + 1..run.end + 1, [all]);
                }
            };
            while done < 1_667 {
                let batch = (done / 2).clamp(1, 64);
                done += batch;
                sizes.push(batch.into());
                merge(&mut sizes, room(16_667 + done, 0) - 1);
            }
            merge(&mut sizes, super::room(16_667 + done, 0) - 1);
            moved as f64 / f64::from(done)
        };
        let (bulk, usual) = (written(room_until_commit), written(room));
        println!("{bulk:.2} and {usual:.2} times");
        assert!(bulk < 1.01 && usual > 3.0, "{bulk} and {usual} times");
    }

    #[test]
    fn nothing_is_merged_while_there_are_few() {
        assert_eq!(run(&[], 2), None);
        assert_eq!(run(&[1, 1], 2), None);
        assert_eq!(run(&[1, 1, 1], 2), Some(0..3));
        assert_eq!(run(&[1], 0), None);
    }

    #[test]
    fn the_newest_are_gathered_up_to_one_that_is_much_larger() {
        assert_eq!(run(&[200, 15, 1, 1], 3), Some(1..4));
        assert_eq!(run(&[200, 16, 1, 1], 3), Some(2..4));
        assert_eq!(run(&[900, 200, 20, 2], 3), Some(2..4), "two at least");
        assert_eq!(run(&[900, 200, 20, 2], 4), None);
    }

    #[test]
    fn what_cannot_be_merged_is_passed_over() {
        let mut parts = links(&[3, 2, 1, 1]);
        parts[3].joins = false;
        assert_eq!(run_to_merge(&parts, 2, |_| true), Some(0..3));
        parts[2].joins = false;
        assert_eq!(run_to_merge(&parts, 2, |_| true), Some(0..2));
        parts[1].joins = false;
        assert_eq!(run_to_merge(&parts, 2, |_| true), None);
    }

    #[test]
    fn a_run_that_would_not_be_good_is_longer_or_shorter() {
        let parts = links(&[50, 3, 1, 1]);
        assert_eq!(run_to_merge(&parts, 2, |run| run.len() != 3), Some(2..4));
        assert_eq!(run_to_merge(&parts, 2, |run| run.len() == 4), Some(0..4));
        assert_eq!(run_to_merge(&parts, 2, |run| run.end == 3), Some(1..3));
        assert_eq!(run_to_merge(&parts, 2, |_| false), None);
    }

    #[test]
    fn few_segments_remain_and_each_batch_is_written_few_times() {
        let mut growing = GrowthSimulation::new(2, 5, 200, 600);
        let mut most = 0;
        for (batches, times, segments) in [(4_000, 18.5, 9), (40_000, 23.5, 12), (200_000, 27.0, 16)] {
            while growing.batches() < batches {
                growing.add_batch();
                most = most.max(growing.segments());
                let bound = bound(growing.batches() * 2);
                assert!(growing.segments() <= bound, "{most} segments after {} batches", growing.batches());
            }
            let written = growing.times_written();
            assert!(written < times && most <= segments, "written {written} times, {most} segments");
        }
    }
}
