//! How pages come to a Skip Index Scan: from a read stream (17 and later), or one by one, asked of the system ahead
//! (15, 16).

use crate::pg::memory;
use pgrx::pg_sys;
use skip_scan::blocks::Blocks;

/// Lets go of the page that the scan is on.
///
/// # Safety
/// A scan that has not ended.
pub unsafe fn release_page(scan: *mut pg_sys::HeapScanDescData) {
    // SAFETY: the scan's buffer is pinned by it, or none.
    unsafe {
        if (*scan).rs_cbuf != pg_sys::InvalidBuffer as pg_sys::Buffer {
            pg_sys::ReleaseBuffer((*scan).rs_cbuf);
            (*scan).rs_cbuf = pg_sys::InvalidBuffer as pg_sys::Buffer;
        }
        (*scan).rs_ntuples = 0;
    }
}

/// Blocks that are not asked for at most, after others were found in the cache.
#[cfg(any(feature = "pg15", feature = "pg16"))]
const MOST_UNASKED: u32 = 32;

/// The pages of the blocks that a [`Blocks`] gives.
#[cfg(any(feature = "pg15", feature = "pg16"))]
pub struct PageFeed {
    heap: pg_sys::Relation,
    blocks: *mut Blocks,
    /// Blocks that the system was asked for.
    ahead: std::collections::VecDeque<u32>,
    /// How many of them there may be: effective_io_concurrency.
    distance: usize,
    /// Blocks not to ask for before the next one: where one is cached, the others are likely to be, and asking costs
    /// half of reading then.
    unasked: u32,
    /// How many that were after the last one that was cached.
    pause: u32,
    is_over: bool,
}

#[cfg(any(feature = "pg15", feature = "pg16"))]
impl PageFeed {
    /// # Safety
    /// All three outlive the feed; only the feed uses `blocks.next_block`.
    pub unsafe fn begin(
        heap: pg_sys::Relation,
        _scan: *mut pg_sys::HeapScanDescData,
        blocks: *mut Blocks,
    ) -> Self {
        // SAFETY: an open relation.
        let distance = unsafe { pg_sys::get_tablespace_io_concurrency((*(*heap).rd_rel).reltablespace) };
        let distance = usize::try_from(distance).unwrap_or(0);
        Self { heap, blocks, ahead: Default::default(), distance, unasked: 0, pause: 0, is_over: false }
    }

    /// Asks the system for a block, unless blocks have lately been found in the cache.
    fn ask(&mut self, block: u32) {
        if self.unasked > 0 {
            self.unasked -= 1;
            return;
        }
        // SAFETY: an open relation.
        let found = unsafe { pg_sys::PrefetchBuffer(self.heap, pg_sys::ForkNumber::MAIN_FORKNUM, block) };
        let is_cached = found.recent_buffer != pg_sys::InvalidBuffer as pg_sys::Buffer;
        self.pause = if is_cached { (self.pause * 2).clamp(4, MOST_UNASKED) } else { 0 };
        self.unasked = self.pause;
    }

    /// Loads the next page into the scan: the visible rows of it are listed then. Returns its block, None at the end.
    ///
    /// # Safety
    /// The scan that the feed was begun for.
    pub unsafe fn next(&mut self, scan: *mut pg_sys::HeapScanDescData) -> Option<u32> {
        memory::check_for_interrupts();
        while !self.is_over && self.ahead.len() <= self.distance {
            // SAFETY: the node drops `blocks` after the feed, and nobody uses it while a page is asked for.
            match unsafe { (*self.blocks).next_block() } {
                // The block to be read right now is not worth asking for.
                Some(block) if self.ahead.is_empty() => self.ahead.push_back(block),
                Some(block) => {
                    self.ask(block);
                    self.ahead.push_back(block);
                }
                None => self.is_over = true,
            }
        }
        let block = self.ahead.pop_front()?;
        // SAFETY: a block below the size that the scan found when it began; the call lets go of the page before.
        unsafe { pg_sys::heapgetpage(scan.cast(), block) };
        Some(block)
    }

    /// Forgets what was asked for, after `blocks` was restarted.
    pub fn restart(&mut self) {
        self.ahead.clear();
        self.is_over = false;
    }

    /// There is nothing to let go of.
    pub fn end(self) {}
}

/// The pages of the blocks that a [`Blocks`] gives.
#[cfg(any(feature = "pg17", feature = "pg18"))]
pub struct PageFeed {
    stream: *mut pg_sys::ReadStream,
}

#[cfg(any(feature = "pg17", feature = "pg18"))]
impl PageFeed {
    /// # Safety
    /// All three outlive the feed; only the feed uses `blocks.next_block`.
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
        // SAFETY: the scan has the relation open, and the node drops `blocks` after it has ended the stream; nobody
        // else uses it while the stream asks for a block.
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

    /// Loads the next page into the scan: the visible rows of it are listed then. Returns its block, None at the end.
    ///
    /// # Safety
    /// The scan that the feed was begun for.
    pub unsafe fn next(&mut self, scan: *mut pg_sys::HeapScanDescData) -> Option<u32> {
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
            pg_sys::heap_prepare_pagescan(scan.cast());
            Some((*scan).rs_cblock)
        }
    }

    /// Forgets what was asked for, after `blocks` was restarted.
    pub fn restart(&mut self) {
        // SAFETY: a stream that has not ended.
        unsafe { pg_sys::read_stream_reset(self.stream) };
    }

    /// Lets go of the pages that were read ahead.
    pub fn end(self) {
        // SAFETY: begun in begin(), ended once, because this consumes it.
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
        // SAFETY: what PageFeed::begin was given; nobody else uses it during the call.
        unsafe { (*blocks.cast::<Blocks>()).next_block().unwrap_or(pg_sys::InvalidBlockNumber) }
    })
}
