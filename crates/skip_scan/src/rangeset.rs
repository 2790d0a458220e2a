//! A set of block ranges: what is left to read after the index was asked.
//!
//! Owns a bitset of fixed length: bit `i % 64` of word `i / 64` stands for range `i`. 8 million ranges are 1 MB.
//!
//! Invariant: bits from `universe` on are zero. Whatever would lie there is not taken in and not found.

/// A set of numbers below a fixed `universe`: the number of ranges, whether they are in the set or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSet {
    words: Vec<u64>,
    universe: u64,
}

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

impl RangeSet {
    /// The empty set of numbers below `universe`.
    pub fn empty(universe: u64) -> Self {
        Self { words: vec![0; universe.div_ceil(64) as usize], universe }
    }

    /// The set of all numbers below `universe`.
    pub fn full(universe: u64) -> Self {
        let mut words = vec![u64::MAX; universe.div_ceil(64) as usize];
        if let Some(last) = words.last_mut() {
            *last = mask_to(universe);
        }
        Self { words, universe }
    }

    /// One more than the largest number the set can hold.
    pub fn universe(&self) -> u64 {
        self.universe
    }

    /// The bits, 64 numbers a word.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds `i`, unless it is not below `universe`.
    #[inline]
    pub fn insert(&mut self, i: u64) {
        if i < self.universe {
            self.words[(i / 64) as usize] |= 1 << (i % 64);
        }
    }

    /// Adds `start..end`, as far as it is below `universe`.
    pub fn insert_span(&mut self, start: u64, end: u64) {
        let end = end.min(self.universe);
        if start >= end {
            return;
        }
        let (first, last) = ((start / 64) as usize, ((end - 1) / 64) as usize);
        if first == last {
            self.words[first] |= mask_from(start) & mask_to(end);
        } else {
            self.words[first] |= mask_from(start);
            self.words[first + 1..last].fill(u64::MAX);
            self.words[last] |= mask_to(end);
        }
    }

    /// Whether `i` is in the set; false from `universe` on.
    #[inline]
    pub fn contains(&self, i: u64) -> bool {
        i < self.universe && self.words[(i / 64) as usize] >> (i % 64) & 1 != 0
    }

    /// Whether any number of `start..end` is in the set.
    pub fn any_in(&self, start: u64, end: u64) -> bool {
        let end = end.min(self.universe);
        if start >= end {
            return false;
        }
        let (first, last) = ((start / 64) as usize, ((end - 1) / 64) as usize);
        let word = |w: usize| {
            let from = if w == first { mask_from(start) } else { u64::MAX };
            let to = if w == last { mask_to(end) } else { u64::MAX };
            self.words[w] & from & to
        };
        (first..=last).any(|w| word(w) != 0)
    }

    /// How many numbers are in the set.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// How many numbers of `start..end` are in the set.
    pub fn count_in(&self, start: u64, end: u64) -> u64 {
        let end = end.min(self.universe);
        if start >= end {
            return 0;
        }
        let (first, last) = ((start / 64) as usize, ((end - 1) / 64) as usize);
        let ones = |w: usize| {
            let from = if w == first { mask_from(start) } else { u64::MAX };
            let to = if w == last { mask_to(end) } else { u64::MAX };
            u64::from((self.words[w] & from & to).count_ones())
        };
        (first..=last).map(ones).sum()
    }

    /// The smallest number from `from` on that is in the set.
    pub fn next_in(&self, from: u64) -> Option<u64> {
        self.next_bit(from, 0)
    }

    /// The same part of the table cut `factor` times as fine: number `i` becomes `i * factor..(i + 1) * factor`, as far
    /// as these are below `universe`.
    pub fn refined(&self, factor: u64, universe: u64) -> Self {
        let mut fine = Self::empty(universe);
        for (start, end) in self.runs() {
            fine.insert_span(start * factor, end.saturating_mul(factor));
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
        self.words.iter().all(|&word| word == 0)
    }

    /// Adds what is in `other` and below `universe`.
    pub fn union_with(&mut self, other: &RangeSet) {
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
        self.clip();
    }

    /// Takes out what is not in `other`, which includes everything from its `universe` on.
    pub fn intersect_with(&mut self, other: &RangeSet) {
        let shared = self.words.len().min(other.words.len());
        for (word, keep) in self.words.iter_mut().zip(&other.words) {
            *word &= keep;
        }
        self.words[shared..].fill(0);
    }

    /// Takes out what is in `other`.
    pub fn subtract(&mut self, other: &RangeSet) {
        for (word, drop) in self.words.iter_mut().zip(&other.words) {
            *word &= !drop;
        }
    }

    /// Adds `offset + i` for every bit `i < bits` that is set in `words`, as far as it is below `universe`. Bits that
    /// `words` does not have count as zero.
    pub fn or_bits(&mut self, offset: u64, words: &[u64], bits: u64) {
        let bits = bits.min(self.universe.saturating_sub(offset));
        let (first, shift) = ((offset / 64) as usize, offset % 64);
        let used = bits.div_ceil(64).min(words.len() as u64) as usize;
        for (place, &word) in words[..used].iter().enumerate() {
            let left = bits - place as u64 * 64;
            let word = if left < 64 { word & mask_to(left) } else { word };
            self.words[first + place] |= word << shift;
            let carry = if shift == 0 { 0 } else { word >> (64 - shift) };
            if carry != 0 {
                self.words[first + place + 1] |= carry;
            }
        }
    }

    /// The numbers in the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().enumerate().flat_map(|(place, &word)| {
            let lowest_out = |left: u64| Some(left & left.wrapping_sub(1)).filter(|&left| left != 0);
            std::iter::successors(Some(word).filter(|&word| word != 0), move |&left| lowest_out(left))
                .map(move |left| place as u64 * 64 + u64::from(left.trailing_zeros()))
        })
    }

    /// The longest runs `start..end` of numbers in the set, as `(start, end)`, in ascending order.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.next_bit(at, 0)?;
            at = self.next_bit(start, u64::MAX).unwrap_or(self.universe);
            Some((start, at))
        })
    }

    /// The first number from `from` on that is in the set (`flip` 0) or not in it (`flip` all ones), if any below
    /// `universe` is.
    fn next_bit(&self, from: u64, flip: u64) -> Option<u64> {
        let first = (from / 64) as usize;
        let mut mask = mask_from(from);
        for (place, word) in self.words.iter().enumerate().skip(first) {
            let found = (word ^ flip) & mask;
            if found != 0 {
                let number = place as u64 * 64 + u64::from(found.trailing_zeros());
                return Some(number).filter(|&number| number < self.universe);
            }
            mask = u64::MAX;
        }
        None
    }

    /// Restores the invariant after whole words came in.
    fn clip(&mut self) {
        if let Some(last) = self.words.last_mut() {
            *last &= mask_to(self.universe);
        }
    }
}
