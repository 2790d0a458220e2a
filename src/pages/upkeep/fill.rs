//! How full filters are, range by range, estimated from some of a segment's slices.
//!
//! A lookup of an absent key reads a range in vain if all of its `k` probes hit bits that are set. If `s` of `n` bits
//! of a filter that were looked at are set, then `C(s, k) / C(n, k)` is an estimate of this probability that is right
//! on average. (The fill `s / n` to the power of `k` is too high on average, ten times for a small `n`.) The estimate
//! of one range says little, but the average over 64 of them decides whether they are worth rebuilding.

use crate::pages::entry::{FilterSize, Segment};
use crate::pages::miss::Fetch;
use crate::pages::segment;
use crate::pg::{Rel, memory};
use skip_segment::{FIRST_PROBE_SLICE, OPEN_SLICE};

/// Number of ranges whose rates are averaged.
pub const GROUP: usize = 64;
/// Slices that are looked at, at least, if there are as many. All slices of a page are: of a narrow segment those of
/// one page.
const LEAST_SAMPLES: u32 = 128;

/// What a sample of a segment's slices says about its ranges.
pub struct FillSample {
    /// The expected false-positive rate of each range. That of an open range is 0.
    pub rates: Vec<f64>,
    /// The largest number of distinct keys that the ranges of a group are estimated to have on average.
    pub most_keys: f64,
    /// Number of ranges that are not open.
    pub closed: u32,
}

/// Samples a segment of filters.
///
/// # Errors
/// Damage, or a page that does not belong to the segment any more.
pub fn sample(index: Rel, segment: &Segment) -> Fetch<FillSample> {
    let FilterSize { bits, num_probes } = segment.filters()?;
    let shape = segment.shape()?;
    let width = segment.width as usize;
    let is_set = |slice: &[u8], range: usize| slice[range / 8] >> (range % 8) & 1 != 0;
    let mut open = vec![false; width];
    segment::read_slice(index, segment, &shape, OPEN_SLICE, |slice| {
        open.iter_mut().enumerate().for_each(|(range, open)| *open = is_set(slice, range));
    })?;
    let (mut counts, mut samples) = (vec![0u32; width], 0);
    let pages = LEAST_SAMPLES.div_ceil(shape.slices_per_page()).min(shape.pages());
    for i in 0..pages {
        memory::check_for_interrupts();
        let page = (u64::from(i) * u64::from(shape.pages()) / u64::from(pages)) as u32;
        let first = page * shape.slices_per_page();
        let end = (first + shape.slices_per_page()).min(shape.slices());
        let slices = end.saturating_sub(first.max(FIRST_PROBE_SLICE));
        let skipped = (end - first - slices) as usize;
        samples += slices;
        segment::read_page(index, segment, page, |bytes| {
            let all = bytes.chunks_exact(shape.stride() as usize).skip(skipped).take(slices as usize);
            for slice in all {
                count(slice, &mut counts);
            }
        })?;
    }
    let by_count: Vec<f64> = (0..=samples).map(|set| rate(set, samples, bits, num_probes)).collect();
    let rate_of = |(open, count): (&bool, &u32)| if *open { 0.0 } else { by_count[*count as usize] };
    let rates = open.iter().zip(&counts).map(rate_of).collect();
    let groups = open.chunks(GROUP).zip(counts.chunks(GROUP));
    let most_keys = groups.map(|(open, counts)| {
        let closed = || open.iter().zip(counts).filter(|(open, _)| !**open).map(|(_, &count)| count);
        let of_group = f64::from(samples.max(1)) * closed().count().max(1) as f64;
        let empty = 1.0 - f64::from(closed().sum::<u32>()) / of_group;
        -f64::from(bits) / f64::from(num_probes.max(1)) * empty.max(1.0 / f64::from(bits)).ln()
    });
    let most_keys = most_keys.fold(0.0, f64::max);
    let closed = open.iter().filter(|open| !**open).count() as u32;
    Ok(FillSample { rates, most_keys, closed })
}

/// Counts the bits that are set, range by range.
fn count(slice: &[u8], counts: &mut [u32]) {
    for (byte, counts) in slice.iter().zip(counts.chunks_mut(8)) {
        for (bit, count) in counts.iter_mut().enumerate() {
            *count += u32::from(byte >> bit & 1);
        }
    }
}

/// The estimated probability that all probes hit, if `set` of `samples` bits are set, out of `bits`.
fn rate(set: u32, samples: u32, bits: u32, num_probes: u8) -> f64 {
    let probes = u32::from(num_probes);
    if samples == bits || samples < probes {
        return skip_filter::rate_at_fill(f64::from(set) / f64::from(samples.max(1)), num_probes);
    }
    if set < probes {
        return 0.0;
    }
    (0..probes).map(|i| f64::from(set - i) / f64::from(samples - i)).product()
}
