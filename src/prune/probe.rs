//! Asking an index while a query is planned: for costs only, within a bound, and never twice the same.
//!
//! The access method's cost estimate and the Skip Index Scan's ask about the same clauses of the same index, one right
//! after the other. What the first was told is kept until the table's paths are all there ([`forget`]).
//!
//! The bound is on the pages that planning one query may read: a table of a thousand partitions must not be asked a
//! thousand times. A damaged index is no answer here; the executor will say what is wrong.

use super::{Budget, HashedClause, Pruned, prune};
use crate::pages::meta::Meta;
use crate::pg::{Rel, settings};
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use std::rc::Rc;

/// An answer, None if there was none within the bound.
struct Answer {
    index: Oid,
    clauses: Vec<HashedClause>,
    blocks: u32,
    pruned: Option<Rc<Pruned>>,
}

#[derive(Default)]
struct PlanningState {
    /// Pages read in this planner run.
    pages: u64,
    answers: Vec<Answer>,
    /// Bytes of the answers.
    bytes: usize,
}

/// Bytes of answers that are kept, at most: those to a query with hundreds of conditions on a huge table are not.
const MOST_BYTES: usize = 16 << 20;

thread_local! {
    static STATE: RefCell<PlanningState> = RefCell::default();
}

/// One run of the planner. What was read in the run around it, if it runs within one, counts for that again afterwards.
pub struct Planning(PlanningState);

impl Planning {
    /// A run begins.
    pub fn begin() -> Self {
        Self(STATE.take())
    }
}

impl Drop for Planning {
    fn drop(&mut self) {
        STATE.set(std::mem::take(&mut self.0));
    }
}

/// The ranges of a table of `blocks` blocks that an index does not rule out; None when it is damaged, or planning has
/// read enough of indexes.
pub fn probe(index: Rel, meta: &Meta, mut clauses: Vec<HashedClause>, blocks: u32) -> Option<Rc<Pruned>> {
    clauses.sort_by_key(|clause| clause.column);
    let oid = index.oid();
    if let Some(known) = known(oid, &clauses, blocks) {
        return known;
    }
    let left = pages_left();
    if left == 0 {
        return None;
    }
    // Nothing is borrowed here: the lookup may be cancelled.
    let pruned = prune(index, meta.clone(), clauses.clone(), blocks, Budget { pages: Some(left) });
    let pruned = pruned.ok().flatten().map(Rc::new);
    STATE.with_borrow_mut(|state| {
        state.pages += pruned.as_ref().map_or(1, |pruned| pruned.slices + 1);
        state.bytes += pruned.as_ref().map_or(0, |pruned| pruned.ranges.bytes() + pruned.unfiltered.bytes());
        if state.bytes <= MOST_BYTES {
            state.answers.push(Answer { index: oid, clauses, blocks, pruned: pruned.clone() });
        }
    });
    pruned
}

/// What was answered before, if this was asked. Clauses are sorted by column.
fn known(index: Oid, clauses: &[HashedClause], blocks: u32) -> Option<Option<Rc<Pruned>>> {
    STATE.with_borrow(|state| {
        let is_same = |a: &&Answer| a.index == index && a.blocks == blocks && a.clauses == clauses;
        state.answers.iter().find(is_same).map(|answer| answer.pruned.clone())
    })
}

/// Whether [`probe`] has an answer to this clause that costs nothing any more.
pub fn is_answered(index: Rel, clause: &HashedClause, blocks: u32) -> bool {
    known(index.oid(), std::slice::from_ref(clause), blocks).flatten().is_some()
}

/// Index pages that this planner run may still read.
pub fn pages_left() -> u64 {
    settings::plan_probe_pages().saturating_sub(STATE.with_borrow(|state| state.pages))
}

/// Drops the answers: the next table, or the next query, asks anew. What was read still counts.
pub fn forget() {
    STATE.with_borrow_mut(|state| {
        state.answers.clear();
        state.bytes = 0;
    });
}
