//! Parts of values, as the server stores them.

/// Bytes of the header of a value.
pub const HEADER: usize = 4;

/// The number at a place; None if the bytes end before.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The bytes behind the header of the value at the start of these bytes, which is neither compressed nor out of line;
/// else None.
pub fn varlena(bytes: &[u8]) -> Option<&[u8]> {
    let first = *bytes.first()?;
    if first & 1 == 1 {
        // A header of one byte, with the length in the upper bits. 1 is a value out of line.
        return bytes.get(1..usize::from(first >> 1)).filter(|_| first > 1);
    }
    let header = u32_at(bytes, 0)?;
    bytes.get(HEADER..(header >> 2) as usize).filter(|_| header & 3 == 0)
}
