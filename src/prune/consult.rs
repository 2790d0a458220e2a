//! One index, as one lookup reads it.
//!
//! Opening reads the delta, for all clauses that will be looked up, and then the directory. The segments are read
//! clause by clause. That is the read order of [`crate::pages`], however late a clause is looked up. If maintenance
//! moves data meanwhile, the pages that held it are either unchanged, or they have another owner and the lookup starts
//! over.

use super::bounds::{self, BoundsDetail};
use super::facts::Facts;
use super::{HashedClause, IndexClauses, Test, lookup};
use crate::pages::delta;
use crate::pages::directory::{self, Live, LiveSegment};
use crate::pages::entry::{Segment, SegmentKind};
use crate::pages::map::Map;
use crate::pages::meta::Meta;
use crate::pages::miss::Fetch;
use crate::pg::page::KnownBlocks;
use crate::pg::{Rel, memory};
use skip_map::key_part::{GroupedKeys, KeySet, KeySpan, uncovered};
use skip_scan::{EntryTests, RangeSet};
use skip_segment::page::PAGE;
use std::rc::Rc;

/// An index while it is being looked up in.
pub struct Consult<'a> {
    index: Rel<'a>,
    meta: &'a Meta,
    /// Blocks of the table.
    blocks: u32,
    clauses: &'a [HashedClause],
    /// Whether each clause can be looked up in the index.
    is_usable: Vec<bool>,
    /// For each clause the finest key parts that have its keys.
    keys: Vec<KeySet>,
    /// For each clause the parts with a matching entry in the delta; None for no parts.
    in_delta: Vec<Option<RangeSet>>,
    live: Rc<Live>,
    known: KnownBlocks<'a>,
    index_reads: u64,
    /// How exactly bounds are read.
    detail: BoundsDetail,
}

impl<'a> Consult<'a> {
    /// Opens an index for its clauses, over a table of `blocks` blocks.
    ///
    /// # Errors
    /// Damage, or pages recycled meanwhile.
    pub fn start(lookup: &'a IndexClauses<'a>, blocks: u32) -> Fetch<Self> {
        let IndexClauses { index, meta, clauses, remembered, is_for_costs } = lookup;
        let index = meta.bind(*index);
        let is_usable = |c: &HashedClause| usize::from(c.column) < meta.columns.len() && meta.hashes_match();
        // Most tests have no matching entry in the delta: no set is made for those.
        let mut in_delta: Vec<Option<RangeSet>> = clauses.iter().map(|_| None).collect();
        if meta.has_delta() {
            let tests = EntryTests::new(clauses.iter().map(|c| (c.column, c.test.of_entry())));
            delta::scan(index, meta, |entry| {
                for number in tests.satisfied(entry.column, entry.hash) {
                    let count = u64::from(meta.parts_in(entry.column, blocks));
                    in_delta[number].get_or_insert_with(|| RangeSet::empty(count)).insert(entry.part.into());
                }
            })?;
        }
        let is_usable = clauses.iter().map(is_usable).collect();
        let keys: Vec<KeySet> = clauses.iter().map(|c| KeySet::of_keys(lookup::keys_of(&c.test))).collect();
        let live = match remembered {
            Some(live) if *is_for_costs || directory::is_unchanged(index, live)? => live.clone(),
            _ => {
                if remembered.is_some() {
                    Facts::forget(index.oid());
                }
                let of_column = |column| {
                    let its = clauses.iter().zip(&keys).filter(|(clause, _)| clause.column == column);
                    its.fold(KeySet::NONE, |all, (_, keys)| all.union(*keys))
                };
                Rc::new(directory::live(index, meta, of_column)?)
            }
        };
        Ok(Self {
            index,
            meta,
            blocks,
            clauses,
            is_usable,
            keys,
            in_delta,
            live,
            known: KnownBlocks::new(index),
            index_reads: 0,
            detail: BoundsDetail::Ranges,
        })
    }

    /// From now on only the summaries of bounds are read.
    pub fn read_summaries_only(&mut self) {
        self.detail = BoundsDetail::Summaries;
    }

    /// Heap blocks per part of a range of the column of clause `number`.
    fn pages_per_part(&self, number: usize) -> u32 {
        self.meta.pages_per_part(self.clauses[number].column)
    }

    /// Slices read so far.
    pub fn index_reads(&self) -> u64 {
        self.index_reads
    }

    /// An estimate of the work for all clauses, in pages: the pages to read at most, but for wrong guesses and keys on
    /// several pages of a map, each counted once for all keys of a clause; and the bytes of the slices to AND, in
    /// pages, because ANDing takes about as long per byte as reading.
    pub fn pages_needed(&self) -> u64 {
        let of = |clause: &HashedClause, segment: &Segment, share: f64| match (segment.kind, &clause.test) {
            (SegmentKind::Filters(size), Test::Keys(keys)) => {
                let slices = keys.len() as u64 * u64::from(size.num_probes) + 1;
                let bytes = slices * u64::from(segment.width / 8);
                slices.min(segment.blocks.into()) + bytes / PAGE as u64
            }
            (SegmentKind::Filters(_), _) => 2,
            (SegmentKind::Bounds, _) if self.detail == BoundsDetail::Summaries => 1,
            (SegmentKind::Bounds, _) => segment.blocks.into(),
            (_, test) => {
                let keys = (lookup::keys_of(test).len() as f64 * share).ceil() as u64;
                let one = Map::of(self.index, segment).map_or(1, |map| map.pages_of_key());
                (keys * one).min(segment.blocks.into())
            }
        };
        let mut pages = 0;
        for (clause, wanted) in self.clauses.iter().zip(&self.keys) {
            for live in self.live.of_column(clause.column) {
                let its = live.keys.intersection(*wanted);
                if !its.is_empty() {
                    pages += of(clause, live, its.share() / wanted.share());
                }
            }
            let additions = self.live.additions.iter().filter(|s| s.column == clause.column);
            pages += additions.map(|segment| of(clause, segment, 1.0)).sum::<u64>();
        }
        pages
    }

    /// Takes out of `candidates` what clause `number` rules out, and adds to `unfiltered` what was found to have no
    /// filter for its column. Both count in units of `unit` blocks. Segments without candidates are not read.
    ///
    /// # Errors
    /// As [`Consult::start`].
    pub fn narrow(
        &mut self,
        number: usize,
        unit: u32,
        candidates: &mut RangeSet,
        unfiltered: &mut RangeSet,
    ) -> Fetch<()> {
        memory::check_for_interrupts();
        if self.clauses[number].test.is_never() {
            *candidates = RangeSet::empty(candidates.universe()); // nothing equals NULL, summarized or not
            return Ok(());
        }
        if !self.is_usable[number] {
            return Ok(());
        }
        let pages = self.pages_per_part(number);
        if pages == unit {
            let matching = self.matching(number, candidates, unfiltered)?;
            candidates.intersect_with(&matching);
            return Ok(());
        }
        let factor = u64::from(pages / unit);
        let count = self.meta.parts_in(self.clauses[number].column, self.blocks).into();
        let mut parts_unfiltered = RangeSet::empty(count);
        let matching = self.matching(number, &candidates.coarsened(factor, count), &mut parts_unfiltered)?;
        candidates.intersect_with(&matching.refined(factor, candidates.universe()));
        unfiltered.union_with(&parts_unfiltered.refined(factor, unfiltered.universe()));
        Ok(())
    }

    /// The parts that clause `number` does not rule out. Segments without `candidates` are not read. Parts that have no
    /// filter are added to `unfiltered`.
    fn matching(
        &mut self,
        number: usize,
        candidates: &RangeSet,
        unfiltered: &mut RangeSet,
    ) -> Fetch<RangeSet> {
        let clause = &self.clauses[number];
        let column = clause.column;
        let parts = u64::from(self.meta.parts(column));
        let count = self.meta.parts_in(column, self.blocks).into();
        let mut matching = self.in_delta[number].clone().unwrap_or_else(|| RangeSet::empty(count));
        let test = &clause.test;
        let wanted = self.keys[number];
        // A large map is divided by key into up to 64 maps: of those, one key needs one.
        let its_keys = |s: &&LiveSegment| s.keys.intersects(wanted);
        let segments: Vec<&LiveSegment> = self.live.of_column(column).iter().filter(its_keys).collect();
        // What planning remembers may name blocks that the index does not have any more.
        let additions = self.live.additions.iter().filter(|s| s.column == column);
        directory::check_extents(&mut self.known, segments.iter().map(|s| &s.segment).chain(additions))?;
        self.prefetch_maps(number, &segments, candidates);
        // Keys are grouped by their key parts only if some segment has some of them, but not all.
        let is_divided = segments.iter().any(|s| !s.keys.contains(wanted));
        let grouped = is_divided.then(|| GroupedKeys::new(lookup::keys_of(test)));
        for segment in &segments {
            let span = segment.part_span();
            if !candidates.any_in(span.start, span.end) {
                continue;
            }
            let of_segment = grouped.as_ref().map(|grouped| grouped.of(segment.keys));
            if segment.is_of_bounds() {
                let (detail, found) = (self.detail, &mut matching);
                self.index_reads += bounds::matching_ranges(
                    self.index, segment, test, detail, candidates, found, unfiltered,
                )?;
                continue;
            }
            self.index_reads += match of_segment {
                Some(keys) => lookup::matching_parts(self.index, segment, &keys, &mut matching)?,
                None => lookup::matching_ranges(self.index, segment, test, &mut matching, unfiltered)?,
            };
        }
        for segment in self.live.additions.iter().filter(|s| s.column == column) {
            self.index_reads +=
                lookup::matching_ranges(self.index, segment, test, &mut matching, unfiltered)?;
        }
        for stretch in self.live.open.iter().filter(|stretch| stretch.column == column) {
            let (from, to) = (u64::from(stretch.first_range) * parts, u64::from(stretch.end_range()) * parts);
            matching.insert_span(from, to);
            unfiltered.insert_span(from, to);
        }
        let spans: Vec<KeySpan> = segments.iter().map(|live| live.used_span()).collect();
        uncovered(&spans, wanted, (0, u32::MAX), |first, end| {
            let (from, to) = (u64::from(first) * parts, (u64::from(end) * parts).min(count));
            matching.insert_span(from, to);
            unfiltered.insert_span(from, to);
        });
        Ok(matching)
    }

    /// Prefetches the likely page of each map that the lookup of a single key reads, of these segments and the
    /// additions, so that the disk reads all of them at once. If one page is cached, the others are likely to be cached
    /// too; a prefetch then costs as much as a read.
    fn prefetch_maps(&self, number: usize, segments: &[&LiveSegment], candidates: &RangeSet) {
        let clause = &self.clauses[number];
        let [key] = lookup::keys_of(&clause.test) else { return };
        let is_read = |live: &&&LiveSegment| {
            let span = live.part_span();
            candidates.any_in(span.start, span.end)
        };
        let maps = segments.iter().filter(is_read).map(|live| &live.segment);
        let additions = self.live.additions.iter().filter(|s| s.column == clause.column);
        let maps = maps.chain(additions).filter(|segment| segment.map().is_some() && segment.blocks > 0);
        if maps.clone().nth(1).is_none() {
            return;
        }
        for segment in maps {
            // A lookup reports a damaged entry of the directory.
            let is_cached = Map::of(self.index, segment).ok().and_then(|map| map.prefetch(*key));
            if is_cached == Some(true) {
                break;
            }
        }
    }
}
