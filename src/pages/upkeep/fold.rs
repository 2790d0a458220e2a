//! Folding the delta into segments.
//!
//! The last delta page is sealed, then stretches from the head are read, their bits set in the segments, and
//! only then is the head moved past them: at every moment, and after every crash, each value is in the delta or
//! in its segment. Entries of ranges without a segment are dropped: such a range matches anyway, and whoever
//! summarizes it later scans the table after this, where the tuple is if anybody can still want it.

use crate::pages::delta::{self, DeltaEntry};
use crate::pages::directory::{Directory, Segment};
use crate::pages::segment::{self, Bit};
use crate::pg::{Damage, Rel, error::Read, memory};
use skip_segment::{NULLS_SLICE, VALUES_SLICE};

/// Delta pages folded at once: at 508 entries a page and 20 probes each some 10 MB of bits to sort.
const PAGES_AT_ONCE: usize = 64;

/// Folds all of the delta. Returns the number of entries.
///
/// # Errors
/// Damage to the index.
pub fn fold(directory: &Directory, columns: usize) -> Read<u64> {
    let index = directory.index();
    let segments: Vec<Vec<Segment>> = (0..columns).map(|c| directory.segments(c as u16)).collect();
    let mut folded = 0;
    let end = delta::seal(index)?;
    while let Some(mut sealed) = delta::read_sealed(index, PAGES_AT_ONCE, end)? {
        memory::check_for_interrupts();
        folded += sealed.entries.len() as u64;
        fold_entries(index, &segments, &mut sealed.entries)?;
        delta::drop_sealed(index, &sealed)?;
    }
    Ok(folded)
}

fn fold_entries(index: Rel, segments: &[Vec<Segment>], entries: &mut [DeltaEntry]) -> Read<()> {
    entries.sort_unstable_by_key(|e| (e.column, e.range));
    for same_column in entries.chunk_by(|a, b| a.column == b.column) {
        let column = usize::from(same_column[0].column);
        let Some(segments) = segments.get(column) else {
            return Err(Damage::new(
                crate::pages::meta::META_BLOCK,
                "a delta entry has a column that the index does not have",
            ));
        };
        let mut rest = same_column;
        for segment in segments {
            let before = rest.partition_point(|e| e.range < segment.first_range);
            let inside = rest.partition_point(|e| e.range < segment.end_range());
            if before < inside {
                fold_into(index, segment, &rest[before..inside])?;
            }
            rest = &rest[inside..];
        }
    }
    Ok(())
}

fn fold_into(index: Rel, segment: &Segment, entries: &[DeltaEntry]) -> Read<()> {
    let shape = segment.shape()?;
    let mut bits = Vec::with_capacity(entries.len() * (usize::from(segment.num_probes) + 1));
    for entry in entries {
        let range = entry.range - segment.first_range;
        match entry.hash {
            None => bits.push(Bit::new(&shape, NULLS_SLICE, range)),
            Some(hash) => {
                bits.push(Bit::new(&shape, VALUES_SLICE, range));
                bits.extend(Bit::of_key(&shape, segment.num_probes, hash, range));
            }
        }
    }
    segment::set_bits(index, segment, &mut bits)
}
