//! skip_range_map: a table's ranges drawn as a line, which shows what a lookup of a value does to each.
//!
//! The line shows three sets of ranges: those that a lookup reads, those without a filter, and those with a visible
//! row. They are read at different moments, and are consistent only in this order:
//!
//! 1. the snapshot, which is the calling query's: it determines the visible rows, none of which is behind the table's
//!    end (2);
//! 2. the table's size;
//! 3. the ranges without a filter: one that gets a filter afterwards may not match any more, and is then skipped;
//! 4. the ranges that match, which hold every row that the snapshot sees.
//!
//! The rows are searched with the rights of the table's owner, in a sandbox, because index expressions are the owner's
//! code, whoever calls. It was checked before that the caller may see all rows ([`target::for_reading_rows`]).

use super::steady::steady;
use super::{inspect, target};
use crate::pages::bounds;
use crate::pages::directory::{self, LiveSegment};
use crate::pages::meta::Meta;
use crate::pages::miss::Fetch;
use crate::pages::segment;
use crate::pg::boundary;
use crate::pg::sandbox::Sandbox;
use crate::pg::text;
use crate::pg::{Rel, fail, memory, query, scankey};
use pgrx::prelude::*;
use pgrx::{AnyElement, pg_sys};
use skip_bounds::PageSummary;
use skip_map::key_part::{KeySet, KeySpan, uncovered};
use skip_scan::{RangeSet, picture};
use skip_segment::{OPEN_SLICE, or_slice};

/// The most characters of a line.
const MOST_CELLS: i32 = 100_000;

/// Draws the table as at most `width` characters. A NULL value looks up IS NULL.
#[pg_extern(sql = false)]
fn skip_range_map(
    index: Option<pg_sys::Oid>,
    column: Option<&std::ffi::CStr>,
    value: Option<AnyElement>,
    width: Option<i32>,
) -> Option<String> {
    boundary::callback(|| {
        // Only the value may be NULL: it looks up IS NULL.
        let (index, column, width) = (index?, column?, checked(width?));
        let target = target::for_reading_rows(index);
        let (table, index) = (target.table.rel(), target.index.rel());
        let column = inspect::find_column(index, &text::of_bytes(column.to_bytes()));
        let value = value.map(|value| scankey::argument(index, column, value));
        let clause = scankey::clause_of_argument(index, column, value.as_ref());
        let blocks = table.blocks();
        let (pages_per_range, unfiltered, matching) = loop {
            let (pages_per_range, unfiltered) = steady(index, || without_filter(index, column, blocks));
            let matching = inspect::survivors(index, &clause, blocks);
            // The layout of the column may be chosen in between, once.
            if matching.pages_per_range == pages_per_range {
                break (pages_per_range, unfiltered, matching.ranges);
            }
            memory::check_for_interrupts();
        };
        let mut holding = RangeSet::empty(matching.universe());
        if !matching.is_empty() {
            let _sandbox = Sandbox::enter_to_read_all(table);
            query::blocks_of_rows(table, index, &clause, value, |block| {
                holding.insert(u64::from(block / pages_per_range));
            });
        }
        Some(picture(&matching, &unfiltered, &holding, width))
    })
}

fn checked(width: i32) -> u64 {
    if !(1..=MOST_CELLS).contains(&width) {
        fail(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("width must be between 1 and {MOST_CELLS}"),
            Some(format!("The given width is {width}.")),
            Some("The width is the number of characters of the map. A map never has more characters than the table has ranges.".into()),
        );
    }
    width as u64
}

/// Blocks per range of a column, and the ranges of a table of `blocks` blocks that have no filter for it: those that
/// are not summarized, and open ones. If its maps divide ranges, these are the parts.
fn without_filter(index: Rel, column: u16, blocks: u32) -> Fetch<(u32, RangeSet)> {
    let meta = Meta::read(index)?;
    let index = meta.bind(index);
    let ranges = u64::from(meta.parts_in(column, blocks));
    let parts = u64::from(meta.parts(column));
    let mut unfiltered = RangeSet::empty(ranges);
    let live = directory::live(index, &meta, |c| if c == column { KeySet::ALL } else { KeySet::NONE })?;
    for stretch in &live.open {
        let (first, end) = (u64::from(stretch.first_range), u64::from(stretch.end_range()));
        unfiltered.insert_span(first * parts, end * parts);
    }
    for segment in live.segments.iter().filter(|s| s.map().is_none()) {
        if segment.is_of_bounds() {
            let may_be_open = |_, summary: Option<&PageSummary>| summary.is_none_or(PageSummary::has_open);
            bounds::each(index, segment, may_be_open, |range, bounds| {
                if bounds.open {
                    unfiltered.insert(range.into());
                }
            })?;
            continue;
        }
        let shape = segment.shape()?;
        let mut open = vec![0u64; shape.words()];
        segment::read_slice(index, segment, &shape, OPEN_SLICE, |slice| or_slice(&mut open, slice))?;
        unfiltered.or_bits(segment.first_range.into(), &open, segment.width.into());
    }
    let spans: Vec<KeySpan> = live.segments.iter().map(LiveSegment::used_span).collect();
    uncovered(&spans, KeySet::ALL, (0, u32::MAX), |first, end| {
        unfiltered.insert_span(u64::from(first) * parts, (u64::from(end) * parts).min(ranges));
    });
    Ok((meta.pages_per_part(column), unfiltered))
}
