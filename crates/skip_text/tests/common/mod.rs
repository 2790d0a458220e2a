//! What the tests of several files share.

use skip_text::{Demand, Encoding, KeyCase, TextKeyKind, TextKeys, TextQuery};
use std::collections::HashSet;

/// How often a demand was more than anything, of how many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    pub some: usize,
    pub all: usize,
}

impl Asked {
    pub fn share(self) -> f64 {
        self.some as f64 / self.all as f64
    }
}

/// Every way to cut, small lengths first.
pub fn all_cuts(encoding: Encoding) -> Vec<TextKeys> {
    let kinds = [
        TextKeyKind::Words,
        TextKeyKind::Ngrams(2),
        TextKeyKind::Ngrams(3),
        TextKeyKind::Ngrams(5),
        TextKeyKind::Prefix(1),
        TextKeyKind::Prefix(3),
    ];
    let both =
        |kind| [KeyCase::AsIs, KeyCase::Folded].map(|case| TextKeys::new(kind, case, encoding).unwrap());
    kinds.into_iter().flat_map(both).collect()
}

/// Fails unless the keys of the value, which matches the query, meet the demand.
pub fn assert_found(cut: &TextKeys, query: &TextQuery, value: &[u8], asked: &mut Asked) {
    let demand = cut.demand(query);
    asked.all += 1;
    if demand == Demand::Anything {
        return;
    }
    asked.some += 1;
    let mut buffer = Vec::new();
    let keys: HashSet<&[u8]> = cut.keys(value, &mut buffer).collect();
    if !demand.is_met(&mut |key| keys.contains(&key[..])) {
        let text = String::from_utf8_lossy(value);
        panic!("{value:?} {text:?} matches {query:?} and lacks keys of {demand:?}, cut by {cut:?}");
    }
}

/// Random numbers, the same in every run.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `sides`.
    pub fn below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % sides
    }

    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub fn in_hundred(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}
