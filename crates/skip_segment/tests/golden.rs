//! What is on disk, frozen: the bytes of segments.
//!
//! The expected values were computed by a second implementation (the reference XXH3 library, and the rest written
//! anew from the modules' texts in another language). **A test that fails here means that indexes written by
//! earlier builds would be read wrong**: the change is a new hash scheme or a new format version, not new values.

use crate::common::Segment;
use skip_filter::{checksum, hash_i64};
use skip_segment::{RangeState, SegmentBuilder};

const SEED: u64 = 0x0123_4567_89ab_cdef;

/// A builder of `width` ranges; range `r` has the keys `100 * r ..` of the given number, and the given state.
fn builder(
    width: i64,
    filter_bits: u32,
    num_probes: u8,
    keys: impl Fn(i64) -> i64,
    state: impl Fn(i64) -> RangeState,
) -> SegmentBuilder {
    let mut builder = SegmentBuilder::new(filter_bits, num_probes);
    for range in 0..width {
        builder.push(state(range), (0..keys(range)).map(|key| hash_i64(SEED, 100 * range + key)));
    }
    builder
}

#[test]
fn bytes_of_a_narrow_segment() {
    let state = |r| RangeState { open: r == 3, nulls: r % 2 == 0, values: r != 1 };
    let segment = Segment::of(&builder(5, 70, 4, |r| r * 3, state), 24);
    let hex: String = segment.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let pages = [
        "08151d001e0014001c180014081c100400001400180a1a06",
        "18100800100408080c14080a14080c18100400100810001e",
        "10180a020c10020808101e10121000041414180018061010",
        "080000000000000000000000000000000000000000000000",
    ];
    assert_eq!(hex, pages.concat());
}

#[test]
fn bytes_of_a_wide_segment() {
    let state = |r| RangeState { open: r % 7 == 0, nulls: r % 5 == 0, values: r % 3 != 0 };
    let segment = Segment::of(&builder(70, 100, 3, |r| r % 9, state), 200);
    let first: String = segment.bytes[..48].iter().map(|byte| format!("{byte:02x}")).collect();
    let states = [
        "81402010080402810000000000000000",
        "21841042082184100200000000000000",
        "b66ddbb66ddbb66d1b00000000000000",
    ];
    assert_eq!(first, states.concat());
    assert_eq!(segment.bytes.len(), 1800);
    assert_eq!(checksum(&segment.bytes, 0), 0x4da5_a7a5_51a2_0bf3);
}
