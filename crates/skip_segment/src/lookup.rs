//! Asking a segment: ANDing and ORing slices into an accumulator of one bit a range.
//!
//! Bit `r` of the accumulator is bit `r % 64` of word `r / 64`, the same order as in a slice. A slice that is
//! shorter than the accumulator counts as if it went on with zeros; what is longer is not looked at.

/// Up to 8 bytes as a little-endian word.
#[inline]
fn partial_word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// `acc &= slice`. True if any bit is left.
#[inline]
pub fn and_slice(acc: &mut [u64], slice: &[u8]) -> bool {
    let (words, rest) = slice.as_chunks::<8>();
    let whole = words.len().min(acc.len());
    let (head, tail) = acc.split_at_mut(whole);
    let mut any = 0;
    for (word, bytes) in head.iter_mut().zip(words) {
        *word &= u64::from_le_bytes(*bytes);
        any |= *word;
    }
    if let Some((word, missing)) = tail.split_first_mut() {
        *word &= partial_word(rest);
        any |= *word;
        missing.fill(0);
    }
    any != 0
}

/// `acc |= slice`.
#[inline]
pub fn or_slice(acc: &mut [u64], slice: &[u8]) {
    let (words, rest) = slice.as_chunks::<8>();
    for (word, bytes) in acc.iter_mut().zip(words) {
        *word |= u64::from_le_bytes(*bytes);
    }
    if let Some(word) = acc.get_mut(words.len()) {
        *word |= partial_word(rest);
    }
}
