//! What is known of all ranges of a page of bounds, so that the page is read only where that does not decide.
//!
//! ```text
//! 0 least of the least keys u64 | 8 greatest of the least keys u64 | 16 least of the greatest keys u64
//! 24 greatest of the greatest keys u64 | 32 flags u64: 1 some range has NULLs, 2 all have, 4 some has values,
//! 8 all have, 16 some is open
//! ```
//!
//! An open range counts as one with NULLs and with all values. A summary is widened before
//! its page is, and narrowed after it: it never excludes what the page has.

use crate::bounds::{Bounds, BoundsTest, overlaps};

/// Size of a summary in bytes.
pub const SUMMARY_BYTES: usize = 40;

const SOME_NULLS: u64 = 1;
const ALL_NULLS: u64 = 2;
const SOME_VALUES: u64 = 4;
const ALL_VALUES: u64 = 8;
const SOME_OPEN: u64 = 16;

/// What is known of all ranges of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSummary {
    least: [u64; 2],
    greatest: [u64; 2],
    flags: u64,
}

/// What a summary says of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No range of the page matches.
    None,
    /// All ranges of the page match, and none is open.
    All,
    /// The page must be read.
    Read,
}

impl PageSummary {
    /// The summary of some ranges.
    pub fn of(all: impl IntoIterator<Item = Bounds>) -> Self {
        let mut sum = Self { least: [u64::MAX, 0], greatest: [u64::MAX, 0], flags: ALL_NULLS | ALL_VALUES };
        for bounds in all {
            let (nulls, values) = (bounds.nulls || bounds.open, bounds.has_values() || bounds.open);
            let (least, greatest) = if bounds.open { (0, u64::MAX) } else { (bounds.least, bounds.greatest) };
            sum.flags |= if nulls { SOME_NULLS } else { 0 } | if values { SOME_VALUES } else { 0 };
            sum.flags |= if bounds.open { SOME_OPEN } else { 0 };
            sum.flags &= !(if nulls { 0 } else { ALL_NULLS } | if values { 0 } else { ALL_VALUES });
            if values {
                sum.least = [sum.least[0].min(least), sum.least[1].max(least)];
                sum.greatest = [sum.greatest[0].min(greatest), sum.greatest[1].max(greatest)];
            }
        }
        sum
    }

    /// What it says of a test.
    pub fn verdict(&self, test: BoundsTest<'_>) -> Verdict {
        let has = |flag| self.flags & flag != 0;
        let by = |some: bool, all: bool| match () {
            () if !some => Verdict::None,
            () if all && !has(SOME_OPEN) => Verdict::All,
            () => Verdict::Read,
        };
        match test {
            BoundsTest::IsNull => by(has(SOME_NULLS), has(ALL_NULLS)),
            BoundsTest::IsNotNull => by(has(SOME_VALUES), has(ALL_VALUES)),
            BoundsTest::Within(spans) => {
                let some =
                    has(SOME_OPEN) || has(SOME_VALUES) && overlaps(spans, self.least[0], self.greatest[1]);
                let meets_all = |span: &(u64, u64)| span.0 <= self.greatest[0] && self.least[1] <= span.1;
                by(some, has(ALL_VALUES) && spans.iter().any(meets_all))
            }
        }
    }

    /// Whether some range is open.
    pub fn has_open(&self) -> bool {
        self.flags & SOME_OPEN != 0
    }

    /// Whether it excludes nothing that another summary does not exclude.
    pub fn covers(&self, other: &Self) -> bool {
        let may = SOME_NULLS | SOME_VALUES | SOME_OPEN;
        self.flags & may & other.flags == other.flags & may
            && self.least[0] <= other.least[0]
            && self.greatest[1] >= other.greatest[1]
    }

    /// The least and the greatest key of all ranges, open ones among them; the first is greater if there are no values.
    pub fn extremes(&self) -> (u64, u64) {
        (self.least[0], self.greatest[1])
    }

    /// The bounds of all that the ranges hold; open, if some range is.
    pub fn bounds(&self) -> Bounds {
        let (least, greatest) = self.extremes();
        let nulls = self.flags & SOME_NULLS != 0;
        Bounds { least, greatest, nulls, open: self.has_open(), widened: false }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; SUMMARY_BYTES] {
        let mut bytes = [0u8; SUMMARY_BYTES];
        let words = [self.least[0], self.least[1], self.greatest[0], self.greatest[1], self.flags];
        for (target, word) in bytes.chunks_exact_mut(8).zip(words) {
            target.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The summary with these bytes. If there are too few, one that decides nothing.
    pub fn decode(bytes: &[u8]) -> Self {
        let word = |place: usize| {
            let bytes = bytes.get(place * 8..place * 8 + 8).and_then(|b| b.try_into().ok());
            bytes.map(u64::from_le_bytes)
        };
        let all = || {
            let (least, greatest) = ([word(0)?, word(1)?], [word(2)?, word(3)?]);
            Some(Self { least, greatest, flags: word(4)? })
        };
        all().unwrap_or_else(|| Self::of([Bounds { open: true, ..Bounds::EMPTY }]))
    }
}
