//! Words, as ClickHouse's `tokenbf_v1` cuts its tokens.
//!
//! A word is a longest run of ASCII letters, ASCII digits and bytes from 0x80 on. So every character that is not ASCII
//! is part of a word: this is the rule of ClickHouse's `splitByNonAlpha` (`ITokenizer.cpp`: a byte ends a token if
//! `isASCII(c) && !isAlphaNumericASCII(c)`), and one that no version of Unicode changes. A rule that asked Unicode
//! which characters are letters would cut values anew when a character is assigned or reclassified, and lose the rows
//! indexed before. The price: punctuation outside of ASCII, such as dashes, quotation marks and the no-break space,
//! sticks to the words beside it, and a text in Chinese is one word. Fragments ([`crate::ngrams`]) are for those.
//!
//! Words are cut from a value after its case is folded ([`crate::folding`]). A value without words has no keys.

use crate::demand::MOST_KEYS;
use crate::{Demand, Literal};

/// For each byte whether it is part of a word. With comparisons instead, an index of words takes a quarter longer to
/// build.
const WORD_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || !(byte as u8).is_ascii();
        byte += 1;
    }
    table
};

/// Is this byte part of a word?
#[inline]
pub const fn is_word_byte(byte: u8) -> bool {
    WORD_BYTES[byte as usize]
}

/// The words of a text whose case is folded as the index has it, in order, repeated ones repeated.
pub fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| !is_word_byte(byte)).filter(|word| !word.is_empty())
}

/// The words that a value has in which the literal stands: those with both ends certain. An end is certain beside a
/// character that is not part of a word, and at the start or end of the value.
pub fn demanded(literal: &Literal) -> Demand<Vec<u8>> {
    let text = &literal.text;
    let skipped = if literal.at_start { 0 } else { word_bytes(text.iter()) };
    let dropped = if literal.at_end { 0 } else { word_bytes(text.iter().rev()) };
    let certain = text.get(skipped..text.len() - dropped).unwrap_or_default();
    Demand::all(words(certain).take(MOST_KEYS).map(|word| Demand::Key(word.to_vec())))
}

/// How many bytes of a word come first.
fn word_bytes<'a>(bytes: impl Iterator<Item = &'a u8>) -> usize {
    bytes.take_while(|&&byte| is_word_byte(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        words(text.as_bytes()).map(|word| std::str::from_utf8(word).unwrap()).collect()
    }

    fn demand(text: &str, at_start: bool, at_end: bool) -> Demand<Vec<u8>> {
        demanded(&Literal { text: text.into(), at_start, at_end })
    }

    fn all(words: &[&str]) -> Demand<Vec<u8>> {
        Demand::all(words.iter().map(|word| Demand::Key(word.as_bytes().to_vec())))
    }

    #[test]
    fn values() {
        assert_eq!(cut("GET /api/v1?id=42&x_y"), ["GET", "api", "v1", "id", "42", "x", "y"]);
        assert_eq!(cut("größe—weite, 日本語"), ["größe—weite", "日本語"]);
        assert!(cut(" ,;%\t\n").is_empty() && cut("").is_empty());
        assert_eq!(cut("a"), ["a"]);
        assert_eq!(words(b"a\xFF b\x80").collect::<Vec<_>>(), [&b"a\xFF"[..], &b"b\x80"[..]]);
    }

    #[test]
    fn literals() {
        assert_eq!(demand("foo bar baz", false, false), all(&["bar"]));
        assert_eq!(demand("foo bar baz", true, false), all(&["foo", "bar"]));
        assert_eq!(demand("foo bar baz", false, true), all(&["bar", "baz"]));
        assert_eq!(demand("foo bar baz", true, true), all(&["foo", "bar", "baz"]));
        assert_eq!(demand(" foo ", false, false), all(&["foo"]));
        for (at_start, at_end) in [(false, false), (true, false), (false, true)] {
            assert_eq!(demand("foo", at_start, at_end), Demand::Anything);
        }
        assert_eq!(demand("", true, true), Demand::Anything);
        assert_eq!(demand("a b", false, false), Demand::Anything);
    }
}
