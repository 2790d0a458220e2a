//! EXPLAIN output of a Skip Index Scan, in addition to what the server shows of every node.

use super::super::list::list;
use super::Private;
use super::exec::run_of;
use super::ordering::SortColumn;
use super::table::Table;
use crate::pg::{boundary, text};
use pgrx::pg_sys;
use skip_scan::blocks::ScanCounters;
use std::ffi::{CStr, CString};

/// EXPLAIN's output.
struct Output(*mut pg_sys::ExplainState);

impl Output {
    fn state(&self) -> &pg_sys::ExplainState {
        // SAFETY: the struct that PostgreSQL passed, for the duration of the call.
        unsafe { &*self.0 }
    }

    fn is_text(&self) -> bool {
        self.state().format == pg_sys::ExplainFormat::EXPLAIN_FORMAT_TEXT
    }

    fn text(&self, label: &CStr, value: &CStr) {
        // SAFETY: NUL-terminated strings, copied by the call.
        unsafe { pg_sys::ExplainPropertyText(label.as_ptr(), value.as_ptr(), self.0) }
    }

    fn integer(&self, label: &CStr, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        // SAFETY: a static label; no unit.
        unsafe { pg_sys::ExplainPropertyInteger(label.as_ptr(), std::ptr::null(), value, self.0) }
    }

    fn boolean(&self, label: &CStr, value: bool) {
        // SAFETY: a static label.
        unsafe { pg_sys::ExplainPropertyBool(label.as_ptr(), value, self.0) }
    }

    fn names(&self, label: &CStr, names: &[String]) {
        let names: Vec<CString> = names.iter().map(|name| text::to_server(name)).collect();
        // SAFETY: a list of NUL-terminated strings that outlives the call.
        unsafe {
            let none: *mut pg_sys::List = std::ptr::null_mut();
            let add = |all, name: &CString| pg_sys::lappend(all, name.as_ptr().cast_mut().cast());
            pg_sys::ExplainPropertyList(label.as_ptr(), names.iter().fold(none, add), self.0);
        }
    }
}

/// ExplainCustomScan.
pub(super) unsafe extern "C-unwind" fn explain(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    state: *mut pg_sys::ExplainState,
) {
    boundary::callback(|| {
        // SAFETY: PostgreSQL passes a node after begin().
        unsafe {
            let Some(run) = run_of(node) else { return };
            let out = Output(state);
            let names: Vec<String> = run.private.indexes.iter().map(|&index| Table::name_of(index)).collect();
            out.names(c"Skip Indexes", &names);
            if let Some(condition) = condition(node, ancestors, &out, run.private.served) {
                out.text(c"Index Cond", &condition);
            }
            if let Some(sort) = &run.private.order {
                out.text(c"Order By", &order(node, ancestors, &out, sort));
            }
            if out.state().costs {
                expected(&out, &run.private);
            }
            if out.state().analyze {
                let mut counters = run.counters();
                if run.private.served == 0 {
                    // Nothing was looked up: that no range was ruled out is not for want of a filter.
                    counters.unsummarized = 0;
                }
                self::counters(&out, &counters, run.private.order.is_some());
            }
        }
    })
}

fn expected(out: &Output, private: &Private) {
    let expected = &private.expected;
    if out.is_text() {
        let average = if expected.is_exact { "" } else { " (average)" };
        let text = format!("{} of {}{average}", expected.ranges, expected.of);
        out.text(c"Ranges Expected", &text::to_server(&text));
    } else {
        out.integer(c"Ranges Expected", expected.ranges.into());
        out.integer(c"Ranges Expected Of", expected.of.into());
        out.boolean(c"Ranges Expected Exactly", expected.is_exact);
    }
}

fn counters(out: &Output, c: &ScanCounters, is_ordered: bool) {
    let false_positives = c.full_positives.saturating_sub(c.true_positives);
    if out.is_text() {
        if c.removed_rows > 0 {
            out.integer(c"Rows Removed by Index Recheck", c.removed_rows);
        }
        // In a line, as the server does it for the caches of Memoize.
        let text = format!(
            "{}  Skipped: {}  Scanned: {}  False Positives: {false_positives}  Unsummarized: {}",
            c.total, c.skipped, c.scanned, c.unsummarized
        );
        out.text(c"Ranges", &text::to_server(&text));
    } else {
        out.integer(c"Rows Removed by Index Recheck", c.removed_rows);
        out.integer(c"Ranges Total", c.total);
        out.integer(c"Ranges Skipped", c.skipped);
        out.integer(c"Ranges Scanned", c.scanned);
        out.integer(c"Ranges False Positives", false_positives);
        out.integer(c"Ranges Unsummarized", c.unsummarized);
    }
    if is_ordered {
        out.integer(c"Ranges Never Read", c.total.saturating_sub(c.skipped + c.scanned));
    }
    out.integer(c"Index Pages Read", c.index_pages);
}

/// The order of the rows, as the server writes a sort key.
///
/// # Safety
/// The arguments are those that PostgreSQL passes to ExplainCustomScan, and the order of the node.
unsafe fn order(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    out: &Output,
    sort: &SortColumn,
) -> CString {
    // SAFETY: explain() has the node and its ancestors from the server. The node's table is open, and has the column.
    unsafe {
        let plan = (*node).ss.ps.plan;
        let table = (*(*node).ss.ss_currentRelation).rd_id;
        let (mut kind, mut modifier, mut collation) = (pg_sys::InvalidOid, 0, pg_sys::InvalidOid);
        pg_sys::get_atttypetypmodcoll(table, sort.attribute, &mut kind, &mut modifier, &mut collation);
        let relid = (*plan.cast::<pg_sys::Scan>()).scanrelid as _;
        let variable = pg_sys::makeVar(relid, sort.attribute, kind, modifier, collation, 0);
        let column = deparse(variable.cast(), node, ancestors, out);
        let direction = if sort.descends { " DESC" } else { "" };
        let nulls = match (sort.descends, sort.nulls_first) {
            (false, true) => " NULLS FIRST",
            (true, false) => " NULLS LAST",
            _ => "",
        };
        let mut text = column.into_bytes();
        if sort.collation != pg_sys::get_typcollation(kind) {
            text.extend(b" COLLATE ");
            text.extend(CStr::from_ptr(pg_sys::generate_collation_name(sort.collation)).to_bytes());
        }
        text.extend(direction.bytes().chain(nulls.bytes()));
        CString::new(text).unwrap_or_default()
    }
}

/// An expression as SQL.
///
/// # Safety
/// As [`order`], with an expression of the node's plan.
unsafe fn deparse(
    expr: *mut pg_sys::Node,
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    out: &Output,
) -> CString {
    // SAFETY: the expression is prepared for printing as the server does it.
    unsafe {
        let es = out.state();
        let context = pg_sys::set_deparse_context_plan(es.deparse_cxt, (*node).ss.ps.plan, ancestors);
        let has_prefix = es.verbose || (!es.rtable.is_null() && (*es.rtable).length > 1);
        CStr::from_ptr(pg_sys::deparse_expression(expr, context, has_prefix, false)).to_owned()
    }
}

/// The served conditions as SQL.
///
/// # Safety
/// The arguments are those that PostgreSQL passes to ExplainCustomScan.
unsafe fn condition(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    out: &Output,
    served: usize,
) -> Option<CString> {
    // SAFETY: explain() has the node and its ancestors from the server. The expressions are the plan's, prepared for
    // printing as the server does it.
    unsafe {
        let plan = (*node).ss.ps.plan;
        let exprs = list::<pg_sys::Node>((*plan.cast::<pg_sys::CustomScan>()).custom_exprs).take(served);
        let none: *mut pg_sys::List = std::ptr::null_mut();
        let conditions = exprs.fold(none, |all, expr| pg_sys::lappend(all, expr.cast()));
        if conditions.is_null() {
            return None;
        }
        let all = pg_sys::make_ands_explicit(conditions);
        Some(deparse(all.cast(), node, ancestors, out))
    }
}
