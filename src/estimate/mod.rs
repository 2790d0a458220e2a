//! What a path that looks a condition up in skip indexes will read: the one estimate of bitmap scans
//! ([`crate::index`]) and of the Skip Index Scan ([`crate::scan`]).
//!
//! Where keys are known, they are looked up in the indexes ([`planner_lookup`]), and the ranges that survive are
//! counted: the estimate is exact. For unknown keys, or if the lookup would read too many pages, the average over keys
//! is taken ([`ConditionIndexes::statistics`]). [`skip_scan::estimate`] puts the two together. The result is used for
//! costs only; a plan never contains it.
//!
//! If a list has more keys than the bound on pages allows, some of them are looked up, and the others are taken to be
//! like them.
//!
//! A query with parameters is planned anew for their values until the server finds that a plan for any values costs no
//! more. So where little is read on average, for these values and for any, both plans get that average as their
//! estimate, without a lookup. That needs an average that statistics know, not a guess.

mod condition_indexes;
pub mod distinct;
pub mod remembered;

use crate::pg::Rel;
use crate::pg::custom::expr::Leaf;
use crate::pg::custom::table::Table;
use crate::prune::facts::Facts;
use crate::prune::{ClauseRef, HashedClause, Test, hashed, planner_lookup};
use condition_indexes::{ConditionIndex, ConditionIndexes};
use skip_scan::estimate::{self, ExpectedReads, Share, Term};
use skip_scan::expected::{OTHER_PAGES, Over};
use skip_scan::{Condition, RangeSet};
use std::cell::Cell;

/// The fraction of surviving ranges from which on a condition is not worth a lookup. If it rules out a tenth of the
/// ranges that other conditions leave, it saves about what the lookup costs. A judgement, not a measurement.
const NEARLY_ALL: f64 = 0.9;
/// The most keys of one list that are looked up while planning: a millisecond's work.
const MOST_KEYS: usize = 256;

/// What a scan will read.
#[derive(Clone)]
pub struct Estimate {
    /// Ranges to read, in units.
    pub ranges: u32,
    /// Units in the table.
    pub count: u32,
    /// Whether the ranges come from a lookup of all keys.
    pub is_exact: bool,
    /// Blocks of the table to read; `runs` is the number of runs of consecutive ranges that they are in.
    pub heap_blocks: f64,
    pub runs: f64,
    /// Blocks of the table.
    pub table_blocks: f64,
    /// Index pages to read.
    pub index_pages: f64,
    /// Words of 64 ranges to AND.
    pub words: f64,
    /// Blocks of all indexes in the condition.
    pub index_blocks: f64,
}

/// A condition with what is known of each test: its clause, the share that a sample leaves, or nothing.
type Terms<'l, 'a> = Condition<Term<&'l Leaf<'a>, ClauseRef>>;

/// What a scan with this condition will read.
pub fn estimate<'a>(table: &Table<'a>, condition: &Condition<Leaf<'a>>) -> Estimate {
    remembered::or_make(table, condition, || estimate_anew(table, condition))
}

fn estimate_anew<'a>(table: &Table<'a>, condition: &Condition<Leaf<'a>>) -> Estimate {
    let mut indexes = ConditionIndexes::new(table, condition);
    let is_coarse = Cell::new(false);
    let known = of_unsummarized(&indexes, condition).or_else(|| usual(&indexes, condition));
    let reads = known.unwrap_or_else(|| {
        let terms = terms(&mut indexes, condition);
        let statistics = |leaf: &&Leaf<'a>| indexes.statistics(leaf, Over::TheseKeys);
        let reads = ExpectedReads::of(&terms, indexes.count().into(), &statistics, |known| {
            let (found, pages, of_known) = survivors(&indexes, known)?;
            is_coarse.set(is_coarse.get() || of_known);
            Some((found, pages))
        });
        ExpectedReads { is_exact: reads.is_exact && !is_coarse.get(), ..reads }
    });
    Estimate {
        ranges: reads.ranges.round() as u32,
        count: indexes.count(),
        is_exact: reads.is_exact,
        heap_blocks: (reads.ranges * f64::from(indexes.unit)).min(indexes.blocks.into()),
        runs: reads.runs,
        table_blocks: indexes.blocks.into(),
        index_pages: reads.pages,
        words: reads.pages * f64::from(indexes.ranges()) / 64.0,
        index_blocks: indexes.list.iter().map(|used| table.indexes()[used.number].blocks()).sum(),
    }
}

/// The ranges that the tests with known keys leave, and the blocks of each; None if no key is known, or planning may
/// read no more pages.
pub fn surviving<'a>(table: &Table<'a>, condition: &Condition<Leaf<'a>>) -> Option<(RangeSet, u32)> {
    let mut indexes = ConditionIndexes::new(table, condition);
    let terms = terms(&mut indexes, condition);
    let (found, ..) = survivors(&indexes, &estimate::known(&terms)?)?;
    Some((found, indexes.unit))
}

/// The estimate for indexes that have summarized nothing yet: the whole table is read. Partitions are often too small
/// to be summarized, or were filled just now. None also if a key is not known, or a test could turn out to be one that
/// nothing satisfies, such as a list without elements.
fn of_unsummarized<'a>(
    indexes: &ConditionIndexes<'_, 'a>,
    condition: &Condition<Leaf<'a>>,
) -> Option<ExpectedReads> {
    let rules_nothing_out = |leaf: &&Leaf<'a>| indexes.is_unsummarized(leaf) && indexes.has_one_value(leaf);
    condition.leaves().all(|leaf| rules_nothing_out(&leaf)).then(|| ExpectedReads {
        ranges: indexes.count().into(),
        runs: 1.0,
        pages: OTHER_PAGES * indexes.list.len() as f64,
        is_exact: true,
    })
}

/// The estimate by statistics, where it is good enough: when planning may read no more pages, or when the values of
/// parameters make no difference.
fn usual<'a>(indexes: &ConditionIndexes<'_, 'a>, condition: &Condition<Leaf<'a>>) -> Option<ExpectedReads> {
    let average = |over| {
        let statistics = |leaf: &Leaf<'a>| indexes.statistics(leaf, over);
        ExpectedReads::by_statistics(condition, indexes.count().into(), &statistics)
    };
    if !planner_lookup::may_look_up() {
        return Some(average(Over::TheseKeys));
    }
    if !indexes.table.has_parameters() || condition.leaves().any(|leaf| indexes.is_guess(leaf, Over::AnyKeys))
    {
        return None;
    }
    let (these, any) = (average(Over::TheseKeys), average(Over::AnyKeys));
    ExpectedReads::for_any_parameters(these, any, indexes.unit.into(), indexes.blocks.into())
}

/// Whether a condition is worth a lookup beside those of other conditions: not if it is known that nearly all ranges
/// survive it. A condition with an unknown key counts as worth it.
pub fn rules_out<'a>(table: &Table<'a>, condition: &Condition<Leaf<'a>>) -> bool {
    let mut indexes = ConditionIndexes::new(table, condition);
    let count = f64::from(indexes.count());
    let is_few = |ranges: f64| ranges < count * NEARLY_ALL;
    let statistics = |leaf: &Leaf<'a>| indexes.statistics(leaf, Over::TheseKeys);
    if is_few(ExpectedReads::by_statistics(condition, count, &statistics).ranges) {
        return true;
    }
    let terms = terms(&mut indexes, condition);
    if !terms.leaves().all(|term| matches!(term, Term::Known(..))) {
        return true;
    }
    let found = estimate::known(&terms).and_then(|known| survivors(&indexes, &known));
    found.is_none_or(|(found, ..)| is_few(found.count() as f64))
}

/// Hashes the keys that are known, and looks long lists up in part.
fn terms<'l, 'a>(
    indexes: &mut ConditionIndexes<'_, 'a>,
    condition: &'l Condition<Leaf<'a>>,
) -> Terms<'l, 'a> {
    match condition {
        Condition::And(parts) => Condition::And(parts.iter().map(|part| terms(indexes, part)).collect()),
        Condition::Or(parts) => Condition::Or(parts.iter().map(|part| terms(indexes, part)).collect()),
        Condition::Leaf(leaf) => of_leaf(indexes, leaf),
    }
}

fn of_leaf<'l, 'a>(indexes: &mut ConditionIndexes<'_, 'a>, leaf: &'l Leaf<'a>) -> Terms<'l, 'a> {
    let (position, blocks) = (indexes.position(leaf), indexes.blocks);
    let used = &mut indexes.list[position];
    let Some(index) = used.open(indexes.table) else { return Condition::Leaf(Term::Unknown(leaf)) };
    let ConditionIndex { facts, clauses, .. } = used;
    let Some(key) = indexes.table.known_key(leaf) else { return Condition::Leaf(Term::Unknown(leaf)) };
    let Some(condition) = hashed::one(index, &facts.meta, &key) else {
        return Condition::Leaf(Term::Sampled(Share::ANYTHING));
    };
    condition.map(&mut |clause| {
        if let Some(share) = sampled(index, facts, &clause, blocks) {
            return Term::Sampled(share);
        }
        clauses.push(clause);
        Term::Known(leaf, ClauseRef { index: position, clause: clauses.len() - 1 })
    })
}

/// What a list of too many keys leaves and reads, extrapolated from some of the keys. None when the list is short
/// enough to be looked up, or was looked up already for another path.
fn sampled(index: Rel, facts: &Facts, clause: &HashedClause, blocks: u32) -> Option<Share> {
    let Test::Keys(keys) = &clause.test else { return None };
    let affordable =
        (planner_lookup::pages_left() as f64 / facts.index_reads(clause.column).max(1.0)) as usize / 2;
    let most = affordable.clamp(1, MOST_KEYS);
    if keys.len() <= most || planner_lookup::is_answered(index, clause, blocks) {
        return None;
    }
    // Hashes are sorted, so keys at equal distances are a random sample.
    let sample = (0..most).map(|i| keys[i * keys.len() / most]).collect();
    let clause = HashedClause { column: clause.column, test: Test::Keys(sample) };
    let ranges = f64::from(facts.meta.parts_in(clause.column, blocks)).max(1.0);
    let pruned = planner_lookup::look_up(index, facts, vec![clause], blocks)?;
    let share = Share { fraction: pruned.ranges.count() as f64 / ranges, pages: pruned.index_reads as f64 };
    Some(share.of_all_keys(keys.len() as f64 / most as f64, index.blocks().into()))
}

/// The ranges, in units, that survive the tests with known keys, the index pages read for them, and whether only
/// summaries of bounds were read, so that more ranges are left than need be.
fn survivors(
    indexes: &ConditionIndexes<'_, '_>,
    known: &Condition<ClauseRef>,
) -> Option<(RangeSet, u64, bool)> {
    let (unit, count) = (indexes.unit, u64::from(indexes.count()));
    let (mut pages, mut is_coarse) = (0, false);
    let found =
        known.evaluate(&RangeSet::full(count), &mut |leaves: &[&ClauseRef], candidates: &RangeSet| {
            let of = &indexes.list[leaves[0].index];
            let clauses = leaves.iter().map(|leaf| of.clauses[leaf.clause].clone()).collect();
            let pruned = planner_lookup::look_up(
                of.open(indexes.table).ok_or(())?,
                &of.facts,
                clauses,
                indexes.blocks,
            )
            .ok_or(())?;
            pages += pruned.index_reads + OTHER_PAGES as u64;
            is_coarse |= pruned.is_coarse;
            // The layout of the index may have been chosen meanwhile.
            if !pruned.pages_per_range.is_multiple_of(unit) {
                return Err(());
            }
            let mut left = pruned.ranges.refined(u64::from(pruned.pages_per_range / unit), count);
            left.intersect_with(candidates);
            Ok::<_, ()>(left)
        });
    found.ok().map(|found| (found, pages, is_coarse))
}
