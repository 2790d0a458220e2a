//! Setting the bits of many keys in a filter that is larger than the caches.
//!
//! One key after the other, nearly every probe is a miss. So positions are first put into bins, one for each stretch of
//! the filter, and then set bin by bin: a stretch and its part of the page tables are fetched once for many positions.
//! For 524,288 keys at a time and 20 million in all, that took 0.43 of the time; with 65,536 at a time it was no gain.
//!
//! The bins are the caller's memory ([`room`]), who fills a filter with many batches: new memory from the operating
//! system for each would cost as much as the bins gain.

use super::bits::set_bit;
use super::geometry::Geometry;

/// Bytes of a filter from which on it is faster to set the bits of many keys at once: about a second-level cache.
pub const LARGE: u64 = 1 << 20;

/// Keys that are best added at a time to a filter of [`LARGE`] or more bytes. Fewer than a quarter of them are added
/// one by one.
pub const BATCH: usize = 1 << 19;

/// Positions at a time, for those with many probes: they take four bytes each.
const MOST_POSITIONS: usize = BATCH * 8;

/// Bits of a stretch, as a power of two: 128 kB, which a second-level cache holds beside the bins.
const STRETCH: u32 = 20;

/// Bins have room for a tenth more positions than they will get on average, and these; full ones are emptied early.
const SPARE: usize = 64;

/// Number of bins for `keys` keys, and positions that each has room for.
fn bins(geometry: &Geometry, keys: usize) -> (usize, usize) {
    let count = (geometry.bits.saturating_sub(1) >> STRETCH) as usize + 1;
    (count, keys.min(batch(geometry)) * usize::from(geometry.num_probes) / count * 11 / 10 + SPARE)
}

/// Keys at a time.
fn batch(geometry: &Geometry) -> usize {
    BATCH.min(MOST_POSITIONS / usize::from(geometry.num_probes.max(1)))
}

/// The number of words of memory in which `keys` keys are sorted; 0 if adding them one by one is as fast.
pub(crate) fn room(geometry: &Geometry, keys: usize) -> usize {
    if geometry.bits / 8 < LARGE || keys < batch(geometry) / 4 {
        return 0;
    }
    let (count, room) = bins(geometry, keys);
    count * room
}

/// Sets the bits of all keys; returns how many were not set. `positions` gives a key's. `memory` may hold anything; if
/// it is shorter than [`room`], keys are taken one after the other.
#[inline(always)]
pub(crate) fn set_all<P: Iterator<Item = u32>>(
    body: &mut [u8],
    geometry: &Geometry,
    keys: &[u64],
    memory: &mut [u32],
    positions: impl Fn(u64, &Geometry) -> P,
) -> u64 {
    let needed = room(geometry, keys.len());
    if needed == 0 || memory.len() < needed {
        return keys
            .iter()
            .flat_map(|&key| positions(key, geometry))
            .map(|p| set_bit(body, p as usize))
            .sum();
    }
    let (count, room) = bins(geometry, keys.len());
    let mut bins = Bins { positions: memory, taken: vec![0; count], room };
    let mut new = 0;
    for keys in keys.chunks(batch(geometry)) {
        for &key in keys {
            for position in positions(key, geometry) {
                new += bins.add(position, body);
            }
        }
        new += bins.empty(body);
    }
    new
}

/// Positions by stretch. Invariant: `taken[bin] < room`.
struct Bins<'m> {
    positions: &'m mut [u32],
    taken: Vec<usize>,
    room: usize,
}

impl Bins<'_> {
    #[inline(always)]
    fn add(&mut self, position: u32, body: &mut [u8]) -> u64 {
        let bin = (position >> STRETCH) as usize;
        let taken = self.taken[bin];
        self.positions[bin * self.room + taken] = position;
        self.taken[bin] = taken + 1;
        if taken + 1 < self.room { 0 } else { self.empty_one(bin, body) }
    }

    fn empty_one(&mut self, bin: usize, body: &mut [u8]) -> u64 {
        let start = bin * self.room;
        let taken = std::mem::take(&mut self.taken[bin]);
        self.positions[start..start + taken].iter().map(|&position| set_bit(body, position as usize)).sum()
    }

    fn empty(&mut self, body: &mut [u8]) -> u64 {
        (0..self.taken.len()).map(|bin| self.empty_one(bin, body)).sum()
    }
}
