//! Key parts: a large map may be divided by key into 2, 4, ... 64 maps.
//!
//! The *key part* `q` of `2^depth` is the keys whose mixed hash begins with the bits of `q`. A fingerprint is the upper
//! bits of the mixed hash, so the numbers of a key part are an interval ([`KeyPart::numbers`]), and those of the parts
//! follow each other. A number means the same in a map of a part as in one of all keys.
//!
//! The finest parts are 64, so any union of key parts is a [`KeySet`] of 64 bits.
//!
//! Invariant: the code of a key part ([`KeyPart::code`]) is part of the format on disk.

use crate::coding::{Coding, mix};
use std::ops::Range;

/// Keys are divided into at most `2^MOST_DEPTH` parts.
pub const MOST_DEPTH: u8 = 6;

/// The keys of one of `2^depth` parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPart {
    depth: u8,
    number: u8,
}

impl KeyPart {
    /// All keys.
    pub const WHOLE: Self = Self { depth: 0, number: 0 };

    /// Part `number` of `2^depth`. None if there is no such part.
    pub const fn new(depth: u8, number: u8) -> Option<Self> {
        if depth <= MOST_DEPTH && number < 1 << depth { Some(Self { depth, number }) } else { None }
    }

    /// The parts of this depth, in the order of their numbers; at the deepest if it is too deep.
    pub fn all(depth: u8) -> impl Iterator<Item = Self> {
        let depth = depth.min(MOST_DEPTH);
        (0..1u8 << depth).map(move |number| Self { depth, number })
    }

    /// The two parts of the next depth that it consists of. None at the deepest.
    pub fn halves(self) -> Option<[Self; 2]> {
        let number = self.number.checked_mul(2)?;
        Some([Self::new(self.depth + 1, number)?, Self::new(self.depth + 1, number + 1)?])
    }

    /// It is one of 2 to the power of this.
    pub fn depth(self) -> u8 {
        self.depth
    }

    /// Its number among the parts of its depth.
    pub fn number(self) -> u8 {
        self.number
    }

    /// Whether it is all keys.
    pub fn is_whole(self) -> bool {
        self.depth == 0
    }

    /// Its code in a directory entry: 0 for all keys, else a bit above those of its number.
    pub fn code(self) -> u8 {
        if self.is_whole() { 0 } else { 1 << self.depth | self.number }
    }

    /// The part with this code; None if there is none.
    #[inline]
    pub const fn of_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::WHOLE),
            1 => None,
            _ => {
                let depth = code.ilog2() as u8;
                Self::new(depth, code & !(1 << depth))
            }
        }
    }

    /// Its keys.
    #[inline]
    pub const fn keys(self) -> KeySet {
        let finest = 1u32 << (MOST_DEPTH - self.depth);
        KeySet(u64::MAX >> (u64::BITS - finest) << (self.number as u32 * finest))
    }

    /// Whether it has the key with this hash.
    #[inline]
    pub fn has(self, hash: u64) -> bool {
        self.keys().has(hash)
    }

    /// Whether a coding has fingerprint bits enough to tell parts of this depth apart.
    pub fn fits(self, coding: Coding) -> bool {
        self.depth <= coding.fingerprint_bits()
    }

    /// The interval of the numbers of its keys. The part must fit the coding ([`KeyPart::fits`]); otherwise it is
    /// empty.
    pub fn numbers(self, coding: Coding) -> Range<u64> {
        let Some(bits) = coding.fingerprint_bits().checked_sub(self.depth) else { return 0..0 };
        let start = |number: u64| (number << bits) * u64::from(coding.ranges());
        start(self.number.into())..start(u64::from(self.number) + 1)
    }
}

/// A union of the finest key parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeySet(u64);

impl KeySet {
    /// All keys.
    pub const ALL: Self = Self(u64::MAX);
    /// No keys.
    pub const NONE: Self = Self(0);
    /// The last one of the finest key parts.
    pub const LAST: Self = Self(1 << 63);

    /// The keys of the part with this code; all keys if there is none. Lookups ask this of each entry of the directory.
    #[inline]
    pub fn of_code(code: u8) -> Self {
        static OF_CODES: [KeySet; 256] = {
            let mut sets = [KeySet::ALL; 256];
            let mut code = 0;
            while code < sets.len() {
                if let Some(part) = KeyPart::of_code(code as u8) {
                    sets[code] = part.keys();
                }
                code += 1;
            }
            sets
        };
        OF_CODES[usize::from(code)]
    }

    /// The finest key part that has a key.
    #[inline]
    pub fn of_key(hash: u64) -> Self {
        Self(1 << (mix(hash) >> (u64::BITS - u32::from(MOST_DEPTH))))
    }

    /// The finest key parts that have some of these keys.
    pub fn of_keys(hashes: &[u64]) -> Self {
        hashes.iter().fold(Self::NONE, |set, &hash| set.union(Self::of_key(hash)))
    }

    /// The finest key part of a number of a coding.
    pub fn of_number(coding: Coding, number: u64) -> Self {
        let (bits, finest) = (u32::from(coding.fingerprint_bits()), u32::from(MOST_DEPTH));
        let fingerprint = coding.split(number).0;
        if bits >= finest {
            return Self(1 << (fingerprint >> (bits - finest) & 63));
        }
        // The fingerprint is shorter: all parts that may have it.
        let few = 1u32 << (finest - bits);
        Self(u64::MAX >> (u64::BITS - few) << ((fingerprint as u32 * few) & 63))
    }

    /// Whether it has the key with this hash.
    #[inline]
    pub fn has(self, hash: u64) -> bool {
        self.intersects(Self::of_key(hash))
    }

    /// Whether it has no keys.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the two have keys in common.
    #[inline]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it has all keys of the other.
    #[inline]
    pub fn contains(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// The keys of both.
    #[inline]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The keys that they have in common.
    #[inline]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Number of finest key parts.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The share of all keys.
    pub fn share(self) -> f64 {
        f64::from(self.count()) / f64::from(u64::BITS)
    }

    /// The numbers of its finest key parts, ascending.
    pub fn parts(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = (left != 0).then(|| left.trailing_zeros() as usize);
            left &= left.wrapping_sub(1);
            next
        })
    }

    /// One finest key part of those that it has; none if it has none.
    pub fn any_part(self) -> Self {
        Self(self.0 & self.0.wrapping_neg())
    }

    fn insert(&mut self, part: usize) {
        self.0 |= 1 << part;
    }
}

/// Keys sorted by their finest key parts.
pub struct GroupedKeys {
    keys: Vec<u64>,
    /// Where the keys of each finest part start, and where the last ones end.
    starts: [usize; u64::BITS as usize + 1],
}

impl GroupedKeys {
    /// Groups keys.
    pub fn new(hashes: &[u64]) -> Self {
        let place = |hash: &u64| (mix(*hash) >> (u64::BITS - u32::from(MOST_DEPTH))) as usize;
        let mut keys = hashes.to_vec();
        keys.sort_unstable_by_key(place);
        let mut starts = [0; u64::BITS as usize + 1];
        keys.iter().for_each(|key| starts[place(key) + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Self { keys, starts }
    }

    /// Those that a set has.
    pub fn of(&self, set: KeySet) -> Vec<u64> {
        let group = |part: usize| self.keys.get(self.starts[part]..self.starts[part + 1]).unwrap_or_default();
        set.parts().flat_map(group).copied().collect()
    }
}

/// Neighbouring ranges of a column that a segment summarizes for some keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpan {
    /// First range.
    pub first: u32,
    /// The first range behind it.
    pub end: u32,
    /// Its keys.
    pub keys: KeySet,
}

/// For each span the keys for which no span before it has all of its ranges. Spans are sorted by their first ranges,
/// and of those that start together, the ones that end later come first.
pub fn keys_in_use(spans: &[KeySpan]) -> Vec<KeySet> {
    let is_divided = spans.windows(2).any(|pair| pair[0].keys != pair[1].keys);
    let mut ends = [None::<u32>; u64::BITS as usize];
    let in_use = |span: &KeySpan| {
        if span.keys.is_empty() {
            return KeySet::NONE;
        }
        // If all spans have the same keys, one of the finest parts stands for all.
        let parts = if is_divided { span.keys } else { span.keys.any_part() };
        let mut used = KeySet::NONE;
        for part in parts.parts() {
            if ends[part].is_none_or(|end| span.end > end) {
                ends[part] = Some(span.end);
                used.insert(part);
            }
        }
        if is_divided || used.is_empty() { used } else { span.keys }
    };
    spans.iter().map(in_use).collect()
}

/// Calls `each` with stretches of ranges from `first` to `end` that no span summarizes for some of the keys. Spans are
/// sorted by their first ranges. A stretch may be given several times.
pub fn uncovered(spans: &[KeySpan], keys: KeySet, (first, end): (u32, u32), mut each: impl FnMut(u32, u32)) {
    // If every span has all of the keys or none, one of the finest parts stands for all.
    let is_divided = spans.iter().any(|span| span.keys.intersects(keys) && !span.keys.contains(keys));
    let parts = if is_divided { keys } else { keys.any_part() };
    for part in parts.parts() {
        let mut one = KeySet::NONE;
        one.insert(part);
        let mut covered = first;
        for span in spans.iter().filter(|span| span.keys.intersects(one)) {
            if span.first > covered && covered < end {
                each(covered, span.first.min(end));
            }
            covered = covered.max(span.end);
        }
        if covered < end {
            each(covered, end);
        }
    }
}

/// Whether spans, sorted by their first ranges, summarize all ranges from `first` to `end` for all of the keys.
pub fn are_covered(spans: &[KeySpan], keys: KeySet, ranges: (u32, u32)) -> bool {
    let mut is_covered = true;
    uncovered(spans, keys, ranges, |_, _| is_covered = false);
    is_covered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(depth: u8, number: u8) -> KeyPart {
        KeyPart::new(depth, number).unwrap()
    }

    fn span(first: u32, end: u32, part: KeyPart) -> KeySpan {
        KeySpan { first, end, keys: part.keys() }
    }

    #[test]
    fn codes_are_frozen() {
        assert_eq!(KeyPart::WHOLE.code(), 0);
        assert_eq!([part(1, 0), part(1, 1), part(2, 3), part(6, 63)].map(KeyPart::code), [2, 3, 7, 127]);
        for code in 0..=255 {
            let keys = KeyPart::of_code(code).map_or(KeySet::ALL, KeyPart::keys);
            assert_eq!(KeySet::of_code(code), keys, "{code}");
        }
        let known: Vec<u8> = (0..=255).filter(|&code| KeyPart::of_code(code).is_some()).collect();
        assert_eq!(known, [0].into_iter().chain(2..=127).collect::<Vec<u8>>());
        assert!(known.iter().all(|&code| KeyPart::of_code(code).unwrap().code() == code));
        assert_eq!((KeyPart::new(7, 0), KeyPart::new(2, 4)), (None, None));
        assert_eq!(part(2, 3).halves(), Some([part(3, 6), part(3, 7)]));
        assert!(KeyPart::all(MOST_DEPTH).all(|part| part.halves().is_none()));
    }

    #[test]
    fn parts_divide_keys_and_numbers() {
        for bits in [6, 7, 20, 40] {
            let coding = Coding::new(bits, 1000).unwrap();
            for depth in 0..=MOST_DEPTH {
                let (mut end, mut keys) = (0, KeySet::NONE);
                for part in KeyPart::all(depth) {
                    assert!(part.fits(coding) && !keys.intersects(part.keys()));
                    assert_eq!(part.numbers(coding).start, end);
                    end = part.numbers(coding).end;
                    keys = keys.union(part.keys());
                    assert!(part.keys().has_exactly(64 >> depth));
                }
                assert_eq!((end, keys), (coding.numbers_end(), KeySet::ALL));
            }
        }
        let short = Coding::new(3, 10).unwrap();
        assert!(!part(4, 0).fits(short) && part(4, 0).numbers(short).is_empty());
    }

    impl KeySet {
        fn has_exactly(self, count: u32) -> bool {
            self.count() == count && self.parts().count() == count as usize
        }
    }

    #[test]
    fn keys_and_their_numbers_are_in_the_same_parts() {
        for hash in (0..5000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            for bits in [1, 3, 6, 8, 40] {
                let coding = Coding::new(bits, 100).unwrap();
                let number = coding.number(hash, 99);
                assert!(KeySet::of_number(coding, number).contains(KeySet::of_key(hash)));
                for depth in 0..=MOST_DEPTH.min(bits) {
                    let its = KeyPart::all(depth).find(|part| part.has(hash)).unwrap();
                    assert!(its.numbers(coding).contains(&number), "{bits} bits, depth {depth}");
                }
            }
        }
    }

    #[test]
    fn keys_are_grouped_by_part() {
        let keys: Vec<u64> = (0..300).collect();
        let grouped = GroupedKeys::new(&keys);
        for part in KeyPart::all(3).chain([KeyPart::WHOLE]) {
            let mut of_part = grouped.of(part.keys());
            of_part.sort_unstable();
            assert_eq!(of_part, keys.iter().copied().filter(|&key| part.has(key)).collect::<Vec<_>>());
        }
        assert_eq!(grouped.of(KeySet::NONE), []);
    }

    #[test]
    fn what_a_merge_has_replaced_is_not_used() {
        // The first of two parts of a merge is there.
        let spans = [
            span(0, 30, part(1, 0)),
            span(0, 10, KeyPart::WHOLE),
            span(10, 30, part(1, 0)),
            span(10, 30, part(1, 1)),
            span(30, 40, KeyPart::WHOLE),
        ];
        let (one, other) = (part(1, 0).keys(), part(1, 1).keys());
        assert_eq!(keys_in_use(&spans), [one, other, KeySet::NONE, other, KeySet::ALL]);
        assert!(are_covered(&spans, KeySet::ALL, (0, 40)));
        assert!(!are_covered(&spans, KeySet::ALL, (0, 41)));
        assert!(are_covered(&spans[..1], one, (0, 30)) && !are_covered(&spans[..1], KeySet::ALL, (0, 30)));
        let mut gaps = vec![];
        uncovered(&spans[2..], KeySet::ALL, (5, 50), |from, to| gaps.push((from, to)));
        gaps.sort_unstable();
        gaps.dedup();
        assert_eq!(gaps, [(5, 10), (40, 50)]);
    }

    #[test]
    fn spans_of_the_same_keys_are_as_if_they_were_whole() {
        for keys in [KeyPart::WHOLE, part(6, 17)] {
            let spans = [(0, 20), (0, 20), (0, 5), (10, 20), (15, 25), (30, 31)]
                .map(|(first, end)| span(first, end, keys));
            let all = keys.keys();
            assert_eq!(keys_in_use(&spans), [all, KeySet::NONE, KeySet::NONE, KeySet::NONE, all, all]);
        }
        assert_eq!(keys_in_use(&[]), []);
        assert!(!are_covered(&[], KeySet::ALL, (0, 1)) && are_covered(&[], KeySet::ALL, (1, 1)));
        assert!(are_covered(&[], KeySet::NONE, (0, 1)));
    }
}
