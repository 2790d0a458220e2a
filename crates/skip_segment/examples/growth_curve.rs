//! Index pages that the lookup of an absent key reads in a table that grows by inserts alone: a simulation of maps of a
//! near-unique column up to 10^10 rows, and the formula up to 10^11. `make bench-growth` makes a table and a plot of
//! docs/growth.md from it.
//!
//! Run with `cargo run --release -p skip_segment --example growth_curve -- BYTES_PER_ROW`: the measured size of the
//! index divided by the number of rows. Prints CSV with these columns: rows; pages of a lookup in a new index;
//! segments, average, most, and bound; pages, average and most. Averages and maxima are over the growth from the size
//! before.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use skip_map::{PAGE_BYTES, RunShape};
use skip_segment::growing::GrowthSimulation;
use skip_segment::growth::Rule;

/// Rows of a block range: 16 pages with 75 rows each, as in the table of the benchmark.
const ROWS_OF_RANGE: u64 = 1200;
const PAGE: u64 = PAGE_BYTES as u64;
/// Block ranges of a batch of maps.
const RANGES_OF_BATCH: u32 = 2;
/// Default of `pg_skip.merge_pages`. A batch takes a step, and so does each 16th page of the table, two of which are in
/// a batch.
const MERGE_PAGES: u64 = 32;
const STEPS_OF_BATCH: u64 = 3;
/// Default of `pg_skip.key_part_pages`, and the most parts.
const KEY_PART_PAGES: u64 = 32;
const MOST_PARTS: u64 = 64;
/// Entries of a directory page.
const ENTRIES: u64 = 254;

/// Maps of the parts of the keys into which a segment with so many bytes is divided.
fn parts(bytes: u64) -> u64 {
    let parts = (bytes / PAGE / KEY_PART_PAGES).clamp(1, MOST_PARTS);
    1 << parts.ilog2()
}

/// Pages that the lookup of a key is likely to read in such a segment.
fn pages_of_key(bytes: u64, bytes_per_row: f64) -> u64 {
    let shape = RunShape::of_data_pages(bytes.div_ceil(PAGE * parts(bytes)) as u32);
    let numbers = (bytes as f64 / bytes_per_row) as u64 / parts(bytes);
    u64::from(shape.guess_level_of(numbers).unwrap_or(shape.levels())) + 1
}

/// Pages of a lookup in segments of these sizes, the meta page and the directory included.
fn pages(segments: &[u64], bytes_per_row: f64) -> u64 {
    let entries: u64 = segments.iter().map(|&bytes| parts(bytes)).sum();
    let of_segments = segments.iter().map(|&bytes| pages_of_key(bytes, bytes_per_row));
    1 + entries.div_ceil(ENTRIES) + of_segments.sum::<u64>()
}

fn main() {
    let bytes_per_row: f64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2.8);
    let of_ranges = |ranges: u64| (ranges as f64 * ROWS_OF_RANGE as f64 * bytes_per_row) as u64;
    let batch = u64::from(RANGES_OF_BATCH);
    let step = STEPS_OF_BATCH * MERGE_PAGES * PAGE;
    let mut growing =
        GrowthSimulation::new(Rule::MAPS, RANGES_OF_BATCH, of_ranges(batch), MERGE_PAGES * PAGE, step);
    let mut ranges = 0;
    for exponent in 6..=10 {
        let last = 10u64.pow(exponent) / ROWS_OF_RANGE;
        let (mut batches, mut segments, mut sum, mut most_met, mut most_pages) = (0u64, 0, 0, 0, 0);
        while ranges < last {
            growing.add_batch();
            ranges += batch;
            let sizes: Vec<u64> = growing.sizes().collect();
            let read = pages(&sizes, bytes_per_row);
            (batches, segments, sum) = (batches + 1, segments + sizes.len() as u64, sum + read);
            (most_met, most_pages) = (most_met.max(sizes.len()), most_pages.max(read));
        }
        let average = |sum: u64| sum as f64 / batches as f64;
        println!(
            "{},{},{:.1},{most_met},{},{:.1},{most_pages}",
            10u64.pow(exponent),
            pages(&[of_ranges(last)], bytes_per_row),
            average(segments),
            Rule::MAPS.bound(last as u32),
            average(sum)
        );
        eprintln!("10^{exponent}: each batch was written {:.1} times", growing.times_written());
    }
    let last = 10u64.pow(11) / ROWS_OF_RANGE;
    let segments = Rule::MAPS.most_segments(last as u32);
    // As many segments as are kept, each eight times as large as the next.
    let sizes: Vec<u64> = (0..segments).map(|level| of_ranges(last >> (3 * level))).collect();
    println!(
        "{},{},{segments},,{},{},",
        10u64.pow(11),
        pages(&[of_ranges(last)], bytes_per_row),
        Rule::MAPS.bound(last as u32),
        pages(&sizes, bytes_per_row)
    );
}
