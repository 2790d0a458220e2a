//! Bounds on pages.
//!
//! A page has the bounds of 496 ranges in four quarters of 124, each complete in itself, because quarters are checked
//! one by one:
//!
//! ```text
//! quarter, 2032 bytes: 124 times (least key u64 | greatest key u64) | 1984 open bits | 2000 bits of NULLs
//!                      2016 bits of ranges that rows were added to
//! ```
//!
//! A range without values has a least key that is greater than its greatest one. The bounds of an open range are those
//! of what is known of it.
//!
//! A segment of more than one page has a page of summaries in front of them ([`crate::summary`]), 50 in each quarter.
//! So a segment has at most 99,200 ranges, on 201 pages.

use crate::bounds::Bounds;
use crate::summary::{PageSummary, SUMMARY_BYTES};
use std::ops::Range;

/// Payload bytes of a page.
pub const PAGE_BYTES: usize = 8128;
const QUARTERS: u32 = 4;
const QUARTER: usize = PAGE_BYTES / QUARTERS as usize;
const RANGES_PER_QUARTER: u32 = 124;
const PAIR: usize = 16;
const OPEN_AT: usize = RANGES_PER_QUARTER as usize * PAIR;
const NULLS_AT: usize = OPEN_AT + 16;
const WIDENED_AT: usize = NULLS_AT + 16;
const SUMMARIES_PER_QUARTER: u32 = 50;

/// Ranges whose bounds a page has.
pub const RANGES_PER_PAGE: u32 = RANGES_PER_QUARTER * QUARTERS;
/// Pages that a page of summaries sums up.
pub const SUMMARIES_PER_PAGE: u32 = SUMMARIES_PER_QUARTER * QUARTERS;
/// The most ranges of a segment.
pub const MOST_RANGES: u32 = RANGES_PER_PAGE * SUMMARIES_PER_PAGE;

const _: () = assert!(WIDENED_AT + 16 <= QUARTER && RANGES_PER_QUARTER <= 128);
const _: () = assert!(SUMMARIES_PER_QUARTER as usize * SUMMARY_BYTES <= QUARTER);

/// Where the bounds of a segment's ranges lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundsShape {
    width: u32,
}

impl BoundsShape {
    /// The shape of a segment of `width` ranges; None if it has none, or more than fit.
    pub fn new(width: u32) -> Option<Self> {
        (1..=MOST_RANGES).contains(&width).then_some(Self { width })
    }

    /// Number of pages with bounds.
    pub fn data_pages(&self) -> u32 {
        self.width.div_ceil(RANGES_PER_PAGE)
    }

    /// Whether its first page has summaries of the others.
    pub fn has_summaries(&self) -> bool {
        self.data_pages() > 1
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.data_pages() + u32::from(self.has_summaries())
    }

    /// The page, counted from the segment's first, that has the bounds of data page `number`.
    pub fn page_of(&self, number: u32) -> u32 {
        number + u32::from(self.has_summaries())
    }

    /// The ranges, counted from the segment's first, whose bounds data page `number` has.
    pub fn ranges_of(&self, number: u32) -> Range<u32> {
        let first = number * RANGES_PER_PAGE;
        first.min(self.width)..first.saturating_add(RANGES_PER_PAGE).min(self.width)
    }

    /// The data page that has the bounds of a range, and their place on it.
    pub fn locate(&self, range: u32) -> (u32, u32) {
        (range / RANGES_PER_PAGE, range % RANGES_PER_PAGE)
    }
}

/// The bytes of the quarter that has the bounds at a place of a page.
pub fn quarter_of(place: u32) -> Range<usize> {
    let start = (place / RANGES_PER_QUARTER) as usize * QUARTER;
    start..start + QUARTER
}

/// Where on a page the bounds at a place are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundsBytes {
    /// Offset of the two keys.
    pub keys: usize,
    /// Offset of the byte that has the open bit.
    pub open: usize,
    /// Offset of the byte that has the bit of NULLs.
    pub nulls: usize,
    /// Offset of the byte that has the bit of a range that rows were added to.
    pub widened: usize,
    /// The bit in each of these bytes.
    pub mask: u8,
}

/// Where on a page the bounds at a place are.
pub fn bytes_of(place: u32) -> BoundsBytes {
    let within = (place % RANGES_PER_QUARTER) as usize;
    let start = quarter_of(place).start;
    let bits = start + within / 8;
    BoundsBytes {
        keys: start + within * PAIR,
        open: bits + OPEN_AT,
        nulls: bits + NULLS_AT,
        widened: bits + WIDENED_AT,
        mask: 1 << (within % 8),
    }
}

/// The bytes of two keys.
pub fn keys(bounds: Bounds) -> [u8; PAIR] {
    let mut bytes = [0; PAIR];
    bytes[..8].copy_from_slice(&bounds.least.to_le_bytes());
    bytes[8..].copy_from_slice(&bounds.greatest.to_le_bytes());
    bytes
}

/// A byte with the bits of a mask set, or cleared.
pub fn with_bit(byte: u8, mask: u8, is_set: bool) -> u8 {
    if is_set { byte | mask } else { byte & !mask }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The bounds at a place of a page. What lies behind the bytes counts as zeros.
#[inline]
pub fn get(page: &[u8], place: u32) -> Bounds {
    let at = bytes_of(place);
    let is_set = |byte: usize| page.get(byte).is_some_and(|byte| byte & at.mask != 0);
    Bounds {
        least: u64_at(page, at.keys),
        greatest: u64_at(page, at.keys + 8),
        open: is_set(at.open),
        nulls: is_set(at.nulls),
        widened: is_set(at.widened),
    }
}

/// The bounds at a place of a page, of which there is only the quarter that has them.
pub fn get_in_quarter(quarter: &[u8], place: u32) -> Bounds {
    get(quarter, place % RANGES_PER_QUARTER)
}

/// Writes the bounds at a place of a page.
pub fn put(page: &mut [u8], place: u32, bounds: Bounds) {
    let at = bytes_of(place);
    if let Some(target) = page.get_mut(at.keys..at.keys + PAIR) {
        target.copy_from_slice(&keys(bounds));
    }
    for (byte, is_set) in [(at.open, bounds.open), (at.nulls, bounds.nulls), (at.widened, bounds.widened)] {
        if let Some(byte) = page.get_mut(byte) {
            *byte = with_bit(*byte, at.mask, is_set);
        }
    }
}

/// Where the summary of data page `number` lies on the page of summaries.
pub fn summary_at(number: u32) -> Range<usize> {
    let quarter = (number / SUMMARIES_PER_QUARTER) as usize * QUARTER;
    let start = quarter + (number % SUMMARIES_PER_QUARTER) as usize * SUMMARY_BYTES;
    start..start + SUMMARY_BYTES
}

/// The summary of data page `number`.
pub fn get_summary(page: &[u8], number: u32) -> PageSummary {
    PageSummary::decode(page.get(summary_at(number)).unwrap_or_default())
}
