//! The aggregate that a function is called for: its memory, its place in the plan, and what its states go through.
//!
//! States are values on their way to the node that combines them, but for two short cuts, which a node takes that has
//! one state and no more: within a process a token stands for it ([`handover`](super::handover)), from a worker the
//! place in memory that the query's processes share ([`parallel_memory`](super::parallel_memory)).

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

/// A kind of state: one that lies in memory of the lifetime `'m` refers to nothing else than what is there for `'m`.
/// The type stands for all of them with `'static` in the place of that.
pub trait StateFamily: 'static {
    type In<'m>;
}

/// What stands for a state ([`Call::hand_on`](super::function::Call::hand_on)).
pub type Token = [u8; size_of::<u64>()];

/// A state of an aggregate on its way back to the server; None is NULL.
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

// SAFETY: SQL is written by hand.
unsafe impl SqlTranslatable for StatePointer {
    const TYPE_IDENT: &'static str = "pg_skip::pg::aggregate::StatePointer";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("internal"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> =
        Ok(ReturnsRef::One(SqlMappingRef::literal("internal")));
}

/// An aggregate, or a window function, that is being computed, for a group whose memory is there for `'m`.
pub struct Aggregate<'m> {
    pub(super) context: pg_sys::MemoryContext,
    pub(super) node: *mut pg_sys::AggState,
    /// The memory that the function was looked up in.
    pub(super) look_up: pg_sys::MemoryContext,
    pub(super) group: PhantomData<&'m ()>,
}

impl<'m> Aggregate<'m> {
    /// The memory of the group.
    pub fn memory(&self) -> ContextAllocator<'m> {
        // SAFETY: the context that the server keeps for the group's states.
        unsafe { ContextAllocator::new(self.context) }
    }

    /// Takes the state that a token stands for, to be combined; None if it is gone, another process's, or the token
    /// made up.
    pub fn take_handed_on<S: StateFamily>(&self, token: Token) -> Option<S::In<'m>> {
        if !self.combines() {
            return None; // nobody knows whose bytes these are
        }
        let place = handover::take(u64::from_ne_bytes(token))?;
        // SAFETY: the state is there, as its offer is. Its memory is that of a node below this one, which has one state
        // (`keeps_what_it_hands_on`) and resets it only when this node begins anew or ends, whose states go before: so
        // it lives for 'm. The node below does nothing with it any more.
        Some(unsafe { Tagged::<S::In<'m>>::lend(place, Tag::of::<S>()) }.take())
    }

    /// Whether the node calls the function for an aggregate of its own, which it looked up when the query began. An
    /// engine on top of the server may compute an aggregate within another one's function, and then the node is that
    /// one's.
    pub(super) fn is_nodes_own(&self) -> bool {
        // SAFETY: a node's EState is there as long as itself.
        self.state().is_some_and(|node| unsafe { (*node.ss.ps.state).es_query_cxt } == self.look_up)
    }

    /// The node that the call comes from, if it is one that aggregates.
    fn state(&self) -> Option<&pg_sys::AggState> {
        // SAFETY: NULL, or what AggCheckCallContext took for an AggState: the executor keeps it to the query's end, and
        // changes nothing in it while it waits for the call.
        unsafe { self.node.as_ref() }
    }

    /// Whether the node does part of the work, in this way.
    fn is_split(&self, how: u32) -> bool {
        self.state().is_some_and(|node| node.aggsplit & how != 0)
    }

    /// Whether the node combines states that come from nodes of the same plan, as they sent them.
    pub(super) fn combines(&self) -> bool {
        self.is_nodes_own() && self.is_split(plan_tree::COMBINE)
    }

    /// Whether other processes compute other parts.
    pub fn is_partial(&self) -> bool {
        self.is_split(plan_tree::SKIP_FINAL)
    }

    /// Whether a state that this node hands on stays where it is while it is combined, by this process. A node without
    /// groups has one state, until the plan ends or begins anew, and hands it on straight to the node that combines; in
    /// a worker, that node is elsewhere.
    pub(super) fn keeps_what_it_hands_on(&self) -> bool {
        // SAFETY: a plain global of the server.
        self.has_one_state() && unsafe { pg_sys::ParallelWorkerNumber } < 0
    }

    /// Whether it is a partial aggregate without groups.
    fn has_one_state(&self) -> bool {
        let is_plain = |node: &pg_sys::AggState| node.aggstrategy == pg_sys::AggStrategy::AGG_PLAIN;
        self.is_partial() && self.is_nodes_own() && self.state().is_some_and(is_plain)
    }

    /// Whether nothing else is above it in this process's plan; a worker has the plan below its Gather.
    fn is_all_of_plan(&self) -> bool {
        self.state().is_some_and(|node| {
            let node = &node.ss.ps;
            // SAFETY: the node's EState has the statement that is being run.
            unsafe { (*(*node.state).es_plannedstmt).planTree == node.plan }
        })
    }

    /// Memory to send a state of so many bytes in, from a worker; None where it had better be sent as a value. Only if
    /// the node sends a state and is done: of many groups or partitions, states would wait there for the leader. And
    /// only if it sends each state once: nobody would free the others.
    pub fn share(&self, length: usize) -> Option<Shared<'m>> {
        if !self.has_one_state() || !self.is_all_of_plan() || self.sends_twice() {
            return None;
        }
        // SAFETY: has_one_state() has seen that there is a node, which the executor keeps to the query's end.
        unsafe { Shared::allocate(self.node.cast(), length) }
    }

    /// Whether aggregates share a state, which is sent for each of them.
    fn sends_twice(&self) -> bool {
        self.state().is_some_and(|node| node.numaggs != node.numtrans)
    }

    /// Whether states should be freed when they were sent, because others like them come: where there are partitions,
    /// each has a node of its own, without groups.
    pub fn makes_room_for_others(&self) -> bool {
        self.has_one_state() && !self.is_all_of_plan() && !self.sends_twice()
    }

    /// The number of rows that the planner expects in a group, over all partitions and processes; 0 where there is no
    /// telling.
    pub fn expected_rows(&self) -> f64 {
        let Some(node) = self.state() else { return 0.0 };
        let plan = node.ss.ps.plan;
        // SAFETY: the plan of an AggState is an Agg; the query that is being run keeps it, and the statement.
        unsafe {
            let groups = ((*plan.cast::<pg_sys::Agg>()).numGroups as f64).max(1.0);
            if self.is_partial() {
                // Groups are those of this part. There may be as many in the others, or as many others.
                return plan_tree::rows_of_whole((*node.ss.ps.state).es_plannedstmt, plan) / groups;
            }
            let input = (*plan).lefttree;
            if input.is_null() { 0.0 } else { (*input).plan_rows / groups }
        }
    }
}
