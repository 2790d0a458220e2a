//! What lookups and inserts use of the directory, read without a lock.
//!
//! A column may have several segments for the same ranges: of different parts of the keys, or because a merge is in
//! progress. For each key, the ones that lookups use are those whose ranges no other segment with that key has
//! ([`in_use`]). A range that no segment with the key has matches.

use super::{DirectoryPage, check_extents, walk};
use crate::pages::entry::{Entry, OpenStretch, Rescan, Segment};
use crate::pages::meta::{self, ColumnMeta, Meta, SegmentLayout};
use crate::pages::miss::{Fetch, Miss};
use crate::pg::Rel;
use crate::pg::error::IndexResult;
use crate::pg::page::{self, KnownBlocks};
use skip_map::key_part::{KeySet, KeySpan, keys_in_use};
use std::cmp::Reverse;
use std::ops::Deref;

/// The live segments and open stretches of some columns.
#[derive(Default)]
pub struct Live {
    /// The segments that summarize ranges, by column and first range; of those that start together, the one that ends
    /// later comes first.
    pub segments: Vec<LiveSegment>,
    /// Additions: maps that add to the answers of those segments.
    pub additions: Vec<Segment>,
    /// Ranges that match every lookup, although maps summarize them.
    pub open: Vec<OpenStretch>,
    /// Ranges whose segments are being replaced. Lookups use the old and the new ones alike; inserts trust neither.
    pub rescans: Vec<Rescan>,
    /// The pages that it was read from.
    pages: Vec<DirectoryPage>,
}

/// A segment, and the keys that it is used for: those for which no other one has all of its ranges.
#[derive(Clone, Copy, Debug)]
pub struct LiveSegment {
    pub segment: Segment,
    pub keys: KeySet,
}

impl LiveSegment {
    /// The ranges that it summarizes, and the keys that it is used for.
    pub fn used_span(&self) -> KeySpan {
        KeySpan { keys: self.keys, ..self.segment.key_span() }
    }
}

impl Deref for LiveSegment {
    type Target = Segment;

    fn deref(&self) -> &Segment {
        &self.segment
    }
}

impl Live {
    /// The segments of a column.
    pub fn of_column(&self, column: u16) -> &[LiveSegment] {
        let from = self.segments.partition_point(|s| s.column < column);
        let to = self.segments.partition_point(|s| s.column <= column);
        self.segments.get(from..to).unwrap_or_default()
    }
}

/// The live segments and open stretches of the columns and keys that are `wanted`. `meta` was read before, and before
/// the delta.
///
/// # Errors
/// Damage to a directory page; or maps were replaced meanwhile, then start over from the meta page.
pub fn live(index: Rel, meta: &Meta, wanted: impl Fn(u16) -> KeySet) -> Fetch<Live> {
    let mut live = Live::default();
    let mut segments: Vec<Segment> = Vec::new();
    let collect = |_, _, entry| match entry {
        Entry::Segment(s) if s.summarizes() => segments.push(s),
        Entry::Segment(s) => live.additions.push(s),
        Entry::Open(stretch) => live.open.push(stretch),
        Entry::Rescan(rescan) => live.rescans.push(rescan),
        _ => {}
    };
    live.pages = walk(meta.bind(index), meta, |bytes| Entry::is_wanted(bytes, &wanted), collect)?;
    check_extents(&mut KnownBlocks::new(index), segments.iter().chain(&live.additions))?;
    let may_have_changed = |(c, column): (usize, &ColumnMeta)| {
        !wanted(c as u16).is_empty()
            && match column.layout {
                // It may have been chosen since the meta page was read, and the entries may count in other parts.
                SegmentLayout::NotChosen(_) => true,
                SegmentLayout::Filters => false,
                SegmentLayout::Map(_) | SegmentLayout::Bounds => live.pages.len() > 1,
            }
    };
    let is_to_check = meta.columns.iter().enumerate().any(may_have_changed);
    if is_to_check && meta::generation(index)? != meta.generation {
        return Err(Miss::Recycled(meta::META_BLOCK));
    }
    live.segments = in_use_of(segments, wanted);
    Ok(live)
}

/// Whether `live` may still be used for lookups: the pages of the directory have the checksums that they had when it
/// was read. The caller has read a meta page with the same content as the one that was read before `live`, and scanned
/// the delta from that page's head. Its snapshot is older than these reads.
///
/// The pages are compared one by one, and not the generation. A page may have got its old bytes back, after a segment
/// came and went. No row is lost by that:
///
/// - What has left the delta since the meta page was read is still scanned, or a page of the delta has another sequence
///   number.
/// - A segment that was published since, and on which an insert relied instead of adding to the delta, has pairs from
///   the delta; or those of segments that `live` has; or those of rows in the table. In the last case its ranges match
///   without a segment in `live`, or it has replaced one, whose number never comes back: that page differs.
///
/// # Errors
/// Damage: the index ends before one of the pages.
pub fn is_unchanged(index: Rel, live: &Live) -> IndexResult<bool> {
    let mut known = KnownBlocks::new(index);
    for &DirectoryPage { block, checksum } in &live.pages {
        known.check(block.saturating_add(1))?;
        if !page::has_checksum(index, block, checksum) {
            return Ok(false);
        }
    }
    Ok(!live.pages.is_empty())
}

/// The segments of one column that summarize ranges, with the keys that each is used for; those that are used for none
/// are left out.
pub fn in_use(segments: Vec<Segment>) -> Vec<LiveSegment> {
    in_use_of(segments, |_| KeySet::ALL)
}

/// A segment is used for a key unless a wider one, or a newer one with the same ranges, has all its ranges for that
/// key. Of two with the same ranges the newer one is used because some of the segments that it was made of may be
/// retired already.
fn in_use_of(mut segments: Vec<Segment>, wanted: impl Fn(u16) -> KeySet) -> Vec<LiveSegment> {
    segments.sort_unstable_by_key(|s| (s.column, s.first_range, Reverse((s.width, s.id))));
    let mut used = Vec::with_capacity(segments.len());
    for column in segments.chunk_by(|a, b| a.column == b.column) {
        let wanted = wanted(column[0].column);
        let span = |s: &Segment| KeySpan { keys: s.key_part.keys().intersection(wanted), ..s.key_span() };
        let spans: Vec<KeySpan> = column.iter().map(span).collect();
        let keys = keys_in_use(&spans);
        let live = column.iter().zip(keys).map(|(&segment, keys)| LiveSegment { segment, keys });
        used.extend(live.filter(|live| !live.keys.is_empty()));
    }
    used
}
