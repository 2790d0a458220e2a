//! The bytes and the numbers that are on disk.

use skip_bounds::page::{self, PAGE_BYTES};
use skip_bounds::{Bounds, Nesting, OrderKind, PageSummary, PartLen, ValueOrder};

#[test]
fn keys() {
    let key = |kind: OrderKind, bytes: &[u8]| kind.key(bytes).unwrap();
    assert_eq!(key(OrderKind::Integer, &(-1i16).to_le_bytes()), 0x7FFF_FFFF_FFFF_FFFF);
    assert_eq!(key(OrderKind::Timestamp, &0i64.to_le_bytes()), 0x8000_0000_0000_0000);
    assert_eq!(key(OrderKind::Unsigned, &7u32.to_le_bytes()), 7);
    assert_eq!(key(OrderKind::Byte, &[200]), 200);
    assert_eq!(key(OrderKind::Float, &1.5f32.to_le_bytes()), 0xBFF8_0000_0000_0000);
    assert_eq!(key(OrderKind::Float, &(-1.5f64).to_le_bytes()), 0x4007_FFFF_FFFF_FFFF);
    assert_eq!(key(OrderKind::Text, b"abc"), 0x6162_6300_0000_0000);
    assert_eq!(key(OrderKind::Blanked, b"abc   "), 0x6162_6300_0000_0000);
    assert_eq!(key(OrderKind::MacAddress, &[1, 2, 3, 4, 5, 6]), 0x0102_0304_0506_0000);
    // 12345.67: digits 1, 2345, 6700, of weight 1.
    let number =
        [&0x8101u16.to_le_bytes()[..], &1u16.to_le_bytes(), &2345u16.to_le_bytes(), &6700u16.to_le_bytes()];
    assert_eq!(key(OrderKind::Numeric, &number.concat()), 0xC000_8000_0000_0000 | 1_234_567_000_000 >> 7);
    assert_eq!(key(OrderKind::Interval, &[0; 16]), 1 << 63);
    assert_eq!(key(OrderKind::Network, &[2, 8, 10, 1, 2, 3]), 0x0500_0000_0000_0000);
    assert_eq!(OrderKind::Network as u8, 22);
}

#[test]
fn a_page() {
    let mut bytes = vec![0; PAGE_BYTES];
    page::put(&mut bytes, 0, Bounds { least: 1, greatest: 2, nulls: true, ..Bounds::EMPTY });
    page::put(&mut bytes, 124, Bounds { least: 3, greatest: 4, open: true, widened: true, ..Bounds::EMPTY });
    page::put(&mut bytes, 495, Bounds::EMPTY);
    let is_set: Vec<(usize, u8)> =
        bytes.iter().copied().enumerate().filter(|&(at, byte)| byte != 0 && at < 3 * 2032).collect();
    assert_eq!(is_set, [(0, 1), (8, 2), (2000, 1), (2032, 3), (2040, 4), (2032 + 1984, 1), (2032 + 2016, 1)]);
    let last = 3 * 2032 + 123 * 16;
    assert_eq!(bytes[last..last + 16], [[0xFF; 8], [0; 8]].concat());
}

#[test]
fn a_summary() {
    let ranges = [
        Bounds { least: 1, greatest: 9, nulls: true, ..Bounds::EMPTY },
        Bounds { least: 5, greatest: 6, ..Bounds::EMPTY },
    ];
    let words: Vec<u64> = PageSummary::of(ranges)
        .encode()
        .chunks(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    assert_eq!(words, [1, 5, 6, 9, 1 | 4 | 8]);
    assert_eq!(page::summary_at(0), 0..40);
    assert_eq!(page::summary_at(50), 2032..2072);
}

#[test]
fn keys_of_values_that_consist_of_others() {
    let of = |nesting, kind, len, align| ValueOrder::nested(nesting, kind, len, align).unwrap();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    // {7, 8}: one dimension, no NULL, type 23, two elements from number 1 on.
    let array = of(Nesting::Array, OrderKind::Integer, PartLen::Fixed(4), 4);
    assert_eq!(array.key(&words(&[1, 0, 23, 2, 1, 7, 8])), Some(0x8000_0000_0000_0007));
    assert_eq!(array.key(&words(&[0, 0, 23])), Some(0));
    // As an int2vector without elements.
    assert_eq!(array.key(&words(&[1, 0, 21, 0, 0])), Some(0));
    // {NULL, 8} and {8, NULL}: the data is at byte 32 of the value.
    assert_eq!(array.key(&words(&[1, 32, 23, 2, 1, 0b10, 0, 8])), Some(u64::MAX));
    assert_eq!(array.key(&words(&[1, 32, 23, 2, 1, 0b01, 0, 8])), Some(0x8000_0000_0000_0008));
    // {abc}: an element with a header of four bytes.
    let texts = of(Nesting::Array, OrderKind::Text, PartLen::Varlena, 4);
    let text = [words(&[1, 0, 25, 1, 1, 7 << 2]), b"abc\0".to_vec()].concat();
    assert_eq!(texts.key(&text), Some(0x6162_6300_0000_0000));
    // [7,9) and [abc,) with a header of one byte.
    let range = of(Nesting::Range, OrderKind::Integer, PartLen::Fixed(4), 4);
    assert_eq!(range.key(&[words(&[3904, 7, 9]), vec![2]].concat()), Some(0x8000_0000_0000_0007));
    assert_eq!(range.key(&[words(&[3904]), vec![1]].concat()), Some(0));
    assert_eq!(range.key(&[words(&[3904, 9]), vec![8]].concat()), Some(0));
    let texts = of(Nesting::Range, OrderKind::Text, PartLen::Varlena, 4);
    assert_eq!(
        texts.key(&[words(&[3904]), vec![9, b'a', b'b', b'c', 0x12]].concat()),
        Some(0x6162_6300_0000_0000)
    );
    // {[7,9), [11,13)} of bigint: two ranges, the place of the second, two flags; the bounds are aligned to 8.
    let ranges = of(Nesting::Multirange, OrderKind::Integer, PartLen::Fixed(8), 8);
    let bytes =
        [words(&[4536, 2, 16]), vec![2, 2, 0, 0, 0, 0, 0, 0], words(&[7, 0, 9, 0, 11, 0, 13, 0])].concat();
    assert_eq!(ranges.key(&bytes), Some(0x8000_0000_0000_0007));
    assert_eq!(ranges.key(&words(&[4536, 0])), Some(0));
    let numbers = [
        ValueOrder::of(OrderKind::Integer).number(),
        array.number(),
        range.number(),
        ranges.number(),
        ValueOrder::of(OrderKind::Label).number(),
    ];
    assert_eq!(numbers, [1, 65, 129, 193, 29]);
}

#[test]
fn keys_of_further_kinds() {
    let key = |kind: OrderKind, bytes: &[u8]| kind.key(bytes).unwrap();
    assert_eq!(key(OrderKind::Bits, &[12, 0, 0, 0, 0xAB, 0xC0]), 0xABC0_0000_0000_0000);
    assert_eq!(key(OrderKind::TupleId, &[1, 0, 2, 0, 3, 0]), 0x0001_0002_0003);
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(key(OrderKind::OidVector, &words(&[1, 0, 26, 2, 0, 7, 8])), 2 << 32 | 7);
    assert_eq!(key(OrderKind::Lexemes, &words(&[1, 0])), 8 << 32 | 1);
    assert_eq!(key(OrderKind::TextQuery, &words(&[1, 0])), 1 << 32 | 8);
    assert_eq!(key(OrderKind::Label, &16_386u32.to_le_bytes()), 16_386);
    assert_eq!(key(OrderKind::Label, &16_387u32.to_le_bytes()), u64::MAX);
    // [], "a", true, [[]] and {"a": …}.
    assert_eq!(key(OrderKind::Document, &words(&[0x4000_0000])), 0);
    assert_eq!(key(OrderKind::Document, &words(&[0x5000_0001, 0x0000_0001, 0x61])), 0x2800_0000_0000_0000);
    assert_eq!(key(OrderKind::Document, &words(&[0x5000_0001, 0x3000_0000])), 0x3800_0000_0000_0001);
    assert_eq!(key(OrderKind::Document, &words(&[0x4000_0001])), 0x4000_0000_0000_0001);
    assert_eq!(key(OrderKind::Document, &words(&[0x2000_0003])), 0x6000_0000_0000_0003);
    // 7: a numeric of weight 0 with a header of four bytes.
    let seven = [words(&[0x5000_0001, 0x1000_0008, 8 << 2]), vec![0, 0x80, 7, 0]].concat();
    assert_eq!(
        key(OrderKind::Document, &seven),
        0x3000_0000_0000_0000 | key(OrderKind::Numeric, &[0, 0x80, 7, 0]) >> 5
    );
}

#[test]
fn damaged_values_have_no_key() {
    let orders = [
        (Nesting::Array, OrderKind::Text, PartLen::Varlena, 4),
        (Nesting::Array, OrderKind::Integer, PartLen::Fixed(8), 8),
        (Nesting::Range, OrderKind::Numeric, PartLen::Varlena, 4),
        (Nesting::Multirange, OrderKind::TimestampTz, PartLen::Fixed(8), 8),
    ];
    let mut state = 1u64;
    for (nesting, kind, len, align) in orders {
        let order = ValueOrder::nested(nesting, kind, len, align).unwrap();
        assert_eq!(order.key(&[]), None);
        // Whatever the bytes are, there is a key or none.
        for len in 0..200 {
            let mut bytes = vec![0u8; len % 50];
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 33) as u8 & [0xFF, 3, 0][(state >> 60) as usize % 3];
            }
            let _ = order.key(&bytes);
            let _ = OrderKind::Document.key(&bytes);
        }
    }
    assert!(ValueOrder::nested(Nesting::Array, OrderKind::Label, PartLen::Fixed(4), 4).is_none());
}
