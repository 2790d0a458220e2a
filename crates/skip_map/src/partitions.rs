//! Numbers divided by their upper bits, in memory and outside of it.
//!
//! Each partition is a list of chunks. When the chunks take as much memory as they may, the numbers of all partitions
//! are written out, one partition behind the other, and the chunks are free again. What was written of a partition is
//! remembered as its extents. So every number is written and read once, mostly in long stretches.

use crate::spill::{Extent, Outside, Spill};

/// Fewest numbers of a chunk: 128 bytes.
const LEAST_CHUNK: usize = 16;
/// Most numbers of a chunk: 8 kB, of which half is empty on average while a partition fills it.
const MOST_CHUNK: usize = 1024;

/// The numbers with the same upper bits.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    /// The chunk that is being filled.
    chunk: Vec<u64>,
    full: Vec<Vec<u64>>,
    extents: Vec<Extent>,
}

impl Partition {
    fn chunks(&self) -> impl Iterator<Item = &Vec<u64>> {
        self.full.iter().chain([&self.chunk])
    }

    fn in_memory(&self) -> usize {
        self.chunks().map(Vec::len).sum()
    }

    /// Number of numbers.
    pub(crate) fn count(&self) -> u64 {
        self.in_memory() as u64 + self.extents.iter().map(|extent| extent.bytes / 8).sum::<u64>()
    }

    /// Takes some of the numbers into an empty list, which stays empty if there are none left.
    pub(crate) fn take_some<S: Spill>(
        &mut self,
        outside: &mut Outside<S>,
        numbers: &mut Vec<u64>,
    ) -> Result<(), S::Error> {
        if let Some(mut extent) = self.extents.pop() {
            outside.read(&mut extent, numbers)?;
            if extent.bytes > 0 {
                self.extents.push(extent);
            }
            return Ok(());
        }
        let chunk = self.full.pop().unwrap_or_else(|| std::mem::take(&mut self.chunk));
        numbers.extend(chunk);
        Ok(())
    }
}

/// All partitions of numbers that agree in the bits above.
#[derive(Debug)]
pub(crate) struct Partitions {
    pub(crate) parts: Vec<Partition>,
    /// Bits of a number below those that tell its partition.
    pub(crate) lower_bits: u32,
    chunk: usize,
    /// Numbers for which there is memory in chunks, and for which there may be.
    held: usize,
    most: usize,
    free: Vec<Vec<u64>>,
}

impl Partitions {
    /// Empty partitions by the upper `split` of `bits` bits, for `most` numbers in memory. Little memory makes fewer
    /// partitions.
    pub(crate) fn new(bits: u32, split: u32, most: usize) -> Self {
        const LEAST_PARTS: usize = 16;
        let affordable = (most / (2 * LEAST_CHUNK)).max(LEAST_PARTS).ilog2();
        let split = split.min(affordable).min(bits);
        let parts: Vec<Partition> = (0..1 << split).map(|_| Partition::default()).collect();
        let chunk = (most / (4 * parts.len())).clamp(LEAST_CHUNK, MOST_CHUNK);
        Self { parts, lower_bits: bits - split, chunk, held: 0, most, free: vec![] }
    }

    #[inline]
    fn part_of(&mut self, number: u64) -> &mut Partition {
        // There are 2^split partitions.
        let index = (number >> self.lower_bits) as usize & (self.parts.len() - 1);
        &mut self.parts[index]
    }

    /// Adds a number.
    #[inline]
    pub(crate) fn push<S: Spill>(&mut self, number: u64, outside: &mut Outside<S>) -> Result<(), S::Error> {
        let capacity = self.chunk;
        let part = self.part_of(number);
        if part.chunk.len() == part.chunk.capacity().min(capacity) {
            self.new_chunk(number, outside)?;
        }
        self.part_of(number).chunk.push(number);
        Ok(())
    }

    /// Gives the partition of a number an empty chunk.
    #[cold]
    fn new_chunk<S: Spill>(&mut self, number: u64, outside: &mut Outside<S>) -> Result<(), S::Error> {
        if self.held + self.chunk > self.most {
            self.write_out(outside)?;
        }
        self.held += self.chunk;
        let chunk = self.free.pop().unwrap_or_else(|| Vec::with_capacity(self.chunk));
        let part = self.part_of(number);
        let full = std::mem::replace(&mut part.chunk, chunk);
        if full.capacity() > 0 {
            part.full.push(full);
        }
        Ok(())
    }

    /// Writes out all that is in memory.
    fn write_out<S: Spill>(&mut self, outside: &mut Outside<S>) -> Result<(), S::Error> {
        for part in &mut self.parts {
            let at = outside.place();
            part.full.push(std::mem::take(&mut part.chunk));
            for mut chunk in part.full.drain(..) {
                outside.append(&chunk)?;
                chunk.clear();
                if chunk.capacity() > 0 {
                    self.free.push(chunk);
                }
            }
            let bytes = outside.place() - at;
            if bytes > 0 {
                part.extents.push(Extent { at, bytes });
            }
        }
        self.held = 0;
        outside.flush()
    }

    /// Writes out what is in memory, and gives the memory back, unless all numbers are in memory and there is room
    /// for twice the numbers of the largest partition besides.
    pub(crate) fn settle<S: Spill>(
        &mut self,
        budget: usize,
        outside: &mut Outside<S>,
    ) -> Result<(), S::Error> {
        let largest = self.parts.iter().map(Partition::in_memory).max().unwrap_or(0);
        let spilled = self.parts.iter().any(|part| !part.extents.is_empty());
        if spilled || self.held + 2 * largest > budget {
            self.write_out(outside)?;
        }
        self.free = vec![];
        Ok(())
    }
}
