//! The size of a filter from what its maker specified: the rate, the number of keys.

use super::problem::bad_policy;
use crate::pg::fail;
use pgrx::PgSqlErrorCode;
use skip_filter::policy::Size;

/// The default false-positive rate: some ten bits per key.
const DEFAULT_RATE: f64 = 0.01;

/// The size, from a rate and from the text of the policy; an error if both give one.
pub fn size_of(rate: Option<f64>, of_policy: Option<Size>) -> Size {
    match (rate, of_policy) {
        (Some(_), Some(_)) => {
            bad_policy("a rate and a size in the policy exclude each other; pass NULL for the rate")
        }
        (None, Some(size)) => size,
        (rate, None) => Size::Rate(rate.unwrap_or(DEFAULT_RATE)),
    }
}

/// Raises an error for a negative number of keys.
pub fn negative(expected: i64) -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        "the expected number of keys must not be negative".into(),
        Some(format!("The given number is {expected}.")),
        Some("Give the number of distinct keys that the filter is to hold.".into()),
    )
}
