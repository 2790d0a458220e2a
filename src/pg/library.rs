//! Where this library is.

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
