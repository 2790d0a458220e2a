//! Lookups during planning: for costs, within a bound on pages, and each lookup only once. [`planned`] keeps the last
//! answer, for the executor.
//!
//! The access method's cost estimate and that of the Skip Index Scan look up the same clauses in the same index, one
//! right after the other. The first answer is kept until all paths of the table have been made ([`forget`]).
//!
//! The bound is on the pages that planning one query may read, and on the tables for which it reads any, because a
//! table of a thousand partitions must not cause a thousand lookups. A lookup in a damaged index gives no answer here;
//! the executor will report the damage.

use super::facts::Facts;
use super::{Budget, HashedClause, IndexClauses, Pruned, planned, prune_with, unit};
use crate::pg::{Rel, page, settings};
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use std::rc::Rc;

/// The answer to a lookup; None if it needed more pages than allowed, or the index is damaged.
struct Answer {
    index: Oid,
    clauses: Vec<HashedClause>,
    blocks: u32,
    pruned: Option<Rc<Pruned>>,
}

#[derive(Default)]
struct PlanningState {
    /// Index pages read in this planner run.
    pages: u64,
    /// The tables for which any were read, and the pages read for those before the present one.
    tables: usize,
    pages_before: u64,
    answers: Vec<Answer>,
    /// Total size of the answers in bytes.
    bytes: usize,
}

/// The most bytes of answers that are kept. The answers for a query with hundreds of conditions on a huge table exceed
/// it; those beyond it are not kept.
const MOST_BYTES: usize = 16 << 20;

/// The most tables of a query for whose costs keys are looked up. Those beyond are mostly partitions: one exact number
/// more of a hundred makes no better plan. With 64, the lookups were a twentieth of the time of planning a thousand
/// partitions of 38 pages.
const MOST_TABLES: usize = 16;

thread_local! {
    static STATE: RefCell<PlanningState> = RefCell::default();
}

/// One planner run. A nested run has counters and answers of its own; those of the outer run are restored when it ends.
pub struct Planning(PlanningState);

impl Planning {
    /// Begins a planner run.
    pub fn begin() -> Self {
        Self(STATE.take())
    }
}

impl Drop for Planning {
    fn drop(&mut self) {
        STATE.set(std::mem::take(&mut self.0));
    }
}

/// The ranges of a table of `blocks` blocks that an index does not rule out; None when the index is damaged, or when
/// this planner run has no pages left for the lookup.
pub fn look_up(index: Rel, facts: &Facts, mut clauses: Vec<HashedClause>, blocks: u32) -> Option<Rc<Pruned>> {
    clauses.sort_by_key(|clause| clause.column);
    let oid = index.oid();
    if let Some(known) = known(oid, &clauses, blocks) {
        return known;
    }
    // Partitions are often too small to be summarized, or were filled just now.
    if facts.meta.watermark == 0 && !clauses.iter().any(|clause| clause.test.is_never()) {
        let pages_per_part = clauses.iter().map(|clause| facts.meta.pages_per_part(clause.column));
        return Some(Rc::new(Pruned::nothing(blocks, unit(pages_per_part))));
    }
    let left = pages_left();
    if !may_look_up() {
        return None;
    }
    // Nothing is borrowed here: the lookup may be cancelled.
    let (meta, remembered) = (facts.meta.clone(), facts.live.clone());
    let mut lookup = IndexClauses { index, meta, clauses, remembered, is_for_costs: true };
    let pages = page::pages_read();
    let pruned = prune_with(&mut lookup, blocks, Budget { pages: Some(left) });
    let pruned = pruned.ok().flatten().map(Rc::new);
    let read = page::pages_read() - pages;
    let IndexClauses { meta, clauses, remembered, .. } = lookup;
    // If the lookup started over, it has not used what was remembered.
    if let (Some(pruned), Some(live), [clause]) = (&pruned, &remembered, &clauses[..]) {
        planned::keep(index, (&meta, live), clause, blocks, pruned, read);
    }
    STATE.with_borrow_mut(|state| {
        state.pages += read.max(1);
        state.bytes += pruned.as_ref().map_or(0, |pruned| pruned.ranges.bytes() + pruned.unfiltered.bytes());
        if state.bytes <= MOST_BYTES {
            state.answers.push(Answer { index: oid, clauses, blocks, pruned: pruned.clone() });
        }
    });
    pruned
}

/// The answer to the same lookup, if it was made before. `clauses` are sorted by column.
fn known(index: Oid, clauses: &[HashedClause], blocks: u32) -> Option<Option<Rc<Pruned>>> {
    STATE.with_borrow(|state| {
        let is_same = |a: &&Answer| a.index == index && a.blocks == blocks && a.clauses == clauses;
        state.answers.iter().find(is_same).map(|answer| answer.pruned.clone())
    })
}

/// Whether [`look_up`] already has the answer for this clause, so that it reads no pages.
pub fn is_answered(index: Rel, clause: &HashedClause, blocks: u32) -> bool {
    known(index.oid(), std::slice::from_ref(clause), blocks).flatten().is_some()
}

/// Index pages that this planner run may still read.
pub fn pages_left() -> u64 {
    settings::plan_probe_pages().saturating_sub(STATE.with_borrow(|state| state.pages))
}

/// Whether keys may still be looked up for the present table.
pub fn may_look_up() -> bool {
    STATE.with_borrow(|state| state.tables) < MOST_TABLES && pages_left() > 0
}

/// Counts pages that were read otherwise in this planner run.
pub fn spend(pages: u64) {
    STATE.with_borrow_mut(|state| state.pages += pages);
}

/// Drops the answers: the next table, or the next query, makes lookups of its own. The pages read still count.
pub fn forget() {
    STATE.with_borrow_mut(|state| {
        state.answers.clear();
        state.bytes = 0;
        state.tables += usize::from(state.pages > state.pages_before);
        state.pages_before = state.pages;
    });
}
