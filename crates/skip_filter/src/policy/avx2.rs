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

use super::filter_policy::Lookup;
use super::geometry::Geometry;
use super::line::{GOLDEN, LINE, first_state, line};
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
pub(super) fn lookup() -> Option<Lookup> {
    // SAFETY: this function is given to nobody on a CPU without AVX2, and needs nothing else.
    let lookup: Lookup = |body, geometry, key| unsafe { look_up(body, geometry, key) };
    is_x86_feature_detected!("avx2").then_some(lookup)
}

#[target_feature(enable = "avx2")]
fn look_up(body: &[u8], geometry: &Geometry, key: u64) -> bool {
    let Some(line) = body.as_chunks::<LINE>().0.get(line(key, geometry)) else {
        return true;
    };
    let num_probes = usize::from(geometry.num_probes);
    match FACTORS.get(num_probes) {
        Some(factors) => are_set(line, first_state(key), factors),
        None => are_many_set(line, first_state(key), num_probes),
    }
}

/// Whether the bits of more than eight probes are set.
#[cold]
#[target_feature(enable = "avx2")]
fn are_many_set(line: &[u8; LINE], mut state: u32, num_probes: usize) -> bool {
    let (mut left, factors) = (num_probes, &FACTORS[LANES]);
    while left > LANES {
        if !are_set(line, state, factors) {
            return false;
        }
        state = state.wrapping_mul(factors[LANES - 1]).wrapping_mul(GOLDEN);
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
