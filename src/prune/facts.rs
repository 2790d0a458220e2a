//! What a session knows of an index without a lookup: its meta page, its directory, and the numbers and sizes of its
//! segments.
//!
//! Planning reads the same indexes again and again, thousands of them where tables have many partitions. So the result
//! is kept for each index as long as the checksum of its meta page stays the same: every change of that page changes
//! the checksum. While the page is in the buffer where it was last, the index need not even be opened
//! ([`Facts::known`]). The meta page changes shortly before or after segments are added or retired. For costs a result
//! that is slightly out of date does no harm.
//!
//! The executor takes the meta page from here if its checksum is the same ([`Facts::current`]), and the directory if
//! the checksums of its pages are ([`directory::is_unchanged`], which says why that suffices).
//!
//! Invariant: meta page and directory belong together. The directory was read after that meta page, as a lookup reads
//! it, and the checksum is that of the meta page that was read.

use crate::pages::bounds;
use crate::pages::directory::{self, Live, LiveSegment};
use crate::pages::entry::{FilterSize, MapSize, Segment, SegmentKind};
use crate::pages::map::Map;
use crate::pages::meta::{ColumnMeta, MAX_COLUMNS, META_BLOCK, MapForm, Meta, SegmentLayout};
use crate::pg::options::{FALSE_POSITIVE_RATE, PAGES_PER_RANGE};
use crate::pg::page::{self, Recent};
use crate::pg::{Rel, error::IndexResult, relation_changes};
use pgrx::pg_sys::Oid;
use skip_bounds::overlap::overlap;
use skip_filter::Sizing;
use skip_filter::params::theoretical_rate;
use skip_map::key_part::KeySet;
use skip_scan::expected::slices_of_key;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// The meta page and the directory of an index, and the numbers and sizes of its segments.
pub struct Facts {
    pub meta: Rc<Meta>,
    /// The directory; None if it could not be read.
    pub live: Option<Rc<Live>>,
    /// For each column, its segments.
    columns: Vec<Segments>,
}

/// The numbers and sizes of the segments of a column.
#[derive(Default)]
struct Segments {
    filters: Vec<Filters>,
    /// Number of the parts of ranges that maps summarize.
    in_maps: f64,
    /// Number of the parts in maps that an absent key is expected to match.
    false_parts: f64,
    /// Pages of maps, or of bounds, that the lookup of one key reads.
    map_pages: f64,
    /// Segments of bounds.
    of_bounds: Vec<Segment>,
    /// The part of the ranges with bounds that has a value between its bounds.
    overlap: Option<f64>,
}

/// Filters of the same size.
struct Filters {
    bits: u32,
    num_probes: u8,
    /// Number of ranges, and of segments, that have filters of this size.
    ranges: f64,
    segments: usize,
}

/// Filter sizes that are distinguished in a column; a further size is counted as the last one. Sizes change with the
/// number of distinct values per range only, so more are rare, and the result is used for costs only.
const MOST_KINDS: usize = 16;
/// The most indexes that are remembered: a few megabytes in each session. Planning over more partitions than these
/// reads their directories each time.
const MOST_INDEXES: usize = 16_384;

/// Pages of bounds that are read for the facts of a column, at most, and ranges that are taken of each.
const SAMPLED_PAGES: u64 = 8;
const SAMPLED_RANGES: u32 = 32;

/// What is remembered of an index.
#[derive(Clone)]
struct Remembered {
    /// The checksum of the meta page.
    checksum: u64,
    /// The buffer that the page was in; None for temporary tables.
    place: Option<Recent>,
    facts: Rc<Facts>,
}

thread_local! {
    /// By the OID of the index.
    static KNOWN: RefCell<HashMap<Oid, Remembered>> = RefCell::default();
    /// Whether the server knows [`forget`].
    static IS_REGISTERED: Cell<bool> = const { Cell::new(false) };
}

/// Forgets an index that has a new file, for instance.
fn forget(index: Option<Oid>) {
    KNOWN.with_borrow_mut(|known| match index {
        Some(index) => drop(known.remove(&index)),
        None => known.clear(),
    });
}

impl Facts {
    /// The remembered facts of an index that is locked and need not be open. None if none are remembered, if the meta
    /// page has changed, or if it is not in the buffer where it was last; of a temporary table's index always.
    pub fn known(index: Oid) -> Option<Rc<Self>> {
        // Nothing is borrowed while the buffer is looked at: the server may raise an error.
        let Remembered { checksum, place, facts } = KNOWN.with_borrow(|known| known.get(&index).cloned())?;
        (place?.checksum()? == checksum).then_some(facts)
    }

    /// As [`Facts::known`], for the executor: the meta page is as it is now. The directory may have changed since
    /// ([`directory::is_unchanged`]). Counts the meta page as read.
    pub fn current(index: Rel) -> Option<Rc<Self>> {
        let Remembered { checksum, place, facts } =
            KNOWN.with_borrow(|known| known.get(&index.oid()).cloned())?;
        let found = place.filter(|place| place.is_of(index))?.checksum()?;
        page::count_page();
        (found == checksum).then_some(facts)
    }

    /// Forgets the facts of an index whose directory has changed.
    pub fn forget(index: Oid) {
        forget(Some(index));
    }

    /// The facts of an index, remembered or read.
    ///
    /// # Errors
    /// Damage to the meta page, or an index without pages. A damaged directory counts as one without segments here.
    pub fn of(index: Rel) -> IndexResult<Rc<Self>> {
        if !IS_REGISTERED.replace(true) {
            relation_changes::on_change(forget);
        }
        if let Some(facts) = Self::known(index.oid()) {
            return Ok(facts);
        }
        let (checksum, place) = page::peek_checksum(index, META_BLOCK)?;
        let known = KNOWN.with_borrow(|known| known.get(&index.oid()).cloned());
        // Nothing is borrowed here: reading may raise an error.
        let (facts, checksum) = match known {
            Some(known) if known.checksum == checksum => (known.facts, checksum),
            _ => {
                let (facts, checksum) = Self::read(index)?;
                (Rc::new(facts), checksum)
            }
        };
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= MOST_INDEXES {
                known.clear();
            }
            known.insert(index.oid(), Remembered { checksum, place, facts: facts.clone() });
        });
        Ok(facts)
    }

    /// The facts assumed for an index that cannot be read, or is hypothetical: that it was built with the default
    /// options and summarizes the whole table. All columns are equal.
    pub fn assumed() -> Self {
        let (rate, pages_per_range) = (FALSE_POSITIVE_RATE.2, PAGES_PER_RANGE.2 as u32);
        let sizing = Sizing::for_rate(rate).unwrap_or(Sizing { bits_per_row: 20, num_probes: 14 });
        let form = MapForm { fingerprint_bits: 31, parts: pages_per_range };
        let column = ColumnMeta { canon: 0, sizing, rate, layout: SegmentLayout::Map(form), sample: None };
        let mut meta = Meta::new(0, pages_per_range, vec![column; MAX_COLUMNS]);
        meta.watermark = u32::MAX;
        // A large map of single pages, of which a lookup reads a fence page and a data page; no page is read in vain.
        let segments = || Segments { in_maps: f64::MAX, map_pages: 2.0, ..Segments::default() };
        Self { meta: Rc::new(meta), live: None, columns: (0..MAX_COLUMNS).map(|_| segments()).collect() }
    }

    /// The facts, and the checksum of the meta page.
    fn read(index: Rel) -> IndexResult<(Self, u64)> {
        let (meta, checksum) = Meta::read_with_checksum(index)?;
        let mut columns: Vec<Segments> = meta.columns.iter().map(|_| Segments::default()).collect();
        let live = directory::live(index, &meta, |_| KeySet::ALL).ok().map(Rc::new);
        let of_all_keys = |&segment: &Segment| LiveSegment { segment, keys: KeySet::ALL };
        let segments =
            |live: &Live| [live.segments.clone(), live.additions.iter().map(of_all_keys).collect()].concat();
        for segment in live.as_deref().map(segments).unwrap_or_default() {
            let Some(column) = columns.get_mut(usize::from(segment.column)) else { continue };
            match segment.kind {
                SegmentKind::Filters(size) => column.add_filters(size, f64::from(segment.width)),
                SegmentKind::Bounds => column.of_bounds.push(segment.segment),
                SegmentKind::Map(size) | SegmentKind::Addition(size) => {
                    // A map of a part of the keys is read for these only.
                    let share = segment.keys.share();
                    let pages = Map::of(index, &segment).map_or(1, |map| map.likely_pages_of_key());
                    column.add_map(size, pages as f64 * share);
                    let parts = f64::from(segment.width) * f64::from(segment.parts()) * share;
                    column.in_maps += if segment.summarizes() { parts } else { 0.0 };
                }
            }
        }
        columns.iter_mut().for_each(|column| column.sum_up_bounds(meta.bind(index)));
        Ok((Self { meta: Rc::new(meta), live, columns }, checksum))
    }

    /// Slices, or pages of maps, that the lookup of one key in a column reads.
    pub fn index_reads(&self, column: u16) -> f64 {
        let of = |kind: &Filters| {
            let segments = kind.segments as f64;
            slices_of_key(kind.ranges / segments, kind.num_probes) * segments
        };
        let column = self.columns.get(usize::from(column));
        column.map_or(0.0, |column| column.filters.iter().map(of).sum::<f64>() + column.map_pages)
    }

    /// The expected false-positive rate of a column for ranges, or parts of ranges if it has maps, with at most
    /// `distinct` distinct values: the target rates of its filters, or lower ones, because many are larger than they
    /// need to be.
    pub fn rate(&self, column: u16, distinct: f64) -> f64 {
        let number = usize::from(column);
        let Some((column, frozen)) = self.columns.get(number).zip(self.meta.columns.get(number)) else {
            return 1.0;
        };
        let target = frozen.rate;
        if !column.of_bounds.is_empty() {
            return column.overlap.unwrap_or(1.0);
        }
        let ranges = column.filters.iter().map(|kind| kind.ranges).sum::<f64>() + column.in_maps;
        if ranges == 0.0 {
            return target;
        }
        let of = |kind: &Filters| {
            let rate = theoretical_rate(f64::from(kind.bits) / distinct.max(1.0), kind.num_probes);
            rate.min(frozen.rate_of_filters(kind.num_probes)) * kind.ranges
        };
        let false_parts = column.false_parts.min(target * column.in_maps);
        (column.filters.iter().map(of).sum::<f64>() + false_parts) / ranges
    }
}

impl Segments {
    fn add_filters(&mut self, size: FilterSize, width: f64) {
        let FilterSize { bits, num_probes } = size;
        let kinds = &mut self.filters;
        let is_full = kinds.len() >= MOST_KINDS;
        match kinds
            .iter_mut()
            .rev()
            .find(|kind| is_full || (kind.bits, kind.num_probes) == (bits, num_probes))
        {
            Some(kind) => (kind.ranges, kind.segments) = (kind.ranges + width, kind.segments + 1),
            None => kinds.push(Filters { bits, num_probes, ranges: width, segments: 1 }),
        }
    }

    /// Reads the bounds of some ranges. Pages that are damaged, or not there any more, tell nothing.
    fn sum_up_bounds(&mut self, index: Rel) {
        let pages: u64 = self.of_bounds.iter().map(|segment| u64::from(segment.blocks)).sum();
        let picked = pages.min(SAMPLED_PAGES);
        let mut sample = Vec::new();
        for number in 0..picked {
            let mut page = number * pages / picked;
            for segment in &self.of_bounds {
                if page < segment.blocks.into() {
                    let found = bounds::sample(index, segment, page as u32, SAMPLED_RANGES);
                    sample.extend(found.unwrap_or_default());
                    break;
                }
                page -= u64::from(segment.blocks);
            }
        }
        self.overlap = overlap(&sample);
        // A summary, and the page to which it leads.
        self.map_pages += self.of_bounds.iter().map(|segment| f64::from(segment.blocks.min(2))).sum::<f64>();
    }

    fn add_map(&mut self, size: MapSize, pages: f64) {
        self.false_parts += f64::from(size.pairs) / f64::from(size.form.fingerprint_bits).exp2();
        self.map_pages += pages;
    }
}
