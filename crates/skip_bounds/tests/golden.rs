//! The bytes and the numbers that are on disk.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use skip_bounds::page::{self, PAGE_BYTES};
use skip_bounds::{Bounds, OrderKind, PageSummary};

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
