//! Properties of a filter and estimates from its bits: `bloom_info`, `bloom_cardinality`,
//! `bloom_intersection_cardinality`, `bloom_false_positive_rate`.

use super::operators::decode;
use super::problem;
use crate::pg::boundary;
use crate::pg::sql_text::Text;
use pgrx::prelude::*;

/// The estimated number of distinct keys.
#[pg_extern(sql = false)]
fn bloom_cardinality(filter: &[u8]) -> f64 {
    boundary::callback(|| decode(filter).cardinality().estimate)
}

/// Bounds of the number of distinct keys: a 95 % confidence interval, for policies that guarantee their rate.
#[pg_extern(sql = false)]
fn bloom_cardinality_bounds(filter: &[u8]) -> TableIterator<'static, (name!(low, f64), name!(high, f64))> {
    boundary::callback(|| {
        let found = decode(filter).cardinality();
        TableIterator::once((found.low, found.high))
    })
}

/// The estimated number of keys that two filters have in common.
#[pg_extern(sql = false)]
fn bloom_intersection_cardinality(
    one: &[u8],
    other: &[u8],
) -> TableIterator<'static, (name!(estimate, f64), name!(low, f64), name!(high, f64))> {
    boundary::callback(|| {
        let (one, other) = (decode(one), decode(other));
        let found =
            one.common(&other).unwrap_or_else(|error| problem::mismatch(one.keys(), other.keys(), &error));
        TableIterator::once((found.estimate, found.low, found.high))
    })
}

/// The expected false-positive rate of the filter in its present state.
#[pg_extern(sql = false)]
fn bloom_false_positive_rate(filter: &[u8]) -> f64 {
    boundary::callback(|| decode(filter).false_positive_rate())
}

/// All properties of a filter.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity, reason = "the row type of the SQL function")]
fn bloom_info(
    filter: &[u8],
) -> TableIterator<
    'static,
    (
        name!(policy, String),
        name!(key_type, Text),
        name!(key_collation, Option<Text>),
        name!(filters, i32),
        name!(bits, i64),
        name!(probes, i32),
        name!(seed, String),
        name!(set_bits, i64),
        name!(fill, f64),
        name!(cardinality, f64),
        name!(cardinality_low, f64),
        name!(cardinality_high, f64),
        name!(false_positive_rate, f64),
        name!(bytes, i64),
        name!(promises_rate, bool),
    ),
> {
    boundary::callback(|| {
        let value = decode(filter);
        let (keys, members) = (value.keys(), value.members());
        let geometries = || members.iter().map(|member| member.shape().geometry());
        let bits: u64 = geometries().map(|geometry| geometry.bits).sum();
        let probes = geometries().map(|geometry| i32::from(geometry.num_probes)).max().unwrap_or(0);
        let ones = value.count_ones();
        let found = value.cardinality();
        TableIterator::once((
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
