//! A table's block ranges as one line of characters, for the eye.
//!
//! | character | what the cell holds |
//! |---|---|
//! | `#` | a row with the value |
//! | `o` | a range that a lookup reads in vain |
//! | `?` | a range without a filter, read in any case |
//! | `.` | nothing but skipped ranges |
//!
//! A cell that covers several ranges shows the first of these that applies. ASCII only: the line must be text in every
//! encoding that a database may have.

use crate::RangeSet;

/// Draws `matching.universe()` ranges as at most `width` characters, one for each range if they fit.
///
/// `matching` are the ranges that a lookup reads, `unfiltered` those that have no filter, `holding` those with a row.
/// A range is `?` only while it is read: one that lost its filter, or got it, between two looks counts as matching
/// says.
pub fn picture(matching: &RangeSet, unfiltered: &RangeSet, holding: &RangeSet, width: u64) -> String {
    let ranges = matching.universe();
    let cells = width.min(ranges);
    let mut filtered = matching.clone();
    filtered.subtract(unfiltered);
    let cell = |number: u64| {
        // No cell is empty, as there are not more cells than ranges.
        let (from, to) = (number * ranges / cells, (number + 1) * ranges / cells);
        let legend = [(holding, '#'), (&filtered, 'o'), (matching, '?')];
        legend.iter().find(|(set, _)| set.any_in(from, to)).map_or('.', |&(_, character)| character)
    };
    (0..cells).map(cell).collect()
}
