//! Errors that the caller of an input function gets instead of having them raised (16 and later): pg_input_is_valid,
//! COPY … ON_ERROR.

use crate::pg::Report;
use pgrx::pg_sys;

/// Gives an error to the caller of an input function, if the caller accepts it; otherwise returns false.
///
/// # Safety
/// `context` is the context of a function call.
#[cfg(feature = "pg15")]
pub unsafe fn save_error(context: *mut pg_sys::Node, report: &Report) -> bool {
    let _ = (context, report);
    false
}

#[cfg(not(feature = "pg15"))]
pub use since_16::save_error;

#[cfg(not(feature = "pg15"))]
mod since_16 {
    use super::{Report, pg_sys};
    use crate::pg::text::to_server;
    use std::ffi::{c_char, c_int};

    // SAFETY: the signatures of elog.h. They raise an error only if there is no memory for a string. That jump leaks
    // the strings here and nothing else.
    unsafe extern "C-unwind" {
        fn errcode(code: c_int) -> c_int;
        fn errmsg_internal(format: *const c_char, ...) -> c_int;
        fn errdetail_internal(format: *const c_char, ...) -> c_int;
        fn errhint(format: *const c_char, ...) -> c_int;
    }

    /// Gives an error to the caller of an input function, if the caller accepts it; otherwise returns false.
    ///
    /// # Safety
    /// `context` is the context of a function call.
    pub unsafe fn save_error(context: *mut pg_sys::Node, report: &Report) -> bool {
        // SAFETY: NULL, or the node that the server passed to the input function; its tag tells its type. The server
        // copies the strings.
        unsafe {
            if context.is_null() || (*context).type_ != pg_sys::NodeTag::T_ErrorSaveContext {
                return false;
            }
            // errsave_start returns false if the caller only wants to know that there was an error.
            if pg_sys::errsave_start(context, std::ptr::null()) {
                errcode(report.code as c_int);
                errmsg_internal(c"%s".as_ptr(), to_server(&report.message).as_ptr());
                if let Some(detail) = &report.detail {
                    errdetail_internal(c"%s".as_ptr(), to_server(detail).as_ptr());
                }
                if let Some(hint) = &report.hint {
                    errhint(c"%s".as_ptr(), to_server(hint).as_ptr());
                }
                pg_sys::errsave_finish(context, c"pg_skip".as_ptr(), 0, c"".as_ptr());
            }
            true
        }
    }
}
