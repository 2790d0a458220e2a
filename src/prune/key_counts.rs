//! How many distinct keys the maps of a column have, and in how many ranges a key is on average: from a sample of their
//! pairs ([`skip_map::key_count`]), for the planner.
//!
//! A sample is kept for each column as long as nearly all pairs are in the segments that it was taken of. Their number
//! alone does not tell: it may be the same for other values. Reading a sample counts as reading pages for planning
//! ([`super::planner_lookup`]), of which it leaves half to lookups. A column of which nothing is known that way, or
//! whose pages are damaged or recycled at the moment, has no counts: the planner has its own statistics.

use super::facts::Facts;
use super::planner_lookup;
use crate::pages::directory::Live;
use crate::pages::entry::Segment;
use crate::pages::map::{self, Map};
use crate::pages::miss::{Fetch, Miss};
use crate::pg::{Rel, page, settings};
use pgrx::pg_sys::Oid;
use skip_map::KeyCounts;
use skip_map::key_count::{MOST_PAIRS_OF_WINDOW, windows};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// A new sample is taken if more than 1/8 of the pairs are in segments that the old sample did not have, or were in
/// segments that are gone.
const CHANGE: u64 = 8;
/// The most columns whose samples are kept: some megabytes in each session, at most.
const MOST_COLUMNS: usize = 4096;

/// An index column: the index's OID, the column.
type Column = (u32, u16);

/// The counts of a sample, and the segments of which it was taken.
struct KnownCounts {
    /// The number of the index's file. Another file gives the same ids to other segments.
    file: u32,
    /// Ids, ascending, and the number of pairs in all of them.
    segments: Vec<u64>,
    pairs: u64,
    counts: ColumnCounts,
    /// The directory that was compared with this last, as planning remembers it.
    compared: Weak<Live>,
}

impl KnownCounts {
    /// Whether nearly all pairs of these segments, which have `pairs` in all, are those that it was taken of.
    fn is_of<'s>(&self, maps: impl Iterator<Item = &'s Segment>, pairs: u64) -> bool {
        let common = pairs_of(maps.filter(|segment| self.segments.binary_search(&segment.id).is_ok()));
        pairs.max(self.pairs).saturating_sub(common) <= self.pairs / CHANGE
    }
}

thread_local! {
    static KNOWN: RefCell<BTreeMap<Column, KnownCounts>> = RefCell::default();
}

/// What the maps of a column count, by a sample.
#[derive(Clone, Copy)]
pub struct ColumnCounts {
    counts: KeyCounts,
    /// Bits of the fingerprints of the maps that were sampled.
    fingerprint_bits: u8,
    /// Pairs of all maps for each pair of these.
    pairs_in_all: f64,
}

impl ColumnCounts {
    /// The number of parts of ranges that a key is in, on average.
    pub fn pairs_of_key(&self) -> Option<f64> {
        let sampled = self.counts.pairs_of_key()?;
        Some(sampled * self.pairs_in_all / self.keys_in_all(sampled))
    }

    /// The number of distinct keys.
    pub fn distinct(&self) -> Option<f64> {
        let distinct = self.counts.distinct(self.fingerprint_bits)?;
        Some(distinct * self.keys_in_all(self.counts.pairs_of_key()?))
    }

    /// Keys of all maps for each key of those that were sampled, which has `sampled` pairs there, on average. Keys of a
    /// single pair are taken to be in no other maps, those of two pairs or more in all of them.
    fn keys_in_all(&self, sampled: f64) -> f64 {
        let single = (2.0 / sampled - 1.0).clamp(0.0, 1.0);
        1.0 + (self.pairs_in_all - 1.0) * single
    }
}

/// Whether a column has maps.
fn has_maps(facts: &Facts, column: u16) -> bool {
    facts.meta.columns.get(usize::from(column)).is_some_and(|column| column.map().is_some())
}

/// The counts of a column with maps, if they are remembered and nothing has changed since the last query, as mostly.
/// Then the segments, which may be hundreds, are not compared, and the index need not be open.
pub fn remembered(index: Oid, facts: &Facts, column: u16) -> Option<ColumnCounts> {
    let live = facts.live.as_ref().filter(|_| has_maps(facts, column))?;
    let is_compared = |known: &&KnownCounts| std::ptr::eq(known.compared.as_ptr(), Rc::as_ptr(live));
    KNOWN.with_borrow(|known| {
        known.get(&(index.to_u32(), column)).filter(is_compared).map(|known| known.counts)
    })
}

/// The counts of a column with maps; None if it has none, or the sample cannot be read.
pub fn of_column(index: Rel, facts: &Facts, column: u16) -> Option<ColumnCounts> {
    if let Some(counts) = remembered(index.oid(), facts, column) {
        return Some(counts);
    }
    let live = facts.live.as_ref().filter(|_| has_maps(facts, column))?;
    let (key, file) = ((index.oid().to_u32(), column), index.file_number());
    let of_maps = live.of_column(column).iter().map(|live| &live.segment);
    let maps = of_maps.chain(live.additions.iter().filter(|s| s.column == column));
    let pairs = pairs_of(maps.clone());
    let known = |known: &mut BTreeMap<Column, KnownCounts>| {
        let known =
            known.get_mut(&key).filter(|known| known.file == file && known.is_of(maps.clone(), pairs))?;
        known.compared = Rc::downgrade(live);
        Some(known.counts)
    };
    if let Some(counts) = KNOWN.with_borrow_mut(known) {
        return Some(counts);
    }
    if !may_read() {
        return None;
    }
    let before = page::pages_read();
    // Nothing is borrowed here: reading may raise an error.
    let (fingerprint_bits, sampled) = main_form(maps.clone())?;
    let of_form = maps.clone().filter(|segment| segment.fingerprint_bits() == fingerprint_bits);
    let counts = sample(facts.meta.bind(index), of_form, fingerprint_bits, sampled);
    planner_lookup::spend(page::pages_read() - before);
    let counts = match counts {
        Ok(counts) => counts,
        Err(Miss::Damage(_)) => KeyCounts::default(), // not read again and again
        Err(Miss::Recycled(_)) => return None,
    };
    let pairs_in_all = pairs as f64 / sampled.max(1) as f64;
    let counts = ColumnCounts { counts, fingerprint_bits, pairs_in_all };
    let mut segments: Vec<u64> = maps.map(|segment| segment.id).collect();
    segments.sort_unstable();
    KNOWN.with_borrow_mut(|known| {
        if known.len() >= MOST_COLUMNS {
            known.clear();
        }
        known.insert(key, KnownCounts { file, segments, pairs, counts, compared: Rc::downgrade(live) });
    });
    Some(counts)
}

fn pairs_of<'s>(maps: impl Iterator<Item = &'s Segment>) -> u64 {
    maps.filter_map(Segment::map).map(|size| u64::from(size.pairs)).sum()
}

/// The fingerprint bits of the maps that have the most pairs, and their pairs. Maps of other lengths are not sampled: a
/// table that has grown has so many keys that the short fingerprints of its old maps tell few of them apart.
fn main_form<'s>(maps: impl Iterator<Item = &'s Segment>) -> Option<(u8, u64)> {
    let mut pairs = BTreeMap::<u8, u64>::new();
    for segment in maps {
        *pairs.entry(segment.fingerprint_bits()).or_default() += pairs_of([segment].into_iter());
    }
    pairs.into_iter().max_by_key(|&(_, pairs)| pairs)
}

/// Whether this planner run may read samples.
fn may_read() -> bool {
    planner_lookup::pages_left() * 2 > settings::plan_probe_pages()
}

/// Reads the pairs of a few intervals of fingerprints in maps with fingerprints of this length. NULL, and "has a
/// value", are no keys.
fn sample<'s>(
    index: Rel,
    maps: impl Iterator<Item = &'s Segment>,
    fingerprint_bits: u8,
    pairs: u64,
) -> Fetch<KeyCounts> {
    let maps = maps.map(|s| Map::of(index, s)).collect::<Result<Vec<_>, _>>()?;
    let (mut counts, mut found) = (KeyCounts::default(), Vec::new());
    'windows: for window in windows(fingerprint_bits, pairs) {
        found.clear();
        for map in &maps {
            let coding = map.coding();
            let marks = [map::NULL_KEY, map::VALUE_KEY].map(|mark| coding.fingerprint(mark));
            let ranges = u64::from(coding.ranges());
            for number in map.numbers_within(window.start * ranges..window.end * ranges)?.each() {
                let (fingerprint, part) = coding.split(number?);
                if found.len() >= MOST_PAIRS_OF_WINDOW {
                    continue 'windows;
                }
                if !marks.contains(&fingerprint) {
                    found.push((fingerprint, map.first_part() + u64::from(part)));
                }
            }
        }
        counts.add(&window, &mut found);
    }
    Ok(counts)
}
