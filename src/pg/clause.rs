//! A clause: one index column and the key with which a query compares it.
//!
//! The same clause goes from the planner to the pages. Only its key changes on the way:
//!
//! | step | key |
//! |---|---|
//! | planning | the expression of the key ([`crate::scan`]) |
//! | the plan | the number of that expression among the plan's, None without one |
//! | execution | its values ([`Values`]) |
//! | lookup in the pages | their hashes: [`crate::prune::HashedClause`] |

use super::datum::{self, Repr, Value};
use pgrx::pg_sys;

/// What an operator asks of a column's value. The number of each is its strategy number in operator families; those
/// from 101 on are in no family: only the planner's hook finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// `column = value`.
    Equal = 1,
    /// `column @> value`.
    Contains = 2,
    /// `column && value`.
    Overlaps = 3,
    /// `column ? value`.
    HasName = 4,
    /// `column ?| value`.
    HasAnyName = 5,
    /// `column ?& value`.
    HasAllNames = 6,
    /// `column @? value`: a jsonpath gives a value.
    PathExists = 7,
    /// `column @@ value`: a jsonpath gives true.
    PathIsTrue = 8,
    /// `column < value`.
    Less = 11,
    /// `column <= value`.
    LessOrEqual = 12,
    /// `column >= value`.
    GreaterOrEqual = 13,
    /// `column > value`.
    Greater = 14,
    /// `column LIKE value`, as an operator `~~`.
    Like = 21,
    /// `column ILIKE value`, as an operator `~~*`.
    LikeIgnoreCase = 22,
    /// `column ~ value`.
    Regex = 23,
    /// `column ~* value`.
    RegexIgnoreCase = 24,
    /// `column ^@ value`.
    StartsWith = 25,
    /// `column @@@ value`: the column has all words of the value.
    HasWords = 26,
    /// `column @@@* value`: as `@@@`, whatever the case.
    HasWordsIgnoreCase = 27,
    /// `column = value`, where case makes no difference.
    EqualIgnoreCase = 28,
    /// `column @@ value`: the tsquery matches the tsvector.
    MatchesQuery = 31,
    /// `value = ANY (column)`: one of the column's elements.
    HasElement = 101,
    /// `column ->> … = value`: the text of what is at the clause's path.
    TextAtPath = 102,
    /// `(column ->> …)::integer = value`: what this text is as a number.
    NumberAtPath = 103,
    /// `column -> … = value` and `column -> … @> value`: a document is at the clause's path.
    DocumentAtPath = 104,
}

impl Strategy {
    const ALL: [Self; 25] = [
        Self::Equal,
        Self::Contains,
        Self::Overlaps,
        Self::HasName,
        Self::HasAnyName,
        Self::HasAllNames,
        Self::PathExists,
        Self::PathIsTrue,
        Self::Less,
        Self::LessOrEqual,
        Self::GreaterOrEqual,
        Self::Greater,
        Self::Like,
        Self::LikeIgnoreCase,
        Self::Regex,
        Self::RegexIgnoreCase,
        Self::StartsWith,
        Self::HasWords,
        Self::HasWordsIgnoreCase,
        Self::EqualIgnoreCase,
        Self::MatchesQuery,
        Self::HasElement,
        Self::TextAtPath,
        Self::NumberAtPath,
        Self::DocumentAtPath,
    ];

    /// The highest number that an operator family may use.
    pub const MOST: i16 = Self::MatchesQuery as i16;

    /// The strategy with this number.
    pub fn of_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|&strategy| strategy as i32 == number)
    }
}

/// How a column is compared with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Equal to a value.
    Value,
    /// Equal to one of an array's elements.
    Array,
    /// Equal to a value, or NULL like it.
    ValueOrNull,
    IsNull,
    IsNotNull,
}

impl Match {
    /// All of them; the position of each is its code in a plan.
    const ALL: [Self; 5] = [Self::Value, Self::Array, Self::ValueOrNull, Self::IsNull, Self::IsNotNull];

    fn code(self) -> i32 {
        Self::ALL.iter().position(|&one| one == self).map_or(-1, |place| place as i32)
    }

    fn of_code(code: i32) -> Option<Self> {
        usize::try_from(code).ok().and_then(|place| Self::ALL.get(place)).copied()
    }
}

/// What an operator asks of an index column, and the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clause<K> {
    /// Position of the index in a list: the table's skip indexes during planning, the plan's afterwards.
    pub index: usize,
    /// 0-based index column.
    pub column: u16,
    /// Type of the key, or of an array's elements, as the operator family declares it. InvalidOid for tests for NULL.
    pub key_type: pg_sys::Oid,
    /// What the operator asks of the column; nothing is asked by tests for NULL.
    pub strategy: Strategy,
    /// The path within a document that the strategy asks about ([`skip_jsonb::path`]); 0 for other strategies.
    pub path: u64,
    pub how: Match,
    pub key: K,
}

/// The values with which a column is compared when the query runs. A NULL in [`Match::Value`] or [`Match::Array`] is
/// left out, because nothing equals NULL.
pub type Values<'a> = Vec<Value<'a>>;

impl<K> Clause<K> {
    /// The clause with another key, for position `index` of another list.
    pub fn with<L>(&self, index: usize, key: L) -> Clause<L> {
        let &Self { column, key_type, strategy, path, how, .. } = self;
        Clause { index, column, key_type, strategy, path, how, key }
    }

    /// The clause with its key evaluated to `value`, which is None for NULL. Tests for NULL have no key to evaluate.
    ///
    /// # Safety
    /// `value` is of type `key_type`; for [`Match::Array`] it is an array of that type. It, and the current memory
    /// context, live for `'a`.
    pub(super) unsafe fn evaluated<'a>(&self, value: Option<pg_sys::Datum>) -> Clause<Values<'a>> {
        let how = match (self.how, value) {
            (Match::ValueOrNull, None) => Match::IsNull,
            (how, _) => how,
        };
        let values = match (how, value) {
            (Match::IsNull | Match::IsNotNull, _) | (_, None) => Vec::new(),
            // SAFETY: the clause says that the key is an array, and an operator of the index accepted it as one.
            (Match::Array, Some(array)) => unsafe { datum::elements(array) },
            // SAFETY: not NULL, and of the type that the operator family declares for the key, which determines its
            // representation.
            (_, Some(datum)) => vec![unsafe { Value::new(datum, Repr::of_type(self.key_type)) }],
        };
        Clause { how, ..self.with(self.index, values) }
    }
}

/// Stands for "no expression" among a plan's numbers.
const NO_EXPR: i32 = -1;

impl Clause<Option<u16>> {
    /// The numbers of the clause in a plan.
    pub fn encode(&self) -> [i32; 8] {
        let key = self.key.map_or(NO_EXPR, i32::from);
        let (index, key_type) = (self.index as i32, self.key_type.to_u32() as i32);
        let (upper, lower) = ((self.path >> 32) as i32, self.path as i32);
        [index, self.column.into(), key_type, self.strategy as i32, upper, lower, self.how.code(), key]
    }

    /// Reads the clause that [`Clause::encode`] wrote from a plan's numbers; None if there is no valid clause.
    pub fn decode(numbers: &mut dyn Iterator<Item = i32>) -> Option<Self> {
        let mut next = || numbers.next();
        Some(Self {
            index: usize::try_from(next()?).ok()?,
            column: u16::try_from(next()?).ok()?,
            key_type: pg_sys::Oid::from(next()? as u32),
            strategy: Strategy::of_number(next()?)?,
            path: u64::from(next()? as u32) << 32 | u64::from(next()? as u32),
            how: Match::of_code(next()?)?,
            key: u16::try_from(next()?).ok(),
        })
    }
}
