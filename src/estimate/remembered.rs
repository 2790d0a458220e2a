//! The estimate made last. The access method's cost estimate and the Skip Index Scan ask for the same condition of a
//! table one right after the other, of each of a thousand partitions. Owns one estimate, of a single test; it is
//! forgotten when the paths of the table are made, and at the beginning and end of a planner run.

use super::{Estimate, distinct};
use crate::pg::clause::Clause;
use crate::pg::custom::expr::{Expr, Leaf};
use crate::pg::custom::table::Table;
use pgrx::pg_sys::Oid;
use skip_scan::Condition;
use std::cell::RefCell;

/// A test: its index, and the identities of its condition and its key.
#[derive(PartialEq)]
struct Question {
    index: Oid,
    test: Clause<(usize, Option<usize>)>,
}

thread_local! {
    static LAST: RefCell<Option<(Question, Estimate)>> = const { RefCell::new(None) };
}

/// A planner run, at whose beginning and end nothing is remembered.
pub struct EstimatingRun;

impl EstimatingRun {
    pub fn begin() -> Self {
        forget_all();
        Self
    }
}

impl Drop for EstimatingRun {
    fn drop(&mut self) {
        forget_all();
    }
}

fn forget_all() {
    forget();
    distinct::forget();
}

/// Forgets the estimate.
pub fn forget() {
    LAST.set(None);
}

/// The estimate for a condition: the last one if it was for the same, else the one that `make` makes.
pub fn or_make<'a>(
    table: &Table<'a>,
    condition: &Condition<Leaf<'a>>,
    make: impl FnOnce() -> Estimate,
) -> Estimate {
    let Condition::Leaf(leaf) = condition else { return make() };
    let identities = (leaf.key.condition.identity(), leaf.key.key.map(Expr::identity));
    let index = table.indexes()[leaf.index].oid();
    let question = Question { index, test: leaf.with(0, identities) };
    let known = |(of, estimate): &(Question, Estimate)| (*of == question).then(|| estimate.clone());
    if let Some(estimate) = LAST.with_borrow(|last| last.as_ref().and_then(known)) {
        return estimate;
    }
    // Nothing is borrowed here: the estimate may be cancelled.
    let estimate = make();
    LAST.set(Some((question, estimate.clone())));
    estimate
}
