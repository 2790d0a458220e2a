//! What comparisons with values ask of order keys.

/// How a value of a column is compared with the value of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyComparison {
    /// `column < value`.
    Less,
    /// `column <= value`.
    LessOrEqual,
    /// `column = value`.
    Equal,
    /// `column >= value`.
    GreaterOrEqual,
    /// `column > value`.
    Greater,
}

/// Intervals of order keys, ends included, that ascend and do not touch each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderKeyIntervals(Vec<(u64, u64)>);

impl OrderKeyIntervals {
    /// All keys.
    pub fn all() -> Self {
        Self(vec![(0, u64::MAX)])
    }

    /// The keys that values may have which a comparison holds for, with a value that has this key. If the kind of keys
    /// is exact, a lesser value has a lesser key; if not, it may have the same.
    pub fn of(comparison: KeyComparison, key: u64, is_exact: bool) -> Self {
        let span = match comparison {
            KeyComparison::Less if is_exact => key.checked_sub(1).map(|below| (0, below)),
            KeyComparison::Less | KeyComparison::LessOrEqual => Some((0, key)),
            KeyComparison::Equal => Some((key, key)),
            KeyComparison::Greater if is_exact => key.checked_add(1).map(|above| (above, u64::MAX)),
            KeyComparison::Greater | KeyComparison::GreaterOrEqual => Some((key, u64::MAX)),
        };
        Self(span.into_iter().collect())
    }

    /// The keys that values may have which a comparison holds for, with a value of which is known that it is between
    /// those with these keys, and may be equal to both.
    pub fn within(comparison: KeyComparison, least: u64, greatest: u64) -> Self {
        let span = match comparison {
            KeyComparison::Less | KeyComparison::LessOrEqual => (0, greatest),
            KeyComparison::Equal => (least, greatest),
            KeyComparison::Greater | KeyComparison::GreaterOrEqual => (least, u64::MAX),
        };
        Self(vec![span])
    }

    /// The keys of any of these spans.
    #[must_use]
    pub fn union(all: impl IntoIterator<Item = Self>) -> Self {
        let mut spans: Vec<(u64, u64)> = all.into_iter().flat_map(|spans| spans.0).collect();
        spans.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(spans.len());
        for (start, end) in spans {
            match joined.last_mut() {
                Some(last) if start <= last.1.saturating_add(1) => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        Self(joined)
    }

    /// The keys that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut both, mut own, mut others) =
            (Vec::new(), self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(one), Some(two)) = (own.peek(), others.peek()) {
            let (start, end) = (one.0.max(two.0), one.1.min(two.1));
            if start <= end {
                both.push((start, end));
            }
            if one.1 <= two.1 {
                own.next()
            } else {
                others.next()
            };
        }
        Self(both)
    }

    /// The spans.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// Whether a key is in one of them.
    pub fn contains(&self, key: u64) -> bool {
        crate::bounds::overlaps(&self.0, key, key)
    }
}
