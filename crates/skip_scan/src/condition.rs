//! AND and OR over tests that an index can answer.
//!
//! What the planner finds in a query's conditions ([`Condition`] over whatever a leaf is there) goes into the plan as a
//! list of numbers ([`Condition::encode`]), comes back in the executor, and is evaluated to a set of ranges.
//!
//! Invariant: a condition may let through too much, never too little. A test that cannot be answered is left out of an
//! AND, and takes a whole OR with it ([`Condition::try_map`]).

use crate::RangeSet;

/// Tests combined by AND and OR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition<L> {
    /// All of these. Never empty.
    And(Vec<Condition<L>>),
    /// Any of these. Never empty.
    Or(Vec<Condition<L>>),
    /// One test.
    Leaf(L),
}

/// A leaf that belongs to a group: those of one group in one AND are answered together.
pub trait Grouped {
    /// The group's number.
    fn group(&self) -> usize;
}

/// The numbers that AND, OR and a leaf begin with in a plan.
const AND: i32 = 1;
const OR: i32 = 2;
const LEAF: i32 = 3;
/// The deepest nesting of ANDs and ORs. A part that is nested deeper counts as one that cannot be looked up, and
/// [`Condition::decode`] refuses it. So recursive code over conditions needs some tens of kilobytes of stack, and does
/// not check the depth: the server keeps 512 kB free for code that does not (STACK_DEPTH_SLOP).
pub const MOST_LEVELS: usize = 100;

impl<L> Condition<L> {
    /// All of `parts`; None when there are none. ANDs among them are flattened.
    pub fn all(parts: Vec<Self>) -> Option<Self> {
        Self::join(
            parts,
            |part| if let Condition::And(inner) = part { Ok(inner) } else { Err(part) },
            Self::And,
        )
    }

    /// Any of `parts`; None when there are none. ORs among them are flattened.
    pub fn any(parts: Vec<Self>) -> Option<Self> {
        Self::join(
            parts,
            |part| if let Condition::Or(inner) = part { Ok(inner) } else { Err(part) },
            Self::Or,
        )
    }

    fn join(
        mut parts: Vec<Self>,
        flatten: impl Fn(Self) -> Result<Vec<Self>, Self>,
        make: impl Fn(Vec<Self>) -> Self,
    ) -> Option<Self> {
        if parts.len() < 2 {
            return parts.pop();
        }
        let flattened = parts.into_iter().flat_map(|part| flatten(part).unwrap_or_else(|whole| vec![whole]));
        let mut parts: Vec<Self> = flattened.collect();
        if parts.len() > 1 { Some(make(parts)) } else { parts.pop() }
    }

    /// The leaves, in order. Of a condition that is one leaf, as most are, nothing is allocated.
    pub fn leaves(&self) -> impl Iterator<Item = &L> {
        let mut first = Some(self);
        let mut joined: Vec<std::slice::Iter<'_, Self>> = Vec::new();
        std::iter::from_fn(move || {
            loop {
                let next = first.take().or_else(|| {
                    loop {
                        match joined.last_mut()?.next() {
                            Some(part) => break Some(part),
                            None => drop(joined.pop()),
                        }
                    }
                });
                match next? {
                    Condition::And(parts) | Condition::Or(parts) => joined.push(parts.iter()),
                    Condition::Leaf(leaf) => return Some(leaf),
                }
            }
        })
    }

    /// The condition over other leaves. A leaf for which `map` gives None may be anything: it is left out of an AND
    /// and takes a whole OR with it. None: the whole condition may be anything.
    pub fn try_map<M>(&self, map: &mut impl FnMut(&L) -> Option<M>) -> Option<Condition<M>> {
        self.try_expand(&mut |leaf| map(leaf).map(Condition::Leaf))
    }

    /// As [`Condition::try_map`], with a whole condition in place of each leaf.
    pub fn try_expand<M>(&self, expand: &mut impl FnMut(&L) -> Option<Condition<M>>) -> Option<Condition<M>> {
        match self {
            Condition::And(parts) => {
                Condition::all(parts.iter().filter_map(|part| part.try_expand(expand)).collect())
            }
            Condition::Or(parts) => {
                // Every leaf is looked at, also when an earlier one has decided.
                let parts: Vec<_> = parts.iter().map(|part| part.try_expand(expand)).collect();
                Condition::any(parts.into_iter().collect::<Option<_>>()?)
            }
            Condition::Leaf(leaf) => expand(leaf),
        }
    }

    /// The condition over other leaves.
    pub fn map<M>(self, map: &mut impl FnMut(L) -> M) -> Condition<M> {
        match self {
            Condition::And(parts) => Condition::And(parts.into_iter().map(|part| part.map(map)).collect()),
            Condition::Or(parts) => Condition::Or(parts.into_iter().map(|part| part.map(map)).collect()),
            Condition::Leaf(leaf) => Condition::Leaf(map(leaf)),
        }
    }

    /// Adds the condition to a list of numbers; `leaf` adds a leaf, always as many numbers.
    pub fn encode(&self, out: &mut Vec<i32>, leaf: &impl Fn(&L, &mut Vec<i32>)) {
        match self {
            Condition::And(parts) | Condition::Or(parts) => {
                out.push(if matches!(self, Condition::And(_)) { AND } else { OR });
                out.push(i32::try_from(parts.len()).unwrap_or(i32::MAX));
                parts.iter().for_each(|part| part.encode(out, leaf));
            }
            Condition::Leaf(inner) => {
                out.push(LEAF);
                leaf(inner, out);
            }
        }
    }

    /// Reads what [`Condition::encode`] wrote; `leaf` reads a leaf. None for anything else.
    pub fn decode(
        numbers: &mut impl Iterator<Item = i32>,
        leaf: &impl Fn(&mut dyn Iterator<Item = i32>) -> Option<L>,
    ) -> Option<Self> {
        Self::decode_at(numbers, leaf, 0)
    }

    fn decode_at(
        numbers: &mut impl Iterator<Item = i32>,
        leaf: &impl Fn(&mut dyn Iterator<Item = i32>) -> Option<L>,
        level: usize,
    ) -> Option<Self> {
        match numbers.next()? {
            kind @ (AND | OR) if level <= MOST_LEVELS => {
                let count = numbers.next().filter(|&count| count > 0)?;
                let parts =
                    (0..count).map(|_| Self::decode_at(numbers, leaf, level + 1)).collect::<Option<_>>()?;
                Some(if kind == AND { Condition::And(parts) } else { Condition::Or(parts) })
            }
            LEAF => leaf(numbers).map(Condition::Leaf),
            _ => None,
        }
    }
}

impl<L: Grouped> Condition<L> {
    /// Those of `candidates` that the condition lets through. `ask` answers for leaves of one group that are all to
    /// hold, and may be asked for fewer and fewer candidates; it is not asked when none are left.
    ///
    /// # Errors
    /// What `ask` gives.
    pub fn evaluate<E>(
        &self,
        candidates: &RangeSet,
        ask: &mut impl FnMut(&[&L], &RangeSet) -> Result<RangeSet, E>,
    ) -> Result<RangeSet, E> {
        if candidates.is_empty() {
            return Ok(candidates.clone());
        }
        match self {
            Condition::Leaf(leaf) => ask(&[leaf], candidates),
            Condition::Or(parts) => {
                let mut found = RangeSet::empty(candidates.universe());
                for part in parts {
                    found.union_with(&part.evaluate(candidates, ask)?);
                }
                Ok(found)
            }
            Condition::And(parts) => {
                let mut left = candidates.clone();
                let mut leaves: Vec<&L> = parts.iter().filter_map(Self::leaf).collect();
                leaves.sort_by_key(|leaf| leaf.group());
                for group in leaves.chunk_by(|a, b| a.group() == b.group()) {
                    if !left.is_empty() {
                        let found = ask(group, &left)?;
                        left.intersect_with(&found);
                    }
                }
                for part in parts.iter().filter(|part| part.leaf().is_none()) {
                    left = part.evaluate(&left, ask)?;
                }
                Ok(left)
            }
        }
    }

    fn leaf(&self) -> Option<&L> {
        if let Condition::Leaf(leaf) = self { Some(leaf) } else { None }
    }
}
