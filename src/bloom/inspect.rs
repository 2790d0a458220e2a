//! Properties of a filter and estimates from its bits: `bloom_info`, `bloom_cardinality`,
//! `bloom_intersection_cardinality`, `bloom_false_positive_rate`.

use super::operators::decode;
use super::problem;
use crate::pg::boundary;
use crate::pg::result_rows::{ResultRows, result_columns};
use crate::pg::sql_text::Text;
use pgrx::prelude::*;

/// The estimated number of distinct keys.
#[pg_extern(sql = false)]
fn bloom_cardinality(filter: &[u8]) -> f64 {
    boundary::callback(|| decode(filter).cardinality().estimate)
}

result_columns! {
    /// Columns of `bloom_cardinality_bounds`.
    CardinalityColumns {
        low: f64,
        high: f64,
    }
}

/// Bounds of the number of distinct keys: a 95 % confidence interval, for policies that guarantee their rate.
#[pg_extern(sql = false)]
fn bloom_cardinality_bounds(filter: &[u8]) -> ResultRows<CardinalityColumns> {
    boundary::callback(|| {
        let found = decode(filter).cardinality();
        ResultRows::once((found.low, found.high))
    })
}

result_columns! {
    /// Columns of `bloom_intersection_cardinality`.
    IntersectionColumns {
        estimate: f64,
        low: f64,
        high: f64,
    }
}

/// The estimated number of keys that two filters have in common.
#[pg_extern(sql = false)]
fn bloom_intersection_cardinality(one: &[u8], other: &[u8]) -> ResultRows<IntersectionColumns> {
    boundary::callback(|| {
        let (one, other) = (decode(one), decode(other));
        let found =
            one.common(&other).unwrap_or_else(|error| problem::mismatch(one.keys(), other.keys(), &error));
        ResultRows::once((found.estimate, found.low, found.high))
    })
}

/// The expected false-positive rate of the filter in its present state.
#[pg_extern(sql = false)]
fn bloom_false_positive_rate(filter: &[u8]) -> f64 {
    boundary::callback(|| decode(filter).false_positive_rate())
}

result_columns! {
    /// Columns of `bloom_info`.
    FilterColumns {
        policy: String,
        key_type: Text,
        key_collation: Option<Text>,
        filters: i32,
        bits: i64,
        probes: i32,
        seed: String,
        set_bits: i64,
        fill: f64,
        cardinality: f64,
        cardinality_low: f64,
        cardinality_high: f64,
        false_positive_rate: f64,
        bytes: i64,
        promises_rate: bool,
    }
}

/// All properties of a filter.
#[pg_extern(sql = false)]
fn bloom_info(filter: &[u8]) -> ResultRows<FilterColumns> {
    boundary::callback(|| {
        let value = decode(filter);
        let (keys, members) = (value.keys(), value.members());
        let geometries = || members.iter().map(|member| member.shape().geometry());
        let bits: u64 = geometries().map(|geometry| geometry.bits).sum();
        let probes = geometries().map(|geometry| i32::from(geometry.num_probes)).max().unwrap_or(0);
        let ones = value.count_ones();
        let found = value.cardinality();
        ResultRows::once((
            keys.policy.name().into(),
            problem::display_name(&keys.key_type).into(),
            keys.collation.as_ref().map(|collation| collation.to_string().into()),
            members.len() as i32,
            bits as i64,
            probes,
            keys.seed.to_string(),
            ones as i64,
            ones as f64 / bits.max(1) as f64,
            found.estimate,
            found.low,
            found.high,
            value.false_positive_rate(),
            filter.len() as i64,
            keys.policy.promises_rate(),
        ))
    })
}
