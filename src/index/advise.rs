//! skip_advise: which index serves lookups of single values of a column, from a sample of the table. The rows about
//! searches inside the values are made by [`super::advise_inside`].
//!
//! The sample is read by queries with the rights of the caller. The formulas are in [`skip_scan::advice`]. The choice
//! of a map's ranges is that of a build ([`skip_map::choice`]).

use super::advise_inside::{self, PartsAdvice};
use super::advise_sample::ColumnSample;
use crate::pg::result_rows::{ResultRows, RowOf, result_columns};
use crate::pg::sql_text::Text;
use crate::pg::table_columns::{self, TableColumn};
use crate::pg::{OpenRel, Rel, boundary, catalog, fail, lock, memory, relation, text};
use pgrx::pg_sys;
use pgrx::prelude::*;
use skip_scan::advice::{self, Candidate, ColumnFacts, Method, Why};

result_columns! {
    /// Columns of `skip_advise`.
    AdviceColumns {
        column_name: Text,
        method: Text,
        recommended: bool,
        index_bytes: Option<i64>,
        index_pages: Option<f64>,
        table_pages: Option<f64>,
        reason: Text,
        statement: Option<Text>,
    }
}

/// One row for each kind of index, for one column or all columns of a table, the recommended one first.
#[pg_extern(sql = false)]
fn skip_advise(table: Option<pg_sys::Oid>, column: Option<&std::ffi::CStr>) -> ResultRows<AdviceColumns> {
    boundary::callback(|| {
        let Some(table) = table else { return ResultRows::new(Vec::new()) };
        let whole = OpenRel::table(table, lock::Mode::AccessShare);
        let partition = check_table(table).then(|| largest_partition(whole.rel()));
        let table = partition.as_ref().unwrap_or(&whole);
        if !table.rel().is_heap() {
            fail(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("skip_advise cannot advise about table \"{}\"", table.rel().name()),
                Some("The table does not use the heap table access method.".into()),
                Some(
                    "Skip indexes and BRIN summarize ranges of heap blocks. Use another kind of index."
                        .into(),
                ),
            );
        }
        let wanted = column.map(|name| text::of_bytes(name.to_bytes()));
        let columns = table_columns::columns(table.rel());
        let name = whole.rel().qualified_name();
        let is_wanted = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        let rows: Vec<RowOf<AdviceColumns>> = columns
            .iter()
            .filter(|column| is_wanted(&column.name))
            .flat_map(|column| advice_of(&Advised { sampled: table.rel(), name: &name, column }))
            .collect();
        if let Some(wanted) = wanted.filter(|_| rows.is_empty()) {
            fail(
                PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                format!("column \"{wanted}\" of table \"{}\" does not exist", whole.rel().name()),
                None,
                None,
            );
        }
        ResultRows::new(rows)
    })
}

/// Whether the table is partitioned. Raises an error if it is no table.
fn check_table(table: pg_sys::Oid) -> bool {
    match relation::kind_and_method(table) {
        Some((pg_sys::RELKIND_RELATION | pg_sys::RELKIND_MATVIEW, ..)) => false,
        Some((pg_sys::RELKIND_PARTITIONED_TABLE, ..)) => true,
        _ => fail(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            "skip_advise needs a table or a materialized view".into(),
            None,
            Some("Name the table whose column may get an index.".into()),
        ),
    }
}

/// The largest partition of a table: its rows stand for those of the others.
fn largest_partition(table: Rel) -> OpenRel {
    let partitions = catalog::leaf_partitions(table.oid(), pg_sys::RELKIND_RELATION);
    let size = |oid: &pg_sys::Oid| {
        memory::check_for_interrupts();
        let partition = OpenRel::table_if_there(*oid, lock::Mode::AccessShare)?;
        Some((partition.rel().blocks(), *oid))
    };
    let (_, largest) =
        partitions.iter().filter_map(size).max_by_key(|&(blocks, _)| blocks).unwrap_or_else(|| {
            fail(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("table \"{}\" has no partition", table.name()),
                None,
                Some("The advice comes from the rows of the largest partition. Add one with rows.".into()),
            )
        });
    OpenRel::table(largest, lock::Mode::AccessShare)
}

/// A column about which advice is given.
struct Advised<'r> {
    /// The table, or the partition that stands for it.
    sampled: Rel<'r>,
    /// The table's name, as the statements have it.
    name: &'r str,
    column: &'r TableColumn,
}

fn advice_of(of: &Advised<'_>) -> Vec<RowOf<AdviceColumns>> {
    if of.column.is_virtual {
        return vec![no_index(of, "a virtual generated column cannot have an index".into())];
    }
    let parts = advise_inside::advice(of.sampled, of.column);
    // Values of such types are searched by their parts.
    let best = parts.iter().position(|parts| parts.is_usual && parts.is_worth_it);
    let of_parts = parts.iter().enumerate().map(|(i, parts)| row_of_parts(of, parts, best == Some(i)));
    let mut rows: Vec<_> = of_whole_values(of).into_iter().chain(of_parts).collect();
    if best.is_some() {
        let is_of_parts = |method: &str| method.starts_with("skip (");
        rows.iter_mut().for_each(|row| row.2 &= is_of_parts(&row.1.0));
        rows.sort_by_key(|row| !row.2);
    }
    rows
}

/// The only row about a column.
fn no_index(of: &Advised<'_>, reason: String) -> RowOf<AdviceColumns> {
    let (name, method) = (Text(of.column.name.clone()), Text("none".into()));
    (name, method, true, None, None, None, Text(reason), None)
}

fn row_of_parts(of: &Advised<'_>, parts: &PartsAdvice, is_recommended: bool) -> RowOf<AdviceColumns> {
    let PartsAdvice { class, class_in_sql, candidate, facts, .. } = parts;
    let reads = if parts.asks_for_one {
        what_it_reads(candidate, facts)
    } else {
        "what a search reads depends on its text".into()
    };
    (
        Text(of.column.name.clone()),
        Text(format!("skip ({class})")),
        is_recommended,
        Some(candidate.index_bytes as i64),
        Some(candidate.index_pages.round()),
        parts.asks_for_one.then_some(candidate.table_pages.round()),
        Text(format!("finds {}: {reads}", parts.what)),
        Some(Text(create_index(of, "skip", class_in_sql))),
    )
}

/// The rows about lookups of whole values, the recommended one first.
fn of_whole_values(of: &Advised<'_>) -> Vec<RowOf<AdviceColumns>> {
    let &Advised { sampled: table, column, .. } = of;
    let name = || Text(column.name.clone());
    if !column.has_class {
        let reason = format!(
            "type {} has no default operator class for the access method skip, or cannot be hashed{}",
            column.type_name,
            inside(column)
        );
        return vec![no_index(of, reason)];
    }
    let sample = ColumnSample::of_values(table, column.place);
    // Statistics are made from all rows: they are used only for those who may read all of them.
    let correlation = catalog::may_read(table.oid())
        .then(|| catalog::correlation(table.oid(), column.place as i16 + 1))
        .flatten();
    let facts = ColumnFacts {
        correlation,
        has_btree: column.has_btree,
        has_minmax: column.has_minmax,
        ..sample.facts()
    };
    let (best, why) = advice::recommend(&facts);
    let mut candidates = advice::candidates(&facts);
    candidates.sort_by_key(|candidate| candidate.method != best);
    let row = |candidate: &Candidate| {
        let is_best = candidate.method == best;
        let reason = if is_best {
            format!("{}{}{}", reason_for(why, &facts), order(why, column), inside(column))
        } else {
            what_it_reads(candidate, &facts)
        };
        let bytes = Some(candidate.index_bytes as i64).filter(|_| candidate.method != Method::SequentialScan);
        (
            name(),
            Text(method_name(candidate.method).into()),
            is_best,
            bytes,
            Some(candidate.index_pages.round()),
            Some(candidate.table_pages.round()),
            Text(reason),
            statement(of, candidate.method).map(Text),
        )
    };
    candidates.iter().map(row).collect()
}

fn method_name(method: Method) -> &'static str {
    match method {
        Method::Skip => "skip",
        Method::Btree => "btree",
        Method::BrinBloom => "brin (bloom)",
        Method::BrinMinmax => "brin (minmax)",
        Method::SequentialScan => "none",
    }
}

fn reason_for(why: Why, facts: &ColumnFacts) -> String {
    let share = 100.0 * facts.pairs / facts.keys.max(1.0) / facts.pages.max(1.0);
    match why {
        Why::SmallTable => format!("the table has only {:.0} pages", facts.pages),
        Why::NoValues => "the column has no values in the sample".into(),
        Why::NoBtree => "the type has no order, so it cannot have a btree".into(),
        Why::FrequentValues => format!("a value is on {share:.0} % of the table's pages"),
        Why::Ordered => "the values are in the order of the table".into(),
        Why::SmallerThanBtree => {
            let [skip, btree, ..] = advice::candidates(facts);
            let times = btree.index_bytes / skip.index_bytes.max(1.0);
            format!(
                "a map by {} is {times:.0} times smaller than a btree; use a btree for unique constraints and sorted output",
                if facts.range_pages == 1.0 {
                    "single pages".into()
                } else {
                    format!("ranges of {:.0} pages", facts.range_pages)
                }
            )
        }
        Why::BtreeIsSmall => "values repeat so much that a btree, which stores each once, is small".into(),
    }
}

/// What a skip index does with values that are in the order of the table.
fn order(why: Why, column: &TableColumn) -> String {
    match &column.minmax_class {
        Some(class) if why == Why::Ordered => {
            format!("; a skip index with {class} also finds the first rows of an order")
        }
        _ => String::new(),
    }
}

/// The operator classes for searches inside the values of a column.
fn inside(column: &TableColumn) -> String {
    if column.inside_classes.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = column.inside_classes.iter().map(|class| class.name.as_str()).collect();
    format!("; parts of the values are found with {}", names.join(", "))
}

fn what_it_reads(candidate: &Candidate, facts: &ColumnFacts) -> String {
    let share = 100.0 * (candidate.index_pages + candidate.table_pages) / facts.pages.max(1.0);
    match candidate.method {
        Method::SequentialScan => "reads the whole table".into(),
        _ => format!("a lookup reads {share:.2} % as many pages as the table has"),
    }
}

fn statement(of: &Advised<'_>, method: Method) -> Option<String> {
    let column = of.column;
    let (using, class) = match method {
        Method::Skip => ("skip", ""),
        Method::Btree if column.has_btree => ("btree", ""),
        Method::BrinBloom => ("brin", column.bloom_class.as_deref()?),
        Method::BrinMinmax if column.has_minmax => ("brin", ""),
        Method::Btree | Method::BrinMinmax | Method::SequentialScan => return None,
    };
    Some(create_index(of, using, class))
}

fn create_index(of: &Advised<'_>, using: &str, class: &str) -> String {
    let space = if class.is_empty() { "" } else { " " };
    format!("CREATE INDEX ON {} USING {using} ({}{space}{class})", of.name, of.column.quoted_name)
}
