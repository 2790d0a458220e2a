//! What a Skip Scan will read, and what that costs.
//!
//! Where keys are known, the indexes are asked ([`probe`]), and the ranges that survive are counted: the estimate is
//! exact. What is unknown is taken as an average. For one test:
//!
//! ```text
//! ranges = not summarized + summarized * min(1, keys * false-positive rate + ranges with such rows / all)
//! ```
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
    /// Blocks of the table, and in how many runs.
    pub heap_blocks: f64,
    runs: f64,
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
struct Part {
    /// Set when the key is known.
    ask: Option<Ask>,
    /// Part of the ranges that survive, on average.
    fraction: f64,
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
    let parts = condition.try_map(&mut |leaf| Some(part(table, leaf, &mut asked, blocks)));
    let parts = parts.unwrap_or(Condition::And(Vec::new())); // every leaf has a part
    let index_blocks = asked.iter().map(|a| table.indexes()[a.number].blocks()).sum();
    let known = parts.try_map(&mut |part| part.ask);
    let answer = known.and_then(|known| survivors(table, &asked, &known, blocks, unit));
    let is_all_known = parts.leaves().iter().all(|part| part.ask.is_some());
    let (ranges, runs, slices) = match &answer {
        Some((set, slices)) => {
            let unknown = fraction(&parts, false);
            let ranges = set.count() as f64 * unknown;
            let more: f64 = parts.leaves().iter().filter(|p| p.ask.is_none()).map(|p| p.slices).sum();
            (ranges, (set.runs().count() as f64).min(ranges), *slices as f64 + more)
        }
        None => {
            let part = fraction(&parts, true);
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
    let Some(parts) = condition.try_map(&mut |leaf| Some(part(table, leaf, &mut asked, blocks))) else {
        return true;
    };
    if fraction(&parts, true) < NEARLY_ALL || parts.leaves().iter().any(|part| part.ask.is_none()) {
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

fn part(table: &Table<'_>, leaf: &Leaf<'_>, asked: &mut [Asked], blocks: u32) -> Part {
    let place = asked.iter().position(|a| a.number == leaf.index).unwrap_or(0);
    let of = &mut asked[place];
    let Some(meta) = &of.meta else { return Part { ask: None, fraction: 1.0, slices: 1.0 } };
    let key = table.known_key(leaf.how, leaf.column, leaf.key_type, leaf.key);
    if let Some(key) = key {
        let index = table.open_index(table.indexes()[leaf.index].oid());
        let Some(clause) = keys::clause(*index, meta, &key) else {
            return Part { ask: None, fraction: 1.0, slices: 1.0 };
        };
        if let Some(part) = sampled(*index, meta, &clause, blocks) {
            return part;
        }
        of.clauses.push(clause);
        let ask = Some(Ask { index: place, clause: of.clauses.len() - 1 });
        return Part { ask, fraction: average(table, leaf, meta, blocks), slices: 0.0 };
    }
    let probes = meta.columns.get(usize::from(leaf.column)).map_or(1, |column| column.sizing.hashes);
    Part {
        ask: None,
        fraction: average(table, leaf, meta, blocks),
        slices: key_count(leaf) * f64::from(probes) + 1.0,
    }
}

/// The estimate for a list of too many keys, from some of them; None when the list is short enough to be asked about.
fn sampled(index: Rel, meta: &Meta, clause: &Clause, blocks: u32) -> Option<Part> {
    let Test::Keys(keys) = &clause.test else { return None };
    let probes = meta.columns.get(usize::from(clause.column)).map_or(1, |column| column.sizing.hashes);
    let ranges = f64::from(meta.ranges_in(blocks));
    // Pages for one key: a slice for each probe in each segment, which has at most a page of ranges.
    let each = f64::from(probes) * (ranges / RANGES_A_PAGE).ceil();
    let affordable = (probe::pages_left() as f64 / each) as usize / 2;
    let most = affordable.clamp(1, MOST_KEYS);
    if keys.len() <= most {
        return None;
    }
    // Hashes are sorted, so that every so-many-th is a random choice.
    let sample = (0..most).map(|i| keys[i * keys.len() / most]).collect();
    let clause = Clause { column: clause.column, test: Test::Keys(sample) };
    let pruned = probe::probe(index, meta, vec![clause], blocks)?;
    let survived = pruned.ranges.count() as f64 / ranges.max(1.0);
    let times = keys.len() as f64 / most as f64;
    let fraction = 1.0 - (1.0 - survived.min(1.0)).powf(times);
    Some(Part { ask: None, fraction, slices: (pruned.slices as f64 * times).min(f64::from(index.blocks())) })
}

fn key_count(leaf: &Leaf<'_>) -> f64 {
    if leaf.how == Match::Array { UNKNOWN_KEYS } else { 1.0 }
}

/// Part of the ranges that survive a test, on average over keys.
fn average(table: &Table<'_>, leaf: &Leaf<'_>, meta: &Meta, blocks: u32) -> f64 {
    let ranges = f64::from(meta.ranges_in(blocks)).max(1.0);
    let summarized = f64::from(meta.watermark).min(ranges);
    let rate = meta.columns.get(usize::from(leaf.column)).map_or(1.0, |column| column.rate);
    let rows = table.selectivity(leaf.from) * table.rows();
    let clustered = (rows / (table.rows() / ranges).max(1.0)).ceil();
    let attribute = table.indexes()[leaf.index].attribute(leaf.column);
    let order = attribute.map_or(0.0, |attribute| table.correlation(attribute)).powi(2);
    let with_rows = (order * clustered + (1.0 - order) * rows).min(ranges);
    let surviving = (key_count(leaf) * rate + with_rows / ranges).min(1.0);
    ((ranges - summarized + summarized * surviving) / ranges).clamp(0.0, 1.0)
}

/// Part of the ranges that a condition lets through by averages; of known tests only where `with_known` says so, since
/// the others have been counted.
fn fraction(condition: &Condition<Part>, with_known: bool) -> f64 {
    match condition {
        Condition::And(parts) => parts.iter().map(|part| fraction(part, with_known)).product(),
        Condition::Or(parts) => {
            let is_counted = condition.leaves().iter().all(|part| part.ask.is_some());
            if is_counted && !with_known {
                return 1.0;
            }
            1.0 - parts.iter().map(|part| 1.0 - fraction(part, true)).product::<f64>()
        }
        Condition::Leaf(part) if part.ask.is_some() && !with_known => 1.0,
        Condition::Leaf(part) => part.fraction,
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
    let (random, sequential) = table.page_costs();
    let loops = outer.map_or(1.0, |outer| table.loop_count(outer));
    // Repeated runs share pages.
    let slices = (estimate.slices / loops.sqrt()).min(estimate.index_blocks);
    let consult = slices * random.min(sequential * 2.0) + estimate.words * table.operator_cost() * 0.1;
    let pages = estimate.heap_blocks;
    let read = if loops > 1.0 { table.pages_fetched(pages * loops) / loops } else { pages }.min(pages);
    let runs = estimate.runs.min(read);
    let io = runs * random + (read - runs) * sequential;
    let (startup, per_row) = table.row_costs(outer);
    let blocks = f64::from(table.blocks().max(1));
    let rows = (per_row * table.rows() / blocks + OPERATORS_A_PAGE * table.operator_cost()) * pages;
    let startup = consult + startup;
    Cost { startup, total: startup + io + rows, shared: rows }
}
