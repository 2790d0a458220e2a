//! Damaged pages never cause a panic, an endless loop, or numbers outside of what was asked for; and a full check finds
//! what is not as a writer leaves it.

use crate::common::{Run, numbers};
use proptest::prelude::*;
use skip_map::*;
use std::ops::Range;

/// Everything that can be done with a page that may be anything. Gives whether all of it went well.
fn use_page(page: &Page, wanted: Range<u64>) -> bool {
    let mut well = true;
    let (mut spans, mut all) = (0, vec![]);
    // Counts of consecutive numbers may have become large; those are not appended.
    well &= read_page(page, |span| {
        spans += 1;
        all.extend(span.start..span.end.min(span.start + 2000));
    })
    .is_ok();
    let mut appended = vec![];
    match append_page(page, &mut appended) {
        Ok(true) => assert!(well && appended == all, "both functions read the same numbers"),
        Ok(false) => assert!(appended.is_empty()),
        Err(_) => assert!(!well, "both functions find what is wrong"),
    }
    // A page has no more bits than this, and a span takes a bit or a block.
    assert!(spans <= PAGE_BYTES * 8 + 200);
    if let Ok(head) = Head::parse(&page[..HEAD_BYTES]) {
        assert!(head.first() <= head.last() && head.last() < 1 << 63);
        match head.blocks(wanted.clone()) {
            Ok(blocks) => blocks.for_each(|block| well &= use_block(page, &block, &wanted)),
            Err(_) => well = false,
        }
    }
    if let Ok(head) = FenceHead::parse(&page[..HEAD_BYTES]) {
        let place = head.bytes(wanted.start);
        assert!(place.end <= PAGE_BYTES);
        let found = head.entry(&page[place.clone()], wanted.start);
        assert!(found.is_err() || found.is_ok_and(|entry| entry < head.entries()));
        assert_eq!(fence_entry(page, wanted.start), found);
        let known = vec![None; head.entries()];
        let _ = check_fence(page, &known);
    }
    well
}

fn use_block(page: &Page, block: &Block, wanted: &Range<u64>) -> bool {
    let mut spans = 0;
    let mut end = wanted.start;
    let body = &page[block.bytes()];
    let found = block.numbers(body, wanted.clone(), |span| {
        assert!(span.start < span.end && wanted.start <= span.start && span.end <= wanted.end, "{span:?}");
        spans += 1;
        end = span.end;
    });
    assert!(spans <= PAGE_BYTES * 8);
    if !body.is_empty() {
        assert!(block.numbers(&body[1..], wanted.clone(), |_| {}).is_err(), "a body cut short");
    }
    found.is_ok()
}

/// An interval near some number of the page.
fn near(numbers: &[u64], seed: u64) -> Range<u64> {
    let start = numbers[seed as usize % numbers.len()].saturating_sub(seed >> 60);
    start..start + [1, 100, 1 << 20, 1 << 62][(seed >> 32) as usize % 4]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn flipped_bits(
        numbers in numbers(4000),
        flips in prop::collection::vec((any::<u32>(), 0..3u8), 1..6),
        seed in any::<u64>(),
    ) {
        let run = Run::of(numbers.iter().copied());
        for page in &run.pages {
            let mut page = page.clone();
            for &(at, place) in &flips {
                // Anywhere; in the head; in the directory.
                let bit = at as usize % [PAGE_BYTES * 8, 16 * 8, 200 * 8][usize::from(place)];
                page[bit / 8] ^= 1 << (bit % 8);
            }
            use_page(&page, near(&numbers, seed));
            use_page(&page, 0..u64::MAX);
        }
    }

    /// Whatever passes the full check has all its numbers found, so nothing that a lookup relies on goes unchecked.
    #[test]
    fn what_passes_the_check_is_read_the_same_in_parts(
        numbers in numbers(4000),
        bit in 0..PAGE_BYTES * 8,
        seeds in prop::collection::vec(any::<u64>(), 20),
    ) {
        let mut page = Run::of(numbers.iter().copied()).pages.swap_remove(0);
        page[bit / 8] ^= 1 << (bit % 8);
        let mut all = vec![];
        // Counts of consecutive numbers may have become large.
        let few = |span: Range<u64>| span.start..span.end.min(span.start + 10_000);
        if read_page(&page[..], |span| all.extend(few(span))).is_ok() {
            prop_assert!(all.is_sorted_by(|one, next| one < next));
            for seed in seeds {
                let wanted = near(&all, seed);
                let wanted = wanted.start..wanted.end.min(wanted.start + 5000);
                let head = Head::parse(&page[..]).unwrap();
                let mut found = vec![];
                for block in head.blocks(wanted.clone()).unwrap() {
                    block.numbers(&page[block.bytes()], wanted.clone(), |span| found.extend(span)).unwrap();
                }
                let expected: Vec<u64> = all.iter().copied().filter(|number| wanted.contains(number)).collect();
                let cut = found.len() > expected.len() && found.len() > 4000;
                prop_assert!(cut || found == expected);
            }
        }
    }

    #[test]
    fn random_bytes(
        bytes in prop::collection::vec(any::<u8>(), PAGE_BYTES),
        kind in 0..3u8,
        count in 0..1100u16,
        wanted in any::<(u64, u64)>(),
    ) {
        let mut page: Page = bytes.try_into().unwrap();
        match kind {
            0 => page[..2].copy_from_slice(&0xFA11u16.to_le_bytes()),
            1 => page[..2].copy_from_slice(&0xFA12u16.to_le_bytes()),
            _ => {}
        }
        page[2..4].copy_from_slice(&(count % 170).to_le_bytes());
        page[4..6].copy_from_slice(&8128u16.to_le_bytes());
        page[6..8].fill(0);
        page[15] &= 0x7f;
        use_page(&page, wanted.0..wanted.1);
        page[2..4].copy_from_slice(&count.to_le_bytes());
        use_page(&page, wanted.0..wanted.1);
        // Short distances, so that firsts ascend now and then.
        for at in 0..usize::from(count % 170).min(3) {
            page[16 + 8 * at..24 + 8 * at].copy_from_slice(&(at as u64 * 100).to_le_bytes());
        }
        use_page(&page, 0..1 << 63);
        use_page(&page, 50..250);
    }
}

/// No single bit of a page can change unnoticed so that its numbers change and it seems to have as many.
#[test]
fn every_bit_of_directory_and_head_is_checked() {
    let numbers: Vec<u64> = (0..2000).map(|i: u64| (i << 20) + (i * i % 1000)).collect();
    let run = Run::of(numbers.iter().copied());
    let page = &run.pages[0];
    let head_end = 16 + 12 * usize::from(u16::from_le_bytes([page[2], page[3]]));
    for bit in 0..head_end * 8 {
        let mut page = page.clone();
        page[bit / 8] ^= 1 << (bit % 8);
        let mut found = vec![];
        let result = read_page(&page[..], |span| found.extend(span));
        // The first number of a block moves all its numbers, which contradicts nothing if there is room.
        let is_first_number = (16..16 + (head_end - 16) / 12 * 8).contains(&(bit / 8));
        assert!(result.is_err() || is_first_number, "bit {bit} of byte {}", bit / 8);
    }
    let end = usize::from(u16::from_le_bytes([page[4], page[5]]));
    for byte in end..PAGE_BYTES {
        let mut page = page.clone();
        page[byte] = 1;
        assert!(read_page(&page[..], |_| {}).is_err(), "byte {byte} behind the blocks");
    }
}

/// What is read before the damage is found ascends, whatever bit has changed.
#[test]
fn spans_of_a_damaged_page_ascend() {
    let numbers: Vec<u64> = (0..600).map(|i: u64| (i << 12) + (i * i * 7919) % 4000).collect();
    let run = Run::of(numbers.iter().copied());
    let page = &run.pages[0];
    let end = usize::from(u16::from_le_bytes([page[4], page[5]]));
    let mut descending = 0;
    for bit in 0..end * 8 {
        let mut page = page.clone();
        page[bit / 8] ^= 1 << (bit % 8);
        let mut last = 0;
        let result = read_page(&page[..], |span| {
            assert!(last <= span.start && span.start < span.end, "bit {bit}: {span:?} after {last}");
            last = span.end;
        });
        descending += u32::from(result.is_err_and(|error| error.to_string().contains("ascend")));
    }
    assert!(descending > 0, "some bit makes numbers descend");
}

#[test]
fn pages_of_other_lengths_and_kinds_are_errors() {
    let numbers: Vec<u64> = (0..10_000).map(|i: u64| i << 30).collect();
    let run = Run::of(numbers);
    let (data, fence) = (&run.pages[0][..], &run.pages[run.pages.len() - 1][..]);
    assert!(run.written.shape.levels() == 1);
    for bytes in [&[][..], &data[..1], &data[..HEAD_BYTES - 1], fence, &[0; PAGE_BYTES], &[0xff; PAGE_BYTES]]
    {
        assert!(Head::parse(bytes).is_err());
        assert!(read_page(bytes, |_| {}).is_err());
    }
    for bytes in [&[][..], &fence[..1], &fence[..HEAD_BYTES - 1], data, &[0; PAGE_BYTES], &[0xff; PAGE_BYTES]]
    {
        assert!(FenceHead::parse(bytes).is_err());
        assert!(fence_entry(bytes, 0).is_err());
        assert!(check_fence(bytes, &[]).is_err());
    }
    assert!(read_page(&data[..PAGE_BYTES - 1], |_| {}).is_err());
    assert!(read_page(&[data, &[0]].concat(), |_| {}).is_err());
}

/// Two blocks: one of two numbers in Elias-Fano form, and one that begins above all numbers. The second number of the
/// first block is 2^64: 1, and the greatest number that 8 upper and 56 lower bits have.
#[test]
fn numbers_that_no_u64_holds() {
    let mut page: Page = [0; PAGE_BYTES];
    let bodies = 16 + 12 * 2;
    let ends = [bodies + 14, bodies + 14 + 33];
    page[..2].copy_from_slice(&0xFA11u16.to_le_bytes());
    page[2..4].copy_from_slice(&2u16.to_le_bytes());
    page[4..6].copy_from_slice(&(ends[1] as u16).to_le_bytes());
    page[8..16].copy_from_slice(&1000u64.to_le_bytes());
    page[16..24].copy_from_slice(&1u64.to_le_bytes());
    page[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
    let elias_fano_of_two = 56 | 1 << 6 | (bodies as u32) << 19;
    page[32..36].copy_from_slice(&elias_fano_of_two.to_le_bytes());
    page[36..40].copy_from_slice(&63u32.to_le_bytes());
    page[bodies + 7..ends[0]].fill(0xff);
    // Upper bits of 0 and of 255.
    page[ends[0]] = 1;
    page[ends[0] + 32] = 1;
    assert!(!use_page(&page, 1..1 << 63));
    let head = Head::parse(&page[..HEAD_BYTES]).unwrap();
    assert!(head.blocks(1..1 << 63).is_err(), "the first block ends above all numbers");
}
