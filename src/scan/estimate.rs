//! What a Skip Index Scan will read, and what that costs.
//!
//! Where keys are known, they are looked up in the indexes ([`probe`]), and the ranges that survive are counted: the
//! estimate is exact. For unknown keys the average is taken ([`super::average`]).
//!
//! If a list has more keys than the bound on pages allows, some of them are looked up, and the others are taken to be
//! like them.
//!
//! A query with parameters is planned anew for their values until the server finds that a plan for any values costs no
//! more. So where little is read on average, for these values and for any, both plans get that average as their
//! estimate, without a lookup.
//!
//! Costs: an index page costs as much as two sequential ones, because index pages are close together and are often
//! cached; the access method's own estimate has the same price. The first block of each run of ranges is read at
//! random, the others in sequence. Each row on these blocks has a CPU cost.

use super::average::{IndexInSight, LeafEstimate, Sight};
use super::matching::Leaf;
use crate::pg::Rel;
use crate::pg::clause::Match;
use crate::pg::custom::plan::Expected;
use crate::pg::custom::table::{Outer, Table};
use crate::prune::facts::Facts;
use crate::prune::{Ask, HashedClause, Test, hashed, probe};
use skip_scan::expected::{OTHER_PAGES, Over, is_little, part_of_all_keys, scattered_runs};
use skip_scan::{Condition, RangeSet};

/// The fraction of surviving ranges from which on a condition is not worth a lookup. If it rules out a tenth of the
/// ranges that other conditions leave, it saves about what the lookup costs. A judgement, not a measurement.
const NEARLY_ALL: f64 = 0.9;
/// The most keys of one list that are looked up while planning: a millisecond's work.
const MOST_KEYS: usize = 256;
/// The most ranges of a segment: the number of bits on one page.
const RANGES_A_PAGE: f64 = (skip_segment::page::SLICE_BYTES * 8) as f64;

/// CPU cost per lookup of a row in a list of keys, in units of cpu_operator_cost: hashing a value, and comparing it. A
/// shorter list costs what the planner takes for it.
const OPERATORS_A_LIST: f64 = 2.0;

/// What a scan will read.
pub struct Estimate {
    pub expected: Expected,
    /// Blocks of the table to read; `runs` is the number of runs of consecutive ranges that they are in.
    pub heap_blocks: f64,
    runs: f64,
    /// Blocks of the table.
    table_blocks: f64,
    /// Index pages to read.
    slices: f64,
    /// Words of 64 ranges to AND.
    words: f64,
    /// Blocks of all indexes in the condition.
    index_blocks: f64,
    /// The part of the planner's cost of checking a row that the scan does not have: evaluating keys, which the scan
    /// does once, and searching lists of them, which the scan replaces by a lookup by hash. `lists` is the number of
    /// these lists.
    unpaid: f64,
    lists: f64,
}

/// Startup and total cost of a scan.
pub struct Cost {
    pub startup: f64,
    pub total: f64,
    /// The part of the total that parallel processes share.
    pub shared: f64,
}

/// The ranges to read, in units, and the number of their runs; the slices to read; whether the ranges come from a
/// lookup.
struct ExpectedReads {
    ranges: f64,
    runs: f64,
    slices: f64,
    is_exact: bool,
}

/// What a scan with this condition will read.
pub fn estimate<'a>(table: &Table<'a>, condition: &Condition<Leaf<'a>>) -> Estimate {
    let mut sight = Sight::new(table, condition);
    let found = usual(&sight, condition).unwrap_or_else(|| asked(&mut sight, condition));
    let count = sight.count();
    let ExpectedReads { ranges, runs, slices, is_exact } = found;
    let leaves = condition.leaves();
    let unpaid = |leaf: &&Leaf<'a>| match (leaf.how, leaf.key.key) {
        (Match::Array, _) => table.cost_of(leaf.key.condition),
        (_, Some(key)) => table.cost_of(key),
        _ => 0.0,
    };
    let by_hash = OPERATORS_A_LIST * table.prices().operator;
    let list = |leaf: &&Leaf<'a>| table.cost_of(leaf.key.condition).min(by_hash);
    Estimate {
        expected: Expected { ranges: ranges.round() as u32, of: count, is_exact },
        heap_blocks: (ranges * f64::from(sight.unit())).min(sight.blocks.into()),
        runs,
        table_blocks: sight.blocks.into(),
        slices,
        words: slices * f64::from(sight.ranges()) / 64.0,
        index_blocks: sight.asked.iter().map(|a| table.indexes()[a.number].blocks()).sum(),
        unpaid: leaves.iter().map(unpaid).sum(),
        lists: leaves.iter().filter(|leaf| leaf.how == Match::Array).map(list).sum(),
    }
}

/// The average, where it is good enough: when planning may read no more pages, or when the values of parameters make no
/// difference.
fn usual<'a>(sight: &Sight<'_, 'a>, condition: &Condition<Leaf<'a>>) -> Option<ExpectedReads> {
    let average = |over| averaged(sight, &sight.unasked(condition, over), over);
    if probe::pages_left() == 0 {
        return Some(average(Over::TheseKeys));
    }
    if !sight.table.has_parameters() {
        return None;
    }
    let (these, any) = (average(Over::TheseKeys), average(Over::AnyKeys));
    let most = if any.ranges >= these.ranges { any } else { these };
    let blocks = most.ranges * f64::from(sight.unit());
    is_little(blocks, most.slices, sight.blocks.into()).then_some(most)
}

/// The result of looking up known keys, combined with the average of the others.
fn asked<'a>(sight: &mut Sight<'_, 'a>, condition: &Condition<Leaf<'a>>) -> ExpectedReads {
    let parts = parts_of(sight, condition);
    let known = parts.try_map(&mut |part| part.ask);
    let Some((set, slices)) = known.and_then(|known| survivors(sight, &known)) else {
        return averaged(sight, &parts, Over::TheseKeys);
    };
    let ranges = set.count() as f64 * sight.fraction(&parts, false, Over::TheseKeys);
    let unasked: Vec<_> = parts.leaves().into_iter().filter(|part| part.ask.is_none()).collect();
    ExpectedReads {
        ranges,
        runs: (set.runs().count() as f64).min(ranges),
        slices: slices as f64 + unasked.iter().map(|part| part.slices).sum::<f64>(),
        is_exact: unasked.is_empty(),
    }
}

fn averaged(sight: &Sight<'_, '_>, parts: &Condition<LeafEstimate<'_, '_>>, over: Over) -> ExpectedReads {
    let part = sight.fraction(parts, true, over);
    let ranges = f64::from(sight.count());
    let slices = parts.leaves().iter().map(|part| part.slices).sum();
    ExpectedReads { ranges: ranges * part, runs: scattered_runs(ranges, part), slices, is_exact: false }
}

/// Whether a condition is worth a lookup beside those of other conditions: not if it is known that nearly all ranges
/// survive it. A condition with an unknown key counts as worth it.
pub fn rules_out<'a>(table: &Table<'a>, condition: &Condition<Leaf<'a>>) -> bool {
    let mut sight = Sight::new(table, condition);
    let unasked = sight.unasked(condition, Over::TheseKeys);
    if sight.fraction(&unasked, true, Over::TheseKeys) < NEARLY_ALL {
        return true;
    }
    let parts = parts_of(&mut sight, condition);
    if parts.leaves().iter().any(|part| part.ask.is_none()) {
        return true;
    }
    let known = parts.try_map(&mut |part| part.ask);
    let answer = known.and_then(|known| survivors(&sight, &known));
    answer.is_none_or(|(set, _)| (set.count() as f64) < f64::from(sight.count()) * NEARLY_ALL)
}

fn parts_of<'l, 'a>(
    sight: &mut Sight<'_, 'a>,
    condition: &'l Condition<Leaf<'a>>,
) -> Condition<LeafEstimate<'l, 'a>> {
    match condition {
        Condition::And(parts) => Condition::And(parts.iter().map(|part| parts_of(sight, part)).collect()),
        Condition::Or(parts) => Condition::Or(parts.iter().map(|part| parts_of(sight, part)).collect()),
        Condition::Leaf(leaf) => Condition::Leaf(part(sight, leaf)),
    }
}

fn part<'l, 'a>(sight: &mut Sight<'_, 'a>, leaf: &'l Leaf<'a>) -> LeafEstimate<'l, 'a> {
    let key = sight.table.known_key(leaf, leaf.key.key);
    let slices = sight.slices(leaf, Over::TheseKeys);
    let blocks = sight.blocks;
    let place = sight.asked.iter().position(|a| a.number == leaf.index).unwrap_or(0);
    let IndexInSight { index, facts, clauses, .. } = &mut sight.asked[place];
    let anything = LeafEstimate { leaf, ask: None, fraction: Some(1.0), slices: 1.0 };
    let Some(facts) = facts else { return anything };
    let Some(key) = key else { return LeafEstimate { leaf, ask: None, fraction: None, slices } };
    let Some(clause) = hashed::clause(*index, &facts.meta, &key) else { return anything };
    if let Some((fraction, slices)) = sampled(*index, facts, &clause, blocks) {
        return LeafEstimate { leaf, ask: None, fraction: Some(fraction), slices };
    }
    clauses.push(clause);
    let ask = Some(Ask { index: place, clause: clauses.len() - 1 });
    LeafEstimate { leaf, ask, fraction: None, slices: 0.0 }
}

/// The fraction of the ranges that survive a list of too many keys, and the slices that its lookup reads, extrapolated
/// from some of the keys. None when the list is short enough to be looked up, or was looked up already for the index's
/// own path.
fn sampled(index: Rel, facts: &Facts, clause: &HashedClause, blocks: u32) -> Option<(f64, f64)> {
    let meta = &facts.meta;
    let Test::Keys(keys) = &clause.test else { return None };
    let num_probes =
        meta.columns.get(usize::from(clause.column)).map_or(1, |column| column.sizing.num_probes);
    let ranges = f64::from(meta.parts_in(clause.column, blocks));
    // Pages for one key: a slice for each probe in each segment, which has at most a page of ranges.
    let each = f64::from(num_probes) * (ranges / RANGES_A_PAGE).ceil();
    let affordable = (probe::pages_left() as f64 / each) as usize / 2;
    let most = affordable.clamp(1, MOST_KEYS);
    if keys.len() <= most || probe::is_answered(index, clause, blocks) {
        return None;
    }
    // Hashes are sorted, so keys at equal distances are a random sample.
    let sample = (0..most).map(|i| keys[i * keys.len() / most]).collect();
    let clause = HashedClause { column: clause.column, test: Test::Keys(sample) };
    let pruned = probe::probe(index, facts, vec![clause], blocks)?;
    let survived = pruned.ranges.count() as f64 / ranges.max(1.0);
    let times = keys.len() as f64 / most as f64;
    Some((part_of_all_keys(survived, times), (pruned.slices as f64 * times).min(f64::from(index.blocks()))))
}

/// The ranges, in units, that survive the tests with known keys, and the index pages read for them.
fn survivors(sight: &Sight<'_, '_>, known: &Condition<Ask>) -> Option<(RangeSet, u64)> {
    let (unit, count) = (sight.unit(), u64::from(sight.count()));
    let mut slices = 0;
    let found = known.evaluate(&RangeSet::full(count), &mut |leaves: &[&Ask], candidates: &RangeSet| {
        let of = &sight.asked[leaves[0].index];
        let clauses = leaves.iter().map(|leaf| of.clauses[leaf.clause].clone()).collect();
        let facts = of.facts.as_ref().ok_or(())?;
        let pruned = probe::probe(of.index, facts, clauses, sight.blocks).ok_or(())?;
        slices += pruned.slices + OTHER_PAGES as u64;
        // The layout of the index may have been chosen meanwhile.
        if !pruned.pages_per_range.is_multiple_of(unit) {
            return Err(());
        }
        let mut left = pruned.ranges.refined(u64::from(pruned.pages_per_range / unit), count);
        left.intersect_with(candidates);
        Ok::<_, ()>(left)
    });
    found.ok().map(|found| (found, slices))
}

/// The costs of an estimate, when the path is run once for each row of `outer`.
pub fn cost(table: &Table<'_>, estimate: &Estimate, outer: Option<Outer<'_>>) -> Cost {
    let prices = table.prices();
    let loops = outer.map_or(1.0, |outer| table.loop_count(outer));
    // Repeated runs share pages.
    let consult = prices.lookup(estimate.slices / loops.sqrt(), estimate.index_blocks, estimate.words);
    let pages = estimate.heap_blocks;
    let read = if loops > 1.0 { table.pages_fetched(pages * loops) / loops } else { pages }.min(pages);
    let io = prices.blocks(read, estimate.runs, estimate.table_blocks);
    let (startup, per_row) = table.row_costs(outer);
    let per_row = per_row - estimate.unpaid + estimate.lists;
    let rows_a_page = table.rows() / estimate.table_blocks.max(1.0);
    let rows = prices.rows(pages, rows_a_page, per_row);
    let startup = consult + startup;
    Cost { startup, total: startup + io + rows, shared: rows }
}
