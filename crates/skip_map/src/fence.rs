//! Fence pages: the first number of each page of the level below, so that a lookup finds the page to go on with.
//!
//! ```text
//! 0      kind u16 | 2 number of entries u16 | 4 zero u32
//! 8      for the second to the fourth quarter of the page: its first entry u64, or the greatest u64 if it has none
//! 32     entries u64, ascending: 250 in the first quarter, 254 in each of the others; zeros behind them
//! ```
//!
//! Entries never cross a quarter. A lookup reads the first quarter, which says where the entry is, and at most one
//! more.

use crate::bits::{half, short, word};
use crate::malformed::Malformed;
use crate::page::{COUNT_AT, HEAD_BYTES, KIND_AT, PAGE_BYTES, Page};
use std::ops::Range;

/// Says that a page is a fence page, in the place where a data page says that it is one.
const KIND: u16 = 0xFA12;
/// Offset and number of the first entries of quarters.
const GUIDES_AT: usize = 8;
const GUIDES: usize = PAGE_BYTES / HEAD_BYTES - 1;
/// Offset of the entries.
const ENTRIES_AT: usize = GUIDES_AT + 8 * GUIDES;
/// Stands for no entry: no number is so great.
const NO_ENTRY: u64 = u64::MAX;

/// Most entries of a fence page.
pub const MOST_ENTRIES: usize = (PAGE_BYTES - ENTRIES_AT) / 8;

const _: () = assert!(HEAD_BYTES.is_multiple_of(8) && ENTRIES_AT.is_multiple_of(8));

/// What the first quarter of a fence page tells.
#[derive(Clone, Copy, Debug)]
pub struct FenceHead<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> FenceHead<'a> {
    /// Reads the first [`HEAD_BYTES`] of a fence page; it may be given more.
    ///
    /// # Errors
    /// The bytes are not the head of a fence page.
    pub fn parse(first_quarter: &'a [u8]) -> Result<Self, Malformed> {
        let bytes = first_quarter.get(..HEAD_BYTES).ok_or(Malformed("a fence page is too short"))?;
        if short(bytes, KIND_AT) != KIND {
            return Err(Malformed("the page is not a fence page"));
        }
        let count = usize::from(short(bytes, COUNT_AT));
        if count == 0 || count > MOST_ENTRIES || half(bytes, COUNT_AT + 2) != 0 {
            return Err(Malformed("the head of a fence page is damaged"));
        }
        Ok(Self { bytes, count })
    }

    /// Number of entries.
    pub fn entries(&self) -> usize {
        self.count
    }

    /// The first number of the first child.
    pub fn first(&self) -> u64 {
        word(self.bytes, ENTRIES_AT)
    }

    /// Place in the page of the entries that [`FenceHead::entry`] needs for this number; they lie within one quarter.
    pub fn bytes(&self, number: u64) -> Range<usize> {
        let guides = (0..GUIDES).map(|quarter| word(self.bytes, GUIDES_AT + 8 * quarter));
        let quarter = guides.take_while(|&guide| guide != NO_ENTRY && guide <= number).count();
        let end = (HEAD_BYTES * (quarter + 1)).min(ENTRIES_AT + 8 * self.count);
        let start = (HEAD_BYTES * quarter).max(ENTRIES_AT);
        start.min(end)..end
    }

    /// The entry to go on with: the last that is not greater than the number, or the first one. `bytes` are those that
    /// [`FenceHead::bytes`] names.
    ///
    /// # Errors
    /// The bytes contradict the head of the page.
    #[inline]
    pub fn entry(&self, bytes: &[u8], number: u64) -> Result<usize, Malformed> {
        let place = self.bytes(number);
        if bytes.len() != place.len() || place.is_empty() {
            return Err(Malformed("a fence page contradicts itself"));
        }
        let entries = bytes.as_chunks::<8>().0;
        let not_greater = entries.partition_point(|entry| u64::from_le_bytes(*entry) <= number);
        let before = (place.start - ENTRIES_AT) / 8;
        match not_greater.checked_sub(1) {
            Some(last) => Ok(before + last),
            None if before == 0 => Ok(0),
            None => Err(Malformed("a fence page contradicts itself")),
        }
    }

    /// Whether the entry that [`FenceHead::entry`] found for this number is right even if the page was only guessed.
    /// True if the page's entries before and behind the number prove it.
    pub fn encloses(&self, number: u64, entry: usize) -> bool {
        self.first() <= number && entry + 1 < self.count
    }
}

/// The entry of a fence page, given whole, to go on with: the last that is not greater than the number, or the first.
///
/// # Errors
/// The bytes are not a fence page, or contradict themselves.
pub fn fence_entry(bytes: &[u8], number: u64) -> Result<usize, Malformed> {
    let head = FenceHead::parse(bytes)?;
    let entries = bytes.get(head.bytes(number)).ok_or(Malformed("a fence page is too short"))?;
    head.entry(entries, number)
}

/// Checks a whole fence page. `firsts` has an element for each of its children: its first number, or None where it is
/// not known.
///
/// # Errors
/// What is wrong.
pub fn check_fence(page: &[u8], firsts: &[Option<u64>]) -> Result<(), Malformed> {
    let head = FenceHead::parse(page)?;
    if page.len() != PAGE_BYTES {
        return Err(Malformed("a fence page has a wrong length"));
    }
    if head.count != firsts.len() {
        return Err(Malformed("a fence page has a wrong number of entries"));
    }
    let (entries, rest) = page[ENTRIES_AT..].split_at(8 * head.count);
    let entries: Vec<u64> =
        entries.as_chunks::<8>().0.iter().map(|entry| u64::from_le_bytes(*entry)).collect();
    if !entries.is_sorted_by(|entry, next| entry < next) {
        return Err(Malformed("the entries of a fence page are not ascending"));
    }
    if entries.iter().zip(firsts).any(|(entry, first)| first.is_some_and(|first| first != *entry)) {
        return Err(Malformed("an entry of a fence page is not the first number of its page"));
    }
    if (0..GUIDES).any(|quarter| word(page, GUIDES_AT + 8 * quarter) != guide(&entries, quarter)) {
        return Err(Malformed("the head of a fence page contradicts its entries"));
    }
    if rest.iter().any(|&byte| byte != 0) {
        return Err(Malformed("a fence page has bytes behind its entries"));
    }
    Ok(())
}

/// The first entry in the quarter after this one.
fn guide(entries: &[u64], quarter: usize) -> u64 {
    entries.get((HEAD_BYTES * (quarter + 1) - ENTRIES_AT) / 8).copied().unwrap_or(NO_ENTRY)
}

/// Writes a fence page of up to [`MOST_ENTRIES`] entries; further ones are left out.
pub fn write_fence(entries: &[u64], page: &mut Page) {
    let entries = &entries[..entries.len().min(MOST_ENTRIES)];
    page.fill(0);
    page[KIND_AT..COUNT_AT].copy_from_slice(&KIND.to_le_bytes());
    page[COUNT_AT..COUNT_AT + 2].copy_from_slice(&(entries.len() as u16).to_le_bytes());
    let guides = (0..GUIDES).map(|quarter| guide(entries, quarter));
    let words = page[GUIDES_AT..].as_chunks_mut::<8>().0;
    for (word, number) in words.iter_mut().zip(guides.chain(entries.iter().copied())) {
        *word = number.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_within_a_quarter() {
        let firsts: Vec<u64> = (0..MOST_ENTRIES as u64).map(|i| 100 + 10 * i).collect();
        for count in (1..20).chain(240..260).chain(500..510).chain(750..760).chain([MOST_ENTRIES]) {
            let entries = &firsts[..count];
            let mut page = [0; PAGE_BYTES];
            write_fence(entries, &mut page);
            let known: Vec<Option<u64>> = entries.iter().map(|&first| Some(first)).collect();
            assert_eq!(check_fence(&page, &known), Ok(()));
            let head = FenceHead::parse(&page[..HEAD_BYTES]).unwrap();
            assert_eq!((head.entries(), head.first()), (count, 100));
            for number in (0..100 + 10 * count as u64 + 20).step_by(5).chain([u64::MAX - 1, u64::MAX]) {
                let expected = entries.partition_point(|&first| first <= number).saturating_sub(1);
                assert_eq!(fence_entry(&page, number), Ok(expected), "{number} of {count}");
                let place = head.bytes(number);
                assert_eq!(place.start / HEAD_BYTES, (place.end - 1) / HEAD_BYTES);
                assert_eq!(head.entry(&page[place], number), Ok(expected));
            }
        }
    }

    #[test]
    fn what_contradicts_is_malformed() {
        let entries: Vec<u64> = (0..600).collect();
        let known = vec![None; 600];
        let mut good = [0; PAGE_BYTES];
        write_fence(&entries, &mut good);
        assert_eq!(check_fence(&good, &known), Ok(()));
        assert!(check_fence(&good, &known[1..]).is_err());
        let mut firsts = known.clone();
        firsts[599] = Some(598);
        assert!(check_fence(&good, &firsts).is_err());
        for at in [0, 1, 2, 3, 4, 7, 8, 15, 16, 24, 31, 39, 47, 300, 8127] {
            let mut page = good;
            page[at] ^= 0x80;
            assert!(check_fence(&page, &known).is_err(), "byte {at}");
            let _ = fence_entry(&page, 17);
        }
        assert!(FenceHead::parse(&good[..HEAD_BYTES - 1]).is_err());
        assert!(fence_entry(&good[..HEAD_BYTES], 500).is_err());
    }
}
