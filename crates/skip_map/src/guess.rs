//! Guesses the page on which a lookup starts, so that it need not read the fence pages above it.
//!
//! Fingerprints are bits of mixed hashes, so the numbers of a run are spread evenly over the interval that they may be
//! in. The place of a number in this interval tells on which page it is likely to be. What is on the page tells whether
//! it is ([`Head::side_of`]); if not, the page beside it may be tried, and then the lookup starts from the root.
//!
//! Invariant: pages ascend, so a lookup may start on a page if all pages before it end below the lookup's first number.
//! That is so if the page does not begin above that number, if it is the first page, or if the page before it was seen
//! to end below. A wrong guess costs reads, but never an answer. It may read a damaged page that the lookup would not
//! have read otherwise.

use crate::block::{BlockForm, MOST_NUMBERS};
use crate::page::{DIRECTORY_BYTES, Head, ROOM};
use crate::shape::{FAN_OUT, RunShape};
use std::ops::Range;

/// Data pages are guessed if the standard deviation of the place of a number is at most this number of pages. One
/// number in ten is then on another page than the likely one, nearly always on a page beside it. Above that, the fence
/// page is guessed: it is likely to be cached, but one of many data pages is not.
const MOST_DEVIATION: f64 = 0.15;
/// Numbers are evenly spread if they fill as many pages as [`EvenSpread::pages`] says: within a fiftieth, and a page.
/// Keys with a hundred ranges or more have numbers close together, which fill fewer.
const MOST_DIFFERENCE: f64 = 0.02;

/// How the numbers of a run are thought to be spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvenSpread {
    /// The interval that they may be in.
    pub of: Range<u64>,
    /// How many there are, but for those of keys that have a block of their own.
    pub numbers: u64,
}

impl EvenSpread {
    /// Data pages that so many evenly spread numbers fill. The last page of a run is seldom full, so this tells what
    /// share of the numbers is on a page better than the number of pages does.
    fn pages(&self) -> f64 {
        let numbers = self.numbers.max(1) as f64;
        let span = self.width() / numbers * MOST_NUMBERS as f64;
        let block = DIRECTORY_BYTES + BlockForm::smallest(MOST_NUMBERS, span as u64).1;
        numbers / MOST_NUMBERS as f64 * block as f64 / ROOM as f64
    }

    fn width(&self) -> f64 {
        self.of.end.saturating_sub(self.of.start).max(1) as f64
    }
}

/// Where a lookup starts, as seen from a data page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// On the page.
    Here,
    /// On a page before it, or between them.
    Before {
        /// The distance is at most the width of the page in numbers.
        is_near: bool,
    },
    /// On a page behind it, or between them.
    Behind {
        /// The distance is at most the width of the page in numbers.
        is_near: bool,
    },
}

impl Head<'_> {
    /// On which side of a guessed page a lookup from this number on starts.
    #[inline]
    pub fn side_of(&self, number: u64) -> Side {
        let width = self.last() - self.first();
        if number < self.first() {
            Side::Before { is_near: self.first() - number <= width }
        } else if number > self.last() {
            Side::Behind { is_near: number - self.last() <= width }
        } else {
            Side::Here
        }
    }
}

/// Where a lookup starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// On the page that was looked at last.
    Here(u32),
    /// On this page, which is to be read from its start.
    At(u32),
    /// Nowhere: all numbers are below.
    Nowhere,
    /// The guess was wrong: at the root.
    Root,
}

/// A guess of the data page on which a lookup starts.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    data_pages: u32,
    page: u32,
}

impl Guess {
    /// The guess that it is this data page of a run.
    pub fn new(shape: &RunShape, page: u32) -> Self {
        Self { data_pages: shape.data_pages(), page }
    }

    /// Finds out where the lookup starts. `look` tells on which side of a page that is ([`Head::side_of`]). It is
    /// called once or twice.
    ///
    /// # Errors
    /// An error of `look`.
    pub fn find<E>(self, mut look: impl FnMut(u32) -> Result<Side, E>) -> Result<Start, E> {
        let (page, last) = (self.page, self.data_pages.saturating_sub(1));
        let (beside, is_near) = match look(page)? {
            Side::Here => return Ok(Start::Here(page)),
            Side::Before { .. } if page == 0 => return Ok(Start::At(0)),
            Side::Behind { .. } if page >= last => return Ok(Start::Nowhere),
            Side::Before { is_near } => (page - 1, is_near),
            Side::Behind { is_near } => (page + 1, is_near),
        };
        if !is_near {
            return Ok(Start::Root);
        }
        Ok(match look(beside)? {
            Side::Here => Start::Here(beside),
            // Between the two pages: no number is there, and those that follow are on the second page.
            Side::Behind { .. } if beside < page => Start::At(page),
            Side::Before { .. } if beside > page => Start::At(beside),
            Side::Before { .. } if beside == 0 => Start::At(0),
            Side::Behind { .. } if beside >= last => Start::Nowhere,
            Side::Before { .. } | Side::Behind { .. } => Start::Root,
        })
    }
}

impl RunShape {
    /// The level on which a lookup may start with a guess: 0 for data pages, 1 for the fence pages above them, and so
    /// on. None if that is the level of the root, where nothing is to be guessed, or if the numbers are not evenly
    /// spread.
    pub fn guess_level(&self, spread: &EvenSpread) -> Option<u32> {
        let data_pages = f64::from(self.data_pages());
        // The last page is half full on average.
        let difference = (spread.pages() - (data_pages - 0.5)).abs();
        let is_even = difference <= data_pages * MOST_DIFFERENCE + 1.0;
        self.guess_level_of(spread.numbers).filter(|_| is_even)
    }

    /// As [`RunShape::guess_level`], of so many evenly spread numbers.
    ///
    /// Of `n` such numbers, a share `p` is expected to be below a given one. The standard deviation of how many are is
    /// `sqrt(n p (1 - p))`, at most `sqrt(n) / 2`. If each key has `k` of them, it is `sqrt(k)` times as much.
    pub fn guess_level_of(&self, numbers: u64) -> Option<u32> {
        let mut deviation = f64::from(self.data_pages()) / (2.0 * (numbers.max(1) as f64).sqrt());
        let mut level = 0;
        while deviation > MOST_DEVIATION {
            (level, deviation) = (level + 1, deviation / FAN_OUT as f64);
        }
        (level < self.levels()).then_some(level)
    }

    /// The page of a level that is likely to have a number, or the entry that leads to it. None if the run has no such
    /// level.
    pub fn likely_page(&self, level: u32, spread: &EvenSpread, number: u64) -> Option<u32> {
        let level_pages = match level.checked_sub(1) {
            None => 0..u64::from(self.data_pages()),
            Some(above) => self.fence_levels().nth(above as usize)?.1,
        };
        let share = number.saturating_sub(spread.of.start) as f64 / spread.width();
        // All data pages but the last one are full.
        let full = f64::from(self.data_pages().checked_sub(1)?);
        let data_page = (share * spread.pages().clamp(full, full + 1.0)) as u64;
        let page = level_pages.start + data_page / FAN_OUT.saturating_pow(level);
        u32::try_from(page.min(level_pages.end.checked_sub(1)?)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likely_pages_are_of_their_level() {
        let spread = EvenSpread { of: 1000..5000, numbers: 100 };
        for data_pages in [0, 1, 2, 1012, 1013, 2025, 3_000_000] {
            let shape = RunShape::of_data_pages(data_pages);
            for level in 0..=shape.levels() {
                let pages: Vec<Option<u32>> = [0, 1000, 1001, 3000, 4999, 5000, u64::MAX]
                    .iter()
                    .map(|&number| shape.likely_page(level, &spread, number))
                    .collect();
                assert!(pages.is_sorted(), "{data_pages} {level} {pages:?}");
                assert!(pages.iter().flatten().all(|&page| shape.is_fence(page) == (level > 0)));
                assert_eq!(pages[0].is_none(), data_pages == 0);
                if level == shape.levels() {
                    assert!(pages.iter().all(|&page| page == shape.root()), "{data_pages} {pages:?}");
                }
            }
            assert_eq!(shape.likely_page(shape.levels() + 1, &spread, 3000), None);
            let nothing = EvenSpread { of: 7..7, numbers: 0 };
            assert_eq!(shape.likely_page(0, &nothing, 7).is_none(), data_pages == 0);
        }
    }

    #[test]
    fn large_runs_are_guessed_on_a_higher_level() {
        // 2,660 numbers a page: 44 pages are a usual part of a large map, 7,300 those of 20 million rows.
        let of = |data_pages: u32, numbers_of_page: u64| {
            let numbers = numbers_of_page * u64::from(data_pages);
            let spread = EvenSpread { of: 0..numbers << 22, numbers };
            let even = spread.pages() / f64::from(data_pages);
            (RunShape::of_data_pages(data_pages).guess_level(&spread), even)
        };
        let levels = [0, 1, 44, 200, 1000, 7300, 370_000].map(|pages| {
            let (level, even) = of(pages, 2660);
            assert!(pages == 0 || (even - 1.0).abs() < 0.02, "{pages} {even}");
            level
        });
        assert_eq!(levels, [None, None, Some(0), Some(0), None, Some(1), Some(1)]);
        // Numbers that fill fewer pages are not evenly spread.
        assert_eq!([2800, 25_000, 2500].map(|numbers_of_page| of(100, numbers_of_page).0), [None; 3]);
    }

    #[test]
    fn the_pages_of_spread_numbers_are_known() {
        for (numbers, width) in
            [(12_000u64, 1000u64 << 32), (120_000, 7777 << 28), (300_000, 100 << 22), (7000, 1 << 63)]
        {
            let mut last = 0;
            let mut writer = crate::RunWriter::new();
            let mut state = 1u64;
            let mut spread: Vec<u64> = (0..numbers)
                .map(|_| {
                    state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    ((u128::from(crate::coding::mix(state)) * u128::from(width)) >> 64) as u64
                })
                .collect();
            spread.sort_unstable();
            let mut sink = |page: &crate::Page| {
                last = crate::Head::parse(page).map_or(last, |head| head.first());
                Ok::<(), crate::Malformed>(())
            };
            writer.push_all(&spread, &mut sink).unwrap();
            let pages = writer.finish(&mut sink).unwrap().shape.data_pages();
            let on_full_pages = spread.partition_point(|&number| number < last);
            let expected = f64::from(pages - 1) * numbers as f64 / on_full_pages as f64;
            let of_spread = EvenSpread { of: 0..width, numbers }.pages();
            assert!((of_spread / expected - 1.0).abs() < 0.01, "{of_spread} {expected}");
        }
    }

    #[test]
    fn a_guess_tries_one_page_beside() {
        let shape = RunShape::of_data_pages(10);
        let (before, behind) = (|is_near| Side::Before { is_near }, |is_near| Side::Behind { is_near });
        for (page, sides, start) in [
            (5, vec![Side::Here], Start::Here(5)),
            (5, vec![before(true), Side::Here], Start::Here(4)),
            (5, vec![behind(true), Side::Here], Start::Here(6)),
            (5, vec![before(false)], Start::Root),
            (5, vec![behind(false)], Start::Root),
            (5, vec![before(true), before(true)], Start::Root),
            (5, vec![behind(true), behind(true)], Start::Root),
            (5, vec![before(true), behind(false)], Start::At(5)),
            (5, vec![behind(true), before(false)], Start::At(6)),
            (0, vec![before(false)], Start::At(0)),
            (9, vec![behind(false)], Start::Nowhere),
            (1, vec![before(true), before(false)], Start::At(0)),
            (8, vec![behind(true), behind(false)], Start::Nowhere),
        ] {
            let mut looks = vec![];
            let mut answers = sides.iter();
            let found = Guess::new(&shape, page).find(|page| {
                looks.push(page);
                answers.next().copied().ok_or(())
            });
            assert_eq!(found, Ok(start), "{page} {sides:?}");
            let beside =
                if matches!(sides[0], Side::Before { .. }) { page.wrapping_sub(1) } else { page + 1 };
            assert_eq!(looks, [page, beside][..sides.len()]);
        }
    }
}
