//! What one block range has in one column while it is collected ([`super::collect`]): the distinct hashes of its keys,
//! or the least and the greatest key of a column with bounds.
//!
//! A range may be divided into parts; the hashes of each are distinct. A range whose contents are not known with
//! certainty is *open*, and has no other contents that are used.

use crate::hash::keys::ColumnKeys;
use crate::pages::meta::Meta;
use crate::pg::evaluate::IndexRow;
use crate::pg::heap::Field;
use skip_filter::DistinctHashes;
use skip_segment::RangeState;
use skip_text::RecentFragments;

/// The contents of one range in one column.
pub struct ColumnContents {
    /// Of all parts together.
    pub state: RangeState,
    /// Whether the range is open because it has more keys than memory allows.
    pub is_full: bool,
    /// Of the part that is being collected; of the whole range if that is not divided.
    hashes: DistinctHashes,
    /// Heap blocks per part. None if the range is not divided.
    pages_per_part: Option<u32>,
    /// The state of the part that is being collected, if the range is divided.
    part_state: RangeState,
    /// The parts collected before: the state of each, and where its hashes end in `part_hashes`.
    part_ends: Vec<(RangeState, usize)>,
    part_hashes: Vec<u64>,
    /// Fragments whose hashes are in `hashes`, if the keys are fragments.
    recent: Option<RecentFragments>,
    keys: Option<ColumnKeys>,
    /// Of a column with bounds only the least and the greatest key: both, or one if they are the same.
    extremes: Option<Extremes>,
}

/// The least and the greatest of some keys.
#[derive(Default)]
struct Extremes {
    keys: [u64; 2],
    count: usize,
}

impl Extremes {
    fn add(&mut self, key: u64) {
        match self.count {
            0 => (self.keys, self.count) = ([key; 2], 1),
            _ => {
                self.keys = [self.keys[0].min(key), self.keys[1].max(key)];
                self.count = if self.keys[0] == self.keys[1] { 1 } else { 2 };
            }
        }
    }
}

/// The contents of one range in one column, for reading.
#[derive(Clone, Copy)]
pub struct RangeContents<'a> {
    /// Of all parts together. An open range has no other contents.
    pub state: RangeState,
    /// For each part its state, and where its hashes end in `hashes`. Empty if the range is not divided.
    pub part_ends: &'a [(RangeState, usize)],
    /// Hashes of distinct keys; those of a divided range are distinct in each part. Of a column with bounds its order
    /// keys; only the least and the greatest, unless the rows are collected that an index must have.
    pub hashes: &'a [u64],
}

impl<'a> RangeContents<'a> {
    /// State and hashes of each part, in order. A range that is not divided is one part.
    pub fn parts(self) -> impl Iterator<Item = (RangeState, &'a [u64])> {
        let Self { state, part_ends, hashes } = self;
        let whole = part_ends.is_empty().then_some((state, hashes));
        let mut from = 0;
        let divided = part_ends.iter().map(move |&(state, end)| {
            let part = hashes.get(from..end).unwrap_or_default();
            from = end;
            (state, part)
        });
        whole.into_iter().chain(divided)
    }
}

impl ColumnContents {
    /// Of column `c`. With `has_all_keys`, a column with bounds keeps all its keys.
    pub(super) fn new(keys: Option<ColumnKeys>, meta: &Meta, c: usize, has_all_keys: bool) -> Self {
        let is_bounded = !has_all_keys && keys.as_ref().is_some_and(ColumnKeys::are_ordered);
        let pages_per_part = meta.pages_per_part(c as u16);
        Self {
            state: RangeState::default(),
            is_full: false,
            hashes: DistinctHashes::new(),
            pages_per_part: (pages_per_part != meta.pages_per_range).then_some(pages_per_part),
            part_state: RangeState::default(),
            part_ends: Vec::new(),
            part_hashes: Vec::new(),
            recent: keys.as_ref().is_some_and(ColumnKeys::are_fragments).then(RecentFragments::default),
            keys,
            extremes: is_bounded.then(Extremes::default),
        }
    }

    /// Whether keys can be made of the column's values.
    pub fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// The contents of the range that was collected last.
    pub fn contents(&self) -> RangeContents<'_> {
        let Self { state, part_ends, .. } = self;
        let hashes = match (self.pages_per_part, &self.extremes) {
            (Some(_), _) => &self.part_hashes,
            (None, Some(extremes)) => &extremes.keys[..extremes.count],
            (None, None) => self.hashes.as_slice(),
        };
        RangeContents { state: *state, part_ends, hashes }
    }

    pub(super) fn begin(&mut self) {
        self.state = RangeState { open: self.keys.is_none(), ..RangeState::default() };
        self.is_full = false;
        self.part_state = RangeState::default();
        self.part_ends.clear();
        self.part_hashes.clear();
        self.clear_hashes();
        self.extremes = self.extremes.take().map(|_| Extremes::default());
    }

    /// Ends a block, `number` blocks behind the first one of the range, and the part if the block is its last one.
    /// Returns whether there are more than `most_hashes` distinct values.
    pub(super) fn end_block(&mut self, number: u32, is_last: bool, most_hashes: usize) -> bool {
        let is_due = is_last || self.pages_per_part.is_some();
        let is_too_much = is_due && self.part_hashes.len() + self.hashes.len() > most_hashes;
        if is_too_much {
            self.clear_hashes();
            self.part_hashes.clear();
            self.part_ends.iter_mut().for_each(|(_, end)| *end = 0);
            (self.state.open, self.is_full) = (true, true);
        }
        if let Some(pages) = self.pages_per_part
            && (is_last || (number + 1).is_multiple_of(pages))
        {
            self.part_hashes.extend_from_slice(self.hashes.as_slice());
            self.clear_hashes();
            self.part_ends.push((std::mem::take(&mut self.part_state), self.part_hashes.len()));
        }
        is_too_much
    }

    fn clear_hashes(&mut self) {
        self.hashes.clear();
        self.recent.iter_mut().for_each(RecentFragments::clear);
    }

    pub(super) fn set_null(&mut self) {
        (self.state.nulls, self.part_state.nulls) = (true, true);
    }

    fn set_value(&mut self) {
        (self.state.values, self.part_state.values) = (true, true);
    }

    pub(super) fn add_field(&mut self, field: &Field<'_>, most_hashes: usize) {
        self.set_value();
        let Self { keys, hashes, state, extremes, recent, .. } = self;
        let Some(keys) = keys.as_mut().filter(|_| hashes.len() <= most_hashes) else { return };
        let is_read = match (extremes, recent) {
            (Some(extremes), _) => keys.each_key_of_field(field, |key| extremes.add(key)),
            (None, Some(recent)) => {
                keys.each_new_key_of_field(field, recent, |hash| add(hashes, hash, most_hashes))
            }
            (None, None) => keys.each_key_of_field(field, |hash| add(hashes, hash, most_hashes)),
        };
        if !is_read {
            // The value is not stored as its type says, or damaged, so it cannot be hashed.
            state.open = true;
        }
    }

    /// Adds the hash of an equal value with different bytes, by which a query may look up the row.
    pub(super) fn add_equal(&mut self, row: &IndexRow<'_>, c: usize) {
        let Self { keys: Some(keys), hashes, .. } = self else { return };
        if let Some(value) = row.value(c, keys.repr()) {
            keys.each_key_of_equals(value, |hash| _ = hashes.insert(hash));
        }
    }

    pub(super) fn add_row(&mut self, row: &IndexRow<'_>, c: usize, most_hashes: usize) {
        let Self { keys: Some(keys), hashes, state, extremes, .. } = self else { return };
        match row.value(c, keys.repr()) {
            None => self.set_null(),
            Some(value) => {
                if let Some(extremes) = extremes {
                    state.open |= !keys.each_key(value, |key| extremes.add(key));
                } else if hashes.len() <= most_hashes {
                    state.open |= !keys.each_key(value, |hash| add(hashes, hash, most_hashes));
                }
                self.set_value();
            }
        }
    }
}

/// Adds a hash, unless there are more than `most` already: then the range will be open.
#[inline]
fn add(hashes: &mut DistinctHashes, hash: u64, most: usize) {
    if hashes.len() <= most {
        hashes.insert(hash);
    }
}
