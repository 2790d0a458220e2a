//! A directory entry: a live or an unfinished segment, an open stretch, a rescan, a free or a reserved extent.
//!
//! ```text
//! 0 kind u8 | 1 probes or fingerprint bits u8 | 2 column u8 | 3 key part u8 | 4 first range u32 | 8 width u32
//! 12 filter bits or pairs u32 | 16 first block u32 | 20 blocks u32 | 24 segment id u64
//!
//! kind: 0 empty, 1 filters, 2 free extent, 3 reserved extent, 4 map, 5 addition, 6 open stretch, 8 rescan (its
//! segment id is the first one of the new segments)
//!
//! kind 9, bounds: 1 zero u8 | 12 zero u32 | all else as above
//!
//! kind 7, unfinished segment: 1 whether its data pages are written u8 | 2 column u8 | 3 key part u8
//! 4 first range u32 | 8 width u32 | 12 pages written u32 | 16 first block u32 | 20 blocks u32 | 24 segment id u32
//! 28 pairs u32
//! ```
//!
//! The key part ([`skip_map::key_part`]) is 0 for all keys. Only maps, and unfinished maps, have others. A page of the
//! directory that has such an entry has a format version of its own.

use super::meta::MapForm;
use crate::pg::{Damage, error::IndexResult};
use skip_bounds::BoundsShape;
use skip_map::key_part::{KeyPart, KeySet, KeySpan};
use skip_segment::SegmentShape;
use skip_segment::page::{SLICE_BYTES, get_u32, get_u64};
use skip_segment::spans::Span;
use std::ops::Range;

/// Size of an entry in bytes.
pub const ENTRY_BYTES: usize = 32;

/// A live segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// 0-based index column.
    pub column: u16,
    /// First block range covered.
    pub first_range: u32,
    /// Ranges covered.
    pub width: u32,
    /// The keys that it is asked for; all, unless it is a map.
    pub key_part: KeyPart,
    /// What it consists of.
    pub kind: SegmentKind,
    /// First index block.
    pub first_block: u32,
    /// Number of index blocks.
    pub blocks: u32,
    /// Segment id, unique for the life of the index.
    pub id: u64,
}

/// What a segment consists of, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// A filter for each range, stored bit-sliced ([`super::segment`]).
    Filters(FilterSize),
    /// For each key the ranges that may hold it ([`super::map`]).
    Map(MapSize),
    /// A map of pairs that came into ranges which other maps summarize. It adds to their answers.
    Addition(MapSize),
    /// The least and the greatest order key of each range ([`super::bounds`]).
    Bounds,
}

/// The size of each filter of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterSize {
    /// Bits of each range's filter (m).
    pub bits: u32,
    /// Probes per key (k).
    pub num_probes: u8,
}

/// The size of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapSize {
    /// How its pairs are coded. The entry on disk has only the fingerprint bits; the number of parts is the column's,
    /// in the meta page.
    pub form: MapForm,
    /// Number of pairs of fingerprint and range; `u32::MAX` stands for that number or more.
    pub pairs: u32,
}

impl Segment {
    /// The first range behind the segment.
    pub fn end_range(&self) -> u32 {
        self.first_range.saturating_add(self.width)
    }

    /// Whether the segment summarizes its ranges. If so, it rules out a range that it does not match, unless an
    /// addition matches it.
    pub fn summarizes(&self) -> bool {
        !matches!(self.kind, SegmentKind::Addition(_))
    }

    /// The ranges and keys that it covers.
    pub fn key_span(&self) -> KeySpan {
        KeySpan { first: self.first_range, end: self.end_range(), keys: self.key_part.keys() }
    }

    /// Number of parts into which it divides each of its ranges.
    pub fn parts(&self) -> u32 {
        self.map().map_or(1, |size| size.form.parts)
    }

    /// The parts of ranges that it covers, counted from the table's first one.
    pub fn part_span(&self) -> Range<u64> {
        let parts = u64::from(self.parts());
        u64::from(self.first_range) * parts..u64::from(self.end_range()) * parts
    }

    /// The size of its map, if it is one.
    pub fn map(&self) -> Option<MapSize> {
        match self.kind {
            SegmentKind::Filters(_) | SegmentKind::Bounds => None,
            SegmentKind::Map(size) | SegmentKind::Addition(size) => Some(size),
        }
    }

    /// Bits of a fingerprint of its map; 0 if it is none.
    pub fn fingerprint_bits(&self) -> u8 {
        self.map().map_or(0, |size| size.form.fingerprint_bits)
    }

    /// Whether it has bounds.
    pub fn is_of_bounds(&self) -> bool {
        self.kind == SegmentKind::Bounds
    }

    /// Where the bounds of its ranges are on the pages.
    ///
    /// # Errors
    /// The directory entry is invalid: reported as damage to the segment's first block.
    pub fn bounds_shape(&self) -> IndexResult<BoundsShape> {
        BoundsShape::new(self.width)
            .filter(|shape| self.is_of_bounds() && shape.pages() == self.blocks)
            .ok_or_else(|| {
                Damage::new(self.first_block, "the directory describes an invalid segment of bounds")
            })
    }

    /// The size of its filters, if it has filters.
    ///
    /// # Errors
    /// It has none: reported as damage to the segment's first block.
    pub fn filters(&self) -> IndexResult<FilterSize> {
        match self.kind {
            SegmentKind::Filters(size) => Ok(size),
            _ => Err(Damage::new(self.first_block, "another segment is used as one of filters")),
        }
    }

    /// The ranges that it covers, and its filter size; a map, or bounds, have filters of 0 bits.
    pub fn span(&self) -> Span {
        let Self { first_range, width, .. } = *self;
        let FilterSize { bits, num_probes } = self.filters().unwrap_or(FilterSize { bits: 0, num_probes: 0 });
        Span { first_range, width, filter_bits: bits, num_probes }
    }

    /// Where the slices of filters are on the pages.
    ///
    /// # Errors
    /// The directory entry is invalid: reported as damage to the segment's first block.
    pub fn shape(&self) -> IndexResult<SegmentShape> {
        SegmentShape::new(self.width, self.filters()?.bits, SLICE_BYTES)
            .filter(|shape| shape.pages() == self.blocks)
            .ok_or_else(|| Damage::new(self.first_block, "the directory describes an invalid segment"))
    }
}

/// Neighbouring ranges of a column that match every lookup, although maps summarize them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenStretch {
    /// 0-based index column.
    pub column: u16,
    pub first_range: u32,
    pub width: u32,
}

impl OpenStretch {
    /// The first range behind the stretch.
    pub fn end_range(&self) -> u32 {
        self.first_range.saturating_add(self.width)
    }

    /// The same ranges in stretches that do not overlap. `stretches` are those of one column, by first range.
    pub fn disjoint(stretches: Vec<Self>) -> Vec<Self> {
        let mut disjoint: Vec<Self> = Vec::new();
        for stretch in stretches {
            match disjoint.last_mut().filter(|last| stretch.first_range < last.end_range()) {
                Some(last) => last.width = last.width.max(stretch.end_range() - last.first_range),
                None => disjoint.push(stretch),
            }
        }
        disjoint
    }
}

/// A segment that is made of neighbouring ones in steps, perhaps by many processes one after the other
/// ([`super::upkeep`]). Readers ignore it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// 0-based index column.
    pub column: u16,
    /// First block range covered.
    pub first_range: u32,
    /// Ranges covered.
    pub width: u32,
    /// The keys that it has.
    pub key_part: KeyPart,
    /// First index block.
    pub first_block: u32,
    /// Number of index blocks reserved for it.
    pub blocks: u32,
    /// Number of pages that are written, from the first one on.
    pub pages: u32,
    /// Its segment id. The segments that it is made of have lower ones.
    pub id: u32,
    /// Of a map, the number of pairs on the data pages written.
    pub pairs: u32,
    /// Whether all data pages of a map are written. `blocks` is then the number of its pages.
    pub has_data: bool,
}

impl Unfinished {
    /// The first range behind it.
    pub fn end_range(&self) -> u32 {
        self.first_range.saturating_add(self.width)
    }

    /// Number of pages that are not written yet, of a map at most.
    pub fn pages_left(&self) -> u32 {
        self.blocks.saturating_sub(self.pages)
    }

    /// The segment that it becomes. `like` is one of those that it is made of.
    pub fn segment(&self, like: &Segment) -> Segment {
        let kind = match like.kind {
            SegmentKind::Map(size) | SegmentKind::Addition(size) => {
                SegmentKind::Map(MapSize { pairs: self.pairs, ..size })
            }
            filters => filters,
        };
        let Self { column, first_range, width, key_part, first_block, blocks, id, .. } = *self;
        Segment { column, first_range, width, key_part, kind, first_block, blocks, id: id.into() }
    }
}

/// Neighbouring ranges of a column whose segments are being replaced by new ones, made from the table
/// ([`super::upkeep::rescan`]). Of width 0: the range from which on the next maintenance reads the table again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rescan {
    /// 0-based index column.
    pub column: u16,
    pub first_range: u32,
    pub width: u32,
    /// The new segments have this id or a higher one, the segments that they replace have lower ones.
    pub first_id: u64,
}

impl Rescan {
    /// The first range behind it.
    pub fn end_range(&self) -> u32 {
        self.first_range.saturating_add(self.width)
    }
}

/// The contents of a slot of a directory page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Empty,
    Segment(Segment),
    Open(OpenStretch),
    Rescan(Rescan),
    Free {
        first_block: u32,
        blocks: u32,
    },
    /// Blocks allocated for a segment that is being written.
    Reserved {
        first_block: u32,
        blocks: u32,
    },
    Unfinished(Unfinished),
}

const EMPTY: u8 = 0;
const FILTERS: u8 = 1;
const FREE: u8 = 2;
const RESERVED: u8 = 3;
const MAP: u8 = 4;
const ADDITION: u8 = 5;
const OPEN: u8 = 6;
const UNFINISHED: u8 = 7;
const RESCAN: u8 = 8;
const BOUNDS: u8 = 9;

impl Entry {
    /// The entry for a free extent, or an empty entry if the extent has no blocks.
    pub fn free(first_block: u32, blocks: u32) -> Self {
        if blocks == 0 { Entry::Empty } else { Entry::Free { first_block, blocks } }
    }

    /// The blocks that it names, as (first block, blocks).
    pub fn extent(&self) -> Option<(u32, u32)> {
        match *self {
            Entry::Segment(Segment { first_block, blocks, .. })
            | Entry::Unfinished(Unfinished { first_block, blocks, .. })
            | Entry::Free { first_block, blocks }
            | Entry::Reserved { first_block, blocks } => Some((first_block, blocks)),
            Entry::Empty | Entry::Open(_) | Entry::Rescan(_) => None,
        }
    }

    /// Decodes an entry; None if its kind, or its key part, is unknown. `parts` gives the number of parts of a column's
    /// ranges.
    pub fn decode(bytes: &[u8], parts: impl Fn(u16) -> u32) -> Option<Self> {
        let (kind, bits, number) = (bytes[0], bytes[1], get_u32(bytes, 12));
        let (column, key_part) = (u16::from(bytes[2]), KeyPart::of_code(bytes[3])?);
        let (first_range, width) = (get_u32(bytes, 4), get_u32(bytes, 8));
        if !key_part.is_whole() && !matches!(kind, MAP | ADDITION | UNFINISHED) {
            return None;
        }
        let (first_block, blocks) = (get_u32(bytes, 16), get_u32(bytes, 20));
        let segment = |kind| {
            let id = get_u64(bytes, 24);
            Some(Entry::Segment(Segment {
                column,
                first_range,
                width,
                key_part,
                kind,
                first_block,
                blocks,
                id,
            }))
        };
        let map =
            || MapSize { form: MapForm { fingerprint_bits: bits, parts: parts(column) }, pairs: number };
        match kind {
            EMPTY => Some(Entry::Empty),
            FILTERS => segment(SegmentKind::Filters(FilterSize { bits: number, num_probes: bits })),
            FREE => Some(Entry::Free { first_block, blocks }),
            RESERVED => Some(Entry::Reserved { first_block, blocks }),
            MAP => segment(SegmentKind::Map(map())),
            ADDITION => segment(SegmentKind::Addition(map())),
            BOUNDS => segment(SegmentKind::Bounds),
            OPEN => Some(Entry::Open(OpenStretch { column, first_range, width })),
            UNFINISHED => Some(Entry::Unfinished(Unfinished {
                column,
                first_range,
                width,
                key_part,
                first_block,
                blocks,
                pages: number,
                id: get_u32(bytes, 24),
                pairs: get_u32(bytes, 28),
                has_data: bits != 0,
            })),
            RESCAN => {
                Some(Entry::Rescan(Rescan { column, first_range, width, first_id: get_u64(bytes, 24) }))
            }
            _ => None,
        }
    }

    /// Whether encoded bytes may be of a segment, open stretch or rescan of a column and keys that are wanted: tells it
    /// without decoding them all. An entry of an unknown kind is wanted.
    #[inline]
    pub fn is_wanted(bytes: &[u8], wanted: impl Fn(u16) -> KeySet) -> bool {
        match bytes[0] {
            EMPTY | FREE | RESERVED | UNFINISHED => false,
            _ => KeySet::of_code(bytes[3]).intersects(wanted(bytes[2].into())),
        }
    }

    /// Whether it is of a part of the keys.
    pub fn has_key_part(&self) -> bool {
        match self {
            Entry::Segment(segment) => !segment.key_part.is_whole(),
            Entry::Unfinished(unfinished) => !unfinished.key_part.is_whole(),
            _ => false,
        }
    }

    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut b = [0u8; ENTRY_BYTES];
        match *self {
            Entry::Empty => {}
            Entry::Segment(segment) => encode_segment(&mut b, &segment),
            Entry::Open(OpenStretch { column, first_range, width }) => {
                b[0] = OPEN;
                put_place(&mut b, column, KeyPart::WHOLE, first_range, width);
            }
            Entry::Rescan(Rescan { column, first_range, width, first_id }) => {
                b[0] = RESCAN;
                put_place(&mut b, column, KeyPart::WHOLE, first_range, width);
                b[24..].copy_from_slice(&first_id.to_le_bytes());
            }
            Entry::Free { first_block, blocks } | Entry::Reserved { first_block, blocks } => {
                b[0] = if matches!(self, Entry::Free { .. }) { FREE } else { RESERVED };
                put_extent(&mut b, first_block, blocks);
            }
            Entry::Unfinished(unfinished) => encode_unfinished(&mut b, &unfinished),
        }
        b
    }
}

fn encode_segment(b: &mut [u8; ENTRY_BYTES], s: &Segment) {
    let (kind, bits, number) = match s.kind {
        SegmentKind::Filters(FilterSize { bits, num_probes }) => (FILTERS, num_probes, bits),
        SegmentKind::Map(MapSize { form, pairs }) => (MAP, form.fingerprint_bits, pairs),
        SegmentKind::Addition(MapSize { form, pairs }) => (ADDITION, form.fingerprint_bits, pairs),
        SegmentKind::Bounds => (BOUNDS, 0, 0),
    };
    (b[0], b[1]) = (kind, bits);
    put_place(b, s.column, s.key_part, s.first_range, s.width);
    b[12..16].copy_from_slice(&number.to_le_bytes());
    put_extent(b, s.first_block, s.blocks);
    b[24..].copy_from_slice(&s.id.to_le_bytes());
}

fn encode_unfinished(b: &mut [u8; ENTRY_BYTES], u: &Unfinished) {
    (b[0], b[1]) = (UNFINISHED, u8::from(u.has_data));
    put_place(b, u.column, u.key_part, u.first_range, u.width);
    b[12..16].copy_from_slice(&u.pages.to_le_bytes());
    put_extent(b, u.first_block, u.blocks);
    b[24..28].copy_from_slice(&u.id.to_le_bytes());
    b[28..].copy_from_slice(&u.pairs.to_le_bytes());
}

fn put_place(b: &mut [u8; ENTRY_BYTES], column: u16, key_part: KeyPart, first_range: u32, width: u32) {
    // An index has at most 32 columns.
    b[2..4].copy_from_slice(&[column as u8, key_part.code()]);
    b[4..8].copy_from_slice(&first_range.to_le_bytes());
    b[8..12].copy_from_slice(&width.to_le_bytes());
}

fn put_extent(b: &mut [u8; ENTRY_BYTES], first_block: u32, blocks: u32) {
    b[16..20].copy_from_slice(&first_block.to_le_bytes());
    b[20..24].copy_from_slice(&blocks.to_le_bytes());
}
