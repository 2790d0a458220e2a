//! Stored filters: their bytes, every way in which bytes can be no filter, and what may be put together.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use skip_filter::policy::{Geometry, POLICIES, PolicyError, Shape, by_name};
use skip_value::{
    Collation, KeptValue, KeyType, Keys, Outline, StoredFilter, ValueError, empty, seal, unseal,
};

fn keys(policy: &str) -> Keys {
    Keys { policy: by_name(policy).unwrap(), seed: 0, key_type: KeyType::BuiltIn(2950), collation: None }
}

fn shape(keys: &Keys, bits: u64, num_probes: u8) -> Shape {
    Shape::new(keys.policy, Geometry { bits, num_probes, seed: keys.seed }).unwrap()
}

/// Keys of every kind.
fn kinds() -> Vec<Keys> {
    let german = Collation { name: "\"de-x-icu\"".into(), version: "153.120".into() };
    let named = KeyType::Named { schema: "public".into(), name: "Ünder".into() };
    let mut kinds = Vec::new();
    for policy in POLICIES {
        let plain = keys(policy.name());
        kinds.push(Keys { key_type: named.clone(), ..plain.clone() });
        kinds.push(Keys { collation: Some(german.clone()), ..plain.clone() });
        if policy.limits().seeded {
            kinds.push(Keys { seed: u64::MAX - 5, collation: Some(german.clone()), ..plain.clone() });
        }
        kinds.push(plain);
    }
    kinds
}

fn filled(keys: &Keys, shapes: &[Shape], count: u64) -> Vec<u8> {
    let mut bytes = empty(keys, shapes);
    let mut value = StoredFilter::decode_mut(&mut bytes).unwrap();
    (0..count).for_each(|i| value.insert_hash(skip_filter::hash_i64(3, i as i64)));
    bytes
}

#[test]
fn every_kind_comes_back() {
    for keys in kinds() {
        let step = keys.policy.limits().bits_step.max(64);
        for members in [vec![step], vec![step * 3, step, step * 40], vec![step; 64]] {
            let shapes: Vec<Shape> = members.iter().map(|&bits| shape(&keys, bits, 5)).collect();
            let bytes = filled(&keys, &shapes, 4);
            let value = StoredFilter::decode(&bytes).unwrap();
            assert!(*value.keys() == keys);
            assert_eq!(value.members().iter().map(|m| *m.shape()).collect::<Vec<_>>(), shapes);
            assert!((0..4).all(|i| value.may_contain_hash(skip_filter::hash_i64(3, i))));
            let sealed = [&bytes[..], &seal(&bytes)].concat();
            assert_eq!(unseal(&sealed).unwrap(), bytes);
            for length in 0..sealed.len() {
                assert!(unseal(&sealed[..length]).is_err(), "{keys:?} {length}");
            }
            assert!(unseal(&[&sealed[..], &[0]].concat()).is_err());
            let mut flipped = sealed.clone();
            for bit in (0..sealed.len() * 8).step_by(if sealed.len() > 1_000 { 97 } else { 1 }) {
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(unseal(&flipped).is_err(), "{keys:?} {bit}");
                flipped[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}

/// What is asked of a filter elsewhere, from its first bytes and lines, is what the whole value says.
#[test]
fn distant_filters_answer_alike() {
    for keys in kinds() {
        let step = keys.policy.limits().bits_step;
        let least = keys.policy.limits().min_bits.next_multiple_of(step);
        for (members, count) in [
            (vec![least], 5),
            (vec![(least + 77).next_multiple_of(step)], 40),
            (vec![(9_999u64).next_multiple_of(step)], 900),
            (vec![(70_001u64).next_multiple_of(step), least, (4_001u64).next_multiple_of(step)], 6_000),
        ] {
            let shapes: Vec<Shape> = members.iter().map(|&bits| shape(&keys, bits, 7)).collect();
            let bytes = filled(&keys, &shapes, count);
            let (value, length) = (StoredFilter::decode(&bytes).unwrap(), bytes.len() as u64);
            let header = length - shapes.iter().map(Shape::body_bytes).sum::<u64>();
            let distant = Outline::read(&bytes[..header as usize], length).unwrap();
            assert!(*distant.keys() == keys);
            assert!(distant.is_of(&bytes) && !distant.is_of(&bytes[..bytes.len() - 1]));
            for at in 0..header as usize {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert!(!distant.is_of(&other), "{keys:?} {at}");
            }
            let mut found = 0;
            for key in 0..2 * count as i64 {
                let hash = skip_filter::hash_i64(3, key);
                let mut lines = 0;
                let answer = distant.may_contain_hash_afar(hash, &mut |offset, line| {
                    lines += 1;
                    line.copy_from_slice(&bytes[offset as usize..offset as usize + line.len()]);
                });
                assert_eq!(answer, value.may_contain_hash(hash), "{keys:?} {members:?} {key}");
                assert_eq!(answer, distant.may_contain_hash(&bytes, hash), "{keys:?} {members:?} {key}");
                assert!(answer || key >= count as i64, "a key was lost: {keys:?} {members:?} {key}");
                let in_a_line = keys.policy.limits().line_bits.is_some();
                let most = if in_a_line { members.len() } else { 7 * members.len() };
                assert!((1..=most).contains(&lines), "{lines} lines: {keys:?} {members:?}");
                found += u64::from(answer);
            }
            assert!(found < 2 * count || members.len() == 3 || count == 5, "nothing was ruled out");
            for short in 0..header as usize {
                assert!(Outline::read(&bytes[..short], length).is_err(), "{keys:?} {short}");
            }
            assert!(Outline::read(&bytes[..header as usize], u64::MAX).is_err(), "{keys:?}");
            for wrong in [0, header - 1, header, length - 1, length + 1] {
                let error = Outline::read(&bytes[..header as usize], wrong).err();
                let mut whole = bytes.clone();
                whole.resize(wrong as usize, 0);
                assert_eq!(error.is_some(), StoredFilter::decode(&whole).is_err(), "{keys:?} {wrong}");
            }
        }
    }
}

/// One key, whose bits are those of policy `skip`.
const FROZEN: [u8; 10] = [0x21, 0x65, 0, 0, 8, 32, 64, 0, 0, 130];
const FROZEN_SEAL: [u8; 4] = [46, 73, 73, 190];

/// Frozen.
#[test]
fn the_layout_is_what_it_was() {
    let plain = keys("skip");
    let bytes = filled(&plain, &[shape(&plain, 64, 5)], 1);
    assert_eq!(bytes, FROZEN);
    assert_eq!(seal(&bytes), FROZEN_SEAL);
    let seeded = Keys { seed: 7, key_type: KeyType::Named { schema: "s".into(), name: "t".into() }, ..plain };
    let bytes = empty(&seeded, &[shape(&seeded, 64, 5), shape(&seeded, 128, 6)]);
    let header = [0x21, 0, 5, 1, b's', 1, b't', 7, 0, 0, 0, 0, 0, 0, 0, 2, 5, 64, 6, 0x80, 1];
    assert_eq!(bytes[..header.len()], header);
    assert_eq!(bytes.len(), header.len() + 24);
}

#[test]
fn small_values_have_small_headers() {
    let uuid = keys("skip");
    assert_eq!(empty(&uuid, &[shape(&uuid, 64, 5)]).len(), 8 + 2);
    for (oid, header) in [(20, 2), (25, 2), (17, 2), (1184, 2), (869, 2), (829, 2), (16, 3), (1082, 4)] {
        let keys = Keys { key_type: KeyType::BuiltIn(oid), ..uuid.clone() };
        let bytes = empty(&keys, &[shape(&keys, 64, 31)]);
        assert_eq!(bytes.len(), 8 + header, "{oid}");
        assert_eq!(*StoredFilter::decode(&bytes).unwrap().keys(), keys);
    }
    let many = empty(&uuid, &[shape(&uuid, 64, 32)]);
    assert_eq!(StoredFilter::decode(&many).unwrap().members()[0].shape().geometry().num_probes, 32);
}

/// Found by fuzzing: of full members nothing is left that could be counted, and 0 / 0 is no number.
#[test]
fn full_members_are_counted() {
    let plain = keys("skip");
    let mut bytes = empty(&plain, &[shape(&plain, 64, 5); 3]);
    let bits = bytes.len() - 24;
    bytes[bits..bits + 16].fill(0xff);
    let found = StoredFilter::decode(&bytes).unwrap().cardinality();
    assert!(found.low <= found.estimate && found.estimate <= found.high, "{found:?}");
    assert!(found.estimate > 64.0 / 5.0);
}

#[test]
fn what_is_unknown_is_told_from_what_is_malformed() {
    let plain = keys("skip");
    let good = empty(&plain, &[shape(&plain, 64, 5)]);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        StoredFilter::decode(&bytes).map(|_| ()).unwrap_err()
    };
    assert_eq!(with(0, 2 << 5 | 1), ValueError::Version(2));
    assert_eq!(with(0, 1 << 5 | 29), ValueError::Policy(29));
    assert!(with(0, 2 << 5 | 1).is_unknown() && with(0, 1 << 5 | 29).is_unknown());
    assert!(!with(1, 3 << 5).is_unknown());
    assert_eq!(StoredFilter::decode(&[]).map(|_| ()).unwrap_err(), ValueError::Truncated);
    for (bytes, what) in [
        (&[0x21, 0, 8, 20, 1, 5, 64][..], "unknown flags"),
        (&[0x21, 0, 0, 20, 0], "number of members"),
        (&[0x21, 0, 0, 20, 65], "number of members"),
        (&[0x21, 0, 0, 20, 1, 5, 64, 0, 0, 0, 0, 0, 0, 0, 0], "canonical form"),
        (&[0x21, 5, 0x90, 0, 0, 0, 0, 0, 0, 0, 0, 0], "canonical form"),
        (&[0x21, 5, 20, 0, 0, 0, 0, 0, 0, 0, 0], "canonical form"),
        (&[0x21, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0], "not a built-in"),
        (&[0x21, 5, 0x80, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0], "not a built-in"),
        (&[0x21, 0, 4, 0xff, 0xff, 0xff, 0xff, 0xf, 1], "too long"),
        (&[0x21, 0, 4, 1, 0xff, 1, b't', 2, 5, 64, 5, 64], "UTF-8"),
        (&[0x21, 0, 4, 3, b'p', 0, b'q', 1, b't', 1, 5, 64, 0, 0, 0, 0, 0, 0, 0, 0], "zero byte"),
        (&[0x21, 0, 4, 1, b'p', 2, b't', 0, 1, 5, 64, 0, 0, 0, 0, 0, 0, 0, 0], "zero byte"),
        (&[0x21, 0, 2, 25, 1, 0, 1, b'1', 1, 5, 64, 0, 0, 0, 0, 0, 0, 0, 0], "zero byte"),
        (&[0x21, 0, 2, 25, 1, b'c', 2, b'1', 0, 1, 5, 64, 0, 0, 0, 0, 0, 0, 0, 0], "zero byte"),
        (&[0x21, 0, 4, 0, 1, b't', 1, 5, 64, 0, 0, 0, 0, 0, 0, 0, 0], "empty"),
        (&[0x21, 0, 4, 1, b's', 0, 1, 5, 64, 0, 0, 0, 0, 0, 0, 0, 0], "empty"),
        (
            &[0x21, 0, 0, 20, 2, 5, 64, 5, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            "too long",
        ),
        (
            &[0x21, 0, 0, 20, 2, 5, 64, 5, 0xc0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1],
            "bits in steps",
        ),
        (&[0x21, 0x20, 0, 0, 0, 0, 0, 0, 0, 0], "probes"),
    ] {
        let error = StoredFilter::decode(bytes).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(what), "{bytes:x?}: {error}");
        assert!(!error.is_unknown());
    }
    // ClickHouse's sizes may end within a word, whose other bits are zero.
    let clickhouse = keys("clickhouse");
    let mut bytes = empty(&clickhouse, &[shape(&clickhouse, 24, 3)]);
    assert!(StoredFilter::decode(&bytes).is_ok());
    *bytes.last_mut().unwrap() = 1;
    assert!(StoredFilter::decode(&bytes).unwrap_err().to_string().contains("beyond its size"));
}

#[test]
fn only_what_fits_is_put_together() {
    let kinds = kinds();
    for one in &kinds {
        for other in &kinds {
            let step = one.policy.limits().bits_step.max(other.policy.limits().bits_step).max(64);
            let mut left = filled(one, &[shape(one, step * 4, 5)], 10);
            let right = filled(other, &[shape(other, step * 4, 5)], 20);
            let right = StoredFilter::decode(&right).unwrap();
            let mut left = StoredFilter::decode_mut(&mut left).unwrap();
            assert_eq!(left.union(&right).is_ok(), one == other);
            assert_eq!(left.intersection(&right).is_ok(), one == other);
        }
    }
    let plain = keys("skip");
    let mut one = filled(&plain, &[shape(&plain, 64, 5)], 1);
    let other = filled(&plain, &[shape(&plain, 128, 6)], 1);
    let error = StoredFilter::decode_mut(&mut one)
        .unwrap()
        .union(&StoredFilter::decode(&other).unwrap())
        .unwrap_err();
    assert_eq!(error.to_string(), "they differ in bits (64 and 128), probes (5 and 6)");
    let series = [shape(&plain, 64, 5), shape(&plain, 128, 6)];
    let (mut one, other) = (filled(&plain, &series, 9), filled(&plain, &series, 30));
    let mut value = StoredFilter::decode_mut(&mut one).unwrap();
    assert!(value.union(&StoredFilter::decode(&other).unwrap()).is_ok());
    assert_eq!(value.intersection(&StoredFilter::decode(&other).unwrap()), Err(ValueError::Series(2)));
    assert!((0..30).all(|i| value.may_contain_hash(skip_filter::hash_i64(3, i))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// Any bytes are a value or an error; a value's bytes are its only ones.
    #[test]
    fn any_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..80), first in 0u8..5, num_probes in 0u8..8) {
        if let Some(byte) = bytes.first_mut() {
            *byte = 1 << 5 | first;
        }
        if let Some(byte) = bytes.get_mut(1) {
            *byte = num_probes;
        }
        check(&bytes)?;
    }

    /// Flipped bits, too.
    #[test]
    fn flipped_bits(kind in 0usize..15, flips in prop::collection::vec((0usize..600, 0u8..8), 1..4)) {
        let kinds = kinds();
        let keys = &kinds[kind % kinds.len()];
        let step = keys.policy.limits().bits_step.max(64);
        let mut bytes = filled(keys, &[shape(keys, step, 5), shape(keys, step * 2, 4)], 5);
        let length = bytes.len();
        for (at, bit) in flips {
            bytes[at % length] ^= 1 << bit;
        }
        check(&bytes)?;
    }
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(value) = StoredFilter::decode(bytes) {
        let shapes: Vec<Shape> = value.members().iter().map(|member| *member.shape()).collect();
        let mut again = value.keys().encode(&shapes);
        value.members().iter().for_each(|member| again.extend(member.body()));
        prop_assert_eq!(&again, bytes);
        value.may_contain_hash(12_345);
        value.false_positive_rate();
        value.cardinality();
        let mut copy = bytes.to_vec();
        let mut changed = StoredFilter::decode_mut(&mut copy).unwrap();
        changed.insert_hash(7);
        prop_assert!(changed.may_contain_hash(7));
    }
    Ok(())
}

/// Errors are texts for users: each says what is at fault, and a policy's own words go through unchanged.
#[test]
fn errors_say_what_is_wrong() {
    let kinds = keys("skip");
    let (narrow, wide) = (empty(&kinds, &[shape(&kinds, 128, 3)]), empty(&kinds, &[shape(&kinds, 256, 4)]));
    let differ =
        StoredFilter::decode(&narrow).unwrap().must_fit(&StoredFilter::decode(&wide).unwrap()).unwrap_err();
    assert_eq!(differ.to_string(), "they differ in bits (128 and 256), probes (3 and 4)");
    assert_eq!(ValueError::Series(3).to_string(), "it is a series of 3 filters");
    let length = PolicyError::Length { expected: 16, found: 8 };
    assert_eq!(ValueError::from(length.clone()).to_string(), length.to_string());
    let many = PolicyError::Bits { policy: "skip", bits: 1, allowed: (64, 640, 64) };
    assert_eq!(many.to_string(), "a filter of policy skip has 64 to 640 bits in steps of 64, not 1");
    let geometry = |bits, seed| Geometry { bits, num_probes: 3, seed };
    let two =
        PolicyError::Mismatch { left: ("skip", geometry(64, 0)), right: ("leveldb", geometry(64, 255)) };
    assert_eq!(two.to_string(), "filters differ in policy (skip and leveldb), seed (0x0 and 0xff)");
}

#[test]
fn kept_copies_answer_alike_from_a_cache_line_on() {
    for keys in kinds() {
        let shapes = [shape(&keys, 1 << 12, 6), shape(&keys, 1 << 13, 7)];
        for shapes in [&shapes[..1], &shapes] {
            let value = filled(&keys, shapes, 300);
            let (stored, kept) =
                (StoredFilter::decode(&value[..]).unwrap(), KeptValue::copy(&value).unwrap());
            assert_eq!(kept.bytes(), value);
            assert_eq!((kept.bytes().as_ptr() as usize + kept.outline().start() as usize) % 64, 0);
            for hash in (0..2_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                assert_eq!(kept.may_contain_hash(hash), stored.may_contain_hash(hash));
            }
        }
    }
    assert!(KeptValue::copy(b"not a value").is_err());
}
