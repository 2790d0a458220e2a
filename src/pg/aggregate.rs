//! The aggregate for which a function is called: its memory, its node in the plan, and the transfer of its states.
//!
//! A state is normally sent as a value to the node that combines states. A node that has only one state can take one of
//! two short cuts. Within a process it sends a token in place of the state ([`handover`](super::handover)); a worker
//! sends the state's place in memory that the query's processes share ([`parallel_memory`](super::parallel_memory)).

use super::alloc::ContextAllocator;
use super::handover;
use super::parallel_memory::Shared;
use super::plan_tree;
use super::tagged::{Tag, Tagged};
use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::pg_sys;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use std::marker::PhantomData;

/// A kind of state. A state in memory of the lifetime `'m` refers only to data that lives for `'m`. The implementing
/// type has `'static` in place of `'m`, and stands for the types with all lifetimes.
pub trait StateFamily: 'static {
    type In<'m>;
}

/// A token that is sent in place of a state ([`Call::hand_on`](super::function::Call::hand_on)).
pub type Token = [u8; size_of::<u64>()];

/// A state of an aggregate that is returned to the server; None is NULL.
pub struct StatePointer(pub(super) Option<pg_sys::Datum>);

// SAFETY: a pointer, or NULL, of SQL type internal.
unsafe impl BoxRet for StatePointer {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        match self.0 {
            // SAFETY: the function is declared to return internal.
            Some(pointer) => unsafe { fcinfo.return_raw_datum(pointer) },
            None => fcinfo.return_null(),
        }
    }
}

// SAFETY: the extension's SQL is written by hand, not generated from this.
unsafe impl SqlTranslatable for StatePointer {
    const TYPE_IDENT: &'static str = "pg_skip::pg::aggregate::StatePointer";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("internal"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> =
        Ok(ReturnsRef::One(SqlMappingRef::literal("internal")));
}

/// An aggregate, or a window function, that is being computed for a group whose memory lives for `'m`.
pub struct Aggregate<'m> {
    pub(super) context: pg_sys::MemoryContext,
    pub(super) node: *mut pg_sys::AggState,
    /// The memory context of the function's lookup.
    pub(super) look_up: pg_sys::MemoryContext,
    pub(super) group: PhantomData<&'m ()>,
}

impl<'m> Aggregate<'m> {
    /// The memory of the group.
    pub fn memory(&self) -> ContextAllocator<'m> {
        // SAFETY: the server keeps this context for the group's states.
        unsafe { ContextAllocator::new(self.context) }
    }

    /// Takes the state of a token, to combine it. None if the state is gone or belongs to another process, or if the
    /// token is forged.
    pub fn take_handed_on<S: StateFamily>(&self, token: Token) -> Option<S::In<'m>> {
        if !self.combines() {
            return None; // the bytes may come from anywhere
        }
        let place = handover::take(u64::from_ne_bytes(token))?;
        // SAFETY: the state exists, because its offer does. Its memory is that of a node below this one, which has one
        // state (`keeps_what_it_hands_on`). That node resets the memory only when this node is rescanned or ends, and
        // this node's states are freed before that: so the state lives for 'm. The node below does not use it any more.
        Some(unsafe { Tagged::<S::In<'m>>::lend(place, Tag::of::<S>()) }.take())
    }

    /// Whether the node calls the function for an aggregate of its own, which it looked up when the query began. An
    /// engine on top of the server may compute an aggregate within another one's function; then the node belongs to the
    /// outer aggregate.
    pub(super) fn is_nodes_own(&self) -> bool {
        // SAFETY: a node's EState lives as long as the node.
        self.state().is_some_and(|node| unsafe { (*node.ss.ps.state).es_query_cxt } == self.look_up)
    }

    /// The node from which the call comes, if it is an Agg node.
    fn state(&self) -> Option<&pg_sys::AggState> {
        // SAFETY: NULL, or a node that AggCheckCallContext took for an AggState. The executor keeps it to the query's
        // end, and does not change it during the call.
        unsafe { self.node.as_ref() }
    }

    /// Whether the node's aggsplit has this flag.
    fn is_split(&self, how: u32) -> bool {
        self.state().is_some_and(|node| node.aggsplit & how != 0)
    }

    /// Whether the node combines states that nodes of the same plan have sent.
    pub(super) fn combines(&self) -> bool {
        self.is_nodes_own() && self.is_split(plan_tree::COMBINE)
    }

    /// Whether the aggregate is partial: other nodes or processes compute the other parts.
    pub fn is_partial(&self) -> bool {
        self.is_split(plan_tree::SKIP_FINAL)
    }

    /// Whether a state that this node sends stays in place until this process has combined it. A node without groups
    /// has one state, until the plan ends or is rescanned, and sends it directly to the node that combines. In a
    /// worker, that node is in another process.
    pub(super) fn keeps_what_it_hands_on(&self) -> bool {
        // SAFETY: a plain global of the server.
        self.has_one_state() && unsafe { pg_sys::ParallelWorkerNumber } < 0
    }

    /// Whether it is a partial aggregate without groups.
    fn has_one_state(&self) -> bool {
        let is_plain = |node: &pg_sys::AggState| node.aggstrategy == pg_sys::AggStrategy::AGG_PLAIN;
        self.is_partial() && self.is_nodes_own() && self.state().is_some_and(is_plain)
    }

    /// Whether the node is the top of this process's plan; a worker has the plan below its Gather.
    fn is_all_of_plan(&self) -> bool {
        self.state().is_some_and(|node| {
            let node = &node.ss.ps;
            // SAFETY: the node's EState has the statement that is running.
            unsafe { (*(*node.state).es_plannedstmt).planTree == node.plan }
        })
    }

    /// Shared memory for sending a state of `length` bytes from a worker; None if the state should be sent as a value.
    /// Only if the node sends one state and ends: states of many groups or partitions would wait there for the leader.
    /// And only if it sends each state once: nothing would free the other copies.
    pub fn share(&self, length: usize) -> Option<Shared<'m>> {
        if !self.has_one_state() || !self.is_all_of_plan() || self.sends_twice() {
            return None;
        }
        // SAFETY: has_one_state() has checked that there is a node, which the executor keeps to the query's end.
        unsafe { Shared::allocate(self.node.cast(), length) }
    }

    /// Whether aggregates share a state, which is then sent once for each of them.
    fn sends_twice(&self) -> bool {
        self.state().is_some_and(|node| node.numaggs != node.numtrans)
    }

    /// Whether states should be freed after they were sent, because more of them follow: with partitions, each
    /// partition has a node of its own, without groups.
    pub fn makes_room_for_others(&self) -> bool {
        self.has_one_state() && !self.is_all_of_plan() && !self.sends_twice()
    }

    /// The number of rows that the planner expects in a group, over all partitions and processes; 0 if unknown.
    pub fn expected_rows(&self) -> f64 {
        let Some(node) = self.state() else { return 0.0 };
        let plan = node.ss.ps.plan;
        // SAFETY: the plan of an AggState is an Agg; the running query keeps it and the statement.
        unsafe {
            let groups = ((*plan.cast::<pg_sys::Agg>()).numGroups as f64).max(1.0);
            if self.is_partial() {
                // `groups` counts the groups of this part. The other parts may have the same groups, or as many
                // different ones.
                return plan_tree::rows_of_whole((*node.ss.ps.state).es_plannedstmt, plan) / groups;
            }
            let input = (*plan).lefttree;
            if input.is_null() { 0.0 } else { (*input).plan_rows / groups }
        }
    }
}
