//! Makes segments of filters of the hashes of ranges.
//!
//! Ranges are gathered in groups of 64, whose filter sizes are chosen together ([`skip_segment::size`]). A range is
//! added to the segment being built as long as it gets that segment's filter size, so that segments become wide.

use crate::pages::directory::Directory;
use crate::pages::entry::{FilterSize, Segment, SegmentKind};
use crate::pages::meta::{self, ColumnMeta, NO_CANON};
use crate::pages::segment;
use crate::pg::{Damage, Rel, error::IndexResult};
use skip_map::key_part::KeyPart;
use skip_segment::page::SLICE_BYTES;
use skip_segment::size::{RangeNeed, choose_sizes};
use skip_segment::{RangeState, SegmentBuilder, SegmentShape};

/// Keys per page of the table that open ranges are taken to have if no range is known. VACUUM rebuilds filters that are
/// too full.
const KEYS_PER_PAGE: u64 = 100;
/// Number of ranges whose sizes are chosen together: one per bit of a word.
const GROUP: usize = 64;

struct Pending {
    state: RangeState,
    hashes: Vec<u64>,
    /// Set for a trailing range that is not complete yet; it takes the filter size of its neighbours.
    partial: bool,
}

/// Makes segments of filters of the ranges of one column, which come in order.
pub struct FilterPlacer<'a> {
    index: Rel<'a>,
    column: u16,
    frozen: ColumnMeta,
    /// Bytes of memory that pending hashes and the segment being built may take, each.
    memory: usize,
    pending: Vec<Pending>,
    pending_hashes: usize,
    /// The segment that is not finished yet.
    builder: Option<SegmentBuilder>,
    /// First range of the segment being built; without one, the next range.
    first_range: u32,
    /// Filter size of the segment before.
    sticky: Option<u32>,
    pages_per_range: u32,
}

impl<'a> FilterPlacer<'a> {
    /// A placer for the ranges of a column that was built with the options in `frozen`. Pending hashes and the
    /// segment being built take at most `memory` bytes each. It begins at range 0; [`start_at`](Self::start_at) changes
    /// that.
    pub fn new(index: Rel<'a>, column: u16, frozen: ColumnMeta, memory: usize, pages_per_range: u32) -> Self {
        let (pending, builder) = (Vec::new(), None);
        Self {
            index,
            column,
            frozen,
            memory,
            pending,
            pending_hashes: 0,
            builder,
            first_range: 0,
            sticky: None,
            pages_per_range,
        }
    }

    /// Continues at range `first_range`, with filters of `sticky` bits if that size fits. Pending ranges must have been
    /// finished before.
    pub fn start_at(&mut self, first_range: u32, sticky: Option<u32>) {
        (self.first_range, self.sticky) = (first_range, sticky);
    }

    /// Adds the next range.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn push(
        &mut self,
        directory: &mut Directory,
        state: RangeState,
        hashes: &[u64],
        partial: bool,
    ) -> IndexResult<()> {
        self.pending.push(Pending { state, hashes: hashes.to_vec(), partial });
        self.pending_hashes += hashes.len();
        if self.pending.len() == GROUP || self.pending_hashes * size_of::<u64>() > self.memory {
            self.place_pending(directory)?;
        }
        Ok(())
    }

    /// Places the pending ranges, then writes and publishes the segment being built.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn finish(&mut self, directory: &mut Directory) -> IndexResult<()> {
        self.place_pending(directory)?;
        self.write_segment(directory)
    }

    fn place_pending(&mut self, directory: &mut Directory) -> IndexResult<()> {
        self.pending_hashes = 0;
        let pending = std::mem::take(&mut self.pending);
        let is_known = self.current_size().is_some() || pending.iter().any(|range| !range.state.open);
        let needs: Vec<RangeNeed> = pending.iter().map(|range| self.need(range, is_known)).collect();
        let mut left = &pending[..];
        for sized in choose_sizes(&needs, self.current_size()) {
            let (ranges, others) = left.split_at(sized.count);
            self.place(directory, ranges, sized.filter_bits)?;
            left = others;
        }
        Ok(())
    }

    fn current_size(&self) -> Option<u32> {
        self.builder.as_ref().map(SegmentBuilder::filter_bits).or(self.sticky)
    }

    /// What a range needs. An open range is expected to need as much as its neighbours when it is closed; `is_known`
    /// says whether their size is known.
    fn need(&self, range: &Pending, is_known: bool) -> RangeNeed {
        let (mut keys, is_open) = (range.hashes.len() as u64, range.state.open);
        if is_open && !is_known && self.frozen.canon != NO_CANON {
            keys = keys.max(KEYS_PER_PAGE * u64::from(self.pages_per_range));
        }
        RangeNeed { filter_bits: self.frozen.sizing.filter_bits(keys), is_partial: range.partial || is_open }
    }

    /// Adds ranges to the segment being built, or to a new one if their filter size is different.
    fn place(&mut self, directory: &mut Directory, ranges: &[Pending], filter_bits: u32) -> IndexResult<()> {
        if self.builder.as_ref().is_some_and(|builder| builder.filter_bits() != filter_bits) {
            self.write_segment(directory)?;
        }
        for range in ranges {
            let num_probes = self.frozen.sizing.num_probes;
            let builder = self.builder.get_or_insert_with(|| SegmentBuilder::new(filter_bits, num_probes));
            builder.push(range.state, range.hashes.iter().copied());
            if builder.memory_bytes() > self.memory || builder.width() == SegmentShape::max_width(SLICE_BYTES)
            {
                self.write_segment(directory)?;
            }
        }
        Ok(())
    }

    /// Writes and publishes the segment being built, divided into widths that fill pages well.
    fn write_segment(&mut self, directory: &mut Directory) -> IndexResult<()> {
        let Some(builder) = self.builder.take() else { return Ok(()) };
        self.sticky = Some(builder.filter_bits());
        let mut done = 0;
        while done < builder.width() {
            let width = SegmentShape::good_width(builder.width() - done, SLICE_BYTES);
            self.write(directory, &builder, done, width)?;
            done += width;
        }
        self.first_range += done;
        Ok(())
    }

    fn write(
        &self,
        directory: &mut Directory,
        builder: &SegmentBuilder,
        from: u32,
        width: u32,
    ) -> IndexResult<()> {
        let shape = SegmentShape::new(width, builder.filter_bits(), SLICE_BYTES).ok_or_else(|| {
            Damage::new(crate::pages::meta::META_BLOCK, "a segment with an invalid shape was requested")
        })?;
        let segment = Segment {
            column: self.column,
            first_range: self.first_range + from,
            width,
            key_part: KeyPart::WHOLE,
            kind: SegmentKind::Filters(FilterSize {
                bits: builder.filter_bits(),
                num_probes: builder.num_probes(),
            }),
            first_block: directory.allocate(shape.pages())?,
            blocks: shape.pages(),
            id: meta::take_segment_id(self.index)?,
        };
        for page in 0..shape.pages() {
            if page % 64 == 0 {
                crate::pg::memory::check_for_interrupts();
            }
            let fill = |out: &mut [u8]| builder.write_page_from(from, &shape, page, out);
            segment::write_page(self.index, &segment, page, fill);
        }
        directory.publish(segment)
    }
}
