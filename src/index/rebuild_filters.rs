//! Rebuilding filters that have filled up, and segments that varying filter sizes have cut to pieces.
//!
//! Which ranges: those of segments whose expected false-positive rate is more than twice the target
//! ([`crate::pages::upkeep::fill`]); of each segment the span of ranges that are full, the fullest segments first. Then
//! neighbouring narrow segments whose sizes differ, if filters of one size suit them all.
//!
//! The ranges of an old segment that are not read again are copied. So are single ranges that cannot be hashed now.

use super::collect::RangeCollector;
use super::place_filters::FilterPlacer;
use super::rebuild_work::RebuildWork;
use crate::pages::directory::Directory;
use crate::pages::entry::{Rescan, Segment};
use crate::pages::meta::{ColumnMeta, SegmentLayout};
use crate::pages::miss::Miss;
use crate::pages::segment;
use crate::pages::upkeep::copy::copy_part;
use crate::pages::upkeep::fill::{self, FillSample};
use crate::pages::upkeep::rescan::{self, Replaced};
use crate::pg::{Rel, error::IndexResult, options::Options};
use skip_scan::RangeSet;
use skip_segment::page::SLICE_BYTES;
use skip_segment::{OPEN_SLICE, SegmentShape, or_slice, size};

/// Segments are rebuilt if their expected false-positive rate is more than this number of times the target, and if the
/// gain is [`LEAST_GAIN`] at least.
const WORTH: f64 = 2.0;
/// The least gain of rebuilding a column's filters: the number of ranges that the lookup of an absent key does not read
/// in vain any more.
const LEAST_GAIN: f64 = 0.25;
/// This number of neighbouring segments with different filter sizes is made one segment.
const PIECES: usize = 4;
/// The most ranges of a span that may keep their old filters, because they cannot be hashed now. With more of them the
/// segment stays as it is.
const MOST_KEPT: usize = 16;

/// Ranges of a column that are worth reading again.
struct FullSpan {
    column: u16,
    first: u32,
    end: u32,
    /// For each range the fraction of the lookups of absent keys that will not read it in vain any more.
    gains: Vec<f64>,
    /// The filter size that suits all of them, in bits.
    size: Option<u32>,
}

impl FullSpan {
    fn width(&self) -> u32 {
        self.end - self.first
    }

    /// Ranges that the lookup of an absent key will not read in vain any more.
    fn gain(&self) -> f64 {
        self.gains.iter().sum()
    }

    /// The part from `first` to `end`.
    fn cut(mut self, first: u32, end: u32) -> Self {
        let (first, end) = (first.max(self.first), end.min(self.end));
        self.gains.truncate((end - self.first) as usize);
        self.gains.drain(..(first - self.first) as usize);
        (self.first, self.end) = (first, end);
        self
    }

    /// The part of at most `width` ranges with the highest gain.
    fn best(self, width: u32) -> Self {
        let width = width.min(self.width()) as usize;
        let mut gain: f64 = self.gains[..width].iter().sum();
        let (mut best, mut start) = (gain, 0);
        for (place, (left, entered)) in self.gains.iter().zip(&self.gains[width..]).enumerate() {
            gain += entered - left;
            if gain > best {
                (best, start) = (gain, place + 1);
            }
        }
        let first = self.first + start as u32;
        self.cut(first, first + width as u32)
    }
}

/// Rebuilds filters that are worth it, reading at most about `blocks` blocks of the table.
///
/// # Errors
/// Damage to the index.
pub fn rebuild<'a>(
    directory: &mut Directory<'a>,
    work: &mut RebuildWork<'a, '_>,
    blocks: u32,
) -> IndexResult<()> {
    let mut spans = Vec::new();
    for (column, frozen) in work.meta.columns.iter().enumerate() {
        if frozen.layout == SegmentLayout::Filters {
            spans.extend(worth_it(directory, work, column as u16)?);
        }
    }
    let mut spans = within(spans, blocks / work.meta.pages_per_range);
    spans.sort_unstable_by_key(|span| (span.first, span.end));
    let mut rest = &spans[..];
    while let Some(first) = rest.first() {
        // Spans of several columns that overlap are read together.
        let mut end = first.end;
        let together = rest.iter().take_while(|span| {
            let overlaps = span.first < end;
            end = if overlaps { end.max(span.end) } else { end };
            overlaps
        });
        let (now, later) = rest.split_at(together.count());
        work.fold(directory)?;
        replace(directory, work, now)?;
        rest = later;
    }
    Ok(())
}

/// The spans of a column that are worth reading again.
fn worth_it(
    directory: &Directory<'_>,
    work: &RebuildWork<'_, '_>,
    column: u16,
) -> IndexResult<Vec<FullSpan>> {
    let segments = directory.segments(column);
    if segments.windows(2).any(|pair| pair[0].end_range() > pair[1].first_range) {
        return Ok(Vec::new()); // an interrupted merge, which the next maintenance ends
    }
    let Some(frozen) = work.meta.columns.get(usize::from(column)) else { return Ok(Vec::new()) };
    let default = Options::of(directory.index()).rate_of(directory.index(), column.into());
    let sample = |s: &Segment| fill::sample(directory.index(), s).map_err(Miss::into_damage);
    let fills = segments.iter().map(sample).collect::<IndexResult<Vec<FillSample>>>()?;
    let full_span = |(segment, fill)| full_span(segment, fill, target_rate(segment, frozen, default));
    let mut full: Vec<FullSpan> = segments.iter().zip(&fills).filter_map(full_span).collect();
    if full.iter().map(FullSpan::gain).sum::<f64>() < LEAST_GAIN {
        full.clear();
    }
    let is_full =
        |s: &Segment| full.iter().any(|span| span.first < s.end_range() && s.first_range < span.end);
    let kept: Vec<(Segment, u64)> = segments
        .iter()
        .zip(&fills)
        .filter(|(segment, _)| !is_full(segment))
        .map(|(&segment, fill)| (segment, needed_bits(work, column, fill)))
        .collect();
    full.extend(pieces(&kept));
    Ok(full)
}

/// Bits of filters for as many keys as the ranges of a segment are estimated to have.
fn needed_bits(work: &RebuildWork<'_, '_>, column: u16, fill: &FillSample) -> u64 {
    let sizing = work.meta.columns.get(usize::from(column)).map(|column| column.sizing);
    sizing.map_or(0, |sizing| sizing.filter_bits(fill.most_keys as u64))
}

/// The target rate of a segment. It may have been made when the table was smaller, for a higher rate than new ranges
/// get now ([`super::refine`]); not for a higher one than `default`, unless an option said so that does not hold any
/// more.
fn target_rate(segment: &Segment, column: &ColumnMeta, default: f64) -> f64 {
    column.rate_of_filters(segment.span().num_probes).min(default.max(column.rate))
}

/// The span of a segment's ranges that have filled up, if it is worth reading again.
fn full_span(segment: &Segment, fill: &FillSample, rate: f64) -> Option<FullSpan> {
    if fill.rates.iter().sum::<f64>() <= WORTH * rate * f64::from(fill.closed) {
        return None;
    }
    let gains: Vec<f64> = fill.rates.iter().map(|of_range| of_range - rate).collect();
    let is_full = |group: &[f64]| group.iter().sum::<f64>() > 0.0;
    let first = gains.chunks(fill::GROUP).position(is_full)? * fill::GROUP;
    let end =
        gains.chunks(fill::GROUP).rposition(is_full).map_or(gains.len(), |last| (last + 1) * fill::GROUP);
    let (start, width) = (segment.first_range, segment.width);
    let whole = FullSpan {
        column: segment.column,
        first: start,
        end: start + width,
        gains,
        size: segment.filters().ok().map(|size| size.bits),
    };
    Some(whole.cut(start + first as u32, start + width.min(end as u32)))
}

/// Rows of neighbouring narrow segments of several filter sizes, of which one suits them all.
fn pieces(segments: &[(Segment, u64)]) -> Vec<FullSpan> {
    let narrow = SegmentShape::max_width(SLICE_BYTES) / 8;
    // The largest of the ranges needs more than they do on average.
    let size_for = |bits: u64| size::roomy(bits / 8 * 9);
    let suits = |least: u64, most: u64| u64::from(size_for(most)) <= size::MOST_EXCESS * least;
    let mut spans = Vec::new();
    let mut rest = segments;
    while let Some(&(first, bits)) = rest.first() {
        let (mut least, mut most, mut count) = (bits, bits, 1);
        while let Some(&(next, bits)) = rest.get(count) {
            let is_neighbour = rest[count - 1].0.end_range() == next.first_range;
            let is_narrow = rest[count - 1].0.width <= narrow && next.width <= narrow;
            if !is_neighbour || !is_narrow || !suits(least.min(bits), most.max(bits)) {
                break;
            }
            (least, most, count) = (least.min(bits), most.max(bits), count + 1);
        }
        let (row, others) = rest.split_at(count);
        let changes =
            row.windows(2).filter(|pair| pair[0].0.filters().ok() != pair[1].0.filters().ok()).count();
        if changes + 1 >= PIECES {
            let end = row.last().map_or(first.end_range(), |(last, _)| last.end_range());
            spans.push(FullSpan {
                column: first.column,
                first: first.first_range,
                end,
                gains: vec![0.0; (end - first.first_range) as usize],
                size: Some(size_for(most)),
            });
        }
        rest = others;
    }
    spans
}

/// The spans with the highest gain for each range, at most `ranges` ranges in all. Of the last one a part is taken.
/// Where spans of several columns overlap, the ranges are read for all of them.
fn within(mut spans: Vec<FullSpan>, ranges: u32) -> Vec<FullSpan> {
    let density = |span: &FullSpan| span.gain() / f64::from(span.width().max(1));
    spans.sort_by(|a, b| density(b).total_cmp(&density(a)));
    let (mut left, mut chosen) = (ranges.max(1), Vec::new());
    while left > 0 && !spans.is_empty() {
        let span = spans.remove(0).best(left);
        left -= span.width();
        let overlaps = |other: &FullSpan| other.first < span.end && span.first < other.end;
        let (others, rest) = spans.into_iter().partition::<Vec<_>, _>(overlaps);
        let inside = |other: FullSpan| other.cut(span.first, span.end);
        chosen.extend(others.into_iter().map(inside));
        chosen.push(span);
        spans = rest;
    }
    chosen
}

/// The replacement of a span's segments.
struct Job<'a> {
    span: (u32, u32),
    column: u16,
    /// The segments that the span touches, by first range.
    old: Vec<Segment>,
    rescan: Rescan,
    placer: FilterPlacer<'a>,
    size: Option<u32>,
    /// Ranges that had no filter before either.
    open: RangeSet,
    /// Spans that cannot be hashed now: they keep their old filters.
    kept: Vec<(u32, u32)>,
}

impl Job<'_> {
    fn covers(&self, range: u32) -> bool {
        (self.span.0..self.span.1).contains(&range)
    }

    fn is_given_up(&self) -> bool {
        self.kept.len() > MOST_KEPT
    }

    /// The parts of the old segments that are not read again: outside of the span, and those that were kept.
    fn copies(&self) -> impl Iterator<Item = (Segment, u32, u32)> + '_ {
        let outside = [(self.rescan.first_range, self.span.0), (self.span.1, self.rescan.end_range())];
        let parts = outside.into_iter().chain(self.kept.iter().copied());
        parts.flat_map(|(from, to)| {
            let part = move |s: &Segment| (*s, from.max(s.first_range), to.min(s.end_range()));
            self.old.iter().map(part).filter(|(_, from, to)| from < to)
        })
    }
}

/// Reads spans that overlap from the table, and replaces the segments that they touch.
fn replace<'a>(
    directory: &mut Directory<'a>,
    work: &mut RebuildWork<'a, '_>,
    spans: &[FullSpan],
) -> IndexResult<()> {
    let index = directory.index();
    let touched = |span: &FullSpan| -> Vec<Segment> {
        let touches = |s: &Segment| s.first_range < span.end && span.first < s.end_range();
        directory.segments(span.column).into_iter().filter(touches).collect()
    };
    let old: Vec<Vec<Segment>> = spans.iter().map(touched).collect();
    let replaced = |(span, old): (&FullSpan, &Vec<Segment>)| Replaced {
        column: span.column,
        first_range: old.first().map_or(span.first, |s| s.first_range),
        end: old.last().map_or(span.end, Segment::end_range),
    };
    let replaced: Vec<Replaced> = spans.iter().zip(&old).map(replaced).collect();
    let rescans = rescan::begin(directory, &replaced)?;
    let mut jobs: Vec<Job<'a>> = Vec::new();
    for ((span, old), rescan) in spans.iter().zip(old).zip(rescans) {
        let &FullSpan { column, first, end, size, .. } = span;
        let Some(&frozen) = work.meta.columns.get(usize::from(column)) else { continue };
        let (memory, pages) = (work.memory() / 2, work.meta.pages_per_range);
        let mut placer = FilterPlacer::new(index, column, frozen, memory, pages);
        placer.start_at(first, size);
        let open = open_ranges(index, &old)?;
        jobs.push(Job { span: (first, end), column, old, rescan, placer, size, open, kept: Vec::new() });
    }
    read(directory, work, &mut jobs)?;
    for mut job in jobs {
        if !job.is_given_up() {
            job.placer.finish(directory)?;
            for (source, from, to) in job.copies().collect::<Vec<_>>() {
                copy_part(directory, &source, from, to)?;
            }
        }
        rescan::end(directory, job.rescan, None)?;
    }
    Ok(())
}

/// The open ranges of segments of filters, which are sorted by their first range.
fn open_ranges(index: Rel, segments: &[Segment]) -> IndexResult<RangeSet> {
    let mut found = RangeSet::empty(segments.last().map_or(0, Segment::end_range).into());
    for segment in segments {
        let shape = segment.shape()?;
        let mut open = vec![0u64; shape.words()];
        segment::read_slice(index, segment, &shape, OPEN_SLICE, |slice| or_slice(&mut open, slice))
            .map_err(Miss::into_damage)?;
        found.or_bits(segment.first_range.into(), &open, segment.width.into());
    }
    Ok(found)
}

/// Reads the ranges of all spans, one after another, and writes the new segments.
fn read<'a>(
    directory: &mut Directory<'a>,
    work: &mut RebuildWork<'a, '_>,
    jobs: &mut [Job<'a>],
) -> IndexResult<()> {
    let first = jobs.iter().map(|job| job.span.0).min().unwrap_or(0);
    let end = jobs.iter().map(|job| job.span.1).max().unwrap_or(0);
    let mut collector = RangeCollector::new(work.heap, directory.index(), work.meta, &work.options());
    // The size of the table is read only now, when inserts know of the rescan.
    let blocks = work.heap.blocks();
    for range in first..end {
        if jobs.iter().all(|job| job.is_given_up() || !job.covers(range)) {
            continue;
        }
        collector.collect(work.meta.blocks_of(range, blocks));
        let is_partial = work.meta.is_partial(range, blocks);
        for job in jobs.iter_mut().filter(|job| job.covers(range) && !job.is_given_up()) {
            let contents = collector.columns[usize::from(job.column)].contents();
            if contents.state.open && !job.open.contains(range.into()) {
                // What was written until now ends before the range.
                job.placer.finish(directory)?;
                match job.kept.last_mut() {
                    Some(last) if last.1 == range => last.1 += 1,
                    _ => job.kept.push((range, range + 1)),
                }
                job.placer.start_at(range + 1, job.size);
                continue;
            }
            job.placer.push(directory, contents.state, contents.hashes, is_partial)?;
        }
    }
    let failure = collector.failure.take();
    work.failure = work.failure.take().or(failure);
    Ok(())
}
