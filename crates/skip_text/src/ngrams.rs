//! Fragments: all runs of n characters of a value.
//!
//! A value with fewer than n characters has one key, itself, also if it is empty. No fragment has so few characters, so
//! the two kinds do not meet. Such a key is demanded only where the whole value is known, as under `=`.

use crate::{Demand, Encoding, Literal};

/// The lengths of fragments that an index may have, in characters.
pub const LENGTHS: std::ops::RangeInclusive<usize> = 2..=8;

/// At most this number of fragments of one literal is demanded, evenly spread: the others add next to nothing.
pub const MOST_PER_LITERAL: usize = 32;

/// The fragments of `n` characters of a text whose case is folded, in order, repeated ones repeated; the text itself if
/// it has fewer characters. Nothing if `n` is 0.
pub fn ngrams(text: &[u8], n: usize, encoding: Encoding) -> Ngrams<'_> {
    let end = if n == 0 { None } else { Some(encoding.end_of_first(text, n).unwrap_or(text.len())) };
    Ngrams { text, begin: 0, end, encoding }
}

/// The iterator of [`ngrams`].
#[derive(Clone, Debug)]
pub struct Ngrams<'t> {
    text: &'t [u8],
    begin: usize,
    /// Where the next fragment ends; None after the last.
    end: Option<usize>,
    encoding: Encoding,
}

impl<'t> Iterator for Ngrams<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        let end = self.end?;
        let fragment = &self.text[self.begin..end];
        if end < self.text.len() {
            self.begin = self.encoding.end_of(self.text, self.begin);
            self.end = Some(self.encoding.end_of(self.text, end));
        } else {
            self.end = None;
        }
        Some(fragment)
    }
}

/// The fragments of `n` characters that a value has in which the literal stands.
pub fn demanded(literal: &Literal, n: usize, encoding: Encoding) -> Demand<Vec<u8>> {
    let whole = literal.at_start && literal.at_end;
    if !whole && encoding.end_of_first(&literal.text, n).is_none() {
        return Demand::Anything;
    }
    let count = ngrams(&literal.text, n, encoding).count();
    let taken = count.min(MOST_PER_LITERAL);
    // The first and those where the share of what is taken grows by a whole one, so also the last.
    let share = |number: usize| number * (taken - 1) / (count - 1).max(1);
    let chosen = ngrams(&literal.text, n, encoding)
        .enumerate()
        .filter(|&(number, _)| number == 0 || share(number) != share(number - 1));
    Demand::all(chosen.map(|(_, fragment)| Demand::Key(fragment.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, n: usize) -> Vec<&str> {
        ngrams(text.as_bytes(), n, Encoding::Utf8)
            .map(|fragment| std::str::from_utf8(fragment).unwrap())
            .collect()
    }

    fn demand(text: &str, at_start: bool, at_end: bool) -> Demand<Vec<u8>> {
        demanded(&Literal { text: text.into(), at_start, at_end }, 3, Encoding::Utf8)
    }

    #[test]
    fn values() {
        assert_eq!(cut("abcde", 3), ["abc", "bcd", "cde"]);
        assert_eq!(cut("aä€😀b", 2), ["aä", "ä€", "€😀", "😀b"]);
        assert_eq!(cut("abc", 3), ["abc"]);
        assert_eq!(cut("ab", 3), ["ab"]);
        assert_eq!(cut("", 3), [""]);
        assert_eq!(cut("abc", 0), [""; 0]);
        let bytes: Vec<_> = ngrams(b"a\x80\x80", 2, Encoding::Bytes).collect();
        assert_eq!(bytes, [b"a\x80", b"\x80\x80"]);
    }

    #[test]
    fn literals() {
        let all = |keys: &[&str]| Demand::all(keys.iter().map(|key| Demand::Key(key.as_bytes().to_vec())));
        assert_eq!(demand("abcd", false, false), all(&["abc", "bcd"]));
        assert_eq!(demand("ab", false, false), Demand::Anything);
        assert_eq!(demand("ab", true, false), Demand::Anything);
        assert_eq!(demand("ab", true, true), all(&["ab"]));
        assert_eq!(demand("", true, true), all(&[""]));
        assert_eq!(demand("aaaa", false, false), all(&["aaa"]));
    }

    #[test]
    fn a_long_literal_demands_some_from_its_first_to_its_last() {
        let text: String = (0..1000).map(|i| char::from_u32(0x4E00 + i).unwrap()).collect();
        let Demand::All(keys) = demand(&text, false, false) else { panic!() };
        assert_eq!(keys.len(), MOST_PER_LITERAL);
        assert_eq!(keys[0], Demand::Key("一丁丂".into()));
        let last: String = text.chars().skip(997).collect();
        assert_eq!(keys[keys.len() - 1], Demand::Key(last.into()));
        for length in 3..200 {
            let part: String = text.chars().take(length).collect();
            assert_eq!(demand(&part, false, false).key_count(), (length - 2).min(MOST_PER_LITERAL));
        }
    }
}
