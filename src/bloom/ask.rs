//! Asking a filter: `@>`, `<@`, `bloom_contains`, `bloom_contains_any`.
//!
//! A query asks the same filter for row after row. A filter that is stored out of line is fetched once, and kept until the
//! place in the query meets another one.

use super::asked::Asked;
use super::problem;
use crate::pg::datum::Value;
use crate::pg::function::Call;
use crate::pg::varlena::{Flat, StoredId};
use pgrx::prelude::*;
use skip_core::value::Value as Stored;

/// What a place in a query keeps.
struct Asker {
    asked: Asked,
    fetched: Option<(StoredId, Vec<u8>)>,
}

impl Asker {
    fn new(asked: Asked) -> Self {
        Self { asked, fetched: None }
    }

    /// Whether a filter may hold any of the values: one that cannot be read because a later version made it may hold all.
    fn ask(&mut self, filter: &Flat, values: &[Value]) -> bool {
        let Self { asked, fetched } = self;
        let Some(id) = filter.stored_id() else {
            return filter.with_bytes(|bytes| any(asked, bytes, values));
        };
        match fetched {
            Some((known, bytes)) if *known == id => any(asked, bytes, values),
            _ => {
                let bytes = filter.with_bytes(<[u8]>::to_vec);
                let answer = any(asked, &bytes, values);
                *fetched = Some((id, bytes));
                answer
            }
        }
    }
}

fn any(asked: &mut Asked, bytes: &[u8], values: &[Value]) -> bool {
    match Stored::decode(bytes) {
        Ok(filter) => {
            let keys = filter.keys();
            values.iter().any(|&value| filter.may_contain_hash(asked.hash(value, keys)))
        }
        Err(error) if error.is_unknown() => true,
        Err(error) => problem::damaged(&error),
    }
}

fn contains(call: &Call, filter: usize, value: usize) -> bool {
    let asker = call.site(|| Asker::new(Asked::argument(call, value)));
    let (Some(filter), Some(value)) = (call.varlena(filter), call.value(value, asker.asked.repr())) else {
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
    let asker = call.site(|| Asker::new(Asked::elements(&call, 1)));
    let (Some(filter), Some(values)) = (call.varlena(0), call.elements(1)) else { return false };
    asker.ask(&filter, &values)
}
