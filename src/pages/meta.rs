//! Block 0: the options fixed at build, the watermark, and where the other pages are.
//!
//! The **watermark** is the first block range that was never summarized. `aminsert` reads it after its tuple is in the
//! heap ([`Progress`]). A summarizer raises it, in WAL, before it scans the heap. So a tuple whose insert saw the lower
//! watermark is on its heap page when the scan reads that page, and every later tuple goes to the delta. The watermark
//! falls only when VACUUM has truncated the table, after the segments behind the new end were retired.
//!
//! The **generation** rises after segments were taken out of the directory, and before free blocks are used again. A
//! reader that meets a page with a different owner checks whether the generation rose (then it starts over) or not
//! (then the page is damaged).
//!
//! ```text
//! 0 magic u32 | 4 hash scheme u16 | 6 columns u16 | 8 seed u64 | 16 pages per range u32 | 20 watermark u32
//! 24 directory u32 | 28 spare delta pages u32 | 32 generation u64 | 40 next segment id u64
//! 48 delta head u32 | 52 delta tail u32 | 56 delta head sequence u64 | 64 delta tail sequence u64
//! 72 per column 16 bytes: canon u16, probes u8, fingerprint bits u8 (0 = filters), bits per row u32, rate f64
//! ```

use crate::pg::{
    Damage, Rel,
    error::Read,
    page::{self, SharedPage},
    wal::{self, Logging, PageEdit},
};
use skip_filter::{HASH_SCHEME, Sizing};
use skip_segment::page::{NO_BLOCK, PageImage, PageKind, PageView, get_u16, get_u32, get_u64};

/// The meta page's block number.
pub const META_BLOCK: u32 = 0;
/// The first directory page; the build puts it right behind the meta page.
pub const FIRST_DIRECTORY_BLOCK: u32 = 1;

const MAGIC: u32 = u32::from_le_bytes(*b"SKIP");
const COLUMNS_AT: usize = 72;
const COLUMN_BYTES: usize = 16;
/// PostgreSQL's INDEX_MAX_KEYS in every supported build.
const MAX_COLUMNS: usize = 32;

/// The options of one indexed column that are fixed at build.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnMeta {
    /// The canonical form of its values: the number of a [`crate::hash::Canon`].
    pub canon: u16,
    /// Bits per distinct value and number of probes of its filters.
    pub sizing: Sizing,
    /// The target false-positive rate.
    pub rate: f64,
    /// Number of fingerprint bits of its maps; None if it has filters.
    pub map: Option<u8>,
}

/// The decoded meta page.
#[derive(Clone, Debug)]
pub struct Meta {
    pub hash_scheme: u16,
    pub seed: u64,
    /// Heap blocks per range.
    pub pages_per_range: u32,
    /// The first range that was never summarized.
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
    pub fn read(index: Rel) -> Read<Self> {
        page::check_not_empty(index)?;
        let meta = {
            let page = SharedPage::read(index, META_BLOCK);
            Self::decode(&page.view(PageKind::Meta)?)?
        };
        if meta.columns.len() != index.key_columns() {
            return Err(Damage::new(
                META_BLOCK,
                "the meta page has a different number of columns than the index",
            ));
        }
        Ok(meta)
    }

    fn decode(view: &PageView<'_>) -> Read<Self> {
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
            columns: (0..columns).map(|c| decode_column(&p[COLUMNS_AT + c * COLUMN_BYTES..])).collect(),
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
        for (c, column) in self.columns.iter().enumerate() {
            let mut bytes = [0u8; COLUMN_BYTES];
            bytes[..2].copy_from_slice(&column.canon.to_le_bytes());
            bytes[2] = column.sizing.num_probes;
            bytes[3] = column.map.unwrap_or(0);
            bytes[4..8].copy_from_slice(&column.sizing.bits_per_row.to_le_bytes());
            bytes[8..].copy_from_slice(&column.rate.to_le_bytes());
            image.put(COLUMNS_AT + c * COLUMN_BYTES, &bytes);
        }
    }

    /// The meta page as a new page.
    pub fn image(&self) -> PageImage {
        let mut image = PageImage::fresh(PageKind::Meta, 0, 0);
        self.encode(&mut image);
        image
    }

    /// Writes the meta page of a new index.
    pub fn write_new(&self, index: Rel, logging: Logging) {
        wal::write_page(index, META_BLOCK, self.image(), logging);
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

    /// Number of ranges, the last one perhaps partial, in a table of `blocks` blocks.
    pub fn ranges_in(&self, blocks: u32) -> u32 {
        blocks.div_ceil(self.pages_per_range)
    }

    /// Delta pages in use.
    pub fn delta_pages(&self) -> u64 {
        if self.delta_head == NO_BLOCK {
            0
        } else {
            self.delta_tail_sequence.saturating_sub(self.delta_head_sequence) + 1
        }
    }
}

fn check_magic(payload: &[u8]) -> Read<()> {
    if payload.len() < COLUMNS_AT || get_u32(payload, 0) != MAGIC {
        return Err(Damage::new(META_BLOCK, "this is not the meta page of a skip index"));
    }
    Ok(())
}

fn decode_column(bytes: &[u8]) -> ColumnMeta {
    ColumnMeta {
        canon: get_u16(bytes, 0),
        sizing: Sizing { num_probes: bytes[2].max(1), bits_per_row: get_u32(bytes, 4) },
        rate: f64::from_bits(get_u64(bytes, 8)),
        map: Some(bytes[3]).filter(|&bits| bits != 0),
    }
}

/// Changes the meta page under its exclusive lock, in one WAL record. `change` sees the page as it is now.
///
/// # Errors
/// Damage to the meta page.
pub fn update<R>(index: Rel, change: impl FnOnce(&mut Meta) -> R) -> Read<R> {
    page::check_not_empty(index)?;
    let mut edit = PageEdit::start(index, META_BLOCK, PageKind::Meta)?;
    let mut meta = Meta::decode(&edit.before()?)?;
    let result = change(&mut meta);
    meta.encode(edit.image());
    edit.commit();
    Ok(result)
}

/// Takes the next segment id. No id is given out twice, not even after a crash.
///
/// # Errors
/// Damage to the meta page.
pub fn take_segment_id(index: Rel) -> Read<u64> {
    update(index, |meta| {
        meta.next_segment += 1;
        meta.next_segment - 1
    })
}

/// The part of the meta page that `aminsert` needs for most tuples.
#[derive(Clone, Copy)]
pub struct Progress {
    pub watermark: u32,
    pub pages_per_range: u32,
    /// The lower half of the generation.
    pub generation: u32,
}

impl Progress {
    /// Reads watermark, range size and generation under a pin, without the page's content lock. That is enough,
    /// because the caller's tuple is on its heap page already. If a summarizer scanned that page before the tuple was
    /// there, it had stored the higher watermark before the scan, and had raised the generation for what it retired
    /// before. It released the heap page's lock, and the inserter took that lock afterwards, which makes the stores
    /// visible here. Each word is read as a whole, and never from a copy of the page.
    ///
    /// A relaxed load is enough on any processor. The summarizer stores the watermark, then releases the heap page's
    /// lock; the inserter takes that lock, then loads the watermark. Releasing and taking a lock are a release and an
    /// acquire, so the store *happens before* the load. A load never gives a value older than one whose store happened
    /// before it (coherence), and it is never moved before an acquire that precedes it. An acquire load would only
    /// order what comes after it, and the pages that the inserter reads next are read under their own locks. If the
    /// inserter had the heap page first, either value is right, because the scan sees the tuple.
    ///
    /// The page's checksum is not verified either. If the page is damaged, every query fails.
    ///
    /// # Errors
    /// Damage to the meta page; only a wrong magic number is detected.
    pub fn read(index: Rel) -> Read<Self> {
        page::peek_meta(index, |word| {
            if word(0) != MAGIC {
                return Err(Damage::new(META_BLOCK, "this is not the meta page of a skip index"));
            }
            Ok(Self { watermark: word(20), pages_per_range: word(16).max(1), generation: word(32) })
        })
    }
}
