//! Lookups of policy `rocksdb` by the CPU's wide registers (AVX2, AVX-512): eight probes at once.
//!
//! A line's 512 bits fit two registers of eight 32-bit words. The upper 4 bits of a probe's state are the word, the
//! next 5 the bit in it. One instruction multiplies eight states, two pick their words, one tests the bits. So a lookup
//! takes a quarter of the instructions that one probe after the other takes. That is what limits lookups back to back:
//! the fewer instructions a lookup has, the more lookups the CPU has under way while their lines come from a slower
//! cache.
//!
//! With AVX-512, one instruction picks the words from the whole line, and a rotation takes its distance modulo 32:
//! three instructions of fourteen less. Filters with more than eight probes are looked up by AVX2 everywhere.
//!
//! The answers are those of one probe after the other: the tests compare all lookups that the CPU has.
//!
//! Unsafe code of the crate: loads into wide registers here, and calls of functions for CPUs that have these
//! instructions in [`Lookup`].

#![allow(unsafe_code)]

use super::filter_policy::{CpuTest, Lookup, Prepared};
use super::geometry::Geometry;
use super::line::{GOLDEN, LINE, first_state, line, lines};
use std::arch::x86_64::{
    __m256i, _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_loadu_si256,
    _mm256_mullo_epi32, _mm256_permutevar8x32_epi32, _mm256_permutex2var_epi32, _mm256_rolv_epi32,
    _mm256_set1_epi32, _mm256_slli_epi32, _mm256_sllv_epi32, _mm256_srli_epi32, _mm256_testc_si256,
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

/// The lookups that this CPU has, the fastest first.
pub(super) fn lookups(geometry: &Geometry) -> impl Iterator<Item = Lookup> {
    let of_few = FACTORS.get(usize::from(geometry.num_probes));
    let by_2: CpuTest = if of_few.is_some() { look_up } else { look_up_many };
    let has_2 = is_x86_feature_detected!("avx2");
    let has_512 = has_2 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl");
    let by_512 = (of_few.is_some() && has_512).then_some(look_up_512 as CpuTest);
    let factors = *of_few.unwrap_or(&FACTORS[LANES]);
    let prepared = Prepared { geometry: *geometry, number: lines(geometry), factors };
    let tests = by_512.into_iter().chain(has_2.then_some(by_2));
    // SAFETY: the CPU was asked for what the functions need, which their attributes say.
    tests.map(move |test| unsafe { Lookup::for_this_cpu(test, prepared.clone()) })
}

/// A lookup of at most eight probes.
#[target_feature(enable = "avx2")]
fn look_up(body: &[u8], prepared: &Prepared, key: u64) -> bool {
    match body.as_chunks::<LINE>().0.get(line(key, prepared.number)) {
        Some(line) => are_set(line, first_state(key), &prepared.factors),
        None => true,
    }
}

/// The same with instructions of AVX-512.
#[target_feature(enable = "avx2,avx512f,avx512vl")]
fn look_up_512(body: &[u8], prepared: &Prepared, key: u64) -> bool {
    let Some(line) = body.as_chunks::<LINE>().0.get(line(key, prepared.number)) else {
        return true;
    };
    let [factors, low, high] = registers(&prepared.factors, line);
    let states = _mm256_mullo_epi32(_mm256_set1_epi32(first_state(key) as i32), factors);
    // The upper 4 bits of a state are the word in both halves, and the next 5 the bit: a rotation takes the lowest 5.
    let words = _mm256_permutex2var_epi32(low, _mm256_srli_epi32::<28>(states), high);
    let bits = _mm256_rolv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32::<23>(states));
    _mm256_testc_si256(words, bits) != 0
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

/// The factors, and the halves of a line.
#[inline]
#[target_feature(enable = "avx2")]
fn registers(factors: &[u32; LANES], line: &[u8; LINE]) -> [__m256i; 3] {
    let halves: *const __m256i = line.as_ptr().cast();
    // SAFETY: each is 32 bytes of an array; these loads want no alignment.
    unsafe {
        [
            _mm256_loadu_si256(factors.as_ptr().cast()),
            _mm256_loadu_si256(halves),
            _mm256_loadu_si256(halves.add(1)),
        ]
    }
}

/// Whether the bits of at most eight probes are set. `state` is that of the first one.
#[inline]
#[target_feature(enable = "avx2")]
fn are_set(line: &[u8; LINE], state: u32, factors: &[u32; LANES]) -> bool {
    let [factors, low, high] = registers(factors, line);
    let states = _mm256_mullo_epi32(_mm256_set1_epi32(state as i32), factors);
    // The highest bit chooses the half, the next three the word in it: the permutation takes the lowest three bits.
    let place = _mm256_srli_epi32::<28>(states);
    let in_low = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, place));
    let in_high = _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, place));
    let words = _mm256_castps_si256(_mm256_blendv_ps(in_low, in_high, _mm256_castsi256_ps(states)));
    let bit = _mm256_srli_epi32::<27>(_mm256_slli_epi32::<4>(states));
    _mm256_testc_si256(words, _mm256_sllv_epi32(_mm256_set1_epi32(1), bit)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::bits::{are_set, set_bits};
    use crate::policy::line::walk;

    /// Each lookup that this CPU has, not the fastest only, answers as one probe after the other.
    #[test]
    fn all_lookups_agree() {
        for num_probes in 1..=30 {
            let geometry = Geometry { bits: 8 * 512, num_probes, seed: 0 };
            let mut body = [0; 8 * LINE];
            let hash = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let of_line = |key| line(key, lines(&geometry)) * LINE;
            // Lines nearly full: of keys that were not set, many match.
            for key in (0..1_200 / u64::from(num_probes)).map(hash) {
                let start = of_line(key);
                set_bits(&mut body[start..start + LINE], num_probes, walk(key));
            }
            for key in (0..4_000).map(hash) {
                let start = of_line(key);
                let expected = are_set(&body[start..start + LINE], num_probes, walk(key));
                for lookup in lookups(&geometry) {
                    assert_eq!(lookup.may_contain(&body, key), expected, "{num_probes} probes, {lookup:?}");
                    assert!(lookup.may_contain(&[], key), "nothing is known of half a filter");
                }
            }
        }
    }
}
