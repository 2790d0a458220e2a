//! How many rows a filter will let through: the restriction selectivity of `@>` and `<@`.
//!
//! For a filter that is known when the query is planned and a column that it is asked for: the column's most common
//! values are asked. Of the others, as many are in the filter as it seems to have keys, if all of these are values of
//! the column; or else as many as of those in its histogram, where these are enough to tell. False positives come on
//! top. Else there is no telling.

use super::keys::KeyReader;
use crate::pg::boundary;
use crate::pg::function::Call;
use crate::pg::selectivity::{Known, restriction};
use pgrx::prelude::*;
use skip_value::Value as Stored;

/// Matches in the histogram from which on it tells more than the filter's number of keys.
const TELLING: f64 = 10.0;

/// Where nothing is known: core's guess for operators of which it knows nothing either (DEFAULT_MATCHING_SEL).
const UNKNOWN: f64 = 0.01;

#[pg_extern(sql = false)]
fn bloom_contains_sel(call: Call<'_>) -> f64 {
    boundary::callback(|| {
        let estimate =
            restriction(&call).and_then(|known| known.constant.with_bytes(|bytes| estimate(&known, bytes)));
        estimate.unwrap_or(UNKNOWN).clamp(0.0, 1.0)
    })
}

fn estimate(known: &Known<'_>, bytes: &[u8]) -> Option<f64> {
    let filter = Stored::decode(bytes).ok()?;
    let keys = filter.keys();
    let mut reader = KeyReader::new(known.column_type, known.collation);
    if reader.keys(keys.policy, keys.seed) != *keys {
        return None; // executing it will be an error
    }
    let mut holds = |value| filter.may_contain_hash(reader.hash(value, keys.policy, keys.seed));
    let (mut common, mut found, mut matched) = (0.0, 0.0, 0.0);
    for &(value, frequency) in &known.common {
        common += frequency;
        if holds(value) {
            found += frequency;
            matched += 1.0;
        }
    }
    let rest = (1.0 - known.null_fraction - common).max(0.0);
    let distinct = (known.distinct - known.common.len() as f64).max(1.0);
    let in_filter = ((filter.cardinality().estimate - matched).max(0.0) / distinct).min(1.0);
    let rate = filter.false_positive_rate();
    let expected = in_filter + (1.0 - in_filter) * rate;
    let asked = known.sample.len() as f64;
    let matches = known.sample.iter().filter(|&&value| holds(value)).count() as f64;
    let passing = if matches.max(expected * asked) >= TELLING { matches / asked } else { expected };
    Some(found + rest * passing)
}
