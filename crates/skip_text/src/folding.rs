//! Upper and lower case, so that no row is lost under any collation.
//!
//! `ILIKE` and `~*` ignore case as the collation of the query says, and collations differ: C folds ASCII letters only;
//! Turkish pairs `I` with `ı` and `İ` with `i`; in Lithuanian `Ì` becomes an `i` with two marks. An index is built
//! without knowing the collation of later queries. So its keys are of the value folded by a rule of our own, and a
//! query demands only what holds under every collation.
//!
//! # What PostgreSQL does, versions 15 to 18
//!
//! - `ILIKE` (`like.c`, `Generic_Text_IC_like`) compares `lower(value)` with `lower(pattern)`, both under the
//!   collation. In encodings of one byte it compares `tolower` of single bytes, except under ICU. `lower` is that of
//!   ICU, of the built-in provider (simple or full mappings of Unicode), of libc (`towlower`), or of ASCII letters only
//!   (C).
//! - `~*` (`regc_locale.c`, `allcases`) takes for a character of the pattern its simple lower and its simple upper
//!   case. So `ſ` matches `S`, and `ς` matches `Σ`, but not the other way round.
//! - Full case folding (`ß` to `ss`) is nowhere used. A version that used it for `ILIKE` would need another rule here.
//!
//! # The rule
//!
//! [`fold`] maps every character to one or none, and `F(text)` is a text with each character mapped. `F` is *coarser*
//! than all of the mappings above: if any of them takes x to y then F(x) = F(y), for every y that a query may ask for.
//!
//! - Pairs of ASCII, Latin-1, Latin Extended-A, Greek and Cyrillic letters become the lower letter.
//! - What folds into those from elsewhere becomes the same letter: KELVIN SIGN `k`, LONG S `s`, ANGSTROM SIGN `å`, OHM
//!   SIGN `ω`, MICRO SIGN `μ`, the final sigma `σ`, the Greek and Cyrillic letter variants.
//! - `I`, `i`, `İ`, `ı`, and `Ì`, `Í`, `Ĩ`, of which Lithuanian makes an `i` and marks, become `i`.
//! - COMBINING DOT ABOVE is dropped: Lithuanian inserts it, `lower('İ')` does so outside of Turkish, and Turkish
//!   deletes it after `I` (Unicode's SpecialCasing.txt, the conditions More_Above and After_I).
//! - Everything else stays as it is.
//!
//! Because `F` maps character by character, a text that stands in a value stands after `F` in `F(value)`: queries that
//! heed case ask an index of folded keys for `F(text)`, with no exception. A query that ignores case asks only for
//! *certain* characters ([`is_certain`]): those of which it is known what every collation folds to and from them.
//! Others are taken as a gap, which may be anything: `ß` (which future full case folding makes `ss`), `ì` (which
//! Lithuanian gives other partners), combining marks, scripts that are not listed.
//!
//! On an index of keys as they are, a query that ignores case asks only for certain characters without case: digits,
//! ASCII punctuation, letters of scripts that have no case ([`is_caseless`]).
//!
//! In encodings other than UTF-8 a byte from 0x80 on may be any letter, so it is never certain, and neither are those
//! ASCII letters that have partners outside of ASCII: `i`, `k`, `s`. Nor are control characters other than white space,
//! in whose place Vietnamese code pages have letters.
//!
//! # Stability
//!
//! The table stands here, not in Rust's Unicode data, and is frozen with the keys. Unicode guarantees that case pairs
//! stay pairs and that two characters that are no pair never become one (Unicode Character Encoding Stability Policies,
//! "Case Pair Stability"); a character yet to be encoded could only join as a variant, as KELVIN SIGN did.
//! `tests/folding.rs` compares the rule with the Unicode data of the Rust version at hand, character by character, so
//! that such a newcomer fails the tests.

use crate::{Encoding, Symbol};

/// The case of an index's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyCase {
    /// Keys are cut from the value as it is.
    AsIs,
    /// Keys are cut from the value with its case folded.
    Folded,
}

/// Whether a query heeds case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// `=`, `LIKE`, `~`, `^@`: characters are themselves.
    Exact,
    /// `ILIKE`, `~*`, equality of citext: as the collation of the query folds.
    IgnoreCase,
}

/// COMBINING DOT ABOVE.
const DOT_ABOVE: char = '\u{307}';

/// The character that stands for `c` in the folded keys of a UTF-8 database; None: it is dropped.
pub const fn fold(c: char) -> Option<char> {
    let code = c as u32;
    Some(match c {
        DOT_ABOVE => return None,
        'A'..='Z' => c.to_ascii_lowercase(),
        '\0'..='\x7F' => c,
        // Latin. Lithuanian lowers the first three to an i and marks.
        'Ì' | 'Í' | 'Ĩ' | 'İ' | 'ı' => 'i',
        'ſ' => 's',
        '\u{212A}' => 'k', // KELVIN SIGN
        '\u{212B}' => 'å', // ANGSTROM SIGN
        'Ÿ' => 'ÿ',
        'µ' => 'μ', // MICRO SIGN
        '×' => c,
        'À'..='Þ' => plus(code, 0x20),
        'Ā'..='Į' | 'Ĳ'..='ķ' | 'Ŋ'..='ŷ' => plus(code, 1 - code % 2),
        'Ĺ'..='ň' | 'Ź'..='ž' => plus(code, code % 2),
        // Greek: the letters, those with marks, the variants.
        'Α'..='Ρ' | 'Σ'..='Ϋ' => plus(code, 0x20),
        'Ά' => 'ά',
        'Έ'..='Ί' => plus(code, 37),
        'Ό' => 'ό',
        'Ύ' | 'Ώ' => plus(code, 63),
        'ς' => 'σ',
        'ϐ' => 'β',
        'ϑ' | 'ϴ' => 'θ',
        'ϕ' => 'φ',
        'ϖ' => 'π',
        'ϰ' => 'κ',
        'ϱ' => 'ρ',
        'ϵ' => 'ε',
        '\u{345}' | '\u{1FBE}' => 'ι', // COMBINING YPOGEGRAMMENI, PROSGEGRAMMENI
        '\u{2126}' => 'ω',             // OHM SIGN
        // Cyrillic, and the variants that old books have.
        'Ѐ'..='Џ' => plus(code, 0x50),
        'А'..='Я' => plus(code, 0x20),
        'Ҋ'..='ҿ' => plus(code, 1 - code % 2),
        '\u{1C80}' => 'в',
        '\u{1C81}' => 'д',
        '\u{1C82}' => 'о',
        '\u{1C83}' => 'с',
        '\u{1C84}' | '\u{1C85}' => 'т',
        '\u{1C86}' => 'ъ',
        _ => c,
    })
}

/// The character whose code is so much greater. The ranges of [`fold`] leave no other outcome than a character.
const fn plus(code: u32, by: u32) -> char {
    match char::from_u32(code + by) {
        Some(c) => c,
        None => char::REPLACEMENT_CHARACTER,
    }
}

/// Under every collation of a UTF-8 database: are all characters that fold to `c`, or that `c` folds to, the same as
/// `c` under [`fold`]?
pub const fn is_certain(c: char) -> bool {
    match c {
        // Small letters whose capitals Lithuanian lowers to an i and marks, and those capitals.
        'Ì' | 'Í' | 'Ĩ' | 'ì' | 'í' | 'ĩ' => false,
        // Letters without a partner of their own, which full mappings make two.
        'ß' | 'ĸ' | 'ŉ' | 'ΐ' | 'ΰ' | '\u{3A2}' => false,
        'µ' | 'À'..='ÿ' | 'Ā'..='ſ' | '\u{212A}' | '\u{212B}' => true,
        'Ά' | 'Έ'..='Ί' | 'Ό' | 'Ύ'..='ώ' => true,
        'ϐ' | 'ϑ' | 'ϕ' | 'ϖ' | 'ϰ' | 'ϱ' | 'ϴ' | 'ϵ' | '\u{2126}' => true,
        'Ѐ'..='џ' | 'Ҋ'..='ҿ' => true,
        '\0'..='\x7F' => true,
        _ => is_caseless(c),
    }
}

/// Is `c` known to have no case, so that it folds to itself and nothing else folds to it, under every collation of a
/// UTF-8 database?
pub const fn is_caseless(c: char) -> bool {
    match c {
        'A'..='Z' | 'a'..='z' => false,
        '\0'..='\x7F' => true,
        'א'..='ת' | 'ؠ'..='ي' | 'ก'..='ฮ' => true, // letters: Hebrew, Arabic, Thai
        'ぁ'..='ゖ' | 'ァ'..='ヺ' | 'ー' => true,
        '一'..='\u{9FFF}' | '가'..='힣' => true,
        _ => false,
    }
}

/// The same in other encodings, for bytes.
const fn is_certain_byte(byte: u8) -> bool {
    match byte.to_ascii_lowercase() {
        b'i' | b'k' | b's' => false,
        b'\t'..=b'\r' | b' '..=b'~' => true,
        _ => false,
    }
}

/// What a character of a query says about the value's characters after folding: a character, a gap, or nothing (None).
pub(crate) fn symbol(c: char, keys: KeyCase, matching: Matching, encoding: Encoding) -> Option<Symbol> {
    let folded = match (keys, encoding) {
        (KeyCase::AsIs, _) => Some(c),
        (KeyCase::Folded, Encoding::Utf8) => fold(c),
        (KeyCase::Folded, Encoding::Bytes) => Some(c.to_ascii_lowercase()),
    };
    let certain = match (matching, encoding, keys) {
        (Matching::Exact, ..) => true,
        (_, Encoding::Utf8, KeyCase::Folded) => is_certain(c) || c == DOT_ABOVE,
        (_, Encoding::Utf8, KeyCase::AsIs) => is_caseless(c),
        (_, Encoding::Bytes, _) => {
            let byte = c as u8; // as `Encoding::chars` made it, of a byte
            is_certain_byte(byte) && (keys == KeyCase::Folded || !byte.is_ascii_alphabetic())
        }
    };
    if certain { folded.map(Symbol::Char) } else { Some(Symbol::Gap) }
}

/// Adds the text as an index of folded keys has it: with every character folded. At most as many bytes as the text has.
/// Bytes that are not valid UTF-8 stay.
pub fn fold_text(text: &[u8], encoding: Encoding, out: &mut Vec<u8>) {
    if encoding == Encoding::Bytes || text.is_ascii() {
        push_ascii_lower(out, text);
    } else if let Ok(valid) = std::str::from_utf8(text) {
        fold_valid(valid, out);
    } else {
        for chunk in text.utf8_chunks() {
            fold_valid(chunk.valid(), out);
            out.extend_from_slice(chunk.invalid());
        }
    }
}

fn fold_valid(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let ascii = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        push_ascii_lower(out, &rest.as_bytes()[..ascii]);
        let mut others = rest[ascii..].chars();
        if let Some(folded) = others.next().and_then(fold) {
            Encoding::Utf8.push(out, folded);
        }
        rest = others.as_str();
    }
}

/// Adds the bytes, with the ASCII letters among them lowered.
fn push_ascii_lower(out: &mut Vec<u8>, bytes: &[u8]) {
    let begin = out.len();
    out.extend_from_slice(bytes);
    out[begin..].make_ascii_lowercase();
}

#[cfg(test)]
mod tests {
    use super::*;
    use Encoding::{Bytes, Utf8};
    use KeyCase::{AsIs, Folded};
    use Matching::{Exact, IgnoreCase};

    fn folded_bytes(text: &[u8], encoding: Encoding) -> Vec<u8> {
        let mut out = Vec::new();
        fold_text(text, encoding, &mut out);
        out
    }

    fn folded(text: &str) -> String {
        String::from_utf8(folded_bytes(text.as_bytes(), Utf8)).unwrap()
    }

    #[test]
    fn values() {
        assert_eq!(folded("Hello, WORLD 42"), "hello, world 42");
        assert_eq!(folded("IiİıI\u{307}ÌÍĨ"), "iiiiiiii");
        assert_eq!(folded("\u{212A}ſ \u{212B}å µμΜ ΣΑΣς\u{2126}"), "ks åå μμμ σασσω");
        assert_eq!(folded("ПРИВЕТ Ёжик Ўў Ґ"), "привет ёжик ўў ґ");
        assert_eq!(folded("ÀÉÎÖØÞ×ÿŸ ŁĹŽŻŐ ΆΈΉΊΌΎΏ"), "àéîöøþ×ÿÿ łĺžżő άέήίόύώ");
        assert_eq!(folded("ß ẞ ŉ 日本 😀 ﬁ Ⅷ"), "ß ẞ ŉ 日本 😀 ﬁ Ⅷ");
        assert_eq!(folded_bytes(b"A\xC4I\x80", Bytes), b"a\xC4i\x80");
        assert_eq!(folded_bytes("aB\u{130}".as_bytes(), Utf8), b"abi");
        assert_eq!(folded_bytes(b"aB\xFFC\xC3", Utf8), b"ab\xFFc\xC3");
    }

    #[test]
    fn query_characters() {
        let char = |c| Some(Symbol::Char(c));
        let gap = Some(Symbol::Gap);
        assert_eq!(symbol('Ä', AsIs, Exact, Utf8), char('Ä'));
        assert_eq!(symbol('Ä', Folded, Exact, Utf8), char('ä'));
        assert_eq!(symbol('Ì', Folded, Exact, Utf8), char('i'));
        assert_eq!(symbol('ß', Folded, Exact, Utf8), char('ß'));
        assert_eq!(symbol(DOT_ABOVE, Folded, Exact, Utf8), None);
        assert_eq!(symbol(DOT_ABOVE, AsIs, Exact, Utf8), char(DOT_ABOVE));
        assert_eq!(symbol('Ä', Folded, IgnoreCase, Utf8), char('ä'));
        assert_eq!(symbol('I', Folded, IgnoreCase, Utf8), char('i'));
        for uncertain in ['ß', 'ẞ', 'ì', 'Ì', '\u{300}', 'ﬁ', 'ა', 'Ⅷ', '€'] {
            assert_eq!(symbol(uncertain, Folded, IgnoreCase, Utf8), gap, "{uncertain}");
        }
        for cased in ['a', 'K', 'ä', 'и', 'σ', DOT_ABOVE] {
            assert_eq!(symbol(cased, AsIs, IgnoreCase, Utf8), gap, "{cased}");
        }
        assert_eq!(symbol('7', AsIs, IgnoreCase, Utf8), char('7'));
        assert_eq!(symbol('語', AsIs, IgnoreCase, Utf8), char('語'));
        assert_eq!(symbol('A', Folded, IgnoreCase, Bytes), char('a'));
        assert_eq!(symbol('A', AsIs, IgnoreCase, Bytes), gap);
        for uncertain in ['i', 'I', 'K', 's', '\u{2}', '\x7F', '\u{DD}'] {
            assert_eq!(symbol(uncertain, Folded, IgnoreCase, Bytes), gap, "{uncertain}");
        }
        assert_eq!(symbol('\u{DD}', Folded, Exact, Bytes), char('\u{DD}'));
    }
}
