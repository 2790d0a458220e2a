//! Maps as the sources of a merge, or of another pass over their sorted numbers.
//!
//! Maps of the same ranges, each of another part of the keys, are one source: their numbers follow each other. So the
//! number of sources does not depend on how finely maps are divided.

use super::{Map, Numbers};
use crate::pages::entry::Segment;
use crate::pages::miss::{Fetch, Miss};
use crate::pg::{Rel, error::IndexResult};
use skip_map::key_part::KeyPart;
use skip_map::{Coding, MergeSource, NumberSource};
use std::ops::Range;

/// Maps that are read in one pass.
pub struct Sources<'a> {
    runs: Vec<Vec<Map<'a>>>,
}

impl<'a> Sources<'a> {
    /// Maps of one column.
    ///
    /// # Errors
    /// The directory describes an invalid map.
    pub fn of<'s>(index: Rel<'a>, segments: impl IntoIterator<Item = &'s Segment>) -> IndexResult<Self> {
        let mut segments: Vec<Segment> = segments.into_iter().copied().collect();
        let place = |s: &Segment| (s.summarizes(), s.first_range, s.width);
        segments.sort_unstable_by_key(|s| (place(s), s.key_part.depth(), s.key_part, s.id));
        let follows = |one: &Segment, next: &Segment| {
            place(one) == place(next)
                && one.key_part.depth() == next.key_part.depth()
                && one.key_part < next.key_part
        };
        let run = |segments: &[Segment]| {
            segments.iter().map(|s| Map::of(index, s)).collect::<IndexResult<Vec<_>>>()
        };
        Ok(Self { runs: segments.chunk_by(follows).map(run).collect::<IndexResult<_>>()? })
    }

    /// The sources of a merge: for each, its pairs of some keys. `starts` gives the first number to be read of a source
    /// with a coding.
    pub fn of_merge(
        &self,
        keys: KeyPart,
        starts: impl Fn(Coding) -> u64,
    ) -> Vec<MergeSource<RunNumbers<'_, 'a>>> {
        let source = |run: &'_ Vec<Map<'a>>| {
            let first = run.first()?;
            let coding = first.coding();
            Some((coding, first.first_part() as u32, starts(coding).max(keys.numbers(coding).start)))
        };
        let all = self.runs.iter().filter_map(|run| Some((run, source(run)?)));
        all.map(|(run, (coding, first_range, start))| MergeSource {
            coding,
            first_range,
            numbers: RunNumbers::new(run, start..keys.numbers(coding).end),
        })
        .collect()
    }

    /// Number of blocks of all maps that have pairs of some keys, about.
    ///
    /// # Errors
    /// As [`Sources::most_pairs`].
    pub fn blocks(&self, keys: KeyPart) -> Fetch<u32> {
        let of = |map: &Map<'a>| map.pages_within(keys.numbers(map.coding()));
        self.runs.iter().flatten().map(of).try_fold(0u32, |sum, pages| Ok(sum.saturating_add(pages?)))
    }

    /// A bound of the number of pairs of some keys in all maps.
    ///
    /// # Errors
    /// Damage, or a page that does not belong to its segment any more.
    pub fn most_pairs(&self, keys: KeyPart) -> Fetch<u64> {
        let of = |map: &Map<'a>| map.most_pairs_within(keys.numbers(map.coding()));
        self.runs.iter().flatten().map(of).try_fold(0u64, |sum, pairs| Ok(sum.saturating_add(pairs?)))
    }
}

/// The numbers, within an interval, of maps whose numbers follow each other.
pub struct RunNumbers<'m, 'a> {
    rest: std::slice::Iter<'m, Map<'a>>,
    within: Range<u64>,
    current: Option<Numbers<'m, 'a>>,
}

impl<'m, 'a> RunNumbers<'m, 'a> {
    fn new(run: &'m [Map<'a>], within: Range<u64>) -> Self {
        Self { rest: run.iter(), within, current: None }
    }

    fn read_on(&mut self, into: &mut Vec<u64>) -> Fetch<()> {
        let before = into.len();
        loop {
            if let Some(current) = &mut self.current {
                current.read(into)?;
                if into.len() > before {
                    return Ok(());
                }
            }
            let Some(next) = self.rest.next() else { return Ok(()) };
            self.current = None;
            self.current = Some(next.numbers_within(self.within.clone())?);
        }
    }
}

impl NumberSource for RunNumbers<'_, '_> {
    type Error = Miss;

    fn read(&mut self, into: &mut Vec<u64>) -> Fetch<()> {
        let result = self.read_on(into);
        if result.is_err() {
            (self.rest, self.current) = ([].iter(), None);
        }
        result
    }
}
