//! Which parts of a key go into a filter: the whole of it, a prefix, or both.
//!
//! After RocksDB's `whole_key_filtering` and its prefix extractors. With prefixes in it, a filter can be asked whether
//! any key begins in a certain way. Owns the choice only; parts are hashed like keys, and share the filter with them: a
//! key that looks like another one's prefix is one more false positive.

use super::error::PolicyError;

/// The part at a key's beginning that is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// So many bytes; keys that are shorter have no prefix. RocksDB's `rocksdb.FixedPrefix`.
    Fixed(usize),
    /// So many bytes or the whole key, if it is shorter. RocksDB's `rocksdb.CappedPrefix`.
    Capped(usize),
}

impl Prefix {
    fn length(self) -> usize {
        match self {
            Prefix::Fixed(length) | Prefix::Capped(length) => length,
        }
    }

    /// The prefix of a key.
    pub fn of(self, key: &[u8]) -> Option<&[u8]> {
        match self {
            Prefix::Fixed(length) => key.get(..length),
            Prefix::Capped(length) => Some(&key[..length.min(key.len())]),
        }
    }
}

/// Whole keys, prefixes, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPieces {
    whole: bool,
    prefix: Option<Prefix>,
}

impl KeyPieces {
    /// Whole keys only.
    pub const WHOLE: Self = Self { whole: true, prefix: None };

    /// These parts.
    ///
    /// # Errors
    /// None of the two, or a prefix of zero bytes.
    pub fn new(whole: bool, prefix: Option<Prefix>) -> Result<Self, PolicyError> {
        match prefix {
            None if !whole => Err(PolicyError::NoKeys),
            Some(prefix) if prefix.length() == 0 => Err(PolicyError::EmptyPrefix),
            _ => Ok(Self { whole, prefix }),
        }
    }

    /// What to add for a key. Nothing, if its prefix alone is wanted and it has none: such a key always matches.
    pub fn to_add<'a>(&self, key: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let prefix = self.prefix.and_then(|prefix| prefix.of(key));
        self.whole.then_some(key).into_iter().chain(prefix)
    }

    /// What to look for to find a key: the whole of it if that was added, else its prefix. None means that the filter
    /// cannot tell.
    pub fn to_find<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        if self.whole { Some(key) } else { self.prefix.and_then(|prefix| prefix.of(key)) }
    }

    /// What to look for to find any key that begins with these bytes. None means that the filter cannot tell: they are
    /// shorter than the prefixes in it. (RocksDB takes a short capped prefix as one to be found by itself, because its
    /// scans by prefix mean keys of just that prefix.)
    pub fn to_find_prefix<'a>(&self, begin: &'a [u8]) -> Option<&'a [u8]> {
        self.prefix.and_then(|prefix| begin.get(..prefix.length()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn parts_of_keys() {
        let added = |parts: KeyPieces, key: &'static str| {
            parts.to_add(key.as_bytes()).map(|part| str::from_utf8(part).unwrap()).collect::<Vec<_>>()
        };
        let fixed = KeyPieces::new(false, Some(Prefix::Fixed(3))).unwrap();
        let capped = KeyPieces::new(false, Some(Prefix::Capped(3))).unwrap();
        let both = KeyPieces::new(true, Some(Prefix::Fixed(3))).unwrap();
        assert_eq!(added(KeyPieces::WHOLE, "abcd"), ["abcd"]);
        assert_eq!((added(fixed, "abcd"), added(capped, "abcd")), (vec!["abc"], vec!["abc"]));
        assert_eq!((added(fixed, "ab"), added(capped, "ab")), (vec![], vec!["ab"]));
        assert_eq!((added(both, "abcd"), added(both, "ab")), (vec!["abcd", "abc"], vec!["ab"]));
        assert_eq!((fixed.to_find(b"ab"), capped.to_find(b"ab")), (None, Some(&b"ab"[..])));
        assert_eq!((fixed.to_find(b"abcd"), both.to_find(b"abcd")), (Some(&b"abc"[..]), Some(&b"abcd"[..])));
        for parts in [fixed, capped, both] {
            assert_eq!(parts.to_find_prefix(b"abcd"), Some(&b"abc"[..]));
            assert_eq!(parts.to_find_prefix(b"ab"), None);
        }
        assert_eq!(KeyPieces::WHOLE.to_find_prefix(b"abcd"), None);
    }

    #[test]
    fn nothing_to_add_is_an_error() {
        assert_eq!(KeyPieces::new(false, None), Err(PolicyError::NoKeys));
        assert_eq!(KeyPieces::new(true, Some(Prefix::Fixed(0))), Err(PolicyError::EmptyPrefix));
        assert_eq!(KeyPieces::new(true, Some(Prefix::Capped(0))), Err(PolicyError::EmptyPrefix));
    }
}
