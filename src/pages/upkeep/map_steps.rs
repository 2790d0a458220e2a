//! Steps of a merge of maps ([`super::unfinished`]): first the data pages, then the fence pages.
//!
//! A step goes on behind the last number of the last page, and reads its sources from there on. A page that is not full
//! at the end of a step is not written. The fence pages are made from the first numbers of the pages below them, so
//! they take no memory from step to step either.

use super::step::StepDone;
use crate::pages::directory::Directory;
use crate::pages::entry::{Segment, Unfinished};
use crate::pages::map::{self, Map};
use crate::pages::miss::{Fetch, Miss};
use crate::pages::segment;
use crate::pg::{Damage, error::Read, memory, wal::Logging};
use skip_map::portion::{merge_portion, start_in};
use skip_map::{FenceHead, HEAD_BYTES, Head, Malformed, MergeSource, Page, RunShape, write_fence};

/// Reading the heads of the pages below a fence page takes about as long as merging so many pages.
const WORK_OF_FENCE: u32 = 32;
/// Pages reserved in addition, as a part of all: each step may leave the end of a page unused.
const SPARE_PART: u32 = 64;

/// The blocks that a map of neighbouring maps needs at most. None if it would have more pairs than the directory can
/// count.
pub fn most_blocks(run: &[Segment]) -> Option<u32> {
    let (first, last) = (run.first()?, run.last()?);
    let pairs: u64 = run.iter().filter_map(Segment::map).map(|size| u64::from(size.pairs)).sum();
    let width = last.end_range() - first.first_range;
    let coding = map::coding(first.map()?.form, width).ok()?;
    let blocks = skip_map::most_pages(coding, pairs);
    (pairs < u32::MAX.into()).then(|| blocks + blocks / SPARE_PART + 2)
}

/// Writes more pages of an unfinished map, and publishes it with the last one.
///
/// # Errors
/// Damage to the index.
pub fn write_pages(
    directory: &mut Directory<'_>,
    unfinished: &Unfinished,
    sources: &[Segment],
    most_pages: u32,
) -> Read<StepDone> {
    let mut work = StepDone { pages: 0, is_done: false };
    let mut unfinished = *unfinished;
    if !unfinished.has_data {
        let written = write_data(directory, &unfinished, sources, most_pages).map_err(Miss::not_recycled)?;
        let surplus = unfinished.blocks - written.blocks;
        work.pages = written.pages - unfinished.pages;
        unfinished = written;
        directory.set_unfinished(unfinished, surplus)?;
    }
    while unfinished.has_data && unfinished.pages_left() > 0 && work.pages < most_pages {
        let most = (most_pages - work.pages).div_ceil(WORK_OF_FENCE);
        let before = unfinished.pages;
        unfinished.pages = write_fences(directory, &unfinished, sources, most).map_err(Miss::not_recycled)?;
        directory.set_unfinished(unfinished, 0)?;
        work.pages = work.pages.saturating_add((unfinished.pages - before).saturating_mul(WORK_OF_FENCE));
    }
    work.is_done = unfinished.has_data && unfinished.pages_left() == 0;
    if work.is_done {
        directory.publish(unfinished.segment(&sources[0]))?;
    }
    Ok(work)
}

/// Writes data pages. Returns how far the map is written then.
fn write_data(
    directory: &Directory<'_>,
    unfinished: &Unfinished,
    sources: &[Segment],
    most_pages: u32,
) -> Fetch<Unfinished> {
    let (index, new) = (directory.index(), unfinished.segment(&sources[0]));
    let impossible = || Damage::new(new.first_block, "the directory describes an invalid map");
    let to = map::coding(new.map().ok_or_else(impossible)?.form, new.width)?;
    let after = match unfinished.pages.checked_sub(1) {
        Some(page) => Some(head(directory, &new, page, |head| Head::parse(head).map(|head| head.last()))?),
        None => None,
    };
    let maps: Vec<Map<'_>> = sources.iter().map(|s| Map::of(index, s)).collect::<Read<_>>()?;
    let mut runs = Vec::with_capacity(maps.len());
    for map in &maps {
        let (coding, first_range) = (map.coding(), map.first_part() as u32);
        let numbers = map.numbers_from(after.map_or(0, |after| start_in(coding, to, after)))?;
        runs.push(MergeSource { coding, first_range, numbers });
    }
    let mut written = *unfinished;
    let portion =
        merge_portion(runs, (to, new.part_span().start as u32), after, most_pages, |page: &Page| {
            if written.pages >= new.blocks {
                return Err(Damage::new(new.first_block, "a map needs more pages than it can have").into());
            }
            memory::check_for_interrupts();
            segment::write_page(index, &new, written.pages, Logging::EachPage, |out| {
                out.copy_from_slice(page)
            });
            written.pages += 1;
            Ok::<(), Miss>(())
        })?;
    written.pairs = u32::try_from(u64::from(written.pairs) + portion.numbers).unwrap_or(u32::MAX);
    if portion.is_last {
        written.has_data = true;
        written.blocks = RunShape::of_data_pages(written.pages).pages();
        if written.blocks > new.blocks {
            return Err(Damage::new(new.first_block, "a map needs more pages than it can have").into());
        }
    }
    Ok(written)
}

/// Writes at most so many fence pages. Returns the number of pages that are written then.
fn write_fences(
    directory: &Directory<'_>,
    unfinished: &Unfinished,
    sources: &[Segment],
    most: u32,
) -> Fetch<u32> {
    let new = unfinished.segment(&sources[0]);
    let impossible = || Damage::new(new.first_block, "the directory describes an invalid map");
    let shape = RunShape::of_pages(new.blocks).ok_or_else(impossible)?;
    let end = new.blocks.min(unfinished.pages.saturating_add(most));
    for page in unfinished.pages..end {
        memory::check_for_interrupts();
        let children = shape.children(page).ok_or_else(impossible)?;
        let first = |child| {
            head(directory, &new, child, |head| {
                if shape.is_fence(child) {
                    FenceHead::parse(head).map(|head| head.first())
                } else {
                    Head::parse(head).map(|head| head.first())
                }
            })
        };
        let firsts: Vec<u64> = children.map(first).collect::<Fetch<_>>()?;
        segment::write_page(directory.index(), &new, page, Logging::EachPage, |out| {
            if let Some(out) = out.first_chunk_mut() {
                write_fence(&firsts, out);
            }
        });
    }
    Ok(end)
}

/// What the first quarter of a page tells.
fn head(
    directory: &Directory<'_>,
    new: &Segment,
    page: u32,
    read: impl FnOnce(&[u8]) -> Result<u64, Malformed>,
) -> Fetch<u64> {
    let found = segment::read_part(directory.index(), new, page, 0..HEAD_BYTES, read)?;
    found.map_err(|what| Damage::new(new.first_block + page, what.to_string()).into())
}
