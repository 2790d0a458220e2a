//! WAL-logged changes to pages.
//!
//! Every change touches one page and is one WAL record: a whole new page as a full image, a change in place as a record
//! of the generic resource manager. PostgreSQL's own GenericXLog pallocs some 70 kB and compares whole pages for each
//! record; here the changed bytes are known, so this file composes the record itself. Its format is that of
//! `generic_xlog.c` (fragments of u16 offset, u16 length, bytes), which every server of version 9.6 or later replays
//! without this library. Replay also zeroes the hole above pd_lower, so no data is stored there.
//!
//! Inside the critical sections this code allocates nothing and cannot raise an error: everything is prepared before.

use super::page::ExclusivePage;
use super::{Rel, error::IndexResult, server};
use pgrx::pg_sys;
use skip_segment::page::{PAGE, PageBytes, PageImage, PageKind, PageView};
use std::sync::atomic::{AtomicU32, Ordering};

/// A page being changed in place. The page does not change before [`PageEdit::commit`].
pub struct PageEdit<'a> {
    rel: Rel<'a>,
    page: ExclusivePage,
    image: PageImage,
}

impl<'a> PageEdit<'a> {
    /// Locks the page, checks it and starts a change.
    ///
    /// # Errors
    /// Damage to the page.
    pub fn start(rel: Rel<'a>, block: u32, kind: PageKind) -> IndexResult<Self> {
        let page = ExclusivePage::read(rel, block);
        page.view(kind)?;
        Ok(Self::of(rel, page))
    }

    /// Starts a change of a page that the caller has locked and checked.
    pub fn of(rel: Rel<'a>, page: ExclusivePage) -> Self {
        let image = PageImage::copy_of(page.bytes());
        Self { rel, page, image }
    }

    /// The page as it was when the change started.
    ///
    /// # Errors
    /// Never after `start` succeeded; the check is cheap to repeat and keeps this free of panics.
    pub fn before(&self) -> IndexResult<PageView<'_>> {
        self.page.any_view()
    }

    /// The new contents.
    pub fn image(&mut self) -> &mut PageImage {
        &mut self.image
    }

    /// Publishes the change: page and WAL. Without a change nothing is written.
    pub fn commit(self) {
        if !self.image.is_changed() {
            return;
        }
        let (bytes, spans) = self.image.seal(self.page.block(), self.rel.salt_of(self.page.block()));
        let size: usize = spans.iter().map(|&(_, len)| usize::from(len) + 4).sum();
        let mut fragments = Vec::with_capacity(size);
        for &(at, len) in &spans {
            fragments.extend_from_slice(&at.to_ne_bytes());
            fragments.extend_from_slice(&len.to_ne_bytes());
            fragments.extend_from_slice(&bytes[usize::from(at)..usize::from(at) + usize::from(len)]);
        }
        let log = self.rel.needs_wal();
        // SAFETY: the buffer is exclusively locked; spans lie inside the page; the critical section allocates
        // nothing and raises no error (XLogInsert's own failures are PANICs, as everywhere in the server).
        unsafe {
            let buffer = self.page.buffer();
            let target = pg_sys::BufferGetPage(buffer).cast::<u8>();
            pg_sys::CritSectionCount += 1;
            for &(at, len) in &spans {
                store_words(&bytes, usize::from(at), usize::from(len), target);
            }
            pg_sys::MarkBufferDirty(buffer);
            if log {
                pg_sys::XLogBeginInsert();
                pg_sys::XLogRegisterBuffer(0, buffer, pg_sys::REGBUF_STANDARD as u8);
                pg_sys::XLogRegisterBufData(0, fragments.as_mut_ptr().cast(), fragments.len() as _);
                let lsn = pg_sys::XLogInsert(pg_sys::RmgrIds::RM_GENERIC_ID as u8, 0);
                set_lsn(target, lsn);
            }
            pg_sys::CritSectionCount -= 1;
        }
    }
}

/// Writes a whole page over whatever the block held.
pub fn write_page(rel: Rel, block: u32, image: PageImage) {
    let page = ExclusivePage::overwrite(rel, block);
    let (bytes, _) = image.seal(block, rel.salt_of(block));
    let log = rel.needs_wal();
    // SAFETY: the buffer is exclusively locked; as in PageEdit::commit nothing raises an error in the critical section.
    // log_newpage_buffer sets the LSN itself.
    unsafe {
        let buffer = page.buffer();
        pg_sys::CritSectionCount += 1;
        copy_keeping_lsn(&bytes, pg_sys::BufferGetPage(buffer).cast::<u8>());
        pg_sys::MarkBufferDirty(buffer);
        if log {
            pg_sys::log_newpage_buffer(buffer, true);
        }
        pg_sys::CritSectionCount -= 1;
    }
}

/// Adds a page to the init fork of an unlogged index. It is always WAL-logged: the init fork must survive a crash
/// although the relation itself is not logged (GenericXLog would not log it).
pub fn append_init_page(rel: Rel, block: u32, image: PageImage) {
    let (bytes, _) = image.seal(block, rel.salt_of(block));
    // SAFETY: only this function writes the init fork, while the index is created. RBM_ZERO_AND_LOCK locks the new
    // block, and nothing in the critical section raises an error.
    unsafe {
        let buffer = {
            let _lock = super::lock::ExtensionLock::take(rel);
            server::ReadBufferExtended(
                rel.raw(),
                pg_sys::ForkNumber::INIT_FORKNUM,
                pg_sys::InvalidBlockNumber,
                pg_sys::ReadBufferMode::RBM_NORMAL,
                std::ptr::null_mut(),
            )
        };
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
        pg_sys::CritSectionCount += 1;
        copy_keeping_lsn(&bytes, pg_sys::BufferGetPage(buffer).cast::<u8>());
        pg_sys::MarkBufferDirty(buffer);
        pg_sys::log_newpage_buffer(buffer, true);
        pg_sys::CritSectionCount -= 1;
        pg_sys::UnlockReleaseBuffer(buffer);
    }
}

/// Stores the words that a span touches, each in one piece, because aminsert reads the watermark under a pin only.
///
/// # Safety
/// `target` is a page of an exclusively locked buffer; outside of the span it has the same bytes as `bytes`.
unsafe fn store_words(bytes: &PageBytes, at: usize, len: usize, target: *mut u8) {
    let (words, _) = bytes.as_chunks::<4>();
    for (i, word) in words.iter().enumerate().take((at + len).div_ceil(4)).skip(at / 4) {
        // SAFETY: inside the page; pages are aligned.
        unsafe { AtomicU32::from_ptr(target.add(i * 4).cast()) }
            .store(u32::from_ne_bytes(*word), Ordering::Relaxed);
    }
}

/// Copies a page, except for the LSN in its first 8 bytes.
///
/// # Safety
/// `target` is a page of an exclusively locked buffer.
unsafe fn copy_keeping_lsn(bytes: &PageBytes, target: *mut u8) {
    // SAFETY: both are PAGE bytes long and do not overlap: one is local memory, one a shared buffer.
    unsafe { std::ptr::copy_nonoverlapping(bytes[8..].as_ptr(), target.add(8), PAGE - 8) }
}

/// PageSetLSN: the high half comes first on the page.
///
/// # Safety
/// `page` is a page of an exclusively locked buffer.
unsafe fn set_lsn(page: *mut u8, lsn: u64) {
    // SAFETY: pd_lsn is the first field of the page header.
    unsafe {
        let header = page.cast::<pg_sys::PageHeaderData>();
        (*header).pd_lsn.xlogid = (lsn >> 32) as u32;
        (*header).pd_lsn.xrecoff = lsn as u32;
    }
}
