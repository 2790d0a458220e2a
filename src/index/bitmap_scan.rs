//! amgetbitmap: the bitmap scan.
//!
//! The snapshot was taken before. The index and the table's size are read here, after the snapshot. Every block of a
//! surviving range goes into the bitmap as a lossy page, whose rows PostgreSQL rechecks.

use crate::pages::meta::Meta;
use crate::pg::Rel;
use crate::pg::clause::{Clause, Values};
use crate::pg::error::{IndexResult, or_raise};
use crate::prune::{self, Pruned, hashed};

/// Calls `add` with the runs of blocks that may hold matching rows. Returns a guess at the number of rows.
pub fn bitmap(heap: Rel, index: Rel, clauses: &[Clause<Values<'_>>], add: &mut dyn FnMut(u64, u64)) -> i64 {
    let blocks = heap.blocks();
    let pruned = or_raise(index, find(index, clauses, blocks));
    let mut pages = 0;
    for (from, to) in pruned.ranges.runs() {
        let per_range = u64::from(pruned.pages_per_range);
        let (from, to) = (from * per_range, (to * per_range).min(blocks.into()));
        add(from, to);
        pages += to - from;
    }
    // The number of rows is unknown; like BRIN, this assumes ten per page.
    (pages * 10) as i64
}

fn find(index: Rel, clauses: &[Clause<Values<'_>>], blocks: u32) -> IndexResult<Pruned> {
    let meta = Meta::read(index)?;
    let condition = hashed::all(index, &meta, clauses);
    prune::prune(index, meta, condition, blocks)
}
