//! Options that were changed and are not in effect yet: those fixed at build take effect at the next build.

use super::choose;
use crate::pages::meta::{Meta, SegmentLayout};
use crate::pg::error::report;
use crate::pg::options::{IndexLayout, Options, number};
use crate::pg::{Rel, alter};
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// Makes ALTER INDEX report them.
pub fn register() {
    alter::register(notice);
}

fn notice(index: Rel, before: &Options, now: &Options) {
    let is_same = before.pages_per_range == now.pages_per_range
        && before.false_positive_rate == now.false_positive_rate
        && before.layout == now.layout;
    // ALTER INDEX … RENAME, and a new owner. REASSIGN OWNED also gives away temporary tables of other sessions, and
    // pages of their indexes cannot be read here.
    if is_same {
        return;
    }
    // Options that do not fit would make the next build fail, which may be a TRUNCATE.
    (0..index.key_columns()).for_each(|column| _ = choose::at_first(index, now, column));
    // Damage to the index is reported by whatever uses the index.
    let Ok(meta) = Meta::read(index) else { return };
    let blocks = meta.watermark.saturating_mul(meta.pages_per_range);
    let mut pending: Vec<String> =
        (0..meta.columns.len()).filter_map(|column| pending(index, &meta, now, column, blocks)).collect();
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

/// The options of a column whose values differ from those that the index was built with, over a table of `blocks`
/// blocks; None if there are none.
pub fn pending(index: Rel, meta: &Meta, options: &Options, column: usize, blocks: u32) -> Option<String> {
    let mut pending = Vec::new();
    let built = meta.columns.get(column)?;
    let pages = options.pages_of(index, column);
    let built_pages = match built.layout {
        SegmentLayout::NotChosen(wish) => wish.parts.map(|parts| meta.pages_per_range / parts.max(1)),
        _ => Some(meta.pages_per_part(column as u16)),
    };
    if let Some(pages) = pages
        && Some(pages) != built_pages
    {
        pending.push(format!("pages_per_range = {pages}"));
    } else if options.pages_of_index(index) != meta.pages_per_range {
        pending.push(format!("pages_per_range = {}", options.pages_of_index(index)));
    }
    let rate = choose::rate_at_first(index, options, column, built.layout, blocks);
    // The default rate of filters falls with the size of the table. It was smaller when they were built, or the rate is
    // that of a larger table already, into which this one grows.
    let default = options.rate_of(index, column);
    let least = if rate < default { rate / choose::GROWTH } else { rate };
    if !(least..=default).contains(&built.rate) && built.layout != SegmentLayout::Bounds {
        pending.push(format!("false_positive_rate = {}", number(rate)));
    }
    let layout = options.layout_of(index, column);
    let has_choice = built.layout != SegmentLayout::Bounds;
    let is_other =
        |layout: &IndexLayout| has_choice && *layout != IndexLayout::Auto && *layout != built.layout.shown();
    if let Some(layout) = layout.filter(is_other) {
        pending.push(format!("layout = {}", layout.name()));
    }
    (!pending.is_empty()).then(|| pending.join(", "))
}
