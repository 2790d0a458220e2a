//! Reading the visible rows of chosen blocks of a table.
//!
//! The server's own page-at-a-time code does the work. It prunes the page, checks visibility once for the whole page
//! under its share lock, checks for serialization conflicts, and makes a list of visible rows. This file chooses the
//! pages and returns the rows. From PostgreSQL 17 on, pages come from a read stream; in 15 and 16 they are prefetched
//! one by one. [`crate::pg::compat::PageFeed`] hides the difference.
//!
//! A scan that reads more than a quarter of shared buffers uses a ring of buffers, as sequential scans do, so that it
//! does not evict pages that others use. A smaller scan leaves its pages in shared buffers for the next one, and so
//! does one in the order of a column, which comes back to its pages.
//!
//! A cursor may move back: [`Pages::turn`]. Pages are then read from the last to the first, and so are their rows. Each
//! page has the same visible rows whenever it is read, because the snapshot is the same.

use super::known_table::KnownTable;
use super::raw::{ROWS_AHEAD, RawTest};
use crate::pg::Rel;
use crate::pg::compat::{self, PageFeed};
use crate::pg::heap::LINE_POINTERS;
use crate::pg::server;
use pgrx::pg_sys;
use skip_scan::blocks::Blocks;

/// A scan of chosen blocks.
pub struct Pages {
    scan: *mut pg_sys::HeapScanDescData,
    feed: PageFeed,
    known: KnownTable,
    /// The page that the scan is on.
    page: *const u8,
    /// The block of the page; None before the first one and after the last one.
    block: Option<u32>,
    /// Visible rows of the page.
    count: usize,
    /// The row after the one that was returned last: its position among the visible rows. The next row to return, or,
    /// backward, the second one after it: so it is `count + 1` where the scan comes to a page from behind.
    next: usize,
    /// Rows are returned from the last to the first.
    is_backward: bool,
    /// Rows before this position were prefetched into the processor's cache.
    asked: usize,
}

impl Pages {
    /// Starts a scan of the blocks that `blocks` returns.
    ///
    /// # Safety
    /// `heap` is an open heap table, locked for reading, and `snapshot` an active snapshot; both, and `blocks`, outlive
    /// the scan. Only the scan uses `blocks.next_block`.
    pub unsafe fn begin(
        heap: Rel,
        snapshot: pg_sys::Snapshot,
        blocks: *mut Blocks,
        may_use_ring: bool,
    ) -> Self {
        // SAFETY: the node has its table open and locked to the query's end, and so has its EState the snapshot. It
        // drops `blocks` after it has ended the scan, or does not use the scan any more. Without a scan type in the
        // flags, the scan is not counted in the statistics, takes no predicate lock (the caller has taken it), and has
        // no read stream of its own.
        unsafe {
            let flags = pg_sys::ScanOptions::SO_ALLOW_PAGEMODE;
            let none = std::ptr::null_mut();
            let scan = pg_sys::heap_beginscan(heap.raw(), snapshot, 0, std::ptr::null_mut(), none, flags)
                .cast::<pg_sys::HeapScanDescData>();
            (*scan).rs_ctup.t_tableOid = heap.oid();
            let most = u64::try_from(pg_sys::NBuffers / 4).unwrap_or(0);
            if may_use_ring && (*blocks).count() > most && !heap.is_temporary() {
                let kind = pg_sys::BufferAccessStrategyType::BAS_BULKREAD;
                (*scan).rs_strategy = pg_sys::GetAccessStrategy(kind);
            }
            let feed = PageFeed::begin(heap.raw(), scan, blocks);
            Self {
                scan,
                feed,
                known: KnownTable::of(heap, (*blocks).count()),
                page: std::ptr::null(),
                block: None,
                count: 0,
                next: 0,
                is_backward: false,
                asked: 0,
            }
        }
    }

    /// Starts over, after `blocks` was restarted.
    pub fn restart(&mut self) {
        // SAFETY: the scan has not ended.
        unsafe {
            self.feed.restart();
            compat::release_page(self.scan);
        }
        (self.next, self.count, self.asked) = (0, 0, 0);
        (self.block, self.is_backward) = (None, false);
    }

    /// Whether rows are returned from the last to the first.
    pub fn is_backward(&self) -> bool {
        self.is_backward
    }

    /// The block that the scan is on; None before the first one and after the last one.
    pub fn block(&self) -> Option<u32> {
        self.block
    }

    /// Changes the direction, at the row that was returned last, after `blocks` was turned at the block that the scan
    /// is on.
    pub fn turn(&mut self) {
        self.is_backward = !self.is_backward;
        self.asked = self.next;
        // The page stays.
        self.feed.restart();
    }

    /// Moves to the next page and returns its block; None after the last one. If no tuple on the page passes `test`,
    /// the page has no rows; the number of those that look live by their hint bits is added to `failed`. Else the rows
    /// before the first that may pass are left out, and counted.
    ///
    /// Nothing is then asked of the visibility of the page's tuples, which takes most of the time of a page. An index
    /// scan does not look at tuples that the index does not name either: a serializable transaction, which has locked
    /// the whole table by now, need not know of conflicts with the writers of other tuples. A tuple that comes to the
    /// page later is not visible to the snapshot, whatever its offset number. Pruning moves rows within their page, but
    /// they keep their offset numbers.
    ///
    /// # Safety
    /// The test is made for the table.
    pub unsafe fn next_page(&mut self, test: Option<&RawTest>, failed: &mut u64) -> Option<u32> {
        // SAFETY: the scan has not ended, and the page is locked when it is looked at.
        unsafe {
            let known = &mut self.known;
            let mut first = 0;
            let mut may_hold = |page| match test.map(|test| known.rules_out(test, page)) {
                Some(Ok(rows)) => {
                    *failed += rows;
                    false
                }
                Some(Err(number)) => {
                    first = number;
                    true
                }
                None => true,
            };
            let look = test.map(|_| &mut may_hold as &mut dyn FnMut(_) -> _);
            self.block = self.feed.next(self.scan, look);
            self.known.remember();
            (self.next, self.count, self.asked) = (0, 0, 0);
            if self.block.is_some() {
                self.page = pg_sys::BufferGetPage((*self.scan).rs_cbuf).cast();
                self.count = usize::try_from((*self.scan).rs_ntuples).unwrap_or(0);
            }
            if self.is_backward {
                self.next = self.count + 1;
            } else if first > 1 {
                self.next = self.rows_before(first);
                self.asked = self.next;
                *failed += self.next as u64;
            }
            self.block
        }
    }

    /// The number of visible rows of the page with smaller offset numbers.
    ///
    /// # Safety
    /// The scan is on a page.
    unsafe fn rows_before(&self, number: u16) -> usize {
        // SAFETY: as the caller promises. The list has ascending numbers, as they are on the page.
        let listed = unsafe { &(&(*self.scan).rs_vistuples)[..self.count] };
        listed.partition_point(|&listed| listed < number)
    }

    /// Puts the page's next row in the direction of the scan into the slot, as [`Pages::next_row`].
    ///
    /// # Safety
    /// As [`Pages::next_row`].
    #[inline]
    pub unsafe fn step(
        &mut self,
        slot: *mut pg_sys::TupleTableSlot,
        test: Option<&RawTest>,
        failed: &mut u64,
    ) -> bool {
        // SAFETY: as the caller promises.
        unsafe {
            if self.is_backward {
                self.previous_row(slot, test, failed)
            } else {
                self.next_row(slot, test, failed)
            }
        }
    }

    /// Puts the page's next visible row that may pass `test` into the slot; false after the last one. Adds the number
    /// of rows that do not pass to `failed`.
    ///
    /// # Safety
    /// `slot` is a slot for tuples in buffers, with the table's descriptor; the test is made for the table.
    #[inline]
    pub unsafe fn next_row(
        &mut self,
        slot: *mut pg_sys::TupleTableSlot,
        test: Option<&RawTest>,
        failed: &mut u64,
    ) -> bool {
        if let Some(test) = test {
            // SAFETY: as for the row below.
            let may_hold = |pages: &mut Self| unsafe {
                while pages.asked < pages.count.min(pages.next + ROWS_AHEAD) {
                    test.prefetch(pages.row(pages.asked).0);
                    pages.asked += 1;
                }
                let (row, len) = pages.row(pages.next);
                test.may_hold(row, len)
            };
            while self.next < self.count && !may_hold(self) {
                self.next += 1;
                *failed += 1;
            }
        }
        if self.next >= self.count {
            return false;
        }
        self.next += 1;
        // SAFETY: as the caller promises; the row is one of the page.
        unsafe { self.store(self.next - 1, slot) }
        true
    }

    /// The same backward: puts the visible row into the slot that comes before the one returned last.
    ///
    /// # Safety
    /// As [`Pages::next_row`].
    unsafe fn previous_row(
        &mut self,
        slot: *mut pg_sys::TupleTableSlot,
        test: Option<&RawTest>,
        failed: &mut u64,
    ) -> bool {
        while self.next > 1 {
            self.next -= 1;
            let place = self.next - 1;
            // SAFETY: as in next_row.
            unsafe {
                let (row, len) = self.row(place);
                if test.is_none_or(|test| test.may_hold(row, len)) {
                    self.store(place, slot);
                    return true;
                }
            }
            *failed += 1;
        }
        self.next = 0;
        false
    }

    /// Puts a visible row of the page into the slot.
    ///
    /// # Safety
    /// As [`Pages::next_row`], for a place below the number of visible rows.
    #[inline]
    unsafe fn store(&mut self, place: usize, slot: *mut pg_sys::TupleTableSlot) {
        // SAFETY: the page is pinned as long as the scan stays on it, and the list holds normal items of the page.
        // Items are not removed from a pinned page.
        unsafe {
            let scan = &mut *self.scan;
            let (row, len) = self.row(place);
            let offset = scan.rs_vistuples[place];
            scan.rs_ctup.t_data = row.cast_mut().cast();
            scan.rs_ctup.t_len = len as u32;
            pgrx::itemptr::item_pointer_set_all(&mut scan.rs_ctup.t_self, scan.rs_cblock, offset);
            server::unguarded::ExecStoreBufferHeapTuple(&mut scan.rs_ctup, slot, scan.rs_cbuf);
        }
    }

    /// Address and length of a visible row of the page.
    ///
    /// # Safety
    /// `place` is below the number of visible rows.
    #[inline]
    unsafe fn row(&self, place: usize) -> (*const u8, usize) {
        // SAFETY: the list holds normal items of the page, which is pinned.
        unsafe {
            let offset = (&(*self.scan).rs_vistuples)[place];
            let item = self.page.add(LINE_POINTERS + 4 * (usize::from(offset) - 1)).cast::<u32>().read();
            (self.page.add(item as usize & 0x7FFF), (item >> 17) as usize)
        }
    }

    /// Ends the scan. (Drop does not do that: after an error, the abort of the transaction releases everything.)
    pub fn end(self) {
        self.feed.end();
        // SAFETY: begun in begin(), and ended only once, because this consumes the scan.
        unsafe { pg_sys::heap_endscan(self.scan.cast()) }
    }
}
