//! Sorting numbers by their digits.

/// Fewer numbers than this are sorted by comparing: they are hardly as many as there are counters to clear and sum.
const FEW: usize = 512;
/// Most bits of a digit. The counters of its 2,048 values are 8 kB, a quarter of a first-level cache.
const MOST_DIGIT_BITS: u32 = 11;

/// Sorts numbers, and keeps its memory for the next ones.
#[derive(Debug, Default)]
pub(crate) struct RadixSort {
    other: Vec<u64>,
    counts: Vec<u32>,
}

impl RadixSort {
    /// Sorts numbers that agree in all but their lower `bits` bits. Needs memory for as many numbers again.
    pub(crate) fn sort(&mut self, numbers: &mut Vec<u64>, bits: u32) {
        if numbers.len() < FEW || u32::try_from(numbers.len()).is_err() {
            return numbers.sort_unstable();
        }
        let digits = bits.div_ceil(MOST_DIGIT_BITS).max(1);
        let digit_bits = bits.div_ceil(digits);
        let values = 1usize << digit_bits;
        let digit = |number: u64, place: u32| (number >> (place * digit_bits)) as usize & (values - 1);
        self.counts.clear();
        self.counts.resize(values * digits as usize, 0);
        for &number in numbers.iter() {
            for (place, counts) in self.counts.chunks_exact_mut(values).enumerate() {
                counts[digit(number, place as u32)] += 1;
            }
        }
        self.other.clear();
        self.other.resize(numbers.len(), 0);
        for (place, counts) in self.counts.chunks_exact_mut(values).enumerate() {
            if counts.iter().any(|&count| count as usize == numbers.len()) {
                continue; // all have the same digit
            }
            let mut before = 0;
            for count in counts.iter_mut() {
                before += std::mem::replace(count, before);
            }
            for &number in numbers.iter() {
                let at = &mut counts[digit(number, place as u32)];
                self.other[*at as usize] = number;
                *at += 1;
            }
            std::mem::swap(numbers, &mut self.other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_as_comparing_does() {
        let mut radix = RadixSort::default();
        for count in [0u64, 1, 2, 511, 512, 513, 5000] {
            for bits in [0, 1, 7, 11, 12, 22, 23, 40, 53, 63] {
                let upper = 0x5555_5555_5555_5555 >> 1 >> bits << bits;
                let mut numbers: Vec<u64> = (0..count)
                    .map(|i| upper | i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1 & ((1 << bits) - 1))
                    .collect();
                let mut expected = numbers.clone();
                expected.sort_unstable();
                radix.sort(&mut numbers, bits);
                assert_eq!(numbers, expected, "{count} numbers, {bits} bits");
            }
        }
    }
}
