//! Geometry of a bit-sliced segment: which slice lies on which page, and where.
//!
//! A *segment* holds the filters of `width` consecutive block ranges, all of `filter_bits` bits. *Slice* `p` has
//! one bit for each range: bit `r` of a slice is bit `r % 8` of its byte `r / 8`. The first three slices tell about
//! the ranges themselves, the others are the filters' bits, position by position:
//!
//! | slice | bit `r` is set when |
//! |---|---|
//! | [`OPEN_SLICE`] | range `r` has no filter here (not built, or moved elsewhere): it always matches |
//! | [`NULLS_SLICE`] | range `r` holds a NULL |
//! | [`VALUES_SLICE`] | range `r` holds something that is not NULL |
//! | [`FIRST_PROBE_SLICE`]` + p` | bit `p` of range `r`'s filter is set |
//!
//! Slices are `stride` bytes apart and never straddle a page. Owns the arithmetic only; the bytes are filled by
//! [`SegmentBuilder`](crate::SegmentBuilder).
//!
//! Invariants: `1 <= slices_per_page`; `slices_per_page * stride <= page_bytes`; `width <= 8 * stride`. The
//! geometry follows from (width, filter bits, page bytes) alone and is part of the on-disk format.

/// Slice of the ranges that have no filter in this segment, and so always match.
pub const OPEN_SLICE: u32 = 0;
/// Slice of the ranges that hold NULLs.
pub const NULLS_SLICE: u32 = 1;
/// Slice of the ranges that hold values other than NULL.
pub const VALUES_SLICE: u32 = 2;
/// Slice of the filters' bit 0; the slice of bit `p` is `FIRST_PROBE_SLICE + p`.
pub const FIRST_PROBE_SLICE: u32 = 3;

/// A page may waste this part of its bytes before it is worth cutting a segment in two: each segment costs a lookup a
/// page for each probe, however narrow it is. Over all numbers of ranges up to the widest segment, a quarter takes 9 %
/// more pages than without waste, and 1.3 segments on average; a sixteenth would take 1 %, and 2.0 segments.
const WASTE_PART: u32 = 4;

/// The shape of a segment on pages of a given payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentShape {
    width: u32,
    filter_bits: u32,
    stride: u32,
    slices_per_page: u32,
}

/// Bytes from one slice to the next: a byte, two or four for up to 32 ranges, else whole 64-bit words.
fn stride_for(width: u32) -> u32 {
    match width {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        _ => width.div_ceil(64) * 8,
    }
}

impl SegmentShape {
    /// The shape of a segment of `width` ranges with filters of `filter_bits` bits, on pages with `page_bytes`
    /// bytes of payload. None if there are no ranges or no bits, if a slice does not fit a page, or if there are
    /// more slices than a u32 can count.
    pub fn new(width: u32, filter_bits: u32, page_bytes: u32) -> Option<Self> {
        filter_bits.checked_add(FIRST_PROBE_SLICE)?;
        let stride = stride_for(width);
        let slices_per_page = page_bytes / stride;
        if width == 0 || filter_bits == 0 || slices_per_page == 0 {
            return None;
        }
        Some(Self { width, filter_bits, stride, slices_per_page })
    }

    /// Number of block ranges.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Bits of each range's filter.
    pub fn filter_bits(&self) -> u32 {
        self.filter_bits
    }

    /// Bytes from the start of one slice to the start of the next.
    pub fn stride(&self) -> u32 {
        self.stride
    }

    /// Number of slices on every page but the last.
    pub fn slices_per_page(&self) -> u32 {
        self.slices_per_page
    }

    /// Number of slices: one for each bit of the filters, and three.
    pub fn slices(&self) -> u32 {
        self.filter_bits + FIRST_PROBE_SLICE
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.slices().div_ceil(self.slices_per_page)
    }

    /// Where a slice starts: its page, counted from the segment's first, and the byte in that page's payload. It
    /// is `stride` bytes long. For a slice from [`slices`](Self::slices) on, the place it would have.
    #[inline]
    pub fn locate(&self, slice: u32) -> (u32, u32) {
        (slice / self.slices_per_page, slice % self.slices_per_page * self.stride)
    }

    /// Number of 64-bit words that hold one slice.
    pub fn words(&self) -> usize {
        self.width.div_ceil(64) as usize
    }

    /// The widest segment that fits pages of `page_bytes` bytes: one slice a page. 0 for pages of no bytes.
    pub fn max_width(page_bytes: u32) -> u32 {
        match page_bytes {
            0 => 0,
            1 => 8,
            2..=3 => 16,
            4..=7 => 32,
            _ => (page_bytes / 8).saturating_mul(64),
        }
    }

    /// How many of `remaining` ranges the next segment should take, so that taking them greedily gives few
    /// segments and little waste: all, if slices so wide leave at most 1/4 of a page empty; else the most that
    /// put one slice more on a page. At most [`max_width`](Self::max_width), and at least 1 if that can be.
    pub fn good_width(remaining: u32, page_bytes: u32) -> u32 {
        let width = remaining.min(Self::max_width(page_bytes));
        let stride = stride_for(width);
        if width == 0 || stride <= 8 || page_bytes % stride <= page_bytes / WASTE_PART {
            return width;
        }
        // Not 0: two words or more fitted page_bytes / stride times, so one word fits once more than that.
        let narrower = page_bytes / (page_bytes / stride + 1) / 8 * 8;
        narrower.saturating_mul(8)
    }
}
