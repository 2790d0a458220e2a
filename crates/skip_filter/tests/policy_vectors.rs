//! Filters and hashes of other systems, byte for byte, and the frozen encoding of our own.
//!
//! The files under `vectors/` say in their first lines what they hold. **A test that fails
//! here means that filters stored by earlier builds, or by those systems, would be read wrong.**

use crate::common::{hex, number_key};
use skip_filter::policy::city::city64_with_seed;
use skip_filter::policy::leveldb::leveldb_hash;
use skip_filter::policy::*;
use skip_filter::{Filter, hash_bytes};
use std::collections::HashSet;

const LEVELDB: &str = include_str!("vectors/leveldb.tsv");
const CLICKHOUSE: &str = include_str!("vectors/clickhouse_bloom.tsv");
const ROCKSDB: &str = include_str!("vectors/rocksdb_fast_local.tsv");

/// The fields of the lines that are no comments.
fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

#[test]
fn leveldb() {
    let (mut hashes, mut filters) = (0, 0);
    for row in rows(LEVELDB) {
        if row[0] == "hash" {
            let seed = u32::from_str_radix(row[1], 16).unwrap();
            assert_eq!(format!("{:08x}", leveldb_hash(&hex(row[2]), seed)), row[3], "{row:?}");
            hashes += 1;
            continue;
        }
        let (bits, keys): (f64, u32) = (row[1].parse().unwrap(), row[2].parse().unwrap());
        let policy = ConfiguredPolicy::new(by_name("leveldb").unwrap(), Size::BitsPerKey(bits)).unwrap();
        let filter = policy.create_filter((0..keys).map(number_key)).unwrap();
        assert_eq!(filter, hex(row[3]), "{bits} bits, {keys} keys");
        let absent = (0..10_000).map(|i| number_key(1_000_000_000 + i));
        let matching = absent.filter(|key| policy.key_may_match(key, &filter)).count();
        assert_eq!(matching.to_string(), row[4], "{bits} bits, {keys} keys");
        filters += 1;
    }
    assert_eq!((hashes, filters), (12, 56));
}

/// What LevelDB's `CreateFilter` makes of the bits and probes of `util/bloom.cc`, written down once more.
fn as_leveldb_does(keys: &[String], bits_per_key: usize) -> Vec<u8> {
    let bytes = (keys.len() * bits_per_key).max(64).div_ceil(8);
    let num_probes = ((bits_per_key as f64 * 0.69) as u8).clamp(1, 30);
    let mut filter = vec![0; bytes];
    for key in keys {
        let mut hash = leveldb_hash(key.as_bytes(), 0xbc9f_1d34);
        let step = hash.rotate_right(17);
        for _ in 0..num_probes {
            let position = hash as usize % (bytes * 8);
            filter[position / 8] |= 1 << (position % 8);
            hash = hash.wrapping_add(step);
        }
    }
    filter.push(num_probes);
    filter
}

/// Of so many keys some share a hash, and LevelDB counts them all the same.
#[test]
fn leveldb_is_sized_by_keys() {
    let keys: Vec<String> = (0..300_000).map(|i| format!("user{i}@example.org")).collect();
    let hashes: HashSet<u32> = keys.iter().map(|key| leveldb_hash(key.as_bytes(), 0)).collect();
    assert!(hashes.len() + 4 < keys.len(), "the test is about keys that share a hash");
    let policy = ConfiguredPolicy::new(by_name("leveldb").unwrap(), Size::BitsPerKey(10.0)).unwrap();
    let twice = keys.iter().chain(&keys);
    assert!(policy.create_filter(twice).unwrap() == as_leveldb_does(&keys, 10));
}

#[test]
fn clickhouse() {
    let (mut hashes, mut filters) = (0, 0);
    for row in rows(CLICKHOUSE) {
        if row[0] == "hash" {
            let hash = city64_with_seed(&hex(row[2]), row[1].parse().unwrap());
            assert_eq!(format!("{hash:016x}"), row[3], "{row:?}");
            hashes += 1;
            continue;
        }
        let [bytes, num_probes, seed] = [1, 2, 3].map(|field| row[field].parse::<u64>().unwrap());
        let size = Size::Fixed { bytes, num_probes: num_probes as u8 };
        let policy = ConfiguredPolicy::new(by_name("clickhouse").unwrap(), size).unwrap();
        let policy = policy.with_seed(seed).unwrap();
        let keys: Vec<Vec<u8>> = row[4].split(',').map(hex).collect();
        let empty = policy.build([b""; 0]).unwrap();
        let mut one = empty.clone();
        one.insert(&keys[0]);
        assert!(empty.is_empty() && !one.is_empty() && !empty.may_contain(&keys[0]));
        let filter = policy.build(&keys).unwrap();
        // In memory, whole words; in an index file, `filter_size` bytes of them.
        let words = hex(row[5]);
        assert!(words.len().is_multiple_of(8));
        assert_eq!(filter.body(), words, "{row:?}");
        assert_eq!(filter.export(), words[..bytes as usize], "{row:?}");
        for encoded in [&words[..], &words[..bytes as usize]] {
            let given = Some(*filter.shape().geometry());
            let imported = BloomFilter::import(filter.shape().policy(), encoded, given).unwrap();
            assert_eq!(imported, filter, "{row:?}");
            assert!(keys.iter().all(|key| policy.key_may_match(key, encoded)));
        }
        assert!(keys.iter().all(|key| policy.key_may_match(key, &filter.export())));
        assert!(filter.covers(&one).unwrap() && one.covers(&empty).unwrap() && !one.covers(&filter).unwrap());
        filters += 1;
    }
    assert_eq!((hashes, filters), (30, 5));
}

#[test]
fn rocksdb() {
    let mut filters = 0;
    for row in rows(ROCKSDB) {
        let num_probes: u8 = row[0].parse().unwrap();
        let size = Size::Fixed { bytes: row[1].parse().unwrap(), num_probes };
        let shape = Shape::for_keys(by_name("rocksdb").unwrap(), 0, size, 0).unwrap();
        let hashes: Vec<u64> = row[2].split(',').map(|hash| u64::from_str_radix(hash, 16).unwrap()).collect();
        let (mut filter, mut one_by_one) = (BloomFilter::new(shape), BloomFilter::new(shape));
        filter.insert_hashes(&hashes);
        for &hash in &hashes {
            one_by_one.insert_hash(hash);
        }
        assert_eq!(filter, one_by_one);
        assert_eq!(filter.body(), hex(row[3]), "{row:?}");
        assert!(hashes.iter().all(|&hash| filter.may_contain_hash(hash)));
        let encoded = filter.export();
        assert_eq!(encoded[encoded.len() - 5..], [255, 0, num_probes, 0, 0]);
        assert_eq!(BloomFilter::import(shape.policy(), &encoded, None).unwrap(), filter);
        filters += 1;
    }
    assert_eq!(filters, 7);
}

/// Our own: the bits are those of [`Filter`], and the whole is frozen.
#[test]
fn skip() {
    let shape = Shape::for_keys(by_name("skip").unwrap(), 10, Size::Rate(0.01), 7).unwrap();
    let mut filter = BloomFilter::new(shape);
    let mut reference = Filter::new(128, 5);
    for key in 0..10 {
        filter.insert(&number_key(key));
        reference.insert(hash_bytes(7, &number_key(key)));
    }
    let words: Vec<[u8; 8]> = reference.words().iter().map(|word| word.to_le_bytes()).collect();
    assert_eq!(filter.body(), words.concat());
    let encoded: String = filter.export().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(encoded, "13464116211838388025b10035d56802070000000000000001000501");
}

/// A policy may take many keys in groups: whatever is left over must go in, too.
#[test]
fn many_at_once_is_one_by_one() {
    for policy in POLICIES {
        let shape = Shape::for_keys(*policy, 1_000, Size::BitsPerKey(10.0), 0).unwrap();
        for keys in [0, 1, 7, 8, 9, 100] {
            let hashes: Vec<u64> = (0..keys).map(|key| policy.hash(0, &number_key(key))).collect();
            let (mut filter, mut one_by_one) = (BloomFilter::new(shape), BloomFilter::new(shape));
            filter.insert_hashes(&hashes);
            for &hash in &hashes {
                one_by_one.insert_hash(hash);
            }
            assert_eq!(filter, one_by_one, "{} {keys}", policy.name());
        }
    }
}
