//! Index pages: every damaged bit is noticed, changes say which bytes they touched, and the bytes stay what they are.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use skip_core::page::{PAGE, PAYLOAD_END, PAYLOAD_START, PageBytes, PageImage, PageKind, PageView, get_u16};

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

proptest! {
    /// Replaying the spans of a change on the page before it gives the page after it: what WAL does.
    #[test]
    fn spans_cover_all_changes(puts in prop::collection::vec((0usize..8144, prop::collection::vec(any::<u8>(), 1..40)), 1..12)) {
        let before = sample();
        let mut image = PageImage::copy_of(&before);
        for (at, data) in &puts {
            image.put(*at, data);
        }
        let (after, spans) = image.seal(7, 99);
        let mut replayed = before;
        for pair in spans.windows(2) {
            prop_assert!(pair[0].0 + pair[0].1 < pair[1].0, "spans are sorted and apart");
        }
        for (at, len) in spans {
            let (at, end) = (usize::from(at), usize::from(at + len));
            replayed[at..end].copy_from_slice(&after[at..end]);
        }
        prop_assert!(replayed == *after);
        prop_assert!(PageView::check(&replayed, 7, 99).is_ok());
    }
}
