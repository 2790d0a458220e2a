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

/// A bit: 0 or 1.
#[inline(always)]
fn bit(body: &[u8], position: usize) -> u8 {
    body[position / 8] >> (position % 8) & 1
}

/// Whether a bit is set.
#[inline(always)]
pub(crate) fn is_set(body: &[u8], position: usize) -> bool {
    bit(body, position) != 0
}

/// Sets the bits of a key, whose positions `next` gives; returns how many were not set.
#[inline(always)]
pub(crate) fn set_bits(body: &mut [u8], num_probes: u8, mut next: impl FnMut() -> usize) -> u64 {
    (0..num_probes).map(|_| set_bit(body, next())).sum()
}

/// Positions that are looked at without a branch in between.
///
/// A branch after each position is mispredicted for most absent keys, and each time the CPU waits for a cache line
/// before it asks for the next one. To look at all positions at once fetches lines for absent keys that are not needed.
/// Measured with filters of 6 MB and 7 probes, in ns a key, present and absent: groups of 1 took 14.4 and 18.2, of 2
/// 8.9 and 9.4, of 3 9.4 and 7.4, of 4 9.7 and 8.2, all at once 9.2 and 9.3.
const GROUP: u8 = 3;

/// Whether all bits of a key are set; `next` gives one position after the other. After a group of positions in which
/// one is not set, no more are looked at.
#[inline(always)]
pub(crate) fn are_set(body: &[u8], num_probes: u8, mut next: impl FnMut() -> usize) -> bool {
    let mut left = num_probes;
    while left >= GROUP {
        let mut bits = 1;
        for _ in 0..GROUP {
            bits &= bit(body, next()); // a number: with bools, the compiler makes branches of it
        }
        if bits == 0 {
            return false;
        }
        left -= GROUP;
    }
    (0..left).all(|_| is_set(body, next()))
}

/// Whether all positions of a key are set, one after the other, until one is not.
#[inline(always)]
pub(crate) fn all(
    num_probes: u8,
    mut next: impl FnMut() -> usize,
    is_set: &mut dyn FnMut(u64) -> bool,
) -> bool {
    (0..num_probes).all(|_| is_set(next() as u64))
}
