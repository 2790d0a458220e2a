//! `bloom_union_agg`: the filters of a group become one. The state is the filter.

use super::operators::{decode, decode_mut};
use super::problem;
use crate::pg::aggregate::StatePointer;
use crate::pg::alloc::ContextAllocator;
use crate::pg::boundary;
use crate::pg::function::Call;
use crate::pg::varlena::Made;
use allocator_api2::vec::Vec;
use pgrx::prelude::*;

/// A filter in the group's memory.
struct Union {
    bytes: Vec<u8, ContextAllocator>,
}

impl Union {
    fn new(bytes: &[u8], memory: ContextAllocator) -> Self {
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

#[pg_extern(sql = false)]
fn bloom_union_agg_step(call: Call) -> StatePointer {
    boundary::callback(|| {
        let Some(filter) = call.varlena(1) else { return call.same(0) };
        if let Some(state) = call.state::<Union>(0) {
            filter.with_bytes(|bytes| state.add(bytes));
            return call.same(0);
        }
        let group = call.aggregate();
        group.place(filter.with_bytes(|bytes| Union::new(bytes, group.memory())))
    })
}

#[pg_extern(sql = false)]
fn bloom_union_agg_combine(call: Call) -> StatePointer {
    boundary::callback(|| {
        let Some(theirs) = call.state::<Union>(1) else { return call.same(0) };
        if let Some(state) = call.state::<Union>(0) {
            state.add(&theirs.bytes);
            return call.same(0);
        }
        let group = call.aggregate();
        group.place(Union::new(&theirs.bytes, group.memory()))
    })
}

#[pg_extern(sql = false)]
fn bloom_union_agg_serialize(call: Call) -> Option<Made> {
    boundary::callback(|| call.state::<Union>(0).map(|state| Made::copy(&state.bytes)))
}

#[pg_extern(sql = false)]
fn bloom_union_agg_deserialize(call: Call) -> StatePointer {
    boundary::callback(|| {
        let Some(bytes) = call.varlena(0) else { return call.none() };
        call.aggregate(); // nobody else has business here
        call.pass(bytes.with_bytes(|bytes| Union::new(bytes, call.short_memory())))
    })
}

#[pg_extern(sql = false)]
fn bloom_union_agg_final(call: Call) -> Option<Made> {
    boundary::callback(|| call.state::<Union>(0).map(|state| Made::copy(&state.bytes)))
}
