//! The part of the meta page ([`super::meta`]) that an insert reads for each row, without the page's lock.
//!
//! Invariant: the words are read after the row's tuple is in the heap. [`PeekedMeta::read`] says why no lock is needed.

use super::meta::{MAGIC, META_BLOCK};
use crate::pg::am::InsertCache;
use crate::pg::{Damage, Rel, error::IndexResult, page};
use std::sync::atomic::{Ordering, compiler_fence, fence};

/// The part of the meta page that `aminsert` needs for most tuples.
#[derive(Clone, Copy)]
pub struct PeekedMeta {
    pub watermark: u32,
    pub pages_per_range: u32,
    /// The lower half of the generation.
    pub generation: u32,
}

impl PeekedMeta {
    /// Reads watermark, range size and generation under a pin, without the page's content lock. That is enough,
    /// because the caller's tuple is on its heap page already. If a summarizer scanned that page before the tuple was
    /// there, it had stored the higher watermark before the scan, and had raised the generation for what it retired
    /// before. It released the heap page's lock, and the inserter took that lock afterwards, which makes the stores
    /// visible here. Each word is read as a whole, and never from a copy of the page.
    ///
    /// A relaxed load is enough on any processor where the summarizer scans the page. The summarizer stores the
    /// watermark, then releases the heap page's lock; the inserter takes that lock, then loads the watermark. Releasing
    /// and taking a lock are a release and an acquire, so the store *happens before* the load. A load never gives a
    /// value older than one whose store happened before it (coherence), and it is never moved before an acquire that
    /// precedes it. An acquire load would only order what comes after it, and the pages that the inserter reads next
    /// are read under their own locks. If the inserter had the heap page first, either value is right, because the scan
    /// sees the tuple.
    ///
    /// It may not have scanned the page, because it had read the table's size before the block was added. Then no lock
    /// of a heap page orders the two. The summarizer stores the watermark, then reads the size. The inserter, or the
    /// process that added the block before, changes the size, then the inserter loads the watermark. A full barrier in
    /// each ([`meta::update`](super::meta::update), and `after_the_row` here) makes one of them see what the other one
    /// has stored: the block is scanned, or the new watermark is loaded. The same holds for the generation, which a
    /// rescan raises before it reads the size.
    ///
    /// The page's checksum is not verified either. If the page is damaged, every query fails.
    ///
    /// # Errors
    /// Damage to the meta page; only a wrong magic number is detected.
    pub fn read(index: Rel) -> IndexResult<Self> {
        after_the_row();
        Self::of_words(page::peek_meta(index, Self::PLACES)?)
    }

    /// The same for an insert, whose statement may keep the pin of the page.
    ///
    /// # Errors
    /// As [`PeekedMeta::read`].
    #[inline]
    pub fn of_insert<T: Default + 'static>(index: Rel, cache: &mut InsertCache<'_, T>) -> IndexResult<Self> {
        after_the_row();
        Self::of_words(cache.peek_meta(index, Self::PLACES)?)
    }

    /// Where the words are in the page's payload: magic number, watermark, pages per range, lower half of the
    /// generation.
    const PLACES: [usize; 4] = [0, 20, 16, 32];

    #[inline]
    fn of_words([magic, watermark, pages_per_range, generation]: [u32; 4]) -> IndexResult<Self> {
        match magic {
            MAGIC => Ok(Self { watermark, pages_per_range: pages_per_range.max(1), generation }),
            _ => Err(Damage::new(META_BLOCK, "this is not the meta page of a skip index")),
        }
    }
}

/// A full barrier: nothing that comes after it is read before what came before it can be seen by all processes. On x86
/// the release of the heap page's lock has been one, because it is an atomic exchange; it need only stay before.
#[inline]
fn after_the_row() {
    if cfg!(target_arch = "x86_64") {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
