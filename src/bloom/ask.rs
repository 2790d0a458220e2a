//! Asking a filter: `@>`, `<@`, `bloom_contains`, `bloom_contains_any`.
//!
//! A query asks the same filter for row after row. A filter that is stored out of line is fetched once, and kept until the
//! place in the query meets another one.

use super::keys::KeyReader;
use super::problem;
use crate::pg::datum::Value;
use crate::pg::fail;
use crate::pg::function::Call;
use crate::pg::varlena::{Flat, StoredId};
use pgrx::prelude::*;
use skip_core::value::{Value as Stored, ValueError};

/// What a place in a query keeps.
struct Asker {
    reader: KeyReader,
    fetched: Option<(StoredId, Vec<u8>)>,
}

impl Asker {
    /// For values of the type of argument `number`, or for elements of an array of that type.
    fn new(call: &Call, number: usize, is_array: bool) -> Self {
        let input = call.type_of(number).filter(|_| !is_array).or_else(|| element_of(call, number));
        let Some(input) = input else {
            fail(
                PgSqlErrorCode::ERRCODE_INDETERMINATE_DATATYPE,
                "could not determine the type of the value to ask for".into(),
                None,
                None,
            )
        };
        Self { reader: KeyReader::new(input, call.collation()), fetched: None }
    }

    /// Whether a filter may hold any of the values: one that cannot be read because a later version made it may hold all.
    fn ask(&mut self, filter: &Flat, values: &[Value]) -> bool {
        let Self { reader, fetched } = self;
        let Some(id) = filter.stored_id() else {
            return filter.with_bytes(|bytes| any(reader, bytes, values));
        };
        match fetched {
            Some((known, bytes)) if *known == id => any(reader, bytes, values),
            _ => {
                let bytes = filter.with_bytes(<[u8]>::to_vec);
                let answer = any(reader, &bytes, values);
                *fetched = Some((id, bytes));
                answer
            }
        }
    }
}

fn element_of(call: &Call, number: usize) -> Option<pg_sys::Oid> {
    let array = crate::pg::types::base_type(call.type_of(number)?);
    crate::pg::types::element(array)
}

fn any(reader: &mut KeyReader, bytes: &[u8], values: &[Value]) -> bool {
    match Stored::decode(bytes) {
        Ok(filter) => {
            let keys = filter.keys();
            reader.must_fit(keys);
            values.iter().any(|&value| filter.may_contain_hash(reader.hash(value, keys.policy, keys.seed)))
        }
        Err(error) if error.is_unknown() => true,
        Err(error) => raise(&error),
    }
}

fn raise(error: &ValueError) -> ! {
    problem::damaged(error)
}

fn contains(call: &Call, filter: usize, value: usize) -> bool {
    let asker = call.site(|| Asker::new(call, value, false));
    let (Some(filter), Some(value)) = (call.varlena(filter), call.value(value, asker.reader.repr())) else {
        return false; // the functions are strict
    };
    asker.ask(&filter, &[value])
}

/// `filter @> value`.
#[pg_extern(sql = false)]
fn bloom_contains(call: Call) -> bool {
    contains(&call, 0, 1)
}

/// `value <@ filter`.
#[pg_extern(sql = false)]
fn bloom_is_contained(call: Call) -> bool {
    contains(&call, 1, 0)
}

/// Whether the filter may hold any of an array's elements; NULLs are in no filter.
#[pg_extern(sql = false)]
fn bloom_contains_any(call: Call) -> bool {
    let asker = call.site(|| Asker::new(&call, 1, true));
    let (Some(filter), Some(values)) = (call.varlena(0), call.elements(1)) else { return false };
    asker.ask(&filter, &values)
}
