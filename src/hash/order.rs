//! Order keys of a column: `<`, `<=`, `=`, `>=`, `>`.
//!
//! The crate `skip_bounds` makes the key of a value from its bytes, for each kind of order. Here a type gets its kind.
//! Two types can be compared if they have the same kind: their keys are then in one order. Dates and times of different
//! kinds are compared by [`super::order_times`]. Strings are only supported
//! under collations that compare them byte by byte.
//!
//! The order is that of the server's own operators. Which operators a class has is checked when an index is made
//! ([`crate::index`]).

use super::asked::KeyTest;
use super::order_times;
use crate::pg::clause::{Clause, Strategy};
use crate::pg::datum::{self, Repr, Value};
use crate::pg::heap::Field;
use crate::pg::{Rel, collation};
use pgrx::pg_sys::{self, Oid};
use skip_bounds::{KeyComparison, KeySpans, OrderKind};
use skip_scan::Condition;

/// What is added to the number of the kind, for the number of the canonical form.
const ORDER: u16 = 0x300;

/// How values of one column become order keys.
pub struct OrderKeys {
    kind: OrderKind,
    /// The input type of the operator class.
    input: Oid,
    repr: Repr,
}

impl OrderKeys {
    /// The keys of an index column; None if its type has no order keys under its collation.
    pub fn of_column(index: Rel, column: usize) -> Option<Self> {
        let class = index.column_class(column);
        let kind = kind_of(class.input)?;
        let is_ordered = !kind.is_collated() || collation::is_bytewise(class.collation);
        is_ordered.then(|| Self { kind, input: class.input, repr: Repr::of_type(class.input) })
    }

    pub fn canon(&self) -> u16 {
        ORDER + self.kind as u16
    }

    pub fn repr(&self) -> Repr {
        self.repr
    }

    /// Whether values with the same key are equal.
    pub fn is_exact(&self) -> bool {
        self.kind.is_exact()
    }

    /// The key of a value; None if the value is damaged.
    #[inline]
    pub fn key(&self, value: Value<'_>) -> Option<u64> {
        value.with_bytes(|bytes| self.kind.key(bytes))
    }

    /// The key of a value found in a heap tuple. None for NULL, for a value stored out of line, which the caller has to
    /// fetch first, and for a damaged one.
    #[inline]
    pub fn key_of_field(&self, field: &Field<'_>) -> Option<u64> {
        match *field {
            Field::Fixed(bytes) if self.repr == Repr::Name => self.kind.key(datum::until_nul(bytes)),
            Field::Fixed(bytes) => self.kind.key(bytes),
            Field::Plain(whole, header) => self.kind.key(whole.get(header..)?),
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
        // InvalidOid stands for the input type of the operator class.
        let given = if clause.key_type == pg_sys::InvalidOid { self.input } else { clause.key_type };
        let given = kind_of(given)?;
        let spans = |value: &Value<'_>| {
            let key = value.with_bytes(|bytes| given.key(bytes))?;
            if given == self.kind {
                return Some(KeySpans::of(comparison, key, self.kind.is_exact()));
            }
            let (least, greatest) = order_times::hull(self.kind, given, key)?;
            Some(KeySpans::within(comparison, least, greatest))
        };
        let spans = clause.key.iter().map(spans).collect::<Option<Vec<_>>>()?;
        Some(Condition::Leaf(KeyTest::Within(KeySpans::union(spans))))
    }
}

/// The kind of a type's order; None if it has no order keys.
pub fn kind_of(input: Oid) -> Option<OrderKind> {
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
        _ => return None,
    })
}
