//! Makes a map of the hashes of ranges.
//!
//! The pairs of a stretch of ranges are sorted by key, in memory within a budget and in a temporary file beyond it, and
//! written as one map, which is divided by key if it is large. Ranges that could not be hashed become open stretches of
//! the directory, which are published before the map.

use super::contents::RangeContents;
use crate::pages::directory::Directory;
use crate::pages::entry::{OpenStretch, Segment};
use crate::pages::map::{MapWriter, NULL_KEY, NewMap, VALUE_KEY, coding, depth_of};
use crate::pages::meta::MapForm;
use crate::pg::error::IndexResult;
use crate::pg::temp_file::TempFile;
use skip_map::key_part::KeyPart;
use skip_map::{Sorter, Spill, most_pages};
use skip_segment::RangeState;
use std::convert::Infallible;

/// Assumed number of pairs per page of the table. It determines into how many parts pairs are sorted; any number gives
/// correct results.
const PAIRS_PER_PAGE: u64 = 64;

/// Pairs beyond the memory budget, in a temporary file of the server.
#[derive(Default)]
pub struct SpillFile(TempFile);

impl Spill for SpillFile {
    type Error = Infallible; // the server raises its own errors

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Infallible> {
        self.0.write(at, bytes);
        Ok(())
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.read(at, bytes);
        Ok(())
    }
}

/// Makes a map of a stretch of ranges of one column, which come in order.
pub struct MapPlacer {
    column: u16,
    form: MapForm,
    /// Whether no other process adds blocks to the index.
    is_build: bool,
    /// Bytes of memory that pairs may take.
    memory: usize,
    pages_per_range: u32,
    stretch: Option<PendingStretch>,
}

struct PendingStretch {
    form: MapForm,
    first_range: u32,
    width: u32,
    /// Number of ranges added.
    ranges: u32,
    /// Number of pairs added, an upper bound of the number of distinct ones.
    pairs: u64,
    open: Vec<OpenStretch>,
    sorter: Sorter<SpillFile>,
}

impl MapPlacer {
    /// A placer for a column whose maps have this form. Pairs take at most `memory` bytes. `is_build` is set in a
    /// build, when no other process adds blocks to the index.
    pub fn new(column: u16, form: MapForm, is_build: bool, memory: usize, pages_per_range: u32) -> Self {
        Self { column, form, is_build, memory, pages_per_range, stretch: None }
    }

    /// Begins a stretch of ranges. The previous one must have been finished. `like` is a map whose form the new one
    /// shall have, if it is not that of the column.
    ///
    /// # Errors
    /// The meta page has an invalid number of fingerprint bits.
    pub fn start_at(&mut self, first_range: u32, end: u32, like: Option<Segment>) -> IndexResult<()> {
        let width = end.saturating_sub(first_range).max(1);
        let form = like.as_ref().and_then(Segment::map).map_or(self.form, |size| size.form);
        let coding = coding(form, width)?;
        let expected = u64::from(width) * u64::from(self.pages_per_range) * PAIRS_PER_PAGE;
        let sorter = Sorter::new(coding, self.memory, expected, SpillFile::default());
        self.stretch =
            Some(PendingStretch { form, first_range, width, ranges: 0, pairs: 0, open: Vec::new(), sorter });
        Ok(())
    }

    /// Adds the next range.
    pub fn push(&mut self, contents: RangeContents<'_>) {
        let (column, parts) = (self.column, self.form.parts);
        let Some(stretch) = &mut self.stretch else { return };
        let range = stretch.ranges;
        stretch.ranges += 1;
        if contents.state.open {
            add_open(&mut stretch.open, column, stretch.first_range + range);
            return;
        }
        each_pair(parts, range, contents, |key, part| {
            stretch.pairs += 1;
            let Ok(()) = stretch.sorter.push(key, part);
        });
    }

    /// Writes and publishes the map of the stretch.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn finish(&mut self, directory: &mut Directory<'_>) -> IndexResult<()> {
        let Some(mut stretch) = self.stretch.take() else { return Ok(()) };
        publish_open(directory, std::mem::take(&mut stretch.open))?;
        self.write(directory, stretch, false)
    }

    /// Writes and publishes the contents of the open ranges `closed` as an addition. Those that could not be hashed
    /// stay open.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn finish_open(&mut self, directory: &mut Directory<'_>, closed: OpenStretch) -> IndexResult<()> {
        let Some(mut stretch) = self.stretch.take() else { return Ok(()) };
        let open = bounded(std::mem::take(&mut stretch.open));
        if open == [closed] {
            return Ok(());
        }
        self.write(directory, stretch, true)?;
        directory.replace_open(closed, &open)
    }

    fn write(
        &self,
        directory: &mut Directory<'_>,
        stretch: PendingStretch,
        is_addition: bool,
    ) -> IndexResult<()> {
        let PendingStretch { form, first_range, width, ranges, pairs, sorter, .. } = stretch;
        debug_assert_eq!(ranges, width, "the map says of each of its ranges what it has");
        let pages = most_pages(coding(form, width)?, pairs);
        let new = NewMap {
            column: self.column,
            first_range,
            width,
            form,
            is_addition,
            key_part: KeyPart::WHOLE,
            depth: if is_addition { 0 } else { depth_of(form, pages.into()) },
            from: 0,
            is_build: self.is_build,
        };
        let mut writer = MapWriter::new(directory, new)?;
        sorter.finish(|numbers| writer.push_all(numbers))?;
        writer.finish()
    }
}

/// Adds an open range to the open stretches of a column. Ranges come in order.
pub fn add_open(open: &mut Vec<OpenStretch>, column: u16, range: u32) {
    match open.last_mut() {
        Some(last) if last.end_range() == range => last.width += 1,
        _ => open.push(OpenStretch { column, first_range: range, width: 1 }),
    }
}

/// Publishes open stretches, before the map that does not have their pairs.
///
/// # Errors
/// Damage to the index.
pub fn publish_open(directory: &mut Directory<'_>, open: Vec<OpenStretch>) -> IndexResult<()> {
    let open = bounded(open);
    for stretch in &open {
        directory.add_open(*stretch)?;
    }
    if open.is_empty() { Ok(()) } else { directory.raise_generation() }
}

/// Calls `each` with the pairs of a range: a key, and the part of the table, of which a range has `parts`. An open
/// range has none.
#[inline]
pub fn each_pair(parts: u32, range: u32, contents: RangeContents<'_>, each: impl FnMut(u64, u32)) {
    if !contents.state.open {
        each_known_pair(parts, range, contents, each);
    }
}

/// As [`each_pair`], but of an open range the pairs that are known.
#[inline]
pub fn each_known_pair(parts: u32, range: u32, contents: RangeContents<'_>, mut each: impl FnMut(u64, u32)) {
    for (part, (state, hashes)) in (range * parts..).zip(contents.parts()) {
        for key in marks(state).chain(hashes.iter().copied()) {
            each(key, part);
        }
    }
}

/// The keys that a map has for a part besides those of its values.
fn marks(state: RangeState) -> impl Iterator<Item = u64> {
    let marks = [(state.nulls, NULL_KEY), (state.values, VALUE_KEY)];
    marks.into_iter().filter(|&(is_set, _)| is_set).map(|(_, key)| key)
}

/// The most open stretches of a map. If there are more, they are joined with the ranges between them. Each takes an
/// entry of the directory, which every lookup reads; a larger number shows that most of the table cannot be hashed.
const MOST_STRETCHES: usize = 256;

/// Joins the stretches with the smallest distances until at most [`MOST_STRETCHES`] are left. A range that is open
/// without need costs time, but no rows.
pub fn bounded(mut open: Vec<OpenStretch>) -> Vec<OpenStretch> {
    // Adjacent stretches become one.
    open.dedup_by(|next, kept| {
        let touches = next.first_range == kept.end_range();
        kept.width += if touches { next.width } else { 0 };
        touches
    });
    if open.len() <= MOST_STRETCHES {
        return open;
    }
    let mut distances: Vec<u32> =
        open.windows(2).map(|pair| pair[1].first_range - pair[0].end_range()).collect();
    let too_many = open.len() - MOST_STRETCHES;
    let (_, &mut bound, _) = distances.select_nth_unstable(too_many - 1);
    open.dedup_by(|next, kept| {
        let is_near = next.first_range - kept.end_range() <= bound;
        if is_near {
            kept.width = next.end_range() - kept.first_range;
        }
        is_near
    });
    open
}
