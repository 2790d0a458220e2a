//! Map segments: for each key the ranges that may hold it.
//!
//! A map is a *run* of the crate [`skip_map`]: the sorted numbers of all distinct pairs of a key's fingerprint and a
//! block range. Its pages have the same frame and the same checks as those of filters ([`super::segment`]). A lookup
//! reads the data page that is likely to have its key, or goes from the root fence page down to it, and reads the few
//! blocks there that may hold numbers of the key. NULL and "has a value" are keys of their own. What a pair names is a
//! part of a range, if the column's ranges are divided ([`super::meta`]), else a whole range.
//!
//! A map never changes. Pairs that come into its ranges afterwards are published as *additions*, maps of their own that
//! only add to the answer. Ranges that could not be hashed are *open stretches* of the directory, which match every
//! lookup. So the answer of a column is spread over several entries of the directory, and a reader must not see only a
//! part of a change:
//!
//! - an entry is taken out only after its replacement was published and the generation was raised;
//! - a segment is published only after its open stretches were published and the generation was raised;
//! - a reader uses what it found in a directory of several pages only if the generation did not rise meanwhile
//!   ([`super::directory::live`]).
//!
//! A reader may miss an entry because it had already passed the entry's page when the entry was published. If it also
//! misses what the entry replaces, the generation was raised while it read. A directory of one page is read at once: it
//! shows the entries as they are between two changes.
//!
//! # Key parts
//!
//! Large maps are divided by key ([`skip_map::key_part`]): the pairs of some ranges are then several maps, one for each
//! part of the keys. Each is a segment of its own, and for the keys that it has, everything above holds as if there
//! were no other keys: a range matches a key unless a map that has the key summarizes it, and a lookup of a key reads
//! only maps that have it. So the parts need not be published together. Between the first and the last one, the ranges
//! are summarized for some keys and match all others, or for the others the maps that are being merged still summarize
//! them. What is merged is retired when all of its keys are in newer maps. So a merge needs free space for one part,
//! not for a second copy of everything.
//!
//! Ranges must not stay summarized for some keys only, because nothing would find the gap: after a crash, the next
//! maintenance retires such maps ([`super::upkeep::load`]), and the table is read again.

mod lookup;
mod numbers;
mod sources;
mod write;

use super::entry::Segment;
use super::meta::{self, MapForm};
use super::miss::{Fetch, Miss};
use super::segment;
use crate::pg::{Damage, Rel, error::IndexResult, memory, settings};
pub use numbers::Numbers;
use skip_map::key_part::MOST_DEPTH;
use skip_map::{Coding, Malformed, PAGE_BYTES, RunShape, append_page, check_fence, read_page};
pub use sources::{RunNumbers, Sources};
use std::ops::Range;
pub use write::{MapWriter, NewMap, PartsWriter, add, addition};

/// The key for NULL, and [`VALUE_KEY`] for "has a value". A value whose hash is one of them makes a superfluous range
/// match, but loses none.
pub const NULL_KEY: u64 = u64::from_le_bytes(*b"NULL\0\0\0\0");
pub const VALUE_KEY: u64 = u64::from_le_bytes(*b"VALUE\0\0\0");

/// How the pairs of a stretch of `width` ranges are coded as numbers.
///
/// # Errors
/// The meta page has an invalid number of fingerprint bits, or the stretch is too wide for it.
pub fn coding(form: MapForm, width: u32) -> IndexResult<Coding> {
    let what = "a map with an invalid number of fingerprint bits was requested";
    Coding::new(form.fingerprint_bits, parts_of(form, width))
        .ok_or_else(|| Damage::new(meta::META_BLOCK, what))
}

/// Number of parts of `width` ranges. A table has fewer blocks, and so fewer parts, than `u32::MAX`, though its last
/// range may have more.
fn parts_of(form: MapForm, width: u32) -> u32 {
    width.saturating_mul(form.parts)
}

/// The depth of the key parts into which a map of `pages` pages is divided.
pub fn depth_of(form: MapForm, pages: u64) -> u8 {
    let parts = pages / u64::from(settings::key_part_pages());
    let depth = parts.checked_ilog2().unwrap_or(0) as u8;
    depth.min(MOST_DEPTH).min(form.fingerprint_bits)
}

/// A map, for reading.
pub struct Map<'a> {
    index: Rel<'a>,
    segment: Segment,
    coding: Coding,
    /// None for a map without pairs, which has no pages.
    shape: Option<RunShape>,
}

/// The numbers that the pairs of a key may have.
type Wanted = Range<u64>;

impl<'a> Map<'a> {
    /// The map that a directory entry names.
    ///
    /// # Errors
    /// The directory entry is invalid: reported as damage to the segment's first block.
    pub fn of(index: Rel<'a>, segment: &Segment) -> IndexResult<Self> {
        let impossible = || Damage::new(segment.first_block, "the directory describes an invalid map");
        let size = segment.map().ok_or_else(impossible)?;
        let coding = Coding::new(size.form.fingerprint_bits, parts_of(size.form, segment.width))
            .ok_or_else(impossible)?;
        if !segment.key_part.fits(coding) {
            return Err(impossible());
        }
        let shape = match segment.blocks {
            0 => None,
            blocks => Some(RunShape::of_pages(blocks).ok_or_else(impossible)?),
        };
        Ok(Self { index, segment: *segment, coding, shape })
    }

    /// How its pairs are coded as numbers.
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// The first part that it covers, counted from the table's first one.
    pub fn first_part(&self) -> u64 {
        self.segment.part_span().start
    }

    /// Number of pairs in the map. If it is more than the directory can store, the pairs are counted.
    ///
    /// # Errors
    /// As [`Map::look_up`].
    pub fn pairs(&self) -> Fetch<u64> {
        let known = self.segment.map().map_or(0, |size| size.pairs);
        if known < u32::MAX {
            return Ok(known.into());
        }
        self.numbers().each().try_fold(0, |count, number| number.map(|_| count + 1))
    }

    /// Number of its data pages.
    pub fn data_pages(&self) -> u32 {
        self.shape.as_ref().map_or(0, RunShape::data_pages)
    }

    /// Calls `each` with the numbers on one of its data pages, in spans.
    ///
    /// # Errors
    /// As [`Map::look_up`].
    pub fn numbers_of_page(&self, page: u32, each: impl FnMut(Range<u64>)) -> Fetch<()> {
        self.read_data(page, each)
    }

    /// Checks the fence pages against the data pages, and that the data pages ascend.
    ///
    /// # Errors
    /// The first problem that was found.
    pub fn verify(&self) -> Fetch<()> {
        let counted = self.segment.map().map_or(0, |size| size.pairs);
        let Some(shape) = &self.shape else {
            let problem = || self.damage(0, "a map without pages has pairs, as the directory says").into();
            return if counted == 0 { Ok(()) } else { Err(problem()) };
        };
        let mut firsts = Vec::with_capacity(shape.data_pages() as usize);
        let of_keys = self.segment.key_part.numbers(self.coding);
        let mut last = None;
        let mut pairs = 0u64;
        for page in 0..shape.data_pages() {
            memory::check_for_interrupts();
            let (mut first, mut is_ascending, mut is_its) = (None, true, true);
            self.read_data(page, |numbers| {
                first = first.or(Some(numbers.start));
                is_ascending &= last.is_none_or(|last| last < numbers.start);
                is_its &= of_keys.start <= numbers.start && numbers.end <= of_keys.end;
                last = Some(numbers.end.saturating_sub(1));
                pairs += numbers.end - numbers.start;
            })?;
            let Some(first) = first.filter(|_| is_ascending) else {
                return Err(self.damage(page, "the pages of a map are not in order").into());
            };
            if !is_its {
                return Err(self.damage(page, "a map has pairs of keys that it should not have").into());
            }
            firsts.push(first);
        }
        if u32::try_from(pairs).unwrap_or(u32::MAX) != counted {
            return Err(self.damage(0, "a map has another number of pairs than the directory says").into());
        }
        for page in shape.data_pages()..shape.pages() {
            memory::check_for_interrupts();
            let unfit = || self.damage(page, "a fence page of a map does not fit its pages");
            let children = shape.children(page).ok_or_else(unfit)?;
            let of = children.start as usize..children.end as usize;
            let below: Vec<Option<u64>> =
                firsts.get(of).unwrap_or_default().iter().copied().map(Some).collect();
            self.read(page, |bytes| check_fence(bytes, &below))?
                .map_err(|what| self.malformed(page, &what))?;
            firsts.push(below.first().copied().flatten().ok_or_else(unfit)?);
        }
        Ok(())
    }

    /// Calls `read` with a page, which is verified as a whole.
    fn read<R>(&self, page: u32, read: impl FnOnce(&[u8]) -> R) -> Fetch<R> {
        segment::read_part(self.index, &self.segment, page, 0..PAGE_BYTES, read)
    }

    /// Appends the numbers of a data page; false if it has spans that are too long for that.
    fn append_data(&self, page: u32, into: &mut Vec<u64>) -> Fetch<bool> {
        let read = self.read(page, |bytes| append_page(bytes, into))?;
        read.map_err(|malformed| self.malformed(page, &malformed).into())
    }

    fn read_data(&self, page: u32, each: impl FnMut(Range<u64>)) -> Fetch<()> {
        let read = self.read(page, |bytes| read_page(bytes, each))?;
        read.map_err(|malformed| self.malformed(page, &malformed).into())
    }

    fn damage(&self, page: u32, what: &str) -> Damage {
        Damage::new(self.segment.first_block + page, what)
    }

    fn malformed(&self, page: u32, what: &Malformed) -> Damage {
        Damage::new(self.segment.first_block + page, what.to_string())
    }
}

/// Numbers that cannot be coded are an error in the code that makes them. The map is then not published.
impl From<Malformed> for Damage {
    fn from(malformed: Malformed) -> Self {
        Damage::new(meta::META_BLOCK, malformed.to_string())
    }
}

impl From<Malformed> for Miss {
    fn from(malformed: Malformed) -> Self {
        Miss::Damage(malformed.into())
    }
}
