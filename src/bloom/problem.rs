//! Errors of the type, with SQLSTATE, detail and hint.

use crate::pg::{Report, fail, types};
use pgrx::prelude::*;
use skip_filter::policy::PolicyError;
use skip_value::collect::CollectError;
use skip_value::{KeyType, Keys, ValueError};

/// The report for bytes from outside that are no filter. `code` is the SQLSTATE for malformed bytes; a value of an
/// unknown version has another one.
pub fn no_filter(code: PgSqlErrorCode, error: &ValueError) -> Report {
    let code = if error.is_unknown() { PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED } else { code };
    let hint =
        error.is_unknown().then(|| "The value may have been made by a later version of pg_skip.".to_owned());
    let detail = Some(format!("The value is not a valid filter: {error}."));
    Report::new(code, "malformed value of type bloom".into(), detail, hint)
}

/// Raises an error for a stored value that is no filter. An unknown version of it may be damage too, so its SQLSTATE is
/// that of damage; the hint names the other cause.
pub fn damaged(error: &ValueError) -> ! {
    let report = no_filter(PgSqlErrorCode::ERRCODE_DATA_CORRUPTED, error);
    Report { code: PgSqlErrorCode::ERRCODE_DATA_CORRUPTED, ..report }.raise()
}

/// Raises an error for two filters that cannot be combined.
pub fn mismatch(left: &Keys, right: &Keys, error: &ValueError) -> ! {
    let differences = left.differences(right, &display_name);
    let detail = match error {
        ValueError::Mismatch(_) if !differences.is_empty() => ValueError::Mismatch(differences).to_string(),
        other => other.to_string(),
    };
    let hint = match error {
        ValueError::Series(_) => {
            "A filter becomes a series when it receives more keys than expected. Build it with the expected number of keys."
        }
        _ => {
            "Filters can be combined if they were built with the same type, expected number of keys, rate and policy."
        }
    };
    fail(
        PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        "these bloom filters cannot be combined".into(),
        Some(sentence(&detail)),
        Some(hint.into()),
    )
}

/// Raises an error for a value of a type different from that of the filter's keys.
pub fn other_type(filter: &Keys, value: &KeyType, collation: String) -> ! {
    let (own, asked) = (display_name(&filter.key_type), display_name(value));
    if filter.key_type != *value {
        fail(
            PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
            format!("the bloom filter's keys are of type {own}, not {asked}"),
            Some("A key that was hashed as one type is not found as another type.".into()),
            Some(format!("Cast the value to {own}.")),
        )
    }
    let of_filter = filter.collation.as_ref().map_or("a deterministic collation".into(), ToString::to_string);
    fail(
        PgSqlErrorCode::ERRCODE_COLLATION_MISMATCH,
        "the bloom filter's keys and the value have different collations".into(),
        Some(format!("The filter was built with {of_filter}, the value has {collation}.")),
        Some(
            "Use COLLATE to give the value the filter's collation. If the collation has a new version, rebuild the filter.".into(),
        ),
    )
}

/// Raises an error for parameters that no filter can have.
pub fn parameters(error: &PolicyError) -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        "invalid parameters for a bloom filter".into(),
        Some(sentence(&error.to_string())),
        None,
    )
}

/// Raises an error for keys that could not be collected.
pub fn collecting(error: &CollectError) -> ! {
    match error {
        CollectError::Policy(error) => parameters(error),
        CollectError::TooLarge { .. } => fail(
            PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            "the bloom filter would be too large".into(),
            Some(sentence(&error.to_string())),
            Some("Use a higher false-positive rate, or one filter for each part of the keys.".into()),
        ),
        CollectError::TooManySizes => fail(
            PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            "the parts of the bloom filter cannot be combined".into(),
            Some(sentence(&error.to_string())),
            Some("Give the expected number of keys, so that all parts have the same size.".into()),
        ),
        CollectError::Options => fail(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            "the rate, expected number and policy of an aggregate must be the same for all rows of a group"
                .into(),
            None,
            Some("Use constants for these arguments.".into()),
        ),
        CollectError::Keys => fail(
            PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
            "the parts of the bloom filter cannot be combined".into(),
            Some(sentence(&error.to_string())),
            None,
        ),
        CollectError::Wire => {
            let hint =
                "The state must come from the same version of bloom_agg, on a server of the same kind.";
            let message = "the partial state of an aggregate cannot be read";
            fail(PgSqlErrorCode::ERRCODE_DATA_CORRUPTED, message.into(), None, Some(hint.into()))
        }
    }
}

/// The text as a sentence: with a capital letter and a full stop.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Raises an error for a policy that cannot be read.
pub fn bad_policy(error: &str) -> ! {
    fail(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        "invalid filter policy".into(),
        Some(sentence(error)),
        Some("For example: skip, leveldb(bits_per_key=10), rocksdb, clickhouse(filter_size=8192, filter_hashes=3, seed=0).".into()),
    )
}

/// A type's name for messages.
pub fn display_name(key_type: &KeyType) -> String {
    match key_type {
        KeyType::BuiltIn(oid) => types::display_name(pg_sys::Oid::from(*oid)),
        KeyType::Named { schema, name } => {
            types::by_qualified_name(schema, name).map_or_else(|| key_type.to_string(), types::display_name)
        }
    }
}
