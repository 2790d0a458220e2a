//! Order keys of a column: `<`, `<=`, `=`, `>=`, `>`.
//!
//! The crate `skip_bounds` makes the key of a value from its bytes, for each kind of order. Here a type gets its kind.
//! Two types can be compared if they have the same kind: their keys are then in one order. Dates and times of different
//! kinds are compared by [`super::order_times`]. Strings are only supported under collations that compare them byte by
//! byte. Arrays and ranges are ordered by what they consist of, if that has a kind.
//!
//! A label that was put into an enum later may have a place in the order that its OID does not tell. All such labels
//! share a key, which every search finds.
//!
//! The order is that of the server's own operators. Which operators a class has is checked when an index is made
//! ([`crate::index`]).

use super::key_test::KeyTest;
use super::order_times;
use crate::pg::clause::{Clause, Strategy};
use crate::pg::datum::{self, Repr, Value};
use crate::pg::heap::Field;
use crate::pg::{Rel, collation, types};
use pgrx::pg_sys::{self, Oid};
use skip_bounds::{KeyComparison, Nesting, OrderKeyIntervals, OrderKind, PartLen, ValueOrder};
use skip_scan::Condition;

/// What is added to the number of the kind, for the number of the canonical form.
const ORDER: u16 = 0x300;

/// How values of one column become order keys.
pub struct OrderKeys {
    order: ValueOrder,
    /// The input type of the operator class.
    input: Oid,
    repr: Repr,
}

impl OrderKeys {
    /// The keys of an index column; None if its type has no order keys under its collation.
    pub fn of_column(index: Rel, column: usize) -> Option<Self> {
        let class = index.column_class(column);
        let Ok(order) = order_of(class.input, values_of(index, column), class.collation) else { return None };
        Some(Self { order, input: class.input, repr: Repr::of_type(class.input) })
    }

    pub fn canon(&self) -> u16 {
        ORDER + self.order.number()
    }

    pub fn repr(&self) -> Repr {
        self.repr
    }

    /// Whether values with the same key are equal.
    pub fn is_exact(&self) -> bool {
        self.order.is_exact()
    }

    /// Whether keys tell the order of all values, so that rows can be returned in it.
    pub fn are_ranks(&self) -> bool {
        self.order.key_of_unknown_places().is_none()
    }

    /// The key of a value; None if the value is damaged.
    #[inline]
    pub fn key(&self, value: Value<'_>) -> Option<u64> {
        value.with_bytes(|bytes| self.order.key(bytes))
    }

    /// The key of a value found in a heap tuple. None for NULL, for a value stored out of line, which the caller has to
    /// fetch first, and for a damaged one.
    #[inline]
    pub fn key_of_field(&self, field: &Field<'_>) -> Option<u64> {
        match *field {
            Field::Fixed(bytes) if self.repr == Repr::Name => self.order.key(datum::until_nul(bytes)),
            Field::Fixed(bytes) => self.order.key(bytes),
            Field::Plain(whole, header) => self.order.key(whole.get(header..)?),
            Field::Compressed(_) => field.value(self.repr).and_then(|value| self.key(value)),
            Field::Null | Field::External => None,
        }
    }

    /// What values satisfy that a clause's operator finds; None if nothing can be looked up.
    pub fn condition(&self, clause: &Clause<Vec<Value<'_>>>) -> Option<Condition<KeyTest>> {
        let comparison = match clause.strategy {
            Strategy::Less => KeyComparison::Less,
            Strategy::LessOrEqual => KeyComparison::LessOrEqual,
            Strategy::Equal => KeyComparison::Equal,
            Strategy::GreaterOrEqual => KeyComparison::GreaterOrEqual,
            Strategy::Greater => KeyComparison::Greater,
            _ => return None,
        };
        // InvalidOid stands for the input type of the operator class. Both sides of a comparison of arrays, ranges or
        // enums have one type.
        let is_own =
            [pg_sys::InvalidOid, self.input].contains(&clause.key_type) || types::is_pseudo(self.input);
        let given = if is_own { self.order } else { ValueOrder::of(kind_of(clause.key_type)?) };
        let unknown = self.order.key_of_unknown_places();
        let spans_of = |value: &Value<'_>| {
            let key = value.with_bytes(|bytes| given.key(bytes))?;
            if unknown == Some(key) {
                return Some(OrderKeyIntervals::all());
            }
            if given.number() == self.order.number() {
                return Some(OrderKeyIntervals::of(comparison, key, self.order.is_exact()));
            }
            let (least, greatest) = order_times::hull(self.order.plain_kind()?, given.plain_kind()?, key)?;
            Some(OrderKeyIntervals::within(comparison, least, greatest))
        };
        let spans = clause.key.iter().map(spans_of).collect::<Option<Vec<_>>>()?;
        let unknown = unknown.map(|key| OrderKeyIntervals::of(KeyComparison::Equal, key, false));
        Some(Condition::Leaf(KeyTest::Within(OrderKeyIntervals::union(spans.into_iter().chain(unknown)))))
    }
}

/// The type of an index column's values: its actual type where the operator class takes a pseudo-type, else the class's
/// input type, to which all values are binary-coercible.
fn values_of(index: Rel, column: usize) -> Oid {
    let input = index.column_class(column).input;
    if types::is_pseudo(input) { types::base_type(index.column_type(column)) } else { input }
}

/// Why values have no order keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOrderKeys {
    /// Those of their type, or of the type of their parts, have none.
    OfType,
    /// They have some under collations that compare bytes, but the collation is this one.
    UnderCollation(Oid),
}

/// Why the values of an index column have no order keys; None if they have some.
pub fn why_none(index: Rel, column: usize) -> Option<NoOrderKeys> {
    let class = index.column_class(column);
    order_of(class.input, values_of(index, column), class.collation).err()
}

/// The order of a type's values under a collation, by the operators of a class with the input type `input`.
fn order_of(input: Oid, values: Oid, collation: Oid) -> Result<ValueOrder, NoOrderKeys> {
    let nested = |nesting, part: Oid| {
        let part = types::base_type(part);
        let kind = kind_of(part)?;
        let len = match Repr::of_type(part) {
            Repr::ByValue(len) | Repr::ByReference(len) => PartLen::Fixed(len),
            Repr::Name => PartLen::Fixed(pg_sys::NAMEDATALEN as usize),
            Repr::Varlena => PartLen::Varlena,
            Repr::CString => return None,
        };
        ValueOrder::nested(nesting, kind, len, types::alignment(part))
    };
    let of_range = |nesting, range: Oid| {
        let order = types::range_order(range);
        // The order of the range's own operator class may be another than that of the type.
        Some((nested(nesting, order.subtype).filter(|_| order.is_usual)?, order.collation))
    };
    let plain = |kind| (ValueOrder::of(kind), collation);
    // The operators decide: those of arrays have another order of an oidvector than its own ones.
    let found = match input {
        pg_sys::ANYARRAYOID => types::element(values)
            .and_then(|element| nested(Nesting::Array, element))
            .map(|order| (order, collation)),
        pg_sys::ANYRANGEOID if types::is_range(values) => of_range(Nesting::Range, values),
        pg_sys::ANYMULTIRANGEOID => {
            types::range_of(values).and_then(|range| of_range(Nesting::Multirange, range))
        }
        pg_sys::ANYENUMOID if types::is_enum(values) => Some(plain(OrderKind::Label)),
        _ if types::is_pseudo(input) => None,
        _ => kind_of(values).map(plain),
    };
    let (order, collation) = found.ok_or(NoOrderKeys::OfType)?;
    if order.is_collated() && !collation::is_bytewise(collation) {
        return Err(NoOrderKeys::UnderCollation(collation));
    }
    Ok(order)
}

/// The kind of the order of a type's values; None if they have none, or consist of others.
fn kind_of(input: Oid) -> Option<OrderKind> {
    Some(match input {
        pg_sys::INT2OID | pg_sys::INT4OID | pg_sys::INT8OID => OrderKind::Integer,
        pg_sys::FLOAT4OID | pg_sys::FLOAT8OID => OrderKind::Float,
        pg_sys::NUMERICOID => OrderKind::Numeric,
        pg_sys::DATEOID => OrderKind::Date,
        pg_sys::TIMEOID => OrderKind::Time,
        pg_sys::TIMETZOID => OrderKind::TimeTz,
        pg_sys::TIMESTAMPOID => OrderKind::Timestamp,
        pg_sys::TIMESTAMPTZOID => OrderKind::TimestampTz,
        pg_sys::INTERVALOID => OrderKind::Interval,
        pg_sys::OIDOID => OrderKind::Unsigned,
        pg_sys::XID8OID => OrderKind::TransactionId,
        pg_sys::PG_LSNOID => OrderKind::Lsn,
        pg_sys::BOOLOID | pg_sys::CHAROID => OrderKind::Byte,
        pg_sys::MONEYOID => OrderKind::Money,
        pg_sys::UUIDOID => OrderKind::Uuid,
        pg_sys::MACADDROID => OrderKind::MacAddress,
        pg_sys::MACADDR8OID => OrderKind::MacAddress8,
        pg_sys::BYTEAOID => OrderKind::Bytes,
        pg_sys::TEXTOID | pg_sys::VARCHAROID => OrderKind::Text,
        pg_sys::BPCHAROID => OrderKind::Blanked,
        pg_sys::NAMEOID => OrderKind::Name,
        pg_sys::INETOID | pg_sys::CIDROID => OrderKind::Network,
        pg_sys::BITOID | pg_sys::VARBITOID => OrderKind::Bits,
        pg_sys::TIDOID => OrderKind::TupleId,
        pg_sys::OIDVECTOROID => OrderKind::OidVector,
        pg_sys::TSVECTOROID => OrderKind::Lexemes,
        pg_sys::TSQUERYOID => OrderKind::TextQuery,
        pg_sys::JSONBOID => OrderKind::Document,
        _ => return None,
    })
}
