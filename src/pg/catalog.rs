//! Catalog lookups: access methods, permissions, operator classes.

use super::list::{list, oids};
use super::{boundary, family, text};
use pgrx::pg_sys;
use std::ffi::{CStr, CString};

/// OID of an access method by name.
pub fn access_method_oid(name: &str) -> Option<pg_sys::Oid> {
    let name = CString::new(name).ok()?;
    // SAFETY: a catalog lookup with missing_ok.
    let oid = unsafe { pg_sys::get_am_oid(name.as_ptr(), true) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// The database that this backend is connected to.
pub fn current_database() -> pg_sys::Oid {
    // SAFETY: a plain global of the server.
    unsafe { pg_sys::MyDatabaseId }
}

/// Whether there is a relation with this OID in the current database.
pub fn relation_exists(oid: pg_sys::Oid) -> bool {
    exists(pg_sys::SysCacheIdentifier::RELOID as i32, oid)
}

/// Whether there is a database with this OID.
pub fn database_exists(oid: pg_sys::Oid) -> bool {
    exists(pg_sys::SysCacheIdentifier::DATABASEOID as i32, oid)
}

fn exists(cache: i32, oid: pg_sys::Oid) -> bool {
    // SAFETY: a syscache tuple, released at once.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(cache, oid.into());
        if !tuple.is_null() {
            pg_sys::ReleaseSysCache(tuple);
        }
        !tuple.is_null()
    }
}

/// Whether the current user may read all rows of a table.
pub fn may_read(table: pg_sys::Oid) -> bool {
    // SAFETY: a plain global of the server.
    may_be_read_by(table, unsafe { pg_sys::GetUserId() })
}

/// Whether a user may read all rows of a table.
pub fn may_be_read_by(table: pg_sys::Oid, user: pg_sys::Oid) -> bool {
    // SAFETY: catalog lookups.
    unsafe {
        let select = pg_sys::pg_class_aclcheck(table, user, u64::from(pg_sys::ACL_SELECT) as _);
        // Row security hides rows, and the ranges that may hold a value would reveal them.
        let all_rows =
            pg_sys::check_enable_rls(table, user, true) != pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32;
        select == pg_sys::AclResult::ACLCHECK_OK && all_rows
    }
}

/// The user who gets the session's messages, whoever the current user is: in VACUUM and in functions with the rights of
/// their owner it is another one.
pub fn outer_user() -> pg_sys::Oid {
    // SAFETY: reads the session's state.
    unsafe { pg_sys::GetOuterUserId() }
}

/// Whether the current user has the privileges of pg_monitor.
pub fn is_monitor() -> bool {
    // SAFETY: catalog lookups.
    unsafe { pg_sys::has_privs_of_role(pg_sys::GetUserId(), pg_sys::Oid::from(pg_sys::ROLE_PG_MONITOR)) }
}

/// A member of an operator family: an operator or a support function.
pub struct FamilyMember {
    /// Strategy or support number.
    pub number: i16,
    pub left: pg_sys::Oid,
    pub right: pg_sys::Oid,
    /// The operator or function.
    pub object: pg_sys::Oid,
    /// For an operator: whether it is a search operator.
    pub is_search: bool,
}

/// The operators of a family.
pub fn operators(family: pg_sys::Oid) -> Vec<FamilyMember> {
    members(family, pg_sys::SysCacheIdentifier::AMOPSTRATEGY as i32, |form: &pg_sys::FormData_pg_amop| {
        FamilyMember {
            number: form.amopstrategy,
            left: form.amoplefttype,
            right: form.amoprighttype,
            object: form.amopopr,
            is_search: form.amoppurpose as u8 == pg_sys::AMOP_SEARCH,
        }
    })
}

/// The support functions of a family.
pub fn functions(family: pg_sys::Oid) -> Vec<FamilyMember> {
    members(family, pg_sys::SysCacheIdentifier::AMPROCNUM as i32, |form: &pg_sys::FormData_pg_amproc| {
        FamilyMember {
            number: form.amprocnum,
            left: form.amproclefttype,
            right: form.amprocrighttype,
            object: form.amproc,
            is_search: false,
        }
    })
}

fn members<T>(family: pg_sys::Oid, cache: i32, read: impl Fn(&T) -> FamilyMember) -> Vec<FamilyMember> {
    // SAFETY: a syscache list of the family's rows, whose struct is T, as the cache's id says.
    unsafe {
        let none = pg_sys::Datum::null();
        let list = pg_sys::SearchSysCacheList(cache, 1, family.into(), none, none);
        let count = usize::try_from((*list).n_members).unwrap_or(0);
        let rows = (0..count).map(|i| {
            let member = *(*list).members.as_ptr().add(i);
            read(&*pg_sys::GETSTRUCT(&raw mut (*member).tuple).cast::<T>())
        });
        let found = rows.collect();
        pg_sys::ReleaseCatCacheList(list);
        found
    }
}

/// Whether an object comes with the server, or is InvalidOid: neither a user nor an extension has made it. Its OID is
/// never given to another object.
pub fn is_built_in(oid: pg_sys::Oid) -> bool {
    oid.to_u32() < pg_sys::FirstNormalObjectId
}

/// Result and argument types of a function.
pub fn signature(function: pg_sys::Oid) -> (pg_sys::Oid, Vec<pg_sys::Oid>) {
    // SAFETY: a syscache tuple, released after its contents were copied; proargtypes has pronargs elements.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::PROCOID as i32, function.into());
        if tuple.is_null() {
            return (pg_sys::InvalidOid, Vec::new());
        }
        let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>();
        let count = usize::try_from((*form).pronargs).unwrap_or(0);
        let first = (&raw const (*form).proargtypes.values).cast::<pg_sys::Oid>();
        let arguments = (0..count).map(|i| *first.add(i)).collect();
        let result = (*form).prorettype;
        pg_sys::ReleaseSysCache(tuple);
        (result, arguments)
    }
}

/// Left and right input types and the result type of an operator.
pub fn operator_types(operator: pg_sys::Oid) -> Option<(pg_sys::Oid, pg_sys::Oid, pg_sys::Oid)> {
    // SAFETY: a syscache tuple, released after its contents were copied.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::OPEROID as i32, operator.into());
        if tuple.is_null() {
            return None;
        }
        let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_operator>();
        let types = (form.oprleft, form.oprright, form.oprresult);
        pg_sys::ReleaseSysCache(tuple);
        Some(types)
    }
}

/// Number of the column aggtransfn in pg_aggregate.h, the same in all supported versions.
const AGGTRANSFN: i16 = 4;

/// The step function of an aggregate; None if there is no such aggregate.
pub fn step_function_of(aggregate: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a syscache tuple, released after its contents were copied.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::AGGFNOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, aggregate.into());
        if tuple.is_null() {
            return None;
        }
        let mut is_null = false;
        let step = pg_sys::SysCacheGetAttr(cache, tuple, AGGTRANSFN, &mut is_null);
        pg_sys::ReleaseSysCache(tuple);
        Some(pg_sys::Oid::from(step.value() as u32))
    }
}

/// Whether an operator may be true for NULL. No index tells which rows such an operator finds.
pub fn may_match_null(operator: pg_sys::Oid) -> bool {
    let is_built_in = is_built_in(operator); // those of operator classes are all strict
    // SAFETY: a catalog lookup of an operator that a query uses.
    !is_built_in && unsafe { !pg_sys::op_strict(operator) }
}

/// Whether an operator is a member of an operator family.
pub fn is_in_family(operator: pg_sys::Oid, family: pg_sys::Oid) -> bool {
    family::member(operator, family).is_some()
}

/// An operator with its argument types, in SQL's format.
pub fn operator_signature(operator: pg_sys::Oid) -> String {
    // SAFETY: a palloc'd string; a number for a missing operator.
    unsafe { text::of_server(pg_sys::format_operator(operator)) }
}

/// A function with its argument types, in SQL's format.
pub fn function_signature(function: pg_sys::Oid) -> String {
    // SAFETY: a palloc'd string; a number for a missing function.
    unsafe { text::of_server(pg_sys::format_procedure(function)) }
}

/// Whether values of one type are also values of the other, without conversion.
pub fn is_binary_coercible(from: pg_sys::Oid, to: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::IsBinaryCoercible(from, to) }
}

/// The extended hash function that the server's type cache has for a type; None if values of the type, including all
/// their parts, cannot be hashed to 64 bits.
pub fn extended_hash(oid: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: the type cache's entry lives as long as the backend.
    let function = unsafe {
        (*pg_sys::lookup_type_cache(oid, pg_sys::TYPECACHE_HASH_EXTENDED_PROC as i32)).hash_extended_proc
    };
    (function != pg_sys::InvalidOid).then_some(function)
}

/// Whether values of a type can be hashed, and so can all that they are made of.
pub fn has_hash(oid: pg_sys::Oid) -> bool {
    // SAFETY: the type cache's entry lives as long as the backend.
    let function = unsafe { (*pg_sys::lookup_type_cache(oid, pg_sys::TYPECACHE_HASH_PROC as i32)).hash_proc };
    function != pg_sys::InvalidOid
}

/// Whether values of a type have an order by default, and so do all that they are made of.
pub fn has_order(oid: pg_sys::Oid) -> bool {
    // SAFETY: the type cache's entry lives as long as the backend.
    let function = unsafe { (*pg_sys::lookup_type_cache(oid, pg_sys::TYPECACHE_CMP_PROC as i32)).cmp_proc };
    function != pg_sys::InvalidOid
}

/// Whether a function may run in parallel workers.
pub fn is_parallel_safe(function: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::func_parallel(function) as u8 == pg_sys::PROPARALLEL_SAFE }
}

/// The number of the support function that names the way in which a value becomes several keys. The two after it make
/// keys of values and of queries.
pub const KEYS_FUNCTION: i16 = 3;
/// The highest number of a support function.
pub const LAST_FUNCTION: i16 = 5;

/// amadjustmembers: operators may leave a family without its operator class; the functions of a class that
/// say how its values become keys may not; the options function is optional.
pub(super) unsafe extern "C-unwind" fn adjust_members(
    family: pg_sys::Oid,
    class: pg_sys::Oid,
    operators: *mut pg_sys::List,
    functions: *mut pg_sys::List,
) {
    boundary::callback(|| {
        // SAFETY: lists of OpFamilyMember; the purpose of this callback is to change them.
        unsafe {
            for member in [operators, functions].into_iter().flat_map(|members| list(members)) {
                let member: *mut pg_sys::OpFamilyMember = member;
                let keys = i32::from(KEYS_FUNCTION)..=i32::from(LAST_FUNCTION);
                let number = (*member).number;
                let is_needed = (*member).is_func && (number == 1 || keys.contains(&number));
                let of_class = class != pg_sys::InvalidOid && is_needed;
                (*member).ref_is_hard = of_class;
                (*member).ref_is_family = !of_class;
                (*member).refobjid = if of_class { class } else { family };
            }
        }
    })
}

/// Correlation between the order of a table's rows and that of a column's values, -1 to 1, if ANALYZE has computed it.
pub fn correlation(table: pg_sys::Oid, attribute: i16) -> Option<f64> {
    // SAFETY: a syscache tuple and the statistics read from it, released afterwards.
    unsafe {
        let tuple = pg_sys::SearchSysCache3(
            pg_sys::SysCacheIdentifier::STATRELATTINH as i32,
            table.into(),
            attribute.into(),
            false.into(),
        );
        if tuple.is_null() {
            return None;
        }
        let mut slot = pg_sys::AttStatsSlot::default();
        let found = pg_sys::get_attstatsslot(
            &mut slot,
            tuple,
            pg_sys::STATISTIC_KIND_CORRELATION as i32,
            pg_sys::InvalidOid,
            pg_sys::ATTSTATSSLOT_NUMBERS as i32,
        );
        let correlation = (found && slot.nnumbers > 0).then(|| f64::from(*slot.numbers));
        if found {
            pg_sys::free_attstatsslot(&mut slot);
        }
        pg_sys::ReleaseSysCache(tuple);
        correlation
    }
}

/// The collation of a table's column.
pub fn column_collation(table: pg_sys::Oid, attribute: i16) -> pg_sys::Oid {
    let (mut oid, mut modifier, mut collation) = (pg_sys::InvalidOid, 0, pg_sys::InvalidOid);
    // SAFETY: fills the three variables, or raises an error for a column that is not there.
    unsafe { pg_sys::get_atttypetypmodcoll(table, attribute, &mut oid, &mut modifier, &mut collation) };
    collation
}

/// Whether the options of a table's column set its number of distinct values (`ALTER COLUMN … SET (n_distinct = …)`).
/// The server keeps other options there, too: 15.20 adds one to each column.
pub fn sets_distinct(table: pg_sys::Oid, attribute: i16) -> bool {
    let cache = pg_sys::SysCacheIdentifier::ATTNUM as i32;
    // SAFETY: a syscache tuple and an attribute of it, released afterwards. The list has DefElems.
    unsafe {
        let tuple = pg_sys::SearchSysCache2(cache, table.into(), attribute.into());
        if tuple.is_null() {
            return false;
        }
        let (mut is_null, number) = (true, pg_sys::Anum_pg_attribute_attoptions as pg_sys::AttrNumber);
        let options = pg_sys::SysCacheGetAttr(cache, tuple, number, &mut is_null);
        let mut sets = false;
        if !is_null {
            let mut options = list::<pg_sys::DefElem>(pg_sys::untransformRelOptions(options));
            sets = options.any(|option| CStr::from_ptr((*option).defname) == c"n_distinct");
        }
        pg_sys::ReleaseSysCache(tuple);
        sets
    }
}

/// Whether this process executes VACUUM, but not VACUUM FULL, or is a worker of it.
pub fn in_vacuum() -> bool {
    // SAFETY: this process's own entry, if it has one; only this process sets the flag.
    unsafe {
        pg_sys::MyProc.as_ref().is_some_and(|own| u32::from(own.statusFlags) & pg_sys::PROC_IN_VACUUM != 0)
    }
}

/// Whether a parallel query is running, here or in the leader of this worker.
pub fn in_parallel_mode() -> bool {
    // SAFETY: reads the transaction's state.
    unsafe { pg_sys::IsInParallelMode() }
}

/// Whether this process leads a parallel query that is running. Such a process must not count commands.
pub fn leads_parallel_query() -> bool {
    // SAFETY: a plain global, which is not negative in a worker.
    in_parallel_mode() && unsafe { pg_sys::ParallelWorkerNumber } < 0
}

/// Schema and name of a relation, if it exists.
pub fn qualified_name(relation: pg_sys::Oid) -> Option<(String, String)> {
    let text = |name: *mut std::ffi::c_char| {
        // SAFETY: NULL or a palloc'd, NUL-terminated string.
        (!name.is_null()).then(|| unsafe { text::of_server(name) })
    };
    // SAFETY: catalog lookups that return NULL or InvalidOid for missing objects.
    unsafe {
        let schema = text(pg_sys::get_namespace_name(pg_sys::get_rel_namespace(relation)))?;
        Some((schema, text(pg_sys::get_rel_name(relation))?))
    }
}

/// Whether there is a relation of this name, which may include a schema. No right to the schema is needed: an error
/// here, where a setting is checked, would end a session that begins with the setting.
pub fn relation_named(parts: &[String]) -> bool {
    let names: Vec<CString> = parts.iter().map(|part| text::to_server(part)).collect();
    // SAFETY: NUL-terminated strings that outlive the lookups, which take no lock and allow for missing objects.
    let relation = unsafe {
        match names.as_slice() {
            [name] => pg_sys::RelnameGetRelid(name.as_ptr()),
            [schema, name] => {
                let (mut schema_oid, mut toast) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
                if schema.as_c_str() == c"pg_temp" {
                    pg_sys::GetTempNamespaceState(&mut schema_oid, &mut toast);
                } else {
                    schema_oid = pg_sys::get_namespace_oid(schema.as_ptr(), true);
                }
                pg_sys::get_relname_relid(name.as_ptr(), schema_oid)
            }
            _ => return false,
        }
    };
    relation != pg_sys::InvalidOid
}

/// The partitioned relations that a partition is part of, nearest first.
pub fn partition_ancestors(relation: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    // Not among pgrx's bindings. SAFETY: the signature of catalog/partition.h in every supported version.
    unsafe extern "C-unwind" {
        fn get_partition_ancestors(relation: pg_sys::Oid) -> *mut pg_sys::List;
    }
    // SAFETY: catalog lookups; a list of OIDs.
    unsafe {
        if !pg_sys::get_rel_relispartition(relation) {
            return Vec::new();
        }
        oids(pg_sys::ffi::pg_guard_ffi_boundary(|| get_partition_ancestors(relation)))
    }
}

/// The partitions of a partitioned table or index that are of this kind (`RELKIND_…`), including those of partitioned
/// partitions.
pub fn leaf_partitions(relation: pg_sys::Oid, kind: u8) -> Vec<pg_sys::Oid> {
    // Not among pgrx's bindings. SAFETY: the signature of catalog/pg_inherits.h in every supported version.
    unsafe extern "C-unwind" {
        fn find_all_inheritors(
            parent: pg_sys::Oid,
            lock: pg_sys::LOCKMODE,
            counts: *mut *mut pg_sys::List,
        ) -> *mut pg_sys::List;
    }
    let (lock, counts) = (pg_sys::NoLock as pg_sys::LOCKMODE, std::ptr::null_mut());
    // SAFETY: catalog lookups; a list of OIDs. Nothing is locked: whoever opens one of them checks whether it still
    // exists.
    unsafe {
        let all = oids(pg_sys::ffi::pg_guard_ffi_boundary(|| find_all_inheritors(relation, lock, counts)));
        all.into_iter().filter(|&oid| pg_sys::get_rel_relkind(oid) as u8 == kind).collect()
    }
}

/// Whether pg_upgrade makes the objects of the old server anew.
pub fn is_binary_upgrade() -> bool {
    // SAFETY: a plain global of the server.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// Whether the server itself runs the query, to check a foreign key.
pub fn in_foreign_key_check() -> bool {
    // SAFETY: reads the session's state.
    unsafe { pg_sys::InNoForceRLSOperation() }
}
