//! The delta: entries for tuples that were inserted into summarized ranges.
//!
//! A chain of pages with consecutive, ever-growing sequence numbers, from the meta page's head to its tail. Only the
//! last page takes entries. A page is sealed when it gets a successor. So maintenance can fold a sealed stretch into
//! the segments while inserts add entries behind it, then move the head past it and reuse the pages.
//!
//! Crash order: a new page is written before its predecessor refers to it, and the meta page's tail is updated last; an
//! insert that finds a tail with a successor follows the chain. Pages leave the chain (head) before they become spares.
//! A crash in between loses a page until the next VACUUM ([`super::upkeep::lost`]), but never an entry.
//!
//! Locks: an entry is added under the exclusive lock of the last page's buffer alone. [`LockKind::DeltaGrowth`] is held
//! while a page is added to the chain, and while pages are taken out of it. Only maintenance moves the head, under
//! [`LockKind::Maintenance`].
//!
//! ```text
//! page:  0 next block u32 | 4 entries u32 | 8 entries of 16 bytes; the page's owner is its sequence number
//! entry: 0 part u32 | 4 column u16 | 6 flags u16 (1 = NULL) | 8 key hash u64
//! ```

use super::meta::{self, Meta};
use super::miss::{Fetch, Miss};
use crate::pg::{
    Damage, Rel,
    error::IndexResult,
    lock::{IndexLock, LockKind},
    memory,
    page::{self, ExclusivePage, KnownBlocks, SharedPage},
    wal::{self, PageEdit},
};
use skip_segment::page::{NO_BLOCK, PageImage, PageKind, PageView, get_u16, get_u32, get_u64};

const ENTRIES_AT: usize = 8;
const ENTRY_BYTES: usize = 16;
/// Entries that a page holds: (8144 - 8) / 16.
pub const ENTRIES_PER_PAGE: usize =
    (skip_segment::page::PAYLOAD_END - skip_segment::page::PAYLOAD_START - ENTRIES_AT) / ENTRY_BYTES;
const FLAG_NULL: u16 = 1;
/// What is wrong if a page does not have the sequence number that is due.
const BROKEN: &str = "the chain of delta pages is broken";

/// A key of a value, or NULL, that was inserted into a summarized range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaEntry {
    pub part: u32,
    /// 0-based index column.
    pub column: u16,
    /// The value's key hash; None for NULL.
    pub hash: Option<u64>,
}

impl DeltaEntry {
    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut b = [0u8; ENTRY_BYTES];
        b[..4].copy_from_slice(&self.part.to_le_bytes());
        b[4..6].copy_from_slice(&self.column.to_le_bytes());
        b[6..8].copy_from_slice(&if self.hash.is_none() { FLAG_NULL } else { 0 }.to_le_bytes());
        b[8..].copy_from_slice(&self.hash.unwrap_or(0).to_le_bytes());
        b
    }

    fn decode(b: &[u8]) -> Self {
        let null = get_u16(b, 6) & FLAG_NULL != 0;
        Self { part: get_u32(b, 0), column: get_u16(b, 4), hash: (!null).then(|| get_u64(b, 8)) }
    }
}

fn entries<'a>(view: &PageView<'a>, block: u32) -> IndexResult<impl Iterator<Item = DeltaEntry> + use<'a>> {
    let payload = view.payload();
    let count = get_u32(payload, 4) as usize;
    if count > ENTRIES_PER_PAGE || payload.len() < ENTRIES_AT + count * ENTRY_BYTES {
        return Err(Damage::new(block, "the delta page counts more entries than it holds"));
    }
    let bytes = &payload[ENTRIES_AT..ENTRIES_AT + count * ENTRY_BYTES];
    Ok(bytes.chunks_exact(ENTRY_BYTES).map(DeltaEntry::decode))
}

fn empty_page(sequence: u64) -> PageImage {
    let mut image = PageImage::fresh(PageKind::Delta, sequence, 0);
    image.put(0, &NO_BLOCK.to_le_bytes());
    image.put(4, &0u32.to_le_bytes());
    image
}

/// Calls `each` with all entries from the head to the last page. No page is locked during a call, and the scan checks
/// for interrupts before each page.
///
/// # Errors
/// Damage, or a page that was recycled meanwhile: then start over from the meta page.
pub fn scan(index: Rel, meta: &Meta, mut each: impl FnMut(DeltaEntry)) -> Fetch<()> {
    let index = meta.bind(index);
    let mut known = KnownBlocks::new(index);
    let (mut block, mut sequence) = (meta.delta_head, meta.delta_head_sequence);
    let mut of_page = Vec::new();
    while block != NO_BLOCK {
        memory::check_for_interrupts();
        known.check(block.saturating_add(1))?;
        let next = {
            let page = SharedPage::read(index, block);
            let view = page.any_view()?.ok_or(Miss::Recycled(block))?;
            if !view.is(PageKind::Delta) || view.owner() != sequence {
                return Err(Miss::Recycled(block));
            }
            of_page.extend(entries(&view, block)?);
            get_u32(view.payload(), 0)
        };
        of_page.drain(..).for_each(&mut each);
        block = next;
        sequence += 1;
    }
    Ok(())
}

/// Whether the delta has no entries.
///
/// # Errors
/// Damage, or a page that was recycled meanwhile.
pub fn is_empty(index: Rel, meta: &Meta) -> Fetch<bool> {
    let (index, block) = (meta.bind(index), meta.delta_head);
    if block == NO_BLOCK {
        return Ok(true);
    }
    KnownBlocks::new(index).check(block.saturating_add(1))?;
    let page = SharedPage::read(index, block);
    let view = page.any_view()?.ok_or(Miss::Recycled(block))?;
    if !view.is(PageKind::Delta) || view.owner() != meta.delta_head_sequence {
        return Err(Miss::Recycled(block));
    }
    Ok(entries(&view, block)?.next().is_none() && get_u32(view.payload(), 0) == NO_BLOCK)
}

/// Adds entries to the last page, and adds pages as needed. Returns the number of delta pages in use.
///
/// # Errors
/// Damage to a page.
pub fn append(index: Rel, mut new: &[DeltaEntry]) -> IndexResult<u64> {
    let mut missed = None;
    loop {
        let meta = Meta::read(index)?;
        let index = meta.bind(index);
        if new.is_empty() {
            return Ok(meta.delta_pages());
        }
        match fill_last_page(index, &meta, new)? {
            // The chain has changed between the two reads. The second time at the same tail, it has not: damage.
            Some(0) if missed == Some((meta.delta_tail, meta.delta_tail_sequence)) => {
                return Err(Damage::new(
                    meta.delta_tail,
                    "the delta's last page is not the one that the meta page names",
                ));
            }
            Some(0) => missed = Some((meta.delta_tail, meta.delta_tail_sequence)),
            Some(done) => new = &new[done..],
            None => grow(index, &meta)?,
        }
    }
}

/// Puts the entries that fit on the last page, and returns their number; None when there is no page with room, Some(0)
/// when the chain has changed since `meta` was read.
fn fill_last_page(index: Rel, meta: &Meta, new: &[DeltaEntry]) -> IndexResult<Option<usize>> {
    let mut known = KnownBlocks::new(index);
    let (mut block, mut sequence) = (meta.delta_tail, meta.delta_tail_sequence);
    while block != NO_BLOCK {
        known.check(block.saturating_add(1))?;
        let page = ExclusivePage::read(index, block);
        let view = page.any_view()?;
        if !view.is(PageKind::Delta) || view.owner() != sequence {
            return Ok(Some(0));
        }
        let (next, have) = (get_u32(view.payload(), 0), entries(&view, block)?.count());
        if next != NO_BLOCK {
            (block, sequence) = (next, sequence + 1);
            continue;
        }
        let taken = new.len().min(ENTRIES_PER_PAGE - have);
        if taken == 0 {
            return Ok(None);
        }
        let mut edit = PageEdit::of(index, page);
        for (i, entry) in new[..taken].iter().enumerate() {
            edit.image().put(ENTRIES_AT + (have + i) * ENTRY_BYTES, &entry.encode());
        }
        edit.image().put(4, &((have + taken) as u32).to_le_bytes());
        edit.commit();
        return Ok(Some(taken));
    }
    Ok(None)
}

/// Adds a page behind the last one, which seals that one. Does nothing when another process has done so since the
/// caller read the meta page `seen`.
fn grow(index: Rel, seen: &Meta) -> IndexResult<()> {
    let _lock = IndexLock::take(index, LockKind::DeltaGrowth);
    let meta = Meta::read(index)?;
    let index = meta.bind(index);
    // A delta's first page gets the sequence number that the tail had when there was no page.
    let tail_of = |meta: &Meta| (meta.delta_tail, meta.delta_tail_sequence);
    if meta.delta_tail != NO_BLOCK && tail_of(&meta) != tail_of(seen) {
        return Ok(());
    }
    let (tail, sequence) = last_page(index, &meta)?;
    let new = take_spare(index, &meta)?.unwrap_or_else(|| page::extend(index, 1));
    let new_sequence = if tail == NO_BLOCK { sequence } else { sequence + 1 };
    wal::write_page(index, new, empty_page(new_sequence));
    if tail != NO_BLOCK {
        let mut edit = PageEdit::start(index, tail, PageKind::Delta)?;
        edit.image().put(0, &new.to_le_bytes());
        edit.commit();
    }
    meta::update(index, |meta| {
        if meta.delta_head == NO_BLOCK {
            (meta.delta_head, meta.delta_head_sequence) = (new, new_sequence);
        }
        (meta.delta_tail, meta.delta_tail_sequence) = (new, new_sequence);
    })
}

/// The last page of the chain and its sequence number. After a crash it may be behind the meta page's tail.
fn last_page(index: Rel, meta: &Meta) -> IndexResult<(u32, u64)> {
    let mut known = KnownBlocks::new(index);
    let (mut block, mut sequence) = (meta.delta_tail, meta.delta_tail_sequence);
    while block != NO_BLOCK {
        memory::check_for_interrupts();
        known.check(block.saturating_add(1))?;
        let page = SharedPage::read(index, block);
        let view = page.view(PageKind::Delta)?;
        // In a cycle some page does not have the number that is due, so the loop ends.
        if view.owner() != sequence {
            return Err(Damage::new(block, BROKEN));
        }
        let next = get_u32(view.payload(), 0);
        if next == NO_BLOCK {
            break;
        }
        (block, sequence) = (next, sequence + 1);
    }
    Ok((block, sequence))
}

/// A page that waits for reuse. `next` is the next spare page in the chain, or NO_BLOCK.
pub fn spare_page(next: u32) -> PageImage {
    let mut image = PageImage::fresh(PageKind::Spare, 0, 0);
    image.put(0, &next.to_le_bytes());
    image
}

/// Takes the first spare page out of its chain. The caller holds the growth lock.
fn take_spare(index: Rel, meta: &Meta) -> IndexResult<Option<u32>> {
    if meta.spare == NO_BLOCK {
        return Ok(None);
    }
    KnownBlocks::new(index).check(meta.spare.saturating_add(1))?;
    let next = {
        let page = SharedPage::read(index, meta.spare);
        get_u32(page.view(PageKind::Spare)?.payload(), 0)
    };
    meta::update(index, |now| now.spare = next)?;
    Ok(Some(meta.spare))
}

/// The blocks of all spare pages, for verifying.
///
/// # Errors
/// Damage to a page, or a chain with a cycle.
pub fn spare_pages(index: Rel, meta: &Meta) -> IndexResult<Vec<u32>> {
    let index = meta.bind(index);
    let mut known = KnownBlocks::new(index);
    let mut found = Vec::new();
    let mut block = meta.spare;
    while block != NO_BLOCK {
        memory::check_for_interrupts();
        known.check(block.saturating_add(1))?;
        if found.len() as u32 > index.blocks() {
            return Err(Damage::new(block, "the chain of spare pages has a cycle"));
        }
        found.push(block);
        let page = SharedPage::read(index, block);
        block = get_u32(page.view(PageKind::Spare)?.payload(), 0);
    }
    Ok(found)
}

/// The blocks of the delta's pages. No other process adds pages to the delta, or takes pages out of it, meanwhile.
///
/// # Errors
/// Damage to a page.
pub fn pages(index: Rel, meta: &Meta) -> IndexResult<Vec<u32>> {
    let index = meta.bind(index);
    let mut known = KnownBlocks::new(index);
    let (mut found, mut block) = (Vec::new(), meta.delta_head);
    while block != NO_BLOCK {
        memory::check_for_interrupts();
        known.check(block.saturating_add(1))?;
        let page = SharedPage::read(index, block);
        let view = page.view(PageKind::Delta)?;
        // In a cycle some page does not have the number that is due, so the loop ends.
        if view.owner() != meta.delta_head_sequence + found.len() as u64 {
            return Err(Damage::new(block, BROKEN));
        }
        found.push(block);
        block = get_u32(view.payload(), 0);
    }
    Ok(found)
}

/// A sealed stretch of the delta, starting at the head.
pub struct Sealed {
    pub entries: Vec<DeltaEntry>,
    pages: Vec<u32>,
    next: u32,
    next_sequence: u64,
}

/// Seals the last page, so that everything up to it can be folded. Returns the sequence number of a page behind it. The
/// caller holds the maintenance lock.
///
/// # Errors
/// Damage to a page.
pub fn seal(index: Rel) -> IndexResult<u64> {
    let meta = Meta::read(index)?;
    if meta.delta_tail != NO_BLOCK {
        grow(index, &meta)?;
    }
    Meta::read(index).map(|meta| meta.delta_tail_sequence)
}

/// Reads at most `most` sealed pages from the head, with sequence numbers below `end`; None when there are none. The
/// caller holds the maintenance lock.
///
/// # Errors
/// Damage to a page.
pub fn read_sealed(index: Rel, most: usize, end: u64) -> IndexResult<Option<Sealed>> {
    let meta = Meta::read(index)?;
    let index = meta.bind(index);
    let mut sealed = Sealed {
        entries: Vec::new(),
        pages: Vec::new(),
        next: meta.delta_head,
        next_sequence: meta.delta_head_sequence,
    };
    let mut known = KnownBlocks::new(index);
    while sealed.next != NO_BLOCK && sealed.pages.len() < most && sealed.next_sequence < end {
        memory::check_for_interrupts();
        known.check(sealed.next.saturating_add(1))?;
        let page = SharedPage::read(index, sealed.next);
        let view = page.view(PageKind::Delta)?;
        let next = get_u32(view.payload(), 0);
        if next == NO_BLOCK {
            break;
        }
        sealed.entries.extend(entries(&view, sealed.next)?);
        sealed.pages.push(sealed.next);
        (sealed.next, sealed.next_sequence) = (next, sealed.next_sequence + 1);
    }
    Ok((!sealed.pages.is_empty()).then_some(sealed))
}

/// Takes the only page out of the chain, which has no entries. Nothing refers to its block any more. The caller holds
/// the maintenance lock, and makes sure that no other process uses the index.
///
/// # Errors
/// Damage to the meta page.
pub fn remove_empty(index: Rel) -> IndexResult<()> {
    meta::update(index, |meta| {
        (meta.delta_head, meta.delta_tail) = (NO_BLOCK, NO_BLOCK);
        // The next page gets a number that no page had before.
        meta.delta_tail_sequence += 1;
        meta.delta_head_sequence = meta.delta_tail_sequence;
    })
}

/// Takes a folded stretch out of the chain and keeps its pages for reuse. The caller holds the maintenance lock.
///
/// # Errors
/// Damage to a page.
pub fn drop_sealed(index: Rel, sealed: &Sealed) -> IndexResult<()> {
    let _lock = IndexLock::take(index, LockKind::DeltaGrowth);
    meta::update(index, |meta| {
        (meta.delta_head, meta.delta_head_sequence) = (sealed.next, sealed.next_sequence);
        // The tail is behind the chain's end when adding a page was interrupted before its last step.
        if meta.delta_tail_sequence < sealed.next_sequence {
            (meta.delta_tail, meta.delta_tail_sequence) = (sealed.next, sealed.next_sequence);
        }
    })?;
    for &block in &sealed.pages {
        let meta = Meta::read(index)?;
        let (index, next) = (meta.bind(index), meta.spare);
        wal::write_page(index, block, spare_page(next));
        meta::update(index, |meta| meta.spare = block)?;
    }
    Ok(())
}
