//! RocksDB's own tests of its filters and their hash, with the values that are in them.
//!
//! `util/hash_test.cc` (Hash64SmallValueSchema, Hash64LargeValueSchema) and `util/bloom_test.cc` (Schema, RawSchema,
//! CorruptFilters, FilterSize): what a filter made by RocksDB itself is, and what its reader answers.

use crate::common::{hex, number_key};
use skip_filter::policy::leveldb::leveldb_hash;
use skip_filter::policy::xxph3::xxph3;
use skip_filter::policy::*;

const HASHES: &str = include_str!("vectors/rocksdb_hash.tsv");

fn policy(bits_per_key: f64) -> ConfiguredPolicy {
    ConfiguredPolicy::new(by_name("rocksdb").unwrap(), Size::BitsPerKey(bits_per_key)).unwrap()
}

#[test]
fn hashes_of_keys_of_all_lengths() {
    let alphabet = b"abcdefghijklmnopqrstuvwxyz123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut checked = 0;
    for row in HASHES.lines().filter(|line| !line.starts_with('#')) {
        let row: Vec<&str> = row.split('\t').collect();
        if row[0] == "hash" {
            assert_eq!(format!("{:016x}", xxph3(&hex(row[1]))), row[2], "{row:?}");
        } else {
            let text = row[1].repeat(430);
            let hash = |length| xxph3(&text.as_bytes()[..length]);
            let found: Vec<u8> = (0..430).map(|length| alphabet[(hash(length) % 61) as usize]).collect();
            assert_eq!(str::from_utf8(&found).unwrap(), row[2]);
        }
        checked += 1;
    }
    assert_eq!(checked, 44);
}

/// Bits a key, the keys (numbers of four bytes), probes, LevelDB's hash of the filter, and the first of the keys from a
/// million on that match, less a million.
type Schema = (f64, std::ops::Range<u32>, u8, u32, &'static [u32]);

#[test]
fn filters_are_those_of_rocksdb() {
    let schema: [Schema; 13] = [
        (5.0, 0..87, 3, 4_130_687_756, &[31, 38, 40, 43, 61, 83, 86, 112, 125, 131]),
        (2.0, 0..2_087, 1, 3_817_481_309, &[11, 13, 17, 25, 29, 30, 35, 37, 45, 53]),
        (3.0, 0..2_087, 2, 2_807_269_961, &[4, 15, 17, 24, 27, 28, 29, 53, 63, 70]),
        (5.0, 0..2_087, 3, 204_628_445, &[15, 24, 29, 39, 53, 87, 89, 100, 103, 104]),
        (8.0, 0..2_087, 5, 355_564_975, &[16, 60, 66, 126, 220, 238, 244, 256, 265, 287]),
        (9.0, 0..2_087, 6, 2_137_566_013, &[156, 367, 791, 872, 945, 1_015, 1_139, 1_159, 1_265]),
        (11.0, 0..2_087, 7, 2_561_502_687, &[34, 74, 130, 236, 643, 882, 962, 1_015, 1_035, 1_110]),
        (14.0, 0..2_087, 8, 3_709_876_890, &[130, 240, 522, 565, 989, 2_002, 2_526, 3_147, 3_543]),
        (16.0, 0..2_087, 9, 1_087_138_490, &[3_299, 3_611, 3_916, 6_620, 7_822, 8_079, 8_482, 8_942]),
        (10.0, 0..2_087, 6, 2_498_541_272, &[16, 126, 133, 422, 466, 472, 813, 1_002, 1_035]),
        (10.0, 1..2_088, 6, 23_699_164, &[16, 126, 133, 422, 466, 472, 813, 1_002, 1_035]),
        (9.5, 1..2_088, 6, 3_166_884_174, &[126, 156, 367, 444, 458, 791, 813, 976, 1_015]),
        (10.499, 1..2_088, 7, 4_098_502_778, &[16, 236, 240, 472, 1_015, 1_045, 1_111, 1_409, 1_465]),
    ];
    for (bits_per_key, keys, num_probes, hash, matching) in schema {
        let policy = policy(bits_per_key);
        let filter = policy.build(keys.map(number_key)).unwrap();
        assert_eq!(filter.shape().geometry().num_probes, num_probes, "{bits_per_key}");
        let encoded = filter.export();
        assert_eq!(leveldb_hash(&encoded, 0xbc9f_1d34), hash, "{bits_per_key}");
        let found = (0..).filter(|i| policy.key_may_match(&number_key(1_000_000 + i), &encoded));
        assert_eq!(found.take(matching.len()).collect::<Vec<u32>>(), matching, "{bits_per_key}");
    }
}

/// An encoding: so many bytes of the same bits, and a trailer of the marker and a little-endian number.
fn raw(length: usize, number: u32, marker: u8, byte: u8) -> Vec<u8> {
    let mut encoded = vec![byte; length];
    encoded.push(marker);
    encoded.extend(number.to_le_bytes());
    encoded
}

/// RawSchema: two probes in four lines with three quarters of the bits set. The 64 answers as a number.
#[test]
fn a_filter_of_another_making_is_read() {
    let encoded = raw(256, 2 << 8, 255, 0);
    let mut data: Vec<u8> = (0..3_000).map(|i| (0x7b7b >> (i % 7)) as u8).collect();
    let body = data.split_off(3_000 - 5 - 256);
    let encoded = [&body[..256], &encoded[256..]].concat();
    let answers = (0..64).filter(|i| policy(10.0).key_may_match(&number_key(12_345 + i), &encoded));
    assert_eq!(answers.fold(0, |number, i| number | 1u64 << i), 9_957_045_189_927_952_471);
}

/// CorruptFilters, but for encodings of legacy and ribbon filters, which are not known here and match, and for those
/// of five bytes and less, which RocksDB takes as holding no keys.
#[test]
fn corrupt_filters_match() {
    let policy = policy(10.0);
    let answers =
        |encoded: &[u8]| ["hello", "world"].map(|key| policy.key_may_match(key.as_bytes(), encoded));
    for (byte, set) in [(0, false), (255, true)] {
        for number in [6 << 8, 30 << 8, 1 << 8] {
            assert_eq!(answers(&raw(64, number, 255, byte)), [set; 2], "{number:x}");
            assert_eq!(answers(&raw(640, number, 255, byte)), [set; 2], "{number:x}");
        }
        let bad = [0, 6 << 8 | 1, 6 << 8 | 1 << 16, 6 << 8 | 1 << 24, 31 << 8, 33 << 8, 66 << 8, 130 << 8];
        for number in bad {
            assert_eq!(answers(&raw(64, number, 255, byte)), [true; 2], "{number:x}");
        }
        for marker in [0, 1, 6, 30, 31, 127, 128, 253, 254] {
            assert_eq!(answers(&raw(64, 1, marker, byte)), [true; 2], "{marker}");
            assert_eq!(answers(&raw(128, 2 << 8, marker, byte)), [true; 2], "{marker}");
        }
        for length in [0, 1, 4, 63, 65, 97 * 3] {
            assert_eq!(answers(&raw(length, 6 << 8, 255, byte)), [true; 2], "{length}");
        }
    }
    for length in 0..5 {
        assert_eq!(answers(&raw(0, 6 << 8, 255, 0)[..length]), [true; 2], "{length}");
    }
}

/// FilterSize: as many keys as fit in a filter get a filter of the same size.
#[test]
fn sizes() {
    let rocksdb = by_name("rocksdb").unwrap();
    for bits_per_key in [1.0, 1.234, 9.5, 10.499, 21.345, 99.999] {
        for keys in [1u64, 2, 10, 100, 1_000, 12_345, 999_999] {
            let bits = |keys| rocksdb.for_bits_per_key(keys, bits_per_key).bits;
            let millibits = (bits_per_key * 1_000.0).round() as u64;
            assert_eq!(bits(keys), (keys * millibits).div_ceil(512_000) * 512);
            let fitting = bits(keys) * 1_000 / millibits;
            assert!(fitting >= keys);
            assert_eq!(bits(fitting), bits(keys), "{bits_per_key} {keys}");
        }
    }
}
