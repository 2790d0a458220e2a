//! What a query demands of the keys of a value: AND and OR over keys.
//!
//! Invariant: a demand may be weakened at any time, never strengthened. A part that is not known is
//! [`Demand::Anything`], which an AND leaves out and which takes a whole OR with it.

/// The most keys that [`Demand::bounded`] leaves in a demand.
pub const MOST_KEYS: usize = 1024;

/// The most levels of AND and OR that [`Demand::bounded`] leaves.
pub const MOST_LEVELS: usize = 16;

/// What the keys of every matching value meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand<K> {
    /// Nothing is known: every value may match.
    Anything,
    /// No value matches.
    Never,
    /// The value has this key.
    Key(K),
    /// All of these. At least two parts, none of them `Anything`, `Never` or `All`.
    All(Vec<Demand<K>>),
    /// At least one of these. At least two parts, none of them `Anything`, `Never` or `Any`.
    Any(Vec<Demand<K>>),
}

impl<K: Clone + PartialEq> Demand<K> {
    /// All of `parts`; anything when there are none.
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut kept: Vec<Self> = Vec::new();
        for part in parts {
            match part {
                Demand::Anything => {}
                Demand::Never => return Demand::Never,
                Demand::All(inner) => inner.into_iter().for_each(|part| add_new(&mut kept, part)),
                part => add_new(&mut kept, part),
            }
        }
        match kept.len() {
            0 => Demand::Anything,
            1 => kept.swap_remove(0),
            _ => Demand::All(kept),
        }
    }

    /// Any of `parts`; never when there are none. What all parts demand is demanded once, before the choice.
    pub fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut kept: Vec<Self> = Vec::new();
        for part in parts {
            match part {
                Demand::Anything => return Demand::Anything,
                Demand::Never => {}
                Demand::Any(inner) => inner.into_iter().for_each(|part| add_new(&mut kept, part)),
                part => add_new(&mut kept, part),
            }
        }
        match kept.len() {
            0 => Demand::Never,
            1 => kept.swap_remove(0),
            _ => Self::factored(kept),
        }
    }

    /// OR over at least two parts, with what they have in common taken out: (a AND b) OR (a AND c) is a AND (b OR c).
    fn factored(parts: Vec<Self>) -> Self {
        let common: Vec<Self> = match &parts[0] {
            Demand::All(inner) => inner.clone(),
            part => vec![part.clone()],
        };
        let common: Vec<Self> = common
            .into_iter()
            .filter(|one| parts.iter().all(|part| part.conjuncts().contains(one)))
            .collect();
        if common.is_empty() {
            return Demand::Any(parts);
        }
        let rest = parts.into_iter().map(|part| {
            let others = part.conjuncts().iter().filter(|one| !common.contains(one)).cloned();
            Demand::all(others.collect::<Vec<_>>())
        });
        let rest = Demand::any(rest.collect::<Vec<_>>());
        Demand::all(common.into_iter().chain([rest]))
    }

    /// The parts that all must hold.
    fn conjuncts(&self) -> &[Self] {
        match self {
            Demand::All(parts) => parts,
            part => std::slice::from_ref(part),
        }
    }

    /// Whether so many parts must hold that [`Demand::bounded`] leaves out any more.
    pub fn is_long(&self) -> bool {
        self.conjuncts().len() >= MOST_KEYS
    }

    /// The demand over other keys; `map` says what one key becomes.
    pub fn flat_map<L: Clone + PartialEq>(&self, map: &mut impl FnMut(&K) -> Demand<L>) -> Demand<L> {
        match self {
            Demand::Anything => Demand::Anything,
            Demand::Never => Demand::Never,
            Demand::Key(key) => map(key),
            Demand::All(parts) => Demand::all(parts.iter().map(|part| part.flat_map(map))),
            Demand::Any(parts) => Demand::any(parts.iter().map(|part| part.flat_map(map))),
        }
    }

    /// Is the demand met by a value of which `has` knows the keys?
    pub fn is_met(&self, has: &mut impl FnMut(&K) -> bool) -> bool {
        match self {
            Demand::Anything => true,
            Demand::Never => false,
            Demand::Key(key) => has(key),
            Demand::All(parts) => parts.iter().all(|part| part.is_met(has)),
            Demand::Any(parts) => parts.iter().any(|part| part.is_met(has)),
        }
    }

    /// How many keys the demand names, those named twice counted twice.
    pub fn key_count(&self) -> usize {
        match self {
            Demand::Anything | Demand::Never => 0,
            Demand::Key(_) => 1,
            Demand::All(parts) | Demand::Any(parts) => parts.iter().map(Self::key_count).sum(),
        }
    }

    /// The demand, weakened where it names more than [`MOST_KEYS`] keys or has more than [`MOST_LEVELS`] levels: the
    /// last parts of an AND go, an OR that is too long becomes anything, and so does what lies too deep.
    pub fn bounded(self) -> Self {
        self.shallow(MOST_LEVELS).within(&mut { MOST_KEYS })
    }

    fn shallow(self, levels: usize) -> Self {
        match self {
            Demand::All(_) | Demand::Any(_) if levels == 0 => Demand::Anything,
            Demand::All(parts) => Demand::all(parts.into_iter().map(|part| part.shallow(levels - 1))),
            Demand::Any(parts) => Demand::any(parts.into_iter().map(|part| part.shallow(levels - 1))),
            part => part,
        }
    }

    fn within(self, left: &mut usize) -> Self {
        match self {
            // One part after the other: each takes from what the former left.
            Demand::All(parts) => Demand::all(parts.into_iter().map(|part| part.within(left))),
            part if part.key_count() <= *left => {
                *left -= part.key_count();
                part
            }
            _ => Demand::Anything,
        }
    }
}

/// Adds a part that is not there yet. Long lists are not searched whole: naming a key twice is only slower.
fn add_new<K: PartialEq>(kept: &mut Vec<Demand<K>>, part: Demand<K>) {
    const SEARCHED: usize = 64;
    let from = kept.len().saturating_sub(SEARCHED);
    if !kept[from..].contains(&part) {
        kept.push(part);
    }
}

#[cfg(test)]
mod tests {
    use super::Demand::{self, All, Any, Anything, Key, Never};

    #[test]
    fn and_leaves_out_what_is_not_known_and_or_gives_up() {
        assert_eq!(Demand::all([Anything, Key(1), Anything]), Key(1));
        assert_eq!(Demand::<i32>::all([Anything, Anything]), Anything);
        assert_eq!(Demand::<i32>::all([]), Anything);
        assert_eq!(Demand::all([Key(1), Never]), Never);
        assert_eq!(Demand::any([Key(1), Anything]), Anything);
        assert_eq!(Demand::any([Key(1), Never]), Key(1));
        assert_eq!(Demand::<i32>::any([]), Never);
        assert_eq!(Demand::all([Key(1), All(vec![Key(2), Key(1)])]), All(vec![Key(1), Key(2)]));
        assert_eq!(
            Demand::any([Key(1), Any(vec![Key(2), Key(1)]), Key(3)]),
            Any(vec![Key(1), Key(2), Key(3)])
        );
    }

    #[test]
    fn what_all_alternatives_demand_is_taken_out() {
        let both = |a, b| Demand::all([Key(a), Key(b)]);
        assert_eq!(Demand::any([both(1, 2), both(3, 1)]), All(vec![Key(1), Any(vec![Key(2), Key(3)])]));
        assert_eq!(Demand::any([both(1, 2), Key(1)]), Key(1));
        assert_eq!(Demand::any([both(1, 2), both(3, 4)]), Any(vec![both(1, 2), both(3, 4)]));
    }

    #[test]
    fn a_long_demand_is_weakened() {
        let many = |from: usize, count: usize| (from..from + count).map(Key);
        let long = Demand::all(many(0, 3000)).bounded();
        assert_eq!(long.key_count(), super::MOST_KEYS);
        assert_eq!(Demand::any(many(0, 3000)).bounded(), Anything);
        let mixed = Demand::all([Demand::any(many(0, 1020)), Demand::any(many(5000, 10)), Key(7000)]);
        assert_eq!(mixed.bounded(), Demand::all([Demand::any(many(0, 1020)), Key(7000)]));
    }

    #[test]
    fn a_deep_demand_is_weakened() {
        let levels = |count: i32| {
            (1..=count).fold(Key(0), |inner, level| {
                let parts = vec![Key(level), inner];
                if level % 2 == 0 { All(parts) } else { Any(parts) }
            })
        };
        let most = super::MOST_LEVELS as i32;
        assert_eq!(levels(most).bounded(), levels(most));
        assert!(levels(most + 1).bounded().key_count() < levels(most).key_count());
    }

    #[test]
    fn met() {
        let demand = Demand::all([Key(1), Demand::any([Key(2), Key(3)])]);
        assert!(demand.is_met(&mut |key| [1, 3].contains(key)));
        assert!(!demand.is_met(&mut |key| [2, 3].contains(key)));
        assert!(!demand.is_met(&mut |key| *key == 1));
        assert!(
            Demand::<i32>::Anything.is_met(&mut |_| false) && !Demand::<i32>::Never.is_met(&mut |_| true)
        );
    }
}
