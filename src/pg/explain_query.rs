//! A query of a user is planned, and nothing of it runs: EXPLAIN, with the rights of the current user and under row
//! security. Its output is thrown away; the planner's hooks see what is planned ([`super::custom`]).

use super::{compat, server};
use pgrx::prelude::*;
use pgrx::{PgSqlErrorCode, pg_sys};
use std::ffi::{CStr, CString};

/// The statement that plans a query, which is given in the database's encoding.
pub fn text(query: &[u8]) -> CString {
    let text = [compat::EXPLAIN.to_bytes(), query].concat();
    let Ok(text) = CString::new(text) else {
        // The server's texts have no NUL.
        super::fail(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            "the query contains a zero byte".into(),
            None,
            None,
        )
    };
    text
}

/// Plans a query, by the statement that [`text`] has made. A text of several statements is an error of the server,
/// because a cursor is opened for it; so is a statement that EXPLAIN does not take.
pub fn plan_only(text: &CStr) {
    Spi::connect(|_| {
        // SAFETY: SPI is connected; a NUL-terminated text without parameters. The cursor is not read-only, because the
        // server counts EXPLAIN among the commands that may write. After an ERROR the transaction's abort frees
        // everything.
        unsafe {
            let (name, types, values) = (std::ptr::null(), std::ptr::null_mut(), std::ptr::null_mut());
            let portal = server::SPI_cursor_open_with_args(
                name,
                text.as_ptr(),
                0,
                types,
                values,
                std::ptr::null(),
                false,
                0,
            );
            server::SPI_cursor_fetch(portal, true, 1);
            pg_sys::SPI_cursor_close(portal);
        }
    });
}
