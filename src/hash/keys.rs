//! The keys of a column: what a value of it becomes in the index, and what a query's operator and value ask of them.
//!
//! | kind | keys of a value | what a query asks |
//! |---|---|---|
//! | [`KeyKind::Whole`] | the value's hash | `=`: its key |
//! | [`KeyKind::Elements`] | the hash of each element of an array ([`super::elements`]) | `@>`: all elements; `&&`: any |
//! | [`KeyKind::Paths`] | the scalars of a document, with their paths ([`super::documents`]) | `@>`: all scalars |
//! | [`KeyKind::Lexemes`] | the lexemes of a tsvector ([`super::lexemes`]) | `@@`: what the tsquery demands |
//! | [`KeyKind::Users`] | what a function of the operator class makes ([`super::users`]) | what another one demands |
//! | [`KeyKind::Fragments`] | the hash of each run of n characters of a text ([`super::texts`]) | those of what must stand in the text |
//! | [`KeyKind::Words`] | the hash of each word of a text ([`super::texts`]) | those of words that must stand in the text |
//! | [`KeyKind::Prefix`] | the hash of the first characters of a text ([`super::texts`]) | that of how the text must begin |
//! | [`KeyKind::Order`] | the value's order key, not a hash ([`super::order`]) | `<`, `<=`, `=`, `>=`, `>`: a span of order keys |
//!
//! A query becomes a condition that every row it finds satisfies: AND and OR over sets of keys. It may let other rows
//! through, because the server checks each row.
//!
//! Every value that is not NULL has a key. So an entry of the delta says that there is such a value, too.

use super::documents::DocumentKeys;
use super::elements::ElementKeys;
pub use super::key_test::KeyTest;
use super::lexemes::LexemeKeys;
use super::order::OrderKeys;
use super::texts::TextColumnKeys;
use super::users::UserKeys;
use super::{KeyHasher, documents, lexemes, users};
use crate::pages::meta::Meta;
use crate::pg::Rel;
use crate::pg::clause::{Clause, Strategy};
use crate::pg::datum::{Repr, Value};
use crate::pg::heap::Field;
use crate::pg::key_kind::KeyKind;
use crate::pg::text_options::TextOptions;
use crate::pg::{catalog, memory, types};
use pgrx::pg_sys::Oid;
use skip_scan::Condition;
use skip_text::RecentFragments;

/// The most values of a list for each of which several keys are looked up. For each value of a longer list, one key is.
const MOST_VALUES: usize = 64;

/// How values of an index column become keys.
pub enum ColumnKeys {
    Whole(KeyHasher),
    Elements(ElementKeys),
    Paths(DocumentKeys),
    Lexemes(LexemeKeys),
    Users(UserKeys),
    Text(TextColumnKeys),
    Order(OrderKeys),
}

impl ColumnKeys {
    /// The keys of an index column's own values; None if this build does not know how they are made.
    pub fn of_column(index: Rel, column: usize, seed: u64) -> Option<Self> {
        let kind = KeyKind::of_column(index, column);
        match kind {
            KeyKind::Whole => Some(Self::Whole(KeyHasher::of_column(index, column, seed))),
            KeyKind::Elements => ElementKeys::of_column(index, column, seed).map(Self::Elements),
            KeyKind::Paths => Some(Self::Paths(DocumentKeys::new(seed))),
            KeyKind::Lexemes => Some(Self::Lexemes(LexemeKeys::new(seed))),
            KeyKind::Users => UserKeys::of_class(index.column_class(column), seed).map(Self::Users),
            KeyKind::Fragments | KeyKind::Words | KeyKind::Prefix => {
                TextColumnKeys::of_column(index, column, kind, seed).map(Self::Text)
            }
            KeyKind::Order => OrderKeys::of_column(index, column).map(Self::Order),
            KeyKind::Unknown => None,
        }
    }

    /// The keys of parts of a table column's values, of this type and collation, in an index with a class of this kind
    /// for its `input` type, with default options. None if code of users would make them.
    pub fn of_parts(kind: KeyKind, input: Oid, (values, collation): (Oid, Oid)) -> Option<Self> {
        let seed = 0;
        match kind {
            KeyKind::Elements => {
                let element = types::base_type(types::element(types::base_type(values))?);
                // Records and ranges of users call the functions of what they are made of.
                let is_built_in = catalog::is_built_in(catalog::extended_hash(element)?)
                    && (catalog::is_built_in(element) || types::is_enum(element));
                is_built_in.then(|| ElementKeys::of_type(values, collation, seed).map(Self::Elements))?
            }
            KeyKind::Paths => Some(Self::Paths(DocumentKeys::new(seed))),
            KeyKind::Lexemes => Some(Self::Lexemes(LexemeKeys::new(seed))),
            KeyKind::Fragments | KeyKind::Words | KeyKind::Prefix => {
                let options = TextOptions::by_default(kind);
                TextColumnKeys::new(kind, options, (input, collation), seed).map(Self::Text)
            }
            KeyKind::Whole | KeyKind::Users | KeyKind::Order | KeyKind::Unknown => None,
        }
    }

    /// The keys of a column of an index, if this build makes them as the index's build did.
    pub fn of_index(index: Rel, meta: &Meta, column: usize) -> Option<Self> {
        let frozen = meta.columns.get(column).filter(|_| meta.hashes_match())?;
        Self::of_column(index, column, meta.seed).filter(|keys| keys.canon() == frozen.canon)
    }

    /// The number of the way in which keys are made, as the meta page stores it.
    pub fn canon(&self) -> u16 {
        match self {
            Self::Whole(hasher) => hasher.canon(),
            Self::Elements(keys) => keys.canon(),
            Self::Paths(_) => documents::CANON,
            Self::Lexemes(_) => lexemes::CANON,
            Self::Users(_) => users::CANON,
            Self::Text(keys) => keys.canon(),
            Self::Order(keys) => keys.canon(),
        }
    }

    /// Why a condition that the column serves asks for none of its keys, and what would help.
    pub fn why_nothing(&self, strategy: Strategy) -> (String, String) {
        match self {
            Self::Text(keys) => keys.why_nothing(strategy),
            Self::Paths(_) => (
                "the condition names no string, number, true, false or null that must be in the document"
                    .into(),
                "Ask for a scalar, or for a name with the operator ?.".into(),
            ),
            Self::Lexemes(_) => (
                "no lexeme is known to be in every match: a negation and a prefix ask for none".into(),
                "Ask for a whole word beside it.".into(),
            ),
            Self::Users(_) => (
                "the functions of the operator class ask for no key".into(),
                "Ask for what the operator class has keys of.".into(),
            ),
            Self::Elements(_) => (
                "the array of the condition has no element that must be in the column".into(),
                "Ask for an element.".into(),
            ),
            Self::Order(_) => (
                "the value is of a type whose order is not that of the column's bounds".into(),
                "Cast the value to the column's type.".into(),
            ),
            Self::Whole(_) => (
                "the value is of a type that is hashed differently than the column".into(),
                "Cast the value to the column's type.".into(),
            ),
        }
    }

    /// The memory representation of the column's values.
    pub fn repr(&self) -> Repr {
        match self {
            Self::Whole(hasher) => hasher.repr(),
            Self::Users(keys) => keys.repr(),
            Self::Elements(_) | Self::Paths(_) | Self::Lexemes(_) | Self::Text(_) => Repr::Varlena,
            Self::Order(keys) => keys.repr(),
        }
    }

    /// Calls `add` with the keys of a value, at least one; the same key may come several times. False if the value is
    /// damaged, so that it has keys that are not known.
    #[inline]
    pub fn each_key(&mut self, value: Value<'_>, mut add: impl FnMut(u64)) -> bool {
        match self {
            Self::Whole(hasher) => add(hasher.hash(value)),
            Self::Elements(keys) => keys.each_key(value, add),
            Self::Paths(keys) => return keys.each_key(value, add),
            Self::Lexemes(keys) => return keys.each_key(value, add),
            Self::Users(keys) => keys.each_key(value, add),
            Self::Text(keys) => keys.each_key(value, add),
            Self::Order(keys) => return keys.key(value).map(add).is_some(),
        }
        true
    }

    /// Calls `add` with the keys of a value found in a heap tuple. False if the value is stored out of line, so that
    /// the caller has to fetch it first, or if it is not stored as its type says, or damaged.
    #[inline]
    pub fn each_key_of_field(&mut self, field: &Field<'_>, add: impl FnMut(u64)) -> bool {
        match self {
            Self::Whole(hasher) => hasher.hash_field(field).map(add).is_some(),
            Self::Order(keys) => keys.key_of_field(field).map(add).is_some(),
            _ => field.value(self.repr()).is_some_and(|value| self.each_key(value, add)),
        }
    }

    /// As [`ColumnKeys::each_key_of_field`], without some of the keys that were given since `recent` was cleared.
    #[inline]
    pub fn each_new_key_of_field(
        &mut self,
        field: &Field<'_>,
        recent: &mut RecentFragments,
        add: impl FnMut(u64),
    ) -> bool {
        match self {
            Self::Text(keys) if keys.are_fragments() => {
                let value = field.value(Repr::Varlena);
                value.map(|value| keys.each_new_fragment(value, recent, add)).is_some()
            }
            _ => self.each_key_of_field(field, add),
        }
    }

    /// Whether it takes less time to ask for the new keys of a field.
    pub fn are_fragments(&self) -> bool {
        matches!(self, Self::Text(keys) if keys.are_fragments())
    }

    /// Calls `add` with keys of equal values with different bytes, by which a query may look up the value.
    pub fn each_key_of_equals(&mut self, value: Value<'_>, add: impl FnMut(u64)) {
        match self {
            Self::Whole(hasher) => hasher.hash_of_equal(value).into_iter().for_each(add),
            Self::Elements(keys) => keys.each_key_of_equals(value, add),
            // What is equal has the same keys: only numbers have several forms.
            Self::Paths(_) | Self::Lexemes(_) | Self::Users(_) | Self::Text(_) => {}
            // Equal values have the same key.
            Self::Order(_) => {}
        }
    }

    /// Whether the keys have the order of the values, so that the index has bounds of them.
    pub fn are_ordered(&self) -> bool {
        matches!(self, Self::Order(_))
    }

    /// What rows satisfy for which the clause's operator holds with one of its values; None if nothing can be looked
    /// up. The clause is no test for NULL.
    pub fn condition(self, index: Rel, clause: &Clause<Vec<Value<'_>>>) -> Option<Condition<KeyTest>> {
        let values = clause.key.iter().copied();
        match self {
            Self::Whole(own) => {
                if clause.strategy != Strategy::Equal {
                    return None;
                }
                let mut hasher = own.for_key(index, usize::from(clause.column), clause.key_type)?;
                Some(Condition::Leaf(KeyTest::AnyOf(values.map(|value| hasher.hash(value)).collect())))
            }
            Self::Elements(mut keys) => match clause.strategy {
                Strategy::HasElement => {
                    let mut hasher = keys.hasher_for(clause.key_type)?;
                    Some(Condition::Leaf(KeyTest::AnyOf(values.map(|value| hasher.hash(value)).collect())))
                }
                strategy => any_of(values.map(|value| keys.condition(strategy, value))),
            },
            Self::Paths(mut keys) => any_of(values.map(|value| keys.condition(clause, value))),
            Self::Lexemes(keys) => any_of(values.map(|value| keys.condition(clause.strategy, value))),
            Self::Users(keys) => {
                any_of(keys.conditions(clause.strategy, clause.key_type, values)?.into_iter().map(Some))
            }
            Self::Text(keys) if clause.key_type == keys.input() => {
                any_of(values.map(|value| keys.condition(clause.strategy, value)))
            }
            Self::Text(_) => None,
            Self::Order(keys) => keys.condition(clause),
        }
    }
}

/// Any of the conditions of several values; None if there is none for one of them. Single keys become one set. Of a
/// long list, no more than a key is kept of each value, and it can be cancelled: there may be a million patterns.
fn any_of(
    conditions: impl ExactSizeIterator<Item = Option<Condition<KeyTest>>>,
) -> Option<Condition<KeyTest>> {
    let is_long = conditions.len() > MOST_VALUES;
    let (mut keys, mut parts) = (Vec::new(), Vec::new());
    for condition in conditions {
        memory::check_for_interrupts();
        let condition = match condition? {
            // Who has all of the keys has the first.
            Condition::And(all) if is_long => all.into_iter().next()?,
            other => other,
        };
        match condition {
            Condition::Leaf(KeyTest::AnyOf(more)) => keys.extend(more),
            other => parts.push(other),
        }
    }
    if parts.is_empty() || !keys.is_empty() {
        parts.push(Condition::Leaf(KeyTest::AnyOf(keys)));
    }
    Condition::any(parts)
}
