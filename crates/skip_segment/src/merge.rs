//! Moving bits: how narrow segments are put side by side in a wide one, slice by slice.
//!
//! Owns one routine. Bit `i` of a string of bytes is bit `i % 8` of byte `i / 8`, as in a slice.

/// The lower `bits` bits, of at most 64.
#[inline]
fn low_mask(bits: usize) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Up to 8 bytes from byte `at` on, little-endian; missing ones are zero.
#[inline]
fn load(bytes: &[u8], at: usize) -> u64 {
    if let Some(whole) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        return u64::from_le_bytes(*whole);
    }
    let rest = bytes.get(at..).unwrap_or(&[]);
    rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// 64 bits from bit `at` on; missing ones are zero.
#[inline]
fn load_bits(bytes: &[u8], at: usize) -> u64 {
    let (byte, shift) = (at / 8, at % 8);
    let low = load(bytes, byte) >> shift;
    if shift == 0 {
        return low;
    }
    low | u64::from(bytes.get(byte + 8).copied().unwrap_or(0)) << (64 - shift)
}

/// Overwrites `bits` bits (at most 8 minus the bit's place in its byte) within one byte.
#[inline]
fn store_in_byte(dst: &mut [u8], dst_bit: usize, value: u64, bits: usize) {
    let shift = dst_bit % 8;
    let mask = (low_mask(bits) << shift) as u8;
    let byte = &mut dst[dst_bit / 8];
    *byte = *byte & !mask | (value << shift) as u8 & mask;
}

/// Copies `bits` bits of `src` from bit `src_bit` on over those of `dst` from bit `dst_bit` on. Other bits of `dst`
/// stay as they are.
///
/// # Panics
/// If either string of bytes ends before its last bit.
pub fn copy_bits(dst: &mut [u8], dst_bit: usize, src: &[u8], src_bit: usize, bits: usize) {
    let fits =
        |bytes: &[u8], at: usize| at.checked_add(bits).is_some_and(|end| end.div_ceil(8) <= bytes.len());
    assert!(fits(dst, dst_bit) && fits(src, src_bit), "copy_bits past the end");
    if bits <= 57 && copy_in_word(dst, dst_bit, src, src_bit, bits) {
        return;
    }
    let head = ((8 - dst_bit % 8) % 8).min(bits);
    if head > 0 {
        store_in_byte(dst, dst_bit, load_bits(src, src_bit), head);
    }
    let (dst_bit, src_bit, bits) = (dst_bit + head, src_bit + head, bits - head);
    let tail = bits % 8;
    let whole = &mut dst[dst_bit / 8..][..bits / 8];
    if src_bit % 8 == 0 {
        whole.copy_from_slice(&src[src_bit / 8..][..bits / 8]);
    } else {
        copy_shifted(whole, src, src_bit);
    }
    if tail > 0 {
        store_in_byte(dst, dst_bit + bits - tail, load_bits(src, src_bit + bits - tail), tail);
    }
}

/// Copies up to 57 bits, which lie in the 8 bytes from their first one on. False, and nothing done, if `dst` does
/// not have 8 bytes there. This is the case of narrow segments, of which every slice is a few bits.
#[inline]
fn copy_in_word(dst: &mut [u8], dst_bit: usize, src: &[u8], src_bit: usize, bits: usize) -> bool {
    let Some(bytes) = dst.get_mut(dst_bit / 8..).and_then(|rest| rest.first_chunk_mut()) else {
        return false;
    };
    let (mask, shift) = (low_mask(bits), dst_bit % 8);
    let value = load(src, src_bit / 8) >> (src_bit % 8) & mask;
    *bytes = (u64::from_le_bytes(*bytes) & !(mask << shift) | value << shift).to_le_bytes();
    true
}

/// Fills whole bytes from a source that starts within a byte.
fn copy_shifted(dst: &mut [u8], src: &[u8], src_bit: usize) {
    let (words, rest) = dst.as_chunks_mut::<8>();
    let (from, shift) = (src[src_bit / 8..].as_chunks::<8>().0, src_bit % 8);
    // As many as have two whole words of the source each: no checks, so this becomes vector code.
    let mut done = 0;
    for (word, pair) in words.iter_mut().zip(from.windows(2)) {
        let [low, high] = [pair[0], pair[1]].map(u64::from_le_bytes);
        *word = (low >> shift | high << (64 - shift)).to_le_bytes();
        done += 1;
    }
    let mut at = src_bit + done * 64;
    for word in &mut words[done..] {
        *word = load_bits(src, at).to_le_bytes();
        at += 64;
    }
    let last = load_bits(src, at).to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}
