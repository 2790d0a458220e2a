//! Reads a run along with ascending pairs, and tells which of them it has.
//!
//! The run may have fingerprints of another length than the pairs. The shorter of two fingerprints of a key is the
//! beginning of the longer one, so pairs are compared by as many bits as both have. If that is all of them, numbers
//! ascend together, and none is kept. Otherwise several fingerprints, each with its own ascending ranges, begin with
//! the same bits. The ranges of all of these are kept, as spans, until the next beginning comes: a key that is in every
//! range takes one span.

use crate::coding::Coding;
use crate::merge::MergeSource;
use crate::source::{Each, NumberSource};

/// A position in a run.
pub struct RunCursor<S> {
    /// How the pairs that are looked for are coded.
    wanted: Coding,
    coding: Coding,
    first_range: u32,
    numbers: Each<S>,
    /// The pair read last; None before the first, and behind the last.
    head: Option<Pair>,
    has_begun: bool,
    /// The pairs read last with the same common bits; kept only if the fingerprints differ in length.
    same: SamePrefix,
}

/// The bits of a fingerprint that the run and the wanted pairs have in common, and the range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    fingerprint: u64,
    range: u64,
}

/// The ranges of pairs whose fingerprints begin with the same bits.
#[derive(Default)]
struct SamePrefix {
    fingerprint: Option<u64>,
    /// Spans of ranges, the end not included, sorted; they may overlap.
    spans: Vec<(u64, u64)>,
    /// The greatest end of a span up to each.
    ends: Vec<u64>,
}

impl SamePrefix {
    fn clear(&mut self, fingerprint: u64) {
        self.fingerprint = Some(fingerprint);
        self.spans.clear();
    }

    fn add(&mut self, range: u64) {
        match self.spans.last_mut().filter(|(_, end)| *end == range) {
            Some((_, end)) => *end += 1,
            None => self.spans.push((range, range + 1)),
        }
    }

    /// Must be called between the last [`SamePrefix::add`] and the first [`SamePrefix::has`].
    fn sort(&mut self) {
        self.spans.sort_unstable();
        self.ends.clear();
        let ends = self.spans.iter().scan(0, |greatest, &(_, end)| {
            *greatest = end.max(*greatest);
            Some(*greatest)
        });
        self.ends.extend(ends);
    }

    fn has(&self, range: u64) -> bool {
        let behind = self.spans.partition_point(|&(start, _)| start <= range);
        behind > 0 && self.ends[behind - 1] > range
    }
}

impl<S: NumberSource> RunCursor<S> {
    /// A cursor before the first number of a run. Pairs that are looked for are coded as `wanted` says, and their
    /// ranges are counted from that from which [`MergeSource::first_range`] counts.
    pub fn new(wanted: Coding, run: MergeSource<S>) -> Self {
        let MergeSource { coding, first_range, numbers } = run;
        let numbers = Each::of(numbers);
        Self {
            wanted,
            coding,
            first_range,
            numbers,
            head: None,
            has_begun: false,
            same: SamePrefix::default(),
        }
    }

    /// Reads on up to a wanted number, which is higher than the one before. Returns whether the run has it.
    ///
    /// # Errors
    /// What is wrong with the source.
    pub fn reaches(&mut self, number: u64) -> Result<bool, S::Error> {
        let pair = self.common(self.wanted, 0, number);
        if !self.has_begun {
            self.has_begun = true;
            self.advance()?;
        }
        if self.wanted.fingerprint_bits() == self.coding.fingerprint_bits() {
            while self.head.is_some_and(|head| head < pair) {
                self.advance()?;
            }
            return Ok(self.head == Some(pair));
        }
        if self.same.fingerprint != Some(pair.fingerprint) {
            self.read_same(pair.fingerprint)?;
        }
        Ok(self.same.has(pair.range))
    }

    /// Reads the pairs with these common bits.
    fn read_same(&mut self, fingerprint: u64) -> Result<(), S::Error> {
        self.same.clear(fingerprint);
        while let Some(head) = self.head.filter(|head| head.fingerprint <= fingerprint) {
            if head.fingerprint == fingerprint {
                self.same.add(head.range);
            }
            self.advance()?;
        }
        self.same.sort();
        Ok(())
    }

    fn advance(&mut self) -> Result<(), S::Error> {
        let next = self.numbers.next().transpose()?;
        self.head = next.map(|number| self.common(self.coding, self.first_range, number));
        Ok(())
    }

    fn common(&self, coding: Coding, first_range: u32, number: u64) -> Pair {
        let bits = self.wanted.fingerprint_bits().min(self.coding.fingerprint_bits());
        let (fingerprint, range) = coding.split(number);
        let fingerprint = fingerprint >> (coding.fingerprint_bits() - bits);
        Pair { fingerprint, range: u64::from(first_range) + u64::from(range) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::malformed::Malformed;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Few keys, ranges and bits, so that fingerprints often begin alike.
    fn pairs() -> impl Strategy<Value = Vec<(u64, u32)>> {
        prop::collection::vec((0..40u64, 0..30u32), 0..300)
    }

    proptest! {
        #[test]
        fn a_run_has_what_it_was_made_of(
            in_run in pairs(),
            wanted in pairs(),
            bits in (1..12u8, 1..12u8),
            first_range in 0..3u32,
        ) {
            let run = Coding::new(bits.0, 30).unwrap();
            let all = Coding::new(bits.1, 40).unwrap();
            let numbers: BTreeSet<u64> = in_run.iter().map(|&(key, range)| run.number(key, range)).collect();
            let common = bits.0.min(bits.1);
            let known: BTreeSet<(u64, u32)> = in_run
                .iter()
                .map(|&(key, range)| (run.fingerprint(key) >> (bits.0 - common), range + first_range))
                .collect();
            let numbers = numbers.into_iter().map(Ok::<u64, Malformed>);
            let mut cursor = RunCursor::new(all, MergeSource { coding: run, first_range, numbers });
            let wanted: BTreeSet<u64> = wanted.iter().map(|&(key, range)| all.number(key, range)).collect();
            for number in wanted {
                let (fingerprint, range) = all.split(number);
                let is_known = known.contains(&(fingerprint >> (bits.1 - common), range));
                prop_assert_eq!(cursor.reaches(number).unwrap(), is_known, "{} of {:?}", number, bits);
            }
        }
    }

    #[test]
    fn a_key_in_every_range_takes_one_span() {
        let (run, all) = (Coding::new(9, 1000).unwrap(), Coding::new(8, 1000).unwrap());
        let numbers = (0..1000).map(|range| Ok::<u64, Malformed>(run.number(7, range)));
        let mut cursor = RunCursor::new(all, MergeSource { coding: run, first_range: 0, numbers });
        for range in [0, 1, 500, 999] {
            assert!(cursor.reaches(all.number(7, range)).unwrap(), "{range}");
        }
        assert_eq!(cursor.same.spans, [(0, 1000)]);
    }
}
