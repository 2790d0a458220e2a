//! A query of a user is planned, and nothing of it runs: EXPLAIN, with the rights of the current user and under row
//! security. Its output is thrown away; the planner's hooks see what is planned ([`super::custom`]).

use super::list::list;
use super::{attempt, compat, server};
use pgrx::prelude::*;
use pgrx::{PgSqlErrorCode, is_a, pg_sys};
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

/// If a statement that [`text`] has made executes a prepared one: lets the server plan that anew, and gives the address
/// of the text with which it does so. Otherwise it would plan nothing if it has a plan for all values already.
pub fn replanned(text: &CStr) -> Option<usize> {
    let has_word =
        |word: &[u8]| text.to_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    if !has_word(b"execute") {
        return None;
    }
    // SAFETY: a text of the server's encoding. Nodes have the type that their tags tell. A prepared statement of this
    // session stays while it is not deallocated, and its plan may be marked as invalid at any time, as the server does
    // when a table changes.
    unsafe {
        // The server will report what it cannot parse, with the right place in the text.
        let parsed =
            attempt::is_possible().then(|| attempt::attempt(|| server::raw_parser(text.as_ptr(), 0)));
        let parsed: Vec<_> = list::<pg_sys::RawStmt>(parsed?.ok()?).collect();
        let &[statement] = parsed.as_slice() else { return None };
        let explain = (*statement).stmt.cast::<pg_sys::ExplainStmt>();
        if !is_a(explain.cast(), pg_sys::NodeTag::T_ExplainStmt) {
            return None;
        }
        let mut query = (*explain).query;
        if is_a(query, pg_sys::NodeTag::T_CreateTableAsStmt) {
            query = (*query.cast::<pg_sys::CreateTableAsStmt>()).query;
        }
        let execute = query.cast::<pg_sys::ExecuteStmt>();
        if !is_a(execute.cast(), pg_sys::NodeTag::T_ExecuteStmt) {
            return None;
        }
        let prepared = pg_sys::FetchPreparedStatement((*execute).name, false);
        if prepared.is_null() {
            return None; // the server reports it
        }
        let source = (*prepared).plansource;
        if !(*source).gplan.is_null() {
            (*(*source).gplan).is_valid = false;
        }
        Some((*source).query_string.addr())
    }
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
