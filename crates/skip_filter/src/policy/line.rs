//! Where the bits of a key are in a filter of policy `rocksdb`: in one line of 512 bits.

use super::geometry::Geometry;

/// Bytes of a line of `FastLocalBloomImpl` (util/bloom_impl.h).
pub(super) const LINE: usize = 64;
/// Bits of a line.
pub(super) const LINE_BITS: u64 = LINE as u64 * 8;

/// The multiplier of `FastLocalBloomImpl`: 2^32 divided by the golden ratio.
pub(super) const GOLDEN: u32 = 0x9e37_79b9;

/// The number of lines of a filter.
#[inline(always)]
pub(super) fn lines(geometry: &Geometry) -> u64 {
    geometry.bits / LINE_BITS
}

/// The number of the key's line.
#[inline(always)]
pub(super) fn line(key: u64, lines: u64) -> usize {
    (((key & 0xffff_ffff) * lines) >> 32) as usize
}

/// The state of a key's first probe.
#[inline(always)]
pub(super) fn first_state(key: u64) -> u32 {
    (key >> 32) as u32
}

/// Gives the positions of a key in its line.
#[inline(always)]
pub(super) fn walk(key: u64) -> impl FnMut() -> usize {
    let mut state = first_state(key);
    move || {
        let position = state >> 23;
        state = state.wrapping_mul(GOLDEN);
        position as usize
    }
}
