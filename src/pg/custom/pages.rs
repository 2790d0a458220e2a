//! Reading the visible rows of chosen blocks of a table.
//!
//! The server's own page-at-a-time machinery does the work: it prunes, checks visibility once for a whole page under
//! its share lock, checks for serialization conflicts, and leaves a list of visible rows behind. Here pages are chosen
//! and rows handed out. From PostgreSQL 17 on pages come from a read stream, before that they are asked of the system
//! ahead; [`crate::pg::compat::PageFeed`] is either.
//!
//! A scan that reads more than a quarter of shared buffers takes a ring of buffers, as sequential scans do: it does not
//! wash out what others use. A scan of fewer blocks leaves them in shared buffers for the next one.

use super::raw::RawTest;
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
    /// The page that the scan is on.
    page: *const u8,
    /// The row to hand out next, by its place among the visible ones of the page.
    next: usize,
    count: usize,
    /// Rows before this place were asked of memory.
    asked: usize,
}

/// Rows that are asked of memory ahead of the one being tested. The rows of a page lie on cache lines of their own, and
/// waiting for each was a sixth of a lookup's time; some ten loads can be under way in a processor at once.
const ROWS_AHEAD: usize = 12;

impl Pages {
    /// Starts a scan; `blocks` says which blocks.
    ///
    /// # Safety
    /// `heap` is an open heap table, locked for reading, and `snapshot` an active snapshot; both, and `blocks`, outlive
    /// the scan. Only the scan uses `blocks.next_block`.
    pub unsafe fn begin(heap: Rel, snapshot: pg_sys::Snapshot, blocks: *mut Blocks) -> Self {
        // SAFETY: the node has its table open and locked, and its EState the snapshot, to the query's end; it drops
        // `blocks` after it has ended the scan, or never asks the scan again. Without a scan type in the flags, the
        // scan counts as nothing in the statistics, takes no predicate lock (the caller has), and has no read stream of
        // its own.
        unsafe {
            let flags = pg_sys::ScanOptions::SO_ALLOW_PAGEMODE;
            let none = std::ptr::null_mut();
            let scan = pg_sys::heap_beginscan(heap.raw(), snapshot, 0, std::ptr::null_mut(), none, flags)
                .cast::<pg_sys::HeapScanDescData>();
            (*scan).rs_ctup.t_tableOid = heap.oid();
            if (*blocks).count() > u64::try_from(pg_sys::NBuffers / 4).unwrap_or(0) && !heap.is_temporary() {
                let kind = pg_sys::BufferAccessStrategyType::BAS_BULKREAD;
                (*scan).rs_strategy = pg_sys::GetAccessStrategy(kind);
            }
            let feed = PageFeed::begin(heap.raw(), scan, blocks);
            Self { scan, feed, page: std::ptr::null(), next: 0, count: 0, asked: 0 }
        }
    }

    /// Starts over, after `blocks` was restarted.
    pub fn restart(&mut self) {
        // SAFETY: a scan that has not ended.
        unsafe {
            self.feed.restart();
            compat::release_page(self.scan);
        }
        (self.next, self.count, self.asked) = (0, 0, 0);
    }

    /// Goes on to the next page and returns its block; None after the last one.
    pub fn next_page(&mut self) -> Option<u32> {
        // SAFETY: a scan that has not ended.
        unsafe {
            let block = self.feed.next(self.scan)?;
            (self.next, self.asked) = (0, 0);
            self.page = pg_sys::BufferGetPage((*self.scan).rs_cbuf).cast();
            self.count = usize::try_from((*self.scan).rs_ntuples).unwrap_or(0);
            Some(block)
        }
    }

    /// Puts the page's next visible row that may pass `test` into the slot; false after the last one. Counts those that
    /// do not pass.
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
        // SAFETY: the page is pinned as long as the scan stays on it, and the list holds normal items of it: nobody
        // takes them away while it is pinned.
        unsafe {
            let scan = &mut *self.scan;
            let (row, len) = self.row(self.next);
            let offset = scan.rs_vistuples[self.next];
            self.next += 1;
            scan.rs_ctup.t_data = row.cast_mut().cast();
            scan.rs_ctup.t_len = len as u32;
            pgrx::itemptr::item_pointer_set_all(&mut scan.rs_ctup.t_self, scan.rs_cblock, offset);
            server::unguarded::ExecStoreBufferHeapTuple(&mut scan.rs_ctup, slot, scan.rs_cbuf);
        }
        true
    }

    /// Where a visible row of the page lies, and how long it is.
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

    /// Ends the scan. (Dropping does not: after an error, the abort of the transaction lets go of all that it has.)
    pub fn end(self) {
        self.feed.end();
        // SAFETY: begun in begin(), ended once, because this consumes it.
        unsafe { pg_sys::heap_endscan(self.scan.cast()) }
    }
}
