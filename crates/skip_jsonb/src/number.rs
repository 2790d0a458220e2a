//! Numbers in a form that is the same for equal ones, from the stored form of numeric and from decimal text.

use smallvec::SmallVec;

/// Digits to base 10,000. Those of a number of 64 bits, and more, need no allocation.
type Digits = SmallVec<[u16; 8]>;

/// A number: the digits to base 10,000, the first of which counts 10,000 to the power of `weight`. Neither the first
/// nor the last digit is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Number {
    is_negative: bool,
    weight: i32,
    digits: Digits,
}

const BASE_DIGITS: usize = 4;
/// The most characters of a text that is read as a number.
const MOST_CHARACTERS: usize = 100;

impl Number {
    fn normal(is_negative: bool, weight: i32, mut digits: Digits) -> Self {
        let Some(first) = digits.iter().position(|&digit| digit != 0) else { return Self::default() };
        let last = digits.iter().rposition(|&digit| digit != 0).unwrap_or(first);
        digits.truncate(last + 1);
        if first > 0 {
            digits.drain(..first);
        }
        Self { is_negative, weight: weight - first as i32, digits }
    }

    /// The number that PostgreSQL stores as these bytes, without the header of their length; None for infinity and NaN,
    /// and for other bytes.
    pub fn of_numeric(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let header = word(0)?;
        let (is_negative, weight, at) = match header & 0xc000 {
            0xc000 => return None,
            0x8000 => {
                let weight = i32::from(header & 0x3f) - i32::from(header & 0x40);
                (header & 0x2000 != 0, weight, 2)
            }
            sign => (sign == 0x4000, i32::from(word(2)? as i16), 4),
        };
        let digits = bytes.get(at..)?.chunks_exact(2).map(|digit| u16::from_ne_bytes([digit[0], digit[1]]));
        Some(Self::normal(is_negative, weight, digits.collect()))
    }

    /// The number that a text is: a sign, digits, and perhaps a point with digits before or behind it. None for any
    /// other text, and for very long ones.
    pub fn of_text(text: &[u8]) -> Option<Self> {
        if text.len() > MOST_CHARACTERS {
            return None;
        }
        let (is_negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let point = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
        let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
        let are_digits = whole.iter().chain(fraction).all(u8::is_ascii_digit);
        if !are_digits || whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let groups = whole.len().div_ceil(BASE_DIGITS);
        // The first digit to base 10,000 may have fewer decimals, the last one as well.
        let (mut digits, mut digit, mut decimals) = (Digits::new(), 0, groups * BASE_DIGITS - whole.len());
        for byte in whole.iter().chain(fraction) {
            digit = digit * 10 + u16::from(byte - b'0');
            decimals += 1;
            if decimals == BASE_DIGITS {
                digits.push(digit);
                (digit, decimals) = (0, 0);
            }
        }
        if decimals > 0 {
            digits.push((decimals..BASE_DIGITS).fold(digit, |digit, _| digit * 10));
        }
        Some(Self::normal(is_negative, groups as i32 - 1, digits))
    }

    /// Adds the number's bytes: equal numbers have equal bytes.
    pub fn add_to(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.is_negative.into());
        bytes.extend(self.weight.to_le_bytes());
        bytes.extend(self.digits.iter().flat_map(|digit| digit.to_le_bytes()));
    }
}

/// A string that casts to types of numbers may accept.
#[derive(Debug, PartialEq, Eq)]
pub enum Numeral {
    Number(Number),
    /// It may be a number in another notation.
    Odd,
}

/// What a byte may be in a string that a type of numbers accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteKind {
    /// No such string has it.
    No,
    /// Around the number. In some locales of one-byte encodings, a byte above 127 is a space.
    Space,
    Sign,
    /// A digit of some base, a point, or a letter or mark of some notation.
    Digit,
}

const BYTE_KINDS: [ByteKind; 256] = {
    let mut kinds = [ByteKind::No; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b' ' | b'\t'..=b'\r' | 0x80.. => ByteKind::Space,
            b'+' | b'-' => ByteKind::Sign,
            b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' | b'x' | b'X' | b'o' | b'O' | b'_' | b'.' => {
                ByteKind::Digit
            }
            _ => ByteKind::No,
        };
        byte += 1;
    }
    kinds
};

fn kind(byte: u8) -> ByteKind {
    BYTE_KINDS[usize::from(byte)]
}

/// The number that a string stands for; None if no type takes it for a finite number. The server's types allow white
/// space around a number, and depending on its version `0x1f`, `0o17`, `0b11`, `1_000`, `1e3`.
pub fn numeral(string: &[u8]) -> Option<Numeral> {
    // Most strings end here, at their first byte.
    let first = string.iter().position(|&byte| kind(byte) != ByteKind::Space)?;
    if kind(string[first]) == ByteKind::No {
        return None;
    }
    let last = string.iter().rposition(|&byte| kind(byte) != ByteKind::Space)?;
    let text = &string[first..=last];
    let is_part = |(at, &byte): (usize, &u8)| match kind(byte) {
        ByteKind::Digit => true,
        // At the start, and of an exponent.
        ByteKind::Sign => at.checked_sub(1).is_none_or(|before| matches!(text[before], b'e' | b'E')),
        ByteKind::No | ByteKind::Space => false,
    };
    // What is left includes all that Number::of_text reads.
    if !text.iter().enumerate().all(is_part) {
        return None;
    }
    match Number::of_text(text) {
        Some(number) => Some(Numeral::Number(number)),
        None => text.iter().any(u8::is_ascii_digit).then_some(Numeral::Odd),
    }
}
