//! Segment pages: writing a new segment, reading slices, adding bits.
//!
//! The pages of a segment are consecutive blocks; slice `s` is on page `s / slices_per_page`. Each page has the
//! segment's id and its place in the segment, so a reader with an old directory notices when the blocks were reused.
//!
//! Bits of a published segment are only ever added, with one exception in a safe order: the bit of the *open* slice
//! ("this range has no filter, it always matches") is cleared after all bits of the range were set. Readers therefore
//! read the open slice before any other.

use super::entry::Segment;
use super::miss::{Fetch, Miss};
use crate::pg::{
    Damage, Rel,
    page::{PinnedPage, SharedPage},
    wal::{self, PageEdit},
};
use skip_filter::probes;
use skip_segment::page::{PageImage, PageKind, SLICE_BYTES};
use skip_segment::{FIRST_PROBE_SLICE, NULLS_SLICE, SegmentShape, VALUES_SLICE};
use std::ops::Range;

/// Calls `read` with the slices of one page of a segment.
///
/// # Errors
/// Damage, or a page that does not belong to the segment any more.
pub fn read_page<R>(index: Rel, segment: &Segment, page: u32, read: impl FnOnce(&[u8]) -> R) -> Fetch<R> {
    read_part(index, segment, page, 0..SLICE_BYTES as usize, read)
}

/// Calls `read` with the bytes of one slice.
///
/// # Errors
/// As [`read_page`].
pub fn read_slice<R>(
    index: Rel,
    segment: &Segment,
    shape: &SegmentShape,
    slice: u32,
    read: impl FnOnce(&[u8]) -> R,
) -> Fetch<R> {
    let (page, at) = shape.locate(slice);
    let at = at as usize;
    read_part(index, segment, page, at..at + shape.stride() as usize, read)
}

/// Calls `read` with some bytes of one page of a segment. Only the quarters of the page that these bytes are in are
/// verified.
///
/// # Errors
/// As [`read_page`].
pub fn read_part<R>(
    index: Rel,
    segment: &Segment,
    page: u32,
    part: Range<usize>,
    read: impl FnOnce(&[u8]) -> R,
) -> Fetch<R> {
    read_pinned(PinnedPage::read(index, segment.first_block + page), segment, page, part, read)
}

fn read_pinned<R>(
    pinned: PinnedPage,
    segment: &Segment,
    page: u32,
    part: Range<usize>,
    read: impl FnOnce(&[u8]) -> R,
) -> Fetch<R> {
    let shared = pinned.lock();
    part_of(&shared, segment, page, part).map(read)
}

/// Some bytes of a page that is expected to belong to a segment. Only the quarters of the page that they are in are
/// verified.
///
/// # Errors
/// As [`read_page`].
pub fn part_of<'p>(
    shared: &'p SharedPage,
    segment: &Segment,
    page: u32,
    part: Range<usize>,
) -> Fetch<&'p [u8]> {
    let block = segment.first_block + page;
    let view = shared.any_view_of(part.clone())?.ok_or(Miss::Recycled(block))?;
    if !view.is(PageKind::Segment) || view.owner() != segment.id || view.place() != page {
        return Err(Miss::Recycled(block));
    }
    let bytes = view.payload().get(part);
    bytes.ok_or_else(|| Damage::new(block, "the segment page is too short").into())
}

/// The most slices that [`read_slices`] takes: one less than the eight pinned buffers of a process that the server
/// counts in an array. It counts further ones in a slower hash table.
pub const MOST_PINS: usize = 7;

/// Calls `read` with the bytes of slices, in their order, until it returns false; at most [`MOST_PINS`] slices. All are
/// prefetched into the processor's cache before the first is used, so that their cache misses overlap. Returns the
/// number of slices read.
///
/// # Errors
/// As [`read_page`].
pub fn read_slices(
    index: Rel,
    segment: &Segment,
    shape: &SegmentShape,
    slices: &[u32],
    mut read: impl FnMut(&[u8]) -> bool,
) -> Fetch<u64> {
    let mut pinned = [const { None }; MOST_PINS];
    for (pinned, &slice) in pinned.iter_mut().zip(slices) {
        let (page, at) = shape.locate(slice);
        let part = at as usize..(at + shape.stride()) as usize;
        let waiting = PinnedPage::read(index, segment.first_block + page);
        waiting.prefetch(part.clone());
        *pinned = Some((waiting, page, part));
    }
    let mut count = 0;
    for (pinned, page, part) in pinned.into_iter().flatten() {
        count += 1;
        if !read_pinned(pinned, segment, page, part, &mut read)? {
            break;
        }
    }
    Ok(count)
}

/// Writes one page of a new segment. `fill` gets the zeroed bytes of its slices.
pub fn write_page(index: Rel, segment: &Segment, page: u32, fill: impl FnOnce(&mut [u8])) {
    let mut image = PageImage::fresh(PageKind::Segment, segment.id, page);
    fill(image.payload_mut(SLICE_BYTES as usize));
    wal::write_page(index, segment.first_block + page, image);
}

/// A bit of a segment: page of the segment, byte of its payload, mask.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bit {
    page: u32,
    byte: u16,
    mask: u8,
}

impl Bit {
    /// The bit of `range` in a slice; `range` is counted from the segment's first.
    pub fn new(shape: &SegmentShape, slice: u32, range: u32) -> Self {
        let (page, at) = shape.locate(slice);
        Self { page, byte: (at + range / 8) as u16, mask: 1 << (range % 8) }
    }

    /// The bits of a key in the filter of `range`, which is counted from the segment's first.
    pub fn of_key(shape: &SegmentShape, num_probes: u8, hash: u64, range: u32) -> impl Iterator<Item = Self> {
        probes(hash, shape.filter_bits(), num_probes)
            .map(move |p| Self::new(shape, FIRST_PROBE_SLICE + p, range))
    }

    /// The page of the segment that it is on.
    pub fn page(&self) -> u32 {
        self.page
    }

    /// Whether the bit is set.
    fn is_set(&self, index: Rel, segment: &Segment) -> Fetch<bool> {
        let at = usize::from(self.byte);
        read_part(index, segment, self.page, at..at + 1, |byte| byte[0] & self.mask != 0)
    }
}

/// Sets bits, with one WAL record per page. The caller holds the maintenance lock, so the segment cannot be recycled
/// meanwhile.
///
/// # Errors
/// Damage to a page.
pub fn set_bits(index: Rel, segment: &Segment, bits: &mut Vec<Bit>) -> Result<(), Damage> {
    change_bits(index, segment, bits, |byte, mask| byte | mask)
}

/// Clears one bit of the open slice, after all bits of the range were set.
///
/// # Errors
/// Damage to the page.
pub fn clear_bit(index: Rel, segment: &Segment, bit: Bit) -> Result<(), Damage> {
    change_bits(index, segment, &mut vec![bit], |byte, mask| byte & !mask)
}

fn change_bits(
    index: Rel,
    segment: &Segment,
    bits: &mut Vec<Bit>,
    change: fn(u8, u8) -> u8,
) -> Result<(), Damage> {
    bits.sort_unstable();
    bits.dedup();
    for same_page in bits.chunk_by(|a, b| a.page == b.page) {
        crate::pg::memory::check_for_interrupts();
        let page = same_page[0].page;
        let block = segment.first_block + page;
        let mut edit = PageEdit::start(index, block, PageKind::Segment)?;
        let view = edit.before()?;
        if view.owner() != segment.id || view.place() != page {
            return Err(Damage::new(
                block,
                "the page does not belong to the segment that the directory names",
            ));
        }
        for bit in same_page {
            edit.image().change_byte(usize::from(bit.byte), |byte| change(byte, bit.mask));
        }
        edit.commit();
    }
    Ok(())
}

/// Whether all these bits are set.
///
/// # Errors
/// As [`read_page`].
pub fn all_set(index: Rel, segment: &Segment, bits: impl Iterator<Item = Bit>) -> Fetch<bool> {
    for bit in bits {
        if !bit.is_set(index, segment)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the filter of `range` may have a key, or, for None, whether the range has NULLs.
///
/// # Errors
/// As [`read_page`].
pub fn has_entry(index: Rel, segment: &Segment, range: u32, hash: Option<u64>) -> Fetch<bool> {
    let shape = segment.shape()?;
    let place = range - segment.first_range;
    match hash {
        None => all_set(index, segment, std::iter::once(Bit::new(&shape, NULLS_SLICE, place))),
        Some(hash) => {
            let values = std::iter::once(Bit::new(&shape, VALUES_SLICE, place));
            all_set(
                index,
                segment,
                values.chain(Bit::of_key(&shape, segment.filters()?.num_probes, hash, place)),
            )
        }
    }
}

/// The filters of up to 64 neighbouring ranges, one word per slice. It serves lookups of many values in the same
/// ranges, at the cost of reading the whole segment once.
pub struct Group {
    words: Vec<u64>,
    filter_bits: u32,
    num_probes: u8,
}

impl Group {
    /// Reads group `number`: the 64 ranges from `64 * number` on, counted from the segment's first.
    ///
    /// # Errors
    /// As [`read_page`].
    pub fn read(index: Rel, segment: &Segment, shape: &SegmentShape, number: u32) -> Fetch<Self> {
        let mut words = vec![0u64; shape.slices() as usize];
        let stride = shape.stride() as usize;
        let from = number as usize * 8;
        let bytes = stride.saturating_sub(from).min(8);
        for (page, words) in words.chunks_mut(shape.slices_per_page() as usize).enumerate() {
            read_page(index, segment, page as u32, |slices| {
                for (word, slice) in words.iter_mut().zip(slices.chunks_exact(stride)) {
                    let mut wide = [0u8; 8];
                    wide[..bytes].copy_from_slice(&slice[from..from + bytes]);
                    *word = u64::from_le_bytes(wide);
                }
            })?;
        }
        Ok(Self { words, filter_bits: segment.filters()?.bits, num_probes: segment.filters()?.num_probes })
    }

    /// Whether a range's bit of a slice is set; `range` is counted from the segment's first.
    pub fn has_bit(&self, slice: u32, range: u32) -> bool {
        self.words.get(slice as usize).is_some_and(|word| word >> (range % 64) & 1 != 0)
    }

    /// Whether the filter of `range` may have a key, or, for None, whether the range has NULLs.
    pub fn has_entry(&self, hash: Option<u64>, range: u32) -> bool {
        hash.map_or_else(|| self.has_bit(NULLS_SLICE, range), |hash| self.has_key(hash, range))
    }

    /// Whether the filter of `range` may have a key.
    pub fn has_key(&self, hash: u64, range: u32) -> bool {
        self.has_bit(VALUES_SLICE, range)
            && probes(hash, self.filter_bits, self.num_probes)
                .all(|p| self.has_bit(FIRST_PROBE_SLICE + p, range))
    }
}
