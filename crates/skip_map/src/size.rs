//! How many pages a run may take, known before it is written.

use crate::block::MOST_NUMBERS;
use crate::coding::Coding;
use crate::fence::MOST_ENTRIES;
use crate::key_part::KeyPart;
use crate::page::{DIRECTORY_BYTES, MOST_BLOCKS, ROOM};
use crate::shape::RunShape;
use crate::writer::{LEAST_CONSECUTIVE, LEAST_PART};

/// Bits of a block besides those that its numbers take: its part of the directory, and bits that fill up bytes.
const BITS_A_BLOCK: f64 = (DIRECTORY_BYTES * 8 + 15) as f64;
/// Bits of a page for blocks.
const BITS_A_PAGE: f64 = (ROOM * 8) as f64;
/// Fewest numbers of a page that is full: 8 kB divided by 60 bits, the most that a number takes, are more than 1,000.
const LEAST_A_PAGE: u64 = 512;
/// Levels of fences of a run that a relation can hold: 1,012 to the power of 4 is more than 2^32.
const MOST_LEVELS: u8 = 4;
/// Numbers of a page whose directory is full.
const NUMBERS_OF_FULL_DIRECTORY: usize = (MOST_BLOCKS - 1) * LEAST_PART;

const _: () = assert!(LEAST_CONSECUTIVE as usize + 1 >= 2 * LEAST_PART && LEAST_PART * 4 == MOST_NUMBERS);

/// Pages, fences included, that a run of at most `numbers` numbers of this coding never exceeds.
///
/// Why it holds. A page ends for one of two reasons, or because it is the last one.
///
/// *The next block does not fit.* It is then cut to the most numbers that fit. Take the block instead that has one
/// number more, and did not fit: with it, the blocks of the page take more than the page has. Count it so for all
/// pages. Then every page brings one number more, and `n` numbers count as at most `n + n / 512 + 1`. A block of `k`
/// numbers over a span of `s` takes at most `k * (2 + log2(s / k))` bits, and `BITS_A_BLOCK`; a block of consecutive
/// numbers takes less. No two blocks share a gap between numbers, so all spans together are at most the interval `u` of
/// all numbers, and because the logarithm is concave, all blocks together take at most `n * (2 + log2(u / n))` bits,
/// and `BITS_A_BLOCK` each. Adding numbers only adds to this as long as `n < 1.47 * u`.
///
/// Blocks have 64 numbers or more on average: a list is cut into parts of 64 or more, and what is left of one is put on
/// a page early only at the end, or if 128 consecutive numbers or more follow. Besides, each page has one that was cut.
/// A block with `s / k` above 2^56 takes up to 128 bits more than said, but there are fewer than 128 of them.
///
/// *The directory is full.* Such a page has more than 10,600 numbers. Let a part `x` of the numbers be on pages of the
/// first kind, at `c` bits each if all were; the others count as `d` bits each, a page divided by 10,600. Together
/// these are at most `x * (c - log2 x) + (1 - x) * d` bits for each number, which is `c` at most if `c >= d + 1.4427`,
/// else `d + 1.4427`.
pub fn most_pages(coding: Coding, numbers: u64) -> u32 {
    most_pages_in_parts(coding, KeyPart::WHOLE, 0, numbers)
}

/// As [`most_pages`], of the numbers of a key part, written as runs of the key parts of this depth that it has. The
/// intervals of these parts are together that of the whole, so the bound is the same but for what each run may take in
/// addition.
pub fn most_pages_in_parts(coding: Coding, keys: KeyPart, depth: u8, numbers: u64) -> u32 {
    if numbers == 0 {
        return 0;
    }
    let runs = f64::from(1u32 << depth.saturating_sub(keys.depth()));
    let numbers_of = keys.numbers(coding);
    let interval = (numbers_of.end - numbers_of.start) as f64;
    let counted = numbers as f64 + (numbers / LEAST_A_PAGE) as f64 + runs;
    let gap_bits = (interval / counted).log2().max(0.0);
    let block_bits = BITS_A_BLOCK / LEAST_PART as f64;
    let full_directory = BITS_A_PAGE / NUMBERS_OF_FULL_DIRECTORY as f64 + std::f64::consts::LOG2_E;
    let bits = (2.0 + gap_bits + block_bits).max(full_directory);
    // Two blocks more for each page: that which was cut, and one because averages need not come out even.
    let pages = counted * bits / (BITS_A_PAGE - 2.0 * BITS_A_BLOCK);
    let of_distant = 128.0 * 128.0 / BITS_A_PAGE;
    if runs == 1.0 {
        let data_pages = (pages + of_distant).ceil() + 1.0;
        // A float that is too great becomes the greatest u32.
        return RunShape::of_data_pages(data_pages as u32).pages();
    }
    // Each level of fences of a run ends with one page more than its share.
    let data_pages = (pages + runs * (of_distant + 2.0)).ceil();
    let fences = 2.0 * data_pages / MOST_ENTRIES as f64 + runs * f64::from(MOST_LEVELS);
    (data_pages + fences).ceil() as u32
}
