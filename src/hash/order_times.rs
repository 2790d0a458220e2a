//! Bounds of dates and times, compared with values of another of these types.
//!
//! A value of the query becomes a least and a greatest value of the column's type ([`hull`]): what the server's
//! operators find equal to it is between these, nothing less is greater than it, and nothing greater is less. Mostly
//! the two are the same.
//!
//! They differ where a column of local times is compared with a point in time. The local time `v` is the point
//! `v - offset`, and the offset depends on `v`: when clocks are set forward or back, later local times may be earlier
//! points. So of `v - offset < point` it is only certain that `v` is less than the point plus the greatest offset that
//! the time zone has near it, and likewise with the least offset.
//!
//! The time zone is the session's, as in the operators. Keys are made from it at each execution.

use crate::pg::time_zone;
use skip_bounds::OrderKind;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// The least and the greatest key of a column of kind `column` that a value of kind `given` with this key stands for;
/// None if the two are not compared.
pub fn hull(column: OrderKind, given: OrderKind, key: u64) -> Option<(u64, u64)> {
    use OrderKind::{Date, Timestamp, TimestampTz};
    let value = number(key);
    let (least, greatest) = match (column, given) {
        (Timestamp, Date) => once(time_zone::timestamp_of_date(date(value)?)),
        (TimestampTz, Date) => once(time_zone::timestamptz_of_date(date(value)?)),
        (TimestampTz, Timestamp) => once(time_zone::timestamptz_of_timestamp(value)),
        (Timestamp, TimestampTz) => local(value),
        (Date, Timestamp) => once(day(value)),
        (Date, TimestampTz) => {
            let (least, greatest) = local(value);
            (day(least), day(greatest))
        }
        _ => return None,
    };
    Some((key_of(least), key_of(greatest)))
}

fn once(value: i64) -> (i64, i64) {
    (value, value)
}

/// The signed number that an order key of dates and times stands for (`skip_bounds`: moved up by 2^63).
fn number(key: u64) -> i64 {
    (key ^ 1 << 63) as i64
}

fn key_of(number: i64) -> u64 {
    number as u64 ^ 1 << 63
}

fn date(value: i64) -> Option<i32> {
    i32::try_from(value).ok()
}

/// Whether a time is the infinity in one of the directions.
fn is_infinite(time: i64) -> bool {
    time == i64::MIN || time == i64::MAX
}

/// The least and the greatest local time of the session's time zone that may be a point in time.
fn local(point: i64) -> (i64, i64) {
    if is_infinite(point) {
        return once(point);
    }
    let (least, greatest) = time_zone::offsets_near(point);
    let finite = |time: i64| time.clamp(i64::MIN + 1, i64::MAX - 1);
    (finite(point.saturating_add(least)), finite(point.saturating_add(greatest)))
}

/// The day of a time, as the number of the date.
fn day(time: i64) -> i64 {
    match time {
        i64::MIN => i32::MIN.into(),
        i64::MAX => i32::MAX.into(),
        time => time.div_euclid(DAY),
    }
}
