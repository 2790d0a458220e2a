//! Asking a filter: `@>`, `<@`, `bloom_contains`, `bloom_contains_any`.
//!
//! A filter that is stored out of line may be one of many that are asked for a key, or the one that is asked for row
//! after row. At first only the parts of it are fetched that keys' bits are in. When that has cost as much as fetching
//! the filter would have, it is fetched, and kept until the place in the query meets another one: so neither costs more
//! than twice what it has to.
//!
//! Row after row the same filter is asked, or filters that differ in their bits only. So what a filter is, its outline,
//! is read when it is another one than the row before had.

use super::asked::Asked;
use super::problem;
use crate::pg::boundary;
use crate::pg::datum::Value;
use crate::pg::function::{Call, SiteMemory};
use crate::pg::varlena::{StoredId, Varlena};
use pgrx::prelude::*;
use skip_value::Outline;

/// What fetching a part costs, in bytes that could be fetched with a whole filter instead. Measured, all cached: 3 us
/// for a part, 0.7 us for each 2 kB of a whole.
const PART: usize = 8 << 10;

/// Bytes in which the header of nearly every filter is. They are in the first row of it in the TOAST relation.
const FIRST: usize = 1 << 10;

/// What a place in a query keeps.
struct Asker {
    asked: Asked,
    /// Of the filter that was asked last.
    outline: Option<Outline>,
    kept: Option<KeptFilter>,
}

/// A filter that is stored out of line.
struct KeptFilter {
    id: StoredId,
    bits: Bits,
}

enum Bits {
    /// Not here; so many bytes may still be fetched in parts, at [`PART`] each.
    Afar(Box<Outline>, usize),
    Here(Vec<u8>),
}

impl KeptFilter {
    fn new(id: StoredId, filter: &Varlena<'_>) -> Self {
        let afar = filter.length_in_parts().and_then(|length| {
            let budget = length.checked_sub(4 * PART)?;
            let mut first = [0; FIRST];
            filter.fetch(0, &mut first);
            // Whatever is wrong with it: the whole of it will say so.
            Some(Bits::Afar(Box::new(Outline::read(&first, length as u64).ok()?), budget))
        });
        Self { id, bits: afar.unwrap_or_else(|| Bits::here(filter)) }
    }
}

impl Bits {
    fn here(filter: &Varlena<'_>) -> Self {
        Self::Here(filter.with_bytes(<[u8]>::to_vec))
    }
}

impl Asker {
    fn new(asked: Asked) -> Self {
        Self { asked, outline: None, kept: None }
    }

    /// Whether a filter may hold any of the values: one that cannot be read because a later version made it may hold
    /// all.
    fn ask(&mut self, filter: &Varlena<'_>, values: &[Value<'_>], memory: SiteMemory<'_>) -> bool {
        let Self { asked, outline, kept } = self;
        let Some(id) = filter.stored_id() else {
            return filter.with_bytes(|bytes| any(asked, outline, bytes, values, memory));
        };
        if kept.as_ref().is_none_or(|kept| kept.id != id) {
            *kept = None; // its memory goes before more is taken
        }
        let KeptFilter { bits, .. } = kept.get_or_insert_with(|| KeptFilter::new(id, filter));
        let mut values = values;
        loop {
            match bits {
                Bits::Here(bytes) => return any(asked, outline, bytes, values, memory),
                Bits::Afar(_, 0) => *bits = Bits::here(filter),
                Bits::Afar(distant, budget) => {
                    let Some((&value, rest)) = values.split_first() else { return false };
                    values = rest;
                    let hash = asked.hash(value, distant.keys(), memory);
                    let mut fetch = |offset, part: &mut [u8]| {
                        *budget = budget.saturating_sub(PART);
                        filter.fetch(offset as usize, part);
                    };
                    if distant.may_contain_hash_afar(hash, &mut fetch) {
                        return true;
                    }
                }
            }
        }
    }
}

fn any(
    asked: &mut Asked,
    outline: &mut Option<Outline>,
    bytes: &[u8],
    values: &[Value<'_>],
    memory: SiteMemory<'_>,
) -> bool {
    let known = match outline {
        Some(known) if known.is_of(bytes) => known,
        outline => match Outline::read(bytes, bytes.len() as u64) {
            Ok(read) => outline.insert(read),
            Err(error) if error.is_unknown() => return true,
            Err(error) => problem::damaged(&error),
        },
    };
    values.iter().any(|&value| known.may_contain_hash(bytes, asked.hash(value, known.keys(), memory)))
}

fn contains(call: &Call<'_>, filter: usize, value: usize) -> bool {
    let mut asker = call.site(|| Asker::new(Asked::argument(call, value)));
    let (Some(filter), Some(value)) = (call.varlena(filter), call.value(value, asker.asked.repr())) else {
        return false; // the functions are strict
    };
    asker.ask(&filter, &[value], call.site_memory())
}

/// `filter @> value`.
#[pg_extern(sql = false)]
fn bloom_contains(call: Call<'_>) -> bool {
    boundary::callback(|| contains(&call, 0, 1))
}

/// `value <@ filter`.
#[pg_extern(sql = false)]
fn bloom_is_contained(call: Call<'_>) -> bool {
    boundary::callback(|| contains(&call, 1, 0))
}

/// Whether the filter may hold any of an array's elements; NULLs are in no filter.
#[pg_extern(sql = false)]
fn bloom_contains_any(call: Call<'_>) -> bool {
    boundary::callback(|| {
        let mut asker = call.site(|| Asker::new(Asked::elements(&call, 1)));
        let (Some(filter), Some(values)) = (call.varlena(0), call.elements(1)) else { return false };
        asker.ask(&filter, &values, call.site_memory())
    })
}
