//! Steps of a merge of maps ([`super::unfinished`]): first the data pages, then the fence pages.
//!
//! A step goes on behind the last number of the last page, and reads its sources from there on. A page that is not full
//! at the end of a step is not written. The fence pages are made from the first numbers of the pages below them, so
//! they take no memory from step to step either.

use super::regions::MergeTarget;
use super::step::StepDone;
use crate::pages::directory::Directory;
use crate::pages::entry::{Segment, Unfinished};
use crate::pages::map::{self, Sources};
use crate::pages::meta::META_BLOCK;
use crate::pages::miss::{Fetch, Miss};
use crate::pages::segment;
use crate::pg::{Damage, error::IndexResult, memory};
use skip_map::key_part::KeyPart;
use skip_map::portion::{merge_portion, start_in};
use skip_map::{FenceHead, HEAD_BYTES, Head, Malformed, Page, RunShape, most_pages_in_parts, write_fence};

/// Reading the heads of this number of pages below a fence page takes about as long as merging a page.
const HEADS_A_PAGE: u32 = 32;
/// In addition to the pages that are needed, 1/64 of their number is reserved: each step may leave the end of a page
/// unused.
const SPARE_PART: u32 = 64;

/// The blocks that neighbouring maps need at most as one, which is divided into key parts of this depth. None if it
/// would have more pairs than the directory can count.
pub fn most_blocks_of_all(maps: &[Segment], depth: u8) -> Option<u32> {
    let first = maps.iter().map(|s| s.first_range).min()?;
    let end = maps.iter().map(Segment::end_range).max()?;
    let pairs: u64 = maps.iter().filter_map(Segment::map).map(|size| u64::from(size.pairs)).sum();
    let coding = map::coding(maps.first()?.map()?.form, end - first).ok()?;
    let blocks = most_pages_in_parts(coding, KeyPart::WHOLE, depth, pairs);
    // Keys are hashed, so that parts are about equal; half is left for those that are not.
    let most = if depth == 0 { u64::from(u32::MAX) } else { u64::from(u32::MAX / 2) << depth };
    (pairs < most).then(|| blocks + blocks / SPARE_PART + 2)
}

/// The blocks that a map of the keys and ranges of some maps needs at most; never 0.
///
/// # Errors
/// Damage to the index.
pub fn most_blocks(directory: &Directory<'_>, target: MergeTarget, maps: &[Segment]) -> IndexResult<u32> {
    let impossible = || Damage::new(META_BLOCK, "segments that are no maps cannot be merged as maps");
    let form = maps.first().and_then(Segment::map).ok_or_else(impossible)?.form;
    let coding = map::coding(form, target.end - target.first_range)?;
    let sources = Sources::of(directory.index(), maps)?;
    let pairs = sources.most_pairs(target.key_part).map_err(Miss::into_damage)?;
    let blocks = most_pages_in_parts(coding, target.key_part, target.key_part.depth(), pairs);
    Ok(blocks + blocks / SPARE_PART + 2)
}

/// The blocks that such a map is likely to need: about those of its sources. Each page takes a few numbers more or less
/// than in the sources.
///
/// # Errors
/// Damage to the index.
pub fn likely_blocks(directory: &Directory<'_>, target: MergeTarget, maps: &[Segment]) -> IndexResult<u32> {
    let most = most_blocks(directory, target, maps)?;
    let sources = Sources::of(directory.index(), maps)?;
    let blocks = sources.blocks(target.key_part).map_err(Miss::into_damage)?;
    Ok(most.min(blocks + blocks / SPARE_PART + 2))
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
) -> IndexResult<StepDone> {
    let mut work = StepDone { pages: 0, is_done: false, lacks_room: false };
    let mut unfinished = *unfinished;
    if !unfinished.has_data {
        let written = write_data(directory, &unfinished, sources, most_pages).map_err(Miss::into_damage)?;
        let Some(written) = written else {
            return Ok(StepDone { pages: unfinished.blocks, is_done: false, lacks_room: true });
        };
        let surplus = unfinished.blocks - written.blocks;
        work.pages = written.pages - unfinished.pages;
        unfinished = written;
        if unfinished.has_data && unfinished.blocks == 0 {
            directory.abandon(&Unfinished { blocks: surplus, ..unfinished })?;
            directory.publish(Segment { first_block: 0, ..unfinished.segment(&sources[0]) })?;
            return Ok(StepDone { pages: 1, is_done: true, lacks_room: false });
        }
        directory.set_unfinished(unfinished, surplus)?;
    }
    while unfinished.has_data && unfinished.pages_left() > 0 && work.pages < most_pages {
        let children = write_fence_page(directory, &unfinished, sources).map_err(Miss::into_damage)?;
        unfinished.pages += 1;
        directory.set_unfinished(unfinished, 0)?;
        work.pages = work.pages.saturating_add(children.div_ceil(HEADS_A_PAGE));
    }
    work.is_done = unfinished.has_data && unfinished.pages_left() == 0;
    if work.is_done {
        directory.publish(unfinished.segment(&sources[0]))?;
    }
    Ok(work)
}

/// Writes data pages. Returns how far the map is written then; None if its blocks do not suffice.
fn write_data(
    directory: &Directory<'_>,
    unfinished: &Unfinished,
    sources: &[Segment],
    most_pages: u32,
) -> Fetch<Option<Unfinished>> {
    let (index, new) = (directory.index(), unfinished.segment(&sources[0]));
    let impossible = || Damage::new(new.first_block, "the directory describes an invalid map");
    let to = map::coding(new.map().ok_or_else(impossible)?.form, new.width)?;
    let after = match unfinished.pages.checked_sub(1) {
        Some(page) => Some(head(directory, &new, page, |head| Head::parse(head).map(|head| head.last()))?),
        None => None,
    };
    let maps = Sources::of(index, sources)?;
    let start = |coding| after.map_or(0, |after| start_in(coding, to, after));
    let runs = maps.of_merge(new.key_part, start);
    let mut written = *unfinished;
    let mut lacks_room = false;
    let portion =
        merge_portion(runs, (to, new.part_span().start as u32), after, most_pages, |page: &Page| {
            // What comes behind the last block is not written: the map will be begun anew, with more room.
            lacks_room |= written.pages >= new.blocks;
            if lacks_room {
                return Ok(());
            }
            memory::check_for_interrupts();
            segment::write_page(index, &new, written.pages, |out| out.copy_from_slice(page));
            written.pages += 1;
            Ok::<(), Miss>(())
        })?;
    written.pairs = u32::try_from(u64::from(written.pairs) + portion.numbers).unwrap_or(u32::MAX);
    if portion.is_last {
        written.has_data = true;
        written.blocks = RunShape::of_data_pages(written.pages).pages();
        lacks_room |= written.blocks > new.blocks;
    }
    Ok((!lacks_room).then_some(written))
}

/// Writes the next fence page. Returns the number of the pages below it.
fn write_fence_page(directory: &Directory<'_>, unfinished: &Unfinished, sources: &[Segment]) -> Fetch<u32> {
    let new = unfinished.segment(&sources[0]);
    let impossible = || Damage::new(new.first_block, "the directory describes an invalid map");
    let shape = RunShape::of_pages(new.blocks).ok_or_else(impossible)?;
    memory::check_for_interrupts();
    let children = shape.children(unfinished.pages).ok_or_else(impossible)?;
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
    segment::write_page(directory.index(), &new, unfinished.pages, |out| {
        if let Some(out) = out.first_chunk_mut() {
            write_fence(&firsts, out);
        }
    });
    Ok(firsts.len() as u32)
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
