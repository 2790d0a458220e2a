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

mod column;

use crate::pg::{
    Damage, Rel,
    error::IndexResult,
    page::{self, SharedPage},
    wal::{self, PageEdit},
};
pub use column::{ColumnMeta, MOST_PARTS, MapForm, NO_CANON, Sample, SegmentLayout, Wish};
use column::{decode_column, encode_column, encode_sample};
use skip_filter::HASH_SCHEME;
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
