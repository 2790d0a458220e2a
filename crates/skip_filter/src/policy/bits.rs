//! Bits of a filter's body: bit `p` is bit `p % 8` of byte `p / 8`.

/// Sets a bit; 1 if it was not set, else 0.
#[inline(always)]
pub(crate) fn set_bit(body: &mut [u8], position: usize) -> u64 {
    let byte = &mut body[position / 8];
    let mask = 1 << (position % 8);
    let new = u64::from(*byte & mask == 0);
    *byte |= mask;
    new
}

/// Whether a bit is set.
#[inline(always)]
pub(crate) fn is_set(body: &[u8], position: usize) -> bool {
    body[position / 8] >> (position % 8) & 1 != 0
}

/// Sets the bits of a key; returns how many were not set.
#[inline(always)]
pub(crate) fn set_bits(body: &mut [u8], positions: impl Iterator<Item = usize>) -> u64 {
    positions.map(|position| set_bit(body, position)).sum()
}

/// Whether all bits of a key are set.
///
/// One after the other, until one is not. To fetch all of them first and look at them without a branch in between was
/// measured with filters of 6 MB: keys that are there took 1.2 times as long, absent ones 1.8 times, because the CPU
/// goes ahead to the next probe by itself, and what counts is the number of lines that it fetches.
#[inline(always)]
pub(crate) fn are_set(body: &[u8], mut positions: impl Iterator<Item = usize>) -> bool {
    positions.all(|position| is_set(body, position))
}
