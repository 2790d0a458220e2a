//! The rows that a set-returning function returns, and the check that its SQL declaration has their columns.
//!
//! The library may be newer than the SQL objects, until ALTER EXTENSION … UPDATE, or older, after a wrong
//! installation. The server makes a row by the columns that SQL declares, and reads as many values, of these types,
//! from the memory that the function gives to it. So a declaration that does not fit would read values of other types,
//! or beyond the last one. A declaration fits if its columns are the library's first ones, by name and type. It may
//! have fewer: columns that a later library adds come last.
//!
//! A function returns [`ResultRows`], so that none can leave the check out. The check runs before the function does.

use super::{boundary, catalog, compat, fail, text, types};
use pgrx::callconv::{CallCx, RetAbi};
use pgrx::iter::TableIterator;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::{PgSqlErrorCode, pg_sys};

/// The columns of the rows of a function. [`result_columns`] makes one from a list of names and types.
pub trait ResultColumns {
    /// A tuple of the columns' types.
    type Row: 'static;
    /// Name and type of each column.
    fn columns() -> Vec<(&'static str, pg_sys::Oid)>;
}

/// A row with these columns.
pub type RowOf<C> = <C as ResultColumns>::Row;

/// Declares a type that stands for the columns of a function's rows:
/// `result_columns! { /// Its rows. Name { column: Type, … } }`.
macro_rules! result_columns {
    ($(#[$doc:meta])* $name:ident { $($column:ident: $type:ty),+ $(,)? }) => {
        $(#[$doc])*
        pub enum $name {}

        #[allow(clippy::type_complexity, reason = "the row type of an SQL function")]
        impl $crate::pg::result_rows::ResultColumns for $name {
            type Row = ($($type,)+);

            fn columns() -> Vec<(&'static str, pgrx::pg_sys::Oid)> {
                vec![$((stringify!($column), <$type as pgrx::IntoDatum>::type_oid())),+]
            }
        }
    };
}
pub(crate) use result_columns;

/// The rows that a set-returning function returns.
pub struct ResultRows<C: ResultColumns>(TableIterator<'static, C::Row>);

impl<C: ResultColumns> ResultRows<C> {
    pub fn new(rows: impl IntoIterator<Item = C::Row> + 'static) -> Self {
        Self(TableIterator::new(rows))
    }

    pub fn once(row: C::Row) -> Self {
        Self(TableIterator::once(row))
    }
}

// SAFETY: all but the check is pgrx's TableIterator, which gets and gives what it would without this type.
unsafe impl<C: ResultColumns> RetAbi for ResultRows<C>
where
    C::Row: RetAbi,
{
    type Item = C::Row;
    type Ret = <TableIterator<'static, C::Row> as RetAbi>::Ret;

    unsafe fn check_fcinfo_and_prepare(fcinfo: pg_sys::FunctionCallInfo) -> CallCx {
        // SAFETY: the server's call of the function. TableIterator sets fn_extra at the first call for a set.
        unsafe {
            if (*(*fcinfo).flinfo).fn_extra.is_null() {
                boundary::callback(|| check_declaration(fcinfo, &C::columns()));
            }
            TableIterator::<'static, C::Row>::check_fcinfo_and_prepare(fcinfo)
        }
    }

    fn to_ret(self) -> Self::Ret {
        self.0.to_ret()
    }

    unsafe fn box_ret_in_fcinfo(fcinfo: pg_sys::FunctionCallInfo, ret: Self::Ret) -> pg_sys::Datum {
        // SAFETY: the caller's promises are those that it needs; so below.
        unsafe { TableIterator::<'static, C::Row>::box_ret_in_fcinfo(fcinfo, ret) }
    }

    unsafe fn move_into_fcinfo_fcx(self, fcinfo: pg_sys::FunctionCallInfo) {
        // SAFETY: see above.
        unsafe { self.0.move_into_fcinfo_fcx(fcinfo) }
    }

    unsafe fn fill_fcinfo_fcx(&self, fcinfo: pg_sys::FunctionCallInfo) {
        // SAFETY: see above.
        unsafe { self.0.fill_fcinfo_fcx(fcinfo) }
    }

    unsafe fn ret_from_fcinfo_fcx(fcinfo: pg_sys::FunctionCallInfo) -> Self::Ret {
        // SAFETY: see above.
        unsafe { TableIterator::<'static, C::Row>::ret_from_fcinfo_fcx(fcinfo) }
    }

    unsafe fn finish_call_fcinfo(fcinfo: pg_sys::FunctionCallInfo) {
        // SAFETY: see above.
        unsafe { TableIterator::<'static, C::Row>::finish_call_fcinfo(fcinfo) }
    }
}

// SAFETY: the SQL objects are in sql/, and nothing is generated from this.
unsafe impl<C: ResultColumns> SqlTranslatable for ResultRows<C> {
    const TYPE_IDENT: &'static str = "pg_skip::pg::result_rows::ResultRows";
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Ok(SqlMappingRef::Skip);
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::Skip));
}

/// A column that SQL declares.
struct Declared {
    name: String,
    kind: pg_sys::Oid,
}

/// Fails if the declared columns of the called function are not the first ones of `columns`.
///
/// # Safety
/// This is the server's call of a function.
unsafe fn check_declaration(fcinfo: pg_sys::FunctionCallInfo, columns: &[(&str, pg_sys::Oid)]) {
    // SAFETY: the caller's promise.
    let Some(declared) = (unsafe { declared_columns(fcinfo) }) else {
        // SAFETY: the caller's promise.
        unsafe {
            refuse(
                fcinfo,
                format!("It does not return rows, and the library returns {} columns.", columns.len()),
            )
        }
    };
    for (place, column) in declared.iter().enumerate() {
        let is = format!(
            "Column {} is declared as \"{}\" {}",
            place + 1,
            column.name,
            types::display_name(column.kind)
        );
        let Some(&(name, kind)) = columns.get(place) else {
            // SAFETY: the caller's promise.
            unsafe { refuse(fcinfo, format!("{is}, and the library returns {} columns.", columns.len())) }
        };
        // An oid can be returned as a regclass.
        if column.name != name || !catalog::is_binary_coercible(kind, column.kind) {
            let detail = format!("{is}, and the library returns \"{name}\" {}.", types::display_name(kind));
            // SAFETY: the caller's promise.
            unsafe { refuse(fcinfo, detail) }
        }
    }
}

/// The columns of the rows that the called function is declared to return; None if it does not return rows.
///
/// # Safety
/// This is the server's call of a function.
unsafe fn declared_columns(fcinfo: pg_sys::FunctionCallInfo) -> Option<Vec<Declared>> {
    let (mut kind, mut row) = (pg_sys::InvalidOid, std::ptr::null_mut());
    // SAFETY: looks the call's function up. The descriptor lives in the current memory context; its columns have
    // NUL-terminated names.
    unsafe {
        let class = pg_sys::get_call_result_type(fcinfo, &mut kind, &mut row);
        if row.is_null() || class != pg_sys::TypeFuncClass::TYPEFUNC_COMPOSITE {
            return None;
        }
        let column = |place| {
            let attribute = &*compat::attribute(row, place);
            Declared { name: text::of_server(attribute.attname.data.as_ptr()), kind: attribute.atttypid }
        };
        Some((0..usize::try_from((*row).natts).unwrap_or(0)).map(column).collect())
    }
}

/// # Safety
/// This is the server's call of a function.
unsafe fn refuse(fcinfo: pg_sys::FunctionCallInfo, detail: String) -> ! {
    // SAFETY: a catalog lookup of the called function; its name is NULL or NUL-terminated.
    let name = unsafe { text::of_server(pg_sys::get_func_name((*(*fcinfo).flinfo).fn_oid)) };
    fail(
        PgSqlErrorCode::ERRCODE_INVALID_FUNCTION_DEFINITION,
        format!("the SQL declaration of function {name} does not fit the library of pg_skip"),
        Some(detail),
        Some(
            "Run ALTER EXTENSION pg_skip UPDATE; if the library is older than the SQL objects, install theirs.".into(),
        ),
    )
}
