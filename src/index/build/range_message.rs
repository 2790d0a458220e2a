//! The contents of a block range as words, for sending them from a parallel worker to the leader of a build.
//!
//! ```text
//! range | rows that look live | each column
//! column: number of hashes · 8 + state | number of parts | for each part: end of its hashes · 8 + state | hashes
//! ```
//!
//! Of a column with maps only the state is sent; its pairs are in shared files ([`super::pairs`]). When a worker has no
//! more ranges, and its files are complete, it sends the number of pairs of each column with maps:
//!
//! ```text
//! 2^64 - 1 | pairs of each column with maps
//! ```
//!
//! A message is a sequence of ranges, or such an end. Both sides are processes of the same build of this library, so
//! the words have no version.

use super::super::contents::RangeContents;
use skip_segment::RangeState;

const OPEN: u64 = 1;
const NULLS: u64 = 2;
const VALUES: u64 = 4;
/// Bits of a state.
const STATE_BITS: u32 = 3;

/// The contents of a range, in all columns.
pub struct SentRange<'a> {
    pub range: u32,
    pub live_rows: u64,
    pub columns: Vec<SentColumn<'a>>,
}

/// The contents of a range in one column.
pub struct SentColumn<'a> {
    state: RangeState,
    part_ends: Vec<(RangeState, usize)>,
    hashes: &'a [u64],
}

impl SentColumn<'_> {
    /// The contents as the collector gave them.
    pub fn contents(&self) -> RangeContents<'_> {
        let Self { state, part_ends, hashes } = self;
        RangeContents { state: *state, part_ends, hashes }
    }
}

/// Appends the contents of a range to a message.
pub fn write(range: u32, live_rows: u64, columns: &[RangeContents<'_>], message: &mut Vec<u64>) {
    message.extend([u64::from(range), live_rows]);
    for column in columns {
        let &RangeContents { state, part_ends, hashes } = column;
        message.extend([word(hashes.len(), state), part_ends.len() as u64]);
        message.extend(part_ends.iter().map(|&(state, end)| word(end, state)));
        message.extend_from_slice(hashes);
    }
}

/// The first word of a message that is the end of what a worker sends. No range has this number.
const END: u64 = u64::MAX;

/// The end of what a worker sends, with the numbers of its pairs.
pub fn end(pairs: &[u64]) -> Vec<u64> {
    [END].iter().chain(pairs).copied().collect()
}

/// The numbers of pairs, if a message is such an end.
pub fn of_end(message: &[u64]) -> Option<&[u64]> {
    message.split_first().filter(|&(&first, _)| first == END).map(|(_, pairs)| pairs)
}

/// The first range of a message; None for an empty message.
pub fn first_range(message: &[u64]) -> Option<u32> {
    message.first().and_then(|&range| range.try_into().ok())
}

/// Reads the first range of `message`, which has `columns` columns. Returns it and the rest of the message; None if the
/// message is not one of [`write`]'s.
pub fn read(message: &[u64], columns: usize) -> Option<(SentRange<'_>, &[u64])> {
    let (&[range, live_rows], mut rest) = message.split_first_chunk()?;
    let mut contents = Vec::with_capacity(columns);
    for _ in 0..columns {
        let (&[head, parts], words) = rest.split_first_chunk()?;
        let (parts, words) = words.split_at_checked(usize::try_from(parts).ok()?)?;
        let (count, state) = of_word(head)?;
        let (hashes, others) = words.split_at_checked(count)?;
        let end_of = |&word: &u64| of_word(word).map(|(end, state)| (state, end));
        let part_ends = parts.iter().map(end_of).collect::<Option<_>>()?;
        contents.push(SentColumn { state, part_ends, hashes });
        rest = others;
    }
    Some((SentRange { range: range.try_into().ok()?, live_rows, columns: contents }, rest))
}

fn word(number: usize, state: RangeState) -> u64 {
    let RangeState { open, nulls, values } = state;
    let bit = |is_set, bit| if is_set { bit } else { 0 };
    (number as u64) << STATE_BITS | bit(open, OPEN) | bit(nulls, NULLS) | bit(values, VALUES)
}

fn of_word(word: u64) -> Option<(usize, RangeState)> {
    let state = RangeState { open: word & OPEN != 0, nulls: word & NULLS != 0, values: word & VALUES != 0 };
    Some((usize::try_from(word >> STATE_BITS).ok()?, state))
}
