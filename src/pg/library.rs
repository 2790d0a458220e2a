//! Where this library is, and which version of it.

use pgrx::PgSqlErrorCode;
use std::ffi::{CStr, CString, c_void};

/// The path of this library, as it was loaded. Workers look their function up in the library with this name, and find
/// the one that they have loaded already, wherever it was installed.
pub(super) fn path() -> CString {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address of a function of this library. The name is NUL-terminated, and lives as long as the library.
    unsafe {
        if libc::dladdr(path as *const c_void, found.as_mut_ptr()) != 0 {
            let name = found.assume_init().dli_fname;
            if !name.is_null() {
                return CStr::from_ptr(name).to_owned();
            }
        }
    }
    NAME.to_owned()
}

/// The library's name, which the server looks for in its directory of libraries.
pub(super) const NAME: &CStr = c"pg_skip";

/// Tells versions of the library apart. A parallel worker is a new process, which may have loaded a newer library than
/// its leader: what the leader gives it begins with this number.
pub(super) const BUILD: i32 = {
    // FNV-1a with 32 bits.
    let (version, mut hash, mut i) = (env!("CARGO_PKG_VERSION").as_bytes(), 0x811c_9dc5_u32, 0);
    while i < version.len() {
        hash = (hash ^ version[i] as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    hash as i32
};

/// Raises an error if a plan, or the description of a build, was made by another version of the library.
pub(super) fn check_build(of: i32) {
    if of != BUILD {
        super::fail(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "the session and its parallel worker have loaded different versions of pg_skip".into(),
            Some("The library was replaced after the session had begun.".into()),
            Some("Close the session, and connect again.".into()),
        );
    }
}
