//! Which of many values may equal one: by their hashes.
//!
//! [`ElementHashes`] gives the candidates. Their hashes are 32 bits, as a server's hash functions give them, and not
//! trusted: equal values have equal hashes, and whoever asks compares the candidates. A directory by the upper bits of
//! the (mixed) hash leads to a handful of entries.
//!
//! [`HashBits`] tells only whether there may be a candidate, in a few instructions.

/// The numbers of values, by hash.
#[derive(Debug, Default)]
pub struct ElementHashes {
    /// Mixed hash and number of each value, sorted.
    entries: Vec<(u32, u32)>,
    /// For each value of the upper bits where their entries begin, and at the end the number of entries.
    starts: Vec<u32>,
    shift: u32,
}

/// Spreads hashes of functions whose upper bits do not vary.
fn mixed(hash: u32) -> u32 {
    let hash = (hash ^ hash >> 16).wrapping_mul(0x9E37_79B1);
    hash ^ hash >> 15
}

impl ElementHashes {
    /// Values number 0, 1, … with these hashes.
    pub fn new(hashes: &[u32]) -> Self {
        let numbers = 0u32..;
        let mut entries: Vec<_> = hashes.iter().map(|&hash| mixed(hash)).zip(numbers).collect();
        entries.sort_unstable();
        let bits = entries.len().max(2).next_power_of_two().ilog2().min(24);
        let shift = 32 - bits;
        let mut starts = vec![0u32; (1 << bits) + 1];
        for &(hash, _) in &entries {
            starts[(hash >> shift) as usize + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        Self { entries, starts, shift }
    }

    /// The numbers of the values with this hash, ascending.
    #[inline]
    pub fn with_hash(&self, hash: u32) -> impl Iterator<Item = u32> + '_ {
        let hash = mixed(hash);
        let bucket = (hash >> self.shift) as usize;
        let entries = match (self.starts.get(bucket), self.starts.get(bucket + 1)) {
            (Some(&from), Some(&to)) => &self.entries[from as usize..to as usize],
            _ => &[], // no values at all
        };
        entries.iter().filter(move |entry| entry.0 == hash).map(|entry| entry.1)
    }
}

/// Bits for each value of [`HashBits`], before rounding to a power of two. Of the other values, one in 64 to 128 is
/// taken for one of them (more beyond two million values). Checking that costs less than a larger bitmap that is no
/// longer in the fastest cache.
const BITS_A_VALUE: usize = 64;
/// The fewest and the most bits: one word, and 16 megabytes.
const LEAST_BITS: usize = 64;
const MOST_BITS: usize = 1 << 27;

/// A set of 64-bit hashes that may have others as well: one bit for each.
#[derive(Debug)]
pub struct HashBits {
    words: Vec<u64>,
    shift: u32,
}

impl HashBits {
    /// An empty set, for `count` hashes.
    pub fn new(count: usize) -> Self {
        let bits = count.saturating_mul(BITS_A_VALUE).clamp(LEAST_BITS, MOST_BITS).next_power_of_two();
        Self { words: vec![0; bits / 64], shift: 64 - bits.ilog2() }
    }

    /// Adds a hash. It may be a number that is no hash: it is mixed.
    pub fn insert(&mut self, hash: u64) {
        let bit = self.bit(hash);
        if let Some(word) = self.words.get_mut(bit / 64) {
            *word |= 1 << (bit % 64);
        }
    }

    /// Whether the hash may have been added: false only if it certainly was not.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let bit = self.bit(hash);
        self.words.get(bit / 64).is_none_or(|word| word >> (bit % 64) & 1 == 1)
    }

    /// The upper bits of the product with 2^64 divided by the golden ratio: neighbouring numbers get bits far apart
    /// (Knuth, The Art of Computer Programming, volume 3, section 6.4).
    #[inline]
    fn bit(&self, hash: u64) -> usize {
        (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(members: &ElementHashes, hash: u32) -> Vec<u32> {
        members.with_hash(hash).collect()
    }

    #[test]
    fn every_value_is_found_by_its_hash_and_no_other() {
        let random = |i: u32| skip_filter::hash_i64(7, i.into()) as u32;
        for count in [0u32, 1, 2, 9, 100, 5000] {
            for spread in [1u32, 16, 1 << 20, u32::MAX] {
                let hashes: Vec<u32> = (0..count).map(|i| random(i) % spread).collect();
                let members = ElementHashes::new(&hashes);
                for asked in hashes.iter().copied().take(250).chain((0..50).map(|i| random(count + i))) {
                    let expected: Vec<u32> =
                        (0u32..).zip(&hashes).filter(|(_, hash)| **hash == asked).map(|(n, _)| n).collect();
                    assert_eq!(found(&members, asked), expected, "{count} values, {asked}");
                }
            }
        }
    }

    #[test]
    fn a_bitmap_has_all_that_was_added_and_little_else() {
        let numbers = |from: u64, count: u64| from..from + count;
        let hashes = |from: u64, count: u64| {
            numbers(from, count).map(|i| skip_filter::hash_i64(7, i.cast_signed())).collect::<Vec<_>>()
        };
        for count in [0u64, 1, 2, 9, 100, 5000, 100_000] {
            for (added, others) in [
                (hashes(0, count), hashes(count, 100_000)),
                (numbers(0, count).collect(), numbers(count, 100_000).collect()),
                (
                    numbers(0, count).map(|i| i << 20).collect(),
                    numbers(count, 100_000).map(|i| i << 20).collect(),
                ),
            ] {
                let mut bits = HashBits::new(added.len());
                added.iter().for_each(|&hash| bits.insert(hash));
                assert!(added.iter().all(|&hash| bits.may_contain(hash)), "{count}");
                let in_vain = others.iter().filter(|&&hash| bits.may_contain(hash)).count();
                assert!(in_vain < 3000, "{count} values: {in_vain} of 100,000 others");
            }
        }
    }

    #[test]
    fn nobody_is_a_member_of_nothing() {
        assert!(found(&ElementHashes::default(), 0).is_empty());
        assert!(found(&ElementHashes::new(&[]), u32::MAX).is_empty());
    }

    #[test]
    fn hashes_that_differ_in_few_bits_are_spread() {
        for step in [1u32, 1 << 12, 1 << 20] {
            let hashes: Vec<u32> = (0..4096u32).map(|i| i.wrapping_mul(step)).collect();
            let members = ElementHashes::new(&hashes);
            let fullest = members.starts.windows(2).map(|w| w[1] - w[0]).max();
            let copies = hashes.iter().filter(|&&hash| hash == 0).count() as u32;
            assert!(fullest < Some(24 + 2 * copies), "{step}: {fullest:?}");
        }
    }
}
