//! Rebuilding maps that have many pairs of rows that are gone.
//!
//! A map does not tell which of its pairs are superfluous. So some ranges of the table are read, and the pairs that
//! some pages of the maps have of these ranges are looked up among the keys found there ([`stale_fraction`]). That
//! costs the same for a map of any size.
//!
//! If too many pairs are superfluous, ranges of the table are read again. All neighbouring maps of one form and the
//! additions to them become one map: of the ranges that were read it has the keys found there, of all others the pairs
//! that the old maps had. That is one pass over the sorted numbers. If the caller may not read the whole table, the
//! directory notes where the next maintenance goes on, until it has come to the end of the table.

use super::collect::RangeCollector;
use super::place_map::{SpillFile, each_pair};
use super::rebuild_work::RebuildWork;
use crate::pages::directory::Directory;
use crate::pages::entry::{Rescan, Segment};
use crate::pages::map::{self, Map, MapWriter, NewMap, RunNumbers, Sources};
use crate::pages::meta::MapForm;
use crate::pages::miss::{Fetch, Miss};
use crate::pages::upkeep::regions::{self, Region};
use crate::pages::upkeep::rescan::{self, Replaced};
use crate::pg::{Rel, error::IndexResult, memory};
use skip_map::key_part::KeyPart;
use skip_map::{Coding, Each, MergeSource, Merged, Sorter, most_pages};
use skip_scan::RangeSet;
use std::collections::HashSet;
use std::ops::Range;

/// Maps are rebuilt if more than this fraction of their pairs is estimated to be superfluous.
const WORTH: f64 = 0.2;
/// Blocks of the table that are read for that estimate, in whole ranges.
const SAMPLED_BLOCKS: u32 = 256;
/// The least and the greatest number of these ranges.
const SAMPLED_RANGES: (u32, u32) = (16, 256);
/// Of a large table, one range of this number of ranges is read. The most pages of maps that are read then have some
/// 200 pairs of these ranges, whatever the size of the table.
const RANGES_A_SAMPLE: u32 = 50_000;
/// Pairs of these ranges that should be looked up for the estimate.
const SAMPLED_PAIRS: u64 = 500;
/// With fewer pairs than this the estimate counts as 0.
const LEAST_PAIRS: u64 = 50;
/// The least and the greatest number of pages of maps that are read for the estimate.
const SAMPLED_PAGES: (u64, u64) = (64, 4096);
/// If the memory has room for some of the pairs only, each halving of them doubles the pages that may be read. This
/// often at most, so 128 MB are read.
const MOST_DOUBLINGS: u32 = 2;
/// Memory for a pair that was read of the table, at most: a set has two to four places of nine bytes for each, of both
/// sizes while it grows.
const BYTES_A_SAMPLED_PAIR: usize = 64;
/// Blocks of the table that are read between two looks at the size of the delta.
const BLOCKS_A_CHECK: u32 = 64;
/// Pairs on a page, roughly.
const PAIRS_PER_MAP_PAGE: u64 = 2500;

/// Rebuilds maps that are worth it, reading at most about `blocks` blocks of the table for each column.
///
/// # Errors
/// Damage to the index.
pub fn rebuild<'a>(
    directory: &mut Directory<'a>,
    work: &mut RebuildWork<'a, '_>,
    blocks: u32,
) -> IndexResult<()> {
    for column in 0..work.meta.columns.len() as u16 {
        rebuild_column(directory, work, column, (blocks / work.meta.pages_per_range).max(1))?;
    }
    Ok(())
}

/// Rebuilds maps of a column that are worth it, reading at most `most` ranges of the table besides samples.
fn rebuild_column<'a>(
    directory: &mut Directory<'a>,
    work: &mut RebuildWork<'a, '_>,
    column: u16,
    most: u32,
) -> IndexResult<()> {
    let mut left = most;
    let mut next = rescan::next(directory, column);
    let mut begin = 0;
    if let Some(noted) = next {
        let group =
            adjacent_maps(directory, column).into_iter().find(|group| group.ranges().contains(&noted));
        begin = group.as_ref().map_or(0, |group| group.first);
        if group.is_none() {
            rescan::remove_next(directory, column)?;
            next = None;
        }
    }
    // What folds and rescans retire must not be read any more, so the maps are listed anew each time.
    let from_on = |directory: &Directory<'_>, begin: u32| {
        adjacent_maps(directory, column).into_iter().find(|group| group.first >= begin)
    };
    while left > 0
        && let Some(group) = from_on(directory, begin)
    {
        begin = group.end;
        let from = next.take();
        // All pairs of a group are written again, however few ranges are read.
        if from.is_none() && left < most && left < (most / 2).min(group.end - group.first) {
            break;
        }
        if from.is_none() && stale_fraction(directory.index(), work, &group)? <= WORTH {
            continue;
        }
        work.fold(directory)?;
        // Folding may have published an addition.
        let now = from_on(directory, group.first).filter(|now| now.ranges() == group.ranges());
        let Some(group) = now else { break };
        left -= replace(directory, work, &group, from.unwrap_or(group.first), left)?;
    }
    Ok(())
}

/// Adjacent maps of one form of a column, and the additions within their ranges.
struct AdjacentMaps {
    column: u16,
    first: u32,
    end: u32,
    form: MapForm,
    /// Maps and additions.
    segments: Vec<Segment>,
}

impl AdjacentMaps {
    /// Its ranges.
    fn ranges(&self) -> Range<u32> {
        self.first..self.end
    }

    /// Its first part of a range, counted from the table's first one.
    fn first_part(&self) -> u64 {
        u64::from(self.first) * u64::from(self.form.parts)
    }
}

/// The maps of a column, those together that can become one map, but for maps that are being merged.
fn adjacent_maps(directory: &Directory<'_>, column: u16) -> Vec<AdjacentMaps> {
    let (regions, additions) = (regions::of_column(directory, column), directory.additions(column));
    let of = |group: &[Region]| {
        let (first, end) = (group.first()?.first_range, group.last()?.end);
        let form = group.first()?.first()?.map()?.form;
        let is_inside = |s: &&Segment| first <= s.first_range && s.end_range() <= end;
        let inside = additions.iter().filter(is_inside).copied();
        let segments: Vec<Segment> = group.iter().flat_map(Region::segments).chain(inside).collect();
        // Maps that overlap are being merged. An addition of another form would be retired with these maps.
        let is_sound = group.iter().all(|region| region.next_part().is_none())
            && segments.iter().all(|s| s.map().is_some_and(|size| size.form == form));
        is_sound.then_some(AdjacentMaps { column, first, end, form, segments })
    };
    regions.chunk_by(Region::joins).filter_map(of).collect()
}

/// The part of the pairs that no row has, estimated; 0 if too few pairs could be looked up.
fn stale_fraction(
    index: Rel<'_>,
    work: &mut RebuildWork<'_, '_>,
    adjacent: &AdjacentMaps,
) -> IndexResult<f64> {
    let maps = adjacent.segments.iter().map(|s| Map::of(index, s)).collect::<IndexResult<Vec<_>>>()?;
    let pages: u64 = maps.iter().map(|map| u64::from(map.data_pages())).sum();
    let ranges = adjacent.end - adjacent.first;
    let (least, most) = SAMPLED_RANGES;
    let usual = (SAMPLED_BLOCKS / work.meta.pages_per_range).clamp(least, most);
    let sampled = usual.max(ranges / RANGES_A_SAMPLE).min(ranges);
    if pages == 0 || sampled == 0 {
        return Ok(0.0);
    }
    let coding = map::coding(adjacent.form, ranges)?;
    let sample = sample_table(index, work, adjacent, coding, sampled);
    let wanted = SAMPLED_PAIRS * u64::from(ranges) / (u64::from(sampled) * PAIRS_PER_MAP_PAGE);
    let wanted = wanted.saturating_mul(1 << sample.zeros);
    let most_read = SAMPLED_PAGES.1 << sample.zeros.min(MOST_DOUBLINGS);
    let count = wanted.clamp(SAMPLED_PAGES.0, most_read).min(pages);
    let (mut found, mut stale) = (0u64, 0u64);
    for i in 0..count {
        memory::check_for_interrupts();
        let mut page = i * pages / count;
        for map in &maps {
            if let Some(behind) = page.checked_sub(map.data_pages().into()) {
                page = behind;
                continue;
            }
            let first = map.first_part() - adjacent.first_part();
            let mut each = |number: u64| {
                let (fingerprint, part) = map.coding().split(number);
                let part = u64::from(part) + first;
                if sample.has(fingerprint) && sample.closed.contains(part / u64::from(adjacent.form.parts)) {
                    found += 1;
                    let number = fingerprint * u64::from(coding.ranges()) + part;
                    stale += u64::from(!sample.numbers.contains(&number));
                }
            };
            map.numbers_of_page(page as u32, |numbers| numbers.for_each(&mut each))
                .map_err(Miss::into_damage)?;
            break;
        }
    }
    Ok(if found < LEAST_PAIRS { 0.0 } else { stale as f64 / found as f64 })
}

/// What was read of the table to find superfluous pairs.
struct SampledPairs {
    /// The ranges that could be hashed, counted from the maps' first one.
    closed: RangeSet,
    /// The numbers of their pairs, of some fingerprints only if there are too many for the memory.
    numbers: HashSet<u64>,
    /// Those fingerprints end with this number of zero bits.
    zeros: u32,
}

impl SampledPairs {
    /// Whether the pairs of a fingerprint are in the sample.
    fn has(&self, fingerprint: u64) -> bool {
        fingerprint.trailing_zeros() >= self.zeros
    }

    /// Adds a pair. If there are more than `most` then, half of the fingerprints are dropped.
    fn add(&mut self, coding: Coding, key: u64, part: u32, most: usize) {
        if self.has(coding.fingerprint(key)) {
            self.numbers.insert(coding.number(key, part));
        }
        while self.numbers.len() > most && self.zeros < u32::from(Coding::MOST_FINGERPRINT_BITS) {
            self.zeros += 1;
            let least = self.zeros;
            self.numbers.retain(|&number| coding.split(number).0.trailing_zeros() >= least);
        }
    }
}

/// Reads evenly spaced ranges of the table.
fn sample_table(
    index: Rel<'_>,
    work: &mut RebuildWork<'_, '_>,
    adjacent: &AdjacentMaps,
    coding: Coding,
    count: u32,
) -> SampledPairs {
    let ranges = adjacent.end - adjacent.first;
    let mut sample =
        SampledPairs { closed: RangeSet::empty(ranges.into()), numbers: HashSet::new(), zeros: 0 };
    let mut collector = RangeCollector::new(work.heap, index, work.meta, &work.options());
    let (blocks, most) = (work.heap.blocks(), work.memory() / BYTES_A_SAMPLED_PAIR);
    for i in 0..count {
        let range = (u64::from(i) * u64::from(ranges) / u64::from(count)) as u32;
        collector.collect(work.meta.blocks_of(adjacent.first + range, blocks));
        let contents = collector.columns[usize::from(adjacent.column)].contents();
        if !contents.state.open {
            sample.closed.insert(range.into());
            each_pair(adjacent.form.parts, range, contents, |key, part| sample.add(coding, key, part, most));
        }
    }
    sample
}

/// Pairs that were read from the table.
struct Scanned {
    sorter: Sorter<SpillFile>,
    /// At least the number of distinct pairs.
    pairs: u64,
    /// The ranges that they are all pairs of, counted from the maps' first one.
    ranges: RangeSet,
}

/// Reads at most `most` ranges of the table from range `from` on, and replaces the maps. Returns the number of ranges.
fn replace<'a>(
    directory: &mut Directory<'a>,
    work: &mut RebuildWork<'a, '_>,
    adjacent: &AdjacentMaps,
    from: u32,
    most: u32,
) -> IndexResult<u32> {
    let from = from.clamp(adjacent.first, adjacent.end);
    let to = from.saturating_add(most).min(adjacent.end);
    let replaced = Replaced { column: adjacent.column, first_range: adjacent.first, end: adjacent.end };
    let next = (to < adjacent.end).then_some(to);
    for rescan in rescan::begin(directory, &[replaced])? {
        let scanned = read(directory, work, adjacent, from..to, &rescan)?;
        write(directory, adjacent, scanned)?;
        rescan::end(directory, rescan, next)?;
    }
    Ok(to - from)
}

/// Reads ranges of the table. Those that cannot be hashed now keep the pairs that they have.
fn read<'a>(
    directory: &mut Directory<'a>,
    work: &mut RebuildWork<'a, '_>,
    adjacent: &AdjacentMaps,
    ranges: Range<u32>,
    rescan: &Rescan,
) -> IndexResult<Scanned> {
    let width = adjacent.end - adjacent.first;
    let coding = map::coding(adjacent.form, width)?;
    let expected = adjacent.segments.iter().filter_map(Segment::map).map(|size| u64::from(size.pairs)).sum();
    let sorter = Sorter::new(coding, work.memory(), expected, SpillFile::default());
    let mut scanned = Scanned { sorter, pairs: 0, ranges: RangeSet::empty(width.into()) };
    let mut collector = RangeCollector::new(work.heap, directory.index(), work.meta, &work.options());
    // The size of the table is read only now, when inserts know of the rescan.
    let blocks = work.heap.blocks();
    let mut unchecked = 0;
    for range in ranges {
        if unchecked >= BLOCKS_A_CHECK {
            work.fold_during(directory, rescan)?;
            unchecked = 0;
        }
        let of_range = work.meta.blocks_of(range, blocks);
        unchecked += of_range.end - of_range.start;
        collector.collect(of_range);
        let contents = collector.columns[usize::from(adjacent.column)].contents();
        if contents.state.open {
            continue;
        }
        scanned.ranges.insert((range - adjacent.first).into());
        each_pair(adjacent.form.parts, range - adjacent.first, contents, |key, part| {
            scanned.pairs += 1;
            let Ok(()) = scanned.sorter.push(key, part);
        });
    }
    let failure = collector.failure.take();
    work.failure = work.failure.take().or(failure);
    Ok(scanned)
}

/// Publishes the new map: the pairs that were read, and those of the old maps in other ranges.
fn write(directory: &mut Directory<'_>, adjacent: &AdjacentMaps, scanned: Scanned) -> IndexResult<()> {
    let index = directory.index();
    let width = adjacent.end - adjacent.first;
    let coding = map::coding(adjacent.form, width)?;
    let is_whole = scanned.ranges.count() == u64::from(width);
    let old: &[Segment] = if is_whole { &[] } else { &adjacent.segments };
    let old = Sources::of(index, old)?;
    let pairs = old.most_pairs(KeyPart::WHOLE).map_err(Miss::into_damage)? + scanned.pairs;
    let new = NewMap {
        column: adjacent.column,
        first_range: adjacent.first,
        width,
        form: adjacent.form,
        is_addition: false,
        key_part: KeyPart::WHOLE,
        depth: map::depth_of(adjacent.form, most_pages(coding, pairs).into()),
        from: 0,
        is_build: false,
    };
    let sources = old.of_merge(KeyPart::WHOLE, |_| 0);
    let mut writer = MapWriter::new(directory, new)?;
    let mut kept = KeptPairs::new(sources, coding, adjacent, &scanned.ranges).map_err(Miss::into_damage)?;
    scanned
        .sorter
        .finish::<Miss>(|numbers| {
            numbers.iter().try_for_each(|&number| {
                kept.up_to(number, |number| writer.push(number))?;
                Ok(writer.push(number)?)
            })
        })
        .and_then(|()| kept.up_to(u64::MAX, |number| writer.push(number)))
        .map_err(Miss::into_damage)?;
    writer.finish()
}

/// The pairs of the old maps in ranges that were not read again.
struct KeptPairs<'m, 'a> {
    old: Each<Merged<RunNumbers<'m, 'a>>>,
    coding: Coding,
    /// Number of parts of a range.
    parts: u32,
    /// Ranges, counted from the maps' first one.
    dropped: &'m RangeSet,
    next: Option<u64>,
}

impl<'m, 'a> KeptPairs<'m, 'a> {
    fn new(
        sources: Vec<MergeSource<RunNumbers<'m, 'a>>>,
        coding: Coding,
        adjacent: &AdjacentMaps,
        dropped: &'m RangeSet,
    ) -> Fetch<Self> {
        let old = Merged::new(sources, coding, adjacent.first_part() as u32)?.each();
        let mut kept = Self { old, coding, parts: adjacent.form.parts, dropped, next: None };
        kept.advance()?;
        Ok(kept)
    }

    fn advance(&mut self) -> Fetch<()> {
        loop {
            self.next = self.old.next().transpose()?;
            let range = |number: u64| self.coding.split(number).1 / self.parts;
            let is_kept = |number: u64| !self.dropped.contains(range(number).into());
            if self.next.is_none_or(is_kept) {
                return Ok(());
            }
        }
    }

    /// Calls `each` with the numbers below `end`. No number is in a range that was read again, so none is `end`.
    fn up_to(&mut self, end: u64, mut each: impl FnMut(u64) -> IndexResult<()>) -> Fetch<()> {
        while let Some(number) = self.next.filter(|&number| number < end) {
            each(number)?;
            self.advance()?;
        }
        Ok(())
    }
}
