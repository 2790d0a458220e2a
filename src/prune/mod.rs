//! Clauses become a set of block ranges.
//!
//! Input: what each indexed column must satisfy, as key hashes ([`Clause`]). Output: the ranges that cannot be
//! ruled out ([`RangeSet`]). Used by the bitmap scan, by the planner's estimate and by skip_matching_ranges.
//!
//! A range is ruled out only if a filter for that range was read and said no, and the delta has nothing for it.
//! Read order is correctness: delta, directory, segments (see [`crate::pages`]); within a segment the open slice
//! before all others. The caller took its snapshot before, and asks for the table's size after it.

mod lookup;

use crate::pages::delta;
use crate::pages::directory::{self, Segment};
use crate::pages::meta::Meta;
use crate::pages::segment::{Fetch, Miss};
use crate::pg::{Damage, Rel, error::Read, memory, page::KnownBlocks};
use skip_core::RangeSet;

/// What a column must satisfy.
#[derive(Clone, Debug)]
pub enum Test {
    /// Equal to one of these keys: sorted hashes, each once. Empty: nothing matches.
    Keys(Vec<u64>),
    IsNull,
    IsNotNull,
}

impl Test {
    /// Equal to one of these keys, in any order, repeated or not.
    pub fn keys(mut hashes: Vec<u64>) -> Self {
        hashes.sort_unstable();
        hashes.dedup();
        Test::Keys(hashes)
    }

    fn matches(&self, hash: Option<u64>) -> bool {
        match (self, hash) {
            (Test::Keys(keys), Some(hash)) => keys.binary_search(&hash).is_ok(),
            (Test::IsNull, None) | (Test::IsNotNull, Some(_)) => true,
            _ => false,
        }
    }
}

/// A test of one index column (0-based). Clauses are ANDed.
#[derive(Clone, Debug)]
pub struct Clause {
    pub column: u16,
    pub test: Test,
}

/// A bound on how much a caller is willing to read.
#[derive(Clone, Copy)]
pub struct Budget {
    /// Slice reads allowed; None for no bound.
    pub slices: Option<u64>,
}

/// The answer to a look-up.
pub struct Pruned {
    /// The ranges that may hold matching rows.
    pub ranges: RangeSet,
    /// Heap blocks per range.
    pub pages_per_range: u32,
    /// Slices read.
    pub slices: u64,
}

/// How often a look-up starts over because maintenance recycled pages under it before it gives up and takes
/// every range. Each time means that a merge ended meanwhile.
const MOST_RESTARTS: usize = 20;

/// The ranges of a table of `blocks` blocks that may hold rows satisfying all clauses. None when the budget
/// does not suffice.
///
/// # Errors
/// Damage to the index.
pub fn prune(index: Rel, clauses: &[Clause], blocks: u32, budget: Budget) -> Read<Option<Pruned>> {
    for _ in 0..MOST_RESTARTS {
        memory::check_for_interrupts();
        let meta = Meta::read(index)?;
        match try_prune(meta.bind(index), &meta, clauses, blocks, budget) {
            Ok(pruned) => return Ok(pruned),
            Err(Miss::Damage(damage)) => return Err(damage),
            Err(Miss::Recycled(block)) => {
                let now = Meta::read(index)?;
                let moved =
                    now.generation != meta.generation || now.delta_head_sequence != meta.delta_head_sequence;
                if !moved {
                    return Err(Damage::new(block, "the page belongs to something else than the index says"));
                }
            }
        }
    }
    let meta = Meta::read(index)?;
    let ranges = RangeSet::full(meta.ranges_in(blocks).into());
    Ok(Some(Pruned { ranges, pages_per_range: meta.pages_per_range, slices: 0 }))
}

fn try_prune(
    index: Rel,
    meta: &Meta,
    clauses: &[Clause],
    blocks: u32,
    budget: Budget,
) -> Fetch<Option<Pruned>> {
    let count = u64::from(meta.ranges_in(blocks));
    let mut pruned =
        Pruned { ranges: RangeSet::full(count), pages_per_range: meta.pages_per_range, slices: 0 };
    let usable = |c: &&Clause| usize::from(c.column) < meta.columns.len() && meta.hashes_match();
    let clauses: Vec<&Clause> = clauses.iter().filter(usable).collect();
    let in_delta = delta_matches(index, meta, &clauses, count)?;
    let segments = directory::segments(index, meta, |column| clauses.iter().any(|c| c.column == column))?;
    let mut known = KnownBlocks::new(index);
    for segment in &segments {
        known.check(segment.first_block.saturating_add(segment.blocks))?;
    }
    if budget.slices.is_some_and(|most| slices_needed(&clauses, &segments) > most) {
        return Ok(None);
    }
    for (clause, mut matching) in clauses.into_iter().zip(in_delta) {
        let mut covered = 0;
        for segment in segments.iter().filter(|s| s.column == clause.column) {
            matching.insert_span(covered, segment.first_range.into());
            covered = u64::from(segment.end_range());
            if pruned.ranges.any_in(segment.first_range.into(), covered) {
                pruned.slices += lookup::matching_ranges(index, segment, &clause.test, &mut matching)?;
            }
        }
        matching.insert_span(covered, count);
        pruned.ranges.intersect_with(&matching);
    }
    Ok(Some(pruned))
}

/// For each clause the ranges that the delta has a match in.
fn delta_matches(index: Rel, meta: &Meta, clauses: &[&Clause], count: u64) -> Fetch<Vec<RangeSet>> {
    let mut matches: Vec<RangeSet> = clauses.iter().map(|_| RangeSet::empty(count)).collect();
    delta::scan(index, meta, |entry| {
        for (clause, ranges) in clauses.iter().zip(&mut matches) {
            if clause.column == entry.column
                && clause.test.matches(entry.hash)
                && u64::from(entry.range) < count
            {
                ranges.insert(entry.range.into());
            }
        }
    })?;
    Ok(matches)
}

/// How many slices the clauses will read at most.
pub fn slices_needed(clauses: &[&Clause], segments: &[Segment]) -> u64 {
    let of = |clause: &Clause, segment: &Segment| match &clause.test {
        Test::Keys(keys) => keys.len() as u64 * u64::from(segment.hashes) + 1,
        _ => 2,
    };
    let pairs =
        clauses.iter().flat_map(|c| segments.iter().filter(|s| s.column == c.column).map(move |s| of(c, s)));
    pairs.sum()
}
