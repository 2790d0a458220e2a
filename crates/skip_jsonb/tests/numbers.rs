//! Numbers: equal ones have equal bytes, however they are written.
use skip_jsonb::number::{Number, Numeral, numeral};

fn bytes(number: &Number) -> Vec<u8> {
    let mut bytes = Vec::new();
    number.add_to(&mut bytes);
    bytes
}

fn of_text(text: &str) -> Vec<u8> {
    bytes(&Number::of_text(text.as_bytes()).unwrap_or_else(|| panic!("{text:?} is no number")))
}

/// The stored form of a numeric: a short header with sign, weight and scale, and digits to base 10,000.
fn stored(is_negative: bool, weight: i16, digits: &[u16]) -> Vec<u8> {
    let sign = if is_negative { 0x2000 } else { 0 };
    let header = 0x8000 | sign | (weight as u16 & 0x7f);
    [header].iter().chain(digits).flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn spellings_of_one_number() {
    for same in [
        &["0", "-0", "0.0", "00", "+0.", "-.0"][..],
        &["1", "1.0", "1.", "+1", "001", "1.00000000"],
        &["-1", "-1.0", "-01"],
        &["10000", "10000.0000", "+010000"],
        &["0.1", ".1", "0.1000", "00.10"],
        &["123456789.000012345", "0123456789.0000123450"],
    ] {
        same.iter().for_each(|text| assert_eq!(of_text(text), of_text(same[0]), "{text}"));
    }
    let different = ["0", "1", "-1", "10", "0.1", "10000", "0.0001", "10001", "1.0001", "100010000"];
    for (i, one) in different.iter().enumerate() {
        different[..i].iter().for_each(|other| assert_ne!(of_text(one), of_text(other), "{one} and {other}"));
    }
}

#[test]
fn as_numeric_is_stored() {
    for (text, is_negative, weight, digits) in [
        ("0", false, 0, &[][..]),
        ("1", false, 0, &[1]),
        ("-1.5", true, 0, &[1, 5000]),
        ("10000", false, 1, &[1]),
        ("123456789.5", false, 2, &[1, 2345, 6789, 5000]),
        ("0.00012", false, -1, &[1, 2000]),
        ("0.0000012", false, -2, &[120]),
        ("1.10", false, 0, &[1, 1000]),
    ] {
        let number = Number::of_numeric(&stored(is_negative, weight, digits)).expect(text);
        assert_eq!(bytes(&number), of_text(text), "{text}");
        // The same with a long header, as large scales need it.
        let words = [if is_negative { 0x4000 } else { 0 }, weight as u16];
        let long: Vec<u8> = words.iter().chain(digits).flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(Number::of_numeric(&long), Some(number), "{text}");
    }
    for special in [0xc000u16, 0xd000, 0xf000] {
        assert_eq!(Number::of_numeric(&special.to_ne_bytes()), None, "NaN and infinity");
    }
    assert_eq!(Number::of_numeric(&[]), None);
}

#[test]
fn strings_that_may_be_numbers() {
    let plain = |text: &str| Some(Numeral::Number(Number::of_text(text.as_bytes()).unwrap()));
    for (string, expected) in [
        ("5", plain("5")),
        (" \t5\n\u{b}\u{c}\r ", plain("5")),
        ("+005.10", plain("5.1")),
        ("5.", plain("5")),
        (".5", plain("0.5")),
        ("\u{85}5", plain("5")),
        ("0x1f", Some(Numeral::Odd)),
        ("-0b11", Some(Numeral::Odd)),
        ("0o17", Some(Numeral::Odd)),
        ("1_000", Some(Numeral::Odd)),
        ("1e3", Some(Numeral::Odd)),
        ("1.5E-3", Some(Numeral::Odd)),
        ("", None),
        ("  ", None),
        ("-", None),
        ("word", None),
        ("2024-01-01", None),
        ("10.0.0.1:80", None),
        ("NaN", None),
    ] {
        assert_eq!(numeral(string.as_bytes()), expected, "{string:?}");
    }
    assert_eq!(numeral("7".repeat(500).as_bytes()), Some(Numeral::Odd), "too long to be read");
}
