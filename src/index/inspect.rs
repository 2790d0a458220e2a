//! Inspecting an index: skip_index_info, skip_index_segments, skip_matching_ranges; and the functions that the last
//! shares with [`super::range_map`].

use super::steady::steady;
use super::target::{self, Target};
use super::{alter, choose};
use crate::pages::bounds;
use crate::pages::delta;
use crate::pages::directory::{Directory, LiveSegment};
use crate::pages::entry::{FilterSize, OpenStretch, Segment, SegmentKind};
use crate::pages::meta::{Meta, SegmentLayout};
use crate::pages::miss::{Fetch, Miss};
use crate::pages::segment;
use crate::pg::boundary;
use crate::pg::clause::{Clause, Values};
use crate::pg::error::or_raise;
use crate::pg::key_kind::KeyKind;
use crate::pg::options::Options;
use crate::pg::result_rows::{ResultRows, RowOf, result_columns};
use crate::pg::scankey;
use crate::pg::sql_text::Text;
use crate::pg::text;
use crate::pg::{Rel, fail};
use crate::prune::{self, Pruned, hashed};
use pgrx::prelude::*;
use pgrx::{AnyElement, pg_sys};
use skip_bounds::{Bounds, overlap::overlap};
use skip_filter::rate_at_fill;
use skip_map::key_part::{KeyPart, MOST_DEPTH};
use skip_segment::page::PAGE;
use skip_segment::{FIRST_PROBE_SLICE, OPEN_SLICE};

/// Slices that are sampled for the fill of a segment: enough to estimate a fill of one half with an error of 1 %.
const SAMPLED_SLICES: u32 = 64;

/// Ranges of a segment of bounds that are compared with each other.
const SAMPLED_BOUNDS: usize = 256;

/// How full a segment is, and what follows for its false-positive rate.
struct Fill {
    open_ranges: u64,
    /// Fraction of the filters' bits that are set; None for a map or bounds.
    fill: Option<f64>,
    /// Expected false-positive rate.
    expected_rate: f64,
}

fn fill_of(index: Rel, segment: &Segment, open: &[OpenStretch]) -> Fetch<Fill> {
    match segment.kind {
        SegmentKind::Filters(size) => fill_of_filters(index, segment, size),
        SegmentKind::Bounds => fill_of_bounds(index, segment),
        SegmentKind::Map(size) | SegmentKind::Addition(size) => {
            let in_segment = |o: &OpenStretch| {
                let (from, to) =
                    (o.first_range.max(segment.first_range), o.end_range().min(segment.end_range()));
                u64::from(to.saturating_sub(from))
            };
            let false_parts = f64::from(size.pairs) / f64::from(size.form.fingerprint_bits).exp2();
            Ok(Fill {
                open_ranges: open.iter().map(in_segment).sum(),
                fill: None,
                expected_rate: (false_parts / f64::from(segment.width) / f64::from(size.form.parts)).min(1.0),
            })
        }
    }
}

/// Counts open ranges. The expected rate is the fraction of the ranges whose bounds enclose a value.
fn fill_of_bounds(index: Rel, segment: &Segment) -> Fetch<Fill> {
    let mut all = Vec::with_capacity(segment.width as usize);
    bounds::each(index, segment, |_, _| true, |_, bounds| all.push(bounds))?;
    let open_ranges = all.iter().filter(|bounds| bounds.open).count() as u64;
    let step = all.len().div_ceil(SAMPLED_BOUNDS).max(1);
    let sample: Vec<Bounds> = all.into_iter().step_by(step).collect();
    Ok(Fill { open_ranges, fill: None, expected_rate: overlap(&sample).unwrap_or(0.0) })
}

/// Number of the parts of a map that are not open, in a table of `ranges` parts. None for filters.
fn closed_parts(segment: &Segment, open: &[OpenStretch], ranges: i64) -> Option<i64> {
    let parts = i64::from(segment.map()?.form.parts);
    let inside = |first_range: u32, end_range: u32| {
        let (first, end) = (first_range.max(segment.first_range), end_range.min(segment.end_range()));
        ((i64::from(end) * parts).min(ranges) - i64::from(first) * parts).max(0)
    };
    let open = open.iter().map(|o| inside(o.first_range, o.end_range())).sum::<i64>();
    Some(inside(0, u32::MAX) - open)
}

/// Counts open ranges, and samples evenly spaced slices.
fn fill_of_filters(index: Rel, segment: &Segment, size: FilterSize) -> Fetch<Fill> {
    let shape = segment.shape()?;
    let ones = |slice: &[u8]| slice.iter().map(|b| u64::from(b.count_ones())).sum::<u64>();
    let open_ranges = segment::read_slice(index, segment, &shape, OPEN_SLICE, ones)?;
    let samples = SAMPLED_SLICES.min(size.bits);
    let mut set = 0;
    for i in 0..samples {
        let slice = FIRST_PROBE_SLICE + (u64::from(i) * u64::from(size.bits) / u64::from(samples)) as u32;
        set += segment::read_slice(index, segment, &shape, slice, ones)?;
    }
    let fill = set as f64 / (f64::from(samples) * f64::from(segment.width)).max(1.0);
    Ok(Fill { open_ranges, fill: Some(fill), expected_rate: rate_at_fill(fill, size.num_probes) })
}

result_columns! {
    /// Columns of `skip_index_info`.
    InfoColumns {
        index: pg_sys::Oid,
        attnum: i32,
        column_name: Text,
        layout: &'static str,
        layout_reason: Option<String>,
        pages_per_range: i32,
        ranges: i64,
        summarized: i64,
        segments: i32,
        min_width: i32,
        max_width: i32,
        filter_bits_min: Option<i64>,
        filter_bits_max: Option<i64>,
        num_probes: Option<i32>,
        fingerprint_bits: Option<i32>,
        additions: i64,
        bytes: i64,
        delta_entries: i64,
        false_positive_rate: f64,
        expected_false_positive_rate: f64,
        pending_options: Option<String>,
    }
}

/// One row for each indexed column, of each partition's index if the index is partitioned.
#[pg_extern(sql = false)]
fn skip_index_info(index: pg_sys::Oid) -> ResultRows<InfoColumns> {
    boundary::callback(|| {
        let rows = |target: Target| steady(target.index.rel(), || info_rows(&target));
        ResultRows::new(target::for_reading(index).flat_map(rows).collect::<Vec<_>>())
    })
}

fn info_rows(target: &Target) -> Result<Vec<RowOf<InfoColumns>>, Miss> {
    let index = target.index.rel();
    let meta = Meta::read(index)?;
    let options = Options::of(index);
    let mut entries = vec![0i64; meta.columns.len()];
    delta::scan(index, &meta, |entry| {
        if let Some(count) = entries.get_mut(usize::from(entry.column)) {
            *count += 1;
        }
    })?;
    let directory = Directory::load(index, &meta)?;
    let blocks = target.table.rel().blocks();
    let row = |(c, &entries): (usize, &i64)| info_row(&directory, &meta, &options, c, blocks, entries);
    entries.iter().enumerate().map(row).collect()
}

/// The row of column `c`, with `entries` entries in the delta, of an index of a table of `blocks` blocks.
fn info_row(
    directory: &Directory<'_>,
    meta: &Meta,
    options: &Options,
    c: usize,
    blocks: u32,
    entries: i64,
) -> Result<RowOf<InfoColumns>, Miss> {
    let (index, column) = (directory.index(), &meta.columns[c]);
    let segments = directory.in_use(c as u16);
    let additions = directory.additions(c as u16);
    // To users, the parts that maps tell apart are the ranges of the column.
    let parts = column.parts();
    let ranges = i64::from(meta.parts_in(c as u16, blocks));
    let Coverage { summarized, passing } = coverage(directory, c as u16, parts, ranges)?;
    let width = |pick: fn(u32, u32) -> u32| {
        let parts = segments.iter().map(|s| s.width.saturating_mul(parts)).reduce(pick);
        i32::try_from(parts.unwrap_or(0)).unwrap_or(i32::MAX)
    };
    let bits = |pick: fn(u32, u32) -> u32| {
        let all = segments.iter().filter_map(|s| s.filters().ok()).map(|size| size.bits);
        (column.layout == SegmentLayout::Filters).then(|| i64::from(all.reduce(pick).unwrap_or(0)))
    };
    let own_blocks = segments.iter().map(|live| &live.segment).chain(&additions);
    let own_blocks = own_blocks.map(|s| i64::from(s.blocks)).sum::<i64>();
    let kind = KeyKind::of_column(index, c);
    Ok((
        index.oid(),
        c as i32 + 1,
        index.column_name(c).into(),
        column.layout.name(),
        choose::reason(meta, column, kind, options.set_rate_of(index, c).is_some()),
        meta.pages_per_part(c as u16) as i32,
        ranges,
        summarized.min(ranges),
        most_of_one_key(&segments),
        width(u32::min),
        width(u32::max),
        bits(u32::min),
        bits(u32::max),
        (column.layout == SegmentLayout::Filters).then(|| column.sizing.num_probes.into()),
        column.map().map(|form| form.fingerprint_bits.into()),
        additions.len() as i64,
        own_blocks * PAGE as i64,
        entries,
        column.rate,
        if summarized > 0 { (passing / summarized as f64).min(1.0) } else { 0.0 },
        alter::pending(index, meta, options, c, blocks),
    ))
}

/// What the segments of a column cover.
struct Coverage {
    /// Number of ranges that are summarized.
    summarized: i64,
    /// The number of them that the lookup of an absent key is expected to read.
    passing: f64,
}

/// What the segments and additions of column `c` cover, whose block ranges have `parts` parts each and which has
/// `ranges` of these parts.
fn coverage(directory: &Directory<'_>, c: u16, parts: u32, ranges: i64) -> Result<Coverage, Miss> {
    let index = directory.index();
    let open = OpenStretch::disjoint(directory.open_stretches(c));
    let (mut summarized, mut passing) = (0.0, 0.0);
    for segment in &directory.in_use(c) {
        let fill = fill_of(index, segment, &open)?;
        let closed = f64::from(segment.width) - fill.open_ranges as f64;
        // The maps of all parts of the keys summarize the ranges together.
        let closed_parts = closed_parts(segment, &open, ranges).map_or(closed, |parts| parts as f64);
        summarized += closed_parts * segment.keys.share();
        let used = segment.keys.share() / segment.key_part.keys().share();
        passing += fill.expected_rate * closed * f64::from(parts) * used;
    }
    for addition in &directory.additions(c) {
        passing +=
            fill_of(index, addition, &[])?.expected_rate * f64::from(addition.width) * f64::from(parts);
    }
    Ok(Coverage { summarized: summarized.round() as i64, passing })
}

/// The number of segments that the lookup of a key meets, at most.
fn most_of_one_key(segments: &[LiveSegment]) -> i32 {
    let of_part = |part: KeyPart| segments.iter().filter(|s| s.keys.contains(part.keys())).count();
    KeyPart::all(MOST_DEPTH).map(of_part).max().unwrap_or(0) as i32
}

result_columns! {
    /// Columns of `skip_index_segments`.
    SegmentColumns {
        index: pg_sys::Oid,
        attnum: i32,
        kind: &'static str,
        key_part: Option<String>,
        first_range: i64,
        width: i32,
        filter_bits: Option<i64>,
        num_probes: Option<i32>,
        fingerprint_bits: Option<i32>,
        pairs: Option<i64>,
        first_block: i64,
        blocks: i32,
        segment_id: i64,
        open_ranges: i64,
        fill: Option<f64>,
    }
}

/// One row for each live segment, of each partition's index if the index is partitioned.
#[pg_extern(sql = false)]
fn skip_index_segments(index: pg_sys::Oid) -> ResultRows<SegmentColumns> {
    boundary::callback(|| {
        let rows = |target: Target| steady(target.index.rel(), || segment_rows(target.index.rel()));
        ResultRows::new(target::for_reading(index).flat_map(rows).collect::<Vec<_>>())
    })
}

fn segment_rows(index: Rel) -> Result<Vec<RowOf<SegmentColumns>>, Miss> {
    let meta = Meta::read(index)?;
    let directory = Directory::load(index, &meta)?;
    let index = directory.index();
    let mut rows = Vec::new();
    for column in 0..meta.columns.len() {
        let open = OpenStretch::disjoint(directory.open_stretches(column as u16));
        let additions = directory.additions(column as u16);
        for s in directory.segments(column as u16).into_iter().chain(additions) {
            // Open ranges are counted once for the maps of all parts of the keys.
            let shows_open = s.summarizes() && s.key_part.number() == 0;
            let fill = fill_of(index, &s, if shows_open { &open } else { &[] })?;
            let filters = s.filters().ok();
            rows.push((
                index.oid(),
                column as i32 + 1,
                kind_name(s.kind),
                (!s.key_part.is_whole())
                    .then(|| format!("{}/{}", s.key_part.number() + 1, 1u32 << s.key_part.depth())),
                i64::from(s.first_range) * i64::from(s.parts()),
                i32::try_from(s.width.saturating_mul(s.parts())).unwrap_or(i32::MAX),
                filters.map(|size| size.bits.into()),
                filters.map(|size| size.num_probes.into()),
                s.map().map(|size| size.form.fingerprint_bits.into()),
                s.map().map(|size| size.pairs.into()),
                s.first_block.into(),
                s.blocks as i32,
                s.id as i64,
                fill.open_ranges as i64 * i64::from(s.parts()),
                fill.fill,
            ));
        }
    }
    Ok(rows)
}

fn kind_name(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Filters(_) => "filters",
        SegmentKind::Map(_) => "map",
        SegmentKind::Addition(_) => "addition",
        SegmentKind::Bounds => "bounds",
    }
}

/// The block ranges in which a value cannot be ruled out, unsummarized ones included. A NULL value looks up IS NULL.
/// Whether there are any ranges tells whether the value is in the table, so only users who may read all of its rows may
/// call this.
#[pg_extern(sql = false)]
fn skip_matching_ranges(
    index: Option<pg_sys::Oid>,
    column: Option<&std::ffi::CStr>,
    value: Option<AnyElement>,
) -> SetOfIterator<'static, i64> {
    boundary::callback(|| {
        // Only the value may be NULL: it looks up IS NULL.
        let (Some(index), Some(column)) = (index, column) else { return SetOfIterator::empty() };
        let target = target::for_reading_rows(index);
        let index = target.index.rel();
        let column = find_column(index, &text::of_bytes(column.to_bytes()));
        let value = value.map(|value| scankey::argument(index, column, value));
        let clause = scankey::clause_of_argument(index, column, value.as_ref());
        let ranges: Vec<i64> =
            survivors(index, &clause, target.table.rel().blocks()).ranges.iter().map(|r| r as i64).collect();
        SetOfIterator::new(ranges)
    })
}

/// The ranges of a table of `blocks` blocks in which a clause cannot be ruled out.
pub(super) fn survivors(index: Rel, clause: &Clause<Values<'_>>, blocks: u32) -> Pruned {
    let result = Meta::read(index).and_then(|meta| {
        let condition = hashed::one(index, &meta, clause);
        if condition.is_none() {
            fail_type(index, usize::from(clause.column));
        }
        prune::prune(index, meta, condition, blocks)
    });
    or_raise(index, result)
}

/// The 0-based number of the index column with this name; an error if there is none.
pub(super) fn find_column(index: Rel, name: &str) -> u16 {
    let found = (0..index.key_columns()).find(|&c| index.column_name(c) == name);
    let Some(column) = found else {
        let names: Vec<String> = (0..index.key_columns()).map(|c| index.column_name(c)).collect();
        fail(
            PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
            format!("index \"{}\" has no column \"{name}\"", index.name()),
            Some(format!("Its columns are: {}.", names.join(", "))),
            Some("Name a column of the index, as skip_index_info shows it.".into()),
        )
    };
    column as u16
}

fn fail_type(index: Rel, column: usize) -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        format!(
            "values of this type cannot be looked up in column \"{}\" of index \"{}\"",
            index.column_name(column),
            index.name()
        ),
        Some("The type is not in the operator family of the column.".into()),
        Some("Cast the value to the column's type.".into()),
    )
}
