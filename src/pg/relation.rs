//! Relations: names, sizes, persistence, opening and closing.

use super::datum::Repr;
use super::{compat, text};
use pgrx::pg_sys;
use std::marker::PhantomData;

/// An open relation. Copies are cheap, and none outlives `'a`: the callback to which the server passed the relation, or
/// the [`OpenRel`] that closes it.
#[derive(Clone, Copy)]
pub struct Rel<'a> {
    raw: pg_sys::Relation,
    salt: u64,
    known_blocks: u32,
    open: PhantomData<&'a pg_sys::RelationData>,
}

impl<'a> Rel<'a> {
    /// Wraps a relation that is open in the server.
    ///
    /// # Safety
    /// `raw` is open, and stays open and suitably locked, for `'a`.
    pub(in crate::pg) unsafe fn from_raw(raw: pg_sys::Relation) -> Self {
        Self { raw, salt: 0, known_blocks: 0, open: PhantomData }
    }

    /// The raw pointer, for calls into the server.
    pub(in crate::pg) fn raw(self) -> pg_sys::Relation {
        self.raw
    }

    /// The same relation, with the seed of its index. The checksums of its pages depend on the seed, so that a page of
    /// another index is not accepted.
    pub fn salted(self, salt: u64) -> Self {
        Self { salt, ..self }
    }

    /// A number of blocks that the relation is known to have; 0 if nothing is known. It may have more.
    pub fn known_blocks(self) -> u32 {
        self.known_blocks
    }

    /// The same relation, locked, with the number of blocks that its file had when this process asked last: planning
    /// has mostly just done so. Whoever cuts the file off locks the relation and has all processes forget the number,
    /// which they do when they lock it next (smgrtruncate). A number that is too large would lose no row: it only makes
    /// a damaged index end in the server's own error about a file that is too short.
    fn with_remembered_blocks(self) -> Self {
        // SAFETY: the file's entry lives as long as the relcache entry of an open relation refers to it.
        let remembered = unsafe { self.data().rd_smgr.as_ref().map(|file| file.smgr_cached_nblocks[0]) };
        let known_blocks = remembered.filter(|&blocks| blocks != pg_sys::InvalidBlockNumber).unwrap_or(0);
        Self { known_blocks, ..self }
    }

    /// The seed of a block's checksum, besides its number; 0 for block 0, which holds the seed.
    pub fn salt_of(self, block: u32) -> u64 {
        if block == 0 { 0 } else { self.salt }
    }

    /// The server's relcache entry. Any call of the server may change it: no reference to it is kept over a call.
    fn data(&self) -> &pg_sys::RelationData {
        // SAFETY: open for 'a, so its relcache entry does not move.
        unsafe { &*self.raw }
    }

    fn class(&self) -> &pg_sys::FormData_pg_class {
        // SAFETY: rd_rel of an open relation is set, and the server frees it only together with the entry.
        unsafe { &*self.data().rd_rel }
    }

    /// The relation's OID.
    pub fn oid(self) -> pg_sys::Oid {
        self.data().rd_id
    }

    /// The relation's name, without its schema.
    pub fn name(self) -> String {
        // SAFETY: relname is a NUL-terminated NameData.
        unsafe { text::of_server(self.class().relname.data.as_ptr()) }
    }

    /// Schema and name, quoted where needed.
    pub fn qualified_name(self) -> String {
        // SAFETY: get_namespace_name returns NULL or a palloc'd string, quote_qualified_identifier a palloc'd one.
        unsafe {
            let schema = pg_sys::get_namespace_name(self.class().relnamespace);
            let quoted = pg_sys::quote_qualified_identifier(schema, self.class().relname.data.as_ptr());
            text::of_server(quoted)
        }
    }

    /// Number of the relation's files, which changes with each rewrite.
    pub fn file_number(self) -> u32 {
        compat::file_number(self.data())
    }

    /// OID of the role that owns the relation.
    pub fn owner(self) -> pg_sys::Oid {
        self.class().relowner
    }

    /// Size of the main fork in blocks, as the file system has it.
    pub fn blocks(self) -> u32 {
        // SAFETY: an open relation with storage.
        unsafe { pg_sys::RelationGetNumberOfBlocksInFork(self.raw, pg_sys::ForkNumber::MAIN_FORKNUM) }
    }

    /// The fill factor of a table, in percent: the macro RelationGetFillFactor.
    pub fn fill_factor(self) -> usize {
        let default = pg_sys::HEAP_DEFAULT_FILLFACTOR as i32;
        self.table_options().map_or(default, |options| options.fillfactor).max(0) as usize
    }

    /// Whether VACUUM may cut a table off, which takes a lock that queries on standbys may have to be cancelled for.
    /// What VACUUM itself was told is not known to the access method.
    pub fn allows_truncation(self) -> bool {
        compat::allows_truncation(self.table_options())
    }

    /// The options of a table or materialized view, if any are set.
    fn table_options(&self) -> Option<&pg_sys::StdRdOptions> {
        // SAFETY: the rd_options of a table or materialized view, null if it has none, are StdRdOptions.
        unsafe { self.data().rd_options.cast::<pg_sys::StdRdOptions>().as_ref() }
    }

    /// Whether changes must be WAL-logged: the macro RelationNeedsWAL. Under wal_level = minimal, relations that were
    /// created or rewritten in this transaction are synced at commit instead.
    pub fn needs_wal(self) -> bool {
        let permanent = self.class().relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT;
        // SAFETY: wal_level is a plain global of the server.
        let archived = unsafe { pg_sys::wal_level } >= pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32;
        permanent && (archived || !self.is_created_in_transaction())
    }

    /// Whether the relation, or its present file, was created in this transaction.
    pub fn is_created_in_transaction(self) -> bool {
        compat::created_in_transaction(self.data())
    }

    /// Whether the relation was created in this transaction: not only its present file.
    pub fn is_new(self) -> bool {
        self.data().rd_createSubid != 0 // InvalidSubTransactionId
    }

    /// Whether the relation is temporary.
    pub fn is_temporary(self) -> bool {
        self.class().relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP
    }

    /// Whether the table uses PostgreSQL's heap access method.
    pub fn is_heap(self) -> bool {
        // SAFETY: GetHeapamTableAmRoutine returns the address of a static.
        std::ptr::eq(self.data().rd_tableam, unsafe { pg_sys::GetHeapamTableAmRoutine() })
    }

    /// Number of key columns of an index (all columns: there is no INCLUDE).
    pub fn key_columns(self) -> usize {
        // SAFETY: rd_index of an open index relation.
        let index = unsafe { &*self.data().rd_index };
        usize::try_from(index.indnkeyatts).unwrap_or(0)
    }

    /// Whether the index may be used for queries.
    pub fn is_valid_index(self) -> bool {
        // SAFETY: rd_index of an open index relation.
        unsafe { (*self.data().rd_index).indisvalid }
    }

    /// Whether the index is built, so that inserts add to it.
    pub fn is_ready_index(self) -> bool {
        // SAFETY: rd_index of an open index relation.
        unsafe { (*self.data().rd_index).indisready }
    }

    /// The table that this index belongs to.
    pub fn table_of_index(self) -> pg_sys::Oid {
        // SAFETY: rd_index of an open index relation.
        unsafe { (*self.data().rd_index).indrelid }
    }

    /// Operator family, input type and collation of index column `column` (0-based).
    pub fn column_class(self, column: usize) -> ColumnClass {
        // SAFETY: the relcache keeps one entry per key column in each of these arrays.
        unsafe {
            let data = self.data();
            ColumnClass {
                family: *data.rd_opfamily.add(column),
                input: *data.rd_opcintype.add(column),
                collation: *data.rd_indcollation.add(column),
            }
        }
    }

    /// Type of the relation's column `column` (0-based).
    pub fn column_type(self, column: usize) -> pg_sys::Oid {
        // SAFETY: as column_name.
        unsafe { (*compat::attribute(self.data().rd_att, column)).atttypid }
    }

    /// Name of the relation's column `column` (0-based).
    pub fn column_name(self, column: usize) -> String {
        // SAFETY: the tuple descriptor of an open relation; the caller ensures that the column exists.
        unsafe {
            let attribute = compat::attribute(self.data().rd_att, column);
            text::of_server((*attribute).attname.data.as_ptr())
        }
    }

    /// Whether the values of the relation's column `column` (0-based) have this representation.
    pub(in crate::pg) fn stores_as(self, column: usize, repr: Repr) -> bool {
        // SAFETY: as column_name.
        repr.is_of(unsafe { &*compat::attribute(self.data().rd_att, column) })
    }

    /// The options bytea of an index; NULL if none were set.
    pub(in crate::pg) fn raw_options(self) -> *mut pg_sys::bytea {
        self.data().rd_options
    }
}

/// Properties of an index column's operator class.
#[derive(Clone, Copy)]
pub struct ColumnClass {
    /// Operator family.
    pub family: pg_sys::Oid,
    /// The operator class's input type.
    pub input: pg_sys::Oid,
    /// The column's collation in the index.
    pub collation: pg_sys::Oid,
}

/// A lock mode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    None,
    AccessShare,
    RowExclusive,
    ShareUpdateExclusive,
    Exclusive,
}

impl Mode {
    /// PostgreSQL's number of the mode.
    pub fn raw(self) -> pg_sys::LOCKMODE {
        (match self {
            Mode::None => pg_sys::NoLock,
            Mode::AccessShare => pg_sys::AccessShareLock,
            Mode::RowExclusive => pg_sys::RowExclusiveLock,
            Mode::ShareUpdateExclusive => pg_sys::ShareUpdateExclusiveLock,
            Mode::Exclusive => pg_sys::ExclusiveLock,
        }) as pg_sys::LOCKMODE
    }
}

/// A relation that was opened here. Drop closes it and releases the lock that was taken when it was opened; after
/// [`keep_lock`](Self::keep_lock) the lock is kept until the transaction ends.
pub struct OpenRel {
    raw: pg_sys::Relation,
    close: unsafe fn(pg_sys::Relation, pg_sys::LOCKMODE),
    release: Mode,
    known_blocks: u32,
}

impl OpenRel {
    /// Opens a table; the lock is released when the guard is dropped.
    pub fn table(oid: pg_sys::Oid, mode: Mode) -> Self {
        // SAFETY: table_open returns an open relation or raises an error.
        let raw = unsafe { pg_sys::table_open(oid, mode.raw()) };
        Self { raw, close: pg_sys::table_close, release: mode, known_blocks: 0 }
    }

    /// As [`OpenRel::table`]; None if the table does not exist any more.
    pub fn table_if_there(oid: pg_sys::Oid, mode: Mode) -> Option<Self> {
        // SAFETY: takes any OID. The lock is kept until the transaction ends if there is no such relation.
        let raw = unsafe { pg_sys::try_relation_open(oid, mode.raw()) };
        let open = || Self { raw, close: pg_sys::relation_close, release: mode, known_blocks: 0 };
        (!raw.is_null()).then(open)
    }

    /// Opens an index; the lock is released when the guard is dropped.
    pub fn index(oid: pg_sys::Oid, mode: Mode) -> Self {
        // SAFETY: index_open returns an open relation or raises an error.
        let raw = unsafe { pg_sys::index_open(oid, mode.raw()) };
        Self { raw, close: pg_sys::index_close, release: mode, known_blocks: 0 }
    }

    /// The same relation, of which this number of blocks is known to exist. Reading them does not ask the file system
    /// for the size of the file: where a query has more relations than a process may have open files, that would open
    /// it.
    pub fn known_to_have(mut self, blocks: u32) -> Self {
        self.known_blocks = blocks;
        self
    }

    /// Opens a table or an index for writing to it. None if it does not exist any more, or if another transaction has
    /// locked it so that this one would have to wait.
    pub fn if_free(oid: pg_sys::Oid) -> Option<Self> {
        let mode = Mode::RowExclusive;
        // SAFETY: both take any OID. The lock is kept until the transaction ends if there is no such relation. It is
        // held when the relation is opened, so that it is as the lock's holder must see it.
        let raw = unsafe {
            if !pg_sys::ConditionalLockRelationOid(oid, mode.raw()) {
                return None;
            }
            pg_sys::try_relation_open(oid, Mode::None.raw())
        };
        let open = || Self { raw, close: pg_sys::relation_close, release: mode, known_blocks: 0 };
        (!raw.is_null()).then(open)
    }

    /// The relation, lent as long as the guard lives.
    pub fn rel(&self) -> Rel<'_> {
        // SAFETY: opened in the constructor; closed only in drop(), which cannot run during the loan.
        let rel = unsafe { Rel::from_raw(self.raw) };
        Rel { known_blocks: self.known_blocks, ..rel }
    }

    /// Closes the relation without releasing the lock, which is kept until the transaction ends.
    pub fn keep_lock(mut self) {
        self.release = Mode::None;
    }
}

impl Drop for OpenRel {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: opened in the constructor, closed once. (While a panic unwinds, the abort of the transaction
            // closes it.)
            unsafe { (self.close)(self.raw, self.release.raw()) }
        }
    }
}

/// Indexes that a plan node has open until its query ends. They are no guards, because the node is freed with the
/// query's memory. For a query that failed, that happens after the abort of the transaction has closed all relations.
#[derive(Default)]
pub struct NodeIndexes(Vec<Rel<'static>>); // only lent for shorter lifetimes

impl NodeIndexes {
    /// Opens the indexes.
    pub(in crate::pg) fn open(oids: &[pg_sys::Oid], mode: pg_sys::LOCKMODE) -> Self {
        // SAFETY: index_open returns an open relation or raises an error. It stays open until close() consumes the
        // list, or the query fails: then the executor does not call the node any more.
        let open = |&oid: &pg_sys::Oid| unsafe { Rel::from_raw(pg_sys::index_open(oid, mode)) };
        Self(oids.iter().map(open).map(Rel::with_remembered_blocks).collect())
    }

    /// The indexes.
    pub fn rels(&self) -> &[Rel<'_>] {
        &self.0
    }

    /// One of the indexes.
    pub fn find(&self, oid: pg_sys::Oid) -> Option<Rel<'_>> {
        self.0.iter().find(|index| index.oid() == oid).copied()
    }

    /// Closes the indexes. Their locks are kept until the transaction ends, like those of the server's own index scans.
    pub fn close(self) {
        for index in self.0 {
            // SAFETY: opened in open(), closed once.
            unsafe { pg_sys::index_close(index.raw(), Mode::None.raw()) }
        }
    }
}

/// The table that an index belongs to; None when there is no such index.
pub fn table_of(index: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a catalog lookup with missing_ok.
    let oid = unsafe { pg_sys::IndexGetRelation(index, true) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// `relkind` and access method of any relation, without opening it; None when there is no such relation.
pub fn kind_and_method(oid: pg_sys::Oid) -> Option<(u8, pg_sys::Oid, String)> {
    // SAFETY: a syscache lookup, released below; the struct is valid until then.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::RELOID as i32, oid.into());
        if tuple.is_null() {
            return None;
        }
        let class = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
        let name = text::of_server((*class).relname.data.as_ptr());
        let found = ((*class).relkind as u8, (*class).relam, name);
        pg_sys::ReleaseSysCache(tuple);
        Some(found)
    }
}
