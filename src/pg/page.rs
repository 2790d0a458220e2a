//! Buffers of an index: guards for pins and content locks, and new blocks.

use super::{Damage, Rel, cache, compat, error::IndexResult, lock::ExtensionLock, server};
use pgrx::pg_sys;
use skip_segment::page::{PAGE, PAYLOAD_END, PAYLOAD_START, PageBytes, PageKind, PageView, stored_checksum};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const _: () = assert!(pg_sys::BLCKSZ as usize == PAGE, "pg_skip supports a block size of 8192 bytes");

/// Functions that cannot raise an error, called without pgrx's guard around each call: aminsert reads the meta page
/// once a row, and a guard costs as much as the content lock.
mod unguarded {
    use pgrx::pg_sys::Buffer;
    // SAFETY: the signatures of bufmgr.h in every supported version. LockBuffer raises an error only for an unknown
    // mode, the others never.
    unsafe extern "C-unwind" {
        pub fn LockBuffer(buffer: Buffer, mode: std::ffi::c_int);
        pub fn UnlockReleaseBuffer(buffer: Buffer);
        pub fn ReleaseBuffer(buffer: Buffer);
    }
}

/// The buffer in which the meta page of the last used index was found, in the low half; its relation file number is in
/// the high half. Only a hint, which saves the lookup in the buffer table: the server checks that the buffer still
/// holds that page.
static RECENT_META: AtomicU64 = AtomicU64::new(0);

/// Pages that this process has read from skip indexes.
static PAGES_READ: AtomicU64 = AtomicU64::new(0);

/// Counts a page that was read.
pub fn count_page() {
    // The process has one thread, so no atomic addition is needed.
    PAGES_READ.store(PAGES_READ.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Number of pages of skip indexes that this process has read since it started. The server counts the same number of
/// buffers.
pub fn pages_read() -> u64 {
    PAGES_READ.load(Ordering::Relaxed)
}

/// A pinned, locked buffer.
struct Locked(pg_sys::Buffer);

impl Locked {
    /// Locks a pinned buffer, and takes over its pin.
    fn new(buffer: pg_sys::Buffer, lock: u32) -> Self {
        // SAFETY: the buffer is pinned, and the mode is one of bufmgr.h's.
        unsafe { unguarded::LockBuffer(buffer, lock as i32) };
        Self(buffer)
    }

    /// Pins a block, without an error of the server for an invalid page. If the server finds a page invalid when it
    /// reads it from disk (its header, or with data checksums any bit), it raises a WARNING and fills the buffer with
    /// zeros; the page on disk does not change. The caller's own check finds the zeros. So planning can continue
    /// without the index, and the error that ends a query tells what to do. No code takes a page of zeros for an
    /// answer, because a lost write leaves one, too.
    fn pin(rel: Rel, block: u32) -> pg_sys::Buffer {
        // SAFETY: rel is open; ReadBufferExtended raises an error for a missing block.
        unsafe {
            server::ReadBufferExtended(
                rel.raw(),
                pg_sys::ForkNumber::MAIN_FORKNUM,
                block,
                pg_sys::ReadBufferMode::RBM_ZERO_ON_ERROR,
                std::ptr::null_mut(),
            )
        }
    }

    /// Pins block 0, by the hint if that is still right. Only for [`peek_meta`]: no value with a destructor may be
    /// alive in the callers.
    fn pin_meta(rel: Rel) -> IndexResult<pg_sys::Buffer> {
        if rel.is_temporary() {
            check_not_empty(rel)?;
            return Ok(Self::pin(rel, 0)); // another table may have the same file number
        }
        let number = rel.file_number();
        let hint = RECENT_META.load(Ordering::Relaxed);
        let recent = hint as u32 as pg_sys::Buffer;
        if (hint >> 32) as u32 == number && recent != 0 {
            // SAFETY: a buffer number that this backend has got before.
            let pinned = unsafe { compat::pin_recent(rel.raw(), 0, recent) };
            if pinned {
                return Ok(recent);
            }
        }
        check_not_empty(rel)?;
        let buffer = Self::pin(rel, 0);
        RECENT_META.store(u64::from(number) << 32 | u64::from(buffer as u32), Ordering::Relaxed);
        Ok(buffer)
    }

    fn bytes(&self) -> &PageBytes {
        // SAFETY: a pinned buffer's page is PAGE bytes. Under a content lock, shared or exclusive, no other process
        // changes it, except for hint bits and LSNs, which these index pages do not get under a share lock.
        unsafe { &*pg_sys::BufferGetPage(self.0).cast::<PageBytes>() }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: pinned and locked in the constructor.
            unsafe { unguarded::UnlockReleaseBuffer(self.0) }
        }
    }
}

/// Reads words of the meta page's payload under a pin, without its content lock. `places` are payload offsets,
/// multiples of 4. The page is not checked, and words may change between two reads. Each word is read completely,
/// because pages are changed word by word ([`super::wal`]).
///
/// The loads are relaxed, also on processors that reorder loads (ARM). A load orders nothing here, and need not. The
/// values that it may return depend on what happened before it; the caller ensures that order by a lock
/// ([`crate::pages::peeked_meta::PeekedMeta`]). Pinning the buffer changes its header atomically, so a page that was
/// just read from disk is visible.
///
/// # Errors
/// Damage: the index has no pages.
pub fn peek_meta<const N: usize>(rel: Rel, places: [usize; N]) -> IndexResult<[u32; N]> {
    let buffer = Locked::pin_meta(rel)?;
    // SAFETY: pinned, and the pin given back once.
    unsafe {
        let words = words(buffer, places);
        unpin(buffer);
        Ok(words)
    }
}

/// The words of [`peek_meta`] in a buffer.
///
/// # Safety
/// The buffer is pinned.
#[inline]
pub(super) unsafe fn words<const N: usize>(buffer: pg_sys::Buffer, places: [usize; N]) -> [u32; N] {
    // SAFETY: the page of a pinned buffer does not move; pages are aligned.
    let words = unsafe { pg_sys::BufferGetPage(buffer).cast::<u32>() };
    places.map(|at| {
        let word = ((PAYLOAD_START + at) / 4).min(PAGE / 4 - 1);
        // SAFETY: inside the page; concurrent writers store whole words.
        unsafe { AtomicU32::from_ptr(words.add(word)) }.load(Ordering::Relaxed)
    })
}

/// Pins the meta page, for [`words`].
///
/// # Errors
/// Damage: the index has no pages.
pub(super) fn pin_meta(rel: Rel) -> IndexResult<pg_sys::Buffer> {
    check_not_empty(rel)?;
    Ok(Locked::pin(rel, 0))
}

/// Gives a pin back.
///
/// # Safety
/// The current resource owner has a pin of the buffer.
pub(super) unsafe fn unpin(buffer: pg_sys::Buffer) {
    // SAFETY: as the caller promises.
    unsafe { unguarded::ReleaseBuffer(buffer) }
}

/// Whether a block still has this stored checksum, and so the same content. As [`peek_checksum`], which says what the
/// checksum tells. Counts as a page that was read.
pub fn has_checksum(rel: Rel, block: u32, checksum: u64) -> bool {
    count_page();
    let buffer = Locked::pin(rel, block);
    // SAFETY: pinned above, and given back once.
    unsafe { checksum_and_unpin(buffer) == checksum }
}

/// The stored checksum of a block, and the buffer that it was found in, read without its content lock and without
/// verifying the checksum. It identifies the content: the probability that another content has the same is 2^-64. While
/// another process changes the page, parts of the old and of the new checksum may be found: together they are either
/// one of the two, or that of no content. Changes that were complete when the caller's snapshot was taken are seen.
///
/// # Errors
/// Damage: the index has no pages.
pub fn peek_checksum(rel: Rel, block: u32) -> IndexResult<(u64, Option<Recent>)> {
    check_not_empty(rel)?;
    let buffer = Locked::pin(rel, block);
    // SAFETY: pinned above, and given back once.
    let checksum = unsafe { checksum_and_unpin(buffer) };
    // SAFETY: rel is open.
    let file = unsafe { compat::locator(rel.raw()) };
    // A temporary table may have the same file number as another table.
    Ok((checksum, (!rel.is_temporary()).then_some(Recent { file, block, buffer })))
}

/// # Safety
/// The buffer is pinned once by this function's caller, who does not use it any more.
unsafe fn checksum_and_unpin(buffer: pg_sys::Buffer) -> u64 {
    // SAFETY: the page of a pinned buffer does not move; pages are aligned.
    let words = unsafe { pg_sys::BufferGetPage(buffer).cast::<u32>() };
    let word = |at: usize| {
        // SAFETY: inside the page; concurrent writers store whole words.
        u64::from(unsafe { AtomicU32::from_ptr(words.add(at / 4)) }.load(Ordering::Relaxed))
    };
    let checksum = word(PAYLOAD_END) | word(PAYLOAD_END + 4) << 32;
    // SAFETY: as the caller promises.
    unsafe { unguarded::ReleaseBuffer(buffer) };
    checksum
}

/// A buffer in which a page was found. If the page is still there, neither the relation nor the buffer table nor the
/// file is needed to read it. A table with thousands of partitions has more files than a process may have open, so that
/// accessing a file means opening it.
#[derive(Clone, Copy)]
pub struct Recent {
    file: compat::Locator,
    block: u32,
    buffer: pg_sys::Buffer,
}

impl Recent {
    /// Whether the index still has the file of the page.
    pub fn is_of(&self, rel: Rel) -> bool {
        // SAFETY: rel is open.
        compat::are_same_files(&self.file, &unsafe { compat::locator(rel.raw()) })
    }

    /// As [`peek_checksum`]; None if the buffer holds another page by now.
    pub fn checksum(&self) -> Option<u64> {
        // SAFETY: a buffer number that this backend has got before. The server checks which page is in the buffer.
        let is_there = unsafe { compat::pin_recent_guarded(self.file, self.block, self.buffer) };
        // SAFETY: pinned just now.
        is_there.then(|| unsafe { checksum_and_unpin(self.buffer) })
    }
}

/// A pinned page: it stays in its buffer, but its content may change.
pub struct PinnedPage {
    buffer: pg_sys::Buffer,
    block: u32,
    salt: u64,
}

impl PinnedPage {
    /// Pins a block of the main fork.
    pub fn read(rel: Rel, block: u32) -> Self {
        count_page();
        Self { buffer: Locked::pin(rel, block), block, salt: rel.salt_of(block) }
    }

    /// Prefetches the bytes that [`SharedPage::any_view_of`] reads for the same part of the payload into the
    /// processor's cache.
    pub fn prefetch(&self, part: Range<usize>) {
        // SAFETY: the page of a pinned buffer does not move.
        let page = unsafe { pg_sys::BufferGetPage(self.buffer).cast::<u8>().cast_const() };
        cache::prefetch_line(page);
        PageView::bytes_checked(part).for_each(|at| cache::prefetch_line(page.wrapping_add(at)));
    }

    /// Locks the page for reading.
    pub fn lock(self) -> SharedPage {
        let Self { buffer, block, salt } = self;
        std::mem::forget(self); // the lock takes over the pin
        SharedPage { locked: Locked::new(buffer, pg_sys::BUFFER_LOCK_SHARE), block, salt }
    }
}

impl Drop for PinnedPage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: pinned in the constructor. After an ERROR the server's abort releases the pin.
            unsafe { unguarded::ReleaseBuffer(self.buffer) }
        }
    }
}

/// A page under a share lock. No slow work may be done while it is held.
pub struct SharedPage {
    locked: Locked,
    block: u32,
    salt: u64,
}

impl SharedPage {
    /// Pins and locks a block of the main fork.
    pub fn read(rel: Rel, block: u32) -> Self {
        PinnedPage::read(rel, block).lock()
    }

    /// The checksum that the page carries.
    pub fn stored_checksum(&self) -> u64 {
        stored_checksum(self.locked.bytes())
    }

    /// The payload of a page that is not checked.
    pub fn unchecked_payload(&self) -> &[u8] {
        &self.locked.bytes()[PAYLOAD_START..PAYLOAD_END]
    }

    /// The page, checked.
    ///
    /// # Errors
    /// Damage that [`PageView::check`] finds, or a page of another kind.
    pub fn view(&self, kind: PageKind) -> IndexResult<PageView<'_>> {
        PageView::check_kind(self.locked.bytes(), self.block, self.salt, kind)
            .map_err(|what| Damage::new(self.block, what))
    }

    /// The page, checked, of any kind; None for a page that was never written (a crash can leave one).
    ///
    /// # Errors
    /// Damage that [`PageView::check`] finds.
    pub fn any_view(&self) -> IndexResult<Option<PageView<'_>>> {
        self.any_view_of(0..PAYLOAD_END - PAYLOAD_START)
    }

    /// As [`SharedPage::any_view`], but only the check that covers these bytes of the payload is done
    /// ([`PageView::check_part`]). The caller must not use other bytes.
    ///
    /// # Errors
    /// Damage that [`PageView::check_part`] finds.
    pub fn any_view_of(&self, part: Range<usize>) -> IndexResult<Option<PageView<'_>>> {
        let bytes = self.locked.bytes();
        if bytes.iter().all(|&b| b == 0) {
            return Ok(None);
        }
        let view = PageView::check_part(bytes, self.block, self.salt, part);
        view.map(Some).map_err(|what| Damage::new(self.block, what))
    }
}

/// A page under the exclusive lock.
pub struct ExclusivePage {
    locked: Locked,
    block: u32,
    salt: u64,
}

impl ExclusivePage {
    /// Pins and locks a block of the main fork.
    pub fn read(rel: Rel, block: u32) -> Self {
        Self {
            locked: Locked::new(Locked::pin(rel, block), pg_sys::BUFFER_LOCK_EXCLUSIVE),
            block,
            salt: rel.salt_of(block),
        }
    }

    /// Pins and locks a block whose contents do not matter: it is not read from disk; if it was not cached, its buffer
    /// is zeroed.
    pub fn overwrite(rel: Rel, block: u32) -> Self {
        // SAFETY: rel is open and the block exists (allocated by extend() or recycled).
        let buffer = unsafe {
            server::ReadBufferExtended(
                rel.raw(),
                pg_sys::ForkNumber::MAIN_FORKNUM,
                block,
                pg_sys::ReadBufferMode::RBM_ZERO_AND_LOCK,
                std::ptr::null_mut(),
            )
        };
        Self { locked: Locked(buffer), block, salt: rel.salt_of(block) }
    }

    /// The page, checked.
    ///
    /// # Errors
    /// As [`SharedPage::view`].
    pub fn view(&self, kind: PageKind) -> IndexResult<PageView<'_>> {
        PageView::check_kind(self.locked.bytes(), self.block, self.salt, kind)
            .map_err(|what| Damage::new(self.block, what))
    }

    /// The page, checked, of any kind.
    ///
    /// # Errors
    /// Damage that [`PageView::check`] finds.
    pub fn any_view(&self) -> IndexResult<PageView<'_>> {
        PageView::check(self.locked.bytes(), self.block, self.salt)
            .map_err(|what| Damage::new(self.block, what))
    }

    /// The page's bytes, unchecked.
    pub fn bytes(&self) -> &PageBytes {
        self.locked.bytes()
    }

    /// The page's block number.
    pub fn block(&self) -> u32 {
        self.block
    }

    /// The buffer, for [`super::wal`].
    pub(super) fn buffer(&self) -> pg_sys::Buffer {
        self.locked.0
    }
}

/// From this number of blocks on they are added to the file in one go: a buffer for each, and a write, would take an
/// insert that begins a large merge a second for 100,000.
const MANY_BLOCKS: u32 = 64;

/// Adds `count` contiguous blocks to the end of the main fork; returns the number of the first one. They are zero until
/// they are written.
pub fn extend(rel: Rel, count: u32) -> u32 {
    let _lock = ExtensionLock::take(rel);
    let first = rel.blocks();
    // SAFETY: the relation is open, its extension lock is held, and its size was just read.
    if count >= MANY_BLOCKS && unsafe { compat::extend_file(rel.raw(), first, count) } {
        return first;
    }
    for _ in 0..count {
        // SAFETY: the extension lock is held, as P_NEW demands.
        unsafe {
            let buffer = server::ReadBufferExtended(
                rel.raw(),
                pg_sys::ForkNumber::MAIN_FORKNUM,
                pg_sys::InvalidBlockNumber, // P_NEW
                pg_sys::ReadBufferMode::RBM_NORMAL,
                std::ptr::null_mut(),
            );
            pg_sys::ReleaseBuffer(buffer);
        }
    }
    first
}

/// Checks that block 0 exists. The existence of all other blocks follows from earlier pages ([`KnownBlocks`]). Without
/// this check, reading an empty index would be an error of the file system without the index's name.
///
/// # Errors
/// Damage: the index has no pages.
pub fn check_not_empty(rel: Rel) -> IndexResult<()> {
    if rel.known_blocks() == 0 && rel.blocks() == 0 {
        Err(Damage::new(0, "the index has no pages"))
    } else {
        Ok(())
    }
}

/// Prefetches a block from disk; has no effect if it is cached. Returns whether it is.
pub fn prefetch(rel: Rel, block: u32) -> bool {
    // SAFETY: rel is open; the operating system ignores a block past the end.
    let result = unsafe { pg_sys::PrefetchBuffer(rel.raw(), pg_sys::ForkNumber::MAIN_FORKNUM, block) };
    result.recent_buffer != pg_sys::InvalidBuffer as pg_sys::Buffer
}

/// The number of blocks that a relation is known to have. A block number from a page is checked against it before the
/// block is read, so that a truncated file is reported as damage, and is not an error of the file system.
pub struct KnownBlocks<'a> {
    rel: Rel<'a>,
    known: u32,
}

impl<'a> KnownBlocks<'a> {
    /// With the blocks that the relation is known to have.
    pub fn new(rel: Rel<'a>) -> Self {
        Self { rel, known: rel.known_blocks() }
    }

    /// Checks that block numbers below `end` exist; reads the file size only if they are above the known number.
    ///
    /// # Errors
    /// Damage: the index ends before `end`.
    pub fn check(&mut self, end: u32) -> IndexResult<()> {
        if end > self.known {
            self.known = self.rel.blocks();
        }
        if end > self.known {
            return Err(Damage::new(
                end.saturating_sub(1),
                format!("the index has only {} blocks", self.known),
            ));
        }
        Ok(())
    }
}
