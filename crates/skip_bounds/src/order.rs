//! Order keys: a value becomes an unsigned number of 64 bits, in the order of its type.
//!
//! If `a <= b` in the order of the type's btree operators, then `key(a) <= key(b)`. So values that are equal there have
//! the same key. Different values may have the same key too, unless the kind is *exact*. A value outside of the key
//! bounds of a range is then outside of its values, whatever was lost on the way.
//!
//! | kind | bytes of a value, as the server stores them | key |
//! |---|---|---|
//! | `Integer`, `Date`, `Time`, `Timestamp`, `TimestampTz`, `Money` | 2, 4 or 8, signed | the number, moved up by 2^63 |
//! | `Unsigned`, `TransactionId`, `Lsn` | 4 or 8, unsigned | the number |
//! | `Float` | 4 or 8 | the bits of the double, so turned that they ascend; NaN is the greatest, -0 is 0 |
//! | `Byte` | 1, unsigned | the number |
//! | `Uuid`, `MacAddress`, `MacAddress8`, `Bytes`, `Text`, `Name` | compared byte by byte | the first eight, padded with zeros |
//! | `Blanked` | character(n): as `Text`, without trailing blanks | as `Text` |
//! | `Numeric` | the server's digits of base 10,000 | sign, weight, some 14 decimal digits |
//! | `Interval` | microseconds, days, months | the span in microseconds, a month being 30 days, cut to 64 bits |
//! | `TimeTz` | time, zone | the time in UTC |
//! | `Network` | inet and cidr: family, bits, address | family, then the first 63 bits of the network's address |
//! | `Bits` | bit and varbit: number of bits, the bits | the first 64 bits, padded with zeros |
//! | `TupleId` | tid: block in two halves, offset | block, then offset |
//! | `OidVector` | a header as of arrays, the numbers | how many there are, then the first one |
//! | `Lexemes` | tsvector: number of lexemes, the lexemes | bytes, then number of lexemes |
//! | `TextQuery` | tsquery: number of items, the items | number of items, then bytes |
//! | `Document` | jsonb | in [`crate::document`] |
//! | `Label` | enum: the OID of the label | the OID, if it is even; else the greatest key, which says nothing |
//!
//! Arrays and ranges of such values are ordered by what comes first in them ([`crate::nested`]).
//!
//! A string is less than one that continues it, and padding with zeros cannot turn that round. Two networks are
//! compared by the bits that both have, then by the number of bits, then by the whole addresses. What is left of an
//! address when the bits behind its network are cleared is in that order, up to equality.
//!
//! The even OIDs of an enum's labels are in the order of the labels, whatever labels are added later; the server's own
//! comparison relies on it. A label with an odd OID was put before others, and its OID tells nothing.

use crate::bytes::u32_at;
use crate::{document, numeric};

/// The kind of a type's order. The numbers are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OrderKind {
    /// smallint, integer, bigint.
    Integer = 1,
    /// real, double precision.
    Float = 2,
    /// numeric.
    Numeric = 3,
    /// date.
    Date = 4,
    /// time.
    Time = 5,
    /// time with time zone.
    TimeTz = 6,
    /// timestamp.
    Timestamp = 7,
    /// timestamp with time zone.
    TimestampTz = 8,
    /// interval.
    Interval = 9,
    /// oid.
    Unsigned = 10,
    /// xid8.
    TransactionId = 11,
    /// pg_lsn.
    Lsn = 12,
    /// boolean and "char".
    Byte = 13,
    /// money.
    Money = 14,
    /// uuid.
    Uuid = 15,
    /// macaddr.
    MacAddress = 16,
    /// macaddr8.
    MacAddress8 = 17,
    /// bytea.
    Bytes = 18,
    /// text and varchar, in the order of their bytes.
    Text = 19,
    /// character(n), in the order of its bytes.
    Blanked = 20,
    /// name, in the order of its bytes.
    Name = 21,
    /// inet and cidr.
    Network = 22,
    /// bit and varbit.
    Bits = 23,
    /// tid.
    TupleId = 24,
    /// oidvector.
    OidVector = 25,
    /// tsvector.
    Lexemes = 26,
    /// tsquery.
    TextQuery = 27,
    /// jsonb.
    Document = 28,
    /// An enum.
    Label = 29,
}

/// Microseconds of a day, and seconds.
const DAY: i128 = 86_400_000_000;
const SECOND: i64 = 1_000_000;

impl OrderKind {
    /// Whether values with the same key are equal.
    pub fn is_exact(self) -> bool {
        match self {
            Self::Integer | Self::Float | Self::Date | Self::Time | Self::Timestamp | Self::TimestampTz => {
                true
            }
            Self::Unsigned | Self::TransactionId | Self::Lsn | Self::Byte | Self::Money => true,
            Self::MacAddress | Self::MacAddress8 | Self::TupleId => true,
            Self::Label | Self::Bits | Self::OidVector | Self::Lexemes | Self::TextQuery | Self::Document => {
                false
            }
            Self::Numeric | Self::TimeTz | Self::Interval | Self::Uuid | Self::Bytes | Self::Text => false,
            Self::Blanked | Self::Name | Self::Network => false,
        }
    }

    /// Whether the order is that of bytes only under some collations.
    pub fn is_collated(self) -> bool {
        matches!(self, Self::Text | Self::Blanked | Self::Name)
    }

    /// The key of all values whose place in the order is not known, if the kind has any. Each search must find it.
    pub fn key_of_unknown_places(self) -> Option<u64> {
        (self == Self::Label).then_some(u64::MAX)
    }

    /// The key of a value with these bytes: those of a fixed-length value, those behind the header of one with a
    /// header, those before the NUL of a name. None if the value is damaged.
    #[inline]
    pub fn key(self, bytes: &[u8]) -> Option<u64> {
        match self {
            Self::Integer => signed(bytes),
            Self::Date | Self::Time | Self::Timestamp | Self::TimestampTz | Self::Money => signed(bytes),
            Self::Unsigned | Self::TransactionId | Self::Lsn => unsigned(bytes),
            Self::Byte => bytes.first().filter(|_| bytes.len() == 1).map(|&byte| byte.into()),
            Self::Float => float(bytes),
            Self::Uuid => (bytes.len() == 16).then(|| of_string(bytes)),
            Self::MacAddress => (bytes.len() == 6).then(|| of_string(bytes)),
            Self::MacAddress8 => (bytes.len() == 8).then(|| of_string(bytes)),
            Self::Bytes | Self::Text | Self::Name => Some(of_string(bytes)),
            Self::Blanked => Some(of_string(without_blanks(bytes))),
            Self::Numeric => numeric::key(bytes),
            Self::Interval => interval(bytes),
            Self::TimeTz => time_with_zone(bytes),
            Self::Network => network(bytes),
            Self::Bits => bytes.get(4..).map(of_string),
            Self::TupleId => tuple_id(bytes),
            Self::OidVector => oid_vector(bytes),
            Self::Lexemes => Some(pair(u32::try_from(bytes.len()).ok()?, u32_at(bytes, 0)?)),
            Self::TextQuery => Some(pair(u32_at(bytes, 0)?, u32::try_from(bytes.len()).ok()?)),
            Self::Document => document::key(bytes),
            Self::Label => unsigned(bytes).map(|oid| if oid % 2 == 0 { oid } else { u64::MAX }),
        }
    }
}

/// The key of a signed number.
pub fn of_signed(number: i64) -> u64 {
    number.cast_unsigned() ^ 1 << 63
}

/// The key of a floating-point number.
pub fn of_float(number: f64) -> u64 {
    if number.is_nan() {
        return u64::MAX;
    }
    // Adding zero makes 0 of -0.
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The key of a string that is compared byte by byte, a shorter one being less than one that continues it.
pub fn of_string(bytes: &[u8]) -> u64 {
    let mut first = [0u8; 8];
    let len = bytes.len().min(8);
    first[..len].copy_from_slice(&bytes[..len]);
    u64::from_be_bytes(first)
}

fn signed(bytes: &[u8]) -> Option<u64> {
    let number = match *bytes {
        [a, b] => i16::from_le_bytes([a, b]).into(),
        [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
        _ => i64::from_le_bytes(bytes.try_into().ok()?),
    };
    Some(of_signed(number))
}

fn unsigned(bytes: &[u8]) -> Option<u64> {
    match *bytes {
        [a, b, c, d] => Some(u32::from_le_bytes([a, b, c, d]).into()),
        _ => bytes.try_into().ok().map(u64::from_le_bytes),
    }
}

fn float(bytes: &[u8]) -> Option<u64> {
    let number = match *bytes {
        [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
        _ => f64::from_le_bytes(bytes.try_into().ok()?),
    };
    Some(of_float(number))
}

fn without_blanks(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    &bytes[..end]
}

/// A key of two numbers, the first of which is compared first.
fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

/// `ItemPointerCompare` compares blocks, then offsets.
fn tuple_id(bytes: &[u8]) -> Option<u64> {
    let &[a, b, c, d, e, f] = bytes else { return None };
    let half = |one, other| u64::from(u16::from_le_bytes([one, other]));
    Some(half(a, b) << 32 | half(c, d) << 16 | half(e, f))
}

/// `oidvectorcmp` compares the numbers of elements, then the elements.
fn oid_vector(bytes: &[u8]) -> Option<u64> {
    /// Bytes between the header of the value and the number of elements, and before the first element.
    const COUNT: usize = 12;
    const FIRST: usize = 20;
    let count = u32_at(bytes, COUNT)?;
    Some(pair(count, if count == 0 { 0 } else { u32_at(bytes, FIRST)? }))
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// `interval_cmp` compares spans of 128 bits. Cutting them to 64 bits keeps their order.
fn interval(bytes: &[u8]) -> Option<u64> {
    let (time, days, months) = (i64_at(bytes, 0)?, i32_at(bytes, 8)?, i32_at(bytes, 12)?);
    let span = i128::from(time) + (i128::from(months) * 30 + i128::from(days)) * DAY;
    Some(of_signed(span.clamp(i64::MIN.into(), i64::MAX.into()) as i64))
}

/// `timetz_cmp` compares times in UTC, then zones.
fn time_with_zone(bytes: &[u8]) -> Option<u64> {
    let (time, zone) = (i64_at(bytes, 0)?, i32_at(bytes, 8)?);
    Some(of_signed(time.saturating_add(i64::from(zone) * SECOND)))
}

/// The server's numbers of address families: PGSQL_AF_INET and PGSQL_AF_INET6 of inet.h.
const IP4: u8 = 2;
const IP6: u8 = 3;

fn network(bytes: &[u8]) -> Option<u64> {
    let &[family, bits, ref address @ ..] = bytes else { return None };
    let (upper, most) = match family {
        IP4 => (0, 32),
        IP6 => (1 << 63, 128),
        _ => return None,
    };
    if u32::from(bits) > most || address.len() * 8 < most as usize {
        return None;
    }
    let first = of_string(&address[..most as usize / 8]);
    let kept = match u32::from(bits) {
        0 => 0,
        bits => first & u64::MAX << (64 - bits.min(64)),
    };
    Some(upper | kept >> 1)
}
