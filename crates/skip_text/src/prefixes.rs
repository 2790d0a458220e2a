//! Prefixes: the first characters of a value, RocksDB's prefix extractor of a fixed length.
//!
//! A value has one key: its first `length` characters, or the whole of it if it is shorter (RocksDB leaves such values
//! out of the filter and so cannot rule them out either; here an equality finds them). A prefix that is shorter than
//! `length` demands nothing, because values that begin with it have many keys.

use crate::{Demand, Encoding, Literal};

/// The lengths that an index may have, in characters.
pub const LENGTHS: std::ops::RangeInclusive<usize> = 1..=256;

/// The key of a text whose case is folded.
pub fn prefix(text: &[u8], length: usize, encoding: Encoding) -> &[u8] {
    &text[..encoding.end_of_first(text, length).unwrap_or(text.len())]
}

/// The key that a value has in which the literal stands.
pub fn demanded(literal: &Literal, length: usize, encoding: Encoding) -> Demand<Vec<u8>> {
    let long_enough = encoding.end_of_first(&literal.text, length).is_some();
    if literal.at_start && (literal.at_end || long_enough) {
        Demand::Key(prefix(&literal.text, length, encoding).to_vec())
    } else {
        Demand::Anything
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_literals() {
        let cut = |text: &'static str| prefix(text.as_bytes(), 3, Encoding::Utf8);
        assert_eq!(cut("äbcd"), "äbc".as_bytes());
        assert_eq!(cut("äb"), "äb".as_bytes());
        assert_eq!(cut(""), b"");
        let demand = |text: &str, at_start, at_end| {
            demanded(&Literal { text: text.into(), at_start, at_end }, 3, Encoding::Utf8)
        };
        assert_eq!(demand("abcd", true, false), Demand::Key(b"abc".to_vec()));
        assert_eq!(demand("abc", true, false), Demand::Key(b"abc".to_vec()));
        assert_eq!(demand("ab", true, false), Demand::Anything);
        assert_eq!(demand("ab", true, true), Demand::Key(b"ab".to_vec()));
        assert_eq!(demand("", true, true), Demand::Key(b"".to_vec()));
        assert_eq!(demand("abcd", false, true), Demand::Anything);
    }
}
