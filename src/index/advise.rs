//! skip_advise: which index serves lookups of single values of a column, from a sample of the table.
//!
//! The sample is read by queries with the rights of the caller. The formulas are in [`skip_scan::advice`]. The choice
//! of a map's ranges is that of a build ([`skip_map::choice`]).

use crate::pg::query::{self, StoredValue};
use crate::pg::result_rows::{ResultRows, RowOf, result_columns};
use crate::pg::sql_text::Text;
use crate::pg::table_columns::{self, TableColumn};
use crate::pg::{OpenRel, Rel, boundary, catalog, fail, lock, memory, options, relation, text};
use pgrx::pg_sys;
use pgrx::prelude::*;
use skip_map::PairCounts;
use skip_scan::advice::{self, Candidate, ColumnFacts, Method, Why};
use std::collections::{HashMap, HashSet};

/// The most ranges of 16 pages that are sampled, at equal distances: 1,024 pages, some 100,000 rows.
const MOST_RANGES: u32 = 64;

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
        check_table(table);
        let table = OpenRel::table(table, lock::Mode::AccessShare);
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
        let is_wanted = |name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        let rows: Vec<RowOf<AdviceColumns>> = columns
            .iter()
            .filter(|column| is_wanted(&column.name))
            .flat_map(|column| advice_of(table.rel(), column))
            .collect();
        if let Some(wanted) = wanted.filter(|_| rows.is_empty()) {
            fail(
                PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                format!("column \"{wanted}\" of table \"{}\" does not exist", table.rel().name()),
                None,
                None,
            );
        }
        ResultRows::new(rows)
    })
}

fn check_table(table: pg_sys::Oid) {
    let kind = relation::kind_and_method(table);
    match kind {
        Some((pg_sys::RELKIND_RELATION | pg_sys::RELKIND_MATVIEW, ..)) => {}
        Some((pg_sys::RELKIND_PARTITIONED_TABLE, _, name)) => fail(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{name}\" is a partitioned table"),
            Some("Its rows are in its partitions, whose contents may differ.".into()),
            Some(format!("Name one of its partitions: SELECT * FROM pg_partition_tree('{name}').")),
        ),
        _ => fail(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            "skip_advise needs a table or a materialized view".into(),
            None,
            Some("Name the table whose column may get an index.".into()),
        ),
    }
}

fn advice_of(table: Rel, column: &TableColumn) -> Vec<RowOf<AdviceColumns>> {
    let name = || Text(column.name.clone());
    if !column.has_class {
        let reason = format!(
            "type {} has no default operator class for the access method skip{}",
            column.type_name,
            inside(column)
        );
        return vec![(name(), Text("none".into()), true, None, None, None, Text(reason), None)];
    }
    let sample = ColumnSample::take(table, column.place);
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
            format!("{}{}", reason_for(why, &facts), inside(column))
        } else {
            what_it_does(candidate, &facts)
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
            statement(table, column, candidate.method).map(Text),
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

/// The operator classes for searches inside the values of a column, about which nothing is estimated.
fn inside(column: &TableColumn) -> String {
    if column.inside_classes.is_empty() {
        return String::new();
    }
    format!("; parts of the values are found with {}", column.inside_classes.join(", "))
}

fn what_it_does(candidate: &Candidate, facts: &ColumnFacts) -> String {
    let share = 100.0 * (candidate.index_pages + candidate.table_pages) / facts.pages.max(1.0);
    match candidate.method {
        Method::SequentialScan => "reads the whole table".into(),
        _ => format!("a lookup reads {share:.2} % as many pages as the table has"),
    }
}

fn statement(table: Rel, column: &TableColumn, method: Method) -> Option<String> {
    let (using, class) = match method {
        Method::Skip => ("skip", ""),
        Method::Btree if column.has_btree => ("btree", ""),
        Method::BrinBloom => ("brin", column.bloom_class.as_deref()?),
        Method::BrinMinmax if column.has_minmax => ("brin", ""),
        Method::Btree | Method::BrinMinmax | Method::SequentialScan => return None,
    };
    let space = if class.is_empty() { "" } else { " " };
    Some(format!(
        "CREATE INDEX ON {} USING {using} ({}{space}{class})",
        table.qualified_name(),
        column.quoted_name
    ))
}

/// A sample of a column.
struct ColumnSample {
    /// Pages of the table, and of the sample.
    pages: f64,
    sampled: f64,
    /// Values in the sample, and their bytes.
    values: f64,
    bytes: f64,
    /// In how many ranges of the sample each value is, by its hash.
    ranges_of: HashMap<u64, u32>,
    pairs: PairCounts,
}

impl ColumnSample {
    fn take(table: Rel, column: usize) -> Self {
        let range = options::PAGES_PER_RANGE.2 as u32;
        let pages = table.blocks();
        let ranges = pages.div_ceil(range);
        let count = ranges.min(MOST_RANGES);
        let sizes = (1..=range).filter(|size| range.is_multiple_of(*size));
        let mut sample = Self {
            pages: pages.into(),
            sampled: 0.0,
            values: 0.0,
            bytes: 0.0,
            ranges_of: HashMap::new(),
            pairs: PairCounts::new(sizes),
        };
        for i in 0..count {
            memory::check_for_interrupts();
            let first = (u64::from(i) * u64::from(ranges) / u64::from(count)) as u32 * range;
            let end = first.saturating_add(range).min(pages);
            let mut by_page: Vec<Vec<u64>> = (first..end).map(|_| Vec::new()).collect();
            query::values_in_blocks(table, column, (first, end), |StoredValue { block, hash, bytes }| {
                sample.values += 1.0;
                sample.bytes += f64::from(bytes);
                if let Some(page) = block.checked_sub(first).and_then(|at| by_page.get_mut(at as usize)) {
                    page.push(hash);
                }
            });
            let of_range: HashSet<u64> = by_page.iter().flatten().copied().collect();
            of_range.into_iter().for_each(|hash| *sample.ranges_of.entry(hash).or_default() += 1);
            sample.sampled += f64::from(end - first);
            sample.pairs.add(by_page.iter().map(Vec::as_slice));
        }
        sample
    }

    /// What the sample says; nothing of what is known of the column's type and of ANALYZE's correlation.
    fn facts(&self) -> ColumnFacts {
        let scale = self.pages / self.sampled.max(1.0);
        let sampled = self.pairs.of_ranges() as f64;
        let once = self.ranges_of.values().filter(|&&ranges| ranges == 1).count() as f64;
        let range_pages = self.pairs.smallest_part(self.values);
        ColumnFacts {
            pages: self.pages,
            rows: self.values * scale,
            keys: advice::distinct_values(sampled * scale, sampled, self.ranges_of.len() as f64, once),
            pairs: self.pairs.of_part(1) as f64 * scale,
            range_pages: range_pages.into(),
            range_pairs: self.pairs.of_part(range_pages) as f64 * scale,
            width: self.bytes / self.values.max(1.0),
            correlation: None,
            has_btree: true,
            has_minmax: true,
        }
    }
}
