//! Pages of maps ([`skip_map`]): any bytes are an error, or spans of numbers, in order and within what was asked for,
//! in bounded time. What a whole page gives, a lookup finds that is given only the bytes that it asks for.
//!
//! The first byte chooses what the page is: the other bytes with zeros behind them, or a data page or a fence page of
//! numbers that the bytes are read as, a few bytes of which are changed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pg_skip_fuzz::allocations;
use skip_map::*;
use std::ops::Range;

/// What reading a page may allocate: nothing.
const ALLOCATED: usize = 0;

fuzz_target!(|input: &[u8]| {
    let Some((&[kind], rest)) = input.split_first_chunk::<1>() else { return };
    let Some((&start, rest)) = rest.split_first_chunk::<8>() else { return };
    let Some((&length, rest)) = rest.split_first_chunk::<8>() else { return };
    let start = u64::from_le_bytes(start);
    let wanted = start..start.saturating_add(u64::from_le_bytes(length));
    let page = match kind % 3 {
        0 => raw(rest),
        1 => changed(rest, data_page),
        _ => changed(rest, fence_page),
    };
    let Some(page) = page else { return };
    data(&page, &wanted);
    fence(&page, wanted.start);
});

fn raw(bytes: &[u8]) -> Option<Page> {
    let mut page = [0; PAGE_BYTES];
    let count = bytes.len().min(PAGE_BYTES);
    page[..count].copy_from_slice(&bytes[..count]);
    Some(page)
}

/// A page of ascending numbers; the first bytes say what is changed: up to three bytes, by place and value.
fn changed(bytes: &[u8], make: fn(&[u64]) -> Option<Page>) -> Option<Page> {
    let (changes, rest) = bytes.split_first_chunk::<9>()?;
    let mut last = 0u64;
    let mut numbers = Vec::new();
    for step in rest.chunks_exact(2) {
        let step = u64::from(u16::from_le_bytes([step[0], step[1]]));
        // Many steps of one, some that are very long.
        let step = if step < 0x8000 { 1 + step % 300 } else { 1 << (step % 40) };
        last = last.saturating_add(step);
        numbers.push(last);
    }
    let mut page = make(&numbers)?;
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        page[place % PAGE_BYTES] ^= change[2];
    }
    Some(page)
}

fn data_page(numbers: &[u64]) -> Option<Page> {
    let mut first = None;
    let mut sink = |page: &Page| {
        first.get_or_insert(*page);
        Ok::<(), Malformed>(())
    };
    let mut writer = RunWriter::new();
    for &number in numbers {
        writer.push(number, &mut sink).ok()?;
    }
    writer.finish_data(&mut sink).ok()?;
    first
}

fn fence_page(numbers: &[u64]) -> Option<Page> {
    let mut page = [0; PAGE_BYTES];
    write_fence(numbers, &mut page);
    Some(page)
}

fn data(page: &Page, wanted: &Range<u64>) {
    // Only what is wanted is kept: consecutive numbers of a page may be billions.
    let (mut inside, mut spans, mut end) = (Vec::new(), 0, None);
    let whole = allocations::at_most(64 << 10, || {
        read_page(page, |span| {
            assert!(span.start < span.end, "{span:?}");
            assert!(end.is_none_or(|end| end <= span.start), "not ascending: {span:?}");
            (spans, end) = (spans + 1, Some(span.end));
            let span = span.start.max(wanted.start)..span.end.min(wanted.end);
            if !span.is_empty() && inside.len() < 1000 {
                inside.push(span);
            }
        })
    });
    assert!(spans <= PAGE_BYTES * 8 + 200);
    let mut appended = Vec::new();
    match allocations::at_most(4 << 20, || append_page(page, &mut appended)) {
        Ok(true) => {
            assert!(whole.is_ok() && appended.is_sorted_by(|one, next| one < next));
            assert_eq!(appended.last().map(|last| last + 1), end);
        }
        Ok(false) => assert!(appended.is_empty()),
        Err(_) => assert!(whole.is_err()),
    }
    let Ok(head) = allocations::at_most(ALLOCATED, || Head::parse(&page[..HEAD_BYTES])) else {
        assert!(whole.is_err(), "a page without a head");
        return;
    };
    assert!(head.first() <= head.last() && head.last() < 1 << 63);
    let Ok(blocks) = head.blocks(wanted.clone()) else { return };
    let (mut found, mut well) = (Vec::new(), true);
    for block in blocks {
        let Some(body) = page.get(block.bytes()) else { panic!("a block outside of its page") };
        well &= block
            .numbers(body, wanted.clone(), |span| {
                assert!(
                    span.start < span.end && wanted.start <= span.start && span.end <= wanted.end,
                    "{span:?}"
                );
                if found.len() < 1000 {
                    found.push(span);
                }
            })
            .is_ok();
    }
    if whole.is_ok() && spans < 1000 {
        assert!(well, "a good page has a bad block");
        assert_eq!(joined(found), joined(inside), "what a lookup finds, and what is there");
    }
}

/// Spans without the borders between those that touch.
fn joined(spans: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if last.end == span.start => last.end = span.end,
            _ => joined.push(span),
        }
    }
    joined
}

fn fence(page: &Page, number: u64) {
    let Ok(head) = allocations::at_most(ALLOCATED, || FenceHead::parse(&page[..HEAD_BYTES])) else {
        assert!(fence_entry(page, number).is_err());
        return;
    };
    let place = head.bytes(number);
    let found = head.entry(page.get(place).expect("within the page"), number);
    assert!(found.is_err() || found.is_ok_and(|entry| entry < head.entries()));
    assert_eq!(fence_entry(page, number), found);
    let _ = check_fence(page, &vec![None; head.entries()]);
}
