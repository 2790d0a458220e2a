//! What the tests share: a segment as bytes, read the way a scan reads it.

use skip_filter::probes;
use skip_segment::*;

pub const VALUES: RangeState = RangeState { open: false, nulls: false, values: true };

/// A segment's pages, one after another.
pub struct Segment {
    pub shape: SegmentShape,
    pub page_bytes: u32,
    pub bytes: Vec<u8>,
}

impl Segment {
    pub fn empty(shape: SegmentShape, page_bytes: u32) -> Self {
        let bytes = vec![0; shape.pages() as usize * page_bytes as usize];
        Self { shape, page_bytes, bytes }
    }

    /// All that the builder holds.
    pub fn of(builder: &SegmentBuilder, page_bytes: u32) -> Self {
        Self::part(builder, 0, builder.shape(page_bytes).unwrap(), page_bytes)
    }

    /// The builder's ranges from `first` on, as many as the shape is wide.
    pub fn part(builder: &SegmentBuilder, first: u32, shape: SegmentShape, page_bytes: u32) -> Self {
        let mut segment = Self::empty(shape, page_bytes);
        for (page, out) in segment.bytes.chunks_exact_mut(page_bytes as usize).enumerate() {
            out.fill(0xa5); // write_page must not count on zeros
            builder.write_page_from(first, &shape, page as u32, out);
        }
        segment
    }

    fn place(&self, slice: u32) -> std::ops::Range<usize> {
        let (page, offset) = self.shape.locate(slice);
        let start = page as usize * self.page_bytes as usize + offset as usize;
        start..start + self.shape.stride() as usize
    }

    pub fn slice(&self, slice: u32) -> &[u8] {
        &self.bytes[self.place(slice)]
    }

    pub fn slice_mut(&mut self, slice: u32) -> &mut [u8] {
        let place = self.place(slice);
        &mut self.bytes[place]
    }

    /// One bit a range, of a state slice.
    pub fn state(&self, slice: u32) -> Vec<u64> {
        let mut words = vec![0; self.shape.words()];
        or_slice(&mut words, self.slice(slice));
        words
    }

    /// One bit a range: may it hold the key? The open slice is left out.
    pub fn matching(&self, hash: u64, num_probes: u8) -> Vec<u64> {
        let mut acc = vec![u64::MAX; self.shape.words()];
        let spare = self.shape.words() as u32 * 64 - self.shape.width();
        *acc.last_mut().unwrap() >>= spare;
        for position in probes(hash, self.shape.filter_bits(), num_probes) {
            if !and_slice(&mut acc, self.slice(FIRST_PROBE_SLICE + position)) {
                break;
            }
        }
        acc
    }
}

/// Bit `i` of words.
pub fn bit(words: &[u64], i: u32) -> bool {
    words[i as usize / 64] >> (i % 64) & 1 != 0
}
