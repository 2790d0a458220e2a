//! Times of different types, as the server's comparisons convert them: with the time zone of the session.

use pgrx::pg_sys;
use std::ffi::{c_int, c_long};

/// Microseconds in a second.
const SECOND: i64 = 1_000_000;
/// Seconds in a day.
const DAY: i64 = 86_400;

/// The session's time zone, to compare it with that of another moment. The server never changes or frees one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionZone(usize);

impl SessionZone {
    pub fn now() -> Self {
        // SAFETY: a plain global of the server.
        Self(unsafe { pg_sys::session_timezone } as usize)
    }
}

/// The time of a day's first moment, as `date_cmp_timestamp` compares it. One that is out of range is greater, or less,
/// than all finite times.
pub fn timestamp_of_date(date: i32) -> i64 {
    // SAFETY: calculates. With a pointer, it reports what is out of range there.
    within(|overflow| unsafe { pg_sys::date2timestamp_opt_overflow(date, overflow) })
}

/// The time of a day's first moment in the session's time zone, as `date_cmp_timestamptz` compares it.
pub fn timestamptz_of_date(date: i32) -> i64 {
    // SAFETY: as above; it reads the session's time zone.
    within(|overflow| unsafe { pg_sys::date2timestamptz_opt_overflow(date, overflow) })
}

/// A local time of the session's time zone, as `timestamp_cmp_timestamptz` compares it.
pub fn timestamptz_of_timestamp(timestamp: i64) -> i64 {
    // SAFETY: as above.
    within(|overflow| unsafe { pg_sys::timestamp2timestamptz_opt_overflow(timestamp, overflow) })
}

/// The result of a conversion; next to the infinity that an overflow is on the side of.
fn within(convert: impl FnOnce(*mut c_int) -> i64) -> i64 {
    let mut overflow = 0;
    let result = convert(&raw mut overflow);
    match overflow {
        0 => result,
        1.. => i64::MAX - 1,
        _ => i64::MIN + 1,
    }
}

/// Seconds from 1970, where the time zones' tables begin to count, to 2000, where timestamps do.
const EPOCH: i64 = 946_684_800;
/// More than any offset from UTC: the server accepts up to a week, with the hour of a change on top.
const MOST_OFFSET: i64 = 8 * DAY;
/// How far from a point in time the offsets matter, in seconds: see [`offsets_near`].
const NEAR: i64 = 2 * MOST_OFFSET + 2 * DAY;
/// More changes than there are in such a time.
const MOST_CHANGES: usize = 1_000;

/// The least and the greatest offset from UTC, in microseconds, by which a local time of the session's time zone can
/// be a point that is not on the same side of `point`, a finite time, as the local time itself.
///
/// A local time that is farther from the point than any offset is on its side whatever its own offset is. All others
/// are within twice that of the point, as points. The server takes the offset before or after a change that is within a
/// day of a local time.
pub fn offsets_near(point: i64) -> (i64, i64) {
    offsets_within(point.div_euclid(SECOND).saturating_add(EPOCH))
        .map_or((-MOST_OFFSET * SECOND, MOST_OFFSET * SECOND), |(least, greatest)| {
            (least * SECOND, greatest * SECOND)
        })
}

/// The least and the greatest offset near a point, all in seconds; None if they cannot be told.
fn offsets_within(point: i64) -> Option<(i64, i64)> {
    // SAFETY: a plain global of the server.
    let zone = unsafe { pg_sys::session_timezone };
    if zone.is_null() {
        return None;
    }
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    let mut time: pg_sys::pg_time_t = point.saturating_sub(NEAR);
    for _ in 0..MOST_CHANGES {
        let (mut before, mut after, mut boundary): (c_long, c_long, pg_sys::pg_time_t) = (0, 0, 0);
        let (mut before_is_dst, mut after_is_dst): (c_int, c_int) = (0, 0);
        // SAFETY: a time zone of the server, and variables for the results.
        let found = unsafe {
            pg_sys::pg_next_dst_boundary(
                &time,
                &mut before,
                &mut before_is_dst,
                &mut boundary,
                &mut after,
                &mut after_is_dst,
                zone,
            )
        };
        if found < 0 || found > 0 && boundary <= time {
            return None;
        }
        (least, greatest) = (least.min(before), greatest.max(before));
        if found == 0 || boundary > point.saturating_add(NEAR) {
            return Some((least, greatest));
        }
        (least, greatest) = (least.min(after), greatest.max(after));
        time = boundary;
    }
    None
}
