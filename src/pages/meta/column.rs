//! A column on the meta page: what its segments are, and how new ones are made.
//!
//! The head of [`super`] shows where its bytes are.

use super::{COLUMN_BYTES, COLUMNS_AT, META_BLOCK, SAMPLE_BYTES, SAMPLES_AT};
use crate::pg::{Damage, error::IndexResult, options::IndexLayout};
use skip_filter::{Sizing, rate_of_probes};
use skip_segment::page::{get_u16, get_u32, get_u64};

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

/// Reads column `c` from the payload of the meta page.
///
/// # Errors
/// Damage: the number of parts does not divide a range.
pub(super) fn decode_column(payload: &[u8], c: usize, pages_per_range: u32) -> IndexResult<ColumnMeta> {
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

/// The bytes of a column, without its sample.
pub(super) fn encode_column(column: &ColumnMeta) -> [u8; COLUMN_BYTES] {
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

/// The bytes of a sample.
pub(super) fn encode_sample(sample: &Sample) -> [u8; SAMPLE_BYTES] {
    let mut bytes = [0u8; SAMPLE_BYTES];
    for (place, number) in [sample.rows, sample.pairs_of_pages, sample.pairs_of_ranges].iter().enumerate() {
        bytes[place * 4..][..4].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}
