//! Lookups in filters: `@>`, `<@`, `bloom_contains`, `bloom_contains_any`.
//!
//! A filter that is stored out of line may be one of many that a key is looked up in, or the one filter that keys of
//! many rows are looked up in. At first, only the parts of it that contain the bits of the keys are fetched. When these
//! parts have cost as much as fetching the whole filter would have, the filter is fetched, and kept until the call site
//! gets a different one. The cost is therefore at most twice the minimum in both cases.
//!
//! Consecutive rows have the same filter, or filters that differ in their bits only. Therefore the outline of a filter
//! is read only if it differs from that of the previous row.

use super::lookup_value::LookupValue;
use super::problem;
use crate::pg::boundary;
use crate::pg::datum::Value;
use crate::pg::function::{Call, SiteMemory};
use crate::pg::varlena::{StoredId, Varlena};
use pgrx::prelude::*;
use skip_value::{KeptValue, Outline};

/// Cost of fetching a part, in bytes of a whole filter that could be fetched in the same time. Measured with everything
/// cached: 3 us for a part, 0.7 us for each 2 kB of a whole filter.
const PART: usize = 8 << 10;

/// Bytes that contain the header of nearly every filter. They are in the filter's first row in the TOAST relation.
const FIRST: usize = 1 << 10;

/// What a call site keeps.
struct Asker {
    asked: LookupValue,
    /// The outline of the filter of the last lookup.
    outline: Option<Outline>,
    kept: Option<KeptFilter>,
}

/// A filter that is stored out of line.
struct KeptFilter {
    id: StoredId,
    bits: Bits,
}

enum Bits {
    /// Not fetched as a whole. The number is the budget for parts in bytes; each part costs [`PART`].
    Afar(Box<Outline>, usize),
    Here(Box<KeptValue>),
    /// A later version made the filter: it may hold any key.
    Unknown,
}

impl KeptFilter {
    fn new(id: StoredId, filter: &Varlena<'_>) -> Self {
        let afar = filter.length_in_parts().and_then(|length| {
            let budget = length.checked_sub(4 * PART)?;
            let mut first = [0; FIRST];
            filter.fetch(0, &mut first);
            // If the outline cannot be read, the whole filter is fetched, and reading it raises the error.
            Some(Bits::Afar(Box::new(Outline::read(&first, length as u64).ok()?), budget))
        });
        Self { id, bits: afar.unwrap_or_else(|| Bits::here(filter)) }
    }
}

impl Bits {
    fn here(filter: &Varlena<'_>) -> Self {
        match filter.with_bytes(KeptValue::copy) {
            Ok(kept) => Self::Here(Box::new(kept)),
            Err(error) if error.is_unknown() => Self::Unknown,
            Err(error) => problem::damaged(&error),
        }
    }
}

impl Asker {
    fn new(asked: LookupValue) -> Self {
        Self { asked, outline: None, kept: None }
    }

    /// Whether a filter may hold any of the values. A filter that cannot be read because a later version made it may
    /// hold all of them.
    fn ask(&mut self, filter: &Varlena<'_>, values: &[Value<'_>], memory: SiteMemory<'_>) -> bool {
        let Self { asked, outline, kept } = self;
        let Some(id) = filter.stored_id() else {
            return filter.with_bytes(|bytes| any(asked, outline, bytes, values, memory));
        };
        if kept.as_ref().is_none_or(|kept| kept.id != id) {
            *kept = None; // frees its memory before more is allocated
        }
        let KeptFilter { bits, .. } = kept.get_or_insert_with(|| KeptFilter::new(id, filter));
        let mut values = values;
        loop {
            match bits {
                Bits::Unknown => return true,
                Bits::Here(kept) => {
                    let mut hash = |value| asked.hash(value, kept.outline().keys(), memory);
                    return values.iter().any(|&value| kept.may_contain_hash(hash(value)));
                }
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

/// Whether a filter that is not kept may hold any of the values.
fn any(
    asked: &mut LookupValue,
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
    let mut asker = call.site(|| Asker::new(LookupValue::argument(call, value)));
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

/// Whether the filter may hold any of an array's elements. No filter holds NULL.
#[pg_extern(sql = false)]
fn bloom_contains_any(call: Call<'_>) -> bool {
    boundary::callback(|| {
        let mut asker = call.site(|| Asker::new(LookupValue::elements(&call, 1)));
        let (Some(filter), Some(values)) = (call.varlena(0), call.elements(1)) else { return false };
        asker.ask(&filter, &values, call.site_memory())
    })
}
