//! ambulkdelete, as CREATE INDEX CONCURRENTLY and REINDEX CONCURRENTLY call it: after the index takes inserts, and
//! before it becomes valid.
//!
//! A row may be inserted into a block that the build has read already, and be deleted before the command takes the
//! snapshot that determines which missing rows it inserts. On the primary no transaction misses that row, because the
//! command waits for all transactions that see it. A transaction on a standby, for which the command does not wait, may
//! miss it. Therefore every tuple version that is on the table's pages now is looked up in its filter, and added if the
//! filter lacks it. Later rows come through aminsert. A tuple version that was pruned before is no problem: its removal
//! ended the standby's transactions that saw it, or waited for them.
//!
//! So the index has all rows of these pages, and the command is told so: it need not insert each row again, which would
//! take longer than to build the index. The snapshot by which it looks for missing rows was taken before, so it sees
//! none that came to the pages after they were read here. It is not told of the rows of ranges that had to be left
//! open, nor of those behind the watermark if their values are to be computed by users' code, which has not run here:
//! the command runs that code, and fails if it fails.

use super::collect::{self, RangeCollector, RangeCollectorOptions, Versions};
use super::contents::RangeContents;
use super::map_check::{self, Lacking, MapCheck};
use super::place_bounds::of_contents;
use super::place_map;
use super::summarize;
use crate::pages::bounds::{self, Widening};
use crate::pages::directory::Directory;
use crate::pages::entry::{FilterSize, OpenStretch, Segment};
use crate::pages::map::{self, MapWriter};
use crate::pages::miss::Miss;
use crate::pages::segment::{self, Bit, Group};
use crate::pages::upkeep::{self, unfinished};
use crate::pg::am::TupleAddress;
use crate::pg::error::{IndexResult, or_raise};
use crate::pg::heap::HeapReader;
use crate::pg::lock::{IndexLock, LockKind};
use crate::pg::{Rel, memory};
use skip_segment::{NULLS_SLICE, OPEN_SLICE, RangeState, VALUES_SLICE};
use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

/// The most bits that are gathered before they are written. Each takes 8 bytes, so this is 8 MB.
const MOST_BITS: usize = 1 << 20;

/// The most ranges of bounds that are gathered before they are widened: those of some pages.
const MOST_WIDENINGS: usize = 4096;

/// Adds the keys of the table's tuple versions that the filters or maps lack, and calls `has` with the addresses of all
/// rows that the index has then.
pub fn add_missed_rows(heap: Rel, index: Rel, has: &mut dyn FnMut(TupleAddress)) {
    let _maintenance = IndexLock::take(index, LockKind::Maintenance);
    or_raise(index, add_lacking(heap, index, has));
}

fn add_lacking(heap: Rel, index: Rel, has: &mut dyn FnMut(TupleAddress)) -> IndexResult<()> {
    let (meta, mut directory) = upkeep::load(index)?;
    // What is added here would have to be added to them too, and ranges be opened.
    unfinished::abandon_all(&mut directory)?;
    let options = RangeCollectorOptions {
        bulk: true,
        in_vacuum: true,
        memory: collect::memory_of_column(&meta),
        versions: Versions::Settled,
        may_fail: true,
    };
    let mut collector = RangeCollector::new(heap, index, &meta, &options);
    let index = meta.bind(index);
    let checks = map_check::of_columns(&meta)?.into_iter().enumerate();
    let mut columns: Vec<LackingColumn> =
        checks.map(|(c, check)| LackingColumn::new(&directory, c as u16, check)).collect();
    let blocks = heap.blocks();
    let mut reader = HeapReader::new(heap, true);
    let runs_users_code = collect::runs_user_code(heap, index);
    for range in 0..meta.ranges_in(blocks) {
        // Ranges behind the watermark are read when they are summarized. Until then they match.
        let mut is_to_insert = range >= meta.watermark && runs_users_code;
        if range < meta.watermark {
            collector.collect(meta.blocks_of(range, blocks));
            for (column, collected) in columns.iter_mut().zip(&collector.columns) {
                column.add(index, range, collected.contents())?;
                is_to_insert |= collected.contents().state.open;
            }
        }
        if !is_to_insert {
            tell_of_rows(&mut reader, meta.blocks_of(range, blocks), has);
        }
    }
    for column in columns {
        column.finish(&mut directory)?;
    }
    summarize::warn_of_failure(heap, index, collector.failure.take());
    Ok(())
}

/// Calls `has` with the addresses of all rows on these blocks.
fn tell_of_rows(reader: &mut HeapReader<'_>, blocks: Range<u32>, has: &mut dyn FnMut(TupleAddress)) {
    for block in blocks {
        memory::check_for_interrupts();
        reader.load(block, None);
        reader.row_offsets().for_each(|offset| has(TupleAddress { block, offset }));
    }
}

/// What is added to the segments of a column.
struct LackingColumn {
    number: u16,
    /// The segments that end behind the present range.
    segments: Peekable<IntoIter<Segment>>,
    /// What the filters of the 64 ranges around the present one lack.
    gaps: Option<Gaps>,
    /// How bounds become wider.
    widenings: Vec<(Segment, Widening)>,
    /// The pairs of all ranges, and the ranges that are open; of a column with maps.
    pairs: Option<MapCheck>,
    open: Vec<OpenStretch>,
}

impl LackingColumn {
    fn new(directory: &Directory<'_>, number: u16, pairs: Option<MapCheck>) -> Self {
        let segments = directory.segments(number).into_iter().peekable();
        Self { number, segments, gaps: None, widenings: Vec::new(), pairs, open: Vec::new() }
    }

    /// Adds the contents of a range, if the range has a segment. Ranges come in order.
    fn add(&mut self, index: Rel, range: u32, contents: RangeContents<'_>) -> IndexResult<()> {
        while self.segments.next_if(|segment| segment.end_range() <= range).is_some() {}
        let Some(segment) = self.segments.peek().filter(|segment| segment.first_range <= range) else {
            return Ok(());
        };
        if let Some(pairs) = &mut self.pairs {
            pairs.push(range, contents);
            if contents.state.open {
                self.open.push(OpenStretch { column: self.number, first_range: range, width: 1 });
            }
        } else if segment.is_of_bounds() {
            let widening = Widening { range, with: of_contents(contents), closes: false };
            self.widenings.push((*segment, widening));
            if self.widenings.len() >= MOST_WIDENINGS {
                widen(index, &mut self.widenings)?;
            }
        } else {
            let gaps = Gaps::at(&mut self.gaps, index, segment, range)?;
            gaps.look_up(contents.state, contents.hashes.iter().copied(), range);
            if gaps.bits.len() > MOST_BITS {
                gaps.fill(index)?;
            }
        }
        Ok(())
    }

    /// Writes what is not written yet.
    fn finish(mut self, directory: &mut Directory<'_>) -> IndexResult<()> {
        let index = directory.index();
        widen(index, &mut self.widenings)?;
        if let Some(gaps) = &mut self.gaps {
            gaps.fill(index)?;
        }
        // Ranges that were open before are then in two open stretches, until they are closed. Those of this column come
        // before its addition, which may lack pairs of such a range.
        for stretch in place_map::bounded(self.open) {
            directory.add_open(stretch)?;
        }
        self.pairs.map_or(Ok(()), |pairs| add_to_maps(directory, pairs))
    }
}

/// Widens bounds of a column, and clears the list.
fn widen(index: Rel, of_column: &mut Vec<(Segment, Widening)>) -> IndexResult<()> {
    for of_segment in of_column.chunk_by(|(one, _), (other, _)| one.id == other.id) {
        let widenings: Vec<Widening> = of_segment.iter().map(|&(_, widening)| widening).collect();
        bounds::widen(index, &of_segment[0].0, &widenings)?;
    }
    of_column.clear();
    Ok(())
}

/// Publishes an addition of the pairs that a column's maps lack: of rows that were inserted and deleted during one
/// command.
fn add_to_maps(directory: &mut Directory<'_>, check: MapCheck) -> IndexResult<()> {
    let (column, form, end) = (check.column(), check.form(), check.end());
    let segments: Vec<Segment> =
        directory.segments(column).into_iter().chain(directory.additions(column)).collect();
    let index = directory.index();
    let (mut directory, mut writer) = (Some(directory), None);
    let write = |pair: Lacking| {
        if let Some(directory) = directory.take() {
            writer = Some(map::addition(directory, column, form, (0, end))?);
        }
        Ok(writer.as_mut().map_or(Ok(()), |writer| writer.push(pair.number))?)
    };
    check.lacking(index, segments.iter(), write).map_err(Miss::into_damage)?;
    writer.map_or(Ok(()), MapWriter::finish)
}

/// The bits that the filters of 64 neighbouring ranges of a column lack.
struct Gaps {
    segment: Segment,
    number: u32,
    filters: Group,
    bits: Vec<Bit>,
}

impl Gaps {
    /// The gaps of the 64 ranges around `range`. If `current` has those of other ranges, they are written first.
    fn at<'a>(
        current: &'a mut Option<Self>,
        index: Rel,
        segment: &Segment,
        range: u32,
    ) -> IndexResult<&'a mut Self> {
        let number = (range - segment.first_range) / 64;
        let kept = match current.take() {
            Some(gaps) if (gaps.segment.id, gaps.number) == (segment.id, number) => gaps,
            other => {
                other.map_or(Ok(()), |mut gaps| gaps.fill(index))?;
                let filters =
                    Group::read(index, segment, &segment.shape()?, number).map_err(Miss::into_damage)?;
                Self { segment: *segment, number, filters, bits: Vec::new() }
            }
        };
        Ok(current.insert(kept))
    }

    fn look_up(&mut self, state: RangeState, hashes: impl Iterator<Item = u64>, range: u32) {
        let (Ok(shape), Ok(FilterSize { num_probes, .. })) = (self.segment.shape(), self.segment.filters())
        else {
            return;
        };
        let place = range - self.segment.first_range;
        let mut need = |is_needed: bool, slice| {
            if is_needed && !self.filters.has_bit(slice, place) {
                self.bits.push(Bit::new(&shape, slice, place));
            }
        };
        need(state.open, OPEN_SLICE);
        need(state.nulls, NULLS_SLICE);
        need(state.values, VALUES_SLICE);
        for hash in hashes.filter(|&hash| !self.filters.has_key(hash, place)) {
            self.bits.extend(Bit::of_key(&shape, num_probes, hash, place));
        }
    }

    fn fill(&mut self, index: Rel) -> IndexResult<()> {
        segment::set_bits(index, &self.segment, &mut self.bits)?;
        self.bits.clear();
        Ok(())
    }
}
