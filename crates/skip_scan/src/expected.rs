//! What a lookup is expected to read, on average over keys: the planner's formulas.

/// Pages that a lookup reads besides slices: meta page, directory, delta.
pub const OTHER_PAGES: f64 = 3.0;

/// How many times as much as a lookup reads the whole table must have for that to be little.
const LITTLE: f64 = 10.0;

/// What averages are taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Keys as frequent as statistics say of those that are known.
    TheseKeys,
    /// All keys: what a plan is estimated by that is made for any.
    AnyKeys,
}

/// How many of a table's `ranges` survive: those not summarized, and of the others
/// `summarized * min(1, false_positives + with_rows / ranges)`, where `false_positives` is the false-positive rate
/// times the number of keys, and `with_rows` the number of ranges with rows that satisfy the condition.
pub fn surviving_ranges(ranges: f64, summarized: f64, false_positives: f64, with_rows: f64) -> f64 {
    ranges - summarized + summarized * (false_positives + with_rows / ranges).min(1.0)
}

/// Whether reading so many blocks of a table of `table_blocks`, and so many slices for it, is little whatever else the
/// planner may think of. What is known of parameters is then not worth asking the index about: a plan for all values is
/// as good as one for each, and the server's plan cache keeps the first if neither looks dearer.
pub fn is_little(heap_blocks: f64, slices: f64, table_blocks: f64) -> bool {
    (heap_blocks + slices) * LITTLE <= table_blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_without_a_filter_survive() {
        assert_eq!(surviving_ranges(100.0, 0.0, 0.001, 1.0), 100.0);
        assert_eq!(surviving_ranges(100.0, 60.0, 0.0, 0.0), 40.0);
    }

    #[test]
    fn false_positives_and_ranges_with_rows_add_up_to_all_at_most() {
        assert!((surviving_ranges(1000.0, 1000.0, 0.01, 5.0) - 15.0).abs() < 1e-9);
        assert_eq!(surviving_ranges(1000.0, 1000.0, 0.9, 500.0), 1000.0);
    }

    #[test]
    fn a_tenth_of_the_table_is_little() {
        assert!(is_little(60.0, 40.0, 1000.0));
        assert!(!is_little(60.0, 41.0, 1000.0));
    }
}
