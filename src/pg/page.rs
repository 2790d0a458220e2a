//! Buffers of an index: pins and locks as guards, new blocks.

use super::{Damage, Rel, cache, compat, error::Read, lock::ExtensionLock};
use pgrx::pg_sys;
use skip_segment::page::{PAGE, PAYLOAD_END, PAYLOAD_START, PageBytes, PageKind, PageView};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const _: () = assert!(pg_sys::BLCKSZ as usize == PAGE, "pg_skip supports a block size of 8192 bytes");

/// Functions that cannot raise an error, called without pgrx's guard around each call: aminsert reads the meta page
/// once a row, and a guard costs as much as the lock.
mod unguarded {
    use pgrx::pg_sys::Buffer;
    // SAFETY: the signatures of bufmgr.h in every supported version. LockBuffer raises an error only for an
    // unknown mode, the others never.
    unsafe extern "C-unwind" {
        pub fn LockBuffer(buffer: Buffer, mode: std::ffi::c_int);
        pub fn UnlockReleaseBuffer(buffer: Buffer);
        pub fn ReleaseBuffer(buffer: Buffer);
    }
}

/// Where the meta page of the index used last was found: relation file number (high half) and buffer. Only a hint: the
/// server checks that the buffer still holds that page, which spares the lookup in the buffer table.
static RECENT_META: AtomicU64 = AtomicU64::new(0);

/// Pages that this process has read from skip indexes.
static PAGES_READ: AtomicU64 = AtomicU64::new(0);

fn count_page() {
    // One process, one thread: no need for an atomic addition.
    PAGES_READ.store(PAGES_READ.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// How many pages of skip indexes this process has read since it started: the server counts as many buffers.
pub fn pages_read() -> u64 {
    PAGES_READ.load(Ordering::Relaxed)
}

/// A pinned, locked buffer.
struct Locked(pg_sys::Buffer);

impl Locked {
    /// Locks a pinned buffer, whose pin it takes over.
    fn new(buffer: pg_sys::Buffer, lock: u32) -> Self {
        // SAFETY: the buffer is pinned, the mode one of bufmgr.h's.
        unsafe { unguarded::LockBuffer(buffer, lock as i32) };
        Self(buffer)
    }

    /// A page that the server finds invalid when it reads it from disk (its header, or with data checksums any bit) is
    /// zeros in the buffer, after a WARNING, not an ERROR of the server's: so the caller's own check finds it, planning
    /// can do without the index, and the error that ends a query says what to do. The page on disk stays as it is.
    /// Nothing takes a page of zeros for an answer, because a lost write leaves one too.
    fn pin(rel: Rel, block: u32) -> pg_sys::Buffer {
        // SAFETY: rel is open; ReadBufferExtended raises an error for a block that is not there.
        unsafe {
            pg_sys::ReadBufferExtended(
                rel.raw(),
                pg_sys::ForkNumber::MAIN_FORKNUM,
                block,
                pg_sys::ReadBufferMode::RBM_ZERO_ON_ERROR,
                std::ptr::null_mut(),
            )
        }
    }

    /// Pins block 0 by the hint, if that is still right. Only for [`peek_meta`]: no value with a destructor may be
    /// alive around it.
    fn pin_meta(rel: Rel) -> Read<pg_sys::Buffer> {
        if rel.is_temporary() {
            check_not_empty(rel)?;
            return Ok(Self::pin(rel, 0)); // its file may have the number of another table's
        }
        let number = rel.file_number();
        let hint = RECENT_META.load(Ordering::Relaxed);
        let recent = hint as u32 as pg_sys::Buffer;
        if (hint >> 32) as u32 == number && recent != 0 {
            // SAFETY: a buffer number that this backend was given before.
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
        // SAFETY: a pinned buffer's page is PAGE bytes; a content lock, shared or exclusive, keeps everybody
        // else from changing it, but for hint bits and LSNs, which index pages here do not get under a share
        // lock.
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

/// Reads words of the meta page's payload without its content lock, under a pin only: `read` gets a function from a
/// payload offset (a multiple of 4) to the word there. The page is not checked, and words may change between two reads;
/// each by itself is whole, because pages are changed word by word ([`super::wal`]).
///
/// The loads are relaxed, on processors that reorder loads (ARM) too: a load orders nothing here, and need not. Which
/// values of a word it may give is decided by what happened before it, and that is the caller's to bring about, by a
/// lock ([`crate::pages::meta::Progress`]). Pinning the buffer is an atomic change of its header, so that a page that
/// was just read from disk is seen as it was read.
///
/// # Errors
/// Damage: the index has no pages, or what `read` gives.
pub fn peek_meta<R>(rel: Rel, read: impl FnOnce(&dyn Fn(usize) -> u32) -> Read<R>) -> Read<R> {
    let buffer = Locked::pin_meta(rel)?;
    // SAFETY: a pinned buffer's page stays where it is; pages are aligned.
    let words = unsafe { pg_sys::BufferGetPage(buffer).cast::<u32>() };
    let result = read(&|at| {
        let word = ((PAYLOAD_START + at) / 4).min(PAGE / 4 - 1);
        // SAFETY: inside the page; concurrent writers store whole words.
        unsafe { AtomicU32::from_ptr(words.add(word)) }.load(Ordering::Relaxed)
    });
    // SAFETY: pinned above.
    unsafe { unguarded::ReleaseBuffer(buffer) };
    result
}

/// The checksum that a block carries, and the buffer it lies in, without its content lock and without looking whether
/// it is right: as good as no two contents of a block have the same. `recent` is the buffer that it was in before: if
/// it is there still, neither the buffer table nor the file is looked at. A table with thousands of partitions has more
/// files than a process may have open, so that looking at a file means opening it.
///
/// # Errors
/// Damage: the index has no pages.
pub fn peek_checksum(rel: Rel, block: u32, recent: Option<Recent>) -> Read<(u64, Recent)> {
    // The file of a temporary table may have the number of another table's.
    let recent = recent.filter(|_| !rel.is_temporary());
    // SAFETY: a buffer number that this backend was given before.
    let is_there = |recent: &Recent| unsafe { compat::pin_recent_guarded(rel.raw(), block, recent.0) };
    let buffer = match recent.filter(is_there) {
        Some(Recent(buffer)) => buffer,
        None => {
            check_not_empty(rel)?;
            Locked::pin(rel, block)
        }
    };
    // SAFETY: a pinned buffer's page stays where it is; pages are aligned.
    let words = unsafe { pg_sys::BufferGetPage(buffer).cast::<u32>() };
    let word = |at: usize| {
        // SAFETY: inside the page; concurrent writers store whole words.
        u64::from(unsafe { AtomicU32::from_ptr(words.add(at / 4)) }.load(Ordering::Relaxed))
    };
    let checksum = word(PAYLOAD_END) | word(PAYLOAD_END + 4) << 32;
    // SAFETY: pinned above.
    unsafe { unguarded::ReleaseBuffer(buffer) };
    Ok((checksum, Recent(buffer)))
}

/// A buffer that a page was found in.
#[derive(Clone, Copy)]
pub struct Recent(pg_sys::Buffer);

/// A pinned page: it stays in its buffer, and may change there.
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

    /// Asks memory for what [`SharedPage::any_view_of`] reads of the page for the same part of its payload.
    pub fn prefetch(&self, part: Range<usize>) {
        // SAFETY: a pinned buffer's page stays where it is.
        let page = unsafe { pg_sys::BufferGetPage(self.buffer).cast::<u8>().cast_const() };
        cache::prefetch_line(page);
        PageView::bytes_checked(part).for_each(|at| cache::prefetch_line(page.wrapping_add(at)));
    }

    /// Locks the page for reading.
    pub fn lock(self) -> SharedPage {
        let Self { buffer, block, salt } = self;
        std::mem::forget(self); // the pin is handed on
        SharedPage { locked: Locked::new(buffer, pg_sys::BUFFER_LOCK_SHARE), block, salt }
    }
}

impl Drop for PinnedPage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: pinned in the constructor. After an ERROR the server's abort takes the pin away.
            unsafe { unguarded::ReleaseBuffer(self.buffer) }
        }
    }
}

/// A page under a share lock. Nothing slow may happen while one is held.
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

    /// The page, checked.
    ///
    /// # Errors
    /// Damage that [`PageView::check`] finds, or a page of another kind.
    pub fn view(&self, kind: PageKind) -> Read<PageView<'_>> {
        PageView::check_kind(self.locked.bytes(), self.block, self.salt, kind)
            .map_err(|what| Damage::new(self.block, what))
    }

    /// The page, checked, of whatever kind; None for a page that was never written (a crash can leave one).
    ///
    /// # Errors
    /// Damage that [`PageView::check`] finds.
    pub fn any_view(&self) -> Read<Option<PageView<'_>>> {
        self.any_view_of(0..PAYLOAD_END - PAYLOAD_START)
    }

    /// As [`SharedPage::any_view`], but checked only as far as these bytes of the payload need it
    /// ([`PageView::check_part`]): the caller must not use others.
    ///
    /// # Errors
    /// Damage that [`PageView::check_part`] finds.
    pub fn any_view_of(&self, part: Range<usize>) -> Read<Option<PageView<'_>>> {
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

    /// Pins and locks a block whose contents do not matter: it is not read from disk, and zeroed if it was not
    /// cached.
    pub fn overwrite(rel: Rel, block: u32) -> Self {
        // SAFETY: rel is open and the block exists (allocated by extend() or recycled).
        let buffer = unsafe {
            pg_sys::ReadBufferExtended(
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
    pub fn view(&self, kind: PageKind) -> Read<PageView<'_>> {
        PageView::check_kind(self.locked.bytes(), self.block, self.salt, kind)
            .map_err(|what| Damage::new(self.block, what))
    }

    /// The page, checked, of whatever kind.
    ///
    /// # Errors
    /// Damage that [`PageView::check`] finds.
    pub fn any_view(&self) -> Read<PageView<'_>> {
        PageView::check(self.locked.bytes(), self.block, self.salt)
            .map_err(|what| Damage::new(self.block, what))
    }

    /// The page's bytes as they are.
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

/// Adds `count` blocks in one piece to the end of the main fork; returns the first one's number. They are
/// zero until somebody writes them.
pub fn extend(rel: Rel, count: u32) -> u32 {
    let _lock = ExtensionLock::take(rel);
    let first = rel.blocks();
    for _ in 0..count {
        // SAFETY: the extension lock is held, as P_NEW demands.
        unsafe {
            let buffer = pg_sys::ReadBufferExtended(
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

/// Checks that there is a block 0. All others are known to exist from what earlier pages say ([`KnownBlocks`]); an
/// index of which nothing is left would be an error of the file system's without the index's name.
///
/// # Errors
/// Damage: the index has no pages.
pub fn check_not_empty(rel: Rel) -> Read<()> {
    if rel.blocks() == 0 { Err(Damage::new(0, "the index has no pages")) } else { Ok(()) }
}

/// Asks the system to read a block ahead; nothing happens when it is cached. Returns whether it is.
pub fn prefetch(rel: Rel, block: u32) -> bool {
    // SAFETY: rel is open; a block past the end is ignored by the system.
    let result = unsafe { pg_sys::PrefetchBuffer(rel.raw(), pg_sys::ForkNumber::MAIN_FORKNUM, block) };
    result.recent_buffer != pg_sys::InvalidBuffer as pg_sys::Buffer
}

/// How many blocks a relation is known to have, so that a block number read from a page is never asked of the
/// storage layer without looking: a file cut short is damage to report, not an error of the file system.
pub struct KnownBlocks<'a> {
    rel: Rel<'a>,
    known: u32,
}

impl<'a> KnownBlocks<'a> {
    /// Nothing known yet.
    pub fn new(rel: Rel<'a>) -> Self {
        Self { rel, known: 0 }
    }

    /// Checks that block numbers below `end` exist; asks the file system at most when they seem not to.
    ///
    /// # Errors
    /// Damage: the index ends before `end`.
    pub fn check(&mut self, end: u32) -> Read<()> {
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
