//! Bytes that start on a cache line, so that a line of a cache-line local filter is one line of the cache.
//!
//! An allocation of bytes may start anywhere. This one is 63 bytes longer than asked for, and uses it from the first
//! multiple of 64 on: no unsafe code. Invariant: `start + len` is within the allocation, which never moves.

use std::fmt;

/// Bytes of a cache line on x86-64 and most ARM processors. Where a line has 128, this alignment serves as well.
const LINE: usize = 64;

/// Owned bytes that start on a cache line.
pub struct AlignedBytes {
    allocation: Box<[u8]>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    /// So many zeros. Memory is touched only where bits are set later.
    pub fn zeros(len: usize) -> Self {
        let allocation = vec![0; len + LINE - 1].into_boxed_slice();
        // align_offset may give up (it does not at run time); then the filter is as good, but for the second line.
        let start = allocation.as_ptr().align_offset(LINE).min(LINE - 1);
        Self { allocation, start, len }
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.allocation[self.start..self.start + self.len]
    }
}

impl AsMut<[u8]> for AlignedBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.allocation[self.start..self.start + self.len]
    }
}

impl From<&[u8]> for AlignedBytes {
    fn from(bytes: &[u8]) -> Self {
        let mut aligned = Self::zeros(bytes.len());
        aligned.as_mut().copy_from_slice(bytes);
        aligned
    }
}

impl Clone for AlignedBytes {
    fn clone(&self) -> Self {
        Self::from(self.as_ref())
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_on_a_line_after_a_clone_too() {
        for len in [0, 1, 63, 64, 65, 1_000, 1 << 20] {
            let mut bytes = AlignedBytes::zeros(len);
            bytes.as_mut().fill(7);
            let copy = bytes.clone();
            for bytes in [&bytes, &copy] {
                assert_eq!(bytes.as_ref(), vec![7; len]);
                assert_eq!(bytes.as_ref().as_ptr() as usize % LINE, 0);
            }
        }
    }
}
