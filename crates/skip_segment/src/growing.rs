//! A simulation of a column whose table grows by inserts alone, with the rules of [`crate::growth`].
//!
//! It has no pages and no keys, only sizes, so it reaches sizes that no test and no benchmark can.

use crate::growth::{Link, Rule, Summarized};

/// Merges at once after one batch, as inserts do them.
const MOST_MERGES: usize = 4;

/// A segment.
struct Simulated {
    size: u64,
    /// The merge that it is a part of, if it is merged in steps.
    merge: Option<u32>,
    /// Whether it can be merged with the segment before it.
    joins: bool,
}

/// A column that grows batch by batch.
pub struct GrowthSimulation {
    rule: Rule,
    ranges_of_batch: u32,
    size_of_batch: u64,
    at_once: u64,
    step: u64,
    segments: Vec<Simulated>,
    /// The merges in steps, each with the size that is left to write.
    merges: Vec<(u32, u64)>,
    batches: u32,
    written: u64,
    /// Whether the next segment joins the last one.
    joins: bool,
}

impl GrowthSimulation {
    /// An empty column. Each batch has so many block ranges, and a segment of this size, in any unit. What is at most
    /// `at_once` large is merged at once. After each batch at most `step` is written of what is merged in steps.
    pub fn new(rule: Rule, ranges_of_batch: u32, size_of_batch: u64, at_once: u64, step: u64) -> Self {
        let (segments, merges) = (Vec::new(), Vec::new());
        let (batches, written, joins) = (0, 0, true);
        Self {
            rule,
            ranges_of_batch,
            size_of_batch,
            at_once,
            step,
            segments,
            merges,
            batches,
            written,
            joins,
        }
    }

    /// Adds the next batch, and merges.
    pub fn add_batch(&mut self) {
        self.batches += 1;
        let joins = std::mem::replace(&mut self.joins, true);
        self.segments.push(Simulated { size: self.size_of_batch, merge: None, joins });
        for _ in 0..MOST_MERGES {
            if !self.merge_newest() {
                break;
            }
        }
        self.go_on();
    }

    /// What comes from now on cannot be merged with what is there.
    pub fn begin_chain(&mut self) {
        self.joins = false;
    }

    /// Number of batches so far.
    pub fn batches(&self) -> u32 {
        self.batches
    }

    /// Number of segments now, those that are being merged included.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The sizes of the segments now, the oldest first.
    pub fn sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.segments.iter().map(|segment| segment.size)
    }

    /// How often each batch was written by merges, on average.
    pub fn times_written(&self) -> f64 {
        self.batches_written() / f64::from(self.batches.max(1))
    }

    /// How many batches were written by merges, those that were written again counted anew.
    pub fn batches_written(&self) -> f64 {
        self.written as f64 / self.size_of_batch.max(1) as f64
    }

    /// Merges the newest segments at once, or begins a merge in steps. Returns whether there may be more to merge.
    fn merge_newest(&mut self) -> bool {
        let newer = self.segments.iter().rposition(|s| s.merge.is_some()).map_or(0, |at| at + 1);
        let busy = self.segments.iter().filter(|s| s.merge.is_some()).count();
        let links: Vec<Link> =
            self.segments.iter().skip(newer).map(|s| Link { size: s.size, joins: s.joins }).collect();
        let ranges = self.batches.saturating_mul(self.ranges_of_batch);
        let Some(run) = self.rule.run_to_merge(&links, self.rule.room(ranges, busy), |_| true) else {
            return false;
        };
        let run = newer + run.start..newer + run.end;
        let size = self.segments.iter().take(run.end).skip(run.start).map(|s| s.size).sum();
        let joins = self.segments.get(run.start).is_none_or(|s| s.joins);
        if size <= self.at_once {
            self.segments.splice(run, [Simulated { size, merge: None, joins }]);
            self.written += size;
            return true;
        }
        let merge = self.batches;
        self.segments.iter_mut().take(run.end).skip(run.start).for_each(|s| s.merge = Some(merge));
        self.merges.push((merge, size));
        false
    }

    /// Goes on with the merges in steps, that with the least left to write first.
    fn go_on(&mut self) {
        let end = self.batches.saturating_mul(self.ranges_of_batch);
        let usual =
            Summarized { rule: self.rule, segments: self.segments.len(), end, blocks: 0, table_blocks: 0 };
        let mut left = self.step * u64::from(usual.step_factor());
        while left > 0
            && let Some(at) = (0..self.merges.len()).min_by_key(|&at| self.merges[at].1)
        {
            let (merge, of_merge) = &mut self.merges[at];
            let done = left.min(*of_merge);
            let merge = *merge;
            *of_merge -= done;
            let is_over = *of_merge == 0;
            left -= done;
            self.written += done;
            if is_over {
                self.merges.swap_remove(at);
                self.replace(merge);
            }
        }
    }

    /// The segments of a merge become one.
    fn replace(&mut self, merge: u32) {
        let Some(first) = self.segments.iter().position(|s| s.merge == Some(merge)) else { return };
        let parts = self.segments.iter().filter(|s| s.merge == Some(merge));
        let (count, size) = parts.fold((0, 0), |(count, size), s| (count + 1, size + s.size));
        let joins = self.segments.get(first).is_none_or(|s| s.joins);
        self.segments.splice(first..first + count, [Simulated { size, merge: None, joins }]);
    }
}
