//! A set of block ranges: what is left to read after the index was asked.
//!
//! A lookup of a key leaves a few ranges of a table that may have millions. So a small set is a list of spans, and only
//! one of more than `MOST_SPANS` is a bitset: bit `i % 64` of word `i / 64` stands for range `i`; 8 million ranges
//! are 1 MB. Which of the two a set is shows in nothing but time and memory.
//!
//! Invariants: spans are not empty, ascend, and do not touch each other. Nothing from `universe` on is in the set:
//! spans end there, bits from there on are zero. Whatever would lie there is not taken in and not found.

/// The most spans that a list has. Inserting into it shifts up to 1 kB.
const MOST_SPANS: usize = 64;
/// From this number of bits on, words are taken whole: taking their bits one by one would take longer.
const MANY_BITS: u32 = 32;

/// A set of numbers below a fixed `universe`: the number of ranges, whether they are in the set or not.
#[derive(Clone, Debug)]
pub struct RangeSet {
    members: SetMembers,
    universe: u64,
}

#[derive(Clone, Debug)]
enum SetMembers {
    /// Spans `start..end`.
    Spans(Vec<(u64, u64)>),
    Bits(Vec<u64>),
}

impl PartialEq for RangeSet {
    fn eq(&self, other: &Self) -> bool {
        self.universe == other.universe && self.runs().eq(other.runs())
    }
}

impl Eq for RangeSet {}

/// Bits `from..64` of a word.
#[inline]
fn mask_from(from: u64) -> u64 {
    u64::MAX << (from % 64)
}

/// Bits `0..to` of a word, where `to % 64 == 0` stands for all 64.
#[inline]
fn mask_to(to: u64) -> u64 {
    u64::MAX >> ((64 - to % 64) % 64)
}

/// Sets the bits of a span that is not empty.
fn set_span(words: &mut [u64], start: u64, end: u64) {
    let (first, last) = ((start / 64) as usize, ((end - 1) / 64) as usize);
    if first == last {
        words[first] |= mask_from(start) & mask_to(end);
    } else {
        words[first] |= mask_from(start);
        words[first + 1..last].fill(u64::MAX);
        words[last] |= mask_to(end);
    }
}

/// The words of a span's bits, where only the span's are left.
fn words_in(words: &[u64], start: u64, end: u64) -> impl Iterator<Item = u64> {
    let (first, last) = ((start / 64) as usize, (end.max(1) - 1) as usize / 64);
    let is_empty = start >= end;
    (first..=last).take_while(move |_| !is_empty).map(move |w| {
        let from = if w == first { mask_from(start) } else { u64::MAX };
        let to = if w == last { mask_to(end) } else { u64::MAX };
        words[w] & from & to
    })
}

/// The first bit from `from` on that is set (`flip` 0) or not (`flip` all ones).
fn next_bit(words: &[u64], from: u64, flip: u64) -> Option<u64> {
    let mut mask = mask_from(from);
    for (place, word) in words.iter().enumerate().skip((from / 64) as usize) {
        let found = (word ^ flip) & mask;
        if found != 0 {
            return Some(place as u64 * 64 + u64::from(found.trailing_zeros()));
        }
        mask = u64::MAX;
    }
    None
}

/// The last bit below `before` that is set.
fn last_bit(words: &[u64], before: u64) -> Option<u64> {
    let end = before.min(words.len() as u64 * 64);
    let mut mask = mask_to(end);
    for (place, word) in words[..end.div_ceil(64) as usize].iter().enumerate().rev() {
        let found = word & mask;
        if found != 0 {
            return Some(place as u64 * 64 + u64::from(found.ilog2()));
        }
        mask = u64::MAX;
    }
    None
}

impl RangeSet {
    /// The empty set of numbers below `universe`.
    pub fn empty(universe: u64) -> Self {
        Self { members: SetMembers::Spans(Vec::new()), universe }
    }

    /// The set of all numbers below `universe`.
    pub fn full(universe: u64) -> Self {
        let mut all = Self::empty(universe);
        all.insert_span(0, universe);
        all
    }

    /// One more than the largest number the set can hold.
    pub fn universe(&self) -> u64 {
        self.universe
    }

    /// Bytes of memory that the members take.
    pub fn bytes(&self) -> usize {
        match &self.members {
            SetMembers::Spans(spans) => size_of_val(spans.as_slice()),
            SetMembers::Bits(words) => size_of_val(words.as_slice()),
        }
    }

    /// Changes the set as a bitset, which it is from now on.
    fn change_bits(&mut self, change: impl FnOnce(&mut [u64])) {
        let mut words = match std::mem::replace(&mut self.members, SetMembers::Spans(Vec::new())) {
            SetMembers::Bits(words) => words,
            SetMembers::Spans(spans) => {
                let mut words = vec![0; self.universe.div_ceil(64) as usize];
                spans.iter().for_each(|&(start, end)| set_span(&mut words, start, end));
                words
            }
        };
        change(&mut words);
        if let Some(last) = words.last_mut() {
            *last &= mask_to(self.universe);
        }
        self.members = SetMembers::Bits(words);
    }

    /// Adds `i`, unless it is not below `universe`.
    #[inline]
    pub fn insert(&mut self, i: u64) {
        self.insert_span(i, i.saturating_add(1));
    }

    /// Adds the numbers of `start..end` that are below `universe`.
    pub fn insert_span(&mut self, start: u64, end: u64) {
        let end = end.min(self.universe);
        if start >= end {
            return;
        }
        match &mut self.members {
            SetMembers::Bits(words) => set_span(words, start, end),
            SetMembers::Spans(spans) => {
                // Those that the new one touches become one with it.
                let from = spans.partition_point(|span| span.1 < start);
                let to = from + spans[from..].partition_point(|span| span.0 <= end);
                let touched = &spans[from..to];
                let start = touched.first().map_or(start, |first| first.0.min(start));
                let end = touched.last().map_or(end, |last| last.1.max(end));
                spans.splice(from..to, [(start, end)]);
                if spans.len() > MOST_SPANS {
                    self.change_bits(|_| ());
                }
            }
        }
    }

    /// Whether `i` is in the set; false from `universe` on.
    #[inline]
    pub fn contains(&self, i: u64) -> bool {
        self.any_in(i, i.saturating_add(1))
    }

    /// Whether any number of `start..end` is in the set.
    pub fn any_in(&self, start: u64, end: u64) -> bool {
        let end = end.min(self.universe);
        match &self.members {
            SetMembers::Bits(words) => words_in(words, start, end).any(|word| word != 0),
            SetMembers::Spans(spans) => {
                let first = spans.get(spans.partition_point(|span| span.1 <= start));
                start < end && first.is_some_and(|span| span.0 < end)
            }
        }
    }

    /// How many numbers are in the set.
    pub fn count(&self) -> u64 {
        self.count_in(0, self.universe)
    }

    /// How many numbers of `start..end` are in the set.
    pub fn count_in(&self, start: u64, end: u64) -> u64 {
        let end = end.min(self.universe);
        match &self.members {
            SetMembers::Bits(words) => {
                words_in(words, start, end).map(|word| u64::from(word.count_ones())).sum()
            }
            SetMembers::Spans(spans) => {
                spans.iter().map(|span| span.1.min(end).saturating_sub(span.0.max(start))).sum()
            }
        }
    }

    /// The smallest number from `from` on that is in the set.
    pub fn next_in(&self, from: u64) -> Option<u64> {
        match &self.members {
            SetMembers::Bits(words) => next_bit(words, from, 0),
            SetMembers::Spans(spans) => {
                let next = spans.get(spans.partition_point(|span| span.1 <= from))?;
                Some(next.0.max(from))
            }
        }
    }

    /// The largest number below `before` that is in the set.
    pub fn last_in(&self, before: u64) -> Option<u64> {
        match &self.members {
            SetMembers::Bits(words) => last_bit(words, before),
            SetMembers::Spans(spans) => {
                let last = spans[..spans.partition_point(|span| span.0 < before)].last()?;
                Some(last.1.min(before) - 1)
            }
        }
    }

    /// The same part of the table cut `factor` times as fine: number `i` becomes `i * factor..(i + 1) * factor`, as far
    /// as these are below `universe`.
    pub fn refined(&self, factor: u64, universe: u64) -> Self {
        let mut fine = Self::empty(universe);
        for (start, end) in self.runs() {
            fine.insert_span(start.saturating_mul(factor), end.saturating_mul(factor));
        }
        fine
    }

    /// The numbers below `universe` of a cut `factor` times as coarse that contain any number of the set.
    pub fn coarsened(&self, factor: u64, universe: u64) -> Self {
        let mut coarse = Self::empty(universe);
        let factor = factor.max(1);
        for (start, end) in self.runs() {
            coarse.insert_span(start / factor, (end - 1) / factor + 1);
        }
        coarse
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        match &self.members {
            SetMembers::Bits(words) => words.iter().all(|&word| word == 0),
            SetMembers::Spans(spans) => spans.is_empty(),
        }
    }

    /// Adds what is in `other` and below `universe`.
    pub fn union_with(&mut self, other: &RangeSet) {
        match &other.members {
            SetMembers::Spans(spans) => spans.iter().for_each(|&(start, end)| self.insert_span(start, end)),
            SetMembers::Bits(more) => self.change_bits(|words| {
                words.iter_mut().zip(more).for_each(|(word, more)| *word |= more);
            }),
        }
    }

    /// Takes out what is not in `other`, which includes everything from its `universe` on.
    pub fn intersect_with(&mut self, other: &RangeSet) {
        match (&mut self.members, &other.members) {
            (SetMembers::Bits(words), SetMembers::Bits(keep)) => {
                let shared = words.len().min(keep.len());
                words.iter_mut().zip(keep).for_each(|(word, keep)| *word &= keep);
                words[shared..].fill(0);
            }
            // The fewer spans of the two are gone through.
            (SetMembers::Spans(spans), _) => {
                let spans = std::mem::take(spans);
                spans.iter().for_each(|&(start, end)| self.insert_part_of(other, start, end));
            }
            (SetMembers::Bits(_), SetMembers::Spans(spans)) => {
                let all = std::mem::replace(self, Self::empty(self.universe));
                spans.iter().for_each(|&(start, end)| self.insert_part_of(&all, start, end));
            }
        }
    }

    /// Adds what `other` has of `start..end`.
    fn insert_part_of(&mut self, other: &RangeSet, start: u64, end: u64) {
        match &other.members {
            SetMembers::Bits(words) if other.count_in(start, end) > u64::from(MANY_BITS) => {
                let part = words_in(words, start, end.min(other.universe));
                self.change_bits(|own| {
                    own.iter_mut().skip((start / 64) as usize).zip(part).for_each(|(own, word)| *own |= word);
                });
            }
            _ => {
                let mut at = start;
                while let Some((from, to)) = other.run_from(at).filter(|run| run.0 < end) {
                    self.insert_span(from.max(start), to.min(end));
                    at = to;
                }
            }
        }
    }

    /// Takes out what is in `other`.
    pub fn subtract(&mut self, other: &RangeSet) {
        match (&mut self.members, &other.members) {
            (SetMembers::Bits(words), SetMembers::Bits(drop)) => {
                words.iter_mut().zip(drop).for_each(|(word, drop)| *word &= !drop);
            }
            (SetMembers::Bits(words), SetMembers::Spans(spans)) => {
                for &(start, end) in spans.iter().filter(|span| span.0 < self.universe) {
                    clear_span(words, start, end.min(self.universe));
                }
            }
            (SetMembers::Spans(spans), _) => {
                for (start, end) in std::mem::take(spans) {
                    self.insert_part_outside(other, start, end);
                }
            }
        }
    }

    /// Adds what `other` does not have of `start..end`.
    fn insert_part_outside(&mut self, other: &RangeSet, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let (from, to) = other.run_from(at).filter(|run| run.0 < end).unwrap_or((end, end));
            self.insert_span(at, from);
            at = to;
        }
    }

    /// Adds `offset + i` for every bit `i < bits` that is set in `words`, if it is below `universe`. Bits that `words`
    /// does not have count as zero.
    pub fn or_bits(&mut self, offset: u64, words: &[u64], bits: u64) {
        let bits = bits.min(self.universe.saturating_sub(offset)).min(words.len() as u64 * 64);
        if matches!(self.members, SetMembers::Spans(_)) {
            let ones: u32 = words_in(words, 0, bits).map(u64::count_ones).sum();
            if ones <= MANY_BITS {
                let mut at = 0;
                while let Some(start) = next_bit(words, at, 0).filter(|&start| start < bits) {
                    at = next_bit(words, start, u64::MAX).unwrap_or(bits).min(bits);
                    self.insert_span(offset + start, offset + at);
                }
                return;
            }
        }
        let (first, shift) = ((offset / 64) as usize, offset % 64);
        self.change_bits(|own| {
            for (place, word) in words_in(words, 0, bits).enumerate() {
                own[first + place] |= word << shift;
                let carry = if shift == 0 { 0 } else { word >> (64 - shift) };
                if carry != 0 {
                    own[first + place + 1] |= carry;
                }
            }
        });
    }

    /// The numbers in the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs().flat_map(|(start, end)| start..end)
    }

    /// The longest runs `start..end` of numbers in the set, as `(start, end)`, in ascending order.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let run = self.run_from(at)?;
            at = run.1;
            Some(run)
        })
    }

    /// The first run of numbers from `from` on. Of a run that begins before, the part from `from` on.
    fn run_from(&self, from: u64) -> Option<(u64, u64)> {
        match &self.members {
            SetMembers::Bits(words) => {
                let start = next_bit(words, from, 0)?;
                let end = next_bit(words, start, u64::MAX).unwrap_or(self.universe);
                Some((start, end.min(self.universe)))
            }
            SetMembers::Spans(spans) => {
                let &(start, end) = spans.get(spans.partition_point(|span| span.1 <= from))?;
                Some((start.max(from), end))
            }
        }
    }
}

/// Clears the bits of a span that is not empty.
fn clear_span(words: &mut [u64], start: u64, end: u64) {
    let (first, last) = ((start / 64) as usize, ((end - 1) / 64) as usize);
    if first == last {
        words[first] &= !(mask_from(start) & mask_to(end));
    } else {
        words[first] &= !mask_from(start);
        words[first + 1..last].fill(0);
        words[last] &= !mask_to(end);
    }
}
