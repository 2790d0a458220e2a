//! The source of pages of a Skip Index Scan: a read stream (17 and later), or single reads with prefetching by
//! PrefetchBuffer (15 and 16).

use crate::pg::heap::HeapPage;
use crate::pg::memory;
#[cfg(any(feature = "pg15", feature = "pg16"))]
use crate::pg::{compat::old_snapshot::may_lose_rows, server};
use pgrx::pg_sys;
use skip_scan::blocks::Blocks;

/// Releases the page that the scan is on.
///
/// # Safety
/// The scan has not ended.
pub unsafe fn release_page(scan: *mut pg_sys::HeapScanDescData) {
    // SAFETY: `rs_cbuf` is a buffer that the scan has pinned, or invalid.
    unsafe {
        if (*scan).rs_cbuf != pg_sys::InvalidBuffer as pg_sys::Buffer {
            pg_sys::ReleaseBuffer((*scan).rs_cbuf);
            (*scan).rs_cbuf = pg_sys::InvalidBuffer as pg_sys::Buffer;
        }
        (*scan).rs_ntuples = 0;
    }
}

/// Whether a page may have rows that are wanted.
pub type Look<'a> = &'a mut dyn FnMut(HeapPage) -> bool;

/// Asks that under the page's share lock.
///
/// # Safety
/// The buffer is pinned.
unsafe fn may_have_rows(buffer: pg_sys::Buffer, look: Look<'_>) -> bool {
    // SAFETY: as the caller promises; locked while it is looked at.
    unsafe {
        unguarded::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
        let may = look(HeapPage::of(buffer));
        unguarded::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
        may
    }
}

mod unguarded {
    // SAFETY: the signature of bufmgr.h in every supported version. It raises an error only for an unknown mode.
    unsafe extern "C-unwind" {
        pub fn LockBuffer(buffer: pgrx::pg_sys::Buffer, mode: std::ffi::c_int);
    }
}

/// The most consecutive blocks that are not prefetched after cached blocks were found. The pause doubles from 4 to this
/// number.
#[cfg(any(feature = "pg15", feature = "pg16"))]
const MOST_UNASKED: u32 = 32;

/// The pages of the blocks that a [`Blocks`] returns.
#[cfg(any(feature = "pg15", feature = "pg16"))]
pub struct PageFeed {
    heap: pg_sys::Relation,
    blocks: *mut Blocks,
    /// Blocks from `blocks` that were not read yet.
    ahead: std::collections::VecDeque<u32>,
    /// The most blocks in `ahead`: effective_io_concurrency of the tablespace.
    distance: usize,
    /// Blocks to skip before the next prefetch. Where one block is cached, the following ones probably are, and
    /// PrefetchBuffer costs half as much as reading a cached block.
    unasked: u32,
    /// The value of `unasked` after the last prefetch: above 0 if that block was cached.
    pause: u32,
    is_over: bool,
}

#[cfg(any(feature = "pg15", feature = "pg16"))]
impl PageFeed {
    /// # Safety
    /// All three arguments outlive the feed; only the feed uses `blocks.next_block`.
    pub unsafe fn begin(
        heap: pg_sys::Relation,
        _scan: *mut pg_sys::HeapScanDescData,
        blocks: *mut Blocks,
    ) -> Self {
        // SAFETY: the relation is open.
        let distance = unsafe { pg_sys::get_tablespace_io_concurrency((*(*heap).rd_rel).reltablespace) };
        let distance = usize::try_from(distance).unwrap_or(0);
        Self { heap, blocks, ahead: Default::default(), distance, unasked: 0, pause: 0, is_over: false }
    }

    /// Prefetches a block, unless recent blocks were cached.
    fn ask(&mut self, block: u32) {
        if self.unasked > 0 {
            self.unasked -= 1;
            return;
        }
        // SAFETY: the relation is open.
        let found = unsafe { pg_sys::PrefetchBuffer(self.heap, pg_sys::ForkNumber::MAIN_FORKNUM, block) };
        let is_cached = found.recent_buffer != pg_sys::InvalidBuffer as pg_sys::Buffer;
        self.pause = if is_cached { (self.pause * 2).clamp(4, MOST_UNASKED) } else { 0 };
        self.unasked = self.pause;
    }

    /// Loads the next page into the scan, which lists the visible rows of the page: none if `look` says so. Returns its
    /// block, None at the end.
    ///
    /// # Safety
    /// `scan` is the scan that the feed was begun for.
    pub unsafe fn next(
        &mut self,
        scan: *mut pg_sys::HeapScanDescData,
        look: Option<Look<'_>>,
    ) -> Option<u32> {
        memory::check_for_interrupts();
        while !self.is_over && self.ahead.len() <= self.distance {
            // SAFETY: the node drops `blocks` after the feed, and nothing else uses it during this call.
            match unsafe { (*self.blocks).next_block() } {
                // This block is read right now, so it need not be prefetched.
                Some(block) if self.ahead.is_empty() => self.ahead.push_back(block),
                Some(block) => {
                    self.ask(block);
                    self.ahead.push_back(block);
                }
                None => self.is_over = true,
            }
        }
        let block = self.ahead.pop_front()?;
        // SAFETY: the block is below the size that the scan found when it began. heapgetpage() releases the page that
        // the scan is on.
        unsafe {
            // The server's own function raises an error for a snapshot that is too old.
            if let Some(look) = look.filter(|_| !may_lose_rows()) {
                release_page(scan);
                let (main, normal) = (pg_sys::ForkNumber::MAIN_FORKNUM, pg_sys::ReadBufferMode::RBM_NORMAL);
                let buffer = server::ReadBufferExtended(self.heap, main, block, normal, (*scan).rs_strategy);
                if !may_have_rows(buffer, look) {
                    (*scan).rs_cbuf = buffer;
                    (*scan).rs_cblock = block;
                    return Some(block);
                }
                // heapgetpage() prunes no page that is pinned twice.
                pg_sys::heap_page_prune_opt(self.heap, buffer);
                pg_sys::heapgetpage(scan.cast(), block);
                pg_sys::ReleaseBuffer(buffer);
                count_once(self.heap);
                return Some(block);
            }
            pg_sys::heapgetpage(scan.cast(), block);
        }
        Some(block)
    }

    /// Forgets the blocks that were prefetched, after `blocks` was restarted.
    pub fn restart(&mut self) {
        self.ahead.clear();
        self.is_over = false;
    }

    /// There is nothing to release.
    pub fn end(self) {}
}

/// Takes back that a page was counted a second time, as found in its buffer: for EXPLAIN, and in the statistics of the
/// table. (The cluster's statistics of I/O, which 16 has, count it twice.)
///
/// # Safety
/// The relation is open.
#[cfg(any(feature = "pg15", feature = "pg16"))]
unsafe fn count_once(heap: pg_sys::Relation) {
    let usage = &raw mut pg_sys::pgBufferUsage;
    // SAFETY: as the caller promises. `pgstat_info` is the relation's entry of the statistics, or null.
    unsafe {
        if (*(*heap).rd_rel).relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP {
            (*usage).local_blks_hit -= 1;
        } else {
            (*usage).shared_blks_hit -= 1;
        }
        let Some(info) = (*heap).pgstat_info.as_mut() else { return };
        #[cfg(feature = "pg15")]
        let (fetched, hit) = (&mut info.t_counts.t_blocks_fetched, &mut info.t_counts.t_blocks_hit);
        #[cfg(feature = "pg16")]
        let (fetched, hit) = (&mut info.counts.blocks_fetched, &mut info.counts.blocks_hit);
        *fetched -= 1;
        *hit -= 1;
    }
}

/// The pages of the blocks that a [`Blocks`] returns.
#[cfg(any(feature = "pg17", feature = "pg18"))]
pub struct PageFeed {
    stream: *mut pg_sys::ReadStream,
}

#[cfg(any(feature = "pg17", feature = "pg18"))]
impl PageFeed {
    /// # Safety
    /// All three arguments outlive the feed; only the feed uses `blocks.next_block`.
    pub unsafe fn begin(
        heap: pg_sys::Relation,
        scan: *mut pg_sys::HeapScanDescData,
        blocks: *mut Blocks,
    ) -> Self {
        #[cfg(feature = "pg17")]
        let flags = pg_sys::READ_STREAM_DEFAULT;
        // The callback takes no lock and reads no page.
        #[cfg(feature = "pg18")]
        let flags = pg_sys::READ_STREAM_DEFAULT | pg_sys::READ_STREAM_USE_BATCHING;
        // SAFETY: the scan has the relation open. The node drops `blocks` after it has ended the stream; nothing else
        // uses it while the stream requests a block.
        let stream = unsafe {
            pg_sys::read_stream_begin_relation(
                flags as i32,
                (*scan).rs_strategy,
                heap,
                pg_sys::ForkNumber::MAIN_FORKNUM,
                Some(next_block),
                blocks.cast(),
                0,
            )
        };
        Self { stream }
    }

    /// Loads the next page into the scan, which lists the visible rows of the page: none if `look` says so. Returns its
    /// block, None at the end.
    ///
    /// # Safety
    /// `scan` is the scan that the feed was begun for.
    pub unsafe fn next(
        &mut self,
        scan: *mut pg_sys::HeapScanDescData,
        look: Option<Look<'_>>,
    ) -> Option<u32> {
        memory::check_for_interrupts();
        // SAFETY: the scan takes over the pin on the buffer.
        unsafe {
            release_page(scan);
            let buffer = pg_sys::read_stream_next_buffer(self.stream, std::ptr::null_mut());
            if buffer == pg_sys::InvalidBuffer as pg_sys::Buffer {
                return None;
            }
            (*scan).rs_cbuf = buffer;
            (*scan).rs_cblock = pg_sys::BufferGetBlockNumber(buffer);
            if look.is_none_or(|look| may_have_rows(buffer, look)) {
                pg_sys::heap_prepare_pagescan(scan.cast());
            }
            Some((*scan).rs_cblock)
        }
    }

    /// Forgets the blocks that were read ahead, after `blocks` was restarted.
    pub fn restart(&mut self) {
        // SAFETY: the stream has not ended.
        unsafe { pg_sys::read_stream_reset(self.stream) };
    }

    /// Releases the pages that were read ahead.
    pub fn end(self) {
        // SAFETY: begun in begin(), and ended only once, because this consumes the feed.
        unsafe { pg_sys::read_stream_end(self.stream) };
    }
}

/// The read stream's callback.
#[cfg(any(feature = "pg17", feature = "pg18"))]
unsafe extern "C-unwind" fn next_block(
    _stream: *mut pg_sys::ReadStream,
    blocks: *mut std::ffi::c_void,
    _per_buffer: *mut std::ffi::c_void,
) -> pg_sys::BlockNumber {
    crate::pg::boundary::callback(|| {
        // SAFETY: the pointer that PageFeed::begin got; nothing else uses the blocks during the call.
        unsafe { (*blocks.cast::<Blocks>()).next_block().unwrap_or(pg_sys::InvalidBlockNumber) }
    })
}
