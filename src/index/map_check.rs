//! Finds the table's keys that the maps of a column lack.
//!
//! The table's pairs are sorted as in a build, and compared with the sorted numbers of all maps in one pass. A lookup
//! of each pair would read a page for each.

use super::collect;
use super::contents::RangeContents;
use super::place_map::{SpillFile, each_known_pair};
use crate::pages::delta::DeltaEntry;
use crate::pages::entry::Segment;
use crate::pages::map::{self, NULL_KEY, RunNumbers, Sources, VALUE_KEY};
use crate::pages::meta::{ColumnMeta, MapForm, Meta};
use crate::pages::miss::Fetch;
use crate::pg::{Rel, error::IndexResult};
use skip_map::{Coding, Each, Sorter};

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

    /// How the column's maps code pairs.
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
        let mut cursors: Vec<MapCursor<'_, '_>> = maps.numbers().map(MapCursor::new).collect();
        self.sorter.finish(|numbers| {
            for &number in numbers {
                let mut is_there = false;
                for cursor in &mut cursors {
                    is_there |= cursor.reaches(number, coding)?;
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

/// A map, or those of all parts of the keys, that is being read, and the position in it.
struct MapCursor<'m, 'a> {
    coding: Coding,
    first_part: u64,
    numbers: Each<RunNumbers<'m, 'a>>,
    /// The number read last, as one among all pairs of the column; None before the first.
    head: Option<u64>,
    is_over: bool,
}

impl<'m, 'a> MapCursor<'m, 'a> {
    fn new((coding, first_part, numbers): (Coding, u64, RunNumbers<'m, 'a>)) -> Self {
        Self { coding, first_part, numbers: Each::of(numbers), head: None, is_over: false }
    }

    /// Reads on up to `number`, which is higher than the one before. Returns whether the map has it.
    fn reaches(&mut self, number: u64, coding: Coding) -> Fetch<bool> {
        while !self.is_over && self.head.is_none_or(|head| head < number) {
            match self.numbers.next().transpose()? {
                Some(own) => self.head = self.in_all(own, coding).or(self.head),
                None => self.is_over = true,
            }
        }
        Ok(self.head == Some(number))
    }

    /// Converts a number of the map to one among all pairs of the column. None for a part behind the watermark, which
    /// an addition may have since the table was truncated. The conversion keeps the order: numbers are ordered by their
    /// fingerprints, and by their parts where those are equal.
    fn in_all(&self, own: u64, coding: Coding) -> Option<u64> {
        let (fingerprint, part) = self.coding.split(own);
        let part = self.first_part + u64::from(part);
        let all = u64::from(coding.ranges());
        (part < all).then(|| fingerprint * all + part)
    }
}
