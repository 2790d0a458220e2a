//! What a filter is, apart from its bits: read once by whoever asks it row after row, or many filters alike.
//!
//! Reading a header takes several times as long as asking for a key. Two values of one length with the same header
//! differ in nothing but bits, so that the outline of the one does for the other. The outline also has the policy's
//! fastest lookup for this CPU.

use crate::error::ValueError;
use crate::header;
use crate::keys::Keys;
use skip_filter::policy::{Lookup, Shape};
use std::ops::Range;

/// How a key is looked up in a filter, and where its bits are.
pub(crate) type FilterPlace = (Lookup, Range<usize>);

/// A filter's keys, shapes, and where their bits are.
#[derive(Clone, Debug)]
pub struct Outline {
    keys: Keys,
    shapes: Vec<Shape>,
    places: Vec<FilterPlace>,
    header: Vec<u8>,
    /// The header's bytes as a number, and which bits of it they are. None if they are too many for it.
    short: Option<(u64, u64)>,
    length: u64,
}

/// The first eight bytes as a number.
#[inline(always)]
fn first_word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|first| u64::from_le_bytes(*first))
}

impl Outline {
    /// The outline of a value of `length` bytes, of which `first` are the first ones.
    ///
    /// # Errors
    /// What is wrong with the value, or that these are too few of its bytes.
    pub fn read(first: &[u8], length: u64) -> Result<Self, ValueError> {
        let (keys, shapes, start) = header::decode(first, length)?;
        let bodies = shapes.iter().try_fold(start as u64, |sum, shape| sum.checked_add(shape.body_bytes()));
        match bodies {
            Some(end) if end == length => {
                let mut from = start;
                let place = |shape: &Shape| {
                    let begin = from;
                    from += shape.body_bytes() as usize;
                    (keys.policy.lookup(shape.geometry()), begin..from)
                };
                let places = shapes.iter().map(place).collect();
                let mask = (1u64 << (start.min(8) * 8 - 1) << 1).wrapping_sub(1);
                let short = first_word(first).filter(|_| start <= 8).map(|word| (word & mask, mask));
                Ok(Self { keys, shapes, places, header: first[..start].to_vec(), short, length })
            }
            Some(end) if end < length => Err(ValueError::TOO_LONG),
            _ => Err(ValueError::Truncated),
        }
    }

    /// Whether these bytes are a value with this outline.
    #[inline]
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.length
            && match (self.short, first_word(bytes)) {
                (Some((header, mask)), Some(word)) => word & mask == header,
                _ => self.has_long_header(bytes),
            }
    }

    /// Out of the way of short headers, which nearly all values have: [`is_of`](Self::is_of) needs no registers for it.
    #[cold]
    fn has_long_header(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(&self.header)
    }

    /// What the keys are.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The filters.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// Where their bits begin.
    pub fn start(&self) -> u64 {
        self.header.len() as u64
    }

    /// Whether the value of these bytes, [which have this outline](Self::is_of), may hold the key of a hash. That
    /// unreachable bits are zero is not checked here: no answer depends on them.
    #[inline]
    pub fn may_contain_hash(&self, bytes: &[u8], hash: u64) -> bool {
        match &self.places[..] {
            [only] => self.look_up(only, bytes, hash),
            several => self.look_up_any(several, bytes, hash),
        }
    }

    /// The place of its filter, if it has one only.
    pub(crate) fn only_place(&self) -> Option<&FilterPlace> {
        match &self.places[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    #[inline(always)]
    fn look_up(&self, (lookup, place): &FilterPlace, bytes: &[u8], hash: u64) -> bool {
        match bytes.get(place.clone()) {
            Some(body) => lookup.may_contain(body, hash),
            None => true, // Too few bytes: not what was promised. Then nothing is known.
        }
    }

    #[cold]
    fn look_up_any(&self, places: &[FilterPlace], bytes: &[u8], hash: u64) -> bool {
        places.iter().any(|place| self.look_up(place, bytes, hash))
    }
}
