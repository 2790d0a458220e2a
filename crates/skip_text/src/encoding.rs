//! How text is cut into characters.
//!
//! A UTF-8 database cuts by code points. In every other encoding a byte counts as a character: right for the encodings
//! of one byte, for SQL_ASCII and for `bytea`, and safe for the others (EUC_JP and the like), because a run of
//! characters that stands in a value stands there as a run of bytes too. PostgreSQL allows as server encodings only
//! those in which no byte below 0x80 is part of a longer character, so `%`, `_`, `\` and letters are always themselves.

/// How text is cut into characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8: characters are code points.
    Utf8,
    /// Anything else: characters are bytes, numbered by their value.
    Bytes,
}

impl Encoding {
    /// The characters of a query's text; None if it is not valid, which demands nothing.
    pub(crate) fn chars(self, text: &[u8]) -> Option<Box<dyn Iterator<Item = char> + '_>> {
        Some(match self {
            Encoding::Utf8 => Box::new(std::str::from_utf8(text).ok()?.chars()),
            Encoding::Bytes => Box::new(text.iter().map(|&byte| char::from(byte))),
        })
    }

    /// Adds one of those characters.
    pub(crate) fn push(self, out: &mut Vec<u8>, c: char) {
        match self {
            Encoding::Utf8 => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Encoding::Bytes => out.push(c as u8), // as `chars` made it, of a byte
        }
    }

    /// Where the character that begins at `from` ends. A byte that is part of no valid character counts as one of its
    /// own: `LIKE` compares bytes, so a valid character beside it must be one here too. (A regular expression takes
    /// such bytes together with those behind them, whatever these are. Characters that come about in this way are not
    /// found.)
    pub(crate) fn end_of(self, text: &[u8], from: usize) -> usize {
        let length = match (self, text.get(from)) {
            (Encoding::Utf8, Some(0xC2..=0xDF)) => 2,
            (Encoding::Utf8, Some(0xE0..=0xEF)) => 3,
            (Encoding::Utf8, Some(0xF0..=0xF4)) => 4,
            _ => return from + 1,
        };
        let character = text.get(from..from + length);
        if character.is_some_and(|bytes| std::str::from_utf8(bytes).is_ok()) {
            from + length
        } else {
            from + 1
        }
    }

    /// Where the first `count` characters end; None if there are fewer.
    pub(crate) fn end_of_first(self, text: &[u8], count: usize) -> Option<usize> {
        let mut end = 0;
        for _ in 0..count {
            if end >= text.len() {
                return None;
            }
            end = self.end_of(text, end);
        }
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::Encoding::{Bytes, Utf8};

    #[test]
    fn characters() {
        assert_eq!(Utf8.end_of_first("aä€😀".as_bytes(), 3), Some(6));
        assert_eq!(Utf8.end_of_first("aä€😀".as_bytes(), 4), Some(10));
        assert_eq!(Utf8.end_of_first("aä€😀".as_bytes(), 5), None);
        assert_eq!(Utf8.end_of_first(b"", 0), Some(0));
        assert_eq!(Bytes.end_of_first(b"a\xE4\xFF", 3), Some(3));
        assert!(Bytes.chars(b"a\xE4").unwrap().eq(['a', 'ä']));
        assert!(Utf8.chars(b"a\xE4").is_none());
    }

    #[test]
    fn bytes_that_are_not_valid_are_characters() {
        assert_eq!(Utf8.end_of_first(b"\x80\x80a\xFF", 3), Some(3));
        assert_eq!(Utf8.end_of_first(b"d\x80e", 1), Some(1));
        // Cut short at the end or by another character; too long a form; a surrogate; beyond the last code point.
        for invalid in [&b"\xE2\x82"[..], b"\xE2\x82a", b"\xC0\x80", b"\xED\xA0\x80", b"\xF4\x90\x80\x80"] {
            assert_eq!(Utf8.end_of_first(invalid, 1), Some(1), "{invalid:x?}");
        }
        assert_eq!(Utf8.end_of_first("ä\u{10FFFF}€".as_bytes(), 2), Some(6));
    }
}
