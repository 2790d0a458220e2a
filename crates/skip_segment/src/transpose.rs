//! Transposing blocks of bits: 64 filters of 64 bits become 64 slices of 64 ranges.
//!
//! Owns the one routine between row-major filters and bit slices. It works by halves (Hacker's Delight 7-3): swap
//! the off-diagonal quarters of the 64×64 block, then of each quarter, down to single bits. Every step is a loop
//! without branches over whole words, which compilers turn into vector code.

/// Swaps, in every block of `2 * STEP` rows, the upper bits of the first `STEP` rows with the lower bits of the
/// others; `mask` has the lower `STEP` of every `2 * STEP` bits.
#[inline(always)]
fn swap_quarters<const STEP: usize>(block: &mut [u64; 64], mask: u64) {
    for pair in block.chunks_exact_mut(2 * STEP) {
        let (low, high) = pair.split_at_mut(STEP);
        for (low, high) in low.iter_mut().zip(high) {
            let swap = (*low >> STEP ^ *high) & mask;
            *low ^= swap << STEP;
            *high ^= swap;
        }
    }
}

/// Transposes a block in place: afterwards bit `j` of word `i` is what bit `i` of word `j` was.
#[inline]
pub fn transpose64(block: &mut [u64; 64]) {
    swap_quarters::<32>(block, 0x0000_0000_ffff_ffff);
    swap_quarters::<16>(block, 0x0000_ffff_0000_ffff);
    swap_quarters::<8>(block, 0x00ff_00ff_00ff_00ff);
    swap_quarters::<4>(block, 0x0f0f_0f0f_0f0f_0f0f);
    swap_quarters::<2>(block, 0x3333_3333_3333_3333);
    swap_quarters::<1>(block, 0x5555_5555_5555_5555);
}

#[cfg(test)]
mod tests {
    use super::*;
    use skip_filter::hash::hash_i64;

    #[test]
    fn is_the_transpose() {
        let before: [u64; 64] = std::array::from_fn(|row| hash_i64(1, row as i64));
        let mut after = before;
        transpose64(&mut after);
        for (row, &word) in before.iter().enumerate() {
            for (column, &slice) in after.iter().enumerate() {
                assert_eq!(word >> column & 1, slice >> row & 1, "{row} {column}");
            }
        }
        transpose64(&mut after);
        assert_eq!(before, after);
    }
}
