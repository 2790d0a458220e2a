//! Order keys of arrays, ranges and multiranges: the key of what comes first in them.
//!
//! | values | the server compares | key |
//! |---|---|---|
//! | arrays | elements one by one, NULL being the greatest; a shorter one is less than one that continues it | that of the first element |
//! | ranges | whether they are empty, the lower bounds, the upper bounds | that of the lower bound |
//! | multiranges | ranges one by one, as arrays | that of the first range |
//!
//! What has no first part, or a lower bound of minus infinity, is the least and has the key 0. An array whose first
//! element is NULL has the greatest key.
//!
//! The bytes are those behind the header of the value. Places in them are counted from the header, as the server does:
//! it aligns from there.

use crate::bytes::{HEADER, u32_at, varlena};
use crate::order::OrderKind;

/// What the values of a type are, as seen from those that have the order of an [`OrderKind`]. The numbers are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Nesting {
    /// The values themselves.
    None = 0,
    /// Arrays of them.
    Array = 1,
    /// Ranges between two of them.
    Range = 2,
    /// Multiranges of such ranges.
    Multirange = 3,
}

/// How the server stores a part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartLen {
    /// In so many bytes.
    Fixed(usize),
    /// With a header.
    Varlena,
}

/// The order of the values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueOrder {
    nesting: Nesting,
    kind: OrderKind,
    len: PartLen,
    /// Bytes to multiples of which parts are aligned.
    align: usize,
}

/// Where an array has its number of dimensions, the place of its data (0: behind the dimensions) and its dimensions.
const DIMENSIONS: usize = 4;
const DATA: usize = 8;
const FIRST_DIMENSION: usize = 16;
/// Bytes to multiples of which the data of an array is aligned: MAXALIGN.
const MOST_ALIGNED: usize = 8;
/// MAXDIM.
const MOST_DIMENSIONS: usize = 6;
/// Where a range has its lower bound.
const LOWER: usize = 8;
/// Where a multirange has its number of ranges, and the places of all ranges but the first.
const RANGES: usize = 8;
const PLACES: usize = 12;
/// Flags of a range: RANGE_EMPTY and RANGE_LB_INF of rangetypes.h; RANGE_LB_NULL is not used.
const EMPTY: u8 = 0x01;
const LOWER_INFINITE: u8 = 0x08;

impl ValueOrder {
    /// The order of values of a kind.
    pub fn of(kind: OrderKind) -> Self {
        Self { nesting: Nesting::None, kind, len: PartLen::Varlena, align: 1 }
    }

    /// The order of arrays or ranges of values of a kind, which are stored so. None if the order of the parts is not
    /// known from each of them.
    pub fn nested(nesting: Nesting, kind: OrderKind, len: PartLen, align: usize) -> Option<Self> {
        (kind != OrderKind::Label && align > 0).then_some(Self { nesting, kind, len, align })
    }

    /// Its number on disk, less than 256.
    pub fn number(&self) -> u16 {
        /// There are less than 64 kinds.
        const KINDS: u16 = 64;
        self.nesting as u16 * KINDS + self.kind as u16
    }

    /// The kind, if the values are not made of others.
    pub fn plain_kind(&self) -> Option<OrderKind> {
        (self.nesting == Nesting::None).then_some(self.kind)
    }

    /// Whether values with the same key are equal.
    pub fn is_exact(&self) -> bool {
        self.nesting == Nesting::None && self.kind.is_exact()
    }

    /// Whether the order is that of bytes only under some collations.
    pub fn is_collated(&self) -> bool {
        self.kind.is_collated()
    }

    /// As [`OrderKind::key_of_unknown_places`].
    pub fn key_of_unknown_places(&self) -> Option<u64> {
        self.kind.key_of_unknown_places()
    }

    /// The key of a value, as [`OrderKind::key`].
    #[inline]
    pub fn key(&self, bytes: &[u8]) -> Option<u64> {
        match self.nesting {
            Nesting::None => self.kind.key(bytes),
            Nesting::Array => self.key_of_array(bytes),
            Nesting::Range => self.key_of_range(bytes),
            Nesting::Multirange => self.key_of_multirange(bytes),
        }
    }

    fn key_of_array(&self, bytes: &[u8]) -> Option<u64> {
        let dimensions = u32_at(bytes, DIMENSIONS - HEADER)? as usize;
        if dimensions == 0 {
            return Some(0);
        }
        if dimensions > MOST_DIMENSIONS {
            return None;
        }
        // Lengths of the dimensions, then their lower bounds. Arrays without elements may have dimensions.
        for dimension in 0..dimensions {
            if u32_at(bytes, FIRST_DIMENSION - HEADER + 4 * dimension)? == 0 {
                return Some(0);
            }
        }
        let behind = FIRST_DIMENSION + 8 * dimensions;
        let data = match u32_at(bytes, DATA - HEADER)? as usize {
            0 => behind.next_multiple_of(MOST_ALIGNED),
            data => {
                // There is a bit for each element, which is set if the element is not NULL.
                if bytes.get(behind - HEADER)? & 1 == 0 {
                    return Some(u64::MAX);
                }
                data
            }
        };
        self.key_of_part(bytes.get(data.checked_sub(HEADER)?..)?)
    }

    fn key_of_range(&self, bytes: &[u8]) -> Option<u64> {
        let (&flags, rest) = bytes.split_last()?;
        if flags & (EMPTY | LOWER_INFINITE) != 0 {
            Some(0)
        } else {
            self.key_of_part(rest.get(LOWER - HEADER..)?)
        }
    }

    fn key_of_multirange(&self, bytes: &[u8]) -> Option<u64> {
        let ranges = u32_at(bytes, RANGES - HEADER)? as usize;
        if ranges == 0 {
            return Some(0);
        }
        let flags = PLACES.checked_add((ranges - 1).checked_mul(4)?)?;
        if bytes.get(flags - HEADER)? & (EMPTY | LOWER_INFINITE) != 0 {
            return Some(0);
        }
        let first = flags.checked_add(ranges)?.checked_next_multiple_of(self.align)?;
        self.key_of_part(bytes.get(first - HEADER..)?)
    }

    /// The key of the value that stands at the start of these bytes.
    fn key_of_part(&self, bytes: &[u8]) -> Option<u64> {
        match self.len {
            PartLen::Varlena => self.kind.key(varlena(bytes)?),
            PartLen::Fixed(len) => {
                let value = bytes.get(..len)?;
                let is_name = self.kind == OrderKind::Name;
                let end = value.iter().position(|&byte| is_name && byte == 0).unwrap_or(len);
                self.kind.key(&value[..end])
            }
        }
    }
}
