//! Returning rows in the order of a column, `ORDER BY column LIMIT n`: ranges are read in the order of their bounds,
//! and only as far as rows are requested. [`skip_bounds::ordered`] decides what is read and returned next.
//!
//! The bounds are read after the snapshot was taken and after the table's size was read, like everything else in the
//! index. So every row that the snapshot sees is within the bounds of its range, or the range is open; ranges that are
//! not summarized, and those that the index does not know, are open. Open ranges are read before all others. What is
//! known of groups of ranges is read once for all executions of a node, the bounds of the ranges of a group when its
//! turn comes. Blocks that the table got since have no row that the snapshot sees.
//!
//! All rows of a range are checked when it is read. Of those that satisfy the conditions, the place in the table, the
//! rank and the value are kept. A row is fetched by its place when its turn comes: no row that a snapshot in use sees
//! is removed, or moves. (The server checks the conditions again that it checks itself. If one of them is volatile, it
//! is checked only then.)
//!
//! The rows that are kept are bounded by work_mem. Beyond that, all kept rows, and those of the ranges that must be
//! read before the first of them can be returned, go to a sort of the server ([`super::sorted`]), which is then a
//! second source of rows. If the bound is reached again, the rows of all ranges go to a sort.

use super::super::heap_rows::Pages;
use super::super::ordering::{OrderedColumn, SortColumn};
use super::SharedBlocks;
use super::lists::is_true;
use super::served::Served;
use super::sort_keys::{KeptRow, SortKeys, attribute};
use super::sorted::{Filling, Sorted};
use crate::pg::alloc::new_context;
use crate::pg::{Rel, compat, fail, memory, page, server};
use pgrx::{PgSqlErrorCode, pg_sys};
use skip_bounds::Bounds;
use skip_bounds::ordered::{Next, Rank, RowHeap, UnreadRanges};
use std::ops::Range;

/// What a scan in order reads rows with.
pub(super) struct RowReader<'r> {
    pub(super) node: *mut pg_sys::CustomScanState,
    pub(super) pages: &'r mut Pages,
    pub(super) blocks: &'r mut SharedBlocks,
    pub(super) served: &'r mut Served,
    /// The index with the bounds.
    pub(super) index: Option<Rel<'r>>,
}

/// A scan in the order of a column.
pub(super) struct Ordered {
    column: OrderedColumn,
    keys: SortKeys,
    unread: UnreadRanges,
    rows: RowHeap<KeptRow>,
    /// Bytes of the values that are kept, beside the rows.
    bytes: usize,
    /// Where the values are that are kept.
    values: pg_sys::MemoryContext,
    /// Rows beyond work_mem while they are collected, and when they are sorted.
    filling: Option<Filling>,
    sorted: Option<Sorted>,
    /// The conditions that the server checks; NULL if they must be evaluated only once for each row.
    filter: *mut pg_sys::ExprState,
}

impl Ordered {
    /// Begins a scan of a table of `blocks` blocks. `column` is None if the index knows nothing of the order: then all
    /// rows are read before the first one is returned.
    ///
    /// # Safety
    /// `node` is in an execution, and the order is that of its plan. The current memory context is the query's.
    pub(super) unsafe fn new(
        node: *mut pg_sys::CustomScanState,
        sort: SortColumn,
        column: Option<OrderedColumn>,
        blocks: u32,
    ) -> Self {
        let column = column.unwrap_or_else(|| OrderedColumn {
            groups: Vec::new(),
            delta_bounds: vec![(0, Bounds { open: true, ..Bounds::EMPTY })],
            pages_per_range: blocks.max(1),
            is_exact: false,
            ranges_of: Box::new(|_, _, _| Vec::new()),
            key: Box::new(|_| Some(0)),
        });
        // SAFETY: the node's table is open. What is made here lives until end(), or to the query's end.
        unsafe {
            let keys = SortKeys::new(Rel::from_raw((*node).ss.ss_currentRelation), sort, column.is_exact);
            let qual = (*(*node).ss.ps.plan).qual.cast();
            // Whether a subquery is volatile cannot be seen in a plan.
            let is_volatile = pg_sys::contain_volatile_functions(qual) || pg_sys::contain_subplans(qual);
            Self {
                unread: UnreadRanges::new(&keys.order, &column.groups, &column.delta_bounds),
                column,
                rows: RowHeap::default(),
                bytes: 0,
                values: new_context(keys.memory, c"pg_skip kept rows"),
                keys,
                filling: None,
                sorted: None,
                filter: if is_volatile { std::ptr::null_mut() } else { (*node).ss.ps.qual },
            }
        }
    }

    /// Heap blocks of the ranges that have bounds.
    pub(super) fn pages_per_range(&self) -> u32 {
        self.column.pages_per_range
    }

    /// Starts over, with the same bounds.
    pub(super) fn restart(&mut self) {
        self.forget_rows();
        self.unread = UnreadRanges::new(&self.keys.order, &self.column.groups, &self.column.delta_bounds);
    }

    /// Ends the scan, and returns what was known of the order. (Drop does not do that: after an error, the abort of the
    /// transaction releases everything.)
    pub(super) fn end(mut self) -> OrderedColumn {
        self.forget_rows();
        // SAFETY: made in new(), deleted once, with all that was made below it.
        unsafe { pg_sys::MemoryContextDelete(self.keys.memory) }
        self.column
    }

    fn forget_rows(&mut self) {
        drop(self.rows.take_all());
        self.bytes = 0;
        if let Some(filling) = self.filling.take() {
            filling.end();
        }
        if let Some(sorted) = self.sorted.take() {
            sorted.end();
        }
        // SAFETY: made in new(); no row refers to it any more.
        unsafe { pg_sys::MemoryContextReset(self.values) }
    }

    /// Puts the next row into the node's slot; false after the last one.
    ///
    /// # Safety
    /// The reader's node is in an execution, with keys evaluated, and this is its order.
    pub(super) unsafe fn next_row(&mut self, reader: &mut RowReader<'_>) -> bool {
        // SAFETY: the executor is running the node. Comparisons allocate in the row's memory, which ExecScan resets.
        unsafe {
            let context = (*reader.node).ss.ps.ps_ExprContext;
            let before = pg_sys::MemoryContextSwitchTo((*context).ecxt_per_tuple_memory);
            let found = loop {
                // Ranges may come that have no rows to return.
                memory::check_for_interrupts();
                let first = self.first();
                if let Some((rank, is_sorted)) = first
                    && self.keys.order.may_return(rank, self.unread.first())
                {
                    break self.take(is_sorted);
                }
                let Some(next) = self.unread.take() else { break None };
                self.read(reader, next);
                self.sort_rows(reader);
            };
            pg_sys::MemoryContextSwitchTo(before);
            found.is_some_and(|place| {
                fetch(reader.node, place);
                true
            })
        }
    }

    /// The rank of the first row of both sources, and whether it is a sorted one.
    ///
    /// # Safety
    /// As [`SortKeys::is_before`].
    #[inline]
    unsafe fn first(&self) -> Option<(Rank, bool)> {
        let sorted = self.sorted.as_ref().and_then(Sorted::first);
        match (self.rows.first(), sorted) {
            (Some(kept), Some(sorted)) => {
                // SAFETY: both are rows of the scan.
                let is_sorted = unsafe { self.keys.is_before(sorted, kept) };
                Some((if is_sorted { sorted.rank } else { kept.rank }, is_sorted))
            }
            (kept, sorted) => kept.map(|row| (row.rank, false)).or(sorted.map(|row| (row.rank, true))),
        }
    }

    /// Takes the first row of a source, and returns its place.
    ///
    /// # Safety
    /// As [`SortKeys::is_before`].
    unsafe fn take(&mut self, is_sorted: bool) -> Option<(u32, u16)> {
        let keys = self.keys;
        // SAFETY: all are rows of the scan; a value that is not needed any more is freed.
        unsafe {
            if is_sorted {
                return self.sorted.as_mut().and_then(|sorted| sorted.take(&keys, &self.column));
            }
            let row = self.rows.pop(|one, other| keys.is_before(one, other))?;
            if !keys.is_by_value && row.rank.is_of_values() {
                self.bytes = self.bytes.saturating_sub(keys.size(row.value));
                pg_sys::pfree(row.value.cast_mut_ptr());
            }
            Some(row.place)
        }
    }

    /// Reads a range, or finds out the bounds of those ranges of a group that the conditions leave.
    ///
    /// # Safety
    /// As [`Ordered::next_row`].
    unsafe fn read(&mut self, reader: &mut RowReader<'_>, next: Next) {
        match next {
            // SAFETY: as the caller promises.
            Next::Range(range) => unsafe { self.read_range(reader, range) },
            Next::Group(group) => {
                let pages = page::pages_read();
                let Some(index) = reader.index else { no_index() };
                let blocks = reader.blocks.get();
                let pages_per_range = self.column.pages_per_range;
                let has_survivors = |ranges: &Range<u32>| blocks.any_of(ranges, pages_per_range);
                self.unread.add(&self.keys.order, (self.column.ranges_of)(index, group, &has_survivors));
                // SAFETY: the executor is running the node.
                unsafe { compat::test_for_old_snapshot(index, (*(*reader.node).ss.ps.state).es_snapshot) }
                blocks.counters.index_pages += page::pages_read() - pages;
            }
        }
    }

    /// Reads a range.
    ///
    /// # Safety
    /// As [`Ordered::next_row`].
    unsafe fn read_range(&mut self, reader: &mut RowReader<'_>, range: u32) {
        if !reader.blocks.get().choose(range, self.column.pages_per_range) {
            return;
        }
        // SAFETY: the slot is the node's, for rows of the table. ExecQual is called as ExecScan does it, in the row's
        // memory, which hold() resets.
        unsafe {
            let scan = &raw mut (*reader.node).ss;
            let (slot, context) = ((*scan).ss_ScanTupleSlot, (*scan).ps.ps_ExprContext);
            (*context).ecxt_scantuple = slot;
            let (mut removed, mut filtered) = (0, 0u64);
            reader.pages.restart();
            while let Some(block) = reader.pages.next_page(reader.served.raw_test(), &mut removed) {
                reader.blocks.get().entered(block);
                while reader.pages.next_row(slot, reader.served.raw_test(), &mut removed) {
                    if !reader.served.hold(context) {
                        removed += 1;
                        continue;
                    }
                    reader.blocks.get().found_row();
                    if is_true(self.filter, context) {
                        self.add(slot);
                    } else {
                        filtered += 1;
                    }
                }
                // The slot's pin is released before the page's.
                pg_sys::ExecClearTuple(slot);
            }
            reader.blocks.get().finish_range();
            reader.blocks.get().counters.removed_rows += removed;
            if let Some(instrument) = (*scan).ps.instrument.as_mut() {
                instrument.nfiltered1 += filtered as f64;
            }
        }
    }

    /// Keeps the row in a slot.
    ///
    /// # Safety
    /// The slot has a row of the table that is on a page. The current memory context is a short-lived one.
    unsafe fn add(&mut self, slot: *mut pg_sys::TupleTableSlot) {
        let keys = self.keys;
        // SAFETY: the column is one of the table's. A kept value is copied, because its page will be released.
        unsafe {
            let value = attribute(slot, keys.sort.attribute);
            let rank = keys.rank(&self.column, value);
            let tid = (*slot).tts_tid;
            let place = pgrx::itemptr::item_pointer_get_both(tid);
            if let Some(filling) = &mut self.filling {
                filling.add(&KeptRow { rank, value: value.unwrap_or(pg_sys::Datum::null()), place });
                return;
            }
            let value = value.map_or(pg_sys::Datum::null(), |value| self.kept(value));
            self.rows.push(KeptRow { rank, value, place }, |one, other| keys.is_before(one, other));
            if self.rows.bytes() + self.bytes > memory::work_mem() {
                self.spill();
            }
        }
    }

    /// A copy of a value that is kept.
    ///
    /// # Safety
    /// A value of the column.
    #[inline]
    unsafe fn kept(&mut self, value: pg_sys::Datum) -> pg_sys::Datum {
        if self.keys.is_by_value {
            return value;
        }
        // SAFETY: as the caller promises; the context lives as long as the scan.
        unsafe {
            let before = pg_sys::MemoryContextSwitchTo(self.values);
            let copy = server::datumCopy(value, false, self.keys.len.into());
            pg_sys::MemoryContextSwitchTo(before);
            self.bytes += self.keys.size(copy);
            copy
        }
    }

    /// Moves all kept rows to a sort. If there was one before, its rows are moved, too, and the new one will have the
    /// rows of all ranges.
    ///
    /// # Safety
    /// As [`SortKeys::is_before`].
    unsafe fn spill(&mut self) {
        // SAFETY: all are rows of the scan.
        unsafe {
            let mut filling = Filling::begin(&self.keys, self.sorted.is_some());
            self.rows.take_all().iter().for_each(|row| filling.add(row));
            if let Some(mut sorted) = self.sorted.take() {
                while let Some(&row) = sorted.first() {
                    memory::check_for_interrupts();
                    filling.add(&row);
                    sorted.take(&self.keys, &self.column);
                }
                sorted.end();
            }
            self.filling = Some(filling);
            self.bytes = 0;
            pg_sys::MemoryContextReset(self.values);
        }
    }

    /// If rows go to a sort: reads what else must be read before the first of them can be returned, and sorts.
    ///
    /// # Safety
    /// As [`Ordered::next_row`].
    unsafe fn sort_rows(&mut self, reader: &mut RowReader<'_>) {
        // SAFETY: as the caller promises.
        unsafe {
            while let Some(filling) = &self.filling
                && let Some(first) = self.unread.first()
            {
                memory::check_for_interrupts();
                let is_enough =
                    filling.first().is_some_and(|row| self.keys.order.may_return(row, Some(first)));
                if is_enough && !filling.takes_all() {
                    break;
                }
                if let Some(next) = self.unread.take() {
                    self.read(reader, next);
                }
            }
            if let Some(filling) = self.filling.take() {
                self.sorted = Some(filling.sort(&self.keys, &self.column));
            }
        }
    }
}

/// Puts the row at a place into the node's slot.
///
/// # Safety
/// `node` is in an execution, and its snapshot sees the row.
unsafe fn fetch(node: *mut pg_sys::CustomScanState, (block, number): (u32, u16)) {
    // SAFETY: the table is open, and its slot is that of the node.
    unsafe {
        let table = (*node).ss.ss_currentRelation;
        let mut tid = pg_sys::ItemPointerData::default();
        pgrx::itemptr::item_pointer_set_all(&mut tid, block, number);
        let snapshot = (*(*node).ss.ps.state).es_snapshot;
        if !server::fetch_row(table, &mut tid, snapshot, (*node).ss.ss_ScanTupleSlot) {
            let code = PgSqlErrorCode::ERRCODE_INTERNAL_ERROR;
            let name = Rel::from_raw(table).name();
            let detail = "The scan has read this row before, and its snapshot still sees it.";
            let hint = "Check the table with amcheck: SELECT * FROM verify_heapam('table').";
            fail(
                code,
                format!("row ({block},{number}) of table \"{name}\" is missing"),
                Some(detail.into()),
                Some(hint.into()),
            )
        }
    }
}

/// Reports that the plan does not name the index whose bounds give the order. Without them, rows would be lost.
#[cold]
fn no_index() -> ! {
    let code = PgSqlErrorCode::ERRCODE_INTERNAL_ERROR;
    let message = "the index that gives the order of a Skip Index Scan is not open";
    fail(code, message.into(), Some("The plan does not name the index.".into()), None)
}
