//! The index that a function was given: what it must be, who may ask, which locks are taken.

use crate::pg::sandbox::in_recovery;
use crate::pg::{OpenRel, catalog, compat, fail, lock, relation};
use pgrx::{PgSqlErrorCode, pg_sys};

/// An index and its table, open and locked.
pub struct Target {
    pub table: OpenRel,
    pub index: OpenRel,
}

impl Target {
    /// Closes both; their locks stay until the transaction ends.
    pub fn keep_locks(self) {
        self.index.keep_lock();
        self.table.keep_lock();
    }
}

/// For functions that change the index. The table is locked before the index, as everywhere.
pub fn for_maintenance(index: pg_sys::Oid) -> Target {
    let name = check_is_skip_index(index);
    if in_recovery() {
        fail(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "recovery is in progress".into(),
            Some("Skip indexes cannot be maintained on a standby.".into()),
            Some("Call the function on the primary.".into()),
        );
    }
    let table = relation::table_of(index).unwrap_or(pg_sys::InvalidOid);
    check_may_maintain(index, table, &name);
    open(index, table, lock::Mode::ShareUpdateExclusive)
}

fn check_may_maintain(index: pg_sys::Oid, table: pg_sys::Oid, name: &str) {
    if !compat::may_maintain(index, table) {
        fail(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("must be owner of index {name}"),
            Some(
                "Only the owner of an index, and who may maintain its table, can summarize or verify it."
                    .into(),
            ),
            Some("Let the owner call the function, or run VACUUM.".into()),
        );
    }
}

/// For functions that only look, but keep maintenance waiting while they do.
pub fn for_verifying(index: pg_sys::Oid) -> Target {
    let name = check_is_skip_index(index);
    let table = relation::table_of(index).unwrap_or(pg_sys::InvalidOid);
    check_may_maintain(index, table, &name);
    open(index, table, lock::Mode::AccessShare)
}

/// For functions that only look.
pub fn for_reading(index: pg_sys::Oid) -> Target {
    let needed = "Looking into an index needs SELECT on all rows of its table, or membership in pg_monitor.";
    checked_for_reading(index, |table| catalog::may_read(table) || catalog::is_monitor(), needed)
}

/// For functions that tell of the table's rows, not just of what is in the index.
pub fn for_reading_rows(index: pg_sys::Oid) -> Target {
    checked_for_reading(index, catalog::may_read, "The function needs SELECT on all rows of the table.")
}

fn checked_for_reading(index: pg_sys::Oid, may_read: impl Fn(pg_sys::Oid) -> bool, needed: &str) -> Target {
    let name = check_is_skip_index(index);
    let table = relation::table_of(index).unwrap_or(pg_sys::InvalidOid);
    if !may_read(table) {
        fail(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("permission denied for index {name}"),
            Some(needed.into()),
            None,
        );
    }
    open(index, table, lock::Mode::AccessShare)
}

fn open(index: pg_sys::Oid, table_oid: pg_sys::Oid, mode: lock::Mode) -> Target {
    let table = OpenRel::table(table_oid, mode);
    let index = OpenRel::index(index, mode);
    // The index may have been dropped, and its OID used again, before the lock was there.
    if relation::table_of(index.oid()) != Some(table_oid) {
        fail(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            format!("could not open the table of index \"{}\"", index.name()),
            None,
            None,
        );
    }
    Target { table, index }
}

/// Raises an error unless this is an index of this access method with storage; returns its name.
fn check_is_skip_index(oid: pg_sys::Oid) -> String {
    let Some((kind, method, name)) = relation::kind_and_method(oid) else {
        fail(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            format!("there is no relation with OID {}", oid.to_u32()),
            None,
            None,
        );
    };
    let is_skip = matches!(kind, pg_sys::RELKIND_INDEX | pg_sys::RELKIND_PARTITIONED_INDEX)
        && catalog::access_method_oid("skip") == Some(method);
    if !is_skip {
        fail(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{name}\" is not a skip index"),
            Some("The function works on indexes made with CREATE INDEX … USING skip.".into()),
            Some("SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'skip' lists them.".into()),
        );
    }
    if kind == pg_sys::RELKIND_PARTITIONED_INDEX {
        fail(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("index \"{name}\" belongs to a partitioned table"),
            Some("It has no storage of its own.".into()),
            Some(format!("Name the index of a partition: SELECT * FROM pg_partition_tree('{name}').")),
        );
    }
    name
}
