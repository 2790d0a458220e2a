//! A copy of a value that is kept for many lookups. Its header is read once, and its first filter starts on a cache
//! line: then a line of policy `rocksdb` is one line of the cache. In a value as it is stored, most of them are in two.

use crate::distant::LINE;
use crate::error::ValueError;
use crate::outline::{FilterPlace, Outline};
use skip_filter::policy::AlignedBytes;

/// The copy.
pub struct KeptValue {
    outline: Outline,
    room: AlignedBytes,
    /// Where the value starts in it.
    start: usize,
    /// If the value has one filter only: that one, and where its bits are in the memory.
    only: Option<FilterPlace>,
}

impl KeptValue {
    /// Copies a value.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn copy(value: &[u8]) -> Result<Self, ValueError> {
        let outline = Outline::read(value, value.len() as u64)?;
        let header = outline.start() as usize;
        let start = header.next_multiple_of(LINE) - header;
        let mut room = AlignedBytes::zeros(start + value.len());
        room.as_mut()[start..].copy_from_slice(value);
        let only = outline.only_place().cloned();
        let only = only.map(|(lookup, place)| (lookup, place.start + start..place.end + start));
        Ok(Self { outline, room, start, only })
    }

    /// What the value is.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// The value.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.room.as_ref().get(self.start..).unwrap_or_default()
    }

    /// Whether the value may hold the key of a hash.
    #[inline]
    pub fn may_contain_hash(&self, hash: u64) -> bool {
        let Some((lookup, place)) = &self.only else {
            return self.outline.may_contain_hash(self.bytes(), hash);
        };
        match self.room.as_ref().get(place.clone()) {
            Some(body) => lookup.may_contain(body, hash),
            None => true, // it was copied as a whole: not reached
        }
    }
}
