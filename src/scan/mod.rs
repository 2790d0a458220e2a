//! The Skip Index Scan: a clause's journey through the planner and the executor.
//!
//! | file | what it does |
//! |---|---|
//! | [`matching`] | conditions of the query become tests of index columns |
//! | [`paths`] | conditions become paths, and the chosen path becomes a plan |
//! | [`ordered`] | paths in the order of a column, for `ORDER BY`, and what they are expected to read |
//! | [`cost`] | what the paths cost, by what they are expected to read ([`crate::estimate`]) |
//! | [`refusal`] | why a condition cannot be looked up in an index |
//! | [`index_report`] | what skip_explain says of one index |
//! | [`report`] | skip_explain: which conditions of a query are looked up, and why others are not |
//! | [`survivors`] | in the executor, clauses get their keys, which are looked up in the indexes |
//!
//! The interface to PostgreSQL, and the reading of rows, are in [`crate::pg::custom`].

mod cost;
mod index_report;
mod matching;
mod ordered;
mod paths;
mod refusal;
mod report;
mod survivors;

use crate::estimate::distinct;
use crate::estimate::remembered::EstimatingRun;
use crate::pages::peeked_meta::PeekedMeta;
use crate::pg::clause::{Clause, Values};
use crate::pg::custom::expr::Expr;
use crate::pg::custom::ordering::OrderedColumn;
use crate::pg::custom::table::Table;
use crate::pg::custom::{self, Planned};
use crate::pg::plan_tree::BitmapColumn;
use crate::pg::relation::{self, Mode};
use crate::pg::{OpenRel, Rel};
use crate::prune::planner_lookup;
use crate::stats::{self, Counts};
use pgrx::pg_sys::Oid;
use skip_scan::blocks::{ScanCounters, Survivors};
use std::any::Any;
use std::ffi::CStr;

/// The Skip Index Scan.
struct SkipIndexScan;

impl custom::Implementation for SkipIndexScan {
    fn planning(&self, text: Option<&CStr>) -> Box<dyn Any> {
        Box::new((planner_lookup::Planning::begin(), EstimatingRun::begin(), report::PlannerRun::begin(text)))
    }

    fn add_paths(&self, table: &Table<'_>) {
        paths::add(table);
    }

    fn distinct(&self, table: &Table<'_>, attribute: i16, collation: Oid) -> Option<f64> {
        distinct::distinct(table, attribute, collation)
    }

    fn plan<'a>(
        &self,
        table: &Table<'a>,
        conditions: &[Expr<'a>],
        left_out: &[bool],
        order: Option<(Oid, u16)>,
    ) -> Planned<'a> {
        report::chosen_order(order);
        paths::plan(table, conditions, left_out)
    }

    fn is_explaining(&self) -> bool {
        report::is_wanted()
    }

    fn planned(&self, bitmaps: &[BitmapColumn]) {
        report::planned(bitmaps);
    }

    fn survivors<'k>(
        &self,
        code: &[i32],
        blocks: u32,
        indexes: &[Rel<'_>],
        key: &mut dyn FnMut(&Clause<Option<u16>>) -> Clause<Values<'k>>,
    ) -> Survivors {
        survivors::survivors(code, blocks, indexes, key)
    }

    fn ordered_column(&self, index: Rel<'_>, column: u16, blocks: u32) -> Option<OrderedColumn> {
        ordered::column(index, column, blocks)
    }

    fn unsummarized(&self, index: Rel<'_>) -> Option<u32> {
        let table = OpenRel::table(relation::table_of(index.oid())?, Mode::AccessShare);
        let PeekedMeta { watermark, pages_per_range, .. } = PeekedMeta::read(index).ok()?;
        Some(table.rel().blocks().div_ceil(pages_per_range).saturating_sub(watermark))
    }

    fn started(&self) {
        stats::attach();
    }

    fn finished(&self, indexes: &[Oid], counters: &ScanCounters) {
        let counts = Counts {
            scans: counters.scans,
            // Ranges without a filter always survive, so they are not counted as checked.
            checked: counters.total.saturating_sub(counters.unsummarized),
            skipped: counters.skipped,
            full_positives: counters.full_positives,
            true_positives: counters.true_positives,
        };
        indexes.iter().for_each(|&index| stats::add(index, &counts));
    }
}

/// Makes the Skip Index Scan known to PostgreSQL.
pub fn register() {
    custom::register(&SkipIndexScan);
}
