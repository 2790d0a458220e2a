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

    /// Does a character begin at this byte? Bytes that are not valid UTF-8 count to the character before them.
    pub(crate) fn begins(self, byte: u8) -> bool {
        self == Encoding::Bytes || byte & 0xC0 != 0x80
    }

    /// Where the character that begins at `from` ends.
    pub(crate) fn end_of(self, text: &[u8], from: usize) -> usize {
        let rest = text.get(from + 1..).unwrap_or_default();
        from + 1 + rest.iter().position(|&byte| self.begins(byte)).unwrap_or(rest.len())
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
        // Not valid: no panic, and every byte in some character.
        assert_eq!(Utf8.end_of_first(b"\x80\x80a\xFF", 3), Some(4));
    }
}
