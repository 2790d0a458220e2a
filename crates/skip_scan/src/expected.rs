//! What a lookup is expected to read, on average over keys: the planner's formulas.

/// Pages that a lookup reads besides slices: meta page, directory, delta.
pub const OTHER_PAGES: f64 = 3.0;

/// Reading is little if the whole table is this number of times as much.
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

/// How many of `ranges` ranges, of `rows_a_range` rows each, have any of the `rows` rows that satisfy a condition: as
/// few as hold that number if they lie in the order of the table, as many as there are rows if they are scattered, and
/// in between by the square of ANALYZE's `correlation`, as the server does for btree.
pub fn ranges_with_rows(rows: f64, rows_a_range: f64, correlation: f64, ranges: f64) -> f64 {
    let clustered = (rows / rows_a_range).ceil();
    let order = correlation.powi(2);
    (order * clustered + (1.0 - order) * rows).min(ranges)
}

/// How many of `ranges` ranges have rows that satisfy a condition, if nothing is known but that `most` rows are a guess
/// for any value. Values that are asked for are mostly rare, and a guess that is good for a btree is far too high for
/// them. So the number of rows counts as log-uniform between 1 and `most`: each order of magnitude is as likely as
/// another. The rows are scattered, at most one in a range. This is the mean of `min(rows, ranges)`.
pub fn ranges_with_guessed_rows(most: f64, ranges: f64) -> f64 {
    if most <= 1.0 || ranges <= 1.0 {
        return most.min(ranges);
    }
    let scattered = most.min(ranges);
    (scattered - 1.0 + ranges * (most / scattered).ln()) / most.ln()
}

/// In how many runs of consecutive ones the part `part` (0 to 1) of `ranges` ranges lies, if they are scattered: a run
/// begins where the range before does not survive.
pub fn scattered_runs(ranges: f64, part: f64) -> f64 {
    ranges * part * (1.0 - part) + part
}

/// Slices that one key takes in a segment of `width` ranges with `num_probes` probes a key, with the slice of the open
/// ranges. A slice leaves half of the ranges, so that a narrow segment is mostly ruled out before all probes are made.
pub fn slices_of_key(width: f64, num_probes: u8) -> f64 {
    (width.log2().max(0.0) + 2.0).min(num_probes.into()) + 1.0
}

/// The part of the ranges that all keys of a list leave, where some of them left the part `survived`, and there are
/// `times` as many in all.
pub fn part_of_all_keys(survived: f64, times: f64) -> f64 {
    1.0 - (1.0 - survived.min(1.0)).powf(times)
}

/// Whether reading `heap_blocks` blocks of a table, and `slices` slices for that, takes at most a tenth of reading all
/// of its `table_blocks` blocks. Then planning does not look parameters up: the custom and the generic plan get the
/// same estimate, and the server changes to the generic plan.
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
    fn rows_in_the_order_of_the_table_are_in_few_ranges() {
        assert_eq!(ranges_with_rows(250.0, 100.0, 1.0, 1000.0), 3.0);
        assert_eq!(ranges_with_rows(250.0, 100.0, -1.0, 1000.0), 3.0);
        assert_eq!(ranges_with_rows(250.0, 100.0, 0.0, 1000.0), 250.0);
        assert_eq!(ranges_with_rows(250.0, 100.0, 0.0, 100.0), 100.0, "there are no more");
        assert!((ranges_with_rows(300.0, 100.0, 0.5, 1000.0) - (0.75 + 225.0)).abs() < 1e-9);
    }

    #[test]
    fn a_guess_stands_for_fewer_rows() {
        assert_eq!(ranges_with_guessed_rows(0.5, 1000.0), 0.5);
        assert_eq!(ranges_with_guessed_rows(500.0, 1.0), 1.0);
        assert!((ranges_with_guessed_rows(1000.0, 1000.0) - 999.0 / 1000f64.ln()).abs() < 1e-9);
        assert!((ranges_with_guessed_rows(100.0, 1000.0) - 99.0 / 100f64.ln()).abs() < 1e-9);
        let of_many = (999.0 + 1000.0 * 10f64.ln()) / 10_000f64.ln();
        assert!((ranges_with_guessed_rows(10_000.0, 1000.0) - of_many).abs() < 1e-9);
        assert!((ranges_with_guessed_rows(1.000_001, 1000.0) - 1.0).abs() < 1e-3, "continuous at one row");
        assert!(ranges_with_guessed_rows(1e12, 1000.0) < 1000.0);
    }

    #[test]
    fn all_ranges_are_one_run_and_few_are_one_each() {
        assert_eq!(scattered_runs(1000.0, 1.0), 1.0);
        assert_eq!(scattered_runs(1000.0, 0.0), 0.0);
        assert!((scattered_runs(1000.0, 0.001) - 1.0).abs() < 1e-9);
        assert!((scattered_runs(1000.0, 0.5) - 250.5).abs() < 1e-9);
        assert_eq!(scattered_runs(0.0, 0.5), 0.5, "a number, also of no ranges");
    }

    #[test]
    fn a_narrow_segment_spares_probes() {
        assert_eq!(slices_of_key(1.0, 7), 3.0);
        assert_eq!(slices_of_key(8.0, 7), 6.0);
        assert_eq!(slices_of_key(65_024.0, 7), 8.0);
        assert_eq!(slices_of_key(0.5, 7), 3.0);
    }

    #[test]
    fn more_keys_leave_more_but_never_more_than_all() {
        assert!((part_of_all_keys(0.1, 2.0) - 0.19).abs() < 1e-9);
        assert_eq!(part_of_all_keys(0.3, 1.0), 1.0 - 0.7);
        assert_eq!(part_of_all_keys(1.5, 8.0), 1.0);
        assert_eq!(part_of_all_keys(0.0, 8.0), 0.0);
    }

    #[test]
    fn a_tenth_of_the_table_is_little() {
        assert!(is_little(60.0, 40.0, 1000.0));
        assert!(!is_little(60.0, 41.0, 1000.0));
    }
}
