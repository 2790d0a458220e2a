//! Building a segment: ranges come one by one, slices go out page by page.
//!
//! Setting bits straight into a wide matrix of slices is a cache miss for every bit. So a range's filter is filled
//! row-major, where it stays in the nearest cache, and as soon as 64 ranges are pending their rows are transposed,
//! 64×64 bits at a time, into a *group*: one 64-bit word for each slice.
//!
//! Owns the groups and the pending rows. Invariants: every group but the pending one has 64 ranges; bits of ranges
//! that were never pushed are zero; memory grows with `filter_bits * width / 8` bytes, see
//! [`SegmentBuilder::memory_bytes`].

use crate::segment::{FIRST_PROBE_SLICE, SegmentShape};
use crate::transpose::transpose64;
use skip_filter::filter::{set_all, words_for};

/// Ranges in a group: the bits of a word.
const GROUP: usize = 64;

/// What a segment says of one range besides its filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeState {
    /// The range has no filter here: it always matches.
    pub open: bool,
    /// The range holds a NULL.
    pub nulls: bool,
    /// The range holds something that is not NULL.
    pub values: bool,
}

/// Gathers the filters of consecutive ranges and writes them as slices.
#[derive(Clone, Debug)]
pub struct SegmentBuilder {
    filter_bits: u32,
    num_probes: u8,
    width: u32,
    /// Words from one pending row to the next.
    row_stride: usize,
    /// The rows of the ranges since the last full group.
    pending: Vec<u64>,
    /// The full groups: for each position of the filters one word.
    groups: Vec<Box<[u64]>>,
    /// For each group, the pending one too, its word of the open, the nulls and the values slice.
    states: Vec<[u64; FIRST_PROBE_SLICE as usize]>,
}

impl SegmentBuilder {
    /// An empty builder of filters with `filter_bits` bits (none count as one) and `num_probes` probes a key.
    pub fn new(filter_bits: u32, num_probes: u8) -> Self {
        let filter_bits = filter_bits.max(1);
        // Whole cache lines of 8 words, and an odd number of them: transposing walks down the 64 rows, and an
        // even distance would press their lines into a fraction of the nearest cache's sets.
        let row_stride = (words_for(filter_bits).div_ceil(8) | 1) * 8;
        Self {
            filter_bits,
            num_probes,
            width: 0,
            row_stride,
            pending: vec![],
            groups: vec![],
            states: vec![],
        }
    }

    /// Bits of each range's filter.
    pub fn filter_bits(&self) -> u32 {
        self.filter_bits
    }

    /// Probes for each key.
    pub fn num_probes(&self) -> u8 {
        self.num_probes
    }

    /// Number of ranges pushed so far.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Bytes of memory the builder has allocated.
    pub fn memory_bytes(&self) -> usize {
        let groups: usize = self.groups.iter().map(|group| size_of_val::<[u64]>(group)).sum();
        groups
            + self.groups.capacity() * size_of::<Box<[u64]>>()
            + self.states.capacity() * size_of::<[u64; 3]>()
            + self.pending.capacity() * size_of::<u64>()
    }

    /// Adds the next range: its state and its key hashes. Hashes that come twice cost time but change nothing.
    pub fn push(&mut self, state: RangeState, hashes: impl Iterator<Item = u64>) {
        let (filter_bits, num_probes) = (self.filter_bits, self.num_probes);
        set_all(self.next_row(state), hashes, filter_bits, num_probes);
        self.width += 1;
        if self.pending.len() == GROUP * self.row_stride {
            self.finish_group();
        }
    }

    /// The shape of a segment of everything pushed so far. None as [`SegmentShape::new`]: too wide, or empty.
    pub fn shape(&self, page_bytes: u32) -> Option<SegmentShape> {
        SegmentShape::new(self.width, self.filter_bits, page_bytes)
    }

    /// Fills `out`, the payload of page `page` of the segment with this shape; what no slice covers becomes zero.
    ///
    /// A shape narrower than the builder takes its first ranges; one with fewer bits, its first slices.
    ///
    /// # Panics
    /// If `out` is shorter than the slices of one page.
    pub fn write_page(&self, shape: &SegmentShape, page: u32, out: &mut [u8]) {
        self.write_page_from(0, shape, page, out);
    }

    /// As [`write_page`](Self::write_page), for a segment that starts with range `first` of this builder: what was
    /// gathered at one go may have to be cut into several segments (see [`SegmentShape::good_width`]).
    ///
    /// # Panics
    /// If `out` is shorter than the slices of one page.
    pub fn write_page_from(&self, first: u32, shape: &SegmentShape, page: u32, out: &mut [u8]) {
        out.fill(0);
        let Some(start) = page.checked_mul(shape.slices_per_page()) else { return };
        let end = start.saturating_add(shape.slices_per_page()).min(shape.slices());
        let stride = shape.stride() as usize;
        let mut slice = start;
        while slice < end {
            let run = run_within_block(slice, end);
            let bytes = &mut out[(slice - start) as usize * stride..][..run * stride];
            self.write_run(slice, first, shape, bytes);
            slice += run as u32;
        }
    }

    /// Fills the bytes of a run of slices that lie in the same 64×64 blocks, one group of ranges after another.
    fn write_run(&self, slice: u32, first: u32, shape: &SegmentShape, bytes: &mut [u8]) {
        let stride = shape.stride() as usize;
        let (group, shift) = ((first / 64) as usize, first % 64);
        let mut words = [0; 64];
        let words = &mut words[..bytes.len() / stride];
        for place in 0..shape.words() {
            self.column(slice, group + place, words);
            if shift != 0 {
                let mut next = [0; 64];
                self.column(slice, group + place + 1, &mut next[..words.len()]);
                for (word, next) in words.iter_mut().zip(next) {
                    *word = *word >> shift | next << (64 - shift);
                }
            }
            let left = shape.width() - place as u32 * 64;
            if left < 64 {
                words.iter_mut().for_each(|word| *word &= (1 << left) - 1);
            }
            store_column(words, stride, &mut bytes[place * 8..]);
        }
    }

    /// One group's words of a run of slices from `slice` on, which must not go past a 64×64 block. Zero for what
    /// was never pushed.
    fn column(&self, slice: u32, group: usize, words: &mut [u64]) {
        let Some(position) = slice.checked_sub(FIRST_PROBE_SLICE) else {
            let states = self.states.get(group).map_or([0; 3], |states| *states);
            words.copy_from_slice(&states[slice as usize..][..words.len()]);
            return;
        };
        let (block, start) = (position as usize / 64, position as usize % 64);
        match self.groups.get(group).map(|words| words.as_chunks::<64>().0.get(block)) {
            Some(Some(block)) => words.copy_from_slice(&block[start..][..words.len()]),
            None if group == self.groups.len() => {
                let mut pending = [0; 64];
                self.transpose_block(block, &mut pending);
                words.copy_from_slice(&pending[start..][..words.len()]);
            }
            _ => words.fill(0),
        }
    }

    /// An empty row for the next range, whose state is noted.
    fn next_row(&mut self, state: RangeState) -> &mut [u64] {
        if self.pending.is_empty() {
            self.states.push([0; 3]);
        }
        let start = self.pending.len();
        let bit = start / self.row_stride;
        if let Some(words) = self.states.last_mut() {
            for (word, set) in words.iter_mut().zip([state.open, state.nulls, state.values]) {
                *word |= u64::from(set) << bit;
            }
        }
        // Clearing a row just before it is filled also brings it into the nearest cache.
        self.pending.resize(start + self.row_stride, 0);
        &mut self.pending[start..]
    }

    /// Turns 64 pending rows into a group.
    fn finish_group(&mut self) {
        let row_words = words_for(self.filter_bits);
        let mut group = vec![0; row_words * 64].into_boxed_slice();
        for (index, words) in group.as_chunks_mut::<64>().0.iter_mut().enumerate() {
            self.transpose_block(index, words);
        }
        self.groups.push(group);
        self.pending.clear();
    }

    /// The pending rows' words of slices `64 * index ..` of the filter. Zero past the filter's end.
    fn transpose_block(&self, index: usize, block: &mut [u64; 64]) {
        *block = [0; 64];
        if index < words_for(self.filter_bits) {
            for (word, row) in block.iter_mut().zip(self.pending.chunks_exact(self.row_stride)) {
                *word = row[index];
            }
            transpose64(block);
        }
    }
}

/// How many slices from `slice` on, before `end`, are of the same kind: all about the ranges' states, or all from
/// the same 64 positions of the filters.
fn run_within_block(slice: u32, end: u32) -> usize {
    let kind_end = match slice.checked_sub(FIRST_PROBE_SLICE) {
        None => FIRST_PROBE_SLICE,
        Some(position) => slice.saturating_add(64 - position % 64),
    };
    (end.min(kind_end) - slice) as usize
}

/// Stores one word for each slice, `stride` bytes apart; if the stride is less than 8 bytes, its first `stride` bytes.
fn store_column(words: &[u64], stride: usize, bytes: &mut [u8]) {
    match stride {
        1 => bytes.iter_mut().zip(words).for_each(|(byte, &word)| *byte = word as u8),
        2 => store_each(bytes.as_chunks_mut::<2>().0, words, |word| (word as u16).to_le_bytes()),
        4 => store_each(bytes.as_chunks_mut::<4>().0, words, |word| (word as u32).to_le_bytes()),
        _ => {
            for (bytes, word) in bytes.chunks_mut(stride).zip(words) {
                bytes[..8].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
}

#[inline]
fn store_each<const N: usize>(pieces: &mut [[u8; N]], words: &[u64], low_bytes: impl Fn(u64) -> [u8; N]) {
    for (piece, &word) in pieces.iter_mut().zip(words) {
        *piece = low_bytes(word);
    }
}
