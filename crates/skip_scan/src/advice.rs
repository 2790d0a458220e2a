//! What kinds of index cost, and what they save, for lookups of single keys of a column: the formulas of skip_advise.
//!
//! All of them are estimates from a sample of the table, good to about a third. Sizes of btree and BRIN follow from
//! their formats as PostgreSQL documents them; the size of a map is that of sorted numbers in Elias and Fano's code.

use crate::expected::OTHER_PAGES;

/// Bytes of a page.
const PAGE: f64 = 8192.0;
/// Part of the leaf pages of a btree that is full: its default fillfactor.
const BTREE_FILL: f64 = 0.9;
/// Bytes of a btree entry besides its key: line pointer (ItemIdData) and tuple header (IndexTupleData).
const BTREE_ENTRY: f64 = 4.0 + 8.0;
/// Bytes of each further row of a key in a btree, which stores them as a posting list of TIDs.
const BTREE_ROW: f64 = 6.0;
/// Pages per range of BRIN by default (BRIN_DEFAULT_PAGES_PER_RANGE).
const BRIN_PAGES: f64 = 128.0;
/// BRIN bloom's default false-positive rate (BLOOM_DEFAULT_FALSE_POSITIVE_RATE).
const BRIN_BLOOM_RATE: f64 = 0.01;
/// BRIN bloom's default number of distinct values per range: a tenth (BLOOM_DEFAULT_NDISTINCT_PER_RANGE) of the rows
/// that may fit, 291 per page (MaxHeapTuplesPerPage).
const BRIN_BLOOM_DISTINCT: f64 = 0.1 * 291.0 * BRIN_PAGES;
/// Bytes of a BRIN entry besides its values: line pointer, tuple header and alignment.
const BRIN_ENTRY: f64 = 16.0;
/// Fence entries of a page of a map (`skip_map::fence`).
const FENCES: f64 = 1012.0;
/// Size of a map in units of that of its numbers: an allowance for the directories of blocks, pages that are not full,
/// and fence pages.
const MAP_OVERHEAD: f64 = 1.06;
/// A lookup that reads more than this fraction of the table saves too little.
const MOST_OF_TABLE: f64 = 0.1;
/// A table of fewer pages, 8 MB, is read as a whole in a few milliseconds.
const LEAST_PAGES: f64 = 1000.0;
/// The correlation from which on values count as in the order of the table, but for a few rows.
const ORDERED: f64 = 0.98;

/// What a sample says of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnFacts {
    /// Pages of the table.
    pub pages: f64,
    /// Rows of the table whose value is not NULL.
    pub rows: f64,
    /// Distinct values of the table.
    pub keys: f64,
    /// Pairs of a value and a page that has it.
    pub pairs: f64,
    /// Pages of the ranges that a map of the column has.
    pub range_pages: f64,
    /// Pairs of a value and such a range that has it.
    pub range_pairs: f64,
    /// Bytes of a value on average.
    pub width: f64,
    /// The false-positive rate of the column, if it does not follow from the size of the table.
    pub rate: Option<f64>,
    /// ANALYZE's correlation of the values with the order of the table, if it is known.
    pub correlation: Option<f64>,
    /// Whether the type has a default operator class of btree.
    pub has_btree: bool,
    /// Whether BRIN's default operator class for the type has a minimum and a maximum.
    pub has_minmax: bool,
}

/// A kind of index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A skip index with its default options.
    Skip,
    /// A btree.
    Btree,
    /// BRIN with Bloom filters and default options.
    BrinBloom,
    /// BRIN with the least and the greatest value of each range.
    BrinMinmax,
    /// No index.
    SequentialScan,
}

/// What an index costs, and what a lookup of one key reads with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The kind of index.
    pub method: Method,
    /// Its size.
    pub index_bytes: f64,
    /// Index pages that a lookup of one key reads.
    pub index_pages: f64,
    /// Pages of the table that it reads.
    pub table_pages: f64,
}

impl Candidate {
    fn pages(&self) -> f64 {
        self.index_pages + self.table_pages
    }
}

/// Why a method is recommended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The table is too small for any index.
    SmallTable,
    /// The sample has no value.
    NoValues,
    /// A value is on too many pages for any index.
    FrequentValues,
    /// The values are in the order of the table.
    Ordered,
    /// The map is much smaller than the btree.
    SmallerThanBtree,
    /// The btree is hardly larger than the map.
    BtreeIsSmall,
    /// The type has no btree.
    NoBtree,
}

/// The candidates for lookups of single keys.
pub fn candidates(facts: &ColumnFacts) -> [Candidate; 5] {
    [skip(facts), btree(facts), brin_bloom(facts), brin_minmax(facts), sequential(facts)]
}

/// A skip index that finds parts of values, and whether it is worth it: the table is large enough, and a part is on few
/// of its pages. `facts` are those of the parts.
pub fn of_parts(facts: &ColumnFacts) -> (Candidate, bool) {
    let is_worth_it =
        facts.pages >= LEAST_PAGES && facts.rows > 0.0 && pages_of_key(facts) <= facts.pages * MOST_OF_TABLE;
    (skip(facts), is_worth_it)
}

/// The method to recommend among [`candidates`], and why.
pub fn recommend(facts: &ColumnFacts) -> (Method, Why) {
    let [skip, btree, _, minmax, _] = candidates(facts);
    if facts.pages < LEAST_PAGES {
        return (Method::SequentialScan, Why::SmallTable);
    }
    if facts.rows <= 0.0 {
        return (Method::SequentialScan, Why::NoValues);
    }
    if pages_of_key(facts) > facts.pages * MOST_OF_TABLE {
        return (Method::SequentialScan, Why::FrequentValues);
    }
    if is_ordered(facts) && minmax.pages() <= 2.0 * BRIN_PAGES + pages_of_key(facts) {
        return (Method::BrinMinmax, Why::Ordered);
    }
    if !facts.has_btree {
        return (Method::Skip, Why::NoBtree);
    }
    if skip.index_bytes * 2.0 <= btree.index_bytes {
        (Method::Skip, Why::SmallerThanBtree)
    } else {
        (Method::Btree, Why::BtreeIsSmall)
    }
}

fn is_ordered(facts: &ColumnFacts) -> bool {
    facts.has_minmax && facts.correlation.is_some_and(|correlation| correlation.abs() >= ORDERED)
}

/// Pages of the table that have a given value, on average over values.
fn pages_of_key(facts: &ColumnFacts) -> f64 {
    (facts.pairs / facts.keys.max(1.0)).max(1.0).min(facts.pages)
}

fn skip(facts: &ColumnFacts) -> Candidate {
    let parts = (facts.pages / facts.range_pages).max(1.0);
    let pairs = facts.range_pairs.max(1.0);
    // Fingerprints that make less than one page false at ten times the size.
    let universe = 10.0 * pairs.max(10e6) * facts.range_pages * parts;
    let beyond_pairs = facts.rate.map_or(universe / pairs, f64::recip);
    let bits = 2.0 + beyond_pairs.log2().max(0.0);
    let bytes = pairs * bits / 8.0 * MAP_OVERHEAD + 2.0 * PAGE;
    let levels = ((bytes / PAGE).ln() / FENCES.ln()).ceil().max(0.0);
    let ranges = (facts.range_pairs / facts.keys.max(1.0)).max(1.0);
    Candidate {
        method: Method::Skip,
        index_bytes: bytes,
        index_pages: 1.0 + levels + OTHER_PAGES,
        table_pages: (ranges * facts.range_pages + facts.rate.unwrap_or(0.0) * facts.pages).min(facts.pages),
    }
}

fn btree(facts: &ColumnFacts) -> Candidate {
    let width = (facts.width / 8.0).ceil() * 8.0;
    let bytes = (facts.keys * (BTREE_ENTRY + width) + (facts.rows - facts.keys).max(0.0) * BTREE_ROW)
        / BTREE_FILL
        + 2.0 * PAGE;
    let fan_out = (PAGE * 0.7 / (BTREE_ENTRY + width)).max(2.0);
    let levels = ((bytes / PAGE).ln() / fan_out.ln()).ceil().max(0.0);
    let leaves = facts.rows / facts.keys.max(1.0) * BTREE_ROW / PAGE;
    Candidate {
        method: Method::Btree,
        index_bytes: bytes,
        index_pages: 1.0 + levels + leaves,
        table_pages: pages_of_key(facts),
    }
}

fn brin_bloom(facts: &ColumnFacts) -> Candidate {
    let ranges = (facts.pages / BRIN_PAGES).max(1.0);
    let bits = BRIN_BLOOM_DISTINCT * BRIN_BLOOM_RATE.ln().abs() / std::f64::consts::LN_2.powi(2);
    let bytes = ranges * (bits / 8.0 + BRIN_ENTRY) + 2.0 * PAGE;
    let keys = (facts.pairs / ranges).min(facts.rows / ranges);
    let probes = (bits / BRIN_BLOOM_DISTINCT * std::f64::consts::LN_2).round();
    let rate = (1.0 - (-probes * keys / bits).exp()).powf(probes);
    let with_key = pages_of_key(facts).min(ranges);
    let read = (with_key + rate * (ranges - with_key)).min(ranges);
    Candidate {
        method: Method::BrinBloom,
        index_bytes: bytes,
        index_pages: bytes / PAGE,
        table_pages: (read * BRIN_PAGES).min(facts.pages),
    }
}

fn brin_minmax(facts: &ColumnFacts) -> Candidate {
    let ranges = (facts.pages / BRIN_PAGES).max(1.0);
    let bytes = ranges * (BRIN_ENTRY + 2.0 * facts.width) + 3.0 * PAGE;
    let table_pages =
        if is_ordered(facts) { pages_of_key(facts) + BRIN_PAGES + widened_pages(facts) } else { facts.pages };
    Candidate {
        method: Method::BrinMinmax,
        index_bytes: bytes,
        index_pages: bytes / PAGE,
        table_pages: table_pages.min(facts.pages),
    }
}

/// Pages of the ranges of BRIN whose bounds rows in the wrong place have widened. If a fraction `f` of the rows has
/// values from anywhere, the correlation is about 1 - f. One such row in a range makes it match about half of all
/// lookups, two or more nearly all.
fn widened_pages(facts: &ColumnFacts) -> f64 {
    let misplaced = 1.0 - facts.correlation.map_or(0.0, f64::abs).min(1.0);
    let rows_a_range = facts.rows / (facts.pages / BRIN_PAGES).max(1.0);
    let widened = 1.0 - (1.0 - misplaced).powf(rows_a_range);
    facts.pages * widened / 2.0
}

fn sequential(facts: &ColumnFacts) -> Candidate {
    let (method, table_pages) = (Method::SequentialScan, facts.pages);
    Candidate { method, index_bytes: 0.0, index_pages: 0.0, table_pages }
}

/// An estimate of the distinct values of a table from those of some of its ranges: the table has `pairs` pairs of a
/// value and a range that has it, the sampled ranges have `sampled` of them with `distinct` distinct values, of which
/// `once` are in one sampled range only.
///
/// The estimator is Haas and Stokes' Duj1, as in ANALYZE, of pairs instead of rows: rows of one range are no random
/// sample. If all rows of a value are next to each other, a range has either all of them or none. Of rows, the
/// estimator would conclude that the table has no more values than the sample.
pub fn distinct_values(pairs: f64, sampled: f64, distinct: f64, once: f64) -> f64 {
    if sampled <= 0.0 {
        return 0.0;
    }
    let rest = sampled - once + once * sampled / pairs.max(sampled);
    (sampled * distinct / rest.max(1.0)).clamp(distinct, pairs.max(distinct))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 million unique 16-byte keys, 154 rows per page: the table of docs/benchmarks.md.
    const UNIQUE: ColumnFacts = ColumnFacts {
        pages: 130_000.0,
        rows: 20e6,
        keys: 20e6,
        pairs: 20e6,
        range_pages: 1.0,
        range_pairs: 20e6,
        width: 16.0,
        rate: None,
        correlation: Some(0.0),
        has_btree: true,
        has_minmax: true,
    };

    fn of(facts: &ColumnFacts, method: Method) -> Candidate {
        candidates(facts).into_iter().find(|candidate| candidate.method == method).unwrap()
    }

    #[test]
    fn unique_keys_get_a_map_of_a_tenth_of_the_btree() {
        assert_eq!(recommend(&UNIQUE), (Method::Skip, Why::SmallerThanBtree));
        let (skip, btree) = (of(&UNIQUE, Method::Skip), of(&UNIQUE, Method::Btree));
        // Measured: 58 MB and 602 MB.
        assert!((45e6..80e6).contains(&skip.index_bytes), "{skip:?}");
        assert!((500e6..720e6).contains(&btree.index_bytes), "{btree:?}");
        assert!(skip.index_pages <= 7.0 && skip.table_pages == 1.0, "{skip:?}");
        assert!((3.0..6.0).contains(&btree.index_pages) && btree.table_pages == 1.0, "{btree:?}");
    }

    #[test]
    fn frequent_values_and_small_tables_get_nothing() {
        let status = ColumnFacts { keys: 5.0, pairs: 5.0 * 130_000.0, range_pairs: 650_000.0, ..UNIQUE };
        assert_eq!(recommend(&status), (Method::SequentialScan, Why::FrequentValues));
        let small = ColumnFacts { pages: 500.0, rows: 70_000.0, keys: 70_000.0, ..UNIQUE };
        assert_eq!(recommend(&small), (Method::SequentialScan, Why::SmallTable));
    }

    #[test]
    fn values_in_the_order_of_the_table_get_a_minimum_and_a_maximum() {
        let ordered = ColumnFacts { correlation: Some(-1.0), ..UNIQUE };
        assert_eq!(recommend(&ordered), (Method::BrinMinmax, Why::Ordered));
        assert!(of(&ordered, Method::BrinMinmax).table_pages < 200.0);
        assert_eq!(of(&UNIQUE, Method::BrinMinmax).table_pages, UNIQUE.pages);
        let unordered_type = ColumnFacts { has_minmax: false, ..ordered };
        assert_eq!(recommend(&unordered_type).0, Method::Skip);
    }

    #[test]
    fn one_row_of_a_hundred_in_the_wrong_place_makes_bounds_useless() {
        let late = ColumnFacts { correlation: Some(0.99), ..UNIQUE };
        assert_eq!(recommend(&late).0, Method::Skip);
        assert!(of(&late, Method::BrinMinmax).table_pages > 0.4 * UNIQUE.pages);
        // ANALYZE finds such correlations where neighbours are swapped.
        let swapped = ColumnFacts { correlation: Some(1.0 - 1e-8), ..UNIQUE };
        assert_eq!(recommend(&swapped).0, Method::BrinMinmax);
    }

    #[test]
    fn columns_without_values_and_types_without_an_order() {
        let empty = ColumnFacts { rows: 0.0, keys: 0.0, pairs: 0.0, range_pairs: 0.0, ..UNIQUE };
        assert_eq!(recommend(&empty), (Method::SequentialScan, Why::NoValues));
        let repeated = ColumnFacts { rows: 1e5, keys: 100.0, pairs: 1e5, range_pairs: 1e5, ..UNIQUE };
        assert_eq!(recommend(&repeated).0, Method::Btree);
        assert_eq!(recommend(&ColumnFacts { has_btree: false, ..repeated }), (Method::Skip, Why::NoBtree));
    }

    #[test]
    fn an_overfull_brin_bloom_reads_most_of_the_table() {
        let bloom = of(&UNIQUE, Method::BrinBloom);
        assert!(bloom.table_pages > 0.8 * UNIQUE.pages, "19,700 values per range, made for 3,725: {bloom:?}");
        let fewer = ColumnFacts { rows: 2e6, keys: 2e6, pairs: 2e6, range_pairs: 2e6, ..UNIQUE };
        assert!(of(&fewer, Method::BrinBloom).table_pages < 0.01 * UNIQUE.pages);
    }

    #[test]
    fn parts_of_values_have_a_rate_of_their_own() {
        let facts = ColumnFacts { rate: Some(0.001), keys: 2e6, ..UNIQUE };
        let (candidate, is_worth_it) = of_parts(&facts);
        assert!(is_worth_it);
        assert_eq!(candidate.method, Method::Skip);
        // Twelve bits a pair, and a thousandth of the table in vain.
        assert!(
            (candidate.index_bytes / (20e6 * 12.0 / 8.0 * MAP_OVERHEAD) - 1.0).abs() < 0.01,
            "{candidate:?}"
        );
        assert!((candidate.table_pages - 140.0).abs() < 1e-6, "{candidate:?}");
        assert!(!of_parts(&ColumnFacts { keys: 100.0, ..facts }).1, "on every page");
        assert!(!of_parts(&ColumnFacts { pages: 100.0, ..facts }).1, "a small table");
    }

    #[test]
    fn distinct_values_of_some_ranges() {
        assert_eq!(distinct_values(1e6, 1000.0, 1000.0, 1000.0), 1e6, "each in one range");
        assert_eq!(distinct_values(1e6, 1000.0, 10.0, 0.0), 10.0, "each in many ranges");
        assert_eq!(distinct_values(1000.0, 1000.0, 700.0, 500.0), 700.0, "the whole table");
        assert_eq!(distinct_values(1e6, 0.0, 0.0, 0.0), 0.0);
    }
}
