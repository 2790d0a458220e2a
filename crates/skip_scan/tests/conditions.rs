//! `Condition` against what AND and OR mean.

use proptest::prelude::*;
use skip_scan::{Condition, Grouped, RangeSet};

/// A test that lets through the numbers whose remainder by 7 has its bit set.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Test {
    group: usize,
    residues: u8,
}

impl Grouped for Test {
    fn group(&self) -> usize {
        self.group
    }
}

impl Test {
    fn holds(&self, number: u64) -> bool {
        self.residues >> (number % 7) & 1 != 0
    }
}

const LEN: u64 = 200;

fn condition() -> impl Strategy<Value = Condition<Test>> {
    let leaf = (0..3usize, 0..128u8).prop_map(|(group, residues)| Condition::Leaf(Test { group, residues }));
    leaf.prop_recursive(4, 40, 4, |inner| {
        let parts = prop::collection::vec(inner, 1..4);
        prop_oneof![parts.clone().prop_map(Condition::And), parts.prop_map(Condition::Or)]
    })
}

fn holds(condition: &Condition<Test>, number: u64) -> bool {
    match condition {
        Condition::And(parts) => parts.iter().all(|part| holds(part, number)),
        Condition::Or(parts) => parts.iter().any(|part| holds(part, number)),
        Condition::Leaf(test) => test.holds(number),
    }
}

/// Answers for tests of one group, and for candidates only.
fn ask(tests: &[&Test], candidates: &RangeSet) -> Result<RangeSet, String> {
    assert!(tests.iter().all(|test| test.group == tests[0].group), "tests of several groups");
    assert!(!candidates.is_empty(), "asked for nothing");
    let mut found = RangeSet::empty(candidates.universe());
    candidates.iter().filter(|&n| tests.iter().all(|test| test.holds(n))).for_each(|n| found.insert(n));
    Ok(found)
}

proptest! {
    #[test]
    fn evaluates(condition in condition(), among in prop::collection::vec(0..LEN, 0..100)) {
        let mut candidates = RangeSet::empty(LEN);
        among.iter().for_each(|&number| candidates.insert(number));
        let found = condition.evaluate(&candidates, &mut ask).unwrap();
        for number in 0..LEN {
            prop_assert_eq!(found.contains(number), candidates.contains(number) && holds(&condition, number));
        }
    }

    #[test]
    fn comes_back_from_numbers(condition in condition()) {
        let mut numbers = Vec::new();
        condition.encode(&mut numbers, &|test, out| out.extend([test.group as i32, i32::from(test.residues)]));
        let leaf = |numbers: &mut dyn Iterator<Item = i32>| {
            Some(Test { group: numbers.next()? as usize, residues: numbers.next()? as u8 })
        };
        prop_assert_eq!(Condition::decode(&mut numbers.iter().copied(), &leaf), Some(condition));
        // Cut short anywhere, they are no condition.
        for end in 0..numbers.len() {
            prop_assert_eq!(Condition::decode(&mut numbers[..end].iter().copied(), &leaf), None);
        }
    }

    #[test]
    fn leaving_tests_out_lets_more_through(condition in condition(), unknown in 0..3usize) {
        let known = condition.try_map(&mut |test| (test.group != unknown).then(|| test.clone()));
        for number in (0..LEN).filter(|&number| holds(&condition, number)) {
            prop_assert!(known.as_ref().is_none_or(|known| holds(known, number)));
        }
    }

    #[test]
    fn joining_keeps_the_meaning(parts in prop::collection::vec(condition(), 1..5)) {
        let (all, any) = (Condition::all(parts.clone()).unwrap(), Condition::any(parts.clone()).unwrap());
        for number in 0..LEN {
            prop_assert_eq!(holds(&all, number), parts.iter().all(|part| holds(part, number)));
            prop_assert_eq!(holds(&any, number), parts.iter().any(|part| holds(part, number)));
        }
    }
}

#[test]
fn nothing_to_join() {
    assert_eq!(Condition::<Test>::all(vec![]), None);
    assert_eq!(Condition::<Test>::any(vec![]), None);
}

#[test]
fn an_unknown_test_takes_its_or_along() {
    let leaf = |group| Condition::Leaf(Test { group, residues: 1 });
    let either = Condition::Or(vec![leaf(0), leaf(1)]);
    let known = |condition: &Condition<Test>| condition.try_map(&mut |t| (t.group == 0).then(|| t.clone()));
    assert_eq!(known(&either), None);
    assert_eq!(known(&Condition::And(vec![either.clone(), leaf(0)])), Some(leaf(0)));
    assert_eq!(known(&Condition::And(vec![either, leaf(1)])), None);
}

#[test]
fn nesting_has_a_bound() {
    let nested = |levels: usize| {
        let mut condition = Condition::Leaf(7);
        for level in 0..levels {
            let parts = vec![Condition::Leaf(level as i32), condition];
            condition = if level % 2 == 0 { Condition::And(parts) } else { Condition::Or(parts) };
        }
        let mut code = Vec::new();
        condition.encode(&mut code, &|leaf, out| out.push(*leaf));
        let read = Condition::decode(&mut code.into_iter(), &|numbers| numbers.next());
        (condition, read)
    };
    // The planner's conversion puts a table's conditions together by one more AND.
    let (condition, read) = nested(skip_scan::MOST_LEVELS + 1);
    assert_eq!(read, Some(condition));
    assert_eq!(nested(skip_scan::MOST_LEVELS + 2).1, None);
    assert_eq!(nested(5000).1, None);
}
