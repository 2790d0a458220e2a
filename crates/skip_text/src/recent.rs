//! Fragments that were met not long ago, so that they are not hashed and collected again.
//!
//! A block range of log lines has each fragment some dozen times. Whoever collects the distinct keys of a range looks
//! at each fragment; here those that were met are recognized by their bytes, before they are hashed and looked up in
//! the set of distinct hashes, which is larger than the processor's first-level cache.
//!
//! A table of a fixed size has in each slot the fragment that came to it last. So a fragment may be reported again, but
//! one that was not met since the table was cleared is always reported.

use crate::Encoding;

/// log2 of the number of slots: 64 kB. Lines of 250 characters on 16 pages have some 10,000 different fragments.
const SLOT_BITS: u32 = 13;

/// Spreads fragments over the slots by their product's upper bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The bytes of the longest fragment that a slot can have.
const MOST_BYTES: usize = size_of::<u64>();

/// Fragments of one length that were met.
#[derive(Clone, Debug)]
pub struct RecentFragments {
    /// Fragments as little-endian numbers. 0 is a free slot.
    slots: Box<[u64]>,
    is_empty: bool,
}

impl Default for RecentFragments {
    fn default() -> Self {
        Self { slots: vec![0; 1 << SLOT_BITS].into(), is_empty: true }
    }
}

impl RecentFragments {
    /// Forgets all.
    pub fn clear(&mut self) {
        if !self.is_empty {
            self.slots.fill(0);
            self.is_empty = true;
        }
    }

    /// Calls `each` with the fragments of `n` bytes of a text, without some that were met before. False, and no call,
    /// if the text's fragments of `n` characters are not of `n` bytes, or not for this table.
    pub(crate) fn each_new(
        &mut self,
        text: &[u8],
        n: usize,
        encoding: Encoding,
        mut each: impl FnMut(&[u8]),
    ) -> bool {
        let is_of_bytes = encoding == Encoding::Bytes || text.is_ascii();
        if !is_of_bytes || n == 0 || n > MOST_BYTES || text.len() < n {
            return false;
        }
        self.is_empty = false;
        let mask = u64::MAX >> (64 - 8 * n);
        for bytes in text.array_windows::<MOST_BYTES>() {
            if self.add(u64::from_le_bytes(*bytes) & mask) {
                each(&bytes[..n]);
            }
        }
        // Those behind which there are fewer than eight bytes.
        let rest = text.len().saturating_sub(MOST_BYTES - 1);
        for fragment in text[rest..].windows(n) {
            let mut bytes = [0; MOST_BYTES];
            bytes[..n].copy_from_slice(fragment);
            if self.add(u64::from_le_bytes(bytes)) {
                each(fragment);
            }
        }
        true
    }

    /// Puts a fragment into its slot. True if it was not there, or cannot be told from a free slot.
    #[inline]
    fn add(&mut self, fragment: u64) -> bool {
        let slot = &mut self.slots[(fragment.wrapping_mul(SPREAD) >> (64 - SLOT_BITS)) as usize];
        let is_known = *slot == fragment && fragment != 0;
        *slot = fragment;
        !is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ngrams::ngrams;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        /// Whatever was met before, the distinct fragments are those that the texts have.
        #[test]
        fn none_is_left_out(
            texts in vec(vec(vec(prop_oneof![0u8..3, b'a'..b'e', any::<u8>()], 0..40), 0..20), 1..4),
            n in 2usize..9,
        ) {
            let mut recent = RecentFragments::default();
            for range in texts {
                recent.clear();
                let (mut found, mut wanted) = (HashSet::new(), HashSet::new());
                for text in &range {
                    let is_done = recent.each_new(text, n, Encoding::Bytes, |fragment| {
                        found.insert(fragment.to_vec());
                    });
                    prop_assert_eq!(is_done, text.len() >= n);
                    if is_done {
                        wanted.extend(ngrams(text, n, Encoding::Bytes).map(<[u8]>::to_vec));
                    }
                }
                prop_assert_eq!(found, wanted);
            }
        }
    }

    #[test]
    fn those_met_before_are_left_out() {
        let mut recent = RecentFragments::default();
        let mut count = |text: &str| {
            let mut count = 0;
            assert!(recent.each_new(text.as_bytes(), 3, Encoding::Utf8, |_| count += 1));
            count
        };
        assert_eq!([count("GET /index.html"), count("GET /index.html"), count("GET /index.htm")], [13, 0, 0]);
        recent.clear();
        let mut again = 0;
        assert!(recent.each_new(b"GET /index.html", 3, Encoding::Utf8, |_| again += 1));
        assert_eq!(again, 13);
        assert!(
            !recent.each_new("größe".as_bytes(), 3, Encoding::Utf8, |_| panic!("a character of two bytes"))
        );
        assert!(!recent.each_new(b"ab", 3, Encoding::Utf8, |_| panic!("too short")));
    }
}
