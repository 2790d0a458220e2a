//! Operators that make, combine and compare filters: `|`, `&`, `=`, `bloom_add`, `bloom_empty`, hashing.

use super::keys::KeyReader;
use super::lookup_value::LookupValue;
use super::problem::{self, bad_policy};
use super::size::{negative, size_of};
use crate::pg::boundary;
use crate::pg::function::Call;
use crate::pg::sql_text::Text;
use crate::pg::varlena::Made;
use pgrx::prelude::*;
use skip_filter::hash_bytes;
use skip_filter::policy::spec;
use skip_value::collect::CollectorOptions;
use skip_value::{StoredFilter, ValueError};

/// Reads a stored value.
pub fn decode(bytes: &[u8]) -> StoredFilter<&[u8]> {
    StoredFilter::decode(bytes).unwrap_or_else(|error| problem::damaged(&error))
}

/// Reads a stored value that is to be changed.
pub fn decode_mut(bytes: &mut [u8]) -> StoredFilter<&mut [u8]> {
    StoredFilter::decode_mut(bytes).unwrap_or_else(|error| problem::damaged(&error))
}

/// Combines another value into one.
type Combine = fn(&mut StoredFilter<&mut [u8]>, &StoredFilter<&[u8]>) -> Result<(), ValueError>;

/// A copy of one value, combined with another.
fn combined(one: &[u8], other: &[u8], combine: Combine) -> Made {
    let mut made = Made::copy(one);
    let mut value = decode_mut(made.bytes());
    let other = decode(other);
    if let Err(error) = combine(&mut value, &other) {
        problem::mismatch(value.keys(), other.keys(), &error);
    }
    made
}

#[pg_extern(sql = false)]
fn bloom_union(one: &[u8], other: &[u8]) -> Made {
    boundary::callback(|| combined(one, other, |own, other| own.union(other)))
}

#[pg_extern(sql = false)]
fn bloom_intersection(one: &[u8], other: &[u8]) -> Made {
    boundary::callback(|| combined(one, other, |own, other| own.intersection(other)))
}

/// A filter with one more key.
#[pg_extern(sql = false)]
fn bloom_add(call: Call<'_>) -> Option<Made> {
    boundary::callback(|| {
        let filter = call.varlena(0)?;
        let mut made = filter.with_bytes(Made::copy);
        let mut asked = call.site(|| LookupValue::argument(&call, 1));
        // No filter holds NULL.
        let Some(value) = call.value(1, asked.repr()) else { return Some(made) };
        let mut filter = decode_mut(made.bytes());
        let hash = asked.hash(value, filter.keys(), call.site_memory());
        filter.insert_hash(hash);
        Some(made)
    })
}

/// A filter without keys, sized for an expected number of keys.
#[pg_extern(sql = false)]
fn bloom_empty(
    call: Call<'_>,
    key_type: Option<pg_sys::Oid>,
    expected: Option<i64>,
    rate: Option<f64>,
    policy: Option<Text>,
) -> Option<Made> {
    boundary::callback(move || {
        // The body owns the text: an error jumps over the frame around it.
        let (key_type, expected) = (key_type?, expected?);
        let spec = spec::parse(policy.as_ref().map_or("skip", |policy| &policy.0))
            .unwrap_or_else(|error| bad_policy(&error));
        let expected = u64::try_from(expected).unwrap_or_else(|_| negative(expected));
        let options = CollectorOptions {
            policy: spec.policy,
            size: size_of(rate, spec.size),
            seed: spec.seed,
            expected: Some(expected),
            bound: 0,
            guess: 0,
            is_partial: false,
            secret: 0, // used for collecting only
        };
        let shape = options.shape_for(expected).unwrap_or_else(|error| problem::collecting(&error));
        let keys = KeyReader::new(key_type, call.collation()).keys(spec.policy, spec.seed);
        let header = keys.encode(&[shape]);
        let mut made = Made::zeros(header.len() + shape.body_bytes() as usize);
        made.bytes()[..header.len()].copy_from_slice(&header);
        Some(made)
    })
}

#[pg_extern(sql = false)]
fn bloom_eq(one: &[u8], other: &[u8]) -> bool {
    boundary::callback(|| one == other)
}

#[pg_extern(sql = false)]
fn bloom_ne(one: &[u8], other: &[u8]) -> bool {
    boundary::callback(|| one != other)
}

#[pg_extern(sql = false)]
fn bloom_hash(value: &[u8]) -> i32 {
    boundary::callback(|| hash_bytes(0, value) as i32)
}

#[pg_extern(sql = false)]
fn bloom_hash_extended(value: &[u8], seed: i64) -> i64 {
    boundary::callback(|| {
        // With seed 0, the lower half must be the result of bloom_hash.
        hash_bytes(seed as u64, value) as i64
    })
}
