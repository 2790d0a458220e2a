//! Internal queries: one finds the blocks of the visible rows with a value, another one reads a column in some blocks.
//!
//! A query's text is composed in the database's encoding, from C strings, never from Rust strings. Every name in it
//! is qualified, and the operator is the one of the operator family, so a search_path or an operator of the same name
//! cannot change its meaning. A query runs under the snapshot of the calling query, and is planned like any SELECT, but
//! that no index is forced on it ([`is_running`]).

use super::Rel;
use super::clause::{Clause, Values};
use super::datum::{Repr, Value};
use super::{compat, server};
use pgrx::prelude::*;
use pgrx::{AnyElement, pg_sys};
use std::cell::Cell;
use std::ffi::CStr;

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Whether one of these queries is being planned or run.
pub fn is_running() -> bool {
    IS_RUNNING.get()
}

/// While it lives, one of these queries runs.
struct Running {
    before: bool,
}

impl Running {
    fn begin() -> Self {
        Self { before: IS_RUNNING.replace(true) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        IS_RUNNING.set(self.before);
    }
}

/// Rows fetched at a time.
const BATCH: std::ffi::c_long = 1000;

/// Calls `each` with the block of every visible row of `table` that is in `index` and whose column satisfies the
/// clause's operator with `value`; None stands for NULL. `clause` is the value's clause. The caller has checked
/// permissions, because index expressions are code of the table's owner.
pub fn blocks_of_rows(
    table: Rel,
    index: Rel,
    clause: &Clause<Values<'_>>,
    value: Option<AnyElement>,
    mut each: impl FnMut(u32),
) {
    Spi::connect(|_| {
        let text = SqlBuilder::new();
        text.add(c"SELECT ctid FROM ONLY ").add_name(table).add(c" WHERE ");
        match &value {
            Some(value) => add_comparison(&text, index, clause, value.oid()),
            // IS NULL would test the fields of a composite value.
            None => _ = text.add_column(index, clause.column).add(c" IS NOT DISTINCT FROM NULL"),
        }
        add_predicate(&text, table, index);
        // SAFETY: the query's only parameter is of the value's type, and its first column is a ctid.
        unsafe { each_row(&text, value, &mut |row| row(1).into_iter().for_each(|tid| each(block_of(tid)))) };
    });
}

/// A value of a column that is not NULL.
#[derive(Clone, Copy)]
pub struct StoredValue {
    pub block: u32,
    /// A hash of the value's text.
    pub hash: u64,
    /// Bytes that it takes in the row.
    pub bytes: u32,
}

/// The bytes up to which a value is hashed. A larger one counts as one that occurs once: reading all documents of a
/// sample could take gigabytes.
const LARGE_VALUE: &CStr = c") OPERATOR(pg_catalog.<=) 2000";

/// Calls `each` with the values of a column (0-based) in the visible rows of the blocks `from..to`. The query has the
/// rights of the current user, and obeys row security. So it must not run code of others: values become text by their
/// types' output functions, in concat, and not by a cast, which the owner of a type may have made.
pub fn values_in_blocks(table: Rel, column: usize, blocks: (u32, u32), mut each: impl FnMut(StoredValue)) {
    let of_column = |text: &SqlBuilder, name: &CStr| {
        text.add(c"pg_catalog.hashtextextended(CASE WHEN pg_catalog.pg_column_size(").add(name);
        text.add(LARGE_VALUE).add(c" THEN pg_catalog.concat(").add(name);
        text.add(c") ELSE pg_catalog.concat(ctid) END COLLATE pg_catalog.\"C\", 0)");
    };
    in_blocks(table, column, blocks, &of_column, &mut |block, hash, bytes| {
        if let Some(hash) = hash {
            each(StoredValue { block, hash: hash.value() as u64, bytes });
        }
    });
}

/// A value of variable length, as it is stored: perhaps compressed, or out of line.
pub struct StoredVarlena<'r> {
    pub block: u32,
    pub value: Value<'r>,
    /// Bytes that it is stored in.
    pub bytes: u32,
    /// Bytes that it has when it is read.
    pub raw_bytes: usize,
}

/// As [`values_in_blocks`], with the values themselves, of a type that is stored with its length. None of them is
/// fetched or decompressed.
pub fn varlenas_in_blocks(
    table: Rel,
    column: usize,
    blocks: (u32, u32),
    mut each: impl FnMut(StoredVarlena<'_>),
) {
    let of_column = |text: &SqlBuilder, name: &CStr| _ = text.add(name);
    in_blocks(table, column, blocks, &of_column, &mut |block, value, bytes| {
        let Some(datum) = value else { return };
        // SAFETY: a value of the column, which the caller says is a varlena; it lives as long as the row. Its header
        // has its size.
        let (value, raw_bytes) =
            unsafe { (Value::new(datum, Repr::Varlena), pg_sys::toast_raw_datum_size(datum)) };
        each(StoredVarlena { block, value, bytes, raw_bytes });
    });
}

/// Calls `each` for each value of a column that is not NULL, with its block, what `of_column` adds to the query, and
/// its bytes.
fn in_blocks(
    table: Rel,
    column: usize,
    (from, to): (u32, u32),
    of_column: &dyn Fn(&SqlBuilder, &CStr),
    each: &mut dyn FnMut(u32, Option<pg_sys::Datum>, u32),
) {
    Spi::connect(|_| {
        let name = SqlBuilder::new();
        name.add_column_name(table, column);
        // SAFETY: a NUL-terminated string that lives in the current memory context.
        let name = unsafe { CStr::from_ptr((*name.0).data) };
        let text = SqlBuilder::new();
        text.add(c"SELECT ctid, ");
        of_column(&text, name);
        text.add(c", pg_catalog.pg_column_size(").add(name);
        text.add(c") FROM ONLY ").add_name(table).add(c" WHERE ").add(name);
        text.add(c" IS NOT NULL AND ctid OPERATOR(pg_catalog.>=) '(").add_number(from);
        text.add(c",0)'::pg_catalog.tid AND ctid OPERATOR(pg_catalog.<) '(").add_number(to);
        text.add(c",0)'::pg_catalog.tid");
        // SAFETY: the query has no parameters; its first column is a ctid, its third one an integer.
        unsafe {
            each_row(&text, None, &mut |row| {
                if let (Some(tid), Some(bytes)) = (row(1), row(3)) {
                    each(block_of(tid), row(2), bytes.value() as u32);
                }
            });
        }
    });
}

/// The block of a ctid.
///
/// # Safety
/// `tid` is a tid.
unsafe fn block_of(tid: pg_sys::Datum) -> u32 {
    // SAFETY: a pointer to a tid, as the caller says.
    unsafe { pgrx::itemptr::item_pointer_get_block_number(tid.cast_mut_ptr()) }
}

/// An SQL text being composed, in the database's encoding, in the current memory context.
struct SqlBuilder(pg_sys::StringInfo);

impl SqlBuilder {
    fn new() -> Self {
        // SAFETY: an empty string in the current memory context.
        Self(unsafe { pg_sys::makeStringInfo() })
    }

    fn add(&self, text: &CStr) -> &Self {
        // SAFETY: both are valid strings.
        unsafe { pg_sys::appendStringInfoString(self.0, text.as_ptr()) };
        self
    }

    fn add_number(&self, number: u32) -> &Self {
        // Digits have no NUL.
        self.add(&std::ffi::CString::new(number.to_string()).unwrap_or_default())
    }

    /// The name of a table's column (0-based).
    fn add_column_name(&self, table: Rel, column: usize) -> &Self {
        // SAFETY: the tuple descriptor of an open relation; a palloc'd copy, quoted if necessary.
        unsafe {
            let attribute = compat::attribute((*table.raw()).rd_att, column);
            self.add(CStr::from_ptr(pg_sys::quote_identifier((*attribute).attname.data.as_ptr())))
        }
    }

    fn add_name(&self, rel: Rel) -> &Self {
        // SAFETY: rd_rel of an open relation.
        let class = unsafe { &*(*rel.raw()).rd_rel };
        self.add_qualified(class.relnamespace, class.relname.data.as_ptr())
    }

    /// An index column's name or expression, in parentheses.
    fn add_column(&self, index: Rel, column: u16) -> &Self {
        // SAFETY: pg_get_indexdef of an open index and one of its columns returns a text; "false" means not
        // pretty-printed.
        unsafe {
            let arguments =
                [index.oid().into_datum(), (i32::from(column) + 1).into_datum(), false.into_datum()];
            let text = pgrx::direct_function_call_as_datum(pg_sys::pg_get_indexdef_ext, &arguments);
            let text = text.map(|text| CStr::from_ptr(pg_sys::text_to_cstring(text.cast_mut_ptr())));
            self.add(c"(").add(text.unwrap_or(c"NULL")).add(c")")
        }
    }

    fn add_qualified(&self, schema: pg_sys::Oid, name: *const std::ffi::c_char) -> &Self {
        // SAFETY: palloc'd strings; a NULL schema, of one that was just dropped, is left out.
        unsafe {
            let schema = pg_sys::get_namespace_name(schema);
            self.add(CStr::from_ptr(pg_sys::quote_qualified_identifier(schema, name)))
        }
    }
}

/// Adds the comparison of the column with `$1`, a value of type `given`, by the family's operator for the clause and
/// the index's collation.
fn add_comparison(text: &SqlBuilder, index: Rel, clause: &Clause<Values<'_>>, given: pg_sys::Oid) {
    let column = usize::from(clause.column);
    let class = index.column_class(column);
    let left = SqlBuilder::new();
    left.add(c"(").add_column(index, clause.column);
    if class.collation != pg_sys::InvalidOid {
        add_collation(&left, class.collation);
    }
    left.add(c")");
    // SAFETY: catalog lookups; NUL-terminated strings. The clause gets the casts that the operator needs.
    unsafe {
        let strategy = clause.strategy as i16;
        let operator = pg_sys::get_opfamily_member(class.family, class.input, clause.key_type, strategy);
        let own = index.column_type(column);
        pg_sys::generate_operator_clause(text.0, (*left.0).data, own, operator, c"$1".as_ptr(), given);
    }
}

fn add_collation(text: &SqlBuilder, collation: pg_sys::Oid) {
    // SAFETY: a syscache tuple, released after its contents were copied.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::COLLOID as i32, collation.into());
        if !tuple.is_null() {
            let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_collation>();
            text.add(c" COLLATE ").add_qualified(form.collnamespace, form.collname.data.as_ptr());
            pg_sys::ReleaseSysCache(tuple);
        }
    }
}

/// Adds the predicate of a partial index, which has only rows that satisfy it.
fn add_predicate(text: &SqlBuilder, table: Rel, index: Rel) {
    // SAFETY: open relations; the lists and strings made here live in the current memory context.
    unsafe {
        let predicate = server::RelationGetIndexPredicate(index.raw());
        if !predicate.is_null() {
            let columns =
                pg_sys::deparse_context_for((*(*table.raw()).rd_rel).relname.data.as_ptr(), table.oid());
            let condition = pg_sys::make_ands_explicit(predicate).cast();
            let condition = pg_sys::deparse_expression(condition, columns, false, false);
            text.add(c" AND (").add(CStr::from_ptr(condition)).add(c")");
        }
    }
}

/// Gives the value of a column (1-based) of a row, None for NULL. The value lives as long as the row.
type RowValues<'r> = &'r dyn Fn(i32) -> Option<pg_sys::Datum>;

/// Runs the query through a cursor, so that only one batch of its rows is in memory.
///
/// # Safety
/// The query's only parameter, if it has any, is of the value's type.
unsafe fn each_row(text: &SqlBuilder, value: Option<AnyElement>, each: &mut dyn FnMut(RowValues<'_>)) {
    let _running = Running::begin();
    // SAFETY: SPI is connected, and fetched rows live until they are freed here. After an ERROR the transaction's abort
    // frees everything.
    unsafe {
        let mut types = value.as_ref().map_or(pg_sys::InvalidOid, AnyElement::oid);
        let mut values = value.as_ref().map_or(pg_sys::Datum::null(), AnyElement::datum);
        let count = i32::from(value.is_some());
        // Read-only, so it runs under the calling query's snapshot.
        let (name, query) = (std::ptr::null(), (*text.0).data);
        let portal = server::SPI_cursor_open_with_args(
            name,
            query,
            count,
            &mut types,
            &mut values,
            std::ptr::null(),
            true,
            0,
        );
        loop {
            server::SPI_cursor_fetch(portal, true, BATCH);
            let rows = pg_sys::SPI_tuptable;
            if rows.is_null() || pg_sys::SPI_processed == 0 {
                break;
            }
            for i in 0..pg_sys::SPI_processed as usize {
                let row = *(*rows).vals.add(i);
                each(&|column| {
                    let mut is_null = false;
                    let value = pg_sys::SPI_getbinval(row, (*rows).tupdesc, column, &mut is_null);
                    (!is_null).then_some(value)
                });
            }
            pg_sys::SPI_freetuptable(rows);
        }
        pg_sys::SPI_cursor_close(portal);
    }
}
