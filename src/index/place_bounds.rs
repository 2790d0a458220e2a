//! Makes segments of bounds of the order keys of ranges.

use super::contents::RangeContents;
use crate::pages::bounds;
use crate::pages::directory::Directory;
use crate::pg::error::IndexResult;
use skip_bounds::Bounds;
use skip_bounds::page::MOST_RANGES;

/// Makes segments of the bounds of the ranges of one column, which come in order, or adds them to the segment before
/// them. What is not written yet takes at most 3 MB.
pub struct BoundsPlacer {
    column: u16,
    /// The first of the ranges that are not written yet; without any, the next range.
    first_range: u32,
    pending: Vec<Bounds>,
}

impl BoundsPlacer {
    /// A placer for the ranges of a column, from range 0 on.
    pub fn new(column: u16) -> Self {
        Self { column, first_range: 0, pending: Vec::new() }
    }

    /// Continues at range `first_range`. Pending ranges must have been finished before.
    pub fn start_at(&mut self, first_range: u32) {
        self.first_range = first_range;
    }

    /// Adds the next range.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn push(&mut self, directory: &mut Directory<'_>, contents: RangeContents<'_>) -> IndexResult<()> {
        self.pending.push(of_contents(contents));
        if self.pending.len() == MOST_RANGES as usize { self.finish(directory) } else { Ok(()) }
    }

    /// Writes and publishes the pending ranges.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn finish(&mut self, directory: &mut Directory<'_>) -> IndexResult<()> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        if !bounds::append(directory, self.column, self.first_range, &pending)? {
            bounds::publish(directory, self.column, self.first_range, &pending)?;
        }
        self.first_range += pending.len() as u32;
        Ok(())
    }
}

/// The bounds of what a range has.
pub fn of_contents(contents: RangeContents<'_>) -> Bounds {
    let RangeContents { state, hashes, .. } = contents;
    let mut bounds = Bounds { nulls: state.nulls, open: state.open, ..Bounds::EMPTY };
    hashes.iter().for_each(|&key| bounds.add(key));
    bounds
}
