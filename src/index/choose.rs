//! Chooses the layout of columns, and the parts of ranges that their maps tell apart, from a sample of the table.
//!
//! A build chooses before it writes the meta page. If the table has no complete range then, the choice is left to the
//! first maintenance that summarizes one; it is written, with a higher generation, before the watermark rises above 0.
//! So whoever finds a range below the watermark finds the choice as well. It is put off while most of the sample cannot
//! be hashed, such as values out of line of a transaction in progress: nothing is known of them.
//!
//! When the table has grown, new ranges may get lower rates ([`super::refine`]).
//!
//! A map takes as much room as filters with a rate of 10 %, and a lookup in it reads a few pages instead of a few for
//! each of some fourteen probes. So filters are chosen only for such a rate, or a higher one, that was set. Where
//! values have several keys and no rate is set, the kind of keys says it ([`KeyKind::default_rate`]).
//!
//! [`skip_map::choice`] says which parts of ranges a map tells apart.

use super::collect::{Failure, RangeCollector, RangeCollectorOptions};
use super::contents::ColumnContents;
use crate::pages::meta::{self, ColumnMeta, MOST_PARTS, MapForm, Meta, Sample, SegmentLayout, Wish};
use crate::pg::error::IndexResult;
use crate::pg::key_kind::KeyKind;
use crate::pg::options::{FALSE_POSITIVE_RATE, IndexLayout, Options, number};
use crate::pg::{Rel, fail, settings};
use pgrx::PgSqlErrorCode;
use skip_map::{PairCounts, fingerprint_bits_for};

/// The most pages of the table that are sampled: some tens of milliseconds.
const MOST_PAGES: u32 = 1024;
/// The most ranges that are sampled.
const MOST_RANGES: u32 = 64;
/// From this rate on filters are smaller than a map, if their slices fill the pages. Measured with 2 million unique
/// keys in ranges of 8 pages: at 0.05, filters take 242 pages and a map 227; at 0.1, 171 and 190. (By theory, filters
/// of rate 2^-x take 1.44 x bits per pair, but those of [`skip_filter::Sizing`] take some 1.55 x.) The same holds where
/// values have several keys: see docs/inside-sweep.md.
const RATE_OF_FILTERS: f64 = 0.1;
/// After this number of ranges of the sample, none of which can be hashed, the choice is put off.
const HOPELESS: u32 = 8;
/// How many times its present size a table may reach before a lookup reads more in vain than it may.
pub(super) const GROWTH: f64 = 10.0;
/// The most pages of the table that a lookup of one key reads in vain where values have several keys: 8 MB. Tables of
/// more than 8 GB get a lower rate than the default of the kind of keys.
pub(super) const MOST_IN_VAIN: f64 = 1000.0;
/// The most pages of the table that a lookup in filters reads in vain, on average: half of a range of 16 pages. To read
/// such a range takes as long as some fifteen probes, which is all that a lookup has by default. Tables of more than
/// 625 MB get a lower rate than the default, at a probe more for each halving.
const MOST_IN_VAIN_OF_FILTERS: f64 = 8.0;
/// A table with fewer rows is treated as one of that size, because it may grow.
const LEAST_ROWS: f64 = 10e6;
/// Rows of a page of the table, where there is no sample.
const ROWS_PER_PAGE: f64 = 100.0;

/// The layout of a column of a new index, before anything is known of the data. Raises an error if the options of the
/// column and of the index do not fit.
pub fn at_first(index: Rel, options: &Options, column: usize) -> SegmentLayout {
    if KeyKind::of_column(index, column) == KeyKind::Order {
        return SegmentLayout::Bounds;
    }
    let pages_per_range = options.pages_of_index(index);
    let own = options.pages_of(index, column);
    let has_parts = own.is_some_and(|own| own != pages_per_range);
    // The setting is only a default: filters do not divide ranges.
    let default = || match settings::default_layout() {
        IndexLayout::Filters if has_parts => IndexLayout::Map,
        layout => layout,
    };
    let layout = options.layout_of(index, column).unwrap_or_else(default);
    let fits = |own: &u32| {
        pages_per_range.is_multiple_of(*own)
            && pages_per_range / own <= MOST_PARTS
            && !(has_parts && layout == IndexLayout::Filters)
    };
    if let Some(own) = own.filter(|own| !fits(own)) {
        fail_pages(index, column, own, pages_per_range, layout);
    }
    match layout {
        IndexLayout::Filters => SegmentLayout::Filters,
        IndexLayout::Map | IndexLayout::Auto => SegmentLayout::NotChosen(Wish {
            is_map: layout == IndexLayout::Map,
            is_rate_set: options.set_rate_of(index, column).is_some(),
            parts: own.map(|own| pages_per_range / own),
        }),
    }
}

/// The target rate of a column of a new index with this layout, over a table of `blocks` blocks.
pub fn rate_at_first(
    index: Rel,
    options: &Options,
    column: usize,
    layout: SegmentLayout,
    blocks: u32,
) -> f64 {
    let rate = options.rate_of(index, column);
    if layout != SegmentLayout::Filters || options.set_rate_of(index, column).is_some() {
        return rate;
    }
    let of_table = || MOST_IN_VAIN_OF_FILTERS / f64::from(blocks.max(1));
    let kind = KeyKind::of_column(index, column);
    rate_of_kind(kind, blocks).unwrap_or_else(|| rate.min(of_table())).max(FALSE_POSITIVE_RATE.0)
}

fn fail_pages(index: Rel, column: usize, own: u32, pages_per_range: u32, layout: IndexLayout) -> ! {
    let what = if layout == IndexLayout::Filters {
        "Filters have the ranges of the index; only maps may have smaller ones."
    } else {
        "The ranges of a column divide those of the index, into at most 65535 parts."
    };
    fail(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        format!(
            "column \"{}\" cannot have ranges of {own} pages in an index with ranges of {pages_per_range}",
            index.column_name(column)
        ),
        Some(what.into()),
        Some("Set the option pages_per_range of the index, or that of the column's operator class.".into()),
    )
}

/// Chooses for all columns for which nothing is chosen yet, from a table of `blocks` blocks, at least one range.
/// `how` says how the sample is collected.
pub fn choose(heap: Rel, index: Rel, meta: &mut Meta, blocks: u32, how: &RangeCollectorOptions) {
    if meta.is_to_choose() {
        let (samples, _) = take_samples(heap, index, meta, blocks, how);
        by_samples(index, meta, blocks, &samples);
    }
}

fn by_samples(index: Rel, meta: &mut Meta, blocks: u32, samples: &[LayoutSample]) {
    let pages_per_range = meta.pages_per_range;
    for ((c, column), samples) in meta.columns.iter_mut().enumerate().zip(samples) {
        let SegmentLayout::NotChosen(wish) = column.layout else { continue };
        let rate = wish.is_rate_set.then_some(column.rate);
        let pairs = &samples.pairs;
        let own = wish.parts.map(|parts| pages_per_range / parts.max(1));
        // If no range could be counted because of too many keys, parts are whole ranges: smaller ones make more pairs.
        let smallest = if samples.is_full() { pages_per_range } else { pairs.smallest_part(samples.rows) };
        let pages = own.unwrap_or(smallest).max(1);
        let may_be_filters = !wish.is_map && wish.parts.is_none_or(|parts| parts == 1);
        let kind = KeyKind::of_column(index, c);
        column.layout = if may_be_filters && rate.is_some_and(|rate| rate >= RATE_OF_FILTERS) {
            SegmentLayout::Filters
        } else {
            let fingerprint_bits = match (rate, rate_of_kind(kind, blocks)) {
                (Some(rate), _) => samples.bits_for_rate(pages, rate, samples.most_pairs(pairs)),
                (None, Some(rate)) => {
                    samples.bits_for_rate(pages, rate, samples.pairs_of_parts(pairs, pages))
                }
                (None, None) => samples.bits_for_growth(pages, blocks, samples.most_pairs(pairs)),
            };
            SegmentLayout::Map(MapForm { fingerprint_bits, parts: pages_per_range / pages })
        };
        column.sample = samples.of(pairs);
    }
}

/// The most parts of `pages` pages that a table may have, so that its maps can always be merged into one.
pub(super) fn most_parts(pages_per_range: u32, pages: u32) -> u32 {
    let most_ranges = (u32::MAX / pages_per_range).saturating_add(1);
    most_ranges.saturating_mul(pages_per_range / pages.max(1))
}

/// The rate of a column of a table of `blocks` blocks for which none is set; None if it follows from the number of
/// rows.
fn rate_of_kind(kind: KeyKind, blocks: u32) -> Option<f64> {
    let rate = kind.default_rate()?;
    let most = if kind.asks_for_several() { 1.0 } else { MOST_IN_VAIN / f64::from(blocks.max(1)) };
    Some(rate.min(most))
}

/// Whether the layouts of all columns are chosen.
pub enum LayoutChoice {
    Made,
    /// No range may be summarized yet. Users' code may have failed in the sample.
    PutOff(Option<Failure>),
}

/// Makes the choice for an index that was built without one, if it has not been made yet. The caller holds the
/// maintenance lock.
///
/// # Errors
/// Damage to the meta page.
pub fn choose_late(heap: Rel, index: Rel, how: &RangeCollectorOptions) -> IndexResult<LayoutChoice> {
    let mut chosen = Meta::read(index)?;
    let blocks = heap.blocks();
    if !chosen.is_to_choose() {
        return Ok(LayoutChoice::Made);
    }
    if blocks < chosen.pages_per_range {
        return Ok(LayoutChoice::PutOff(None));
    }
    let (samples, failure) = take_samples(heap, index, &chosen, blocks, how);
    let is_unknown = |(column, sample): (&ColumnMeta, &LayoutSample)| {
        matches!(column.layout, SegmentLayout::NotChosen(_)) && sample.is_unknown()
    };
    if chosen.columns.iter().zip(&samples).any(is_unknown) {
        return Ok(LayoutChoice::PutOff(failure));
    }
    by_samples(index, &mut chosen, blocks, &samples);
    meta::update(index, |meta| {
        for (column, chosen) in meta.columns.iter_mut().zip(&chosen.columns) {
            (column.layout, column.sample) = (chosen.layout, chosen.sample);
        }
        meta.generation += 1;
    })?;
    Ok(LayoutChoice::Made)
}

/// Why a column has its layout, in words. None if an option says it. `is_rate_set` says whether an option sets its
/// rate.
pub fn reason(meta: &Meta, column: &ColumnMeta, kind: KeyKind, is_rate_set: bool) -> Option<String> {
    if matches!(column.layout, SegmentLayout::NotChosen(_)) {
        return Some("no block range is summarized yet".into());
    }
    let Sample { rows, pairs_of_pages, pairs_of_ranges } = column.sample?;
    let range = meta.pages_per_range;
    let (what, rate) = match kind.default_rate() {
        Some(rate) if column.rate == rate && !is_rate_set => {
            ("keys", format!("; rate {} by default, as values have several keys", number(rate)))
        }
        Some(_) => ("keys", String::new()),
        None => ("values", String::new()),
    };
    Some(format!(
        "{rows:.1} rows per page; distinct {what} per page: {pairs_of_pages:.1} in single pages, {pairs_of_ranges:.1} in ranges of {range} pages{rate}"
    ))
}

/// A sample of a table: the pairs that one column has in some of its ranges.
struct LayoutSample {
    /// Pages and rows of the ranges that could be hashed.
    pages: f64,
    rows: f64,
    /// The number of these ranges, of those with more keys than memory allows, and of the others.
    closed: u32,
    full: u32,
    open: u32,
    /// Whether keys can be made of the column's values.
    has_keys: bool,
    pages_per_range: u32,
    pairs: PairCounts,
}

/// The samples of all columns, and the first failure of users' code.
fn take_samples(
    heap: Rel,
    index: Rel,
    meta: &Meta,
    blocks: u32,
    how: &RangeCollectorOptions,
) -> (Vec<LayoutSample>, Option<Failure>) {
    let pages_per_range = meta.pages_per_range;
    // Larger ranges are sampled in windows of this size.
    let window = (1..=MOST_PAGES.min(pages_per_range))
        .rev()
        .find(|&pages| pages_per_range.is_multiple_of(pages))
        .unwrap_or(1);
    // The collector is to tell single pages apart.
    let mut single = meta.clone();
    single.pages_per_range = window;
    for column in &mut single.columns {
        column.layout = SegmentLayout::Map(MapForm { fingerprint_bits: 1, parts: window });
    }
    let may_be_part = |size: &u32| window.is_multiple_of(*size) && pages_per_range / size <= MOST_PARTS;
    let whole = (window < pages_per_range).then_some(pages_per_range);
    let sizes = || (1..=window).filter(may_be_part).chain(whole);
    let mut collector = RangeCollector::new(heap, index, &single, how);
    let empty = |column: &ColumnContents| {
        let (pairs, has_keys) = (PairCounts::new(sizes()), column.has_keys());
        LayoutSample { pages: 0.0, rows: 0.0, closed: 0, full: 0, open: 0, has_keys, pages_per_range, pairs }
    };
    let mut samples: Vec<LayoutSample> = collector.columns.iter().map(empty).collect();
    let ranges = (blocks / pages_per_range).max(1);
    let count = (MOST_PAGES / window).clamp(1, MOST_RANGES).min(ranges);
    for i in 0..count {
        let range = (u64::from(i) * u64::from(ranges) / u64::from(count)) as u32;
        let first = range * pages_per_range;
        let end = first.saturating_add(window).min(blocks);
        let before = collector.live_rows;
        collector.collect(first..end);
        let rows = collector.live_rows - before;
        for (column, sample) in collector.columns.iter().zip(&mut samples) {
            sample.add(column, f64::from(end - first), rows);
        }
        if i + 1 >= HOPELESS && samples.iter().all(|sample| sample.closed + sample.full == 0) {
            break;
        }
    }
    (samples, collector.failure)
}

impl LayoutSample {
    /// Whether no range could be counted because those that could be hashed have too many keys.
    fn is_full(&self) -> bool {
        self.closed == 0 && self.full > 0
    }

    /// Whether most ranges could not be hashed, but may be later. Ranges with too many keys cannot.
    fn is_unknown(&self) -> bool {
        self.has_keys && self.open > self.closed + self.full
    }

    fn add(&mut self, column: &ColumnContents, pages: f64, rows: f64) {
        let contents = column.contents();
        if contents.state.open {
            *(if column.is_full { &mut self.full } else { &mut self.open }) += 1;
            return;
        }
        self.closed += 1;
        (self.pages, self.rows) = (self.pages + pages, self.rows + rows);
        let parts: Vec<&[u64]> = contents.parts().map(|(_, hashes)| hashes).collect();
        self.pairs.add(parts.iter().copied());
    }

    /// Pairs per page of the table, at most. Each row counts as a pair: later rows may repeat less than those of the
    /// sample, and few pairs take little room anyway. If rows have several keys, the pairs with single pages count.
    fn most_pairs(&self, pairs: &PairCounts) -> f64 {
        self.per_page(self.rows.max(pairs.of_part(1) as f64))
    }

    /// Pairs with parts of `pages` pages, per page of the table.
    fn pairs_of_parts(&self, pairs: &PairCounts, pages: u32) -> f64 {
        self.per_page(pairs.of_part(pages) as f64)
    }

    fn per_page(&self, count: f64) -> f64 {
        if self.rows > 0.0 && self.pages > 0.0 { count / self.pages } else { ROWS_PER_PAGE }
    }

    /// Fingerprint bits of maps with parts of `pages` pages, each of this number of pairs. A key that is nowhere
    /// matches pairs / 2^bits parts, which is `rate` of all parts.
    fn bits_for_rate(&self, pages: u32, rate: f64, pairs_per_page: f64) -> u8 {
        fingerprint_bits_for(pairs_per_page * f64::from(pages), rate, most_parts(self.pages_per_range, pages))
    }

    /// As [`LayoutSample::bits_for_rate`], but less than one page is read in vain, even when the table has grown to ten
    /// times its size.
    fn bits_for_growth(&self, pages: u32, blocks: u32, pairs_per_page: f64) -> u8 {
        let pairs = (f64::from(blocks) * pairs_per_page).max(LEAST_ROWS);
        fingerprint_bits_for(GROWTH * pairs * f64::from(pages), 1.0, most_parts(self.pages_per_range, pages))
    }

    fn of(&self, pairs: &PairCounts) -> Option<Sample> {
        let per_page = |count: u64| (count as f64 / self.pages) as f32;
        (self.pages > 0.0 && self.rows > 0.0).then(|| Sample {
            rows: (self.rows / self.pages) as f32,
            pairs_of_pages: per_page(pairs.of_part(1)),
            pairs_of_ranges: per_page(pairs.of_part(self.pages_per_range)),
        })
    }
}
