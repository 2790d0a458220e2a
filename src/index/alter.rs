//! Options that were changed and are not in force: those of the build wait for the next one.

use crate::pages::meta::Meta;
use crate::pg::error::report;
use crate::pg::options::{IndexLayout, Options, number};
use crate::pg::{Rel, alter};
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// Has ALTER INDEX say so; once per process, when the library is loaded.
pub fn register() {
    alter::register(notice);
}

fn notice(index: Rel, before: &Options, now: &Options) {
    let is_same = before.pages_per_range == now.pages_per_range
        && before.false_positive_rate == now.false_positive_rate
        && before.layout == now.layout;
    // Of a damaged index others will tell.
    let Some(meta) = Meta::read(index).ok().filter(|_| !is_same) else { return };
    let mut pending: Vec<String> =
        (0..meta.columns.len()).filter_map(|column| pending(index, &meta, now, column)).collect();
    pending.sort_unstable_by_key(|text| std::cmp::Reverse(text.len()));
    if let Some(pending) = pending.first() {
        report(
            PgLogLevel::NOTICE,
            PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
            format!("changed options of index \"{}\" take effect at the next REINDEX", index.name()),
            Some(format!("Options that are not in effect yet: {pending}.")),
            Some(format!("To apply them: REINDEX INDEX {};", index.qualified_name())),
        );
    }
}

/// The options of a column that are set otherwise than the index was built; None if none are.
pub fn pending(index: Rel, meta: &Meta, options: &Options, column: usize) -> Option<String> {
    let mut pending = Vec::new();
    if options.pages_per_range != meta.pages_per_range {
        pending.push(format!("pages_per_range = {}", options.pages_per_range));
    }
    let rate = options.rate_of(index, column);
    if meta.columns.get(column).is_some_and(|built| built.rate != rate) {
        pending.push(format!("false_positive_rate = {}", number(rate)));
    }
    if let Some(layout) = options.layout_of(index, column)
        && meta.columns.get(column).is_some_and(|built| built.map.is_some() != (layout == IndexLayout::Map))
    {
        pending.push(format!("layout = {}", layout.name()));
    }
    (!pending.is_empty()).then(|| pending.join(", "))
}
