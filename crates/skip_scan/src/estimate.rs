//! What the lookup of a condition is expected to leave and to read: the planner's estimate.
//!
//! Every path that looks a condition up in indexes is estimated here: a bitmap scan's conditions, which must all hold,
//! are a [`Condition`] like those of a Skip Index Scan. Its leaves are [`Term`]s, which tell where the estimate of a
//! test comes from: from a lookup of its keys, from a lookup of some of them, or from [`Statistics`].
//!
//! Tests that are not looked up count as independent of each other and of those that are. The estimate is used for
//! costs only.

use crate::expected::{
    OTHER_PAGES, is_little, part_of_all_keys, ranges_with_guessed_rows, ranges_with_rows, scattered_runs,
    surviving_ranges,
};
use crate::{Condition, RangeSet};

/// What statistics and the sizes of an index's segments tell of a test, on average over keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Number of keys.
    pub keys: f64,
    /// Index pages that the lookup of one key reads.
    pub pages_of_key: f64,
    /// False-positive rate of one key: the fraction of the summarized ranges, 0 to 1.
    pub rate: f64,
    /// Ranges of the table, at least 1.
    pub ranges: f64,
    /// Ranges that the index summarizes, at most `ranges`.
    pub summarized: f64,
    /// Rows of the table.
    pub rows: f64,
    /// Fraction of the rows that satisfy the test, 0 to 1.
    pub selectivity: f64,
    /// Whether `selectivity` is the server's guess for any value, whatever the column has.
    pub is_guess: bool,
    /// ANALYZE's correlation between the order of rows and that of the column's values, -1 to 1.
    pub correlation: f64,
    /// The number of ranges that a key is in, on average, if the index knows it.
    pub ranges_of_key: Option<f64>,
}

impl Statistics {
    fn share(&self) -> Share {
        let &Self { keys, ranges, summarized, rows, .. } = self;
        let with_rows = match self.ranges_of_key {
            Some(of_key) => (keys * of_key).min(ranges),
            None if self.is_guess => ranges_with_guessed_rows(self.selectivity * rows, ranges),
            None => {
                let rows_a_range = (rows / ranges).max(1.0);
                ranges_with_rows(self.selectivity * rows, rows_a_range, self.correlation, ranges)
            }
        };
        let left = surviving_ranges(ranges, summarized, keys * self.rate, with_rows);
        let pages = keys * self.pages_of_key + OTHER_PAGES;
        Share { fraction: (left / ranges).clamp(0.0, 1.0), pages }
    }
}

/// What the lookup of a test, or of several, leaves and reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The fraction of the table's ranges that survive, 0 to 1.
    pub fraction: f64,
    /// Index pages read.
    pub pages: f64,
}

impl Share {
    /// Of a test that rules nothing out: its index is opened, and found to be of no use.
    pub const ANYTHING: Self = Self { fraction: 1.0, pages: 1.0 };
    /// Of a test that the lookup counts.
    const COUNTED: Self = Self { fraction: 1.0, pages: 0.0 };

    /// Of several tests that must all hold.
    fn all(parts: &[Self]) -> Self {
        let fraction = parts.iter().map(|part| part.fraction).product();
        Self { fraction, pages: parts.iter().map(|part| part.pages).sum() }
    }

    /// Extrapolates what all keys of a list leave and read from a lookup of some of them. There are `times` as many
    /// keys in all, in an index of `index_pages` pages.
    #[must_use]
    pub fn of_all_keys(self, times: f64, index_pages: f64) -> Self {
        let fraction = part_of_all_keys(self.fraction, times);
        Self { fraction, pages: (self.pages * times).min(index_pages) }
    }
}

/// A test of a condition, and where its estimate comes from: `L` is what [`Statistics`] are made of, `A` what is
/// looked up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Term<L, A> {
    /// From a lookup, because its keys are known: one with other tests, or a lookup of its own if an OR combines the
    /// test with others that are not looked up. From statistics if the lookup fails.
    Known(L, A),
    /// From statistics: its keys are not known.
    Unknown(L),
    /// From a lookup of some of its keys, which was made already.
    Sampled(Share),
}

impl<L, A> Term<L, A> {
    /// What the test leaves and reads if it is not looked up with the others.
    fn share(&self, statistics: &impl Fn(&L) -> Statistics) -> Share {
        match self {
            Term::Known(leaf, _) | Term::Unknown(leaf) => statistics(leaf).share(),
            Term::Sampled(share) => *share,
        }
    }
}

/// What a scan with a condition is expected to read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedReads {
    /// Ranges of the table to read.
    pub ranges: f64,
    /// Number of runs of consecutive ranges in which they lie.
    pub runs: f64,
    /// Index pages to read.
    pub pages: f64,
    /// Whether the ranges come from a lookup of all keys.
    pub is_exact: bool,
}

impl ExpectedReads {
    /// Of a condition of which nothing is looked up, in a table of `ranges` ranges.
    pub fn by_statistics<L>(
        condition: &Condition<L>,
        ranges: f64,
        statistics: &impl Fn(&L) -> Statistics,
    ) -> Self {
        Self::of_share(share(condition, &|leaf| statistics(leaf).share()), ranges)
    }

    /// Of a condition in a table of `ranges` ranges. `look_up` answers a part of the condition whose keys are known:
    /// the ranges that survive, and the number of index pages read. None: that cannot be looked up.
    pub fn of<L, A: Copy>(
        condition: &Condition<Term<L, A>>,
        ranges: f64,
        statistics: &impl Fn(&L) -> Statistics,
        look_up: impl Fn(&Condition<A>) -> Option<(RangeSet, u64)>,
    ) -> Self {
        // The share of a test that is not looked up with others.
        let apart = |term: &Term<L, A>| {
            let Term::Known(_, ask) = term else { return term.share(statistics) };
            let of_lookup = |(found, pages): (RangeSet, u64)| Share {
                fraction: (found.count() as f64 / ranges.max(1.0)).min(1.0),
                pages: pages as f64,
            };
            look_up(&Condition::Leaf(*ask)).map_or_else(|| term.share(statistics), of_lookup)
        };
        let Some(known) = known(condition) else {
            return Self::of_share(share(condition, &apart), ranges);
        };
        let Some((found, pages)) = look_up(&known) else {
            return Self::of_share(share(condition, &|term| term.share(statistics)), ranges);
        };
        let rest = beside_lookup(condition, &apart).unwrap_or(Share::COUNTED);
        let ranges = found.count() as f64 * rest.fraction;
        Self {
            ranges,
            runs: (found.runs().count() as f64).min(ranges),
            pages: pages as f64 + rest.pages,
            is_exact: condition.leaves().all(|term| matches!(term, Term::Known(..))),
        }
    }

    fn of_share(share: Share, ranges: f64) -> Self {
        let runs = scattered_runs(ranges, share.fraction);
        Self { ranges: ranges * share.fraction, runs, pages: share.pages, is_exact: false }
    }

    /// What a plan with parameters counts on if their values make no difference: the larger one of the estimate for
    /// these values and of that for any values, provided that it is little. A range has `pages_per_range` blocks, the
    /// table `table_blocks`.
    pub fn for_any_parameters(
        these: Self,
        any: Self,
        pages_per_range: f64,
        table_blocks: f64,
    ) -> Option<Self> {
        let most = if any.ranges >= these.ranges { any } else { these };
        is_little(most.ranges * pages_per_range, most.pages, table_blocks).then_some(most)
    }
}

/// The part of a condition whose keys are known.
pub fn known<L, A: Copy>(condition: &Condition<Term<L, A>>) -> Option<Condition<A>> {
    condition.try_map(&mut |term| if let Term::Known(_, ask) = term { Some(*ask) } else { None })
}

/// What a condition leaves and reads if its leaves do so independently of each other.
pub fn share<L>(condition: &Condition<L>, of_leaf: &impl Fn(&L) -> Share) -> Share {
    let all = |parts: &[Condition<L>]| -> Vec<Share> { parts.iter().map(|p| share(p, of_leaf)).collect() };
    match condition {
        Condition::And(parts) => Share::all(&all(parts)),
        Condition::Or(parts) => {
            let parts = all(parts);
            let ruled_out: f64 = parts.iter().map(|part| 1.0 - part.fraction).product();
            Share { fraction: 1.0 - ruled_out, ..Share::all(&parts) }
        }
        Condition::Leaf(leaf) => of_leaf(leaf),
    }
}

/// What the tests that are not looked up with the others leave of the ranges that the lookup of [`known`] leaves, and
/// read. None if nothing of the condition is looked up. `apart` gives the share of such a test.
fn beside_lookup<L, A>(
    condition: &Condition<Term<L, A>>,
    apart: &impl Fn(&Term<L, A>) -> Share,
) -> Option<Share> {
    match condition {
        Condition::And(parts) => {
            let looked_up: Vec<_> = parts.iter().map(|part| beside_lookup(part, apart)).collect();
            looked_up.iter().any(Option::is_some).then(|| {
                let shares = looked_up
                    .iter()
                    .zip(parts)
                    .map(|(rest, part)| rest.unwrap_or_else(|| share(part, apart)));
                Share::all(&shares.collect::<Vec<_>>())
            })
        }
        Condition::Or(parts) => {
            // A range that one part left must pass the rest of this part.
            let parts: Vec<_> = parts.iter().map(|p| beside_lookup(p, apart)).collect::<Option<_>>()?;
            let fraction = parts.iter().map(|part| part.fraction).fold(0.0, f64::max);
            Some(Share { fraction, ..Share::all(&parts) })
        }
        Condition::Leaf(Term::Known(..)) => Some(Share::COUNTED),
        Condition::Leaf(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const UNIQUE: Statistics = Statistics {
        keys: 1.0,
        pages_of_key: 3.0,
        rate: 0.001,
        ranges: 1000.0,
        summarized: 1000.0,
        rows: 100_000.0,
        selectivity: 1e-5,
        is_guess: false,
        correlation: 0.0,
        ranges_of_key: None,
    };

    /// Statistics of a test that leaves this fraction of the ranges.
    fn leaving(fraction: f64) -> Statistics {
        Statistics { rate: fraction, selectivity: 0.0, ..UNIQUE }
    }

    type Tests = Condition<Term<f64, u32>>;

    fn known_key(fraction: f64, ask: u32) -> Tests {
        Condition::Leaf(Term::Known(fraction, ask))
    }

    fn unknown_key(fraction: f64) -> Tests {
        Condition::Leaf(Term::Unknown(fraction))
    }

    /// The estimate where the lookup leaves `found` ranges in runs of two, and reads 7 pages.
    fn expect(condition: &Tests, found: Option<u64>) -> (ExpectedReads, Vec<Condition<u32>>) {
        let asked = RefCell::new(Vec::new());
        let reads = ExpectedReads::of(condition, 1000.0, &|&fraction| leaving(fraction), |known| {
            asked.borrow_mut().push(known.clone());
            let mut set = RangeSet::empty(1000);
            (0..found?).for_each(|i| set.insert(i / 2 * 10 + i % 2));
            Some((set, 7))
        });
        (reads, asked.into_inner())
    }

    fn is_near(one: f64, other: f64) -> bool {
        (one - other).abs() <= 1e-9 * other.abs().max(1.0)
    }

    #[test]
    fn statistics_give_false_positives_and_the_ranges_with_rows() {
        let share = UNIQUE.share();
        assert!(is_near(share.fraction, 0.001 + 0.001), "{share:?}");
        assert!(is_near(share.pages, 3.0 + OTHER_PAGES));
        let list = Statistics { keys: 10.0, selectivity: 1e-4, ..UNIQUE };
        assert!(is_near(list.share().fraction, 0.02));
        assert!(is_near(list.share().pages, 30.0 + OTHER_PAGES));
        let half = Statistics { summarized: 500.0, ..UNIQUE };
        assert!(is_near(half.share().fraction, 0.5 + 0.5 * 0.002));
        let clustered = Statistics { selectivity: 0.05, correlation: 1.0, ..UNIQUE };
        assert!(is_near(clustered.share().fraction, 0.001 + 0.05));
        let scattered = Statistics { selectivity: 0.05, ..UNIQUE };
        assert_eq!(scattered.share().fraction, 1.0);
        let guess = Statistics { selectivity: 0.01, is_guess: true, correlation: 1.0, ..UNIQUE };
        assert!(is_near(guess.share().fraction, 0.001 + 0.999 / 1000f64.ln()), "{:?}", guess.share());
        let known = Statistics { keys: 3.0, ranges_of_key: Some(20.0), ..scattered };
        assert!(is_near(known.share().fraction, 0.003 + 0.06), "{:?}", known.share());
    }

    #[test]
    fn tests_without_a_lookup_are_independent() {
        let statistics = |&fraction: &f64| leaving(fraction);
        let (a, b) = (Condition::Leaf(0.2), Condition::Leaf(0.5));
        let both = Condition::And(vec![a.clone(), b.clone()]);
        let either = Condition::Or(vec![a, b]);
        let reads = |condition| ExpectedReads::by_statistics(condition, 1000.0, &statistics);
        assert!(is_near(reads(&both).ranges, 100.0));
        assert!(is_near(reads(&either).ranges, 600.0));
        assert!(is_near(reads(&both).runs, scattered_runs(1000.0, 0.1)));
        assert!(is_near(reads(&either).pages, 2.0 * (3.0 + OTHER_PAGES)));
        assert!(!reads(&both).is_exact);
    }

    #[test]
    fn a_lookup_of_all_keys_is_exact() {
        let condition = Condition::And(vec![
            known_key(0.2, 1),
            Condition::Or(vec![known_key(0.5, 2), known_key(0.5, 3)]),
        ]);
        let (reads, asked) = expect(&condition, Some(10));
        assert_eq!(reads, ExpectedReads { ranges: 10.0, runs: 5.0, pages: 7.0, is_exact: true });
        let or = Condition::Or(vec![Condition::Leaf(2), Condition::Leaf(3)]);
        assert_eq!(asked, [Condition::And(vec![Condition::Leaf(1), or])]);
    }

    #[test]
    fn an_unknown_key_leaves_its_fraction_of_what_the_lookup_leaves() {
        let (reads, asked) = expect(&Condition::And(vec![known_key(0.2, 1), unknown_key(0.5)]), Some(10));
        assert_eq!(asked, [Condition::Leaf(1)]);
        assert!(is_near(reads.ranges, 5.0) && is_near(reads.runs, 5.0), "{reads:?}");
        assert!(is_near(reads.pages, 7.0 + 3.0 + OTHER_PAGES) && !reads.is_exact, "{reads:?}");
    }

    #[test]
    fn known_keys_in_an_or_with_an_unknown_key_are_looked_up_alone() {
        let or = Condition::Or(vec![known_key(0.2, 1), unknown_key(0.5)]);
        let (reads, asked) = expect(&or, Some(10));
        assert_eq!(asked, [Condition::Leaf(1)]);
        assert!(is_near(reads.ranges, 505.0), "{reads:?}");
        assert!(is_near(reads.pages, 7.0 + 3.0 + OTHER_PAGES) && !reads.is_exact, "{reads:?}");
        let (reads, _) = expect(&or, None);
        assert!(is_near(reads.ranges, 600.0), "{reads:?}");
        let (reads, asked) = expect(&Condition::And(vec![or, known_key(0.9, 2)]), Some(10));
        assert_eq!(asked, [Condition::Leaf(2), Condition::Leaf(1)]);
        assert!(is_near(reads.ranges, 5.05), "{reads:?}");
        assert!(is_near(reads.pages, 7.0 + 7.0 + 3.0 + OTHER_PAGES), "{reads:?}");
    }

    #[test]
    fn an_or_of_partly_known_parts_is_counted_once() {
        let part = Condition::And(vec![known_key(0.2, 1), unknown_key(0.5)]);
        let (reads, asked) = expect(&Condition::Or(vec![part.clone(), known_key(0.2, 2)]), Some(10));
        assert_eq!(asked, [Condition::Or(vec![Condition::Leaf(1), Condition::Leaf(2)])]);
        assert!(is_near(reads.ranges, 10.0), "the ranges of the known part all remain: {reads:?}");
        let (reads, _) = expect(&Condition::Or(vec![part.clone(), part]), Some(10));
        assert!(is_near(reads.ranges, 5.0), "{reads:?}");
    }

    #[test]
    fn without_an_answer_statistics_count() {
        let (reads, asked) = expect(&Condition::And(vec![known_key(0.2, 1), unknown_key(0.5)]), None);
        assert_eq!(asked.len(), 1);
        assert!(is_near(reads.ranges, 100.0) && !reads.is_exact, "{reads:?}");
        assert!(is_near(reads.pages, 2.0 * (3.0 + OTHER_PAGES)), "{reads:?}");
    }

    #[test]
    fn a_sample_of_keys_is_extrapolated() {
        let sample = Share { fraction: 0.1, pages: 20.0 };
        let share = sample.of_all_keys(2.0, 1000.0);
        assert!(is_near(share.fraction, 0.19) && is_near(share.pages, 40.0), "{share:?}");
        assert_eq!(sample.of_all_keys(100.0, 50.0).pages, 50.0, "no more pages than there are");
        let condition = Condition::And(vec![known_key(0.5, 1), Condition::Leaf(Term::Sampled(share))]);
        let (reads, _) = expect(&condition, Some(100));
        assert!(is_near(reads.ranges, 19.0) && is_near(reads.pages, 47.0) && !reads.is_exact, "{reads:?}");
    }

    #[test]
    fn parameters_make_no_difference_where_little_is_read_in_either_case() {
        let reads = |ranges| ExpectedReads { ranges, runs: ranges, pages: 10.0, is_exact: false };
        let usual = |these, any| ExpectedReads::for_any_parameters(reads(these), reads(any), 4.0, 1000.0);
        assert_eq!(usual(1.0, 2.0), Some(reads(2.0)));
        assert_eq!(usual(2.0, 1.0), Some(reads(2.0)));
        assert_eq!(usual(1.0, 100.0), None);
        assert_eq!(usual(100.0, 1.0), None);
    }
}
