//! Lost blocks: those that nothing refers to. They become free extents.
//!
//! Each change of the index is one WAL record of one page. The order of changes is such that a crash, or an error,
//! between two of them may leave blocks that nothing refers to, but never blocks that two things refer to: the file was
//! extended, and no entry names the new blocks yet; an extent was taken out, to be joined to another one; pages had
//! left the delta, and were not spare pages yet.
//!
//! All that an index has is the meta page, the pages of the directory, the blocks of its entries, and the two chains of
//! the delta's pages and its spare pages. The directory is changed under the maintenance lock. The chains are changed
//! under the lock on the delta's growth, or under locks that no other process has the table with
//! ([`super::compact::shorten`]). While both locks are held, the other blocks of the file are lost. They stay so
//! without the locks: nobody uses a block to which nothing refers. (A build holds neither lock. No other process
//! maintains its index, and in its own process maintenance is refused.)
//!
//! A reader may still have an older meta page or directory, from before an error, that refers to such a block. It finds
//! another owner on the page once the block is used again, as with every block of a retired segment
//! ([`Directory::reserve`]).

use crate::pages::delta;
use crate::pages::directory::Directory;
use crate::pages::meta::{META_BLOCK, Meta};
use crate::pg::Rel;
use crate::pg::error::IndexResult;
use crate::pg::lock::{IndexLock, LockKind};
use skip_segment::compaction::{BlockExtent, gaps};

/// Makes all lost blocks free extents. The caller holds the maintenance lock. It has folded the delta, so that few
/// pages are read while inserts cannot add one.
///
/// # Errors
/// Damage to the index.
pub fn reclaim(directory: &mut Directory<'_>) -> IndexResult<()> {
    let (lost, blocks) = find(directory)?;
    directory.add_lost(&lost, blocks)
}

/// The lost blocks, and the number of blocks of the file.
fn find(directory: &Directory<'_>) -> IndexResult<(Vec<BlockExtent>, u32)> {
    let index = directory.index();
    // After many updates there may be thousands of pages. They are brought into the cache first: inserts that need a
    // new page of the delta wait for the lock, and have the server cancel an autovacuum that holds it for a second.
    let _ = pages_of_delta(index);
    let _growth = IndexLock::take(index, LockKind::DeltaGrowth);
    let of_delta = pages_of_delta(index)?;
    let pages = directory.pages().iter().copied().chain(of_delta).chain([META_BLOCK]);
    let used = directory.extents().chain(pages.map(|block| (block, 1)));
    let used: Vec<BlockExtent> = used.map(|(first, blocks)| BlockExtent { first, blocks }).collect();
    let blocks = index.blocks();
    Ok((gaps(&used, blocks), blocks))
}

/// The delta's pages, and its spare pages. Without the lock on the delta's growth the result, or the damage found,
/// means nothing.
fn pages_of_delta(index: Rel<'_>) -> IndexResult<Vec<u32>> {
    let meta = Meta::read(index)?;
    Ok([delta::pages(index, &meta)?, delta::spare_pages(index, &meta)?].concat())
}
