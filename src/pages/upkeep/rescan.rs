//! Rescans: segments are replaced by new ones that are made from the table, without the bits and pairs of rows that are
//! gone.
//!
//! A published segment loses no bits and no pairs. So inserts rely on it: a value that the filter of its range has
//! already needs no entry in the delta. A rescan breaks this. The row of such a value may come to a page that the
//! rescan has read already, and the new segment would lack it: a lost row. Therefore:
//!
//! 1. An entry for the ranges is put into the directory, and the generation is raised.
//! 2. The table is read, and the new segments are written and published. Meanwhile inserts into these ranges add every
//!    value to the delta, whatever the segments have.
//! 3. The old segments are retired, which raises the generation, before and after it if they are maps.
//! 4. The entry is taken out, and the generation is raised.
//!
//! **No row is lost.** A row that the scan did not find on its page was put there after the scan had released the
//! page's lock. So its insert reads a generation that is not older than that of step 1
//! ([`crate::pages::peeked_meta::PeekedMeta`] says why), and reads the directory again. It uses what it finds there
//! only if the generation did not rise meanwhile. Then it finds the entry, and adds the value to the delta; or it finds
//! the directory as it was after step 4, and looks its value up in the new segments. The delta is folded only under the
//! maintenance lock, which the rescan holds: the entries come into the new segments.
//!
//! **During a rescan of maps** the delta is folded too, because a large table takes long to be read. The entries become
//! additions, which are neither old nor new: they are true beside both, and no end of the rescan retires them. They say
//! of each of their parts that it has a value, because what the old maps say of that is retired with them. (A build
//! that retires them would lose rows, so a rescan must not be ended by a build older than this one.) While the new map
//! is written, the delta is not folded. Nor is it during rescans of filters and bounds, which a fold changes in place.
//! Those read less at once: the ranges of a segment, or of several that overlap.
//!
//! **Readers** take no notice of the entry. At every moment between the steps the old segments together with the delta
//! have every row, and the new ones together with the delta have every row of their ranges. A reader may use either, or
//! both. Readers of maps use the directory only if the generation did not rise meanwhile ([`crate::pages::map`]).
//! Old snapshots, also those of a standby, see rows whose versions are on the table's pages, and the scan takes all of
//! these; versions that were removed before are seen by none.
//!
//! **A crash** or an error leaves the entry. The next maintenance, before it does anything else, retires the old
//! segments if the new ones are complete, else the new ones. Both are correct until the delta is folded, and together
//! with the additions that were made meanwhile.
//!
//! An entry of width 0 is a note of where the next maintenance goes on with a column of maps. Inserts take no notice of
//! it. It stays until the rescan from there on has ended: one that is cut off is not begun from the table's start.

use crate::pages::directory::Directory;
use crate::pages::entry::{Rescan, Segment, SegmentKind};
use crate::pages::meta::Meta;
use crate::pg::error::IndexResult;
use skip_map::key_part::{KeySet, KeySpan, are_covered};

/// Ranges of a column that are to be read again: all those of its segments that will be replaced.
#[derive(Clone, Copy)]
pub struct Replaced {
    pub column: u16,
    pub first_range: u32,
    pub end: u32,
}

/// Announces rescans to inserts. The caller reads the table's size and pages afterwards. Segments that are published
/// from now on are new ones.
///
/// # Errors
/// Damage to the index.
pub fn begin(directory: &mut Directory<'_>, replaced: &[Replaced]) -> IndexResult<Vec<Rescan>> {
    let first_id = Meta::read(directory.index())?.next_segment;
    let rescans: Vec<Rescan> = replaced
        .iter()
        .map(|r| Rescan {
            column: r.column,
            first_range: r.first_range,
            width: r.end.saturating_sub(r.first_range),
            first_id,
        })
        .collect();
    for &rescan in &rescans {
        directory.put_rescan(None, Some(rescan))?;
    }
    directory.raise_generation()?;
    Ok(rescans)
}

/// Whether ranges of a column are being read again.
pub fn is_active(directory: &Directory<'_>, column: u16) -> bool {
    directory.rescans().iter().any(|rescan| rescan.column == column && rescan.width > 0)
}

/// Ends a rescan: retires the segments that were replaced, and takes the entry out. `next` is the range from which on
/// the next maintenance goes on.
///
/// # Errors
/// Damage to the index.
pub fn end(directory: &mut Directory<'_>, rescan: Rescan, next: Option<u32>) -> IndexResult<()> {
    retire_half(directory, rescan)?;
    let mut before = directory.rescans();
    before.retain(|entry| is_note(entry, rescan.column));
    let next = next.map(|first_range| Rescan { first_range, width: 0, ..rescan });
    directory.put_rescan(Some(rescan), next)?;
    // If a crash leaves both notes, either will do.
    before.into_iter().try_for_each(|note| directory.put_rescan(Some(note), None))?;
    directory.raise_generation()
}

/// Ends the rescans that an interrupted maintenance has left. Notes stay: it does no harm to read ranges once more.
///
/// # Errors
/// Damage to the index.
pub fn end_interrupted(directory: &mut Directory<'_>) -> IndexResult<()> {
    for rescan in directory.rescans() {
        if rescan.width > 0 {
            retire_half(directory, rescan)?;
            directory.put_rescan(Some(rescan), None)?;
            directory.raise_generation()?;
        }
    }
    Ok(())
}

/// Retires the segments that were replaced; or the new ones, if they do not cover all of the rescan's ranges.
fn retire_half(directory: &mut Directory<'_>, rescan: Rescan) -> IndexResult<()> {
    let is_inside = |s: &Segment| {
        s.column == rescan.column
            && rescan.first_range <= s.first_range
            && s.end_range() <= rescan.end_range()
    };
    let is_new = |s: &Segment| s.id >= rescan.first_id;
    let new: Vec<KeySpan> = directory
        .segments(rescan.column)
        .iter()
        .filter(|s| is_inside(s) && is_new(s))
        .map(Segment::key_span)
        .collect();
    let is_complete = are_covered(&new, KeySet::ALL, (rescan.first_range, rescan.end_range()));
    let is_addition = |s: &Segment| matches!(s.kind, SegmentKind::Addition(_));
    let is_retired = |s: &Segment| if is_complete { !is_new(s) } else { is_new(s) && !is_addition(s) };
    let retired: Vec<u64> =
        directory.all_segments().filter(|s| is_inside(s) && is_retired(s)).map(|s| s.id).collect();
    directory.retire(&retired)
}

/// Whether an entry says where to go on with a column.
fn is_note(rescan: &Rescan, column: u16) -> bool {
    rescan.column == column && rescan.width == 0
}

/// The range from which on the next rescan of a column goes on, if that is noted.
pub fn next(directory: &Directory<'_>, column: u16) -> Option<u32> {
    directory.rescans().iter().find(|rescan| is_note(rescan, column)).map(|note| note.first_range)
}

/// Takes out the notes of where to go on with a column.
///
/// # Errors
/// Damage to the index.
pub fn remove_next(directory: &mut Directory<'_>, column: u16) -> IndexResult<()> {
    let mut notes = directory.rescans().into_iter().filter(|rescan| is_note(rescan, column));
    notes.try_for_each(|note| directory.put_rescan(Some(note), None))
}
