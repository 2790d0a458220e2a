//! Which segments of a growing column are merged, and when: so that few remain, and each is written few times.
//!
//! A column of `r` block ranges keeps at most [`Rule::most_segments`]: log8 of `r`, rounded down, but two at least; and
//! one more of maps. Nothing is merged before there are more. Then the newest ones are gathered: two at least, and
//! further ones as long as the next is less than a *ratio* times as large as those gathered. So small segments are
//! merged often and large ones seldom. Segments that cannot be merged with each other form chains: each older one
//! becomes one segment, and the numbers here hold for the newest one.
//!
//! Why these numbers: [`crate::growing`] simulates them. Batches of 2,400 rows, of 3.1 bytes each, are merged in steps
//! as inserts do it. For each number of rows the table has two figures: how often a row is written on average until
//! then, and the average number of segments while the last nine tenths of the rows came (all of them for 10^6):
//!
//! | segments kept, ratio | 10^6 rows | 10^7 | 10^8 | 10^10 |
//! |---|---|---|---|---|
//! | log8, 8: filters | 15 times, 2.2 | 19 times, 3.3 | 23 times, 4.2 | 33 times, 6.2 |
//! | log8, 4 | 15 times, 2.3 | 18 times, 3.4 | 21 times, 4.5 | 28 times, 6.6 |
//! | log8 and one, 8 | 12 times, 2.7 | 16 times, 3.7 | 22 times, 4.7 | 32 times, 6.7 |
//! | log8 and one, 4: maps | 8 times, 2.9 | 11 times, 4.0 | 14 times, 5.1 | 22 times, 7.2 |
//! | log8 and two, 4 | 7 times, 3.3 | 10 times, 4.5 | 14 times, 5.6 | 20 times, 7.7 |
//!
//! A lookup reads a page or two of each segment of maps, but some thirteen of each segment of filters, so filters are
//! kept in fewer. The largest segment is merged once the others are an eighth of it (ratio 8) or a quarter (ratio 4).
//! What they take is free when the merge ends. An index of maps that grew to 10 million rows by 100,000 at a time took
//! 1.26 times the blocks of its segments on average, and 1.25 times with ratio 8 (from 3 million rows on, 1.17 and
//! 1.15); that was measured before [`Summarized::step_factor`] grew with each segment. The rule of a binary counter,
//! which merges whenever the next segment is less than twice as large, leaves twice as many segments.
//!
//! A merge that is too large for one insert is done in steps, while new segments come. They are merged among
//! themselves, and have to do with less room ([`Rule::room`]). With steps of 60 times what comes meanwhile, and more
//! while there are more segments than are kept ([`Summarized::step_factor`]), the simulation never had more than
//! [`Rule::bound`] in all up to 10,000 million rows.

use std::ops::Range;

/// The most segments of a column while a statement inserts many rows: a statement of two million rows has 37 batches.
pub const MOST_OF_BULK: usize = 40;
/// Segments that may stand behind those that are being merged.
const LEAST_ROOM: usize = 4;

/// Blocks of a table of single keys that give one page of a segment.
const USUAL_BLOCKS: u64 = 32;

/// How the segments of a kind are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Segments that a column keeps besides log8 of its ranges.
    more: usize,
    /// A segment is gathered if it is less than this number of times as large as those that were gathered before it.
    ratio: u64,
}

/// A segment, as far as merging is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its size, in any unit.
    pub size: u64,
    /// Whether it can be merged with the segment before it.
    pub joins: bool,
}

impl Rule {
    /// Of filters.
    pub const FILTERS: Self = Self { more: 0, ratio: 8 };
    /// Of maps.
    pub const MAPS: Self = Self { more: 1, ratio: 4 };

    /// The number of segments that a column with so many block ranges keeps: log8, rounded down, but two at least; and
    /// one more of maps.
    pub fn most_segments(self, ranges: u32) -> usize {
        (ranges.max(1).ilog2() as usize / 3).max(2) + self.more
    }

    /// The number of segments that such a column never exceeds, those that are being merged in steps counted one by
    /// one.
    pub fn bound(self, ranges: u32) -> usize {
        2 * self.most_segments(ranges) + 5
    }

    /// The number of segments that may stand behind those that are being merged in steps, of which there are `busy`.
    pub fn room(self, ranges: u32, busy: usize) -> usize {
        let most = self.most_segments(ranges);
        if busy == 0 { most } else { most.saturating_sub(busy).max(LEAST_ROOM) }
    }

    /// As [`Rule::room`], while a statement inserts many rows: as much as [`Rule::bound`] allows.
    pub fn room_during_bulk(self, ranges: u32, busy: usize) -> usize {
        self.bound(ranges).saturating_sub(busy + 1).max(LEAST_ROOM)
    }

    /// As [`Rule::room_during_bulk`], for segments that can all be merged at once before the statement's transaction
    /// commits. Until then there may be [`MOST_OF_BULK`] segments if that is more than [`Rule::bound`]. So merges write
    /// each pair of a statement of two million rows once, not three times. Lookups in between read a page or two of
    /// each segment, but many more of the ranges that are not summarized yet.
    pub fn room_until_commit(self, ranges: u32, busy: usize) -> usize {
        self.bound(ranges).max(MOST_OF_BULK).saturating_sub(busy + 1).max(LEAST_ROOM)
    }

    /// The segments to merge, two or more neighbours, if there are more than `most`. `is_good` tells of some whether
    /// one segment of all of them would be a good one. The newest segment is the last one.
    ///
    /// Segments that can be merged, if not all at once, form a chain. An older chain gets no more segments, so it
    /// becomes one segment, each time that there are too many. Then those of the newest chain are counted alone: if
    /// the older ones took their room, each new segment would be merged at once, with all of the chain.
    pub fn run_to_merge(
        self,
        links: &[Link],
        most: usize,
        is_good: impl Fn(Range<usize>) -> bool,
    ) -> Option<Range<usize>> {
        if links.len() <= most {
            return None;
        }
        let first_of_chain = |end: usize| links[..end].iter().rposition(|link| !link.joins).unwrap_or(0);
        let newest = first_of_chain(links.len());
        let mut end = newest;
        while end > 0 {
            let first = first_of_chain(end);
            let run = self.run_in_chain(links, first..end, &is_good);
            if run.is_some() {
                return run;
            }
            end = first;
        }
        let chain = newest..links.len();
        if chain.len() > most { self.run_in_chain(links, chain, &is_good) } else { None }
    }

    /// The run of the newest segments of a chain that would be a good one.
    fn run_in_chain(
        self,
        links: &[Link],
        chain: Range<usize>,
        is_good: &impl Fn(Range<usize>) -> bool,
    ) -> Option<Range<usize>> {
        // The last one may be merged with none; those before it may be.
        let ends = (chain.start + 2..=chain.end).rev();
        ends.into_iter().find_map(|end| self.run_that_ends(links, chain.start..end, is_good))
    }

    fn run_that_ends(
        self,
        links: &[Link],
        within: Range<usize>,
        is_good: &impl Fn(Range<usize>) -> bool,
    ) -> Option<Range<usize>> {
        let end = within.end;
        let (mut start, mut gathered, mut chosen) = (end - 1, links[end - 1].size, None);
        while start > within.start {
            let next = links[start - 1].size;
            if chosen.is_some() && next >= gathered.saturating_mul(self.ratio) {
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
}

/// What a column has of the blocks of its table that are summarized.
#[derive(Clone, Copy, Debug)]
pub struct Summarized {
    /// How its segments are merged.
    pub rule: Rule,
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
    /// The pages of the segments divided by the usual number, one page for [`USUAL_BLOCKS`] blocks of the table;
    /// rounded up, at least 1. One page of each segment is not counted: the smallest segments have one.
    pub fn richness(self) -> u32 {
        let usual = (self.table_blocks / USUAL_BLOCKS).max(1);
        let pages = self.blocks.saturating_sub(self.segments as u64);
        u32::try_from(pages.div_ceil(usual)).unwrap_or(u32::MAX).max(1)
    }

    /// By what the usual number of pages of a step of merges is multiplied: by one more for each segment above
    /// [`Rule::most_segments`]. So the more segments a lookup meets, the sooner they are merged. The simulation of
    /// 1,000 million rows has 12 maps at most. It had 17 when the factor was 1 up to the middle between
    /// [`Rule::most_segments`] and [`Rule::bound`], and 2 from there on.
    ///
    /// Steps follow each sixteen new blocks of the table, so a column with more pages needs larger ones. But it needs
    /// them only from that middle on: no insert shall wait longer than it must.
    pub fn step_factor(self) -> u32 {
        let most = self.rule.most_segments(self.end);
        let middle = (most + self.rule.bound(self.end)) / 2;
        let factor = u32::try_from(self.segments.saturating_sub(most)).unwrap_or(u32::MAX).saturating_add(1);
        if self.segments < middle { factor } else { factor.max(self.richness().saturating_mul(2)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growing::GrowthSimulation;

    fn links(sizes: &[u64]) -> Vec<Link> {
        sizes.iter().map(|&size| Link { size, joins: true }).collect()
    }

    fn run(sizes: &[u64], most: usize) -> Option<Range<usize>> {
        Rule::FILTERS.run_to_merge(&links(sizes), most, |_| true)
    }

    #[test]
    fn the_number_of_segments_is_logarithmic() {
        let most = |ranges| Rule::FILTERS.most_segments(ranges);
        assert_eq!([0, 1, 8, 511].map(most), [2; 4]);
        assert_eq!(
            [512, 4095, 4096, 32_767, 32_768, 83_333, 1 << 18, u32::MAX].map(most),
            [3, 3, 4, 4, 5, 5, 6, 10]
        );
        assert_eq!([0, 1, 4].map(|busy| Rule::FILTERS.room(83_333, busy)), [5, 4, 4]);
        assert_eq!([0, 83_333].map(|ranges| Rule::MAPS.most_segments(ranges)), [3, 6]);
    }

    #[test]
    fn steps_are_larger_for_many_segments_of_many_keys() {
        let rule = Rule::FILTERS;
        let of = |segments, blocks| Summarized { rule, segments, end: 4096, blocks, table_blocks: 65_536 };
        let factor = |segments, blocks| of(segments, blocks).step_factor();
        // An average of 4, and 13 at most.
        assert_eq!((rule.most_segments(4096), rule.bound(4096)), (4, 13));
        assert_eq!([0, 4, 5, 7, 8, 20].map(|segments| factor(segments, 2048)), [1, 1, 2, 4, 5, 17]);
        assert_eq!([4, 7, 8, 20].map(|segments| factor(segments, 40_000)), [1, 4, 40, 40], "many keys");
        assert_eq!(factor(20, 100), 17, "few keys");
    }

    #[test]
    fn a_large_statement_stays_within_its_bound() {
        for (rule, ranges) in [Rule::FILTERS, Rule::MAPS]
            .iter()
            .flat_map(|&r| [0, 100, 10_000, 1 << 20, u32::MAX].map(|n| (r, n)))
        {
            // One more than there is room for, and those that are being merged.
            for busy in 0..=rule.most_segments(ranges) {
                let most = rule.bound(ranges).max(MOST_OF_BULK);
                assert!(
                    rule.room_until_commit(ranges, busy) + 1 + busy <= most,
                    "{rule:?}, {ranges}, {busy}"
                );
                assert!(
                    rule.room_until_commit(ranges, busy) >= rule.room(ranges, busy),
                    "{rule:?}, {ranges}, {busy}"
                );
            }
        }
    }

    /// What [`Rule::room_until_commit`] says of a statement of two million rows into a table of twenty million.
    #[test]
    fn a_large_statement_writes_each_pair_once() {
        let written = |room: fn(Rule, u32, usize) -> usize| {
            let (mut sizes, mut done, mut moved) = (vec![16_667u64], 0u32, 0u64);
            let mut merge = |sizes: &mut Vec<u64>, most| {
                while let Some(run) = Rule::MAPS.run_to_merge(&links(&sizes[1..]), most, |_| true) {
                    let all = sizes[1..][run.clone()].iter().sum();
                    moved += all;
                    sizes.splice(run.start + 1..run.end + 1, [all]);
                }
            };
            while done < 1_667 {
                let batch = (done / 2).clamp(1, 64);
                done += batch;
                sizes.push(batch.into());
                merge(&mut sizes, room(Rule::MAPS, 16_667 + done, 0) - 1);
            }
            merge(&mut sizes, Rule::MAPS.room(16_667 + done, 0) - 1);
            moved as f64 / f64::from(done)
        };
        let (bulk, usual) = (written(Rule::room_until_commit), written(Rule::room));
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
        let of_maps = |sizes: &[u64]| Rule::MAPS.run_to_merge(&links(sizes), 3, |_| true);
        assert_eq!([of_maps(&[200, 7, 1, 1]), of_maps(&[200, 8, 1, 1])], [Some(1..4), Some(2..4)]);
    }

    #[test]
    fn what_cannot_be_merged_is_passed_over() {
        let mut parts = links(&[3, 2, 1, 1]);
        parts[3].joins = false;
        assert_eq!(Rule::FILTERS.run_to_merge(&parts, 2, |_| true), Some(0..3));
        parts[2].joins = false;
        assert_eq!(Rule::FILTERS.run_to_merge(&parts, 2, |_| true), Some(0..2));
        parts[1].joins = false;
        assert_eq!(Rule::FILTERS.run_to_merge(&parts, 2, |_| true), None);
        let mut parts = links(&[500, 40, 3, 2, 1, 1]);
        parts[3].joins = false;
        assert_eq!(Rule::MAPS.run_to_merge(&parts, 4, |_| true), Some(1..3), "the older chain first");
        parts.splice(1..3, links(&[43]));
        assert_eq!(Rule::MAPS.run_to_merge(&parts, 4, |_| true), Some(0..2), "until it is one");
        parts.splice(0..2, links(&[543]));
        assert_eq!(Rule::MAPS.run_to_merge(&parts, 3, |_| true), None, "and does not count then");
        assert_eq!(Rule::MAPS.run_to_merge(&parts, 2, |_| true), Some(1..4));
    }

    /// Maps of a table that has grown get longer fingerprints, and are not merged with the older ones.
    #[test]
    fn a_chain_that_begins_does_not_make_merges_frequent() {
        for rule in [Rule::FILTERS, Rule::MAPS] {
            let mut growing = GrowthSimulation::new(rule, 2, 5, 200, 600);
            for (chains, batches) in (1..).zip([1_000, 10_000, 100_000]) {
                let (before, written) = (growing.batches(), growing.batches_written());
                let mut most = 0;
                while growing.batches() < batches {
                    growing.add_batch();
                    most = most.max(growing.segments());
                    let bound = rule.bound(growing.batches() * 2) + chains - 1;
                    assert!(
                        growing.segments() <= bound,
                        "{} segments of {chains} chains",
                        growing.segments()
                    );
                }
                let times = (growing.batches_written() - written) / f64::from(batches - before);
                println!("{rule:?}: written {times:.1} times up to {batches} batches, {most} segments");
                assert!(times < 28.0, "{rule:?}: {times}");
                growing.begin_chain();
            }
        }
    }

    #[test]
    fn a_run_that_would_not_be_good_is_longer_or_shorter() {
        let parts = links(&[50, 3, 1, 1]);
        assert_eq!(Rule::FILTERS.run_to_merge(&parts, 2, |run| run.len() != 3), Some(2..4));
        assert_eq!(Rule::FILTERS.run_to_merge(&parts, 2, |run| run.len() == 4), Some(0..4));
        assert_eq!(Rule::FILTERS.run_to_merge(&parts, 2, |run| run.end == 3), Some(1..3));
        assert_eq!(Rule::FILTERS.run_to_merge(&parts, 2, |_| false), None);
    }

    #[test]
    fn few_segments_remain_and_each_batch_is_written_few_times() {
        let of_filters = [(4_000, 18.5, 9), (40_000, 23.5, 10), (200_000, 27.0, 11)];
        let of_maps = [(4_000, 12.0, 10), (40_000, 15.0, 11), (200_000, 17.0, 12)];
        for (rule, limits) in [(Rule::FILTERS, of_filters), (Rule::MAPS, of_maps)] {
            let (mut growing, mut most) = (GrowthSimulation::new(rule, 2, 5, 200, 600), 0);
            for (batches, written, segments) in limits {
                while growing.batches() < batches {
                    growing.add_batch();
                    let bound = rule.bound(growing.batches() * 2);
                    most = most.max(growing.segments());
                    assert!(most <= bound, "{most} segments after {} batches", growing.batches());
                }
                let times = growing.times_written();
                println!("{rule:?}: written {times:.1} times in {batches} batches, {most} segments");
                assert!(times < written && most <= segments, "{rule:?}: {times} times, {most} segments");
            }
        }
    }
}
