//! Copying some ranges of a segment of filters into a segment of their own, by moving bits. The ranges of a segment
//! that are not read again when the others are ([`super::rescan`]) are kept so.

use crate::pages::directory::Directory;
use crate::pages::entry::Segment;
use crate::pages::meta;
use crate::pages::miss::Miss;
use crate::pages::segment;
use crate::pg::{Damage, error::IndexResult, memory};
use skip_segment::page::SLICE_BYTES;
use skip_segment::{SegmentShape, copy_bits};

/// Publishes the ranges from `first_range` to `end` of a segment of filters as segments of their own, whose widths fill
/// pages well.
///
/// # Errors
/// Damage to the index.
pub fn copy_part(
    directory: &mut Directory<'_>,
    source: &Segment,
    mut first_range: u32,
    end: u32,
) -> IndexResult<()> {
    while first_range < end {
        let width = SegmentShape::good_width(end - first_range, SLICE_BYTES);
        copy(directory, source, first_range, width)?;
        first_range += width;
    }
    Ok(())
}

fn copy(directory: &mut Directory<'_>, source: &Segment, first_range: u32, width: u32) -> IndexResult<()> {
    let index = directory.index();
    let impossible = || Damage::new(source.first_block, "a part of a segment cannot be copied");
    let from = first_range.checked_sub(source.first_range).ok_or_else(impossible)? as usize;
    let source_shape = source.shape()?;
    let shape = SegmentShape::new(width, source.filters()?.bits, SLICE_BYTES).ok_or_else(impossible)?;
    let copied = Segment {
        first_range,
        width,
        first_block: directory.allocate(shape.pages())?,
        blocks: shape.pages(),
        id: meta::take_segment_id(index)?,
        ..*source
    };
    for page in 0..shape.pages() {
        memory::check_for_interrupts();
        let mut out = vec![0u8; SLICE_BYTES as usize];
        let mut slice = page * shape.slices_per_page();
        let end = (slice + shape.slices_per_page()).min(shape.slices());
        // Slices of one page are consecutive in the source too, so each of its pages is read once or twice.
        while slice < end {
            let (source_page, _) = source_shape.locate(slice);
            let stop = end.min((source_page + 1) * source_shape.slices_per_page());
            segment::read_page(index, source, source_page, |bytes| {
                for s in slice..stop {
                    let (at, to) = (source_shape.locate(s).1 as usize * 8, shape.locate(s).1 as usize * 8);
                    copy_bits(&mut out, to, bytes, at + from, width as usize);
                }
            })
            .map_err(Miss::into_damage)?;
            slice = stop;
        }
        segment::write_page(index, &copied, page, |bytes| bytes.copy_from_slice(&out));
    }
    directory.publish(copied)
}
