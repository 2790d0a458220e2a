//! The directory: which segments are live, which blocks are free.
//!
//! A chain of pages of unordered 32-byte entries ([`super::entry`]). Each change affects one entry of one page, so it
//! is one WAL record. For columns with filters, readers need no consistent view of all pages:
//!
//! - a range without an entry has no filter and matches;
//! - a range with two entries (a merge between its two steps, or a rescan) has two correct filters; the wider one is
//!   used, or else the newer one;
//! - an entry whose blocks were recycled is detected when the first page is read ([`super::segment`]).
//!
//! For columns with maps, readers need a consistent view ([`super::map`] says why). A directory of one page is read at
//! once, and each change leaves a directory that can be used, because a crash may happen after any of them. Of several
//! pages, the generation must not have risen while they were read.
//!
//! A segment's entry is published after its pages were written. Until then its blocks are reserved. Blocks that are
//! still reserved when the next maintenance starts were left by an interrupted one, and become free again. Those of an
//! unfinished segment, which is written in steps, stay its own until it is published or abandoned. An entry is
//! turned into free space in place, so a crash never leaves blocks in two entries.
//!
//! Only the holder of the maintenance lock changes the directory ([`change`]), and gives out blocks ([`space`]).
//! Readers read it without a lock ([`live`]).
//!
//! ```text
//! page: 0 next directory block u32 | 4 entries u32 | 8 entries of 32 bytes
//! ```

mod change;
mod live;
mod space;

use super::entry::{ENTRY_BYTES, Entry, Segment};
use super::meta::Meta;
use crate::pg::{
    Damage, Rel,
    error::IndexResult,
    memory,
    page::{KnownBlocks, SharedPage},
};
pub use change::Directory;
pub use live::{Live, LiveSegment, is_unchanged, live};
use skip_segment::page::{NO_BLOCK, PageImage, PageKind, PageView, get_u32};

const ENTRIES_AT: usize = 8;
/// Entries that a page holds: (8144 - 8) / 32.
pub const ENTRIES_PER_PAGE: usize =
    (skip_segment::page::PAYLOAD_END - skip_segment::page::PAYLOAD_START - ENTRIES_AT) / ENTRY_BYTES;

/// An empty directory page.
pub fn empty_page(place: u32) -> PageImage {
    let mut image = PageImage::fresh(PageKind::Directory, 0, place);
    image.put(0, &NO_BLOCK.to_le_bytes());
    image.put(4, &0u32.to_le_bytes());
    image
}

/// A page of the directory, and the checksum that it carried when it was read.
#[derive(Clone, Copy)]
pub struct DirectoryPage {
    pub block: u32,
    pub checksum: u64,
}

/// Calls `each` with the page, the slot and the contents of every entry whose bytes are `wanted`. Returns the pages.
fn walk(
    index: Rel,
    meta: &Meta,
    wanted: impl Fn(&[u8]) -> bool,
    mut each: impl FnMut(u32, usize, Entry),
) -> IndexResult<Vec<DirectoryPage>> {
    let mut known = KnownBlocks::new(index);
    let mut block = meta.directory;
    let mut pages = Vec::new();
    while block != NO_BLOCK {
        memory::check_for_interrupts();
        known.check(block.saturating_add(1))?;
        let page = SharedPage::read(index, block);
        let view = page.view(PageKind::Directory)?;
        if u32::try_from(pages.len()) != Ok(view.place()) {
            return Err(Damage::new(block, "the chain of directory pages is broken"));
        }
        pages.push(DirectoryPage { block, checksum: page.stored_checksum() });
        for (slot, bytes) in entries(&view, block)?.enumerate().filter(|(_, bytes)| wanted(bytes)) {
            let entry = Entry::decode(bytes, |column| meta.parts(column));
            each(
                block,
                slot,
                entry.ok_or_else(|| Damage::new(block, "a directory entry has an unknown kind"))?,
            );
        }
        block = get_u32(view.payload(), 0);
    }
    Ok(pages)
}

/// The bytes of the entries of a page.
fn entries<'a>(view: &PageView<'a>, block: u32) -> IndexResult<impl Iterator<Item = &'a [u8]> + use<'a>> {
    let payload = view.payload();
    let count = get_u32(payload, 4) as usize;
    if payload.len() < ENTRIES_AT + count * ENTRY_BYTES {
        return Err(Damage::new(block, "the directory page counts more entries than it holds"));
    }
    Ok(payload[ENTRIES_AT..ENTRIES_AT + count * ENTRY_BYTES].chunks_exact(ENTRY_BYTES))
}

/// Checks that the segments' blocks exist.
///
/// # Errors
/// Damage: the index ends before.
pub fn check_extents<'s>(
    known: &mut KnownBlocks<'_>,
    segments: impl IntoIterator<Item = &'s Segment>,
) -> IndexResult<()> {
    segments.into_iter().try_for_each(|s| known.check(s.first_block.saturating_add(s.blocks)))
}
