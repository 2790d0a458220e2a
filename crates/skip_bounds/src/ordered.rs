//! Reading ranges in the order of a column, `ORDER BY column LIMIT n`: ranges come in the order of their bounds, and a
//! row is returned as soon as no range that was not read can hold a row before it.
//!
//! A value's *rank* is where it stands in the order of a query, as far as order keys tell. Equal values have the same
//! rank; if keys are not exact, different ones may have it, too. The *first rank* of a range is that of the first row
//! that it may hold: for an open range, the very first rank there is.
//!
//! | a row of rank r, and the least first rank f of the ranges that were not read | |
//! |---|---|
//! | r < f | it is returned |
//! | r = f, keys are exact, or the row has NULL | it is returned: what the ranges hold is equal to it, or after it |
//! | else | a range with the first rank f is read before |
//!
//! Of rows that were read and not returned yet, the first one is that of the lowest rank, and where several have it,
//! the one that the order of values puts first ([`RowHeap`]).

use crate::bounds::Bounds;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The order that a query asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortOrder {
    /// Whether the greatest value comes first.
    pub descends: bool,
    /// Whether NULL comes before all values.
    pub nulls_first: bool,
    /// Whether values with the same order key are equal.
    pub is_exact: bool,
}

/// Where a value, or NULL, stands in the order of a query: lower ranks come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// 0: first; 1: a value; 2: last.
    group: u8,
    /// In a descending order, the inverse of the order key.
    key: u64,
}

impl Rank {
    const FIRST: Self = Self { group: 0, key: 0 };
    const LAST: Self = Self { group: 2, key: 0 };

    /// Whether it is the rank of values, not of NULL.
    pub fn is_of_values(self) -> bool {
        self.group == 1
    }

    /// Its place on a line on which the key `zero` is 0, for estimates.
    fn number(self, zero: u64) -> f64 {
        match self.group {
            0 => -2.0 * u64::MAX as f64,
            1 => (i128::from(self.key) - i128::from(zero)) as f64,
            _ => 2.0 * u64::MAX as f64,
        }
    }
}

impl SortOrder {
    /// The rank of the values with an order key; that of NULL for None.
    #[inline]
    pub fn rank(&self, key: Option<u64>) -> Rank {
        match key {
            Some(key) => Rank { group: 1, key: if self.descends { !key } else { key } },
            None if self.nulls_first => Rank::FIRST,
            None => Rank::LAST,
        }
    }

    /// The first and the last rank that the rows of a range may have; None if it holds no row.
    pub fn ranks(&self, bounds: &Bounds) -> Option<(Rank, Rank)> {
        if bounds.open {
            return Some((Rank::FIRST, Rank::LAST));
        }
        let of_values = bounds.has_values().then(|| {
            let (least, greatest) = (self.rank(Some(bounds.least)), self.rank(Some(bounds.greatest)));
            (least.min(greatest), least.max(greatest))
        });
        let of_nulls = bounds.nulls.then(|| (self.rank(None), self.rank(None)));
        match (of_values, of_nulls) {
            (Some(values), Some(nulls)) => Some((values.0.min(nulls.0), values.1.max(nulls.1))),
            (values, nulls) => values.or(nulls),
        }
    }

    /// Whether a row may be returned before a range is read whose first rank is `unread`, None if all are read.
    #[inline]
    pub fn may_return(&self, row: Rank, unread: Option<Rank>) -> bool {
        match unread {
            None => true,
            Some(unread) => row < unread || row == unread && (self.is_exact || !row.is_of_values()),
        }
    }
}

/// What comes next, before all ranges are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Next {
    /// A group of ranges, whose bounds must be found out and added.
    Group(u32),
    /// A range, to be read.
    Range(u32),
}

/// The ranges that were not read yet, in the order of their first ranks. At first only the bounds of groups of ranges
/// are known, and possibly those of some ranges. The same range may be there several times: it comes only once, when
/// the first of its ranks does.
pub struct UnreadRanges {
    next: BinaryHeap<Reverse<(Rank, Next)>>,
    /// The ranges that came: a bit for each.
    taken: Vec<u64>,
}

impl UnreadRanges {
    /// Groups of ranges, numbered as in `groups`, and some ranges with their numbers.
    pub fn new(order: &SortOrder, groups: &[Bounds], ranges: &[(u32, Bounds)]) -> Self {
        let first = |bounds: &Bounds, next| Some(Reverse((order.ranks(bounds)?.0, next)));
        let groups =
            groups.iter().zip(0u32..).filter_map(|(bounds, group)| first(bounds, Next::Group(group)));
        let ranges = ranges.iter().filter_map(|(range, bounds)| first(bounds, Next::Range(*range)));
        Self { next: groups.chain(ranges).collect::<Vec<_>>().into(), taken: Vec::new() }
    }

    /// Adds the ranges of a group.
    pub fn add(&mut self, order: &SortOrder, ranges: impl IntoIterator<Item = (u32, Bounds)>) {
        for (range, bounds) in ranges {
            if let Some((first, _)) = order.ranks(&bounds)
                && !self.is_taken(range)
            {
                self.next.push(Reverse((first, Next::Range(range))));
            }
        }
    }

    /// The lowest first rank of a range that was not taken.
    #[inline]
    pub fn first(&self) -> Option<Rank> {
        self.next.peek().map(|Reverse((rank, _))| *rank)
    }

    /// Takes the group or the range with the lowest first rank.
    pub fn take(&mut self) -> Option<Next> {
        let Reverse((_, next)) = self.next.pop()?;
        if let Next::Range(range) = next {
            let word = range as usize / 64;
            if self.taken.len() <= word {
                self.taken.resize(word + 1, 0);
            }
            self.taken[word] |= 1 << (range % 64);
        }
        while let Some(Reverse((_, Next::Range(again)))) = self.next.peek()
            && self.is_taken(*again)
        {
            self.next.pop();
        }
        Some(next)
    }

    fn is_taken(&self, range: u32) -> bool {
        self.taken.get(range as usize / 64).is_some_and(|word| word >> (range % 64) & 1 != 0)
    }
}

/// Rows that were read and not returned yet: a binary heap whose order is given with each call, because comparing
/// values may need the server.
pub struct RowHeap<R>(Vec<R>);

impl<R> Default for RowHeap<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<R> RowHeap<R> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Memory for rows, in bytes, used or not; without what they point to.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<R>()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first row.
    #[inline]
    pub fn first(&self) -> Option<&R> {
        self.0.first()
    }

    /// Adds a row. `is_before` tells whether one row comes before another one; it is the same in all calls.
    pub fn push(&mut self, row: R, mut is_before: impl FnMut(&R, &R) -> bool) {
        let rows = &mut self.0;
        rows.push(row);
        let mut at = rows.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if !is_before(&rows[at], &rows[parent]) {
                break;
            }
            rows.swap(at, parent);
            at = parent;
        }
    }

    /// Takes the first row.
    pub fn pop(&mut self, mut is_before: impl FnMut(&R, &R) -> bool) -> Option<R> {
        let rows = &mut self.0;
        if rows.is_empty() {
            return None;
        }
        let first = rows.swap_remove(0);
        let mut at = 0;
        loop {
            let mut child = 2 * at + 1;
            if child >= rows.len() {
                return Some(first);
            }
            if child + 1 < rows.len() && is_before(&rows[child + 1], &rows[child]) {
                child += 1;
            }
            if !is_before(&rows[child], &rows[at]) {
                return Some(first);
            }
            rows.swap(child, at);
            at = child;
        }
    }

    /// Takes all rows, in any order.
    pub fn take_all(&mut self) -> Vec<R> {
        std::mem::take(&mut self.0)
    }
}

/// Ranges whose bounds are looked at together, for an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RangeSample {
    /// The bounds of all of them.
    pub bounds: Bounds,
    /// The part of all rows that they hold.
    pub share: f64,
    /// Number of ranges.
    pub ranges: u32,
}

/// What is expected to be read until the rows wanted are returned.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExpectedRead {
    /// Ranges read.
    pub ranges: u32,
    /// The part of all rows that they hold.
    pub share: f64,
    /// Groups of ranges whose ranges must be known.
    pub groups: u32,
}

/// What is expected to be read until the part `wanted` of all rows is returned, if the values of a range are spread
/// evenly between its bounds. `ranges_of` gives the ranges of a group, or the group itself if they are not known.
pub fn expected_read(
    order: &SortOrder,
    groups: &[RangeSample],
    mut ranges_of: impl FnMut(u32) -> Vec<RangeSample>,
    wanted: f64,
) -> ExpectedRead {
    let line = Line::of(order, groups);
    let first = |sample: &RangeSample| Some(order.ranks(&sample.bounds)?.0);
    let has_rows = |sample: &&RangeSample| first(sample).is_some();
    let total: f64 = groups.iter().filter(has_rows).map(|group| group.share).sum();
    let wanted = wanted.min(total);
    let of_group = |(group, at): (&RangeSample, u32)| Some(Reverse((first(group)?, Next::Group(at))));
    let mut next: BinaryHeap<_> = groups.iter().zip(0u32..).filter_map(of_group).collect();
    let mut known: Vec<RangeSample> = Vec::new();
    let mut read: Vec<Spread> = Vec::new();
    let mut expanded = 0;
    // What is returned grows with the number of ranges read. Mostly few are enough.
    let (mut few, mut count) = (0, 1);
    let mut enough = loop {
        while read.len() < count
            && let Some(Reverse((rank, taken))) = next.pop()
        {
            match taken {
                Next::Group(group) => {
                    expanded += 1;
                    for range in ranges_of(group) {
                        if let Some(first) = first(&range) {
                            next.push(Reverse((first, Next::Range(known.len() as u32))));
                            known.push(range);
                        }
                    }
                }
                Next::Range(at) => read.push(line.spread(order, &known[at as usize], rank)),
            }
        }
        let Some(Reverse((rank, _))) = next.peek() else { break read.len() };
        if line.returned(&read, *rank) >= wanted {
            break read.len();
        }
        (few, count) = (read.len(), count * 2);
    };
    while few + 1 < enough {
        let middle = few + (enough - few) / 2;
        if line.returned(&read[..middle], read[middle].first) >= wanted {
            enough = middle;
        } else {
            few = middle;
        }
    }
    let read = &read[..enough];
    ExpectedRead {
        ranges: read.iter().map(|range| range.ranges).sum(),
        share: read.iter().map(|range| range.share).sum(),
        groups: expanded,
    }
}

/// The values of a range on a [`Line`].
struct Spread {
    first: Rank,
    from: f64,
    to: f64,
    share: f64,
    ranges: u32,
}

/// Ranks as numbers, counted from some value, so that they are exact enough: a float has 53 bits.
struct Line {
    zero: u64,
    /// The first and the last value of all ranges that are not open.
    everywhere: Option<(f64, f64)>,
}

impl Line {
    fn of(order: &SortOrder, groups: &[RangeSample]) -> Self {
        let closed = groups.iter().map(|group| &group.bounds).filter(|b| !b.open && b.has_values());
        let ends = closed.map(|bounds| Self::ends(order, bounds));
        let ends = ends.reduce(|all, group| (all.0.min(group.0), all.1.max(group.1)));
        let zero = ends.map_or(1 << 63, |ends| ends.0.key);
        Self { zero, everywhere: ends.map(|(from, to)| (from.number(zero), to.number(zero))) }
    }

    fn ends(order: &SortOrder, bounds: &Bounds) -> (Rank, Rank) {
        let (one, other) = (order.rank(Some(bounds.least)), order.rank(Some(bounds.greatest)));
        (one.min(other), one.max(other))
    }

    /// The values of an open range are taken to be spread between those of all others.
    fn spread(&self, order: &SortOrder, range: &RangeSample, first: Rank) -> Spread {
        let (from, to) = match self.everywhere {
            Some(everywhere) if range.bounds.open => everywhere,
            _ if range.bounds.has_values() => {
                let (from, to) = Self::ends(order, &range.bounds);
                (from.number(self.zero), to.number(self.zero))
            }
            _ => (first.number(self.zero), first.number(self.zero)),
        };
        Spread { first, from, to, share: range.share, ranges: range.ranges }
    }

    /// The part of all rows that may be returned when ranges were read, and the next one has this first rank.
    fn returned(&self, read: &[Spread], next: Rank) -> f64 {
        let limit = next.number(self.zero);
        let before = |range: &Spread| {
            let part =
                if range.to < limit { 1.0 } else { (limit - range.from) / (range.to - range.from).max(1.0) };
            range.share * part.clamp(0.0, 1.0)
        };
        read.iter().map(before).sum()
    }
}
