//! A lookup in one segment: filters are looked up by reading and ANDing slices, a map by its keys.
//!
//! For a single key the slices are read in the order of its probes, until no range is left. Slices that are far apart
//! in the index are prefetched. Many keys are looked up in one pass: the slices that they need are sorted by page, each
//! page is read once, and every key has its own accumulator.

use super::Test;
use crate::pages::entry::{Segment, SegmentKind};
use crate::pages::map::{self, Map};
use crate::pages::miss::Fetch;
use crate::pages::segment;
use crate::pg::{Rel, memory, page};
use skip_filter::probes;
use skip_scan::RangeSet;
use skip_segment::{
    FIRST_PROBE_SLICE, NULLS_SLICE, OPEN_SLICE, SegmentShape, VALUES_SLICE, and_slice, or_slice,
};

/// Memory for the accumulators of one pass over many keys, in bytes; more keys take several passes. It is about what a
/// processor's caches hold for one core, because every page goes through the accumulators of all keys. Not tuned.
const PASS_BYTES: usize = 4 << 20;
/// From this number of blocks on, the slices of a single key are prefetched. In smaller segments they are close
/// together, and a narrow segment is mostly ruled out after a few slices. 512 blocks are 4 MB, a segment of some 4,000
/// ranges with default options, for which a lookup needs twelve slices of fourteen.
const WIDE_BLOCKS: u32 = 512;
/// Pages prefetched ahead of the one being read: what keeps a solid-state disk busy, twice the server's own default of
/// effective_io_concurrency since version 18. Not tuned.
const READ_AHEAD: usize = 32;

/// Adds the parts of a segment that satisfy a test to `matching`, and its open ranges to `unfiltered` too. Returns the
/// number of slices, or of a map's pages, read.
///
/// # Errors
/// Damage, or pages recycled meanwhile.
pub fn matching_ranges(
    index: Rel,
    segment: &Segment,
    test: &Test,
    matching: &mut RangeSet,
    unfiltered: &mut RangeSet,
) -> Fetch<u64> {
    match segment.kind {
        SegmentKind::Filters(_) => in_filters(index, segment, test, matching, unfiltered),
        SegmentKind::Map(_) | SegmentKind::Addition(_) => {
            matching_parts(index, segment, keys_of(test), matching)
        }
        // `super::bounds` looks order keys up. Hashes of keys rule out no range of such a segment.
        SegmentKind::Bounds => {
            matching.insert_span(segment.first_range.into(), segment.end_range().into());
            Ok(0)
        }
    }
}

/// Adds the parts of a map that may hold one of the keys to `matching`. Returns the number of pages read.
///
/// # Errors
/// Damage, or pages recycled meanwhile.
pub fn matching_parts(index: Rel, segment: &Segment, keys: &[u64], matching: &mut RangeSet) -> Fetch<u64> {
    Map::of(index, segment)?.look_up(keys, |from, to| matching.insert_span(from, to))
}

/// The keys that a test looks up in a map.
pub fn keys_of(test: &Test) -> &[u64] {
    match test {
        Test::Keys(keys) => keys,
        Test::IsNull => &[map::NULL_KEY],
        Test::Within(_) | Test::IsNotNull => &[map::VALUE_KEY],
    }
}

fn in_filters(
    index: Rel,
    segment: &Segment,
    test: &Test,
    matching: &mut RangeSet,
    unfiltered: &mut RangeSet,
) -> Fetch<u64> {
    let shape = segment.shape()?;
    let mut result = vec![0u64; shape.words()];
    let or_into = |slice: &[u8], result: &mut Vec<u64>| or_slice(result, slice);
    // The open slice must be read first: see crate::pages::segment.
    segment::read_slice(index, segment, &shape, OPEN_SLICE, |slice| or_into(slice, &mut result))?;
    unfiltered.or_bits(segment.first_range.into(), &result, segment.width.into());
    let slices = match test {
        Test::IsNull => {
            segment::read_slice(index, segment, &shape, NULLS_SLICE, |slice| or_into(slice, &mut result))?;
            1
        }
        Test::IsNotNull => {
            segment::read_slice(index, segment, &shape, VALUES_SLICE, |slice| or_into(slice, &mut result))?;
            1
        }
        // Order keys are looked up in bounds only. They rule out no range of filters.
        Test::Within(_) => {
            result.fill(u64::MAX);
            0
        }
        Test::Keys(keys) => match keys.as_slice() {
            [] => 0,
            [key] => one_key(index, segment, &shape, *key, &mut result)?,
            keys => many_keys(index, segment, &shape, keys, &mut result)?,
        },
    };
    matching.or_bits(segment.first_range.into(), &result, segment.width.into());
    Ok(slices + 1)
}

fn one_key(index: Rel, segment: &Segment, shape: &SegmentShape, key: u64, result: &mut [u64]) -> Fetch<u64> {
    let mut left = vec![u64::MAX; shape.words()];
    let mut slices = 0;
    if segment.blocks >= WIDE_BLOCKS {
        for position in probes(key, shape.filter_bits(), segment.filters()?.num_probes) {
            let (page, _) = shape.locate(FIRST_PROBE_SLICE + position);
            // If one page is cached, the others are likely to be cached too; a prefetch then costs as much as a read.
            if page::prefetch(index, segment.first_block + page) {
                break;
            }
        }
    }
    let mut ahead =
        probes(key, shape.filter_bits(), segment.filters()?.num_probes).map(|p| FIRST_PROBE_SLICE + p);
    let mut ranges = segment.width;
    loop {
        let mut batch = [0; segment::MOST_PINS];
        // A slice leaves half of the ranges or fewer, so about log2 of them are likely to be needed.
        let likely = ranges.ilog2() as usize + 1;
        let mut count = 0;
        for (place, slice) in batch[..likely.min(segment::MOST_PINS)].iter_mut().zip(&mut ahead) {
            (*place, count) = (slice, count + 1);
        }
        if count == 0 {
            break;
        }
        slices += segment::read_slices(index, segment, shape, &batch[..count], |s| and_slice(&mut left, s))?;
        ranges = left.iter().map(|word| word.count_ones()).sum();
        if ranges == 0 {
            return Ok(slices);
        }
    }
    or_words(result, &left);
    Ok(slices)
}

fn many_keys(
    index: Rel,
    segment: &Segment,
    shape: &SegmentShape,
    keys: &[u64],
    result: &mut [u64],
) -> Fetch<u64> {
    let of_key = shape.words() * 8 + usize::from(segment.filters()?.num_probes) * size_of::<WantedSlice>();
    let keys_at_once = (PASS_BYTES / of_key).max(1);
    let mut slices = 0;
    for keys in keys.chunks(keys_at_once) {
        memory::check_for_interrupts();
        slices += one_pass(index, segment, shape, keys, result)?;
    }
    Ok(slices)
}

/// A slice that a key needs: page, byte on the page, number of the key in the pass.
type WantedSlice = (u32, u32, u32);

fn one_pass(
    index: Rel,
    segment: &Segment,
    shape: &SegmentShape,
    keys: &[u64],
    result: &mut [u64],
) -> Fetch<u64> {
    let words = shape.words();
    let mut left = vec![u64::MAX; words * keys.len()];
    let mut alive = vec![true; keys.len()];
    let mut wanted: Vec<WantedSlice> =
        Vec::with_capacity(keys.len() * usize::from(segment.filters()?.num_probes));
    for (k, &key) in keys.iter().enumerate() {
        for position in probes(key, shape.filter_bits(), segment.filters()?.num_probes) {
            let (page, at) = shape.locate(FIRST_PROBE_SLICE + position);
            wanted.push((page, at, k as u32));
        }
    }
    wanted.sort_unstable();
    let pages: Vec<&[WantedSlice]> = wanted.chunk_by(|a, b| a.0 == b.0).collect();
    for (i, same_page) in pages.iter().enumerate() {
        if i % READ_AHEAD == 0 {
            memory::check_for_interrupts();
            let ahead = &pages[i..pages.len().min(i + READ_AHEAD)];
            let is_cached =
                |wanted: &&[WantedSlice]| page::prefetch(index, segment.first_block + wanted[0].0);
            let _ = ahead.iter().any(is_cached); // as for a single key, up to the first that is cached
        }
        if !same_page.iter().any(|&(_, _, k)| alive[k as usize]) {
            continue;
        }
        let (from, stride) = (same_page[0].1 as usize, shape.stride() as usize);
        let end = same_page[same_page.len() - 1].1 as usize + stride;
        segment::read_part(index, segment, same_page[0].0, from..end, |bytes| {
            for &(_, at, k) in *same_page {
                let k = k as usize;
                let slice = &bytes[at as usize - from..][..stride];
                alive[k] = alive[k] && and_slice(&mut left[k * words..(k + 1) * words], slice);
            }
        })?;
    }
    for (k, key_left) in left.chunks_exact(words).enumerate() {
        if alive[k] {
            or_words(result, key_left);
        }
    }
    Ok(wanted.len() as u64)
}

fn or_words(result: &mut [u64], words: &[u64]) {
    result.iter_mut().zip(words).for_each(|(result, word)| *result |= word);
}
