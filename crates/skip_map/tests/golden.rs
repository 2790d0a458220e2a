//! What is on disk, frozen: fingerprints, numbers, the bytes of data pages and fence pages.
//!
//! The expected values were computed by a second implementation, written anew from the modules' texts in another
//! language; its mixing gives the published first output of SplitMix64. **A test that fails here means that indexes
//! written by earlier builds would be read wrong**: the change is a new format version, not new values. A writer may
//! come to divide numbers differently into blocks. Then keep the bytes here, as bytes to be read.

use crate::common::Run;
use skip_map::*;

#[test]
fn fingerprints_and_numbers() {
    let (most, few) = (Coding::new(40, 1000).unwrap(), Coding::new(20, 1000).unwrap());
    let expected = [
        (0, 0),
        (1, 0x56_9216_1d10),
        (u64::MAX, 0xb4_d055_fcf2),
        (0x0123_4567_89ab_cdef, 0xb2_c058_e4eb),
        (1 << 63, 0x25_c26e_a579),
    ];
    for (hash, fingerprint) in expected {
        assert_eq!(most.fingerprint(hash), fingerprint, "{hash:x}");
        assert_eq!(few.fingerprint(hash), fingerprint >> 20, "{hash:x}");
        assert_eq!(few.number(hash, 17), (fingerprint >> 20) * 1000 + 17);
    }
}

/// Numbers of an Elias-Fano block, a block of consecutive numbers, a bitmap, and two more consecutive ones.
fn numbers() -> Vec<u64> {
    let elias_fano = (0..10).map(|i| 1000 + i * i * 7919);
    let bitmap = (0..30).map(|i| 2_000_000 + 2 * i).chain([2_000_059]);
    let consecutive = (1 << 40..(1 << 40) + 200).chain([1 << 62]);
    elias_fano.chain(1_000_000..1_000_128).chain(bitmap).chain(consecutive).collect()
}

const DATA_PAGE: &str = "11fa05006b0000000000000000000040e80300000000000040420f0000000000\
    80841e0000000000000000000001000000000000000000404f026002ff1f0000\
    3e001803ff3100003f0000000080770feffecc02efbe2a70667fd7c0bbcf24a7\
    488410555555555555550d";

fn page_of(hex: &str) -> Page {
    let mut page = [0; PAGE_BYTES];
    for (byte, digits) in page.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    }
    page
}

#[test]
fn data_page_is_read() {
    let page = page_of(DATA_PAGE);
    let mut found = vec![];
    read_page(&page, |span| found.extend(span)).unwrap();
    assert_eq!(found, numbers());
    let head = Head::parse(&page).unwrap();
    assert_eq!((head.first(), head.last()), (1000, 1 << 62));
    let places: Vec<_> = head.blocks(0..u64::MAX).unwrap().map(|block| block.bytes()).collect();
    assert_eq!(places, [76..99, 0..0, 99..107, 0..0, 0..0]);
}

#[test]
fn data_page_is_written() {
    let run = Run::of(numbers());
    assert_eq!(run.pages.len(), 1);
    assert!(*run.pages[0] == page_of(DATA_PAGE));
}

#[test]
fn fence_page() {
    let firsts: Vec<u64> = (0..600).map(|i| i * i + 5).collect();
    let mut page = page_of("12fa58020000000029f400000000000045e0030000000000ffffffffffffffff");
    for (entry, first) in page[32..].chunks_exact_mut(8).zip(&firsts) {
        entry.copy_from_slice(&first.to_le_bytes());
    }
    let known: Vec<_> = firsts.iter().copied().map(Some).collect();
    assert_eq!(check_fence(&page, &known), Ok(()));
    for (index, first) in firsts.iter().enumerate() {
        assert_eq!(fence_entry(&page, *first), Ok(index));
        assert_eq!(fence_entry(&page, first - 1), Ok(index.saturating_sub(1)));
    }
}

/// The fence page that a writer makes of more than 504 data pages, the first numbers of which are read from them.
#[test]
fn fence_page_is_written() {
    let run = Run::of((0..1_500_000u64).map(|i| i << 24));
    let shape = run.written.shape;
    let root = &run.pages[shape.root().unwrap() as usize];
    assert!(shape.data_pages() > 510 && shape.levels() == 1, "{shape:?}");
    let mut expected = [0; PAGE_BYTES];
    let first_of = |page: usize| &run.pages[page][16..24];
    expected[..2].copy_from_slice(&[0x12, 0xfa]);
    expected[2..4].copy_from_slice(&(shape.data_pages() as u16).to_le_bytes());
    expected[8..16].copy_from_slice(first_of(250));
    expected[16..24].copy_from_slice(first_of(504));
    expected[24..32].fill(0xff);
    for page in 0..shape.data_pages() as usize {
        expected[32 + 8 * page..][..8].copy_from_slice(first_of(page));
    }
    assert!(**root == expected);
}

#[test]
fn shape() {
    let expected = [(1, 1, 0), (2, 3, 1), (1012, 1013, 1), (1013, 1016, 2), (1_024_144, 1_025_157, 2)];
    for (data_pages, pages, levels) in expected {
        let shape = RunShape::of_data_pages(data_pages);
        assert_eq!((shape.pages(), shape.levels()), (pages, levels));
    }
    assert_eq!(RunShape::of_data_pages(1013).child(1014, 0), Some(1012));
    assert_eq!(RunShape::of_data_pages(1013).child(1015, 1), Some(1014));
}
