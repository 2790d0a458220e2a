//! What a Skip Index Scan will read, and what that costs.
//!
//! Where keys are known, the indexes are asked ([`probe`]), and the ranges that survive are counted: the estimate is
//! exact. What is unknown is taken as an average ([`super::average`]).
//!
//! Of a list of more keys than the bound on pages allows for, some are asked about, and the others taken to be like
//! them.
//!
//! A query with parameters is planned anew for their values until the server finds that a plan for any values costs no
//! more. So where little is read on average, for these values and for any, that is what both plans are estimated at,
//! and the index is not asked.
//!
//! Costs: index pages at the price of two sequential ones, since they lie together and are often cached, as in the
//! access method's own estimate; the first block of each run of ranges at random, the others in sequence; each row on
//! them.

use super::average::{IndexInSight, LeafEstimate, Sight};
use super::matching::Leaf;
use crate::pages::meta::Meta;
use crate::pg::Rel;
use crate::pg::clause::Match;
use crate::pg::custom::plan::Expected;
use crate::pg::custom::table::{Outer, Table};
use crate::prune::{Ask, HashedClause, Test, hashed, probe};
use skip_scan::expected::{OTHER_PAGES, Over, is_little, part_of_all_keys, scattered_runs};
use skip_scan::{Condition, RangeSet};

/// LeafEstimate of the ranges from which on a condition is not worth asking about.
const NEARLY_ALL: f64 = 0.9;
/// Keys of one list that are asked about while planning, at most: a millisecond's work.
const MOST_KEYS: usize = 256;
/// Ranges of the widest segment: one page of bits.
const RANGES_A_PAGE: f64 = (skip_segment::page::SLICE_BYTES * 8) as f64;

/// CPU cost per lookup of a row in a list of keys, in units of cpu_operator_cost.
const OPERATORS_A_LIST: f64 = 2.0;

/// What a scan will read.
pub struct Estimate {
    pub expected: Expected,
    /// Blocks of the table to read, and in how many runs.
    pub heap_blocks: f64,
    runs: f64,
    /// Blocks of the table.
    table_blocks: f64,
    /// Index pages.
    slices: f64,
    /// Words of 64 ranges ANDed.
    words: f64,
    /// Blocks of the indexes.
    index_blocks: f64,
    /// Of what the planner takes checking a row to cost, what evaluating keys and going through lists of them is: the
    /// scan does it once, and looks rows up in lists; how many of these there are.
    unpaid: f64,
    lists: f64,
}

/// Costs of a scan.
pub struct Cost {
    pub startup: f64,
    pub total: f64,
    /// Of the total, what parallel processes share.
    pub shared: f64,
}

/// What was found out: ranges to read, in units, and in how many runs; slices to read; whether the index said so.
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
    Estimate {
        expected: Expected { ranges: ranges.round() as u32, of: count, is_exact },
        heap_blocks: (ranges * f64::from(sight.unit())).min(sight.blocks.into()),
        runs,
        table_blocks: sight.blocks.into(),
        slices,
        words: slices * f64::from(count) / 64.0,
        index_blocks: sight.asked.iter().map(|a| table.indexes()[a.number].blocks()).sum(),
        unpaid: leaves.iter().map(unpaid).sum(),
        lists: leaves.iter().filter(|leaf| leaf.how == Match::Array).count() as f64,
    }
}

/// The average, where that is good enough: planning may read no more, or what is known of parameters makes no
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

/// What the indexes say of known keys, and the average of the others.
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

/// Whether asking about a condition is worth it, when another will be asked about besides: not if it is known to let
/// nearly everything through. An unknown key gets the benefit of the doubt.
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
    if let Some((fraction, slices)) = sampled(*index, &facts.meta, &clause, blocks) {
        return LeafEstimate { leaf, ask: None, fraction: Some(fraction), slices };
    }
    clauses.push(clause);
    let ask = Some(Ask { index: place, clause: clauses.len() - 1 });
    LeafEstimate { leaf, ask, fraction: None, slices: 0.0 }
}

/// What survives a list of too many keys, as a part of all ranges, and the slices that it takes, from some of them;
/// None when the list is short enough to be asked about, or was asked about already for the index's own path.
fn sampled(index: Rel, meta: &Meta, clause: &HashedClause, blocks: u32) -> Option<(f64, f64)> {
    let Test::Keys(keys) = &clause.test else { return None };
    let num_probes =
        meta.columns.get(usize::from(clause.column)).map_or(1, |column| column.sizing.num_probes);
    let ranges = f64::from(meta.ranges_in(blocks));
    // Pages for one key: a slice for each probe in each segment, which has at most a page of ranges.
    let each = f64::from(num_probes) * (ranges / RANGES_A_PAGE).ceil();
    let affordable = (probe::pages_left() as f64 / each) as usize / 2;
    let most = affordable.clamp(1, MOST_KEYS);
    if keys.len() <= most || probe::is_answered(index, clause, blocks) {
        return None;
    }
    // Hashes are sorted, so that every so-many-th is a random choice.
    let sample = (0..most).map(|i| keys[i * keys.len() / most]).collect();
    let clause = HashedClause { column: clause.column, test: Test::Keys(sample) };
    let pruned = probe::probe(index, meta, vec![clause], blocks)?;
    let survived = pruned.ranges.count() as f64 / ranges.max(1.0);
    let times = keys.len() as f64 / most as f64;
    Some((part_of_all_keys(survived, times), (pruned.slices as f64 * times).min(f64::from(index.blocks()))))
}

/// The ranges, in units, that known tests leave, and the index pages read for that.
fn survivors(sight: &Sight<'_, '_>, known: &Condition<Ask>) -> Option<(RangeSet, u64)> {
    let (unit, count) = (sight.unit(), u64::from(sight.count()));
    let mut slices = 0;
    let found = known.evaluate(&RangeSet::full(count), &mut |leaves: &[&Ask], candidates: &RangeSet| {
        let of = &sight.asked[leaves[0].index];
        let clauses = leaves.iter().map(|leaf| of.clauses[leaf.clause].clone()).collect();
        let facts = of.facts.as_ref().ok_or(())?;
        let pruned = probe::probe(of.index, &facts.meta, clauses, sight.blocks).ok_or(())?;
        slices += pruned.slices + OTHER_PAGES as u64;
        let mut left = pruned.ranges.refined(u64::from(pruned.pages_per_range / unit), count);
        left.intersect_with(candidates);
        Ok::<_, ()>(left)
    });
    found.ok().map(|found| (found, slices))
}

/// What it costs to read that, when the path is run once for each row of `outer`.
pub fn cost(table: &Table<'_>, estimate: &Estimate, outer: Option<Outer<'_>>) -> Cost {
    let prices = table.prices();
    let loops = outer.map_or(1.0, |outer| table.loop_count(outer));
    // Repeated runs share pages.
    let consult = prices.lookup(estimate.slices / loops.sqrt(), estimate.index_blocks, estimate.words);
    let pages = estimate.heap_blocks;
    let read = if loops > 1.0 { table.pages_fetched(pages * loops) / loops } else { pages }.min(pages);
    let io = prices.blocks(read, estimate.runs);
    let (startup, per_row) = table.row_costs(outer);
    let lists = estimate.lists * OPERATORS_A_LIST * prices.operator;
    let per_row = per_row - estimate.unpaid + lists;
    let rows_a_page = table.rows() / estimate.table_blocks.max(1.0);
    let rows = prices.rows(pages, rows_a_page, per_row);
    let startup = consult + startup;
    Cost { startup, total: startup + io + rows, shared: rows }
}
