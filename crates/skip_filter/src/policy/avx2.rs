//! Lookups of policy `rocksdb` by the CPU's wide registers (AVX2): eight probes at once.
//!
//! A line's 512 bits fit two registers of eight 32-bit words. The upper 4 bits of a probe's state are the word, the
//! next 5 the bit in it. One instruction multiplies eight states, two pick their words, one tests the bits. So a lookup
//! takes a quarter of the instructions that one probe after the other takes. That is what limits lookups back to back:
//! the fewer instructions a lookup has, the more lookups the CPU has under way while their lines come from a slower
//! cache.
//!
//! The answers are those of one probe after the other: `tests/policy_properties.rs` compares them.
//!
//! This is the only module of the crate with unsafe code: loads into wide registers, and the call of a function for
//! CPUs that have AVX2.

#![allow(unsafe_code)]

use super::filter_policy::{BodyTest, Lookup, Prepared};
use super::geometry::Geometry;
use super::line::{GOLDEN, LINE, first_state, line, lines};
use std::arch::x86_64::{
    __m256i, _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_loadu_si256,
    _mm256_mullo_epi32, _mm256_permutevar8x32_epi32, _mm256_set1_epi32, _mm256_slli_epi32, _mm256_sllv_epi32,
    _mm256_srli_epi32, _mm256_testc_si256,
};

/// Probes that are made at once.
const LANES: usize = 8;

/// For each number of probes up to [`LANES`]: what the state of a key's first probe is multiplied by to be that of each
/// probe. Lanes without a probe repeat the first one.
static FACTORS: [[u32; LANES]; LANES + 1] = {
    let mut factors = [[1u32; LANES]; LANES + 1];
    let mut num_probes = 0;
    while num_probes <= LANES {
        let mut i = 1;
        while i < num_probes {
            factors[num_probes][i] = factors[num_probes][i - 1].wrapping_mul(GOLDEN);
            i += 1;
        }
        num_probes += 1;
    }
    factors
};

/// The lookup, if this CPU has AVX2.
pub(super) fn lookup(geometry: &Geometry) -> Option<Lookup> {
    // SAFETY: these functions are given to nobody on a CPU without AVX2, and need nothing else.
    let few: BodyTest = |body, prepared, key| unsafe { look_up(body, prepared, key) };
    // SAFETY: as above.
    let many: BodyTest = |body, prepared, key| unsafe { look_up_many(body, prepared, key) };
    let of_few = FACTORS.get(usize::from(geometry.num_probes));
    let (test, factors) = of_few.map_or((many, FACTORS[LANES]), |factors| (few, *factors));
    let prepared = Prepared { geometry: *geometry, number: lines(geometry), factors };
    is_x86_feature_detected!("avx2").then(|| Lookup::new(test, prepared))
}

/// A lookup of at most eight probes.
#[target_feature(enable = "avx2")]
fn look_up(body: &[u8], prepared: &Prepared, key: u64) -> bool {
    match body.as_chunks::<LINE>().0.get(line(key, prepared.number)) {
        Some(line) => are_set(line, first_state(key), &prepared.factors),
        None => true,
    }
}

/// A lookup of more.
#[target_feature(enable = "avx2")]
fn look_up_many(body: &[u8], prepared: &Prepared, key: u64) -> bool {
    let Some(line) = body.as_chunks::<LINE>().0.get(line(key, prepared.number)) else {
        return true;
    };
    let (mut state, mut left) = (first_state(key), usize::from(prepared.geometry.num_probes));
    while left > LANES {
        if !are_set(line, state, &prepared.factors) {
            return false;
        }
        state = state.wrapping_mul(prepared.factors[LANES - 1]).wrapping_mul(GOLDEN);
        left -= LANES;
    }
    are_set(line, state, &FACTORS[left])
}

/// Whether the bits of at most eight probes are set. `state` is that of the first one.
#[inline]
#[target_feature(enable = "avx2")]
fn are_set(line: &[u8; LINE], state: u32, factors: &[u32; LANES]) -> bool {
    // SAFETY: each is 32 bytes of an array; these loads want no alignment.
    let (factors, low, high) = unsafe {
        let halves: *const __m256i = line.as_ptr().cast();
        (
            _mm256_loadu_si256(factors.as_ptr().cast()),
            _mm256_loadu_si256(halves),
            _mm256_loadu_si256(halves.add(1)),
        )
    };
    let states = _mm256_mullo_epi32(_mm256_set1_epi32(state as i32), factors);
    // The highest bit chooses the half, the next three the word in it: the permutation takes the lowest three bits.
    let place = _mm256_srli_epi32::<28>(states);
    let in_low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, place));
    let in_high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, place));
    let words = _mm256_castps_si256(_mm256_blendv_ps(in_low, in_high, _mm256_castsi256_ps(states)));
    let bit = _mm256_srli_epi32::<27>(_mm256_slli_epi32::<4>(states));
    _mm256_testc_si256(words, _mm256_sllv_epi32(_mm256_set1_epi32(1), bit)) != 0
}
