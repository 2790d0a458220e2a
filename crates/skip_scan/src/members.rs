//! Which of many values may equal one: by their hashes.
//!
//! Hashes are 32 bits, as a server's hash functions give them, and not trusted: equal values have equal hashes, and
//! whoever asks compares the candidates. A directory by the upper bits of the (mixed) hash leads to a handful of
//! entries.

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
