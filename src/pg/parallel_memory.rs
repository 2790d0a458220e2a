//! Memory that the processes of a parallel query share, for values that are too long for the tuple queue.
//!
//! A tuple from a worker is copied twice. It goes through a queue of 64 kB into newly allocated memory of the leader,
//! and both processes wait for each other meanwhile. What a worker writes into the query's own area (es_query_dsa), the
//! leader reads in place. The area and its contents are freed with the Gather, however the query ends, so this file
//! needs no cleanup after errors. Until then the area does not shrink. Memory that is freed in it can be used again by
//! the same Gather, not by others.
//!
//! Invariants: a [`SharedPlace`] leads into the area of the query that it names, or to nothing. Its bytes are read
//! once, then freed. Only as much is allocated as the system has ([`memory::may_share`]); otherwise the server would
//! raise an error.

use super::list::list;
use super::memory;
use super::varlena::Room;
use pgrx::pg_sys::{self, NodeTag, PlanState};
use skip_value::collect::Sink;
use std::ffi::c_void;

/// Length in bytes up to which a value is sent through the queue: the queue's size (PARALLEL_TUPLE_QUEUE_SIZE of
/// execParallel.c).
const QUEUE: usize = 65_536;

/// The place of shared bytes: the query, the address in its area, and the length in bytes.
#[derive(Clone, Copy, Debug)]
pub struct SharedPlace {
    query: pg_sys::dsm_handle,
    pointer: pg_sys::dsa_pointer,
    length: u64,
}

impl SharedPlace {
    /// The bytes to send to another process of the query.
    pub fn to_bytes(self) -> [[u8; 8]; 3] {
        [u64::from(self.query), self.pointer, self.length].map(u64::to_ne_bytes)
    }

    /// The place from the bytes that were sent; None if they are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[query, pointer, length], []) = bytes.as_chunks::<8>() else { return None };
        let [query, pointer, length] = [query, pointer, length].map(u64::from_ne_bytes);
        Some(Self { query: query.try_into().ok()?, pointer, length })
    }
}

/// The beginning of ParallelExecutorInfo (execParallel.h), the same in versions 15 to 18; pgrx has no binding for it.
#[repr(C)]
struct Info {
    below: *mut PlanState,
    context: *mut pg_sys::ParallelContext,
    usage_and_instrumentation: [*mut c_void; 4],
    area: *mut pg_sys::dsa_area,
}

/// Shared memory while it is being written.
pub struct Shared<'a> {
    query: pg_sys::dsm_handle,
    pointer: pg_sys::dsa_pointer,
    room: Room<'a>,
}

impl Shared<'_> {
    /// Allocates `capacity` bytes. None if the bytes should be sent as a value: they fit into the queue, there is no
    /// other process to share with, or too little memory.
    ///
    /// # Safety
    /// `node` belongs to a query that runs for `'a`.
    pub(super) unsafe fn allocate(node: *mut PlanState, capacity: usize) -> Option<Self> {
        // SAFETY: the state of a query has its area, or NULL, as long as the query runs. The area is in the leader's
        // segment for this query, whose handle the worker got at its start (LaunchParallelWorkers). No other process
        // knows the allocation until its place is sent.
        unsafe {
            let area = (*(*node).state).es_query_dsa;
            let is_worker = pg_sys::ParallelWorkerNumber >= 0;
            if !is_worker || area.is_null() || capacity <= QUEUE || !memory::may_share(capacity) {
                return None;
            }
            let flags = pg_sys::DSA_ALLOC_HUGE | pg_sys::DSA_ALLOC_NO_OOM;
            let pointer = pg_sys::dsa_allocate_extended(area, capacity, flags as i32);
            if pointer == 0 {
                return None;
            }
            let query = (*pg_sys::MyBgworkerEntry).bgw_main_arg.value() as pg_sys::dsm_handle;
            let room = Room::new(pg_sys::dsa_get_address(area, pointer).cast(), capacity);
            Some(Self { query, pointer, room })
        }
    }

    /// The place of the bytes.
    pub fn place(&self) -> SharedPlace {
        SharedPlace { query: self.query, pointer: self.pointer, length: self.room.length() as u64 }
    }
}

impl Sink for Shared<'_> {
    fn write(&mut self, piece: &[u8]) -> Option<()> {
        self.room.write(piece)
    }

    fn zeros(&mut self, length: usize) -> Option<&mut [u8]> {
        self.room.zeros(length)
    }
}

/// Shared memory that another process wrote.
pub struct Found<'a> {
    area: *mut pg_sys::dsa_area,
    pointer: pg_sys::dsa_pointer,
    bytes: &'a [u8],
}

impl Found<'_> {
    /// The bytes of a worker that was started by a Gather below this node; None if they belong to another query.
    ///
    /// # Safety
    /// `node` belongs to a running query. The Gather is not closed for `'a`.
    pub(super) unsafe fn find(node: *mut PlanState, place: SharedPlace) -> Option<Self> {
        // SAFETY: the area is that of the query that the place names. Its workers send the places that `allocate`
        // returned, with their true lengths, and each place once.
        unsafe {
            let area = area_below(node, place.query)?;
            let memory = pg_sys::dsa_get_address(area, place.pointer).cast::<u8>();
            let bytes = std::slice::from_raw_parts(memory, place.length as usize);
            Some(Self { area, pointer: place.pointer, bytes })
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Frees the memory.
    pub fn free(self) {
        // SAFETY: allocated there; no other code knows the place, and the bytes are borrowed from self.
        unsafe { pg_sys::dsa_free(self.area, self.pointer) };
    }
}

/// The area of the query that a Gather below a node runs.
///
/// # Safety
/// `node` belongs to a running query.
unsafe fn area_below(node: *mut PlanState, query: pg_sys::dsm_handle) -> Option<*mut pg_sys::dsa_area> {
    // SAFETY: a node's tag tells its type.
    unsafe {
        let info = match (*node).type_ {
            NodeTag::T_GatherState => (*node.cast::<pg_sys::GatherState>()).pei,
            NodeTag::T_GatherMergeState => (*node.cast::<pg_sys::GatherMergeState>()).pei,
            _ => return children(node).into_iter().find_map(|child| area_below(child, query)),
        };
        let info = info.cast::<Info>().as_ref().filter(|info| info.below == (*node).lefttree)?;
        let segment = (*info.context).seg;
        (!segment.is_null() && pg_sys::dsm_segment_handle(segment) == query && !info.area.is_null())
            .then_some(info.area)
    }
}

/// The nodes directly below a node, except its scalar subqueries.
///
/// # Safety
/// `node` belongs to a running query.
unsafe fn children(node: *mut PlanState) -> Vec<*mut PlanState> {
    // SAFETY: a node's tag tells its type, and a count the length of an array.
    unsafe {
        let array = |nodes: *mut *mut PlanState, count: i32| (0..count).map(move |i| *nodes.add(i as usize));
        let mut children = vec![(*node).lefttree, (*node).righttree];
        match (*node).type_ {
            NodeTag::T_AppendState => {
                let append = &*node.cast::<pg_sys::AppendState>();
                children.extend(array(append.appendplans, append.as_nplans));
            }
            NodeTag::T_MergeAppendState => {
                let append = &*node.cast::<pg_sys::MergeAppendState>();
                children.extend(array(append.mergeplans, append.ms_nplans));
            }
            NodeTag::T_SubqueryScanState => {
                children.push((*node.cast::<pg_sys::SubqueryScanState>()).subplan);
            }
            NodeTag::T_CustomScanState => {
                children.extend(list((*node.cast::<pg_sys::CustomScanState>()).custom_ps));
            }
            _ => {}
        }
        children.retain(|child| !child.is_null());
        children
    }
}
