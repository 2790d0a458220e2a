//! In the executor: a plan's clauses get their keys, which are looked up in the indexes.

use crate::pages::meta::Meta;
use crate::pg::Rel;
use crate::pg::clause::{Clause, Values};
use crate::pg::error::or_raise;
use crate::pg::{memory, page};
use crate::prune::facts::Facts;
use crate::prune::{self, ClauseRef, HashedClause, IndexClauses, Pruned, Test, hashed, planned};
use skip_bounds::OrderKeyIntervals;
use skip_scan::Condition;
use skip_scan::blocks::Survivors;
use std::rc::Rc;

/// Encodes a condition for a plan: clauses with the numbers of their key expressions.
pub fn encode(condition: &Condition<Clause<Option<u16>>>, code: &mut Vec<i32>) {
    condition.encode(code, &|clause, out| out.extend(clause.encode()));
}

fn decode(code: &[i32]) -> Option<Condition<Clause<Option<u16>>>> {
    Condition::decode(&mut code.iter().copied(), &|numbers| Clause::decode(numbers))
}

/// The ranges of a table of `blocks` blocks that may hold rows satisfying the plan's condition. `key` evaluates keys.
pub fn survivors<'k>(
    code: &[i32],
    blocks: u32,
    indexes: &[Rel<'_>],
    key: &mut dyn FnMut(&Clause<Option<u16>>) -> Clause<Values<'k>>,
) -> Survivors {
    let mut pages = page::pages_read();
    let mut lookups: Vec<IndexClauses<'_>> = Vec::with_capacity(indexes.len());
    for &index in indexes {
        lookups.push(opened(index));
    }
    let condition = decode(code).and_then(|condition| {
        condition.try_expand(&mut |clause| {
            // An index that the plan does not have rules nothing out.
            let index = clause.index;
            let of = lookups.get_mut(index)?;
            // Pages that the evaluation of a key reads, in this index or another, are not counted for this lookup.
            let before = page::pages_read();
            let clause = key(clause);
            pages += page::pages_read() - before;
            let condition = hashed::one(of.index, &of.meta, &clause)?;
            Some(hashed::numbered(condition, index, &mut of.clauses))
        })
    });
    let pruned = match condition {
        Some(condition) => {
            let condition = merged(condition, &mut lookups);
            let found = planned::prune_all(&mut lookups, &condition, blocks);
            let found = found.unwrap_or_else(|(number, damage)| damage.raise(indexes[number]));
            pages -= found.planning_pages;
            found.pruned
        }
        None => None,
    };
    let unit = prune::unit(lookups.iter().flat_map(IndexClauses::sizes));
    let Pruned { ranges, unfiltered, pages_per_range, .. } =
        pruned.unwrap_or_else(|| Pruned::nothing(blocks, unit));
    Survivors { ranges, unfiltered, pages_per_range, index_pages: page::pages_read() - pages }
}

/// An index without clauses. What was remembered of it is used as far as it has not changed.
fn opened(index: Rel<'_>) -> IndexClauses<'_> {
    let (meta, remembered) = match Facts::current(index) {
        Some(facts) => (facts.meta.clone(), facts.live.clone()),
        None => (Rc::new(or_raise(index, Meta::read(index))), None),
    };
    IndexClauses { index, meta, clauses: Vec::new(), remembered, is_for_costs: false }
}

/// The same condition, with ORs of single keys of one column replaced by one test of all of them, and ANDs of spans of
/// one column by what they have in common: then each page of slices, or bounds, is read only once.
fn merged(condition: Condition<ClauseRef>, lookups: &mut [IndexClauses<'_>]) -> Condition<ClauseRef> {
    match condition {
        Condition::And(parts) => {
            let mut kept: Vec<Condition<ClauseRef>> = Vec::new();
            for part in parts {
                memory::check_for_interrupts();
                let part = merged(part, lookups);
                let narrowed = match part {
                    Condition::Leaf(from) if is_within(lookups, from) => {
                        kept.iter().any(|before| match before {
                            Condition::Leaf(into) => narrow(lookups, *into, from),
                            _ => false,
                        })
                    }
                    _ => false,
                };
                if !narrowed {
                    kept.push(part);
                }
            }
            Condition::And(kept)
        }
        Condition::Or(parts) => {
            let mut kept: Vec<Condition<ClauseRef>> = Vec::new();
            // For each of them the clauses that are added to it. Adding one by one would copy its keys each time.
            let mut added: Vec<Vec<usize>> = Vec::new();
            for part in parts {
                memory::check_for_interrupts();
                let part = merged(part, lookups);
                let is_fit = |into: &Condition<ClauseRef>, from| match into {
                    Condition::Leaf(into) => may_join(lookups, *into, from),
                    _ => false,
                };
                if let Condition::Leaf(from) = part
                    && let Some(place) = kept.iter().position(|into| is_fit(into, from))
                {
                    added[place].push(from.clause);
                } else {
                    kept.push(part);
                    added.push(Vec::new());
                }
            }
            for (into, added) in kept.iter().zip(added) {
                if let Condition::Leaf(into) = into
                    && !added.is_empty()
                {
                    join(&mut lookups[into.index].clauses, into.clause, &added);
                }
            }
            Condition::Or(kept)
        }
        leaf => leaf,
    }
}

/// Whether a test has spans.
fn is_within(lookups: &[IndexClauses<'_>], of: ClauseRef) -> bool {
    matches!(lookups[of.index].clauses[of.clause].test, Test::Within(_))
}

/// Narrows the spans of one clause to those of another one of the same index and column: a value has one order key.
/// False if the two differ in these, or one has no spans.
fn narrow(lookups: &mut [IndexClauses<'_>], into: ClauseRef, from: ClauseRef) -> bool {
    if into.index != from.index {
        return false;
    }
    let clauses = &mut lookups[into.index].clauses;
    let (one, other) = (&clauses[into.clause], &clauses[from.clause]);
    let common = match (&one.test, &other.test) {
        (Test::Within(spans), Test::Within(others)) if one.column == other.column => {
            spans.intersection(others)
        }
        _ => return false,
    };
    clauses[into.clause].test = Test::Within(common);
    true
}

/// Whether the keys, or spans, of one clause can be added to those of another one: both are of one index and column.
fn may_join(lookups: &[IndexClauses<'_>], into: ClauseRef, from: ClauseRef) -> bool {
    let clause = |of: ClauseRef| &lookups[of.index].clauses[of.clause];
    let tests = (&clause(into).test, &clause(from).test);
    let is_alike = matches!(tests, (Test::Keys(_), Test::Keys(_)) | (Test::Within(_), Test::Within(_)));
    is_alike && into.index == from.index && clause(into).column == clause(from).column
}

/// Adds the keys, or spans, of some clauses to those of another one. Nothing refers to these clauses any more.
fn join(clauses: &mut [HashedClause], into: usize, added: &[usize]) {
    let (mut keys, mut spans) = (Vec::new(), Vec::new());
    for &number in std::iter::once(&into).chain(added) {
        match std::mem::replace(&mut clauses[number].test, Test::Keys(Vec::new())) {
            Test::Keys(more) => keys.extend(more),
            Test::Within(more) => spans.push(more),
            Test::IsNull | Test::IsNotNull => {} // never joined
        }
    }
    clauses[into].test =
        if spans.is_empty() { Test::keys(keys) } else { Test::Within(OrderKeyIntervals::union(spans)) };
}
