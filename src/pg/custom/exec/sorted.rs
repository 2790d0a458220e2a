//! Rows of a scan in order that are too many for memory: the server sorts them, by the column, on disk if need be.
//!
//! A sorted row is the value of the column and the row's place in the table.

use super::super::ordering::OrderedColumn;
use super::sort_keys::{KeptRow, SortKeys, attribute};
use crate::pg::server;
use pgrx::pg_sys;
use skip_bounds::ordered::Rank;

/// A sort that takes rows.
pub(super) struct Filling {
    sort: *mut pg_sys::Tuplesortstate,
    /// A slot for rows that go into the sort.
    input: *mut pg_sys::TupleTableSlot,
    first: Option<Rank>,
    takes_all: bool,
}

/// A sort that gives rows.
pub(super) struct Sorted {
    sort: *mut pg_sys::Tuplesortstate,
    /// A slot for rows that come from the sort; the value of the first row is in it.
    output: *mut pg_sys::TupleTableSlot,
    first: Option<KeptRow>,
}

impl Filling {
    /// Begins a sort. `takes_all` tells whether the rows of all ranges will go into it.
    ///
    /// # Safety
    /// The keys are those of a node in an execution.
    pub(super) unsafe fn begin(keys: &SortKeys, takes_all: bool) -> Self {
        // SAFETY: the sort copies its arguments, and refers to the descriptor, which lives until the sort is ended.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(keys.memory);
            let desc = pg_sys::CreateTemplateTupleDesc(2);
            pg_sys::TupleDescInitEntry(desc, 1, std::ptr::null(), keys.kind, -1, 0);
            pg_sys::TupleDescInitEntry(desc, 2, std::ptr::null(), pg_sys::TIDOID, -1, 0);
            let (mut column, mut operator, mut collation, mut nulls_first) =
                (1i16, keys.sort.operator, keys.sort.collation, keys.sort.nulls_first);
            let sort = pg_sys::tuplesort_begin_heap(
                desc,
                1,
                &mut column,
                &mut operator,
                &mut collation,
                &mut nulls_first,
                pg_sys::work_mem,
                std::ptr::null_mut(),
                pg_sys::TUPLESORT_NONE as i32,
            );
            let input = pg_sys::MakeSingleTupleTableSlot(desc, &raw const pg_sys::TTSOpsVirtual);
            pg_sys::MemoryContextSwitchTo(before);
            Self { sort, input, first: None, takes_all }
        }
    }

    /// Whether the rows of all ranges go into it.
    pub(super) fn takes_all(&self) -> bool {
        self.takes_all
    }

    /// The lowest rank of its rows.
    pub(super) fn first(&self) -> Option<Rank> {
        self.first
    }

    /// Adds a row.
    ///
    /// # Safety
    /// The row has a value of the column.
    pub(super) unsafe fn add(&mut self, row: &KeptRow) {
        self.first = Some(self.first.map_or(row.rank, |first| first.min(row.rank)));
        let mut tid = pg_sys::ItemPointerData::default();
        pgrx::itemptr::item_pointer_set_all(&mut tid, row.place.0, row.place.1);
        // SAFETY: the slot has two columns, and the sort copies both values.
        unsafe {
            let slot = self.input;
            pg_sys::ExecClearTuple(slot);
            *(*slot).tts_values = row.value;
            *(*slot).tts_isnull = !row.rank.is_of_values();
            *(*slot).tts_values.add(1) = pg_sys::Datum::from(&raw const tid);
            *(*slot).tts_isnull.add(1) = false;
            pg_sys::ExecStoreVirtualTuple(slot);
            server::tuplesort_puttupleslot(self.sort, slot);
            pg_sys::ExecClearTuple(slot);
        }
    }

    /// Sorts the rows.
    ///
    /// # Safety
    /// As [`Filling::begin`], with the same keys.
    pub(super) unsafe fn sort(self, keys: &SortKeys, column: &OrderedColumn) -> Sorted {
        // SAFETY: the slot for results has the same descriptor.
        unsafe {
            server::tuplesort_performsort(self.sort);
            let before = pg_sys::MemoryContextSwitchTo(keys.memory);
            let desc = (*self.input).tts_tupleDescriptor;
            let output = pg_sys::MakeSingleTupleTableSlot(desc, &raw const pg_sys::TTSOpsMinimalTuple);
            pg_sys::MemoryContextSwitchTo(before);
            pg_sys::ExecDropSingleTupleTableSlot(self.input);
            let mut sorted = Sorted { sort: self.sort, output, first: None };
            sorted.advance(keys, column);
            sorted
        }
    }

    /// Ends the sort.
    pub(super) fn end(self) {
        // SAFETY: begun in begin(), ended once.
        unsafe { end(self.sort, self.input) }
    }
}

impl Sorted {
    /// The first row.
    #[inline]
    pub(super) fn first(&self) -> Option<&KeptRow> {
        self.first.as_ref()
    }

    /// Takes the first row, and returns its place.
    ///
    /// # Safety
    /// As [`Filling::begin`], with the same keys. The current memory context is a short-lived one.
    pub(super) unsafe fn take(&mut self, keys: &SortKeys, column: &OrderedColumn) -> Option<(u32, u16)> {
        let place = self.first?.place;
        // SAFETY: as the caller promises.
        unsafe { self.advance(keys, column) };
        Some(place)
    }

    /// # Safety
    /// As [`Sorted::take`].
    unsafe fn advance(&mut self, keys: &SortKeys, column: &OrderedColumn) {
        // SAFETY: the sort is done; a row has a value, which stays in the slot until the next call, and a place.
        unsafe {
            let none = std::ptr::null_mut();
            let found = server::tuplesort_gettupleslot(self.sort, true, false, self.output, none);
            self.first = found.then(|| {
                let value = attribute(self.output, 1);
                let place = attribute(self.output, 2).map_or((0, 0), |tid| {
                    pgrx::itemptr::item_pointer_get_both(*tid.cast_mut_ptr::<pg_sys::ItemPointerData>())
                });
                let rank = keys.rank(column, value);
                KeptRow { rank, value: value.unwrap_or(pg_sys::Datum::null()), place }
            });
        }
    }

    /// Ends the sort.
    pub(super) fn end(self) {
        // SAFETY: begun in Filling::begin(), ended once.
        unsafe { end(self.sort, self.output) }
    }
}

/// Ends a sort, with its slot and their descriptor: a scan that starts over for each row of a join begins many sorts.
///
/// # Safety
/// Both were made in [`Filling::begin`] or [`Filling::sort`], and are not used any more.
unsafe fn end(sort: *mut pg_sys::Tuplesortstate, slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: as the caller promises. Nothing else refers to the descriptor, which is not counted.
    unsafe {
        let desc = (*slot).tts_tupleDescriptor;
        pg_sys::ExecDropSingleTupleTableSlot(slot);
        pg_sys::tuplesort_end(sort);
        pg_sys::FreeTupleDesc(desc);
    }
}
