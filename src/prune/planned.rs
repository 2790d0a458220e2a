//! The last answer that planning found, for the executor to use again instead of reading the same pages once more.
//!
//! A query is executed right after it was planned, mostly, and asks for the keys that planning has looked up. Owns one
//! answer in each session: for one clause of keys in one index.
//!
//! **The answer may be used for a snapshot that is newer than planning** if, after the snapshot was taken,
//!
//! 1. the meta page names the same first page of the delta as planning's meta page did, by its sequence number;
//! 2. the delta has no entries;
//! 3. the pages of the directory are those with which planning found the answer, by their checksums.
//!
//! Then every row that the snapshot sees is in a range of the answer, or its values differ from the clause's keys. Its
//! block is in a range that no segment of the column has: so it was for planning, which added the range. Or its keys
//! are in a segment of the directory, because the delta has none. A map never changes. A filter changes in two ways:
//!
//! - A fold sets bits. If it has moved the delta's head since planning read the meta page, 1 fails. If it has not,
//!   the entries that it folds are still in the delta, and 2 fails. So there was no fold after planning, and what was
//!   folded before was there when planning read the slices. An insert that makes no entry, because it finds its bits
//!   set, finds bits that planning has seen.
//! - An open range gets its bits, and then its open bit is cleared. If planning has found the open bit, the range is in
//!   its answer; if not, it has read the other bits after all of them were set.
//!
//! Segments that were replaced (merged, read again from the table, retired behind the table's end) have other numbers,
//! which are never given out twice, so 3 fails. That is needed: a new filter may have a key by chance in a range where
//! the replaced one did not, and then an insert of the key makes no entry. The number of blocks is compared too: a
//! table that has grown is looked up anew. So is an index that was rebuilt: it has another seed.

use super::{Budget, ClauseRef, HashedClause, IndexClauses, Pruned, Test};
use crate::pages::delta;
use crate::pages::directory::{self, Live};
use crate::pages::meta::Meta;
use crate::pages::miss::Fetch;
use crate::pg::{Damage, Rel};
use pgrx::pg_sys::Oid;
use skip_scan::Condition;
use std::cell::RefCell;
use std::rc::Rc;

/// The largest answer that is kept, in bytes. Lookups of a few keys leave few ranges.
const MOST_BYTES: usize = 64 << 10;

/// An answer to one clause, and what it was made of.
struct PlannedAnswer {
    index: Oid,
    meta: Rc<Meta>,
    live: Rc<Live>,
    clause: HashedClause,
    blocks: u32,
    pruned: Rc<Pruned>,
    /// Index pages that planning has read for it.
    pages: u64,
}

/// Ranges that survive, and the index pages that were read during planning to find them out.
pub struct Answered {
    pub pruned: Option<Pruned>,
    pub planning_pages: u64,
}

thread_local! {
    static LAST: RefCell<Option<PlannedAnswer>> = const { RefCell::new(None) };
}

/// Keeps the answer to a lookup of one clause. `meta` and `live` are those with which it was looked up, and `pages` the
/// number of index pages that it has read.
pub fn keep(
    index: Rel,
    (meta, live): (&Rc<Meta>, &Rc<Live>),
    clause: &HashedClause,
    blocks: u32,
    pruned: &Rc<Pruned>,
    pages: u64,
) {
    let is_small = pruned.ranges.bytes() + pruned.unfiltered.bytes() <= MOST_BYTES;
    if !is_small || pruned.is_coarse || !matches!(clause.test, Test::Keys(_)) {
        return;
    }
    let answer = PlannedAnswer {
        index: index.oid(),
        meta: meta.clone(),
        live: live.clone(),
        clause: clause.clone(),
        blocks,
        pruned: pruned.clone(),
        pages,
    };
    LAST.set(Some(answer));
}

/// As [`super::prune_all`], without a bound on pages. Planning's answer to the same question is used if it still holds,
/// and is forgotten.
///
/// # Errors
/// As [`super::prune_all`].
pub fn prune_all(
    lookups: &mut [IndexClauses<'_>],
    condition: &Condition<ClauseRef>,
    blocks: u32,
) -> Result<Answered, (usize, Damage)> {
    if let ([only], Condition::Leaf(of)) = (&*lookups, condition)
        && let Some(answer) = only.clauses.get(of.clause).and_then(|clause| take(only, clause, blocks))
        // What is amiss is found again by the lookup below.
        && answer.holds(only.index, &only.meta).unwrap_or(false)
    {
        return Ok(Answered { pruned: Some(Pruned::clone(&answer.pruned)), planning_pages: answer.pages });
    }
    let pruned = super::prune_all(lookups, condition, blocks, Budget { pages: None })?;
    Ok(Answered { pruned, planning_pages: 0 })
}

/// Takes the answer if it is one to this clause, of an index that was not rebuilt since, over a table of the same size.
fn take(lookup: &IndexClauses<'_>, clause: &HashedClause, blocks: u32) -> Option<PlannedAnswer> {
    let (oid, now) = (lookup.index.oid(), &lookup.meta);
    LAST.with_borrow_mut(|last| {
        last.take_if(|answer| {
            let then = &answer.meta;
            let is_same_index = then.seed == now.seed
                && then.pages_per_range == now.pages_per_range
                && then.columns == now.columns;
            answer.index == oid && answer.blocks == blocks && answer.clause == *clause && is_same_index
        })
    })
}

impl PlannedAnswer {
    /// Whether the answer holds for a snapshot that was taken before the meta page `now` was read.
    fn holds(&self, index: Rel, now: &Meta) -> Fetch<bool> {
        Ok(self.meta.delta_head_sequence == now.delta_head_sequence
            && delta::is_empty(index, now)?
            && directory::is_unchanged(now.bind(index), &self.live)?)
    }
}
