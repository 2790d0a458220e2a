//! Block 0: how new segments are made, the watermark, and where the other pages are.
//!
//! The **watermark**: inserts into ranges below it go to the delta. Ranges from it on have no segments, and their rows
//! need no entries in the delta. `aminsert` reads it after its tuple is in the heap ([`super::peeked_meta`]). A
//! summarizer raises it, in WAL, before it scans the heap. So a tuple whose insert saw the lower watermark is on its
//! heap page when the scan reads that page, and every later tuple goes to the delta. The watermark falls only when
//! VACUUM has truncated the table, after the segments behind the new end were retired.
//!
//! The **generation** rises after segments were taken out of the directory, and before free blocks are used again. A
//! reader that meets a page with a different owner checks whether the generation rose (then it starts over) or not
//! (then the page is damaged).
//!
//! ```text
//! 0 magic u32 | 4 hash scheme u16 | 6 columns u16 | 8 seed u64 | 16 pages per range u32 | 20 watermark u32
//! 24 directory u32 | 28 spare delta pages u32 | 32 generation u64 | 40 next segment id u64
//! 48 delta head u32 | 52 delta tail u32 | 56 delta head sequence u64 | 64 delta tail sequence u64
//! 72 per column 16 bytes: canon u16, probes u8, fingerprint bits u8 (0 filters; not chosen yet: 252, of which bit 0
//!    says that it is a map, bit 1 that the rate was set), bits per row u16, parts u16 (0 = 1; not chosen yet: those
//!    that an option asks for, 0 none; bounds: 200), rate f64
//! 584 per column 16 bytes, of the sample that the layout was chosen by, each per page of the table (0 = no sample):
//!    rows f32, pairs with single pages f32, pairs with whole ranges f32, 0 u32
//! ```
//!
//! A **part** of a range: the maps of a column may tell apart several parts of each range, down to single pages of the
//! table. Everything else counts in whole ranges: the watermark, the directory, open stretches. Delta entries of a
//! column count in the column's parts. The number of parts is fixed before the first range is summarized.

use crate::pg::{
    Damage, Rel,
    error::IndexResult,
    options::IndexLayout,
    page::{self, SharedPage},
    wal::{self, PageEdit},
};
use skip_filter::{HASH_SCHEME, Sizing, rate_of_probes};
use skip_segment::page::{
    NO_BLOCK, PageImage, PageKind, PageView, VERSION_BOUNDS, VERSION_PARTS, get_u16, get_u32, get_u64,
};
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

/// The meta page's block number.
pub const META_BLOCK: u32 = 0;
/// The first directory page; the build puts it right behind the meta page.
pub const FIRST_DIRECTORY_BLOCK: u32 = 1;

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"SKIP");
const COLUMNS_AT: usize = 72;
const COLUMN_BYTES: usize = 16;
/// PostgreSQL's INDEX_MAX_KEYS in every supported build.
pub const MAX_COLUMNS: usize = 32;
const SAMPLES_AT: usize = COLUMNS_AT + MAX_COLUMNS * COLUMN_BYTES;
const SAMPLE_BYTES: usize = 16;
/// The least number of fingerprint bits that stands for a layout that is not chosen yet; its lowest bits are flags.
/// Real numbers are [`skip_map::coding::Coding::MOST_FINGERPRINT_BITS`] or less.
const NOT_CHOSEN: u8 = 252;
/// The number of fingerprint bits that stands for bounds.
const BOUNDS: u8 = 200;
const IS_MAP: u8 = 1;
const IS_RATE_SET: u8 = 2;

/// The canonical form of a column that no build makes keys of. Its index rules nothing out by the column.
pub const NO_CANON: u16 = 0;

/// The most parts of a range: the meta page has 16 bits for their number.
pub const MOST_PARTS: u32 = u16::MAX as u32;

/// What the segments of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentLayout {
    /// Not chosen yet, or only that it is a map: there was no complete range to choose by. The column has no segments
    /// and no delta entries; no range is summarized.
    NotChosen(Wish),
    /// A filter for each range.
    Filters,
    /// Maps.
    Map(MapForm),
    /// The least and the greatest order key of each range.
    Bounds,
}

impl SegmentLayout {
    /// The option that it comes from, or that it was chosen as. Bounds are no choice: the operator class says them.
    pub fn shown(self) -> IndexLayout {
        match self {
            Self::NotChosen(Wish { is_map: false, .. }) | Self::Bounds => IndexLayout::Auto,
            Self::Filters => IndexLayout::Filters,
            Self::NotChosen(_) | Self::Map(_) => IndexLayout::Map,
        }
    }

    /// Its name for users.
    pub fn name(self) -> &'static str {
        if self == Self::Bounds { "bounds" } else { self.shown().name() }
    }
}

/// What the options of a column say that is not chosen yet. Options that are changed later take effect at the next
/// build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Whether it has to be a map.
    pub is_map: bool,
    /// Whether its false-positive rate was set.
    pub is_rate_set: bool,
    /// Number of parts of a range, if ranges of the column were set.
    pub parts: Option<u32>,
}

/// How the maps of a column code their pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapForm {
    /// Number of bits of a fingerprint: the bits of a mixed key hash that distinguish keys.
    pub fingerprint_bits: u8,
    /// Number of parts of a range that are told apart, at least 1. It divides the number of pages of a range.
    pub parts: u32,
}

/// A sample of the table: rows and pairs per page of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub rows: f32,
    /// Pairs of a key and a page that has it.
    pub pairs_of_pages: f32,
    /// Pairs of a key and a whole range that has it.
    pub pairs_of_ranges: f32,
}

/// The options of one indexed column. They are fixed at build, but for a layout that is chosen with the first ranges,
/// and for rates: new ranges of a table that has grown get lower ones (`src/index/refine.rs`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnMeta {
    /// The canonical form of its values: the number of a [`crate::hash::Canon`], or [`NO_CANON`].
    pub canon: u16,
    /// Bits per distinct value and number of probes of new filters.
    pub sizing: Sizing,
    /// The target false-positive rate, of new filters.
    pub rate: f64,
    /// What its segments are, and how new maps code their pairs.
    pub layout: SegmentLayout,
    /// The sample by which the layout was chosen, if there was one.
    pub sample: Option<Sample>,
}

impl ColumnMeta {
    /// How new maps code pairs; None if it has no maps.
    pub fn map(&self) -> Option<MapForm> {
        match self.layout {
            SegmentLayout::Map(form) => Some(form),
            SegmentLayout::NotChosen(_) | SegmentLayout::Filters | SegmentLayout::Bounds => None,
        }
    }

    /// The target false-positive rate of filters with so many probes. Those with fewer than new ones were made when the
    /// table was smaller, for a higher rate.
    pub fn rate_of_filters(&self, num_probes: u8) -> f64 {
        let is_older = num_probes < self.sizing.num_probes;
        if is_older { self.rate.max(rate_of_probes(num_probes)) } else { self.rate }
    }

    /// Number of parts into which its segments divide a range.
    pub fn parts(&self) -> u32 {
        self.map().map_or(1, |form| form.parts)
    }
}

/// The decoded meta page.
#[derive(Clone, Debug)]
pub struct Meta {
    pub hash_scheme: u16,
    pub seed: u64,
    /// Heap blocks per range.
    pub pages_per_range: u32,
    /// Inserts into ranges below it go to the delta.
    pub watermark: u32,
    /// First directory block.
    pub directory: u32,
    /// First of the chained spare delta pages, or NO_BLOCK.
    pub spare: u32,
    pub generation: u64,
    pub next_segment: u64,
    /// First delta page, or NO_BLOCK.
    pub delta_head: u32,
    /// The delta page that takes entries (or one before it, after a crash), or NO_BLOCK.
    pub delta_tail: u32,
    pub delta_head_sequence: u64,
    pub delta_tail_sequence: u64,
    pub columns: Vec<ColumnMeta>,
}

impl Meta {
    /// The meta page of an empty index.
    pub fn new(seed: u64, pages_per_range: u32, columns: Vec<ColumnMeta>) -> Self {
        Self {
            hash_scheme: HASH_SCHEME,
            seed,
            pages_per_range,
            watermark: 0,
            directory: FIRST_DIRECTORY_BLOCK,
            spare: NO_BLOCK,
            generation: 1,
            next_segment: 1,
            delta_head: NO_BLOCK,
            delta_tail: NO_BLOCK,
            delta_head_sequence: 1,
            delta_tail_sequence: 1,
            columns,
        }
    }

    /// Reads the meta page.
    ///
    /// # Errors
    /// Damage to it.
    pub fn read(index: Rel) -> IndexResult<Self> {
        Self::read_with_checksum(index).map(|(meta, _)| meta)
    }

    /// Reads the meta page, and the checksum that it carries.
    ///
    /// # Errors
    /// Damage to it.
    pub fn read_with_checksum(index: Rel) -> IndexResult<(Self, u64)> {
        page::check_not_empty(index)?;
        let (meta, checksum) = {
            let page = SharedPage::read(index, META_BLOCK);
            (Self::decode(&page.view(PageKind::Meta)?)?, page.stored_checksum())
        };
        if meta.columns.len() != index.key_columns() {
            return Err(Damage::new(
                META_BLOCK,
                "the meta page has a different number of columns than the index",
            ));
        }
        Ok((meta, checksum))
    }

    fn decode(view: &PageView<'_>) -> IndexResult<Self> {
        let p = view.payload();
        check_magic(p)?;
        let columns = usize::from(get_u16(p, 6));
        if columns == 0 || columns > MAX_COLUMNS || p.len() < COLUMNS_AT + columns * COLUMN_BYTES {
            return Err(Damage::new(META_BLOCK, "the number of columns is invalid"));
        }
        let pages_per_range = get_u32(p, 16);
        if pages_per_range == 0 {
            return Err(Damage::new(META_BLOCK, "pages_per_range is zero"));
        }
        Ok(Self {
            hash_scheme: get_u16(p, 4),
            seed: get_u64(p, 8),
            pages_per_range,
            watermark: get_u32(p, 20),
            directory: get_u32(p, 24),
            spare: get_u32(p, 28),
            generation: get_u64(p, 32),
            next_segment: get_u64(p, 40),
            delta_head: get_u32(p, 48),
            delta_tail: get_u32(p, 52),
            delta_head_sequence: get_u64(p, 56),
            delta_tail_sequence: get_u64(p, 64),
            columns: (0..columns)
                .map(|c| decode_column(p, c, pages_per_range))
                .collect::<IndexResult<_>>()?,
        })
    }

    fn encode(&self, image: &mut PageImage) {
        image.put(0, &MAGIC.to_le_bytes());
        image.put(4, &self.hash_scheme.to_le_bytes());
        image.put(6, &(self.columns.len() as u16).to_le_bytes());
        image.put(8, &self.seed.to_le_bytes());
        image.put(16, &self.pages_per_range.to_le_bytes());
        image.put(20, &self.watermark.to_le_bytes());
        image.put(24, &self.directory.to_le_bytes());
        image.put(28, &self.spare.to_le_bytes());
        image.put(32, &self.generation.to_le_bytes());
        image.put(40, &self.next_segment.to_le_bytes());
        image.put(48, &self.delta_head.to_le_bytes());
        image.put(52, &self.delta_tail.to_le_bytes());
        image.put(56, &self.delta_head_sequence.to_le_bytes());
        image.put(64, &self.delta_tail_sequence.to_le_bytes());
        let is_new =
            |column: &ColumnMeta| column.parts() > 1 || matches!(column.layout, SegmentLayout::NotChosen(_));
        if self.columns.iter().any(is_new) {
            image.raise_version(VERSION_PARTS);
        }
        if self.columns.iter().any(|column| column.layout == SegmentLayout::Bounds) {
            image.raise_version(VERSION_BOUNDS);
        }
        for (c, column) in self.columns.iter().enumerate() {
            image.put(COLUMNS_AT + c * COLUMN_BYTES, &encode_column(column));
            if let Some(sample) = column.sample {
                image.put(SAMPLES_AT + c * SAMPLE_BYTES, &encode_sample(&sample));
            }
        }
    }

    /// The meta page as a new page.
    pub fn image(&self) -> PageImage {
        let mut image = PageImage::fresh(PageKind::Meta, 0, 0);
        self.encode(&mut image);
        image
    }

    /// Writes the meta page of a new index.
    pub fn write_new(&self, index: Rel) {
        wal::write_page(index, META_BLOCK, self.image());
    }

    /// The index, with the checksums of its pages seeded with its seed. All blocks but the meta page are read and
    /// written so.
    pub fn bind<'a>(&self, index: Rel<'a>) -> Rel<'a> {
        index.salted(self.seed)
    }

    /// Whether this build's hash scheme is that of the index. If not, the index rules nothing out.
    pub fn hashes_match(&self) -> bool {
        self.hash_scheme == HASH_SCHEME
    }

    /// Number of parts into which the segments of a column divide a range.
    pub fn parts(&self, column: u16) -> u32 {
        self.columns.get(usize::from(column)).map_or(1, ColumnMeta::parts)
    }

    /// Heap blocks per part of a range of a column.
    pub fn pages_per_part(&self, column: u16) -> u32 {
        (self.pages_per_range / self.parts(column)).max(1)
    }

    /// Number of parts of ranges of a column that a table of `blocks` blocks has.
    pub fn parts_in(&self, column: u16, blocks: u32) -> u32 {
        blocks.div_ceil(self.pages_per_part(column))
    }

    /// Number of parts of ranges of a column below the watermark.
    pub fn summarized_parts(&self, column: u16) -> f64 {
        f64::from(self.watermark) * f64::from(self.parts(column))
    }

    /// Whether the layout of a column is not chosen yet.
    pub fn is_to_choose(&self) -> bool {
        self.columns.iter().any(|column| matches!(column.layout, SegmentLayout::NotChosen(_)))
    }

    /// Number of ranges, the last one perhaps partial, in a table of `blocks` blocks.
    pub fn ranges_in(&self, blocks: u32) -> u32 {
        blocks.div_ceil(self.pages_per_range)
    }

    /// The blocks of a range, in a table of `blocks` blocks.
    pub fn blocks_of(&self, range: u32, blocks: u32) -> Range<u32> {
        let first = u64::from(range) * u64::from(self.pages_per_range);
        let within = |block: u64| block.min(blocks.into()) as u32;
        within(first)..within(first + u64::from(self.pages_per_range))
    }

    /// Whether a range is not complete in a table of `blocks` blocks.
    pub fn is_partial(&self, range: u32, blocks: u32) -> bool {
        (u64::from(range) + 1) * u64::from(self.pages_per_range) > u64::from(blocks)
    }

    /// Whether a column has filters.
    pub fn has_filters(&self) -> bool {
        self.columns.iter().any(|column| column.layout == SegmentLayout::Filters)
    }

    /// Whether pages that a lookup found recycled may have been recycled since this was read: `now` shows that segments
    /// were retired, or the delta was folded.
    pub fn may_be_recycled(&self, now: &Self) -> bool {
        self.generation != now.generation || self.delta_head_sequence != now.delta_head_sequence
    }

    /// Whether there are delta pages. They may be empty.
    pub fn has_delta(&self) -> bool {
        self.delta_head != NO_BLOCK
    }

    /// Delta pages in use.
    pub fn delta_pages(&self) -> u64 {
        if self.has_delta() {
            self.delta_tail_sequence.saturating_sub(self.delta_head_sequence) + 1
        } else {
            0
        }
    }
}

fn check_magic(payload: &[u8]) -> IndexResult<()> {
    if payload.len() < COLUMNS_AT || get_u32(payload, 0) != MAGIC {
        return Err(Damage::new(META_BLOCK, "this is not the meta page of a skip index"));
    }
    Ok(())
}

fn decode_column(payload: &[u8], c: usize, pages_per_range: u32) -> IndexResult<ColumnMeta> {
    let bytes = &payload[COLUMNS_AT + c * COLUMN_BYTES..][..COLUMN_BYTES];
    let parts = u32::from(get_u16(bytes, 6)).max(1);
    if !pages_per_range.is_multiple_of(parts) {
        return Err(Damage::new(META_BLOCK, "the number of parts of a range is invalid"));
    }
    Ok(ColumnMeta {
        canon: get_u16(bytes, 0),
        sizing: Sizing { num_probes: bytes[2].max(1), bits_per_row: get_u16(bytes, 4).into() },
        rate: f64::from_bits(get_u64(bytes, 8)),
        layout: match bytes[3] {
            0 => SegmentLayout::Filters,
            BOUNDS => SegmentLayout::Bounds,
            flags @ NOT_CHOSEN.. => SegmentLayout::NotChosen(Wish {
                is_map: flags & IS_MAP != 0,
                is_rate_set: flags & IS_RATE_SET != 0,
                parts: Some(get_u16(bytes, 6).into()).filter(|&parts| parts > 0),
            }),
            fingerprint_bits => SegmentLayout::Map(MapForm { fingerprint_bits, parts }),
        },
        sample: payload.get(SAMPLES_AT + c * SAMPLE_BYTES..).and_then(decode_sample),
    })
}

fn encode_column(column: &ColumnMeta) -> [u8; COLUMN_BYTES] {
    let mut bytes = [0u8; COLUMN_BYTES];
    // Sizing::for_rate gives fewer than 100 bits for the lowest rate that there is.
    let bits_per_row = u16::try_from(column.sizing.bits_per_row).unwrap_or(u16::MAX);
    let parts = match column.layout {
        SegmentLayout::NotChosen(wish) => wish.parts.unwrap_or(0),
        SegmentLayout::Filters | SegmentLayout::Bounds => 0,
        SegmentLayout::Map(form) if form.parts == 1 => 0,
        SegmentLayout::Map(form) => form.parts,
    };
    let parts = u16::try_from(parts).unwrap_or(0);
    bytes[..2].copy_from_slice(&column.canon.to_le_bytes());
    bytes[2] = column.sizing.num_probes;
    bytes[3] = match column.layout {
        SegmentLayout::Filters => 0,
        SegmentLayout::Bounds => BOUNDS,
        SegmentLayout::NotChosen(Wish { is_map, is_rate_set, .. }) => {
            NOT_CHOSEN + u8::from(is_map) * IS_MAP + u8::from(is_rate_set) * IS_RATE_SET
        }
        SegmentLayout::Map(form) => form.fingerprint_bits,
    };
    bytes[4..6].copy_from_slice(&bits_per_row.to_le_bytes());
    bytes[6..8].copy_from_slice(&parts.to_le_bytes());
    bytes[8..].copy_from_slice(&column.rate.to_le_bytes());
    bytes
}

/// The sample at the start of `bytes`; None if there is none, as on pages of earlier builds, whose payload ends before.
fn decode_sample(bytes: &[u8]) -> Option<Sample> {
    let bytes = bytes.get(..SAMPLE_BYTES)?;
    let number = |at| f32::from_bits(get_u32(bytes, at));
    let sample = Sample { rows: number(0), pairs_of_pages: number(4), pairs_of_ranges: number(8) };
    (sample.rows > 0.0).then_some(sample)
}

fn encode_sample(sample: &Sample) -> [u8; SAMPLE_BYTES] {
    let mut bytes = [0u8; SAMPLE_BYTES];
    for (place, number) in [sample.rows, sample.pairs_of_pages, sample.pairs_of_ranges].iter().enumerate() {
        bytes[place * 4..][..4].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// Changes the meta page under its exclusive lock, in one WAL record. `change` sees the page as it is now. What the
/// caller reads afterwards, such as the size of the table, it reads after the new page can be seen by all processes
/// ([`super::peeked_meta`]).
///
/// # Errors
/// Damage to the meta page.
pub fn update<R>(index: Rel, change: impl FnOnce(&mut Meta) -> R) -> IndexResult<R> {
    page::check_not_empty(index)?;
    let mut edit = PageEdit::start(index, META_BLOCK, PageKind::Meta)?;
    let mut meta = Meta::decode(&edit.before()?)?;
    let result = change(&mut meta);
    meta.encode(edit.image());
    edit.commit();
    fence(Ordering::SeqCst);
    Ok(result)
}

/// The generation of the index as it is now. The checksum of the page is not verified: if the generation has changed,
/// the caller reads and verifies the page.
///
/// # Errors
/// Damage to the meta page; only missing pages and a wrong magic number are detected.
pub fn generation(index: Rel) -> IndexResult<u64> {
    page::check_not_empty(index)?;
    let page = SharedPage::read(index, META_BLOCK);
    let payload = page.unchecked_payload();
    check_magic(payload)?;
    Ok(get_u64(payload, 32))
}

/// Takes the next segment id. No id is given out twice, not even after a crash.
///
/// # Errors
/// Damage to the meta page.
pub fn take_segment_id(index: Rel) -> IndexResult<u64> {
    update(index, |meta| {
        meta.next_segment += 1;
        meta.next_segment - 1
    })
}
