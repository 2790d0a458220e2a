//! Finds the table's keys that the maps of a column lack.
//!
//! The table's pairs are sorted as in a build, and compared with the sorted numbers of all maps in one pass. A lookup
//! of each pair would read a page for each.

use super::collect;
use super::contents::RangeContents;
use super::place_map::{SpillFile, each_known_pair};
use crate::pages::delta::DeltaEntry;
use crate::pages::entry::Segment;
use crate::pages::map::{self, NULL_KEY, Sources, VALUE_KEY};
use crate::pages::meta::{ColumnMeta, MapForm, Meta};
use crate::pages::miss::Fetch;
use crate::pg::{Rel, error::IndexResult};
use skip_map::key_part::KeyPart;
use skip_map::{Coding, RunCursor, Sorter};

/// The pairs that the table has in one column.
pub struct MapCheck {
    column: u16,
    form: MapForm,
    /// The first range that the index does not summarize, at least 1.
    end: u32,
    coding: Coding,
    sorter: Sorter<SpillFile>,
}

/// A pair that no map has, but the table does.
#[derive(Clone, Copy)]
pub struct Lacking {
    pub part: u32,
    /// The pair's number among all pairs of the column; numbers ascend by fingerprint, then by range.
    pub number: u64,
}

/// The checks of all columns; None for a column without maps.
///
/// # Errors
/// As [`MapCheck::new`].
pub fn of_columns(meta: &Meta) -> IndexResult<Vec<Option<MapCheck>>> {
    let memory = collect::memory_of_column(meta);
    let of = |(c, column): (usize, &ColumnMeta)| {
        column.map().map(|form| MapCheck::new(c as u16, form, meta.watermark, memory)).transpose()
    };
    meta.columns.iter().enumerate().map(of).collect()
}

impl MapCheck {
    /// A check of a column of an index that summarizes the ranges below `end`. Pairs take at most `memory` bytes.
    ///
    /// # Errors
    /// The meta page has an invalid number of fingerprint bits.
    pub fn new(column: u16, form: MapForm, end: u32, memory: usize) -> IndexResult<Self> {
        let end = end.max(1);
        let coding = map::coding(form, end)?;
        let sorter = Sorter::new(coding, memory, u64::from(coding.ranges()) * 64, SpillFile::default());
        Ok(Self { column, form, end, coding, sorter })
    }

    /// The 0-based column.
    pub fn column(&self) -> u16 {
        self.column
    }

    /// How new maps of the column code pairs. Older ones may have shorter fingerprints.
    pub fn form(&self) -> MapForm {
        self.form
    }

    /// The first range that the index does not summarize, at least 1.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// How pairs are coded as numbers in this check.
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// Adds the contents of a range.
    pub fn push(&mut self, range: u32, contents: RangeContents<'_>) {
        each_known_pair(self.form.parts, range, contents, |key, part| {
            let Ok(()) = self.sorter.push(key, part);
        });
    }

    /// Calls `each` with the pairs that none of the maps among the segments has, in ascending order.
    ///
    /// # Errors
    /// Damage, or pages recycled meanwhile; or that of `each`.
    pub fn lacking<'a>(
        self,
        index: Rel<'_>,
        segments: impl Iterator<Item = &'a Segment>,
        mut each: impl FnMut(Lacking) -> Fetch<()>,
    ) -> Fetch<()> {
        let of_column = segments.filter(|s| s.column == self.column && s.map().is_some());
        let maps = Sources::of(index, of_column)?;
        let coding = self.coding;
        let runs = maps.of_merge(KeyPart::WHOLE, |_| 0);
        let mut cursors: Vec<_> = runs.into_iter().map(|run| RunCursor::new(coding, run)).collect();
        self.sorter.finish(|numbers| {
            for &number in numbers {
                let mut is_there = false;
                for cursor in &mut cursors {
                    is_there |= cursor.reaches(number)?;
                }
                if !is_there {
                    each(Lacking { part: coding.split(number).1, number })?;
                }
            }
            Ok(())
        })
    }
}

/// The numbers of the pairs that an entry of the delta stands for.
pub fn numbers_of_entry(coding: Coding, entry: &DeltaEntry) -> impl Iterator<Item = u64> {
    let value = entry.hash.map(|hash| coding.number(hash, entry.part));
    let mark = coding.number(if entry.hash.is_some() { VALUE_KEY } else { NULL_KEY }, entry.part);
    value.into_iter().chain([mark])
}
