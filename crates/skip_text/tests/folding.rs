//! The folding rule beside the Unicode data of this Rust version, character by character.
//!
//! Rust's data have the full mappings without those of single languages; the latter are listed here from Unicode's
//! SpecialCasing.txt.

use skip_text::folding::{fold, is_caseless, is_certain};

/// What lower or upper case, simple or full, of some collation makes of `c`, other than itself. Of the full upper case
/// only what is one character: neither `ILIKE` nor `~*` uses the rest.
fn images(c: char) -> Vec<Vec<char>> {
    let mut images: Vec<Vec<char>> = vec![c.to_lowercase().collect()];
    let upper: Vec<char> = c.to_uppercase().collect();
    if upper.len() == 1 {
        images.push(upper);
    }
    let languages: &[&str] = match c {
        'İ' => &["i", "i\u{307}"],
        'I' => &["ı", "i", "i\u{307}"],
        'i' => &["İ", "I"],
        'ı' => &["I"],
        'J' => &["j", "j\u{307}"],
        'Į' => &["į", "į\u{307}"],
        'Ì' => &["i\u{307}\u{300}"],
        'Í' => &["i\u{307}\u{301}"],
        'Ĩ' => &["i\u{307}\u{303}"],
        '\u{307}' => &[""],
        'Σ' => &["σ", "ς"],
        _ => &[],
    };
    images.extend(languages.iter().map(|text| text.chars().collect()));
    images.retain(|image| image[..] != [c]);
    images
}

/// With each character folded; characters that are not certain left out, because a query makes gaps of them.
fn certain_part(image: &[char]) -> String {
    image.iter().filter(|&&c| is_certain(c)).filter_map(|&c| fold(c)).collect()
}

#[test]
fn whatever_becomes_a_certain_character_has_its_key() {
    for c in '\0'..=char::MAX {
        let own: String = fold(c).into_iter().collect();
        for image in images(c) {
            let wanted = certain_part(&image);
            assert!(
                wanted.is_empty() || wanted == own,
                "{c} U+{:04X} can become {image:?}, folds to {own:?}",
                u32::from(c)
            );
            // And a certain character becomes certain ones only, of the same key.
            if is_certain(c) {
                let all: String = image.iter().filter_map(|&c| fold(c)).collect();
                assert_eq!(all, own, "{c} U+{:04X} becomes {image:?}", u32::from(c));
                assert!(image.iter().all(|&c| is_certain(c) || c == '\u{307}'), "{c} becomes {image:?}");
            }
        }
    }
}

#[test]
fn folding_twice_changes_nothing() {
    for c in '\0'..=char::MAX {
        let folded = fold(c);
        assert_eq!(folded.and_then(fold), folded, "{c}");
        assert!(folded.is_none_or(|folded| folded.len_utf8() <= c.len_utf8()), "{c} would grow");
        assert!(folded.is_none_or(|folded| folded != char::REPLACEMENT_CHARACTER || c == folded), "{c}");
    }
}

#[test]
fn what_has_no_case_has_no_partner() {
    for c in '\0'..=char::MAX {
        let partners = images(c);
        if is_caseless(c) {
            assert!(partners.is_empty() && fold(c) == Some(c) && is_certain(c), "{c}");
        }
        for partner in partners.iter().flatten() {
            assert!(!is_caseless(*partner), "{c} becomes {partner}");
        }
    }
}

/// A rule under which no character is certain would pass the tests above.
#[test]
fn the_letters_of_many_languages_are_certain() {
    let texts = [
        "The quick brown fox, 42!",
        "Zażółć gęślą jaźń",
        "Übergrö",
        "ΞΕΣΚΕΠΑΖΩ ψυχή",
        "Съешь ещё этих булок, ґанок",
        "日本語の文字カナ",
        "한국어",
        "שלום",
        "กขค",
    ];
    for text in texts {
        assert!(text.chars().all(is_certain), "{text}");
    }
}
