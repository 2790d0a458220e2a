//! What the bytes of an index page mean, whatever it holds: header, payload, special space, checksum.
//!
//! Every page is a standard PostgreSQL page of 8192 bytes, little-endian throughout:
//!
//! ```text
//! 0      page header (24 bytes, PostgreSQL's; pd_lower marks the end of the payload)
//! 24     payload, up to 8144 bytes; what lies above pd_lower is zero
//! 8168   special space (24 bytes): checksum u64, owner u64, place u32, format version u16, kind u16
//! ```
//!
//! `owner` and `place` say what the page belongs to: a segment's id and the page's place in it, a delta
//! page's sequence number. A reader that finds another owner than it came for has met a recycled page.
//!
//! The checksum (XXH3, seeded with the block number and the index's own seed) covers the payload and the special space.
//! It is checked on every read: without it a bit that flips from 1 to 0 in a slice would lose rows silently on servers
//! without data checksums.
//!
//! A lookup needs one slice of a page, a quarter of it or less. So a segment page of format version 2 has its payload
//! checked in quarters, and a reader checks only the quarters it uses:
//!
//! ```text
//! 24     slices, 8128 bytes in four quarters of 2032 bytes
//! 8152   quarter checks, 4 x u32: the lower half of the XXH3 of each quarter
//! 8168   special space; the checksum covers pd_lower, the quarter checks and the special space
//! ```
//!
//! All other pages, and segment pages of earlier builds, have one checksum over everything. That is version 1; meta
//! pages have version 3 if they need what earlier builds do not know, or 5 if they have columns with bounds.
//!
//! The layout is frozen by golden-bytes tests: a kind's version changes whenever a byte changes its meaning.

use skip_filter::hash::checksum;
use std::ops::Range;

/// Size of a page in bytes; pg_skip supports servers with PostgreSQL's default block size only.
pub const PAGE: usize = 8192;
/// First byte of the payload: the size of PostgreSQL's page header.
pub const PAYLOAD_START: usize = 24;
/// Size of the special space in bytes.
pub const SPECIAL: usize = 24;
/// End of the payload, start of the special space.
pub const PAYLOAD_END: usize = PAGE - SPECIAL;
/// Payload bytes of a segment page: the multiple of 64 that leaves whole words for slices.
pub const SLICE_BYTES: u32 = 8128;
/// Format version of pages with one checksum over all of the payload.
pub const VERSION_WHOLE: u16 = 1;
/// Format version of segment pages whose payload is checked in quarters.
pub const VERSION_QUARTERS: u16 = 2;
/// Format version of meta pages with columns whose ranges are divided, or whose layout is not chosen yet. Earlier
/// builds would take parts of ranges for ranges.
pub const VERSION_PARTS: u16 = 3;
/// Format version of directory pages with segments of a part of the keys. Earlier builds would take them for segments
/// of another column.
pub const VERSION_KEY_PARTS: u16 = 4;
/// Format version of meta pages with columns that have bounds, and of directory pages with segments of bounds. Earlier
/// builds would take them for something else.
pub const VERSION_BOUNDS: u16 = 5;
/// Payload bytes that one quarter check covers.
pub const QUARTER: usize = SLICE_BYTES as usize / QUARTERS;
/// "No block": PostgreSQL's InvalidBlockNumber.
pub const NO_BLOCK: u32 = u32::MAX;

/// Offsets in PostgreSQL's page header (PageHeaderData).
const PD_LOWER: usize = 12;
const PD_SPECIAL: usize = 16;
/// A slice of 16,256 ranges, four on a page, is then exactly one quarter; and four checks of 4 bytes fit behind the
/// slices.
const QUARTERS: usize = 4;
const QUARTER_CHECKS: usize = PAYLOAD_START + SLICE_BYTES as usize;
const SPECIAL_OWNER: usize = PAYLOAD_END + 8;
const SPECIAL_PLACE: usize = PAYLOAD_END + 16;
const SPECIAL_VERSION: usize = PAYLOAD_END + 20;
const SPECIAL_KIND: usize = PAYLOAD_END + 22;

const _: () = assert!(PAYLOAD_START + SLICE_BYTES as usize <= PAYLOAD_END);
const _: () = assert!(SLICE_BYTES.is_multiple_of(64));
const _: () = assert!(PAYLOAD_END.is_multiple_of(8));
const _: () = assert!(SPECIAL_KIND + 2 == PAGE);
const _: () =
    assert!(QUARTER_CHECKS + 4 * QUARTERS == PAYLOAD_END && QUARTER * QUARTERS == SLICE_BYTES as usize);

/// What a page holds. The values lie in the last two bytes of the page, where tools look for a page id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum PageKind {
    /// Block 0.
    Meta = 0xFA01,
    /// Live segments and free extents.
    Directory = 0xFA02,
    /// Slices of one segment.
    Segment = 0xFA03,
    /// Entries for tuples that came into summarized ranges.
    Delta = 0xFA04,
    /// A delta page that was emptied and waits to be used again.
    Spare = 0xFA05,
}

/// A page's bytes.
pub type PageBytes = [u8; PAGE];

/// Reads a little-endian u16; out-of-range offsets read 0 (callers use constant offsets inside the page).
pub fn get_u16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

/// Reads a little-endian u32, as [`get_u16`].
pub fn get_u32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Reads a little-endian u64, as [`get_u16`].
pub fn get_u64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The checksum that page `block` with these bytes should carry in the index with this seed (0 for the meta
/// page, which holds it). Of a page with quarter checks, it covers the checks instead of the slices.
pub fn page_checksum(bytes: &PageBytes, block: u32, salt: u64) -> u64 {
    let lower = usize::from(get_u16(bytes, PD_LOWER)).clamp(PAYLOAD_START, PAYLOAD_END);
    let from = if has_quarters(bytes) { QUARTER_CHECKS.min(lower) } else { PAYLOAD_START };
    let payload = checksum(&bytes[from..lower], u64::from(block) ^ salt);
    checksum(&bytes[SPECIAL_OWNER..], payload ^ lower as u64)
}

/// Whether a page is a segment page with quarter checks.
fn has_quarters(bytes: &PageBytes) -> bool {
    get_u16(bytes, SPECIAL_VERSION) == VERSION_QUARTERS
}

/// What quarter `number` of page `block` should carry as its check. No two quarters of an index hash alike: the number
/// goes into the seed's upper byte, which a block number leaves alone.
fn quarter_check(bytes: &PageBytes, number: usize, block: u32, salt: u64) -> u32 {
    let quarter = &bytes[PAYLOAD_START + number * QUARTER..][..QUARTER];
    checksum(quarter, u64::from(block) ^ salt ^ (number as u64 + 1) << 56) as u32
}

/// The checksum that a page carries.
pub fn stored_checksum(bytes: &PageBytes) -> u64 {
    get_u64(bytes, PAYLOAD_END)
}

/// A page whose header, kind, version and checksum have been checked.
#[derive(Clone, Copy)]
pub struct PageView<'a> {
    bytes: &'a PageBytes,
    lower: usize,
}

impl<'a> PageView<'a> {
    /// Checks everything that can be checked without knowing whose page it should be.
    ///
    /// # Errors
    /// What is wrong, as the text of an error message.
    pub fn check(bytes: &'a PageBytes, block: u32, salt: u64) -> Result<Self, &'static str> {
        Self::check_part(bytes, block, salt, 0..SLICE_BYTES as usize)
    }

    /// As [`PageView::check`], but of a page with quarter checks only the quarters that hold these bytes of the
    /// payload: what the caller reads is what is checked. Header, special space and quarter checks are always checked.
    ///
    /// # Errors
    /// As [`PageView::check`].
    pub fn check_part(
        bytes: &'a PageBytes,
        block: u32,
        salt: u64,
        part: Range<usize>,
    ) -> Result<Self, &'static str> {
        let view = Self::check_header(bytes)?;
        if stored_checksum(bytes) != page_checksum(bytes, block, salt) {
            return Err("the page's checksum does not match its contents");
        }
        if has_quarters(bytes) {
            for number in part.start / QUARTER..part.end.div_ceil(QUARTER).min(QUARTERS) {
                let check = get_u32(bytes, QUARTER_CHECKS + 4 * number);
                if check != quarter_check(bytes, number, block, salt) {
                    return Err("the checksum of a part of the page does not match its contents");
                }
            }
        }
        Ok(view)
    }

    /// Places in a page, a cache line apart, that [`PageView::check_part`] of these payload bytes reads besides the
    /// header: for asking memory for them ahead.
    pub fn bytes_checked(part: Range<usize>) -> impl Iterator<Item = usize> {
        const LINE: usize = 64;
        let from = PAYLOAD_START + part.start / QUARTER * QUARTER;
        let end = PAYLOAD_START + part.end.div_ceil(QUARTER) * QUARTER;
        (from..end.min(QUARTER_CHECKS)).step_by(LINE).chain([QUARTER_CHECKS, PAGE - 1])
    }

    /// The part of [`PageView::check`] that needs no checksum.
    fn check_header(bytes: &'a PageBytes) -> Result<Self, &'static str> {
        let lower = usize::from(get_u16(bytes, PD_LOWER));
        if get_u16(bytes, PD_SPECIAL) == 0 && lower == 0 {
            return Err("the page is empty");
        }
        if usize::from(get_u16(bytes, PD_SPECIAL)) != PAYLOAD_END
            || !(PAYLOAD_START..=PAYLOAD_END).contains(&lower)
        {
            return Err("the page header is damaged");
        }
        let is_of = |kind: PageKind| get_u16(bytes, SPECIAL_KIND) == kind as u16;
        match get_u16(bytes, SPECIAL_VERSION) {
            VERSION_WHOLE => {}
            VERSION_QUARTERS if is_of(PageKind::Segment) && lower == PAYLOAD_END => {}
            VERSION_PARTS if is_of(PageKind::Meta) => {}
            VERSION_KEY_PARTS if is_of(PageKind::Directory) => {}
            VERSION_BOUNDS if is_of(PageKind::Meta) || is_of(PageKind::Directory) => {}
            _ => return Err("the page has an unknown format version"),
        }
        Ok(Self { bytes, lower })
    }

    /// As [`PageView::check`], and the page is of this kind.
    ///
    /// # Errors
    /// As [`PageView::check`], or that the page is of another kind.
    pub fn check_kind(
        bytes: &'a PageBytes,
        block: u32,
        salt: u64,
        kind: PageKind,
    ) -> Result<Self, &'static str> {
        let view = Self::check(bytes, block, salt)?;
        if view.is(kind) { Ok(view) } else { Err("the page is not of the expected kind") }
    }

    /// Whether the page is of this kind.
    pub fn is(&self, kind: PageKind) -> bool {
        get_u16(self.bytes, SPECIAL_KIND) == kind as u16
    }

    /// The id of what the page belongs to.
    pub fn owner(&self) -> u64 {
        get_u64(self.bytes, SPECIAL_OWNER)
    }

    /// The page's place in what it belongs to.
    pub fn place(&self) -> u32 {
        get_u32(self.bytes, SPECIAL_PLACE)
    }

    /// The payload up to pd_lower.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[PAYLOAD_START..self.lower]
    }
}

/// A page being made or changed in local memory; remembers which bytes were touched.
pub struct PageImage {
    bytes: Box<PageBytes>,
    spans: Vec<(u16, u16)>,
}

impl PageImage {
    /// A fresh page of this kind with an empty payload; that of a segment page is zeros to its end.
    pub fn fresh(kind: PageKind, owner: u64, place: u32) -> Self {
        let mut image = Self { bytes: Box::new([0; PAGE]), spans: Vec::new() };
        image.write(PD_LOWER, &(PAYLOAD_START as u16).to_le_bytes());
        image.write(PD_LOWER + 2, &(PAYLOAD_END as u16).to_le_bytes());
        image.write(PD_SPECIAL, &(PAYLOAD_END as u16).to_le_bytes());
        // Page size and layout version 4, as PageInit sets them.
        image.write(PD_SPECIAL + 2, &(PAGE as u16 | 4).to_le_bytes());
        image.write(SPECIAL_OWNER, &owner.to_le_bytes());
        image.write(SPECIAL_PLACE, &place.to_le_bytes());
        image.write(SPECIAL_KIND, &(kind as u16).to_le_bytes());
        let version = if kind == PageKind::Segment { VERSION_QUARTERS } else { VERSION_WHOLE };
        image.write(SPECIAL_VERSION, &version.to_le_bytes());
        if kind == PageKind::Segment {
            image.payload_mut(PAYLOAD_END - PAYLOAD_START); // the quarter checks lie at its end
        }
        image
    }

    /// A copy of a page that exists, to be changed.
    pub fn copy_of(bytes: &PageBytes) -> Self {
        Self { bytes: Box::new(*bytes), spans: Vec::with_capacity(4) }
    }

    /// Writes payload bytes at `at` (0 is the first payload byte) and raises pd_lower over them.
    /// What does not fit the payload is cut off.
    pub fn put(&mut self, at: usize, data: &[u8]) {
        let from = (PAYLOAD_START + at).min(PAYLOAD_END);
        let data = &data[..data.len().min(PAYLOAD_END - from)];
        self.write(from, data);
        let end = from + data.len();
        if end > usize::from(get_u16(&self.bytes[..], PD_LOWER)) {
            self.write(PD_LOWER, &(end as u16).to_le_bytes());
        }
    }

    /// Makes this a page of another format version.
    pub fn set_version(&mut self, version: u16) {
        if get_u16(&self.bytes[..], SPECIAL_VERSION) != version {
            self.write(SPECIAL_VERSION, &version.to_le_bytes());
        }
    }

    /// Makes this a page of a later format version, unless it is one.
    pub fn raise_version(&mut self, version: u16) {
        if get_u16(&self.bytes[..], SPECIAL_VERSION) < version {
            self.set_version(version);
        }
    }

    /// The payload area of `len` bytes for filling in place; raises pd_lower over it.
    pub fn payload_mut(&mut self, len: usize) -> &mut [u8] {
        let end = (PAYLOAD_START + len).min(PAYLOAD_END);
        if end > usize::from(get_u16(&self.bytes[..], PD_LOWER)) {
            self.write(PD_LOWER, &(end as u16).to_le_bytes());
        }
        self.spans.push((PAYLOAD_START as u16, (end - PAYLOAD_START) as u16));
        &mut self.bytes[PAYLOAD_START..end]
    }

    /// Sets or clears bits in one payload byte.
    pub fn change_byte(&mut self, at: usize, change: impl FnOnce(u8) -> u8) {
        if let Some(&old) = self.bytes.get(PAYLOAD_START + at) {
            let new = change(old);
            if new != old {
                self.put(at, &[new]);
            }
        }
    }

    /// Whether anything was changed.
    pub fn is_changed(&self) -> bool {
        !self.spans.is_empty()
    }

    /// Sets the checksum for page `block` and hands out the page with the changed spans (offset, length),
    /// sorted and merged.
    pub fn seal(mut self, block: u32, salt: u64) -> (Box<PageBytes>, Vec<(u16, u16)>) {
        if has_quarters(&self.bytes) {
            for number in 0..QUARTERS {
                let (at, check) =
                    (QUARTER_CHECKS + 4 * number, quarter_check(&self.bytes, number, block, salt));
                if get_u32(&self.bytes[..], at) != check {
                    self.write(at, &check.to_le_bytes());
                }
            }
        }
        let sum = page_checksum(&self.bytes, block, salt);
        self.write(PAYLOAD_END, &sum.to_le_bytes());
        self.spans.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::with_capacity(self.spans.len());
        for (at, len) in self.spans {
            match merged.last_mut() {
                // A gap of up to 4 bytes costs less than another fragment header.
                Some((from, have)) if at <= *from + *have + 4 => *have = (*have).max(at + len - *from),
                _ => merged.push((at, len)),
            }
        }
        (self.bytes, merged)
    }

    fn write(&mut self, at: usize, data: &[u8]) {
        self.bytes[at..at + data.len()].copy_from_slice(data);
        self.spans.push((at as u16, data.len() as u16));
    }
}
