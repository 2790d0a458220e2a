//! The elements of arrays as keys: `@>`, `&&`, `=` and `value = ANY (column)`.
//!
//! The server compares elements by the equality operator of their type, under the collation of the comparison. They are
//! hashed by the hash function that belongs to that operator. What the server makes of NULL elements, and of arrays
//! without elements:
//!
//! | query | rows that it finds |
//! |---|---|
//! | `@> '{a,b}'` | those with both elements, in any dimension |
//! | `@> '{a,NULL}'` | none: nothing contains a NULL |
//! | `@> '{}'` | all that are not NULL |
//! | `&& '{a,b,NULL}'` | those with a or b |
//! | `= '{a,NULL}'` | those with a, and with a NULL element |

use super::key_test::{self, KeyTest};
use super::{Canon, KeyHasher};
use crate::pg::clause::Strategy;
use crate::pg::datum::{self, ElementLayout, HashFunction, Repr, Value};
use crate::pg::{Rel, catalog, types};
use pgrx::pg_sys::{self, Oid};
use skip_scan::Condition;

/// What is added to the number of the elements' canonical form.
const ELEMENTS: u16 = 0x100;

/// How arrays of one column become keys.
pub struct ElementKeys {
    /// The type of the elements; the base type of a domain.
    element: Oid,
    collation: Oid,
    hasher: KeyHasher,
    layout: ElementLayout,
}

impl ElementKeys {
    /// The keys of an index column; None if its elements cannot be hashed.
    pub fn of_column(index: Rel, column: usize, seed: u64) -> Option<Self> {
        let collation = index.column_class(column).collation;
        Self::of_type(index.column_type(column), collation, seed)
    }

    /// The keys of arrays of a type; None if its elements cannot be hashed.
    pub fn of_type(arrays: Oid, collation: Oid, seed: u64) -> Option<Self> {
        let own = types::element(types::base_type(arrays))?;
        let element = types::base_type(own);
        let hasher = KeyHasher::of_type(element, collation, catalog::extended_hash(element)?, seed);
        Some(Self { element, collation, hasher, layout: ElementLayout::of(own) })
    }

    pub fn canon(&self) -> u16 {
        ELEMENTS + self.hasher.canon()
    }

    /// Calls `add` with the key of each element; if there are none that are not NULL, with the key that says so.
    pub fn each_key(&mut self, array: Value<'_>, mut add: impl FnMut(u64)) {
        let mut is_empty = true;
        datum::each_element(array, Some(&self.layout), |element| {
            if let Some(element) = element {
                add(self.hasher.hash(element));
                is_empty = false;
            }
        });
        if is_empty {
            add(key_test::no_keys(self.hasher.seed));
        }
    }

    /// As [`KeyHasher::hash_of_equal`], for each element.
    pub fn each_key_of_equals(&mut self, array: Value<'_>, mut add: impl FnMut(u64)) {
        datum::each_element(array, Some(&self.layout), |element| {
            element.and_then(|element| self.hasher.hash_of_equal(element)).into_iter().for_each(&mut add);
        });
    }

    /// What arrays satisfy for which an operator holds with the array of a query.
    pub fn condition(&mut self, strategy: Strategy, array: Value<'_>) -> Option<Condition<KeyTest>> {
        let (mut hashes, mut has_null) = (Vec::new(), false);
        let element = datum::each_element(array, Some(&self.layout), |element| match element {
            Some(element) => hashes.push(self.hasher.hash(element)),
            None => has_null = true,
        })?;
        // The server refuses to compare arrays of different types; if it does not, their hashes may differ.
        if types::base_type(element) != self.element {
            return None;
        }
        let nothing = || Condition::Leaf(KeyTest::AnyOf(Vec::new()));
        match strategy {
            Strategy::Contains if has_null => Some(nothing()),
            Strategy::Contains => Some(key_test::all_of(hashes)),
            Strategy::Overlaps => Some(Condition::Leaf(KeyTest::AnyOf(hashes))),
            Strategy::Equal if hashes.is_empty() => {
                Some(Condition::Leaf(KeyTest::AnyOf(vec![key_test::no_keys(self.hasher.seed)])))
            }
            Strategy::Equal => Some(key_test::all_of(hashes)),
            _ => None,
        }
    }

    /// The hasher of values of type `input` that are compared with an element; None if the two are hashed differently.
    pub fn hasher_for(self, input: Oid) -> Option<KeyHasher> {
        let input = types::base_type(input);
        if input == self.element {
            return Some(self.hasher);
        }
        let (family, _) = types::hash_class(self.element)?;
        let function = datum::extended_hash_of(family, input)?;
        let other = KeyHasher::of_type(input, self.collation, function, self.hasher.seed);
        let is_comparable = self.hasher.is_comparable(self.element, input);
        (other.canon == self.hasher.canon && is_comparable).then_some(other)
    }
}

impl KeyHasher {
    /// The hasher of values of a type, by one of its hash functions.
    fn of_type(values: Oid, collation: Oid, function: Oid, seed: u64) -> Self {
        let canon = Canon::choose(values, collation, function);
        let function = canon.is_of_function().then(|| HashFunction::new(function, collation));
        let has_blanks = values == pg_sys::BPCHAROID;
        Self { canon, repr: Repr::of_type(values), seed, function, has_blanks }
    }
}
