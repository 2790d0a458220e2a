//! Reading and finding bits. Bit `i` of a string of bytes is bit `i % 8` of its byte `i / 8`.

/// Most bits that [`field`] reads: with up to 7 bits before them they lie in 8 bytes.
pub(crate) const MOST_FIELD_BITS: u8 = 56;

/// The lower `bits` bits, of at most 63.
#[inline]
pub(crate) fn low_mask(bits: u8) -> u64 {
    (1 << bits) - 1
}

/// The 8 bytes from byte `at` on, little-endian; missing ones are zero.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(whole) => u64::from_le_bytes(*whole),
        None => last_word(bytes, at),
    }
}

#[cold]
fn last_word(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or(&[]);
    rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// A little-endian u16, or zero past the end.
#[inline]
pub(crate) fn short(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

/// A little-endian u32, or zero past the end.
#[inline]
pub(crate) fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The `bits` bits, of at most [`MOST_FIELD_BITS`], from bit `at` on; missing ones are zero.
#[inline]
pub(crate) fn field(bytes: &[u8], at: usize, bits: u8) -> u64 {
    word(bytes, at / 8) >> (at % 8) & low_mask(bits)
}

/// Appends `bits` bits of each value, and fills up the last byte with zeros.
pub(crate) fn append_fields(values: impl Iterator<Item = u64>, bits: u8, out: &mut Vec<u8>) {
    let (mut pending, mut held) = (0u64, 0);
    for value in values {
        pending |= value << held;
        held += u32::from(bits);
        if held >= u64::BITS {
            out.extend_from_slice(&pending.to_le_bytes());
            held -= u64::BITS;
            // The bits of the value that did not fit; as held < bits, the shift is at least 1.
            pending = if held == 0 { 0 } else { value >> (u32::from(bits) - held) };
        }
    }
    out.extend_from_slice(&pending.to_le_bytes()[..held.div_ceil(8) as usize]);
}

/// The place of the set bit that has `rank` set bits below it, in a word that has more than `rank`.
#[inline]
pub(crate) fn select(word: u64, mut rank: u32) -> u32 {
    let mut at = 0;
    for half in [32, 16, 8] {
        let ones = (word >> at & low_mask(half)).count_ones();
        if rank >= ones {
            rank -= ones;
            at += u32::from(half);
        }
    }
    let mut rest = word >> at;
    for _ in 0..rank {
        rest &= rest.wrapping_sub(1);
    }
    at + rest.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        for bits in 0..=MOST_FIELD_BITS {
            let values: Vec<u64> =
                (0..100u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7 & low_mask(bits)).collect();
            let mut bytes = vec![];
            append_fields(values.iter().copied(), bits, &mut bytes);
            assert_eq!(bytes.len(), (100 * usize::from(bits)).div_ceil(8));
            for (index, &value) in values.iter().enumerate() {
                assert_eq!(field(&bytes, index * usize::from(bits), bits), value, "{bits} bits");
            }
        }
    }

    #[test]
    fn select_finds_every_set_bit() {
        for word in [1, u64::MAX, 1 << 63, 0x8000_0001_0100_8001, 0xaaaa_0000_ffff_5555] {
            let places = (0..64).filter(|place| word >> place & 1 == 1);
            for (rank, place) in places.enumerate() {
                assert_eq!(select(word, rank as u32), place);
            }
        }
    }

    #[test]
    fn past_the_end_is_zero() {
        let bytes = [1, 2, 3];
        assert_eq!(
            (word(&bytes, 0), word(&bytes, 2), word(&bytes, 3), word(&bytes, 9)),
            (0x03_0201, 3, 0, 0)
        );
        assert_eq!((short(&bytes, 2), half(&bytes, 0)), (0, 0));
    }
}
