//! What is on disk: the keys of values. None of this may change.

use skip_text::folding::{fold, is_caseless, is_certain};
use skip_text::{Encoding, KeyCase, TextKeyKind, TextKeys};

fn keys(kind: TextKeyKind, case: KeyCase, value: &str) -> Vec<String> {
    let cut = TextKeys::new(kind, case, Encoding::Utf8).unwrap();
    let mut buffer = Vec::new();
    cut.keys(value.as_bytes(), &mut buffer).map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
}

/// FNV-1a over a table with an entry for every character.
fn checksum(entry: impl Fn(char) -> u32) -> u64 {
    ('\0'..=char::MAX).fold(0xCBF2_9CE4_8422_2325, |hash, c| {
        entry(c)
            .to_le_bytes()
            .iter()
            .fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
    })
}

#[test]
fn the_table_of_folding() {
    assert_eq!(checksum(|c| fold(c).map_or(u32::MAX, u32::from)), 13_990_581_247_072_045_270);
}

/// Queries are not on disk, but what they may ask for follows from the folding: no number changes unnoticed.
#[test]
fn the_certain_characters() {
    assert_eq!(('\0'..=char::MAX).filter(|&c| is_certain(c)).count(), 32_997);
    assert_eq!(('\0'..=char::MAX).filter(|&c| is_caseless(c)).count(), 32_533);
}

#[test]
fn keys_of_values() {
    use KeyCase::{AsIs, Folded};
    let value = "Error 0x1F at İzmir–Köln: naïve\tcafé's ßtraße_2";
    assert_eq!(
        keys(TextKeyKind::Words, AsIs, value),
        ["Error", "0x1F", "at", "İzmir–Köln", "naïve", "café", "s", "ßtraße", "2"]
    );
    assert_eq!(
        keys(TextKeyKind::Words, Folded, value),
        ["error", "0x1f", "at", "izmir–köln", "naïve", "café", "s", "ßtraße", "2"]
    );
    assert_eq!(keys(TextKeyKind::Ngrams(4), Folded, "ÀB\u{307}CDe"), ["àbcd", "bcde"]);
    assert_eq!(keys(TextKeyKind::Ngrams(4), AsIs, "ÀB\u{307}C"), ["ÀB\u{307}C"]);
    assert_eq!(keys(TextKeyKind::Ngrams(4), Folded, "ÀB\u{307}C"), ["àbc"]);
    assert_eq!(keys(TextKeyKind::Ngrams(4), AsIs, ""), [""]);
    assert_eq!(keys(TextKeyKind::Prefix(3), Folded, "ÀBCD"), ["àbc"]);
    assert_eq!(keys(TextKeyKind::Prefix(3), AsIs, "ÀB"), ["ÀB"]);
    assert_eq!(keys(TextKeyKind::Prefix(3), AsIs, ""), [""]);
    assert!(keys(TextKeyKind::Words, AsIs, "").is_empty());
    let bytes = TextKeys::new(TextKeyKind::Ngrams(2), Folded, Encoding::Bytes).unwrap();
    assert_eq!(
        bytes.keys(b"AI\xC0\xE0", &mut Vec::new()).collect::<Vec<_>>(),
        [b"ai", b"i\xC0", b"\xC0\xE0"]
    );
}
