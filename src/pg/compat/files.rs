//! The files of a relation: their number, new blocks, and buffers that may still hold a block. In 16, the server gave
//! other names to what identifies files.

use pgrx::pg_sys;

/// Whether the relation's storage was created in this transaction (rd_createSubid, or the relfilenode's).
pub fn created_in_transaction(rel: &pg_sys::RelationData) -> bool {
    #[cfg(feature = "pg15")]
    let storage = rel.rd_firstRelfilenodeSubid;
    #[cfg(not(feature = "pg15"))]
    let storage = rel.rd_firstRelfilelocatorSubid;
    // InvalidSubTransactionId is 0 in all versions.
    rel.rd_createSubid != 0 || storage != 0
}

/// The relation's file number (relfilenode).
pub fn file_number(rel: &pg_sys::RelationData) -> u32 {
    #[cfg(feature = "pg15")]
    return rel.rd_node.relNode.to_u32();
    #[cfg(not(feature = "pg15"))]
    return rel.rd_locator.relNumber.to_u32();
}

/// The identifier of a relation's files.
#[cfg(feature = "pg15")]
pub type Locator = pg_sys::RelFileNode;
#[cfg(not(feature = "pg15"))]
pub type Locator = pg_sys::RelFileLocator;

/// Whether two identifiers are those of the same files.
pub fn are_same_files(one: &Locator, other: &Locator) -> bool {
    #[cfg(feature = "pg15")]
    let parts = |of: &Locator| (of.spcNode, of.dbNode, of.relNode);
    #[cfg(not(feature = "pg15"))]
    let parts = |of: &Locator| (of.spcOid, of.dbOid, of.relNumber);
    parts(one) == parts(other)
}

/// Adds blocks to the end of the main fork in one go, without a buffer for each. They are zero, and in 15 they take no
/// room on disk before they are written, as those that a hash index adds. Returns false if that is not possible, and
/// nothing was done.
///
/// # Safety
/// `rel` is open, the extension lock is held, and `first` is its number of blocks.
pub unsafe fn extend_file(rel: pg_sys::Relation, first: u32, count: u32) -> bool {
    #[repr(C, align(4096))]
    #[cfg(feature = "pg15")]
    struct ZeroPage([u8; pg_sys::BLCKSZ as usize]);
    let main = pg_sys::ForkNumber::MAIN_FORKNUM;
    // SAFETY: as the caller promises. Whoever asked for the number of blocks has opened the files; invalidations, which
    // close them, are not processed in between. The page is copied to the file.
    unsafe {
        let files = (*rel).rd_smgr;
        let Some(last) = first.checked_add(count).and_then(|end| end.checked_sub(1)) else { return false };
        if files.is_null() || last < first || last == pg_sys::InvalidBlockNumber {
            return false;
        }
        #[cfg(feature = "pg15")]
        {
            let mut page = ZeroPage([0; pg_sys::BLCKSZ as usize]);
            pg_sys::smgrextend(files, main, last, page.0.as_mut_ptr().cast(), false);
        }
        #[cfg(not(feature = "pg15"))]
        {
            let Ok(count) = i32::try_from(count) else { return false };
            pg_sys::smgrzeroextend(files, main, first, count, false);
        }
    }
    true
}

/// Called without pgrx's guard, which would cost aminsert as much as the pin itself. The only error it can raise is
/// that there is no memory to record the pin. That jump skips no destructor: between aminsert's entry and here there
/// are only plain values.
mod unguarded {
    // SAFETY: the signature of bufmgr.h in every supported version.
    unsafe extern "C-unwind" {
        pub fn ReadRecentBuffer(
            locator: super::Locator,
            fork: pgrx::pg_sys::ForkNumber::Type,
            block: pgrx::pg_sys::BlockNumber,
            recent: pgrx::pg_sys::Buffer,
        ) -> bool;
    }
}

/// Pins a buffer if it still holds this block of the relation's main fork. No frame between the server and this
/// function may have a value with a destructor.
///
/// # Safety
/// `rel` is open and `buffer` is a buffer number that was once valid in this backend.
pub unsafe fn pin_recent(rel: pg_sys::Relation, block: u32, buffer: pg_sys::Buffer) -> bool {
    // SAFETY: an open relation has its locator; a number that this backend once got is that of a buffer. The server
    // itself checks which page is in it.
    unsafe { unguarded::ReadRecentBuffer(locator(rel), pg_sys::ForkNumber::MAIN_FORKNUM, block, buffer) }
}

/// As [`pin_recent`], but may be called from anywhere, and the relation need not be open.
///
/// # Safety
/// `buffer` is a buffer number that was once valid in this backend. The file is not that of a temporary table.
pub unsafe fn pin_recent_guarded(file: Locator, block: u32, buffer: pg_sys::Buffer) -> bool {
    // SAFETY: as in pin_recent().
    unsafe { pg_sys::ReadRecentBuffer(file, pg_sys::ForkNumber::MAIN_FORKNUM, block, buffer) }
}

/// The numbers that make up such an identifier: tablespace, database, file.
pub fn numbers_of(file: &Locator) -> [u32; 3] {
    #[cfg(feature = "pg15")]
    return [file.spcNode.to_u32(), file.dbNode.to_u32(), file.relNode.to_u32()];
    #[cfg(not(feature = "pg15"))]
    return [file.spcOid.to_u32(), file.dbOid.to_u32(), file.relNumber.to_u32()];
}

/// The identifier of a relation's files.
///
/// # Safety
/// `rel` is open.
pub unsafe fn locator(rel: pg_sys::Relation) -> Locator {
    // SAFETY: the relcache entry of an open relation does not move.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*rel).rd_node;
        #[cfg(not(feature = "pg15"))]
        return (*rel).rd_locator;
    }
}
