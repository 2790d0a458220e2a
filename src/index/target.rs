//! The index that a function is given: what it must be, who may call the function, which locks are taken.
//!
//! A partitioned index has no storage. Functions that process one index after another process those of its partitions
//! ([`Targets`]). The rights are checked once, for the index that was named: who may read, or maintain, a partitioned
//! table reaches all rows of its partitions through it.

use crate::pages::meta::Meta;
use crate::pg::sandbox::in_recovery;
use crate::pg::{OpenRel, catalog, compat, fail, lock, memory, relation};
use pgrx::{PgSqlErrorCode, pg_sys};

/// Why an index is not valid.
const NOT_FINISHED: &str = "CREATE INDEX CONCURRENTLY or REINDEX INDEX CONCURRENTLY has not finished, or has failed; \
    or the index is being dropped.";

/// An index and its table, open and locked.
pub struct Target {
    pub table: OpenRel,
    pub index: OpenRel,
}

impl Target {
    /// Raises an error if the index is not built.
    fn check_built(&self) {
        let index = self.index.rel();
        // CREATE INDEX CONCURRENTLY makes an empty file, and waits for other transactions before it builds the index.
        // If the server dies during the build, some pages may be there, others of zeros, or none.
        let is_empty = || !index.is_valid_index() && Meta::read(index).is_err();
        if !index.is_ready_index() || is_empty() {
            fail(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("index \"{}\" is not built", index.name()),
                Some(NOT_FINISHED.into()),
                Some(format!("Wait for the command, or REINDEX INDEX {}.", index.qualified_name())),
            );
        }
    }

    /// Closes both. Their locks are held until the transaction ends.
    pub fn keep_locks(self) {
        self.index.keep_lock();
        self.table.keep_lock();
    }
}

/// The named index, or the indexes of the partitions of a partitioned one. They are opened one after another.
pub struct Targets {
    indexes: std::vec::IntoIter<pg_sys::Oid>,
    mode: lock::Mode,
    of_partitions: bool,
}

impl Iterator for Targets {
    type Item = Target;

    fn next(&mut self) -> Option<Target> {
        memory::check_for_interrupts();
        // A partition may have been dropped since they were listed.
        let is_there = |index: &pg_sys::Oid| !self.of_partitions || relation::table_of(*index).is_some();
        let index = self.indexes.find(is_there)?;
        Some(open(index, self.mode))
    }
}

/// Opens indexes for functions that change them. The table is locked before the index, as everywhere.
pub fn for_maintenance(index: pg_sys::Oid) -> Targets {
    let named = Named::find(index);
    if in_recovery() {
        fail(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "recovery is in progress".into(),
            Some("Skip indexes cannot be maintained on a standby.".into()),
            Some("Call the function on the primary.".into()),
        );
    }
    named.check_may_maintain();
    named.targets(lock::Mode::ShareUpdateExclusive)
}

/// Opens indexes for functions that only read them, but keep maintenance waiting while they do.
pub fn for_verifying(index: pg_sys::Oid) -> Targets {
    let named = Named::find(index);
    named.check_may_maintain();
    named.targets(lock::Mode::AccessShare)
}

/// Opens indexes for functions that only read them, and return nothing about single values.
pub fn for_reading(index: pg_sys::Oid) -> impl Iterator<Item = Target> {
    let named = Named::find(index);
    let needed = "Inspecting an index requires SELECT on all rows of its table, or membership in pg_monitor.";
    named.check_may(|table| catalog::may_read(table) || catalog::is_monitor(), needed);
    named.targets(lock::Mode::AccessShare).inspect(Target::check_built)
}

/// Opens an index for functions that tell whether the table has a value, and in which ranges, not only what the index
/// is like.
pub fn for_reading_rows(index: pg_sys::Oid) -> Target {
    let named = Named::find(index);
    named.check_may(catalog::may_read, "The function requires SELECT on all rows of the table.");
    named.check_has_storage();
    let target = open(index, lock::Mode::AccessShare);
    if !target.index.rel().is_valid_index() {
        let name = target.index.rel().qualified_name();
        fail(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("index \"{}\" is not valid", named.name),
            Some(format!("{NOT_FINISHED} The index may lack rows.")),
            Some(format!("Wait for the command, or REINDEX INDEX {name}.")),
        );
    }
    target
}

/// A skip index that is not open yet.
struct Named {
    index: pg_sys::Oid,
    table: pg_sys::Oid,
    name: String,
    is_partitioned: bool,
}

impl Named {
    /// Finds a relation by its OID; raises an error unless it is an index of this access method.
    fn find(index: pg_sys::Oid) -> Self {
        let Some((kind, method, name)) = relation::kind_and_method(index) else {
            fail(
                PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
                format!("there is no relation with OID {}", index.to_u32()),
                Some("It may have been dropped meanwhile.".into()),
                Some("Name the index, for example 'my_index'::regclass.".into()),
            );
        };
        let is_index = matches!(kind, pg_sys::RELKIND_INDEX | pg_sys::RELKIND_PARTITIONED_INDEX);
        if !is_index || catalog::access_method_oid("skip") != Some(method) {
            fail(
                PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                format!("\"{name}\" is not a skip index"),
                Some("The function works on indexes made with CREATE INDEX … USING skip.".into()),
                Some("To list them: SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'skip'.".into()),
            );
        }
        let table = relation::table_of(index).unwrap_or(pg_sys::InvalidOid);
        Self { index, table, name, is_partitioned: kind == pg_sys::RELKIND_PARTITIONED_INDEX }
    }

    fn check_may_maintain(&self) {
        if !compat::may_maintain(self.index, self.table) {
            fail(
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("must be owner of index {}", self.name),
                Some(
                    "Only the owner of an index, and roles that may maintain its table, can summarize or verify the index."
                        .into(),
                ),
                Some("Call the function as the owner of the index, or run VACUUM.".into()),
            );
        }
    }

    fn check_may(&self, may_read: impl Fn(pg_sys::Oid) -> bool, needed: &str) {
        if !may_read(self.table) {
            fail(
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for index {}", self.name),
                Some(needed.into()),
                None,
            );
        }
    }

    fn check_has_storage(&self) {
        if self.is_partitioned {
            let name = &self.name;
            fail(
                PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                format!("index \"{name}\" belongs to a partitioned table"),
                Some("A partitioned index has no block ranges of its own.".into()),
                Some(format!("Name the index of a partition: SELECT * FROM pg_partition_tree('{name}').")),
            );
        }
    }

    fn targets(self, mode: lock::Mode) -> Targets {
        let indexes = if self.is_partitioned {
            catalog::leaf_partitions(self.index, pg_sys::RELKIND_INDEX)
        } else {
            vec![self.index]
        };
        Targets { indexes: indexes.into_iter(), mode, of_partitions: self.is_partitioned }
    }
}

fn open(index: pg_sys::Oid, mode: lock::Mode) -> Target {
    let table_oid = relation::table_of(index).unwrap_or(pg_sys::InvalidOid);
    let table = OpenRel::table(table_oid, mode);
    let index = OpenRel::index(index, mode);
    // The index may have been dropped, and its OID reused, before it was locked.
    if relation::table_of(index.rel().oid()) != Some(table_oid) {
        fail(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            format!("could not open the table of index \"{}\"", index.rel().name()),
            Some("The index was dropped meanwhile, and another one was made.".into()),
            Some("Call the function again.".into()),
        );
    }
    Target { table, index }
}
