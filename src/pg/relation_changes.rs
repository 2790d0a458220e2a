//! Changes of relations in the catalogs. The server tells each session of them when it forgets its own relcache entry:
//! a new file (REINDEX, TRUNCATE), another definition, another tablespace. A session that has locked a relation has
//! been told of all changes that others made, and is told of its own at the end of each command.

use super::boundary;
use pgrx::pg_sys::{self, Oid};

/// What is called with the relation that has changed, or with None if all may have. It calls no function of the server:
/// the transaction may be aborting.
pub type Forget = fn(Option<Oid>);

/// Has `forget` called from now on, in this process. The server has room for ten such functions, its own and those of
/// all extensions; it ends a session that asks for more.
pub fn on_change(forget: Forget) {
    // SAFETY: a function of this library, which is never unloaded; it gets `forget` back.
    unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(changed), pg_sys::Datum::from(forget as usize)) }
}

unsafe extern "C-unwind" fn changed(forget: pg_sys::Datum, relation: Oid) {
    // SAFETY: what on_change() has passed.
    let forget = unsafe { std::mem::transmute::<usize, Forget>(forget.value()) };
    boundary::callback(|| forget((relation != pg_sys::InvalidOid).then_some(relation)));
}
