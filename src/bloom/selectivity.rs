//! The restriction selectivity of `@>` and `<@`: the fraction of the rows that a filter matches.
//!
//! The estimate needs a filter that is known when the query is planned, and a column whose values are looked up in it.
//! The column's most common values are looked up. For the other values there are two ways. If the values in the
//! histogram have enough matches, the estimate is the fraction of them that match. Otherwise the number of the filter's
//! keys is estimated from its bits, and all of them are assumed to be values of the column; false positives are added.
//! Without a known filter and column there is no estimate.

use super::keys::KeyReader;
use crate::pg::boundary;
use crate::pg::function::Call;
use crate::pg::selectivity::{Known, restriction};
use pgrx::prelude::*;
use skip_value::StoredFilter;

/// Least number of matches in the histogram, found or expected, with which it is a better estimate than the filter's
/// number of keys.
const TELLING: f64 = 10.0;

/// Selectivity without any knowledge: core's value for operators that it knows nothing about (DEFAULT_MATCHING_SEL).
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
    let filter = StoredFilter::decode(bytes).ok()?;
    let keys = filter.keys();
    let mut reader = KeyReader::new(known.column_type, known.collation);
    if reader.keys(keys.policy, keys.seed) != *keys {
        return None; // executing the query will raise the error
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
