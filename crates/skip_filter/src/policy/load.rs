//! Little-endian loads from the middle of a key, for hash functions that are defined by them.

/// Four bytes from `at` on.
#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let part = &bytes[at..at + 4];
    u32::from_le_bytes([part[0], part[1], part[2], part[3]])
}

/// Eight bytes from `at` on.
#[inline(always)]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let part = &bytes[at..at + 8];
    u64::from_le_bytes([part[0], part[1], part[2], part[3], part[4], part[5], part[6], part[7]])
}
