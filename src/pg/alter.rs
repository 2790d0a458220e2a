//! Detects changes of an index's options, and that a table is about to be truncated.
//!
//! amoptions does not know whose options it reads. The server calls object_access_hook after ALTER INDEX has written
//! the new options to pg_class. There, SnapshotSelf shows the new options, while the relation cache still has the old
//! ones. ALTER INDEX has opened the index, which loads this library, so the hook is installed in time.

use super::options::{self, Options};
use super::{OpenRel, Rel, catalog, lock, meta_pin, relation};
use crate::pg::boundary;
use pgrx::pg_sys;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// Called with an index, its old options, and its new options.
type Changed = fn(Rel, &Options, &Options);

static CHANGED: OnceLock<Changed> = OnceLock::new();
static PREVIOUS: OnceLock<pg_sys::object_access_hook_type> = OnceLock::new();

/// Registers `changed` to be called after ALTER INDEX; called once per process, when the library is loaded.
pub fn register(changed: Changed) {
    CHANGED.get_or_init(|| {
        // SAFETY: a variable of the server for loadable modules; the previous hook is called.
        unsafe {
            let _ = PREVIOUS.set(pg_sys::object_access_hook);
            pg_sys::object_access_hook = Some(on_access);
        }
        changed
    });
}

unsafe extern "C-unwind" fn on_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    part: c_int,
    argument: *mut c_void,
) {
    use pg_sys::ObjectAccessType::{OAT_POST_ALTER, OAT_TRUNCATE};
    let concerns_us = matches!(access, OAT_POST_ALTER | OAT_TRUNCATE);
    // The server announces each function that a statement calls, too.
    if !concerns_us && !matches!(PREVIOUS.get(), Some(Some(_))) {
        return;
    }
    boundary::callback(|| {
        if let Some(Some(previous)) = PREVIOUS.get() {
            // SAFETY: the previous hook, with the server's arguments.
            unsafe { boundary::call(|| previous(access, class, object, part, argument)) };
        }
        if access == OAT_TRUNCATE {
            meta_pin::give_back_all();
        }
        let is_altered = access == OAT_POST_ALTER;
        if !is_altered || class != pg_sys::RelationRelationId || part != 0 {
            return;
        }
        let is_ours = relation::kind_and_method(object).is_some_and(|(kind, method, _)| {
            kind == pg_sys::RELKIND_INDEX && catalog::access_method_oid("skip") == Some(method)
        });
        if let Some(changed) = CHANGED.get().filter(|_| is_ours) {
            let open = OpenRel::index(object, lock::Mode::AccessShare);
            if let Some(now) = options_now(object) {
                changed(open.rel(), &Options::of(open.rel()), &now);
            }
        }
    })
}

/// The options in pg_class, as written by the current command.
fn options_now(index: pg_sys::Oid) -> Option<Options> {
    let classes = OpenRel::table(pg_sys::RelationRelationId, lock::Mode::AccessShare);
    // SAFETY: a scan of pg_class by its OID, ended below; the tuple is used before that. The caller has checked that
    // amoptions is this access method's.
    unsafe {
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            pg_sys::Anum_pg_class_oid as pg_sys::AttrNumber,
            pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::RegProcedure::from(pg_sys::F_OIDEQ),
            index.into(),
        );
        let snapshot = &raw mut pg_sys::SnapshotSelfData;
        let scan = pg_sys::systable_beginscan(
            classes.rel().raw(),
            pg_sys::Oid::from(pg_sys::ClassOidIndexId),
            true,
            snapshot,
            1,
            &mut key,
        );
        let tuple = pg_sys::systable_getnext(scan);
        let found = (!tuple.is_null()).then(|| {
            let raw =
                pg_sys::extractRelOptions(tuple, (*classes.rel().raw()).rd_att, Some(options::amoptions));
            Options::from_raw(raw)
        });
        pg_sys::systable_endscan(scan);
        found
    }
}
