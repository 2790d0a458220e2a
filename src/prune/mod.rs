//! Clauses become a set of block ranges.
//!
//! Input: what each indexed column must satisfy, as key hashes ([`HashedClause`]), for one index ([`prune`]) or for
//! several, combined by AND and OR ([`prune_all`]). Output: the ranges that cannot be ruled out ([`Pruned`]). Used by
//! the bitmap scan, by the Skip Index Scan, by the planner's estimates ([`planner_lookup`], [`facts`]) and by
//! skip_matching_ranges.
//!
//! A range is ruled out only if a filter for that range was read and ruled it out, and the delta has no matching entry
//! for it. Correctness depends on the order of reads: delta, directory, segments (see [`crate::pages`]); within a
//! segment the open slice before all others. The caller takes its snapshot before the lookup, and reads the table's
//! size after the snapshot.
//!
//! Indexes of one table, and columns of one index, may divide the table into ranges of different sizes, or into parts
//! of ranges. A lookup in several columns counts in *units*: the greatest common divisor of these sizes.

pub mod bounds;
mod consult;
pub mod facts;
pub mod hashed;
pub mod key_counts;
mod lookup;
pub mod planned;
pub mod planner_lookup;

use crate::pages::directory::Live;
use crate::pages::meta::Meta;
use crate::pages::miss::Miss;
use crate::pg::{Damage, Rel, error::IndexResult, memory};
use consult::Consult;
use skip_bounds::{BoundsTest, OrderKeyIntervals};
use skip_scan::{Condition, EntryTest, Grouped, RangeSet};
use std::rc::Rc;

/// What a column must satisfy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Equal to one of these keys: sorted hashes, each once. Empty: nothing matches.
    Keys(Vec<u64>),
    /// An order key in one of these intervals. Without intervals, nothing matches.
    Within(OrderKeyIntervals),
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

    /// Whether no value satisfies it, and no NULL: nothing is less, equal or greater than NULL.
    fn is_never(&self) -> bool {
        match self {
            Test::Keys(keys) => keys.is_empty(),
            Test::Within(spans) => spans.as_slice().is_empty(),
            Test::IsNull | Test::IsNotNull => false,
        }
    }

    /// The test in the form that is applied to bounds; None for hashes, which bounds know nothing of.
    fn of_bounds(&self) -> Option<BoundsTest<'_>> {
        match self {
            Test::Keys(_) => None,
            Test::Within(spans) => Some(BoundsTest::Within(spans.as_slice())),
            Test::IsNull => Some(BoundsTest::IsNull),
            Test::IsNotNull => Some(BoundsTest::IsNotNull),
        }
    }

    /// The test in the form that is applied to entries of the delta.
    fn of_entry(&self) -> EntryTest<'_> {
        match self {
            Test::Keys(keys) => EntryTest::Keys(keys),
            Test::Within(spans) => EntryTest::Within(spans.as_slice()),
            Test::IsNull => EntryTest::IsNull,
            Test::IsNotNull => EntryTest::IsNotNull,
        }
    }
}

/// A clause with a hashed key, as it is looked up in the index's pages: a test of one index column (0-based).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashedClause {
    pub column: u16,
    pub test: Test,
}

/// A clause of one of several indexes: the numbers of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClauseRef {
    /// The number of the index.
    pub index: usize,
    /// The number of the clause among those of the index.
    pub clause: usize,
}

impl Grouped for ClauseRef {
    fn group(&self) -> usize {
        self.index
    }
}

/// A bound on the work of a lookup.
#[derive(Clone, Copy)]
pub struct Budget {
    /// The most pages to read, or work that takes as long as reading them; None for no bound.
    pub pages: Option<u64>,
}

/// The answer to a lookup.
#[derive(Clone)]
pub struct Pruned {
    /// The ranges that may hold matching rows.
    pub ranges: RangeSet,
    /// Ranges that were found to have no filter for a column that was looked up. Ranges that the lookup did not come to
    /// are not included.
    pub unfiltered: RangeSet,
    /// Heap blocks per range.
    pub pages_per_range: u32,
    /// Slices, or pages of maps and bounds, that were read.
    pub index_reads: u64,
    /// Whether only summaries of bounds were read, so that more ranges are left than need be.
    pub is_coarse: bool,
}

impl Pruned {
    /// The answer that rules nothing out.
    pub fn nothing(blocks: u32, pages_per_range: u32) -> Self {
        let ranges = RangeSet::full(blocks.div_ceil(pages_per_range).into());
        Self { unfiltered: ranges.clone(), ranges, pages_per_range, index_reads: 0, is_coarse: false }
    }
}

/// An index, its meta page as it was read first, and the clauses to look up in it.
pub struct IndexClauses<'a> {
    pub index: Rel<'a>,
    pub meta: Rc<Meta>,
    pub clauses: Vec<HashedClause>,
    /// The directory, if it was read before, after exactly this meta page.
    pub remembered: Option<Rc<Live>>,
    /// Whether what is remembered is used as it is. It may be out of date, and so may the answer be: good enough for
    /// costs. The executor takes such an answer only after [`planned`] has proved it. Otherwise the directory is read
    /// again if it has changed.
    pub is_for_costs: bool,
}

impl IndexClauses<'_> {
    /// The sizes, in blocks, of the parts of ranges that its clauses are looked up by; that of its ranges if it has no
    /// clauses.
    pub fn sizes(&self) -> impl Iterator<Item = u32> {
        sizes(&self.meta, self.clauses.iter().map(|clause| clause.column))
    }
}

/// The sizes, in blocks, of the parts of ranges by which columns are looked up; that of ranges if there are no columns.
pub fn sizes(meta: &Meta, columns: impl Iterator<Item = u16>) -> impl Iterator<Item = u32> {
    let mut columns = columns.peekable();
    let whole = columns.peek().is_none().then_some(meta.pages_per_range);
    whole.into_iter().chain(columns.map(|column| meta.pages_per_part(column)))
}

/// How often a lookup starts over because maintenance recycled pages during it. After that it returns every range. Each
/// restart means that a merge ended meanwhile. A lookup takes less than a millisecond and a merge several, so that even
/// two restarts are rare; the number only has to be finite.
const MOST_RESTARTS: usize = 20;

/// The ranges of a table of `blocks` blocks that may hold rows satisfying a condition; all ranges without one.
///
/// # Errors
/// Damage to the index.
pub fn prune(
    index: Rel,
    meta: Meta,
    condition: Option<Condition<HashedClause>>,
    blocks: u32,
) -> IndexResult<Pruned> {
    let nothing = Pruned::nothing(blocks, meta.pages_per_range);
    let mut clauses = Vec::new();
    let Some(condition) = condition.map(|condition| hashed::numbered(condition, 0, &mut clauses)) else {
        return Ok(nothing);
    };
    let lookup = IndexClauses { index, meta: Rc::new(meta), clauses, remembered: None, is_for_costs: false };
    let pruned = prune_all(&mut [lookup], &condition, blocks, Budget { pages: None });
    // Only a budget could be too small, and there is none here.
    pruned.map(|pruned| pruned.unwrap_or(nothing)).map_err(|(_, damage)| damage)
}

/// The ranges that may hold rows satisfying all clauses of one index. None when the budget does not suffice.
///
/// # Errors
/// Damage to the index.
fn prune_with(lookup: &mut IndexClauses<'_>, blocks: u32, budget: Budget) -> IndexResult<Option<Pruned>> {
    let IndexClauses { meta, clauses, .. } = &lookup;
    let all = (0..clauses.len()).map(|clause| Condition::Leaf(ClauseRef { index: 0, clause })).collect();
    let Some(all) = Condition::all(all) else {
        return Ok(Some(Pruned::nothing(blocks, meta.pages_per_range)));
    };
    prune_all(std::slice::from_mut(lookup), &all, blocks, budget).map_err(|(_, damage)| damage)
}

/// The ranges, in units, of a table of `blocks` blocks that may hold rows satisfying a condition over several indexes.
/// None when the budget does not suffice.
///
/// # Errors
/// Damage to an index, with its number.
pub fn prune_all(
    lookups: &mut [IndexClauses<'_>],
    condition: &Condition<ClauseRef>,
    blocks: u32,
    budget: Budget,
) -> Result<Option<Pruned>, (usize, Damage)> {
    for _ in 0..MOST_RESTARTS {
        memory::check_for_interrupts();
        let (number, miss) = match try_prune(lookups, condition, blocks, budget) {
            Ok(pruned) => return Ok(pruned),
            Err(failed) => failed,
        };
        let block = match miss {
            Miss::Damage(damage) => return Err((number, damage)),
            Miss::Recycled(block) => block,
        };
        let now = Meta::read(lookups[number].index).map_err(|damage| (number, damage))?;
        let then = std::mem::replace(&mut lookups[number].meta, Rc::new(now));
        let was_remembered = lookups[number].remembered.take().is_some();
        let now = &lookups[number].meta;
        if !was_remembered && !then.may_be_recycled(now) {
            return Err((number, wrong_owner(block)));
        }
    }
    Ok(Some(Pruned::nothing(blocks, unit(lookups.iter().flat_map(IndexClauses::sizes)))))
}

/// The damage of a page that has another owner, although nothing was recycled.
fn wrong_owner(block: u32) -> Damage {
    Damage::new(block, "the page does not belong to the part of the index that refers to it")
}

/// The greatest common divisor of these numbers.
pub fn unit(pages_per_range: impl Iterator<Item = u32>) -> u32 {
    let divisor = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    pages_per_range.fold(0, divisor).max(1)
}

fn try_prune(
    lookups: &[IndexClauses<'_>],
    condition: &Condition<ClauseRef>,
    blocks: u32,
    budget: Budget,
) -> Result<Option<Pruned>, (usize, Miss)> {
    let mut consults = Vec::with_capacity(lookups.len());
    for (number, lookup) in lookups.iter().enumerate() {
        let consult = Consult::start(lookup, blocks);
        consults.push(consult.map_err(|miss| (number, miss))?);
    }
    let exceeds_budget = |consults: &[Consult<'_>]| {
        budget.pages.is_some_and(|most| consults.iter().map(Consult::pages_needed).sum::<u64>() > most)
    };
    let is_coarse = exceeds_budget(&consults);
    if is_coarse {
        consults.iter_mut().for_each(Consult::read_summaries_only);
        if exceeds_budget(&consults) {
            return Ok(None);
        }
    }
    let unit = unit(lookups.iter().flat_map(IndexClauses::sizes));
    let count = u64::from(blocks.div_ceil(unit));
    let mut unfiltered = RangeSet::empty(count);
    let ranges =
        condition.evaluate(&RangeSet::full(count), &mut |leaves: &[&ClauseRef], candidates: &RangeSet| {
            let mut left = candidates.clone();
            for leaf in leaves {
                if left.is_empty() {
                    break;
                }
                let narrowed = consults[leaf.index].narrow(leaf.clause, unit, &mut left, &mut unfiltered);
                narrowed.map_err(|miss| (leaf.index, miss))?;
            }
            Ok(left)
        })?;
    let index_reads = consults.iter().map(Consult::index_reads).sum();
    Ok(Some(Pruned { ranges, unfiltered, pages_per_range: unit, index_reads, is_coarse }))
}
