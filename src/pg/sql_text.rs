//! An SQL text as an argument or result of a function: a `String` in Rust, in the database's encoding in the server.

use super::text::{of_bytes, to_bytes};
use super::varlena::Varlena;
use pgrx::callconv::{Arg, ArgAbi, BoxRet, FcInfo};
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::{FromDatum, IntoDatum, pg_sys};

/// An SQL text, as argument or result.
pub struct Text(pub String);

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl FromDatum for Text {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        _type: pg_sys::Oid,
    ) -> Option<Self> {
        // SAFETY: pgrx calls this for an argument or result that SQL declares as text, and keeps its datum until this
        // returns.
        (!is_null).then(|| Self(unsafe { Varlena::new(datum) }.with_bytes(of_bytes)))
    }
}

impl IntoDatum for Text {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        to_bytes(&self.0).into_datum() // text and bytea have the same representation
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::TEXTOID
    }
}

// SAFETY: returns a text datum.
unsafe impl BoxRet for Text {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> pgrx::datum::Datum<'fcx> {
        match self.into_datum() {
            // SAFETY: a palloc'd text.
            Some(datum) => unsafe { fcinfo.return_raw_datum(datum) },
            None => fcinfo.return_null(),
        }
    }
}

// SAFETY: never null if it is not an Option; the argument is declared as text.
unsafe impl<'fcx> ArgAbi<'fcx> for Text {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        // SAFETY: SQL declares the argument as text, and the server keeps it for the call.
        unsafe { arg.unbox_arg_using_from_datum().unwrap_or(Self(String::new())) }
    }
}

// SAFETY: the SQL type is text.
unsafe impl SqlTranslatable for Text {
    const TYPE_IDENT: &'static str = "pg_skip::pg::sql_text::Text";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::literal("text"));
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("text")));
}
