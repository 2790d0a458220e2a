//! Makes segments of the hashes of ranges, of the kind that the column has.

use super::contents::RangeContents;
use super::place_bounds::BoundsPlacer;
use super::place_filters::FilterPlacer;
use super::place_map::MapPlacer;
use crate::pages::directory::Directory;
use crate::pages::entry::Segment;
use crate::pages::meta::{ColumnMeta, SegmentLayout};
use crate::pg::{Rel, error::IndexResult};

/// Settings that are the same for the placers of all columns of an index.
pub struct PlacerSettings<'a> {
    pub index: Rel<'a>,
    /// Whether no other process adds blocks to the index.
    pub is_build: bool,
    /// Bytes of memory that each column may take for contents that are not written yet.
    pub memory: usize,
    pub pages_per_range: u32,
}

/// The segments of a column next to a stretch of ranges, if there are any.
#[derive(Clone, Copy, Default)]
pub struct Neighbours {
    pub before: Option<Segment>,
    pub after: Option<Segment>,
}

/// Makes segments of the ranges of one column, which come in order.
pub enum ColumnPlacer<'a> {
    Filters(FilterPlacer<'a>),
    Map(MapPlacer),
    Bounds(BoundsPlacer),
}

impl<'a> ColumnPlacer<'a> {
    /// A placer for a column that was built with the options in `frozen`.
    pub fn new(place: &PlacerSettings<'a>, column: u16, frozen: &ColumnMeta) -> Self {
        let &PlacerSettings { index, is_build, memory, pages_per_range } = place;
        match frozen.map() {
            None if frozen.layout == SegmentLayout::Bounds => Self::Bounds(BoundsPlacer::new(column)),
            None => Self::Filters(FilterPlacer::new(index, column, *frozen, memory, pages_per_range)),
            Some(form) => Self::Map(MapPlacer::new(column, form, is_build, memory, pages_per_range)),
        }
    }

    /// Begins a stretch of ranges. The previous one must have been finished.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn start_at(&mut self, first_range: u32, end: u32, neighbours: Neighbours) -> IndexResult<()> {
        let Neighbours { before, after } = neighbours;
        match self {
            Self::Filters(placer) => {
                let size = before.and_then(|segment| segment.filters().ok());
                placer.start_at(first_range, size.map(|size| size.bits));
                Ok(())
            }
            // A gap is filled with what can be merged with the maps around it.
            Self::Map(placer) => placer.start_at(first_range, end, after.and(before.or(after))),
            Self::Bounds(placer) => {
                placer.start_at(first_range);
                Ok(())
            }
        }
    }

    /// Adds the next range. `partial` is set for a trailing range that is not complete yet.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn push(
        &mut self,
        directory: &mut Directory<'_>,
        contents: RangeContents<'_>,
        partial: bool,
    ) -> IndexResult<()> {
        match self {
            Self::Filters(placer) => placer.push(directory, contents.state, contents.hashes, partial),
            Self::Map(placer) => {
                placer.push(contents);
                Ok(())
            }
            Self::Bounds(placer) => placer.push(directory, contents),
        }
    }

    /// Writes and publishes the contents that are not written yet.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn finish(&mut self, directory: &mut Directory<'_>) -> IndexResult<()> {
        match self {
            Self::Filters(placer) => placer.finish(directory),
            Self::Map(placer) => placer.finish(directory),
            Self::Bounds(placer) => placer.finish(directory),
        }
    }
}
