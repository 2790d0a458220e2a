//! The bounds of one range.

/// The least and the greatest order key of a range, and what else is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The least order key; greater than `greatest` if the range holds no value.
    pub least: u64,
    /// The greatest order key.
    pub greatest: u64,
    /// Whether the range may hold a NULL.
    pub nulls: bool,
    /// Whether it may hold anything: some of its rows are not in the bounds.
    pub open: bool,
    /// Whether rows were added to the range after its bounds were found from the table: they may be too wide since.
    pub widened: bool,
}

/// What a query asks of the bounds of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundsTest<'a> {
    /// A value whose order key is in one of these spans, ends included. They ascend and do not overlap.
    Within(&'a [(u64, u64)]),
    /// A NULL.
    IsNull,
    /// A value.
    IsNotNull,
}

impl Bounds {
    /// The bounds of a range without rows.
    pub const EMPTY: Self = Self { least: u64::MAX, greatest: 0, nulls: false, open: false, widened: false };

    /// The bounds of one value, or of NULL.
    pub fn of(key: Option<u64>) -> Self {
        let mut bounds = Self::EMPTY;
        match key {
            Some(key) => bounds.add(key),
            None => bounds.nulls = true,
        }
        bounds
    }

    /// Adds a value.
    #[inline]
    pub fn add(&mut self, key: u64) {
        (self.least, self.greatest) = (self.least.min(key), self.greatest.max(key));
    }

    /// The bounds of what is in one of the two.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
            nulls: self.nulls || other.nulls,
            open: self.open || other.open,
            widened: self.widened || other.widened,
        }
    }

    /// Whether there is a value between the bounds.
    pub fn has_values(&self) -> bool {
        self.least <= self.greatest
    }

    /// How far apart the least and the greatest key are; 0 without values.
    pub fn width(&self) -> u64 {
        self.greatest.saturating_sub(self.least)
    }

    /// Whether a value, or None for NULL, is within the bounds. That the range is open does not count.
    pub fn holds(&self, key: Option<u64>) -> bool {
        key.map_or(self.nulls, |key| (self.least..=self.greatest).contains(&key))
    }

    /// Whether the range may hold what a test asks for.
    #[inline]
    pub fn matches(&self, test: BoundsTest<'_>) -> bool {
        self.open
            || match test {
                BoundsTest::Within(spans) => self.has_values() && overlaps(spans, self.least, self.greatest),
                BoundsTest::IsNull => self.nulls,
                BoundsTest::IsNotNull => self.has_values(),
            }
    }
}

/// Whether one of the spans has a number from `least` to `greatest`.
#[inline]
pub(crate) fn overlaps(spans: &[(u64, u64)], least: u64, greatest: u64) -> bool {
    spans.get(spans.partition_point(|span| span.1 < least)).is_some_and(|span| span.0 <= greatest)
}
