//! Index pages: every damaged bit is noticed, changes say which bytes they touched, and the bytes stay what they are.
use proptest::prelude::*;
use skip_segment::page::{
    PAGE, PAYLOAD_END, PAYLOAD_START, PageBytes, PageImage, PageKind, PageView, QUARTER, SLICE_BYTES,
    VERSION_KEY_PARTS, VERSION_PARTS, get_u16,
};
use std::ops::Range;

fn sealed(image: PageImage) -> PageBytes {
    *image.seal(7, 99).0
}

fn sample() -> PageBytes {
    let mut image = PageImage::fresh(PageKind::Delta, 42, 3);
    image.put(0, b"some payload");
    sealed(image)
}

#[test]
fn a_page_is_read_back() {
    let bytes = sample();
    let view = PageView::check_kind(&bytes, 7, 99, PageKind::Delta).unwrap();
    assert_eq!((view.owner(), view.place(), view.payload()), (42, 3, &b"some payload"[..]));
    assert!(PageView::check_kind(&bytes, 7, 99, PageKind::Meta).is_err(), "of another kind");
    assert!(PageView::check(&bytes, 8, 99).is_err(), "at another block");
    assert!(PageView::check(&bytes, 7, 98).is_err(), "in another index");
    assert!(PageView::check(&[0; PAGE], 7, 99).is_err(), "empty");
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = sample();
    let lower = usize::from(get_u16(&bytes, 12));
    // LSN, PostgreSQL's own checksum, flags, pd_upper and the size word are PostgreSQL's to check.
    for at in [12, 13, 16, 17].into_iter().chain(PAYLOAD_START..lower).chain(PAYLOAD_END..PAGE) {
        for bit in 0..8 {
            let mut damaged = bytes;
            damaged[at] ^= 1 << bit;
            assert!(PageView::check(&damaged, 7, 99).is_err(), "byte {at}, bit {bit}");
        }
    }
}

/// A segment page with other bytes in each quarter.
fn segment() -> PageBytes {
    let mut image = PageImage::fresh(PageKind::Segment, 42, 3);
    let slices = image.payload_mut(SLICE_BYTES as usize);
    slices.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7) as u8);
    sealed(image)
}

#[test]
fn every_flipped_bit_of_a_segment_page_is_noticed() {
    let bytes = segment();
    let view = PageView::check_kind(&bytes, 7, 99, PageKind::Segment).unwrap();
    assert_eq!((view.owner(), view.place(), view.payload().len()), (42, 3, PAYLOAD_END - PAYLOAD_START));
    for at in [12, 13, 16, 17].into_iter().chain(PAYLOAD_START..PAGE) {
        let mut damaged = bytes;
        damaged[at] ^= 1 << (at % 8);
        assert!(PageView::check(&damaged, 7, 99).is_err(), "byte {at}");
    }
}

/// Whatever part of a page is asked for: damage within it is noticed, and that of header, special space and checks.
#[test]
fn what_is_read_of_a_page_is_checked() {
    let bytes = segment();
    let parts = [0..1, 0..QUARTER, QUARTER - 1..QUARTER + 1, 3000..3001, 4 * QUARTER - 1..4 * QUARTER];
    for part in parts {
        let check = |bytes: &PageBytes| PageView::check_part(bytes, 7, 99, part.clone()).is_ok();
        assert!(check(&bytes), "{part:?}");
        let inside: Range<usize> = PAYLOAD_START + part.start..PAYLOAD_START + part.end;
        let behind = PAYLOAD_START + SLICE_BYTES as usize..PAGE;
        for at in [12, 13, 16, 17].into_iter().chain(inside).chain(behind) {
            let mut damaged = bytes;
            damaged[at] ^= 0x10;
            assert!(!check(&damaged), "byte {at} of {part:?}");
        }
        let mut moved = bytes;
        moved[PAYLOAD_START..][..2 * QUARTER].rotate_left(QUARTER);
        let is_hit = part.start < 2 * QUARTER;
        assert_eq!(check(&moved), !is_hit, "quarters in each other's place, {part:?}");
    }
    // The point of it: other quarters are not looked at.
    let mut elsewhere = bytes;
    elsewhere[PAYLOAD_START + QUARTER] ^= 1;
    assert!(PageView::check_part(&elsewhere, 7, 99, 0..QUARTER).is_ok());
    assert!(PageView::check(&elsewhere, 7, 99).is_err());
}

/// Segment pages of earlier builds have one checksum over everything, whatever part is asked for; so have they after a
/// change.
#[test]
fn segment_pages_of_version_1_are_checked_whole() {
    let mut old = sample();
    old[PAGE - 2..].copy_from_slice(&(PageKind::Segment as u16).to_le_bytes());
    let old = sealed(PageImage::copy_of(&old));
    assert!(PageView::check_kind(&old, 7, 99, PageKind::Segment).is_ok());
    let mut changed = PageImage::copy_of(&old);
    changed.change_byte(3, |byte| byte | 0x80);
    let changed = sealed(changed);
    assert_eq!(get_u16(&changed, PAGE - 4), 1, "the version stays");
    assert!(PageView::check_part(&changed, 7, 99, 0..1).is_ok());
    let mut damaged = changed;
    damaged[PAYLOAD_START + 7] ^= 1;
    assert!(PageView::check_part(&damaged, 7, 99, 0..1).is_err());
}

#[test]
fn golden_bytes() {
    let bytes = sample();
    assert_eq!(
        bytes[12..20],
        [36, 0, 0xE8, 0x1F, 0xE8, 0x1F, 4, 0x20],
        "pd_lower, pd_upper, pd_special, size and version"
    );
    assert_eq!(&bytes[24..36], b"some payload");
    assert_eq!(
        bytes[8176..],
        [42, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 4, 0xFA],
        "owner, place, version, kind"
    );
    let sum = u64::from_le_bytes(bytes[8168..8176].try_into().unwrap());
    assert_eq!(sum, GOLDEN_SUM, "checksum {sum:#x}");
}

// Computed with another implementation of XXH3.
const GOLDEN_SUM: u64 = 0x9d03_2119_76cf_8da6;

#[test]
fn golden_checks_of_a_segment_page() {
    let bytes = segment();
    assert_eq!(
        bytes[8176..],
        [42, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 3, 0xFA],
        "owner, place, version, kind"
    );
    let checks: Vec<u32> =
        bytes[8152..8168].chunks(4).map(|check| u32::from_le_bytes(check.try_into().unwrap())).collect();
    assert_eq!(checks, GOLDEN_QUARTERS, "{checks:#x?}");
    let sum = u64::from_le_bytes(bytes[8168..8176].try_into().unwrap());
    assert_eq!(sum, GOLDEN_SEGMENT_SUM, "checksum {sum:#x}");
}

// Computed with another implementation of XXH3.
const GOLDEN_QUARTERS: [u32; 4] = [0xf81f_9868, 0xb6c0_611e, 0x24ef_27da, 0x1a69_5058];
const GOLDEN_SEGMENT_SUM: u64 = 0xf39e_14a7_503f_52f1;

proptest! {
    /// Replaying the spans of a change on the page before it gives the page after it: what WAL does.
    #[test]
    fn spans_cover_all_changes(puts in prop::collection::vec((0usize..8144, prop::collection::vec(any::<u8>(), 1..40)), 1..12)) {
        let before = sample();
        let mut image = PageImage::copy_of(&before);
        for (at, data) in &puts {
            image.put(*at, data);
        }
        replays(&before, image)?;
        let before = segment();
        let mut image = PageImage::copy_of(&before);
        for (at, data) in &puts {
            data.iter().enumerate().for_each(|(i, mask)| {
                image.change_byte((at + i) % SLICE_BYTES as usize, |byte| byte | mask);
            });
        }
        replays(&before, image)?;
    }
}

fn replays(before: &PageBytes, image: PageImage) -> Result<(), TestCaseError> {
    let (after, spans) = image.seal(7, 99);
    let mut replayed = *before;
    for pair in spans.windows(2) {
        prop_assert!(pair[0].0 + pair[0].1 < pair[1].0, "spans are sorted and apart");
    }
    for (at, len) in spans {
        let (at, end) = (usize::from(at), usize::from(at + len));
        replayed[at..end].copy_from_slice(&after[at..end]);
    }
    prop_assert!(replayed == *after);
    prop_assert!(PageView::check(&replayed, 7, 99).is_ok());
    Ok(())
}

/// Earlier builds refuse a page of the directory that they would misread; no other kind of page has that version.
#[test]
fn directory_pages_with_key_parts_have_a_version_of_their_own() {
    for kind in [PageKind::Directory, PageKind::Meta, PageKind::Delta, PageKind::Segment] {
        let mut image = PageImage::fresh(kind, 0, 0);
        image.put(0, b"SKIP");
        image.set_version(VERSION_KEY_PARTS);
        let page = image.seal(7, 3).0;
        assert_eq!(page[PAYLOAD_END + 20..PAYLOAD_END + 22], [4, 0], "the version, where it stands on disk");
        let is_known = PageView::check_kind(&page, 7, 3, kind).is_ok();
        assert_eq!(is_known, kind == PageKind::Directory, "{kind:?}");
    }
}

/// Earlier builds refuse a meta page that they would misread; no other kind of page has that version.
#[test]
fn pages_with_parts_have_a_version_of_their_own() {
    let sealed = |kind| {
        let mut image = PageImage::fresh(kind, 0, 0);
        image.put(0, b"SKIP");
        image.set_version(VERSION_PARTS);
        image.seal(7, 3).0
    };
    let meta = sealed(PageKind::Meta);
    assert!(PageView::check_kind(&meta, 7, 3, PageKind::Meta).is_ok());
    assert_eq!(meta[PAYLOAD_END + 20..PAYLOAD_END + 22], [3, 0], "the version, where it stands on disk");
    for kind in [PageKind::Directory, PageKind::Delta, PageKind::Segment] {
        let refused = PageView::check_kind(&sealed(kind), 7, 3, kind).err();
        assert_eq!(refused, Some("the page has an unknown format version"), "{kind:?}");
    }
}
