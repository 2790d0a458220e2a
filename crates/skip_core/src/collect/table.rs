//! A set of distinct hashes: open addressing, 8 bytes a slot, in memory of the caller's.
//!
//! [`DistinctHashes`](crate::DistinctHashes) is faster and made for one set that is filled again and again; this one starts
//! with 32 bytes, because there may be a million groups. Invariants: the number of slots is a power of two; more than a
//! quarter of them is free; a slot of 0 is free, and the hash 0 is kept apart.

use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;

/// 2^64 divided by the golden ratio: spreads hashes over slots by the product's upper bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The part of the table that iteration steps over: neighbours in time are far apart, and stay so the longest.
const GOLDEN_SECTION: f64 = 0.618_033_988_749_895;

/// Slots of the smallest table.
const MIN_SLOTS: usize = 4;

/// A set of 64-bit hashes.
pub(super) struct HashTable<A: Allocator + Clone> {
    slots: Vec<u64, A>,
    len: usize,
    has_zero: bool,
}

/// Whether so many hashes, none of them 0, may be in so many slots.
fn holds(slots: usize, hashes: usize) -> bool {
    hashes * 4 <= slots * 3
}

fn is_within(slots: usize, bound: usize) -> bool {
    slots <= MIN_SLOTS || slots * size_of::<u64>() <= bound
}

/// Whether a table within `bound` bytes can have so many hashes, none of them 0.
pub(super) fn can_hold(hashes: usize, bound: usize) -> bool {
    let mut slots = MIN_SLOTS;
    while !holds(slots, hashes) {
        slots *= 2;
    }
    is_within(slots, bound)
}

/// There was no room for one more hash within the bound.
pub(super) struct Full;

impl<A: Allocator + Clone> HashTable<A> {
    pub fn new_in(allocator: A) -> Self {
        Self { slots: Vec::new_in(allocator), len: 0, has_zero: false }
    }

    /// Adds a hash, unless the table would have to grow beyond `bound` bytes for it.
    #[inline]
    pub fn insert(&mut self, hash: u64, bound: usize) -> Result<(), Full> {
        if hash == 0 {
            self.has_zero = true;
            return Ok(());
        }
        if !self.slots.is_empty() {
            let slot = self.find(hash);
            if self.slots[slot] == hash {
                return Ok(());
            }
            if holds(self.slots.len(), self.len + 1) {
                self.slots[slot] = hash;
                self.len += 1;
                return Ok(());
            }
        }
        self.grow(bound)?;
        let slot = self.find(hash);
        self.slots[slot] = hash;
        self.len += 1;
        Ok(())
    }

    /// The slot that holds a hash, or the first free one where it belongs. There are slots, and a free one among them.
    #[inline]
    fn find(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = (hash.wrapping_mul(SPREAD) >> (64 - self.slots.len().trailing_zeros())) as usize;
        while self.slots[slot & mask] != 0 && self.slots[slot & mask] != hash {
            slot += 1;
        }
        slot & mask
    }

    #[cold]
    fn grow(&mut self, bound: usize) -> Result<(), Full> {
        let count = (self.slots.len() * 2).max(MIN_SLOTS);
        if !is_within(count, bound) {
            return Err(Full);
        }
        let mut slots = Vec::with_capacity_in(count, self.slots.allocator().clone());
        slots.resize(count, 0);
        let old = std::mem::replace(&mut self.slots, slots);
        for &hash in old.iter().filter(|&&hash| hash != 0) {
            let slot = self.find(hash);
            self.slots[slot] = hash;
        }
        Ok(())
    }

    /// Number of distinct hashes.
    pub fn len(&self) -> usize {
        self.len + usize::from(self.has_zero)
    }

    /// The hashes, evenly from all over the table.
    ///
    /// Not slot by slot: that is the order of the hashes' products, and whoever adds them in this order to another table
    /// fills the beginning of that one first, in one long run of taken slots, and takes the square of the time.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        let zero = self.has_zero.then_some(0);
        let mask = self.slots.len().wrapping_sub(1);
        // An odd step meets every slot once.
        let step = (mask as f64 * GOLDEN_SECTION) as usize | 1;
        let slots = (0..self.slots.len()).map(move |i| self.slots[i.wrapping_mul(step) & mask]);
        slots.filter(|&hash| hash != 0).chain(zero)
    }
}
