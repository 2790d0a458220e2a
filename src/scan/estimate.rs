//! What a Skip Scan will read, and what that costs.
//!
//! Where keys are known, the indexes are asked ([`probe`]), and the ranges that survive are counted: the estimate is
//! exact. What is unknown is taken as an average ([`probe::average`]).
//!
//! Of a list of more keys than the bound on pages allows for, some are asked about, and the others taken to be like them.
//!
//! Ranges with such rows lie between as many as there are rows (scattered) and as few as hold so many (in the order of the
//! table); ANALYZE's correlation says where, squared as the server does for btree. Unknown tests count as independent.
//!
//! Costs: index pages at the price of two sequential ones, since they lie together and are often cached, as in the access
//! method's own estimate; the first block of each run of ranges at random, the others in sequence; each row on them.

use super::matching::Leaf;
use crate::pages::meta::Meta;
use crate::pg::Rel;
use crate::pg::custom::expr::Match;
use crate::pg::custom::plan::Expected;
use crate::pg::custom::table::{Outer, Table};
use crate::prune::{Ask, Clause, Test, keys, probe, unit};
use skip_core::{Condition, RangeSet};

/// Keys that an array of unknown length is taken to have, as the server has it.
const UNKNOWN_KEYS: f64 = 10.0;
/// Part of the ranges from which on a condition is not worth asking about.
const NEARLY_ALL: f64 = 0.9;
/// Keys of one list that are asked about while planning, at most: a millisecond's work.
const MOST_KEYS: usize = 256;
/// Ranges of the widest segment: one page of bits.
const RANGES_A_PAGE: f64 = (skip_core::page::SLICE_BYTES * 8) as f64;
/// What is assumed of an index whose meta page cannot be read.
const UNREAD_PAGES_PER_RANGE: u32 = 16;

/// Operators that finding out and asking for a page ahead is worth. It lets a sequential scan win where hardly anything
/// is skipped.
const OPERATORS_A_PAGE: f64 = 20.0;

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
}

/// Costs of a scan.
pub struct Cost {
    pub startup: f64,
    pub total: f64,
    /// Of the total, what parallel processes share.
    pub shared: f64,
}

/// A test as the estimate sees it.
struct Part<'l, 'a> {
    leaf: &'l Leaf<'a>,
    /// Set when the key is known.
    ask: Option<Ask>,
    /// Part of the ranges that survive, where something better than the average is known. The average takes look-ups in
    /// the planner's statistics, which most estimates do without.
    fraction: Option<f64>,
    slices: f64,
}

/// One of the indexes in question.
struct Asked {
    number: usize,
    meta: Option<Meta>,
    clauses: Vec<Clause>,
}

/// What a scan with this condition will read.
pub fn estimate(table: &Table<'_>, condition: &Condition<Leaf<'_>>) -> Estimate {
    let blocks = table.blocks();
    let mut asked = open(table, condition);
    let sizes = asked.iter().map(|a| a.meta.as_ref().map_or(UNREAD_PAGES_PER_RANGE, |m| m.pages_per_range));
    let unit = unit(sizes);
    let count = blocks.div_ceil(unit);
    let parts = parts_of(table, condition, &mut asked, blocks);
    let part_of =
        |parts, with_known| fraction(parts, with_known, &|part| average(table, part, &asked, blocks));
    let index_blocks = asked.iter().map(|a| table.indexes()[a.number].blocks()).sum();
    let known = parts.try_map(&mut |part| part.ask);
    let answer = known.and_then(|known| survivors(table, &asked, &known, blocks, unit));
    let is_all_known = parts.leaves().iter().all(|part| part.ask.is_some());
    let (ranges, runs, slices) = match &answer {
        Some((set, slices)) => {
            let unknown = part_of(&parts, false);
            let ranges = set.count() as f64 * unknown;
            let more: f64 = parts.leaves().iter().filter(|p| p.ask.is_none()).map(|p| p.slices).sum();
            (ranges, (set.runs().count() as f64).min(ranges), *slices as f64 + more)
        }
        None => {
            let part = part_of(&parts, true);
            let ranges = f64::from(count) * part;
            (ranges, ranges * (1.0 - part) + part, parts.leaves().iter().map(|part| part.slices).sum())
        }
    };
    Estimate {
        expected: Expected {
            ranges: ranges.round() as u32,
            of: count,
            is_exact: answer.is_some() && is_all_known,
        },
        heap_blocks: (ranges * f64::from(unit)).min(blocks.into()),
        runs,
        table_blocks: blocks.into(),
        slices,
        words: slices * f64::from(count) / 64.0,
        index_blocks,
    }
}

/// Whether asking about a condition is worth it, when another will be asked about besides: not if it is known to let nearly
/// everything through. An unknown key gets the benefit of the doubt.
pub fn rules_out(table: &Table<'_>, condition: &Condition<Leaf<'_>>) -> bool {
    let blocks = table.blocks();
    let mut asked = open(table, condition);
    let sizes = asked.iter().map(|a| a.meta.as_ref().map_or(UNREAD_PAGES_PER_RANGE, |m| m.pages_per_range));
    let unit = unit(sizes);
    let parts = parts_of(table, condition, &mut asked, blocks);
    let on_average = fraction(&parts, true, &|part| average(table, part, &asked, blocks));
    if on_average < NEARLY_ALL || parts.leaves().iter().any(|part| part.ask.is_none()) {
        return true;
    }
    let known = parts.try_map(&mut |part| part.ask);
    let answer = known.and_then(|known| survivors(table, &asked, &known, blocks, unit));
    let count = f64::from(blocks.div_ceil(unit));
    answer.is_none_or(|(set, _)| (set.count() as f64) < count * NEARLY_ALL)
}

fn open(table: &Table<'_>, condition: &Condition<Leaf<'_>>) -> Vec<Asked> {
    let mut asked: Vec<Asked> = Vec::new();
    for leaf in condition.leaves() {
        if asked.iter().all(|a| a.number != leaf.index) {
            let index = table.open_index(table.indexes()[leaf.index].oid());
            asked.push(Asked { number: leaf.index, meta: Meta::read(*index).ok(), clauses: Vec::new() });
        }
    }
    asked
}

fn parts_of<'l, 'a>(
    table: &Table<'_>,
    condition: &'l Condition<Leaf<'a>>,
    asked: &mut [Asked],
    blocks: u32,
) -> Condition<Part<'l, 'a>> {
    match condition {
        Condition::And(parts) => {
            Condition::And(parts.iter().map(|part| parts_of(table, part, asked, blocks)).collect())
        }
        Condition::Or(parts) => {
            Condition::Or(parts.iter().map(|part| parts_of(table, part, asked, blocks)).collect())
        }
        Condition::Leaf(leaf) => Condition::Leaf(part(table, leaf, asked, blocks)),
    }
}

fn part<'l, 'a>(table: &Table<'_>, leaf: &'l Leaf<'a>, asked: &mut [Asked], blocks: u32) -> Part<'l, 'a> {
    let place = asked.iter().position(|a| a.number == leaf.index).unwrap_or(0);
    let of = &mut asked[place];
    let anything = Part { leaf, ask: None, fraction: Some(1.0), slices: 1.0 };
    let Some(meta) = &of.meta else { return anything };
    let key = table.known_key(leaf.how, leaf.column, leaf.key_type, leaf.key);
    if let Some(key) = key {
        let index = table.open_index(table.indexes()[leaf.index].oid());
        let Some(clause) = keys::clause(*index, meta, &key) else { return anything };
        if let Some((fraction, slices)) = sampled(*index, meta, &clause, blocks) {
            return Part { leaf, ask: None, fraction: Some(fraction), slices };
        }
        of.clauses.push(clause);
        let ask = Some(Ask { index: place, clause: of.clauses.len() - 1 });
        return Part { leaf, ask, fraction: None, slices: 0.0 };
    }
    let probes = meta.columns.get(usize::from(leaf.column)).map_or(1, |column| column.sizing.hashes);
    Part { leaf, ask: None, fraction: None, slices: key_count(leaf) * f64::from(probes) + 1.0 }
}

/// What survives a list of too many keys, as a part of all ranges, and the slices that it takes, from some of them; None
/// when the list is short enough to be asked about, or was asked about already for the index's own path.
fn sampled(index: Rel, meta: &Meta, clause: &Clause, blocks: u32) -> Option<(f64, f64)> {
    let Test::Keys(keys) = &clause.test else { return None };
    let probes = meta.columns.get(usize::from(clause.column)).map_or(1, |column| column.sizing.hashes);
    let ranges = f64::from(meta.ranges_in(blocks));
    // Pages for one key: a slice for each probe in each segment, which has at most a page of ranges.
    let each = f64::from(probes) * (ranges / RANGES_A_PAGE).ceil();
    let affordable = (probe::pages_left() as f64 / each) as usize / 2;
    let most = affordable.clamp(1, MOST_KEYS);
    if keys.len() <= most || probe::is_answered(index, clause, blocks) {
        return None;
    }
    // Hashes are sorted, so that every so-many-th is a random choice.
    let sample = (0..most).map(|i| keys[i * keys.len() / most]).collect();
    let clause = Clause { column: clause.column, test: Test::Keys(sample) };
    let pruned = probe::probe(index, meta, vec![clause], blocks)?;
    let survived = pruned.ranges.count() as f64 / ranges.max(1.0);
    let times = keys.len() as f64 / most as f64;
    let fraction = 1.0 - (1.0 - survived.min(1.0)).powf(times);
    Some((fraction, (pruned.slices as f64 * times).min(f64::from(index.blocks()))))
}

fn key_count(leaf: &Leaf<'_>) -> f64 {
    if leaf.how == Match::Array { UNKNOWN_KEYS } else { 1.0 }
}

/// Part of the ranges that survive a test, on average over keys.
fn average(table: &Table<'_>, part: &Part<'_, '_>, asked: &[Asked], blocks: u32) -> f64 {
    let leaf = part.leaf;
    let meta = asked.iter().find(|a| a.number == leaf.index).and_then(|a| a.meta.as_ref());
    let (Some(meta), None) = (meta, part.fraction) else { return part.fraction.unwrap_or(1.0) };
    let ranges = f64::from(meta.ranges_in(blocks)).max(1.0);
    let summarized = f64::from(meta.watermark).min(ranges);
    let rate = meta.columns.get(usize::from(leaf.column)).map_or(1.0, |column| column.rate);
    let rows = table.selectivity(leaf.from) * table.rows();
    let clustered = (rows / (table.rows() / ranges).max(1.0)).ceil();
    let attribute = table.indexes()[leaf.index].attribute(leaf.column);
    let order = attribute.map_or(0.0, |attribute| table.correlation(attribute)).powi(2);
    let with_rows = (order * clustered + (1.0 - order) * rows).min(ranges);
    (probe::average(ranges, summarized, key_count(leaf) * rate, with_rows) / ranges).clamp(0.0, 1.0)
}

/// Part of the ranges that a condition lets through by averages; of known tests only where `with_known` says so, since
/// the others have been counted.
fn fraction<'l, 'a>(
    condition: &Condition<Part<'l, 'a>>,
    with_known: bool,
    average: &dyn Fn(&Part<'l, 'a>) -> f64,
) -> f64 {
    match condition {
        Condition::And(parts) => parts.iter().map(|part| fraction(part, with_known, average)).product(),
        Condition::Or(parts) => {
            let is_counted = condition.leaves().iter().all(|part| part.ask.is_some());
            if is_counted && !with_known {
                return 1.0;
            }
            1.0 - parts.iter().map(|part| 1.0 - fraction(part, true, average)).product::<f64>()
        }
        Condition::Leaf(part) if part.ask.is_some() && !with_known => 1.0,
        Condition::Leaf(part) => average(part),
    }
}

/// The ranges, in units, that known tests leave, and the index pages read for that.
fn survivors(
    table: &Table<'_>,
    asked: &[Asked],
    known: &Condition<Ask>,
    blocks: u32,
    unit: u32,
) -> Option<(RangeSet, u64)> {
    let count = u64::from(blocks.div_ceil(unit));
    let mut slices = 0;
    let found = known.evaluate(&RangeSet::full(count), &mut |leaves: &[&Ask], candidates: &RangeSet| {
        let of = &asked[leaves[0].index];
        let clauses = leaves.iter().map(|leaf| of.clauses[leaf.clause].clone()).collect();
        let index = table.open_index(table.indexes()[of.number].oid());
        let meta = of.meta.as_ref().ok_or(())?;
        let pruned = probe::probe(*index, meta, clauses, blocks).ok_or(())?;
        slices += pruned.slices + 3; // and meta, directory, delta
        let mut left = pruned.ranges.refined(u64::from(pruned.pages_per_range / unit), count);
        left.intersect_with(candidates);
        Ok::<_, ()>(left)
    });
    found.ok().map(|found| (found, slices))
}

/// What it costs to read that, when the path is run once for each row of `outer`.
pub fn cost(table: &Table<'_>, estimate: &Estimate, outer: Option<Outer>) -> Cost {
    let prices = table.prices();
    let loops = outer.map_or(1.0, |outer| table.loop_count(outer));
    // Repeated runs share pages.
    let consult = prices.consult(estimate.slices / loops.sqrt(), estimate.index_blocks, estimate.words);
    let pages = estimate.heap_blocks;
    let read = if loops > 1.0 { table.pages_fetched(pages * loops) / loops } else { pages }.min(pages);
    let runs = estimate.runs.min(read);
    let io = runs * prices.random + (read - runs) * prices.sequential;
    let (startup, per_row) = table.row_costs(outer);
    let rows_a_page = table.rows() / estimate.table_blocks.max(1.0);
    let rows = (per_row * rows_a_page + OPERATORS_A_PAGE * prices.operator) * pages;
    let startup = consult + startup;
    Cost { startup, total: startup + io + rows, shared: rows }
}
