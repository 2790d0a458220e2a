//! A set of distinct hashes: open addressing, 8 bytes a slot, in memory of the caller's.
//!
//! [`DistinctHashes`](skip_filter::DistinctHashes) is faster and made for one set that is filled again and again; this
//! one starts with 32 bytes, because there may be a million groups. Invariants: the number of slots is a power of two;
//! more than a quarter of them is free; a slot of 0 is free, and the hash 0 is kept apart.
//!
//! Where a hash belongs depends on a secret: values could be chosen whose hashes all belong to one slot, and a table of
//! them takes the square of their number. The caller gives the secret with each call, always the same one to one table.

use allocator_api2::alloc::Allocator;
use allocator_api2::vec::Vec;

/// 2^64 divided by the golden ratio: spreads hashes even where there is no randomness for a secret.
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

/// Whether `hashes` hashes, none of them 0, may be in `slots` slots: three quarters of them.
fn holds(slots: usize, hashes: usize) -> bool {
    hashes * 4 <= slots * 3
}

fn is_within(slots: usize, bound: usize) -> bool {
    slots <= MIN_SLOTS || slots * size_of::<u64>() <= bound
}

/// Whether a table within `bound` bytes can have `hashes` hashes, none of them 0.
pub(super) fn can_hold(hashes: usize, bound: usize) -> bool {
    let mut slots = MIN_SLOTS;
    while !holds(slots, hashes) {
        slots *= 2;
    }
    is_within(slots, bound)
}

/// The slot that a hash belongs to: a product of 128 bits, both of whose factors depend on the secret, with its halves
/// XORed. Without the secret nobody can tell which hashes come together.
#[inline]
fn home(hash: u64, secret: u64, slots: usize) -> usize {
    let product = u128::from(hash ^ secret) * u128::from((secret.rotate_left(32) ^ SPREAD) | 1);
    let mixed = (product >> 64) as u64 ^ product as u64;
    (mixed >> (64 - slots.trailing_zeros())) as usize
}

/// There was no room for one more hash within the bound.
pub(super) struct Full;

impl<A: Allocator + Clone> HashTable<A> {
    pub fn new_in(allocator: A) -> Self {
        Self { slots: Vec::new_in(allocator), len: 0, has_zero: false }
    }

    /// Adds a hash, unless the table would have to grow beyond `bound` bytes for it.
    #[inline]
    pub fn insert(&mut self, hash: u64, secret: u64, bound: usize) -> Result<(), Full> {
        if hash == 0 {
            self.has_zero = true;
            return Ok(());
        }
        if !self.slots.is_empty() {
            let slot = self.find(hash, secret);
            if self.slots[slot] == hash {
                return Ok(());
            }
            if holds(self.slots.len(), self.len + 1) {
                self.slots[slot] = hash;
                self.len += 1;
                return Ok(());
            }
        }
        self.grow(secret, bound)?;
        let slot = self.find(hash, secret);
        self.slots[slot] = hash;
        self.len += 1;
        Ok(())
    }

    /// The slot that holds a hash, or the first free one where it belongs. There are slots, and a free one among them.
    #[inline]
    fn find(&self, hash: u64, secret: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = home(hash, secret, self.slots.len());
        while self.slots[slot & mask] != 0 && self.slots[slot & mask] != hash {
            slot += 1;
        }
        slot & mask
    }

    #[cold]
    fn grow(&mut self, secret: u64, bound: usize) -> Result<(), Full> {
        let count = (self.slots.len() * 2).max(MIN_SLOTS);
        if !is_within(count, bound) {
            return Err(Full);
        }
        let mut slots = Vec::with_capacity_in(count, self.slots.allocator().clone());
        slots.resize(count, 0);
        let old = std::mem::replace(&mut self.slots, slots);
        for &hash in old.iter().filter(|&&hash| hash != 0) {
            let slot = self.find(hash, secret);
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
    /// Not slot by slot: whoever adds them in that order to another table under the same secret fills the
    /// beginning of that one first, in one long run of taken slots, and takes the square of the time.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        let zero = self.has_zero.then_some(0);
        let mask = self.slots.len().wrapping_sub(1);
        // An odd step meets every slot once.
        let step = (mask as f64 * GOLDEN_SECTION) as usize | 1;
        let slots = (0..self.slots.len()).map(move |i| self.slots[i.wrapping_mul(step) & mask]);
        slots.filter(|&hash| hash != 0).chain(zero)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocator_api2::alloc::Global;

    const MANY: u64 = 100_000;

    /// An older table took the upper bits of the product with this number.
    const PUBLIC: u64 = SPREAD;

    fn filled(secret: u64, hashes: impl Iterator<Item = u64>) -> HashTable<Global> {
        let mut table = HashTable::new_in(Global);
        hashes.for_each(|hash| assert!(table.insert(hash, secret, usize::MAX).is_ok()));
        table
    }

    /// Slots that are looked at to find every hash once.
    fn steps(table: &HashTable<Global>, secret: u64) -> u64 {
        let mask = table.slots.len() - 1;
        let taken = table.slots.iter().enumerate().filter(|&(_, &hash)| hash != 0);
        taken.map(|(slot, &hash)| (slot.wrapping_sub(home(hash, secret, mask + 1)) & mask) as u64 + 1).sum()
    }

    /// The inverse of an odd number, by Newton's method.
    fn inverse(odd: u64) -> u64 {
        (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
    }

    /// Hashes that were chosen to be in one slot of the older table are all over this one, whatever the secret
    /// is; so are hashes in sequence, and hashes that only differ in their upper bits.
    #[test]
    fn chosen_hashes_are_spread() {
        let same_slot = |number: u64| (number + 1).wrapping_mul(inverse(PUBLIC));
        assert!((0..MANY).all(|number| same_slot(number).wrapping_mul(PUBLIC) >> 44 == 0));
        for secret in [
            3,
            0x0123_4567_89ab_cdef,
            skip_filter::hash_i64(5, 1),
            skip_filter::hash_i64(5, 2),
            u64::MAX - 12,
        ] {
            for (name, hashes) in [
                ("same slot", &same_slot as &dyn Fn(u64) -> u64),
                ("sequence", &|number| number + 1),
                ("upper bits", &|number| (number + 1) << 44),
                ("random", &|number| skip_filter::hash_i64(7, number as i64)),
            ] {
                let table = filled(secret, (0..MANY).map(hashes));
                assert_eq!(table.len() as u64, MANY);
                let steps = steps(&table, secret);
                assert!(steps < 8 * MANY, "{name} under {secret:x}: {steps} steps for {MANY} hashes");
            }
        }
    }

    /// Whatever the secret, the set is the same.
    #[test]
    fn the_secret_does_not_matter() {
        let hashes = |secret| {
            let mut hashes: Vec<u64> =
                filled(secret, (0..5_000).map(|n| skip_filter::hash_i64(7, n % 3_000))).iter().collect();
            hashes.sort_unstable();
            hashes
        };
        assert_eq!(hashes(1), hashes(0xfeed_beef_dead_cafe));
        assert_eq!(hashes(1).len(), 3_000);
    }
}
