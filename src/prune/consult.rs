//! One index, as one lookup reads it.
//!
//! Opening reads the delta, for all clauses that will be looked up, and then the directory. The segments are read
//! clause by clause. That is the read order of [`crate::pages`], however late a clause is looked up. If maintenance
//! moves data meanwhile, the pages that held it are either unchanged, or they have another owner and the lookup starts
//! over.

use super::{HashedClause, Test, lookup};
use crate::pages::delta;
use crate::pages::directory::{self, Live};
use crate::pages::entry::{Segment, SegmentKind};
use crate::pages::map::Map;
use crate::pages::meta::Meta;
use crate::pages::miss::Fetch;
use crate::pg::{Rel, memory};
use skip_scan::{EntryTests, RangeSet};
use skip_segment::page::PAGE;

/// An index while it is being looked up in.
pub struct Consult<'a> {
    index: Rel<'a>,
    pages_per_range: u32,
    /// Number of ranges of the table.
    count: u64,
    clauses: &'a [HashedClause],
    /// Whether each clause can be looked up in the index.
    is_usable: Vec<bool>,
    /// For each clause the ranges with a matching entry in the delta; None for no ranges.
    in_delta: Vec<Option<RangeSet>>,
    live: Live,
    /// Ranges that have no filter for one of the columns that were looked up.
    unfiltered: RangeSet,
    slices: u64,
}

impl<'a> Consult<'a> {
    /// Opens an index for clauses, over a table of `blocks` blocks.
    ///
    /// # Errors
    /// Damage, or pages recycled meanwhile.
    pub fn start(index: Rel<'a>, meta: &Meta, clauses: &'a [HashedClause], blocks: u32) -> Fetch<Self> {
        let index = meta.bind(index);
        let count = u64::from(meta.ranges_in(blocks));
        let is_usable = |c: &HashedClause| usize::from(c.column) < meta.columns.len() && meta.hashes_match();
        let tests = EntryTests::new(clauses.iter().map(|c| (c.column, c.test.of_entry())));
        // Most tests have no matching entry in the delta: no set is made for those.
        let mut in_delta: Vec<Option<RangeSet>> = clauses.iter().map(|_| None).collect();
        delta::scan(index, meta, |entry| {
            for number in tests.satisfied(entry.column, entry.hash) {
                in_delta[number].get_or_insert_with(|| RangeSet::empty(count)).insert(entry.range.into());
            }
        })?;
        let is_usable = clauses.iter().map(is_usable).collect();
        let live = directory::live(index, meta, |column| clauses.iter().any(|c| c.column == column))?;
        let unfiltered = RangeSet::empty(count);
        let pages_per_range = meta.pages_per_range;
        Ok(Self { index, pages_per_range, count, clauses, is_usable, in_delta, live, unfiltered, slices: 0 })
    }

    /// Heap blocks per range.
    pub fn pages_per_range(&self) -> u32 {
        self.pages_per_range
    }

    /// Number of ranges of the table.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Slices read so far.
    pub fn slices(&self) -> u64 {
        self.slices
    }

    /// Ranges that were found to have no filter for a column that was looked up.
    pub fn unfiltered(&self) -> &RangeSet {
        &self.unfiltered
    }

    /// An upper bound of the work for all clauses, in pages: the pages to read, each counted once for all keys of a
    /// clause, and the bytes of the slices to AND, in pages, because ANDing takes about as long per byte as reading.
    pub fn pages_needed(&self) -> u64 {
        let of = |clause: &HashedClause, segment: &Segment| match (segment.kind, &clause.test) {
            (SegmentKind::Filters(size), Test::Keys(keys)) => {
                let slices = keys.len() as u64 * u64::from(size.num_probes) + 1;
                let bytes = slices * u64::from(segment.width / 8);
                slices.min(segment.blocks.into()) + bytes / PAGE as u64
            }
            (SegmentKind::Filters(_), _) => 2,
            (_, test) => {
                let keys = lookup::keys_of(test).len() as u64;
                let one = Map::of(self.index, segment).map_or(1, |map| map.pages_of_key());
                (keys * one).min(segment.blocks.into())
            }
        };
        let all = || self.live.segments.iter().chain(&self.live.additions);
        let segments = |column| all().filter(move |s| s.column == column);
        self.clauses.iter().flat_map(|c| segments(c.column).map(move |s| of(c, s))).sum()
    }

    /// Takes out of `candidates` the ranges that clause `number` rules out. Segments without candidates are not read.
    ///
    /// # Errors
    /// As [`Consult::start`].
    pub fn narrow(&mut self, number: usize, candidates: &mut RangeSet) -> Fetch<()> {
        memory::check_for_interrupts();
        let clause = &self.clauses[number];
        if clause.test == Test::Keys(Vec::new()) {
            *candidates = RangeSet::empty(candidates.universe()); // nothing equals NULL, summarized or not
            return Ok(());
        }
        if !self.is_usable[number] {
            return Ok(());
        }
        let mut matching = self.in_delta[number].clone().unwrap_or_else(|| RangeSet::empty(self.count));
        let mut covered = 0;
        let unfiltered = &mut self.unfiltered;
        for segment in self.live.segments.iter().filter(|s| s.column == clause.column) {
            matching.insert_span(covered, segment.first_range.into());
            unfiltered.insert_span(covered, segment.first_range.into());
            covered = u64::from(segment.end_range());
            if candidates.any_in(segment.first_range.into(), covered) {
                self.slices +=
                    lookup::matching_ranges(self.index, segment, &clause.test, &mut matching, unfiltered)?;
            }
        }
        for segment in self.live.additions.iter().filter(|s| s.column == clause.column) {
            self.slices +=
                lookup::matching_ranges(self.index, segment, &clause.test, &mut matching, unfiltered)?;
        }
        for stretch in self.live.open.iter().filter(|stretch| stretch.column == clause.column) {
            matching.insert_span(stretch.first_range.into(), stretch.end_range().into());
            unfiltered.insert_span(stretch.first_range.into(), stretch.end_range().into());
        }
        matching.insert_span(covered, self.count);
        self.unfiltered.insert_span(covered, self.count);
        candidates.intersect_with(&matching);
        Ok(())
    }
}
