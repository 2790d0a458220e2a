//! What a path that looks a condition up in skip indexes will read: the one estimate of bitmap scans
//! ([`crate::index`]) and of the Skip Index Scan ([`crate::scan`]).
//!
//! Where keys are known, they are looked up in the indexes ([`probe`]), and the ranges that survive are counted: the
//! estimate is exact. For unknown keys, or if the lookup would read too many pages, the average over keys is taken
//! ([`Sight::statistics`]). [`skip_scan::estimate`] puts the two together. The result is used for costs only; a plan
//! never contains it.
//!
//! If a list has more keys than the bound on pages allows, some of them are looked up, and the others are taken to be
//! like them.
//!
//! A query with parameters is planned anew for their values until the server finds that a plan for any values costs no
//! more. So where little is read on average, for these values and for any, both plans get that average as their
//! estimate, without a lookup.

pub mod distinct;
pub mod remembered;
mod sight;

use crate::pg::Rel;
use crate::pg::custom::expr::Leaf;
use crate::pg::custom::table::Table;
use crate::prune::facts::Facts;
use crate::prune::{Ask, HashedClause, Test, hashed, probe};
use sight::{IndexInSight, Sight};
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

/// A condition whose tests are known to be looked up, or not.
type Terms<'l, 'a> = Condition<Term<&'l Leaf<'a>, Ask>>;

/// What a scan with this condition will read.
pub fn estimate<'a>(table: &Table<'a>, condition: &Condition<Leaf<'a>>) -> Estimate {
    remembered::or_make(table, condition, || estimate_anew(table, condition))
}

fn estimate_anew<'a>(table: &Table<'a>, condition: &Condition<Leaf<'a>>) -> Estimate {
    let mut sight = Sight::new(table, condition);
    let is_coarse = Cell::new(false);
    let known = of_unsummarized(&sight, condition).or_else(|| usual(&sight, condition));
    let reads = known.unwrap_or_else(|| {
        let terms = terms(&mut sight, condition);
        let statistics = |leaf: &&Leaf<'a>| sight.statistics(leaf, Over::TheseKeys);
        let reads = ExpectedReads::of(&terms, sight.count().into(), &statistics, |known| {
            let (found, pages, of_known) = survivors(&sight, known)?;
            is_coarse.set(is_coarse.get() || of_known);
            Some((found, pages))
        });
        ExpectedReads { is_exact: reads.is_exact && !is_coarse.get(), ..reads }
    });
    Estimate {
        ranges: reads.ranges.round() as u32,
        count: sight.count(),
        is_exact: reads.is_exact,
        heap_blocks: (reads.ranges * f64::from(sight.unit)).min(sight.blocks.into()),
        runs: reads.runs,
        table_blocks: sight.blocks.into(),
        index_pages: reads.pages,
        words: reads.pages * f64::from(sight.ranges()) / 64.0,
        index_blocks: sight.asked.iter().map(|asked| table.indexes()[asked.number].blocks()).sum(),
    }
}

/// The ranges that the tests with known keys leave, and the blocks of each; None if no key is known, or planning may
/// read no more pages.
pub fn surviving<'a>(table: &Table<'a>, condition: &Condition<Leaf<'a>>) -> Option<(RangeSet, u32)> {
    let mut sight = Sight::new(table, condition);
    let terms = terms(&mut sight, condition);
    let (found, ..) = survivors(&sight, &estimate::known(&terms)?)?;
    Some((found, sight.unit))
}

/// The estimate for indexes that have summarized nothing yet: the whole table is read. Partitions are often too small
/// to be summarized, or were filled just now. None also if a key is not known, or a test could turn out to be one that
/// nothing satisfies, such as a list without elements.
fn of_unsummarized<'a>(sight: &Sight<'_, 'a>, condition: &Condition<Leaf<'a>>) -> Option<ExpectedReads> {
    let rules_nothing_out = |leaf: &&Leaf<'a>| sight.is_unsummarized(leaf) && sight.has_one_value(leaf);
    condition.leaves().all(|leaf| rules_nothing_out(&leaf)).then(|| ExpectedReads {
        ranges: sight.count().into(),
        runs: 1.0,
        pages: OTHER_PAGES * sight.asked.len() as f64,
        is_exact: true,
    })
}

/// The estimate by statistics, where it is good enough: when planning may read no more pages, or when the values of
/// parameters make no difference.
fn usual<'a>(sight: &Sight<'_, 'a>, condition: &Condition<Leaf<'a>>) -> Option<ExpectedReads> {
    let average = |over| {
        let statistics = |leaf: &Leaf<'a>| sight.statistics(leaf, over);
        ExpectedReads::by_statistics(condition, sight.count().into(), &statistics)
    };
    if !probe::may_look_up() {
        return Some(average(Over::TheseKeys));
    }
    if !sight.table.has_parameters() {
        return None;
    }
    let (these, any) = (average(Over::TheseKeys), average(Over::AnyKeys));
    ExpectedReads::for_any_parameters(these, any, sight.unit.into(), sight.blocks.into())
}

/// Whether a condition is worth a lookup beside those of other conditions: not if it is known that nearly all ranges
/// survive it. A condition with an unknown key counts as worth it.
pub fn rules_out<'a>(table: &Table<'a>, condition: &Condition<Leaf<'a>>) -> bool {
    let mut sight = Sight::new(table, condition);
    let count = f64::from(sight.count());
    let is_few = |ranges: f64| ranges < count * NEARLY_ALL;
    let statistics = |leaf: &Leaf<'a>| sight.statistics(leaf, Over::TheseKeys);
    if is_few(ExpectedReads::by_statistics(condition, count, &statistics).ranges) {
        return true;
    }
    let terms = terms(&mut sight, condition);
    if !terms.leaves().all(|term| matches!(term, Term::Known(..))) {
        return true;
    }
    let found = estimate::known(&terms).and_then(|known| survivors(&sight, &known));
    found.is_none_or(|(found, ..)| is_few(found.count() as f64))
}

/// Hashes the keys that are known, and looks long lists up in part.
fn terms<'l, 'a>(sight: &mut Sight<'_, 'a>, condition: &'l Condition<Leaf<'a>>) -> Terms<'l, 'a> {
    match condition {
        Condition::And(parts) => Condition::And(parts.iter().map(|part| terms(sight, part)).collect()),
        Condition::Or(parts) => Condition::Or(parts.iter().map(|part| terms(sight, part)).collect()),
        Condition::Leaf(leaf) => of_leaf(sight, leaf),
    }
}

fn of_leaf<'l, 'a>(sight: &mut Sight<'_, 'a>, leaf: &'l Leaf<'a>) -> Terms<'l, 'a> {
    let (place, blocks) = (sight.place(leaf), sight.blocks);
    let asked = &mut sight.asked[place];
    let Some(index) = asked.open(sight.table) else { return Condition::Leaf(Term::Unknown(leaf)) };
    let IndexInSight { facts, clauses, .. } = asked;
    let Some(key) = sight.table.known_key(leaf) else { return Condition::Leaf(Term::Unknown(leaf)) };
    let Some(condition) = hashed::one(index, &facts.meta, &key) else {
        return Condition::Leaf(Term::Sampled(Share::ANYTHING));
    };
    condition.map(&mut |clause| {
        if let Some(share) = sampled(index, facts, &clause, blocks) {
            return Term::Sampled(share);
        }
        clauses.push(clause);
        Term::Known(leaf, Ask { index: place, clause: clauses.len() - 1 })
    })
}

/// What a list of too many keys leaves and reads, extrapolated from some of the keys. None when the list is short
/// enough to be looked up, or was looked up already for another path.
fn sampled(index: Rel, facts: &Facts, clause: &HashedClause, blocks: u32) -> Option<Share> {
    let Test::Keys(keys) = &clause.test else { return None };
    let affordable = (probe::pages_left() as f64 / facts.slices(clause.column).max(1.0)) as usize / 2;
    let most = affordable.clamp(1, MOST_KEYS);
    if keys.len() <= most || probe::is_answered(index, clause, blocks) {
        return None;
    }
    // Hashes are sorted, so keys at equal distances are a random sample.
    let sample = (0..most).map(|i| keys[i * keys.len() / most]).collect();
    let clause = HashedClause { column: clause.column, test: Test::Keys(sample) };
    let ranges = f64::from(facts.meta.parts_in(clause.column, blocks)).max(1.0);
    let pruned = probe::probe(index, facts, vec![clause], blocks)?;
    let share = Share { fraction: pruned.ranges.count() as f64 / ranges, pages: pruned.slices as f64 };
    Some(share.of_all_keys(keys.len() as f64 / most as f64, index.blocks().into()))
}

/// The ranges, in units, that survive the tests with known keys, the index pages read for them, and whether more of
/// these would leave fewer ranges.
fn survivors(sight: &Sight<'_, '_>, known: &Condition<Ask>) -> Option<(RangeSet, u64, bool)> {
    let (unit, count) = (sight.unit, u64::from(sight.count()));
    let (mut pages, mut is_coarse) = (0, false);
    let found = known.evaluate(&RangeSet::full(count), &mut |leaves: &[&Ask], candidates: &RangeSet| {
        let of = &sight.asked[leaves[0].index];
        let clauses = leaves.iter().map(|leaf| of.clauses[leaf.clause].clone()).collect();
        let pruned =
            probe::probe(of.open(sight.table).ok_or(())?, &of.facts, clauses, sight.blocks).ok_or(())?;
        pages += pruned.slices + OTHER_PAGES as u64;
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
