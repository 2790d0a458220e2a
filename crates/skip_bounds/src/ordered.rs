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

    /// Its place on a line that begins with the key `start`, for estimates.
    fn number(self, start: u64) -> f64 {
        match self.group {
            0 => -1.0,
            1 => self.key.saturating_sub(start) as f64,
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

/// The ranges that were not read yet, in the order of their first ranks.
pub struct UnreadRanges(BinaryHeap<Reverse<(Rank, u32)>>);

impl UnreadRanges {
    /// All ranges that may hold a row, numbered as in `bounds`.
    pub fn new(order: &SortOrder, bounds: impl IntoIterator<Item = Bounds>) -> Self {
        let first = |(range, bounds): (u32, Bounds)| Some(Reverse((order.ranks(&bounds)?.0, range)));
        let ranges: Vec<_> = (0u32..).zip(bounds).filter_map(first).collect();
        Self(ranges.into())
    }

    /// The lowest first rank of a range.
    #[inline]
    pub fn first(&self) -> Option<Rank> {
        self.0.peek().map(|Reverse((rank, _))| *rank)
    }

    /// Takes the range with the lowest first rank.
    pub fn take(&mut self) -> Option<u32> {
        self.0.pop().map(|Reverse((_, range))| range)
    }

    /// Takes all ranges, in the order of their numbers.
    pub fn take_all(&mut self) -> Vec<u32> {
        let mut all: Vec<u32> =
            std::mem::take(&mut self.0).into_iter().map(|Reverse((_, range))| range).collect();
        all.sort_unstable();
        all
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

/// What is expected to be read until `wanted` rows are returned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedRead {
    /// Ranges read.
    pub ranges: u32,
    /// The part of all rows that they hold.
    pub share: f64,
}

/// What is expected to be read until the part `wanted` of all rows is returned, if the values of a range are spread
/// evenly between its bounds. `ranges` has the bounds of each range that is looked into, and its part of all rows.
pub fn expected_read(order: &SortOrder, ranges: &[(Bounds, f64)], wanted: f64) -> ExpectedRead {
    let known = || ranges.iter().map(|range| &range.0).filter(|bounds| !bounds.open && bounds.has_values());
    let ends = |bounds: &Bounds| {
        let (one, other) = (order.rank(Some(bounds.least)), order.rank(Some(bounds.greatest)));
        (one.min(other), one.max(other))
    };
    // Counted from the first value, numbers are exact enough: a float has 53 bits.
    let start = known().map(|bounds| ends(bounds).0.key).min().unwrap_or(0);
    let of_values = |bounds: &Bounds| (ends(bounds).0.number(start), ends(bounds).1.number(start));
    // The values of an open range are taken to be spread between those of all others.
    let everywhere = known().map(of_values).reduce(|all, range| (all.0.min(range.0), all.1.max(range.1)));
    let spread = |(bounds, share): &(Bounds, f64)| {
        let (first, last) = order.ranks(bounds)?;
        let (from, to) = match everywhere {
            Some(everywhere) if bounds.open => everywhere,
            _ if bounds.has_values() => of_values(bounds),
            _ => (last.number(start), last.number(start)),
        };
        Some((first, from, to, *share))
    };
    let all: Vec<(Rank, f64, f64, f64)> = ranges.iter().filter_map(spread).collect();
    let total: f64 = all.iter().map(|range| range.3).sum();
    let mut unread: BinaryHeap<_> =
        all.iter().zip(0u32..).map(|(range, at)| Reverse((range.0, at))).collect();
    let mut read: Vec<(Rank, f64, f64, f64)> = Vec::new();
    // The part of all rows that may be returned when ranges were read, and the next one has this first rank.
    let returned = |read: &[(Rank, f64, f64, f64)], next: Option<Rank>| -> f64 {
        let Some(next) = next else { return total };
        let limit = next.number(start);
        let before = |&(_, from, to, share): &(Rank, f64, f64, f64)| {
            if to < limit { share } else { share * ((limit - from) / (to - from).max(1.0)).clamp(0.0, 1.0) }
        };
        read.iter().map(before).sum()
    };
    // What is returned grows with the number of ranges read. Mostly few are enough.
    let (mut few, mut count) = (0, 1);
    let enough = loop {
        while read.len() < count
            && let Some(Reverse((_, at))) = unread.pop()
        {
            read.push(all[at as usize]);
        }
        let next = unread.peek().map(|Reverse((rank, _))| *rank);
        if returned(&read, next) >= wanted.min(total) || next.is_none() {
            break read.len();
        }
        (few, count) = (count, count * 2);
    };
    let mut enough = enough;
    while few + 1 < enough {
        let middle = few + (enough - few) / 2;
        if returned(&read[..middle], Some(read[middle].0)) >= wanted.min(total) {
            enough = middle;
        } else {
            few = middle;
        }
    }
    ExpectedRead { ranges: enough as u32, share: read[..enough].iter().map(|range| range.3).sum() }
}
