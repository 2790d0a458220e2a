//! `bloom_union_agg`: the filters of a group become one filter, which is the state.

use super::operators::{decode, decode_mut};
use super::problem;
use crate::pg::aggregate::{StateFamily, StatePointer};
use crate::pg::alloc::ContextAllocator;
use crate::pg::boundary;
use crate::pg::function::Call;
use crate::pg::varlena::Made;
use allocator_api2::vec::Vec;
use pgrx::prelude::*;

/// A filter in the group's memory.
struct Union<'m> {
    bytes: Vec<u8, ContextAllocator<'m>>,
}

impl StateFamily for Union<'static> {
    type In<'m> = Union<'m>;
}

impl<'m> Union<'m> {
    fn new(bytes: &[u8], memory: ContextAllocator<'m>) -> Self {
        decode(bytes);
        let mut copy = Vec::with_capacity_in(bytes.len(), memory);
        copy.extend_from_slice(bytes);
        Self { bytes: copy }
    }

    fn add(&mut self, bytes: &[u8]) {
        let mut own = decode_mut(&mut self.bytes);
        let other = decode(bytes);
        if let Err(error) = own.union(&other) {
            problem::mismatch(own.keys(), other.keys(), &error);
        }
    }
}

/// Adds a filter to the group's.
fn add(call: &Call<'_>, bytes: &[u8]) -> StatePointer {
    call.with_group::<Union>(|state, group| match state {
        Some(state) => {
            state.add(bytes);
            None
        }
        None => Some(Union::new(bytes, group.aggregate().memory())),
    })
}

#[pg_extern(sql = false)]
fn bloom_union_agg_step(call: Call<'_>) -> StatePointer {
    boundary::callback(|| {
        let Some(filter) = call.varlena(1) else { return call.same(0) };
        filter.with_bytes(|bytes| add(&call, bytes))
    })
}

#[pg_extern(sql = false)]
fn bloom_union_agg_combine(call: Call<'_>) -> StatePointer {
    boundary::callback(|| {
        let whole = call.with_passed::<Union, _>(1, |theirs| add(&call, &theirs.bytes));
        whole.unwrap_or_else(|| call.same(0))
    })
}

#[pg_extern(sql = false)]
fn bloom_union_agg_serialize(call: Call<'_>) -> Option<Made> {
    boundary::callback(|| call.with_state::<Union, _>(0, |state| Made::copy(&state.bytes)))
}

#[pg_extern(sql = false)]
fn bloom_union_agg_deserialize(call: Call<'_>) -> StatePointer {
    boundary::callback(|| {
        call.aggregate(); // an error outside of an aggregate
        call.pass::<Union>(|call| call.bytes(0).map(|bytes| Union::new(bytes, call.memory())))
    })
}

#[pg_extern(sql = false)]
fn bloom_union_agg_final(call: Call<'_>) -> Option<Made> {
    boundary::callback(|| call.with_state::<Union, _>(0, |state| Made::copy(&state.bytes)))
}
